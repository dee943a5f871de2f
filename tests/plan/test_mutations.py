"""Healthy configurations are quiet, and one wrong value in them is found, first and with its line."""

import json
import re
from pathlib import Path

import pytest

from doctor import checkup, rulebase
from doctor.model import CONFIDENCES, SEVERITIES, Verdict
from doctor.plan import detect, judge

FOLDER = Path(__file__).parents[2] / "fixtures" / "configs"
FILES = sorted(p.name for p in FOLDER.iterdir())
FACTS = {
    "version.mindspore": "2.7.0",
    "version.mindformers": "1.6.0",
    "host.cores": 192,
    "npu.hbm_gib": 64.0,
    "npu.soc": "910B3",
}


@pytest.fixture(scope="module")
def base():
    return rulebase.load()


def failures(base, name, text):
    """Failed findings as a report orders them."""
    plan = detect.read(name, text)
    found = judge.judge(plan, base, FACTS)
    assert not [f for f in found if f.verdict is Verdict.CRASH]
    failed = [f for f in found if f.verdict is Verdict.FAIL]
    return sorted(
        failed, key=lambda f: (SEVERITIES.index(f.severity), CONFIDENCES.index(f.confidence), -base[f.id].priority)
    )


@pytest.mark.parametrize("name", FILES)
def test_a_healthy_configuration_is_quiet(base, name):
    text = (FOLDER / name).read_text()
    assert [(f.id, f.severity) for f in failures(base, name, text) if f.severity != "advice"] == []


def changed(text, key, value):
    """(text, line) with the first ``key`` set to ``value``; the anchor stays."""
    found = re.search(rf"(?m)(^|[\s{{,-]){re.escape(key)}[:= ]\s*(&\w+\s+)?([^\s,}}\]#]+)", text)
    assert found, key
    return text[: found.start(3)] + value + text[found.end(3) :], text.count("\n", 0, found.start(3)) + 1


