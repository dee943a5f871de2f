"""The values that the ranks printed as plots with their events, failed allocations as bars, a profile as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from doctor.i18n import pick, texts, tr
from doctor.model import Evidence, Finding, Report, Verdict
from doctor.render import plot, profile
from doctor.render.lanes import cut
from doctor.render.text import STYLES
from doctor.tui.base import ascii_only, outside, wrap
from doctor.tui.widgets.choices import Choices

NAMES = ("loss", "grad_norm", "loss_scale", "lr", "step_time", "throughput", "data_time")
"""The columns in the order of the list."""

FULL = 24
"""Rows of a plot at most."""


class Drawn(NamedTuple):
    """A plot that can be chosen: a series, a finding with sizes of memory, or (with neither) the table of a profile."""

    name: str
    rank: int | None
    series: dict[str, Any] | None = None
    finding: Finding | None = None


def plots_of(report: Report) -> list[Drawn]:
    """What can be drawn of a report, by column and rank."""
    out = [Drawn(s["name"], s["rank"], s) for s in report.series if len(s["points"]) > 1]
    out.sort(key=lambda d: (NAMES.index(d.name) if d.name in NAMES else len(NAMES), d.rank is None, d.rank or 0))
    seen: set[Any] = set()
    for finding in report.findings:
        if not finding.topic.startswith("memory.") or finding.verdict != Verdict.FAIL:
            continue
        sizes = plot.sizes_of(finding.args)
        key = (finding.id, finding.place, tuple(sizes))
        if len(sizes) > 2 and key not in seen:
            seen.add(key)
            out.append(Drawn("memory", finding.place.rank, None, finding))
    if profile.rows(report, "en"):
        out.append(Drawn("profile", None))
    return out


def first_of(report: Report, drawn: list[Drawn]) -> int:
    """The plot to begin with: that of the first diagnosis if it is about memory, else the worst series, else a loss."""
    head = report.findings[report.diagnoses[0].finding] if report.diagnoses else None
    for n, one in enumerate(drawn):
        if one.finding is not None and head is not None and (one.finding.id, one.rank) == (head.id, head.place.rank):
            return n
    odd = [n for n, one in enumerate(drawn) if one.series and one.series["label"] not in ("healthy", "unknown")]
    return odd[0] if odd else 0


class PlotList(Choices):
    """Up and down go through the ranks, left and right through the columns."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "column(-1)", "tui.key.column", show=False),
        Binding("right", "column(1)", "tui.key.column", show=False),
    ]

    def action_column(self, by: int) -> None:
        """The same rank in the next column."""
        pane = self.query_ancestor(PlotPane)
        pane.column(by)


