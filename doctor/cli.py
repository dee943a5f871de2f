"""The command line. Thin: it reads arguments, calls the engine, prints; every command is in the TUI too."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from doctor import __version__
from doctor.i18n import LANGUAGES, default_language, tr

if TYPE_CHECKING:
    import argparse

    from doctor.model import Report
    from doctor.statusline import StatusLine

USAGE, OWN_FAILURE, INTERRUPTED = 2, 3, 130
FORMATS = ("text", "json", "html")
EDITABLE = ("config", "python", "shell")
"""Kinds of inputs that a fix can change."""


def _common(parser: argparse.ArgumentParser, *, fail_on: bool = True) -> None:
    import argparse

    parser.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS, help="language of the texts")
    parser.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS, help="no colours")
    parser.add_argument("--rules", metavar="DIR", help="another rules folder")
    if fail_on:
        parser.add_argument("--format", choices=FORMATS, default="text")
        parser.add_argument("--output", metavar="FILE", help="write the result there instead of stdout")
        parser.add_argument("--fail-on", choices=("error", "warning", "advice"), default="error",
                            help="exit with 1 from this severity on (default: error)")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The whole command line. Usage errors go to stderr in one line and end with 2."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            self.exit(USAGE, f"doctor: {message}\n(doctor --help)\n")

    engines = ("hyperscan", "re2", "python")
    top = Parser(prog="doctor", description="Diagnoses MindSpore training on Ascend NPUs.",
                 epilog="Without a command the screen (TUI) opens.")  # fmt: skip
    top.add_argument("--version", "-V", action="version", version=f"doctor {__version__}")
    top.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS)
    top.add_argument("--no-color", action="store_true", default=argparse.SUPPRESS)
    top.add_argument("--ascii", action="store_true", default=argparse.SUPPRESS, help="the screen in ASCII")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser, prog="doctor")

    diagnose = commands.add_parser("diagnose", help="name the root cause of failing logs")
    diagnose.add_argument("inputs", nargs="*", metavar="INPUT",
                          help="files, folders, globs, archives, - for stdin; nothing: paste")  # fmt: skip
    diagnose.add_argument("--all", action="store_true", help="show every finding, not one screen")
    diagnose.add_argument("--max-seconds", type=_seconds, default=0.0, metavar="S", help="stop reading after this time")
    diagnose.add_argument("--jobs", type=int, default=0, metavar="N", help="processes (default: as many as pay off)")
    diagnose.add_argument("--config", default="", metavar="FILE", help="the configuration that the logs belong to")
    diagnose.add_argument("--series", choices=("csv", "parquet"),
                          help="write the values of the training lines, not the report")  # fmt: skip
    diagnose.add_argument("--partial", metavar="FILE",
                          help="also write what was read, to be diagnosed with the parts of other nodes")  # fmt: skip
    diagnose.add_argument("--engine", choices=engines, default="", help=argparse.SUPPRESS)
    _common(diagnose)

    from doctor import checkcli, fixcli

    checkcli.add_check(commands, _common)
    checkcli.add_record(commands, _common)
    fixcli.add_fix(commands, _common)
    fixcli.add_resume(commands, _common)
    from doctor import smokecli

    smokecli.add(commands, _common)
    from doctor import watchcli

    watchcli.add(commands, _common)

    demo = commands.add_parser("demo", help="diagnose the shipped sample run")
    demo.add_argument("--all", action="store_true", help=argparse.SUPPRESS)
    _common(demo)

    rules = commands.add_parser("rules", help="list, search, try, test and write rules")
    actions = rules.add_subparsers(dest="action", metavar="list|search|try|test|new", required=True,
                                   parser_class=Parser, prog="doctor rules")  # fmt: skip
    listing = actions.add_parser("list", help="all rules")
    listing.add_argument("--format", choices=("text", "json"), default="text")
    listing.add_argument("--only", action="append", default=[], metavar="GLOB", help="ids, topics or families")
    _common(listing, fail_on=False)
    search = actions.add_parser("search", help="rules that hold all words: id, topic, title, literal, cause, next")
    search.add_argument("words", nargs="+", metavar="WORD", help="words, or a log line")
    search.add_argument("--format", choices=("text", "json"), default="text")
    _common(search, fail_on=False)
    attempt = actions.add_parser("try", help="try one rule on a log: what it captures, or why it is quiet")
    attempt.add_argument("rule", metavar="ID|FILE", help="a rule, or a rule file, also a draft")
    attempt.add_argument("inputs", nargs="*", metavar="LOG", help="files, folders, archives, - for standard input")
    attempt.add_argument("--text", default=None, help="a text instead of a file")
    attempt.add_argument("--format", choices=("text", "json"), default="text")
    _common(attempt, fail_on=False)
    test = actions.add_parser("test", help="run the examples in the rules")
    test.add_argument("paths", nargs="*", metavar="FILE", help="rule files or folders (default: all)")
    test.add_argument("--engine", choices=engines, default="python")
    _common(test, fail_on=False)
    new = actions.add_parser("new", help="write a rule file to start from")
    new.add_argument("id", nargs="?", default="", metavar="ID",
                     help="a family and three digits, or a family for its next free number; else guessed")  # fmt: skip
    new.add_argument("--from", dest="line", default="", metavar="LINE", help="a log line the rule shall match")
    new.add_argument("--level", default="", choices=("INFO", "DEBUG", "EVENT"),
                     help="the level of the record that the line belongs to, if it is a quiet one")  # fmt: skip
    new.add_argument("--dir", default=".", metavar="DIR", help="the folder to write into")
    _common(new, fail_on=False)

    explain = commands.add_parser("explain", help="what a rule or an error code means, its evidence and sources")
    explain.add_argument("id", metavar="ID|CODE")
    explain.add_argument("--format", choices=("text", "json"), default="text")
    explain.add_argument("--source", action="store_true", help="the file of the rule as it was written")
    _common(explain, fail_on=False)

    commands.add_parser("schema", help="the JSON Schema of the report")
    served = commands.add_parser(
        "serve", help="the screen in a browser on this machine (pip install 'mindspore-doctor[serve]')"
    )
    served.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    served.add_argument("--port", type=_port, default=8765, metavar="N", help="(default: 8765)")
    served.add_argument("--allow-remote", action="store_true",
                        help="agree to an address that others can reach; nothing is encrypted")  # fmt: skip
    served.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS)
    screen = commands.add_parser("tui", help="the screen, also reached by doctor alone")
    screen.add_argument("--ascii", action="store_true", default=argparse.SUPPRESS, help="marks and frames in ASCII")
    screen.add_argument("--lang", choices=LANGUAGES, default=argparse.SUPPRESS)
    return top


def _port(text: str) -> int:
    """A port that a user may listen on."""
    value = int(text)
    if not 0 < value < 65536:
        raise ValueError(text)
    return value


def _seconds(text: str) -> float:
    """A time limit: a number above 0."""
    value = float(text)
    if not 0 < value < 1e7:
        raise ValueError(text)
    return value


def _parse(argv: Sequence[str]) -> Any:
    """Arguments of a call. The plainest and most frequent one, ``diagnose FILE…``, is answered without argparse, whose
    import and set-up would be a tenth of its time."""
    if len(argv) > 1 and argv[0] == "diagnose" and not any(word.startswith("-") for word in argv[1:]):
        from types import SimpleNamespace

        return SimpleNamespace(command="diagnose", inputs=list(argv[1:]), all=False, max_seconds=0.0, jobs=0,
                               engine="", rules=None, format="text", output=None, fail_on="error",
                               series=None, partial=None, config="")  # fmt: skip
    return parser().parse_args(argv)


def run(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code. A failure of the doctor's own ends in a saved report, code 3."""
    _streams()
    try:
        args = _parse(argv)
    except SystemExit as end:
        return int(end.code or 0)
    args.said = getattr(args, "lang", "")
    lang = args.said or default_language()
    args.lang, args.no_color = lang, getattr(args, "no_color", False)
    command: Callable[[argparse.Namespace], int] = {
        None: _tui, "tui": _tui, "serve": _serve, "diagnose": _diagnose, "demo": _demo, "rules": _rules,
        "explain": _explain, "schema": _schema, "check": _check, "record": _record, "smoke": _smoke, "fix": _fix,
        "resume": _resume, "watch": _watch,
    }[args.command]  # fmt: skip
    try:
        return command(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # the reader (head, less) has gone: nothing more to say, and nothing to complain about
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            # stdout leads into a file whose disk is full
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            print(f"doctor: {error.strerror}", file=sys.stderr)
            return USAGE
        return _own_failure(lang, error)
    except Exception as error:
        return _own_failure(lang, error)


def _streams() -> None:
    """Standard streams that can be written to whatever they are: closed ones lead nowhere, and a character that the
    terminal's encoding lacks is written as an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _own_failure(lang: str, error: Exception) -> int:
    from doctor import crash
    from doctor.render.safe import printable, redact

    path = crash.save(error, f"argv: {sys.argv[1:]}") or "-"
    text = redact(printable(f"{type(error).__name__}: {error}"))[:200]
    print(tr(lang, "crash", error=text, path=path), file=sys.stderr)
    return OWN_FAILURE


def write_result(args: argparse.Namespace, text: str) -> bool:
    """Write a result to --output or stdout; False (and a line on stderr) if that cannot be."""
    if getattr(args, "output", None):
        try:
            with open(args.output, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            print(f"doctor: {args.output}: {error.strerror}", file=sys.stderr)
            return False
        return True
    sys.stdout.write(text)
    return True


def write_document(args: argparse.Namespace, report: Report) -> bool | None:
    """Write a report as --format says; None for text, which every command lays out in its own way."""
    if args.format == "json":
        from doctor.render.json import render

        return write_result(args, render(report, indent=2 if sys.stdout.isatty() else None) + "\n")
    if args.format == "html":
        from doctor.render.html import page

        return write_result(args, page(report, args.lang))
    return None


class _Progress:
    """One line on a terminal's stderr, from the first second on, at most five times a second."""

    def __init__(self, lang: str) -> None:
        self.lang, self.began, self.last = lang, time.monotonic(), 0.0
        self.line: StatusLine | None = None

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now - self.began < 1.0 or now - self.last < 0.2:
            return
        from doctor.render.text import size_text
        from doctor.statusline import StatusLine

        self.last = now
        share = f"{done * 100 // total} %" if total else size_text(done)
        text = tr(self.lang, "progress", percent=share, rate=size_text(done / (now - self.began)))
        self.line = self.line or StatusLine()
        self.line.show(text)

    def close(self) -> None:
        if self.line:
            self.line.close()


def _diagnose(args: argparse.Namespace) -> int:
    inputs = list(args.inputs)
    if args.series == "parquet":
        from doctor import export

        needs = "pyarrow" if not export.can("parquet") else "file" if not args.output and sys.stdout.isatty() else ""
        if needs:
            print("doctor: " + tr(args.lang, f"series.parquet_{needs}"), file=sys.stderr)
            return USAGE
    if not inputs:
        if sys.stdin is not None and sys.stdin.isatty():
            print(tr(args.lang, "paste_hint"), file=sys.stderr)
        inputs = ["-"]
    return _report(args, inputs)


def _demo(args: argparse.Namespace) -> int:
    from doctor.rulebase import data_folder

    args.max_seconds, args.jobs, args.engine = 0.0, 1, ""
    folder = data_folder(os.path.join("fixtures", "demo"))
    here = os.getcwd()
    try:
        os.chdir(os.path.dirname(folder))
        return _report(args, [os.path.basename(folder)])
    finally:
        os.chdir(here)


def _report(args: argparse.Namespace, inputs: list[str]) -> int:
    import signal

    from doctor import engine
    from doctor.scan.read import Stop
    from doctor.scan.streams import Waiting

    interrupted: list[bool] = []
    scans: list[Any] = []

    def on_signal(number: int, frame: Any) -> None:
        # the first Ctrl-C ends the reading and shows what was found; the second one ends everything
        if interrupted:
            raise KeyboardInterrupt
        interrupted.append(True)
        if Waiting.now:
            raise Stop("interrupted")  # the data may never come

    def on_alarm(number: int, frame: Any) -> None:
        # what is at hand is judged in peace: the reading looks at the clock itself, but not while it waits
        if Waiting.now:
            raise Stop("time")
        signal.setitimer(signal.ITIMER_REAL, 0.1)

    timed: list[bool] = []

    def cancelled() -> bool:
        if args.max_seconds and "-" in inputs and not timed:
            # asked for the first time when the reading begins
            timed.append(True)
            signal.signal(signal.SIGALRM, on_alarm)
            signal.setitimer(signal.ITIMER_REAL, args.max_seconds + 0.2)
        return bool(interrupted)

    previous = signal.signal(signal.SIGINT, on_signal)
    progress = _Progress(args.lang) if sys.stderr.isatty() else None
    partial: str = getattr(args, "partial", None) or ""
    written: list[bool] = []

    def keep(kept: Sequence[Any], problems: Sequence[Any]) -> None:
        written.append(_write_partial(partial, kept, problems))

    try:
        options = engine.Options(
            jobs=args.jobs, engine=args.engine, max_seconds=args.max_seconds, rules=args.rules,
            cancelled=cancelled, progress=progress, scanned=scans.extend,
            kept=keep if partial else None, config=getattr(args, "config", ""),
        )  # fmt: skip
        report = engine.diagnose(inputs, options)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, previous)
        if progress:
            progress.close()
    if getattr(args, "series", None):
        ok = _write_series(args, scans)
    else:
        if args.format == "json":
            report = _with_edits(report, args)
        document = write_document(args, report)
        if document is not None:
            ok = document
        else:
            from doctor.render import text

            if args.output:
                ok = write_result(args, text.plain(text.layout(report, args.lang, every=args.all)))
            else:
                text.emit(report, args.lang, every=args.all, no_color=args.no_color)
                ok = True
    code = engine.exit_code(report, args.fail_on)
    return code if ok and all(written) else max(code, USAGE)


