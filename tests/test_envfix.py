"""--fix-env: a script of the proposed settings, each line explained, nothing executed."""

import json
import subprocess

import pytest

from doctor import checkup, envfix
from doctor.hosts.base import MemoryHost


def report_of(**env: str):
    return checkup.check(
        MemoryHost({"ask env": json.dumps(env)}, absent=True), checkup.Options(only=("HCCL5*", "RUN5*"))
    )


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_every_setting_has_its_reason(lang):
    script = envfix.script(report_of(HCCL_EXEC_TIMEOUT="0", ASCEND_GLOBAL_LOG_LEVEL="1", RANK_ID="3"), lang)
    lines = script.splitlines()
    for line in ("unset HCCL_EXEC_TIMEOUT", "export ASCEND_GLOBAL_LOG_LEVEL=3", "unset RANK_ID"):
        assert lines[lines.index(line) - 1].startswith("# ")
    assert "HCCL555" in script and "RUN506" in script


def test_the_script_is_plain_shell():
    script = envfix.script(
        report_of(HCCL_EXEC_TIMEOUT="0", HCCL_RDMA_SL="9; rm -rf /", HCCL_WHITELIST_DISABLE="0"), "en"
    )
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    code = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert all(line.startswith(("export ", "unset ")) for line in code)
    assert "unset HCCL_RDMA_SL" in code


def test_nothing_to_set_is_said():
    assert "There is nothing to set." in envfix.script(report_of(), "en")


def test_a_file_to_source_is_sourced_only_if_it_is_there():
    from doctor.hosts import compose

    host = compose.load(f"{compose.folder()}/ver-cann-not-sourced.yaml")
    script = envfix.script(checkup.check(host, checkup.Options(only=("VER501",))), "en")
    code = [line for line in script.splitlines() if line and not line.startswith("#")]
    assert len(code) == 1 and code[0].startswith("if [ -f /") and "then . /" in code[0]
