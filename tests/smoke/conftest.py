"""A worker that only pretends, and the interpreter that really trains."""

import os
import subprocess
import sys

import pytest

from doctor.smoke import runner

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = {"python": "3.11.0", "mindspore": "2.10.0", "numpy": "1.26.4"}


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """fake("hang"): the worker does that; temporary folders are made below the test's own."""
    monkeypatch.setattr(runner, "WORKER", os.path.join(HERE, "fake_worker.py"))
    monkeypatch.setattr(runner, "examine", lambda python: runner.Target(sys.executable, VERSIONS))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))

    def does(what):
        monkeypatch.setenv("SMOKE_FAKE", what)

    does("")
    return does


@pytest.fixture(scope="session")
def trainer():
    """An interpreter that has MindSpore: DOCTOR_SMOKE_PYTHON, else this one."""
    python = os.environ.get("DOCTOR_SMOKE_PYTHON") or sys.executable
    code = "import importlib.metadata as m; print(m.version('mindspore'))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python} has no MindSpore: pip install -e '.[smoke]', or name one in DOCTOR_SMOKE_PYTHON")
    return python
