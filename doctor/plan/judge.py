"""Conditions of rules over a training plan: one finding for each rule.

A rule about values that nobody wrote and that have no known default does not apply to the plan; one about values that
exist and cannot be known is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from doctor import ranking
from doctor.i18n import LANGUAGES, texts
from doctor.model import SEVERITIES, Evidence, Fact, Finding, Text, Unknown, Verdict
from doctor.plan import cel
from doctor.plan.schema import FIELDS, Plan, Value
from doctor.rulebase import Rule, RuleBase
from doctor.version import in_range

MAX_EVIDENCE = 8


def judge(plan: Plan, base: RuleBase, facts: Mapping[str, Any] | None = None) -> list[Finding]:
    """Findings of all conditions over one plan, in the order of the rules.

    ``facts`` are values of ``fact.*`` without that prefix (``host.cores``); what is missing is unknown.
    """
    facts = facts or {}
    found = []
    for rule_id, compiled in base.when.items():
        # the whole rule, with its texts, only for what did not pass
        found.append(_judge(base[rule_id], compiled, plan, facts, partial(base.whole, rule_id)))
    failed = [f for f in found if f.verdict is Verdict.FAIL]
    if plan.meant is not None and len(failed) > 1:
        found = _of_slips(found, base, plan.meant, facts)
    shared = Counter((e.source, e.line) for f in failed if f.severity != "advice" for e in set(f.evidence) if e.line)
    return [_suspect_first(f, base, plan, shared) if f.verdict is Verdict.FAIL else f for f in found]


SLIPS = tuple(
    "plan.file." + name
    for name in ("unknown_keys", "unread_keys", "near_types", "wrong_types", "unknown_options", "foreign_marks")
)


def _of_slips(found: list[Finding], base: RuleBase, meant: Plan, facts: Mapping[str, Any]) -> list[Finding]:
    """What does not fail once the misspelt words are spelt right is their consequence, and they weigh as much as it."""
    heads = [f for f in found if f.verdict is Verdict.FAIL and _asks(base, f.id, SLIPS)]
    if not heads:
        return found
    left = {f.id for f in judge(meant, base, facts) if f.verdict is Verdict.FAIL}
    gone = [f for f in found if f.verdict is Verdict.FAIL and f.id not in left and not _asks(base, f.id, SLIPS)]
    if not gone:
        return found
    worst = min((f.severity for f in (*gone, heads[0])), key=SEVERITIES.index)
    own = {id(f): f._replace(because=heads[0].id) for f in gone} | {id(heads[0]): heads[0]._replace(severity=worst)}
    return [own.get(id(f), f) for f in found]


def _asks(base: RuleBase, rule_id: str, names: Sequence[str]) -> bool:
    return any(name in names for name in cel.names(base.when[rule_id]["if"]))


def _suspect_first(found: Finding, base: RuleBase, plan: Plan, shared: Mapping[tuple[str, int], int]) -> Finding:
    """A finding over several values begins with the one that is most likely wrong: which most of the failed conditions
    share (one wrong value breaks several, the others of each are innocent), else the least round whole number."""
    if found.severity == "advice" or len(found.evidence) < 2:
        return found
    compiled = base.when[found.id]
    names = [*compiled["at"], *(n[5:] for n in cel.names(compiled["if"]) if n.startswith("plan."))]
    values = [plan.values[n] for n in dict.fromkeys(names) if n in plan.values]
    owners = [next((v for v in values if e in v.evidence()), None) for e in found.evidence]
    scores = [(shared.get((e.source, e.line), 0), _odd(v)) for e, v in zip(found.evidence, owners, strict=True)]
    best = scores.index(max(scores))
    owner = owners[best]
    if not best or owner is None:
        return found
    first = found.evidence[best]
    args = found.args | {"key": owner.key, "file": owner.file, "line": str(first.line)}
    evidence = (first, *found.evidence[:best], *found.evidence[best + 1 :])
    return found._replace(evidence=evidence, args=args, title=ranking.fill_both(base.whole(found.id)["title"], args))


ROUND = 15


def _odd(value: Value | None) -> int:
    """How far a size is from round: its largest odd divisor above that of usual sizes (12, 40, 5120).

    What is no size at all is farthest.
    """
    number = value.value if value is not None else None
    if type(number) is not int:
        return 0
    odd = number // (number & -number) if number > 0 else 1 << 62
    return odd if odd > ROUND else 0


def _guilty(tree: cel.Ast, lookup: Callable[[str], Any]) -> set[str]:
    """The names without which a condition would not hold: of alternatives those of the ones that hold."""
    if tree[0] != "op" or tree[1] not in ("&&", "||"):
        return set(cel.names(tree))
    sides = [side for side in tree[2:4] if tree[1] == "&&" or cel.evaluate(side, lookup) is True]
    return set().union(*(_guilty(side, lookup) for side in sides))


def facts_of(facts: Mapping[str, Fact | Unknown]) -> dict[str, Any]:
    """What rules may ask of a machine, from the facts of ``doctor check``; what is not known is left out."""
    found: dict[str, Any] = {}

    def value(name: str) -> Any:
        fact = facts.get(name)
        return fact.value if isinstance(fact, Fact) else None

    for package in ("mindspore", "mindformers"):
        known = value(f"ver.{package}")
        if isinstance(known, dict) and isinstance(known.get("version"), str):
            found[f"version.{package}"] = known["version"]
    chips = value("npu.table")
    if isinstance(chips, list) and chips:
        # a machine without an NPU is a desk, not the host that will train: its cores say nothing of that one's
        cpu = value("host.cpu")
        if isinstance(cpu, dict) and isinstance(cpu.get("count"), int):
            found["host.cores"] = cpu["count"]
        found["host.devices"] = len(chips)
        sizes = [chip["memory"][1] for chip in chips if chip.get("memory")]
        if sizes:
            found["npu.hbm_gib"] = min(sizes) / 1024
        names = {chip.get("name") for chip in chips}
        if len(names) == 1 and None not in names:
            found["npu.soc"] = names.pop()
    return found


def judge_rule(
    rule: Rule, whole: dict[str, Any], compiled: dict[str, Any], plan: Plan, facts: Mapping[str, Any]
) -> Finding:
    """The finding of one rule; for its examples."""
    return _judge(rule, compiled, plan, facts, lambda: whole)


def _judge(
    rule: Rule, compiled: dict[str, Any], plan: Plan, facts: Mapping[str, Any], whole: Callable[[], dict[str, Any]]
) -> Finding:
    def lookup(name: str) -> Any:
        if name.startswith("plan."):
            value = plan.values.get(name[5:])
            if value is not None:
                return value.value
            return cel.Absent(frozenset(["?" + name if name[5:] in plan.blocked else name]))
        value = facts.get(name[5:])
        return cel.Absent(frozenset(["?" + name])) if value is None else value

    severity = rule.severity
    if rule.status == "preview" and severity == "error":
        severity = "warning"

    def finding(
        verdict: Verdict, args: dict[str, Any], evidence: Sequence[Evidence] = (), why: Text | None = None
    ) -> Finding:
        words = {name: value if isinstance(value, str) else cel.text_of(value) for name, value in args.items()}
        title: Text = {}
        if verdict is Verdict.FAIL:
            title = ranking.fill_both(whole()["title"], words)
        elif verdict is not Verdict.PASS:
            title = whole().get("subject") or {}
        return Finding(
            rule.id, verdict, words, tuple(evidence), severity=severity, confidence=rule.confidence, topic=rule.topic,
            role=rule.role, title=title, why=why or {},
        )  # fmt: skip

    for name in ("mindspore", "mindformers"):
        if name in rule.applies_to:
            version = facts.get(f"version.{name}")
            if version is None:
                return finding(Verdict.UNKNOWN, {}, why=_why("version_not_known", name))
            if not in_range(str(version), str(rule.applies_to[name])):
                return finding(Verdict.NOT_APPLICABLE, {}, why=_why("other_version", f"{name} {version}"))
    try:
        result = cel.evaluate(compiled["if"], lookup)
        if isinstance(result, cel.Absent):
            # only what is missing and was not asked for, first what exists and cannot be known
            hidden = sorted(n[1:] for n in result.names if n.startswith("?"))
            if hidden:
                reasons = [plan.blocked[n[5:]] for n in hidden if n[5:] in plan.blocked]
                return finding(Verdict.UNKNOWN, {}, why=_why("plan_not_known", ", ".join(reasons or hidden)))
            return finding(Verdict.NOT_APPLICABLE, {}, why=_why("not_in_plan", ", ".join(sorted(result.names))))
        if not isinstance(result, bool):
            raise cel.CelError(f"the condition gives {type(result).__name__}")
        if not result:
            return finding(Verdict.PASS, {})
        read = [n for n in cel.names(compiled["if"]) if n.startswith("plan.")]
        args: dict[str, Any] = {}
        for name in cel.names(compiled["if"]):
            value = lookup(name)
            if not isinstance(value, cel.Absent):
                args[name.rsplit(".", maxsplit=1)[-1]] = value
        for name, tree in compiled["let"].items():
            for inner in cel.names(tree):
                value = lookup(inner)
                if not isinstance(value, cel.Absent):
                    args.setdefault(inner.rsplit(".", maxsplit=1)[-1], value)
            value = cel.evaluate(tree, lookup)
            if not isinstance(value, cel.Absent):
                args[name] = value
        ordered = ["plan." + n for n in compiled["at"]] + [n for n in read if n[5:] not in compiled["at"]]
        guilty = _guilty(compiled["if"], lookup)
        ordered.sort(key=lambda name: name not in guilty)
        evidence, first = _evidence(plan, ordered)
        for name in compiled["at"]:
            if name in plan.values:
                args.setdefault(name.rsplit(".", maxsplit=1)[-1], plan.values[name].value)
        if first is not None:
            line = first.line if first.line in (e.line for e in evidence[:1]) else evidence[0].line
            args |= {"key": first.key, "file": first.file, "line": line}
        else:
            args |= {"key": "", "file": plan.file, "line": 0}
    except cel.CelError as error:
        return finding(Verdict.CRASH, {"what": str(error)}, why=_why("crashed", str(error), "what"))
    return finding(Verdict.FAIL, args, evidence)


def _evidence(plan: Plan, names: Sequence[str]) -> tuple[list[Evidence], Value | None]:
    """(lines of the values that stand in a file, the first such value).

    Of a value that an option takes from a variable the line of the variable comes first; of several values each has
    one line before any has its second, because a report shows but a few.
    """
    first = None
    rows: list[list[Evidence]] = []
    for name in names:
        value = plan.values.get(name[5:])
        if value is None or name not in FIELDS:
            continue
        lines = value.evidence()
        if lines and first is None:
            first = value
        rows.append(
            lines if isinstance(value.value, list) else sorted(lines, key=lambda e: not _ASSIGNED.match(e.text))
        )
    found: list[Evidence] = []
    whole = rows[0] if rows and first is not None and isinstance(first.value, list) else []
    turns = zip_longest(*rows)
    for evidence in (*whole, *(e for turn in turns for e in turn)):
        if evidence is not None and evidence not in found and len(found) < MAX_EVIDENCE:
            found.append(evidence)
    if not found:
        found.append(Evidence(plan.file, 0, ""))
    return found, first


_ASSIGNED = re.compile(r"\s*(?:export\s+)?[A-Za-z_]\w*=")


def _why(code: str, value: str, field: str = "name") -> Text:
    return {lang: texts(lang)["why." + code].replace("{" + field + "}", value) for lang in LANGUAGES}
