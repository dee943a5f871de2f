"""doctor.ranking: the cause before its symptoms, the rank that failed first, recovered troubles last."""

import pytest

from doctor import ranking
from doctor.model import Verdict
from doctor.ranking import fill, rank_in_name
from doctor.scan.scanner import scan_text

CLOCK = "2026-03-01-08:{:02d}:{:02d}.000.000"
FINE = {"hit": [{"log": "x"}], "miss": [{"log": "a"}, {"log": "b"}]}


def ms(text, second=None, level="ERROR", pid=7):
    """A MindSpore line at so many seconds; without a time a bare line."""
    if second is None:
        return text
    return f"[{level}] ME({pid}:140,MainProcess):{CLOCK.format(second // 60, second % 60)} [a.py:1] {text}"


def step(n, second=0):
    clock = f"2026-03-01 08:{second // 60:02d}:{second % 60:02d},000"
    return f"{clock} - mf[c.py:5] - INFO - {{ Epoch:[ 1/ 1], step:[ {n:4d}/ 99], loss: 1.0"


@pytest.fixture
def judge(rules, make_rule):
    """judge([rule, …], {name: [line, …]}, facts) → (findings, diagnoses) with rules RUN9xx of one literal each."""

    def call(given, logs, facts=None):
        matcher = rules.matcher(
            *(make_rule(rule_id, literal, **{"tests": FINE, **fields}) for rule_id, literal, fields in given)
        )
        assert not matcher.base.problems, matcher.base.problems
        scans = [scan_text(matcher, "\n".join(lines) + "\n", name) for name, lines in logs.items()]
        return ranking.rank(matcher.base, scans, facts or {})

    return call


def heads(diagnoses):
    return [d.rule for d in diagnoses]


def below(findings, diagnosis):
    return [findings[i].id for i in diagnosis.consequences]


ROOT = ("RUN901", "disk-full", {})
SYMPTOM = ("RUN902", "peer-timeout", {"role": "symptom", "topic": "own.b"})
WRAPPER = ("RUN903", "worker-exit", {"role": "wrapper", "topic": "own.c"})
OTHER = ("RUN904", "bad-shape", {"topic": "other.a"})


# ------------------------------------------------------------------ cause and consequence


def test_a_cause_comes_before_its_symptom_even_when_printed_later(judge):
    findings, diagnoses = judge([ROOT, SYMPTOM], {"a.log": [ms("peer-timeout", 1), ms("disk-full", 2)]})
    assert heads(diagnoses) == ["RUN901"]
    assert below(findings, diagnoses[0]) == ["RUN902"]


def test_a_wrapper_and_a_pointer_are_folded_under_the_cause(judge):
    pointer = ("RUN905", "see-other-log", {"role": "pointer"})
    detail = ("RUN906", "stack-detail", {"role": "detail"})
    lines = [ms("worker-exit", 1), ms("see-other-log", 1), ms("stack-detail", 1), ms("disk-full", 2)]
    findings, diagnoses = judge([ROOT, WRAPPER, pointer, detail], {"a.log": lines})
    assert heads(diagnoses) == ["RUN901"]
    assert sorted(below(findings, diagnoses[0])) == ["RUN903", "RUN905", "RUN906"]


def test_a_symptom_alone_heads_the_report(judge):
    _, diagnoses = judge([ROOT, SYMPTOM], {"a.log": [ms("peer-timeout", 1)]})
    assert heads(diagnoses) == ["RUN902"]


def test_two_causes_stay_two_diagnoses_the_earlier_first(judge):
    _, diagnoses = judge([ROOT, OTHER], {"a.log": [ms("bad-shape", 1), ms("disk-full", 5)]})
    assert heads(diagnoses) == ["RUN904", "RUN901"]
    _, diagnoses = judge([ROOT, OTHER], {"a.log": [ms("bad-shape", 9), ms("disk-full", 5)]})
    assert heads(diagnoses)[0] == "RUN901"


def test_the_more_specific_of_two_rules_on_one_line_is_first(judge):
    generic, exact = ("RUN901", "disk", {"priority": 10}), ("RUN902", "disk-full of node", {"priority": 80})
    _, diagnoses = judge([generic, exact], {"a.log": [ms("disk-full of node", 1)]})
    assert heads(diagnoses)[0] == "RUN902"


def test_an_error_comes_before_an_earlier_warning(judge):
    warning = ("RUN905", "slow-link", {"severity": "warning"})
    advice = ("RUN906", "old-flag", {"severity": "advice"})
    _, diagnoses = judge(
        [ROOT, warning, advice], {"a.log": [ms("old-flag", 0), ms("slow-link", 1), ms("disk-full", 2)]}
    )
    assert heads(diagnoses) == ["RUN901", "RUN905", "RUN906"]


