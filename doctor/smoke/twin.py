"""The same GPT in numpy float64: what the layer is compared with. Written from the formulas, it shares no code with it.

Weights come by the names of ``canonical``: ``wte``, ``wpe``, ``ln_f.scale``, ``h.0.qkv.weight`` (out, in) and so on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def layer_norm(x: Any, scale: Any, shift: Any, epsilon: Any) -> Any:
    """Mean 0 and variance 1 over the last axis, then scale and shift."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale + shift


def gelu(x: Any, tanh: Any) -> Any:
    """The tanh form, or the exact one with erf."""
    if tanh:
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2.0)))


def softmax(x: Any) -> Any:
    """Over the last axis."""
    grown = np.exp(x - x.max(-1, keepdims=True))
    return grown / grown.sum(-1, keepdims=True)


def turn(x: Any) -> Any:
    """Rotary positions of (batch, heads, length, size), half-split form, base 10000."""
    length, size = x.shape[-2:]
    angle = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, size, 2) / size))
    left, right = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate(
        [left * np.cos(angle) - right * np.sin(angle), right * np.cos(angle) + left * np.sin(angle)], -1
    )


def attention(y: Any, weights: Any, heads: Any, rotary: Any, empty: Any = 0) -> Any:
    """(result, share of the attention of the last token that goes to ``empty`` zero keys behind it)."""
    batch, length, hidden = y.shape
    mixed = y @ weights["qkv.weight"].T + weights["qkv.bias"]
    q, k, v = (t.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in np.split(mixed, 3, axis=-1))
    if rotary:
        q, k = turn(q), turn(k)
    score = q @ k.transpose(0, 1, 3, 2) / math.sqrt(hidden // heads)
    last = np.concatenate([score[:, :, -1], np.zeros((batch, heads, empty))], -1)
    score = np.where(np.triu(np.ones((length, length), bool), 1), -np.inf, score)
    out = (softmax(score) @ v).transpose(0, 2, 1, 3).reshape(batch, length, hidden)
    wasted = float(softmax(last)[..., length:].sum(-1).mean()) if empty else 0.0
    return out @ weights["proj.weight"].T + weights["proj.bias"], wasted


def block(x: Any, weights: Any, heads: Any, tanh: Any, rotary: Any, epsilon: Any, empty: Any = 0) -> Any:
    """One pre-LayerNorm block."""
    y = layer_norm(x, weights["ln_1.scale"], weights["ln_1.shift"], epsilon)
    mixed, wasted = attention(y, weights, heads, rotary, empty)
    x = x + mixed
    y = layer_norm(x, weights["ln_2.scale"], weights["ln_2.shift"], epsilon)
    y = gelu(y @ weights["fc.weight"].T + weights["fc.bias"], tanh)
    return x + y @ weights["fc_out.weight"].T + weights["fc_out.bias"], wasted


def logits(ids: Any, weights: Any, shape: Any, empty: Any = 0) -> Any:
    """(logits (batch, length, vocab), share of attention on ``empty`` zero keys, mean over layers)."""
    x = weights["wte"][ids]
    if shape.positions == "learned":
        x = x + weights["wpe"][np.arange(ids.shape[1])]
    wasted = []
    for n in range(shape.layers):
        own = {name[len(f"h.{n}.") :]: value for name, value in weights.items() if name.startswith(f"h.{n}.")}
        x, share = block(x, own, shape.heads, shape.gelu == "tanh", shape.positions == "rope", shape.epsilon, empty)
        wasted.append(share)
    x = layer_norm(x, weights["ln_f.scale"], weights["ln_f.shift"], shape.epsilon)
    return x @ weights["wte"].T, float(np.mean(wasted))


def loss(ids: Any, labels: Any, weights: Any, shape: Any) -> Any:
    """Mean cross entropy in nats per token."""
    found, _ = logits(ids, weights, shape)
    found = found - found.max(-1, keepdims=True)
    chosen = np.take_along_axis(found, labels[..., None].astype(np.int64), -1)[..., 0]
    return float((np.log(np.exp(found).sum(-1)) - chosen).mean())


def slope(ids: Any, labels: Any, weights: Any, shape: Any, direction: Any, width: Any = 1e-4) -> Any:
    """Derivative of the loss along ``direction`` (a dict like the weights), by central difference; error O(width²)."""
    ahead = {name: value + width * direction[name] for name, value in weights.items()}
    behind = {name: value - width * direction[name] for name, value in weights.items()}
    return (loss(ids, labels, ahead, shape) - loss(ids, labels, behind, shape)) / (2 * width)


def random_weights(shape: Any, seed: Any, std: Any = 0.02, offset: Any = 0.0) -> Any:
    """Start weights: normal with ``std``; biases and the distance of scales from 1 are normal with ``offset``."""
    rng = np.random.default_rng(seed)
    out = {}
    for name, size in sizes(shape).items():
        if name.endswith("scale"):
            out[name] = 1.0 + offset * rng.standard_normal(size)
        elif name.endswith(("shift", "bias")):
            out[name] = offset * rng.standard_normal(size)
        else:
            out[name] = std * rng.standard_normal(size)
        out[name] = out[name].astype(np.float32)
    return out


def sizes(shape: Any) -> Any:
    """Shape of every weight by canonical name."""
    hidden = shape.hidden
    out: dict[str, tuple[int, ...]] = {"wte": (shape.vocab, hidden)}
    if shape.positions == "learned":
        out["wpe"] = (shape.length, hidden)
    for n in range(shape.layers):
        for name, rows, columns in (("qkv", 3, 1), ("proj", 1, 1), ("fc", 4, 1), ("fc_out", 1, 4)):
            out[f"h.{n}.{name}.weight"] = (rows * hidden, columns * hidden)
            out[f"h.{n}.{name}.bias"] = (rows * hidden,)
        for name in ("ln_1", "ln_2"):
            out[f"h.{n}.{name}.scale"] = out[f"h.{n}.{name}.shift"] = (hidden,)
    out["ln_f.scale"] = out["ln_f.shift"] = (hidden,)
    return out


def distance(found: Any, wanted: Any) -> Any:
    """max |a - b| / max(1, |b|); infinite if anything is not finite."""
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if not np.isfinite(found).all():
        return math.inf
    return float((np.abs(found - wanted) / np.maximum(1.0, np.abs(wanted))).max())


def batches(vocab: Any, batch: Any, length: Any, seed: Any, windows: Any, period: Any = 32) -> Any:
    """Endless (ids, labels), int32, one apart: windows into a fixed random cycle of ``period`` tokens.

    Every causal model that works learns it within tens of steps. ``seed`` makes the cycle, ``windows`` where it is
    read: other windows of the same cycle are fresh data, and the share of another rank.
    """
    cycle = np.random.default_rng(seed).integers(0, vocab, period)
    text = np.tile(cycle, (length + 1) // period + 3)
    rng = np.random.default_rng([seed, windows])
    while True:
        starts = rng.integers(0, period, batch)
        rows = np.stack([text[n : n + length + 1] for n in starts]).astype(np.int32)
        yield rows[:, :-1], rows[:, 1:]
