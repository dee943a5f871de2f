"""Structure of configurations, launches of plain scripts, and arguments of calls: what a condition cannot say."""

import pytest

from doctor import checkup, pasted, rulebase
from doctor.model import Verdict
from doctor.plan import arguments, detect, structure
from doctor.plan.launching import host_fault

HEAD = "run_mode: train\nseed: 0\nuse_parallel: False\nmodel:\n  model_config: {type: LlamaConfig, num_layers: 32}\n"


def values(name, text, what):
    plan = detect.read(name, text)
    return plan.get("file." + what) if plan else None


@pytest.mark.parametrize(
    ("text", "what", "said"),
    [
        ("runner_config:\n  epochs: 2\n  batch_size:\n", "empty_keys", ["runner_config.batch_size"]),
        ("runner_config: {epochs: 2}\noptimizer: {eps: 1.0e-8}\n", "lacking_keys", ["optimizer.type"]),
        ("runner_config: {epochs: 2}\ntotal_steps: -1\nlr_schedule: {type: ConstantWarmUpLR, learning_rate: 1.0e-5}\n",
         "misplaced_keys", ["total_steps (lr_schedule)"]),
        ("runner_config:\n  epochs: 2\n  context:\n    mode: 0\n", "misplaced_keys", ["runner_config.context"]),
        ("runner_config: {batch_size: 0x16}\n", "odd_numbers", ["batch_size 0x16 = 22"]),
        ("train_config: {epochs: 2, batch_size: 4, sink_mode: True}\nparallel_config: {}\nparallel: {}\n",
         "unread_keys", ["train_config (runner_config)"]),
    ],
)  # fmt: skip
def test_a_fault_of_structure_is_said_with_what_was_meant(text, what, said):
    assert values("run.yaml", HEAD + text, what) == said


def test_a_piece_of_a_configuration_lacks_nothing():
    text = "model: {model_config: {type: LlamaConfig}}\nrunner_config: {batch_size: 1}\noptimizer: {eps: 1.0e-8}\n"
    assert values("piece.yaml", text, "lacking_keys") == []


@pytest.mark.parametrize(("address", "wrong"), [
    ("192.168.1.300", True), ("10.0.0", True), ("10.0.0.1:29500", True), ("http://10.0.0.1", True),
    ("10.0.0.1", False), ("node-01.cluster", False), ("localhost", False), ("fe80::1", False),
])  # fmt: skip
def test_an_address_is_a_number_or_a_name(address, wrong):
    assert host_fault(address) is wrong


@pytest.mark.parametrize(("line", "what"), [
    ("export HCCL_CONNECT_TIMEOUT = 1800", "bad_exports"), ("export $HCCL_BUFFSIZE=200", "bad_exports"),
    ("exprot HCCL_BUFFSIZE=200", "bad_exports"), ("export hccl_buffsize=200", "bad_exports"),
    ("export MS_ROLE=ms_worker", "bad_exports"), ("export OMP_NUM_THREADS=“8”", "foreign_marks"),
])  # fmt: skip
def test_an_export_that_sets_nothing_is_found_with_its_line(line, what):
    text = f"#!/bin/bash\n{line}\nmsrun --worker_num=8 --local_worker_num=8 train.py\n"
    plan = detect.read("run.sh", text)
    assert [line for line, _ in plan.values["file." + what].spots] == [2]


def test_words_in_comments_and_messages_are_no_marks():
    text = "# “八卡”，—lr\necho “开始”\nexport HCCL_BUFFSIZE=200\nmsrun --worker_num=8 --local_worker_num=8 t.py\n"
    assert values("run.sh", text, "foreign_marks") == []


