"""What the checks of a training run share: smoothing, noise, episodes, periods. Vectorised, robust, no text.

All thresholds are in docs/training.md with their reasons; those without a source were set on labelled runs.
"""

from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from doctor.model import Curves

Array: TypeAlias = "NDArray[np.float64]"
Rows: TypeAlias = "NDArray[np.int64]"

RISE = 0.15
"""Share of the level by which a smoothed loss must rise above the best one before."""
SIGMAS = 8.0
"""… and how many times the usual noise, at least."""
TAIL = 3.0
"""… and how many times what one point in twenty is off: where the noise has heavy tails, three of five neighbours are
far off by chance too."""
SHORT = 16
"""Fewer points than this tell no noise: only jumps count."""
BLOCK = 32
SAMPLE = 8192
"""Points of a long loss that tell what is usual."""
FAR = (4, 16, 64)
WANDER = 5.0
JUMP = 1.7
"""… of at least this factor."""
STRIDE = 2.5
"""… and of at least this many times the greatest step from one point to the next before."""


def number(value: float) -> str:
    """A number for people: four digits.

    >>> number(0.000123456), number(29050.0), number(float("inf"))
    ('0.0001235', '29050', 'inf')
    """
    if np.isfinite(value) and float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.4g}"


def numbers(values: Array) -> str:
    """Some numbers in a row."""
    return ", ".join(number(float(v)) for v in values)


def column(curves: Curves, name: str) -> tuple[Rows, Array]:
    """(rows, values) where a column has a value; both empty if there is none."""
    if name not in curves.columns:
        return np.zeros(0, np.int64), np.zeros(0)
    rows = np.flatnonzero(curves.have[name])
    return rows, curves.columns[name][rows]


def middle(x: Array) -> float:
    """The median of finite values. That of numpy looks for NaN and for axes first, which takes longer than the work on
    the short stretches asked for here."""
    half = len(x) // 2
    if len(x) % 2:
        return float(np.partition(x, half)[half])
    part = np.partition(x, (half - 1, half))
    return float((part[half - 1] + part[half]) / 2)


def median3(x: Array) -> Array:
    """Running median of three, the ends as they are."""
    if len(x) < 3:
        return x.copy()
    a, b, c = x[:-2], x[1:-1], x[2:]
    out: Array = x.copy()
    out[1:-1] = np.maximum(np.minimum(a, b), np.minimum(np.maximum(a, b), c))
    return out


def median5(x: Array) -> Array:
    """Running median of five; of three one step from the ends, the ends as they are."""
    if len(x) < 5:
        return median3(x)
    out: Array = median3(x)
    a, b, c, d, e = x[:-4], x[1:-3], x[2:-2], x[3:-1], x[4:]
    low, high = np.minimum(a, b), np.maximum(a, b)
    low2, high2 = np.minimum(c, d), np.maximum(c, d)
    # the smallest and the greatest of four cannot be the middle of five
    f, g = np.maximum(low, low2), np.minimum(high, high2)
    out[2:-2] = np.maximum(np.minimum(e, np.maximum(f, g)), np.minimum(f, g))
    return out


def smooth(x: Array) -> Array:
    """The loss without single outliers, which healthy runs have: a median of 1, 3 or 5 points by the length."""
    return x if len(x) < SHORT else median3(x) if len(x) < 40 else median5(x)


