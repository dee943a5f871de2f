"""Findings → proposals: what the fixes of a rule would change in the files at hand.

Providers find; ``PROVIDERS`` names them. Each gives failed findings with what their fixes need: where a value stands,
what an expression is worth, and whether the check passes over other contents.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from doctor import ranking
from doctor.i18n import LANGUAGES
from doctor.model import SEVERITIES, Edit, Finding, Fix, Report, Text, Verdict
from doctor.patch import plan as planning
from doctor.patch.plan import Patch
from doctor.patch.spans import Refused
from doctor.rulebase import RuleBase, load

PROVIDERS = ("doctor.patch.configs:find", "doctor.patch.scripts:find", "doctor.patch.sources:find")
"""``module:function`` of the shipped providers, loaded when they are asked."""

MAX_CHOICES = 12


class Options(NamedTuple):
    """What the user asked for. ``choose`` maps the id of a fix to the number (from 1) or the words of a choice.
    ``mindspore`` and ``mindformers`` are the versions that sources are judged for; empty: not known."""

    only: tuple[str, ...] = ()
    unsafe: bool = False
    choose: Mapping[str, str] = {}
    aliases: bool = False
    rules: str | None = None
    mindspore: str = ""
    mindformers: str = ""


class Choice(NamedTuple):
    """One valid alternative of a fix. ``label`` tells the settings, ``text`` the words of the rule for it, if any."""

    label: str
    edits: tuple[Edit, ...]
    text: Text = {}  # noqa: RUF012 - never changed


class Found(NamedTuple):
    """A failed finding, and what its fixes need.

    ``place`` tells (file, key) of a name in ``fix.set``: a key of the file, or ``plan.group.name``; None if it is not
    there. ``value`` computes an expression with some further names; raises ValueError. ``passes`` judges contents by
    path: True, False, or None where it cannot be told. ``edits`` are ready-made replacements by the number of a fix.
    ``fixes`` stand in for those of the rule.
    """

    finding: Finding
    place: Callable[[str], tuple[str, str] | None] = lambda name: None
    value: Callable[[str, Mapping[str, Any]], Any] = lambda text, names: text
    passes: Callable[[Mapping[str, bytes]], bool | None] = lambda contents: None
    edits: Mapping[int, tuple[Edit, ...]] = {}
    fixes: tuple[dict[str, Any], ...] | None = None
    offers: Mapping[int, tuple[Choice, ...]] = {}


Provider = Callable[[Sequence[str], Options], Iterable[Found]]


class Proposal(NamedTuple):
    """A fix with everything needed to carry it out. ``why`` is a reason it cannot be."""

    fix: Fix
    finding: Finding
    choices: tuple[Choice, ...] = ()
    passes: Callable[[Mapping[str, bytes]], bool | None] = lambda contents: None
    why: Refused | None = None


def find(paths: Sequence[str], options: Options, providers: Sequence[Provider] | None = None) -> list[Found]:
    """Failed findings of all providers, worst first; only those whose rule is asked for."""
    if providers is None:
        providers = [getattr(import_module(m), f) for m, f in (name.split(":") for name in PROVIDERS)]
    found = [one for provider in providers for one in provider(paths, options)]
    found = [one for one in found if one.finding.verdict is Verdict.FAIL and asked(one.finding.id, options.only)]
    return sorted(found, key=lambda one: SEVERITIES.index(one.finding.severity))


def asked(rule_id: str, only: Sequence[str]) -> bool:
    """Whether a rule is one of those asked for; without any, all are."""
    name = rule_id.lower()
    return not only or any(fnmatch.fnmatchcase(name, w.lower()) or name.startswith(w.lower()) for w in only)


def proposals(
    paths: Sequence[str], options: Options, providers: Sequence[Provider] | None = None, base: RuleBase | None = None
) -> list[Fix]:
    """The fixes of all findings over some files, each with its edits; of a fix with choices those of the chosen one."""
    return [one.fix for one in gather(paths, options, providers, base)]


def gather(
    paths: Sequence[str], options: Options, providers: Sequence[Provider] | None = None, base: RuleBase | None = None
) -> list[Proposal]:
    """The same with what is needed to carry them out."""
    return of_found(find(paths, options, providers), options, base)


def of_found(found: Sequence[Found], options: Options, base: RuleBase | None = None) -> list[Proposal]:
    """Proposals of findings; a fix that sets what another finding's fix sets already is one proposal."""
    rules = base if base is not None else load(options.rules)
    out: list[Proposal] = []
    for one in found:
        fixes = one.fixes
        if fixes is None:
            fixes = tuple(rules.whole(one.finding.id)["fix"]) if one.finding.id in rules else ()
        for n, fix in enumerate(fixes):
            made = _proposal(one, n, fix, options)
            same = made.fix.edits or made.choices
            if not same or not any(made.fix == other.fix and made.choices == other.choices for other in out):
                out.append(made)
    return out


