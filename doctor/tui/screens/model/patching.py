"""Patches: what would mend the findings of a file; taken or left, compared line by line."""

from __future__ import annotations

import os
import threading
from typing import ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from doctor.fixcli import why_text
from doctor.i18n import pick, tr
from doctor.model import Finding
from doctor.patch.propose import Options
from doctor.render.text import STYLES, mark
from doctor.tui import configs
from doctor.tui.base import ascii_only, outside
from doctor.tui.screens.model.page import Page, crashed, hanging
from doctor.tui.widgets.choices import Choices
from doctor.tui.widgets.diffview import DiffView


class ProposalList(Choices):
    """Space takes as Enter does."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", "tui.key.take", show=False)]


class PatchPage(Page):
    """The proposals for the file at hand. ``writing``: a patch is being written, nothing may change meanwhile."""

    class Offered(Message):
        """The proposals for a file are known."""

        def __init__(self, cancel: threading.Event, offer: configs.Offer | None, error: str = "") -> None:
            super().__init__()
            self.cancel, self.offer, self.error = cancel, offer, error

    class Composed(Message):
        """The patch of what was taken is known; ``number`` tells which answer it is."""

        def __init__(self, number: int, taken: configs.Taken | None, error: str = "") -> None:
            super().__init__()
            self.number, self.taken, self.error = number, taken, error

    class Failed(Message):
        """The doctor itself failed."""

        def __init__(self, error: str) -> None:
            super().__init__()
            self.error = error

    def __init__(self, rules: str | None, id: str | None = None) -> None:
        super().__init__(id=id)
        self.writing = False
        self.aliases = False
        self.taken: configs.Taken | None = None
        self._rules = rules
        self._file = ""
        self._seen: configs.Seen | None = None
        self._finding: Finding | None = None
        self._offering: threading.Event | None = None
        self._offering_for: tuple[str, configs.Stamp, bool] | None = None
        self._offer_cut = False
        self._offer: configs.Offer | None = None
        self._picks: dict[int, int] = {}
        self._asked = 0

    def compose(self) -> ComposeResult:
        yield Static(id="patch-note", markup=False)
        yield ProposalList(id="proposals")
        yield DiffView(id="diff")

    def on_unmount(self) -> None:
        self.stop()

    @property
    def searching(self) -> bool:
        """Whether proposals are being looked for."""
        return self._offering is not None and not self._offering.is_set()

    def stop(self) -> None:
        """Leave it at the proposals found so far."""
        if self._offering is not None:
            self._offering.set()

    def forget(self) -> None:
        """What was offered is no longer true."""
        self._offer, self.taken = None, None

    def show(self, path: str, seen: configs.Seen | None, finding: Finding | None) -> None:
        """Another file; the cursor goes to the proposals for a finding."""
        if path != self._file:
            self._picks = {}
        self._file, self._seen, self._finding = path, seen, finding
        self.want()
        self.lay_out()

    def want(self) -> None:
        """Ask for the proposals of the file at hand, if they are not known."""
        if not self._file or self.writing:
            return
        now = (self._file, configs.stamp(self._file), self.aliases)
        if self._offer is not None and now == (self._offer.path, self._offer.stamp, self._offer.aliases):
            return
        if self._offering is not None:
            if now == self._offering_for:
                return
            self._offering.set()
        self._offering_for, self._offer_cut = now, False
        self._offering, self._offer, self.taken, self._picks = threading.Event(), None, None, {}
        self.query_one(DiffView).show(())
        self._find(self._offering, self._file, Options(aliases=self.aliases, rules=self._rules))
        self.screen.refresh_bindings()

    @work(thread=True, exclusive=True, group="offer", exit_on_error=False)
    def _find(self, cancel: threading.Event, path: str, options: Options) -> None:
        try:
            offer = configs.offer(path, self.doctor.rulebase(), options, cancel.is_set)
        except Exception as error:
            self.post_message(self.Offered(cancel, None, crashed(error)))
            return
        self.post_message(self.Offered(cancel, offer))

    @on(Offered)
    def _offered(self, event: Offered) -> None:
        if event.cancel is not self._offering:
            return
        self._offering = None
        self.screen.refresh_bindings()
        self._offer, self._offer_cut = event.offer, event.cancel.is_set()
        if event.offer is not None:
            self._picks = configs.first_picks(event.offer.proposals)
            self.compose_patch()
        if event.error:
            self.post_message(self.Failed(event.error))
        self.lay_out(first=True)

    def compose_patch(self) -> None:
        """Work out the patch of what is taken."""
        if self._offer is None:
            return
        self._asked += 1
        self.taken = None
        options = Options(aliases=self.aliases, rules=self._rules)
        self._take(self._asked, self._offer, dict(self._picks), options)

    @work(thread=True, exclusive=True, group="patch", exit_on_error=False)
    def _take(self, number: int, offer: configs.Offer, picks: dict[int, int], options: Options) -> None:
        try:
            taken = configs.take(offer.proposals, picks, options)
        except Exception as error:
            self.post_message(self.Composed(number, None, crashed(error)))
            return
        self.post_message(self.Composed(number, taken))

    @on(Composed)
    def _composed(self, event: Composed) -> None:
        if event.number != self._asked or self._offer is None:
            return
        self.taken = event.taken
        if event.error:
            self.post_message(self.Failed(event.error))
        self.query_one(DiffView).show(event.taken.rows if event.taken is not None else ())
        self.lay_out()

    def lay_out(self, first: bool = False) -> None:
        """The rows of the proposals, each of their choices on a row of its own."""
        rows = self.query_one(ProposalList)
        at = rows.highlighted
        rows.clear_options()
        self.query_one("#patch-note", Static).update(self._patch_note())
        if self._offer is None:
            return
        columns = max(30, rows.scrollable_content_region.width - 4)
        start = None
        for n, one in enumerate(self._offer.proposals):
            if start is None and self._finding is not None and one.finding.id == self._finding.id:
                start = rows.option_count
            rows.add_option(Option(self._proposal_text(n, columns), id=str(n)))
            for c, choice in enumerate(one.choices):
                words = pick(choice.text, self.doctor.lang)
                taken = "(*)" if self._picks.get(n) == c else "( )"
                label = outside(f"{choice.label}  {words}".rstrip())
                text = hanging(f"      {taken} {c + 1}) ", label, columns)
                rows.add_option(Option(text, id=f"{n}.{c}"))
        if rows.option_count:
            rows.highlighted = (start or 0) if first or at is None else min(at, rows.option_count - 1)

    def _proposal_text(self, n: int, columns: int) -> Text:
        assert self._offer is not None
        one, lang = self._offer.proposals[n], self.doctor.lang
        box = " - " if not configs.takeable(one) else "[x]" if n in self._picks else "[ ]"
        title = outside(pick(one.finding.title, lang))
        head = f"{box} {mark(one.finding.severity, ascii_only())} {one.fix.id}  "
        text = hanging(head, title, columns)
        text.stylize(STYLES[one.finding.severity], 0, len(head))
        notes = [(outside(pick(one.fix.text, lang)), "")]
        decision = self.taken.decisions.get(n) if self.taken is not None else None
        refused = one.why or (decision.why if decision is not None else None)
        if refused is not None:
            notes.append((tr(lang, "fix.state.refused") + " " + outside(why_text(lang, refused)), "bold yellow"))
        elif one.choices:
            notes.append((self.tr("model.several"), "cyan"))
        elif not configs.takeable(one):
            notes.append((tr(lang, "fix.state.display"), "dim"))
        elif one.fix.applicability != "safe":
            notes.append((self.tr("model.unsafe"), "yellow"))
        for words, style in notes:
            if words.strip():
                text.append("\n")
                text.append_text(hanging("      ", words, columns, style))
        return text

    def _patch_note(self) -> Text:
        name = outside(os.path.basename(self._file))
        seen = self._seen
        if seen is not None and seen.why:
            return Text(self.no_plan(seen))
        if self._offer is None:
            return Text(
                self.tr("model.offering", name=name) if self._offering is not None else self.tr("model.no_file")
            )
        if self._offer_cut:
            return Text(self.tr("model.offer_cut", name=name), "bold yellow")
        if not self._offer.proposals:
            key = "model.no_fix" if seen is not None and seen.failed() else "model.well"
            return Text(self.tr(key, name=name))
        if self.taken is None:
            return Text(self.tr("model.composing"))
        files = self.taken.patch.files if self.taken.patch is not None else ()
        note = Text(self.tr("model.taken", n=sum(len(f.changes) for f in files), name=name))
        if not files:
            note = Text(self.tr("model.take_some", name=name))
        also = [key for file in files for key in file.also]
        if also:
            note.append("  " + tr(self.doctor.lang, "fix.also", keys=outside(", ".join(also[:12]))), "bold yellow")
        return note

    @on(OptionList.OptionSelected, "#proposals")
    def _picked(self, event: OptionList.OptionSelected) -> None:
        if self._offer is None or self.writing:
            return
        number, _, choice = str(event.option.id).partition(".")
        n = int(number)
        one = self._offer.proposals[n]
        if not configs.takeable(one):
            why = (
                why_text(self.doctor.lang, one.why)
                if one.why is not None
                else tr(self.doctor.lang, "fix.state.display")
            )
            self.doctor.say(outside(why))
            return
        if not choice and len(one.choices) > 1 and n not in self._picks:
            # which way is the user's to say
            self.query_one(ProposalList).action_cursor_down()
            self.doctor.say(self.tr("model.which"))
            return
        wanted = int(choice or 0)
        if n in self._picks and (not choice or self._picks[n] == wanted):
            del self._picks[n]
        else:
            for other in [k for k in self._picks if self._offer.proposals[k].finding is one.finding]:
                del self._picks[other]
            self._picks[n] = wanted
        self.compose_patch()
        self.lay_out()
