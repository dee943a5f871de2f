"""The report as one page that needs nothing besides itself: no scripts, no fonts, no requests.

It is made for sending on: everything from a log is harmless text with secrets masked, and a reader without the doctor
sees what the terminal shows, with the plots as SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Evidence, Finding, Report, Verdict
from doctor.render import checks
from doctor.render.plot import LOG_FROM, number
from doctor.render.safe import redact, safe
from doctor.render.text import at_text, mark, place_text, ranks_text, size_text, steps, times_text

WIDTH, HEIGHT = 640, 150
LEFT, TOP, BOTTOM = 70, 10, 20
LANE = 14
LANES = 300
"""Ranks drawn; of more the healthy ones are left out first."""
PLOTS = 24

_STYLE = """
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--dim:#57606a;--line:#d0d7de;--soft:#f6f8fa;--error:#b3261e;
--warning:#7a5200;--advice:#0b5cad;--healthy:#146c2e;--unknown:#6f3aa8}
@media(prefers-color-scheme:dark){:root{--fg:#e6edf3;--bg:#0d1117;--dim:#9198a1;--line:#3d444d;--soft:#161b22;
--error:#ff8a80;--warning:#e3b341;--advice:#79c0ff;--healthy:#7ee787;--unknown:#d2a8ff}}
body{font:15px/1.55 system-ui,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;color:var(--fg);
background:var(--bg);max-width:960px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.25rem}h2{font-size:1.05rem;margin:0}section{border:1px solid var(--line);border-radius:6px;
padding:.8rem 1rem;margin:1rem 0}.dim{color:var(--dim);font-size:.88em}pre{background:var(--soft);padding:.5rem;
overflow-x:auto;font:13px/1.45 ui-monospace,Menlo,Consolas,monospace;margin:.4rem 0}pre b{color:var(--error)}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.3rem .9rem;margin:.6rem 0}dt{font-weight:600}
dd{margin:0;white-space:pre-line}.error{color:var(--error)}.warning{color:var(--warning)}.advice{color:var(--advice)}
.healthy{color:var(--healthy)}.unknown{color:var(--unknown)}svg{max-width:100%;height:auto;display:block}
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}table{border-collapse:collapse}td,th{
padding:.1rem .8rem .1rem 0;text-align:left;vertical-align:top}summary{cursor:pointer}
"""


def page(report: Report, lang: str) -> str:
    """The whole document."""
    verdict = report.verdict if report.verdict in ("error", "warning", "advice", "healthy") else "unknown"
    words = "verdict" if report.target.get("kind") == "inputs" else "check.verdict"
    said = _text(tr(lang, f"{words}.{report.verdict}"))
    out = [
        "<!doctype html>",
        f'<html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>MindSpore Doctor: {said}</title>",
        f"<style>{_STYLE}</style></head><body>",
        f'<h1 class="{verdict}">{mark(verdict)} {said}</h1>',
        f'<p class="dim">{_text(_about(report, lang))}</p>',
    ]
    if report.partial:
        out.append(f'<p class="warning">{_text(pick(report.partial, lang))}</p>')
    for n, diagnosis in enumerate(report.diagnoses, 1):
        out += _diagnosis(n, diagnosis, report, lang)
    out += _lanes(report.run, lang)
    out += _series(report, lang)
    out += _unanswered(report, lang)
    out += _inputs(report, lang)
    out.append("</body></html>\n")
    return "\n".join(out)


def _text(text: str) -> str:
    """Text for the page: harmless, secrets masked, escaped."""
    return escape(redact(safe(text)))


def _lines(text: str) -> str:
    return "\n".join(_text(line) for line in text.split("\n"))


def _about(report: Report, lang: str) -> str:
    lines, size = sum(i.lines for i in report.inputs), sum(i.size for i in report.inputs)
    tool = f"{report.tool.get('name', 'mindspore-doctor')} {report.tool.get('version', '')}"
    seen = tr(lang, "inputs", files=len(report.inputs), lines=f"{lines:,}", size=size_text(size))
    return f"{tool} · {seen}" if report.inputs else tool


def _diagnosis(n: int, diagnosis: Diagnosis, report: Report, lang: str) -> list[str]:
    facts = [
        diagnosis.rule, tr(lang, f"severity.{diagnosis.severity}"), tr(lang, f"confidence.{diagnosis.confidence}"),
        place_text(diagnosis, lang), times_text(diagnosis, report, lang) if diagnosis.times > 1 else "",
    ]  # fmt: skip
    out = [
        f'<section id="d{n}"><h2 class="{diagnosis.severity}">{n}. {mark(diagnosis.severity)} '
        f"{_text(pick(diagnosis.title, lang))}</h2>",
        f'<p class="dim">{_text(" · ".join(f for f in facts if f))}</p>',
    ]
    for k, evidence in enumerate(diagnosis.evidence[:6]):
        out.append(_evidence(evidence, lang, context=k == 0))
    rows = [(tr(lang, "cause"), pick(diagnosis.cause, lang)), (tr(lang, "next"), pick(diagnosis.next, lang))]
    rows += [("!", pick(diagnosis.note, lang))] if diagnosis.note else []
    rows += [(tr(lang, "fix"), pick(fix.text, lang)) for fix in diagnosis.fixes]
    out.append("<dl>")
    out += [f"<dt>{_text(name)}</dt><dd>{_lines(chr(10).join(steps(text)))}</dd>" for name, text in rows if text]
    out.append("</dl>")
    out += _consequences([report.findings[i] for i in diagnosis.consequences], lang)
    out.append("</section>")
    return out


def _evidence(evidence: Evidence, lang: str, *, context: bool) -> str:
    head = f'<div class="dim">{_text(at_text(evidence, lang))}</div>'
    rows = [*(evidence.before if context else ()), evidence.text, *(evidence.after if context else ())]
    if not any(row.strip() for row in rows):
        return head
    hit = len(evidence.before) if context else 0
    first = evidence.line - hit if evidence.line else 0
    shown = []
    for n, row in enumerate(rows):
        line = f"{f'{first + n:>6} ' if first else ''}{_text(row)}"
        shown.append(f"<b>{line}</b>" if n == hit else line)
    return head + "<pre>" + "\n".join(shown) + "</pre>"


def _consequences(findings: Sequence[Finding], lang: str) -> list[str]:
    if not findings:
        return []
    rows: dict[str, list[Finding]] = {}
    for finding in findings:
        rows.setdefault(finding.id, []).append(finding)
    out = [f"<details><summary>{_text(tr(lang, 'consequences'))} ({len(rows)})</summary><table>"]
    for rule, members in rows.items():
        ranks = [f.place.rank for f in members if f.place.rank is not None]
        where = tr(lang, "rank", ranks=ranks_text(ranks)) if ranks else ""
        at = at_text(members[0].evidence[0], lang) if members[0].evidence else ""
        out.append(
            f"<tr><td>{_text(rule)}</td><td>{_text(where)}</td><td>{_text(pick(members[0].title, lang))}</td>"
            f'<td class="dim">{_text(at)}</td></tr>'
        )
    return [*out, "</table></details>"]


# ------------------------------------------------------------------ series


def _series(report: Report, lang: str) -> list[str]:
    drawn = sorted(
        (s for s in report.series if sum(v is not None for _, v in s["points"]) > 1),
        key=lambda s: (s.get("label", "healthy") in ("healthy", "unknown"), s["name"] != "loss"),
    )[:PLOTS]
    if not drawn:
        return []
    out = ["<section>"]
    for one in drawn:
        rank = f" {tr(lang, 'rank', ranks=one['rank'])}" if one["rank"] is not None else ""
        name = tr(lang, f"series.{one['name']}") + rank
        label = tr(lang, f"series.{one['label']}") if "label" in one else ""
        marks = [
            (e["step"], f"{e['kind']} @ {e['step']}: {e['value']} ({e['usual']})")
            for e in one.get("events", ())
            if e["step"] is not None
        ]
        out += [f"<h2>{_text(f'{name}: {label}' if label else name)}</h2>", svg(one["points"], marks, name)]
    return [*out, "</section>"]


def svg(points: Sequence[Sequence[Any]], marks: Iterable[tuple[int, str]] = (), title: str = "") -> str:
    """A line plot of (step, value or None) with the marked steps; empty without two finite values. A value that is no
    number breaks the line and is a cross at the top."""
    finite = [v for _, v in points if v is not None and math.isfinite(v)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    log = low > 0 and high / low > LOG_FROM
    bottom, top = (math.log(low), math.log(high)) if log else (low, high)
    first, last = int(points[0][0]), int(points[-1][0])

    def x(step: float) -> float:
        return LEFT + (step - first) / ((last - first) or 1) * (WIDTH - LEFT - 10)

    def y(value: float) -> float:
        share = ((math.log(value) if log else value) - bottom) / ((top - bottom) or 1)
        return TOP + (1 - share) * (HEIGHT - TOP - BOTTOM)

    runs: list[list[str]] = [[]]
    crosses: list[float] = []
    for step, value in points:
        if value is None or not math.isfinite(value):
            crosses.append(x(step))
            if runs[-1]:
                runs.append([])
        else:
            runs[-1].append(f"{x(step):.1f},{y(value):.1f}")
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{_text(title)}</title>']
    out.append(
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 10}" fill="none" stroke="var(--line)"/>'
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{number(high)}</text>'
        f'<text x="{LEFT - 6}" y="{HEIGHT - BOTTOM}" text-anchor="end">{number(low)}</text>'
        f'<text x="{LEFT}" y="{HEIGHT - 5}">{first}</text>'
        f'<text x="{WIDTH - 10}" y="{HEIGHT - 5}" text-anchor="end">{last}{" (log)" if log else ""}</text>'
    )
    for step, words in marks:
        if first <= step <= last:
            at = f"{x(step):.1f}"
            out.append(
                f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="var(--error)" '
                f'stroke-dasharray="3 3"><title>{_text(words)}</title></line>'
            )
    for run in runs:
        if len(run) == 1:
            at, height = run[0].split(",")
            out.append(f'<circle cx="{at}" cy="{height}" r="2" fill="var(--advice)"/>')
        elif run:
            out.append(f'<polyline points="{" ".join(run)}" fill="none" stroke="var(--advice)" stroke-width="1.5"/>')
    out += [f'<text x="{at:.1f}" y="{TOP + 8}" text-anchor="middle" fill="var(--error)">×</text>' for at in crosses]
    return "".join(out) + "</svg>"


# ------------------------------------------------------------------ ranks


def _lanes(run: dict[str, Any], lang: str) -> list[str]:
    """The ranks as lanes over time: a bar from the first to the last line, a mark at the first failure."""
    lanes = [lane for lane in run.get("lanes", ()) if lane["start"] is not None and lane["last"] is not None]
    if len(lanes) < 2:
        return []
    if len(lanes) > LANES:
        lanes = sorted(lanes, key=lambda lane: lane["state"] in ("ended", "running"))[:LANES]
    lanes = sorted(lanes, key=lambda lane: lane["rank"] if lane["rank"] is not None else -1)
    begin, end = float(min(lane["start"] for lane in lanes)), float(max(lane["last"] for lane in lanes))
    colours = {"failed": "error", "silent": "warning", "empty": "warning", "waited": "unknown", "ended": "healthy"}

    def x(seconds: float) -> float:
        return LEFT + (seconds - begin) / ((end - begin) or 1) * (WIDTH - LEFT - 10)

    height = LANE * len(lanes) + 8
    out = [f'<section><svg viewBox="0 0 {WIDTH} {height}" role="img">']
    for n, lane in enumerate(lanes):
        top = 4 + n * LANE
        left, right = x(lane["start"]), x(lane["last"])
        words = f"{tr(lang, 'rank', ranks=lane['rank'])} {lane['source']} {lane['state']}"
        out.append(
            f"<g><title>{_text(words)}</title>"
            f'<text x="{LEFT - 6}" y="{top + 9}" text-anchor="end">{_text(str(lane["rank"]))}</text>'
            f'<rect x="{left:.1f}" y="{top + 2}" width="{max(1.0, right - left):.1f}" height="{LANE - 5}" '
            f'fill="var(--{colours.get(lane["state"], "advice")})" opacity=".55"/>'
        )
        if lane["first_failure"] is not None:
            at = min(max(x(lane["first_failure"]), LEFT), WIDTH - 10)
            out.append(f'<rect x="{at - 1:.1f}" y="{top}" width="3" height="{LANE - 1}" fill="var(--error)"/>')
        out.append("</g>")
    return [*out, "</svg></section>"]


def _unanswered(report: Report, lang: str) -> list[str]:
    """How many checks gave which answer, and why some could not tell."""
    if report.target.get("kind") == "inputs":
        return []
    said = checks.counts(report, lang)
    open_ones = [f for f in report.findings if f.verdict in (Verdict.UNKNOWN, Verdict.CRASH)]
    out = [f"<details><summary>{_text(said)}</summary><table>"]
    for finding in open_ones:
        out.append(
            f"<tr><td>{_text(finding.id)}</td><td>{_text(pick(finding.title, lang))}</td>"
            f'<td class="dim">{_text(pick(finding.why, lang)) if finding.why else ""}</td></tr>'
        )
    return [*out, "</table></details>"]


def _inputs(report: Report, lang: str) -> list[str]:
    out = []
    about = [f for f in report.findings if f.id in ("INPUT", "RULES")]
    for finding in about:
        why = f": {pick(finding.why, lang)}" if finding.why else ""
        out.append(
            f'<p class="{finding.severity}">{mark(finding.severity)} {_text(pick(finding.title, lang) + why)}</p>'
        )
    if report.inputs:
        out.append("<details><summary>" + _text(_about(report, lang)) + "</summary><table>")
        for seen in report.inputs[:1000]:
            kinds = ", ".join(tr(lang, f"kind.{k}") for k in seen.kinds)
            out.append(
                f"<tr><td>{_text(seen.name)}</td><td>{_text(kinds)}</td><td>{_text(size_text(seen.size))}</td>"
                f'<td class="dim">{_text(pick(seen.why, lang)) if seen.why else ""}</td></tr>'
            )
        out.append("</table></details>")
    return out
