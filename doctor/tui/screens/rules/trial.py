"""A rule tried on pasted text, on a file, or on the log that is open."""

from __future__ import annotations

import os
import threading
from functools import partial

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static, TextArea

from doctor import crash, ruletry
from doctor.i18n import pick
from doctor.rulecli import named, trial_lines
from doctor.tui.base import outside
from doctor.tui.screens.rules.page import Answer, Page, SafeText

PAUSE = 0.3
"""Seconds after the last key before the text is judged."""

LARGE = 256 << 10
"""Characters from which a paste is kept as a file: a text area is slow beyond that."""


class TryText(SafeText):
    """Text to try a rule on; a large paste goes into a file."""

    class Large(Message):
        """A paste that is kept as a file."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def take(self, text: str) -> None:
        if len(text) > LARGE:
            self.post_message(self.Large(text))
        else:
            super().take(text)


class TrialPage(Page):
    """``rule_id`` is tried; the answer stands beside the text."""

    class Answered(Message):
        """What a trial found."""

        def __init__(self, cancel: threading.Event, lines: list[tuple[str, str]], about: str) -> None:
            super().__init__()
            self.cancel, self.lines, self.about = cancel, lines, about

    class Read(Message):
        """So many bytes of a file were read."""

        def __init__(self, cancel: threading.Event, done: int, name: str) -> None:
            super().__init__()
            self.cancel, self.done, self.name = cancel, done, name

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rule_id = ""
        self._path = ""
        self._cancel: threading.Event | None = None
        self._timer: Timer | None = None
        self._last: list[ruletry.Trial] | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="try-head", markup=False)
        with Container(id="try-panes"):
            yield TryText(id="try-text", soft_wrap=False)
            yield Answer(id="try-answer")

    def on_unmount(self) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether a file is being read."""
        return self._cancel is not None and not self._cancel.is_set()

    def stop(self) -> None:
        """End what runs."""
        if self._cancel is not None:
            self._cancel.set()

    def take_focus(self) -> None:
        self.screen.set_focus(self.query_one(TryText))

    def retranslate(self) -> None:
        self.query_one(TryText).border_title = Text(self.tr("rules.try_text"))
        self._head()
        self.judge()

    def choose(self, rule_id: str) -> None:
        """Try another rule on the same text or file."""
        if rule_id and rule_id != self.rule_id:
            self.rule_id = rule_id
            self._head()
            self.judge()

    def _head(self, done: str = "") -> None:
        head = self.query_one("#try-head", Static)
        if self.room is None or self.rule_id not in self.room.base:
            head.update(self.tr("rules.try_none"))
            return
        title = named(pick(self.room.base.whole(self.rule_id)["title"], self.doctor.lang))
        head.update(outside(f"{self.rule_id}  {title}") + (f"   {done}" if done else ""))

    @on(TextArea.Changed)
    def _typed(self) -> None:
        self._path = ""
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PAUSE, self.judge)

    @on(TryText.Large)
    def _spooled(self, event: TryText.Large) -> None:
        try:
            path = self.doctor.spool(event.text)
        except OSError as error:
            self.doctor.say(self.tr("home.no_spool", why=error.strerror or ""), wrong=True)
            return
        self.try_path(path)

    def try_path(self, path: str) -> None:
        """Try the rule on a file, folder or archive."""
        self._path = path
        self.judge()

    def judge(self) -> None:
        """Answer anew."""
        self.stop()
        answer = self.query_one(Answer)
        text = self.query_one(TryText).text
        if self.room is None or self.rule_id not in self.room.base or not (text.strip() or self._path):
            answer.show([("dim", self.tr("rules.try_about"))])
            return
        self._cancel = threading.Event()
        lang = self.doctor.lang
        self.run_worker(
            partial(self._try, self._cancel, self.rule_id, text, self._path, lang),
            thread=True, exclusive=True, group="trial", exit_on_error=False,
        )  # fmt: skip

    def _try(self, cancel: threading.Event, rule_id: str, text: str, path: str, lang: str) -> None:
        assert self.room is not None
        lines: list[tuple[str, str]] = []
        troubles: list[tuple[str, str]] = []
        try:
            ready = ruletry.of_base(rule_id, self.room.base)
            if not path or ready.problems or ready.rule.kind not in ruletry.KINDS:
                trials = [ruletry.try_text(ready, text)]
            else:
                trials, troubles = ruletry.try_inputs(ready, [path], cancel.is_set, partial(self._told, cancel))
            for trial in trials:
                lines += trial_lines(trial, lang)
            lines += [("bold red", outside(f"{name}: {why}")) for name, why in troubles]
        except Exception as error:
            crash.save(error, "tui")
            lines = [("bold red", outside(f"{type(error).__name__}: {error}"))]
        self.post_message(self.Answered(cancel, lines, os.path.basename(path)))

    def _told(self, cancel: threading.Event, done: int, name: str) -> None:
        self.post_message(self.Read(cancel, done, name))

    @on(Read)
    def _read(self, event: Read) -> None:
        if event.cancel is self._cancel and not event.cancel.is_set():
            self._head(self.tr("rules.try_read", mib=event.done >> 20, name=outside(os.path.basename(event.name))))

    @on(Answered)
    def _answered(self, event: Answered) -> None:
        if event.cancel is not self._cancel:
            return
        self._cancel = None
        self._head()
        head = [("bold", outside(event.about))] if event.about else []
        self.query_one(Answer).show([*head, *event.lines])
