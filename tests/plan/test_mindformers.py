"""MindFormers configurations of 1.x and 2.x become one normal form."""

import pytest

from doctor.plan import detect, mindformers
from doctor.plan.schema import FIELDS

LEGACY = """\
seed: 0
run_mode: 'train'
use_parallel: True
parallel:
  parallel_mode: 1
  full_batch: False
  dataset_strategy: [[*dp, 1], [*dp, 1]]
  enable_parallel_optimizer: True
parallel_config:
  data_parallel: &dp 4
  model_parallel: 2
  pipeline_stage: 2
  micro_batch_num: 8
runner_config:
  batch_size: 3
optimizer:
  type: AdamW
  betas: [0.9, 0.95]
  eps: 1e-8
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-5, total_steps: -1}
model:
  model_config:
    type: LlamaConfig
    hidden_size: 8192
    num_layers: 80
    num_heads: 64
    n_kv_heads: 8
    ffn_dim_multiplier: 1.3
    multiple_of: 256
  arch: {type: LlamaForCausalLM}
callbacks:
  - type: CheckpointMonitor
    save_checkpoint_steps: 500
"""
LEGACY = LEGACY.replace("parallel:\n  parallel_mode", "x: &dp0 4\nparallel:\n  parallel_mode", 1).replace(
    "*dp,", "*dp0,"
)


def plan_of(text, name="c.yaml"):
    plan = detect.read(name, text)
    assert plan is not None
    return plan


def test_a_legacy_file_is_read_with_lines_and_defaults():
    plan = plan_of(LEGACY)
    get = plan.get
    assert get("file.layout") == "legacy"
    assert (get("parallel.dp"), get("parallel.mp"), get("parallel.pp"), get("parallel.product")) == (4, 2, 2, 16)
    assert get("batch.global_size") == 3 * 4 * 8
    assert (get("model.ffn_size"), get("model.head_dim"), get("model.kv_heads")) == (28672, 128, 8)
    assert (get("optimizer.beta1"), get("optimizer.beta2")) == (0.9, 0.95)
    assert get("schedule.lr") == 1e-5
    assert (get("checkpoint.interval"), get("checkpoint.keep")) == (500, 5)
    assert (get("parallel.strategy_rows"), get("parallel.strategy_batch")) == (2, 4)
    value = plan.values["model.num_heads"]
    assert LEGACY.splitlines()[value.line - 1].strip() == "num_heads: 64"
    assert (value.origin, value.file, value.key) == ("set", "c.yaml", "num_heads")
    assert plan.values["precision.compute"].origin == "default"
    assert "LlamaConfig" in plan.values["precision.compute"].whose
    assert plan.values["checkpoint.keep"].whose == "MindFormers CheckpointMonitor"


def test_text_that_looks_like_a_number_is_not_one():
    plan = plan_of(LEGACY)
    assert plan.get("file.text_numbers") == ["eps"]
    assert "optimizer.eps" in plan.blocked
    assert plan.get("optimizer.eps") is None


def test_the_mcore_layout_uses_the_names_of_hugging_face():
    plan = plan_of(
        "use_legacy: False\nrun_mode: train\nmodel:\n  model_config:\n    model_type: qwen3\n    hidden_size: 5120\n"
        "    num_attention_heads: 64\n    num_key_value_heads: 8\n    head_dim: 128\n    offset: [-1, -1, 1, 1]\n"
        "    untie_embeddings_and_output_weights: True\n    params_dtype: fp32\nparallel_config: {pipeline_stage: 4}\n"
    )
    get = plan.get
    assert get("file.layout") == "mcore"
    assert (get("model.num_heads"), get("model.kv_heads"), get("model.head_dim")) == (64, 8, 128)
    assert (get("model.offset_sum"), get("model.offset_length")) == (0, 4)
    assert get("model.tied") is False
    assert get("precision.params") == "float32"
    assert get("precision.compute") == "bfloat16"
    assert "model.vocab_size" in plan.blocked


