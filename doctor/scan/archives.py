"""What is in a tar or a zip, member by member; nothing is extracted and names are for display only.

Archives are parsed here rather than by :mod:`tarfile`, which reads extension headers of any size into memory.
"""

import os
import stat
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from doctor.scan.filetype import natural_key, tar_number, tar_sum_ok
from doctor.scan.streams import (
    CHUNK,
    KEEP,
    BrokenStream,
    Limits,
    Meter,
    Once,
    Pipe,
    Problem,
    decoded,
    decoder_of,
    unpacked,
)

if TYPE_CHECKING:
    import zipfile

NAME_MAX = 1 << 16  # longest extended header of a tar that is read


def _text(raw: bytes) -> str:
    """Decode a member's name: UTF-8, else as a Chinese Windows wrote it, else byte by byte."""
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            pass
    return raw.decode("latin-1")


def _pax(data: bytes) -> dict[bytes, bytes]:
    """Records ``length key=value\\n`` of an extended tar header; stops at the first that is malformed."""
    found = {}
    at = 0
    while at < len(data):
        digits = data[at : at + 8].partition(b" ")[0]
        length = int(digits) if digits.isdigit() else 0
        key, equals, value = data[at + len(digits) + 1 : at + length - 1].partition(b"=")
        if not equals or length <= len(digits):  # a length of 0 would not move on
            break
        found[key] = value
        at += length
    return found


class Member(NamedTuple):
    """A file in an archive: name as stored, bytes if known, seconds since the epoch, and how to read it."""

    name: str
    size: int | None
    mtime: float | None
    origin: Callable[[], Iterator[bytes]]


def _tar_data(pipe: Pipe, left: list[int]) -> Iterator[bytes]:
    """Yield a member's bytes; ``left[0]`` counts down what remains, also for whoever skips the rest."""
    while left[0]:
        data = pipe.take(min(left[0], CHUNK))
        if not data:
            raise BrokenStream("broken_archive", "the archive ends early")
        left[0] -= len(data)
        yield data


def tar_members(pipe: Pipe) -> Iterator[Member | Problem]:
    """Walk a tar forwards: old, ustar, GNU and pax headers; links are passed over, their target is in the archive too.

    Of a GNU sparse file the stored parts are delivered without the holes, which only hold NUL. Raises BrokenStream
    where the archive ends early or is damaged. Source of the layout: POSIX pax, GNU tar manual "Basic Tar Format".
    """
    extra: dict[bytes, bytes] = {}
    while block := pipe.take(512):
        if not block.strip(b"\0"):
            return
        if len(block) < 512:
            raise BrokenStream("broken_archive", "the archive ends early")
        size = tar_number(block[124:136])
        kind = block[156:157]
        if not tar_sum_ok(block) or size < 0:
            raise BrokenStream("broken_archive", "damaged header in the archive")
        if kind in b"LxKgX":
            data = pipe.take(min(size, NAME_MAX))
            if not pipe.skip(size - len(data) + -size % 512):
                raise BrokenStream("broken_archive", "the archive ends early")
            if kind == b"L":
                extra[b"path"] = data.rstrip(b"\0")
            elif kind in b"xX":
                extra.update(_pax(data))
            continue
        name = block[:100].partition(b"\0")[0]
        if block[257:263] == b"ustar\0" and block[345]:  # GNU uses the place of the prefix for other things
            name = block[345:500].partition(b"\0")[0] + b"/" + name
        name = extra.get(b"GNU.sparse.name", extra.get(b"path", name))
        told = extra.get(b"size", b"")
        size = int(told) if told.isdigit() and len(told) < 20 else size
        extra = {}
        if kind in b"123456":  # links, devices, folders, fifos: no data follows
            continue
        if kind == b"S" and block[482]:
            while (more := pipe.take(512)) and more[504:505].strip(b"\0"):
                pass
        padded = size + -size % 512
        left = [size]
        member = Pipe(_tar_data(pipe, left))
        if kind in (b"\0", b"0", b"7", b"S") and not name.endswith(b"/"):
            once = Once(member, KEEP)
            yield Member(_text(name), size, float(max(0, tar_number(block[136:148]))), once)
            once.state = "gone"
        if not pipe.skip(padded - size + left[0]):
            raise BrokenStream("broken_archive", "the archive ends early")


