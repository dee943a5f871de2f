"""NPU502, NPU503, NPU504, NPU520, ENV520, ENV523: device files, driver, kernel modules, PCIe link."""

from __future__ import annotations

from typing import Any

from doctor.checks.environment.common import field, inside_container, npu_here
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

NEEDED = (("manager", "/dev/davinci_manager"), ("svm", "/dev/devmm_svm"), ("hdc", "/dev/hisi_hdc"))


def _absent(path: str) -> Evidence:
    return Evidence(f"ls -l {path}", 0, "No such file or directory")


def _device(row: dict[str, Any] | None) -> bool:
    return row is not None and row["kind"] in ("char", "")


def device_files(nodes: Fact, pci: Fact | Unknown, container: Fact | Unknown) -> Answer:
    """Device files: manager, shared memory and HDC, and on a host one davinci file for each chip of the PCI bus.

    Fewer davinci files than chips is a warning, since the driver may need minutes after the start of the machine. A
    container may have been given only some of them.
    """
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    if nodes.value["soc"]:
        return passed({"count": len(nodes.value["devices"])}, nodes.evidence)
    unasked = nodes.value["unasked"]
    missing = [path for key, path in NEEDED if key not in unasked and not _device(nodes.value[key])]
    have, want = len(nodes.value["devices"]), field(pci, "count") or 0
    if not have:
        missing.insert(0, "/dev/davinci0")
    args = {"missing": missing, "have": have, "want": want or "?"}
    seen = pci.evidence if isinstance(pci, Fact) else None
    if missing:
        return fail(args, *map(_absent, missing), seen)
    if have < want and not inside_container(container):
        return fail({**args, "missing": ["/dev/davinci*"]}, nodes.evidence, seen, severity="warning")
    return passed({"count": have}, nodes.evidence)


def device_access(nodes: Fact, system: Fact | Unknown) -> Answer:
    """Whether this user may open the device files: mode 660 of the driver's group, 666 for an install for all."""
    rows: list[dict[str, Any]] = [*nodes.value["devices"], *(nodes.value[key] for key, _ in NEEDED if nodes.value[key])]
    if not rows:
        return not_applicable("no_npu")
    closed = [row for row in rows if row["use"] is False]
    name = field(system, "user") or "?"
    if closed:
        groups = sorted({row["group"] for row in closed})
        paths = [row["path"] for row in closed]
        args = {"user": name, "group": groups[0], "count": len(closed), "all": len(rows), "paths": paths[:4]}
        return fail(args, *(Evidence(f"ls -l {row['path']}", row["line"], row["text"]) for row in closed[:3]))
    if any(row["use"] is None for row in rows):
        return unknown("not_recorded")
    return passed({"user": name, "count": len(rows)}, nodes.evidence)


def driver_installed(files: Fact, pci: Fact | Unknown, nodes: Fact | Unknown, container: Fact | Unknown) -> Answer:
    """Whether the driver of a host is there and its installer came to the end.

    Neither install record nor version file on a host with chips is an error. A record of the newer form (it has
    Driver_Install_Mode) without Driver_Install_Status=complete is a warning and a guess: older drivers never write the
    key.
    """
    if inside_container(container):
        return not_applicable("in_container")
    info, version = files.value["info"], files.value["files"].get("version")
    seen = files.evidence
    if info is None and files.value["info_state"] == "denied":
        return unknown("denied", "as_root", what="/etc/ascend_install.info")
    if info is None and not version:
        here = npu_here(pci, nodes)
        if not here:
            return not_applicable("no_npu") if here is False else unknown("not_recorded")
        if nodes_work(nodes):
            return unknown("no_file", path="/etc/ascend_install.info")
        return fail({"state": "absent", "count": field(pci, "count") or "?"}, seen, field_evidence(pci))
    status = (info or {}).get("Driver_Install_Status")
    if info is not None and status is not None and status != "complete":
        return fail({"state": status, "status": status}, seen, severity="warning")
    if info is not None and status is None and "Driver_Install_Mode" in info:
        return fail({"state": "?", "status": "-"}, seen, severity="warning", confidence="guess")
    return passed({"root": files.value["root"]}, seen)


def nodes_work(nodes: Fact | Unknown) -> bool:
    return bool(field(nodes, "manager")) and bool(field(nodes, "devices"))


def field_evidence(fact: Fact | Unknown) -> Evidence | None:
    return fact.evidence if isinstance(fact, Fact) else None


def modules_loaded(
    modules: Fact | Unknown, pci: Fact | Unknown, nodes: Fact | Unknown, container: Fact | Unknown
) -> Answer:
    """Whether the kernel has the driver. Older closed drivers may have other names: a manager device proves it too."""
    if inside_container(container):
        return not_applicable("in_container")
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    if isinstance(modules, Unknown):
        return unknown(modules.why, modules.how, **modules.args)
    if "drv_pcie_host" in modules.value["loaded"] or field(nodes, "manager"):
        return passed({"count": len(modules.value["loaded"])}, modules.evidence)
    return fail({"loaded": modules.value["loaded"]}, modules.evidence, _absent("/dev/davinci_manager"))


def built_for_kernel(modules: Fact | Unknown, system: Fact, pci: Fact | Unknown, nodes: Fact | Unknown,
                     container: Fact | Unknown) -> Answer:  # fmt: skip
    """Whether the driver's module files belong to the running kernel; after an upgrade of the kernel without DKMS they
    stay with the old one."""
    if inside_container(container):
        return not_applicable("in_container")
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    if isinstance(modules, Unknown):
        return unknown(modules.why, modules.how, **modules.args)
    kernel, built = system.value["kernel"], modules.value["built_for"]
    args = {"kernel": kernel, "built": built}
    if "drv_pcie_host" in modules.value["loaded"] or (kernel and kernel in built):
        return passed(args, modules.evidence)
    if not built or not kernel:
        return unknown("no_file", path="/lib/modules/*/updates/drv_pcie_host.ko")
    return fail(args, Evidence("uname -r", 0, kernel), Evidence("ls /lib/modules/*/updates", 0, ", ".join(built)))


def pcie_link(pci: Fact) -> list[Answer] | Answer:
    """Width and speed of each chip's PCIe link: the vendor's script for Atlas 300 cards fails below eight lanes or
    8 GT/s. A warning for those cards, an advice for others, and for a link narrower than it could be and than that of
    another card of the kind here. Functions without a link of their own are left out."""
    if not pci.value["count"]:
        return not_applicable("no_npu")
    found, seen = [], 0
    for row in pci.value["devices"]:
        width, speed = row.get("width"), row.get("speed")
        if not width or not speed or width > 32:
            continue
        seen += 1
        wider = [
            r
            for r in pci.value["devices"]
            if r.get("family") == row.get("family") and width < (r.get("width") or 0) <= 32
        ]
        behind = bool(wider) and width < (row.get("max_width") or 0)
        if width < 8 or speed < 8 or behind:
            args = {"bus": row["bus"], "width": width, "speed": f"{speed:g}", "best": row.get("max_width") or "?"}
            evidence = Evidence(f"/sys/bus/pci/devices/{row['bus']}", 0, f"x{width}, {speed:g} GT/s")
            card = row.get("family") in ("310", "310P") and (width < 8 or speed < 8)
            found.append(fail(args, evidence, severity="warning" if card else "advice"))
    if not seen:
        return unknown("not_visible")
    return found or passed({"count": seen}, pci.evidence)
