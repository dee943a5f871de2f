"""A run that is watched: alarms as they come, told once; steps that stop; the report at the end."""

import os
import time
import tracemalloc

import pytest
from run_helpers import OOM, UNKNOWN, alarms, all_read, kinds, pieces, plain_report, step, steps

from doctor import engine
from doctor.watch import Options, Watcher, show
from doctor.watch import alarms as alarming
from doctor.watch import watcher as watching
from doctor.watch.feed import Pattern
from doctor.watch.watcher import until_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def later(watcher, clock, seconds=6.0):
    """Poll after a while."""
    clock.now += seconds
    events = watcher.poll()
    while watcher.behind:
        events += watcher.poll()
    return events


# ------------------------------------------------------------------ alarms


def test_what_was_there_is_told_as_old_and_what_comes_as_new(run, clock):
    run.log(0, steps(1, 20))
    run.log(1, steps(1, 20) + OOM)
    watcher = run.watch(clock=clock)
    events = all_read(watcher)
    assert [e.args["old"] for e in alarms(events)] == [True]
    assert kinds(events)[0] == "begin" and kinds(events)[-1] == "read"
    assert later(watcher, clock) == []
    run.log(0, step(21, loss="nan") + steps(22, 40, loss="nan"))
    events = later(watcher, clock)
    assert [e.args["old"] for e in alarms(events)] == [False]
    assert alarms(events)[0].alarm.rule.startswith("NUM")


def test_an_alarm_names_time_rank_line_severity_and_what_to_do(run, clock):
    run.log(0, steps(1, 30))
    run.log(3, steps(1, 30))
    watcher = run.watch(clock=clock)
    assert alarms(all_read(watcher)) == []
    run.log(3, OOM)
    [event] = alarms(later(watcher, clock, 1.0))
    alarm = event.alarm
    assert (event.kind, alarm.severity, alarm.ranks) == ("alarm", "error", (3,))
    assert alarm.where.endswith("worker_3.log:31") and "alloc failed" in alarm.evidence[0].text
    assert alarm.next["zh"] and alarm.next["en"] and abs(event.at - time.time()) < 60


def test_a_rank_that_reported_an_error_is_no_longer_said_to_train_unless_it_goes_on(run, clock):
    for rank in (0, 1):
        run.log(rank, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)

    def states():
        return {row.ranks: row.state for row in show.rows(watcher.state())}

    run.log(0, step(31))
    run.log(1, step(31) + step(32, "nan"))
    later(watcher, clock, 1.0)
    assert set(states().values()) == {"steps"}
    run.log(1, OOM)
    later(watcher, clock, 1.0)
    assert states() == {"rank[1]": "failed", "rank[0]": "steps"}
    run.log(1, steps(33, 40))
    later(watcher, clock)
    assert "failed" not in states().values()


def test_an_alarm_is_told_once_and_again_when_it_reaches_many_ranks(run, clock):
    for rank in range(8):
        run.log(rank, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, OOM)
    assert [e.kind for e in alarms(later(watcher, clock))] == ["alarm"]
    run.log(0, OOM)
    assert alarms(later(watcher, clock)) == []
    for rank in range(1, 8):
        run.log(rank, OOM)
    [event] = alarms(later(watcher, clock))
    assert event.kind == "worse" and event.alarm.ranks == tuple(range(8))


def test_a_rank_that_goes_on_has_recovered(run, clock):
    run.log(0, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, OOM)
    assert [e.kind for e in alarms(later(watcher, clock))] == ["alarm"]
    run.log(0, steps(31, 60))
    [event] = alarms(later(watcher, clock))
    assert event.kind == "recovered" and event.alarm.state == "recovered" and not event.alarm.counts


def test_a_failure_no_rule_knows_is_told_after_its_last_line_had_time_to_come(run, clock):
    run.log(0, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, UNKNOWN.splitlines(keepends=True)[0])
    assert alarms(later(watcher, clock, 1.0)) == []
    run.log(0, "".join(UNKNOWN.splitlines(keepends=True)[1:]))
    assert alarms(later(watcher, clock, 1.0)) == []
    [event] = alarms(later(watcher, clock, alarming.SETTLES))
    assert event.alarm.rule == "RUN000" and "an odd thing" in event.alarm.evidence[0].text


