"""The checks of a machine as they run: what the home screen and the machine screen both show.

Everything here is called by the screen's own thread, but for :meth:`Checking.work` and :meth:`Checking.again`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from doctor import checkup
from doctor.hosts.base import Host
from doctor.model import Fact, Finding, Report, Unknown
from doctor.rulebase import RuleBase


class Row(NamedTuple):
    """A check in the list: its finding, or, while it has not answered, whether its facts are being asked for."""

    id: str
    finding: Finding | None
    spec: checkup.Spec | None = None
    running: bool = False


class Checking:
    """One run over one machine; ``host`` makes it, ``name`` is what the user calls it (empty: this machine)."""

    def __init__(self, host: Callable[[], Host], name: str = "") -> None:
        self.host, self.name = host, name
        self.cancel = threading.Event()
        self._one = threading.Event()
        self.run: checkup.Checkup | None = None
        self.findings: list[Finding] = []
        self.report: Report | None = None
        self.error = ""
        self.done = self.total = 0
        self.working = True
        self.repeated = ""
        """the check that is being run anew"""

    def work(self, base: RuleBase) -> Iterator[checkup.Step | Report]:
        """Run everything, in a thread: the steps as they come, the report at the end."""
        run = checkup.Checkup(self.host(), checkup.Options(cancelled=self.cancel.is_set), base)
        self.run = run
        yield from run.steps()
        yield run.report()

    def stop(self) -> None:
        """Ask what runs to end."""
        (self._one if self.repeated else self.cancel).set()

    @property
    def stopping(self) -> bool:
        """Whether what runs was asked to end."""
        return self.working and (self._one if self.repeated else self.cancel).is_set()

    def repeat(self, rule: str) -> None:
        """One check will be run anew."""
        self.working, self.repeated, self._one = True, rule, threading.Event()

    def again(self, rule: str, base: RuleBase) -> Report:
        """Run one check anew, in a thread; the report is that of the whole run with the new answer in it."""
        run, cancel = self.run, self._one
        if run is None:
            raise ValueError("nothing ran yet")
        one = checkup.Checkup(self.host(), checkup.Options(only=(rule,), cancelled=cancel.is_set), base)
        for _ in one.steps():
            pass
        if not cancel.is_set():
            run.renew(one)
        return run.report()

    def told(self, step: checkup.Step) -> None:
        """Some checks have answered."""
        self.findings += step.findings
        self.done, self.total = step.done, step.total

    def ended(self, report: Report | None, error: str = "") -> None:
        """The run is over."""
        self.working, self.repeated = False, ""
        self.error = error
        if report is not None:
            self.report, self.findings = report, list(report.findings)

    def rows(self) -> list[Row]:
        """What has answered, then what has not."""
        rows = [Row(finding.id, finding) for finding in self.findings]
        run = self.run
        if run is not None and (self.working or self.cancel.is_set()) and not self.repeated:
            answered = {finding.id for finding in self.findings}
            rows += [
                Row(spec.rule.id, None, spec, self.working and run.running(spec))
                for spec in run.waiting if spec.rule.id not in answered
            ]  # fmt: skip
        return rows

    def value(self, name: str) -> Any:
        """A fact as plain data, also while others are still asked for; None if it is not known."""
        fact = self.run.facts.get(name) if self.run is not None else None
        return checkup.plain(fact.value) if isinstance(fact, Fact) else None

    def no_npu(self) -> bool:
        """Whether it is known that this machine has none."""
        fact = self.run.facts.get("npu.table") if self.run is not None else None
        return isinstance(fact, Unknown) and fact.why == "no_npu"
