"""What an error message went through on its way into the paste must not hide it."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest

from doctor.engine import diagnose
from doctor.scan.read import straightened

SAMPLES = Path(__file__).resolve().parents[2] / "fixtures" / "hosts" / "samples"

LOG = """\
[WARNING] DEVICE(4121,ffff8,python):2025-03-04-10:11:12.345.678 [mindspore/ccsrc/a.cc:12] Run] slow start
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    model.train(1, dataset)
  File "/usr/lib/python3.10/site-packages/mindspore/train/model.py", line 1082, in train
    self._train(epoch)
ImportError: cannot import name 'find_pruneable_heads' from 'transformers.pytorch_utils' (/usr/lib/python3.10/x.py)
"""


def first(text: str) -> tuple[str, int]:
    """(topic, line) of the first diagnosis of a paste."""
    found = diagnose([], paste=text.encode()).diagnoses
    return (found[0].topic, found[0].evidence[0].line) if found else ("", 0)


def each(text: str, form: str) -> str:
    return "".join(form.format(line) + "\n" for line in text.splitlines())


def wrapped(text: str, width: int) -> str:
    return "".join(line[k : k + width] + "\n" for line in text.splitlines() for k in range(0, len(line), width))


@pytest.mark.parametrize(
    "bent",
    [
        LOG.replace("\n", "\r\n"),
        LOG.replace(" ", "\u00a0"),
        LOG.replace("'", "\u2019"),
        html.escape(LOG),
        each(LOG, "> {}"),
        each(LOG, "trainer-1  | {}"),
        each(LOG, "2026-01-02T03:04:05.123456789Z stderr F {}"),
        each(LOG, "\x1b[36m(RayWorkerWrapper pid=4321)\x1b[0m {}"),
        "".join(json.dumps({"log": line + "\n", "stream": "stderr"}) + "\n" for line in LOG.splitlines()),
    ],
    ids=["crlf", "nbsp", "quotes", "html", "quoted", "compose", "k8s", "ray", "docker-json"],
)
def test_same_diagnosis_in_other_clothes(bent: str) -> None:
    assert first(bent) == first(LOG) == ("version.library_api", 7)


@pytest.mark.parametrize("width", [80, 100])
def test_wrapped_by_a_terminal(width: int) -> None:
    bent = wrapped(LOG, width)
    topic, line = first(bent)
    assert topic == "version.library_api"
    assert bent.splitlines()[line - 1].startswith("ImportError")


def test_unwrapped_keeps_line_numbers() -> None:
    assert straightened(wrapped("x" * 170 + "\nshort\n", 80).encode()) == b"x" * 170 + b"\n\n\nshort\n"


def test_lines_of_a_table_are_not_joined_below_the_narrowest() -> None:
    table = b"| a | b |\n| 1 | 2 |\n"
    assert straightened(table) == table


def test_lines_glued_behind_a_quiet_record_are_not_healthy() -> None:
    glued = "INFO 01-03 09:26:52 [runner.py:1912] Loading took 0.9 GB [ERROR] the frobnicator does not match"
    report = diagnose([], paste=glued.encode())
    assert report.verdict == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "| 507015 | ACL_ERROR_RT_AICORE_EXCEPTION | aicore exception |",
        "1a2b3c4d docs: explain error code 507015",
        "  return ACL_ERROR_RT_AICORE_EXCEPTION;  // 507015",
    ],
)
def test_what_names_a_code_does_not_report_it(text: str) -> None:
    assert diagnose([], paste=text.encode()).verdict != "error"
    assert first("E29999: Inner error, error code 507015, aicore exception")[0]


def test_rows_of_a_table_stay_rows(tmp_path: Path) -> None:
    path = SAMPLES / "npu-smi_info__910B3__24.1.0__alarm-npu3.txt"
    stamped = "".join(f"2025-06-01 10:00:00 {line}\n" for line in path.read_text().splitlines())
    (tmp_path / "watch.log").write_text(stamped)
    report = diagnose([str(tmp_path / "watch.log")])
    assert [d.rule for d in report.diagnoses] == ["NPU036"]
    line = report.diagnoses[0].evidence[0].line
    assert "Alarm" in stamped.splitlines()[line - 1]
