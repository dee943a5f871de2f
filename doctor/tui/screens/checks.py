"""The rules room: browse and read rules, try one, write one, and what can be judged at present."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Footer, Input, TabbedContent, TabPane, TextArea

from doctor.tui.base import TranslatedScreen
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.open import OpenScreen
from doctor.tui.screens.rules.browse import BrowsePage, RulePage, RuleTree
from doctor.tui.screens.rules.page import Page, Room
from doctor.tui.screens.rules.state import StatePage
from doctor.tui.screens.rules.trial import TrialPage
from doctor.tui.screens.rules.write import WritePage
from doctor.tui.widgets.logpane import LogPane

TABS = ("rules", "try", "new", "state")
"""The pages in the order of their keys."""


class ChecksScreen(TranslatedScreen[None]):
    """Four pages. ``line``: a log line (with the level of its record and where it was seen) to make a rule of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"tab('{name}')", f"tui.checks.{name}", show=False) for n, name in enumerate(TABS, 1)),
        Binding("slash", "find", "tui.key.find"),
        Binding("y", "source", "tui.key.source"),
        Binding("t", "try_rule", "tui.key.try_rule"),
        Binding("n", "new", "tui.key.new_rule"),
        Binding("f3", "try_file", "tui.key.try_file"),
        Binding("f5", "try_log", "tui.key.try_log"),
        Binding("ctrl+s", "save_rule", "tui.key.save_rule"),
        Binding("f4", "edit", "tui.key.edit"),
        Binding("z", "zoom", "tui.key.zoom", show=False),
        Binding("escape", "back", "tui.key.back"),
        # where it stands it leaves no room for the keys of this screen
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = (
        "find", "source", "try_rule", "try_file", "try_log", "new_rule", "save_rule", "edit", "zoom", "back",
    )  # fmt: skip
    KEY_SECTION = ("help.rules", (
        ("1 … 4", "key.rule_pages"), ("/", "key.find"), ("y", "key.source"), ("t", "key.try_rule"),
        ("F3  F5", "key.try_other"), ("n", "key.new_rule"), ("Ctrl+S", "key.save_rule"), ("F4", "key.edit"),
    ))  # fmt: skip

    class Ready(Message):
        """The rules are loaded, or could not be."""

        def __init__(self, room: Room | None, error: Exception | None = None) -> None:
            super().__init__()
            self.room, self.error = room, error

    def __init__(self, line: tuple[str, str, str] | None = None) -> None:
        super().__init__()
        self._line = line

    def compose(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            with TabPane(" ", id="rules"):
                yield BrowsePage(id="browse-page")
            with TabPane(" ", id="try"):
                yield TrialPage(id="try-page")
            with TabPane(" ", id="new"):
                yield WritePage(id="new-page")
            with TabPane(" ", id="state"):
                yield StatePage(id="state-page")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        # what has the focus decides which page is shown: one of them alone asks for it
        if self._line is not None:
            self.write_from(*self._line)
            self.query_one(WritePage).take_focus()
        else:
            self.set_focus(self.query_one(RuleTree))
        self._load()

    @work(thread=True, exclusive=True, group="checks", exit_on_error=False)
    def _load(self) -> None:
        try:
            from doctor.rulesearch import Index
            from doctor.scan.scanner import Matcher

            base = self.doctor.rulebase()
            room = Room(base, Matcher(base).engine.name, Index(base))
        except Exception as error:
            self.post_message(self.Ready(None, error))
            return
        self.post_message(self.Ready(room))

    @on(Ready)
    def _ready(self, event: Ready) -> None:
        if event.error is not None:
            self.doctor.broke(event.error)
            self.query_one(StatePage).error = f"{type(event.error).__name__}: {event.error}"
        for page in self.query(Page):
            page.enter(event.room)
        if event.room is None:
            self.action_tab("state")

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        tabs = self.query_one("#tabs", TabbedContent)
        for n, name in enumerate(TABS, 1):
            tabs.get_tab(name).label = Text(f"{n} {self.tr(f'checks.{name}')}")
        for page in self.query(Page):
            page.retranslate()

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        tabs = [(f"page_{name}", partial(self.action_tab, name)) for name in ("rules", "state")]
        own = {"new_rule": self.action_new}
        return [*tabs, *((name, own.get(name) or getattr(self, f"action_{name}")) for name in self.PALETTE)]

    # ------------------------------------------------------------------ actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        home = {"source": "rules", "try_file": "try", "try_log": "try", "save_rule": "new", "edit": "new"}.get(action)
        if action in ("try_rule", "new", "find"):
            return self._tab in ("rules", "state")
        return home is None or self._tab == home

    @on(TabbedContent.TabActivated)
    def _activated(self) -> None:
        self.refresh_bindings()

    @property
    def _tab(self) -> str:
        return self.query_one("#tabs", TabbedContent).active

    def action_tab(self, name: str) -> None:
        """Show a page and give it the focus."""
        if self.maximized:
            self.minimize()
        if name == "try":
            self.query_one(TrialPage).choose(self.query_one(BrowsePage).rule_id)
        self.query_one("#tabs", TabbedContent).active = name
        page = self.query_one(f"#{name} Page", Page) if name != "rules" else self.query_one(BrowsePage)
        page.take_focus()
        self.refresh_bindings()

    def action_find(self) -> None:
        """Type words to search for."""
        self.query_one("#tabs", TabbedContent).active = "rules"
        self.set_focus(self.query_one("#filter", Input))

    def action_source(self) -> None:
        """The file of the rule, or its page again."""
        page = self.query_one(BrowsePage)
        if self._tab != "rules":
            self.action_tab("rules")
        page.source = not page.source
        page.read()

    def action_try_rule(self) -> None:
        """Try the rule under the cursor."""
        self.action_tab("try")

    def action_try_file(self) -> None:
        """Try the rule on a file or folder."""
        self.action_tab("try")

        def chosen(path: str | None) -> None:
            if path:
                self.query_one(TrialPage).try_path(path)

        self.app.push_screen(OpenScreen(os.getcwd(), "rules.open"), chosen)

    def action_try_log(self) -> None:
        """Try the rule on the log that is open below this screen."""
        for screen in reversed(self.app.screen_stack):
            for pane in screen.query(LogPane):
                if pane.path:
                    self.action_tab("try")
                    self.query_one(TrialPage).try_path(pane.path)
                    return
        self.doctor.say(self.tr("rules.no_log"), wrong=True)

    def action_new(self) -> None:
        """Write a rule of one's own."""
        self.action_tab("new")

    def write_from(self, line: str, level: str = "", context: str = "") -> None:
        """Make a rule of a log line."""
        page = self.query_one(WritePage)
        self.query_one("#tabs", TabbedContent).active = "new"
        page.start(line, level, context)

    def action_save_rule(self) -> None:
        """Save the new rule where it says."""
        if self._tab == "new":
            self.query_one(WritePage).save()

    def action_edit(self) -> None:
        """Save the new rule and open it in $EDITOR."""
        if self._tab == "new":
            self.query_one(WritePage).edit()

    def _answered(self, yes: bool | None) -> None:
        if yes:
            self.dismiss()

    def action_zoom(self) -> None:
        """The pane with the focus alone, or all of them again."""
        self.zoom((RuleTree, RulePage))

    def action_back(self) -> None:
        """Out of a text, then to the rules, then away; a rule that is not saved is asked about."""
        trial = self.query_one(TrialPage)
        if self.maximized:
            self.minimize()
        elif trial.running:
            trial.stop()
        elif isinstance(self.focused, TextArea) and self._tab == "try":
            self.set_focus(self.query_one("#try-answer"))
        elif isinstance(self.focused, Input | TextArea) and self._tab == "new":
            self.set_focus(self.query_one("#new-answer"))
        elif isinstance(self.focused, Input):
            self.set_focus(self.query_one(RuleTree))
        elif self._tab not in ("rules", "state"):
            self.action_tab("rules")
        elif self.query_one(WritePage).unsaved:
            question = ConfirmScreen(lambda: [self.tr("rules.ask_leave"), self.tr("rules.ask_leave_why")])
            self.app.push_screen(question, self._answered)
        else:
            self.dismiss()
