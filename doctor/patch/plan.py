"""Edits → a patch: what each file is now, what it will be, and that nothing but the wanted keys differs.

Nothing is written here. An edit names its key, or the bytes it replaces; ``new`` is source text in the file's own
words, empty to take a key away. Files are read once, as bytes, and stay as they are between the spans.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.model import Edit
from doctor.patch import spans
from doctor.patch.spans import REMOVED, Refused, Source, Span, format_key, parse_key

MAX_BYTES = 4 << 20


_COOKIE = re.compile(rb"[ \t\f]*#.{0,200}?coding[:=][ \t]*([-\w.]{1,40})")
"""How a Python file names its encoding (PEP 263)."""


class Snapshot(NamedTuple):
    """A file as it was read. ``real`` is the path behind its links."""

    path: str
    real: str
    data: bytes
    format: str


class FilePatch(NamedTuple):
    """One file before and after. ``changes`` carry byte spans of the file as it is now, in order."""

    path: str
    real: str
    format: str
    before: bytes
    after: bytes
    changes: tuple[Edit, ...]
    also: tuple[str, ...] = ()
    """keys that change with those of the edits, because they are aliases of the same value"""


class Patch(NamedTuple):
    """What is applied or refused as a whole. ``rules`` are the rules that asked for it."""

    files: tuple[FilePatch, ...]
    rules: tuple[str, ...] = ()

    def contents(self) -> dict[str, bytes]:
        """What each file will hold, by its path as it was named."""
        return {file.path: file.after for file in self.files}


def digest(data: bytes) -> str:
    """The name of some bytes: SHA-256 in hex digits."""
    return hashlib.sha256(data).hexdigest()


def snapshot(path: str, limit: int = MAX_BYTES) -> Snapshot:
    """Read a file. Raises Refused with the reason it cannot be patched."""
    try:
        seen = os.stat(path)
        real = os.path.realpath(path)
        if not stat.S_ISREG(seen.st_mode):
            raise Refused("not_a_file", path=path)
        if seen.st_size > limit:
            raise Refused("too_large", path=path, size=seen.st_size, limit=limit)
        with open(real, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Refused("loop", path=path) from None
        if error.errno == errno.ENOENT:
            raise Refused("dangling" if os.path.islink(path) else "no_file", path=path) from None
        raise Refused("unreadable", path=path, why=error.strerror or type(error).__name__) from None
    except ValueError:
        raise Refused("no_file", path=path) from None
    if len(data) > limit:
        raise Refused("too_large", path=path, size=len(data), limit=limit)
    head = data[:200].decode("utf-8", "replace")
    found = spans.format_of(path, head) or spans.format_of(real, head)
    if found is None:
        raise Refused("no_reader", name=os.path.basename(path))
    return Snapshot(path, real, data, found)


def decode(data: bytes, fmt: str) -> str:
    """The text of a file; shell scripts may hold any bytes. Raises Refused."""
    if b"\0" in data:
        raise Refused("binary")
    if fmt == "python" and not data.isascii():
        found = next(filter(None, map(_COOKIE.match, data.split(b"\n", 2)[:2])), None)
        if found is not None and found[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8", b"utf-8-sig"):
            raise Refused("other_encoding", name=found[1].decode("ascii"))
    try:
        return data.decode("utf-8", "surrogateescape" if fmt == "shell" else "strict")
    except UnicodeDecodeError as error:
        raise Refused("not_utf8", line=data.count(b"\n", 0, error.start) + 1) from None


def encode(text: str) -> bytes:
    """The bytes of a text that ``decode`` gave, or of a part of it."""
    return text.encode("utf-8", "surrogateescape")


def plan(edits: Sequence[Edit], rules: Sequence[str] = (), *, aliases: bool = False) -> Patch:
    """The patch of some edits, verified. Raises Refused; the reason names the file.

    ``aliases`` agrees that keys which are aliases of a changed value change with it; they are named in the patch.

    Edits of one key that say the same are one; others of the same key, of a key and one inside it, or of overlapping
    bytes are refused.
    """
    groups: dict[str, tuple[Snapshot, list[Edit]]] = {}
    for edit in edits:
        shot = snapshot(edit.file)
        groups.setdefault(shot.real, (shot, []))[1].append(edit)
    files = []
    for shot, own in groups.values():
        try:
            made = patch_text(shot, own, aliases=aliases)
        except Refused as refused:
            refused.args_.setdefault("path", shot.path)
            raise
        if made is not None:
            files.append(made)
    if not files:
        raise Refused("nothing")
    return Patch(tuple(files), tuple(dict.fromkeys(rules)))


def patch_text(shot: Snapshot, edits: Sequence[Edit], *, aliases: bool = False) -> FilePatch | None:
    """One file's patch, None if everything wanted is there already."""
    from doctor.patch import verify

    text = decode(shot.data, shot.format)
    work = _Work(shot, text)
    by_span = sorted({e for e in edits if e.start >= 0}, key=lambda e: (e.start, e.end, e.new))
    by_key: dict[str, Edit] = {}
    for edit in edits:
        if edit.start < 0 and by_key.setdefault(edit.key, edit).new != edit.new:
            raise Refused("conflict", key=edit.key)
    work.replace_spans(by_span)
    middle = work.text
    if work.blind and by_key and middle.count("\n") != text.count("\n"):
        # keys of Python name lines, which are others now
        raise Refused("conflict", key=next(iter(by_key)))
    for edit in _ordered(shot.format, list(by_key.values())):
        work.replace_key(edit)
    if work.text == text:
        return None
    also: list[tuple[Any, Any]] = []
    if aliases and shot.format == "yaml":
        also = verify.with_aliases(text, work.text, work.wanted)
    if work.blind:
        verify.python_spans(text, middle, [(e.start, e.end, len(e.new)) for e in work.blind])
        text = middle
    verify.verify(shot.format, text, work.text, [*work.wanted, *also])
    names = tuple(format_key(path) for path, _ in also)
    return FilePatch(shot.path, shot.real, shot.format, shot.data, encode(work.text), work.changes(), names)