def _proposal(one: Found, n: int, fix: Mapping[str, Any], options: Options) -> Proposal:
    finding = one.finding
    fix_id = f"{finding.id}-{n + 1}"
    words = ranking.fill_both({lang: str(fix.get(lang, "")) for lang in LANGUAGES}, finding.args)
    applicability = str(fix.get("applicability", "display"))
    ready = one.edits.get(n, ())
    sets, choices = fix.get("set") or {}, fix.get("choices") or ()
    why: Refused | None = None
    offered: tuple[Choice, ...] = ()
    edits: tuple[Edit, ...] = tuple(ready)
    if n in one.offers:
        try:
            offered = _mending(one, one.offers[n], options)
            chosen = _chosen(offered, options.choose.get(fix_id) or options.choose.get(finding.id) or "")
            edits = chosen.edits if chosen is not None else ()
        except Refused as refused:
            why = refused
    elif not ready and applicability != "display" and (sets or any(isinstance(c, Mapping) for c in choices)):
        try:
            if choices:
                offered = _choices(one, sets, choices, options)
                if not offered:
                    raise Refused("no_choice")
                chosen = _chosen(offered, options.choose.get(fix_id) or options.choose.get(finding.id) or "")
                edits = chosen.edits if chosen is not None else ()
            else:
                edits = _edits(one, sets, {})
        except Refused as refused:
            why = refused
    made = Fix(fix_id, applicability, words, edits, tuple(choice.label for choice in offered))
    return Proposal(made, finding, offered, one.passes, why)


def _choices(one: Found, sets: Mapping[str, Any], choices: Sequence[Any], options: Options) -> tuple[Choice, ...]:
    """The alternatives that can be carried out and with which the check passes.

    A choice is a mapping like ``set`` (with words in ``zh`` and ``en`` if it likes), a value that ``set`` knows as
    ``choice``, or ``{each: expression}``, a list of such values.
    """
    out: list[Choice] = []
    for raw in choices:
        tries: list[tuple[Mapping[str, Any], dict[str, Any]]] = []
        text: Text = {}
        if isinstance(raw, Mapping) and "each" in raw:
            try:
                values = one.value(str(raw["each"]), {})
            except ValueError:
                continue
            tries = [(sets, {"choice": value}) for value in (values if isinstance(values, (list, tuple)) else ())]
        elif isinstance(raw, Mapping):
            text = ranking.fill_both({k: str(raw[k]) for k in LANGUAGES if k in raw}, one.finding.args)
            own = raw["set"] if isinstance(raw.get("set"), Mapping) else raw
            # settings of the chosen value are not those of a choice of its own
            common = {k: v for k, v in sets.items() if not re.search(r"\bchoice\b", str(v))}
            tries = [({**common, **{k: v for k, v in own.items() if k not in LANGUAGES}}, {})]
        else:
            tries = [(sets, {"choice": raw})]
        for wanted, names in tries[:64]:
            try:
                edits = _edits(one, wanted, names)
                patch = planning.plan(edits, (one.finding.id,), aliases=options.aliases)
            except Refused:
                continue
            if one.passes(patch.contents()) is False:
                continue
            label = ", ".join(f"{e.key} = {e.new}" for e in edits)
            if all(label != choice.label for choice in out) and len(out) < MAX_CHOICES:
                out.append(Choice(label, edits, text))
    return tuple(out)


def _mending(one: Found, offers: Sequence[Choice], options: Options) -> tuple[Choice, ...]:
    """The ready-made alternatives with which the check passes. Raises Refused if there is none."""
    out = []
    for choice in offers:
        try:
            patch = planning.plan(choice.edits, (one.finding.id,), aliases=options.aliases)
        except Refused:
            continue
        if one.passes(patch.contents()) is not False:
            out.append(choice)
    if not out:
        raise Refused("no_choice")
    return tuple(out)


def _chosen(offered: Sequence[Choice], word: str) -> Choice | None:
    """The choice that is meant by its number or its words, None if none was named. Raises Refused for an unknown."""
    if not word:
        return None
    if word.isdigit() and 1 <= int(word) <= len(offered):
        return offered[int(word) - 1]
    squeezed = word.replace(" ", "")
    found = [c for c in offered if squeezed == c.label.replace(" ", "")]
    found = found or [c for c in offered if any(squeezed == e.new for e in c.edits)]
    if len(found) != 1:
        raise Refused("bad_choice", value=word, count=len(offered))
    return found[0]


def _edits(one: Found, sets: Mapping[str, Any], names: Mapping[str, Any]) -> tuple[Edit, ...]:
    """The edits of ``fix.set``: every name found in a file, every value spelled as that file spells it."""
    out = []
    for raw, wanted in sets.items():
        name = ranking.fill(str(raw), one.finding.args)
        spot = one.place(name)
        if spot is None:
            raise Refused("no_place_for", key=name)
        file, key = spot
        out.append(Edit(file, key, "", spelled(file, _value(one, wanted, names))))
    return tuple(out)


