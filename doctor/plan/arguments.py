"""Arguments of MindSpore calls whose literal value has a type or range that the call refuses.

A call counts only if its name comes from MindSpore: imported from it, or an attribute of an imported module of it.
Values are those of MindSpore 2.10 (docstrings and ``_checkparam``); a range that older releases widen is not told.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.plan import fill


class Range(NamedTuple):
    """What an argument takes. ``kind``: int · float · number · bool · words · name. ``low`` is taken, but not with
    ``above``; ``also`` are values of other types."""

    kind: str
    low: float = 0
    high: float = 1e18
    words: tuple[str, ...] = ()
    above: bool = False
    also: tuple[Any, ...] = ()

    def takes(self, value: Any) -> bool:
        """Whether a literal is allowed."""
        if value in self.also and type(value) in [type(a) for a in self.also]:
            return True
        if self.kind == "bool":
            return isinstance(value, bool)
        if self.kind == "words":
            return value in self.words
        if self.kind == "name":
            return isinstance(value, str) and "/" not in value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if type(value) is not {"int": int, "float": float}.get(self.kind, type(value)):
            return False
        return bool((self.low < value if self.above else self.low <= value) and value <= self.high)

    def says(self) -> str:
        """What it takes, for the report."""
        if self.kind == "words":
            return ", ".join(self.words)
        if self.kind in ("bool", "name"):
            return "True, False" if self.kind == "bool" else "/ ✗"
        if self.low < -1e15:
            return self.kind
        ends = f"{'>' if self.above else '>='} {self.low:g}" + (f", <= {self.high:g}" if self.high < 1e15 else "")
        return f"{self.kind} {ends}"


_COUNT, _SWITCH, _SEED = Range("int", 1), Range("bool"), Range("int", 0, 2**32 - 1)
_WORKERS = Range("int", 1, 4096, also=(None,))
_SETS = {
    "num_parallel_workers": _WORKERS, "num_shards": Range("int", 1, also=(None,)),
    "shard_id": Range("int", 0, also=(None,)), "num_samples": Range("int", 0, also=(None,)),
}  # fmt: skip
_FLOAT, _NUMBER = Range("float", -1e18), Range("number", -1e18)
_RATES = {"beta1": _FLOAT, "beta2": _FLOAT, "eps": _FLOAT, "weight_decay": _NUMBER, "learning_rate": _NUMBER}
"""Types only: the values have rules of their own."""
CALLS: dict[str, dict[str, Range]] = {
    "set_seed": {"seed": _SEED},
    "set_context": {
        "mode": Range("int", 0, 1, also=(True, False)),
        "device_target": Range("words", words=("Ascend", "GPU", "CPU", "Davinci")),
        "deterministic": Range("words", words=("ON", "OFF")), "device_id": Range("int", 0, 4095),
    },
    "set_device": {"device_target": Range("words", words=("Ascend", "GPU", "CPU"))},
    "set_auto_parallel_context": {
        "device_num": _COUNT, "global_rank": Range("int", 0, 4095), "gradients_mean": _SWITCH,
        "full_batch": _SWITCH, "pipeline_stages": _COUNT, "enable_parallel_optimizer": _SWITCH,
    },
    "set_deterministic": {"deterministic": _SWITCH},
    "GeneratorDataset": _SETS, "MindDataset": _SETS, "TFRecordDataset": _SETS, "NumpySlicesDataset": _SETS,
    "TextFileDataset": _SETS,
    "batch": {"drop_remainder": _SWITCH, "num_parallel_workers": _WORKERS, "batch_size": Range("int", 1, also=(-1,))},
    "repeat": {"count": Range("int", 1, also=(None, -1))},
    "Model": {"amp_level": Range("words", words=("O0", "O1", "O2", "O3", "auto"))},
    "train": {"epoch": _COUNT, "dataset_sink_mode": _SWITCH, "sink_size": Range("int", 1, also=(-1,))},
    "CheckpointConfig": {
        "save_checkpoint_steps": Range("int", 0, also=(None,)), "keep_checkpoint_max": Range("int", 0, also=(None,)),
        "integrated_save": _SWITCH, "async_save": Range("bool", also=("process", "thread")),
    },
    "DynamicLossScaler": {
        "scale_value": Range("number", 1), "scale_factor": _COUNT, "scale_window": _COUNT,
    },
    "DynamicLossScaleManager": {
        "init_loss_scale": Range("number", 1), "scale_factor": Range("number", 1), "scale_window": _COUNT,
    },
    "FixedLossScaleManager": {"loss_scale": Range("number", 1)},
    "StaticLossScaler": {"scale_value": Range("number", 1)},
    "cosine_decay_lr": {
        "min_lr": Range("float", 0), "max_lr": Range("float", 0, above=True), "total_step": _COUNT,
        "step_per_epoch": _COUNT, "decay_epoch": _COUNT,
    },
    "CosineDecayLR": {
        "min_lr": Range("float", 0), "max_lr": Range("float", 0, above=True), "decay_steps": _COUNT,
    },
    "WarmUpLR": {"learning_rate": Range("number", 0), "warmup_steps": _COUNT},
    "LossMonitor": {"per_print_times": Range("int", 0)},
    "Dropout": {"p": Range("number", 0, 1)},
    "ModelCheckpoint": {"prefix": Range("name")},
    **dict.fromkeys(("Adam", "AdamWeightDecay", "AdamOffload", "FusedAdamWeightDecay", "Lamb"), _RATES),
}  # fmt: skip
"""Call to argument to what it takes."""
FIRST = {"set_seed": "seed", "set_device": "device_target", "batch": "batch_size", "train": "epoch",
         "repeat": "count", "LossMonitor": "per_print_times", "set_deterministic": "deterministic"}  # fmt: skip
METHODS = {"batch": "mindspore.dataset", "repeat": "mindspore.dataset", "train": "Model"}
"""Methods, with what must be imported from MindSpore for them to be these."""
OTHERS = ("np", "numpy", "ops", "mint", "torch", "itertools", "self")
"""Objects whose methods of the same names are others."""
PAIRS = (("min_lr", "max_lr"),)


class Names:
    """What a module imports from MindSpore."""

    def __init__(self, tree: ast.Module) -> None:
        self.modules: set[str] = set()
        self.names: set[str] = set()
        self.whole: set[str] = set()
        self.bound: set[str] = set()
        """parameters and targets of loops: a value of the same name elsewhere is not theirs"""
        self.asked: set[str] = set()
        """names and attributes that a condition asks for: what a call gets may be another value than the first one"""
        for node in ast.walk(tree):
            self._uncertain(node)
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == "mindspore":
                        self.modules.add(alias.asname or "mindspore")
                        self.whole.add(alias.name)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "mindspore":
                for alias in node.names:
                    self.names.add(alias.asname or alias.name)
                    self.modules.add(alias.asname or alias.name)
                    self.whole.add(f"{node.module}.{alias.name}")
                    self.whole.add(alias.name)

    def _uncertain(self, node: ast.AST) -> None:
        if isinstance(node, ast.arg):
            self.bound.add(node.arg)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self.bound.update(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name))
        elif isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            for part in ast.walk(node.test):
                if isinstance(part, (ast.Name, ast.Attribute)):
                    self.asked.add(part.id if isinstance(part, ast.Name) else part.attr)

    def certain(self, node: ast.expr) -> bool:
        """Whether an expression has the value that stands beside its names elsewhere."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.bound | self.asked:
                return False
            if isinstance(part, ast.Attribute) and part.attr in self.asked:
                return False
        return True

    def owns(self, func: ast.expr, name: str) -> bool:
        """Whether a call is one of MindSpore's."""
        if isinstance(func, ast.Name):
            return func.id in self.names
        if name in METHODS:
            owner = func.value if isinstance(func, ast.Attribute) else None
            if isinstance(owner, ast.Name) and owner.id in OTHERS:
                return False
            return METHODS[name] in self.whole or any(w.startswith(METHODS[name]) for w in self.whole)
        root = func
        while isinstance(root, ast.Attribute):
            root = root.value
        return isinstance(root, ast.Name) and root.id in self.modules


