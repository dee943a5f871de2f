"""A rule of one's own, made of a log line: edited with its examples judged at every pause, saved where it is shown."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from functools import partial

from rich.text import Text
from textual import on
from textual.app import ComposeResult, SuspendNotSupported
from textual.containers import Container
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, TextArea

from doctor import crash, rulenew, ruletest, ruletry
from doctor.rulebase import own_folder
from doctor.rulecli import trial_lines
from doctor.tui.base import outside
from doctor.tui.screens.rules.page import Answer, Page, Room, SafeInput, SafeText, harmless

PAUSE = 0.4
"""Seconds after the last key before the file is judged."""


class WritePage(Page):
    """A line in, a rule file out. Nothing is written before it is saved, and never over another file."""

    class Drafted(Message):
        """A file was made of a line."""

        def __init__(self, number: int, draft: rulenew.Draft | None, error: str = "") -> None:
            super().__init__()
            self.number, self.draft, self.error = number, draft, error

    class Judged(Message):
        """What the linter and the examples say."""

        def __init__(self, number: int, lines: list[tuple[str, str]]) -> None:
            super().__init__()
            self.number, self.lines = number, lines

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._wanted: tuple[str, str, str] | None = None
        self._draft: rulenew.Draft | None = None
        self._saved: tuple[str, str] | None = None
        """path and content as last written or read"""
        self._asked = 0
        self._stop = threading.Event()
        self._timer: Timer | None = None

    def compose(self) -> ComposeResult:
        yield SafeInput(id="new-line", compact=True)
        yield Input(id="new-path", compact=True)
        with Container(id="new-panes"):
            yield SafeText(id="new-text", show_line_numbers=True)
            yield Answer(id="new-answer")

    def on_unmount(self) -> None:
        self._stop.set()

    def enter(self, room: Room | None) -> None:
        super().enter(room)
        if room is not None and self._wanted is not None:
            wanted, self._wanted = self._wanted, None
            self.start(*wanted)

    def retranslate(self) -> None:
        self.query_one("#new-line", Input).placeholder = self.tr("rules.new_line")
        self.query_one("#new-path", Input).placeholder = self.tr("rules.new_path")
        text = self.query_one(TextArea)
        text.border_title = Text(self.tr("rules.new_text"))
        if text.text.strip():
            self.judge()
        else:
            self.query_one(Answer).show([("dim", self.tr("rules.new_about", path=outside(own_folder())))])

    def take_focus(self) -> None:
        self.screen.set_focus(self.query_one(TextArea if self.query_one(TextArea).text.strip() else "#new-line"))

    @property
    def unsaved(self) -> bool:
        """Whether something would be lost."""
        text = self.query_one(TextArea).text
        return bool(text.strip()) and (self._saved is None or self._saved[1] != text)

    # ------------------------------------------------------------------ a line

    def start(self, line: str, level: str = "", context: str = "") -> None:
        """Make a file of a line; ``level`` is that of its record, ``context`` where it was seen."""
        if self.room is None:
            self._wanted = (line, level, context)
            return
        self.query_one("#new-line", Input).value = harmless(line[: rulenew.LONGEST_LINE])
        self._asked += 1
        self.run_worker(
            partial(self._make, self._asked, self.room, line, level), thread=True, exclusive=True, group="draft",
            exit_on_error=False,
        )  # fmt: skip

    def _make(self, number: int, room: Room, line: str, level: str) -> None:
        hosts, users = rulenew.own_names()
        try:
            draft = rulenew.draft(room.base, "", line, level=level, folder=own_folder(), index=room.rules,
                                  hosts=hosts, users=users)  # fmt: skip
        except Exception as error:
            crash.save(error, "tui")
            self.post_message(self.Drafted(number, None, f"{type(error).__name__}: {error}"))
            return
        self.post_message(self.Drafted(number, draft))

    @on(Drafted)
    def _drafted(self, event: Drafted) -> None:
        if event.number != self._asked:
            return
        if event.draft is None:
            self.doctor.say(outside(event.error), wrong=True)
            return
        self._draft, self._saved = event.draft, None
        self.query_one("#new-path", Input).value = os.path.join(own_folder(), f"{event.draft.id}.yaml")
        self.query_one(TextArea).text = event.draft.text
        self.screen.set_focus(self.query_one(TextArea))
        self.judge()

    @on(Input.Submitted, "#new-line")
    def _entered(self, event: Input.Submitted) -> None:
        if not event.value.strip():
            return
        if self.unsaved and self._draft is not None and self._draft.text != self.query_one(TextArea).text:
            self.doctor.say(self.tr("rules.new_unsaved"), wrong=True)
            return
        self.start(event.value)

    # ------------------------------------------------------------------ judging

    @on(TextArea.Changed)
    def _typed(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(PAUSE, self.judge)

    @on(Input.Submitted, "#new-path")
    def _named(self) -> None:
        self.judge()
        self.screen.set_focus(self.query_one(TextArea))

    def judge(self) -> None:
        """Lint the text and run its examples, in a thread."""
        text = self.query_one(TextArea).text
        if self.room is None or not text.strip():
            return
        self._asked += 1
        name = os.path.basename(self.query_one("#new-path", Input).value.strip()) or "RULE.yaml"
        self.run_worker(
            partial(self._judge, self._asked, self.room, text, name, self._draft, self.doctor.lang),
            thread=True, exclusive=True, group="lint", exit_on_error=False,
        )  # fmt: skip

    def _judge(
        self, number: int, room: Room, text: str, name: str, draft: rulenew.Draft | None, lang: str
    ) -> None:  # fmt: skip
        try:
            lines = judged(room, text, name, draft, lang)
        except Exception as error:
            crash.save(error, "tui")
            lines = [("bold red", outside(f"{type(error).__name__}: {error}"))]
        self.post_message(self.Judged(number, lines))

    @on(Judged)
    def _judged(self, event: Judged) -> None:
        if event.number == self._asked:
            self.query_one(Answer).show(event.lines)

    # ------------------------------------------------------------------ saving

    def save(self) -> bool:
        """Write the file; over nothing but what this page itself wrote. Whether it was written."""
        text = self.query_one(TextArea).text
        path = os.path.expanduser(self.query_one("#new-path", Input).value.strip())
        if not path or not text.strip():
            self.doctor.say(self.tr("rules.new_nothing"), wrong=True)
            return False
        try:
            if self._saved is not None and self._saved[0] == path and _content(path) == self._saved[1]:
                rulenew.rewrite(path, text)
            else:
                rulenew.write(path, text)
        except FileExistsError:
            self.doctor.say(self.tr("rules.new_exists", path=outside(path)), wrong=True)
            return False
        except OSError as error:
            self.doctor.say(self.tr("save.failed", why=outside(f"{path}: {error.strerror}")), wrong=True)
            return False
        self._saved = (path, text)
        self.doctor.say(self.tr("rules.new_saved", path=outside(path)))
        return True

    def edit(self) -> None:
        """Open the saved file in the user's own editor, and take over what comes back."""
        command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not command:
            self.doctor.say(self.tr("rules.no_editor"), wrong=True)
            return
        if self.unsaved and not self.save():
            return
        if self._saved is None:
            return
        path = self._saved[0]
        try:
            with self.app.suspend():
                subprocess.run([*shlex.split(command), path], check=False)  # noqa: S603 - the editor that the user names
        except SuspendNotSupported:
            self.doctor.say(self.tr("rules.no_suspend", path=outside(path)), wrong=True)
            return
        except (OSError, ValueError) as error:
            self.doctor.say(outside(f"{command}: {getattr(error, 'strerror', None) or error}"), wrong=True)
            return
        text = _content(path)
        if text is None:
            self.doctor.say(self.tr("save.failed", why=outside(path)), wrong=True)
            return
        self._saved = (path, text)
        self.query_one(TextArea).text = harmless(text)
        self.judge()


