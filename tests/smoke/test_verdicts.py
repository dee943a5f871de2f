"""Verdicts of runs that are whole, cut off, refused or strange; each hit and miss stands in its rule too."""

import pytest

from doctor import checkup
from doctor.model import Verdict
from doctor.smoke import judge
from doctor.smoke.compose import example, recorded
from doctor.smoke.settings import Settings
from doctor.smoke.verdicts import ORDER, Run, step_seconds


def said(run):
    """{verdict name: what it says}."""
    return {function.__name__: function(run).verdict.value for function in ORDER}


def test_a_healthy_run_fails_nowhere_and_claims_no_npu():
    answers = said(example({}))
    assert "fail" not in answers.values() and "unknown" not in answers.values()
    assert answers["device"] == answers["flash"] == "not_applicable"
    assert answers["parity"] == answers["fresh_loss"] == answers["resumed"] == "pass"


def test_a_healthy_run_of_two_ranks_also_has_the_verdicts_of_ranks():
    answers = said(example({"base": "cpu-2-ranks"}))
    assert "fail" not in answers.values()
    assert answers["collectives"] == answers["ranks_equal"] == answers["ranks_started"] == "pass"


@pytest.mark.parametrize("stage", ["context", "compile", "backward", "train", "save", "evaluate"])
def test_what_a_run_did_not_reach_is_unknown_and_never_passes(stage):
    run = example({"until": stage, "code": -9})
    answers = said(run)
    assert answers["ended"] == "fail" and run.stage == stage
    for name in ("fresh_loss", "cache", "mapping"):
        assert answers[name] == "unknown"


@pytest.mark.parametrize("problem", ["work_folder", "disk_full", "mindspore_absent", "numpy_too_new"])
def test_a_refused_run_has_one_failure_and_nothing_that_was_not_looked_at_passes(problem):
    args = {"path": "/x", "python": "/y", "stage": "prepare", "why": "no", "version": "2.10.0", "numpy": "2.1"}
    answers = said(example({"problem": problem, "args": args}))
    assert [name for name, verdict in answers.items() if verdict == "fail"] == [
        {"disk_full": "disk_space", "mindspore_absent": "mindspore_present", "numpy_too_new": "numpy_fits"}.get(
            problem, problem
        )
    ]
    assert not {n for n, v in answers.items() if v == "pass"} - {"mindspore_present", "numpy_fits", "work_folder"}


def test_a_run_without_one_event_is_no_pass():
    answers = said(Run(Settings(), code=7))
    assert answers["stages"] == "fail"
    assert not {n for n, v in answers.items() if v == "pass"} & {"loss_finite", "parity", "parameters_changed"}


@pytest.mark.parametrize("state", ["cancelled", "limit"])
def test_a_run_that_was_ended_is_no_run_that_ended_by_itself(state):
    answers = said(example({"until": "train", "state": state, "code": -15}))
    assert answers["ended"] == answers["loss_halved"] == "unknown"
    assert answers["in_time"] == ("fail" if state == "limit" else "unknown")


def test_a_child_that_ends_well_without_saying_so_is_a_failure():
    assert said(Run(Settings(), code=0))["ended"] == "fail"


def test_an_overflow_behind_a_raised_scale_is_how_the_scale_is_found():
    steps = {"12": {"finite": True, "scale": 65536.0}, "13": {"finite": False, "scale": 32768.0}}
    assert said(example({"measure": {"model.scaled": True}, "steps": steps}))["updates_skipped"] == "pass"


def test_a_skipped_step_may_have_a_loss_that_is_not_finite():
    steps = {"13": {"finite": False, "scale": 32768.0, "loss": "inf"}}
    assert said(example({"measure": {"model.scaled": True}, "steps": steps}))["loss_finite"] == "pass"


def test_other_shapes_need_not_halve_the_loss():
    falling = [9.1] + [8.0] * 38 + [7.9]
    assert said(example({"losses": falling}))["loss_halved"] == "fail"
    assert said(example({"losses": falling, "settings": {"hidden": 768}}))["loss_halved"] == "pass"


