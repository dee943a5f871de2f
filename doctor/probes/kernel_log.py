"""Fact host.kernel_log: what the kernel wrote of memory, PCIe and the NPU driver."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, NamedTuple

from doctor.hosts.base import Host, data_of, title
from doctor.model import Evidence, Fact, Unknown
from doctor.probes.base import Facts, Probe
from doctor.probes.system import unread

KEPT = 32
"""Lines kept of each kind, the last ones; all are counted."""

_STAMP = re.compile(
    r"(?:<\d{1,3}>)?(?:"
    r"\[(?P<clock>\w{3} \w{3}\s{1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]"
    r"|\[\s{0,8}(?P<up>\d{1,9}\.\d{1,6})\]"
    r"|(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[\d,.]{0,10}(?:Z|[+-]\d\d:?\d\d)?(?: \S{1,64} kernel:)?"
    r"|(?P<syslog>\w{3}\s{1,2}\d{1,2} \d\d:\d\d:\d\d) \S{1,64} kernel:"
    r")\s?"
)

_BUS = re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b")

KINDS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (kind, word, re.compile(pattern))
    for kind, word, pattern in (
        ("oom", "Kill", r"[Oo]ut of memory: Kill(?:ed)? process (?P<pid>\d{1,10}) \((?P<name>[^)]{1,64})\)"),
        ("aer_fatal", "ncorrect", r"(?:PCIe Bus Error: severity=Uncorrect|AER: [^\n]{0,40}Uncorrect)"),
        ("aer", "orrected", r"(?:PCIe Bus Error: severity=Corrected|AER: [^\n]{0,40}Corrected)"),
        ("npu_lost", "eartbeat lost", r"[Hh]eartbeat lost(?: \(device=(?P<device>\d{1,4}))?"),
        ("npu_lost", "fallen off the bus", r"has fallen off the bus"),
        ("npu_lost", "is not working", r"device\s?\((?P<device>\d{1,4})\) is not working"),
        ("npu_error", "[ascend]", r"\[ascend\] (?:\[\w{1,32}\] )?\[ERROR\]"),
        ("hung", "blocked for", r"task (?P<name>\S{1,64}):(?P<pid>\d{1,10}) blocked for more than \d{1,6} seconds"),
        ("filesystem", "error", r"EXT4-fs error|XFS \([^)]{1,32}\): [^\n]{0,60}(?:[Cc]orruption|error)"),
        ("filesystem", "I/O error", r"I/O error, dev \S{1,32}|Buffer I/O error"),
        ("memory_error", "EDAC MC", r"EDAC MC\d{1,3}: \d{1,6} UE\b"),
        ("memory_error", "Hardware Error", r"\[Hardware Error\]: [^\n]{0,80}(?:Uncorrected|uncorrectable|fatal)"),
    )
)
"""(kind, text that must stand in the line, pattern). The first kind that fits a line has it.

Sources: Linux kernel texts; hicann/driver dmc log header ("[ascend] [ERROR] [module] [function line]", also with the
module first); Ascend/mind-cluster faultdiag rules for lost heartbeats.
"""

HARMLESS = ("devmm_page_fault_d2h_query_flag", "devmm_svm_device_fault", "ipc_fault_msg_para_check")
"""Driver errors of a job that was interrupted; they do not affect the next one (hicann/hccl HCCL_OP_EXPANSION_MODE)."""


def stamped(line: str) -> bool:
    """Whether a line begins as the kernel's lines do."""
    return _STAMP.match(line[:200]) is not None


class Event(NamedTuple):
    """One line of the kernel: ``when`` as it is written ("" without a stamp), ``uptime`` seconds since boot."""

    kind: str
    line: int
    when: str
    uptime: float | None
    text: str
    args: dict[str, str]


def parse_kernel_log(text: str) -> dict[str, Any]:
    """{"lines", "counts": {kind: n}, "events": [Event, in the order of the text, the last ``KEPT`` of each kind]}.

    Takes dmesg, dmesg -T, --time-format iso, syslog and journalctl -k lines. An uncorrected PCIe error is aer_fatal
    even where it says non-fatal: the transfer was lost.
    """
    counts: dict[str, int] = {}
    kept: dict[str, deque[Event]] = {}
    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:2000]
        for kind, word, pattern in KINDS:
            if word not in line:
                continue
            found = pattern.search(line)
            if found is None or (kind == "npu_error" and any(name in line for name in HARMLESS)):
                continue
            stamp = _STAMP.match(line)
            named = stamp.groupdict() if stamp else {}
            up = named.get("up")
            when = next((value for key, value in named.items() if value and key != "up"), f"[{up}]" if up else "")
            args = {key: value for key, value in found.groupdict().items() if value}
            bus = _BUS.search(line) if kind.startswith("aer") else None
            if bus:
                args["bus"] = bus.group().lower()
            counts[kind] = counts.get(kind, 0) + 1
            event = Event(kind, number, when, float(up) if up else None, line.strip(), args)
            kept.setdefault(kind, deque(maxlen=KEPT)).append(event)
            break
    events = sorted((event for rows in kept.values() for event in rows), key=lambda event: event.line)
    return {"lines": number, "counts": counts, "events": events}


def read_kernel_log(host: Host, _: Facts) -> list[Fact | Unknown]:
    """host.kernel_log: dmesg, else the kernel's lines in a log file. {"source", "cut", **parse_kernel_log}"""
    denied = False
    last = None
    for command in (("dmesg", "-T"), ("dmesg",)):
        raw = host.run(*command)
        last = last or raw
        refused = raw.state == "denied" or "not permitted" in raw.err or "Permission denied" in raw.err
        denied = denied or refused
        long = raw.cut and bool(raw.out)  # it was ended when there was enough of it
        if ((raw.state == "ok" and not raw.code) or long) and not refused:
            if raw.cut:  # of a very long log the end is missing, which matters most: leave out what is only information
                brief = host.run(*command[:1], "-T", "--level=emerg,alert,crit,err,warn,notice")
                raw = brief if brief.state == "ok" and brief.out else raw
            return [_fact(raw.out, title(raw.key), raw.cut)]
    answer = data_of(host.ask("kernel_log"))
    if isinstance(answer, dict):
        if answer.get("state") == "ok" and isinstance(answer.get("text"), str):
            return [_fact(answer["text"], str(answer.get("file"))[:200], False)]
        denied = denied or answer.get("state") == "denied"
    if denied:
        return [Unknown("host.kernel_log", "needs_root", "as_root")]
    if last is not None and last.state == "missing":
        return [Unknown("host.kernel_log", "no_tool", "", {"tool": "dmesg"})]
    return [unread("host.kernel_log", last)] if last else []


def _fact(text: str, source: str, cut: bool) -> Fact:
    value = {"source": source, "cut": cut, **parse_kernel_log(text)}
    last = value["events"][-1] if value["events"] else None
    seen = Evidence(source, last.line, last.text) if last else Evidence(source, 0, f"{value['lines']} lines")
    return Fact("host.kernel_log", value, seen)


PROBES = (Probe("host.kernel_log", "env", read_kernel_log, ("host.kernel_log",)),)
