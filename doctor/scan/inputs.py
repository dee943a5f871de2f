"""From what the user names (files, folders, globs, archives, ``-``) to streams of bytes.

:func:`expand` yields a :class:`Source` for everything that may be text and a :class:`Problem` for everything the user
should hear about; it never raises for what it finds on disk. Content decides, not names: compression, archives and
UTF-16 are told by their first bytes, so a rotated ``worker_0.log.1`` may be gzip and ``x.gz`` may be plain text.

Order: inputs as given; inside a folder its files, then its sub-folders, each in natural order (``worker_2`` before
``worker_10``), symbolic links last, so that a file reached twice keeps its real name; zip members in natural order; tar
members as stored, because a compressed tar can only be read forwards.

Nothing is extracted: names in archives are for display only. Memory stays bounded whatever the input claims. Archives
are parsed here rather than by :mod:`tarfile`, which reads extension headers of any size into memory.
"""

import codecs
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, cast

from doctor.scan.lazy import lazy

if TYPE_CHECKING:
    import zipfile

__all__ = [
    "BrokenStream", "Limits", "Problem", "Source", "expand", "natural_key", "plain_files", "problem", "shown_name",
    "what_is",
]  # fmt: skip

STDIN_NAME = "<stdin>"

_BLOCK = 1 << 16  # bytes a decoder gives at once; also the most that is lost before a damaged place
_FIRST = 1 << 14  # first read of a file: all that is needed to tell what it is
_CHUNK = 1 << 17
_HEAD = 1 << 13  # bytes judged for "text or not"
_KEEP = 1 << 16  # head kept of a stream that cannot be rewound, so that short members can be opened again
_RATIO_FLOOR = 256 << 20  # a ratio says nothing about small outputs
_SPOOL_MEMORY = 8 << 20
_SPOOL_MAX = 512 << 20  # an inner zip must be seekable, so it is copied to an anonymous temporary file
_XZ_MEMORY = 192 << 20  # xz -9 needs 65 MiB; a hostile header may ask for 4 GiB
_NAME_MAX = 1 << 16  # longest extended header of a tar that is read
_NAME_END = 255  # of a name, as much as is searched for its ending: a name in an archive may have 65,535 bytes
_LOOK_FACTOR = 10  # files looked at (binaries too) per file that may be yielded


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


_DEFAULT_LIMITS = Limits()


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
        limits: Limits = _DEFAULT_LIMITS,
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
            return os.fdopen(_open_regular(self.path), "rb", buffering=_CHUNK)
        base = self._origin()
        pipe = _Pipe(base, base, eager=isinstance(base, _Arriving))
        for layer in self._layers:
            pipe = pipe.through(layer, self._limits)
        return cast(BinaryIO, _Pipe(_capped(pipe.chunks(), self._limits), pipe, eager=pipe.eager))


def natural_key(name: str) -> tuple[object, ...]:
    """Sort key under which ``worker_2`` comes before ``worker_10`` and a folder's content stays together.

    Digit runs compare by value without being converted: a name may hold thousands of digits.

    >>> sorted(["w10", "w2", "W1"], key=natural_key)
    ['W1', 'w2', 'w10']
    """
    parts: list[object] = []
    for place, part in enumerate(re.split("([0-9]+)", name.replace("/", "\0").lower())):
        digits = part.lstrip("0") if place % 2 else ""
        parts.append((len(digits), digits) if place % 2 else part)
    return tuple(parts), name


def expand(inputs: Sequence[str], limits: Limits = _DEFAULT_LIMITS) -> Iterator[Source | Problem]:
    """Yield what there is to read under ``inputs``: files, folders, globs, archives, or ``-`` for standard input.

    A source that came from an archive must be read before the next item is drawn. A file reached twice (named twice,
    hard link, symbolic link) is yielded once. In folders, globs and archives hidden files, version control and cache
    folders and files that are plainly binary are passed over in silence; a file the user named is always answered, and
    a ``.log`` is never passed over. Empty files are sources of size 0.

    Never raises for what is found; stops with a ``too_many`` problem at ``limits.max_files`` sources.
    """
    run = _Run(limits)
    for given in inputs:
        for found in run.given(given):
            if isinstance(found, Source):
                if run.left <= 0:
                    yield run.too_many(given)
                    return
                run.left -= 1
            yield found
            if run.stopped:
                return


