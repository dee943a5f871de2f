"""doctor.render.ranks: the run of many ranks as text."""

import pytest

from doctor.render import ranks
from doctor.render.text import plain, width


def lane(rank, state="waited"):
    return {"rank": rank, "state": state}


def event(seconds, text, what, ranks="0", **more):
    return {"seconds": seconds, "rank": 0, "source": "w.log", "line": 1, "text": text, "what": what, "finding": None,
            "ranks": ranks, **more}  # fmt: skip


def run(**fields):
    clock = {"corrected": False, "doubt": 0.0, "hosts": []}
    base = {"world_size": 8, "missing": "", "ranks_seen": 8, "clock": clock, "lanes": [lane(n) for n in range(8)]}
    return {**base, "timeline": [], "chains": [], **fields}


def text(found, lang="en", every=False, columns=100, ascii_only=False):
    return plain(ranks.lines(found, lang, every=every, columns=columns, ascii_only=ascii_only))


def test_states_are_folded_over_ranks():
    lanes = [lane(n, "failed" if n == 3 else "missing" if n == 5 else "waited") for n in range(8)]
    shown = text(run(lanes=lanes, ranks_seen=7, missing="5"))
    assert "7 of 8" in shown
    assert "failed 3 · no log 5 · waited 0-2,4,6-7" in shown


def test_clocks_are_shown_only_when_they_differ():
    hosts = [{"host": "node-1", "ranks": "0-3", "offset": -63.2, "from": "steps"},
             {"host": "node-2", "ranks": "4-7", "offset": 0.0, "from": "steps"}]  # fmt: skip
    clock = {"corrected": True, "doubt": 0.4, "hosts": hosts}
    shown = text(run(clock=clock))
    assert "node-1 (rank 0-3) -63.2 s" in shown and "0.4 s" in shown and "node-2" not in shown
    assert "Clocks" not in text(run())


def test_a_few_lines_of_the_timeline_keep_the_cause_and_their_order():
    events = [event(n, f"step {n}", "step", str(n)) for n in range(30)]
    events.insert(20, event(19.5, "OSError: disk", "cause", "3"))
    short, whole = text(run(timeline=events)), text(run(timeline=events), every=True)
    assert "OSError: disk" in short
    assert short.count("step") < 20 < whole.count("\n")
    rows = [row for row in short.splitlines() if "00:00:" in row]
    assert len(rows) == ranks.EVENTS and rows == sorted(rows)


def test_the_timeline_says_what_the_rule_says_and_without_a_rule_the_line():
    events = [event(1, "[ERROR] ME(1:2):2026 a/b.cc", "cause", finding=0), event(2, "odd", "failure", finding=None)]
    shown = plain(
        ranks.lines(
            run(timeline=events), "en", said=["MEM702  Memory is used up"], every=False, columns=90, ascii_only=True
        )
    )
    assert "cause    MEM702  Memory is used up" in shown and "ERROR" not in shown and "failure  odd" in shown


def test_without_a_cause_there_is_no_timeline_unless_asked():
    events = [event(1, "step 1", "step")]
    assert "step 1" not in text(run(timeline=events))
    assert "step 1" in text(run(timeline=events), every=True)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_foreign_text_is_harmless_and_fits(lang):
    events = [event(1, "\x1b[31m password=hunter22 " + "长" * 300, "cause")]
    shown = text(run(timeline=events), lang)
    assert "\x1b" not in shown and "hunter22" not in shown
    assert all(width(row) <= 101 for row in shown.splitlines())


def test_a_long_chain_shows_its_two_ends():
    shown = text(run(chains=[{"ranks": list(range(40)), "cycle": False}]))
    assert "0 → 1 → 2 → 3 → … → 36 → 37 → 38 → 39" in shown
    circle = text(run(chains=[{"ranks": [0, 1, 0], "cycle": True}]), ascii_only=True)
    assert "0 -> 1 -> 0 (in a circle)" in circle
