"""How Cells are put together: sub-cells, parameters, constructors, devices."""

from __future__ import annotations

import ast

from doctor.checks.code.common import LAYERS, OPTIMIZERS, at, has_parameters, made, text
from doctor.model import Answer
from doctor.plan.spelling import distance
from doctor.source.match import NOTHING, argument, is_cell_value, literal
from doctor.source.tree import ClassInfo, Module, Scope


def plain_list(module: Module) -> list[Answer]:
    """Layers in a Python list, tuple or dict stored on a Cell: not registered, so never trained.

    Source: run on 2.7.0 and 2.10.0: trainable_params() of a cell with [nn.Dense, nn.Dense] is empty.
    """
    out = []
    for info in module.classes:
        if not module.is_cell(info) or _registers_itself(info):
            continue
        for name, given in info.attributes.items():
            for value, scope in given:
                kind = _plain(module, value, scope)
                if kind:
                    out.append(at(module, value, {"name": f"self.{name}", "class": info.name, "what": kind}))
                    break
    return out


def _plain(module: Module, node: ast.expr, scope: Scope) -> str:
    if isinstance(node, ast.Name):
        found = scope.find(node.id)
        if found is None or len(found[1]) != 1 or found[1][0].kind != "expr" or found[0] is not scope:
            return ""
        inner = found[1][0].value
        if isinstance(inner, ast.List) and not inner.elts:
            for call in module.calls:
                func = call.node.func
                if (
                    isinstance(func, ast.Attribute) and func.attr == "append" and isinstance(func.value, ast.Name)
                    and func.value.id == node.id and call.scope is scope and call.node.args
                    and has_parameters(module, call.node.args[0], call.scope)
                ):  # fmt: skip
                    return "list"
            return ""
        node = inner
    if isinstance(node, (ast.List, ast.Tuple)):
        return type(node).__name__.lower() if any(has_parameters(module, e, scope) for e in node.elts) else ""
    if isinstance(node, ast.ListComp):
        inner_scope = module.scopes.get(node, scope)
        return "list" if has_parameters(module, node.elt, inner_scope) else ""
    if isinstance(node, ast.Dict):
        return "dict" if any(has_parameters(module, v, scope) for v in node.values) else ""
    return ""


def _registers_itself(info: ClassInfo) -> bool:
    """Whether the class hands its layers to MindSpore in another way."""
    source = ast.dump(info.node)
    return any(word in source for word in ("insert_child_to_cell", "CellList", "_cells", "CellDict", "SequentialCell'"))


def construct_misspelt(module: Module) -> list[Answer]:
    """A Cell without construct that has a method spelt nearly so, or forward as PyTorch has it, and nothing that calls
    it."""
    out = []
    for info in module.classes:
        direct = any(base in ("mindspore.nn.Cell", "mindspore.nn.cell.Cell") for base in info.bases)
        if not direct or "construct" in info.methods or "__call__" in info.methods or len(info.bases) > 1:
            continue
        meant = [name for name in info.methods if name == "forward" or 0 < distance(name[:20], "construct") <= 2]
        if meant:
            out.append(at(module, info.methods[meant[0]], {"class": info.name, "name": meant[0]}))
    return out


def super_init(module: Module) -> list[Answer]:
    """Sub-cells or Parameters assigned before, or without, super().__init__()."""
    out = []
    for info in module.classes:
        init = info.methods.get("__init__")
        if init is None or not module.is_cell(info):
            continue
        scope = module.scopes.get(init)
        if scope is None:
            continue
        first, started = None, False
        for node in ast.walk(init):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
                started = True
                line = node.lineno
                break
        else:
            line = 0
        for statement in ast.walk(init):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute):
                target = statement.targets[0]
                own = isinstance(target.value, ast.Name) and target.value.id == "self"
                if own and isinstance(statement.value, ast.Call) and (not started or statement.lineno < line):
                    name = module.call_name(statement.value, scope) or ""
                    tip = name.rsplit(".", 1)[-1]
                    cell = is_cell_value(module, statement.value, scope)
                    if cell or (name.startswith("mindspore.") and tip in (*LAYERS, "Parameter")):
                        first = first or statement
        if first is not None:
            out.append(at(module, first, {"name": info.name, "what": text(first.targets[0])}))
    return out


