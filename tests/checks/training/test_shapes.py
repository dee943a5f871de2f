"""The shapes of a loss are told apart, and healthy runs raise no alarm."""

from array import array

import pytest

np = pytest.importorskip("numpy")

from doctor.checks.training import burst, curve, loss, memory, ranks, scale  # noqa: E402
from doctor.model import Shortage  # noqa: E402
from doctor.scan.series import MISSING, Track  # noqa: E402
from doctor.training import curves_of  # noqa: E402

ORDER = (
    ("nan", loss.nan_after_rise), ("nan", loss.nan_after_overflow), ("nan", loss.nan_suddenly),
    ("nan", loss.nan_from_start), ("inf", loss.inf_onset), ("diverged", loss.diverged), ("collapse", scale.collapse),
    ("oscillating", loss.oscillates), ("spike", loss.spikes), ("plateau", loss.plateau),
)  # fmt: skip


def run(values, total=0, **columns):
    count = len(values)
    rows = {"step": array("d", range(1, count + 1)), "loss": array("d", values)}
    rows.update({name: array("d", column) for name, column in columns.items()})
    return curves_of(
        Track("x", None, "train", "named", rows, array("q", range(1, count + 1)), array("q"), {}, total, 1, 0)
    )


def label(curves):
    return next((name for name, check in ORDER if check(curves)), "healthy")


def healthy(rng, count, noise=0.03):
    t = np.arange(count)
    fall = rng.uniform(1.5, 3) + rng.uniform(4, 8) * (1 + t / rng.uniform(5, 40)) ** -rng.uniform(0.4, 0.8)
    return fall + rng.standard_t(3, count) * noise


