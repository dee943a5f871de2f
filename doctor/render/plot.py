"""Series as plots, small ones of blocks and large ones of dots; memory as bars; and a series as a line of words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from doctor.i18n import tr
from doctor.model import Report
from doctor.render.safe import width as cells

ROWS = 6
COLUMNS = 60
LOG_FROM = 30.0
"""From this ratio of the greatest to the least value on the axis is logarithmic."""

_BLOCKS = " ▁▂▃▄▅▆▇█"


def number(value: float) -> str:
    """Four digits.

    >>> number(10.91234), number(0.000123456), number(65536.0)
    ('10.91', '0.0001235', '6.554e+04')
    """
    return f"{value:.4g}"


def plot(
    points: Sequence[Sequence[Any]], marks: Sequence[int] = (), *, columns: int = COLUMNS, ascii_only: bool = False
) -> list[str]:
    """Lines of a plot of (step, value or None); a value that is no number is an x at the top. ``marks``: steps under
    which a ^ stands. Nothing without two finite values."""
    finite = [v for _, v in points if v is not None and math.isfinite(v)]
    if len(finite) < 2:
        return []
    low, high = min(finite), max(finite)
    log = low > 0 and high / low > LOG_FROM
    if log:
        low, high = math.log(low), math.log(high)
    span = high - low or 1.0
    width = min(columns, len(points))
    cells: list[float | None] = []
    where: list[tuple[int, int]] = []
    for n in range(width):
        part = points[n * len(points) // width : max(n * len(points) // width + 1, (n + 1) * len(points) // width)]
        values = [p[1] for p in part]
        where.append((part[0][0], part[-1][0]))
        if any(v is None for v in values):
            cells.append(None)
            continue
        value = max(values, key=lambda v: abs(v - finite[0])) if len(values) > 1 else values[0]
        cells.append(((math.log(value) if log else value) - low) / span)
    names = [number(math.exp(high) if log else high), number(math.exp(low) if log else low)]
    margin = max(map(len, names))
    out = []
    for row in range(ROWS):
        floor = ROWS - 1 - row
        line = ""
        for cell in cells:
            if cell is None:
                line += "x" if row == 0 else " "
                continue
            level = cell * (ROWS - 0.125) + 0.125 - floor
            if ascii_only:
                line += "*" if 0 < level <= 1.001 else " "
            else:
                line += _BLOCKS[max(0, min(8, round(level * 8)))]
        label = names[0] if row == 0 else names[1] if row == ROWS - 1 else ""
        out.append(f"{label:>{margin}} |{line.rstrip()}")
    pointers = "".join("^" if any(a <= m <= b for m in marks) else " " for a, b in where).rstrip()
    if pointers:
        out.append(" " * margin + "  " + pointers)
    first, last = str(points[0][0]), str(points[-1][0])
    out.append(
        " " * margin + "  " + first + " " * max(1, width - len(first) - len(last)) + last + (" (log)" if log else "")
    )
    return out


def shown(report: Report, every: bool) -> list[dict[str, Any]]:
    """The series worth a plot: those with something to see, the loss first; with ``every`` also healthy losses."""
    odd = [s for s in report.series if s.get("label", "healthy") not in ("healthy", "unknown") and s["points"]]
    odd.sort(key=lambda s: s["name"] != "loss")
    if every:
        return (
            odd[:8]
            + [s for s in report.series if s["name"] == "loss" and "label" in s and s not in odd][: 8 - len(odd[:8])]
        )
    return odd[:1]


def lines(report: Report, lang: str, *, every: bool, columns: int, ascii_only: bool) -> list[tuple[str, str]]:
    """(style, text) of the part of a report about series."""
    losses = [s for s in report.series if s["name"] == "loss" and "label" in s]
    out: list[tuple[str, str]] = []
    for one in shown(report, every):
        rank = f" {tr(lang, 'rank', ranks=one['rank'])}" if one["rank"] is not None else ""
        label = tr(lang, f"series.{one['label']}")
        out += [("", ""), ("bold", f"   {tr(lang, 'series.' + one['name'])}{rank}: {label}")]
        marks = [e["step"] for e in one["events"][:6] if e["step"] is not None]
        rows = plot(one["points"], marks, columns=min(COLUMNS, columns - 20), ascii_only=ascii_only)
        out += [("dim", "   " + row) for row in rows]
    if losses and not out:
        values = [v for _, v in losses[0]["points"] if v is not None]
        if len(values) > 1:
            count = max(one["count"] for one in losses)
            text = tr(
                lang,
                "series.summary",
                first=number(values[0]),
                last=number(values[-1]),
                n=f"{count:,}",
                ranks=len(losses),
            )
            if losses[0]["understood"] == "inferred":
                text += " " + tr(lang, "series.inferred")
            out.append(("dim", text))
    if unread := sum(one["unread"] for one in losses):
        out.append(("dim", "   " + tr(lang, "series.unread", n=f"{unread:,}")))
    return out


# ------------------------------------------------------------------ the large plot of the screen

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character by row and column (Unicode 15, block 2800)."""