def check(node: ast.Call, name: str, names: Names, literal: Callable[[ast.expr], tuple[Any, int]], absent: Any,
          notes: fill.Notes) -> None:  # fmt: skip
    """Note the arguments of one call that it refuses. ``literal`` gives the value of an expression and its line,
    ``absent`` where it has none."""
    table = CALLS.get(name)
    if table is None or not names.owns(node.func, name):
        return
    if name == "train" and len(node.args) + len(node.keywords) < 2:
        # Model.train takes an epoch and a data set; train(True) of another object does not
        return
    given = [(word.arg, word.value) for word in node.keywords if word.arg]
    if name in FIRST and node.args and not isinstance(node.args[0], ast.Starred):
        given.append((FIRST[name], node.args[0]))
    values: dict[str, tuple[Any, int]] = {}
    for key, expression in given:
        value, line = literal(expression)
        limit = table.get(key)
        if value is absent or not names.certain(expression):
            continue
        # None and text behind a name: a default of the command line, which is replaced or converted
        if not isinstance(expression, ast.Constant) and (
            value is None or (isinstance(value, str) and limit is not None and limit.kind not in ("words", "name"))
        ):
            continue
        values[key] = value, line
        if limit is None or (isinstance(value, (list, tuple, dict)) and key != "batch_size"):
            continue
        if not limit.takes(value):
            notes.add("file.bad_arguments", f"{key}={fill.shown(value)} ({limit.says()})", line)
    _together(name, {word.arg for word in node.keywords}, values, node.lineno, notes)


def _together(
    name: str, keys: set[str | None], values: dict[str, tuple[Any, int]], line: int, notes: fill.Notes
) -> None:
    """Arguments that need each other or must be in order."""
    if name.endswith("Dataset") and None not in keys:
        for one, other in (("num_shards", "shard_id"), ("shard_id", "num_shards")):
            if one in values and values[one][0] is not None and other not in keys:
                notes.add("file.bad_arguments", f"{one} ({other})", values[one][1])
        number, shard = values.get("num_shards", (None, 0))[0], values.get("shard_id", (None, 0))
        if type(number) is int and type(shard[0]) is int and shard[0] >= number > 0:
            notes.add("file.bad_arguments", f"shard_id={shard[0]} (< {number})", shard[1])
    for key in ("column_names", "columns_list"):
        columns, at = values.get(key, (None, 0))
        if name.endswith("Dataset") and isinstance(columns, list) and len(set(map(str, columns))) < len(columns):
            notes.add("file.bad_arguments", f"{key}={fill.shown(columns)}"[:120], at)
    devices, stages = values.get("device_num", (None, 0))[0], values.get("pipeline_stages", (None, 0))
    if type(devices) is int and type(stages[0]) is int and devices > 0 and stages[0] > 0 and devices % stages[0]:
        notes.add("file.bad_arguments", f"pipeline_stages={stages[0]} (device_num={devices})", stages[1])
    for low, high in PAIRS:
        least, most = values.get(low, (None, 0)), values.get(high, (None, 0))
        numbers = [v for v in (least[0], most[0]) if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            notes.add(
                "file.bad_arguments", f"{low}={fill.shown(least[0])} (< {high}={fill.shown(most[0])})", least[1] or line
            )
