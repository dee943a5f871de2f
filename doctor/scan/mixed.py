"""One text that holds the lines of many ranks → the lines of each rank, with the numbers they have in the whole.

Launchers, schedulers and containers put the rank before each line (``[rank3]:``, ``3: ``, ``[1,3]<stdout>:``,
``[pod/job-worker-3/main]``), loggers into it (``(worker rank=3)``, ``RankID:3``), and people paste logs one behind the
other under their names (``==> worker_3.log <==``). Each rank's lines are then scanned like a file of its own, so that
steps, blocks and silence are those of the rank. What no rank can be told of stays with the text itself.
"""

import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from doctor.scan import records
from doctor.scan.lazy import lazy, lazy_bytes
from doctor.scan.scanner import Matcher, Scanned, Scanner, explained
from doctor.scan.series import Track

if TYPE_CHECKING:
    Ints = array[int]
else:
    Ints = array

SAMPLE = 96
"""Lines that tell whether ranks stand before them: half of them from the beginning, the others from all over."""
MOST = 1024
"""Ranks of one text; lines of further ones stay with the text."""
MANY = 16
"""Ranks among the lines that are looked at, at least, of a run that is so large that most of its ranks are not."""
NUMBERS = 1 << 16
"""Line numbers that are packed together."""
ROWS = 1 << 14
"""Rows kept of the training lines of one of many ranks in one text."""
SHARE = 64 << 10
"""Bytes of its lines that are at hand of each of many ranks, where one text alone has a chunk."""

WORDS = 256 << 10
"""Bytes of what no rank said in which people's words are looked for."""

_TIME = rb"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,12})?(?:Z|[+-]\d\d:?\d\d) (?:(?:stdout|stderr) [FP] )?)?"
_RANK = (b"rank", b"Rank", b"RANK")
_PODS = (b"worker", b"master", b"rank", b"node", b"trainer", b"npu")
_WORDS = (
    *_RANK, b"default", b"worker", b"Worker", b"trainer", b"process", b"proc", b"task", b"npu", b"NPU", b"card",
    b"device",
)  # fmt: skip
_WORD = rb"(?:(?:global|local)[ _])?(?:" + b"|".join(_WORDS) + rb")"


class _Style(NamedTuple):
    """A way to write the rank before a line. ``bare``: only a number, which may be something else; ``marked``: it
    begins so that it is known within a line too; ``inside``: it stands in the line's own head and is left there.
    ``needs``: texts of which such lines hold one; most logs hold none, and need no expression compiled."""

    name: str
    pattern: re.Pattern[bytes]
    bare: bool = False
    marked: bool = False
    inside: bool = False
    needs: tuple[bytes, ...] = (b"",)


def _style(
    name: str, body: bytes, needs: Sequence[bytes] = (b"",), *, bare: bool = False, marked: bool = False
) -> _Style:
    return _Style(name, lazy_bytes(_TIME + b"(?P<p>" + body + b")"), bare, marked, needs=tuple(needs))


_made: list[_Style] = []


def _styles() -> list[_Style]:
    """All ways, made when the first text is looked at."""
    if not _made:
        _made.extend(
            (
                _style("tag", rb"\[" + _WORD + rb"[ _:=]?(?P<r>\d{1,6})\](?::[ \t]?|[ \t]|(?=\[))",
                       [b"[" + word for word in (*_WORDS, b"global", b"local")], marked=True),
                _style("mpi", rb"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
                       rb"\[(?:[\w.-]{1,60}@)?\d{1,6},(?P<r>\d{1,6})\]<std(?:out|err|diag)>:?[ \t]?",
                       (b"]<std",), marked=True),
                _style("paren", rb"\((?:[A-Za-z_]\w{0,40}[ ,]{1,2})?(?:rank|Rank|RANK)[ =:_]{0,2}(?P<r>\d{1,6})"
                       rb"(?:[, ][^)\n]{0,80})?\):?[ \t]?", _RANK, marked=True),
                _style("pod", rb"\[pod/(?P<s>[a-z][a-z0-9.-]{0,80}?)-(?P<r>\d{1,5})(?:/[\w.-]{1,60})?\][: ][ \t]?",
                       (b"[pod/",), marked=True),
                _style("pod", rb"(?P<s>[a-z][a-z0-9-]{0,80}(?:" + b"|".join(_PODS) + rb")[a-z0-9-]{0,20}?)-"
                       rb"(?P<r>\d{1,5})(?:[ \t]{0,20}\|[ \t]?|: | [\w.-]{1,60} (?:(?:\xe2\x80\xba|>|\|) )?)", _PODS),
                _style("pod", rb"(?P<s>" + b"|".join(_PODS) + rb")[-_](?P<r>\d{1,5})"
                       rb"(?:[ \t]{0,20}\|[ \t]?|: )", _PODS),
                _style("file", rb"(?P<f>[^\s:\[\]()]{1,300}\.(?:log|txt|out|err)(?:\.\d{1,6})?)"
                       rb"(?::\d{1,12}:|-\d{1,12}-|:)[ \t]?", (b".log", b".txt", b".out", b".err")),
                _style("word", _WORD + rb"[ _=:#-]{0,2}(?P<r>\d{1,6})[ \t]?(?:[:|>]|- )[ \t]?", _WORDS),
                _style("number", rb"[ ]{0,6}(?P<r>\d{1,6}):(?: |(?=\[)|$)", bare=True),
                _style("number", rb"\[(?P<r>\d{1,6})\]:?(?: |$)", bare=True),
                _Style("inside", lazy_bytes(
                    rb"\[?\d{4}-\d\d-\d\d[^\n]{8,100}?[\[(](?:[A-Za-z_]{1,20} )?(?:rank|Rank|RANK)[ =:_]?"
                    rb"(?P<r>\d{1,6})[\])]"), inside=True, needs=_RANK),
                _Style("inside", lazy_bytes(
                    rb"\[[A-Z]{1,8}\] ?\d{4}-[^\n]{15,60}RankID:(?P<r>\d{1,6})\)"), inside=True, needs=(b"RankID:",)),
            )
        )  # fmt: skip
    return _made


