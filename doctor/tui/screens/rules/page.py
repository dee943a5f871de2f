"""What the pages of the rules room share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from rich.text import Text
from textual import events
from textual.containers import Container, VerticalScroll
from textual.widgets import Input, Static, TextArea

from doctor.i18n import tr
from doctor.render.safe import printable
from doctor.rulebase import RuleBase
from doctor.rulenew import LONGEST_LINE
from doctor.rulesearch import Index
from doctor.tui.base import wrap
from doctor.tui.document import COLOUR

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

MOST_LINES = 400
"""Lines of an answer that are laid out."""


class Room(NamedTuple):
    """What was found out about the rules."""

    base: RuleBase
    engine: str
    rules: Index


class Page(Container):
    """A page: ``room`` is None until the rules are loaded."""

    room: Room | None = None

    @property
    def doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def tr(self, key: str, **values: Any) -> str:
        """A text of this package; ``key`` without its prefix."""
        return tr(self.doctor.lang, "tui." + key, **values)

    def enter(self, room: Room | None) -> None:
        """The rules are loaded, or could not be."""
        self.room = room
        self.retranslate()

    def retranslate(self) -> None:
        """Set every text anew."""

    def take_focus(self) -> None:
        """The page is shown: what has the focus at first."""


def harmless(text: str) -> str:
    """A pasted text without colours, everything else that could steer a terminal made visible; tabs and lines stay."""
    return printable(COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


class SafeText(TextArea):
    """A text area for text from outside: a paste is made harmless."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.take(event.text)

    def take(self, text: str) -> None:
        """Put a paste where the cursor is."""
        self.insert(harmless(text), maintain_selection_offset=False)


class SafeInput(Input):
    """A line for text from outside: of a paste the first line, harmless and not endless."""

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        lines = harmless(event.text).strip().split("\n")
        self.insert_text_at_cursor(lines[0][:LONGEST_LINE])


class Answer(VerticalScroll):
    """Styled lines, wrapped anew when the width changes."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[tuple[str, str]] = ()

    def compose(self) -> Any:
        yield Static(markup=False)

    def show(self, lines: Sequence[tuple[str, str]]) -> None:
        """Other lines: (style, text)."""
        self._lines = lines
        self._lay_out()
        self.scroll_home(animate=False)

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        columns = max(20, self.scrollable_content_region.width - 1)
        text = Text(no_wrap=True)
        for style, line in self._lines[:MOST_LINES]:
            indent = " " * min(len(line) - len(line.lstrip(" ")), columns // 3)
            for n, row in enumerate(wrap(line.strip(), columns - len(indent) - 2) or [""]):
                text.append(f"{indent}{'  ' if n else ''}{row}\n", style)
        self.query_one(Static).update(text)