class PlotPane(Container):
    """The list of plots, and the one that is chosen."""

    ALLOW_MAXIMIZE = True

    class Shown(Message):
        """A plot is looked at; the evidence of its first event, if it has one."""

        def __init__(self, evidence: Evidence | None) -> None:
            super().__init__()
            self.evidence = evidence

    class Chosen(Message):
        """The line of the log is wanted."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.drawn: list[Drawn] = []
        self._report: Report | None = None
        self._lang = "en"

    def compose(self) -> Iterable[Any]:
        yield PlotList(id="plot-list")
        with VerticalScroll(id="plot-page", can_focus=False):
            yield Static(id="plot-text", markup=False)

    def fill(self, report: Report, lang: str) -> None:
        """Offer the plots of a report."""
        rows = self.query_one(PlotList)
        at = rows.highlighted
        first = self._report is None
        self._report, self._lang = report, lang
        if first:
            self.drawn = plots_of(report)
            at = first_of(report, self.drawn) if self.drawn else None
        rows.clear_options()
        rows.add_options([Option(self._label(one)) for one in self.drawn])
        rows.highlighted = at

    def _label(self, one: Drawn) -> Text:
        rank = tr(self._lang, "rank", ranks=one.rank) if one.rank is not None else ""
        if one.name == "profile":
            return Text(tr(self._lang, "profile.title"), no_wrap=True)
        if one.series is None:
            assert one.finding is not None
            text = Text(f"{tr(self._lang, 'memory.drawn')} {rank}  ", no_wrap=True)
            return text.append(one.finding.id, STYLES.get(one.finding.severity, ""))
        text = Text(f"{tr(self._lang, 'series.' + one.name)} {rank}", no_wrap=True)
        label = one.series["label"]
        if label not in ("healthy", "unknown"):
            text.append(f"  {tr(self._lang, 'series.' + label)}", STYLES["error"])
        return text

    @property
    def chosen(self) -> Drawn | None:
        """The plot that is looked at."""
        at = self.query_one(PlotList).highlighted
        return self.drawn[at] if at is not None and at < len(self.drawn) else None

    def column(self, by: int) -> None:
        """The same rank (or the nearest one there is) in the next column."""
        here = self.chosen
        if here is None:
            return
        names = list(dict.fromkeys(one.name for one in self.drawn))
        name = names[(names.index(here.name) + by) % len(names)]
        same = [n for n, one in enumerate(self.drawn) if one.name == name]
        rank = here.rank or 0
        self.query_one(PlotList).highlighted = min(same, key=lambda n: abs((self.drawn[n].rank or 0) - rank))

    @on(OptionList.OptionHighlighted, "#plot-list")
    def look(self) -> None:
        """Draw the chosen plot and tell of it."""
        self.lay_out()
        self.post_message(self.Shown(self._evidence()))

    @on(OptionList.OptionSelected, "#plot-list")
    def _choose(self) -> None:
        self.post_message(self.Chosen())

    def on_resize(self) -> None:
        self.call_after_refresh(self.lay_out)

    def _evidence(self) -> Evidence | None:
        one = self.chosen
        if one is None or one.name == "profile":
            return None
        if one.finding is not None:
            return one.finding.evidence[0] if one.finding.evidence else None
        assert one.series is not None
        line = next((e["line"] for e in one.series["events"] if e.get("line")), 0)
        return Evidence(one.series["source"], line, "")

    def lay_out(self) -> None:
        """Draw the chosen plot as large as there is room."""
        if not self.is_mounted:
            return
        page = self.query_one("#plot-page").scrollable_content_region
        self.query_one("#plot-text", Static).update(self.picture(max(30, page.width - 1), max(8, page.height)))

    def picture(self, columns: int, height: int) -> Text:
        """The chosen plot with its title and its events."""
        one = self.chosen
        text = Text(no_wrap=True)
        if one is None:
            return text.append(tr(self._lang, "tui.plots.none"))
        if one.name == "profile":
            assert self._report is not None
            made = profile.rows(self._report, self._lang, every=True, columns=columns, ascii_only=ascii_only())
            for style, line in made[1:]:
                for part in [line] if cell_len(line) <= columns else wrap(outside(line), columns):
                    text.append(outside(part) + "\n", style)
            return text
        if one.finding is not None:
            for line in wrap(outside(pick(one.finding.title, self._lang)), columns):
                text.append(line + "\n", "bold")
            text.append("\n")
            for style, line in plot.memory_bars(one.finding.args, self._lang, columns=columns, ascii_only=ascii_only()):
                text.append(line + "\n", style)
            return text
        assert one.series is not None
        return self._series(text, one.series, columns, height)

    def _series(self, text: Text, series: dict[str, Any], columns: int, height: int) -> Text:
        lang = self._lang
        events = [e for e in series["events"] if e["step"] is not None][:9]
        unit = f" ({outside(series['unit'])})" if series["unit"] else ""
        rank = f" {tr(lang, 'rank', ranks=series['rank'])}" if series["rank"] is not None else ""
        label = tr(lang, f"series.{series['label']}")
        title = f"{tr(lang, 'series.' + series['name'])}{unit}{rank}: {label}"
        text.append(cut(title, columns).rstrip() + "\n", "bold")
        facts = tr(lang, "tui.plots.points", n=f"{series['count']:,}", source=outside(series["source"]))
        text.append(cut(facts, columns).rstrip() + "\n", "dim")
        rows = min(FULL, max(7, height - 3 - len(events)))
        drawn = plot.chart(
            series["points"], [e["step"] for e in events], columns=columns, rows=rows, ascii_only=ascii_only()
        )  # fmt: skip
        for line in drawn or [tr(lang, "tui.plots.flat")]:
            text.append(line + "\n")
        for n, event in enumerate(events, 1):
            text.append(f"{n} ", "bold red")
            text.append(cut(self._event(event), columns - 2).rstrip() + "\n")
        return text

    def _event(self, event: dict[str, Any]) -> str:
        kind = str(event["kind"])
        parts = [tr(self._lang, "tui.plots.step", step=event["step"]), self._title(kind)]
        for key in ("value", "usual"):
            if event.get(key) is not None:
                value = event[key]
                shown = plot.number(value) if isinstance(value, float) else str(value)
                parts.append(tr(self._lang, f"tui.plots.{key}", value=shown))
        return outside("  ".join(parts))

    def _title(self, kind: str) -> str:
        """What an event is: a label of the series, or what the rule says."""
        label = texts(self._lang).get(f"series.{kind}")
        found = next((f for f in self._report.findings if f.id == kind), None) if self._report else None
        return label or (f"{kind} {pick(found.title, self._lang)}" if found is not None else kind)
