"""ENV503 to ENV506: limits of the shell that a training run inherits."""

from __future__ import annotations

from typing import Any

from doctor.checks.environment.common import GIB, field, npu_here, size
from doctor.model import Answer, Evidence, Fact, Unknown, fail, passed, unknown

FEW_FILES = 4096
FEW_PROCESSES = 4096
ROOM = 256
LEAST_MEMLOCK = 64 << 10


def _pair(limits: Fact, name: str) -> tuple[int, int | None] | None:
    """(soft, hard), -1 without a limit; the hard one is None where a paste does not tell it."""
    pair = limits.value[name]
    return (pair[0], pair[1]) if pair else None


def _word(value: int | None) -> str:
    return "?" if value is None else "unlimited" if value < 0 else str(value)


def _memory(value: int | None) -> str:
    return size(value) if value is None or value >= 0 else "unlimited"


def _seen(option: str, soft: int, hard: int | None) -> Evidence:
    return Evidence(f"ulimit -{option}", 0, f"soft {_word(soft)}, hard {_word(hard)}")


def open_files(limits: Fact, pci: Fact | Unknown, nodes: Fact | Unknown) -> Answer:
    """Open files a process may have: worker processes, MindRecord shards and sockets of all ranks count.

    Below 4096 a warning on a machine with an NPU, an advice elsewhere (1024 is the default of most distributions).
    """
    pair = _pair(limits, "nofile")
    if pair is None:
        return unknown("not_understood")
    soft, hard = pair
    args = {"soft": _word(soft), "hard": _word(hard)}
    if 0 <= soft < FEW_FILES:
        return fail(args, _seen("n", soft, hard), severity="warning" if npu_here(pci, nodes) else "advice")
    return passed(args, _seen("n", soft, hard))


def processes(limits: Fact) -> Answer:
    """Processes and threads this user or this cgroup may have; root is bound by the cgroup alone.

    No room left is a warning. Below 4096 an advice: every rank has dataset workers, compile processes and hundreds of
    threads.
    """
    pair, cap, used = _pair(limits, "nproc"), limits.value["pids_limit"], limits.value["pids_used"]
    if pair is None and cap is None:
        return unknown("not_understood")
    numbers = [n for n in (pair[0] if pair else -1, cap if cap is not None else -1) if n >= 0]
    least = min(numbers, default=-1)
    args = {"limit": _word(least), "used": "?" if used is None else str(used)}
    seen = [_seen("u", *pair)] if pair else []
    if cap is not None:
        seen.append(Evidence("/sys/fs/cgroup", 0, f"pids.max {cap}, pids.current {used}"))
    if cap is not None and used is not None and cap - used < ROOM:
        return fail(args, *seen, severity="warning")
    return fail(args, *seen) if 0 <= least < FEW_PROCESSES else passed(args, *seen)


def locked_memory(limits: Fact) -> Answer:
    """Memory that may be locked. No Ascend document read asks for a figure, so only less than every distribution's
    default (64 KiB) is worth a word."""
    pair = _pair(limits, "memlock")
    if pair is None:
        return unknown("not_understood")
    soft, hard = pair
    args = {"soft": _memory(soft), "hard": _memory(hard)}
    seen = Evidence("ulimit -l", 0, f"soft {args['soft']}, hard {args['hard']}")
    return fail(args, seen) if 0 <= soft < LEAST_MEMLOCK else passed(args, seen)


def core_files(limits: Fact, disks: Fact | Unknown, memory: Fact | Unknown) -> Answer:
    """Core files: none by default, which is fine until a crash is hunted. Unlimited ones go to the working folder and
    are as large as a process's memory: eight ranks fill a disk that has less room than the machine has memory."""
    pair = _pair(limits, "core")
    if pair is None:
        return unknown("not_understood")
    soft, hard = pair
    pattern = limits.value["core_pattern"] or ""
    args: dict[str, Any] = {"soft": _word(soft), "pattern": pattern}
    rows = disks.value if isinstance(disks, Fact) else []
    folder = next((row for row in rows if row["use"] == "cwd" and row["available"] is not None), None)
    total = field(memory, "total")
    # what has no room at all is told by the rule of the disks
    room = folder["available"] if folder else 0
    if soft < 0 and not pattern.startswith(("|", "/")) and folder and total and 10 * GIB <= room < total:
        args |= {"path": folder["path"], "available": size(folder["available"]), "total": size(total)}
        return fail(args, _seen("c", soft, hard), Evidence(f"df {folder['path']}", 0, size(folder["available"])))
    return passed(args, _seen("c", soft, hard))
