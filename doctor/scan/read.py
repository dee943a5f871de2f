"""One source → its kinds and its scan: what is small is split into segments first, of a large file the head decides."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.scan import kinds, mixed, records
from doctor.scan.columns import table_of
from doctor.scan.lazy import lazy, lazy_bytes
from doctor.scan.scanner import Matcher, Scanned, Scanner, explained, plain_chunks, scan_stream

if TYPE_CHECKING:
    from doctor.profile.tables import Table

SMALL = 256 << 10
"""Inputs up to this size are split into segments as a whole."""

MISTAKEN = ("config", "profile_csv", "text")
"""Kinds that a log can be taken for: they are scanned, and what fires as an error shows that it is one."""

HEAD = 1 << 16
"""Bytes that decide the kind of a larger input."""
BLOCK = 1 << 18
"""Bytes of a large table that are read at once."""


class Stop(OSError):
    """Reading was ended from outside while it waited for data; ``code`` is ``interrupted`` or ``time``. What was found
    before stays. Raised by the signal handlers of the command line."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code, self.detail = code, ""


STATES = frozenset((
    "npu_smi", "hccn_tool", "rank_table", "environment", "shell", "versions", "dmesg", "config", "python",
))  # fmt: skip
"""Kinds that show the state of a machine or of a job: checks read them, beside the log rules."""

_TOOLS = ("npu_smi", "hccn_tool")

STATE_LIMIT = 64 << 20
"""Bytes of a file of such a kind that are read; a rank table of 4,096 ranks has one hundredth of that."""


class Piece(NamedTuple):
    """A part of an input that shows the state of a machine. ``first_line`` counts from 1."""

    kind: str
    first_line: int
    text: str


class Read(NamedTuple):
    """What one source holds. ``judged``: whether any part of it is of a kind that log rules read; ``suspicious``: the
    number of its first line that speaks of a failure though no rule does, 0 without one (small inputs only);
    ``pieces``: the parts that checks can judge; ``tables``: what a profiler wrote."""

    scan: Scanned
    kinds: tuple[str, ...]
    judged: bool
    suspicious: int = 0
    pieces: tuple[Piece, ...] = ()
    tables: "tuple[Table, ...]" = ()
    ranks: tuple[Scanned, ...] = ()
    """of a source that holds several ranks: the scan of each; ``scan`` is then that of the other lines"""
    facts: "dict[str, tuple[str, int]] | None" = None
    """the version facts of its head, if they were looked for already"""
    several: "frozenset[str]" = frozenset()
    """those of which different values are named"""


def with_facts(read: Read) -> Read:
    """With the version facts of its head, which are looked for once."""
    if read.facts is not None:
        return read
    several: set[str] = set()
    found: dict[str, tuple[str, int]] = {}
    if read.scan.size:
        from doctor.scan.versions import facts

        found = facts(read.scan.head, several)
    return read._replace(facts=found, several=frozenset(several))


