"""A run of many ranks: the rank that failed first is named, whatever the clocks say and whoever is missing."""

import importlib.util
import json
import os
import random

import jsonschema
import pytest

from doctor import engine
from doctor.render.json import report_dict, schema
from doctor.run import partial

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _load():
    spec = importlib.util.spec_from_file_location("cascades", os.path.join(ROOT, "scripts", "cascades.py"))
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["cascades"] = module
    spec.loader.exec_module(module)
    return module


cascades = _load()


def diagnose(*inputs, **options):
    return engine.diagnose([str(i) for i in inputs], engine.Options(jobs=1, **options))


def named(report):
    first = report.diagnoses[0]
    return first.place.rank, first.topic


@pytest.mark.parametrize("kind", list(cascades.KINDS))
def test_the_rank_that_failed_first_heads_the_report(kind, tmp_path):
    run = cascades.make(kind, 3, 16, str(tmp_path))
    report = diagnose(tmp_path)
    rank, topic = named(report)
    assert rank == run.root.number
    assert topic in run.topics
    found = report_dict(report)
    jsonschema.validate(found, schema())
    indices = [one["finding"] for one in (*found["run"]["lanes"], *found["run"]["timeline"])]
    assert all(index is None or index < len(report.findings) for index in indices)


@pytest.mark.parametrize(
    ("kind", "mark"),
    [("oom", "srun"), ("killed", "rank"), ("hung", "pod"), ("unknown", "paren"), ("restarted", "mpi"),
     ("missing", "tail"), ("told_by_scheduler", "default"), ("nan", "grep")],
)  # fmt: skip
def test_a_run_in_one_file_is_judged_like_one_of_many_files(kind, mark, tmp_path):
    run = cascades.make(kind, 4, 16, str(tmp_path), mark, 0.01)
    assert os.listdir(tmp_path) == ["all.log"]
    report = diagnose(tmp_path)
    rank, topic = named(report)
    assert rank == run.root.number
    assert topic in run.topics
    assert report.run["world_size"] == run.world
    assert sorted(lane["rank"] for lane in report.run["lanes"]) == list(range(run.world))


@pytest.mark.slow
def test_98_of_100_random_runs_are_right(tmp_path):
    kinds = list(cascades.KINDS)
    right = 0
    for number in range(100):
        folder = tmp_path / str(number)
        run = cascades.make(kinds[number % len(kinds)], 7000 + number, 64, str(folder))
        rank, topic = named(diagnose(folder))
        right += rank == run.root.number and topic in run.topics
    assert right >= 98


def test_a_cause_on_a_clock_that_is_ahead_explains_what_looks_earlier(tmp_path):
    run = cascades.make("mixed_steps", 11, 16, str(tmp_path))
    report = diagnose(tmp_path)
    assert report.run["clock"]["corrected"] or run.hosts == 1
    [first, *_] = report.diagnoses
    waited = [i for i in first.consequences if report.findings[i].topic == "hccl.timeout.exec"]
    assert waited, "the time-outs are not under their cause"
    moments = {lane["rank"]: lane["first_failure"] for lane in report.run["lanes"] if lane["first_failure"]}
    assert min(moments, key=moments.get) == run.root.number


def test_the_lanes_say_what_became_of_each_rank(tmp_path):
    run = cascades.make("killed", 5, 16, str(tmp_path))
    states = {lane["rank"]: lane["state"] for lane in diagnose(tmp_path).run["lanes"]}
    assert sorted(states) == list(range(run.world))
    assert states[run.root.number] == "silent"
    assert {rank for rank, state in states.items() if state == "missing"} == run.lost


def test_equal_consequences_are_one_line_of_the_timeline(tmp_path):
    run = cascades.make("aicore", 2, 16, str(tmp_path))
    timeline = diagnose(tmp_path).run["timeline"]
    assert len(timeline) <= 60
    assert [e["rank"] for e in timeline if e["what"] == "cause"] == [run.root.number]
    waiting = [e for e in timeline if e["what"] == "waiting"]
    assert waiting and len(waiting) < 6
    assert timeline == sorted(timeline, key=lambda e: e["seconds"])


def test_ranks_that_wait_in_a_circle_are_named_as_such(tmp_path):
    run = cascades.Run(random.Random(5), 16)
    run.style = run.style._replace(naming="ring")
    run.begin()
    run.waiters(run.failed)
    run.write(str(tmp_path))
    report = diagnose(tmp_path)
    assert report.diagnoses[0].rule == "RUN175"
    assert report.run["chains"][0]["cycle"]


def test_a_healthy_run_blames_nobody(tmp_path):
    run = cascades.Run(random.Random(8), 16)
    run.begin()
    run.write(str(tmp_path))
    report = diagnose(tmp_path)
    assert report.verdict not in ("error", "warning")
    assert {lane["state"] for lane in report.run["lanes"]} <= {"running", "ended"}


