"""Python inside construct and @jit functions."""

from __future__ import annotations

import ast
from typing import Any

from doctor.checks.code.common import at, graph_functions, text
from doctor.model import Answer
from doctor.source.match import sets_graph_mode
from doctor.source.tree import ClassInfo, Module, Scope

_UNSUPPORTED: dict[type, str] = {ast.Try: "try", ast.Yield: "yield", ast.YieldFrom: "yield from", ast.Global: "global",
                ast.AsyncFor: "async for", ast.Await: "await"}  # fmt: skip
_REDUCES = {"sum", "any", "all", "max", "min", "mean", "norm", "item", "isnan", "isfinite", "equal", "greater", "less"}


def unsupported_syntax(module: Module) -> list[Answer]:
    """try, yield and the like in what is compiled; a warning where nothing says that it runs as a graph.

    Source: runs on 2.10.0 CPU: "Unsupported statement 'Try'", "Unsupported expression 'Yield'".
    """
    out = []
    graph = sets_graph_mode(module)
    for function, _ in graph_functions(module):
        sure = graph or function.name != "construct"
        for node in _own(function):
            word = _UNSUPPORTED.get(type(node))
            if word:
                how = {} if sure else {"severity": "advice"}
                out.append(at(module, node, {"what": word, "name": function.name}, **how))
                break
    return out


def print_in_graph(module: Module) -> list[Answer]:
    """print of a formatted text, open() and input() in what is compiled: they act once, while compiling."""
    out = []
    for function, scope in graph_functions(module):
        for node in _own(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or scope.find(node.func.id):
                continue
            word = node.func.id
            formatted = any(
                isinstance(a, ast.JoinedStr)
                or (isinstance(a, ast.BinOp) and isinstance(a.op, ast.Mod))
                or (isinstance(a, ast.Call) and isinstance(a.func, ast.Attribute) and a.func.attr == "format")
                for a in node.args
            )
            if word in ("open", "input") or (word == "print" and formatted):
                out.append(at(module, node, {"what": text(node, 60), "name": function.name}))
    return out


def tensor_branch(module: Module) -> list[Answer]:
    """if or while on the value of a tensor inside construct: each makes sub-graphs. Advice: it works."""
    out = []
    for function, scope in graph_functions(module):
        for node in _own(function):
            if isinstance(node, (ast.If, ast.While)):
                hit = _on_tensor(module, node.test, scope)
                if hit:
                    out.append(at(module, node, {"what": hit, "name": function.name}))
    return out


def _on_tensor(module: Module, test: ast.expr, scope: Scope) -> str:
    for node in ast.walk(test):
        if isinstance(node, ast.Call):
            name = module.qualified(node.func, scope) or ""
            tip = name.rsplit(".", 1)[-1]
            if name.startswith(("mindspore.ops.", "mindspore.mint.")) and tip in _REDUCES:
                return text(node, 60)
            if not name and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCES and not node.args:
                base = node.func.value
                if not (
                    isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name) and base.value.id == "self"
                ):
                    return text(node, 60)
    return ""


def set_data_in_graph(module: Module) -> list[Answer]:
    """Parameter.set_data inside construct; graph mode refuses it.

    Source: the message "the 'Parameter' object's method 'set_data' is not supported in 'construct'".
    """
    out = []
    sure = sets_graph_mode(module)
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr != "set_data":
            continue
        function = call.scope.function
        if function is None or not any(f is function for f, _ in graph_functions(module)):
            continue
        maker = module.made_by(func.value, call.scope)
        if module.is_a(maker, "mindspore.Parameter", "mindspore.common.parameter.Parameter"):
            how = {} if sure or function.name != "construct" else {"severity": "warning"}
            out.append(at(module, call.node, {"what": text(func), "name": function.name}, **how))
    return out


_WALKS = {"trainable_params", "untrainable_params", "get_parameters", "parameters_and_names", "cells_and_names",
          "parameters_dict"}  # fmt: skip


def parameters_in_graph(module: Module) -> list[Answer]:
    """The parameters or layers of a Cell are listed in construct or a @jit function; graph mode refuses it.

    Source: runs on 2.10.0 CPU: "method or function 'mindspore.nn.cell.Cell.trainable_params' is not supported",
    "Unsupported expression 'Yield'" of parameters_and_names and cells_and_names; cells and name_cells do compile.
    """
    out = []
    sure = sets_graph_mode(module)
    functions = [function for function, _ in graph_functions(module)]
    for call in module.calls:
        func, function = call.node.func, call.scope.function
        if isinstance(func, ast.Attribute) and func.attr in _WALKS and any(f is function for f in functions):
            name = function.name if function is not None else ""
            how = {} if sure or name != "construct" else {"severity": "advice"}
            out.append(at(module, call.node, {"what": text(func), "name": name}, **how))
    return out


