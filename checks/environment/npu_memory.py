"""NPU510, 511: device memory: its errors, and who holds it.

Source: ``npu-smi info`` and ``-t ecc`` in hicann/driver; code 80E18402 (64 isolated rows) of Huawei's fault classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.checks.environment.npu import place, seen, who
from doctor.model import Answer, Fact, Unknown, fail, passed

PAGES = 64
"""Isolated pages at which a chip has to be replaced."""


def ecc(counts: Fact) -> Answer | list[Answer]:
    """NPU510: errors of several bits, and pages that wait for a reset to be isolated.

    Errors of one bit are corrected; totals over the chip's life are history and no reason to act.
    """
    found = []
    for row in counts.value:
        double, isolated, pending = (row[name] or 0 for name in ("double", "isolated", "pending"))
        if not double and not pending and isolated < PAGES:
            continue
        full = isolated + pending >= PAGES
        found.append(fail(
            {"memory": row["memory"], "double": double, "isolated": isolated, "pending": pending,
             "total": isolated + pending, "limit": PAGES, **who(row)},
            seen(row), place=place(row), severity="error" if full else "warning",
        ))  # fmt: skip
    return found or passed({"count": len(counts.value)}, counts.evidence)


FULL, NEARLY, WORTH = 80, 90, 1024
"""Percent of memory held from which a job cannot start beside it; the same where nobody is named; MB of a process that
counts as a job (an idle chip uses up to 4.2 GB itself, and a helper process some 130 MB)."""


def _jobs(chip: Mapping[str, Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """The processes on a chip, and those of them that count as a job."""
    own = [p for p in rows if p["npu"] == chip["npu"] and (p["chip"] is None or p["chip"] == (chip["chip"] or 0))]
    return own, [p for p in own if p["memory"] is None or p["memory"] >= WORTH]


def _busy(table: Fact, rows: list[Any]) -> set[str]:
    """Names of programs that compute on at least half of the chips they are on: one job over several chips."""
    on: dict[str, list[bool]] = {}
    for chip in table.value:
        for name in {p["name"] for p in _jobs(chip, rows)[1] if p["name"]}:
            on.setdefault(name, []).append(bool(chip["aicore"]))
    return {name for name, works in on.items() if 2 * sum(works) >= len(works)}


def held(table: Fact, processes: Fact | Unknown) -> Answer | list[Answer]:
    """NPU511: memory held by processes: a warning where it is nearly full while the AI cores are idle (left-over
    processes, or an idle service), advice where a job is at work. Full alone is no fault: jobs reserve most of it.

    MB and percent as npu-smi prints them.
    """
    rows = processes.value if isinstance(processes, Fact) else []
    busy = _busy(table, rows)
    found = []
    for chip in table.value:
        if chip["memory"] is None or not chip["memory"][1]:
            continue
        used, total = chip["memory"]
        own, jobs = _jobs(chip, rows)
        part = 100 * used // total
        # first-generation chips count huge pages while a job trains, whatever the momentary load
        at_work = bool(chip["aicore"]) or bool(chip["hugepages"] and chip["hugepages"][0] and jobs)
        # stages of a pipeline and ranks that wait for others are idle for moments
        waiting = bool(jobs) and {p["name"] for p in jobs} <= busy
        idle = not at_work and not waiting and chip["aicore"] is not None and part >= (FULL if jobs else NEARLY)
        if not idle and not jobs:
            continue
        pids = ", ".join(f"{p['pid']} ({p['name']})" if p["name"] else str(p["pid"]) for p in own[:16])
        found.append(fail(
            {"part": part, "free": total - used, "load": chip["aicore"] or 0, **({"pids": pids} if pids else {}),
             **who(chip)},
            seen(chip), *(seen(p) for p in jobs[:2]), place=place(chip), severity=None if idle else "advice",
            confidence="likely" if jobs else "guess",
        ))  # fmt: skip
    return found or passed({"count": len(table.value)}, table.evidence)
