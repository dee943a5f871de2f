"""``doctor check``: host → probes → facts → checks → findings → diagnoses → report."""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from doctor import ranking
from doctor.hosts.base import Host
from doctor.i18n import LANGUAGES, texts
from doctor.model import (
    CONFIDENCES,
    NOWHERE,
    SEVERITIES,
    Answer,
    Diagnosis,
    Evidence,
    Fact,
    Finding,
    Fix,
    InputSeen,
    Report,
    Text,
    Unknown,
    Verdict,
    worst,
)
from doctor.probes import base as probes
from doctor.rulebase import Rule, RuleBase, tool_info
from doctor.rulebase import load as load_rules

GROUPS: dict[str, tuple[str, ...]] = {
    "env": ("ENV", "VER"),
    "npu": ("NPU",),
    "hccl": ("HCCL", "RUN"),
    "model": ("CFG", "PAR", "MEM", "DATA", "CKPT", "NUM", "OPS", "PERF"),
    "code": ("CODE", "API"),
}
"""Groups of checks, by the family of their rules."""


DRAWN = ("ver.chain", "net.topology")
"""Facts that are drawn, beside those that checks need."""


class Spec(NamedTuple):
    """A rule that a check judges."""

    rule: Rule
    whole: dict[str, Any]
    call: str
    needs: tuple[str, ...]


