"""Spans of Python source: keywords and positions of calls, names of what is called, constants of a module.

A key is ``NAME`` for ``NAME = constant`` at the top of a module, or a call by its line and its name as written:
``12:nn.Dropout(p)`` its keyword ``p`` (added where it is missing), ``12:nn.Dropout(0)`` its first position,
``12:nn.Dropout`` the name that is called. Positions are those of the standard parser; nothing is formatted anew.
"""

from __future__ import annotations

import ast
import re
import warnings
from typing import Any

from doctor.patch.spans import REMOVED, Refused, Source, Span, line_break, line_start

_CALL = re.compile(r"(\d{1,7}):([A-Za-z_][\w.]*)(?:\((\w+)\))?")
MAX_CHARACTERS = 4 << 20


def parse(text: str) -> ast.Module:
    """The tree of a source text. Raises Refused with the line."""
    if len(text) > MAX_CHARACTERS:
        raise Refused("python_too_large", limit=MAX_CHARACTERS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.removeprefix("\ufeff"))
    except SyntaxError as error:
        raise Refused("python_syntax", line=error.lineno or 1, why=error.msg) from None
    except (ValueError, RecursionError, MemoryError):
        raise Refused("python_syntax", line=1, why="") from None


def compiles(text: str) -> bool:
    """Whether the compiler takes a text too; it refuses what the parser does not (a keyword given twice). Nothing is
    run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text.removeprefix("\ufeff"), "<patch>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


class Places:
    """Character positions of the parser's lines and byte columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.skip = 1 if text.startswith("\ufeff") else 0
        self.starts = [self.skip]
        self.starts += [found.end() for found in re.finditer(r"\r\n|\n|\r", text)]

    def at(self, line: int, column: int) -> int:
        """Position of a line from 1 and a column in bytes of UTF-8."""
        start = self.starts[line - 1]
        if not column:
            return start
        end = self.starts[line] if line < len(self.starts) else len(self.text)
        row = self.text[start:end]
        return start + (column if row.isascii() else len(row.encode()[:column].decode(errors="ignore")))

    def span(self, node: ast.expr | ast.keyword | ast.stmt) -> tuple[int, int]:
        """Start and end of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def dotted(node: ast.expr) -> str:
    """``nn.Dropout`` of a name or a chain of attributes, else nothing."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def spell(value: Any) -> str:
    """A value as Python source."""
    return str(value) if isinstance(value, Source) else repr(value)


def value_of(new: Any) -> Any:
    """The shape of a value to be written, comparable with what is read back. Raises Refused for no expression."""
    if new is REMOVED:
        return REMOVED
    try:
        return ast.dump(ast.parse(f"({spell(new)})", mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        raise Refused("bad_value", value=spell(new)[:80]) from None


def resolve(text: str, key: str, new: Any) -> Span:
    """See ``doctor.patch.spans.resolve``."""
    tree, places = parse(text), Places(text)
    value = value_of(new)
    found = _CALL.fullmatch(key)
    if found is None:
        if not key.isidentifier() or new is REMOVED:
            raise Refused("bad_key", key=key)
        own = [n for n in tree.body if isinstance(n, (ast.Assign, ast.AnnAssign)) and _names(n) == [key]]
        if len(own) != 1 or own[0].value is None:
            raise Refused("no_key" if not own else "several_places", key=key,
                          lines=", ".join(str(n.lineno) for n in own))  # fmt: skip
        start, end = places.span(own[0].value)
        return Span(start, end, spell(new), "set", (key,), value)
    line, name, inside = int(found[1]), found[2], found[3]
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == line and dotted(n.func) == name]
    if len(calls) != 1:
        raise Refused("no_key" if not calls else "several_places", key=key, lines=str(line))
    call = calls[0]
    if inside is None:
        if new is REMOVED or not re.fullmatch(r"[A-Za-z_][\w.]*", spell(new)):
            raise Refused("bad_value", value=spell(new)[:80])
        start, end = places.span(call.func)
        return Span(start, end, spell(new), "set", (key,), value)
    if inside.isdigit():
        n = int(inside)
        if n >= len(call.args) or any(isinstance(arg, ast.Starred) for arg in call.args[: n + 1]) or new is REMOVED:
            raise Refused("no_item", key=key, count=len(call.args))
        start, end = places.span(call.args[n])
        return Span(start, end, spell(new), "set", (key,), value)
    for keyword in call.keywords:
        if keyword.arg == inside:
            if new is REMOVED:
                return drop_keyword(text, places, call, keyword, key)
            start, end = places.span(keyword.value)
            return Span(start, end, spell(new), "set", (key,), value)
    if new is REMOVED:
        raise Refused("no_key", key=key)
    return add_keyword(text, places, call, inside, new, key)


def _names(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [t.id if isinstance(t, ast.Name) else "" for t in targets]


def _arguments(places: Places, call: ast.Call) -> list[tuple[int, int]]:
    return sorted([places.span(arg) for arg in call.args] + [places.span(keyword) for keyword in call.keywords])


def _code_end(text: str, start: int, end: int) -> int:
    """Position behind the last character of code in a stretch that holds only brackets, commas and comments."""
    at, last = start, start
    while at < end:
        if text[at] == "#":
            while at < end and text[at] not in "\r\n":
                at += 1
            continue
        if not text[at].isspace() and text[at] != "\\":
            last = at + 1
        at += 1
    return last


def add_keyword(text: str, places: Places, call: ast.Call, name: str, new: Any, key: str = "") -> Span:
    """A further keyword behind the last argument; on a line of its own where each argument has one. Source text may go
    on behind its value: ``f(), more=g()``."""
    made = f"{name}={new if not key else spell(new)}"
    value = value_of(new) if key else None
    _, closing = places.span(call)
    closing -= 1
    arguments = _arguments(places, call)
    if not arguments:
        return Span(closing, closing, made, "insert", (key,), value)
    start, end = arguments[-1]
    at = _code_end(text, end, closing)
    lead = text[line_start(text, start) : start]
    if text[at - 1 : at] == "," and at > end:
        if not lead.strip() and line_start(text, closing) > at:
            # the rest of the line is a comment at most: a new line in front of the closing bracket's
            put = _line_after(text, at)
            return Span(put, put, f"{lead}{made},{line_break(text)}", "insert", (key,), value)
        return Span(at, at, f" {made}", "insert", (key,), value)
    return Span(at, at, f", {made}", "insert", (key,), value)


def _line_after(text: str, at: int) -> int:
    found = re.compile(r"\r\n|\n|\r").search(text, at)
    return found.end() if found else len(text)


def drop_keyword(text: str, places: Places, call: ast.Call, keyword: ast.keyword, key: str = "") -> Span:
    """A keyword less, with the comma that belongs to it. Raises Refused where a comment stands beside it."""
    arguments = _arguments(places, call)
    span = places.span(keyword)
    n = arguments.index(span)
    if n + 1 < len(arguments):
        # comments between two arguments belong to one of them: not ours to throw away
        between = text[span[1] : arguments[n + 1][0]]
        if "#" in between:
            raise Refused("cannot_remove", key=key)
        return Span(span[0], arguments[n + 1][0], "", "remove", (key,), REMOVED)
    if n:
        if "#" in text[arguments[n - 1][1] : span[0]]:
            raise Refused("cannot_remove", key=key)
        return Span(arguments[n - 1][1], span[1], "", "remove", (key,), REMOVED)
    return Span(span[0], span[1], "", "remove", (key,), REMOVED)
