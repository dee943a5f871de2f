"""What a training plan says of the causes a log finding names: confirmed, ruled out, or spoken against.

A rule lists its causes as ``confirm``, each a condition over ``plan.*``; what speaks against the finding itself is
``contradict``. Known only where a configuration was given with the logs. Findings over the plan that are about the same
lines, or that explain the log finding, become part of its diagnosis.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.i18n import LANGUAGES, texts
from doctor.model import CONFIDENCES, SEVERITIES, Diagnosis, Evidence, Finding, Fix, Text

if TYPE_CHECKING:
    from doctor.plan.schema import Plan
    from doctor.rulebase import RuleBase

SHOWN = 6
"""Lines of evidence of a diagnosis, those of the configuration included."""
OUT_OF_MEMORY = "memory.device.exhausted"


class Said(NamedTuple):
    """One cause of a rule against a plan: ``holds``, its words, and the lines that tell."""

    holds: bool
    text: Text
    lines: tuple[Evidence, ...]


def of_run(plans: Sequence[Plan]) -> Plan | None:
    """The plan that the logs belong to: the only one, or the only one that trains. None if that cannot be told."""
    if len(plans) == 1:
        return plans[0]
    training = [plan for plan in plans if plan.get("run.training")]
    return training[0] if len(training) == 1 else None


def draw(base: RuleBase, plan: Plan, diagnoses: Sequence[Diagnosis], findings: Sequence[Finding],
         facts: Mapping[str, Any]) -> tuple[Diagnosis, ...]:  # fmt: skip
    """Diagnoses with what the plan says of their causes, and findings of the plan nested below those they belong to."""
    out: list[Diagnosis] = []
    taken: set[int] = set()
    own = {n for n, d in enumerate(diagnoses) if d.rule in base and base[d.rule].kind in ("when", "code")}
    for diagnosis in diagnoses:
        if diagnosis.rule not in base or base[diagnosis.rule].kind not in ("series", "log"):
            out.append(diagnosis)
            continue
        whole = base.whole(diagnosis.rule)
        causes = [said for one in whole.get("confirm") or () if (said := ask(plan, one, facts)) is not None]
        against = [said for one in whole.get("contradict") or () if (said := ask(plan, one, facts)) is not None]
        against = [said for said in against if said.holds]
        confirmed = [said for said in causes if said.holds]
        lines = {(e.source, e.line) for said in confirmed for e in said.lines if e.line}
        below = [n for n in sorted(own - taken) if _belongs(base, diagnosis, diagnoses[n], lines)]
        taken.update(below)
        made = _with_causes(diagnosis, plan, confirmed, [s for s in causes if not s.holds], against)
        nested = [i for n in below for i in (diagnoses[n].finding, *diagnoses[n].consequences)]
        made = made._replace(consequences=(*made.consequences, *nested))
        out.append(_smaller(made, plan) if diagnosis.topic == OUT_OF_MEMORY else made)
    gone = {diagnoses[n].finding for n in taken}
    return tuple(d for d in out if d.finding not in gone)


def ask(plan: Plan, condition: Mapping[str, Any], facts: Mapping[str, Any]) -> Said | None:
    """A condition against a plan; None if the plan does not tell, or the condition fails on its values."""
    from doctor import ranking
    from doctor.plan import cel

    def lookup(name: str) -> Any:
        value: Any = plan.values.get(name[5:])
        value = value.value if value is not None and name.startswith("plan.") else facts.get(name[5:])
        return cel.Absent(frozenset([name])) if value is None else value

    try:
        tree = cel.parse(condition["when"])
        result = cel.evaluate(tree, lookup)
    except cel.CelError:
        return None
    if not isinstance(result, bool):
        return None
    names = [*condition.get("at", ()), *(name[5:] for name in cel.names(tree) if name.startswith("plan."))]
    values = [plan.values[name] for name in dict.fromkeys(names) if name in plan.values]
    lines = tuple(dict.fromkeys(e for value in values if value.origin == "set" for e in value.evidence() if e.line))
    words = {name.rsplit(".", 1)[-1]: cel.text_of(plan.values[name].value) for name in names if name in plan.values}
    return Said(result, ranking.fill_both({lang: condition[lang] for lang in LANGUAGES}, words), lines)


def _belongs(base: RuleBase, log: Diagnosis, state: Diagnosis, lines: set[tuple[str, int]]) -> bool:
    """Whether a finding of the plan is about lines that confirm a cause, or explains the finding of the log. What is
    worse is never hidden."""
    if SEVERITIES.index(state.severity) < SEVERITIES.index(log.severity):
        return False
    if any((e.source, e.line) in lines for e in state.evidence):
        return True
    for explains in base[state.rule].explains:
        target = explains.target
        if target in (log.rule, log.topic) or (target.endswith(".*") and log.topic.startswith(target[:-1])):
            return True
    return False


def _with_causes(
    diagnosis: Diagnosis, plan: Plan, confirmed: Sequence[Said], refuted: Sequence[Said], against: Sequence[Said]
) -> Diagnosis:
    if not (confirmed or refuted or against):
        return diagnosis
    file = os.path.basename(plan.file)
    cause: dict[str, str] = {}
    for lang in LANGUAGES:
        table = texts(lang)
        joint = "；" if lang == "zh" else "; "

        def told(key: str, every: Sequence[Said], lang: str = lang, joint: str = joint,
                 table: Mapping[str, str] = table) -> str:  # fmt: skip
            if not every:
                return ""
            parts = [said.text[lang] + _where(said, lang) for said in every]
            return table[key].replace("{file}", file).replace("{list}", joint.join(parts))

        parts = [told("causes.confirmed", confirmed), told("causes.against", against),
                 told("causes.ruled_out", refuted), diagnosis.cause.get(lang, "")]  # fmt: skip
        cause[lang] = ("" if lang == "zh" else " ").join(part for part in parts if part)
    confidence = diagnosis.confidence
    if against and not confirmed:
        confidence = "guess"
    elif confirmed and not against and confidence == "guess":
        confidence = "likely"
    assert confidence in CONFIDENCES
    lines = [e for said in (*confirmed, *against) for e in said.lines[:2]]
    kept = diagnosis.evidence[: max(1, SHOWN - len(lines))]
    evidence = tuple(dict.fromkeys((*kept, *lines)))[:SHOWN]
    return diagnosis._replace(cause=cause, confidence=confidence, evidence=evidence)


def _where(said: Said, lang: str) -> str:
    if not said.lines:
        return ""
    numbers = ", ".join(dict.fromkeys(str(e.line) for e in said.lines[:3]))
    return f"（第 {numbers} 行）" if lang == "zh" else f" (line {numbers})"


def _smaller(diagnosis: Diagnosis, plan: Plan) -> Diagnosis:
    """Which setting to change, and to what, by the estimate of the plan: the least intrusive one that stays below the
    limit, or, where the estimate stays below it already, that takes less than now."""
    from doctor.plan import cel, memory, show

    shape, settings = memory.shape_of(plan), memory.settings_of(plan)
    if shape is None or settings is None:
        return diagnosis
    total = memory.estimate(shape, settings).total()
    limit = plan.get("context.memory_gib")
    below = limit * memory.GIB if limit is not None and total > limit * memory.GIB else total - 1
    change = memory.nearest_fit(shape, settings, below)
    words = {"file": os.path.basename(plan.file), "total": show.gib(total),
             "limit": cel.text_of(limit) if limit is not None else "-"}  # fmt: skip
    key = "causes.memory" if change is not None else "causes.memory_nothing"
    if change is not None:
        words |= {"settings": ", ".join(f"{_key(plan, n)} = {cel.text_of(v)}" for n, v in change.changes),
                  "size": show.gib(change.total)}  # fmt: skip
    said = {}
    for lang in LANGUAGES:
        text = texts(lang)[key]
        for name, value in words.items():
            text = text.replace("{" + name + "}", value)
        said[lang] = text
    if change is None:
        more = {lang: said[lang] + ("" if lang == "zh" else " ") + diagnosis.next.get(lang, "") for lang in LANGUAGES}
        return diagnosis._replace(next=more)
    fix = Fix(f"{diagnosis.rule}-plan", "unsafe", said, _edits(plan, change.changes))
    return diagnosis._replace(fixes=(*diagnosis.fixes, fix))


def _key(plan: Plan, name: str) -> str:
    """The key of the file for a plan name, else the name itself."""
    value = plan.values.get(name)
    if value is not None and value.key and value.origin == "set":
        return value.key
    from doctor.plan import mindformers

    table = mindformers.PYNATIVE if plan.get("file.layout") == "pynative" else mindformers.PLACES
    return next((key for key, other in table.items() if other == name), name)


def _edits(plan: Plan, changes: Sequence[tuple[str, Any]]) -> tuple[Any, ...]:
    """The changes as edits of the file, nothing if one of them has no place or the file cannot be read."""
    import importlib

    return tuple(importlib.import_module("doctor.patch.configs").settings(plan, changes))
