"""Plain MindSpore training scripts: what stands in them as literal values.

The script is parsed and never run. Constants of the module, defaults of command-line options and of dataclasses are
followed; a value that comes from anything else is not known, never guessed.
"""

from __future__ import annotations

import ast
import warnings
from typing import Any

from doctor.plan import arguments, fill
from doctor.plan.mindformers import MODE_NAMES, MODEL
from doctor.plan.schema import FIELDS, Plan, Trouble, Value, coerce

CALLS: dict[str, dict[str, str]] = {
    "set_context": {
        "mode": "context.mode", "device_target": "context.device", "max_device_memory": "context.memory",
        "enable_graph_kernel": "context.graph_kernel", "memory_optimize_level": "context.memory_level",
        "save_graphs": "context.save_graphs",
    },
    "set_auto_parallel_context": {
        "device_num": "parallel.devices", "gradients_mean": "parallel.gradients_mean",
        "full_batch": "parallel.full_batch",
        "pipeline_stages": "parallel.pp", "enable_parallel_optimizer": "parallel.optimizer",
        "parallel_mode": "parallel.mode",
    },
    "DynamicLossScaleManager": {
        "init_loss_scale": "precision.loss_scale", "scale_factor": "precision.loss_scale_factor",
        "scale_window": "precision.loss_scale_window",
    },
    "DynamicLossScaleUpdateCell": {
        "loss_scale_value": "precision.loss_scale", "scale_factor": "precision.loss_scale_factor",
        "scale_window": "precision.loss_scale_window",
    },
    "FixedLossScaleManager": {"loss_scale": "precision.loss_scale"},
    "CheckpointConfig": {
        "save_checkpoint_steps": "checkpoint.interval", "keep_checkpoint_max": "checkpoint.keep",
        "integrated_save": "checkpoint.integrated", "async_save": "checkpoint.async",
    },
    "Model": {"amp_level": "precision.amp_level"},
    "build_train_network": {"level": "precision.amp_level"},
    "auto_mixed_precision": {"amp_level": "precision.amp_level"},
    "PipelineCell": {"micro_size": "parallel.micro_batches"},
    "Pipeline": {"micro_size": "parallel.micro_batches"},
    "GradAccumulationCell": {"micro_size": "batch.accumulation"},
    "train": {"epoch": "batch.epochs", "dataset_sink_mode": "batch.sink", "sink_size": "batch.sink_size"},
    "set_seed": {"seed": "run.seed"},
    "batch": {"batch_size": "batch.size", "drop_remainder": "data.drop_remainder"},
}  # fmt: skip
"""Call to keyword to plan name. Only the last part of the name is compared."""

FIRST = {"set_seed": "seed", "batch": "batch_size", "PipelineCell": "micro_size#1",
         "FixedLossScaleManager": "loss_scale",
         "auto_mixed_precision": "amp_level#1", "train": "epoch", "Pipeline": "micro_size#1",
         "GradAccumulationCell": "micro_size#1"}  # fmt: skip
"""Keyword that a positional argument stands for; ``#n`` is its position."""

OPTIMIZERS = ("Adam", "AdamW", "AdamWeightDecay", "Lamb", "SGD", "Momentum", "Adagrad", "RMSProp", "AdaFactor",
              "Adafactor",
              "FP32StateAdamWeightDecay", "FusedAdamWeightDecay", "Lion")  # fmt: skip
OPTIMIZER_KEYS = {"learning_rate": "schedule.lr", "lr": "schedule.lr", "eps": "optimizer.eps",
                  "beta1": "optimizer.beta1",
                  "beta2": "optimizer.beta2", "weight_decay": "optimizer.weight_decay"}  # fmt: skip
DATASETS = ("GeneratorDataset", "MindDataset", "TFRecordDataset", "NumpySlicesDataset", "TextFileDataset")
DATASET_KEYS = {"num_parallel_workers": "data.workers", "num_shards": "data.num_shards"}
DEFAULTS: dict[str, dict[str, Any]] = {
    "DynamicLossScaleManager": {"precision.loss_scale": 2.0**24, "precision.loss_scale_factor": 2.0,
                                "precision.loss_scale_window": 2000},
    "CheckpointConfig": {"checkpoint.interval": 1, "checkpoint.keep": 5, "checkpoint.integrated": True,
                         "checkpoint.async": False},
}  # fmt: skip
"""Of MindSpore 2.7 to 2.10."""

NAMES = {**{k: v for k, v in MODEL.items() if v.startswith("model.") and k not in ("type",)},
         "batch_size": "batch.size", "epochs": "batch.epochs", "num_epochs": "batch.epochs",
         "dropout": "model.hidden_dropout", "n_heads": "model.num_heads", "n_layers": "model.num_layers",
         "max_seq_len": "model.seq_length", "seq_len": "model.seq_length", "block_size": "model.seq_length",
         "d_model": "model.hidden_size", "n_embd": "model.hidden_size", "warmup_steps": "schedule.warmup_steps",
         "total_steps": "schedule.total_steps", "dropout_rate": "model.hidden_dropout"}  # fmt: skip
