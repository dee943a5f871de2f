"""A run → findings → diagnoses → report. The logs of a failed run go through the log rules like any other log."""

from __future__ import annotations

import itertools
import os
from typing import Any

from doctor import checkup, engine
from doctor.model import Answer, Diagnosis, Evidence, Finding, InputSeen, Report, Text, Verdict
from doctor.ranking import UNRECOGNISED
from doctor.rulebase import Rule, RuleBase, tool_info
from doctor.smoke import faults
from doctor.smoke.verdicts import ORDER, Run, figures

HERE = os.path.dirname(os.path.abspath(__file__))
GENERAL = ("ended", "stages", "ranks_started", "in_time", "disk_space")
"""Verdicts that say that something failed and where; why, the logs may say."""


def specs(base: RuleBase) -> list[checkup.Spec]:
    """The rules of kind smoke in the order of their verdicts."""
    found = {}
    for rule in base:
        if rule.kind == "smoke":
            spec = spec_of(rule, base.whole(rule.id))
            found[spec.call.rpartition(":")[2]] = spec
    return [found[function.__name__] for function in ORDER if function.__name__ in found]


def spec_of(rule: Rule, whole: dict[str, Any]) -> checkup.Spec:
    """A rule of kind smoke as the engine of the checks sees it."""
    return checkup.Spec(rule, whole, whole["match"]["smoke"]["call"], ())


def judge(spec: checkup.Spec, run: Run) -> Finding:
    """What one verdict says of a run. Its own failure is a finding of the verdict crash."""
    function = next(f for f in ORDER if f.__name__ == spec.call.rpartition(":")[2])
    try:
        return checkup.finding_of(spec, function(run))
    except Exception as error:  # a verdict's own mistake is said, and the others go on
        what = f"{type(error).__name__}: {error}"[:300]
        return checkup.finding_of(spec, Answer(Verdict.CRASH, {"what": what}, why="crashed"))


def report_of(base: RuleBase, run: Run, files: tuple[str, ...], tail: bytes, work: str) -> Report:
    """The whole report of a run. ``files`` and ``tail`` are what the child printed."""
    findings = [judge(spec, run) for spec in specs(base)]
    own = len(findings)
    diagnoses = list(checkup.diagnose(base, findings))
    logs: Report | None = None
    if run.failed and run.state != "refused":
        logs = engine.diagnose(files, engine.Options(jobs=1), paste=None if files else tail or None)
        if run.state == "cancelled":
            # nothing has to be explained but what went wrong before
            logs = logs._replace(diagnoses=tuple(d for d in logs.diagnoses if d.severity == "error"))
        diagnoses = merged(base, findings, diagnoses, logs, work)
        findings += (f._replace(evidence=tuple(_short(e, work) for e in f.evidence)) for f in logs.findings)
    report = Report(
        {"kind": "smoke", "python": run.args.get("python", ""), "inject": run.settings.inject},
        "unknown",
        tuple(diagnoses),
        tuple(findings),
        tuple(_shown(seen, work) for seen in logs.inputs) if logs else (),
        {"smoke.verdicts": {"value": own, "source": "", "line": 0}, **facts(run, [d.rule for d in diagnoses])},
        series(run),
        {"run": run.seconds},
        _partial(run),
        run.state == "cancelled",
        tool_info(base, logs.tool["engine"] if logs else ""),
    )
    return report._replace(verdict=checkup.verdict_of(report))


def merged(base: RuleBase, findings: list[Finding], own: list[Diagnosis], logs: Report, work: str) -> list[Diagnosis]:
    """The diagnoses of the logs before those of the run: a stage that failed is what a cause in a log led to.

    Findings of the logs come behind ``findings``; nothing that only speaks of this package's own source is taken over.
    """
    shift = len(findings)
    general = [n for n, f in enumerate(findings) if f.verdict is Verdict.FAIL and _call(base, f.id) in GENERAL]
    taken = []
    for diagnosis in logs.diagnoses:
        if diagnosis.severity != "error" and any(HERE in e.text for e in diagnosis.evidence):
            continue
        taken.append(diagnosis._replace(
            finding=diagnosis.finding + shift, consequences=tuple(n + shift for n in diagnosis.consequences),
            evidence=tuple(_short(e, work) for e in diagnosis.evidence),
        ))  # fmt: skip
    causes = [d for d in taken if d.severity == "error" and d.rule != UNRECOGNISED]
    if causes and general:
        first = causes[0]
        rest = [d for d in taken if d is not first]
        kept = [d for d in own if d.finding not in general]
        moved = [n for d in own if d.finding in general for n in (d.finding, *d.consequences)]
        return [first._replace(consequences=(*first.consequences, *moved)), *kept, *rest]
    return [*own, *(d for d in taken if d.rule != UNRECOGNISED)]


