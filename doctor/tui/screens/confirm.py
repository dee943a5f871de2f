"""A question before something is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from doctor.tui.base import TranslatedModal, wrap


class ConfirmScreen(TranslatedModal[bool]):
    """``lines`` gives the question in the language of the moment, its first line the title. ``y`` agrees; Enter takes
    the button that has the focus, which at first is the one that leaves everything."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "tui.key.yes"),
        Binding("escape,n", "dismiss(False)", "tui.key.no"),
        # keys of the application do not reach a dialog
        Binding("l,f2", "app.language", "tui.key.language", show=False),
        Binding("left,right", "other", "", show=False),
    ]

    def __init__(self, lines: Callable[[], list[str]]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(id="confirm-title", markup=False, classes="dialog-title")
            with VerticalScroll(id="confirm-scroll", can_focus=False):
                yield Static(id="confirm-text", markup=False)
            with Horizontal(id="confirm-buttons"):
                yield Button(" ", id="confirm-no", compact=True)
                yield Button(" ", id="confirm-yes", variant="warning", compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one("#confirm-no", Button))

    def retranslate(self) -> None:
        title, *rest = self._lines()
        columns = min(72, max(20, self.app.size.width - 8))
        self.query_one("#confirm-title", Static).update(Text("\n".join(wrap(title, columns))))
        rows = [row for line in rest for row in (wrap(line, columns) if line else [""])]
        self.query_one("#confirm-text", Static).update(Text("\n".join(rows), no_wrap=True))
        self.query_one("#confirm-no", Button).label = Text(self.tr("confirm.no"))
        self.query_one("#confirm-yes", Button).label = Text(self.tr("confirm.yes"))

    def on_resize(self) -> None:
        self.retranslate()

    def action_other(self) -> None:
        """The other button."""
        self.focus_next()

    @on(Button.Pressed, "#confirm-yes")
    def _yes(self) -> None:
        self.dismiss(True)

    @on(Button.Pressed, "#confirm-no")
    def _no(self) -> None:
        self.dismiss(False)
