"""Memory: what MindSpore's pool, CANN and the kernel print when an allocation fails → the numbers of the failure.

The texts of five generations differ (docs/training.md); all of them come down to what was asked, what the pool may
take, what it has taken, uses, holds for events and has idle, and what the card itself has.
"""

from collections.abc import Sequence
from typing import Any

from doctor.model import Shortage
from doctor.scan.lazy import lazy

LINES = 2000
"""Lines kept of a source; of more every second one, but for the first and last 200."""
_NO_CAP = 1 << 50
"""A limit of a control group from which on it is none."""
NEAR = 80
"""Lines behind a failure in which its statistics may stand."""

_MI = 1 << 20
_SIZE = r"(\d+(?:\.\d+)?) ?([KMGT]?)i?B?"
_UNIT = {"": 1, "K": 1 << 10, "M": _MI, "G": 1 << 30, "T": 1 << 40}
_POOL = {
    "allocated": lazy(rf'(?:otal allocated mem: ?|"alloc mem": ?|total allocated memory\[){_SIZE}'),
    "used": lazy(rf'(?:(?<!peak )(?<!total )in used mem: ?|"in used mem": ?|, used memory\[){_SIZE}'),
    "event": lazy(rf'(?:total used by event mem: ?|"used by event mem": ?|used by event memory\[){_SIZE}'),
    "idle": lazy(rf'(?:total idle mem: ?|"idle mem": ?|idle memory\[){_SIZE}'),
    "eager": lazy(rf'(?:total eager free mem: ?|"eager free mem": ?){_SIZE}'),
}
_VMM = lazy(
    r"TotalUsedMemStatistics : (?P<used>\d+) plus TotalUsedByEventMemStatistics : (?P<event>\d+) and plus alloc size : "
    r"(?P<size>\d+) is more than total mem size : (?P<limit>\d+)"
)
_ASKED = lazy(
    r"(?:Device\(id:(?P<device>\d+)\) m|Device m|M)emory isn.t enough and alloc failed(?: in output actor)?, "
    r"(?:kernel|actor|node) name: ?(?P<op>[^,\n]{1,300}), alloc size: ?(?P<size>\d+)"
)
_GE = lazy(rf"Out of Memory!!! (?:Request memory size|Alloc size): ?{_SIZE}")
_OLD = lazy(r"Out of Memory!!! total\[(?P<limit>\d+)\] \(dynamic\[(?P<used>\d+)\][^\n]{0,40}malloc\[(?P<size>\d+)\]")
_PLAIN = lazy(r"Allocate memory failed for size: ?(?P<size>\d+)")
_RESERVE = lazy(r"Malloc device memory failed, size\[(?P<size>\d+)\](?:, ret\[\d+\])?, Device (?P<device>\d+)")
_HALF = lazy(
    r"ree memory size is less than half of total memory size\.\s?Device (?P<device>\d+) Device (?:MOC|HBM) total size:"
    r"\s?(?P<total>\d+) Device (?:MOC|HBM) free size:\s?(?P<free>\d+)"
)
_REFUSED = lazy(r"halMemAlloc failed: device_id=(?P<device>\d+), size=(?P<size>\d+)")
_AROUND = {
    "total": lazy(rf"Device HBM memory size: ?{_SIZE}"),
    "limit": lazy(rf"MindSpore Used memory size: ?{_SIZE}"),
    "static": lazy(rf"Total Static Memory size: ?{_SIZE}"),
    "graph": lazy(rf"Dynamic memory size of this graph: ?{_SIZE}"),
    "peak": lazy(rf"Used peak memory usage \(without fragments\): ?{_SIZE}"),
    "actual": lazy(rf"Actual peak memory usage \(with fragments\): ?{_SIZE}"),
}
_KV = lazy(r"No available memory for the cache blocks")
_SERVED = {
    # a server prints GB and counts in powers of 1024
    "weights": lazy(r"(?:Loading model weights|Model loading) took (\d+(?:\.\d+)?) ?(G)i?B"),
    "room": lazy(r"Available KV cache memory: (-?\d+(?:\.\d+)?) ?(G)i?B"),
    "total": lazy(r"Available memory: -?\d+, total memory: (\d+)()"),
}
_REPORT = lazy(r"(?:\[Rank (?P<rank>\d+)\][^\n]{0,60})?memory \(MB\) \| allocated: (?P<used>\d+(?:\.\d+)?)")
_CAP = lazy(r"\bmemory: usage \d+kB, limit (?P<cap>\d+)kB")
_BUFFER = lazy(r"Idle mem_buf info: size\[(\d+)\]")
_KILLED = lazy(r"(?i:killed process) (?P<pid>\d+) \((?P<op>[^)\n]{1,64})\)[^\n]{0,200}?anon-rss:(?P<size>\d+)kB")


