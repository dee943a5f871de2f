"""What stands in files before a run: configurations and launch scripts as training plans, judged by conditions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from doctor import checkup
from doctor.model import Fact, Finding, InputSeen, Unknown, Verdict
from doctor.plan import cel, detect
from doctor.plan.judge import facts_of, judge
from doctor.plan.schema import Plan
from doctor.rulebase import RuleBase
from doctor.scan.inputs import Problem, problem

ENDINGS = (".yaml", ".yml", ".json", ".sh", ".bash", ".py")
FILES = 2_000
"""Files below a folder that are looked at; what is beyond is said."""
_SKIPPED = frozenset((".git", ".venv", "venv", "node_modules", "__pycache__", "site-packages", ".mypy_cache"))


class Read(NamedTuple):
    """``plans`` by file, what was found, every file that was looked at, and those that could not be read."""

    plans: tuple[Plan, ...]
    findings: tuple[Finding, ...]
    inputs: tuple[InputSeen, ...]
    problems: tuple[Problem, ...]
    cut: bool = False
    of_plans: tuple[tuple[Finding, ...], ...] = ()
    """the findings of each plan, in the order of ``plans``"""


def files(paths: Sequence[str]) -> Iterator[str | Problem]:
    """Files named, and those below folders whose names end as configurations, scripts and sources do."""
    for path in paths:
        if os.path.isfile(path):
            yield path
            continue
        if not os.path.isdir(path):
            yield problem(path, FileNotFoundError())
            continue
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if name not in _SKIPPED)
            for name in sorted(names):
                if name.lower().endswith(ENDINGS):
                    yield os.path.join(folder, name)


def judge_text(name: str, text: str, base: RuleBase, facts: Mapping[str, Any]) -> list[Finding] | None:
    """The findings of a text that somebody gave, None if it describes no training run. The name of a paste tells
    nothing: what looks like JSON is read as such, else as YAML."""
    plan = plan_of(name, text)
    return None if plan is None else _titled(base, judge(plan, base, facts))


class Noted(NamedTuple):
    """What was found in notes, and the settings in them that any rule could judge, as they are written."""

    findings: tuple[Finding, ...]
    settings: tuple[str, ...]


def judge_notes(name: str, text: str, base: RuleBase, facts: Mapping[str, Any]) -> Noted | None:
    """The findings of settings that no library of MindSpore reads, taken for what they mean; None if there is nothing
    that can be judged. Advice is given only where it speaks of such notes: what helps a training with MindFormers is
    no help to another framework."""
    from doctor.plan import loose

    plans, told = loose.read(name, text)
    found: dict[str, Finding] = {}
    settings: dict[str, None] = {}
    for one in plans:
        for finding in judge(one, base, told | dict(facts)):
            if finding.verdict not in (Verdict.PASS, Verdict.FAIL, Verdict.CRASH):
                continue
            asked = [n[5:] for n in cel.names(base.when[finding.id]["if"]) if n.startswith("plan.")]
            values = [one.values[n] for n in asked if n in one.values]
            settings.update((v.key, None) for v in values if v.origin == "set")
            advice = finding.verdict is Verdict.FAIL and finding.severity == "advice"
            if advice and not any(n.startswith(("notes.", "precision.amp_level")) for n in asked):
                continue
            if finding.id not in found or finding.verdict is Verdict.FAIL:
                found[finding.id] = finding
    if not settings:
        return None
    return Noted(tuple(_titled(base, list(found.values()))), tuple(settings))


def judge_commands(name: str, text: str, base: RuleBase, facts: Mapping[str, Any]) -> list[Finding] | None:
    """The findings of a launch script, None if it describes no run. Of pasted commands only what fails in those that
    start a training or a container: what else a paste shows was typed and is over."""
    from doctor.plan import shell

    if name.lower().endswith(detect.SHELL):
        return judge_text(name, text, base, facts)
    plan = detect.read(name, text, ".sh")
    if plan is None or (plan.kind == "shell" and not shell.starts_container(text)):
        return None
    return _titled(base, [finding for finding in judge(plan, base, facts) if finding.verdict is Verdict.FAIL]) or None


def plan_of(name: str, text: str) -> Plan | None:
    """The plan of a text that somebody gave, None if it describes none; see ``judge_text``."""
    known = name.lower().endswith(ENDINGS)
    plan = detect.read(name if known or text.lstrip()[:1] == "{" else f"{name}.yaml", text)
    if plan is not None and not known:
        plan.file = name
    return plan


def of_file(path: str, base: RuleBase, facts: Mapping[str, Any]) -> tuple[Plan | None, list[Finding]]:
    """The plan of one file, None if it describes no run, and its findings. Raises OSError."""
    with open(path, "rb"):
        plan = detect.read(path)
    return plan, [] if plan is None else _titled(base, judge(plan, base, facts))


def judge_source(name: str, text: str, base: RuleBase, facts: Mapping[str, Any]) -> list[Finding]:
    """The findings of a Python source that somebody gave; ``facts`` may name the version of MindSpore. Empty if it does
    not speak of MindSpore, or is a piece of code that nothing can parse: a paste begins and ends anywhere."""
    from textwrap import dedent

    from doctor import source

    module = source.tree.read(name, dedent(text).encode("utf-8", "surrogatepass"))
    if isinstance(module, source.Problem):
        return []
    version = str(facts.get("version.mindspore") or "")
    target = source.Target(version, str(facts.get("version.mindformers") or ""), bool(version))
    return source.judge([(name, module)], target, base)


def _titled(base: RuleBase, findings: Sequence[Finding]) -> list[Finding]:
    """The findings, those that passed with what was looked at."""
    return [f if f.title else f._replace(title=base.whole(f.id).get("subject") or {}) for f in findings]


def check(paths: Sequence[str], base: RuleBase, facts: Mapping[str, Fact | Unknown], options: checkup.Options) -> Read:
    """Judge every configuration, launch script and Python source under ``paths``."""
    from doctor import source

    known = facts_of(facts)
    weighed = [path for path in paths if path.endswith(detect.WEIGHTS) and os.path.isfile(path)]
    plans: list[Plan] = []
    of_plans: list[tuple[Finding, ...]] = []
    inputs: list[InputSeen] = []
    problems: list[Problem] = []
    sources: list[tuple[str, source.Module | source.Problem]] = []
    cut = False
    for n, path in enumerate(files(paths)):
        if options.cancelled():
            break
        if n >= FILES:
            cut = True
            break
        if isinstance(path, Problem):
            problems.append(path)
            continue
        try:
            size = os.stat(path).st_size
            plan = detect.read(path)
        except OSError as error:
            problems.append(problem(path, error))
            continue
        if plan is not None and plan.weights is None and weighed:
            detect.weigh(plan, weighed[0])
        kinds: tuple[str, ...] = ("weights",) if path in weighed else ()
        if plan is not None:
            plans.append(plan)
            of_plans.append(taken(base, options, _titled(base, judge(plan, base, known))))
            kinds = ("config",)
        if path.endswith(".py"):
            sources.append((path, source.read(path)))
            kinds = ("python", *kinds)
        if kinds:
            inputs.append(InputSeen(path, kinds, size, 0))
    findings = [finding for one in of_plans for finding in one]
    if sources:
        target = source.target_of(facts, options.mindspore)
        findings += taken(base, options, source.judge(sources, target, base, options.cancelled))
    return Read(tuple(plans), tuple(findings), tuple(inputs), tuple(problems), cut, tuple(of_plans))


def taken(base: RuleBase, options: checkup.Options, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of the rules that --only and --skip leave."""
    return tuple(finding for finding in findings if options.take(base[finding.id]))
