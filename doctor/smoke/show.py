"""The report of a smoke run for people: what was trained, what was measured, each verdict, then what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doctor.i18n import pick, tr
from doctor.model import Finding, Report, Verdict
from doctor.render.checks import mark_of
from doctor.render.safe import redact, safe, width
from doctor.render.text import STYLES, Line, diagnosis_lines, mark, wrap


def value(report: Report, name: str) -> Any:
    """A fact of the run, None if it was not reached."""
    return report.facts.get("smoke." + name, {}).get("value")


def layout(
    report: Report, lang: str, *, columns: int = 100, every: bool = False, ascii_only: bool = False
) -> list[Line]:
    """The report as styled lines. ``every``: also the verdicts that do not apply, and all consequences."""
    columns = max(60, min(columns, 120))
    out = [head(report, lang, ascii_only)]
    if report.partial:
        out.append([("bold yellow", pick(report.partial, lang))])
    out += [[("dim", line)] for text in summary(report, lang, ascii_only) for line in wrap(text, columns)]
    own = report.findings[: value(report, "verdicts")]
    out.append([])
    for finding in own:
        if every or finding.verdict in (Verdict.PASS, Verdict.FAIL, Verdict.CRASH):
            out += verdict_lines(finding, lang, columns, ascii_only)
    if not every:
        out += _folded(own, lang, columns)
    for n, diagnosis in enumerate(report.diagnoses, 1):
        out += diagnosis_lines(n, diagnosis, report, lang, columns, every, ascii_only)
    if value(report, "compare"):
        out += table(value(report, "compare"), lang)
    if report.diagnoses:
        out += [[], [("dim", tr(lang, "explain_hint", id=report.diagnoses[0].rule))]]
    return out


def head(report: Report, lang: str, ascii_only: bool) -> Line:
    """The verdict in a line; what was not exercised is said with it."""
    text = tr(lang, f"verdict.{report.verdict}")
    if report.verdict in ("healthy", "advice"):
        text = tr(lang, "smoke.head.ascend" if value(report, "device") == "Ascend" else "smoke.head.cpu")
    elif report.verdict == "unknown" and report.partial:
        text = pick(report.partial, lang)
    return [(STYLES[report.verdict], f"{mark(report.verdict, ascii_only)} {text}")]


def summary(report: Report, lang: str, ascii_only: bool) -> list[str]:
    """What was trained and how fast, as far as the run came."""
    knobs: Mapping[str, Any] = value(report, "settings") or {}
    count = value(report, "parameters")
    dot = " | " if ascii_only else " · "
    first = [f"MindSpore {value(report, 'mindspore')}" if value(report, "mindspore") else "",
             f"Python {value(report, 'python')}" if value(report, "python") else "", str(value(report, "device") or ""),
             str(knobs.get("mode", "")) if value(report, "device") else "", str(value(report, "dtype") or ""),
             tr(lang, "smoke.parameters", n=f"{count / 1e6:.2f}") if count else "",
             tr(lang, "smoke.ranks", n=knobs.get("ranks", 1)) if knobs.get("ranks", 1) > 1 else ""]  # fmt: skip
    out = [dot.join(safe(word) for word in first if word)]
    points: list[list[Any]] = next((row["points"] for row in report.series if row["name"] == "loss"), [])
    if points and value(report, "step_seconds"):
        tokens = value(report, "tokens") or 0
        out.append(tr(
            lang, "smoke.speed", first=_number(points[0][1]), last=_number(points[-1][1]), steps=len(points),
            compile=_number(value(report, "compile_seconds")), step=_number(value(report, "step_seconds")),
            tokens=f"{tokens / value(report, 'step_seconds'):,.0f}", memory=_number(value(report, "host_mib")),
            seconds=_number(report.timings.get("run", 0.0)),
        ))  # fmt: skip
    out += configuration(value(report, "config"), knobs, lang, dot)
    why = value(report, "device_why")
    if why in ("no_device_file", "ascend_failed"):
        out.append(tr(lang, f"smoke.device.{why}"))
    if value(report, "dtype_replaced"):
        out.append(tr(lang, "smoke.dtype_replaced"))
    if value(report, "baseline_written"):
        out.append(tr(lang, "smoke.baseline_written", path=safe(report.facts["smoke.baseline_written"]["source"])))
    if knobs.get("inject"):
        expected = ", ".join(value(report, "expected") or ())
        key = "smoke.caught" if value(report, "caught") else "smoke.not_caught"
        out.append(tr(lang, key, name=knobs["inject"], rules=expected))
    return [line for line in out if line]


def configuration(config: Any, knobs: Mapping[str, Any], lang: str, dot: str) -> list[str]:
    """What of a configuration is in this run, and what is not."""
    if not config:
        return []
    carried = dot.join(
        f"{row['name']} {row['now']}" + (f" ({row['was']})" if row["was"] != row["now"] else "")
        for row in config["carried"]
        if row["now"] == str(knobs.get(row["name"])) or _number(knobs.get(row["name"])) == row["now"]
        or not isinstance(knobs.get(row["name"]), (int, float))
    )  # fmt: skip
    out = [tr(lang, "smoke.config", path=safe(config["file"]), carried=safe(carried))]
    left = [tr(lang, "smoke.left." + code, what=safe(what)) for code, what in config["left"]]
    out += [tr(lang, "smoke.config.left", text=text) for text in left]
    out.append(tr(lang, "smoke.config.data"))
    if config["ranks"] > knobs.get("ranks", 1) == 1:
        out.append(
            tr(lang, "smoke.config.ranks", dp=config["ranks"], n=2 if config["ranks"] == 2 else min(8, config["ranks"]))
        )
    return out


def _number(found: Any) -> str:
    return f"{found:.4g}" if isinstance(found, (int, float)) else "?"


def verdict_lines(finding: Finding, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """One verdict, wrapped."""
    style = {"pass": STYLES["healthy"], "fail": STYLES[finding.severity]}.get(finding.verdict.value, "dim")
    why = redact(safe(pick(finding.why, lang)))
    text = redact(safe(pick(finding.title, lang))) + (f" - {why}" if why else "")
    rows = wrap(text, max(30, columns - 12))
    out: list[Line] = [[(style, f"{mark_of(finding, ascii_only)} "), ("dim", f"{finding.id:<8}  "), ("", rows[0])]]
    return out + [[("", " " * 12 + row)] for row in rows[1:]]


def _folded(findings: Sequence[Finding], lang: str, columns: int) -> list[Line]:
    """What could not be told or does not apply, a line for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.verdict in (Verdict.UNKNOWN, Verdict.NOT_APPLICABLE):
            reasons.setdefault((finding.verdict.value, pick(finding.why, lang)), []).append(finding.id)
    out: list[Line] = []
    for (verdict, why), ids in reasons.items():
        sign = "?" if verdict == "unknown" else "-"
        rows = wrap(f"{redact(safe(why))}: {', '.join(ids)}", columns - 2)
        out += [[("dim", f"{sign if n == 0 else ' '} {row}")] for n, row in enumerate(rows)]
    return out


