"""Headers of weight files: names, dtypes and shapes. The data itself is never read.

safetensors: eight bytes of length and a JSON header (huggingface/safetensors, format). MindSpore ``.ckpt``: protobuf
messages ``Checkpoint.value {tag, tensor {dims, tensor_type, tensor_content}}`` (MindSpore ``checkpoint.proto``), whose
contents are skipped; parameters above 512 MB are written in several parts under one tag. A header that does not fit
its file is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from doctor.plan.memory import Shape
from doctor.plan.schema import Plan, Trouble, Value

MAX_HEADER = 100 << 20
MAX_TENSORS = 500_000
SIZES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1, "C64": 8, "F8_E8M0": 1, "F4": 1,
}  # fmt: skip
CKPT_SIZES = {"Float64": 8, "Float32": 4, "Float16": 2, "BFloat16": 2, "Int64": 8, "Int32": 4, "Int16": 2, "Int8": 1,
              "UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "Bool": 1, "Float": 4}  # fmt: skip


class Tensor(NamedTuple):
    """One entry of a header."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Header(NamedTuple):
    """What a weight file says of itself. ``whole`` is False for one shard of several."""

    file: str
    format: str
    tensors: tuple[Tensor, ...]
    size: int
    whole: bool = True
    metadata: dict[str, str] = {}  # noqa: RUF012 - never changed

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        total = 0
        for tensor in self.tensors:
            count = 1
            for side in tensor.shape:
                count *= side
            total += count
        return total


def read(path: str) -> Header | Trouble:
    """The header of a weight file or of an index of shards. Never raises, never reads the data."""
    try:
        if not os.path.isfile(path):
            return Trouble("no_file" if not os.path.lexists(path) else "not_a_file", path)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            start = file.read(16)
            if path.endswith(".json"):
                return _index(path, file, size)
            if path.endswith(".safetensors"):
                return _safetensors(path, file, size)
            if start[:2] == b"PK" or start[:2] == b"\x80\x02":
                return Trouble("torch_weights", path)
            return _ckpt(path, file, size)
    except OSError as error:
        return Trouble("unreadable", path, 0, {"why": error.strerror or type(error).__name__})


def _bad(path: str, why: str) -> Trouble:
    return Trouble("bad_header", path, 0, {"why": why})


def _safetensors(path: str, file: BinaryIO, size: int) -> Header | Trouble:
    file.seek(0)
    first = file.read(8)
    if len(first) < 8:
        return _bad(path, f"the file has {size} bytes, less than the length of a header")
    length = int.from_bytes(first, "little")
    if length > MAX_HEADER or length > size - 8:
        return _bad(path, f"the header claims {length} bytes, the file has {size}")
    raw = file.read(length)
    if len(raw) < length:
        return _bad(path, "the file ends inside the header")
    if raw[:1] != b"{":
        return _bad(path, "the header does not begin with {")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return _bad(path, "the header is no JSON")
    if not isinstance(value, dict) or len(value) > MAX_TENSORS:
        return _bad(path, "the header is no table of tensors")
    tensors = []
    spans = []
    metadata = value.pop("__metadata__", None)
    for name, entry in value.items():
        made = _entry(entry)
        if isinstance(made, str):
            return _bad(path, f"{name[:80]}: {made}")
        dtype, shape, span = made
        tensors.append(Tensor(name, dtype, shape))
        spans.append((*span, name))
    end = 0
    for begin, stop, name in sorted(spans):
        if begin != end:
            return _bad(path, f"{name[:80]} begins at byte {begin} of the data, expected {end}")
        end = stop
    if end != size - 8 - length:
        return _bad(path, f"the tensors take {end} bytes, the file holds {size - 8 - length}")
    whole = "-of-" not in os.path.basename(path)
    notes = {str(k): str(v)[:200] for k, v in metadata.items()} if isinstance(metadata, dict) else {}
    return Header(path, "safetensors", tuple(tensors), size, whole, notes)


