"""The same GPT in numpy float64: what the layer is compared with. Written from the formulas, it shares no code with it.

Weights come by the names of ``canonical``: ``wte``, ``wpe``, ``ln_f.scale``, ``h.0.qkv.weight`` (out, in) and so on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

SQRT2 = math.sqrt(2.0)
erf = np.vectorize(math.erf, otypes=[np.float64])


def layer_norm(x: Any, scale: Any, shift: Any, epsilon: Any) -> Any:
    """Mean 0 and variance 1 over the last axis, then scale and shift."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale + shift


def rms_norm(x: Any, scale: Any, epsilon: Any) -> Any:
    """Mean square 1 over the last axis, then scale."""
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale


def norm(x: Any, weights: Any, name: Any, shape: Any) -> Any:
    """The norm of the shape with the weights of a name."""
    if shape.norm == "rms":
        return rms_norm(x, weights[name + ".scale"], shape.epsilon)
    return layer_norm(x, weights[name + ".scale"], weights[name + ".shift"], shape.epsilon)


def gelu(x: Any, tanh: Any) -> Any:
    """The tanh form, or the exact one with erf."""
    if tanh:
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1.0 + erf(x / SQRT2))


def act(x: Any, shape: Any) -> Any:
    """The activation of the shape."""
    if shape.activation == "silu":
        return x / (1.0 + np.exp(-x))
    return np.maximum(x, 0.0) if shape.activation == "relu" else gelu(x, shape.gelu == "tanh")


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


def parts(mixed: Any, shape: Any) -> Any:
    """q, k, v as (batch, heads, length, size) of the one projection; k and v have the heads of keys."""
    batch, length, _ = mixed.shape
    wide, narrow = shape.heads * shape.size, shape.kv_heads * shape.size
    pieces = np.split(mixed, [wide, wide + narrow], axis=-1)
    return tuple(piece.reshape(batch, length, -1, shape.size).transpose(0, 2, 1, 3) for piece in pieces)


def joined(x: Any) -> Any:
    """(batch, heads, length, size) → (batch, length, heads * size)."""
    batch, heads, length, size = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, length, heads * size)


def attention(y: Any, weights: Any, shape: Any, empty: Any = 0) -> Any:
    """(result, share of the attention of the last token that goes to ``empty`` zero keys behind it)."""
    batch, length, _ = y.shape
    q, k, v = parts(y @ weights["qkv.weight"].T + weights["qkv.bias"], shape)
    if shape.positions == "rope":
        q, k = turn(q), turn(k)
    group = shape.heads // shape.kv_heads
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    score = q @ k.transpose(0, 1, 3, 2) / math.sqrt(shape.size)
    last = np.concatenate([score[:, :, -1], np.zeros((batch, shape.heads, empty))], -1)
    score = np.where(np.triu(np.ones((length, length), bool), 1), -np.inf, score)
    wasted = float(softmax(last)[..., length:].sum(-1).mean()) if empty else 0.0
    return joined(softmax(score) @ v) @ weights["proj.weight"].T + weights["proj.bias"], wasted


def block(x: Any, weights: Any, shape: Any, empty: Any = 0) -> Any:
    """One block with its norms in front."""
    mixed, wasted = attention(norm(x, weights, "ln_1", shape), weights, shape, empty)
    x = x + mixed
    y = norm(x, weights, "ln_2", shape) @ weights["fc.weight"].T + weights["fc.bias"]
    y = act(y[..., : shape.inner], shape) * y[..., shape.inner :] if shape.gated else act(y, shape)
    return x + y @ weights["fc_out.weight"].T + weights["fc_out.bias"], wasted


def logits(ids: Any, weights: Any, shape: Any, empty: Any = 0) -> Any:
    """(logits (batch, length, vocab), share of attention on ``empty`` zero keys, mean over layers)."""
    x = weights["wte"][ids]
    if shape.positions == "learned":
        x = x + weights["wpe"][np.arange(ids.shape[1])]
    wasted = []
    for n in range(shape.layers):
        x, share = block(x, of_block(weights, n), shape, empty)
        wasted.append(share)
    return norm(x, weights, "ln_f", shape) @ weights["wte" if shape.tied else "head"].T, float(np.mean(wasted))


def of_block(weights: Any, n: Any) -> Any:
    """The weights of a block by their names inside it."""
    return {name[len(f"h.{n}.") :]: value for name, value in weights.items() if name.startswith(f"h.{n}.")}


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
    if not shape.tied:
        out["head"] = (shape.vocab, hidden)
    wide, narrow = shape.heads * shape.size, shape.kv_heads * shape.size
    table = (
        ("qkv", wide + 2 * narrow, hidden), ("proj", hidden, wide),
        ("fc", shape.inner * (2 if shape.gated else 1), hidden), ("fc_out", hidden, shape.inner),
    )  # fmt: skip
    norms = ["ln_f"]
    for n in range(shape.layers):
        for name, rows, columns in table:
            out[f"h.{n}.{name}.weight"], out[f"h.{n}.{name}.bias"] = (rows, columns), (rows,)
        norms += [f"h.{n}.ln_1", f"h.{n}.ln_2"]
    for name in norms:
        out[name + ".scale"] = (hidden,)
        if shape.norm == "layer":
            out[name + ".shift"] = (hidden,)
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
