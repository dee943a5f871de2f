"""Python sources judged without running them: ``check`` reads files and folders and asks every code rule.

    paths ─▶ tree.Module ─ api.judge ─▶ Module.api ─ rules (match: code:) ─▶ Finding

A rule looks for calls and classes under conditions (``doctor.source.match``) or names a Python check, which gets the
Module and answers with ``doctor.model.fail`` and the like.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from doctor.model import Answer, Evidence, Fact, Finding, Text, Unknown, Verdict, fail
from doctor.rulebase import Rule, RuleBase
from doctor.source import api, match, tree
from doctor.source import table as tables
from doctor.source.api import Known, Target
from doctor.source.tree import Module, Problem

MOST_FILES = 5000
MOST_FINDINGS = 200
"""Answers of one rule that are kept."""

SKIPPED = {"__pycache__", "node_modules", "site-packages", "dist-packages", "build", "kernel_meta"}
UNREADABLE = "CODE500"
TABLES = "doctor.checks.code.api:"
"""Checks that ask the API tables begin with this."""

PROBLEMS: dict[str, Text] = {
    "syntax": {"zh": "语法错误", "en": "a syntax error"},
    "python2": {"zh": "Python 2 的写法", "en": "Python 2"},
    "too_large": {"zh": "文件超过 4 MiB，未读取", "en": "larger than 4 MiB, not read"},
    "binary": {"zh": "是二进制文件", "en": "a binary file"},
    "no_file": {"zh": "没有这个文件", "en": "no such file"},
    "denied": {"zh": "没有读取权限", "en": "permission denied"},
    "not_understood": {"zh": "无法解析", "en": "cannot be parsed"},
}
SPEAKS_OF = ("mindspore", "mindformers", "mindnlp", "mindone", "mindcv", "mindyolo", *api.NO_PACKAGES)


class Spec(NamedTuple):
    """A code rule, ready to be asked."""

    rule: Rule
    whole: dict[str, Any]
    code: dict[str, Any]
    ask: Callable[[Module], list[Answer] | Answer] | None


def specs(base: RuleBase) -> list[Spec]:
    """The code rules of a base, in the order of their ids."""
    out = []
    for rule in base:
        if rule.kind == "code":
            whole = base.whole(rule.id)
            out.append(spec_of(rule, whole))
    return out


def spec_of(rule: Rule, whole: dict[str, Any]) -> Spec:
    code = whole["match"]["code"]
    if not code["check"]:
        return Spec(rule, whole, code, None)
    module, _, name = code["check"].partition(":")
    return Spec(rule, whole, code, getattr(importlib.import_module(module), name))


def check(
    paths: Sequence[str], target: Target, base: RuleBase, stop: Callable[[], bool] = lambda: False
) -> list[Finding]:
    """Findings of all code rules over the Python files in and under ``paths``.

    What fails has file and line; a rule that found nothing in files that use MindSpore passes once. Never raises for
    bad input: a file that cannot be read is a finding of its own. Nothing is said of files without MindSpore.
    """
    modules: list[Module | Problem] = []
    names: list[str] = []
    for path in files(paths):
        if stop():
            break
        names.append(path)
        modules.append(read(path))
    return judge(list(zip(names, modules, strict=True)), target, base, stop)


def read(path: str) -> Module | Problem:
    """The Python file at a path."""
    try:
        if not os.path.isfile(path):
            return Problem("no_file", 0, "")
        if os.path.getsize(path) > tree.LARGEST:
            return Problem("too_large", 0, "")
        with open(path, "rb") as file:
            return tree.read(path, file.read(tree.LARGEST + 1))
    except PermissionError:
        return Problem("denied", 0, "")
    except OSError as error:
        return Problem("not_understood", 0, str(error))


def files(paths: Sequence[str]) -> Iterator[str]:
    """Python files in and under some paths, each once, without caches, hidden folders and installed packages."""
    seen: set[str] = set()
    count = 0
    for path in paths:
        if not os.path.isdir(path):
            real = os.path.realpath(path)
            if real not in seen:
                seen.add(real)
                yield path
            continue
        for folder, below, names in os.walk(path):
            below[:] = sorted(d for d in below if d not in SKIPPED and not d.startswith("."))
            for name in sorted(names):
                full = os.path.join(folder, name)
                real = os.path.realpath(full)
                if name.endswith(".py") and real not in seen:
                    seen.add(real)
                    count += 1
                    if count > MOST_FILES:
                        return
                    yield full


def judge(
    read_files: Sequence[tuple[str, Module | Problem]],
    target: Target,
    base: RuleBase,
    stop: Callable[[], bool] = lambda: False,
) -> list[Finding]:
    """Findings over files that were read; see ``check``."""
    rules = specs(base)
    known = Known(target)
    patched = frozenset(name for _, m in read_files if isinstance(m, Module) for name in api.patches(m))
    failed: dict[str, list[Finding]] = {}
    looked = False
    for name, module in read_files:
        if stop():
            break
        if isinstance(module, Problem):
            if UNREADABLE in base:
                spec = next((s for s in rules if s.rule.id == UNREADABLE), None)
                if spec is not None:
                    failed.setdefault(UNREADABLE, []).append(finding(spec, unreadable(name, module)))
            continue
        if not speaks(module):
            continue
        looked = True
        module.api = list(api.judge(module, known, patched))
        module.version = known.version("mindspore")
        for spec in rules:
            for one in ask(spec, module):
                if one.verdict in (Verdict.FAIL, Verdict.CRASH):
                    bucket = failed.setdefault(spec.rule.id, [])
                    if len(bucket) < MOST_FINDINGS:
                        bucket.append(one)
    out = [f for spec in rules for f in failed.get(spec.rule.id, ())]
    if looked:
        blind = Answer(Verdict.UNKNOWN, {"version": target.mindspore, "versions": ", ".join(tables.index("mindspore"))},
                       why="no_api_table", how="mindspore_option")  # fmt: skip
        partial = not known.whole("mindspore") or not known.tables["mindspore"]
        for spec in rules:
            if spec.rule.id not in failed:
                asks = partial and spec.code["check"].startswith(TABLES)
                out.append(finding(spec, blind if asks else Answer(Verdict.PASS)))
    return out


def ask(spec: Spec, module: Module) -> list[Finding]:
    """What one rule says of one file. Its own failure is a finding of the verdict crash."""
    try:
        answers = match.found(module, spec.code) if spec.ask is None else spec.ask(module)
        if isinstance(answers, Answer):
            answers = [answers]
        return [finding(spec, answer) for answer in answers]
    except Exception as error:  # a rule's own mistake is said, and the others go on
        what = f"{type(error).__name__}: {error}"[:300]
        return [finding(spec, Answer(Verdict.CRASH, {"what": what, "file": module.name}, why="crashed"))]


def example(spec: Spec, text: str, target: Target) -> list[Finding]:
    """What one rule says of a text; for the examples in the rules."""
    module = tree.read("example.py", text.encode())
    if isinstance(module, Problem):
        return [finding(spec, unreadable("example.py", module))] if spec.rule.id == UNREADABLE else []
    known = Known(target)
    module.api = list(api.judge(module, known, frozenset(api.patches(module))))
    module.version = known.version("mindspore")
    return ask(spec, module)


def finding(spec: Spec, answer: Answer) -> Finding:
    from doctor import checkup

    return checkup.finding_of(checkup.Spec(spec.rule, spec.whole, "", ()), answer)


def unreadable(name: str, problem: Problem) -> Answer:
    """A file that is no Python 3, in one answer."""
    words = PROBLEMS[problem.why]
    args = {"file": name, "line": problem.line, "why": problem.why, "what": problem.text or "-",
            "why_zh": words["zh"], "why_en": words["en"]}  # fmt: skip
    return fail(args, Evidence(name, problem.line, problem.text))


def target_of(facts: Mapping[str, Fact | Unknown], mindspore: str = "") -> Target:
    """The versions to judge for: the one named, else the installed ones, else not known."""
    versions = []
    for name in ("ver.mindspore", "ver.mindformers"):
        fact = facts.get(name)
        value = fact.value if isinstance(fact, Fact) else None
        versions.append(str(value.get("version") or "") if isinstance(value, Mapping) else "")
    return Target(mindspore or versions[0], versions[1], bool(mindspore or versions[0]))


def readable(module: Module) -> list[Answer]:
    """CODE500 speaks of files that never become a Module: ``judge`` answers for it."""
    return []


def speaks(module: Module) -> bool:
    """Whether a file has anything to do with MindSpore."""
    return any(use.name.split(".", 1)[0].rstrip(":") in SPEAKS_OF for use in module.uses)


__all__ = [
    "Known",
    "Module",
    "Problem",
    "Target",
    "ask",
    "check",
    "example",
    "files",
    "finding",
    "judge",
    "read",
    "spec_of",
    "specs",
    "target_of",
]