def chart(
    points: Sequence[Sequence[Any]], marks: Sequence[int] = (), *, columns: int, rows: int, ascii_only: bool = False
) -> list[str]:
    """A plot of (step, value or None) of that size: braille dots, or stars in ASCII; a value that is no number is an x
    at the top. ``marks``: steps whose numbers, from 1 on, stand below the axis. Nothing without two finite values."""
    finite = [float(v) for _, v in points if v is not None and math.isfinite(v)]
    if len(finite) < 2 or columns < 24 or rows < 4:
        return []
    low, high = min(finite), max(finite)
    log = low > 0 and high / low > LOG_FROM
    if log:
        low, high = math.log(low), math.log(high)
    span = high - low
    levels = [high - span * n / 3 for n in range(4)]
    names = [number(math.exp(v) if log else v) for v in levels]
    margin = max(map(len, names))
    rows -= 3 if marks else 2
    width = columns - margin - 2
    across, down = (1, 1) if ascii_only else (2, 4)
    steps = [int(step) for step, _ in points]
    if any(b <= a for a, b in pairwise(steps)):  # a run that began again, or no steps
        at = [n * (width * across - 1) // max(1, len(points) - 1) for n in range(len(points))]
    else:
        reach = max(1, steps[-1] - steps[0])
        at = [(step - steps[0]) * (width * across - 1) // reach for step in steps]
    dots: set[tuple[int, int]] = set()
    bad: set[int] = set()
    before: tuple[int, int] | None = None
    for x, (_, value) in zip(at, points, strict=True):
        if value is None or not math.isfinite(value):
            bad.add(x // across)
            before = None
            continue
        share = ((math.log(value) if log else value) - low) / span if span else 0.5
        y = round((1 - share) * (rows * down - 1))
        dots.update(_line(before, (x, y)) if before is not None else [(x, y)])
        before = (x, y)
    labels = {round(n * (rows - 1) / 3): name for n, name in enumerate(names)}
    out = []
    for row in range(rows):
        line = ""
        for cell in range(width):
            if row == 0 and cell in bad:
                line += "x"
            elif ascii_only:
                line += "*" if (cell, row) in dots else " "
            else:
                bits = sum(_DOTS[b][a] for a in (0, 1) for b in range(4) if (cell * 2 + a, row * 4 + b) in dots)
                line += chr(0x2800 + bits) if bits else " "
        out.append(f"{labels.get(row, ''):>{margin}} |{line.rstrip()}")
    out.append(" " * margin + " +" + "-" * width)
    if marks:
        pointers = [" "] * width
        for n, step in enumerate(marks[:9], 1):
            nearest = min(range(len(steps)), key=lambda k: abs(steps[k] - step))
            pointers[at[nearest] // across] = str(n)
        out.append(" " * margin + "  " + "".join(pointers).rstrip())
    first, last = str(steps[0]), str(steps[-1]) + (" (log)" if log else "")
    out.append((" " * margin + "  " + first + " " * max(1, width - len(first) - len(last)) + last)[:columns])
    return out


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots from one to another."""
    (x0, y0), (x1, y1) = start, end
    length = max(abs(x1 - x0), abs(y1 - y0), 1)
    return [(round(x0 + (x1 - x0) * n / length), round(y0 + (y1 - y0) * n / length)) for n in range(length + 1)]


_EIGHTHS = " ▏▎▍▌▋▊▉█"

SIZES = ("total", "limit", "allocated", "reserved", "used", "event", "idle", "unallocated", "outside", "largest",
         "free", "size", "tried", "missing")  # fmt: skip
"""Values of a failed allocation that are sizes, in the order of the bars."""


def bar(size: float, most: float, columns: int, plain: bool = False) -> str:
    """A bar of at most ``columns`` cells; something is seen of everything above nothing.

    >>> bar(1.0, 2.0, 8, plain=True), bar(0.001, 2.0, 8, plain=True), bar(0.0, 2.0, 8, plain=True)
    ('####', '#', '')
    """
    if size <= 0 or most <= 0 or columns <= 0:
        return ""
    eighths = max(1, round(min(1.0, size / most) * columns * 8))
    if plain:
        return "#" * max(1, round(eighths / 8))
    return "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def sizes_of(args: Mapping[str, Any]) -> list[tuple[str, float]]:
    """(name, bytes) of the sizes that a finding about memory carries."""
    from doctor.scan.calc import number as size_of

    found = [(name, size_of(str(args[name]))) for name in SIZES if name in args]
    return [(name, size) for name, size in found if size is not None and size > 0]


def memory_bars(args: Mapping[str, Any], lang: str, *, columns: int, ascii_only: bool) -> list[tuple[str, str]]:
    """(style, text) of a bar for each size, the largest as the measure; nothing unless two can be compared."""
    sizes = sizes_of(args)
    if len(sizes) < 2:
        return []
    names = [tr(lang, f"memory.size.{name}") for name, _ in sizes]
    room, most = max(map(cells, names)), max(size for _, size in sizes)
    figures = [_bytes(size) for _, size in sizes]
    wide = max(map(len, figures))
    out = []
    for (name, size), label, figure in zip(sizes, names, figures, strict=True):
        drawn = bar(size, most, max(8, columns - room - wide - 4), ascii_only)
        style = "bold red" if name in ("size", "tried", "missing") else "cyan"
        out.append((style, f"{label}{' ' * (room - cells(label) + 2)}{figure:>{wide}}  {drawn}"))
    return out


def _bytes(size: float) -> str:
    for unit, least in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= least:
            return f"{size / least:.2f} {unit}"
    return f"{size:.0f} B"
