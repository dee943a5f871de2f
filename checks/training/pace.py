"""How long the steps of a run take: stalls and their period, jitter, a pace that drops, graphs compiled again.

All is judged on the longest attempt of a rank, without its warm-up. Of logs that print a throughput and no time, its
reciprocal is the time. The numbers are in docs/training.md.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from doctor.checks.training.curve import Array, Rows, column, number, numbers
from doctor.checks.training.loss import _where
from doctor.model import Curves, Seen

LEAST = 32
"""Steps behind the warm-up below which nothing is said of the pace."""
BLOCK = 64
"""Steps whose median is the usual time around a step."""
STALL = 1.5
"""Times the usual one that make a step slow, and …"""
SIGMAS = 8.0
"""… this many times the usual spread above it."""
LOST = 0.01
"""Share of all time that stalls must cost before they are told."""
TEETH = 4
"""Stalls that make a period."""
SHARE = 0.8
"""Share of the expected places of a period at which a step must be slow."""
JITTER = 0.15
"""Usual spread, as a share of the usual time, from which on a pace is restless."""
DROP = 1.15
"""Times the earlier one that make a slower pace."""
AGAIN = 5.0
"""Times the usual time that a step takes in which a graph is compiled."""
APART = 1.15
"""Times the time of the other ranks that make a rank slow."""


class Pace(NamedTuple):
    """Times of the longest attempt behind its warm-up, in ms or in parts of the usual one (``unit`` empty).

    ``rows`` are the rows of the curves, ``x`` their times, ``level`` the usual time around each, ``sigma`` the usual
    spread as a share of the level, ``slow`` which steps are. ``first``: the slowest of the warm-up, 0 without one.
    """

    rows: Rows
    x: Array
    level: Array
    sigma: float
    slow: Any
    first: float
    name: str
    unit: str


def pace(curves: Curves) -> Pace | None:
    """The pace of a run, computed once for all checks; None if too few times are known."""
    if "pace" not in curves.cache:
        curves.cache["pace"] = _pace(curves)
    found: Pace | None = curves.cache["pace"]
    return found


def _pace(curves: Curves) -> Pace | None:
    if curves.kind != "train" or not curves.segments:
        return None
    name = "step_time"
    rows, x = column(curves, name)
    if not len(rows):
        name = "throughput"
        rows, x = column(curves, name)
    good = np.isfinite(x) & (x > 0)
    rows, x = rows[good], x[good]
    first, last = max(curves.segments, key=lambda s: int(np.searchsorted(rows, s[1]) - np.searchsorted(rows, s[0])))
    inside = (rows >= first) & (rows < last)
    rows, x = rows[inside], x[inside]
    if name == "throughput":
        x = 1.0 / x
    if len(x) < LEAST:
        return None
    usual = _middle(x)
    warm = _warm(x, usual)
    slowest = float(x[:warm].max()) if warm else 0.0
    rows, x = rows[warm:], x[warm:]
    if len(x) < LEAST:
        return None
    level = _level(x)
    ratio = x / level
    sigma = max(0.01, 1.4826 * _middle(np.abs(ratio - _middle(ratio))))
    slow = (ratio > STALL) & (ratio - 1 > SIGMAS * sigma)
    unit = curves.units.get("throughput", "") if name == "throughput" else "ms"
    return Pace(rows, x, level, sigma, slow, slowest, name, unit)


def _warm(x: Array, usual: float) -> int:
    """Steps of the warm-up: two at least, and up to a tenth of the run until three in a row are near the usual time."""
    most = max(2, min(50, len(x) // 10))
    near = x < 1.3 * usual
    for n in range(2, most):
        if near[n : n + 3].all():
            return n
    return most


MANY = 1 << 14
"""Values of which a median is taken; of more every so manyth one, which is as good and far cheaper."""


def _middle(x: Array) -> float:
    return float(np.median(x[:: max(1, len(x) // MANY)]))


def _medians(x: Array, count: int, size: int) -> Array:
    """The medians of ``count`` blocks; of many steps some of each block stand for it."""
    blocks = x[: count * size].reshape(count, size)
    found: Array = np.median(blocks[:, :: max(1, size // max(16, 4 * MANY // count))], axis=1)
    return found


def _level(x: Array) -> Array:
    """The usual time around each step: the median of its block."""
    count = max(1, len(x) // BLOCK)
    size = len(x) // count
    cut = count * size
    medians = _medians(x, count, size)
    return np.concatenate((np.repeat(medians, size), np.full(len(x) - cut, medians[-1])))


def _shown(p: Pace, value: float) -> str:
    """A time for people, or the throughput that it stands for."""
    if p.name == "throughput":
        return f"{number(1.0 / value)} {p.unit}".strip()
    return f"{number(round(value))} ms" if value < 10_000 else f"{number(round(value / 1000, 1))} s"


def _seen(curves: Curves, p: Pace, at: int, args: dict[str, Any], usual: float) -> Seen:
    """An answer about one step; ``at`` counts within the pace."""
    row = int(p.rows[at])
    value = float(p.x[at])
    if p.name == "throughput":
        value, usual = 1.0 / value, 1.0 / usual
    return Seen(row, {**_where(curves, row), **args}, p.name, value, usual)


# ------------------------------------------------------------------ stalls


class Comb(NamedTuple):
    """Slow steps at equal distances: ``period`` in steps, ``hits`` their places within the pace, ``lost`` the share of
    all time that they cost."""

    period: float
    hits: Rows
    lost: float


def comb(curves: Curves) -> Comb | None:
    """The regular stalls of a run, None without them; computed once."""
    if "comb" not in curves.cache:
        p = pace(curves)
        curves.cache["comb"] = _comb(curves, p) if p is not None else None
    found: Comb | None = curves.cache["comb"]
    return found


def _comb(curves: Curves, p: Pace) -> Comb | None:
    at = curves.at[p.rows]
    if len(at) < LEAST or not (np.diff(at) > 0).all():
        return None
    gap = float(np.median(np.diff(at)))
    places = np.flatnonzero(p.slow)
    if len(places) < TEETH:
        return None
    ratio = p.x / p.level
    # stray slow steps may lie between those of a period, which are about alike
    for least in (0.0, 0.25 * ratio.max(), 0.5 * ratio.max()):
        some = places[ratio[places] >= least]
        # a stall that takes several steps begins once
        starts = some[np.concatenate(([True], np.diff(at[some]) > 2 * gap))]
        hits, period = _regular(at, starts, gap)
        if len(hits):
            # by what one period costs: a thinned log may have kept more of the slow steps than of the others
            over = float(np.maximum(p.x[hits] - p.level[hits], 0).mean())
            lost = over / (period / float(np.diff(at).min()) * float(np.median(p.level[hits])) + over)
            return Comb(period, hits, lost) if lost >= LOST else None
    return None


NONE: Rows = np.zeros(0, np.int64)


def _regular(at: Array, starts: Rows, gap: float) -> tuple[Rows, float]:
    """(slow steps at equal distances, the distance); none and 0 without a period. Tried are the distances between the
    first dozen of slow steps, the shortest first."""
    if len(starts) < TEETH:
        return NONE, 0.0
    slow = at[starts]
    head = slow[:12].tolist()
    tried = sorted({(b - a, a) for n, a in enumerate(head) for b in head[n + 1 :] if b - a >= 4 * gap})
    if not tried:
        return NONE, 0.0
    periods, anchors = np.array(tried).T
    first = anchors - np.floor((anchors - at[0]) / periods) * periods
    # the first places of all of them at once: hardly any holds so long
    places = first[:, None] + periods[:, None] * np.arange(FEW)
    there = (places <= at[-1] + gap / 2) & _kept(at, places, gap)
    hit = there & (np.abs(slow[_nearest(slow, places)] - places) <= gap)
    count = there.sum(axis=1)
    density = gap * len(starts) / float(at[-1] - at[0] + gap)
    for n in np.flatnonzero((count >= TEETH) & (hit.sum(axis=1) >= SHARE / 2 * count)):
        period = float(periods[n])
        # to the step, or one step off
        for reach in (0.0, gap):
            found = _teeth(at, starts, float(first[n]), period, reach, min(0.95, density * (2 * reach / gap + 1)))
            if len(found):
                return found, period
    return NONE, 0.0


def _teeth(at: Array, starts: Rows, first: float, period: float, reach: float, chance: float) -> Rows:
    """The slow steps at the places that a period expects, at most ``reach`` off; none if there are too few for it to be
    no accident, where ``chance`` is that of a slow step within reach."""
    wanted = np.arange(first, at[-1] + reach + 0.5, period)
    wanted = wanted[_kept(at, wanted, reach)]
    if len(wanted) < TEETH:
        return NONE
    slow = at[starts]
    pick = _nearest(slow, wanted)
    hit = np.abs(slow[pick] - wanted) <= reach
    hits = int(hit.sum())
    if hits < TEETH or hits < SHARE * len(wanted) or hits * -np.log(chance) < 20:
        return NONE
    found: Rows = starts[np.unique(pick[hit])]
    return found


FEW = 48
"""Places of a period that are looked at before all of them."""


def _kept(at: Array, places: Array, reach: float) -> Any:
    """Of which places the step was kept: of a thinned log only they can tell."""
    near = np.clip(np.searchsorted(at, places), 1, len(at) - 1)
    return np.minimum(np.abs(at[near] - places), np.abs(at[near - 1] - places)) <= reach


def _nearest(slow: Array, places: Array) -> Rows:
    """Which slow step is nearest to each place."""
    right = np.clip(np.searchsorted(slow, places), 0, len(slow) - 1)
    left = np.maximum(right - 1, 0)
    found: Rows = np.where(np.abs(slow[right] - places) <= np.abs(slow[left] - places), right, left)
    return found


_SAVING = re.compile(
    r"(?i)\b(?:sav(?:e|es|ed|ing)|writ(?:e|es|ing|ten))\b.{0,60}(?:ckpt|checkpoint)"
    r"|(?:ckpt|checkpoint).{0,60}\b(?:sav(?:e|ed|ing)|written)\b|保存.{0,30}(?:权重|检查点|ckpt|checkpoint)"
)
_ENDING = re.compile(
    r"(?i)train epoch time|epoch (?:time|end)|end of epoch|epoch \d{1,6} (?:finished|done|ends?)"
    r"|\b(?:start|begin|run)\w{0,5} (?:the )?eval|\bval(?:idation)?[ _]loss|eval[ _]loss"
    r"|StopIteration|reset(?:ting)? dataset"
)  # fmt: skip
_COMPILING = re.compile(
    r"(?i)\b(?:start(?:s|ed)? (?:to )?compil|compil(?:e|es|ed|ing) (?:the )?(?:graph|net|cell|func)|re-?compil"
    r"|jit compil|begin to compile|graph compil)|开始编译|重新编译"
)
LOOKED_AT = 6
"""Stalls whose neighbourhood in the log is read."""


def _told(curves: Curves, p: Pace, places: Rows, words: re.Pattern[str]) -> bool:
    """Whether the lines before at least half of some steps speak of something."""
    if curves.near is None or not len(places):
        return False
    some = places[:: max(1, len(places) // LOOKED_AT)][:LOOKED_AT]
    said = sum(any(words.search(line) for line in curves.near(int(p.rows[n]))) for n in some)
    return 2 * said >= len(some)


def _ascribed(curves: Curves, p: Pace, found: Comb) -> str:
    """What regular stalls belong to: checkpoint, epoch, or nothing that the log tells of."""
    if _told(curves, p, found.hits, _SAVING):
        return "checkpoint"
    epoch = curves.epoch[p.rows]
    turns = np.diff(epoch, prepend=epoch[:1]) > 0
    near = turns[found.hits] | turns[np.minimum(found.hits + 1, len(turns) - 1)] | turns[np.maximum(found.hits - 1, 0)]
    apart = turns.mean() < 0.2
    whole = curves.period and abs(found.period - curves.period) <= 1
    if whole or (apart and near.mean() >= SHARE) or _told(curves, p, found.hits, _ENDING):
        return "epoch"
    saves = curves.plan.get("checkpoint.interval")
    if isinstance(saves, int) and saves > 0 and abs(found.period - saves) <= 1:
        return "checkpoint"
    return ""


def _stalls(curves: Curves, case: str) -> list[Seen]:
    p, found = pace(curves), comb(curves)
    if p is None or found is None or _ascribed(curves, p, found) != case:
        return []
    worst = int(found.hits[np.argmax(p.x[found.hits])])
    typical = float(np.median(p.x[found.hits]))
    usual = float(np.median(p.level[found.hits]))
    args = {
        "period": number(found.period), "times": str(len(found.hits)), "time": _shown(p, typical),
        "usual": _shown(p, usual), "factor": number(round(typical / usual, 1)),
        "percent": number(round(100 * found.lost, 1)),
    }  # fmt: skip
    return [_seen(curves, p, worst, args, usual)]


def stalls_at_checkpoints(curves: Curves) -> list[Seen]:
    """Steps are slow at equal distances, where the log or the plan saves a checkpoint."""
    return _stalls(curves, "checkpoint")


def stalls_at_epochs(curves: Curves) -> list[Seen]:
    """Steps are slow at equal distances, where an epoch, its data or an evaluation ends."""
    return _stalls(curves, "epoch")


def stalls_regularly(curves: Curves) -> list[Seen]:
    """Steps are slow at equal distances, and nothing in the log says why."""
    return _stalls(curves, "")


FAR = 10.0
"""Times the usual one that make a stall at no fixed distance, in a pace that is otherwise even, …"""
EVEN = 0.05
"""… with a usual spread below this share of the usual time."""
FAR_LOST = 0.05
"""Share of all time that such stalls must cost before they are told."""


def stalls_now_and_then(curves: Curves) -> list[Seen]:
    """A few steps of an even pace are far slower, at no fixed distance, and the log does not say why."""
    p = pace(curves)
    if p is None or p.sigma >= EVEN or comb(curves) is not None or _recompiled(curves, p) is not None:
        return []
    far = np.flatnonzero(p.x > FAR * p.level)
    if not len(far) or len(far) > max(3, 0.03 * len(p.x)):
        return []
    # a stall that takes several steps begins once
    starts = far[np.concatenate(([True], np.diff(far) > 2))]
    lost = float((p.x[far] - p.level[far]).sum() / p.x.sum())
    if len(starts) < 3 or lost < FAR_LOST or _told(curves, p, starts, _SAVING) or _told(curves, p, starts, _ENDING):
        return []
    worst = int(far[np.argmax(p.x[far])])
    usual = _middle(p.x)
    args = {
        "times": str(len(starts)), "time": _shown(p, float(np.median(p.x[starts]))), "usual": _shown(p, usual),
        "steps": numbers(curves.at[p.rows[starts[:6]]]), "percent": number(round(100 * lost, 1)),
    }  # fmt: skip
    return [_seen(curves, p, worst, args, usual)]


# ------------------------------------------------------------------ pace


def jitter(curves: Curves) -> list[Seen]:
    """The steps take very unequal times, without a period and without a change of pace."""
    p = pace(curves)
    if p is None or len(p.x) < BLOCK or comb(curves) is not None or _recompiled(curves, p) is not None:
        return []
    over = np.maximum(p.x - p.level, 0)[p.slow]
    lost, often = float(over.sum() / p.x.sum()), float(p.slow.mean())
    tail = float(np.quantile((p.x / p.level)[:: max(1, len(p.x) // MANY)], 0.95))
    restless = p.sigma >= JITTER and tail >= STALL
    if not restless and not (lost >= 0.1 and often >= 0.03):
        return []
    worst = int(np.argmax(p.x / p.level))
    usual = _middle(p.x)
    args = {
        "usual": _shown(p, usual), "high": _shown(p, float(np.quantile(p.x, 0.95))),
        "spread": number(round(100 * p.sigma)), "percent": number(round(100 * lost, 1)),
        "slow": number(round(100 * often, 1)),
    }  # fmt: skip
    return [_seen(curves, p, worst, args, usual)]


class _Change(NamedTuple):
    """A pace that fell: where (within the pace), and the usual times before and after it."""

    at: int
    before: float
    after: float
    sudden: bool


def _change(curves: Curves) -> _Change | None:
    if "change" not in curves.cache:
        p = pace(curves)
        curves.cache["change"] = _changed(p) if p is not None else None
    found: _Change | None = curves.cache["change"]
    return found


def _changed(p: Pace) -> _Change | None:
    """The medians of blocks tell: all behind a place stand above all before it, or they rise from end to end."""
    size = BLOCK if len(p.x) >= 8 * BLOCK else 16
    count = len(p.x) // size
    if count < 4:
        return None
    # many short blocks of a long run are no more than a few long ones
    while count > 128:
        size, count = size * 2, count // 2
    medians = _medians(p.x, count, size)
    # the error of a median of a block
    error = 1.25 * p.sigma * float(np.median(medians)) / np.sqrt(size)
    if float(np.median(medians[-2:])) < DROP * float(np.median(medians[:2])):
        return None
    # the block in which the pace changes lies between the two
    before = np.maximum.accumulate(medians)[:-2]
    after = np.minimum.accumulate(medians[::-1])[::-1][2:]
    clear = (after - before) / before
    cut = int(np.argmax(clear))
    if 2 <= cut + 1 <= count - 3 and clear[cut] > 0 and after[cut] - before[cut] > 3 * error:
        early, late = float(np.median(medians[: cut + 1])), float(np.median(medians[cut + 2 :]))
        if late >= DROP * early and late - early > 6 * error and after[cut] - before[cut] > 0.5 * (late - early):
            # the first of three steps in a row that are nearer to the slower pace
            start = cut * size
            near = p.x[start:] > (early + late) / 2
            runs = np.flatnonzero(near[:-2] & near[1:-1] & near[2:]) if len(near) > 2 else np.zeros(0, np.int64)
            return _Change(start + int(runs[0]) if len(runs) else (cut + 1) * size, early, late, True)
    while count > 16:
        size, count = size * 2, count // 2
    medians = _medians(p.x, count, size)
    low, high = medians[0], medians[-1]
    steps = np.diff(medians)
    rises = steps > 0
    if count >= 8 and rises.mean() >= 0.75 and high - low > 6 * error and steps.max() < 0.5 * (high - low):
        return _Change(len(p.x) - 1, float(low), float(high), False)
    return None


def _slower(curves: Curves, sudden: bool) -> list[Seen]:
    p, found = pace(curves), _change(curves)
    if p is None or found is None or found.sudden is not sudden:
        return []
    args = {
        "usual": _shown(p, found.before), "time": _shown(p, found.after),
        "percent": number(round(100 * (found.after / found.before - 1))),
    }  # fmt: skip
    return [_seen(curves, p, found.at, args, found.before)]


def slower_for_good(curves: Curves) -> list[Seen]:
    """From one step on all steps take longer, to the end of the log."""
    return _slower(curves, True)


def slower_and_slower(curves: Curves) -> list[Seen]:
    """The steps take longer and longer."""
    return _slower(curves, False)


# ------------------------------------------------------------------ compiling


def _recompiled(curves: Curves, p: Pace) -> "Rows | None":
    """Steps that look like a compilation: far slower than usual, about as slow as the first one, or with the words."""
    far = np.flatnonzero(p.x > AGAIN * p.level)
    if len(far) < 3 or len(far) > 0.2 * len(p.x) or comb(curves) is not None:
        return None
    if float((p.x[far] - p.level[far]).sum() / p.x.sum()) < LOST:
        return None
    if _told(curves, p, far, _COMPILING):
        return far
    if _told(curves, p, far, _SAVING) or _told(curves, p, far, _ENDING):
        return None
    compiled = p.first > AGAIN * _middle(p.x)
    like = far[p.x[far] > 0.3 * p.first]
    return like if compiled and len(like) >= 3 and len(like) >= 0.5 * len(far) else None


def compiled_again(curves: Curves) -> list[Seen]:
    """In the midst of a run steps are as slow as the first one, in which graphs are compiled."""
    p = pace(curves)
    if p is None or p.unit != "ms":
        return []
    found = _recompiled(curves, p)
    if found is None:
        return []
    usual = _middle(p.x)
    args = {
        "times": str(len(found)), "time": _shown(p, float(np.median(p.x[found]))), "usual": _shown(p, usual),
        "first": _shown(p, p.first) if p.first else "", "steps": numbers(curves.at[p.rows[found[:5]]]),
        "percent": number(round(100 * float((p.x[found] - p.level[found]).sum() / p.x.sum()), 1)),
    }  # fmt: skip
    return [_seen(curves, p, int(found[0]), args, usual)]


EACH = 0.5
"""Compilations for each printed step from which on they belong to the steps."""


def compiled_each_step(curves: Curves) -> list[Seen]:
    """The log says about as often that a graph is compiled as it prints a step."""
    times = int(curves.cache.get("compiled", 0))
    rows = column(curves, "loss")[0]
    if curves.kind != "train" or not times or len(rows) < 8 or times < EACH * len(rows) * curves.every:
        return []
    row = int(rows[len(rows) // 2])
    args: dict[str, Any] = {**_where(curves, row), "times": str(times), "steps": str(len(rows) * curves.every)}
    seen, x = column(curves, "step_time")
    if len(seen):
        middle = float(np.median(x))
        args["time"] = f"{number(round(middle))} ms" if middle < 10_000 else f"{number(round(middle / 1000, 1))} s"
    return [Seen(row, args, "loss")]


# ------------------------------------------------------------------ ranks


def slow_rank(runs: Sequence[Curves]) -> list[Seen]:
    """One rank's steps, or its waiting for data, take longer than those of the others.

    Ranks that wait for each other in every step print equal step times whoever is slow; there only what lies before
    the common wait tells, which is the time of the data.
    """
    found: list[Seen] = []
    for name in ("step_time", "data_time"):
        times = [(n, c, c.cache["medians"][name]) for n, c in enumerate(runs) if name in c.cache.get("medians", {})]
        times = [(n, c, t) for n, c, t in times if c.rank is not None and t[1] >= LEAST // 2 and t[0] > 0]
        if len({c.rank for _, c, _ in times}) < 4:
            continue
        values = np.array([t[0] for _, _, t in times])
        worst = int(np.argmax(values))
        others: Array = np.delete(values, worst)
        usual = float(np.median(others))
        spread = 1.4826 * float(np.median(np.abs(others - usual)))
        slowest = float(values[worst])
        n, c, _ = times[worst]
        step = c.cache["medians"].get("step_time", (0.0, 0))[0]
        # waiting for data matters by its share of the step
        enough = slowest - usual >= 0.1 * step > 0 if name == "data_time" else slowest >= APART * usual
        if not enough or slowest - usual < 10 * spread or slowest < 1.1 * float(others.max()):
            continue
        row = int(np.flatnonzero(c.have["loss"])[0]) if "loss" in c.have and c.have["loss"].any() else 0
        args = {
            "rank": str(c.rank), "time": number(round(slowest, 1)), "usual": number(round(usual, 1)),
            "percent": number(round(100 * (slowest / usual - 1))), "others": str(len(others)), "what": name,
        }  # fmt: skip
        found.append(Seen(row, args, name, slowest, usual, n))
    return found


def step_time_apart(runs: Sequence[Curves]) -> list[Seen]:
    """One rank prints longer steps than the others."""
    return [seen for seen in slow_rank(runs) if seen.column == "step_time"]


def data_time_apart(runs: Sequence[Curves]) -> list[Seen]:
    """One rank waits longer for its data than the others, which wait for it."""
    return [seen for seen in slow_rank(runs) if seen.column == "data_time"]


# ------------------------------------------------------------------ tokens

_TOKENS = re.compile(r"(?i)\btokens?(?:/s|_per_s| per s)|\btgs\b")


def tokens_inconsistent(curves: Curves) -> list[Seen]:
    """The printed tokens a second are neither those of the job nor those of one device, as batch, sequence length and
    step time of the plan have it."""
    plan = curves.plan
    if not _TOKENS.search(curves.units.get("throughput", "")) or "step_time" not in curves.columns:
        return []
    batch, length = plan.get("batch.global_size"), plan.get("model.seq_length")
    devices = plan.get("parallel.devices")
    if not (isinstance(batch, int) and isinstance(length, int) and batch > 0 and length > 0):
        return []
    rows = np.intersect1d(column(curves, "throughput")[0], column(curves, "step_time")[0])[2:]
    if len(rows) < 10:
        return []
    told = float(np.median(curves.columns["throughput"][rows]))
    time = float(np.median(curves.columns["step_time"][rows]))
    if not (told > 0 and time > 0):
        return []
    job = batch * length / (time / 1000)
    options = [job] + ([job / devices] if isinstance(devices, int) and devices > 1 else [])
    if any(0.8 <= told / one <= 1.25 for one in options):
        return []
    row = int(rows[0])
    args = {
        **_where(curves, row), "told": number(round(told)), "job": number(round(job)), "time": number(round(time)),
        "batch": str(batch), "length": str(length),
    }  # fmt: skip
    if len(options) > 1:
        args["one"] = number(round(options[1]))
    return [Seen(row, args, "throughput", told, job)]