def table(rows: list[dict[str, Any]], lang: str) -> list[Line]:
    """The comparison of settings."""
    labels = [tr(lang, f"smoke.compare.{name}") for name in ("setting", "step", "ratio", "compile", "memory", "loss")]
    base = rows[0].get("step_seconds")
    cells = [labels]
    for row in rows:
        name = f"{row['name']}={row['value']}" if row["name"] else tr(lang, "smoke.compare.base")
        if row["state"] == "not_here":
            cells.append([name, tr(lang, "smoke.compare.not_here"), "", "", "", ""])
        elif row["state"] == "failed":
            cells.append(
                [name, tr(lang, "smoke.compare.failed", stage=row["stage"]) + f" {safe(row['text'])}", "", "", "", ""]
            )
        else:
            step = row.get("step_seconds")
            ratio = f"{step / base:.2f}" if step and base else ""
            memory = row.get("device_mib", row.get("host_mib"))
            cells.append(
                [
                    name,
                    _number(step),
                    ratio,
                    _number(row.get("compile_seconds")),
                    _number(memory),
                    _number(row.get("loss")),
                ]
            )
    wide = [max(width(line[n]) for line in cells if line[2] or n == 0) for n in range(len(labels))]
    out: list[Line] = [[]]
    for n, line in enumerate(cells):
        text = "  ".join(cell + " " * max(0, room - width(cell)) for cell, room in zip(line, wide, strict=True))
        out.append([("bold" if n == 0 else "", "  " + text.rstrip())])
    return out
