"""Logs and the configuration of their run: which causes it confirms, which it rules out, and one diagnosis of both."""

import json
from pathlib import Path

import pytest

from doctor import causes, cli, engine
from doctor.plan import detect
from doctor.rulebase import load

CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
SICK = (CONFIGS / "gpt2_1p.yaml").read_text()
CHANGES = {
    "use_clip_grad: True": "use_clip_grad: False",
    "warmup_steps: 200": "warmup_steps: 0",
    "learning_rate: 0.0001": "learning_rate: 0.02",
    'compute_dtype: "float16"': 'compute_dtype: "float16"\n    softmax_compute_type: "float16"',
}
for old, new in CHANGES.items():
    assert old in SICK
    SICK = SICK.replace(old, new, 1)


def log_of(rule, base):
    return base.whole(rule)["tests"]["hit"][0]["log"]


def line_of(text, word):
    return text[: text.index(word)].count("\n") + 1


@pytest.fixture
def run(tmp_path, base):
    """A folder with the log of a rule and a configuration beside it."""

    def make(rule, config):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "worker_0.log").write_text(log_of(rule, base))
        (tmp_path / "train.yaml").write_text(config)
        return str(tmp_path / "run"), str(tmp_path / "train.yaml")

    return make


def test_nan_with_half_norms_without_warm_up_and_clipping_is_one_diagnosis(run):
    logs, config = run("NUM701", SICK)
    report = engine.diagnose([logs], engine.Options(config=config))
    head = report.diagnoses[0]
    assert head.rule == "NUM701"
    assert head.cause["en"].startswith("train.yaml confirms: ") and head.cause["zh"].startswith("train.yaml 证实：")
    for words, place in (("norm or softmax in float16", "softmax_compute_type"), ("no gradient clipping", "use_clip"),
                         ("no warm-up", "warmup_steps"), ("learning rate, 0.02", "learning_rate")):  # fmt: skip
        assert words in head.cause["en"]
        assert (config, line_of(SICK, place)) in {(e.source, e.line) for e in head.evidence}
    assert any(e.source.endswith("worker_0.log") and e.line == 25 for e in head.evidence)
    nested = {report.findings[n].id for n in head.consequences}
    assert {"CFG561", "NUM001"} <= nested
    assert not {d.rule for d in report.diagnoses} & nested


def test_what_the_configuration_rules_out_is_said(run):
    logs, config = run("NUM701", (CONFIGS / "llama2_7b_8p.yaml").read_text())
    head = engine.diagnose([logs], engine.Options(config=config)).diagnoses[0]
    assert "llama2" not in head.cause["en"] and "confirms" not in head.cause["en"]
    assert head.cause["en"].startswith("train.yaml rules out: ") and "no warm-up" in head.cause["en"]


def test_a_configuration_beside_the_logs_counts_as_well(run, tmp_path):
    logs, config = run("NUM701", SICK)
    Path(config).rename(tmp_path / "run" / "train.yaml")
    report = engine.diagnose([logs])
    assert "confirms" in report.diagnoses[0].cause["en"]
    assert "CFG561" not in {d.rule for d in report.diagnoses}


def test_of_two_configurations_none_is_taken_for_that_of_the_run(run, tmp_path):
    logs, _ = run("NUM701", SICK)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / "run" / name).write_text(SICK)
    assert "confirms" not in engine.diagnose([logs]).diagnoses[0].cause["en"]


def test_bfloat16_speaks_against_an_overflow(run):
    logs, config = run("NUM712", SICK.replace('compute_dtype: "float16"', 'compute_dtype: "bfloat16"'))
    report = engine.diagnose([logs], engine.Options(config=config))
    head = next(d for d in report.diagnoses if d.rule == "NUM712")
    assert "speaks against it: bfloat16" in head.cause["en"]


def test_what_is_not_known_is_neither_confirmed_nor_ruled_out(base):
    plan = detect.read("c.yaml", "model: {model_config: {type: LlamaConfig}}\nrun_mode: train\n")
    one = {"when": "plan.optimizer.clip_norm == 0.0", "at": [], "zh": "没有裁剪", "en": "no clipping"}
    assert causes.ask(plan, one, {}) is None


def test_out_of_memory_names_the_setting_and_its_edit(run, capsys):
    logs, config = run("MEM702", (CONFIGS / "llama2_7b_8p.yaml").read_text())
    cli.run(["diagnose", logs, "--config", config, "--format", "json"])
    head = json.loads(capsys.readouterr().out)["diagnoses"][0]
    (fix,) = [fix for fix in head["fixes"] if fix["id"] == "MEM702-plan"]
    assert fix["applicability"] == "unsafe" and "GiB" in fix["text"]["en"] and "guess" in fix["text"]["en"]
    assert fix["edits"] and fix["edits"][0]["file"] == config


def test_the_fixes_of_a_configuration_carry_their_edits(run, capsys, tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text((CONFIGS / "llama2_7b_8p.yaml").read_text().replace("epochs: 2", "epochs: 0"))
    (tmp_path / "a.log").write_text("step 1 loss 9.0\n")
    cli.run(["diagnose", str(tmp_path / "a.log"), "--config", str(config), "--format", "json"])
    fixes = [f for d in json.loads(capsys.readouterr().out)["diagnoses"] if d["rule"] == "CFG575" for f in d["fixes"]]
    assert any(fix["edits"] or fix["choices"] for fix in fixes)


@pytest.mark.parametrize("text", [None, "- 1\n", "a: [\n"])
def test_a_configuration_that_tells_nothing_is_said_and_the_logs_are_judged(text, run, tmp_path):
    logs, config = run("NUM701", text or "")
    path = config if text is not None else str(tmp_path / "none.yaml")
    report = engine.diagnose([logs], engine.Options(config=path))
    assert report.diagnoses[0].rule == "NUM701"
    assert next(s for s in report.inputs if s.name == path).state in ("unreadable", "not_judged")
    assert any(f.id == "INPUT" for f in report.findings)


def test_every_cause_is_worded_and_can_be_asked():
    base = load()
    plan = detect.read("c.yaml", SICK)
    asked = 0
    for rule in base:
        whole = base.whole(rule.id) if rule.kind == "series" else {}
        for one in (*(whole.get("confirm") or ()), *(whole.get("contradict") or ())):
            said = causes.ask(plan, one, {})
            asked += said is not None
            assert said is None or "{" not in said.text["en"] + said.text["zh"]
    assert asked > 30
