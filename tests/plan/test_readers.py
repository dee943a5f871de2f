"""config.json, launch scripts and plain scripts become the same normal form."""

import json
import time

import pytest

from doctor.plan import detect, megatron

HF = """\
{
  "architectures": ["Qwen2ForCausalLM"],
  "model_type": "qwen2",
  "hidden_size": 896,
  "num_hidden_layers": 24,
  "num_attention_heads": 14,
  "num_key_value_heads": 2,
  "intermediate_size": 4864,
  "max_position_embeddings": 32768,
  "rms_norm_eps": 1e-06,
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "rope_scaling": {"num_attention_heads": 99, "type": "yarn"},
  "vocab_size": 151936
}
"""


def test_config_json_is_read_with_lines():
    plan = detect.read("config.json", HF)
    get = plan.get
    assert (get("file.kind"), get("model.type"), get("model.arch")) == ("huggingface", "qwen2", "Qwen2ForCausalLM")
    assert (get("model.num_heads"), get("model.kv_heads"), get("model.head_dim")) == (14, 2, 64)
    assert get("model.norm_eps") == 1e-6, "a number for JSON, unlike for YAML"
    assert get("precision.params") == "bfloat16"
    assert plan.values["model.num_heads"].line == 6
    assert plan.values["model.vocab_size"].line == 14
    assert plan.values["model.qkv_bias"].whose == "transformers qwen2"
    assert round(get("memory.parameters"), 3) == 0.494


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (HF.replace("24,", "24"), "syntax"),
        ('{"model_type": "llama", "hidden_size": 8, "hidden_size": 16}', ""),
        ("\ufeff" + HF, ""),
        (HF.replace("\n", "\r\n"), ""),
        ('{"model_type": "llava", "text_config": {"hidden_size": 64, "num_attention_heads": 4}}', ""),
    ],
)
def test_odd_config_json(text, problem):
    plan = detect.read("config.json", text)
    assert plan.get("file.problem") == problem
    if 'hidden_size": 16' in text:
        assert plan.get("file.duplicate_keys") == ["hidden_size"]
    if "text_config" in text:
        assert plan.get("model.head_dim") == 16


@pytest.mark.parametrize(
    "text", ["{}", "[1, 2]", '{"a": 1}', "null", "{" * 5000, '{"rank_table": {"version": "1.0"}}', "{broken"]
)
def test_other_json_is_no_plan(text):
    assert detect.read("x.json", text) is None


SCRIPT = """\
#!/bin/bash
NPUS_PER_NODE=8
NNODES=${NNODES:-2}
TP=4
PP=2
DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \\
    --nnodes $NNODES \\
"
MODEL_ARGS=(
    --num-layers 32   # depth
    --hidden-size $((64*64))
    --num-attention-heads 32
)
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \\
    --pipeline-model-parallel-size ${PP} \\
    --micro-batch-size 1 \\
    --global-batch-size 256 \\
    --seq-length 4096 \\
    --lr 1.25e-6 \\
    --bf16 --swiglu --train-iters $ITERS
"
GPT_ARGS+=" --vocab-size 32000"
if [ "$1" = x ]; then exit 1; fi
torchrun $DISTRIBUTED_ARGS pretrain_gpt.py ${MODEL_ARGS[@]} $GPT_ARGS --save ./out | tee train.log
"""


def test_a_launch_script_is_followed_through_its_variables():
    plan = detect.read("train.sh", SCRIPT)
    get = plan.get
    assert (get("parallel.mp"), get("parallel.pp"), get("parallel.devices"), get("parallel.dp")) == (4, 2, 16, 2)
    assert (get("model.hidden_size"), get("model.num_layers"), get("model.ffn_size")) == (4096, 32, 10880)
    assert (get("batch.global_size"), get("parallel.micro_batches")) == (256, 128)
    assert get("schedule.lr") == 1.25e-6
    assert get("precision.params") == "bfloat16"
    assert get("model.vocab_size") == 32256, "padded to 128 × tp"
    assert plan.values["model.num_layers"].line == 11
    assert plan.values["parallel.mp"].line == 16
    assert [e.line for e in plan.values["parallel.mp"].evidence()] == [16, 4], "the option and the variable"
    assert [e.line for e in plan.values["parallel.devices"].evidence()] == [2, 3, 7, 8]
    assert plan.values["schedule.lr"].line == 21
    assert "schedule.total_steps" in plan.blocked
    assert get("checkpoint.save") is True


@pytest.mark.parametrize("name", ["torchrun", "msrun --worker_num=8 --local_worker_num=8"])
def test_devices_come_from_the_launcher(name):
    plan = detect.read(
        "t.sh", f"{name} --nproc-per-node 8 p.py --num-layers 4 --hidden-size 64 --num-attention-heads 4\n"
    )
    assert plan.get("parallel.devices") == 8


