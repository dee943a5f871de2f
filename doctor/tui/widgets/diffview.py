"""A patch by lines: old and new beside each other where there is room, else one above the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from doctor.patch.diff import Row
from doctor.render.safe import printable, redact
from doctor.tui.base import ascii_only, outside
from doctor.tui.document import Shown, shown

SIDE_FROM = 140
"""Columns from which old and new stand beside each other."""

LONGEST = 20_000
"""Characters of a line that are shown."""


class Cell(NamedTuple):
    """One line of one version. ``kind``: same · old · new · head (a file name) · gap · none."""

    kind: str
    number: int = 0
    text: Shown = Shown("", 0, ())


class DiffView(ScrollView, can_focus=True):
    """Only what is on the screen is drawn. ``-`` and ``+`` tell old and new without colour."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "", show=False),
        Binding("down", "scroll_down", "", show=False),
        Binding("left", "sideways(-8)", "", show=False),
        Binding("right", "sideways(8)", "", show=False),
        Binding("pageup", "page_up", "", show=False),
        Binding("pagedown", "page_down", "", show=False),
        Binding("home", "top", "tui.key.top", show=False),
        Binding("end", "bottom", "tui.key.bottom", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"diff--same", "diff--old", "diff--new", "diff--number", "diff--head"}

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pairs: list[tuple[Cell, Cell]] = []
        self._stacked: list[Cell] = []
        self._widest = 0
        self._digits = 1

    def show(self, files: Sequence[tuple[str, Sequence[Row]]]) -> None:
        """Show the rows of a patch from their beginning. What changes is shown as it is, because that is what is agreed
        to; lines around it have their secrets masked."""
        self._pairs, self._stacked, self._widest, self._digits = [], [], 0, 1
        for path, rows in files:
            head = Cell("head", 0, shown(outside(path)))
            self._pairs.append((head, Cell("none")))
            self._stacked.append(head)
            self._rows(rows)
        for pair in self._pairs:
            for cell in pair:
                self._widest = max(self._widest, cell.text.cells)
                self._digits = max(self._digits, len(str(cell.number)))
        self.scroll_to(0, 0, animate=False, immediate=True)
        self._resized()

    def _rows(self, rows: Sequence[Row]) -> None:
        last, olds, news = 0, list[Cell](), list[Cell]()

        def close() -> None:
            self._stacked += [*olds, *news]
            olds.clear()
            news.clear()

        for row in rows:
            at = row.left_number or row.right_number
            if row.kind == "same":
                close()
                if at > last + 1 and last:
                    gap = Cell("gap", 0, shown("..." if ascii_only() else "⋯"))
                    self._pairs.append((gap, gap))
                    self._stacked.append(gap)
                text = shown(redact(_line(row.left)))
                self._pairs.append((Cell("same", row.left_number, text), Cell("same", row.right_number, text)))
                self._stacked.append(Cell("same", row.right_number, text))
            else:
                left = Cell("old", row.left_number, shown(_line(row.left))) if row.left_number else Cell("none")
                right = Cell("new", row.right_number, shown(_line(row.right))) if row.right_number else Cell("none")
                olds += [left] if row.left_number else []
                news += [right] if row.right_number else []
                self._pairs.append((left, right))
            last = row.left_number or last
        close()

    @property
    def beside(self) -> bool:
        """Whether old and new stand beside each other."""
        return self.size.width >= SIDE_FROM

    def _room(self) -> int:
        """Cells for the text of one column."""
        width = (self.size.width - 3) // 2 if self.beside else self.size.width
        return max(1, width - self._digits - 3)

    def _resized(self) -> None:
        rows = len(self._pairs) if self.beside else len(self._stacked)
        self.virtual_size = Size(self.size.width + max(0, self._widest - self._room()), rows)
        self.refresh()

    def on_resize(self, _event: Resize) -> None:
        self.call_after_refresh(self._resized)

    def render_line(self, y: int) -> Strip:
        width, row = self.size.width, self.scroll_offset.y + y
        base = self.get_component_rich_style("diff--same")
        if row >= (len(self._pairs) if self.beside else len(self._stacked)):
            return Strip.blank(width, base)
        if not self.beside:
            return Strip(self._cell(self._stacked[row], width)).adjust_cell_length(width, base)
        left, right = self._pairs[row]
        if left.kind == "head":
            return Strip(self._cell(left, width)).adjust_cell_length(width, base)
        half = (width - 3) // 2
        line = " | " if ascii_only() else " │ "
        number = self.get_component_rich_style("diff--number")
        strips = [Strip(self._cell(cell, half)).adjust_cell_length(half, base) for cell in (left, right)]
        return Strip([*strips[0], Segment(line, number), *strips[1]]).adjust_cell_length(width, base)

    def _cell(self, cell: Cell, width: int) -> list[Segment]:
        number = self.get_component_rich_style("diff--number")
        if cell.kind == "none":
            return [Segment(" ", number)]
        if cell.kind == "head":
            style: Style = self.get_component_rich_style("diff--head")
            return [Segment(cell.text.crop(0, width)[0], style)]
        if cell.kind == "gap":
            return [Segment(" " * self._digits + " " + cell.text.text, number)]
        style = self.get_component_rich_style(f"diff--{cell.kind}")
        sign = {"old": "-", "new": "+"}.get(cell.kind, " ")
        text, _ = cell.text.crop(self.scroll_offset.x, max(0, width - self._digits - 3))
        return [Segment(f"{cell.number:>{self._digits}} ", number), Segment(f"{sign} {text}", style)]

    def action_sideways(self, cells: int) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)


def _line(text: str) -> str:
    """One line, harmless."""
    return printable(text[:LONGEST].replace("\t", "    ").replace("\n", " "))
