"""``config.json`` of Hugging Face models: the shape of a model, without a training run.

Keys and defaults are those of the configuration classes of ``transformers``; what a family fixes in its code (norm,
biases, gate, tied head) is in ``FAMILIES``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.plan import fill
from doctor.plan.schema import Plan, Trouble, Value
from doctor.plan.yamltree import MAX_DEPTH, decode, read_bytes

KEYS = {
    "model_type": "model.type",
    "hidden_size": "model.hidden_size", "n_embd": "model.hidden_size", "d_model": "model.hidden_size",
    "num_hidden_layers": "model.num_layers", "n_layer": "model.num_layers", "num_layers": "model.num_layers",
    "num_attention_heads": "model.num_heads", "n_head": "model.num_heads",
    "num_key_value_heads": "model.kv_heads", "num_kv_heads": "model.kv_heads",
    "head_dim": "model.head_dim", "kv_channels": "model.head_dim",
    "intermediate_size": "model.ffn_size", "n_inner": "model.ffn_size", "ffn_dim": "model.ffn_size",
    "ffn_hidden_size": "model.ffn_size",
    "padded_vocab_size": "model.vocab_size", "vocab_size": "model.vocab_size",
    "max_position_embeddings": "model.max_positions", "n_positions": "model.max_positions",
    "seq_length": "model.max_positions",
    "rms_norm_eps": "model.norm_eps", "layer_norm_epsilon": "model.norm_eps", "layer_norm_eps": "model.norm_eps",
    "layernorm_epsilon": "model.norm_eps",
    "hidden_act": "model.activation", "activation_function": "model.activation",
    "tie_word_embeddings": "model.tied", "attention_bias": "model.qkv_bias", "add_qkv_bias": "model.qkv_bias",
    "attention_dropout": "model.attention_dropout", "attn_pdrop": "model.attention_dropout",
    "resid_pdrop": "model.hidden_dropout", "hidden_dropout": "model.hidden_dropout",
    "embd_pdrop": "model.embedding_dropout",
    "q_lora_rank": "model.q_lora_rank", "kv_lora_rank": "model.kv_lora_rank",
    "qk_rope_head_dim": "model.rope_head_dim", "qk_nope_head_dim": "model.nope_head_dim",
    "v_head_dim": "model.v_head_dim",
    "n_routed_experts": "model.experts", "num_experts": "model.experts", "num_local_experts": "model.experts",
    "num_experts_per_tok": "model.experts_per_token", "moe_intermediate_size": "model.expert_ffn",
    "n_shared_experts": "model.shared_experts", "first_k_dense_replace": "model.dense_layers",
    "n_group": "model.expert_groups", "topk_group": "model.expert_group_topk",
    "num_nextn_predict_layers": "model.mtp_layers",
}  # fmt: skip

ROPE = {"model.norm": "rms", "model.gated": True, "model.position": "rope", "model.qkv_bias": False,
        "model.linear_bias": False, "model.qk_norm": False, "model.tied": False}  # fmt: skip
LAYER = {"model.norm": "layer", "model.gated": False, "model.qkv_bias": True, "model.linear_bias": True,
         "model.qk_norm": False, "model.tied": True}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": {**LAYER, "model.position": "learned"},
    "opt": {**LAYER, "model.position": "learned"},
    "bloom": {**LAYER, "model.position": "alibi", "model.embedding_norm": True},
    "gpt_neox": {**LAYER, "model.position": "rope", "model.tied": False},
    "llama": ROPE, "mistral": ROPE, "internlm2": ROPE, "baichuan": ROPE, "phi3": ROPE, "mixtral": ROPE,
    "qwen2": {**ROPE, "model.qkv_bias": True},
    "qwen3": {**ROPE, "model.qk_norm": True, "model.head_dim": 128},
    "qwen3_moe": {**ROPE, "model.qk_norm": True, "model.head_dim": 128},
    "gemma": {**ROPE, "model.tied": True, "model.head_dim": 256},
    "chatglm": {**ROPE, "model.qkv_bias": True},
    "deepseek_v2": {**ROPE, "model.mla": True}, "deepseek_v3": {**ROPE, "model.mla": True, "model.router_bias": True},
}  # fmt: skip
"""What the code of a family fixes when its config.json does not say it (transformers ``models/*/modeling_*.py``)."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


OTHERS = _words("""
architectures auto_map torch_dtype dtype transformers_version use_cache initializer_range rope_theta rope_scaling
sliding_window use_sliding_window max_window_layers bos_token_id eos_token_id pad_token_id pretraining_tp mlp_bias
output_router_logits router_aux_loss_coef decoder_sparse_step norm_topk_prob scoring_func topk_method
routed_scaling_factor aux_loss_alpha seq_aux moe_layer_freq ep_size partial_rotary_factor summary_type n_ctx
multi_query_attention multi_query_group_num layernorm_compute_dtype apply_residual_connection_post_layernorm
quantization_config attention_multiplier embedding_multiplier residual_multiplier logits_scaling layer_types
num_hidden_groups decoder_start_token_id is_encoder_decoder is_decoder
""")
"""Keys that are read for nothing but their spelling."""
TYPES = _words("""
albert baichuan bart bert bloom chatglm clip codegen cohere cohere2 dbrx deberta deepseek deepseek_v2 deepseek_v3
deepseek_v32 deepseek_vl falcon falcon_h1 falcon_mamba gemma gemma2 gemma3 gemma3_text glm glm4 glm4_moe gpt2
gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe internlm internlm2 internlm3 jamba kimi_k2 llama llama4
llama4_text llava mamba mamba2 minicpm minicpm3 minimax mistral mistral3 mixtral nemotron olmo olmo2 olmoe openai-gpt
phi phi3 phimoe pixtral qwen qwen2 qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_next roberta smollm3 stablelm starcoder2
telechat telechat3 vit whisper yi
""")
ACTIVATIONS = (
    "gelu", "gelu_10", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "gelu_accurate", "laplace",
    "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "swish", "tanh", "prelu",
    "swiglu", "geglu",
)  # fmt: skip
"""``ACT2FN`` of transformers ``activations.py``, and names of models that bring their own code."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_NEXT = re.compile(r'["{}\[\]\n]')


def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Line of every key of nested objects: path to line. Linear in the text; lists are not looked into."""
    found: dict[tuple[str, ...], int] = {}
    path: list[str] = []
    word, line, position = "", 1, 0
    kinds: list[str] = []
    while True:
        match = _NEXT.search(text, position)
        if match is None:
            return found
        position = match.end()
        mark = match[0]
        if mark == "\n":
            line += 1
        elif mark == '"':
            whole = _STRING.match(text, match.start())
            if whole is None:
                return found
            position = whole.end()
            colon = position
            while colon < len(text) and text[colon] in " \t\r\n":
                colon += 1
            if text[colon : colon + 1] == ":" and kinds and kinds[-1] == "{":
                word = whole[0][1:-1]
                found.setdefault((*path, word), line)
        elif mark in "{[":
            if len(kinds) > MAX_DEPTH:
                return found
            if kinds:
                path.append(word if mark == "{" else "[]")
            kinds.append(mark)
        else:
            if kinds:
                kinds.pop()
            if path:
                path.pop()


def read(path: str, text: str | None = None) -> Plan | None:
    """The plan of a config.json, None for JSON that describes no model. Never raises."""
    plan = Plan("huggingface", path)
    if text is None:
        data = read_bytes(path)
        content = data if isinstance(data, Trouble) else decode(data, path)
        if isinstance(content, Trouble):
            return fill.failed(plan, content)
        text = content
    text = text.removeprefix("\ufeff")
    doubles: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            doubles.extend(k for k, _ in items if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        return made

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        if '"model_type"' not in text and '"architectures"' not in text:
            return None
        line = getattr(error, "lineno", 1)
        return fill.failed(plan, Trouble("syntax", path, line, {"why": str(getattr(error, "msg", error))[:200]}), text)
    if not isinstance(value, dict):
        return None
    inner = value
    prefix: tuple[str, ...] = ()
    for name in ("text_config", "llm_config", "language_config"):
        below = value.get(name)
        if isinstance(below, dict) and "hidden_size" in below:
            inner, prefix = below, (name,)
    shape = {"hidden_size", "n_embd", "d_model"} & set(inner)
    if ("model_type" not in value and "architectures" not in value) or not shape:
        return None
    lines = key_lines(text)
    notes = fill.Notes(text.splitlines())
    for key in doubles:
        notes.add("file.duplicate_keys", key, next((n for p, n in lines.items() if p[-1] == key), 1))
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    for key, name in KEYS.items():
        if key in inner and inner[key] is not None and name not in plan.values:
            fill.put(plan, notes, name, inner[key], lines.get((*prefix, key), 0), key, path)
    _family(plan, notes, inner, lines, prefix)
    _slips(notes, inner, {key: lines.get((*prefix, key), 0) for key in inner})
    notes.into(plan)
    plan.slips = notes.slips
    fill.derive(plan)
    return plan


def _slips(notes: fill.Notes, inner: dict[str, Any], lines: dict[str, int]) -> None:
    """Keys that nothing reads, words and numbers that cannot be meant; models with code of their own have keys of
    their own, so only near misses are told."""
    from doctor.plan.spelling import nearest

    known = KEYS.keys() | OTHERS
    for key in list(inner)[:500]:
        if key in known or len(key) < 6 or "auto_map" in inner:
            continue
        meant = nearest(key, known - inner.keys(), 1)
        if meant:
            notes.add("file.unread_keys", f"{key} ({meant})", lines[key])
            notes.slips.append((lines[key], key, meant))
    for key, words in (("model_type", TYPES), ("hidden_act", ACTIVATIONS), ("activation_function", ACTIVATIONS)):
        word = inner.get(key)
        if isinstance(word, str) and word not in words and "auto_map" not in inner:
            meant = nearest(word, words, 1)
            if meant:
                notes.add("file.near_values", f"{key} {word} ({meant})", lines[key])
    for key in ("rope_theta", "max_position_embeddings", "n_positions"):
        number = inner.get(key)
        if isinstance(number, (int, float)) and not isinstance(number, bool) and number <= 0:
            notes.add("file.bad_values", f"{key} {fill.shown(number)}", lines[key])


def _family(
    plan: Plan, notes: fill.Notes, inner: dict[str, Any], lines: dict[tuple[str, ...], int], prefix: tuple[str, ...]
) -> None:
    def line(key: str) -> int:
        return lines.get((*prefix, key), 0)

    arch = inner.get("architectures")
    if isinstance(arch, list) and arch and isinstance(arch[0], str):
        fill.put(plan, notes, "model.arch", arch[0], line("architectures"), "architectures", plan.file)
    for key in ("torch_dtype", "dtype"):
        dtype = inner.get(key)
        if isinstance(dtype, str) and "precision.params" not in plan.values:
            dtype = dtype.removeprefix("torch.")
            fill.put(plan, notes, "precision.params", fill.DTYPES.get(dtype, dtype), line(key), key, plan.file)
    kind = plan.get("model.type", "")
    family = FAMILIES.get(kind)
    plan.derive(
        "model.plain", family is not None and "model.hidden_size" in plan.values, f"family {kind or 'not known'}"
    )
    if family is None:
        return
    for name, value in family.items():
        plan.default(name, value, f"transformers {kind}")
    if kind in ("mixtral",) and "model.ffn_size" in plan.values:
        plan.derive("model.expert_ffn", plan.get("model.ffn_size"), "intermediate_size of every expert")
    if kind in ("gpt2", "bloom", "gpt_neox") and "model.ffn_size" not in plan.values and plan.get("model.hidden_size"):
        plan.derive("model.ffn_size", 4 * plan.get("model.hidden_size"), "4 * hidden size")
    if kind == "opt" and plan.get("model.max_positions"):
        # the position table has two rows for padding in front (modeling_opt.py)
        old = plan.values["model.max_positions"]
        plan.values["model.max_positions"] = old._replace(value=old.value + 2)
    if kind == "chatglm":
        groups = inner.get("multi_query_group_num")
        if inner.get("multi_query_attention") is True and type(groups) is int:
            fill.put(
                plan, notes, "model.kv_heads", groups, line("multi_query_group_num"), "multi_query_group_num", plan.file
            )
    if kind == "qwen3_moe":
        plan.derive("model.dense_layers", 0, "every layer has experts")
    if kind == "mixtral":
        plan.derive("model.dense_layers", 0, "every layer has experts")
