"""The rule format: schema, reading with file and line, the linter, and the compiled form.

Only loaded when rules are compiled, tested or written; msgspec and PyYAML are never on the path of a warm start.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import yaml

from doctor.model import CONFIDENCES, ROLES, SEVERITIES
from doctor.rulebase import Problem, rule_files

FAMILIES = (
    "ENV",
    "VER",
    "NPU",
    "HCCL",
    "CFG",
    "PAR",
    "CODE",
    "API",
    "MEM",
    "NUM",
    "OPS",
    "DATA",
    "CKPT",
    "PERF",
    "RUN",
)
LOG_LEVELS = ("DEBUG", "INFO", "EVENT", "WARNING", "ERROR", "CRITICAL")
JUDGED = ("log", "check", "code", "when", "smoke", "series", "profile")
"""Kinds of match that this version judges; a rule of another kind that loaded would silently never fire."""

CODE_ARGS = {"call", "name", "value", "argument", "file", "line", "class", "count"}
"""What texts of a code rule without a check may use; see doctor.source.match."""

DEFAULT_LEVELS = ("WARNING", "ERROR", "CRITICAL")
_ID = re.compile(rf"({'|'.join(FAMILIES)})\d{{3}}")
_PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)(\??)\}")
_GROUP = re.compile(r"\(\?P<(\w+)>")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_STR, _MAP, _SEQ, _MERGE = (f"tag:yaml.org,2002:{name}" for name in ("str", "map", "seq", "merge"))


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader without what rules do not need: resolvers that go by the path of a value. PyYAML asks for the
    tag of every value in Python; 140,000 times for all rules."""

    def descend_resolver(self, current_node: Any, current_index: Any) -> None: ...

    def ascend_resolver(self) -> None: ...

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """The tag of a value that has none of its own."""
        if kind is not yaml.ScalarNode:
            return _MAP if kind is yaml.MappingNode else _SEQ
        if implicit[0]:
            for tag, pattern in self.yaml_implicit_resolvers.get(value[:1], ()):
                if pattern.match(value):
                    return str(tag)
        return _STR


