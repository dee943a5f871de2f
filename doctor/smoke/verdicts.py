"""What a smoke run says: one function for each rule of kind smoke, from measurements to an outcome.

Pure: they see a ``Run`` and nothing else, so that a recorded run can be judged anywhere. No text is here; sentences
stand in the rules, and the reasons of ``unknown`` and ``not_applicable`` are codes with texts under ``smoke.why.``.
The limits were measured with MindSpore 2.10.0 on the CPU (docs/smoke.md) unless they say otherwise.
"""

from __future__ import annotations

import math
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.model import Answer, Evidence, Verdict, fail, not_applicable, passed, unknown
from doctor.smoke.settings import Settings

PARITY = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 1.5e-1}
"""Largest max |a - b| / max(1, |b|) of logits against float64. bfloat16 was not measured."""
GRADIENT = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
"""Largest relative error of the slope of the loss. bfloat16: not measured."""
MODES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}
"""Largest difference of gradients, relative to the largest gradient."""
RESUMED = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
CURVE = {"float32": 2e-2, "float16": 5e-2, "bfloat16": 2e-1}
"""Largest |a - b| / max(1, |b|) of a loss and that of the same training in float64, before training has magnified
rounding. bfloat16: not measured."""
MAGNIFIED = 10.0
"""How many times the distance of two trainings in float64 that begin apart by rounding is allowed on top."""
FALLEN = 0.5
"""The least share of the twin's fall that the loss must fall."""
SLOWER = 1.5
"""How many times the stored step time is worth a word; other jobs alone may make it more: advice only."""
LARGER = 1.25
"""The same for peak memory."""


PARTS = ("parity", "checkpoint", "decode", "weights")
"""The parts of the course beside training."""


class Event(NamedTuple):
    """One event of the worker; ``source`` and ``line`` say where it is kept."""

    row: dict[str, Any]
    source: str
    line: int
    raw: str

    @property
    def evidence(self) -> Evidence:
        """Where the event stands."""
        return Evidence(self.source, self.line, self.raw)


class Run(NamedTuple):
    """All that is known of one run.

    ``state``: ended · limit · cancelled · refused (not started, ``problem`` says why). ``code``: exit code of the
    child, minus the signal if one ended it. ``marks``: (stage, seconds since the start of the rank) of each begin.
    """

    settings: Settings
    state: str = "ended"
    problem: str = ""
    args: dict[str, str] = {}  # noqa: RUF012 - never changed
    code: int | None = 0
    measures: dict[int, dict[str, Event]] = {}  # noqa: RUF012
    steps: dict[int, list[Event]] = {}  # noqa: RUF012
    errors: tuple[Event, ...] = ()
    last: dict[int, Event] = {}  # noqa: RUF012
    started: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    seconds: float = 0.0
    marks: dict[int, list[tuple[str, float]]] = {}  # noqa: RUF012
    baseline: dict[str, float] = {}  # noqa: RUF012
    parts: tuple[str, ...] = PARTS

    def measure(self, name: str, rank: int | None = None) -> Event | None:
        """What was measured, of a rank or of the first one that has it."""
        for number in sorted(self.measures) if rank is None else [rank]:
            if name in self.measures.get(number, {}):
                return self.measures[number][name]
        return None

    @property
    def stage(self) -> str:
        """The stage that was reached: of the failing rank, else of the rank that came least far."""
        if self.errors:
            return str(self.errors[0].row["stage"])
        behind = [event for rank, event in self.last.items() if rank not in self.done]
        return str(min(behind, key=lambda e: float(e.row["t"])).row["stage"]) if behind else "start"

    @property
    def failed(self) -> bool:
        """Whether the child did not come to its end."""
        return self.state != "ended" or self.code != 0 or bool(self.errors) or not self.done


def fails(args: dict[str, Any], *events: Event) -> Answer:
    """What the rule warns of was measured."""
    return fail(args, *(event.evidence for event in events))


