"""Recordings: every raw answer of a host as files, made on one machine and judged on any other.

A recording is a folder, or a ``.tar.gz`` of one: ``manifest.json`` names the questions and, for each, the file with the
answer. It is read into memory, never unpacked; whatever it holds is data.
"""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from doctor import __version__
from doctor.hosts.base import TEXT_LIMIT, Host, MemoryHost
from doctor.model import Raw

SCHEMA = "doctor.recording/1"
MANIFEST = "manifest.json"
ITEMS, TOTAL = 20_000, 256 << 20
"""Answers and bytes a recording may have: a host of 16 devices has 400 answers and 2 MB."""


class RecordingError(ValueError):
    """A recording that cannot be used; ``code`` names the text ``recording.<code>`` of the interface."""

    def __init__(self, code: str, path: str, detail: str = "") -> None:
        super().__init__(f"{path}: {code}{': ' if detail else ''}{detail}")
        self.code, self.path, self.detail = code, path, detail


class Recorder:
    """A host that keeps every answer of another one."""

    def __init__(self, host: Host) -> None:
        self.host, self.name, self.live = host, host.name, host.live
        self.raws: dict[str, Raw] = {}
        self._lock = threading.Lock()

    def _keep(self, raw: Raw) -> Raw:
        with self._lock:
            self.raws[raw.key] = raw
        return raw

    def run(self, *argv: str, limit: float = 10.0) -> Raw:
        return self._keep(self.host.run(*argv, limit=limit))

    def read(self, path: str, size: int = TEXT_LIMIT) -> Raw:
        return self._keep(self.host.read(path, size))

    def look(self, pattern: str) -> Raw:
        return self._keep(self.host.look(pattern))

    def ask(self, what: str) -> Raw:
        return self._keep(self.host.ask(what))


def save(raws: Mapping[str, Raw], path: str, name: str, *, redacted: bool) -> int:
    """Write a recording to a new folder or a new ``.tar.gz``; returns the number of answers.

    Raises FileExistsError rather than writing over anything, and OSError.
    """
    files: dict[str, str] = {}
    items = []
    for n, key in enumerate(sorted(raws), 1):
        raw = raws[key]
        item: dict[str, Any] = {"key": key, "state": raw.state, "code": raw.code, "seconds": raw.seconds}
        if raw.cut:
            item["cut"] = True
        for stream, text in (("out", raw.out), ("err", raw.err)):
            if text:
                item[stream] = f"answers/{n:04d}.{stream}.txt"
                files[item[stream]] = text
        items.append(item)
    manifest = {
        "schema": SCHEMA,
        "tool": f"mindspore-doctor {__version__}",
        "made": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": name,
        "redacted": redacted,
        "items": items,
    }
    files[MANIFEST] = json.dumps(manifest, ensure_ascii=False, indent=1) + "\n"
    if path.endswith((".tar.gz", ".tgz")):
        with open(path, "xb") as file:
            try:
                _pack(file, files)
                file.flush()
            except OSError:
                # a full disk: half an archive is none, and would be in the way of the next one
                os.unlink(path)
                raise
        return len(items)
    os.makedirs(os.path.join(path, "answers"))
    made: list[str] = []
    try:
        for member, text in files.items():
            place = os.path.join(path, member)
            with open(place, "x", encoding="utf-8", errors="surrogatepass", newline="") as out:
                made.append(place)
                out.write(text)
    except OSError:
        for place in made:
            os.unlink(place)
        os.rmdir(os.path.join(path, "answers"))
        os.rmdir(path)
        raise
    return len(items)


def _pack(file: BinaryIO, files: Mapping[str, str]) -> None:
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for member in sorted(files):
            data = files[member].encode("utf-8", "surrogatepass")
            info = tarfile.TarInfo(f"recording/{member}")
            info.size, info.mtime = len(data), int(time.time())
            archive.addfile(info, io.BytesIO(data))