def _bytes(number: str, unit: str) -> int:
    return int(float(number) * _UNIT[unit])


def shortages(lines: Sequence[tuple[int, str]]) -> tuple[list[Shortage], list[tuple[int, int]]]:
    """(failed allocations with the statistics nearest to each, (line, bytes used) of all statistics).

    The statistics before a failure count, and what is printed up to 80 lines behind it fills what they left open.
    """
    found: list[dict[str, Any]] = []
    before: dict[str, int] = {}
    history: list[tuple[int, int]] = []
    ranks: dict[str, int] = {}
    for number, text in lines:
        pool = _pool(text)
        if pool:
            before.update(pool)
            if "used" in pool and "idle" in pool:
                history.append((number, pool["used"]))
        report = _REPORT.search(text)
        if report:
            ranks.setdefault(report["rank"] or "", len(ranks))
            if not ranks[report["rank"] or ""]:  # the reports of one rank
                history.append((number, int(float(report["used"]) * _MI)))
            continue
        around = {name: _bytes(*m.groups()) for name, pattern in _AROUND.items() if (m := pattern.search(text))}
        around |= {name: _bytes(*m.groups()) for name, pattern in _SERVED.items() if (m := pattern.search(text))}
        cap = _CAP.search(text)
        if cap and int(cap["cap"]) << 10 < _NO_CAP:
            around["cap"] = int(cap["cap"]) << 10
        buffer = _BUFFER.search(text)
        if buffer:
            around["largest"] = int(buffer[1])
        asked = _asked(text)
        if asked is not None:
            last = found[-1] if found else None
            # one failure is told by several layers, one after the other
            if last and last["size"] == asked.get("size") and number - last["line"] <= 4 * NEAR:
                for name, value in {**asked, **around}.items():
                    last.setdefault(name, value)
                if asked.get("op"):
                    last.update(line=number, text=text, op=asked["op"])
                continue
            if last and "total" in asked and last["reserve"]:
                last.update({k: v for k, v in asked.items() if k in ("total", "free")})
                continue
            found.append({"line": number, "text": text, "size": 0, "reserve": False, "host": False,
                          **before, **around, **asked})  # fmt: skip
            continue
        if found and number - found[-1]["line"] <= NEAR:
            for name, value in {**pool, **around}.items():
                if name == "largest":
                    found[-1][name] = max(value, found[-1].get(name, 0))
                else:
                    found[-1].setdefault(name, value)
        elif around:
            around["largest"] = max(around.get("largest", 0), before.get("largest", 0))
            before.update(around)
    return [Shortage(**{k: v for k, v in one.items() if k in Shortage._fields}) for one in found], history


def _pool(text: str) -> dict[str, int]:
    """The statistics of the whole pool in a line; those of a part of it (common, persistent) say too little."""
    if "The dynamic memory pool" not in text and "total allocated memory[" not in text and '"alloc mem"' not in text:
        return {}
    return {name: _bytes(*m.groups()) for name, pattern in _POOL.items() if (m := pattern.search(text))}


def _asked(text: str) -> dict[str, Any] | None:
    """What a line says of a failed allocation, None if it is none."""
    for pattern in (_VMM, _ASKED, _OLD, _PLAIN, _REFUSED):
        m = pattern.search(text)
        if m:
            out = {k: v if k == "op" else int(v) for k, v in m.groupdict().items() if v is not None}
            if pattern is _OLD:
                # the pool of those versions gave a graph all it needs at once
                return {**out, "whole": True}
            return {**out, "refused": True} if pattern is _REFUSED else out
    m = _GE.search(text)
    if m:
        return {"size": _bytes(m[1], m[2]), "whole": "Request memory size" in text}
    m = _KV.search(text)
    if m:
        return {"size": 0, "kv": True}
    m = _RESERVE.search(text) or _HALF.search(text)
    if m:
        return {"size": 0, **{k: int(v) for k, v in m.groupdict().items() if v is not None}, "reserve": True}
    m = _KILLED.search(text)
    if m:
        return {"size": int(m["size"]) << 10, "op": m["op"], "pid": int(m["pid"]), "host": True}
    return None
