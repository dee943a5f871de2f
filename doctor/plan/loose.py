"""Facts of a job that somebody wrote down: a table of settings that no library reads.

People describe a trouble as ``model: …, num_heads: 16, tensor_parallel_size: 6``, or give the arguments of a serving
engine as YAML. Names are taken for what they mean in the field, wherever they stand. Only texts that were handed over
are read so, never files found in a folder: there the same names may belong to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from doctor.plan.fill import DTYPES
from doctor.plan.schema import FIELDS, Plan, Value, coerce
from doctor.plan.yamltree import Node, read_tree

_NAMES = """
model.hidden_size     hidden_size n_embd d_model hidden_dim embed_dim dim
model.num_layers      num_layers num_hidden_layers n_layer n_layers depth
model.num_heads       num_heads num_attention_heads n_head n_heads attention_heads
model.kv_heads        num_key_value_heads num_kv_heads n_kv_heads kv_heads num_query_groups
model.head_dim        head_dim head_size attention_head_dim attention_head_dims head_dims size_per_head
model.ffn_size        intermediate_size ffn_hidden_size ffn_dim
model.vocab_size      vocab_size
model.seq_length      seq_length seq_len sequence_length max_seq_len max_model_len block_size
model.max_positions   max_position_embeddings max_positions n_positions n_ctx
model.norm_eps        layer_norm_eps layernorm_epsilon layer_norm_epsilon rms_norm_eps norm_eps layernorm_eps
model.flash_attention use_flash_attention enable_flash_attention flash_attention use_flash_attn
model.hidden_dropout  hidden_dropout resid_pdrop hidden_dropout_rate hidden_dropout_prob
model.attention_dropout attention_dropout attn_pdrop attention_dropout_rate attention_probs_dropout_prob
precision.compute     dtype torch_dtype compute_dtype precision
precision.softmax     softmax_compute_dtype softmax_dtype softmax_compute_type
precision.norm        layernorm_compute_type layernorm_compute_dtype layernorm_dtype
precision.params      param_init_type params_dtype param_dtype
precision.amp_level   amp_level
parallel.dp           data_parallel data_parallel_size dp dp_size
parallel.mp           model_parallel tensor_parallel_size tensor_model_parallel_size tp tp_size mp model_parallel_size
parallel.cp           context_parallel context_parallel_size cp cp_size
parallel.pp           pipeline_stage pipeline_parallel_size pipeline_model_parallel_size pp pp_size
parallel.ep           expert_parallel expert_parallel_size expert_model_parallel_size ep ep_size
parallel.devices      device_num num_devices world_size n_devices num_npus npus devices worker_num
parallel.micro_batches micro_batch_num num_micro_batches
batch.size            micro_batch_size per_device_train_batch_size batch_size
batch.accumulation    gradient_accumulation_steps accumulation_steps
batch.written_global  global_batch_size
optimizer.lr          learning_rate lr
optimizer.beta1       adam_beta1 beta1
optimizer.beta2       adam_beta2 beta2
optimizer.weight_decay weight_decay
schedule.warmup_steps warmup_steps lr_warmup_iters
schedule.total_steps  total_steps max_steps train_iters
context.memory        max_device_memory
context.jit_level     jit_level
"""
NAMES = {alias: line.split()[0] for line in _NAMES.strip().splitlines() for alias in line.split()[1:]}
"""What a name means, in lower case with underscores."""

_FACTS = {"mindspore": "version.mindspore", "mindspore_version": "version.mindspore",
          "mindformers": "version.mindformers", "mindformers_version": "version.mindformers"}  # fmt: skip
_CHIP = re.compile(r"(?i)\b(?:ascend\s?)?(910[ab]\d?(?:-\d)?|910pro[ab]|310p\d?|910_93\d\d)\b")
_SHARED = ("parallel.", "context.", "batch.")
FEW = 2
"""Names that must be known before a text is taken for such a table."""
PARTS = 16


def _pairs(node: Node, path: str = "") -> Iterator[tuple[str, str, Node, int]]:
    """(section, key, value, line) of every scalar and list below a mapping."""
    for key, value in node.data.items():
        if value.kind == "map":
            yield from _pairs(value, str(key))
        else:
            yield path, re.sub(r"[\s-]+", "_", str(key).strip().lower()), value, node.line_of(key)


def read(path: str, text: str) -> tuple[list[Plan], dict[str, Any]]:
    """Plans of such a table, and the facts in it (versions, the chip). A section with sizes of its own, as of a vision
    tower beside a language model, is a plan of its own; so is each of several head widths. No plan: it is no table."""
    tree = read_tree(text, path)
    if not isinstance(tree, Node) or tree.kind != "map":
        return [], {}
    lines = text.split("\n")
    found: dict[str, list[tuple[str, Value]]] = {}
    facts: dict[str, Any] = {}
    for section, key, node, line in _pairs(tree):
        if key in _FACTS and node.kind != "list":
            facts.setdefault(_FACTS[key], str(node.text or node.data))
        if key in ("device", "chip", "npu", "soc", "hardware") and isinstance(node.data, str):
            chip = _CHIP.search(node.data)
            if chip:
                facts.setdefault("npu.soc", chip[1].upper())
        name = NAMES.get(key)
        if name is None:
            continue
        shown = lines[line - 1][:300] if 0 < line <= len(lines) else ""
        for one in (item.data for item in node.data) if node.kind == "list" else (node.data,):
            value = _value(name, one)
            if value is not None:
                found.setdefault(section, []).append((name, Value(value, "set", path, line, key, shown)))
    rows = [row for section in found.values() for row in section]
    if len({name for name, _ in rows}) < FEW or not any(name.startswith(("model.", "parallel.")) for name, _ in rows):
        return [], facts
    return list(_plans(path, found)), facts


def _value(name: str, value: Any) -> Any:
    """The value in the declared type, None if it is of another one."""
    if name.startswith("precision.") and isinstance(value, str):
        value = DTYPES.get(value.lower().removeprefix("torch."), value)
    try:
        return coerce(value, FIELDS["plan." + name].type)
    except TypeError:
        return None


def _plans(path: str, found: dict[str, list[tuple[str, Value]]]) -> Iterator[Plan]:
    top = found.get("", [])
    apart = [s for s, rows in found.items() if s and any(name == "model.num_heads" for name, _ in rows)]
    rest = [row for section, rows in found.items() if section not in apart for row in rows]
    shared = [row for rows in found.values() for row in rows if row[0].startswith(_SHARED)]
    for section in apart or [""]:
        own = found[section] if section else rest
        rows = own + [row for row in (shared if section else []) if row not in own]
        others = [row for row in rows if row[0] != "model.head_dim"]
        widths = [row for row in rows if row[0] == "model.head_dim"]
        for width in widths[:PARTS]:
            yield _plan(path, [*others, width])
        if not widths:
            yield _plan(path, others)
    if apart and any(name.startswith("model.") for name, _ in top):
        yield _plan(path, rest)


def _plan(path: str, rows: list[tuple[str, Value]]) -> Plan:
    plan = Plan("notes", path)
    for name, value in rows:
        if name not in plan.values:
            plan.put(name, value)
    heads, hidden = plan.get("model.num_heads"), plan.get("model.hidden_size")
    if heads and hidden and hidden % heads == 0:
        plan.derive("model.head_dim", hidden // heads, "hidden_size / heads")
    return plan


def environment(path: str, text: str) -> str:
    """Variables of a section named env or environment, as ``NAME=value`` lines; empty without one."""
    tree = read_tree(text, path)
    if not isinstance(tree, Node) or tree.kind != "map":
        return ""
    rows = []
    for key in ("env", "environment", "envs", "environment_variables"):
        node = tree.at(key)
        if node is not None and node.kind == "map":
            for name, value in node.data.items():
                if value.kind not in ("map", "list") and re.fullmatch(r"[A-Za-z_]\w{0,80}", str(name)):
                    shown = "" if value.data is None else str(value.text or value.data)
                    rows.append(f"{name}={shown}".replace("\n", " "))
    return "\n".join(rows) + ("\n" if rows else "")
