"""The report for people: worst first, one screen, evidence with its neighbours, consequences under their cause.

A layout is a list of lines, each a list of (style, text). Written to a terminal it goes through rich; written to a
file or pipe it is joined as it is, because importing rich costs more than a warm diagnosis.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from doctor.i18n import pick, texts, tr
from doctor.model import Diagnosis, Evidence, Finding, Report
from doctor.render.safe import redact, safe, width
from doctor.run.story import ranks_text as ranks_text  # noqa: PLC0414 - others take it from here
from doctor.scan.lazy import lazy

Span = tuple[str, str]
Line = list[Span]

SHOWN = 3
"""Diagnoses shown in full unless all are asked for: more do not fit a screen and hide the first."""

STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "advice": "cyan",
    "healthy": "bold green",
    "unknown": "bold magenta",
}
_MARKS = {"error": "✖", "warning": "▲", "advice": "•", "healthy": "✔", "unknown": "?"}
_ASCII = {"error": "x", "warning": "!", "advice": "-", "healthy": "+", "unknown": "?"}


def mark(severity: str, ascii_only: bool = False) -> str:
    """A sign that can be read without colour."""
    return (_ASCII if ascii_only else _MARKS)[severity]


def size_text(size: float) -> str:
    """Bytes for people: ``3.9 GB`` in powers of 1024."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return ""


def place_text(diagnosis: Diagnosis, lang: str) -> str:
    """Where a diagnosis happened, empty if that is not known."""
    ranks = diagnosis.ranks or ((diagnosis.place.rank,) if diagnosis.place.rank is not None else ())
    parts = [diagnosis.place.host] if diagnosis.place.host else []
    if ranks:
        parts.append(tr(lang, "rank", ranks=ranks_text(ranks)))
    if diagnosis.place.device is not None:
        parts.append(tr(lang, "device", device=diagnosis.place.device))
    return " ".join(parts)


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most ``columns`` cells; Chinese text breaks anywhere, other text at blanks."""
    out: list[str] = []
    line, used = "", 0
    for word in _words(text):
        cells = width(word)
        if used and used + cells > columns:
            out.append(line.rstrip())
            line, used = "", 0
            word = word.lstrip()
            cells = width(word)
        line += word
        used += cells
    if line.strip() or not out:
        out.append(line.rstrip())
    return out


_CLOSING, _OPENING = "，。；：！？、）》”", "（《“"


def _words(text: str) -> Iterable[str]:
    """The pieces between which a line may break: a closing mark stays with what it closes, an opening one with what
    follows."""
    held = ""
    for piece in _pieces(text):
        if held and (piece[0] in _CLOSING or held[-1] in _OPENING):
            held += piece
            continue
        if held:
            yield held
        held = piece
    if held:
        yield held


def _pieces(text: str) -> Iterable[str]:
    word = ""
    for char in text:
        if char == " ":
            if word.strip():
                yield word
                word = ""
            word += char
        elif width(char) == 2:
            if word:
                yield word
            yield char
            word = ""
        else:
            word += char
    if word:
        yield word


_STEP = lazy(r"(?:^|(?<=[。；：？])|(?<=[。；：？:;.?!] ))([1-9])\) ")


def steps(text: str) -> list[str]:
    """The lines of a text, each step of a list ``1) … 2) …`` in a line of its own.

    >>> steps("First: 1) npu-smi info. 2) lspci (see 1) and compare.")
    ['First:', '1) npu-smi info.', '2) lspci (see 1) and compare.']
    """
    out: list[str] = []
    for part in text.strip().split("\n"):
        begins, wanted = [], 1
        for found in _STEP.finditer(part):
            if int(found[1]) == wanted:
                begins.append(found.start())
                wanted += 1
        if len(begins) < 2:
            out.append(part.strip())
            continue
        lead = part[: begins[0]].strip()
        out += [lead] if lead else []
        out += [part[a:b].strip() for a, b in zip(begins, [*begins[1:], len(part)], strict=True)]
    return out


def step_rows(text: str, columns: int, fold: Callable[[str, int], list[str]] = wrap) -> list[str]:
    """``steps`` in lines of at most ``columns`` cells, the further lines of a step below its words."""
    out: list[str] = []
    for step in steps(text):
        number = step[:3] if _STEP.match(step) else ""
        rows = fold(step[len(number) :], columns - len(number))
        out += [(" " * len(number) if n else number) + row for n, row in enumerate(rows)]
    return out


def source_text(source: str, lang: str) -> str:
    """Where something was seen, in words: an answer of the doctor's own has no command or path of its name."""
    name = f"source.{source.removeprefix('doctor:')}"
    return texts(lang).get(name, source) if source.startswith("doctor:") else source


