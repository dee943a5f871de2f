"""Conditions become findings: failed with the line, passed, unknown, not applicable, crash."""

import textwrap

import pytest

from doctor import rulebase, ruleschema
from doctor.model import Fact, Unknown, Verdict
from doctor.plan import detect, judge
from doctor.plan.schema import FIELDS

RULE = """\
    id: CFG999
    name: probe
    topic: config.parallel
    title: {zh: "{heads} 与 {mp}", en: "{heads} by {mp}"}
    subject: {zh: 头数, en: Heads}
    severity: error
    confidence: certain
    status: stable
    since: 0.1.0
    match:
      when:
        if: plan.model.num_heads % plan.parallel.mp != 0
        at: [parallel.mp]
        let: {heads: plan.model.num_heads, rest: plan.model.num_heads % plan.parallel.mp}
    cause: {zh: "余 {rest}，第 {line} 行", en: "leaves {rest}, line {line}"}
    next: {zh: "改 {key}", en: "change {key} in {file}"}
    provenance: [{kind: source, ref: test, says: nothing}]
    tests:
      hit:
        - config: "model: {model_config: {type: LlamaConfig, num_heads: 3}}\\nparallel_config: {model_parallel: 2}\\n"
      miss:
        - config: "model: {model_config: {type: LlamaConfig}}\\n"
        - config: "model: {model_config: {type: LlamaConfig, num_heads: 4}}\\n"
"""


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "rules" / "cfg"
    place.mkdir(parents=True)
    (tmp_path / "rules" / "codes").mkdir()
    (tmp_path / "rules" / "topics.yaml").write_text(
        'config.parallel:\n  group: config\n  zh: "并行"\n  en: "Parallel"\n'
    )

    def write(text=RULE, **changes):
        text = textwrap.dedent(text)
        for old, new in changes.values():
            assert old in text
            text = text.replace(old, new)
        (place / "CFG999.yaml").write_text(text, encoding="utf-8")
        return rulebase.RuleBase(
            str(tmp_path / "rules"), "t", ruleschema.compile_folder(str(tmp_path / "rules"), full=True)
        )

    return write


def config(heads="12", mp="8", more=""):
    model = f"model:\n  model_config:\n    type: LlamaConfig\n    num_heads: {heads}\n"
    return f"{model}parallel_config:\n  model_parallel: {mp}\n{more}"


def test_a_condition_that_holds_fails_with_its_lines(folder):
    base = folder()
    assert not base.problems
    [found] = judge.judge(detect.read("c.yaml", config()), base)
    assert found.verdict is Verdict.FAIL
    assert found.title == {"zh": "12 与 8", "en": "12 by 8"}
    assert found.args == {
        "num_heads": "12",
        "mp": "8",
        "heads": "12",
        "rest": "4",
        "key": "model_parallel",
        "file": "c.yaml",
        "line": "6",
    }
    assert [(e.line, e.text.strip()) for e in found.evidence] == [(6, "model_parallel: 8"), (4, "num_heads: 12")]
    assert (found.severity, found.confidence, found.topic) == ("error", "certain", "config.parallel")


def test_a_condition_that_does_not_hold_passes(folder):
    [found] = judge.judge(detect.read("c.yaml", config("16")), folder())
    assert found.verdict is Verdict.PASS


def test_what_nobody_wrote_does_not_apply(folder):
    [found] = judge.judge(detect.read("c.yaml", "runner_config: {epochs: 1}\ntrainer: {type: X}\n"), folder())
    assert found.verdict is Verdict.NOT_APPLICABLE
    assert "plan.model.num_heads" in found.why["en"]


def test_what_cannot_be_known_is_unknown_with_the_reason(folder):
    [found] = judge.judge(detect.read("c.yaml", config('"${HEADS}"')), folder())
    assert found.verdict is Verdict.UNKNOWN
    assert "line 4" in found.why["en"]


