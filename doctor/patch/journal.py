"""What was changed, and the old bytes, in a private folder: one folder for each patch, data only.

An entry is written before the first file is touched, so that a killed run can be undone too.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from typing import Any, NamedTuple

from doctor.patch.plan import Patch, digest
from doctor.patch.spans import Refused

STATES = ("begun", "done", "refused", "undone")
KEEP = 400
STALE = 600
"""Seconds behind which a begun patch is no more at work."""
_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")


class Changed(NamedTuple):
    """One file of an entry: digests before and after, the number of its old content, and the lines that differ."""

    path: str
    real: str
    before: str
    after: str
    number: int
    edits: tuple[tuple[str, str, str], ...] = ()


class Entry(NamedTuple):
    """One applied patch. ``time`` in seconds since the epoch."""

    id: str
    time: float
    state: str
    rules: tuple[str, ...]
    files: tuple[Changed, ...]
    temps: tuple[str, ...] = ()


def default_folder() -> str:
    """Where the journal is kept unless told otherwise."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.environ.get("DOCTOR_JOURNAL") or os.path.join(base, "mindspore-doctor", "journal")


class Journal:
    """The journal in a folder. Raises Refused where the folder is not private or cannot be written."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder or default_folder()

    def _open(self) -> None:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            seen = os.stat(self.folder)
        except OSError as error:
            raise Refused("journal", path=self.folder, why=error.strerror or type(error).__name__) from None
        if seen.st_uid != os.geteuid() or seen.st_mode & 0o022:
            raise Refused("journal_open", path=self.folder)

    def begin(self, patch: Patch, temps: list[str]) -> str:
        """Write down what is about to be done; returns the id."""
        self._open()
        self.tidy()
        now = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S-", time.localtime(now))
        names = (stamp + secrets.token_hex(2) for _ in range(100))
        name = next((n for n in names if not os.path.lexists(os.path.join(self.folder, n))), stamp + "0000")
        files = tuple(
            Changed(f.path, f.real, digest(f.before), digest(f.after), n,
                    tuple((e.key, e.old[:2000], e.new[:2000]) for e in f.changes))
            for n, f in enumerate(patch.files)
        )  # fmt: skip
        where = os.path.join(self.folder, name)
        try:
            os.mkdir(where, mode=0o700)
            for n, file in enumerate(patch.files):
                _write(os.path.join(where, f"old-{n}"), file.before)
            self._save(Entry(name, now, "begun", patch.rules, files, tuple(temps)))
        except OSError as error:
            raise Refused("journal", path=where, why=error.strerror or type(error).__name__) from None
        return name

    def _save(self, entry: Entry) -> None:
        data = entry._asdict() | {"files": [file._asdict() for file in entry.files]}
        where = os.path.join(self.folder, entry.id)
        spare = os.path.join(where, "entry.new")
        _write(spare, json.dumps(data, ensure_ascii=False, indent=1).encode("utf-8", "surrogateescape"))
        os.replace(spare, os.path.join(where, "entry.json"))

    def finish(self, entry_id: str, state: str) -> None:
        """Note how a patch ended. A journal that cannot be written now still has what an undo needs."""
        entry = self._read(entry_id)
        if entry is not None:
            try:
                self._save(entry._replace(state=state, temps=()))
            except OSError:
                pass

    def _read(self, entry_id: str) -> Entry | None:
        try:
            with open(os.path.join(self.folder, entry_id, "entry.json"), "rb") as file:
                data = json.loads(file.read(8 << 20).decode("utf-8", "surrogateescape"))
            files = tuple(
                Changed(str(f["path"]), str(f["real"]), str(f["before"]), str(f["after"]), int(f["number"]),
                        tuple((str(a), str(b), str(c)) for a, b, c in f["edits"]))
                for f in data["files"]
            )  # fmt: skip
            if data["state"] not in STATES:
                return None
            return Entry(entry_id, float(data["time"]), data["state"], tuple(map(str, data["rules"])), files,
                         tuple(map(str, data["temps"])))  # fmt: skip
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def entries(self) -> list[Entry]:
        """All readable entries, the newest first."""
        try:
            names = [name for name in os.listdir(self.folder) if _ID.fullmatch(name)]
        except OSError:
            return []
        found = [entry for name in names if (entry := self._read(name)) is not None]
        return sorted(found, key=lambda entry: (-entry.time, entry.id))

    def find(self, entry_id: str = "") -> Entry:
        """An entry that can be undone: by its id or the beginning of it, else the newest. Raises Refused."""
        every = self.entries()
        if entry_id:
            own = [e for e in every if e.id == entry_id] or [e for e in every if e.id.startswith(entry_id)]
            if len(own) != 1:
                raise Refused("no_entry" if not own else "several_entries", id=entry_id)
            if own[0].state in ("undone", "refused"):
                raise Refused("undone", id=own[0].id)
            return own[0]
        for entry in every:
            if entry.state in ("done", "begun"):
                return entry
        raise Refused("no_entries")

    def content(self, entry: Entry, file: Changed) -> bytes:
        """The old bytes of a file. Raises Refused if they are not what they were."""
        where = os.path.join(self.folder, entry.id, f"old-{file.number}")
        try:
            with open(where, "rb") as stream:
                data = stream.read()
        except OSError as error:
            raise Refused("journal", path=where, why=error.strerror or type(error).__name__) from None
        if digest(data) != file.before:
            raise Refused("journal_damaged", id=entry.id)
        return data

    def tidy(self) -> None:
        """Take away what killed runs left beside the files, and all but the newest entries."""
        every = self.entries()
        for entry in every:
            own = {os.path.dirname(file.real) for file in entry.files}
            for temp in entry.temps if entry.state == "begun" and time.time() - entry.time > STALE else ():
                name = os.path.basename(temp)
                if os.path.dirname(temp) in own and re.fullmatch(r"\.doctor-[0-9a-f]{16}\.tmp", name):
                    _unlink(temp)
        for entry in every[KEEP:]:
            where = os.path.join(self.folder, entry.id)
            for name in (*(f"old-{file.number}" for file in entry.files), "entry.json", "entry.new"):
                _unlink(os.path.join(where, name))
            try:
                os.rmdir(where)
            except OSError:
                continue


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry for ``--format json``."""
    return {
        "id": entry.id, "time": entry.time, "state": entry.state, "rules": list(entry.rules),
        "files": [{"path": f.path, "edits": [{"key": k, "from": a, "to": b} for k, a, b in f.edits]}
                  for f in entry.files],
    }  # fmt: skip
