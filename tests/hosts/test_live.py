"""A live host: bounded answers, killed children, nothing but the allow-list."""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from pathlib import Path

import pytest

from doctor.hosts.allowed import allowed
from doctor.hosts.base import TEXT_LIMIT, MemoryHost, data_of, title
from doctor.hosts.live import LiveHost, run_child


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable} -S\nimport os, signal, sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_a_command_answers_with_both_streams_and_its_code(tools: Path) -> None:
    tool(tools, "lsmod", "print('Module'); print('oops', file=sys.stderr); sys.exit(3)")
    raw = LiveHost().run("lsmod")
    assert (raw.key, raw.state, raw.out, raw.err, raw.code) == ("run lsmod", "ok", "Module\n", "oops\n", 3)


def test_a_hanging_command_is_ended_with_all_its_children(tools: Path) -> None:
    mark = tools / "alive"
    tool(
        tools,
        "npu-smi",
        f"pid = os.fork()\nif pid == 0:\n time.sleep(2); open({str(mark)!r}, 'w').close(); sys.exit()\n"
        "print('half a', flush=True); time.sleep(60)",
    )
    began = time.monotonic()
    raw = LiveHost().run("npu-smi", "info", limit=0.5)
    assert raw.state == "timeout" and raw.out == "half a\n"
    assert time.monotonic() - began < 2
    time.sleep(2)
    assert not mark.exists()


def test_a_grandchild_that_keeps_the_streams_is_not_waited_for(tools: Path) -> None:
    tool(tools, "lspci", "print('x', flush=True)\nif os.fork() == 0:\n time.sleep(8)")
    began = time.monotonic()
    assert LiveHost().run("lspci", limit=8).out == "x\n"
    assert time.monotonic() - began < 4


def test_endless_output_is_cut_and_the_command_ended(tools: Path) -> None:
    tool(tools, "dmesg", "while True: sys.stdout.write('x' * 65536)")
    raw = LiveHost().run("dmesg", limit=20)
    assert raw.cut and len(raw.out) == TEXT_LIMIT and raw.seconds < 10


def test_a_command_that_dies_of_a_signal_says_so(tools: Path) -> None:
    tool(tools, "lsmod", "print('a', flush=True); os.kill(os.getpid(), signal.SIGSEGV)")
    assert LiveHost().run("lsmod").state == "killed"


def test_bytes_that_are_no_text_are_read(tools: Path) -> None:
    tool(tools, "lsmod", "sys.stdout.buffer.write(bytes(range(256)))")
    assert "\ufffd" in LiveHost().run("lsmod").out


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [("none", "missing", "not found"), ("dir", "failed", "Is a directory"), ("file", "denied", "Permission")],
)
def test_a_tool_that_cannot_be_started_is_a_state(tools: Path, made: str, state: str, words: str) -> None:
    if made == "dir":
        (tools / "npu-smi").mkdir()
    elif made == "file":
        (tools / "npu-smi").write_text("x")
    raw = LiveHost().run("npu-smi", "info")
    assert raw.state == state and words in raw.err


def test_hccn_tool_does_not_see_a_selection_of_devices(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "4,5")
    tool(tools, "hccn_tool", "print(os.environ.get('ASCEND_RT_VISIBLE_DEVICES', 'unset'))")
    tool(tools, "npu-smi", "print(os.environ.get('ASCEND_RT_VISIBLE_DEVICES', 'unset'))")
    assert LiveHost().run("hccn_tool", "-i", "0", "-link", "-g").out == "unset\n"
    assert LiveHost().run("npu-smi", "info").out == "4,5\n"


