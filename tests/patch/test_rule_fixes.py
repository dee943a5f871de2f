"""The fixes of conditions, tried on the hit examples of their rules: something is offered, and it mends the finding."""

from pathlib import Path

import pytest
import yaml

from doctor.model import Verdict
from doctor.patch import configs, plan, propose, verify
from doctor.patch.propose import Options
from doctor.plan import detect, judge
from doctor.rulebase import load

BASE = load()
CONFIGS = Path(__file__).resolve().parents[2] / "fixtures" / "configs"
MENDING = [
    r.id for r in BASE if r.kind == "when" and any(f["applicability"] != "display" for f in BASE.whole(r.id)["fix"])
]
NEEDS_FACTS = {"PAR529"}
"""Rules that only fail where versions or devices are known."""


def attempts(rule_id, tmp_path):
    """(path, patch, decisions) of every example and every choice."""
    for number, example in enumerate(BASE.whole(rule_id)["tests"]["hit"]):
        path = tmp_path / f"{number}-{example['name']}"
        path.write_text(example["config"])
        options = Options(only=(rule_id,), unsafe=True)
        found = propose.find([str(path)], options)
        every = propose.of_found(found, options, BASE)
        counts = [len(one.choices) for one in every] or [0]
        for choice in range(1, max(counts[0], 1) + 1):
            chosen = options._replace(choose={rule_id: str(choice)}) if counts[0] else options
            yield path, *propose.decide(propose.of_found(found, chosen, BASE), chosen)


@pytest.mark.parametrize("rule_id", sorted(set(MENDING) - NEEDS_FACTS))
def test_a_fix_mends_the_example_of_its_rule(rule_id, tmp_path):
    mended = 0
    for path, patch, decisions in attempts(rule_id, tmp_path):
        if patch is None:
            continue
        assert [d.state for d in decisions].count("planned") == 1
        mended += 1
        (file,) = patch.files
        after = file.after.decode()
        judged = {f.id: f for f in judge.judge(detect.read(str(path), after), BASE)}
        assert judged[rule_id].verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)
        if path.suffix == ".yaml":
            old, new = verify.flatten(yaml.safe_load(file.before)), verify.flatten(yaml.safe_load(file.after))
            assert len({key for key in {**old, **new} if old.get(key) != new.get(key)}) <= 2 * len(file.changes)
    assert mended


def test_almost_every_example_is_mended():
    assert len(MENDING) >= 80


