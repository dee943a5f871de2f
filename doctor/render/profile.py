"""Where the time of a profiled run goes, as a table: steps by rank, operators by class, communication, data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doctor.i18n import tr
from doctor.model import Report
from doctor.render.safe import safe, width

Rows = list[tuple[str, str]]

_ASCII = str.maketrans({"×": "x", "·": "|", "–": "-"})
RANKS = 8
"""Ranks shown unless all are asked for."""
STEP = ("computing", "exposed", "free", "bubble", "preparing", "overlapped")
SPANS = {
    "profile.comm": ("wait_ratio", "rdma_gbs", "hccs_gbs", "large_packets"),
    "profile.data": ("data_gap", "queue_empty", "batch_ms", "pipeline_ms", "push_ms"),
}
CLASSES = ("matmul", "attention", "vector", "copy", "aicpu")


def rows(report: Report, lang: str, *, every: bool = False, columns: int = 100, ascii_only: bool = False) -> Rows:
    """(style, text) of each line; nothing of a report without a profile."""
    fact = report.facts.get("profile")
    shown: Mapping[str, Any] = fact["value"] if isinstance(fact, dict) else {}
    profiles = [p for p in shown.get("profiles", ()) if p["values"]]
    if not profiles:
        return []
    out: Rows = [("", ""), ("bold", tr(lang, "profile.title"))]
    out += _steps(profiles, lang, every)
    out += _operators(profiles, lang, columns)
    out += _aicpu(profiles, lang)
    out += _single(profiles, lang)
    out += _read(shown.get("files", ()), lang, every)
    return [(style, text.translate(_ASCII)) for style, text in out] if ascii_only else out


def _name(profile: Mapping[str, Any], lang: str) -> str:
    if profile["rank"] is not None:
        return tr(lang, "rank", ranks=profile["rank"])
    return safe(str(profile["name"]).rsplit("/", 1)[-1])[-24:] or tr(lang, "profile.one")


def _row(lang: str, label: str, words: str) -> tuple[str, str]:
    return "", "   " + tr(lang, "profile.row", label=label, text=words)


def _cell(value: Any, unit: str) -> str:
    return "-" if value is None else f"{value:,.1f} {unit}"


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> Rows:
    """Columns of equal width, the first to the left, the others to the right."""
    sizes = [max(width(row[n]) for row in (head, *body)) for n in range(len(head))]
    made: Rows = []
    for k, row in enumerate((head, *body)):
        cells = [
            row[n] + " " * (sizes[n] - width(row[n])) if n == 0 else " " * (sizes[n] - width(row[n])) + row[n]
            for n in range(len(row))
        ]
        made.append(("dim" if k == 0 else "", "   " + "  ".join(cells).rstrip()))
    return made


def _steps(profiles: Sequence[Mapping[str, Any]], lang: str, every: bool) -> Rows:
    told = [p for p in profiles if "step_ms" in p["values"]]
    if not told:
        return []
    names = [n for n in STEP if any(n in p["values"] for p in told)]
    # the ranks that compute longest are those that matter
    told.sort(key=lambda p: -p["values"]["step_ms"] * p["values"].get("computing", 0))
    kept = told if every else told[:RANKS]
    kept = sorted(kept, key=lambda p: (p["rank"] is None, p["rank"] or 0, p["name"]))
    head = ["", tr(lang, "profile.step"), *(tr(lang, f"profile.{n}") for n in names)]
    body = [
        [_name(p, lang), _cell(p["values"]["step_ms"], "ms"), *(_cell(p["values"].get(n), "%") for n in names)]
        for p in kept
    ]
    more: Rows = [("dim", "   " + tr(lang, "more", n=len(told) - len(kept)))] if len(told) > len(kept) else []
    return _table(head, body) + more


def _operators(profiles: Sequence[Mapping[str, Any]], lang: str, columns: int) -> Rows:
    """Of the rank whose operators take longest."""
    told = [p for p in profiles if "op_ms" in p["values"]]
    if not told:
        return []
    one = max(told, key=lambda p: float(p["values"]["op_ms"]))
    values = one["values"]
    parts = [f"{tr(lang, f'profile.{n}')} {values[n]:.1f} %" for n in CLASSES if values.get(n)]
    whose = f" ({_name(one, lang)})" if len(told) > 1 else ""
    label = tr(lang, "profile.operators") + whose
    out: Rows = [_row(lang, label, f"{_cell(values['op_ms'], 'ms')} = {' + '.join(parts)}")]
    top = ", ".join(f"{safe(str(t['type']))[:40]} {t['percent']} % (×{t['count']:.0f})" for t in one["top"][:6])
    if top:
        room = columns
        line = _row(lang, tr(lang, "profile.top"), top)[1]
        while width(line) > room and ", " in line:
            line = line.rsplit(", ", 1)[0]
        out.append(("dim", line))
    used = [
        f"{tr(lang, f'profile.{n}')} {values[n]:.1f} %" for n in ("mac", "cube", "dynamic", "memcpy") if values.get(n)
    ]  # fmt: skip
    if used:
        out.append(("dim", "   " + " · ".join(used)))
    return out


def _aicpu(profiles: Sequence[Mapping[str, Any]], lang: str) -> Rows:
    """Of profiles whose AI CPU has a table of its own and the other operators have none."""
    told = [p for p in profiles if "aicpu_ms" in p["values"] and "op_ms" not in p["values"]]
    if not told:
        return []
    values = max(told, key=lambda p: float(p["values"]["aicpu_ms"]))["values"]
    return [_row(lang, "AI CPU", f"{_cell(values['aicpu_ms'], 'ms')} = {safe(str(values.get('aicpu_top', '')))[:200]}")]


def _single(profiles: Sequence[Mapping[str, Any]], lang: str) -> Rows:
    """Communication and data: the span over the ranks."""
    out: Rows = []
    for label, names in SPANS.items():
        parts = []
        for name in names:
            found = sorted(p["values"][name] for p in profiles if name in p["values"])
            if found:
                unit = "GB/s" if name.endswith("gbs") else "ms" if name.endswith("_ms") else "%"
                span = f"{found[0]:,.1f}" if found[0] == found[-1] else f"{found[0]:,.1f}–{found[-1]:,.1f}"
                parts.append(f"{tr(lang, f'profile.{name}')} {span} {unit}")
        if parts:
            out.append(_row(lang, tr(lang, label), " · ".join(parts)))
    return out


def _read(files: Sequence[Mapping[str, Any]], lang: str, every: bool) -> Rows:
    """Rows that could not be read; with ``every`` also which columns were read, and which nobody asked for."""
    out: Rows = []
    alike: dict[tuple[str, str, str], list[int]] = {}
    for file in files:
        name = safe(str(file["name"]))
        if file["unreadable_rows"]:
            text = tr(lang, "profile.bad_rows", name=name, n=file["unreadable_rows"], rows=file["rows"])
            out.append(("bold yellow", f"   {text}"))
        if every and file["columns"] and file["table"] not in ("data", "communication", "matrix"):
            used, unused = (", ".join(map(safe, file[key][:40])) for key in ("columns", "unused"))
            alike.setdefault((name.rsplit("/", 1)[-1], used, unused), []).append(file["rows"])
    for (name, used, unused), counts in alike.items():
        label = f"{name} (×{len(counts)})" if len(counts) > 1 else name
        out.append(("dim", "   " + tr(lang, "profile.columns", name=label, rows=sum(counts), used=used)))
        if unused:
            out.append(("dim", "     " + tr(lang, "profile.unused", unused=unused)))
    return out
