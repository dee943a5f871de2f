"""What to run and in which order: inputs → scans → findings → report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from doctor import __version__, ranking
from doctor.model import SEVERITIES, Evidence, Finding, InputSeen, Place, Report, Text, Verdict, worst
from doctor.rulebase import RuleBase, load
from doctor.scan import kinds
from doctor.scan.inputs import Limits, Problem, Source, expand
from doctor.scan.scanner import Matcher, Scanned, Scanner, plain_chunks, scan_stream

SMALL = 256 << 10
"""Inputs up to this size are split into segments as a whole; of larger ones only the head decides the kind."""

PARALLEL_FROM = 48 << 20
"""Bytes from which a second process pays for its start."""

LOG_STATES = ("read", "partial", "empty")

PROBLEM_TEXT: dict[str, Text] = {
    "missing": {"zh": "没有这个文件或文件夹，请检查路径", "en": "no such file or folder; check the path"},
    "no_logs": {"zh": "其中没有可读的日志文件", "en": "holds no readable log file"},
    "denied": {"zh": "没有读取权限，请换用有权限的用户", "en": "permission denied; run as a user who may read it"},
    "broken_archive": {
        "zh": "压缩包损坏或不完整，已诊断能读出的部分；请重新打包",
        "en": "the archive is damaged or cut off; what could be read was diagnosed, pack it again for the rest",
    },
    "bomb": {
        "zh": "解压后的大小远超正常比例（疑似压缩炸弹），已停止读取",
        "en": "expands far beyond what logs do (a zip bomb?); reading stopped",
    },
    "too_many": {"zh": "文件太多，只读取了前面的部分", "en": "too many files; only the first ones were read"},
    "binary": {"zh": "是二进制文件，不是日志", "en": "is a binary file, not a log"},
    "not_regular": {"zh": "不是普通文件（管道、设备或套接字）", "en": "is no regular file (pipe, device or socket)"},
    "encrypted": {"zh": "压缩包已加密，请先解密", "en": "the archive is encrypted; decrypt it first"},
    "unreadable": {"zh": "无法读取", "en": "cannot be read"},
    "time": {"zh": "到达时间上限，只读了一部分", "en": "the time limit was reached; only a part was read"},
}

NOT_JUDGED: Text = {
    "zh": "已识别，但这个版本还不判断此类输入",
    "en": "recognised, but this kind of input is not judged yet",
}


class Options(NamedTuple):
    """How to diagnose. ``jobs`` 0: as many processes as pay off."""

    jobs: int = 0
    engine: str = ""
    max_seconds: float = 0.0
    rules: str | None = None
    limits: Limits = Limits()
    cancelled: Callable[[], bool] = lambda: False
    progress: Callable[[int, int, str], None] | None = None
    """called with (bytes done, bytes in all or 0, name of the input)"""


DEFAULTS = Options()


class _Job(NamedTuple):
    """A source with what its content was taken for."""

    order: int
    source: Source
    kinds: tuple[str, ...]
    judge: bool
    data: bytes | None
    """the whole content if it is small"""


def diagnose(inputs: Sequence[str], options: Options = DEFAULTS, *, paste: bytes | None = None) -> Report:
    """Read every input and name the root cause.

    ``inputs`` are files, folders, globs, archives or ``-``; ``paste`` is text at hand, judged as one more input.
    Never raises for bad input: what could not be read is in ``Report.inputs`` and a finding of its own.
    """
    started = time.perf_counter()
    base = load(options.rules)
    deadline = time.monotonic() + options.max_seconds if options.max_seconds else 0.0
    stop = _stopper(options.cancelled, deadline)
    matcher = Matcher(base, options.engine)
    loaded = time.perf_counter()
    seen: list[tuple[int, InputSeen]] = []
    problems: list[Problem] = []
    scans: list[tuple[int, Scanned]] = []
    facts: dict[str, Any] = {}
    large: list[_Job] = []
    order = 0
    interrupted = False
    pending: Iterable[Any] = expand(inputs, options.limits)
    if paste is not None:
        pending = (*pending, _Paste(paste))
    meter = _Meter(options.progress)
    try:
        for item in pending:
            if stop():
                break
            if isinstance(item, Problem):
                problems.append(item)
                continue
            order += 1
            if item.path is not None and item.size is not None and item.size > SMALL:
                large.append(_Job(order, item, (), True, None))
                continue
            _small(matcher, order, item, scans, seen, problems, facts, stop, meter)
        for job, scan, kind in _scan_large(matcher, large, options, stop, meter):
            _note(job.order, job.source.name, scan, kind, scans, seen, facts)
    except KeyboardInterrupt:
        interrupted = True
    if stop() and not interrupted:
        interrupted = options.cancelled()
    scans.sort(key=lambda pair: pair[0])
    seen.sort(key=lambda pair: pair[0])
    scanned = time.perf_counter()
    inputs_seen = [s for _, s in seen]
    for problem in problems:
        inputs_seen.append(_problem_seen(problem))
    for scan in (s for _, s in scans):
        if scan.problem:
            n = next(i for i, s in enumerate(inputs_seen) if s.name == scan.name)
            inputs_seen[n] = inputs_seen[n]._replace(state="partial", why=_problem_text(*scan.problem))
    findings, diagnoses = ranking.rank(base, [s for _, s in scans], {k: v[0] for k, v in facts.items()})
    findings += tuple(_input_findings(inputs_seen, [s for _, s in scans], base))
    report = Report(
        {"kind": "inputs", "inputs": list(inputs) + (["<paste>"] if paste is not None else [])},
        "unknown",
        diagnoses,
        findings,
        tuple(inputs_seen),
        {name: {"value": value, "source": source, "line": line} for name, (value, source, line) in facts.items()},
        (),
        {
            "load": round(loaded - started, 4),
            "scan": round(scanned - loaded, 4),
            "judge": round(time.perf_counter() - scanned, 4),
        },
        _partial_text(interrupted, deadline, scans),
    )
    return report._replace(verdict=verdict_of(report))


class _Paste:
    """Text at hand, dressed as a source."""

    name, path, mtime = "<paste>", None, None

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def open(self) -> Any:
        import io

        return io.BytesIO(self._data)


class _Meter:
    """Bytes done over all sources."""

    def __init__(self, report: Callable[[int, int, str], None] | None) -> None:
        self.report, self.done, self.total = report, 0, 0

    def on(self, name: str) -> Callable[[int], None] | None:
        if self.report is None:
            return None

        def add(count: int) -> None:
            self.done += count
            assert self.report is not None
            self.report(self.done, self.total, name)

        return add


def _stopper(cancelled: Callable[[], bool], deadline: float) -> Callable[[], bool]:
    if not deadline:
        return cancelled
    return lambda: cancelled() or time.monotonic() > deadline


def _small(
    matcher: Matcher, order: int, source: Any, scans: list[tuple[int, Scanned]], seen: list[tuple[int, InputSeen]],
    problems: list[Problem], facts: dict[str, Any], stop: Callable[[], bool], meter: _Meter,
) -> None:  # fmt: skip
    """A source whose size is small or not known: read its beginning, split it, scan it."""
    scanner = Scanner(matcher, source.name)
    try:
        stream = source.open()
    except OSError as error:
        code = "denied" if isinstance(error, PermissionError) else "unreadable"
        problems.append(Problem(source.name, code, error.strerror or str(error)))
        return
    add = meter.on(source.name)
    with stream:
        chunks = plain_chunks(stream)
        head: list[bytes] = []
        size = 0
        problem: tuple[str, str] | None = None
        complete = True
        cancelled = False
        try:
            for chunk in chunks:
                head.append(chunk)
                size += len(chunk)
                if size > SMALL or (size > 1 << 16 and source.name == "<stdin>"):
                    complete = False
                    break
                if stop():
                    cancelled = True
                    break
        except (OSError, EOFError) as error:
            problem = ("unreadable", getattr(error, "strerror", None) or str(error))
        except Exception as error:
            if not getattr(error, "code", ""):
                raise
            problem = (str(error.code), str(getattr(error, "detail", error)))  # type: ignore[attr-defined]
        data = b"".join(head)
        parts = kinds.segments(source.name, data if complete else data[: 1 << 16], complete=complete)
        names = tuple(dict.fromkeys(p.kind for p in parts))
        judged = any(k in kinds.LOG_KINDS for k in names)
        if complete and judged:
            data = _masked(data, parts)
        if judged or not data:
            scanner.feed(data) if data else None
            if add:
                add(len(data))
            if not complete and not cancelled:
                try:
                    for chunk in chunks:
                        scanner.feed(chunk)
                        if add:
                            add(len(chunk))
                        if stop():
                            cancelled = True
                            break
                except Exception as error:
                    code = getattr(error, "code", "") or "unreadable"
                    if not isinstance(error, OSError | EOFError) and code == "unreadable":
                        raise
                    problem = (str(code), str(getattr(error, "detail", error)))
        scan = scanner.finish(problem, cancelled)
    if not judged and data:
        scan = scan._replace(size=len(data), head=data[: 1 << 16], lines=data.count(b"\n"))
    _note(order, source.name, scan, names, scans, seen, facts)


def _masked(data: bytes, parts: Sequence[kinds.Segment]) -> bytes:
    """The data with its Python source emptied line by line, so that line numbers stay true. Code holds the messages it
    may raise; other kinds inside a paste are scanned, because a wrong guess there would hide a failure."""
    if all(p.kind != "python" for p in parts):
        return data
    out = []
    for part in parts:
        piece = data[part.start : part.end]
        out.append(b"\n" * piece.count(b"\n") if part.kind == "python" else piece)
    return b"".join(out)


def _note(
    order: int, name: str, scan: Scanned, names: tuple[str, ...], scans: list[tuple[int, Scanned]],
    seen: list[tuple[int, InputSeen]], facts: dict[str, Any],
) -> None:  # fmt: skip
    """Keep a scan, say what the input was, and collect its version facts."""
    judged = any(k in kinds.LOG_KINDS for k in names) or not scan.size
    state, why = "read", Text()
    if not scan.size:
        state, names = "empty", ("empty",)
    elif names == ("binary",):
        state, why = "unreadable", PROBLEM_TEXT["binary"]
    elif not judged or names in (("npu_smi",), ("hccn_tool",)):
        state, why = "not_judged", NOT_JUDGED
    elif scan.cancelled:
        state, why = "partial", PROBLEM_TEXT["time"]
    if scan.size:
        for key, (value, line) in _facts(scan.head).items():
            facts.setdefault(key, (value, name, line))
    if judged:
        scans.append((order, scan._replace(head=b"")))
    seen.append((order, InputSeen(name, names, scan.size, scan.lines, scan.rank, state, why)))


def _facts(head: bytes) -> dict[str, tuple[str, int]]:
    from doctor.scan.versions import facts

    return facts(head)


def _scan_large(
    matcher: Matcher, jobs: Sequence[_Job], options: Options, stop: Callable[[], bool], meter: _Meter
) -> Iterable[tuple[_Job, Scanned, tuple[str, ...]]]:
    """Scan plain files, in several processes when that pays."""
    total = sum(job.source.size or 0 for job in jobs)
    meter.total = total
    workers = options.jobs or min(os.cpu_count() or 1, len(jobs), 8)
    if workers > 1 and len(jobs) > 1 and total >= PARALLEL_FROM:
        from doctor.scan.parallel import scan_files

        paths = [(job.source.name, job.source.path or "") for job in jobs]
        for n, scan, names in scan_files(matcher, paths, workers, stop, meter.on("")):
            yield jobs[n], scan, names
        return
    for job in jobs:
        if stop():
            return
        yield (job, *scan_path(matcher, job.source.name, job.source.path or "", stop, meter.on(job.source.name)))


def scan_path(
    matcher: Matcher, name: str, path: str, stop: Callable[[], bool], progress: Callable[[int], None] | None = None
) -> tuple[Scanned, tuple[str, ...]]:
    """Scan one plain file; its head decides whether it is a log at all."""
    try:
        with open(path, "rb", buffering=0) as file:
            head = file.read(1 << 16)
            names = tuple(dict.fromkeys(s.kind for s in kinds.segments(name, head, complete=False)))
            if not any(k in kinds.LOG_KINDS for k in names):
                size = os.fstat(file.fileno()).st_size
                empty = Scanner(matcher, name).finish()
                return empty._replace(size=size, head=head), names
            file.seek(0)
            return scan_stream(matcher, name, file, cancelled=stop, progress=progress), names
    except OSError as error:
        empty = Scanner(matcher, name).finish(("unreadable", error.strerror or str(error)))
        return empty, ("text",)


# ------------------------------------------------------------------ the report


def _problem_text(code: str, detail: str) -> Text:
    known = PROBLEM_TEXT.get(code, PROBLEM_TEXT["unreadable"])
    return {lang: f"{text} ({detail})" if detail else text for lang, text in known.items()}


def _problem_seen(problem: Problem) -> InputSeen:
    return InputSeen(problem.name, (), 0, 0, None, "unreadable", _problem_text(problem.code, problem.detail))


def _input_findings(seen: Sequence[InputSeen], scans: Sequence[Scanned], base: RuleBase) -> list[Finding]:
    """Findings about the inputs themselves: unreadable ones, empty logs inside a run, broken rule files."""
    found = []
    usable = any(s.state in ("read", "partial", "not_judged") for s in seen)
    for one in seen:
        if one.state == "unreadable":
            title: Text = {"zh": f"未能读取 {one.name}", "en": f"{one.name} could not be read"}
            severity = "warning" if usable else "error"
            found.append(Finding("INPUT", Verdict.UNKNOWN, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 severity=severity, confidence="certain", title=title, why=one.why))  # fmt: skip
        elif one.state == "partial":
            title = {"zh": f"{one.name} 只读了一部分", "en": f"only a part of {one.name} was read"}
            found.append(Finding("INPUT", Verdict.UNKNOWN, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 severity="warning", confidence="certain", title=title, why=one.why))  # fmt: skip
        elif one.state == "not_judged":
            kinds_text = ", ".join(one.kinds)
            title = {
                "zh": f"{one.name}：{kinds_text}，{NOT_JUDGED['zh']}",
                "en": f"{one.name}: {kinds_text}, {NOT_JUDGED['en']}",
            }
            found.append(Finding("INPUT", Verdict.UNKNOWN, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 severity="advice", confidence="certain", title=title, why=one.why))  # fmt: skip
        elif one.state == "empty" and len(seen) > 1:
            rank = one.rank if one.rank is not None else ranking.rank_in_name(one.name)
            title = {
                "zh": f"{one.name} 是空文件：该进程可能没有启动，或在写日志前就被杀死",
                "en": f"{one.name} is empty: the process may not have started or was killed before it wrote",
            }
            found.append(Finding("INPUT", Verdict.FAIL, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 Place(None, rank), severity="warning", confidence="guess", title=title))  # fmt: skip
    for problem in base.problems:
        title = {"zh": f"规则文件有误，未加载：{problem}", "en": f"a rule file was left out: {problem}"}
        found.append(Finding("RULES", Verdict.CRASH, {}, (Evidence(problem.file, problem.line, problem.text),),
                             severity="warning", confidence="certain", title=title))  # fmt: skip
    return found


def _partial_text(interrupted: bool, deadline: float, scans: Sequence[tuple[int, Scanned]]) -> Text:
    if interrupted:
        return {"zh": "已中断：以下是到目前为止的结果", "en": "interrupted: this is what was found so far"}
    if deadline and any(scan.cancelled for _, scan in scans):
        return {"zh": "到达时间上限：以下是到目前为止的结果", "en": "time limit reached: this is what was found so far"}
    return {}


def verdict_of(report: Report) -> str:
    """error, warning, advice, healthy or unknown; healthy only if all that was read was understood."""
    found = worst([d.severity for d in report.diagnoses])
    if found in ("error", "warning"):
        return str(found)
    judged = [s for s in report.inputs if s.state == "read" and any(k in _UNDERSTOOD for k in s.kinds)]
    if not judged or any(s.state in ("unreadable", "partial") for s in report.inputs) or report.partial:
        return "unknown"
    return str(found) if found else "healthy"


_UNDERSTOOD = frozenset(kinds.LOG_KINDS) - {"text", "npu_smi", "hccn_tool", "versions", "shell", "environment"}


def exit_code(report: Report, fail_on: str = "error") -> int:
    """0 nothing at or above ``fail_on``, 1 findings, 2 nothing could be read, 130 interrupted."""
    if report.partial and "interrupted" in report.partial.get("en", ""):
        return 130
    usable = [s for s in report.inputs if s.state != "unreadable"]
    if not usable:
        return 2
    limit = SEVERITIES.index(fail_on)
    for diagnosis in report.diagnoses:
        if SEVERITIES.index(diagnosis.severity) <= limit:
            return 1
    for finding in report.findings:
        if finding.id in ("INPUT", "RULES") and SEVERITIES.index(finding.severity) <= limit:
            return 1
    return 0


def tool_info(base: RuleBase | None = None, engine: str = "") -> dict[str, Any]:
    """Name and version of what made a report."""
    return {"name": "mindspore-doctor", "version": __version__, "python": sys.version.split()[0], "engine": engine,
            "rules": len(base) if base is not None else None}  # fmt: skip
