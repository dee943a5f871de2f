"""GPT-2 weights in the layout of Hugging Face: reading safetensors, mapping names, and a check by numbers.

Source of the layout: huggingface/transformers, ``src/transformers/pytorch_utils.py``, class Conv1D: weight (in, out),
y = x @ weight + bias. So every ``c_*`` weight is transposed; ``attn.c_proj`` is square, a forgotten transpose of it
raises nothing, and only numbers tell.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np

RENAMED = (("attn.c_attn", "qkv"), ("attn.c_proj", "proj"), ("mlp.c_fc", "fc"), ("mlp.c_proj", "fc_out"))
NORMS = ("ln_1", "ln_2")
WIDTHS = {"F64": np.float64, "F32": np.float32, "F16": np.float16}


def read_safetensors(path: Any, wanted: Any = None) -> Any:
    """Tensors of a file by name, as float32. ``wanted``: a function name → bool.

    Raises ValueError for a file that is cut off or of another form.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = int.from_bytes(file.read(8), "little")
        if not 2 <= head <= min(size - 8, 100 << 20):
            raise ValueError(f"{path} is no safetensors file, or it is cut off: its header would be {head} bytes long")
        try:
            table = json.loads(file.read(head))
        except ValueError as error:
            raise ValueError(f"{path} is no safetensors file: {error}") from None
        out = {}
        for name, entry in table.items():
            if name == "__metadata__" or (wanted is not None and not wanted(name)):
                continue
            begin, end = entry["data_offsets"]
            if 8 + head + end > size:
                raise ValueError(f"{path} is cut off: {name} ends at byte {8 + head + end} of {size}")
            file.seek(8 + head + begin)
            data = file.read(end - begin)
            if entry["dtype"] == "BF16":
                values = (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
            elif entry["dtype"] in WIDTHS:
                values = np.frombuffer(data, WIDTHS[entry["dtype"]]).astype(np.float32)
            else:
                continue  # masks of old files are whole numbers or flags
            out[name] = values.reshape(entry["shape"])
        return out


def plain_names(state: Any) -> Any:
    """The state without the prefix ``transformer.`` that whole checkpoints have."""
    return {name[len("transformer.") :] if name.startswith("transformer.") else name: v for name, v in state.items()}


def shape_of(state: Any) -> Any:
    """(vocab, hidden, layers, positions) of a GPT-2 state. Raises ValueError if it is none."""
    missing = [name for name in ("wte.weight", "wpe.weight", "ln_f.weight") if name not in state]
    if missing:
        raise ValueError(f"no GPT-2 weights: {', '.join(missing)} missing")
    vocab, hidden = state["wte.weight"].shape
    layers = {int(name.split(".")[1]) for name in state if name.startswith("h.")}
    return vocab, hidden, len(layers), state["wpe.weight"].shape[0]


def mapped(state: Any, layers: Any) -> Any:
    """(weights by canonical name, names left over). Raises ValueError when a name is missing or of another shape."""
    out, used = {}, set()
    hidden = state["wte.weight"].shape[1]

    def take(source: Any, target: Any, shape: Any = None, turned: Any = False) -> None:
        if source not in state:
            raise ValueError(f"{source} is missing")
        value = state[source]
        if shape is not None and value.shape != shape:
            raise ValueError(f"{source} has shape {value.shape}, {shape} is needed")
        used.add(source)
        out[target] = np.ascontiguousarray(value.T) if turned else value

    take("wte.weight", "wte")
    take("wpe.weight", "wpe")
    take("ln_f.weight", "ln_f.scale", (hidden,))
    take("ln_f.bias", "ln_f.shift", (hidden,))
    wide = {"qkv": (1, 3), "proj": (1, 1), "fc": (1, 4), "fc_out": (4, 1)}
    for n in range(layers):
        for source, target in RENAMED:
            rows, columns = wide[target]
            take(f"h.{n}.{source}.weight", f"h.{n}.{target}.weight", (rows * hidden, columns * hidden), True)
            take(f"h.{n}.{source}.bias", f"h.{n}.{target}.bias", (columns * hidden,))
        for name in NORMS:
            take(f"h.{n}.{name}.weight", f"h.{n}.{name}.scale", (hidden,))
            take(f"h.{n}.{name}.bias", f"h.{n}.{name}.shift", (hidden,))
    buffers = ("attn.bias", "attn.masked_bias")
    deeper = tuple(f"h.{n}." for n in range(layers, 1000))
    left = [
        name for name in state
        if name not in used and not name.endswith(buffers) and not name.startswith(deeper) and name != "lm_head.weight"
    ]  # fmt: skip
    return out, left


def random_state(vocab: Any, hidden: Any, layers: Any, positions: Any, seed: Any, std: Any = 0.05) -> Any:
    """A GPT-2 state of random numbers, biases and all."""
    rng = np.random.default_rng(seed)

    def some(*shape: Any, centre: Any = 0.0) -> Any:
        return (std * rng.standard_normal(shape) + centre).astype(np.float32)

    state = {"wte.weight": some(vocab, hidden), "wpe.weight": some(positions, hidden)}
    state.update({"ln_f.weight": some(hidden, centre=1.0), "ln_f.bias": some(hidden)})
    for n in range(layers):
        for name in NORMS:
            state[f"h.{n}.{name}.weight"], state[f"h.{n}.{name}.bias"] = some(hidden, centre=1.0), some(hidden)
        for name, rows, columns in (
            ("attn.c_attn", 1, 3),
            ("attn.c_proj", 1, 1),
            ("mlp.c_fc", 1, 4),
            ("mlp.c_proj", 4, 1),
        ):
            state[f"h.{n}.{name}.weight"] = some(rows * hidden, columns * hidden)
            state[f"h.{n}.{name}.bias"] = some(columns * hidden)
        state[f"h.{n}.attn.bias"] = np.tril(np.ones((1, 1, positions, positions), np.float32))
    return state


def logits(ids: Any, state: Any, layers: Any, heads: Any, epsilon: Any = 1e-5) -> Any:
    """GPT-2 in float64 straight from the layout of the file, without any mapping."""
    state = {name: value.astype(np.float64) for name, value in state.items()}

    def norm(x: Any, name: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * state[name + ".weight"] + state[name + ".bias"]

    def conv(x: Any, name: Any) -> Any:
        return x @ state[name + ".weight"] + state[name + ".bias"]

    batch, length = ids.shape
    x = state["wte.weight"][ids] + state["wpe.weight"][:length]
    hidden = x.shape[-1]
    later = np.triu(np.ones((length, length), bool), 1)
    for n in range(layers):
        q, k, v = np.split(conv(norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.c_attn"), 3, axis=-1)
        q, k, v = (t.reshape(batch, length, heads, hidden // heads).swapaxes(1, 2) for t in (q, k, v))
        score = np.where(later, -np.inf, q @ k.swapaxes(2, 3) / math.sqrt(hidden // heads))
        share = np.exp(score - score.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        x = x + conv((share @ v).swapaxes(1, 2).reshape(batch, length, hidden), f"h.{n}.attn.c_proj")
        y = conv(norm(x, f"h.{n}.ln_2"), f"h.{n}.mlp.c_fc")
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + conv(y, f"h.{n}.mlp.c_proj")
    return norm(x, "ln_f") @ state["wte.weight"].T
