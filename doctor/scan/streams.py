"""Streams of bytes: files, pipes and what is packed in gzip, xz or bz2, with every bound that hostile input needs.

Memory stays bounded whatever the input claims. A stream that ends early gives everything that could be read first.
"""

import codecs
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, BinaryIO, NamedTuple, Protocol, cast

from doctor.scan.filetype import kind_of

_BLOCK = 1 << 16  # bytes a decoder gives at once; also the most that is lost before a damaged place
_FIRST = 1 << 14  # first read of a file: all that is needed to tell what it is
CHUNK = 1 << 17
KEEP = 1 << 16
"""Bytes of the head that are kept of a stream that cannot be rewound, so that short members can be opened again."""
_RATIO_FLOOR = 256 << 20  # a ratio says nothing about small outputs
_SPOOL_MEMORY = 8 << 20
_SPOOL_MAX = 512 << 20  # an inner zip must be seekable, so it is copied to an anonymous temporary file
_XZ_MEMORY = 192 << 20  # xz -9 needs 65 MiB; a hostile header may ask for 4 GiB


class Problem(NamedTuple):
    """Something named or found that could not be read.

    ``code`` is one of: missing, no_logs (folder, glob or archive without readable text), denied, broken_archive, bomb
    (a limit exceeded), too_many, binary, not_regular (fifo, device, socket), encrypted, unreadable (any other error).
    ``detail`` is a short technical remark in English; sentences for the user belong to the interface.
    """

    name: str
    code: str
    detail: str


class Limits(NamedTuple):
    """Bounds on what one call of :func:`expand` reads.

    ``max_files`` sources; ``max_member_bytes`` decompressed bytes of one source; ``max_ratio`` decompressed over
    compressed bytes, judged once more than 256 MiB came out; ``max_depth`` nested containers, where ``x.tar.gz`` counts
    as one and ``x.log.gz`` inside it as the second.
    """

    max_files: int = 20_000
    max_member_bytes: int = 64 << 30
    max_ratio: int = 200
    max_depth: int = 2


DEFAULT_LIMITS = Limits()


class BrokenStream(OSError):
    """A stream ended early. Raised by ``read`` only after everything that could be read was delivered.

    An ``OSError``, so that one ``except OSError`` around ``open`` and ``read`` covers plain files as well; ``code`` and
    ``detail`` are those of :class:`Problem`.
    """

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type["BrokenStream"], tuple[str, str]]:
        return BrokenStream, (self.code, self.detail)


def problem(name: str, error: OSError) -> Problem:
    """Turn what ``Source.open()`` or ``read()`` raised into a :class:`Problem`."""
    if isinstance(error, BrokenStream):
        return Problem(name, error.code, error.detail)
    detail = error.strerror or type(error).__name__
    if isinstance(error, PermissionError):
        return Problem(name, "denied", detail)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return Problem(name, "missing", detail)
    return Problem(name, "unreadable", detail)


