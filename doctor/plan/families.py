"""What the name of a published model tells: heads, key and value heads, layers and experts, and what its linear layers
are called.

Sizes are those of the ``config.json`` of each model on Hugging Face; names of layers those of its modelling code
(the table of default LoRA modules in the README of LLaMA-Factory up to 0.7 lists them too).
"""

from __future__ import annotations

import re

SIZES: dict[str, tuple[int, int, int, int]] = {
    "qwen2.5-0.5b": (14, 2, 24, 0), "qwen2.5-1.5b": (12, 2, 28, 0), "qwen2.5-3b": (16, 2, 36, 0),
    "qwen2.5-7b": (28, 4, 28, 0), "qwen2.5-14b": (40, 8, 48, 0), "qwen2.5-32b": (40, 8, 64, 0),
    "qwen2.5-72b": (64, 8, 80, 0), "qwen2-7b": (28, 4, 28, 0), "qwen2-72b": (64, 8, 80, 0),
    "qwq-32b": (40, 8, 64, 0),
    "qwen3-0.6b": (16, 8, 28, 0), "qwen3-1.7b": (16, 8, 28, 0), "qwen3-4b": (32, 8, 36, 0),
    "qwen3-8b": (32, 8, 36, 0), "qwen3-14b": (40, 8, 40, 0), "qwen3-32b": (64, 8, 64, 0),
    "qwen3-30b-a3b": (32, 4, 48, 128), "qwen3-235b-a22b": (64, 4, 94, 128),
    "deepseek-r1-distill-qwen-1.5b": (12, 2, 28, 0), "deepseek-r1-distill-qwen-7b": (28, 4, 28, 0),
    "deepseek-r1-distill-qwen-14b": (40, 8, 48, 0), "deepseek-r1-distill-qwen-32b": (40, 8, 64, 0),
    "deepseek-r1-distill-llama-8b": (32, 8, 32, 0), "deepseek-r1-distill-llama-70b": (64, 8, 80, 0),
    "llama-2-7b": (32, 32, 32, 0), "llama-2-13b": (40, 40, 40, 0), "llama-2-70b": (64, 8, 80, 0),
    "llama-3-8b": (32, 8, 32, 0), "llama-3-70b": (64, 8, 80, 0), "llama-3.1-8b": (32, 8, 32, 0),
    "llama-3.1-70b": (64, 8, 80, 0), "llama-3.3-70b": (64, 8, 80, 0),
    "codellama-13b": (40, 40, 40, 0), "codellama-34b": (64, 8, 48, 0),
    "mistral-7b": (32, 8, 32, 0), "glm-4-9b": (32, 2, 40, 0), "chatglm3-6b": (32, 2, 28, 0),
    "yi-6b": (32, 4, 32, 0), "yi-34b": (56, 8, 60, 0),
    "qwen-7b": (32, 32, 32, 0), "qwen-14b": (40, 40, 40, 0), "qwen-72b": (64, 64, 80, 0),
    "qwen1.5-7b": (32, 32, 32, 0), "qwen1.5-14b": (40, 40, 40, 0), "qwen1.5-32b": (40, 8, 64, 0),
    "qwen1.5-72b": (64, 64, 80, 0), "qwen1.5-110b": (64, 8, 80, 0), "qwen2-57b-a14b": (28, 4, 28, 64),
    "qwen3-next-80b-a3b": (16, 2, 48, 512),
    "llama-3.1-405b": (128, 8, 126, 0), "llama-3.2-1b": (32, 8, 16, 0), "llama-3.2-3b": (24, 8, 28, 0),
    "gemma-2-9b": (16, 8, 42, 0), "gemma-2-27b": (32, 16, 46, 0), "gemma-3-4b": (8, 4, 34, 0),
    "gemma-3-12b": (16, 8, 48, 0), "gemma-3-27b": (32, 16, 62, 0),
    "mixtral-8x7b": (32, 8, 32, 8), "phi-4": (40, 10, 40, 0),
    "baichuan2-7b": (32, 32, 32, 0), "baichuan2-13b": (40, 40, 40, 0),
    "internlm2-7b": (32, 8, 32, 0), "internlm2-20b": (48, 8, 48, 0), "internlm2.5-7b": (32, 8, 32, 0),
    "deepseek-v2-lite": (16, 16, 27, 64), "deepseek-v2": (128, 128, 60, 160),
    "deepseek-v3": (128, 128, 61, 256), "deepseek-r1": (128, 128, 61, 256), "deepseek-v3.1": (128, 128, 61, 256),
    "glm-4.5": (96, 8, 92, 160), "glm-4.5-air": (96, 8, 46, 128), "kimi-k2": (64, 64, 61, 384),
}  # fmt: skip
"""(query heads, key and value heads, layers, routed experts) of text models, by name without what says how it was
tuned or quantized."""

_TUNED = re.compile(
    r"(?:[-_](?:instruct|chat|base|hf|it|v\d(?:\.\d)?|int[48]|w8a8|w4a8|w4a4|awq|gptq|fp8|bf16|fp16|thinking|2507"
    r"|0324|0528|0905|mcore|ms))+$"
)


def sizes_of(name: str) -> tuple[int, int, int, int] | None:
    """The sizes of a model by its name in lower case, None if the name is not that of one in the table."""
    name = name.removeprefix("meta-").replace("qwen2___5", "qwen2.5").replace("_", "-")
    return SIZES.get(_TUNED.sub("", name)) or SIZES.get(name)


_LLAMA = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head")
_MODULES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"^chatglm\d?-6b|^glm-4-9b(?:-chat)?(?:-1m)?$",
        ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h", "word_embeddings", "output_layer"),
    ),
    (r"^baichuan2?-(?:7|13)b", ("w_pack", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens", "lm_head")),
    (r"^qwen-(?:1[._]8b|7b|14b|72b)", ("c_attn", "c_proj", "attn.c_proj", "mlp.c_proj", "w1", "w2", "wte", "lm_head")),
    (r"^internlm2", ("wqkv", "wo", "w1", "w2", "w3", "tok_embeddings", "output")),
    (r"^bloomz?-", ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h", "word_embeddings", "lm_head")),
    (
        r"^qwen1\.5-|^qwen2(?:\.5)?-\d|^qwen3-\d|^qwq-32b|^llama-\d|^codellama-|^mistral-7b|^yi-\d",
        (*_LLAMA, "gate"),
    ),
)  # fmt: skip


def modules_of(name: str) -> tuple[str, ...] | None:
    """Names of the linear layers of a model, in lower case, None for a family that is not known."""
    name = name.removeprefix("meta-").replace("qwen2___5", "qwen2.5")
    return next((names for pattern, names in _MODULES if re.search(pattern, name)), None)


_BILLIONS = re.compile(r"(?<![\d.a-z])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z])")


def billions(name: str) -> float | None:
    """10^9 parameters that a name says, all experts counted: 30 of ``qwen3-30b-a3b``."""
    found = _BILLIONS.search(name.replace("_", "-"))
    return float(found[1]) if found else None
