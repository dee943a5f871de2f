"""NPU514: what a container needs of the NPU and of the driver."""

from __future__ import annotations

from doctor.checks.environment.common import field, npu_here, servers
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

DEVICES = (("manager", "/dev/davinci_manager"), ("svm", "/dev/devmm_svm"), ("hdc", "/dev/hisi_hdc"))
INFO = "/etc/ascend_install.info"


def _files(files: Fact, several: bool) -> list[tuple[str, str, str]]:
    """(name, path that is missing, mount that brings it) of driver files that are not in this container."""
    root, there = files.value["root"], files.value["files"]
    wanted = [
        ("lib64", f"{root}/driver/lib64"),
        ("version", f"{root}/driver/version.info"),
        ("dcmi", "/usr/local/dcmi"),
        ("npu_smi", "/usr/local/bin/npu-smi"),
    ]
    if several:
        wanted += [("hccn_conf", "/etc/hccn.conf"), ("hccn_tool", f"{root}/driver/tools/hccn_tool")]
    # a folder in the place of a tool is a mount whose source was missing, which the rules of that tool tell
    folders = [name for name, kind in files.value["kinds"].items() if kind == "dir"]
    missing = [(name, path) for name, path in wanted if name in there and not there[name] and name not in folders]
    if files.value["info_state"] == "missing":
        missing.append(("install_info", INFO))
    return [(name, path, f"-v {path}:{path}") for name, path in missing]


def container_parts(
    files: Fact | Unknown, nodes: Fact, container: Fact, pci: Fact | Unknown, launch: Fact | Unknown
) -> Answer:
    """Device files and files of the driver inside a container.

    Every process opens a davinci file and the three of ``DEVICES`` and loads the libraries: without one of them an
    error. The others are for tools and version checks, hccn.conf and hccn_tool for runs on several servers: a warning.
    ``devices`` are the docker run options for missing devices; each missing mount stands under a name of its own, so
    that none is cut off.
    """
    if not container.value["inside"]:
        return not_applicable("not_container")
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    devices = [path for key, path in DEVICES if not nodes.value[key] and key not in nodes.value["unasked"]]
    if nodes.value["soc"]:
        devices = []
    if not nodes.value["devices"]:
        devices.insert(0, "/dev/davinci0")
    mounts = _files(files, (servers(launch) or 1) > 1) if isinstance(files, Fact) else []
    paths = [*devices, *(path for _, path, _ in mounts)]
    if not paths:
        return passed({"count": len(nodes.value["devices"])}, nodes.evidence)
    args = {
        "first": paths[:4],
        "count": len(paths),
        "runtime": field(container, "runtime") or "?",
        "devices": " ".join(f"--device {path}" for path in devices),
        **{name: mount for name, _, mount in mounts},
    }
    seen = [Evidence(f"ls -l {path}", 0, "No such file or directory") for path in paths[:6]]
    needed = bool(devices) or "lib64" in args
    return fail(args, *seen, container.evidence, severity=None if needed else "warning")
