"""What a user chose and looked at, kept between runs: language, theme, marks, the last inputs, recent paths.

Never what was pasted, and nothing that looks like a secret. The file is private and small; a damaged, foreign or
oversized one counts as none. ``DOCTOR_STATE=off`` keeps nothing, ``DOCTOR_STATE=FOLDER`` keeps it there.
"""

from __future__ import annotations

import json
import os
from typing import Any

from doctor.render.safe import printable, redact

SCHEMA = "doctor.state/1"
NAME = "state.json"
SIZE = 64 << 10
"""Bytes of the largest file that is read: the fullest one that is written is smaller."""
RECENT = 12
"""Paths that are remembered."""
INPUTS = 32
"""Input lines that are remembered."""
LENGTH = 1024
"""Characters of the longest value kept. RECENT + INPUTS of them, in the worst escapes of JSON, do not fit into SIZE;
then nothing is written."""


def folder() -> str:
    """Where the file is; empty if nothing is to be kept."""
    said = os.environ.get("DOCTOR_STATE", "")
    if said.lower() in ("off", "0", "no"):
        return ""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return said or os.path.join(base, "mindspore-doctor")


def harmless(text: str) -> bool:
    """Whether a value may be kept: one line, not too long, no secret and no control characters in it."""
    return 0 < len(text) <= LENGTH and printable(text) == text and "\n" not in text and redact(text) == text


class State:
    """Values in memory; with a ``folder`` also in a file there, written at each change. Never raises."""

    def __init__(self, where: str = "") -> None:
        self._where = where
        self.choices: dict[str, str] = {}
        """what was switched: language, theme, ascii ("yes" or "no")"""
        self.inputs: dict[str, str] = {}
        """what stood in input lines, by their name, the last one at the end"""
        self.recent: list[str] = []
        """absolute paths that were diagnosed or looked at, the last one first"""
        if where:
            self._read()

    def choose(self, name: str, value: str) -> None:
        """Remember a switch."""
        if self.choices.get(name) != value:
            self.choices[name] = value
            self._write()

    def remember(self, name: str, text: str) -> None:
        """Remember what stood in an input line; an empty text forgets it."""
        if self.inputs.get(name, "") == text or (text and not harmless(text)):
            return
        self.inputs.pop(name, None)
        if text:
            self.inputs[name] = text
            while len(self.inputs) > INPUTS:
                del self.inputs[next(iter(self.inputs))]
        self._write()

    def recall(self, name: str) -> str:
        """What stood in an input line the last time."""
        return self.inputs.get(name, "")

    def visit(self, path: str) -> None:
        """Remember a path that was used. What does not exist is not one."""
        try:
            path = os.path.abspath(path)
            if not harmless(path) or not os.path.exists(path):
                return
        except (OSError, ValueError):
            return
        self.recent = [path, *(one for one in self.recent if one != path)][:RECENT]
        self._write()

    def forget(self) -> None:
        """Forget inputs and paths; the switches stay."""
        self.inputs, self.recent = {}, []
        self._write()

    def _read(self) -> None:
        try:
            handle = os.open(
                os.path.join(self._where, NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            )
            with open(handle, "rb") as file:
                seen = os.fstat(file.fileno())
                if seen.st_uid != os.getuid() or seen.st_size > SIZE:
                    return
                data = json.loads(file.read(SIZE))
        except (OSError, ValueError, RecursionError):
            return
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            return
        self.choices = _texts(data.get("choices"))
        self.inputs = dict(list(_texts(data.get("inputs")).items())[-INPUTS:])
        recent = data.get("recent")
        if isinstance(recent, list):
            self.recent = [one for one in recent if isinstance(one, str) and harmless(one) and one[0] == "/"][:RECENT]

    def _write(self) -> None:
        """Into a new file that takes the place of the old one: two doctors at once leave one whole file."""
        if not self._where:
            return
        content = {"schema": SCHEMA, "choices": self.choices, "inputs": self.inputs, "recent": self.recent}
        data = json.dumps(content, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        if len(data) > SIZE:
            return
        new = os.path.join(self._where, f".{NAME}.{os.urandom(4).hex()}")
        try:
            os.makedirs(self._where, mode=0o700, exist_ok=True)
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError:
            return
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(new, os.path.join(self._where, NAME))
        except OSError:
            try:
                os.unlink(new)
            except OSError:
                pass


def _texts(value: Any) -> dict[str, str]:
    """The harmless texts of a mapping from outside."""
    if not isinstance(value, dict):
        return {}
    return {key: one for key, one in value.items() if isinstance(one, str) and harmless(one) and harmless(key)}
