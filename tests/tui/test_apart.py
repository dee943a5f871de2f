"""Large logs are read in a process of their own, with the same report, progress, an end on request, and no harm."""

import os
import threading
import time

import pytest
from screen_helpers import HERE, diagnose, paste, settle, shows, text_of

from doctor import engine
from doctor.tui import apart
from doctor.tui import app as app_module

RULES = str(HERE / "rules")


def read(inputs, pasted="", cancelled=lambda: False, progress=lambda *told: None):
    return apart.diagnose(inputs, pasted, RULES, cancelled, progress)


def test_the_report_is_that_of_the_engine(run):
    want = engine.diagnose(["run"], engine.Options(rules=RULES))
    assert read(["run"])._replace(timings={}) == want._replace(timings={}) and want.diagnoses
    data = (run / "worker_1.log").read_bytes()
    want = engine.diagnose([], engine.Options(rules=RULES), paste=data)
    assert read([], str(run / "worker_1.log"))._replace(timings={}) == want._replace(timings={})


def test_progress_comes_and_a_request_to_end_is_heard(run):
    (run / "large.log").write_bytes((run / "worker_0.log").read_bytes() * 40_000)
    told, began = [], time.monotonic()
    report = read(["run"], cancelled=lambda: bool(told), progress=lambda *one: told.append(one))
    assert told and told[0][0] > 0 and told[0][2].startswith("run/")
    assert report.interrupted or report.partial
    assert time.monotonic() - began < 60


def test_a_failure_in_the_child_is_told_with_its_record(run, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(apart.Failed, match="FileNotFoundError") as failed:
        read([], str(tmp_path / "gone.log"))
    assert os.path.exists(failed.value.path)


def test_a_child_that_is_killed_is_told(run, monkeypatch):
    monkeypatch.setattr(apart, "_START", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(apart.Failed, match="ended early"):
        read(["run"])


def test_modules_in_the_folder_of_the_logs_are_not_loaded(run, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("open('loaded', 'w')", encoding="utf-8")
    monkeypatch.setattr("sys.path", [one for one in __import__("sys").path if one not in ("", str(tmp_path))])
    assert read(["run"]).diagnoses and not (tmp_path / "loaded").exists()


async def test_the_screen_reads_large_logs_and_pastes_so(app, run, monkeypatch):
    monkeypatch.setattr(app_module, "APART_FROM", 1000)
    monkeypatch.setattr(engine, "diagnose", None)  # the screen's own process has nothing to read
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        assert [d.rule for d in the.screen.report.diagnoses] == ["MEM901", "HCCL902"]
        await paste(pilot, (run / "worker_1.log").read_text(encoding="utf-8"))
        assert the.screen.report.inputs[0].name == "<paste>" and the.screen.report.diagnoses
        monkeypatch.setattr(apart, "_START", "raise SystemExit(7)")
        the.diagnose_path("run")
        await settle(pilot)
        assert await shows(pilot, "ended") and "7" in the.trouble_text(), text_of(the)


def test_nobody_waits_for_a_child_that_does_not_end(run, monkeypatch):
    monkeypatch.setattr(apart, "_START", "import time; time.sleep(60)")
    monkeypatch.setattr(apart, "GRACE", 0.3)
    stop, began = threading.Event(), time.monotonic()
    stop.set()
    with pytest.raises(apart.Failed):
        read(["run"], cancelled=stop.is_set)
    assert time.monotonic() - began < 50  # the child would sleep for 60
