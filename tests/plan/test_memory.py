"""Parameters against published sizes, bytes against the papers."""

import json
import re

import pytest

from doctor.plan import detect, hf, memory


def llama(hidden, layers, heads, kv, ffn, vocab, **more):
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": ffn,
        "vocab_size": vocab,
        "max_position_embeddings": 4096,
        **more,
    }


def gpt2(hidden, layers, heads):
    return {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": 1024,
        "vocab_size": 50257,
    }


DEEPSEEK = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "kv_lora_rank": 512}
PUBLISHED = {
    "openai-community/gpt2": (gpt2(768, 12, 12), 124_439_808),
    "openai-community/gpt2-medium": (gpt2(1024, 24, 16), 354_823_168),
    "openai-community/gpt2-large": (gpt2(1280, 36, 20), 774_030_080),
    "openai-community/gpt2-xl": (gpt2(1600, 48, 25), 1_557_611_200),
    "meta-llama/Llama-2-7b-hf": (llama(4096, 32, 32, 32, 11008, 32000), 6_738_415_616),
    "meta-llama/Llama-2-13b-hf": (llama(5120, 40, 40, 40, 13824, 32000), 13_015_864_320),
    "meta-llama/Llama-2-70b-hf": (llama(8192, 80, 64, 8, 28672, 32000), 68_976_648_192),
    "meta-llama/Meta-Llama-3-8B": (llama(4096, 32, 32, 8, 14336, 128256), 8_030_261_248),
    "meta-llama/Meta-Llama-3-70B": (llama(8192, 80, 64, 8, 28672, 128256), 70_553_706_496),
    "meta-llama/Llama-3.2-1B": (llama(2048, 16, 32, 8, 8192, 128256, tie_word_embeddings=True), 1_235_814_400),
    "TinyLlama/TinyLlama-1.1B": (llama(2048, 22, 32, 4, 5632, 32000), 1_100_048_384),
    "01-ai/Yi-6B": (llama(4096, 32, 32, 4, 11008, 64000), 6_061_035_520),
    "mistralai/Mistral-7B-v0.1": (llama(4096, 32, 32, 8, 14336, 32000) | {"model_type": "mistral"}, 7_241_732_096),
    "mistralai/Mixtral-8x7B-v0.1": (
        llama(4096, 32, 32, 8, 14336, 32000, num_local_experts=8, num_experts_per_tok=2) | {"model_type": "mixtral"},
        46_702_792_704,
    ),
    "Qwen/Qwen2-7B": (llama(3584, 28, 28, 4, 18944, 152064) | {"model_type": "qwen2"}, 7_615_616_512),
    "Qwen/Qwen2.5-0.5B": (
        llama(896, 24, 14, 2, 4864, 151936, tie_word_embeddings=True) | {"model_type": "qwen2"},
        494_032_768,
    ),
    "Qwen/Qwen2.5-72B": (llama(8192, 80, 64, 8, 29568, 152064) | {"model_type": "qwen2"}, 72_706_203_648),
    "Qwen/Qwen3-8B": (llama(4096, 36, 32, 8, 12288, 151936, head_dim=128) | {"model_type": "qwen3"}, 8_190_735_360),
    "Qwen/Qwen3-32B": (llama(5120, 64, 64, 8, 25600, 151936, head_dim=128) | {"model_type": "qwen3"}, 32_762_123_264),
    "Qwen/Qwen3-30B-A3B": (
        llama(
            2048,
            48,
            32,
            4,
            6144,
            151936,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        )
        | {"model_type": "qwen3_moe"},
        30_532_122_624,
    ),
    "facebook/opt-125m": (
        {
            "model_type": "opt",
            "hidden_size": 768,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "ffn_dim": 3072,
            "max_position_embeddings": 2048,
            "vocab_size": 50272,
        },
        125_239_296,
    ),
    "bigscience/bloom-7b1": (
        {"model_type": "bloom", "hidden_size": 4096, "n_layer": 30, "n_head": 32, "vocab_size": 250880},
        7_069_016_064,
    ),
    "EleutherAI/pythia-6.9b": (
        {
            "model_type": "gpt_neox",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "intermediate_size": 16384,
            "vocab_size": 50432,
        },
        6_857_302_016,
    ),
    "google/gemma-7b": (llama(3072, 28, 16, 16, 24576, 256000, head_dim=256) | {"model_type": "gemma"}, 8_537_680_896),
    "THUDM/chatglm3-6b": (
        {
            "model_type": "chatglm",
            "architectures": ["ChatGLMModel"],
            "hidden_size": 4096,
            "num_layers": 28,
            "num_attention_heads": 32,
            "multi_query_attention": True,
            "multi_query_group_num": 2,
            "kv_channels": 128,
            "ffn_hidden_size": 13696,
            "padded_vocab_size": 65024,
        },
        6_243_584_000,
    ),
    "microsoft/Phi-3-mini-4k-instruct": (llama(3072, 32, 32, 32, 8192, 32064) | {"model_type": "phi3"}, 3_821_079_552),
    "deepseek-ai/DeepSeek-V3": (
        llama(
            7168,
            61,
            128,
            128,
            18432,
            129280,
            q_lora_rank=1536,
            n_routed_experts=256,
            num_experts_per_tok=8,
            n_shared_experts=1,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
            **DEEPSEEK,
        )
        | {"model_type": "deepseek_v3"},
        671_026_419_200,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": (
        llama(
            2048,
            27,
            16,
            16,
            10944,
            102400,
            n_routed_experts=64,
            num_experts_per_tok=6,
            n_shared_experts=2,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            **DEEPSEEK,
        )
        | {"model_type": "deepseek_v2"},
        15_706_484_224,
    ),
}
"""config.json values and the number of parameters that each model's page on Hugging Face gives; DeepSeek-V3 without its
layer for multi-token prediction, as its paper counts (671B)."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_of_the_published_model(name):
    config, parameters = PUBLISHED[name]
    plan = hf.read("config.json", json.dumps(config))
    assert memory.count(memory.shape_of(plan)).total == parameters


SMALL = memory.Shape(
    1024,
    8,
    16,
    16,
    64,
    4096,
    50304,
    1024,
    False,
    True,
    True,
    True,
    False,
    True,
    False,
    0,
    0,
    0,
    0,
    8,
    0,
    False,
    False,
    0,
    0,
    0,
    0,
    0,
)
PAPER = memory.Settings(batch=4, seq=2048, compute=2, attention_dropout=True, hidden_dropout=True)


@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_activations_of_a_layer_are_those_of_korthikanti(t):
    """Equations 1, 2 and 4 of arXiv 2205.05198."""
    s, b, h, a = 2048, 4, 1024, 16
    plain = memory.layer_activation(SMALL, PAPER._replace(mp=t))
    assert plain == pytest.approx(s * b * h * (10 + 24 / t + 5 * a * s / (h * t)))
    both = memory.layer_activation(SMALL, PAPER._replace(mp=t, sequence=True))
    assert both == pytest.approx(s * b * h / t * (34 + 5 * a * s / h))


def test_selective_recompute_and_flash_attention_drop_the_scores():
    """Equation 6: 34 sbh / t."""
    for change in ({"selective": True}, {"flash": True}):
        assert memory.layer_activation(SMALL, PAPER._replace(**change)) == pytest.approx(2048 * 4 * 1024 * 34)


def test_states_of_mixed_precision_adam_take_sixteen_bytes():
    """Section 3.1 of ZeRO, arXiv 1910.02054: 2 + 2 + 12 bytes per parameter."""
    made = memory.estimate(SMALL, memory.Settings(param=2, grad=2, state=8, master=4))
    assert made.static() == 16 * made.parameters


def test_float32_parameters_with_adam_take_sixteen_bytes_too():
    made = memory.estimate(SMALL, memory.Settings(param=4, grad=4, state=8))
    assert made.static() == 16 * made.parameters


def test_optimizer_parallelism_divides_by_data_parallelism():
    alone, cut = (memory.estimate(SMALL, memory.Settings(dp=8, shard=shard)) for shard in (False, True))
    assert cut.static() == pytest.approx(alone.static() / 8)
    accumulated = memory.estimate(SMALL, memory.Settings(dp=8, shard=True, accumulation=4))
    assert accumulated.static() == pytest.approx((12 / 8 + 4) * alone.parameters)


def test_the_first_stage_holds_as_many_micro_batches_as_stages():
    made = memory.estimate(SMALL, PAPER._replace(pp=4, micro=16))
    kept = [next(row.size for row in rows if row.name == "activations") for rows in made.stages]
    assert kept[0] == pytest.approx(4 * kept[3])
    assert made.layers == (2, 2, 2, 2)


def test_recompute_keeps_one_layer_and_the_inputs():
    made = memory.estimate(SMALL, PAPER._replace(full=True))
    size = next(row.size for row in made.stages[0] if row.name == "activations")
    assert size == pytest.approx(8 * 2 * 2048 * 4 * 1024 + memory.layer_activation(SMALL, PAPER))


def test_every_row_shows_its_arithmetic_and_how_sure_it_is():
    for row in memory.estimate(SMALL, PAPER._replace(dp=2, pp=2, micro=4)).stages[-1]:
        assert row.how and row.sure in ("certain", "likely", "guess")
    assert all(
        row.sure == "guess" for row in memory.estimate(SMALL, PAPER).stages[0] if row.name in ("activations", "logits")
    )


def test_the_nearest_fit_is_the_least_change_that_fits():
    now = PAPER._replace(dp=8, batch=1)
    over = memory.estimate(SMALL, now).total()
    found = memory.nearest_fit(SMALL, now, over - 1)
    assert found is not None and found.changes[0][0] == "model.flash_attention"
    assert found.total <= over - 1
    assert memory.nearest_fit(SMALL, now, 1.0) is None
    deep = memory.nearest_fit(
        SMALL, now._replace(flash=True), memory.estimate(SMALL, now._replace(flash=True)).total() * 0.6
    )
    assert deep is not None and ("parallel.optimizer", True) in deep.changes


REAL = """\
run_mode: train
use_parallel: True
optimizer: {{type: FP32StateAdamWeightDecay}}
parallel: {{parallel_mode: 1, enable_parallel_optimizer: True}}
parallel_config: {{data_parallel: {dp}, model_parallel: 4, pipeline_stage: 8, micro_batch_num: 256,
  use_seq_parallel: True, vocab_emb_dp: False}}
