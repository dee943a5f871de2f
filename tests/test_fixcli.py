"""``doctor fix`` from the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from doctor import fixcli
from doctor.cli import run as cli
from doctor.i18n import texts
from doctor.patch.spans import Refused

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """# eight devices
run_mode: train
use_parallel: True
model: {model_config: {type: LlamaConfig}}
parallel: {parallel_mode: 1, device_num: 8}
lr_schedule:
  learning_rate: 1e-5  # as text
parallel_config:
  data_parallel: 8
  model_parallel: 2
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """A configuration with two errors."""
    monkeypatch.setenv("DOCTOR_JOURNAL", str(tmp_path / "journal"))
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG)
    return path


def fix(capsys, *words):
    """(exit code, stdout, stderr) of a call in English."""
    capsys.readouterr()
    code = cli(["fix", "--lang", "en", *map(str, words)])
    return code, *capsys.readouterr()


def test_the_patch_is_shown_and_nothing_is_written(config, capsys):
    code, out, err = fix(capsys, config)
    assert code == 1 and config.read_text() == CONFIG
    assert "+  learning_rate: 1.0e-05  # as text" in out and "1) " in out and "--choose PAR501-1=NUMBER" in out
    assert "--apply" in err


def test_apply_list_and_undo(config, capsys):
    code, out, _ = fix(capsys, config, "--choose", "PAR501=1", "--apply", "--yes")
    assert code == 0, out
    after = CONFIG.replace("1e-5", "1.0e-05").replace("data_parallel: 8", "data_parallel: 4")
    assert config.read_text() == after
    assert fix(capsys, config)[0] == 0
    code, out, _ = fix(capsys, "--list")
    assert code == 0 and "written" in out and "parallel_config.data_parallel: 8 → 4" in out and "PAR501" in out
    (entry,) = json.loads(fix(capsys, "--list", "--format", "json")[1])
    assert fix(capsys, "--undo", entry["id"])[0] == 0 and config.read_text() == CONFIG
    code, _, err = fix(capsys, "--undo", entry["id"])
    assert code == 2 and err.count("\n") == 1


def test_only_some_rules(config, capsys):
    code, out, _ = fix(capsys, config, "--only", "CFG511", "--apply", "--yes")
    assert code == 0 and config.read_text() == CONFIG.replace("1e-5", "1.0e-05") and "PAR501" not in out