def read_source(
    matcher: Matcher, source: Any, stop: Callable[[], bool], progress: Callable[[int], None] | None = None
) -> Read:
    """Read a source of small or unknown size. Raises OSError if it cannot be opened; what breaks later is in
    ``scan.problem`` and keeps what was found before."""
    scanner = Scanner(matcher, source.name)
    problem: tuple[str, str] | None = None
    cancelled = False
    with source.open() as stream:
        chunks = plain_chunks(stream)
        first: list[bytes] = []
        size = 0
        complete = True
        try:
            for chunk in chunks:
                first.append(chunk)
                size += len(chunk)
                if size > SMALL:
                    complete = False
                    break
                if stop():
                    cancelled = True
                    break
        except OSError as error:
            problem = _problem(error)
        data = b"".join(first)
        if complete and (b"\xe2\x80" in data or b"\xc2\xa0" in data):
            data = _plain_quotes(data)
        way = mixed.way_of(source.name, data if complete else data[:HEAD])
        if way is not None and not complete:
            chunks = itertools.chain((data,), chunks)
            scan, ranks = mixed.scan_chunks(matcher, source.name, way, chunks, stop, progress)
            return Read(scan, _kinds_of(source.name, way, data[:HEAD]), True, ranks=ranks)
        if way is not None:
            if progress:
                progress(len(data))
            scan, ranks = _several(matcher, source.name, way, data, problem, cancelled)
            suspicious = 0 if any(s.occurrences for s in (scan, *ranks)) else _suspicious(data, scan)
            return Read(scan, _kinds_of(source.name, way, data), True, suspicious, ranks=ranks)
        parts = kinds.segments(source.name, data if complete else data[:HEAD], complete=complete)
        if complete and _settings(source.name, data, parts):
            parts = (kinds.Segment("config", 1, parts[-1].last_line, 0, len(data)),)
        names = tuple(dict.fromkeys(p.kind for p in parts))
        table = _table_kind(source.name, data, names)
        if table:
            chunks = itertools.chain((data,), () if complete else chunks)
            return _profile(matcher, source.name, table, chunks, stop, progress, problem, source.size or len(data))
        judged = any(k in kinds.LOG_KINDS for k in names)
        wanted = judged or all(k in MISTAKEN for k in names)
        told = data  # which stays as it came: the pieces below are cut out of it
        if data and wanted:
            if complete:
                told = _uncommented(source.name, _masked(data, parts), names)
            scanner.feed(told)
            if progress:
                progress(len(data))
            if not complete and problem is None:
                try:
                    for chunk in chunks:
                        scanner.feed(chunk)
                        if progress:
                            progress(len(chunk))
                        if stop():
                            cancelled = True
                            break
                except OSError as error:
                    problem = _problem(error)
        scan = scanner.finish(problem, cancelled)
    if complete and data and wanted and not explained(matcher, scan):
        # the program's own words say nothing: they may have been bent on their way here, or a person's words may tell
        plain, memory = scan.tracks, scan.memory
        scanner = Scanner(matcher, source.name)
        scanner.feed_whole(straightened(told))
        scan = scanner.finish(problem, cancelled)
        if sum(map(len, plain)) >= sum(map(len, scan.tracks)):
            # lines of equal width look like those of a terminal that wrapped
            scan = scan._replace(tracks=plain)
        if len(memory) > len(scan.memory):
            scan = scan._replace(memory=memory)
    if not judged and explained(matcher, scan):
        judged, names = True, tuple(dict.fromkeys((*names, "text")))
    judged, names = _told_by_values(judged, names, scan)
    if not judged and data:
        scan = scan._replace(size=max(scan.size, len(data)), head=data[:HEAD], lines=data.count(b"\n"))
    suspicious = _suspicious(told, scan) if complete and wanted and not scan.occurrences else 0
    if not complete:
        return Read(scan, names, judged or not data, suspicious)
    return Read(scan, names, judged or not data, suspicious, _pieces(data, parts), _tables(source.name, data, parts))


def _told_by_values(judged: bool, names: tuple[str, ...], scan: Scanned) -> tuple[bool, tuple[str, ...]]:
    """Whether a text is judged, and its kinds, when most of its lines proved to be values of training: a table, or a
    progress bar that is one line."""
    if names == ("text",) and scan.tracks and sum(track.number for track in scan.tracks) >= scan.lines // 2:
        return True, ("training",)
    return judged, names


_SETTING = lazy(r"""\s*(?:["']?(?!(?:\w+_)?loss\b|grad_norm\b)[\w.-]+["']?\s*:(?:\s|$)|[\]}#]|$)""")