def _value(one: Found, wanted: Any, names: Mapping[str, Any]) -> Any:
    if not isinstance(wanted, str):
        return wanted
    try:
        return one.value(wanted, names)
    except ValueError as error:
        raise Refused("no_value", value=wanted[:80], why=str(error)[:200]) from None


def spelled(file: str, value: Any) -> str:
    """A plain value as source text of a file's format; nothing for None, which takes a key away. Raises Refused."""
    from doctor.patch import jsonspans, pyspans, shellspans, spans, yamlspans

    if value is None:
        return ""
    fmt = spans.format_of(file)
    if fmt is None:
        fmt = planning.snapshot(file).format
    if fmt == "yaml":
        return yamlspans.spell(value)
    if fmt == "json":
        return jsonspans.spell(value)
    return shellspans.spell(value) if fmt == "shell" else pyspans.spell(value)


def unmended(found: Sequence[Found], every: Sequence[Proposal]) -> list[Finding]:
    """Findings that no proposal is made for."""
    return [one.finding for one in found if not any(p.finding is one.finding for p in every)]


def with_fixes(report: Report, found: Sequence[Found], options: Options, base: RuleBase) -> Report:
    """A report whose fixes name their edits and valid choices, where its findings stand in files."""
    every = of_found(found, options, base)
    out = []
    for diagnosis in report.diagnoses:
        fixes = []
        for fix in diagnosis.fixes:
            own = [one for one in every if one.fix.id == fix.id and one.finding.id == diagnosis.rule]
            edits = tuple(edit for one in own for edit in _shown(one, options)) or fix.edits
            worst = next((one.fix.applicability for one in own if one.fix.applicability != "safe"), "safe")
            choices = own[-1].fix.choices if own else fix.choices
            applicability = worst if own else fix.applicability
            fixes.append(fix._replace(edits=edits, choices=choices, applicability=applicability))
        out.append(diagnosis._replace(fixes=tuple(fixes)))
    return report._replace(diagnoses=tuple(out))


def _shown(one: Proposal, options: Options) -> tuple[Edit, ...]:
    """The edits of a proposal as they would be made; nothing if they cannot be."""
    try:
        patch = planning.plan(one.fix.edits, (one.finding.id,), aliases=options.aliases)
    except Refused:
        return ()
    if one.passes(patch.contents()) is False:
        return ()
    return tuple(e for file in patch.files for e in file.changes)


class Decision(NamedTuple):
    """What becomes of a proposal: planned · needs_unsafe · needs_choice · display · refused."""

    proposal: Proposal
    state: str
    why: Refused | None = None


def decide(every: Sequence[Proposal], options: Options) -> tuple[Patch | None, list[Decision]]:
    """One patch of everything that may be done, and what is said of each proposal.

    Proposals are taken in their order. One that conflicts with what is taken already, or after which an earlier check
    would fail again, is refused: another run shows what is left of it. Of several fixes of one finding the first that
    can be done is taken.
    """
    edits: list[Edit] = []
    taken: list[Proposal] = []
    patch: Patch | None = None
    out: list[Decision] = []
    for one in every:
        if one.why is not None:
            out.append(Decision(one, "refused", one.why))
        elif one.choices and not one.fix.edits:
            out.append(Decision(one, "needs_choice"))
        elif not one.fix.edits or one.fix.applicability == "display":
            out.append(Decision(one, "display"))
        elif one.fix.applicability != "safe" and not options.unsafe and not one.choices:
            out.append(Decision(one, "needs_unsafe"))
        else:
            try:
                if any(t.finding is one.finding for t in taken):
                    raise Refused("other_fix")
                rules = [t.finding.id for t in (*taken, one)]
                made = planning.plan([*edits, *one.fix.edits], rules, aliases=options.aliases)
                contents = made.contents()
                bad = [t.finding.id for t in (*taken, one) if t.passes(contents) is False]
                if bad:
                    raise Refused("still_fails", rules=", ".join(dict.fromkeys(bad)))
            except Refused as refused:
                if refused.code == "nothing":
                    continue
                out.append(Decision(one, "refused", refused))
                continue
            patch = made
            edits += one.fix.edits
            taken.append(one)
            out.append(Decision(one, "planned"))
    return patch, out


def passing(decisions: Sequence[Decision]) -> Callable[[Patch], bool | None]:
    """The checks of everything planned, for ``doctor.patch.apply.apply``."""
    own = [d.proposal for d in decisions if d.state == "planned"]

    def passes(patch: Patch) -> bool | None:
        answers = [one.passes(patch.contents()) for one in own]
        return False if False in answers else None if None in answers else True

    return passes


def environment(found: Sequence[Found], lang: str, base: RuleBase | None = None) -> str:
    """The environment settings of the findings as a script; nothing if none asks for one."""
    from doctor import envfix

    rules = base if base is not None else load()
    findings = tuple(one.finding for one in found)
    if not any(fix.get("env") for f in findings if f.id in rules for fix in rules.whole(f.id)["fix"]):
        return ""
    return envfix.script(Report({}, "", (), findings), lang, rules)