def parameter_device(module: Module) -> list[Answer]:
    """Assignment to .device of a Parameter: it cannot be written.

    Source: run on 2.10.0: attribute 'device' of 'TensorPy' objects is not writable.
    """
    out = []
    for node in module.every(ast.Assign):
        for target in node.targets:
            if (
                isinstance(target, ast.Attribute)
                and target.attr == "device"
                and isinstance(target.value, (ast.Name, ast.Attribute))
            ) and _is_parameter(module, target.value, node):
                out.append(at(module, node, {"name": text(target)}))
    return out


def _is_parameter(module: Module, value: ast.expr, at_node: ast.AST) -> bool:
    scope = _scope_of(module, at_node)
    if module.is_a(module.made_by(value, scope), "mindspore.Parameter", "mindspore.common.parameter.Parameter"):
        return True
    if isinstance(value, ast.Name):
        for around in module.ancestors(at_node):
            if isinstance(around, ast.For) and value.id in {
                n.id for n in ast.walk(around.target) if isinstance(n, ast.Name)
            }:
                words = ast.dump(around.iter)
                return any(
                    w in words
                    for w in ("trainable_params", "get_parameters", "parameters_and_names", "untrainable_params")
                )
    return False


def _scope_of(module: Module, node: ast.AST) -> Scope:
    for around in module.ancestors(node):
        if around in module.scopes:
            return module.scopes[around]
    return module.top


def optimizer_before_surgery(module: Module) -> list[Answer]:
    """A layer is put into a network after the optimizer was made of its parameters.

    Source: run on 2.10.0: setattr of a Cell on a built Cell works; the optimizer keeps the list it was given.
    """
    out = []
    for call in module.calls:
        if not _is_optimizer(call.name) or not call.node.args:
            continue
        source = call.node.args[0]
        net = next((n.id for n in ast.walk(source) if isinstance(n, ast.Name)), "")
        if not net or "params" not in text(source):
            continue
        for node in module.every(ast.Assign):
            if node.lineno <= call.node.lineno:
                continue
            target = node.targets[0]
            inner: ast.expr = target
            while isinstance(inner, (ast.Attribute, ast.Subscript)):
                inner = inner.value
            deep = (
                isinstance(target, (ast.Attribute, ast.Subscript)) and isinstance(inner, ast.Name) and inner.id == net
            )
            if deep and _scope_of(module, node) is call.scope and has_parameters(module, node.value, call.scope):
                out.append(at(module, node, {"name": text(target), "what": net}, call.node))
    return out


def _is_optimizer(name: str) -> bool:
    return name.startswith("mindspore.nn.") and name.rsplit(".", 1)[-1] in OPTIMIZERS


def optimizer_gets_network(module: Module) -> list[Answer]:
    """The first argument of an optimizer is the network itself, not its parameters."""
    out = []
    for call in module.calls:
        if _is_optimizer(call.name) and call.node.args and is_cell_value(module, call.node.args[0], call.scope):
            out.append(at(module, call.node, {"name": call.name.rsplit(".", 1)[-1], "what": text(call.node.args[0])}))
    return out


def torch_in_cell(module: Module) -> list[Answer]:
    """A torch function is called in a method of a MindSpore Cell."""
    out = []
    for call in module.calls:
        owner = call.scope.owner
        if call.name.startswith("torch.") and owner is not None and module.is_cell(owner) and not call.guarded:
            function = call.scope.function
            if function is not None and (function.name == "construct" or call.name.startswith("torch.nn.functional")):
                out.append(at(module, call.node, {"name": call.name, "class": owner.name}))
    return out