def _call(base: RuleBase, rule_id: str) -> str:
    match: dict[str, Any] = base.whole(rule_id)["match"]
    return str((match.get("smoke") or {}).get("call", "")).rpartition(":")[2]


def _short(evidence: Evidence, work: str) -> Evidence:
    """Evidence with its source as a path inside the work folder."""
    inside = evidence.source.startswith(work + os.sep)
    return evidence._replace(source=os.path.relpath(evidence.source, work)) if inside else evidence


def _shown(seen: InputSeen, work: str) -> InputSeen:
    inside = seen.name.startswith(work + os.sep)
    return seen._replace(name=os.path.relpath(seen.name, work)) if inside else seen


def facts(run: Run, heads: list[str]) -> dict[str, Any]:
    """What was measured, as facts of the report."""
    found: dict[str, tuple[Any, str, int]] = {}

    def take(name: str, measure: str, field: str) -> None:
        event = run.measure(measure)
        if event is not None and event.row.get(field) not in (None, ""):
            found["smoke." + name] = (event.row[field], event.source, event.line)

    for name, measure, field in (
        ("mindspore", "versions", "mindspore"), ("numpy", "versions", "numpy"), ("python", "versions", "python"),
        ("device", "device", "device"), ("device_why", "device", "why"), ("dtype", "device", "dtype"),
        ("dtype_replaced", "device", "dtype_replaced"), ("attention", "device", "attention"),
        ("parameters", "model", "parameters"), ("optimizer", "model", "optimizer"), ("tokens", "model", "tokens"),
        ("fresh_loss", "fresh", "loss"), ("parity", "parity", "distance"), ("gradient", "gradient", "error"),
        ("weights_set_later", "seen_later", "seen"), ("curve_twin", "curve", "twin"),
        ("profile_files", "profile", "files"),
    ):  # fmt: skip
        take(name, measure, field)
    found["smoke.settings"] = (run.settings._asdict(), "", 0)
    found["smoke.stages"] = (stage_seconds(run), "", 0)
    for name, value in figures(run).items():
        found["smoke." + name] = (value, "", 0)
    if run.settings.inject:
        found["smoke.caught"] = (faults.caught(run.settings, heads), "", 0)
        found["smoke.expected"] = (list(faults.fault_of(run.settings.inject).named), "", 0)
    return {name: {"value": value, "source": source, "line": line} for name, (value, source, line) in found.items()}


def stage_seconds(run: Run) -> dict[str, float]:
    """Seconds that the first rank spent in each stage."""
    rank = min(run.marks, default=None)
    if rank is None:
        return {}
    out: dict[str, float] = {}
    marks = [*run.marks[rank], ("", float(run.last[rank].row["t"]))]
    for (name, began), (_, ended) in itertools.pairwise(marks):
        out[name] = round(out.get(name, 0.0) + ended - began, 3)
    return out


def series(run: Run) -> tuple[dict[str, Any], ...]:
    """The loss of each rank; what is not finite is null. The verdicts of the test speak of it, not a label."""
    out = []
    for rank, events in sorted(run.steps.items()):
        points = [[e.row["n"], e.row["loss"] if isinstance(e.row["loss"], (int, float)) else None] for e in events]
        out.append({
            "source": events[0].source, "rank": rank, "name": "loss", "points": points, "kind": "train", "unit": "",
            "count": len(points), "every": 1, "understood": "named", "unread": 0, "label": "unknown", "events": [],
        })  # fmt: skip
    return tuple(out)


def _partial(run: Run) -> Text:
    if run.state == "cancelled":
        return {"zh": f"已取消，停在阶段 {run.stage}", "en": f"cancelled in stage {run.stage}"}
    return {}
