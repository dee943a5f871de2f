"""Steps, losses and learning rates that the logs of a run print, as one table over all ranks and attempts."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from doctor.scan import inputs
from doctor.scan.lazy import lazy_bytes

MAX_SOURCES = 4000
MAX_LINE = 8192
MAX_STEPS = 4_000_000

_MINDFORMERS = lazy_bytes(
    rb"Epoch:\[\s{0,12}(\d{1,9})/\s{0,12}(\d{1,9})\], step:\[\s{0,12}(\d{1,9})/\s{0,12}(\d{1,9})\],"
    rb" loss: ?\[?\s{0,12}([^,/\]\s]{1,40})"
)
_MONITOR = lazy_bytes(rb"epoch: (\d{1,9}),? step: (\d{1,9}), loss is ([^\s,]{1,40})")
_ITERATION = lazy_bytes(rb"iteration\s{1,12}(\d{1,9})/\s{0,12}(\d{1,9}) \|.{0,400}?lm loss: ?([^\s|]{1,40})")
_RATE = lazy_bytes(rb"(?:, lr: ?|learning rate: ?)([^,|\s]{1,40})")
_SCALE = lazy_bytes(rb"loss_scale: ?([^,|\s]{1,40})")
_OVERFLOW = lazy_bytes(rb"overflow cond: ?True")


class Step(NamedTuple):
    """A step as a log tells it. ``number`` counts over all epochs from 1, None if the log does not tell how many steps
    an epoch has; ``loss`` is NaN or inf where it was printed so."""

    number: int | None
    epoch: int
    in_epoch: int
    loss: float
    rate: float | None
    scale: float | None
    overflow: bool
    source: str
    line: int


class Steps(NamedTuple):
    """All that is known of the steps of a run. ``by_number`` holds the last attempt at each step."""

    by_number: dict[int, Step]
    per_epoch: int | None
    sources: int
    """logs with at least one step"""
    read: int
    last: Step | None
    bad_from: Step | None
    """the first step of the non-finite losses that last until the end"""

    @property
    def last_good(self) -> Step | None:
        """The last step whose loss was a number, before the losses stopped being one for good."""
        if self.bad_from is None or self.bad_from.number is None:
            return self.last
        below = [n for n, step in self.by_number.items() if n < self.bad_from.number and math.isfinite(step.loss)]
        return self.by_number[max(below)] if below else None


def number(text: bytes) -> float | None:
    """A number of a log, None if it is none."""
    try:
        return float(text.strip(b"[]()'\""))
    except ValueError:
        return None


def parse(line: bytes, source: str, at: int) -> tuple[Step, int | None] | None:
    """(step, steps of an epoch) of a line of MindFormers, of LossMonitor or of Megatron; None for any other line.

    Sources: formats of mindformers 1.0 to 1.9 (``core/callback/callback.py``), of ``mindspore.train.LossMonitor``, and
    of Megatron-LM's ``training_log``.
    """
    line = line[:MAX_LINE]
    per_epoch: int | None = None
    found = _MINDFORMERS.search(line)
    if found is not None:
        epoch, in_epoch, per_epoch = int(found[1]), int(found[3]), int(found[4])
        count: int | None = (epoch - 1) * per_epoch + in_epoch
        loss = number(found[5])
    else:
        found = _MONITOR.search(line)
        if found is not None:
            epoch, in_epoch, count, loss = int(found[1]), int(found[2]), None, number(found[3])
        else:
            found = _ITERATION.search(line)
            if found is None:
                return None
            epoch, in_epoch, loss = 1, int(found[1]), number(found[3])
            count = in_epoch
    if loss is None:
        return None
    rate, scale = _RATE.search(line), _SCALE.search(line)
    step = Step(count, epoch, in_epoch, loss, number(rate[1]) if rate else None, number(scale[1]) if scale else None,
                _OVERFLOW.search(line) is not None, source, at)  # fmt: skip
    return step, per_epoch


def _lines(source: inputs.Source) -> Iterator[tuple[int, bytes]]:
    """(number, line) of the lines that may hold a step; a broken stream ends there."""
    try:
        with source.open() as stream:
            at, rest = 0, b""
            while True:
                chunk = stream.read(1 << 20)
                if not chunk:
                    break
                data = rest + chunk
                if b"loss" not in data:
                    end = data.rfind(b"\n") + 1
                    at += data.count(b"\n", 0, end)
                    rest = data[end:][-MAX_LINE:]
                    continue
                pieces = data.split(b"\n")
                rest = pieces.pop()[-MAX_LINE:]
                for piece in pieces:
                    at += 1
                    if b"loss" in piece:
                        yield at, piece
            if b"loss" in rest:
                yield at + 1, rest
    except OSError:
        return


def read(paths: Sequence[str]) -> Steps:
    """The steps in all logs below some paths. Later attempts at a step count, and of the ranks of one attempt a loss
    that is not a number."""
    per_source: list[tuple[float, str, dict[int, Step]]] = []
    loose: list[list[Step]] = []
    per_epoch: int | None = None
    read_count = total = 0
    for item in inputs.expand(list(paths)):
        if not isinstance(item, inputs.Source) or read_count >= MAX_SOURCES:
            continue
        read_count += 1
        own: dict[int, Step] = {}
        free: list[Step] = []
        for at, line in _lines(item):
            made = parse(line, item.name, at)
            if made is None or total > MAX_STEPS:
                continue
            total += 1
            step, size = made
            per_epoch = size or per_epoch
            if step.number is None:
                free.append(step)
            else:
                own[step.number] = step
        if own:
            per_source.append((item.mtime or 0.0, item.name, own))
        if free:
            loose.append(free)
    if not per_source and loose:
        per_epoch, numbered = _count_epochs(loose)
        per_source = [(0.0, own[0].source, {s.number: s for s in own if s.number is not None}) for own in numbered]
    return _table(per_source, per_epoch, read_count)


def _count_epochs(loose: Sequence[Sequence[Step]]) -> tuple[int | None, list[list[Step]]]:
    """Numbers of steps whose log tells only their place in an epoch: an epoch that another one follows was whole."""
    sizes: dict[int, int] = {}
    for own in loose:
        for step in own:
            sizes[step.epoch] = max(sizes.get(step.epoch, 0), step.in_epoch)
    whole = {sizes[e] for e in sizes if e + 1 in sizes}
    first = min(sizes, default=1)
    if len(whole) == 1:
        per = whole.pop()
    elif len(sizes) == 1 and first <= 1:
        return None, [[s._replace(number=s.in_epoch) for s in own] for own in loose]
    else:
        return None, []
    return per, [[s._replace(number=(s.epoch - min(1, first)) * per + s.in_epoch) for s in own] for own in loose]


def _table(found: list[tuple[float, str, dict[int, Step]]], per_epoch: int | None, read_count: int) -> Steps:
    merged: dict[str, dict[int, Step]] = {}
    for _, name, own in sorted(found, key=lambda item: (item[0], item[1])):
        # the same log of a later attempt, in another folder, goes over the earlier one
        merged.setdefault(_stream(name), {}).update(own)
    table: dict[int, Step] = {}
    for own in merged.values():
        for n, step in own.items():
            other = table.get(n)
            if other is None or (math.isfinite(other.loss) and _tells_more(step, other)):
                table[n] = step
    last = table[max(table)] if table else None
    bad: Step | None = None
    for n in sorted(table, reverse=True):
        if math.isfinite(table[n].loss):
            break
        bad = table[n]
    return Steps(table, per_epoch, len(found), read_count, last, bad)


def _stream(name: str) -> str:
    """What the logs of one rank have in common over attempts: ``rank_3/info.log``, ``worker_3.log``."""
    folder, last = os.path.split(name)
    parent = os.path.basename(folder)
    return f"{parent}/{last}" if re.search(r"\d{1,6}$", parent) and not re.search(r"\d", last) else last


def _tells_more(step: Step, other: Step) -> bool:
    """Of two ranks' lines of a step: not a number before a number, a loss before the 0 of a stage without one."""
    return (
        not math.isfinite(step.loss)
        or (other.loss == 0.0 and step.loss != 0.0)
        or (other.rate is None and step.rate is not None and step.loss != 0.0)
    )
