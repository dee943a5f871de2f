"""Logs as numbered lines, for the log view: files of any size, or the few lines that came with an evidence.

Nothing here knows of a screen. Files are read with ``pread`` in blocks and not mapped: a log under rotation may be cut
short while it is looked at, which a reader of a mapping pays for with SIGBUS.
"""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from rich.cells import cell_len

from doctor.model import Evidence
from doctor.render.safe import redact, safe
from doctor.scan.records import decode

BLOCK = 1 << 18
"""Bytes between two entries of the line index: 4,096 entries for 1 GB."""

LINE_MAX = 1 << 20
"""Bytes shown of one line; the rest is counted in its last cells."""

MOST_HITS = 1000
"""Hits that are marked in one line."""

_STEP = 1 << 10
_KEPT = 4 << 20
COLOUR = re.compile(r"\x1b\[[0-9;:]{0,40}m")
_PACKED = (b"\x1f\x8b", b"\xfd7zXZ", b"BZh", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")


class Shown(NamedTuple):
    """A line ready for the screen. ``steps``: cells before each 1,024th character, empty if every character is one
    cell wide."""

    text: str
    cells: int
    steps: tuple[int, ...]

    def crop(self, start: int, width: int) -> tuple[str, int]:
        """What is seen from cell ``start`` on, at most ``width`` cells, and the index of its first character.

        A wide character that is cut in half is shown as a blank.
        """
        if not self.steps:
            return self.text[start : start + width], start
        piece = max(0, bisect_right(self.steps, start) - 1)
        index, at = piece * _STEP, self.steps[piece]
        while index < len(self.text) and at < start:
            at += cell_len(self.text[index])
            index += 1
        out, used = [" " * min(at - start, width)] if at > start else [], max(0, at - start)
        first = index
        while index < len(self.text):
            cells = cell_len(self.text[index])
            if used + cells > width:
                break
            out.append(self.text[index])
            used += cells
            index += 1
        return "".join(out), first - (1 if at > start else 0)


def shown(text: str) -> Shown:
    """A line with its width in cells."""
    if text.isascii() or all(cell_len(char) == 1 for char in set(text)):
        return Shown(text, len(text), ())
    steps, total = [], 0
    for start in range(0, len(text), _STEP):
        steps.append(total)
        total += cell_len(text[start : start + _STEP])
    return Shown(text, total, tuple(steps))


def clean(raw: bytes, more: int = 0) -> str:
    """One line of a log as it may be shown: decoded, secrets masked, nothing in it that could steer a terminal.

    ``more`` bytes were cut off at the end. Of a progress line that wrote over itself the last state is shown, after a
    mark; plain colour codes are taken out, everything else that is invisible becomes a visible mark.
    """
    if more:
        while raw and raw[-1] & 0xC0 == 0x80:
            raw = raw[:-1]
        raw = raw[:-1] if raw and raw[-1] >= 0xC0 else raw
    text = decode(raw.rstrip(b"\r\n"))
    if "\r" in text:
        text = "\r" + text[text.rindex("\r") + 1 :]
    if "\x1b" in text:
        text = COLOUR.sub("", text)
    text = redact(safe(text))
    return f"{text}… (+{more:,} B)" if more else text


class Needle(NamedTuple):
    """What is searched for: a text, of which case only matters if it has a capital letter, or an expression."""

    text: str
    expression: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)

    def compiled(self) -> Any:
        """The expression for lines of UTF-8, in RE2: its time is linear whatever is asked. Raises ValueError."""
        import re2

        options = re2.Options()
        options.case_sensitive = self.text != self.text.lower()
        options.max_mem = 8 << 20
        options.log_errors = False
        try:
            return re2.compile(f"(?m){self.text}".encode("utf-8", "replace"), options)
        except re2.error as error:
            why = error.args[0] if error.args else ""
            raise ValueError(why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)) from None


class Document(Protocol):
    """What the log view needs. Rows count from 0; ``first`` is the line number of row 0."""

    first: int

    @property
    def count(self) -> int:
        """Rows known so far."""

    @property
    def complete(self) -> bool:
        """Whether ``count`` is final."""

    def line(self, row: int) -> Shown:
        """A row; an empty one beyond the end."""

    def find(self, needle: Needle, row: int, forward: bool, stop: Callable[[], bool]) -> int | None:
        """The next row from ``row`` on (or the one before it, backwards) that holds ``needle``, without wrapping."""

    def close(self) -> None:
        """Give the file back."""