def _block(label: str, text: str, columns: int, style: str = "") -> list[Line]:
    indent = " " * (width(label) + 5)
    lines = step_rows(text, columns - len(indent))
    return [
        [("bold", f"   {label}  "), (style, line)] if n == 0 else [("", indent + line)] for n, line in enumerate(lines)
    ]


def at_text(evidence: Evidence, lang: str) -> str:
    """``source:line`` of an evidence, the source alone where there is no line."""
    return safe(source_text(evidence.source, lang)) + (f":{evidence.line}" if evidence.line else "")


def _evidence(evidence: Evidence, columns: int, lang: str, context: bool = True) -> list[Line]:
    number = max(len(str(evidence.line + len(evidence.after))), 2) if evidence.line else 0
    out: list[Line] = [[("dim", f"   {at_text(evidence, lang)}")]]
    if not (evidence.text.strip() or evidence.before or evidence.after):
        return out
    room = max(40, columns - number - 9)

    def rows(line: int, text: str, hit: bool) -> list[Line]:
        style = "bold" if hit else "dim"
        lead = f"   {'>' if hit else ' '} {line:>{number}} | " if number else f"   {'>' if hit else ' '} "
        parts = _rows(redact(safe(text)), room, HIT_ROWS if hit else 1)
        further = " " * (len(lead) - 2) + "| " if number else " " * len(lead)
        return [[(style, further if n else lead), (style, part)] for n, part in enumerate(parts)]

    if context:
        for n, text in enumerate(evidence.before):
            out += rows(evidence.line - len(evidence.before) + n, text, False)
    out += rows(evidence.line, evidence.text, True)
    if context:
        for n, text in enumerate(evidence.after[:4], 1):
            if text.strip():
                out += rows(evidence.line + n, text, False)
    return out


HIT_ROWS = 3
"""Rows that the line of a failure may take: what it says often stands behind a long head."""