def test_a_script_is_checked_as_it_is_diagnosed(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text("export HCCL_CONNECT_TIMEOUT=10\nmsrun --worker_num=4 --local_worker_num=8 train.py\n")
    found = pasted.check([str(script)], rulebase.load(), {}, checkup.Options()).findings
    failed = {f.id: f.evidence[0] for f in found if f.verdict is Verdict.FAIL}
    assert failed["HCCL551"].line == 1 and failed["RUN501"].source == str(script)


def test_a_device_id_that_a_loop_gives_is_not_judged(tmp_path):
    script = tmp_path / "run.sh"
    script.write_text(
        "export MS_WORKER_NUM=8\nexport MS_SCHED_HOST=127.0.0.1\nexport MS_SCHED_PORT=8118\nfor((i=0;i<8;i++)); do\n"
        "  export MS_ROLE=MS_WORKER\n  export DEVICE_ID=$i\n  python t.py &\ndone\n"
    )
    found = pasted.check([str(script)], rulebase.load(), {}, checkup.Options()).findings
    assert "NPU515" not in {f.id for f in found if f.verdict is Verdict.FAIL}


@pytest.mark.parametrize(("call", "wrong"), [
    ("ms.set_seed('1')", True), ("ms.set_seed(1)", False), ("mine.set_seed('1')", False),
    ("ms.set_context(deterministic=True)", True), ("ms.set_context(deterministic='ON')", False),
    ("ds.MindDataset('a', num_shards=8)", True), ("ds.MindDataset('a', num_shards=8, **more)", False),
])  # fmt: skip
def test_only_calls_of_mindspore_are_held_to_its_arguments(call, wrong):
    text = f"import mindspore as ms\nimport mindspore.dataset as ds\nimport mine\nms.set_context(mode=0)\n{call}\n"
    assert bool(values("t.py", text, "bad_arguments")) is wrong


def test_every_range_can_say_what_it_takes():
    assert all(limit.says() for table in arguments.CALLS.values() for limit in table.values())


def test_a_pattern_is_compiled_and_never_run():
    assert structure.pattern_fault(".*wq|(.*wk") and not structure.pattern_fault("(a+)+$")
    assert structure.pattern_fault("") == "empty"


@pytest.mark.parametrize("kind", [["llama"], {"a": 1}, 7, None])
def test_a_model_type_that_is_no_word_is_said_and_never_raises(kind):
    import json

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    assert values("config.json", json.dumps({"model_type": kind, **sizes}), "empty_keys") == ["model_type"]


EXPORT = "export HCCL_BUFFSIZE=200\n"
PRETRAIN = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 "
    "--max-position-embeddings 1024 --tensor-model-parallel-size 1 --micro-batch-size 1 --global-batch-size 16 "
    "--train-iters 1000 --lr 1e-4 "
)
LISTS = (
    "foreign_marks", "bad_exports", "bad_launch", "unknown_options", "stray_words", "broken_options", "unset_names",
    "lost_variables", "conflicts", "duplicate_keys", "wrong_files", "wrong_types", "lacking_options",
)  # fmt: skip


@pytest.mark.parametrize("text", [
    # text for another program: a configuration, Python, a usage message
    "export HCCL_BUFFSIZE=200\ncat > a.ini <<EOF\nPORT = 80\nexport A = 1\nMASTER_ADDR = n0:29500\nEOF\nmsrun a.py\n",
    "export HCCL_BUFFSIZE=200\npython - <<'PY'\nNUM = 3\nPY\ncat <<-U\n用法： bash run.sh --config xx，--tp 8\nU\n",
    "export HCCL_BUFFSIZE=200\nlog \"请使用 --model xx，再重试\"\npython t.py --a 1  # 使用 --tp 8，否则失败\n",
    # names that are given while the script runs
    "export HCCL_BUFFSIZE=200\nwhile read -r key value; do\n  export $key=\"$value\"\ndone < .env\n",
    EXPORT + "export $(grep -v '^#' .env | sed 's/ *= */=/g')\nexport HCCL_CONNECT_TIMEOUT=600 2>/dev/null\n",
    # names of the script's own
    "export HCCL_BUFFSIZE=200\nMASTER_HOST=10.0.0.1\nMASTER_PORT1=29501\n"
    "torchrun --master_addr $MASTER_HOST --master_port $MASTER_PORT1 a.py\n",
    "MASTER_PORT=${MASTER_PORT:-\"6000\"}\nMASTER_ADDR=${MASTER_ADDR:-'localhost'}\nNNODES=${SLURM_NNODES:-\"1\"}\n"
    "torchrun --nnodes $NNODES --master_addr $MASTER_ADDR --master_port $MASTER_PORT a.py\n",
    # GPUs beside NPUs
    "export CUDA_VISIBLE_DEVICES=0,1\nexport MS_WORKER_NUM=2\nexport MS_SCHED_HOST=127.0.0.1\npython t.py\n",
    "if command -v npu-smi; then\n  " + EXPORT + "else\n  export CUDA_VISIBLE_DEVICES=0,1\nfi\npython t.py\n",
    # stages with devices of their own
    "export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node 4 t.py\nexport ASCEND_RT_VISIBLE_DEVICES=0\n"
    "torchrun --nproc_per_node 1 e.py\n",
    # programs that are not Megatron-LM
    EXPORT + "python train.py --hidden_size 768 --num_layers 12 --micro_batch_size 4 --seq_length 1024 "
    "--learning_rate 1e-4 --sequence_parallel True\n",
    EXPORT + "python bench.py --num-layers 24 --hidden-size 1024 --seq-len 2048 --num-heads 16 --fp16 True\n",
    # options of branches, quoted nothing, loops, numbers as Python reads them, fine-tuning on JSON
    "O=''\nif [ $1 = a ]; then\n  O+=' --fp16 --lr-warmup-fraction 0.01 --load a'\nelse\n"
    "  O+=' --bf16 --lr-warmup-iters 9 --load b'\nfi\n" + PRETRAIN + "$O --mock-data\n",
    'L=""\n' + PRETRAIN + '--bf16 --load "$L" --mock-data\n',
    "for TP in 1 2; do\nPP=1\n" + PRETRAIN + "--context-parallel-size $TP --bf16 --mock-data\ndone\n",
    "S=146_484_375\nI=$(( ${T} / ${G} / 4 ))\n" + PRETRAIN + "--lr-decay-iters $S --eval-interval ${I} --mock-data\n",
    PRETRAIN.replace("pretrain_gpt", "train_vlm") + "--bf16 --data-path sft.json\n",
    PRETRAIN + "--bf16 --recompute-granularity full --recompute-method uniform --data-path a\n",
])  # fmt: skip
def test_what_working_scripts_do_is_no_mistake(text):
    assert {what: values("run.sh", text, what) for what in LISTS if values("run.sh", text, what)} == {}