def bprop_signature(module: Module) -> list[Answer]:
    """bprop of a Cell that does not take the inputs of construct, out and dout.

    Source: runs on 2.10.0 CPU: "The params of function 'bprop' of Primitive or Cell requires the forward inputs as well
    as the 'out' and 'dout'", in PyNative "takes 4 positional arguments but 5 were given". An input of construct with a
    default may be left out of the call, and nothing is said of it.
    """
    out = []
    for info in module.classes:
        forward, backward = info.methods.get("construct"), info.methods.get("bprop")
        if forward is None or backward is None or not module.is_cell(info):
            continue
        if any(m.decorator_list or m.args.vararg or m.args.kwarg or m.args.kwonlyargs for m in (forward, backward)):
            continue
        if forward.args.defaults or backward.args.defaults or "used_bprop_inputs" in text(info.node, 1 << 16):
            continue
        inputs = [a.arg for a in (*forward.args.posonlyargs, *forward.args.args)][1:]
        given = [a.arg for a in (*backward.args.posonlyargs, *backward.args.args)][1:]
        if len(given) != len(inputs) + 2:
            want = ", ".join(("self", *inputs, "out", "dout"))
            out.append(at(module, backward, {"name": info.name, "got": ", ".join(given), "expected": want}))
    return out


def mask_loop(module: Module) -> list[Answer]:
    """A loop in construct that fills a mask element by element: it unrolls into the graph."""
    out = []
    graph = sets_graph_mode(module)
    for function, _ in graph_functions(module):
        how = {} if graph or function.name != "construct" else {"severity": "advice"}
        for node in _own(function):
            if isinstance(node, ast.For):
                for inner in ast.walk(node):
                    target = inner.targets[0] if isinstance(inner, ast.Assign) else None
                    if isinstance(target, ast.Subscript) and "mask" in text(target.value).lower():
                        out.append(at(module, node, {"what": text(target), "name": function.name}, **how))
                        break
    return out


def inplace_on_input(module: Module) -> list[Answer]:
    """An input of construct is written in place: the caller's tensor changes, and so does what autograd has kept."""
    out = []
    for function, scope in graph_functions(module):
        given = {a.arg for a in function.args.args if a.arg != "self"}
        fresh = {n for n, b in scope.bound.items() if len(b) > 1}
        for node in _own(function):
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AugAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
                    name = target.value.id
                    if name in given and name not in fresh and not _container(name):
                        out.append(at(module, node, {"what": text(target), "name": name}))
    return out


def _container(name: str) -> bool:
    return any(word in name.lower() for word in ("list", "dict", "kwargs", "output", "cache", "kv", "args"))


def views_written(module: Module) -> list[Answer]:
    """A view (reshape, transpose, slice …) of a weight or input is changed in place by a method that ends in _."""
    out = []
    for call in module.calls:
        func = call.node.func
        if not (isinstance(func, ast.Attribute) and func.attr.endswith("_") and not func.attr.startswith("_")):
            continue
        value, _ = module.value(func.value, call.scope)
        made = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute)
        if made and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            view = value.func.attr
            if view in ("view", "reshape", "transpose", "narrow", "chunk", "split", "swapaxes", "permute", "expand_as"):
                out.append(at(module, call.node, {"what": func.attr, "name": view}, value))
    return out


def construct_self(module: Module) -> list[Answer]:
    """construct of a Cell whose first parameter is not called self: it is taken for the cell itself. Where it is used
    as the cell, under another name, only a graph fails.

    Source: runs on 2.10.0 CPU: construct(s, x) that reads s.dense works in PyNative, and fails to compile.
    """
    out = []
    graph = sets_graph_mode(module)
    for info in module.classes:
        method = info.methods.get("construct")
        if method is None or not module.is_cell(info) or method.decorator_list:
            continue
        args = [*method.args.posonlyargs, *method.args.args]
        name = args[0].arg if args else ""
        if (not args and method.args.vararg is not None) or name in ("self", "cls"):
            continue
        told: dict[str, Any] = {"name": info.name, "what": name}
        how: dict[str, Any] = {}
        if name and _reads(method, name) & (_kept(info) | {"register_buffer", "training"}):
            told["renamed"] = True
            how = {} if graph else {"severity": "advice"}
        out.append(at(module, method, told, **how))
    return out


def _reads(method: ast.AST, name: str) -> set[str]:
    """The attributes of a name that a function touches."""
    found = (n for n in ast.walk(method) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
    return {n.attr for n in found if isinstance(n.value, ast.Name) and n.value.id == name}


def _kept(info: ClassInfo) -> set[str]:
    """Methods of a class, and what its methods set on their first parameter."""
    kept = set(info.methods)
    for method in info.methods.values():
        args = [*method.args.posonlyargs, *method.args.args]
        for node in ast.walk(method) if args else ():
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                kept |= {node.attr} if node.value.id == args[0].arg else set()
    return kept


def _own(function: ast.AST) -> list[ast.AST]:
    """All nodes of a function, without those of functions and classes inside."""
    out: list[ast.AST] = []
    pending = list(ast.iter_child_nodes(function))
    while pending:
        node = pending.pop()
        out.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    out.sort(key=lambda n: getattr(n, "lineno", 0))
    return out
