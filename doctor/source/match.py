"""``match: code:`` of a rule, judged on a file: calls, methods and classes under conditions.

    code: {call: mindspore.nn.Dropout, where: [{arg: keep_prob/0, is: number}]}

``call`` are qualified names (a definition is met under every name that it is exported as), ``method`` are names of
methods called on a Cell or another value, ``class`` are class definitions. All of ``where`` must hold, none of
``not`` may. What is not known (a computed value, a starred argument) holds for no condition but ``is: given``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from doctor.model import Answer, Evidence, fail
from doctor.source.tree import Call, ClassInfo, Module, Scope

IS: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, float),
    "bool": lambda v: isinstance(v, bool),
    "none": lambda v: v is None,
    "bytes": lambda v: isinstance(v, bytes),
    "tuple": lambda v: isinstance(v, tuple),
    "list": lambda v: isinstance(v, list),
    "literal": lambda v: True,
}

NOTHING = object()


def found(module: Module, code: dict[str, Any]) -> list[Answer]:
    """Every place of a file that a rule means."""
    out: list[Answer] = []
    if code.get("class"):
        out += [_class_answer(module, c, code) for c in module.classes if _class_fits(module, c, code["class"])]
    for call, name in _calls(module, code):
        told: dict[str, Any] = {"call": name, "name": name.rsplit(".", 1)[-1], "count": len(call.node.args)}
        if not all(holds(module, call, one, told) for one in code["where"]):
            continue
        if any(holds(module, call, one, {}) for one in code["not"]):
            continue
        unsure = any("construct" in (one.get("inside") or ()) for one in code["where"]) and not as_graph(module, call)
        out.append(at(module, call.node, told, **({"severity": "advice"} if unsure else {})))
    return out


def as_graph(module: Module, call: Call) -> bool:
    """Whether a call in ``construct`` surely runs as a graph: below @jit, or in a file that sets graph mode. Since
    MindSpore 2.0 PyNative is the default, where ``construct`` is plain Python."""
    return sets_graph_mode(module) or compiled(module, call.scope.node, call.scope, cells=False)


def at(module: Module, node: ast.AST, args: dict[str, Any] | None = None, **how: Any) -> Answer:
    """A failing answer with its file and line."""
    line = getattr(node, "lineno", 0)
    told = {"file": module.name, "line": line, **(args or {})}
    return fail(told, Evidence(module.name, line, module.line(line)), **how)


def _calls(module: Module, code: dict[str, Any]) -> Iterator[tuple[Call, str]]:
    wanted = code["call"]
    methods = set(code["method"])
    if wanted:
        for call in module.calls_to(*wanted):
            yield call, call.name
    if methods:
        for call in module.calls:
            func = call.node.func
            if isinstance(func, ast.Attribute) and func.attr in methods and not call.name:
                yield call, ast.unparse(func)[:80]


def literal(module: Module, node: ast.AST | None, scope: Scope) -> Any:
    """The value of an expression that is written down (through names assigned once), NOTHING if it is computed."""
    node, _ = module.value(node, scope)
    if node is None:
        return NOTHING
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return NOTHING


def argument(call: ast.Call, which: str | int) -> ast.expr | None:
    """An argument by ``name``, by position, or ``name/position``; None if it is not given."""
    for part in str(which).split("/"):
        if part.isdigit():
            position = int(part)
            before = call.args[: position + 1]
            if len(before) == position + 1 and not any(isinstance(a, ast.Starred) for a in before):
                return before[-1]
        else:
            for keyword in call.keywords:
                if keyword.arg == part:
                    return keyword.value
    return None


def holds(module: Module, call: Call, condition: dict[str, Any], told: dict[str, Any]) -> bool:
    """Whether one condition of ``where`` holds for a call."""
    if condition.get("arg") is not None:
        return _argument_holds(module, call, condition, told)
    if condition.get("positional"):
        count = len(call.node.args)
        if any(isinstance(a, ast.Starred) for a in call.node.args):
            return False
        return _compares(count, condition["positional"])
    if condition.get("keywords"):
        given = {k.arg for k in call.node.keywords}
        return any(k in given for k in condition["keywords"])
    if condition.get("inside"):
        return any(inside(module, call.node, call.scope, where) for where in condition["inside"])
    if condition.get("dropped"):
        return isinstance(module.parents.get(call.node), ast.Expr)
    if condition.get("of"):
        func = call.node.func
        if not isinstance(func, ast.Attribute):
            return False
        return _is_made(module, func.value, call.scope, condition["of"])
    return False


def _argument_holds(module: Module, call: Call, condition: dict[str, Any], told: dict[str, Any]) -> bool:
    node = argument(call.node, condition["arg"])
    starred = any(k.arg is None for k in call.node.keywords) or any(isinstance(a, ast.Starred) for a in call.node.args)
    if condition.get("is") == "absent":
        return node is None and not starred
    if node is None:
        return False
    told.setdefault("argument", str(condition["arg"]).split("/", maxsplit=1)[0])
    told.setdefault("value", ast.unparse(node)[:80])
    kind = condition.get("is")
    if condition.get("made_by") and not _is_made(module, node, call.scope, condition["made_by"]):
        return False
    if condition.get("matches") and not re.search(condition["matches"], ast.unparse(node)):
        return False
    if condition.get("name"):
        name = module.qualified(module.value(node, call.scope)[0], call.scope)
        if not module.is_a(name, *condition["name"]):
            return False
    plain = [k for k in ("equals", "differs", "above", "below", "length_not") if condition.get(k) is not None]
    if (kind is None or kind == "given") and not plain:
        return True
    value = literal(module, node, call.scope)
    if value is NOTHING:
        return False
    if kind not in (None, "given") and not IS[kind](value):
        return False
    return all(_compares(value, {k: condition[k]}) for k in plain)


def _compares(value: Any, how: dict[str, Any]) -> bool:
    try:
        for word, limit in how.items():
            if limit is None:
                continue
            if word == "equals" and not any(_same(value, one) for one in limit):
                return False
            if word == "differs" and any(_same(value, one) for one in limit):
                return False
            if word == "above" and not value > limit:
                return False
            if word == "below" and not value < limit:
                return False
            if word == "length_not" and len(value) in limit:
                return False
    except TypeError:
        return False
    return True


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _is_made(module: Module, node: ast.AST, scope: Scope, names: list[str]) -> bool:
    """Whether a value comes from one of the callables; ``cell``: it is a Cell; a last ``.*`` takes a whole module."""
    made = module.made_by(node, scope)
    if "cell" in names and is_cell_value(module, node, scope):
        return True
    if made is None:
        return False
    return module.is_a(made, *names) or any(n.endswith(".*") and made.startswith(n[:-1]) for n in names)


def is_cell_value(module: Module, node: ast.AST | None, scope: Scope) -> bool:
    """Whether a value is surely a Cell: made by a Cell class, of MindSpore or of this file."""
    info = module.local_class(node, scope)
    value, home = module.value(node, scope)
    if info is not None and isinstance(value, ast.Call):
        return module.is_cell(info)
    made = module.made_by(value, home)
    return bool(made and module.names is not None and made.startswith("mindspore.") and module.names.is_cell(made))


def inside(module: Module, node: ast.AST, scope: Scope, where: str) -> bool:
    """``construct`` (also helpers of a Cell that it calls, and @jit functions) · ``cell`` · ``init`` · ``loop`` ·
    ``module``."""
    function = scope.function
    if where == "module":
        return function is None
    if where == "cell":
        return scope.owner is not None and module.is_cell(scope.owner)
    if where == "init":
        return function is not None and function.name == "__init__" and scope.owner is not None
    if where == "loop":
        return any(isinstance(a, (ast.For, ast.While)) for a in module.ancestors(node))
    if where == "construct":
        return function is not None and compiled(module, function, scope)
    return False


def compiled(module: Module, function: ast.AST, scope: Scope, *, cells: bool = True) -> bool:
    """Whether a function is compiled as a graph: construct of a Cell (with ``cells``), or below @jit."""
    current: Scope | None = scope
    while current is not None:
        node = current.node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                outer = module.scopes[node].parent or module.top
                if module.is_a(module.qualified(target, outer), "mindspore.jit", "mindspore.ms_function"):
                    return True
            if cells and node.name == "construct" and current.owner is not None and module.is_cell(current.owner):
                return True
        current = current.parent
    return False


def sets_graph_mode(module: Module) -> bool:
    """Whether a file itself chooses graph mode."""
    for call in module.calls_to("mindspore.set_context", "mindspore.context.set_context"):
        for keyword in call.node.keywords:
            if keyword.arg == "mode":
                name = module.qualified(keyword.value, call.scope) or ""
                if name.endswith("GRAPH_MODE") or (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value == 0
                ):
                    return True
    return False


def _class_fits(module: Module, info: ClassInfo, wanted: dict[str, Any]) -> bool:
    if wanted.get("cell") and not module.is_cell(info):
        return False
    bases = wanted.get("base") or []
    if bases and not any(module.is_a(b, *bases) for b in info.bases):
        return False
    if any(name not in info.methods for name in wanted.get("has") or []):
        return False
    return all(name not in info.methods for name in wanted.get("lacks") or [])


def _class_answer(module: Module, info: ClassInfo, code: dict[str, Any]) -> Answer:
    node: ast.AST = info.node
    for name in code["class"].get("has") or []:
        node = info.methods[name]
        break
    return at(module, node, {"class": info.name, "name": info.name})