def noise(x: Array, block: int = 64, *, drift: float = 1.0) -> Array:
    """Usual noise at each point: from the differences of neighbours, as a median over the block before (and a third of
    that of the own block), so that neither trend nor outliers count; ``drift`` times as much."""
    n = len(x)
    if n < 4:
        return np.full(n, np.inf)
    count = max(1, n // block)
    cut = n // count * count
    size = cut // count
    levels = block_noise(x, 1, count, cut)
    levels = levels * drift
    before = np.concatenate((levels[:1], levels[:-1]))
    sigma = np.maximum(before, levels / 3) if count > 1 else levels
    return np.concatenate((np.repeat(sigma, size), np.full(n - cut, sigma[-1])))


def block_noise(x: Array, lag: int, count: int, cut: int) -> Array:
    """The noise of each of ``count`` blocks by the differences of points ``lag`` apart."""
    d = np.abs(x[lag:] - x[:-lag])
    # second differences know no slope
    b = np.abs(x[2 * lag :] - 2 * x[lag:-lag] + x[: -2 * lag])
    d = np.concatenate((d[:1].repeat(lag) if lag == 1 else d[:lag], d))[:cut]
    b = np.concatenate((b[: 2 * lag], b))[:cut]
    found: Array = np.minimum(
        np.median(d.reshape(count, -1), axis=1) * (1.4826 / np.sqrt(2)),
        np.median(b.reshape(count, -1), axis=1) * (1.4826 / np.sqrt(6)),
    )
    return found


PIECES, PIECE = 16, 512
"""Stretches of a long loss in which it is asked how far it drifts, and their points."""


def _wander(x: Array) -> float:
    """How many times the differences of points ``FAR`` apart are greater than those of neighbours: 1 where each point
    is noise of its own."""
    if len(x) < 8 * BLOCK:
        return 1.0
    if len(x) <= PIECES * PIECE:
        pieces = [x]
    else:
        pieces = [x[at : at + PIECE] for at in np.linspace(0, len(x) - PIECE, PIECES).astype(int).tolist()]
    ratios = []
    for piece in pieces:
        count = max(1, len(piece) // 64)
        cut = len(piece) // count * count
        near = block_noise(piece, 1, count, cut)
        lags = [lag for lag in FAR if lag <= len(piece) // 8 and lag <= len(x) // 32]
        far = np.maximum.reduce([block_noise(piece, lag, count, cut) for lag in lags])
        ratios.append(far[near > 0] / near[near > 0])
    found = np.concatenate(ratios)
    return min(WANDER, max(1.0, middle(found))) if len(found) else 1.0


class Episode(NamedTuple):
    """A stretch in which the smoothed loss stands far above the best one before. ``open``: to the end of the log."""

    start: int
    stop: int
    onset: int
    peak: int
    usual: float
    open: bool


def episodes(x: Array, extra: float = 0.0) -> list[Episode]:
    """Rises of a finite loss, in order. ``extra``: an amplitude that is explained otherwise (a period)."""
    n = len(x)
    if n < 3:
        return []
    if n < SHORT:
        return _short(x)
    s = smooth(x)
    best = np.minimum.accumulate(_calm(s))
    best = np.concatenate((best[:1], best[:-1]))
    if n >= 8 * BLOCK:
        # the least of very many points is a lucky one: of a long log the least median of blocks counts
        count = n // BLOCK
        medians = np.minimum.accumulate(np.median(x[: count * BLOCK].reshape(count, BLOCK), axis=1))
        after: Array = np.repeat(medians, BLOCK)[: n - BLOCK]
        best[BLOCK : BLOCK + len(after)] = after
        best[BLOCK + len(after) :] = medians[-1]
    drift = _wander(x)
    sigma = noise(x, drift=drift)
    many = SIGMAS
    if n >= 8 * BLOCK:
        some = slice(None, None, max(1, n // SAMPLE))
        off, usual = np.abs(x[some] - s[some]), sigma[some]
        if (usual > 0).any():
            many = max(SIGMAS, TAIL * float(np.quantile(off[usual > 0] / usual[usual > 0], 0.95)))
    if (s > 0).all():
        # noise goes with the level: behind a fall by orders of magnitude the noise before it is none to compare with
        sigma = np.minimum(sigma, np.maximum(noise(x / _level(x, s), drift=drift) * best, sigma / 4))
    limit = np.maximum(RISE * np.abs(best), many * sigma) + 2 * extra
    high = s > best + limit
    if not high.any():
        return []
    low = s <= best + limit / 2
    found: list[Episode] = []
    at = 0
    highs = np.flatnonzero(high)
    lows = np.flatnonzero(low)
    while True:
        i = np.searchsorted(highs, at)
        if i >= len(highs):
            return found
        start = int(highs[i])
        j = np.searchsorted(lows, start)
        base = float(best[start])
        # the level before counts on: ``best`` cannot fall while the loss is high
        stop = int(lows[j]) if j < len(lows) else n
        peak = start + int(np.argmax(x[start:stop]))
        found.append(Episode(start, stop, _onset(s, start, base, float(sigma[start])), peak, base, stop >= n))
        at = stop


def _level(x: Array, s: Array) -> Array:
    """The level of a long loss, by medians of blocks, of a short one by its points: what goes to and fro within a block
    is noise."""
    count = len(x) // BLOCK
    if count < 8:
        return s
    medians = np.median(x[: count * BLOCK].reshape(count, BLOCK), axis=1)
    if count > 256:
        return np.concatenate((np.repeat(medians, BLOCK), np.full(len(x) - count * BLOCK, medians[-1])))
    found: Array = np.interp(np.arange(len(x)), BLOCK * (np.arange(count) + 0.5), medians)
    return found


def _calm(s: Array) -> Array:
    """The level of a smoothed loss that a best value is taken of: the greater of two neighbours, so that one lucky
    point is no best."""
    return np.maximum(s, np.concatenate((s[:1], s[:-1])))


def _onset(s: Array, start: int, base: float, sigma: float) -> int:
    """Where a rise begins: behind the last point that was no higher than the best level; of a slow rise where the line
    through its points leaves that level."""
    back = max(0, start - 512)
    calm = np.flatnonzero(s[back:start] <= base + sigma)
    if not len(calm):
        return start
    first = back + int(calm[-1]) + 1
    if start - first < 3:
        return first
    rise = s[first : start + 1]
    slope = float(np.polyfit(np.arange(len(rise)), rise, 1)[0])
    return max(back, first - round(sigma / slope)) if slope > 0 else first


CHANCE = 3e-6
"""Healthy points that may stand out alone by chance."""
HEAVIEST = 0.5
"""Index of the heaviest tail that a healthy loss has: that of a noise without a variance."""
ALONE = 0.1
"""Share of the level by which a point that stands out alone must rise above it."""


def alone(x: Array, level: Array) -> Rows:
    """The points that stand out of a loss alone, or with one neighbour, farther than its own tail reaches.

    Healthy losses have tails of very different weight. How heavy this one is, its greatest deviations say (the moment
    estimator of a tail's index by Dekkers, Einmahl and de Haan, Ann. Statist. 17 (1989) 1833, without the very
    greatest, which are the question), and so how far ``CHANCE`` reaches.
    """
    n = len(x)
    high = x - level > ALONE * np.abs(level)
    if not high.any():
        return np.zeros(0, np.int64)
    sigma = noise(x)
    z = np.where(sigma > 0, (x - level) / np.where(sigma > 0, sigma, 1.0), 0.0)
    count = min(max(20, n // 10), 2000)
    left_out = min(5, count // 4)
    size = np.abs(z)
    top = np.sort(np.partition(size, max(0, n - count - 1))[-count - 1 :])[::-1]
    if len(top) <= count or not top[count] > 0:
        return np.zeros(0, np.int64)
    # what the logarithms and their squares are on average where the tail is a power law of index 1, rank by rank
    ranks = 1.0 / np.arange(1, count + 1)
    once = np.cumsum(ranks[::-1])[::-1]
    twice = once**2 + np.cumsum(ranks[::-1] ** 2)[::-1]
    logs = np.log(top[left_out:count] / top[count])
    first = float(logs.sum() / once[left_out:].sum())
    second = float((logs**2).sum() / twice[left_out:].sum()) * 2
    index = first + 1 - 0.5 / max(1 - first * first / second, 1e-3) if second > 0 else 0.0
    index = min(index + 0.5 / np.sqrt(count), HEAVIEST)
    far = np.log(count / (n * CHANCE))
    reach = float(top[count]) * (1 + first * (1 - min(index, 0.0)) * (np.expm1(far * index) / index if index else far))
    return np.flatnonzero((z > reach) & high)


def _short(x: Array) -> list[Episode]:
    """Rises in a handful of points: a jump by 70 % or more, or a rise at every one of five points by a third in all."""
    n = len(x)
    for i in range(1, n):
        before = float(np.median(x[max(0, i - 3) : i]))
        moved = float(np.abs(np.diff(x[:i])).max()) if i > 1 else 0.0
        # points that went up and down before show no jump by going up as far again
        far = x[i] - before >= STRIDE * moved
        if before > 0 and far and x[i] >= JUMP * before and x[i] >= JUMP * 0.8 * x[:i].max():
            calm = float(x[:i].min())
            back = np.flatnonzero(x[i + 1 :] <= before * 1.05)
            stop = i + 1 + int(back[0]) if len(back) else n
            peak = i + int(np.argmax(x[i:stop]))
            return [Episode(i, stop, i, peak, max(before, calm), not len(back))]
    if n >= 4:
        low = int(np.argmin(x))
        rise = x[low:]
        if len(rise) >= 5 and (np.diff(rise) > 0).all() and x[-1] > 1.3 * x[low] > 0:
            first = low + int(np.argmax(rise > 1.1 * x[low]))
            return [Episode(first, n, first, n - 1, float(x[low]), True)]
    return []


class Period(NamedTuple):
    """A regular swing: its period in points, its amplitude (half of peak to peak), the noise besides, the first point
    of the window where it is strongest."""

    points: float
    amplitude: float
    noise: float
    level: float
    start: int
    score: float


SMALLEST = 0.001
"""Share of the level below which a swing is not worth a word."""
LONGEST = 2048
LEAST = 48
SCORE, STRICT = 30, 60
"""How far a line must stand above the median of its neighbourhood, in all of a log and in a part of it."""
WEAKEST = 0.85
"""Times the noise that the amplitude is at least: the first line of a saw of 1.5 times the noise has 0.95."""
LOWEST = (3, 8, 24)
"""Periods in a window at least: behind the first, the trend's bends are left out of what is looked at. In a part of a
log one more, and by its steps from point to point 8."""
ALIKE = 0.5
"""Share of the greatest amplitude in a third of a window that the least one has, 0.6 of that where the line of a whole
log is beyond doubt."""
FEW = 16
"""Periods in a window below which the bends of a trend may be taken for a swing."""
FILLED = 1.25
"""Times as many points a loss may have when the lines that are left out are filled in."""


def filled(x: Array, at: Array) -> tuple[Array, Rows]:
    """A loss at equal distances, and the point at or before each of them: where a few lines are missing, what is on
    both sides fills the gap, so that a swing keeps its beat. As it is where that cannot be."""
    same = np.arange(len(x))
    if len(x) < LEAST:
        return x, same
    gap = middle(np.diff(at))
    if not gap > 0:
        return x, same
    place = np.rint((at - at[0]) / gap)
    if not (len(x) <= place[-1] < FILLED * len(x)) or (np.diff(place) < 1).any():
        return x, same
    grid = np.arange(int(place[-1]) + 1)
    return np.interp(grid, place, x), np.searchsorted(place, grid, "right") - 1


def period(x: Array, *, strict: bool = False) -> Period | None:
    """The strongest regular swing of a finite loss, None without one.

    Windows of up to 2,048 points without their trend (a cubic) and outliers (cut at 3 times the usual deviation) are
    looked at by their spectrum, or by that of the steps from point to point: a line counts if it stands ``SCORE`` times
    above the median of its neighbourhood (half to twice the frequency; twice as far below six periods), makes at least
    three periods in the window, has an amplitude of at least ``WEAKEST`` times the noise and 0.1 % of the level. Noise
    that drifts is judged by its own spectrum. ``strict``: as far as a line in a part of a log must stand out.
    """
    n = len(x)
    if n < LEAST:
        return None
    best: Period | None = None
    for start, size in _windows(n):
        found = _line(x[start : start + size], start, strict=strict)
        if found is not None and (best is None or found.score > best.score):
            best = found
    if best is None and n >= 3 * LEAST:
        # a swing that is shorter than the log, in parts of it
        for size, most in ((max(LEAST, min(n // 3, 512)), 24), (max(LEAST, min(n // 6, 128)), 48)):
            for start in np.linspace(0, n - size, min(most, 2 * (n // size))).astype(int).tolist():
                found = _line(x[start : start + size], start, strict=True)
                if found is not None and (best is None or found.score > best.score):
                    best = found
            if best is not None:
                break
    return best


def _windows(n: int) -> list[tuple[int, int]]:
    """(start, size) of the stretches looked at: all of a short log, and without its steep beginning."""
    size = min(n, LONGEST)
    count = min(24, max(1, 2 * (n // size) - 1))
    found = [(int(start), size) for start in np.linspace(0, n - size, count)]
    for share in (0.1, 0.33, 0.5):
        start = int(share * n)
        if n - start < LONGEST and n - start >= LEAST:
            found.append((start, n - start))
    return found


@lru_cache(maxsize=64)
def _basis(n: int) -> Array:
    """Orthonormal cubics over n points."""
    t = np.linspace(-1.0, 1.0, n)
    found: Array = np.linalg.qr(np.vander(t, 4))[0]
    return found


@lru_cache(maxsize=64)
def _hann(n: int) -> Array:
    """Hann's window of n points."""
    found: Array = np.hanning(n)
    return found


def _alike(y: Array, k: int, amplitude: float, share: float) -> bool:
    """Whether a loss swings ``k`` times all along and alike: about its own mean over one period, which no trend bends,
    in each third."""
    n = len(y)
    size = max(2, round(n / k))
    sums = np.concatenate(([0.0], np.cumsum(y)))
    mean = (sums[size:] - sums[:-size]) / size
    r = y[size // 2 :][: len(mean)] - mean
    spread = 1.4826 * middle(np.abs(r))
    r = np.clip(r, -4 * spread, 4 * spread) * np.exp(-2j * np.pi * k * np.arange(len(r)) / n)
    parts = []
    for part in np.array_split(r, 3):
        weight = _hann(len(part))
        parts.append(2 * abs(complex((part * weight).sum())) / float(weight.sum()))
    return min(parts) >= share * max(amplitude, *parts)


def _drift(power: Array, k: int) -> Array:
    """The shape of the spectrum of noise in which each point keeps a share of the one before (autoregressive), 1 at its
    least; the share by the spectrum without the line ``k``."""
    rest = power.copy()
    near = np.concatenate((power[max(1, k - 6) : max(1, k - 2)], power[k + 3 : k + 7]))
    rest[max(0, k - 2) : k + 3] = middle(near) if len(near) else 0.0
    rest[:3] = 0.0  # the trend's
    turns = np.cos(np.linspace(0.0, np.pi, len(power)))
    total = float(rest.sum())
    share = min(0.98, max(0.0, float((rest * turns).sum()) / total)) if total > 0 else 0.0
    found: Array = (1 + share) ** 2 / (1 - 2 * share * turns + share * share)
    return found


def _line(y: Array, start: int, *, strict: bool = False) -> Period | None:
    level = middle(np.abs(y))
    for power, lowest in ((_power(y), (LOWEST[0] + strict, *LOWEST[1:])), (_power_of_steps(y), LOWEST[1:])):
        tried: set[int] = set()
        for low in lowest:
            if 2 * low > len(power):
                break
            # noise that drifts has a spectrum that falls: it is judged by what it is beside the line
            k = low + int(np.argmax(power[low:]))
            shape = _drift(power, k)
            k = low + int(np.argmax(power[low:] / shape[low:]))
            if k in tried:
                continue
            tried.add(k)
            found = _stands(y, power, shape, k, low, STRICT if strict or k < 6 else SCORE)
            if found is not None and found[0] >= SMALLEST * level:
                return Period(len(y) / k, found[0], found[1], level, start, found[2])
    return None


def _power(y: Array) -> Array:
    """The spectrum of a loss without its trend (a cubic) and its outliers; empty if nothing is left."""
    n = len(y)
    # a rough trend first, so that outliers do not bend it
    rough = median5(y)
    few = max(1, n // 100)
    ends = np.partition(rough, (few, n - 1 - few))
    basis = _basis(n)
    return _spectrum(y - basis @ (basis.T @ np.clip(rough, ends[few], ends[n - 1 - few])))


def _power_of_steps(y: Array) -> Array:
    """The same by the steps from point to point, of which a trend that no cubic follows, a sudden drop too, is but a
    few outliers."""
    power = _spectrum(np.concatenate(([0.0], np.diff(y))))
    if not len(power):
        return power
    size = 2 - 2 * np.cos(2 * np.pi * np.arange(len(power)) / len(y))
    size[0] = size[1]
    found: Array = power / size
    return found


def _spectrum(r: Array) -> Array:
    n = len(r)
    mid = middle(r)
    spread = 1.4826 * middle(np.abs(r - mid))
    if not spread > 0:
        return np.zeros(0)
    power: Array = np.abs(np.fft.rfft(np.clip(r - mid, -3 * spread, 3 * spread) * _hann(n))) ** 2
    if n % 2 == 0:
        power[-1] *= 0.5  # the fastest swing has one line, not two
    return power


def _stands(y: Array, power: Array, shape: Array, k: int, low: int, least: float) -> tuple[float, float, float] | None:
    """(amplitude, noise, score) of a line of the spectrum that stands out, None for others."""
    n = len(y)
    flat = power / shape
    lo, hi = max(2, k // 2), min(len(power), 2 * k + 8)
    if hi - lo < 16:
        lo = max(2, hi - 16)
        hi = min(len(power), lo + 24)
    around = np.concatenate((flat[lo : max(lo, k - 2)], flat[k + 3 : hi]))
    if len(around) < 6:
        return None
    floor = max(1e-30, middle(around) / 0.69 * float(shape[k]))
    score = float(power[k]) / floor
    amplitude = 4 * float(np.sqrt(power[max(0, k - 1) : k + 2].sum() / 1.5)) / n
    rest = float(np.sqrt(floor * 8 / (3 * n)))
    if score < least or amplitude < WEAKEST * rest:
        return None
    # a single spike or step has a smooth spectrum: its neighbours are as strong
    near = np.concatenate((power[max(low, k - 6) : max(low, k - 2)], power[k + 3 : k + 7]))
    sharp = float(power[k]) / max(float(near.max()), 1e-30) if len(near) else 12.0
    if sharp < 12:
        return None
    doubtless = least < STRICT <= score and sharp >= 25
    share = 0.6 * ALIKE if doubtless else ALIKE
    if not _alike(y, k, amplitude, share) or (k < FEW and not _bends(y, k, amplitude)):
        return None
    return amplitude, rest, score


def _bends(y: Array, k: int, amplitude: float) -> bool:
    """Whether a swing of few periods is more than the bends of a trend: each point against those half a period before
    and behind, twice, which leaves a swing four times as large and of a trend next to nothing."""
    n = len(y)
    half = max(1, round(n / k / 2))
    for _ in range(2):
        y = y[half:-half] - (y[: -2 * half] + y[2 * half :]) / 2
    spread = 1.4826 * middle(np.abs(y))
    y = np.clip(y, -4 * spread, 4 * spread)
    waves = np.exp(-2j * np.pi * k * np.arange(len(y)) / n)
    return bool(2 * abs(complex((y * waves).sum())) / len(y) / 4 >= 0.5 * amplitude)
