"""The examples in the rules: every hit must fire, every miss must not, and each must render in both languages."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from doctor import ranking, ruleschema
from doctor.model import Finding
from doctor.plan.schema import Plan
from doctor.rulebase import Rule, RuleBase, rules_folder
from doctor.scan.lazy import lazy
from doctor.scan.scanner import Matcher, Scanned, scan_text


class Outcome(NamedTuple):
    """One example that did not do what its rule says; ``todo`` marks a known gap that has closed."""

    file: str
    rule: str
    text: str
    todo: bool = False

    def __str__(self) -> str:
        return f"{self.file}: {self.rule}: {self.text}"


KINDS = ("hit", "miss", "todo_hit", "todo_miss")


def _attach(plan: Plan, example: dict[str, Any]) -> None:
    """The weight file of an example, made of its shapes."""
    from doctor.plan import memory, weights
    from doctor.plan.schema import Trouble

    header: weights.Header | Trouble = Trouble(
        example["weight_problem"], "model.safetensors", 0, {"why": "of the example"}
    )
    if example["weights"]:
        tensors = tuple(weights.Tensor(name, "F32", tuple(shape)) for name, shape in example["weights"].items())
        header = weights.Header("model.safetensors", "safetensors", tensors, 1)
    weights.into(plan, header, weights.family_of(plan), memory.shape_of(plan))


def _findings(rule: Rule, whole: dict[str, Any], example: dict[str, Any], base: RuleBase) -> list[Finding]:
    """What a rule that is no log rule says of its example: a small host, configuration, source or run.

    Raises ValueError and OSError for an example that cannot be read.
    """
    if rule.kind == "when":
        from doctor.plan import detect, loose
        from doctor.plan.judge import judge_rule

        plan = detect.read(example["name"], example["config"])
        if plan is None:
            plans, told = loose.read(example["name"], example["config"])
            if not plans:
                raise ValueError("is neither a training plan nor notes of one")
            told |= example["facts"]
            return [judge_rule(rule, whole, base.when[rule.id], one, told) for one in plans]
        if example["weights"] or example["weight_problem"]:
            _attach(plan, example)
        return [judge_rule(rule, whole, base.when[rule.id], plan, example["facts"])]
    if rule.kind == "profile":
        return _profile(rule, base, example)
    if rule.kind == "code":
        from doctor import source

        return source.example(source.spec_of(rule, whole), example["code"], source.Target(**example["versions"]))
    if rule.kind == "smoke":
        import importlib

        # below the line of imports: only these examples know the smoke test
        smoke = importlib.import_module("doctor.smoke.judge")
        runs = importlib.import_module("doctor.smoke.compose")
        found: Finding = smoke.judge(smoke.spec_of(rule, whole), runs.example(example["smoke"]))
        return [found]
    from doctor import checkup
    from doctor.hosts import compose

    check = whole["match"]["check"]
    spec = checkup.Spec(rule, whole, check["call"], tuple(check["needs"]))
    return checkup.judge_alone(spec, compose.example(example["host"]))


def _profile(rule: Rule, base: RuleBase, example: dict[str, Any]) -> list[Finding]:
    """What a rule over a profile says of the files of an example."""
    from doctor import profile
    from doctor.model import Verdict
    from doctor.profile import judge

    hits, found = judge.example(rule, base.profile[rule.id], example["profile"], _plan(example))
    for table in found:
        if table.bad or profile.unread(table):
            raise ValueError(f"{table.source}: {table.bad} rows cannot be read, {profile.unread(table).get('en', '')}")
    return [Finding(rule.id, Verdict.FAIL, dict(hit.args)) for hit in hits] or [Finding(rule.id, Verdict.PASS)]


def _examples(rule: Rule, whole: dict[str, Any], base: RuleBase, say: Callable[..., None]) -> int:
    """The examples of a rule that is no log rule. Returns how many were run."""
    from doctor.model import Verdict

    ran = 0
    for kind in KINDS:
        for number, example in enumerate(whole["tests"][kind], 1):
            ran += 1
            began = time.process_time()
            try:
                findings = _findings(rule, whole, example, base)
            except (OSError, ValueError) as error:
                say(f"{kind} {number} cannot be read: {error}")
                continue
            if time.process_time() - began > 2.0:
                say(f"{kind} {number} takes over two seconds")
            crash = next((f for f in findings if f.verdict is Verdict.CRASH), None)
            failed = [f for f in findings if f.verdict is Verdict.FAIL]
            if crash is not None:
                say(f"{kind} {number} crashes: {crash.args.get('what')}")
            elif kind == "hit" and not failed:
                said = ", ".join(sorted({f"{f.verdict.value} {f.why.get('en', '')}".strip() for f in findings}))
                say(f"hit {number} does not fail: {said}")
            elif kind == "hit":
                wrong = [_differences(f.args, example["expect"]) for f in failed]
                if all(wrong):
                    say(f"hit {number}: {min(wrong, key=len)}")
                for finding in failed:
                    _unfilled(whole, finding.args, f"hit {number}", say)
            elif kind == "miss" and failed:
                say(f"miss {number} fails: {failed[0].title.get('en', '')}")
            elif kind == "todo_hit" and failed:
                say(f"todo_hit {number} fires now: move it to hit", True)
            elif kind == "todo_miss" and not failed:
                say(f"todo_miss {number} is quiet now: move it to miss", True)
    return ran


_MARKS = lazy(
    r"…|\{[a-z_][a-z0-9_]*\??\}|[(（\[] ?[,，、;；:：=/]? ?[)）\]]|[(（] ?[,，、;；]|[,，、;；:：=] ?[)）]|=[ ,，;；]"
    r"|(?<=\S) {2,}|[:：] ?[,，.。;；]|[,，] ?[,，.。;；]| [,;。，；]| \.(?=\s|$)|[:：,，=(（]$"
)


def holes(template: str, args: dict[str, Any]) -> list[str]:
    """What shows in a text that a value is absent: a field left over, empty brackets, a lone comma, a double blank.

    What the text shows with all values too, such as ``main()``, is its own.
    """
    named = {name for name, _ in ranking.FIELD.findall(template)}
    whole = Counter(_MARKS.findall(ranking.fill(template, dict.fromkeys(named, "x"))))
    left = Counter(_MARKS.findall(ranking.fill(template, {name: "x" for name in named if args.get(name)})))
    return sorted((left - whole).elements())


def _unfilled(whole: dict[str, Any], args: dict[str, Any], example: str, say: Callable[..., None]) -> None:
    """Say which texts show that a value is absent."""
    for lang in ("zh", "en"):
        for field in ("title", "cause", "next"):
            found = holes(whole[field][lang], args)
            if found:
                text = ranking.fill(whole[field][lang], args)
                say(f"{example}: {field}.{lang} shows that a value is absent ({found[0]!r}): {text[:160]!r}")


def _differences(args: dict[str, Any], expected: dict[str, str]) -> str:
    return ", ".join(f"{k} is {args.get(k)!r}, expected {v!r}" for k, v in expected.items() if args.get(k) != v)


def _plan(example: dict[str, Any]) -> Plan | None:
    """The plan in the configuration of an example."""
    from doctor import static

    return static.plan_of(example["name"], example["config"]) if example["config"] else None


def _values(example: dict[str, Any]) -> dict[str, Any]:
    """The values of the configuration of an example, by name."""
    plan = _plan(example)
    return {name: value.value for name, value in plan.values.items()} if plan else {}


def _fired(scan: Scanned, rule: str) -> dict[str, str] | None:
    return next((o.args for o in scan.occurrences if o.rule == rule), None)


def _log_examples(
    rule: Rule,
    whole: dict[str, Any],
    base: RuleBase,
    matcher: Matcher,
    say: Callable[..., None],
    *,
    alone: bool = False,
) -> int:
    """The examples of a log or series rule. Returns how many were run. ``alone``: no other rules are there, so whether
    it heads a report cannot be told."""
    ran = 0
    for kind in KINDS:
        for number, example in enumerate(whole["tests"][kind], 1):
            ran += 1
            began = time.process_time()
            scan = scan_text(matcher, example["log"])
            if rule.kind == "series":
                from doctor import training

                held = {scan.name: example["log"].encode()}
                scan = training.judge(base, [scan], {}, held, _values(example)).scans[0]
            args = _fired(scan, rule.id)
            if time.process_time() - began > 2.0:
                say(f"{kind} {number} takes over two seconds")
            if kind == "hit":
                if args is None:
                    say(f"hit {number} does not fire: {example['log'][:100]!r}")
                    continue
                _unfilled(whole, args, f"hit {number}", say)
                for name, value in example["expect"].items():
                    if args.get(name) != value:
                        say(f"hit {number}: {name} is {args.get(name)!r}, expected {value!r}")
                if example["first"] and not alone:
                    _, diagnoses = ranking.rank(base, [scan], {})
                    if not diagnoses or diagnoses[0].rule != rule.id:
                        say(f"hit {number} is not first: {diagnoses[0].rule if diagnoses else 'nothing'} is")
            elif kind == "miss" and args is not None:
                say(f"miss {number} fires: {example['log'][:100]!r}")
            elif kind == "todo_hit" and args is not None:
                say(f"todo_hit {number} fires now: move it to hit", True)
            elif kind == "todo_miss" and args is None:
                say(f"todo_miss {number} is quiet now: move it to miss", True)
    return ran


def alone(path: str, base: RuleBase) -> tuple[int, list[Outcome], list[str]]:
    """Check one rule file by itself, wherever it lies and also as a draft: as ``run`` answers, in milliseconds. Whether
    it heads a report (``first``) takes all rules and is not asked."""
    from doctor import ruletry

    ready = ruletry.of_file(path, base)
    if ready.problems or not ready.base.ids:
        return 0, [], list(ready.problems)
    rule = ready.rule
    failed: list[Outcome] = []

    def say(text: str, todo: bool = False) -> None:
        failed.append(Outcome(path, rule.id, text, todo))

    if rule.kind in ("log", "series"):
        matcher = Matcher(ready.base, "python")
        return _log_examples(rule, ready.whole, ready.base, matcher, say, alone=True), failed, []
    if rule.kind in ("check", "when", "smoke", "code", "profile") and (
        rule.kind != "check" or ready.whole["match"]["check"]["needs"]
    ):
        return _examples(rule, ready.whole, ready.base, say), failed, []
    return 0, failed, []


def run(
    paths: Sequence[str] = (), folder: str | None = None, engine: str = "python"
) -> tuple[int, list[Outcome], list[str]]:
    """Run the examples of some rule files or folders (default: all).

    Returns (number of examples run, what failed, problems of the files themselves as ``file:line: text``).
    """
    folder = os.path.abspath(folder or rules_folder())
    base = RuleBase(folder, "test", ruleschema.compile_folder(folder, full=True))
    wanted = [os.path.abspath(p) for p in paths]

    def chosen(path: str) -> bool:
        return not wanted or any(path == w or path.startswith(w.rstrip("/") + "/") for w in wanted)

    problems = [str(p) for p in base.problems if chosen(os.path.abspath(p.file))]
    table = os.path.join(folder, "versions.yaml")
    if os.path.exists(table) and chosen(table):
        from doctor import versionschema

        try:
            problems += [f"{table}:1: {line}" for line in versionschema.lint(versionschema.read(table))]
        except ValueError as error:
            problems.append(str(error))
    for path in wanted:
        if not os.path.exists(path):
            problems.append(f"{path}:1: no such file")
    matcher = Matcher(base, engine)
    done: set[str] = set()
    ran = 0
    failed: list[Outcome] = []
    for rule in base:
        whole = base.whole(rule.id)
        path = os.path.join(os.path.dirname(folder), whole["file"])
        if not chosen(path):
            continue
        done.add(path)
        if rule.kind == "check" and not whole["match"]["check"]["needs"]:
            continue

        def say(text: str, todo: bool = False, file: str = whole["file"], rule_id: str = rule.id) -> None:
            failed.append(Outcome(file, rule_id, text, todo))

        if rule.kind not in ("log", "series"):
            ran += _examples(rule, whole, base, say)
            continue
        ran += _log_examples(rule, whole, base, matcher, say)
    for path in wanted:
        if os.path.isfile(path) and path.endswith(".yaml") and path not in done and path != table:
            # a draft, or a file outside the folder: the base does not hold it
            more, wrong, why = alone(path, base)
            ran += more
            failed += wrong
            problems += [line for line in why if line not in problems]
    return ran, failed, problems
