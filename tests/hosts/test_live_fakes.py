"""The live path end to end, with tools that are slow, hang, lie, print junk or die; nothing is left behind."""

import json
import os
import sys
import time

import pytest
from fakes import alive, calls, fake_folder, load

from doctor.hosts.live import LiveHost

ITEMS = load("a2-8p")["items"]


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Put fake tools on PATH, before everything else: tools({command line: answer})."""

    def make(change=None, items=ITEMS):
        folder = fake_folder(tmp_path / "bin", items, change)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return folder

    return make


@pytest.fixture
def gone(tmp_path):
    """After a test no process of its tools may run any more."""
    yield
    deadline = time.monotonic() + 3
    while (left := alive(tmp_path / "bin")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


# ------------------------------------------------------------------ one command


@pytest.mark.usefixtures("gone")
class TestOneCommand:
    def test_an_answer_is_what_the_tool_printed(self, tools):
        tools({"npu-smi info": {"out": "table\n", "err": "note\n", "code": 3, "delay": 0.2}})
        raw = LiveHost().run("npu-smi", "info")
        assert (raw.key, raw.state, raw.out, raw.err, raw.code) == ("run npu-smi info", "ok", "table\n", "note\n", 3)
        assert raw.seconds >= 0.2

    @pytest.mark.parametrize("child", [False, True])
    def test_a_tool_that_hangs_is_ended_with_its_children(self, tools, child):
        tools({"npu-smi info": {"hang": True, "child": child}})
        began = time.monotonic()
        raw = LiveHost().run("npu-smi", "info", limit=0.7)
        assert raw.state == "timeout" and time.monotonic() - began < 30

    def test_a_child_that_outlives_its_tool_holds_nobody_up(self, tools):
        tools({"npu-smi info": {"out": "table\n", "orphan": True}})
        began = time.monotonic()
        raw = LiveHost().run("npu-smi", "info", limit=8)
        assert raw.out == "table\n" and time.monotonic() - began < 4

    def test_a_tool_that_dies_of_a_signal_says_so(self, tools):
        tools({"npu-smi info": {"out": "0123456789", "half": True}})
        raw = LiveHost().run("npu-smi", "info")
        assert raw.state == "killed" and raw.out == "01234"

    def test_an_endless_tool_is_cut(self, tools):
        tools({"npu-smi info": {"out": "y" * 4096, "endless": True}})
        began = time.monotonic()
        raw = LiveHost().run("npu-smi", "info", limit=8)
        assert raw.cut and len(raw.out) <= 1 << 20 and time.monotonic() - began < 8

    def test_bytes_that_are_no_text_are_kept_as_far_as_they_go(self, tools):
        tools({"npu-smi info": {"garbage": 70_000}})
        raw = LiveHost().run("npu-smi", "info")
        assert raw.state == "ok" and "\ufffd" in raw.out and len(raw.out) <= 70_000
        raw.out.encode("utf-8")

    def test_a_command_that_changes_the_machine_is_refused_unstarted(self, tools):
        folder = tools()
        host = LiveHost()
        for argv in (
            ["npu-smi", "set", "-t", "reset", "-i", "0"],
            ["npu-smi", "info", "watch"],
            ["npu-smi", "info", "proc"],
            ["npu-smi", "clear", "-t", "ecc", "-i", "0"],
            ["npu-smi", "upgrade", "-t", "mcu", "-i", "0"],
            ["npu-smi", "info", "-t", "board", "-i", "0; reboot"],
            ["hccn_tool", "-i", "0", "-ip", "-s", "address", "192.0.2.1", "netmask", "255.255.255.0"],
            ["hccn_tool", "-a", "-cfg", "recovery"],
            ["hccn_tool", "-i", "0", "-tls", "-s", "enable", "0"],
            ["dmesg", "-C"],
            ["dmesg", "--clear"],
            ["lspci", "-H1"],
            ["timedatectl", "set-ntp", "true"],
            ["chronyc", "makestep"],
            ["rm", "-rf", "/"],
            ["/bin/sh", "-c", "true"],
            ["../npu-smi", "info"],
            [],
        ):
            assert host.run(*argv).state == "refused", argv
        assert not calls(folder)

    def test_an_empty_file_a_folder_and_an_unreadable_tool_do_not_start(self, tmp_path, monkeypatch):
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "npu-smi").mkdir()
        (folder / "lsmod").write_text("")
        (folder / "lsmod").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        raw = LiveHost().run("npu-smi", "info")
        assert raw.state == "failed" and "directory" in raw.err
        assert LiveHost().run("lsmod").state in ("ok", "failed")


# ------------------------------------------------------------------ the whole command


@pytest.fixture
def check(process, tools, tmp_path):
    """Run ``doctor check --only npu`` under fake tools: (findings by id, seconds, folder)."""

    def run(change=None, items=ITEMS, only="npu"):
        folder = tools(change, items)
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        began = time.monotonic()
        env = {"PATH": f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin", "HOME": str(home)}
        ran = process("check", "--only", only, "--format", "json", "--python", sys.executable, env=env)
        seconds = time.monotonic() - began
        if ran.code == 2:
            pytest.skip("no such checks yet")
        assert ran.code in (0, 1), ran.err
        found = {}
        for finding in json.loads(ran.out)["findings"]:
            found.setdefault(finding["id"], []).append(finding)
        if "NPU507" not in found:
            pytest.skip("no NPU checks yet")
        return found, seconds, folder

    return run


def verdicts(found, rule_id):
    """The verdicts of a rule's findings."""
    return {finding["verdict"] for finding in found.get(rule_id, ())}


