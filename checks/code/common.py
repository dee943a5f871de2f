"""Words shared by the code checks."""

from __future__ import annotations

import ast
from typing import Any

from doctor.model import Answer, Evidence, fail
from doctor.source.match import compiled
from doctor.source.tree import ClassInfo, Module, Scope


def at(module: Module, node: ast.AST | int, args: dict[str, Any] | None = None, *more: ast.AST, **how: Any) -> Answer:
    """A failing answer with its file and line; ``more`` are further places to look at."""
    line = node if isinstance(node, int) else getattr(node, "lineno", 0)
    lines = [line, *(getattr(n, "lineno", 0) for n in more)]
    evidence = [Evidence(module.name, n, module.line(n)) for n in dict.fromkeys(lines)]
    return fail({"file": module.name, "line": line, **(args or {})}, *evidence, **how)


def text(node: ast.AST | None, most: int = 80) -> str:
    """Source of an expression, shortened."""
    return "" if node is None else ast.unparse(node)[:most]


def reads(module: Module, name: str) -> list[ast.Name]:
    """Every place of a file where a plain name is read."""
    return [n for n in module.every(ast.Name) if n.id == name and isinstance(n.ctx, ast.Load)]


def graph_functions(module: Module) -> list[tuple[ast.FunctionDef | ast.AsyncFunctionDef, Scope]]:
    """Functions that are compiled as a graph: construct of a Cell, and what stands below @jit."""
    return [(node, scope) for node, scope in module.functions if compiled(module, node, scope)]


def has_parameters(module: Module, node: ast.AST | None, scope: Scope) -> bool:
    """Whether a value is surely a Cell with weights: one of MindSpore's layers that have them, or a Cell of this file
    that holds such a one or a Parameter."""
    value, home = module.value(node, scope)
    if not isinstance(value, ast.Call):
        return False
    info = module.local_class(value, home)
    if info is not None:
        return module.is_cell(info) and holds_parameters(module, info)
    name = module.call_name(value, home) or ""
    return name.startswith("mindspore.") and name.rsplit(".", 1)[-1] in LAYERS


def holds_parameters(module: Module, info: ClassInfo, depth: int = 0) -> bool:
    """Whether a Cell class of this file has weights, as far as its text shows."""
    if depth > 4:
        return False
    for given in info.attributes.values():
        for value, scope in given:
            for inner in ast.walk(value):
                if not isinstance(inner, ast.Call):
                    continue
                name = module.call_name(inner, scope) or ""
                tip = name.rsplit(".", 1)[-1]
                if name.startswith("mindspore.") and (tip in LAYERS or tip == "Parameter"):
                    return True
                other = module.local_class(inner, scope)
                if other is not None and other is not info and holds_parameters(module, other, depth + 1):
                    return True
    return False


LAYERS = frozenset(
    {
        "Dense", "Linear", "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d",
        "BatchNorm3d", "Conv1d",
        "Conv2d", "Conv3d", "Conv1dTranspose", "Conv2dTranspose", "LSTM", "GRU", "RNN", "LSTMCell", "GRUCell",
        "PReLU",
        "MultiheadAttention", "TransformerEncoderLayer", "TransformerDecoderLayer", "BiDense",
    }
)  # fmt: skip
OPTIMIZERS = frozenset(
    {
        "Adam", "AdamWeightDecay", "AdamOffload", "Lamb", "Momentum", "SGD", "RMSProp", "Adagrad", "AdaMax",
        "AdaFactor", "FTRL",
        "LARS", "LazyAdam", "ProximalAdagrad", "Rprop", "ASGD", "Adadelta", "thor",
    }
)  # fmt: skip
LOSSES = frozenset(
    {
        "CrossEntropyLoss", "SoftmaxCrossEntropyWithLogits", "MSELoss", "L1Loss", "NLLLoss", "BCELoss",
        "BCEWithLogitsLoss",
        "SmoothL1Loss", "KLDivLoss", "HuberLoss", "CTCLoss", "CosineEmbeddingLoss",
    }
)  # fmt: skip


def made(module: Module, node: ast.AST | None, scope: Scope, names: frozenset[str], below: str = "mindspore.") -> bool:
    """Whether a value comes from one of MindSpore's callables with these last words."""
    name = module.made_by(node, scope) or ""
    return name.startswith(below) and name.rsplit(".", 1)[-1] in names
