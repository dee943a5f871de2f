"""config.json of models that are no plain decoders: the keys are the same, what they mean is not."""

import json

import pytest

from doctor import rulebase
from doctor.model import Verdict
from doctor.plan import detect, judge
from doctor.plan.spelling import slip

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 2,
    "intermediate_size": 11008, "vocab_size": 32000,
}  # fmt: skip


@pytest.fixture(scope="module")
def base():
    return rulebase.load()


def said(base, **settings):
    """Rules that a llama with other settings (None: without) breaks, advice left out."""
    text = json.dumps({k: v for k, v in (LLAMA | settings).items() if v is not None}, indent=1)
    plan = detect.read("config.json", text)
    found = judge.judge(plan, base, {})
    return [f.id for f in found if f.verdict is Verdict.FAIL and f.severity != "advice"]


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "glm4_moe", "num_attention_heads": 96},  # head_dim is 128 by its class
        {"model_type": "qwen3_omni_moe_text", "hidden_size": 2048, "num_attention_heads": 28},
        {"model_type": "gemma3n_text", "intermediate_size": [16384, 16384]},  # a width for each layer
        {"model_type": "lxmert", "num_hidden_layers": {"vision": 5, "language": 9}},
        {"model_type": "deepseek_v4", "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512},
        {"model_type": "glm5_next", "head_dim": 0, "qk_rope_head_dim": 0},  # none
        {"model_type": "csm", "vocab_size": 2051, "pad_token_id": 128002},  # audio codes beside a text vocabulary
        {"model_type": "exaone4_5_vision", "hidden_size": 3584, "intermediate_size": 3420, "num_attention_heads": 16},
        {"model_type": "esmc", "hidden_size": 2560, "vocab_size": 64},  # amino acids
        {"model_type": "granitemoehybrid", "num_local_experts": 0, "num_experts_per_tok": 2},  # dense
        {"model_type": "dbrx", "emb_pdrop": 0.0},
        {"model_type": "qwen2_moe", "sliding_window": 0, "use_sliding_window": False},
        {"model_type": "apertus", "hidden_act": "xielu"},
        {"model_type": "pp_doclayout_v2", "layer_types": ["basic", "bottleneck"]},
        {"layer_types": ["indexed_attention", "hybrid_sliding"]},
        {"model_type": "hunyuan_v1_moe", "routed_scaling_factor": False},
        {
            "model_type": "minicpm3",
            "hidden_size": 2560,
            "num_attention_heads": 40,
            "intermediate_size": 6400,
            "qk_rope_head_dim": 32,
            "qk_nope_head_dim": 64,
            "rope_scaling": {"type": "longrope", "long_factor": [1.05] * 16, "short_factor": [1.05] * 16},
        },
        {"model_type": "hunyuan_v1", "rope_scaling": {"rope_type": "xdrope", "alpha": 1000.0}},
    ],
    ids=lambda s: s.get("model_type", "llama"),
)
def test_settings_that_another_model_has_of_its_own_are_no_fault(base, settings):
    assert said(base, **settings) == []


@pytest.mark.parametrize("name", ["deepseek_v4", "gemma3n", "glm4v_moe", "mbart", "ibert", "mllama", "xglm", "vilt"])
def test_a_model_that_is_called_like_another_is_no_slip_of_the_pen(base, name):
    assert said(base, model_type=name) == []


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"num_attention_heads": 30}, "CFG520"),
        ({"intermediate_size": 1376}, "CFG640"),
        ({"eos_token_id": 32000}, "CFG638"),
        ({"num_attention_heads": "thirty"}, "CFG512"),
        ({"layer_types": ["full_atention", "full_attention"]}, "CFG636"),
        ({"model_type": "qwen_2"}, "CFG630"),
    ],
)
def test_the_same_in_a_plain_decoder_is_told(base, settings, rule):
    assert said(base, **settings) == [rule]


@pytest.mark.parametrize(
    ("word", "meant", "is_slip"),
    [
        ("lama", "llama", True), ("lalma", "llama", True), ("llamma", "llama", True), ("qwen-2", "qwen2", True),
        ("mixtal", "mixtral", True), ("pixtral", "mixtral", False), ("deepseek_v4", "deepseek_v3", False),
        ("mllama", "llama", False), ("gemma3n", "gemma3", False),
    ],
)  # fmt: skip
def test_a_slip_of_the_pen_swaps_drops_or_doubles_a_letter_inside(word, meant, is_slip):
    assert slip(word, meant) == is_slip
