"""A run that grows while it is watched."""

import random
from pathlib import Path

from doctor.watch import Options, Watcher

OOM = (
    "[ERROR] DEVICE(7,7f00,python):2026-03-18-09:02:00.100.200 [mindspore/ccsrc/a.cc:9] Run] Memory not enough: "
    "device(id:0) memory isn't enough and alloc failed, kernel name: MatMul-op1, alloc size: 6442450944B.\n"
)
UNKNOWN = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nRuntimeError: an odd thing 7\n'


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def step(number, loss=None, ms=100, total=0):
    """A training line."""
    loss = round(1 + 3 * 0.98**number, 5) if loss is None else loss
    of = f"/{total}" if total else ""
    return f"step: {number}{of}, loss: {loss}, lr: 1e-5, per_step_time: {ms}ms, global_norm: 1.5\n"


def steps(first, last, **values):
    return "".join(step(n, **values) for n in range(first, last + 1))


class Run:
    """A folder of logs."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def write(self, name, text, mode="a"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, mode + "b") as file:
            file.write(text if isinstance(text, bytes) else text.encode())

    def log(self, rank, text):
        self.write(f"worker_{rank}.log", text)

    def watch(self, *inputs, **options):
        return Watcher([str(self.folder), *inputs], Options(**options))


def all_read(watcher, most=200):
    """Poll until nothing is left to read; every event so far."""
    events = watcher.poll()
    for _ in range(most):
        if watcher.caught_up and not watcher.behind:
            return events
        events += watcher.poll()
    raise AssertionError("it never catches up")


def kinds(events):
    return [event.kind if event.alarm is None else f"{event.kind} {event.alarm.rule}" for event in events]


def alarms(events):
    return [event for event in events if event.alarm is not None]


def plain_report(report):
    """A report as data, without the times it took."""
    from doctor.render.json import report_dict

    data = report_dict(report)
    del data["timings"]
    return data


def pieces(data, seed, most=3000):
    """A text in random pieces, which end within lines and characters."""
    chance = random.Random(seed)
    at = 0
    while at < len(data):
        size = chance.choice((1, 7, 90, most))
        yield data[at : at + size]
        at += size
