"""Spans of YAML values, exact to the character, from the parser's events.

The file is first read by ``doctor.plan.yamltree``, which bounds it and names what its consumer would trip over; here
the same events give positions. A scalar's mark begins at its anchor or tag, so the span begins behind them; an empty
value is a place, not a span; the end of a block scalar is the end of its last line.
"""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from doctor.patch.spans import REMOVED, Path, Refused, Source, Span, format_key, inserted_line, line_end, line_start

from doctor.patch.spans import line_break, parse_key  # isort: skip
from doctor.plan import yamltree
from doctor.plan.schema import Trouble

MAX_TWINS = 2000

_PROPERTY = re.compile(r"[&!][^\s]*")
_BLANK = re.compile(r"(?:[ \t]|\r\n|\n|\r|#[^\r\n]*)+")


class Node:
    """A value and where it stands: ``start`` to ``end`` without anchor and tag. ``kind``: scalar · map · list · alias.

    ``pairs`` of a mapping are (key as read, start and end of the key, value); ``column`` is that of its first key or
    of the first dash. ``outer`` is where its anchor or tag begins.
    """

    __slots__ = ("anchor", "column", "end", "flow", "items", "kind", "name", "outer", "pairs", "start", "style", "text")

    def __init__(self, kind: str, outer: int) -> None:
        self.kind, self.outer = kind, outer
        self.start = self.end = outer
        self.column = 0
        self.flow = False
        self.style = ""
        self.text = ""
        self.name = ""
        self.anchor = ""
        self.pairs: list[tuple[Any, int, int, Node]] = []
        self.items: list[Node] = []

    def last(self) -> int:
        """Position behind the last character of the value."""
        node = self
        while not node.flow and (node.pairs or node.items):
            node = node.pairs[-1][3] if node.pairs else node.items[-1]
        return node.end


def check(text: str, path: str = "") -> yamltree.Node:
    """The tree of a text as its consumer reads it. Raises Refused where it would trip."""
    tree = yamltree.read_tree(text.removeprefix("\ufeff"), path)
    if isinstance(tree, Trouble):
        raise Refused(f"yaml_{tree.code}", line=tree.line, **tree.args)
    return tree


def read(text: str) -> Node | None:
    """The nodes of a text that ``check`` has let through, None if it holds no value."""
    skip = 1 if text.startswith("\ufeff") else 0
    loader = yamltree.Loader(text[skip:])
    try:
        return _nodes(loader, text, skip)
    finally:
        loader.dispose()


def _behind_properties(text: str, at: int, end: int) -> int:
    """Position behind anchors and tags that begin at ``at``."""
    while at < end and text[at] in "&!":
        found = _PROPERTY.match(text, at)
        at = found.end() if found else end
        blank = _BLANK.match(text, at, end)
        if blank is not None:
            at = blank.end()
    return at


def _nodes(loader: Any, text: str, skip: int) -> Node | None:
    root: Node | None = None
    # open collections with the key that waits for its value
    stack: list[tuple[Node, list[Node]]] = []
    while loader.check_event():
        event = loader.get_event()
        kind = type(event)
        start, end = event.start_mark.index + skip, event.end_mark.index + skip
        if kind is yaml.ScalarEvent:
            node = Node("scalar", start)
            node.text, node.style, node.anchor = event.value, event.style or "", event.anchor or ""
            node.start, node.end = start, end
            if event.anchor or event.tag:
                found = _behind_properties(text, start, end)
                # nothing behind the anchor: an empty value, whose place is behind it on the same line
                node.start = found if text[found:end].strip() else len(text[:end].rstrip())
            if node.style in ("|", ">"):
                node.end = end if _keeps(text, node.start) else node.start + len(text[node.start : end].rstrip())
            elif not event.value and not node.style:
                node.end = node.start
        elif kind is yaml.AliasEvent:
            node = Node("alias", start)
            node.end, node.name = end, event.anchor
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            node = Node("map" if kind is yaml.MappingStartEvent else "list", start)
            node.flow, node.anchor = bool(event.flow_style), event.anchor or ""
            node.start = _behind_properties(text, start, len(text))
            node.column = node.start - line_start(text, node.start)
            stack.append((node, []))
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node, _ = stack.pop()
            node.end = end if node.flow else node.last()
        else:
            continue
        if not stack:
            root = node
            continue
        owner, waiting = stack[-1]
        if owner.kind == "list":
            owner.items.append(node)
        elif not waiting:
            waiting.append(node)
            if not owner.pairs and not owner.flow:
                owner.start = node.outer
                owner.column = node.outer - line_start(text, node.outer)
                if text.startswith("\ufeff") and line_start(text, node.outer) == 0:
                    owner.column -= 1
        else:
            key = waiting.pop()
            owner.pairs.append((_key_of(key), key.outer, key.end, node))
    return root


