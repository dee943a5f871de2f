"""What a file is by its first bytes, and what its name says of it.

Content decides, not names: compression, archives and UTF-16 are told by their first bytes, so a rotated
``worker_0.log.1`` may be gzip and ``x.gz`` may be plain text. A name only decides where the bytes leave it open.
"""

import codecs
import re

from doctor.scan.lazy import lazy

HEAD = 1 << 13
"""Bytes judged for "text or not"."""
_NAME_END = 255  # of a name, as much as is searched for its ending: a name in an archive may have 65,535 bytes

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


def what_is(name: str, head: bytes) -> str:
    """What the first bytes of a file say: "text", "binary", or the packing it is in (gz, tar, zip, utf-16-le …)."""
    return kind_of(head) or ("binary" if is_binary(name, head) else "text")


def named_like_log(name: str) -> bool:
    return name.endswith((".log", ".out", ".err", ".txt")) or bool(_LOG_NAME.search(name[-_NAME_END:]))


def named_like_binary(name: str) -> bool:
    return name[-_NAME_END:].rpartition(".")[2].lower() in _BINARY_NAMES


def shown_name(path: str) -> str:
    """The name under which :func:`expand` shows a file."""
    return printable(path.removeprefix("./"))


def printable(name: str) -> str:
    """Make ``name`` safe for a terminal; bytes of a file name that are not UTF-8 become U+FFFD."""
    if name.isprintable():
        return name
    return _UNSAFE.sub("", name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


def kind_of(head: bytes) -> str:
    """Tell gz, bz2, xz, zip, tar, utf-16-le, utf-16-be, the name of another archiver, or "" from the first bytes."""
    if head.startswith(b"\x1f\x8b\x08"):
        return "gz"
    if head.startswith(b"\xfd7zXZ\0"):
        return "xz"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bz2"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    if len(head) >= 512 and tar_sum_ok(head[:512]):
        return "tar"
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    return next((kind for magic, kind in _OTHER_ARCHIVES if head.startswith(magic)), "")


def is_binary(name: str, head: bytes) -> bool:
    """Judge the first bytes of a file; what is named like a log is binary only with the magic of a binary format.

    Logs hold junk bytes, and one run of NUL where a rotation truncated them under the writer, so neither alone counts.
    """
    if head.startswith(_BINARY_MAGICS) or (head[7:10] == b'\0{"' and head[0]):  # the last: safetensors
        return True
    if not head or named_like_log(name):
        return False
    head = head[:HEAD]
    text = head.replace(b"\0", b"")
    odd = len(text) - len(text.translate(None, _ODD_BYTES))
    if named_like_binary(name) and (odd or len(text) < len(head)):
        return True
    return not text or odd * 20 > len(text) or len(re.findall(rb"\0+", head)) > 3


def tar_number(field: bytes) -> int:
    """Value of a numeric tar field: octal digits, or base 256 if the top bit is set; -1 if neither."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else -1
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else -1


def tar_sum_ok(block: bytes) -> bool:
    """Whether 512 bytes carry the check sum of a tar header (unsigned, or signed as old writers counted)."""
    told = tar_number(block[148:156])
    if told <= 0:  # a text has no octal number there, so this answers nearly always
        return False
    counted = block[:148] + b" " * 8 + block[156:]
    plain = sum(counted)
    return told in (plain, plain - 256 * sum(byte > 127 for byte in counted))
