"""Ranges, closed words, scaling of positions, and options that belong together."""

import json
import time
from pathlib import Path

import pytest

from doctor.plan import detect, limits, megatron

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
SCRIPT = (CONFIGS / "megatron_16p.sh").read_text()


def hf(**changed):
    """A plan of a small config.json with some keys changed; None takes one away."""
    keys = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_attention_heads": 32,
        "num_hidden_layers": 32, "intermediate_size": 11008, "vocab_size": 32000,
    } | changed  # fmt: skip
    return detect.read("config.json", json.dumps(keys, indent=1))


def script(old, new):
    assert old in SCRIPT, old
    return detect.read("train.sh", SCRIPT.replace(old, new, 1))


def yaml(text):
    return detect.read("c.yaml", "model: {model_config: {type: LlamaConfig}}\n" + text)


@pytest.mark.parametrize(
    ("scaling", "faults"),
    [
        (None, 0),
        ({"rope_type": "default"}, 0),
        ({"type": "linear", "factor": 2}, 0),
        ({"type": "linear"}, 1),
        ({"factor": 2.0}, 1),
        ({"type": "linear", "factor": 0.5}, 1),
        ({"type": "linear", "factor": "2"}, 1),
        ({"type": "stretched", "factor": 2.0}, 1),
        ({"rope_type": "llama3", "factor": 8.0}, 3),
        ({"type": "yarn", "factor": 4.0, "beta_fast": 1, "beta_slow": 32}, 1),
        ({"type": "longrope", "short_factor": [1.0] * 64, "long_factor": [1.0] * 64}, 0),
        ({"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [1.0] * 64}, 1),
        ("yarn", 1),
    ],
)
def test_a_scaling_of_positions_has_what_its_kind_needs(scaling, faults):
    assert len(limits.rope_faults(scaling, 128, own_code=False)) == faults


def test_a_model_with_its_own_code_may_have_its_own_kind_of_scaling_but_no_slip():
    assert limits.rope_faults({"type": "stretched"}, 0, own_code=True) == []
    assert limits.rope_faults({"type": "yarnn"}, 0, own_code=True)


def test_a_fault_of_the_scaling_stands_at_its_line():
    plan = hf(rope_scaling={"type": "linear", "factor": -2.0})
    value = plan.values["file.rope_faults"]
    assert value.value == ["factor -2.0 out of range"]
    assert value.spots[0][1].strip() == '"factor": -2.0'


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("rope_theta", "1e6", "text_numbers"),
        ("rope_theta", 0, "out_of_range"),
        ("initializer_range", -0.02, "out_of_range"),
        ("eos_token_id", "</s>", "wrong_types"),
        ("eos_token_id", [2, "3"], "text_numbers"),
        ("pad_token_id", -7, "out_of_range"),
        ("use_cache", "true", "wrong_types"),
        ("architectures", "LlamaForCausalLM", "wrong_types"),
        ("torch_dtype", "bf16", "unknown_words"),
        ("torch_dtype", "bfloat61", "unknown_words"),
        ("hidden_act", "smooth", "unknown_words"),
        ("architectures", ["LlamaForCasualLM"], "near_values"),
    ],
)
def test_a_wrong_value_of_config_json_is_noted_with_its_key(key, value, where):
    plan = hf(**{key: value})
    (found,) = plan.get("file." + where)
    assert found.split()[0] == key
    assert plan.values["file." + where].spots[0][1].strip().startswith(f'"{key}"')


def test_what_is_usual_or_unknown_is_not_noted():
    plan = hf(pad_token_id=-1, sliding_window=None, torch_dtype="bfloat16", eos_token_id=[2, 31999], my_own_key="x",
              architectures=["MyOwnForCausalLM"])  # fmt: skip
    assert all(not plan.get(f"file.{name}") for name in ("out_of_range", "wrong_types", "unknown_words", "near_values"))
    assert plan.get("model.largest_token") == 31999
    assert "model.arch_family" not in plan.values


