"""doctor.run.waits: who waited for whom, and where it ends."""

import pytest

from doctor.run import waits
from doctor.run.places import Source
from doctor.scan.scanner import Occurrence, Scanned


def occurrence(text, **args):
    return Occurrence("HCCL010", 1, text, args, "ERROR", None, None, None, None, 0)


@pytest.fixture
def source():
    scan = Scanned("worker_0.log", 1, 1, (), {}, (), 0, 0, (0, None), 0, (), (None, None), (), b"")
    return Source(scan, 0, 0, None)


def edges(source, text, where=None, rank=0, world=8, **args):
    found = waits.waits_of([(source, rank, occurrence(text, **args))], where or {}, world)
    return found.edges.get(rank, ())


@pytest.mark.parametrize(
    ("text", "peers"),
    [
        ("EI0002: The Notify register has not received the Notify record from remote rank [5].", (5,)),
        ("FFTS+ run failed, para information is notify id:[0x17], stage:[ffffffff], remote rank:[3].", (3,)),
        ("wait socket establish timeout, role[1] rank[6] timeout[120 s]", (6,)),
        ("Transport init error. Reason: [Create][DestLink]Create Dest rank[0], dst_rank[2]", (2,)),
        ('fault_info["Failed to connect agent[1,3,5]"]', (1, 3, 5)),
        ("remote rank [4294967295]", ()),
        ("remote rank [99]", ()),
        ("notify wait timeout", ()),
    ],
)
def test_the_texts_of_hccl_name_the_rank_waited_for(source, text, peers):
    assert edges(source, text) == peers


def test_a_rank_number_of_another_group_names_nobody(source):
    group = "groupRankContent is rank[0] of ranks[4], group[pp-2-630117]"
    assert edges(source, f"remote rank:[2] {group}") == ()
    assert edges(source, "remote rank:[2] groupRankContent is rank[0] of ranks[8], group[hccl_world_group]") == (2,)


def test_an_address_and_a_card_become_a_rank(source):
    text = "Cluster Exception Location[IP/ID]:[192.0.2.7/3], ExceptionType:[Heartbeat Lost Occurred]"
    assert edges(source, text, {("192.0.2.7", 3): 5}) == (5,)
    assert edges(source, text, {}) == ()


def test_a_card_that_no_list_names_is_found_beside_those_that_speak(source):
    text = "Cluster Exception Location[IP/ID]:[192.0.2.7/{}], Discoverer:[192.0.2.7/{}], ExceptionType:[Stuck Occurred]"
    seen = [(source, 8 + n, occurrence(text.format(6, n))) for n in (1, 3)]
    assert waits.waits_of(seen, {}, 32).edges == {9: (14,), 11: (14,)}


def test_a_table_of_links_names_the_ranks_of_addresses(source):
    text = "|  192.0.2.199(4)   |  16666  |   192.0.3.198(0)   |  3234403008  |  client  | time out"
    found = waits.waits_of(
        [(source, 0, occurrence(text)), (source, 0, occurrence("error cqe status[12], dst ip 192.0.2.199"))], {}, 8
    )
    assert found.edges[0] == (4,)


def test_rank_tables_give_addresses():
    table = {
        "server_list": [
            {"server_id": "192.0.2.1", "device": [{"device_id": "3", "device_ip": "192.0.9.3", "rank_id": "11"}]}
        ]
    }
    found = waits.addresses([], [table, {"server_list": "odd"}, {"server_list": [{"device": [{"rank_id": "x"}]}]}])
    assert found == {("192.0.2.1", 3): 11, ("192.0.9.3", -1): 11}


def chain(table):
    return waits.Waits({k: tuple(v) for k, v in table.items()}, {}, {}, {})


def test_a_chain_is_followed_to_the_rank_that_names_nobody():
    votes, chains = waits.ends_of(chain({0: [1], 1: [2], 2: [3]}))
    assert votes == {3: 3}
    assert chains == [((0, 1, 2, 3), False)]


def test_a_chain_ends_at_a_rank_that_failed_though_it_waited_too():
    votes, _ = waits.ends_of(chain({0: [1], 1: [2], 2: [3]}), stop=[2])
    assert votes == {2: 2}


def test_a_circle_is_named_and_blames_nobody():
    votes, chains = waits.ends_of(chain({2: [0], 0: [1], 1: [2], 5: [0]}))
    assert votes == {}
    assert chains[0] == ((0, 1, 2, 0), True)


def test_a_long_chain_takes_no_long_time():
    votes, chains = waits.ends_of(chain({n: [n + 1] for n in range(4000)}))
    assert votes == {4000: 4000} and len(chains) == 1


@pytest.mark.parametrize(
    ("text", "args", "answer"),
    [
        ("Worker process 12133 exit with exception. Error code: -9.", {"pid": "12133"}, (4, -9)),
        ("worker 37 exited with 9", {}, (37, -9)),
        ("rank 3 was killed, exit code 137", {}, (3, -9)),
        ("worker 2 exited with code 1", {}, (2, 1)),
        ("Worker process 777 exit with exception. Error code: 1.", {"pid": "777"}, (None, 1)),
    ],
)
def test_a_launcher_names_the_process_that_ended(text, args, answer):
    assert waits.exit_of(occurrence(text, **args), {12133: 4}) == answer


def test_the_host_that_nobody_speaks_for_is_the_one_that_is_left(source):
    where = {("10.0.0.1", 0): 0, ("10.0.0.1", 1): 1, ("10.0.0.3", 1): 5}
    text = (
        "Local information: server 10.0.0.1, device ID 1, device IP 29.0.1.1. "
        "Peer information: server 10.0.0.9, device ID 1, device IP 29.0.9.1."
    )
    seen = [(source, 1, occurrence(text))]
    assert waits.waits_of(seen, where, 6).edges == {1: (3,)}
    assert waits.waits_of(seen, where, 8).edges == {}
    hosts = (("a", (0, 1)), ("b", (2, 3, 6, 7)), ("c", (4, 5)))
    assert waits.waits_of(seen, where, 8, hosts).edges == {1: (3,)}
