"""The ranks of a run as lanes over time. ``run`` is ``Report.run``; times are seconds as the logs print them,
corrected.

Only marks one cell wide in every font are used: a lane must line up with the axis above it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from doctor.i18n import tr
from doctor.render.safe import redact, safe, width
from doctor.render.text import ranks_text

Span = tuple[str, str]
Window = tuple[float, float]

STATES = ("failed", "waited", "silent", "missing", "empty", "running", "ended")
"""The most telling first."""

STATE_STYLES = {
    "failed": "bold red", "waited": "yellow", "silent": "magenta", "missing": "bold magenta", "empty": "magenta",
    "running": "green", "ended": "",
}  # fmt: skip

MARKS = {"step": ":", "waiting": "w", "silent": "o", "recovered": "+", "failure": "x", "cause": "✖"}
"""What happened, the least telling first: of two in one cell the later one of this order is seen."""

MARK_STYLES = {
    "step": "dim", "waiting": "bold yellow", "silent": "bold magenta", "recovered": "bold green", "failure": "bold red",
    "cause": "bold red reverse",
}  # fmt: skip

FOLD_FROM = 17
"""Lanes from which alike ones share a row at first."""

MOST_RANKS = 1 << 16

_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400, 604800)


class Row(NamedTuple):
    """One lane, or several that had the same fate. ``ranks`` is empty for a source without a rank."""

    label: str
    ranks: tuple[int, ...]
    state: str
    lanes: tuple[dict[str, Any], ...]
    start: float | None
    first_failure: float | None
    last: float | None
    steps: str
    waits_for: tuple[int, ...]


def ranks_of(text: str) -> tuple[int, ...]:
    """The numbers of ``0-6,8``; what is none is passed over.

    >>> ranks_of("0-2,5,x")
    (0, 1, 2, 5)
    """
    out: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last.isdecimal() or not last):
            end = int(last or first)
            out += range(int(first), min(end, int(first) + MOST_RANKS) + 1)
        if len(out) > MOST_RANKS:
            break
    return tuple(out[:MOST_RANKS])


def event_ranks(event: dict[str, Any]) -> tuple[int, ...]:
    """The ranks an event speaks of."""
    several = ranks_of(event.get("ranks") or "")
    return several or ((event["rank"],) if event.get("rank") is not None else ())


def rows_of(run: dict[str, Any], folded: bool) -> list[Row]:
    """The rows, in the order of their first ranks; ranks whose log is missing are a row of their own."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for n, lane in enumerate(run.get("lanes") or ()):
        key: Any = n
        if folded:
            key = (lane["state"], tuple(lane.get("waits_for") or ()), lane.get("finding") is None,
                   lane.get("rank") is None and n)  # fmt: skip
        groups.setdefault(key, []).append(lane)
    rows = [_row(members) for members in groups.values()]
    known = {rank for row in rows for rank in row.ranks}
    missing = tuple(rank for rank in ranks_of(run.get("missing") or "") if rank not in known)
    if missing:
        rows.append(Row(ranks_text(missing), missing, "missing", (), None, None, None, "", ()))
    return sorted(rows, key=lambda row: row.ranks[0] if row.ranks else MOST_RANKS)


def _row(members: list[dict[str, Any]]) -> Row:
    def known(key: str) -> list[float]:
        return [lane[key] for lane in members if lane.get(key) is not None]

    ranks = tuple(sorted(lane["rank"] for lane in members if lane.get("rank") is not None))
    steps = known("last_step")
    reached = ""
    if steps:
        low, high = int(min(steps)), int(max(steps))
        reached = str(low) if low == high else f"{low}-{high}"
    waits = sorted({rank for lane in members for rank in lane.get("waits_for") or ()})
    return Row(
        ranks_text(ranks) if ranks else safe(str(members[0].get("source", "")).rsplit("/", 1)[-1]),
        ranks,
        members[0]["state"],
        tuple(members),
        min(known("start"), default=None),
        min(known("first_failure"), default=None),
        max(known("last"), default=None),
        reached,
        tuple(waits),
    )


def whole(run: dict[str, Any]) -> Window | None:
    """From the first start to the last line; None without any time."""
    times = [e["seconds"] for e in run.get("timeline") or () if e.get("seconds") is not None]
    for lane in run.get("lanes") or ():
        times += [lane[key] for key in ("start", "first_failure", "last") if lane.get(key) is not None]
    if not times:
        return None
    return min(times), max(*times, min(times) + 1.0)


def decisive(run: dict[str, Any]) -> Window | None:
    """From a minute before the first failure to the end of what followed."""
    every = whole(run)
    told = [e["seconds"] for e in run.get("timeline") or ()
            if e.get("seconds") is not None and e["what"] in ("cause", "failure", "waiting", "silent")]  # fmt: skip
    if every is None or not told:
        return every
    slack = max(60.0, (max(told) - min(told)) / 10)
    first, last = max(every[0], min(told) - slack), min(every[1], max(told) + slack)
    return first, max(last, first + 1.0)


def column(seconds: float, window: Window, columns: int) -> int:
    """The cell of a moment, below 0 or from ``columns`` on if it is outside the window."""
    return int((seconds - window[0]) / (window[1] - window[0]) * (columns - 1) + 0.5)


def clock(seconds: float, *, day: bool = False) -> str:
    """``09:02:00``; with the day before it if asked. Out of the range of dates: the plain number."""
    try:
        return time.strftime("%m-%d %H:%M:%S" if day else "%H:%M:%S", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f}"


