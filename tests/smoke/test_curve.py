"""Gradients of the twin against differences, its optimizers against their formulas, and the verdict over its curve."""

import itertools
import math
from types import SimpleNamespace

import pytest

numpy = pytest.importorskip("numpy")

from doctor.model import Verdict  # noqa: E402
from doctor.smoke import curve, twin, verdicts  # noqa: E402
from doctor.smoke.compose import example  # noqa: E402
from doctor.smoke.settings import Settings  # noqa: E402

BASE = {"vocab": 37, "hidden": 24, "layers": 2, "heads": 3, "length": 12, "epsilon": 1e-5, "size": 10, "inner": 40}
NAMES = ("positions", "gelu", "norm", "activation", "gated", "kv_heads", "tied")
KINDS = [
    dict(zip(NAMES, row, strict=True))
    for row in (
        ("learned", "tanh", "layer", "gelu", False, 3, True), ("rope", "erf", "rms", "silu", True, 1, False),
        ("rope", "tanh", "layer", "relu", True, 3, True), ("learned", "erf", "rms", "gelu", False, 1, False),
    )
]  # fmt: skip


def parts(kind, seed=1):
    shape = SimpleNamespace(**BASE, **kind)
    weights = {n: v.astype(float) for n, v in twin.random_weights(shape, seed, std=0.2, offset=0.1).items()}
    rng = numpy.random.default_rng(seed)
    return shape, weights, rng.integers(0, 37, (2, 12)), rng.integers(0, 37, (2, 12))


@pytest.mark.parametrize("kind", KINDS)
def test_every_gradient_is_the_slope_of_the_loss(kind):
    shape, weights, ids, labels = parts(kind)
    loss, found = curve.gradients(ids, labels, weights, shape)
    assert loss == pytest.approx(twin.loss(ids, labels, weights, shape), abs=1e-12)
    assert set(found) == set(weights) == set(twin.sizes(shape))
    rng = numpy.random.default_rng(5)
    for name in weights:
        way = {n: rng.standard_normal(v.shape) if n == name else 0.0 for n, v in weights.items()}
        slope = twin.slope(ids, labels, weights, shape, way, 1e-5)
        assert float((found[name] * way[name]).sum()) == pytest.approx(slope, rel=2e-5, abs=1e-8), name


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_sees_a_later_one(kind):
    shape, weights, ids, _ = parts(kind)
    before, _ = twin.logits(ids, weights, shape)
    ids[:, 7:] = (ids[:, 7:] + 1) % 37
    after, _ = twin.logits(ids, weights, shape)
    assert numpy.array_equal(before[:, :7], after[:, :7])
    assert not numpy.allclose(before[:, 7:], after[:, 7:])


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_training_learns_and_clips(optimizer):
    shape, weights, _, _ = parts(KINDS[1])
    settings = Settings(optimizer=optimizer, rate=0.5 if optimizer == "sgd" else 3e-3, clip=1.0)
    trained = curve.Training(weights, shape, settings)
    data = twin.batches(37, 4, 12, 7, 0)
    losses = [trained.step([next(data)]) for _ in range(60)]
    assert losses[-1] < 0.7 * losses[0]
    kept = {n: v.copy() for n, v in trained.weights.items()}
    trained.step([next(data)], False)
    assert all(numpy.array_equal(kept[n], v) for n, v in trained.weights.items()), "a skipped step changes nothing"


def test_first_steps_are_as_long_as_their_formulas_say():
    shape, weights, ids, labels = parts(KINDS[0])
    for optimizer, length in (("adamw", 0.1 / math.sqrt(0.001)), ("adam", 1.0)):
        trained = curve.Training(weights, shape, Settings(optimizer=optimizer, decay=0.0, adam_epsilon=1e-12, clip=0.0))
        trained.step([(ids, labels)])
        moved = max(numpy.abs(trained.weights[n] - weights[n]).max() for n in weights)
        assert moved == pytest.approx(1e-3 * length, rel=1e-6)


def test_ranks_share_their_gradients():
    shape, weights, ids, labels = parts(KINDS[0])
    one, two = (curve.Training(weights, shape, Settings()) for _ in range(2))
    one.step([(ids, labels)])
    two.step([(ids[:1], labels[:1]), (ids[1:], labels[1:])])
    assert all(numpy.allclose(one.weights[n], two.weights[n], atol=1e-12) for n in weights)


def verdict(losses, wanted, spread=(0.0,), dropout=0.0, dtype="float32", fresh=1.0):
    spreads = list(itertools.islice(itertools.cycle(spread), len(losses)))
    rows = {"steps": list(range(1, len(losses) + 1)), "losses": losses, "twin": wanted, "fresh": fresh,
            "spread": spreads, "dropout": dropout, "dtype": dtype}  # fmt: skip
    run = example({"settings": {"curve": True}, "measure": {f"curve.{k}": v for k, v in rows.items()}})
    return verdicts.loss_follows_twin(run), run


@pytest.mark.parametrize(
    ("losses", "more", "good"),
    [
        ([6.0, 5.0, 4.0, 3.0], {}, True),
        ([6.0, 5.0, 4.0, 3.1], {}, False),
        ([6.0, 5.0, 4.0, 3.1], {"spread": (0.02,)}, True),
        ([6.0, 5.0, 4.0, 3.1], {"dtype": "float16"}, True),
        ([6.0, 6.0, 6.0, 6.0], {"spread": (1.0,)}, False),
        ([6.0, 5.5, 5.0, 3.5], {"dropout": 0.1}, True),
        ([6.0, 6.0, 6.0, 5.9], {"dropout": 0.1}, False),
        ([6.0, 5.0, "nan", "nan"], {}, False),
        ([6.0, 5.0, "nan", "nan"], {"dropout": 0.1}, False),
    ],
)
def test_the_verdict(losses, more, good):
    answer, run = verdict(losses, [6.0, 5.0, 4.0, 3.0], **more)
    assert (answer.verdict is Verdict.PASS) is good
    assert verdicts.loss_halved(run).verdict is Verdict.NOT_APPLICABLE


def test_a_small_rate_that_falls_nowhere_is_no_fault():
    flat = [6.24, 6.24, 6.239, 6.238]
    answer, run = verdict(flat, flat, fresh=6.25)
    assert answer.verdict is Verdict.PASS
    run = example({"settings": {"curve": True}, "measure": {"fresh.loss": 6.245, "curve.fresh": 6.25}})
    assert verdicts.fresh_loss(run).verdict is Verdict.PASS
    run = example({"settings": {"curve": True}, "measure": {"fresh.loss": 9.0, "curve.fresh": 6.25}})
    assert verdicts.fresh_loss(run).verdict is Verdict.FAIL


def test_a_run_without_a_curve():
    assert verdicts.loss_follows_twin(example({})).verdict is Verdict.NOT_APPLICABLE
    cut = example({"settings": {"curve": True}, "until": "train", "code": -9})
    assert verdicts.loss_follows_twin(cut).verdict is Verdict.UNKNOWN