def _entry(entry: Any) -> tuple[str, tuple[int, ...], tuple[int, int]] | str:
    """(dtype, shape, span of bytes) of one entry, or why it cannot be."""
    if not isinstance(entry, dict):
        return "no description of a tensor"
    dtype, shape, span = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or not isinstance(shape, list) or not isinstance(span, list) or len(span) != 2:
        return "dtype, shape or data_offsets is missing"
    if not all(type(n) is int and 0 <= n < 1 << 48 for n in (*shape, *span)) or len(shape) > 32:
        return "a size is no whole number of a sensible range"
    count = 1
    for side in shape:
        count *= side
    width = SIZES.get(dtype)
    if width is not None and dtype != "F4" and span[1] - span[0] != count * width:
        return f"{dtype} of {shape} takes {count * width} bytes, data_offsets say {span[1] - span[0]}"
    if span[1] < span[0]:
        return "data_offsets run backwards"
    return dtype, tuple(shape), (span[0], span[1])


def _index(path: str, file: BinaryIO, size: int) -> Header | Trouble:
    """Names of ``model.safetensors.index.json``; shapes come from the shards beside it, where they are."""
    if size > MAX_HEADER:
        return Trouble("too_large", path, 0, {"size": size, "limit": MAX_HEADER})
    file.seek(0)
    try:
        value = json.loads(file.read())
    except (ValueError, RecursionError):
        return _bad(path, "the index is no JSON")
    table = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(table, dict) or len(table) > MAX_TENSORS:
        return _bad(path, "the index has no weight_map")
    folder = os.path.dirname(path)
    shapes: dict[str, Tensor] = {}
    for name in sorted({str(v) for v in table.values()})[:2000]:
        shard = os.path.join(folder, os.path.basename(name))
        if os.path.isfile(shard):
            made = read(shard)
            if isinstance(made, Trouble):
                return made
            shapes.update((t.name, t) for t in made.tensors)
    tensors = tuple(shapes.get(name, Tensor(name, "", ())) for name in table)
    return Header(path, "safetensors", tensors, size, len(shapes) >= len(table))


def _varint(file: BinaryIO) -> int | None:
    """A protobuf number, None at the end of the file."""
    result = shift = 0
    while True:
        byte = file.read(1)
        if not byte:
            return None if shift == 0 else -1
        result |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return result
        shift += 7
        if shift > 63:
            return -1


def _fields(file: BinaryIO, end: int) -> Iterator[tuple[int, int, int]]:
    """(number, wire type, value or length) of the fields up to ``end``; the caller reads or skips what has a length.
    A field that cannot be is (0, 0, 0)."""
    while file.tell() < end:
        key = _varint(file)
        if key is None:
            return
        number, kind = key >> 3, key & 7
        if key < 0 or number == 0:
            yield 0, 0, 0
            return
        if kind == 0:
            value = _varint(file)
            yield number, 0, -1 if value is None else value
        elif kind == 2:
            length = _varint(file)
            if length is None or length < 0 or file.tell() + length > end:
                yield 0, 0, 0
                return
            yield number, 2, length
        elif kind in (1, 5):
            file.seek(8 if kind == 1 else 4, os.SEEK_CUR)
        else:
            yield 0, 0, 0
            return


def _ckpt(path: str, file: BinaryIO, size: int) -> Header | Trouble:
    """Tags, dtypes and shapes of a MindSpore checkpoint; contents are skipped by seeking."""
    file.seek(0)
    found: dict[str, Tensor] = {}
    for number, kind, length in _fields(file, size):
        if number == 0:
            return _bad(path, f"no MindSpore checkpoint, or cut off, at byte {file.tell()} of {size}")
        if kind != 2:
            continue
        if number != 1:
            file.seek(length, os.SEEK_CUR)
            continue
        made = _ckpt_value(file, file.tell() + length)
        if made is None:
            return _bad(path, f"an entry cannot be read at byte {file.tell()} of {size}")
        tag, dtype, shape, content = made
        width = CKPT_SIZES.get(dtype)
        count = 1
        for side in shape:
            count *= side
        if width and tag not in found and content > count * width and shape not in ((), (0,)):
            return _bad(path, f"{tag[:80]}: {dtype} of {list(shape)} cannot take {content} bytes")
        found.setdefault(tag, Tensor(tag, dtype, () if shape == (0,) else shape))
        if len(found) > MAX_TENSORS:
            return _bad(path, "too many entries")
    if not found:
        return _bad(path, "no entries")
    return Header(path, "ckpt", tuple(found.values()), size, "rank_" not in path)


