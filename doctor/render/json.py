"""The report as JSON, ``doctor.report/1``; the schema is ``report.schema.json`` beside this file."""

from __future__ import annotations

import json
import os
from typing import Any

from doctor.model import Diagnosis, Evidence, Finding, InputSeen, Place, Report
from doctor.render.safe import printable, redact

SCHEMA = "doctor.report/1"


def schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "report.schema.json"), encoding="utf-8") as file:
        found: dict[str, Any] = json.load(file)
        return found


def _clean(text: str) -> str:
    return redact(printable(text))


def _clean_all(value: Any) -> Any:
    """Plain data with every text in it cleaned."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_clean(str(key)): _clean_all(one) for key, one in value.items()}
    return [_clean_all(one) for one in value] if isinstance(value, (list, tuple)) else value


def _texts(texts: dict[str, str]) -> dict[str, str]:
    return {lang: _clean(text) for lang, text in texts.items()}


def _place(place: Place) -> dict[str, Any]:
    return {"host": place.host, "rank": place.rank, "device": place.device}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "source": _clean(evidence.source),
        "line": evidence.line,
        "text": _clean(evidence.text),
        "before": [_clean(t) for t in evidence.before],
        "after": [_clean(t) for t in evidence.after],
    }


def _diagnosis(diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "rule": diagnosis.rule,
        "topic": diagnosis.topic,
        "severity": diagnosis.severity,
        "confidence": diagnosis.confidence,
        "title": _texts(diagnosis.title),
        "cause": _texts(diagnosis.cause),
        "next": _texts(diagnosis.next),
        "note": _texts(diagnosis.note),
        "place": _place(diagnosis.place),
        "ranks": list(diagnosis.ranks),
        "times": diagnosis.times,
        "evidence": [_evidence(e) for e in diagnosis.evidence],
        "finding": diagnosis.finding,
        "consequences": list(diagnosis.consequences),
        "fixes": [
            {
                "id": fix.id,
                "applicability": fix.applicability,
                "text": _texts(fix.text),
                "edits": [{"file": e.file, "key": e.key, "from": e.old, "to": e.new} for e in fix.edits],
                "choices": list(fix.choices),
            }
            for fix in diagnosis.fixes
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "topic": finding.topic,
        "verdict": finding.verdict.value,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "role": finding.role,
        "title": _texts(finding.title),
        "place": _place(finding.place),
        "args": {k: _clean(str(v)) for k, v in finding.args.items()},
        "evidence": [_evidence(e) for e in finding.evidence],
        "seconds": finding.seconds,
        "times": finding.times,
        "recovered": finding.recovered,
        "why": _texts(finding.why),
    }


def _input(seen: InputSeen) -> dict[str, Any]:
    return {
        "name": _clean(seen.name),
        "kinds": list(seen.kinds),
        "bytes": seen.size,
        "lines": seen.lines,
        "rank": seen.rank,
        "state": seen.state,
        "why": _texts(seen.why),
    }


def report_dict(report: Report) -> dict[str, Any]:
    """The report as plain data, in the order of the schema."""
    target = _clean_all(report.target)
    return {
        "schema": SCHEMA,
        "tool": report.tool,
        "target": target,
        "verdict": report.verdict,
        "partial": _texts(report.partial),
        "interrupted": report.interrupted,
        "unexplained": report.unexplained,
        "diagnoses": [_diagnosis(d) for d in report.diagnoses],
        "findings": [_finding(f) for f in report.findings],
        "inputs": [_input(i) for i in report.inputs],
        "facts": _clean_all(report.facts),
        "series": list(report.series),
        "run": _clean_all(report.run),
        "timings": report.timings,
    }


def render(report: Report, *, indent: int | None = None) -> str:
    """The report as one JSON text."""
    return json.dumps(report_dict(report), ensure_ascii=False, indent=indent)
