"""The rules of kind ``profile`` over the values of each rank and of the run, and what the report shows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from doctor import profile
from doctor.model import Evidence
from doctor.plan import cel
from doctor.plan.schema import Plan
from doctor.profile import facts as values
from doctor.profile.tables import Table
from doctor.rulebase import Rule, RuleBase
from doctor.scan.scanner import Occurrence, Scanned


class Hit(NamedTuple):
    """A rule that fired: for which rank, with what its texts say, and where."""

    rule: str
    rank: int | None
    args: dict[str, str]
    evidence: Evidence


class Judged(NamedTuple):
    """``scans`` hold an occurrence for each hit; ``shown`` is ``facts.profile`` of the report; ``crashed``: rules whose
    condition failed, and how."""

    scans: list[Scanned]
    shown: dict[str, Any]
    crashed: dict[str, str]


def judge(
    base: RuleBase,
    found: Sequence[Table],
    names: Iterable[str] = (),
    plan: Plan | None = None,
    ranks: Mapping[str, int] | None = None,
) -> Judged:
    """What the rules say of some tables. ``names``, ``ranks``: see ``facts.profiles``."""
    profiles = values.profiles(found, names, plan, ranks)
    together = values.run(profiles, found)
    hits: list[Hit] = []
    crashed: dict[str, str] = {}
    for rule_id, compiled in base.profile.items():
        try:
            hits += judge_rule(base[rule_id], compiled, profiles, together, plan)
        except cel.CelError as error:
            crashed[rule_id] = str(error)
    scans: dict[str, list[Occurrence]] = {}
    for hit in hits:
        place = hit.evidence
        scans.setdefault(place.source, []).append(
            Occurrence(hit.rule, place.line, place.text, hit.args, "", None, None, hit.rank, None, 0)
        )
    return Judged([_scan(name, own) for name, own in scans.items()], _shown(profiles, together, found), crashed)


def judge_rule(
    rule: Rule, compiled: Mapping[str, Any], profiles: Sequence[values.Profile], together: values.Profile,
    plan: Plan | None,
) -> list[Hit]:  # fmt: skip
    """Where a rule fires: for each rank by its own values, once if it asks for those of the run. A value that is not
    known makes no hit. Raises CelError."""
    names = cel.names(compiled["if"])
    whole = any(name in values.OF_RUN for name in names)
    hits = []
    for one in [together] if whole else profiles:

        def lookup(name: str, one: values.Profile = one) -> Any:
            group, _, rest = name.partition(".")
            if group == "plan":
                value = plan.values.get(rest) if plan is not None else None
                return cel.Absent(frozenset([name])) if value is None else value.value
            found = one.values.get(rest)
            return cel.Absent(frozenset([name])) if found is None else found

        if cel.evaluate(compiled["if"], lookup) is not True:
            continue
        args: dict[str, str] = {}
        for name in dict.fromkeys([*names, *(n for tree in compiled["let"].values() for n in cel.names(tree))]):
            value = lookup(name)
            if not isinstance(value, cel.Absent):
                args[name.rsplit(".", maxsplit=1)[-1]] = cel.text_of(value)
        for name, tree in compiled["let"].items():
            value = cel.evaluate(tree, lookup)
            if not isinstance(value, cel.Absent):
                args[name] = cel.text_of(value)
        read = [n.removeprefix("profile.") for n in (*compiled["at"], *names)]
        place = next((one.where[n] for n in read if n in one.where), Evidence(one.name, 0, ""))
        rank = one.rank
        if whole:
            asked = _asked(compiled)
            named = (n for n in ("slow_rank", "least_wait") if f"profile.{n}" in asked and n in together.values)
            rank = next((together.values[n] for n in named), None)
        hits.append(Hit(rule.id, rank, args, place))
    return hits


def _asked(compiled: Mapping[str, Any]) -> set[str]:
    """All names that a rule reads."""
    return {n for tree in (compiled["if"], *compiled["let"].values()) for n in cel.names(tree)}


def _scan(name: str, found: list[Occurrence]) -> Scanned:
    counts: dict[str, int] = {}
    for one in found:
        counts[one.rule] = counts.get(one.rule, 0) + 1
    return Scanned(
        name, 0, 0, tuple(sorted(found, key=lambda o: o.line)), counts, (), 0, 0, (0, None), None, (), (None, None),
        (), b"",
    )  # fmt: skip


def _shown(profiles: Sequence[values.Profile], together: values.Profile, found: Sequence[Table]) -> dict[str, Any]:
    """``facts.profile``: the values with their units, the operators that take most, and what was read of each file."""
    return {
        "units": {name.removeprefix("profile."): field.unit for name, field in values.FIELDS.items() if field.unit},
        "profiles": [
            {
                "name": p.name, "rank": p.rank, "values": p.values,
                "top": [dict(zip(("type", "class", "percent", "count"), row, strict=True)) for row in p.top],
            }
            for p in profiles
        ],
        "run": together.values,
        "files": [
            {
                "name": t.source, "table": t.kind, "rows": t.rows, "unreadable_rows": t.bad, "cut": t.cut,
                "columns": list(t.used), "unused": list(t.unused), "missing": list(t.missing),
            }
            for t in found
        ],
    }  # fmt: skip


def example(
    rule: Rule, compiled: Mapping[str, Any], files: Mapping[str, str], plan: Plan | None
) -> tuple[list[Hit], list[Table]]:
    """(where a rule fires in the files of an example, the tables that were read). Raises ValueError for a file that is
    no table."""
    found = []
    for name, text in files.items():
        data = text.encode()
        kind = profile.kind_of(data)
        if not kind:
            raise ValueError(f"{name} is no table of a profiler")
        found.append(profile.read(name, kind, [data]))
    profiles = values.profiles(found, files, plan)
    return judge_rule(rule, compiled, profiles, values.run(profiles, found), plan), found