def test_the_pynative_layout_has_its_own_sections():
    plan = plan_of(
        "training: {steps: 300, local_batch_size: 2, global_batch_size: 16}\nmodel: {model_type: deepseek_v3, "
        "num_attention_heads: 8}\nparallelism: {data_parallel_shard: -1, tensor_parallel: 2, sequence_parallel: True}\n"
        "recompute: {mode: full}\nlr_scheduler: {type: ConstantWarmUpLR, learning_rate: 1.e-5}\n"
    )
    get = plan.get
    assert get("file.layout") == "pynative"
    assert (get("batch.size"), get("batch.written_global"), get("parallel.mp")) == (2, 16, 2)
    assert get("recompute.full") is True
    assert get("checkpoint.interval") == 1000
    assert "parallel.dp" in plan.blocked


def test_a_base_file_gives_what_the_file_leaves_out(tmp_path):
    (tmp_path / "base.yaml").write_text("run_mode: train\nrunner_config:\n  batch_size: 8\n  epochs: 3\n")
    top = tmp_path / "top.yaml"
    top.write_text(
        "base_config: ./base.yaml\nmodel: {model_config: {type: LlamaConfig}}\nrunner_config:\n  batch_size: 2\n"
    )
    plan = detect.read(str(top))
    assert (plan.get("batch.size"), plan.get("batch.epochs"), plan.get("run.mode")) == (2, 3, "train")
    assert plan.values["batch.epochs"].file.endswith("base.yaml")
    assert plan.values["batch.epochs"].line == 4
    assert len(plan.files) == 2


def test_bases_in_a_circle_end(tmp_path):
    (tmp_path / "a.yaml").write_text("base_config: b.yaml\nrun_mode: train\nrunner_config: {epochs: 1}\n")
    (tmp_path / "b.yaml").write_text("base_config: a.yaml\nseed: 3\n")
    plan = detect.read(str(tmp_path / "a.yaml"))
    assert plan.get("run.seed") == 3
    assert any(t.code == "base_loop" for t in plan.troubles)


def test_a_missing_base_is_the_problem_of_the_line_that_names_it(tmp_path):
    top = tmp_path / "top.yaml"
    top.write_text("seed: 1\nbase_config: none.yaml\nmodel: {model_config: {type: LlamaConfig}}\n")
    plan = detect.read(str(top))
    assert plan.get("file.problem") == "base_unreadable"
    assert plan.values["file.problem"].line == 2


def test_the_shape_comes_from_config_json_where_the_file_says_so(tmp_path):
    folder = tmp_path / "weights"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,\n'
        '"num_key_value_heads": 8, "intermediate_size": 12288, "vocab_size": 151936, "head_dim": 128}'
    )
    top = tmp_path / "top.yaml"
    top.write_text(
        "use_legacy: False\npretrained_model_dir: weights\n"
        "model: {model_config: {num_hidden_layers: 4, seq_length: 4096}}\n"
    )
    plan = detect.read(str(top))
    assert plan.get("model.num_heads") == 32
    assert plan.values["model.num_heads"].file.endswith("config.json")
    assert plan.get("model.num_layers") == 4, "the file itself wins"
    assert plan.get("memory.parameters") is not None
    top.write_text("use_legacy: False\npretrained_model_dir: /no/such\nmodel: {model_config: {seq_length: 4096}}\n")
    assert "config.json" in detect.read(str(top)).blocked["model.num_heads"]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("parallel_config: {data_paralel: 2}\n", "file.unknown_keys", ["parallel_config.data_paralel"]),
        (
            "optimizer: {type: AdamW, weight_deacy: 0.1}\n",
            "file.unread_keys",
            ["optimizer.weight_deacy (weight_decay)"],
        ),
        ("runer_config: {epochs: 1}\n", "file.unread_keys", ["runer_config (runner_config)"]),
        ("optimizer: {type: Adamw}\n", "file.near_types", ["Adamw (AdamW)"]),
        ("use_parallel: Flase\n", "file.wrong_types", ["use_parallel"]),
        ("model_parallel: 4\n", "file.misplaced_keys", ["model_parallel (parallel_config)"]),
        ("amp_level: O1\n", "file.unread_keys", ["amp_level (compute_dtype)"]),
        ("my_own: {anything: 1}\n", "file.unread_keys", []),
        ("recompute_config: {recompute: [2, 0]}\n", "recompute.layers", 2),
        ("recompute_config: {recompute: [2, 0]}\n", "recompute.entries", 2),
        ("runner_wrapper: {type: MFTrainOneStepCell, scale_sense: 1.0}\n", "precision.loss_scale_dynamic", False),
        ("parallel: {parallel_mode: semi_auto_parallel}\n", "parallel.mode", "semi_auto"),
        ("callbacks: [{type: CheckpointMonitor, enc_key: abc}]\n", "checkpoint.enc_key_length", 3),
        ("context: {max_device_memory: 58GB}\n", "context.memory_gib", 58.0),
        ("resume_training: 'step_100.ckpt'\n", "checkpoint.resume", True),
    ],
)
def test_single_settings(text, name, value):
    plan = plan_of("model: {model_config: {type: LlamaConfig}}\n" + text)
    assert plan.get(name) == value


