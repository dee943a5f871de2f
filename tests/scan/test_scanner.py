"""doctor.scan.scanner: what is found, on which line, in which record; whatever the chunks, however long the log."""

import gzip
import io
import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.ranking import GOES_ON
from doctor.rulebase import load
from doctor.scan import records
from doctor.scan.inputs import expand
from doctor.scan.scanner import CHUNK, KEEP_FIRST, Matcher, Scanner, plain_chunks, scan_stream, scan_text

T = "2026-03-01-08:15:{:02d}.000.000"
PLAIN = {"hit": [{"log": "x"}], "miss": [{"log": "a"}, {"log": "b"}]}


def ms(level, text, second=0, pid=7):
    """A line as MindSpore's Python logger prints it."""
    return f"[{level}] ME({pid}:140,MainProcess):{T.format(second)} [a.py:1] {text}"


def step(n):
    """A step line of mindformers."""
    return (
        f"2026-03-01 08:15:{n % 60:02d},123 - mindformers[callback.py:529] - INFO - {{ Epoch:[  1/  1], "
        f"step:[ {n:4d}/ 9999], "
        "loss: 10.912, per_step_time: 1993ms, lr: 1e-06, overflow cond: False, loss_scale: 65536.0, global_norm: [0.93]"
    )


@pytest.fixture(scope="module")
def own(tmp_path_factory, rules_in, make_rule):
    """A matcher of rules with every kind of unit and level."""
    folder = rules_in(tmp_path_factory.mktemp("scanner"))
    fine = {"tests": PLAIN}
    folder.put(
        make_rule("RUN911", "zebra-lost"),
        make_rule("RUN912", {"any": [{"literal": "yak-shaved", "regex": r"yak-shaved (?P<n>\d+) times"}]}, **fine),
        make_rule("RUN913", {"any": [{"literal": "llama-slow"}], "level": ["WARNING"]}),
        make_rule("RUN914", {"any": [{"literal": "emu-info"}], "level": ["INFO", "WARNING", "ERROR"]}),
        make_rule(
            "RUN915",
            {"all": [{"literal": "otter-begins"}, {"regex": r"otter-ends at (?P<at>\d+)"}], "unit": "block"},
            **fine,
        ),
        make_rule("RUN916", {"all": [{"literal": "mole-begins"}, {"literal": "mole-ends"}], "unit": "message"}, **fine),
        make_rule(
            "RUN917", {"all": [{"literal": "crow-one"}, {"literal": "crow-two"}], "within": {"lines": 3}}, **fine
        ),
        make_rule("RUN918", {"any": [{"literal": "wren-gone"}], "not": [{"literal": "wren-back"}]}),
        make_rule(
            "RUN919",
            {"any": [{"literal": "ibis-mem", "regex": r"ibis-mem (?P<a>\d+) of (?P<b>\d+)"}], "calc": "a > b"},
            **fine,
        ),
        make_rule(
            "RUN920", {"all": [{"literal": "swan-one"}, {"literal": "swan-two"}], "within": {"seconds": 10}}, **fine
        ),
        make_rule("RUN921", {"any": [{"literal": "hare-ran"}], "after": 5}),
    )
    base = load(str(folder.folder))
    assert not base.problems, base.problems
    return Matcher(base, "python")


@pytest.fixture(scope="module")
def fast(own):
    """The same rules with the fastest engine."""
    return Matcher(own.base)


def fired(scan):
    """(rule, line) of all that was found."""
    return [(o.rule, o.line) for o in scan.occurrences]


def agrees(scan, expected):
    """Whether a scan counts what a plain loop found, and keeps the first places of each rule and perhaps the last."""
    places = {}
    for rule, line in expected:
        places.setdefault(rule, []).append(line)
    kept = {}
    for rule, line in fired(scan):
        kept.setdefault(rule, []).append(line)
    assert scan.counts == {rule: len(found) for rule, found in places.items()}
    assert kept.keys() == places.keys()
    for rule, found in kept.items():
        assert found[:KEEP_FIRST] == places[rule][:KEEP_FIRST]
        assert found[KEEP_FIRST:] in ([], places[rule][-1:])
    return True


