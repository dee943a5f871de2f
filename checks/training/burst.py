"""Short rises of a loss that came back and are lower than a share of its level: what a few points stand above those
before and behind them, against how far that reaches by chance in the same loss."""

from typing import NamedTuple

import numpy as np

from doctor.checks.training.curve import SAMPLE, Array, Episode, Rows, block_noise, median3, median5

LEAST = 48
"""Points below which it cannot be told what is usual."""
SIDES = (5, 9)
"""Points before and behind a short and a longer rise, whose medians tell the level that it left and came back to."""
EARLY = 10
"""Points at the start that find their level."""
MOST = 64
"""Rises of each size that are looked at, the greatest ones."""
LOW = 0.04
"""Share of the level that a rise stands above both sides at least."""


class _Size(NamedTuple):
    """Rises of about ``width`` points: how many times the noise they are high at ``least``, and how many ``times`` what
    one point in twenty reaches. Of heavy tails (an index of 3) the lesser of two points and a median of three leave one
    of 6, a median of five one of 9: from one in 20 to one in a million it is the sixfold and the 3.3fold."""

    width: int
    least: float
    times: float


SIZES = (
    _Size(2, 4.5, 10.0), _Size(3, 4.5, 10.0), _Size(5, 4.0, 6.0), _Size(9, 3.0, 5.5), _Size(15, 2.5, 5.5),
    _Size(25, 2.5, 5.5), _Size(41, 2.5, 5.5),
)  # fmt: skip


def bursts(x: Array) -> list[Episode]:
    """The short rises of a finite loss, in order."""
    n = len(x)
    if n < LEAST:
        return []
    sigma = _noise(x)
    if not (sigma > 0).any():
        return []
    sigma = np.maximum(sigma, float(sigma[sigma > 0].min()))
    five = median5(x)
    nine = _nine(x)
    found: list[tuple[float, Episode]] = []
    for size in SIZES:
        side = SIDES[size.width > 5]
        beside = nine if side == 9 else five[2:-2]
        inside = _inside(x, five, nine, size.width)
        # one point of distance on both sides, as a rise seldom begins and ends at once
        first = max(EARLY, side + 1)
        count = len(inside) - first - side - 1
        if count < LEAST // 2:
            break
        value = inside[first : first + count]
        left, right = beside[first - side - 1 :][:count], beside[first + size.width + 1 :][:count]
        usual = sigma[first + size.width // 2 :][:count]
        higher = np.maximum(left, right)
        # in a fall the points are neither above nor below both sides
        above = (value - higher) / usual
        below = (np.minimum(left, right) - value) / usual
        high = (above > _reach(above, below, size)) & (value - higher > LOW * np.abs(higher))
        for at in _tops(above, np.flatnonzero(high), size.width):
            start = first + at
            one = _rise(x, start, start + size.width, float(left[at]), float(higher[at]), float(value[at]))
            found.append((float(above[at]) * size.width**0.5, one))
    kept: list[Episode] = []
    for _, one in sorted(found, key=lambda pair: -pair[0]):
        if not any(one.start < e.stop + SIDES[1] and e.start < one.stop + SIDES[1] for e in kept):
            kept.append(one)
    return sorted(kept, key=lambda e: e.start)


def _inside(x: Array, five: Array, nine: Array, width: int) -> Array:
    """What the points from each one on have in common: of two the lesser, of three to nine the median, of more the mean
    of medians."""
    if width == 2:
        return np.minimum(x[:-1], x[1:])
    if width == 3:
        return median3(x)[1:-1]
    if width == 5:
        return five[2:-2]
    if width == 9:
        return nine
    sums = np.concatenate(([0.0], np.cumsum(five)))
    found: Array = (sums[width:] - sums[:-width]) / width
    return found


def _nine(x: Array) -> Array:
    """The medians of nine points, of a long loss those of medians of three, which are as robust and much faster."""
    if len(x) <= SAMPLE:
        found: Array = np.median(np.lib.stride_tricks.sliding_window_view(x, 9), axis=1)
        return found
    three = median3(x)[1:-1]
    a, b, c = three[:-6], three[3:-3], three[6:]
    return np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))


def _noise(x: Array) -> Array:
    """The usual deviation at each point, of blocks of 16 to 64 points, of which the median of five counts."""
    n = len(x)
    count = n // min(64, max(16, n // 8))
    size = n // count
    levels = block_noise(x, 1, count, count * size)
    padded = np.concatenate((levels[:2], levels, levels[-2:]))
    usual = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    return np.concatenate((np.repeat(usual, size), np.full(n - count * size, usual[-1])))


def _tops(above: Array, rows: Rows, width: int) -> list[int]:
    """The rows of the greatest scores: one of each group of rows that is more than a width apart from the others."""
    if not len(rows):
        return []
    starts = np.flatnonzero(np.diff(rows, prepend=rows[0] - width - 1) > width)
    best = np.maximum.reduceat(above[rows], starts)
    stops: Rows = np.append(starts[1:], len(rows))
    chosen = np.argsort(-best)[:MOST]
    return [int(rows[starts[k] + np.argmax(above[rows[starts[k] : stops[k]]])]) for k in chosen]


def _reach(above: Array, below: Array, size: _Size) -> float:
    """How far scores reach by chance. What one in twenty reaches tells it to the lower side; to the upper side, where
    rises are among them, not more than three times what one in seven reaches, and at least as much as in a normal
    noise."""
    some = slice(None, None, max(1, len(above) // SAMPLE))
    seven, twenty = (float(np.quantile(above[some], share)) for share in (0.85, 0.95))
    usual = max(float(np.quantile(below[some], 0.95)), 1.6 * seven, min(twenty, 3 * seven))
    return max(size.least, size.times * usual)


def _rise(x: Array, start: int, stop: int, left: float, usual: float, value: float) -> Episode:
    """The rise of which some points were found: its ends are where it is at a third of its height."""
    edge = usual + (value - usual) / 3
    reach = 2 * (stop - start) + 2
    begin = max(0, start - reach)
    calm = median3(x[begin : stop + reach]) < edge
    before, behind = np.flatnonzero(calm[: start - begin]), np.flatnonzero(calm[stop - begin :])
    first = begin + int(before[-1]) + 1 if len(before) else start
    first += int(np.argmax(x[first:stop] >= edge))
    last = stop + int(behind[0]) if len(behind) else stop
    return Episode(first, last, first, first + int(np.argmax(x[first:last])), min(left, usual), False)