LLAMA, GPT2, QWEN, PYNATIVE, MEGATRON = (
    "llama2_7b_8p.yaml", "gpt2_1p.yaml", "qwen3_32b_16p.yaml", "pynative_8p.yaml", "megatron_16p.sh",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "key", "value", "rule"),
    [
        (LLAMA, "num_heads", "31", "CFG520"),
        (LLAMA, "num_heads", "0", "CFG602"),
        (LLAMA, "hidden_size", "4100", "CFG520"),
        (LLAMA, "model_parallel", "3", "PAR510"),
        (LLAMA, "model_parallel", "0", "PAR503"),
        (LLAMA, "data_parallel", "-1", "PAR502"),
        (LLAMA, "pipeline_stage", "4", "PAR516"),
        (LLAMA, "learning_rate", "3e-4", "CFG511"),
        (LLAMA, "learning_rate", "0.3", "CFG561"),
        (LLAMA, "learning_rate", "0.0", "CFG560"),
        (LLAMA, "lr_end", "0.1", "CFG563"),
        (LLAMA, "warmup_ratio", "3", "CFG565"),
        (LLAMA, "eps", "1e-8", "CFG511"),
        (LLAMA, "beta2", "1.95", "CFG568"),
        (LLAMA, "weight_decay", "-0.1", "CFG571"),
        (LLAMA, "compute_dtype", '"bf61"', "CFG531"),
        (LLAMA, "param_init_type", '"fp32"', "CFG532"),
        (LLAMA, "rms_norm_eps", "0.1", "CFG527"),
        (LLAMA, "max_device_memory", '"58G"', "CFG545"),
        (LLAMA, "max_device_memory", '"64GB"', "CFG546"),
        (LLAMA, "memory_optimize_level", '"O2"', "CFG547"),
        (LLAMA, "jit_level", '"O5"', "CFG548"),
        (LLAMA, "mode", "3", "CFG543"),
        (LLAMA, "device_target", '"NPU"', "CFG544"),
        (LLAMA, "run_mode", "'tarin'", "CFG553"),
        (LLAMA, "batch_size", "0", "CFG574"),
        (LLAMA, "batch_size", "512", "CFG576"),
        (LLAMA, "num_parallel_workers", "256", "CFG578"),
        (LLAMA, "drop_remainder", "False", "CFG579"),
        (LLAMA, "sink_size", "0", "CFG608"),
        (LLAMA, "parallel_mode", "8", "PAR536"),
        (LLAMA, "resume_training", "True", "CFG596"),
        (LLAMA, "type", "CausalLanguageModelingTrainr", "CFG513"),
        (LLAMA, "enable_parallel_optimizer", "Flase", "CFG512"),
        (GPT2, "scale_factor", "1", "CFG540"),
        (GPT2, "hidden_dropout_rate", "1.0", "CFG528"),
        (GPT2, "hidden_dropout_rate", "0.9", "CFG530"),
        (GPT2, "seq_length", "1024\n    max_position_embeddings: 512", "CFG523"),
        (QWEN, "micro_batch_num", "2", "PAR516"),
        (QWEN, "data_parallel", "0", "PAR502"),
        (QWEN, "num_key_value_heads", "7", "CFG521"),
        (QWEN, "head_dim", "100", "CFG522"),
        (QWEN, "offset", "[1, 1]", "PAR520"),
        (QWEN, "precision_mode", '"keep"', "CFG550"),
        (QWEN, "load_ckpt_format", "'bin'", "CFG594"),
        (QWEN, "checkpoint_format", '"pt"', "CFG593"),
        (QWEN, "attention_dropout", "1.0", "CFG529"),
        (QWEN, "gradient_accumulation_steps", "8", "CFG582"),
        (QWEN, "model_parallel", "1", "PAR522"),
        (PYNATIVE, "sequence_parallel", "False", "PAR546"),
        (PYNATIVE, "global_batch_size", "18", "PAR547"),
        (PYNATIVE, "tensor_parallel", "3", "PAR510"),
        (MEGATRON, "--num-attention-heads", "33", "CFG520"),
        (MEGATRON, "--global-batch-size", "255", "PAR547"),
        (MEGATRON, "--lr", "3.0", "CFG561"),
        (MEGATRON, "--adam-beta2", "2", "CFG568"),
        (MEGATRON, "TP", "3", "PAR552"),
        (MEGATRON, "NNODES", "3", "PAR547"),
        (MEGATRON, "--num-layers", "31", "PAR557"),
    ],
)  # fmt: skip
def test_one_wrong_value_is_found_first_with_its_line(base, name, key, value, rule):
    text, line = changed((FOLDER / name).read_text(), key, value)
    found = failures(base, name, text)
    assert found, "nothing found"
    assert found[0].id == rule, [(f.id, f.title["en"]) for f in found]
    assert line in [e.line for e in found[0].evidence]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("  hidden_size:", "  hiden_size:", "CFG509"),
        ("  data_parallel:", "  data_paralel:", "CFG508"),
        ("runner_wrapper:", "runer_wrapper:", "CFG509"),
        ("\n  mode: 0", "\n\tmode: 0", "CFG501"),
        ("seed: 0\n", "seed: 0\nseed: 1\n", "CFG505"),
        ("\nrunner_config:", "\n---\nrunner_config:", "CFG502"),
        ("prefix: \"llama2_7b\"", "prefix: \"llama2_7b", "CFG503"),
        ("epochs: 2", "epochs 2", "CFG503"),
        ('["input_ids", "labels"]', '["input_ids", "labels"', "CFG503"),
    ],
)  # fmt: skip
def test_one_slip_of_the_pen_is_found_first_with_its_line(base, old, new, rule):
    text = (FOLDER / LLAMA).read_text()
    assert old in text
    wrong = text.replace(old, new, 1)
    line = wrong.count("\n", 0, next(n for n, (a, b) in enumerate(zip(text, wrong, strict=False)) if a != b)) + 1
    if rule == "CFG502":
        line = wrong[: wrong.index("---")].count("\n") + 1
    found = failures(base, LLAMA, wrong)
    assert found[0].id == rule, [(f.id, f.title["en"]) for f in found]
    assert line in [e.line for e in found[0].evidence]


