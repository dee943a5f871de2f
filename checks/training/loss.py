"""The shape of a loss: where it ends, jumps, swings, stands still. Each answer is a row with its numbers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from doctor.checks.training.burst import bursts
from doctor.checks.training.curve import (
    SHORT,
    Array,
    Episode,
    Period,
    Rows,
    alone,
    column,
    episodes,
    filled,
    median5,
    number,
    numbers,
    period,
    smooth,
)  # fmt: skip
from doctor.model import Curves, Seen

START = 50
"""Steps in which a loss scale may search for its value."""


class Shape(NamedTuple):
    """One segment of a loss: its finite points and what stands out of them."""

    rows: Rows
    x: Array
    episodes: tuple[Episode, ...]
    period: Period | None


def shapes(curves: Curves) -> list[Shape]:
    """The segments of the loss, judged once for all checks."""
    known = curves.cache.get("shapes")
    if known is None:
        known = curves.cache["shapes"] = [_shape(curves, a, b) for a, b in curves.segments]
    found: list[Shape] = known
    return found


def _shape(curves: Curves, first: int, last: int) -> Shape:
    rows, values = column(curves, "loss")
    inside = (rows >= first) & (rows < last) & np.isfinite(values)
    rows, x = rows[inside], values[inside]
    found = episodes(x)
    even, of = filled(_without(x, found), curves.at[rows])
    swing = period(even)
    if swing is None and found and not found[-1].open:
        # a few rises may be all that a short log holds of a swing
        even, of = filled(x, curves.at[rows])
        swing = period(even, strict=True)
    if swing is not None:
        swing = swing._replace(start=int(of[swing.start]))
    if swing is not None and _of_data(curves, swing):
        swing = None
    if swing is not None:
        found = episodes(x, swing.amplitude)
    return Shape(rows, x, tuple(found), swing)


def _without(x: Array, found: Sequence[Episode]) -> Array:
    """A loss without a few rises that came back: they are no swing, and would look like a part of one."""
    closed = [e for e in found if not e.open]
    if not 0 < len(closed) < MANY:
        return x
    y = x.copy()
    for e in closed:
        a, b = max(0, e.start - 3), min(len(x), e.stop + 3)
        left, right = x[max(0, a - 5) : a], x[b : b + 5]
        ends = [float(np.median(part)) for part in (left, right) if len(part)] or [e.usual]
        y[a:b] = np.linspace(ends[0], ends[-1], b - a)
    return y


def _of_data(curves: Curves, swing: Period) -> bool:
    """Whether a swing has the length of an epoch or a part of it: the same data in the same order."""
    if not curves.period:
        return False
    gap = float(np.median(np.diff(curves.at))) if len(curves.at) > 1 else 1.0
    ratio = curves.period / max(1e-9, swing.points * gap)
    near = max(1.0, round(ratio))
    return abs(ratio - near) < 0.03 * near and near <= 12


def _where(curves: Curves, row: int) -> dict[str, Any]:
    """What texts say of a row: the step, and the epoch if it is printed."""
    args: dict[str, Any] = {"step": number(float(curves.step[row]))}
    if np.isfinite(curves.epoch[row]):
        args["epoch"] = number(float(curves.epoch[row]))
    return args


def _context(curves: Curves, row: int) -> dict[str, Any]:
    """Norm, scale and rate at or just before a row, by the names of the columns; of the norm also how many times its
    usual value it is."""
    words = []
    for name in ("grad_norm", "loss_scale", "lr"):
        rows, values = column(curves, name)
        upto = int(np.searchsorted(rows, row, "right"))
        if upto:
            lead = _lead(curves, row) if name == "grad_norm" else ""
            words.append(f"{name} {number(float(values[upto - 1]))}{lead}")
    return {"state": ", ".join(words)} if words else {}


# ------------------------------------------------------------------ NaN and inf


def _first_bad(curves: Curves) -> tuple[int, str] | None:
    """(row, nan or inf) where the loss first is no number. A line that leaves the loss out and counts NaN steps (as
    Megatron does) is one too."""
    rows, values = column(curves, "loss")
    bad = np.flatnonzero(~np.isfinite(values))
    first: tuple[int, str] | None = None
    if len(bad):
        first = int(rows[bad[0]]), "nan" if np.isnan(values[bad[0]]) else "inf"
    counted, steps = column(curves, "nan_steps")
    hidden = counted[steps > 0]
    if len(hidden) and (first is None or hidden[0] < first[0]):
        first = int(hidden[0]), "nan"
    return first


def _before(curves: Curves, row: int) -> tuple[Array, bool, bool]:
    """(the last five finite losses before a row, whether loss or norm had risen, whether steps had overflowed)."""
    rows, values = column(curves, "loss")
    x = values[(rows < row) & np.isfinite(values)]
    rose = bool(len(x) >= 2 and x[-1] > 1.3 * np.median(x[-64:-1]) and x[-1] > 0)
    n_rows, norms = column(curves, "grad_norm")
    norm = norms[n_rows < row]
    finite = norm[np.isfinite(norm)]
    rose = rose or bool(len(finite) >= 3 and finite[-3:].max() > 4 * np.median(finite[-64:]))
    o_rows, flags = column(curves, "overflow")
    near = flags[(o_rows < row) & (o_rows >= row - 16)]
    overflowed = bool((near > 0).any()) or bool(len(norm) > len(finite) and not np.isfinite(norm[-4:]).all())
    return x[-5:], rose, overflowed


def _onset(curves: Curves, kind: str, case: str) -> list[Seen]:
    found = _first_bad(curves)
    if found is None or found[1] != kind:
        return []
    row = found[0]
    last, rose, overflowed = _before(curves, row)
    rows, values = column(curves, "loss")
    here = values[rows == row]
    which = "start" if not len(last) else "overflow" if overflowed else "rise" if rose else "sudden"
    if case not in (which, "any"):
        return []
    later = values[rows > row]
    args = {
        **_where(curves, row), **_context(curves, row - 1 if row else row), "kind": kind,
        "count": str(int((~np.isfinite(values)).sum())), "finite": str(int(np.isfinite(later).sum())),
    }  # fmt: skip
    if len(last):
        args["before"] = numbers(last)
    usual = float(last[-1]) if len(last) else None
    return [Seen(row, args, value=float(here[0]) if len(here) else float("nan"), usual=usual)]


def nan_after_rise(curves: Curves) -> list[Seen]:
    """The loss or the norm grew, then the loss was NaN."""
    return _onset(curves, "nan", "rise")


def nan_after_overflow(curves: Curves) -> list[Seen]:
    """Steps overflowed, then the loss was NaN."""
    return _onset(curves, "nan", "overflow")


def nan_suddenly(curves: Curves) -> list[Seen]:
    """The loss was NaN at once, with nothing before."""
    return _onset(curves, "nan", "sudden")


def nan_from_start(curves: Curves) -> list[Seen]:
    """The loss is NaN from the first line on."""
    return _onset(curves, "nan", "start")


def inf_onset(curves: Curves) -> list[Seen]:
    """The loss became infinite."""
    return _onset(curves, "inf", "any")


# ------------------------------------------------------------------ level


def _spoilt(curves: Curves) -> bool:
    return _first_bad(curves) is not None


def diverged(curves: Curves) -> list[Seen]:
    """The loss rose and did not come back before its segment ended."""
    if _spoilt(curves):
        return []
    for shape in shapes(curves):
        for e in shape.episodes:
            # what began with the last points has had no time to come back
            if e.open and (len(shape.x) - e.start >= 3 or len(shape.x) < 2 * SHORT):
                row = int(shape.rows[e.onset])
                args = {
                    **_where(curves, row), **_context(curves, row), "usual": number(e.usual),
                    "value": number(float(shape.x[e.peak])), "last": number(float(shape.x[-1])),
                    "points": str(len(shape.x) - e.start),
                }  # fmt: skip
                return [Seen(row, args, value=float(shape.x[e.peak]), usual=e.usual)]
    return []


def spikes(curves: Curves) -> list[Seen]:
    """The loss rose and came back, the greatest rise first. Many of them are a swing, see ``oscillates``."""
    if _spoilt(curves):
        return []
    found: list[tuple[float, Seen]] = []
    for shape in shapes(curves):
        closed = [e for e in shape.episodes if not e.open]
        great = closed if len(closed) < MANY or not _late(shape, closed) else []
        small = [] if shape.period is not None else [e for e in bursts(shape.x) if not _beside(shape, e)]
        for e in (*great, *small):
            back = min(e.stop, len(shape.rows) - 1)
            found.append(_spike(curves, shape, _first_high(shape.x, e), e.peak, back, e.usual, e.stop - e.start))
        found += _towers(curves, shape, small)
    found.sort(key=lambda pair: -pair[0])
    if found:
        found[0][1].args["times"] = str(len(found))
    return [seen for _, seen in found[:20]]


def _spike(
    curves: Curves, shape: Shape, first: int, peak: int, back: int, usual: float, points: int
) -> tuple[float, Seen]:
    """The height of a rise above what is usual, and what is told of it: from the point ``first`` on, the greatest at
    ``peak``, over at ``back``."""
    row, value = int(shape.rows[first]), float(shape.x[peak])
    args = {
        **_where(curves, row), **_context(curves, row), "usual": number(usual), "value": number(value),
        "back": number(float(curves.at[shape.rows[back]])), "points": str(points),
    }  # fmt: skip
    return value - usual, Seen(row, args, value=value, usual=usual)


def _beside(shape: Shape, one: Episode) -> bool:
    """Whether a short rise belongs to a great one."""
    return any(one.start < e.stop + 3 and e.start - 3 < one.stop for e in shape.episodes)


def _first_high(x: Array, e: Episode) -> int:
    """The first point of a rise that is near its height: of a rise that holds for a while it is hardly the greatest,
    which tells less of its height than a median."""
    begin = max(0, e.start - 2)
    part = x[begin : e.stop] - e.usual
    height = float(median5(part)[2:-2].max()) if len(part) >= 9 else float(x[e.peak]) - e.usual
    return begin + int(np.argmax(part >= 0.7 * height))


def _towers(curves: Curves, shape: Shape, known: Sequence[Episode]) -> list[tuple[float, Seen]]:
    """Single points that stand out farther than the tail of this loss reaches."""
    x = shape.x
    if len(x) < 4 * SHORT:
        return []
    out = []
    level = smooth(x)
    covered: Any = np.zeros(len(x), bool)
    for e in [*shape.episodes, *known]:
        covered[max(0, e.start - 3) : e.stop + 3] = True
    for i in alone(x, level)[:20]:
        if covered[i] or i < 3 or i >= len(x) - 1:
            continue
        out.append(_spike(curves, shape, i, i, i + 1, float(level[i]), 1))
    return out


def _lead(curves: Curves, row: int) -> str:
    """The greatest norm of the five lines up to a row against the 200 before them: `` ×12`` for twelvefold; empty
    where it is about as usual or there are too few."""
    rows, norms = column(curves, "grad_norm")
    upto = int(np.searchsorted(rows, row, "right"))
    recent, usual = norms[max(0, upto - 5) : upto], norms[max(0, upto - 205) : max(0, upto - 5)]
    recent, usual = recent[np.isfinite(recent)], usual[np.isfinite(usual)]
    if len(recent) < 1 or len(usual) < 3 or not np.median(usual) > 0:
        return ""
    times = float(recent.max() / np.median(usual))
    return f" ×{number(round(times, 1))}" if times >= 2 else ""


MANY = 4
"""So many rises that came back, the last of them late in the log, are no accidents but a swing."""


def _late(shape: Shape, closed: list[Episode]) -> bool:
    return len(shape.x) >= 64 and closed[-1].start > 0.6 * len(shape.x)


def oscillates(curves: Curves) -> list[Seen]:
    """The loss swings, regularly or again and again."""
    if _spoilt(curves):
        return []
    for shape in shapes(curves):
        swing = shape.period
        if swing is not None:
            row = int(shape.rows[swing.start])
            gap = _gap(curves, shape)
            args = {
                **_where(curves, row), **_context(curves, row), "period": number(round(swing.points * gap, 1)),
                "amplitude": number(swing.amplitude), "noise": number(swing.noise), "level": number(swing.level),
            }  # fmt: skip
            return [Seen(row, args, value=swing.amplitude, usual=swing.noise)]
        closed = [e for e in shape.episodes if not e.open]
        if len(closed) >= MANY and _late(shape, closed):
            e = max(closed, key=lambda one: float(shape.x[one.peak]) - one.usual)
            row = int(shape.rows[e.peak])
            args = {
                **_where(curves, row), **_context(curves, row), "times": str(len(closed)), "level": number(e.usual),
                "amplitude": number(float(shape.x[e.peak]) - e.usual),
            }  # fmt: skip
            return [Seen(row, args, value=float(shape.x[e.peak]), usual=e.usual)]
    return []


def _gap(curves: Curves, shape: Shape) -> float:
    """Steps from one point to the next."""
    return float(np.median(np.diff(curves.at[shape.rows]))) if len(shape.rows) > 1 else 1.0


def restless(curves: Curves) -> list[Seen]:
    """A few points far into a run that jump by a large share of their level and do not fall."""
    if _spoilt(curves) or len(curves.segments) != 1:
        return []
    shape = shapes(curves)[0]
    x = shape.x
    if not 5 <= len(x) < LEAST_LONG or shape.episodes or not (x > 0).all():
        return []
    if not _far_in(curves, shape):
        return []
    mid = float(np.median(x))
    share = 1.4826 * float(np.median(np.abs(x - mid))) / mid
    third = max(1, len(x) // 3)
    falls = np.median(x[-third:]) < 0.9 * np.median(x[:third])
    if share < 0.15 or falls:
        return []
    row = int(shape.rows[0])
    args = {
        **_where(curves, row), **_context(curves, row), "percent": number(round(100 * share)),
        "low": number(float(x.min())), "high": number(float(x.max())),
    }  # fmt: skip
    return [Seen(row, args, value=float(x.max()), usual=mid)]


LEAST_LONG = 64


def _far_in(curves: Curves, shape: Shape) -> bool:
    """Whether a segment begins far behind the start of its run: in a later epoch, or at a late step."""
    row = int(shape.rows[0])
    epoch = curves.epoch[row]
    return bool(np.isfinite(epoch) and epoch >= 3) or bool(
        curves.total and not curves.period and float(curves.at[row]) > 0.1 * curves.total
    )


CLASSES = (2, 10, 100, 1000)
"""Numbers of classes of common data sets; guessing among them has a cross entropy of their logarithm."""


def _guessing(curves: Curves) -> list[Seen]:
    """The loss of guessing, within 1 %, over three epochs and more or in a late one: fewer points than a plateau of any
    other level needs."""
    rows, x = column(curves, "loss")
    if len(x) < 4 or len(curves.segments) > 1:
        return []
    epochs = curves.epoch[rows]
    late = len(x) >= 12 and epochs[0] >= 3
    if not np.isfinite(epochs).all() or not (late or (epochs[0] <= 1 and epochs[-1] - epochs[0] >= 3)):
        return []
    third = max(1, len(x) // 3)
    for classes in CLASSES:
        level = float(np.log(classes))
        off = np.abs(x - level)
        if float(off.max()) > 0.01 * level or float(np.median(x[-third:])) < 0.995 * float(np.median(x[:third])):
            continue
        if float(np.ptp(x)) == 0:
            return []
        row = int(rows[0])
        args = {
            **_where(curves, row), **_context(curves, len(curves.at) - 1), "start": number(float(x[0])),
            "level": number(float(np.median(x))), "percent": number(round(100 * float(np.ptp(x)) / level, 2)),
            "points": str(len(x)), "end": number(float(curves.at[rows[-1]])), "classes": str(classes),
        }  # fmt: skip
        return [Seen(row, args, value=float(np.median(x)), usual=float(x[0]))]
    return []


def plateau(curves: Curves) -> list[Seen]:
    """The loss never fell, or stopped falling high above where losses of its kind end."""
    if _spoilt(curves):
        return []
    guessing = _guessing(curves)
    if guessing:
        return guessing
    for shape in shapes(curves):
        x = shape.x
        n = len(x)
        if n < 40 or shape.episodes or shape.period is not None:
            continue
        gap = _gap(curves, shape)
        first_step = float(curves.at[shape.rows[0]])
        span = float(curves.at[shape.rows[-1]]) - first_step
        if first_step > max(0.05 * max(span, float(curves.total) if not curves.period else 0.0), 2 * gap):
            continue  # the log begins late: a flat curve is an old run's
        start = float(np.median(x[: max(3, min(20, n // 20))]))
        if not start > 0:
            continue
        head, tail = x[int(0.4 * n) : int(0.7 * n)], x[int(0.7 * n) :]
        level = float(np.median(tail))
        change = float(np.median(head)) - level
        error = _error(x[int(0.4 * n) :]) if n >= 100 else _error(tail)
        least = max(0.01 * level, min(2 * error, 0.015 * level))
        never = level > 0.97 * start and change < least
        stuck = abs(change) < least and level > (0.5 if n >= 100 else 0.85) * start and n >= 60
        if error > 0.015 * level or not (never or stuck):
            continue
        row = int(shape.rows[0])
        if stuck and not never:
            s = smooth(x)
            reached = np.flatnonzero(s <= level + max(0.01 * level, 3 * error))
            row = int(shape.rows[reached[0]]) if len(reached) else int(shape.rows[int(0.4 * n)])
        if float(np.ptp(x)) == 0:
            continue
        args = {
            **_where(curves, row), **_context(curves, len(curves.at) - 1), "start": number(start),
            "level": number(level), "percent": number(round(100 * abs(change) / max(level, 1e-30), 2)),
            "points": str(n), "end": number(float(curves.at[shape.rows[-1]])),
        }  # fmt: skip
        return [Seen(row, args, value=level, usual=start)]
    return []


def _error(x: Array) -> float:
    """How far the median of half of the points may be off: by those of 16 parts, in which neighbours share what they
    share, or of few points by their spread."""
    if len(x) < 64:
        return float(1.9 * 1.4826 * np.median(np.abs(x - np.median(x))) / np.sqrt(len(x)))
    size = len(x) // 16
    parts = np.median(x[: 16 * size].reshape(16, size), axis=1)
    return float(1.5 * 1.4826 * np.median(np.abs(np.diff(parts))) / np.sqrt(2) / np.sqrt(8))


# ------------------------------------------------------------------ values that cannot be


def constant(curves: Curves) -> list[Seen]:
    """The same loss to the last digit again and again, not zero."""
    for shape in shapes(curves):
        x = shape.x
        if len(x) < 5:
            continue
        same = x == x[-1]
        run = len(x) if same.all() else int(len(x) - 1 - np.flatnonzero(~same)[-1])
        if x[-1] == 0 or not (run == len(x) or (run >= 50 and run > 0.3 * len(x))):
            continue
        row = int(shape.rows[len(x) - run])
        args = {**_where(curves, row), **_context(curves, row), "value": number(float(x[-1])), "points": str(run)}
        return [Seen(row, args, value=float(x[-1]))]
    return []


def zero(curves: Curves) -> list[Seen]:
    """The loss is exactly zero where it was not before, or from the start on with a norm of zero. A stage of a pipeline
    that is not the last prints zeros from its first line on: its norm is none."""
    rows, values = column(curves, "loss")
    zeros = np.flatnonzero(values == 0)
    if len(zeros) < 2 or hidden_nan(curves):
        return []
    whole = len(zeros) == len(values)
    norms = column(curves, "grad_norm")[1]
    if whole and (len(norms) == 0 or float(np.nanmedian(norms)) != 0):
        return []
    tail = values[int(zeros[0]) :]
    if not whole and (tail == 0).mean() < 0.5:
        return []
    row = int(rows[zeros[0]])
    return [Seen(row, {**_where(curves, row), **_context(curves, row), "points": str(len(zeros))}, value=0.0,
                 usual=float(np.median(values[: zeros[0]])) if zeros[0] else None)]  # fmt: skip


def hidden_nan(curves: Curves) -> list[Seen]:
    """The norm is NaN while the loss shows 0.0: the trainer writes a NaN loss so."""
    rows, values = column(curves, "loss")
    n_rows, norms = column(curves, "grad_norm")
    if not (values == 0).any() or not np.isnan(norms).any():
        return []
    both = np.intersect1d(rows[values == 0], n_rows[np.isnan(norms)])
    if not len(both):
        return []
    row = int(both[0])
    last = values[(rows < row) & (values != 0)]
    args = {**_where(curves, row), "points": str(len(both))}
    if len(last):
        args["before"] = numbers(last[-5:])
    return [Seen(row, args, value=0.0, usual=float(last[-1]) if len(last) else None)]


def near_zero(curves: Curves) -> list[Seen]:
    """A loss that began like a language model's ends near zero."""
    for shape in shapes(curves):
        x = shape.x
        if len(x) < 20 or float(np.median(x[:3])) < 3.0 or float(np.median(x[:3])) > 15.0:
            continue
        tail = float(np.median(x[-max(5, len(x) // 5) :]))
        if not 0 < tail < 0.02:
            continue
        first = int(np.argmax(smooth(x) < 0.02))
        row = int(shape.rows[first])
        return [Seen(row, {**_where(curves, row), "start": number(float(x[0])), "value": number(tail)}, value=tail,
                     usual=float(x[0]))]  # fmt: skip
    return []


def resume_jump(curves: Curves) -> list[Seen]:
    """The loss after a restart from the middle of a run is not the one before it."""
    found = shapes(curves)
    for before, after in pairwise(found):
        if len(before.x) < 20 or len(after.x) < 20 or before.episodes or after.episodes:
            continue
        first = float(curves.at[after.rows[0]])
        reach = curves.at[before.rows]
        if first <= reach[0] + 0.1 * (reach[-1] - reach[0]) or first > reach[-1] + 0.2 * (reach[-1] - reach[0]):
            continue
        # the same steps of both runs where they overlap, else the end of one and the beginning of the other
        near = before.x[np.searchsorted(reach, first, "left") :]
        old = near[:20] if len(near) >= 20 else before.x[-20:]
        new = after.x[:20]
        spread = 1.4826 * float(np.median(np.abs(old - np.median(old)))) + 1e-12
        gap = float(np.median(new) - np.median(old))
        if abs(gap) > 0.05 * abs(float(np.median(old))) and abs(gap) > 6 * spread:
            row = int(after.rows[0])
            args = {
                **_where(curves, row),
                "usual": number(float(np.median(old))),
                "value": number(float(np.median(new))),
            }
            return [Seen(row, args, value=float(np.median(new)), usual=float(np.median(old)))]
    return []
