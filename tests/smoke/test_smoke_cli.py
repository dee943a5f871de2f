"""``doctor smoke`` as its user calls it."""

import json
import re

import jsonschema
import pytest

from doctor.cli import run
from doctor.i18n import LANGUAGES
from doctor.render.json import schema
from doctor.render.text import plain
from doctor.smoke import judge, show
from doctor.smoke.compose import example


def text(base, changes, lang="en", **options):
    report = judge.report_of(base, example(changes), (), b"", "/work")
    return plain(show.layout(report, lang, **options))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize(
    "changes",
    [
        {}, {"base": "cpu-2-ranks"}, {"until": "train", "code": -9}, {"measure": {"parity.distance": "inf"}},
        {"problem": "mindspore_absent", "args": {"python": "/x"}}, {"state": "cancelled", "until": "compile"},
        {"losses": ["nan"] * 40}, {"baseline": {"step_seconds": 1e-9, "host_mib": 1e-9}},
    ],
)  # fmt: skip
def test_every_report_can_be_read_in_both_languages_and_fits_its_schema(base, changes, lang):
    report = judge.report_of(base, example(changes), (), b"", "/work")
    from doctor.render.json import render

    found = json.loads(render(report), parse_constant=pytest.fail)
    jsonschema.validate(found, schema())
    words = [f.title[lang] for f in report.findings] + [d.cause[lang] + d.next[lang] for d in report.diagnoses]
    assert not [w for w in words if re.search(r"\{\w+\??\}", w)]
    shown = plain(show.layout(report, lang, every=True))
    assert all(f.id in shown for f in report.findings)
    narrow = plain(show.layout(report._replace(diagnoses=()), lang, columns=60, ascii_only=True))
    assert lang == "zh" or narrow.isascii()


def test_a_pass_on_the_cpu_claims_no_npu(base):
    shown = text(base, {})
    assert shown.startswith("✔ confirmed on the CPU")
    assert "NPU, HCCL and flash attention were not exercised" in shown
    assert "no NPU device file here" in shown


def test_a_failure_is_no_confirmation(base):
    shown = text(base, {"measure": {"parity.distance": 0.5}})
    assert "confirmed" not in shown and "1. ✖ The layer differs from numpy float64 by 0.5" in shown


def test_bfloat16_on_the_cpu_is_said_to_be_float32(base):
    assert "float32 was used instead" in text(base, {"measure": {"device.dtype_replaced": True}})


def test_the_table_of_a_comparison_lines_up(base):
    report = judge.report_of(base, example({}), (), b"", "/work")
    told = {"compile_seconds": 1.0, "host_mib": 9.0, "loss": 2.0}
    rows = [
        {"name": "", "value": "", "state": "ended", "step_seconds": 0.1, **told},
        {"name": "mode", "value": "graph", "state": "ended", "step_seconds": 0.2, **told},
        {"name": "attention", "value": "flash", "state": "not_here"},
        {"name": "amp", "value": "O2", "state": "failed", "stage": "compile", "text": "boom"},
    ]
    report.facts["smoke.compare"] = {"value": rows, "source": "", "line": 0}
    lines = plain(show.layout(report, "en")).splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("  setting"))
    assert lines[at + 2].split() == ["mode=graph", "0.2", "2.00", "1", "9", "2"]
    assert "not on the CPU" in lines[at + 3] and "failed in stage compile: boom" in lines[at + 4]
    assert lines[at].index("s a step") == lines[at + 1].index("0.1")


@pytest.mark.parametrize(
    "words",
    [
        ["--hidden", "100", "--heads", "12"], ["--mode", "fast"], ["--inject", "nothing"], ["--layers", "x"],
        ["--python", "/nowhere/python"], ["--compare", "colour"], ["--amp", "O1"], ["--from-config", "x.yaml"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_wrong_call_is_one_line_and_code_2(words, lang, capsys):
    assert run(["smoke", "--lang", lang, *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("doctor: ") and len(err.splitlines()) <= 2


def test_the_report_goes_to_stdout_and_the_code_tells(fake, capsys):
    fake("killed")
    assert run(["smoke", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["target"]["kind"] == "smoke"
    assert found["diagnoses"][0]["rule"] == "RUN601"
    assert run(["smoke", "--lang", "zh"]) == 1
    assert "训练子进程在阶段 train 中途消失" in capsys.readouterr().out


def test_a_baseline_is_written_once_and_then_compared_with(fake, tmp_path, capsys):
    path = tmp_path / "base.json"
    run(["smoke", "--baseline", str(path)])
    assert "written as the baseline" in capsys.readouterr().out
    kept = json.loads(path.read_text())
    (key,) = kept["runs"]
    assert kept["runs"][key]["step_seconds"] == 0.01
    kept["runs"][key]["step_seconds"] = 0.001
    path.write_text(json.dumps(kept))
    run(["smoke", "--baseline", str(path)])
    out = capsys.readouterr().out
    assert "A step takes 10.00 times the baseline" in out and "written as" not in out
    assert json.loads(path.read_text()) == kept


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"format": "other"}', "\x00"])
def test_a_file_that_is_no_baseline_is_refused_and_left_as_it_is(fake, tmp_path, capsys, content):
    path = tmp_path / "base.json"
    path.write_text(content)
    assert run(["smoke", "--baseline", str(path)]) == 2
    assert "no baseline file" in capsys.readouterr().err
    assert path.read_text() == content


def test_the_help_names_every_fault(capsys):
    assert run(["smoke", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split()).replace("- ", "-")
    assert "padded-keys" in out and "worker-missing" in out
