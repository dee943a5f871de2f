"""Dataset pipelines, ranks and seeds in source."""

from __future__ import annotations

import ast

from doctor.checks.code.common import at, has_parameters, text
from doctor.model import Answer
from doctor.source.match import NOTHING, argument, literal, sets_graph_mode
from doctor.source.tree import Call, ClassInfo, Module, Scope

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


_GENERATOR = "mindspore.dataset.GeneratorDataset"
_ROWS = ("__getitem__", "__iter__", "__next__")


def _source(module: Module, call: Call) -> ClassInfo | ast.FunctionDef | None:
    """What a GeneratorDataset reads: a class of this file whose methods are all seen, or a generator function."""
    node, home = module.value(argument(call.node, "source/0"), call.scope)
    info = module.local_class(node, home) if isinstance(node, ast.Call) else None
    if info is not None:
        plain = not info.node.decorator_list and not info.node.keywords
        return info if plain and all(text(base) == "object" for base in info.node.bases) else None
    name = node.func if isinstance(node, ast.Call) else node
    found = home.find(name.id) if isinstance(name, ast.Name) else None
    if found and len(found[1]) == 1 and isinstance(found[1][0].value, ast.FunctionDef):
        function = found[1][0].value
        if not function.decorator_list and any(isinstance(n, ast.Yield) for n in _own(function)):
            return function
    return None


def _own(function: ast.AST) -> list[ast.AST]:
    """What stands in a function, without the functions in it."""
    out: list[ast.AST] = []
    for node in ast.iter_child_nodes(function):
        out.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            out += _own(node)
    return out


def dataset_source(module: Module) -> list[Answer]:
    """The source of a GeneratorDataset that lacks a method it needs.

    Source: runs on 2.10.0: "'__len__' method is required"; "should be callable, iterable or random accessible" of a
    class with __next__ alone or none of them; "sampler is not supported if source does not have attribute
    '__getitem__'", the same of num_shards.
    """
    out = []
    for call in module.calls_to(_GENERATOR):
        source = _source(module, call)
        if source is None:
            continue
        has: set[str] = set(source.methods) if isinstance(source, ClassInfo) else {"__iter__"}
        if isinstance(source, ClassInfo):
            has |= {name for n in source.node.body if isinstance(n, ast.Assign) for name in map(text, n.targets)}
        if has & {"__getattr__", "__getattribute__", "__call__"}:
            continue
        lacks, why = "", ""
        if "__getitem__" in has:
            lacks, why = ("", "") if "__len__" in has else ("__len__", "__getitem__")
        elif "__iter__" not in has:
            lacks, why = "__getitem__, __iter__", "source"
        else:
            wants = [k for k in call.node.keywords if k.arg in ("sampler", "num_shards") and text(k.value) != "None"]
            if wants and isinstance(wants[0].value, (ast.Constant, ast.Call, ast.List)):
                lacks, why = "__getitem__", str(wants[0].arg)
        if lacks:
            where = source.node if isinstance(source, ClassInfo) else source
            out.append(at(module, call.node, {"name": source.name, "lacks": lacks, "what": why}, where))
    return out


def column_count(module: Module) -> list[Answer]:
    """column_names of a GeneratorDataset that are more or fewer than what its source returns.

    Source: runs on 2.10.0: "should return same number of NumPy arrays as specified in column_names"; a dict is one.
    """
    out = []
    for call in module.calls_to(_GENERATOR):
        source, names = _source(module, call), argument(call.node, "column_names/1")
        columns = literal(module, names, call.scope) if names is not None else NOTHING
        columns = [columns] if isinstance(columns, str) else columns
        if source is None or not isinstance(columns, (list, tuple)):
            continue
        if isinstance(source, ClassInfo):
            row = next((source.methods[name] for name in _ROWS if name in source.methods), None)
        else:
            row = source
        body = _own(row) if row is not None else []
        kind = ast.Yield if any(isinstance(n, ast.Yield) for n in body) else ast.Return
        given = [n for n in body if isinstance(n, kind)]
        sizes = {_size(n.value) for n in given}
        if len(sizes) != 1 or None in sizes or len(columns) in sizes or any(isinstance(n, ast.YieldFrom) for n in body):
            continue
        told = {"name": source.name, "names": len(columns), "count": sizes.pop()}
        out.append(at(module, call.node, told, given[0]))
    return out


def _size(node: ast.expr | None) -> int | None:
    """How many columns a returned expression fills, None if that is not to be seen."""
    if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in node.elts):
        return len(node.elts)
    return 1 if isinstance(node, ast.Dict) else None
