"""Loss scale, overflows and gradient norms."""

import numpy as np

from doctor.checks.training.curve import Array, Rows, column, number, numbers
from doctor.checks.training.loss import START, _first_bad, _where
from doctor.model import Curves, Seen

HALVINGS = 5
"""Halvings in a row that make a collapse; a search at the start of a run needs as many and more, and is none."""
NEAR = 16
"""Lines between two falls of one collapse, at most, where the scale rose between them."""
HOLDS = 20
"""Lines in which a scale must hold that was found."""


def collapse(curves: Curves) -> list[Seen]:
    """The loss scale is halved again and again, or has come down to 1."""
    rows, scale = column(curves, "loss_scale")
    good = np.isfinite(scale) & (scale > 0)
    rows, scale = rows[good], scale[good]
    if len(scale) < 3 or float(scale.max()) <= 1:
        return []
    change = np.flatnonzero(np.diff(scale) != 0)
    if not len(change):
        return []
    # stretches without a rise: from the row before their first fall to their lowest value
    rises = np.flatnonzero(np.diff(scale) > 0)
    starts = np.concatenate(([0], rises + 1))
    stops = np.concatenate((rises, [len(scale) - 1]))
    for n, (a, b) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
        high, low = float(scale[a]), float(scale[b])
        if low <= 0 or (high / low < 2**HALVINGS and not low <= 1 < high / 4):
            continue
        falls = a + 1 + np.flatnonzero(np.diff(scale[a : b + 1]) < 0)
        # falls that lie together: half a day between two halvings is the usual search for the largest scale
        level = np.log2(scale[falls - 1] / scale[falls])
        total = np.cumsum(level)
        for i in range(len(falls)):
            j = int(np.searchsorted(total - (total[i] - level[i]), HALVINGS - 1e-9))
            fast = j < len(falls) and falls[j] - falls[i] <= 8 * (j - i + 1) + 8
            if not (fast and not _searches(curves, rows, scale, falls, i)) and not (low <= 1 and scale[-1] <= 1):
                continue
            first = _first(falls, i)
            begin = int(falls[first]) if first else _before_rises(scale, starts[:n], stops[:n], int(falls[0]))
            row = int(rows[begin])
            args = {
                **_where(curves, row), "from": number(float(scale[begin - 1])), "to": number(low),
                "last": number(float(scale[-1])), "until": number(float(curves.at[rows[falls[-1]]])),
            }  # fmt: skip
            return [Seen(row, args, "loss_scale", low, high)]
    return []


def _before_rises(scale: Array, starts: Rows, stops: Rows, begin: int) -> int:
    """The first fall of a collapse in which the scale rose now and then: ``begin`` is the first one behind the last of
    these rises, ``starts`` and ``stops`` are those of the stretches before it."""
    for a, b in zip(starts[::-1].tolist(), stops[::-1].tolist(), strict=True):
        falls = a + 1 + np.flatnonzero(np.diff(scale[a : b + 1]) < 0)
        if not len(falls) or begin - falls[-1] > NEAR or scale[b + 1] > scale[a] or scale[b + 1] > 4 * scale[b]:
            break
        far = np.flatnonzero(np.diff(falls) > NEAR)
        begin = int(falls[far[-1] + 1]) if len(far) else int(falls[0])
        if len(far):
            break
    return begin


def _first(falls: Rows, at: int) -> int:
    """The fall with which a row of them begins, from one among them or long before: those before the longest gaps are
    the usual search for the largest scale."""
    gaps = np.diff(falls)
    while at < len(gaps):
        later = gaps[at + 1 : at + 6]
        if not len(later) or gaps[at] <= max(4.0, 4 * float(np.median(later))):
            # no greater gap may lie ahead either
            far = np.flatnonzero(gaps[at:] > max(2 * START, 8 * float(np.median(gaps[-5:]))))
            if not len(far):
                break
            at += int(far[-1])
        at += 1
    return at


