"""A private folder for compiled rules: data only, owned by the user, never needed.

Nothing executable is kept here (no pickle, no marshal). Every blob is checked before use and rebuilt when it is
damaged, so a read-only or hostile home costs time and nothing else.
"""

from __future__ import annotations

import os
import zlib


def folder() -> str | None:
    """The cache folder, created with mode 0700, or None if there can be no private one."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = os.environ.get("DOCTOR_CACHE") or os.path.join(base, "mindspore-doctor")
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        seen = os.lstat(path)
        if seen.st_uid != os.getuid() or seen.st_mode & 0o022 or not os.path.isdir(path):
            return None
    except (OSError, ValueError):
        return None
    return path


def read(name: str) -> bytes | None:
    """The blob kept under ``name``, None if there is none or it is damaged."""
    where = folder()
    if where is None:
        return None
    try:
        with open(os.path.join(where, name), "rb", buffering=0) as file:
            data = file.read()
    except OSError:
        return None
    if len(data) < 4 or zlib.crc32(memoryview(data)[4:]) != int.from_bytes(data[:4], "little"):
        return None
    return data[4:]


def open_checked(name: str) -> bytes | None:
    """The blob kept under ``name``, mapped rather than read, if its first line is whole; what follows the line is
    checked by its reader. None if there is none or the line is damaged."""
    where = folder()
    if where is None:
        return None
    import mmap

    try:
        with open(os.path.join(where, name), "rb", buffering=0) as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    end = data.find(b"\n", 4)
    if end < 0 or zlib.crc32(data[4 : end + 1]) != int.from_bytes(data[:4], "little"):
        return None
    return data  # type: ignore[return-value]


def write_checked(name: str, blob: bytes) -> None:
    """Keep a blob for ``open_checked``."""
    end = blob.index(b"\n") + 1
    _write(name, zlib.crc32(blob[:end]).to_bytes(4, "little") + blob)


KEEP = 4


def _prune(where: str, kind: str) -> None:
    """Leave the newest blobs of a kind; every change of the rules makes a new one."""
    entries = [e for e in os.scandir(where) if e.name.startswith(kind + "-")]
    for entry in sorted(entries, key=lambda e: -e.stat().st_mtime_ns)[KEEP:]:
        os.unlink(entry.path)


def write(name: str, blob: bytes) -> None:
    """Keep ``blob`` under ``name`` for ``read``."""
    _write(name, zlib.crc32(blob).to_bytes(4, "little") + blob)


def _write(name: str, data: bytes) -> None:
    """Write a file of the cache; silently not if the folder cannot be written."""
    where = folder()
    if where is None:
        return
    path = os.path.join(where, name)
    spare = f"{path}.{os.getpid()}"
    try:
        fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
        os.replace(spare, path)
        _prune(where, name.split("-", maxsplit=1)[0])
    except OSError:
        try:
            os.unlink(spare)
        except OSError:
            pass