REFUSED = """
npu-smi set -t reset -i 0|npu-smi info -t upgrade -i 0|npu-smi info watch
npu-smi clear -t ecc-info -i 0|npu-smi|npu-smi upgrade -b mcu
hccn_tool -i 0 -ip -s address 192.0.2.1 netmask 255.255.255.0
hccn_tool -i 0 -cfg recovery|hccn_tool -a -cfg recovery|hccn_tool -i 0 -link -g -s|hccn_tool -i 0;reboot -link -g
hccn_tool -i 0 -ping -g address -c|lspci -i /etc/passwd|lsmod x|dmesg -c|dmesg --clear
dmesg -C|timedatectl set-ntp true|chronyc makestep|rm -rf x|sh -c ls|python -c 1|docker ps|gcc x.c
"""
ALLOWED = """
npu-smi info|npu-smi -v|npu-smi info -m|npu-smi info -t health -i 3 -c 0|npu-smi info -t topo
npu-smi info -t phyid-remap -p 4
hccn_tool -i 7 -link -g|hccn_tool -i 0 -ping -g address 192.0.2.10|hccn_tool -g -link -i 0 -u 1 -p 4
lspci -D -n -d 19e5:|dmesg|gcc -dumpfullversion
"""


@pytest.mark.parametrize("line", REFUSED.strip().replace("\n", "|").split("|"))
def test_what_could_change_the_machine_is_refused(line: str) -> None:
    assert not allowed(line.split())
    assert LiveHost().run(*line.split()).state == "refused"


@pytest.mark.parametrize("line", ALLOWED.strip().replace("\n", "|").split("|"))
def test_reading_forms_are_allowed(line: str) -> None:
    assert allowed(line.split())


def test_files_are_read_up_to_a_size_and_never_waited_for(tmp_path: Path) -> None:
    host = LiveHost()
    (tmp_path / "a").write_text("abcdef")
    assert host.read(str(tmp_path / "a"), 4)[:3] == (f"file {tmp_path}/a", "ok", "abcd")
    assert host.read(str(tmp_path / "a"), 4).cut and not host.read(str(tmp_path / "a"), 6).cut
    os.mkfifo(tmp_path / "pipe")
    assert host.read(str(tmp_path / "pipe")).state == "failed"
    assert host.read(str(tmp_path)).state == "failed"
    assert host.read(str(tmp_path / "none")).state == "missing"
    assert host.read("/proc/self/status").out.startswith("Name:")


def test_look_tells_what_files_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("12")
    (tmp_path / "d").mkdir()
    (tmp_path / "l").symlink_to(tmp_path / "d")
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    rows = {os.path.basename(r["path"]): r for r in json.loads(LiveHost().look(f"{tmp_path}/*").out)}
    assert [(n, rows[n]["kind"]) for n in sorted(rows)] == [
        ("d", "dir"),
        ("dangling", "link"),
        ("f", "file"),
        ("l", "link"),
    ]
    assert rows["f"]["size"] == 2 and rows["l"]["target"] == str(tmp_path / "d")
    assert LiveHost().look(f"{tmp_path}/none*").out == "[]"


def test_what_the_caller_knows_comes_before_the_sensors() -> None:
    assert data_of(LiveHost(given={"expected": {"nodes": 2}}).ask("expected")) == {"nodes": 2}
    assert LiveHost().ask("no such question").state == "missing"


def test_a_program_that_is_none_is_a_state(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x00\x01")
    (tmp_path / "x").chmod(0o700)
    assert run_child("run x", [str(tmp_path / "x")], 1).state == "failed"
    assert run_child("run y", [str(tmp_path / "y")], 1).state == "missing"


def test_a_host_of_texts_says_what_it_does_not_hold() -> None:
    whole = MemoryHost({"run npu-smi info": "x"}, absent=True)
    part = MemoryHost({"run npu-smi info": "x"})
    assert whole.run("npu-smi", "info").out == "x"
    assert (whole.read("/a").state, whole.look("/a*").out, whole.ask("env").state) == ("missing", "[]", "not_recorded")
    assert (part.read("/a").state, part.look("/a*").state, part.run("lspci").state) == ("not_recorded",) * 3
    assert title("run npu-smi info") == "npu-smi info" and title("ask env") == "doctor:env"