def well(args: dict[str, Any], *events: Event) -> Answer:
    """It was measured and is as it must be."""
    return passed(args, *(event.evidence for event in events))


def judge(good: bool, args: dict[str, Any], *events: Event) -> Answer:
    """``well`` or ``fails``."""
    return (well if good else fails)(args, *events)


def not_reached(run: Run) -> Answer:
    """The run ended before it came to this, or this was left out of it."""
    return unknown("smoke_not_reached", stage=run.stage) if run.failed else not_applicable("smoke_not_asked")


def number(value: Any) -> float:
    """A number of an event, also ``"nan"`` and ``"inf"``."""
    return float(value)


# ------------------------------------------------------------------ could it run


def work_folder(run: Run) -> Answer:
    return _refusal(run, "work_folder")


def disk_space(run: Run) -> Answer:
    for event in run.errors:
        text = str(event.row["message"])
        if "No space left on device" in text or "Errno 28" in text or "Disk quota exceeded" in text:
            return fails({"path": run.args.get("path", ""), "stage": event.row["stage"]}, event)
    return _refusal(run, "disk_full")


def mindspore_present(run: Run) -> Answer:
    return _refusal(run, "mindspore_absent")


def numpy_fits(run: Run) -> Answer:
    return _refusal(run, "numpy_too_new")


def _refusal(run: Run, problem: str) -> Answer:
    """Whether the run was refused for this reason. Reasons come in an order: behind the first none was looked at."""
    if run.problem == problem:
        seen = [f"{name} {run.args[key]}" for name, key in _SHOWN if run.args.get(key)]
        source = run.args.get("path" if problem in FOLDER else "python", "")
        return fail(dict(run.args), Evidence(source, 0, run.args.get("why") or ", ".join(seen)))
    if run.problem and REFUSALS.index(run.problem) < REFUSALS.index(problem):
        return not_reached(run)
    return passed(dict(run.args))


FOLDER = ("work_folder", "disk_full")
_SHOWN = (("Python", "python_version"), ("mindspore", "version"), ("numpy", "numpy"), ("free:", "got"))
REFUSALS = ("mindspore_absent", "numpy_too_new", *FOLDER)


def ended(run: Run) -> Answer:
    """No signal ended the child, and it said that it was done or what it failed of."""
    if run.state != "ended":
        return not_reached(run)
    told = bool(run.errors or run.done)
    if not run.errors and run.code is not None and run.code < 0:
        return fail({"signal": _signal(-run.code), "stage": run.stage}, *_last(run))
    if not told and run.code == 0:
        return fail({"signal": "", "stage": run.stage}, *_last(run))
    return well({}) if told else not_reached(run)


def in_time(run: Run) -> Answer:
    if run.state == "limit":
        return fail({"seconds": f"{run.settings.limit:.0f}", "stage": run.stage}, *_last(run))
    return not_reached(run) if run.failed else well({"seconds": f"{run.seconds:.1f}"})


def ranks_started(run: Run) -> Answer:
    if run.settings.ranks < 2:
        return not_applicable("smoke_one_rank")
    if run.state == "refused":
        return not_reached(run)
    formed = [rank for rank in run.measures if "communication" in run.measures[rank]]
    sizes = [number(run.measures[r]["communication"].row["size"]) for r in formed]
    if len(formed) == run.settings.ranks and all(size == run.settings.ranks for size in sizes):
        return well({"ranks": run.settings.ranks})
    if len(formed) == run.settings.ranks:
        return fail({"ranks": run.settings.ranks, "got": int(sizes[0])}, *_last(run))
    return fail({"ranks": run.settings.ranks, "got": len(formed)}, *_last(run))


def stages(run: Run) -> Answer:
    """No stage raised, and the child's exit code was 0."""
    if run.state == "refused":
        return not_reached(run)
    if run.errors:
        first = run.errors[0]
        return fails({"stage": first.row["stage"], "kind": first.row["type"],
                      "text": str(first.row["message"]).split("\n")[0][:160]}, first)  # fmt: skip
    if run.state == "ended" and run.code is not None and run.code > 0:
        return fail({"stage": run.stage, "kind": f"exit {run.code}", "text": ""}, *_last(run))
    return well({}) if run.done else not_reached(run)