class Options(NamedTuple):
    """``only`` and ``skip`` name groups, families, ids or globs of ids."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    rules: str | None = None
    cancelled: Callable[[], bool] = lambda: False
    facts: tuple[str, ...] = ()
    """facts that are wanted for their own sake"""
    mindspore: str = ""
    """the version that sources are written for, if the user said so"""

    def take(self, rule: Rule) -> bool:
        """Whether ``only`` and ``skip`` leave a rule."""
        return (not self.only or names(rule, self.only)) and not names(rule, self.skip)


DEFAULTS = Options()


def names(rule: Rule, words: Iterable[str]) -> bool:
    """Whether one of the words means this rule: its group, family or id, also as a glob.

    ``words`` are what users write after --only and --skip, in any case.
    """
    family = rule.id.rstrip("0123456789")
    group = next((name for name, members in GROUPS.items() if family in members), family.lower())
    return any(
        word.lower() == group
        or word.upper() == family
        or fnmatch.fnmatchcase(rule.id, word.upper())
        or fnmatch.fnmatchcase(rule.topic, word)
        for word in words
    )


def specs(base: RuleBase, options: Options = DEFAULTS) -> list[Spec]:
    """The checks to run, in the order of their ids."""
    found = []
    for rule in base:
        if rule.kind != "check" or not options.take(rule):
            continue
        whole = base.whole(rule.id)
        check = whole["match"]["check"]
        if not check["needs"]:
            continue  # the engine concludes it itself
        found.append(Spec(rule, whole, check["call"], tuple(check["needs"])))
    return found


class Step(NamedTuple):
    """What has just become known: findings of the checks whose facts are all there. ``done`` of ``total`` checks."""

    findings: tuple[Finding, ...]
    facts: Mapping[str, Fact | Unknown]
    done: int
    total: int


class Checkup:
    """One run over one host. Iterate over ``steps``, then ask for the ``report``."""

    def __init__(self, host: Host, options: Options = DEFAULTS, base: RuleBase | None = None) -> None:
        self.host, self.options = host, options
        self.base = base if base is not None else load_rules(options.rules)
        self.specs = specs(self.base, options)
        self.facts: dict[str, Fact | Unknown] = {}
        self.findings: list[Finding] = []
        self.more: tuple[Finding, ...] = ()
        """findings from elsewhere that belong to this report (files)"""
        self.inputs: tuple[InputSeen, ...] = ()
        self.seconds: dict[str, float] = {}
        self.waiting: list[Spec] = list(self.specs)
        """checks whose facts are not all there"""
        self._asked: set[str] = set()

    def running(self, spec: Spec) -> bool:
        """Whether a fact that a waiting check still needs is being asked for."""
        return any(need not in self.facts and need in self._asked for need in (n.removesuffix("?") for n in spec.needs))

    def _begun(self, probe: probes.Probe) -> None:
        self._asked.update(probe.gives)

    def steps(self) -> Iterator[Step]:
        """Run everything; yields whenever a probe has answered. Ends early when the options say cancelled."""
        everything = probes.all_probes()
        needed = set(self.options.facts)
        needed |= {need.removesuffix("?") for spec in self.specs for need in spec.needs}
        given = {name for probe in everything for name in probe.gives}
        if not self.options.only or {"env", "npu", "hccl"}.intersection(self.options.only):
            needed |= given.intersection(DRAWN)
        for name in needed - given:
            self.facts[name] = Unknown(name, "not_asked")
        wanted = probes.wanted(everything, needed)
        for done in probes.run(self.host, wanted, self.facts, self.options.cancelled, self._begun):
            self.facts.update(done.facts)
            self.seconds[done.probe.name] = round(done.seconds, 3)
            known = [all(need.removesuffix("?") in self.facts for need in spec.needs) for spec in self.waiting]
            ready = [spec for spec, there in zip(self.waiting, known, strict=True) if there]
            self.waiting = [spec for spec, there in zip(self.waiting, known, strict=True) if not there]
            found = [finding for spec in ready for finding in judge(spec, self.facts)]
            self.findings += found
            yield Step(tuple(found), self.facts, len(self.specs) - len(self.waiting), len(self.specs))

    def renew(self, other: Checkup) -> None:
        """Take the findings and facts of another run over some of the checks in place of the own ones."""
        again = {spec.rule.id for spec in other.specs}
        self.findings = [finding for finding in self.findings if finding.id not in again] + other.findings
        self.waiting = [spec for spec in self.waiting if spec.rule.id not in again]
        asked = {name: f for name, f in other.facts.items() if not (isinstance(f, Unknown) and f.why == "not_asked")}
        self.facts.update(asked)
        self.seconds.update(other.seconds)

    def report(self) -> Report:
        """The report of what was found so far."""
        order = {spec.rule.id: n for n, spec in enumerate(self.specs)}
        findings = tuple(sorted(self.findings, key=lambda f: (order.get(f.id, 0), f.place.device or 0)))
        findings += self.more
        diagnoses = diagnose(self.base, findings)
        partial: Text = {}
        if self.options.cancelled():
            partial = {
                "zh": "已中断：以下是到目前为止的结果",
                "en": "interrupted: this is what was found so far",
            }
        report = Report(
            {"kind": "host", "host": self.host.name, "live": self.host.live, "against": ""},
            "unknown",
            diagnoses,
            findings,
            self.inputs,
            fact_table(self.facts),
            (),
            self.seconds,
            partial,
            self.options.cancelled(),
            tool_info(self.base, ""),
        )
        return report._replace(verdict=verdict_of(report))


def check(host: Host, options: Options = DEFAULTS, base: RuleBase | None = None) -> Report:
    """Run all checks over a host."""
    run = Checkup(host, options, base)
    for _ in run.steps():
        pass
    return run.report()


# ------------------------------------------------------------------ judging


def judge(spec: Spec, facts: Mapping[str, Fact | Unknown]) -> list[Finding]:
    """The findings of one check. Its own failure is a finding of the verdict crash."""
    given: list[Fact | Unknown] = []
    for need in spec.needs:
        name = need.removesuffix("?")
        fact = facts[name] if name in facts else Unknown(name, "not_asked")
        if isinstance(fact, Unknown) and not need.endswith("?"):
            verdict = Verdict.UNKNOWN if fact.applies else Verdict.NOT_APPLICABLE
            return [finding_of(spec, Answer(verdict, dict(fact.args), why=fact.why, how=fact.how))]
        given.append(fact)
    module, _, name = spec.call.partition(":")
    try:
        answers = getattr(importlib.import_module(module), name)(*given)
        if isinstance(answers, Answer):
            answers = [answers]
        return [finding_of(spec, answer) for answer in answers] or [finding_of(spec, Answer(Verdict.PASS))]
    except Exception as error:  # a check's own mistake is said, and the other checks go on
        what = f"{type(error).__name__}: {error}"[:300]
        return [finding_of(spec, Answer(Verdict.CRASH, {"what": what}, why="crashed"))]


def judge_alone(spec: Spec, host: Host) -> list[Finding]:
    """The findings of one check on a host, with only the probes it needs."""
    facts: dict[str, Fact | Unknown] = {}
    for done in probes.run(host, probes.wanted(probes.all_probes(), [n.removesuffix("?") for n in spec.needs])):
        facts.update(done.facts)
    return judge(spec, facts)


def finding_of(spec: Spec, answer: Answer) -> Finding:
    args = {key: value if isinstance(value, str) else plain_text(value) for key, value in answer.args.items()}
    failed = answer.verdict is Verdict.FAIL
    named = spec.whole["title"] if failed else spec.whole.get("subject") or spec.whole["title"]
    severity = answer.severity or spec.rule.severity
    if spec.rule.status == "preview" and severity == "error":
        severity = "warning"
    confidence = answer.confidence or spec.rule.confidence
    return Finding(
        spec.rule.id, answer.verdict, args, answer.evidence, answer.place, severity, confidence, spec.rule.topic,
        spec.rule.role, worded(named, args, spec.whole), why=reason(answer.why, answer.how, args),
    )  # fmt: skip


def worded(both: Mapping[str, str], args: Mapping[str, str], whole: Mapping[str, Any]) -> Text:
    """A text of a rule, filled in every language. Values of which the rule has ``words`` are said in these: a check
    answers with a code, a reader gets a word."""
    words: Mapping[str, Mapping[str, str]] = whole.get("words") or {}
    out = {}
    for lang, text in both.items():
        said = {name: _said(value, words, lang) for name, value in args.items()} if words else dict(args)
        out[lang] = ranking.fill(text, said)
    return out


def _said(value: str, words: Mapping[str, Mapping[str, str]], lang: str) -> str:
    parts = [value] if value in words else value.split(", ")
    if not any(part in words for part in parts):
        return value
    return ("、" if lang == "zh" else ", ").join(words[part][lang] if part in words else part for part in parts)


def plain_text(value: Any) -> str:
    """A value of ``args`` as people read it: lists with commas, whole numbers without a point."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return ", ".join(plain_text(one) for one in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def reason(why: str, how: str, args: dict[str, str]) -> Text:
    """The texts of a reason and of what would help, in every language."""
    if not why:
        return {}
    out = {}
    for lang in LANGUAGES:
        table = texts(lang)
        parts = [table.get(f"why.{why}", why)]
        if how:
            parts.append(table.get(f"how.{how}", how))
        joined = "；".join(parts) if lang == "zh" else "; ".join(parts)
        out[lang] = ranking.fill(joined, {name: table.get(f"word.{value}", value) for name, value in args.items()})
    return out