class Source:
    """One stream of bytes to read: a file, an archive member or standard input.

    ``name`` is shown to the user (control characters removed); ``path`` is set only for a regular file whose bytes are
    delivered unchanged, so it may be mapped or read in parallel; ``size`` is in bytes as delivered, None if unknown;
    ``mtime`` in seconds since the epoch, None if unknown.

    Sources of files can be opened any time, any number of times, and pickled. A source from an archive is valid only
    until the next item is drawn from :func:`expand`; in a tar, and for standard input, a second ``open`` works only
    while no more than the first 64 KiB was read.
    """

    __slots__ = ("_layers", "_limits", "_origin", "mtime", "name", "path", "size")

    def __init__(
        self,
        name: str,
        path: str | None,
        size: int | None,
        mtime: float | None,
        *,
        origin: Callable[[], Iterator[bytes]],
        layers: tuple[str, ...] = (),
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.name = name
        self.path = path
        self.size = size
        self.mtime = mtime
        self._origin = origin
        self._layers = layers
        self._limits = limits

    def __repr__(self) -> str:
        return f"Source({self.name!r}, path={self.path!r}, size={self.size!r})"

    def open(self) -> BinaryIO:
        """Open the decompressed bytes from the start; UTF-16 with a byte order mark is delivered as UTF-8.

        ``read(n)`` may return fewer than ``n`` bytes only before the end of the stream, before an error, or on standard
        input, which is delivered as it comes; ``b""`` means the end. Raises OSError, of which :class:`BrokenStream` is
        one kind, here or in ``read``.
        """
        if self.path is not None:
            return os.fdopen(open_regular(self.path), "rb", buffering=CHUNK)
        base = self._origin()
        pipe = Pipe(base, base, eager=isinstance(base, Arriving))
        for layer in self._layers:
            pipe = pipe.through(layer, self._limits)
        return cast(BinaryIO, Pipe(_capped(pipe.chunks(), self._limits), pipe, eager=pipe.eager))


class _Closable(Protocol):
    def close(self) -> None: ...


class Pipe(io.RawIOBase):
    """Bytes read from an iterator of chunks; an error is kept back until all bytes before it were read."""

    def __init__(self, chunks: Iterator[bytes], below: object = None, eager: bool = False) -> None:
        self._chunks = chunks
        self._below = below  # closed with this pipe: a generator that never started does not close what it reads
        self._buffer = b""
        self._at = 0
        self.error: BrokenStream | None = None
        self.eager = eager

    def readable(self) -> bool:
        return True

    def _more(self) -> bytes:
        """Give the next chunk from below, ``b""`` at the end."""
        if self.error is not None:
            raise self.error
        try:
            for chunk in self._chunks:
                if chunk:
                    return chunk
        except OSError as error:
            self.error = error if isinstance(error, BrokenStream) else BrokenStream(*problem("", error)[1:])
            raise self.error from None
        return b""

    def chunk(self) -> bytes:
        """Give the bytes at hand, else the next chunk; ``b""`` at the end."""
        if self._at < len(self._buffer):
            data, self._buffer, self._at = self._buffer[self._at :], b"", 0
            return data
        return self._more()

    def chunks(self) -> Iterator[bytes]:
        """Iterate over the rest."""
        while data := self.chunk():
            yield data

    def unread(self, data: bytes) -> None:
        """Put ``data`` back in front."""
        self._buffer = data + self._buffer[self._at :]
        self._at = 0

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes, fewer only at the end or before an error."""
        parts: list[bytes] = []
        while size > 0:
            if self._at < len(self._buffer):
                part = self._buffer[self._at : self._at + size]
                self._at += len(part)
            else:
                try:
                    part = self._more()
                except BrokenStream:
                    if parts:
                        break
                    raise
                if not part:
                    break
                if len(part) > size:
                    self._buffer, self._at = part, size
                    part = part[:size]
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def peek(self, size: int = 1) -> bytes:
        """Show at least ``size`` bytes, fewer only at the end or before an error (raised when read, not here)."""
        if len(self._buffer) - self._at < size:
            parts = [self._buffer[self._at :]]
            have = len(parts[0])
            try:
                while have < size and (part := self._more()):
                    parts.append(part)
                    have += len(part)
            except BrokenStream:
                pass
            self._buffer, self._at = b"".join(parts), 0
        return self._buffer[self._at :] if self._at else self._buffer

    def skip(self, size: int) -> bool:
        """Pass over ``size`` bytes; False if the stream is shorter. Seeks where the pipe reads a file directly."""
        at_hand = min(size, len(self._buffer) - self._at)
        self._at += at_hand
        size -= at_hand
        if isinstance(self._chunks, FileChunks) and size > CHUNK:
            return self._chunks.skip(size)
        while size:
            part = self.take(min(size, CHUNK))
            if not part:
                return False
            size -= len(part)
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        if self.closed:
            raise ValueError("read of a closed stream")
        if size is None or size < 0:
            parts = []
            try:
                while part := self.chunk():
                    parts.append(part)
            except BrokenStream:
                if not parts:
                    raise
            return b"".join(parts)
        if self.eager and size:
            size = min(size, len(self.peek()) or size)  # what has come, without waiting for more
        return self.take(size)

    def read1(self, size: int = -1, /) -> bytes:
        """Read what one step below gives, at most ``size`` bytes."""
        if size == 0:
            return b""
        ready = self.peek()
        return self.take(len(ready) if size < 0 else min(size, len(ready))) if ready else self.take(1)

    def readall(self) -> bytes:
        return self.read(-1)

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def through(self, layer: str, limits: Limits) -> "Pipe":
        """Lay a decoder (gz, xz, bz2, utf-16-le, utf-16-be) over this pipe."""
        if layer.startswith("utf-16"):
            chunks = _utf8(self, layer)
        else:
            meter = Meter(limits)
            chunks = _gunzip(self, meter) if layer == "gz" else unpacked(self, layer, meter)
        return Pipe(chunks, self, eager=self.eager)

    def close(self) -> None:
        if not self.closed:
            super().close()
            for part in (self._chunks, self._below):
                if hasattr(part, "close"):
                    cast(_Closable, part).close()


class FileChunks:
    """Chunks of a regular file, the first one small: often it is all that is wanted."""

    fd = -1

    def __init__(self, path: str) -> None:
        self.fd = open_regular(path)
        self.want = _FIRST

    def __iter__(self) -> "FileChunks":
        return self

    def __next__(self) -> bytes:
        data = os.read(self.fd, self.want) if self.fd >= 0 else b""
        self.want = CHUNK
        if not data:
            raise StopIteration
        return data

    def skip(self, size: int) -> bool:
        """Pass over ``size`` > 0 bytes; reading the last of them tells whether they exist."""
        try:
            os.lseek(self.fd, size - 1, os.SEEK_CUR)
        except (OSError, OverflowError):  # farther than a file can be long
            return False
        return len(os.read(self.fd, 1)) == 1

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    __del__ = close


class Arriving:
    """Chunks of a stream that is read as it comes and only once: standard input or a pipe."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)

    def __iter__(self) -> "Arriving":
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)


