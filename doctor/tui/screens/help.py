"""The keys and what they do."""

from __future__ import annotations

from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from doctor import __version__
from doctor.tui.base import TranslatedModal

KEYS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("help.anywhere", (
        ("Ctrl+P", "key.palette"), ("?  F1", "key.help"), ("o", "key.open"), ("e", "key.machine"),
        ("m", "key.model"), ("t", "key.smoke"),
        ("k", "key.checks"),
        ("l  F2", "key.language"), ("Esc", "key.back"), ("q  Ctrl+Q", "key.quit"),
    )),
    ("help.result", (
        ("c", "key.copy"), ("s", "key.save"), ("z", "key.zoom"), ("Tab", "key.next_pane"), ("Enter", "key.enter"),
    )),
    ("help.machine", (
        ("1  2", "key.tabs"), ("r", "key.again"), ("v", "key.shown"), ("/", "key.filter"),
    )),
    ("help.model", (
        ("1 … 5", "key.pages"), ("o", "key.choose"), ("f", "key.next_file"), ("v", "key.unknown"), ("/", "key.search"),
        ("Space", "key.take"), ("x", "key.aliases"), ("a", "key.apply"), ("u", "key.undo"),
    )),
    ("help.smoke", (
        ("r", "key.start"), ("i", "key.python"), ("Esc", "key.end"),
    )),
    ("help.log", (
        ("/", "key.search"), ("n  N", "key.next_hit"), ("g  G", "key.ends"),
        ("Left Right", "key.sideways"), ("0  $", "key.line_ends"),
    )),
)  # fmt: skip


class HelpScreen(TranslatedModal[None]):
    """One table; any of the closing keys leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", "tui.key.back"),
    ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog -tall"):
            yield Static(id="help-text", markup=False)

    def retranslate(self) -> None:
        text = Text(f"MindSpore Doctor {__version__}\n", "bold")
        text.append(self.tr("help.about") + "\n")
        room = max(cell_len(key) for _, rows in KEYS for key, _ in rows) + 3
        # the keys of the screen below come first: a small terminal shows no more than the beginning
        below = type(self.app.screen_stack[-2]).__name__ if len(self.app.screen_stack) > 1 else ""
        first = {"MachineScreen": "help.machine", "ResultScreen": "help.result"}.get(below, "")
        for title, rows in sorted(KEYS, key=lambda section: section[0] != first):
            text.append(f"\n{self.tr(title)}\n", "bold")
            for key, what in rows:
                text.append(f"  {key}{' ' * (room - cell_len(key))}", "cyan")
                text.append(f"{self.tr(what)}\n")
        self.query_one("#help-text", Static).update(text)
