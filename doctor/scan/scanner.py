"""One source → occurrences: anchors by the engine, judgement by ``re`` on the line or block, exact line numbers.

Memory is bounded: three chunks of the source, and per rule the first and last few occurrences. A hit is judged when
the chunk behind it has been read, so that a block can reach over a chunk's end.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, cast

from doctor.rulebase import Clause, LogSpec, RuleBase
from doctor.scan import records
from doctor.scan.anchors import CLAUSE_BITS
from doctor.scan.calc import derived, holds
from doctor.scan.lazy import lazy, lazy_bytes
from doctor.scan.matcher import Anchors, Engine, Hit, Prose, Stream, engine_for
from doctor.scan.memory import LINES as MEMORY_LINES
from doctor.scan.series import ROWS, TEXTS, Collector, Track
from doctor.scan.told import REACH as TOLD_REACH
from doctor.scan.told import Opening, Told, told
from doctor.scan.window import Window, newlines

CHUNK = 256 << 10
MIN_CHUNK = 64 << 10
CLAUSE_MASK = (1 << CLAUSE_BITS) - 1
KEEP_FIRST = 6
"""Occurrences kept of a rule in a source with their neighbours; the last one is kept besides: it tells whether the run
got over it."""
JUDGE_AT_MOST = 2000
"""Occurrences of a rule judged in a source; behind that they are only the same thing again."""
READ_UNITS = 300
"""Records or neighbourhoods read for a rule in a source."""
LIVE = 64 << 10
"""Bytes behind the end of a growing source that are not judged for good: more than a block and its neighbours."""
BLOCK_LINES = 200
BLOCK_BYTES = 24 << 10
HEAD_BYTES = 400
CONTEXT = 2
NEAR_LINES, NEAR_BYTES = 80, 12 << 10
"""Lines and bytes around a line in which a time is looked for."""
TEXT_MAX = 600
ERRORS_KEPT = 60
MEMO = 4096
"""Messages whose judgement is remembered."""


class Occurrence(NamedTuple):
    """A rule seen at a line. ``steps``: the source's step counter there; ``Scanned.steps`` minus this is how many
    training lines followed, up to a few more than tell a recovered trouble."""

    rule: str
    line: int
    text: str
    args: dict[str, str]
    level: str
    seconds: float | None
    pid: int | None
    rank: int | None
    device: int | None
    steps: int
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    about: float | None = None
    """the time of a neighbouring record, for a line without one of its own: a traceback has none"""


class Scanned(NamedTuple):
    """What one source holds. Plain data: it crosses process borders and can be merged."""

    name: str
    size: int
    lines: int
    occurrences: tuple[Occurrence, ...]
    counts: dict[str, int]
    errors: tuple[Occurrence, ...]
    error_count: int
    steps: int
    last_step: tuple[int, float | None]
    """line and time of the last training step, (0, None) without one"""
    rank: int | None
    pids: tuple[int, ...]
    seconds: tuple[float | None, float | None]
    tail: tuple[str, ...]
    head: bytes
    """the first 64 KiB, for kind and version detection"""
    problem: tuple[str, str] | None = None
    cancelled: bool = False
    tracks: tuple[Track, ...] = ()
    """the values of the training lines"""
    memory: tuple[tuple[int, str], ...] = ()
    """(number, text) of lines with numbers of memory"""
    told: Told = Told()
    """what it says of the run and of its place in it"""
    split: str = ""
    """rank: the lines of one rank of a source that holds several; rest: those of none"""


ENOUGH_STEPS = 4
REACH, REACH_TRAINING = 4 << 20, 64 << 20
"""Bytes behind a failure in which steps are looked for, in a source that printed none before it and in one that did."""


class Patterns:
    """The confirming expressions of the rules, compiled when first needed."""

    def __init__(self) -> None:
        self._compiled: dict[str, re.Pattern[str]] = {}

    def get(self, regex: str) -> re.Pattern[str]:
        found = self._compiled.get(regex)
        if found is None:
            found = self._compiled[regex] = re.compile(regex, re.MULTILINE)
        return found

    def clause(self, clause: Clause, text: str, near: int = 0) -> tuple[dict[str, str], int] | None:
        """(captures, position) of a clause in a text, None if it does not match. Of several matches the first at or
        behind ``near`` counts, else the first."""
        at = -1
        if clause.literal is not None:
            at = text.find(clause.literal, near)
            if at < 0:
                at = text.find(clause.literal)
            if at < 0:
                return None
            if clause.regex is None:
                return {}, at
        assert clause.regex is not None
        pattern = self.get(clause.regex)
        found = (pattern.search(text, near) if near else None) or pattern.search(text)
        if found is None:
            return None
        return {k: v for k, v in found.groupdict().items() if v is not None}, found.start()


class _Unit(NamedTuple):
    """A record or block: its text, where the looked-at line begins in it, and (text offset, start, stop) of lines."""

    text: str
    near: int
    lines: tuple[tuple[int, int, int], ...]

    def line_at(self, offset: int) -> tuple[int, int, str]:
        """(start, stop) in the source and text of the line that holds a text offset."""
        n = max(0, bisect_right(self.lines, (offset, 1 << 62, 1 << 62)) - 1)
        at, start, stop = self.lines[n]
        end = self.lines[n + 1][0] - 1 if n + 1 < len(self.lines) else len(self.text)
        return start, stop, self.text[at:end]


class Matcher:
    """A rules base with its engine, ready for any number of sources; one per process and thread."""

    def __init__(self, base: RuleBase, engine: Engine | str = "") -> None:
        self.base = base
        self.anchors = Anchors(base)
        self.engine = engine_for(base, engine) if isinstance(engine, str) else engine
        self.patterns = Patterns()
        special = self.anchors.special
        self.loud = self.anchors.info | {n for n, name in special.items() if name == "meta"}
        """anchors that also mean something on an INFO or DEBUG line"""
        self._prose: Prose | None = None
        self.rows = ROWS
        """rows kept of a track; a run of many files shares them out"""
        self.numbered = False
        """whether the training lines of large files are numbered at once, for a result that is read without them"""

    def prose(self, data: bytes) -> list[Hit]:
        """Hits of the expressions that are only looked for in small inputs."""
        if self._prose is None:
            self._prose = Prose(self.base, self.anchors)
        return self._prose.hits(data)


_QUIET_HEADS = (b"[INFO]", b"[DEBUG", b"[EVENT", b"[V", b"[TRACE")
_ESC = lazy_bytes(rb"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]")
_ESC_CUT = lazy_bytes(rb"\x1b(\[[0-?]{0,40}[ -/]{0,4})?$")
_ENDS = lazy_bytes(rb"Error|Exception|Interrupt|Exit|Traceback")  # a cheap sign of what is_exception tells
_QUOTING = lazy(r"\s*\|.*\|\s*$|[0-9a-f]{7,40} \w+|.*;\s*//")
"""A row of a table, a commit, a line of C++: what names a code there does not report it."""
_CODE = lazy(
    r"\b([EW][A-Z0-9]\d{4})(?=:|\[PID|\):)"
    r"|(?i:(?:ret|ret_?code|error ?code|err_?code|error_code|error|failure|errno|\b(?:runtime|ge) result)"
    r"(?: is)?[ =:\[(]{1,3})"
    r"(0x[0-9a-fA-F]{6,8}|[1-5]\d{5})\b|\b((?:ACL_ERROR|DRV_ERROR|HCCL_E|RT_ERROR)_[A-Z][A-Z0-9_]{2,50})\b"
)
_PRINTED = lazy(
    r"\s*(?:[^\n]{0,200}?(?:\|\||&&|;|\bthen|\belse|\{|\))\s*)?(?:echo|printf)\s+(?:-\w{1,4}\s+){0,3}[\"'$\\]"
)  # what a script would print; what it has printed is a line of its own
_OF_OTHERS = lazy(r"Start worker process with|The new node: |[Rr]eassign rank id")
"""The launcher and the scheduler number the processes of others"""
_RANK_ID = lazy(r"(?:Global rank id|This node \d+ rank id|\brank id): ?(\d{1,6})")


def plain(data: bytes) -> tuple[bytes, bytes]:
    """(the data without colour codes, the beginning of one that is cut off at its end)."""
    data = _ESC.sub(b"", data)
    cut = _ESC_CUT.search(data, max(0, len(data) - 64))
    return (data[: cut.start()], data[cut.start() :]) if cut else (data, b"")


def plain_chunks(stream: BinaryIO, size: int = CHUNK) -> Iterator[bytes]:
    """Chunks of a stream without colour codes (they would hide a literal); an empty chunk never comes."""
    kept = b""
    while True:
        data = stream.read(size)
        if not data:
            break
        if kept or b"\x1b" in data:
            data, kept = plain(kept + data)
            if not data:
                continue
        yield data
    if kept:
        yield kept


class _Line(NamedTuple):
    """A line under judgement: where it is, its stripped text, and what its record says."""

    start: int
    stop: int
    text: str
    level: str
    head: records.Head | None
    stripped: records.Stripped


class _Judged(NamedTuple):
    """The answer to a line: the rules and codes it hit, its error class if nothing explains it, and the level that
    its record lent it (None if it has its own)."""

    rules: tuple[str, ...]
    error: bytes
    context_level: str | None


class _Late(NamedTuple):
    """A hit that was counted but not kept in full."""

    line: int
    steps: int
    raw: bytes


def _occurrence(
    rule: str, number: int, steps: int, line: _Line, args: dict[str, str],
    before: tuple[str, ...] = (), after: tuple[str, ...] = (),
) -> Occurrence:  # fmt: skip
    head, stripped = line.head, line.stripped
    seconds = records.cann_seconds(line.text) if not head or head.seconds is None else head.seconds
    return Occurrence(
        rule, number, line.text[:TEXT_MAX], args, line.level, seconds,
        head.pid if head and head.pid is not None else stripped.pid,
        _rank_of(stripped, head),
        head.device if head else None, steps, before, after,
    )  # fmt: skip


def _rank_of(stripped: records.Stripped, head: records.Head | None) -> int | None:
    """The rank that a line itself names: by its prefix, its head, or the file a grep found it in."""
    if stripped.rank is not None:
        return stripped.rank
    if head is not None and head.rank is not None:
        return head.rank
    return records.rank_in_name(stripped.file) if stripped.file else None


def _revive(late: _Late, like: Occurrence) -> Occurrence:
    """The occurrence of a hit that was only counted: its own line and time, the captures of its twin."""
    stripped = records.read_line(late.raw)
    head = records.head_of(stripped.text)
    line = _Line(0, 0, stripped.text, like.level, head, stripped)
    return _occurrence(like.rule, late.line, late.steps, line, like.args)


def _shown(text: str, at: int) -> str:
    """A long text cut so that what stands at ``at`` is in it."""
    if len(text) <= TEXT_MAX or at < TEXT_MAX * 2 // 3:
        return text
    return "…" + text[at - TEXT_MAX // 3 :]


def _message_key(raw: bytes) -> bytes:
    """A line without its time stamp, as far as it begins like a record of MindSpore or CANN."""
    if raw[:1] != b"[":
        return raw
    at = raw.find(b"):2", 0, 160)
    if at < 0:
        return raw
    end = raw.find(b" ", at)
    return raw[: at + 2] + raw[end:] if end > 0 else raw


class _Ended:
    """The stream of a snapshot: there is nothing more in it."""

    def close(self) -> list[Hit]:
        return []


class _Told(NamedTuple):
    """The collector of a snapshot: its lines have been read."""

    tracks: tuple[Track, ...]

    def finish(self, name: str) -> tuple[Track, ...]:
        return self.tracks


class Scanner:
    """Scans one source; ``feed`` it chunks, then ``finish``."""

    def __init__(
        self, matcher: Matcher, name: str, *, exact: bool = True, rows: int = 0, texts: int = TEXTS, behind: int = CHUNK
    ) -> None:
        """``exact``: whether the lines of training values are numbered now, or found again by their offsets. ``rows``:
        those kept of a track, 0 for what the matcher says; ``texts``: bytes of their lines that are kept; ``behind``:
        bytes by which a hit lies behind what was read before it is judged."""
        self.matcher = matcher
        self.name = name
        self._behind = behind
        self._stream = matcher.engine.stream()
        self._collector = Collector(name, exact=exact, limit=rows or matcher.rows, texts=texts)
        anchors = matcher.anchors
        self._first_step, self._first_odd, self._first_kept = anchors.first_step, anchors.first_odd, anchors.first_kept
        self._memory_hits: list[int] = []
        self._memory: list[tuple[int, str]] = []
        self._memory_at = -1  # the line last taken for its numbers of memory
        # offsets behind hits of training lines: of losses, of other values, and of values that are odd
        self._step_hits: tuple[list[int], list[int], list[int]] = (self._stream.losses, [], [])
        self._parts: list[tuple[bytes, int, int]] = []  # chunks whose training lines are still to be read
        self._window = Window()
        self._waiting: list[tuple[int, int]] = []  # hits not judged yet
        self._prose_hits: list[Hit] = []
        self._short: list[bytes] = []
        self._short_size = 0
        self._seen = 0
        self._counted_at = 0  # offset up to which newlines are counted
        self._counted = 0
        self._starts: list[tuple[int, int]] = [(0, 0)]  # (offset, newlines before it) of the chunks at hand
        self._lines = 0
        self._first: dict[str, list[Occurrence]] = {}
        self._full: set[str] = set()  # rules of which enough occurrences are kept
        self._last: dict[str, Occurrence] = {}
        self._counts: dict[str, int] = {}
        self._errors: dict[bytes, Occurrence] = {}
        self._error_count = 0
        self._steps = 0
        self._steps_wanted = 0  # the counter goes on until it has reached this
        self._steps_at = 0  # offset up to which steps were looked for
        self._steps_until = 0  # offset behind which they are no more
        self._trains = False  # whether the source has shown a step
        self._late_at = 0  # the newest hit of the chunk that was only counted
        self._step_line: tuple[int, float | None] = (0, None)
        self._rank: int | None = None
        self._rank_sure = False
        self._pids: dict[int, None] = {}
        self._times: list[float | None] = [None, None]
        self._head = b""
        self._opening = Opening()
        self._block_seen: dict[str, int] = {}
        self._units_read: dict[str, int] = {}
        self._blocks: dict[bool, _Unit] = {}  # the record and the block last read
        self._headless: tuple[int, records.Head | None] = (-1, None)  # a line without a head, and its record's
        self._memo: dict[bytes | tuple[bytes, str], _Judged | None] = {}
        self._late: dict[str, _Late] = {}  # the newest hit of a rule that was not kept in full
        self._late_errors: dict[bytes, _Late] = {}
        self._late_new: set[str] = set()  # those of the chunk at hand, whose steps are not known yet
        self._late_errors_new: set[bytes] = set()
        self._ends_with_newline = True

    # ------------------------------------------------------------------ input

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the source. Short pieces, as a pipe gives them, are collected first."""
        if len(chunk) < MIN_CHUNK:
            self._short.append(chunk)
            self._short_size += len(chunk)
            if self._short_size >= MIN_CHUNK:
                self._flush()
            return
        self._flush()
        self._take(chunk)

    def feed_whole(self, data: bytes) -> None:
        """Take a small input as a whole; only here are the expressions of people's words looked for."""
        self.feed(data)
        self._prose_hits = self.matcher.prose(data)

    def _flush(self) -> None:
        if self._short_size:
            chunk = b"".join(self._short)
            self._short, self._short_size = [], 0
            self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        hits = self._stream.scan(chunk)
        if hits:
            hits = self._sorted_out(hits)
        self._parts.append((chunk, self._seen, self._lines))
        self._opening.take(chunk, self._lines, first=not self._seen)
        if len(self._head) < 1 << 16:
            self._head += chunk[: (1 << 16) - len(self._head)]
        self._window.push(chunk, 3 * self._behind)
        while self._starts[0][0] < self._window.base:
            self._starts.pop(0)
        self._seen += len(chunk)
        self._lines += newlines(chunk)
        self._starts.append((self._seen, self._lines))
        self._ends_with_newline = chunk.endswith(b"\n")
        if hits:
            self._waiting += hits
        # what lies so far behind has its following lines at hand
        limit = self._seen - self._behind
        if self._waiting and self._waiting[0][0] <= limit:
            self._judge(limit)
        elif self._steps < self._steps_wanted:
            self._count_steps(limit)
        self._collect(limit)

    def _collect(self, limit: int) -> None:
        """Read the lines with numbers up to ``limit``: an engine may report late."""
        self._collect_rows(limit)
        if self._memory_hits and self._memory_hits[0] <= limit:
            for end in _split(self._memory_hits, limit):
                self._take_memory(end)

    def _collect_rows(self, limit: int) -> None:
        """Read the training lines of the chunks that end at or before ``limit``."""
        while self._parts and self._parts[0][1] + len(self._parts[0][0]) <= limit:
            chunk, base, lines = self._parts.pop(0)
            losses, others, odd = (_split(hits, base + len(chunk)) for hits in self._step_hits)
            self._collector.take(chunk, base, losses, lines, others, odd)

    def _sorted_out(self, hits: list[Hit]) -> list[Hit]:
        """The hits that speak of failures; those of lines with numbers are put aside."""
        first = self._first_kept
        rest = [hit for hit in hits if hit[1] < first]
        if len(rest) < len(hits):
            _, others, odd = self._step_hits
            for end, aid in hits:
                if aid >= self._first_step:
                    others.append(end)
                elif aid >= self._first_odd:
                    odd.append(end)
                elif aid >= first:
                    self._memory_hits.append(end)
        return rest

    def _take_memory(self, end: int) -> None:
        """Keep a line with numbers of memory."""
        window = self._window
        start = window.line_start(end - 1)
        if start == self._memory_at:
            return
        self._memory_at = start
        raw = window.slice(start, min(window.line_end(end - 1), start + records.MAX_LINE))
        self._memory.append((self._line_of(start), records.read_line(raw).text))
        if len(self._memory) > MEMORY_LINES:
            del self._memory[200:-200:2]

    # ------------------------------------------------------------- while it grows

    def advance(self) -> tuple[Track, ...]:
        """The training lines so far, of a source that goes on growing; they share their columns with the scanner, so
        use them before the next ``feed``. What lies ``LIVE`` behind is judged for good, and little stays in memory."""
        self._flush()
        hits = self._stream.drain()
        if hits:
            self._waiting += self._sorted_out(hits)
        self._collect_rows(self._seen)
        limit = self._seen - LIVE
        self._collect(limit)
        if self._waiting and self._waiting[0][0] <= limit:
            self._judge(limit)
        else:
            self._count_steps(limit)
        self._window.drop(CHUNK)
        return self._collector.so_far(self.name, texts=False)

    @property
    def stirred(self) -> int:
        """Grows whenever a line may tell of a failure."""
        return len(self._waiting) + sum(self._counts.values()) + self._error_count

    def snapshot(self) -> Scanned:
        """What the source holds so far, as if it ended here with its last whole line; the scanner goes on afterwards.
        Its tracks share their columns with the scanner."""
        from copy import copy

        self.advance()
        tracks = self._collector.so_far(self.name)
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (list, dict, set)):
                setattr(twin, name, value.copy())
        twin._first = {rule: kept.copy() for rule, kept in self._first.items()}
        twin._step_hits = (self._step_hits[0].copy(), self._step_hits[1].copy(), self._step_hits[2].copy())
        twin._stream, twin._collector = cast("Stream", _Ended()), cast("Collector", _Told(tracks))
        return twin.finish()

    def finish(self, problem: tuple[str, str] | None = None, cancelled: bool = False) -> Scanned:
        """The end of the source (or of the patience): judge what waits and give the result."""
        self._flush()
        self._waiting += self._sorted_out(self._stream.close())
        if self._prose_hits:
            self._waiting = sorted(self._waiting + self._prose_hits)
        self._judge(self._seen + 1, final=True)
        self._count_steps(self._seen)
        self._collect(self._seen)
        self._find_last_step()
        occurrences: list[Occurrence] = []
        for rule, first in self._first.items():
            occurrences += first
            if rule in self._late:
                like = self._last.get(rule, first[-1])
                occurrences.append(_revive(self._late[rule], like))
            elif rule in self._last:
                occurrences.append(self._last[rule])
        errors = [*self._errors.values()]
        errors += [_revive(late, self._errors[key]) for key, late in self._late_errors.items() if key in self._errors]
        occurrences.sort(key=lambda o: o.line)
        tail_start = max(self._window.base, self._seen - 4096)
        tail = [records.visible(raw)[:TEXT_MAX] for raw in self._window.slice(tail_start, self._seen).split(b"\n")]
        for line in reversed(tail):
            head = records.head_of(records.strip(line).text)
            if head and head.seconds is not None:
                self._times[1] = head.seconds
                break
        for raw in self._head[:16384].split(b"\n")[:60]:
            head = records.head_of(records.read_line(raw).text)
            if head is None:
                continue
            if head.pid is not None:
                self._pids.setdefault(head.pid)
            if head.seconds is not None and self._times[0] is None:
                self._times[0] = head.seconds
        return Scanned(
            self.name,
            self._seen,
            self._lines + (0 if self._ends_with_newline or not self._seen else 1),
            tuple(o for o in occurrences if not _PRINTED.match(o.text)),
            self._counts,
            tuple(e for e in errors if not _PRINTED.match(e.text)),
            self._error_count,
            self._steps,
            self._step_line,
            self._rank,
            tuple(self._pids)[:64],
            (self._times[0], self._times[1]),
            tuple(line for line in tail if line.strip())[-5:],
            self._head,
            problem,
            cancelled,
            self._collector.finish(self.name),
            tuple(self._memory),
            self._told(),
        )

    def _told(self) -> Told:
        """What the beginning and the end say of the run."""
        whole = self._seen <= len(self._head)
        end = self._head if whole else self._window.slice(max(self._window.base, self._seen - TOLD_REACH), self._seen)
        return told(self._head, end, whole=whole)._replace(again=self._opening.again)

    # ---------------------------------------------------------------- judging

    def _line_of(self, start: int) -> int:
        """1-based number of the line that begins at ``start`` (among the chunks at hand)."""
        at, count = self._counted_at, self._counted
        if not at <= start:
            at, count = self._starts[0]
        for offset, number in reversed(self._starts):
            if offset <= start:
                if offset > at or at < self._window.base:
                    at, count = offset, number
                break
        count += newlines(self._window.slice(at, start))
        self._counted_at, self._counted = start, count
        return count + 1

    def _judge(self, limit: int, *, final: bool = False) -> None:
        """Judge the waiting hits that end at or before ``limit``, line by line. A line that reaches over the limit
        waits for its rest, unless it is longer than a chunk."""
        window = self._window
        waiting = self._waiting
        line_stop = -1
        start = 0
        raw: bytes | None = None
        anchors: dict[int, int] = {}
        done = 0
        base, part = 0, b""  # the chunk that holds the hit
        for end, aid in waiting:
            if end > limit:
                break
            done += 1
            if end - 1 > line_stop:  # the newline itself belongs to its line
                if anchors:
                    self._line(start, line_stop, anchors, raw)
                    anchors = {}
                at = end - 1 - base
                if not 0 <= at < len(part):
                    base, part = window.part(end - 1)
                    at = end - 1 - base
                first, last = part.rfind(b"\n", 0, at) + 1, part.find(b"\n", at)
                if first > 0 and last >= 0:
                    start, line_stop, raw = base + first, base + last, part[first:last]
                else:  # the line goes over the border of a chunk
                    start, line_stop, raw = window.line_start(end - 1), window.line_end(end - 1), None
                if line_stop >= limit and not final and line_stop - start < self._behind:
                    done -= 1
                    break
            if aid not in anchors:
                anchors[aid] = end
        if anchors:
            self._line(start, line_stop, anchors, raw)
        del waiting[:done]
        if self._late_at:
            self._settle_late()
        self._count_steps(limit)

    # ------------------------------------------------------------------ steps

    def _steps_before(self, start: int) -> int:
        """The step counter at a failure. Whether a rank got over a failure is asked only when there is one, so the
        steps are counted from there on, and only as many as the answer takes."""
        self._count_steps(start)
        self._steps_at = max(self._steps_at, start)
        self._steps_wanted = self._steps + ENOUGH_STEPS
        if not self._trains:
            self._trains = self._steps > 0 or self._step_near(start)
        self._steps_until = start + (REACH_TRAINING if self._trains else REACH)
        return self._steps

    def _step_near(self, start: int) -> bool:
        """Whether a training line stands shortly before an offset."""
        window = self._window
        found = window.rfind(b"oss", max(window.base, start - MIN_CHUNK), start)
        if found < 0:
            return False
        return records.is_step(records.visible(window.slice(window.line_start(found), window.line_end(found))))

    def _late_hit(self, start: int, raw: bytes) -> _Late:
        """A hit that is only counted. The newest of a chunk stands for all of them when steps are counted: a run that
        fails on every other line would else be searched for steps after each."""
        self._late_at = start
        return _Late(self._line_of(start), -1, raw)

    def _settle_late(self) -> None:
        steps = self._steps_before(self._late_at)
        self._late_at = 0
        for rule in self._late_new:
            late = self._late.get(rule)
            if late is not None and late.steps < 0:
                self._late[rule] = late._replace(steps=steps)
        for key in self._late_errors_new:
            self._late_errors[key] = self._late_errors[key]._replace(steps=steps)
        self._late_new.clear()
        self._late_errors_new.clear()

    def _count_steps(self, upto: int) -> None:
        """Go on counting training lines up to an offset, while some failure waits for its answer."""
        window = self._window
        at = max(self._steps_at, window.base)
        if at > self._steps_until:
            self._steps_wanted = self._steps
        while self._steps < self._steps_wanted:
            found = self._step_behind(at)
            if not at < found <= upto:
                break
            start, stop = window.line_start(found - 1), window.line_end(found - 1)
            if stop > upto and stop - start < self._behind:
                # the rest of the line is still to come
                self._steps_at = start
                return
            if records.is_step(records.visible(window.slice(max(start, found - 2048), min(stop, found + 2048)))):
                self._steps += 1
            at = stop
        self._steps_at = max(self._steps_at, upto)

    def _step_behind(self, at: int) -> int:
        """The first hit of a training line behind an offset, 0 if none is known yet."""
        ends = [hits[n] for hits in self._step_hits[:2] if (n := bisect_right(hits, at)) < len(hits)]
        return min(ends, default=0)

    def _find_last_step(self) -> None:
        """Line and time of the last training step, if it stands near the end of the source."""
        window = self._window
        end = window.end
        for _ in range(64):
            found = window.rfind(b"oss", max(window.base, end - self._behind), end)
            if found < 0:
                return
            start = window.line_start(found)
            text = records.read_line(window.slice(start, window.line_end(found))).text
            if records.is_step(text):
                head = records.head_of(text)
                self._step_line = (self._line_of(start), head.seconds if head else None)
                return
            end = start

    def _line(self, start: int, stop: int, anchors: dict[int, int], raw: bytes | None) -> None:
        """Judge one line, given its bytes if they are at hand. The same message again (but for its time stamp) gives
        the same answer, which is remembered: a failing run repeats itself."""
        if raw is None:
            raw = self._window.slice(start, stop)
        if raw.startswith(_QUIET_HEADS):
            anchors = {a: e for a, e in anchors.items() if a in self.matcher.loud}
            if not anchors:
                return
        if len(raw) > records.MAX_LINE or b"\r" in raw.rstrip(b"\r"):
            for piece, own in _pieces(raw, start, anchors):
                self._piece(start, stop, piece, own)
        else:
            self._piece(start, stop, raw, anchors)

    def _piece(self, start: int, stop: int, raw: bytes, anchors: dict[int, int]) -> None:
        """Judge a line, or what stands around a hit on a line that is long or was overwritten by returns."""
        message = _message_key(raw)
        if message in self._memo:
            known = self._memo[message]
            if known is None:
                head = self._record_head(start, raw)
                known = self._memo.get((message, head.level if head else ""))
            if known is not None and self._again(known, start, raw):
                return
        judged = self._judge_line(start, stop, raw, anchors)
        if judged is not None and len(self._memo) < MEMO:
            if judged.context_level is None:
                self._memo[message] = judged
            else:
                self._memo[message] = None
                self._memo[message, judged.context_level] = judged

    def _again(self, known: _Judged, start: int, raw: bytes) -> bool:
        """Count a message that was judged before; False if some rule still wants to keep it in full."""
        if not self._full.issuperset(known.rules):
            return False
        if not known.rules and not known.error:
            return True
        late = self._late_hit(start, raw)
        for rule in known.rules:
            self._counts[rule] += 1
            self._late[rule] = late
            self._late_new.add(rule)
        if known.error:
            self._error_count += 1
            self._late_errors[known.error] = late
            self._late_errors_new.add(known.error)
        return True

    def _judge_line(self, start: int, stop: int, raw: bytes, anchors: dict[int, int]) -> _Judged | None:
        """Judge a line by its text; None if the answer depends on more than the line and its level."""
        matcher = self.matcher
        stripped = records.read_line(raw)
        text = stripped.text
        head = records.head_of(text)
        level = records.level_of(stripped, head)
        wanted: dict[int, list[int]] = {}
        specials: set[str] = set()
        for aid in anchors:
            for target in matcher.anchors.targets(aid):
                wanted.setdefault(target >> CLAUSE_BITS, []).append(target & CLAUSE_MASK)
            name = matcher.anchors.special.get(aid, "")
            if name:
                specials.add(name)
        if "meta" in specials and stripped.rank is None:
            self._meta(text)
        alone = "meta" not in specials
        if not wanted and not specials & {"error", "code"}:
            return _Judged((), b"", None) if alone else None
        context: str | None = None
        if head is None and not level:
            head = self._record_head(start, raw)
            level = context = head.level if head else ""
        line = _Line(start, stop, text, level, head, stripped)
        hits: list[str] = []
        units: dict[str, _Unit] = {}
        for position, numbers in wanted.items():
            rule = matcher.base.rule_at(position)
            log = rule.log
            assert log is not None
            if level and level not in log.level and not (level == "EVENT" and "INFO" in log.level):
                continue
            if self._counts.get(rule.id, 0) >= JUDGE_AT_MOST:
                hits.append(rule.id)
                self._late[rule.id] = self._late_hit(start, raw)
                self._late_new.add(rule.id)
                continue
            if (log.lines or log.seconds) and not self._any_on_line(log, numbers, text):
                continue
            if log.unit != "line" or log.lines or log.seconds:
                # a record or neighbourhood is dear to read; some hundreds of them tell enough
                self._units_read[rule.id] = self._units_read.get(rule.id, 0) + 1
                if self._units_read[rule.id] > READ_UNITS:
                    continue
                alone = False
            if (log.lines or log.seconds) and not self._all_near(log, line):
                continue
            unit = self._unit(log, line, units)
            found = self._confirm(log, numbers, text, unit)
            if found is None:
                continue
            args, at = found
            hits.append(rule.id)
            if unit is None:
                if len(self._first.get(rule.id, ())) < KEEP_FIRST:
                    self._keep(rule.id, line._replace(text=_shown(text, at)), args, log.after)
                else:
                    self._counts[rule.id] += 1
                    self._late[rule.id] = self._late_hit(start, raw)
                    self._late_new.add(rule.id)
                continue
            # the evidence is the line where the match begins, and a block is evidence once
            first, last, words = unit.line_at(at)
            if self._block_seen.get(rule.id) != first:
                self._block_seen[rule.id] = first
                here = line._replace(start=first, stop=last, text=words)
                if first != line.start:
                    # its rank is the one that the line itself names
                    own = records.read_line(self._window.slice(first, last))
                    here = here._replace(stripped=own, head=records.head_of(own.text) or line.head)
                self._keep(rule.id, here, args, log.after)
        quiet = level in ("INFO", "DEBUG", "EVENT")
        if "code" in specials and not quiet:
            hits += self._code(line)
        error = b""
        if "error" in specials and not quiet and not any(not h.startswith("CODE:") for h in hits):
            error = self._error(line)
        return _Judged(tuple(hits), error, context) if alone else None

    def _any_on_line(self, log: LogSpec, numbers: list[int], text: str) -> bool:
        """Whether an alternative matches on the line itself, before its neighbourhood is read for the rest."""
        clause = self.matcher.patterns.clause
        return not log.any or any(clause(log.any[n], text) is not None for n in numbers)

    def _all_near(self, log: LogSpec, line: _Line) -> bool:
        """Whether the texts that a rule wants around a line stand there at all, before the neighbourhood is read line
        by line, which takes fifty times as long."""
        window = self._window
        region = window.slice(max(window.base, line.start - BLOCK_BYTES), line.stop + 1 + BLOCK_BYTES)
        if b"\x1b" in region:
            return True  # a code of the terminal may cut a text in two
        texts = [c.literal for c in log.every if c.literal is not None and c.literal.isascii()]
        return all(text.encode() in region for text in texts)

    def _unit(self, log: LogSpec, line: _Line, units: dict[str, _Unit]) -> _Unit | None:
        """What a rule reads besides the line itself; None for a rule that reads lines."""
        if log.lines or log.seconds:
            return self._span(line.start, line.stop, log.lines or BLOCK_LINES, log.seconds, line.head)
        if log.unit == "line":
            return None
        if log.unit not in units:
            units[log.unit] = self._block(line.start, line.stop, whole=log.unit == "block")
        return units[log.unit]

    def _confirm(
        self, log: LogSpec, numbers: list[int], line: str, unit: _Unit | None
    ) -> tuple[dict[str, str], int] | None:
        """(captures, where the match begins in the unit) if the rule holds at this line, else None. Of the
        alternatives only those are tried whose anchors are on the line: the others cannot match here."""
        patterns = self.matcher.patterns
        text = unit.text if unit else line
        near = unit.near if unit else 0
        best: tuple[dict[str, str], int] | None = None
        for number in sorted(set(numbers)) if log.any else ():
            found = patterns.clause(log.any[number], text, near)
            if found is not None:
                best = best or found
                if not log.calc or holds(log.calc, found[0]):
                    best = found
                    break
        if log.any and best is None:
            return None
        args, at = best or ({}, -1)
        for clause in log.every:
            found = patterns.clause(clause, text, 0)
            if found is None:
                return None
            args = {**found[0], **args}
            at = found[1] if at < 0 else at
        for clause in log.never:
            if patterns.clause(clause, text) is not None:
                return None
        if log.calc and not holds(log.calc, args):
            return None
        for name, source in log.derive:
            args = {**args, name: derived(source, args)}
        return args, at

    # --------------------------------------------------------------- keeping

    def _occurrence(self, rule: str, line: _Line, args: dict[str, str], after: int) -> Occurrence:
        """An occurrence with its neighbours; ``after`` < 0: without."""
        window = self._window
        before: list[str] = []
        at = line.start
        for _ in range(CONTEXT if after >= 0 else 0):
            if at - 1 < window.base:
                break
            previous = window.line_start(at - 1)
            before.insert(0, records.visible(window.slice(previous, at - 1))[:TEXT_MAX])
            at = previous
        behind: list[str] = []
        at = line.stop
        for _ in range(max(after, CONTEXT) if after >= 0 else 0):
            if at + 1 >= window.end:
                break
            following = window.line_end(at + 1)
            behind.append(records.visible(window.slice(at + 1, following))[:TEXT_MAX])
            at = following
        head = line.head
        if head and head.pid is not None:
            self._pids[head.pid] = None
        steps = self._steps_before(line.start)
        made = _occurrence(rule, self._line_of(line.start), steps, line, args, tuple(before), tuple(behind))
        if made.seconds is None and after >= 0:
            return made._replace(about=self._time_near(line))
        return made

    def _time_near(self, line: _Line) -> float | None:
        """The time of the record that follows a line, else of the one before it: what ends a process is printed when
        it ends, which may be long after the record before it. Training lines without a time tell that it was."""
        window = self._window
        at = line.stop + 1
        for raw in window.slice(at, min(window.end, at + NEAR_BYTES)).split(b"\n")[:NEAR_LINES]:
            seconds = _seconds_in(records.read_line(raw).text)
            if seconds is not None:
                return seconds
        for n, (_, text) in enumerate(self._lines_back(line.start)):
            seconds = _seconds_in(text)
            if seconds is not None or n >= NEAR_LINES or records.is_step(text):
                return seconds
        return None

    def _keep(self, rule: str, line: _Line, args: dict[str, str], after: int) -> None:
        self._counts[rule] = self._counts.get(rule, 0) + 1
        first = self._first.setdefault(rule, [])
        if len(first) < KEEP_FIRST:
            first.append(self._occurrence(rule, line, args, after))
            if len(first) == KEEP_FIRST:
                self._full.add(rule)
        else:
            self._last[rule] = self._occurrence(rule, line, args, -1)
            self._late.pop(rule, None)

    def _error(self, line: _Line) -> bytes:
        """Keep the first and the newest line of each class of unexplained error; lines of one class differ in
        digits only. Returns the class."""
        self._error_count += 1
        key = line.text.encode("utf-8", "replace").translate(None, b"0123456789")[:160]
        if key in self._errors:
            raw = self._window.slice(line.start, min(line.stop, line.start + records.MAX_LINE))
            self._late_errors[key] = self._late_hit(line.start, raw)
            self._late_errors_new.add(key)
        elif len(self._errors) < ERRORS_KEPT:
            self._errors[key] = self._occurrence("", line, {}, CONTEXT)
        else:
            # room for the newest classes: a failure stands at the end
            self._errors.pop(next(iter(list(self._errors)[ERRORS_KEPT // 2 :])))
            self._errors[key] = self._occurrence("", line, {}, CONTEXT)
        return key

    def _code(self, line: _Line) -> list[str]:
        base = self.matcher.base
        names: list[str] = []
        if _QUOTING.match(line.text):
            return names
        for found in _CODE.finditer(line.text):
            code = found[1] or found[2] or found[3]
            known = next((c for c in _spellings(code) if c in base.code_spans), None) or base.code_names.get(code)
            if known is not None:
                name = f"CODE:{known}"
                if name not in names:
                    names.append(name)
                    self._keep(name, line, {"code": code}, CONTEXT)
        return names

    def _meta(self, text: str) -> None:
        found = None if _OF_OTHERS.search(text) else _RANK_ID.search(text)
        if found and not self._rank_sure:
            self._rank = int(found[1])
            self._rank_sure = found[0].startswith("Global")

    # ---------------------------------------------------------------- blocks

    def _lines_back(self, start: int) -> Iterator[tuple[int, str]]:
        """(offset, stripped text) of the lines before ``start``, nearest first, bounded."""
        window = self._window
        floor = max(window.base, start - BLOCK_BYTES)
        if start - 1 < floor:
            return
        at = start
        # the nearest lines are nearly always enough: take a little, then the rest
        for low in (max(floor, start - 2048), floor):
            region = window.slice(low, at - 1).split(b"\n")
            if low > window.base and (low == floor or len(region) > 1):
                region.pop(0)  # its beginning may be cut off
            for raw in reversed(region):
                at -= len(raw) + 1
                yield at, records.read_line(raw).text
            if low == floor or at - 1 < floor:
                return

    def _record_head(self, start: int, raw: bytes) -> records.Head | None:
        """The head of the record that the line at ``start`` continues."""
        window = self._window
        found: records.Head | None = None
        if start - 1 < window.base:
            return None
        previous = window.line_start(start - 1)
        quiet = window.slice(previous, min(start - 1, previous + 8)).startswith(_QUIET_HEADS)
        if not quiet and _ENDS.search(raw, 0, HEAD_BYTES):
            own = records.read_line(raw[:HEAD_BYTES]).text
            # what ends a run is printed behind whatever warning came last, and is no part of it
            quiet = records.is_traceback(own) or records.is_exception(own)
        if not quiet:
            for n, (offset, text) in enumerate(self._lines_back(start)):
                if offset == self._headless[0]:
                    # a run of lines without heads: what was found for the one before holds here too
                    found = self._headless[1]
                    break
                if n >= 60 or records.is_traceback(text) or records.cann_head(text):
                    break
                head = records.head_of(text)
                if head:
                    # an INFO record of a logger does not own the bare error text that follows it
                    found = head if head.level not in ("INFO", "DEBUG", "EVENT", "") else None
                    break
        self._headless = (start, found)
        return found

    def _span(self, start: int, stop: int, lines: int, seconds: int, head: records.Head | None) -> _Unit:
        """Up to ``lines`` lines around a line, whatever records they belong to; with ``seconds`` only lines whose
        record is that near in time (lines without a time go with their neighbours)."""
        window = self._window
        around: list[tuple[int, int, str]] = []
        for n, (offset, text) in enumerate(self._lines_back(start)):
            if n >= lines or _far(text, head, seconds):
                break
            around.append((offset, window.line_end(offset), text))
        around.reverse()
        here = len(around)
        around.append((start, stop, records.read_line(window.slice(start, stop)).text))
        at = stop + 1
        for raw in window.slice(at, min(window.end, at + BLOCK_BYTES)).split(b"\n")[:lines]:
            text = records.read_line(raw).text
            if _far(text, head, seconds):
                break
            around.append((at, at + len(raw), text))
            at += len(raw) + 1
        spans, used = [], 0
        for offset, line_end, text in around:
            spans.append((used, offset, line_end))
            used += len(text) + 1
        return _Unit("\n".join(t for _, _, t in around), spans[here][0], tuple(spans))

    def _block(self, start: int, stop: int, *, whole: bool) -> _Unit:
        """The record around a line; ``whole``: also the tracebacks and CANN blocks chained to it."""
        window = self._window
        near_by = self._blocks.get(whole)
        if near_by is not None:
            # lines without heads follow each other in one block: read it once
            n = bisect_right(near_by.lines, start, key=lambda span: span[1]) - 1
            if n >= 0 and near_by.lines[n][1] == start:
                return near_by._replace(near=near_by.lines[n][0])
        first = start
        text = records.read_line(window.slice(start, stop)).text
        if not records.head_of(text) and (whole or not records.is_traceback(text)):
            for offset, line in self._lines_back(start):
                if records.head_of(line):
                    first = offset
                    break
                if not whole and (records.is_traceback(line) or records.cann_head(line)):
                    first = offset
                    break
                first = offset
        texts: list[str] = []
        spans: list[tuple[int, int, int]] = []
        at, used, near = first, 0, 0
        while at < window.end and len(texts) < 2 * BLOCK_LINES and at - first < 2 * BLOCK_BYTES:
            line_end = window.line_end(at)
            line = records.read_line(window.slice(at, line_end)).text
            if at > start and (records.head_of(line) or (not whole and records.is_traceback(line))):
                break
            if at <= start:
                near = used
            texts.append(line)
            spans.append((used, at, line_end))
            used += len(line) + 1
            at = line_end + 1
        unit = self._blocks[whole] = _Unit("\n".join(texts), near, tuple(spans) or ((0, start, stop),))
        return unit


def _split(hits: list[int], limit: int) -> list[int]:
    """The hits up to an offset, which are taken out of the list."""
    count = bisect_right(hits, limit)
    found = hits[:count]
    del hits[:count]
    return found


def _seconds_in(text: str) -> float | None:
    """The time that a record's head or a CANN header gives."""
    head = records.head_of(text)
    return head.seconds if head is not None and head.seconds is not None else records.cann_seconds(text)


def _far(text: str, head: records.Head | None, seconds: int) -> bool:
    """Whether a line's own time is further than ``seconds`` from that of a record."""
    if not seconds or head is None or head.seconds is None:
        return False
    own = records.head_of(text)
    return own is not None and own.seconds is not None and abs(own.seconds - head.seconds) > seconds


def _pieces(raw: bytes, start: int, anchors: dict[int, int]) -> Iterator[tuple[bytes, dict[int, int]]]:
    """(what to look at, its anchors) of a line that is too long to be looked at as a whole, or that a progress bar
    wrote over and over: the stretch between two returns, and of that at most some KiB around the hits."""
    reach = records.MAX_LINE // 2
    own: dict[int, int] = {}
    low = high = -1
    for aid, end in sorted(anchors.items(), key=lambda item: item[1]):
        at = max(0, end - start - 1)
        left = raw.rfind(b"\r", 0, at) + 1
        right = raw.find(b"\r", at)
        right = len(raw) if right < 0 else right
        left, right = max(left, at - reach), min(right, at + reach)
        if own and (left >= high or right - low > records.MAX_LINE):
            yield records.whole_characters(raw[low:high], front=low > 0), own
            own, low = {}, -1
        low = left if low < 0 else min(low, left)
        high = max(high, right) if own else right
        own[aid] = end
    if own:
        yield records.whole_characters(raw[low:high], front=low > 0), own


def _spellings(code: str) -> tuple[str, ...]:
    """How a printed code may stand in the catalogue: 0x07020009 as 0x7020009, events in upper case."""
    if not code.lower().startswith("0x"):
        return (code,)
    digits = code[2:].lstrip("0") or "0"
    return (code, code.lower(), "0x" + digits.lower(), "0x" + digits.upper())


def scan_stream(
    matcher: Matcher,
    name: str,
    stream: BinaryIO,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int], None] | None = None,
    exact: bool = True,
) -> Scanned:
    """Scan a whole stream. A broken stream keeps what was found and names the problem; ``cancelled`` is asked at
    every chunk and ends the scan with what was found so far."""
    scanner = Scanner(matcher, name, exact=exact)
    problem: tuple[str, str] | None = None
    try:
        for chunk in plain_chunks(stream):
            scanner.feed(chunk)
            if progress:
                progress(len(chunk))
            if cancelled():
                return scanner.finish(cancelled=True)
    except OSError as error:
        problem = ("unreadable", error.strerror or str(error))
    except Exception as error:
        code = getattr(error, "code", "")
        if not code:
            raise
        problem = (str(code), str(getattr(error, "detail", error)))
    return scanner.finish(problem)


def explained(matcher: Matcher, scan: Scanned) -> bool:
    """Whether some rule found an error in a scan."""
    base = matcher.base
    return any(base[o.rule].severity == "error" for o in scan.occurrences if o.rule in base)


def scan_text(matcher: Matcher, text: str, name: str = "<text>") -> Scanned:
    """Scan a text at hand; for rule examples and pastes."""
    scanner = Scanner(matcher, name)
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= CHUNK:
        scanner.feed_whole(data)
    else:
        for at in range(0, len(data), CHUNK):
            scanner.feed(data[at : at + CHUNK])
    return scanner.finish()
