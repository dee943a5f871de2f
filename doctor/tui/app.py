"""The application: languages, pastes, and the one diagnosis that may run at a time."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import events
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen

from doctor import crash, engine
from doctor.hosts.base import Host
from doctor.i18n import LANGUAGES, default_language, pick, tr
from doctor.model import Report, Text
from doctor.render.safe import printable
from doctor.rulebase import RuleBase, data_folder, load
from doctor.tui.base import NARROW_BELOW, TranslatedScreen, outside
from doctor.tui.files import Spool, dropped_paths
from doctor.tui.screens.checks import ChecksScreen
from doctor.tui.screens.help import HelpScreen
from doctor.tui.screens.home import HomeScreen
from doctor.tui.screens.machine import MachineScreen, live_host
from doctor.tui.screens.model import ModelScreen
from doctor.tui.screens.open import OpenScreen
from doctor.tui.screens.result import ResultScreen
from doctor.tui.screens.smoke import SmokeScreen
from doctor.tui.screens.watch import WatchScreen

PASTE = "<paste>"
"""The name the engine gives to pasted text."""

LARGE = 1 << 20
"""Characters from which a paste is a log wherever the cursor is: no input line could hold it."""


SCREENS = (ResultScreen, MachineScreen, ModelScreen, SmokeScreen, ChecksScreen, WatchScreen)
"""Those that the help tells of, besides the one below it."""


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


class DoctorApp(App[None]):
    """``rules`` names another rules folder, ``host`` makes the machine to check."""

    TITLE = "MindSpore Doctor"
    CSS_PATH = "doctor.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (NARROW_BELOW, "-wide")]  # noqa: RUF012 - as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "open", "tui.key.open"),
        Binding("e", "machine", "tui.key.machine"),
        Binding("m", "model", "tui.key.model", show=False),
        Binding("t", "smoke", "tui.key.smoke", show=False),
        Binding("w", "watch", "tui.key.watch", show=False),
        Binding("k", "checks", "tui.key.checks"),
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

    def __init__(self, lang: str | None = None, rules: str | None = None, host: Callable[[], Host] = live_host) -> None:
        super().__init__()
        self._host = host
        self.lang = lang if lang in LANGUAGES else default_language()
        self.job: Job | None = None
        self.trouble: tuple[str, dict[str, str | Text]] | None = None
        """why the last try gave no report: a text key and its values"""
        self.model_path = ""
        """the file or folder that the model screen looked at last"""
        self._rules = rules
        self._spool = Spool()
        self._base: RuleBase | None = None

    def on_mount(self) -> None:
        self.push_screen(HomeScreen())

    def on_unmount(self) -> None:
        if self.job:
            self.job.cancel.set()
        self._spool.clear()

    def tr(self, key: str, **values: Any) -> str:
        """A text of this package; ``key`` without its prefix."""
        return tr(self.lang, "tui." + key, **values)

    def say(self, text: str, *, wrong: bool = False) -> None:
        """A passing notice; never markup."""
        self.notify(text, severity="error" if wrong else "information", markup=False)

    def rulebase(self) -> RuleBase:
        """The rules as they were when the last diagnosis began."""
        if self._base is None:
            self._base = load(self._rules)
        return self._base

    # ------------------------------------------------------------------ diagnosing

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        if chosen.__name__ != "LinuxDriver":
            return chosen
        from doctor.tui.driver import TerminalDriver

        return TerminalDriver

    async def on_event(self, event: events.Event) -> None:
        """A large paste goes past the widget with the focus: splitting it into lines alone would hold up the screen."""
        if isinstance(event, events.Paste) and not event.is_forwarded and len(event.text) > LARGE:
            self.take_paste(event.text)
            return
        await super().on_event(event)

    def on_paste(self, event: events.Paste) -> None:
        """A paste that no input line took."""
        event.stop()
        self.take_paste(event.text)

    def take_paste(self, text: str) -> None:
        """Diagnose pasted text; text that only names files and folders, as a terminal pastes what is dropped on it, is
        paths."""
        paths = dropped_paths(text)
        if paths:
            self._start(Job(paths))
        elif text and not text.isspace():
            self._start(Job((), text))

    def diagnose_path(self, path: str) -> None:
        """Diagnose a file, folder, glob or archive."""
        self.diagnose_paths([path])

    def diagnose_paths(self, paths: Sequence[str]) -> None:
        """Diagnose several of them as one run."""
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
            _ready_for_processes(job.inputs)
            options = engine.Options(rules=self._rules, cancelled=job.cancel.is_set, progress=job.progress)
            report = engine.diagnose(job.inputs, options, paste=paste)
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
            self.push_screen(ResultScreen(report, job.real_paths))

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

    # ------------------------------------------------------------------ actions

    def action_open(self) -> None:
        """Choose a file or folder."""
        if not isinstance(self.screen, OpenScreen):
            self.push_screen(OpenScreen(os.getcwd()), lambda path: self.diagnose_path(path) if path else None)

    def action_demo(self) -> None:
        """Diagnose the shipped sample run."""
        folder = data_folder(os.path.join("fixtures", "demo"))
        self.diagnose_path(os.path.relpath(folder) if os.path.isdir(folder) else folder)

    def action_machine(self) -> None:
        """The checks of this machine."""
        if not isinstance(self.screen, MachineScreen):
            self.push_screen(MachineScreen(self._host))

    def action_model(self) -> None:
        """The checks of configurations, and their patches."""
        if not isinstance(self.screen, ModelScreen):
            self.push_screen(ModelScreen(self.model_path, self._rules))

    def action_smoke(self) -> None:
        """Train the reference layer."""
        if not isinstance(self.screen, SmokeScreen):
            self.push_screen(SmokeScreen())

    def action_watch(self) -> None:
        """Follow a live run."""
        if not isinstance(self.screen, WatchScreen):
            self.push_screen(WatchScreen(rules=self._rules))

    def action_checks(self) -> None:
        """What can be judged, and the rules."""
        if not isinstance(self.screen, ChecksScreen):
            self.push_screen(ChecksScreen())

    def action_help(self) -> None:
        """The keys."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen([s.KEY_SECTION for s in SCREENS]))

    def action_language(self) -> None:
        """The next language, everywhere at once."""
        self.lang = LANGUAGES[(LANGUAGES.index(self.lang) + 1) % len(LANGUAGES)]
        for screen in self.screen_stack:
            if isinstance(screen, TranslatedScreen):
                screen.retranslate()
                screen.refresh_bindings()

    def action_theme(self) -> None:
        """Dark or light."""
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(CommandPalette(placeholder=self.tr("palette.search"), id="--command-palette"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Every action there is, in the language of the moment."""
        here = screen.commands() if isinstance(screen, TranslatedScreen) else []
        everywhere: list[tuple[str, Any]] = [
            ("open", self.action_open), ("demo", self.action_demo), ("machine", self.action_machine),
            ("model", self.action_model), ("smoke", self.action_smoke),
            ("watch", self.action_watch), ("checks", self.action_checks),
            ("language", self.action_language), ("theme", self.action_theme), ("help", self.action_help),
            ("quit", self.action_quit),
        ]  # fmt: skip
        for name, action in (*here, *everywhere):
            yield SystemCommand(self.tr(f"key.{name}"), self.tr(f"about.{name}"), action)

    async def action_quit(self) -> None:
        """Leave; a running diagnosis is stopped first, or the process would wait for it."""
        if self.job:
            self.job.cancel.set()
        self.exit()

    def _fatal_error(self) -> None:
        """A failure of the screen itself: a saved record and one sentence, no traceback; the return code is 3."""
        error = sys.exc_info()[1] or self._exception
        path = crash.save(error, "tui") if error else ""
        text = printable(f"{type(error).__name__}: {error}")[:200]
        self._return_code = 3
        self._exit_renderables.append(tr(self.lang, "crash", error=text, path=path or "-"))
        self._close_messages_no_wait()


def _ready_for_processes(inputs: Sequence[str]) -> None:
    """Start multiprocessing's helper process if the engine may want processes.

    Textual puts an object in place of stderr that has no file descriptor, which that start does not survive; so it is
    done here with the real one.
    """
    if (os.cpu_count() or 1) < 2 or not _at_least(inputs, engine.PARALLEL_FROM):
        return
    from multiprocessing import resource_tracker

    held, sys.stderr = sys.stderr, sys.__stderr__
    try:
        resource_tracker.ensure_running()
    finally:
        sys.stderr = held


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