def _keeps(text: str, start: int) -> bool:
    """Does a block scalar keep its last empty lines (``|+``)?"""
    return "+" in text[start : line_end(text, start)].split("#", 1)[0]


def _key_of(node: Node) -> Any:
    if node.style:
        return node.text
    value = _plain(node.text)
    return node.text if isinstance(value, (dict, list)) else value


def _plain(text: str) -> Any:
    try:
        return yaml.load(text, Loader=yamltree.Loader)  # noqa: S506 - the safe loader in C
    except (yaml.YAMLError, ValueError):
        return text


def _entry(node: Node, part: str | int) -> tuple[Any, int, int, Node] | None:
    """The pair of a mapping that counts for a name: the last one. Raises Refused if it stands twice."""
    found = [p for p in node.pairs if p[0] == part or (not isinstance(p[0], str) and str(p[0]) == part)]
    if len(found) > 1:
        raise Refused("double_key", key=str(part))
    return found[0] if found else None


def resolve(text: str, key: str, new: Any) -> Span:
    """See ``doctor.patch.spans.resolve``."""
    path = parse_key(key)
    root = read(text) if text.removeprefix("\ufeff").strip() and check_empty(text) else None
    if root is None or (root.kind == "scalar" and not root.text and not root.style):
        if new is REMOVED:
            raise Refused("no_key", key=key)
        lines = _block(path, new, 0, 2, line_break(text))
        at, line = inserted_line(text, len(text), lines) if text.strip() else (len(text), lines + line_break(text))
        return Span(at, at, line, "insert", path, value_of(new))
    node = root
    for n, part in enumerate(path):
        if node.kind == "alias":
            raise Refused("through_alias", key=format_key(path[:n]), name=node.name)
        if node.kind == "list" and isinstance(part, int):
            if part < len(node.items):
                node = node.items[part]
                continue
            if part == len(node.items) and n == len(path) - 1 and new is not REMOVED:
                return _append(text, node, path, new)
            raise Refused("no_item", key=format_key(path[: n + 1]), count=len(node.items))
        if node.kind != "map":
            if node.kind == "scalar" and node.start == node.end and n and new is not REMOVED:
                return _child(text, root, path, n, node, new)
            raise Refused("not_a_mapping", key=format_key(path[:n]))
        entry = _entry(node, part)
        if entry is None:
            if new is REMOVED:
                raise Refused("no_key", key=key)
            return _insert(text, root, node, path, n, new)
        if n == len(path) - 1 and new is REMOVED:
            return _remove(text, node, entry, path)
        node = entry[3]
    if new is REMOVED:
        raise Refused("cannot_remove", key=key)
    return _set(text, node, path, new)


def twins(text: str, path: Path) -> list[Path]:
    """Other keys that change with a key, because an alias or a merge stands for a value above it or for itself."""
    root = read(text)
    if root is None:
        return []
    anchored: dict[str, tuple[Path, Node]] = {}
    uses: list[tuple[Path, str]] = []
    pending: list[tuple[Path, Node]] = [((), root)]
    places: list[tuple[Path, Node]] = []
    while pending:
        at, node = pending.pop()
        places.append((at, node))
        pending += [((*at, key), child) for key, _, _, child in node.pairs]
        pending += [((*at, n), child) for n, child in enumerate(node.items)]
    for at, node in sorted(places, key=lambda place: place[1].outer):
        if node.anchor:
            anchored[node.anchor] = (at, node)
        if node.kind == "alias" and node.name in anchored:
            uses.append((at, node.name))
    found: list[Path] = []
    aims = [path]
    seen = {path}
    while aims and len(found) < MAX_TWINS:
        aim = aims.pop()
        for use, name in uses:
            home, _ = anchored[name]
            if tuple(map(str, aim[: len(home)])) != tuple(map(str, home)):
                continue
            # "<<: *name" and "<<: [*name]": what is merged appears in the mapping itself
            base = use
            while "<<" in base:
                base = base[: base.index("<<")]
            twin = (*base, *aim[len(home) :])
            if twin not in seen:
                seen.add(twin)
                found.append(twin)
                aims.append(twin)
    return found


