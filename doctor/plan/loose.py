"""Facts of a job that somebody wrote down: a table of settings that no library of MindSpore reads.

People describe a trouble as ``model: …, num_heads: 16, tensor_parallel_size: 6``, or give the settings of another
framework. Names are taken for what they mean in the field, wherever they stand; ``doctor.plan.readers`` tells whose
settings they are and what follows for that reader. Only texts that were handed over are read so, never files found in
a folder: there the same names may belong to anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from doctor.plan import fill, readers
from doctor.plan.schema import FIELDS, FLOAT, TEXT, Plan, Value, coerce
from doctor.plan.spelling import nearest
from doctor.plan.yamltree import Node, read_tree

_NAMES = """
model.hidden_size     hidden_size n_embd d_model hidden_dim embed_dim dim
model.num_layers      num_layers num_hidden_layers n_layer n_layers depth
model.num_heads       num_heads num_attention_heads n_head n_heads attention_heads total_attention_heads
model.kv_heads        num_key_value_heads num_kv_heads n_kv_heads kv_heads num_query_groups
model.head_dim        head_dim head_size attention_head_dim attention_head_dims head_dims size_per_head
model.ffn_size        intermediate_size ffn_hidden_size ffn_dim
model.expert_ffn      moe_intermediate_size moe_ffn_hidden_size
model.experts         num_experts n_routed_experts num_local_experts num_moe_experts moe_num_experts
model.experts_per_token num_experts_per_tok moe_router_topk num_experts_per_token top_k_experts moe_topk
model.vocab_size      vocab_size
model.seq_length      seq_length seq_len sequence_length max_seq_len
model.max_positions   max_position_embeddings max_positions n_positions n_ctx
model.norm_eps        layer_norm_eps layernorm_epsilon layer_norm_epsilon rms_norm_eps norm_eps layernorm_eps
model.flash_attention use_flash_attention enable_flash_attention flash_attention use_flash_attn
model.hidden_dropout  hidden_dropout resid_pdrop hidden_dropout_rate hidden_dropout_prob
model.attention_dropout attention_dropout attn_pdrop attention_dropout_rate attention_probs_dropout_prob
precision.compute     dtype torch_dtype compute_dtype precision infer_dtype vllm_dtype mixed_precision ms_dtype
precision.softmax     softmax_compute_dtype softmax_dtype softmax_compute_type
precision.norm        layernorm_compute_type layernorm_compute_dtype layernorm_dtype
precision.params      param_init_type params_dtype param_dtype
precision.amp_level   amp_level ms_amp_level
precision.loss_scale  loss_scale_value init_loss_scale
parallel.dp           data_parallel data_parallel_size dp dp_size
parallel.mp           model_parallel tensor_parallel_size tensor_model_parallel_size tp tp_size mp model_parallel_size
parallel.mp           tensor_parallel_degree tensor_parallel tensor_parallelism
parallel.cp           context_parallel context_parallel_size cp cp_size
parallel.pp           pipeline_stage pipeline_parallel_size pipeline_model_parallel_size pp pp_size pipeline_stages
parallel.ep           expert_parallel expert_parallel_size expert_model_parallel_size ep ep_size
parallel.devices      device_num num_devices world_size worldsize n_devices num_npus npus devices worker_num
parallel.devices      num_processes n_gpus num_gpus gpus gpu_count available_gpus local_gpu_count
parallel.micro_batches micro_batch_num num_micro_batches
parallel.sequence     sequence_parallel
parallel.virtual_layers num_layers_per_virtual_pipeline_stage
batch.size            micro_batch_size per_device_train_batch_size batch_size
batch.accumulation    gradient_accumulation_steps accumulation_steps
batch.written_global  global_batch_size
optimizer.lr          learning_rate lr lr_init start_learning_rate
optimizer.beta1       adam_beta1 beta1
optimizer.beta2       adam_beta2 beta2
optimizer.weight_decay weight_decay
optimizer.type        optimizer optim opt
schedule.warmup_steps warmup_steps lr_warmup_iters
schedule.total_steps  total_steps max_steps train_iters
context.memory        max_device_memory
context.jit_level     jit_level
notes.max_length      max_model_len maxseqlen
notes.input_length    maxinputtokenlen max_input_token_len
notes.batched_tokens  max_num_batched_tokens
notes.memory_share    gpu_memory_utilization vllm_gpu_memory_utilization
notes.quantization    quantization quant_method
notes.export_bits     export_quantization_bit
notes.quantization_bits quantization_bit quant_bits
notes.kv_dtype        kv_cache_dtype
notes.draft_tokens    num_speculative_tokens
notes.sequence_cut    enable_sequence_parallelism enable_sp
notes.sleep           enable_sleep_mode vllm_enable_sleep_mode
notes.zero_stage      zero_stage
notes.local_devices   device_count nproc_per_node npu_per_node n_gpus_per_node
notes.train_batch     train_batch_size
notes.micro_batch     train_micro_batch_size_per_gpu micro_batch_per_gpu micro_train_batch_size
notes.accumulation    gradient_acc_step gradient_accumulation_steps
notes.trainer_batch   per_device_train_batch_size
notes.attention       attn_implementation attn_impl flash_attn
notes.packing         packing neat_packing
notes.load_best       load_best_model_at_end
notes.eval_strategy   eval_strategy evaluation_strategy
notes.save_strategy   save_strategy
notes.eval_steps      eval_steps
notes.save_steps      save_steps
notes.generates       predict_with_generate
notes.tuning          finetuning_type train_type tuner_type
notes.pure_bf16       pure_bf16
notes.classes         nc
notes.strict_load     strict_load
notes.label_length    max_label_len max_text_len
notes.label_steps     pred_seq_len
notes.overflow_update overflow_still_update
notes.expert_mp       expert_tensor_parallel_size
notes.cp_way          context_parallel_algo cp_comm_type
notes.world           world_size worldsize rank_size total_devices total_npus
notes.edge_layers     decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers
notes.edge_layers     num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage
notes.nodes           nodes nnodes num_nodes num_machines node_count node_num
notes.executor        distributed_executor_backend
notes.cut_sequence    sequence_parallel_size ulysses_sequence_parallel_size ulysses_degree
notes.mini_batch      ppo_mini_batch_size
notes.dynamic_batch   use_dynamic_bsz
notes.lora_rank       lora_rank lora_r
notes.max_lora_rank   max_lora_rank vllm_max_lora_rank
notes.unsloth         use_unsloth
notes.eager           enforce_eager
notes.symptom         symptom symptoms observed result outcome
notes.generations     num_generations
notes.ulysses         ulysses_sequence_parallel_size ulysses_size ulysses_degree
notes.decode_cp       decode_context_parallel_size dcp_size
notes.page_size       page_size
notes.prompt_length   max_prompt_length
notes.answer_length   max_response_length
notes.tokens_per_device ppo_max_token_len_per_gpu
"""
NAMES: dict[str, list[str]] = {}
"""What a name means, in lower case with underscores; some tell two things."""
for _line in _NAMES.strip().splitlines():
    for _alias in _line.split()[1:]:
        NAMES.setdefault(_alias, []).append(_line.split()[0])

_FACTS = {"mindspore": "version.mindspore", "mindspore_version": "version.mindspore",
          "mindformers": "version.mindformers", "mindformers_version": "version.mindformers"}  # fmt: skip


_SHARED = ("parallel.", "context.", "batch.", "notes.")
_RUN_ONLY = ("precision.", "batch.", "optimizer.", "schedule.")
_APART = fill.words("""
eval valid validation test infer inference vae text_encoder workload benchmark benchmarks draft
speculative_config kv_transfer_config generation metric postprocess loss local_mixer
""")
"""Sections that speak of something else than of the training or the model; what they hold of batches, dtypes and
learning rates is left alone."""
_SCALARS = ("torch_dtype", "dtype", "precision", "compute_dtype", "mixed_precision", "infer_dtype")
_POWER = re.compile(r"\d{1,3}(?:\.\d{0,6})?[eE][+-]?\d{1,2}")
FEW = 2
"""Names that must be known before a text is taken for such a table, where its reader is not told by other keys."""
PARTS = 16


class Row(NamedTuple):
    """A setting: the sections above it, its key in lower case with underscores, its value, its line and that line's
    text."""

    sections: tuple[str, ...]
    key: str
    node: Node
    line: int
    shown: str


def key_of(written: object) -> str:
    """A key as it is looked up: ``--Tensor-Parallel-Size`` and ``tensor_parallel_size`` are the same."""
    return re.sub(r"[\s-]+", "_", str(written).strip().lstrip("-").lower())


def rows_of(tree: Node, lines: list[str]) -> list[Row]:
    """Every scalar and list below a mapping. Of environment variables the other readers tell."""

    def below(node: Node, sections: tuple[str, ...]) -> Iterator[Row]:
        for written, value in node.data.items():
            key = key_of(written)
            if value.kind == "map":
                if key not in readers.ENVIRONMENT:
                    yield from below(value, (*sections, key))
                continue
            line = node.line_of(written)
            yield Row(sections, key, value, line, lines[line - 1][:300] if 0 < line <= len(lines) else "")

    return list(below(tree, ()))


def read(path: str, text: str) -> tuple[list[Plan], dict[str, Any]]:
    """Plans of such a table, and the facts in it (versions, the chip). A section with sizes of its own, as of a vision
    tower beside a language model, is a plan of its own; so is each of several head widths. No plan: it is no table."""
    tree = read_tree(text, path)
    if not isinstance(tree, Node) or tree.kind != "map":
        return [], {}
    rows = rows_of(tree, text.split("\n"))
    table = readers.Table(path, rows, readers.variables(tree))
    found: dict[str, list[tuple[str, Value]]] = {}
    facts: dict[str, Any] = {}
    for row in rows:
        if row.key in _FACTS and row.node.kind == "scalar":
            facts.setdefault(_FACTS[row.key], str(row.node.text or row.node.data))
        for name in _names(row, table):
            for one in (item.data for item in row.node.data) if row.node.kind == "list" else (row.node.data,):
                value = _value(name, one)
                if value is not None:
                    written = Value(value, "set", path, row.line, row.key, row.shown)
                    found.setdefault(row.sections[-1] if row.sections else "", []).append((name, written))
    facts |= table.facts
    known = {name for rows in found.values() for name, _ in rows}
    enough = len(known) >= FEW and any(name.startswith(("model.", "parallel.")) for name in known)
    if not enough and not table.speaks and not table.chip and not table.env:
        return [], facts
    return [readers.complete(plan, table) for plan in _plans(path, found)], facts


def _names(row: Row, table: readers.Table) -> list[str]:
    names = NAMES.get(row.key, [])
    last = row.sections[-1] if row.sections else ""
    if row.key == "block_size" and {"n_embd", "n_head"} & table.keys:
        return ["model.seq_length"]
    if last == "parallel" and row.key in ("tensor", "pipeline"):
        return ["parallel.mp" if row.key == "tensor" else "parallel.pp"]
    if last == "zero_optimization" and row.key == "stage":
        return ["notes.zero_stage"]
    if last == "pipeline" and row.key == "stages":
        return ["parallel.pp"]
    if last in ("optimizer", "optim") and row.key in ("type", "name"):
        return ["optimizer.type"]
    if row.node.kind == "list" and names != ["model.head_dim"]:
        return []
    if _APART.intersection(row.sections):
        names = [name for name in names if not name.startswith(_RUN_ONLY)]
    if row.key == "sequence_parallel" and row.node.kind != "scalar":
        return []
    return names


def _value(name: str, value: Any) -> Any:
    """The value in the declared type, None if it is of another one or leaves the choice to its reader."""
    if name.startswith("precision.") and name not in ("precision.amp_level", "precision.loss_scale"):
        if not isinstance(value, str):
            return None
        word = value.lower().removeprefix("torch.").removeprefix("mindspore.").removeprefix("ms.")
        value = fill.DTYPES.get(word, word if nearest(word, fill.DTYPES, 1) else None)
        if value is None:
            return None
    if name in ("notes.eval_strategy", "notes.save_strategy") and value is False:
        value = "no"  # YAML reads a bare no as false
    kind = FIELDS["plan." + name].type
    if name.startswith("notes.") and kind == TEXT and isinstance(value, str):
        value = value.strip().lower()
    if kind == FLOAT and isinstance(value, str) and _POWER.fullmatch(value):
        value = float(value)  # YAML reads 1e-5 as text, its readers mean the number
    try:
        return coerce(value, kind)
    except (TypeError, OverflowError):
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
            yield _plan(path, [*others, width], whole=not section)
        if not widths:
            yield _plan(path, others, whole=not section)
    if apart and any(name.startswith("model.") for name, _ in top):
        yield _plan(path, rest, whole=True)


def _plan(path: str, rows: list[tuple[str, Value]], *, whole: bool) -> Plan:
    plan = Plan("notes", path)
    plan.whole = whole
    for name, value in rows:
        if name not in plan.values:
            plan.put(name, value)
    heads, hidden = plan.get("model.num_heads"), plan.get("model.hidden_size")
    if heads and heads > 0 and hidden and hidden % heads == 0:
        plan.derive("model.head_dim", hidden // heads, "hidden_size / heads")
    return plan


def environment(path: str, text: str) -> str:
    """Variables of a section named env or environment, as ``NAME=value`` lines; empty without one."""
    tree = read_tree(text, path)
    if not isinstance(tree, Node) or tree.kind != "map":
        return ""
    return "".join(f"{name}={value}\n" for name, value, _ in readers.variables(tree))
