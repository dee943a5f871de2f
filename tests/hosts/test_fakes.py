"""The fake tools and the traps do what the tests of the live path rely on."""

import os
import signal
import subprocess
import time

import pytest
from fakes import calls, fake_folder, load, started, trap_folder


def ask(folder, *argv, limit=5.0):
    """Run a fake tool by its name."""
    path = os.path.join(folder, argv[0])
    return subprocess.run([path, *argv[1:]], capture_output=True, timeout=limit, check=False)


def test_a_fake_tool_answers_as_the_recording(tmp_path):
    folder = fake_folder(tmp_path / "bin", load("a2-8p")["items"])
    done = ask(folder, "npu-smi", "info")
    assert done.returncode == 0 and done.stdout.count(b"| 910B3") == 0 and done.stdout.count(b" 910B3 ") == 8
    assert ask(folder, "hccn_tool", "-i", "3", "-link", "-g").stdout == b"link status: UP\n"
    assert b"not found" in ask(folder, "npu-smi", "reset", "-d", "all").stdout
    assert calls(folder)[-1] == ["npu-smi", "reset", "-d", "all"]


@pytest.mark.parametrize(
    ("answer", "code", "out"),
    [
        ({"out": "no", "err": "e", "code": 187}, 187, b"no"),
        ({"out": "12345678", "half": True}, -signal.SIGKILL, b"1234"),
        ({"out": "x", "signal": 11}, -signal.SIGSEGV, b"x"),
        ({"garbage": 512}, 0, bytes(range(256)) * 2),
        (None, 127, b""),
    ],
)
def test_a_fake_tool_misbehaves_as_told(tmp_path, answer, code, out):
    folder = fake_folder(tmp_path / "bin", {}, {"npu-smi info": answer})
    done = ask(folder, "npu-smi", "info")
    assert (done.returncode, done.stdout) == (code, out)


def test_a_fake_tool_can_wait_and_hang(tmp_path):
    folder = fake_folder(tmp_path / "bin", {}, {"npu-smi info": {"delay": 0.3}, "npu-smi -v": {"hang": True}})
    begin = time.monotonic()
    ask(folder, "npu-smi", "info")
    assert time.monotonic() - begin >= 0.3
    with pytest.raises(subprocess.TimeoutExpired):
        ask(folder, "npu-smi", "-v", limit=0.5)


def test_a_trap_notes_what_was_started(tmp_path):
    folder = trap_folder(tmp_path / "traps")
    assert not started(folder)
    ask(folder, "rm", "-rf", "two words")
    assert started(folder) == [["rm", "-rf", "two words"]]
