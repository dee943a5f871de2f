"""The pace of a run: stalls, jitter, drops and compilations are told apart, and healthy paces raise no alarm."""

import pytest

np = pytest.importorskip("numpy")

from doctor.checks.training import pace  # noqa: E402
from doctor.model import Curves  # noqa: E402

CHECKS = (
    pace.stalls_at_checkpoints, pace.stalls_at_epochs, pace.stalls_regularly, pace.jitter, pace.slower_for_good,
    pace.slower_and_slower, pace.compiled_again, pace.stalls_now_and_then,
)  # fmt: skip


def curves(times, near=None, plan=None, name="step_time", segments=None, **more):
    """One rank that prints these times at steps 1, 2, …"""
    x = np.asarray(times, float)
    at = np.arange(1.0, len(x) + 1)
    columns = {name: x, "loss": np.full(len(x), 3.0)}
    have = {key: np.ones(len(x), bool) for key in columns}
    unit = "ms" if name == "step_time" else "T"
    base = Curves(
        "x", 0, "train", columns, have, at, at, np.full(len(x), np.nan), segments or ((0, len(x)),),
        units={name: unit}, cache={}, near=near, plan=plan or {},
    )  # fmt: skip
    return base._replace(**more)


def said(one):
    return {check.__name__: seen[0] for check in CHECKS if (seen := check(one))}


def calm(rng, count, kind="normal"):
    noise = {
        "normal": rng.normal(1, 0.02, count),
        "heavy": 1 + 0.02 * np.abs(rng.standard_t(2, count)),
        "pareto": 1 + 0.01 * rng.pareto(1.5, count),
        "outliers": rng.normal(1, 0.03, count) * np.where(rng.random(count) < 0.01, rng.uniform(1.5, 4, count), 1),
    }[kind]
    x = 400 * noise
    x[0] *= rng.uniform(5, 60)
    return x


@pytest.mark.parametrize("kind", ["normal", "heavy", "pareto", "outliers"])
def test_healthy_paces_raise_no_alarm(kind):
    rng = np.random.default_rng(7)
    alarms = [said(curves(calm(rng, count, kind))) for count in (100, 300, 1000, 20_000) for _ in range(20)]
    assert [a for a in alarms if a] == [], "428,000 healthy steps"


@pytest.mark.parametrize(("count", "period", "factor"), [(300, 20, 3), (1000, 100, 5), (5000, 1000, 20), (300, 5, 2)])
@pytest.mark.parametrize("kind", ["normal", "outliers"])
def test_the_period_of_stalls_is_found(count, period, factor, kind):
    x = calm(np.random.default_rng(period), count, kind)
    x[period - 1 :: period] *= factor
    seen = said(curves(x))
    assert list(seen) == ["stalls_regularly"]
    assert float(seen["stalls_regularly"].args["period"]) == period


def test_stalls_are_ascribed_to_what_the_log_says_before_them():
    x = calm(np.random.default_rng(1), 200)
    x[19::20] *= 8

    def log(words):
        return lambda row: [words] if (row + 1) % 20 == 0 else []

    assert list(said(curves(x, log("Saving checkpoint to ckpt/gpt-20.ckpt")))) == ["stalls_at_checkpoints"]
    assert list(said(curves(x, log("开始保存权重")))) == ["stalls_at_checkpoints"]
    assert list(said(curves(x, log("Train epoch time: 8000 ms")))) == ["stalls_at_epochs"]
    assert list(said(curves(x, log("checkpoint saved at 3 of 9"), {"checkpoint.interval": 7}))) == [
        "stalls_at_checkpoints"
    ]
    assert list(said(curves(x, log("nothing of note")))) == ["stalls_regularly"]


