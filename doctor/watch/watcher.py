"""One look after the other at a live run: read what came, judge when it is due, tell what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from doctor import engine, groups, ranking
from doctor.i18n import LANGUAGES, tr
from doctor.model import SEVERITIES, Evidence, InputSeen, Report, Text
from doctor.rulebase import RuleBase, load, tool_info
from doctor.run.places import place_sources
from doctor.scan.inputs import Source
from doctor.scan.read import SMALL, Read
from doctor.scan.records import rank_in_name
from doctor.scan.scanner import Matcher, Occurrence, Scanned
from doctor.scan.series import ROWS, ROWS_LEAST
from doctor.watch import pace
from doctor.watch.alarms import OWN, SILENT, STALL, Alarm, Alarms
from doctor.watch.feed import Feed, Hit, Pattern
from doctor.watch.follow import File, Follower
from doctor.watch.pace import Lane, Quiet

SLICE = 0.25
"""Seconds of reading in one poll; what is left is read in the next one, which follows at once."""
HOT, CALM = 0.5, 5.0
"""Seconds from one judgement to the next at least: when a line may tell of a failure, and else."""
SHARE_HOT, SHARE_CALM = 3.0, 15.0
"""The same as a multiple of what the last judgement took, so that judging takes no more than a quarter and a sixteenth
of a processor however many ranks there are."""
REST_AFTER = 120.0
"""Seconds without growth after which only the result of a file is kept in memory; longer each time it wakes up."""
HALF_LINE = 2.0
"""Seconds after which a line without an end is looked at for the pattern."""
TELL_STATE = 60.0
"""Seconds between two events that tell the state."""
SETTLED, AHEAD, AHEAD_BYTES = 10.0, 0.03, 32 << 20
"""Seconds without growth after which a small file is read for the report at the end, seconds of that in one look, and
bytes that are held so."""
ENOUGH = 0.5
"""Seconds of a judgement that is not made once more for somebody who waits for the end."""
POINTS = 32
"""Training lines of a rank from which on the shape of its curve is told at once."""
WORSE_AFTER = 3.0
"""A stall this many times its limit long is an error."""


class Until(NamedTuple):
    """When to end: a line, a step, that nothing comes for so many seconds, an alarm. Whichever is first."""

    pattern: Pattern | None = None
    step: int = 0
    idle: float = 0.0
    alarm: str = ""
    """this severity or worse"""
    words: str = ""
    """the pattern as it was given"""


NEVER = Until()
NOTHING = 2
"""The exit code of a report of nothing that could be read."""


def until_of(words: Sequence[str], fail_on: str = "error") -> Until:
    """``PATTERN``, ``line:PATTERN``, ``step:N``, ``idle:SECONDS``, ``alarm``. Raises ValueError with what is wrong."""
    until = NEVER
    for word in words:
        kind, _, value = word.partition(":")
        if word == "alarm":
            until = until._replace(alarm=fail_on)
        elif kind == "step" and value.isascii() and value.isdigit() and 0 < int(value) < 1 << 60:
            until = until._replace(step=int(value))
        elif kind == "idle" and _seconds(value):
            until = until._replace(idle=_seconds(value))
        elif kind in ("step", "idle"):
            raise ValueError(word)
        else:
            text = value if kind == "line" and value else word
            both = f"(?:{until.words})|(?:{text})" if until.words else text
            until = until._replace(pattern=Pattern(both), words=both)
    return until


def _reaches(alarm: Alarm, severity: str) -> bool:
    """Whether an alarm is at least that severe."""
    return SEVERITIES.index(alarm.severity) <= SEVERITIES.index(severity)


def _with(scan: Scanned, answers: Sequence[Occurrence]) -> Scanned:
    """A scan with what was said of its series before."""
    if not answers:
        return scan
    counts = dict(scan.counts)
    for occurrence in answers:
        counts[occurrence.rule] = counts.get(occurrence.rule, 0) + 1
    occurrences = tuple(sorted((*scan.occurrences, *answers), key=lambda o: o.line))
    return scan._replace(occurrences=occurrences, counts=counts)


def _seconds(text: str) -> float:
    """A time limit, 0 if the text is none."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e7 else 0.0