@pytest.mark.parametrize("count", [300, 1000, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_each_shape_has_its_name(seed, count):
    rng = np.random.default_rng(seed)
    at = count // 2
    base = healthy(rng, count)
    t = np.arange(count - at)

    def changed(tail):
        x = base.copy()
        x[at:] = tail(x[at:])
        return run(x)

    assert label(changed(lambda x: x * np.nan)) == "nan"
    assert label(changed(lambda x: x + np.inf)) == "inf"
    assert label(changed(lambda x: x + np.linspace(0, 4, len(t)))) == "diverged"
    assert label(changed(lambda x: x + 4)) == "diverged"
    assert label(changed(lambda x: x + 4 * np.exp(-t / 8))) == "spike"
    for period in (2, 7, 31.4):
        swing = healthy(rng, count, 0.0) + rng.normal(0, 0.05, count)
        assert label(run(swing + 0.2 * np.cos(2 * np.pi * np.arange(count) / period))) == "oscillating"
    assert label(run(10.8 + rng.normal(0, 0.02, count))) == "plateau"


def test_healthy_heavy_tails_raise_no_alarm():
    rng = np.random.default_rng(3)
    steps = alarms = 0
    while steps < 300_000:
        count = int(rng.choice([300, 2000, 20_000]))
        alarms += label(run(healthy(rng, count, rng.uniform(0.005, 0.08)))) != "healthy"
        steps += count
    assert alarms <= 1


def test_a_single_outlier_is_a_spike_only_beyond_the_tail_of_its_own_noise():
    rng = np.random.default_rng(1)
    heavy = healthy(rng, 3000, 0.02)
    light = healthy(rng, 3000, 0.0) + rng.normal(0, 0.02, 3000)
    for x in (heavy, light):
        assert label(run(x)) == "healthy"
        x[2500] += 1.2
    assert label(run(heavy)) == "healthy"
    assert loss.spikes(run(light))[0].args["step"] == "2501"
    heavy[2500] = 60.0
    assert loss.spikes(run(heavy))[0].args["step"] == "2501"


def test_a_spike_begins_where_it_is_first_high():
    rng = np.random.default_rng(2)
    x = healthy(rng, 2000, 0.02)
    x[1200:1260] += 3.0
    (first, *_) = loss.spikes(run(x))
    assert abs(int(first.args["step"]) - 1201) <= 1


@pytest.mark.parametrize(("width", "height"), [(2, 0.6), (3, 0.5), (6, 0.35), (15, 0.3), (35, 0.3)])
def test_a_short_rise_that_is_low_beside_the_level_is_a_spike_where_the_noise_is_lower_still(width, height):
    rng = np.random.default_rng(10)
    right = 0
    for _ in range(20):
        x = healthy(rng, 1500, 0.03)
        at = int(rng.integers(400, 1400))
        x[at : at + width] += height
        found = loss.spikes(run(x))
        right += bool(found) and abs(found[0].row - at) <= 2 and label(run(x)) == "spike"
    assert right >= 18


def test_neither_a_sudden_drop_nor_the_beginning_of_a_fall_nor_a_heavy_tail_is_a_short_rise():
    rng = np.random.default_rng(11)
    t = np.arange(3000)
    for _ in range(10):
        drops = 8 - sum(drop * (t > at) for drop, at in rng.uniform((0.3, 100), (1, 2900), (5, 2)))
        for tail in (rng.standard_t(3, 3000), rng.lognormal(0, 0.6, 3000), rng.laplace(0, 1, 3000)):
            assert not burst.bursts(drops + 0.03 * tail)
            assert not burst.bursts(healthy(rng, 3000, 0.0) + 0.03 * tail)


def test_noise_in_which_neighbours_are_alike_is_neither_a_swing_nor_a_rise():
    rng = np.random.default_rng(4)
    for share in (0.5, 0.8, 0.9):
        for _ in range(6):
            drift = np.zeros(4000)
            for n, push in enumerate(rng.normal(0, 0.05 * np.sqrt(1 - share**2), 4000)):
                drift[n] = share * drift[n - 1] + push
            assert label(run(healthy(rng, 4000, 0.0) * (1 + drift))) == "healthy"


def test_a_smooth_fall_with_a_spike_behind_it_is_no_swing():
    t = np.arange(398)
    x = 0.86 + 2.8 / (1 + np.exp((t / 398 - 0.14) / 0.025)) + np.random.default_rng(5).normal(0, 0.002, 398)
    x[295:313] += 1.5
    assert label(run(x)) == "spike"


def test_a_swing_of_the_late_part_and_one_that_is_small_beside_the_level_are_seen():
    rng = np.random.default_rng(6)
    x = healthy(rng, 3000, 0.0) + rng.normal(0, 0.01, 3000)
    x[2750:] += 0.04 * np.cos(2 * np.pi * np.arange(250) / 9)
    assert label(run(x)) == "oscillating"
    small = 4 + rng.normal(0, 0.002, 2000) - np.linspace(0, 2, 2000) + 0.005 * np.sin(np.arange(2000))
    assert label(run(small)) == "oscillating"


def test_the_bends_of_a_trend_are_no_swing():
    rng = np.random.default_rng(8)
    for count in (807, 1534, 2214):
        for stop in (0.75, 0.9):
            fall = 2 + 4 * (1 + np.cos(np.pi * np.clip(np.arange(count) / (stop * count), 0, 1)))
            assert label(run(fall + 0.05 * rng.standard_t(4, count))) == "healthy"


def test_a_swing_keeps_its_beat_over_missing_lines_and_is_seen_in_a_short_log_and_beside_sudden_drops():
    rng = np.random.default_rng(9)
    t = np.arange(1200)
    swing = healthy(rng, 1200, 0.0) + 0.05 * rng.standard_t(5, 1200) + 0.1 * np.sin(2 * np.pi * t / 5)
    kept = np.flatnonzero(rng.random(1200) > 0.05)
    assert label(run(swing[kept], step=kept + 1.0)) == "oscillating"
    short = t[:58]
    assert label(run(3 + 5 * np.exp(-short / 15) + 0.05 * rng.normal(0, 1, 58) + 0.4 * np.sin(short))) == "oscillating"
    drops = 9 - 2.0 * (t > 150) - 1.5 * (t > 420) - 1.0 * (t > 900) + 0.05 * rng.normal(0, 1, 1200)
    assert label(run(drops)) == "healthy"
    assert label(run(drops + 0.12 * np.sin(2 * np.pi * t / 21))) == "oscillating"


def test_a_short_log_that_stopped_falling_near_its_start_stands_still():
    t = np.arange(80)
    rng = np.random.default_rng(12)
    stuck = 9.5 + 1.0 * np.exp(-t / 4) + rng.normal(0, 0.04, 80)
    assert label(run(stuck)) == "plateau"
    assert label(run(stuck[:50])) == "healthy"
    assert label(run(stuck - 3.0 * (1 - np.exp(-t / 4)))) == "healthy"


def test_what_came_before_a_nan_decides_its_rule():
    calm = np.linspace(5, 3, 60)
    assert loss.nan_suddenly(run([*calm, np.nan]))
    assert loss.nan_after_rise(run([*calm, 4.5, 9.0, np.nan]))
    assert loss.nan_after_overflow(run([*calm, np.nan], overflow=[0.0] * 57 + [1.0] * 4))
    assert loss.nan_from_start(run([np.nan] * 4))
    # Megatron leaves the loss out of the line and counts
    counted = run([*calm, MISSING], nan_steps=[0.0] * 60 + [1.0])
    assert loss.nan_suddenly(counted)[0].args["step"] == "61"


def test_the_search_for_a_loss_scale_is_no_collapse():
    n = 100
    search = [max(65536.0, 2.0 ** (32 - i)) for i in range(n)]
    assert not scale.collapse(run(np.linspace(9, 3, n), loss_scale=search))
    rare = [65536.0 / 2 ** (i // 90) for i in range(900)]
    assert not scale.collapse(run(np.linspace(9, 3, 900), loss_scale=rare))
    down = [65536.0] * 60 + [65536.0 / 2 ** min(i, 16) for i in range(40)]
    assert scale.collapse(run(np.linspace(9, 3, n), loss_scale=down))[0].args["step"] == "62"


def test_a_search_for_a_loss_scale_behind_a_restart_is_no_collapse_and_the_first_fall_of_one_is_named():
    n = 400
    search = [2.0 ** max(16, 32 - i) for i in range(n)]
    late = run(np.linspace(9, 3, n), loss_scale=search)
    late = late._replace(at=late.at + 50_000, step=late.step + 50_000)
    assert not scale.collapse(late)
    down = [131072.0] * 40 + [65536.0] * 260 + [65536.0 / 2 ** min(i // 2 + 1, 16) for i in range(100)]
    assert scale.collapse(run(np.linspace(9, 3, n), loss_scale=down))[0].args["step"] == "301"


def test_a_collapse_begins_before_the_rises_within_it():
    held = [2.0**16] * 300
    falling = [2.0**k for k in (15, 14, 13, 14, 13, 12, 11, 12, 11, 10, 9, 8, 7, 6, 5, 4)]
    (found,) = scale.collapse(run(np.full(400, 3.0), loss_scale=held + falling + [16.0] * 84))
    assert found.row == 300 and found.args["from"] == "65536"
    # one that was the usual search, long before, is not a part of it
    early = [2.0**16] * 100 + [2.0**15] * 100 + [2.0**16] * 100
    (found,) = scale.collapse(run(np.full(400, 3.0), loss_scale=early + falling + [16.0] * 84))
    assert found.row == 300


def test_a_counter_that_starts_anew_with_each_epoch_is_no_restart():
    count = 200
    rows = {
        "step": array("d", [n % 50 + 1 for n in range(count)]),
        "epoch": array("d", [n // 50 + 1 for n in range(count)]),
        "loss": array("d", np.linspace(5, 2, count)),
    }
    curves = curves_of(Track("x", None, "train", "named", rows, array("q", range(count)), array("q"), {}, 50, 1, 0))
    assert curves.period == 50 and len(curves.segments) == 1
    assert list(curves.at) == list(range(1, count + 1))


def test_runs_one_after_the_other_are_judged_apart():
    one = np.linspace(10, 3, 60)
    rows = {"step": array("d", [*range(60), *range(60)]), "loss": array("d", [*one, *one])}
    curves = curves_of(Track("x", None, "train", "named", rows, array("q", range(120)), array("q"), {}, 0, 1, 0))
    assert curves.segments == ((0, 60), (60, 120))
    assert label(curves) == "healthy"


def test_the_median_of_five_is_one():
    x = np.random.default_rng(0).normal(size=200)
    wanted = [np.median(x[i - 2 : i + 3]) for i in range(2, 198)]
    assert np.allclose(curve.median5(x)[2:-2], wanted)


def test_ranks_are_compared():
    def rank(number, values):
        return run(values)._replace(rank=number)

    calm = np.linspace(5, 3, 40)
    bad = calm.copy()
    bad[20:] = np.nan
    assert ranks.nan_on_one([rank(0, calm), rank(1, bad), rank(2, calm)])[0].curves == 1
    assert not ranks.nan_on_one([rank(0, bad), rank(1, bad)])
    off = [rank(n, calm * (1.5 if n == 2 else 1 + n * 0.001)) for n in range(5)]
    assert ranks.stands_apart(off)[0].args["rank"] == "2"
    assert not ranks.stands_apart([rank(n, calm * (1 + n * 0.05)) for n in range(5)])


GB = 1 << 30


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ({"size": 100 * GB, "limit": 57 * GB, "used": 23 * GB}, "too_large"),
        ({"size": 301_990_400, "used": 29_356_337_664, "limit": 29_464_985_600}, "exhausted"),
        ({"size": GB, "used": 20 * GB, "event": 12 * GB, "limit": 30 * GB, "allocated": 30 * GB}, "events"),
        ({"size": GB, "used": 28 * GB, "idle": 2 * GB, "allocated": 30 * GB}, "fragmented"),
        ({"size": GB, "used": 28 * GB, "idle": GB // 2, "allocated": 30 * GB, "limit": 30 * GB}, "fragmented"),
        ({"size": GB, "used": 29 * GB, "idle": GB, "allocated": 30 * GB, "limit": 58 * GB, "refused": True}, "refused"),
        ({"size": 2 * GB, "peak": 40 * GB, "actual": 58 * GB, "limit": 58 * GB, "total": 64 * GB}, "fragmented"),
        ({"size": 0, "reserve": True, "total": 61 * GB, "free": 3 * GB}, "occupied"),
        ({"size": 0, "reserve": True, "total": 61 * GB, "free": 60 * GB}, ""),
        ({"size": 80 * GB, "host": True}, "host"),
        ({"size": 14_400_000_000}, ""),
        ({"size": 31 * GB, "static": 11 * GB, "limit": 30 * GB, "total": 32 * GB, "whole": True}, "graph"),
        ({"size": 18 * GB, "static": 11 * GB, "limit": 30 * GB, "total": 32 * GB, "whole": True}, ""),
        ({"size": 31 * GB, "whole": True}, ""),
        ({"kv": True}, "kv"),
        ({"size": GB, "used": 57 * GB, "idle": GB, "allocated": 58 * GB}, "fragmented"),
        ({"size": 2 * GB, "used": 57 * GB, "idle": GB, "allocated": 58 * GB}, "exhausted"),
    ],
)
def test_the_numbers_of_a_failure_decide(numbers, kind):
    assert memory.kind_of(Shortage(1, "", **numbers)) == kind