def test_latent_attention_of_a_class_of_the_users_own():
    """Legacy files of DeepSeek do not say multi_latent_attention and register their classes themselves."""
    plan = plan_of(
        "model:\n  model_config: {type: DeepseekV2Config, auto_register: a.B, hidden_size: 5120, num_heads: 128, "
        "kv_lora_rank: 512, use_flash_attention: True, num_kv_heads: 128, dropout_probs: 0.1}\n"
        "  arch: {type: DeepseekV2ForCausalLM, auto_register: a.C}\n"
    )
    assert plan.get("model.mla") is True
    assert plan.get("model.head_dim") is None, "5120 / 128 = 40 is no head of latent attention"
    assert plan.get("file.foreign_types") == []
    assert plan.get("file.unread_keys") == []


def test_only_declared_names_exist():
    plan = plan_of(LEGACY)
    assert all("plan." + name in FIELDS for name in plan.values)
    with pytest.raises(KeyError):
        plan.get("model.hiden")


def test_other_yaml_is_no_plan():
    assert detect.read("c.yaml", "a: 1\nb: [1, 2]\n") is None
    assert detect.read("c.yaml", "- 1\n- 2\n") is None
    assert detect.read("c.yaml", "version: 2\njobs:\n\tbuild: x\n") is None


def test_a_plan_is_plain_data():
    import json

    text = json.dumps(plan_of(LEGACY).to_json())
    assert '"model.num_heads"' in text and '"line"' in text


def test_every_key_table_names_declared_values():
    tables = (mindformers.MODEL, mindformers.PLACES, mindformers.PYNATIVE)
    assert all("plan." + name in FIELDS for table in tables for name in table.values())
    defaults = (
        mindformers.DEFAULTS,
        mindformers.MCORE_DEFAULTS,
        mindformers.PYNATIVE_DEFAULTS,
        *mindformers.CLASS_DEFAULTS.values(),
    )
    assert all("plan." + name in FIELDS for table in defaults for name in table)


HUGE = ["1e400", ".inf", ".nan", "9" * 400, "0x" + "f" * 5000, "-0x" + "f" * 5000, "9" * 6000]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "place",
    [
        "parallel_config: {model_parallel: %s}",
        "optimizer: {eps: %s}",
        "use_parallel: %s",
        "recompute_config: {recompute: %s}",
        "callbacks: [{type: CheckpointMonitor, save_checkpoint_steps: %s}]",
        "model: {model_config: {type: LlamaConfig, offset: [%s], a: {type: b, hidden_size: %s}}}",
        "optimizer: {%s: 1}",
    ],
)
def test_numbers_out_of_all_range_are_said_and_never_raise(number, place):
    text = "seed: 1\ntrainer: {type: X}\nrunner_config: {epochs: 1}\n" + place.replace("%s", number) + "\n"
    plan = plan_of(text)
    plan.to_json()
    assert plan.get("parallel.mp") in (None, 1)
