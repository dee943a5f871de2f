"""What one followed file holds so far: its kind, its scan, and the pattern that is waited for."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from doctor.scan import kinds, mixed, records
from doctor.scan.read import HEAD, MISTAKEN, SMALL, Read, read_source
from doctor.scan.scanner import Matcher, Occurrence, Scanned, Scanner, plain
from doctor.scan.series import Track
from doctor.watch.follow import File, head_of, lines_before

if TYPE_CHECKING:
    from collections.abc import Sequence

LINE_LEFT = 64 << 10
"""Bytes of a line without an end that are kept for the pattern."""


class Hit(NamedTuple):
    """A line that the pattern matches. ``line`` is its number, 0 if that is not known."""

    name: str
    line: int
    text: str


class Pattern:
    """An expression in linear time (RE2) over whole lines; raises ValueError if it is none.

    A log may be in GBK: an expression that holds other than ASCII characters is looked for in both encodings.
    """

    def __init__(self, text: str) -> None:
        import re2

        def compiled(source: bytes, encoding: Any) -> Any:
            options = re2.Options()
            options.encoding, options.never_nl, options.log_errors = encoding, True, False
            return re2.compile(b"(?m)" + source, options)

        try:
            self._ways = [compiled(text.encode(), re2.Options.Encoding.UTF8)]
            if not text.isascii():
                self._ways.append(compiled(text.encode("gb18030"), re2.Options.Encoding.LATIN1))
        except (re2.error, UnicodeError) as error:
            why = error.args[0] if error.args else ""
            raise ValueError(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None
        if any(way.search(b"") for way in self._ways):
            raise ValueError("it matches an empty line")

    def search(self, data: bytes) -> int:
        """Offset of the first match in whole lines, -1 without one."""
        found = [m.start() for m in (way.search(data) for way in self._ways) if m]
        return min(found, default=-1)


class _Whole:
    """A followed file as a source that is read from its beginning."""

    def __init__(self, file: File) -> None:
        self.name, self.path, self.size, self.mtime = file.name, file.path, file.size, file.mtime

    def open(self) -> BinaryIO:
        return open(self.path, "rb")


class Feed:
    """Takes the bytes of one file. ``exact``: it is read from somewhere behind its beginning, so that lines of training
    values cannot be found again by their offsets."""

    def __init__(self, matcher: Matcher, file: File) -> None:
        self.matcher, self.file = matcher, file
        self.exact = file.start > 0
        self.size = 0
        self.kinds: tuple[str, ...] = ()
        self.several = False
        """whether it holds the lines of several ranks, which a diagnosis reads apart"""
        self.facts: dict[str, tuple[str, int]] = {}
        self.wanted = True
        """whether it is of a kind that is scanned at all"""
        self.reread = False
        """whether it turned out to be, and must be read from its beginning"""
        self.tracks: tuple[Track, ...] = ()
        self.grown = 0
        """counts up with every piece taken"""
        self._scanner: Scanner | None = Scanner(matcher, file.name, exact=self.exact)
        self._cut = b""  # the beginning of a colour code
        self._head = head_of(file, HEAD) if self.exact else b""
        self._head_at = 0  # size at which the head is looked at again
        self._left = b""  # the beginning of a line whose end is still to come, for the pattern
        self._lines = 0  # newlines given to the pattern
        self._before = -1  # newlines before ``file.start``
        self._scan: tuple[int, Scanned] | None = None
        self._read: tuple[int, Read] | None = None

    def take(self, data: bytes) -> bytes:
        """The next bytes of the file; returns them without colour codes."""
        self.size += len(data)
        self.grown += 1
        if self._cut or b"\x1b" in data:
            data, self._cut = plain(self._cut + data)
        if len(self._head) < HEAD and not self.exact:
            self._head += data[: HEAD - len(self._head)]
        if self.size >= self._head_at:
            self._look_at_head()
        if self.wanted and self._scanner is not None and data:
            self._scanner.feed(data)
        return data

    def _look_at_head(self) -> None:
        """What the file is, as far as its first bytes tell; looked at again whenever it has doubled."""
        was = self.wanted
        parts = kinds.segments(self.file.name, self._head, complete=False)
        self.several = mixed.way_of(self.file.name, self._head) is not None
        self.kinds = tuple(dict.fromkeys(p.kind for p in parts))
        judged = any(k in kinds.LOG_KINDS for k in self.kinds)
        self.wanted = judged or (self.size <= SMALL and all(k in MISTAKEN for k in self.kinds))
        self.reread = self.reread or (self.wanted and not was)
        if self._head:
            from doctor.scan.versions import facts

            self.facts = facts(self._head)
        self._head_at = 1 << 62 if self.size >= SMALL else 2 * self.size

    def search(self, pattern: Pattern, data: bytes, last: bool = False) -> Hit | None:
        """The first line of new bytes that a pattern matches."""
        data = self._left + data
        end = len(data) if last else data.rfind(b"\n") + 1
        if not end and len(data) > LINE_LEFT:
            end = len(data)
        self._left = data[end:]
        at = pattern.search(data[:end]) if end else -1
        found = None
        if at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            stop = data.find(b"\n", at)
            number = self._lines + data.count(b"\n", 0, start) + 1 + self.before()
            text = records.visible(data[start : stop if stop >= 0 else None])
            found = Hit(self.file.name, number, text)
        self._lines += data.count(b"\n", 0, end)
        return found

    @property
    def lines(self) -> int:
        """Lines at the last look."""
        return self._scan[1].lines if self._scan is not None else 0

    @property
    def half_line(self) -> bool:
        """Whether the pattern waits for the end of a line."""
        return bool(self._left)

    def before(self) -> int:
        """Newlines before the place where reading began."""
        if self._before < 0:
            self._before = lines_before(self.file, self.file.start, lambda: False)
        return self._before

    # ------------------------------------------------------------------ what it holds

    def advance(self) -> bool:
        """Read the training lines that have come; whether the file is scanned."""
        if self._scanner is None or not self.wanted:
            return False
        self.tracks = self._scanner.advance()
        return True

    @property
    def stirred(self) -> int:
        """Grows whenever a line may tell of a failure."""
        return self._scanner.stirred if self._scanner is not None else 0

    def scan(self) -> Scanned | None:
        """What the file holds so far, None if it is of no kind that is judged. A small one in which something was
        found is read as a whole, as a diagnosis of it does."""
        if not self.wanted or self._scanner is None:
            return self._scan[1] if self._scan and self.wanted else None
        if self._scan is None or self._scan[0] != self.grown:
            found = self._scanner.snapshot()._replace(name=self.file.name)
            self.tracks = found.tracks
            if self.size <= SMALL and not self.exact and not self.file.gone and (found.occurrences or found.errors):
                read = self.whole()
                if read is not None and not read.ranks:
                    found = read.scan._replace(tracks=found.tracks) if read.judged else found._replace(occurrences=())
            self._scan = (self.grown, self._placed(found))
        return self._scan[1]

    def whole(self) -> Read | None:
        """A small file as a diagnosis reads it; None if it cannot be read or is larger by now."""
        if self._read is None or self._read[0] != self.grown:
            try:
                read = read_source(self.matcher, _Whole(self.file), lambda: False)
            except OSError:
                return None
            self._read = (self.grown, read)
        read = self._read[1]
        return read if read.scan.size == self.file.size else None

    @property
    def has_whole(self) -> bool:
        """Whether ``whole`` has its answer at hand."""
        return self._read is not None and self._read[0] == self.grown

    def rest(self) -> None:
        """Let go of everything but the result: the file has not grown for long."""
        if self._scanner is not None and not self._cut:
            self.scan()
            if self.size > SMALL:
                self._scan = (self.grown, self._placed(self._finished()))
            self._scanner = None

    @property
    def resting(self) -> bool:
        """Whether it must be read from its beginning if the file grows again."""
        return self._scanner is None

    def finish(self) -> Read | None:
        """The file as a diagnosis reads it, with nothing read twice; None if it must be read. The feed ends here."""
        if self.exact:
            scan = self.scan()
            return Read(scan, self.kinds or ("text",), True) if scan is not None else None
        if self.size <= SMALL:
            return self._read[1] if self._read is not None and self._read[0] == self.grown and self.whole() else None
        if not any(k in kinds.LOG_KINDS for k in self.kinds):
            return None
        if self.several and not self.file.gone:
            return None
        scan = self._finished() if self._scanner is not None else self._scan[1] if self._scan else None
        return Read(scan, self.kinds, True) if scan is not None else None

    def _finished(self) -> Scanned:
        assert self._scanner is not None
        if self._cut:
            self._scanner.feed(self._cut)
            self._cut = b""
        scan = self._scanner.finish()._replace(name=self.file.name)
        self._scanner = None
        self._scan = (self.grown, scan)
        return scan

    def _placed(self, scan: Scanned) -> Scanned:
        """A scan whose lines are counted from the file's first one."""
        if not self.exact or not (scan.occurrences or scan.errors or scan.tracks):
            return scan
        ahead = self.before()

        def placed(found: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
            return tuple(o._replace(line=o.line + ahead) for o in found)

        tracks = tuple(Track(**{**t._asdict(), "lines": array("q", [n + ahead for n in t.lines])}) for t in scan.tracks)
        return scan._replace(
            occurrences=placed(scan.occurrences), errors=placed(scan.errors), tracks=tracks,
            lines=scan.lines + ahead, memory=tuple((n + ahead, text) for n, text in scan.memory),
        )  # fmt: skip
