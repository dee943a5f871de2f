"""A Python file as the code rules see it: names resolved to what they were imported as, calls, classes, loops.

The standard library's ``ast`` and an own look at scopes, not libcst: on 10,000 lines of MindSpore's own code ast and
this module take half a second, libcst 1 s to parse and 7.5 s for its qualified names, and nothing here is rewritten.
Nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

Node = TypeVar("Node", bound=ast.AST)

DEEPEST = 4000

LARGEST = 4 << 20
"""Bytes of a source file that is still read."""

_GUARD = re.compile(r"version|hasattr|_available|\bis_\w+\(|TYPE_CHECKING|getattr")
_CATCHES = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException", "TypeError", ""}
_PYTHON2 = re.compile(
    r"^\s*(?:print\s+[^(=\s]|exec\s+[\"'\w]|except\s+[\w.]+\s*,\s*\w+\s*:|raise\s+\w+\s*,)", re.MULTILINE
)


class Problem(NamedTuple):
    """Why a file could not be read: ``why`` is a code of the interface texts."""

    why: str
    line: int
    text: str


class Binding(NamedTuple):
    """What a name was bound to in a scope. ``kind``: import · expr · def · class · other."""

    kind: str
    value: Any
    guarded: bool = False


class Scope:
    """Names of a module, class or function."""

    __slots__ = ("bound", "kind", "node", "outer", "owner", "parent")

    def __init__(self, kind: str, node: ast.AST, parent: Scope | None) -> None:
        self.kind, self.node, self.parent = kind, node, parent
        self.bound: dict[str, list[Binding]] = {}
        self.outer: set[str] = set()
        self.owner: ClassInfo | None = parent.owner if parent is not None else None

    def add(self, name: str, binding: Binding) -> None:
        self.bound.setdefault(name, []).append(binding)

    def find(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name and all that it binds it to."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bound and name not in scope.outer and (scope.kind != "class" or scope is self):
                return scope, scope.bound[name]
            scope = scope.parent
        return None

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The nearest function around, None at module or class level."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return scope.node
            scope = scope.parent
        return None


class ClassInfo:
    """A class: its bases as qualified names, its methods, and what is assigned to ``self``."""

    def __init__(self, node: ast.ClassDef, bases: list[str]) -> None:
        self.node, self.name, self.bases = node, node.name, bases
        self.methods = {n.name: n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
        self.attributes: dict[str, list[tuple[ast.expr, Scope]]] = {}


class Use(NamedTuple):
    """A place where a qualified name stands. ``guarded``: the author looks first whether it is there."""

    name: str
    node: ast.AST
    line: int
    guarded: bool
    scope: Scope
    stored: bool = False
    imported: bool = False


class Call(NamedTuple):
    """A call with what it calls, as far as that is known."""

    name: str
    node: ast.Call
    scope: Scope
    guarded: bool


class Trouble(NamedTuple):
    """One wrong use. ``kind``: absent · module · member · keyword · positional · twice · deprecated · context ·
    context_gone · context_old. ``name`` is the qualified name as resolved, ``what`` the word at fault."""

    kind: str
    name: str
    what: str
    node: ast.AST
    line: int
    version: str
    package: str
    exact: bool
    more: str = ""
    elsewhere: tuple[str, ...] = ()
    use: dict[str, str] = {}  # noqa: RUF012
    given: bool = False


class Names(Protocol):
    """What an API table says of qualified names."""

    def has(self, module: str, name: str) -> bool:
        """Whether ``from module import *`` brings a name."""

    def is_cell(self, name: str) -> bool:
        """Whether a name is nn.Cell or a class made of it."""

    def key(self, name: str) -> str | None:
        """One text for all names of the same definition, None if there is no such name."""


class Module:
    """One file. ``api`` holds the answers of ``doctor.source.api`` once it was asked."""

    def __init__(self, name: str, text: str, tree: ast.Module) -> None:
        self.name, self.text, self.tree = name, text, tree
        self.lines = text.splitlines()
        self.top = Scope("module", tree, None)
        self.uses: list[Use] = []
        self.calls: list[Call] = []
        self.classes: list[ClassInfo] = []
        self.functions: list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]] = []
        self.stars: list[str] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.api: list[Trouble] = []
        self.names: Names | None = None
        self.version = ""
        self._raw: list[tuple[ast.AST, Scope, bool]] = []
        self._raw_calls: list[tuple[ast.Call, Scope, bool]] = []
        self._imports: list[tuple[str, ast.AST, bool, Scope]] = []
        self._cells: dict[ClassInfo, bool] = {}
        self._nodes: dict[type, list[Any]] = {}
        _Walker(self).run()
        self._resolve()

    # -------------------------------------------------------------- names

    def qualified(self, node: ast.AST | None, scope: Scope, depth: int = 0) -> str | None:
        """``mindspore.nn.Dense`` of a name or attribute chain, None if it is not an import or several things."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute) or (isinstance(node, ast.Call) and asked(node)):
            parts.append(node.attr if isinstance(node, ast.Attribute) else asked(node))
            node = node.value if isinstance(node, ast.Attribute) else node.args[0]
        if isinstance(node, ast.Call) and depth <= 8:
            return self._imported(node, scope, parts)
        if not isinstance(node, ast.Name) or depth > 8:
            return None
        found = scope.find(node.id)
        if found is None:
            return self._from_star(node.id, parts)
        home, bindings = found
        names = set()
        for binding in bindings:
            if binding.kind == "import":
                names.add(binding.value)
            elif binding.kind == "expr" and isinstance(binding.value, (ast.Name, ast.Attribute, ast.Call)):
                inner = self.qualified(binding.value, home, depth + 1)
                if inner is None:
                    return None
                names.add(inner)
            else:
                return None
        if len(names) != 1:
            return None
        return ".".join([names.pop(), *reversed(parts)])

    def _imported(self, node: ast.Call, scope: Scope, parts: list[str]) -> str | None:
        """The module that ``importlib.import_module("…")`` gives, and what is taken from it."""
        named = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(named, ast.Constant) or not isinstance(named.value, str) or named.value[:1] in ("", "."):
            return None
        if not isinstance(node.func, (ast.Name, ast.Attribute)):
            return None
        if self.qualified(node.func, scope, 8) != "importlib.import_module":
            return None
        return ".".join([named.value, *reversed(parts)])

    def _from_star(self, name: str, parts: list[str]) -> str | None:
        for star in reversed(self.stars):
            if self.names is not None and self.names.has(star, name):
                return ".".join([star, name, *reversed(parts)])
        return None

    def value(self, node: ast.AST | None, scope: Scope, depth: int = 0) -> tuple[ast.AST | None, Scope]:
        """What a name or ``self.x`` stands for when it was assigned exactly once; else the node itself."""
        if depth > 6:
            return node, scope
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            if found and len(found[1]) == 1 and found[1][0].kind == "expr":
                return self.value(found[1][0].value, found[0], depth + 1)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            given = scope.owner.attributes.get(node.attr, []) if scope.owner else []
            if len(given) == 1:
                return self.value(given[0][0], given[0][1], depth + 1)
        return node, scope

    def made_by(self, node: ast.AST | None, scope: Scope) -> str | None:
        """Qualified name of the callable that made the value of an expression."""
        node, scope = self.value(node, scope)
        return self.call_name(node, scope) if isinstance(node, ast.Call) else None

    def call_name(self, node: ast.Call, scope: Scope) -> str | None:
        return self.qualified(node.func, scope)

    def local_class(self, node: ast.AST | None, scope: Scope) -> ClassInfo | None:
        """The class of this file that a name means, or that a value is an instance of."""
        node, scope = self.value(node, scope)
        if isinstance(node, ast.Call):
            node = node.func
        if isinstance(node, ast.Name):
            found = scope.find(node.id)
            if found and len(found[1]) == 1 and found[1][0].kind == "class":
                return found[1][0].value if isinstance(found[1][0].value, ClassInfo) else None
        return None

    def is_cell(self, info: ClassInfo) -> bool:
        """Whether a class derives from mindspore.nn.Cell, as far as this file and the API table tell."""
        known = self._cells.get(info)
        if known is None:
            self._cells[info] = False
            known = self._cells[info] = any(self._cell_base(base) for base in info.bases)
        return known

    def _cell_base(self, base: str) -> bool:
        if base.startswith("."):
            return any(c.name == base[1:] and self.is_cell(c) for c in self.classes)
        if base in ("mindspore.nn.Cell", "mindspore.nn.cell.Cell", "mindnlp.core.nn.Module"):
            return True
        return bool(self.names is not None and base.startswith("mindspore.") and self.names.is_cell(base))

    def is_a(self, name: str | None, *wanted: str) -> bool:
        """Whether a qualified name is one of ``wanted``, under whatever module it is exported."""
        if not name:
            return False
        if name in wanted:
            return True
        if self.names is None:
            return False
        return any(self.same(name, one) for one in wanted if one.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1])

    def same(self, one: str, other: str) -> bool:
        """Whether two qualified names mean the same definition."""
        if one == other:
            return True
        if self.names is None:
            return False
        key = self.names.key(one)
        return key is not None and key == self.names.key(other)

    # -------------------------------------------------------------- around a node

    def every(self, kind: type[Node]) -> list[Node]:
        """All nodes of a kind, from one walk for all who ask."""
        if not self._nodes:
            for node in ast.walk(self.tree):
                self._nodes.setdefault(type(node), []).append(node)
        return self._nodes.get(kind, [])

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def line(self, number: int) -> str:
        """Text of a line, from 1, at most 300 characters."""
        return self.lines[number - 1].strip()[:300] if 0 < number <= len(self.lines) else ""

    def calls_to(self, *names: str) -> Iterator[Call]:
        """Calls of one of these qualified names, under whatever module they are exported."""
        for call in self.calls:
            if call.name and self.is_a(call.name, *names):
                yield call

    @property
    def loose(self) -> list[tuple[str, ast.AST, bool]]:
        """(name, node, guarded) of every name that no scope binds."""
        out: list[tuple[str, ast.AST, bool]] = []
        for node, scope, guarded in self._raw:
            first = node
            while isinstance(first, ast.Attribute):
                first = first.value
            if isinstance(first, ast.Name) and scope.find(first.id) is None:
                out.append((first.id, first, guarded))
        return out

    def _resolve(self) -> None:
        self._cells = {}
        self.uses = [Use(name, node, getattr(node, "lineno", 0), guarded, scope, imported=True)
                     for name, node, guarded, scope in self._imports]  # fmt: skip
        for node, scope, guarded in self._raw:
            name = self.qualified(node, scope)
            if name is not None:
                stored = isinstance(getattr(node, "ctx", None), (ast.Store, ast.Del))
                self.uses.append(
                    Use(name, node, getattr(node, "lineno", 0), guarded or self._maybe(node, scope), scope, stored)
                )
        self.calls = [Call(self.qualified(n.func, s) or "", n, s, g) for n, s, g in self._raw_calls]
        for info in self.classes:
            scope = self.scopes[info.node]
            info.bases = []
            for base in info.node.bases:
                outer = scope.parent or scope
                name = self.qualified(base, outer)
                if name is None and isinstance(base, ast.Name):
                    name = "." + base.id
                info.bases.append(name or "?")

    def understand(self, names: Names) -> None:
        """Let an API table say what names mean."""
        self.names = names
        self._resolve()

    def _maybe(self, node: ast.AST, scope: Scope) -> bool:
        """Whether the first word was imported where a missing name is caught."""
        while isinstance(node, ast.Attribute):
            node = node.value
        found = scope.find(node.id) if isinstance(node, ast.Name) else None
        return bool(found) and any(b.guarded for b in found[1]) if found else False


