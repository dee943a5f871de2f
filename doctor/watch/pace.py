"""How fast the ranks write steps, and when one of them, or all, have stopped: the trouble that no line reports."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from doctor.scan.series import MISSING, Track

RECENT = 64
"""Rows from which the usual pace is taken."""
FEWEST = 3
"""Rows from which on there is a usual pace."""
PAST = 3600.0
"""Seconds after which steps that nobody watched are those of a run that is over."""
OTHERS = 5
"""Steps that the others must have gone on for a rank to be called silent."""


class Quiet(NamedTuple):
    """Steps that do not come. ``seconds`` since the last one, ``usual`` seconds between two, ``limit`` from which on it
    is told, ``ranks`` and ``names`` of the files that are quiet, ``step`` the last one."""

    seconds: float
    usual: float
    limit: float
    lanes: tuple[Lane, ...]


class Lane:
    """The steps of one rank in one file. Times are those of the clock given (monotonic), seconds."""

    def __init__(self, name: str, rank: int | None) -> None:
        self.name, self.rank = name, rank
        self.rows = 0
        self.seen = 0.0
        """when the last step was written"""
        self.live = False
        """whether steps were written while somebody watched"""
        self.longest = 0.0
        """the longest wait for a step so far"""
        self.step: int | None = None
        self.epoch: int | None = None
        self.total = 0
        self.loss: float | None = None
        self.step_time = 0.0
        """ms, median of the newest ones; 0 if the log does not tell"""
        self.throughput: tuple[float, str] | None = None
        self.odd = False
        """whether the newest rows hold a value that a detector should see at once"""
        self.track: Track | None = None
        self._waits: deque[float] = deque(maxlen=RECENT)
        self.between = 1.0  # steps from one line to the next

    def take(self, track: Track, now: float, written: float, live: bool) -> bool:
        """Take the newest rows of a track; False if there are none. ``written`` is the time the file was written at;
        waits are measured only while ``live``."""
        self.track = track
        fresh = track.number - self.rows
        if fresh <= 0:
            return False
        if live and self.rows:
            wait = now - self.seen
            self._waits.append(wait / fresh)
            self.longest = max(self.longest, wait / min(fresh, 2))
        self.rows = track.number
        self.live = self.live or live
        self.seen = now if live else min(now, written)
        self._values(track, min(fresh, RECENT))
        return True

    def _values(self, track: Track, fresh: int) -> None:
        steps = self._newest(track, "step")
        if steps:
            self.step = _whole(steps[-1])
            ahead = sorted(b - a for a, b in pairwise(steps) if 0 < b - a < 1e6)
            if ahead:
                self.between = ahead[len(ahead) // 2] / track.every
        epochs = self._newest(track, "epoch")
        self.epoch = _whole(epochs[-1]) if epochs else None
        self.total = track.total
        losses = track.columns.get("loss", ())[-RECENT:]
        told = [v for v in losses if v != MISSING]
        self.loss = told[-1] if told else None
        times = sorted(v for v in self._newest(track, "step_time") if 0 < v < 1e10)
        self.step_time = times[len(times) // 2] if times else 0.0
        rates = self._newest(track, "throughput")
        self.throughput = (rates[-1], track.units.get("throughput", "")) if rates else None
        newest = told[-fresh:]
        before = sorted(told[:-fresh]) or sorted(told)
        usual = before[len(before) // 2] if before else 0.0
        self.odd = any(not math.isfinite(v) or (usual > 0 and v > 1.5 * usual) for v in newest)
        for name in ("grad_norm", "loss_scale"):
            self.odd = self.odd or any(math.isnan(v) for v in track.columns.get(name, ())[-fresh:])

    @staticmethod
    def _newest(track: Track, name: str) -> list[float]:
        return [v for v in track.columns.get(name, ())[-RECENT:] if v != MISSING and math.isfinite(v)]

    @property
    def usual(self) -> float:
        """Seconds from one step line to the next, 0 if that is not known: the slower of what the log says and of what
        was seen."""
        said = self.step_time * self.between / 1000 if self.step_time and self.rows >= FEWEST else 0.0
        waits = sorted(self._waits)
        seen = waits[len(waits) // 2] if len(waits) >= FEWEST else 0.0
        return max(said, seen)

    @property
    def done(self) -> bool:
        """Whether it has reached the last step that its log speaks of."""
        return bool(self.total and self.step is not None and self.step >= self.total)

    @property
    def left(self) -> float | None:
        """Seconds that the rest takes at this pace; None if the log does not say how many steps there are."""
        if not self.total or self.step is None or not self.usual or self.epoch or self.step > self.total:
            return None
        return (self.total - self.step) / self.between * self.usual

    def limit(self, factor: float, least: float) -> float:
        """Seconds without a step from which on something is wrong; infinite while the pace is not known. A pause as
        long as twice the longest one so far is still usual: checkpoints and evaluations take their time."""
        usual = self.usual
        return max(factor * usual, 2 * self.longest, least) if usual else math.inf


def _whole(value: float) -> int | None:
    return int(value) if abs(value) < 1e15 else None


def best_tracks(tracks: Iterable[Track]) -> dict[int | None, Track]:
    """Of each rank the training lines that are most."""
    best: dict[int | None, Track] = {}
    for track in tracks:
        if track.kind == "train" and (track.rank not in best or len(track) > len(best[track.rank])):
            best[track.rank] = track
    return best


def _at_work(lanes: Sequence[Lane], now: float) -> list[Lane]:
    """Those that should be writing steps."""
    return [lane for lane in lanes if lane.rows >= FEWEST and not lane.done and (lane.live or now - lane.seen < PAST)]


def stalled(lanes: Sequence[Lane], now: float, factor: float, least: float) -> Quiet | None:
    """Whether no rank writes steps any more."""
    at_work = _at_work(lanes, now)
    if not at_work or any(now - lane.seen <= lane.limit(factor, least) for lane in at_work):
        return None
    last = max(at_work, key=lambda lane: lane.seen)
    limit = max(lane.limit(factor, least) for lane in at_work)
    return Quiet(now - last.seen, last.usual, limit, tuple(at_work))


def silent(lanes: Sequence[Lane], now: float, factor: float, least: float) -> Quiet | None:
    """The ranks that write no steps while others go on."""
    at_work = _at_work(lanes, now)
    newest = max((lane.seen for lane in at_work), default=now)
    quiet = [
        lane for lane in at_work
        if now - lane.seen > lane.limit(factor, least) and newest - lane.seen > max(OTHERS * lane.usual, least / 2)
    ]  # fmt: skip
    if not quiet or len(quiet) == len(at_work):
        return None
    first = min(quiet, key=lambda lane: lane.seen)
    return Quiet(now - first.seen, first.usual, first.limit(factor, least), tuple(quiet))