_INNER = lazy_bytes(rb"\[(?:rank|Rank|RANK|default)[ _]?(\d{1,6})\]:[ \t]?")
_OF_NAME = lazy_bytes(rb"(?i)(?:rank|worker)[ _-]?(\d{1,6})(?=[/_.\s:=#*<-]|$)")
_OF_A_HOST = lazy(r"[\w.]-worker-\d{1,6}\.log$")
"""The name of the log of a pod; one of several processes if ranks stand before its lines"""
_HEADING = lazy_bytes(
    rb"(?m)^(?:==> (?P<f>[^\n]{1,300}) <=="
    rb"|[ \t]{0,4}(?:[=\-#*>]{2,40}|#{1,6})[ \t]{0,4}(?P<d>[^\n=#*]{1,160}?)[ \t]{0,4}[=\-#*<:]{0,40}"
    rb"|(?P<w>(?:[Gg]lobal )?(?:[Rr]ank|RANK|[Ww]orker)[ _]?\d{1,6}(?:\.log)?[ \t]?:?))[ \t]{0,4}\r?$"
)
_CONTINUES = (b" ", b"\t", b"Traceback (")


class Way(NamedTuple):
    """How a text tells the ranks of its lines. ``goes_on``: whether a line without a rank continues the one before, as
    where loggers write the rank once a record; ``shift``: pod → what its number is short of the rank; ``within``: the
    same mark within a line, where two ranks wrote at once."""

    style: _Style | None
    goes_on: bool = True
    shift: dict[bytes, int] = {}  # noqa: RUF012 - never changed
    within: re.Pattern[bytes] | None = None

    def owner(self, line: bytes) -> tuple[int, bytes] | None:
        """(rank, the line without its mark), None if the line names no rank."""
        style = self.style
        found = style.pattern.match(line) if style else None
        if style is None or found is None:
            return None
        rank = _number(found, self.shift)
        if rank is None or style.inside:
            return None if rank is None else (rank, line)
        # the time that a container puts before the mark is no part of what the rank wrote
        rest = line[found.end() :]
        inner = _INNER.match(rest)
        if inner:
            rank, rest = int(inner[1]), rest[inner.end() :]
        return rank, rest


def _number(found: re.Match[bytes], shift: dict[bytes, int]) -> int | None:
    groups = found.groupdict()
    if groups.get("f") is not None:
        return records.rank_in_name(groups["f"].decode("utf-8", "replace"))
    stem = groups.get("s")
    if stem is not None and stem.endswith((b"scheduler", b"launcher")):
        return None
    return int(groups["r"]) + (shift.get(stem, 0) if stem is not None else 0)


