"""Tool outputs given to ``doctor diagnose`` are judged by the checks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from doctor import checkup, pasted, rulebase
from doctor.engine import diagnose
from doctor.model import Verdict

SAMPLES = Path(__file__).resolve().parent.parent / "fixtures" / "hosts" / "samples"


def test_a_pasted_table_with_an_alarm_names_the_card_and_its_line(tmp_path: Path) -> None:
    text = (SAMPLES / "npu-smi_info__910B3__24.1.0__alarm-npu3.txt").read_text()
    path = tmp_path / "smi.txt"
    path.write_text("$ npu-smi info\n" + text)
    report = diagnose([str(path)])
    first = report.diagnoses[0]
    assert (first.rule, first.severity) == ("NPU507", "error") and "3" in first.title["en"]
    lines = path.read_text().split("\n")
    assert first.evidence[0].source == str(path) and "Alarm" in lines[first.evidence[0].line - 1]
    assert report.inputs[0].state == "read"


def test_a_healthy_table_is_healthy(tmp_path: Path) -> None:
    path = tmp_path / "smi.txt"
    path.write_text((SAMPLES / "npu-smi_info__910B3__24.1.rc1.b030__ok-idle-8p.txt").read_text())
    report = diagnose([str(path)])
    assert report.verdict == "healthy" and not report.diagnoses


def test_a_table_that_no_tool_prints_is_not_healthy(tmp_path: Path) -> None:
    path = tmp_path / "smi.txt"
    path.write_text((SAMPLES / "npu-smi_info__fabricated__llm-written-example.txt").read_text())
    assert diagnose([str(path)]).verdict in ("unknown", "advice")


def test_a_rank_table_is_judged_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "hccl_8p.json"
    path.write_text((SAMPLES / "ranktable_bad__duplicate-device_id.json").read_text())
    report = diagnose([str(path)])
    assert report.diagnoses[0].rule == "HCCL507" and report.diagnoses[0].severity == "error"
    assert report.diagnoses[0].evidence[0].source == str(path) and report.diagnoses[0].evidence[0].line > 1


@pytest.mark.parametrize("name", ["npu-smi_info__910B3__24.1.0__alarm-npu3.txt"])
def test_a_failing_log_beside_a_sick_card_keeps_both(tmp_path: Path, name: str) -> None:
    (tmp_path / "smi.txt").write_text((SAMPLES / name).read_text())
    (tmp_path / "worker_0.log").write_text(
        "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\n"
        "RuntimeError: Unsupported device target Ascend. This process only supports one of the ['CPU'].\n"
    )  # fmt: skip
    rules = [d.rule for d in diagnose([str(tmp_path)]).diagnoses]
    assert "NPU507" in rules and len(rules) >= 2


@pytest.mark.parametrize(
    ("text", "rule", "severity"),
    [
        (
            "$ pip list | grep torch\ntorch                    2.5.1\ntorch-npu                2.1.0.post12\n",
            "VER529",
            "warning",
        ),
        ("(ms) [ma-user work]$pip list | grep mind\nmindformers  1.3.0\nmindspore    2.2.14\n", "VER526", "warning"),
        ("Versions of relevant libraries:\n[pip3] torch==2.6.0\n[pip3] torch-npu==2.5.1\n", "VER529", "warning"),
        (
            "# packages in environment at /opt/conda/envs/ms:\n#\n# Name       Version       Build\n"
            "_libgcc_mutex      0.1          main\nmindspore       2.7.1      pypi_0\n"
            "numpy                     2.1.3                    pypi_0\n",
            "VER520",
            "warning",
        ),
        ('# cat hccl.json\n{"status":"initializing"}\n', "HCCL503", "warning"),
        (
            "root@5f1c2:/# df -h\nFilesystem      Size  Used Avail Use% Mounted on\noverlay   457G  128G  307G  30% /\n"
            "shm              64M     0   64M   0% /dev/shm\n",
            "ENV502",
            "warning",
        ),
        (
            "export ASCEND_RT_VISIBLE_DEVICES=0, 1,2,3\nmsrun --worker_num=4 --local_worker_num=4 t.py\n",
            "NPU515",
            "error",
        ),
    ],
)
def test_what_people_paste_is_named_first(tmp_path: Path, text: str, rule: str, severity: str) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(text)
    report = diagnose([str(path)])
    assert [(d.rule, d.severity) for d in report.diagnoses] == [(rule, severity)]


def test_full_memory_without_a_process_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "smi.txt"
    table = (SAMPLES / "npu-smi_info__910B3__24.1.rc1.b030__ok-idle-8p.txt").read_text()
    path.write_text(re.sub(r"\d{4} / 65536", "59356/ 65536", table))
    report = diagnose([str(path)])
    assert [d.rule for d in report.diagnoses] == ["NPU511"] and report.verdict == "warning"


@pytest.mark.parametrize(
    ("text", "rule", "lines"),
    [
        ("-- MindSpore version : 2.6.0\n-- Python : 3.9\n-- CANN : 8.0.RC2\n", "VER504", [1, 3]),
        ("mindspore=2.0.0\nAscend-cann-toolkit=5.0.4\nRuntimeError: unheard of\n", "VER504", [1, 2]),
        ("torch                     2.5.1\ntorch-npu                 2.1.0.post8\n", "VER529", [1, 2]),
        ("mindspore                 2.6.0\nmindformers               1.2.0\n", "VER526", [1, 2]),
    ],
)
def test_versions_that_do_not_belong_together_are_told_where_no_rule_knows_the_failure(
    tmp_path: Path, text: str, rule: str, lines: list[int]
) -> None:
    path = tmp_path / "facts.txt"
    path.write_text(text)
    report = diagnose([str(path)])
    assert report.verdict in ("error", "warning") and report.diagnoses[0].rule == rule
    assert [(e.source, e.line) for e in report.diagnoses[0].evidence] == [(str(path), line) for line in lines]


@pytest.mark.parametrize(
    "text",
    [
        "mindspore                 2.3.0\nmindformers               1.2.0\n",  # they do belong together
        "torch 2.5.1 and torch-npu 2.5.1rc1 work\n",
        "torch==2.5.1\ntorch-npu==2.1.0.post8\nbefore that:\ntorch==2.1.0\n",  # which of the two is not said
        "mindspore==2.6.0\nimport error: please install CANN 8.0.RC2 first\n",  # wanted, not there
    ],
)
def test_versions_named_in_passing_are_no_failure_by_themselves(tmp_path: Path, text: str) -> None:
    path = tmp_path / "facts.txt"
    path.write_text(text)
    assert not [d for d in diagnose([str(path)]).diagnoses if d.rule.startswith("VER5")]


def test_a_known_failure_is_not_pushed_aside_by_versions(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    path.write_text(
        "mindspore=2.6.0\nAscend-cann-toolkit=8.0.RC2\n"
        "ImportError: libsndfile.so: cannot open shared object file: No such file or directory\n"
    )
    assert [d.rule for d in diagnose([str(path)]).diagnoses] == ["ENV080"]


@pytest.mark.parametrize("text", ["E19014: Op[Conv2D] attribute pads is odd.", "EZ3001: 2024-05-01 The value is odd."])
def test_an_error_code_that_is_not_in_the_catalogue_is_no_health(tmp_path: Path, text: str) -> None:
    path = tmp_path / "paste.log"
    path.write_text(text + "\n", encoding="utf-8")
    assert diagnose([str(path)]).verdict == "unknown"


def test_python_and_variables_beside_a_log_are_judged_as_they_came(tmp_path: Path) -> None:
    path = tmp_path / "all.txt"
    path.write_text(
        "import mindspore as ms\nfrom mindspore import nn\n\n\nclass Net(nn.Cell):\n    def __init__(self):\n"
        "        super().__init__()\n        self.d = nn.Dense(2, 2, bias=False)\n\n"
        "[ERROR] KERNEL(123,ffff,python):2026-03-01-08:15:02.100.200 [mindspore/ccsrc/x.cc:30] something odd\n"
        "export ASCEND_RT_VISIBLE_DEVICES=3,1,2\n"
    )
    lines = {d.rule: d.evidence[0].line for d in diagnose([str(path)]).diagnoses}
    assert (lines.get("API504"), lines.get("NPU515")) == (8, 11)


def test_the_comments_of_a_configuration_tell_of_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "trainer.yaml"
    path.write_text(
        "trainer:\n  # memory visualization and automatic CUDA/NPU OOM snapshots for debugging memory usage\n"
        "  profile: false\n  steps: [1, 2]\n  tool: null\n"
    )
    assert not diagnose([str(path)]).diagnoses


def test_a_value_that_only_a_shell_can_fill_in_is_no_wrong_value(tmp_path: Path) -> None:
    path = tmp_path / "job.env"
    path.write_text("HCCL_ALGO=${HCCL_ALGO}\nMS_SCHED_PORT=$PORT\nMS_ROLE=${ROLE}\nMS_WORKER_NUM=`nproc`\n")
    assert not [d for d in diagnose([str(path)]).diagnoses if d.severity != "advice"]


def test_a_page_of_documentation_is_not_taken_for_a_run(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# Serving\n\nQ: out of memory on the NPU?\n\n- `Too many open files`: raise ulimit -n\n")
    report = diagnose([str(path)])
    assert not report.diagnoses and report.inputs[0].state == "not_judged"


def test_a_pasted_command_that_starts_a_container_is_judged_with_its_line_and_a_sound_one_is_no_health(
    tmp_path: Path,
) -> None:
    nodes = "--device /dev/davinci_manager --device /dev/devmm_svm --device /dev/hisi_hdc"
    run = "docker run -it --device /dev/davinci0 {} -v /usr/local/Ascend/driver:/usr/local/Ascend/driver img bash\n"
    path = tmp_path / "note.txt"
    path.write_text("npu-smi info -l\n" + run.format(""))
    report = diagnose([str(path)])
    first = report.diagnoses[0]
    assert (first.rule, first.evidence[0].source, first.evidence[0].line) == ("ENV752", str(path), 2)
    path.write_text("npu-smi info -l\n" + run.format(nodes))
    report = diagnose([str(path)])
    assert (report.verdict, report.diagnoses) == ("unknown", ())


SCRIPT = """#!/bin/bash
SIZE=(--num-layers 32 --hidden-size 4096 --num-attention-heads 30 --seq-length 4096 --max-position-embeddings 4096)
torchrun --nproc_per_node 8 pretrain_gpt.py ${SIZE[@]} --tensor-model-parallel-size 8 --micro-batch-size 1 --bf16 \\
  --train-iters 100 --data-path d/x
