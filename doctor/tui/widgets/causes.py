"""The diagnoses as a tree: worst first, consequences and evidence folded under their cause."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.widgets.tree import TreeNode

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Evidence, Finding, Report
from doctor.render.text import STYLES, mark, place_text, ranks_text
from doctor.tui.base import ascii_only, outside
from doctor.tui.widgets.foldtree import FoldTree

RULE_FROM = 60
"""Columns from which the rule's id is shown beside a diagnosis."""


class Item(NamedTuple):
    """What a node of the tree stands for."""

    diagnosis: Diagnosis | None = None
    finding: Finding | None = None
    evidence: Evidence | None = None
    tail: str = ""
    """shown at the end of the row, also when the label must be cut"""
    where: str = ""
    """a source and line after the label; of a long one its end is shown"""


class CauseTree(FoldTree[Item]):
    """Moving the cursor tells the screen what to explain and which line to show."""

    def fill(self, report: Report, lang: str) -> None:
        """Show a report; the first diagnosis is unfolded and under the cursor."""
        self.clear()
        for n, diagnosis in enumerate(report.diagnoses):
            self._diagnosis(report, diagnosis, lang, open_=n == 0)
        about = [f for f in report.findings if f.id in ("INPUT", "RULES")]
        if about:
            title = f"{tr(lang, 'tui.result.inputs')} ({len(about)})"
            node = self.root.add(Text(title), Item(), expand=not report.diagnoses)
            for finding in about:
                node.add_leaf(_label(finding.severity, outside(pick(finding.title, lang))), Item(finding=finding))
        if not report.diagnoses and not about:
            self.root.add_leaf(Text(tr(lang, f"verdict.{report.verdict}")), Item())
        self.cursor_line = 0

    def go_to(self, rule: str) -> None:
        """Unfold the diagnosis of a rule and put the cursor on it."""
        for node in self.root.children:
            if node.data is not None and node.data.diagnosis is not None and node.data.diagnosis.rule == rule:
                node.expand()
                self.call_after_refresh(self.move_cursor, node)
                return

    def _diagnosis(self, report: Report, diagnosis: Diagnosis, lang: str, *, open_: bool) -> None:
        tail = [outside(place_text(diagnosis, lang)), tr(lang, f"confidence.{diagnosis.confidence}")]
        label = _label(diagnosis.severity, outside(pick(diagnosis.title, lang)), STYLES[diagnosis.severity])
        first = diagnosis.evidence[0] if diagnosis.evidence else None
        item = Item(diagnosis, None, first, "  ".join(t for t in tail if t))
        node = self.root.add(label, item, expand=open_)
        for evidence in diagnosis.evidence:
            item = Item(diagnosis, None, evidence, where=outside(at_text(evidence)))
            node.add_leaf(Text(f"{tr(lang, 'evidence')}  ", "dim"), item)
        rows: dict[str, list[Finding]] = {}
        for index in diagnosis.consequences:
            rows.setdefault(report.findings[index].id, []).append(report.findings[index])
        if rows:
            title = f"{tr(lang, 'consequences')} ({len(rows)})"
            below = node.add(Text(title), Item(diagnosis, None, first), expand=open_)
            room = min(8, max(map(len, rows)))
            for members in rows.values():
                self._consequence(below, members, room, lang)

    def _consequence(self, node: TreeNode[Item], members: list[Finding], room: int, lang: str) -> None:
        first = members[0]
        ranks = [f.place.rank for f in members if f.place.rank is not None]
        where = tr(lang, "rank", ranks=ranks_text(ranks)) if ranks else ""
        name = set_cell_size(first.id, room) if len(first.id) < room else first.id
        label = _label(first.severity, f"{name} {outside(pick(first.title, lang))}")
        item = Item(None, first, first.evidence[0] if first.evidence else None, where)
        if len(members) == 1:
            node.add_leaf(label, item)
            return
        below = node.add(label, item)
        for finding in members:
            at = finding.evidence[0] if finding.evidence else None
            rank = tr(lang, "rank", ranks=finding.place.rank) if finding.place.rank is not None else "-"
            item = Item(None, finding, at, where=outside(at_text(at)) if at else "")
            below.add_leaf(Text(f"{rank}  ", "dim"), item)

    def render_label(self, node: TreeNode[Item], base_style: Style, style: Style) -> Text:
        """A label cut to the width, so that its tail can always be seen."""
        label = super().render_label(node, base_style, style)
        width = self.scrollable_content_region.width
        if node.data is None or width <= 0:
            return label
        room = self.room(node)
        tail = node.data.tail
        if node.data.diagnosis is not None and tail and width >= RULE_FROM:
            tail = f"{node.data.diagnosis.rule}  {tail}"
        if node.data.where:
            where, left = node.data.where, room - label.cell_len
            if cell_len(where) > left > 1:
                more = "~" if ascii_only() else "…"
                where = more + set_cell_size(where[::-1], left - 1)[::-1]
            return label.append(where, self.faint(node, style))
        tail = f"  {tail}" if tail else ""
        while cell_len(tail) > room // 2 and "  " in tail.strip():
            tail = tail.rpartition("  ")[0]  # a piece less is better than half a piece
        if cell_len(tail) > room // 2:
            tail = set_cell_size(tail, max(0, room // 2 - 1)) + ("~" if ascii_only() else "…")
        return self.tailed(node, label, tail, style)


def at_text(evidence: Evidence) -> str:
    """Source and line."""
    return f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source


def _label(severity: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{mark(severity, ascii_only())} ", STYLES[severity]), (text, style))
