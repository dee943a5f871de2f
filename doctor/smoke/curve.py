"""The training that the settings ask for, done in numpy float64: gradients by hand, the same optimizers.

For runs whose shapes and learning rate come from a configuration: how far the loss must fall then follows from
arithmetic and not from experience. Written from the formulas; it shares no code with the layer. Without dropout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import twin


def norm_back(x: Any, grown: Any, weights: Any, name: Any, shape: Any, out: Any) -> Any:
    """Gradient of the input of a norm; those of its weights are added to ``out``."""
    centred = x if shape.norm == "rms" else x - x.mean(-1, keepdims=True)
    inverse = 1.0 / np.sqrt((centred**2).mean(-1, keepdims=True) + shape.epsilon)
    plain = centred * inverse
    out[name + ".scale"] = (grown * plain).sum((0, 1))
    inner = grown * weights[name + ".scale"]
    found = inner - plain * (inner * plain).mean(-1, keepdims=True)
    if shape.norm != "rms":
        out[name + ".shift"] = grown.sum((0, 1))
        found = found - inner.mean(-1, keepdims=True)
    return found * inverse


def act_slope(x: Any, shape: Any) -> Any:
    """Derivative of the activation."""
    if shape.activation == "silu":
        share = 1.0 / (1.0 + np.exp(-x))
        return share * (1.0 + x * (1.0 - share))
    if shape.activation == "relu":
        return (x > 0).astype(np.float64)
    if shape.gelu == "tanh":
        factor = math.sqrt(2.0 / math.pi)
        bent = np.tanh(factor * (x + 0.044715 * x**3))
        return 0.5 * (1.0 + bent) + 0.5 * x * (1.0 - bent**2) * factor * (1.0 + 3 * 0.044715 * x**2)
    return 0.5 * (1.0 + twin.erf(x / twin.SQRT2)) + x * np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)


def turn_back(x: Any) -> Any:
    """The rotation the other way round, which is its transpose."""
    length, size = x.shape[-2:]
    angle = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, size, 2) / size))
    left, right = x[..., : size // 2], x[..., size // 2 :]
    return np.concatenate(
        [left * np.cos(angle) + right * np.sin(angle), right * np.cos(angle) - left * np.sin(angle)], -1
    )


def dense_back(x: Any, grown: Any, weights: Any, name: Any, out: Any) -> Any:
    """Gradient of the input of a dense layer; those of weight and bias are added to ``out``."""
    rows, columns = grown.reshape(-1, grown.shape[-1]), x.reshape(-1, x.shape[-1])
    out[name + ".weight"], out[name + ".bias"] = rows.T @ columns, rows.sum(0)
    return grown @ weights[name + ".weight"]


class Block:
    """One block that remembers what its gradient needs."""

    def __init__(self, weights: Any, shape: Any) -> None:
        self.weights, self.shape = weights, shape

    def forward(self, x: Any) -> Any:
        """As ``twin.block``."""
        w, s = self.weights, self.shape
        self.x, length = x, x.shape[1]
        self.y = twin.norm(x, w, "ln_1", s)
        q, k, v = twin.parts(self.y @ w["qkv.weight"].T + w["qkv.bias"], s)
        if s.positions == "rope":
            q, k = twin.turn(q), twin.turn(k)
        group = s.heads // s.kv_heads
        self.q, self.k, self.v = q, np.repeat(k, group, 1), np.repeat(v, group, 1)
        score = self.q @ self.k.transpose(0, 1, 3, 2) / math.sqrt(s.size)
        self.share = twin.softmax(np.where(np.triu(np.ones((length, length), bool), 1), -np.inf, score))
        self.mixed = twin.joined(self.share @ self.v)
        self.middle = x + self.mixed @ w["proj.weight"].T + w["proj.bias"]
        self.z = twin.norm(self.middle, w, "ln_2", s)
        self.f = self.z @ w["fc.weight"].T + w["fc.bias"]
        if s.gated:
            self.h = twin.act(self.f[..., : s.inner], s) * self.f[..., s.inner :]
        else:
            self.h = twin.act(self.f, s)
        return self.middle + self.h @ w["fc_out.weight"].T + w["fc_out.bias"]

    def back(self, grown: Any, out: Any) -> Any:
        """Gradient of the input; those of the weights by their names inside the block."""
        w, s = self.weights, self.shape
        inner = dense_back(self.h, grown, w, "fc_out", out)
        if s.gated:
            gate, through = self.f[..., : s.inner], self.f[..., s.inner :]
            inner = np.concatenate([inner * through * act_slope(gate, s), inner * twin.act(gate, s)], -1)
        else:
            inner = inner * act_slope(self.f, s)
        grown = grown + norm_back(self.middle, dense_back(self.z, inner, w, "fc", out), w, "ln_2", s, out)
        batch, length, _ = grown.shape
        wide = dense_back(self.mixed, grown, w, "proj", out).reshape(batch, length, s.heads, s.size)
        wide = wide.transpose(0, 2, 1, 3)
        values = self.share.transpose(0, 1, 3, 2) @ wide
        score = wide @ self.v.transpose(0, 1, 3, 2)
        score = self.share * (score - (score * self.share).sum(-1, keepdims=True)) / math.sqrt(s.size)
        queries, keys = score @ self.k, score.transpose(0, 1, 3, 2) @ self.q
        keys, values = (
            t.reshape(batch, s.kv_heads, s.heads // s.kv_heads, length, s.size).sum(2) for t in (keys, values)
        )
        if s.positions == "rope":
            queries, keys = turn_back(queries), turn_back(keys)
        mixed = np.concatenate([twin.joined(t) for t in (queries, keys, values)], -1)
        return grown + norm_back(self.x, dense_back(self.y, mixed, w, "qkv", out), w, "ln_1", s, out)


def gradients(ids: Any, labels: Any, weights: Any, shape: Any) -> Any:
    """(loss, gradients by the names of the weights)."""
    x = weights["wte"][ids]
    if shape.positions == "learned":
        x = x + weights["wpe"][np.arange(ids.shape[1])]
    blocks = [Block(twin.of_block(weights, n), shape) for n in range(shape.layers)]
    for block in blocks:
        x = block.forward(x)
    table = "wte" if shape.tied else "head"
    last = twin.norm(x, weights, "ln_f", shape)
    found = last @ weights[table].T
    found = found - found.max(-1, keepdims=True)
    total = np.exp(found).sum(-1, keepdims=True)
    wanted = labels[..., None].astype(np.int64)
    loss = float((np.log(total[..., 0]) - np.take_along_axis(found, wanted, -1)[..., 0]).mean())
    grown = np.exp(found) / total
    np.put_along_axis(grown, wanted, np.take_along_axis(grown, wanted, -1) - 1.0, -1)
    grown /= labels.size
    out: dict[str, Any] = {}
    rows = grown.reshape(-1, grown.shape[-1])
    tables = {"wte": np.zeros_like(weights["wte"])}
    tables[table] = rows.T @ last.reshape(-1, last.shape[-1])
    grown = norm_back(x, grown @ weights[table], weights, "ln_f", shape, out)
    for n in reversed(range(shape.layers)):
        inner: dict[str, Any] = {}
        grown = blocks[n].back(grown, inner)
        out.update({f"h.{n}.{name}": value for name, value in inner.items()})
    np.add.at(tables["wte"], ids.reshape(-1), grown.reshape(-1, grown.shape[-1]))
    out.update(tables)
    if shape.positions == "learned":
        out["wpe"] = np.zeros_like(weights["wpe"])
        out["wpe"][: ids.shape[1]] = grown.sum(0)
    return loss, out


class Training:
    """Weights that are trained as the settings say. ``settings``: rate, betas, decay, clip and the optimizer."""

    def __init__(self, weights: Any, shape: Any, settings: Any) -> None:
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}
        self.shape, self.settings, self.taken = shape, settings, 0
        self.first = {name: np.zeros_like(value) for name, value in self.weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def step(self, batches: Any, update: Any = True) -> Any:
        """One step over the batches of all ranks; the loss of the first one. Without ``update`` only the loss."""
        found = [
            gradients(ids, labels, self.weights, self.shape) for ids, labels in (batches if update else batches[:1])
        ]
        if update:
            self.apply({name: sum(g[name] for _, g in found) / len(found) for name in self.weights})
        return found[0][0]

    def apply(self, gradient: Any) -> None:
        """Clip and update."""
        s = self.settings
        self.taken += 1
        if s.clip:
            norm = math.sqrt(sum(float((g**2).sum()) for g in gradient.values()))
            gradient = {name: g * min(1.0, s.clip / norm) if norm > 0 else g for name, g in gradient.items()}
        for name, weight in self.weights.items():
            decay = 0.0 if name.endswith((".bias", ".scale", ".shift")) else s.decay
            g = gradient[name]
            if s.optimizer != "adamw":
                g = g + decay * weight
            if s.optimizer == "sgd":
                self.weights[name] = weight - s.rate * g
                continue
            self.first[name] = s.beta1 * self.first[name] + (1.0 - s.beta1) * g
            self.second[name] = s.beta2 * self.second[name] + (1.0 - s.beta2) * g**2
            step = self.first[name] / (np.sqrt(self.second[name]) + s.adam_epsilon)
            if s.optimizer == "adam":
                step = step * math.sqrt(1.0 - s.beta2**self.taken) / (1.0 - s.beta1**self.taken)
            else:
                step = step + decay * weight
            self.weights[name] = weight - s.rate * step
