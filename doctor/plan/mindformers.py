"""MindSpore Transformers (MindFormers) configurations, 1.0 to 2.x.

Three layouts: *legacy* (``model.model_config`` with a class, ``parallel_config``, ``runner_config``), *mcore*
(``use_legacy: False``, names of Hugging Face) and *pynative* (sections ``training``, ``parallelism``, ``model``).
Read as the consumer reads: ``yaml.safe_load``, ``base_config`` files first, keys of the file itself over them
(mindformers ``tools/register/config.py``), defaults of ``tools/register/template.py`` and of the classes.
"""

from __future__ import annotations

import json
import os
from difflib import get_close_matches
from typing import Any

from doctor.plan import fill, limits, structure
from doctor.plan.schema import Plan, Trouble, Value
from doctor.plan.spelling import SHORT, distance, nearest, nearest_type, own_word
from doctor.plan.yamltree import Node, decode, nesting, read_bytes, read_tree

MAX_BASES = 16

MODEL = {
    "type": "model.type", "model_type": "model.type", "architectures": "model.arch",
    "hidden_size": "model.hidden_size", "embedding_size": "model.hidden_size",
    "num_layers": "model.num_layers", "num_hidden_layers": "model.num_layers", "n_layer": "model.num_layers",
    "num_heads": "model.num_heads", "num_attention_heads": "model.num_heads", "n_head": "model.num_heads",
    "n_kv_heads": "model.kv_heads", "num_key_value_heads": "model.kv_heads", "num_query_groups": "model.kv_heads",
    "head_dim": "model.head_dim", "kv_channels": "model.head_dim",
    "intermediate_size": "model.ffn_size", "ffn_hidden_size": "model.ffn_size", "inner_hidden_size": "model.ffn_size",
    "gated_linear_unit": "model.gated",
    "vocab_size": "model.vocab_size", "padded_vocab_size": "model.vocab_size",
    "seq_length": "model.seq_length", "max_position_embeddings": "model.max_positions",
    "max_position_embedding": "model.max_positions", "n_positions": "model.max_positions",
    "position_embedding_type": "model.position", "normalization": "model.norm",
    "rms_norm_eps": "model.norm_eps", "layernorm_epsilon": "model.norm_eps", "layer_norm_epsilon": "model.norm_eps",
    "layer_norm_eps": "model.norm_eps", "hidden_act": "model.activation", "activation_func": "model.activation",
    "tie_word_embeddings": "model.tied", "qkv_has_bias": "model.qkv_bias", "attention_bias": "model.qkv_bias",
    "add_qkv_bias": "model.qkv_bias", "add_bias_linear": "model.linear_bias",
    "qk_layernorm": "model.qk_norm", "use_qk_norm": "model.qk_norm",
    "hidden_dropout": "model.hidden_dropout", "hidden_dropout_rate": "model.hidden_dropout",
    "hidden_dropout_prob": "model.hidden_dropout", "attention_dropout": "model.attention_dropout",
    "attention_dropout_rate": "model.attention_dropout", "attention_probs_dropout_prob": "model.attention_dropout",
    "embedding_dropout_prob": "model.embedding_dropout",
    "use_flash_attention": "model.flash_attention", "use_ring_attention": "model.ring_attention",
    "use_attn_mask_compression": "model.mask_compression", "multi_latent_attention": "model.mla",
    "q_lora_rank": "model.q_lora_rank", "kv_lora_rank": "model.kv_lora_rank",
    "qk_rope_head_dim": "model.rope_head_dim", "qk_nope_head_dim": "model.nope_head_dim",
    "v_head_dim": "model.v_head_dim",
    "num_experts": "model.experts", "n_routed_experts": "model.experts", "num_moe_experts": "model.experts",
    "num_experts_per_tok": "model.experts_per_token", "moe_router_topk": "model.experts_per_token",
    "moe_intermediate_size": "model.expert_ffn", "moe_ffn_hidden_size": "model.expert_ffn",
    "n_shared_experts": "model.shared_experts", "shared_expert_num": "model.shared_experts",
    "moe_shared_expert_intermediate_size": "model.shared_ffn",
    "n_group": "model.expert_groups", "moe_router_num_groups": "model.expert_groups",
    "topk_group": "model.expert_group_topk", "moe_router_group_topk": "model.expert_group_topk",
    "moe_router_enable_expert_bias": "model.router_bias",
    "num_nextn_predict_layers": "model.mtp_layers", "mtp_depth": "model.mtp_layers",
    "mtp_num_layers": "model.mtp_layers",
    "use_past": "model.use_past", "fine_grain_interleave": "model.fine_grain_interleave",
    "pp_interleave_num": "parallel.virtual_stages",
    "compute_dtype": "precision.compute", "param_init_type": "precision.params", "params_dtype": "precision.params",
    "embedding_init_type": "precision.embedding", "embedding_params_dtype": "precision.embedding",
    "layernorm_compute_type": "precision.norm", "layernorm_compute_dtype": "precision.norm",
    "layernorm_dtype": "precision.norm",
    "softmax_compute_type": "precision.softmax", "softmax_compute_dtype": "precision.softmax",
    "softmax_dtype": "precision.softmax",
    "rotary_dtype": "precision.rotary", "router_dense_type": "precision.router", "moe_router_dtype": "precision.router",
}  # fmt: skip
"""Key of a model section to plan name (mindformers ``parallel_core/transformer_config_utils.py`` and the classes)."""