class Options(NamedTuple):
    """How to watch. ``new``: only what comes from now on. ``stall``: so many usual step times, and at least
    ``stall_least`` seconds, without a step are a stall."""

    rules: str | None = None
    engine: str = ""
    new: bool = False
    until: Until = NEVER
    max_seconds: float = 0.0
    stall: float = 10.0
    stall_least: float = 60.0
    cancelled: Callable[[], bool] = lambda: False
    clock: Callable[[], float] = time.monotonic


class Event(NamedTuple):
    """Something to tell. ``kind``: begin · read (all that was there is read) · file · alarm · worse · again · recovered
    · explained · over · state · until · end. ``old``: it was in the files before the watch began."""

    kind: str
    at: float
    """seconds since the epoch"""
    args: dict[str, Any] = {}  # noqa: RUF012 - never changed
    alarm: Alarm | None = None


class State(NamedTuple):
    """The run at a glance. ``behind``: bytes still to be read; ``cost``: seconds of the last judgement."""

    lanes: tuple[Lane, ...]
    alarms: tuple[Alarm, ...]
    files: int
    size: int
    behind: int
    trouble: tuple[str, ...]
    """files that cannot be read, and why"""
    series: tuple[dict[str, Any], ...]
    """the series as they were judged last, with their events"""
    quiet: frozenset[str]
    """names of the files whose rank is silent"""
    now: float
    full: bool
    cost: float


