"""Facts npu.pci, npu.nodes, npu.modules, npu.driver_files, host.tools: what of an NPU the host itself shows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from doctor.hosts.base import Host, data_of, title
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes.base import Facts, Probe
from doctor.probes.system import unread

FAMILIES = {"d100": "310", "d500": "310P", "d801": "910A", "d802": "A2", "d803": "A3", "d806": "950"}
"""PCI device ids of vendor 19e5. Source: hicann/driver scripts/package, specific_func.inc and npu-healthcheck.sh."""

_LSPCI = re.compile(r"([0-9a-fA-F]{4,8}:)?([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s+(\S.*)")
_CHIP_NAME = re.compile(r"\bAscend\s?(310P|310|910_93|910B|910C|910|950)", re.I)
_NAMED = {"310P": "d500", "310": "d100", "910B": "d802", "910C": "d803", "910_93": "d803", "910": "d801", "950": "d806"}
_NODE = re.compile(r"/dev/(davinci\d{1,4}|davinci_manager\w{0,16}|devmm_svm\w{0,16}|hisi_hdc|svm\d{1,3}|[\w/.-]{1,64})")
_LS = re.compile(r"([-bcdlps])([-rwxsStT]{9})[.+@]?\s+\d+\s+(\S+)\s+(\S+)\s+.*?(/dev/\S+)\s*$")
MODULES = ("drv_pcie_host", "drv_pcie_hdc_host", "asdrv_svm", "asdrv_trs", "asdrv_pbl", "ts_agent", "drv_seclib_host")
"""Enough of the driver's modules to know it by; drv_pcie_host alone is the test (open-sourced driver, A2 and A3)."""

DRIVER = "/usr/local/Ascend"


# --- the PCI bus -----------------------------------------------------------------------------------------------------


def parse_lspci(text: str) -> list[dict[str, Any]]:
    """Ascend chips in lspci output of any form (plain, -nn, -n, -D): [{"bus", "id", "family", "line"}].

    ``bus`` with its domain, as npu-smi writes it; ``family`` is 910A, A2, A3, 950, 310P, 310 or "" for an id this
    version does not know. Other Huawei devices (network, RAID, management) are no chips.
    """
    found = []
    for number, line in enumerate(text.splitlines()[:20000], 1):
        match = _LSPCI.match(line.strip()) if len(line) < 1000 else None
        if match is None:
            continue
        domain, address, rest = match.groups()
        device = _chip(rest)
        if device is not None:
            bus = f"{(domain or '0000:').lower()}{address.lower()}"
            row = {"bus": bus, "id": device, "family": FAMILIES.get(device, ""), "line": number}
            found.append(row)
    return found


def _chip(text: str) -> str | None:
    """The device id of an Ascend chip in the part of an lspci line after the address, None of anything else."""
    ids = re.search(r"\b19e5:([0-9a-f]{4})\b", text, re.I)
    named = re.search(r"\bDevice ([0-9a-f]{4})\b", text)
    if ids is None and "Huawei" not in text:
        return None
    device = ids.group(1).lower() if ids else named.group(1) if named else ""
    if device in FAMILIES:
        return device
    chip = _CHIP_NAME.search(text)
    if chip:
        return _NAMED[chip.group(1).upper()]
    accelerator = text.startswith("Processing accelerators") or re.match(r"(?:\[?12\d\d\]?)\s*:", text)
    return device or "?" if accelerator else None


def read_pci(host: Host, _: Facts) -> list[Fact | Unknown]:
    """npu.pci {"count", "devices": [{"bus", "id", "family", "speed", "width", "max_speed", "max_width", "numa"}],
    "family"}: lspci in the form that is there, else sysfs. No chip is an answer, not a gap."""
    bus = host.ask("pci")
    seen = data_of(bus)
    links = _links(seen)
    for command in (("lspci", "-D", "-n", "-d", "19e5:"), ("lspci", "-d", "19e5:"), ("lspci",)):
        raw = host.run(*command)
        if raw.state == "ok" and not raw.code:
            rows = parse_lspci(raw.out)
            lines = raw.out.splitlines()
            first = rows[0]["line"] if rows else 0
            evidence = Evidence(title(raw.key), first, lines[first - 1].strip() if first else f"{len(lines)} lines")
            return [_pci([{**row, **links.get(row["bus"], {})} for row in rows], evidence)]
    if not isinstance(seen, dict) or not isinstance(seen.get("devices"), list):
        return [unread("npu.pci", bus)]
    rows = []
    for bus_id, row in links.items():
        device = str(row.get("device"))
        if device in FAMILIES or str(row.get("class", "")).startswith("12"):
            rows.append({"bus": bus_id, "id": device, "family": FAMILIES.get(device, ""), "line": 0, **row})
    total = seen.get("total")
    if not rows and not total:
        return [Unknown("npu.pci", "no_file", "", {"path": "/sys/bus/pci/devices"})]
    return [_pci(rows, Evidence("/sys/bus/pci/devices", 0, f"{total} functions, {len(rows)} Ascend"))]


