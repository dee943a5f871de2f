"""Settings of the smoke test from a configuration: its shapes made small with their ratios kept, its other choices.

What has no counterpart in the reference layer, or is another thing there, is said and never left out silently.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from doctor.plan import detect
from doctor.plan.schema import Plan, Value
from doctor.smoke.settings import RANGES, Settings, SettingsError, checked

WIDTH = 320
"""Heads times their width: about the default of the smoke test, so that a run stays short on a CPU."""
HEADS, MOST_HEADS, LENGTH, BATCH, VOCAB = 4, 16, 128, 4, 512

TANH = ("gelu_new", "gelu_fast", "fast_gelu", "fastgelu", "gelu_tanh", "gelu_pytorch_tanh", "quick_gelu")
SILU = ("silu", "swish", "swiglu", "fusedswiglu", "fused_swiglu")
DESCENT = ("SGD", "Momentum", "sgd")
ON, SPREAD = ("parallel.mp", "parallel.pp", "parallel.cp", "parallel.ep"), "parallel.dp"


class Carried(NamedTuple):
    """One setting: what it is in the configuration, what it becomes, and where it stands there."""

    name: str
    was: str
    now: str
    place: str


class Scaled(NamedTuple):
    """``left``: (code, what) of all that is not carried over; texts are ``smoke.left.<code>``. ``ranks``: as many as
    the data parallel size, 0 where there is none."""

    settings: Settings
    file: str
    carried: tuple[Carried, ...]
    left: tuple[tuple[str, str], ...]
    ranks: int

    def to_json(self) -> dict[str, Any]:
        """Plain data for the report."""
        return {"file": self.file, "carried": [c._asdict() for c in self.carried],
                "left": [list(row) for row in self.left], "ranks": self.ranks}  # fmt: skip


def read(path: str) -> Scaled:
    """The settings of a file. Raises SettingsError for one that cannot be read or tells no shape, and OSError."""
    with open(path, "rb"):
        pass
    plan = detect.read(path)
    problem = plan.get("file.problem") if plan is not None else ""
    if plan is None or problem:
        why = f": {problem}" if problem else ""
        raise SettingsError(
            f"{path} 不是可读的训练配置{why}", f"{path} is no training configuration that can be read{why}"
        )
    return from_plan(plan)


def from_plan(plan: Plan) -> Scaled:
    """The settings of a plan. Raises SettingsError when it tells no shape."""
    missing = [name for name in ("model.hidden_size", "model.num_heads") if not _positive(plan.get(name))]
    if missing:
        names = ", ".join(missing)
        raise SettingsError(
            f"{plan.file} 里没有模型形状（{names}）", f"{plan.file} tells no shape of a model ({names})"
        )
    made = _Made(plan)
    made.shape()
    made.numbers()
    made.training()
    made.parallel()
    return Scaled(checked(made.settings), plan.file, tuple(made.carried), tuple(made.left), made.ranks)


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and value > 0


class _Made:
    """Settings in the making."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.settings, self.ranks = plan, Settings(curve=True), 0
        self.carried: list[Carried] = []
        self.left: list[tuple[str, str]] = []

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.plan.get(name, otherwise)

    def take(self, setting: str, name: str, now: Any, was: Any = None) -> None:
        """``setting`` becomes ``now``, which ``name`` of the plan is here; ``was`` if that is named otherwise."""
        if setting in RANGES and not RANGES[setting][0] <= now <= RANGES[setting][1]:
            self.leave("range", f"{setting} {now:g}")
            return
        self.settings = self.settings._replace(**{setting: now})
        value: Value | None = self.plan.values.get(name)
        if value is not None:
            place = f"{value.file}:{value.line}" if value.file and value.line else ""
            self.carried.append(Carried(setting, _short(value.value if was is None else was), _short(now), place))

    def leave(self, code: str, what: Any = "") -> None:
        """Something is not carried over."""
        self.left.append((code, _short(what)))

    # ------------------------------------------------------------------ the model

    def shape(self) -> None:
        """Heads, widths, layers, lengths."""
        heads, hidden = self.get("model.num_heads"), self.get("model.hidden_size")
        keys = self.get("model.kv_heads")
        keys = keys if _positive(keys) and heads % keys == 0 else heads
        size = self.get("model.head_dim")
        size = size if _positive(size) else hidden // heads
        if not size or (hidden % heads and not _positive(self.get("model.head_dim"))):
            raise SettingsError(f"hidden_size {hidden} 不能被 {heads} 个头整除",
                                f"hidden_size {hidden} is not divisible by {heads} heads")  # fmt: skip
        group = heads // keys
        few = group * max(1, min(keys, HEADS // group)) if group <= MOST_HEADS else MOST_HEADS
        fewer = few // group if group <= MOST_HEADS else 1
        if group > MOST_HEADS:
            self.leave("group", f"{heads}/{keys}")
        small = size
        while few * small > WIDTH and small % 32 == 0:
            small //= 2
        if small > RANGES["head_dim"][1]:
            small = int(RANGES["head_dim"][1])
        ratio = hidden / (heads * size)
        width = max(8, round(ratio * few * small / 8) * 8) if ratio != 1 else few * small
        self.take("hidden", "model.hidden_size", width)
        self.take("heads", "model.num_heads", few)
        if fewer != few:
            self.take("kv_heads", "model.kv_heads", fewer)
        if small != size or ratio != 1:
            self.take("head_dim", "model.head_dim", small)
        inner = self.get("model.ffn_size") or self.get("model.expert_ffn")
        if _positive(inner):
            name = "model.ffn_size" if self.get("model.ffn_size") else "model.expert_ffn"
            self.take("ffn", name, max(8, round(inner / hidden * width / 8) * 8))
        layers = self.get("model.num_layers")
        self.take("layers", "model.num_layers", 2 if not _positive(layers) else max(2, min(2, layers)))
        length = self.get("model.seq_length") or self.get("data.seq_length") or self.get("model.max_positions")
        if _positive(length):
            name = next(n for n in ("model.seq_length", "data.seq_length", "model.max_positions") if self.get(n))
            # what makes a length odd stays: 2049 becomes 129
            self.take("seq", name, max(8, length if length <= LENGTH else LENGTH + length % 16))
        vocab = self.get("model.vocab_size")
        if _positive(vocab):
            self.take("vocab", "model.vocab_size", max(33, min(VOCAB, vocab)))
        self.kinds()

    def kinds(self) -> None:
        """Norm, activation, positions, tied head; and what this layer does not have."""
        norm = self.get("model.norm")
        if norm in ("layer", "rms"):
            self.take("norm", "model.norm", norm)
        if _positive(self.get("model.norm_eps")):
            self.take("epsilon", "model.norm_eps", self.get("model.norm_eps"))
        gated = bool(self.get("model.gated"))
        if gated:
            self.take("gated", "model.gated", True)
        act = str(self.get("model.activation") or ("silu" if gated else "gelu")).lower()
        if act in SILU:
            self.take("activation", "model.activation", "silu")
        elif act == "relu":
            self.take("activation", "model.activation", "relu")
        elif act in TANH or act == "gelu":
            # the plain name is the tanh form for MindSpore and the erf form for PyTorch
            exact = act == "gelu" and self.plan.kind in ("huggingface", "megatron")
            self.take("gelu", "model.activation", "erf" if exact else "tanh")
        else:
            self.leave("activation", act)
        position = self.get("model.position")
        if position in ("learned", "rope"):
            self.take("positions", "model.position", position)
        elif position:
            self.leave("position", position)
        if self.settings.positions == "rope" and self.settings.size % 2:
            self.leave("position", "rope")
            self.settings = self.settings._replace(positions="learned")
        if self.get("model.tied") is False:
            self.take("untied", "model.tied", True, True)
        if self.get("model.qkv_bias") is False or self.get("model.linear_bias") is False:
            self.leave("bias")
        if _positive(self.get("model.experts")):
            self.leave("experts", self.get("model.experts"))
        for code in ("mla", "qk_norm", "lora", "embedding_norm", "mtp_layers"):
            if self.get("model." + code):
                self.leave(code)
        drops = {n: self.get(f"model.{n}_dropout") for n in ("hidden", "attention", "embedding")}
        known = {n: d for n, d in drops.items() if d is not None and 0 <= d <= RANGES["dropout"][1]}
        if known and max(known.values()) > 0:
            name = max(known, key=known.__getitem__)
            self.take("dropout", f"model.{name}_dropout", known[name])
            if len(set(known.values())) > 1:
                self.leave("dropout", ", ".join(f"{n} {d:g}" for n, d in known.items()))

    # ------------------------------------------------------------------ numbers and training

    def numbers(self) -> None:
        """dtype, amp, loss scale."""
        dtype = self.get("precision.compute")
        if dtype in ("float32", "float16", "bfloat16"):
            self.take("dtype", "precision.compute", dtype)
        elif dtype:
            self.leave("dtype", dtype)
        level = self.get("precision.amp_level")
        if level in ("O2", "auto"):
            self.take("amp", "precision.amp_level", level)
        elif level == "O3":
            self.take("amp", "precision.amp_level", "O2")
            self.leave("amp", level)
        elif level and level != "O0":
            self.leave("amp", level)
        params = self.get("precision.params")
        if params and params != "float32":
            self.leave("params", params)
        for kind in ("norm", "softmax"):
            if self.get("precision." + kind) not in (None, "float32"):
                self.leave("sensitive", f"{kind} {self.get('precision.' + kind)}")
        if self.settings.dtype == "float16" and self.get("precision.loss_scale_dynamic") is False:
            self.leave("loss_scale", self.get("precision.loss_scale", ""))

    def training(self) -> None:
        """Batch, optimizer, learning rate, mode."""
        size = self.get("batch.size")
        if _positive(size):
            self.take("batch", "batch.size", min(BATCH, size))
        steps = self.get("batch.accumulation")
        if _positive(steps) and steps > 1:
            self.settings = self.settings._replace(batch=BATCH)
            self.take("accumulation", "batch.accumulation", 2)
        kind = self.get("optimizer.type")
        if kind:
            chosen = "sgd" if kind in DESCENT else "adam" if kind == "Adam" else "adamw"
            self.take("optimizer", "optimizer.type", chosen)
            if kind != "Adam" and not kind.endswith("AdamWeightDecay"):
                self.leave("momentum" if chosen == "sgd" else "optimizer", kind)
        name = "schedule.lr" if _positive(self.get("schedule.lr")) else "optimizer.lr"
        if _positive(self.get(name)):
            self.take("rate", name, self.get(name))
            if any(self.get(f"schedule.{n}") for n in ("type", "warmup_steps", "warmup_ratio", "lr_end")):
                self.leave("schedule", f"{self.get(name):g}")
        else:
            self.leave("rate", f"{self.settings.rate:g}")
        for setting, source in (
            ("beta1", "beta1"), ("beta2", "beta2"), ("adam_epsilon", "eps"), ("decay", "weight_decay"),
            ("clip", "clip_norm"),
        ):  # fmt: skip
            if self.get("optimizer." + source) is not None:
                self.take(setting, "optimizer." + source, self.get("optimizer." + source))
        if self.get("recompute.full") or self.get("recompute.selective"):
            name = "recompute.full" if self.get("recompute.full") else "recompute.selective"
            self.take("recompute", name, True)
        if self.get("context.mode") in (0, 1):
            self.take("mode", "context.mode", "graph" if self.get("context.mode") == 0 else "pynative")
        if self.get("run.seed") is not None:
            self.take("seed", "run.seed", self.get("run.seed"))
        if self.get("checkpoint.load"):
            self.leave("weights")

    def parallel(self) -> None:
        """Data parallelism as ranks; the other kinds are not in the layer."""
        cut = [f"{name.partition('.')[2]} {self.get(name)}" for name in ON if (self.get(name) or 1) > 1]
        if cut:
            self.leave("parallel", ", ".join(cut))
        if self.get("parallel.optimizer"):
            self.leave("optimizer_parallel")
        spread = self.get(SPREAD)
        if _positive(spread) and spread > 1:
            self.ranks = int(spread)
        for name in self.plan.blocked:
            if name.partition(".")[0] in ("model", "precision", "optimizer", "schedule"):
                self.leave("unknown", name)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:60]
