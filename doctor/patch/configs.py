"""The findings over training plans as a provider of fixes: each value is changed where the plan read it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from doctor import static
from doctor.model import Finding, Verdict
from doctor.patch import jsonspans, spans, yamlspans
from doctor.patch import plan as planning
from doctor.patch.propose import Found, Options
from doctor.patch.spans import Refused, format_key
from doctor.plan import cel, detect, judge
from doctor.plan.schema import Plan
from doctor.rulebase import RuleBase, load


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
                yield Found(finding, _Places(plan, path, text, finding), _Values(plan, finding),
                            _Passes(path, base, finding, before))  # fmt: skip


def _failing(findings: Sequence[Finding]) -> frozenset[str]:
    return frozenset(f.id for f in findings if f.verdict is Verdict.FAIL and f.severity == "error")


class _Places:
    """Where a name of ``fix.set`` stands: ``plan.group.name`` where the plan has it from, else a key of the file."""

    def __init__(self, plan: Plan, path: str, text: str, finding: Finding) -> None:
        self.plan, self.path, self.text, self.finding = plan, path, text, finding

    def __call__(self, name: str) -> tuple[str, str] | None:
        if name.startswith("plan."):
            value = self.plan.values.get(name[5:])
            if value is None or value.origin != "set" or not value.line or value.spots:
                return None
            return self._at(value.file or self.path, value.line, value.key)
        if name == str(self.finding.args.get("key")) and str(self.finding.args.get("line", "")).isdigit():
            found = self._at(str(self.finding.args.get("file") or self.path), int(self.finding.args["line"]), name)
            if found is not None:
                return found
        return self.path, name

    def _at(self, file: str, line: int, key: str) -> tuple[str, str] | None:
        if os.path.realpath(file) == os.path.realpath(self.path):
            text = self.text
        else:
            try:
                shot = planning.snapshot(file)
                text = planning.decode(shot.data, shot.format)
            except Refused:
                return None
        full = key_at(file, text, line, key)
        return None if full is None else (file, full)


def key_at(file: str, text: str, line: int, key: str) -> str | None:
    """The whole key of the entry that stands on a line and whose last part is that of ``key``."""
    last = str(key).rsplit(".", maxsplit=1)[-1]
    fmt = spans.format_of(file)
    if fmt == "yaml":
        root: Any = yamlspans.read(text)
    elif fmt == "json":
        root = jsonspans.read(text)
    else:
        return last if fmt == "shell" and last.isidentifier() else None
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
        if isinstance(result, float) and result.is_integer() and "." not in text and abs(result) < 1 << 53:
            return int(result)
        return result


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