def _last(run: Run) -> tuple[Evidence, ...]:
    """The last event of a rank that did not come to its end."""
    behind = [event for rank, event in sorted(run.last.items()) if rank not in run.done] or list(run.last.values())
    if not behind:
        return (Evidence(run.args.get("python", "worker"), 0, f"exit code {run.code}"),)
    return (behind[0].evidence,)


def _signal(number: int) -> str:
    """``9 (SIGKILL)``."""
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)


def device(run: Run) -> Answer:
    """An NPU that is there is used."""
    event = run.measure("device")
    if event is None:
        return not_reached(run)
    args = {"device": event.row["device"], "why": event.row["why"]}
    if event.row["why"] == "ascend_failed":
        return fails(args, event)
    if event.row["device"] == "CPU":
        return not_applicable("smoke_npu_" + str(event.row["why"]))
    return well(args, event)


# ------------------------------------------------------------------ ranks


NEEDED = ("AllReduce", "AllGather", "Broadcast")


def collectives(run: Run) -> Answer:
    if run.settings.ranks < 2:
        return not_applicable("smoke_one_rank")
    seen = [e for rank in sorted(run.measures) for n, e in run.measures[rank].items() if n.startswith("collective.")]
    if not seen:
        return not_reached(run)
    bad = [e for e in seen if e.row["state"] == "wrong" or (e.row["state"] == "failed" and _must_work(e))]
    if bad:
        first = bad[0]
        return fails({"name": first.row["kind"], "state": first.row["state"], "text": first.row["text"],
                      "rank": first.row["rank"]}, *bad[:3])  # fmt: skip
    right = sorted({str(e.row["kind"]) for e in seen if e.row["state"] == "right"})
    lacking = sorted({str(e.row["kind"]) for e in seen if e.row["state"] == "failed"})
    return well({"names": right, "lacking": lacking}, *seen[:1])


def _must_work(event: Event) -> bool:
    """The CPU has no ReduceScatter and AllToAll; everything else has."""
    return event.row["kind"] in NEEDED or event.row["device"] != "CPU"


def ranks_equal(run: Run) -> Answer:
    if run.settings.ranks < 2:
        return not_applicable("smoke_one_rank")
    event = run.measure("ranks")
    if event is None:
        return not_reached(run)
    spread = number(event.row["spread"])
    return judge(spread == 0.0, {"spread": spread, "ranks": event.row["size"]}, event)


# ------------------------------------------------------------------ training


def losses(run: Run, rank: int) -> list[float]:
    """The losses of a rank in order of steps."""
    return [number(event.row["loss"]) for event in run.steps.get(rank, [])]


def loss_finite(run: Run) -> Answer:
    if not run.steps:
        return not_reached(run)
    for rank in sorted(run.steps):
        for event in run.steps[rank]:
            skipped = event.row.get("finite") is False
            if not math.isfinite(number(event.row["loss"])) and not skipped:
                return fails({"step": event.row["n"], "loss": event.row["loss"], "rank": rank}, event)
    first = min(run.steps)
    return well({"steps": len(run.steps[first])}, run.steps[first][-1])


def weights_dtype(run: Run) -> Answer:
    event = run.measure("model")
    if event is None:
        return not_reached(run)
    args = {"dtypes": event.row["dtypes"], "optimizer": event.row["optimizer"]}
    return judge("Adam" not in event.row["optimizer"] or "float16" not in event.row["dtypes"], args, event)


def parameters_changed(run: Run) -> Answer:
    event = run.measure("changed")
    if event is None:
        return not_reached(run)
    row = event.row
    args = {"still": row["still_count"], "tensors": row["tensors"], "names": row["still"][:4]}
    return judge(row["still_count"] == 0, args, event)


