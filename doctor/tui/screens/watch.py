"""A live run: where its ranks are, the loss and the step time as they come, and the alarms."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.cells import cell_len
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, VerticalScroll
from textual.message import Message
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from doctor import crash, engine
from doctor.i18n import pick, tr
from doctor.model import Report
from doctor.render.safe import printable
from doctor.render.text import STYLES, mark
from doctor.tui.base import TranslatedScreen, ascii_only, outside, wrap
from doctor.tui.screens.open import OpenScreen
from doctor.tui.screens.result import ResultScreen
from doctor.tui.screens.save import copy, save
from doctor.tui.widgets.choices import Choices
from doctor.watch import Options, Watcher, show

INTERVAL = 1.0
"""Seconds between two looks."""

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


class Warned(NamedTuple):
    """An alarm as it was at one moment; the watcher changes its own in another thread."""

    rule: str
    severity: str
    state: str
    old: bool
    at: float
    line: dict[str, str]
    brief: dict[str, str]
    """the line without its place"""
    cause: dict[str, str]
    next: dict[str, str]
    evidence: str


class View(NamedTuple):
    """What the screen shows, made by the thread that watches."""

    head: show.Line
    table: list[show.Line]
    loss: tuple[str, list[str]]
    pace: tuple[str, list[str]]
    alarms: tuple[Warned, ...]
    report: Report | None


class Shape:
    """Language and room, told by the screen to the thread that watches."""

    def __init__(self) -> None:
        self.lang, self.columns, self.ranks = "en", 60, 8


class WatchScreen(TranslatedScreen[None]):
    """``path`` is the folder to follow; without one the screen asks. ``interval``: seconds between two looks."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "full", "tui.key.full"),
        Binding("p", "pause", "tui.key.pause"),
        Binding("f", "choose", "tui.key.choose"),
        Binding("c", "copy", "tui.key.copy"),
        Binding("s", "save", "tui.key.save", show=False),
        Binding("escape", "back", "tui.key.back"),
        # where they stand they leave no room for the keys of this screen
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("full", "pause", "copy", "save", "back")
    KEY_SECTION = ("help.watch", (
        ("Enter", "key.alarm"), ("d", "key.full"), ("p", "key.pause"), ("f", "key.choose"), ("Esc", "key.end_watch"),
    ))  # fmt: skip

    class Told(Message):
        """The run as it is now."""

        def __init__(self, halt: threading.Event, view: View) -> None:
            super().__init__()
            self.halt, self.view = halt, view

    class Ended(Message):
        """The watch is over; ``error`` says why if it failed."""

        def __init__(self, halt: threading.Event, error: str = "") -> None:
            super().__init__()
            self.halt, self.error = halt, error

    class Diagnosed(Message):
        """The full diagnosis that was asked for, or why there is none."""

        def __init__(self, report: Report | None, error: str = "") -> None:
            super().__init__()
            self.report, self.error = report, error

    @classmethod
    def opened(cls, app: DoctorApp) -> WatchScreen:
        return cls(rules=app.rules)

    def __init__(
        self, path: str = "", rules: str | None = None, interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__()
        self.path = path
        self._rules, self._interval, self._clock = rules, interval, clock
        self._halt: threading.Event | None = None
        self._paused = threading.Event()
        self._wake = threading.Event()
        self._shape = Shape()
        self._view: View | None = None
        self._error = ""
        self._diagnosing: threading.Event | None = None
        self._shown: list[str] = []  # rules of the alarms in the order of the list

    def compose(self) -> ComposeResult:
        yield Static(id="watch-head", markup=False)
        with Container(id="watch-panes"):
            with VerticalScroll(id="watch-live"):
                yield Static(id="watch-ranks", markup=False)
                yield Static(id="watch-loss", markup=False)
                yield Static(id="watch-pace", markup=False)
            with Container(id="watch-right"):
                yield Choices(id="watch-alarms", markup=False)
                with VerticalScroll(id="watch-detail"):
                    yield Static(id="watch-text", markup=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one(OptionList))
        if self.path:
            self.follow(self.path)
        else:
            self.action_choose()

    def on_unmount(self) -> None:
        for event in (self._halt, self._diagnosing):
            if event is not None:
                event.set()
        self._wake.set()

    # ------------------------------------------------------------------ watching

    @property
    def running(self) -> bool:
        """Whether a run is followed."""
        return self._halt is not None

    def follow(self, path: str) -> None:
        """Follow what is under a path."""
        if self._halt is not None:
            self._halt.set()
            self._wake.set()
        self.path, self._view, self._error, self._shown = path, None, "", []
        self._paused.clear()
        self._halt = threading.Event()
        self._wake = threading.Event()
        self._watch(self._halt, self._wake, path)
        self.retranslate()

    @work(thread=True, group="watch", exit_on_error=False)
    def _watch(self, halt: threading.Event, wake: threading.Event, path: str) -> None:
        error = ""
        try:
            watcher = Watcher([path], Options(rules=self._rules, cancelled=halt.is_set, clock=self._clock))
            while not halt.is_set():
                if not self._paused.is_set():
                    watcher.poll()
                self.post_message(self.Told(halt, self._look(watcher)))
                if not watcher.behind or self._paused.is_set():
                    wake.wait(self._interval)
                    wake.clear()
        except Exception as failure:
            crash.save(failure, "tui")
            error = printable(f"{type(failure).__name__}: {failure}")[:200]
        self.post_message(self.Ended(halt, error))

    def _look(self, watcher: Watcher) -> View:
        """The run as the screen shows it."""
        state, shape, plain = watcher.state(), self._shape, ascii_only()
        warned = tuple(
            Warned(
                a.rule, a.severity, a.state, a.old, a.at,
                {lang: show.alarm_text(a, lang) for lang in a.title},
                {lang: show.alarm_text(a, lang, place=False) for lang in a.title}, dict(a.cause), dict(a.next),
                a.evidence[0].text if a.evidence else "",
            )
            for a in sorted(state.alarms, key=lambda a: (not a.counts, -a.at))
        )  # fmt: skip
        return View(
            show.head(state, shape.lang), show.table(state, shape.lang, shape.columns, shape.ranks),
            show.drawing(state, "loss", shape.columns, plain), show.drawing(state, "step_time", shape.columns, plain),
            warned, watcher.so_far(interrupted=False) if watcher.report is not None else None,
        )  # fmt: skip

    @on(Told)
    def _told(self, event: Told) -> None:
        if event.halt is self._halt:
            first = self._view is None
            self._view = event.view
            self._draw()
            if first:
                self.refresh_bindings()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.halt is self._halt:
            self._halt, self._error = None, event.error
            self._draw()
            self.refresh_bindings()

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        self.query_one(OptionList).border_title = Text(self.tr("watch.alarms"))
        self._wake.set()
        self._draw()
        self.refresh_bindings()

    def on_resize(self) -> None:
        self.call_after_refresh(self.retranslate)

    def _measure(self) -> None:
        """What the next look is drawn for: known once the panes have their sizes, which nobody tells the screen."""
        shape = self._shape
        before = (shape.lang, shape.columns, shape.ranks)
        width = self.query_one("#watch-live").scrollable_content_region.width
        shape.lang, shape.columns = self.doctor.lang, max(30, width - 1) if width else 60
        shape.ranks = 4 if self.app.size.height < 30 else 8
        if before != (shape.lang, shape.columns, shape.ranks):
            self._wake.set()

    def _draw(self) -> None:
        self._measure()
        view, lang = self._view, self.doctor.lang
        head = Text(no_wrap=True, overflow="ellipsis")
        if self._error:
            head.append(outside(self._error), "bold red")
        elif self.running:
            head.append(self.tr("watch.paused" if self._paused.is_set() else "watch.running"), "bold")
        else:
            head.append(self.tr("watch.ended" if view else "watch.about"), "bold")
        if self.path:
            head.append("  " + outside(self.path))
        for style, piece in view.head if view else ():
            head.append("  " + piece, style or "dim")
        self.query_one("#watch-head", Static).update(head)
        self.query_one("#watch-ranks", Static).update(_text(view.table if view else []))
        for name, series in (("loss", "series.loss"), ("pace", "series.step_time")):
            newest, lines = getattr(view, name) if view else ("", [])
            page = Text(no_wrap=True)
            if lines:
                page.append(f"\n{tr(lang, series)} {newest}{' ms' if name == 'pace' else ''}\n", "bold")
                page.append("\n".join(lines), "cyan")
            self.query_one(f"#watch-{name}", Static).update(page)
        self._draw_alarms()

    def _draw_alarms(self) -> None:
        listing, view, lang = self.query_one(OptionList), self._view, self.doctor.lang
        alarms = view.alarms if view else ()
        prompts = [self._prompt(alarm, lang) for alarm in alarms]
        rules = [alarm.rule for alarm in alarms]
        if rules == self._shown:
            for number, prompt in enumerate(prompts):
                if listing.get_option_at_index(number).prompt != prompt:
                    listing.replace_option_prompt_at_index(number, prompt)
        else:
            at = listing.highlighted
            held = self._shown[at] if at is not None and at < len(self._shown) else ""
            listing.clear_options()
            listing.add_options([Option(prompt) for prompt in prompts])
            self._shown = rules
            if rules:
                # a new alarm is looked at, unless somebody is reading another one
                listing.highlighted = rules.index(held) if held in rules and at else 0
        self._explain()

    def _prompt(self, alarm: Warned, lang: str) -> Text:
        active = alarm.state == "active"
        sign = mark(alarm.severity, ascii_only()) if active else "-"
        tail = "" if active else f" [{tr(lang, 'watch.event.' + alarm.state)}]"
        tail += f" ({tr(lang, 'watch.old')})" if alarm.old else ""
        room = self.query_one(OptionList).scrollable_content_region.width - 11
        words = show.cut(pick(alarm.brief, lang), max(20, room - cell_len(tail)))
        text = Text(no_wrap=True)
        text.append(f"{sign} ", STYLES[alarm.severity] if active else "dim")
        text.append(time.strftime("%H:%M:%S ", time.localtime(alarm.at)), "dim")
        text.append(words, "" if active else "dim")
        text.append(tail, "dim")
        return text

    def _chosen(self) -> Warned | None:
        """The alarm under the cursor."""
        at = self.query_one(OptionList).highlighted
        alarms = self._view.alarms if self._view else ()
        return alarms[at] if at is not None and at < len(alarms) else None

    def _explain(self) -> None:
        """What to do about the alarm under the cursor."""
        alarm, lang = self._chosen(), self.doctor.lang
        text = Text()
        if alarm is None:
            text.append(self.tr("watch.calm") if self._view else "", "green")
        else:
            width = max(20, self.query_one("#watch-detail").scrollable_content_region.width - 1)
            text.append("\n".join(wrap(outside(pick(alarm.line, lang)), width)) + "\n", STYLES[alarm.severity])
            if alarm.evidence:
                text.append("\n".join(wrap("> " + outside(alarm.evidence)[:600], width)) + "\n", "dim")
            for key, words in (("cause", alarm.cause), ("next", alarm.next)):
                text.append(f"\n{tr(lang, key)}\n", "bold")
                text.append("\n".join(wrap(outside(pick(words, lang)), width)) + "\n")
        self.query_one("#watch-text", Static).update(text)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self) -> None:
        self._explain()

    # ------------------------------------------------------------------ actions

    def label(self, name: str) -> str:
        if name != "tui.key.back" or not (self.running or self._diagnosing is not None):
            return name
        return "tui.key.cancel" if self._diagnosing is not None else "tui.key.end_run"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy", "save"):
            return self._view is not None and self._view.report is not None
        if action == "pause":
            return self.running
        if action == "full":
            return bool(self.path)
        return True

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        """The diagnosis behind an alarm, at its evidence."""
        alarm = self._chosen()
        report = self._view.report if self._view else None
        if alarm is None or report is None:
            return
        below = {report.findings[n].id: d.rule for d in report.diagnoses for n in d.consequences}
        rule = alarm.rule if any(d.rule == alarm.rule for d in report.diagnoses) else below.get(alarm.rule, "")
        if rule:
            self.app.push_screen(ResultScreen(report, {}, rule))
        else:
            self.doctor.say(self.tr("watch.no_diagnosis"))

    def action_choose(self) -> None:
        """Choose a folder."""
        if isinstance(self.app.screen, OpenScreen):
            return
        start = self.path if os.path.isdir(self.path) else os.path.dirname(self.path) or os.getcwd()
        chosen: Callable[[str | None], None] = lambda path: self.follow(path) if path else None  # noqa: E731
        self.app.push_screen(OpenScreen(start if os.path.isdir(start) else os.getcwd(), "watch.open"), chosen)

    def action_pause(self) -> None:
        """Stop looking, or go on."""
        if not self.running:
            return
        if self._paused.is_set():
            self._paused.clear()
        else:
            self._paused.set()
        self._wake.set()
        self._draw()

    def action_full(self) -> None:
        """The whole diagnosis of what is there now; the watch goes on."""
        if self.path and self._diagnosing is None:
            self._diagnosing = threading.Event()
            self.refresh_bindings()
            self.doctor.say(self.tr("watch.diagnosing"))
            self._diagnose(self._diagnosing, self.path)

    @work(thread=True, exclusive=True, group="watch-diagnose", exit_on_error=False)
    def _diagnose(self, cancel: threading.Event, path: str) -> None:
        try:
            report = engine.diagnose([path], engine.Options(rules=self._rules, cancelled=cancel.is_set, jobs=1))
        except Exception as failure:
            crash.save(failure, "tui")
            self.post_message(self.Diagnosed(None, printable(f"{type(failure).__name__}: {failure}")[:200]))
            return
        if not cancel.is_set():
            self.post_message(self.Diagnosed(report))

    @on(Diagnosed)
    def _diagnosed(self, event: Diagnosed) -> None:
        self._diagnosing = None
        self.refresh_bindings()
        if event.report is None:
            self.doctor.say(outside(event.error), wrong=True)
        else:
            self.app.push_screen(ResultScreen(event.report, {}))

    def action_copy(self) -> None:
        """The report so far to the clipboard, by OSC 52."""
        if self._view is not None and self._view.report is not None:
            copy(self, self._view.report)

    def action_save(self) -> None:
        """The report so far to a file."""
        if self._view is not None and self._view.report is not None:
            save(self, self._view.report)

    def action_back(self) -> None:
        """End the diagnosis, the watch, then the screen."""
        if self._diagnosing is not None:
            self._diagnosing.set()
            self._diagnosing = None
            self.refresh_bindings()
        elif self._halt is not None:
            self._halt.set()
            self._wake.set()
        else:
            self.dismiss()


def _text(lines: list[show.Line]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for n, line in enumerate(lines):
        text.append("\n" if n else "")
        for style, piece in line:
            text.append(piece, style)
    return text
