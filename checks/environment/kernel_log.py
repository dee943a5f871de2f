"""ENV514 to ENV516, ENV524 to ENV526: what the kernel has written since the machine started."""

from __future__ import annotations

import calendar
import re
from typing import Any

from doctor.checks.environment.common import field
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

OLD = 7 * 86400.0
"""Seconds after which an event is told as history: the machine has worked since."""
SHOWN = 3
NOISY = 10
"""Corrected PCIe errors from which on a word is worth it; single ones happen on sound machines (no source)."""
TRAINING = re.compile(r"python|msrun|mindspore|torchrun|pt_main|ray", re.I)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = re.compile(r"\w{3} (\w{3})\s+(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)")


def age(event: Any, time: Fact | Unknown) -> float | None:
    """Seconds from a kernel line to the moment of reading, None if its stamp or the clock does not tell."""
    uptime, now, offset = field(time, "uptime"), field(time, "now"), field(time, "offset")
    if event.uptime is not None:
        return None if uptime is None else max(0.0, float(uptime) - float(event.uptime))
    if now is None:
        return None
    clock, iso = _CLOCK.match(event.when), _ISO.match(event.when)
    if clock and clock.group(1) in _MONTHS:
        month = _MONTHS.index(clock.group(1)) + 1
        day, hour, minute, second, year = (int(clock.group(n)) for n in range(2, 7))
    elif iso:
        year, month, day, hour, minute, second = (int(part) for part in iso.groups())
    else:
        return None
    stamp = calendar.timegm((year, month, day, hour, minute, second))
    return max(0.0, float(now) + float(offset or 0) - stamp)


def _events(log: Fact, *kinds: str) -> list[Any]:
    return [event for event in log.value["events"] if event.kind in kinds]


def _count(log: Fact, *kinds: str) -> int:
    return sum(int(log.value["counts"].get(kind, 0)) for kind in kinds)


def _lines(log: Fact, events: list[Any]) -> list[Evidence]:
    return [Evidence(log.value["source"], event.line, event.text) for event in events[-SHOWN:]]


def _old(events: list[Any], time: Fact | Unknown) -> bool:
    passed_by = age(events[-1], time)
    return passed_by is not None and passed_by > OLD


def _quiet(log: Fact) -> Answer:
    return passed({"lines": log.value["lines"]}, Evidence(log.value["source"], 0, f"{log.value['lines']} lines"))


def _simple(log: Fact, time: Fact | Unknown, *kinds: str) -> Answer:
    events = _events(log, *kinds)
    if not events:
        return _quiet(log)
    last = events[-1]
    args = {**last.args, "count": _count(log, *kinds), "when": last.when}
    return fail(args, *_lines(log, events), severity="advice" if _old(events, time) else None)


def out_of_memory(log: Fact | Unknown, memory: Fact | Unknown, time: Fact | Unknown) -> Answer:
    """Processes that the kernel killed for want of memory, by its log or by the counter of this cgroup.

    A warning where a training process was the victim within a week, else an advice: it is history and says where memory
    runs short.
    """
    kills = field(memory, "oom_kills")
    own = Evidence("/sys/fs/cgroup/memory.events", 0, f"oom_kill {kills}")
    events = _events(log, "oom") if isinstance(log, Fact) else []
    if events and isinstance(log, Fact):
        last = events[-1]
        trained = any(TRAINING.search(event.args.get("name", "")) for event in events)
        args = {"name": last.args.get("name", ""), "count": _count(log, "oom"), "when": last.when}
        severity = None if trained and not _old(events, time) else "advice"
        return fail(args, *_lines(log, events), *([own] if kills else []), severity=severity)
    if kills:
        return fail({"name": "", "count": kills, "when": ""}, own)
    if isinstance(log, Unknown):
        return unknown(log.why, log.how, **log.args)
    return _quiet(log)


def pcie_errors(log: Fact, time: Fact | Unknown) -> Answer:
    """PCIe errors of the log: uncorrected ones a warning, many corrected ones an advice."""
    fatal = _events(log, "aer_fatal")
    if fatal:
        args = {"bus": fatal[-1].args.get("bus", ""), "count": _count(log, "aer_fatal"), "when": fatal[-1].when}
        severity = "advice" if _old(fatal, time) else None
        return fail({**args, "kind": "uncorrected"}, *_lines(log, fatal), severity=severity)
    some = _events(log, "aer")
    if _count(log, "aer") >= NOISY:
        args = {"bus": some[-1].args.get("bus", ""), "count": _count(log, "aer"), "when": some[-1].when}
        return fail({**args, "kind": "corrected"}, *_lines(log, some), severity="advice")
    return _quiet(log)


def driver_faults(log: Fact, pci: Fact | Unknown, time: Fact | Unknown) -> Answer:
    """Lines of the NPU driver: a device that was lost is a warning, other errors of the driver an advice (a job that is
    interrupted leaves some)."""
    lost = _events(log, "npu_lost")
    if lost:
        args = {"count": _count(log, "npu_lost"), "when": lost[-1].when, "device": lost[-1].args.get("device", "")}
        return fail(args, *_lines(log, lost), severity="advice" if _old(lost, time) else None)
    other = _events(log, "npu_error")
    if other:
        args = {"count": _count(log, "npu_error"), "when": other[-1].when, "device": ""}
        return fail(args, *_lines(log, other), severity="advice", confidence="guess")
    return not_applicable("no_npu") if field(pci, "count") == 0 else _quiet(log)


def filesystem_errors(log: Fact, time: Fact | Unknown) -> Answer:
    """Errors of disks and file systems."""
    return _simple(log, time, "filesystem")


def hung_tasks(log: Fact, time: Fact | Unknown) -> Answer:
    """Processes that waited for minutes in the kernel, on a disk, a network mount or a driver."""
    return _simple(log, time, "hung")


def memory_errors(log: Fact, time: Fact | Unknown) -> Answer:
    """Errors of the host's memory that could not be corrected."""
    return _simple(log, time, "memory_error")
