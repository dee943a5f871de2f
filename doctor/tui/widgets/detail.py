"""What is known of the selected node: cause, what to do, fixes, evidence."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.widgets import Static

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Evidence, Finding
from doctor.render.text import STYLES, mark, place_text, step_rows
from doctor.tui.base import ascii_only, outside, wrap
from doctor.tui.widgets.causes import Item, at_text


class Detail(VerticalScroll):
    """Wrapped by cells rather than words, as Chinese text needs; laid out anew when the width changes."""

    ALLOW_MAXIMIZE = True

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._item: Item | None = None
        self._about: dict[str, dict[str, str]] = {}
        self._lang = "en"
        self._width = 0
        self._note = ""

    def compose(self) -> Iterable[Static]:
        yield Static(id="detail-text", markup=False)

    def show(self, item: Item | None, about: dict[str, dict[str, str]], lang: str, note: str = "") -> None:
        """``about``: cause, next and perhaps fix of the rule of a finding; ``note`` is shown where there is no item."""
        self._item, self._about, self._lang, self._note = item, about, lang, note
        self.border_title = Text(tr(lang, "tui.detail.title"))
        self.scroll_home(animate=False)
        self._lay_out()
        # a pane that is about to be shown may have no width yet, and its resize may have been told before
        self.call_after_refresh(self.on_resize)

    def on_show(self) -> None:
        # hidden it has no width, and shown again in the size it had before it hears of no resize
        self.on_resize()

    def on_resize(self) -> None:
        if self.scrollable_content_region.width != self._width:
            self._lay_out()
            # a text that changes while the screen is being laid out may be measured by what it was before
            self.call_after_refresh(self.query_one("#detail-text", Static).refresh, layout=True)

    def _lay_out(self) -> None:
        size: Size = self.scrollable_content_region.size
        self._width = size.width
        columns = max(20, size.width - 1)
        text = Text(no_wrap=True)
        item = self._item
        if item is None:
            for line in self._note.split("\n"):
                text.append("\n".join(wrap(outside(line), columns)) + "\n")
        elif item.diagnosis is not None:
            _diagnosis(text, item.diagnosis, self._lang, columns)
        elif item.finding is not None:
            _finding(text, item.finding, self._about, self._lang, columns)
        self.query_one("#detail-text", Static).update(text)


def _heading(text: Text, severity: str, title: str, facts: list[str], columns: int) -> None:
    for n, line in enumerate(wrap(title, columns - 2)):
        text.append(f"{mark(severity, ascii_only()) if n == 0 else ' '} {line}\n", STYLES[severity])
    joint = " | " if ascii_only() else " · "
    for line in wrap(joint.join(facts), columns - 2):
        text.append(f"  {line}\n", "dim")


def _block(text: Text, label: str, body: str, columns: int) -> None:
    if not body.strip():
        return
    text.append(f"\n{label}\n", "bold")
    for line in step_rows("\n".join(outside(part) for part in body.split("\n")), columns - 2, wrap):
        text.append(f"  {line}\n")


def _evidence(text: Text, evidence: Evidence, columns: int) -> None:
    for line in wrap(outside(at_text(evidence)), columns - 2):
        text.append(f"  {line}\n", "dim")
    if evidence.text:
        lines = wrap(outside(evidence.text), columns - 4)
        for line in lines[:6]:
            text.append(f"  > {line}\n" if line is lines[0] else f"    {line}\n")


def _diagnosis(text: Text, diagnosis: Diagnosis, lang: str, columns: int) -> None:
    facts = [diagnosis.rule, tr(lang, f"severity.{diagnosis.severity}"), tr(lang, f"confidence.{diagnosis.confidence}")]
    place = place_text(diagnosis, lang)
    facts += [outside(place)] if place else []
    facts += [tr(lang, "times", n=diagnosis.times)] if diagnosis.times > 1 else []
    _heading(text, diagnosis.severity, outside(pick(diagnosis.title, lang)), facts, columns)
    _block(text, "!", pick(diagnosis.note, lang), columns)
    _block(text, tr(lang, "cause"), pick(diagnosis.cause, lang), columns)
    _block(text, tr(lang, "next"), pick(diagnosis.next, lang), columns)
    for fix in diagnosis.fixes:
        _block(text, tr(lang, "fix"), pick(fix.text, lang), columns)
    if diagnosis.evidence:
        text.append(f"\n{tr(lang, 'evidence')}\n", "bold")
        for evidence in diagnosis.evidence:
            _evidence(text, evidence, columns)


def _finding(text: Text, finding: Finding, about: dict[str, dict[str, str]], lang: str, columns: int) -> None:
    facts = [finding.id, tr(lang, f"severity.{finding.severity}"), tr(lang, f"confidence.{finding.confidence}")]
    if finding.place.rank is not None:
        facts.append(tr(lang, "rank", ranks=finding.place.rank))
    if finding.times > 1:
        facts.append(tr(lang, "times", n=finding.times))
    if finding.recovered:
        facts.append(tr(lang, "recovered"))
    _heading(text, finding.severity, outside(pick(finding.title, lang)), facts, columns)
    _block(text, "!", pick(finding.why, lang), columns)
    _block(text, tr(lang, "cause"), pick(about.get("cause", {}), lang), columns)
    _block(text, tr(lang, "next"), pick(about.get("next", {}), lang), columns)
    _block(text, tr(lang, "fix"), pick(about.get("fix", {}), lang), columns)
    shown = [e for e in finding.evidence if e.text]
    if shown:
        text.append(f"\n{tr(lang, 'evidence')}\n", "bold")
        for evidence in shown:
            _evidence(text, evidence, columns)
