"""Findings → diagnoses: cause before consequence, the rank that failed first, recovered troubles last.

The earliest serious line is not the root cause: a rank may print a traceback, recover and train on for hours. So a
finding is first asked whether its rank went on stepping; only then do role, time and specificity decide.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from doctor.model import CONFIDENCES, NOWHERE, Diagnosis, Evidence, Finding, Fix, Place, Text, Verdict
from doctor.rulebase import Rule, RuleBase
from doctor.scan.lazy import lazy
from doctor.scan.records import rank_in_name
from doctor.scan.scanner import Occurrence, Scanned
from doctor.version import in_range

GOES_ON = 3
"""Steps printed after a trouble that make it a recovered one; one or two may still have been in flight."""

SURVIVES = ("numerics.", "perf.", "config.", "train.", "data.padding", "memory.headroom", "env.log_level", "healthy")
"""Topics that do not stop a run: going on is no recovery from them."""

UNRECOGNISED = "RUN000"

_PLOG_PID = lazy(r"(?:plog|device)-(\d+)_\d+")
_STRONG = lazy(
    r"Traceback \(most recent call last\)|^\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b:? |[Ss]egmentation fault"
    r"|Aborted \(core dumped\)|^Killed|Bus error|\[(?:ERROR|CRITICAL)\]|^FATAL|^ERROR\b"
)
_EXCEPTION = lazy(r"^\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")


class Source(NamedTuple):
    """A scanned source with what its name and its neighbours say of it."""

    scan: Scanned
    order: int
    rank: int | None
    host: str | None


class Group(NamedTuple):
    """All occurrences of one rule on one rank (or in one source whose rank is not known)."""

    rule: str
    rank: int | None
    source: Source
    first: Occurrence
    times: int
    recovered: bool
    seconds: float | None
    order: tuple[int, int]


def place_sources(scans: Sequence[Scanned]) -> list[Source]:
    """Give each source its rank: what it says itself, its name, or the rank of the worker with the same pid."""
    ranks: list[int | None] = []
    by_pid: dict[int, int] = {}
    for scan in scans:
        named = rank_in_name(scan.name)
        rank = scan.rank if scan.rank is not None and (named is None or scan.rank != named) else named
        if _PLOG_PID.search(scan.name):
            rank = None
        ranks.append(rank)
        if rank is not None:
            for pid in scan.pids[:4]:
                by_pid.setdefault(pid, rank)
    out = []
    for order, (scan, rank) in enumerate(zip(scans, ranks, strict=True)):
        if rank is None:
            found = _PLOG_PID.search(scan.name)
            pids: Iterable[int] = [int(found[1])] if found else ([] if "scheduler" in scan.name else scan.pids[:2])
            rank = next((by_pid[p] for p in pids if p in by_pid), None) if found or len(scan.pids) == 1 else None
        out.append(Source(scan, order, rank, None))
    return out


def _survives(topic: str) -> bool:
    return topic.startswith(SURVIVES)


def _recovered(topic: str, source: Source, occurrence: Occurrence, last_step: dict[int, float]) -> bool:
    if _survives(topic):
        return False
    if source.scan.steps - occurrence.steps >= GOES_ON:
        return True
    rank = occurrence.rank if occurrence.rank is not None else source.rank
    stepped = last_step.get(rank) if rank is not None else None
    # a plog has no steps; its rank's worker log has, and counts if that rank did not fail afterwards
    return bool(
        not source.scan.steps and stepped is not None and occurrence.seconds and stepped > occurrence.seconds + 120
    )


def _failed(base: RuleBase, scan: Scanned) -> bool:
    """Whether a log shows a failure after which no steps follow, known to a rule or not."""
    late = [o for o in (*scan.occurrences, *scan.errors) if scan.steps - o.steps < GOES_ON]
    return any(
        (not o.rule and _STRONG.search(o.text)) or (o.rule in base and base[o.rule].severity == "error") for o in late
    )


def applicable(rule: Rule, facts: dict[str, Any]) -> bool | None:
    """Whether the rule speaks of the versions and devices known here; None if it cannot be told."""
    answer: bool | None = True
    for name, ranges in rule.applies_to.items():
        if name == "devices":
            chip = facts.get("device.chip")
            if chip is None:
                answer = None
            elif not any(str(chip).upper().startswith(str(d).upper()) for d in ranges):
                return False
            continue
        have = facts.get(f"version.{name}")
        if have is None:
            answer = None
            continue
        try:
            if not in_range(str(have), str(ranges)):
                return False
        except ValueError:
            answer = None
    return answer


def groups_of(base: RuleBase, sources: Sequence[Source], facts: dict[str, Any]) -> list[Group]:
    """Occurrences by rule and rank; rules for other versions are left out."""
    last_step: dict[int, float] = {}
    for source in sources:
        if source.rank is not None and source.scan.last_step[1] is not None and not _failed(base, source.scan):
            last_step[source.rank] = max(last_step.get(source.rank, 0.0), source.scan.last_step[1])
    table: dict[tuple[str, int | None, int], list[tuple[Source, Occurrence]]] = {}
    for source in sources:
        for occurrence in source.scan.occurrences:
            rank = occurrence.rank if occurrence.rank is not None else source.rank
            # one rank's worker log and plog are one place; sources without a rank stay apart
            key = (occurrence.rule, rank, -1 if rank is not None else source.order)
            table.setdefault(key, []).append((source, occurrence))
    groups = []
    for (rule_id, rank, _), seen in table.items():
        topic = _topic(base, rule_id)
        if rule_id in base and applicable(base[rule_id], facts) is False:
            continue
        alive = [(s, o) for s, o in seen if not _recovered(topic, s, o, last_step)]
        source, first = (alive or seen)[0]
        count = sum({id(s): s.scan.counts.get(rule_id, 0) for s, _ in seen}.values())
        groups.append(
            Group(rule_id, rank, source, first, max(count, len(seen) if rank is not None else count), not alive,
                  first.seconds, (source.order, first.line))
        )  # fmt: skip
    return groups


def _code(base: RuleBase, rule_id: str) -> dict[str, Any]:
    """The catalogue entry behind a CODE: finding."""
    found = base.code(rule_id[5:])
    assert found is not None
    return found


def _topic(base: RuleBase, rule_id: str) -> str:
    if rule_id.startswith("CODE:"):
        return str(_code(base, rule_id)["topic"])
    return base[rule_id].topic if rule_id in base else ""


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


_CLASS = {"root": 0, "either": 0, "symptom": 1, "pointer": 2, "wrapper": 3, "detail": 4, "noise": 9}


def _severity_class(cause: _Cause) -> int:
    if cause.rule.startswith("CODE:"):
        return {"error": 2, "warning": 3, "advice": 5}[cause.severity] + (
            1 if cause.role in ("wrapper", "detail") else 0
        )
    return {"error": 0, "warning": 1, "advice": 4}[cause.severity]


def _moment(group: Group, timed: bool) -> tuple[float, int, int]:
    return (group.seconds if timed and group.seconds is not None else 0.0, *group.order)


def _causes(base: RuleBase, groups: Sequence[Group], timed: bool) -> list[_Cause]:
    by_rule: dict[str, list[Group]] = {}
    for group in groups:
        by_rule.setdefault(group.rule, []).append(group)
    causes = []
    for rule_id, members in by_rule.items():
        members.sort(key=lambda g: (g.recovered, *_moment(g, timed)))
        if rule_id.startswith("CODE:"):
            code = _code(base, rule_id)
            causes.append(_Cause(rule_id, code["topic"], code["severity"], code["role"], 5, tuple(members)))
        else:
            rule = base[rule_id]
            causes.append(_Cause(rule_id, rule.topic, rule.severity, rule.role, rule.priority, tuple(members)))
    return causes


def _covers_topic(target: str, rule_id: str, topic: str) -> bool:
    if target.endswith(".*"):
        return topic.startswith(target[:-1])
    return target in (rule_id, topic)


def _explains(base: RuleBase, cause: _Cause, other: _Cause, timed: bool) -> bool:
    if cause.rule == other.rule:
        return False
    explains = base[cause.rule].explains
    a, b = cause.lead, other.lead
    if a.recovered and not b.recovered:
        return False
    for entry in explains:
        if not _covers_topic(entry.target, other.rule, other.topic):
            continue
        if timed and a.seconds is not None and b.seconds is not None:
            if a.seconds > b.seconds + 1:
                continue
            if entry.within and b.seconds - a.seconds > entry.within:
                continue
        if entry.scope == "same_rank":
            mine, theirs = {g.rank for g in cause.groups}, {g.rank for g in other.groups}
            if not mine & theirs:
                continue
        return True
    return False


def _order(cause: _Cause, rank_order: dict[tuple[int | None, int], int], timed: bool, several: bool) -> tuple[Any, ...]:
    first = min(rank_order.get(_where(g), len(rank_order)) for g in cause.groups if g.recovered == cause.lead.recovered)
    either = 5 if cause.role == "either" else 0
    return (
        cause.lead.recovered,
        _severity_class(cause),
        # of a whole run that ended, what ended it comes before what it could live with
        several and _survives(cause.topic),
        _CLASS[cause.role],
        first,
        -(cause.priority - either),
        _moment(cause.lead, timed),
        cause.rule,
    )


def _where(group: Group) -> tuple[int | None, int]:
    return (group.rank, -1) if group.rank is not None else (None, group.source.order)


def _rank_order(causes: Sequence[_Cause], timed: bool) -> dict[tuple[int | None, int], int]:
    """Places by the moment of their first failure that is no mere consequence and was not recovered from."""
    firsts: dict[tuple[int | None, int], tuple[float, int, int]] = {}
    for cause in causes:
        if cause.severity != "error" or _CLASS[cause.role] > 0 or cause.rule.startswith("CODE:"):
            continue
        for group in cause.groups:
            if not group.recovered:
                moment = _moment(group, timed)
                where = _where(group)
                firsts[where] = min(firsts.get(where, moment), moment)
    return {where: n for n, where in enumerate(sorted(firsts, key=lambda w: firsts[w]))}


def rank(
    base: RuleBase, scans: Sequence[Scanned], facts: dict[str, Any]
) -> tuple[tuple[Finding, ...], tuple[Diagnosis, ...]]:
    """Findings (one for each rule and place) and diagnoses, the most probable root cause first."""
    sources = place_sources(scans)
    groups = groups_of(base, sources, facts)
    serious = [g for g in groups if _CLASS[_role(base, g.rule)] < 4]
    timed = len(serious) > 0 and all(g.seconds is not None for g in serious)
    causes = _causes(base, groups, timed)
    order = _rank_order(causes, timed)
    several = len(sources) > 1
    causes.sort(key=lambda c: _order(c, order, timed, several))
    findings: list[Finding] = []
    at: dict[str, list[int]] = {}
    for cause in causes:
        for group in cause.groups:
            at.setdefault(cause.rule, []).append(len(findings))
            findings.append(_finding(base, cause, group, facts))
    shown = [c for c in causes if c.role != "noise"]
    parent = _nest(base, shown, timed)
    diagnoses: list[Diagnosis] = []
    for cause in shown:
        if cause.rule in parent:
            continue
        below = [c for c in shown if _top(parent, c.rule) == cause.rule and c.rule != cause.rule]
        consequences = tuple(i for c in below for i in at[c.rule])
        diagnoses.append(_diagnosis(base, cause, at[cause.rule][0], consequences, findings))
    if not any(d.severity in ("error", "warning") and not _is_wrapper_code(base, d) for d in diagnoses):
        unknown = unrecognised(base, sources)
        if unknown:
            findings.append(unknown)
            # a code of the catalogue says at least which family failed
            place = sum(1 for d in diagnoses if d.severity in ("error", "warning"))
            diagnoses.insert(place, _from_unrecognised(base, unknown, len(findings) - 1))
    return tuple(findings), tuple(diagnoses)


def _role(base: RuleBase, rule_id: str) -> str:
    return str(_code(base, rule_id)["role"]) if rule_id.startswith("CODE:") else base[rule_id].role


def _is_wrapper_code(base: RuleBase, diagnosis: Diagnosis) -> bool:
    return diagnosis.rule.startswith("CODE:") and _role(base, diagnosis.rule) in ("wrapper", "detail")


def _nest(base: RuleBase, shown: Sequence[_Cause], timed: bool) -> dict[str, str]:
    """rule → rule that explains it. What is no cause goes under the head of the list when that one is a cause."""
    parent: dict[str, str] = {}
    explainers = [c for c in shown if c.rule in base and base[c.rule].explains]
    for other in shown:
        for cause in explainers:
            if _explains(base, cause, other, timed) and _top(parent, cause.rule) != other.rule:
                parent[other.rule] = cause.rule
                break
    heads = [c for c in shown if c.rule not in parent]
    if heads and heads[0].severity == "error" and not heads[0].lead.recovered:
        for cause in heads[1:]:
            if _CLASS[cause.role] > _CLASS[heads[0].role] or cause.rule.startswith("CODE:"):
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
        code = _code(base, cause.rule)
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
    ranks = tuple(sorted({g.rank for g in cause.groups if g.rank is not None and g.recovered == lead.recovered}))
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
        code = _code(base, cause.rule)
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


_FIELD = lazy(r"\{([a-z_][a-z0-9_]*)(\??)\}")


_PIECE = lazy(r"\[\[([^\[\]]{0,400})\]\]")
_EMPTY = lazy(r" ?[(（\[][ ,，:：=]{0,4}[)）\]]")
_BLANKS = lazy(r"(?<=\S) {2,}")
_LOOSE = lazy(r" ([,.;:，。；：])(?=\s|$)")


def fill(template: str, args: dict[str, str]) -> str:
    """Fill ``{name}`` and ``{name?}`` from captures; plain text in, plain text out, nothing is evaluated.

    >>> fill("rank {rank} of {n?}", {"rank": "3"})
    'rank 3 of '
    >>> fill("device {device?} ({why?}) failed", {})
    'device failed'

    A piece in double square brackets is left out whole if a value of its own is absent or empty:

    >>> fill("not OK[[; fault codes: {codes?}]]", {})
    'not OK'
    """
    if "[[" in template:
        template = _PIECE.sub(lambda piece: "" if _lacks(piece[1], args) else piece[1], template)

    def one(found: re.Match[str]) -> str:
        value = args.get(found[1])
        if value is None:
            return "" if found[2] else "…"
        value = " ".join(value.split())
        return value if len(value) <= 200 else value[:200] + "…"

    filled = _FIELD.sub(one, template)
    if "?}" in template:
        # an absent value leaves no hole: no empty brackets, no double blanks, no blank before a full stop
        filled = _EMPTY.sub("", filled)
        filled = _BLANKS.sub(" ", filled)
        filled = _LOOSE.sub(r"\1", filled)
    return filled


def _lacks(piece: str, args: dict[str, str]) -> bool:
    """Whether a value that a piece of a text is about is absent."""
    return any(not args.get(name) for name, _ in _FIELD.findall(piece))


def plain_choices(choices: Sequence[Any]) -> tuple[str, ...]:
    """The alternatives of a fix that are values; settings of several keys are told by ``doctor fix``, with the file."""
    return tuple(str(choice) for choice in choices if not isinstance(choice, dict))


def fill_both(texts: dict[str, str], args: dict[str, str]) -> Text:
    """``fill`` in every language."""
    return {lang: fill(text, args) for lang, text in texts.items()}


def unrecognised(base: RuleBase, sources: Sequence[Source]) -> Finding | None:
    """RUN000: something failed, and no rule knows it. The last exception of the earliest failing place tells most."""
    best: tuple[tuple[Any, ...], Source, Occurrence] | None = None
    for source in sources:
        noise = {o.line for o in source.scan.occurrences if o.rule in base and base[o.rule].role == "noise"}
        for error in source.scan.errors:
            if error.line in noise or not (_STRONG.search(error.text) or error.level in ("ERROR", "CRITICAL")):
                continue
            recovered = source.scan.steps - error.steps >= GOES_ON
            if recovered:
                continue
            plain = bool(_EXCEPTION.match(error.text))
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


def _from_unrecognised(base: RuleBase, finding: Finding, index: int) -> Diagnosis:
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
    if UNRECOGNISED in base:
        whole = base.whole(UNRECOGNISED)
        cause, ask = whole["cause"], whole["next"]
    return Diagnosis(
        UNRECOGNISED, finding.topic, "error", "guess", finding.title, cause, ask, finding.place,
        (finding.place.rank,) if finding.place.rank is not None else (), finding.evidence, index,
    )  # fmt: skip


__all__ = ["NOWHERE", "Group", "Source", "applicable", "fill", "fill_both", "rank", "rank_in_name"]
