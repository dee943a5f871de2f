"""Configurations before a run: findings by file, memory, the plan's values, patches, and what was patched so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer, Static, TabbedContent, TabPane

from doctor.fixcli import why_text
from doctor.i18n import LANGUAGES, tr
from doctor.model import Finding, Verdict
from doctor.patch import apply, journal
from doctor.patch.journal import Entry
from doctor.patch.spans import Refused
from doctor.plan import cel
from doctor.render.text import STYLES, mark
from doctor.tui import configs
from doctor.tui.base import TranslatedScreen, ascii_only, outside
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.model.history import HistoryPage
from doctor.tui.screens.model.memory import MemoryPage
from doctor.tui.screens.model.page import change, crashed
from doctor.tui.screens.model.patching import PatchPage
from doctor.tui.screens.model.values import ValuesPage
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
        self._settled = False

    def compose(self) -> ComposeResult:
        yield Static(id="model-head", markup=False)
        with TabbedContent(id="model-tabs"):
            with TabPane(" ", id="findings"), Container(id="panes"):
                yield FindingTree(id="causes")
                yield LogPane(id="log", title="model.source")
                yield Detail(id="detail")
            with TabPane(" ", id="memory"):
                yield MemoryPage(id="memory-page")
            with TabPane(" ", id="values"):
                yield ValuesPage(id="values-page")
            with TabPane(" ", id="patch"):
                yield PatchPage(self._rules, id="patch-panes")
            with TabPane(" ", id="history"):
                yield HistoryPage(id="history-panes")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one(FindingTree))
        if self.target:
            self._start([self.target])
        else:
            self.call_after_refresh(self.action_choose)

    def on_unmount(self) -> None:
        if self._cancel is not None:
            self._cancel.set()

    @property
    def _patch(self) -> PatchPage:
        return self.query_one(PatchPage)

    # ------------------------------------------------------------------ looking at files

    def look_at(self, path: str) -> None:
        """Look at another file or folder."""
        self.target = self.doctor.model_path = path
        self.doctor.state.remember("model", path)
        self._seen, self._looked, self._cut, self._file, self._finding = {}, 0, False, "", None
        self._settled = False
        self._patch.forget()
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
            self.post_message(self.Ended(cancel, crashed(error)))
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
        if self._tab == "patch":
            self._page()

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
                text.append(f"{mark(sign, ascii_only())} {self.tr(f'model.head.{sign}')} ", STYLES[sign])
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
            self.set_focus(self.query_one(LogView))

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
            page = self.query_one(MemoryPage)
            page.show(plan, self.doctor.lang, self._no_plan(seen))
        elif self._tab == "values":
            self.query_one(ValuesPage).show(plan, seen)
        elif self._tab == "patch":
            self._patch.show(self._file, seen, self._finding)
        elif self._tab == "history":
            self.query_one(HistoryPage).show()

    def _no_plan(self, seen: configs.Seen | None) -> str:
        return self.query_one(ValuesPage).no_plan(seen)

    @on(ValuesPage.Chosen)
    def _to_line(self, event: ValuesPage.Chosen) -> None:
        """Enter on a value goes to its line."""
        self.query_one("#model-tabs", TabbedContent).active = "findings"
        self.query_one(LogPane).show(event.evidence)
        self.set_focus(self.query_one(LogView))

    @on(PatchPage.Failed)
    def _patch_failed(self, event: PatchPage.Failed) -> None:
        self._error = event.error
        self._head()

    # ------------------------------------------------------------------ writing

    def action_apply(self) -> None:
        """Write the patch that is shown; asks first."""
        taken = self._patch.taken
        if self._patch.writing:
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
                    out.append(outside(f"  {edit.key}: {change(edit.old, edit.new)}"))
                if file.also:
                    out.append("  " + tr(self.doctor.lang, "fix.also", keys=outside(", ".join(file.also[:12]))))
            unsafe = [d.proposal.fix.id for d in taken.decisions.values()
                      if d.state == "planned" and d.proposal.fix.applicability != "safe"]  # fmt: skip
            if unsafe:
                out += ["", self.tr("model.ask_unsafe", ids=", ".join(unsafe))]
            return out

        def answered(yes: bool | None) -> None:
            if yes and self._patch.taken is not taken:
                self.doctor.say(self.tr("model.other_patch"), wrong=True)
            elif yes:
                self._patch.writing = True
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
            error = crashed(failure)
        self.post_message(self.Written(key, entry_id, paths, refused, error))

    @on(Written)
    def _written(self, event: Written) -> None:
        self._patch.writing = False
        history = self.query_one(HistoryPage)
        history.entries = None
        if event.refused is not None:
            path = event.refused.args_.get("path")
            where = f"{path}: " if path else ""
            self.doctor.say(outside(where + why_text(self.doctor.lang, event.refused)), wrong=True)
        elif event.error:
            self.doctor.say(outside(event.error), wrong=True)
        else:
            names = ", ".join(os.path.basename(path) for path in event.paths)
            self.doctor.say(self.tr(event.key, id=event.entry_id, files=outside(names)))
        self._patch.forget()
        own = [path for path in event.paths if path in self._seen]
        for path in own:
            self.query_one(LogPane).forget(path)
        if own and self._cancel is None:
            self._start(own)
        else:
            self._page()

    def action_undo(self) -> None:
        """Put back the patch under the cursor of the history, elsewhere the newest one; asks first."""
        if self._patch.writing:
            return
        history = self.query_one(HistoryPage)
        if self._tab == "history" and history.entries:
            if (entry := history.chosen()) is not None:
                self._ask_undo(entry)
            return
        history.ask(True)

    @on(HistoryPage.Undo)
    def _newest(self, event: HistoryPage.Undo) -> None:
        self._ask_undo(event.entry)

    def _ask_undo(self, entry: Entry) -> None:
        if entry.state not in ("done", "begun"):
            refused = Refused("undone", id=entry.id)
            self.doctor.say(outside(why_text(self.doctor.lang, refused)), wrong=True)
            return

        def lines() -> list[str]:
            out = [self.tr("model.ask_undo", id=entry.id)]
            for file in entry.files:
                out += ["", outside(file.path)]
                out += [outside(f"  {key}: {change(new, old)}") for key, old, new in file.edits[:40]]
            return out

        def answered(yes: bool | None) -> None:
            if yes:
                self._patch.writing = True
                self._undo(entry)

        self.app.push_screen(ConfirmScreen(lines), answered)

    @work(thread=True, group="write", exit_on_error=False)
    def _undo(self, entry: Entry) -> None:
        paths = [file.path for file in entry.files]
        self._guarded("model.undone", paths, lambda: apply.undo(journal.Journal(), entry.id).id)

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
        self.set_focus(self.query_one(FOCUS[name], Widget))

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
        if self.target and not self._patch.writing:
            kept, finding = self._file, self._finding
            self.query_one(HistoryPage).entries = None
            self._patch.forget()
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
        patch = self._patch
        patch.aliases = not patch.aliases
        self.doctor.say(self.tr("model.aliases_on" if patch.aliases else "model.aliases_off"))
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
        self.zoom((LogPane, Detail, FindingTree, DiffView))

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

    def label(self, name: str) -> str:
        looks = self._cancel is not None and not self._cancel.is_set()
        return "tui.key.end_run" if name == "tui.key.back" and (looks or self._patch.searching) else name

    def action_back(self) -> None:
        """Stop what runs; without that, leave the whole pane, then the screen."""
        if self._patch.writing:
            return  # a moment, and what came of it is told
        if self._cancel is not None and not self._cancel.is_set():
            self._cancel.set()
            self._head()
        elif self._patch.searching:
            self._patch.stop()
        elif self.maximized:
            self.minimize()
        else:
            self.dismiss()
