"""Notes are judged for the one who reads them, and no finding in them is no health."""

import pytest

from doctor.engine import diagnose
from doctor.plan import families, loose


@pytest.fixture
def given(tmp_path):
    """The report of a text in a file."""

    def report(text, name="notes.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return diagnose([str(path)])

    return report


@pytest.fixture
def rules(given):
    """The rules that find an error or warn."""
    return lambda text, name="notes.yaml": [
        d.rule for d in given(text, name).diagnoses if d.severity in ("error", "warning")
    ]


def plan_of(text):
    return loose.read("x.yaml", text)[0][0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("tensor_parallel_size: 4\nnum_attention_heads: 32\nfoo: bar\nalpha: 3\n", "tensor_parallel_size"),
        ("bf16: true\ndevice: Ascend 910B3\nweird_option: 7\n", "bf16"),
        ("framework: mindyolo\nnc: 80\nper_batch_size: 16\n", "nc"),
    ],
)
def test_without_a_finding_notes_are_unknown_and_name_what_was_judged(given, text, named):
    report = given(text)
    assert (report.verdict, report.diagnoses) == ("unknown", ())
    assert report.inputs[0].state == "not_judged"
    settings = report.inputs[0].why["en"].removeprefix("only these settings could be judged, nothing wrong in them: ")
    assert named in settings.split(", ")


def test_a_few_settings_are_named_of_many(given):
    text = "".join(
        f"{key}: {value}\n"
        for key, value in {
            "num_attention_heads": 32, "hidden_size": 4096, "num_layers": 32, "vocab_size": 32000, "seq_length": 4096,
            "tensor_parallel_size": 4, "bf16": "true", "learning_rate": "1e-5", "weight_decay": 0.1,
            "per_device_train_batch_size": 2, "gradient_accumulation_steps": 4,
        }.items()
    )  # fmt: skip
    why = given(text).inputs[0].why["en"]
    assert why.endswith(" and others") and len(why) < 300


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("engine: vllm\n", []),
        ("framework: Megatron-LM\nmegatron_core: 0.12\nuse_gqa: true\n", ["PAR"]),
    ],
)
def test_key_and_value_heads_depend_on_the_reader(rules, who, expected):
    found = rules(who + "num_attention_heads: 32\nnum_key_value_heads: 4\ntensor_parallel_size: 8\n")
    assert sorted({rule[:3] for rule in found}) == expected, found


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("max_model_len: 8192\ngpu_memory_utilization: 0.9\n", ["vllm"]),
        ("tensor_model_parallel_size: 2\n", ["megatron"]),
        ("zero_optimization: {stage: 2}\n", ["deepspeed"]),
        ("finetuning_type: lora\nlora_target: all\n", ["llamafactory"]),
        ("framework: mindocr\n", ["mindocr"]),
        ("actor: {ppo_mini_batch_size: 8}\n", ["verl"]),
        ("strict_load: true\nnc: 3\n", ["mindyolo"]),
        ("fp16: true\nbf16: false\n", ["trainer"]),
        ("framework: torchtitan\ntensor_parallel_size: 2\n", ["torchtitan"]),
    ],
)
def test_a_reader_is_told_by_its_keys(text, speaks):
    assert plan_of(text + "learning_rate: 0.1\nnum_layers: 2\n").get("notes.speaks") == speaks


@pytest.mark.parametrize(
    ("chip", "soc", "flagged"),
    [("Ascend 910A", "910A", True), ("310P3", "310P3", True), ("Ascend 910B3", "910B3", False), ("910B", None, False)],
)
def test_what_people_call_910b_is_not_the_first_generation(rules, chip, soc, flagged):
    text = f"device: {chip}\nbf16: true\nlearning_rate: 1.0e-5\nnum_layers: 4\n"
    assert loose.read("x.yaml", text)[1].get("npu.soc") == soc
    assert bool(rules(text)) is flagged


@pytest.mark.parametrize(
    "text",
    [
        "eval_strategy: no\nload_best_model_at_end: false\nper_device_train_batch_size: 8\n",
        "device: Ascend 910B3\nmodel: {dtype: bf16}\nvae: {dtype: fp32}\nlearning_rate: 1.0e-5\n",
        "device: Ascend 910A\namp_level: O2\nvae: {dtype: bfloat16}\nlr: 0.0001\n",
        "bf16: true\nloss_scale: 1\nloss_scale_type: static\namp_level: O2\ndtype: bf16\n",
        "train_batch_size: 4\ngradient_accumulation_steps: 4\nmixed_precision: bf16\nnum_processes: 8\n",
        "tensor_parallel_size: auto\nnum_attention_heads: 32\nfp16: auto\nbf16: auto\n",
        "lora_target: all\nmodel_name_or_path: Qwen/Qwen2-7B\nfinetuning_type: lora\n",
        "model: Qwen/Qwen2.5-7B-Instruct\nmax_model_len: 32768\ntensor_parallel_size: 4\n",
        "engine: vllm-ascend\ngpu_memory_utilization: 0.9\nmax_model_len: 8192\nblock_size: 128\n",
    ],
)
def test_sound_settings_are_not_flagged(rules, text):
    assert rules(text) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"fp16": {"enabled": true}, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}',
        '{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 3}',
    ],
)
def test_a_deepspeed_json_is_judged(rules, text):
    assert rules(text, "ds_config.json")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("model: Qwen/Qwen2.5-7B-Instruct\ntensor_parallel_size: 4\nmax_model_len: 4096\n", "model.num_heads", 28),
        ("env: {PYTORCH_NPU_ALLOC_CONF: 'expandable_segments:True'}\nbf16: true\nlr: 0.1\n", "notes.speaks", []),
        ("block_size: 128\nn_embd: 64\nn_head: 4\n", "model.seq_length", 128),
        ("block_size: 128\nmax_model_len: 4096\nnum_layers: 4\n", "model.seq_length", None),
        ("finetuning_type: lora\nquantization_bit: 4\n", "notes.bnb", True),
        ("finetuning_type: lora\nquantization_bit: 4\nquantization_method: hqq\n", "notes.bnb", None),
        ("load_in_8bit: false\nper_device_train_batch_size: 1\n", "notes.bnb", None),
    ],
)
def test_what_a_table_says(text, name, value):
    assert plan_of(text).get(name) == value