def lines_of(*lines):
    return "\n".join(lines) + "\n"


# ------------------------------------------------------------------ lines


WORDS = st.sampled_from(
    [
        "zebra-lost",
        "yak-shaved 3 times",
        "yak-shaved some times",
        "nothing",
        "",
        "llama-slow",
        "emu-info",
        "wren-gone",
        "wren-gone wren-back",
        "ibis-mem 5 of 3",
        "ibis-mem 3 of 5",
        "集合通信 zebra-lost",
    ]
)
LEVELS = st.sampled_from(["ERROR", "WARNING", "INFO", "DEBUG", "CRITICAL"])
LINES = st.lists(st.tuples(LEVELS, WORDS, st.integers(0, 3)), min_size=1, max_size=11)


def reference(lines):
    """(rule, line) by a plain loop over lines that each have a head of their own."""
    found = []
    for number, line in enumerate(lines, 1):
        level = records.head_of(line).level
        loud = level not in ("INFO", "DEBUG")
        if loud and "zebra-lost" in line:
            found.append(("RUN911", number))
        if loud and "yak-shaved 3 times" in line:
            found.append(("RUN912", number))
        if level == "WARNING" and "llama-slow" in line:
            found.append(("RUN913", number))
        if level in ("INFO", "WARNING", "ERROR") and "emu-info" in line:
            found.append(("RUN914", number))
        if loud and "wren-gone" in line and "wren-back" not in line:
            found.append(("RUN918", number))
        if loud and "ibis-mem 5 of 3" in line:
            found.append(("RUN919", number))
    return sorted(found)


