"""What the doctor itself reads of the machine it runs on: plain files of /proc, /sys and /etc, a few system calls.

``SENSORS`` maps a name to a function of a ``Ground`` that returns data for JSON. A sensor takes well under 50 ms,
writes nothing, and answers junk or a missing file with ``None`` or an empty list, never with an exception that a
caller must expect. What waits for others (a dead NFS mount, a slow resolver, the target interpreter) is bounded in
time. Sizes are bytes unless a name says otherwise; ``None`` means not readable here.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time as clock
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple


class Ground(NamedTuple):
    """Where a sensor looks: ``root`` is put before every absolute path (tests), ``environ`` is the environment of the
    user (None: that of this process)."""

    root: str = "/"
    environ: Mapping[str, str] | None = None

    @property
    def env(self) -> Mapping[str, str]:
        return os.environ if self.environ is None else self.environ

    def at(self, path: str) -> str:
        return path if self.root == "/" else os.path.join(self.root, path.lstrip("/"))


HERE = Ground()

ENV_PREFIXES = (
    "ACL_",
    "ASCEND",
    "ATB",
    "CANN",
    "CM_",
    "CUDA_VISIBLE",
    "DEVICE",
    "DUMP",
    "GLOG",
    "HCCL",
    "HCCN",
    "LC_",
    "LCAL",
    "MALLOC_",
    "MASTER_",
    "MINDSPORE",
    "MS_",
    "NCCL",
    "NNAL",
    "NPU",
    "NSLB",
    "OMP",
    "OPENBLAS_",
    "OPP",
    "PYTORCH_",
    "RANK",
    "TE_",
    "TBE",
    "TORCH_",
)
ENV_NAMES = (
    "CONDA_PREFIX",
    "GLIBC_TUNABLES",
    "HOME",
    "HOSTTYPE",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "PATH",
    "PYTHONHASHSEED",
    "PYTHONHOME",
    "PYTHONIOENCODING",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONUTF8",
    "SERVER_ID",
    "SLURM_JOB_ID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "TASK_QUEUE_ENABLE",
    "TMPDIR",
    "TOOLCHAIN_HOME",
    "TZ",
    "VIRTUAL_ENV",
    "WORLD_SIZE",
    "container",
)
ENV_PRESENCE = ("ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "KUBERNETES_SERVICE_HOST", "NO_PROXY")
"""Only that they are set is told (in any case of letters), as "set": a proxy address may hold a password."""

_SECRET = re.compile(r"(?i)token|secret|passw|credential|api_?key|private_?key|access_?key")
_VALUE_LIMIT = 32768
PYTHON_LIMIT = 5.0
"""Seconds the target interpreter may take."""
WAIT_LIMIT = 1.0
"""Seconds a resolver or a file system may take."""


# --- small readers ---------------------------------------------------------------------------------------------------


def _text(path: str, size: int = 1 << 16) -> str | None:
    """At most ``size`` bytes of a file as text, None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    word = (text or "").strip()
    return int(word) if re.fullmatch(r"-?[0-9]{1,19}", word) else None


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def _in_time(tasks: Mapping[str, Callable[[], Any]], limit: float = WAIT_LIMIT) -> dict[str, Any]:
    """Run each task in a thread of its own; the value, or None where it raised, or "timeout" where it still runs."""
    got: dict[str, Any] = {}

    def work(name: str, task: Callable[[], Any]) -> None:
        try:
            got[name] = task()
        except Exception:
            got[name] = None

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in tasks.items()]
    until = clock.monotonic() + limit
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - clock.monotonic()))
    return {name: got.get(name, "timeout") for name in tasks}


