"""doctor.run.clock: how far the clocks of the ranks are apart."""

import pytest

from doctor.run import clock


def steps(offset, first=1, last=20, step=2.0, jitter=0.0):
    """Times of training steps on a clock that is ``offset`` seconds ahead."""
    return {f"s1/{n}": 1000.0 + n * step + offset + jitter * (n % 3) for n in range(first, last + 1)}


def test_clocks_that_agree_are_left_alone():
    found = clock.estimate({0: steps(0), 1: steps(0), 2: steps(0)}, {})
    assert {c.offset for c in found.ranks.values()} == {0.0}
    assert found.doubt < 2


@pytest.mark.parametrize("offset", [0.5, -63.2, 290.0, 8 * 3600.0])
def test_the_offset_is_the_difference_at_common_steps(offset):
    beats = {rank: steps(offset if rank == 2 else 0.0, jitter=0.05) for rank in range(5)}
    found = clock.estimate(beats, {})
    assert found.ranks[2].how == "steps"
    assert found.ranks[2].offset == pytest.approx(offset, abs=0.2)
    assert found.fixed(2, 1000.0 + offset) == pytest.approx(1000.0, abs=0.2)
    assert found.doubt < 2


def test_most_clocks_are_the_common_one():
    beats = {rank: steps(-120.0 if rank < 2 else 0.0) for rank in range(8)}
    assert [clock.estimate(beats, {}).ranks[r].offset for r in (0, 7)] == [-120.0, 0.0]


def test_ranks_join_over_others_when_they_share_no_step():
    found = clock.estimate({0: steps(0, 1, 10), 1: steps(40, 5, 30), 2: steps(-7, 25, 40), 3: steps(0, 1, 40)}, {})
    assert found.ranks[2].offset - found.ranks[0].offset == pytest.approx(-7)


def test_steps_between_those_of_the_others_are_placed_between_them():
    even = {k: v for k, v in steps(0, 1, 40).items() if int(k[3:]) % 2 == 0}
    odd = {k: v for k, v in steps(100, 1, 40).items() if int(k[3:]) % 2}
    found = clock.estimate({0: even, 1: odd, 2: even}, {})
    assert found.ranks[1].offset == pytest.approx(100, abs=0.5)


def test_a_rank_that_stood_still_for_half_an_hour_keeps_its_clock():
    stalled = {key: seconds + (1836 if int(key[3:]) > 10 else 0) for key, seconds in steps(0).items()}
    found = clock.estimate({0: steps(0), 1: steps(0), 2: stalled}, {})
    assert abs(found.ranks[2].offset) < 1


def test_one_host_has_one_clock_and_lends_it_to_a_rank_without_steps():
    beats = {0: steps(0), 1: steps(0), 2: steps(90), 3: {}}
    found = clock.estimate(beats, {0: "a", 1: "a", 2: "b", 3: "b"})
    assert found.ranks[3] == found.ranks[2] and found.ranks[3].offset == pytest.approx(90)


def test_ranks_of_one_host_that_plainly_differ_keep_their_own():
    found = clock.estimate({0: steps(0), 1: steps(0), 2: steps(90)}, dict.fromkeys(range(3), "a"))
    assert found.ranks[2].offset == pytest.approx(90)


def test_communicators_made_together_serve_where_no_steps_are():
    found = clock.estimate({0: {"i8": 50.0}, 1: {"i8": 51.0}, 2: {"i8": 250.0}}, {})
    assert found.ranks[2] == (pytest.approx(200, abs=1), "init")
    assert found.ranks[1].offset == 0.0 and found.doubt >= clock.MADE_TOGETHER


def test_a_late_start_within_a_minute_is_no_other_clock():
    found = clock.estimate({0: {"mx": 50.0}, 1: {"mx": 95.0}}, {})
    assert [c.offset for c in found.ranks.values()] == [0.0, 0.0]


def test_of_hosts_of_which_nothing_is_known_the_doubt_is_large():
    found = clock.estimate({0: {}, 1: {}}, {0: "a", 1: "b"})
    assert found.doubt == clock.UNKNOWN and found.ranks[0].how == "none"
    assert clock.estimate({0: {}, 1: {}}, {0: "a", 1: "a"}).doubt == 0


def test_records_that_few_ranks_begin_with_tell_no_clock():
    beats = {rank: {"ma": 50.0} for rank in range(6)} | {6: {"mb": 50.0}, 7: {"mb": 950.0}}
    assert all(c.offset == 0.0 for c in clock.estimate(beats, {}).ranks.values())


def test_ranks_of_one_host_start_apart_and_still_have_one_clock():
    beats = {0: {"ma": 0.0}, 1: {"ma": 1.0}, 2: {"ma": 200.0}, 3: {"ma": 270.0}}
    found = clock.estimate(beats, {0: "a", 1: "a", 2: "b", 3: "b"})
    assert found.ranks[2] == found.ranks[3] and found.ranks[2].offset > 100