context: {{max_device_memory: "{limit}GB"}}
runner_config: {{batch_size: 1}}
model: {{model_config: {{type: LlamaConfig, hidden_size: 8192, num_layers: 80, num_heads: 64, n_kv_heads: 8,
  vocab_size: 32000,
  ffn_dim_multiplier: 1.3, multiple_of: 256, seq_length: 4096, param_init_type: bfloat16, compute_dtype: bfloat16,
  use_flash_attention: True}}}}
"""


@pytest.mark.parametrize(("dp", "limit"), [(1, 53), (2, 52)])
def test_a_shipped_configuration_for_64_gb_cards_fits(dp, limit):
    """configs/llama2/pretrain_llama2_70b_bf16_{32,64}p.yaml of mindformers 1.3.2, made for 64 GB cards."""
    plan = detect.read("c.yaml", REAL.format(dp=dp, limit=limit))
    assert 0.5 * limit < plan.get("memory.total_gib") < limit


@pytest.mark.parametrize(
    ("key", "size"), [("num_layers", 10**15), ("pipeline_stage", 10**15), ("data_parallel", 10**18)]
)
def test_sizes_beyond_any_model_are_not_counted(key, size):
    text = REAL.format(dp=1, limit=53)
    plan = detect.read("c.yaml", re.sub(rf"{key}: \d+", f"{key}: {size}", text))
    assert plan.get("memory.total_gib") is None


def test_an_incomplete_plan_has_no_estimate():
    assert memory.into(detect.read("c.yaml", "model: {model_config: {type: BloomConfig, hidden_size: 64}}\n")) is None
    plan = detect.read("c.yaml", "run_mode: train\nuse_legacy: False\nmodel: {model_config: {model_type: qwen3}}\n")
    assert plan.get("memory.total_gib") is None
