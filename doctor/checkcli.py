"""``doctor check`` and ``doctor record``: arguments in, the engine, a report out."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
import time
from typing import TYPE_CHECKING, Any

from doctor.i18n import tr
from doctor.interrupt import Interrupt
from doctor.model import Report
from doctor.render.safe import printable
from doctor.statusline import StatusLine

if TYPE_CHECKING:
    from doctor.checkup import Checkup, Step
    from doctor.hosts.base import Host

USAGE = 2
LAUNCH_LIMIT = 1 << 20
PLAN_FACTS = ("ver.mindspore", "ver.mindformers", "host.cpu", "host.disks", "host.memory", "npu.table")
"""What conditions over configurations ask of the host."""


def add_check(commands: Any, common: Any) -> None:
    """The arguments of ``doctor check``."""
    check = commands.add_parser(
        "check", help="check this machine, or a recording of one, and configurations, before training"
    )
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help="configurations, launch scripts, Python sources, or folders of them"
    )
    check.add_argument("--mindspore", default="", metavar="X.Y", help="the version that sources are written for")
    _host_options(check)
    check.add_argument("--from", dest="source", metavar="REC",
                       help="judge a recording (folder, .tar.gz, composed .yaml) instead of this machine")  # fmt: skip
    check.add_argument("--against", metavar="REC", help="name what differs from another recording, and matters")
    check.add_argument("--only", action="append", default=[], metavar="WHAT",
                       help="env, npu, hccl, model, a family or ids, also globs; commas or repeated")  # fmt: skip
    check.add_argument("--skip", action="append", default=[], metavar="WHAT", help="the same, left out")
    check.add_argument(
        "--all", action="store_true", help="every check on a line of its own, all advice and drawings in full"
    )
    check.add_argument("--strict", action="store_true", help="what could not be checked counts as a finding")
    check.add_argument(
        "--fix-env", metavar="FILE", help="write the proposed environment settings as a script to source"
    )
    common(check)


def add_record(commands: Any, common: Any) -> None:
    """The arguments of ``doctor record``."""
    record = commands.add_parser("record", help="write every raw answer of this machine, redacted, to judge elsewhere")
    record.add_argument("output", metavar="DIR|FILE.tar.gz", help="a new folder or a new archive")
    record.add_argument("--no-redact", action="store_true", help="keep names, addresses and serial numbers")
    _host_options(record)
    common(record, fail_on=False)


def _host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", default="", metavar="PATH", help="the interpreter that trains (default: python3)")
    parser.add_argument("--rank-table", metavar="FILE", help="a rank table to check")
    parser.add_argument("--launch", metavar="FILE", help="a launch script or msrun command line to check")
    parser.add_argument("--nodes", type=_count, metavar="N", help="number of servers of the job")
    parser.add_argument("--devices", type=_count, metavar="N", help="number of NPUs this machine should have")


def _count(word: str) -> int:
    """A number from 1 to a million."""
    if not (word.isascii() and word.isdigit() and 0 < len(word) < 7 and int(word)):
        raise argparse.ArgumentTypeError(f"not a number from 1 on: {word[:40]!r}")
    return int(word)


def _words(given: list[str]) -> tuple[str, ...]:
    return tuple(word.strip() for text in given for word in text.split(",") if word.strip())


def _given(args: argparse.Namespace) -> dict[str, Any]:
    """Answers of the user's. Raises OSError for a launch script that cannot be read."""
    given: dict[str, Any] = {}
    if args.rank_table:
        given["rank_table_path"] = os.path.abspath(args.rank_table)
    if args.launch:
        with open(args.launch, encoding="utf-8", errors="replace", opener=_plain) as file:
            given["launch_text"] = {"path": args.launch, "text": file.read(LAUNCH_LIMIT)}
    if args.nodes is not None or args.devices is not None:
        given["expected"] = {"nodes": args.nodes, "devices": args.devices}
    return given


def _plain(path: str, flags: int) -> int:
    """Open a plain file, or a stream that the shell has opened already; others may never end."""
    opened = path.startswith(("/dev/fd/", "/proc/self/fd/")) or path == "/dev/stdin"
    number = os.open(path, flags | (0 if opened else os.O_NONBLOCK))
    if not opened and not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "is no plain file", path)
    return number


def live_host(args: argparse.Namespace) -> Host:
    """This machine with what the user said of it. Raises OSError."""
    from doctor.hosts.live import LiveHost

    return LiveHost(given=_given(args), python=args.python)


class _Progress(StatusLine):
    """How many checks have answered, on a terminal's stderr, from the first second on."""

    def __init__(self, lang: str) -> None:
        super().__init__()
        self.lang, self.began = lang, time.monotonic()

    def __call__(self, step: Step) -> None:
        if not sys.stderr.isatty() or time.monotonic() - self.began < 1.0:
            return
        self.show(tr(self.lang, "check.progress", done=step.done, total=step.total))