def _own_cgroups(ground: Ground) -> dict[str, str]:
    """Controller ("" for version 2) → path of the cgroup of this process below its mount point."""
    found: dict[str, str] = {}
    for line in (_text(ground.at("/proc/self/cgroup")) or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            for name in parts[1].split(","):
                found[name] = parts[2]
    return found


def _cgroup_folders(ground: Ground, controller: str) -> Iterable[tuple[str, int]]:
    """(folder, version) of every cgroup that this process is in, from its own up to the root of what is visible."""
    own = _own_cgroups(ground)
    for base, path, version in (
        (f"/sys/fs/cgroup/{controller}", own.get(controller, "/"), 1),
        ("/sys/fs/cgroup", own.get("", "/"), 2),
        ("/sys/fs/cgroup/unified", own.get("", "/"), 2),
    ):
        if os.path.isdir(ground.at(base)):
            parts = [part for part in path.split("/") if part not in ("", "..")][:32]
            for depth in range(len(parts), -1, -1):
                yield ground.at("/".join([base, *parts[:depth]])), version


def _cgroup_files(ground: Ground, controller: str, v1: str, v2: str) -> Iterable[str]:
    """Texts of one setting, the own cgroup first; "" is a setting that the version does not have."""
    for folder, version in _cgroup_folders(ground, controller):
        name = v1 if version == 1 else v2
        text = _text(f"{folder}/{name}") if name else None
        if text is not None:
            yield text


def _cgroup_bound(
    ground: Ground, controller: str, v1: tuple[str, str], v2: tuple[str, str]
) -> tuple[int | None, int | None]:
    """(limit, used) of the cgroup that leaves this process least room, of those above it too; (None, used) of its own
    where none has a limit ("max", or the huge number of version 1).

    Memory that holds cached files does not count as used: the kernel takes it back before it kills anybody.
    """
    own: int | None = None
    best: tuple[int, int] | None = None
    for folder, version in _cgroup_folders(ground, controller):
        names = v1 if version == 1 else v2
        limit, used = (_number(_text(f"{folder}/{name}")) for name in names)
        if used is None:
            continue
        if controller == "memory":
            used = max(0, used - _cached(_text(f"{folder}/memory.stat") or ""))
        own = used if own is None else own
        if limit is not None and 0 <= limit < 1 << 60 and (best is None or limit - used < best[0] - best[1]):
            best = limit, used
    return best or (None, own)


def _cached(stat: str) -> int:
    """Bytes of files in the page cache of a cgroup, by its memory.stat (total_… are the figures with its children)."""
    found = {key: int(value) for key, value in re.findall(r"^(\w{1,40}) (\d{1,18})$", stat, re.M)}
    return sum(found.get(f"total_{name}", found.get(name, 0)) for name in ("active_file", "inactive_file"))


# --- the sensors -----------------------------------------------------------------------------------------------------


def system(ground: Ground = HERE) -> dict[str, Any]:
    """Names and versions of machine, kernel, distribution and C/C++ libraries.

    ``libstdcxx`` is the highest GLIBCXX_x.y.z that the system's libstdc++.so.6 offers; ``modules`` are the folders of
    /lib/modules (kernels installed).
    """
    name = os.uname()
    release: dict[str, str] = {}
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        text = _text(ground.at(path))
        if text is not None:
            for line in text.splitlines():
                key, equal, value = line.partition("=")
                if equal:
                    release[key.strip()] = value.strip().strip("\"'")
            break
    try:
        glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").removeprefix("glibc ") or None
    except (ValueError, OSError):
        glibc = None
    product = _text(ground.at("/sys/class/dmi/id/product_name"))
    flags = _text(ground.at("/proc/cpuinfo"), 16384) or ""
    return {
        "hostname": name.nodename,
        "kernel": name.release,
        "kernel_version": name.version,
        "arch": name.machine,
        "os": release.get("PRETTY_NAME"),
        "os_id": release.get("ID"),
        "os_version": release.get("VERSION_ID"),
        "glibc": glibc,
        "libstdcxx": _libstdcxx(ground, name.machine),
        "product": product.strip() if product else None,
        "virtual": " hypervisor" in flags,
        "modules": _names(ground.at("/lib/modules")),
        "uptime": _uptime(ground),
    }


def _uptime(ground: Ground) -> float | None:
    word = (_text(ground.at("/proc/uptime")) or "").split()
    try:
        return float(word[0])
    except (IndexError, ValueError):
        return None


def _libstdcxx(ground: Ground, machine: str) -> str | None:
    multi = f"/usr/lib/{machine}-linux-gnu"
    for folder in (multi, "/usr/lib64", "/lib64", "/usr/lib", "/usr/local/lib64"):
        try:
            with open(ground.at(f"{folder}/libstdc++.so.6"), "rb") as file:
                data = file.read(8 << 20)
        except OSError:
            continue
        found = {
            tuple(map(int, m.split(b"."))) for m in re.findall(rb"GLIBCXX_([0-9]{1,3}(?:\.[0-9]{1,3}){1,2})\0", data)
        }
        return ".".join(map(str, max(found))) if found else None
    return None


def env(ground: Ground = HERE) -> dict[str, str]:
    """The variables that matter to a training run: ``ENV_PREFIXES``, ``ENV_NAMES``; ``ENV_PRESENCE`` as "set"."""
    found: dict[str, str] = {}
    for name, value in sorted(ground.env.items()):
        if name.upper() in ENV_PRESENCE:
            found[name] = "set"
        elif name in ENV_NAMES or name.startswith(ENV_PREFIXES):
            found[name] = "set" if _SECRET.search(name) else value[:_VALUE_LIMIT]
    return found


def user(ground: Ground = HERE) -> dict[str, Any]:
    """Who runs: uid, gid, names of the groups of this process (numbers where a group has no name)."""
    import grp
    import pwd

    def group(number: int) -> str:
        try:
            return grp.getgrgid(number).gr_name
        except (KeyError, OverflowError):
            return str(number)

    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    groups = sorted({group(number) for number in (os.getegid(), *os.getgroups())})
    return {"user": name, "uid": uid, "gid": os.getegid(), "groups": groups, "root": uid == 0, "umask": _umask(ground)}


def _umask(ground: Ground) -> str | None:
    found = re.search(r"^Umask:\s*([0-7]{3,4})", _text(ground.at("/proc/self/status")) or "", re.M)
    return found.group(1) if found else None


def memory(ground: Ground = HERE) -> dict[str, Any]:
    """/proc/meminfo in bytes and the limit of the cgroup that leaves least room.

    ``oom_kills`` counts the processes killed in this cgroup for want of memory, ``swappiness`` and ``overcommit`` are
    the kernel's settings.
    """
    fields: dict[str, int] = {}
    for line in (_text(ground.at("/proc/meminfo")) or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            fields[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    events = next(iter(_cgroup_files(ground, "memory", "memory.oom_control", "memory.events")), "")
    limit, used = _cgroup_bound(
        ground,
        "memory",
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("memory.max", "memory.current"),
    )
    kills = re.search(r"^oom_kill (\d{1,12})$", events, re.M)
    return {
        "total": fields.get("MemTotal"),
        "available": fields.get("MemAvailable"),
        "free": fields.get("MemFree"),
        "shmem": fields.get("Shmem"),
        "swap_total": fields.get("SwapTotal"),
        "swap_free": fields.get("SwapFree"),
        "hugepages_total": fields.get("HugePages_Total"),
        "hugepages_free": fields.get("HugePages_Free"),
        "hugepage_size": fields.get("Hugepagesize"),
        "cgroup_limit": limit,
        "cgroup_used": used,
        "oom_kills": int(kills.group(1)) if kills else None,
        "swappiness": _number(_text(ground.at("/proc/sys/vm/swappiness"))),
        "overcommit": _number(_text(ground.at("/proc/sys/vm/overcommit_memory"))),
        "numa_balancing": _number(_text(ground.at("/proc/sys/kernel/numa_balancing"))),
    }


def _space(path: str) -> dict[str, Any]:
    """Size, room for an ordinary user and inodes of the file system that holds ``path``, or its nearest parent that
    exists. File systems without a fixed number of inodes (btrfs, some network ones) give None for them."""
    real = os.path.realpath(path)
    while not os.path.exists(real) and real != "/":
        real = os.path.dirname(real)
    room = os.statvfs(real)
    inodes = room.f_files or None
    return {
        "real": real,
        "size": room.f_frsize * room.f_blocks,
        "available": room.f_frsize * room.f_bavail,
        "inodes": inodes,
        "inodes_free": room.f_favail if inodes else None,
        "read_only": bool(room.f_flag & getattr(os, "ST_RDONLY", 1)),
        "writable": os.access(real, os.W_OK),
        "device": os.stat(real).st_dev,
    }


def _home(ground: Ground) -> str:
    return ground.env.get("HOME") or os.path.expanduser("~")


def disks(ground: Ground = HERE) -> list[dict[str, Any]]:
    """Where a training run writes: [{"use", "path", "real", "size", "available", "inodes", "inodes_free", …}].

    ``use`` is home, cwd, tmp, ascend_log, kernel_cache, compile_cache, glog or shm. A file system that does not answer
    within a second gets ``"state": "timeout"``, one that cannot be asked "failed", the others "ok".
    """
    env, home = ground.env, _home(ground)
    try:
        cwd = os.getcwd()
    except OSError:
        cwd = ""
    places = {
        "home": home,
        "cwd": cwd,
        "tmp": env.get("TMPDIR") or "/tmp",  # noqa: S108 - looked at, never written
        "ascend_log": env.get("ASCEND_PROCESS_LOG_PATH") or os.path.join(home, "ascend", "log"),
        "kernel_cache": env.get("ASCEND_CACHE_PATH") or os.path.join(cwd, "kernel_meta"),
        "compile_cache": env.get("MS_COMPILER_CACHE_PATH") or "",
        "glog": env.get("GLOG_log_dir") or "",
        "shm": "/dev/shm",  # noqa: S108
    }
    places = {use: path for use, path in places.items() if path}
    seen = _in_time({use: partial(_space, ground.at(path)) for use, path in places.items()})
    found = []
    for use, path in places.items():
        got = seen[use]
        row: dict[str, Any] = {"use": use, "path": path}
        row |= {"state": "ok", **got} if isinstance(got, dict) else {"state": "timeout" if got else "failed"}
        if ground.root != "/" and isinstance(got, dict):
            row["real"] = "/" + os.path.relpath(got["real"], os.path.realpath(ground.root)).lstrip("./")
        found.append(row)
    return found


def shm(ground: Ground = HERE) -> dict[str, Any]:
    """Shared memory of this container or host: size and room of /dev/shm, its mount options."""
    path = "/dev/shm"  # noqa: S108 - looked at, never written
    got = _in_time({"shm": lambda: _space(ground.at(path))})["shm"] if os.path.isdir(ground.at(path)) else None
    options = ""
    for line in (_text(ground.at("/proc/self/mounts"), 1 << 18) or "").splitlines():
        words = line.split()
        if len(words) > 3 and words[1] == path:
            options = f"{words[2]} {words[3]}"
    space = got if isinstance(got, dict) else {}
    return {
        "exists": isinstance(got, dict),
        "size": space.get("size"),
        "available": space.get("available"),
        "writable": space.get("writable"),
        "mount": options,
    }


LIMITS = ("nofile", "nproc", "memlock", "core", "stack", "as", "data", "fsize")


def limits(ground: Ground = HERE) -> dict[str, Any]:
    """Resource limits of this process as [soft, hard], -1 is unlimited; sizes in bytes, nofile and nproc are counts.

    Also the kernel's own ceilings (``file_max``, ``pid_max``, ``threads_max``) and the process limit of the own cgroup
    (``pids_limit``, ``pids_used``), which a container or a systemd slice sets; ``core_pattern`` says where cores go.
    """
    import resource

    found: dict[str, Any] = {}
    for name in LIMITS:
        number = getattr(resource, f"RLIMIT_{name.upper()}", None)
        if number is not None:
            found[name] = [-1 if value == resource.RLIM_INFINITY else value for value in resource.getrlimit(number)]
    for key, path in (
        ("file_max", "/proc/sys/fs/file-max"),
        ("pid_max", "/proc/sys/kernel/pid_max"),
        ("threads_max", "/proc/sys/kernel/threads-max"),
        ("max_map_count", "/proc/sys/vm/max_map_count"),
    ):
        found[key] = _number(_text(ground.at(path)))
    found["core_pattern"] = (_text(ground.at("/proc/sys/kernel/core_pattern"), 256) or "").strip() or None
    names = ("pids.max", "pids.current")
    found["pids_limit"], found["pids_used"] = _cgroup_bound(ground, "pids", names, names)
    return found


def cpu(ground: Ground = HERE) -> dict[str, Any]:
    """CPUs of the machine and those this process may use.

    ``count`` online CPUs, ``allowed`` the CPU numbers of the affinity mask, ``quota`` CPUs that the cgroup grants (a
    fraction; None without a limit), ``numa`` node → CPU list as the kernel writes it, ``governors`` governor → number
    of CPUs (empty where cpufreq is not visible), ``load`` the three load averages.
    """
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except OSError:
        allowed = []
    base = ground.at("/sys/devices/system/cpu")
    governors: dict[str, int] = {}
    for name in _names(base):
        if re.fullmatch(r"cpu\d{1,5}", name):
            text = _text(f"{base}/{name}/cpufreq/scaling_governor", 64)
            if text:
                governors[text.strip()] = governors.get(text.strip(), 0) + 1
    nodes = ground.at("/sys/devices/system/node")
    numa = {
        name[4:]: (_text(f"{nodes}/{name}/cpulist", 4096) or "").strip()
        for name in _names(nodes)
        if re.fullmatch(r"node\d{1,4}", name)
    }
    info = _text(ground.at("/proc/cpuinfo"), 16384) or ""
    model = re.search(r"^(?:model name|Model Name|Hardware)\s*:\s*(\S.{0,120})", info, re.M)
    words = (_text(ground.at("/proc/loadavg")) or "").split()[:3]
    try:
        load: list[float] | None = [float(word) for word in words] if len(words) == 3 else None
    except ValueError:
        load = None
    return {
        "count": os.cpu_count(),
        "allowed": allowed,
        "quota": _quota(ground),
        "numa": numa,
        "model": model.group(1).strip() if model else None,
        "governors": governors,
        "load": load,
        "smt": _number(_text(ground.at("/sys/devices/system/cpu/smt/active"))),
    }


def _quota(ground: Ground) -> float | None:
    """CPUs granted by cgroup version 2 (cpu.max "200000 100000") or 1 (cfs_quota_us / cfs_period_us)."""
    shares: list[float] = []
    for text in _cgroup_files(ground, "none", "", "cpu.max"):
        words = text.split()
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):
            shares.append(int(words[0]) / int(words[1]))
    for controller in ("cpu", "cpu,cpuacct"):
        quotas = list(_cgroup_files(ground, controller, "cpu.cfs_quota_us", ""))
        periods = list(_cgroup_files(ground, controller, "cpu.cfs_period_us", ""))
        for quota, period in zip(map(_number, quotas), map(_number, periods), strict=False):
            if quota and period and quota > 0 and period > 0:
                shares.append(quota / period)
    return round(min(shares), 2) if shares else None


def net(ground: Ground = HERE) -> dict[str, Any]:
    """Interfaces with addresses, which are up, and what names resolve to.

    {"interfaces": {name: [address]}, "up": [name], "mtu": {name: bytes}, "hostname", "resolves": {name: [address]},
    "unresolved": {name: "failed"|"timeout"}, "hosts": lines of /etc/hosts that name this host}. Asked are the own host
    name and the scheduler's address of the environment, each at most one second.
    """
    import psutil

    interfaces: dict[str, list[str]] = {}
    for name, addresses in psutil.net_if_addrs().items():
        interfaces[name] = [
            address.address.split("%", 1)[0]
            for address in addresses
            if address.family in (socket.AF_INET, socket.AF_INET6)
        ]
    stats = psutil.net_if_stats()
    hostname = socket.gethostname()
    names = [hostname, *(ground.env.get(key, "") for key in ("MS_SCHED_HOST", "MASTER_ADDR"))]
    asked = {name: partial(_resolve, name) for name in names if name and len(name) < 256}
    answers = _in_time(asked)
    lines = [
        line.strip()
        for line in (_text(ground.at("/etc/hosts")) or "").splitlines()
        if hostname in line.split("#", 1)[0].split()
    ]
    return {
        "interfaces": interfaces,
        "up": sorted(name for name, stat in stats.items() if stat.isup),
        "mtu": {name: stat.mtu for name, stat in stats.items()},
        "hostname": hostname,
        "resolves": {name: value for name, value in answers.items() if isinstance(value, list)},
        "unresolved": {name: value or "failed" for name, value in answers.items() if not isinstance(value, list)},
        "hosts": lines[:8],
    }


def _resolve(name: str) -> list[str]:
    """Addresses of a name in the resolver's order, each once. Raises OSError when there is none."""
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]).split("%", 1)[0] for item in found))


