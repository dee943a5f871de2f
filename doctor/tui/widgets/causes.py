"""The diagnoses as a tree: worst first, consequences and evidence folded under their cause."""

from __future__ import annotations

from typing import NamedTuple

from rich.cells import set_cell_size
from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Evidence, Finding, Report
from doctor.render.text import mark, place_text, ranks_text
from doctor.tui.base import ascii_only, outside

STYLES = {"error": "bold red", "warning": "bold yellow", "advice": "cyan"}


class Item(NamedTuple):
    """What a node of the tree stands for."""

    diagnosis: Diagnosis | None = None
    finding: Finding | None = None
    evidence: Evidence | None = None


class CauseTree(Tree[Item]):
    """Selecting a node tells the screen what to explain and which line to show."""

    ICON_NODE = "▸ "
    ICON_NODE_EXPANDED = "▾ "

    def __init__(self, id: str | None = None) -> None:
        super().__init__(Text(" "), id=id)
        self.show_root = False
        self.guide_depth = 3
        self.auto_expand = False
        if ascii_only():
            self.ICON_NODE, self.ICON_NODE_EXPANDED = "+ ", "- "
            self.show_guides = False

    def fill(self, report: Report, lang: str) -> None:
        """Show a report; the first diagnosis is unfolded and under the cursor."""
        self.clear()
        for n, diagnosis in enumerate(report.diagnoses):
            self._diagnosis(report, diagnosis, lang, open_=n == 0)
        about = [f for f in report.findings if f.id in ("INPUT", "RULES")]
        if about:
            node = self.root.add(Text(f"{tr(lang, 'tui.result.inputs')} ({len(about)})"), Item(), expand=not report.diagnoses)
            for finding in about:
                node.add_leaf(_label(finding.severity, outside(pick(finding.title, lang))), Item(finding=finding))
        if not report.diagnoses and not about:
            self.root.add_leaf(Text(tr(lang, f"verdict.{report.verdict}")), Item())
        self.cursor_line = 0

    def _diagnosis(self, report: Report, diagnosis: Diagnosis, lang: str, *, open_: bool) -> None:
        place = place_text(diagnosis, lang)
        sure = tr(lang, f"confidence.{diagnosis.confidence}")
        label = _label(diagnosis.severity, outside(pick(diagnosis.title, lang)))
        label.append(f"  {diagnosis.rule}{'  ' + outside(place) if place else ''}  {sure}", "dim")
        first = diagnosis.evidence[0] if diagnosis.evidence else None
        node = self.root.add(label, Item(diagnosis, None, first), expand=open_)
        for evidence in diagnosis.evidence:
            node.add_leaf(Text(f"{tr(lang, 'evidence')}  {outside(_at(evidence))}", "dim"), Item(diagnosis, None, evidence))
        rows: dict[str, list[Finding]] = {}
        for index in diagnosis.consequences:
            rows.setdefault(report.findings[index].id, []).append(report.findings[index])
        if rows:
            below = node.add(Text(f"{tr(lang, 'consequences')} ({len(rows)})"), Item(diagnosis, None, first), expand=open_)
            room = max(map(len, rows))
            for members in rows.values():
                self._consequence(below, members, room, lang)

    def _consequence(self, node: TreeNode[Item], members: list[Finding], room: int, lang: str) -> None:
        first = members[0]
        ranks = [f.place.rank for f in members if f.place.rank is not None]
        where = tr(lang, "rank", ranks=ranks_text(ranks)) if ranks else ""
        label = _label(first.severity, set_cell_size(first.id, room), "")
        label.append(f"  {outside(pick(first.title, lang))}")
        if where:
            label.append(f"  {where}", "dim")
        item = Item(None, first, first.evidence[0] if first.evidence else None)
        if len(members) == 1:
            node.add_leaf(label, item)
            return
        below = node.add(label, item)
        for finding in members:
            at = finding.evidence[0] if finding.evidence else None
            rank = tr(lang, "rank", ranks=finding.place.rank) if finding.place.rank is not None else "-"
            below.add_leaf(Text(f"{rank}  {outside(_at(at)) if at else ''}"), Item(None, finding, at))


def _at(evidence: Evidence) -> str:
    return f"{evidence.source}:{evidence.line}" if evidence.line else evidence.source


def _label(severity: str, text: str, style: str | None = None) -> Text:
    label = Text(f"{mark(severity, ascii_only())} ", STYLES[severity])
    label.append(text, "" if style is not None else STYLES[severity] if severity == "error" else "")
    label.no_wrap = True
    return label