def _content(path: str) -> str | None:
    """A file as text, None if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


def judged(
    room: Room, text: str, name: str, draft: rulenew.Draft | None, lang: str
) -> list[tuple[str, str]]:  # fmt: skip
    """What linter, examples and the line itself say of a rule file that is not saved yet: (style, line)."""
    from doctor.i18n import tr

    out: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="doctor-rule-") as folder:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        ran, failed, problems = ruletest.alone(path, room.base)
        bad = [outcome for outcome in failed if not outcome.todo]
        key = "rules_bad" if bad or problems else "rules_ok"
        style = "bold red" if bad or problems else "bold green"
        out.append((style, tr(lang, key, ran=ran, failed=len(bad), problems=len(problems))))
        out += [("red", outside("  " + problem.replace(path + ":", ""))) for problem in problems]
        out += [("yellow", outside("  " + outcome.text)) for outcome in failed]
        stem = name.removesuffix(".yaml")
        if stem in room.base:
            out.append(("red", outside("  " + tr(lang, "exists", path=stem))))
        left = sum("TODO" in line or "待填写" in line for line in text.split("\n"))
        if left:
            out.append(("yellow", "  " + tr(lang, "tui.rules.new_left", n=left)))
        if draft is not None:
            if draft.known:
                out.append(("yellow", "  " + tr(lang, "new_known", ids=" ".join(draft.known))))
            if draft.alike:
                out.append(("", "  " + tr(lang, "tui.rules.new_alike", ids=" ".join(draft.alike))))
            out += [("", ""), ("bold", tr(lang, "tui.rules.new_on_line"))]
            trial = ruletry.try_text(ruletry.of_file(path, room.base), draft.line)
            if trial.verdict != "broken":
                out += trial_lines(trial, lang)
    return out
