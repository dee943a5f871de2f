"""The keys and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from doctor import __version__
from doctor.tui.base import TranslatedModal, TranslatedScreen

Section = tuple[str, tuple[tuple[str, str], ...]]

ANYWHERE: Section = ("help.anywhere", (
    ("Ctrl+P", "key.palette"), ("?  F1", "key.help"), ("o", "key.open"), ("e", "key.machine"),
    ("m", "key.model"), ("t", "key.smoke"), ("w", "key.watch"),
    ("k", "key.checks"),
    ("l  F2", "key.language"), ("Esc", "key.back"), ("q  Ctrl+Q", "key.quit"),
))  # fmt: skip
LOG: Section = ("help.log", (
    ("/", "key.search"), ("Ctrl+R", "key.expression"), ("n  N", "key.next_hit"), ("R", "key.new_rule"),
    ("g  G", "key.ends"), ("Left Right", "key.sideways"), ("0  $", "key.line_ends"),
))  # fmt: skip


class HelpScreen(TranslatedModal[None]):
    """One table; any of the closing keys leaves. ``others``: the sections of screens that are not open."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", "tui.key.back"),
    ]

    def __init__(self, others: Sequence[Section] = ()) -> None:
        super().__init__()
        self._others = others

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -tall"):
            yield Static(id="help-text", markup=False)

    def retranslate(self) -> None:
        text = Text(f"MindSpore Doctor {__version__}\n", "bold")
        text.append(self.tr("help.about") + "\n")
        # the keys of the screen below come first: a small terminal shows no more than the beginning
        below = self.app.screen_stack[-2] if len(self.app.screen_stack) > 1 else None
        own = below.KEY_SECTION if isinstance(below, TranslatedScreen) else ("", ())
        sections = [own] * bool(own[0]) + [ANYWHERE, *(s for s in self._others if s[0] and s != own), LOG]
        room = max(cell_len(key) for _, rows in sections for key, _ in rows) + 3
        for title, rows in sections:
            text.append(f"\n{self.tr(title)}\n", "bold")
            for key, what in rows:
                text.append(f"  {key}{' ' * (room - cell_len(key))}", "cyan")
                text.append(f"{self.tr(what)}\n")
        self.query_one("#help-text", Static).update(text)