def test_a_script_that_starts_mindformers_brings_its_devices_into_the_plan(tmp_path):
    (tmp_path / "c.yaml").write_text(
        "run_mode: train\nuse_parallel: False\nmodel: {model_config: {type: LlamaConfig}}\n"
        "parallel: {parallel_mode: 1}\nparallel_config: {data_parallel: 4, model_parallel: 4}\n"
    )
    script = tmp_path / "run.sh"
    script.write_text(
        '#!/bin/bash\nbash scripts/msrun_launcher.sh "run_mindformer.py \\\n --config c.yaml --use_parallel True" 8\n'
    )
    plan = detect.read(str(script))
    assert plan.get("parallel.devices") == 8
    assert plan.get("run.parallel") is True
    assert plan.values["parallel.devices"].file.endswith("run.sh")
    assert plan.values["parallel.mp"].file.endswith("c.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "echo hello\n",
        "ls --num-layers\n",
        "if true; then\n",
        "a=$(b",
        "x='",
        'y="\\',
        "A=(1 2",
        "$((1/0))\n",
        "B=$B$B$B\n" * 50,
        "#!/bin/bash\n" + "((((" * 100,
    ],
)
def test_other_scripts_are_no_plan(text):
    assert detect.read("x.sh", text) is None


def test_variables_that_grow_are_bounded():
    text = "A=0123456789\n" + "A=$A$A\n" * 60 + "p --num-layers 4 --hidden-size 64 --x $A\n"
    began = time.process_time()
    assert detect.read("x.sh", text).get("model.num_layers") == 4
    assert time.process_time() - began < 2


def test_quotes_and_comments_of_the_shell():
    words = [[w.text for w in s] for s in megatron.words_of("a 'b c' \"d $e\" f\\ g # h\ni j\\\nk; l && m\n")]
    assert words == [["a", "b c", "d $e", "f g"], ["i", "j", "k"], ["l"], ["m"]]


PYTHON = """\
import mindspore as ms
from mindspore import nn, set_context
HIDDEN = 64 * 12
num_heads = 12
SEQ = unknown()
set_context(mode=ms.GRAPH_MODE, max_device_memory="58G")
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=False,
                             device_num=get_group_size())
config = GPT2Config(hidden_size=HIDDEN, seq_length=SEQ, num_layers=12)
opt = nn.AdamWeightDecay(net.trainable_params(), learning_rate=0.1)
data = data.batch(32, drop_remainder=False)
scale = DynamicLossScaleManager(scale_factor=1)
"""


def test_literal_values_of_a_script_are_read():
    plan = detect.read("train.py", PYTHON)
    get = plan.get
    assert (get("model.hidden_size"), get("model.num_heads"), get("model.num_layers"), get("model.head_dim")) == (
        768,
        12,
        12,
        64,
    )
    assert (get("schedule.lr"), get("optimizer.type"), get("optimizer.weight_decay")) == (0.1, "AdamWeightDecay", 0.0)
    assert (get("context.mode"), get("context.memory"), get("parallel.mode")) == (0, "58G", "data")
    assert (get("batch.size"), get("data.drop_remainder")) == (32, False)
    assert get("precision.loss_scale_factor") == 1.0
    assert get("precision.loss_scale") == 2.0**24
    assert plan.values["schedule.lr"].line == 10
    assert "no literal" in plan.blocked["parallel.devices"]
    assert "model.seq_length" in plan.blocked


def test_a_name_with_two_values_is_not_guessed():
    plan = detect.read(
        "t.py", "import mindspore\nbatch_size = 4\nbatch_size = 8\nopt = nn.Adam(p, learning_rate=lr)\nlr = 1\nlr = 2\n"
    )
    assert plan.get("batch.size") is None
    assert plan.get("schedule.lr") is None


def test_python_that_cannot_be_parsed_is_one_problem():
    plan = detect.read("t.py", "import mindspore\nprint 'hello'\n")
    assert (plan.get("file.problem"), plan.values["file.problem"].line) == ("python_syntax", 2)
    assert detect.read("t.py", "import torch\n") is None


def test_reading_is_quick():
    began = time.process_time()
    for _ in range(20):
        detect.read("config.json", HF)
        detect.read("train.sh", SCRIPT)
        detect.read("train.py", PYTHON)
    assert time.process_time() - began < 2.0


def test_all_plans_are_json():
    for name, text in (("config.json", HF), ("train.sh", SCRIPT), ("train.py", PYTHON)):
        json.dumps(detect.read(name, text).to_json())
