"""The checks of this machine, live: the chain, the devices, every check with its answer, evidence and fix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from doctor import checkup, crash
from doctor.hosts.base import Host
from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Finding, Report, Verdict
from doctor.render import checks as pages
from doctor.render.text import STYLES, Line, at_text, diagnosis_lines
from doctor.render.topology import clip
from doctor.tui.base import TranslatedScreen, ascii_only, outside, wrap
from doctor.tui.screens.save import copy, save

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

SHOWN = ("all", "open", "failed")
"""What the table shows: every check, those that failed or could not be checked, those that failed."""

COLUMNS = {"state": 1, "id": 7, "what": 0}
"""Columns of the table and their cells; the last takes what is left."""

_RANK = {Verdict.FAIL: 0, Verdict.CRASH: 1, Verdict.UNKNOWN: 2, Verdict.PASS: 3, Verdict.NOT_APPLICABLE: 4}


class Page(VerticalScroll):
    """What is known of the chosen check; its text is wrapped anew for each width."""

    class Sized(Message):
        """The page has another width, and the table beside it too."""

    def on_resize(self) -> None:
        self.post_message(self.Sized())


class MachineScreen(TranslatedScreen[None]):
    """Runs every check when it opens; ``host`` makes the machine to look at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # the tabs show their own keys
        Binding("1", "tab('list')", "tui.machine.list", show=False),
        Binding("2", "tab('drawing')", "tui.machine.drawing", show=False),
        Binding("r", "again", "tui.key.again"),
        Binding("v", "shown", "tui.key.shown"),
        Binding("slash", "filter", "tui.key.filter"),
        Binding("c", "copy", "tui.key.copy"),
        Binding("s", "save", "tui.key.save"),
        Binding("escape", "back", "tui.key.back"),
        # keys of every screen that would push the help off a narrow footer
        Binding("o", "app.open", "tui.key.open", show=False),
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("again", "shown", "filter", "copy", "save", "back")
    KEY_SECTION = ("help.machine", (
        ("1  2", "key.tabs"), ("r", "key.again"), ("v", "key.shown"), ("/", "key.filter"),
    ))  # fmt: skip

    class Told(Message):
        """Some checks have answered."""

        def __init__(self, run: checkup.Checkup, step: checkup.Step) -> None:
            super().__init__()
            self.run, self.step = run, step

    class Ended(Message):
        """All checks have answered, or the doctor itself failed."""

        def __init__(self, run: checkup.Checkup | None, report: Report | None, error: str = "") -> None:
            super().__init__()
            self.run, self.report, self.error = run, report, error

    @classmethod
    def opened(cls, app: DoctorApp) -> MachineScreen:
        return cls(app.host)

    def __init__(self, host: Callable[[], Host]) -> None:
        super().__init__()
        self._host = host
        self._current: checkup.Checkup | None = None
        self._cancel = threading.Event()
        self._findings: list[Finding] = []
        self._report: Report | None = None
        self._done = self._total = 0
        self._error = ""
        self._view = 0
        self._settled = False
        self._labels: list[str] = []
        self._room = 0

    def compose(self) -> ComposeResult:
        yield Static(id="machine-head", markup=False)
        with TabbedContent(id="machine-tabs"):
            with TabPane(" ", id="list"):
                yield Input(id="machine-filter", compact=True)
                with Container(id="machine-panes"):
                    yield DataTable(id="machine-table", cursor_type="row", zebra_stripes=True)
                    with Page(id="machine-page"):
                        yield Static(id="machine-text", markup=False)
            with TabPane(" ", id="drawing"), VerticalScroll(id="machine-drawings"):
                yield Static(id="machine-drawing", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#machine-table", DataTable).focus()
        self._start()

    def on_unmount(self) -> None:
        self._cancel.set()

    # ------------------------------------------------------------------ running

    def _start(self) -> None:
        self._cancel.set()
        self._cancel = threading.Event()
        self._findings, self._report, self._error = [], None, ""
        self._done = self._total = 0
        self._settled = False
        self._run(self._cancel)
        self.retranslate()

    @work(thread=True, exclusive=True, group="machine", exit_on_error=False)
    def _run(self, cancel: threading.Event) -> None:
        try:
            run = checkup.Checkup(self._host(), checkup.Options(cancelled=cancel.is_set), self.doctor.rulebase())
            self._current = run
            for step in run.steps():
                self.post_message(self.Told(run, step))
            if not cancel.is_set():
                self.post_message(self.Ended(run, run.report()))
        except Exception as error:
            crash.save(error, "tui")
            self.post_message(self.Ended(None, None, f"{type(error).__name__}: {error}"))

    @on(Told)
    def _told(self, event: Told) -> None:
        if event.run is self._current:
            self._findings += event.step.findings
            self._done, self._total = event.step.done, event.step.total
            self._fill()
            self._head()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.run is not None and event.run is not self._current:
            return
        self._report, self._error = event.report, event.error
        if event.report is not None:
            self._findings = list(event.report.findings)
        self.retranslate()
        self.refresh_bindings()

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        tabs = self.query_one("#machine-tabs", TabbedContent)
        tabs.get_tab("list").label = Text(f"1 {self.tr('machine.list')}")
        tabs.get_tab("drawing").label = Text(f"2 {self.tr('machine.drawing')}")
        self.query_one("#machine-filter", Input).placeholder = self.tr("machine.filter")
        self._columns()
        self._head()
        self._fill()
        self._draw()

    def _columns(self) -> None:
        """The columns: their labels, of which the last says what is shown, and the room that there is for the last."""
        table = self.query_one("#machine-table", DataTable)
        words = [self.tr(f"machine.column.{key}") for key in COLUMNS]
        words[-1] += f"  {self.tr(f'machine.shown.{SHOWN[self._view]}')}"
        room = max(20, table.scrollable_content_region.width - sum(COLUMNS.values()) - 2 * len(COLUMNS))
        if self._labels != words or self._room != room:
            self._labels, self._room = words, room
            table.clear(columns=True)
            for (key, width), word in zip(COLUMNS.items(), words, strict=True):
                table.add_column(Text(word), key=key, width=width or room)

    def _head(self) -> None:
        lang = self.doctor.lang
        text = Text(no_wrap=True, overflow="ellipsis")
        if self._error:
            text.append(outside(self._error), STYLES["error"])
        elif self._report is None:
            text.append(tr(lang, "check.progress", done=self._done, total=self._total or "…"))
        else:
            for line in pages.head(self._report, lang, ascii_only())[:1]:
                for style, piece in line:
                    text.append(piece, style)
            text.append("  " + pages.counts(self._report, lang, host=False), "dim")
            remark = pages.remark(self._report, lang)
            text.append(f"  {remark}" if remark else "", "dim")
        self.query_one("#machine-head", Static).update(text)

    def _draw(self) -> None:
        if self._report is None:
            self.query_one("#machine-drawing", Static).update(self.tr("machine.waiting"))
            return
        columns = max(60, self.size.width - 4)
        where = (self._report, self.doctor.lang, columns, ascii_only())
        lines = [*pages.chain(*where), *pages.topology(*where)]
        text = _text(lines) if lines else Text(self.tr("machine.nothing_to_draw"))
        self.query_one("#machine-drawing", Static).update(text)

    def _rows(self) -> list[Finding]:
        wanted = self.query_one("#machine-filter", Input).value.strip().lower().split()
        kept = {"all": set(_RANK), "open": {Verdict.FAIL, Verdict.CRASH, Verdict.UNKNOWN},
                "failed": {Verdict.FAIL, Verdict.CRASH}}[SHOWN[self._view]]  # fmt: skip
        found = []
        for finding in self._findings:
            where = " ".join((finding.id, finding.topic, *finding.title.values(), *finding.why.values())).lower()
            if finding.verdict in kept and all(word in where for word in wanted):
                found.append(finding)
        order = {"error": 0, "warning": 1, "advice": 2}
        places = self._order()
        return sorted(
            found,
            key=lambda f: (
                _RANK[f.verdict],
                places.get(id(f), (len(places), 0))[0],
                order[f.severity] if f.verdict is Verdict.FAIL else 0,
            ),
        )

    def _order(self) -> dict[int, tuple[int, bool]]:
        """Of every finding in a diagnosis: its place in the report, causes before what they explain, and whether it is
        explained by another one."""
        out: dict[int, tuple[int, bool]] = {}
        if self._report is not None:
            for diagnosis in self._report.diagnoses:
                own = [f for f in self._report.findings if f.id == diagnosis.rule and f.verdict is Verdict.FAIL]
                follows = [self._report.findings[n] for n in diagnosis.consequences]
                for finding in (*own, *follows):
                    out.setdefault(id(finding), (len(out), finding.id != diagnosis.rule))
        return out

    def _fill(self) -> None:
        table = self.query_one("#machine-table", DataTable)
        # while answers come in, the worst so far is in view; afterwards what was chosen stays chosen
        kept = self._selected() if self._settled else ""
        self._settled = self._report is not None
        table.clear()
        lang, place, order = self.doctor.lang, 0, self._order()
        branch = "> " if ascii_only() else "└ "
        for n, finding in enumerate(self._rows()):
            style = STYLES[finding.severity] if finding.verdict is Verdict.FAIL else ""
            why = pick(finding.why, lang)
            title = outside(pick(finding.title, lang)) + (f" ({outside(why)})" if why else "")
            title = clip((branch if order.get(id(finding), (0, False))[1] else "") + title, self._room, ascii_only())
            key = f"{n}:{finding.id}"
            table.add_row(
                Text(pages.mark_of(finding, ascii_only()), style), Text(finding.id), Text(title, style), key=key
            )
            if kept and kept.partition(":")[2] == finding.id and not place:
                place = n
        if place:
            table.move_cursor(row=place)
        self._explain(self._selected())

    def _selected(self) -> str:
        table = self.query_one("#machine-table", DataTable)
        if not table.row_count:
            return ""
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value or ""

    def _explain(self, key: str) -> None:
        number, _, _ = key.partition(":")
        rows = self._rows()
        page = self.query_one("#machine-text", Static)
        columns = max(30, self.query_one("#machine-page").scrollable_content_region.width - 1)
        if not number.isdigit() or int(number) >= len(rows):
            page.update(self.tr("machine.none") if self._report else "")
            return
        finding = rows[int(number)]
        page.update(self._page(finding, columns))

    def _page(self, finding: Finding, columns: int) -> Text:
        lang = self.doctor.lang
        diagnosis = self._diagnosis_of(finding)
        if diagnosis is not None and self._report is not None:
            number = self._report.diagnoses.index(diagnosis) + 1
            lines = diagnosis_lines(number, diagnosis, self._report, lang, columns, True, ascii_only())
            return _text(lines[1:], fold=True)
        text = Text(outside(pick(finding.title, lang)) + "\n", "bold")
        text.append(f"{finding.id}  {tr(lang, f'check.{finding.verdict.value}')}\n", "dim")
        for row in wrap(outside(pick(finding.why, lang)), columns):
            text.append(row + "\n")
        for evidence in finding.evidence[:8]:
            text.append(f"\n{outside(at_text(evidence, lang))}\n", "dim")
            text.append("\n".join(wrap(outside(evidence.text), columns)) + "\n")
        return text

    def _diagnosis_of(self, finding: Finding) -> Diagnosis | None:
        if self._report is None or finding.verdict is not Verdict.FAIL:
            return None
        at = next((n for n, f in enumerate(self._report.findings) if f is finding), -1)
        for diagnosis in self._report.diagnoses:
            if diagnosis.rule == finding.id or at in diagnosis.consequences:
                return diagnosis
        return None

    # ------------------------------------------------------------------ actions

    @on(DataTable.RowHighlighted)
    def _row(self, event: DataTable.RowHighlighted) -> None:
        self._explain(str(event.row_key.value or ""))

    @on(Input.Changed, "#machine-filter")
    def _filtered(self) -> None:
        self._fill()

    @on(Input.Submitted, "#machine-filter")
    def _to_table(self) -> None:
        self.query_one("#machine-table", DataTable).focus()

    @on(Page.Sized)
    def _sized(self) -> None:
        self._columns()
        self._fill()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._report is not None if action in ("copy", "save") else True

    def action_tab(self, name: str) -> None:
        """Show the list or the drawings."""
        self.query_one("#machine-tabs", TabbedContent).active = name
        # what has the focus decides which tab is shown
        self.query_one("#machine-table" if name == "list" else "#machine-drawings").focus()

    def action_again(self) -> None:
        """Run all checks anew."""
        self._start()

    def action_shown(self) -> None:
        """All checks, those that are open, those that failed."""
        self._view = (self._view + 1) % len(SHOWN)
        self._columns()
        self._fill()

    def action_filter(self) -> None:
        """Type into the filter."""
        self.action_tab("list")
        self.query_one("#machine-filter", Input).focus()

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        if self._report is not None:
            copy(self, self._report)

    def action_save(self) -> None:
        """The whole report to a file."""
        if self._report is not None:
            save(self, self._report)

    def action_back(self) -> None:
        if isinstance(self.focused, Input):
            self.query_one("#machine-table", DataTable).focus()
        else:
            self.dismiss()


def _text(lines: list[Line], *, fold: bool = False) -> Text:
    """Lines as one text; ``fold``: what is too long, such as a command, goes on in the next line."""
    text = Text(no_wrap=not fold, overflow="fold" if fold else None)
    for line in lines:
        for style, piece in line:
            text.append(piece, style)
        text.append("\n")
    return text