def _links(seen: Any) -> dict[str, dict[str, Any]]:
    rows = seen.get("devices") if isinstance(seen, dict) else None
    found: dict[str, dict[str, Any]] = {}
    for row in rows[:1024] if isinstance(rows, list) else ():
        if isinstance(row, dict) and isinstance(row.get("bus"), str):
            numbers = {
                key: row.get(key)
                for key in ("speed", "width", "max_speed", "max_width", "numa")
                if isinstance(row.get(key), (int, float)) and not isinstance(row.get(key), bool)
            }
            words = {key: str(row.get(key))[:64] for key in ("device", "class", "subsystem", "driver") if row.get(key)}
            found[row["bus"].lower()] = {**numbers, **words}
    return found


def _pci(rows: list[dict[str, Any]], evidence: Evidence) -> Fact:
    families = sorted({str(row["family"]) for row in rows if row["family"]})
    value = {"count": len(rows), "devices": rows, "family": families[0] if len(families) == 1 else ""}
    return Fact("npu.pci", value, evidence)


# --- device files ----------------------------------------------------------------------------------------------------


def parse_nodes(text: str) -> list[dict[str, Any]]:
    """Device files in the JSON of a ``look`` or in the lines of ``ls -l``: [{"path", "kind", "mode", "user", "group",
    "r", "w", "line"}]; ``r`` and ``w`` are None where the text does not tell."""
    rows: list[dict[str, Any]] = []
    if text.lstrip().startswith("["):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return []
        for row in data[:4096] if isinstance(data, list) else ():
            if isinstance(row, dict) and isinstance(row.get("path"), str):
                words = {key: str(row.get(key) or "")[:256] for key in ("path", "kind", "mode", "user", "group")}
                may = {key: row.get(key) if isinstance(row.get(key), bool) else None for key in ("r", "w")}
                rows.append({**words, **may, "line": 0})
        return rows
    for number, line in enumerate(text.splitlines()[:4096], 1):
        match = _LS.match(line.strip()) if len(line) < 500 else None
        if match:
            kind, bits, user, group, path = match.groups()
            kinds = {"c": "char", "b": "block", "d": "dir", "l": "link", "-": "file", "s": "socket", "p": "fifo"}
            rows.append(
                {
                    "path": path,
                    "kind": kinds[kind],
                    "mode": _octal(bits),
                    "user": user,
                    "group": group,
                    "r": None,
                    "w": None,
                    "line": number,
                }
            )
    return rows


def _octal(bits: str) -> str:
    """``rw-rw----`` → 660."""
    return "".join(
        str(sum(value for value, char in zip((4, 2, 1), bits[n : n + 3], strict=False) if char not in "-ST"))
        for n in (0, 3, 6)
    )


def may_use(row: Mapping[str, Any], user: Mapping[str, Any]) -> bool | None:
    """Whether a user may read and write a device file: as tried on the machine, else by mode, owner and groups.

    None when neither is known. ``user`` has the keys uid (or root), user and groups.
    """
    if isinstance(row["r"], bool) and isinstance(row["w"], bool):
        return bool(row["r"] and row["w"])
    mode = str(row["mode"])[-3:]
    if not re.fullmatch(r"[0-7]{3}", mode):
        return None
    needed = 6
    if int(mode[2]) & needed == needed:
        return True
    if user.get("root") is True or user.get("uid") == 0:
        return True
    if user.get("user") is None or user.get("groups") is None:
        return None
    if row["user"] == user["user"]:
        return int(mode[0]) & needed == needed
    return row["group"] in user["groups"] and int(mode[1]) & needed == needed


NODE_PATTERNS = (
    "/dev/davinci*",
    "/dev/davinci_manager",
    "/dev/devmm_svm",
    "/dev/hisi_hdc",
    "/dev/svm0",
    "/dev/ts_aisle",
)


