"""Spans of JSON values: a scanner with positions, because no reader of the standard library tells them."""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.patch.spans import REMOVED, Path, Refused, Source, Span, format_key, line_break, line_start, parse_key

MAX_DEPTH = 60
MAX_VALUES = 400_000

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|NaN|-?Infinity")


class Node:
    """A value and where it stands. ``pairs`` of an object are (name, start of the name, value)."""

    __slots__ = ("end", "items", "kind", "pairs", "start")

    def __init__(self, kind: str, start: int) -> None:
        self.kind, self.start, self.end = kind, start, start
        self.pairs: list[tuple[str, int, Node]] = []
        self.items: list[Node] = []


def _bad(text: str, at: int) -> Refused:
    return Refused("json_syntax", line=text.count("\n", 0, at) + 1)


def read(text: str) -> Node:
    """The nodes of a JSON text, without recursion. Raises Refused with the line."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    stack: list[Node] = []
    name: tuple[str, int] | None = None
    root: Node | None = None
    count = 0
    while True:
        count += 1
        if count > MAX_VALUES:
            raise Refused("json_too_large", limit=MAX_VALUES)
        char = text[at : at + 1]
        if char in ("{", "["):
            node = Node("map" if char == "{" else "list", at)
            _place(stack, name, node)
            stack.append(node)
            if len(stack) > MAX_DEPTH:
                raise Refused("json_too_deep", line=text.count("\n", 0, at) + 1, limit=MAX_DEPTH)
            at = _skip(text, at + 1)
            closed = text[at : at + 1] == ("}" if char == "{" else "]")
        else:
            found = _STRING.match(text, at) or _PLAIN.match(text, at)
            if found is None:
                raise _bad(text, at)
            node = Node("scalar", at)
            node.end = at = found.end()
            _place(stack, name, node)
            closed = False
            if not stack:
                root = node
                break
            at, closed = _comma(text, at, stack[-1])
        while closed:
            done = stack.pop()
            done.end = at = at + 1
            if not stack:
                root = done
                break
            at, closed = _comma(text, at, stack[-1])
        if root is not None:
            break
        name = None
        if stack[-1].kind == "map":
            key = _STRING.match(text, at)
            if key is None:
                raise _bad(text, at)
            name = (_word(text, key), at)
            at = _skip(text, key.end())
            if text[at : at + 1] != ":":
                raise _bad(text, at)
            at = _skip(text, at + 1)
    if _skip(text, at) != len(text):
        raise _bad(text, at)
    return root


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _word(text: str, found: re.Match[str]) -> str:
    try:
        return str(json.loads(found[0]))
    except ValueError:
        raise _bad(text, found.start()) from None


def _place(stack: list[Node], name: tuple[str, int] | None, node: Node) -> None:
    if stack and stack[-1].kind == "map" and name is not None:
        stack[-1].pairs.append((*name, node))
    elif stack:
        stack[-1].items.append(node)


def _comma(text: str, at: int, owner: Node) -> tuple[int, bool]:
    """(position of what follows a value, whether its owner ends there)."""
    at = _skip(text, at)
    char = text[at : at + 1]
    if char == ",":
        return _skip(text, at + 1), False
    if char == ("}" if owner.kind == "map" else "]"):
        return at, True
    raise _bad(text, at)


def value_of(new: Any) -> Any:
    """What a value to be written is for its consumer. Raises Refused for source text that is not one value."""
    if not isinstance(new, Source):
        return new
    try:
        return json.loads(new)
    except (ValueError, RecursionError):
        raise Refused("bad_value", value=str(new)[:80]) from None


def spell(value: Any) -> str:
    """A value as JSON text."""
    return str(value) if isinstance(value, Source) else json.dumps(value, ensure_ascii=False)


def resolve(text: str, key: str, new: Any) -> Span:
    """See ``doctor.patch.spans.resolve``."""
    path = parse_key(key)
    value = value_of(new)
    node = read(text)
    for n, part in enumerate(path):
        last = n == len(path) - 1
        if node.kind == "list" and isinstance(part, int):
            if part < len(node.items):
                node = node.items[part]
                continue
            if part == len(node.items) and last and new is not REMOVED:
                return _add(text, node, spell(new), path, value)
            raise Refused("no_item", key=format_key(path[: n + 1]), count=len(node.items))
        if node.kind != "map":
            raise Refused("not_a_mapping", key=format_key(path[:n]))
        found = [pair for pair in node.pairs if pair[0] == str(part)]
        if len(found) > 1:
            raise Refused("double_key", key=str(part))
        if not found:
            if new is REMOVED or any(isinstance(p, int) for p in path[n:]):
                raise Refused("no_key", key=key)
            made = spell(new)
            for below in reversed(path[n + 1 :]):
                made = f"{{{json.dumps(str(below), ensure_ascii=False)}: {made}}}"
            return _add(text, node, f"{json.dumps(str(part), ensure_ascii=False)}: {made}", path, value)
        if last and new is REMOVED:
            return _remove(text, node, found[0], path)
        node = found[0][2]
    if new is REMOVED:
        raise Refused("cannot_remove", key=key)
    return Span(node.start, node.end, spell(new), "set", path, value)


def _add(text: str, owner: Node, made: str, path: Path, value: Any) -> Span:
    """A further entry: of an object in front of the last one, so that no line that is there changes."""
    if not owner.pairs and not owner.items:
        return Span(owner.start + 1, owner.start + 1, made, "insert", path, value)
    if owner.items:
        at = owner.items[-1].end
        first = owner.items[-1].start
        lead = text[line_start(text, first) : first]
        gap = line_break(text) + lead if not lead.strip() and "\n" in text[owner.start : first] else " "
        return Span(at, at, f",{gap}{made}", "insert", path, value)
    at = owner.pairs[-1][1]
    lead = text[line_start(text, at) : at]
    gap = line_break(text) + lead if not lead.strip() and "\n" in text[owner.start : at] else " "
    return Span(at, at, f"{made},{gap}", "insert", path, value)


def _remove(text: str, owner: Node, entry: tuple[str, int, Node], path: Path) -> Span:
    place = owner.pairs.index(entry)
    if place + 1 < len(owner.pairs):
        return Span(entry[1], owner.pairs[place + 1][1], "", "remove", path, REMOVED)
    if place:
        return Span(owner.pairs[place - 1][2].end, entry[2].end, "", "remove", path, REMOVED)
    return Span(owner.start + 1, owner.end - 1, "", "remove", path, REMOVED)
