"""A report: the causes, what to do about the selected one, and the log at its line."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widgets import Footer, Static

from doctor.i18n import pick, tr
from doctor.model import Finding, Report
from doctor.render.text import STYLES, mark, size_text
from doctor.tui.base import TranslatedScreen, ascii_only
from doctor.tui.screens.save import copy, save
from doctor.tui.widgets.causes import CauseTree, Item
from doctor.tui.widgets.detail import Detail
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView


class ResultScreen(TranslatedScreen[None]):
    """Moving in the tree is enough: the other panes follow."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "tui.key.copy"),
        Binding("s", "save", "tui.key.save"),
        Binding("slash", "search", "tui.key.search"),
        Binding("z", "zoom", "tui.key.zoom"),
        Binding("escape", "back", "tui.key.back"),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("copy", "save", "search", "zoom", "back")
    KEY_SECTION = ("help.result", (
        ("c", "key.copy"), ("s", "key.save"), ("z", "key.zoom"), ("Tab", "key.next_pane"), ("Enter", "key.enter"),
    ))  # fmt: skip

    def __init__(self, report: Report, real_paths: dict[str, str], rule: str = "") -> None:
        """``rule``: the diagnosis to begin with, the first one if there is none of that name."""
        super().__init__()
        self._rule = rule
        self.report = report
        self._real_paths = real_paths

    def compose(self) -> ComposeResult:
        yield Static(id="verdict", markup=False)
        with Container(id="panes"):
            yield CauseTree(id="causes")
            yield LogPane(id="log")
            yield Detail(id="detail")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one(LogPane).real_paths = self._real_paths
        super().on_mount()
        self.query_one(CauseTree).focus()
        self.query_one(CauseTree).go_to(self._rule)

    def retranslate(self) -> None:
        lang, report = self.doctor.lang, self.report
        verdict = report.verdict if report.verdict in STYLES else "unknown"
        head = Text(no_wrap=True)
        head.append(f"{mark(verdict, ascii_only())} {tr(lang, f'verdict.{verdict}')}", STYLES[verdict])
        lines = sum(i.lines for i in report.inputs)
        size = size_text(sum(i.size for i in report.inputs))
        read = tr(lang, "inputs", files=len(report.inputs), lines=f"{lines:,}", size=size)
        head.append(f"   {read}", "dim")
        if report.partial:
            head.append(f"   {pick(report.partial, lang)}", "bold yellow")
        self.query_one("#verdict", Static).update(head)
        tree = self.query_one(CauseTree)
        at = tree.cursor_line
        tree.border_title = Text(self.tr("result.causes"))
        tree.fill(report, lang)
        tree.cursor_line = max(0, at)
        self.query_one(LogPane).retranslate()

    @on(CauseTree.NodeHighlighted)
    def _follow(self, event: CauseTree.NodeHighlighted[Item]) -> None:
        item = event.node.data
        self.query_one(Detail).show(item, self._about(item.finding if item else None), self.doctor.lang)
        evidence = item.evidence if item else None
        if evidence is None and item is not None and item.finding is not None and item.finding.evidence:
            evidence = item.finding.evidence[0]
        self.query_one(LogPane).show(evidence)

    @on(CauseTree.NodeSelected)
    def _enter(self, event: CauseTree.NodeSelected[Item]) -> None:
        """Enter goes to the log from a leaf, and folds anything else."""
        if event.node.allow_expand:
            event.node.toggle()
        else:
            self.query_one(LogView).focus()

    def _about(self, finding: Finding | None) -> dict[str, dict[str, str]]:
        """Cause and next of the rule or error code behind a finding."""
        if finding is None:
            return {}
        from doctor.checkup import worded

        base = self.doctor.rulebase()
        if finding.id.startswith("CODE:"):
            code = base.codes.get(finding.id[5:], {})
            return {"cause": code.get("meaning") or {}, "next": code.get("next") or {}}
        if finding.id not in base:
            return {}
        whole: dict[str, Any] = base.whole(finding.id)
        return {key: worded(whole[key], finding.args, whole) for key in ("cause", "next")}

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        copy(self, self.report)

    def action_save(self) -> None:
        """The whole report to a file."""
        save(self, self.report)

    def action_search(self) -> None:
        self.query_one(LogPane).action_search()

    def action_zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        if self.maximized:
            self.minimize()
            return
        focused = self.focused
        if focused is not None:
            pane = next((p for p in focused.ancestors_with_self if isinstance(p, LogPane | Detail | CauseTree)), None)
            if pane is not None:
                self.maximize(pane, container=False)

    def action_back(self) -> None:
        if self.maximized:
            self.minimize()
        else:
            self.dismiss()