def device_per_layer(module: Module) -> list[Answer]:
    """device_id given to a Cell, or chosen inside one: a process has one device.

    Source: context.py of 2.10.0: the device is a setting of the process.
    """
    out = []
    for call in module.calls:
        keys = {k.arg for k in call.node.keywords}
        if "device_id" not in keys:
            continue
        owner = call.scope.owner
        context = call.name.rsplit(".", 1)[-1] in ("set_context", "set_device")
        if context and owner is not None and module.is_cell(owner):
            out.append(at(module, call.node, {"name": owner.name, "what": text(call.node, 60)}))
        elif not context and is_cell_value(module, call.node, call.scope):
            out.append(at(module, call.node, {"name": text(call.node.func), "what": "device_id"}))
    return out


def celllist_index(module: Module) -> list[Answer]:
    """A CellList indexed by a Tensor, or opened by ops.tuple_getitem.

    Source: run on 2.10.0: TypeError in PyNative, ValueError "switch_layer index must be an int32" in graph mode.
    """
    out = []
    lists = frozenset({"CellList"})
    for call in module.calls_to("mindspore.ops.tuple_getitem", "mindspore.ops.functional.tuple_getitem"):
        if call.node.args and made(module, call.node.args[0], call.scope, lists):
            out.append(at(module, call.node, {"name": text(call.node.args[0]), "what": "tuple_getitem"}))
    for node in module.every(ast.Subscript) if "CellList" in module.text else ():
        if isinstance(node.ctx, ast.Load):
            scope = _scope_of(module, node)
            index = module.made_by(node.slice, scope)
            if module.is_a(index, "mindspore.Tensor", "mindspore.common.tensor.Tensor") and made(
                module, node.value, scope, lists
            ):
                out.append(at(module, node, {"name": text(node.value), "what": text(node.slice)}))
    return out


def same_parameter_name(module: Module) -> list[Answer]:
    """Two Parameters of a Cell with the same literal name."""
    out = []
    for info in module.classes:
        if not module.is_cell(info):
            continue
        seen: dict[str, ast.expr] = {}
        for given in info.attributes.values():
            for value, scope in given[:1]:
                if not isinstance(value, ast.Call) or not (module.call_name(value, scope) or "").endswith(".Parameter"):
                    continue
                for keyword in value.keywords:
                    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                        name = str(keyword.value.value)
                        if name in seen:
                            out.append(at(module, value, {"name": name, "class": info.name}, seen[name]))
                        seen[name] = value
    return out


def late_mode(module: Module) -> list[Answer]:
    """set_context(mode=…) after a network was built in the same block."""
    out = []
    for call in module.calls_to("mindspore.set_context", "mindspore.context.set_context"):
        if not any(k.arg == "mode" for k in call.node.keywords):
            continue
        for other in module.calls:
            built = other.scope is call.scope and other.node.lineno < call.node.lineno
            if built and has_parameters(module, other.node, other.scope):
                out.append(at(module, call.node, {"name": text(other.node, 60)}, other.node))
                break
    return out


def dropout_pair(module: Module) -> list[Answer]:
    """The pair that the primitive ops.Dropout returns, used as one tensor.

    Source: run on 2.7.0 and 2.10.0: (output, mask); adding 1 raises TypeError.
    """
    out = []
    for call in module.calls:
        if not _dropout_primitive(module, call.node.func, call.scope):
            continue
        around = module.parents.get(call.node)
        unpacked = isinstance(around, ast.Assign) and isinstance(around.targets[0], (ast.Tuple, ast.List))
        kept = isinstance(around, (ast.Subscript, ast.Expr)) or unpacked
        if isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name) and not unpacked:
            name = around.targets[0].id
            function = call.scope.function
            used = ast.walk(function) if function is not None else iter(())
            kept = not any(
                isinstance(n, ast.BinOp) and any(isinstance(s, ast.Name) and s.id == name for s in (n.left, n.right))
                for n in used
            )
        elif not isinstance(around, (ast.BinOp, ast.Call)):
            kept = True
        if not kept:
            out.append(at(module, call.node, {"name": text(call.node)}))
    return out


