"""Dataset pipelines, ranks and seeds in source."""

from __future__ import annotations

import ast

from doctor.checks.code.common import at, has_parameters, sets_graph_mode, text
from doctor.model import Answer
from doctor.source.match import argument
from doctor.source.tree import Call, Module, Scope

INIT = (
    "mindspore.communication.init",
    "mindspore.communication.management.init",
    "mindspore.mint.distributed.init_process_group",
)


def _pipeline(module: Module, node: ast.AST | None, scope: Scope, depth: int = 0) -> list[Call]:
    """The calls that made a dataset, the constructor first; empty if it is none."""
    if depth > 30:
        return []
    if isinstance(node, ast.Name):
        found = scope.find(node.id)
        longest: list[Call] = []
        for binding in found[1] if found else ():
            if binding.kind == "expr" and binding.value is not None and node.lineno > binding.value.lineno:
                chain = _pipeline(module, binding.value, found[0] if found else scope, depth + 1)
                longest = max(longest, chain, key=len)
        return longest
    if not isinstance(node, ast.Call):
        return []
    name = module.call_name(node, scope) or ""
    if name.startswith("mindspore.dataset.") and name.rsplit(".", 1)[-1].endswith("Dataset"):
        return [Call(name, node, scope, False)]
    if not name and isinstance(node.func, ast.Attribute):
        before = _pipeline(module, node.func.value, scope, depth + 1)
        return [*before, Call(node.func.attr, node, scope, False)] if before else []
    return []


def _batches(module: Module) -> list[tuple[Call, list[Call]]]:
    """(call, what was called before) of every batch() of a dataset."""
    out = []
    for call in module.calls:
        func = call.node.func
        if isinstance(func, ast.Attribute) and func.attr == "batch" and not call.name:
            chain = _pipeline(module, func.value, call.scope)
            if chain:
                out.append((call, chain))
    return out


def repeat_before_batch(module: Module) -> list[Answer]:
    """repeat() before batch(): batches cross the borders of epochs.

    Source: run on 2.10.0: repeat(2).batch(4) mixes epochs in a batch; batch(4).repeat(2) drops the tail of each.
    """
    return [at(module, call.node, {"name": text(call.node, 60)})
            for call, chain in _batches(module) if any(c.name == "repeat" for c in chain)]  # fmt: skip


def short_last_batch(module: Module) -> list[Answer]:
    """batch() without drop_remainder where the graph is compiled for one shape.

    Source: run on 2.10.0: the last batch is shorter; every new shape costs a compilation of 2 s for two layers.
    """
    if not sets_graph_mode(module) or not any(c.name.startswith("mindspore.nn.") for c in module.calls):
        return []
    return [at(module, call.node, {"name": text(call.node, 60)}) for call, _ in _batches(module)
            if argument(call.node, "drop_remainder/1") is None
            and not any(k.arg is None for k in call.node.keywords)]  # fmt: skip


def shard_id_from_device(module: Module) -> list[Answer]:
    """shard_id taken from the device id: with several servers it repeats, and servers read the same part."""
    out = []
    for call in module.calls:
        for keyword in call.node.keywords:
            if keyword.arg == "shard_id":
                value, _ = module.value(keyword.value, call.scope)
                words = text(keyword.value, 200) + " " + text(value if isinstance(value, ast.expr) else None, 200)
                if any(w in words.lower() for w in ("device_id", "local_rank")):
                    out.append(at(module, keyword.value, {"value": text(keyword.value), "name": text(call.node.func)}))
    return out


def unsharded(module: Module) -> list[Answer]:
    """Data parallel training whose dataset every rank reads in whole."""
    if not any(module.calls_to(*INIT)) or not _data_parallel(module):
        return []
    out = []
    for call in module.calls:
        if call.name.startswith("mindspore.dataset.") and call.name.endswith("Dataset"):
            keys = {k.arg for k in call.node.keywords}
            if (
                not keys & {"num_shards", "sampler", "shard_id", None}
                and "eval" not in module.line(call.node.lineno).lower()
            ):
                function = call.scope.function
                if function is None or not any(w in function.name.lower() for w in ("eval", "val", "test")):
                    out.append(at(module, call.node, {"name": call.name.rsplit(".", 1)[-1]}))
    return out


