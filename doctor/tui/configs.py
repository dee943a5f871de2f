"""What the model screen asks for: files looked at one by one, proposals for one file, the patch of those taken.

Nothing here knows of a screen; everything runs in a thread and ends soon after ``cancelled`` says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from doctor import checkup, engine, pasted, static
from doctor.model import Finding, InputSeen, Report, Text, Verdict
from doctor.patch import diff, propose
from doctor.patch.plan import Patch
from doctor.patch.propose import Decision, Options, Proposal
from doctor.plan.schema import Plan
from doctor.rulebase import RuleBase
from doctor.scan.inputs import Problem

Stamp = tuple[int, int, int] | None


class Seen(NamedTuple):
    """One file that describes a run, or could not be read (``why``). ``stamp`` is that of the moment before."""

    path: str
    stamp: Stamp
    plan: Plan | None = None
    findings: tuple[Finding, ...] = ()
    inputs: tuple[InputSeen, ...] = ()
    why: Text = {}  # noqa: RUF012 - never changed

    def failed(self) -> tuple[Finding, ...]:
        """What is wrong, worst first."""
        order = {"error": 0, "warning": 1, "advice": 2}
        wrong = [f for f in self.findings if f.verdict in (Verdict.FAIL, Verdict.CRASH)]
        return tuple(sorted(wrong, key=lambda f: order[f.severity]))

    def unknown(self) -> tuple[Finding, ...]:
        """What could not be told."""
        return tuple(f for f in self.findings if f.verdict is Verdict.UNKNOWN)


class Step(NamedTuple):
    """``looked`` files so far; ``seen`` is None for one that describes no run; ``cut``: there are more than allowed."""

    looked: int
    seen: Seen | None
    cut: bool = False


class Offer(NamedTuple):
    """The proposals for one file as it was at ``stamp``."""

    path: str
    stamp: Stamp
    aliases: bool
    proposals: tuple[Proposal, ...]


class Taken(NamedTuple):
    """The patch of the proposals that were taken, what became of each by its number, and its rows by file."""

    patch: Patch | None
    decisions: Mapping[int, Decision]
    rows: tuple[tuple[str, tuple[diff.Row, ...]], ...] = ()


def stamp(path: str) -> Stamp:
    """What tells that a file is another one or was written to; None if it is gone."""
    try:
        seen = os.stat(path)
    except (OSError, ValueError):
        return None
    return seen.st_ino, seen.st_size, seen.st_mtime_ns


def look(paths: Sequence[str], base: RuleBase, cancelled: Callable[[], bool]) -> Iterator[Step]:
    """Judge files, and those below folders, one at a time; Python sources at the end and together, since one may add to
    a library what another uses."""
    options = checkup.Options(cancelled=cancelled)
    sources: list[str] = []
    n = 0
    for n, path in enumerate(static.files(paths), 1):
        if cancelled():
            return
        if n > static.FILES:
            n -= 1
            yield Step(n, None, cut=True)
            break
        if isinstance(path, Problem):
            yield Step(n, unread(path))
            continue
        if path.lower().endswith(".py"):
            sources.append(path)
            yield Step(n, None)
            continue
        before = stamp(path)
        read = pasted.check([path], base, {}, options)
        if read.problems:
            yield Step(n, unread(read.problems[0]))
        elif read.plans or read.findings:
            yield Step(n, Seen(path, before, next(iter(read.plans), None), read.findings, read.inputs))
        else:
            yield Step(n, None)
    for seen in _sources(sources, base, options) if sources else ():
        yield Step(n, seen)


def _sources(paths: Sequence[str], base: RuleBase, options: checkup.Options) -> Iterator[Seen]:
    """Python sources, each with the findings of its own lines; what is said of all of them stands with the first."""
    before = {path: stamp(path) for path in paths}
    read = pasted.check(paths, base, {}, options)
    plans = {plan.file: (plan, findings) for plan, findings in zip(read.plans, read.of_plans, strict=True)}
    found: dict[str, list[Finding]] = {path: [] for path in paths}
    for finding in read.findings:
        if finding.id in base and base[finding.id].kind == "code":
            path = finding.evidence[0].source if finding.evidence else paths[0]
            found[path if path in found else paths[0]].append(finding)
    inputs = {one.name: one for one in read.inputs}
    for path in paths:
        if path in inputs:
            plan, more = plans.get(path, (None, ()))
            yield Seen(path, before[path], plan, (*more, *found[path]), (inputs[path],))
    for problem in read.problems:
        yield unread(problem)


def unread(found: Problem) -> Seen:
    """A file that could not be read, with the reason."""
    seen = engine.problem_seen(found)
    return Seen(found.name, None, None, (), (seen,), seen.why)


def offer(path: str, base: RuleBase, options: Options, cancelled: Callable[[], bool]) -> Offer:
    """The proposals of all findings over one file; those found so far when cancelled."""
    before = stamp(path)
    out: list[Proposal] = []
    for one in propose.find([path], options):
        if cancelled():
            break
        for made in propose.of_found([one], options, base):
            if not any(made.fix == other.fix and made.choices == other.choices for other in out):
                out.append(made)
    return Offer(path, before, options.aliases, tuple(out))


def first_picks(proposals: Sequence[Proposal]) -> dict[int, int]:
    """What is taken unless the user says otherwise: everything safe that needs no choice, once for each finding."""
    picks: dict[int, int] = {}
    done: list[Finding] = []
    for n, one in enumerate(proposals):
        safe = one.why is None and not one.choices and one.fix.edits and one.fix.applicability == "safe"
        if safe and not any(one.finding is other for other in done):
            picks[n] = 0
            done.append(one.finding)
    return picks


def takeable(one: Proposal) -> bool:
    """Whether there is something to write."""
    return one.why is None and one.fix.applicability != "display" and bool(one.choices or one.fix.edits)


def take(proposals: Sequence[Proposal], picks: Mapping[int, int], options: Options) -> Taken:
    """The patch of the proposals picked; ``picks`` maps the number of each to that of its choice."""
    chosen: list[tuple[int, Proposal]] = []
    for n, choice in sorted(picks.items()):
        one = proposals[n]
        if one.choices:
            one = one._replace(fix=one.fix._replace(edits=one.choices[choice].edits))
        chosen.append((n, one))
    # what was picked was agreed to
    patch, decisions = propose.decide([one for _, one in chosen], options._replace(unsafe=True))
    by_number = {n: decision for decision in decisions for n, one in chosen if decision.proposal is one}
    rows = tuple((file.path, tuple(diff.rows(file))) for file in patch.files) if patch is not None else ()
    return Taken(patch, by_number, rows)


def passing(taken: Taken) -> Callable[[Patch], bool | None]:
    """The checks of everything that is in a patch."""
    return propose.passing(tuple(taken.decisions.values()))


def report(seen: Sequence[Seen], base: RuleBase) -> Report:
    """What was found, as ``doctor check PATH --only model`` says it."""
    from doctor.hosts.base import MemoryHost

    run = checkup.Checkup(MemoryHost({}), checkup.Options(only=("model",)), base)
    run.specs = []
    engine.add_files(
        run,
        [one for file in seen for one in file.inputs],
        [finding for file in seen for finding in file.findings],
        [file.plan for file in seen if file.plan is not None],
    )
    return run.report()
