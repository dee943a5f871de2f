"""The report of ``doctor check`` for people: what is wrong, the chain and the devices, what was not checked and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doctor.i18n import pick, texts, tr
from doctor.model import Diagnosis, Finding, Report, Verdict
from doctor.render.safe import redact, safe, width
from doctor.render.text import STYLES, Line, diagnosis_lines, mark, wrap

_ORDER = (Verdict.CRASH, Verdict.UNKNOWN)
FULL = 5
"""Diagnoses shown in full unless all are asked for; the others have a line each."""
REASONS = 4
"""Reasons for which checks do not apply that are named; most of them are of no interest."""
TABLE = frozenset(f"HCCL{n}" for n in (506, 507, 508, 509, 510, 511, 512, 513, 518, 519, 520, 521))
ROCE = frozenset(f"HCCL{n}" for n in (532, 533, 534, 535, 536, 537, 538, 539, 541, 542, 543, 546, 549, 550))
"""Findings that the list of all devices, or that of the devices of this host, helps to understand."""
LINKS = frozenset(("NPU512",))
"""Findings that the matrix of links helps to understand."""


def layout(
    report: Report, lang: str, *, columns: int = 100, every: bool = False, ascii_only: bool = False
) -> list[Line]:
    """The report as styled lines, what is wrong first. ``every``: each check on a line of its own, drawings whole."""
    columns = max(60, min(columns, 120))
    out = head(report, lang, ascii_only)
    out += [
        [("dim", row)] for row in wrap("  ".join(filter(None, (counts(report, lang), remark(report, lang)))), columns)
    ]
    serious = [d for d in report.diagnoses if d.severity != "advice"]
    advice = [d for d in report.diagnoses if d.severity == "advice"]
    full = list(report.diagnoses) if every else serious[:FULL]
    for n, diagnosis in enumerate(full, 1):
        out += diagnosis_lines(n, diagnosis, report, lang, columns, every, ascii_only)
    if not every:
        for heading, rest in (("check.more", serious[FULL:]), ("check.advice", advice)):
            if rest:
                out += [[], [("bold", tr(lang, heading))]]
                out += [row for d in rest for row in _short(d, lang, columns, ascii_only)]
    out += memory(report, lang, every)
    out += weights(report, lang, every)
    out += chain(report, lang, columns, ascii_only, every=every)
    out += topology(report, lang, columns, ascii_only, every=every)
    out += _every(report, lang, columns, ascii_only) if every else _folded(report, lang, columns)
    hints = [tr(lang, "explain_hint", id=report.diagnoses[0].rule)] if report.diagnoses else []
    if not every:
        hints.append(tr(lang, "check.all_hint"))
    if hints:
        out += [[], [("dim", ("；" if lang == "zh" else "; ").join(hints))]]
    return out


def _short(diagnosis: Diagnosis, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """A diagnosis in as few lines as its title needs."""
    more = f"  {tr(lang, 'places', n=diagnosis.times)}" if diagnosis.times > 1 else ""
    rows = wrap(redact(safe(pick(diagnosis.title, lang))) + f"{more}  {diagnosis.rule}", columns - 2)
    sign = f"{mark(diagnosis.severity, ascii_only)} "
    return [[(STYLES[diagnosis.severity], sign if n == 0 else "  "), ("", row)] for n, row in enumerate(rows)]


def head(report: Report, lang: str, ascii_only: bool = False) -> list[Line]:
    """The verdict, and why the result is only a part of it."""
    verdict = report.verdict
    text = f"{mark(verdict, ascii_only)} {tr(lang, f'check.verdict.{verdict}')}"
    out: list[Line] = [[(STYLES[verdict], text)]]
    if report.partial:
        out.append([("bold yellow", pick(report.partial, lang))])
    return out


def counts(report: Report, lang: str, *, host: bool = True) -> str:
    """How many checks said what; what no check said is left out. ``host``: with the name of the machine in front."""
    worst: dict[str, tuple[int, str]] = {}
    for finding in report.findings:
        said = "advice" if finding.verdict is Verdict.FAIL and finding.severity == "advice" else finding.verdict.value
        said = "unknown" if said == "crash" else said
        rank = ("fail", "advice", "unknown", "pass", "not_applicable").index(said)
        worst[finding.id] = min(worst.get(finding.id, (9, "")), (rank, said))
    number: dict[str, int] = {}
    for _, said in worst.values():
        number[said] = number.get(said, 0) + 1
    parts = [
        tr(lang, f"check.count.{said}", n=number[said])
        for said in ("fail", "advice", "pass", "unknown", "not_applicable") if number.get(said)
    ]  # fmt: skip
    text = tr(lang, "check.counts", total=len(worst), parts=("，" if lang == "zh" else ", ").join(parts))
    name = safe(str(report.target.get("host", ""))) if host else ""
    return f"{name}{'：' if lang == 'zh' else ': '}{text}" if name else text


def remark(report: Report, lang: str) -> str:
    """What explains that so much does not apply: no NPU here. Empty where there is one."""
    fact = report.facts.get("net.topology", {})
    return texts(lang)["why.no_npu"] if fact.get("unknown") == "no_npu" else ""


def chain(report: Report, lang: str, columns: int, ascii_only: bool, *, every: bool = True) -> list[Line]:
    """The version chain where there is one: with what breaks it, or, if nothing does and not ``every``, in short."""
    value = _value(report, "ver.chain")
    if not value:
        return []
    from doctor.render.chain import brief, draw

    if not every and value.get("whole") is not False:
        return _drawing(brief(value, columns, ascii_only=ascii_only, lang=lang))
    return _drawing(draw(value, columns, ascii_only=ascii_only, lang=lang))


def topology(report: Report, lang: str, columns: int, ascii_only: bool, *, every: bool = True) -> list[Line]:
    """Devices, links and servers, where there are any; unless ``every``, in short where no finding is about them."""
    value = _value(report, "net.topology")
    if not value:
        return []
    from doctor.render.topology import brief, draw

    failed = {f.id for f in report.findings if f.verdict is Verdict.FAIL}
    if every or failed & TABLE:
        return _drawing(draw(value, columns, ascii_only=ascii_only, lang=lang))
    wanted = {"devices": bool(failed & ROCE), "matrix": bool(failed & LINKS)}
    return _drawing(brief(value, columns, ascii_only=ascii_only, lang=lang, **wanted))


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


def weights(report: Report, lang: str, every: bool) -> list[Line]:
    """Weight files against the models they belong to: what does not fit, or every parameter."""
    tables = _value(report, "plan.weights") or []
    out: list[Line] = []
    for table in tables if every else tables[:TABLES]:
        rows = table["all"][lang] if every else table[lang]
        out += [[], [("bold", safe(str(rows[0])))], *([("", f"  {safe(row)}")] for row in rows[1:])]
    if len(tables) > TABLES and not every:
        out.append([("dim", "  " + tr(lang, "more", n=len(tables) - TABLES))])
    return out


def _value(report: Report, name: str) -> Any:
    return report.facts.get(name, {}).get("value")


def _drawing(rows: Sequence[str]) -> list[Line]:
    return [[], *([("", redact(safe(row)))] for row in rows)] if rows else []


def _title(finding: Finding, lang: str) -> str:
    return redact(safe(pick(finding.title, lang)))


def _folded(report: Report, lang: str, columns: int) -> list[Line]:
    """What could not be checked, a paragraph for each reason; what does not apply, one paragraph for all."""
    out: list[Line] = []
    for verdict in _ORDER:
        reasons = _reasons(report, verdict, lang)
        if not reasons:
            continue
        total = sum(len(members) for _, members in reasons)
        out += [[], [("bold", f"{tr(lang, f'check.{verdict.value}')} ({total})")]]
        for why, members in reasons:
            label = f"{why} ({len(members)})" if len(members) > 1 else why
            out += [[("", ("  " if n == 0 else "    ") + row)] for n, row in enumerate(wrap(label, columns - 4))]
            titles = list(dict.fromkeys(_title(f, lang) for f in members))
            rows = wrap(("、" if lang == "zh" else ", ").join(titles), columns - 8)
            if len(rows) > 2:
                rows = [rows[0], rows[1].rstrip("、, ") + (" …" if width("…") == 1 else " ...")]
            out += [[("dim", f"    {row}")] for row in rows]
    reasons = _reasons(report, Verdict.NOT_APPLICABLE, lang)
    if reasons:
        said = [f"{why} ({len(members)})" for why, members in reasons[:REASONS]]
        rest = sum(len(members) for _, members in reasons[REASONS:])
        said += [tr(lang, "check.others", n=rest)] if rest else []
        head = f"{tr(lang, 'check.not_applicable')} ({rest + sum(len(m) for _, m in reasons[:REASONS])})"
        rows = wrap(" · ".join(said) if lang == "zh" else "; ".join(said), columns - 2)
        out += [[], [("bold", head)], *([("dim", f"  {row}")] for row in rows)]
    return out


def _reasons(report: Report, verdict: Verdict, lang: str) -> list[tuple[str, list[Finding]]]:
    """The findings of a verdict by their reason, the most frequent first."""
    reasons: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.verdict is verdict:
            reasons.setdefault(redact(safe(pick(finding.why, lang))), []).append(finding)
    return sorted(reasons.items(), key=lambda pair: -len(pair[1]))


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
