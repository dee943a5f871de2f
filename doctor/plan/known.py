"""Sizes of published models, to notice a shape that is one slip away from one of them.

From the config.json of each model on Hugging Face: hidden size, layers, heads, key and value heads, inner width,
vocabulary.
"""

from __future__ import annotations

from doctor.plan.schema import Plan, Value

KNOWN: dict[str, tuple[int, int, int, int, int, int]] = {
    "GPT-2": (768, 12, 12, 12, 3072, 50257),
    "GPT-2 medium": (1024, 24, 16, 16, 4096, 50257),
    "GPT-2 large": (1280, 36, 20, 20, 5120, 50257),
    "GPT-2 XL": (1600, 48, 25, 25, 6400, 50257),
    "Llama 2 7B": (4096, 32, 32, 32, 11008, 32000),
    "Llama 2 13B": (5120, 40, 40, 40, 13824, 32000),
    "Llama 2 70B": (8192, 80, 64, 8, 28672, 32000),
    "Llama 3 8B": (4096, 32, 32, 8, 14336, 128256),
    "Llama 3 70B": (8192, 80, 64, 8, 28672, 128256),
    "Code Llama 34B": (8192, 48, 64, 8, 22016, 32000),
    "Mistral 7B": (4096, 32, 32, 8, 14336, 32000),
    "ChatGLM3 6B": (4096, 28, 32, 2, 13696, 65024),
    "GLM-4 9B": (4096, 40, 32, 2, 13696, 151552),
    "Qwen2 7B": (3584, 28, 28, 4, 18944, 152064),
    "Qwen2.5 72B": (8192, 80, 64, 8, 29568, 152064),
    "Qwen3 8B": (4096, 36, 32, 8, 12288, 151936),
    "Qwen3 32B": (5120, 64, 64, 8, 25600, 151936),
    "Yi 6B": (4096, 32, 32, 4, 11008, 64000),
}
NAMES = ("hidden_size", "num_layers", "num_heads", "kv_heads", "ffn_size", "vocab_size")
TELLING = ("hidden_size", "num_heads", "kv_heads", "ffn_size")
"""A different vocabulary or fewer layers are usually meant."""


def into(plan: Plan) -> None:
    """Note the published model from which one telling size differs."""
    have = tuple(plan.get("model." + name) for name in NAMES)
    if None in have or have in KNOWN.values():
        return
    for model, sizes in KNOWN.items():
        differing = [n for n, a, b in zip(NAMES, have, sizes, strict=True) if a != b]
        if len(differing) == 1 and differing[0] in TELLING:
            name = differing[0]
            value = plan.values["model." + name]
            right = sizes[NAMES.index(name)]
            spot = value._replace(value=model) if value.origin == "set" else Value(model, "derived", whose=value.whose)
            plan.values["model.near_known"] = spot
            plan.values["model.near_difference"] = spot._replace(value=f"{name} {value.value} ≠ {right}")
            return
