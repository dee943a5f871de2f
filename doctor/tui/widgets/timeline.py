"""Ranks as lanes over corrected time; the cursor goes from event to event, the screen follows with the log."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from doctor.i18n import tr
from doctor.render import lanes
from doctor.render.lanes import Row, Window
from doctor.render.text import ranks_text
from doctor.tui.base import ascii_only

LABEL, STATE, STEPS = 12, 9, 11
"""Cells of the columns before the lanes; a wide screen has more room for the first."""

NARROWEST = 20
"""Cells of the lanes below which the columns before them go."""

HEAD = 2
"""Rows of the axis, always in view."""


class Timeline(ScrollView, can_focus=True):
    """Drawn line by line: hundreds of lanes cost no more than those that are seen."""

    ALLOW_MAXIMIZE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "lane(-1)", "", show=False),
        Binding("down", "lane(1)", "", show=False),
        Binding("pageup", "lane(-10)", "", show=False),
        Binding("pagedown", "lane(10)", "", show=False),
        Binding("left", "event(-1)", "tui.key.event", show=False),
        Binding("right", "event(1)", "tui.key.event", show=False),
        Binding("home", "to(0)", "", show=False),
        Binding("end", "to(-1)", "", show=False),
        Binding("plus,equals_sign", "scale(0.5)", "tui.key.wider", show=False),
        Binding("minus", "scale(2)", "tui.key.wider", show=False),
        Binding("f", "fold", "tui.key.fold", show=False),
        Binding("w", "whole", "tui.key.whole", show=False),
        Binding("enter", "choose", "tui.key.enter", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"lane--text", "lane--axis", "lane--mark"}

    class Moved(Message):
        """The cursor is on an event (an index into the events), or on a lane alone."""

        def __init__(self, event: int | None, lane: dict[str, Any] | None) -> None:
            super().__init__()
            self.event, self.lane = event, lane

    class Chosen(Message):
        """The line of the log is wanted."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.events: list[dict[str, Any]] = []
        """in the order of time"""
        self.rows: list[Row] = []
        self.window: Window | None = None
        self.folded = False
        self.row = 0
        self.at: int | None = None
        """the event under the cursor"""
        self._run: dict[str, Any] = {}
        self._lang = "en"
        self._whole: Window | None = None
        self._marks: list[list[tuple[float, str]]] = []
        self._row_of: list[int | None] = []
        """the row of each event"""

    def fill(self, run: dict[str, Any], lang: str) -> None:
        """Show a run, the decisive minutes of it; shown again, in another language, everything stays where it is."""
        self._lang = lang
        if run is not self._run:
            self._run = run
            self.events = sorted((e for e in run.get("timeline") or () if e.get("seconds") is not None),
                                 key=lambda e: e["seconds"])  # fmt: skip
            self._whole, self.window = lanes.whole(run), lanes.decisive(run)
            self.folded = len(run.get("lanes") or ()) >= lanes.FOLD_FROM
            self._arrange()
            first = next((n for n, e in enumerate(self.events) if e["what"] == "cause"), 0)
            self.at = first if self.events else None
            self.row = (self._row_of[self.at] if self.at is not None else None) or 0
        self.border_title = tr(lang, "tui.timeline.lanes")
        self.refresh()

    def _arrange(self) -> None:
        self.rows = lanes.rows_of(self._run, self.folded)
        ranks = [lanes.event_ranks(event) for event in self.events]
        sets = [frozenset(some) for some in ranks]
        self._marks = [lanes.marks_of(row, self.events, sets) for row in self.rows]
        by_rank = {rank: n for n, row in enumerate(self.rows) for rank in row.ranks}
        by_source = {lane.get("source"): n for n, row in enumerate(self.rows) for lane in row.lanes}
        # that of its first rank, else that of its source
        self._row_of = [
            by_rank.get(some[0]) if some else by_source.get(event["source"])
            for some, event in zip(ranks, self.events, strict=True)
        ]
        self.virtual_size = Size(0, len(self.rows) + HEAD)
        self.refresh()

    # ------------------------------------------------------------------ drawing

    def columns(self) -> tuple[int, int]:
        """Cells of what stands before the lanes, and of the lanes."""
        width = self.size.width
        before = self._label() + STATE + STEPS
        if width - before < NARROWEST:
            before = LABEL
        elif width < 100:
            before = LABEL + STATE
        return before, max(1, width - before)

    def _label(self) -> int:
        return LABEL if self.size.width < 100 else LABEL + self.size.width // 10

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.get_component_rich_style("lane--text")
        if self.window is None or not self.rows:
            return Strip.blank(width, base)
        before, room = self.columns()
        if y < HEAD:
            style = self.get_component_rich_style("lane--axis")
            text = lanes.axis(self.window, room)[y]
            if y == 0:
                span = tr(self._lang, "tui.timeline.zoom", span=_span_text(self.window[1] - self.window[0]))
                return Strip([Segment(lanes.cut(span, before), style), Segment(text, style)]).adjust_cell_length(width)
            return Strip([Segment(" " * before, style), Segment(text, style)]).adjust_cell_length(width)
        n = self.scroll_offset.y + y - HEAD
        if n >= len(self.rows):
            return Strip.blank(width, base)
        row, here, label = self.rows[n], n == self.row, self._label()
        text_style = self.get_component_rich_style("lane--mark") if here else base
        pieces = [Segment((">" if here else " ") + lanes.cut(row.label, label - 2) + " ", text_style)]
        if before > label:
            state = lanes.cut(tr(self._lang, f"lane.{row.state}"), STATE - 1) + " "
            pieces.append(Segment(state, text_style + Style.parse(lanes.STATE_STYLES.get(row.state, ""))))
        if before > label + STATE:
            pieces.append(Segment(lanes.cut(row.steps, STEPS - 1) + " ", text_style + Style(dim=True)))
        end = self._whole[1] if self._whole else self.window[1]
        drawn = lanes.draw(row, self._marks[n], self.window, room, end, ascii_only())
        pieces += [Segment(text, text_style + Style.parse(style)) for style, text in drawn]
        strip = Strip(pieces).adjust_cell_length(width, base)
        if here and row.waits_for:
            note = " " + tr(self._lang, "tui.timeline.waits", ranks=ranks_text(row.waits_for)) + " "
            note = lanes.cut(note, min(cell_len(note), room // 2)).rstrip() + " "
            cells = cell_len(note)
            strip = Strip.join([
                strip.crop(0, width - cells), Strip([Segment(note, base + Style(bold=True, color="yellow"))])
            ])  # fmt: skip
        return strip if not here or self.at is None else self._cursor(strip, before, room)

    def _cursor(self, strip: Strip, before: int, room: int) -> Strip:
        """The cell of the event under the cursor, reversed."""
        assert self.at is not None and self.window is not None
        at = lanes.column(self.events[self.at]["seconds"], self.window, room)
        if not 0 <= at < room:
            return strip
        cell = strip.crop(before + at, before + at + 1).apply_style(Style(reverse=True, bold=True))
        return Strip.join([strip.crop(0, before + at), cell, strip.crop(before + at + 1)])

    # ------------------------------------------------------------------ moving

    def on_resize(self) -> None:
        self.call_after_refresh(self._in_view)

    def go(self, at: int, *, tell: bool = True) -> None:
        """Move the cursor to an event."""
        if not self.events:
            return
        self.at = max(0, min(at, len(self.events) - 1))
        row = self._row_of[self.at]
        self.row = self.row if row is None else row
        if self.window is not None and self._whole is not None:
            seconds, (first, last) = self.events[self.at]["seconds"], self.window
            if not first <= seconds <= last:
                self.window = self._kept((seconds - (last - first) / 2, seconds + (last - first) / 2))
        self._in_view()
        if tell:
            self.post_message(self.Moved(self.at, None))

    def _in_view(self) -> None:
        height = max(1, self.scrollable_content_region.height - HEAD)
        top = self.scroll_offset.y
        if not top <= self.row < top + height:
            self.scroll_to(y=max(0, self.row - height // 2), animate=False, immediate=True)
        self.refresh()

    def _kept(self, window: Window) -> Window:
        """A window within the run, at least a second long."""
        assert self._whole is not None
        first, last = self._whole
        size = min(max(1.0, window[1] - window[0]), last - first)
        start = max(first, min(window[0], last - size))
        return start, start + size

    def action_lane(self, by: int) -> None:
        """Another lane; its event next to the cursor is taken."""
        if not self.rows:
            return
        moment = self.events[self.at]["seconds"] if self.at is not None else 0.0
        self.row = max(0, min(self.row + by, len(self.rows) - 1))
        mine = [n for n, row in enumerate(self._row_of) if row == self.row]
        self.at = min(mine, key=lambda n: abs(self.events[n]["seconds"] - moment), default=None)
        self._in_view()
        members = self.rows[self.row].lanes
        self.post_message(self.Moved(self.at, members[0] if members else None))

    def action_event(self, by: int) -> None:
        """The next or the previous event."""
        if self.at is None:
            self.go(0)
        else:
            self.go(self.at + by)

    def action_to(self, at: int) -> None:
        """The first or the last event."""
        self.go(at if at >= 0 else len(self.events) - 1)

    def action_scale(self, by: float) -> None:
        """A shorter or a longer time, around the cursor."""
        if self.window is None:
            return
        first, last = self.window
        middle = self.events[self.at]["seconds"] if self.at is not None else (first + last) / 2
        if not first <= middle <= last:
            middle = (first + last) / 2
        share = (middle - first) / (last - first)
        size = (last - first) * by
        self.window = self._kept((middle - size * share, middle + size * (1 - share)))
        self.refresh()

    def action_whole(self) -> None:
        """The whole run, or the decisive minutes again."""
        self.window = lanes.decisive(self._run) if self.window == self._whole else self._whole
        self.refresh()

    def action_fold(self) -> None:
        """One row for every rank, or one for those with the same fate."""
        rank = next(iter(self.rows[self.row].ranks), None) if self.rows else None
        self.folded = not self.folded
        self._arrange()
        row = self._row_of[self.at] if self.at is not None else None
        if row is None:
            row = next((n for n, one in enumerate(self.rows) if rank in one.ranks), 0)
        self.row = row
        self._in_view()

    def action_choose(self) -> None:
        """Go to the line of the log."""
        self.post_message(self.Chosen())


def _span_text(seconds: float) -> str:
    """``90 s``, ``12 min``, ``3.5 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
