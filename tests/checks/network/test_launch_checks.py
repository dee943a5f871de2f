"""The launch: worker numbers, addresses, ports, ways of starting, devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.network import launch as checks
from doctor.checks.network.devices import device_variables, visible
from doctor.model import Fact, Unknown, Verdict
from doctor.probes.launch import settings

NOT_KNOWN = Unknown("x", "not_recorded")
EIGHT = Fact("npu.table", [{"name": "910B3"}] * 8)
TWO_NODES = "msrun --worker_num=16 --local_worker_num=8 --master_addr={} --master_port=8118 --node_rank=0 train.py"


def launch(text: str = "", **env: str) -> Fact:
    return Fact("launch.settings", settings(env, [("run.sh", text)] if text else []))


def failed(answer) -> bool:
    found = answer if isinstance(answer, list) else [answer]
    return any(one.verdict is Verdict.FAIL for one in found)


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("torchrun --nproc_per_node=8 a.py", True),
        ("torchrun --nproc-per-node 8 --nnodes 2 a.py", True),
        ("torchrun --nproc_per_node 2 a.py", False),
        ("torchrun --nproc_per_node=$N a.py", False),
        ("torchrun a.py --np 8", False),
        ("mpirun --allow-run-as-root -np 4 python a.py", True),
        ("mpirun -H one:4,two:4 -n 8 python a.py", False),
        ("mpirun --hostfile=hosts -n 8 python a.py", False),
    ],
)
def test_no_more_processes_than_devices_that_are_visible(text, bad):
    assert failed(checks.processes_visible(launch("export ASCEND_RT_VISIBLE_DEVICES=2,3\n" + text))) is bad


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("mpirun --allow-run-as-root -n 2 python a.py", True),
        ("mpirun --allow-run-as-root -n 2 --bind-to numa python a.py", False),
        ("mpirun --map-by ppr:1:numa -n 2 python a.py", False),
        ("mpirun -n 8 python a.py", False),
        ("torchrun --nproc_per_node 2 a.py", False),
    ],
)
def test_two_processes_of_mpirun_ask_for_a_binding(text, bad):
    assert failed(checks.mpirun_binding(launch(text))) is bad


def test_processes_are_not_judged_where_the_variable_cannot_be_read():
    answer = checks.processes_visible(launch("export ASCEND_RT_VISIBLE_DEVICES=0,0\ntorchrun --nproc_per_node=8 a.py"))
    assert answer.verdict is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("msrun --worker_num=8 --local_worker_num=8 a.py", False),
        ("msrun a.py", False),
        ("msrun --worker_num=4 a.py", True),
        ("msrun --worker_num=16 --local_worker_num=16 a.py", True),
        ("msrun --worker_num=16 --local_worker_num=16 --sim_level=1 a.py", False),
        ("export ASCEND_RT_VISIBLE_DEVICES=0,1\nmsrun --worker_num=4 --local_worker_num=4 a.py", True),
        ("export ASCEND_RT_VISIBLE_DEVICES=0,1\nmsrun --worker_num=2 --local_worker_num=2 a.py", False),
        ("msrun --worker_num=$N --local_worker_num=9 a.py", True),
        ("msrun --worker_num=$N --local_worker_num=$M a.py", False),
    ],
)
def test_local_workers_fit(text, bad):
    assert failed(checks.worker_numbers(launch(text), EIGHT, NOT_KNOWN)) == bad


def net(**more) -> Fact:
    value = {
        "interfaces": {"lo": ["127.0.0.1"], "eth0": ["192.0.2.1"]},
        "up": ["lo", "eth0"],
        "hostname": "a",
        "resolves": {},
        "unresolved": {},
    }
    return Fact("host.net", {**value, **more})


@pytest.mark.parametrize(
    ("address", "known", "bad"),
    [
        ("192.0.2.1", {}, False),
        ("127.0.0.1", {}, True),
        ("localhost", {}, True),
        ("::1", {}, True),
        ("node-a", {"resolves": {"node-a": ["127.0.1.1"]}}, True),
        ("node-a", {"resolves": {"node-a": ["192.0.2.1"]}}, False),
        ("node-a", {"unresolved": {"node-a": "failed"}}, True),
        ("node-a", {}, False),
    ],
)
def test_the_master_of_several_nodes_is_no_loopback(address, known, bad):
    assert failed(checks.master_reachable(launch(TWO_NODES.format(address)), net(**known))) == bad


def test_one_node_may_use_loopback():
    assert not failed(checks.master_reachable(launch("msrun a.py"), net()))


@pytest.mark.parametrize(
    ("text", "listening", "bad"),
    [
        ("msrun a.py", [], False),
        ("msrun a.py", [8118], True),
        (TWO_NODES.format("192.0.2.1"), [8118], True),
        (TWO_NODES.format("192.0.2.2"), [8118], False),
        ("msrun --master_port=80 a.py", [], True),
        ("msrun --master_port=99999 a.py", [], True),
        ("msrun --master_port=abc a.py", [], True),
    ],
)
def test_the_port_is_free_on_the_master(text, listening, bad):
    ports = Fact("host.ports", {"listening": listening, "reserved": "", "range": [32768, 60999]})
    assert failed(checks.master_port(launch(text), ports, net())) == bad


CLUSTER = {"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8", "MS_SCHED_HOST": "192.0.2.1", "MS_SCHED_PORT": "8118"}


@pytest.mark.parametrize("name", sorted(CLUSTER))
def test_a_dynamic_cluster_needs_all_four_variables(name):
    assert not failed(checks.cluster_variables(launch(**CLUSTER)))
    assert failed(checks.cluster_variables(launch(**{k: v for k, v in CLUSTER.items() if k != name})))


def test_a_script_that_starts_every_role_is_complete():
    text = (
        "export MS_WORKER_NUM=2 MS_SCHED_HOST=192.0.2.1 MS_SCHED_PORT=8118\nMS_ROLE=MS_SCHED python a.py &\n"
        "for i in 0 1; do MS_ROLE=MS_WORKER python a.py & done"
    )
    assert not failed(checks.cluster_variables(launch(text)))


def test_left_over_variables_are_told_from_those_of_a_job():
    assert failed(checks.stale_exports(launch(RANK_ID="0", DEVICE_ID="3")))
    assert not failed(checks.stale_exports(launch(**CLUSTER, RANK_ID="0", DEVICE_ID="3")))
    assert not failed(checks.stale_exports(launch()))


@pytest.mark.parametrize(
    ("value", "present", "taken", "rest"),
    [
        ("0,1,2", 8, [0, 1, 2], ""),
        ("1, 2,3", 8, [1], " 2,3"),
        ("1,3,8", 8, [1, 3], "8"),
        ("1,3,8", None, [1, 3, 8], ""),
        (" 0,1", 8, [], " 0,1"),
        ("0,1,", 8, [0, 1], ""),
        ("0;1", 8, [0], ";1"),
        ("a", 8, [], "a"),
        ("0,0", 8, [0], "0"),
    ],
)
def test_visible_devices_are_read_as_the_runtime_reads_them(value, present, taken, rest):
    assert visible(value, present) == (taken, rest)


@pytest.mark.parametrize(
    ("env", "bad"),
    [
        ({}, False),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3"}, False),
        ({"ASCEND_RT_VISIBLE_DEVICES": ""}, False),
        ({"ASCEND_RT_VISIBLE_DEVICES": "0, 1"}, True),
        ({"ASCEND_RT_VISIBLE_DEVICES": "3,2"}, True),
        ({"ASCEND_RT_VISIBLE_DEVICES": "7,8"}, True),
        ({"ASCEND_RT_VISIBLE_DEVICE": "0"}, True),
        ({"ASCEND_VISIBLE_DEVICES": "0-2,4"}, False),
        ({"ASCEND_VISIBLE_DEVICES": "npu-1,npu-3"}, False),
        ({"ASCEND_VISIBLE_DEVICES": "void"}, False),
        ({"ASCEND_VISIBLE_DEVICES": "Ascend910-0,Ascend910-1"}, False),
        ({"ASCEND_VISIBLE_DEVICES": "0,npu-1"}, True),
        ({"DEVICE_ID": "7"}, False),
        ({"DEVICE_ID": "8"}, True),
        ({"DEVICE_ID": "0,1"}, True),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4,5", "DEVICE_ID": "4"}, True),
        ({"ASCEND_RT_VISIBLE_DEVICES": "4,5", "DEVICE_ID": "1"}, False),
    ],
)
def test_device_variables(env, bad):
    assert failed(device_variables(launch(**env), EIGHT, NOT_KNOWN)) == bad


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        (TWO_NODES.format("192.0.2.1"), False),
        (TWO_NODES.format("192.0.2.1").replace("--node_rank=0 ", ""), True),
        ("msrun a.py", False),
    ],
)
def test_nodes_have_a_rank(text, bad):
    assert failed(checks.node_rank_given(launch(text))) == bad


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (TWO_NODES.format("192.0.2.1"), Verdict.PASS),
        (TWO_NODES.format("192.0.2.9"), Verdict.FAIL),
        (TWO_NODES.format("192.0.2.9").replace("rank=0", "rank=1"), Verdict.NOT_APPLICABLE),
        (TWO_NODES.format("127.0.0.1"), Verdict.PASS),
        (TWO_NODES.format("node-a"), Verdict.PASS),
        ("msrun a.py", Verdict.NOT_APPLICABLE),
    ],
)
def test_the_scheduler_starts_where_the_master_address_is(text, verdict):
    answer = checks.master_is_here(launch(text), net())
    assert (answer[0] if isinstance(answer, list) else answer).verdict is verdict
    unread = checks.master_is_here(launch(TWO_NODES.format("192.0.2.1")), NOT_KNOWN)
    assert not isinstance(unread, list) and unread.verdict is Verdict.UNKNOWN


NAMES = st.sampled_from(
    [
        "RANK_ID",
        "DEVICE_ID",
        "MS_ROLE",
        "MS_WORKER_NUM",
        "MS_SCHED_PORT",
        "MS_SCHED_HOST",
        "RANK_TABLE_FILE",
        "ASCEND_RT_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "MS_NODE_TIMEOUT",
        "CM_CHIEF_IP",
    ]
)


@given(st.dictionaries(NAMES, st.text(max_size=12)), st.text(alphabet='msrun -_=0123456789worklcdap$"\n', max_size=80))
def test_no_launch_raises(env, text):
    fact = launch("msrun " + text, **env)
    ports = Fact("host.ports", {"listening": [8118], "reserved": "", "range": None})
    checks.worker_numbers(fact, EIGHT, NOT_KNOWN)
    checks.master_reachable(fact, net())
    checks.master_port(fact, ports, net())
    checks.cluster_variables(fact)
    checks.rank_table_start(fact, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)
    checks.stale_exports(fact)
    checks.launcher_arguments(fact)
    checks.node_rank_given(fact)
    checks.node_timeout(fact)
    checks.options_accepted(fact)
    checks.master_is_here(fact, net())
    device_variables(fact, EIGHT, NOT_KNOWN)


@pytest.mark.parametrize(
    ("there", "rules"),
    [
        ({}, set()),
        ({"ask launch_text": TWO_NODES.format("192.0.2.1").replace("8118", "8119")}, {"RUN590"}),
        ({"ask launch_text": TWO_NODES.format("192.0.2.1").replace("_num=16", "_num=8")}, {"RUN590"}),
        ({"ask launch_text": TWO_NODES.format("192.0.2.1").replace("rank=0", "rank=1")}, set()),
        ({"file /t.json": "sample:ranktable_bad__rank_id-gap.json"}, {"HCCL592"}),
    ],
)
def test_launch_and_table_of_two_hosts_are_compared(there, rules):
    from doctor import checkup, compare
    from doctor.hosts.compose import example
    from doctor.rulebase import load

    items = {
        "ask env": {},
        "ask launch_text": TWO_NODES.format("192.0.2.1"),
        "ask rank_table_path": "/t.json",
        "file /t.json": "sample:ranktable_v1.0__2server-16p__merged.json",
    }
    base = load()
    run = checkup.Checkup(example(items), checkup.Options(only=("HCCL5*", "RUN5*")), base)
    for _ in run.steps():
        pass
    report = compare.against(run.report(), run.facts, example({**items, **there}), run.options, base)
    failing = {f.id for f in report.findings if f.verdict is Verdict.FAIL and f.id[-3:-1] == "59"}
    assert failing == rules


def test_devices_that_a_script_sets_again_for_a_later_command_are_not_those_of_the_first():
    text = (
        "export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node=4 a.py\n"
        "export ASCEND_RT_VISIBLE_DEVICES=0\ntorchrun --nproc_per_node=1 b.py\n"
    )
    assert not failed(checks.processes_visible(launch(text)))


def test_a_size_of_the_cluster_that_the_shell_fills_in_is_not_missing():
    text = "export MS_WORKER_NUM=${N}\nexport MS_SCHED_HOST=127.0.0.1\nexport MS_SCHED_PORT=8118\nMS_ROLE=MS_SCHED\n"
    assert not failed(checks.cluster_variables(launch(text)))
    assert failed(checks.cluster_variables(launch(text.partition("\n")[2])))
