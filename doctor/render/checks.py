"""The report of ``doctor check`` for people: the chain, what is wrong, what could not be told and why, what is well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doctor.i18n import pick, tr
from doctor.model import Finding, Report, Verdict
from doctor.render.safe import redact, safe
from doctor.render.text import STYLES, Line, diagnosis_lines, mark, wrap

GROUPS = ("env", "npu", "hccl")
_ORDER = (Verdict.CRASH, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE)


def layout(
    report: Report, lang: str, *, columns: int = 100, every: bool = False, ascii_only: bool = False
) -> list[Line]:
    """The report as styled lines. ``every``: each check on a line of its own."""
    columns = max(60, min(columns, 120))
    out = head(report, lang, ascii_only)
    out.append([("dim", counts(report, lang))])
    out += chain(report, lang, columns, ascii_only)
    for n, diagnosis in enumerate(report.diagnoses, 1):
        if diagnosis.severity == "advice" and not every:
            continue
        out += diagnosis_lines(n, diagnosis, report, lang, columns, every, ascii_only)
    advice = [d for d in report.diagnoses if d.severity == "advice"]
    if advice and not every:
        out.append([])
        for diagnosis in advice:
            title = redact(safe(pick(diagnosis.title, lang)))
            out.append(
                [(STYLES["advice"], f"{mark('advice', ascii_only)} "), ("", title), ("dim", f"  {diagnosis.rule}")]
            )
    out += memory(report, lang, every)
    out += topology(report, lang, columns, ascii_only)
    out += _every(report, lang, columns, ascii_only) if every else _folded(report, lang, columns, ascii_only)
    if report.diagnoses:
        out += [[], [("dim", tr(lang, "explain_hint", id=report.diagnoses[0].rule))]]
    return out


def head(report: Report, lang: str, ascii_only: bool = False) -> list[Line]:
    """The verdict, and why the result is only a part of it."""
    verdict = report.verdict
    text = f"{mark(verdict, ascii_only)} {tr(lang, f'check.verdict.{verdict}')}"
    out: list[Line] = [[(STYLES[verdict], text)]]
    if report.partial:
        out.append([("bold yellow", pick(report.partial, lang))])
    return out


def counts(report: Report, lang: str) -> str:
    """How many checks said what."""
    number = dict.fromkeys((v.value for v in Verdict), 0)
    for finding in report.findings:
        number[finding.verdict.value] += 1
    host = safe(str(report.target.get("host", "")))
    return tr(
        lang, "check.counts", host=host, total=len(report.findings), passed=number["pass"], failed=number["fail"],
        unknown=number["unknown"] + number["crash"], na=number["not_applicable"],
    )  # fmt: skip


def chain(report: Report, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """The version chain, with what breaks it, where there is one."""
    value = _value(report, "ver.chain")
    if not value:
        return []
    from doctor.render.chain import draw

    return _drawing(draw(value, columns, ascii_only=ascii_only, lang=lang))


def topology(report: Report, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """Devices, links and servers, where there are any."""
    value = _value(report, "net.topology")
    if not value:
        return []
    from doctor.render.topology import draw

    return _drawing(draw(value, columns, ascii_only=ascii_only, lang=lang))


TABLES = 3
"""Memory estimates that are shown unless all are asked for."""


def memory(report: Report, lang: str, every: bool) -> list[Line]:
    """The memory estimates of configurations, with their arithmetic."""
    tables = _value(report, "plan.memory") or []
    out: list[Line] = []
    for table in tables if every else tables[:TABLES]:
        out += [[], [("bold", safe(str(table["file"])))], *([("", f"  {safe(row)}")] for row in table[lang])]
    if len(tables) > TABLES and not every:
        out.append([("dim", "  " + tr(lang, "more", n=len(tables) - TABLES))])
    return out


def _value(report: Report, name: str) -> Any:
    return report.facts.get(name, {}).get("value")


def _drawing(rows: Sequence[str]) -> list[Line]:
    return [[], *([("", redact(safe(row)))] for row in rows)] if rows else []


def _title(finding: Finding, lang: str) -> str:
    return redact(safe(pick(finding.title, lang)))


def _folded(report: Report, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """What could not be told, one paragraph for each reason."""
    out: list[Line] = []
    for verdict in _ORDER:
        reasons: dict[str, list[Finding]] = {}
        for finding in report.findings:
            if finding.verdict is verdict:
                reasons.setdefault(pick(finding.why, lang), []).append(finding)
        if not reasons:
            continue
        out += [[], [("bold", tr(lang, f"check.{verdict.value}"))]]
        for why, members in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
            titles = list(dict.fromkeys(_title(f, lang) for f in members))
            joined = ("、" if lang == "zh" else ", ").join(titles)
            out += _paragraph(f"{redact(safe(why))} ({len(members)})", joined, columns)
    return out


def _paragraph(label: str, text: str, columns: int) -> list[Line]:
    lines: list[Line] = [[("", f"  {label}")]]
    return lines + [[("dim", f"    {row}")] for row in wrap(text, columns - 4)]


def _every(report: Report, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """Every check with its answer, one line each."""
    out: list[Line] = []
    marks = _marks(ascii_only)
    widest = max((len(f.id) for f in report.findings), default=0)
    for finding in report.findings:
        style = {"pass": STYLES["healthy"], "fail": STYLES[finding.severity]}.get(finding.verdict.value, "dim")
        why = redact(safe(pick(finding.why, lang)))
        text = _title(finding, lang) + (f" — {why}" if why and not ascii_only else f" - {why}" if why else "")
        rows = wrap(text, max(30, columns - widest - 5))
        out.append([(style, f"{marks[finding.verdict.value]} "), ("dim", f"{finding.id:<{widest}}  "), ("", rows[0])])
        out += [[("", " " * (widest + 4) + row)] for row in rows[1:]]
    return [[], [("bold", tr(lang, "check.every"))], *out] if out else []


def _marks(ascii_only: bool) -> dict[str, str]:
    signs: Sequence[str] = ("+", "x", "?", "-", "!") if ascii_only else ("✔", "✖", "?", "·", "!")
    return dict(zip((v.value for v in Verdict), signs, strict=True))


def mark_of(finding: Finding, ascii_only: bool = False) -> str:
    """A sign for what a check said that can be read without colour; a warning and an advice have their own."""
    if finding.verdict is Verdict.FAIL:
        return mark(finding.severity, ascii_only)
    return _marks(ascii_only)[finding.verdict.value]


__all__ = ["layout", "mark_of"]