def test_a_failure_of_the_rule_is_its_crash(folder):
    [found] = judge.judge(detect.read("c.yaml", config(mp="0")), folder())
    assert found.verdict is Verdict.CRASH
    assert "ZeroDivisionError" in found.args["what"]


def test_facts_and_versions_that_are_missing_are_unknown(folder):
    base = folder(a=("since: 0.1.0", 'since: 0.1.0\napplies_to: {mindspore: ">=2.5"}'))
    plan = detect.read("c.yaml", config())
    assert judge.judge(plan, base)[0].verdict is Verdict.UNKNOWN
    assert judge.judge(plan, base, {"version.mindspore": "2.4.1"})[0].verdict is Verdict.NOT_APPLICABLE
    assert judge.judge(plan, base, {"version.mindspore": "2.7.0"})[0].verdict is Verdict.FAIL


def test_a_preview_is_never_an_error(folder):
    base = folder(a=("severity: error", "severity: warning"), b=("status: stable", "status: preview"))
    assert judge.judge(detect.read("c.yaml", config()), base)[0].severity == "warning"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("plan.model.num_heads % plan", "plan.model.heads % plan", "not declared"),
        ("!= 0\n", "\n", "not true or false"),
        ("at: [parallel.mp]", "at: [parallel.tp]", "not declared"),
        ("leaves {rest}", "leaves {remainder}", "filled by nothing"),
        ("subject: {zh: 头数, en: Heads}\n", "", "needs a subject"),
        ("rest: plan.model.num_heads %", "rest: plan.model.num_heads %%", "unexpected"),
    ],
)
def test_the_linter_refuses(folder, old, new, why):
    base = folder(a=(old, new))
    assert any(why in p.text for p in base.problems), base.problems


def test_examples_of_a_condition_are_run(folder, tmp_path):
    from doctor import ruletest

    folder()
    ran, failed, problems = ruletest.run(folder=str(tmp_path / "rules"))
    assert (ran, failed, problems) == (3, [], [])
    folder(a=("num_heads: 3}", "num_heads: 4}"))
    _, failed, _ = ruletest.run(folder=str(tmp_path / "rules"))
    assert "does not fail" in str(failed[0])


def test_facts_of_a_machine_are_taken_where_they_are_known():
    facts = {
        "ver.mindspore": Fact("ver.mindspore", {"version": "2.7.0"}),
        "ver.mindformers": Unknown("ver.mindformers", "no_mindspore"),
        "host.cpu": Fact("host.cpu", {"count": 192}),
        "npu.table": Fact("npu.table", [{"name": "910B3", "memory": (100, 65536)}, {"name": "910B3", "memory": None}]),
    }
    assert judge.facts_of(facts) == {
        "version.mindspore": "2.7.0", "host.cores": 192, "host.devices": 2, "npu.hbm_gib": 64.0, "npu.soc": "910B3",
    }  # fmt: skip
    assert judge.facts_of({}) == {}
    assert all("fact." + name in FIELDS for name in judge.facts_of(facts))


def test_the_cores_of_a_machine_without_an_npu_say_nothing_of_the_host_that_trains():
    cpu = Fact("host.cpu", {"count": 2})
    assert "host.cores" not in judge.facts_of({"host.cpu": cpu})
    assert judge.facts_of({"host.cpu": cpu, "npu.table": Fact("npu.table", [{"name": "910B3"}])})["host.cores"] == 2


def test_all_rules_judge_a_plain_plan_in_little_time():
    import time

    base = rulebase.load()
    text = config()
    judge.judge(detect.read("c.yaml", text), base)
    began = time.process_time()
    findings = judge.judge(detect.read("c.yaml", text), base)
    assert time.process_time() - began < 0.1
    assert not [f for f in findings if f.verdict is Verdict.CRASH]
    assert "PAR510" in {f.id for f in findings if f.verdict is Verdict.FAIL}
