"""The parent: it names the stage whatever happens to the child, and leaves no process and no file behind."""

import json
import os
import sys
import threading
import time

import pytest

from doctor import smoke
from doctor.smoke import runner
from doctor.smoke.settings import Settings, SettingsError


def heads(report):
    return [d.rule for d in report.diagnoses]


def left(tmp_path):
    """What a run without --workdir left in the temporary folder."""
    return list((tmp_path / "scratch").iterdir())


def processes():
    """Processes that some run started and nobody ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                if b"SMOKE_FAKE" in file.read() and int(name) != os.getpid():
                    with open(f"/proc/{name}/cmdline", "rb") as line:
                        found.append(line.read())
        except OSError:
            continue
    return [one for one in found if b"sleep(300)" in one or b"fake_worker" in one]


def test_events_reach_the_listener_and_the_series(fake, tmp_path):
    rows = []
    report = smoke.run(listen=rows.append)
    assert [row["event"] for row in rows][:3] == ["started", "stage", "step"]
    assert report.series[0]["points"][0] == [1, 6.0]
    assert left(tmp_path) == []


def test_a_killed_child_is_named_with_its_stage_and_signal(fake, tmp_path):
    fake("killed")
    report = smoke.run()
    assert heads(report) == ["RUN601"]
    assert report.diagnoses[0].title["en"] == "The training process was gone in stage train (signal 9 (SIGKILL))"
    assert report.verdict == "error"
    assert left(tmp_path) == []


def test_a_child_that_hangs_is_ended_with_all_it_started(fake, tmp_path):
    fake("hang")
    began = time.monotonic()
    report = smoke.run(Settings(limit=1.0))
    assert time.monotonic() - began < 100  # the child would sleep for 300
    assert heads(report) == ["RUN602"]
    assert "stage compile" in report.diagnoses[0].title["en"]
    assert processes() == []
    assert left(tmp_path) == []


def test_cancelling_ends_the_child_and_says_so(fake, tmp_path):
    fake("hang")
    event = threading.Event()
    report = smoke.run(cancelled=event.is_set, listen=lambda row: event.set() if row["stage"] == "compile" else None)
    assert report.interrupted and "compile" in report.partial["en"]
    assert processes() == []
    assert left(tmp_path) == []


def test_an_exception_goes_through_the_log_rules_and_the_stage_stands_below(fake, tmp_path):
    fake("raises")
    report = smoke.run(inject="dtype-mismatch")
    assert heads(report)[0] == "OPS070"
    below = {report.findings[n].id for n in report.diagnoses[0].consequences}
    assert "RUN604" in below
    assert report.diagnoses[0].evidence[0].source == "worker_0.log"
    assert report.facts["smoke.caught"]["value"] is True


def test_a_child_that_says_nothing_is_a_failure_in_stage_start(fake):
    fake("silent")
    report = smoke.run()
    assert heads(report) == ["RUN604"]
    assert "start" in report.diagnoses[0].title["en"] and "exit 7" in report.diagnoses[0].title["en"]


def test_a_disk_that_fills_while_running_is_told_from_stderr(fake):
    fake("full")
    report = smoke.run()
    # the log rule heads, for it has the line; the verdict of the run, with the stage, stands below
    assert report.diagnoses[0].topic == "env.disk_full"
    below = {report.findings[n].id: report.findings[n] for n in report.diagnoses[0].consequences}
    assert below["ENV602"].args["stage"] == "save"


def test_floods_and_junk_do_not_stop_the_run(fake):
    fake("floods")
    report = smoke.run()
    assert len(report.series[0]["points"]) == 40


def test_a_work_folder_keeps_everything_and_nothing_is_written_beside_it(fake, tmp_path):
    fake("writes")
    work = tmp_path / "deep" / "work"
    smoke.run(workdir=str(work))
    assert {"events_0.jsonl", "job.json", "left.txt", "worker_0.log"} <= {p.name for p in work.iterdir()}
    assert {p.name for p in tmp_path.iterdir()} == {"deep", "scratch"}
    assert left(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_a_verdict(fake, tmp_path):
    (tmp_path / "file").write_text("")
    report = smoke.run(workdir=str(tmp_path / "file" / "below"))
    assert heads(report) == ["ENV601"]
    assert "prepare" in report.diagnoses[0].cause["en"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_a_verdict(fake, tmp_path):
    (tmp_path / "ro").mkdir(mode=0o500)
    assert heads(smoke.run(workdir=str(tmp_path / "ro"))) == ["ENV601"]


def test_a_full_disk_is_a_verdict_before_the_start(fake, tmp_path, monkeypatch):
    usage = type("Usage", (), {"free": 1 << 20})
    monkeypatch.setattr(runner.shutil, "disk_usage", lambda path: usage)
    report = smoke.run(workdir=str(tmp_path / "w"))
    assert heads(report) == ["ENV602"]
    assert "1 MiB" in report.diagnoses[0].cause["en"]


def test_no_space_when_trying_to_write_is_a_full_disk(fake, tmp_path, monkeypatch):
    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner.os, "fsync", full)
    assert heads(smoke.run(workdir=str(tmp_path / "w"))) == ["ENV602"]
    assert list((tmp_path / "w").iterdir()) == []


def test_an_interpreter_without_mindspore_is_a_verdict(tmp_path):
    empty = tmp_path / "python"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    empty.chmod(0o755)
    report = smoke.run(python=str(empty))
    assert heads(report) == ["ENV603"]
    assert str(empty) in report.diagnoses[0].title["en"]


@pytest.mark.parametrize("mindspore", ["2.7.0", "2.10.0"])
def test_numpy_2_is_refused_before_the_start(fake, monkeypatch, mindspore):
    versions = {"python": "3.11.0", "mindspore": mindspore, "numpy": "2.1.0"}
    monkeypatch.setattr(runner, "examine", lambda python: runner.Target(sys.executable, versions))
    assert heads(smoke.run()) == ["ENV604"]


def test_numpy_2_is_no_trouble_where_nobody_knows_of_any(fake, monkeypatch):
    versions = {"python": "3.11.0", "mindspore": "2.12.0", "numpy": "2.1.0"}
    monkeypatch.setattr(runner, "examine", lambda python: runner.Target(sys.executable, versions))
    assert "ENV604" not in heads(smoke.run())


@pytest.mark.parametrize("python", ["/nowhere/python", "/etc/passwd", "/bin/true", "true"])
def test_what_is_no_interpreter_is_a_usage_error(python):
    with pytest.raises(SettingsError, match="usable"):
        smoke.run(python=python)


def test_an_interpreter_named_by_a_relative_path_keeps_its_environment(tmp_path, monkeypatch):
    folder = tmp_path / "env" / "bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert runner.examine("env/bin/python").python == str(folder / "python")


def test_weights_are_found_from_the_folder_of_the_user_and_missing_ones_are_a_usage_error(fake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.safetensors").write_bytes(b"")
    report = smoke.run(weights="w.safetensors")
    assert report.facts["smoke.settings"]["value"]["weights"] == str(tmp_path / "w.safetensors")
    with pytest.raises(SettingsError, match="weight file"):
        smoke.run(weights="nowhere")


def test_msrun_finds_the_interpreter_under_test_also_where_none_is_called_python(tmp_path):
    (tmp_path / "bin").mkdir()
    named = tmp_path / "bin" / "python3.99"
    named.symlink_to(sys.executable)
    work = tmp_path / "work"
    work.mkdir()
    child = runner._Child(
        Settings(ranks=2), runner.Target(str(named), {}), str(work), (), lambda: False, lambda row: None
    )
    first = child._environment()["PATH"].split(os.pathsep)[0]
    assert first == str(work / "bin")
    assert str(named) in (work / "bin" / "python").read_text()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert child._environment()["PATH"].split(os.pathsep)[0] == str(tmp_path / "bin")


def test_a_launcher_of_the_shell_does_not_reach_the_child(fake, monkeypatch, tmp_path):
    monkeypatch.setenv("MS_ROLE", "MS_WORKER")
    monkeypatch.setenv("RANK_ID", "5")
    child = runner._Child(
        Settings(), runner.Target(sys.executable, {}), str(tmp_path), (), lambda: False, lambda r: None
    )
    env = child._environment()
    assert "MS_ROLE" not in env and "RANK_ID" not in env
    assert env["TMPDIR"].startswith(str(tmp_path))


def test_the_job_holds_what_the_worker_needs(fake, tmp_path):
    smoke.run(workdir=str(tmp_path / "w"))
    job = json.loads((tmp_path / "w" / "job.json").read_text())
    assert set(job) == {"settings", "work", "events", "parts"}