def _write_series(args: argparse.Namespace, scans: Sequence[Any]) -> bool:
    """Write the values of the training lines; False (and a line on stderr) if that cannot be."""
    from doctor import export

    if args.series == "csv":
        return write_result(args, export.csv_text(scans))
    try:
        if args.output:
            with open(args.output, "wb") as file:
                export.write_parquet(scans, file)
        else:
            export.write_parquet(scans, sys.stdout.buffer)
    except ImportError as error:
        # one that does not go with the numpy that is there
        print(f"doctor: {error}", file=sys.stderr)
        return False
    except OSError as error:
        print(f"doctor: {args.output or 'stdout'}: {error.strerror or error}", file=sys.stderr)
        return False
    return True


def _write_partial(path: str, kept: Sequence[Any], problems: Sequence[Any]) -> bool:
    """Write what was read for a later diagnosis of all parts; False (and a line on stderr) if that cannot be."""
    from doctor.run.partial import dump

    try:
        with open(path, "wb") as file:
            file.write(dump(kept, problems))
    except OSError as error:
        print(f"doctor: {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def _with_edits(report: Any, args: argparse.Namespace) -> Any:
    """Let fixes of findings in configurations and sources say which keys they change."""
    if not any(kind in EDITABLE for seen in report.inputs for kind in seen.kinds):
        return (
            report  # logs alone: no rule speaks of a file that could be changed, and the rules need not be read again
        )
    from doctor.rulebase import load

    base = load(args.rules)
    own = [d for d in report.diagnoses if d.fixes and d.rule in base and base[d.rule].kind in ("when", "code")]
    paths = sorted({e.source for d in own for e in d.evidence if e.source and os.path.isfile(e.source)})
    if not paths:
        return report
    from doctor.patch import propose

    told = [str(report.facts.get(f"version.{name}", {}).get("value") or "") for name in ("mindspore", "mindformers")]
    options = propose.Options(tuple(d.rule for d in own), rules=args.rules, mindspore=told[0], mindformers=told[1])
    return propose.with_fixes(report, propose.find(paths, options), options, base)


def _rules(args: argparse.Namespace) -> int:
    from doctor import rulecli

    return {
        "list": rulecli.listing, "search": rulecli.search, "try": rulecli.attempt, "test": rulecli.test,
        "new": rulecli.new,
    }[args.action](args)  # fmt: skip


def _check(args: argparse.Namespace) -> int:
    from doctor import checkcli

    return checkcli.check(args)


def _record(args: argparse.Namespace) -> int:
    from doctor import checkcli

    return checkcli.record(args)


def _smoke(args: argparse.Namespace) -> int:
    from doctor import smokecli

    return smokecli.run(args)


def _fix(args: argparse.Namespace) -> int:
    from doctor import fixcli

    return fixcli.fix(args)


def _resume(args: argparse.Namespace) -> int:
    from doctor import fixcli

    return fixcli.resume(args)


def _watch(args: argparse.Namespace) -> int:
    from doctor import watchcli

    return watchcli.run(args)


def _explain(args: argparse.Namespace) -> int:
    from doctor import rulecli

    return rulecli.explain(args)


def _schema(args: argparse.Namespace) -> int:
    import json

    from doctor.render.json import schema

    sys.stdout.write(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
    return 0


def _serve(args: argparse.Namespace) -> int:
    from doctor.tui.serve import serve

    return serve(args.host, args.port, args.lang, remote=args.allow_remote)


def _tui(args: argparse.Namespace) -> int:
    # in a browser there is no terminal: textual-serve names a driver of its own
    served = bool(os.environ.get("TEXTUAL_DRIVER"))
    if not served and not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()):
        print(tr(args.lang, "no_terminal"), file=sys.stderr)
        parser().print_help()
        return 0 if args.command is None else USAGE
    from doctor.tui.app import DoctorApp
    from doctor.tui.state import State, folder

    state = State(folder())
    # what was said for this run comes before what was chosen in an earlier one, and that before the locale
    said = args.said or os.environ.get("DOCTOR_LANG", "")
    ascii_only = getattr(args, "ascii", None) or (True if os.environ.get("DOCTOR_ASCII") else None)
    # a thread that reads a log gives way to the keys sooner than after Python's usual 5 ms
    sys.setswitchinterval(0.001)
    app = DoctorApp(lang=args.lang if said else None, state=state, ascii_only=ascii_only, glance=True)
    app.run()
    return app.return_code or 0