def test_a_missing_reduce_scatter_counts_on_ascend_and_not_on_the_cpu():
    lacking = {"collective.ReduceScatter.device": "Ascend"}
    assert said(example({"base": "cpu-2-ranks", "measure": lacking}))["collectives"] == "fail"
    assert said(example({"base": "cpu-2-ranks"}))["collectives"] == "pass"


def test_limits_depend_on_the_dtype():
    off = {"parity.distance": 0.005}
    assert said(example({"measure": off}))["parity"] == "fail"
    assert said(example({"measure": {**off, "parity.dtype": "float16"}}))["parity"] == "pass"


def test_limits_grow_with_the_shapes():
    off = {"measure": {"parity.distance": 2e-5}}
    assert said(example(off))["parity"] == "fail"
    assert said(example({**off, "settings": {"hidden": 768, "heads": 12}}))["parity"] == "pass"
    assert said(example({**off, "settings": {"hidden": 64}}))["parity"] == "fail"


def test_with_dropout_only_what_was_loaded_is_compared():
    off = {"measure": {"resumed.distance": 0.03}}
    assert said(example(off))["resumed"] == "fail"
    assert said(example({**off, "settings": {"dropout": 0.1}}))["resumed"] == "pass"
    lost = {"measure": {"resumed.missing": ["a"]}, "settings": {"dropout": 0.1}}
    assert said(example(lost))["resumed"] == "fail"


def test_values_that_are_not_finite_fail():
    for value in ("nan", "inf"):
        answers = said(example({"measure": {"parity.distance": value, "fresh.loss": value, "gradient.error": value}}))
        assert answers["parity"] == answers["fresh_loss"] == answers["gradient"] == "fail"


def test_a_baseline_of_zero_or_of_other_names_says_nothing():
    assert said(example({"baseline": {"step_seconds": 0.0}}))["speed"] == "not_applicable"
    assert said(example({"baseline": {"other": 1.0}}))["memory"] == "not_applicable"


def test_the_step_time_is_the_median_without_the_first_steps():
    run = recorded("cpu", {})
    times = sorted(event.row["seconds"] for event in run.steps[0][2:])
    assert step_seconds(run) == times[len(times) // 2]


def test_each_verdict_has_its_rule_and_each_rule_its_verdict(base):
    assert [spec.call.rpartition(":")[2] for spec in judge.specs(base)] == [f.__name__ for f in ORDER]
    assert sum(rule.kind == "smoke" for rule in base) == len(ORDER)


def test_a_verdict_that_crashes_is_said_and_is_no_health(base, monkeypatch):
    spec = judge.specs(base)[0]
    monkeypatch.setattr(judge, "ORDER", (lambda run: 1 / 0,))
    judge.ORDER[0].__name__ = spec.call.rpartition(":")[2]
    assert judge.judge(spec, example({})).verdict is Verdict.CRASH


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"measure": {"model.dtypes": ["float16"], "fresh.loss": "nan"}, "losses": [6.2] + ["nan"] * 39}, "NUM602"),
        ({"measure": {"changed.still_count": 18, "fresh.loss": 6.3}, "losses": [6.2] * 40}, "CODE601"),
        ({"measure": {"changed.moved": 3.0, "fresh.loss": 13.0}, "losses": [6.2] + [18.0] * 39}, "NUM603"),
        ({"measure": {"parity.distance": 3.0, "mapping.distance": 3.0, "fresh.loss": 7.0}}, "NUM607"),
        ({"losses": [6.2] * 40, "measure": {"fresh.loss": 6.4}}, "NUM605"),
        ({"problem": "numpy_too_new", "args": {"python": "p", "version": "2.10.0", "numpy": "2.0"}}, "ENV604"),
    ],
)
def test_the_cause_heads_and_what_it_led_to_stands_below(base, changes, first):
    findings = [judge.judge(spec, example(changes)) for spec in judge.specs(base)]
    diagnoses = checkup.diagnose(base, findings)
    assert diagnoses[0].rule == first
    assert len(diagnoses) == 1, [d.rule for d in diagnoses]
    assert diagnoses[0].evidence


def test_a_composed_run_knows_no_other_words():
    with pytest.raises(ValueError, match="colour"):
        example({"colour": 1})
    with pytest.raises(ValueError, match="no stage"):
        example({"until": "lunch"})