def _settings(name: str, data: bytes, parts: Sequence[Any]) -> bool:
    """Whether an input is one table of settings, some of which (``loss_scale: 0``) look like a line of training."""
    if {p.kind for p in parts} != {"config", "training"} or b"log_history" in data:
        return False
    whole = data.strip()
    if not name.lower().endswith((".yaml", ".yml", ".json")) and not (whole[:1] == b"{" and whole[-1:] == b"}"):
        return False
    odd = (data[p.start : p.end].decode("utf-8", "replace") for p in parts if p.kind == "training")
    return all(_SETTING.match(line) for text in odd for line in text.splitlines())


def _several(
    matcher: Matcher, name: str, way: mixed.Way, data: bytes, problem: tuple[str, str] | None, cancelled: bool
) -> tuple[Scanned, tuple[Scanned, ...]]:
    """The scans of a small text that holds several ranks."""
    parts, numbers, lines = mixed.split(way, data)

    found = {}
    for rank, own in parts.items():
        scanner = Scanner(matcher, name)
        scanner.feed(own)
        found[rank] = scanner.finish(None, cancelled)
    known = {rank for rank, scan in found.items() if explained(matcher, scan)}
    for rank, own in parts.items():
        # as in files of their own: what no rank said may be a launcher's words
        if rank not in known and (rank is None or not known):
            scanner = Scanner(matcher, name)
            scanner.feed_whole(straightened(own))
            before = found[rank]
            found[rank] = scanner.finish(None, cancelled)._replace(tracks=before.tracks)
            if len(before.memory) > len(found[rank].memory):
                found[rank] = found[rank]._replace(memory=before.memory)
    return mixed.told_apart(found, numbers, len(data), lines, problem)


def _kinds_of(name: str, way: mixed.Way, data: bytes) -> tuple[str, ...]:
    """The kinds of the lines of the ranks, without the marks of those."""
    parts, _, _ = mixed.split(way, data)
    texts = [own for rank, own in parts.items() if rank is not None][:4]
    found = dict.fromkeys(p.kind for own in texts for p in kinds.segments(name, own, complete=True))
    return tuple(kind for kind in found if kind in kinds.LOG_KINDS) or ("text",)


def _table_kind(name: str, head: bytes, names: Sequence[str]) -> str:
    """The kind of the table of a profiler that a whole file is, empty if it is something else."""
    if not (name.endswith((".csv", ".json")) or names == ("profile_csv",)):
        return ""
    from doctor import profile

    # a table of unknown columns is one too, if its file says so
    return profile.kind_of(head) or ("csv" if name.endswith(".csv") and names == ("profile_csv",) else "")


def _profile(
    matcher: Matcher, name: str, kind: str, chunks: Iterable[bytes], stop: Callable[[], bool],
    progress: Callable[[int], None] | None, problem: tuple[str, str] | None = None, known: int = 0,
) -> Read:  # fmt: skip
    """Read what a profiler wrote; what breaks on the way ends the table there. ``known``: the size of the file; some
    kinds are not read to their end."""
    from doctor import profile

    size = lines = 0

    def counted() -> Iterator[bytes]:
        nonlocal size, lines, problem
        try:
            for chunk in chunks:
                size += len(chunk)
                lines += chunk.count(b"\n")
                yield chunk
                if progress:
                    progress(len(chunk))
        except OSError as error:
            problem = _problem(error)

    table = profile.read(name, kind, counted(), stop)
    scan = Scanner(matcher, name).finish(problem)._replace(size=max(size, known), lines=lines)
    names = ("profile_csv",) if kind == "csv" else ("profile_json",)
    return Read(scan, names, False, 0, (), (table,))


def _tables(name: str, data: bytes, parts: Sequence[Any]) -> "tuple[Table, ...]":
    """Tables of a profiler among other text, with the lines of the whole."""
    if not any(p.kind == "profile_csv" for p in parts):
        return ()
    from doctor import profile

    found = []
    for part in parts:
        text = data[part.start : part.end]
        if part.kind == "profile_csv" and profile.kind_of(text):
            found.append(profile.read(name, "csv", [b"\n" * (part.first_line - 1) + text]))
    return tuple(found)


