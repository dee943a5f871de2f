"""A series as a small plot of blocks, and as a line of words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from doctor.i18n import tr
from doctor.model import Report

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
    return out
