"""The smoke test, live: stages as they come, the loss, then every verdict."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import Footer, Input, Static

from doctor import crash, smoke
from doctor.model import Report
from doctor.smoke import show
from doctor.tui.base import TranslatedScreen, ascii_only, outside
from doctor.tui.screens.save import copy, save

BARS = ("▁▂▃▄▅▆▇█", "_.-=+*#@")
"""Levels of the loss, lowest first; the second row for terminals without Unicode."""

Runner = Callable[..., Report]


def chart(losses: Sequence[float], columns: int, plain: bool = False) -> str:
    """The losses as one row of bars, the newest on the right; what is not finite is a cross.

    >>> chart([3.0, 2.0, 1.0], 8, plain=True)
    '@+_'
    """
    shown = losses[-columns:] if columns > 0 else []
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return "x" * len(shown)
    low, high = min(finite), max(finite)
    bars = BARS[plain]
    step = (high - low) / (len(bars) - 1) or 1.0
    return "".join(bars[round((v - low) / step)] if math.isfinite(v) else "x" for v in shown)


class SmokeScreen(TranslatedScreen[None]):
    """``runner`` is ``doctor.smoke.run`` or what stands for it in a test."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "start", "tui.key.start"),
        Binding("i", "python", "tui.key.python"),
        Binding("c", "copy", "tui.key.copy"),
        Binding("s", "save", "tui.key.save"),
        Binding("escape", "back", "tui.key.back"),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("start", "copy", "save", "back")
    KEY_SECTION = ("help.smoke", (
        ("r", "key.start"), ("i", "key.python"), ("Esc", "key.end"),
    ))  # fmt: skip

    class Told(Message):
        """An event of the run."""

        def __init__(self, cancel: threading.Event, row: dict[str, Any]) -> None:
            super().__init__()
            self.cancel, self.row = cancel, row

    class Ended(Message):
        """The run is over: a report, or why there is none."""

        def __init__(self, cancel: threading.Event, report: Report | None, error: tuple[str, str]) -> None:
            super().__init__()
            self.cancel, self.report, self.error = cancel, report, error

    def __init__(self, runner: Runner = smoke.run) -> None:
        super().__init__()
        self._runner = runner
        self._cancel: threading.Event | None = None
        self._stages: list[tuple[str, float]] = []
        self._losses: list[float] = []
        self._step = 0
        self._report: Report | None = None
        self._error = ("", "")

    def compose(self) -> ComposeResult:
        yield Static(id="smoke-head", markup=False)
        yield Input(id="smoke-python", compact=True)
        with Container(id="smoke-panes"):
            with VerticalScroll(id="smoke-live"):
                yield Static(id="smoke-stages", markup=False)
            with VerticalScroll(id="smoke-report"):
                yield Static(id="smoke-text", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#smoke-live").focus()

    def on_unmount(self) -> None:
        if self._cancel is not None:
            self._cancel.set()

    # ------------------------------------------------------------------ running

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._cancel is not None

    def action_start(self) -> None:
        """Train; nothing happens while a run is going on."""
        if self.running:
            return
        self._cancel = threading.Event()
        self._stages, self._losses, self._step = [], [], 0
        self._report, self._error = None, ("", "")
        self._run(self._cancel, self.query_one("#smoke-python", Input).value.strip())
        self.query_one("#smoke-live").focus()
        self.retranslate()

    @work(thread=True, exclusive=True, group="smoke", exit_on_error=False)
    def _run(self, cancel: threading.Event, python: str) -> None:
        def listen(row: dict[str, Any]) -> None:
            self.post_message(self.Told(cancel, row))

        report, error = None, ("", "")
        try:
            report = self._runner(python=python, cancelled=cancel.is_set, listen=listen)
        except smoke.SettingsError as refused:
            error = (refused.zh, refused.en)
        except Exception as failure:
            crash.save(failure, "tui")
            error = (f"{type(failure).__name__}: {failure}",) * 2
        self.post_message(self.Ended(cancel, report, error))

    @on(Told)
    def _told(self, event: Told) -> None:
        row = event.row
        if event.cancel is not self._cancel or row.get("rank"):
            return
        if row["event"] == "stage":
            self._stages.append((str(row["stage"]), float(row["t"])))
        elif row["event"] == "step":
            self._step = int(row["n"])
            self._losses.append(float(row["loss"]))
        self._live()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.cancel is not self._cancel:
            return
        self._cancel, self._report, self._error = None, event.report, event.error
        self.retranslate()
        self.refresh_bindings()

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        self.query_one("#smoke-python", Input).placeholder = self.tr("smoke.python")
        self._live()
        self._result()
        self.refresh_bindings()

    def _live(self) -> None:
        head = Text(no_wrap=True, overflow="ellipsis")
        if self.running:
            cancelling = self._cancel is not None and self._cancel.is_set()
            head.append(self.tr("smoke.cancelling" if cancelling else "smoke.running"))
        elif self._report is not None:
            for style, piece in show.head(self._report, self.doctor.lang, ascii_only()):
                head.append(piece, style)
        else:
            head.append(outside(self._error[self.doctor.lang == "en"]) or self.tr("smoke.about"))
        self.query_one("#smoke-head", Static).update(head)
        text = Text()
        for n, (stage, began) in enumerate(self._stages):
            last = n == len(self._stages) - 1
            took = "" if last else f"{self._stages[n + 1][1] - began:7.1f} s"
            sign = (">" if self.running else "-") if last else ("+" if ascii_only() else "✔")
            text.append(f"{sign} {stage:<12}{took}\n", "bold" if last and self.running else "")
        if self._losses:
            columns = max(10, self.query_one("#smoke-live").size.width - 3)
            text.append(f"\n{self.tr('smoke.loss', step=self._step, loss=f'{self._losses[-1]:.4g}')}\n")
            text.append(chart(self._losses, columns, ascii_only()) + "\n", "cyan")
        self.query_one("#smoke-stages", Static).update(text)

    def _result(self) -> None:
        page = self.query_one("#smoke-text", Static)
        if self._report is None:
            page.update(self.tr("smoke.waiting" if self.running else "smoke.idle"))
            return
        columns = self.query_one("#smoke-report").scrollable_content_region.width - 1
        text = Text(no_wrap=True)
        for line in show.layout(self._report, self.doctor.lang, columns=columns, ascii_only=ascii_only())[1:]:
            for style, piece in line:
                text.append(piece, style)
            text.append("\n")
        page.update(text)

    def on_resize(self) -> None:
        self.call_after_refresh(self.retranslate)

    # ------------------------------------------------------------------ actions

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy", "save"):
            return self._report is not None
        return not self.running if action in ("start", "python") else True

    @on(Input.Submitted, "#smoke-python")
    def _entered(self) -> None:
        self.action_start()

    def action_python(self) -> None:
        """Name the interpreter."""
        self.query_one("#smoke-python", Input).focus()

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        if self._report is not None:
            copy(self, self._report)

    def action_save(self) -> None:
        """The whole report to a file."""
        if self._report is not None:
            save(self, self._report)

    def action_back(self) -> None:
        """End the run; without one, leave the input line, then the screen."""
        if self._cancel is not None:
            self._cancel.set()
            self._live()
        elif isinstance(self.focused, Input):
            self.query_one("#smoke-live").focus()
        else:
            self.dismiss()