@pytest.mark.parametrize(("text", "what"), [
    ("cat > run.sh <<EOF\nexport HCCL_BUFFSIZE = 200\nmsrun a.py\nEOF\nbash run.sh\n", "bad_exports"),
    ("export $MASTER_ADDR=10.0.0.1\nmsrun a.py\n", "bad_exports"),
    ("export MASTER_PROT=29500\nmsrun a.py\n", "bad_exports"),
    ("export HCCL_BUFFSIZE=200\nexport CUDA_VISIBLE_DEVICES=0\npython t.py\n", "bad_exports"),
    ("export ASCEND_RT_VISIBLE_DEVICES=0\ntorchrun --nproc_per_node 4 t.py\n", "bad_launch"),
    (PRETRAIN + "--bf16 --hidden_dropout 0.1 --mock-data\n", "unknown_options"),
    (PRETRAIN + "--bf16 --data-path a.bin\n", "wrong_files"),
    (PRETRAIN + "--bf16 --load --mock-data\n", "broken_options"),
    (PRETRAIN + "--bf16 --lr-warmup-fraction 0.1 --lr-warmup-iters 10 --mock-data\n", "conflicts"),
])  # fmt: skip
def test_the_mistakes_beside_them_are_still_told(text, what):
    assert values("run.sh", text, what)


@pytest.mark.parametrize("text", [
    "p.add_argument('--seed', default=None, type=int)\nif a.seed is not None:\n    ms.set_seed(a.seed)\n",
    "p.add_argument('--keep', default='5', type=int)\nms.CheckpointConfig(keep_checkpoint_max=a.keep)\n",
    "def build(seed):\n    ms.set_seed(seed)\nseed = 'a'\n", "agent.train(True)\nagent.train('x')\n",
    "for _ in itertools.repeat(0):\n    pass\n", "ms.DynamicLossScaleManager(scale_factor=2.0)\n",
    "ms.mint.nn.Dropout(p=1.0)\n", "ms.nn.cosine_decay_lr(min_lr=0.0, max_lr=29.0, total_step=9, step_per_epoch=3)\n",
])  # fmt: skip
def test_defaults_other_objects_and_what_mindspore_takes_are_no_wrong_arguments(text):
    head = "import itertools\nimport mindspore as ms\nimport mindspore.dataset as ds\nfrom mindspore import Model\n"
    assert values("t.py", head + "ms.set_context(mode=0)\n" + text, "bad_arguments") == []
