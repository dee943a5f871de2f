"""Configurations under the paths of ``doctor check``, and those given to ``doctor diagnose``."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from doctor.cli import run
from doctor.engine import diagnose
from doctor.render.json import schema

CONFIG = """\
use_parallel: True
parallel_config:
  data_parallel: 8
  model_parallel: 3
  pipeline_stage: 1
model:
  model_config:
    type: LlamaConfig
    seq_length: 4096
    hidden_size: 4096
    num_layers: 32
    num_heads: 32
    vocab_size: 32000
"""
SOUND = CONFIG.replace("model_parallel: 3", "model_parallel: 1")


def failed(report: dict[str, object]) -> list[str]:
    return [d["rule"] for d in report["diagnoses"]]  # type: ignore[attr-defined,index]


def test_a_wrong_configuration_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "train.yaml").write_text(CONFIG)
    (tmp_path / "conf" / "notes.md").write_text("model_parallel: 3")
    code = run(["check", str(tmp_path), "--only", "model", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema()).validate(report)
    assert code == 1 and "PAR510" in failed(report)
    evidence = next(d for d in report["diagnoses"] if d["rule"] == "PAR510")["evidence"][0]
    assert evidence["source"].endswith("train.yaml") and evidence["line"] == 4
    assert [i["state"] for i in report["inputs"]] == ["read"]


def test_a_sound_configuration_is_quiet_and_its_memory_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(SOUND)
    assert run(["check", str(path), "--only", "model", "--lang", "en"]) == 0
    assert "train.yaml" in capsys.readouterr().out


def test_paths_that_cannot_be_read_are_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["check", str(tmp_path / "none.yaml"), "--only", "model", "--lang", "en"])
    out = capsys.readouterr().out
    assert code == 2 and "none.yaml could not be read" in out and "Traceback" not in out


def test_a_configuration_given_to_diagnose_is_judged(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(CONFIG)
    report = diagnose([str(path)])
    assert "PAR510" in [d.rule for d in report.diagnoses] and report.inputs[0].state == "read"
    path.write_text(SOUND)
    assert not [d for d in diagnose([str(path)]).diagnoses if d.severity in ("error", "warning")]


def test_a_configuration_inside_a_paste_keeps_its_lines() -> None:
    paste = "$ cat train.yaml\n" + CONFIG + "$ ls\n"
    report = diagnose([], paste=paste.encode())
    found = [d for d in report.diagnoses if d.rule == "PAR510"]
    assert found and found[0].evidence[0].line in (4, 5)


def test_a_log_and_its_configuration_together(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text(CONFIG)
    (tmp_path / "worker_0.log").write_text(
        "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
        "RuntimeError: Unsupported device target Ascend. This process only supports one of the ['CPU'].\n"
    )  # fmt: skip
    rules = [d.rule for d in diagnose([str(tmp_path)]).diagnoses]
    assert "PAR510" in rules and len(rules) > 1
