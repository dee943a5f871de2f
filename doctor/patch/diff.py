"""A patch made visible: unified lines, and rows for a side-by-side view."""

from __future__ import annotations

import bisect
import difflib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from doctor.patch.plan import FilePatch, Patch
from doctor.render.safe import printable, redact
from doctor.render.text import Line

CONTEXT = 3

WHOLE_LINES = 4_000
"""Lines above which whole files are compared less finely."""


class Row(NamedTuple):
    """A row of two columns. ``kind``: same · changed · added · removed; a line number of 0 is no line."""

    kind: str
    left_number: int
    left: str
    right_number: int
    right: str


def lines_of(data: bytes) -> list[str]:
    """The lines of a file with their breaks, only those that a reader counts as breaks."""
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
    for tag, a, b, c, d in _blocks(file, old, new):
        if tag == "equal":
            for n in range(b - a):
                near = context is None or (n < context and c > 0) or (n >= b - a - context and d < len(new))
                if near:
                    out.append(Row("same", a + n + 1, old[a + n], c + n + 1, new[c + n]))
            continue
        for n in range(max(b - a, d - c)):
            left, right = a + n < b, c + n < d
            kind = "changed" if left and right else "removed" if left else "added"
            out.append(Row(kind, a + n + 1 if left else 0, old[a + n] if left else "",
                           c + n + 1 if right else 0, new[c + n] if right else ""))  # fmt: skip
    return out


Block = tuple[str, int, int, int, int]
"""As difflib has it: what happens, first and last line before, first and last line after."""


def _blocks(file: FilePatch, old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Which lines became which. Where the changes tell it only the lines around each are compared, since comparing
    whole files takes minutes for thousands of lines that are the same."""
    spans = _spans(file)
    if spans is None:
        quick = len(old) + len(new) > WHOLE_LINES
        return list(difflib.SequenceMatcher(None, old, new, autojunk=quick).get_opcodes())
    out: list[Block] = []
    at, shift = 0, 0
    for first, last, after in spans:
        out.append(("equal", at, first, at + shift, first + shift))
        matcher = difflib.SequenceMatcher(None, old[first:last], new[first + shift : first + shift + after])
        for tag, a, b, c, d in matcher.get_opcodes():
            out.append((tag, first + a, first + b, first + shift + c, first + shift + d))
        at, shift = last, first + shift + after - last
    out.append(("equal", at, len(old), at + shift, len(new)))
    merged: list[Block] = []
    for block in out:
        if block[1] == block[2] and block[3] == block[4]:
            continue
        if merged and merged[-1][0] == block[0] == "equal":
            merged[-1] = ("equal", merged[-1][1], block[2], merged[-1][3], block[4])
        else:
            merged.append(block)
    return merged


def _spans(file: FilePatch) -> list[tuple[int, int, int]] | None:
    """(first line, line behind the last, how many lines it becomes) of each change; None if the changes do not tell
    what the file becomes."""
    data = file.before
    lines = data.splitlines(keepends=True)
    starts = list(itertools.accumulate(map(len, lines), initial=0))
    groups: list[list[Any]] = []  # first line, line behind the last, changes
    for edit in file.changes:
        if not 0 <= edit.start <= edit.end <= len(data):
            return None
        first = max(0, bisect.bisect_right(starts, edit.start, 0, max(1, len(lines))) - 1)
        last = min(len(lines), bisect.bisect_right(starts, edit.end, 0, max(1, len(lines))))
        if groups and first < groups[-1][1]:
            groups[-1][1] = max(last, groups[-1][1])
            groups[-1][2].append(edit)
        else:
            groups.append([first, last, [edit]])
    out, pieces, at = [], [], 0
    for first, last, edits in groups:
        text, here = b"", starts[first]
        for edit in edits:
            if edit.start < here:
                return None
            text += data[here : edit.start] + edit.new.encode("utf-8", "surrogateescape")
            here = edit.end
        text += data[here : starts[last]]
        pieces += [data[at : starts[first]], text]
        at = starts[last]
        out.append((first, last, len(text.splitlines())))
    pieces.append(data[at:])
    return out if file.changes and b"".join(pieces) == file.after else None
