"""The names of MindSpore that a GPT layer uses and that differ between 2.5 and what is announced for after 2.9.

The docstrings of 2.9 and 2.10 announce other names and argument orders (``nn.Dense`` becomes ``nn.Linear``,
``nn.LayerNorm`` takes ``eps``, ``nn.AdamWeightDecay`` and ``ops.clip_by_global_norm`` go). So every such name is looked
up here, once, by what its signature says, and called with keywords only. The functions take the module in which they
look, so that they can be tried on modules of the announced form.
"""

from __future__ import annotations

import inspect
from typing import Any


def parameters(thing: Any) -> Any:
    """Names of the arguments of a class or function; empty if they cannot be read."""
    try:
        return tuple(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return ()


def first_of(module: Any, *names: Any) -> Any:
    """The first of some names that a module has, None if it has none."""
    return next((getattr(module, name) for name in names if hasattr(module, name)), None)


def dense(nn: Any, inputs: Any, outputs: Any, dtype: Any = None) -> Any:
    """A linear layer with a bias; its weight is stored (outputs, inputs)."""
    kind = first_of(nn, "Dense", "Linear")
    words = parameters(kind)
    spelled = {"in_channels": inputs, "out_channels": outputs}
    if "in_features" in words:
        spelled = {"in_features": inputs, "out_features": outputs}
    if "has_bias" in words:
        spelled["has_bias"] = True
    elif "bias" in words:
        spelled["bias"] = True
    if dtype is not None and "dtype" in words:
        spelled["dtype"] = dtype
    return kind(**spelled)


def layer_norm(nn: Any, size: Any, epsilon: Any, dtype: Any = None) -> Any:
    """A LayerNorm over the last axis, with scale and shift."""
    words = parameters(nn.LayerNorm)
    spelled = {"eps" if "eps" in words else "epsilon": epsilon}
    if dtype is not None and "dtype" in words:
        spelled["dtype"] = dtype
    return nn.LayerNorm(normalized_shape=(size,), **spelled)


def gelu(nn: Any, tanh: Any) -> Any:
    """GELU in its tanh form (GPT-2) or its erf form. The argument is a flag today and a word in what is announced."""
    parameter = inspect.signature(nn.GELU).parameters.get("approximate")
    if parameter is not None and isinstance(parameter.default, str):
        return nn.GELU(approximate="tanh" if tanh else "none")
    return nn.GELU(approximate=tanh)


def activation(nn: Any, name: Any, tanh: Any) -> Any:
    """The cell of an activation: gelu in one of its forms, silu or relu."""
    if name == "silu":
        return nn.SiLU()
    return nn.ReLU() if name == "relu" else gelu(nn, tanh)


def dropout(nn: Any, share: Any) -> Any:
    """Dropout that drops ``share``; the first positional argument is the share kept in some versions."""
    return nn.Dropout(p=share)


def embedding(nn: Any, rows: Any, size: Any) -> Any:
    """A table of ``rows`` vectors."""
    words = parameters(nn.Embedding)
    if "num_embeddings" in words:
        return nn.Embedding(num_embeddings=rows, embedding_dim=size)
    return nn.Embedding(vocab_size=rows, embedding_size=size)


def table_of(cell: Any) -> Any:
    """The parameter behind an embedding."""
    return cell.embedding_table if hasattr(cell, "embedding_table") else cell.weight


def softmax_last(ops: Any) -> Any:
    """A function: softmax over the last axis. Chosen outside graph mode, which cannot look at signatures."""
    if "dim" in parameters(ops.softmax):

        def by_dim(x: Any) -> Any:
            return ops.softmax(x, dim=-1)

        return by_dim

    def by_axis(x: Any) -> Any:
        return ops.softmax(x, axis=-1)

    return by_axis


def layer_norm_names(cell: Any) -> Any:
    """(scale, shift) of a LayerNorm: gamma and beta today, weight and bias in what is announced."""
    return ("gamma", "beta") if hasattr(cell, "gamma") else ("weight", "bias")


def set_device(ms: Any, name: Any) -> None:
    """Choose CPU or Ascend before anything else runs."""
    if hasattr(ms, "set_device"):
        ms.set_device(name)
    else:
        ms.set_context(device_target=name)


def clip_by_global_norm(ms: Any, ops: Any) -> Any:
    """A function (gradients, limit) → gradients whose common norm is at most ``limit``."""
    if hasattr(ops, "clip_by_global_norm"):
        return ops.clip_by_global_norm

    def clip(gradients: Any, limit: Any) -> Any:
        total = 0.0
        for gradient in gradients:
            total = total + ops.square(gradient.astype(ms.float32)).sum()
        share = ops.minimum(limit / (ops.sqrt(total) + 1e-6), ms.Tensor(1.0, ms.float32))
        out = ()
        for gradient in gradients:
            out = (*out, gradient * share.astype(gradient.dtype))
        return out

    return clip


def adamw(
    ms: Any, nn: Any, ops: Any, groups: Any, rate: Any, epsilon: Any = 1e-6, beta1: Any = 0.9, beta2: Any = 0.999
) -> Any:
    """AdamW over parameter groups ``[{"params", "weight_decay"}]``, MindSpore's own when it has one.

    The step of both is the one without bias correction, so that bounds on its size hold for both.
    """
    if hasattr(nn, "AdamWeightDecay"):
        return nn.AdamWeightDecay(groups, learning_rate=rate, beta1=beta1, beta2=beta2, eps=epsilon)
    return own_adamw(ms, nn, ops, groups, rate, epsilon, beta1, beta2)


def adam(nn: Any, groups: Any, rate: Any, epsilon: Any, beta1: Any, beta2: Any) -> Any:
    """Adam with bias correction; weight decay is added to the gradient. ``betas`` in what is announced."""
    if "betas" in parameters(nn.Adam):
        return nn.Adam(groups, lr=rate, betas=(beta1, beta2), eps=epsilon)
    return nn.Adam(groups, learning_rate=rate, beta1=beta1, beta2=beta2, eps=epsilon)


def sgd(nn: Any, groups: Any, rate: Any) -> Any:
    """Plain gradient descent; weight decay is added to the gradient."""
    return nn.SGD(groups, **{"lr" if "lr" in parameters(nn.SGD) else "learning_rate": rate})


def own_adamw(
    ms: Any, nn: Any, ops: Any, groups: Any, rate: Any, epsilon: Any = 1e-6, beta1: Any = 0.9, beta2: Any = 0.999
) -> Any:
    """AdamW of a few lines, for versions that have none."""

    class Decayed(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.parameters = ms.ParameterTuple([p for group in groups for p in group["params"]])
            self.decays = tuple(group["weight_decay"] for group in groups for _ in group["params"])
            self.first = self.parameters.clone(prefix="adamw_m", init="zeros")
            self.second = self.parameters.clone(prefix="adamw_v", init="zeros")

        def construct(self, gradients: Any) -> Any:
            for n, gradient in enumerate(gradients):
                weight = self.parameters[n]
                mean = self.first[n] * beta1 + gradient * (1 - beta1)
                square = self.second[n] * beta2 + gradient * gradient * (1 - beta2)
                step = mean / (ops.sqrt(square) + epsilon) + weight * self.decays[n]
                ops.assign(self.first[n], mean)
                ops.assign(self.second[n], square)
                ops.assign(weight, weight - rate * step)
            return gradients

    return Decayed()