PLACES = {
    "seed": "run.seed", "run_mode": "run.mode", "use_parallel": "run.parallel",
    "load_checkpoint": "checkpoint.load", "load_ckpt_format": "checkpoint.load_format",
    "profile": "profile.on", "profile_start_step": "profile.start", "profile_stop_step": "profile.stop",
    "only_save_strategy": "checkpoint.only_strategy",
    "auto_trans_ckpt": "checkpoint.transform", "micro_batch_interleave_num": "parallel.micro_interleave",
    "parallel_config.data_parallel": "parallel.dp", "parallel_config.model_parallel": "parallel.mp",
    "parallel_config.context_parallel": "parallel.cp", "parallel_config.pipeline_stage": "parallel.pp",
    "parallel_config.expert_parallel": "parallel.ep", "parallel_config.use_seq_parallel": "parallel.sequence",
    "parallel_config.micro_batch_num": "parallel.micro_batches",
    "parallel_config.vocab_emb_dp": "parallel.vocab_by_data",
    "parallel_config.context_parallel_algo": "parallel.cp_method",
    "parallel.full_batch": "parallel.full_batch", "parallel.gradients_mean": "parallel.gradients_mean",
    "parallel.enable_parallel_optimizer": "parallel.optimizer", "parallel.device_num": "parallel.devices",
    "parallel.parallel_optimizer_config.optimizer_level": "parallel.optimizer_level",
    "parallel.parallel_optimizer_config.parallel_optimizer_threshold": "parallel.optimizer_threshold",
    "parallel.pipeline_config.pipeline_scheduler": "parallel.schedule",
    "runner_config.batch_size": "batch.size", "runner_config.epochs": "batch.epochs",
    "runner_config.sink_mode": "batch.sink", "runner_config.sink_size": "batch.sink_size",
    "runner_config.gradient_accumulation_steps": "batch.accumulation",
    "optimizer.type": "optimizer.type", "optimizer.beta1": "optimizer.beta1", "optimizer.beta2": "optimizer.beta2",
    "optimizer.eps": "optimizer.eps", "optimizer.weight_decay": "optimizer.weight_decay",
    "optimizer.learning_rate": "optimizer.lr",
    "runner_wrapper.max_grad_norm": "optimizer.clip_norm",
    "lr_schedule.type": "schedule.type", "lr_schedule.learning_rate": "schedule.lr",
    "lr_schedule.lr_end": "schedule.lr_end", "lr_schedule.warmup_steps": "schedule.warmup_steps",
    "lr_schedule.warmup_ratio": "schedule.warmup_ratio", "lr_schedule.total_steps": "schedule.total_steps",
    **{f"grouped_lr_schedule.default.{key}": f"schedule.{name}" for key, name in (
        ("type", "type"), ("learning_rate", "lr"), ("lr_end", "lr_end"), ("warmup_steps", "warmup_steps"),
        ("warmup_ratio", "warmup_ratio"), ("total_steps", "total_steps"))},
    "recompute_config.parallel_optimizer_comm_recompute": "recompute.optimizer_comm",
    "train_dataset.data_loader.type": "data.type", "train_dataset.num_parallel_workers": "data.workers",
    "train_dataset.drop_remainder": "data.drop_remainder", "train_dataset.input_columns": "data.columns",
    "train_dataset.data_loader.num_parallel_workers": "data.workers",
    "train_dataset.prefetch_size": "data.prefetch", "train_dataset.batch_size": "data.batch_size",
    "train_dataset.data_loader.num_shards": "data.num_shards",
    "train_dataset.data_loader.config.seq_length": "data.seq_length",
    "context.mode": "context.mode", "context.device_target": "context.device",
    "context.max_call_depth": "context.call_depth",
    "context.max_device_memory": "context.memory", "context.enable_graph_kernel": "context.graph_kernel",
    "context.memory_optimize_level": "context.memory_level", "context.save_graphs": "context.save_graphs",
    "context.jit_config.jit_level": "context.jit_level", "context.jit_level": "context.jit_level",
    "context.ascend_config.precision_mode": "context.precision_mode",
}  # fmt: skip
"""Path in a legacy or mcore file to plan name."""

PYNATIVE = {
    "run_mode": "run.mode", "training.seed": "run.seed",
    "training.local_batch_size": "batch.size", "training.global_batch_size": "batch.written_global",
    "training.steps": "schedule.total_steps", "training.max_norm": "optimizer.clip_norm",
    "parallelism.tensor_parallel": "parallel.mp", "parallelism.context_parallel": "parallel.cp",
    "parallelism.pipeline_parallel": "parallel.pp", "parallelism.expert_parallel": "parallel.ep",
    "parallelism.sequence_parallel": "parallel.sequence", "parallelism.context_parallel_method": "parallel.cp_method",
    "parallelism.pipeline_parallel_interleave_num": "parallel.virtual_stages",
    "parallelism.pipeline_parallel_schedule": "parallel.schedule",
    "optimizer.type": "optimizer.type", "optimizer.eps": "optimizer.eps", "optimizer.adamw_eps": "optimizer.eps",
    "optimizer.weight_decay": "optimizer.weight_decay",
    "lr_scheduler.type": "schedule.type", "lr_scheduler.learning_rate": "schedule.lr",
    "lr_scheduler.lr_end": "schedule.lr_end", "lr_scheduler.warmup_steps": "schedule.warmup_steps",
    "lr_scheduler.warmup_ratio": "schedule.warmup_ratio",
    "checkpoint.enable_save": "checkpoint.save", "checkpoint.save_interleaved_steps": "checkpoint.interval",
    "checkpoint.save_max": "checkpoint.keep", "checkpoint.async_save": "checkpoint.async",
    "checkpoint.load_path": "checkpoint.load",
    "train_dataset.dataloader.type": "data.type", "train_dataset.num_parallel_workers": "data.workers",
    "train_dataset.drop_remainder": "data.drop_remainder", "train_dataset.prefetch_size": "data.prefetch",
    "train_dataset.dataloader.config.seq_length": "data.seq_length",
    "train_dataset.dataloader.config.column_names": "data.columns",
    "train_dataset.dataloader.column_names": "data.columns",
    "context.mode": "context.mode", "context.device_target": "context.device",
    "context.max_device_memory": "context.memory",
}  # fmt: skip
"""Path in a pynative file to plan name (mindformers 2.1 ``pynative/config/config.py``)."""

TEMPLATE = "MindFormers"
DEFAULTS: dict[str, Any] = {
    "run.parallel": False, "parallel.dp": 1, "parallel.mp": 1, "parallel.cp": 1, "parallel.pp": 1, "parallel.ep": 1,
    "parallel.micro_batches": 1, "parallel.sequence": False, "parallel.vocab_by_data": True,
    "parallel.micro_interleave": 1, "parallel.virtual_stages": 1, "parallel.optimizer": False, "batch.accumulation": 1,
    "recompute.full": False, "recompute.selective": False, "recompute.optimizer_comm": False, "context.mode": 0,
    "context.device": "Ascend",
}  # fmt: skip
"""What holds in every 1.x and 2.x graph layout (``tools/register/template.py``, ``TransformerOpParallelConfig``)."""

CLASS_DEFAULTS: dict[str, dict[str, Any]] = {
    "LlamaConfig": {
        "model.seq_length": 2048, "model.hidden_size": 4096, "model.num_layers": 32, "model.num_heads": 32,
        "model.vocab_size": 32000, "model.norm_eps": 1e-5, "precision.compute": "float16", "precision.norm": "float32",
        "precision.softmax": "float32", "precision.rotary": "float32", "precision.params": "float16",
        "model.qkv_bias": False, "model.flash_attention": False, "model.tied": False, "model.fine_grain_interleave": 1,
    },
    "GPT2Config": {
        "model.seq_length": 1024, "model.hidden_size": 768, "model.num_layers": 12, "model.num_heads": 12,
        "model.vocab_size": 50257, "model.embedding_dropout": 0.1, "model.hidden_dropout": 0.1,
        "model.attention_dropout": 0.1, "precision.compute": "float16", "precision.norm": "float32",
        "precision.softmax": "float32", "precision.params": "float32", "model.flash_attention": False,
    },
}  # fmt: skip
"""Defaults of configuration classes that fill a plan of a file that leaves them out (1.3.2; the same in 1.0)."""

MCORE_DEFAULTS: dict[str, Any] = {
    "precision.compute": "bfloat16", "precision.params": "float32", "precision.norm": "float32",
    "precision.softmax": "float32", "precision.rotary": "float32", "model.flash_attention": True,
    "model.hidden_dropout": 0.1, "model.attention_dropout": 0.1,
}  # fmt: skip
"""``TransformerConfig`` of ``parallel_core`` 1.6 to 2.1."""

