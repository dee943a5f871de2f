"""A report: causes with consequences and evidence, the ranks over time, plots, what was read; the log beside each."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from doctor.i18n import pick, tr
from doctor.model import Evidence, Finding, Report
from doctor.render import lanes
from doctor.render.text import STYLES, mark, place_text, ranks_text, size_text
from doctor.tui.base import TranslatedScreen, ascii_only, outside, tail
from doctor.tui.files import short_names
from doctor.tui.parts import Part, parts_of
from doctor.tui.screens.copy import CopyScreen
from doctor.tui.screens.save import copy, copy_text, save
from doctor.tui.widgets.causes import CauseTree, Item
from doctor.tui.widgets.detail import Detail
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView
from doctor.tui.widgets.plots import PlotPane, plots_of
from doctor.tui.widgets.timeline import Timeline

TABS = ("causes", "timeline", "plots", "inputs")
"""The pages in the order of their keys."""

PANES = {"causes": ("#causes", "#detail"), "timeline": ("#lanes", "#events"), "plots": ("#plot-list",),
         "inputs": ("#input-table",)}  # fmt: skip
"""What can have the focus on each page; the log comes after them."""

INPUT_COLUMNS = ("state", "rank", "name", "kind", "lines", "size", "why")
LEAST_NAME = 20
"""Cells that the name of an input has at least."""

MOST_EVENTS = 2000
"""Rows of the table of events."""


class ResultScreen(TranslatedScreen[None]):
    """Moving on any page is enough: the log follows. A narrow terminal shows the page or the log."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"tab('{name}')", f"tui.tab.{name}", show=False) for n, name in enumerate(TABS, 1)),
        Binding("tab", "pane(1)", "tui.key.next_pane", show=False),
        Binding("shift+tab", "pane(-1)", "tui.key.next_pane", show=False),
        Binding("c", "copy", "tui.key.copy"),
        Binding("y", "take", "tui.key.take_part"),
        Binding("s", "save", "tui.key.save"),
        Binding("p", "patch", "tui.key.patch"),
        Binding("slash", "search", "tui.key.search"),
        Binding("z", "zoom", "tui.key.zoom", show=False),
        Binding("escape", "back", "tui.key.back"),
        # where they stand they leave no room for the keys of this screen
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("copy", "take", "save", "search", "zoom", "back")
    KEY_SECTION = ("help.result", (
        ("1 … 4", "key.result_pages"), ("Tab", "key.next_pane"), ("Enter", "key.enter"), ("c", "key.copy"),
        ("y", "key.take_part"), ("s", "key.save"), ("p", "key.patch"), ("z", "key.zoom"), ("Left Right", "key.event"),
        ("+ -", "key.wider"), ("f", "key.fold"), ("w", "key.whole"),
    ))  # fmt: skip

    def __init__(self, report: Report, real_paths: dict[str, str], rule: str = "") -> None:
        """``rule``: the diagnosis to begin with, the first one if there is none of that name."""
        super().__init__()
        self._first_rule = rule
        self.report = report
        self._real_paths = real_paths
        self.tabs = tuple(
            name for name in TABS
            if (name != "timeline" or lanes.whole(report.run)) and (name != "plots" or plots_of(report))
        )  # fmt: skip
        """the pages that have something to show"""
        self._item: Item | None = None

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        tabs: list[tuple[str, Callable[[], Any]]] = [(name, partial(self.action_tab, name)) for name in self.tabs]
        return [*tabs, *super().commands(), *([("patch", self.action_patch)] if self._fixable() else [])]

    def compose(self) -> ComposeResult:
        yield Static(id="verdict", markup=False)
        with Container(id="body", classes="-causes"):
            with TabbedContent(id="result-tabs"):
                with TabPane(" ", id="causes-page"), Vertical(id="cause-panes"):
                    yield CauseTree(id="causes")
                    yield Detail(id="detail")
                if "timeline" in self.tabs:
                    with TabPane(" ", id="timeline-page"), Vertical(id="timeline-panes"):
                        yield Static(id="run-note", markup=False)
                        yield Timeline(id="lanes")
                        yield DataTable(id="events", cursor_type="row")
                if "plots" in self.tabs:
                    with TabPane(" ", id="plots-page"):
                        yield PlotPane(id="plot-panes")
                with TabPane(" ", id="inputs-page"):
                    yield DataTable(id="input-table", cursor_type="row")
            yield LogPane(id="log")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one(LogPane).real_paths = self._real_paths
        super().on_mount()
        self.set_focus(self.query_one(CauseTree))
        self.query_one(CauseTree).go_to(self._first_rule)

    # ------------------------------------------------------------------ texts

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
        tabs = self.query_one("#result-tabs", TabbedContent)
        for name in self.tabs:
            tabs.get_tab(f"{name}-page").label = Text(f"{TABS.index(name) + 1} {self.tr('tab.' + name)}")
        tree = self.query_one(CauseTree)
        at = tree.cursor_line
        tree.border_title = Text(self.tr("result.causes"))
        tree.fill(report, lang)
        tree.cursor_line = max(0, at)
        if "timeline" in self.tabs:
            self._timeline()
        if "plots" in self.tabs:
            self.query_one(PlotPane).fill(report, lang)
        self._inputs()
        self.query_one(LogPane).retranslate()

    def _timeline(self) -> None:
        lang, view, table = self.doctor.lang, self.query_one(Timeline), self.query_one("#events", DataTable)
        view.fill(self.report.run, lang)
        note = Text()
        for style, text in lanes.head(self.report.run, lang, ascii_only()):
            note.append(text, style)
        note.append("\n" + "  ".join(
            f"{'X' if what == 'cause' and ascii_only() else sign} {tr(lang, f'lane.what.{what}')}"
            for what, sign in reversed(lanes.MARKS.items())
        ), "dim")  # fmt: skip
        self.query_one("#run-note", Static).update(note)
        table.clear(columns=True)
        for key in ("time", "ranks", "what", "line"):
            table.add_column(Text(self.tr(f"timeline.column.{key}")), key=key)
        days = {lanes.clock(e["seconds"], day=True)[:5] for e in view.events}
        for event in view.events[:MOST_EVENTS]:
            ranks = lanes.event_ranks(event)
            style = lanes.MARK_STYLES.get(event["what"], "").replace(" reverse", "")
            table.add_row(
                Text(lanes.clock(event["seconds"], day=len(days) > 1)),
                Text(lanes.cut(ranks_text(ranks), 16).rstrip() if ranks else "-"),
                Text(tr(lang, f"lane.what.{event['what']}"), style),
                Text(self._said(event)[:300]),
            )
        if view.at is not None and view.at < table.row_count:
            table.move_cursor(row=view.at)

    def _said(self, event: dict[str, Any]) -> str:
        """What the rule says of an event; the line itself is in the log below."""
        at = event.get("finding")
        if at is None or at >= len(self.report.findings):
            return outside(str(event["text"]))
        finding = self.report.findings[at]
        return f"{finding.id} {outside(pick(finding.title, self.doctor.lang))}"

    def _inputs(self) -> None:
        lang, table = self.doctor.lang, self.query_one("#input-table", DataTable)
        row = table.cursor_row
        table.clear(columns=True)
        heads = [self.tr(f"inputs.column.{key}") for key in INPUT_COLUMNS]
        names = short_names([seen.name for seen in self.report.inputs])
        rows = [
            [self.tr(f"inputs.state.{seen.state}"), "-" if seen.rank is None else str(seen.rank),
             outside(names[seen.name]), ", ".join(tr(lang, f"kind.{kind}") for kind in seen.kinds),
             f"{seen.lines:,}", size_text(seen.size), outside(pick(seen.why, lang))]
            for seen in self.report.inputs
        ]  # fmt: skip
        widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
        # a name that is too long loses its beginning: the end tells files apart, and the other columns stay in view
        at = INPUT_COLUMNS.index("name")
        room = (table.scrollable_content_region.width or self.size.width) - sum(widths) - 2 * len(widths) + widths[at]
        widths[at] = min(widths[at], max(LEAST_NAME, room))
        for key, head, size in zip(INPUT_COLUMNS, heads, widths, strict=True):
            table.add_column(Text(head), key=key, width=size)
        for seen, cells in zip(self.report.inputs, rows, strict=True):
            cells[at] = tail(cells[at], widths[at], ascii_only())
            texts = [Text(cell) for cell in cells]
            texts[0].style = "" if seen.state == "read" else "bold yellow"
            texts[INPUT_COLUMNS.index("lines")].justify = texts[INPUT_COLUMNS.index("size")].justify = "right"
            table.add_row(*texts)
        if 0 < row < table.row_count:
            table.move_cursor(row=row)

    def on_resize(self) -> None:
        self.call_after_refresh(self._inputs)

    # ------------------------------------------------------------------ the log follows

    @on(CauseTree.NodeHighlighted)
    def _follow(self, event: CauseTree.NodeHighlighted[Item]) -> None:
        item = self._item = event.node.data
        self.query_one(Detail).show(item, self._about(item.finding if item else None), self.doctor.lang)
        self.refresh_bindings()
        if self.tab == "causes":
            self._show(self._evidence(), self._rule())

    def _evidence(self) -> Evidence | None:
        item = self._item
        if item is not None and item.evidence is None and item.finding is not None and item.finding.evidence:
            return item.finding.evidence[0]
        return item.evidence if item is not None else None

    def _rule(self) -> str:
        item = self._item
        if item is None:
            return ""
        return (
            item.diagnosis.rule if item.diagnosis is not None else item.finding.id if item.finding is not None else ""
        )

    def _show(self, evidence: Evidence | None, rule: str = "") -> None:
        matched = lru_cache(maxsize=8)(partial(self.doctor.rulebase_matches, rule)) if rule else None
        self.query_one(LogPane).show(evidence, matched)

    @on(CauseTree.NodeSelected)
    def _enter(self, event: CauseTree.NodeSelected[Item]) -> None:
        """Enter goes to the log from a leaf, and folds anything else."""
        if event.node.allow_expand:
            event.node.toggle()
        else:
            self.to_log()

    @on(Timeline.Moved)
    def _moved(self, event: Timeline.Moved) -> None:
        table = self.query_one("#events", DataTable)
        if event.event is not None:
            if event.event < table.row_count:
                table.move_cursor(row=event.event)
            self._at_event(event.event)
        elif event.lane is not None and event.lane.get("source"):
            self._show(Evidence(event.lane["source"], 0, ""))

    @on(DataTable.RowHighlighted, "#events")
    def _event(self, event: DataTable.RowHighlighted) -> None:
        view = self.query_one(Timeline)
        if event.cursor_row != view.at and view.events and self.focused is event.data_table:
            view.go(event.cursor_row, tell=False)
            self._at_event(event.cursor_row)

    def _at_event(self, at: int) -> None:
        events = self.query_one(Timeline).events
        if self.tab == "timeline" and at < len(events):
            one = events[at]
            known = one.get("finding") is not None and one["finding"] < len(self.report.findings)
            rule = self.report.findings[one["finding"]].id if known else ""
            self._show(Evidence(one["source"], one.get("line") or 0, one["text"]), rule)

    @on(PlotPane.Shown)
    def _plot(self, event: PlotPane.Shown) -> None:
        if self.tab == "plots":
            self._show(event.evidence)

    @on(DataTable.RowHighlighted, "#input-table")
    def _input(self, event: DataTable.RowHighlighted) -> None:
        if self.tab == "inputs":
            self._at_input(event.cursor_row)

    def _at_input(self, row: int) -> None:
        if row < len(self.report.inputs):
            self._show(Evidence(self.report.inputs[row].name, 0, ""))

    @on(Timeline.Chosen)
    @on(PlotPane.Chosen)
    @on(DataTable.RowSelected)
    def to_log(self) -> None:
        """Give the log the focus; on a narrow terminal it takes the place of the page."""
        if self.query_one(LogPane).view.document is None:
            return
        self._log_alone(True)
        self.set_focus(self.query_one(LogView))

    def _log_alone(self, on: bool) -> None:
        self.query_one("#body").set_class(on, "-log")

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

    # ------------------------------------------------------------------ pages

    @property
    def tab(self) -> str:
        """The page that is shown."""
        return self.query_one("#result-tabs", TabbedContent).active.removesuffix("-page") or "causes"

    @on(TabbedContent.TabActivated, "#result-tabs")
    def _activated(self) -> None:
        body = self.query_one("#body")
        for name in TABS:
            body.set_class(name == self.tab, f"-{name}")
        if self.tab == "causes":
            self._show(self._evidence(), self._rule())
        elif self.tab == "timeline" and (at := self.query_one(Timeline).at) is not None:
            self._at_event(at)
        elif self.tab == "plots":
            self.query_one(PlotPane).look()
        elif self.tab == "inputs":
            self._at_input(self.query_one("#input-table", DataTable).cursor_row)
        self.refresh_bindings()

    def action_tab(self, name: str) -> None:
        """Show a page and give it the focus."""
        if name not in self.tabs:
            return
        if self.maximized:
            self.minimize()
        self._log_alone(False)
        self.query_one("#result-tabs", TabbedContent).active = f"{name}-page"
        # what has the focus decides which tab is shown
        self.set_focus(self.query_one(PANES[name][0], Widget))

    def action_pane(self, by: int) -> None:
        """The next pane; the log is the last one."""
        panes: list[Widget] = [self.query_one(name, Widget) for name in PANES[self.tab]]
        panes.append(self.query_one(LogView))
        here = next((n for n, pane in enumerate(panes) if self.focused is pane), len(panes) - 1)
        wanted = panes[(here + by) % len(panes)]
        self._log_alone(isinstance(wanted, LogView))
        self.set_focus(wanted)

    # ------------------------------------------------------------------ actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "patch":
            return self._fixable() != ""
        return True

    def _fixable(self) -> str:
        """The file that a fix of the diagnosis under the cursor would change, empty if there is none."""
        item = self._item
        if item is None or item.diagnosis is None:
            return ""
        return next((edit.file for fix in item.diagnosis.fixes for edit in fix.edits), "")

    def action_patch(self) -> None:
        """The patch of the file that a fix would change."""
        path = self._fixable()
        if path:
            self.doctor.show_patch(path)

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        copy(self, self.report)

    def action_save(self) -> None:
        """The whole report to a file."""
        save(self, self.report)

    def action_take(self) -> None:
        """One piece: the cause, the evidence, a command, the page."""
        self.app.push_screen(CopyScreen(self._parts()), self._taken)

    def _parts(self) -> list[Part]:
        item = self._item or Item()
        place = outside(place_text(item.diagnosis, self.doctor.lang)) if item.diagnosis is not None else ""
        about = self._about(item.finding)
        parts = parts_of(item.diagnosis, item.finding, about, place, self.doctor.lang)
        parts.append(
            Part(self.tr("part.page", page=self.tr("tab." + self.tab)), self._page_text(), self.tr("part.as_shown"))
        )
        view = self.query_one(LogView)
        if view.document is not None and view.marked is not None:
            parts.append(Part(self.tr("part.line"), view.document.line(view.marked).text))
        return parts

    def _page_text(self) -> str:
        """What the page shows, as it is on the screen."""
        region = self.query_one("#result-tabs").region
        rows = self._compositor.render_strips()[region.y + 1 : region.bottom]  # without the row of tabs
        return "\n".join(strip.crop(region.x, region.right).text.rstrip() for strip in rows)

    def _taken(self, taken: tuple[str, str] | None) -> None:
        if taken is None:
            return
        if taken[0] == "save":
            save(self, taken[1])
        else:
            copy_text(self, taken[1])

    def action_search(self) -> None:
        if self.query_one(LogPane).view.document is not None:
            self._log_alone(True)
        self.query_one(LogPane).action_search()

    def action_zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        self.zoom((LogPane, Detail, CauseTree, Timeline, PlotPane))

    def action_back(self) -> None:
        """All panes again, the page again, then the screen below."""
        if self.maximized:
            self.minimize()
        elif self.has_class("-narrow") and self.query_one("#body").has_class("-log"):
            self._log_alone(False)
            self.set_focus(self.query_one(PANES[self.tab][0], Widget))
        else:
            self.dismiss()
