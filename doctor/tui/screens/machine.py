"""The checks of a machine, live: the chain, the devices, every check with its state, answer, evidence and fix."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Finding, Report, Verdict
from doctor.render import checks as pages
from doctor.render.text import STYLES, at_text, diagnosis_lines
from doctor.render.topology import clip
from doctor.rulebase import data_folder
from doctor.tui.base import TranslatedScreen, ascii_only, outside, styled, wrap
from doctor.tui.checking import Row
from doctor.tui.screens.save import SaveScreen, copy, save

if TYPE_CHECKING:
    from doctor.hosts.base import Host

SHOWN = ("all", "open", "failed")
"""What the table shows: every check; those that failed, are unknown or have not answered; those that failed."""

COLUMNS = ("state", "id", "what")
WORDS_FROM = 60
"""Cells of the table from which the state is also said in a word."""

EXAMPLE = "npu-alarm-hbm-ecc"
"""The recording that is shipped for a look: 8 NPUs, one with an alarm."""

_RANK = {Verdict.FAIL: 0, Verdict.CRASH: 1, Verdict.UNKNOWN: 2, Verdict.PASS: 5, Verdict.NOT_APPLICABLE: 6}
_RUNNING, _WAITING = 3, 4


class Page(VerticalScroll):
    """What is known of the chosen check; its text is wrapped anew for each width."""

    class Sized(Message):
        """The page has another width, and the table beside it too."""

    def on_resize(self) -> None:
        self.post_message(self.Sized())


class MachineScreen(TranslatedScreen[None]):
    """Shows the checks that the application runs; starts them if none have run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # the tabs show their own keys
        Binding("1", "tab('list')", "tui.machine.list", show=False),
        Binding("2", "tab('drawing')", "tui.machine.drawing", show=False),
        Binding("r", "again", "tui.key.again"),
        Binding("a", "once", "tui.key.once", show=False),
        Binding("v", "shown", "tui.key.shown"),
        Binding("slash", "filter", "tui.key.filter"),
        Binding("f", "script", "tui.key.script"),
        Binding("o", "recording", "tui.key.recording", show=False),
        Binding("x", "example", "tui.key.example", show=False),
        Binding("h", "live", "tui.key.live", show=False),
        Binding("c", "copy", "tui.key.copy", show=False),
        Binding("s", "save", "tui.key.save", show=False),
        Binding("escape", "back", "tui.key.back"),
        # keys of every screen that would push the help off a narrow footer
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = (
        "again", "once", "shown", "filter", "script", "recording", "example", "live", "copy", "save", "back",
    )  # fmt: skip
    KEY_SECTION = ("help.machine", (
        ("1  2", "key.tabs"), ("r", "key.again"), ("a", "key.once"), ("v", "key.shown"), ("/", "key.filter"),
        ("f", "key.script"), ("o", "key.recording"), ("x", "key.example"), ("h", "key.live"), ("c", "key.copy"),
        ("s", "key.save"), ("Esc", "key.stop"),
    ))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._view = 0
        self._settled = False
        self._shown: list[Row] = []
        self._labels: list[str] = []
        self._sizes: tuple[int, ...] = ()

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
        self.set_focus(self.query_one("#machine-table", DataTable))
        if self.doctor.checking is None:
            self.doctor.check_machine()
        self.set_interval(0.5, self._tick)

    def _tick(self) -> None:
        """What waited may run by now, also when nothing has answered since."""
        if self._working and self.ready:
            self._fill()

    @property
    def _report(self) -> Report | None:
        checking = self.doctor.checking
        return checking.report if checking is not None else None

    @property
    def _working(self) -> bool:
        checking = self.doctor.checking
        return checking is not None and checking.working

    def machine_changed(self) -> None:
        checking = self.doctor.checking
        if checking is not None and checking.working and checking.run is None:
            # another run, perhaps of another machine: nothing of the old one is to stay chosen
            self._settled = False
        self._head()
        self._fill()
        if not self._working:
            self._draw()
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
        """The columns: their labels, of which the last says what is shown, and their widths."""
        table = self.query_one("#machine-table", DataTable)
        words = [self.tr(f"machine.column.{key}") for key in COLUMNS]
        words[-1] += f"  {self.tr(f'machine.shown.{SHOWN[self._view]}')}"
        width = table.scrollable_content_region.width
        state = 2 + max(cell_len(self.tr(f"machine.state.{name}")) for name in _STATES) if width >= WORDS_FROM else 1
        sizes = (state, 7, max(20, width - state - 7 - 2 * len(COLUMNS)))
        if self._labels != words or self._sizes != sizes:
            self._labels, self._sizes = words, sizes
            table.clear(columns=True)
            for key, size, word in zip(COLUMNS, sizes, words, strict=True):
                table.add_column(Text(word), key=key, width=size)

    def _head(self) -> None:
        lang, checking = self.doctor.lang, self.doctor.checking
        text = Text(no_wrap=True, overflow="ellipsis")
        if checking is None:
            return
        if checking.name:
            text.append(outside(checking.name) + "  ", "bold")
        report = checking.report
        if checking.error:
            text.append(outside(checking.error), STYLES["error"])
        elif checking.working:
            said = tr(lang, "check.progress", done=checking.done, total=checking.total or "…")
            if checking.repeated:
                said = self.tr("glance.repeating", id=checking.repeated)
            text.append(self.tr("glance.stopping") if checking.stopping else said)
            if not checking.stopping:
                text.append(f"  {self.tr('home.busy')}", "dim")
        elif report is not None:
            for line in pages.head(report, lang, ascii_only()):
                for style, piece in line:
                    text.append(piece + "  ", style)
            text.append(pages.counts(report, lang, host=False), "dim")
            remark = pages.remark(report, lang)
            text.append(f"  {remark}" if remark else "", "dim")
        self.query_one("#machine-head", Static).update(text)

    def _draw(self) -> None:
        if self._report is None:
            self.query_one("#machine-drawing", Static).update(self.tr("machine.waiting"))
            return
        columns = max(60, self.size.width - 4)
        where = (self._report, self.doctor.lang, columns, ascii_only())
        lines = [*pages.chain(*where), *pages.topology(*where)]
        text = styled(lines) if lines else Text(self.tr("machine.nothing_to_draw"))
        self.query_one("#machine-drawing", Static).update(text)

    def _rows(self) -> list[Row]:
        """The checks to show, worst first; what has not answered stands before what is in order."""
        checking = self.doctor.checking
        wanted = self.query_one("#machine-filter", Input).value.strip().lower().split()
        view = SHOWN[self._view]
        kept = {"all": set(_RANK), "open": {Verdict.FAIL, Verdict.CRASH, Verdict.UNKNOWN},
                "failed": {Verdict.FAIL, Verdict.CRASH}}[view]  # fmt: skip
        found = []
        for row in checking.rows() if checking is not None else ():
            finding = row.finding
            title = _title(row)
            words = (row.id, finding.topic, *finding.why.values()) if finding is not None else (row.id,)
            where = " ".join((*words, *title.values())).lower()
            fits = finding.verdict in kept if finding is not None else view != "failed"
            if fits and all(word in where for word in wanted):
                found.append(row)
        places = self._order()
        return sorted(found, key=lambda row: self._key(row, places))

    def _key(self, row: Row, places: dict[int, tuple[int, bool]]) -> tuple[int, int, int]:
        finding = row.finding
        if finding is None:
            return (_RUNNING if row.running else _WAITING, 0, 0)
        order = {"error": 0, "warning": 1, "advice": 2}
        place = places.get(id(finding), (len(places), False))[0]
        return (_RANK[finding.verdict], place, order[finding.severity] if finding.verdict is Verdict.FAIL else 0)

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
        self._shown = self._rows()
        place, order, plain = 0, self._order(), ascii_only()
        branch = "> " if plain else "└ "
        for n, row in enumerate(self._shown):
            finding, lang = row.finding, self.doctor.lang
            failed = finding is not None and finding.verdict is Verdict.FAIL
            style = STYLES[finding.severity] if finding is not None and failed else "" if finding is not None else "dim"
            why = pick(finding.why, lang) if finding is not None else ""
            title = outside(pick(_title(row), lang)) + (f" ({outside(why)})" if why else "")
            below = finding is not None and order.get(id(finding), (0, False))[1]
            title = clip((branch if below else "") + title, self._sizes[-1], plain)
            state = pages.mark_of(finding, plain) if finding is not None else ">" if row.running else "."
            if self._sizes[0] > 1:
                state += f" {self.tr(f'machine.state.{_state(row)}')}"
            table.add_row(Text(state, style), Text(row.id), Text(title, style), key=f"{n}:{row.id}")
            if kept and kept.partition(":")[2] == row.id and not place:
                place = n
        if place:
            table.move_cursor(row=place)
        self._explain(self._selected())

    def _selected(self) -> str:
        # the cursor may stand below the last row for a moment after the table was filled with fewer
        row = self.query_one("#machine-table", DataTable).cursor_row
        return f"{row}:{self._shown[row].id}" if 0 <= row < len(self._shown) else ""

    def _chosen(self) -> Row | None:
        number, _, _ = self._selected().partition(":")
        return self._shown[int(number)] if number.isdigit() and int(number) < len(self._shown) else None

    def _explain(self, key: str) -> None:
        number, _, _ = key.partition(":")
        page = self.query_one("#machine-text", Static)
        columns = max(30, self.query_one("#machine-page").scrollable_content_region.width - 1)
        if not number.isdigit() or int(number) >= len(self._shown):
            page.update(self.tr("machine.none") if self._report else "")
            return
        row = self._shown[int(number)]
        page.update(self._page(row.finding, columns) if row.finding is not None else self._open(row, columns))

    def _open(self, row: Row, columns: int) -> Text:
        """A check that has not answered: what it needs."""
        text = Text(outside(pick(_title(row), self.doctor.lang)) + "\n", "bold")
        text.append(f"{row.id}  {self.tr(f'machine.state.{_state(row)}')}\n", "dim")
        needs = ", ".join(need.removesuffix("?") for need in row.spec.needs) if row.spec is not None else ""
        text.append("\n".join(wrap(self.tr("machine.asks", list=needs), columns)))
        return text

    def _page(self, finding: Finding, columns: int) -> Text:
        lang = self.doctor.lang
        diagnosis = self._diagnosis_of(finding)
        if diagnosis is not None and self._report is not None:
            number = self._report.diagnoses.index(diagnosis) + 1
            lines = diagnosis_lines(number, diagnosis, self._report, lang, columns, True, ascii_only())
            return styled(lines[1:], fold=True)
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
    def _row(self) -> None:
        self._explain(self._selected())

    @on(Input.Changed, "#machine-filter")
    def _filtered(self) -> None:
        self._fill()

    @on(Input.Submitted, "#machine-filter")
    def _to_table(self) -> None:
        self.set_focus(self.query_one("#machine-table", DataTable))

    @on(Page.Sized)
    def _sized(self) -> None:
        self._columns()
        self._fill()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def label(self, name: str) -> str:
        ends = name == "tui.key.back" and self._working and not isinstance(self.focused, Input)
        return "tui.key.end_run" if ends else name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy", "save", "script"):
            return self._report is not None
        if action == "once":
            return self._report is not None and not self._working
        return True

    def action_tab(self, name: str) -> None:
        """Show the list or the drawings."""
        self.query_one("#machine-tabs", TabbedContent).active = name
        # what has the focus decides which tab is shown
        self.set_focus(self.query_one("#machine-table" if name == "list" else "#machine-drawings"))

    def action_again(self) -> None:
        """Run all checks anew."""
        checking = self.doctor.checking
        if checking is not None:
            self.doctor.check_machine(checking.host, checking.name)

    def action_once(self) -> None:
        """Run the selected check anew."""
        row = self._chosen()
        if self._working:
            self.doctor.say(self.tr("machine.busy"))
        elif row is not None:
            self.doctor.check_again(row.id)

    def action_recording(self) -> None:
        """Judge a recording."""
        from doctor.tui.screens.open import OpenScreen

        start = os.path.dirname(self.doctor.state.recall("recording")) or os.getcwd()
        start = start if os.path.isdir(start) else os.getcwd()
        self.app.push_screen(OpenScreen(start, "machine.recording"), self._judge)

    def _judge(self, path: str | None) -> None:
        if path:
            self.doctor.state.remember("recording", path)
            self.doctor.check_machine(partial(_recorded, path), os.path.basename(path.rstrip("/")))

    def action_example(self) -> None:
        """Judge the shipped recording."""
        path = os.path.join(data_folder(os.path.join("fixtures", "hosts")), f"{EXAMPLE}.yaml")
        self.doctor.check_machine(partial(_recorded, path), EXAMPLE)

    def action_live(self) -> None:
        """Judge this machine."""
        self.doctor.check_machine()

    def action_script(self) -> None:
        """Save what ``--fix-env`` writes."""
        report = self._report
        if report is None:
            return
        from doctor import envfix

        lang, text = self.doctor.lang, envfix.script(report, self.doctor.lang, self.doctor.rulebase())
        if not envfix.proposes(text):
            self.doctor.say(self.tr("machine.no_script"))
            return

        def write(path: str) -> None:
            if not envfix.may_write(path):
                raise ValueError(tr(lang, "tui.machine.foreign", path=path))
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        def saved(path: str | None) -> None:
            if path:
                self.doctor.say(tr(self.doctor.lang, "check.fix_env", path=outside(path)))

        self.app.push_screen(SaveScreen(write, "doctor-env.sh", "machine.script", "machine.script_note"), saved)

    def action_shown(self) -> None:
        """All checks, those that are open, those that failed."""
        self._view = (self._view + 1) % len(SHOWN)
        self._columns()
        self._fill()

    def action_filter(self) -> None:
        """Type into the filter."""
        self.action_tab("list")
        self.set_focus(self.query_one("#machine-filter", Input))

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        if self._report is not None:
            copy(self, self._report)

    def action_save(self) -> None:
        """The whole report to a file."""
        if self._report is not None:
            save(self, self._report)

    def action_back(self) -> None:
        """End the run; without one, leave the filter, then the screen."""
        checking = self.doctor.checking
        if isinstance(self.focused, Input):
            self.set_focus(self.query_one("#machine-table", DataTable))
        elif checking is not None and checking.working and not checking.stopping:
            checking.stop()
            self._head()
        else:
            self.dismiss()


_STATES = ("waiting", "running", "pass", "error", "warning", "advice", "unknown", "not_applicable", "crash")


def _state(row: Row) -> str:
    """The state of a check as the texts name it."""
    if row.finding is None:
        return "running" if row.running else "waiting"
    return row.finding.severity if row.finding.verdict is Verdict.FAIL else row.finding.verdict.value


def _title(row: Row) -> dict[str, str]:
    """What a check is about, in every language."""
    if row.finding is not None:
        return row.finding.title
    if row.spec is None:
        return {}
    both: dict[str, str] = row.spec.whole.get("subject") or row.spec.whole["title"]
    return both


def _recorded(path: str) -> Host:
    """A recording as a host. Raises RecordingError."""
    from doctor.hosts import recording

    return recording.load(path)
