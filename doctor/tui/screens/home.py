"""Where it begins: paste a log, or name one."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Footer, Input, Static

from doctor import __version__
from doctor.render.text import size_text
from doctor.tui.base import TranslatedScreen, outside


class PathInput(Input):
    """One line takes a path; several lines are a log and go where every paste goes."""

    class Pasted(Message):
        """A paste that is no path."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def _on_paste(self, event: events.Paste) -> None:
        # for a single line the handler of Input runs after this one, without being called
        if "\n" in event.text.strip() or "\r" in event.text.strip():
            event.stop()
            event.prevent_default()
            self.post_message(self.Pasted(event.text))


class PasteArea(Static, can_focus=True):
    """Has the focus at first, so that letters are keys and not text."""


class HomeScreen(TranslatedScreen[None]):
    """Shows what is going on while a diagnosis runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "demo", "tui.key.demo"),
        Binding("escape", "cancel", "tui.key.cancel"),
    ]

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        return [("cancel", self.doctor.cancel)] if self.doctor.job is not None else []

    def compose(self) -> ComposeResult:
        with Vertical(id="home"):
            yield Static(id="home-title", markup=False)
            yield PasteArea(id="home-paste", markup=False)
            yield Static(id="home-or", markup=False)
            yield PathInput(id="home-path")
            with Horizontal(id="home-buttons"):
                yield Button(" ", id="go", variant="primary", compact=True)
                yield Button(" ", id="open", compact=True)
                yield Button(" ", id="demo", compact=True)
                yield Button(" ", id="machine", compact=True)
                yield Button(" ", id="model", compact=True)
                yield Button(" ", id="smoke", compact=True)
                yield Button(" ", id="watch", compact=True)
                yield Button(" ", id="checks", compact=True)
            yield Static(id="home-status", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(PasteArea).focus()
        self.set_interval(0.25, self.refresh_status)

    def retranslate(self) -> None:
        self.query_one("#home-title", Static).update(
            Text.assemble(("MindSpore Doctor ", "bold"), (f"{__version__}\n", "dim"), self.tr("home.about"))
        )
        self.query_one(PasteArea).update(self.tr("home.paste"))
        self.query_one("#home-or", Static).update(self.tr("home.or"))
        self.query_one(PathInput).placeholder = self.tr("home.path")
        for name in ("go", "open", "demo", "machine", "model", "smoke", "watch", "checks"):
            self.query_one(f"#{name}", Button).label = Text(self.tr(f"home.{name}"))
        self.refresh_status()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "cancel":
            return self.doctor.job is not None
        return True

    def refresh_status(self) -> None:
        """What runs, how far it is, or what came of the last try."""
        job = self.doctor.job
        status = self.query_one("#home-status", Static)
        status.set_class(job is None and self.doctor.trouble is not None, "-trouble")
        if job is None:
            status.update(self.doctor.trouble_text())
            return
        what = outside(job.name)
        if job.lines:
            what = self.tr("home.pasted", lines=f"{job.lines:,}", size=size_text(job.size))
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
            self.query_one(PathInput).focus()

    @on(Button.Pressed, "#open")
    def _open(self) -> None:
        self.doctor.action_open()

    @on(Button.Pressed, "#demo")
    def action_demo(self) -> None:
        """The shipped sample run."""
        self.doctor.action_demo()

    @on(Button.Pressed, "#machine")
    def _machine(self) -> None:
        self.doctor.action_machine()

    @on(Button.Pressed, "#model")
    def _model(self) -> None:
        self.doctor.action_model()

    @on(Button.Pressed, "#smoke")
    def _smoke(self) -> None:
        self.doctor.action_smoke()

    @on(Button.Pressed, "#watch")
    def _watch(self) -> None:
        self.doctor.action_watch()

    @on(Button.Pressed, "#checks")
    def _checks(self) -> None:
        self.doctor.action_checks()

    @on(PathInput.Pasted)
    def _pasted(self, event: PathInput.Pasted) -> None:
        self.doctor.take_paste(event.text)

    def action_cancel(self) -> None:
        """Stop reading."""
        self.doctor.cancel()
