"""``doctor watch``: arguments in, events out while they happen, the report at the end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from doctor.i18n import tr
from doctor.render.safe import printable

if TYPE_CHECKING:
    from doctor.model import Report
    from doctor.watch import Event, Watcher

USAGE, INTERRUPTED = 2, 130
TICK = 0.05
"""Seconds that a wait takes at most before Ctrl-C is looked at."""
LIVE_ROWS = 40


def add(commands: Any, common: Any) -> None:
    """The arguments of ``doctor watch``."""
    watch = commands.add_parser("watch", help="follow a live run: what it does, and what goes wrong, as it happens")
    watch.add_argument("inputs", nargs="+", metavar="DIR", help="folders, files or globs of the run's logs")
    watch.add_argument("--until", action="append", default=[], metavar="WHEN",
                       help="end at a line that matches (PATTERN or line:PATTERN), at step:N, after idle:SECONDS "
                            "without a new line, or at the first alarm; repeat for whichever is first")  # fmt: skip
    watch.add_argument("--interval", type=_positive, default=1.0, metavar="S", help="seconds between two looks")
    watch.add_argument("--max-seconds", type=_positive, default=0.0, metavar="S", help="end after this time")
    watch.add_argument("--stall", type=_positive, default=10.0, metavar="N",
                       help="step times without a step that are a stall (default: 10; a minute at least)")  # fmt: skip
    watch.add_argument("--new", action="store_true", help="only what is written from now on")
    watch.add_argument("--engine", choices=("hyperscan", "re2", "python"), default="", help=argparse.SUPPRESS)
    common(watch, fail_on=False)
    watch.add_argument("--format", choices=("text", "json", "jsonl"), default="text",
                       help="jsonl: every event as a line of JSON; json: the report alone at the end")  # fmt: skip
    watch.add_argument("--output", metavar="FILE", help="write the report at the end there")
    watch.add_argument("--fail-on", choices=("error", "warning", "advice"), default="error",
                       help="exit with 1 from this severity on (default: error)")  # fmt: skip


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e7:
        raise ValueError(text)
    return value


def run(args: argparse.Namespace) -> int:
    """Watch until there is nothing more to wait for; returns the exit code."""
    from doctor.watch import watcher as watching

    lang = args.lang
    until = watching.NEVER
    for word in args.until:
        try:
            until = watching.until_of(args.until, args.fail_on)
        except ValueError as error:
            numbers = word.partition(":")[0] in ("step", "idle")
            why = tr(lang, "watch.bad_number") if numbers else tr(lang, "watch.not_linear", why=printable(str(error)))
            print(f"doctor: {tr(lang, 'watch.bad_until', word=printable(word), why=why)}", file=sys.stderr)
            return USAGE
    missing = [name for name in args.inputs if not _may_come(name)]
    if len(missing) == len(args.inputs):
        names = printable(", ".join(missing))
        print(f"doctor: {tr(lang, 'watch.nothing_there', names=names)}", file=sys.stderr)
        return USAGE
    stopped: list[bool] = []
    watching_now: list[Watcher] = []

    def on_signal(number: int, frame: Any) -> None:
        # the first Ctrl-C ends the watch with what was found; the second one ends everything
        if stopped:
            raise KeyboardInterrupt
        stopped.append(True)
        if watching_now and watching_now[0].judging:
            raise KeyboardInterrupt  # a judgement of many ranks may take longer than somebody waits

    options = watching.Options(
        rules=args.rules, engine=args.engine, new=args.new, until=until, max_seconds=args.max_seconds,
        stall=args.stall, cancelled=lambda: bool(stopped),
    )  # fmt: skip
    previous = [signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        watching_now.append(watching.Watcher(args.inputs, options))
        return _watch(args, watching_now[0], stopped)
    finally:
        signal.signal(signal.SIGINT, previous[0])
        signal.signal(signal.SIGTERM, previous[1])


def _may_come(name: str) -> bool:
    """Whether a name is there, or may come to be there as a glob does."""
    return os.path.exists(os.path.expanduser(name)) or any(mark in name for mark in "*?[")


def _watch(args: argparse.Namespace, watcher: Watcher, stopped: list[bool]) -> int:
    began = time.monotonic()
    teller = _teller(args, watcher)
    try:
        while not stopped and not watcher.ended:
            looked = time.monotonic()
            teller.tell(watcher.poll())
            while not stopped and not watcher.ended and not watcher.behind:
                left = looked + args.interval - time.monotonic()
                if left <= 0:
                    break
                time.sleep(min(TICK, left))
    except KeyboardInterrupt:
        if not watcher.judging:
            raise
    finally:
        teller.close()
    if stopped:
        print(tr(args.lang, "watch.stopping"), file=sys.stderr)
    report = watcher.so_far() if stopped else watcher.final(lambda: bool(stopped))
    code = INTERRUPTED if stopped else watcher.exit_code(report, args.fail_on)
    return _end(args, watcher, report, code, time.monotonic() - began)


class _Teller:
    """Tells events as they come: lines on stdout, or on stderr where stdout is for the report alone."""

    def __init__(self, say: Callable[[list[Event]], None], close: Callable[[], None] = lambda: None) -> None:
        self.tell, self.close = say, close


def _teller(args: argparse.Namespace, watcher: Watcher) -> _Teller:
    from doctor.watch import show

    if args.format == "jsonl":
        return _Teller(lambda events: _write(sys.stdout, [show.as_json(event) for event in events]))
    stream = sys.stderr if args.format == "json" else sys.stdout
    if args.format == "text" and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        return _live(args, watcher)
    return _Teller(lambda events: _write(stream, show.as_text(events, args.lang)))


def _write(stream: Any, lines: list[str]) -> None:
    if lines:
        stream.write("\n".join(lines) + "\n")
        stream.flush()


def _live(args: argparse.Namespace, watcher: Watcher) -> _Teller:
    """A view that is drawn over itself; alarms stay above it as lines."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from doctor.render.text import can_encode, wants_colour
    from doctor.watch import show

    colour = wants_colour(sys.stdout, args.no_color)
    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False, no_color=not colour)
    plain = not can_encode(sys.stdout)
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
    live.start()

    def draw() -> Text:
        height = min(LIVE_ROWS, max(8, console.size.height - 2))
        lines = show.screen(watcher.state(), args.inputs, args.lang, columns=console.size.width - 1, height=height,
                            ascii_only=plain)  # fmt: skip
        lines.append([("dim", tr(args.lang, "watch.keys"))])
        text = Text(no_wrap=True, overflow="crop")
        for n, line in enumerate(lines):
            if n:
                text.append("\n")
            for style, piece in line:
                text.append(piece, style if colour else "")
        return text

    def tell(events: list[Event]) -> None:
        told = [e for e in events if e.alarm is not None]
        for line in show.as_text(told, args.lang, brief=True):
            live.console.print(Text(line), soft_wrap=True)
        live.update(draw(), refresh=True)

    return _Teller(tell, live.stop)


def _end(args: argparse.Namespace, watcher: Watcher, report: Report, code: int, seconds: float) -> int:
    """Print what was found, and the report."""
    from doctor.render.json import render, report_dict
    from doctor.watch import Event, show

    alarms = list(watcher.alarms.all.values())
    active = sum(alarm.counts for alarm in alarms)
    if args.format == "jsonl":
        why = watcher.ended or "interrupted"
        values = {"why": why, "code": code, "seconds": round(seconds, 1), "alarms": len(alarms), "active": active}
        _write(sys.stdout, [show.as_json(Event("end", time.time(), values), report=report_dict(report))])
    else:
        words = tr(args.lang, "watch.summary", time=show.duration(seconds), alarms=len(alarms), active=active)
        print(words, file=sys.stderr)
    if args.output:
        from doctor.cli import write_result
        from doctor.render import text

        whole = render(report) + "\n" if args.format != "text" else text.plain(text.layout(report, args.lang))
        return code if write_result(args, whole) else max(code, USAGE)
    if args.format == "json":
        _write(sys.stdout, [render(report, indent=2 if sys.stdout.isatty() else None)])
    elif args.format == "text":
        from doctor.render import text

        text.emit(report, args.lang, no_color=args.no_color)
    return code