def test_a_model_is_known_by_its_name_and_not_by_a_like_one():
    assert families.sizes_of("qwen2.5-7b-instruct") is not None
    assert families.sizes_of("my-own-thing") is None
    assert families.billions("llama-13b-hf") == 13
    assert families.billions("step-12bit") is None


def test_only_variables_say_nothing_of_health(given):
    report = given("env:\n  HCCL_CONNECT_TIMEOUT: '1200'\n  ASCEND_LAUNCH_BLOCKING: '0'\nmodel: x\n")
    assert report.verdict == "unknown"


def test_null_gives_no_stage_other_layers(rules):
    text = "framework: Megatron-LM\nnum_layers: 60\npipeline_model_parallel_size: 8\n{}: {}\n"
    assert rules(text.format("num_layers_in_first_pipeline_stage", "null")) != []
    assert rules(text.format("num_layers_in_first_pipeline_stage", 4)) == []


@pytest.mark.parametrize(("written", "value"), [("1e-3", 1e-3), ("5e-5", 5e-5), ("1.0e-3", 1e-3)])
def test_a_power_of_ten_is_a_number(written, value):
    assert plan_of(f"learning_rate: {written}\nnum_layers: 2\n").get("optimizer.lr") == value


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        ("model: EleutherAI/gpt-j-6B\nlearning_rate: 1e-3\n", True),
        ("model: EleutherAI/gpt-j-6B\nlearning_rate: 1e-3\nlora_rank: 8\n", False),
        ("model: EleutherAI/gpt-j-6B\nlearning_rate: 3e-4\n", False),
        ("model: bert-base\nlearning_rate: 1e-3\n", False),
    ],
)
def test_a_rate_for_adapters_is_too_much_for_a_whole_large_model(rules, text, flagged):
    assert ("CFG713" in rules(text + "per_device_train_batch_size: 1\n")) is flagged


@pytest.mark.parametrize(
    ("text", "gib"),
    [
        ("finetuning_type: full\nbf16: true\nnpus: 1\n", 16.0),
        ("finetuning_type: full\nbf16: true\ndeepspeed: null\n", 16.0),
        ("finetuning_type: full\nbf16: true\n", None),
        ("finetuning_type: full\nbf16: true\nnpus: 8\n", None),
        ("finetuning_type: full\npure_bf16: true\nnpus: 1\n", 8.0),
        ("train_type: full\ntorch_dtype: bfloat16\nnpus: 1\n", 8.0),
        ("finetuning_type: full\ndeepspeed: ds_z3_config.json\nnpus: 8\n", 2.0),
        ("finetuning_type: full\ndeepspeed: ds_z2_config.json\nnpus: 8\n", 2 + 14 / 8),
        ("finetuning_type: full\ndeepspeed: ds_z3_config.json\n", None),
        ("finetuning_type: full\ndeepspeed: ds_z3_config.json\nnpus: 8\nnnodes: 2\n", None),
        ("finetuning_type: full\ndeepspeed: my.json\n", None),
        ("finetuning_type: full\nfsdp: full_shard\n", None),
        ("finetuning_type: full\nuse_badam: true\n", None),
        ("finetuning_type: lora\n", None),
        ("tensor_model_parallel_size: 8\ntrain_type: full\n", None),
    ],
)
def test_what_stays_on_a_device_when_all_weights_are_trained(text, gib):
    found = plan_of(f"model: x-10b\nlearning_rate: 1.0e-5\n{text}").get("notes.states_gib")
    assert found == (None if gib is None else pytest.approx(gib * 10e9 / 2**30))


ZERO = """{
  "train_micro_batch_size_per_gpu": "auto",
  "fp16": {
    "enabled": "auto",
    "loss_scale": 0,
    "loss_scale_window": 1000
  },
  "zero_optimization": {
    "stage": 3
  }
}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ds_z3.json", ZERO),
        ("notes.txt", ZERO),
        ("ds.yaml", "fp16:\n  loss_scale: 0\nzero_optimization:\n  stage: 3\n"),
    ],
)
def test_a_loss_scale_among_settings_is_no_training_line(given, name, text):
    report = given(text, name)
    assert (report.verdict, report.inputs[0].kinds) == ("unknown", ("config",))


def test_the_state_of_a_trainer_stays_training(given):
    step = '    {\n      "loss": NaN,\n      "learning_rate": 1e-05,\n      "step": 1\n    }\n'
    report = given('{\n  "epoch": 1.0,\n  "log_history": [\n' + step + "  ]\n}\n", "trainer_state.json")
    assert report.diagnoses
