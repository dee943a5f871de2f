"""Fixes of values in YAML and JSON: one line out and one in for each, comments stay, and undo restores the bytes."""

import difflib

import pytest

from doctor.patch import apply, journal, propose
from doctor.patch.propose import Options
from doctor.rulebase import load

BASE = load()
YAML = """# a run of eight devices
run_mode: 'train'   # train or finetune
only_save_strategy: False  # the strategy only
use_parallel: True
context:
  max_device_memory: "58GB"  # of 64 GB
parallel:
  parallel_mode: 1   # 1 is semi-automatic
  gradients_mean: True
parallel_config: {model_parallel: 2, data_parallel: 4}
lr_schedule:
  type: CosineWithWarmUpLR  # cosine
  learning_rate: 1.e-5  # peak
  warmup_ratio: 0.03

train_dataset: &data
  input_columns: ["input_ids", "labels"]  # in this order
model:
  model_config:
    type: LlamaConfig
    hidden_size: 4096     # width
    intermediate_size: 11008  # inner
    num_heads: 32
    hidden_act: silu # gate
"""
JSON = """{
    "model_type": "llama",   "hidden_act": "silu",
  "hidden_size": 4096, "num_attention_heads": 32,
  "num_hidden_layers": 32,
  "intermediate_size": 11008,
  "rope_theta": 10000.0,
  "vocab_size": 32000
}
"""
SCRIPT = """torchrun --nproc_per_node 8 pretrain_gpt.py \\
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
    --seq-length 4096 \\
    --max-position-embeddings 4096 \\
    --normalization RMSNorm \\
    --micro-batch-size 1 --global-batch-size 16 --bf16  # eight devices
"""
CASES = [
    ("c.yaml", YAML, "only_save_strategy: False", "only_save_strategy: True", "CFG644", 1),
    ("c.yaml", YAML, '"58GB"', '"0.5GB"', "CFG705", 1),
    ("c.yaml", YAML, "parallel_mode: 1", "parallel_mode: 0", "PAR562", 1),
    ("c.yaml", YAML, "1.e-5", "1.e-15", "CFG647", 1),
    ("c.yaml", YAML, "0.03", "0.9", "CFG648", 1),
    ("c.yaml", YAML, '["input_ids", "labels"]', '["labels", "input_ids"]', "CFG646", 1),
    ("c.yaml", YAML, '["input_ids", "labels"]', '["inputs_ids", "labels"]', "CFG646", 1),
    ("c.yaml", YAML, "hidden_size: 4096     # width\n    intermediate_size: 11008",
     "hidden_size: 11008     # width\n    intermediate_size: 4096", "CFG640", 2),
    ("c.yaml", YAML, "hidden_act: silu", "hidden_act: sillu", "CFG630", 1),
    ("config.json", JSON, '"silu"', '"sillu"', "CFG630", 1),
    ("config.json", JSON, "10000.0", '"1e4"', "CFG511", 1),
    ("config.json", JSON, '"vocab_size": 32000', '"vocab_size": "32000"', "CFG511", 1),
    ("train.sh", SCRIPT, "--max-position-embeddings 4096", "--max-position-embeddings 2048", "CFG656", 1),
    ("train.sh", SCRIPT, "RMSNorm", "RMSNrom", "CFG630", 1),
]  # fmt: skip


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "text", "right", "wrong", "rule", "lines"), CASES)
def test_a_fix_changes_its_lines_only_and_can_be_taken_back(name, text, right, wrong, rule, lines, ends, tmp_path):
    assert right in text
    broken = text.replace(right, wrong, 1).replace("\n", ends).encode()
    path = tmp_path / name
    path.write_bytes(broken)
    options = Options(only=(rule,), unsafe=True)
    every = propose.of_found(propose.find([str(path)], options), options, BASE)
    if every[0].choices:
        options = options._replace(choose={rule: "1"})
        every = propose.of_found(propose.find([str(path)], options), options, BASE)
    patch, decisions = propose.decide(every, options)
    assert [d.state for d in decisions] == ["planned"], decisions[0].why
    book = journal.Journal(str(tmp_path / "journal"))
    apply.apply(patch, book)
    after = path.read_bytes()
    rows = [row for row in difflib.ndiff(broken.decode().split("\n"), after.decode().split("\n")) if row[0] in "+-"]
    assert [row[0] for row in rows].count("+") == [row[0] for row in rows].count("-") == lines, rows
    comments = [[row.rpartition("#")[2] for row in rows if row[0] == side and "#" in row] for side in "-+"]
    assert comments[0] == comments[1]
    again = propose.of_found(propose.find([str(path)], options), options, BASE)
    assert not again
    apply.undo(book)
    assert path.read_bytes() == broken


@pytest.mark.parametrize(("name", "text"), [("c.yaml", YAML), ("config.json", JSON), ("train.sh", SCRIPT)])
def test_what_is_right_gets_no_patch(name, text, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    options = Options(only=tuple({case[4] for case in CASES}), unsafe=True)
    assert not propose.of_found(propose.find([str(path)], options), options, BASE)
