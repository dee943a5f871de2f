"""A patch made visible: unified lines, and rows for a side-by-side view."""

from __future__ import annotations

import difflib
from typing import NamedTuple

from doctor.patch.plan import FilePatch, Patch
from doctor.render.safe import printable, redact
from doctor.render.text import Line

CONTEXT = 3


class Row(NamedTuple):
    """A row of two columns. ``kind``: same · changed · added · removed; a line number of 0 is no line."""

    kind: str
    left_number: int
    left: str
    right_number: int
    right: str


def lines_of(data: bytes) -> list[str]:
    """The lines of a file with their breaks, only those that a reader counts as breaks."""
    return data.decode("utf-8", "replace").splitlines(keepends=True) if b"\x0c" not in data else _lines(data)


def _lines(data: bytes) -> list[str]:
    return [line.decode("utf-8", "replace") for line in data.splitlines(keepends=True)]


def unified(file: FilePatch, context: int = CONTEXT) -> list[str]:
    """Lines of a unified diff without line breaks."""
    old, new = lines_of(file.before), lines_of(file.after)
    out = []
    for line in difflib.unified_diff(old, new, f"a/{file.path.lstrip('/')}", f"b/{file.path.lstrip('/')}", n=context):
        out.append(line.rstrip("\r\n"))
        if not line.endswith(("\n", "\r")):
            out.append("\\ No newline at end of file")
    return out


def layout(patch: Patch, context: int = CONTEXT) -> list[Line]:
    """The diff as lines of a report. Lines around a change that hold secrets are masked; what changes is shown as it
    is, because that is what is agreed to."""
    out: list[Line] = []
    for file in patch.files:
        for text in unified(file, context):
            if text.startswith(("---", "+++")):
                out.append([("bold", printable(text))])
            elif text.startswith("@@"):
                out.append([("cyan", text)])
            elif text.startswith("+"):
                out.append([("green", printable(text))])
            elif text.startswith("-"):
                out.append([("red", printable(text))])
            else:
                out.append([("", printable(redact(text)))])
    return out


def rows(file: FilePatch, context: int | None = CONTEXT) -> list[Row]:
    """The two versions beside each other; ``context`` lines around each change, None for the whole file."""
    old = [line.rstrip("\r\n") for line in lines_of(file.before)]
    new = [line.rstrip("\r\n") for line in lines_of(file.after)]
    out: list[Row] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            for n in range(b - a):
                near = context is None or (n < context and c > 0) or n >= b - a - context
                if near:
                    out.append(Row("same", a + n + 1, old[a + n], c + n + 1, new[c + n]))
            continue
        for n in range(max(b - a, d - c)):
            left, right = a + n < b, c + n < d
            kind = "changed" if left and right else "removed" if left else "added"
            out.append(Row(kind, a + n + 1 if left else 0, old[a + n] if left else "",
                           c + n + 1 if right else 0, new[c + n] if right else ""))  # fmt: skip
    return out