def _data_parallel(module: Module) -> bool:
    for call in module.calls_to("mindspore.set_auto_parallel_context", "mindspore.context.set_auto_parallel_context"):
        keys = {k.arg: text(k.value) for k in call.node.keywords}
        if keys.get("full_batch") == "True" or "dataset_strategy" in keys:
            return False
        mode = keys.get("parallel_mode", "")
        if "data_parallel" in mode.lower():
            return True
    return False


def ranks_unseeded(module: Module) -> list[Answer]:
    """A data parallel script that builds a network and sets no seed: ranks start from different weights.

    Advice: parameter_broadcast or a common checkpoint does it too.
    """
    starts = list(module.calls_to(*INIT))
    if not starts or not _data_parallel(module):
        return []
    if any(
        word in module.text
        for word in ("set_seed", "manual_seed", "parameter_broadcast", "load_checkpoint", "load_param")
    ):
        return []
    built = next((c for c in module.calls if has_parameters(module, c.node, c.scope) and c.scope.owner is None), None)
    return [at(module, built.node, {"name": text(built.node, 60)}, starts[0].node)] if built else []


def sampler_and_shuffle(module: Module) -> list[Answer]:
    """sampler= together with shuffle=, num_shards= or shard_id=: they exclude each other.

    Source: dataset/engine/samplers.py of 2.10.0: "Conflicting arguments during sampler assignments".
    """
    out = []
    for call in module.calls:
        if call.name.startswith("mindspore.dataset.") and call.name.endswith("Dataset"):
            given = {k.arg: k.value for k in call.node.keywords if k.arg}
            sampler = given.get("sampler")
            others = [k for k in ("shuffle", "num_shards", "shard_id") if k in given and text(given[k]) != "None"]
            if (
                sampler is not None
                and others
                and (module.made_by(sampler, call.scope) or "").startswith("mindspore.dataset.")
            ):
                out.append(at(module, call.node, {"name": call.name.rsplit(".", 1)[-1], "what": others[0]}))
    return out


def torch_group_only(module: Module) -> list[Answer]:
    """The transformers Trainer under mindnlp with only MindSpore's own communication started."""
    if not any(u.name.split(".", 1)[0].rstrip(":") == "mindnlp" for u in module.uses):
        return []
    trainer = next((u for u in module.uses if u.name in ("transformers.Trainer", "transformers.trainer.Trainer")), None)
    start = next(iter(module.calls_to(*INIT[:2])), None)
    ready = (
        any("distributed" in u.name and "mindnlp" in u.name for u in module.uses) or "init_process_group" in module.text
    )
    return (
        [at(module, start.node, {"name": "transformers.Trainer"}, trainer.node)]
        if trainer and start and not ready
        else []
    )


def padding_counts(module: Module) -> list[Answer]:
    """Texts are padded to a fixed length and nothing keeps the padding out of the loss.

    Source: run: ignore_index of CrossEntropyLoss is -100 unless it is given.
    """
    padded = next(
        (c for c in module.calls for k in c.node.keywords
         if k.arg == "padding" and isinstance(k.value, ast.Constant) and k.value.value == "max_length"), None
    )  # fmt: skip
    if padded is None or "label" not in module.text.lower():
        return []
    words = {k.arg for c in module.calls for k in c.node.keywords}
    masked = words & {"ignore_index", "loss_mask"} or any(n.value == -100 for n in module.every(ast.Constant))
    minus = any(isinstance(n.op, ast.USub) and text(n.operand) == "100" for n in module.every(ast.UnaryOp))
    if masked or minus or "loss_mask" in module.text or "DataCollator" in module.text:
        return []
    return [at(module, padded.node, {"name": text(padded.node.func)})]