def _rows(text: str, columns: int, most: int) -> list[str]:
    """A line as at most so many rows, the last one cut off where more follows."""
    parts: list[str] = []
    while width(text) > columns and len(parts) < most - 1:
        part = _cut(text, columns)
        blank = part.rfind(" ", columns * 2 // 3)
        part = part[: blank + 1] if blank > 0 else part
        parts.append(part)
        text = text[len(part) :]
    return [*parts, _cut(text, columns - 1) + "…" if width(text) > columns else text]


def _cut(text: str, columns: int) -> str:
    used = 0
    for n, char in enumerate(text):
        used += width(char)
        if used > columns:
            return text[:n]
    return text


def _consequences(
    diagnosis: Diagnosis, findings: Sequence[Finding], lang: str, columns: int, every: bool
) -> list[Line]:
    rows: dict[str, list[Finding]] = {}
    for index in diagnosis.consequences:
        rows.setdefault(findings[index].id, []).append(findings[index])
    out: list[Line] = []
    shown = list(rows.items()) if every else list(rows.items())[:4]
    for n, (rule, members) in enumerate(shown):
        ranks = [f.place.rank for f in members if f.place.rank is not None]
        first = members[0].evidence[0] if members[0].evidence else None
        where = f" {tr(lang, 'rank', ranks=ranks_text(ranks))}" if ranks else ""
        at = at_text(first, lang) if first else ""
        label = tr(lang, "consequences") if n == 0 else " " * width(tr(lang, "consequences"))
        room = columns - width(label) - 5
        rows_ = wrap(f"{rule}{where}: {redact(safe(pick(members[0].title, lang)))}", room)
        for k, row in enumerate(rows_):
            line: Line = [("bold", f"   {label}  " if k == 0 else " " * (width(label) + 5)), ("", row)]
            if at and k == len(rows_) - 1 and width(row) + width(at) + 2 <= room:
                line.append(("dim", f"  {at}"))
                at = ""
            out.append(line)
        if at:
            out.append([("dim", " " * (width(label) + 5) + at)])
    if len(rows) > len(shown):
        out.append([("dim", "     " + tr(lang, "more", n=len(rows) - len(shown)))])
    return out


def layout(
    report: Report, lang: str, *, columns: int = 100, every: bool = False, ascii_only: bool = False
) -> list[Line]:
    """The report as styled lines, at most ``columns`` cells wide where text can be wrapped."""
    columns = max(60, min(columns, 120))
    out: list[Line] = []
    verdict = report.verdict if report.verdict in _MARKS else "unknown"
    head = f"{mark(verdict, ascii_only)} {tr(lang, f'verdict.{report.verdict}')}"
    out.append([(STYLES[verdict], head)])
    if report.partial:
        out.append([("bold yellow", pick(report.partial, lang))])
    serious = [d for d in report.diagnoses if d.severity != "advice"]
    advice = [d for d in report.diagnoses if d.severity == "advice"]
    shown = report.diagnoses if every else tuple(_distinct(serious)[:SHOWN] or _distinct(advice)[:SHOWN])
    for n, diagnosis in enumerate(shown, 1):
        out += diagnosis_lines(n, diagnosis, report, lang, columns, every, ascii_only)
    rest = [d for d in report.diagnoses if d not in shown]
    if rest:
        out.append([])
        for diagnosis in rest[:6]:
            place = place_text(diagnosis, lang)
            first = diagnosis.evidence[0] if diagnosis.evidence else None
            at = f"  {at_text(first, lang)}" if first else ""
            out.append([
                (STYLES[diagnosis.severity], f"{mark(diagnosis.severity, ascii_only)} "),
                ("", redact(safe(pick(diagnosis.title, lang)))),
                ("dim", f"  {diagnosis.rule}{'  ' + place if place else ''}{at}"),
            ])  # fmt: skip
        if len(rest) > 6:
            out.append([("dim", "  " + tr(lang, "more", n=len(rest) - 6))])
    if report.run:
        from doctor.render import ranks

        said = [f"{f.id}  {pick(f.title, lang)}" for f in report.findings]
        out += ranks.lines(report.run, lang, said=said, every=every, columns=columns, ascii_only=ascii_only)
    if report.series:
        from doctor.render import plot

        drawn = plot.lines(report, lang, every=every, columns=columns, ascii_only=ascii_only)
        out += [[(style, safe(text))] for style, text in drawn]
    if "profile" in report.facts:
        from doctor.render import profile

        table = profile.rows(report, lang, every=every, columns=columns, ascii_only=ascii_only)
        out += [[(style, safe(text))] for style, text in table]
    out += _inputs(report, lang, every, ascii_only)
    if report.diagnoses:
        out.append([("dim", tr(lang, "explain_hint", id=report.diagnoses[0].rule))])
    return out


def _distinct(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    """The diagnoses whose evidence is not already that of one before: a second opinion on a line needs no screen."""
    seen: set[tuple[str, int]] = set()
    out = []
    for diagnosis in diagnoses:
        where = (diagnosis.evidence[0].source, diagnosis.evidence[0].line) if diagnosis.evidence else ("", 0)
        if where not in seen or not where[1]:
            out.append(diagnosis)
        seen.add(where)
    return out


def times_text(diagnosis: Diagnosis, report: Report, lang: str) -> str:
    """How often something happened in a log, or at how many places of a host it is found."""
    return tr(lang, "places" if report.target.get("kind") == "host" else "times", n=diagnosis.times)


def diagnosis_lines(
    n: int, diagnosis: Diagnosis, report: Report, lang: str, columns: int, every: bool, ascii_only: bool
) -> list[Line]:
    """One diagnosis in full, number ``n`` of the report."""
    place = place_text(diagnosis, lang)
    facts = [
        diagnosis.rule, tr(lang, f"severity.{diagnosis.severity}"), tr(lang, f"confidence.{diagnosis.confidence}"),
        *([place] if place else []), *([times_text(diagnosis, report, lang)] if diagnosis.times > 1 else []),
    ]  # fmt: skip
    title = redact(safe(pick(diagnosis.title, lang)))
    sign = f"{n}. {mark(diagnosis.severity, ascii_only)} "
    rows = wrap(title, columns - width(sign))
    out: list[Line] = [[]]
    for k, row in enumerate(rows):
        out.append([(STYLES[diagnosis.severity], (sign if k == 0 else " " * width(sign)) + row)])
    out.append([("dim", "   " + " · ".join(facts) if not ascii_only else "   " + " | ".join(facts))])
    if diagnosis.note:
        out += _block("!", redact(safe(pick(diagnosis.note, lang))), columns)
    for k, evidence in enumerate(diagnosis.evidence if every else diagnosis.evidence[:1]):
        out += _evidence(evidence, columns, lang, context=k == 0)
    out += _block(tr(lang, "cause"), redact(_printable_lines(pick(diagnosis.cause, lang))), columns)
    out += _block(tr(lang, "next"), redact(_printable_lines(pick(diagnosis.next, lang))), columns)
    for fix in diagnosis.fixes:
        out += _block(tr(lang, "fix"), redact(_printable_lines(pick(fix.text, lang))), columns)
    out += _consequences(diagnosis, report.findings, lang, columns, every)
    return out


def _printable_lines(text: str) -> str:
    return "\n".join(safe(part) for part in text.split("\n"))


def _inputs(report: Report, lang: str, every: bool, ascii_only: bool) -> list[Line]:
    out: list[Line] = [[]]
    noise = sum(f.times for f in report.findings if f.role == "noise")
    total = sum(i.size for i in report.inputs)
    lines = sum(i.lines for i in report.inputs)
    kinds = dict.fromkeys(k for i in report.inputs for k in i.kinds)
    text = tr(lang, "inputs", files=len(report.inputs), lines=f"{lines:,}", size=size_text(total))
    if kinds:
        text += " " + tr(lang, "kinds", kinds=", ".join(tr(lang, f"kind.{k}") for k in kinds))
    out.append([("dim", text)])
    about = [f for f in report.findings if f.id in ("INPUT", "RULES")]
    for finding in about if every else about[:6]:
        why = f": {pick(finding.why, lang)}" if finding.why and finding.severity != "advice" else ""
        style = STYLES[finding.severity] if finding.severity != "advice" else "dim"
        out.append([(style, f"{mark(finding.severity, ascii_only)} {redact(safe(pick(finding.title, lang) + why))}")])
    if len(about) > 6 and not every:
        out.append([("dim", tr(lang, "more", n=len(about) - 6))])
    if noise:
        out.append([("dim", f"{tr(lang, 'noise')}: {noise}")])
    return out


def plain(lines: Sequence[Line]) -> str:
    """The layout without styles."""
    return "\n".join("".join(text for _, text in line).rstrip() for line in lines) + "\n"


def write(lines: Sequence[Line], file: TextIO, *, colour: bool) -> None:
    """Write a layout; with colour through rich, which knows terminals."""
    if not colour:
        file.write(plain(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=file, highlight=False, emoji=False, markup=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((text, style) for style, text in line)))


def terminal_columns(file: TextIO) -> int:
    """Width of the terminal behind a stream, 100 for files and pipes."""
    try:
        return os.get_terminal_size(file.fileno()).columns
    except (OSError, ValueError):
        return 100


def can_encode(file: TextIO) -> bool:
    """Whether the stream can show the marks; else ASCII is used."""
    try:
        "✖▲•✔".encode(file.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return not os.environ.get("DOCTOR_ASCII")


def wants_colour(file: TextIO, no_color: bool) -> bool:
    """Colour only on a terminal and only if nobody said no (NO_COLOR, --no-color, TERM=dumb)."""
    return not (no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb") and file.isatty()


def emit(report: Report, lang: str, *, every: bool = False, no_color: bool = False, file: TextIO | None = None) -> None:
    """Print a report for people."""
    out = file or sys.stdout
    lines = layout(report, lang, columns=terminal_columns(out), every=every, ascii_only=not can_encode(out))
    write(lines, out, colour=wants_colour(out, no_color))