def _ckpt_value(file: BinaryIO, end: int) -> tuple[str, str, tuple[int, ...], int] | None:
    tag, dtype, dims, content = "", "", [], 0
    for number, kind, length in _fields(file, end):
        if number == 0:
            return None
        if kind != 2:
            continue
        stop = file.tell() + length
        if number == 1:
            if length > 4096:
                return None
            tag = file.read(length).decode("utf-8", "replace")
        elif number == 2:
            for inner, wire, value in _fields(file, stop):
                if inner == 0:
                    return None
                if inner == 1 and wire == 0:
                    dims.append(value)
                elif inner == 1 and wire == 2:
                    until = file.tell() + value
                    while file.tell() < until:
                        dims.append(_varint(file) or 0)
                elif inner == 2 and wire == 2:
                    dtype = file.read(min(value, 64)).decode("utf-8", "replace")
                elif wire == 2:
                    content += value
                    file.seek(value, os.SEEK_CUR)
                if len(dims) > 64:
                    return None
            file.seek(stop)
        else:
            file.seek(stop)
    if not tag or any(d < 0 for d in dims):
        return None
    return tag, dtype, tuple(dims), content


def beside(plan: Plan) -> str | None:
    """The weight file that belongs to a plan: beside its config.json, or the file its configuration loads."""
    folder = os.path.dirname(plan.file)
    if plan.kind == "huggingface":
        names = [os.path.join(folder, name) for name in ("model.safetensors.index.json", "model.safetensors")]
    else:
        load = plan.get("checkpoint.load") or ""
        names = [load, os.path.join(folder, load)] if load.endswith((".safetensors", ".ckpt")) else []
    return next((name for name in names if os.path.isfile(name)), None)


def family_of(plan: Plan) -> str:
    """Family of a plan's model, as Hugging Face names it."""
    kind = str(plan.get("model.type", ""))
    return {"LlamaConfig": "llama", "GPT2Config": "gpt2"}.get(kind, kind)


# --- what a model expects


class Expected(NamedTuple):
    """One parameter a model has: its name in Hugging Face files and in MindFormers, and its shape. ``turned`` where
    the two keep the matrix the other way round."""

    hf: str
    mindformers: str
    shape: tuple[int, ...]
    turned: bool = False


def expected(shape: Shape, family: str) -> list[Expected] | None:
    """Parameters of a model of a family (gpt2, or llama with its relatives), None for families without a table.

    Sources: transformers ``modeling_gpt2.py``, ``modeling_llama.py``; mindformers ``models/gpt2/convert_weight.py``,
    ``models/llama/convert_weight.py``.
    """
    if family == "gpt2":
        return _gpt2(shape)
    if family in ("llama", "mistral", "qwen2", "qwen3", "internlm2") and not shape.experts and not shape.mla:
        return _llama(shape)
    return None


