"""The findings over training plans as a provider of fixes: each value is changed where the plan read it."""

from __future__ import annotations

import ast
import difflib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from doctor import static
from doctor.model import Edit, Finding, Verdict
from doctor.patch import jsonspans, pyspans, shellspans, spans, yamlspans
from doctor.patch import plan as planning
from doctor.patch.propose import Found, Options, spelled
from doctor.patch.spans import Refused, format_key, line_end, line_start
from doctor.plan import cel, detect, judge, mindformers
from doctor.plan.schema import Plan
from doctor.rulebase import RuleBase, load


def settings(plan: Plan, changes: Sequence[tuple[str, Any]]) -> list[Edit]:
    """Values of a plan as edits of its file; none at all if one of them has no place there, or the file is not at
    hand."""
    try:
        shot = planning.snapshot(plan.file)
        text = planning.decode(shot.data, shot.format).removeprefix("\ufeff")
        places = _Places(plan, plan.file, text, Finding("", Verdict.FAIL))
        out = []
        for name, value in changes:
            spot = places(f"plan.{name}")
            if spot is None:
                return []
            out.append(Edit(spot[0], spot[1], "", spelled(spot[0], value)))
        return [edit for file in planning.plan(out).files for edit in file.changes]
    except Refused:
        return []


PAIRS = {"plan.optimizer.beta1": ("betas", 0), "plan.optimizer.beta2": ("betas", 1)}
"""Values that are items of a list: its key and their place."""


def files(paths: Sequence[str]) -> Iterator[str]:
    """The files named, and those below the folders named that may describe a run."""
    for n, path in enumerate(static.files(paths)):
        if isinstance(path, str) and n < static.FILES:
            yield path


def find(paths: Sequence[str], options: Options) -> Iterable[Found]:
    """Failed conditions over every plan that can be read from the files."""
    base = load(options.rules)
    for path in files(paths):
        try:
            shot = planning.snapshot(path)
            text = planning.decode(shot.data, shot.format).removeprefix("\ufeff")
        except Refused:
            continue
        plan = detect.read(path, text)
        if plan is None:
            continue
        findings = judge.judge(plan, base)
        before = _failing(findings)
        for finding in findings:
            if finding.verdict is Verdict.FAIL:
                ready: dict[int, tuple[Edit, ...]] = {}
                for name, make in READY.items():
                    if name in cel.names(base.when[finding.id]["if"]):
                        ready[0] = make(plan, path, text)
                yield Found(finding, _Places(plan, path, text, finding), _Values(plan, finding),
                            _Passes(path, base, finding, before), ready)  # fmt: skip


def _failing(findings: Sequence[Finding]) -> frozenset[str]:
    return frozenset(f.id for f in findings if f.verdict is Verdict.FAIL and f.severity == "error")


class _Places:
    """Where a name of ``fix.set`` stands: ``plan.group.name`` where the plan has it from, else a key of the file."""

    def __init__(self, plan: Plan, path: str, text: str, finding: Finding) -> None:
        self.plan, self.path, self.text, self.finding = plan, path, text, finding

    def __call__(self, name: str) -> tuple[str, str] | None:
        if name.startswith("plan."):
            value = self.plan.values.get(name[5:])
            if value is None or value.origin != "set" or not value.line:
                return self._home(name[5:])
            if value.spots:
                # of a launch script: the line of the variable that an option is given
                variable = value.spots[-1][1].strip().removeprefix("export ").split("=", 1)[0]
                shell = spans.format_of(self.path) == "shell" and variable.isidentifier()
                return (self.path, variable) if shell else None
            spot = self._at(value.file or self.path, value.line, value.key)
            pair = PAIRS.get(name)
            if spot is None or pair is None or value.key.rsplit(".", maxsplit=1)[-1] != pair[0]:
                return spot
            return spot[0], f"{spot[1]}[{pair[1]}]"
        if name == str(self.finding.args.get("key")) and str(self.finding.args.get("line", "")).isdigit():
            found = self._at(str(self.finding.args.get("file") or self.path), int(self.finding.args["line"]), name)
            if found is not None:
                return found
        return self.path, name

    def _home(self, name: str) -> tuple[str, str] | None:
        """Where a value that nobody wrote is to be written, of a MindFormers configuration."""
        if self.plan.kind != "mindformers" or name in self.plan.blocked or spans.format_of(self.path) != "yaml":
            return None
        table = mindformers.PYNATIVE if self.plan.get("file.layout") == "pynative" else mindformers.PLACES
        key = next((key for key, other in table.items() if other == name), None)
        return None if key is None else (self.path, key)

    def _at(self, file: str, line: int, key: str) -> tuple[str, str] | None:
        own = os.path.realpath(file) == os.path.realpath(self.path)
        text = self.text
        if not own:
            # a file this one is based on, and others perhaps: this one says otherwise for itself
            try:
                shot = planning.snapshot(file)
                text = planning.decode(shot.data, shot.format)
            except Refused:
                return None
        full = key_at(file, text, line, key)
        return None if full is None else (self.path, full)