@pytest.mark.parametrize(
    "explains",
    [{"id": "RUN904"}, {"topic": "other.a"}, {"topic": "other.*"}],
    ids=["by id", "by topic", "by group"],
)
def test_what_another_finding_explains_is_nested_under_it(judge, explains):
    cause = ("RUN901", "disk-full", {"explains": [explains]})
    findings, diagnoses = judge([cause, OTHER], {"a.log": [ms("disk-full", 1), ms("bad-shape", 2)]})
    assert heads(diagnoses) == ["RUN901"]
    assert below(findings, diagnoses[0]) == ["RUN904"]


def test_a_group_of_topics_is_not_a_prefix_of_letters(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"topic": "own.*"}]})
    _, diagnoses = judge([cause, OTHER], {"a.log": [ms("disk-full", 1), ms("bad-shape", 2)]})
    assert heads(diagnoses) == ["RUN901", "RUN904"]


def test_a_cause_explains_nothing_that_was_there_before(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"id": "RUN904"}]})
    _, diagnoses = judge([cause, OTHER], {"a.log": [ms("bad-shape", 1), ms("disk-full", 30)]})
    assert sorted(heads(diagnoses)) == ["RUN901", "RUN904"]


def test_a_cause_explains_only_within_its_time(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"id": "RUN904", "within": "1m"}]})
    _, near = judge([cause, OTHER], {"a.log": [ms("disk-full", 1), ms("bad-shape", 50)]})
    _, far = judge([cause, OTHER], {"a.log": [ms("disk-full", 1), ms("bad-shape", 300)]})
    assert heads(near) == ["RUN901"] and heads(far) == ["RUN901", "RUN904"]


def test_same_rank_bounds_what_is_explained(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"id": "RUN904", "scope": "same_rank"}]})
    _, apart = judge([cause, OTHER], {"worker_0.log": [ms("disk-full", 1)], "worker_1.log": [ms("bad-shape", 2)]})
    _, same = judge([cause, OTHER], {"worker_1.log": [ms("disk-full", 1), ms("bad-shape", 2)]})
    assert heads(apart) == ["RUN901", "RUN904"] and heads(same) == ["RUN901"]


def test_explanations_chain(judge):
    one = ("RUN901", "disk-full", {"explains": [{"id": "RUN904"}]})
    two = ("RUN904", "bad-shape", {"topic": "other.a", "explains": [{"id": "RUN905"}]})
    three = ("RUN905", "no-kernel", {"topic": "own.d"})
    findings, diagnoses = judge(
        [one, two, three], {"a.log": [ms("no-kernel", 3), ms("bad-shape", 2), ms("disk-full", 1)]}
    )
    assert heads(diagnoses) == ["RUN901"]
    assert sorted(below(findings, diagnoses[0])) == ["RUN904", "RUN905"]


def test_two_rules_that_explain_each_other_by_topic_lose_nothing(judge):
    one = ("RUN901", "disk-full", {"explains": [{"topic": "other.a"}]})
    two = ("RUN904", "bad-shape", {"topic": "other.a", "explains": [{"topic": "own.a"}]})
    findings, diagnoses = judge([one, two], {"a.log": [ms("disk-full", 1), ms("bad-shape", 1)]})
    assert len(diagnoses) == 1
    assert {diagnoses[0].rule, *below(findings, diagnoses[0])} == {"RUN901", "RUN904"}


def test_every_finding_is_in_the_report_once(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"id": "RUN902"}]})
    logs = {f"worker_{n}.log": [ms("peer-timeout", 5 + n), ms("worker-exit", 9)] for n in range(4)} | {
        "a.log": [ms("disk-full", 1)]
    }
    findings, diagnoses = judge([cause, SYMPTOM, WRAPPER], logs)
    told = [i for d in diagnoses for i in d.consequences]
    assert len(told) == len(set(told))
    covered = {d.rule for d in diagnoses} | {findings[i].id for i in told}
    assert covered == {f.id for f in findings}
    assert all(findings[d.finding].id == d.rule for d in diagnoses)


# ------------------------------------------------------------------ recovery