"""


@pytest.mark.parametrize("name", ["pretrain.sh", "paste.txt"])
def test_a_launch_script_is_judged_like_a_configuration_and_not_called_healthy(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(SCRIPT)
    first = diagnose([str(path)]).diagnoses[0]
    assert (first.rule, first.evidence[0].source, first.evidence[0].line) == ("CFG520", str(path), 2)


def test_what_a_script_would_print_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "start.sh"
    path.write_text('#!/bin/bash\nif [ ! -d "$1" ]; then\n  echo "[ERROR] data path $1 does not exist"; exit 1\nfi\n')
    assert not diagnose([str(path)]).diagnoses
    path.write_text(path.read_text() + "[ERROR] data path /data does not exist\n")
    assert [d.rule for d in diagnose([str(path)]).diagnoses] == ["DATA010"]


def test_what_a_launch_script_shows_is_told_once_by_the_check_of_files(tmp_path: Path) -> None:
    path = tmp_path / "pretrain.sh"
    path.write_text("export ASCEND_RT_VISIBLE_DEVICES=0,1\n" + SCRIPT)
    found = pasted.check([str(path)], rulebase.load(), {}, checkup.Options()).findings
    told = [(f.id, f.evidence) for f in found if f.verdict is Verdict.FAIL]
    assert {"CFG520", "RUN776"} <= {rule for rule, _ in told} and len(set(told)) == len(told)