def test_the_shape_of_a_curve_of_few_points_must_stand_before_it_is_told(run, clock):
    losses = (3.1, 3.0, 2.9, 9.5, 9.6, 9.9, 9.9)
    run.log(0, step(1, losses[0]))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, "".join(step(n, loss) for n, loss in enumerate(losses[1:], 2)))
    assert alarms(later(watcher, clock)) == []
    assert "NUM707" in [e.alarm.rule for e in alarms(later(watcher, clock, alarming.YOUNG))]


def test_a_nan_among_few_points_is_told_at_once(run, clock):
    run.log(0, step(1, 3.1))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, step(2, 3.0) + step(3, "nan") + step(4, "nan"))
    assert [e.alarm.severity for e in alarms(later(watcher, clock))] == ["error"]


def test_a_cause_that_shows_later_explains_what_was_told_before(run, clock):
    for rank in range(3):
        run.log(rank, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    wait = "EI0002: The wait execution of the Notify register times out.\n"
    for rank in (0, 1, 2):
        run.log(rank, wait)
    first = [e.alarm for e in alarms(later(watcher, clock))]
    assert first and first[0].state == "active"
    run.log(3, steps(1, 30) + OOM)
    events = alarms(later(watcher, clock))
    assert "alarm" in [e.kind for e in events] and "explained" in [e.kind for e in events]
    assert first[0].state == "explained" and first[0].by == next(e.alarm.rule for e in events if e.kind == "alarm")


def test_a_rank_without_a_word_is_told_after_its_lines_had_time_to_come(run, clock):
    for rank in range(4):
        run.log(rank, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    for rank in (0, 1, 2):
        run.log(rank, "EI0002: The wait execution of the Notify register times out.\n")
    assert [e for e in alarms(later(watcher, clock)) if 3 in e.alarm.ranks] == []
    [event] = [e for e in alarms(later(watcher, clock)) if 3 in e.alarm.ranks]
    assert event.alarm.rule == "RUN174"


# ------------------------------------------------------------------ files


def test_half_a_line_is_no_value_and_no_failure(run, clock):
    run.log(0, steps(1, 30) + "step: 31, loss: 9")
    watcher = run.watch(clock=clock)
    all_read(watcher)
    assert watcher.state().lanes[0].step == 30
    run.log(0, "1.5, lr: 1e-5\n")
    later(watcher, clock)
    assert watcher.state().lanes[0].step == 31 and watcher.state().lanes[0].loss == 91.5


def test_late_ranks_rotation_and_truncation_are_followed(run, clock):
    run.log(0, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(1, steps(1, 10))
    events = later(watcher, clock)
    assert [(e.args["what"], e.args["name"][-12:]) for e in events if e.kind == "file"] == [("new", "worker_1.log")]
    (run.folder / "worker_0.log").rename(run.folder / "worker_0.log.1")
    run.log(0, steps(31, 40))
    run.write("worker_1.log", steps(1, 3), mode="w")
    events = later(watcher, clock)
    assert sorted(e.args["what"] for e in events if e.kind == "file") == ["cut", "moved", "new"]
    now = {lane.name.rpartition("/")[2]: lane.step for lane in watcher.state().lanes}
    assert now == {"worker_0.log": 40, "worker_0.log.1": 30, "worker_1.log": 3}
    (run.folder / "worker_1.log").unlink()
    assert [e.args["what"] for e in later(watcher, clock) if e.kind == "file"] == ["gone"]
    assert len(watcher.state().lanes) == 2


def test_a_failure_in_the_last_breath_of_a_rotated_file_is_told(run, clock):
    run.log(0, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, OOM)
    (run.folder / "worker_0.log").rename(run.folder / "worker_0.log.1")
    assert [e.kind for e in alarms(later(watcher, clock))] == ["alarm"]


def test_gbk_progress_bars_and_junk_are_read(run, clock):
    bar = "".join(f"\r{n}%|###| {n}/400 [00:10<01:00, 3.0it/s, loss=2.{n:03d}]" for n in range(1, 50))
    run.write("worker_0.log", "训练开始\n".encode("gb18030") + bar.encode() + b"\n\xff\xfe\x00junk\n")
    run.write("worker_1.log", steps(1, 20).encode() + "训练完成\n".encode("gb18030"))
    watcher = run.watch(clock=clock, until=until_of(["训练完成"]))
    all_read(watcher)
    assert max(lane.step for lane in watcher.state().lanes) == 49
    assert watcher.reached.line == 21 and watcher.reached.text == "训练完成"


def test_python_sources_beside_the_logs_are_not_judged(run, clock):
    run.write("train.py", "import mindspore\n\n\ndef main():\n    raise RuntimeError('Memory not enough')\n" + OOM)
    run.log(0, steps(1, 20))
    assert alarms(all_read(run.watch(clock=clock))) == []


def test_a_file_that_rested_is_read_anew_when_it_wakes_up(run, clock, monkeypatch):
    monkeypatch.setattr(watching, "REST_AFTER", -1.0)
    run.log(0, steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    later(watcher, clock)
    assert all(feed.resting for feed in watcher._feeds.values())
    run.log(0, steps(31, 40) + OOM)
    assert [e.kind for e in alarms(later(watcher, clock))] == ["alarm"]
    assert watcher.state().lanes[0].step == 40
    assert plain_report(watcher.final()) == plain_report(engine.diagnose([str(run.folder)]))


# ------------------------------------------------------------------ the report at the end


@pytest.mark.parametrize("folder", ["fixtures/demo", "fixtures/healthy"])
def test_the_report_is_that_of_a_diagnosis(folder, monkeypatch):
    monkeypatch.chdir(ROOT)
    watcher = Watcher([folder])
    all_read(watcher)
    assert plain_report(watcher.final()) == plain_report(engine.diagnose([folder]))


@pytest.mark.parametrize("kind", ["hyperscan", "re2", "python"])
def test_the_report_is_that_of_a_diagnosis_however_the_files_grew(run, clock, kind):
    block = "".join(
        f"[WARNING] KERNEL(7,7f00,python):2026-03-18-09:00:{n % 60:02d}.100.200 [a.cc:{n}] Run] slow kernel {n}\n"
        for n in range(3500 if kind == "hyperscan" else 40)
    )
    texts = {
        0: steps(1, 200) + block + steps(201, 300) + OOM + UNKNOWN,
        1: steps(1, 250, loss=2.5) + "\x1b[31mwarning\x1b[0m\n" + steps(251, 300, loss="nan"),
        2: UNKNOWN + steps(1, 100),
    }
    watcher = run.watch(clock=clock, engine=kind)
    waiting = {rank: pieces(text.encode(), rank) for rank, text in texts.items()}
    turn = 0
    while waiting:
        for rank, left in list(waiting.items()):
            piece = b"".join(part for _, part in zip(range(10), left, strict=False))
            if piece:
                run.log(rank, piece)
            else:
                del waiting[rank]
        turn += 1
        later(watcher, clock, 0.3)
    assert turn > 2
    wanted = plain_report(engine.diagnose([str(run.folder)], engine.Options(engine=kind)))
    found = plain_report(watcher.final())
    assert found == wanted and len(wanted["diagnoses"]) >= 2
    told = {alarm.rule for alarm in watcher.alarms.all.values()}
    assert wanted["diagnoses"][0]["rule"] in told


def test_lines_that_come_after_the_last_look_are_in_the_report(run, clock):
    run.log(0, "padding of a long log\n" * 20_000 + steps(1, 30))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    run.log(0, OOM)
    assert plain_report(watcher.final()) == plain_report(engine.diagnose([str(run.folder)]))


def test_new_judges_only_what_came_and_names_its_true_lines(run, clock):
    run.log(0, OOM + steps(1, 30))
    run.log(1, OOM + steps(1, 30))
    watcher = run.watch(clock=clock, new=True)
    assert alarms(all_read(watcher)) == [] and watcher.exit_code(watcher.final(), "error") == 0
    watcher = run.watch(clock=clock, new=True)
    all_read(watcher)
    run.log(1, steps(31, 40) + OOM)
    [event] = alarms(later(watcher, clock))
    assert event.alarm.where.endswith("worker_1.log:42") and event.alarm.ranks == (1,)
    report = watcher.final()
    assert [i.name[-12:] for i in report.inputs] == ["worker_1.log"]
    assert {e.line for d in report.diagnoses for e in d.evidence} == {42} and watcher.exit_code(report, "error") == 1


# ------------------------------------------------------------------ stalls


def stepping(run, watcher, clock, ranks, first, last, seconds=2.0):
    events = []
    for n in range(first, last + 1):
        for rank in ranks:
            run.log(rank, step(n, ms=2000))
        events += later(watcher, clock, seconds)
    return events


def test_no_step_for_many_step_times_is_a_stall_with_its_numbers(run, clock):
    run.log(0, steps(1, 10, ms=2000))
    run.log(1, steps(1, 10, ms=2000))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    assert alarms(stepping(run, watcher, clock, (0, 1), 11, 20)) == []
    assert alarms(later(watcher, clock, 55.0)) == []
    [event] = alarms(later(watcher, clock, 10.0))
    assert (event.kind, event.alarm.rule, event.alarm.severity) == ("alarm", "watch:stall", "warning")
    assert event.alarm.ranks == (0, 1) and event.alarm.where.endswith("worker_0.log:20")
    assert "for 65 s (usually one every 2 s; the last one was 20)" in event.alarm.title["en"]
    [event] = alarms(later(watcher, clock, 130.0))
    assert (event.kind, event.alarm.severity) == ("worse", "error")
    assert watcher.exit_code(watcher.final(), "error") == 1


def test_a_stall_is_over_when_steps_come_again_and_such_a_pause_is_usual_then(run, clock):
    run.log(0, steps(1, 10, ms=2000))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    stepping(run, watcher, clock, (0,), 11, 20)
    assert [e.kind for e in alarms(later(watcher, clock, 70.0))] == ["alarm"]
    run.log(0, step(21, ms=2000))
    assert [e.kind for e in alarms(later(watcher, clock, 1.0))] == ["over"]
    assert alarms(later(watcher, clock, 100.0)) == []
    assert watcher.exit_code(watcher.final(), "error") == 0


def test_one_rank_that_is_silent_while_others_go_on_is_named(run, clock):
    for rank in range(4):
        run.log(rank, steps(1, 10, ms=2000))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    stepping(run, watcher, clock, range(4), 11, 15)
    events = alarms(stepping(run, watcher, clock, (0, 1, 3), 16, 60))
    assert [(e.kind, e.alarm.rule, e.alarm.ranks) for e in events] == [("alarm", "watch:silent", (2,))]
    assert "buffered" in events[0].alarm.cause["en"] and "缓冲" in events[0].alarm.cause["zh"]


def test_a_failure_that_was_told_is_no_stall_besides(run, clock):
    run.log(0, steps(1, 10, ms=2000))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    stepping(run, watcher, clock, (0,), 11, 20)
    run.log(0, OOM)
    assert len(alarms(later(watcher, clock, 2.0))) == 1
    assert alarms(later(watcher, clock, 500.0)) == []


def test_a_run_at_its_last_step_or_of_yesterday_does_not_stall(run, clock):
    run.log(0, steps(1, 20, ms=2000, total=20))
    run.log(1, steps(1, 10, ms=2000))
    old = time.time() - 90_000
    os.utime(run.folder / "worker_1.log", (old, old))
    watcher = run.watch(clock=clock)
    all_read(watcher)
    assert alarms(later(watcher, clock, 5000.0)) == []


# ------------------------------------------------------------------ until


def test_until_a_step_a_line_idle_or_an_alarm(run, clock):
    run.log(0, steps(1, 30))
    for words, text, why in (
        (["step:40"], steps(31, 40), "until"),
        (["^Training (done|finished)"], "Training finished\n", "until"),
        (["idle:30"], "", "idle"),
        (["alarm", "idle:500"], OOM, "alarm"),
    ):
        watcher = run.watch(clock=clock, until=until_of(words))
        all_read(watcher)
        later(watcher, clock, 5.0)
        assert not watcher.ended
        run.log(0, text)
        events = later(watcher, clock, 31.0)
        assert (watcher.ended, kinds(events)[-1]) == (why, "until")


def test_the_pattern_is_also_found_on_a_last_line_without_an_end(run, clock, monkeypatch):
    monkeypatch.setattr(watching, "HALF_LINE", -1.0)
    run.log(0, steps(1, 3) + "all done")
    watcher = run.watch(clock=clock, until=until_of(["all done$"]))
    all_read(watcher)
    assert watcher.reached.line == 4


def test_a_pattern_over_a_piece_border_is_found_and_lines_are_counted(run, clock):
    run.log(0, "x" * 100 + "\n" + "a" * (300 << 10) + "\nneedle in it\n")
    watcher = run.watch(clock=clock, until=until_of(["line:needle"]))
    all_read(watcher)
    assert (watcher.reached.line, watcher.reached.text) == (3, "needle in it")


@pytest.mark.parametrize("word", [r"(a)\1", "(?=a)b", "(", "a*", "step:x", "step:-1", "idle:soon", "idle:nan"])
def test_what_is_not_linear_or_no_number_is_refused(word):
    with pytest.raises(ValueError, match=r"."):
        until_of([word])


def test_a_pattern_never_reaches_over_a_line():
    assert Pattern("a[^x]*b").search(b"za\nb\nqab\n") == 6


def test_a_hostile_pattern_is_quick():
    began = time.process_time()
    Pattern("(a+)+$").search(b"a" * 100_000 + b"b\n")
    assert time.process_time() - began < 1.0


# ------------------------------------------------------------------ cost


@pytest.mark.slow
def test_one_look_at_256_ranks_is_cheap_and_memory_bounded(run, clock):
    for rank in range(256):
        run.log(rank, steps(1, 50))
        run.write(f"plog/plog-{rank}_2026.log", "quiet\n" * 50)
    watcher = run.watch(clock=clock)
    all_read(watcher)
    began = time.process_time()
    for _ in range(20):
        later(watcher, clock, 1.0)
    assert (time.process_time() - began) / 20 < 0.05  # 512 files, nothing new
    tracemalloc.start()
    for n in range(51, 61):
        for rank in range(256):
            run.log(rank, step(n))
        later(watcher, clock, 1.0)
    assert tracemalloc.get_traced_memory()[0] < 40 << 20
    tracemalloc.stop()
    assert len(os.listdir("/proc/self/fd")) < 64
    assert {lane.step for lane in watcher.state().lanes} == {60}


def test_options_have_a_clock_of_their_own():
    assert Options().clock is time.monotonic


def test_where_series_take_long_a_failure_is_told_before_they_are_judged_again(run, clock):
    run.log(0, steps(1, 60))
    run.log(1, steps(1, 60) + steps(61, 70, loss="nan"))
    watcher = run.watch(clock=clock)
    told = {e.alarm.rule for e in alarms(all_read(watcher))}
    watcher._cost = 100.0
    run.log(0, steps(61, 70) + OOM)
    [event] = alarms(later(watcher, clock, 1.0))
    assert (event.kind, event.alarm.ranks) == ("alarm", (0,)) and watcher._cost == 100.0
    assert told <= {d.rule for d in watcher.report.diagnoses}


def test_an_interrupted_judgement_leaves_what_was_known(run, clock, monkeypatch):
    run.log(0, steps(1, 60) + OOM)
    watcher = run.watch(clock=clock)
    all_read(watcher)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("doctor.ranking.judge", interrupted)
    run.log(0, UNKNOWN)
    with pytest.raises(KeyboardInterrupt):
        later(watcher, clock)
    assert watcher.judging and [d.severity for d in watcher.so_far().diagnoses] == ["error"]
