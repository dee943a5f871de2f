"""What the doctor can judge at the moment, and every rule it knows."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane

from doctor import crash
from doctor.engine import NOT_JUDGED_KINDS, UNDERSTOOD
from doctor.i18n import pick, tr
from doctor.render.text import mark
from doctor.rulebase import RuleBase
from doctor.rulecli import LABELS
from doctor.tui.base import TranslatedScreen, ascii_only, outside, wrap

_FIELD = re.compile(r"\{\w{1,40}\??\}")


class State(NamedTuple):
    """What was found out about the rules."""

    base: RuleBase
    engine: str
    rows: list[dict[str, Any]]


class RulePage(VerticalScroll):
    """The page of a rule, laid out anew when the width changes."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text, self._lang = "", "en"

    def compose(self) -> ComposeResult:
        yield Static(id="rule-text", markup=False)

    def show(self, text: str, lang: str) -> None:
        """Another page."""
        self._text, self._lang = text, lang
        self._lay_out()
        self.scroll_home(animate=False)

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        text = hanging(self._text, self.scrollable_content_region.width - 1, self._lang)
        self.query_one("#rule-text", Static).update(Text(text, no_wrap=True))


class ChecksScreen(TranslatedScreen[None]):
    """Two tabs: the state, and the rules."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('state')", "tui.checks.state"),
        Binding("2", "tab('rules')", "tui.checks.rules"),
        Binding("slash", "filter", "tui.key.filter"),
        Binding("escape", "back", "tui.key.back"),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("filter", "back")

    class Ready(Message):
        """The rules are loaded."""

        def __init__(self, state: State | None, error: str) -> None:
            super().__init__()
            self.state, self.error = state, error

    def __init__(self) -> None:
        super().__init__()
        self._state: State | None = None
        self._error = ""

    def compose(self) -> ComposeResult:
        with TabbedContent(id="tabs"):
            with TabPane(" ", id="state"), VerticalScroll():
                yield Static(id="state-text", markup=False)
            with TabPane(" ", id="rules"):
                yield Input(id="filter", compact=True)
                with Container(id="rule-panes"):
                    yield DataTable(id="rule-table", cursor_type="row", zebra_stripes=True)
                    yield RulePage(id="rule-page")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self._load()

    @work(thread=True, exclusive=True, group="checks", exit_on_error=False)
    def _load(self) -> None:
        try:
            from doctor.rulecli import rows
            from doctor.scan.scanner import Matcher

            base = self.doctor.rulebase()
            state = State(base, Matcher(base).engine.name, rows(base))
        except Exception as error:
            crash.save(error, "tui")
            self.post_message(self.Ready(None, f"{type(error).__name__}: {error}"))
            return
        self.post_message(self.Ready(state, ""))

    @on(Ready)
    def _ready(self, event: Ready) -> None:
        self._state, self._error = event.state, event.error
        self.retranslate()

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        tabs = self.query_one("#tabs", TabbedContent)
        tabs.get_tab("state").label = Text(self.tr("checks.state"))
        tabs.get_tab("rules").label = Text(self.tr("checks.rules"))
        self.query_one("#filter", Input).placeholder = self.tr("checks.filter")
        self.query_one("#state-text", Static).update(self._state_text())
        self._fill()

    def _state_text(self) -> Text:
        if self._state is None:
            return Text(outside(self._error) if self._error else self.tr("checks.loading"))
        base, engine, _ = self._state
        text, columns = Text(), self.size.width - 5

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
        for rule in base:
            family = rule.id.rstrip("0123456789")
            families[family] = families.get(family, 0) + 1
        text.append(self.tr("checks.base") + "\n", "bold")
        row("healthy", self.tr("checks.count"), f"{len(base)}")
        row("healthy", self.tr("checks.families"), "  ".join(f"{k} {n}" for k, n in sorted(families.items())))
        row("healthy", self.tr("checks.topics"), f"{len(base.topics)}")
        row("healthy", self.tr("checks.codes"), f"{len(base.codes)}")
        row("healthy", self.tr("checks.engine"), engine)
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

    # ------------------------------------------------------------------ rules

    def _fill(self) -> None:
        """The table of the rules that hold what was typed, in id, topic, name or title."""
        table = self.query_one("#rule-table", DataTable)
        wanted = self.query_one("#filter", Input).value.strip().lower().split()
        kept = self._selected()
        table.clear(columns=True)
        lang = self.doctor.lang
        for key in ("id", "severity", "confidence", "title", "topic"):
            table.add_column(Text(self.tr(f"checks.column.{key}")), key=key)
        shown = []
        for rule in self._state.rows if self._state else ():
            words = [rule["id"], rule["topic"], rule["name"], *rule["title"].values(), *rule["covers"]]
            where = " ".join(words).lower()
            if all(word in where for word in wanted):
                shown.append(rule["id"])
                table.add_row(
                    Text(rule["id"]),
                    Text(f"{mark(rule['severity'], ascii_only())} {tr(lang, 'severity.' + rule['severity'])}"),
                    Text(tr(lang, f"confidence.{rule['confidence']}")),
                    Text(outside(_FIELD.sub("…", pick(rule["title"], lang)))),
                    Text(rule["topic"]),
                    key=rule["id"],
                )
        if kept in shown:
            table.move_cursor(row=shown.index(kept))
        self._explain(self._selected())

    def _selected(self) -> str:
        table = self.query_one("#rule-table", DataTable)
        if not table.row_count:
            return ""
        # for a moment after the table was filled with fewer rows the cursor may stand below the last one
        return table.ordered_rows[table.cursor_row].key.value or "" if table.cursor_row < table.row_count else ""

    def _explain(self, rule_id: str) -> None:
        page = self.query_one(RulePage)
        if self._state is None or not rule_id:
            page.show(self.tr("checks.no_rule") if self._state else "", self.doctor.lang)
            return
        from doctor.rulecli import rule_text

        base = self._state.base
        page.show(rule_text(base, base.whole(rule_id), self.doctor.lang), self.doctor.lang)

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out)

    def _lay_out(self) -> None:
        self.query_one("#state-text", Static).update(self._state_text())

    @on(DataTable.RowHighlighted)
    def _row(self) -> None:
        self._explain(self._selected())

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._fill()

    @on(Input.Submitted, "#filter")
    def _to_table(self) -> None:
        self.query_one("#rule-table", DataTable).focus()

    def action_tab(self, name: str) -> None:
        """Show a tab and give it the focus."""
        self.query_one("#tabs", TabbedContent).active = name
        if name == "rules":
            self.query_one("#rule-table", DataTable).focus()

    def action_filter(self) -> None:
        """Type into the filter."""
        self.query_one("#tabs", TabbedContent).active = "rules"
        self.query_one("#filter", Input).focus()

    def action_back(self) -> None:
        if isinstance(self.focused, Input):
            self.query_one("#rule-table", DataTable).focus()
        else:
            self.dismiss()


def hanging(text: str, columns: int, lang: str) -> str:
    """A page of labels and texts, wrapped so that the texts stay in their column."""
    labels = [tr(lang, key) for key in PAGE]
    if columns < 20:
        return text
    out = []
    for line in text.split("\n"):
        label = next((one for one in labels if line.startswith(one + " ")), "")
        if not label and not line.startswith(" "):
            out += wrap(line, columns)
            continue
        beside = columns >= 50 and cell_len(label) < LABELS[lang]
        indent = " " * (LABELS[lang] if beside or columns >= 50 else 2)
        rows = wrap(line[len(label) :].strip(), columns - len(indent))
        if label and not beside:
            out += [label, *(indent + row for row in rows)]
        else:
            head = label + " " * (len(indent) - cell_len(label))
            out += [(head if n == 0 else indent) + row for n, row in enumerate(rows)]
    return "\n".join(out)


PAGE = (
    "topic", "strength", "applies_to", "cause", "next", "fix", "explains", "sources", "seeds", "fires_on", "quiet_on",
)  # fmt: skip
"""The labels of the page of a rule."""

_ROWS = ("count", "families", "topics", "codes", "engine", "problems")
