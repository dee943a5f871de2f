"""Findings → diagnoses: cause before consequence, the rank that failed first, recovered troubles last.

The earliest serious line is not the root cause: a rank may print a traceback, recover and train on for hours. So a
finding is first asked whether its rank went on stepping; only then do role, time and specificity decide.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.groups import (
    CLASS,
    EXCEPTION,
    GOES_ON,
    STRONG,
    Group,
    applicable,
    code_of,
    groups_of,
    place_of,
    role_of,
    survives,
)
from doctor.groups import Place as Where
from doctor.model import CONFIDENCES, NOWHERE, Diagnosis, Evidence, Finding, Fix, Place, Text, Verdict
from doctor.rulebase import RuleBase
from doctor.run import lanes
from doctor.run.places import Source, place_sources
from doctor.scan.lazy import lazy
from doctor.scan.records import rank_in_name
from doctor.scan.scanner import Occurrence, Scanned

if TYPE_CHECKING:
    from doctor import culprit

UNRECOGNISED = "RUN000"
NEIGHBOURS = 60.0
"""Seconds by which a time taken from a neighbouring line may be wrong."""


class _Cause(NamedTuple):
    """One rule over all its ranks, with what sorting needs."""

    rule: str
    topic: str
    severity: str
    role: str
    priority: int
    groups: tuple[Group, ...]

    @property
    def lead(self) -> Group:
        return self.groups[0]


def _severity_class(cause: _Cause) -> int:
    if cause.rule.startswith("CODE:"):
        return {"error": 2, "warning": 3, "advice": 5}[cause.severity] + (
            1 if cause.role in ("wrapper", "detail") else 0
        )
    return {"error": 0, "warning": 1, "advice": 4}[cause.severity]


def _moment(group: Group, timed: bool) -> tuple[float, int, int]:
    if timed and group.moment is not None:
        return (group.moment, *group.order)
    return (group.seconds if timed and group.seconds is not None else 0.0, *group.order)


def _causes(base: RuleBase, groups: Sequence[Group], timed: bool, first_place: Where | None = None) -> list[_Cause]:
    by_rule: dict[str, list[Group]] = {}
    for group in groups:
        by_rule.setdefault(group.rule, []).append(group)
    causes = []
    for rule_id, members in by_rule.items():
        members.sort(key=lambda g: (g.recovered, place_of(g) != first_place, *_moment(g, timed)))
        if rule_id.startswith("CODE:"):
            code = code_of(base, rule_id)
            causes.append(_Cause(rule_id, code["topic"], code["severity"], code["role"], 5, tuple(members)))
        else:
            rule = base[rule_id]
            causes.append(_Cause(rule_id, rule.topic, rule.severity, rule.role, rule.priority, tuple(members)))
    return causes


def _covers_topic(target: str, rule_id: str, topic: str) -> bool:
    if target.endswith(".*"):
        return topic.startswith(target[:-1])
    return target in (rule_id, topic)


def _times(a: Group, b: Group, timed: bool) -> tuple[float | None, float | None]:
    """When two groups happened, by one clock: their own on one source, the common one over ranks."""
    if a.moment is not None and b.moment is not None:
        return a.moment, b.moment
    return (a.seconds, b.seconds) if timed else (None, None)


def _explains(base: RuleBase, cause: _Cause, other: _Cause, timed: bool, doubt: float) -> bool:
    if cause.rule == other.rule:
        return False
    explains = base[cause.rule].explains
    a, b = cause.lead, other.lead
    if a.recovered and not b.recovered:
        return False
    for entry in explains:
        if not _covers_topic(entry.target, other.rule, other.topic):
            continue
        first, then = _times(a, b, timed)
        if first is not None and then is not None:
            slack = doubt + (1 if a.seconds is not None and b.seconds is not None else NEIGHBOURS)
            if first > then + slack or (entry.within and then - first > entry.within + slack):
                continue
        if entry.scope == "same_rank":
            mine, theirs = {g.rank for g in cause.groups}, {g.rank for g in other.groups}
            if not mine & theirs:
                continue
        return True
    return False


def _order(
    cause: _Cause,
    rank_order: dict[Where, int],
    timed: bool,
    several: bool,
    first_place: Where | None,
) -> tuple[Any, ...]:
    alike = [g for g in cause.groups if g.recovered == cause.lead.recovered]
    first = min(rank_order.get(place_of(g), len(rank_order)) for g in alike)
    either = 5 if cause.role == "either" else 0
    blamed = _blamed(cause, first_place)
    return (
        cause.lead.recovered,
        # an exception that ended a rank is an error there, though its rule only warns
        0 if blamed and cause.lead.kind == "own" else _severity_class(cause),
        # what the rank that failed first says of its own failure
        not blamed,
        # of a whole run that ended, what ended it comes before what it could live with, unless that is what ended it
        several and survives(cause.topic) and not (blamed and cause.lead.kind == "own"),
        # of a broken transfer only the other end may be to blame
        max(CLASS[cause.role], int(cause.lead.kind == "wait")),
        first,
        -(cause.priority - either),
        _moment(cause.lead, timed),
        cause.rule,
    )


def _blamed(cause: _Cause, place: Where | None) -> bool:
    return place is not None and any(
        g.kind in ("own", "weak") and not g.recovered and place_of(g) == place for g in cause.groups
    )


def _rank_order(causes: Sequence[_Cause], timed: bool) -> dict[Where, int]:
    """Places by the moment of their first failure that is no mere consequence and was not recovered from."""
    firsts: dict[Where, tuple[float, int, int]] = {}
    for cause in causes:
        if cause.severity != "error" or CLASS[cause.role] > 0 or cause.rule.startswith("CODE:"):
            continue
        for group in cause.groups:
            if not group.recovered:
                moment = _moment(group, timed)
                where = place_of(group)
                firsts[where] = min(firsts.get(where, moment), moment)
    return {where: n for n, where in enumerate(sorted(firsts, key=lambda w: firsts[w]))}


class Judged(NamedTuple):
    """Findings (one for each rule and place), diagnoses, the most probable root cause first, and ``Report.run``."""

    findings: tuple[Finding, ...]
    diagnoses: tuple[Diagnosis, ...]
    run: dict[str, Any]


def rank(
    base: RuleBase, scans: Sequence[Scanned], facts: dict[str, Any]
) -> tuple[tuple[Finding, ...], tuple[Diagnosis, ...]]:
    """Findings and diagnoses of some sources."""
    judged = judge(base, scans, facts)
    return judged.findings, judged.diagnoses


def judge(
    base: RuleBase, scans: Sequence[Scanned], facts: dict[str, Any], tables: Sequence[Mapping[str, Any]] = ()
) -> Judged:
    """Findings, diagnoses and, of sources of several ranks, the story of the run. ``tables``: rank tables."""
    sources = place_sources(scans)
    run = lanes.assemble([source for source in sources if not source.past])
    groups = groups_of(base, sources, facts, run)
    case = None
    if run:
        from doctor import culprit

        case = culprit.examine(base, run, sources, groups, tables)
    first_place = case.place if case else None
    groups = case.groups if case else groups
    serious = [g for g in groups if CLASS[role_of(base, g.rule)] < 4]
    timed = run is not None or (len(serious) > 0 and all(g.seconds is not None for g in serious))
    causes = _causes(base, groups, timed, first_place)
    order = _rank_order(causes, timed)
    several = len(sources) > 1
    causes.sort(key=lambda c: _order(c, order, timed, several, first_place))
    findings: list[Finding] = []
    at: dict[str, list[int]] = {}
    places: list[Group] = []
    for cause in causes:
        for group in cause.groups:
            at.setdefault(cause.rule, []).append(len(findings))
            findings.append(_finding(base, cause, group, facts))
            places.append(group)
    shown = [c for c in causes if c.role != "noise"]
    doubt = run.clocks.doubt if run else 0.0
    head = _without_words(base, case, sources)
    parent = _nest(base, shown, timed, doubt, first_place, head.rule if head else "")
    diagnoses: list[Diagnosis] = []
    if head:
        below = [i for c in shown if _top(parent, c.rule) == head.rule for i in at[c.rule]]
        findings.append(head.finding)
        diagnoses.append(_plain_diagnosis(base, head, len(findings) - 1, tuple(below)))
    for cause in shown:
        if cause.rule in parent:
            continue
        under = [c for c in shown if _top(parent, c.rule) == cause.rule and c.rule != cause.rule]
        consequences = tuple(i for c in under for i in at[c.rule])
        diagnoses.append(_diagnosis(base, cause, at[cause.rule][0], consequences, findings))
    if not any(d.severity in ("error", "warning") and not _is_wrapper_code(base, d) for d in diagnoses):
        unknown = unrecognised(base, sources)
        if unknown:
            findings.append(unknown)
            # a code of the catalogue says at least which family failed
            place = sum(1 for d in diagnoses if d.severity in ("error", "warning"))
            diagnoses.insert(place, _plain_diagnosis(base, _Head(unknown.id, unknown, ()), len(findings) - 1))
    told: dict[str, Any] = {}
    if case:
        lead = None if head or not diagnoses or not causes else causes[0].lead
        top = diagnoses[0].finding if diagnoses else None
        if diagnoses and (diagnoses[0].severity != "error" or (lead and lead.recovered)):
            lead = top = None
        from doctor import culprit

        told = culprit.tell(case, places, range(len(places)), top, lead)
    return Judged(tuple(findings), tuple(diagnoses), told)


class _Head(NamedTuple):
    """A first diagnosis that no line of a rule gives: a rank without a word, or a failure that no rule knows."""

    rule: str
    finding: Finding
    ranks: tuple[int, ...]


def _without_words(base: RuleBase, case: "culprit.Case | None", sources: Sequence[Source]) -> _Head | None:
    """The head of the report where the rank that failed first has no line that a rule knows."""
    if case is None:
        return None
    if case.unknown is not None:
        source, error = case.unknown
        finding = unrecognised(base, [source], error)
        return (
            _Head(UNRECOGNISED, finding, (finding.place.rank,)) if finding and finding.place.rank is not None else None
        )
    if not case.gone or case.gone not in base:
        return None
    from doctor import culprit

    rule = base[case.gone]
    ranks = case.blame.ranks
    first = case.run.lanes.get(ranks[0]) if ranks else None
    evidence: list[Evidence] = []
    if first is not None and first.sources:
        scan = first.sources[0].scan
        tail = scan.tail[-3:] or ("",)
        evidence.append(Evidence(scan.name, scan.lines, tail[-1], tail[:-1]))
        evidence += [_evidence(*last) for last in culprit.last_errors(case.run, first)]
    if case.blame.exit is not None:
        evidence.append(_evidence(case.blame.exit.source, case.blame.exit.seen))
    evidence += [_evidence(*case.waits.words[rank]) for rank in ranks[:1] if rank in case.waits.words]
    if not evidence:
        waited = next((rank for rank in case.waits.edges), None)
        lane = case.run.lanes.get(waited) if waited is not None else None
        evidence.append(Evidence(lane.source if lane and lane.sources else sources[0].scan.name, 0, ""))
    place = Place((first.host or None) if first else None, ranks[0] if len(ranks) == 1 else None)
    confidence = rule.confidence if case.blame.sure else "guess"
    title = fill_both(base.whole(rule.id)["title"], case.args)
    finding = Finding(
        rule.id, Verdict.FAIL, dict(case.args), tuple(evidence), place, rule.severity, confidence, rule.topic,
        rule.role, title, None,
    )  # fmt: skip
    return _Head(rule.id, finding, ranks)


def _is_wrapper_code(base: RuleBase, diagnosis: Diagnosis) -> bool:
    return diagnosis.rule.startswith("CODE:") and role_of(base, diagnosis.rule) in ("wrapper", "detail")


def _nest(
    base: RuleBase, shown: Sequence[_Cause], timed: bool, doubt: float, first_place: Where | None, head: str
) -> dict[str, str]:
    """rule → rule that explains it. What is no cause goes under the head of the list when that one is a cause, or the
    failure of the rank that failed first; ``head``: a rule that comes before the list."""
    parent: dict[str, str] = {}
    explainers = [c for c in shown if c.rule in base and base[c.rule].explains]
    for other in shown:
        if not head and other is shown[0] and _blamed(other, first_place):
            continue
        for cause in explainers:
            if _explains(base, cause, other, timed, doubt) and _top(parent, cause.rule) != other.rule:
                parent[other.rule] = cause.rule
                break
    heads = [c for c in shown if c.rule not in parent]
    if head:
        for cause in heads:
            if (
                cause.severity == "error"
                and not cause.lead.recovered
                and (CLASS[cause.role] > 0 or cause.lead.kind == "wait" or cause.rule.startswith("CODE:"))
            ):
                parent[cause.rule] = head
    elif heads and heads[0].severity == "error" and not heads[0].lead.recovered:
        blamed = _blamed(heads[0], first_place)
        for cause in heads[1:]:
            if (
                CLASS[cause.role] > CLASS[heads[0].role]
                or cause.rule.startswith("CODE:")
                or (blamed and cause.lead.kind in ("wait", "exit", "stopped"))
            ):
                parent[cause.rule] = heads[0].rule
    return parent


def _top(parent: dict[str, str], rule: str) -> str:
    for _ in range(len(parent) + 1):
        if rule not in parent:
            return rule
        rule = parent[rule]
    return rule


def _evidence(source: Source, occurrence: Occurrence) -> Evidence:
    return Evidence(source.scan.name, occurrence.line, occurrence.text, occurrence.before, occurrence.after)


def _confidence(base: RuleBase, rule_id: str, facts: dict[str, Any]) -> str:
    if rule_id.startswith("CODE:"):
        return "likely"
    rule = base[rule_id]
    if rule.applies_to and applicable(rule, facts) is None:
        return max(rule.confidence, "likely", key=CONFIDENCES.index)
    return rule.confidence


def _finding(base: RuleBase, cause: _Cause, group: Group, facts: dict[str, Any]) -> Finding:
    if cause.rule.startswith("CODE:"):
        code = code_of(base, cause.rule)
        title: Text = {lang: f"{code['code']} {code['name']}".strip() for lang in ("zh", "en")}
    else:
        title = fill_both(base.whole(cause.rule)["title"], group.first.args)
    return Finding(
        cause.rule, Verdict.FAIL, dict(group.first.args), (_evidence(group.source, group.first),),
        Place(group.source.host, group.rank, group.first.device), cause.severity,
        _confidence(base, cause.rule, facts), cause.topic, cause.role, title, group.seconds, group.times,
        group.recovered,
    )  # fmt: skip


def _diagnosis(
    base: RuleBase, cause: _Cause, finding: int, consequences: tuple[int, ...], findings: Sequence[Finding]
) -> Diagnosis:
    lead = cause.lead
    # of ranks that say the same, as of a collective that they compare, those that only waited are not meant
    alike = [g for g in cause.groups if g.recovered == lead.recovered and (g.kind == lead.kind or g.kind != "wait")]
    ranks = tuple(sorted({g.rank for g in alike if g.rank is not None}))
    evidence = tuple(_evidence(g.source, g.first) for g in cause.groups[:3])
    note: Text = {}
    if lead.recovered:
        note = {
            "zh": "该进程在此之后仍继续训练，因此这多半不是失败的原因。",
            "en": "The process went on training after this, so it is hardly the cause of a failure.",
        }
    severity = "advice" if lead.recovered and cause.severity != "error" else cause.severity
    if lead.recovered and severity == "error":
        severity = "warning"
    own = findings[finding]
    fixes: tuple[Fix, ...] = ()
    if cause.rule.startswith("CODE:"):
        code = code_of(base, cause.rule)
        text = code["meaning"]
        ask: Text = code["next"] or {
            "zh": "目录里没有这个码的处理办法：请查看同一错误块中第一行有含义的文字，以及同一时刻各进程的日志。",
            "en": "The catalogue knows no remedy: read the first telling line of the same error block and the other "
            "ranks' logs of that moment.",
        }
    else:
        whole = base.whole(cause.rule)
        text = fill_both(whole["cause"], lead.first.args)
        ask = fill_both(whole["next"], lead.first.args)
        fixes = tuple(
            Fix(f"{cause.rule}-{n + 1}", f["applicability"], fill_both({"zh": f["zh"], "en": f["en"]}, lead.first.args),
                (), plain_choices(f["choices"]))
            for n, f in enumerate(whole["fix"])
        )  # fmt: skip
    return Diagnosis(
        cause.rule, cause.topic, severity, own.confidence, own.title, text, ask, own.place, ranks, evidence, finding,
        consequences, fixes, sum(g.times for g in cause.groups), note,
    )  # fmt: skip


FIELD = lazy(r"\{([a-z_][a-z0-9_]*)(\??)\}")


_BYTES = lazy(r"\{([a-z_][a-z0-9_]*)\??\} ?(?:B\b|bytes\b|字节)")
_PIECE = lazy(r"\[\[([^\[\]]{0,400})\]\]")
_BRACKET = lazy(r" ?[(（][^()（）]{0,400}[)）]")
_HOLE = "\0"  # where a value is absent, until what stood around it is mended
_EMPTY = lazy(r" ?[(（\[][ ,，、;；:：=/\0]{0,12}\0[ ,，、;；:：=/\0]{0,12}[)）\]]")
_OPENS = lazy(r"([(（] ?)\0[\0 ,，、;；:：=/]{0,12}")
_CLOSES = lazy(r"[\0 ,，、;；:：=/]{0,12}\0 ?([)）])")
_APART = lazy(r"(?<=\S) [\0 ]{0,24}\0[\0 ]{0,24}(?=\S)")
_LOOSE = lazy(r" ([,.;:，。；：])(?=\s|$)")


def fill(template: str, args: dict[str, str]) -> str:
    """Fill ``{name}`` and ``{name?}`` from captures; plain text in, plain text out, nothing is evaluated.

    >>> fill("rank {rank} of {n?}", {"rank": "3"})
    'rank 3 of '
    >>> fill("device {device?} ({why?}, {code?}) failed", {"code": "7"})
    'device (7) failed'

    A bracket with ``{name}`` is left out whole if the value is absent, and so is a piece in double square brackets if a
    value of its own is absent or empty:

    >>> fill("link cut (return {code}, device {device})[[; fault codes: {codes?}]]", {"code": "7"})
    'link cut'

    A number of bytes is written as people read it:

    >>> fill("{used} B used of {limit} bytes", {"used": "29356337664", "limit": "512"})
    '27.34 GiB used of 512 bytes'
    """
    if "[[" in template:
        template = _PIECE.sub(lambda piece: _HOLE if _lacks(piece[1], args) else piece[1], template)
    template = _BRACKET.sub(lambda bracket: "" if _lacks(bracket[0], args, needed=True) else bracket[0], template)

    def one(found: re.Match[str]) -> str:
        value = args.get(found[1])
        if not value:
            return _HOLE if found[2] or value is not None else "…"
        value = " ".join(value.replace(_HOLE, " ").split())
        return value if len(value) <= 200 else value[:200] + "…"

    def bytes_of(found: re.Match[str]) -> str:
        value = args.get(found[1], "")
        return size_text(int(value)) if value.isascii() and value.isdigit() and 4 <= len(value) <= 18 else found[0]

    template = _BYTES.sub(bytes_of, template)
    filled = FIELD.sub(one, template)
    if _HOLE in filled:
        # an absent value leaves no hole: no empty brackets, no lone comma, no double blank, no blank before a full stop
        filled = _EMPTY.sub("", filled)
        filled = _OPENS.sub(r"\1", filled)
        filled = _CLOSES.sub(r"\1", filled)
        filled = _APART.sub(" ", filled)
        filled = _LOOSE.sub(r"\1", filled.replace(_HOLE, ""))
    return filled


def size_text(size: int) -> str:
    """Bytes in binary units.

    >>> [size_text(n) for n in (1000, 1536, 301990400, 29356337664)]
    ['1,000 B', '1.50 KiB', '288 MiB', '27.34 GiB']
    """
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >> bits:
            return f"{size / (1 << bits):,.2f} {unit}".replace(".00 ", " ")
    return f"{size:,} B"


def _lacks(piece: str, args: dict[str, str], *, needed: bool = False) -> bool:
    """Whether a value that a piece of a text is about is absent; ``needed``: one that is not marked as optional."""
    return any(not args.get(name) for name, mark in FIELD.findall(piece) if not (needed and mark))


def plain_choices(choices: Sequence[Any]) -> tuple[str, ...]:
    """The alternatives of a fix that are values; settings of several keys are told by ``doctor fix``, with the file."""
    return tuple(str(choice) for choice in choices if not isinstance(choice, dict))


def fill_both(texts: dict[str, str], args: dict[str, str]) -> Text:
    """``fill`` in every language."""
    return {lang: fill(text, args) for lang, text in texts.items()}


def unrecognised(base: RuleBase, sources: Sequence[Source], line: Occurrence | None = None) -> Finding | None:
    """RUN000: something failed, and no rule knows it. The last exception of the earliest failing place tells most,
    unless the ``line`` is known."""
    best: tuple[tuple[Any, ...], Source, Occurrence] | None = None
    if line is not None:
        best = ((), sources[0], line)
    for source in sources if line is None else ():
        noise = {o.line for o in source.scan.occurrences if o.rule in base and base[o.rule].role == "noise"}
        for error in source.scan.errors:
            if error.line in noise or not (STRONG.search(error.text) or error.level in ("ERROR", "CRITICAL")):
                continue
            recovered = source.scan.steps - error.steps >= GOES_ON
            if recovered:
                continue
            plain = bool(EXCEPTION.match(error.text))
            key = (plain, error.level in ("ERROR", "CRITICAL"), -source.order, error.line)
            if best is None or key > best[0]:
                best = (key, source, error)
    if best is None:
        return None
    _, source, error = best
    title: Text = {
        "zh": "运行失败，原因未被现有规则识别",
        "en": "The run failed for a reason that no rule knows yet",
    }
    if UNRECOGNISED in base:
        title = base.whole(UNRECOGNISED)["title"]
    rank_ = error.rank if error.rank is not None else source.rank
    return Finding(
        UNRECOGNISED, Verdict.FAIL, {"text": error.text[:200]}, (_evidence(source, error),),
        Place(source.host, rank_, error.device), "error", "guess", "run.failed_unrecognised", "root", title,
        error.seconds, source.scan.error_count,
    )  # fmt: skip


def _plain_diagnosis(base: RuleBase, head: _Head, index: int, consequences: tuple[int, ...] = ()) -> Diagnosis:
    """The diagnosis of a finding that no single line gives."""
    finding = head.finding
    cause: Text = {
        "zh": "日志里有失败的迹象，但没有规则解释它。上面列出最能说明问题的一行。",
        "en": "The log shows a failure that no rule explains. The most telling line is shown above.",
    }
    ask: Text = {
        "zh": "请收集：全部进程的完整日志（不只末尾）、同一时刻的 CANN plog、pip list 与 CANN 版本，再诊断一次；"
        "也可以用 doctor rules new 为它写一条规则。",
        "en": "Collect the whole logs of all ranks (not only the end), the CANN plogs of the same moment, pip list and "
        "the CANN version, and diagnose again; doctor rules new writes a rule for it.",
    }
    if head.rule in base:
        whole = base.whole(head.rule)
        cause, ask = fill_both(whole["cause"], finding.args), fill_both(whole["next"], finding.args)
    ranks = head.ranks or ((finding.place.rank,) if finding.place.rank is not None else ())
    return Diagnosis(
        head.rule, finding.topic, finding.severity, finding.confidence, finding.title, cause, ask, finding.place,
        ranks, finding.evidence, index, consequences,
    )  # fmt: skip


__all__ = [
    "GOES_ON", "NOWHERE", "Group", "Source", "applicable", "fill", "fill_both", "judge", "rank", "rank_in_name",
]  # fmt: skip