class FileDocument:
    """A file. The index of lines grows on demand with :meth:`extend`, also from another thread.

    The size is that of the moment of opening. Raises OSError if the file cannot be opened.
    """

    first = 1

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self._fd).st_size
        self._before = [0]  # line ends before each block whose content is counted
        self._growth = threading.Lock()  # held while lines are counted
        self._lock = threading.Lock()  # of what is kept; the screen waits for it, so it is held for moments only
        self._ends: dict[int, list[int]] = {}  # positions of the line ends in a few blocks
        self._lines: dict[int, Shown] = {}
        self._held = 0
        self._closed = False
        self._last_open = self.size > 0 and self._read(self.size - 1, 1) != b"\n"

    def _read(self, start: int, count: int) -> bytes:
        try:
            return os.pread(self._fd, count, start) if not self._closed else b""
        except OSError:
            return b""

    @property
    def complete(self) -> bool:
        return (len(self._before) - 1) * BLOCK >= self.size

    @property
    def counted(self) -> int:
        """Bytes whose lines are known."""
        return min((len(self._before) - 1) * BLOCK, self.size)

    @property
    def count(self) -> int:
        return self._before[-1] + (1 if not self.complete or self._last_open else 0)

    def extend(self, blocks: int, stop: Callable[[], bool] = lambda: False, *, only_first: bool = False) -> bool:
        """Count the lines of that many further blocks (or of the first ones alone); True when all is counted."""
        for _ in range(max(0, blocks - len(self._before) + 1) if only_first else blocks):
            with self._growth:
                if self.complete or self._closed or stop():
                    break
                block = self._read((len(self._before) - 1) * BLOCK, BLOCK)
                self._before.append(self._before[-1] + block.count(b"\n"))
        return self.complete

    def _line_ends(self, block: int) -> list[int]:
        found = self._ends.get(block)
        if found is None:
            data = self._read(block * BLOCK, BLOCK)
            found, at = [], data.find(b"\n")
            while at >= 0:
                found.append(at)
                at = data.find(b"\n", at + 1)
            with self._lock:
                if len(self._ends) >= 8:
                    self._ends.clear()
                self._ends[block] = found
        return found

    def start_of(self, row: int) -> int:
        """Byte offset of the first character of a row; the size of the file if there is no such row."""
        if row <= 0:
            return 0
        if row > self._before[-1]:
            return self.size
        block = bisect_left(self._before, row) - 1
        ends, n = self._line_ends(block), row - self._before[block] - 1
        return block * BLOCK + ends[n] + 1 if n < len(ends) else self.size

    def row_of(self, offset: int) -> int:
        """The row that holds a byte; counts as far as that needs."""
        block = min(offset // BLOCK, max(0, (self.size - 1) // BLOCK))
        while len(self._before) <= block:
            if self.extend(1) or self._closed:
                break
        block = min(block, len(self._before) - 1)
        return self._before[block] + bisect_left(self._line_ends(block), offset - block * BLOCK)

    def line(self, row: int) -> Shown:
        kept = self._lines.get(row)
        if kept is not None:
            return kept
        start = self.start_of(row)
        end = self.start_of(row + 1) - (1 if row < self._before[-1] else 0)
        raw = self._read(start, min(end - start, LINE_MAX))
        cut = raw.find(b"\n")
        if cut >= 0:
            raw, end = raw[:cut], start + cut
        result = shown(clean(raw, max(0, end - start - LINE_MAX)))
        if row < self._before[-1] or self.complete:
            with self._lock:
                self._held += len(result.text) + 64
                if self._held > _KEPT:
                    self._lines.clear()
                    self._held = len(result.text)
                self._lines[row] = result
        return result

    def find(
        self, needle: Needle, row: int, forward: bool = True, stop: Callable[[], bool] = lambda: False
    ) -> int | None:
        """Raises ValueError of an expression that is none."""
        start = self.start_of(row)
        if needle.expression:
            found = self._match(needle.compiled(), start, forward, stop)
        else:
            fold = needle.text == needle.text.lower()
            needles = {needle.text.encode("utf-8", "replace")}
            if not needle.text.isascii():
                needles.add(needle.text.encode("gb18030", "replace"))
            found = (self._forward if forward else self._backward)(needles, start, fold, stop)
        return None if found < 0 else self.row_of(found)

    def _match(self, pattern: Any, at: int, forward: bool, stop: Callable[[], bool]) -> int:
        """Where the next line with a match begins (the last one before ``at``, backwards), -1 if there is none.

        A piece is cut at a line end; of a line longer than a piece each piece is looked at by itself.
        """
        while (at < self.size if forward else at > 0) and not stop():
            start = at if forward else max(0, at - LINE_MAX)
            data = self._read(start, LINE_MAX if forward else at - start)
            if not data:
                break
            if forward and start + len(data) < self.size and (cut := data.rfind(b"\n")) >= 0:
                data = data[: cut + 1]
            elif not forward and start > 0 and 0 <= (cut := data.find(b"\n")) < len(data) - 1:
                start, data = start + cut + 1, data[cut + 1 :]
            found = -1
            for line_start, line_end in self._candidates(pattern, data):
                if any(hit.end() > hit.start() for hit in pattern.finditer(data[line_start:line_end])):
                    found = start + line_start
                    if forward:
                        return found
            if found >= 0:
                return found
            at = start + len(data) if forward else start
        return -1

    @staticmethod
    def _candidates(pattern: Any, data: bytes) -> Iterator[tuple[int, int]]:
        """The lines of a piece in which a match begins; a match over a line end is none, so the line is asked again."""
        at = 0
        while at < len(data) and (hit := pattern.search(data, at)):
            start = data.rfind(b"\n", 0, hit.start()) + 1
            end = data.find(b"\n", hit.start())
            end = len(data) if end < 0 else end
            yield start, end
            at = end + 1

    def _forward(self, needles: set[bytes], start: int, fold: bool, stop: Callable[[], bool]) -> int:
        overlap = max(map(len, needles)) - 1
        while start < self.size and not stop():
            data = self._read(start, LINE_MAX)
            if not data:
                break
            data = data.lower() if fold else data
            hits = [at for at in (data.find(n) for n in needles) if at >= 0]
            if hits:
                return start + min(hits)
            if start + len(data) >= self.size:
                break
            start += max(1, len(data) - overlap)
        return -1

    def _backward(self, needles: set[bytes], end: int, fold: bool, stop: Callable[[], bool]) -> int:
        overlap = max(map(len, needles)) - 1
        while end > 0 and not stop():
            start = max(0, end - LINE_MAX)
            data = self._read(start, end - start)
            data = data.lower() if fold else data
            hit = max(data.rfind(n) for n in needles)
            if hit >= 0:
                return start + hit
            end = start + overlap if start else 0
        return -1

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._fd)