"""Names of constants, fields and keywords that mean the same everywhere."""

SIZES = ("model.hidden_size", "model.num_layers", "model.num_heads", "model.kv_heads", "model.vocab_size",
         "model.seq_length")  # fmt: skip

_NOT = object()
MAX_NODES = 200_000


def read(path: str, text: str) -> Plan | None:
    """The plan of a script, None for one that trains nothing with MindSpore. Never raises."""
    if "mindspore" not in text:
        return None
    plan = Plan("script", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 1) or 1
        trouble = Trouble("python_syntax", path, line, {"why": str(getattr(error, "msg", error))[:200]})
        return fill.failed(plan, trouble, text)
    imported = arguments.Names(tree)
    reader = _Reader(plan, fill.Notes(text.splitlines()), imported)
    reader.constants(tree)
    for count, node in enumerate(ast.walk(tree)):
        if count > MAX_NODES:
            break
        if isinstance(node, ast.Call):
            reader.call(node)
            arguments.check(node, _last(node.func), imported, reader.literal, _NOT, reader.notes)
    if not reader.trains and not reader.touched:
        return None
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    plan.derive("script.seeded", False, "no set_seed")
    plan.derive("script.distributed", False, "no init()")
    if reader.trains:
        reader.names()
        plan.derive("run.mode", "train", "an optimizer is built")
    reader.notes.into(plan)
    fill.derive(plan)
    return plan