def update_size(run: Run) -> Answer:
    """The first update is no longer than the optimizer's rule allows; twice it, for rounding and clipping."""
    event = run.measure("changed")
    if event is None:
        return not_reached(run)
    moved, bound = number(event.row["moved"]), number(event.row["bound"])
    ratio = moved / bound if bound > 0 else math.inf
    args = {"moved": moved, "bound": bound, "ratio": ratio, "optimizer": event.row["optimizer"]}
    return judge(ratio <= 2.0, args, event)


def updates_skipped(run: Run) -> Answer:
    """No overflow at a loss scale that was not raised: one after a raise is how the scale is found."""
    model = run.measure("model")
    if model is None:
        return not_reached(run)
    if not model.row["scaled"]:
        return not_applicable("smoke_no_loss_scale")
    rows = [e for e in run.steps.get(min(run.steps, default=0), []) if "scale" in e.row]
    if not rows:
        return not_reached(run)
    start = 2.0**15
    bad, before = [], start
    for event in rows:
        if event.row["finite"] is False and before <= start:
            bad.append(event)
        before = number(event.row["scale"])
    if not bad:
        return well({"scale": f"{before:g}"}, rows[-1])
    steps = [e.row["n"] for e in bad[:6]]
    return fails({"times": len(bad), "steps": steps, "scale": f"{number(bad[-1].row['scale']):g}"}, *bad[:3])


def loss_halved(run: Run) -> Answer:
    """With the default shapes the loss falls below half; with others it must at least fall by a tenth. A training that
    was also done in numpy is judged by that one alone."""
    if run.settings.curve:
        return not_applicable("smoke_curve_judges")
    if not run.steps or (run.failed and len(run.steps[min(run.steps)]) < run.settings.training_steps):
        return not_reached(run)
    plain = Settings()
    usual = all(getattr(run.settings, name) == getattr(plain, name) for name in SHAPES)
    share = 0.5 if usual and run.settings.training_steps >= 20 else 0.9
    answers = []
    for rank in sorted(run.steps):
        found = losses(run, rank)
        args = {"first": found[0], "loss": found[-1], "steps": len(found), "share": share}
        answers.append(judge(found[-1] < share * found[0], args, run.steps[rank][-1]))
    return next((a for a in answers if a.verdict is Verdict.FAIL), answers[0])


SHAPES = ("layers", "hidden", "heads", "seq", "batch", "vocab", "dropout", "clip", "rate", "kv_heads", "head_dim",
          "ffn", "gated", "norm", "activation", "untied", "optimizer", "beta1", "beta2", "decay")  # fmt: skip
"""Settings on which the speed of learning depends."""


def loss_follows_twin(run: Run) -> Answer:
    """The losses are those of the same training in numpy, as closely as rounding allows, and fall about as far; with
    dropout, which is drawn, only the latter is asked."""
    event = run.measure("curve")
    if event is None:
        return not_reached(run) if run.settings.curve else not_applicable("smoke_no_curve")
    row = event.row
    found, wanted = [number(x) for x in row["losses"]], [number(x) for x in row["twin"]]
    if not found:
        return not_applicable("smoke_no_curve")
    args: dict[str, Any] = {"loss": found[-1], "twin": wanted[-1], "steps": len(found), "dtype": row["dtype"]}
    fall, should = _end(found), _end(wanted)
    # what falls less than the noise of a batch tells nothing either way
    fallen = math.isfinite(fall) and (fall >= FALLEN * should or should < 0.1)
    if number(row["dropout"]) > 0:
        args |= {"distance": abs(found[-1] - wanted[-1]), "limit": (1.0 - FALLEN) * should, "step": row["steps"][-1]}
        return judge(fallen, args, event)
    # how far each loss is apart, and how far it may be
    apart: list[tuple[float, float, int]] = []
    widest = 0.0
    for step, a, b, spread in zip(row["steps"], found, wanted, row["spread"], strict=True):
        widest = max(widest, number(spread))
        size = max(1.0, abs(b))
        apart.append((abs(a - b) / size if math.isfinite(a) else math.inf,
                      CURVE[row["dtype"]] + MAGNIFIED * widest / size, step))  # fmt: skip
    distance, limit, step = max(apart, key=lambda one: one[0] / one[1])
    args |= {"distance": distance, "limit": limit, "step": step}
    return judge(fallen and distance <= limit, args, event)