def ports(ground: Ground = HERE) -> dict[str, Any]:
    """TCP ports in state LISTEN, the kernel's reserved ports and the range of outgoing ones.

    {"listening": [port], "reserved": "60000-60031" or "", "range": [low, high] or None}
    """
    found: set[int] = set()
    readable = False
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        text = _text(ground.at(path), 8 << 20)
        readable = readable or text is not None
        for line in (text or "").splitlines()[1:]:
            words = line.split(None, 4)
            if len(words) > 3 and words[3] == "0A":
                port = words[1].rpartition(":")[2]
                if re.fullmatch(r"[0-9A-Fa-f]{4}", port):
                    found.add(int(port, 16))
    span = [_number(word) for word in (_text(ground.at("/proc/sys/net/ipv4/ip_local_port_range")) or "").split()]
    reserved = _text(ground.at("/proc/sys/net/ipv4/ip_local_reserved_ports"))
    return {
        "listening": sorted(found) if readable else None,
        "reserved": reserved.strip() if reserved is not None else None,
        "range": span if len(span) == 2 and None not in span else None,
    }


def processes(ground: Ground = HERE) -> list[dict[str, Any]]:
    """Own processes that look like training: [{"pid", "ppid", "name", "state", "words", "age", "rss"}].

    ``words`` are the program and the script or module it runs, without further arguments (they may hold secrets);
    ``age`` in seconds. At most 256, the oldest first.
    """
    uid, me = os.geteuid(), os.getpid()
    uptime = _uptime(ground) or 0.0
    ticks = os.sysconf("SC_CLK_TCK") or 100
    page = os.sysconf("SC_PAGE_SIZE") or 4096
    base = ground.at("/proc")
    found: list[dict[str, Any]] = []
    for name in _names(base):
        if not name.isdigit() or int(name) == me:
            continue
        folder = f"{base}/{name}"
        try:
            if os.stat(folder).st_uid != uid:
                continue
        except OSError:
            continue
        words = [word for word in (_text(f"{folder}/cmdline", 4096) or "").split("\0") if word]
        told = _program(words)
        if not told:
            continue
        stat = (_text(f"{folder}/stat", 2048) or "").rpartition(")")[2].split()
        if len(stat) < 22:
            continue
        started = (_number(stat[19]) or 0) / ticks
        found.append(
            {
                "pid": int(name),
                "ppid": _number(stat[1]),
                "name": (_text(f"{folder}/comm", 64) or "").strip(),
                "state": stat[0],
                "words": told,
                "age": round(max(0.0, uptime - started), 1),
                "rss": (_number(stat[21]) or 0) * page,
            }
        )
    return sorted(found, key=lambda row: -float(row["age"]))[:256]


