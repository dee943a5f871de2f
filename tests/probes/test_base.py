"""Probes: order, failures of their own, and time limits."""

from __future__ import annotations

import threading
import time

import pytest

from doctor.hosts.base import MemoryHost
from doctor.model import Fact, Unknown
from doctor.probes.base import Probe, all_probes, run, wanted


def answer(name: str, value: object = 1, wait: float = 0.0):  # type: ignore[no-untyped-def]
    def read(host: object, facts: object) -> list[Fact]:
        time.sleep(wait)
        return [Fact(name, value)]

    return read


def host(live: bool) -> MemoryHost:
    found = MemoryHost({}, "h")
    found.live = live  # type: ignore[misc]
    return found


@pytest.mark.parametrize("live", [False, True])
def test_a_probe_gets_what_it_needs(live: bool) -> None:
    def doubled(_: object, facts: dict[str, Fact]) -> list[Fact]:
        return [Fact("b", facts["a"].value * 2)]

    probes = [Probe("second", "env", doubled, ("b",), ("a",)), Probe("first", "env", answer("a", 21), ("a",))]  # type: ignore[arg-type]
    done = list(run(host(live), probes))
    assert [d.probe.name for d in done] == ["first", "second"]
    assert done[1].facts["b"].value == 42  # type: ignore[union-attr]


def test_probes_of_a_live_host_do_not_wait_for_each_other() -> None:
    probes = [Probe(f"p{n}", "env", answer(f"f{n}", wait=1.0), (f"f{n}",)) for n in range(6)]
    began = time.monotonic()
    assert len(list(run(host(True), probes))) == 6
    assert time.monotonic() - began < 5  # one after the other they would take six


def test_a_probe_whose_time_is_up_is_unknown_and_the_rest_goes_on() -> None:
    hang = threading.Event()

    def stuck(*_: object) -> list[Fact]:
        hang.wait(30)
        return []

    probes = [Probe("stuck", "npu", stuck, ("a",), limit=0.3), Probe("after", "npu", answer("b"), ("b",), ("a",))]
    facts = {k: v for d in run(host(True), probes) for k, v in d.facts.items()}
    hang.set()
    assert isinstance(facts["a"], Unknown) and facts["a"].why == "timeout" and facts["a"].args == {"seconds": "0.3"}
    assert isinstance(facts["b"], Fact)


def test_a_probe_that_fails_is_unknown_and_says_why() -> None:
    def broken(*_: object) -> list[Fact]:
        raise KeyError("x")

    facts = next(run(host(False), [Probe("p", "env", broken, ("a", "b"))])).facts
    assert {f.why for f in facts.values()} == {"crashed"}  # type: ignore[union-attr]


def test_a_fact_that_a_probe_forgets_is_unknown() -> None:
    facts = next(run(host(False), [Probe("p", "env", answer("a"), ("a", "b"))])).facts
    assert isinstance(facts["a"], Fact) and isinstance(facts["b"], Unknown)


def test_probes_that_need_each_other_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="need each other"):
        list(
            run(
                host(False),
                [Probe("p", "env", answer("a"), ("a",), ("b",)), Probe("q", "env", answer("b"), ("b",), ("a",))],
            )
        )


def test_nothing_more_is_asked_once_cancelled() -> None:
    assert list(run(host(True), [Probe("p", "env", answer("a"), ("a",))], cancelled=lambda: True)) == []


def test_only_what_is_wanted_and_what_it_needs_is_asked() -> None:
    a, b, c = (Probe(n, "env", answer(n), (n,), needs) for n, needs in (("a", ()), ("b", ("a",)), ("c", ())))
    assert {p.name for p in wanted([a, b, c], ["b"])} == {"a", "b"}
    assert wanted([a, b, c], ["unknown"]) == []


def test_every_fact_has_one_probe_and_every_need_a_giver() -> None:
    probes = all_probes()
    given = [name for probe in probes for name in probe.gives]
    assert len(given) == len(set(given))
    assert {need for probe in probes for need in probe.needs} <= set(given)


def test_every_probe_answers_on_a_host_where_nothing_exists() -> None:
    for absent in (True, False):
        for done in run(MemoryHost({}, absent=absent), all_probes()):
            crashed = {n: f.args for n, f in done.facts.items() if isinstance(f, Unknown) and f.why == "crashed"}
            assert not crashed, (done.probe.name, crashed)