def check_empty(text: str) -> bool:
    """Read a text with ``check``; False if it holds no value at all."""
    try:
        check(text)
    except Refused as refused:
        if refused.code == "yaml_empty":
            return False
        raise
    return True


def value_of(new: Any) -> Any:
    """What a value to be written is for its consumer. Raises Refused for source text that is not one value."""
    if not isinstance(new, Source):
        return new
    if not new.strip():
        raise Refused("bad_value", value=str(new))
    try:
        # as it will stand: behind a key on one line
        made = yaml.safe_load(f"k: {new}")
        if "\n" in new or "\r" in new or set(made) != {"k"}:
            raise Refused("bad_value", value=str(new)[:80])
        return made["k"]
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise Refused("bad_value", value=str(new)[:80]) from None


def _in_flow(new: str) -> bool:
    """Can source text stand inside brackets as it is?"""
    try:
        return bool(yaml.safe_load(f"[{new}]") == [yaml.safe_load(new)])
    except (yaml.YAMLError, ValueError):
        return False


_BARE = re.compile(r"[A-Za-z_/.~][\w/.\-+]*(?: [\w/.\-+]+)*")


def spell(value: Any, like: str = "", *, flow: bool = False) -> str:
    """A value as YAML text that ``yaml.safe_load`` reads back as the same value, in the manner of ``like``.

    >>> spell(1e-5), spell("1e-5"), spell(True, like="false")
    ('1.0e-05', "'1e-5'", 'true')
    """
    if isinstance(value, Source):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        text = str(value)
        return text.lower() if like in ("true", "false") else text.upper() if like in ("TRUE", "FALSE") else text
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        if text in ("inf", "-inf", "nan"):
            return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
        if "e" in text and "." not in text.split("e", 1)[0]:
            text = text.replace("e", ".0e")
        return text
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(spell(item, flow=True) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{spell(k, flow=True)}: {spell(v, flow=True)}" for k, v in value.items()) + "}"
    text = str(value)
    if not text.isprintable():
        return json.dumps(text)
    if like[:1] == '"':
        return json.dumps(text, ensure_ascii=False)
    if like[:1] != "'" and _BARE.fullmatch(text) and _plain(text) == text and (not flow or _in_flow(text)):
        return text
    return "'" + text.replace("'", "''") + "'"


def _set(text: str, node: Node, path: Path, new: Any) -> Span:
    value = value_of(new)
    if node.kind in ("map", "list") and not node.flow:
        raise Refused("is_block", key=format_key(path))
    old = text[node.start : node.end]
    written = spell(new, old)
    if node.start == node.end:
        # an empty value: behind "key:" or "-", never inside "{a, b}" or "[a, , b]"
        before = text[: node.start].rstrip(" \t")
        if before[-1:] not in (":", "-") and not node.anchor:
            raise Refused("no_place", key=format_key(path))
        written = written if text[node.start - 1 : node.start] in (" ", "\t") else " " + written
        if text[node.start : node.start + 1] == "#":
            written += " "
    if isinstance(new, Source) and _inside_flow(text, node) and not _in_flow(str(new)):
        raise Refused("bad_value", value=str(new)[:80])
    if not isinstance(new, Source) and _inside_flow(text, node):
        written = written if _in_flow(written.strip()) else _led(written) + spell(new, "'", flow=True)
    return Span(node.start, node.end, written, "set", path, value)


