"""NPU514, NPU560: what a container needs of the NPU and of the driver."""

from __future__ import annotations

from doctor.checks.environment.common import field, servers
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

DEVICES = (("manager", "/dev/davinci_manager"), ("svm", "/dev/devmm_svm"), ("hdc", "/dev/hisi_hdc"))


def _files(files: Fact | Unknown, several: bool) -> list[tuple[str, str, str]]:
    """(name, path that is missing, mount that brings it) of driver files that are not in this container."""
    root = field(files, "root") or "/usr/local/Ascend"
    there = field(files, "files") or {}
    wanted = [
        ("lib64", f"{root}/driver/lib64", f"-v {root}/driver/lib64:{root}/driver/lib64"),
        ("version", f"{root}/driver/version.info", f"-v {root}/driver/version.info:{root}/driver/version.info"),
        ("dcmi", "/usr/local/dcmi", "-v /usr/local/dcmi:/usr/local/dcmi"),
        ("npu_smi", "/usr/local/bin/npu-smi", "-v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi"),
    ]
    if several:
        tool = f"{root}/driver/tools/hccn_tool"
        wanted += [
            ("hccn_conf", "/etc/hccn.conf", "-v /etc/hccn.conf:/etc/hccn.conf"),
            ("hccn_tool", tool, f"-v {tool}:{tool}"),
        ]
    missing = [row for row in wanted if row[0] in there and not there[row[0]]]
    if field(files, "info_state") == "missing":
        path = "/etc/ascend_install.info"
        missing.append(("install_info", path, f"-v {path}:{path}"))
    return missing


def _missing_devices(nodes: Fact) -> list[str]:
    missing = [path for key, path in DEVICES if not nodes.value[key] and key not in nodes.value["unasked"]]
    return ([] if nodes.value["devices"] else ["/dev/davinci0"]) + missing


def _absent(path: str) -> Evidence:
    return Evidence(f"ls -l {path}", 0, "No such file or directory")


def container_devices(
    nodes: Fact, container: Fact, pci: Fact | Unknown, files: Fact | Unknown, launch: Fact | Unknown
) -> Answer:
    """Device files inside a container: at least one davinci file and the three that every process opens.

    ``devices`` are the docker run options for what is missing; the mounts of driver files that are missing too stand
    under their own names, so that none is cut off. A container without any device on a machine whose bus shows chips
    was started without its NPUs.
    """
    if not container.value["inside"]:
        return not_applicable("not_container")
    missing = _missing_devices(nodes)
    some = len(missing) < len(DEVICES) + 1
    if nodes.value["soc"] or not missing:
        return passed({"count": len(nodes.value["devices"])}, nodes.evidence)
    if not some and not field(pci, "count"):
        return not_applicable("no_npu") if isinstance(pci, Fact) else unknown("not_recorded")
    mounts = _files(files, (servers(launch) or 1) > 1)
    args = {
        "missing": missing,
        "devices": " ".join(f"--device {path}" for path in missing),
        "runtime": container.value["runtime"] or "?",
        **{name: mount for name, _, mount in mounts},
    }
    return fail(args, *map(_absent, missing), container.evidence)


def driver_mounts(files: Fact, nodes: Fact, container: Fact, launch: Fact | Unknown) -> Answer:
    """Files of the driver inside a container that has devices: the libraries are needed by every process, the others by
    tools and version checks; hccn.conf and hccn_tool by runs on several servers.

    An error without the libraries, else a warning. A container without devices is judged by the rule of its devices.
    """
    if not container.value["inside"]:
        return not_applicable("not_container")
    if not nodes.value["devices"]:
        return not_applicable("no_npu")
    missing = _files(files, (servers(launch) or 1) > 1)
    if not files.value["files"]:
        return unknown("not_recorded")
    if not missing:
        return passed({}, files.evidence)
    names = [name for name, _, _ in missing]
    paths = [path for _, path, _ in missing]
    args = {
        "missing": paths,
        "runtime": container.value["runtime"] or "?",
        **{name: mount for name, _, mount in missing},
    }
    return fail(args, *map(_absent, paths[:4]), container.evidence, severity=None if "lib64" in names else "warning")
