"""ENV507, ENV508, ENV522, ENV527: room where checkpoints, kernel caches and logs go."""

from __future__ import annotations

from typing import Any

from doctor.checks.environment.common import GIB, MIB, npu_here, size
from doctor.model import Answer, Evidence, Fact, Unknown, fail, passed, unknown

FULL, LOW, SHORT = 100 * MIB, GIB, 10 * GIB
FEW_INODES = 10_000
MEMORY_BACKED = "shm"
"""The use of shared memory, which has its own check."""


def _systems(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows that lie on one file system together, in the order of the first."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        if row["use"] != MEMORY_BACKED and row["state"] in ("ok", None):
            key = row["device"] if row["device"] is not None else row["path"]
            groups.setdefault(key, []).append(row)
    return list(groups.values())


def _args(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"path": rows[0]["path"], "uses": sorted({row["use"] for row in rows})}


def space(disks: Fact) -> list[Answer] | Answer:
    """Bytes left for an ordinary user: below 100 MiB an error, below 1 GiB a warning, below 10 GiB an advice (one
    checkpoint of a large model is larger; no document names a figure)."""
    found, seen = [], []
    for rows in _systems(disks.value):
        left, total = rows[0]["available"], rows[0]["size"]
        if left is None or not total or total < FULL or rows[0]["read_only"]:
            continue
        evidence = Evidence(f"df {rows[0]['path']}", 0, f"size {size(total)}, available {size(left)}")
        seen.append(evidence)
        args = {**_args(rows), "available": size(left), "size": size(total)}
        if left < FULL or (left < SHORT and total > LOW):
            found.append(
                fail(args, evidence, severity="error" if left < FULL else "warning" if left < LOW else "advice")
            )
    if not seen:
        return unknown("not_visible")
    return found or passed({}, *seen)


def inodes(disks: Fact) -> list[Answer] | Answer:
    """Files that may still be made: none an error, below 10,000 a warning, below one in a hundred an advice."""
    found, seen = [], []
    for rows in _systems(disks.value):
        left, total = rows[0]["inodes_free"], rows[0]["inodes"]
        if left is None or not total:
            continue
        evidence = Evidence(f"df -i {rows[0]['path']}", 0, f"inodes {total}, free {left}")
        seen.append(evidence)
        args = {**_args(rows), "free": left, "total": total}
        if left < FEW_INODES < total:
            found.append(fail(args, evidence, severity="warning" if left else "error"))
        elif left < total / 100:
            found.append(fail(args, evidence, severity="advice"))
    if not seen:
        return unknown("not_visible")
    return found or passed({}, *seen)


def answers(disks: Fact) -> list[Answer] | Answer:
    """File systems that do not answer within a second: a network mount whose server is gone stops a run in a place
    that no signal reaches."""
    found = [
        fail({"path": row["path"], "use": row["use"]}, Evidence(f"df {row['path']}", 0, "no answer within 1 s"))
        for row in disks.value
        if row["state"] == "timeout"
    ]
    return found or passed({"count": len(disks.value)}, disks.evidence)


def writable(disks: Fact, pci: Fact | Unknown, nodes: Fact | Unknown) -> list[Answer] | Answer:
    """Whether the working folder, the log folder and the caches can be written: kernel_meta and rank logs go there."""
    found, seen = [], []
    for row in disks.value:
        if (
            row["use"] in ("cwd", "tmp", "ascend_log", "kernel_cache", "compile_cache", "glog")
            and row["writable"] is not None
        ):
            state = "read-only file system" if row["read_only"] else "writable" if row["writable"] else "not writable"
            evidence = Evidence(f"test -w {row['real'] or row['path']}", 0, state)
            seen.append(evidence)
            if row["read_only"] or not row["writable"]:
                severity = "warning" if npu_here(pci, nodes) else "advice"
                args = {"path": row["path"], "use": row["use"], "state": state}
                found.append(fail(args, evidence, severity=severity))
    if not seen:
        return unknown("not_visible")
    return found or passed({}, *seen)