def load(path: str) -> MemoryHost:
    """A recording as a host: a folder, a ``.tar.gz``, or a composed one (``.yaml``, see ``doctor.hosts.compose``).

    Raises RecordingError with one of: missing, denied, not_one, newer, damaged, too_large.
    """
    try:
        if os.path.isdir(path):
            return _load(path, _from_folder(path))
        if not stat.S_ISREG(os.stat(path).st_mode):
            # opening a pipe would wait for its writer
            raise RecordingError("not_one", path)
        if path.endswith((".yaml", ".yml")):
            from doctor.hosts.compose import load as load_composed

            return load_composed(path)
        with open(path, "rb") as file:
            if file.read(2) != b"\x1f\x8b":
                raise RecordingError("not_one", path)
        return _load(path, _from_archive(path))
    except FileNotFoundError:
        raise RecordingError("missing", path) from None
    except PermissionError:
        raise RecordingError("denied", path) from None
    except (OSError, tarfile.TarError, EOFError, ValueError, TypeError, RecursionError) as error:
        # TypeError: what tarfile says of a gzip header that ends early
        if isinstance(error, RecordingError):
            raise
        raise RecordingError("damaged", path, str(error)[:200]) from None


def _from_folder(path: str) -> Callable[[str], str]:
    root = os.path.realpath(path)
    left = [TOTAL]

    def read(name: str) -> str:
        full = os.path.realpath(os.path.join(root, name))
        if not full.startswith(root + os.sep):
            raise RecordingError("damaged", path, f"{name!r} lies outside")
        if name == MANIFEST and not os.path.exists(full):
            raise RecordingError("not_one", path)
        if not os.path.isfile(full):
            raise RecordingError("damaged", path, f"{name!r} is missing")
        with open(full, "rb") as file:
            data = file.read(TOTAL if name == MANIFEST else 4 * TEXT_LIMIT)
        left[0] -= len(data)
        if left[0] < 0:
            raise RecordingError("too_large", path)
        return data.decode("utf-8", "replace")

    return read


def _from_archive(path: str) -> Callable[[str], str]:
    texts: dict[str, str] = {}
    total = 0
    with tarfile.open(path, "r|gz") as archive:
        for count, member in enumerate(archive):
            if count > 3 * ITEMS:
                raise RecordingError("too_large", path)
            if not member.isreg():
                continue
            total += member.size
            if total > TOTAL:
                raise RecordingError("too_large", path)
            file = archive.extractfile(member)
            name = member.name.removeprefix("./")
            # the answers stand in one folder whose name does not matter
            name = name if name.startswith(("answers/", MANIFEST)) else name.partition("/")[2]
            if file is not None and name not in texts:
                texts[name] = file.read().decode("utf-8", "replace")
    if MANIFEST not in texts:
        raise RecordingError("not_one", path)

    def read(name: str) -> str:
        if name not in texts:
            raise RecordingError("damaged", path, f"{name!r} is missing")
        return texts[name]

    return read


_STATES = frozenset(("ok", "missing", "denied", "timeout", "failed", "killed", "refused", "not_recorded"))


def _load(path: str, read: Callable[[str], str]) -> MemoryHost:
    manifest = json.loads(read(MANIFEST))
    if not isinstance(manifest, dict) or not str(manifest.get("schema", "")).startswith("doctor.recording/"):
        raise RecordingError("not_one", path)
    if manifest["schema"] != SCHEMA:
        raise RecordingError("newer", path, str(manifest["schema"])[:40])
    items = manifest.get("items")
    if not isinstance(items, list):
        raise RecordingError("damaged", path, "no items")
    if len(items) > ITEMS:
        raise RecordingError("too_large", path)
    raws: dict[str, Raw] = {}
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("key"), str) or item.get("state") not in _STATES:
            raise RecordingError("damaged", path, f"item {len(raws) + 1}")
        texts = {}
        for stream in ("out", "err"):
            name = item.get(stream)
            if name is not None and not isinstance(name, str):
                raise RecordingError("damaged", path, f"item {len(raws) + 1}")
            texts[stream] = read(name) if name else ""
        code, seconds = item.get("code"), item.get("seconds")
        raws[item["key"]] = Raw(
            item["key"], item["state"], texts["out"], texts["err"], code if isinstance(code, int) else None,
            float(seconds) if isinstance(seconds, (int, float)) else 0.0, bool(item.get("cut")),
        )  # fmt: skip
    return MemoryHost(raws, str(manifest.get("host") or "recording")[:100])


__all__ = ["Recorder", "RecordingError", "load", "save"]
