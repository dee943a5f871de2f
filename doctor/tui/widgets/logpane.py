"""The log view with its title, its search line, and the threads that count and search large files."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from doctor.i18n import tr
from doctor.model import Evidence
from doctor.scan.records import head_of
from doctor.tui.base import ascii_only, outside
from doctor.tui.document import Document, FileDocument, Needle, SnippetDocument, plain_file, spans
from doctor.tui.widgets.logview import LogView

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

AT_ONCE = 64
"""Blocks (16 MiB) that are counted without a thread."""

TOLD_EVERY = 0.1
"""Seconds between two reports of how far the counting is."""

OPEN_FILES = 64
"""Files that are kept open."""

RECORD_LINES = 60
"""Lines above a line in which the head of its record is looked for."""

WHOLE_LINES = 6
"""Rows for the whole text of the marked line."""


class SearchInput(Input):
    """Escape gives up; Ctrl+R takes what is written for an expression, or for a text again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "tui.key.back", show=False),
        Binding("ctrl+r", "expression", "tui.key.expression", show=False),
    ]

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id, compact=True)
        self.expression = False

    def action_expression(self) -> None:
        """Text or expression."""
        self.expression = not self.expression
        self.post_message(LogPane.SearchChanged())

    def action_close(self) -> None:
        self.post_message(LogPane.SearchClosed())


