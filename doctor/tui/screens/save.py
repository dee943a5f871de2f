"""Where to save a report, or another text."""

from __future__ import annotations

import os
from collections.abc import Callable
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
    """Returns the path that was written, None if nothing was. An existing file needs a second Enter.

    ``write`` writes to a path; it raises OSError, or ValueError with a sentence, if that cannot be.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "tui.key.back")]

    def __init__(
        self, write: Callable[[str], None], name: str = DEFAULT, title: str = "save.title", note: str = "save.note"
    ) -> None:
        super().__init__()
        self._write_to, self._file, self._title_key, self._note_key = write, name, title, note
        self._warned = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(id="save-title", markup=False, classes="dialog-title")
            yield Input(self._file, id="save-path", select_on_focus=False)
            yield Static(id="save-note", markup=False)

    def retranslate(self) -> None:
        self.query_one("#save-title", Static).update(self.tr(self._title_key))
        self.query_one("#save-note", Static).update(self.tr(self._note_key))

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
            self._write_to(path)
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

    def write(path: str) -> None:
        if isinstance(report, str):
            save_text(report, path)
        else:
            save_report(report, path, screen.doctor.lang, ascii_only())

    note = "save.note_piece" if isinstance(report, str) else "save.note"
    screen.app.push_screen(SaveScreen(write, note=note), saved)
