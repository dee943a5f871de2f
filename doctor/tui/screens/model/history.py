"""The journal: what was applied when, and to which files."""

from __future__ import annotations

import os
import time

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Static

from doctor.fixcli import why_text
from doctor.i18n import tr
from doctor.patch import journal
from doctor.patch.journal import Entry
from doctor.patch.spans import Refused
from doctor.tui.base import outside, wrap
from doctor.tui.screens.model.page import Page, change


class HistoryPage(Page):
    """The patches so far, the newest first; ``entries`` is None until the journal was read."""

    class Listed(Message):
        """What the journal holds; ``undo``: because something is to be put back."""

        def __init__(self, entries: list[Entry], undo: bool) -> None:
            super().__init__()
            self.entries, self.undo = entries, undo

    class Undo(Message):
        """The newest patch is to be put back."""

        def __init__(self, entry: Entry) -> None:
            super().__init__()
            self.entry = entry

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[Entry] | None = None

    def compose(self) -> ComposeResult:
        yield DataTable(id="entries", cursor_type="row", zebra_stripes=True)
        with VerticalScroll(id="entry-page"):
            yield Static(id="entry-text", markup=False)

    def show(self) -> None:
        """Lay out what is known; ask for it at first."""
        self.lay_out()
        if self.entries is None:
            self.ask(False)

    def chosen(self) -> Entry | None:
        """The entry under the cursor."""
        row = self.query_one("#entries", DataTable).cursor_row
        return self.entries[row] if self.entries and 0 <= row < len(self.entries) else None

    @work(thread=True, exclusive=True, group="history", exit_on_error=False)
    def ask(self, undo: bool) -> None:
        """Read the journal; ``undo``: because its newest patch is to be put back."""
        self.post_message(self.Listed(journal.Journal().entries(), undo))

    @on(Listed)
    def _listed(self, event: Listed) -> None:
        self.entries = event.entries
        self.lay_out()
        if not event.undo:
            return
        newest = next((e for e in event.entries if e.state in ("done", "begun")), None)
        if newest is None:
            self.doctor.say(why_text(self.doctor.lang, Refused("no_entries")))
        else:
            self.post_message(self.Undo(newest))

    def lay_out(self) -> None:
        """The table of the entries."""
        table, lang = self.query_one("#entries", DataTable), self.doctor.lang
        row = table.cursor_row
        table.clear(columns=True)
        for key in ("time", "state", "id", "files", "rules"):
            table.add_column(Text(self.tr(f"model.column.{key}")), key=key)
        for entry in self.entries or ():
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
        if not self.entries:
            known = self.entries is not None
            page.update(Text(self.tr("model.no_history", path=outside(journal.default_folder())) if known else ""))
            return
        entry = self.entries[min(max(0, table.cursor_row), len(self.entries) - 1)]
        columns = max(30, self.query_one("#entry-page").scrollable_content_region.width - 1)
        text = Text(no_wrap=True)
        for file in entry.files:
            text.append("\n".join(wrap(outside(file.path), columns)) + "\n", "bold")
            for key, old, new in file.edits[:100]:
                for line in wrap(outside(f"{key}: {change(old, new)}"), columns - 2):
                    text.append(f"  {line}\n")
        page.update(text)