_RUNNERS = re.compile(r"(?:python[0-9.]*|msrun|torchrun|mpirun|hccl_test\w*|te_fusion\w*|hccp_service\S*)")


def _program(words: list[str]) -> list[str]:
    """Program and script of a command line that may be training, [] of any other."""
    if not words or not _RUNNERS.fullmatch(os.path.basename(words[0])):
        return []
    told = [os.path.basename(words[0])]
    rest = iter(words[1:])
    for word in rest:
        if word in ("-m", "-c"):
            told += [word, next(rest, "")[:80]] if word == "-m" else [word]
            break
        if not word.startswith("-"):
            told.append(word[:200])
            break
    return told


def time(ground: Ground = HERE) -> dict[str, Any]:
    """Whether the kernel holds its clock for synchronised (adjtimex), with its error bound.

    {"synchronised": bool or None, "max_error": seconds or None, "now": seconds since the epoch, "offset": seconds east
    of UTC, "zone": name, "uptime": seconds}
    """
    import ctypes

    synchronised: bool | None = None
    error: float | None = None
    try:
        # struct timex of 64-bit Linux: int modes; long offset, freq, maxerror, esterror; int status; …
        buffer = (ctypes.c_byte * 512)()
        libc = ctypes.CDLL(None, use_errno=True)
        state = libc.adjtimex(ctypes.byref(buffer))
        if state >= 0 and ctypes.sizeof(ctypes.c_long) == 8:
            status = ctypes.c_int.from_buffer(buffer, 40).value
            synchronised = not status & 0x40 and state != 5  # STA_UNSYNC, TIME_ERROR
            error = ctypes.c_long.from_buffer(buffer, 24).value / 1e6
    except (OSError, AttributeError, ValueError):
        pass
    now = clock.time()
    local = clock.localtime(now)
    return {
        "synchronised": synchronised,
        "max_error": error,
        "now": round(now, 3),
        "offset": local.tm_gmtoff,
        "zone": local.tm_zone,
        "uptime": _uptime(ground),
    }


