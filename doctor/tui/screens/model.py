"""Configurations before a run: findings by file, memory, the plan's values, patches, and what was patched so far."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import DataTable, Footer, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from doctor import crash
from doctor.fixcli import why_text
from doctor.i18n import LANGUAGES, pick, tr
from doctor.model import Evidence, Finding, Verdict
from doctor.patch import apply, journal
from doctor.patch.journal import Entry
from doctor.patch.propose import Options
from doctor.patch.spans import Refused
from doctor.plan import cel, memory, show
from doctor.plan.schema import FIELDS, Plan
from doctor.render.plot import bar
from doctor.render.text import STYLES, mark
from doctor.tui import configs
from doctor.tui.base import TranslatedScreen, ascii_only, outside, wrap
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.open import OpenScreen
from doctor.tui.screens.save import copy, save
from doctor.tui.widgets.causes import Item
from doctor.tui.widgets.detail import Detail
from doctor.tui.widgets.diffview import DiffView
from doctor.tui.widgets.findings import FindingTree, Place
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

TABS = ("findings", "memory", "values", "patch", "history")
"""The pages in the order of their keys."""

FOCUS = {"findings": "#causes", "memory": "#memory-page", "values": "#value-table", "patch": "#proposals",
         "history": "#entries"}  # fmt: skip

SHOWN_VALUE = 60
"""Characters of a value in its table."""


class ProposalList(OptionList):
    """Space takes as Enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", "tui.key.take", show=False)]


