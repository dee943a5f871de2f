"""What can be judged at present."""

from __future__ import annotations

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from doctor.engine import NOT_JUDGED_KINDS, UNDERSTOOD
from doctor.i18n import tr
from doctor.render.text import mark
from doctor.tui.base import ascii_only, outside, wrap
from doctor.tui.screens.rules.page import Page

_ROWS = ("count", "families", "topics", "codes", "engine", "problems")


class StatePage(Page):
    """Numbers of the rules, the engine, what is wrong with rule files, and which inputs are understood."""

    error = ""
    """why the rules could not be loaded"""

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="state-scroll"):
            yield Static(id="state-text", markup=False)

    def retranslate(self) -> None:
        self.query_one("#state-text", Static).update(self._state_text())

    def on_resize(self) -> None:
        self.call_after_refresh(self.retranslate)

    def take_focus(self) -> None:
        self.screen.set_focus(self.query_one("#state-scroll"))

    def _state_text(self) -> Text:
        if self.room is None:
            return Text(outside(self.error) if self.error else self.tr("checks.loading"))
        base = self.room.base
        text, columns = Text(), self.app.size.width - 5

        def row(severity: str, label: str, value: str) -> None:
            text.append(f"  {mark(severity, ascii_only())} ")
            text.append(label + " " * max(1, room - cell_len(label)))
            rows = wrap(value, max(20, columns - room - 4))
            text.append(("\n" + " " * (room + 4)).join(rows) + "\n")

        from doctor.scan.kinds import KINDS

        kinds = [k for k in KINDS if k not in ("empty", "binary")]
        room = 2 + max(
            cell_len(s)
            for s in (*(tr(self.doctor.lang, f"kind.{k}") for k in kinds), *(self.tr(f"checks.{k}") for k in _ROWS))
        )
        families: dict[str, int] = {}
        for found in self.room.rules.rows.values():
            families[found.family] = families.get(found.family, 0) + 1
        text.append(self.tr("checks.base") + "\n", "bold")
        row("healthy", self.tr("checks.count"), f"{len(base)}")
        row("healthy", self.tr("checks.families"), "  ".join(f"{k} {n}" for k, n in sorted(families.items())))
        row("healthy", self.tr("checks.topics"), f"{len(base.topics)}")
        row("healthy", self.tr("checks.codes"), f"{len(base.codes)}")
        row("healthy", self.tr("checks.engine"), self.room.engine)
        row("warning" if base.problems else "healthy", self.tr("checks.problems"), f"{len(base.problems)}")
        for problem in base.problems[:50]:
            text.append(f"      {outside(str(problem))}\n", "yellow")
        text.append(f"\n{self.tr('checks.inputs')}\n", "bold")
        for kind in kinds:
            state = "judged" if kind in UNDERSTOOD else "partly"
            if kind in NOT_JUDGED_KINDS:
                state = "not_yet"
            sign = {"judged": "healthy", "partly": "advice", "not_yet": "unknown"}[state]
            row(sign, tr(self.doctor.lang, f"kind.{kind}"), self.tr(f"checks.{state}"))
        return text
