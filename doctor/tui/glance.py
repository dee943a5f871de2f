"""The machine at a glance, as styled lines: verdict, what is wrong, the chain, the devices, how they are joined.

Works while checks are still running: what is not known yet is left out, and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from doctor.i18n import pick, tr
from doctor.model import Verdict
from doctor.render import chain, checks, topology
from doctor.render.safe import redact, safe, width
from doctor.render.text import STYLES, Line, mark, wrap
from doctor.render.topology import clip
from doctor.tui.checking import Checking

DEVICES = 16
"""Devices that are shown one by one."""

_FORMS = (
    (True, True, True, True), (True, True, False, True), (False, True, False, True), (True, False, False, True),
    (True, False, False, False), (False, False, False, False),
)  # fmt: skip
"""From the longest to the shortest: chain drawn, devices one by one, network drawn, blank lines between."""


def lines(checking: Checking | None, lang: str, columns: int, rows: int, ascii_only: bool) -> list[Line]:
    """Lines of at most ``columns`` cells for a pane of ``rows`` rows; the most telling come first."""
    if checking is None:
        return [[("dim", tr(lang, "tui.glance.idle"))]]
    head = _head(checking, lang, columns, ascii_only)
    none = [] if not checking.no_npu() else [[("", row)] for row in wrap(tr(lang, "tui.glance.no_npu"), columns)]
    out: list[Line] = []
    broken = (checking.value("ver.chain") or {}).get("whole") is False
    for chain_drawn, one_by_one, whole, spaced in _FORMS:
        if broken and not chain_drawn and spaced:
            continue  # a broken chain tells more than devices one by one
        parts = [
            _wrong(checking, lang, columns, ascii_only, 6 if spaced else 3),
            _chain(checking, lang, columns, ascii_only, chain_drawn),
            _devices(checking, lang, columns, ascii_only, one_by_one),
            _joined(checking, lang, columns, ascii_only, whole),
            none,
        ]
        out = list(head)
        for part in parts:
            out += [*([[]] if part and spaced else []), *part]
        if len(out) <= rows:
            break
    return out


def _head(checking: Checking, lang: str, columns: int, ascii_only: bool) -> list[Line]:
    """The verdict and the counts, or how far the checks are."""
    where: Line = []
    if checking.name:
        where = [("bold", clip(redact(safe(checking.name)), columns, ascii_only))]
    out = [where] if where else []
    if checking.error:
        said = redact(safe(checking.error))
        return [*out, *([(STYLES["error"], row)] for row in wrap(said, columns))]
    report = checking.report
    if report is None or checking.working:
        if checking.stopping:
            said = tr(lang, "tui.glance.stopping")
        elif checking.repeated:
            said = tr(lang, "tui.glance.repeating", id=checking.repeated)
        else:
            said = tr(lang, "check.progress", done=checking.done, total=checking.total or "…")
            if ascii_only:
                said = said.replace("…", "...")
        out.append([("bold", said)])
        return [*out, *([("dim", row)] for row in wrap(_so_far(checking, lang), columns) if row)]
    out += checks.head(report, lang, ascii_only)
    return [*out, *([("dim", row)] for row in wrap(checks.counts(report, lang, host=not checking.name), columns))]


def _so_far(checking: Checking, lang: str) -> str:
    """How many checks said what until now."""
    number = Counter(f.verdict for f in checking.findings)
    shown = [v for v in (Verdict.FAIL, Verdict.PASS, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE) if number[v]]
    return ("，" if lang == "zh" else ", ").join(tr(lang, f"check.count.{v.value}", n=number[v]) for v in shown)


def _wrong(checking: Checking, lang: str, columns: int, ascii_only: bool, most: int) -> list[Line]:
    """What failed, worst first: diagnoses when there are some, else findings as they come in."""
    order = ("error", "warning", "advice")
    if checking.report is not None:
        found = [(d.severity, pick(d.title, lang), d.rule) for d in checking.report.diagnoses]
    else:
        failed = [f for f in checking.findings if f.verdict is Verdict.FAIL]
        failed.sort(key=lambda f: order.index(f.severity))
        found = [(f.severity, pick(f.title, lang), f.id) for f in failed]
    out: list[Line] = []
    for severity, title, rule in found[:most]:
        room = columns - 3 - len(rule) - 2
        text = clip(redact(safe(title)), room, ascii_only)
        out.append([
            (STYLES[severity], f"{mark(severity, ascii_only)} {text}"),
            ("dim", " " * (room - width(text) + 2) + rule),
        ])  # fmt: skip
    if len(found) > most:
        out.append([("dim", "  " + tr(lang, "more", n=len(found) - most))])
    return out


def _chain(checking: Checking, lang: str, columns: int, ascii_only: bool, drawn_out: bool) -> list[Line]:
    """The version chain: link by link, or in a line."""
    value = checking.value("ver.chain")
    if not isinstance(value, Mapping):
        return []
    if drawn_out:
        drawn = chain.draw(value, columns, ascii_only=ascii_only, lang=lang)
        # the commands of the proposal are for the machine screen: here a long one would only be cut
        drawn = [row for row in drawn if not row.startswith(chain.COMMAND)]
        if drawn:
            return _plain(drawn)
    rows = chain.inline(value, columns, ascii_only=ascii_only, lang=lang)
    broken = value.get("whole") is False
    return [[("bold yellow" if broken else "", redact(safe(row)))] for row in rows]


def _devices(checking: Checking, lang: str, columns: int, ascii_only: bool, one_by_one: bool) -> list[Line]:
    """The devices: health, memory, temperature, load; one by one, or all in a line."""
    table = checking.value("npu.table")
    devices = [one for one in table if isinstance(one, Mapping)] if isinstance(table, Sequence) else []
    if not devices:
        return []
    names = Counter(str(one.get("name") or "?") for one in devices)
    title = tr(lang, "tui.glance.devices", n=len(devices), name=safe(", ".join(names)))
    title = title.replace("×", "x") if ascii_only else title
    if not one_by_one or len(devices) > DEVICES:
        return [[("", row)] for row in wrap(f"{title}{tr(lang, 'tui.glance.colon')}{_all(devices, lang)}", columns)]
    out: list[Line] = [[("bold", title)]]
    for one in devices:
        used, total = _memory(one)
        bar = _bar(used, total, 10, ascii_only)
        health = safe(str(one.get("health") or "?"))
        style = {"OK": "green", "?": "magenta"}.get(health, "bold yellow" if health == "Warning" else "bold red")
        label = f"{safe(str(one.get('label', '?'))):>4}  "
        row: Line = [("", label), (style, f"{health:<8}"), ("cyan", bar)]
        cells = [
            f" {_size(used)}/{_size(total)} GB" if total else "",
            _unit(one.get("temperature"), " C" if ascii_only else " °C"),
            _unit(one.get("power"), " W"),
            _unit(one.get("aicore"), " % AI Core"),
        ]
        room = columns - width(label) - 8 - width(bar)
        for cell in filter(None, cells):
            if width(cell) + 2 <= room:
                row.append(("", cell + "  "))
                room -= width(cell) + 2
        out.append(row)
    return out


def _all(devices: Sequence[Mapping[str, Any]], lang: str) -> str:
    """Many devices in words: how many are in what health, the fullest memory, the range of temperatures."""
    health = Counter(str(one.get("health") or "?") for one in devices)
    parts = [f"{n} {safe(word)}" for word, n in sorted(health.items())]
    fullest = max((_memory(one) for one in devices), key=lambda pair: pair[0] / pair[1] if pair[1] else 0.0)
    if fullest[1]:
        parts.append(tr(lang, "tui.glance.memory", used=_size(fullest[0]), total=_size(fullest[1])))
    heat = [one["temperature"] for one in devices if isinstance(one.get("temperature"), (int, float))]
    if heat:
        parts.append(f"{min(heat):g} °C" if min(heat) == max(heat) else f"{min(heat):g}-{max(heat):g} °C")
    return ("，" if lang == "zh" else ", ").join(parts)


def _memory(device: Mapping[str, Any]) -> tuple[float, float]:
    """(used, total) MB as npu-smi says; (0, 0) if it does not."""
    pair = device.get("memory")
    if isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(one, (int, float)) for one in pair):
        return float(pair[0]), float(pair[1])
    return 0.0, 0.0


def _size(megabytes: float) -> str:
    return f"{megabytes / 1024:.1f}"


def _unit(value: Any, unit: str) -> str:
    return f"{value:g}{unit}" if isinstance(value, (int, float)) and not isinstance(value, bool) else ""


def _bar(used: float, total: float, cells: int, ascii_only: bool) -> str:
    full = round(cells * min(1.0, used / total)) if total > 0 else 0
    return ("#" if ascii_only else "█") * full + ("." if ascii_only else "░") * (cells - full) if total > 0 else ""


def _joined(checking: Checking, lang: str, columns: int, ascii_only: bool, whole: bool) -> list[Line]:
    value = checking.value("net.topology")
    if not isinstance(value, Mapping):
        return []
    draw = topology.draw if whole else topology.brief
    return _plain(draw(value, columns, ascii_only=ascii_only, lang=lang))


def _plain(rows: Sequence[str]) -> list[Line]:
    return [[("", redact(safe(row)))] for row in rows]