def check(args: argparse.Namespace) -> int:
    """Run the checks; returns the exit code."""
    from doctor import checkup
    from doctor.hosts import recording

    try:
        host: Host = recording.load(args.source) if args.source else live_host(args)
        other = recording.load(args.against) if args.against else None
    except recording.RecordingError as error:
        return _refuse(args.lang, f"recording.{error.code}", path=error.path, detail=error.detail)
    except OSError as error:
        print(f"doctor: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    with Interrupt() as interrupted:
        wanted = PLAN_FACTS if args.paths else ()
        options = checkup.Options(_words(args.only), _words(args.skip), args.rules, interrupted, wanted, args.mindspore)
        run = checkup.Checkup(host, options)
        if not run.specs and not args.paths:
            return _refuse(args.lang, "check.none", words=", ".join((*options.only, *options.skip)))
        progress = _Progress(args.lang)
        for step in run.steps():
            progress(step)
        progress.close()
        if args.paths:
            _add_files(run, args.paths)
        report = run.report()
        if args.paths:
            report = _with_fixes(report, run, args)
        if other is not None:
            from doctor import compare

            report = compare.against(report, run.facts, other, options, run.base)
    if args.fix_env and not _fix_env(args, report):
        return USAGE
    ok = _show(args, report)
    code = checkup.exit_code(report, args.fail_on, strict=args.strict)
    if args.paths and report.inputs and not any(seen.state == "read" for seen in report.inputs):
        code = max(code, USAGE)
    return code if ok else max(code, USAGE)


def _add_files(run: Checkup, paths: list[str]) -> None:
    """Put what stands in files into the report of a host."""
    from doctor import engine, pasted
    from doctor.scan.inputs import Problem

    read = pasted.check(paths, run.base, run.facts, run.options)
    inputs = [*read.inputs, *(engine.problem_seen(problem) for problem in read.problems)]
    if read.cut:
        inputs.append(engine.problem_seen(Problem(paths[0], "too_many", "")))
    engine.add_files(run, inputs, read.findings, read.plans)


def _with_fixes(report: Report, run: Checkup, args: argparse.Namespace) -> Report:
    """Let fixes of findings in files say which keys they change."""
    if args.format != "json" or not any(d.fixes for d in report.diagnoses):
        return report
    from doctor import source
    from doctor.patch import propose
    from doctor.rulebase import load

    target = source.target_of(run.facts, args.mindspore)
    options = propose.Options(tuple(d.rule for d in report.diagnoses), rules=args.rules, mindspore=target.mindspore,
                              mindformers=target.mindformers)  # fmt: skip
    return propose.with_fixes(report, propose.find(args.paths, options), options, load(args.rules))


def _refuse(lang: str, key: str, **values: str) -> int:
    cleaned = {name: printable(value) for name, value in values.items()}
    print("doctor: " + tr(lang, key, **cleaned).rstrip(" :："), file=sys.stderr)
    return USAGE


def _fix_env(args: argparse.Namespace, report: Report) -> bool:
    from doctor import envfix

    try:
        if not envfix.may_write(args.fix_env):
            _refuse(args.lang, "check.fix_env_exists", path=args.fix_env)
            return False
        with open(args.fix_env, "w", encoding="utf-8") as file:
            file.write(envfix.script(report, args.lang))
    except OSError as error:
        print(f"doctor: {args.fix_env}: {error.strerror}", file=sys.stderr)
        return False
    print(tr(args.lang, "check.fix_env", path=args.fix_env), file=sys.stderr)
    return True


def _show(args: argparse.Namespace, report: Report) -> bool:
    from doctor.cli import write_document, write_result

    written = write_document(args, report)
    if written is not None:
        return written
    from doctor.render import checks, text

    if args.output:
        return write_result(args, text.plain(checks.layout(report, args.lang, every=args.all)))
    columns, ascii_only = text.terminal_columns(sys.stdout), not text.can_encode(sys.stdout)
    lines = checks.layout(report, args.lang, columns=columns, every=args.all, ascii_only=ascii_only)
    text.write(lines, sys.stdout, colour=text.wants_colour(sys.stdout, args.no_color))
    return True


def record(args: argparse.Namespace) -> int:
    """Ask everything once and write the answers down."""
    from doctor import checkup
    from doctor.hosts import recording, redact

    if os.path.lexists(args.output):
        return _refuse(args.lang, "record.exists", path=args.output)
    try:
        recorder = recording.Recorder(live_host(args))
    except OSError as error:
        print(f"doctor: {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    with Interrupt() as interrupted:
        run = checkup.Checkup(recorder, checkup.Options(rules=args.rules, cancelled=interrupted))
        progress = _Progress(args.lang)
        for step in run.steps():
            progress(step)
        progress.close()
        if interrupted():
            print("doctor: " + tr(args.lang, "record.interrupted"), file=sys.stderr)
            return 130
    raws, name = recorder.raws, recorder.name
    if not args.no_redact:
        raws, name = redact.recording(raws, name)
    try:
        count = recording.save(raws, args.output, name, redacted=not args.no_redact)
    except OSError as error:
        print(f"doctor: {args.output}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(tr(args.lang, "record.done", path=args.output, n=count))
    return 0