def _end(values: list[float]) -> float:
    """How far losses fell: the first one less the mean of the last three."""
    last = values[-3:]
    return values[0] - sum(last) / len(last)


def fresh_loss(run: Run) -> Answer:
    event = run.measure("fresh")
    if event is None:
        return not_reached(run)
    found, limit = number(event.row["loss"]), number(event.row["limit"])
    curve = run.measure("curve")
    if curve is not None:
        # a small learning rate leaves the same training in numpy there too
        limit = max(limit, number(curve.row["fresh"]) + CURVE[curve.row["dtype"]])
    trained = losses(run, min(run.steps, default=0))
    args = {"loss": found, "limit": limit, "trained": trained[-1] if trained else ""}
    return judge(found < limit, args, event)


# ------------------------------------------------------------------ numbers


def _within(
    run: Run, name: str, field: str, limits: dict[str, float], part: str, why: str = "smoke_not_asked", **more: Any
) -> Answer:
    """A distance within its limit; ``why`` it may not have been measured though its part was asked for."""
    event = run.measure(name)
    if event is None and part not in run.parts:
        return not_applicable("smoke_not_asked")
    if event is None:
        return unknown("smoke_not_reached", stage=run.stage) if run.failed else not_applicable(why)
    found, limit = number(event.row[field]), limits[event.row["dtype"]] * _grown(run.settings)
    args = {"distance": found, "limit": limit, "dtype": event.row["dtype"], **more}
    args.update({key: event.row[key] for key in ("kind", "tokens", "file", "left_count") if key in event.row})
    return judge(found <= limit, args, event)


def _grown(settings: Settings) -> float:
    """How much more rounding is allowed than with the default shapes: sums and the chain of layers get longer.

    Measured: 3.4e-6 with hidden 256, 1.1e-5 with hidden 768 (float32, 2 layers); 8.0e-6 with a gate, whose two factors
    both carry rounding.
    """
    plain = Settings()
    widest = max(settings.hidden, settings.size * settings.heads, settings.inner / 4)
    gate = 2.0 if settings.gated else 1.0
    return max(1.0, widest / plain.hidden) * max(1.0, settings.layers / plain.layers) * gate


def parity(run: Run) -> Answer:
    return _within(run, "parity", "distance", PARITY, "parity")


def gradient(run: Run) -> Answer:
    return _within(run, "gradient", "error", GRADIENT, "parity", "smoke_no_gradient_check")


def flash(run: Run) -> Answer:
    return _within(run, "flash", "distance", {**PARITY, "float32": 1e-2}, "parity", "smoke_no_flash")


def modes(run: Run) -> Answer:
    return _within(run, "modes", "gradient", MODES, "parity", "smoke_no_gradient_check")


def recompute(run: Run) -> Answer:
    return _within(run, "recompute", "gradient", MODES, "parity", "smoke_no_recompute")


def cache(run: Run) -> Answer:
    event = run.measure("cache")
    wasted = f"{100 * number(event.row['wasted']):.0f}" if event is not None else ""
    return _within(run, "cache", "distance", PARITY, "decode", wasted=wasted)


def resumed(run: Run) -> Answer:
    event = run.measure("resumed")
    if event is None and "checkpoint" not in run.parts:
        return not_applicable("smoke_not_asked")
    if event is None:
        return not_reached(run)
    found, limit = number(event.row["distance"]), RESUMED[event.row["dtype"]]
    missing = list(event.row["missing"])
    args = {"distance": found, "limit": limit, "weights": number(event.row["weights"]), "names": missing[:4]}
    # with dropout the steps cannot be repeated; what was loaded still must be what was saved
    same = found <= limit or run.settings.dropout > 0
    return judge(same and not missing and number(event.row["weights"]) == 0.0, args, event)


