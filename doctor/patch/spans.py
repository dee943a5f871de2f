"""Where a value stands in a file, and what to write to change it: one vocabulary for YAML, JSON, shell and Python.

A key is written as a person would: ``model.model_config.num_heads``, ``callbacks[1].save_checkpoint_steps``; a part
with a dot or a bracket in it is put in double quotes, ``weights."a.b"``. Everything works on text and character
positions; bytes begin and end in ``doctor.patch.plan``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = tuple[str | int, ...]
"""A key taken apart: names of mappings and numbers of list items."""

FORMATS = ("yaml", "json", "shell", "python")


class Refused(Exception):
    """Why nothing is changed. ``code`` names a text ``patch.<code>`` of the interface, which ``args`` fill."""

    def __init__(self, code: str, **args: Any) -> None:
        super().__init__(code)
        self.code, self.args_ = code, args

    def __str__(self) -> str:
        return f"{self.code} {self.args_}"


class _Removed:
    """The mark of a key that is taken away."""

    def __repr__(self) -> str:
        return "REMOVED"


REMOVED: Any = _Removed()


class Span(NamedTuple):
    """One replacement: characters ``start`` to ``end`` become ``new``. ``kind``: set · insert · remove.

    ``path`` is the key that is then ``value``, as its consumer reads it (``REMOVED``: is gone).
    """

    start: int
    end: int
    new: str
    kind: str
    path: Path
    value: Any


_PART = re.compile(r'"((?:[^"\\]|\\.)*)"|\[(\d{1,9})\]|([^."\[\]]+)')


def parse_key(key: str) -> Path:
    """The parts of a key. Raises Refused.

    >>> parse_key('callbacks[1]."a.b"')
    ('callbacks', 1, 'a.b')
    """
    parts: list[str | int] = []
    at = 0
    while at < len(key):
        if key[at] == "." and parts:
            at += 1
        found = _PART.match(key, at)
        if found is None or len(parts) > 60:
            raise Refused("bad_key", key=key)
        if found[1] is not None:
            parts.append(re.sub(r"\\(.)", r"\1", found[1]))
        elif found[2] is not None:
            parts.append(int(found[2]))
        else:
            parts.append(found[3].strip())
        at = found.end()
        if at < len(key) and key[at] not in ".[":
            raise Refused("bad_key", key=key)
    if not parts or key.endswith("."):
        raise Refused("bad_key", key=key)
    return tuple(parts)


def format_key(path: Sequence[Any]) -> str:
    """A key from its parts, the reverse of ``parse_key``.

    >>> format_key(("callbacks", 1, "a.b"))
    'callbacks[1]."a.b"'
    """
    out = ""
    for part in path:
        if isinstance(part, int) and not isinstance(part, bool):
            out += f"[{part}]"
            continue
        text = str(part)
        if not text or re.search(r'[."\[\]]', text) or text != text.strip():
            text = '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'
        out += ("." if out else "") + text
    return out


def format_of(path: str, head: str = "") -> str | None:
    """How a file is written, by its name and first line; None if no reader knows it."""
    low = path.lower()
    for ends, name in (((".yaml", ".yml"), "yaml"), ((".json",), "json"), ((".sh", ".bash", ".env"), "shell"),
                       ((".py",), "python")):  # fmt: skip
        if low.endswith(ends):
            return name
    first = head.split("\n", 1)[0]
    if first.startswith("#!"):
        if "python" in first:
            return "python"
        if re.search(r"\b(?:ba|da|k|z)?sh\b", first):
            return "shell"
    return None


_BREAK = re.compile(r"\r\n|\n|\r")


def line_end(text: str, at: int) -> int:
    """Position behind the line break of the line that holds ``at``; the end of the text on a last line without one."""
    found = _BREAK.search(text, at)
    return found.end() if found else len(text)


def line_start(text: str, at: int) -> int:
    """Position of the first character of the line that holds ``at``."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


def line_break(text: str) -> str:
    """The line break a text uses, that of its first line.

    >>> line_break("a\\r\\nb\\n")
    '\\r\\n'
    """
    found = _BREAK.search(text)
    return found[0] if found else "\n"


def inserted_line(text: str, at: int, line: str) -> tuple[int, str]:
    """(position, text) of a new line behind the line that holds ``at``; a last line without a break gets one before."""
    end = line_end(text, at)
    nl = line_break(text)
    if end == len(text) and text and text[-1] not in "\r\n":
        return end, nl + line
    return end, line + nl


def resolve(fmt: str, text: str, key: str, new: Any) -> Span:
    """The replacement that makes ``key`` be ``new`` in a text of a format.

    ``new`` is source text of the format as ``Source``, a plain value to be spelled, or ``REMOVED``. Raises Refused.
    """
    from doctor.patch import jsonspans, pyspans, shellspans, yamlspans

    reader = {"yaml": yamlspans, "json": jsonspans, "shell": shellspans, "python": pyspans}.get(fmt)
    if reader is None:
        raise Refused("no_reader", name=fmt)
    return reader.resolve(text, key, new)  # type: ignore[no-any-return]


class Source(str):
    """A value as it is to be written, in the words of the file's format."""

    __slots__ = ()