@pytest.mark.parametrize(
    ("name", "old", "new", "rule"),
    [
        ("llama2_7b_8p.yaml", "  hidden_size:", "  hiden_size:", "CFG509"),
        ("qwen3_32b_16p.yaml", "  micro_batch_num:", "  micro_batch_nun:", "CFG508"),
        ("qwen3_32b_16p.yaml", "\nparallel_config:", "\nparalel_config:", "CFG509"),
        ("llama2_7b_8p.yaml", "type: LlamaConfig", "type: LlamConfig", "CFG513"),
    ],
)
def test_what_a_slip_breaks_stands_below_it(base, name, old, new, rule):
    text = (FOLDER / name).read_text()
    assert old in text
    findings = judge.judge(detect.read(name, text.replace(old, new, 1)), base, FACTS)
    head = checkup.diagnose(base, findings)[0]
    assert head.rule == rule, head.rule
    below = [findings[n] for n in head.consequences]
    assert all(SEVERITIES.index(head.severity) <= SEVERITIES.index(f.severity) for f in below)
    right = {f.id for f in judge.judge(detect.read(name, text), base, FACTS) if f.verdict is Verdict.FAIL}
    assert not {f.id for f in below if f.because} & right


def test_a_fault_of_its_own_does_not_hide_below_a_slip(base):
    text = (FOLDER / LLAMA).read_text().replace("  hidden_size:", "  hiden_size:", 1)
    text = changed(text, "epochs", "0")[0]
    findings = judge.judge(detect.read(LLAMA, text), base, FACTS)
    heads = [d.rule for d in checkup.diagnose(base, findings)]
    assert "CFG575" in heads and "CFG509" in heads


def test_of_several_values_the_suspect_comes_first(base):
    text, line = changed((FOLDER / LLAMA).read_text(), "hidden_size", "4100")
    first = failures(base, LLAMA, text)[0]
    assert first.args["key"] == "hidden_size" and first.args["line"] == str(line) == str(first.evidence[0].line)


@pytest.mark.parametrize("word", ["Treu", "Ture", "tru", "Falsse", "flase", "Fales"])
def test_a_misspelt_switch_is_found_wherever_it_stands(base, word):
    text = "model: {model_config: {type: LlamaConfig}}\ntrain_dataset:\n  data_loader:\n    shuffle: " + word + "\n"
    found = failures(base, LLAMA, text)
    assert found[0].id == "CFG512" and found[0].evidence[0].line == 4


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("--tensor-model-parallel-size", "--tensor-model-paralel-size", "CFG628"),
        ("--use-distributed-optimizer", "--use-distributed-optimzer", "CFG628"),
        ("--num-layers", "--num-layer", None),
        ("--clip-grad", "--clip-gradd", "CFG628"),
        ("--normalization RMSNorm", "--normalization RMSnorm", "CFG630"),
        ("--bf16", "--bf16 --fp16", "CFG629"),
        ("--seq-length 4096 \\", "--seq-length 4096 \\ ", "CFG631"),
        ("pretrain_gpt.py $GPT_ARGS --save", "pretrain_gpt.py $GPT_ARGS\n  --save", "CFG631"),
        ("--sequence-parallel", "--sequence-parallel --num-layers-per-virtual-pipeline-stage 3", "PAR556"),
        ("--sequence-parallel", "--sequence-parallel --moe-fb-overlap --my-own-option 3", None),
    ],
)
def test_a_slip_in_a_launch_script_is_found_first(base, old, new, rule):
    text = (FOLDER / MEGATRON).read_text()
    assert old in text
    found = failures(base, MEGATRON, text.replace(old, new, 1))
    assert [f.id for f in found][:1] == ([rule] if rule else [])


def test_usage_texts_and_case_branches_of_a_script_cut_no_command(base):
    text = (FOLDER / MEGATRON).read_text()
    extra = """
usage() { cat <<END
  --num-layers N
  --hidden-size N
END
}
case "$1" in
  --seq-length) shift ;;
  --micro-batch-size) shift ;;
esac
"""
    assert failures(base, MEGATRON, text.replace("\nTP=4", extra + "\nTP=4", 1)) == []


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("rms_norm_esp", 1e-6, "CFG509"),
        ("model_type", "lama", "CFG630"),
        ("hidden_act", "sillu", "CFG630"),
        ("rope_theta", -1.0, "CFG635"),
        ("model_type", "my_model", None),
        ("my_own_setting", 1, None),
    ],
)
def test_a_slip_in_config_json_is_found(base, key, value, rule):
    text = json.dumps(
        {
            "model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
            "intermediate_size": 11008, "vocab_size": 32000, "hidden_act": "silu", key: value,
        },
        indent=1,
    )  # fmt: skip
    assert [f.id for f in failures(base, "config.json", text)] == ([rule] if rule else [])