class Both(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text in both languages."""

    zh: str
    en: str


class ClauseS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    literal: str | None = None
    regex: str | None = None


class Within(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lines: int = 0
    seconds: int = 0
    scope: Literal["rank", "run"] = "rank"


class LogS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    any: list[ClauseS] = []
    all: list[ClauseS] = []
    not_: list[ClauseS] = msgspec.field(default_factory=list, name="not")
    unit: Literal["line", "message", "block"] = "line"
    level: list[Literal["DEBUG", "INFO", "EVENT", "WARNING", "ERROR", "CRITICAL"]] = []
    within: Within = Within()
    after: int = 2
    calc: str = ""
    derive: dict[str, str] = {}


class CheckS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    call: str
    needs: list[str] = []


class WhenS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition over the training plan; see doctor.plan.cel and doctor.plan.schema.

    ``at`` names the values a reader should look at, the most telling first (default: all that the condition reads);
    ``let`` are further values for the texts.
    """

    if_: str = msgspec.field(name="if")
    at: list[str] = []
    let: dict[str, str] = {}


class SmokeS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A verdict of the smoke test: a function of ``doctor.smoke.verdicts``."""

    call: str


class CondS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One condition on a call; see doctor.source.match. ``arg`` is a keyword, a position, or ``keyword/position``."""

    arg: str | int | None = None
    is_: Literal[
        "given", "absent", "string", "number", "int", "float", "bool", "none", "bytes", "tuple", "list", "literal", None
    ] = msgspec.field(default=None, name="is")
    equals: list[Any] | None = None
    differs: list[Any] | None = None
    above: int | float | None = None
    below: int | float | None = None
    length_not: list[int] | None = None
    matches: str = ""
    made_by: list[str] = []
    name: list[str] = []
    positional: dict[Literal["above", "below"], int] = {}
    keywords: list[str] = []
    inside: list[Literal["construct", "cell", "init", "loop", "module"]] = []
    dropped: bool = False
    of: list[str] = []


class ClassS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class definition: of a Cell, with some bases, with and without some methods."""

    cell: bool = False
    base: list[str] = []
    has: list[str] = []
    lacks: list[str] = []


class CodeS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Python source: calls, methods or classes under conditions, or a Python check of the file."""

    call: list[str] = []
    method: list[str] = []
    class_: ClassS | None = msgspec.field(default=None, name="class")
    where: list[CondS] = []
    not_: list[CondS] = msgspec.field(default_factory=list, name="not")
    check: str = ""


class SeriesS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What training lines say. ``label``: the name that the series earns when the rule fires; ``scope`` run: the check
    sees all ranks at once; memory: it sees the failed allocations of a source."""

    call: str
    label: Literal["", "nan", "inf", "diverged", "loss_scale_collapse", "oscillating", "spike_recovered", "plateau"] = (
        ""
    )
    scope: Literal["rank", "run", "memory"] = "rank"


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Exactly one of these."""

    log: LogS | None = None
    when: str | WhenS | None = None
    code: CodeS | None = None
    series: SeriesS | None = None
    profile: str | WhenS | None = None
    check: CheckS | None = None
    smoke: SmokeS | None = None


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    when: str
    zh: str
    en: str
    at: list[str] = []


class FixS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    applicability: Literal["safe", "unsafe", "display"]
    zh: str
    en: str
    set: dict[str, Any] = {}
    env: dict[str, Any] = {}
    rewrite: str = ""
    choices: list[Any] = []


class ExplainsS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str = ""
    topic: str = ""
    within: str = ""
    scope: Literal["same_rank", "same_host", "any"] = "any"


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["source", "official_doc", "measured", "issue", "seed"]
    ref: str
    says: str = ""
    read: Any = None


class Example(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``log`` for a log rule or for training lines (with a ``config`` beside them where the rule wants one); ``host``
    for a check: answers by key, see ``doctor.hosts.compose``; ``config`` for a condition: the text of a file named
    ``name``, judged with some ``facts`` and the ``weights`` (shapes by name) or the ``weight_problem`` of a file
    beside it; ``profile`` for a profile: the text of each file by its name, with or without a ``config``; ``smoke`` for
    a verdict of the smoke test: what differs from a healthy run, see ``doctor.smoke.compose``; ``code`` for a code
    rule: a Python file, judged for the ``versions`` given (default: the newest table)."""

    log: str = ""
    host: dict[str, Any] = {}
    smoke: dict[str, Any] = {}
    code: str = ""
    versions: dict[Literal["mindspore", "mindformers"], str] = {}
    config: str = ""
    name: str = "config.yaml"
    profile: dict[str, str] = {}
    facts: dict[str, Any] = {}
    weights: dict[str, list[int]] = {}
    weight_problem: str = ""
    expect: dict[str, str] = {}
    first: bool = False
    file: str = ""
    why: str = ""


class Tests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hit: list[Example] = []
    miss: list[Example] = []
    todo_hit: list[Example] = []
    todo_miss: list[Example] = []


class RuleS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule file; the fields are described in rules/README.md."""

    id: str
    name: str
    topic: str
    title: Both
    severity: Literal["error", "warning", "advice"]
    confidence: Literal["certain", "likely", "guess"]
    status: Literal["draft", "preview", "stable", "deprecated"]
    since: str
    match: Match
    cause: Both
    next: Both
    provenance: list[Source]
    tests: Tests
    subject: Both | None = None
    role: Literal["root", "either", "symptom", "pointer", "wrapper", "detail", "noise"] = "root"
    priority: int = 50
    aliases: list[str] = []
    covers: list[str] = []
    deprecated: str = ""
    applies_to: dict[str, Any] = {}
    confirm: list[Condition] = []
    contradict: list[Condition] = []
    fix: list[FixS] = []
    explains: list[ExplainsS] = []
    seeds: list[str] = []
    words: dict[str, Both] = {}
    note: str = ""

    @property
    def kind(self) -> str:
        return next((name for name in Match.__struct_fields__ if getattr(self.match, name) is not None), "")


class RuleError(ValueError):
    """A rule file that cannot be used."""

    def __init__(self, file: str, line: int, text: str) -> None:
        super().__init__(f"{file}:{line}: {text}")
        self.file, self.line, self.text = file, line, text


def _line_of(node: yaml.Node | None, path: str) -> int:
    """1-based line of a msgspec path such as ``$.match.log.any[0].regex`` in a composed document."""
    line = 1
    for key, index in re.findall(r"\.([\w-]+)|\[(\d+|\.\.\.)\]", path):
        if node is None:
            break
        line = node.start_mark.line + 1
        if key and isinstance(node, yaml.MappingNode):
            pair = next(((k, v) for k, v in node.value if k.value == key), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
        elif index and index.isdigit() and isinstance(node, yaml.SequenceNode) and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
    return line


def read_yaml(path: str) -> tuple[Any, yaml.Node | None]:
    """(value, composed node) of a YAML file. Raises RuleError with the line for anything wrong in it."""
    node: yaml.Node | None = None
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        loader = Loader(text)
        try:
            node = loader.get_single_node()
            return (_value(path, loader, node, 0, {}) if node is not None else None), node
        finally:
            loader.dispose()
    except RuleError:
        raise
    except yaml.MarkedYAMLError as error:
        line = (error.problem_mark.line + 1) if error.problem_mark else 1
        raise RuleError(path, line, f"not valid YAML: {error.problem or error}") from None
    except (yaml.YAMLError, ValueError, TypeError, OSError, RecursionError) as error:
        raise RuleError(path, _bad_scalar(node), f"cannot be read: {error}") from None


def _bad_scalar(node: yaml.Node | None) -> int:
    """Line of the value that cannot be made of its text (a date such as 2026-02-30), else 1."""
    if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":timestamp"):
        try:
            yaml.SafeLoader("").construct_yaml_timestamp(node)
        except ValueError:
            return int(node.start_mark.line) + 1
    children = [n for pair in node.value for n in pair] if isinstance(node, yaml.MappingNode) else []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    return next((line for line in map(_bad_scalar, children) if line > 1), 1)


def _value(path: str, loader: Any, node: Any, depth: int, known: dict[int, Any]) -> Any:
    """The value of a composed node, as the loader would make it but for what a rule may not hold: keys that stand
    twice, keys that are no words, endless nesting. ``known``: values of nodes, since an alias may stand for one."""
    tag = node.tag
    if tag == _STR:
        return node.value
    if id(node) in known:
        return known[id(node)]
    if depth > 40:  # also an anchor that holds itself
        raise RuleError(path, node.start_mark.line + 1, "is nested too deeply")
    made: Any
    if tag == _MAP:
        made = {}
        seen: set[str] = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise RuleError(path, key.start_mark.line + 1, "a key must be a plain word")
            if key.value in seen:
                raise RuleError(path, key.start_mark.line + 1, f"key {key.value!r} stands twice")
            seen.add(key.value)
            if key.tag == _MERGE:
                raise RuleError(path, key.start_mark.line + 1, "<< is not used in rules")
            word = key.value if key.tag == _STR else loader.construct_object(key)
            made[word] = _value(path, loader, value, depth + 1, known)
    elif tag == _SEQ:
        made = [_value(path, loader, value, depth + 1, known) for value in node.value]
    else:
        made = loader.construct_object(node, deep=True)
    known[id(node)] = made
    return made


def read_rule(path: str) -> tuple[RuleS, yaml.Node | None]:
    """A rule file against the schema. Raises RuleError."""
    value, node = read_yaml(path)
    try:
        return msgspec.convert(value, RuleS), node
    except msgspec.ValidationError as error:
        text = str(error)
        where = re.search(r" - at `(?:key in )?(\$[^`]*)`", text)
        unknown = re.search(r"unknown field `([^`]+)`", text)
        at = (where.group(1) if where else "$") + (f".{unknown.group(1)}" if unknown else "")
        raise RuleError(
            path, _line_of(node, at), text.split(" - at ", maxsplit=1)[0] + (f" (at {at[2:]})" if at[2:] else "")
        ) from None


def all_clauses(log: LogS) -> list[tuple[str, int, ClauseS]]:
    """(list name, index, clause) of every clause of a log match."""
    return [(n, i, c) for n, cs in (("any", log.any), ("all", log.all), ("not", log.not_)) for i, c in enumerate(cs)]


def captures(log: LogS) -> set[str]:
    """Names of the groups that a rule's patterns can fill."""
    names: set[str] = set()
    for _, _, clause in all_clauses(log):
        if clause.regex:
            names |= set(_GROUP.findall(clause.regex))
    return names


def told_by(log: LogS) -> set[str]:
    """Names that the texts of a rule may use: what its patterns capture, and what is derived from that."""
    return captures(log) | set(log.derive)


def lint(path: str, rule: RuleS, node: yaml.Node | None, topics: set[str], *, full: bool = True) -> list[Problem]:
    """Everything that is wrong with one rule beyond its schema. Not ``full``: its patterns are only parsed, not tried
    with every engine, which is what a first start can afford."""
    found: list[Problem] = []

    def say(at: str, text: str) -> None:
        found.append(Problem(path, _line_of(node, at), text))

    stem = os.path.basename(path).removesuffix(".yaml")
    if not _ID.fullmatch(rule.id):
        say("$.id", f"id {rule.id!r} is not a family and three digits")
    elif stem != rule.id:
        say("$.id", f"id {rule.id} stands in a file named {stem}.yaml")
    if topics and rule.topic not in topics:
        say("$.topic", f"topic {rule.topic!r} is not in topics.yaml")
    kinds = [n for n in Match.__struct_fields__ if getattr(rule.match, n) is not None]
    if len(kinds) != 1:
        say("$.match", f"exactly one kind of match is needed, found {', '.join(kinds) or 'none'}")
    for name in kinds:
        if name not in JUDGED and rule.status != "draft":
            say(f"$.match.{name}", f"match.{name} is not judged by this version: keep the rule a draft")
    if (rule.confirm or rule.contradict) and rule.match.log is None and rule.match.series is None:
        say("$.confirm", "only rules over logs have causes that a configuration can confirm")
    for field, every in (("confirm", rule.confirm), ("contradict", rule.contradict)):
        for n, one in enumerate(every):
            names, wrong = lint_when(WhenS(if_=one.when, at=one.at))
            unfilled = [w for t in (one.zh, one.en) for w, _ in _PLACEHOLDER.findall(t) if w not in names]
            for trouble in (*wrong, *(f"{{{word}}} is filled by nothing" for word in unfilled)):
                say(f"$.{field}[{n}]", trouble)
    if rule.match.check is not None and rule.match.check.needs and rule.subject is None:
        say("$.match.check", "a check needs a subject: what is looked at, shown when it passes")
    if rule.match.when is not None and rule.subject is None:
        say("$.match.when", "a condition needs a subject: what is looked at, shown when it passes")
    if rule.match.smoke is not None and rule.subject is None:
        say("$.match.smoke", "a verdict needs a subject: what is looked at, shown when it passes")
    if full and rule.match.smoke is not None and not _callable(rule.match.smoke.call):
        say("$.match.smoke.call", f"{rule.match.smoke.call} is no callable of the doctor")
    if full and rule.match.check is not None:
        found += _lint_call(path, rule.match.check, node)
    if rule.match.code is not None:
        found += _lint_code(path, rule, rule.match.code, node, full=full)
    if full and rule.match.series is not None and not _callable(rule.match.series.call):
        say("$.match.series.call", f"{rule.match.series.call} is no callable of the doctor")
    if rule.status == "preview" and rule.severity == "error":
        say("$.severity", "a preview rule is at most a warning")
    if not rule.provenance:
        say("$.provenance", "a claim needs a source")
    elif all(s.kind == "seed" for s in rule.provenance) and (
        rule.status != "preview" or rule.confidence != "guess" or rule.severity != "advice"
    ):
        say("$.provenance", "known only from a seed: must be preview, guess and advice")
    if not 1 <= rule.priority <= 99:
        say("$.priority", "priority is 1 to 99")
    for n, target in enumerate(rule.explains):
        if bool(target.id) == bool(target.topic):
            say(f"$.explains[{n}]", "give an id or a topic, not both")
        if target.within and not _DURATION.fullmatch(target.within):
            say(f"$.explains[{n}].within", f"{target.within!r} is not a time such as 30m")
        if topics and target.topic and not target.topic.endswith(".*") and target.topic not in topics:
            say(f"$.explains[{n}].topic", f"topic {target.topic!r} is not in topics.yaml")
    known: set[str] = set()
    if rule.match.log is not None:
        found += _lint_log(path, rule.match.log, node, full=full)
        known = told_by(rule.match.log)
    if rule.match.when is not None:
        known, wrong = lint_when(rule.match.when)
        for trouble in wrong:
            say("$.match.when", trouble)
    if rule.match.profile is not None:
        known, wrong = lint_profile(rule.match.profile)
        for trouble in wrong:
            say("$.match.profile", trouble)
    for field, text in (("title", rule.title), ("cause", rule.cause), ("next", rule.next)):
        for lang, words in (("zh", text.zh), ("en", text.en)):
            if not words.strip():
                say(f"$.{field}.{lang}", "empty")
            if any(match is not None for match in (rule.match.log, rule.match.when, rule.match.profile)):
                for name, _ in _PLACEHOLDER.findall(words):
                    if name not in known:
                        say(f"$.{field}.{lang}", f"{{{name}}} is filled by nothing in the rule")
        if not re.search(r"[\u4e00-\u9fff]", text.zh):
            say(f"$.{field}.zh", "no Chinese text")
    # two rules stand behind the examples: one that the engine itself concludes, and the draft
    judged_check = rule.match.check and rule.match.check.needs
    for n, fix in enumerate(rule.fix if rule.match.when is not None else ()):
        for trouble in lint_fix(fix):
            say(f"$.fix[{n}]", trouble)
    for n, fix in enumerate(rule.fix):
        if fix.rewrite and (rule.match.code is None or (full and not _rewrites(fix.rewrite))):
            say(f"$.fix[{n}].rewrite", f"{fix.rewrite!r} is none of doctor.patch.rewrites, which code rules name")
    with_examples = (
        rule.match.log, rule.match.when, rule.match.smoke, rule.match.code, rule.match.series, rule.match.profile,
    )  # fmt: skip
    if any(match is not None for match in with_examples) or judged_check:
        if not rule.tests.hit:
            say("$.tests", "at least one hit example is needed")
        if len(rule.tests.miss) < 2:
            say("$.tests", "at least two miss examples are needed")
    if any(match is not None for match in (rule.match.log, rule.match.when, rule.match.profile)):
        for key in {k for e in rule.tests.hit for k in e.expect} - known:
            say("$.tests.hit", f"expects {key!r}, which no pattern captures")
    return found


def lint_when(when: str | WhenS) -> tuple[set[str], list[str]]:
    """(names that the texts of the rule may use, what is wrong with its expressions)."""
    from doctor.plan.schema import FIELDS

    known, wrong = _lint_condition(when, {name: field.type for name, field in FIELDS.items()}, "plan")
    return known | {"key", "file", "line"}, wrong


def lint_profile(match: str | WhenS) -> tuple[set[str], list[str]]:
    """The same of a condition over a profile, which may read the plan too."""
    from doctor.plan import cel
    from doctor.plan.schema import FIELDS
    from doctor.profile import facts

    declared = {name: field.type for name, field in (FIELDS | facts.FIELDS).items()}
    known, wrong = _lint_condition(match, declared, "profile")
    try:
        spec = match if isinstance(match, WhenS) else WhenS(if_=match)
        names = cel.names(cel.parse(spec.if_))
        if not any(name in facts.FIELDS for name in names):
            wrong.append("if: reads no value of a profile")
        if {name in facts.OF_RUN for name in names if name in facts.FIELDS} == {True, False}:
            wrong.append("if: reads values of one rank and of the run")
    except cel.CelError:
        pass  # told already
    return known, wrong


def _lint_condition(when: str | WhenS, declared: dict[str, str], group: str) -> tuple[set[str], list[str]]:
    """(names that texts may use, what is wrong); ``group`` is that of the names in ``at``."""
    from doctor.plan import cel

    spec = when if isinstance(when, WhenS) else WhenS(if_=when)
    known: set[str] = set()
    wrong = []
    for label, text in (("if", spec.if_), *spec.let.items()):
        try:
            tree = cel.parse(text)
            kind = cel.check(tree, declared)
            if label == "if" and kind != "bool":
                wrong.append(f"the condition is a {kind}, not true or false")
            known |= {name.rsplit(".", maxsplit=1)[-1] for name in cel.names(tree)}
        except cel.CelError as error:
            wrong.append(f"{label}: {error}")
    for name in spec.at:
        if f"{group}.{name}" not in declared:
            wrong.append(f"at: {group}.{name} is not declared")
        known.add(name.rsplit(".", maxsplit=1)[-1])
    return known | set(spec.let), wrong


def lint_fix(fix: FixS) -> list[str]:
    """What is wrong with the settings of a fix of a condition: names that are not declared, expressions that cannot be
    read. ``choice`` is the chosen value."""
    from doctor.plan import cel
    from doctor.plan.schema import FIELDS

    wrong = []
    sets = dict(fix.set)
    texts = []
    for choice in fix.choices:
        if isinstance(choice, dict) and "each" in choice:
            texts.append(str(choice["each"]))
        elif isinstance(choice, dict):
            own = choice["set"] if isinstance(choice.get("set"), dict) else choice
            sets |= {f"{name} ": value for name, value in own.items() if name not in ("zh", "en")}
    for name, value in sets.items():
        name = name.strip()
        if name.startswith("plan.") and name not in FIELDS:
            wrong.append(f"set: {name} is not declared")
        if isinstance(value, str):
            texts.append(value)
    for text in texts:
        try:
            for name in cel.names(cel.parse(text)):
                if name != "choice" and name not in FIELDS:
                    wrong.append(f"{text[:60]}: {name} is not declared")
        except cel.CelError as error:
            wrong.append(f"{text[:60]}: {error}")
    return wrong


def compile_when(when: str | WhenS) -> dict[str, Any]:
    """The compiled form of a condition that linted well."""
    from doctor.plan import cel

    spec = when if isinstance(when, WhenS) else WhenS(if_=when)
    return {
        "if": cel.parse(spec.if_),
        "at": list(spec.at),
        "let": {name: cel.parse(text) for name, text in spec.let.items()},
    }


def _lint_code(path: str, rule: RuleS, code: CodeS, node: yaml.Node | None, *, full: bool) -> list[Problem]:
    """A code rule must look for something, and its texts may only use what a match gives."""
    found: list[Problem] = []

    def say(at: str, text: str) -> None:
        found.append(Problem(path, _line_of(node, at), text))

    kinds = [bool(code.call or code.method), code.class_ is not None, bool(code.check)]
    if sum(kinds) != 1:
        say("$.match.code", "needs call or method, or class, or check")
    if rule.subject is None:
        say("$.match.code", "a code rule needs a subject: what is looked at, shown when it passes")
    for n, condition in enumerate((*code.where, *code.not_)):
        if condition.matches:
            try:
                re.compile(condition.matches)
            except re.error as error:
                say(f"$.match.code.where[{n}].matches", f"not a regular expression: {error}")
    if code.check and full and not _callable(code.check):
        say("$.match.code.check", f"{code.check} is no callable of the doctor")
    if not code.check:
        for field, text in (("title", rule.title), ("cause", rule.cause), ("next", rule.next)):
            for lang, words in (("zh", text.zh), ("en", text.en)):
                for word, _ in _PLACEHOLDER.findall(words):
                    if word not in CODE_ARGS:
                        say(f"$.{field}.{lang}", f"{{{word}}} is filled by nothing in a code rule")
    return found


def _rewrites(name: str) -> bool:
    """Whether a rewrite has that name."""
    import importlib

    return name in importlib.import_module("doctor.patch.rewrites").REWRITES


def _callable(call: str) -> bool:
    """Whether ``module:name`` is a function of the doctor."""
    import importlib

    module, _, name = call.partition(":")
    try:
        return callable(getattr(importlib.import_module(module), name))
    except (ImportError, AttributeError, ValueError):
        return False


def _lint_call(path: str, check: CheckS, node: yaml.Node | None) -> list[Problem]:
    """A check must name a callable that exists, and facts that a probe gives."""
    from doctor.probes.base import all_probes

    found = []
    if not _callable(check.call):
        at = _line_of(node, "$.match.check.call")
        found.append(Problem(path, at, f"{check.call} is no callable of the doctor"))
    given = {fact for probe in all_probes() for fact in probe.gives}
    for n, need in enumerate(check.needs):
        if need.removesuffix("?") not in given:
            at = _line_of(node, f"$.match.check.needs[{n}]")
            found.append(Problem(path, at, f"no probe gives {need.removesuffix('?')}"))
    return found


def _lint_log(path: str, log: LogS, node: yaml.Node | None, *, full: bool) -> list[Problem]:
    found: list[Problem] = []

    def say(at: str, text: str) -> None:
        found.append(Problem(path, _line_of(node, at), text))

    if not log.any and not log.all:
        say("$.match.log", "needs any or all")
    if len(log.any) >= 1 << 6:
        say("$.match.log.any", "more than 63 alternatives: split the rule")
    for name, index, clause in all_clauses(log):
        at = f"$.match.log.{name}[{index}]"
        anchor = name == "any" or (name == "all" and not log.any and index == 0)
        if clause.literal is None and clause.regex is None:
            say(at, "needs a literal or a regex")
            continue
        if clause.literal is not None and (len(clause.literal) < 3 or "\n" in clause.literal):
            say(f"{at}.literal", "a literal is at least 3 characters on one line")
        if clause.regex is not None:
            if full:
                problem = regex_problem(clause.regex, anchor=anchor and _is_anchor(clause))
            else:
                problem = _parse_problem(clause.regex)
            if problem:
                say(f"{at}.regex", problem)
    if log.within.scope == "run":
        say("$.match.log.within.scope", "scope run is not judged by this version: the members must stand in one file")
    if log.calc:
        from doctor.scan.calc import names_in

        try:
            unknown = names_in(log.calc) - captures(log)
            if unknown:
                say("$.match.log.calc", f"calc uses {', '.join(sorted(unknown))}, which no pattern captures")
        except ValueError as error:
            say("$.match.log.calc", str(error))
        except re.error:
            pass
    for name, source in log.derive.items():
        from doctor.scan.calc import names_of

        try:
            unknown = names_of(source) - captures(log)
            if unknown:
                say(f"$.match.log.derive.{name}", f"uses {', '.join(sorted(unknown))}, which no pattern captures")
            if name in captures(log):
                say(f"$.match.log.derive.{name}", "is the name of a capture")
        except ValueError as error:
            say(f"$.match.log.derive.{name}", str(error))
        except re.error:
            pass
    return found


def _parse_problem(pattern: str) -> str | None:
    """Why ``re`` cannot read a pattern, None if it can; a tenth of the cost of compiling it."""
    from doctor.scan.anchors import parse

    try:
        parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return None


def _is_anchor(clause: ClauseS) -> bool:
    """Whether the regex itself is looked for, because nothing in the clause is telling enough."""
    from doctor.rulebase import Clause
    from doctor.scan.anchors import PROSE, clause_anchors

    try:
        return any(kind == PROSE for _, kind in clause_anchors(Clause(clause.literal, clause.regex)))
    except (re.error, RecursionError, OverflowError):
        return True


def regex_problem(pattern: str, *, anchor: bool) -> str | None:
    """Why a pattern may not be used, None if it may: it must compile with ``re``, RE2 and Hyperscan."""
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    if compiled.match(""):
        return "matches the empty text"
    if re.search(r"\[[^\]]*[^\x00-\x7f][^\]]*\]", pattern):
        return "non-ASCII characters inside [...]: GBK logs cannot be matched; use (a|b)"
    from doctor.scan.backtrack import repeat_in_repeat

    if repeat_in_repeat(pattern):
        return "a repeat in a repeat with nothing fixed beside it may take for ever: let each round end in a fixed text"
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_nl = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        return f"RE2 does not take it: {error.args[0]!r}"
    crossing = re.sub(r"\[\^[^\]]*\]", "", pattern)
    if anchor and (pattern.startswith((".*", ".+")) or "\\n" in crossing or "\\s\\S" in crossing):
        return "an anchor (regex without literal) may not begin with .* nor cross lines: give a literal"
    return None


def topics_of(folder: str) -> tuple[dict[str, dict[str, str]], list[Problem]]:
    """Labels of topics.yaml with their texts."""
    path = os.path.join(folder, "topics.yaml")
    try:
        value, _ = read_yaml(path)
        rows = value.get("topics", value) if isinstance(value, dict) else None
        if not isinstance(rows, dict):
            return {}, [Problem(path, 1, "is no table of labels")]
        return {str(k): v for k, v in rows.items() if isinstance(v, dict)}, []
    except RuleError as error:
        return {}, [Problem(path, error.line, error.text)]


NOT_RULES = (
    "topics.yaml", "versions.yaml", "signatures.yaml", "hccl_env.yaml", "api_renames.yaml", "seed_claims.yaml",
)  # fmt: skip


def read_folder(
    folder: str, *, full: bool = True, own: str = ""
) -> tuple[list[tuple[str, RuleS]], dict[str, dict[str, str]], list[Problem]]:
    """All usable rules below ``folder`` and ``own``, the topics, and what is wrong with the rest. What somebody wrote
    for himself always goes through the whole linter."""
    topics, problems = topics_of(folder)
    rules: dict[str, tuple[str, RuleS]] = {}
    labels = set(topics)
    mine = {path for path, _, _ in rule_files(own)} if own else set()
    for path in [*(path for path, _, _ in rule_files(folder)), *sorted(mine)]:
        relative = os.path.relpath(path, folder)
        if relative in NOT_RULES or relative.startswith("codes" + os.sep):
            continue
        try:
            rule, node = read_rule(path)
        except RuleError as error:
            problems.append(Problem(path, error.line, error.text))
            continue
        wrong = lint(path, rule, node, labels, full=full or path in mine)
        if rule.id in rules:
            wrong.append(Problem(path, 1, f"id {rule.id} is taken by {rules[rule.id][0]}"))
        problems += wrong
        if not wrong:
            rules[rule.id] = (path, rule)
    problems += _explains_problems(rules)
    return [rules[k] for k in sorted(rules)], topics, problems


def _explains_problems(rules: dict[str, tuple[str, RuleS]]) -> list[Problem]:
    """Unknown ids, and cycles over ids; two topics may explain each other's rules, which time decides."""
    found = []
    edges: dict[str, list[str]] = {}
    for key, (path, rule) in rules.items():
        for target in rule.explains:
            if target.id and target.id not in rules:
                found.append(Problem(path, 1, f"explains {target.id}, which is no rule"))
            elif target.id:
                edges.setdefault(key, []).append(target.id)
    reached: dict[str, set[str]] = {}
    for key, targets in edges.items():
        seen: set[str] = set()
        pending = list(targets)
        while pending:
            other = pending.pop()
            if other not in seen:
                seen.add(other)
                pending += edges.get(other, ())
        reached[key] = seen
    for key, seen in reached.items():
        # a circle is what comes back to its start; its first member speaks for it
        circle = {other for other in seen if key in reached.get(other, ())}
        if key in seen and key == min(circle):
            names = ", ".join(sorted(circle))
            found.append(Problem(rules[key][0], 1, f"{names} explain each other in a circle"))
    return found


def seconds_of(text: str) -> float:
    """Seconds of ``30m``; 0 for nothing."""
    found = _DURATION.fullmatch(text)
    return float(found[1]) * _SECONDS[found[2]] if found else 0.0


def _index_row(rule: RuleS) -> list[Any]:
    log: list[Any] | None = None
    if rule.match.log is not None:
        spec = rule.match.log
        log = [
            [[c.literal, c.regex] for c in spec.any],
            [[c.literal, c.regex] for c in spec.all],
            [[c.literal, c.regex] for c in spec.not_],
            spec.unit,
            spec.level or list(DEFAULT_LEVELS),
            spec.within.lines,
            spec.within.seconds,
            spec.within.scope,
            spec.after,
            spec.calc,
            list(spec.derive.items()),
        ]
    explains = [[e.id or e.topic, seconds_of(e.within), e.scope] for e in rule.explains]
    return [
        rule.id, rule.topic, rule.severity, rule.confidence, rule.status, rule.role, rule.priority, rule.kind,
        log, rule.applies_to, explains,
    ]  # fmt: skip


def _plain(targets: tuple[int, ...]) -> int | list[int]:
    """Targets of an anchor as the header holds them: nearly all have one, and numbers load sooner than lists."""
    return targets[0] if len(targets) == 1 else list(targets)


def compile_folder(folder: str, *, full: bool = False, own: str = "") -> bytes:
    """The compiled form of a rules folder; see ``doctor.rulebase.RuleBase``. ``full``: with the whole linter. ``own``:
    another folder whose rules go with it."""
    rules, topics, problems = read_folder(folder, full=full, own=own)
    if full:
        problems += compile_codes(folder)[1]
    loaded = [(path, rule) for path, rule in rules if rule.status in ("preview", "stable")]
    return compile_rules(
        loaded, folder, topics, problems, {alias: rule.id for _, rule in rules for alias in rule.aliases}
    )


def compile_one(path: str, folder: str, topics: set[str]) -> tuple[bytes, list[Problem]]:
    """The compiled form of one rule file alone, a draft too, and what is wrong with it. A file that cannot be used
    gives a form without rules. ``folder``: the rules folder that it is compared with."""
    try:
        rule, node = read_rule(path)
    except RuleError as error:
        return compile_rules([], folder, {}), [Problem(path, error.line, error.text)]
    problems = lint(path, rule, node, topics)
    return compile_rules([(path, rule)] * (not problems), folder, {}), problems


def compile_rules(
    loaded: list[tuple[str, RuleS]], folder: str, topics: dict[str, dict[str, str]],
    problems: Sequence[Problem] = (), aliases: dict[str, str] | None = None,
) -> bytes:  # fmt: skip
    """The compiled form of rules that were read and checked."""
    from doctor.rulebase import as_rule, pack
    from doctor.scan.anchors import CLAUSE_BITS, PROSE, anchor_table, special_rows
    from doctor.scan.stems import choose

    wholes = []
    for path, rule in loaded:
        # the text of a rule with one more key; of what YAML knows JSON lacks only dates, which msgspec writes as text
        file = msgspec.json.encode(os.path.relpath(path, os.path.dirname(folder)))
        wholes.append(msgspec.json.encode(rule)[:-1] + b',"file":' + file + b"}")
    rows = [_index_row(rule) for _, rule in loaded]
    anchors = anchor_table([as_rule(row).log for row in rows])
    header = {
        "problems": [list(p) for p in problems],
        "ids": [rule.id for _, rule in loaded],
        "aliases": aliases or {},
        "anchor_targets": [_plain(a.targets) for a in anchors if a.kind != PROSE],
        "prose_targets": [_plain(a.targets) for a in anchors if a.kind == PROSE],
        "series": [n for n, (_, rule) in enumerate(loaded) if rule.kind == "series"],
        "anchor_info": [
            n for n, a in enumerate(anchors) if any(_takes_info(loaded[t >> CLAUSE_BITS][1]) for t in a.targets)
        ],
    }
    stems = choose([*((a.pattern, a.kind) for a in anchors if a.kind != PROSE), *special_rows()])
    sections = {
        "stems": [stem.text.decode("latin-1") for stem in stems],
        "anchors": [[a.pattern.decode("latin-1"), a.kind] for a in anchors if a.kind != PROSE],
        "prose": [a.pattern.decode() for a in anchors if a.kind == PROSE],
        "topics": topics,
        "when": {rule.id: compile_when(rule.match.when) for _, rule in loaded if rule.match.when is not None},
        "profile": {rule.id: compile_when(rule.match.profile) for _, rule in loaded if rule.match.profile is not None},
    }
    held = [[[h.before, h.text.decode("latin-1"), h.aid, h.fold] for h in stem.anchors] for stem in stems]
    return pack(header, rows, wholes, sections, held)


def compile_codes(folder: str) -> tuple[bytes, list[Problem]]:
    """The compiled catalogue of error codes of a rules folder, and what is wrong with it."""
    from doctor import codes as catalogue
    from doctor.rulebase import pack_codes

    place = os.path.join(folder, "codes")
    codes: dict[str, Any] = {}
    problems = []
    try:
        codes = {key: code._asdict() for key, code in catalogue.load(place).items()}
    except (ValueError, OSError) as error:
        problems.append(Problem(place, 1, str(error)))
    return pack_codes(codes, _names_of(codes), problems), problems


def _names_of(codes: dict[str, Any]) -> dict[str, str]:
    """Macro name → code; a name that two codes share names neither, success is no failure."""
    names: dict[str, str] = {}
    double: set[str] = set()
    for key, code in codes.items():
        name = code["name"]
        if name in names:
            double.add(name)
        if "_" in name and name.isupper() and not name.endswith(("_NONE", "_SUCCESS", "_OK")):
            names[name] = key
    return {name: key for name, key in names.items() if name not in double}


def _takes_info(rule: RuleS) -> bool:
    return rule.match.log is not None and bool({"INFO", "DEBUG"} & set(rule.match.log.level))


__all__ = [
    "CONFIDENCES", "FAMILIES", "LOG_LEVELS", "ROLES", "SEVERITIES", "RuleError", "RuleS",
    "compile_folder", "lint", "read_folder", "read_rule", "read_yaml", "regex_problem",
]  # fmt: skip
