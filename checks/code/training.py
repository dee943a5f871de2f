"""Train steps: what is differentiated, scaled, switched to training mode and handed to the optimizer."""

from __future__ import annotations

import ast

from doctor.checks.code.common import LAYERS, LOSSES, OPTIMIZERS, at, holds_parameters, made, reads, text
from doctor.model import Answer
from doctor.source.match import NOTHING, argument, is_cell_value, literal
from doctor.source.tree import Call, ClassInfo, Module, Scope

STEPS = ("mindspore.nn.TrainOneStepCell", "mindspore.nn.TrainOneStepWithLossScaleCell")
ADAMS = frozenset({"Adam", "AdamWeightDecay", "AdamOffload", "Lamb", "LazyAdam", "AdaMax", "AdamW"})
AMP = ("mindspore.amp.auto_mixed_precision", "mindspore.train.amp.auto_mixed_precision")
LEVELS = ("O0", "O1", "O2", "O3", "auto")


def loss_without_model(module: Module) -> list[Answer]:
    """The train step wraps a loss that does not contain the network: nothing is trained, without any message.

    Source: run on 2.7.0 and 2.10.0: three steps returned the same loss and left the weights unchanged.
    """
    out = []
    for call in module.calls_to(*STEPS):
        given = argument(call.node, "network/0")
        if given is None:
            continue
        if made(module, given, call.scope, LOSSES) or _only_loss(module, given, call.scope):
            out.append(at(module, call.node, {"name": text(given), "what": text(call.node.func)}))
    for call in module.calls_to("mindspore.value_and_grad", "mindspore.ops.value_and_grad", "mindspore.grad"):
        given = argument(call.node, "fn/0")
        weights = argument(call.node, "weights/2")
        if given is not None and weights is not None and made(module, given, call.scope, LOSSES):
            out.append(at(module, call.node, {"name": text(given), "what": text(call.node.func)}))
    return out


def _only_loss(module: Module, node: ast.expr, scope: Scope) -> bool:
    """Whether a value is an instance of a Cell of this file that computes a loss and holds no network."""
    value, home = module.value(node, scope)
    info = module.local_class(value, home)
    if info is None or not isinstance(value, ast.Call) or not module.is_cell(info) or holds_parameters(module, info):
        return False
    method = info.methods.get("construct")
    takes = [a.arg for a in method.args.args[1:]] if method is not None else []
    if takes and takes[0] in ("logits", "logit", "pred", "preds", "outputs", "output") and len(takes) > 1:
        return True  # what it compares comes from outside
    if any(not isinstance(a, ast.Constant) for a in value.args) or any(
        not isinstance(k.value, ast.Constant) for k in value.keywords
    ):
        return False  # something is handed in: it may be the network
    init = info.methods.get("__init__")
    if init is not None and len(init.args.args) > 1 and value.args:
        return False
    return "construct" in info.methods and any(
        made(module, v, s, LOSSES) for given in info.attributes.values() for v, s in given
    )


def sens_without_unscale(module: Module) -> list[Answer]:
    """TrainOneStepCell(sens=…) with an optimizer that does not divide the scale out again.

    Source: run on 2.10.0: with SGD and sens 1024 the weights moved 1024 times as far; SGD(loss_scale=1024) restores it.
    """
    out = []
    for call in module.calls_to("mindspore.nn.TrainOneStepCell"):
        given = argument(call.node, "sens/2")
        scale = literal(module, given, call.scope) if given is not None else NOTHING
        if not isinstance(scale, (int, float)) or isinstance(scale, bool) or scale == 1:
            continue
        optimizer, home = module.value(argument(call.node, "optimizer/1"), call.scope)
        if isinstance(optimizer, ast.Call):
            if any(k.arg in ("loss_scale", None) for k in optimizer.keywords):
                continue
            name = module.call_name(optimizer, home) or ""
            mild = name.rsplit(".", 1)[-1] in ADAMS
            if name.startswith("mindspore.") and name.rsplit(".", 1)[-1] in OPTIMIZERS:
                how = {"severity": "advice"} if mild else {}
                out.append(
                    at(module, call.node, {"value": f"{scale:g}", "name": name.rsplit(".", 1)[-1]}, optimizer, **how)
                )
    return out


def unused_objects(module: Module) -> list[Answer]:
    """A loss that is made and never referenced."""
    return _unused(module, LOSSES)


def unused_scaler(module: Module) -> list[Answer]:
    """A loss scaler that is made and never used: float16 gradients are not scaled."""
    return _unused(module, frozenset({"DynamicLossScaler", "StaticLossScaler", "FixedLossScaleManager",
                                      "DynamicLossScaleManager"}))  # fmt: skip


