"""The report as JSON is what its schema says, for good inputs and bad ones."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from doctor import engine, model
from doctor.cli import run
from doctor.render.json import SCHEMA, render, schema
from doctor.scan import kinds

ROOT = Path(__file__).resolve().parent.parent
FAILED = (
    "[ERROR] HCCL(4711,python):2026-03-01-08:15:02.123.456 [x.cc:30] wait timeout\n"
    "Traceback (most recent call last):\n"
    '  File "/home/user/train.py", line 3, in <module>\n'
    "RuntimeError: something that nobody has seen before\n"
)


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    found = schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def reported(inputs: list[str], **options: Any) -> dict[str, Any]:
    paste = options.pop("paste", None)
    report = engine.diagnose(inputs, engine.Options(jobs=1, **options), paste=paste)
    found: dict[str, Any] = json.loads(render(report))
    return found


def write(path: Path, data: bytes | str) -> str:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return str(path)


def damaged_tar() -> bytes:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w") as tar:
        member = tarfile.TarInfo("worker_0.log")
        body = FAILED.encode() * 400
        member.size = len(body)
        tar.addfile(member, io.BytesIO(body))
    return gzip.compress(inner.getvalue())[:-200]


INPUTS: dict[str, bytes | str] = {
    "an unrecognised failure": FAILED,
    "an error code": "[ERROR] RUNTIME(9,python):2026-03-01-08:15:02.1.2 [a.cc:1] call failed, ret=507011\n",
    "versions": "mindspore 2.6.0\nCANN version: 8.1.RC1\n" + FAILED,
    "an empty file": "",
    "binary": bytes(range(256)) * 64,
    "GBK and junk": "训练失败：内存不足\n".encode("gbk") + b"\xff\xfe\x00" + FAILED.encode(),
    "hostile text": "\x1b]8;;http://x\x07Error: \u202e\u200b password=hunter2hunter2 \x1b[31m\n" + FAILED,
    "lone surrogate bytes": b"RuntimeError: \xed\xa0\x80 bad\n",
    "a config": "runner_config:\n  epochs: 1\n  batch_size: 4\nmodel:\n  hidden_size: 4096\n",
    "npu-smi": "+------+\n| npu-smi 24.1.rc2   Version: 24.1.rc2 |\n| 0 910B | OK | 90.1 | 36 | 0 / 0 |\n+------+\n",
    "a damaged archive": damaged_tar(),
    "one line without an end": "Killed",
}


@pytest.mark.parametrize("name", INPUTS)
def test_report_of_any_input_fits_the_schema(
    name: str, tmp_path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(reported([write(tmp_path / "worker_3.log", INPUTS[name])]))


@pytest.mark.parametrize("name", INPUTS)
def test_report_of_any_paste_fits_the_schema(name: str, validator: jsonschema.Draft202012Validator) -> None:
    data = INPUTS[name]
    validator.validate(reported([], paste=data.encode() if isinstance(data, str) else data))


def test_report_of_the_demo_fits_the_schema_and_its_indices_point_at_findings(
    validator: jsonschema.Draft202012Validator,
) -> None:
    report = reported([str(ROOT / "fixtures" / "demo")])
    validator.validate(report)
    assert report["schema"] == SCHEMA
    assert report["verdict"] == "error"
    assert report["diagnoses"]
    for diagnosis in report["diagnoses"]:
        assert report["findings"][diagnosis["finding"]]["id"] == diagnosis["rule"]
        assert all(0 <= index < len(report["findings"]) for index in diagnosis["consequences"])


@pytest.mark.parametrize("name", sorted(os.listdir(ROOT / "fixtures" / "healthy")))
def test_report_of_a_healthy_log_fits_the_schema(name: str, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(reported([str(ROOT / "fixtures" / "healthy" / name)]))


def test_reports_of_missing_stopped_and_mixed_inputs_fit_the_schema(
    tmp_path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    log = write(tmp_path / "worker_0.log", FAILED)
    (tmp_path / "nothing").mkdir()
    validator.validate(reported([str(tmp_path / "missing.log")]))
    validator.validate(reported([str(tmp_path / "nothing")]))
    validator.validate(reported([log, str(tmp_path / "missing.log"), write(tmp_path / "worker_1.log", "")]))
    stopped = reported([log], cancelled=lambda: True)
    validator.validate(stopped)
    assert set(stopped["partial"]) == {"zh", "en"}


def test_report_with_a_broken_rule_file_fits_the_schema(
    tmp_path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    rules = tmp_path / "rules"
    (rules / "codes").mkdir(parents=True)
    (rules / "run").mkdir()
    write(rules / "topics.yaml", (ROOT / "rules" / "topics.yaml").read_bytes())
    write(rules / "run" / "RUN001.yaml", "id: [RUN001\n")
    report = reported([write(tmp_path / "worker_0.log", FAILED)], rules=str(rules))
    validator.validate(report)
    assert any(finding["id"] == "RULES" for finding in report["findings"])


def test_schema_refuses_what_no_report_holds(validator: jsonschema.Draft202012Validator) -> None:
    good = reported([], paste=FAILED.encode())
    assert good["diagnoses"]
    for spoil in (
        lambda r: r.update(verdict="fine"),
        lambda r: r.update(extra=1),
        lambda r: r.pop("inputs"),
        lambda r: r["diagnoses"][0].update(severity="fatal"),
        lambda r: r["diagnoses"][0].update(confidence="sure"),
        lambda r: r["diagnoses"][0]["title"].pop("zh"),
        lambda r: r["findings"][0].update(verdict="maybe"),
        lambda r: r["findings"][0].update(place={"rank": 0}),
        lambda r: r["inputs"][0].update(state="seen"),
    ):
        bad = json.loads(json.dumps(good))
        spoil(bad)
        assert not validator.is_valid(bad)


def test_every_object_of_the_schema_names_all_its_keys(validator: jsonschema.Draft202012Validator) -> None:
    def objects(node: Any) -> list[dict[str, Any]]:
        if isinstance(node, list):
            return [o for item in node for o in objects(item)]
        if not isinstance(node, dict):
            return []
        own = [node] if "properties" in node and isinstance(node.get("type"), str) else []
        return own + [o for item in node.values() for o in objects(item)]

    found = objects(schema())
    assert len(found) > 10
    for node in found:
        assert node["additionalProperties"] is False
        assert set(node["required"]) == set(node["properties"])


def test_enumerations_of_the_schema_are_those_of_the_model() -> None:
    found = schema()
    defs = found["$defs"]
    assert tuple(defs["severity"]["enum"]) == model.SEVERITIES
    assert tuple(defs["confidence"]["enum"]) == model.CONFIDENCES
    assert tuple(defs["finding"]["properties"]["role"]["enum"]) == model.ROLES
    assert set(defs["finding"]["properties"]["verdict"]["enum"]) == {v.value for v in model.Verdict}
    assert set(defs["input"]["properties"]["kinds"]["items"]["enum"]) == set(kinds.KINDS)


def test_schema_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()