class LogPane(Vertical):
    """A log beside the diagnoses. Messages from threads carry the document they are about; stale ones are dropped."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "tui.key.search"),
        Binding("n", "again(True)", "tui.key.next_hit", show=False),
        Binding("N", "again(False)", "tui.key.previous_hit", show=False),
        Binding("R", "new_rule", "tui.key.new_rule", show=False),
    ]

    class SearchClosed(Message):
        """The search line was left."""

    class SearchChanged(Message):
        """What is searched for is an expression now, or a text again."""

    class Counted(Message):
        """More lines of a document are known."""

        def __init__(self, document: Document) -> None:
            super().__init__()
            self.document = document

    class Found(Message):
        """A search has ended, at ``row`` or without a hit; ``round``: it went on at the other end."""

        def __init__(self, document: Document, row: int | None, round: bool) -> None:
            super().__init__()
            self.document, self.row, self.round = document, row, round

    def __init__(self, id: str | None = None, title: str = "log.title") -> None:
        super().__init__(id=id)
        self._title_key = title
        self.real_paths: dict[str, str] = {}
        """source names that stand for another file, as ``<paste>`` does"""
        self._documents: dict[str, FileDocument] = {}
        self._evidence: Evidence | None = None
        self._wanted: int | None = None
        self._note = ""

    def compose(self) -> ComposeResult:
        yield LogView(id="logview")
        yield Static(id="whole-line", markup=False)
        with Horizontal(id="search-line"):
            yield Static(id="search-kind", markup=False)
            yield SearchInput(id="search")

    def on_mount(self) -> None:
        self.query_one("#search-line").display = False
        self._title()

    def on_unmount(self) -> None:
        for document in self._documents.values():
            document.close()

    @property
    def path(self) -> str:
        """The file that is shown, empty if it is none."""
        if self._evidence is None or not isinstance(self.view.document, FileDocument):
            return ""
        return self.real_paths.get(self._evidence.source, self._evidence.source)

    def action_new_rule(self) -> None:
        """Make a rule of the marked line."""
        document, row = self.view.document, self.view.marked
        if document is None or row is None:
            return
        line, level = document.line(row).text, ""
        for above in range(row, max(-1, row - RECORD_LINES), -1):
            text = document.line(above).text
            if head := head_of(text):
                level = head.level
                break
        cast("DoctorApp", self.app).action_new_rule(line, level, f"{self.path}:{document.first + row}")

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def _tr(self, key: str, **values: Any) -> str:
        return tr(cast("DoctorApp", self.app).lang, "tui." + key, **values)

    # ------------------------------------------------------------------ showing

    def show(self, evidence: Evidence | None, matched: Callable[[str], list[tuple[int, int]]] | None = None) -> None:
        """Show the log an evidence comes from, its line marked; without a plain file, the lines kept with it.

        ``matched`` says where in the text of the line a rule matched.
        """
        self.view.matched = matched
        if evidence is None:
            self._evidence, self._wanted = None, None
            self.view.show(None)
            self._title()
            return
        self._evidence, self._note = evidence, ""
        document: Document | None = self._open(evidence.source)
        if document is None:
            document = SnippetDocument(evidence)
        if document is not self.view.document:
            self.view.show(document)
        self._wanted = evidence.line - document.first if evidence.line > 0 else None
        if self._wanted is None:
            self.view.marked = None
        if isinstance(document, FileDocument) and not document.extend(AT_ONCE, only_first=True):
            self._count(document)
        self._go()

    def _open(self, source: str) -> FileDocument | None:
        path = self.real_paths.get(source, source)
        if path not in self._documents:
            if not plain_file(path):
                return None
            try:
                self._documents[path] = FileDocument(path)
            except OSError:
                return None
            while len(self._documents) > OPEN_FILES:
                self.forget(next(iter(self._documents)))
        return self._documents[path]

    def forget(self, path: str = "") -> None:
        """Close a file, all of them if none is named: shown again, it is read anew."""
        for name in [path] if path else list(self._documents):
            document = self._documents.pop(name, None)
            if document is not None:
                if document is self.view.document:
                    self.view.show(None)
                document.close()

    def _go(self) -> None:
        """Mark the wanted row as soon as it is known."""
        document = self.view.document
        wanted = self._wanted
        if document is not None and wanted is not None and (document.complete or wanted < document.count - 1):
            self.view.mark(min(wanted, max(0, document.count - 1)))
            self._wanted = None
        else:
            self.view.resized()
        self._title()

    def retranslate(self) -> None:
        self.on_log_pane_search_changed()
        self._title()

    def _whole_line(self) -> None:
        """The marked line in full, below the log, if the log can only show its beginning."""
        view, below = self.view, self.query_one("#whole-line", Static)
        document, row = view.document, view.marked
        columns = self.size.width - 2
        line = document.line(row) if document is not None and row is not None else None
        below.display = line is not None and line.cells > view.size.width - 8 and columns > 0
        if line is not None and below.display:
            rows = chop_cells(line.text[:2000], columns)
            most = min(WHOLE_LINES, max(1, self.size.height // 3))
            below.update(Text("\n".join(rows[:most]), no_wrap=True))

    def on_resize(self) -> None:
        self._title()

    def _title(self) -> None:
        self._whole_line()
        document, evidence = self.view.document, self._evidence
        if document is None or evidence is None:
            self.border_title = Text(self._tr(self._title_key))
            self.border_subtitle = Text(" ")
            return
        at = f":{evidence.line}" if evidence.line else ""
        title = outside(evidence.source) + at
        room = self.size.width - 6
        if cell_len(title) > room > 0:
            # the end names the file
            more = "..." if ascii_only() else "…"
            title = more + set_cell_size(title[::-1], max(1, room - len(more)))[::-1].lstrip()
        self.border_title = Text(title)
        if isinstance(document, SnippetDocument):
            state = self._tr("log.snippet")
        elif document.complete:
            state = self._tr("log.lines", lines=f"{document.count:,}")
        else:
            assert isinstance(document, FileDocument)
            state = self._tr("log.counting", percent=document.counted * 100 // max(1, document.size))
        self.border_subtitle = Text(f"{self._note}  {state}" if self._note else state)

    @work(thread=True, exclusive=True, group="count", exit_on_error=False)
    def _count(self, document: FileDocument) -> None:
        worker = get_current_worker()
        told = time.monotonic()
        while not document.extend(AT_ONCE, lambda: worker.is_cancelled) and not worker.is_cancelled:
            if time.monotonic() - told >= TOLD_EVERY:
                told = time.monotonic()
                self.post_message(self.Counted(document))
        self.post_message(self.Counted(document))

    def on_log_pane_counted(self, message: LogPane.Counted) -> None:
        if message.document is self.view.document:
            self._go()

    # ------------------------------------------------------------------ searching

    def action_search(self) -> None:
        """Open the search line."""
        if self.view.document is None:
            return
        self.query_one("#search-line").display = True
        self.screen.set_focus(self.query_one(SearchInput))

    def on_log_pane_search_changed(self) -> None:
        line = self.query_one(SearchInput)
        line.placeholder = self._tr("log.search_expression" if line.expression else "log.search")
        self.query_one("#search-kind", Static).update(self._tr("log.expression" if line.expression else "log.text"))

    def on_log_pane_search_closed(self) -> None:
        self.query_one("#search-line").display = False
        self.screen.set_focus(self.view)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        needle = Needle(event.value, self.query_one(SearchInput).expression)
        try:
            if needle.expression:
                needle.compiled()
        except ValueError as error:
            self._note = self._tr("log.no_expression", why=outside(str(error))[:60])
            self._title()
            return
        self.on_log_pane_search_closed()
        self.view.needle = needle
        self.action_again(True)

    def action_again(self, forward: bool) -> None:
        """The next or the previous hit."""
        document, view = self.view.document, self.view
        if document is None or not view.needle:
            return
        self._wanted = None
        self._note = self._tr("log.searching")
        self._title()
        row = view.current_row() + 1 if forward else max(0, view.current_row())
        self.run_worker(
            partial(self._search, document, view.needle, row, forward),
            thread=True, exclusive=True, group="search", exit_on_error=False,
        )  # fmt: skip

    def _search(self, document: Document, needle: Needle, row: int, forward: bool) -> None:
        worker = get_current_worker()

        def stop() -> bool:
            return worker.is_cancelled

        found = document.find(needle, row, forward, stop)
        turned = found is None
        if turned and not forward and isinstance(document, FileDocument):
            while not document.extend(AT_ONCE, stop) and not stop():
                pass
        if turned:
            found = document.find(needle, 0 if forward else document.count, forward, stop)
        if not worker.is_cancelled:
            self.post_message(self.Found(document, found, turned))

    def on_log_pane_found(self, message: LogPane.Found) -> None:
        if message.document is not self.view.document:
            return
        self._note = ""
        if message.row is None:
            self._note = self._tr("log.no_hit", text=outside(self.view.needle.text)[:40])
        else:
            self._note = self._tr("log.round") if message.round else ""
            self.view.mark(message.row)
            line = message.document.line(message.row).text
            at = next((a for a, _ in spans(line, self.view.needle)), -1)
            if at > self.view.size.width - 20:
                self.view.call_after_refresh(self.view.scroll_to, x=max(0, at - 20), animate=False)
        self._title()
