"""Training lines of all sources → what the rules of kind ``series`` say of them, and the series of the report.

numpy is imported only when some track is not plainly healthy: most logs hold a few hundred steps that fall smoothly,
and of them plain loops tell enough.
"""

from __future__ import annotations

import importlib
import math
import sys
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.model import Seen
from doctor.rulebase import RuleBase
from doctor.run.places import place_sources
from doctor.scan import memory, records
from doctor.scan.lazy import load_numpy
from doctor.scan.read import SMALL
from doctor.scan.scanner import TEXT_MAX, Occurrence, Scanned
from doctor.scan.series import MISSING, Track

if TYPE_CHECKING:
    from doctor.model import Curves

NAMES = ("loss", "lr", "grad_norm", "loss_scale", "step_time", "throughput", "data_time")
"""Columns that the report shows."""

LABELS = ("nan", "inf", "diverged", "loss_scale_collapse", "oscillating", "spike_recovered", "plateau")
"""Worst first: of several the first one names the series."""

LEAST = 3
"""Points of a loss below which nothing is said of it."""

SAMPLE = 120
"""Points of a series that the report holds for a plot."""
SAMPLED = 16
"""Tracks whose healthy series are sampled; the others are counted only."""
EVENTS = 20


class Judged(NamedTuple):
    """``scans``: with an occurrence for each answer; ``series``: those of the report; ``crashed``: rules whose check
    failed, and how."""

    scans: list[Scanned]
    series: tuple[dict[str, Any], ...]
    crashed: dict[str, str]


class _Place(NamedTuple):
    """A track, the number of its scan, its rank, and how often the source says between steps that it compiles."""

    track: Track
    scan: int
    rank: int | None
    compiled: int = 0


def judge(
    base: RuleBase,
    scans: Sequence[Scanned],
    paths: Mapping[str, str],
    held: Mapping[str, bytes] | None = None,
    plan: Mapping[str, Any] | None = None,
) -> Judged:
    """Judge the training lines of all scans. ``paths`` are the files behind names, ``held`` texts that are at hand, by
    name; ``plan`` values of the configuration of the run."""
    places = _chosen(scans)
    crashed: dict[str, str] = {}
    scans = [_memory(base, scan, crashed) if scan.memory else scan for scan in scans]
    if not places:
        return Judged(list(scans), (), crashed)
    found: list[_Answer] = []
    at = _Lines(paths, held or {})
    apart = len({p.rank for p in places}) > 1 and not _alike(places)
    # a plan can contradict a throughput, however calm it is
    planned = bool(plan) and any("throughput" in place.track.columns for place in places)
    if apart or planned or not all(calm(place.track) and not place.compiled for place in places):
        import warnings

        load_numpy()
        import numpy as np

        # NaN and inf are what is looked for here
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = _answers(base, places, crashed, at, dict(plan or {}))
    out = list(scans)
    events: dict[tuple[int, str], list[tuple[str, dict[str, Any]]]] = {}
    number = {id(place): n for n, place in enumerate(places)}
    told: set[tuple[str, int]] = set()
    for rule, place, seen, label in found:
        line, text = at.of(place.track, seen.row)
        event = _event(place.track, seen, label or base[rule].id, line)
        events.setdefault((number[id(place)], seen.column), []).append((label, event))
        if (rule, number[id(place)]) in told:
            continue
        told.add((rule, number[id(place)]))
        out[place.scan] = _noted(out[place.scan], rule, line, text, seen, place.track.rank, None)
    series = []
    for n, place in enumerate(places):
        sampled = n < SAMPLED
        for name in NAMES:
            if name in place.track.columns:
                said = events.get((n, name), [])
                if name == "loss":
                    # what befalls the scale is the run's, and the loss names the run
                    said = said + [one for one in events.get((n, "loss_scale"), []) if one[0]]
                series.append(_entry(place, name, said, sampled))
    return Judged(out, tuple(series), crashed)


