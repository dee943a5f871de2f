"""YAML as a tree with line numbers, read as ``yaml.safe_load`` reads it and bounded in every direction.

Built from the parser's events: nothing recursive runs over what a file holds, an alias is the same node as its
anchor, and the size of what would be expanded is counted before anything is expanded.
"""

from __future__ import annotations

import os
from typing import Any

import yaml

from doctor.plan.schema import Trouble

MAX_BYTES = 4 << 20
MAX_EVENTS = 400_000
MAX_DEPTH = 60
MAX_EXPANDED = 1_000_000

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Node:
    """``data`` is a scalar as Python sees it, a list of nodes, or a dict of nodes. ``line`` counts from 1 and is
    that of the key, where there is one."""

    __slots__ = ("data", "doubles", "keys", "kind", "line", "size", "text", "weight")

    def __init__(self, kind: str, data: Any, line: int, text: str = "") -> None:
        self.kind, self.data, self.line, self.text = kind, data, line, text
        self.doubles: list[tuple[str, int]] = []
        self.keys: dict[Any, int] = {}
        self.weight = 1
        """nodes that come out when aliases are written out"""

    def plain(self) -> Any:
        """The bare Python value. Only for small parts: aliases are written out."""
        if self.kind == "map":
            return {key: node.plain() for key, node in self.data.items()}
        if self.kind == "list":
            return [node.plain() for node in self.data]
        return self.data

    def at(self, *path: str) -> Node | None:
        """The node below some keys, None if there is none."""
        node: Node | None = self
        for key in path:
            if node is None or node.kind != "map":
                return None
            node = node.data.get(key)
        return node

    def line_of(self, key: str) -> int:
        """Line where a key of this mapping stands, else the line of the mapping."""
        return self.keys.get(key, self.line)