@pytest.mark.usefixtures("gone")
class TestTheWholeCommand:
    def test_a_healthy_tool_is_understood(self, check):
        found, _, folder = check()
        assert verdicts(found, "NPU507") == {"pass"} and "crash" not in {v for i in found for v in verdicts(found, i)}
        asked = [argv[0] for argv in calls(folder)]
        assert asked.count("npu-smi") <= 60

    def test_a_slow_tool_is_waited_for(self, check):
        found, _, _ = check({"npu-smi info": {"out": ITEMS["run npu-smi info"], "delay": 1.5}})
        assert verdicts(found, "NPU507") == {"pass"}

    def test_an_alarm_is_found(self, check):
        found, _, _ = check(items=load("npu-alarm-hbm-ecc")["items"])
        assert "fail" in verdicts(found, "NPU507") and "fail" in verdicts(found, "NPU508")

    @pytest.mark.slow
    def test_a_hanging_tool_is_a_finding_and_the_rest_goes_on(self, check):
        hang = {"hang": True, "child": True}
        found, seconds, folder = check({key[4:]: hang for key in ITEMS if key.startswith("run npu-smi")})
        assert "fail" in verdicts(found, "NPU521") and verdicts(found, "NPU507") == {"unknown"}
        assert seconds < 45 and sum(argv[0] == "npu-smi" for argv in calls(folder)) <= 2

    @pytest.mark.slow
    def test_a_tool_that_hangs_after_its_table_still_gave_the_table(self, check):
        hang = {"hang": True}
        change = {k[4:]: hang for k in ITEMS if k.startswith("run npu-smi info -t")}
        found, seconds, _ = check(change)
        assert verdicts(found, "NPU507") == {"pass"} and seconds < 45

    @pytest.mark.parametrize(
        "answer",
        [{"garbage": 300_000}, {"out": ""}, {"out": "|" * 200_000}],
    )
    def test_junk_is_not_understood_and_nothing_is_invented(self, check, answer):
        found, seconds, _ = check({"npu-smi info": answer})
        assert "pass" not in verdicts(found, "NPU507") and "fail" not in verdicts(found, "NPU506") and seconds < 30

    def test_half_a_table_is_no_loss_of_cards(self, check):
        found, _, _ = check({"npu-smi info": {"out": ITEMS["run npu-smi info"], "half": True}})
        assert "fail" not in verdicts(found, "NPU506")
        assert any("fail" in verdicts(found, i) for i in found if i == "NPU505" or i.startswith("NPU53"))

    def test_an_endless_table_ends(self, check):
        found, seconds, _ = check({"npu-smi info": {"out": ITEMS["run npu-smi info"], "endless": True}})
        assert seconds < 45 and "crash" not in {v for i in found for v in verdicts(found, i)}


@pytest.mark.usefixtures("gone")
def test_a_time_limit_around_the_doctor_leaves_no_tool_behind(tools):
    import signal
    import subprocess

    tools({"npu-smi info": {"hang": True, "child": True}})
    command = [sys.executable, "-m", "doctor", "check", "--only", "NPU", "--no-color"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root) as child:
        time.sleep(4)
        child.send_signal(signal.SIGTERM)
        out, err = child.communicate(timeout=20)
    assert child.returncode == 130 and out and "Traceback" not in err