def pci(ground: Ground = HERE) -> dict[str, Any]:
    """Huawei PCI functions as sysfs shows them: {"total": all functions, "devices": [{"bus", "vendor", "device",
    "subsystem", "class", "numa", "speed", "width", "max_speed", "max_width", "driver"}]}; ids are hex without 0x,
    speed in GT/s, width in lanes."""
    base = ground.at("/sys/bus/pci/devices")
    names = _names(base)
    devices = []
    for name in names[:4096]:
        folder = f"{base}/{name}"
        if (_text(f"{folder}/vendor", 16) or "").strip() != "0x19e5":
            continue
        row: dict[str, Any] = {"bus": name, "vendor": "19e5"}
        for key, file in (("device", "device"), ("subsystem", "subsystem_device"), ("class", "class")):
            row[key] = (_text(f"{folder}/{file}", 16) or "").strip().removeprefix("0x")
        row["numa"] = _number(_text(f"{folder}/numa_node", 16))
        for key, file in (("speed", "current_link_speed"), ("max_speed", "max_link_speed")):
            found = re.match(r"\d{1,3}(?:\.\d)?", _text(f"{folder}/{file}", 32) or "")
            row[key] = float(found.group()) if found else None
        for key, file in (("width", "current_link_width"), ("max_width", "max_link_width")):
            row[key] = _number(_text(f"{folder}/{file}", 16))
        driver = f"{folder}/driver"
        row["driver"] = os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None
        devices.append(row)
    return {"total": len(names), "devices": devices}