class _Directory:
    """A file object for :class:`zipfile.ZipFile` that refuses to read a directory of absurd size into memory."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._most = most
        self.seek = file.seek
        self.tell = file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size > self._most:
            raise BrokenStream("too_many", f"the archive's directory alone has {size} bytes")
        return self._file.read(size if size >= 0 else self._most)


def _read_at(file: IO[bytes], at: int, size: int) -> bytes:
    """Read at an offset that an archive named; other members may be read in between."""
    if file.closed:
        raise BrokenStream("unreadable", "read after the archive was read on")
    try:
        file.seek(at)
        return file.read(size)
    except (ValueError, OverflowError):
        raise BrokenStream("broken_archive", "a place outside the archive") from None


def _zip_data(file: IO[bytes], entry: "zipfile.ZipInfo", limits: Limits, total: Meter) -> Iterator[bytes]:
    """Yield the bytes of a member; ``total`` counts over all members: they may overlap in a hostile archive.

    Not by :mod:`zipfile`, which inflates bz2 members without a bound. Source of the layout: PKWARE APPNOTE 4.3.7.
    """
    import zlib

    head = _read_at(file, entry.header_offset, 30)
    if len(head) < 30 or head[:4] != b"PK\x03\x04":
        raise BrokenStream("broken_archive", "no member where the directory says")
    start = entry.header_offset + 30 + int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")

    def stored() -> Iterator[bytes]:
        at, left = start, entry.compress_size
        while left:
            data = _read_at(file, at, min(left, CHUNK))
            if not data:
                raise BrokenStream("broken_archive", "the archive ends early")
            at += len(data)
            left -= len(data)
            yield data

    chunks = stored()
    if entry.compress_type == 8:
        chunks = decoded(Pipe(chunks), decoder_of("deflate"), Meter(limits))
    elif entry.compress_type == 12:
        chunks = unpacked(Pipe(chunks), "bz2", Meter(limits))
    seen = 0
    for chunk in chunks:
        seen = zlib.crc32(chunk, seen)
        total.went += len(chunk)
        yield chunk
        total.check()
    if seen != entry.CRC:
        raise BrokenStream("broken_archive", "check sum differs: the data is damaged")


def _zip_name(name: str, flags: int) -> str:
    """A member's name; without the UTF-8 flag :mod:`zipfile` took its bytes for code page 437."""
    if not flags & 0x800:
        try:
            return _text(name.encode("cp437"))
        except UnicodeEncodeError:
            pass
    return name


def zip_members(file: IO[bytes], limits: Limits) -> Iterator[Member | Problem]:
    """Walk a zip in natural order. Raises BrokenStream if it is damaged or, all members together, a bomb."""
    import time
    import zipfile
    from functools import partial

    whole = file.seek(0, os.SEEK_END)
    try:
        most = limits.max_files * 512 + NAME_MAX
        entries = zipfile.ZipFile(cast(Any, _Directory(file, most))).infolist()
    except BrokenStream:
        raise
    except Exception as error:  # on hostile directories zipfile raises nearly anything, struct.error for one
        raise BrokenStream("broken_archive", f"{error}" or type(error).__name__) from None
    total = Meter(limits)
    total.came = whole
    encrypted = 0
    for entry in sorted(entries, key=lambda entry: natural_key(entry.filename)):
        unix = entry.external_attr >> 16
        shown = _zip_name(entry.filename, entry.flag_bits)
        if shown.endswith("/") or stat.S_ISLNK(unix):
            continue
        if entry.flag_bits & 1:
            encrypted += 1
            continue
        if entry.compress_type not in (0, 8, 12):
            yield Problem(shown, "unreadable", f"zip compression method {entry.compress_type} is not supported")
            continue
        try:
            mtime: float | None = time.mktime((*entry.date_time, 0, 0, -1))
        except (ValueError, OverflowError):
            mtime = None
        yield Member(shown, entry.file_size, mtime, partial(_zip_data, file, entry, limits, total))
        total.check()
    if encrypted:
        yield Problem("", "encrypted", f"{encrypted} members need a password")