class ModelScreen(TranslatedScreen[None]):
    """``path`` is looked at when the screen opens; without one it asks for one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"tab('{name}')", f"tui.model.{name}", show=False) for n, name in enumerate(TABS, 1)),
        Binding("o", "choose", "tui.key.choose"),
        Binding("r", "again", "tui.key.again", show=False),
        Binding("a", "apply", "tui.key.apply"),
        Binding("u", "undo", "tui.key.undo"),
        Binding("f", "next_file", "tui.key.next_file"),
        Binding("v", "shown", "tui.key.unknown", show=False),
        Binding("x", "aliases", "tui.key.aliases", show=False),
        Binding("z", "zoom", "tui.key.zoom", show=False),
        Binding("slash", "search", "tui.key.search", show=False),
        Binding("c", "copy", "tui.key.copy", show=False),
        Binding("s", "save", "tui.key.save", show=False),
        Binding("escape", "back", "tui.key.back"),
        # where it stands it leaves no room for the keys of this screen
        Binding("e", "app.machine", "tui.key.machine", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = (
        "choose", "again", "apply", "undo", "aliases", "next_file", "search", "zoom", "copy", "save", "back",
    )  # fmt: skip
    KEY_SECTION = ("help.model", (
        ("1 … 5", "key.pages"), ("o", "key.choose"), ("f", "key.next_file"), ("v", "key.unknown"), ("/", "key.search"),
        ("Space", "key.take"), ("x", "key.aliases"), ("a", "key.apply"), ("u", "key.undo"),
    ))  # fmt: skip

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        tabs = [(name, partial(self.action_tab, name)) for name in TABS]
        return [*tabs, *super().commands(), ("unknown", self.action_shown)]

    class Told(Message):
        """Files were looked at."""

        def __init__(self, cancel: threading.Event, step: configs.Step) -> None:
            super().__init__()
            self.cancel, self.step = cancel, step

    class Ended(Message):
        """All files were looked at, or the doctor itself failed."""

        def __init__(self, cancel: threading.Event, error: str = "") -> None:
            super().__init__()
            self.cancel, self.error = cancel, error

    class Offered(Message):
        """The proposals for a file are known."""

        def __init__(self, cancel: threading.Event, offer: configs.Offer | None, error: str = "") -> None:
            super().__init__()
            self.cancel, self.offer, self.error = cancel, offer, error

    class Composed(Message):
        """The patch of what was taken is known; ``number`` tells which answer it is."""

        def __init__(self, number: int, taken: configs.Taken | None, error: str = "") -> None:
            super().__init__()
            self.number, self.taken, self.error = number, taken, error

    class Listed(Message):
        """What the journal holds; ``undo``: because something is to be put back."""

        def __init__(self, entries: list[Entry], undo: bool) -> None:
            super().__init__()
            self.entries, self.undo = entries, undo

    class Written(Message):
        """A patch was written or put back, or why not."""

        def __init__(self, key: str, entry_id: str, paths: Sequence[str], refused: Refused | None, error: str) -> None:
            super().__init__()
            self.key, self.entry_id, self.paths = key, entry_id, tuple(paths)
            self.refused, self.error = refused, error

    @classmethod
    def opened(cls, app: DoctorApp) -> ModelScreen:
        return cls(app.model_path, app.rules)

    def __init__(self, path: str = "", rules: str | None = None) -> None:
        super().__init__()
        self.target = path
        self._rules = rules
        self._seen: dict[str, configs.Seen] = {}
        self._cancel: threading.Event | None = None
        self._looked, self._cut, self._error = 0, False, ""
        self._unknown = False
        self._file = ""
        self._finding: Finding | None = None
        self._offering: threading.Event | None = None
        self._offering_for: tuple[str, configs.Stamp, bool] | None = None
        self._offer_cut = False
        self._offer: configs.Offer | None = None
        self._picks: dict[int, int] = {}
        self._asked = 0
        self._taken: configs.Taken | None = None
        self._aliases = False
        self._entries: list[Entry] | None = None
        self._writing = False
        self._settled = False
        self._rows: list[tuple[str, Evidence | None]] = []

    def compose(self) -> ComposeResult:
        yield Static(id="model-head", markup=False)
        with TabbedContent(id="model-tabs"):
            with TabPane(" ", id="findings"), Container(id="panes"):
                yield FindingTree(id="causes")
                yield LogPane(id="log", title="model.source")
                yield Detail(id="detail")
            with TabPane(" ", id="memory"), VerticalScroll(id="memory-page"):
                yield Static(id="memory-text", markup=False)
            with TabPane(" ", id="values"):
                yield Static(id="value-note", markup=False)
                yield DataTable(id="value-table", cursor_type="row", zebra_stripes=True)
            with TabPane(" ", id="patch"), Vertical(id="patch-panes"):
                yield Static(id="patch-note", markup=False)
                yield ProposalList(id="proposals")
                yield DiffView(id="diff")
            with TabPane(" ", id="history"), Vertical(id="history-panes"):
                yield DataTable(id="entries", cursor_type="row", zebra_stripes=True)
                with VerticalScroll(id="entry-page"):
                    yield Static(id="entry-text", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(FindingTree).focus()
        if self.target:
            self._start([self.target])
        else:
            self.call_after_refresh(self.action_choose)

    def on_unmount(self) -> None:
        for event in (self._cancel, self._offering):
            if event is not None:
                event.set()

    # ------------------------------------------------------------------ looking at files

    def look_at(self, path: str) -> None:
        """Look at another file or folder."""
        self.target = self.doctor.model_path = path
        self.doctor.state.remember("model", path)
        self._seen, self._looked, self._cut, self._file, self._finding = {}, 0, False, "", None
        self._settled = False
        self._offer, self._taken, self._picks = None, None, {}
        self.query_one(LogPane).forget()
        self._start([path])

    def _start(self, paths: list[str]) -> None:
        if self._cancel is not None:
            self._cancel.set()
        self._cancel, self._error = threading.Event(), ""
        self._look(self._cancel, paths)
        self.retranslate()
        self.refresh_bindings()

    @work(thread=True, exclusive=True, group="model", exit_on_error=False)
    def _look(self, cancel: threading.Event, paths: list[str]) -> None:
        try:
            for step in configs.look(paths, self.doctor.rulebase(), cancel.is_set):
                self.post_message(self.Told(cancel, step))
        except Exception as error:
            self.post_message(self.Ended(cancel, _crashed(error)))
            return
        self.post_message(self.Ended(cancel))

    @on(Told)
    def _told(self, event: Told) -> None:
        if event.cancel is not self._cancel:
            return
        self._looked = max(self._looked, event.step.looked)
        self._cut = self._cut or event.step.cut
        if event.step.seen is not None:
            self._seen[event.step.seen.path] = event.step.seen
            # the first files at once, the others when all are there: a tree that grows under the cursor helps nobody
            if len(self._seen) <= 3:
                self._fill()
        self._head()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.cancel is not self._cancel:
            return
        self._cancel, self._error = None, event.error
        self.retranslate()
        self._settled = True
        self.refresh_bindings()
        self._want_offer()

    def _worst_first(self) -> list[configs.Seen]:
        order = {"error": 0, "warning": 1, "advice": 2}

        def rank(seen: configs.Seen) -> tuple[int, int, str]:
            wrong = seen.failed()
            return (order[wrong[0].severity] if wrong else 1 if seen.why else 3, -len(wrong), seen.path)

        return sorted(self._seen.values(), key=rank)

    # ------------------------------------------------------------------ texts

    @property
    def _tab(self) -> str:
        return self.query_one("#model-tabs", TabbedContent).active

    def retranslate(self) -> None:
        tabs = self.query_one("#model-tabs", TabbedContent)
        for n, name in enumerate(TABS, 1):
            tabs.get_tab(name).label = Text(f"{n} {self.tr(f'model.{name}')}")
        self.query_one(LogPane).retranslate()
        self._head()
        self._fill()
        self._page()

    def on_resize(self) -> None:
        self.call_after_refresh(self._page)

    def _head(self) -> None:
        text = Text(no_wrap=True, overflow="ellipsis")
        seen = self._seen.get(self._file)
        if self._error:
            text.append(outside(self._error), STYLES["error"])
        elif not self.target:
            text.append(self.tr("model.about"))
        elif self._cancel is not None:
            key = "model.stopping" if self._cancel.is_set() else "model.looking"
            text.append(self.tr(key, n=self._looked, path=outside(self.target)))
        elif not self._seen:
            text.append(self.tr("model.nothing", n=self._looked, path=outside(self.target)), STYLES["unknown"])
        else:
            found = [f for one in self._seen.values() for f in one.failed()]
            for severity in ("error", "warning", "advice"):
                if n := sum(f.severity == severity for f in found):
                    text.append(f"{n} {mark(severity, ascii_only())} ", STYLES[severity])
            if not found:
                sign = "unknown" if any(one.why for one in self._seen.values()) else "healthy"
                text.append(mark(sign, ascii_only()) + " ", STYLES[sign])
            if self._cut:
                text.append(self.tr("model.cut", n=self._looked) + " ", "bold yellow")
            stale = self._stale(seen)
            if stale:
                text.append(self.tr(stale, path=outside(os.path.basename(self._file))) + " ", "bold yellow")
            text.append(self.tr("model.counts", files=len(self._seen), n=self._looked) + "  ", "dim")
            text.append(outside(self._file if self._tab != "findings" and self._file else self.target))
        self.query_one("#model-head", Static).update(text)

    def _stale(self, seen: configs.Seen | None) -> str:
        if seen is None or seen.why:
            return ""
        now = configs.stamp(seen.path)
        if now == seen.stamp:
            return ""
        return "model.gone" if now is None else "model.changed"

    def _fill(self) -> None:
        """The tree of files."""
        tree = self.query_one(FindingTree)
        tree.border_title = Text(self.tr("model.findings"))
        # while files come in, the worst so far is in view; afterwards what was chosen stays chosen
        kept = (self._file, self._finding.id if self._finding is not None else "") if self._settled else ("", "")
        tree.fill(self._worst_first(), self.target, self.doctor.lang, self._unknown, kept)
        if not self._seen:
            self._file, self._finding = "", None
            self.query_one(Detail).show(None, {}, self.doctor.lang)
            self.query_one(LogPane).show(None)

    @on(FindingTree.NodeHighlighted)
    def _follow(self, event: FindingTree.NodeHighlighted[Place]) -> None:
        place = event.node.data
        if place is None:
            return
        self._file, self._finding = place.path, place.finding
        pane = self.query_one(LogPane)
        if self._stale(self._seen.get(place.path)):
            pane.forget(place.path)
        item = Item(finding=place.finding) if place.finding is not None else None
        note = self._summary(self._seen.get(place.path)) if item is None else ""
        self.query_one(Detail).show(item, self._about(place.finding), self.doctor.lang, note)
        pane.show(place.evidence)
        self._head()
        if self._tab != "findings":
            self._page()

    @on(FindingTree.NodeSelected)
    def _enter(self, event: FindingTree.NodeSelected[Place]) -> None:
        """Enter folds a file, and goes to the line from a finding."""
        if event.node.allow_expand:
            event.node.toggle()
        else:
            self.query_one(LogView).focus()

    def _summary(self, seen: configs.Seen | None) -> str:
        """What is said of a file as a whole."""
        if seen is None or seen.why:
            return self._no_plan(seen)
        states = [finding.verdict for finding in seen.findings]
        counts = self.tr("model.states", **{v.value: states.count(v) for v in Verdict})
        if seen.plan is None:
            return self.tr("model.source_file") + (f"\n{counts}" if states else "")
        lines = [self.tr("model.kind", kind=seen.plan.kind, files=len(seen.plan.files)), counts]
        total, limit = seen.plan.get("memory.total_gib"), seen.plan.get("context.memory_gib")
        if total is not None:
            key = "model.needs" if limit is None else "model.needs_of"
            lines.append(self.tr(key, total=f"{total:.2f} GiB", limit=cel.text_of(limit) if limit is not None else ""))
        return "\n".join(lines)

    def _about(self, finding: Finding | None) -> dict[str, dict[str, str]]:
        """Cause, next and fixes of the rule of a finding."""
        base = self.doctor.rulebase()
        if finding is None or finding.id not in base:
            return {}
        from doctor.ranking import fill_both

        whole: dict[str, Any] = base.whole(finding.id)
        about = {key: fill_both(whole[key], finding.args) for key in ("cause", "next")}
        fixes = [fill_both({lang: str(fix.get(lang, "")) for lang in LANGUAGES}, finding.args) for fix in whole["fix"]]
        about["fix"] = {lang: "\n".join(fix[lang] for fix in fixes if fix.get(lang)) for lang in LANGUAGES}
        return about

    # ------------------------------------------------------------------ pages

    @on(TabbedContent.TabActivated, "#model-tabs")
    def _activated(self) -> None:
        self._head()
        # a page has its size only after it was shown
        self.call_after_refresh(self._page)
        self.refresh_bindings()

    def _page(self) -> None:
        """Lay out the page that is shown."""
        if not self.is_mounted:
            return
        seen = self._seen.get(self._file)
        plan = seen.plan if seen is not None else None
        if self._tab == "memory":
            page = self.query_one("#memory-page")
            columns = max(40, page.scrollable_content_region.width - 1)
            text = memory_text(plan, self.doctor.lang, columns, ascii_only()) if plan else Text(self._no_plan(seen))
            self.query_one("#memory-text", Static).update(text)
        elif self._tab == "values":
            self._values(plan, seen)
        elif self._tab == "patch":
            self._want_offer()
            self._proposals()
        elif self._tab == "history":
            self._history_rows()
            if self._entries is None:
                self._list(False)

    def _no_plan(self, seen: configs.Seen | None) -> str:
        if seen is not None and seen.why:
            return outside(f"{seen.path}: {pick(seen.why, self.doctor.lang)}")
        return self.tr("model.no_plan")

    def _values(self, plan: Plan | None, seen: configs.Seen | None) -> None:
        table = self.query_one("#value-table", DataTable)
        row = table.cursor_row
        table.clear(columns=True)
        for key in ("name", "value", "place"):
            table.add_column(Text(self.tr(f"model.column.{key}")), key=key)
        self._rows = []
        note = self._no_plan(seen)
        if plan is not None:
            note = self.tr("model.kind_enter", kind=plan.kind, files=len(plan.files))
            for name, value in plan.rows():
                if name.startswith("file.") and not (value.value and value.origin == "set"):
                    continue
                words = cel.text_of(value.value)
                words = outside(words[:SHOWN_VALUE]) + (_more() if len(words) > SHOWN_VALUE else "")
                unit = FIELDS["plan." + name].unit
                words += f" {unit}" if unit else ""
                dim = "" if value.origin == "set" else "dim"
                place = show.place(value, self.doctor.lang)
                if value.origin == "set" and value.file == plan.file and value.line:
                    place = self.tr("model.line", line=value.line) + (f"  {value.key}" if value.key else "")
                table.add_row(Text(name, dim), Text(words, dim), Text(outside(place), dim))
                self._rows.append((name, next(iter(value.evidence()), None)))
            for name, why in sorted(plan.blocked.items()):
                table.add_row(Text(name), Text("?", STYLES["unknown"]), Text(outside(why)))
                self._rows.append((name, None))
            if 0 < row < table.row_count:
                table.move_cursor(row=row)
        self.query_one("#value-note", Static).update(Text(note))

    @on(DataTable.RowSelected, "#value-table")
    def _to_line(self, event: DataTable.RowSelected) -> None:
        """Enter on a value goes to its line."""
        _, evidence = self._rows[event.cursor_row] if event.cursor_row < len(self._rows) else ("", None)
        if evidence is None:
            self.doctor.say(self.tr("model.no_line"))
            return
        self.query_one("#model-tabs", TabbedContent).active = "findings"
        self.query_one(LogPane).show(evidence)
        self.query_one(LogView).focus()

    # ------------------------------------------------------------------ proposals

    def _want_offer(self) -> None:
        """Ask for the proposals of the file at hand, if they are shown and not known."""
        if self._tab != "patch" or not self._file or self._writing:
            return
        now = (self._file, configs.stamp(self._file), self._aliases)
        if self._offer is not None and now == (self._offer.path, self._offer.stamp, self._offer.aliases):
            return
        if self._offering is not None:
            if now == self._offering_for:
                return
            self._offering.set()
        self._offering_for, self._offer_cut = now, False
        self._offering, self._offer, self._taken, self._picks = threading.Event(), None, None, {}
        self.query_one(DiffView).show(())
        self._find(self._offering, self._file, Options(aliases=self._aliases, rules=self._rules))

    @work(thread=True, exclusive=True, group="offer", exit_on_error=False)
    def _find(self, cancel: threading.Event, path: str, options: Options) -> None:
        try:
            offer = configs.offer(path, self.doctor.rulebase(), options, cancel.is_set)
        except Exception as error:
            self.post_message(self.Offered(cancel, None, _crashed(error)))
            return
        self.post_message(self.Offered(cancel, offer))

    @on(Offered)
    def _offered(self, event: Offered) -> None:
        if event.cancel is not self._offering:
            return
        self._offering, self._error = None, event.error or self._error
        self._offer, self._offer_cut = event.offer, event.cancel.is_set()
        if event.offer is not None:
            self._picks = configs.first_picks(event.offer.proposals)
            self._compose_patch()
        self._head()
        self._proposals(first=True)

    def _compose_patch(self) -> None:
        """Work out the patch of what is taken."""
        if self._offer is None:
            return
        self._asked += 1
        self._taken = None
        options = Options(aliases=self._aliases, rules=self._rules)
        self._take(self._asked, self._offer, dict(self._picks), options)
        self.refresh_bindings()

    @work(thread=True, exclusive=True, group="patch", exit_on_error=False)
    def _take(self, number: int, offer: configs.Offer, picks: dict[int, int], options: Options) -> None:
        try:
            taken = configs.take(offer.proposals, picks, options)
        except Exception as error:
            self.post_message(self.Composed(number, None, _crashed(error)))
            return
        self.post_message(self.Composed(number, taken))

    @on(Composed)
    def _composed(self, event: Composed) -> None:
        if event.number != self._asked or self._offer is None:
            return
        self._taken = event.taken
        if event.error:
            self._error = event.error
            self._head()
        self.query_one(DiffView).show(event.taken.rows if event.taken is not None else ())
        self._proposals()
        self.refresh_bindings()

    def _proposals(self, first: bool = False) -> None:
        """The rows of the proposals, each of their choices on a row of its own."""
        rows = self.query_one(ProposalList)
        at = rows.highlighted
        rows.clear_options()
        self.query_one("#patch-note", Static).update(self._patch_note())
        if self._offer is None:
            return
        columns = max(30, rows.scrollable_content_region.width - 4)
        start = None
        for n, one in enumerate(self._offer.proposals):
            if start is None and self._finding is not None and one.finding.id == self._finding.id:
                start = rows.option_count
            rows.add_option(Option(self._proposal_text(n, columns), id=str(n)))
            for c, choice in enumerate(one.choices):
                words = pick(choice.text, self.doctor.lang)
                taken = "(*)" if self._picks.get(n) == c else "( )"
                label = outside(f"{choice.label}  {words}".rstrip())
                text = _hanging(f"      {taken} {c + 1}) ", label, columns)
                rows.add_option(Option(text, id=f"{n}.{c}"))
        if rows.option_count:
            rows.highlighted = (start or 0) if first or at is None else min(at, rows.option_count - 1)

    def _proposal_text(self, n: int, columns: int) -> Text:
        assert self._offer is not None
        one, lang = self._offer.proposals[n], self.doctor.lang
        box = " - " if not configs.takeable(one) else "[x]" if n in self._picks else "[ ]"
        title = outside(pick(one.finding.title, lang))
        head = f"{box} {mark(one.finding.severity, ascii_only())} {one.fix.id}  "
        text = _hanging(head, title, columns)
        text.stylize(STYLES[one.finding.severity], 0, len(head))
        notes = [(outside(pick(one.fix.text, lang)), "")]
        decision = self._taken.decisions.get(n) if self._taken is not None else None
        refused = one.why or (decision.why if decision is not None else None)
        if refused is not None:
            notes.append((tr(lang, "fix.state.refused") + " " + outside(why_text(lang, refused)), "bold yellow"))
        elif one.choices:
            notes.append((self.tr("model.several"), "cyan"))
        elif not configs.takeable(one):
            notes.append((tr(lang, "fix.state.display"), "dim"))
        elif one.fix.applicability != "safe":
            notes.append((self.tr("model.unsafe"), "yellow"))
        for words, style in notes:
            if words.strip():
                text.append("\n")
                text.append_text(_hanging("      ", words, columns, style))
        return text

    def _patch_note(self) -> Text:
        name = outside(os.path.basename(self._file))
        seen = self._seen.get(self._file)
        if seen is not None and seen.why:
            return Text(self._no_plan(seen))
        if self._offer is None:
            return Text(
                self.tr("model.offering", name=name) if self._offering is not None else self.tr("model.no_file")
            )
        if self._offer_cut:
            return Text(self.tr("model.offer_cut", name=name), "bold yellow")
        if not self._offer.proposals:
            key = "model.no_fix" if seen is not None and seen.failed() else "model.well"
            return Text(self.tr(key, name=name))
        if self._taken is None:
            return Text(self.tr("model.composing"))
        files = self._taken.patch.files if self._taken.patch is not None else ()
        note = Text(self.tr("model.taken", n=sum(len(f.changes) for f in files), name=name))
        if not files:
            note = Text(self.tr("model.take_some", name=name))
        also = [key for file in files for key in file.also]
        if also:
            note.append("  " + tr(self.doctor.lang, "fix.also", keys=outside(", ".join(also[:12]))), "bold yellow")
        return note

    @on(OptionList.OptionSelected, "#proposals")
    def _picked(self, event: OptionList.OptionSelected) -> None:
        if self._offer is None or self._writing:
            return
        number, _, choice = str(event.option.id).partition(".")
        n = int(number)
        one = self._offer.proposals[n]
        if not configs.takeable(one):
            why = (
                why_text(self.doctor.lang, one.why)
                if one.why is not None
                else tr(self.doctor.lang, "fix.state.display")
            )
            self.doctor.say(outside(why))
            return
        wanted = int(choice or 0)
        if n in self._picks and (not choice or self._picks[n] == wanted):
            del self._picks[n]
        else:
            for other in [k for k in self._picks if self._offer.proposals[k].finding is one.finding]:
                del self._picks[other]
            self._picks[n] = wanted
        self._compose_patch()
        self._proposals()

    # ------------------------------------------------------------------ writing

    def action_apply(self) -> None:
        """Write the patch that is shown; asks first."""
        taken = self._taken
        if self._writing:
            return
        if self._tab != "patch":
            self.action_tab("patch")
            return
        if taken is None or taken.patch is None:
            self.doctor.say(self.tr("model.nothing_taken"))
            return

        def lines() -> list[str]:
            assert taken.patch is not None
            out = [self.tr("model.ask_apply", n=len(taken.patch.files))]
            for file in taken.patch.files:
                out += ["", outside(file.path)]
                for edit in file.changes[:40]:
                    out.append(outside(f"  {edit.key}: {_change(edit.old, edit.new)}"))
                if file.also:
                    out.append("  " + tr(self.doctor.lang, "fix.also", keys=outside(", ".join(file.also[:12]))))
            unsafe = [d.proposal.fix.id for d in taken.decisions.values()
                      if d.state == "planned" and d.proposal.fix.applicability != "safe"]  # fmt: skip
            if unsafe:
                out += ["", self.tr("model.ask_unsafe", ids=", ".join(unsafe))]
            return out

        def answered(yes: bool | None) -> None:
            if yes and self._taken is not taken:
                self.doctor.say(self.tr("model.other_patch"), wrong=True)
            elif yes:
                self._writing = True
                self._apply(taken)

        self.app.push_screen(ConfirmScreen(lines), answered)

    @work(thread=True, group="write", exit_on_error=False)
    def _apply(self, taken: configs.Taken) -> None:
        patch = taken.patch
        if patch is None:
            return
        paths = [file.path for file in patch.files]
        self._guarded("model.applied", paths, lambda: apply.apply(patch, journal.Journal(), configs.passing(taken)))

    def _guarded(self, key: str, paths: Sequence[str], write: Callable[[], str]) -> None:
        """In a thread: write, and tell what came of it."""
        entry_id, refused, error = "", None, ""
        try:
            entry_id = write()
        except Refused as why:
            refused = why
        except Exception as failure:
            error = _crashed(failure)
        self.post_message(self.Written(key, entry_id, paths, refused, error))

    @on(Written)
    def _written(self, event: Written) -> None:
        self._writing = False
        self._entries = None
        if event.refused is not None:
            path = event.refused.args_.get("path")
            where = f"{path}: " if path else ""
            self.doctor.say(outside(where + why_text(self.doctor.lang, event.refused)), wrong=True)
        elif event.error:
            self.doctor.say(outside(event.error), wrong=True)
        else:
            names = ", ".join(os.path.basename(path) for path in event.paths)
            self.doctor.say(self.tr(event.key, id=event.entry_id, files=outside(names)))
        self._offer, self._taken = None, None
        own = [path for path in event.paths if path in self._seen]
        for path in own:
            self.query_one(LogPane).forget(path)
        if own and self._cancel is None:
            self._start(own)
        else:
            self._page()

    def action_undo(self) -> None:
        """Put back the patch under the cursor of the history, elsewhere the newest one; asks first."""
        if self._writing:
            return
        if self._tab == "history" and self._entries:
            row = self.query_one("#entries", DataTable).cursor_row
            if 0 <= row < len(self._entries):
                self._ask_undo(self._entries[row])
            return
        self._list(True)

    def _ask_undo(self, entry: Entry) -> None:
        if entry.state not in ("done", "begun"):
            refused = Refused("undone", id=entry.id)
            self.doctor.say(outside(why_text(self.doctor.lang, refused)), wrong=True)
            return

        def lines() -> list[str]:
            out = [self.tr("model.ask_undo", id=entry.id)]
            for file in entry.files:
                out += ["", outside(file.path)]
                out += [outside(f"  {key}: {_change(new, old)}") for key, old, new in file.edits[:40]]
            return out

        def answered(yes: bool | None) -> None:
            if yes:
                self._writing = True
                self._undo(entry)

        self.app.push_screen(ConfirmScreen(lines), answered)

    @work(thread=True, group="write", exit_on_error=False)
    def _undo(self, entry: Entry) -> None:
        paths = [file.path for file in entry.files]
        self._guarded("model.undone", paths, lambda: apply.undo(journal.Journal(), entry.id).id)

    # ------------------------------------------------------------------ history

    @work(thread=True, exclusive=True, group="history", exit_on_error=False)
    def _list(self, undo: bool) -> None:
        self.post_message(self.Listed(journal.Journal().entries(), undo))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self._entries = event.entries
        if self._tab == "history":
            self._history_rows()
        if not event.undo:
            return
        newest = next((e for e in event.entries if e.state in ("done", "begun")), None)
        if newest is None:
            self.doctor.say(why_text(self.doctor.lang, Refused("no_entries")))
        else:
            self._ask_undo(newest)

    def _history_rows(self) -> None:
        table, lang = self.query_one("#entries", DataTable), self.doctor.lang
        row = table.cursor_row
        table.clear(columns=True)
        for key in ("time", "state", "id", "files", "rules"):
            table.add_column(Text(self.tr(f"model.column.{key}")), key=key)
        for entry in self._entries or ():
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time))
            names = ", ".join(os.path.basename(file.path) for file in entry.files[:4])
            rules = " ".join(dict.fromkeys(entry.rules))
            cells = (
                when,
                tr(lang, f"fix.state.{entry.state}").rstrip(" :："),
                entry.id,
                outside(names),
                outside(rules),
            )
            table.add_row(*(Text(cell) for cell in cells))
        if 0 < row < table.row_count:
            table.move_cursor(row=row)
        self._entry_text()

    @on(DataTable.RowHighlighted, "#entries")
    def _entry_text(self) -> None:
        page, table = self.query_one("#entry-text", Static), self.query_one("#entries", DataTable)
        if not self._entries:
            known = self._entries is not None
            page.update(Text(self.tr("model.no_history", path=outside(journal.default_folder())) if known else ""))
            return
        entry = self._entries[min(max(0, table.cursor_row), len(self._entries) - 1)]
        columns = max(30, self.query_one("#entry-page").scrollable_content_region.width - 1)
        text = Text(no_wrap=True)
        for file in entry.files:
            text.append("\n".join(wrap(outside(file.path), columns)) + "\n", "bold")
            for key, old, new in file.edits[:100]:
                for line in wrap(outside(f"{key}: {_change(old, new)}"), columns - 2):
                    text.append(f"  {line}\n")
        page.update(text)

    # ------------------------------------------------------------------ actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("again", "next_file", "copy", "save"):
            return bool(self.target) if action == "again" else bool(self._seen)
        return True

    def action_tab(self, name: str) -> None:
        """Show a page and give it the focus."""
        if self.maximized:
            self.minimize()
        self.query_one("#model-tabs", TabbedContent).active = name
        # what has the focus decides which tab is shown
        self.query_one(FOCUS[name], Widget).focus()

    def action_choose(self) -> None:
        """Choose a file or folder."""
        if isinstance(self.app.screen, OpenScreen):
            return
        folder = self.target if os.path.isdir(self.target) else os.path.dirname(self.target)
        start = folder if folder and os.path.isdir(folder) else os.getcwd()
        chosen: Callable[[str | None], None] = lambda path: self.look_at(path) if path else None  # noqa: E731
        self.app.push_screen(OpenScreen(start, "model.open"), chosen)

    def action_again(self) -> None:
        """Look at everything anew."""
        if self.target and not self._writing:
            kept, finding = self._file, self._finding
            self._entries, self._offer, self._taken = None, None, None
            self._seen, self._looked, self._cut = {}, 0, False
            self.query_one(LogPane).forget()
            self._start([self.target])
            # the emptied tree has forgotten them
            self._file, self._finding = kept, finding

    def action_shown(self) -> None:
        """Also what could not be told, or only what is wrong."""
        self._unknown = not self._unknown
        self._fill()

    def action_aliases(self) -> None:
        """Agree that aliases of a changed value change with it, or no longer."""
        self._aliases = not self._aliases
        self.doctor.say(self.tr("model.aliases_on" if self._aliases else "model.aliases_off"))
        self._page()

    def action_next_file(self) -> None:
        """The next file of the tree, round and round."""
        paths = [seen.path for seen in self._worst_first()]
        if paths:
            at = paths.index(self._file) + 1 if self._file in paths else 0
            self.query_one(FindingTree).select(paths[at % len(paths)])

    def action_search(self) -> None:
        """Find a text in the source that is shown."""
        if self._tab != "findings":
            self.action_tab("findings")
        self.query_one(LogPane).action_search()

    def action_zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        if self.maximized:
            self.minimize()
            return
        focused = self.focused
        kinds = (LogPane, Detail, FindingTree, DiffView)
        pane = next((p for p in focused.ancestors_with_self if isinstance(p, kinds)), None) if focused else None
        if isinstance(pane, Widget):
            self.maximize(pane, container=False)

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        if self._seen:
            report = configs.report(self._worst_first(), self.doctor.rulebase())
            copy(self, report)

    def action_save(self) -> None:
        """The whole report to a file."""
        if self._seen:
            report = configs.report(self._worst_first(), self.doctor.rulebase())
            save(self, report)

    def action_back(self) -> None:
        """Stop what runs; without that, leave the whole pane, then the screen."""
        if self._writing:
            return  # a moment, and what came of it is told
        if self._cancel is not None and not self._cancel.is_set():
            self._cancel.set()
            self._head()
        elif self._offering is not None and not self._offering.is_set():
            self._offering.set()
        elif self.maximized:
            self.minimize()
        else:
            self.dismiss()


# ---------------------------------------------------------------------- texts


def _crashed(error: Exception) -> str:
    crash.save(error, "tui")
    return f"{type(error).__name__}: {error}"


def _more() -> str:
    return "..." if ascii_only() else "…"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:59] + _more()


def _change(old: str, new: str) -> str:
    """Old and new value of a key."""
    return f"{_short(old) or '-'} {'->' if ascii_only() else '→'} {_short(new) or '-'}"


def _hanging(head: str, words: str, columns: int, style: str = "") -> Text:
    """Words behind a head, wrapped below themselves."""
    indent = cell_len(head)
    rows = wrap(words, max(16, columns - indent)) or [""]
    text = Text(head, no_wrap=True)
    text.append(("\n" + " " * indent).join(rows), style)
    return text


def memory_text(plan: Plan, lang: str, columns: int, plain: bool = False) -> Text:
    """The estimate of the fullest stage with its arithmetic, a bar for each part, and one for each stage."""
    shape, settings = memory.shape_of(plan), memory.settings_of(plan)
    if shape is None or settings is None:
        return Text(tr(lang, "memory.no_estimate"))
    made = memory.estimate(shape, settings)
    text = Text(no_wrap=True)
    title = tr(lang, "memory.title", parameters=f"{made.parameters / 1e9:,.2f}", stage=made.worst,
               layers=made.layers[made.worst])  # fmt: skip
    text.append("\n".join(wrap(title, columns)) + "\n\n", "bold")
    rows = [
        (tr(lang, "memory." + row.name), row.size, tr(lang, "memory.how." + row.how, **row.args),
         tr(lang, "confidence." + row.sure))
        for row in made.stages[made.worst]
    ]  # fmt: skip
    rows.append((tr(lang, "memory.total"), made.total(), "", tr(lang, "confidence.guess")))
    room = max(cell_len(name) for name, _, _, _ in rows)
    figures = max(len(show.gib(size)) for _, size, _, _ in rows)
    sure_room = max(cell_len(sure) for _, _, _, sure in rows)
    length = 20 if columns < 100 else 30
    for name, size, how, sure in rows:
        style = "bold" if not how else ""
        text.append(name + " " * (room - cell_len(name) + 2) + f"{show.gib(size):>{figures}}  ", style)
        drawn = bar(size, made.total(), length, plain)
        text.append(drawn, "cyan")
        text.append(" " * (length - cell_len(drawn) + 2) + sure + " " * (sure_room - cell_len(sure)), "dim")
        beside = room + figures + length + sure_room + 8
        if how and beside + cell_len(how) <= columns:
            text.append(f"  {how}\n", "dim")
        elif how:
            text.append("\n")
            for line in wrap(how, columns - room - 2):
                text.append(" " * (room + 2) + line + "\n", "dim")
        else:
            text.append("\n")
    text.append("\n")
    text.append_text(_stages(plan, made, lang, columns, plain))
    for line in show.fit_lines(plan, shape, made, lang):
        text.append("\n".join(wrap(outside(line), columns)) + "\n")
    return text


MOST_STAGES = 64


def _stages(plan: Plan, made: memory.Estimate, lang: str, columns: int, plain: bool) -> Text:
    """One bar for each stage, the limit as a line through them."""
    text = Text(no_wrap=True)
    limit = plan.get("context.memory_gib")
    totals = [made.total(n) for n in range(len(made.stages))]
    most = max([*totals, (limit or 0) * memory.GIB])
    heads = [tr(lang, "tui.model.stage", stage=n, layers=layers) for n, layers in enumerate(made.layers)]
    room, figures = max(map(cell_len, heads)), max(len(show.gib(size)) for size in totals)
    length = max(10, min(60, columns - room - figures - 14))
    at = min(length - 1, round(limit * memory.GIB / most * length)) if limit else -1
    for n, size in list(enumerate(totals))[:MOST_STAGES]:
        drawn = bar(size, most, length, plain)
        drawn += " " * (length - cell_len(drawn))
        over = limit is not None and size > limit * memory.GIB
        text.append(heads[n] + " " * (room - cell_len(heads[n]) + 2) + f"{show.gib(size):>{figures}}  ")
        style = "red" if over else "green"
        if at >= 0:
            text.append(drawn[:at], style)
            text.append("|", "bold")
            text.append(drawn[at + 1 :], style)
        else:
            text.append(drawn, style)
        text.append(f" {mark('error', plain)}\n" if over else "\n")
    if len(totals) > MOST_STAGES:
        text.append(tr(lang, "more", n=len(totals) - MOST_STAGES) + "\n")
    if limit:
        text.append(" " * (room + figures + 4 + at) + f"^ {cel.text_of(limit)} GB\n", "dim")
    return text