# ------------------------------------------------------------------ diagnoses


def diagnose(base: RuleBase, findings: Sequence[Finding]) -> tuple[Diagnosis, ...]:
    """What failed, one diagnosis for each rule, causes before what they explain, worst first."""
    failed: dict[str, list[int]] = {}
    for n, finding in enumerate(findings):
        if finding.verdict is Verdict.FAIL:
            failed.setdefault(finding.id, []).append(n)
    for rows in failed.values():
        rows.sort(key=lambda n: (SEVERITIES.index(findings[n].severity), n))
    leads = {rule: findings[rows[0]] for rule, rows in failed.items()}
    for rule, rows in failed.items():
        if not all(findings[n].because for n in rows):
            leads[rule] = leads[rule]._replace(because="")  # elsewhere it fails by itself
    parent = _parents(base, leads)
    heads = [rule for rule in failed if rule not in parent]
    heads.sort(
        key=lambda rule: (
            SEVERITIES.index(findings[failed[rule][0]].severity),
            CONFIDENCES.index(findings[failed[rule][0]].confidence),
            -base[rule].priority,
        )
    )
    return tuple(
        _diagnosis(base, rule, failed, findings, [n for r in failed if _root(parent, r) == rule for n in failed[r]])
        for rule in heads
    )


def _parents(base: RuleBase, failed: Mapping[str, Finding]) -> dict[str, str]:
    """Which failed rule is explained by which other one. What is worse is never hidden under what is milder."""
    parent = {rule: finding.because for rule, finding in failed.items() if finding.because in failed}
    for cause, lead in failed.items():
        for explains in base[cause].explains:
            for other, finding in failed.items():
                if other == cause or other in parent or _root(parent, cause) == other:
                    continue
                if SEVERITIES.index(finding.severity) < SEVERITIES.index(lead.severity):
                    continue
                target = explains.target
                same = finding.topic.startswith(target[:-1]) if target.endswith(".*") else target == finding.topic
                if target == other or same:
                    parent[other] = cause
    return parent