def test_a_trouble_after_which_training_goes_on_is_not_the_cause(judge):
    lines = [step(1, 1), ms("bad-shape", 2), *(step(n, n) for n in range(3, 13)), ms("disk-full", 30)]
    findings, diagnoses = judge([ROOT, OTHER], {"a.log": lines})
    assert heads(diagnoses)[0] == "RUN901"
    recovered = next(f for f in findings if f.id == "RUN904")
    assert recovered.recovered
    assert next(d for d in diagnoses if d.rule == "RUN904").severity == "warning"


def test_a_recovered_trouble_alone_is_a_warning_with_a_note(judge):
    lines = [step(1, 1), ms("bad-shape", 2), *(step(n, n) for n in range(3, 13))]
    _, [diagnosis] = judge([OTHER], {"a.log": lines})
    assert diagnosis.severity == "warning" and set(diagnosis.note) == {"zh", "en"}


def test_steps_still_in_flight_are_no_recovery(judge):
    lines = [step(1, 1), ms("bad-shape", 2), step(2, 2), step(3, 2)]
    findings, [diagnosis] = judge([OTHER], {"a.log": lines})
    assert not findings[0].recovered and diagnosis.severity == "error"


def test_a_second_time_without_recovery_counts(judge):
    lines = [step(1), ms("bad-shape", 2), *(step(n) for n in range(2, 12)), ms("bad-shape", 40)]
    findings, diagnoses = judge([OTHER], {"a.log": lines})
    assert not findings[0].recovered and findings[0].times == 2
    assert diagnoses[0].evidence[0].line == len(lines)


def test_going_on_is_no_recovery_from_bad_numbers(judge):
    nan = ("RUN905", "loss-is-nan", {"topic": "numerics.a"})
    lines = [step(1, 1), ms("loss-is-nan", 2), *(step(n, n) for n in range(3, 13))]
    findings, _ = judge([nan], {"a.log": lines})
    assert not findings[0].recovered


def test_a_recovered_trouble_explains_no_failure(judge):
    cause = ("RUN901", "disk-full", {"explains": [{"id": "RUN904"}]})
    lines = [step(1, 1), ms("disk-full", 2), *(step(n, n) for n in range(3, 13)), ms("bad-shape", 30)]
    _, diagnoses = judge([cause, OTHER], {"a.log": lines})
    assert heads(diagnoses)[0] == "RUN904"


def test_a_recovered_unknown_traceback_is_no_failure(judge):
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "RuntimeError: odd"]
    _, diagnoses = judge([ROOT], {"a.log": [step(1), *trace, *(step(n) for n in range(2, 12))]})
    assert heads(diagnoses) == []


# ------------------------------------------------------------------ ranks


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("msrun_log/worker_12.log", 12),
        ("worker-3.log", 3),
        ("output/log/rank_3/info.log", 3),
        ("rank_0", 0),
        ("a/rank7.log", 7),
        ("a.log", None),
        ("scheduler.log", None),
        ("plog-20411_20260318090003114.log", None),
        ("rank_table_8pcs.json", None),
        ("x/rank_1/y/rank_2/z.log", 2),
        ("run.zip!msrun_log/worker_4.log", 4),
        ("frank_3x.log", None),
    ],
)
def test_a_name_tells_the_rank(name, rank):
    assert rank_in_name(name) == rank


@pytest.mark.parametrize(
    ("name", "lines", "rank"),
    [
        ("worker_3.log", [ms("disk-full", 1)], 3),
        ("log/rank_5/error.log", [ms("disk-full", 1)], 5),
        ("a.log", ["[rank6]: disk-full"], 6),
        ("a.log", ["worker_2.log:17:" + ms("disk-full", 1)], 2),
        ("a.log", [ms("Global rank id: 4", 0, "INFO"), ms("disk-full", 1)], 4),
        ("worker_0.log", [ms("This node 1 rank id: 9", 0, "INFO"), ms("disk-full", 1)], 9),
        ("a.log", ["[ERROR] 2025-04-08-18:07:20 (PID:1, Device:1, RankID:7) ERR01100 disk-full"], 7),
        ("a.log", [ms("disk-full", 1)], None),
    ],
    ids=["file", "folder", "prefix", "grep", "its own words", "its own words against the name", "torch_npu", "unknown"],
)
def test_the_rank_of_a_finding_is_known(judge, name, lines, rank):
    findings, diagnoses = judge([ROOT], {name: lines})
    assert findings[0].place.rank == rank
    assert diagnoses[0].ranks == ((rank,) if rank is not None else ())


