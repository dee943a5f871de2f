"""The reference GPT: pre-LayerNorm blocks with one QKV projection, MindSpore only.

Runs in the interpreter under test, never in the doctor. The classes stand at module level because graph mode and some
amp levels read their source again. Weights are float32 whatever the compute dtype: float16 weights with an optimizer of
the Adam kind end in NaN. Dense weights are stored (out, in).

What was measured (MindSpore 2.10.0, CPU) and what was only written after the documentation (flash attention, Ascend) is
told apart in docs/smoke.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from . import compat

HIDDEN_SCORE = -1e9
softmax = compat.softmax_last(ops)


class Shape(NamedTuple):
    """What makes a GPT. ``length`` is the longest sequence; ``dtype`` the name of the dtype computed in; ``size`` the
    width of a head, ``inner`` that of the feed-forward part."""

    vocab: int = 512
    hidden: int = 256
    layers: int = 2
    heads: int = 4
    length: int = 128
    positions: str = "learned"
    gelu: str = "tanh"
    attention: str = "plain"
    dropout: float = 0.0
    dtype: str = "float32"
    epsilon: float = 1e-5
    recompute: bool = False
    weights_dtype: str = "float32"
    kv_heads: int = 4
    size: int = 64
    inner: int = 1024
    gated: bool = False
    norm: str = "layer"
    activation: str = "gelu"
    tied: bool = True


def dtype_of(name: Any) -> Any:
    """The MindSpore dtype of a name."""
    return getattr(ms, name)


class RMSNorm(nn.Cell):
    """Divide by the root of the mean square, then scale; computed in float32."""

    def __init__(self, size: Any, epsilon: Any, dtype: Any = None) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.gamma = ms.Parameter(Tensor(np.ones(size, np.float32)).astype(dtype or ms.float32), name="gamma")

    def construct(self, x: Any) -> Any:
        y = x.astype(ms.float32)
        y = y * ops.rsqrt(ops.mean(y * y, -1, True) + self.epsilon)
        return (y * self.gamma.astype(ms.float32)).astype(x.dtype)


def norm_of(shape: Any) -> Any:
    """A norm of the kind of the shape."""
    if shape.norm == "rms":
        return RMSNorm(shape.hidden, shape.epsilon, own_dtype(shape))
    return compat.layer_norm(nn, shape.hidden, shape.epsilon, own_dtype(shape))


class Attention(nn.Cell):
    """Causal self-attention, (batch, length, hidden) → the same; with caches for one token at a time."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        if shape.heads % shape.kv_heads:
            raise ValueError(f"heads {shape.heads} is not divisible by kv_heads {shape.kv_heads}")
        self.heads, self.size, self.hidden = shape.heads, shape.size, shape.heads * shape.size
        self.kv_heads, self.kv_hidden, self.group = (
            shape.kv_heads,
            shape.kv_heads * shape.size,
            shape.heads // shape.kv_heads,
        )
        self.scale = 1.0 / math.sqrt(self.size)
        self.rotary, self.flash = shape.positions == "rope", shape.attention == "flash"
        self.cache_mask = True
        self.qkv = computing(compat.dense(nn, shape.hidden, self.hidden + 2 * self.kv_hidden, own_dtype(shape)), shape)
        self.proj = computing(compat.dense(nn, self.hidden, shape.hidden, own_dtype(shape)), shape)
        self.drop = compat.dropout(nn, shape.dropout)
        # True hides a key, the convention of ops.flash_attention_score
        self.hide = Tensor(np.triu(np.ones((shape.length, shape.length), np.bool_), 1))
        angle = np.arange(shape.length)[:, None] * (10000.0 ** (-np.arange(0, self.size, 2) / self.size))[None, :]
        self.cos = Tensor(np.concatenate([np.cos(angle)] * 2, -1).astype(np.float32))
        self.sin = Tensor(np.concatenate([np.sin(angle)] * 2, -1).astype(np.float32))

    def split(self, x: Any, heads: Any) -> Any:
        """(batch, length, heads * size) → (batch, heads, length, size)."""
        batch, length, _ = x.shape
        return x.reshape(batch, length, heads, self.size).transpose(0, 2, 1, 3)

    def shared(self, x: Any) -> Any:
        """Keys or values of each head; several heads share one of a smaller number."""
        if self.group == 1:
            return x
        batch, _, length, _ = x.shape
        wide = x.reshape(batch, self.kv_heads, 1, length, self.size)
        wide = wide.broadcast_to((batch, self.kv_heads, self.group, length, self.size))
        return wide.reshape(batch, self.heads, length, self.size)

    def turn(self, x: Any, cos: Any, sin: Any) -> Any:
        """Rotary positions, half-split form, computed in float32."""
        left, right = ops.split(x, self.size // 2, axis=-1)
        turned = ops.concat((-right, left), axis=-1)
        return (x.astype(ms.float32) * cos + turned.astype(ms.float32) * sin).astype(x.dtype)

    def construct(self, x: Any, cache_k: Any = None, cache_v: Any = None, place: Any = None) -> Any:
        batch, length, _ = x.shape
        mixed = self.qkv(x)
        q = self.split(mixed[:, :, : self.hidden], self.heads)
        k = self.split(mixed[:, :, self.hidden : self.hidden + self.kv_hidden], self.kv_heads)
        v = self.split(mixed[:, :, self.hidden + self.kv_hidden :], self.kv_heads)
        if cache_k is None:
            if self.rotary:
                q = self.turn(q, self.cos[:length], self.sin[:length])
                k = self.turn(k, self.cos[:length], self.sin[:length])
            hide = self.hide[:length, :length]
        else:
            # a static cache: the new key goes into slot ``place``, no shape changes, so nothing is compiled again
            slots = ops.arange(cache_k.shape[2])
            if self.rotary:
                q = self.turn(q, ops.gather(self.cos, place, 0), ops.gather(self.sin, place, 0))
                k = self.turn(k, ops.gather(self.cos, place, 0), ops.gather(self.sin, place, 0))
            here = (slots == place).reshape(1, 1, -1, 1)
            k = ops.select(here.broadcast_to(cache_k.shape), k.broadcast_to(cache_k.shape), cache_k)
            v = ops.select(here.broadcast_to(cache_v.shape), v.broadcast_to(cache_v.shape), cache_v)
            hide = (slots > place).reshape(1, -1)
            if not self.cache_mask:
                hide = (slots < 0).reshape(1, -1)
        if self.flash:
            mixed = ops.flash_attention_score(q, k, v, self.heads, attn_mask=hide, scalar_value=self.scale,
                                              input_layout="BNSD", sparse_mode=0)  # fmt: skip
        else:
            # softmax in float32 on purpose: amp level O2 does not protect it
            score = ops.matmul(q, self.shared(k).transpose(0, 1, 3, 2)).astype(ms.float32) * self.scale
            score = ops.masked_fill(score, hide, HIDDEN_SCORE)
            share = self.drop(softmax(score)).astype(v.dtype)
            mixed = ops.matmul(share, self.shared(v))
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, self.hidden)
        return self.proj(mixed), k, v