def _dropout_primitive(module: Module, func: ast.expr, scope: Scope) -> bool:
    return module.is_a(module.made_by(func, scope), "mindspore.ops.Dropout", "mindspore.ops.operations.Dropout")


def dropout_always_on(module: Module) -> list[Answer]:
    """A dropout in a Cell that evaluation does not switch off.

    Source: run on 2.7.0 and 2.10.0: ops.Dropout gives 10 % zeros in evaluation too.
    """
    out = []
    for call in module.calls:
        owner = call.scope.owner
        if owner is None or not module.is_cell(owner):
            continue
        if module.is_a(call.name, "mindspore.ops.Dropout", "mindspore.ops.operations.Dropout"):
            if "attr='training'" in ast.dump(owner.node):
                continue  # a Cell that looks at its mode itself
            out.append(at(module, call.node, {"name": "ops.Dropout"}))
        elif call.name in ("mindspore.ops.dropout", "mindspore.mint.nn.functional.dropout"):
            training = argument(call.node, "training/2")
            sure = training is None or (isinstance(training, ast.Constant) and training.value is True)
            guarded = any(
                isinstance(a, (ast.If, ast.IfExp)) and "training" in text(a.test) for a in module.ancestors(call.node)
            )
            if sure and not guarded and not any(k.arg is None for k in call.node.keywords):
                out.append(at(module, call.node, {"name": "ops.dropout"}))
    return out


def dropout_keep_prob(module: Module) -> list[Answer]:
    """nn.Dropout with a number in the first place, which is keep_prob up to 2.10 and p later.

    Keeping less than half is almost always meant the other way round; otherwise only the name is missing.
    """
    out = []
    for call in module.calls_to("mindspore.nn.Dropout"):
        given = argument(call.node, "keep_prob/0")
        value = literal(module, given, call.scope) if given is not None else NOTHING
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        named = any(k.arg == "keep_prob" for k in call.node.keywords)
        how = {"severity": "advice"} if named else {"severity": "warning"} if value >= 0.5 else {}
        out.append(at(module, call.node, {"value": f"{value:g}", "percent": f"{(1 - value) * 100:g} %"}, **how))
    return out


CONVOLUTIONS = tuple(
    f"mindspore.nn.{name}"
    for name in ("Conv1d", "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "Conv3dTranspose")
)


def padding_mode(module: Module) -> list[Answer]:
    """A convolution with a padding that its mode does not take: the default mode is "same", and the fifth argument is
    the mode, not the padding. Source: run on 2.10.0: ValueError, and TypeError for a number as the mode."""
    out = []
    for call in module.calls_to(*CONVOLUTIONS):
        given = argument(call.node, "pad_mode/4")
        mode = literal(module, given, call.scope) if given is not None else "same"
        padding = argument(call.node, "padding/5")
        value = literal(module, padding, call.scope) if padding is not None else 0
        name = (module.call_name(call.node, call.scope) or "").removeprefix("mindspore.")
        if isinstance(mode, int) and not isinstance(mode, bool):
            out.append(at(module, call.node, {"name": name, "what": f"pad_mode={mode}", "value": str(mode)}))
        elif mode in ("same", "valid") and _some(value):
            out.append(at(module, call.node, {"name": name, "what": f'pad_mode="{mode}"', "value": text(padding)}))
    return out


def _some(value: object) -> bool:
    """Whether a padding is known to be more than nothing."""
    if isinstance(value, tuple):
        return any(isinstance(one, int) and one > 0 for one in value)
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