def way_of(name: str, data: bytes) -> Way | None:
    """How a text, or the beginning of one, tells the ranks of its lines; None if it holds those of one at most."""
    named = records.rank_in_name(name) is not None
    if "plog-" in name or (named and not _OF_A_HOST.search(name)):
        return None
    lines = _sampled(data)
    best: tuple[int, _Style, list[re.Match[bytes]]] | None = None
    sample = b"\n".join(lines)
    for style in _styles()[:1] if named else _styles():
        if not any(word in sample for word in style.needs):
            continue
        hits = [found for line in lines if (found := style.pattern.match(line))]
        if len(hits) > (best[0] if best else 1) and _are_ranks(style, hits):
            best = (len(hits), style, hits)
    if best and best[0] * (2 if best[1].bare or named else 4) >= len(lines) and not _trains(best[1], lines):
        return _way(best[1], best[2], lines)
    if named:
        return None
    headings = _headings(data) if len(data) <= 1 << 20 else 0
    return Way(None) if headings > 1 else None


def _sampled(data: bytes) -> list[bytes]:
    """Some lines of a text that are not empty, first and spread ones."""
    first: list[bytes] = []
    at = 0
    while len(first) < SAMPLE // 2 and at < len(data):
        stop = data.find(b"\n", at)
        stop = len(data) if stop < 0 else stop
        if stop > at + 1:
            first.append(data[at : min(stop, at + 512)])
        at = stop + 1
    rest = len(data) - at
    for n in range(SAMPLE // 2 if rest > 1 << 12 else 0):
        start = data.find(b"\n", at + rest * n // (SAMPLE // 2)) + 1
        stop = data.find(b"\n", start) if start else -1
        if stop > start + 1:
            first.append(data[start : min(stop, start + 512)])
    if 0 < rest <= 1 << 12:
        first += [line[:512] for line in data[at:].split(b"\n") if line.strip()]
    return first


def _are_ranks(style: _Style, hits: Sequence[re.Match[bytes]]) -> bool:
    """Whether the numbers before some lines are those of two ranks or more; a bare number that only grows numbers
    lines, and one that is large is a process."""
    ranks = [rank for found in hits if (rank := _number(found, {})) is not None]
    kinds = set(ranks)
    stems = {found["s"] for found in hits} if style.name == "pod" else set()
    if len(kinds) < 2 and len(stems) < 2:
        return False
    if not style.bare:
        return True
    if ranks == sorted(kinds) or (len(kinds) == len(ranks) and not (len(kinds) >= MANY and _are_records(hits))):
        return False
    return max(kinds) < 4 * len(kinds) + 16 or (len(kinds) >= MANY and max(kinds) < MOST and _are_records(hits))


def _are_records(hits: Sequence[re.Match[bytes]]) -> bool:
    """Whether many lines behind their numbers begin as records do, or are training lines."""
    behind = [records.visible(found.string[found.end() :]) for found in hits]
    return sum(1 for text in behind if records.head_of(text) or records.is_step(text)) * 4 > len(behind)


def _trains(style: _Style, lines: Sequence[bytes]) -> bool:
    """Whether most training lines name no rank: then it is one program's log, with words of others in it."""
    steps = [line for line in lines if b"oss" in line and records.is_step(records.visible(line))]
    return sum(1 for line in steps if style.pattern.match(line)) * 2 < len(steps)


def _way(style: _Style, hits: Sequence[re.Match[bytes]], lines: Sequence[bytes]) -> Way:
    stems = {found["s"] for found in hits} if style.name == "pod" else set()
    masters = any(b"master" in stem for stem in stems)
    # of a job with a master that one is rank 0, and the workers follow it
    shift = {stem: 1 for stem in stems if masters and b"master" not in stem}
    bodies = [line[found.end() :] for line in lines if (found := style.pattern.match(line))]
    goes_on = style.inside or not any(body.startswith(_CONTINUES) for body in bodies)
    within = None
    if style.marked:
        marks = {re.sub(rb"\d+", rb"\\d+", re.escape(found["p"].rstrip())) for found in hits}
        marks.discard(b"")
        within = re.compile(b"|".join(sorted(marks, key=len, reverse=True)[:16]))
    return Way(style, goes_on and not style.bare, shift, within)


def _headings(data: bytes) -> int:
    """The number of ranks whose logs stand under their names, one behind the other."""
    ranks: set[int] = set()
    for found in _HEADING.finditer(data):
        rank, known = _heading_rank(found)
        if known and rank is not None:
            behind = data[found.end() : found.end() + 2048].split(b"\n")[1:6]
            texts = [records.read_line(line).text for line in behind]
            if any(records.head_of(t) or records.is_step(t) or records.is_traceback(t) for t in texts):
                ranks.add(rank)
    return len(ranks)


def _heading_rank(found: re.Match[bytes]) -> tuple[int | None, bool]:
    """(rank, whether it is a heading)"""
    if found["f"] is not None:
        return records.rank_in_name(found["f"].decode("utf-8", "replace")), True
    named = _OF_NAME.search(found["d"] or found["w"] or b"")
    return (int(named[1]), True) if named else (None, False)


# ------------------------------------------------------------------ splitting


class Numbers:
    """The numbers in the whole text of the lines of one rank, packed: a large text has many."""

    def __init__(self) -> None:
        self._packed: list[bytes] = []
        self._now: Ints = array("Q")
        self._open: tuple[int, Ints] = (-1, array("Q"))

    def add(self, number: int) -> None:
        self._now.append(number)
        if len(self._now) >= NUMBERS:
            apart = array("Q", [self._now[0], *map(sub, self._now[1:], self._now)])
            self._packed.append(zlib.compress(apart.tobytes(), 1))
            self._now = array("Q")

    def of(self, line: int) -> int:
        """The number in the whole of a 1-based line of the rank; of one behind the last, that of the last."""
        if line < 1:
            return line
        block, n = divmod(line - 1, NUMBERS)
        if block >= len(self._packed):
            return self._now[min(n, len(self._now) - 1)] if self._now else (self.of(line - 1) if line > 1 else line)
        if self._open[0] != block:
            apart: Ints = array("Q")
            apart.frombytes(zlib.decompress(self._packed[block]))
            self._open = (block, array("Q", accumulate(apart)))
        return self._open[1][n]


class Splitter:
    """Takes the chunks of a text and gives each rank its lines."""

    def __init__(self, way: Way, sink: Callable[[int | None, bytes], None]) -> None:
        """``sink`` is given the rank, None for lines of none, and whole lines."""
        self.way, self.sink = way, sink
        self.numbers: dict[int | None, Numbers] = {None: Numbers()}
        self.lines = 0
        self._carry = b""
        self._owner: int | None = None
        self._last: dict[int | None, bytes] = {}
        self._goes_on = way.goes_on

    def feed(self, chunk: bytes) -> None:
        data = self._carry + chunk if self._carry else chunk
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) < 1 << 20:
            self._carry = data
            return
        self._carry = data[cut:] if cut else b""
        self._take(data[:cut] if cut else data)

    def finish(self) -> None:
        if self._carry:
            self._take(self._carry)
            self._carry = b""

    def _take(self, data: bytes) -> None:
        out: dict[int | None, list[bytes]] = {}
        lines = data.split(b"\n")
        if lines[-1] == b"":
            lines.pop()
        for line in lines:
            self.lines += 1
            for rank, text in self._owned(line):
                if rank not in self.numbers:
                    if len(self.numbers) > MOST:
                        rank = None
                    else:
                        self.numbers[rank] = Numbers()
                if rank is not None and self._repeated(rank, text):
                    continue
                self.numbers[rank].add(self.lines)
                out.setdefault(rank, []).append(text)
        for rank, own in out.items():
            self.sink(rank, b"\n".join(own) + b"\n")

    def _repeated(self, rank: int, text: bytes) -> bool:
        """Whether a record was written twice, as collectors do that connect again: its time is the same too."""
        if self._last.get(rank) == text and text[:1].strip():
            head = records.head_of(records.visible(text))
            return head is not None and head.seconds is not None
        self._last[rank] = text
        return False

    def _owned(self, line: bytes) -> Iterator[tuple[int | None, bytes]]:
        way = self.way
        if way.style is None:
            found = _HEADING.match(line)
            rank, heading = _heading_rank(found) if found else (None, False)
            if heading:
                self._owner = rank
            yield (None if heading else self._owner), line
            return
        pieces = [line]
        if way.within is not None:
            marks = [found.start() for found in way.within.finditer(line) if found.start()]
            if marks:
                pieces = [line[a:b] for a, b in zip((0, *marks), (*marks, len(line)), strict=True)]
        before = b""
        for piece in pieces:
            piece, before = before + piece, b""
            owned = way.owner(piece)
            if owned is not None:
                if not owned[1].strip() and len(pieces) > 1 and piece is not pieces[-1]:
                    continue  # a mark of which the text came with the next one
                if self._goes_on and not way.style.inside and owned[1].startswith(_CONTINUES):
                    self._goes_on = False
                self._owner = owned[0]
                yield owned
            elif self._goes_on and self._owner is not None and not records.head_of(records.visible(piece)):
                yield self._owner, piece
            else:
                yield None, piece


# ------------------------------------------------------------------ scanning


def split(way: Way, data: bytes) -> tuple[dict[int | None, bytes], dict[int | None, Numbers], int]:
    """(text of each rank and of none, the numbers of their lines, the number of lines) of a text at hand."""
    parts: dict[int | None, list[bytes]] = {None: []}
    splitter = Splitter(way, lambda rank, text: parts.setdefault(rank, []).append(text))
    splitter.feed(data)
    splitter.finish()
    return {rank: b"".join(own) for rank, own in parts.items()}, splitter.numbers, splitter.lines


class Lanes:
    """Scans a large text, each rank by a scanner of its own."""

    def __init__(self, matcher: Matcher, name: str, way: Way) -> None:
        self.matcher, self.name = matcher, name
        self.size = 0
        self._scanners: dict[int | None, Scanner] = {}
        self._splitter = Splitter(way, self._sink)
        self._rest: bytes | None = b""  # what no rank said, while it is short
        self._sink(None, b"")

    def _sink(self, rank: int | None, text: bytes) -> None:
        if rank is None and self._rest is not None:
            self._rest = self._rest + text if len(self._rest) + len(text) <= WORDS else None
        scanner = self._scanners.get(rank)
        if scanner is None:
            rows = min(ROWS, self.matcher.rows)
            scanner = self._scanners[rank] = Scanner(self.matcher, self.name, rows=rows, texts=SHARE, behind=SHARE)
        if text:
            scanner.feed(text)

    def feed(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self._splitter.feed(chunk)

    def finish(
        self, problem: tuple[str, str] | None = None, cancelled: bool = False
    ) -> tuple[Scanned, tuple[Scanned, ...]]:
        self._splitter.finish()
        found = {rank: scanner.finish(None, cancelled) for rank, scanner in self._scanners.items()}
        if self._rest and not explained(self.matcher, found[None]):
            # a launcher has words of its own, which are looked for as in a small file
            words = Scanner(self.matcher, self.name)
            words.feed_whole(self._rest)
            found[None] = words.finish(None, cancelled)
        return told_apart(found, self._splitter.numbers, self.size, self._splitter.lines, problem)


def told_apart(
    found: dict[int | None, Scanned], numbers: dict[int | None, Numbers], size: int, lines: int,
    problem: tuple[str, str] | None,
) -> tuple[Scanned, tuple[Scanned, ...]]:  # fmt: skip
    """(the scan of the text itself: what no rank said, of the size of all; the scans of the ranks), with the line
    numbers of the whole."""
    ranks = tuple(
        _numbered(scan, numbers[rank])._replace(rank=rank, split="rank")
        for rank, scan in sorted((rank, scan) for rank, scan in found.items() if rank is not None)
    )
    rest = _numbered(found[None], numbers[None])
    starts = [s.seconds[0] for s in (rest, *ranks) if s.seconds[0] is not None]
    ends = [s.seconds[1] for s in (rest, *ranks) if s.seconds[1] is not None]
    head = rest.head + b"".join(scan.head[: (1 << 16) // len(ranks)] for scan in ranks)
    rest = rest._replace(
        size=size, lines=lines, head=head[: 1 << 17], problem=problem, rank=None, split="rest",
        seconds=(min(starts, default=None), max(ends, default=None)),
    )  # fmt: skip
    return rest, ranks


def _numbered(scan: Scanned, numbers: Numbers) -> Scanned:
    """A scan of the lines of one rank, with the numbers that they have in the whole."""
    of = numbers.of
    tracks = tuple(
        Track(t.source, t.rank, t.kind, t.made, t.columns, array("q", map(of, t.lines)), array("q"), t.units, t.total,
              t.every, t.unread, t.texts, t.number)
        for t in scan.tracks
    )  # fmt: skip
    return scan._replace(
        lines=of(scan.lines) if scan.lines else 0,
        occurrences=tuple(o._replace(line=of(o.line)) for o in scan.occurrences),
        errors=tuple(o._replace(line=of(o.line)) for o in scan.errors),
        last_step=(of(scan.last_step[0]), scan.last_step[1]),
        tracks=tracks,
        memory=tuple((of(number), text) for number, text in scan.memory),
        told=scan.told._replace(again=(of(scan.told.again[0]), scan.told.again[1])),
    )


def scan_chunks(
    matcher: Matcher, name: str, way: Way, chunks: Iterable[bytes], stop: Callable[[], bool],
    progress: Callable[[int], None] | None,
) -> tuple[Scanned, tuple[Scanned, ...]]:  # fmt: skip
    """Scan a large text of several ranks. What breaks keeps what was read before it."""
    lanes = Lanes(matcher, name, way)
    problem: tuple[str, str] | None = None
    try:
        for chunk in chunks:
            lanes.feed(chunk)
            if progress:
                progress(len(chunk))
            if stop():
                return lanes.finish(None, cancelled=True)
    except OSError as error:
        problem = (
            str(getattr(error, "code", "")) or "unreadable",
            getattr(error, "detail", "") or error.strerror or "",
        )
    return lanes.finish(problem)
