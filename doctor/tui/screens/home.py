"""Where it begins: paste a log, or name one; beside it the machine at a glance, its checks running meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Button, Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from doctor import __version__
from doctor.model import Report
from doctor.render.text import size_text
from doctor.render.topology import clip
from doctor.tui.base import NARROW_BELOW, TranslatedScreen, ascii_only, outside, styled, tail, wrap
from doctor.tui.places import PLACES
from doctor.tui.widgets.choices import Choices

RECENT = 8
"""Paths of earlier runs that are offered."""


class PathInput(Input):
    """One line takes a path; several lines are a log and go where every paste goes. Escape leaves it, so that letters
    are keys again."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "tui.key.back", show=False)]

    class Left(Message):
        """Nothing is typed any more."""

    class Pasted(Message):
        """A paste that is no path."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def action_leave(self) -> None:
        self.post_message(self.Left())

    @staticmethod
    def is_log(text: str) -> bool:
        """Whether a paste is more than a line."""
        return "\n" in text.strip() or "\r" in text.strip()

    def _on_paste(self, event: events.Paste) -> None:
        # for a single line the handler of Input runs after this one, without being called
        if self.is_log(event.text):
            event.stop()
            event.prevent_default()
            self.post_message(self.Pasted(event.text))


class PasteArea(Static, can_focus=True):
    """Has the focus at first, so that letters are keys and not text."""


class Glance(VerticalScroll, can_focus=True):
    """The machine; Enter shows every check."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.machine", "tui.key.machine", show=False)]

    class Sized(Message):
        """There is another room for the text."""

    def compose(self) -> ComposeResult:
        yield Static(id="glance-text", markup=False)

    def on_resize(self) -> None:
        self.post_message(self.Sized())