@settings(max_examples=120)
@given(LINES, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_rules_fire_on_the_lines_where_a_plain_loop_finds_them(own, fast, rows, newline_at_end, end):
    lines = [ms(level, text + "." * dots) for level, text, dots in rows]
    data = end.join(lines) + (end if newline_at_end else "")
    for matcher in (own, fast):
        scan = scan_text(matcher, data)
        assert agrees(scan, reference(lines))
        assert scan.lines == len(lines) and scan.size == len(data.encode())


@settings(max_examples=60)
@given(LINES, st.lists(st.integers(1, 120), max_size=30), st.integers(0, 2))
def test_line_numbers_are_exact_for_any_size_of_chunks(fast, rows, sizes, dangling):
    lines = [ms(level, text + "." * dots) for level, text, dots in rows]
    data = ("\n".join(lines) + "\n" * dangling).encode()
    scanner = Scanner(fast, "x")
    at = 0
    for size in sizes:
        if data[at : at + size]:
            scanner.feed(data[at : at + size])
        at += size
    if data[at:]:
        scanner.feed(data[at:])
    scan = scanner.finish()
    assert agrees(scan, reference(lines))


@pytest.mark.parametrize("seed", range(3))
def test_line_numbers_are_exact_in_a_log_of_many_chunks(fast, seed):
    rng = random.Random(seed)
    lines = [ms("INFO", "x" * rng.randrange(400)) for _ in range(12_000)]
    wanted = sorted(rng.sample(range(len(lines)), KEEP_FIRST))
    for n in wanted:
        lines[n] = ms("ERROR", "zebra-lost " + "y" * rng.randrange(400))
    data = "\n".join(lines).encode()
    assert len(data) > 8 * CHUNK
    scan = scan_stream(fast, "x", io.BytesIO(data))
    assert fired(scan) == [("RUN911", n + 1) for n in wanted]
    assert [o.text for o in scan.occurrences] == [lines[n][:600] for n in wanted]
    assert scan.lines == len(lines)


@pytest.mark.parametrize("shift", [*range(-40, 60, 7), 0])
def test_a_hit_at_the_border_of_two_chunks_is_found_on_its_line(fast, shift):
    line = ms("ERROR", "zebra-lost")
    filler = "filler\n" * ((CHUNK + shift - 20) // 7)
    data = (filler + line + "\nafter\n").encode()
    scan = scan_stream(fast, "x", io.BytesIO(data))
    assert fired(scan) == [("RUN911", filler.count("\n") + 1)]
    assert scan.occurrences[0].text == line
    assert scan.occurrences[0].before == ("filler", "filler") and scan.occurrences[0].after == ("after",)


def test_a_last_line_without_a_newline_counts(own):
    scan = scan_text(own, "a\nb\nzebra-lost")
    assert fired(scan) == [("RUN911", 3)] and scan.lines == 3


def test_an_empty_log_holds_nothing(own):
    scan = scan_text(own, "")
    assert (scan.lines, scan.size, scan.occurrences, scan.tail) == (0, 0, (), ())


def test_the_lines_around_a_hit_are_its_evidence(own):
    scan = scan_text(own, lines_of("one", "two", "three zebra-lost", "four", "five", "six"))
    assert scan.occurrences[0].before == ("one", "two")
    assert scan.occurrences[0].after == ("four", "five")


def test_a_rule_says_how_many_lines_behind_it_are_evidence(own):
    scan = scan_text(own, lines_of("hare-ran", *"abcdefg"))
    assert scan.occurrences[0].after == ("a", "b", "c", "d", "e")


def test_pid_time_and_level_of_the_record_come_with_the_finding(own):
    [hit] = scan_text(own, ms("ERROR", "zebra-lost", 9, pid=4711)).occurrences
    assert (hit.level, hit.pid, hit.seconds) == ("ERROR", 4711, records.seconds_of(T.format(9)))


# ------------------------------------------------------------------ levels


@pytest.mark.parametrize("level", ["INFO", "DEBUG", "V10000"])
def test_an_info_line_fires_no_failure_rule(own, level):
    assert fired(scan_text(own, ms(level, "zebra-lost"))) == []


@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "worker_3.log:17:", "2026-11-29T10:52:43.010063Z stderr F "])
def test_an_info_line_stays_one_behind_a_prefix(own, prefix):
    assert fired(scan_text(own, prefix + ms("INFO", "zebra-lost"))) == []


def test_an_info_line_in_colour_fires_no_failure_rule(own):
    assert fired(scan_text(own, "\x1b[32m" + ms("INFO", "zebra-lost") + "\x1b[0m")) == []


@pytest.mark.parametrize("level", ["WARNING", "ERROR", "CRITICAL"])
def test_lines_above_info_fire_a_rule_without_levels(own, level):
    line = f"[{level}] HCCL(7,python):{T.format(0)} [a.cc:1] zebra-lost"
    assert fired(scan_text(own, line)) == [("RUN911", 1)]


def test_a_line_without_a_level_counts_for_every_rule(own):
    assert fired(scan_text(own, lines_of("zebra-lost", "llama-slow"))) == [("RUN911", 1), ("RUN913", 2)]


def test_a_level_that_a_rule_does_not_name_keeps_it_quiet(own):
    assert fired(scan_text(own, lines_of(ms("ERROR", "llama-slow"), ms("WARNING", "llama-slow")))) == [("RUN913", 2)]


def test_a_continuation_has_the_level_of_its_record(own):
    log = lines_of(ms("ERROR", "text"), "  llama-slow", ms("WARNING", "text"), "  llama-slow")
    assert fired(scan_text(own, log)) == [("RUN913", 4)]


def test_a_bare_error_behind_an_info_record_is_not_info(own):
    log = lines_of(ms("INFO", "all well"), "Traceback (most recent call last):", "RuntimeError: zebra-lost")
    assert fired(scan_text(own, log)) == [("RUN911", 3)]


# ------------------------------------------------------------------ units


