"""Facts host.*: machine, memory, limits, disks, processors, clock, language, network of the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from doctor.hosts.base import Host, data_of
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes.base import Facts, Probe

GIB = 1 << 30


def unread(name: str, raw: Raw) -> Unknown:
    """Why a fact cannot be told, from the answer that should have held it."""
    if raw.state == "denied":
        return Unknown(name, "denied", "as_root", {"what": raw.key.partition(" ")[2]})
    if raw.state == "timeout":
        return Unknown(name, "timeout", "", {"seconds": f"{raw.seconds:g}"})
    if raw.state == "ok":
        return Unknown(name, "not_understood")
    kind, _, rest = raw.key.partition(" ")
    if raw.state == "missing" and kind != "ask":
        return Unknown(name, "no_file" if kind == "file" else "no_tool", "", {"path": rest, "tool": rest.split()[0]})
    if raw.state == "failed":
        return Unknown(name, "crashed", "", {"what": " ".join(raw.err.split())[:200]})
    return Unknown(name, "not_recorded")


# --- values of an answer, each of a known kind or None ---------------------------------------------------------------


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e18 else None  # also refuses nan and inf


def _str(value: Any) -> str | None:
    return value[:4096] if isinstance(value, str) else None


def _bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _list(of: Callable[[Any], Any]) -> Callable[[Any], list[Any] | None]:
    """Lists of one kind; members of another kind are dropped."""
    return lambda value: (
        [member for member in map(of, value[:4096]) if member is not None] if isinstance(value, list) else None
    )


def _table(of: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any] | None]:
    def read(value: Any) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        rows = {str(key): of(member) for key, member in list(value.items())[:4096]}
        return {key: member for key, member in rows.items() if member is not None}

    return read


def _pair(value: Any) -> list[int | None] | None:
    """[soft, hard]; the hard limit may be unknown."""
    if not isinstance(value, list) or len(value) != 2 or _int(value[0]) is None:
        return None
    return [_int(value[0]), _int(value[1])]


Shape = Mapping[str, Callable[[Any], Any]]

SYSTEM: Shape = {
    "hostname": _str,
    "kernel": _str,
    "arch": _str,
    "os": _str,
    "os_id": _str,
    "os_version": _str,
    "glibc": _str,
    "libstdcxx": _str,
    "product": _str,
    "virtual": _bool,
    "modules": _list(_str),
    "uptime": _float,
}
USER: Shape = {"user": _str, "uid": _int, "gid": _int, "groups": _list(_str), "root": _bool, "umask": _str}
MEMORY: Shape = dict.fromkeys(
    (
        "total",
        "available",
        "free",
        "shmem",
        "swap_total",
        "swap_free",
        "hugepages_total",
        "hugepages_free",
        "hugepage_size",
        "cgroup_limit",
        "cgroup_used",
        "oom_kills",
        "swappiness",
        "overcommit",
        "numa_balancing",
    ),
    _int,
)
SHM: Shape = {"exists": _bool, "size": _int, "available": _int, "writable": _bool, "mount": _str}
LIMITS: Shape = {
    **dict.fromkeys(("nofile", "nproc", "memlock", "core", "stack", "as", "data", "fsize"), _pair),
    **dict.fromkeys(("file_max", "pid_max", "threads_max", "max_map_count", "pids_limit", "pids_used"), _int),
    "core_pattern": _str,
}
DISK: Shape = {
    "use": _str,
    "path": _str,
    "real": _str,
    "state": _str,
    "size": _int,
    "available": _int,
    "inodes": _int,
    "inodes_free": _int,
    "read_only": _bool,
    "writable": _bool,
    "device": _int,
}
CPU: Shape = {
    "count": _int,
    "allowed": _list(_int),
    "quota": _float,
    "numa": _table(_str),
    "model": _str,
    "governors": _table(_int),
    "load": _list(_float),
    "smt": _int,
}
TIME: Shape = {
    "synchronised": _bool,
    "max_error": _float,
    "now": _float,
    "offset": _int,
    "zone": _str,
    "uptime": _float,
}
NET: Shape = {
    "interfaces": _table(_list(_str)),
    "up": _list(_str),
    "mtu": _table(_int),
    "hostname": _str,
    "resolves": _table(_list(_str)),
    "unresolved": _table(_str),
    "hosts": _list(_str),
}
PORTS: Shape = {"listening": _list(_int), "reserved": _str, "range": _list(_int)}
PROCESS: Shape = {
    "pid": _int,
    "ppid": _int,
    "name": _str,
    "state": _str,
    "words": _list(_str),
    "age": _float,
    "rss": _int,
}


def shaped(value: Any, shape: Shape) -> dict[str, Any] | None:
    """The keys of ``shape`` with values of their kind, None where one is missing or of another kind; None if ``value``
    is no table."""
    return {key: of(value.get(key)) for key, of in shape.items()} if isinstance(value, dict) else None


def _rows(value: Any, shape: Shape) -> list[dict[str, Any]] | None:
    if not isinstance(value, list):
        return None
    return [row for row in (shaped(member, shape) for member in value[:4096]) if row is not None]


def size(number: int | None) -> str:
    """Bytes as people write them: ``64 MiB``, ``1.5 TiB``; ``?`` for None.

    >>> size(67108864), size(0), size(None)
    ('64 MiB', '0 B', '?')
    """
    if number is None:
        return "?"
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


# --- the probes ------------------------------------------------------------------------------------------------------


def _asked(host: Host, what: str, shape: Shape, seen: Callable[[dict[str, Any]], Evidence]) -> Fact | Unknown:
    raw, name = host.ask(what), f"host.{what}"
    value = shaped(data_of(raw), shape)
    return unread(name, raw) if value is None else Fact(name, value, seen(value))


def read_memory(host: Host, _: Facts) -> list[Fact | Unknown]:
    return [
        _asked(
            host,
            "memory",
            MEMORY,
            lambda v: Evidence(
                "/proc/meminfo",
                0,
                f"MemTotal {size(v['total'])}, MemAvailable {size(v['available'])}, "
                f"SwapTotal {size(v['swap_total'])}, SwapFree {size(v['swap_free'])}",
            ),
        )
    ]


def read_shm(host: Host, _: Facts) -> list[Fact | Unknown]:
    return [
        _asked(
            host,
            "shm",
            SHM,
            lambda v: Evidence("df /dev/shm", 0, f"size {size(v['size'])}, available {size(v['available'])}"),
        )
    ]


def read_limits(host: Host, _: Facts) -> list[Fact | Unknown]:
    return [_asked(host, "limits", LIMITS, lambda v: Evidence("ulimit -a", 0, limits_line(v)))]


def limits_line(limits: Mapping[str, Any]) -> str:
    """Soft limits in one line: ``nofile 1024, nproc unlimited``."""
    pairs = ((name, limits.get(name)) for name in ("nofile", "nproc", "memlock", "core"))
    return ", ".join(f"{name} {'unlimited' if pair[0] < 0 else pair[0]}" for name, pair in pairs if pair)


def read_cpu(host: Host, _: Facts) -> list[Fact | Unknown]:
    return [
        _asked(
            host,
            "cpu",
            CPU,
            lambda v: Evidence("lscpu", 0, f"{v['count']} CPUs, {len(v['allowed'] or [])} allowed, quota {v['quota']}"),
        )
    ]


def read_net(host: Host, _: Facts) -> list[Fact | Unknown]:
    def seen(value: dict[str, Any]) -> Evidence:
        name = value["hostname"] or ""
        found = (value["resolves"] or {}).get(name)
        return Evidence(f"getent ahosts {name}", 0, " ".join(found) if found else "-")

    return [_asked(host, "net", NET, seen)]


def read_ports(host: Host, _: Facts) -> list[Fact | Unknown]:
    return [
        _asked(
            host,
            "ports",
            PORTS,
            lambda v: Evidence("ss -ltn", 0, "LISTEN " + " ".join(map(str, (v["listening"] or [])[:64]))),
        )
    ]


def read_disks(host: Host, _: Facts) -> list[Fact | Unknown]:
    raw = host.ask("disks")
    rows = _rows(data_of(raw), DISK)
    if rows is None:
        return [unread("host.disks", raw)]
    rows = [row for row in rows if row["use"] and row["path"]]
    return [Fact("host.disks", rows, Evidence("df", 0, ", ".join(f"{r['path']} {size(r['available'])}" for r in rows)))]


def read_processes(host: Host, _: Facts) -> list[Fact | Unknown]:
    raw = host.ask("processes")
    rows = _rows(data_of(raw), PROCESS)
    if rows is None:
        return [unread("host.processes", raw)]
    text = "; ".join(f"{r['pid']} {' '.join(r['words'] or [])}" for r in rows[:8])
    return [Fact("host.processes", rows, Evidence("ps -u $USER", 0, text or "-"))]


def read_env(host: Host, _: Facts) -> list[Fact | Unknown]:
    """host.env {NAME: value} and host.locale {value, source, charset, utf8}."""
    raw = host.ask("env")
    data = data_of(raw)
    if not isinstance(data, dict):
        return [unread("host.env", raw), unread("host.locale", raw)]
    env = {str(name): value for name, value in data.items() if isinstance(value, str)}
    return [Fact("host.env", env, Evidence("env", 0, "")), locale_of(env)]


def locale_of(env: Mapping[str, str]) -> Fact:
    """The character set that programs of this shell use.

    ``charset`` is what the effective variable names after the dot, the classic default of the language if it names
    none, "" for C, POSIX or unset: Python 3.7 and later then uses UTF-8 (PEP 538, PEP 540).
    """
    source = next((name for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    value = env.get(source, "")
    language, dot, charset = value.partition("@")[0].partition(".")
    if not dot and language not in ("", "C", "POSIX"):
        charset = {"zh_CN": "GB2312", "zh_TW": "Big5"}.get(language, "ISO-8859-1")
    told = env.get("PYTHONIOENCODING", "").partition(":")[0] if env.get("PYTHONUTF8") != "1" else "utf-8"
    plain = (told or charset).lower().replace("-", "").replace("_", "")
    return Fact(
        "host.locale",
        {"value": value, "source": source, "charset": charset, "utf8": plain in ("", "utf8")},
        Evidence("env", 0, f"{source}={value}" if source else "LANG unset"),
    )


def read_system(host: Host, _: Facts) -> list[Fact | Unknown]:
    raw = host.ask("system")
    value = shaped(data_of(raw), SYSTEM)
    who = shaped(data_of(host.ask("user")), USER) or dict.fromkeys(USER)
    if value is None:
        return [unread("host.system", raw)]
    gcc = host.run("gcc", "-dumpfullversion")
    found = re.match(r"\d{1,3}(?:\.\d{1,3}){0,2}", gcc.out.strip()) if gcc.state == "ok" and not gcc.code else None
    value = {**value, **who, "gcc": found.group() if found else None}
    text = (
        f"{value['os'] or '?'}, kernel {value['kernel'] or '?'}, {value['arch'] or '?'}, glibc {value['glibc'] or '?'}"
    )
    return [Fact("host.system", value, Evidence("uname -a; cat /etc/os-release", 0, text))]


def read_thp(host: Host, _: Facts) -> list[Fact | Unknown]:
    """host.thp {"enabled": "always"|"madvise"|"never", "shmem": …}."""
    base = "/sys/kernel/mm/transparent_hugepage/"
    raw, shmem = host.read(base + "enabled", 256), host.read(base + "shmem_enabled", 256)
    chosen = _bracketed(raw.out) if raw.state == "ok" else None
    if chosen is None:
        if raw.state == "missing":
            return [Unknown("host.thp", "no_file", "", {"path": base + "enabled"})]
        return [unread("host.thp", raw)]
    seen = Evidence(base + "enabled", 1, raw.out.strip()[:200])
    return [Fact("host.thp", {"enabled": chosen, "shmem": _bracketed(shmem.out)}, seen)]


def _bracketed(text: str) -> str | None:
    """The chosen word of a kernel setting: ``always [madvise] never`` → madvise."""
    found = re.search(r"\[([a-z_]{1,32})\]", text)
    return found.group(1) if found else None


def read_time(host: Host, _: Facts) -> list[Fact | Unknown]:
    """host.time: what the kernel says, else timedatectl, else chronyc."""
    raw = host.ask("time")
    value = shaped(data_of(raw), TIME)
    if value is not None and value["synchronised"] is not None:
        bound = f", maximum error {value['max_error']:.3g} s" if value["max_error"] is not None else ""
        seen = Evidence("adjtimex", 0, f"{'synchronised' if value['synchronised'] else 'unsynchronised'}{bound}")
        return [Fact("host.time", value, seen)]
    for command in (("timedatectl", "show"), ("timedatectl",), ("chronyc", "tracking")):
        answer = host.run(*command)
        found = parse_clock(answer.out) if answer.state == "ok" else None
        if found is not None:
            line, text, synchronised = found
            value = {**(value or dict.fromkeys(TIME)), "synchronised": synchronised}
            return [Fact("host.time", value, Evidence(" ".join(command), line, text))]
    return [unread("host.time", raw)]


def parse_clock(text: str) -> tuple[int, str, bool] | None:
    """(line, its text, whether synchronised) in output of timedatectl, ``timedatectl show`` or ``chronyc tracking``."""
    for number, line in enumerate(text.splitlines()[:200], 1):
        found = re.match(r"\s*(?:System clock|NTP) synchronized:\s*(yes|no)\b|NTPSynchronized=(yes|no)\b", line)
        if found:
            return number, line.strip(), (found.group(1) or found.group(2)) == "yes"
        found = re.match(r"Leap status\s*:\s*(\S.{0,40})", line)
        if found:
            return number, line.strip(), not found.group(1).startswith("Not synchronised")
    return None


PROBES = tuple(
    Probe(f"host.{name}", "env", read, gives)
    for name, read, gives in (
        ("system", read_system, ("host.system",)),
        ("env", read_env, ("host.env", "host.locale")),
        ("memory", read_memory, ("host.memory",)),
        ("shm", read_shm, ("host.shm",)),
        ("limits", read_limits, ("host.limits",)),
        ("disks", read_disks, ("host.disks",)),
        ("cpu", read_cpu, ("host.cpu",)),
        ("thp", read_thp, ("host.thp",)),
        ("time", read_time, ("host.time",)),
        ("net", read_net, ("host.net",)),
        ("ports", read_ports, ("host.ports",)),
        ("processes", read_processes, ("host.processes",)),
    )
)
