"""The run as the report tells it: lanes, clocks, chains and the decisive minutes, equal lines folded over ranks."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.run.lanes import Lane, Run
from doctor.run.places import Source

ENTRIES = 60
"""Lines of the timeline."""
BEFORE, AFTER = 600.0, 7200.0
"""Seconds around the first failure that the timeline shows."""
CHAINS = 12
LINKS = 40
"""Ranks of a chain that are listed: its beginning and its end."""


class Event(NamedTuple):
    """Something at a moment; ``fold``: events with one fold are one line of the timeline."""

    seconds: float
    rank: int | None
    source: Source | None
    line: int
    text: str
    what: str
    finding: int | None = None
    fold: str = ""


def ranks_text(ranks: Sequence[int]) -> str:
    """``0-6,8-255`` of rank numbers.

    >>> ranks_text([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    out: list[str] = []
    start = previous = -2
    for number in [*sorted(set(ranks)), -1]:
        if number == previous + 1 and number != -1:
            previous = number
            continue
        if start >= 0:
            out.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = number
    return ",".join(out)


def told(
    run: Run,
    events: Sequence[Event],
    chains: Sequence[tuple[tuple[int, ...], bool]],
    edges: Mapping[int, Sequence[int]],
    firsts: Mapping[int, tuple[float | None, int]],
    root: Event | None,
) -> dict[str, Any]:
    """``Report.run``. ``firsts``: rank → (moment, finding) of its first failure."""
    return {
        "world_size": run.world,
        "missing": ranks_text(run.missing),
        "ranks_seen": sum(1 for lane in run.lanes.values() if lane.state != "missing"),
        "clock": {
            "corrected": any(abs(c.offset) > 0 for c in run.clocks.ranks.values()),
            "doubt": run.clocks.doubt,
            "hosts": _hosts(run),
        },
        "lanes": [_lane(lane, edges.get(rank, ()), firsts.get(rank)) for rank, lane in run.lanes.items()],
        "timeline": _timeline(run, events, root),
        "chains": [{"ranks": list(_shortened(path)), "cycle": cycle} for path, cycle in chains[:CHAINS]],
    }


def _shortened(path: tuple[int, ...]) -> tuple[int, ...]:
    return path if len(path) <= LINKS else (*path[: LINKS // 2], *path[-LINKS // 2 :])


def _hosts(run: Run) -> list[dict[str, Any]]:
    """The clocks by host; ranks of a host, or of none that is known, with different clocks stand apart."""
    out: list[dict[str, Any]] = []
    for host, ranks in run.hosts:
        groups: dict[tuple[float, str], list[int]] = {}
        for rank in ranks:
            own = run.clocks.ranks.get(rank)
            groups.setdefault((round(own.offset, 1), own.how) if own else (0.0, "none"), []).append(rank)
        for (offset, how), members in groups.items():
            out.append({"host": host, "ranks": ranks_text(members), "offset": offset, "from": how})
    return out


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _lane(lane: Lane, peers: Sequence[int], first: tuple[float | None, int] | None) -> dict[str, Any]:
    return {
        "rank": lane.rank,
        "source": lane.source,
        "host": lane.host,
        "state": lane.state,
        "start": _seconds(lane.start),
        "first_failure": _seconds(first[0]) if first else None,
        "last": _seconds(lane.last),
        "last_step": lane.step,
        "waits_for": list(peers[:8]),
        "finding": first[1] if first else None,
    }


def _timeline(run: Run, events: Sequence[Event], root: Event | None) -> list[dict[str, Any]]:
    """The events around the first failure, folded, at most ``ENTRIES``."""
    shown = [e for e in events if e.what != "recovered"] or list(events)
    if not shown and root is None:
        return []
    start = root.seconds if root else min(e.seconds for e in shown)
    near = [e for e in events if start - BEFORE <= e.seconds <= start + AFTER]
    far = [e for e in events if not start - BEFORE <= e.seconds <= start + AFTER and e.what != "step"]
    folded = _folded(([root] if root else []) + near)
    folded += _folded(far)[: max(0, ENTRIES // 4)]
    weight = {"cause": 0, "silent": 1, "failure": 2, "waiting": 3, "recovered": 4, "step": 5}
    kept = sorted(folded, key=lambda one: (weight[one[0].what], one[0].seconds))[:ENTRIES]
    kept.sort(key=lambda one: (one[0].seconds, weight[one[0].what], one[0].rank or 0))
    return [
        {
            "seconds": round(event.seconds, 3),
            "rank": event.rank,
            "source": event.source.scan.name if event.source else "",
            "line": event.line,
            "text": event.text,
            "what": event.what,
            "finding": event.finding,
            "ranks": ranks_text(ranks),
        }
        for event, ranks in kept
    ]


def _folded(events: Sequence[Event]) -> list[tuple[Event, list[int]]]:
    """(first event, ranks) of events of one fold."""
    table: dict[tuple[str, str], tuple[Event, list[int]]] = {}
    lines: set[tuple[str, int]] = set()
    for event in sorted(events, key=lambda e: (e.what != "cause", e.seconds, -1 if e.rank is None else e.rank)):
        key = (event.what, event.fold)
        line = (event.source.scan.name if event.source else "", event.line)
        if event.line and line in lines and key not in table:
            # several rules on one line are one event
            continue
        lines.add(line)
        if key not in table:
            table[key] = (event, [])
        if event.rank is not None:
            table[key][1].append(event.rank)
    return list(table.values())