class _Reader:
    def __init__(self, plan: Plan, notes: fill.Notes, imported: arguments.Names) -> None:
        self.plan, self.notes, self.imported = plan, notes, imported
        self.known: dict[str, tuple[Any, int]] = {}
        """constants by name: value and line; _NOT where a name is assigned more than once"""
        self.public: set[str] = set()
        """names of the module, of its classes and of the command line; not those inside functions"""
        self.trains = self.touched = False

    def constants(self, tree: ast.Module) -> None:
        """Names of the module, of dataclasses and of command-line options that have one literal value."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self._learn(node.targets[0].id, node.value)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                self._learn(node.target.id, node.value)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self.known[node.target.id] = (_NOT, node.lineno)
            elif isinstance(node, ast.Call) and _last(node.func) == "add_argument" and node.args:
                name = _literal(node.args[0])
                for word in node.keywords:
                    if word.arg == "default" and isinstance(name, str):
                        option = name.lstrip("-").replace("-", "_")
                        self._learn(option, word.value)
                        self.public.add(option)
        classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
        for body in (tree.body, *(c.body for c in classes)):
            for item in body:
                for target in getattr(item, "targets", [getattr(item, "target", None)]):
                    if isinstance(target, ast.Name):
                        self.public.add(target.id)

    def names(self) -> None:
        """Values of well-known names of the module, its classes and its command line; for a script that trains."""
        for name, target in NAMES.items():
            value, line = self.known.get(name, (_NOT, 0))
            there = target in self.plan.values or target in self.plan.blocked
            if name in self.public and isinstance(value, (int, float, str)) and not there:
                self._put(target, value, line, name)

    def _learn(self, name: str, node: ast.expr) -> None:
        value = self.value(node)
        old = self.known.get(name)
        self.known[name] = (value if old is None or old[0] == value else _NOT, node.lineno)

    def value(self, node: ast.expr) -> Any:
        """The literal behind an expression, _NOT if there is none."""
        found = _literal(node)
        if found is not _NOT:
            return found
        if isinstance(node, ast.Name):
            return self.known.get(node.id, (_NOT, 0))[0]
        if isinstance(node, ast.Attribute):
            if node.attr in ("GRAPH_MODE", "PYNATIVE_MODE"):
                return 0 if node.attr == "GRAPH_MODE" else 1
            if node.attr in ("SEMI_AUTO_PARALLEL", "AUTO_PARALLEL", "DATA_PARALLEL", "STAND_ALONE", "HYBRID_PARALLEL"):
                return node.attr.lower()
            return self.known.get(node.attr, (_NOT, 0))[0]
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            if type(left) in (int, float) and type(right) in (int, float):
                return _compute(node.op, left, right)
        return _NOT

    def literal(self, node: ast.expr) -> tuple[Any, int]:
        """The literal behind an expression and the line where it is written: that of the name it comes from."""
        value = self.value(node)
        if isinstance(node, ast.Name) and node.id in self.known and value is not _NOT:
            return value, self.known[node.id][1]
        return value, node.lineno

    def call(self, node: ast.Call) -> None:
        name = _last(node.func)
        if name in OPTIMIZERS and (node.args or node.keywords) and not _primitive(node.func):
            self.trains = True
            self.plan.put(
                "optimizer.type", Value(name, "set", self.plan.file, node.lineno, name, self.notes.text(node.lineno))
            )
            self._keywords(node, OPTIMIZER_KEYS, {1: "learning_rate"})
            if name == "AdamWeightDecay":
                self.plan.default("optimizer.weight_decay", 0.0, "MindSpore nn.AdamWeightDecay")
                self.plan.default("optimizer.eps", 1e-6, "MindSpore nn.AdamWeightDecay")
            return
        if name in DATASETS:
            self._keywords(node, DATASET_KEYS, {})
            return
        if name.endswith("Config") and name in (
            "GPT2Config",
            "LlamaConfig",
            "BloomConfig",
            "GPTConfig",
            "ModelConfig",
            "TransformerConfig",
        ):
            self.touched = True
            self._keywords(
                node, {k: v for k, v in NAMES.items() if v in self._free()} | {"compute_dtype": "precision.compute"}, {}
            )
            return
        if name == "set_seed":
            self.plan.derive("script.seeded", True, "set_seed")
        elif name == "init" and not node.args and not node.keywords:
            self.plan.derive("script.distributed", True, "init()")
        table = CALLS.get(name)
        if table is None or (
            name in ("train", "batch", "Model", "Pipeline") and not isinstance(node.func, (ast.Attribute, ast.Name))
        ):
            return
        if name in ("set_context", "set_auto_parallel_context", "DynamicLossScaleManager", "PipelineCell"):
            self.touched = True
        first = FIRST.get(name, "")
        word, _, position = first.partition("#")
        self._keywords(node, table, {int(position or 0): word} if word else {})
        if name.startswith("DynamicLossScale"):
            self.plan.derive("precision.loss_scale_dynamic", True, name)
        elif name == "FixedLossScaleManager":
            self.plan.derive("precision.loss_scale_dynamic", False, name)
        if name == "CheckpointConfig":
            self.plan.put(
                "checkpoint.save", Value(True, "set", self.plan.file, node.lineno, name, self.notes.text(node.lineno))
            )
            for option in node.keywords:
                key = self.value(option.value)
                if option.arg == "enc_key" and isinstance(key, (bytes, str)):
                    self._put("checkpoint.enc_key_length", len(key), option.value.lineno, "enc_key")
        for target, value in DEFAULTS.get(name, {}).items():
            self.plan.default(target, value, f"MindSpore {name}")

    def _free(self) -> set[str]:
        return set(NAMES.values())

    def _keywords(self, node: ast.Call, table: dict[str, str], positions: dict[int, str]) -> None:
        given = [(word.arg, word.value) for word in node.keywords if word.arg]
        given += [(word, node.args[n]) for n, word in positions.items() if n < len(node.args)]
        for key, expression in given:
            target = table.get(key)
            if target is None:
                continue
            value, line = self.literal(expression)
            # an empty default that a condition asks for stands for "not given"
            unset = not value and not isinstance(expression, ast.Constant) and not self.imported.certain(expression)
            if value is _NOT or unset:
                self.plan.block(target, f"{key} at line {expression.lineno} is no literal")
                continue
            if target == "parallel.mode":
                value = MODE_NAMES.get(fill.shown(value).lower(), "unknown")
            self._put(target, value, line, key)

    def _put(self, target: str, value: Any, line: int, key: str) -> None:
        try:
            coerce(value, FIELDS["plan." + target].type)
        except (TypeError, OverflowError):
            # a name may mean something else in this script, but not a size that is a number
            if target in SIZES and (fill.is_number_text(value) or isinstance(value, float)):
                self.notes.add("file.text_numbers" if isinstance(value, str) else "file.wrong_types", key, line)
            self.plan.block(target, f"{key} at line {line} has another type")
            return
        fill.put(self.plan, self.notes, target, value, line, key, self.plan.file)


def _primitive(node: ast.expr) -> bool:
    """Whether a class is an operator of the same name (``P.SGD``), not an optimizer."""
    return isinstance(node, ast.Attribute) and _last(node.value) in ("P", "ops", "inner", "_inner_ops", "operations")


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else _NOT
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_literal(item) for item in node.elts[:1000]]
        return _NOT if any(item is _NOT for item in items) else items
    return _NOT


def _compute(operator: ast.operator, left: float, right: float) -> Any:
    """A small calculation such as ``4 * 768`` or ``2 ** 16``."""
    try:
        if isinstance(operator, ast.Mult):
            return left * right
        if isinstance(operator, ast.Add):
            return left + right
        if isinstance(operator, ast.Sub):
            return left - right
        if isinstance(operator, ast.Div):
            return left / right
        if isinstance(operator, ast.FloorDiv):
            return left // right
        if isinstance(operator, ast.Pow) and abs(left) < 1000 and 0 <= right < 64:
            return left**right
    except (ArithmeticError, ValueError):
        pass
    return _NOT
