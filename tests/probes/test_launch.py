"""Launch texts, environments and pasted forms become settings; nothing is executed and nothing raised."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import folder
from doctor.model import Raw, Unknown
from doctor.probes.hccl_env import parse_whitelist, read_hccl_env, table
from doctor.probes.launch import LAUNCH, read_launch, settings
from doctor.probes.pasted_launch import from_text
from doctor.probes.shell import commands, environment

SCRIPT = """#!/bin/bash
# msrun --worker_num=99 stands in a comment only
export HCCL_CONNECT_TIMEOUT=1200
WORKER=16; LOCAL=8
MASTER=${MASTER_ADDR:-192.0.2.1}
msrun --worker_num=$WORKER --local_worker_num $LOCAL \\
  --master_addr=$MASTER --master_port=8119 --node_rank=${1} --join True \\
  run_mindformer.py --config configs/a.yaml --worker_num 3 > log 2>&1 &
"""


def test_an_msrun_command_is_read_with_variables_and_lines():
    found = settings({}, [("run.sh", SCRIPT)])
    assert (found["style"], found["workers"], found["local_workers"], found["nodes"]) == ("msrun", 16, 8, 2)
    assert (found["master"], found["port"]) == ("192.0.2.1", 8119)
    start = found["starts"][0]
    assert (start.line, start.source) == (6, "run.sh")
    assert start.options["join"].value == "True" and start.options["node_rank"].value == "${1}"


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("--worker_num=8 --join True a.py --x", []),
        ("--worker_num=8 --join a.py", ["--join a.py"]),
        ("--join=true a.py", ["--join=true"]),
        ("--join=1 a.py", []),
        ("--worker-num=8 a.py", ["--worker-num=8"]),
        ("--nnodes=2 a.py", ["--nnodes=2"]),
        ("--local=4 a.py", []),
        ("--worker=4 a.py", ["--worker=4"]),
        ("--master_port=abc a.py", ["--master_port=abc"]),
        ("--worker_num=8.0 a.py", ["--worker_num=8.0"]),
        ("--worker_num=0 a.py", ["--worker_num=0"]),
        ("-m a", ["-m"]),
        ("--join=False python a.py", []),
        ("a.py --worker_num=x", []),
        ("--worker_num=$N $SCRIPT --nnodes=2", []),
    ],
)
def test_msrun_refuses_what_its_parser_refuses(words, refused):
    """Answers of the parser of msrun 2.10.0 to the same words."""
    assert list(settings({}, [("x", f"msrun {words}")])["starts"][0].refused) == refused


def test_defaults_of_msrun_count_where_nothing_is_given():
    found = settings({}, [("x", "msrun train.py")])
    assert (found["workers"], found["local_workers"], found["nodes"]) == (8, 8, 1)
    assert (found["master"], found["port"]) == ("127.0.0.1", 8118)


def test_what_only_the_shell_knows_stays_unknown():
    found = settings({}, [("x", "msrun --worker_num=$1 --local_worker_num=`nproc` train.py")])
    assert (found["workers"], found["local_workers"], found["nodes"]) == (None, None, None)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", (8, 8, 1)),
        ("4", (4, 4, 1)),
        ("8 8118 output/msrun_log False 300", (8, 8, 1)),
        ("16 8 192.0.2.1 8118 0 output/msrun_log False 300", (16, 8, 2)),
        ("16 8 192.0.2.1", (None, None, None)),
    ],
)
def test_the_launcher_of_mindformers_is_read_by_the_number_of_its_arguments(arguments, expected):
    text = f'bash scripts/msrun_launcher.sh "run_mindformer.py \\\n --config a.yaml" {arguments}'
    found = settings({}, [("x", text)])
    assert (found["workers"], found["local_workers"], found["nodes"]) == expected


def test_the_script_wins_over_the_environment_and_unset_takes_away():
    found = settings({"RANK_ID": "1", "DEVICE_ID": "1"}, [("x", "export RANK_ID=2\nunset DEVICE_ID\npython a.py")])
    assert found["env"]["RANK_ID"].value == "2" and found["env"]["RANK_ID"].line == 1
    assert "DEVICE_ID" not in found["env"] and found["shell"]["RANK_ID"].value == "1"


@pytest.mark.parametrize(
    ("env", "text", "style"),
    [
        ({}, "", "none"),
        ({"MS_ROLE": "MS_WORKER"}, "", "dynamic"),
        ({"RANK_TABLE_FILE": "/a.json"}, "", "rank_table"),
        ({}, "mpirun -n 8 python a.py", "mpirun"),
        ({}, "torchrun --nproc_per_node 8 a.py", "torchrun"),
        ({"MS_ROLE": "MS_WORKER"}, "msrun a.py", "msrun"),
    ],
)
def test_the_way_of_starting_is_named(env, text, style):
    assert settings(env, [("x", text)])["style"] == style


def test_the_number_of_nodes_that_the_user_says_counts():
    host = MemoryHost({"ask env": "{}", "ask expected": json.dumps({"nodes": 4})})
    assert read_launch(host, {})[0].value["nodes"] == 4


def test_without_environment_and_text_the_launch_is_unknown():
    found = read_launch(MemoryHost({}), {})[0]
    assert isinstance(found, Unknown) and found.why == "not_recorded"


@pytest.mark.parametrize(
    "text",
    [
        "A=1\nHCCL_BUFFSIZE=200\nLD_LIBRARY_PATH=/a:/b",
        "export A=1\nexport HCCL_BUFFSIZE=200\nexport LD_LIBRARY_PATH=/a:/b",
        'declare -x A="1"\ndeclare -x HCCL_BUFFSIZE="200"\ndeclare -x LD_LIBRARY_PATH="/a:/b"\ndeclare -x OLDPWD',
        "export A='1'\nexport HCCL_BUFFSIZE=\"200\"\nexport LD_LIBRARY_PATH='/a:/b'",
    ],
)
def test_dumps_of_an_environment_are_read_in_every_form(text):
    assert environment(text) == {"A": "1", "HCCL_BUFFSIZE": "200", "LD_LIBRARY_PATH": "/a:/b"}


def test_a_pasted_environment_answers_only_what_matters():
    found = from_text("SECRET_TOKEN=abc\nHCCL_BUFFSIZE=200\nASCEND_OPP_PATH=/a\nLD_LIBRARY_PATH=/a")
    assert set(found) == {"ask env"}
    assert json.loads(found["ask env"].out) == {
        "HCCL_BUFFSIZE": "200",
        "ASCEND_OPP_PATH": "/a",
        "LD_LIBRARY_PATH": "/a",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "Version=23.0.7\npackage_version=24.1\n",
        "UserName=HwHiAiUser\nUserGroup=HwHiAiUser",
        "numpy==1.26.4\nmindspore==2.7.0",
        "PATH=/a\nHOME=/root",
        '{"a": 1}',
        "address_0=192.0.2.1\nnetmask_0=255.255.255.0",
        "the msrun launcher ended",
    ],
)
def test_other_texts_answer_nothing(text):
    assert from_text(text) == {}


def test_a_pasted_script_and_a_pasted_table_answer_their_questions():
    assert set(from_text(SCRIPT)) == {"ask launch_text"}
    with open(f"{folder()}/samples/ranktable_bad__comments-in-json.json", encoding="utf-8") as file:
        text = file.read()
    found = from_text(text)
    assert set(found) == {"file rank_table.json", "ask rank_table_path"}
    assert found["file rank_table.json"].out == text


def test_evidence_of_a_pasted_script_has_its_lines():
    host = MemoryHost(from_text(SCRIPT))
    start = read_launch(host, {})[0].value["starts"][0]
    assert (start.source, start.line) == (LAUNCH, 6)


@given(st.text(alphabet="ab=$\"'\\{}();|&<>#\n msrun-", max_size=300) | st.text(max_size=100))
def test_junk_is_never_raised(text):
    settings({}, [("x", text)])
    environment(text)
    from_text(text)
    parse_whitelist(text)


@pytest.mark.parametrize(
    "unit", ["export A=$A\n", 'msrun "', "A='\n", "=" * 100 + "\n", "msrun --worker_num=\\\n", "$(" * 10]
)
def test_a_megabyte_of_junk_takes_no_time(unit):
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    settings({}, [("x", text)])
    from_text(text)
    assert time.process_time() - began < 3.0


def test_the_table_of_variables_has_them_all():
    rows, names = table()
    assert len([name for name in rows if name.startswith("HCCL_")]) == 30
    assert len([name for name in rows if name.startswith("ASCEND_")]) == 4
    assert len(names) == len(set(names)) and all(row["source"] and row["valid"] for row in rows.values())


def test_variables_of_a_script_count_before_those_of_the_environment():
    host = MemoryHost({"ask env": json.dumps({"HCCL_BUFFSIZE": "100"}), "ask launch_text": SCRIPT})
    launch = read_launch(host, {})[0]
    found = read_hccl_env(host, {"launch.settings": launch})[0].value["set"]
    assert (found["HCCL_CONNECT_TIMEOUT"].value, found["HCCL_CONNECT_TIMEOUT"].line) == ("1200", 3)
    assert (found["HCCL_BUFFSIZE"].value, found["HCCL_BUFFSIZE"].line) == ("100", 0)


@pytest.mark.parametrize("state", ["missing", "denied", "failed", "not_recorded"])
def test_a_whitelist_that_cannot_be_read_has_a_state(state):
    env = json.dumps({"HCCL_WHITELIST_FILE": "/w.json"})
    host = MemoryHost({"ask env": env, "file /w.json": Raw("file /w.json", state)})
    fact = read_hccl_env(host, {})[1]
    assert fact.why == state if isinstance(fact, Unknown) else fact.value.state == state


def test_a_comment_line_is_no_command():
    assert [command.words for command in commands("# msrun a.py\n  # export A=1\nmsrun b.py # msrun c.py")] == [
        ("msrun", "b.py")
    ]


def test_a_comment_behind_an_export_is_no_part_of_the_value():
    text = "export MS_ROLE=MS_SCHED   # the scheduler\nexport GLOG_v=3; export A='1 # 2'\nB=1 # 2\n"
    assert environment(text) == {"MS_ROLE": "MS_SCHED", "GLOG_v": "3", "B": "1 # 2"}
