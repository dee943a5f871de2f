"""Where to save a report, or a piece of one."""

from __future__ import annotations

import os
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from doctor.model import Report
from doctor.tui.base import TranslatedModal, TranslatedScreen, ascii_only, outside
from doctor.tui.files import report_text, save_report, save_text

DEFAULT = "doctor-report.txt"


class SaveScreen(TranslatedModal[str | None]):
    """Returns the path that was written, None if nothing was. An existing file needs a second Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "tui.key.back")]

    def __init__(self, report: Report | str) -> None:
        super().__init__()
        self._report = report
        self._warned = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(id="save-title", markup=False, classes="dialog-title")
            yield Input(DEFAULT, id="save-path", select_on_focus=False)
            yield Static(id="save-note", markup=False)

    def retranslate(self) -> None:
        self.query_one("#save-title", Static).update(self.tr("save.title"))
        self.query_one("#save-note", Static).update(
            self.tr("save.note_piece" if isinstance(self._report, str) else "save.note")
        )

    @on(Input.Changed)
    def _changed(self) -> None:
        self._warned = ""

    @on(Input.Submitted)
    def _write(self, event: Input.Submitted) -> None:
        path = os.path.expanduser(event.value.strip())
        if not path:
            return
        note = self.query_one("#save-note", Static)
        if os.path.exists(path) and self._warned != path:
            self._warned = path
            note.update(self.tr("save.exists", path=outside(path)))
            return
        try:
            if isinstance(self._report, str):
                save_text(self._report, path)
            else:
                save_report(self._report, path, self.doctor.lang, ascii_only())
        except (OSError, ValueError) as error:
            note.update(self.tr("save.failed", why=outside(getattr(error, "strerror", None) or str(error))))
            return
        self.dismiss(path)


def copy(screen: TranslatedScreen[Any], report: Report) -> None:
    """The whole report to the clipboard, by OSC 52."""
    screen.app.copy_to_clipboard(report_text(report, screen.doctor.lang, ascii_only()))
    screen.doctor.say(screen.tr("result.copied"))


def copy_text(screen: TranslatedScreen[Any], text: str) -> None:
    """A piece of a report to the clipboard."""
    screen.app.copy_to_clipboard(text)
    screen.doctor.say(screen.tr("result.copied_part"))


def save(screen: TranslatedScreen[Any], report: Report | str) -> None:
    """The whole report, or a piece of it as text, to a file that the user names."""

    def saved(path: str | None) -> None:
        if path:
            screen.doctor.say(screen.tr("result.saved", path=outside(path)))

    screen.app.push_screen(SaveScreen(report), saved)
