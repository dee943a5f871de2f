"""What a host is: something that answers four kinds of question with ``Raw``, and never raises."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Protocol

from doctor.model import Raw

TEXT_LIMIT = 1 << 20
"""Characters kept of one answer: the largest real one, a full dmesg, has half of that."""


class Host(Protocol):
    """A machine that can be asked. ``live`` is False where nothing is asked any more (a recording)."""

    name: str
    live: bool

    def run(self, *argv: str, limit: float = 10.0) -> Raw:
        """Output of a read-only command, ended after ``limit`` seconds."""
        ...

    def read(self, path: str, size: int = TEXT_LIMIT) -> Raw:
        """Text of a regular file, at most ``size`` bytes of it."""
        ...

    def look(self, pattern: str) -> Raw:
        """Files that match a glob, as JSON: [{path, kind, mode, user, group, size, target, r, w}], sorted by path."""
        ...

    def ask(self, what: str) -> Raw:
        """An answer of the doctor's own (``doctor.hosts.sensors``), as JSON."""
        ...


def run_key(argv: tuple[str, ...]) -> str:
    """The key of a command: ``run npu-smi info``."""
    return "run " + shlex.join(argv)


def title(key: str) -> str:
    """A key as people write it: the command, the path, the name of the question."""
    kind, _, rest = key.partition(" ")
    return rest if kind in ("run", "file", "look") else f"doctor:{rest}"


class MemoryHost:
    """A host made of texts: a recording, a paste, an example in a rule.

    ``raws`` maps keys to answers. What is not there is ``missing`` if the texts are the whole truth (``absent``), else
    ``not_recorded``.
    """

    live = False

    def __init__(self, raws: Mapping[str, Raw | str], name: str = "", *, absent: bool = False) -> None:
        self.name, self.absent = name, absent
        self.raws = {key: Raw(key, "ok", raw, code=0) if isinstance(raw, str) else raw for key, raw in raws.items()}

    def _answer(self, key: str) -> Raw:
        found = self.raws.get(key)
        if found is not None:
            return found
        if self.absent and not key.startswith("ask "):
            # a glob without a match is an answer, a missing file and a missing command are states
            return Raw(key, "ok", "[]") if key.startswith("look ") else Raw(key, "missing")
        return Raw(key, "not_recorded")

    def run(self, *argv: str, limit: float = 10.0) -> Raw:
        return self._answer(run_key(argv))

    def read(self, path: str, size: int = TEXT_LIMIT) -> Raw:
        raw = self._answer(f"file {path}")
        return raw._replace(out=raw.out[:size], cut=True) if len(raw.out) > size else raw

    def look(self, pattern: str) -> Raw:
        return self._answer(f"look {pattern}")

    def ask(self, what: str) -> Raw:
        return self._answer(f"ask {what}")


def data_of(raw: Raw) -> Any:
    """The JSON value of a ``look`` or ``ask`` answer, None if there is none or it is damaged."""
    if raw.state != "ok":
        return None
    try:
        return json.loads(raw.out)
    except (ValueError, RecursionError):
        return None
