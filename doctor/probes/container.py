"""Fact host.container: whether this is a container, of which kind, with which mounts."""

from __future__ import annotations

import re
from typing import Any

from doctor.hosts.base import Host, data_of
from doctor.model import Evidence, Fact, Unknown
from doctor.probes.base import Facts, Probe
from doctor.probes.system import unread

MANY = 512
_CGROUP = re.compile(
    r"/(docker|lxc|isulad|containerd|kubepods)(?:/|\.payload|\.slice)|(docker|cri-containerd|crio|libpod)-[0-9a-f]{8}"
)
_RUNTIME = {"kubepods": "kubernetes", "libpod": "podman", "cri-containerd": "containerd", "crio": "cri-o"}
_OWN_FILE = re.compile(r"/(docker|containerd|containers|kubelet|isulad)/")
_DULL = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs", "bpf", "pstore")
"""File system types that say nothing about what was passed into a container."""
ALL_CAPABILITIES = 0x1FFFFFFFFF
"""Capabilities 0 to 36, which every kernel since 3.16 has; a privileged container holds all of them."""


def parse_mountinfo(text: str) -> list[dict[str, str]]:
    """Mounts of /proc/self/mountinfo, without those of kernel interfaces.

    ``source`` is the folder on the other side where it is known (a bind mount), else the device. Lines of another form
    are left out.
    """
    found = []
    for line in text.splitlines():
        left, dash, right = line.partition(" - ")
        words, rest = left.split(), right.split()
        if not dash or len(words) < 6 or len(rest) < 2 or rest[0] in _DULL:
            continue
        root, target = _plain(words[3]), _plain(words[4])
        found.append(
            {
                "source": root if root != "/" else _plain(rest[1]),
                "target": target,
                "type": rest[0],
                "options": words[5],
            }
        )
        if len(found) >= MANY:
            break
    return found


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda m: chr(int(m.group(1), 8)), text)


def read_container(host: Host, _: Facts) -> list[Fact | Unknown]:
    """{"inside", "runtime", "privileged", "kubernetes", "signs": [what told so], "mounts"}.

    ``runtime`` is docker, podman, kubernetes, containerd, lxc, singularity … or "" for a container of unknown kind;
    ``privileged`` None when the capabilities cannot be read.
    """
    signs: list[tuple[str, Evidence]] = []
    answered = False
    for pattern, runtime in (
        ("/.dockerenv", "docker"),
        ("/run/.containerenv", "podman"),
        ("/.singularity.d", "singularity"),
    ):
        raw = host.look(pattern)
        rows = data_of(raw)
        answered = answered or isinstance(rows, list)
        if isinstance(rows, list) and rows:
            signs.append((runtime, Evidence(pattern, 0, pattern)))
    cgroup = host.read("/proc/1/cgroup", 1 << 16)
    for number, line in enumerate(cgroup.out.splitlines(), 1):
        found = _CGROUP.search(line.rpartition(":")[2])
        if found:
            kind = found.group(1) or found.group(2)
            signs.append((_RUNTIME.get(kind, kind), Evidence("/proc/1/cgroup", number, line[:300])))
            break
    env = data_of(host.ask("env"))
    env = env if isinstance(env, dict) else {}
    told = env.get("container")
    if isinstance(told, str) and re.fullmatch(r"[a-z][a-z0-9-]{1,30}", told):
        signs.append(("lxc" if told.startswith("lxc") else told, Evidence("env", 0, f"container={told}")))
    kubernetes = bool(env.get("KUBERNETES_SERVICE_HOST"))
    if kubernetes:
        signs.append(("kubernetes", Evidence("env", 0, "KUBERNETES_SERVICE_HOST")))
    mountinfo = host.read("/proc/self/mountinfo", 1 << 20)
    mounts = parse_mountinfo(mountinfo.out)
    for number, line in enumerate(mountinfo.out.splitlines(), 1):
        words = line.split()
        # layers of the root and files that the runtime writes for the container lie in the runtime's own folder
        root = len(words) > 4 and words[4] == "/" and " - overlay " in line
        if root or (len(words) > 4 and words[4] in ("/etc/hostname", "/etc/resolv.conf", "/etc/hosts")):
            found = _OWN_FILE.search(line if root else words[3])
            if found:
                kind = {"containers": "podman", "kubelet": "kubernetes"}.get(found.group(1), found.group(1))
                signs.append((kind, Evidence("/proc/self/mountinfo", number, line[:300])))
                break
    if not signs and not answered and cgroup.state != "ok" and mountinfo.state != "ok":
        return [unread("host.container", cgroup if cgroup.state != "missing" else mountinfo)]
    kinds = [kind for kind, _ in signs]
    value: dict[str, Any] = {
        "inside": bool(signs),
        "runtime": "kubernetes" if "kubernetes" in kinds else next(iter(kinds), ""),
        "kubernetes": "kubernetes" in kinds,
        "privileged": _privileged(host.read("/proc/self/status", 1 << 14).out) if signs else None,
        "signs": [f"{seen.source}: {kind}" for kind, seen in signs],
        "mounts": mounts if signs else [],
    }
    seen = signs[0][1] if signs else Evidence("/proc/1/cgroup", 0, cgroup.out.strip()[:200])
    return [Fact("host.container", value, seen)]


def _privileged(status: str) -> bool | None:
    found = re.search(r"^CapBnd:\s*([0-9a-f]{1,16})$", status, re.M)
    return int(found.group(1), 16) & ALL_CAPABILITIES == ALL_CAPABILITIES if found else None


PROBES = (Probe("host.container", "env", read_container, ("host.container",)),)
