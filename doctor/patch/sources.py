"""The findings of code rules as a provider of fixes: places of a Python file are rewritten exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from doctor import source
from doctor.model import Edit, Finding, Verdict
from doctor.patch import configs, pyspans, rewrites
from doctor.patch import plan as planning
from doctor.patch.propose import Choice, Found, Options, asked
from doctor.patch.spans import Refused
from doctor.rulebase import RuleBase, load
from doctor.source.api import Known

MOST = 200
"""Findings of a file that are rewritten at once; another run does the rest."""


def find(paths: Sequence[str], options: Options) -> Iterable[Found]:
    """Failed code rules over every Python file, with the edits that their rewrites make."""
    base = load(options.rules)
    wanted = {rule.id for rule in base if rule.kind == "code" and asked(rule.id, options.only)}
    if not any(fix.get("rewrite") for rule_id in wanted for fix in base.whole(rule_id)["fix"]):
        return
    target = source.Target(options.mindspore, options.mindformers, bool(options.mindspore))
    read: list[tuple[str, source.Module | source.Problem]] = []
    texts: dict[str, str] = {}
    for path in configs.files(paths):
        try:
            if not path.endswith(".py"):
                continue
            shot = planning.snapshot(path)
            text = planning.decode(shot.data, shot.format)
            pyspans.parse(text)
        except Refused:
            continue
        texts[path] = text
        read.append((path, source.tree.read(path, shot.data)))
    if not read:
        return
    known = Known(target)
    modules = {path: module for path, module in read if isinstance(module, source.Module)}
    judges: dict[str, _Judge] = {}
    count: Counter[str] = Counter()
    for finding in source.judge(read, target, base):
        path = finding.args.get("file", "")
        if finding.verdict is not Verdict.FAIL or path not in modules or finding.id not in wanted:
            continue
        fixes = [fix for fix in base.whole(finding.id)["fix"] if fix.get("rewrite")]
        count[path] += 1
        if not fixes or count[path] > MOST:
            continue
        work = rewrites.Work(path, texts[path], modules[path], known)
        judge = judges.setdefault(path, _Judge(path, target, base))
        for fix in fixes:
            ways = rewrites.make(fix["rewrite"], work, finding)
            if ways:
                yield _found(finding, fix, ways, judge)
                break


def _found(finding: Finding, fix: Mapping[str, object], ways: Sequence[rewrites.Way], judge: _Judge) -> Found:
    passes = _Passes(judge, finding, ways)
    if len(ways) > 1:
        choices = tuple(Choice(_label(way.edits), way.edits, {"zh": way.zh, "en": way.en}) for way in ways)
        made = dict(fix) | {"applicability": "unsafe"}
        return Found(finding, passes=passes, fixes=(made,), offers={0: choices})
    made = dict(fix) | {"applicability": "safe" if ways[0].safe else "unsafe"}
    return Found(finding, passes=passes, edits={0: ways[0].edits}, fixes=(made,))


def _label(edits: Sequence[Edit]) -> str:
    words = [" ".join((edit.new.strip() or "− " + edit.old.strip(", ")).split())[:60] for edit in edits]
    return ", ".join(dict.fromkeys(words))


class _Judge:
    """How often each rule fires on contents of a file; the last few are remembered."""

    def __init__(self, path: str, target: source.Target, base: RuleBase) -> None:
        self.path, self.target, self.base = path, target, base
        self._known: dict[str, Counter[str] | None] = {}

    def counts(self, data: bytes) -> Counter[str] | None:
        """Findings by rule; None if the contents cannot be parsed."""
        name = planning.digest(data)
        if name not in self._known:
            module = source.tree.read(self.path, data)
            found = None
            if isinstance(module, source.Module):
                every = source.judge([(self.path, module)], self.target, self.base)
                found = Counter(f.id for f in every if f.verdict is Verdict.FAIL)
            if len(self._known) > 8:
                self._known.clear()
            self._known[name] = found
        return self._known[name]


class _Passes:
    """Does a rule fire less often on other contents, and no other rule more often? Asked of the edits of the finding by
    themselves first: a rewrite that mends nothing does not hide among others."""

    def __init__(self, judge: _Judge, finding: Finding, ways: Sequence[rewrites.Way]) -> None:
        self.judge, self.finding, self.ways = judge, finding, ways
        self._alone: dict[str, bool] = {}

    def __call__(self, contents: Mapping[str, bytes]) -> bool | None:
        data = contents.get(self.judge.path)
        if data is None:
            return None
        try:
            before = planning.snapshot(self.judge.path).data
        except Refused:
            return False
        name = planning.digest(before)
        if name not in self._alone:
            self._alone[name] = any(self._mends(before, way) for way in self.ways)
        return self._alone[name] and self._better(before, data)

    def _mends(self, before: bytes, way: rewrites.Way) -> bool:
        try:
            after = planning.plan(way.edits).contents()[self.judge.path]
        except Refused:
            return False
        return self._better(before, after)

    def _better(self, before: bytes, after: bytes) -> bool:
        old, new = self.judge.counts(before), self.judge.counts(after)
        if old is None or new is None or new[self.finding.id] >= old[self.finding.id]:
            return False
        return all(count <= old[rule] for rule, count in new.items())