class Watcher:
    """Follows what is under some names. Call ``poll`` again and again, from one thread."""

    def __init__(self, inputs: Sequence[str], options: Options = Options()) -> None:  # noqa: B008 - never changed
        self.inputs, self.options = tuple(inputs), options
        self.base: RuleBase = load(options.rules)
        self.matcher = Matcher(self.base, options.engine)
        self.alarms = Alarms()
        self.report: Report | None = None
        """as it was judged last"""
        self.ended = ""
        """why there is nothing more to wait for: until · idle · alarm · time"""
        self.reached: Hit | None = None
        self.judging = False
        """while it is true, an interrupt may be raised; ``so_far`` gives what was known before"""
        self.caught_up = False
        """whether everything that was there at the beginning has been read"""
        self._clock = options.clock
        self._follower = Follower(inputs, new=options.new)
        self._feeds: dict[File, Feed] = {}
        self._lanes: dict[tuple[File, int | None], Lane] = {}
        self._sleeps: dict[File, float] = {}  # how long a file must not grow to be put to rest
        self._began = self._clock()
        self._moved = self._began  # when something came last
        self._judged = 0.0
        self._cost = 0.0
        self._stirred = -1
        self._due = False  # whether something came that was not judged
        self._odd = False  # whether a value came that a detector should see at once
        self._ranked = self._rank_cost = 0.0  # as the two above, of a judgement without series
        self._answers: dict[str, tuple[Occurrence, ...]] = {}  # what was said of series, by source
        self._series: tuple[dict[str, Any], ...] = ()
        self._ranks: dict[str, int | None] = {}
        self._quiet: frozenset[str] = frozenset()
        self._ahead = 0  # bytes of small files read for the report
        self._told_state = self._began
        self._told_rows = 0
        self._started = False

    # ------------------------------------------------------------------ one look

    def poll(self) -> list[Event]:
        """Look, read for a moment, judge if it is due; what is new. ``behind`` tells whether to look again at once."""
        events: list[Event] = []
        if not self._started:
            self._started = True
            events.append(self._event("begin", inputs=list(self.inputs), new=self.options.new))
        if self.caught_up or not self._follower.files:
            self._look(events)
        self._read(events)
        now = self._clock()
        if not self.caught_up and not self.behind:
            self.caught_up = True
            self._look(events)
            if not self.behind:
                self._judge(now, old=True, events=events)
                size = sum(f.size for f in self._follower.files)
                events.append(self._event("read", files=len(self._feeds), size=size))
        self._judge_if_due(now, events)
        if self.caught_up:
            self._stalls(now, events)
            self._rest(now)
        rows = sum(lane.rows for lane in self._lanes.values())
        if self.caught_up and now - self._told_state >= TELL_STATE and rows != self._told_rows:
            self._told_state, self._told_rows = now, rows
            events.append(self._event("state", **self._summary()))
        self._is_over(now, events)
        return events

    @property
    def behind(self) -> int:
        """Bytes that are still to be read."""
        return sum(file.behind for file in self._follower.files)

    def _event(self, kind: str, **args: Any) -> Event:
        return Event(kind, time.time(), args)

    def _look(self, events: list[Event]) -> None:
        for change in self._follower.look():
            file = change.file
            if change.kind == "new" and not self._feeds and self.caught_up is False:
                # rows are shared out among the files that are there at first, as a diagnosis does
                self.matcher.rows = max(ROWS_LEAST, ROWS // max(1, len(self._follower.files)))
            if change.kind == "cut":
                self._again(file)
            elif change.kind == "moved" and file in self._feeds:
                for (of, _), lane in self._lanes.items():
                    if of is file:
                        lane.name = file.name
            elif change.kind == "gone" and file in self._feeds:
                self._again(file)
            if change.kind != "new" or self.caught_up:
                self._moved = self._clock()
                events.append(self._event("file", what=change.kind, name=file.name, was=change.was))

    def _again(self, file: File) -> None:
        """A file was written anew, or is gone: what it held was told and is the past."""
        self._feeds.pop(file, None)
        self._sleeps.pop(file, None)
        for key in [k for k in self._lanes if k[0] is file]:
            del self._lanes[key]
        self._due = True

    def _read(self, events: list[Event]) -> None:
        """Read what came, a piece of each file in turn, for at most a moment."""
        deadline = time.monotonic() + SLICE
        waiting = [file for file in self._follower.files if file.behind]
        grown: dict[File, None] = {}
        while waiting and time.monotonic() < deadline and not self.options.cancelled():
            left = []
            for file in waiting:
                feed = self._feed(file)
                data = self._follower.read(file)
                if data is None:
                    events.append(self._event("file", what="cut", name=file.name, was=""))
                    self._again(file)
                    left.append(file)
                    continue
                if data:
                    self._moved = self._clock()
                    grown[file] = None
                    self._look_for(feed, feed.take(data))
                    if feed.reread:
                        feed.reread = False
                        self._follower.rewind(file)
                        self._feeds.pop(file)
                if file.behind:
                    left.append(file)
                if time.monotonic() > deadline:
                    break
            waiting = left
        for file in grown:
            self._advance(file)

    def _feed(self, file: File) -> Feed:
        feed = self._feeds.get(file)
        if feed is not None and feed.resting:
            # it was thought to have ended; its scan is not, so it is read anew
            self._sleeps[file] = 4 * self._sleeps.get(file, REST_AFTER)
            self._follower.rewind(file)
            feed = None
        if feed is None:
            feed = self._feeds[file] = Feed(self.matcher, file)
        return feed

    def _look_for(self, feed: Feed, data: bytes, last: bool = False) -> None:
        pattern = self.options.until.pattern
        if pattern is not None and self.reached is None:
            self.reached = feed.search(pattern, data, last)

    def _advance(self, file: File) -> None:
        """Take the newest steps of a file that grew."""
        feed = self._feeds.get(file)
        if feed is None or not feed.advance():
            return
        self._due = True
        now = self._clock()
        written = now - max(0.0, time.time() - file.mtime)
        for rank, track in pace.best_tracks(feed.tracks).items():
            lane = self._lanes.get((file, rank))
            if lane is None:
                lane = self._lanes[file, rank] = Lane(file.name, rank if rank is not None else rank_in_name(file.name))
            if lane.take(track, now, written, self.caught_up) and lane.odd:
                self._odd = True

    # ------------------------------------------------------------------ judging

    def _judge_if_due(self, now: float, events: list[Event]) -> None:
        """Judge everything, or, where the series of many ranks take long, at first only what rules say of lines."""
        # a failure that no line names may have to stand for a while before it is told
        self._due = self._due or bool(self.alarms.waiting)
        if not self._due:
            return
        hot = self._stirring() != self._stirred or bool(self.alarms.waiting)
        quick = self._cost < ENOUGH
        soon = self._odd or (hot and quick)
        pause = max(HOT, SHARE_HOT * self._cost) if soon else max(CALM, SHARE_CALM * self._cost)
        if now - self._judged >= pause:
            self._judge(now, old=not self.caught_up, events=events)
        elif hot and not quick and now - self._ranked >= max(HOT, SHARE_HOT * self._rank_cost):
            self._judge(now, old=not self.caught_up, events=events, series=False)

    def _stirring(self) -> int:
        return sum(feed.stirred for feed in self._feeds.values())

    def _judge(self, now: float, *, old: bool, events: list[Event], series: bool = True) -> None:
        began = time.thread_time()
        self._stirred = self._stirring()
        self.judging = True
        report = self.judge(series=series)
        self.judging = False
        for what, alarm in self.alarms.take(report, now, old, self._young()):
            events.append(Event(what, time.time(), {"old": old}, alarm))
        took = time.thread_time() - began
        self._ranked = self._clock()
        if series:
            self._due = self._odd = False
            self._cost, self._judged = took, self._ranked
        else:
            self._rank_cost = took

    def _young(self) -> frozenset[str]:
        """Rules on the shape of a curve, while no rank has printed enough points for one."""
        if max((lane.rows for lane in self._lanes.values()), default=0) >= POINTS:
            return frozenset()
        rules = (self.base.rule_at(position) for position in self.base.series)
        return frozenset(rule.id for rule in rules if rule.severity != "error")

    def judge(self, *, series: bool = True) -> Report:
        """Findings and diagnoses of what the files hold so far; without ``series`` what was said of the training lines
        last still holds."""
        scans: list[Scanned] = []
        paths: dict[str, str] = {}
        facts: dict[str, Any] = {}
        for file in self._follower.files:
            feed = self._feeds.get(file)
            scan = feed.scan() if feed is not None and feed.size else None
            if feed is None or scan is None:
                continue
            scans.append(scan)
            paths[file.name] = file.path
            for key, (value, _) in feed.facts.items():
                facts.setdefault(key, value)
        if not series:
            judged = [_with(scan, self._answers.get(scan.name, ())) for scan in scans]
        elif any(scan.tracks or scan.memory for scan in scans):
            from doctor import training

            judged, self._series, _ = training.judge(self.base, scans, paths)
            own = {self.base.ids[position] for position in self.base.series}
            self._answers = {s.name: tuple(o for o in s.occurrences if o.rule in own) for s in judged}
        else:
            judged, self._series, self._answers = scans, (), {}
        findings, diagnoses, run = ranking.judge(self.base, judged, facts)
        self._ranks = {s.scan.name: s.rank for s in place_sources(scans)}
        for lane in self._lanes.values():
            if lane.rank is None:
                lane.rank = self._ranks.get(lane.name)
        self.report = Report({"kind": "inputs", "inputs": list(self.inputs)}, "unknown", diagnoses, findings,
                             series=self._series, run=run)  # fmt: skip
        return self.report

    # ------------------------------------------------------------------ what no line reports

    def _stalls(self, now: float, events: list[Event]) -> None:
        """Tell that steps have stopped, unless a failure says why."""
        lanes = list(self._lanes.values())
        factor, least = self.options.stall, self.options.stall_least
        failed = any(
            alarm.severity == "error" and alarm.rule not in OWN and not groups.survives(alarm.topic)
            for alarm in self.alarms.active()
        )
        all_of_them = None if failed else pace.stalled(lanes, now, factor, least)
        some = None if failed or all_of_them else pace.silent(lanes, now, factor, least)
        self._quiet = frozenset(lane.name for lane in some.lanes) if some else frozenset()
        for rule, quiet in ((STALL, all_of_them), (SILENT, some)):
            if quiet is None:
                alarm = self.alarms.settle(rule, now)
                what = "over"
            else:
                what = self._tell_quiet(rule, quiet, now)
                alarm = self.alarms.all[rule]
            if alarm is not None and what:
                events.append(Event(what, time.time(), {"old": False}, alarm))

    def _tell_quiet(self, rule: str, quiet: Quiet, now: float) -> str:
        lane = quiet.lanes[0]
        # steps that stopped before the watch began may have come to their end
        sure = any(one.live for one in quiet.lanes) and quiet.seconds > WORSE_AFTER * quiet.limit
        severity = "error" if sure else "warning"
        ranks = [one.rank for one in quiet.lanes if one.rank is not None]
        values = {
            "seconds": f"{quiet.seconds:.0f}", "usual": f"{quiet.usual:.3g}", "limit": f"{quiet.limit:.0f}",
            "step": "?" if lane.step is None else str(lane.step),
            "times": f"{quiet.seconds / quiet.usual:.0f}" if quiet.usual else "?",
        }  # fmt: skip
        key = rule.replace(":", ".")
        texts: dict[str, Text] = {
            part: {lang: tr(lang, f"{key}.{part}", **values) for lang in LANGUAGES}
            for part in ("title", "cause", "next")
        }
        number = text = None
        if lane.track is not None:
            from doctor.training import place_of

            file = next((of for of, _ in self._lanes if of.name == lane.name), None)
            number, text = place_of(lane.track, {lane.name: file.path} if file else {})
        return self.alarms.own(rule, severity, texts, ranks, Evidence(lane.name, number or 0, text or ""), now)

    # ------------------------------------------------------------------ rest and end

    def _rest(self, now: float) -> None:
        """Keep only the result of files that have not grown for long, and read small ones as the report at the end will
        need them, a few at a time; a last line without an end is one after all."""
        deadline = time.monotonic() + AHEAD
        for file, feed in self._feeds.items():
            quiet = 0.0 if file.behind else time.monotonic() - file.changed
            small = feed.size <= SMALL and not feed.exact and self._ahead + feed.size <= AHEAD_BYTES
            if quiet > SETTLED and small and not feed.has_whole and time.monotonic() < deadline:
                feed.whole()
                self._ahead += feed.size
            if quiet > HALF_LINE and feed.half_line:
                self._look_for(feed, b"", last=True)
            if quiet > self._sleeps.get(file, REST_AFTER) and not feed.resting:
                feed.rest()

    def _is_over(self, now: float, events: list[Event]) -> None:
        until = self.options.until
        if self.ended:
            return
        furthest = max((lane.step for lane in self._lanes.values() if lane.step is not None), default=-1)
        if self.reached is not None or (until.step and furthest >= until.step):
            self.ended = "until"
        elif until.alarm and any(_reaches(alarm, until.alarm) for alarm in self.alarms.active()):
            self.ended = "alarm"
        elif until.idle and self.caught_up and not self.behind and now - self._moved >= until.idle:
            self.ended = "idle"
        elif self.options.max_seconds and now - self._began >= self.options.max_seconds:
            self.ended = "time"
        if self.ended:
            if self._due and self.ended != "alarm":
                self._judge(now, old=not self.caught_up, events=events)
            hit = self.reached
            events.append(self._event("until", why=self.ended, name=hit.name if hit else "",
                                      line=hit.line if hit else 0, text=hit.text if hit else ""))  # fmt: skip

    # ------------------------------------------------------------------ results

    def state(self) -> State:
        """The run at a glance."""
        files = self._follower.files
        return State(
            tuple(lane for lane in self._lanes.values() if lane.rows), tuple(self.alarms.all.values()), len(files),
            sum(f.size for f in files), self.behind, tuple(f"{f.name}: {f.trouble}" for f in files if f.trouble),
            self._series, self._quiet, self._clock(), self._follower.full, self._cost,
        )  # fmt: skip

    def _summary(self) -> dict[str, Any]:
        lanes = [lane for lane in self._lanes.values() if lane.step is not None]
        lead = max(lanes, key=lambda lane: (lane.seen, lane.step or 0), default=None)
        steps = [lane.step for lane in lanes if lane.step is not None]
        return {
            "ranks": len(lanes), "step": max(steps, default=None), "slowest": min(steps, default=None),
            "loss": lead.loss if lead else None, "step_time_ms": lead.step_time or None if lead else None,
            "left_seconds": lead.left if lead else None,
        }  # fmt: skip

    def final(self, cancelled: Callable[[], bool] = lambda: False) -> Report:
        """The report of a diagnosis of the same inputs; large files are not read again. The watch ends with it."""
        by_path = {file.path: file for file in self._follower.files}
        inputs: Sequence[str] = self.inputs
        if self.options.new:
            inputs = [f.path for f in self._follower.files if f in self._feeds and self._feeds[f].size]
            if not inputs:
                return self.so_far(interrupted=False)

        def known(source: Source) -> Read | None:
            file = by_path.get(source.path or "")
            feed = self._feeds.get(file) if file is not None else None
            if file is None or feed is None:
                return None
            if not feed.exact:
                self._read_up_to(file, source.size or 0, cancelled)
                feed = self._feeds.get(file)
            if feed is None or (not feed.exact and feed.size != source.size):
                return None  # it was written anew meanwhile
            return feed.finish()

        options = engine.Options(rules=self.options.rules, engine=self.options.engine, cancelled=cancelled,
                                 known=known, jobs=1)  # fmt: skip
        self.report = engine.diagnose(inputs, options)
        return self.report

    def _read_up_to(self, file: File, size: int, cancelled: Callable[[], bool]) -> None:
        """Read what is missing of a large file."""
        while size > SMALL and file.offset < size and not cancelled():
            data = self._follower.read(file)
            if not data or self._feeds[file].resting:
                self._feeds.pop(file, None)
                return
            self._feeds[file].take(data)

    def so_far(self, *, interrupted: bool = True) -> Report:
        """A report of what was read so far, with nothing read for it."""
        held = self.judging or not self._due or self._cost > ENOUGH
        report = self.report if self.report and held else self.judge()
        files = [(f, self._feeds[f]) for f in self._follower.files if f in self._feeds]
        seen = tuple(
            InputSeen(file.name, feed.kinds, feed.size, feed.lines, self._ranks.get(file.name),
                      "partial" if file.behind else "read" if feed.wanted else "not_judged")
            for file, feed in files
        )  # fmt: skip
        report = report._replace(
            inputs=seen, partial=engine.INTERRUPTED if interrupted else {}, interrupted=interrupted,
            tool=tool_info(self.base, self.matcher.engine.name),
        )  # fmt: skip
        return report._replace(verdict=engine.verdict_of(report))

    def exit_code(self, report: Report, fail_on: str) -> int:
        """That of the report; steps that have stopped, about which the files say nothing, count too, and so does an end
        that was not reached in time."""
        code = engine.exit_code(report, fail_on)
        if code == NOTHING and self.options.new and self._follower.files:
            code = 0  # nothing came, which is no failure
        if code:
            return code
        if any(_reaches(alarm, fail_on) for alarm in self.alarms.active() if alarm.rule in OWN):
            return 1
        return 1 if self.ended == "time" and self.options.until != NEVER else 0