def key_at(file: str, text: str, line: int, key: str) -> str | None:
    """The whole key of the entry that stands on a line and whose last part is that of ``key``."""
    last = str(key).rsplit(".", maxsplit=1)[-1]
    fmt = spans.format_of(file)
    if fmt == "yaml":
        root: Any = yamlspans.read(text)
    elif fmt == "json":
        root = jsonspans.read(text)
    elif fmt == "python":
        return _keyword_at(text, line, last)
    elif fmt == "shell":
        row = text.split("\n")[line - 1] if 0 < line <= text.count("\n") + 1 else ""
        option = f"--{key}"
        if any(row in text[line_start(text, a) : line_end(text, b)] for a, b in shellspans.option_values(text, option)):
            return option
        return last if last.isidentifier() else None
    else:
        return None
    pending: list[tuple[spans.Path, Any]] = [] if root is None else [((), root)]
    found: list[spans.Path] = []
    while pending:
        path, node = pending.pop()
        for pair in node.pairs:
            here = (*path, pair[0])
            if str(pair[0]) == last and text.count("\n", 0, pair[1]) + 1 == line:
                found.append(here)
            pending.append((here, pair[-1]))
        pending += [((*path, n), item) for n, item in enumerate(node.items)]
    return format_key(found[0]) if len(found) == 1 else None


def _keyword_at(text: str, line: int, name: str) -> str | None:
    """The key of a keyword of a call, or of a constant of the module, by the line of its value."""
    tree = pyspans.parse(text)
    calls = [
        f"{node.lineno}:{pyspans.dotted(node.func)}({name})"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and pyspans.dotted(node.func)
        for keyword in node.keywords
        if keyword.arg == name and keyword.value.lineno == line
    ]
    return calls[0] if len(calls) == 1 else None


def _at(tree: Any, key: str) -> Any:
    """What stands at a key of a parsed file."""
    for part in spans.parse_key(key):
        tree = tree[part]
    return tree


def _written(plan: Plan, path: str, text: str, field: str) -> list[tuple[str, Any]]:
    """(key, what stands there) of all spots that a list of the plan names; nothing if one of them cannot be found."""
    value = plan.values.get(field)
    if value is None or spans.format_of(path) not in ("yaml", "json"):
        return []
    tree = yamlspans.check(text, path).plain() if spans.format_of(path) == "yaml" else json.loads(text)
    out = []
    for name, (line, _) in zip(value.value, value.spots or ((value.line, ""),), strict=False):
        key = key_at(path, text, line, name)
        if key is None:
            return []
        out.append((key, _at(tree, key)))
    return out