def asked(node: ast.Call) -> str:
    """The attribute that ``getattr(x, "name")`` asks for; "" for other calls, and with a value for its absence."""
    if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) == 2 and not node.keywords:
        name = node.args[1]
        if isinstance(name, ast.Constant) and isinstance(name.value, str) and name.value.isidentifier():
            return name.value
    return ""


class _Walker:
    """One pass over the tree: scopes, bindings, chains, calls, guards."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.parents = module.parents

    def run(self) -> None:
        module = self.module
        module.scopes[module.tree] = module.top
        self.body(module.tree, module.top, False)

    def body(self, node: ast.AST, scope: Scope, guarded: bool) -> None:
        for child in ast.iter_child_nodes(node):
            self.parents[child] = node
            self.visit(child, scope, guarded)

    def visit(self, node: ast.AST, scope: Scope, guarded: bool) -> None:
        kind = type(node)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, node, scope, guarded)
        else:
            self.body(node, scope, guarded)

    def name(self, node: ast.Name, scope: Scope, guarded: bool) -> None:
        if isinstance(node.ctx, ast.Load):
            self.module._raw.append((node, scope, guarded))
        else:
            self.bind(node.id, Binding("other", node), scope)

    def attribute(self, node: ast.Attribute, scope: Scope, guarded: bool) -> None:
        self.module._raw.append((node, scope, guarded))
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            self.parents[inner.value] = inner
            inner = inner.value
        if not isinstance(inner, ast.Name):
            if not isinstance(inner, ast.Call):
                self.module._raw.pop()
            self.visit(inner, scope, guarded)

    def call(self, node: ast.Call, scope: Scope, guarded: bool) -> None:
        self.module._raw_calls.append((node, scope, guarded))
        if asked(node) and scope.find("getattr") is None:
            self.module._raw.append((node, scope, guarded))
        self.body(node, scope, guarded)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, guarded: bool) -> None:
        inner = Scope("function", node, scope)
        self.module.scopes[node] = inner
        if not isinstance(node, ast.Lambda):
            self.bind(node.name, Binding("def", node), scope)
            self.module.functions.append((node, inner))
            for decorator in node.decorator_list:
                self.parents[decorator] = node
                self.visit(decorator, scope, guarded)
        args = node.args
        self.parents[args] = node
        every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        for arg in every:
            if arg is not None:
                inner.add(arg.arg, Binding("other", arg))
                if arg.annotation is not None:
                    self.parents[arg.annotation] = arg
                    self.visit(arg.annotation, scope, guarded)
        for default in (*args.defaults, *(d for d in args.kw_defaults if d is not None)):
            self.parents[default] = args
            self.visit(default, scope, guarded)
        if isinstance(node, ast.Lambda):
            self.parents[node.body] = node
            self.visit(node.body, inner, guarded)
            return
        if node.returns is not None:
            self.parents[node.returns] = node
            self.visit(node.returns, scope, guarded)
        guarded = guarded or any("version" in ast.dump(d) for d in node.decorator_list)
        self.block(node.body, node, inner, guarded)

    def class_(self, node: ast.ClassDef, scope: Scope, guarded: bool) -> None:
        inner = Scope("class", node, scope)
        info = ClassInfo(node, [])
        inner.owner = info
        self.module.scopes[node] = inner
        self.module.classes.append(info)
        self.bind(node.name, Binding("class", info), scope)
        for part in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.parents[part] = node
            self.visit(part, scope, guarded)
        self.block(node.body, node, inner, guarded)

    def comprehension(self, node: Any, scope: Scope, guarded: bool) -> None:
        inner = Scope("comprehension", node, scope)
        self.body(node, inner, guarded)

    def import_(self, node: ast.Import, scope: Scope, guarded: bool) -> None:
        for item in node.names:
            top = item.name if item.asname else item.name.split(".")[0]
            self.bind(item.asname or top, Binding("import", top, guarded), scope)
            self.module._imports.append((item.name + ":", node, guarded, scope))

    def from_(self, node: ast.ImportFrom, scope: Scope, guarded: bool) -> None:
        source = "." * node.level + (node.module or "")
        for item in node.names:
            if item.name == "*":
                self.module.stars.append(source)
                self.module._imports.append((source + ":", node, guarded, scope))
                continue
            full = f"{source}.{item.name}"
            self.bind(item.asname or item.name, Binding("import", full, guarded), scope)
            self.module._imports.append((full, item if hasattr(item, "lineno") else node, guarded, scope))

    def assign(self, node: ast.Assign | ast.AnnAssign, scope: Scope, guarded: bool) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            self.parents[target] = node
            self.target(target, node.value, scope, guarded)
        if isinstance(node, ast.AnnAssign):
            self.parents[node.annotation] = node
            self.visit(node.annotation, scope, guarded)
        if node.value is not None:
            self.parents[node.value] = node
            self.visit(node.value, scope, guarded)

    def target(self, target: ast.AST, value: ast.expr | None, scope: Scope, guarded: bool) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, Binding("expr", value) if value is not None else Binding("other", None), scope)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values = (
                value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
            )
            for n, one in enumerate(target.elts):
                self.parents[one] = target
                self.target(one, values[n] if values else None, scope, guarded)
        else:
            own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
            if own and scope.owner is not None and isinstance(target, ast.Attribute):
                scope.owner.attributes.setdefault(target.attr, []).append(
                    (value if value is not None else ast.Constant(...), scope)
                )
            self.visit(target, scope, guarded)

    def walrus(self, node: ast.NamedExpr, scope: Scope, guarded: bool) -> None:
        home = scope
        while home.kind == "comprehension" and home.parent is not None:
            home = home.parent
        self.bind(node.target.id, Binding("other", None), home)
        self.parents[node.value] = node
        self.visit(node.value, scope, guarded)

    def handler(self, node: ast.ExceptHandler, scope: Scope, guarded: bool) -> None:
        if node.name:
            self.bind(node.name, Binding("other", None), scope)
        self.body(node, scope, guarded)

    def global_(self, node: ast.Global | ast.Nonlocal, scope: Scope, guarded: bool) -> None:
        scope.outer.update(node.names)

    def try_(self, node: Any, scope: Scope, guarded: bool) -> None:
        caught: set[str] = set()
        for h in node.handlers:
            kinds = h.type.elts if isinstance(h.type, ast.Tuple) else [h.type]
            caught |= {getattr(k, "id", getattr(k, "attr", "")) for k in kinds}
        safe = guarded or (bool(node.handlers) and bool(caught & _CATCHES))
        self.block(node.body, node, scope, safe)
        for h in node.handlers:
            self.parents[h] = node
            self.visit(h, scope, safe)
        self.block(node.orelse, node, scope, guarded)
        self.block(node.finalbody, node, scope, guarded)

    def if_(self, node: ast.If | ast.IfExp, scope: Scope, guarded: bool) -> None:
        self.parents[node.test] = node
        guard = self.guards(node.test)
        self.visit(node.test, scope, guarded or guard)
        for part in (node.body, node.orelse):
            if isinstance(part, list):
                self.block(part, node, scope, guarded or guard)
            else:
                self.parents[part] = node
                self.visit(part, scope, guarded or guard)

    def guards(self, test: ast.AST) -> bool:
        """Whether a condition asks what is there."""
        first, last = getattr(test, "lineno", 0), getattr(test, "end_lineno", 0)
        return bool(_GUARD.search("\n".join(self.module.lines[first - 1 : last])))

    def block(self, body: list[ast.stmt], parent: ast.AST, scope: Scope, guarded: bool) -> None:
        for child in body:
            self.parents[child] = parent
            self.visit(child, scope, guarded)
            if isinstance(child, ast.If) and self.guards(child.test) and child.body and _leaves(child.body[-1]):
                guarded = True  # what follows "if version < …: return" is guarded too

    def bind(self, name: str, binding: Binding, scope: Scope) -> None:
        home = scope
        if name in scope.outer:
            home = self.module.top
        home.add(name, binding)


def _leaves(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Return, ast.Raise, ast.Continue, ast.Break))


_HANDLERS: dict[type, Any] = {
    ast.Name: _Walker.name, ast.Attribute: _Walker.attribute, ast.Call: _Walker.call,
    ast.FunctionDef: _Walker.function, ast.AsyncFunctionDef: _Walker.function, ast.Lambda: _Walker.function,
    ast.ClassDef: _Walker.class_, ast.ListComp: _Walker.comprehension, ast.SetComp: _Walker.comprehension,
    ast.DictComp: _Walker.comprehension, ast.GeneratorExp: _Walker.comprehension, ast.Import: _Walker.import_,
    ast.ImportFrom: _Walker.from_, ast.Assign: _Walker.assign, ast.AnnAssign: _Walker.assign,
    ast.NamedExpr: _Walker.walrus, ast.ExceptHandler: _Walker.handler, ast.Global: _Walker.global_,
    ast.Nonlocal: _Walker.global_, ast.Try: _Walker.try_, ast.If: _Walker.if_, ast.IfExp: _Walker.if_,
}  # fmt: skip
if hasattr(ast, "TryStar"):
    _HANDLERS[ast.TryStar] = _Walker.try_


def read(name: str, data: bytes) -> Module | Problem:
    """A file as a Module, or the one reason why it is none."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEEPEST))  # chains of calls are as deep as they are long
    try:
        return _read(name, data)
    finally:
        sys.setrecursionlimit(before)


def _read(name: str, data: bytes) -> Module | Problem:
    if len(data) > LARGEST:
        return Problem("too_large", 0, "")
    if b"\0" in data[:4096]:
        return Problem("binary", 0, "")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("gb18030", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tree = ast.parse(text)
            except IndentationError:
                tree = ast.parse(text := textwrap.dedent(text))  # a piece of a function; lines stay where they are
    except SyntaxError as error:
        lines = text.splitlines()
        line = error.lineno or 0
        shown = lines[line - 1].strip()[:200] if 0 < line <= len(lines) else ""
        return Problem("python2" if _PYTHON2.search(shown) else "syntax", line, f"{error.msg}: {shown}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Problem("not_understood", 0, str(error)[:200])
    try:
        return Module(name, text, tree)
    except RecursionError:
        return Problem("not_understood", 0, "nested too deeply")