def axis(window: Window, columns: int) -> list[str]:
    """The times above the lanes, and the ticks below the times."""
    room = 10
    span = window[1] - window[0]
    tick = next((t for t in _TICKS if columns / max(span / t, 1e-9) >= room), _TICKS[-1])
    names, ticks = [" "] * columns, ["-"] * columns
    at = window[0] // tick * tick
    free = 0
    for _ in range(columns):
        where = column(at, window, columns)
        if where >= columns:
            break
        if where >= free:
            name = clock(at)
            if where + len(name) <= columns:
                names[where : where + len(name)] = name
            ticks[where] = "+"
            free = where + room
        at += tick
    return ["".join(names), "".join(ticks)]


def marks_of(row: Row, events: Sequence[dict[str, Any]], ranks: Sequence[frozenset[int]]) -> list[tuple[float, str]]:
    """(seconds, what) of the events of a row, and its first failure where no event tells of it. ``ranks`` are those of
    each event."""
    if not row.lanes:
        return []
    mine, sources = set(row.ranks), {lane.get("source") for lane in row.lanes}
    out = []
    for event, theirs in zip(events, ranks, strict=True):
        about = not theirs.isdisjoint(mine) if theirs else event["source"] in sources
        if about and event.get("seconds") is not None:
            out.append((event["seconds"], event["what"]))
    what = "waiting" if row.state == "waited" else "failure"
    if row.first_failure is not None and not any(seen in (what, "failure", "cause") for _, seen in out):
        out.append((row.first_failure, what))
    return out


def draw(
    row: Row, marks: Iterable[tuple[float, str]], window: Window, columns: int, end: float, ascii_only: bool
) -> list[Span]:
    """A lane: a line while the rank wrote, dots while it was silent to the ``end`` of the run, marks for events."""
    cells: list[Span] = [("", " ")] * columns

    def fill(first: float, last: float, char: str, style: str) -> None:
        for n in range(max(0, column(first, window, columns)), min(columns - 1, column(last, window, columns)) + 1):
            cells[n] = (style, char)

    start = row.start if row.start is not None else row.first_failure
    if start is not None:
        last = row.last if row.last is not None else start
        if row.state == "silent" and end > last:
            fill(last, end, ".", "magenta")
        fill(start, last, "-" if ascii_only else "─", "dim" if row.state == "ended" else "green")
        if row.first_failure is not None and row.first_failure <= last:
            fill(row.first_failure, last, "-" if ascii_only else "─", STATE_STYLES.get(row.state, "") or "red")
    order = list(MARKS)
    for seconds, what in sorted(marks, key=lambda m: order.index(m[1]) if m[1] in order else 0):
        at = column(seconds, window, columns)
        if 0 <= at < columns and what in MARKS:
            char = "X" if what == "cause" and ascii_only else MARKS[what]
            cells[at] = (MARK_STYLES[what], char)
    return _joined(cells)


def _joined(cells: Iterable[Span]) -> list[Span]:
    out: list[Span] = []
    for style, char in cells:
        if out and out[-1][0] == style:
            out[-1] = (style, out[-1][1] + char)
        else:
            out.append((style, char))
    return out


def head(run: dict[str, Any], lang: str, ascii_only: bool) -> list[Span]:
    """How many ranks there are, which logs are missing, how far the clocks can be trusted, who waited for whom."""
    seen, size = run.get("ranks_seen"), run.get("world_size")
    out: list[Span] = [("", tr(lang, "lane.seen", seen=seen, size=size) if size else tr(lang, "lane.ranks", seen=seen))]
    if run.get("missing"):
        out.append((STATE_STYLES["missing"], "  " + tr(lang, "lane.no_log", ranks=safe(run["missing"]))))
    clocks = run.get("clock") or {}
    moved = [h for h in clocks.get("hosts") or () if h.get("offset")]
    if clocks.get("corrected") and moved:
        shifts = ", ".join(redact(safe(f"{h['host']} {h['offset']:+.1f} s")) for h in moved[:3])
        shifts += f", {'...' if ascii_only else '…'}" if len(moved) > 3 else ""
        doubt = clocks.get("doubt")
        key = "lane.clock" if doubt is None else "lane.clock_doubt"
        said = tr(lang, key, shifts=shifts, doubt=f"{doubt or 0:.1f}")
        out.append(("dim", "  " + (said.replace("±", "+-") if ascii_only else said)))
    elif len(clocks.get("hosts") or ()) > 1 and not clocks.get("corrected"):
        out.append(("dim", "  " + tr(lang, "lane.no_clock")))
    for cycle, text in chains(run, ascii_only)[:3]:
        out.append(("yellow", "  " + tr(lang, "lane.cycle" if cycle else "lane.chain", ranks=text)))
    return out


def chains(run: dict[str, Any], ascii_only: bool) -> list[tuple[bool, str]]:
    """(whether it is a circle, ``0-1,3 → 2``) of who waited for whom; those that wait for the same are one."""
    table: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for chain in run.get("chains") or ():
        if chain["ranks"]:
            table.setdefault((bool(chain.get("cycle")), tuple(chain["ranks"][1:])), []).append(chain["ranks"][0])
    arrow, more = (" -> ", " ...") if ascii_only else (" → ", " …")
    return [
        (cycle, arrow.join([ranks_text(firsts), *map(str, rest[:12])]) + (more if len(rest) > 12 else ""))
        for (cycle, rest), firsts in table.items()
    ]


def cut(text: str, columns: int) -> str:
    """At most that many cells, padded to them."""
    if width(text) > columns:
        used, kept = 0, ""
        for char in text:
            used += width(char)
            if used > columns - 1:
                break
            kept += char
        text = kept + "~"
    return text + " " * (columns - width(text))