class Once:
    """Origin of a stream that cannot be rewound; its head is kept, so opening again works until more was read."""

    def __init__(self, pipe: Pipe, want: int) -> None:
        self.pipe = pipe
        self.head = pipe.peek(want)
        pipe.take(len(self.head))
        self.whole = len(self.head) < want
        self.state = "fresh"

    def _chunks(self) -> Iterator[bytes]:
        yield self.head
        if self.whole:
            if self.pipe.error is not None:
                raise self.pipe.error
            return
        if self.state == "fresh":
            self.state = "used"
            yield from self.pipe.chunks()
        elif self.state == "used":
            raise BrokenStream("unreadable", "this stream can be read only once")
        if self.state == "gone":
            raise BrokenStream("unreadable", "read after the archive was read on")

    def __call__(self) -> Iterator[bytes]:
        if self.state != "fresh" and not self.whole:
            raise BrokenStream("unreadable", "this stream can be read only once")
        return Arriving(self._chunks()) if self.pipe.eager else self._chunks()


class FileOrigin:
    """Origin of a file that is decoded on the way; a class so that it can be pickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> Iterator[bytes]:
        return FileChunks(self.path)


def open_regular(path: str) -> int:
    """Open a regular file for reading; O_NONBLOCK, because it may have become a fifo since it was looked at."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BrokenStream("not_regular", "no longer a regular file")
    return fd


class Meter:
    """Counts what a decoder takes and gives, and ends a decompression bomb."""

    def __init__(self, limits: Limits) -> None:
        self.ratio = limits.max_ratio
        self.came = 0
        self.went = 0

    def check(self) -> None:
        """Raise BrokenStream if far more came out than such logs hold."""
        if self.went > _RATIO_FLOOR and self.went > self.ratio * self.came:
            raise BrokenStream("bomb", f"{self.came} bytes expand to more than {self.went} (limit {self.ratio} : 1)")


def _capped(chunks: Iterator[bytes], limits: Limits) -> Iterator[bytes]:
    """Pass on at most ``limits.max_member_bytes`` bytes, then raise BrokenStream."""
    left = limits.max_member_bytes
    for chunk in chunks:
        if len(chunk) > left:
            yield chunk[:left]
            raise BrokenStream("bomb", f"more than {limits.max_member_bytes} bytes")
        left -= len(chunk)
        yield chunk


class _Decoder(Protocol):
    """The interface that bz2, lzma and isal share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zlib:
    """The standard library's raw inflate with the interface of :class:`_Decoder`."""

    def __init__(self) -> None:
        import zlib

        self._inner = zlib.decompressobj(-15)
        self._full = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not (self._full or self._inner.unconsumed_tail or self._inner.eof)

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max(0, max_length))
        self._full = len(out) == max_length  # then more may be waiting inside although all input was taken
        return out


def decoder_of(kind: str) -> _Decoder:
    """A fresh decoder of one stream: deflate (no header), xz or bz2."""
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    if kind == "bz2":
        import bz2

        return bz2.BZ2Decompressor()
    try:
        from isal import igzip_lib
    except ImportError:
        return _Zlib()
    return cast(_Decoder, igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_DEFLATE))