def _ordered(fmt: str, edits: list[Edit]) -> list[Edit]:
    """Keys that name lines are worked off from below, so that the lines of the others stay true."""
    if fmt == "python":
        return sorted(edits, key=lambda e: -int(e.key.split(":", 1)[0]) if e.key[:1].isdigit() else 1)
    if fmt in ("yaml", "json"):
        paths = sorted((parse_key(e.key) for e in edits if e.key), key=lambda path: tuple(map(str, path)))
        for a, b in itertools.pairwise(paths):
            if b[: len(a)] == a:
                raise Refused("conflict", key=format_key(b))
    return edits


class _Work:
    """A text under change, and where the changes are in the file as it was."""

    def __init__(self, shot: Snapshot, text: str) -> None:
        self.shot, self.first, self.text = shot, text, text
        self.wanted: list[tuple[Any, Any]] = []
        self.blind: list[Edit] = []
        self._done: list[tuple[int, int, int]] = []
        self._changes: list[Edit] = []

    def _original(self, at: int) -> int:
        """Where a position of the text at hand was in the first one."""
        for start, removed, added in reversed(self._done):
            if at >= start + added:
                at += removed - added
            elif at > start:
                at = start
        return at

    def _bytes(self, at: int) -> int:
        return len(encode(self.first[:at]))

    def replace_spans(self, edits: Sequence[Edit]) -> None:
        """Put ready-made replacements in, all of them measured in the file as it is."""
        end = 0
        for edit in edits:
            if edit.start < end or not edit.start <= edit.end <= len(self.shot.data):
                raise Refused("overlap", key=edit.key)
            end = edit.end
            if encode_text(edit.old) != self.shot.data[edit.start : edit.end]:
                raise Refused("changed", key=edit.key)
        for edit in reversed(edits):
            start = len(decode(self.shot.data[: edit.start], self.shot.format))
            stop = start + len(edit.old)
            self.text = self.text[:start] + edit.new + self.text[stop:]
        for edit in edits:
            start = len(decode(self.shot.data[: edit.start], self.shot.format))
            shift = sum(added - removed for at, removed, added in self._done)
            self._done.append((start + shift, len(edit.old), len(edit.new)))
            self._changes.append(edit)
            if self.shot.format == "python":
                self.blind.append(edit._replace(start=start, end=start + len(edit.old)))
            else:
                reader = _reader(self.shot.format)
                path = (edit.key,) if self.shot.format == "shell" else parse_key(edit.key)
                self.wanted.append((path, reader.value_of(Source(edit.new)) if edit.new else REMOVED))

    def replace_key(self, edit: Edit) -> None:
        """Find a key in the text at hand and put its new value in."""
        new = REMOVED if edit.new == "" else Source(edit.new)
        span: Span = spans.resolve(self.shot.format, self.text, edit.key, new)
        old = self.text[span.start : span.end]
        if old == span.new:
            return
        start, end = self._original(span.start), self._original(span.end)
        self._changes.append(Edit(edit.file, edit.key, old, span.new, self._bytes(start), self._bytes(end)))
        self.text = self.text[: span.start] + span.new + self.text[span.end :]
        self._done.append((span.start, len(old), len(span.new)))
        self.wanted.append((span.path, span.value))

    def changes(self) -> tuple[Edit, ...]:
        """The replacements in the order of the file."""
        return tuple(sorted(self._changes, key=lambda e: (e.start, e.end)))


def encode_text(text: str) -> bytes:
    """Bytes of a text of an edit; surrogates of undecodable bytes are those bytes again."""
    return text.encode("utf-8", "surrogateescape")


def _reader(fmt: str) -> Any:
    from doctor.patch import jsonspans, shellspans, yamlspans

    return {"yaml": yamlspans, "json": jsonspans, "shell": shellspans}[fmt]


def line_of(data: bytes, at: int) -> int:
    """The line, from 1, of a byte."""
    return data.count(b"\n", 0, at) + 1


def merged(patches: Sequence[Patch]) -> Mapping[str, tuple[str, ...]]:
    """Rules by file of several patches."""
    out: dict[str, tuple[str, ...]] = {}
    for patch in patches:
        for file in patch.files:
            out[file.path] = (*out.get(file.path, ()), *patch.rules)
    return out
