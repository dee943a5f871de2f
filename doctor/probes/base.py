"""Probes: from a host's raw answers to facts, all at once where they do not need each other."""

from __future__ import annotations

import importlib
import pkgutil
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from doctor.hosts.base import Host
from doctor.model import Fact, Unknown

Facts = Mapping[str, Fact | Unknown]


class Probe(NamedTuple):
    """``read`` asks the host and answers every name of ``gives``; ``needs`` are facts of other probes that it gets.
    After ``limit`` seconds its facts are unknown and the rest goes on."""

    name: str
    group: str
    read: Callable[[Host, Facts], Sequence[Fact | Unknown]]
    gives: tuple[str, ...]
    needs: tuple[str, ...] = ()
    limit: float = 30.0


class Done(NamedTuple):
    """A probe that has answered."""

    probe: Probe
    facts: dict[str, Fact | Unknown]
    seconds: float


def all_probes() -> list[Probe]:
    """Every probe of this package."""
    import doctor.probes as package

    found: list[Probe] = []
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "base" and not module.name.startswith("pasted"):
            found += getattr(importlib.import_module(f"doctor.probes.{module.name}"), "PROBES", ())
    return found


def wanted(probes: Iterable[Probe], names: Iterable[str]) -> list[Probe]:
    """The probes that give ``names``, and those they need in turn."""
    giver = {name: probe for probe in probes for name in probe.gives}
    chosen: dict[str, Probe] = {}
    pending = list(names)
    while pending:
        probe = giver.get(pending.pop())
        if probe is not None and probe.name not in chosen:
            chosen[probe.name] = probe
            pending += probe.needs
    return list(chosen.values())


def _answer(probe: Probe, host: Host, facts: Facts) -> dict[str, Fact | Unknown]:
    try:
        got = {fact.name: fact for fact in probe.read(host, facts)}
    except Exception as error:  # one probe's own mistake must not end the others
        what = f"{type(error).__name__}: {error}"[:200]
        return {name: Unknown(name, "crashed", args={"what": what}) for name in probe.gives}
    return {name: got.get(name, Unknown(name, "not_understood")) for name in probe.gives}


def run(
    host: Host, probes: Sequence[Probe], known: Facts | None = None, cancelled: Callable[[], bool] = lambda: False,
    begun: Callable[[Probe], None] = lambda _probe: None,
) -> Iterator[Done]:  # fmt: skip
    """Ask all probes, each as soon as what it needs is there; yields each one as it ends.

    On a host that is live every probe has a thread: they wait for commands, not for each other. A thread that outlives
    its limit is left behind (it may hang in the kernel) and its facts are unknown. ``begun`` is told of each start.
    """
    facts: dict[str, Fact | Unknown] = dict(known or {})
    giver = {name: probe.name for probe in probes for name in probe.gives}
    by_name = {probe.name: probe for probe in probes}
    order: TopologicalSorter[str] = TopologicalSorter(
        {probe.name: [giver[n] for n in probe.needs if n in giver and giver[n] != probe.name] for probe in probes}
    )
    try:
        order.prepare()
    except CycleError as error:
        raise ValueError(f"probes need each other: {error.args[1]}") from None
    answers: queue.SimpleQueue[Done] = queue.SimpleQueue()
    running: dict[str, float] = {}

    def work(probe: Probe, known_now: dict[str, Fact | Unknown]) -> None:
        began = time.monotonic()
        answers.put(Done(probe, _answer(probe, host, known_now), time.monotonic() - began))

    while order.is_active() and not cancelled():
        for name in order.get_ready():
            probe = by_name[name]
            begun(probe)
            running[name] = time.monotonic() + probe.limit
            if host.live:
                threading.Thread(target=work, args=(probe, dict(facts)), name=name, daemon=True).start()
            else:
                work(probe, facts)
        done = _next(answers, by_name, running)
        if done is None or done.probe.name not in running:
            continue
        del running[done.probe.name]
        facts.update(done.facts)
        order.done(done.probe.name)
        yield done


def _next(answers: queue.SimpleQueue[Done], probes: Mapping[str, Probe], running: Mapping[str, float]) -> Done | None:
    """The next answer; a probe whose time is up answers that; None when a tenth of a second passed without either."""
    try:
        return answers.get(timeout=0.1)
    except queue.Empty:
        now = time.monotonic()
        late = next((probes[name] for name, end in running.items() if now > end), None)
        if late is None:
            return None
        gone: dict[str, Fact | Unknown] = {
            n: Unknown(n, "timeout", "", {"seconds": f"{late.limit:g}"}) for n in late.gives
        }
        return Done(late, gone, late.limit)