class Block(nn.Cell):
    """x + attention(LayerNorm(x)), then the same with the two-layer network."""

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.ln_1 = norm_of(shape)
        self.attn = Attention(shape)
        self.ln_2 = norm_of(shape)
        # with a gate the first half of the columns is the gate, the other one what it lets through
        self.gated, self.inner = shape.gated, shape.inner
        columns = 2 * shape.inner if shape.gated else shape.inner
        self.fc = computing(compat.dense(nn, shape.hidden, columns, own_dtype(shape)), shape)
        self.act = compat.activation(nn, shape.activation, shape.gelu == "tanh")
        self.fc_out = computing(compat.dense(nn, shape.inner, shape.hidden, own_dtype(shape)), shape)
        self.drop = compat.dropout(nn, shape.dropout)

    def construct(self, x: Any, cache_k: Any = None, cache_v: Any = None, place: Any = None) -> Any:
        mixed, k, v = self.attn(self.ln_1(x), cache_k, cache_v, place)
        x = x + self.drop(mixed)
        y = self.fc(self.ln_2(x))
        y = self.act(y[:, :, : self.inner]) * y[:, :, self.inner :] if self.gated else self.act(y)
        return x + self.drop(self.fc_out(y)), k, v


class GPT(nn.Cell):
    """Token ids (batch, length) int32 → logits (batch, length, vocab); the output layer is the embedding table, or one
    of its own.

    Between the blocks everything is in the dtype of the weights, also when the dense layers compute in 16 bits.
    """

    def __init__(self, shape: Any) -> None:
        super().__init__()
        self.learned = shape.positions == "learned"
        self.dtype, self.stream = dtype_of(shape.dtype), dtype_of(shape.weights_dtype)
        self.wte = compat.embedding(nn, shape.vocab, shape.hidden)
        if self.learned:
            self.wpe = compat.embedding(nn, shape.length, shape.hidden)
        self.h = nn.CellList([Block(shape) for _ in range(shape.layers)])
        if shape.recompute:
            for block in self.h:
                block.recompute()
        self.ln_f = norm_of(shape)
        self.tied = shape.tied
        if not shape.tied:
            self.head = compat.embedding(nn, shape.vocab, shape.hidden)
        # an attribute that is the table itself would give the parameter a second name
        self.renamed = not hasattr(self.wte, "embedding_table")
        self.places = Tensor(np.arange(shape.length, dtype=np.int32))

    def logits(self, x: Any) -> Any:
        """The output layer; the cast is needed because nn.Embedding keeps a float32 table whatever it is told."""
        if self.tied:
            table = self.wte.weight if self.renamed else self.wte.embedding_table
        else:
            table = self.head.weight if self.renamed else self.head.embedding_table
        return ops.matmul(x.astype(self.dtype), table.swapaxes(0, 1).astype(self.dtype))

    def construct(self, ids: Any) -> Any:
        x = self.wte(ids)
        if self.learned:
            x = x + self.wpe(self.places[: ids.shape[1]])
        x = x.astype(self.stream)
        for block in self.h:
            x, _, _ = block(x)
        return self.logits(self.ln_f(x))

    def decode(self, token: Any, place: Any, keys: Any, values: Any) -> Any:
        """Logits of one more token; ``keys`` and ``values`` are (layers, batch, heads, length, size)."""
        x = self.wte(token)
        if self.learned:
            x = x + self.wpe(place)
        x = x.astype(self.stream)
        new_keys, new_values = (), ()
        for n, block in enumerate(self.h):
            x, k, v = block(x, keys[n], values[n], place)
            new_keys, new_values = (*new_keys, k), (*new_values, v)
        return self.logits(self.ln_f(x)), ops.stack(new_keys), ops.stack(new_values)


class LanguageLoss(nn.Cell):
    """Model and mean cross entropy in one cell; ids and labels are already one apart."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.entropy = nn.CrossEntropyLoss(ignore_index=-100)

    def construct(self, ids: Any, labels: Any) -> Any:
        logits = self.model(ids).astype(ms.float32)
        return self.entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def own_dtype(shape: Any) -> Any:
    """dtype that a dense layer stores its weights in, None for the default."""
    return None if shape.weights_dtype == "float32" else dtype_of(shape.weights_dtype)


def computing(cell: Any, shape: Any) -> Any:
    """A dense layer that computes in the dtype of the shape and keeps its weights."""
    return cell if shape.dtype == shape.weights_dtype else cell.to_float(dtype_of(shape.dtype))