def _unused(module: Module, names: frozenset[str]) -> list[Answer]:
    out = []
    exported = {n.value for n in module.every(ast.Constant) if isinstance(n.value, str)}
    for call in module.calls:
        if not call.name.startswith("mindspore.") or call.name.rsplit(".", 1)[-1] not in names:
            continue
        parent = module.parents.get(call.node)
        if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
            target = parent.targets[0].id
            script = call.scope.kind != "module" or any(isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)
                                                        for n in module.tree.body)  # fmt: skip
            if script and target not in exported and not reads(module, target):
                out.append(at(module, parent, {"name": target, "what": call.name.rsplit(".", 1)[-1]}))
    return out


def unshifted_labels(module: Module) -> list[Answer]:
    """The loss compares logits with the same tokens that went into the model, nothing is shifted.

    Source: trial of 120 steps on random tokens, ln 256 = 5.545: training loss 0.003 while the true next-token loss is
    13.9; shifted labels stay at 5.55.
    """
    out = []
    for function, scope in module.functions if "logits" in module.text else ():
        inputs = _model_inputs(module, function, scope)
        if not inputs:
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or len(node.args) < 2:
                continue
            if not _is_loss(module, node, scope):
                continue
            logits, labels = _root(node.args[0]), _root(node.args[1])
            if logits is None or labels is None or _sliced(node.args[0]) or _sliced(node.args[1]):
                continue
            if inputs.get(logits) == labels and _bound_once(scope, labels):
                out.append(at(module, node, {"name": labels, "what": logits}))
    copies = (*module.every(ast.Assign), *module.every(ast.Dict)) if "label" in module.text else ()
    for node in (*copies, *module.every(ast.Return), *module.every(ast.Yield)):
        name = _copied_labels(node)
        if name and not _speaks_of_shift(module):
            out.append(at(module, node, {"name": name, "what": text(node, 60)}, severity="warning", confidence="guess"))
    return out


def _model_inputs(module: Module, function: ast.AST, scope: Scope) -> dict[str, str]:
    """logits name → name of the tokens, of ``logits = self.network(tokens)``."""
    out: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            func, args = node.value.func, node.value.args
            own = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == "self"
            known = isinstance(func, ast.Name) and is_cell_value(module, func, scope)
            if (own or known) and args and isinstance(args[0], ast.Name) and "logits" in node.targets[0].id:
                out[node.targets[0].id] = args[0].id
    return out


def _is_loss(module: Module, call: ast.Call, scope: Scope) -> bool:
    name = module.call_name(call, scope) or ""
    if name.startswith("mindspore.") and name.rsplit(".", 1)[-1] in ("cross_entropy", "nll_loss"):
        return True
    return made(module, call.func, scope, LOSSES)