def test_numbers_left_as_text_become_numbers(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("run_mode: train\nmodel: {model_config: {type: LlamaConfig}}\n"
                    "lr_schedule:\n  learning_rate: 1e-5  # why\noptimizer:\n  eps: 1e-8\n")  # fmt: skip
    patch, decisions = propose.decide(propose.gather([str(path)], Options(only=("CFG511",)), None, BASE), Options())
    assert [d.state for d in decisions] == ["planned"]
    tree = yaml.safe_load(patch.files[0].after)
    assert tree["lr_schedule"]["learning_rate"] == 1e-5 and tree["optimizer"]["eps"] == 1e-8
    assert b"learning_rate: 1.0e-05  # why" in patch.files[0].after


def test_a_value_of_the_file_this_one_is_based_on_is_set_here(tmp_path):
    (tmp_path / "base.yaml").write_text("run_mode: train\nmodel: {model_config: {type: LlamaConfig}}\n"
                                        "runner_config:\n  epochs: 0\n")  # fmt: skip
    path = tmp_path / "c.yaml"
    path.write_text("base_config: ./base.yaml\nseed: 1\nparallel_config: {}\nrunner_config:\n  batch_size: 1\n")
    found = propose.find([str(path)], Options(only=("CFG575",), unsafe=True))
    if not found:
        pytest.skip("the base is read otherwise")
    patch, decisions = propose.decide(propose.of_found(found, Options(unsafe=True), BASE), Options(unsafe=True))
    assert [d.state for d in decisions] == ["planned"], decisions[0].why
    assert [f.path for f in patch.files] == [str(path)] and b"  batch_size: 1\n  epochs: 1\n" in patch.files[0].after


@pytest.mark.parametrize(
    ("name", "key", "value", "rule"),
    [
        ("llama2_7b_8p.yaml", "hidden_size: 4096", "hidden_size: 4100", "CFG520"),
        ("llama2_7b_8p.yaml", "model_parallel: 2", "model_parallel: 3", "PAR510"),
        ("llama2_7b_8p.yaml", "CausalLanguageModelingTrainer", "CausalLanguageModelingTrainr", "CFG513"),
        ("megatron_16p.sh", "--num-attention-heads 32", "--num-attention-heads 33", "CFG520"),
        ("megatron_16p.sh", "--adam-beta2 0.95", "--adam-beta2 2", "CFG568"),
        ("megatron_16p.sh", "--global-batch-size 256", "--global-batch-size 255", "PAR547"),
        ("qwen3_32b_16p.yaml", "head_dim: 128", "head_dim: 100", "CFG522"),
    ],
)
def test_one_of_the_ways_leads_back_to_the_healthy_file(tmp_path, name, key, value, rule):
    text = (CONFIGS / name).read_text()
    assert key in text
    path = tmp_path / name
    path.write_text(text.replace(key, value, 1))
    options = Options(only=(rule,), unsafe=True, aliases=True)
    found = propose.find([str(path)], options)
    (proposal,) = propose.of_found(found, options, BASE)
    after = []
    for n in range(max(len(proposal.choices), 1)):
        chosen = options._replace(choose={rule: str(n + 1)} if proposal.choices else {})
        patch, _ = propose.decide(propose.of_found(found, chosen, BASE), chosen)
        after.append(patch.files[0].after.decode())
    assert text in after


@pytest.mark.parametrize(
    ("file", "text", "line", "key", "want"),
    [
        ("c.yaml", "a:\n  b: 1\nc: {b: 2}\n", 2, "b", "a.b"),
        ("c.yaml", "a:\n  b: 1\nc: {b: 2}\n", 3, "x.b", "c.b"),
        ("c.yaml", "a: [{b: 1}, {b: 2}]\n", 1, "b", None),
        ("c.json", '{"a":\n {"b": 1}}', 2, "b", "a.b"),
        ("c.py", "f(\n  b=1)\n", 2, "b", "1:f(b)"),
        ("c.py", "f(b=1, c=g(b=2))\n", 1, "b", None),
        ("c.sh", "export TP=8\n", 1, "TP", "TP"),
    ],
)
def test_a_key_is_found_by_its_line(file, text, line, key, want):
    assert configs.key_at(file, text, line, key) == want


def test_healthy_configurations_need_no_mending():
    found = propose.find([str(CONFIGS)], Options())
    assert [f.finding.id for f in found if f.finding.severity != "advice"] == []


def test_a_shared_value_is_refused_by_its_names(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a: &x {b: 1}\nc: *x\n")
    from doctor.model import Edit
    from doctor.patch.spans import Refused

    with pytest.raises(Refused) as caught:
        plan.plan([Edit(str(path), "a.b", "", "2")])
    assert caught.value.args_["keys"] == "c.b"


@pytest.mark.parametrize(
    ("config", "rule", "new"),
    [
        ("use_parallel: Flase\n", "CFG512", b"use_parallel: False\n"),
        ("runner_config: {sink_mode: 'true'}\n", "CFG512", b"runner_config: {sink_mode: True}\n"),
        ("runner_config: {batch_size: 'four'}\n", "CFG512", None),
    ],
)
def test_a_switch_that_is_a_word_becomes_a_switch(config, rule, new, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("model: {model_config: {type: LlamaConfig}}\n" + config)
    options = Options(only=(rule,), unsafe=True)
    patch, _ = propose.decide(propose.gather([str(path)], options, None, BASE), options)
    assert (patch is None) if new is None else new in patch.files[0].after


@pytest.mark.parametrize(
    ("layers", "old", "new"),
    [(32, "[1, 1]", "[0, 0, 0, 0]"), (34, "[0, 1, 0, 1, 1]", "[0, 1, 0, 1]"), (35, "[0, 0]", "[0, 1, 1, 1]")],
)
def test_offsets_get_one_entry_for_each_stage_and_the_layers_left_over(layers, old, new, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(f"model:\n  model_config:\n    type: LlamaConfig\n    num_layers: {layers}\n    offset: {old}\n"
                    "parallel_config: {pipeline_stage: 4, micro_batch_num: 8}\n")  # fmt: skip
    options = Options(only=("PAR520",), unsafe=True)
    patch, _ = propose.decide(propose.gather([str(path)], options, None, BASE), options)
    assert f"    offset: {new}\n".encode() in patch.files[0].after
