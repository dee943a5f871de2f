"""Variables of HCCL: every one valid, invalid and absent; valid values are never reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.network import hccl_env as checks
from doctor.model import Fact, Unknown, Verdict
from doctor.probes.hccl_env import collect, table

NOT_KNOWN = Unknown("x", "not_recorded")
VALID = {
    "HCCL_CONNECT_TIMEOUT": ["120", "600", "7200"],
    "HCCL_EXEC_TIMEOUT": ["0", "1836", "2147483647", "0.05"],
    "HCCL_WHITELIST_DISABLE": ["0", "1"],
    "HCCL_WHITELIST_FILE": ["/a/white.json"],
    "HCCL_IF_IP": ["192.0.2.1", "2001:db8::1"],
    "HCCL_SOCKET_IFNAME": ["eth", "^eth", "=eth0", "^=eth0", "eth,enp", "=eth0,enp0", "bond0.100"],
    "HCCL_SOCKET_FAMILY": ["AF_INET", "AF_INET6"],
    "HCCL_IF_BASE_PORT": ["1024", "50000", "65520"],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["60000-60050", "60000,60050-60100,60150-60160", "auto", "56000,56005"],
    "HCCL_NPU_SOCKET_PORT_RANGE": ["61000-61050", "auto", "16666"],
    "HCCL_BUFFSIZE": ["1", "200", "4096"],
    "HCCL_INTRA_PCIE_ENABLE": ["0", "1"],
    "HCCL_INTRA_ROCE_ENABLE": ["0", "1"],
    "HCCL_INTER_HCCS_DISABLE": ["TRUE", "FALSE", "true"],
    "HCCL_ALGO": [
        "level0:NA;level1:ring",
        "level0:NA;level1:H-D_R",
        "level0:NA;level1:NHR_V1",
        "level0:NA;level1:AHC;level2:NB",
        "allreduce=level0:NA;level1:ring/allgather=level0:NA;level1:H-D_R",
        "level1:pairwise",
        "level0:NA;level1:pipeline",
    ],
    "HCCL_RDMA_TC": ["0", "132", "252"],
    "HCCL_RDMA_SL": ["0", "4", "7"],
    "HCCL_RDMA_TIMEOUT": ["5", "20", "24"],
    "HCCL_RDMA_RETRY_CNT": ["1", "7"],
    "HCCL_RDMA_QPS_PER_CONNECTION": ["1", "32"],
    "HCCL_MULTI_QP_THRESHOLD": ["1", "512", "8192"],
    "HCCL_DETERMINISTIC": ["false", "true", "strict", "TRUE"],
    "HCCL_OP_EXPANSION_MODE": [
        "HOST",
        "HOST_TS",
        "AI_CPU",
        "AIV",
        "AICPU_CacheDisable",
        "CCU_MS",
        "CCU_SCHED",
        "AICPU_TS",
    ],
    "HCCL_OP_RETRY_ENABLE": ["L1:0,L2:0", "L1:1,L2:1", "L0:0, L1:1, L2:0"],
    "HCCL_OP_RETRY_PARAMS": ["MaxCnt:3,HoldTime:5000,IntervalTime:1000", "MaxCnt:10"],
    "HCCL_LOGIC_SUPERPOD_ID": ["super_pod_1", "x" * 127],
    "HCCL_ENTRY_LOG_ENABLE": ["0", "1"],
    "HCCL_DEBUG_CONFIG": ["ALG,TASK,RESOURCE", "alg", "^task,alg"],
    "HCCL_DIAGNOSE_ENABLE": ["0", "1"],
    "HCCL_DFS_CONFIG": [
        "connection_fault_detection_time:0",
        "connection_fault_detection_time:7200,cluster_heartbeat:off",
        "connection_fault_detection_time:30,cluster_heartbeat:on,stuck_detection:on,inconsistent_check:off,task_monitor_interval:0",
        "inconsistent_check:first",
        "task_exception:on",
    ],
    "ASCEND_GLOBAL_LOG_LEVEL": ["0", "3", "4"],
    "ASCEND_SLOG_PRINT_TO_STDOUT": ["0", "1"],
    "ASCEND_GLOBAL_EVENT_ENABLE": ["0", "1"],
    "ASCEND_PROCESS_LOG_PATH": ["/tmp/log"],
}
INVALID = {
    "HCCL_CONNECT_TIMEOUT": ["119", "7201", "600s", "-1", "1e3"],
    "HCCL_EXEC_TIMEOUT": ["2147483648", "-1", "abc"],
    "HCCL_WHITELIST_DISABLE": ["2", "true"],
    "HCCL_IF_IP": ["192.0.2", "eth0", "192.0.2.1,192.0.2.2"],
    "HCCL_SOCKET_IFNAME": ["^", "=", "eth0,,enp", "eth0 enp"],
    "HCCL_SOCKET_FAMILY": ["AF_INET4", "ipv4"],
    "HCCL_IF_BASE_PORT": ["1023", "65521", "60000-60031"],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["0", "60050-60000", "60000-60100,60050", "70000", "AUTO", "60000-"],
    "HCCL_NPU_SOCKET_PORT_RANGE": ["65536", "a"],
    "HCCL_BUFFSIZE": ["0", "200MB", "-5", "0.5"],
    "HCCL_INTRA_PCIE_ENABLE": ["2"],
    "HCCL_INTRA_ROCE_ENABLE": ["TRUE"],
    "HCCL_INTER_HCCS_DISABLE": ["1", "yes"],
    "HCCL_ALGO": ["ring", "level0:ring", "level1:tree", "allreduce:level1:ring", "sum=level1:ring", "level3:ring"],
    "HCCL_RDMA_TC": ["256", "130", "-4"],
    "HCCL_RDMA_SL": ["8"],
    "HCCL_RDMA_TIMEOUT": ["4", "25"],
    "HCCL_RDMA_RETRY_CNT": ["0", "8"],
    "HCCL_RDMA_QPS_PER_CONNECTION": ["0", "33"],
    "HCCL_MULTI_QP_THRESHOLD": ["0", "8193", "512KB"],
    "HCCL_DETERMINISTIC": ["1", "on"],
    "HCCL_OP_EXPANSION_MODE": ["AICPU", "host", "CPU"],
    "HCCL_OP_RETRY_ENABLE": ["1", "L1:2", "L3:1", "L1=1"],
    "HCCL_OP_RETRY_PARAMS": ["MaxCnt:0", "MaxCnt:11", "HoldTime:60001", "Max:1", "5000"],
    "HCCL_LOGIC_SUPERPOD_ID": ["x" * 128],
    "HCCL_ENTRY_LOG_ENABLE": ["on"],
    "HCCL_DEBUG_CONFIG": ["alg, task", "ALL", "alg,^task"],
    "HCCL_DIAGNOSE_ENABLE": ["2"],
    "HCCL_DFS_CONFIG": ["connection_fault_detection_time:10", "cluster_heartbeat:first", "heartbeat:on", "on"],
    "ASCEND_GLOBAL_LOG_LEVEL": ["5", "INFO"],
    "ASCEND_SLOG_PRINT_TO_STDOUT": ["true"],
    "ASCEND_GLOBAL_EVENT_ENABLE": ["-1"],
}


def env(**variables: str) -> Fact:
    return Fact("hccl.env", collect(variables, []))


def fails(answer) -> list[str]:
    found = answer if isinstance(answer, list) else [answer]
    return [str(one.args.get("name", "")) for one in found if one.verdict is Verdict.FAIL]


def chip(name: str) -> Fact:
    return Fact("npu.table", [{"name": name}])


def test_every_variable_of_the_table_has_a_case():
    assert set(VALID) == set(table()[0])
    # any text is a path
    assert set(table()[0]) - set(INVALID) == {"HCCL_WHITELIST_FILE", "ASCEND_PROCESS_LOG_PATH"}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in VALID.items() for v in values])
def test_a_valid_value_is_not_reported(name, value):
    fact = env(**{name: value})
    assert not fails(checks.in_range(fact, NOT_KNOWN, NOT_KNOWN))
    assert not fails(checks.known_names(fact))


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in INVALID.items() for v in values])
def test_a_value_outside_its_range_is_reported(name, value):
    assert fails(checks.in_range(env(**{name: value}), NOT_KNOWN, NOT_KNOWN)) == [name]


@pytest.mark.parametrize("name", sorted(VALID))
def test_a_variable_that_is_set_to_nothing_is_not_set(name):
    for value in ("", "  "):
        assert not fails(checks.in_range(env(**{name: value}), NOT_KNOWN, NOT_KNOWN))
    assert not fails(checks.in_range(env(), NOT_KNOWN, NOT_KNOWN))


@pytest.mark.parametrize(
    ("name", "value", "of", "bad"),
    [
        ("HCCL_EXEC_TIMEOUT", "0", "910A", True),
        ("HCCL_EXEC_TIMEOUT", "17340", "910A", False),
        ("HCCL_EXEC_TIMEOUT", "17341", "310P3", True),
        ("HCCL_EXEC_TIMEOUT", "17341", "910B3", False),
        ("HCCL_RDMA_TIMEOUT", "24", "910B3", True),
        ("HCCL_RDMA_TIMEOUT", "24", "910A", False),
        ("HCCL_OP_EXPANSION_MODE", "HOST", "Ascend910", True),
        ("HCCL_OP_EXPANSION_MODE", "HOST", "910B3", False),
        ("HCCL_OP_EXPANSION_MODE", "AICPU_CacheDisable", "910B3", True),
    ],
)
def test_the_range_of_the_chip_counts_where_it_is_known(name, value, of, bad):
    assert bool(fails(checks.in_range(env(**{name: value}), chip(of), NOT_KNOWN))) == bad


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("HCCL_CONECT_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_BUFFER_SIZE", "HCCL_BUFFSIZE"),
        ("HCCL_XYZ_QQQ", "-"),
        ("HCCL_WHITE_LIST_DISABLE", "HCCL_WHITELIST_DISABLE"),
    ],
)
def test_an_unknown_name_is_asked_about(name, near):
    answer = checks.known_names(env(**{name: "1"}))[0]
    assert answer.verdict is Verdict.FAIL and answer.args["near"] == near


@pytest.mark.parametrize(
    ("variables", "verdict", "severity"),
    [
        ({}, Verdict.PASS, None),
        ({"HCCL_CONNECT_TIMEOUT": "1200", "HCCL_EXEC_TIMEOUT": "3600"}, Verdict.PASS, None),
        ({"HCCL_CONNECT_TIMEOUT": "1200", "HCCL_EXEC_TIMEOUT": "1200"}, Verdict.FAIL, None),
        ({"HCCL_CONNECT_TIMEOUT": "7200"}, Verdict.FAIL, "advice"),
        ({"HCCL_EXEC_TIMEOUT": "600"}, Verdict.FAIL, "advice"),
        ({"HCCL_CONNECT_TIMEOUT": "7200", "HCCL_EXEC_TIMEOUT": "0"}, Verdict.PASS, None),
        ({"HCCL_CONNECT_TIMEOUT": "x"}, Verdict.NOT_APPLICABLE, None),
        ({"HCCL_CONNECT_TIMEOUT": "1200", "HCCL_OP_EXPANSION_MODE": "AIV"}, Verdict.NOT_APPLICABLE, None),
    ],
)
def test_connecting_ends_before_executing(variables, verdict, severity):
    answer = checks.connect_below_exec(env(**variables))
    assert (answer.verdict, answer.severity) == (verdict, severity)


NET = Fact(
    "host.net",
    {
        "interfaces": {"lo": ["127.0.0.1"], "eth0": ["192.0.2.1"], "enp1": ["198.51.100.1"], "docker0": ["172.17.0.1"]},
        "up": ["lo", "eth0", "enp1", "docker0"],
    },
)


@pytest.mark.parametrize(
    ("rule", "good"),
    [
        ("eth", True),
        ("=eth0", True),
        ("=eth", False),
        ("^eth", True),
        ("^eth,enp,lo,docker", False),
        ("ib", False),
        ("^=eth0", True),
        ("ib,enp", True),
    ],
)
def test_interface_rules_match_as_documented(rule, good):
    assert bool(fails(checks.interface_is_here(env(HCCL_SOCKET_IFNAME=rule), NET))) != good


def test_the_address_wins_over_the_name():
    assert not fails(checks.interface_is_here(env(HCCL_SOCKET_IFNAME="ib", HCCL_IF_IP="192.0.2.1"), NET))


@pytest.mark.parametrize(
    ("nodes", "verdict"), [(1, Verdict.NOT_APPLICABLE), (2, Verdict.FAIL), (None, Verdict.NOT_APPLICABLE)]
)
def test_an_interface_is_chosen_where_there_are_several_nodes(nodes, verdict):
    assert checks.interface_chosen(env(), Fact("launch.settings", {"nodes": nodes}), NET).verdict is verdict


@pytest.mark.parametrize(
    ("pcie", "roce", "bad"),
    [
        ("1", None, 0),
        ("1", "0", 0),
        ("0", "1", 0),
        (None, "1", 0),
        ("0", "0", 0),
        ("1", "1", 1),
        ("0", None, 1),
        (None, "0", 1),
    ],
)
def test_pairs_of_links_are_those_of_the_table(pcie, roce, bad):
    given = {"HCCL_INTRA_PCIE_ENABLE": pcie, "HCCL_INTRA_ROCE_ENABLE": roce}
    answer = checks.intra_pair(env(**{k: v for k, v in given.items() if v is not None}))
    assert (answer.verdict is Verdict.FAIL) == bool(bad)


@given(
    st.sampled_from(sorted(VALID)), st.text(max_size=40), st.sampled_from(["910A", "910B3", "Ascend910", "310P3", "?"])
)
def test_no_value_raises(name, value, of):
    fact = env(**{name: value})
    checks.in_range(fact, chip(of), NOT_KNOWN)
    checks.known_names(fact)
    checks.connect_below_exec(fact)
    checks.exec_has_an_end(fact)
    checks.interface_is_here(fact, NET)
    checks.intra_pair(fact)
    checks.read_by_this_chip(fact, chip(of), NOT_KNOWN)
    checks.ports_free(
        fact, Fact("host.ports", {"listening": [1], "reserved": value, "range": [1, 2]}), NOT_KNOWN, NOT_KNOWN
    )