def mapping(run: Run) -> Answer:
    event = run.measure("mapping")
    if event is not None and event.row["left_count"]:
        args = {"distance": number(event.row["distance"]), "names": event.row["left"][:4], "file": event.row["file"],
                "limit": "0"}  # fmt: skip
        return fails(args, event)
    return _within(run, "mapping", "distance", PARITY, "weights", "smoke_no_mapping", names="")


# ------------------------------------------------------------------ speed and memory


def recompiled(run: Run) -> Answer:
    """After the first step no new length comes, or new ones cost no compilation."""
    rows = run.steps.get(min(run.steps, default=0), [])
    if len(rows) < 4:
        return not_reached(run)
    lengths: set[int] = {int(rows[0].row["length"])}
    known: list[Event] = []
    new: list[Event] = []
    for event in rows[1:]:
        (known if event.row["length"] in lengths else new).append(event)
        lengths.add(int(event.row["length"]))
    usual = sorted(number(e.row["seconds"]) for e in known)
    middle = usual[len(usual) // 2] if usual else 0.0
    slow = [e for e in new if number(e.row["seconds"]) > 3 * middle]
    args = {"times": len(slow), "usual": middle, "lengths": len(lengths)}
    if slow:
        args["seconds"] = max(number(e.row["seconds"]) for e in slow)
        return fails(args, *slow[:3])
    return well(args, rows[-1])


def step_seconds(run: Run) -> float | None:
    """Median seconds of a step without the first two."""
    rows = sorted(number(e.row["seconds"]) for e in run.steps.get(min(run.steps, default=0), [])[2:])
    return rows[len(rows) // 2] if rows else None


def figures(run: Run) -> dict[str, float]:
    """Times in seconds and memory in MiB that a baseline holds."""
    out: dict[str, float] = {}
    middle = step_seconds(run)
    if middle is not None:
        out["step_seconds"] = middle
    for name, measure, field in (
        ("compile_seconds", "gradient_compile", "seconds"), ("import_seconds", "versions", "seconds"),
        ("host_mib", "memory", "host_mib"), ("device_mib", "memory", "device_mib"),
    ):  # fmt: skip
        event = run.measure(measure)
        if event is not None and field in event.row:
            out[name] = number(event.row[field])
    return out


def _against_baseline(run: Run, name: str, times: float) -> Answer:
    if run.failed:
        return not_reached(run)
    if not run.baseline:
        return not_applicable("smoke_no_baseline")
    now, before = figures(run).get(name), run.baseline.get(name)
    if now is None or not before:
        return not_applicable("smoke_no_baseline")
    event = run.steps[min(run.steps)][-1] if name == "step_seconds" else run.measure("memory")
    args = {"got": now, "expected": before, "ratio": f"{now / before:.2f}"}
    return judge(now <= times * before, args, *([event] if event else []))


def speed(run: Run) -> Answer:
    return _against_baseline(run, "step_seconds", SLOWER)


def memory(run: Run) -> Answer:
    name = "device_mib" if "device_mib" in run.baseline else "host_mib"
    return _against_baseline(run, name, LARGER)


ORDER: tuple[Callable[[Run], Answer], ...] = (
    mindspore_present, numpy_fits, work_folder, disk_space, ended, in_time, ranks_started, stages, device, collectives,
    weights_dtype, loss_finite, parameters_changed, update_size, updates_skipped, loss_halved, loss_follows_twin,
    fresh_loss, parity, gradient, flash, modes, recompute, cache, resumed, mapping, ranks_equal, recompiled, speed,
    memory,
)  # fmt: skip
"""Every verdict, in the order in which they are told."""

VERDICTS: dict[str, Callable[[Run], Answer]] = {function.__name__: function for function in ORDER}
