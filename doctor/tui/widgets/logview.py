"""A log of any size by lines: only what is on the screen is read, cut and drawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from doctor.tui.document import Document, Needle, spans

LEVEL_WITHIN = 160
"""Cells of a line in which its level is looked for."""

NEAR = 1 << 14
"""Characters before and after what is seen of a line that an expression is tried on."""

_LEVEL = re.compile(
    r"\[(?P<error>ERROR|CRITICAL|FATAL)\]|\[(?P<warning>WARNING|WARN)\]|\b(?P<error2>ERROR|CRITICAL)\b"
    r"|\b(?P<warning2>WARNING)\b|^(?P<error3>(?:\w+\.){0,8}\w{0,60}(?:Error|Exception))(?=:|$)"
)


class LogView(ScrollView, can_focus=True):
    """Lines with their numbers; one of them may be marked, in it what a rule matched; every hit of a search and every
    level above INFO is told apart."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", "", show=False),
        Binding("down", "scroll_down", "", show=False),
        Binding("left", "sideways(-8)", "", show=False),
        Binding("right", "sideways(8)", "", show=False),
        Binding("pageup,b", "page_up", "", show=False),
        Binding("pagedown,space", "page_down", "", show=False),
        Binding("home,g", "top", "tui.key.top", show=False),
        Binding("end,G", "bottom", "tui.key.bottom", show=False),
        Binding("0", "line_start", "", show=False),
        Binding("dollar_sign", "line_end", "", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log--text", "log--number", "log--mark", "log--hit", "log--match", "log--error", "log--warning",
    }  # fmt: skip

    needle: reactive[Needle] = reactive(Needle(""))

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.document: Document | None = None
        self.marked: int | None = None
        """the marked row"""
        self.matched: Callable[[str], list[tuple[int, int]]] | None = None
        """where in the text of the marked row the rule matched"""
        self._widest = 0
        self._unseen = False
        self._height = 0
        self._brought = -1

    def show(self, document: Document | None) -> None:
        """Show another log from its beginning."""
        self.document, self.marked, self._widest = document, None, 0
        self.scroll_to(0, 0, animate=False, immediate=True)
        self.resized()

    def resized(self) -> None:
        """The document has grown, or a wider line was seen."""
        rows = self.document.count if self.document else 0
        self.virtual_size = Size(self._widest + self._gutter(), rows)
        self.refresh()

    def _gutter(self) -> int:
        document = self.document
        return len(str(document.first + document.count)) + 3 if document else 0

    def mark(self, row: int) -> None:
        """Mark a row and bring it to a third of the height."""
        self.marked = row
        self.resized()
        # before the first layout there is no height, and the new size counts only after a refresh
        self.call_after_refresh(self._bring, row)

    def on_resize(self) -> None:
        # hidden, it had no height to bring a row to; smaller, it may have lost the row out of view; and where a row
        # was brought, and nobody has moved it since, it is brought to the same place again
        before, self._height = self._height, self.scrollable_content_region.height
        if self.marked is None:
            return
        below = self.marked - self.scroll_offset.y
        if self._unseen or self.scroll_offset.y == self._brought or self._height <= below < before:
            self.call_after_refresh(self._bring, self.marked)

    def _bring(self, row: int) -> None:
        height = max(1, self.scrollable_content_region.height)
        self._unseen = self.size.height <= 1
        self.scroll_to(0, max(0, row - height // 3), animate=False, immediate=True)
        self._brought = self.scroll_offset.y
        self.refresh()

    def current_row(self) -> int:
        """Where a search starts: the marked row if it can be seen, else the first row that can."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if self.marked is not None and top <= self.marked < top + height:
            return self.marked
        return top - 1

    def watch_needle(self) -> None:
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        document, row = self.document, self.scroll_offset.y + y
        base = self.get_component_rich_style("log--text")
        if document is None or row >= document.count:
            return Strip.blank(width, base)
        line = document.line(row)
        if line.cells > self._widest:
            self._widest = line.cells
            self.call_after_refresh(self.resized)
        marked = row == self.marked
        if marked:
            base = self.get_component_rich_style("log--mark")
        gutter = self._gutter()
        number = f"{'>' if marked else ' '}{document.first + row:>{gutter - 3}}  "
        text, first = line.crop(self.scroll_offset.x, max(0, width - gutter))
        pieces = [Segment(number, base if marked else self.get_component_rich_style("log--number"))]
        pieces += self._pieces(text, first, line.text, base, marked)
        return Strip(pieces).adjust_cell_length(width, base)

    def _pieces(self, text: str, first: int, whole: str, base: Style, marked: bool) -> list[Segment]:
        """The cropped text in segments: the level, what a rule matched, and over both the hits of the search."""
        styled: list[tuple[int, int, str]] = []
        if level := _LEVEL.search(whole, 0, LEVEL_WITHIN):
            kind = (level.lastgroup or "").rstrip("23")
            styled.append((*level.span(), f"log--{kind}"))
        if marked and self.matched is not None:
            styled += [(a, b, "log--match") for a, b in self.matched(whole)]
        if self.needle:
            # hits that begin before the crop still reach into it
            near = NEAR if self.needle.expression else len(self.needle.text)
            start = max(0, first - near)
            hits = spans(whole[start : first + len(text) + (near if self.needle.expression else 0)], self.needle)
            styled += [(a + start, b + start, "log--hit") for a, b in hits]
        if not styled:
            return [Segment(text, base)]
        styles = [""] * len(text)
        for a, b, name in styled:
            for n in range(max(0, a - first), min(len(text), b - first)):
                styles[n] = name
        out: list[Segment] = []
        at = 0
        for name, run in groupby(styles):
            end = at + sum(1 for _ in run)
            style = base if not name else self.get_component_rich_style(name)
            if name in ("log--error", "log--warning"):
                style = base + Style(color=style.color, bold=True)
            out.append(Segment(text[at:end], style))
            at = end
        return out

    def action_sideways(self, cells: int) -> None:
        self.scroll_to(x=max(0, self.scroll_offset.x + cells), animate=False)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def action_line_start(self) -> None:
        self.scroll_to(x=0, animate=False)

    def action_line_end(self) -> None:
        self.scroll_to(x=self.max_scroll_x, animate=False)
