"""``doctor watch`` as a process: lines of text and of JSON, exit codes, Ctrl-C, nothing harmful on the terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from run_helpers import OOM, step, steps
from timing import busy

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def start(*argv, **more):
    command = [sys.executable, "-m", "doctor", "watch", *map(str, argv)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


def line_with(process, text):
    """Read lines until one holds a text."""
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(seen)


# ------------------------------------------------------------------ ends and codes


def test_reached_without_findings_is_0_and_every_event_is_a_line_of_json(cli, run):
    run.log(0, steps(1, 60))
    ran = cli("watch", run.folder, "--until", "step:50", "--format", "jsonl")
    events = rows(ran.out)
    assert ran.code == 0 and not ran.err
    assert [e["event"] for e in events] == ["begin", "read", "until", "end"]
    assert all(e["schema"] == "doctor.watch/1" and e["time"][10] == "T" for e in events)
    assert (events[-1]["why"], events[-1]["code"]) == ("until", 0)
    assert events[-1]["report"]["schema"] == "doctor.report/1"


def test_findings_are_1_and_the_alarm_has_everything_a_script_needs(cli, run):
    run.log(0, steps(1, 60))
    run.log(1, steps(1, 60) + OOM)
    ran = cli("watch", run.folder, "--until", "alarm", "--format", "jsonl")
    [alarm] = [e for e in rows(ran.out) if e["event"] == "alarm"]
    assert ran.code == 1
    assert alarm["ranks"] == [1] and alarm["severity"] == "error" and alarm["old"] is True
    assert alarm["evidence"][0]["line"] == 61 and set(alarm["next"]) == {"zh", "en"}
    assert rows(ran.out)[-1]["report"]["diagnoses"][0]["rule"] == alarm["rule"]


def test_json_is_the_report_alone_and_the_events_are_on_stderr(cli, run, tmp_path):
    run.log(0, steps(1, 60) + OOM)
    ran = cli("watch", run.folder, "--until", "idle:0.1", "--format", "json", "--lang", "en", "--interval", "0.1")
    assert ran.code == 1 and json.loads(ran.out)["verdict"] == "error" and " alarm: error " in ran.err
    ran = cli("watch", run.folder, "--until", "idle:0.1", "--interval", "0.1", "--output", tmp_path / "report.txt")
    assert "alarm" in ran.out and "worker_0.log:61" in (tmp_path / "report.txt").read_text()


@pytest.mark.parametrize(
    ("more", "code"), [([], 0), (["--until", "idle:60"], 1), (["--until", "never", "--fail-on", "advice"], 1)]
)
def test_the_time_limit_is_an_end_but_not_the_one_that_was_asked_for(cli, run, more, code):
    run.log(0, steps(1, 60))
    ran = cli("watch", run.folder, "--max-seconds", "0.3", "--interval", "0.1", "--lang", "en", *more)
    assert ran.code == code and "the time limit was reached" in ran.out


def test_a_name_that_is_not_there_is_2_and_so_is_a_folder_without_logs(cli, run, tmp_path):
    ran = cli("watch", tmp_path / "nowhere", "--lang", "en")
    assert ran.code == 2 and "no such file or folder" in ran.err and not ran.out
    assert cli("watch", run.folder, "--until", "idle:0.1", "--interval", "0.1").code == 2
    assert cli("watch", tmp_path / "*.log", "--max-seconds", "0.2", "--interval", "0.1").code == 2


@pytest.mark.parametrize("word", [r"(a)\1", "(?!x)", "step:0", "idle:x", "x*"])
def test_an_end_that_cannot_be_used_is_2_in_one_line(cli, run, word):
    ran = cli("watch", run.folder, "--until", word)
    assert ran.code == 2 and len(ran.err.splitlines()) == 1 and not ran.out


@pytest.mark.parametrize("argv", [["--interval", "0"], ["--stall", "x"], ["--format", "xml"]])
def test_a_usage_error_is_2(cli, run, argv):
    assert cli("watch", run.folder, *argv).code == 2


# ------------------------------------------------------------------ live


def test_what_happens_is_told_while_it_happens(run):
    run.log(0, steps(1, 30))
    with start(run.folder, "--interval", "0.1", "--until", "finished", "--lang", "en") as process:
        line_with(process, "read: all that was there: 1 file(s)")
        run.log(1, steps(1, 30))
        assert "worker_1.log appeared" in line_with(process, "file: ")
        run.log(1, OOM)
        alarm = line_with(process, "alarm: error")
        assert "rank[1]" in alarm and "worker_1.log:31" in alarm and "| Next: " in alarm
        run.log(0, "the run has finished\n")
        assert "worker_0.log:31: the run has finished" in line_with(process, "end: reached")
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "MEM" in out and "1 alarm(s), 1 still there" in err


def test_ctrl_c_answers_before_the_next_look_with_what_was_found(run):
    run.log(0, steps(1, 30))
    with start(run.folder, "--lang", "en", "--interval", "5") as process:
        line_with(process, "read: ")
        run.log(0, OOM)
        line_with(process, "alarm: error")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        took = time.monotonic() - began
    assert process.returncode == 130 and took < 1.5 * busy()
    assert "interrupted: this is what was found so far" in out and "worker_0.log:31" in out


def test_ctrl_c_ends_the_reading_of_a_long_log(run):
    run.log(0, ("quiet\n" * 1000 + step(1)) * 30_000)
    with start(run.folder, "--lang", "en", "--format", "jsonl") as process:
        line_with(process, '"begin"')
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        took = time.monotonic() - began
    assert took < 3.0 * busy()
    end = rows(out)[-1]
    assert process.returncode == 130 and (end["why"], end["report"]["interrupted"]) == ("interrupted", True)


def test_lines_hold_nothing_harmful_and_no_secret(cli, run):
    evil = "\x1b]0;owned\x07\u202e[red]x[/red] password=hunter2222 http://u:hunter2222@h/ \x9b31m"
    run.log(0, steps(1, 30) + f"RuntimeError: {evil}\n")
    for form in ("text", "jsonl"):
        ran = cli("watch", run.folder, "--until", "RuntimeError", "--format", form, "--interval", "0.1")
        assert "hunter2222" not in ran.out
        assert not set(ran.out) & set("\x1b\x07\u202e\x9b")


def test_on_a_terminal_the_view_is_drawn_and_gone_at_the_end(run):
    run.log(0, steps(1, 60, total=100))
    run.log(1, steps(1, 60, total=100) + "\x1b]0;owned\x07\n" + OOM)
    parent, child = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    command = [
        sys.executable,
        "-m",
        "doctor",
        "watch",
        str(run.folder),
        "--until",
        "idle:1",
        "--interval",
        "0.2",
        "--lang",
        "en",
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=child, stderr=subprocess.DEVNULL, stdin=child, env=env) as process:
        os.close(child)
        out = b""
        while select.select([parent], [], [], 30)[0]:
            try:
                data = os.read(parent, 65536)
            except OSError:
                break
            if not data:
                break
            out += data
        process.wait(60)
    os.close(parent)
    text = out.decode()
    assert process.returncode == 1
    assert "reported an error" in text and "60/100" in text and "▇" in text and "Ctrl-C ends" in text
    assert "owned" not in text and text.rstrip().endswith("doctor explain " + text.rstrip().split()[-1])


def test_a_plain_call_imports_neither_rich_nor_numpy(run):
    run.log(0, steps(1, 30))
    code = (
        "import sys; from doctor.cli import run; code = run(sys.argv[1:]);"
        "print(code, sorted({'rich', 'numpy', 'textual', 'yaml', 'msgspec'} & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "watch", str(run.folder), "--until", "step:10"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr.splitlines()[-1] == "0 []"