def _chosen(scans: Sequence[Scanned]) -> list[_Place]:
    """The tracks worth judging: of each rank in a source the longest one, evaluations only where no training is."""
    ranks = [source.rank for source in place_sources(scans)] if any(s.tracks for s in scans) else []
    places = []
    for n, scan in enumerate(scans):
        best: dict[int | None, Track] = {}
        for track in scan.tracks:
            if not _judgeable(track):
                continue
            have = best.get(track.rank)
            if have is None or (track.kind == "train", len(track)) > (have.kind == "train", len(have)):
                best[track.rank] = track
        compiled = _compiled(scan) if best else 0
        for rank, track in best.items():
            places.append(_Place(track, n, rank if rank is not None else ranks[n], compiled))
    return places


COMPILING = "RUN924"
"""The rule of the line that says that a graph is compiled, which is no fault by itself."""
COMPILED = 8
"""Such lines from which on it is looked at."""


def _compiled(scan: Scanned) -> int:
    """How often a source says that it compiles, 0 if all of it lies before or between the same steps."""
    times = scan.counts.get(COMPILING, 0)
    if times < COMPILED:
        return 0
    places = {o.steps for o in scan.occurrences if o.rule == COMPILING}
    return times if len(places) >= 3 else 0


def _judgeable(track: Track) -> bool:
    """Whether there are enough values, or one that is none."""
    loss = track.columns.get("loss", ())
    count = 0
    for value in loss:
        count += value > MISSING or math.isnan(value)
        if count >= LEAST:
            return True
    if not all(map(math.isfinite, loss)):
        return True
    counted = track.columns.get("nan_steps", ())
    return any(value > 0 for value in counted) or len(track.columns.get("loss_scale", ())) >= LEAST


# ------------------------------------------------------------------ without numpy


CALM_ROWS = 4096


