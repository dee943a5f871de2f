"""What was told already. An alarm is told once; again only when it gets worse or comes back with something new."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from doctor.culprit import CYCLE, GONE
from doctor.model import SEVERITIES, Diagnosis, Evidence, Report, Text
from doctor.ranking import UNRECOGNISED

WORDLESS = frozenset((UNRECOGNISED, CYCLE, *GONE.values()))
SETTLES = 3.0
"""Seconds for which a failure that no line names must stand: the line may still be on its way."""
YOUNG = 60.0
"""Seconds for which a judgement on a loss curve of few points must stand: the next points often take it back."""
AGAIN = 60.0
"""Seconds for which an alarm must have been over before it is told once more."""
STALL, SILENT = OWN = ("watch:stall", "watch:silent")
"""The alarms that no line reports: no rank writes steps, and some do not while others go on."""


class Alarm:
    """A trouble that was told. ``state``: active · recovered (the rank went on) · over (no longer found, or steps come
    again) · explained (by the alarm ``by``, found later)."""

    def __init__(self, rule: str, at: float, old: bool) -> None:
        self.rule, self.at, self.old = rule, at, old
        self.severity, self.topic = "error", ""
        self.title: Text = {}
        self.cause: Text = {}
        self.next: Text = {}
        self.ranks: tuple[int, ...] = ()
        self.evidence: tuple[Evidence, ...] = ()
        self.state = "active"
        self.by = ""
        self.consequences = 0
        self.times = 1
        self.changed = at
        self.told_ranks = 0

    @property
    def where(self) -> str:
        """``file:line`` of the evidence, the file alone where no line speaks of it."""
        if not self.evidence:
            return ""
        first = self.evidence[0]
        return f"{first.source}:{first.line}" if first.line else first.source

    @property
    def counts(self) -> bool:
        """Whether it is a trouble at present."""
        return self.state in ("active", "explained")

    def plain(self) -> dict[str, Any]:
        """As data; texts are as they are in the log, so clean them."""
        return {
            "rule": self.rule, "severity": self.severity, "state": self.state, "old": self.old,
            "ranks": list(self.ranks), "title": self.title, "cause": self.cause, "next": self.next,
            "evidence": [{"source": e.source, "line": e.line, "text": e.text} for e in self.evidence[:3]],
            "consequences": self.consequences, "times": self.times, "by": self.by,
        }  # fmt: skip


class Alarms:
    """The alarms of a run, in the order in which they were told."""

    def __init__(self) -> None:
        self.all: dict[str, Alarm] = {}
        self.waiting: dict[str, float] = {}
        """since when those were found that must stand for a while"""

    def active(self) -> list[Alarm]:
        """Those that are a trouble at present."""
        return [alarm for alarm in self.all.values() if alarm.counts]

    def take(self, report: Report, now: float, old: bool, young: Collection[str] = ()) -> list[tuple[str, Alarm]]:
        """Compare what is found now with what was told: (what to tell, the alarm). What to tell: alarm · worse · again
        · recovered · explained · over. ``now`` is a monotonic time, ``old``: the lines were there before; ``young``:
        rules that had only a few points to judge."""
        told: list[tuple[str, Alarm]] = []
        found: set[str] = set()
        below: dict[str, str] = {}
        for diagnosis in report.diagnoses:
            found.add(diagnosis.rule)
            for number in diagnosis.consequences:
                below.setdefault(report.findings[number].id, diagnosis.rule)
        for diagnosis in report.diagnoses:
            recovered = 0 <= diagnosis.finding < len(report.findings) and report.findings[diagnosis.finding].recovered
            what = self._one(diagnosis, recovered, now, old, diagnosis.rule in young)
            if what:
                told.append((what, self.all[diagnosis.rule]))
        for rule in [r for r in self.waiting if r not in found]:
            del self.waiting[rule]
        for alarm in self.all.values():
            if alarm.rule in found or alarm.rule in OWN:
                continue
            by = below.get(alarm.rule, "")
            state = "explained" if by else "over"
            if alarm.state != state or alarm.by != by:
                if alarm.state != state:
                    told.append((state, alarm))
                alarm.state, alarm.by, alarm.changed = state, by, now
        return told

    def _one(self, diagnosis: Diagnosis, recovered: bool, now: float, old: bool, young: bool) -> str:
        alarm = self.all.get(diagnosis.rule)
        if alarm is None:
            stands = YOUNG if young else SETTLES if diagnosis.rule in WORDLESS else 0.0
            if stands and not old:
                since = self.waiting.setdefault(diagnosis.rule, now)
                if now - since < stands:
                    return ""
            self.waiting.pop(diagnosis.rule, None)
            alarm = self.all[diagnosis.rule] = Alarm(diagnosis.rule, time.time(), old)
            self._fill(alarm, diagnosis, recovered, now)
            alarm.told_ranks = len(alarm.ranks)
            return "alarm"
        before, was, since = alarm.severity, alarm.state, alarm.changed
        at = alarm.evidence[0] if alarm.evidence else None
        self._fill(alarm, diagnosis, recovered, now)
        if alarm.state == "recovered":
            return "recovered" if was != "recovered" else ""
        fresh = alarm.evidence[0] if alarm.evidence else None
        if was in ("recovered", "over"):
            return "again" if was == "recovered" or (now - since >= AGAIN and fresh != at) else ""
        if SEVERITIES.index(alarm.severity) < SEVERITIES.index(before) or len(alarm.ranks) > 2 * alarm.told_ranks > 0:
            alarm.told_ranks = len(alarm.ranks)
            return "worse"
        return ""

    @staticmethod
    def _fill(alarm: Alarm, diagnosis: Diagnosis, recovered: bool, now: float) -> None:
        state = "recovered" if recovered else "active"
        if state != alarm.state:
            alarm.changed = now
        alarm.state, alarm.by = state, ""
        alarm.topic, alarm.severity, alarm.times = diagnosis.topic, diagnosis.severity, diagnosis.times
        alarm.title, alarm.cause, alarm.next = diagnosis.title, diagnosis.cause, diagnosis.next
        alarm.ranks, alarm.evidence = diagnosis.ranks, diagnosis.evidence
        alarm.consequences = len(diagnosis.consequences)

    def own(
        self,
        rule: str,
        severity: str,
        texts: dict[str, Text],
        ranks: Sequence[int],
        evidence: Evidence | None,
        now: float,
    ) -> str:
        """A trouble that no line reports; what to tell, as for ``take``. ``texts``: title, cause and next."""
        alarm = self.all.get(rule)
        what = ""
        if alarm is None:
            alarm = self.all[rule] = Alarm(rule, time.time(), False)
            alarm.told_ranks = len(ranks)
            what = "alarm"
        elif alarm.state == "over":
            what, alarm.changed = "again", now
            alarm.told_ranks = len(ranks)
        elif SEVERITIES.index(severity) < SEVERITIES.index(alarm.severity) or len(ranks) > 2 * alarm.told_ranks > 0:
            what = "worse"
            alarm.told_ranks = len(ranks)
        alarm.state, alarm.severity, alarm.ranks = "active", severity, tuple(ranks)
        alarm.title, alarm.cause, alarm.next = texts["title"], texts["cause"], texts["next"]
        alarm.evidence = (evidence,) if evidence else ()
        return what

    def settle(self, rule: str, now: float) -> Alarm | None:
        """The end of a trouble that no line reports; None if it was not told or has ended before."""
        alarm = self.all.get(rule)
        if alarm is None or alarm.state == "over":
            return None
        alarm.state, alarm.changed = "over", now
        return alarm
