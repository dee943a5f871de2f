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