def test_a_class_of_another_family_is_told():
    assert hf(architectures=["Qwen2ForCausalLM"]).get("model.arch_family") == "qwen2"


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("--log-interval 1", "--log-interval 0", "out_of_range", "--log-interval 0"),
        ("--lr-decay-style cosine", "--lr-decay-style steps", "unknown_words", "--lr-decay-style steps"),
        ("--num-layers 32", "-num-layers 32 --num-layers 32", "broken_options", "-num-layers (--num-layers)"),
        ("--num-layers 32", "-- num-layers 32 --num-layers 32", "broken_options", "-- num-layers (--num-layers)"),
        ("--clip-grad 1.0", "--clip-grad", "broken_options", "--clip-grad"),
        ("--bf16", "--bf16 --train-samples 10", "conflicts", "--train-iters"),
        ("--bf16", "--bf16 --recompute-granularity full", "lacking_options",
         "--recompute-granularity full (--recompute-method)"),
        ("NNODES=2", "NNODES=0", "out_of_range", "nnodes 0"),
        ("NNODES=2", "NNODES = 2", "unset_names", "NNODES ="),
        ("NNODES=2", "NNODE=2", "unset_names", "NNODES (NNODE)"),
        ("--bf16", "--bf16 --split all", "wrong_types", "--split"),
        ("--bf16", "--bf16 --split 0,0,0", "out_of_range", "--split 0,0,0"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_noted(old, new, where, what):
    if old not in SCRIPT:
        new, old = "--bf16 " + new, "--bf16"
    assert what in script(old, new).get("file." + where)


@pytest.mark.parametrize(
    "more",
    [
        "--split 949,50,1",
        "--split 949:50:1",
        "--split 949,50",
        "--nnodes 1:4",
        "--eval-iters 0",
        "--my-option x",
        "--lr -1e-5",
    ],
)
def test_sound_or_foreign_options_are_not_noted(more):
    plan = script("--bf16", "--bf16 " + more)
    assert not plan.get("file.out_of_range") and not plan.get("file.broken_options") and not plan.get("file.conflicts")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A='x'\nB=\"y z\"\n", 0),
        ("# it's a comment\nA=1\n", 0),
        ('A="\n  --x 1\n\nB="\n  --y\n"\n', 1),
        ('A="\n  --x 1\n"\nB="\n  --y\n', 4),
        ("echo 'abc\n", 1),
        ('A="it\'s \\" fine"\n', 0),
    ],
)
def test_the_quote_that_lacks_its_end_is_the_one_that_opened_first(text, line):
    assert megatron.open_quote(text) == line


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("model: {model_config: {type: LlamaConfig, theta: 1e6}}", "text_numbers", ["theta"]),
        ("model: {model_config: {type: LlamaConfig, theta: -1.0}}", "out_of_range", ["theta -1.0"]),
        ("train_dataset: {data_loader: {shuffle: maybe}}", "wrong_types", ["shuffle"]),
        ("optimizer: 3", "wrong_types", ["optimizer"]),
        ("resume_training: 2.5", "wrong_types", ["resume_training"]),
        ("runner_wrapper: {use_clip_grad: 1.0}", "wrong_types", ["use_clip_grad"]),
        ("train_dataset: {batch_size: 2.0}", "wrong_types", ["batch_size"]),
        ("parallel: {search_mode: quick}", "unknown_words", ["search_mode quick"]),
        ("callbacks: [{type: CheckpointMonitor, prfix: a}]", "unread_keys", ["callbacks.prfix (prefix)"]),
        ("moe_config: {expert_num: 1, num_experts_chosen: 1}", "out_of_range", []),
        ("resume_training: llama_rank_0-1_2.ckpt", "wrong_types", []),
        ("seed: ${SEED}", "wrong_types", ["seed"]),
        ("model: {model_config: {type: LlamaConfig, extend_method: stretch}}", "unknown_words",
         ["extend_method stretch"]),
        ("model: {model_config: {type: MyOwnConfig, extend_method: stretch}}", "unknown_words", []),
    ],
)  # fmt: skip
def test_types_and_ranges_of_yaml_keys(text, where, what):
    plan = detect.read("c.yaml", text + "\nparallel_config: {}\nrunner_config: {}\n")
    assert plan.get("file." + where) == what


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ('["input_ids", "labels"]', None),
        ('["input_ids", "attention_mask", "labels"]', None),
        ('["image", "label"]', None),
        ('["labels", "input_ids"]', "labels before input_ids"),
        ('["input_ids", "input_ids"]', "twice: input_ids"),
        ('["input_id", "labels"]', "input_id (input_ids)"),
    ],
)
def test_columns_stand_in_the_order_of_the_inputs(columns, fault):
    plan = yaml(f"run_mode: train\ntrain_dataset: {{input_columns: {columns}}}\nrunner_config: {{}}\n")
    assert plan.get("data.columns_fault") == fault


def test_a_hostile_script_is_read_in_time():
    names = "".join(f"V{n}X=1\n" for n in range(3000)) + "".join(f"W{n} = 2\n" for n in range(3000))
    used = " ".join(f"--num-layers $V{n}" for n in range(3000))
    text = names + "'\n" * 3001 + f"torchrun x.py --hidden-size 8 --micro-batch-size 1 --seq-length 4 {used}\n"
    started = time.process_time()
    detect.read("train.sh", text)
    detect.read("train.sh", names + f"torchrun x.py --hidden-size 8 --micro-batch-size 1 {used}\n")
    assert time.process_time() - started < 5


def test_keys_and_classes_of_code_of_ones_own_are_not_taken_for_slips():
    text = "model: {model_config: {type: IFlytekSparkConfig, compute_type: x}}\noptimizer: {type: AdamWeightDecayX}\n"
    plan = detect.read("c.yaml", text)
    assert plan.get("file.unread_keys") == [] and plan.get("file.near_types") == []