def calm(track: Track) -> bool:
    """Whether a track is healthy beyond doubt, by limits tighter than those of every check: few rows, everything
    finite, no overflow, a scale that never falls, a loss that never stands 1 % above its lowest value before and falls
    in all, norms and times near their median."""
    columns = track.columns
    if len(track) > CALM_ROWS or track.kind != "train":
        return False
    for name in ("overflow", "nan_steps"):
        if any(value > 0 for value in columns.get(name, ())):
            return False
    last = 0.0
    for value in columns.get("loss_scale", ()):
        if value != MISSING:
            if not last <= value < math.inf:
                return False
            last = value
    for name, limit in (("grad_norm", 5.0), ("step_time", 1.4)):
        values = [v for v in columns.get(name, ()) if v != MISSING]
        if values and not all(0 < v < math.inf for v in values):
            return False
        if len(values) > 2 and max(values[1:]) > limit * sorted(values)[len(values) // 2]:
            return False
    if "data_time" in columns or not _even(columns):
        return False
    epochs, loss = columns.get("epoch", ()), columns.get("loss", ())
    if epochs and loss and epochs[-1] >= epochs[0] + 3 and loss[-1] > 0.97 * loss[0]:
        return False  # standing still over epochs
    return _falls([v for v in columns.get("loss", ()) if v != MISSING], columns.get("step"))


def _even(columns: Mapping[str, Sequence[float]]) -> bool:
    """Whether the steps keep their pace: the later half takes as long as the earlier one, and a throughput, of logs
    without times, is near its median."""
    for name in ("step_time", "throughput"):
        values = [v for v in columns.get(name, ()) if v != MISSING]
        if len(values) < PACED:
            continue
        half = len(values) // 2
        early, late = sorted(values[2:half]), sorted(values[half:])
        before, after = early[len(early) // 2], late[len(late) // 2]
        if not 0.93 * before < after < 1.07 * before:
            return False
        return name == "step_time" or min(values[2:]) > 0.7 * before
    return True


PACED = 32
"""Times below which nothing is said of the pace."""


def _falls(loss: Sequence[float], steps: Sequence[float] | None) -> bool:
    if not loss or not all(0.02 < v < 1e6 for v in loss):
        return False
    least = loss[0]
    for value in loss:
        if value > 1.01 * least:
            return False
        least = min(least, value)
    if steps is not None and any(b < a for a, b in pairwise(steps)):
        return False
    return len(loss) < LEAST or loss[-1] < (0.96 if len(loss) >= 40 else 1.0) * loss[0]


def _alike(places: Sequence[_Place]) -> bool:
    """Whether the ranks print the same losses, to a tenth, at their ends, and take as long."""
    ends = [place.track.columns["loss"][-1] for place in places if "loss" in place.track.columns]
    if not (ends and min(ends) > 0.9 * max(ends) > 0):
        return False
    times = [place.track.columns["step_time"][2:] for place in places if "step_time" in place.track.columns]
    means = [sum(t) / len(t) for t in times if len(t)]
    return not means or 0 < max(means) < 1.1 * min(means)


# ------------------------------------------------------------------ with numpy


_Answer = tuple[str, _Place, Seen, str]
"""Rule, track, what was seen, label of the series."""


def _answers(
    base: RuleBase, places: Sequence[_Place], crashed: dict[str, str], lines: _Lines, plan: dict[str, Any]
) -> list[_Answer]:
    """What all rules say of all tracks. Of each track only the loss and the usual times are kept for those that compare
    ranks."""
    alone: list[tuple[str, dict[str, Any]]] = []
    together: list[tuple[str, dict[str, Any]]] = []
    for position in base.series:
        match = base.whole(base.ids[position])["match"]["series"]
        if match["scope"] in ("rank", "run"):
            (alone if match["scope"] == "rank" else together).append((base.ids[position], match))
    found: list[_Answer] = []
    kept: list[Curves] = []
    for place in places:
        curves = curves_of(place.track, place.rank)._replace(near=partial(lines.before, place.track), plan=plan)
        curves.cache["compiled"] = place.compiled
        for rule, match in alone:
            found += [(rule, place, seen, match["label"]) for seen in _asked(rule, match, crashed, curves)]
        if len(places) > 1:
            mine = {"loss", "nan_steps"} & set(curves.columns)
            kept.append(
                curves._replace(
                    columns={name: curves.columns[name] for name in mine},
                    have={n: curves.have[n] for n in mine},
                    cache={"medians": _medians(curves)},
                )
            )
    for rule, match in together if kept else ():
        found += [(rule, places[seen.curves], seen, match["label"]) for seen in _asked(rule, match, crashed, kept)]
    return found


def _medians(curves: Curves) -> dict[str, tuple[float, int]]:
    """Usual times without the first ones, and of how many steps."""
    import numpy as np

    found: dict[str, tuple[float, int]] = {}
    for name in ("step_time", "data_time"):
        if name in curves.columns:
            values = curves.columns[name][curves.have[name]][2:]
            values = values[np.isfinite(values)]
            if len(values):
                found[name] = float(np.median(values)), len(values)
    return found


def _asked(rule: str, match: dict[str, Any], crashed: dict[str, str], *args: Any) -> list[Seen]:
    """What a check says; one that fails says nothing, and its rule is named in ``crashed``."""
    try:
        found: list[Seen] = _call(match["call"])(*args)
    except Exception as error:
        crashed[rule] = f"{type(error).__name__}: {error}"
        return []
    return found


def _memory(base: RuleBase, scan: Scanned, crashed: dict[str, str]) -> Scanned:
    """A scan with what its failed allocations say."""
    found, history = memory.shortages(scan.memory)
    texts = dict(scan.memory)
    for position in base.series:
        match = base.whole(base.ids[position])["match"]["series"]
        if match["scope"] != "memory":
            continue
        for seen in _asked(base.ids[position], match, crashed, found, history):
            one = found[seen.row] if seen.row >= 0 else None
            line = one.line if one else int(seen.args["line"])
            scan = _noted(scan, base.ids[position], line, texts.get(line, ""), seen, None, one.device if one else None)
    return scan


def _call(name: str) -> Any:
    """The check that a rule names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def curves_of(track: Track, rank: int | None = None) -> Curves:
    """A track as arrays, its rows in order of steps, cut where the run was started again."""
    import numpy as np

    from doctor.model import Curves

    columns = {name: np.array(values, dtype=np.float64) for name, values in track.columns.items()}
    have = {name: values != MISSING for name, values in columns.items()}
    count = len(track)
    nothing = np.full(count, np.nan)
    step = np.where(have["step"], columns["step"], np.nan) if "step" in columns else nothing
    epoch = np.where(have["epoch"], columns["epoch"], np.nan) if "epoch" in columns else nothing
    at, cuts, period = _axis(track, step, epoch, columns.get("loss", nothing))
    shown = np.where(np.isnan(step), at, step)
    if track.total and bool((step == track.total).all()):
        shown = at  # the end of each bar: what was counted is the epoch
    bounds = [0, *cuts, count]
    segments = tuple((a, b) for a, b in pairwise(bounds) if b > a)
    total = track.total if "step" in columns else 0
    return Curves(track.source, rank, track.kind, columns, have, at, shown, epoch, segments, total, period, track.every,
                  track.units, {})  # fmt: skip


def _axis(track: Track, step: Any, epoch: Any, loss: Any) -> tuple[Any, list[int], int]:
    """(position of each row on one axis, rows where a run begins anew, steps of an epoch or 0)."""
    import numpy as np

    bar_ends = bool(track.total) and bool((step == track.total).all())
    if np.isnan(step).any() or bar_ends:
        number: Any = np.arange(1, len(step) + 1, dtype=np.float64)
        if np.isnan(epoch).any():
            return number, [], 0
        whole = bool((epoch == np.floor(epoch)).all()) and bool((np.diff(epoch) != 0).all())
        return (epoch if whole else number), (np.flatnonzero(np.diff(epoch) < 0) + 1).tolist(), 0
    falls: list[int] = (np.flatnonzero(np.diff(step) < 0) + 1).tolist()
    if not falls:
        return step, [], 0
    if not np.isnan(epoch).any():
        if any(epoch[f] > epoch[f - 1] for f in falls):
            # a counter that starts anew with each epoch counts on
            most = float(np.nanmax(step))
            period = int(track.total if most <= track.total <= 4 * most else most)
            at = (epoch - (1.0 if np.nanmin(epoch) >= 1 else 0.0)) * period + step
            return at, (np.flatnonzero(np.diff(at) < -_slack(at)) + 1).tolist(), period
    elif track.total and all(step[f - 1] >= 0.85 * track.total and _goes_on(loss, f) for f in falls):
        # epochs that nobody counts: the counter has reached its end, and the loss goes on where it was
        turns = np.zeros(len(step))
        turns[falls] = 1
        return np.cumsum(turns) * track.total + step, [], track.total
    return step, (np.flatnonzero(np.diff(step) < -_slack(step)) + 1).tolist(), 0


def _slack(at: Any) -> float:
    """Steps that lines of one run may be out of order."""
    return max(3.0, 0.002 * float(at.max() - at.min()))


def _goes_on(loss: Any, row: int) -> bool:
    """Whether a loss after a turn of the counter is nearer to the one before than to that of the first line."""
    import numpy as np

    old, new, first = float(np.nanmedian(loss[max(0, row - 3) : row])), float(loss[row]), float(loss[0])
    if not (old > 0 and new > 0 and first > 0):
        return abs(new - old) < abs(new - first)
    return abs(math.log(new / old)) < abs(math.log(new / first))


# ------------------------------------------------------------------ the report


AROUND = 1 << 16
"""Bytes before a row that are read again."""
NEAR = 40
"""Lines before a row that are looked at."""


class _Lines:
    """Numbers and texts of lines; of large files they are read when they are needed."""

    def __init__(self, paths: Mapping[str, str], held: Mapping[str, bytes]) -> None:
        self._paths, self._held = paths, held
        self._small: dict[str, list[bytes]] = {}

    def before(self, track: Track, row: int) -> list[str]:
        """The lines between a row and the one before it, the last few if there are many; empty where the text is not at
        hand or cannot be read again."""
        if not row:
            return []
        start, stop = track.lines[row - 1], track.lines[row]
        if not track.marks:
            lines = self._lines(track.source)[start : stop - 1]
        else:
            path = self._paths.get(track.source)
            if path is None:
                return []
            try:
                with open(path, "rb") as file:
                    file.seek(max(start, stop - AROUND))
                    lines = file.read(max(0, stop - file.tell())).split(b"\n")[1:-1]
            except OSError:
                return []
        return [records.visible(line[:TEXT_MAX]) for line in lines[-NEAR:]]

    def _lines(self, source: str) -> list[bytes]:
        """The lines of a small text whose rows are known by their numbers."""
        if source not in self._small:
            data = self._held.get(source, b"")
            path = self._paths.get(source)
            if path is not None and not data:
                try:
                    with open(path, "rb") as file:
                        data = file.read(SMALL)
                except OSError:
                    data = b""
            self._small[source] = data.split(b"\n")
        return self._small[source]

    def of(self, track: Track, row: int) -> tuple[int, str]:
        """(line number, text) of a row; (0, "") if the file cannot be read again."""
        where = track.lines[row]
        if not track.marks:
            return where, track.texts.get(row, _made(track, row))
        path = self._paths.get(track.source)
        before = [
            (track.marks[n], track.marks[n + 1]) for n in range(0, len(track.marks), 2) if track.marks[n] <= where
        ]
        if path is None or not before:
            return 0, _made(track, row)
        base, lines = before[-1]
        try:
            with open(path, "rb") as file:
                file.seek(base)
                lines += file.read(where - base).count(b"\n")
                return lines + 1, records.visible(file.readline(records.MAX_LINE))[:TEXT_MAX]
        except OSError:
            return 0, _made(track, row)


def place_of(track: Track, paths: Mapping[str, str]) -> tuple[int, str]:
    """(line number, text) of the last row of a track; 0 if the line cannot be read again."""
    return _Lines(paths, {}).of(track, len(track) - 1)


def points(track: Track, name: str) -> list[list[Any]]:
    """[step, value or None] of the rows of a column that tell most, for a plot; nothing if there is no such column."""
    return _sample(track, _Column(track.columns[name])) if name in track.columns else []


def _made(track: Track, row: int) -> str:
    """The values of a row, for a line whose text is not at hand."""
    words = []
    for name in ("epoch", "step", "loss", "grad_norm", "loss_scale", "lr"):
        values = track.columns.get(name)
        if values is not None and values[row] != MISSING:
            words.append(f"{name} {values[row]:.6g}")
    return ", ".join(words)


def _noted(scan: Scanned, rule: str, line: int, text: str, seen: Seen, rank: int | None, device: int | None) -> Scanned:
    """A scan with one more occurrence."""
    head = records.head_of(records.strip(text).text)
    args = {key: str(value) for key, value in seen.args.items() if value != ""}
    seconds = head.seconds if head else None
    # a shortage is no more recovered from than the line that told it
    same = next((o.steps for o in scan.occurrences if o.line == line), scan.steps)
    occurrence = Occurrence(rule, line, text[:TEXT_MAX], args, "", seconds, None, rank, device, same)
    occurrences = tuple(sorted((*scan.occurrences, occurrence), key=lambda o: o.line))
    return scan._replace(occurrences=occurrences, counts={**scan.counts, rule: scan.counts.get(rule, 0) + 1})


def _event(track: Track, seen: Seen, kind: str, line: int) -> dict[str, Any]:
    step = seen.args.get("step")
    try:
        at = int(float(step)) if step is not None else None
    except (ValueError, OverflowError):
        at = None
    return {"kind": kind, "step": at, "value": _plain(seen.value), "usual": _plain(seen.usual), "line": line}


def _plain(value: float | None) -> float | str | None:
    """A number for JSON, which knows no NaN."""
    if value is None or math.isfinite(value):
        return value if value is None else float(f"{value:.6g}")
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _entry(place: _Place, name: str, events: list[tuple[str, dict[str, Any]]], sampled: bool) -> dict[str, Any]:
    track = place.track
    values = _Column(track.columns[name])
    points = values.count
    labels = [label for label, _ in events if label]
    label = min(labels, key=LABELS.index) if labels else "healthy"
    if not labels and name in ("grad_norm", "loss_scale"):
        label = "nan" if values.nan else label
    if label == "healthy" and (points < LEAST or not values.finite):
        label = "unknown"
    order = sorted(events, key=lambda e: LABELS.index(e[0]) if e[0] else len(LABELS))
    return {
        "source": track.source, "rank": place.rank, "name": name, "kind": track.kind, "unit": track.units.get(name, ""),
        "points": _sample(track, values) if sampled or label not in ("healthy", "unknown") else [],
        "count": points, "every": track.every, "understood": track.made, "unread": track.unread,
        "label": label,
        "events": [event for _, event in order[:EVENTS]],
    }  # fmt: skip


class _Column:
    """A column with what the report asks of it; large ones by numpy, and others where it is there already."""

    def __init__(self, values: array[float]) -> None:
        self.values = values
        self.large = len(values) > (256 if "numpy" in sys.modules else CALM_ROWS)
        if self.large:
            import numpy as np

            data = np.array(values, dtype=np.float64)
            self.rows: Any = np.flatnonzero(data != MISSING)
            self.data: Any = data[self.rows]
            self.nan, self.finite = bool(np.isnan(self.data).any()), bool(np.isfinite(self.data).any())
        else:
            self.rows = [n for n, v in enumerate(values) if v != MISSING]
            self.data = [values[n] for n in self.rows]
            self.nan, self.finite = any(map(math.isnan, self.data)), any(map(math.isfinite, self.data))
        self.count = len(self.rows)

    def telling(self) -> list[int]:
        """Up to 120 rows: of each stretch the one that is farthest from its mean, so that peaks stay; the first one
        that is no number before all."""
        size = -(-self.count // SAMPLE) if self.count else 1
        out: list[int] = []
        done = 0
        if self.large:
            import numpy as np

            done = self.count // size * size
            parts = self.data[:done].reshape(-1, size)
            odd = ~np.isfinite(parts)
            with np.errstate(all="ignore"):
                far = np.argmax(np.abs(parts - parts.mean(axis=1, keepdims=True)), axis=1)
            at = np.where(odd.any(axis=1), np.argmax(odd, axis=1), far) + np.arange(0, done, size)
            out = self.rows[at].tolist()
        for start in range(done, self.count, size):
            part = self.data[start : start + size]
            bad = next((n for n, v in enumerate(part) if not math.isfinite(v)), None)
            mean = sum(part) / len(part)
            first = max(range(len(part)), key=lambda n: abs(part[n] - mean)) if bad is None else bad
            out.append(int(self.rows[start + first]))
        return out


def _sample(track: Track, column: _Column) -> list[list[Any]]:
    """[step, value] of the telling rows."""
    steps = track.columns.get("step")
    if steps is None or all(step == steps[0] for step in steps):
        steps = track.columns.get("epoch")
    out: list[list[Any]] = []
    for row in column.telling():
        step = steps[row] if steps is not None and steps[row] != MISSING and math.isfinite(steps[row]) else row + 1
        value = column.values[row]
        out.append([int(step), float(f"{value:.6g}") if math.isfinite(value) else None])
    return out
