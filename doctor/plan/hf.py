"""``config.json`` of Hugging Face models: the shape of a model, without a training run.

Keys and defaults are those of the configuration classes of ``transformers``; what a family fixes in its code (norm,
biases, gate, tied head) is in ``FAMILIES``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from doctor.plan import fill, limits
from doctor.plan.schema import Plan, Trouble, Value
from doctor.plan.spelling import letters
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


OTHERS = fill.words("""
architectures auto_map torch_dtype dtype transformers_version use_cache initializer_range rope_theta rope_scaling
sliding_window use_sliding_window max_window_layers bos_token_id eos_token_id pad_token_id pretraining_tp mlp_bias
output_router_logits router_aux_loss_coef decoder_sparse_step norm_topk_prob scoring_func topk_method
routed_scaling_factor aux_loss_alpha seq_aux moe_layer_freq ep_size partial_rotary_factor summary_type n_ctx
multi_query_attention multi_query_group_num layernorm_compute_dtype apply_residual_connection_post_layernorm
quantization_config attention_multiplier embedding_multiplier residual_multiplier logits_scaling layer_types
num_hidden_groups decoder_start_token_id is_encoder_decoder is_decoder
boa_token_id boi_token_id eoa_token_id eod_token_id eoi_token_id d_inner emb_pdrop fpn_hidden_size o_lora_rank
router_scaling_factor v_channels rope_parameters mlp_layer_types
""")
"""Keys that are read for nothing but their spelling; the last two lines are close to others and mean something else
(attributes of the configuration classes of transformers 4.57.1 and 5.23.0)."""
TYPES = fill.words("""
albert baichuan bart bert bloom chatglm clip codegen cohere cohere2 dbrx deberta deepseek deepseek_v2 deepseek_v3
deepseek_v32 deepseek_vl falcon falcon_h1 falcon_mamba gemma gemma2 gemma3 gemma3_text glm glm4 glm4_moe gpt2
gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe internlm internlm2 internlm3 jamba kimi_k2 llama llama4
llama4_text llava mamba mamba2 minicpm minicpm3 minimax mistral mistral3 mixtral nemotron olmo olmo2 olmoe openai-gpt
opt phi phi3 phimoe pixtral qwen qwen2 qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_next roberta smollm3 stablelm starcoder2
telechat telechat3 vit whisper yi
""")
DECODERS = fill.words("""
baichuan bloom chatglm codegen cohere cohere2 dbrx deepseek deepseek_v2 deepseek_v3 falcon gemma gemma2 gemma3_text glm
glm4 glm4_moe gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe internlm internlm2 internlm3 llama
minicpm minicpm3 mistral mixtral nemotron olmo olmo2 olmoe opt phi phi3 phimoe qwen qwen2 qwen2_moe qwen3 qwen3_moe
smollm3 stablelm starcoder2 telechat yi
""")
"""Types of text decoders whose sizes relate to each other as rules expect. Other models (encoders, vision and audio
parts, mixtures with state spaces) use the same keys with other meanings: a list for each layer, 0 for none."""
HEAD_DIMS = {"cohere2": 128, "gemma2": 256, "gemma3_text": 256, "glm": 128, "glm4": 128, "glm4_moe": 128, "gpt_oss": 64}
"""Default ``head_dim`` of a class where it is not hidden size by heads (transformers 4.57.1 and 5.23.0; published
configurations of GLM-4.5 state it)."""
ACTIVATIONS = (
    "gelu", "gelu_10", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate",
    "hardswish", "laplace", "leaky_relu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu",
    "sqrtsoftplus", "swish", "tanh", "prelu", "xielu", "swiglu", "geglu",
)  # fmt: skip
"""``ACT2FN`` of transformers ``activations.py``, and names of models that bring their own code."""
DTYPES = fill.words("""
float32 float float64 double float16 half bfloat16 int8 uint8 float8_e4m3fn float8_e5m2 auto
""")
"""Names of torch that ``torch_dtype`` may hold."""
LAYER_TYPES = fill.words("""
full_attention sliding_attention chunked_attention linear_attention conv mamba attention hybrid moe sparse dense
window_attention indexed_attention compressed_sparse_attention heavily_compressed_attention minimax_m3_sparse
hybrid_sliding reference_sliding_attention deepseek_sparse_attention qwen_sparse_attention
""")
"""``ALLOWED_LAYER_TYPES`` and the older names of transformers 4.57.1 and 5.23.0 ``configuration_utils.py``; later
versions add to them, so that a strange word is told only of the decoders known here."""
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")
STEMS: dict[str, tuple[str, ...]] = {
    "baichuan": ("Baichuan", "BaiChuan"), "bloom": ("Bloom",), "chatglm": ("ChatGLM",), "cohere": ("Cohere",),
    "deepseek_v2": ("DeepseekV2",), "deepseek_v3": ("DeepseekV3",), "falcon": ("Falcon",), "gemma": ("Gemma",),
    "gemma2": ("Gemma2",), "gemma3_text": ("Gemma3",), "glm": ("Glm",), "glm4": ("Glm4",), "glm4_moe": ("Glm4Moe",),
    "gpt2": ("GPT2",), "gpt_neo": ("GPTNeo",), "gpt_neox": ("GPTNeoX",), "gpt_oss": ("GptOss",), "gptj": ("GPTJ",),
    "granite": ("Granite",), "internlm": ("InternLM",), "internlm2": ("InternLM2",), "internlm3": ("InternLM3",),
    "llama": ("Llama",), "mistral": ("Mistral",), "mixtral": ("Mixtral",), "olmo": ("Olmo",), "olmo2": ("Olmo2",),
    "olmoe": ("Olmoe",), "opt": ("OPT",), "phi": ("Phi",), "phi3": ("Phi3",), "phimoe": ("PhiMoE",),
    "qwen2": ("Qwen2",), "qwen2_moe": ("Qwen2Moe",), "qwen2_vl": ("Qwen2VL",), "qwen3": ("Qwen3",),
    "qwen3_moe": ("Qwen3Moe",), "qwen3_next": ("Qwen3Next",), "stablelm": ("StableLm",), "starcoder2": ("Starcoder2",),
}  # fmt: skip
"""Model type to the beginning of its classes (transformers ``modeling_auto.py``, and the code some models bring)."""
_TASK = re.compile(
    r"(?:ForCausalLM|LMHeadModel|ForConditionalGeneration|ForSequenceClassification|ForTokenClassification|Model)"
)

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
        if not re.search(r"[\"'](?:model_type|architectures)[\"']", text[: 1 << 20]):
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
    if ("model_type" not in value and "architectures" not in value) or not (shape or _most_of(inner)):
        return None
    lines = key_lines(text)
    notes = fill.Notes(text.splitlines())
    for key in doubles:
        notes.add("file.duplicate_keys", key, next((n for p, n in lines.items() if p[-1] == key), 1))
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    for key, name in KEYS.items():
        if key in inner and inner[key] is not None and name not in plan.values:
            if isinstance(inner[key], (list, dict)) and str(inner.get("model_type")) not in DECODERS:
                plan.block(name, f"{key}: a value for each layer or part")
                continue
            fill.put(plan, notes, name, inner[key], lines.get((*prefix, key), 0), key, path)
    _family(plan, notes, inner, lines, prefix)
    own = {key: lines.get((*prefix, key), 0) for key in inner}
    _slips(notes, inner, own)
    below = {path[-1]: line for path, line in lines.items() if path[:-1] == (*prefix, "rope_scaling")}
    _ranges(plan, notes, inner, own, below)
    _needs(notes, value, inner, own)
    _classes(plan, notes, inner, own.get("architectures", lines.get(("architectures",), 0)))
    notes.into(plan)
    plan.slips = notes.slips
    fill.derive(plan)
    return plan


SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size")
LLAMA_KEYS = fill.words("llama mistral mixtral qwen2 qwen3 qwen2_moe qwen3_moe gemma gemma2 phi3 olmo olmo2")
"""Model types whose classes read all of ``SIZES``, and have the sizes of one model as defaults."""
OWN_NAMES = fill.words("chatglm opt bloom gpt2 gpt_neo gptj codegen falcon mpt phi t5 bart glm telechat whisper dbrx")
"""Model types that call some size otherwise."""
OTHER_NAMES = {
    "hidden_size": ("d_model", "n_embd", "dim"), "num_hidden_layers": ("num_layers", "n_layer", "n_layers"),
    "num_attention_heads": ("num_heads", "n_head", "n_heads"), "vocab_size": ("padded_vocab_size", "n_vocab"),
    "intermediate_size": ("ffn_hidden_size", "ffn_dim", "n_inner"),
    "num_key_value_heads": ("n_kv_heads", "num_kv_heads"),
}  # fmt: skip


def _most_of(inner: dict[str, Any]) -> bool:
    """Whether a table holds most sizes of a model, so that one that is missing was lost."""
    return sum(key in inner for key in SIZES) >= 3


def _needs(notes: fill.Notes, value: dict[str, Any], inner: dict[str, Any], lines: dict[str, int]) -> None:
    """Sizes without a value, sizes that fall back to those of another model, a type that nobody can look up."""
    for key in (*SIZES, "n_embd", "n_layer", "n_head", "rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps",
                "hidden_act", "activation_function"):  # fmt: skip
        if key in inner and inner[key] is None:
            notes.add("file.empty_keys", key, lines[key])
        elif key in ("hidden_act", "activation_function") and key in inner and not isinstance(inner[key], str):
            notes.add("file.wrong_types", key, lines[key])
    for key in ("torch_dtype", "dtype"):
        if inner.get(key) is not None and not isinstance(inner[key], (str, dict)):
            notes.add("file.wrong_types", key, lines[key])
    own_code = "auto_map" in value
    kind = value.get("model_type")
    first = min([line for line in lines.values() if line] or [1])
    if inner is value and not own_code:
        if "model_type" not in value:
            notes.add("file.lacking_keys", "model_type", lines.get("architectures", first))
        elif not isinstance(kind, str) or not kind:
            notes.add("file.empty_keys", "model_type", lines["model_type"])
        elif kind not in TYPES and (meant := _with_size(kind)):
            notes.add("file.near_values", f"model_type {fill.shown(kind)} ({meant})", lines["model_type"])
    named = value.get("architectures")
    if isinstance(named, list) and not [n for n in named if isinstance(n, str) and n]:
        notes.add("file.empty_keys", "architectures", lines.get("architectures", first))
    lost = [key for key in SIZES if key not in inner]
    if not _most_of(inner) or (str(kind) not in LLAMA_KEYS and len(lost) != 1):
        return
    for key in (*lost, "num_key_value_heads"):
        if key in inner:
            continue
        other = next((name for name in OTHER_NAMES[key] if name in inner), "")
        near = next((name for name in inner if _grown(name, key)), "")
        if near and near not in KEYS:
            notes.add("file.unread_keys", f"{near} ({key})", lines[near])
            continue
        if other and (str(kind) in LLAMA_KEYS or str(kind) not in OWN_NAMES):
            notes.add("file.unread_keys", f"{other} ({key})", lines[other])
        elif any(letters(name) == letters(key) for name in inner):
            continue
        elif key in SIZES and str(kind) in LLAMA_KEYS:
            notes.add("file.lacking_keys", key, lines.get("model_type", first))


def _grown(name: str, key: str) -> bool:
    """Whether a name is a key with a word before it, or with an ``s`` too many or too few."""
    return (
        name.strip().endswith(("_" + key, "." + key))
        or name.strip() == key
        or name.replace("s", "") == key.replace("s", "") != name
    )


def _with_size(kind: str) -> str:
    """The model type behind a path, other case, or a name with a size: ``llama-7b``."""
    last = kind.strip("/").rpartition("/")[2].lower()
    word = last.replace("-", "_")
    for known in (last, word):
        if known in TYPES:
            return known
    return next(
        (t for t in sorted(TYPES, key=len, reverse=True) if re.fullmatch(re.escape(t) + r"_\d+x?\d*[bm]", word)), ""
    )


def _slips(notes: fill.Notes, inner: dict[str, Any], lines: dict[str, int]) -> None:
    """Keys that nothing reads, words and numbers that cannot be meant; models with code of their own have keys of
    their own, so only near misses are told."""
    from doctor.plan.spelling import SHORT, nearest, slip

    known = KEYS.keys() | OTHERS
    own_code = "auto_map" in inner
    plain = str(inner.get("model_type")) in DECODERS and not own_code
    for key in list(inner)[:500]:
        if key in known or len(key) < 6 or key.startswith("_"):
            continue
        # models with code of their own have keys of their own, but not those of all others in another style
        styled = [k for k in KEYS if k not in inner and letters(k) == letters(key)]
        meant = styled[0] if styled else None if own_code else nearest(key, known - inner.keys(), 1)
        if meant:
            notes.add("file.unread_keys", f"{key} ({meant})", lines[key])
            notes.slips.append((lines[key], key, meant))
    for key, words, closed in (
        ("model_type", TYPES, False), ("hidden_act", ACTIVATIONS, plain),
        ("activation_function", ACTIVATIONS, plain), ("torch_dtype", DTYPES, True), ("dtype", DTYPES, True),
        ("scoring_func", ("sigmoid", "softmax", "sqrtsoftplus"), False),
        ("topk_method", ("noaux_tc", "greedy", "group_limited_greedy"), False),
    ):  # fmt: skip
        word = inner.get(key)
        if (
            isinstance(word, str)
            and word.removeprefix("torch.") not in words
            and (closed or not own_code or len(words) < 9)
        ):
            meant = nearest(word.strip().lower(), words, 1, 0.84 if words is TYPES else SHORT)
            if words is TYPES and meant and not slip(word.strip().lower(), meant):
                meant = None
            if meant or word.strip().lower() in words:
                notes.add("file.near_values", f"{key} {fill.shown(word)} ({meant or word.strip().lower()})", lines[key])
            elif closed:
                notes.add("file.unknown_words", f"{key} {fill.shown(word)}", lines[key])
    kinds = inner.get("layer_types")
    for word in sorted({w for w in kinds if isinstance(w, str)} - LAYER_TYPES) if isinstance(kinds, list) else ():
        if plain or nearest(word, LAYER_TYPES, 1, SHORT):
            notes.add("file.unknown_words", f"layer_types {fill.shown(word)}", lines["layer_types"])


def _ranges(plan: Plan, notes: fill.Notes, inner: dict[str, Any], lines: dict[str, int], below: dict[str, int]) -> None:
    """Numbers, switches and special tokens that are out of range or of the wrong type, and the scaling of positions.
    ``below`` are the lines of the keys of ``rope_scaling``."""
    plain = plan.get("model.known")
    for key, limit in limits.HUGGINGFACE.items():
        judged = plain or type(inner.get(key)) in (int, float, str)  # else a switch, or a value for each layer
        if key in inner and KEYS.get(key) not in plan.blocked and judged:
            limits.check(notes, key, inner[key], lines[key], limit if plain else limits.loose(limit))
    for key in ("max_position_embeddings", "n_positions"):
        number = inner.get(key)
        if isinstance(number, (int, float)) and not isinstance(number, bool) and number <= 0:
            notes.add("file.bad_values", f"{key} {fill.shown(number)}", lines[key])
    for key in limits.SWITCHES & inner.keys() if plain else ():
        if isinstance(inner[key], (str, float)):
            notes.add("file.wrong_types", key, lines[key])
    largest = (-1, "")
    for key in TOKENS:
        value = inner.get(key)
        for token in value if isinstance(value, list) else [value]:
            if isinstance(token, bool) or not isinstance(token, (int, type(None))):
                notes.add("file.text_numbers" if fill.is_number_text(token) else "file.wrong_types", key, lines[key])
            elif token is not None and token < -1:
                # -1 is how old configurations write that there is none
                notes.add("file.out_of_range", f"{key} {fill.shown(token)}", lines[key])
            elif token is not None:
                largest = max(largest, (token, key))
    if largest[1]:
        fill.put(plan, notes, "model.largest_token", largest[0], lines[largest[1]], largest[1], plan.file)
    kinds = inner.get("layer_types")
    if isinstance(kinds, list):
        fill.put(plan, notes, "model.layer_kinds", len(kinds), lines["layer_types"], "layer_types", plan.file)
    part = inner.get("partial_rotary_factor", 1.0)
    # of latent attention only a part of its own is turned
    head = plan.get("model.rope_head_dim") or plan.get("model.head_dim") or 0
    hidden, heads = plan.get("model.hidden_size") or 0, plan.get("model.num_heads") or 0
    if not head and hidden > 0 and heads > 0:
        head = hidden // heads
    rotary = int(head * part) if isinstance(part, (int, float)) else 0
    own_code = "auto_map" in inner or not plain
    for key, what in limits.rope_faults(inner.get("rope_scaling"), rotary, own_code):
        notes.add("file.rope_faults", f"{key} {what}" if key != "rope_scaling" else what,
                  below.get(key, lines.get("rope_scaling", 0)))  # fmt: skip


def _classes(plan: Plan, notes: fill.Notes, inner: dict[str, Any], line: int) -> None:
    """The model class against the model type; both are known, and each of another family."""
    from doctor.plan.spelling import nearest

    arch = inner.get("architectures")
    if arch is not None and not isinstance(arch, list):
        notes.add("file.wrong_types", "architectures", line)
    name = arch[0] if isinstance(arch, list) and arch and isinstance(arch[0], str) else ""
    task = _TASK.search(name)
    stem = name[: task.start()] if task and task.end() == len(name) else ""
    own = STEMS.get(plan.get("model.type", ""))
    family = next((kind for kind, stems in STEMS.items() if stem in stems), "")
    if own and family and stem not in own:
        spot = ("set", plan.file, line, "architectures", notes.text(line))
        plan.put("model.arch_family", Value(family, *spot))
    elif own and not family and "auto_map" not in inner:
        known = [s + task for s in own for task in ("ForCausalLM", "LMHeadModel", "Model", "ForConditionalGeneration")]
        meant = nearest(name, known, 2)
        if meant and name not in known:
            notes.add("file.near_values", f"architectures {fill.shown(name)} ({meant})", line)


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
    plan.derive("model.known", kind in DECODERS, f"family {kind or 'not known'}")
    if kind in HEAD_DIMS:
        plan.default("model.head_dim", HEAD_DIMS[kind], f"transformers {kind}")
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