def test_a_block_joins_the_record_with_its_continuation(own):
    log = lines_of("x", ms("ERROR", "otter-begins"), "  more", "  otter-ends at 7", ms("ERROR", "otter-ends at 9"))
    [hit] = scan_text(own, log).occurrences
    assert (hit.rule, hit.line, hit.args) == ("RUN915", 2, {"at": "7"})


def test_a_block_does_not_reach_into_the_next_record(own):
    log = lines_of(ms("ERROR", "otter-begins"), ms("ERROR", "otter-ends at 9"))
    assert fired(scan_text(own, log)) == []


def test_a_block_holds_the_tracebacks_chained_to_it_and_a_message_does_not(own):
    chain = [
        "Traceback (most recent call last):",
        "ValueError: {}-begins",
        "",
        "During handling of the above exception, another exception occurred:",
        "",
        "Traceback (most recent call last):",
        "RuntimeError: {}-ends at 3",
    ]
    log = lines_of(ms("ERROR", "text"), *(line.format("otter") for line in chain), ms("ERROR", "end"))
    assert [o.args for o in scan_text(own, log).occurrences] == [{"at": "3"}]
    log = lines_of(ms("ERROR", "text"), *(line.format("mole") for line in chain), ms("ERROR", "end"))
    assert fired(scan_text(own, log)) == []


def test_a_message_joins_a_record_with_its_continuation(own):
    log = lines_of(ms("ERROR", "mole-begins"), "  mole-ends", ms("ERROR", "x"))
    assert fired(scan_text(own, log)) == [("RUN916", 1)]


def test_a_block_with_two_anchors_is_evidence_once(own):
    log = lines_of(ms("ERROR", "otter-begins"), "otter-begins", "otter-ends at 1", "otter-ends at 2")
    assert scan_text(own, log).counts == {"RUN915": 1}


