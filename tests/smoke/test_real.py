"""MindSpore itself: the layer is right, faults are named, nothing is left behind. Slow; the marker is ``smoke``."""

import json
import os

import pytest

from doctor import smoke
from doctor.smoke.faults import NAMES
from doctor.smoke.settings import Settings

pytestmark = [pytest.mark.smoke, pytest.mark.timeout(900)]

SMALL = Settings(layers=1, hidden=64, heads=4, seq=32, vocab=128, steps=20, limit=600.0)


def answers(report):
    """{rule: what it says} of the verdicts."""
    return {f.id: f.verdict.value for f in report.findings[: report.facts["smoke.verdicts"]["value"]]}


def test_the_default_run_is_right(trainer, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    report = smoke.run(python=trainer, limit=600)
    assert report.verdict == "healthy", [(d.rule, d.title["en"]) for d in report.diagnoses]
    said = answers(report)
    assert {said[rule] for rule in ("NUM607", "NUM608", "NUM610", "NUM611", "NUM612", "CKPT601", "CKPT602")} == {"pass"}
    assert said["NPU601"] == "not_applicable" and report.facts["smoke.device"]["value"] == "CPU"
    assert report.facts["smoke.parity"]["value"] <= 1e-5
    assert list(tmp_path.iterdir()) == []


def test_two_ranks_train_in_step(trainer, tmp_path):
    report = smoke.run(SMALL, python=trainer, ranks=2, workdir=str(tmp_path))
    assert report.verdict == "healthy", [(d.rule, d.title["en"]) for d in report.diagnoses]
    said = answers(report)
    assert said["HCCL601"] == said["HCCL602"] == said["RUN603"] == "pass"
    assert len(report.series) == 2


@pytest.mark.parametrize(
    "knobs",
    [
        {"mode": "graph", "positions": "rope", "gelu": "erf", "recompute": True},
        {"mode": "pynative", "accumulation": 2},
        {"dtype": "float16"},
        {"amp": "O2"},
        {
            "curve": True,
            "kv_heads": 2,
            "norm": "rms",
            "activation": "silu",
            "gated": True,
            "ffn": 176,
            "untied": True,
            "positions": "rope",
            "optimizer": "adam",
        },
        {"curve": True, "optimizer": "sgd", "rate": 0.5, "head_dim": 32},
    ],
)
def test_other_settings_are_right(trainer, knobs):
    report = smoke.run(SMALL, python=trainer, **knobs)
    assert report.verdict == "healthy", [(d.rule, d.title["en"]) for d in report.diagnoses]
    assert answers(report)["NUM607"] == "pass"


def test_a_configuration_is_tried_and_its_losses_are_those_of_numpy(trainer, tmp_path):
    path = tmp_path / "config.json"
    shape = {"model_type": "qwen2", "hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14,
             "num_key_value_heads": 2, "intermediate_size": 4864, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
             "vocab_size": 151936}  # fmt: skip
    path.write_text(json.dumps(shape))
    report = smoke.run(from_config=str(path), python=trainer, steps=12, limit=600)
    assert report.verdict == "healthy", [(d.rule, d.title["en"]) for d in report.diagnoses]
    said = answers(report)
    assert said["NUM613"] == said["NUM607"] == said["NUM612"] == "pass"
    assert said["NUM605"] == said["CKPT602"] == "not_applicable"


@pytest.mark.parametrize("name", NAMES)
def test_a_fault_is_named_right_and_first(trainer, name):
    report = smoke.run(SMALL, python=trainer, inject=name)
    heads = [(d.rule, d.title["en"]) for d in report.diagnoses]
    assert report.facts["smoke.caught"]["value"] is True, heads
    assert report.timings["run"] < 120 or os.getloadavg()[0] > 2


def test_weights_of_the_user_are_mapped_and_a_file_of_another_kind_is_told(trainer, tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_bytes((2).to_bytes(8, "little") + b"{}")
    report = smoke.run(SMALL, python=trainer, weights=str(path))
    assert answers(report)["RUN604"] == "fail"
    assert report.facts["smoke.stages"]["value"].keys() >= {"weights"}
    assert "no GPT-2 weights" in json.dumps([f.args for f in report.findings])