def _root(parent: Mapping[str, str], rule: str) -> str:
    for _ in range(len(parent) + 1):
        if rule not in parent:
            return rule
        rule = parent[rule]
    return rule


SHOWN_EVIDENCE = 4


def _diagnosis(
    base: RuleBase, rule_id: str, failed: Mapping[str, list[int]], findings: Sequence[Finding], members: list[int]
) -> Diagnosis:
    own = failed[rule_id]
    lead = findings[own[0]]
    whole = base.whole(rule_id)
    evidence: dict[tuple[str, int, str], Evidence] = {}
    for n in own:
        for one in findings[n].evidence:
            evidence.setdefault((one.source, one.line, one.text), one)
    note: Text = {}
    others = [findings[n].title for n in own[1:]]
    if others:
        note = {lang: _also(lang, [t.get(lang, "") for t in others]) for lang in LANGUAGES}
    fixes = tuple(
        Fix(f"{rule_id}-{n + 1}", f["applicability"],
            worded({"zh": f["zh"], "en": f["en"]}, lead.args, whole), (), ranking.plain_choices(f["choices"]))
        for n, f in enumerate(whole["fix"])
    )  # fmt: skip
    place = lead.place if len(own) == 1 else NOWHERE
    return Diagnosis(
        rule_id, lead.topic, lead.severity, lead.confidence, lead.title, worded(whole["cause"], lead.args, whole),
        worded(whole["next"], lead.args, whole), place, (), tuple(evidence.values())[:SHOWN_EVIDENCE], own[0],
        tuple(n for n in members if n not in own), fixes, len(own), note,
    )  # fmt: skip


def _also(lang: str, titles: Sequence[str]) -> str:
    """The further findings of a rule, each title once, at most six."""
    distinct = list(dict.fromkeys(t for t in titles if t))
    more = len(distinct) - 6
    table = texts(lang)
    text = ("；" if lang == "zh" else "; ").join(distinct[:6])
    if more > 0:
        text += " " + table["more"].replace("{n}", str(more))
    return table["check.also"].replace("{list}", text)


# ------------------------------------------------------------------ the report


def verdict_of(report: Report) -> str:
    """The worst severity; else healthy if any check could look and none of the doctor's own failed, else unknown."""
    found = worst([d.severity for d in report.diagnoses])
    if found in ("error", "warning"):
        return str(found)
    seen = {f.verdict for f in report.findings}
    if Verdict.PASS not in seen or Verdict.CRASH in seen or report.partial:
        return "unknown"
    return found or "healthy"


def exit_code(report: Report, fail_on: str = "error", *, strict: bool = False) -> int:
    """0 nothing at or above ``fail_on``, 1 findings, 130 interrupted. ``strict``: unknown and crash are findings."""
    if report.interrupted:
        return 130
    limit = SEVERITIES.index(fail_on)
    if any(SEVERITIES.index(d.severity) <= limit for d in report.diagnoses):
        return 1
    return int(strict and any(f.verdict in (Verdict.UNKNOWN, Verdict.CRASH) for f in report.findings))


def fact_table(facts: Mapping[str, Fact | Unknown]) -> dict[str, Any]:
    """Facts as plain data: {name: {value, source, line}} or {name: {unknown, how}}."""
    out: dict[str, Any] = {}
    for name in sorted(facts):
        fact = facts[name]
        if isinstance(fact, Unknown):
            out[name] = {"unknown": fact.why, "applies": fact.applies, "args": plain(fact.args)}
        else:
            seen = fact.evidence or Evidence("", 0, "")
            out[name] = {"value": plain(fact.value), "source": seen.source, "line": seen.line}
    return out


def plain(value: Any) -> Any:
    """NamedTuples, sets and keys of any type as JSON has them."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {k: plain(v) for k, v in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v) for v in value), key=str)
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
