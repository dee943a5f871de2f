"""What to run and in which order: inputs → scans → findings → report."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor import ranking
from doctor.i18n import LANGUAGES, tr
from doctor.model import SEVERITIES, Evidence, Finding, InputSeen, Place, Report, Text, Verdict, worst
from doctor.rulebase import RuleBase, load, tool_info
from doctor.run.partial import LARGEST, Damaged, Kept, is_partial, union
from doctor.run.partial import load as load_partial
from doctor.scan import kinds
from doctor.scan.inputs import Limits, Problem, Source, expand, natural_key
from doctor.scan.inputs import problem as problem_of
from doctor.scan.read import SMALL, STATES, Piece, Read, read_path, read_source, with_facts
from doctor.scan.scanner import Matcher, Scanned
from doctor.scan.series import ROWS, ROWS_LEAST

if TYPE_CHECKING:
    from doctor.checkup import Checkup
    from doctor.plan.schema import Plan
    from doctor.profile.tables import Table

PARALLEL_FROM = 48 << 20
"""Bytes from which a second process pays for its start."""

NOT_JUDGED_KINDS = frozenset(kinds.KINDS) - kinds.LOG_KINDS - {"empty", "binary"} | {"npu_smi", "hccn_tool"}
"""Kinds that are recognised and only judged in so far as a log rule knows a text in them."""

UNDERSTOOD = frozenset((*kinds.LOG_KINDS, "profile_csv", "profile_json")) - {
    "text",
    "npu_smi",
    "hccn_tool",
    "versions",
    "shell",
    "environment",
}
"""Kinds of which silence means health."""

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
    "partial_damaged": {
        "zh": "这份部分结果不完整或被改动，已跳过；请重新生成或重新传输",
        "en": "this partial result is cut off or was changed and is left out; write or copy it again",
    },
    "partial_version": {
        "zh": "这份部分结果的格式版本不同，已跳过；请用同一版本的 doctor 重新生成",
        "en": "this partial result is of another format and is left out; write it again with the same doctor",
    },
    "partial_rules": {
        "zh": "这份部分结果用了这里没有的规则，已跳过；请用同一版本的 doctor 与规则重新生成",
        "en": "this partial result speaks of rules that are not here and is left out; write it again with the same "
        "doctor and rules",
    },
    "cut": {"zh": "文件在中途结束，只读了前面的部分", "en": "it ends in the middle; what is before was read"},
    "interrupted": {"zh": "已中断，只读了一部分", "en": "interrupted; only a part was read"},
    "time": {"zh": "到达时间上限，只读了一部分", "en": "the time limit was reached; only a part was read"},
}

INTERRUPTED: Text = {
    "zh": "已中断：以下是到目前为止的结果",
    "en": "interrupted: this is what was found so far",
}

PARTIAL_NAMES = (".part", ".partial")

NOT_A_PLAN: Text = {"zh": "读不出训练配置", "en": "describes no training run that can be read"}

NOT_JUDGED: Text = {
    "zh": "已识别，但这个版本还不判断此类输入",
    "en": "recognised, but this kind of input is not judged yet",
}
DOCUMENT: Text = {
    "zh": "讲的是可能发生的问题，不是一次运行的记录；请给出日志本身",
    "en": "tells what may happen, not what happened in a run; give the log itself",
}
NO_VALUES: Text = {
    "zh": "像是训练数据，但没能从中读出任何数值",
    "en": "looks like values of training, of which none could be read",
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
    config: str = ""
    """the configuration that the logs belong to"""
    scanned: Callable[[Sequence[Scanned]], None] | None = None
    """called with all scans, which hold the training lines"""
    known: Callable[[Source], Read | None] = lambda source: None
    """what a source holds, if somebody has read it already and it has not changed since"""
    kept: Callable[[Sequence[Kept], Sequence[Problem]], None] | None = None
    """called with what was read of each source and what could not be, to be written as a partial result"""


DEFAULTS = Options()


def diagnose(inputs: Sequence[str], options: Options = DEFAULTS, *, paste: bytes | None = None) -> Report:
    """Read every input and name the root cause.

    ``inputs`` are files, folders, globs, archives or ``-``; ``paste`` is text at hand, judged as one more input.
    Never raises for bad input: what could not be read is in ``Report.inputs`` and a finding of its own.
    """
    started = time.perf_counter()
    base = load(options.rules)
    matcher = Matcher(base, options.engine)
    loaded = time.perf_counter()
    deadline = time.monotonic() + options.max_seconds if options.max_seconds else 0.0
    read = _gather(matcher, inputs, options, paste, deadline)
    scanned = time.perf_counter()
    scans = [scan for one in read.kept if one.judged for scan in one.scans]
    if options.scanned:
        options.scanned(scans)
    if options.kept:
        options.kept(read.kept, read.problems)
    facts: dict[str, tuple[Any, str, int]] = {}
    for one in read.ordered:
        for key, (value, line) in one.facts.items():
            facts.setdefault(key, (value, one.scan.name, line))
    told = {key: value[0] for key, value in facts.items()}
    pieces = [(one.scan.name, piece) for one in read.ordered for piece in one.pieces]
    seen = [*map(_seen, read.kept), *map(problem_seen, read.problems)]
    tables = sorted((table for one in read.ordered for table in one.tables), key=lambda table: table.source)
    config = _config(base, options.config, told) if options.config else None
    if config is not None:
        pieces = [piece for piece in pieces if not _same_file(piece[0], options.config)]
        seen = [*(s for s in seen if not _same_file(s.name, options.config)), config.seen]
        plan = config.plan
    else:
        plan = _plan_among(pieces) if scans or tables else None
    judged = [scan for one in read.ordered if one.judged for scan in one.scans]
    series: tuple[dict[str, Any], ...] = ()
    crashed: dict[str, str] = {}
    if any(scan.tracks or scan.memory for scan in judged):
        from doctor import training

        values = {name: value.value for name, value in plan.values.items()} if plan else {}
        held = {_Paste.name: paste} if paste is not None else {}
        judged, series, crashed = training.judge(base, judged, read.paths, held, values)
    profiled: dict[str, Any] = {}
    if tables:
        from doctor.profile import judge as profiles

        ranks = {s.name: rank for s in seen if (rank := ranking.rank_in_name(s.name)) is not None}
        of_tables = profiles.judge(base, tables, [s.name for s in seen], plan, ranks)
        judged, profiled = [*judged, *of_tables.scans], of_tables.shown
        crashed = crashed | of_tables.crashed
    findings, diagnoses, run = ranking.judge(base, judged, told, _rank_tables(pieces))
    findings += _crashes(base, crashed)
    understood: frozenset[str] = frozenset()
    if config is not None:
        from doctor import checkup, pasted

        mine = pasted.Judged(config.findings, checkup.diagnose(base, config.findings), frozenset([options.config]))
        diagnoses = pasted.merged(diagnoses, mine, len(findings))
        findings += mine.findings
    if pieces:
        from doctor import pasted

        states = pasted.judge(base, pieces, told)
        diagnoses = pasted.merged(diagnoses, states, len(findings))
        findings += states.findings
        whole = states.sources - states.partly.keys()
        wrong = {e.source for d in states.diagnoses if d.severity in ("error", "warning") for e in d.evidence}
        seen = [
            s._replace(state="read", why={})
            if _now_judged(s, whole | wrong)
            else s._replace(why=_only(states.partly[s.name]))
            if s.state == "not_judged" and s.name in states.partly
            else s
            for s in seen
        ]
        understood = whole if any(f.verdict is Verdict.PASS for f in states.findings) else frozenset()
    if plan is not None and scans and diagnoses:
        from doctor import causes

        diagnoses = causes.draw(base, plan, diagnoses, findings, told)
    findings += tuple(input_findings(seen, scans, base))
    report = Report(
        {"kind": "inputs", "inputs": list(inputs) + (["<paste>"] if paste is not None else [])},
        "unknown",
        diagnoses,
        findings,
        tuple(seen),
        {name: {"value": value, "source": source, "line": line} for name, (value, source, line) in facts.items()}
        | ({"profile": {"value": profiled, "source": tables[0].source, "line": 0}} if profiled else {}),
        series,
        {
            "load": round(loaded - started, 4),
            "scan": round(scanned - loaded, 4),
            "judge": round(time.perf_counter() - scanned, 4),
        },
        _partial_text(read.interrupted, deadline, scans),
        read.interrupted,
        tool_info(base, matcher.engine.name),
        sum(_unexplained(base, scan) for scan in scans) + sum(bool(one.suspicious) for one in read.kept),
        run,
    )
    report = report._replace(verdict=verdict_of(report, understood))
    if report.verdict == "unknown" or {d.rule for d in report.diagnoses} == {"RUN000"}:
        report = _of_named(base, report, _certain(read.ordered, facts), understood)
    return report


def _certain(ordered: Sequence[Kept], facts: Mapping[str, tuple[Any, str, int]]) -> dict[str, tuple[Any, str, int]]:
    """The version facts of which all inputs together name one value only."""
    doubtful = {key for one in ordered for key in one.several}
    doubtful |= {key for one in ordered for key, (value, _) in one.facts.items() if value != facts[key][0]}
    return {key: fact for key, fact in facts.items() if key not in doubtful}


def _of_named(
    base: RuleBase, report: Report, facts: Mapping[str, tuple[Any, str, int]], understood: frozenset[str]
) -> Report:
    """Where no rule knows what failed, whether the versions that are named in passing belong together."""
    if sum(key.startswith("version.") for key in facts) < 2:
        return report
    from doctor import pasted

    named = pasted.named(base, facts)
    told = {d.rule for d in report.diagnoses}
    new = tuple(
        d._replace(
            finding=d.finding + len(report.findings),
            consequences=tuple(n + len(report.findings) for n in d.consequences),
        )
        for d in named.diagnoses
        if d.rule not in told
    )
    if not new:
        return report
    report = report._replace(diagnoses=new + report.diagnoses, findings=report.findings + named.findings)
    return report._replace(verdict=verdict_of(report, understood | named.sources))


class _Gathered(NamedTuple):
    """All inputs as they were read. ``ordered``: by their names, each once, so that a run gives one report however its
    parts came here; ``kept``: as they were named, unless partial results were among them."""

    kept: list[Kept]
    ordered: list[Kept]
    problems: list[Problem]
    paths: dict[str, str]
    interrupted: bool


def _gather(
    matcher: Matcher, inputs: Sequence[str], options: Options, paste: bytes | None, deadline: float
) -> _Gathered:
    """Read every input."""
    stop = _stopper(options.cancelled, deadline)
    problems: list[Problem] = []
    read_in: list[tuple[int, Kept]] = []
    large: list[tuple[int, Source]] = []
    paths: dict[str, str] = {}
    order = 0
    interrupted = merged = False
    matcher.numbered = options.kept is not None
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
            if item.path is not None:
                paths[item.name] = item.path
            before = options.known(item)
            if before is not None:
                read_in.append((order, _kept(before)))
                continue
            try:
                if _holds_partial(item):
                    merged = True
                    part = load_partial(_whole(item), matcher.base.position)
                    read_in += [(order, one) for one in part.sources]
                    problems += [Problem(*one) for one in part.problems]
                elif item.path is not None and item.size is not None and item.size > SMALL:
                    large.append((order, item))
                else:
                    read_in.append((order, _kept(read_source(matcher, item, stop, meter.on(item.name)))))
            except Damaged as error:
                problems.append(Problem(item.name, f"partial_{error.code}", error.detail))
            except OSError as error:
                problems.append(problem_of(item.name, error))
        matcher.rows = max(ROWS_LEAST, ROWS // max(1, len(large)))
        for number, read in _read_large(matcher, large, options, stop, meter):
            read_in.append((number, _kept(read)))
    except KeyboardInterrupt:
        interrupted = True
    read_in.sort(key=lambda pair: pair[0])
    kept = [one for _, one in read_in]
    ordered = union(kept, natural_key)
    if merged:
        kept, problems = ordered, sorted(set(problems))
    interrupted = interrupted or options.cancelled() or any(k.scan.problem == ("interrupted", "") for k in kept)
    return _Gathered(kept, ordered, problems, paths, interrupted)


def _crashes(base: RuleBase, crashed: dict[str, str]) -> tuple[Finding, ...]:
    """A finding for each rule whose own code failed."""
    return tuple(
        Finding(
            rule,
            Verdict.CRASH,
            {"what": what},
            severity="warning",
            topic=base[rule].topic,
            title=base.whole(rule)["title"],
        )
        for rule, what in crashed.items()
    )


def _rank_tables(pieces: Iterable[tuple[str, Piece]]) -> list[dict[str, Any]]:
    """The rank tables among the inputs, as data; one that is no JSON tells nothing here."""
    import json

    out = []
    for _, piece in pieces:
        if piece.kind == "rank_table":
            try:
                table = json.loads(piece.text)
            except (ValueError, RecursionError):
                continue
            if isinstance(table, dict):
                out.append(table)
    return out


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


class _Config(NamedTuple):
    """The configuration that the user named: its plan, what is wrong with it, and how the file was seen."""

    plan: "Plan | None"
    findings: tuple[Finding, ...]
    seen: InputSeen


def _config(base: RuleBase, path: str, facts: dict[str, Any]) -> _Config:
    from doctor import static

    try:
        plan, told = static.of_file(path, base, facts)
        size = os.stat(path).st_size
    except OSError as error:
        return _Config(None, (), problem_seen(problem_of(path, error)))
    if plan is None:
        return _Config(None, (), InputSeen(path, ("config",), size, 0, None, "not_judged", NOT_A_PLAN))
    known = tuple(f for f in told if f.verdict in (Verdict.PASS, Verdict.FAIL, Verdict.CRASH))
    return _Config(plan, known, InputSeen(path, ("config",), size, 0))


def _plan_among(pieces: Sequence[tuple[str, Piece]]) -> "Plan | None":
    """The plan of the one configuration among the inputs that can belong to the logs."""
    texts = [(name, piece.text) for name, piece in pieces if piece.kind == "config" and piece.first_line == 1]
    if not texts:
        return None
    from doctor import causes, static

    plans = [plan for name, text in texts if (plan := static.plan_of(name, text)) is not None]
    return causes.of_run([plan for plan in plans if not plan.get("file.problem")])


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


def _holds_partial(source: Source) -> bool:
    """Whether a source is a partial result; one in an archive must be named like one."""
    if source.path is None and not source.name.endswith(PARTIAL_NAMES):
        return False
    with source.open() as stream:
        return is_partial(stream.read(32))


def _whole(source: Source) -> bytes:
    """All bytes of a partial result."""
    out: list[bytes] = []
    size = 0
    with source.open() as stream:
        while data := stream.read(1 << 20):
            out.append(data)
            size += len(data)
            if size > LARGEST:
                raise Damaged("damaged", f"{size} bytes")
    return b"".join(out)


def _kept(read: Read) -> Kept:
    """What is kept of a source: its scan, what it was, and its version facts."""
    scan, names = read.scan, read.kinds
    state, why = "read", Text()
    if (not scan.size or names == ("empty",)) and not scan.problem:
        state, names = "empty", ("empty",)
    elif names == ("binary",):
        state, why = "unreadable", PROBLEM_TEXT["binary"]
    elif read.tables and not read.judged:
        state, why = _of_tables(read.tables, scan.problem)
    elif names == ("document",):
        state, why = "not_judged", DOCUMENT
    elif not read.judged or all(k in NOT_JUDGED_KINDS for k in names):
        state, why = "not_judged", NOT_JUDGED
    elif names == ("training",) and not (scan.tracks or scan.occurrences or scan.steps or read.ranks):
        state, why = "not_judged", NO_VALUES
    elif scan.problem:
        state, why = "partial", _problem_text(*scan.problem)
    elif scan.cancelled:
        state, why = "partial", PROBLEM_TEXT["time"]
    read = with_facts(read)
    return Kept(
        scan._replace(head=b""), names, read.judged, state, why, read.suspicious, read.pieces, dict(read.facts or {}),
        read.tables, tuple(own._replace(head=b"") for own in read.ranks), read.several,
    )  # fmt: skip


def _seen(one: Kept) -> InputSeen:
    scan = one.scan
    return InputSeen(scan.name, one.kinds, scan.size, scan.lines, scan.rank, one.state, one.why)


def _of_tables(tables: "Sequence[Table]", problem: tuple[str, str] | None) -> tuple[str, Text]:
    """(state, why) of an input that a profiler wrote."""
    from doctor.profile import unread

    if problem:
        return "partial", _problem_text(*problem)
    why = next((text for table in tables if (text := unread(table))), Text())
    if why:
        return "not_judged", why
    return ("partial", PROBLEM_TEXT["cut"]) if any(table.cut for table in tables) else ("read", Text())


SETTINGS = 8
"""Settings of notes that are named as judged."""


def _only(settings: Sequence[str]) -> Text:
    """Why notes are not judged as a whole."""
    more = len(settings) > SETTINGS
    shown = settings[:SETTINGS]
    return {
        "zh": "只能判断其中这些设置，未见问题：" + "、".join(shown) + (" 等" if more else ""),
        "en": "only these settings could be judged, nothing wrong in them: "
        + ", ".join(shown)
        + (" and others" if more else ""),
    }


def _now_judged(seen: InputSeen, sources: frozenset[str]) -> bool:
    """Whether an input of which no rule knows the kind was judged by checks."""
    return seen.state == "not_judged" and seen.name in sources and STATES.issuperset(seen.kinds)


def _read_large(
    matcher: Matcher, large: Sequence[tuple[int, Source]], options: Options, stop: Callable[[], bool], meter: _Meter
) -> Iterable[tuple[int, Read]]:
    """Read plain files, in several processes when that pays."""
    total = sum(source.size or 0 for _, source in large)
    meter.total = total
    workers = options.jobs or min(os.cpu_count() or 1, len(large), 8)
    if workers > 1 and len(large) > 1 and total >= PARALLEL_FROM:
        from doctor.scan.parallel import read_files

        paths = [(source.name, source.path or "") for _, source in large]
        for n, read in read_files(matcher, paths, workers, stop, meter.on("")):
            yield large[n][0], read
        return
    for order, source in large:
        if stop():
            return
        yield order, read_path(matcher, source.name, source.path or "", stop, meter.on(source.name))


# ------------------------------------------------------------------ the report


def _problem_text(code: str, detail: str) -> Text:
    known = PROBLEM_TEXT.get(code, PROBLEM_TEXT["unreadable"])
    return {lang: f"{text} ({detail})" if detail else text for lang, text in known.items()}


def problem_seen(problem: Problem) -> InputSeen:
    """An input that could not be read, with the reason in words."""
    return InputSeen(problem.name, (), 0, 0, None, "unreadable", _problem_text(problem.code, problem.detail))


def input_findings(seen: Sequence[InputSeen], scans: Sequence[Scanned], base: RuleBase) -> list[Finding]:
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
            words = {lang: ", ".join(tr(lang, f"kind.{k}") for k in one.kinds) for lang in LANGUAGES}
            why = one.why or NOT_JUDGED
            title = {
                "zh": f"{one.name}：{words['zh']}，{why['zh']}",
                "en": f"{one.name}: {words['en']}, {why['en']}",
            }
            found.append(Finding("INPUT", Verdict.UNKNOWN, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 severity="advice", confidence="certain", title=title, why=one.why))  # fmt: skip
        elif one.state == "empty" and len(seen) == 1:
            title = {"zh": f"{one.name} 是空的", "en": f"{one.name} is empty"}
            found.append(Finding("INPUT", Verdict.UNKNOWN, {"name": one.name}, (Evidence(one.name, 0, ""),),
                                 severity="warning", confidence="certain", title=title))  # fmt: skip
        elif one.state == "empty":
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


def add_files(
    run: "Checkup", inputs: Sequence[InputSeen], findings: Sequence[Finding], plans: "Sequence[Plan]"
) -> None:
    """Put what stands in files into the report of a checkup: the findings, those about the files themselves, and the
    memory that each plan takes, and its weight file beside the model."""
    from doctor.model import Fact
    from doctor.plan import show

    run.inputs = tuple(inputs)
    run.more = (*findings, *input_findings(inputs, [], run.base))
    tables = [{"file": plan.file, **{lang: show.memory_table(plan, lang) for lang in LANGUAGES}} for plan in plans]
    if tables:
        run.facts["plan.memory"] = Fact("plan.memory", tables)
    weights = show.weight_facts(plans)
    if weights:
        run.facts["plan.weights"] = Fact("plan.weights", weights)


def _partial_text(interrupted: bool, deadline: float, scans: Sequence[Scanned]) -> Text:
    if interrupted:
        return INTERRUPTED
    if deadline and any(scan.cancelled or scan.problem == ("time", "") for scan in scans):
        return {"zh": "到达时间上限：以下是到目前为止的结果", "en": "time limit reached: this is what was found so far"}
    return {}


def _unexplained(base: RuleBase, scan: Scanned) -> int:
    """Lines that look like a failure, that no rule knows, and after which the run did not go on."""
    known = {o.line for o in scan.occurrences}
    return sum(
        1
        for error in scan.errors
        if error.line not in known and error.level != "WARNING" and scan.steps - error.steps < ranking.GOES_ON
    )


def verdict_of(report: Report, checked: frozenset[str] = frozenset()) -> str:
    """error, warning, advice, healthy or unknown; healthy only if all that was read was understood. ``checked``: the
    inputs that checks have judged."""
    found = worst([d.severity for d in report.diagnoses])
    if found in ("error", "warning"):
        return str(found)
    judged = [s for s in report.inputs if s.state == "read" and (UNDERSTOOD.intersection(s.kinds) or s.name in checked)]
    if not judged or any(s.state in ("unreadable", "partial") for s in report.inputs) or report.partial:
        return "unknown"
    if found:
        return str(found)
    # a line that looks like a failure and that nothing explains is no proof of health
    return "unknown" if report.unexplained else "healthy"


def exit_code(report: Report, fail_on: str = "error") -> int:
    """0 nothing at or above ``fail_on``, 1 findings, 2 nothing could be read, 130 interrupted."""
    if report.interrupted:
        return 130
    usable = [s for s in report.inputs if s.state not in ("unreadable", "empty")]
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