def test_a_plog_belongs_to_the_rank_of_the_worker_with_its_pid(judge):
    logs = {
        "worker_2.log": [ms("hello", 0, "INFO", pid=20411), ms("peer-timeout", 9, pid=20411)],
        "plog/plog-20411_20260318090003114.log": [
            f"[ERROR] RUNTIME(20411,python):{CLOCK.format(0, 5)} [a.cc:1]disk-full"
        ],
    }
    findings, diagnoses = judge([ROOT, SYMPTOM], logs)
    assert {f.id: f.place.rank for f in findings} == {"RUN901": 2, "RUN902": 2}
    assert heads(diagnoses) == ["RUN901"]


def test_one_rule_on_many_ranks_is_one_diagnosis(judge):
    logs = {f"worker_{n}.log": [ms("disk-full", 10 - n)] for n in range(4)}
    findings, [diagnosis] = judge([ROOT], logs)
    assert diagnosis.ranks == (0, 1, 2, 3) and diagnosis.times == 4
    assert [f.place.rank for f in findings] == [3, 2, 1, 0]
    assert diagnosis.place.rank == 3


def test_the_rank_that_failed_first_heads_the_report(judge):
    logs = {
        "worker_0.log": [ms("disk-full", 30)],
        "worker_1.log": [ms("bad-shape", 10)],
        "worker_2.log": [ms("peer-timeout", 5)],
    }
    _, diagnoses = judge([ROOT, OTHER, SYMPTOM], logs)
    assert heads(diagnoses)[0] == "RUN904"
    assert diagnoses[0].place.rank == 1


def test_without_times_the_order_of_files_and_lines_decides(judge):
    logs = {"worker_0.log": [ms("x"), ms("bad-shape")], "worker_1.log": [ms("disk-full")]}
    _, diagnoses = judge([ROOT, OTHER], logs)
    assert heads(diagnoses) == ["RUN904", "RUN901"]


def test_a_line_without_a_time_makes_all_go_by_file_order(judge):
    logs = {"worker_0.log": [ms("bad-shape", 50)], "worker_1.log": [ms("disk-full")]}
    _, diagnoses = judge([ROOT, OTHER], logs)
    assert heads(diagnoses) == ["RUN904", "RUN901"]


# ------------------------------------------------------------------ codes, unknown failures, noise


def test_an_error_code_comes_after_every_rule(judge):
    findings, diagnoses = judge([ROOT], {"a.log": [ms("EI0001: text", 1), ms("disk-full", 9)]})
    assert heads(diagnoses)[0] == "RUN901"
    assert "CODE:EI0001" in [f.id for f in findings]


def test_an_error_code_that_no_rule_knows_is_answered_from_the_catalogue(judge):
    _, diagnoses = judge([ROOT], {"a.log": [ms("EI0001: text", 1)]})
    assert diagnoses[0].rule == "CODE:EI0001"
    assert diagnoses[0].confidence != "certain"
    assert all(diagnoses[0].cause[lang] and diagnoses[0].next[lang] for lang in ("zh", "en"))


def test_a_failure_that_no_rule_explains_is_named_as_such(judge):
    trace = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "RuntimeError: odd thing 7"]
    findings, [diagnosis] = judge([ROOT], {"x.log": ["fine"], "worker_1.log": ["start", *trace]})
    assert (diagnosis.rule, diagnosis.severity, diagnosis.confidence) == ("RUN000", "error", "guess")
    assert diagnosis.topic == "run.failed_unrecognised"
    assert (diagnosis.evidence[0].line, diagnosis.evidence[0].text) == (4, "RuntimeError: odd thing 7")
    assert diagnosis.place.rank == 1
    assert findings[diagnosis.finding].verdict == Verdict.FAIL


def test_a_known_failure_is_not_called_unknown(judge):
    trace = ["Traceback (most recent call last):", "RuntimeError: odd thing 7"]
    _, diagnoses = judge([ROOT], {"a.log": [*trace, "disk-full"]})
    assert heads(diagnoses) == ["RUN901"]


def test_advice_does_not_hide_an_unknown_failure(judge):
    advice = ("RUN906", "old-flag", {"severity": "advice"})
    _, diagnoses = judge([advice], {"a.log": ["old-flag", "Traceback (most recent call last):", "RuntimeError: odd"]})
    assert heads(diagnoses) == ["RUN000", "RUN906"]


def test_an_assertion_without_a_message_is_a_failure_nobody_knows(judge):
    """The whole text is the tail of a traceback, as people paste it."""
    tail = ['  File "net.py", line 21, in forward', "    assert self.mask is not None", "AssertionError"]
    _, diagnoses = judge([], {"log.txt": tail})
    assert heads(diagnoses) == ["RUN000"]
    assert judge([], {"log.txt": ["an AssertionError"]})[1] == ()


