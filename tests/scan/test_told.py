"""doctor.scan.told: what a log says of the run and of its place in it."""

import pytest

from doctor.scan.told import Opening, told

STEP = "2026-03-18 08:00:{:02d},000 - mf[c.py:5] - INFO - {{ Epoch:[ 1/ 1], step:[ {:4d}/ 99], loss: 1.0\n"


def of(text):
    data = text.encode()
    return told(data, data, whole=True)


def test_training_steps_carry_their_times():
    found = dict(of("".join(STEP.format(n, n) for n in range(1, 6))).beats)
    steps = {key: seconds for key, seconds in found.items() if key[0] == "s"}
    assert sorted(steps) == [f"s1/{n}" for n in range(1, 6)]
    assert steps["s1/4"] - steps["s1/1"] == 3


def test_the_last_steps_of_a_long_log_are_known_too():
    lines = [STEP.format(n % 60, n) for n in range(1, 2000)]
    data = "".join(lines).encode()
    found = dict(told(data[: 1 << 16], data[-(64 << 10) :], whole=False).beats)
    assert "s1/1" in found and "s1/1999" in found and len(found) < 100


def test_lines_of_several_makes_carry_their_steps_and_an_evaluation_none():
    other = "2026-03-18 08:01:00,000 - mf[c.py:5] - INFO - step: 7, epoch: 2, loss: 1.0\n"
    evaluation = "2026-03-18 08:02:00,000 - mf[c.py:5] - INFO - step: 8, epoch: 2, eval_loss: 1.0\n"
    found = dict(of(STEP.format(1, 1) + other + STEP.format(2, 2) + evaluation).beats)
    assert [key for key in found if key[0] == "s"] == ["s1/1", "s2/7", "s1/2"]


@pytest.mark.parametrize(
    ("text", "world"),
    [
        ("msrun --worker_num=256 --local_worker_num=8 train.py\n", 256),
        ("export RANK_SIZE=16\n", 16),
        ("x is registered successfully. Currently registered node number: 1, expected node number: 32\n", 32),
        ("[EVENT] HCCL(1,python):2026-03-18-09:00:14.400.271 [op_base.cc:1203] 1 Entry-HcclCommInitRootInfoConfig:"
         "ranks[4], rank[2], deviceLogicId[0]\n", 4),
        ("nothing of that kind\n", 0),
    ],
)  # fmt: skip
def test_the_number_of_ranks_is_read(text, world):
    assert of(text).world == world


def test_the_largest_group_of_hccl_tells_the_own_rank():
    head = "[EVENT] HCCL(1,python):2026-03-18-09:00:14.400.271 [op_base.cc:1203] 1 Entry-"
    line = head + "HcclCommInitRootInfoConfig:ranks[{}], rank[{}]\n"
    found = of(line.format(2, 1) + line.format(64, 37) + line.format(8, 5))
    assert (found.world, found.rank) == (64, 37)


def test_registrations_name_hosts_and_addresses():
    line = (
        "The new node: 9(role: MS_WORKER), rank id: 9, device id: 1, hostname: node-1, ip: 192.0.2.11 is registered "
        "successfully. Currently registered node number: 1, expected node number: 16\n"
    )
    assert of(line).members == ((9, 1, "node-1", "192.0.2.11"),)


def test_odd_bytes_tell_nothing_and_break_nothing():
    data = bytes(range(256)) * 40
    assert told(data, data, whole=False).world == 0


BEGIN = [b"INFO loading the library of tokens now", b"INFO building the model on all of the cards"]


def again(*chunks):
    opening = Opening()
    lines = 0
    for n, chunk in enumerate(chunks):
        opening.take(chunk, lines, first=not n)
        lines += chunk.count(b"\n")
    return opening.again


def test_a_source_that_begins_once_more_tells_where():
    first = b"\n".join([*BEGIN, b"ValueError: x", b""])
    more = b"\n".join([b"2026-03-12 10:00:05,000 - INFO - loading", b""])
    assert again(first) == (0, None)
    assert again(first + BEGIN[0] + b"\n" + BEGIN[1] + b"\n" + more)[0] == 4
    assert again(first, first + more) == (4, 1773309605.0)


def test_one_line_of_the_beginning_is_no_new_start():
    filler = b"other words that stand here now\n" * 5
    assert again(b"\n".join([*BEGIN, b""]) + filler + BEGIN[0] + b"\n" + filler * 200) == (0, None)


def test_everyday_lines_that_a_source_begins_with_are_no_new_start():
    everyday = b"\n".join([*BEGIN, b"other words that stand here now", b""])
    assert again(everyday * 16)[0] > 0
    assert again(everyday * 20) == again(everyday, everyday * 20) == again(*[everyday] * 40) == (0, None)


def test_the_first_record_of_a_failure_is_no_common_start():
    line = "[ERROR] HCCL(7,python):2026-03-12-10:00:00.000.000 [a.cc:1] [7]timeout"
    assert of(line).beats == ()