def _numbers(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edits that make numbers of values the YAML reader takes for text (``1e-5``)."""
    out = []
    for key, written in _written(plan, path, text, "file.text_numbers"):
        try:
            number = float(str(written).replace("_", ""))
        except ValueError:
            return ()
        whole = number.is_integer() and "e" not in str(written).lower() and "." not in str(written)
        made = int(number) if whole else number
        out.append(Edit(path, key, "", spelled(path, made)))
    return tuple(out)


def _words(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edits that put the nearest accepted words in the place of others."""
    value = plan.values.get("file.near_values")
    if value is None:
        return ()
    out = []
    for name, (line, _) in zip(value.value, value.spots or ((value.line, ""),), strict=False):
        found = _SLIP.fullmatch(str(name))
        key = key_at(path, text, line, found[1].removeprefix("--")) if found else None
        if found is None or key is None:
            return ()
        out.append(Edit(path, key, "", spelled(path, found[2])))
    return tuple(out)


def _columns(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edit that names the columns right and puts the labels behind the inputs."""
    value = plan.values.get("data.columns")
    if value is None or spans.format_of(path) != "yaml":
        return ()
    key = key_at(path, text, value.line, "input_columns") or key_at(path, text, value.line, "column_names")
    names = [str(name) for name in value.value]
    if key is None or len(set(names)) < len(names):
        return ()
    found = _NEAR.fullmatch(str(plan.get("data.columns_fault", "")))
    if found:
        names = [found[2] if name == found[1] else name for name in names]
    else:
        one, other = names.index("input_ids"), names.index("labels")
        names[one], names[other] = "labels", "input_ids"
    return (Edit(path, key, "", yamlspans.spell(names)),)


_SLIP = re.compile(r"([\w.-]{1,100}) [^()]{1,200} \(([\w.-]{1,200})\)")
_NEAR = re.compile(r"([\w.]{1,200}) \(([\w.]{1,200})\)")


def _types(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edits that put the registered class names in the place of misspelt ones."""
    value = plan.values.get("file.near_types")
    if value is None or spans.format_of(path) != "yaml":
        return ()
    out = []
    for name, (line, _) in zip(value.value, value.spots or ((value.line, ""),), strict=False):
        found = _NEAR.fullmatch(str(name))
        key = key_at(path, text, line, "type")
        if found is None or key is None:
            return ()
        out.append(Edit(path, key, "", yamlspans.spell(found[2])))
    return tuple(out)


def _switches(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edits that make switches of words like Flase and "True"; nothing if one of the values is another."""
    out = []
    for key, written in _written(plan, path, text, "file.wrong_types"):
        near = difflib.get_close_matches(str(written).lower(), ("true", "false"), 1, 0.7)
        if not isinstance(written, str) or not near:
            return ()
        out.append(Edit(path, key, "", near[0].capitalize()))
    return tuple(out)


def _offsets(plan: Plan, path: str, text: str) -> tuple[Edit, ...]:
    """The edit that gives ``offset`` an entry for each stage, what is there kept as far as the sum allows: that is what
    the layers leave over by the stages (mindformers 1.3.2 wheel, models/utils.py)."""
    value, stages, layers = (plan.values.get(n) for n in ("model.offset_length", "parallel.pp", "model.num_layers"))
    if value is None or stages is None or layers is None or spans.format_of(path) != "yaml":
        return ()
    key = key_at(path, text, value.line, "offset")
    if key is None or plan.get("parallel.virtual_stages") != 1 or not 0 < stages.value <= layers.value:
        return ()
    old = _at(yamlspans.check(text, path).plain(), key)
    if not isinstance(old, list) or not all(type(n) is int and n >= 0 for n in old):
        return ()
    new = (old + [0] * stages.value)[: stages.value]
    left = layers.value % stages.value - sum(new)
    for n in range(stages.value - 1, -1, -1):
        more = left if left > 0 and n == 0 else max(min(left, 1), -new[n])
        new[n] += more
        left -= more
    return (Edit(path, key, "", yamlspans.spell(new)),)


READY = {
    "plan.file.text_numbers": _numbers, "plan.file.near_types": _types, "plan.file.wrong_types": _switches,
    "plan.model.offset_length": _offsets, "plan.file.near_values": _words, "plan.data.columns_fault": _columns,
}  # fmt: skip
"""Values that name what is wrong and so how to mend it; the first fix of a rule about them needs no ``set``."""


class _Values:
    """What an expression of a fix is worth with the values of the plan; text without names stays text."""

    def __init__(self, plan: Plan, finding: Finding) -> None:
        self.plan, self.finding = plan, finding

    def __call__(self, text: str, names: Mapping[str, Any]) -> Any:
        def lookup(name: str) -> Any:
            if name in names:
                return names[name]
            value = self.plan.values.get(name[5:]) if name.startswith("plan.") else None
            return cel.Absent(frozenset([name])) if value is None else value.value

        try:
            result = cel.evaluate(cel.parse(text), lookup)
        except cel.CelError as error:
            raise ValueError(str(error)) from None
        if isinstance(result, cel.Absent):
            raise ValueError(", ".join(sorted(result.names)))
        # 1.0 - 0.9 is meant as 0.1
        return float(f"{result:.12g}") if isinstance(result, float) else result


class _Passes:
    """Does the condition pass over other contents, and does no other one begin to fail?"""

    def __init__(self, path: str, base: RuleBase, finding: Finding, before: frozenset[str]) -> None:
        self.path, self.base, self.finding, self.before = path, base, finding, before

    def __call__(self, contents: Mapping[str, bytes]) -> bool | None:
        data = contents.get(self.path)
        if data is None:
            return None  # the value stands in a file this one is based on
        plan = detect.read(self.path, data.decode("utf-8", "replace").removeprefix("\ufeff"))
        if plan is None:
            return False
        findings = judge.judge(plan, self.base)
        own = next((f for f in findings if f.id == self.finding.id), None)
        if own is None or own.verdict is Verdict.FAIL or _failing(findings) - self.before:
            return False
        return own.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE) or None
