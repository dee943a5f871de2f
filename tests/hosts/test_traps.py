"""Under a PATH of traps no command is started but read-only ones, and nothing is written."""

import os
import re
import sys

import pytest
from fakes import TRAPPED, started, trap_folder

READ_ONLY = {
    "npu-smi": r"-v|info|info -[lm]|info -t [a-z-]+( -[icp] \d+)*",
    "hccn_tool": r"-i \d+ -[a-z_]+ -g( address [0-9a-fA-F:.]+)?|-g -[a-z_]+ -i \d+( -[up] \d+)*",
    "lspci": r"(-D )?(-n )?(-d 19e5:)?|-s [0-9a-f:.]+ -vvv",
    "lsmod": r"",
    "dmesg": r"(-T|--time-format iso)?",
    "timedatectl": r"(show|status)?",
    "chronyc": r"(-n )?tracking",
    "ntpq": r"-pn",
    "lscpu": r"(-J)?",
    "gcc": r"-dumpfullversion|-dumpversion|--version",
    "ldconfig": r"-p",
}
"""What may be started, written down apart from the allow-list, so that a mistake there shows."""


def files(folder):
    """Every path below a folder with its size and time of change."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            seen = os.lstat(path)
            found[path] = (seen.st_size, seen.st_mtime_ns)
    return found


@pytest.fixture
def trapped(process, tmp_path):
    """Run the doctor in an empty folder and home under a PATH of traps: (what ran, what was started)."""
    traps = trap_folder(tmp_path / "traps")
    for name in ("home", "work"):
        (tmp_path / name).mkdir()

    def run(*argv):
        env = {"PATH": str(traps), "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "work")}
        before = files(tmp_path / "home"), files(tmp_path / "work")
        ran = process(*argv, env=env, cwd=tmp_path / "work")
        after = files(tmp_path / "home"), files(tmp_path / "work")
        return ran, started(traps), (before, after)

    return run


@pytest.mark.parametrize(
    "argv",
    [
        ("check", "--python", sys.executable),
        ("check", "--format", "json", "--all", "--python", sys.executable),
        ("check", "--python", "no-such-python"),
        ("check", "--nodes", "2", "--devices", "8", "--python", sys.executable),
        ("record", "rec", "--python", sys.executable),
    ],
    ids=" ".join,
)
def test_only_read_only_commands_are_started_and_nothing_is_written(trapped, argv):
    ran, seen, (before, after) = trapped(*argv)
    assert ran.code in (0, 1, 2), ran.err
    for name, *words in seen:
        assert name in READ_ONLY, [name, *words]
        assert re.fullmatch(READ_ONLY[name], " ".join(words)), [name, *words]
    written = {path for one in after for path in one} - {path for one in before for path in one}
    assert all(f"{os.sep}rec{os.sep}" in path for path in written), written


def test_the_traps_hold_every_tool_that_may_be_started():
    from doctor.hosts.allowed import TOOLS

    assert set(TOOLS) <= set(TRAPPED) and set(TOOLS) == set(READ_ONLY)


def test_a_recording_starts_nothing(trapped):
    from fakes import HOSTS

    ran, seen, (before, after) = trapped("check", "--from", HOSTS / "a2-8p.yaml")
    assert ran.code in (0, 1, 2) and not seen and before == after