def test_apply_without_a_terminal_asks_for_yes(config, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    code, _, err = fix(capsys, config, "--apply")
    assert code == 2 and "--yes" in err and config.read_text() == CONFIG


def test_the_answer_no_leaves_everything(config, capsys, monkeypatch):
    class Terminal:
        def __init__(self, answer):
            self.answer = answer

        def isatty(self):
            return True

        def readline(self):
            return self.answer

    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    assert fix(capsys, config, "--apply")[0] == 1 and config.read_text() == CONFIG
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert fix(capsys, config, "--apply")[0] == 1 and config.read_text() != CONFIG  # the choice is still open


def test_the_json_holds_edits_choices_and_the_diff(config, capsys):
    code, out, _ = fix(capsys, config, "--format", "json")
    data = json.loads(out)
    assert code == 1 and data["schema"] == "doctor.fix/1" and data["applied"] is None
    states = {f["rule"]: f["state"] for f in data["fixes"]}
    assert states["CFG511"] == "planned" and states["PAR501"] == "needs_choice"
    (file,) = data["files"]
    assert (
        file["edits"][0]["key"] == "lr_schedule.learning_rate" and file["edits"][0]["from"] == "1e-5" and file["diff"]
    )


@pytest.mark.parametrize(
    ("name", "data", "word"),
    [
        ("tab.yaml", b"a: 1\n\tb: 2\n", "tab"),
        ("two.yaml", b"a: 1\n---\nb: 2\n", "several YAML documents"),
        ("bytes.yaml", b"a: \xff\n", "UTF-8"),
        ("py2.py", b"print 'x'\n", "Python 3"),
        ("x.json", b"{", "JSON"),
        ("open.sh", b"A='x\n", "quote"),
        ("x.bin", b"x", "no YAML, JSON"),
        ("none.yaml", None, "no such file"),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, capsys, name, data, word):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    code, out, err = fix(capsys, path)
    assert code == 2 and not out and err.count("\n") == 1 and word in err and name in err


def test_links_to_themselves_and_large_files_too(tmp_path, capsys):
    (tmp_path / "loop.yaml").symlink_to(tmp_path / "loop.yaml")
    with open(tmp_path / "large.yaml", "wb") as file:
        file.truncate(100 << 20)
    bomb = "x0: &x0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 9))  # fmt: skip
    (tmp_path / "bomb.yaml").write_text(bomb)
    for name, word in (("loop.yaml", "loop"), ("large.yaml", "limit"), ("bomb.yaml", "multiply")):
        code, out, err = fix(capsys, tmp_path / name)
        assert code == 2 and not out and err.count("\n") == 1 and word in err


def test_a_read_only_file_is_left_alone(config, capsys):
    config.chmod(0o444)
    code, _, err = fix(capsys, config, "--only", "CFG511", "--apply", "--yes")
    assert code == 2 and "read-only" in err and config.read_text() == CONFIG


def test_the_json_is_printed_also_when_nothing_can_be_written(config, capsys):
    config.chmod(0o444)
    code, out, err = fix(capsys, config, "--only", "CFG511", "--apply", "--yes", "--format", "json")
    assert code == 2 and "read-only" in err and json.loads(out)["applied"] is None


def test_wrong_words_are_usage(config, capsys):
    assert fix(capsys)[0] == 2
    assert fix(capsys, config, "--choose", "PAR501")[0] == 2
    code, out, _ = fix(capsys, config, "--choose", "PAR501=99")
    assert code == 1 and "no alternative is 99" in out


def test_every_reason_has_words_in_both_languages():
    codes = set()
    for path in [
        *(ROOT / "doctor" / "patch").glob("*.py"),
        ROOT / "doctor" / "resume.py",
        ROOT / "doctor" / "fixcli.py",
    ]:
        codes |= {"patch." + c for c in re.findall(r'Refused\(\s*"(\w+)"', path.read_text())}
    resume = (ROOT / "doctor" / "resume.py").read_text()
    codes |= {"resume.unknown." + c for c in re.findall(r'unknown\.append\(\("(\w+)"', resume)}
    codes |= {"resume." + c for c in re.findall(r'say\("(\w+)"', resume)}
    codes |= {"fix.state." + c for c in ("planned", "needs_unsafe", "needs_choice", "display", "refused")}
    for lang in ("zh", "en"):
        assert codes <= set(texts(lang)), codes - set(texts(lang))


def test_the_help_and_a_pipe_work():
    for words in (["fix", "--help"], ["resume", "--help"]):
        done = subprocess.run([sys.executable, "-m", "doctor", *words], capture_output=True, check=False, cwd=ROOT)
        assert done.returncode == 0 and b"--apply" in done.stdout


def test_importing_the_command_line_stays_cheap():
    code = "import sys, doctor.fixcli; print([m for m in ('yaml', 'textual', 'libcst', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == b"[]"


SCRIPT = """#!/bin/bash
export HCCL_CONNECT_TIMEOUT=99999   # seconds
export HCCL_EXEC_TIMEOUT=0
export ASCEND_GLOBAL_LOG_LEVEL=0
msrun --worker_num=8 --local_worker_num=8 train.py
"""


def test_variables_of_a_launch_script_are_mended_in_the_script(tmp_path, capsys):
    path = tmp_path / "run.sh"
    path.write_text(SCRIPT)
    where = ("--journal", tmp_path / "journal")
    code, out, _ = fix(capsys, path, "--apply", "--yes", *where)
    assert code == 1 and "HCCL555" in out  # one of them may change results
    assert path.read_text() == SCRIPT.replace("export HCCL_CONNECT_TIMEOUT=99999   # seconds\n", "").replace(
        "LEVEL=0", "LEVEL=3")  # fmt: skip
    assert fix(capsys, path, "--apply", "--yes", "--unsafe", *where)[0] == 0
    assert path.read_text() == "#!/bin/bash\nexport ASCEND_GLOBAL_LOG_LEVEL=3\n" + SCRIPT.splitlines(keepends=True)[-1]
    assert fix(capsys, path)[0] == 0
    assert fix(capsys, "--undo", *where)[0] == fix(capsys, "--undo", *where)[0] == 0 and path.read_text() == SCRIPT


def test_the_report_of_a_check_names_edits_and_choices(config, capsys):
    cli(["check", str(config), "--only", "model", "--format", "json"])
    fixes = {d["rule"]: d["fixes"][0] for d in json.loads(capsys.readouterr().out)["diagnoses"] if d["fixes"]}
    assert fixes["CFG511"]["edits"] == [
        {"file": str(config), "key": "lr_schedule.learning_rate", "from": "1e-5", "to": "1.0e-05"}
    ]
    assert "parallel_config.data_parallel = 4" in fixes["PAR501"]["choices"]


def test_findings_without_a_patch_are_told(tmp_path, capsys):
    path = tmp_path / "c.yaml"
    path.write_text("run_mode: train\nmodel: {model_config: {type: LlamaConfig}}\nseed: 1\nseed: 2\n")
    code, _, err = fix(capsys, path)
    assert code == 0 and "CFG505" in err and "doctor check" in err


def test_a_refusal_that_names_a_key_is_told():
    refused = Refused("conflict", key="a.b")
    assert "a.b" in fixcli.why_text("en", refused) and "a.b" in fixcli.why_text("zh", refused)
