"""A list of options whose chosen row can be read: its pieces lose the colours that they have elsewhere."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widgets import OptionList


class Choices(OptionList):
    """What is red or faint on the background of the list may not be read on that of the cursor."""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        at = self.scroll_offset.y + y
        if not 0 <= at < len(self._lines) or self._lines[at][0] != self.highlighted:
            return strip
        row = self.get_visual_style("option-list--option", "option-list--option-highlighted").rich_style
        colours = Style(color=row.color, bgcolor=row.bgcolor, dim=False)
        return Strip([Segment(s.text, s.style + colours if s.style else colours) for s in strip], strip.cell_length)