class SnippetDocument:
    """The lines that came with an evidence: for members of archives, standard input, anything without a plain file."""

    complete = True

    def __init__(self, evidence: Evidence) -> None:
        texts = [*evidence.before, evidence.text, *evidence.after]
        self.first = max(1, evidence.line - len(evidence.before))
        self._lines = [shown(redact(safe(text))) for text in texts]

    @property
    def count(self) -> int:
        return len(self._lines)

    def line(self, row: int) -> Shown:
        return self._lines[row] if 0 <= row < len(self._lines) else Shown("", 0, ())

    def find(
        self, needle: Needle, row: int, forward: bool = True, stop: Callable[[], bool] = lambda: False
    ) -> int | None:
        rows: Sequence[int] = range(row, self.count) if forward else range(row - 1, -1, -1)
        return next((n for n in rows if spans(self._lines[n].text, needle)), None)

    def close(self) -> None:
        """Nothing is open."""


def spans(text: str, needle: Needle) -> list[tuple[int, int]]:
    """Where ``needle`` stands in a text. Raises ValueError of an expression that is none."""
    if not needle:
        return []
    if needle.expression:
        return matches(needle.compiled(), text)
    flags = re.IGNORECASE if needle.text == needle.text.lower() else 0
    return [found.span() for found in re.finditer(re.escape(needle.text), text, flags)]


def matches(pattern: Any, text: str) -> list[tuple[int, int]]:
    """The spans of an expression over UTF-8, in characters; empty matches are none."""
    data = text.encode("utf-8", "replace")
    found = [hit.span() for hit in islice(pattern.finditer(data), MOST_HITS)]
    if len(data) == len(text):
        return [(a, b) for a, b in found if b > a]
    return [(len(data[:a].decode("utf-8", "replace")), len(data[:b].decode("utf-8", "replace")))
            for a, b in found if b > a]  # fmt: skip


def plain_file(path: str) -> bool:
    """Whether the lines of a file can be shown as they are: a regular file, neither packed nor UTF-16."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return not file.read(8).startswith(_PACKED)
    except (OSError, ValueError):
        return False