def plain_files(inputs: Sequence[str], most: int) -> Iterator[tuple[str, os.stat_result]]:
    """(path, status) of the regular files that :func:`expand` would meet, each once, without opening any and in no
    certain order: for a folder that is looked at again and again. Names that are not there give nothing."""
    seen: set[tuple[int, int]] = set()
    left = most

    def is_new(status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        fresh = not status.st_ino or key not in seen
        seen.add(key)
        return fresh

    ahead: list[tuple[str, bool]] = []
    for given in inputs:
        name = os.path.expanduser(given) if given.startswith("~") and not os.path.lexists(given) else given
        if re.search(r"[*?\[]", name) and not os.path.lexists(name):
            import glob

            ahead += ((path, False) for path in glob.glob(name, recursive=True))
        else:
            ahead.append((name, False))
    links: list[tuple[str, bool]] = []
    while left > 0 and (ahead or links):
        if not ahead:
            ahead, links = links, []  # so that a file reached twice keeps its real name
        path, in_cache = ahead.pop()
        try:
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                if is_new(status):
                    left -= 1
                    yield path, status
                continue
            if not stat.S_ISDIR(status.st_mode) or not is_new(status):
                continue
            in_cache = in_cache or os.path.basename(path).startswith(_CACHE_DIRS)
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        if not _passed_over(entry.name, in_cache) and os.path.realpath(entry.path) not in _SYSTEM_DIRS:
                            links.append((entry.path, in_cache))
                    elif entry.is_dir():
                        if not _passed_over(entry.name, False) and os.path.abspath(entry.path) not in _SYSTEM_DIRS:
                            ahead.append((entry.path, in_cache))
                    elif not _passed_over(entry.name, in_cache) and entry.is_file():
                        status = entry.stat()
                        if is_new(status):
                            left -= 1
                            yield entry.path, status
                            if left <= 0:
                                return
        except (OSError, ValueError):
            continue  # gone or closed meanwhile; the report at the end says what could not be read


def what_is(name: str, head: bytes) -> str:
    """What the first bytes of a file say: "text", "binary", or the packing it is in (gz, tar, zip, utf-16-le …)."""
    return _kind(head) or ("binary" if _is_binary(name, head) else "text")


# --- what is it ------------------------------------------------------------------------------------------------------

_ODD_BYTES = bytes([*range(1, 7), *range(14, 27), *range(28, 32), 127])  # control bytes that no log writer prints
_LOG_NAME = lazy(r"\.(?:log|out|err|stdout|stderr|txt)(?:[._-][0-9A-Za-z._-]*)?$", re.IGNORECASE)
# fmt: off
_BINARY_NAMES = frozenset((
    "ckpt", "safetensors", "pt", "pth", "bin", "mindir", "air", "om", "onnx", "mindrecord", "tfrecord", "npy", "npz",
    "pkl", "pickle", "h5", "so", "o", "a", "ko", "exe", "pyc", "pyo", "pyd", "whl", "egg", "jar", "png", "jpg",
    "jpeg", "gif", "bmp", "ico", "webp", "pdf", "docx", "xlsx", "pptx", "mp3", "mp4", "ttf", "woff", "woff2", "db",
    "sqlite", "sqlite3", "parquet",
))
# fmt: on
_BINARY_MAGICS = (
    *(b"\x7fELF", b"\x89PNG", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"%PDF-", b"\x93NUMPY", b"\x89HDF", b"PAR1"),
    *(
        b"SQLite format 3\0",
        b"!<arch>\n",
        b"\x80\x02}",
        b"\x80\x02]",
        b"\x80\x03}",
        b"\x80\x03]",
        b"\x80\x04\x95",
        b"\x80\x05\x95",
    ),
)
_OTHER_ARCHIVES = ((b"\x28\xb5\x2f\xfd", "zstd"), (b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "rar"))
_UNSAFE = lazy("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")  # also marks that reorder text
_SKIP_DIRS = frozenset(("__pycache__", "node_modules", "CVS", "__MACOSX", "lost+found", "site-packages"))
_CACHE_DIRS = ("kernel_meta", "graph_cache", "som_meta")  # compiler caches: thousands of files, but logs too
_SYSTEM_DIRS = frozenset(("/proc", "/sys", "/dev"))  # reading there may block or act on the machine
_OWN_PIPE = lazy(r"^/(?:dev|proc/self)/fd/[0-9]+$")  # the shell's <(command)


def _named_like_log(name: str) -> bool:
    return name.endswith((".log", ".out", ".err", ".txt")) or bool(_LOG_NAME.search(name[-_NAME_END:]))


def _named_like_binary(name: str) -> bool:
    return name[-_NAME_END:].rpartition(".")[2].lower() in _BINARY_NAMES


def shown_name(path: str) -> str:
    """The name under which :func:`expand` shows a file."""
    return _shown(path.removeprefix("./"))


def _shown(name: str) -> str:
    """Make ``name`` safe for a terminal; bytes of a file name that are not UTF-8 become U+FFFD."""
    if name.isprintable():
        return name
    return _UNSAFE.sub("", name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def _kind(head: bytes) -> str:
    """Tell gz, bz2, xz, zip, tar, utf-16-le, utf-16-be, the name of another archiver, or "" from the first bytes."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gz"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if len(head) >= 512 and _tar_sum_ok(head[:512]):
        return "tar"
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    return next((kind for magic, kind in _OTHER_ARCHIVES if head.startswith(magic)), "")


def _is_binary(name: str, head: bytes) -> bool:
    """Judge the first bytes of a file; what is named like a log is binary only with the magic of a binary format.

    Logs hold junk bytes, and one run of NUL where a rotation truncated them under the writer, so neither alone counts.
    """
    if head.startswith(_BINARY_MAGICS) or (head[7:10] == b'\0{"' and head[0]):  # the last: safetensors
        return True
    if not head or _named_like_log(name):
        return False
    head = head[:_HEAD]
    text = head.replace(b"\0", b"")
    odd = len(text) - len(text.translate(None, _ODD_BYTES))
    if _named_like_binary(name) and (odd or len(text) < len(head)):
        return True
    return not text or odd * 20 > len(text) or len(re.findall(rb"\0+", head)) > 3


# --- streams ---------------------------------------------------------------------------------------------------------


class _Closable(Protocol):
    def close(self) -> None: ...


class _Pipe(io.RawIOBase):
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
        if isinstance(self._chunks, _FileChunks) and size > _CHUNK:
            return self._chunks.skip(size)
        while size:
            part = self.take(min(size, _CHUNK))
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

    def through(self, layer: str, limits: Limits) -> "_Pipe":
        """Lay a decoder (gz, xz, bz2, utf-16-le, utf-16-be) over this pipe."""
        if layer.startswith("utf-16"):
            chunks = _utf8(self, layer)
        else:
            meter = _Meter(limits)
            chunks = _gunzip(self, meter) if layer == "gz" else _unpacked(self, layer, meter)
        return _Pipe(chunks, self, eager=self.eager)

    def close(self) -> None:
        if not self.closed:
            super().close()
            for part in (self._chunks, self._below):
                if hasattr(part, "close"):
                    cast(_Closable, part).close()


class _FileChunks:
    """Chunks of a regular file, the first one small: often it is all that is wanted."""

    fd = -1

    def __init__(self, path: str) -> None:
        self.fd = _open_regular(path)
        self.want = _FIRST

    def __iter__(self) -> "_FileChunks":
        return self

    def __next__(self) -> bytes:
        data = os.read(self.fd, self.want) if self.fd >= 0 else b""
        self.want = _CHUNK
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


class _Arriving:
    """Chunks of a stream that is read as it comes and only once: standard input or a pipe."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)

    def __iter__(self) -> "_Arriving":
        return self

    def __next__(self) -> bytes:
        return next(self._chunks)


class _Once:
    """Origin of a stream that cannot be rewound; its head is kept, so opening again works until more was read."""

    def __init__(self, pipe: _Pipe, want: int) -> None:
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
        return _Arriving(self._chunks()) if self.pipe.eager else self._chunks()


class _FileOrigin:
    """Origin of a file that is decoded on the way; a class so that it can be pickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> Iterator[bytes]:
        return _FileChunks(self.path)


def _open_regular(path: str) -> int:
    """Open a regular file for reading; O_NONBLOCK, because it may have become a fifo since it was looked at."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    fd = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise BrokenStream("not_regular", "no longer a regular file")
    return fd


class _Meter:
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


def _decoder(kind: str) -> _Decoder:
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


def _decoded(pipe: _Pipe, decoder: _Decoder, meter: _Meter) -> Iterator[bytes]:
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


def _skip_padding(pipe: _Pipe) -> bool:
    """Pass over zero bytes after a stream; False at the end."""
    while ready := pipe.peek():
        rest = ready.lstrip(b"\0")
        pipe.take(len(ready) - len(rest))
        if rest:
            return True
    if pipe.error is not None:
        raise pipe.error
    return False


def _gunzip(pipe: _Pipe, meter: _Meter) -> Iterator[bytes]:
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
        for out in _decoded(pipe, _decoder("deflate"), meter):
            crc = zlib.crc32(out, crc)
            length += len(out)
            yield out
        tail = pipe.take(8)
        if len(tail) < 8:
            raise BrokenStream("broken_archive", "compressed data ends early")
        if int.from_bytes(tail[:4], "little") != crc or int.from_bytes(tail[4:], "little") != length & 0xFFFFFFFF:
            raise BrokenStream("broken_archive", "check sum differs: the data is damaged")


def _unpacked(pipe: _Pipe, kind: str, meter: _Meter) -> Iterator[bytes]:
    """Decode xz or bz2 streams one after another."""
    yield from _decoded(pipe, _decoder(kind), meter)
    while _skip_padding(pipe):
        if _kind(pipe.peek(16)) != kind:
            raise BrokenStream("broken_archive", f"bytes after the end of the {kind} data")
        yield from _decoded(pipe, _decoder(kind), meter)


def _utf8(pipe: _Pipe, encoding: str) -> Iterator[bytes]:
    """Transcode UTF-16 to UTF-8; what is not valid becomes U+FFFD."""
    pipe.take(2)  # byte order mark
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in pipe.chunks():
        yield decoder.decode(chunk).encode("utf-8")
    yield decoder.decode(b"", True).encode("utf-8")


# --- archives --------------------------------------------------------------------------------------------------------


def _tar_number(field: bytes) -> int:
    """Value of a numeric tar field: octal digits, or base 256 if the top bit is set; -1 if neither."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else -1
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else -1


def _tar_sum_ok(block: bytes) -> bool:
    """Whether 512 bytes carry the check sum of a tar header (unsigned, or signed as old writers counted)."""
    told = _tar_number(block[148:156])
    if told <= 0:  # a text has no octal number there, so this answers nearly always
        return False
    counted = block[:148] + b" " * 8 + block[156:]
    plain = sum(counted)
    return told in (plain, plain - 256 * sum(byte > 127 for byte in counted))


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


class _Member(NamedTuple):
    """A file in an archive: name as stored, bytes if known, seconds since the epoch, and how to read it."""

    name: str
    size: int | None
    mtime: float | None
    origin: Callable[[], Iterator[bytes]]


def _tar_data(pipe: _Pipe, left: list[int]) -> Iterator[bytes]:
    """Yield a member's bytes; ``left[0]`` counts down what remains, also for whoever skips the rest."""
    while left[0]:
        data = pipe.take(min(left[0], _CHUNK))
        if not data:
            raise BrokenStream("broken_archive", "the archive ends early")
        left[0] -= len(data)
        yield data


def _tar_members(pipe: _Pipe) -> Iterator[_Member | Problem]:
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
        size = _tar_number(block[124:136])
        kind = block[156:157]
        if not _tar_sum_ok(block) or size < 0:
            raise BrokenStream("broken_archive", "damaged header in the archive")
        if kind in b"LxKgX":
            data = pipe.take(min(size, _NAME_MAX))
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
        member = _Pipe(_tar_data(pipe, left))
        if kind in (b"\0", b"0", b"7", b"S") and not name.endswith(b"/"):
            once = _Once(member, _KEEP)
            yield _Member(_text(name), size, float(max(0, _tar_number(block[136:148]))), once)
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


def _zip_data(file: IO[bytes], entry: "zipfile.ZipInfo", limits: Limits, total: _Meter) -> Iterator[bytes]:
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
            data = _read_at(file, at, min(left, _CHUNK))
            if not data:
                raise BrokenStream("broken_archive", "the archive ends early")
            at += len(data)
            left -= len(data)
            yield data

    chunks = stored()
    if entry.compress_type == 8:
        chunks = _decoded(_Pipe(chunks), _decoder("deflate"), _Meter(limits))
    elif entry.compress_type == 12:
        chunks = _unpacked(_Pipe(chunks), "bz2", _Meter(limits))
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


def _zip_members(file: IO[bytes], limits: Limits) -> Iterator[_Member | Problem]:
    """Walk a zip in natural order. Raises BrokenStream if it is damaged or, all members together, a bomb."""
    import time
    import zipfile
    from functools import partial

    whole = file.seek(0, os.SEEK_END)
    try:
        most = limits.max_files * 512 + _NAME_MAX
        entries = zipfile.ZipFile(cast(Any, _Directory(file, most))).infolist()
    except BrokenStream:
        raise
    except Exception as error:  # on hostile directories zipfile raises nearly anything, struct.error for one
        raise BrokenStream("broken_archive", f"{error}" or type(error).__name__) from None
    total = _Meter(limits)
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
        yield _Member(shown, entry.file_size, mtime, partial(_zip_data, file, entry, limits, total))
        total.check()
    if encrypted:
        yield Problem("", "encrypted", f"{encrypted} members need a password")


# --- the walk --------------------------------------------------------------------------------------------------------


def _passed_over(name: str, in_cache: bool) -> bool:
    """Whether a walk leaves out a file or folder of this name: hidden, or not a log inside a compiler's cache."""
    return name.startswith(".") or name in _SKIP_DIRS or (in_cache and not _named_like_log(name))


class _Run:
    """What one call of :func:`expand` has seen and used up."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.max_files
        self.looked = 0  # files and members whose content was judged
        self.repeats = 0  # files met again
        self.stopped = False
        self.seen: set[tuple[int, int]] = set()
        self.stdin_taken = False

    def too_many(self, name: str) -> Problem:
        self.stopped = True
        return Problem(_shown(name), "too_many", f"stopped; at most {self.limits.max_files} files are read")

    def _may_look(self) -> bool:
        self.looked += 1
        return self.looked <= _LOOK_FACTOR * self.limits.max_files

    def _is_new(self, status: os.stat_result) -> bool:
        """Whether this file or folder was not met before; where the system has no inode numbers all are new."""
        key = (status.st_dev, status.st_ino)
        if status.st_ino and key in self.seen:
            return False
        self.seen.add(key)
        return True

    def given(self, given: str) -> Iterator[Source | Problem]:
        """Answer one input of the user, with ``no_logs`` if there is nothing else to say."""
        looked, repeats, nothing = self.looked, self.repeats, True
        try:
            for found in self._named(given):
                nothing = False
                yield found
        except ValueError as error:  # a name the system cannot express, a closed stdin
            yield Problem(_shown(given), "unreadable", str(error))
        except OSError as error:
            yield problem(_shown(given), error)
        else:
            if nothing and self.repeats == repeats:
                judged = self.looked - looked
                yield Problem(_shown(given), "no_logs", f"{judged} files, none of them readable text" if judged else "")

    def _named(self, given: str) -> Iterator[Source | Problem]:
        path = given
        if "\0" in given:
            raise FileNotFoundError(2, "no file name holds a NUL")
        if given in ("-", "/dev/stdin"):
            yield from self._stdin()
            return
        if path.startswith("~") and not os.path.lexists(path):
            path = os.path.expanduser(path)
        if any(mark in path for mark in "*?[") and not os.path.lexists(path):
            yield from self._glob(path)
            return
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path)
        elif stat.S_ISFIFO(status.st_mode) and _OWN_PIPE.match(path):
            with open(path, "rb", buffering=0) as stream:
                yield from self._stream(given, stream)
        else:
            yield from self._file(path, status, explicit=True)

    def _stdin(self) -> Iterator[Source | Problem]:
        if self.stdin_taken:
            self.repeats += 1
            return
        self.stdin_taken = True
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            yield Problem(STDIN_NAME, "missing", "there is no standard input")
        elif stream.isatty():  # nothing to judge before the user has pasted
            once = _Once(_Pipe(_arriving(stream), eager=True), 0)
            yield Source(STDIN_NAME, None, None, None, origin=once, limits=self.limits)
        else:
            yield from self._stream(STDIN_NAME, stream)

    def _stream(self, name: str, stream: IO[bytes]) -> Iterator[Source | Problem]:
        """Answer a stream that can only be read forwards; its first bytes are awaited here."""
        once = _Once(_Pipe(_arriving(stream), eager=True), 8)
        yield from self._judged(_shown(name), _Pipe(once(), eager=True), once, None, None, explicit=True)

    def _glob(self, pattern: str) -> Iterator[Source | Problem]:
        import glob
        from itertools import islice

        found = islice(glob.iglob(pattern, recursive=True), _LOOK_FACTOR * self.limits.max_files + 1)
        paths = sorted(found, key=natural_key)
        if not paths:
            yield Problem(_shown(pattern), "missing", "nothing matches this pattern")
        for path in paths:
            if os.path.isdir(path):
                yield from self._folder(path)
            else:
                yield from self._met(path)

    def _folder(self, top: str) -> Iterator[Source | Problem]:
        """Walk a folder; not recursively in Python, so that depth does not matter."""
        ahead = [(top, False)]
        while ahead:
            folder, in_cache = ahead.pop()
            files: list[tuple[bool, tuple[object, ...], str]] = []
            folders: list[tuple[bool, tuple[object, ...], str]] = []
            try:
                if not self._is_new(os.stat(folder)):
                    self.repeats += folder == top
                    continue
                in_cache = in_cache or os.path.basename(folder).startswith(_CACHE_DIRS)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        link = entry.is_symlink()
                        try:
                            is_folder = entry.is_dir()
                        except OSError:  # a link to itself, for one: answered as a file
                            is_folder = False
                        if is_folder:
                            real = os.path.realpath(entry.path) if link else os.path.abspath(entry.path)
                            if not _passed_over(entry.name, False) and real not in _SYSTEM_DIRS:
                                folders.append((link, natural_key(entry.name), entry.path))
                        elif not _passed_over(entry.name, in_cache):
                            files.append((link, natural_key(entry.name), entry.path))
                        if len(files) + len(folders) > _LOOK_FACTOR * self.limits.max_files:
                            break  # more than will be looked at: the files below end the walk
            except OSError as error:
                yield problem(_shown(folder), error)
            for _, _, path in sorted(files):
                yield from self._met(path)
                if self.stopped:
                    return
            ahead += ((path, in_cache) for _, _, path in sorted(folders, reverse=True))

    def _met(self, path: str) -> Iterator[Source | Problem]:
        """Answer a file met on a walk."""
        try:
            status = os.stat(path)
        except OSError as error:
            detail = "broken symbolic link" if os.path.islink(path) else error.strerror
            yield problem(_shown(path), error)._replace(detail=detail or "")
        else:
            yield from self._file(path, status, explicit=False)

    def _file(self, path: str, status: os.stat_result, explicit: bool) -> Iterator[Source | Problem]:
        name = shown_name(path)
        if not stat.S_ISREG(status.st_mode):
            yield Problem(name, "not_regular", "a fifo, socket or device, not a file")
            return
        if not self._is_new(status):
            self.repeats += 1
            return
        if not self._may_look():
            yield self.too_many(name)
            return
        try:
            base = _FileChunks(path)
        except OSError as error:
            yield problem(name, error)
            return
        with _Pipe(base, base) as pipe:
            yield from self._judged(
                name, pipe, _FileOrigin(path), status.st_size, status.st_mtime, explicit=explicit, path=path
            )

    def _judged(
        self,
        name: str,
        pipe: _Pipe,
        origin: Callable[[], Iterator[bytes]],
        size: int | None,
        mtime: float | None,
        *,
        explicit: bool,
        path: str | None = None,
        depth: int = 0,
    ) -> Iterator[Source | Problem]:
        """Tell what ``pipe`` holds and answer with a source, a problem, what is inside, or nothing.

        ``origin`` opens the same bytes again; ``path`` is the file they come from, if they come from one directly;
        ``depth`` is the number of containers around it; ``explicit``: the user named it, so it must be answered.
        """
        layers: tuple[str, ...] = ()
        want = 8 if pipe.eager else _HEAD
        bare = name
        while (kind := _kind(head := pipe.peek(want))) in ("gz", "xz", "bz2"):
            depth += 1
            if depth > self.limits.max_depth:
                yield self._too_deep(name)
                return
            layers += (kind,)
            bare = bare[: -len(kind) - 1] if bare.lower().endswith("." + kind) else bare
            pipe = pipe.through(kind, self.limits)
        if pipe.error is not None and not head:
            yield problem(name, pipe.error)
            return
        if kind in ("tar", "zip"):
            depth += not layers
            if not explicit and _named_like_binary(name):  # weights, wheels and documents are zip files too
                return
            if depth > self.limits.max_depth:
                yield self._too_deep(name)
                return
            yield from self._members(name, kind, pipe, None if layers else path, depth)
            return
        if kind.startswith("utf-16"):
            layers += (kind,)
            pipe = pipe.through(kind, self.limits)
            head = pipe.peek(want)
        elif kind:
            yield Problem(name, "unreadable", f"{kind} data is not supported; unpack it first")
            return
        if _is_binary(bare, head):
            if explicit or _named_like_log(bare):
                yield Problem(name, "binary", "not text")
            return
        if layers:
            size = None if head else 0
            if isinstance(origin, _Once):  # looking inside may have used up more than the head that is kept
                origin, layers = _Once(pipe, want if pipe.eager else _KEEP), ()
        elif not head:
            size = size or 0
        elif not size:  # files of /proc say 0
            size = path = None
        path = None if layers else path
        yield Source(name, path, size, mtime, origin=origin, layers=layers, limits=self.limits)

    def _too_deep(self, name: str) -> Problem:
        return Problem(name, "bomb", f"packed more than {self.limits.max_depth} times over; unpack the outer archive")

    def _members(self, name: str, kind: str, pipe: _Pipe, path: str | None, depth: int) -> Iterator[Source | Problem]:
        """Answer what is in an archive; ``path`` is set if the archive is a file of its own."""
        file: IO[bytes] | None = None
        try:
            if kind == "zip":
                file = _spooled(pipe) if path is None else os.fdopen(_open_regular(path), "rb")
            for member in _tar_members(pipe) if file is None else _zip_members(file, self.limits):
                parts = [part for part in member.name[-4096:].split("/") if part not in ("", ".")]
                shown = name + "!" + _shown("/".join(parts)) if parts else name
                if isinstance(member, Problem):
                    yield member._replace(name=shown)
                    continue
                if not self._may_look():
                    yield self.too_many(name)
                    return
                in_cache = any(part.startswith(_CACHE_DIRS) for part in parts[:-1])
                folders_out = any(part != ".." and _passed_over(part, False) for part in parts[:-1])
                if not parts or folders_out or _passed_over(parts[-1], in_cache):
                    continue
                yield from self._judged(
                    shown,
                    _Pipe(member.origin()),
                    member.origin,
                    member.size,
                    member.mtime,
                    explicit=False,
                    depth=depth,
                )
                if self.stopped:
                    return
        except OSError as error:
            yield problem(name, error)
        finally:
            if file is not None:
                file.close()


class Waiting:
    """Whether a read waits for data at the moment: only then may a signal handler break it off with an exception."""

    now = False


def _arriving(stream: IO[bytes]) -> Iterator[bytes]:
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


def _spooled(pipe: _Pipe) -> IO[bytes]:
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