KERNEL_LOGS = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")


def kernel_log(ground: Ground = HERE) -> dict[str, Any]:
    """The last MiB of the kernel's lines in a log file, for machines where dmesg is refused.

    {"file": path or "", "state": ok·missing·denied, "text": lines of the kernel only}
    """
    state = "missing"
    for path in KERNEL_LOGS:
        try:
            with open(ground.at(path), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - (1 << 20)))
                text = file.read(1 << 20).decode("utf-8", "replace")
        except PermissionError:
            state = "denied"
            continue
        except OSError:
            continue
        lines = text.splitlines()[1 if size > 1 << 20 else 0 :]
        kept = lines if path.endswith("kern.log") else [line for line in lines if " kernel:" in line[:120]]
        return {"file": path, "state": "ok", "text": "\n".join(kept)}
    return {"file": "", "state": state, "text": ""}


def python(interpreter: str = "", ground: Ground = HERE) -> dict[str, Any]:
    """What the target interpreter says of itself and its packages.

    Runs ``ask_python.py`` in ``interpreter`` or in the first python3 (then python) of PATH and returns its answer with
    ``state: ok`` and ``asked`` (the interpreter). ``state`` is otherwise missing (no such interpreter), denied,
    timeout, killed, failed or not_understood, with ``error``.
    """
    from doctor.hosts.live import run_child

    path = _interpreter(interpreter, ground.env)
    if not path:
        return {"state": "missing", "asked": interpreter, "error": ""}
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ask_python.py")
    raw = run_child("ask python", [path, "-B", script], PYTHON_LIMIT, {**ground.env, "PYTHONIOENCODING": "utf-8"})
    if raw.state != "ok":
        return {"state": raw.state, "asked": path, "error": raw.err[-2000:]}
    for line in reversed(raw.out.splitlines()):  # a sitecustomize may print before it
        if line.startswith("{"):
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(answer, dict):
                return {**answer, "state": "ok", "asked": path}
    return {"state": "failed" if raw.code else "not_understood", "asked": path, "error": (raw.err or raw.out)[-2000:]}


def _interpreter(wish: str, env: Mapping[str, str]) -> str:
    import shutil

    search = env.get("PATH", os.defpath)
    if wish:
        path = os.path.expanduser(wish)
        return path if os.path.isfile(path) else shutil.which(path, path=search) or ""
    return shutil.which("python3", path=search) or shutil.which("python", path=search) or ""


SENSORS: dict[str, Callable[..., Any]] = {
    "cpu": cpu,
    "disks": disks,
    "env": env,
    "kernel_log": kernel_log,
    "limits": limits,
    "memory": memory,
    "net": net,
    "pci": pci,
    "ports": ports,
    "processes": processes,
    "python": python,
    "shm": shm,
    "system": system,
    "time": time,
    "user": user,
}
"""Name → sensor. Each takes a ``Ground`` as ``ground``; ``python`` also the interpreter asked for."""