PYNATIVE_DEFAULTS: dict[str, Any] = {
    "run.mode": "train", "run.parallel": True, "parallel.mp": 1, "parallel.cp": 1, "parallel.pp": 1, "parallel.ep": 1,
    "parallel.sequence": False, "parallel.virtual_stages": 1, "batch.size": 1, "batch.written_global": 1,
    "optimizer.type": "AdamW", "optimizer.eps": 1e-8, "optimizer.weight_decay": 0.01, "optimizer.clip_norm": 1.0,
    "checkpoint.save": True, "checkpoint.interval": 1000, "checkpoint.keep": 5, "checkpoint.async": False,
    "context.mode": 1, "recompute.full": False, "recompute.selective": False,
}  # fmt: skip

CHECKPOINT_DEFAULTS: dict[str, Any] = {
    "checkpoint.interval": 1, "checkpoint.keep": 5, "checkpoint.integrated": True, "checkpoint.async": False,
    "checkpoint.format": "ckpt",
}  # fmt: skip
"""``CheckpointMonitor`` of ``core/callback/callback.py``."""

SIZES = frozenset(
    "model." + name
    for name in ("hidden_size", "num_layers", "num_heads", "kv_heads", "ffn_size", "vocab_size", "seq_length")
)
DROPOUTS = frozenset(("model.hidden_dropout", "model.attention_dropout", "model.embedding_dropout"))

ELSEWHERE = tuple("model." + name for name in (
    "hidden_size", "num_layers", "num_heads", "kv_heads", "head_dim", "ffn_size", "vocab_size", "experts",
    "experts_per_token",
    "expert_ffn", "tied", "qkv_bias", "qk_norm", "norm_eps", "max_positions", "mla", "linear_bias",
))  # fmt: skip
"""Shape of a model that an mcore file may leave to config.json or to the class."""

MEANT = {
    "amp_level": "compute_dtype", "loss_scale": "runner_wrapper.scale_sense.loss_scale_value",
    "gradient_shard": "parallel.enable_parallel_optimizer", "tensor_parallel": "parallel_config.model_parallel",
    "learning_rate": "lr_schedule.learning_rate", "n_positions": "max_position_embeddings",
}  # fmt: skip
"""Keys that people write and no version reads in this place, with the one they mean."""

MODES = {0: "data", 1: "semi_auto", 2: "auto", 3: "hybrid"}
MODE_NAMES = {
    "data_parallel": "data", "semi_auto_parallel": "semi_auto", "auto_parallel": "auto", "hybrid_parallel": "hybrid",
    "stand_alone": "stand_alone", "manual_parallel": "manual",
}  # fmt: skip
OTHER_MEANING = ("SwinConfig", "SwinV2Config")
"""Classes whose keys have the same names and mean lists, one entry per block."""

NEAR_ONLY = ("callback", "dataset", "dataset_loader", "scale")
"""Kinds of classes that also come from elsewhere (MindSpore, data sets of one's own): only near misses are told."""

WORDS = {
    "hidden_act": ("gelu", "fast_gelu", "relu", "relu6", "silu", "swiglu", "fusedswiglu", "tanh", "sigmoid", "softmax",
                   "leakyrelu", "elu", "hswish", "hsigmoid", "prelu", "logsigmoid", "gelu_new", "quick_gelu", "mish"),
    "position_embedding_type": ("rope", "yarn", "none", "relative", "learned_absolute", "partial_rope", "llama3"),
    "moe_router_load_balancing_type": ("sub_seq_aux_loss", "seq_aux_loss", "gbs_aux_loss", "aux_loss", "sinkhorn"),
    "moe_token_dispatcher_type": ("alltoall", "alltoall_deredundency", "alltoall_zero_redundancy", "allgather"),
    "scoring_func": ("sigmoid", "softmax", "sqrtsoftplus"),
    "search_mode": ("recursive_programming", "dynamic_programming", "sharding_propagation"),
    "pet_type": ("lora", "slora", "multi_lora", "prefixtuning", "ptuning2", "ptuning", "adalora", "low_rank_adapter",
                 "lora_moe", "pt2", "pet_adapter"),
    "extend_method": ("none", "pi", "ntk", "yarn", "llama3", "dynamic_ntk", "linear"),
}  # fmt: skip
"""Words that a key takes: mindformers ``transformer_config.py``, ``modules/activation.py``, ``moe/router.py``;
MindSpore ``_auto_parallel_context.py``. A word close to one of them is a slip, any other is refused
unless the model class is one's own."""

SMALL = ("optimizer", "lr_schedule", "callbacks", "runner_wrapper", "scale_sense")
"""Sections with few keys, where a short word that is nearly one of them is one."""
COLUMNS = ("input_ids", "labels", "loss_mask", "position_ids", "attention_mask")
"""Columns of language models, in the order of their networks' inputs (mindformers templates, ``llama.py``)."""

LLAMA_LIKE = ("LlamaConfig", "ChatGLM2Config", "GPT2Config")
GATED = ("swiglu", "silu", "fusedswiglu", "geglu")

_keys: dict[str, Any] | None = None


def keys() -> dict[str, Any]:
    """The known keys by section, made from the wheels by scripts/plan_keys.py."""
    global _keys  # noqa: PLW0603 - read once
    if _keys is None:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "keys.json"), encoding="utf-8") as file:
            _keys = json.load(file)
    return _keys


def looks_like(tree: Node) -> bool:
    """Whether a YAML tree is a MindFormers run: sections that nothing else has."""
    if tree.kind != "map":
        return False
    names = set(tree.data)
    marks = {"parallel_config", "runner_config", "runner_wrapper", "train_dataset_task", "lr_schedule", "moe_config",
             "recompute_config", "trainer", "micro_batch_interleave_num", "auto_trans_ckpt"}  # fmt: skip
    if tree.at("model", "model_config") is not None or "base_config" in names:
        return True
    if "parallelism" in names and ("training" in names or "model" in names):
        # other trainers have such a section too, with names of their own (torchtitan: tensor_parallel_degree)
        below = tree.data["parallelism"]
        given = {str(key) for key in below.data} if below.kind == "map" else set()
        known = keys()["pynative"]["parallelism"]
        return 2 * sum(1 for key in list(given)[:100] if key in known or nearest(key, known, 2)) >= len(given)
    if "training" in names and any(n.kind == "map" and "parallelism" in n.data for n in tree.data.values()):
        return True
    return len(names & marks) >= 2


def read(path: str, text: str | None = None, top: str = "") -> Plan:
    """The plan of a configuration file. Never raises: what keeps it from being read is ``file.problem``.

    ``text`` is taken instead of the file's content; ``top`` is the folder a base file must not lead out of (default:
    anything goes, as for the consumer).
    """
    plan = Plan("mindformers", path)
    if text is None:
        data = read_bytes(path)
        if isinstance(data, Trouble):
            return fill.failed(plan, data)
        decoded = decode(data, path)
        if isinstance(decoded, Trouble):
            return fill.failed(plan, decoded)
        text = decoded
    tree = read_tree(text, path)
    if isinstance(tree, Trouble):
        return fill.failed(plan, tree, text)
    return read_node(plan, tree, text)


def read_node(plan: Plan, tree: Node, text: str) -> Plan:
    """The plan of a tree that was read already."""
    path = plan.file
    if tree.kind != "map":
        return fill.failed(plan, Trouble("not_a_mapping", path, tree.line), text)
    notes = fill.Notes(text.splitlines())
    reader = _Reader(plan, notes)
    reader.files = [(path, tree, notes)]
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    reader.bases(path, tree, {os.path.realpath(path)})
    plan.put("file.nesting", Value(nesting(tree), "derived", whose="counted"))
    reader.all()
    notes.into(plan)
    plan.slips = notes.slips
    fill.derive(plan)
    return plan