def test_noise_is_no_diagnosis_and_no_unknown_failure(judge):
    noise = ("RUN907", "retry-to-connect", {"role": "noise", "severity": "advice"})
    findings, diagnoses = judge([noise], {"a.log": [ms("retry-to-connect RuntimeError: x", n) for n in range(5)]})
    assert heads(diagnoses) == []
    assert [(f.id, f.role, f.times) for f in findings] == [("RUN907", "noise", 5)]


def test_noise_beside_a_failure_is_kept_out_of_its_story(judge):
    noise = ("RUN907", "retry-to-connect", {"role": "noise", "severity": "advice"})
    findings, [diagnosis] = judge([noise, ROOT], {"a.log": [ms("retry-to-connect", 1), ms("disk-full", 2)]})
    assert diagnosis.rule == "RUN901" and below(findings, diagnosis) == []


def test_a_healthy_log_gives_nothing(judge):
    assert judge([ROOT], {"a.log": [step(n) for n in range(20)]}) == ((), ())


def test_no_logs_give_nothing(judge):
    assert judge([ROOT], {}) == ((), ())


# ------------------------------------------------------------------ versions


FOR_NEW = ("RUN901", "disk-full", {"applies_to": {"mindspore": ">=2.3,<2.8"}, "confidence": "certain"})


@pytest.mark.parametrize(
    ("version", "fires", "confidence"),
    [("2.5.0", True, "certain"), ("2.2.14", False, None), ("2.8.0", False, None), (None, True, "likely")],
)
def test_a_rule_speaks_of_its_versions_only(judge, version, fires, confidence):
    facts = {"version.mindspore": version} if version else {}
    findings, _ = judge([FOR_NEW], {"a.log": [ms("disk-full", 1)]}, facts)
    own = [f for f in findings if f.id == "RUN901"]
    assert bool(own) is fires
    if fires:
        assert own[0].confidence == confidence


def test_an_unreadable_version_is_an_unknown_one(judge):
    findings, _ = judge([FOR_NEW], {"a.log": [ms("disk-full", 1)]}, {"version.mindspore": "master"})
    assert findings[0].confidence == "likely"


@pytest.mark.parametrize(("chip", "fires"), [("910B3", False), ("910A", True), ("310P3", True), (None, True)])
def test_a_rule_speaks_of_its_devices_only(judge, chip, fires):
    rule = ("RUN901", "disk-full", {"applies_to": {"devices": ["910A", "310P"]}})
    findings, _ = judge([rule], {"a.log": [ms("disk-full", 1)]}, {"device.chip": chip} if chip else {})
    assert ("RUN901" in [f.id for f in findings]) is fires


# ------------------------------------------------------------------ texts


def test_captures_fill_the_texts(judge, rules, make_rule):
    spec = {"any": [{"literal": "disk-full", "regex": r"disk-full on (?P<host>\w+)(?: by (?P<op>\w+))?"}]}
    text = {"zh": "{host} 磁盘已满（{op?}）", "en": "disk of {host} is full ({op?})"}
    rule = make_rule("RUN901", spec, title=text, cause=text, next=text, tests=FINE)
    matcher = rules.matcher(rule)
    _, [diagnosis] = ranking.rank(matcher.base, [scan_text(matcher, "disk-full on node7\n")], {})
    assert diagnosis.title == {"zh": "node7 磁盘已满", "en": "disk of node7 is full"}


@pytest.mark.parametrize(
    ("template", "args", "text"),
    [
        ("rank {rank}", {"rank": "3"}, "rank 3"),
        ("rank {rank}", {}, "rank …"),
        ("{rank.__class__} {0} {} {rank[0]}", {"rank": "3"}, "{rank.__class__} {0} {} {rank[0]}"),
        ("{a}", {"a": "{b}", "b": "x"}, "{b}"),
        ("{a}", {"a": "two\n  lines"}, "two lines"),
        ("{a}", {"a": "x" * 500}, "x" * 200 + "…"),
        ("of {a?} ({b?}), done.", {}, "of, done."),
        ("main() of {a?} ({b?}, {c?}) failed", {"c": "7"}, "main() of (7) failed"),
        ("cut (code {a}, device {b}): {c?}", {"a": "1", "c": "x"}, "cut: x"),
        ("with[[ {a?}]][[ {b?}]] .", {"b": "-v /x"}, "with -v /x."),
        ("({a?}，{b?})", {"a": "", "b": "2"}, "(2)"),
    ],
)
def test_filling_a_text_evaluates_nothing(template, args, text):
    assert fill(template, args) == text
