"""Every value that was read, and where it stands."""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import DataTable, Static

from doctor.model import Evidence
from doctor.plan import cel, show
from doctor.plan.schema import FIELDS, Plan
from doctor.render.text import STYLES
from doctor.tui import configs
from doctor.tui.base import outside
from doctor.tui.screens.model.page import Page, more

SHOWN_VALUE = 60
"""Characters of a value in its table."""


class ValuesPage(Page):
    """The values of one plan."""

    class Chosen(Message):
        """Enter on a value: the line it comes from."""

        def __init__(self, evidence: Evidence) -> None:
            super().__init__()
            self.evidence = evidence

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[tuple[str, Evidence | None]] = []

    def compose(self) -> ComposeResult:
        yield Static(id="value-note", markup=False)
        yield DataTable(id="value-table", cursor_type="row", zebra_stripes=True)

    def show(self, plan: Plan | None, seen: configs.Seen | None) -> None:
        """Other values."""
        table = self.query_one("#value-table", DataTable)
        row = table.cursor_row
        table.clear(columns=True)
        for key in ("name", "value", "place"):
            table.add_column(Text(self.tr(f"model.column.{key}")), key=key)
        self._rows = []
        note = self.no_plan(seen)
        if plan is not None:
            note = self.tr("model.kind_enter", kind=plan.kind, files=len(plan.files))
            for name, value in plan.rows():
                if name.startswith("file.") and not (value.value and value.origin == "set"):
                    continue
                words = cel.text_of(value.value)
                words = outside(words[:SHOWN_VALUE]) + (more() if len(words) > SHOWN_VALUE else "")
                unit = FIELDS["plan." + name].unit
                words += f" {unit}" if unit else ""
                dim = "" if value.origin == "set" else "dim"
                place = show.place(value, self.doctor.lang)
                if value.origin == "set" and value.file == plan.file and value.line:
                    place = self.tr("model.line", line=value.line) + (f"  {value.key}" if value.key else "")
                table.add_row(Text(name, dim), Text(words, dim), Text(outside(place), dim))
                self._rows.append((name, next(iter(value.evidence()), None)))
            for name, why in sorted(plan.blocked.items()):
                table.add_row(Text(name), Text("?", STYLES["unknown"]), Text(outside(why)))
                self._rows.append((name, None))
            if 0 < row < table.row_count:
                table.move_cursor(row=row)
        self.query_one("#value-note", Static).update(Text(note))

    @on(DataTable.RowSelected, "#value-table")
    def _to_line(self, event: DataTable.RowSelected) -> None:
        _, evidence = self._rows[event.cursor_row] if event.cursor_row < len(self._rows) else ("", None)
        if evidence is None:
            self.doctor.say(self.tr("model.no_line"))
        else:
            self.post_message(self.Chosen(evidence))