class _Reader:
    """One run of the reader over a file and its bases."""

    def __init__(self, plan: Plan, notes: fill.Notes) -> None:
        self.plan, self.notes = plan, notes
        self.files: list[tuple[str, Node, fill.Notes]] = []
        """the file itself first, then its bases; the first that holds a path decides, as the consumer merges"""

    def bases(self, path: str, tree: Node, seen: set[str]) -> None:
        """Read the files named by ``base_config``; later bases replace whole sections of earlier ones."""
        node = tree.data.get("base_config")
        if node is None:
            return
        names = node.data if node.kind == "list" else [node]
        for name in reversed(names):
            if not isinstance(name.data, str):
                continue
            other = os.path.join(os.path.dirname(path), name.data)
            line = tree.line_of("base_config")
            real = os.path.realpath(other)
            if real in seen or len(seen) > MAX_BASES:
                self.plan.troubles.append(Trouble("base_loop", path, line, {"name": name.data}))
                continue
            seen.add(real)
            data = read_bytes(other)
            text = data if isinstance(data, Trouble) else decode(data, other)
            below = text if isinstance(text, Trouble) else read_tree(text, other)
            if isinstance(below, Trouble):
                self.plan.troubles.append(below)
                self.plan.put(
                    "file.problem", Value("base_unreadable", "set", path, line, name.data, self.notes.text(line))
                )
                continue
            if isinstance(text, str) and below.kind == "map":
                self.plan.files.append(other)
                self.files.append((other, below, fill.Notes(text.splitlines())))
                self.bases(other, below, seen)

    def find(self, *path: str) -> tuple[Node, str, fill.Notes, int] | None:
        """(node, file, notes, line) of a path in the first file that holds it."""
        for file, tree, notes in self.files:
            owner = tree.at(*path[:-1]) if len(path) > 1 else tree
            if owner is not None and owner.kind == "map" and path[-1] in owner.data:
                return owner.data[path[-1]], file, notes, owner.line_of(path[-1])
        return None

    def take(self, name: str, path: str, *, convert: Any = None) -> bool:
        """Set a plan value from a path; ``convert`` turns the plain value before."""
        found = self.find(*path.split("."))
        if found is None or found[0].data is None:
            return False
        node, file, notes, line = found
        value = node.plain() if node.weight < 5000 else None
        if convert is not None:
            value = convert(value)
            if value is None:
                return False
        made = fill.put(self.plan, notes, name, value, line, path.rsplit(".", maxsplit=1)[-1], file)
        if notes is not self.notes and made:
            self.plan.values[name] = self.plan.values[name]._replace(text=notes.text(line))
        return made

    def all(self) -> None:
        plan = self.plan
        pynative = self.find("parallel_config") is None and any(self.find(n) for n in ("parallelism", "training"))
        legacy = self.find("use_legacy")
        layout = "pynative" if pynative else "mcore" if legacy and legacy[0].data is False else "legacy"
        plan.put("file.layout", Value(layout, "derived", whose="sections of the file"))
        section = "model" if pynative else "model.model_config"
        self.model(section)
        for path, name in (PYNATIVE if pynative else PLACES).items():
            self.take(name, path)
        if pynative:
            self.pynative()
        else:
            self.graph()
        self.odd_keys(pynative, section)
        self.defaults(layout)

    def model(self, section: str) -> None:
        plan = self.plan
        for key, name in MODEL.items():
            if name in plan.values:
                continue
            if plan.get("model.type") in OTHER_MEANING and name != "model.type":
                continue
            if key == "architectures":
                self.take(name, f"{section}.{key}", convert=lambda v: v[0] if isinstance(v, list) and v else v)
            elif name == "model.norm_eps" and plan.get("model.type") == "ChatGLM2Config":
                # the only class that turns the text into a number itself (glm2_modules.py)
                self.take(name, f"{section}.{key}", convert=lambda v: float(v) if fill.is_number_text(v) else v)
            elif name.startswith("precision."):
                self.take(name, f"{section}.{key}", convert=self.dtype)
            elif name == "model.norm":
                self.take(
                    name, f"{section}.{key}", convert=lambda v: {"RMSNorm": "rms", "LayerNorm": "layer"}.get(v, v)
                )
            else:
                self.take(name, f"{section}.{key}")
        self.take("model.arch", "model.arch.type")
        self.take("model.tied", f"{section}.untie_embeddings_and_output_weights", convert=lambda v: not v)
        if self.find(*section.split("."), "pet_config") is not None or self.find("lora_config") is not None:
            plan.derive("model.lora", True, "pet_config")
        kind = plan.get("model.type", "")
        if kind == "ChatGLM2Config":
            self.take("model.kv_heads", f"{section}.multi_query_group_num")
        if kind in ("GPT2Config", "BloomConfig", "PanguAlphaConfig") and plan.get("model.hidden_size"):
            found = self.find(*section.split("."), "expand_ratio")
            ratio = found[0].data if found and isinstance(found[0].data, int) else 4
            if "model.ffn_size" not in plan.values:
                plan.derive(
                    "model.ffn_size", ratio * plan.get("model.hidden_size"), f"expand_ratio {ratio} * hidden_size"
                )
        if kind == "LlamaConfig":
            self.llama_ffn(section)
        self.offsets(section)
        self.largest_token(section)
        self.data_token()

    def dtype(self, value: Any) -> Any:
        """A dtype name as the classes read it: any case in the legacy layout, also the short names in the others."""
        if not isinstance(value, str):
            return value
        if self.plan.get("file.layout") == "legacy":
            return value.lower()
        return fill.DTYPES.get(value, value) if value in ("fp16", "bf16", "fp32") else value

    def types(self, section: str) -> None:
        """Class names that nothing registers."""
        table = keys()["types"]
        places = [("model.arch.type", "models"), (f"{section}.type", "config"), ("optimizer.type", "optimizer"),
                  ("lr_schedule.type", "lr"), ("lr_scheduler.type", "lr"), ("runner_wrapper.type", "wrapper"),
                  ("trainer.type", "trainer"), ("runner_wrapper.scale_sense.type", "scale"),
                  ("train_dataset.data_loader.type", "dataset_loader"),
                  ("train_dataset.dataloader.type", "dataset_loader"),
                  ("eval_dataset.data_loader.type", "dataset_loader"),
                  ("train_dataset_task.type", "dataset"), ("eval_dataset_task.type", "dataset")]  # fmt: skip
        tree = self.files[0][1]
        found = []
        for path, kind in places:
            owner = tree.at(*path.split(".")[:-1])
            # what a file registers itself is nobody else's to know
            if owner is not None and owner.kind == "map" and "auto_register" not in owner.data:
                found.append((owner.data.get("type"), kind))
        for name in ("callbacks", "eval_callbacks"):
            callbacks = tree.data.get(name)
            if callbacks is not None and callbacks.kind == "list":
                found += [(item.data.get("type"), "callback") for item in callbacks.data if item.kind == "map"]
        for node, kind in found:
            if node is None or not isinstance(node.data, str) or not node.data or node.data in table[kind]:
                continue
            near = nearest_type(node.data, table[kind])
            if near:
                self.notes.add("file.near_types", f"{node.data} ({near})", node.line)
                self.notes.slips.append((node.line, node.data, near))
            elif kind not in NEAR_ONLY:
                self.notes.add("file.foreign_types", node.data, node.line)

    def llama_ffn(self, section: str) -> None:
        """Inner width of a Llama layer without ``intermediate_size`` (mindformers ``llama_layer.py``)."""
        plan = self.plan
        hidden = plan.get("model.hidden_size", 4096)
        if "model.ffn_size" in plan.values or "model.ffn_size" in plan.blocked:
            return

        def number(key: str, otherwise: float) -> float:
            found = self.find(*section.split("."), key)
            value = found[0].data if found else None
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0 else otherwise

        inner = int(2 * (4 * hidden) / 3)
        factor = number("ffn_dim_multiplier", 0)
        if factor:
            inner = int((factor + 0.01) * inner)
        multiple = int(number("multiple_of", 256))
        inner = multiple * ((inner + multiple - 1) // multiple)
        plan.derive("model.ffn_size", inner, f"8/3 hidden_size, multiplier {factor or 1}, multiple of {multiple}")

    def offsets(self, section: str) -> None:
        """Sum and length of the layer offsets of the stages."""
        found = self.find(*section.split("."), "offset")
        if found is None:
            return
        node, file, notes, line = found
        value = node.plain() if node.weight < 2000 else None
        rows = value if isinstance(value, list) else [value]
        flat = [n for row in rows for n in (row if isinstance(row, list) else [row])]
        if not all(isinstance(n, int) and not isinstance(n, bool) for n in flat):
            if isinstance(value, (str, float)) and value not in ("auto", ""):
                notes.add("file.wrong_types", "offset", line)
            return
        width = len(rows[-1]) if rows and isinstance(rows[-1], list) else len(rows) if isinstance(value, list) else 0
        spot = ("set", file, line, "offset", notes.text(line))
        self.plan.put("model.offset_sum", Value(sum(flat), *spot))
        self.plan.put("model.offset_length", Value(width, *spot))

    def graph(self) -> None:
        """What the graph layouts hold beyond single values."""
        plan = self.plan
        self.take("parallel.mode", "parallel.parallel_mode", convert=_mode)
        self.loss_scale()
        found = self.find("optimizer", "betas")
        if found and found[0].data is not None and (found[0].kind != "list" or len(found[0].data) != 2):
            found[2].add("file.wrong_types", "betas", found[3])
        elif found and found[0].kind == "list":
            pair = found[0].plain()
            for name, value in zip(("optimizer.beta1", "optimizer.beta2"), pair, strict=False):
                fill.put(plan, found[2], name, value, found[3], "betas", found[1])
        if "schedule.lr" not in plan.values and "schedule.lr" not in plan.blocked:
            self.take("schedule.lr", "optimizer.learning_rate")
        self.recompute()
        self.callbacks()
        found = self.find("resume_training")
        if found and type(found[0].data) in (int, float):
            found[2].add("file.wrong_types", "resume_training", found[3])
        elif found and found[0].data is not None:
            fill.put(plan, found[2], "checkpoint.resume", bool(found[0].data), found[3], "resume_training", found[1])
        self.strategy()
        for path in ("parallel_config.optimizer_shard", "optimizer.shard", "parallel.gradient_shard", "gradient_shard"):
            found = self.find(*path.split("."))
            if found and found[0].data is True:
                fill.put(plan, found[2], "parallel.optimizer_shard_key", path, found[3], path.rsplit(".")[-1], found[1])
                break
        found = self.find("runner_wrapper", "use_clip_grad")
        if found and found[0].data is True and "optimizer.clip_norm" not in plan.values:
            plan.default("optimizer.clip_norm", 1.0, "MindFormers MFTrainOneStepCell")
        wrapper = self.find("runner_wrapper", "type")
        if found and found[0].data is False:
            fill.put(plan, found[2], "optimizer.clip_norm", 0.0, found[3], "use_clip_grad", found[1])
        elif found is None and wrapper and wrapper[0].data == "MFTrainOneStepCell":
            # wrapper.py of mindformers 2.0.0: use_clip_grad=False; the pipeline's wrapper clips by itself
            plan.default("optimizer.clip_norm", 0.0, "MindFormers MFTrainOneStepCell")

    def loss_scale(self) -> None:
        plan = self.plan
        base = "runner_wrapper.scale_sense"
        found = self.find("runner_wrapper", "scale_sense")
        if found is None:
            return
        if found[0].kind == "map":
            self.take("precision.loss_scale", f"{base}.loss_scale_value")
            self.take("precision.loss_scale_factor", f"{base}.scale_factor")
            self.take("precision.loss_scale_window", f"{base}.scale_window")
            kind = found[0].at("type")
            if kind is not None and isinstance(kind.data, str):
                plan.put("precision.loss_scale_dynamic",
                         Value("Dynamic" in kind.data or "Adaptive" in kind.data, "set", found[1], kind.line, "type",
                               found[2].text(kind.line)))  # fmt: skip
        elif self.take("precision.loss_scale", base):
            plan.derive("precision.loss_scale_dynamic", False, "a single number")

    def recompute(self) -> None:
        plan = self.plan
        for key, name in (("recompute", "recompute.full"), ("select_recompute", "recompute.selective")):
            found = self.find("recompute_config", key)
            if found is None or found[0].data is None:
                continue
            node, file, notes, line = found
            value = node.plain() if node.weight < 5000 else True
            spot = ("set", file, line, key, notes.text(line))
            if isinstance(value, bool):
                plan.put(name, Value(value, *spot))
            elif isinstance(value, (list, dict)):
                flat = (
                    [n for row in value for n in (row if isinstance(row, list) else [row])]
                    if isinstance(value, list)
                    else [1]
                )
                plan.put(name, Value(any(bool(n) for n in flat), *spot))
                if key == "recompute" and isinstance(value, list) and value and all(type(n) is int for n in value):
                    plan.put("recompute.entries", Value(len(value), *spot))
                    plan.put("recompute.layers", Value(sum(value), *spot))
                    plan.put("recompute.least", Value(min(value), *spot))
            elif type(value) is int:
                plan.put(name, Value(value > 0, *spot))
                if key == "recompute":
                    plan.put("recompute.layers", Value(value, *spot))
            else:
                notes.add("file.wrong_types", key, line)
        plan.default("recompute.entries", 0, "no list")

    def callbacks(self) -> None:
        plan = self.plan
        found = self.find("callbacks")
        if found is None or found[0].kind != "list":
            return
        _, file, notes, _ = found
        for item in found[0].data:
            if item.kind != "map":
                continue
            kind = item.at("type")
            # the second is how 1.0 writes the name
            if kind is None or kind.data not in ("CheckpointMonitor", "CheckpointMointor"):
                continue
            names = {"save_checkpoint_steps": "checkpoint.interval", "keep_checkpoint_max": "checkpoint.keep",
                     "integrated_save": "checkpoint.integrated", "async_save": "checkpoint.async",
                     "checkpoint_format": "checkpoint.format"}  # fmt: skip
            plan.put("checkpoint.save", Value(True, "set", file, kind.line, "type", notes.text(kind.line)))
            for key, name in names.items():
                node = item.data.get(key)
                if node is not None and node.data is not None:
                    fill.put(plan, notes, name, node.data, item.line_of(key), key, file)
            node = item.data.get("enc_key")
            if node is not None and isinstance(node.data, (str, bytes)):
                length = len(node.data.encode() if isinstance(node.data, str) else node.data)
                fill.put(plan, notes, "checkpoint.enc_key_length", length, item.line_of("enc_key"), "enc_key", file)
            for name, value in CHECKPOINT_DEFAULTS.items():
                plan.default(name, value, "MindFormers CheckpointMonitor")
        plan.default("checkpoint.save", False, "no CheckpointMonitor among the callbacks")

    def strategy(self) -> None:
        """Rows and first number of ``parallel.dataset_strategy``."""
        found = self.find("parallel", "dataset_strategy")
        if found is None or found[0].kind != "list" or not found[0].data:
            return
        node, file, notes, line = found
        spot = ("set", file, line, "dataset_strategy", notes.text(line))
        self.plan.put("parallel.strategy_rows", Value(len(node.data), *spot))
        first = node.data[0]
        if first.kind == "list" and first.data and type(first.data[0].data) is int:
            self.plan.put("parallel.strategy_batch", Value(first.data[0].data, *spot))

    def pynative(self) -> None:
        plan = self.plan
        for path in ("optimizer.betas", "optimizer.adamw_betas"):
            found = self.find(*path.split("."))
            if found and found[0].kind == "list":
                pair = found[0].plain()
                for name, value in zip(("optimizer.beta1", "optimizer.beta2"), pair, strict=False):
                    fill.put(plan, found[2], name, value, found[3], path.rsplit(".")[-1], found[1])
        found = self.find("parallelism", "data_parallel_shard")
        if found and type(found[0].data) is int and found[0].data > 0:
            fill.put(plan, found[2], "parallel.dp", found[0].data, found[3], "data_parallel_shard", found[1])
        elif found is None or found[0].data == -1:
            plan.block("parallel.dp", "data_parallel_shard -1: all devices that are left")
        found = self.find("recompute", "mode")
        if found and isinstance(found[0].data, str):
            for name, mode in (("recompute.full", "full"), ("recompute.selective", "select")):
                fill.put(plan, found[2], name, found[0].data == mode, found[3], "mode", found[1])
        plan.derive("parallel.optimizer", True, "FSDP of the pynative trainer")
        plan.derive("precision.loss_scale", 1.0, "the pynative trainer scales nothing")

    def defaults(self, layout: str) -> None:
        plan = self.plan
        kind = plan.get("model.type", "")
        if layout == "legacy":
            for name, value in CLASS_DEFAULTS.get(kind, {}).items():
                plan.default(name, value, f"MindFormers {kind}")
            if kind == "LlamaConfig":
                plan.derive("model.norm", "rms", "LlamaConfig")
                plan.derive("model.gated", True, "LlamaConfig")
                plan.derive("model.position", "rope", "LlamaConfig")
                plan.derive("model.linear_bias", False, "LlamaConfig")
            elif kind == "GPT2Config":
                plan.derive("model.norm", "layer", "GPT2Config")
                plan.derive("model.gated", False, "GPT2Config")
                plan.derive("model.position", "learned", "GPT2Config")
                plan.derive("model.qkv_bias", True, "GPT2Config")
                plan.derive("model.linear_bias", True, "GPT2Config")
                plan.derive("model.tied", True, "GPT2Config")
            elif kind == "ChatGLM2Config":
                plan.derive("model.norm", "rms", "ChatGLM2Config")
                plan.derive("model.gated", True, "ChatGLM2Config")
                plan.derive("model.position", "rope", "ChatGLM2Config")
            if kind in ("LlamaConfig", "GPT2Config") and plan.get("model.seq_length"):
                plan.default("model.max_positions", plan.get("model.seq_length"), f"MindFormers {kind}: seq_length")
        elif self.find("model") is not None:
            self.shape_from_elsewhere()
            for name, value in MCORE_DEFAULTS.items():
                plan.default(name, value, "MindFormers TransformerConfig")
            rms = layout == "pynative" or self.find("model", "model_config", "rms_norm_eps") is not None
            plan.derive("model.norm", "rms" if rms else "layer", "name of the epsilon")
            act = str(plan.get("model.activation", "")).lower()
            plan.derive("model.gated", act in GATED, f"activation {act}")
            plan.derive("model.position", "rope", "MindFormers TransformerConfig")
            if layout == "mcore":
                # MCore models turn vocab_emb_dp off whatever it says (transformer_config.py)
                plan.values.pop("parallel.vocab_by_data", None)
                plan.default("parallel.vocab_by_data", False, "MindFormers TransformerConfig")
        self.experts()
        source = PYNATIVE_DEFAULTS if layout == "pynative" else DEFAULTS
        for name, value in source.items():
            plan.default(name, value, TEMPLATE)
        if layout != "pynative" and plan.get("run.parallel") is False:
            # without use_parallel one device is used, whatever the sizes say
            plan.derive("parallel.devices", 1, "use_parallel False")
        complete = all(
            plan.get("model." + n) for n in ("hidden_size", "num_layers", "num_heads", "vocab_size", "ffn_size")
        )
        counted = kind in LLAMA_LIKE or layout != "legacy"
        odd = self.find("model", "model_config", "experimental_attention_variant") or self.find(
            "model", "experimental_attention_variant"
        )
        plan.derive(
            "model.plain", bool(complete and counted and not odd and kind != "ChatGLM2Config"), "its shape is complete"
        )

    def shape_from_elsewhere(self) -> None:
        """What the file leaves out of the shape comes from ``pretrained_model_dir/config.json`` (the file itself wins),
        else from the defaults of the model class, which are not those of any published model."""
        plan = self.plan
        found = self.find("pretrained_model_dir")
        folder = found[0].data if found and isinstance(found[0].data, str) else ""
        why = "the default of the model class"
        if found and folder:
            from doctor.plan import hf

            other = os.path.join(os.path.dirname(found[1]), folder, "config.json")
            read = hf.read(other) if os.path.isfile(other) else None
            why = f"it stands in {os.path.join(folder, 'config.json')}"
            if read is not None and not read.get("file.problem"):
                plan.files.append(other)
                for name, value in read.values.items():
                    if (
                        name.startswith("model.")
                        and name not in plan.values
                        and name not in plan.blocked
                        and name != "model.plain"
                    ):
                        plan.values[name] = value
                return
        if str(plan.get("model.type", "")).startswith(("qwen", "llama", "glm", "telechat")):
            plan.derive("model.mla", False, "the family has no latent attention")
        for name in ELSEWHERE:
            plan.block(name, why)

    def experts(self) -> None:
        """Experts of the legacy ``moe_config``, and dense first layers."""
        plan = self.plan
        found = self.find("moe_config", "expert_num")
        chosen = self.find("moe_config", "num_experts_chosen")
        more = chosen[0].data if chosen and type(chosen[0].data) is int else 0
        if found and type(found[0].data) is int and found[0].data > 0 and max(found[0].data, more) > 1:
            self.take("model.experts", "moe_config.expert_num")
            self.take("model.experts_per_token", "moe_config.num_experts_chosen")
            self.take("model.expert_ffn", "moe_config.moe_intermediate_size")
            self.take("model.shared_experts", "moe_config.shared_expert_num")
        if plan.get("model.kv_lora_rank"):
            plan.derive("model.mla", True, "kv_lora_rank")
        for section in (("model", "model_config"), ("moe_config",), ("model",)):
            found = self.find(*section, "first_k_dense_replace")
            if found and type(found[0].data) is int:
                fill.put(
                    plan, found[2], "model.dense_layers", found[0].data, found[3], "first_k_dense_replace", found[1]
                )
                break

    def odd_keys(self, pynative: bool, section: str) -> None:
        """Duplicate, unknown, unread and misplaced keys of the file itself."""
        tree, notes = self.files[0][1], self.notes
        _doubles(tree, notes)
        self.types(section)
        table = keys()
        sections = table["pynative"] if pynative else table["sections"]
        closed = set(table["pynative_closed"] if pynative else table["closed"])
        for name, known in sections.items():
            node = (
                tree
                if name == ""
                else tree.at(*section.split("."))
                if name == "model" and not pynative
                else tree.data.get(name)
            )
            if node is None or node.kind != "map":
                continue
            if name in ("callbacks", "eval_dataset", "scale") or (pynative and name == "model"):
                continue
            self.section_keys(name, node, set(known), name in closed)
        if (node := tree.at("grouped_lr_schedule", "default")) is not None and node.kind == "map":
            self.section_keys("lr_schedule", node, set(sections.get("lr_schedule", ())), False)
        if pynative and (node := tree.data.get("model")) is not None and node.kind == "map":
            self.section_keys("model", node, set(table["sections"]["model"]) | {"type", "arch"}, False)
        callbacks = tree.data.get("callbacks")
        for item in callbacks.data[:50] if callbacks is not None and callbacks.kind == "list" else ():
            if item.kind == "map":
                self.section_keys("callbacks", item, set(sections.get("callbacks", ())), False)
        if (node := tree.at("runner_wrapper", "scale_sense")) is not None and node.kind == "map":
            self.section_keys("scale_sense", node, set(sections.get("scale", ())), False)
        self.inner_models(tree.at(*section.split(".")), set(table["sections"]["model"]))
        kind = self.plan.get("model.type")
        library = kind is None or self.plan.get("file.layout") != "legacy" or kind in table["types"]["config"]
        _everywhere(tree, notes, table, library)
        for name in table["maps"]:
            node = tree.data.get(name)
            if node is not None and node.kind != "map" and node.data not in (None, ""):
                notes.add("file.wrong_types", name, tree.line_of(name))
        structure.check(tree, notes, table, tree.at(*section.split(".")), based=len(self.files) > 1, pynative=pynative)
        self.columns()
        homes = {"parallel_config", "recompute_config", "runner_config", "runner_wrapper", "optimizer", "lr_schedule",
                 "moe_config",
                 "train_dataset", "callbacks", "context", "parallel"}  # fmt: skip
        if pynative:
            return
        for name, node in tree.data.items():
            if node.kind != "map" or (name not in table["sections"] and name != "model"):
                continue
            for key, below in node.data.items():
                # the same word is a key elsewhere: only a mapping that stands below a section it does not belong to
                if key in homes and below.kind == "map" and (name, key) not in ALLOWED_BELOW:
                    if name in ("train_dataset", "eval_dataset"):
                        continue
                    notes.add("file.misplaced_keys", f"{name}.{key}", node.line_of(key))

    def inner_models(self, outer: Node | None, known: set[str]) -> None:
        """Misspelt keys and impossible sizes of the models inside a model (vision, text, decoder)."""
        if outer is None or outer.kind != "map":
            return
        pending = [(str(key), node) for key, node in outer.data.items() if node.kind == "map"]
        if self.plan.get("model.type") in OTHER_MEANING:
            pending.append(("model", outer))
        for name, node in pending[:40]:
            if not ({"type", "hidden_size", "model_config"} & set(node.data)):
                continue
            pending += [(f"{name}.{key}", child) for key, child in node.data.items() if child.kind == "map"]
            self.inner_heads(name, node)
            for key, child in node.data.items():
                word, line = str(key), node.line_of(key)
                near = nearest(word, known - set(map(str, node.data)), 1) if word not in known else None
                if near:
                    self.notes.add("file.unread_keys", f"{name}.{word} ({near})", line)
                    self.notes.slips.append((line, word, near))
                plan_name = MODEL.get(word, "")
                if type(child.data) in (int, float) and (
                    (plan_name in SIZES and child.data < 1) or (plan_name in DROPOUTS and not 0 <= child.data < 1)
                ):
                    self.notes.add("file.bad_values", f"{name}.{word} {fill.shown(child.data)}", line)

    def inner_heads(self, name: str, node: Node) -> None:
        """Heads of an inner model that do not share its width evenly, where it has no width of its own for them."""
        sizes = {MODEL.get(str(key), ""): (str(key), child.data) for key, child in node.data.items()}
        (_, width), (key, heads) = (sizes.get(n, ("", 0)) for n in ("model.hidden_size", "model.num_heads"))
        whole = type(width) is int and type(heads) is int and width > 0 and heads > 0
        if whole and width % heads and "model.head_dim" not in sizes:
            line = next(node.line_of(k) for k in node.data if str(k) == key)
            self.notes.add("file.bad_values", f"{name}.{key} {heads}", line)
        key, inner = sizes.get("model.ffn_size", ("", 0))
        if (
            type(width) is int
            and type(inner) is int
            and width > 0
            and inner > 0
            and not width // 2 <= inner <= 16 * width
        ):
            line = next(node.line_of(k) for k in node.data if str(k) == key)
            self.notes.add("file.out_of_range", f"{name}.{key} {inner}", line)

    def columns(self) -> None:
        """Names and order of the columns that a language model is fed with: the order is that of its inputs."""
        value = self.plan.values.get("data.columns")
        names = value.value if value is not None else []
        if value is None or not any(n == "labels" or distance(str(n)[:40], "input_ids") <= 2 for n in names):
            return
        fault = ""
        if len(set(map(str, names))) < len(names):
            fault = "twice: " + ", ".join(sorted({str(n) for n in names if names.count(n) > 1}))
        elif "labels" in names and "input_ids" in names and names.index("labels") < names.index("input_ids"):
            fault = "labels before input_ids"
        else:
            for name in names:
                near = [c for c in COLUMNS if c not in names and distance(str(name)[:40], c) <= 2]
                if near and name not in COLUMNS:
                    fault = f"{name} ({near[0]})"
                    break
        if fault:
            self.plan.put("data.columns_fault", value._replace(value=fault))

    def largest_token(self, section: str) -> None:
        """The largest special token of the model; negative ones mean that there is none."""
        found = []
        for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
            spot = self.find(*section.split("."), key)
            value = spot[0].plain() if spot is not None and spot[0].weight < 100 else None
            for token in value if isinstance(value, list) else [value]:
                if spot is not None and type(token) is int and token >= 0:
                    found.append((token, key, spot))
        if found:
            token, key, spot = max(found, key=lambda entry: entry[0])
            fill.put(self.plan, spot[2], "model.largest_token", token, spot[3], key, spot[1])

    def data_token(self) -> None:
        """The largest special token that the data set writes."""
        best: tuple[int, str, tuple[Node, str, fill.Notes, int]] | None = None
        for key in ("eod", "pad"):
            for loader in ("data_loader", "dataloader"):
                spot = self.find("train_dataset", loader, "config", key)
                if spot is not None and type(spot[0].data) is int and (best is None or spot[0].data > best[0]):
                    best = spot[0].data, key, spot
        if best is not None:
            token, key, spot = best
            fill.put(self.plan, spot[2], "data.largest_token", token, spot[3], key, spot[1])

    def pynative_layout(self) -> bool:
        """Whether the file has the sections of the pynative trainer."""
        return bool(self.plan.get("file.layout") == "pynative")

    def section_keys(self, name: str, node: Node, known: set[str], closed: bool) -> None:
        """Unknown keys of one section: refused where it is closed, else noted when their spelling is close. A model
        class of the user's own may have keys of its own."""
        kind = self.plan.get("model.type")
        foreign = "auto_register" in node.data or (kind is not None and kind not in keys()["types"]["config"])
        for key in node.data:
            word = str(key)
            if word in known:
                continue
            meant = MEANT.get(word)
            if meant is not None and name in ("", "model", "runner_config", "trainer") and not closed:
                self.notes.add("file.unread_keys", f"{name + '.' if name else ''}{word} ({meant})", node.line_of(key))
                self.notes.slips.append((node.line_of(key), word, meant))
                continue
            line = node.line_of(key)
            path = f"{name}.{word}" if name else word
            small = name in SMALL
            edits = 1 if small or (name == "model" and foreign) else 2
            near = nearest(word, known - {str(k) for k in node.data}, edits, SHORT if small else 0.84)
            if name == "model" and foreign and own_word(word, known):
                near = None
            if near:
                self.notes.slips.append((line, word, near))
            if closed:
                self.notes.add("file.unknown_keys", path, line)
                continue
            if name == "" and node.data[key].kind == "scalar":
                home = next((s for s in keys()["closed"] if word in keys()["sections"].get(s, ())), "")
                if home and not self.pynative_layout():
                    self.notes.add("file.misplaced_keys", f"{word} ({home})", line)
                    continue
            if near:
                self.notes.add("file.unread_keys", f"{path} ({near})", line)


ONE_NUMBER = frozenset(f"{section}.{key}" for section in ("model", "lora_config")
                       for key in ("lora_rank", "lora_alpha", "lora_dropout"))  # fmt: skip
"""Settings that are one number in every layout, no list and no mapping."""


def _no_switch(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is int and value not in (0, 1))


def _typed(path: str, child: Node, line: int, notes: fill.Notes, kinds: dict[str, str]) -> None:
    """Type and range of a value by its section and key: what all configurations of the wheels write as a switch or a
    number is one, and a number may have a range."""
    top, _, _ = path.partition(".")
    key = path.rsplit(".", maxsplit=1)[-1]
    name = f"{top}.{key}" if "." in path else key
    value, kind, limit = child.data, kinds.get(name), limits.MINDFORMERS.get(name)
    if limit is not None:
        limits.check(notes, key, value, line, limit)
    elif (isinstance(value, float) and name in limits.WHOLE) or (kind == "bool" and _no_switch(value)):
        notes.add("file.wrong_types", key, line)
    elif isinstance(value, str) and value and kind and not set("${") & set(value):
        number = kind == "number" and fill.is_number_text(value)
        notes.add("file.text_numbers" if number else "file.wrong_types", key, line)


def _everywhere(tree: Node, notes: fill.Notes, table: dict[str, Any], known_class: bool) -> None:
    """What is wrong wherever it stands: a switch with two letters exchanged, one missing or one twice; a long key one
    letter away from a known one; a sequence without a length; a value of another type than everywhere else.

    ``known_class`` is off for a model class of the user's own, which may have keys and words of its own."""
    known = {key for part in ("sections", "pynative") for keys_ in table[part].values() for key in keys_}
    long = {key for key in known if len(key) >= 8}
    told = {line for line, *_ in notes.slips} | notes.lines_of("file.unknown_keys", "file.unread_keys")
    pending = [("", tree)]
    seen = 0
    while pending and seen < 50_000:
        name, node = pending.pop()
        seen += 1
        if node.kind == "list":
            pending += [(name, item) for item in node.data]
        elif node.kind == "map":
            for raw, child in node.data.items():
                key, line = str(raw), node.line_of(raw)
                path = f"{name}.{key}" if name else key
                if child.kind != "scalar":
                    pending.append((path, child))
                    if f"{path.partition('.')[0]}.{key}" in ONE_NUMBER and known_class:
                        notes.add("file.wrong_types", key, line)
                    continue
                if child.data is not None:
                    _typed(path, child, line, notes, table["kinds"])
                if isinstance(child.data, str) and child.data.lower() in SWITCH_SLIPS:
                    notes.add("file.wrong_types", key, line)
                    right = get_close_matches(child.data.lower(), ("true", "false"), 1, 0.6)
                    notes.slips += [(line, child.data, word.capitalize()) for word in right]
                elif key in WORDS and isinstance(child.data, str) and child.data.lower() not in WORDS[key]:
                    meant = nearest(child.data.lower(), WORDS[key], 2, SHORT)
                    if meant:
                        notes.add("file.near_values", f"{key} {child.data} ({meant})", line)
                    elif child.data and known_class:
                        notes.add("file.unknown_words", f"{key} {fill.shown(child.data)}", line)
                elif key == "seq_length" and type(child.data) is int and child.data < 1 and "." in path:
                    notes.add("file.bad_values", f"{path} {fill.shown(child.data)}", line)
            for raw in node.data:
                key, line = str(raw), node.line_of(raw)
                path = f"{name}.{key}" if name else key
                if len(key) >= 8 and key not in known and line not in told:
                    near = nearest(key, long - {str(k) for k in node.data}, 1)
                    if near and (known_class or not own_word(key, known)):
                        notes.add("file.unread_keys", f"{path} ({near})", line)
                        notes.slips.append((line, key, near))


def _slips_of(word: str) -> set[str]:
    places = range(1, len(word))
    swapped = {word[: n - 1] + word[n] + word[n - 1] + word[n + 1 :] for n in places}
    lost = {word[:n] + word[n + 1 :] for n in places}
    return (swapped | lost | {word[:n] + word[n - 1 :] for n in places}) - {word, "tue", "tre"}


SWITCH_SLIPS = _slips_of("true") | _slips_of("false")
ALLOWED_BELOW = {("monitor_config", "optimizer")}


def _mode(value: Any) -> str:
    """Name of a parallel mode, written as a number or as a word."""
    if isinstance(value, int):
        return MODES.get(value, "unknown")
    return MODE_NAMES.get(str(value).lower(), "unknown")


def _doubles(tree: Node, notes: fill.Notes) -> None:
    """Note keys that stand twice, wherever they are."""
    pending = [tree]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        for key, line in node.doubles:
            notes.add("file.duplicate_keys", key, line)
        if node.kind == "map":
            pending += node.data.values()
        elif node.kind == "list":
            pending += node.data
