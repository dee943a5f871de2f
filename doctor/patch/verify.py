"""Does a patch change exactly what it says? Both texts are read as their consumer reads them and compared key by key.

For YAML that is ``yaml.safe_load`` (MindFormers, ``tools/register/config.py``), for JSON the reader of the standard
library, for Python its parser. Aliases are written out before the comparison: an edit of an anchored value changes
every key that names it, and that is seen here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import yaml

from doctor.patch import pyspans, shellspans, yamlspans
from doctor.patch.spans import REMOVED, Path, Refused, format_key

MAX_LEAVES = 500_000
SLOW = 256 << 10
"""Characters from which the reader in C is used; it builds the same values."""
SHOWN = 6

Flat = dict[Path, tuple[str, Any]]
"""Every leaf of a document: its path, the name of its type and its value. An empty mapping or list is a leaf."""


def flatten(value: Any) -> Flat:
    """The leaves of a value. Raises Refused above ``MAX_LEAVES``, which an alias bomb reaches."""
    found: Flat = {}
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if isinstance(item, dict) and item:
            pending += [((*path, k), v) for k, v in item.items()]
        elif isinstance(item, list) and item:
            pending += [((*path, n), v) for n, v in enumerate(item)]
        else:
            found[path] = (type(item).__name__, repr(item) if isinstance(item, float) else item)
        if len(found) + len(pending) > MAX_LEAVES:
            raise Refused("too_many_values", limit=MAX_LEAVES)
    return found


def expected(before: Flat, wanted: Sequence[tuple[Path, Any]]) -> Flat:
    """The leaves there should be: those of before, without what is under the wanted keys, with the wanted values."""
    out = dict(before)
    for raw, value in wanted:
        path = _as_read(out, raw)
        for key in [key for key in out if key[: len(path)] == path]:
            del out[key]
        if value is REMOVED:
            continue
        for n in range(len(path)):
            # an empty value or list that gets its first entry is no leaf any more
            if out.get(path[:n], ("", 0)) in (("NoneType", None), ("dict", {}), ("list", [])):
                del out[path[:n]]
        for below, leaf in flatten(value).items():
            out[(*path, *below)] = leaf
    return out


def _as_read(flat: Flat, path: Path) -> Path:
    """A path with its parts as the reader has them: ``1:`` is a number, however the key was written."""
    if any(key[: len(path)] == path for key in flat):
        return path
    texts = tuple(map(str, path))
    for key in flat:
        if len(key) >= len(path) and tuple(map(str, key[: len(path)])) == texts:
            return key[: len(path)]
    parent = path[:-1]
    return (*_as_read(flat, parent), path[-1]) if parent else path


def verify(fmt: str, before: str, after: str, wanted: Sequence[tuple[Path, Any]]) -> None:
    """Raises Refused unless the difference of two texts is what is wanted."""
    if fmt == "yaml":
        _compare(flatten(load_yaml(before)), flatten(load_yaml(after)), wanted)
    elif fmt == "json":
        _compare(flatten(_load_json(before)), flatten(_load_json(after)), wanted)
    elif fmt == "shell":
        _shell(before, after, wanted)
    else:
        _python(before, after, wanted)


def with_aliases(before: str, after: str, wanted: Sequence[tuple[Path, Any]]) -> list[tuple[Path, Any]]:
    """The keys that change with the wanted ones through aliases and merges, each with its value."""
    old, new = flatten(load_yaml(before)), flatten(load_yaml(after))
    own = {tuple(map(str, path)) for path, _ in wanted}
    changed = {tuple(map(str, key)) for key in {**old, **new} if old.get(key) != new.get(key)}
    found = []
    for path, value in wanted:
        for twin in yamlspans.twins(before, path):
            name = tuple(map(str, twin))
            # a merged key that the mapping sets itself does not change
            if name not in own and any(key[: len(name)] == name for key in changed):
                own.add(name)
                found.append((twin, value))
    return found


def load_yaml(text: str) -> Any:
    """A YAML text as MindFormers reads it. Raises Refused."""
    text = text.removeprefix("\ufeff")
    try:
        yamlspans.check(text)
        if len(text) > SLOW:
            return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
        return yaml.safe_load(text)
    except Refused as refused:
        if refused.code == "yaml_empty":
            return None
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise Refused("yaml_syntax", line=mark.line + 1 if mark else 1, why=str(error).split("\n")[0][:200]) from None


def _load_json(text: str) -> Any:
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise Refused("json_syntax", line=getattr(error, "lineno", 1)) from None
    except RecursionError:
        raise Refused("json_too_deep", line=1, limit=0) from None


def _compare(before: Flat, after: Flat, wanted: Sequence[tuple[Path, Any]]) -> None:
    want = expected(before, wanted)
    if want == after:
        return
    wrong = [key for key in {**want, **after} if want.get(key) != after.get(key)]
    names = ", ".join(format_key(key) for key in wrong[:SHOWN]) + (" …" if len(wrong) > SHOWN else "")
    aims = [tuple(map(str, path)) for path, _ in wanted]
    inside = all(any(tuple(map(str, key))[: len(aim)] == aim for aim in aims) for key in wrong)
    raise Refused("not_as_wanted" if inside else "changes_more", keys=names)


def _shell(before: str, after: str, wanted: Sequence[tuple[Path, Any]]) -> None:
    """The words of a script are the same but for the assignments that were wanted."""
    names = {str(path[0]): value for path, value in wanted}
    for option in [name for name in names if name.startswith("--")]:
        value = names.pop(option)
        places, now = shellspans.option_values(before, option), shellspans.option_values(after, option)
        if len(places) != 1 or [after[a:b] for a, b in now] != [value]:
            raise Refused("not_as_wanted", keys=option)
        before = before[: places[0][0]] + value + before[places[0][1] :]

    def rest(text: str) -> tuple[list[str], dict[str, list[str]]]:
        own: dict[str, list[str]] = {}
        mine: set[int] = set()
        lonely: set[int] = set()
        for found in shellspans.assignments(text):
            if found.name in names:
                own.setdefault(found.name, []).append(shellspans.plain(text[found.value : found.end]))
                mine.add(found.start)
                if found.kind == "export":
                    lonely.add(found.command)
        every = shellspans.words(text)
        left = [w for w in every if w.start not in mine]
        kept = {w.command for w in left if w.text not in ("export", "env", "declare", "-x")}
        return [w.text for w in left if w.command in kept or w.command not in lonely], own

    (old, _), (new, values) = rest(before), rest(after)
    if old != new:
        wrong = next((w for w, other in zip([*old, ""], [*new, ""], strict=False) if w != other), "")
        raise Refused("changes_more", keys=wrong[:80])
    for name, value in names.items():
        if values.get(name, []) != ([] if value is REMOVED else [value]):
            raise Refused("not_as_wanted", keys=name)


def _leaves(node: ast.AST) -> Iterator[tuple[Path, Any, ast.AST | None]]:
    """(path, value, node or None) of a syntax tree; keywords of a call go by their name."""
    pending: list[tuple[Path, ast.AST]] = [((), node)]
    while pending:
        path, item = pending.pop()
        yield path, type(item).__name__, item
        for name, value in ast.iter_fields(item):
            if isinstance(value, list):
                yield (*path, name, "#"), len(value) if name != "keywords" else "", None
                for n, child in enumerate(value):
                    key: str | int = n
                    if isinstance(child, ast.keyword):
                        key = child.arg or f"**{n}"
                    if isinstance(child, ast.AST):
                        pending.append(((*path, name, key), child))
                    else:
                        yield (*path, name, key), repr(child), None
            elif isinstance(value, ast.AST):
                pending.append(((*path, name), value))
            else:
                yield (*path, name), repr(value), None


def _python(before: str, after: str, wanted: Sequence[tuple[Path, Any]]) -> None:
    old_tree, new_tree = pyspans.parse(before), pyspans.parse(after)
    old: dict[Path, Any] = {}
    allowed: list[tuple[Path, Any]] = []
    keys = {str(path[0]): value for path, value in wanted}
    for path, value, node in _leaves(old_tree):
        old[path] = value
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and len(path) == 2:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and target.id in keys:
                allowed.append(((*path, "value"), keys[target.id]))
        if isinstance(node, ast.Call):
            name = f"{node.lineno}:{pyspans.dotted(node.func)}"
            if name in keys:
                allowed.append(((*path, "func"), None))
            for key, wish in keys.items():
                if key.startswith(name + "("):
                    inside = key[len(name) + 1 : -1]
                    part: Path = ("args", int(inside)) if inside.isdigit() else ("keywords", inside)
                    allowed.append(((*path, *part), wish))
    new: dict[Path, Any] = {}
    nodes: dict[Path, ast.AST] = {}
    for path, value, node in _leaves(new_tree):
        new[path] = value
        if node is not None:
            nodes[path] = node
    wrong = [p for p in {**old, **new} if old.get(p) != new.get(p)]
    prefixes = [path for path, _ in allowed]
    bad = [p for p in wrong if not any(p[: len(a)] == a for a in prefixes)]
    if bad:
        lines = sorted({getattr(nodes[p[:n]], "lineno", 0) for p in bad for n in range(len(p), 0, -1)
                        if p[:n] in nodes and hasattr(nodes[p[:n]], "lineno")})  # fmt: skip
        raise Refused("changes_more", keys=", ".join(map(str, lines[:SHOWN])) or format_key(bad[0]))
    for path, value in allowed:
        if value is REMOVED:
            if path in nodes:
                raise Refused("not_as_wanted", keys=format_key(path[-1:]))
        elif value is not None:
            found = nodes.get(path)
            found = found.value if isinstance(found, ast.keyword) else found
            if found is None or ast.dump(found) != value:
                raise Refused("not_as_wanted", keys=format_key(path[-1:]))


GONE = ("gone",)
"""What stands for a node inside a replaced stretch."""


class _Shape:
    """A syntax tree without what lies inside some stretches of its text. Whole statements may only stand in those of
    ``may``; ``held`` tells in which they did."""

    def __init__(self, text: str, regions: Sequence[tuple[int, int]], may: Collection[int]) -> None:
        self.places = pyspans.Places(text)
        self.text = text
        self.regions, self.may, self.held = regions, may, set[int]()
        self.lines = [(text.count("\n", 0, a) + 1, text.count("\n", 0, b) + 1) for a, b in regions]

    def _near(self, first: int, last: int) -> bool:
        return any(first <= b and last >= a for a, b in self.lines)

    def _inside(self, start: int, end: int) -> set[int]:
        """The stretches that hold some characters."""
        return {n for n, (a, b) in enumerate(self.regions) if a <= start and end <= b and a < b}

    def of(self, node: Any) -> Any:
        """Nested tuples that are equal if the trees are, apart from the stretches."""
        if not isinstance(node, ast.AST):
            return repr(node)
        hidden = ""
        first = getattr(node, "lineno", None)
        if first is not None and self._near(first, node.end_lineno):  # type: ignore[attr-defined]
            start, end = self.places.span(node)  # type: ignore[arg-type]
            inside = self._inside(start, end)
            if inside and isinstance(node, ast.stmt):
                self.held |= inside
                inside &= set(self.may)
            if inside:
                return GONE
            if isinstance(node, ast.Call) and self._wraps(node, end):
                return self.of(node.args[0])
            if isinstance(node, ast.keyword) and node.arg and self._inside(start, start + len(node.arg)):
                hidden = "arg"
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                at = self.text.find(node.name, start)
                hidden = "name" if self._inside(at, at + len(node.name)) else ""
        fields: list[Any] = [type(node).__name__]
        for name, value in ast.iter_fields(node):
            if name == hidden:
                continue
            if isinstance(value, list):
                fields.append(tuple(shape for shape in map(self.of, value) if shape is not GONE))
            else:
                fields.append(self.of(value))
        return tuple(fields)

    def _wraps(self, call: ast.Call, end: int) -> bool:
        """Whether a call was put around its only argument."""
        if len(call.args) != 1 or call.keywords or not self._inside(end - 1, end):
            return False
        return bool(self._inside(*self.places.span(call.func)))


def python_spans(before: str, after: str, replaced: Sequence[tuple[int, int, int]]) -> None:
    """Raises Refused unless two Python texts differ only in what lies inside the replaced stretches: (start and end in
    the first, length in the second). Calls put around a value by two of them count as such."""
    old_tree, new_tree = pyspans.parse(before), pyspans.parse(after)
    if pyspans.compiles(before) and not pyspans.compiles(after):
        raise Refused("not_as_wanted", keys="compile()")
    shift = 0
    now = []
    for start, end, length in sorted(replaced):
        now.append((start + shift, start + shift + length))
        shift += length - (end - start)
    regions = [(a, b) for a, b, _ in sorted(replaced)]
    try:
        old = _Shape(before, regions, range(len(regions)))
        first = old.of(old_tree)
        # statements take the place of statements, or of nothing
        may = old.held | {n for n, (a, b) in enumerate(regions) if a == b}
        same = first == _Shape(after, now, may).of(new_tree)
    except RecursionError:
        raise Refused("python_too_deep") from None
    if not same:
        lines = ", ".join(str(before.count("\n", 0, a) + 1) for a, _, _ in sorted(replaced)[:SHOWN])
        raise Refused("changes_more", keys=lines)