def test_stalls_belong_to_an_epoch_or_a_save_whose_length_they_have():
    x = calm(np.random.default_rng(2), 200)
    x[19::20] *= 8
    assert list(said(curves(x, period=20))) == ["stalls_at_epochs"]
    assert list(said(curves(x, epoch=1.0 + np.arange(200) // 20))) == ["stalls_at_epochs"]
    assert list(said(curves(x, plan={"checkpoint.interval": 20}))) == ["stalls_at_checkpoints"]


def test_one_stall_is_no_pattern():
    x = calm(np.random.default_rng(3), 500)
    x[250] *= 30
    assert said(curves(x)) == {}


def test_far_stalls_without_a_period_are_told_if_they_cost_enough():
    x = calm(np.random.default_rng(11), 480)
    places = [60, 131, 222, 290, 377, 431]
    x[places] *= 16
    (seen,) = said(curves(x)).values()
    assert (seen.args["times"], seen.args["steps"].split(",")[0]) == ("6", "61")
    assert 10 < float(seen.args["percent"]) < 20
    told = [[] if n not in places else ["Start Evaluate, dataset size 100", "eval loss 3.1"] for n in range(480)]
    assert said(curves(x, told.__getitem__)) == {}
    x[places[2:]] = 400
    assert said(curves(x)) == {}, "two are no pattern"


def test_a_warm_up_is_no_anomaly():
    x = calm(np.random.default_rng(4), 300)
    x[:12] = 400 * np.linspace(30, 1.5, 12)
    assert said(curves(x)) == {}


def test_a_restart_warms_up_again():
    x = calm(np.random.default_rng(5), 300)
    x[100:104] = 20_000
    assert said(curves(x, segments=((0, 100), (100, 300)))) == {}


@pytest.mark.parametrize("name", ["step_time", "throughput"])
def test_a_drop_that_stays_is_told_with_its_step(name):
    x = calm(np.random.default_rng(6), 400)
    x[250:] *= 1.4
    seen = said(curves(1e5 / x if name == "throughput" else x, name=name))
    assert list(seen) == ["slower_for_good"]
    assert abs(float(seen["slower_for_good"].args["step"]) - 251) <= 2
    assert abs(float(seen["slower_for_good"].args["percent"]) - 40) <= 2


def test_a_drop_that_comes_back_is_none():
    x = calm(np.random.default_rng(7), 600)
    x[250:320] *= 1.4
    assert said(curves(x)) == {}


def test_a_pace_that_falls_all_the_time_is_no_sudden_one():
    x = calm(np.random.default_rng(8), 600) * np.linspace(1, 1.5, 600)
    assert list(said(curves(x))) == ["slower_and_slower"]


def test_uneven_steps_are_jitter():
    rng = np.random.default_rng(9)
    assert list(said(curves(400 * np.exp(0.4 * rng.standard_normal(300))))) == ["jitter"]


def test_steps_as_slow_as_the_first_one_are_compilations():
    x = calm(np.random.default_rng(10), 300)
    x[0] = 12_000
    places = [40, 77, 131, 160, 249]
    x[places] = 11_000
    assert list(said(curves(x))) == ["compiled_again"]
    x[0] = 410
    assert list(said(curves(x))) == ["stalls_now_and_then"], "the first step says nothing of compiling"
    log = [[] if n not in places else ["Start compiling graph"] for n in range(300)]
    assert list(said(curves(x, log.__getitem__))) == ["compiled_again"]


@pytest.mark.parametrize("bad", [[], [1.0], [float("nan")] * 100, [-5.0] * 100, [0.0] * 100, [1e300] * 100])
def test_odd_times_are_no_trouble(bad):
    assert said(curves(bad)) == {}


def ranks(step, data, odd_step=None, odd_data=None):
    made = []
    for rank in range(8):
        medians = {"step_time": (odd_step if odd_step and rank == 5 else step + rank % 2, 100)}
        if data:
            medians["data_time"] = (odd_data if odd_data and rank == 5 else data + 0.1 * (rank % 2), 100)
        made.append(curves([step] * 50, rank=rank, cache={"medians": medians}))
    return made


def test_only_a_rank_that_stands_apart_is_slow():
    assert pace.slow_rank(ranks(400, 5)) == []
    assert pace.slow_rank(ranks(400, 5, odd_data=9)) == [], "4 ms of 400 do not matter"
    (seen,) = pace.data_time_apart(ranks(400, 5, odd_data=90))
    assert (seen.args["rank"], seen.args["time"]) == ("5", "90")
    (seen,) = pace.step_time_apart(ranks(400, 0, odd_step=520))
    assert (seen.args["rank"], seen.args["percent"]) == ("5", "30")


def test_a_million_steps_take_no_time():
    import time

    x = calm(np.random.default_rng(11), 1_000_000)
    began = time.process_time()
    said(curves(x))
    assert time.process_time() - began < 1.0, "a million steps"