def decoded(pipe: Pipe, decoder: _Decoder, meter: Meter) -> Iterator[bytes]:
    """Yield one decoded stream and put what follows it back into ``pipe``."""
    while not decoder.eof:
        data = b""
        if decoder.needs_input:
            data = pipe.chunk()
            if not data:
                raise BrokenStream("broken_archive", "compressed data ends early")
            meter.came += len(data)
        try:
            out = decoder.decompress(data, _BLOCK)
        except Exception as error:  # each library has its own classes, isal's derive from Exception itself
            code = "bomb" if "emory usage limit" in str(error) else "broken_archive"
            raise BrokenStream(code, f"compressed data is damaged: {error}") from None
        if out:
            meter.went += len(out)
            yield out
            meter.check()
        elif not data and not decoder.needs_input and not decoder.eof:
            raise BrokenStream("broken_archive", "compressed data is damaged")
    pipe.unread(decoder.unused_data)
    meter.came -= len(decoder.unused_data)


def _skip_padding(pipe: Pipe) -> bool:
    """Pass over zero bytes after a stream; False at the end."""
    while ready := pipe.peek():
        rest = ready.lstrip(b"\0")
        pipe.take(len(ready) - len(rest))
        if rest:
            return True
    if pipe.error is not None:
        raise pipe.error
    return False


def _gunzip(pipe: Pipe, meter: Meter) -> Iterator[bytes]:
    """Decode gzip members one after another.

    Header and check sum are read here, because decoders withhold the last block when the sum is wrong, and the last
    lines of a log are the ones that matter. Source of the layout: RFC 1952.
    """
    import zlib

    first = True
    while first or _skip_padding(pipe):
        head = pipe.take(10)
        if not first and not head.startswith(b"\x1f\x8b\x08"):
            raise BrokenStream("broken_archive", "bytes after the end of the gzip data")
        first = False
        flags = head[3] if len(head) == 10 else 0
        if flags & 4:
            pipe.skip(int.from_bytes(pipe.take(2), "little"))
        for flag in (8, 16):  # file name, comment: up to a NUL
            if flags & flag:
                while (data := pipe.chunk()) and b"\0" not in data:
                    pass
                pipe.unread(data[data.find(b"\0") + 1 :])
        if flags & 2:
            pipe.take(2)
        crc = length = 0
        for out in decoded(pipe, decoder_of("deflate"), meter):
            crc = zlib.crc32(out, crc)
            length += len(out)
            yield out
        tail = pipe.take(8)
        if len(tail) < 8:
            raise BrokenStream("broken_archive", "compressed data ends early")
        if int.from_bytes(tail[:4], "little") != crc or int.from_bytes(tail[4:], "little") != length & 0xFFFFFFFF:
            raise BrokenStream("broken_archive", "check sum differs: the data is damaged")


def unpacked(pipe: Pipe, kind: str, meter: Meter) -> Iterator[bytes]:
    """Decode xz or bz2 streams one after another."""
    yield from decoded(pipe, decoder_of(kind), meter)
    while _skip_padding(pipe):
        if kind_of(pipe.peek(16)) != kind:
            raise BrokenStream("broken_archive", f"bytes after the end of the {kind} data")
        yield from decoded(pipe, decoder_of(kind), meter)


def _utf8(pipe: Pipe, encoding: str) -> Iterator[bytes]:
    """Transcode UTF-16 to UTF-8; what is not valid becomes U+FFFD."""
    pipe.take(2)  # byte order mark
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in pipe.chunks():
        yield decoder.decode(chunk).encode("utf-8")
    yield decoder.decode(b"", True).encode("utf-8")


class Waiting:
    """Whether a read waits for data at the moment: only then may a signal handler break it off with an exception."""

    now = False


def arriving(stream: IO[bytes]) -> Iterator[bytes]:
    """Chunks of ``stream`` as they come."""
    read = getattr(stream, "read1", stream.read)
    try:
        while True:
            Waiting.now = True
            try:
                data = read(_BLOCK)
            finally:
                Waiting.now = False
            if not data:
                return
            yield data
    except ValueError as error:  # closed under us
        raise BrokenStream("unreadable", str(error)) from None


def spooled(pipe: Pipe) -> IO[bytes]:
    """Copy the rest of ``pipe`` to an anonymous temporary file, in memory while it is small."""
    import tempfile

    file = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=_SPOOL_MEMORY))  # noqa: SIM115 - the caller closes it
    try:
        room = _SPOOL_MAX
        for chunk in pipe.chunks():
            room -= len(chunk)
            if room < 0:
                raise BrokenStream("bomb", f"an inner zip of more than {_SPOOL_MAX >> 20} MiB; unpack the outer one")
            file.write(chunk)
    except BaseException:
        file.close()
        raise
    return file