def _root(node: ast.expr) -> str | None:
    """``x`` of x, x.view(…), ops.reshape(x, …)."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            shaped = node.func.attr in ("view", "reshape", "astype", "to", "flatten", "squeeze")
            inner = node.func.value
            module_call = isinstance(inner, ast.Name) and inner.id in ("ops", "F", "P", "mint", "mnp")
            if not shaped:
                return None
            node = node.args[0] if module_call and node.args else inner
        elif isinstance(node, ast.Name):
            return node.id
        else:
            return None


def _sliced(node: ast.expr) -> bool:
    return any(isinstance(n, ast.Subscript) for n in ast.walk(node))


def _bound_once(scope: Scope, name: str) -> bool:
    found = scope.find(name)
    return bool(found) and len(found[1]) == 1 if found else False


def _copied_labels(node: ast.AST) -> str:
    """``input_ids`` of ``labels = input_ids`` or ``{"labels": input_ids}``."""
    pairs: list[tuple[str, ast.expr]] = []
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        pairs = [(node.targets[0].id, node.value)]
    elif isinstance(node, ast.Dict):
        pairs = [(str(k.value), v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
    if isinstance(node, (ast.Return, ast.Yield)) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
        first, second = node.value.elts
        if (
            isinstance(first, ast.Name)
            and first.id in ("input_ids", "ids", "tokens", "token_ids")
            and text(first) == text(second)
        ):
            return first.id
    for name, value in pairs:
        if name in ("labels", "label", "target_ids", "targets"):
            if (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)
                and value.func.attr in ("copy", "clone")
            ):
                value = value.func.value
            if isinstance(value, ast.Name) and value.id in ("input_ids", "inputs", "input_id", "tokens"):
                return value.id
    return ""


def _speaks_of_shift(module: Module) -> bool:
    """Whether code (not comments) moves by one, or leaves that to a model that does it."""
    for one in module.every(ast.Slice):
        if text(one.lower) == "1" or text(one.upper) == "-1":
            return True
    words = {n.id.lower() for n in module.every(ast.Name)} | {n.attr.lower() for n in module.every(ast.Attribute)}
    if any("shift" in w or w in ("roll", "strided_slice", "from_pretrained", "masked_lm") for w in words):
        return True
    masked = any(n.value == -100 for n in module.every(ast.Constant)) or any("mlm" in w for w in words)
    return masked or any(u.name.startswith("mindformers") for u in module.uses)


def torch_mode(module: Module) -> list[Answer]:
    """.train() or .eval() on a Cell, which has set_train().

    Source: run on 2.10.0: AttributeError; a new Cell has training False.
    """
    out = []
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in ("train", "eval") or call.name:
            continue
        if len(call.node.args) > 1:
            continue
        given = _some_cell(module, func.value, call.scope)
        if given is None:
            continue
        info = module.local_class(given, call.scope)
        if info is None or not _defines(module, info, func.attr):
            new = "set_train()" if func.attr == "train" else "set_train(False)"
            out.append(at(module, call.node, {"name": text(func), "what": new}))
    return out


def _some_cell(module: Module, node: ast.expr, scope: Scope) -> ast.expr | None:
    """The Cell that a name was first bound to, if it was: ``net = GPT()``, then ``net = auto_mixed_precision(net)``."""
    if is_cell_value(module, node, scope):
        return node
    found = scope.find(node.id) if isinstance(node, ast.Name) else None
    if found is None or any(b.kind != "expr" for b in found[1]):
        return None
    first: ast.expr = found[1][0].value
    if not isinstance(first, ast.Call) or not is_cell_value(module, first, found[0]):
        return None
    name = node.id if isinstance(node, ast.Name) else ""
    again = all(any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(b.value)) for b in found[1][1:])
    return first if again else None


def _defines(module: Module, info: ClassInfo, method: str) -> bool:
    if method in info.methods:
        return True
    for base in info.bases:
        if base.startswith("."):
            if any(c.name == base[1:] and _defines(module, c, method) for c in module.classes):
                return True
        elif not base.startswith("mindspore."):
            return True
    return False


def dropout_idle(module: Module) -> list[Answer]:
    """A training loop over a network with Dropout and no set_train() anywhere: dropout does nothing."""
    if "set_train" in module.text or any(module.calls_to("mindspore.train.Model", "mindspore.Model")):
        return []
    drops = [
        c
        for c in module.calls
        if c.name in ("mindspore.nn.Dropout", "mindspore.mint.nn.Dropout") and c.scope.owner is not None
    ]
    steps = [*module.calls_to(*STEPS), *module.calls_to("mindspore.value_and_grad", "mindspore.ops.value_and_grad")]
    steps = [s for s in steps if s.scope.owner is None]
    return [at(module, steps[0].node, {"name": text(steps[0].node.func)}, drops[0].node)] if drops and steps else []


def amp_level(module: Module) -> list[Answer]:
    """A level that no release knows. Source: run on 2.10.0: ValueError, the amp level O4 is not supported."""
    out = []
    for call, value, node in _levels(module):
        if isinstance(value, str) and value not in LEVELS:
            out.append(at(module, node, {"value": value, "name": text(call.node.func)}))
    return out


def amp_o3(module: Module) -> list[Answer]:
    """Level O3: LayerNorm in float16 as well. Source: run on 2.10.0: fp16=True on LayerNorm in O3, not in O2."""
    return [at(module, node, {"value": v, "name": text(c.node.func)}) for c, v, node in _levels(module) if v == "O3"]


def amp_softmax(module: Module) -> list[Answer]:
    """Level O2 over Cells that take a softmax by ops: it runs in float16.

    Source: run on 2.10.0: get_black_list() has LayerNorm and BatchNorm, no Softmax.
    """
    softmax = [
        c for c in module.calls
        if c.name.startswith("mindspore.") and c.name.rsplit(".", 1)[-1] in ("softmax", "Softmax")
        and c.scope.owner is not None
    ]  # fmt: skip
    soft = [c for c in softmax if "float32" not in module.line(c.node.lineno)]
    return [at(module, node, {"value": v}, soft[0].node) for c, v, node in _levels(module) if v == "O2" and soft][:1]


def amp_o1(module: Module) -> list[Answer]:
    """Level O1 over a Cell that is defined inside a function, or calls ops.concat.

    Source: run on 2.10.0: O1 rewrites the source: NameError, or TypeError "a code object was expected".
    """
    inner = [c.node for c in module.classes if module.is_cell(c) and module.scopes[c.node].parent is not module.top]
    joined = [
        c.node
        for c in module.calls
        if c.name in ("mindspore.ops.concat", "mindspore.ops.cat") and c.scope.owner is not None
    ]
    reason = [*inner, *joined]
    return [at(module, node, {"value": v}, reason[0]) for c, v, node in _levels(module) if v == "O1" and reason][:1]


def _levels(module: Module) -> list[tuple[Call, object, ast.expr]]:
    found = []
    for call in module.calls:
        tip = call.name.rsplit(".", 1)[-1]
        if not call.name.startswith("mindspore.") or tip not in (
            "auto_mixed_precision",
            "Model",
            "build_train_network",
        ):
            continue
        which = {"auto_mixed_precision": "amp_level/1", "Model": "amp_level", "build_train_network": "level/3"}[tip]
        node = argument(call.node, which)
        if node is not None:
            found.append((call, literal(module, node, call.scope), node))
    return found


def half_parameters(module: Module) -> list[Answer]:
    """float16 weights together with an Adam-type optimizer.

    Source: run on CPU: AdamWeightDecay reaches NaN at step 10 (eps 1e-6) or 2 (eps 1e-8); float32 weights train.
    """
    adam = next(
        (c for c in module.calls if c.name.startswith("mindspore.") and c.name.rsplit(".", 1)[-1] in ADAMS), None
    )
    out = []
    for call in module.calls:
        tip = call.name.rsplit(".", 1)[-1]
        node: ast.expr | None = None
        if call.name.startswith("mindspore.") and tip in ("Dense", "Embedding", "LayerNorm"):
            node = argument(call.node, "dtype")
        elif call.name.startswith("mindspore.") and tip == "Parameter" and call.node.args:
            inner = call.node.args[0]
            if isinstance(inner, ast.Call) and inner.args:
                last = argument(inner, "dtype/1") if "Tensor" in text(inner.func) else argument(inner, "dtype/2")
                node = last
        elif isinstance(call.node.func, ast.Attribute) and call.node.func.attr == "set_dtype" and call.node.args:
            node = call.node.args[0]
        if (
            node is not None
            and (module.qualified(node, call.scope) or "")
            in (
                "mindspore.float16",
                "mindspore.common.dtype.float16",
            )
            and adam is not None
        ):
            out.append(
                at(
                    module,
                    call.node,
                    {"what": text(call.node, 60), "name": adam.name.rsplit(".", 1)[-1]},
                    adam.node,
                )
            )
    return out


def torch_step(module: Module) -> list[Answer]:
    """.step() or .zero_grad() on an optimizer of mindspore.nn, .backward() on a loss: habits of another framework."""
    out = []
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or call.name:
            continue
        if func.attr in ("step", "zero_grad") and made(module, func.value, call.scope, OPTIMIZERS, "mindspore.nn."):
            out.append(at(module, call.node, {"name": text(func), "what": func.attr}))
        elif func.attr == "backward" and not call.node.args:
            value, home = module.value(func.value, call.scope)
            if isinstance(value, ast.Call) and _is_loss(module, value, home):
                out.append(at(module, call.node, {"name": text(func), "what": func.attr}))
    return out


FOREIGN = ("cuda", "npu", "cpu", "detach")
"""Methods of torch tensors and modules that neither Tensor nor Cell of MindSpore has."""


def foreign_method(module: Module) -> list[Answer]:
    """.cuda(), .npu(), .cpu() or .detach() on a Tensor or Cell of MindSpore. Source: hasattr on 2.10.0."""
    out = []
    for call in module.calls:
        func = call.node.func
        if not isinstance(func, ast.Attribute) or func.attr not in FOREIGN or call.name:
            continue
        value, home = module.value(func.value, call.scope)
        if not isinstance(value, ast.Call):
            continue
        info = module.local_class(value, home)
        name = module.call_name(value, home) or ""
        if (info is not None and module.is_cell(info) and func.attr not in info.methods) or name in (
            "mindspore.Tensor", *(f"mindspore.nn.{layer}" for layer in LAYERS)
        ):  # fmt: skip
            out.append(at(module, call.node, {"name": text(func), "what": func.attr}))
    return out


def checkpoint_not_used(module: Module) -> list[Answer]:
    """load_checkpoint without a net whose result nobody reads: the weights are those of the start."""
    out = []
    for call in module.calls_to("mindspore.load_checkpoint", "mindspore.train.serialization.load_checkpoint"):
        if argument(call.node, "net/1") is not None or any(k.arg is None for k in call.node.keywords):
            continue
        around = next(module.ancestors(call.node), None)
        names = [t.id for t in around.targets if isinstance(t, ast.Name)] if isinstance(around, ast.Assign) else []
        unused = isinstance(around, ast.Expr) or (
            len(names) == 1 and len(around.targets) == 1 and not reads(module, names[0])  # type: ignore[union-attr]
        )
        if unused:
            out.append(at(module, call.node, {"name": names[0] if names else "load_checkpoint()"}))
    return out


def loss_not_returned(module: Module) -> list[Answer]:
    """The Cell given to TrainOneStepCell returns logits only."""
    out = []
    for call in module.calls_to(*STEPS):
        info = module.local_class(argument(call.node, "network/0"), call.scope)
        if info is None or not module.is_cell(info) or "construct" not in info.methods:
            continue
        method = info.methods["construct"]
        returned = [n.value for n in ast.walk(method) if isinstance(n, ast.Return) and n.value is not None]
        speaks = "loss" in ast.dump(info.node).lower() or "cross_entropy" in ast.dump(info.node)
        names = [r.id for r in returned if isinstance(r, ast.Name)]
        if (
            returned
            and not speaks
            and len(names) == len(returned)
            and all("logit" in n or "output" in n for n in names)
        ):
            out.append(at(module, call.node, {"name": info.name, "what": names[0]}, method))
    return out


def softmax_then_cross_entropy(module: Module) -> list[Answer]:
    """CrossEntropyLoss over what already went through softmax: it takes logits."""
    out = []
    for function, scope in module.functions if "oftmax" in module.text else ():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node.args and _is_loss(module, node, scope):
                value, home = module.value(node.args[0], scope)
                if isinstance(value, ast.Call):
                    name = module.call_name(value, home) or module.made_by(value.func, home) or ""
                    if name.startswith("mindspore.") and name.rsplit(".", 1)[-1] in ("softmax", "Softmax"):
                        loss = module.call_name(node, scope) or module.made_by(node.func, scope) or ""
                        if loss.rsplit(".", 1)[-1] in (
                            "cross_entropy",
                            "CrossEntropyLoss",
                            "SoftmaxCrossEntropyWithLogits",
                        ):
                            out.append(at(module, node, {"name": loss.rsplit(".", 1)[-1]}, value))
    return out


def bad_values(module: Module) -> list[Answer]:
    """Literal arguments that the constructor refuses.

    Source: runs on 2.10.0: ValueError of Dropout, AdamWeightDecay and GeneratorDataset.
    """
    out = []
    for call in module.calls:
        if not call.name.startswith("mindspore."):
            continue
        tip = call.name.rsplit(".", 1)[-1]
        for what, allowed, node in _refused(module, call, tip):
            out.append(at(module, call.node, {"name": tip, "what": what, "value": text(node), "allowed": allowed}))
    return out


def _refused(module: Module, call: Call, tip: str) -> list[tuple[str, str, ast.expr]]:
    def value(which: str) -> tuple[ast.expr, object] | None:
        node = argument(call.node, which)
        found = literal(module, node, call.scope) if node is not None else NOTHING
        return None if node is None or found is NOTHING or isinstance(found, bool) else (node, found)

    out: list[tuple[str, str, ast.expr]] = []
    if tip in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d") and call.name.startswith("mindspore.nn."):
        given = value("p")
        if given and isinstance(given[1], (int, float)) and not 0 <= given[1] < 1:
            out.append(("p", "0 <= p < 1", given[0]))
    if tip in OPTIMIZERS and call.name.startswith("mindspore.nn."):
        given = value("learning_rate/1")
        if given and isinstance(given[1], (int, float)) and given[1] < 0:
            out.append(("learning_rate", ">= 0", given[0]))
    if tip == "flash_attention_score":
        given = value("input_layout")
        if given and isinstance(given[1], str) and given[1] not in ("BSH", "BNSD", "SBH", "BSND", "TND"):
            out.append(("input_layout", "BSH, BNSD, SBH, BSND, TND", given[0]))
    if tip == "set_context":
        level = value("memory_optimize_level")
        if level and level[1] not in ("O0", "O1"):
            out.append(("memory_optimize_level", "O0, O1", level[0]))
        size = value("max_device_memory")
        if size and not (isinstance(size[1], str) and size[1].upper().endswith("GB")):
            out.append(("max_device_memory", '"30GB"', size[0]))
    if tip.endswith("Dataset"):
        number, all_ = value("shard_id"), value("num_shards")
        if number and all_ and isinstance(number[1], int) and isinstance(all_[1], int) and number[1] >= all_[1]:
            out.append(("shard_id", f"< {all_[1]}", number[0]))
    return out
