"""What to copy: the whole report, what is shown, or one piece of the diagnosis under the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from doctor.render.lanes import cut
from doctor.tui.base import TranslatedModal, outside, wrap
from doctor.tui.parts import Part
from doctor.tui.widgets.choices import Choices

ROW = 66
"""Cells of a row, less the margins."""


class CopyScreen(TranslatedModal[tuple[str, str] | None]):
    """Returns ("copy" or "save", text), None if the user thought better of it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,y", "dismiss(None)", "tui.key.back"),
        Binding("s", "save", "tui.key.save"),
    ]

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self._parts = list(parts)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield Static(id="copy-title", markup=False, classes="dialog-title")
            yield Choices(id="copy-list")
            with VerticalScroll(id="copy-page", can_focus=False):
                yield Static(id="copy-text", markup=False)
            yield Static(id="copy-note", markup=False)

    def retranslate(self) -> None:
        self.query_one("#copy-title", Static).update(self.tr("copy.title"))
        self.query_one("#copy-note", Static).update(self.tr("copy.note"))
        rows = self.query_one("#copy-list", OptionList)
        at = rows.highlighted
        rows.clear_options()
        room = max(cell_len(part.name) for part in self._parts)
        for part in self._parts:
            text = Text(part.name + " " * (room - cell_len(part.name) + 2), "bold")
            first = outside(part.brief or part.text.split("\n", 1)[0])
            rows.add_option(Option(text.append(cut(first, max(8, ROW - room)).rstrip(), "not bold")))
        rows.highlighted = at or 0
        self.set_focus(rows)

    @on(OptionList.OptionHighlighted)
    def _preview(self, event: OptionList.OptionHighlighted) -> None:
        columns = max(20, self.query_one("#copy-page").scrollable_content_region.width - 1)
        lines = self._parts[event.option_index].text.split("\n")
        text = "\n".join("\n".join(wrap(outside(line), columns)) for line in lines[:200])
        self.query_one("#copy-text", Static).update(Text(text, no_wrap=True))

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(("copy", self._parts[event.option_index].text))

    def action_save(self) -> None:
        """Write the piece to a file instead."""
        at = self.query_one("#copy-list", OptionList).highlighted
        if at is not None:
            self.dismiss(("save", self._parts[at].text))