def test_one_log_alone_has_no_run(tmp_path):
    (tmp_path / "train.log").write_text("Traceback (most recent call last):\nValueError: odd\n")
    assert diagnose(tmp_path / "train.log").run == {}


# ------------------------------------------------------------------ partial results


def plain(report):
    found = report_dict(report)
    del found["timings"], found["target"]
    found["inputs"].sort(key=lambda one: one["name"])
    return json.dumps(found, sort_keys=True)


def write(path, *inputs):
    kept = []
    diagnose(*inputs, kept=lambda sources, problems: kept.append(partial.dump(sources, problems)))
    path.write_bytes(kept[0])
    return path


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """The files of a run, and each of them as a partial."""
    cascades.make("two", 4, 16, str(tmp_path / "run"))
    monkeypatch.chdir(tmp_path)
    files = sorted(os.path.join(d, f) for d, _, names in os.walk("run") for f in names)
    return [write(tmp_path / f"{n}.part", file) for n, file in enumerate(files)]


def test_partials_give_the_report_of_all_logs_read_at_once(parts):
    assert plain(diagnose(*parts)) == plain(diagnose("run"))


@pytest.mark.parametrize("seed", range(3))
def test_partials_may_be_merged_in_any_order_and_grouping(parts, tmp_path, seed):
    rng = random.Random(seed)
    whole = plain(diagnose(*parts))
    mixed = rng.sample(parts, len(parts))
    cut = sorted(rng.sample(range(1, len(mixed)), 2))
    groups = [mixed[: cut[0]], mixed[cut[0] : cut[1]], mixed[cut[1] :]]
    merged = [write(tmp_path / f"group{n}.part", *group) for n, group in enumerate(groups)]
    nested = write(tmp_path / "nested.part", *rng.sample(merged[:2], 2))
    assert plain(diagnose(nested, merged[2])) == whole
    assert plain(diagnose(merged[2], nested, *rng.sample(parts, 3))) == whole


def test_partials_and_logs_go_together(parts):
    whole = plain(diagnose("run"))
    scan = [p for p in parts if b"worker_" in p.read_bytes()[:400]]
    assert plain(diagnose(*scan, "run")) == whole


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: data.replace(b'"lines"', b'"lynes"', 1), "cut off"),
        (lambda data: data.replace(b"doctor.partial/1", b"doctor.partial/2", 1), "another format"),
        (lambda data: b"doctor.partial/", "cut off"),
        (lambda data: data.split(b"\n")[0] + b"\n[]\n", "cut off"),
    ],
    ids=["cut", "changed", "newer", "headless", "empty"],
)
def test_a_partial_that_cannot_be_used_is_named_and_the_rest_goes_on(parts, spoil, code):
    parts[0].write_bytes(spoil(parts[0].read_bytes()))
    report = diagnose(*parts)
    bad = [one for one in report.inputs if one.state == "unreadable"]
    assert [one.name for one in bad] == [str(parts[0])]
    assert code in bad[0].why["en"]
    assert report.diagnoses


def test_a_partial_of_rules_that_are_not_here_is_refused(parts):
    data = parts[-1].read_bytes()
    with pytest.raises(partial.Damaged) as caught:
        partial.load(data, [])
    assert caught.value.code == "rules"


@pytest.mark.parametrize("shape", ["calm", "spike", "nan", "diverged"])
def test_a_curve_that_is_thinned_in_a_partial_keeps_its_label_and_step(shape, tmp_path):
    rng = random.Random(3)
    lines = []
    for n in range(1, 4001):
        loss = 9.5 * 0.9995**n + 2 + rng.gauss(0, 0.02)
        loss += 8 if shape == "spike" and 2000 <= n < 2012 else max(0, n - 3200) * 0.01 if shape == "diverged" else 0
        text = "nan" if shape == "nan" and n >= 3700 else f"{loss:.4f}"
        lines.append(f"step: {n}, loss: {text}, lr: 1e-5, per_step_time: {1000 + rng.randrange(9)}ms")
    log, part = tmp_path / "worker_0.log", tmp_path / "a.part"
    log.write_text("\n".join(lines) + "\n")
    direct = diagnose(log, kept=lambda sources, problems: part.write_bytes(partial.dump(sources, problems)))
    merged = diagnose(part)
    assert merged.series[0]["every"] > 1
    assert [d.rule for d in merged.diagnoses] == [d.rule for d in direct.diagnoses]
    assert bool(direct.diagnoses) == (shape != "calm")
    for one, other in zip(direct.diagnoses, merged.diagnoses, strict=True):
        first, second = (r.findings[d.finding].evidence[0].line for r, d in ((direct, one), (merged, other)))
        assert abs(first - second) <= 4 * merged.series[0]["every"]


def test_secrets_do_not_get_into_a_partial(tmp_path):
    log = tmp_path / "worker_0.log"
    log.write_text("Traceback (most recent call last):\nValueError: https://user:hunter22@example.org refused token\n")
    data = write(tmp_path / "a.part", log).read_bytes()
    assert b"refused token" in data and b"hunter22" not in data
