"""NPU510, 511, 538: device memory: its errors, and who holds it.

Source: ``npu-smi info`` and ``-t ecc`` in hicann/driver; code 80E18402 (64 isolated rows) of Huawei's fault classes.
"""

from __future__ import annotations

from typing import Any

from doctor.checks.environment.npu import place, seen, who, without
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


def _held(table: Fact, processes: Fact | Unknown) -> tuple[list[Any], list[Any]]:
    """(chips held by idle processes or by nobody named, chips at work), each with its processes."""
    rows = processes.value if isinstance(processes, Fact) else []
    idle, busy = [], []
    for chip in table.value:
        if chip["memory"] is None or not chip["memory"][1]:
            continue
        used, total = chip["memory"]
        own = [p for p in rows if p["npu"] == chip["npu"] and (p["chip"] is None or p["chip"] == (chip["chip"] or 0))]
        jobs = [p for p in own if p["memory"] is None or p["memory"] >= WORTH]
        part = 100 * used // total
        # first-generation chips count huge pages while a job trains, whatever the momentary load
        at_work = bool(chip["aicore"]) or bool(chip["hugepages"] and chip["hugepages"][0] and jobs)
        if not at_work and chip["aicore"] is not None and part >= (FULL if jobs else NEARLY):
            idle.append((chip, own, part))
        elif jobs:
            busy.append((chip, own, part))
    return idle, busy


def _args(held: list[Any]) -> dict[str, Any]:
    pids: dict[int, str] = {}
    for _, own, _ in held:
        pids.update((p["pid"], p["name"]) for p in own)
    chips = [chip for chip, _, _ in held]
    free = min(chip["memory"][1] - chip["memory"][0] for chip in chips)
    listed = ", ".join(f"{pid} ({name})" if name else str(pid) for pid, name in list(pids.items())[:16])
    return {"devices": ", ".join(chip["label"] for chip in chips), "part": max(part for _, _, part in held),
            "free": free, **({"pids": listed} if listed else {})}  # fmt: skip


def leftovers(table: Fact, processes: Fact | Unknown) -> Answer:
    """NPU511: memory nearly full while the AI cores are idle. Full alone is no fault: jobs reserve most of it."""
    idle, _ = _held(table, processes)
    if not idle:
        return passed({"count": len(table.value)}, table.evidence)
    rows = [p for _, own, _ in idle for p in own]
    evidence = [seen(chip) for chip, _, _ in idle[:4]] + [seen(p) for p in rows[:4]]
    return fail(_args(idle), *evidence, confidence="likely" if rows else "guess")


def in_use(table: Fact, processes: Fact | Unknown) -> Answer:
    """NPU538: a job runs on some chips; a second one there runs short of memory."""
    if isinstance(processes, Unknown):
        return without(processes)
    _, busy = _held(table, processes)
    if not busy:
        return passed({"count": len(table.value)}, table.evidence)
    rows = [p for _, own, _ in busy for p in own]
    return fail(_args(busy), *(seen(p) for p in rows[:4]))
