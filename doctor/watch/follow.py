"""Files that grow: which there are, and what came since the last look.

Polling, not inotify: logs of many ranks mostly lie on NFS or another shared file system, whose changes by other hosts
no inotify tells. One look is a ``scandir`` and a ``stat`` of each file; only what grew is opened, and closed again.

A file is known by its device and inode, so a rotated one is followed under its new name and the one that takes its
place is a new file. One that shrank, or whose last bytes are not what was read there, was written anew.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from doctor.scan.inputs import natural_key, plain_files, shown_name, what_is

MOST_FILES = 4096
"""Files that are followed: 256 ranks with 16 each. More are left to the report at the end."""
PIECE = 256 << 10
"""Bytes read of a file at a time."""
SEAL = 64
"""Bytes before the place of reading that must still be what they were."""


class File:
    """A file that is followed. ``offset``: what was read of it; ``start``: where reading began."""

    __slots__ = ("changed", "gone", "key", "mtime", "name", "offset", "packed", "path", "rank_key", "seal", "size",
                 "start", "trouble")  # fmt: skip

    def __init__(self, path: str, key: tuple[int, int] | str, size: int, mtime: float) -> None:
        self.path, self.key, self.size, self.mtime = path, key, size, mtime
        self.name = shown_name(path)
        self.rank_key = natural_key(path)
        self.offset = self.start = 0
        self.seal = b""
        self.packed = ""
        """the packing or "binary" of a file that is not followed"""
        self.trouble = ""
        """why it could not be read at the last try"""
        self.gone = False
        self.changed = time.monotonic()

    @property
    def behind(self) -> int:
        """Bytes still to be read."""
        return 0 if self.gone or self.packed else max(0, self.size - self.offset)


class Change(NamedTuple):
    """Something that happened to a file. ``kind``: new · cut (truncated or written anew) · moved · gone."""

    kind: str
    file: File
    was: str = ""


class Follower:
    """The files under some names. ``new``: of those that are there at the first look only what comes from now on."""

    def __init__(self, inputs: Sequence[str], *, new: bool = False, most: int = MOST_FILES) -> None:
        self.inputs, self.most = tuple(inputs), most
        self.files: list[File] = []
        """those that are there, in the order of their names"""
        self.full = False
        """whether there are more files than are followed"""
        self._by_key: dict[tuple[int, int] | str, File] = {}
        self._from_end = new

    def look(self) -> list[Change]:
        """Take note of what is there now."""
        changes: list[Change] = []
        met: set[tuple[int, int] | str] = set()
        fresh: list[File] = []
        for path, status in plain_files(self.inputs, self.most):
            key: tuple[int, int] | str = (status.st_dev, status.st_ino) if status.st_ino else path
            met.add(key)
            file = self._by_key.get(key)
            if file is None:
                file = File(path, key, status.st_size, status.st_mtime)
                fresh.append(file)
                self._by_key[key] = file
                if self._from_end:
                    self._skip(file)
                changes.append(Change("new", file))
                continue
            if file.path != path:
                changes.append(Change("moved", file, file.name))
                file.path, file.name, file.rank_key = path, shown_name(path), natural_key(path)
                fresh.append(file)
            if status.st_size < file.offset:
                changes.append(Change("cut", file))
                self.rewind(file)
            if status.st_size != file.size or status.st_mtime != file.mtime:
                if status.st_size != file.size:
                    file.changed = time.monotonic()
                    file.packed = ""
                file.size, file.mtime = status.st_size, status.st_mtime
        self.full = len(met) >= self.most
        for key in [k for k in self._by_key if k not in met]:
            file = self._by_key.pop(key)
            file.gone = True
            changes.append(Change("gone", file))
        if fresh or len(met) != len(self.files):
            self.files = sorted(self._by_key.values(), key=lambda f: (os.path.dirname(f.path), f.rank_key))
        self._from_end = False
        return changes

    @staticmethod
    def rewind(file: File) -> None:
        """Read a file from its beginning again."""
        file.offset = file.start = 0
        file.seal = b""

    def _skip(self, file: File) -> None:
        """Begin at the end of a file, behind the line that is being written."""
        file.offset = file.start = file.size
        try:
            data = _read(file.path, max(0, file.size - SEAL), SEAL)
        except OSError:
            return
        file.seal = data
        if data and not data.endswith(b"\n"):
            at = data.rfind(b"\n") + 1
            if at:
                # the half line is read once it is whole
                file.offset = file.start = file.size - len(data) + at
                file.seal = data[:at]

    def read(self, file: File) -> bytes | None:
        """The next bytes of a file, b"" if there are none; None if it was written anew, then it is rewound."""
        try:
            data = _read(file.path, file.offset - len(file.seal), PIECE + len(file.seal), file.key)
        except OSError as error:
            file.trouble = error.strerror or str(error)
            file.size = file.offset  # tried again when it grows
            return b""
        file.trouble = ""
        if not data.startswith(file.seal):
            self.rewind(file)
            return None
        data = data[len(file.seal) :]
        if not file.offset and data:
            kind = what_is(file.name, data[: 8 << 10])
            if kind != "text":
                file.packed = kind
                return b""
        if data:
            file.offset += len(data)
            file.size = max(file.size, file.offset)
            file.seal = (file.seal + data[-SEAL:])[-SEAL:]
        else:
            file.size = file.offset
        return data


_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def _read(path: str, start: int, size: int, key: tuple[int, int] | str = "") -> bytes:
    """Bytes of a file; raises OSError if it cannot be read, or is by now another one than ``key`` says."""
    number = os.open(path, _FLAGS)
    try:
        if isinstance(key, tuple):
            status = os.fstat(number)
            if (status.st_dev, status.st_ino) != key:
                raise OSError(errno.ESTALE, "another file has taken its name")
        return os.pread(number, size, start)
    finally:
        os.close(number)


def head_of(file: File, size: int) -> bytes:
    """The first bytes of a file, b"" if it cannot be read."""
    try:
        return _read(file.path, 0, size)
    except OSError:
        return b""


def lines_before(file: File, offset: int, stop: Callable[[], bool]) -> int:
    """Newlines in a file before an offset, as far as it can be read."""
    count = at = 0
    try:
        number = os.open(file.path, _FLAGS)
    except OSError:
        return 0
    try:
        while at < offset and not stop():
            data = os.pread(number, min(1 << 20, offset - at), at)
            if not data:
                break
            count += data.count(b"\n")
            at += len(data)
    except OSError:
        pass
    finally:
        os.close(number)
    return count