def _led(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _inside_flow(text: str, node: Node) -> bool:
    """Is what follows on the line a sign of brackets around? Only a hint: the verification decides."""
    rest = text[node.end : line_end(text, node.end)].lstrip()
    return rest[:1] in (",", "]", "}")


def _insert(text: str, root: Node, owner: Node, path: Path, n: int, new: Any) -> Span:
    value = value_of(new)
    if any(isinstance(part, int) for part in path[n:]):
        raise Refused("no_key", key=format_key(path))
    if owner.flow:
        inner = spell(new, flow=True)
        if isinstance(new, Source) and not _in_flow(str(new)):
            raise Refused("bad_value", value=str(new)[:80])
        for part in reversed(path[n + 1 :]):
            inner = f"{{{spell(part, flow=True)}: {inner}}}"
        made = f"{spell(path[n], flow=True)}: {inner}"
        if not owner.pairs:
            at = owner.start + 1
            return Span(at, at, made, "insert", path, value)
        at = owner.pairs[-1][1]
        # in front of the last entry: nothing there changes, not even its line
        lead = text[line_start(text, at) : at]
        gap = line_break(text) + lead if not lead.strip() and "\n" in text[owner.start : at] else " "
        return Span(at, at, f"{made},{gap}", "insert", path, value)
    lines = _block(path[n:], new, owner.column, _step(root), line_break(text))
    last = owner.pairs[-1][3]
    while not last.flow and (last.pairs or last.items):
        last = last.pairs[-1][3] if last.pairs else last.items[-1]
    if last.style in ("|", ">") and _keeps(text, last.start):
        at = last.end
        lead = "" if at == 0 or text[at - 1] in "\r\n" else line_break(text)
        return Span(at, at, lead + lines + line_break(text), "insert", path, value)
    end = max(owner.last(), owner.pairs[-1][2])
    if line_end(text, end) == len(text) and text[-1] not in "\r\n" and len(owner.pairs) > 1:
        # a last line without a break stays as it is: the new one goes in front of the last entry
        end = max(owner.pairs[-2][2], owner.pairs[-2][3].last())
        if owner.pairs[-2][3].style in ("|", ">") or line_start(text, end) == line_start(text, owner.pairs[-1][1]):
            end = len(text)
    at, line = inserted_line(text, end, lines)
    return Span(at, at, line, "insert", path, value)


def _block(path: Path, new: Any, column: int, step: int, nl: str) -> str:
    """``a:`` / ``  b: value`` lines of a path, without the last line break."""
    lines = []
    for depth, part in enumerate(path):
        lead = " " * (column + depth * step)
        end = f" {spell(new)}" if depth == len(path) - 1 else ""
        lines.append(f"{lead}{spell(part)}:{end}")
    return nl.join(lines)


def _step(root: Node) -> int:
    """By how much a file indents: the smallest step between a mapping and one inside it."""
    steps: list[int] = []
    level = [root]
    for _ in range(60):
        below: list[Node] = []
        for node in level[:2000]:
            for pair in node.pairs:
                child = pair[3]
                if child.kind == "map" and not child.flow and not node.flow and child.column > node.column:
                    steps.append(child.column - node.column)
                below.append(child)
            below += node.items
        if not below:
            break
        level = below
    return min(steps, default=2)


def _child(text: str, root: Node, path: Path, n: int, node: Node, new: Any) -> Span:
    """A first entry below a key without a value."""
    value = value_of(new)
    if any(isinstance(part, int) for part in path[n:]):
        raise Refused("no_key", key=format_key(path))
    owner = root
    for part in path[: n - 1]:
        entry = _entry(owner, part) if owner.kind == "map" else None
        owner = entry[3] if entry is not None else owner.items[int(part)]
    if owner.flow or owner.kind != "map":
        raise Refused("no_place", key=format_key(path))
    step = _step(root)
    at, line = inserted_line(text, node.end, _block(path[n:], new, owner.column + step, step, line_break(text)))
    return Span(at, at, line, "insert", path, value)


def _append(text: str, node: Node, path: Path, new: Any) -> Span:
    value = value_of(new)
    if node.flow:
        if not node.items:
            return Span(node.start + 1, node.start + 1, spell(new, flow=True), "insert", path, value)
        at = node.items[-1].end
        return Span(at, at, ", " + spell(new, flow=True), "insert", path, value)
    if any(item.style in ("|", ">") for item in node.items[-1:]):
        raise Refused("no_place", key=format_key(path))
    at, line = inserted_line(text, node.last(), " " * node.column + "- " + spell(new))
    return Span(at, at, line, "insert", path, value)


def _remove(text: str, owner: Node, entry: tuple[Any, int, int, Node], path: Path) -> Span:
    if len(owner.pairs) == 1:
        raise Refused("last_key", key=format_key(path))
    place = owner.pairs.index(entry)
    _, start, _, node = entry
    if owner.flow:
        if place + 1 < len(owner.pairs):
            return Span(start, owner.pairs[place + 1][1], "", "remove", path, REMOVED)
        before = owner.pairs[place - 1]
        return Span(max(before[2], before[3].last()), max(entry[2], node.last()), "", "remove", path, REMOVED)
    first = line_start(text, start)
    if text[first:start].strip("\ufeff \t"):
        raise Refused("cannot_remove", key=format_key(path))
    if text[first:start].startswith("\ufeff"):
        first += 1
    end = line_end(text, max(entry[2], node.last()))
    return Span(first, end, "", "remove", path, REMOVED)