def _searches(curves: Curves, rows: Rows, scale: Array, falls: Rows, first: int) -> bool:
    """Whether falls are the search for the first value that does not overflow: in the first steps of a run, or in the
    first lines of a log or behind a restart, where the scale then holds."""
    row = int(rows[falls[first]])
    if float(curves.at[row]) <= START and float(curves.at[rows[0]]) <= START:
        return True
    begin = max((a for a, _ in curves.segments if a <= row), default=0)
    apart = np.flatnonzero(np.diff(falls[first:]) > HOLDS)
    last = first + int(apart[0]) if len(apart) else len(falls) - 1
    until = int(falls[last + 1]) if last + 1 < len(falls) else len(rows)
    return row - begin <= START and float(scale[falls[last]]) > 1 and until - int(falls[last]) > HOLDS


def overflows(curves: Curves) -> list[Seen]:
    """A large share of the steps overflows behind the start of the run."""
    rows, flags = column(curves, "overflow")
    late = curves.at[rows] > START
    flags, rows = flags[late], rows[late]
    if len(flags) < 20 or collapse(curves) or _first_bad(curves) is not None:
        return []
    share = float((flags > 0).mean())
    if share < 0.1 or (flags > 0).sum() < 5:
        return []
    row = int(rows[np.flatnonzero(flags > 0)[0]])
    scale = column(curves, "loss_scale")[1]
    args = {**_where(curves, row), "percent": number(round(100 * share)), "points": str(int((flags > 0).sum()))}
    if len(scale):
        args["scale"] = number(float(scale[-1]))
    return [Seen(row, args, "overflow", share, 0.001)]


BURST = 10.0
"""Times the usual norm that make a burst; three of them make an answer."""


def norm_bursts(curves: Curves) -> list[Seen]:
    """The gradient norm shoots up again and again while the loss still holds."""
    rows, norm = column(curves, "grad_norm")
    good = np.isfinite(norm) & (norm > 0)
    rows, norm = rows[good], norm[good]
    if len(norm) < 40:
        return []
    logs = np.log(norm)
    count = max(1, len(logs) // 64)
    size = len(logs) // count
    blocks = logs[: size * count].reshape(count, size)
    levels = np.median(blocks, axis=1)
    spreads = 1.4826 * np.median(np.abs(blocks - levels[:, None]), axis=1)
    at = np.minimum(np.arange(len(logs)) // size, count - 1)
    before = np.maximum(at - 1, 0)
    high = (logs - levels[before] > np.log(BURST)) & (logs - levels[before] > 8 * np.maximum(spreads[before], 0.1))
    high &= curves.at[rows] > START
    found = np.flatnonzero(high)
    # neighbours are one burst
    first = found[np.concatenate(([True], np.diff(found) > 8))] if len(found) else found
    if len(first) < 3:
        return []
    top = int(found[np.argmax(norm[found])])
    row = int(rows[top])
    usual = float(np.exp(levels[before[top]]))
    args = {**_where(curves, row), "value": number(float(norm[top])), "usual": number(usual), "times": str(len(first)),
            "steps": numbers(curves.at[rows[first[:5]]])}  # fmt: skip
    return [Seen(row, args, "grad_norm", float(norm[top]), usual)]


def data_bound(curves: Curves) -> list[Seen]:
    """Waiting for data is a large share of the step."""
    if "data_time" not in curves.columns or "step_time" not in curves.columns:
        return []
    both = np.intersect1d(column(curves, "data_time")[0], column(curves, "step_time")[0])[1:]
    if len(both) < 10:
        return []
    share = curves.columns["data_time"][both] / np.maximum(curves.columns["step_time"][both], 1e-9)
    share = share[np.isfinite(share)]
    if not len(share) or not 0.3 <= float(np.median(share)) <= 1.5:
        return []
    row = int(both[0])
    args = {**_where(curves, row), "percent": number(round(100 * float(np.median(share)))),
            "wait": number(float(np.median(curves.columns["data_time"][both]))),
            "time": number(float(np.median(curves.columns["step_time"][both])))}  # fmt: skip
    return [Seen(row, args, "step_time", float(np.median(share)), None)]
