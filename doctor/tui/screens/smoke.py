"""The smoke test: knobs, then live its stages, loss, step time and memory, then every verdict with its details."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Footer, Input, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from doctor import crash, smoke
from doctor.i18n import pick, tr
from doctor.model import Finding, Report, Verdict
from doctor.ranking import fill_both
from doctor.render.checks import mark_of
from doctor.render.text import STYLES
from doctor.render.topology import clip
from doctor.smoke import scaled, show
from doctor.smoke.runner import Target, default_python, examine, other_pythons
from doctor.smoke.settings import Settings, SettingsError, checked, from_mapping
from doctor.tui.base import TranslatedScreen, ascii_only, outside, wrap
from doctor.tui.screens.save import copy, save
from doctor.tui.widgets.causes import Item
from doctor.tui.widgets.choices import Choices
from doctor.tui.widgets.detail import Detail
from doctor.tui.widgets.smokeform import SmokeForm

BARS = ("▁▂▃▄▅▆▇█", "_.-=+*#@")
"""Levels of the loss, lowest first; the second row for terminals without Unicode."""

CURVES = (("seconds", "step_time", "s"), ("host_mib", "memory", "MiB"), ("device_mib", "hbm", "MiB"))
"""What is drawn of the steps besides the loss: field, text key, unit."""

Runner = Callable[..., Report]


def chart(losses: Sequence[float], columns: int, plain: bool = False) -> str:
    """The losses as one row of bars, the newest on the right; what is not finite is a cross.

    >>> chart([3.0, 2.0, 1.0], 8, plain=True)
    '@+_'
    """
    shown = losses[-columns:] if columns > 0 else []
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return "x" * len(shown)
    low, high = min(finite), max(finite)
    bars = BARS[plain]
    step = (high - low) / (len(bars) - 1) or 1.0
    return "".join(bars[round((v - low) / step)] if math.isfinite(v) else "x" for v in shown)


def plot(values: Sequence[float], columns: int, rows: int, plain: bool = False) -> list[str]:
    """Values as bars of several rows, the newest on the right; the lowest value fills one level, what is not finite is
    a cross in the bottom row.

    >>> plot([4.0, 2.0, 1.0, float("nan")], 8, 2, plain=True)
    ['#   ', '###x']
    """
    shown = values[-columns:] if columns > 0 else []
    finite = [value for value in shown if math.isfinite(value)]
    if not finite or rows < 1:
        return []
    low, high = min(finite), max(finite)
    levels = rows * (1 if plain else 8)
    step = (high - low) / max(1, levels - 1) or 1.0
    out = []
    for row in range(rows - 1, -1, -1):
        line = ""
        for value in shown:
            if not math.isfinite(value):
                line += " " if row else "x"
                continue
            level = 1 + round((value - low) / step) - row * (1 if plain else 8)
            if plain:
                line += "#" if level > 0 else " "
            else:
                line += " " if level <= 0 else BARS[0][min(level, 8) - 1]
        out.append(line)
    return out


class SmokeScreen(TranslatedScreen[None]):
    """``runner`` is ``doctor.smoke.run`` or what stands for it in a test; ``examine`` tells of an interpreter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "start", "tui.key.start"),
        Binding("1", "tab('verdicts')", "tui.smoke.verdicts", show=False),
        Binding("2", "tab('settings')", "tui.key.settings"),
        Binding("i", "python", "tui.key.python"),
        Binding("c", "copy", "tui.key.copy"),
        Binding("s", "save", "tui.key.save"),
        Binding("escape", "back", "tui.key.back"),
        # where they stand they leave no room for the keys of this screen
        Binding("e", "app.machine", "tui.key.machine", show=False),
        Binding("k", "app.checks", "tui.key.checks", show=False),
    ]
    PALETTE: ClassVar[tuple[str, ...]] = ("start", "settings", "python", "copy", "save", "back")
    KEY_SECTION = ("help.smoke", (
        ("r", "key.start"), ("1  2", "key.smoke_pages"), ("i", "key.python"), ("Esc", "key.end"),
    ))  # fmt: skip

    class Told(Message):
        """An event of the run."""

        def __init__(self, cancel: threading.Event, row: dict[str, Any]) -> None:
            super().__init__()
            self.cancel, self.row = cancel, row

    class Ended(Message):
        """The run is over: a report, or why there is none."""

        def __init__(self, cancel: threading.Event, report: Report | None, error: tuple[str, str]) -> None:
            super().__init__()
            self.cancel, self.report, self.error = cancel, report, error

    class Examined(Message):
        """What is known of the interpreter, and of the configuration."""

        def __init__(self, number: int, target: Target | None, settings: Settings, error: tuple[str, str]) -> None:
            super().__init__()
            self.number, self.target, self.settings, self.error = number, target, settings, error

    def __init__(self, runner: Runner = smoke.run, examine: Callable[[str], Target] = examine) -> None:
        super().__init__()
        self._runner, self._examine = runner, examine
        self._cancel: threading.Event | None = None
        self._stages: list[tuple[str, float]] = []
        self._steps: list[dict[str, Any]] = []
        self._report: Report | None = None
        self._error = ("", "")
        self._wrong = ("", "")
        """why the knobs cannot work"""
        self._asked = 0
        self._target: Target | None = None
        self._settings = Settings()
        """what holds where nothing is given"""

    def compose(self) -> ComposeResult:
        yield Static(id="smoke-head", markup=False)
        with Container(id="smoke-panes"):
            with VerticalScroll(id="smoke-live"):
                yield Static(id="smoke-stages", markup=False)
            with TabbedContent(id="smoke-tabs"):
                with TabPane(" ", id="verdicts"), Vertical(id="smoke-report"):
                    with VerticalScroll(id="smoke-summary", can_focus=False):
                        yield Static(id="smoke-text", markup=False)
                    yield Choices(id="smoke-verdicts")
                    yield Detail(id="smoke-detail")
                with TabPane(" ", id="settings"):
                    yield SmokeForm(id="smoke-form")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self.query_one("#smoke-live"))
        self._ask()

    def on_unmount(self) -> None:
        if self._cancel is not None:
            # a paste, for one, closes the screens above the first one
            self._cancel.set()
            self.doctor.say(self.tr("smoke.closed"))

    # ------------------------------------------------------------------ the knobs

    @property
    def form(self) -> SmokeForm:
        return self.query_one(SmokeForm)

    def _given(self) -> dict[str, Any]:
        try:
            return self.form.given()
        except ValueError as error:
            self._wrong = (self.tr("smoke.no_number", what=error),) * 2
            return {}

    def _check(self) -> None:
        """Whether the knobs can work, as the command line would say it."""
        self._wrong = ("", "")
        given = self._given()
        if self._wrong[0]:
            return
        knobs = {name: value for name, value in given.items() if name in Settings._fields}
        try:
            meant = from_mapping(self._settings._asdict() | knobs)
            checked(meant)
            self.form.retranslate(meant)
        except SettingsError as refused:
            self._wrong = (refused.zh, refused.en)

    @on(SmokeForm.Changed)
    def _turned(self) -> None:
        self._check()
        self._live()

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        """Enter asks the interpreter and the configuration that are named."""
        if event.input.id in ("smoke-python", "smoke-from_config"):
            self._ask()
        self.form.screen.focus_next()

    def _ask(self) -> None:
        given = self._given()
        self._asked += 1
        self._look(self._asked, str(given.get("python", "")), str(given.get("from_config", "")))

    @work(thread=True, exclusive=True, group="examine", exit_on_error=False)
    def _look(self, number: int, python: str, config: str) -> None:
        target, settings, error = None, Settings(), ("", "")
        try:
            target = self._examine(python or default_python())
            if config:
                settings = scaled.read(config).settings
        except SettingsError as refused:
            error = (refused.zh, refused.en)
        except OSError as failure:
            error = (f"{config}: {failure.strerror}",) * 2
        self.post_message(self.Examined(number, target, settings, error))

    @on(Examined)
    def _examined(self, event: Examined) -> None:
        if event.number != self._asked:
            return
        self._target, self._settings, self._error = event.target, event.settings, event.error
        self.form.retranslate(self._settings)
        self._check()
        self._live()
        self._result()

    # ------------------------------------------------------------------ running

    @property
    def running(self) -> bool:
        """Whether a run is going on."""
        return self._cancel is not None

    def action_start(self) -> None:
        """Start the run."""
        self._check()
        if self.running or self._wrong[0]:
            self._live()
            return
        self._cancel = threading.Event()
        self._stages, self._steps, self._report, self._error = [], [], None, ("", "")
        given = self._given()
        given.setdefault("python", "")
        self.query_one("#smoke-tabs", TabbedContent).active = "verdicts"
        self._run(self._cancel, given)
        self.set_focus(self.query_one("#smoke-live"))
        self.retranslate()

    @work(thread=True, exclusive=True, group="smoke", exit_on_error=False)
    def _run(self, cancel: threading.Event, given: dict[str, Any]) -> None:
        def listen(row: dict[str, Any]) -> None:
            self.post_message(self.Told(cancel, row))

        from doctor.smoke.baseline import BaselineError

        report, error = None, ("", "")
        try:
            report = self._runner(cancelled=cancel.is_set, listen=listen, **given)
        except SettingsError as refused:
            error = (refused.zh, refused.en)
        except BaselineError as failure:
            error = (tr("zh", "smoke.baseline_bad", path=failure), tr("en", "smoke.baseline_bad", path=failure))
        except OSError as failure:
            error = (f"{failure.filename or ''}: {failure.strerror}",) * 2
        except Exception as failure:
            crash.save(failure, "tui")
            error = (f"{type(failure).__name__}: {failure}",) * 2
        self.post_message(self.Ended(cancel, report, error))

    @on(Told)
    def _told(self, event: Told) -> None:
        row = event.row
        if event.cancel is not self._cancel or row.get("rank"):
            return
        if row["event"] == "stage":
            self._stages.append((str(row["stage"]), float(row["t"])))
        elif row["event"] == "step":
            self._steps.append(row)
        self._live()

    @on(Ended)
    def _ended(self, event: Ended) -> None:
        if event.cancel is not self._cancel:
            return
        self._cancel, self._report, self._error = None, event.report, event.error
        self.retranslate()
        self.refresh_bindings()
        if event.report is not None and self.focused is not None and self.focused.id == "smoke-live":
            self.set_focus(self.query_one("#smoke-verdicts"))

    # ------------------------------------------------------------------ texts

    def retranslate(self) -> None:
        tabs = self.query_one("#smoke-tabs", TabbedContent)
        for n, name in enumerate(("verdicts", "settings"), 1):
            tabs.get_tab(name).label = Text(f"{n} {self.tr(f'smoke.{name}')}")
        self.form.retranslate(self._settings)
        self._check()
        self._live()
        self._result()
        self.refresh_bindings()

    def _live(self) -> None:
        head = Text(no_wrap=True, overflow="ellipsis")
        english = self.doctor.lang == "en"
        if self.running:
            cancelling = self._cancel is not None and self._cancel.is_set()
            head.append(self.tr("smoke.cancelling" if cancelling else "smoke.running"))
        elif self._wrong[0] or self._error[0]:
            head.append(outside(self._wrong[english] or self._error[english]), STYLES["error"])
        elif self._report is not None:
            for style, piece in show.head(self._report, self.doctor.lang, ascii_only()):
                head.append(piece, style)
        else:
            head.append(self.tr("smoke.about"))
        self.query_one("#smoke-head", Static).update(head)
        text = Text(no_wrap=True)
        for n, (stage, began) in enumerate(self._stages):
            last = n == len(self._stages) - 1
            took = "" if last else f"{self._stages[n + 1][1] - began:7.1f} s"
            sign = (">" if self.running else "-") if last else ("+" if ascii_only() else "✔")
            text.append(f"{sign} {stage:<12}{took}\n", "bold" if last and self.running else "")
        self._curves(text)
        self.query_one("#smoke-panes").set_class(not self._stages and not self.running, "-idle")
        self.query_one("#smoke-stages", Static).update(text)

    def _curves(self, text: Text) -> None:
        """Loss, step time and memory, as far as they were told."""
        if not self._steps:
            return
        live = self.query_one("#smoke-live")
        columns, last = max(10, live.size.width - 3), self._steps[-1]
        losses = [_float(row.get("loss")) for row in self._steps]
        text.append(f"\n{self.tr('smoke.loss', step=last['n'], loss=f'{losses[-1]:.4g}')}\n")
        rows = max(1, min(8, live.size.height - len(self._stages) - 8))
        lines = plot(losses, columns, rows, ascii_only()) if rows > 1 else [chart(losses, columns, ascii_only())]
        text.append("\n".join(lines or [chart(losses, columns, ascii_only())]) + "\n", "cyan")
        for key, name, unit in (
            ("seconds", "step_time", "s"),
            ("host_mib", "memory", "MiB"),
            ("device_mib", "hbm", "MiB"),
        ):
            values = [_float(row.get(key)) for row in self._steps if row.get(key) is not None]
            if values:
                text.append(self.tr(f"smoke.{name}", value=f"{values[-1]:.4g} {unit}") + "\n")
                text.append(chart(values, columns, ascii_only()) + "\n", "green")

    def _result(self) -> None:
        page, rows = self.query_one("#smoke-text", Static), self.query_one("#smoke-verdicts", OptionList)
        rows.display = self.query_one("#smoke-detail").display = self._report is not None
        self.query_one("#smoke-summary").set_class(self._report is None, "-idle")
        columns = max(30, self.query_one("#smoke-tabs").size.width - 4)
        if self._report is None:
            page.update(self._idle(columns))
            return
        lang, text = self.doctor.lang, Text(no_wrap=True)
        lines = [*show.summary(self._report, lang, ascii_only())]
        if self._report.partial:
            lines.insert(0, pick(self._report.partial, lang))
        for line in lines:
            text.append("\n".join(wrap(outside(line), columns)) + "\n", "dim")
        for pieces in show.table(compared, lang) if (compared := show.value(self._report, "compare")) else ():
            for style, piece in pieces:
                text.append(piece, style)
            text.append("\n")
        page.update(text)
        at = rows.highlighted
        rows.clear_options()
        for finding in self._verdicts():
            style = {"pass": STYLES["healthy"], "fail": STYLES[finding.severity]}.get(finding.verdict.value, "dim")
            why = pick(finding.why, lang)
            words = outside(pick(finding.title, lang) + (f" - {why}" if why else ""))
            head = f"{mark_of(finding, ascii_only())} {finding.id:<8} "
            words = clip(words, max(20, columns - len(head) - 2), ascii_only())
            rows.add_option(Option(Text.assemble((head, style), words)))
        if rows.option_count:
            rows.highlighted = min(at or 0, rows.option_count - 1)
        self._detail()

    def _verdicts(self) -> list[Finding]:
        """What is wrong first, then what passed, what could not be told, what does not apply."""
        if self._report is None:
            return []
        order = {Verdict.FAIL: 0, Verdict.CRASH: 0, Verdict.PASS: 1, Verdict.UNKNOWN: 2, Verdict.NOT_APPLICABLE: 3}
        return sorted(self._report.findings, key=lambda finding: order[finding.verdict])

    @on(OptionList.OptionHighlighted, "#smoke-verdicts")
    def _detail(self) -> None:
        at, verdicts = self.query_one("#smoke-verdicts", OptionList).highlighted, self._verdicts()
        finding = verdicts[at] if at is not None and at < len(verdicts) else None
        about: dict[str, dict[str, str]] = {}
        base = self.doctor.rulebase()
        if finding is not None and finding.id in base and finding.verdict in (Verdict.FAIL, Verdict.CRASH):
            whole = base.whole(finding.id)
            about = {key: fill_both(whole[key], finding.args) for key in ("cause", "next")}
        item = Item(finding=finding) if finding is not None else None
        self.query_one("#smoke-detail", Detail).show(item, about, self.doctor.lang)

    def _idle(self, columns: int) -> Text:
        """What would run, in which interpreter; what to do where that has no MindSpore."""
        text = Text(no_wrap=True)
        lines = [(self.tr("smoke.waiting" if self.running else "smoke.idle"), "")]
        if self._target is not None:
            versions = self._target.versions
            where = {"python": outside(self._target.python), "version": outside(versions.get("python", "?"))}
            if "mindspore" in versions:
                lines.append((self.tr("smoke.target", mindspore=outside(versions["mindspore"]), **where), ""))
            else:
                others = [path for path in other_pythons() if path != self._target.python]
                lines.append((self.tr("smoke.no_mindspore", **where), "bold yellow"))
                lines.append((self.tr("smoke.choose_python"), ""))
                lines += [("  " + outside(path), "cyan") for path in others[:6]]
        for line, style in lines:
            text.append("\n".join(wrap(line, columns)) + "\n", style)
        return text

    def on_resize(self) -> None:
        self.call_after_refresh(self.retranslate)

    # ------------------------------------------------------------------ actions

    def label(self, name: str) -> str:
        return "tui.key.end_run" if name == "tui.key.back" and self.running else name

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("copy", "save"):
            return self._report is not None
        return not self.running if action in ("start", "python", "settings") else True

    def action_tab(self, name: str) -> None:
        """The verdicts, or the knobs."""
        self.query_one("#smoke-tabs", TabbedContent).active = name
        wanted = "#smoke-device" if name == "settings" else "#smoke-verdicts" if self._report else "#smoke-live"
        self.set_focus(self.query_one(wanted, Widget))

    def action_settings(self) -> None:
        """The knobs."""
        self.action_tab("settings")

    def action_python(self) -> None:
        """Name the interpreter."""
        self.action_tab("settings")
        self.set_focus(self.query_one("#smoke-python", Input))

    def action_copy(self) -> None:
        """The whole report to the clipboard, by OSC 52."""
        if self._report is not None:
            copy(self, self._report)

    def action_save(self) -> None:
        """The whole report to a file."""
        if self._report is not None:
            save(self, self._report)

    def action_back(self) -> None:
        """End the run; without one, leave the knobs, then the screen."""
        if self._cancel is not None:
            self._cancel.set()
            self._live()
        elif self.focused is not None and self.form in self.focused.ancestors:
            if isinstance(self.focused, Input) and self.focused.id == "smoke-python":
                self._ask()
            self.action_tab("verdicts")
        else:
            self.dismiss()


def _float(value: Any) -> float:
    """A number of an event; texts are what JSON lacks."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