def _gpt2(s: Shape) -> list[Expected]:
    h, f = s.hidden, s.ffn
    rows = [
        Expected("wte.weight", "backbone.embedding.word_embedding.embedding_table", (s.vocab, h)),
        Expected("wpe.weight", "backbone.embedding.position_embedding.embedding_table", (s.positions, h)),
    ]
    for n in range(s.layers):
        a, b = f"h.{n}", f"backbone.blocks.{n}"
        rows += [
            Expected(f"{a}.ln_1.weight", f"{b}.layernorm1.gamma", (h,)),
            Expected(f"{a}.ln_1.bias", f"{b}.layernorm1.beta", (h,)),
            # Conv1D keeps (in, out); a Dense layer keeps (out, in)
            Expected(f"{a}.attn.c_attn.weight", f"{b}.attention.dense1|dense2|dense3.weight", (h, 3 * h), True),
            Expected(f"{a}.attn.c_attn.bias", f"{b}.attention.dense1|dense2|dense3.bias", (3 * h,)),
            Expected(f"{a}.attn.c_proj.weight", f"{b}.attention.projection.weight", (h, h), True),
            Expected(f"{a}.attn.c_proj.bias", f"{b}.attention.projection.bias", (h,)),
            Expected(f"{a}.ln_2.weight", f"{b}.layernorm2.gamma", (h,)),
            Expected(f"{a}.ln_2.bias", f"{b}.layernorm2.beta", (h,)),
            Expected(f"{a}.mlp.c_fc.weight", f"{b}.output.mapping.weight", (h, f)),
            Expected(f"{a}.mlp.c_fc.bias", f"{b}.output.mapping.bias", (f,)),
            Expected(f"{a}.mlp.c_proj.weight", f"{b}.output.projection.weight", (f, h)),
            Expected(f"{a}.mlp.c_proj.bias", f"{b}.output.projection.bias", (h,)),
        ]
    return [
        *rows,
        Expected("ln_f.weight", "backbone.layernorm.gamma", (h,)),
        Expected("ln_f.bias", "backbone.layernorm.beta", (h,)),
    ]


def _llama(s: Shape) -> list[Expected]:
    h, f = s.hidden, s.ffn
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    rows = [Expected("model.embed_tokens.weight", "model.tok_embeddings.embedding_weight", (s.vocab, h))]
    for n in range(s.layers):
        a, b = f"model.layers.{n}", f"model.layers.{n}"
        for letter, width in (("q", q), ("k", kv), ("v", kv)):
            rows.append(Expected(f"{a}.self_attn.{letter}_proj.weight", f"{b}.attention.w{letter}.weight", (width, h)))
            if s.qkv_bias:
                rows.append(Expected(f"{a}.self_attn.{letter}_proj.bias", f"{b}.attention.w{letter}.bias", (width,)))
        if s.qk_norm:
            rows += [Expected(f"{a}.self_attn.{letter}_norm.weight", "", (s.head_dim,)) for letter in "qk"]
        rows += [
            Expected(f"{a}.self_attn.o_proj.weight", f"{b}.attention.wo.weight", (h, q)),
            Expected(f"{a}.mlp.gate_proj.weight", f"{b}.feed_forward.w1.weight", (f, h)),
            Expected(f"{a}.mlp.down_proj.weight", f"{b}.feed_forward.w2.weight", (h, f)),
            Expected(f"{a}.mlp.up_proj.weight", f"{b}.feed_forward.w3.weight", (f, h)),
            Expected(f"{a}.input_layernorm.weight", f"{b}.attention_norm.weight", (h,)),
            Expected(f"{a}.post_attention_layernorm.weight", f"{b}.ffn_norm.weight", (h,)),
        ]
    rows.append(Expected("model.norm.weight", "model.norm_out.weight", (h,)))
    if not s.tied:
        rows.append(Expected("lm_head.weight", "lm_head.weight", (s.vocab, h)))
    return rows


class Match(NamedTuple):
    """One row of the mapping table. ``verdict``: ok · missing · shape · transposed (the shape is the other way round)
    · turn (right here, but the target keeps it the other way round, which a square matrix does not show)."""

    name: str
    target: str
    have: tuple[int, ...]
    want: tuple[int, ...]
    verdict: str


class Comparison(NamedTuple):
    """A header against a plan. ``layout``: huggingface or mindformers, whose names the file uses."""

    layout: str
    rows: tuple[Match, ...]
    extra: tuple[str, ...]
    states: int
    """optimizer states among the entries"""
    file: str = ""
    tied: bool = False
    """the model has no output layer of its own"""
    head: bool = False
    """the file holds one"""

    def of(self, verdict: str) -> list[Match]:
        """Rows of one verdict."""
        return [row for row in self.rows if row.verdict == verdict]