def _pieces(data: bytes, parts: Sequence[Any]) -> tuple[Piece, ...]:
    """The parts that checks can judge. What a tool printed goes with the command lines between which it stands: they
    name the device that it speaks of."""
    pieces: list[Piece] = []
    run: list[Any] = []

    def close() -> None:
        if any(p.kind in _TOOLS for p in run):
            text = data[run[0].start : run[-1].end].decode("utf-8", "replace")
            pieces.append(Piece(next(p.kind for p in run if p.kind in _TOOLS), run[0].first_line, text))
        run.clear()

    for part in parts:
        if part.kind in _TOOLS or part.kind == "shell":
            if run and run[-1].end != part.start:
                close()
            run.append(part)
        else:
            close()
        if part.kind in STATES and part.kind not in _TOOLS:
            text = data[part.start : part.end].decode("utf-8", "replace")
            pieces.append(Piece(part.kind, part.first_line, text))
    close()
    return tuple(pieces)


def read_path(
    matcher: Matcher, name: str, path: str, stop: Callable[[], bool], progress: Callable[[int], None] | None = None
) -> Read:
    """Read a large plain file."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(HEAD)
            names = tuple(dict.fromkeys(s.kind for s in kinds.segments(name, head, complete=False)))
            table = _table_kind(name, head, names)
            if table:
                blocks = itertools.chain((head,), iter(partial(file.read, BLOCK), b""))
                return _profile(matcher, name, table, blocks, stop, progress, None, os.fstat(file.fileno()).st_size)
            way = mixed.way_of(name, head)
            if way is not None:
                file.seek(0)
                scan, ranks = mixed.scan_chunks(matcher, name, way, plain_chunks(file), stop, progress)
                return Read(scan, _kinds_of(name, way, head), True, ranks=ranks)
            if not any(k in kinds.LOG_KINDS for k in names) and table_of(head) is not None:
                names = ("training",)
            if not any(k in kinds.LOG_KINDS for k in names):
                size = os.fstat(file.fileno()).st_size
                whole: tuple[Piece, ...] = ()
                if len(names) == 1 and names[0] in STATES and size <= STATE_LIMIT:
                    whole = (Piece(names[0], 1, (head + file.read()).decode("utf-8", "replace")),)
                return Read(Scanner(matcher, name).finish()._replace(size=size, head=head), names, False, 0, whole)
            file.seek(0)
            scan = scan_stream(matcher, name, file, cancelled=stop, progress=progress, exact=matcher.numbered)
            return Read(scan, _told_by_values(True, names, scan)[1], True)
    except OSError as error:
        return Read(Scanner(matcher, name).finish(_problem(error)), ("text",), True)


_TROUBLE = lazy(
    r"(?i)\b(?:\w*error|\w*exception|traceback|fatal|abort(?:ed|ing)?|failed|failure|not supported|unsupported"
    r"|core dumped|killed|crash(?:ed|es)?|hang(?:s|ing)?|stuck|time[d ]?out|(?:is|are|:) nan)\b"
    r"|失败|报错|错误|异常|崩溃|卡住|不支持|^\s*File \".+\", line \d"
)
_QUIET = ("INFO", "DEBUG", "WARNING", "EVENT")
_LOUD = lazy(
    r"Traceback \(most recent call last\)|\[(?:ERROR|FATAL|ASSERT)\]|\bAssert\w* `|\b[Ee]rror code:? ?\d{4}"
    r"|^\s*E[A-Z1-9]\d{4}(?::|$)"
)
"""Trouble even behind the head of a quiet record: there, several lines were glued to one. The last is an error code of
CANN that is not in the catalogue."""


def _suspicious(data: bytes, scan: Scanned) -> int:
    """The first line that speaks of trouble in words that no rule knows."""
    for number, raw in enumerate(data.split(b"\n"), 1):
        text = records.read_line(raw)
        head = records.head_of(text.text)
        level = records.level_of(text, head)
        quiet = level in _QUIET or "Warning" in text.text
        if _LOUD.search(text.text) or (not quiet and _TROUBLE.search(text.text)):
            return number
    return 0


_QUOTES = (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("\u00a0", " "), ("\u200b", ""))


def _plain_quotes(data: bytes) -> bytes:
    """A paste out of a blog or chat, whose editor made curly quotes and odd blanks of what the program printed."""
    for fancy, plain in _QUOTES:
        data = data.replace(fancy.encode(), plain.encode())
    return data


_ENTITIES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&#34;", b'"'), (b"&#39;", b"'"), (b"&#x27;", b"'"),
             (b"&nbsp;", b" "), (b"&amp;", b"&"))  # fmt: skip
_FULL_WIDTH = str.maketrans(
    {
        "：": ": ",
        "，": ", ",
        "（": " (",
        "）": ") ",
        "；": "; ",
        "！": "!",
        "？": "?",
        "　": " ",
        "【": "[",
        "】": "]",
    }
)
_TERMINALS = (80, 100, 120, 132, 160)
_NARROWEST = 60


def straightened(data: bytes) -> bytes:
    """Text as the program printed it, line for line: without HTML entities (a page's source), full-width punctuation
    (a Chinese input method) and the breaks of a terminal that wrapped (its lines are joined in the first one's place,
    the others stay as empty lines, so that line numbers stay true)."""
    if b"&" in data:
        for entity, plain in _ENTITIES:
            data = data.replace(entity, plain)
    text = data.decode("utf-8", "surrogateescape")
    return _unwrapped(text.translate(_FULL_WIDTH)).encode("utf-8", "surrogateescape")


def _unwrapped(text: str) -> str:
    """A terminal wraps at its last column: several lines end exactly there and none reaches beyond."""
    lines = text.replace("\r\n", "\n").split("\n")
    width = max(map(len, lines))
    full = sum(len(line) == width for line in lines)
    if width < _NARROWEST or (full < 2 and width not in _TERMINALS):
        return text
    out: list[str] = []
    start = -1  # of the line that goes on
    for number, line in enumerate(lines):
        if start >= 0 and records.head_of(line) is not None:
            start = -1  # a record begins here: the line before is as long by itself
        if start >= 0:
            out[start] += line
            out.append("")
        else:
            out.append(line)
        # rows and rules of a table are all of one width
        if len(line) < width or line[-1] in "|+":
            start = -1
        elif start < 0:
            start = number
    return "\n".join(out)


def _problem(error: OSError) -> tuple[str, str]:
    """(code, detail) of a read that failed; a broken archive or a bomb brings its own code."""
    code = getattr(error, "code", "")
    if code:
        return str(code), str(getattr(error, "detail", ""))
    return ("denied" if isinstance(error, PermissionError) else "unreadable"), error.strerror or str(error)


def _masked(data: bytes, parts: Sequence[kinds.Segment]) -> bytes:
    """The data with its Python source emptied line by line, so that line numbers stay true. Code holds the messages it
    may raise; other kinds inside a paste are scanned, because a wrong guess there would hide a failure."""
    if all(p.kind != "python" for p in parts):
        return data
    out = []
    for part in parts:
        piece = data[part.start : part.end]
        out.append(b"\n" * piece.count(b"\n") if part.kind == "python" else piece)
    return b"".join(out)


_COMMENT = lazy_bytes(rb"(?m)^[ \t]*#[^\n]*")


def _uncommented(name: str, data: bytes, names: Sequence[str]) -> bytes:
    """The data of a configuration file without its comments, which say what a setting is for, not what happened."""
    if names != ("config",) or not name.lower().endswith((".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf")):
        return data
    return _COMMENT.sub(lambda comment: b" " * len(comment[0]), data)