def read_bytes(path: str) -> bytes | Trouble:
    """The bytes of a file, at most ``MAX_BYTES``."""
    try:
        if not os.path.isfile(path):
            return Trouble("no_file" if not os.path.lexists(path) else "not_a_file", path)
        size = os.path.getsize(path)
        if size > MAX_BYTES:
            return Trouble("too_large", path, 0, {"size": size, "limit": MAX_BYTES})
        with open(path, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        return Trouble("unreadable", path, 0, {"why": error.strerror or type(error).__name__})


def decode(data: bytes, path: str) -> str | Trouble:
    """Text of UTF-8 bytes, with or without a byte order mark."""
    if b"\0" in data[:4096]:
        return Trouble("binary", path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Trouble("not_utf8", path, data.count(b"\n", 0, error.start) + 1)


def read_tree(text: str, path: str) -> Node | Trouble:
    """The tree of one YAML document. The Trouble says what its consumer would trip over, with the line."""
    loader = Loader(text)
    try:
        return _build(loader, path)
    except yaml.MarkedYAMLError as error:
        lines = text.split("\n")
        line = _guilty_line(error, lines)
        shown = lines[line - 1] if 0 < line <= len(lines) else ""
        indent = shown[: len(shown) - len(shown.lstrip())]
        if "\t" in indent or "'\\t'" in str(error.problem):
            return Trouble("tab", path, line)
        return Trouble("syntax", path, line, {"why": str(error.problem or error)[:200]})
    except yaml.reader.ReaderError as error:
        return Trouble(
            "syntax", path, text.count("\n", 0, max(0, error.position)) + 1, {"why": str(error.reason)[:200]}
        )
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        return Trouble("syntax", path, 1, {"why": str(error)[:200]})
    finally:
        loader.dispose()


_OPENED = (
    "while scanning a simple key",
    "while scanning a quoted scalar",
    "while parsing a flow sequence",
    "while parsing a flow mapping",
)


def _guilty_line(error: yaml.MarkedYAMLError, lines: list[str]) -> int:
    """The line to look at: where something was opened that never ends, else where reading stopped.

    A quote that is not closed swallows lines up to the next quote, so a line before with an odd number of quotes is
    told instead.
    """
    mark = error.problem_mark or error.context_mark
    if error.context_mark is not None and error.context in _OPENED:
        mark = error.context_mark
    stopped = mark.line if mark else 0
    for n in range(min(stopped, len(lines) - 1), max(-1, stopped - 200), -1):
        code = lines[n].split(" #", 1)[0]
        if not code.lstrip().startswith("#") and any(code.count(quote) % 2 for quote in ("'", '"')):
            value = code.partition(":")[2].strip() or code.strip().lstrip("- ")
            if value[:1] in ("'", '"'):
                return n + 1
    if str(error.problem).startswith("mapping values are not allowed"):
        # a line without its colon reads on into the next one
        before = stopped - 1
        while before >= 0 and (not lines[before].strip() or lines[before].lstrip().startswith("#")):
            before -= 1
        if before >= 0 and ":" not in lines[before] and not lines[before].lstrip().startswith("-"):
            return before + 1
    return int(stopped) + 1


class _Scalars:
    """Scalars as ``yaml.safe_load`` makes them, each text once."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._seen: dict[tuple[str, bool, str | None], Any] = {}

    def value(self, event: Any) -> Any:
        plain = bool(event.implicit[0])
        key = (event.value, plain, event.tag)
        if key not in self._seen:
            tag = event.tag
            if tag is None or tag == "!":
                tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            if tag == "tag:yaml.org,2002:merge":
                self._seen[key] = "<<"
                return "<<"
            node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
            self._seen[key] = self._loader.construct_object(node)
        return self._seen[key]


def _build(loader: Any, path: str) -> Node | Trouble:
    scalars = _Scalars(loader)
    anchors: dict[str, Node] = {}
    root: Node | None = None
    # open collections: (node, key waiting for its value, line of that key)
    stack: list[list[Any]] = []
    events = documents = 0
    while loader.check_event():
        event = loader.get_event()
        kind = type(event)
        events += 1
        line = event.start_mark.line + 1
        if events > MAX_EVENTS:
            return Trouble("too_many_values", path, line, {"limit": MAX_EVENTS})
        if kind is yaml.DocumentStartEvent:
            documents += 1
            if documents > 1:
                return Trouble("several_documents", path, line)
            continue
        if kind is yaml.ScalarEvent:
            node = Node("scalar", scalars.value(event), line, event.value)
            if event.anchor:
                anchors[event.anchor] = node
        elif kind is yaml.AliasEvent:
            found = anchors.get(event.anchor)
            if found is None:
                return Trouble("no_anchor", path, line, {"name": event.anchor})
            if any(found is entry[0] for entry in stack):
                return Trouble("alias_loop", path, line, {"name": event.anchor})
            node = found
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            made = Node(
                "map" if kind is yaml.MappingStartEvent else "list", {} if kind is yaml.MappingStartEvent else [], line
            )
            if event.anchor:
                anchors[event.anchor] = made
            if len(stack) >= MAX_DEPTH:
                return Trouble("too_deep", path, line, {"limit": MAX_DEPTH})
            stack.append([made, None, 0, False])
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node = stack.pop()[0]
            if node.kind == "map":
                _merge(node)
        else:
            continue
        if not stack:
            root = node
            continue
        top = stack[-1]
        owner: Node = top[0]
        if owner.kind == "list":
            owner.data.append(node)
            owner.weight += node.weight
        elif not top[3]:
            if node.kind != "scalar" or (isinstance(node.data, int) and abs(node.data) > 1 << 63):
                return Trouble("odd_key", path, line)
            top[1], top[2], top[3] = node, line, True
        else:
            key_node, key_line = top[1], top[2]
            key = key_node.data
            top[3] = False
            if key in owner.data and key_node.text != "<<":
                owner.doubles.append((str(key), key_line))
            if node.line != key_line and kind is not yaml.AliasEvent:
                node.line = key_line
            owner.data[key] = node
            owner.keys[key] = key_line
            owner.weight += node.weight
        if owner.weight > MAX_EXPANDED:
            return Trouble("bomb", path, line)
    if root is None:
        return Trouble("empty", path)
    return root


def _merge(node: Node) -> None:
    """Apply ``<<: *other``: keys of the mapping itself win."""
    other = node.data.pop("<<", None) if "<<" in node.data else None
    if other is None:
        return
    node.keys.pop("<<", None)
    sources = other.data if other.kind == "list" else [other]
    for source in sources:
        if source.kind == "map":
            for key, value in source.data.items():
                node.data.setdefault(key, value)


def nesting(node: Node) -> int:
    """Depth of nested mappings as MindFormers counts it: lists are not looked into."""
    depth = 0
    level = [node]
    while level:
        below = [child for item in level if item.kind == "map" for child in item.data.values()]
        if not any(item.kind == "map" for item in level):
            break
        depth += 1
        level = below
        if depth > MAX_DEPTH:
            break
    return depth
