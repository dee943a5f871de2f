"""The engine of ``doctor check``: selection, verdicts, diagnoses, exit codes, output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from doctor import checkup, compare, model
from doctor.checkup import Spec, diagnose, exit_code, judge, names, plain, reason, verdict_of
from doctor.cli import run
from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import load
from doctor.model import Answer, Evidence, Fact, Finding, Place, Report, Unknown, Verdict
from doctor.render import checks as page
from doctor.render.json import schema
from doctor.render.text import plain as joined
from doctor.rulebase import load as load_rules

HOSTS = Path(__file__).resolve().parent.parent / "fixtures" / "hosts"


@pytest.fixture(scope="module")
def base():  # type: ignore[no-untyped-def]
    return load_rules()


def spec_of(base: Any, rule: str, call: str = "", needs: tuple[str, ...] = ()) -> Spec:
    whole = base.whole(rule)
    return Spec(
        base[rule], whole, call or whole["match"]["check"]["call"], needs or tuple(whole["match"]["check"]["needs"])
    )


def broken_check(fact: Fact) -> Answer:
    raise KeyError(fact.name)


def two_devices(fact: Fact) -> list[Answer]:
    return [model.fail({"device": n}, place=Place(device=n), severity="warning") for n in fact.value]


def optional(fact: Fact | Unknown) -> Answer:
    return model.passed() if isinstance(fact, Unknown) else model.unknown("no_tool", "as_root", tool="x")


# ------------------------------------------------------------------ judging


def test_a_fact_that_is_unknown_makes_the_check_unknown_with_the_reason(base: Any) -> None:
    spec = spec_of(base, "NPU507", "test_checkup:two_devices", ("a",))
    finding = judge(spec, {"a": Unknown("a", "timeout", "as_root", {"seconds": "3"})})[0]
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.why["en"] == "no answer within 3 s; run the doctor as root for this"
    assert "3 秒" in finding.why["zh"]
    assert judge(spec, {"a": Unknown("a", "no_npu", applies=False)})[0].verdict is Verdict.NOT_APPLICABLE
    assert judge(spec, {})[0].verdict is Verdict.UNKNOWN


def test_a_check_that_may_do_without_a_fact_gets_the_unknown(base: Any) -> None:
    spec = spec_of(base, "NPU507", "test_checkup:optional", ("a?",))
    assert judge(spec, {"a": Unknown("a", "timeout")})[0].verdict is Verdict.PASS
    said = judge(spec, {"a": Fact("a", 1)})[0]
    assert said.verdict is Verdict.UNKNOWN and said.why["en"].startswith("x is not here")


def test_a_check_that_fails_itself_is_a_crash_and_no_verdict(base: Any) -> None:
    finding = judge(spec_of(base, "NPU507", "test_checkup:broken_check", ("a",)), {"a": Fact("a", 1)})[0]
    assert finding.verdict is Verdict.CRASH and "KeyError" in finding.why["en"]


def test_one_rule_may_fail_at_several_places(base: Any) -> None:
    found = judge(spec_of(base, "NPU507", "test_checkup:two_devices", ("a",)), {"a": Fact("a", [3, 5])})
    assert [(f.place.device, f.severity, f.args["device"]) for f in found] == [(3, "warning", "3"), (5, "warning", "5")]
    diagnosis = diagnose(base, found)[0]
    assert diagnosis.times == 2 and diagnosis.place == Place() and "NPU 5" in diagnosis.note["en"]
    alone = judge(spec_of(base, "NPU507", "test_checkup:two_devices", ("a",)), {"a": Fact("a", [])})
    assert [f.verdict for f in alone] == [Verdict.PASS]


def test_words_select_groups_families_ids_and_globs(base: Any) -> None:
    spec = spec_of(base, "NPU507")
    for word in ("npu", "NPU", "NPU507", "npu507", "NPU5*", "device.*"):
        assert names(spec.rule, [word]), word
    for word in ("env", "HCCL", "NPU50", "hccl*", "NPU6*"):
        assert not names(spec.rule, [word]), word


# ------------------------------------------------------------------ diagnoses


def failed(rule: str, severity: str = "error", topic: str = "device.unhealthy") -> Finding:
    return Finding(rule, Verdict.FAIL, severity=severity, topic=topic, title={"zh": rule, "en": rule})


def test_the_worst_comes_first_and_what_is_explained_is_folded(base: Any) -> None:
    pairs = [(rule.id, e.target) for rule in base if rule.kind == "check" for e in rule.explains if e.target in base]
    assert pairs
    cause, consequence = pairs[0]
    found = diagnose(base, (failed(consequence), failed(cause)))
    assert [d.rule for d in found] == [cause] and found[0].consequences == (0,)


def test_what_is_worse_is_never_hidden_under_what_is_milder(base: Any) -> None:
    cause, consequence = next(
        (rule.id, e.target) for rule in base if rule.kind == "check" for e in rule.explains if e.target in base
    )
    found = diagnose(base, (failed(consequence, "error"), failed(cause, "warning")))
    assert [d.rule for d in found] == [consequence, cause]


def report_of(*verdicts: Verdict, severity: str = "advice", base: Any = None) -> Report:
    findings = tuple(failed("NPU507", severity)._replace(verdict=v) for v in verdicts)
    return Report({}, "unknown", diagnose(base, findings), findings)


def test_verdicts_and_exit_codes(base: Any) -> None:
    P, F, U, N, C = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE, Verdict.CRASH
    for verdicts, severity, said, code, strict in (
        ((P, U, N), "error", "healthy", 0, 1),
        ((P, N), "error", "healthy", 0, 0),
        ((U, N), "error", "unknown", 0, 1),
        ((N,), "error", "unknown", 0, 0),
        ((P, C), "error", "unknown", 0, 1),
        ((P, F), "advice", "advice", 0, 0),
        ((P, F), "warning", "warning", 0, 0),
        ((P, F), "error", "error", 1, 1),
    ):
        report = report_of(*verdicts, severity=severity, base=base)
        assert (verdict_of(report), exit_code(report), exit_code(report, strict=True)) == (said, code, strict)
    assert exit_code(report_of(P, F, severity="warning", base=base), "warning") == 1
    assert exit_code(report_of(P)._replace(interrupted=True)) == 130


def test_values_become_plain_data() -> None:
    assert plain({1: Place(device=2), "s": {3, 1}, "t": (1, None), "o": Verdict}) == {
        "1": {"host": None, "rank": None, "device": 2}, "s": [1, 3], "t": [1, None], "o": str(Verdict)}  # fmt: skip


def test_a_reason_without_a_text_is_shown_as_it_is() -> None:
    assert reason("", "", {}) == {} and reason("odd_code", "", {})["en"] == "odd_code"


# ------------------------------------------------------------------ command and output


def test_a_healthy_host_passes_in_both_languages_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(HOSTS / "a2-8p.yaml")
    for lang, word in (("zh", "项正常"), ("en", "passed")):
        assert run(["check", "--from", path, "--lang", lang]) == 0
        assert word in capsys.readouterr().out
    assert run(["check", "--from", path, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema()).validate(report)
    assert report["verdict"] in ("healthy", "advice") and report["target"]["live"] is False


def test_every_check_has_a_line_with_all(capsys: pytest.CaptureFixture[str], base: Any) -> None:
    run(["check", "--from", str(HOSTS / "cpu.yaml"), "--lang", "en", "--all"])
    out = capsys.readouterr().out
    for spec in checkup.specs(base):
        assert spec.rule.id in out
    assert "Traceback" not in out


def test_only_and_skip(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(HOSTS / "a2-8p.yaml")
    run(["check", "--from", path, "--format", "json", "--only", "npu,HCCL533", "--skip", "NPU507"])
    seen = {f["id"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert "HCCL533" in seen and "NPU506" in seen and "NPU507" not in seen
    assert all(i.startswith("NPU") or i == "HCCL533" for i in seen)
    assert run(["check", "--from", path, "--only", "nothing", "--lang", "en"]) == 2
    assert "no check is named nothing" in capsys.readouterr().err


def test_the_report_can_be_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "report.txt"
    assert run(["check", "--from", str(HOSTS / "cpu.yaml"), "--lang", "en", "--output", str(out)]) == 0
    assert capsys.readouterr().out == "" and "checks" in out.read_text()
    assert run(["check", "--from", str(HOSTS / "cpu.yaml"), "--output", str(tmp_path / "no" / "x")]) == 2


def test_hostile_answers_reach_no_terminal(base: Any) -> None:
    evil = "\x1b[31m[red]\u202e NPU \x1b]0;x\x07"
    evidence = Evidence(evil, 1, evil)
    finding = failed("NPU507")._replace(
        evidence=(evidence,), title={"zh": evil, "en": evil}, why={"zh": evil, "en": evil}
    )
    unknown_one = finding._replace(verdict=Verdict.UNKNOWN)
    report = Report({"kind": "host", "host": evil, "live": True, "against": ""}, "error",
                    diagnose(base, (finding,)), (finding, unknown_one))  # fmt: skip
    for every in (True, False):
        text = joined(page.layout(report, "en", every=every))
        assert not {"\x1b", "\x07", "\u202e"} & set(text)


# ------------------------------------------------------------------ comparing


def test_two_equal_hosts_do_not_differ_and_changed_ones_do(base: Any) -> None:
    facts = {"hccn.tls": Fact("hccn.tls", {0: {"switch": 0}, 1: {"switch": 0}})}
    other = {"hccn.tls": Fact("hccn.tls", {0: {"switch": 0}, 1: {"switch": 1}})}
    assert compare.judge("HCCL591", facts, facts).verdict is Verdict.PASS
    answer = compare.judge("HCCL591", facts, other)
    assert answer.verdict is Verdict.FAIL and answer.args["differences"] == "hccn.tls.1.switch: 0 / 1"
    assert compare.judge("HCCL591", facts, {}).verdict is Verdict.UNKNOWN


def test_variables_of_a_node_may_differ() -> None:
    here = Fact("host.env", {"HCCL_IF_IP": "192.0.2.1", "HCCL_BUFFSIZE": "200", "PATH": "/a"})
    there = Fact("host.env", {"HCCL_IF_IP": "192.0.2.2", "HCCL_BUFFSIZE": "400", "PATH": "/b"})
    found = compare.differences("host.env", ("*",), here, there)
    assert [(d.name, d.here, d.there) for d in found] == [("host.env.HCCL_BUFFSIZE", "200", "400")]


def test_a_host_against_itself_and_against_another(capsys: pytest.CaptureFixture[str]) -> None:
    a2, a3 = str(HOSTS / "a2-8p.yaml"), str(HOSTS / "a3-16d.yaml")
    said = []
    for other in (a2, a3):
        run(["check", "--from", a2, "--against", other, "--format", "json"])
        report = json.loads(capsys.readouterr().out)
        said.append({f["id"] for f in report["findings"] if f["id"].endswith("90") and f["verdict"] == "fail"})
        assert report["target"]["against"]
    assert said[0] == set() and said[1]


def test_every_subject_of_a_comparison_has_its_rule_and_its_probe(base: Any) -> None:
    given = {name for probe in checkup.probes.all_probes() for name in probe.gives}
    for subject in compare.SUBJECTS:
        assert subject.rule in base and subject.fact in given, subject


def test_an_interrupted_run_says_so() -> None:
    options = checkup.Options(cancelled=lambda: True)
    run_ = checkup.Checkup(MemoryHost({}, "h"), options)
    assert list(run_.steps()) == []
    report = run_.report()
    assert report.interrupted and report.partial and exit_code(report) == 130


def test_composed_hosts_of_the_project_can_all_be_read() -> None:
    for path in sorted(HOSTS.glob("*.yaml")):
        assert load(str(path)).raws, path.name


def test_what_fails_shows_where_and_every_reason_has_its_words(base: Any) -> None:
    for path in sorted(HOSTS.glob("*.yaml")):
        report = checkup.check(load(str(path)), base=base)
        for finding in report.findings:
            assert finding.verdict is not Verdict.CRASH, (path.name, finding.id, finding.why)
            if finding.verdict is Verdict.FAIL:
                assert finding.evidence and finding.evidence[0].source, (path.name, finding.id)
                for lang in ("zh", "en"):
                    assert "…" not in finding.title[lang][:-1], (path.name, finding.id, finding.title[lang])
            for lang in ("zh", "en"):
                for word in finding.why.get(lang, "").replace("；", "; ").split("; "):
                    assert "_" not in word or " " in word or "/" in word, (path.name, finding.id, word)


def test_who_gave_no_launch_does_not_differ_in_it() -> None:
    here = {"launch.settings": Fact("launch.settings", {"style": "none", "workers": None, "port": None})}
    there = {"launch.settings": Fact("launch.settings", {"style": "msrun", "workers": 16, "port": 8118})}
    other = {"launch.settings": Fact("launch.settings", {"style": "msrun", "workers": 8, "port": 8118})}
    assert compare.judge("RUN590", here, there).verdict is Verdict.UNKNOWN
    assert compare.judge("RUN590", there, other).verdict is Verdict.FAIL


def test_one_address_replaced_in_two_ways_is_no_difference() -> None:
    here = Fact("host.env", {"MS_SCHED_HOST": "10.0.0.10", "MS_X": "10.0.0.10", "MS_Y": "host1"})
    there = Fact("host.env", {"MS_SCHED_HOST": "10.3.1.10", "MS_X": "10.0.0.11", "MS_Y": "host2"})
    assert [d.name for d in compare.differences("host.env", ("*",), here, there)] == ["host.env.MS_X"]


def test_a_machine_for_inference_is_only_advised_on_its_chip(base: Any) -> None:
    whole = dict(load(str(HOSTS / "310p-duo.yaml")).raws)
    python = json.loads(whole["ask python"].out)
    python["packages"].pop("mindformers")
    python["imports"]["mindformers"] = None
    python.pop("mindformers")
    whole["ask python"] = whole["ask python"]._replace(out=json.dumps(python))
    report = checkup.check(MemoryHost(whole, "box"), base=base)
    assert {f.severity for f in report.findings if f.id == "VER528"} == {"advice"}
    assert report.verdict == "advice"


def test_options_that_cannot_be_meant_are_refused(cli: Any, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for more in (
        ("--launch", pipe),
        ("--launch", tmp_path),
        ("--nodes", "-3"),
        ("--devices", "0"),
        ("--nodes", "9" * 30),
    ):
        ran = cli("check", *more)
        assert ran.code == 2 and not ran.out and len(ran.err.strip().splitlines()) <= 2, ran


def test_the_proposed_settings_write_over_no_other_file(cli: Any, tmp_path: Path) -> None:
    mine, source = tmp_path / "mine.sh", str(HOSTS / "cpu.yaml")
    mine.write_text("export A=1\n")
    ran = cli("check", "--from", source, "--fix-env", mine)
    assert ran.code == 2 and mine.read_text() == "export A=1\n" and str(mine) in ran.err
    for _ in range(2):
        assert cli("check", "--from", source, "--fix-env", tmp_path / "new.sh").code == 0
    assert (tmp_path / "new.sh").read_text().startswith("#!/bin/sh")


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    command = [sys.executable, "-m", "doctor", "check", "--from", str(HOSTS / "cpu.yaml")]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=HOSTS.parent.parent
        )
    assert ran.returncode == 2 and len(ran.stderr.strip().splitlines()) == 1 and "doctor-crash" not in ran.stderr