@pytest.mark.parametrize("shift", range(0, 200, 23))
def test_a_block_over_the_border_of_two_chunks_is_whole(fast, shift):
    block = lines_of(ms("ERROR", "otter-begins"), *["  detail"] * 10, "  otter-ends at 7")
    filler = "filler\n" * ((CHUNK - 2 * shift) // 7)
    data = (filler + block + ms("ERROR", "end") + "\n" + "filler\n" * 50_000).encode()
    scan = scan_stream(fast, "x", io.BytesIO(data))
    assert fired(scan) == [("RUN915", filler.count("\n") + 1)]


def test_members_of_all_must_stand_within_so_many_lines(own):
    near = lines_of("crow-one", "a", "b", "crow-two")
    far = lines_of("crow-one", "a", "b", "c", "d", "crow-two")
    assert fired(scan_text(own, near)) == [("RUN917", 1)]
    assert fired(scan_text(own, far)) == []


def test_evidence_that_begins_above_the_anchor_has_the_rank_of_its_own_line(tmp_path, rules_in, make_rule):
    clause = {"literal": "wolverine-ends", "regex": r"wolf-starts(?:[^\n]*\n){1,4}?[^\n]*wolverine-ends"}
    match = {"any": [clause, {"literal": "wolverine-ends"}], "within": {"lines": 8}}
    folder = rules_in(tmp_path).put(make_rule("RUN932", match))
    # the block is found by its last line, which names no rank
    log = lines_of("[rank7]:[E928 07:22:40] wolf-starts", "  detail", "  wolverine-ends")
    (found,) = scan_text(Matcher(load(str(folder)), "python"), log).occurrences
    assert (found.rule, found.line, found.rank) == ("RUN932", 1, 7)


def test_a_derived_value_goes_with_the_captures(tmp_path, rules_in, make_rule):
    clause = {"literal": "ibis-mem", "regex": r"ibis-mem (?P<a>\d+) of (?P<b>\d+)"}
    folder = rules_in(tmp_path).put(make_rule("RUN931", {"any": [clause], "derive": {"c": "size(b - a)"}}))
    base = load(str(folder))
    (found,) = scan_text(Matcher(base, "python"), "ibis-mem 1024 of 5368710144\n").occurrences
    assert found.args == {"a": "1024", "b": "5368710144", "c": "5.00 GiB"}


def test_members_of_all_may_stand_in_any_order(own):
    assert [r for r, _ in fired(scan_text(own, lines_of("crow-two", "a", "crow-one")))] == ["RUN917"]


def test_within_reaches_over_records(own):
    log = lines_of(ms("ERROR", "crow-one"), ms("ERROR", "crow-two"))
    assert scan_text(own, log).counts == {"RUN917": 1}


def test_members_of_all_must_stand_within_so_many_seconds(own):
    near = lines_of(ms("ERROR", "swan-one", 1), ms("ERROR", "x", 5), ms("ERROR", "swan-two", 9))
    far = lines_of(ms("ERROR", "swan-one", 1), ms("ERROR", "x", 5), ms("ERROR", "swan-two", 50))
    assert scan_text(own, near).counts == {"RUN920": 1}
    assert scan_text(own, far).counts == {}


def test_a_veto_in_the_same_unit_keeps_a_rule_quiet(own):
    assert fired(scan_text(own, lines_of("wren-gone and wren-back", "wren-gone", "wren-back"))) == [("RUN918", 2)]


# ------------------------------------------------------------------ steps


def after(scan, occurrence):
    """How many steps are known to follow an occurrence; enough of them are not counted on."""
    return scan.steps - occurrence.steps


@pytest.mark.parametrize("before", [0, 1, 5, 40])
@pytest.mark.parametrize("behind", [0, 1, 2, 3, 10])
def test_steps_behind_a_finding_are_counted_as_far_as_the_answer_needs(own, before, behind):
    log = lines_of(
        *(step(n) for n in range(before)),
        ms("ERROR", "zebra-lost"),
        "more",
        *(step(n) for n in range(before, before + behind)),
    )
    scan = scan_text(own, log)
    [hit] = scan.occurrences
    assert after(scan, hit) == behind if behind < GOES_ON else after(scan, hit) >= GOES_ON


@pytest.mark.parametrize("behind", [0, 2, 3, 10])
def test_steps_behind_an_unknown_error_are_counted(own, behind):
    log = lines_of(step(1), step(2), "RuntimeError: unknown", *(step(n) for n in range(3, 3 + behind)))
    scan = scan_text(own, log)
    assert [e.line for e in scan.errors] == [3]
    assert after(scan, scan.errors[0]) == behind if behind < GOES_ON else after(scan, scan.errors[0]) >= GOES_ON


def test_each_of_several_findings_has_its_own_steps_behind_it(own):
    log = lines_of(
        ms("ERROR", "zebra-lost"),
        *(step(n) for n in range(10)),
        ms("ERROR", "yak-shaved 3 times"),
        step(11),
        ms("WARNING", "llama-slow"),
    )
    scan = scan_text(own, log)
    known = {o.rule: after(scan, o) for o in scan.occurrences}
    assert known["RUN911"] >= GOES_ON and known["RUN912"] == 1 and known["RUN913"] == 0


def test_the_last_of_many_findings_tells_whether_the_run_got_over_it(own):
    rows = [line for n in range(60) for line in (ms("ERROR", "zebra-lost", n), step(n), step(n), step(n))]
    over = scan_text(own, lines_of(*rows))
    stuck = scan_text(own, lines_of(*rows, ms("ERROR", "zebra-lost", 59)))
    assert over.counts == {"RUN911": 60} and after(over, over.occurrences[-1]) >= GOES_ON
    assert stuck.counts == {"RUN911": 61} and after(stuck, stuck.occurrences[-1]) == 0


def test_the_last_of_many_unknown_errors_tells_whether_the_run_got_over_it(own):
    rows = [line for n in range(60) for line in (ms("ERROR", f"odd {n}", n), step(n), step(n), step(n))]
    over = scan_text(own, lines_of(*rows))
    stuck = scan_text(own, lines_of(*rows, ms("ERROR", "odd 60", 59)))
    assert min(after(over, e) for e in over.errors) >= GOES_ON
    assert min(after(stuck, e) for e in stuck.errors) == 0


@pytest.mark.parametrize("size", [300, 1000, 100_000])
def test_steps_are_counted_whatever_the_chunks(fast, size):
    rows = [
        *(step(n) for n in range(1, 30)),
        ms("ERROR", "zebra-lost"),
        *(step(n) for n in range(30, 90)),
        ms("ERROR", "yak-shaved 3 times"),
    ]
    log = lines_of(*rows, step(91)).encode()
    scanner = Scanner(fast, "x")
    for at in range(0, len(log), size):
        scanner.feed(log[at : at + size])
    scan = scanner.finish()
    first, second = scan.occurrences
    assert after(scan, first) >= GOES_ON and after(scan, second) == 1


def test_steps_far_behind_a_finding_are_found(fast):
    filler = [ms("INFO", "x" * 100)] * 8000
    for behind in (0, 2, 5):
        data = lines_of(ms("ERROR", "zebra-lost"), *filler, *[step(1)] * behind, *filler).encode()
        scan = scan_stream(fast, "x", io.BytesIO(data))
        known = after(scan, scan.occurrences[0])
        assert known == behind if behind < GOES_ON else known >= GOES_ON


def test_line_and_time_of_the_last_step_are_known(own):
    scan = scan_text(own, lines_of("x", step(1), step(2), ms("ERROR", "zebra-lost"), step(15), "end"))
    assert scan.last_step == (5, records.seconds_of("2026-03-01 08:15:15,123"))


@pytest.mark.parametrize(
    "line",
    [
        "{ Epoch:[  1/  2], step:[    3/   19], loss: 9.673, per_step_time: 1754ms, lr: 9.981987e-06",
        "{ Epoch:[  1/  2], step:[    1/   19], loss:[10.6/10.6], per_step_time",
        "Epoch:[  1/  2], step:[   10/  100], loss:[9.123/9.456], time:1234.567 ms, lr:1e-05, overflow cond: False",
        "epoch: 1 step: 4, loss is 0.5289374589920044",
        "epoch: 0, step: 10, loss is 1.66",
        " iteration 5426/ 250000 | consumed samples: 100 | elapsed time per iteration (ms): 4247.9 | loss scale: 1.0 |",
        "{'loss': 1.6693, 'learning_rate': 0.0001977758764447498, 'epoch': 0.23}",
        "iter 10: loss 3.2101, time 123.45ms, mfu 12.34%",
        "step 250: train loss 2.4567, val loss 2.5012",
        "[2022-11-23 09:46:28,799] [    INFO] - global step 2000, loss: 8.075826, lm_loss: 7.379850",
        "Epoch 0, Step 100, Loss: 3.21",
        "Epoch 38/300, Step 4/4, loss: 0.2778",
        "step: 15, loss: inf, overflow cond: True, loss_scale: 1.0",
    ],
)
def test_a_step_line_of_each_framework_is_a_step(own, line):
    assert records.is_step(line)
    scan = scan_text(own, lines_of("zebra-lost", line, line, "end"))
    assert after(scan, scan.occurrences[0]) == 2


@pytest.mark.parametrize(
    "line", ["the loss of a rank is bad", "Epoch begins", "loss_scale: 65536.0", "step 1 of the setup"]
)
def test_other_lines_are_no_steps(own, line):
    assert not records.is_step(line)
    scan = scan_text(own, lines_of("zebra-lost", line, line, line, line))
    assert after(scan, scan.occurrences[0]) == 0


# ------------------------------------------------------------------ other facts of a log


@pytest.mark.parametrize(
    ("text", "rank"),
    [("Global rank id: 12", 12), ("This node 1 rank id: 3", 3), ("rank id: 5", 5), ("rank: 5", None)],
)
def test_a_log_says_its_rank(own, text, rank):
    assert scan_text(own, lines_of(ms("INFO", text))).rank == rank


def test_a_global_rank_id_outweighs_another(own):
    assert scan_text(own, lines_of("This node 1 rank id: 3", "Global rank id: 11", "rank id: 2")).rank == 11


def test_first_and_last_time_of_a_log_are_kept(own):
    scan = scan_text(own, lines_of("x", ms("INFO", "a", 1), ms("INFO", "b", 30), "y"))
    assert scan.seconds == (records.seconds_of(T.format(1)), records.seconds_of(T.format(30)))


def test_errors_that_no_rule_knows_are_kept_once_each(own):
    log = lines_of(*(ms("ERROR", f"device {n} is unhappy", n) for n in range(20)), "RuntimeError: other")
    scan = scan_text(own, log)
    assert scan.error_count == 21
    assert {e.line for e in scan.errors} in ({1, 21}, {1, 20, 21})


def test_a_line_that_a_rule_knows_is_no_unknown_error(own):
    assert scan_text(own, ms("ERROR", "zebra-lost")).errors == ()


def test_error_codes_of_the_catalogue_are_found(own):
    scan = scan_text(
        own, lines_of("EI0002: The wait execution of the Notify register times out.", "ret=507015, x", "step 507015")
    )
    assert [(o.rule, o.line) for o in scan.occurrences] == [("CODE:EI0002", 1), ("CODE:507015", 2)]


def test_the_result_of_a_runtime_call_is_an_error_code(own):
    log = lines_of(
        "synchronize stream failed, runtime result = 507027[FUNC:ReportCallError][FILE:log_inner.cpp][LINE:161]",
        "[Exec][Model]Execute model failed, ge result[507046], modelId[1]",
        "image result = 507027",
    )
    assert [(o.rule, o.line) for o in scan_text(own, log).occurrences] == [("CODE:507027", 1), ("CODE:507046", 2)]


def test_of_many_occurrences_the_first_and_the_last_are_kept(own):
    log = lines_of(*(ms("ERROR", "zebra-lost", n % 60) for n in range(1000)))
    scan = scan_text(own, log)
    assert scan.counts == {"RUN911": 1000}
    kept = [o.line for o in scan.occurrences]
    assert kept[:KEEP_FIRST] == list(range(1, KEEP_FIRST + 1)) and len(kept) == KEEP_FIRST + 1 and kept[-1] > 900


# ------------------------------------------------------------------ streams


class Endless(io.RawIOBase):
    """The same block again and again, ``size`` bytes in all; ``fail`` is raised at the end."""

    def __init__(self, block, size, fail=None):
        self.block, self.left, self.fail = block, size, fail

    def readable(self):
        return True

    def read(self, size=-1):
        if self.left <= 0:
            if self.fail:
                raise self.fail
            return b""
        piece = self.block[: min(len(self.block), self.left, size if size > 0 else len(self.block))]
        self.left -= len(piece)
        return piece


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(fast):
    lines = [ms("INFO", "x" * 80)] * 800 + [
        ms("ERROR", "zebra-lost"),
        ms("ERROR", "unknown"),
        "RuntimeError: x",
        step(1),
    ] * 3
    block = lines_of(*lines).encode()
    tracemalloc.start()
    try:
        scan = scan_stream(fast, "x", Endless(block, 200 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert scan.size == 200 << 20
    assert peak < 16 << 20
    assert scan.counts["RUN911"] > 1000


@pytest.mark.slow
def test_a_log_without_any_newline_needs_no_more_memory(fast):
    tracemalloc.start()
    try:
        scan = scan_stream(fast, "x", Endless((b"x" * 2000 + b"zebra-lost ") * 100, 60 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20
    assert scan.lines == 1 and scan.occurrences[0].line == 1


def test_a_gzipped_log_gives_the_same_findings(fast, tmp_path):
    data = lines_of(*(ms("INFO", "x" * (n % 300)) for n in range(9000)), ms("ERROR", "zebra-lost"), "end").encode()
    (tmp_path / "a.log").write_bytes(data)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(data))
    plain, packed = (scan_source(fast, tmp_path / name) for name in ("a.log", "b.log.gz"))
    assert fired(plain) == [("RUN911", 9001)]
    assert packed._replace(name="") == plain._replace(name="")


def scan_source(matcher, path):
    [source] = expand([str(path)])
    with source.open() as stream:
        return scan_stream(matcher, source.name, stream)


def test_a_broken_stream_keeps_what_was_found_and_names_the_trouble(fast):
    block = lines_of(ms("ERROR", "zebra-lost")).encode()
    scan = scan_stream(fast, "x", Endless(block, len(block), OSError(5, "Input/output error")))
    assert fired(scan) == [("RUN911", 1)]
    assert scan.problem == ("unreadable", "Input/output error") and not scan.cancelled


def test_a_cut_off_gzip_keeps_what_was_found(fast, tmp_path):
    data = lines_of(ms("ERROR", "zebra-lost"), *(ms("INFO", str(random.random())) for _ in range(20_000))).encode()
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data)[:-5000])
    scan = scan_source(fast, tmp_path / "a.log.gz")
    assert fired(scan) == [("RUN911", 1)]
    assert scan.problem is not None


def test_a_cancelled_scan_gives_what_was_found_so_far(fast):
    block = lines_of(ms("ERROR", "zebra-lost"), *[ms("INFO", "x")] * 3000).encode()
    asked = []

    def cancelled():
        asked.append(1)
        return len(asked) >= 3

    scan = scan_stream(fast, "x", Endless(block, 1 << 30), cancelled=cancelled)
    assert scan.cancelled and scan.problem is None
    assert scan.counts["RUN911"] == 3 and scan.size == 3 * len(block)


def test_progress_adds_up_to_the_size(fast):
    told = []
    data = b"line\n" * 200_000
    scan_stream(fast, "x", io.BytesIO(data), progress=told.append)
    assert sum(told) == len(data) and len(told) > 1


@settings(max_examples=60)
@given(
    st.lists(
        st.sampled_from([b"a", b"\x1b[31m", b"\x1b[0m", b"\x1b[1;38;5;200m", b"\x1b[K", b"[", b"\n", b"zebra"]),
        max_size=30,
    ),
    st.integers(1, 9),
)
def test_colours_are_taken_off_whatever_the_chunks(parts, size):
    data = b"".join(parts)
    whole = b"".join(plain_chunks(io.BytesIO(data), 1 << 20))
    assert b"".join(plain_chunks(io.BytesIO(data), size)) == whole
    assert all(plain_chunks(io.BytesIO(data), size))
    assert whole.count(b"\n") == data.count(b"\n")


@settings(max_examples=60)
@given(st.binary(max_size=3000))
def test_no_bytes_break_a_scan(matcher, data):
    scan = Scanner(matcher, "x")
    scan.feed(data) if data else None
    found = scan.finish()
    assert found.size == len(data)
    assert found.lines == data.count(b"\n") + (0 if data.endswith(b"\n") or not data else 1)


@pytest.mark.parametrize(
    "line",
    [
        b"RuntimeError: x",
        b"[ERROR] x",
        b"Heartbeat Lost Occurred",
        b"EI0002: x",
        b"loss is nan",
        b"  File x, Killed",
        b"KeyError: 'model.a'",
        b"\tat ERROR: something",
        b"rank id: 5",
        b"ret=507015",
    ],
)
def test_a_log_of_one_error_line_again_and_again_is_read_quickly(matcher, line):
    data = (line + b"\n") * (300_000 // len(line))
    began = time.process_time()
    scan = scan_stream(matcher, "x", io.BytesIO(data))
    assert scan.lines == data.count(b"\n")
    assert time.process_time() - began < 2.5