def read_nodes(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """npu.nodes {"devices": [{"number", "path", "mode", "user", "group", "use"}], "manager", "svm", "hdc", "soc",
    "unasked"}.

    ``use`` says whether this user may open it (None: not known). ``soc`` are the files of small boards, which have no
    manager of the other kind. ``unasked`` names manager, svm, hdc that nobody looked for (a paste of ls).
    """
    raws = [host.look(pattern) for pattern in NODE_PATTERNS]
    if not any(raw.state == "ok" for raw in raws):
        return [unread("npu.nodes", raws[0])]
    system = facts.get("host.system")
    user = system.value if isinstance(system, Fact) and isinstance(system.value, Mapping) else {}
    value: dict[str, Any] = {"devices": [], "manager": None, "svm": None, "hdc": None, "soc": [], "unasked": []}
    evidence = None
    done = set()
    for raw in raws:
        lines = raw.out.splitlines()
        for row in parse_nodes(raw.out) if raw.state == "ok" else ():
            path = row["path"]
            if path in done or not _NODE.fullmatch(path):
                continue
            done.add(path)
            row["use"] = may_use(row, user)
            name = path.removeprefix("/dev/")
            row["text"] = lines[row["line"] - 1].strip() if row["line"] else _line(row)
            if re.fullmatch(r"davinci\d{1,4}", name):
                value["devices"].append({"number": int(name[7:]), **row})
            elif name == "davinci_manager":
                value["manager"] = row
            elif name == "devmm_svm":
                value["svm"] = row
            elif name == "hisi_hdc":
                value["hdc"] = row
            elif name in ("svm0", "ts_aisle"):
                value["soc"].append(row)
            else:
                continue
            evidence = evidence or Evidence(f"ls -l {raw.key.partition(' ')[2]}", row["line"], row["text"])
    asked = {raw.key.partition(" ")[2] for raw in raws if raw.state == "ok"}
    value["unasked"] = [
        key
        for key, pattern in (("manager", "/dev/davinci*"), ("svm", "/dev/devmm_svm"), ("hdc", "/dev/hisi_hdc"))
        if not value[key] and pattern not in asked
    ]
    value["devices"].sort(key=lambda row: int(row["number"]))
    return [Fact("npu.nodes", value, evidence or Evidence("ls -l /dev/davinci*", 0, "No such file or directory"))]


def _line(row: Mapping[str, Any]) -> str:
    return f"{row['mode']} {row['user']}:{row['group']} {row['path']}"


# --- kernel modules --------------------------------------------------------------------------------------------------


def parse_modules(text: str) -> list[str]:
    """Names in lsmod output or /proc/modules."""
    names = []
    for line in text.splitlines()[:8192]:
        words = line.split(None, 2)
        if len(words) >= 2 and words[1].isdigit() and re.fullmatch(r"\w{1,128}", words[0]):
            names.append(words[0])
    return names


def read_modules(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """npu.modules {"loaded": driver modules, "count": all modules, "built_for": kernels with the driver's files}."""
    raw = host.read("/proc/modules")
    if raw.state != "ok":
        raw = host.run("lsmod")
    if raw.state != "ok" or raw.code:
        return [unread("npu.modules", raw)]
    names = parse_modules(raw.out)
    loaded = [name for name in names if name in MODULES or name.startswith(("asdrv_", "drv_pcie_h", "ascend_"))]
    built = set()
    for pattern in ("/lib/modules/*/updates/drv_pcie_host.ko*", "/lib/modules/*/*/drv_pcie_host.ko*"):
        rows = data_of(host.look(pattern))
        for row in rows if isinstance(rows, list) else ():
            path = str(row.get("path", "")) if isinstance(row, dict) else ""
            if path.startswith("/lib/modules/") and path.count("/") > 4:
                built.add(path.split("/")[3])
    lines = raw.out.splitlines()
    line = next((n for n, text in enumerate(lines, 1) if text.startswith("drv_pcie_host ")), 0)
    evidence = Evidence(title(raw.key), line, lines[line - 1] if line else f"{len(names)} modules, no drv_pcie_host")
    value = {"loaded": sorted(loaded), "count": len(names), "built_for": sorted(built)}
    return [Fact("npu.modules", value, evidence)]


# --- files of the driver ---------------------------------------------------------------------------------------------


def parse_install_info(text: str) -> dict[str, str]:
    """KEY=VALUE lines of /etc/ascend_install.info."""
    found = {}
    for line in text.splitlines()[:256]:
        key, equal, value = line.strip().partition("=")
        if equal and re.fullmatch(r"\w{1,64}", key):
            found[key] = value.strip().strip("\"'")[:512]
    return found


def read_driver_files(host: Host, _: Facts) -> list[Fact | Unknown]:
    """npu.driver_files {"info": table of /etc/ascend_install.info or None, "info_state", "root", "files": {name: path
    or None}, "kinds": {name: kind of file}}.

    ``files`` are dcmi, npu_smi, lib64, version, hccn_conf, hccn_tool: the path where it is, None where it is not; a
    name that could not be looked for is absent.
    """
    raw = host.read("/etc/ascend_install.info", 1 << 16)
    info = parse_install_info(raw.out) if raw.state == "ok" else None
    root = (info or {}).get("Driver_Install_Path_Param", "")
    root = root.rstrip("/") if re.fullmatch(r"(?:/[\w.+-]{1,64}){1,8}/?", root) else DRIVER
    places = {
        "dcmi": ("/usr/local/dcmi", "/usr/local/dcmi/libdcmi.so"),
        "npu_smi": ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi"),
        "lib64": (f"{root}/driver/lib64",),
        "hccn_tool": (f"{root}/driver/tools/hccn_tool",),
    }
    files: dict[str, str | None] = {}
    kinds: dict[str, str] = {}
    answered = raw.state in ("ok", "missing", "denied")
    for name, paths in places.items():
        for path in paths:
            rows = data_of(host.look(path))
            if not isinstance(rows, list):
                continue
            answered = True
            files.setdefault(name, None)
            if rows and isinstance(rows[0], dict):
                kinds[name] = str(rows[0].get("kind", ""))
                # a mount of a tool whose source was missing becomes a folder: it is not the tool
                if name in ("dcmi", "lib64") or kinds[name] != "dir":
                    files[name] = path
                    break
    for name, path in (("version", f"{root}/driver/version.info"), ("hccn_conf", "/etc/hccn.conf")):
        state = host.read(path, 1 << 16).state
        # what may not be read is there, but only root's own file tells that much
        if state in ("ok", "missing") or (state == "denied" and name == "hccn_conf"):
            answered = True
            files[name] = None if state == "missing" else path
    if not answered:
        return [unread("npu.driver_files", raw)]
    value = {"info": info, "info_state": raw.state, "root": root, "files": files, "kinds": kinds}
    return [Fact("npu.driver_files", value, _install_line(raw, info))]


def _install_line(raw: Raw, info: Mapping[str, str] | None) -> Evidence:
    path = "/etc/ascend_install.info"
    if info is None:
        return Evidence(path, 0, raw.err.strip()[:200] or raw.state)
    for number, line in enumerate(raw.out.splitlines(), 1):
        if line.startswith("Driver_Install_Status"):
            return Evidence(path, number, line.strip())
    return Evidence(path, 0, f"{len(info)} keys, no Driver_Install_Status")


def read_tools(host: Host, _: Facts) -> list[Fact | Unknown]:
    """host.tools {"lspci", "lscpu": state of the answer}: what core binding of msrun asks."""
    states: dict[str, str] = {}
    for name, command in (
        ("lspci", ("lspci", "-D", "-n", "-d", "19e5:")),
        ("lspci", ("lspci", "-d", "19e5:")),
        ("lspci", ("lspci",)),
        ("lscpu", ("lscpu",)),
    ):
        if states.get(name) in (None, "missing", "not_recorded"):
            states[name] = host.run(*command).state
    if all(state == "not_recorded" for state in states.values()):
        return [Unknown("host.tools", "not_recorded")]
    return [Fact("host.tools", states, Evidence("command -v " + " ".join(states), 0, str(states)))]


PROBES = (
    Probe("npu.pci", "npu", read_pci, ("npu.pci",)),
    Probe("npu.nodes", "npu", read_nodes, ("npu.nodes",), ("host.system",)),
    Probe("npu.modules", "npu", read_modules, ("npu.modules",)),
    Probe("npu.driver_files", "npu", read_driver_files, ("npu.driver_files",)),
    Probe("host.tools", "env", read_tools, ("host.tools",)),
)
