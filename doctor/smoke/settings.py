"""What can be set, and what of it cannot work. Standard library only: the interpreter under test reads it too."""

from __future__ import annotations

from typing import Any, NamedTuple

CHOICES: dict[str, tuple[str, ...]] = {
    "device": ("auto", "cpu", "ascend"),
    "mode": ("jit", "graph", "pynative"),
    "dtype": ("float32", "float16", "bfloat16"),
    "amp": ("off", "O2", "auto"),
    "attention": ("auto", "plain", "flash", "both"),
    "positions": ("learned", "rope"),
    "gelu": ("tanh", "erf"),
    "norm": ("layer", "rms"),
    "activation": ("gelu", "silu", "relu"),
    "optimizer": ("adamw", "adam", "sgd"),
    "loss_scale": ("auto", "off", "dynamic"),
}
"""Words that a setting takes, the default first."""

RANGES: dict[str, tuple[float, float]] = {
    "layers": (1, 96),
    "hidden": (8, 16384),
    "heads": (1, 256),
    "kv_heads": (0, 256),
    "head_dim": (0, 1024),
    "ffn": (0, 65536),
    "epsilon": (1e-12, 0.1),
    "seq": (8, 32768),
    "batch": (1, 4096),
    "vocab": (33, 1 << 20),
    "steps": (0, 100000),
    "accumulation": (1, 1024),
    "dropout": (0.0, 0.9),
    "clip": (0.0, 1e6),
    "rate": (1e-8, 10.0),
    "beta1": (0.0, 0.9999),
    "beta2": (0.0, 0.99999),
    "adam_epsilon": (1e-12, 0.1),
    "decay": (0.0, 1.0),
    "ranks": (1, 4096),
    "seed": (0, 1 << 31),
    "limit": (1, 864000),
}
"""Least and greatest value of a number."""

COMPARED = ("recompute", "amp", "mode", "attention")
"""What ``--compare`` can vary."""


class Settings(NamedTuple):
    """The knobs. ``steps`` 0: 40, in PyNative mode 20. ``limit`` in seconds of wall time, for the whole run.

    ``kv_heads`` 0: as many as heads; ``head_dim`` 0: hidden / heads; ``ffn`` 0: 4 × hidden. ``curve``: the same
    training is done in numpy and the losses are compared.
    """

    device: str = "auto"
    mode: str = "jit"
    dtype: str = "float32"
    amp: str = "off"
    attention: str = "auto"
    positions: str = "learned"
    gelu: str = "tanh"
    layers: int = 2
    hidden: int = 256
    heads: int = 4
    seq: int = 128
    batch: int = 4
    vocab: int = 512
    steps: int = 0
    recompute: bool = False
    accumulation: int = 1
    dropout: float = 0.0
    clip: float = 1.0
    loss_scale: str = "auto"
    rate: float = 1e-3
    kv_heads: int = 0
    head_dim: int = 0
    ffn: int = 0
    gated: bool = False
    norm: str = "layer"
    epsilon: float = 1e-5
    activation: str = "gelu"
    untied: bool = False
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    adam_epsilon: float = 1e-6
    decay: float = 0.01
    curve: bool = False
    ranks: int = 1
    seed: int = 7
    weights: str = ""
    inject: str = ""
    profile: bool = False
    limit: float = 300.0

    @property
    def training_steps(self) -> int:
        return self.steps or (20 if self.mode == "pynative" else 40)

    @property
    def key_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def size(self) -> int:
        """Width of a head."""
        return self.head_dim or self.hidden // self.heads

    @property
    def inner(self) -> int:
        """Width inside the feed-forward part."""
        return self.ffn or 4 * self.hidden

    @property
    def like_gpt2(self) -> bool:
        """Whether weights of GPT-2 mean the same in this model."""
        plain = (self.positions, self.gelu, self.norm, self.activation) == ("learned", "tanh", "layer", "gelu")
        wide = self.key_heads == self.heads and self.size * self.heads == self.hidden and self.inner == 4 * self.hidden
        return plain and wide and not self.gated and not self.untied


class SettingsError(ValueError):
    """Settings that cannot work; ``zh`` and ``en`` say why."""

    def __init__(self, zh: str, en: str) -> None:
        super().__init__(en)
        self.zh, self.en = zh, en


def checked(settings: Settings) -> Settings:
    """The settings, if they can work. Raises SettingsError with the reason."""
    for name, words in CHOICES.items():
        value = getattr(settings, name)
        if value not in words:
            listed = ", ".join(words)
            raise SettingsError(
                f"{name} 只能取 {listed}，不能是 {value!r}", f"{name} is one of {listed}, not {value!r}"
            )
    for name, (least, most) in RANGES.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise SettingsError(f"{name} 应在 {least} 到 {most} 之间，不能是 {value}",
                                f"{name} is between {least} and {most}, not {value}")  # fmt: skip
    if not settings.head_dim and settings.hidden % settings.heads:
        raise SettingsError(f"hidden {settings.hidden} 不能被 heads {settings.heads} 整除",
                            f"hidden {settings.hidden} is not divisible by heads {settings.heads}")  # fmt: skip
    if settings.heads % settings.key_heads:
        raise SettingsError(f"heads {settings.heads} 不能被 kv_heads {settings.key_heads} 整除",
                            f"heads {settings.heads} is not divisible by kv_heads {settings.key_heads}")  # fmt: skip
    size, rows = settings.size, settings.accumulation
    if settings.positions == "rope" and size % 2:
        raise SettingsError(
            f"rope 要求每个头的维度为偶数，这里是 {size}", f"rope needs an even head size, here it is {size}"
        )
    if settings.batch % rows:
        raise SettingsError(f"batch {settings.batch} 不能被 accumulation {rows} 整除",
                            f"batch {settings.batch} is not divisible by accumulation {rows}")  # fmt: skip
    if 0 < settings.steps < 8:
        raise SettingsError("steps 至少为 8", "steps is at least 8")
    return settings


def from_mapping(values: dict[str, Any]) -> Settings:
    """Settings of a mapping; unknown names raise SettingsError."""
    unknown = sorted(set(values) - set(Settings._fields))
    if unknown:
        raise SettingsError(f"没有这样的设置：{', '.join(unknown)}", f"no such setting: {', '.join(unknown)}")
    return Settings(**values)