class HomeScreen(TranslatedScreen[None]):
    """Shows what is going on while a diagnosis runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "tui.key.demo"),
        Binding("b", "last", "tui.key.last", show=False),
        # what a path begins with begins a path
        *(Binding(key, f"path('{key}')", "tui.key.path", show=False) for key in ("slash", "tilde", "full_stop")),
        Binding("c", "copy", "tui.key.copy", show=False),
        Binding("s", "save", "tui.key.save", show=False),
        Binding("escape", "cancel", "tui.key.cancel"),
    ]

    _status: Text | None = None
    """what is said while nothing runs, None if something else is shown"""
    KEY_SECTION = ("help.home", (("d", "key.demo"), ("b", "key.last"), ("/ ~ .", "key.path")))

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        cancel: list[tuple[str, Callable[[], Any]]] = [("cancel", self.action_cancel)] if self._busy() else []
        report = [("copy", self.action_copy), ("save", self.action_save)] if self._report() is not None else []
        last: list[tuple[str, Callable[[], Any]]] = [("last", self.action_last)] if self.doctor.last else []
        return [*cancel, *last, *report]

    def compose(self) -> ComposeResult:
        with Container(id="home"):
            with Vertical(id="home-ask"):
                yield Static(id="home-title", markup=False)
                yield PasteArea(id="home-paste", markup=False)
                yield Static(id="home-or", markup=False)
                yield PathInput(id="home-path", select_on_focus=False)
                with Horizontal(id="home-buttons"):
                    yield Button(" ", id="go", variant="primary", compact=True)
                    yield Button(" ", id="open", compact=True)
                    yield Button(" ", id="demo", compact=True)
                with Horizontal(id="home-places"):
                    for place in PLACES:
                        yield Button(" ", id=place.name, classes="place", compact=True)
                yield Static(id="home-status", markup=False)
                yield Choices(id="home-menu", compact=True)
                yield Choices(id="home-recent", compact=True)
            yield Glance(id="glance")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.set_focus(self.query_one(PasteArea))
        self.set_interval(0.25, self.refresh_status)

    def on_screen_resume(self) -> None:
        self._fill_recent()
        self.refresh_status()

    def on_resize(self) -> None:
        self._title()
        self._fill_recent()
        self._fill_menu()

    def _busy(self) -> bool:
        checking = self.doctor.checking
        return self.doctor.job is not None or (checking is not None and checking.working)

    def _report(self) -> Report | None:
        checking = self.doctor.checking
        return checking.report if checking is not None else None

    def machine_changed(self) -> None:
        self._glance()
        self.refresh_bindings()

    @on(Glance.Sized)
    def _glance(self) -> None:
        from doctor.tui import glance

        pane = self.query_one(Glance)
        pane.border_title = Text(self.tr("glance.title"))
        pane.border_subtitle = Text(self.tr("glance.hint"))
        room = pane.scrollable_content_region
        columns, rows = max(20, room.width), room.height
        drawn = glance.lines(self.doctor.checking, self.doctor.lang, columns, rows, ascii_only())
        self.query_one("#glance-text", Static).update(styled(drawn))

    def _title(self) -> None:
        """What this is; wrapped here, because Textual breaks Chinese at blanks only."""
        columns = self.size.width // 2 - 6 if self.size.width >= NARROW_BELOW else self.size.width - 2
        about = "\n".join(wrap(self.tr("home.about"), max(20, columns)))
        self.query_one("#home-title", Static).update(
            Text.assemble(("MindSpore Doctor ", "bold"), (f"{__version__}\n", "dim"), about)
        )

    def _fill_menu(self) -> None:
        """What else can be done, with its key and a sentence: where there is room, in place of the buttons."""
        menu = self.query_one("#home-menu", OptionList)
        at = menu.highlighted
        menu.clear_options()
        rows = [(place.key, place.name) for place in PLACES]
        names = [self.tr(f"home.{name}") for _, name in rows]
        widest = max(cell_len(name) for name in names)
        room = max(10, self.size.width // 2 - 16 - widest)
        for (key, name), label in zip(rows, names, strict=True):
            text = Text.assemble((f"{key}  ", "cyan"), label + " " * (widest - cell_len(label) + 2))
            text.append(clip(self.tr(f"about.{name}"), room, ascii_only()), "dim")
            menu.add_option(Option(text, id=name))
        menu.highlighted = at

    @on(OptionList.OptionSelected, "#home-menu")
    def _menu(self, event: OptionList.OptionSelected) -> None:
        self.doctor.show(event.option_id or "")

    def _fill_recent(self) -> None:
        """Paths of earlier runs that are still there."""
        offered = self.query_one("#home-recent", OptionList)
        offered.border_title = Text(self.tr("home.recent"))
        paths = [path for path in self.doctor.state.recent if os.path.exists(path)][:RECENT]
        offered.set_class(not paths, "-empty")
        offered.clear_options()
        room = max(20, self.size.width // 2 - 8)
        for path in paths:
            offered.add_option(Option(Text(tail(outside(path), room, ascii_only()))))
        self._offered = paths

    @on(OptionList.OptionSelected, "#home-recent")
    def _again(self, event: OptionList.OptionSelected) -> None:
        if event.option_index < len(self._offered):
            self.doctor.diagnose_path(self._offered[event.option_index])

    def retranslate(self) -> None:
        self._title()
        self.query_one(PasteArea).update(self.tr("home.paste"))
        self.query_one("#home-or", Static).update(self.tr("home.or"))
        self.query_one(PathInput).placeholder = self.tr("home.path")
        for name in ("go", "open", "demo", *(place.name for place in PLACES)):
            label = self.tr(f"home.{name}")
            self.query_one(f"#{name}", Button).label = Text(label.replace("…", "...") if ascii_only() else label)
        self._fill_menu()
        self._fill_recent()
        self._glance()
        self.refresh_status()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return self._busy()
        if action == "last":
            return self.doctor.last is not None
        return self._report() is not None if action in ("copy", "save") else True

    def refresh_status(self) -> None:
        """What runs, how far it is, or what came of the last try."""
        job, last = self.doctor.job, self.doctor.last
        status = self.query_one("#home-status", Static)
        status.set_class(job is None and self.doctor.trouble is not None, "-trouble")
        status.set_class(job is None and self.doctor.trouble is None and last is None, "-empty")
        if job is None:
            text = Text(self.doctor.trouble_text(), no_wrap=False)
            if last is not None:
                text.append("\n" if text else "")
                text.append("b  ", "cyan")
                text.append(self.tr("home.last", name=outside(last.name) or self.tr("home.last_paste")))
            if text != self._status:
                # an update lays the screen out anew, four times a second for nothing
                self._status = text
                status.update(text)
            return
        what = outside(job.name)
        if job.lines:
            what = self.tr("home.pasted", lines=f"{job.lines:,}", size=size_text(job.size))
        self._status = None
        text = Text(f"{self.tr('home.running')} {what}\n")
        seconds = job.seconds()
        if seconds >= 1.0:
            share = f"{min(100, job.done * 100 // job.total)} %" if job.total else size_text(job.done)
            text.append(self.tr("home.progress", share=share, rate=size_text(job.done / seconds)))
        if job.cancel.is_set():
            text.append("  " + self.tr("home.cancelling"))
        status.update(text)

    @on(Input.Submitted, "#home-path")
    @on(Button.Pressed, "#go")
    def _go(self) -> None:
        path = self.query_one(PathInput).value.strip()
        if len(path) > 1 and path[0] == path[-1] and path[0] in "'\"":
            path = path[1:-1]
        if path:
            self.doctor.diagnose_path(os.path.expanduser(path))
        else:
            self.set_focus(self.query_one(PathInput))

    def action_path(self, key: str) -> None:
        """A path that is typed goes where paths go."""
        line = self.query_one(PathInput)
        self.set_focus(line)
        line.value = {"slash": "/", "tilde": "~", "full_stop": "."}[key]
        line.cursor_position = 1

    def action_last(self) -> None:
        """The diagnosis that was shown last, as it was."""
        self.doctor.show_last()

    @on(Button.Pressed, "#open")
    def _open(self) -> None:
        self.doctor.action_open()

    @on(Button.Pressed, "#demo")
    def action_demo(self) -> None:
        """The shipped sample run."""
        self.doctor.action_demo()

    @on(Button.Pressed, ".place")
    def _place(self, event: Button.Pressed) -> None:
        if event.button.id in {place.name for place in PLACES}:
            self.doctor.show(event.button.id)

    @on(PathInput.Left)
    def _left(self) -> None:
        if self._busy():
            self.action_cancel()
        else:
            self.set_focus(self.query_one(PasteArea))

    @on(PathInput.Pasted)
    def _pasted(self, event: PathInput.Pasted) -> None:
        self.doctor.take_paste(event.text)

    def action_cancel(self) -> None:
        """Stop reading; when nothing is read, stop the checks of the machine."""
        if self.doctor.job is not None:
            self.doctor.cancel()
        elif self.doctor.checking is not None:
            self.doctor.checking.stop()
            self._glance()

    def action_copy(self) -> None:
        """The report of the machine to the clipboard, by OSC 52."""
        report = self._report()
        if report is not None:
            from doctor.tui.screens.save import copy

            copy(self, report)

    def action_save(self) -> None:
        """The report of the machine to a file."""
        report = self._report()
        if report is not None:
            from doctor.tui.screens.save import save

            save(self, report)
