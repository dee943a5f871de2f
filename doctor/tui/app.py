"""The application: languages, pastes, and the one diagnosis that may run at a time."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from doctor import crash, engine
from doctor.checkup import Step
from doctor.hosts.base import Host
from doctor.hosts.recording import RecordingError
from doctor.i18n import LANGUAGES, default_language, pick, tr
from doctor.model import Report, Text
from doctor.render.safe import printable
from doctor.rulebase import RuleBase, data_folder, load
from doctor.tui import apart, base, themes
from doctor.tui.base import LOW_BELOW, NARROW_BELOW, TranslatedScreen, outside
from doctor.tui.checking import Checking
from doctor.tui.files import Spool, dropped_paths
from doctor.tui.places import PLACES, RESULT
from doctor.tui.screens.home import HomeScreen, PathInput
from doctor.tui.state import State

PASTE = "<paste>"
"""The name the engine gives to pasted text."""

LARGE = 1 << 20
"""Characters from which a paste is a log wherever the cursor is: no input line could hold it."""
APART_FROM = 16 << 20
"""Bytes from which a diagnosis has a process of its own: less is read before a start would pay."""


def live_host() -> Host:
    """This machine."""
    from doctor.hosts.live import LiveHost

    return LiveHost()


class Job:
    """A running diagnosis. The worker writes ``done``, ``total`` and ``name``, the screen reads them."""

    def __init__(self, inputs: Sequence[str], pasted: str = "") -> None:
        self.inputs, self.pasted = tuple(inputs), pasted
        self.real_paths: dict[str, str] = {}
        self.name = self.inputs[0] if self.inputs else PASTE
        self.size = self.lines = 0
        self.cancel = threading.Event()
        self.done = self.total = 0
        self._began = time.monotonic()

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def spool(self, spool: Spool) -> bytes | None:
        """Keep what was pasted, and count it; its bytes. Raises OSError."""
        if not self.pasted:
            return None
        path, data = spool.write(self.pasted)
        self.pasted, self.real_paths = "", {PASTE: path}
        self.size, self.lines = len(data), data.count(b"\n") + (not data.endswith(b"\n"))
        return data

    def progress(self, done: int, total: int, name: str) -> None:
        """Called by the engine, in its thread."""
        self.done, self.total, self.name = done, total, name or self.name


class Last(NamedTuple):
    """A report to come back to. ``name``: what was diagnosed, empty for a paste; ``real_paths`` as of :class:`Job`."""

    name: str
    report: Report
    real_paths: dict[str, str]


class DoctorApp(App[None]):
    """``rules`` names another rules folder, ``host`` makes the machine to check, ``state`` is what earlier runs left.

    ``lang`` and ``ascii_only`` come before what the state says. ``glance``: the checks of the machine run from the
    start, for the home screen; else from when the machine screen is opened.
    """

    TITLE = "MindSpore Doctor"
    CSS_PATH = "doctor.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW_BELOW, "-wide")]  # noqa: RUF012 - as Textual declares it
    VERTICAL_BREAKPOINTS = [(0, "-low"), (LOW_BELOW, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "open", "tui.key.open"),
        *(Binding(one.key, one.name, f"tui.key.{one.name}", show=one.footer) for one in PLACES),
        Binding("l,f2", "language", "tui.key.language"),
        Binding("question_mark,f1", "help", "tui.key.help", key_display="?"),
        Binding("q", "quit", "tui.key.quit", show=False),
    ]

    class Done(Message):
        """A diagnosis has ended."""

        def __init__(self, job: Job, report: Report) -> None:
            super().__init__()
            self.job, self.report = job, report

    class NotSpooled(Message):
        """A paste could not be written."""

        def __init__(self, job: Job, why: str) -> None:
            super().__init__()
            self.job, self.why = job, why

    class Failed(Message):
        """The doctor itself failed; ``path`` is the saved record, empty if it could not be saved."""

        def __init__(self, job: Job, error: str, path: str) -> None:
            super().__init__()
            self.job, self.error, self.path = job, error, path

    class Checked(Message):
        """Some checks of a machine have answered, or all (a report), or they failed (an error)."""

        def __init__(
            self, checking: Checking, step: Step | None, report: Report | None = None, error: str = ""
        ) -> None:
            super().__init__()
            self.checking, self.step, self.report, self.error = checking, step, report, error

    def __init__(
        self, lang: str | None = None, rules: str | None = None, host: Callable[[], Host] = live_host,
        state: State | None = None, ascii_only: bool | None = None, glance: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.host, self.rules, self._glance = host, rules, glance
        self._harmless, self._plain = base.Harmless(), base.Plain()
        self.checking: Checking | None = None
        """the checks of the machine that was looked at last"""
        self.state = state if state is not None else State()
        kept = self.state.choices
        self.lang = next((one for one in (lang, kept.get("language")) if one in LANGUAGES), "") or default_language()
        base.use_ascii({"yes": True, "no": False}.get(kept.get("ascii", "")) if ascii_only is None else ascii_only)
        for colours in themes.THEMES.values():
            self.register_theme(colours.theme)
        self._use_theme(kept["theme"] if kept.get("theme") in themes.THEMES else themes.DEFAULT)
        self.job: Job | None = None
        self.last: Last | None = None
        """the diagnosis that was shown last"""
        self.trouble: tuple[str, dict[str, str | Text]] | None = None
        """why the last try gave no report: a text key and its values"""
        self.model_path = self.state.recall("model")
        """the file or folder that the model screen looked at last"""
        self._spool = Spool()
        self._base: RuleBase | None = None

    def on_mount(self) -> None:
        self.push_screen(HomeScreen())
        if self._glance:
            # the first picture comes first
            self.call_after_refresh(self.check_machine)

    def on_unmount(self) -> None:
        self._stop_all()
        self._spool.clear()

    def _stop_all(self) -> None:
        if self.job:
            self.job.cancel.set()
        if self.checking is not None:
            self.checking.stop()

    def tr(self, key: str, **values: Any) -> str:
        """A text of this package; ``key`` without its prefix."""
        return tr(self.lang, "tui." + key, **values)

    def say(self, text: str, *, wrong: bool = False) -> None:
        """A passing notice; never markup."""
        self.notify(text, severity="error" if wrong else "information", markup=False)

    def spool(self, text: str) -> str:
        """Keep a text as a file until the end; returns its path. Raises OSError."""
        return self._spool.write(text)[0]

    def rulebase(self) -> RuleBase:
        """The rules as they were when the last diagnosis began."""
        if self._base is None:
            self._base = load(self.rules)
        return self._base

    def rulebase_matches(self, rule: str, text: str) -> list[tuple[int, int]]:
        """Where in a line of a log a rule matches, for the eye; nothing if its expressions look at more than that."""
        from doctor.tui.matches import matches_of

        return matches_of(self.rulebase(), rule, text)

    def show_patch(self, path: str) -> None:
        """The model screen with what would mend a file."""
        from doctor.tui.screens.model import ModelScreen

        screen = ModelScreen(path, self.rules)
        self.push_screen(screen)
        screen.call_after_refresh(screen.action_tab, "patch")

    # ------------------------------------------------------------------ diagnosing

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from doctor.tui.driver import TerminalDriver

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        """A large paste goes past the widget with the focus: splitting it into lines alone would hold up the screen.
        What goes into an input line is text to look at; a log that is pasted there keeps every byte."""
        if isinstance(event, events.Paste) and not event.is_forwarded and len(event.text) > LARGE:
            self.take_paste(event.text)
            return
        if isinstance(event, events.Paste) and isinstance(line := self.focused, Input):
            log = isinstance(line, PathInput) and line.is_log(event.text)
            event = event if log else events.Paste(printable(event.text))
        await super().on_event(event)

    def on_paste(self, event: events.Paste) -> None:
        """A paste that no input line took."""
        event.stop()
        if not isinstance(self.screen, ModalScreen) or getattr(self.screen, "PASTES", False):
            self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """Diagnose pasted text; text that only names files and folders, as a terminal pastes what is dropped on it, is
        paths."""
        paths = dropped_paths(text)
        if paths:
            self.diagnose_paths(paths)
        elif text and not text.isspace():
            self._start(Job((), text))

    def diagnose_path(self, path: str) -> None:
        """Diagnose a file, folder, glob or archive."""
        self.diagnose_paths([path])

    def diagnose_paths(self, paths: Sequence[str]) -> None:
        """Diagnose several of them as one run."""
        for path in paths:
            self.state.visit(path)
        self._start(Job(paths))

    def _start(self, job: Job) -> None:
        """Stop what runs and start anew; the home screen shows how far it is."""
        self.cancel()
        self.job, self.trouble, self._base = job, None, None
        self._home()
        self.run_worker(
            partial(self._diagnose, job), thread=True, exclusive=True, group="diagnose", exit_on_error=False
        )  # fmt: skip

    def _diagnose(self, job: Job) -> None:
        try:
            paste = job.spool(self._spool)
        except OSError as error:
            self.post_message(self.NotSpooled(job, error.strerror or ""))
            return
        try:
            if job.size >= APART_FROM or _at_least(job.inputs, APART_FROM):
                kept = job.real_paths.get(PASTE, "") if paste is not None else ""
                report = apart.diagnose(job.inputs, kept, self.rules, job.cancel.is_set, job.progress)
            else:
                options = engine.Options(rules=self.rules, cancelled=job.cancel.is_set, progress=job.progress)
                report = engine.diagnose(job.inputs, options, paste=paste)
        except apart.Failed as error:
            self.post_message(self.Failed(job, str(error), error.path))
            return
        except Exception as error:
            text = printable(f"{type(error).__name__}: {error}")[:200]
            self.post_message(self.Failed(job, text, crash.save(error, "tui")))
            return
        self.post_message(self.Done(job, report))

    def on_doctor_app_done(self, message: DoctorApp.Done) -> None:
        if message.job is not self.job:
            return
        job, report, self.job = message.job, message.report, None
        if job.cancel.is_set() and not report.diagnoses:
            self.trouble = ("home.cancelled", {})
        elif not job.cancel.is_set() and engine.exit_code(report) == 2:
            seen = report.inputs[0] if report.inputs else None
            name = outside(seen.name if seen else job.name)
            self.trouble = ("home.unreadable", {"name": name, "why": seen.why if seen else ""})
        self._home()
        if self.trouble is None:
            name = "demo" if job.inputs == (_demo_folder(),) else job.inputs[0] if job.inputs else ""
            self.last = Last(name, report, job.real_paths)
            self.show_last()

    def show_last(self) -> None:
        """The diagnosis that was shown last; leaving its screen does not lose it."""
        from doctor.tui.screens.result import ResultScreen

        if self.last is not None and self.job is None:
            self.push_screen(ResultScreen(self.last.report, self.last.real_paths))

    def on_doctor_app_not_spooled(self, message: DoctorApp.NotSpooled) -> None:
        if message.job is self.job:
            self.job, self.trouble = None, ("home.no_spool", {"why": message.why})
            self._home()

    def on_doctor_app_failed(self, message: DoctorApp.Failed) -> None:
        if message.job is not self.job:
            return
        self.job = None
        self.trouble = ("home.crash", {"error": message.error, "path": message.path or "-"})
        self._home()
        self.say(self.trouble_text(), wrong=True)

    def trouble_text(self) -> str:
        """Why the last try gave no report, empty if it did."""
        if self.trouble is None:
            return ""
        key, values = self.trouble
        return self.tr(key, **{n: pick(v, self.lang) if isinstance(v, dict) else v for n, v in values.items()})

    def cancel(self) -> None:
        """Ask the running diagnosis to end; what it found so far is shown."""
        if self.job:
            self.job.cancel.set()
            self._home_screen().refresh_status()

    def _home_screen(self) -> HomeScreen:
        return next(s for s in self.screen_stack if isinstance(s, HomeScreen))

    def _home(self) -> None:
        """Close everything above the home screen."""
        while not isinstance(self.screen, HomeScreen):
            self.pop_screen()
        self._home_screen().refresh_status()
        self.refresh_bindings()

    # ------------------------------------------------------------------ the machine

    def check_machine(self, host: Callable[[], Host] | None = None, name: str = "") -> None:
        """Run all checks anew, of this machine or of another one (a recording, called ``name``)."""
        if self.checking is not None:
            self.checking.stop()
        self.checking = checking = Checking(host or self.host, name)
        self.run_worker(
            partial(self._check, checking), thread=True, exclusive=True, group="machine", exit_on_error=False
        )  # fmt: skip
        self._machine_changed()

    def check_again(self, rule: str) -> None:
        """Run one check anew; nothing happens while others run."""
        checking = self.checking
        if checking is None or checking.working or checking.run is None:
            return
        checking.repeat(rule)
        self.run_worker(
            partial(self._check, checking, rule), thread=True, exclusive=True, group="machine", exit_on_error=False
        )  # fmt: skip
        self._machine_changed()

    def _check(self, checking: Checking, rule: str = "") -> None:
        try:
            if rule:
                self.post_message(self.Checked(checking, None, checking.again(rule, self.rulebase())))
                return
            for told in checking.work(self.rulebase()):
                if isinstance(told, Report):
                    self.post_message(self.Checked(checking, None, told))
                else:
                    self.post_message(self.Checked(checking, told))
        except RecordingError as error:
            values = {"path": printable(error.path), "detail": printable(error.detail)}
            text = tr(self.lang, f"recording.{error.code}", **values).rstrip(" :：")
            self.post_message(self.Checked(checking, None, None, text))
        except Exception as error:
            crash.save(error, "tui")
            self.post_message(self.Checked(checking, None, None, f"{type(error).__name__}: {error}"))

    def on_doctor_app_checked(self, message: DoctorApp.Checked) -> None:
        checking = message.checking
        if checking is not self.checking:
            return
        if message.step is not None:
            checking.told(message.step)
        else:
            checking.ended(message.report, message.error)
        self._machine_changed()

    def _machine_changed(self) -> None:
        for screen in self.screen_stack:
            if isinstance(screen, TranslatedScreen) and screen.ready:
                screen.machine_changed()

    # ------------------------------------------------------------------ actions

    def show(self, name: str) -> None:
        """Open one of the places, unless it is open. That its module fails to load is a notice, not the end."""
        place = next(one for one in PLACES if one.name == name)
        try:
            screen = place.load()
            if not isinstance(self.screen, screen):
                self.push_screen(screen.opened(self))
        except Exception as error:
            self.broke(error)

    def broke(self, error: BaseException) -> None:
        """A part failed: a saved record and a notice; the rest goes on."""
        path = crash.save(error, "tui")
        text = printable(f"{type(error).__name__}: {error}")[:200]
        self.say(self.tr("home.crash", error=text, path=path or "-"), wrong=True)

    def action_open(self) -> None:
        """Choose a file or folder."""
        from doctor.tui.screens.open import OpenScreen

        if not isinstance(self.screen, OpenScreen):
            # where the last one was, also in an earlier run
            start = os.path.dirname(self.state.recent[0]) if self.state.recent else ""
            start = start if os.path.isdir(start) else os.getcwd()
            screen = OpenScreen(start, several=self.diagnose_paths)
            self.push_screen(screen, lambda path: self.diagnose_path(path) if path else None)

    def action_demo(self) -> None:
        """Diagnose the shipped sample run."""
        self._start(Job((_demo_folder(),)))

    def action_machine(self) -> None:
        """The checks of this machine."""
        self.show("machine")

    def action_model(self) -> None:
        """The checks of configurations, and their patches."""
        self.show("model")

    def action_smoke(self) -> None:
        """Train the reference layer."""
        self.show("smoke")

    def action_watch(self) -> None:
        """Follow a live run."""
        self.show("watch")

    def action_checks(self) -> None:
        """What can be judged, and the rules."""
        self.show("checks")

    def action_new_rule(self, line: str = "", level: str = "", context: str = "") -> None:
        """Make a rule of a log line. ``level``: that of its record, ``context``: where it was seen."""
        from doctor.tui.screens.checks import ChecksScreen

        if isinstance(self.screen, ChecksScreen):
            self.screen.write_from(line, level, context)
        else:
            self.push_screen(ChecksScreen((line, level, context)))

    def action_help(self) -> None:
        """The keys."""
        from doctor.tui.screens.help import HelpScreen

        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen([place.load().KEY_SECTION for place in (RESULT, *PLACES)]))

    def action_language(self) -> None:
        """The next language, everywhere at once."""
        self.lang = LANGUAGES[(LANGUAGES.index(self.lang) + 1) % len(LANGUAGES)]
        self.state.choose("language", self.lang)
        self._retranslate()

    def action_ascii(self) -> None:
        """Marks and frames in ASCII, or in Unicode, everywhere at once."""
        base.use_ascii(not base.ascii_only())
        self.state.choose("ascii", "yes" if base.ascii_only() else "no")
        self._retranslate()
        # what is drawn already, such as scroll bars, is kept until it changes
        self.refresh_css(animate=False)

    def _retranslate(self) -> None:
        from textual.widgets import Tree

        for screen in self.screen_stack:
            if isinstance(screen, TranslatedScreen) and screen.ready:
                screen.set_class(base.ascii_only(), "-ascii")
                for tree in screen.query(Tree):
                    base.tree_marks(tree)
                screen.retranslate()
                screen.refresh_bindings()

    def action_theme(self) -> None:
        """The next of dark, light and high contrast."""
        names = list(themes.THEMES)
        self._use_theme(names[(names.index(self.theme) + 1) % len(names)])
        self.state.choose("theme", self.theme)
        # texts keep the colours that stood for named ones when they were set
        self._retranslate()
        self.say(self.tr(f"theme.{self.theme.removeprefix('doctor-')}"))

    def _use_theme(self, name: str) -> None:
        self.ansi_theme_dark = self.ansi_theme_light = themes.THEMES[name].ansi
        # one object for as long as the theme: strips remember what a filter made of them
        self._dim = themes.Dim(themes.THEMES[name].dim)
        self.theme = name

    def get_line_filters(self) -> Sequence[LineFilter]:
        plain = [self._plain] if base.ascii_only() else []
        return [self._harmless, *plain, self._dim, *super().get_line_filters()]

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder=self.tr("palette.search"), id="--command-palette"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action there is, in the language of the moment."""
        here = screen.commands() if isinstance(screen, TranslatedScreen) else []
        everywhere: list[tuple[str, Any]] = [
            ("open", self.action_open), ("demo", self.action_demo),
            *((place.name, partial(self.show, place.name)) for place in PLACES),
            ("language", self.action_language), ("theme", self.action_theme), ("ascii", self.action_ascii),
            ("forget", self.action_forget), ("help", self.action_help), ("quit", self.action_quit),
        ]  # fmt: skip
        for name, action in (*here, *everywhere):
            yield SystemCommand(self.tr(f"key.{name}"), self.tr(f"about.{name}"), action)

    def action_forget(self) -> None:
        """Forget the inputs and paths of earlier runs."""
        self.state.forget()
        self.say(self.tr("forgotten"))

    async def action_quit(self) -> None:
        """Leave; what runs is stopped first, or the process would wait for it."""
        self._stop_all()
        self.exit()

    def _fatal_error(self) -> None:
        """A failure of the screen itself: a saved record and one sentence, no traceback; the return code is 3."""
        error = sys.exc_info()[1] or self._exception
        path = crash.save(error, "tui") if error else ""
        text = printable(f"{type(error).__name__}: {error}")[:200]
        self._return_code = 3
        self._exit_renderables.append(tr(self.lang, "crash", error=text, path=path or "-"))
        self._close_messages_no_wait()


def _demo_folder() -> str:
    """The shipped sample run, as it is named from here."""
    folder = data_folder(os.path.join("fixtures", "demo"))
    return os.path.relpath(folder) if os.path.isdir(folder) else folder


def _at_least(inputs: Sequence[str], limit: int) -> bool:
    """Whether files and folders named hold that many bytes; globs are taken for large."""
    total = 0
    for name in inputs:
        if not os.path.exists(name):
            return True
        for folder, _, files in os.walk(name):
            for file in files:
                try:
                    total += os.stat(os.path.join(folder, file)).st_size
                except OSError:
                    continue
                if total >= limit:
                    return True
        if os.path.isfile(name):
            total += os.path.getsize(name)
    return total >= limit