CONV1D = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
"""Matrices that GPT-2 keeps as (in, out), the other way round than nn.Dense (transformers ``Conv1D``)."""
IGNORED = ("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias", ".attn.rotary", "num_batches_tracked")
STATES = ("adam_m.", "adam_v.", "moment1.", "moment2.", "exp_avg.", "exp_avg_sq.", "moments.", "accu_grads.")
COUNTERS = ("epoch_num", "step_num", "global_step", "loss_scale", "scale_sense", "beta1_power", "beta2_power",
            "learning_rate",
            "current_iterator_step", "last_overflow_iterator_step", "weight_decay")  # fmt: skip


def compare(header: Header, shape: Shape, family: str) -> Comparison | None:
    """Names and shapes of a file against those the model expects; None for families without a table."""
    wanted = expected(shape, family)
    if wanted is None:
        return None
    have: dict[str, Tensor] = {}
    states = 0
    for tensor in header.tensors:
        if tensor.name.startswith(STATES):
            states += 1
        elif tensor.name not in COUNTERS and not tensor.name.endswith(IGNORED):
            have[tensor.name] = tensor
    ours = sum(row.mindformers in have for row in wanted)
    prefix = "transformer." if any(name.startswith("transformer.h.") for name in have) else ""
    theirs = sum(prefix + row.hf in have for row in wanted)
    layout = "mindformers" if ours > theirs else "huggingface"
    rows = []
    used = set()
    for row in wanted:
        name = prefix + row.hf if layout == "huggingface" else row.mindformers
        if not name or "|" in name:
            continue
        found = have.get(name)
        want = row.shape
        if layout == "mindformers" and (row.turned or family == "gpt2") and ".output." not in name:
            want = want[::-1] if row.turned else want
        if found is None:
            verdict = "missing"
        elif not found.dtype or found.shape == want:
            verdict = "turn" if layout == "huggingface" and family == "gpt2" and row.hf.endswith(CONV1D) else "ok"
        else:
            verdict = "transposed" if found.shape == want[::-1] else "shape"
        used.add(name)
        target = row.mindformers if layout == "huggingface" else row.hf
        rows.append(Match(name, target, found.shape if found else (), want, verdict))
    split = {part for row in wanted if "|" in row.mindformers for part in _alternatives(row.mindformers)}
    extra = tuple(name for name in have if name not in used and name not in split)
    head = any(name.endswith(("lm_head.weight", "head.weight")) for name in have)
    return Comparison(layout, tuple(rows), extra, states, header.file, shape.tied, head)


def _alternatives(name: str) -> list[str]:
    """``a.b|c.d`` stands for ``a.b.d`` and ``a.c.d``."""
    parts = name.split(".")
    return [
        ".".join([*parts[:n], choice, *parts[n + 1 :]])
        for n, p in enumerate(parts)
        if "|" in p
        for choice in p.split("|")
    ]


def into(plan: Plan, header: Header | Trouble, family: str, shape: Shape | None) -> Comparison | None:
    """Note what a weight file says in a plan, for rules."""
    if isinstance(header, Trouble):
        why = str(header.args.get("why", ""))
        plan.put("weights.problem", Value(header.code, "set", header.file, 0, why, why))
        return None
    plan.put("weights.problem", Value("", "derived", whose="the header was read"))
    found = compare(header, shape, family) if shape is not None else None
    if found is None or not header.whole:
        return found

    def names(rows: list[str]) -> Value:
        return Value(
            rows[:8], "set" if rows else "derived", header.file, 0, rows[0] if rows else "", rows[0] if rows else ""
        )

    plan.put("weights.layout", Value(found.layout, "derived", whose="names in the file"))
    plan.put("weights.missing", names([row.name for row in found.of("missing")]))
    plan.put("weights.extra", names(list(found.extra)))
    plan.put(
        "weights.shapes",
        names([f"{r.name} {list(r.have)} ≠ {list(r.want)}" for r in found.of("shape") + found.of("transposed")]),
    )
    plan.put("weights.turned", names([row.name for row in found.of("turn")]))
    plan.put("weights.has_head", Value(found.head, "derived", whose="names in the file"))
    plan.weights = found
    return found
