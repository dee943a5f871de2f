"""What pasted outputs and tables say of a machine: the same checks as ``doctor check``, on texts.

An npu-smi table in a paste answers the question ``npu-smi info``; every other question stays unanswered, so only the
checks that need no more can speak.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from doctor import checkup, static
from doctor.hosts.base import MemoryHost, title
from doctor.model import SEVERITIES, Diagnosis, Evidence, Finding, Raw, Verdict
from doctor.plan.schema import Plan
from doctor.rulebase import RuleBase
from doctor.scan.read import Piece


class Origin(NamedTuple):
    """Where the answer to a question stands: in which input, from which line on."""

    name: str
    line: int


class Judged(NamedTuple):
    """``findings``: what passed and what failed. ``sources``: the inputs that answered any question. ``partly``: of
    these the notes, with the settings in them that could be judged; the rest of them was not."""

    findings: tuple[Finding, ...]
    diagnoses: tuple[Diagnosis, ...]
    sources: frozenset[str]
    partly: Mapping[str, tuple[str, ...]] = MappingProxyType({})


def readers() -> Iterator[object]:
    """Modules that know which questions a text answers."""
    import doctor.probes as package

    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith("pasted_"):
            yield importlib.import_module(f"doctor.probes.{module.name}")


def answers(pieces: Iterable[tuple[str, Piece]]) -> tuple[dict[str, Raw], dict[str, Origin]]:
    """Answers by key, and where each stands; of two answers to one question the first counts.

    A reader with ``WHOLE`` gets neighbouring pieces as one text: tables of ordinary tools are no kind of their own and
    may have been cut.
    """
    raws: dict[str, Raw] = {}
    origins: dict[str, Origin] = {}
    modules = list(readers())
    apart = list(pieces)
    whole = joined(apart)
    for module in modules:
        for name, piece in whole if getattr(module, "WHOLE", False) else apart:
            found: dict[str, str | Raw] = module.from_text(piece.text)  # type: ignore[attr-defined]
            for key, answer in found.items():
                if key in raws:
                    continue
                raw = answer if isinstance(answer, Raw) else Raw(key, "ok", answer, code=0)
                raws[key] = raw
                at = piece.text.find(raw.text.split("\n", 1)[0]) if raw.text else 0
                origins[key] = Origin(name, piece.first_line + piece.text.count("\n", 0, max(at, 0)))
    return raws, origins


def joined(pieces: Iterable[tuple[str, Piece]]) -> list[tuple[str, Piece]]:
    """Pieces of one input that follow each other without a gap, as one."""
    found: list[tuple[str, Piece]] = []
    for name, piece in pieces:
        if found:
            before, last = found[-1]
            if before == name and last.first_line + last.text.count("\n") == piece.first_line:
                found[-1] = name, last._replace(text=last.text + piece.text)
                continue
        found.append((name, piece))
    return found


def judge(base: RuleBase, pieces: Sequence[tuple[str, Piece]], facts: Mapping[str, Any]) -> Judged:
    """Run the checks over what some inputs show of a machine, and judge the configurations and sources among them.
    ``facts`` are versions that the inputs name."""
    own_files = [piece for piece in pieces if piece[1].kind in FILES]
    of_files, files, partly = _of_files(base, [*own_files, *_scripts(pieces)], facts)
    shown, names = _of_machine(base, pieces)
    findings = shown + of_files
    return Judged(findings, checkup.diagnose(base, findings), names | files, partly)


def _of_machine(base: RuleBase, pieces: Sequence[tuple[str, Piece]]) -> tuple[tuple[Finding, ...], frozenset[str]]:
    """What some inputs show of a machine, and which inputs those are."""
    raws, origins = answers([*(piece for piece in pieces if piece[1].kind not in FILES), *_variables(pieces)])
    if not raws:
        return (), frozenset()
    run = checkup.Checkup(MemoryHost(raws, "paste"), base=base)
    for _ in run.steps():
        pass
    by_title = {title(key): origin for key, origin in origins.items()}
    told = [f for f in run.findings if f.verdict in (Verdict.PASS, Verdict.FAIL, Verdict.CRASH)]
    findings = tuple(
        f._replace(evidence=tuple(_of_variable(_at(e, by_title), pieces) for e in f.evidence)) for f in told
    )
    return findings, frozenset(origin.name for origin in origins.values())


def check(paths: Sequence[str], base: RuleBase, facts: Mapping[str, Any], options: checkup.Options) -> static.Read:
    """``static.check``, and what the exports and the launcher of the scripts among the files show: the checks of a
    machine judge them as they judge a paste."""
    read = static.check(paths, base, facts, options)
    launches = [_launch(plan, base, options) for plan in read.plans]
    of_plans = tuple((*own, *more) for own, more in zip(read.of_plans, launches, strict=True))
    return read._replace(findings=(*read.findings, *(f for more in launches for f in more)), of_plans=of_plans)


def _launch(plan: Plan, base: RuleBase, options: checkup.Options) -> tuple[Finding, ...]:
    """What fails in the launch of one script; what passes was asked about the host already."""
    from doctor.plan import yamltree

    if plan.kind not in ("shell", "megatron"):
        return ()
    data = yamltree.read_bytes(plan.file)
    text = yamltree.decode(data, plan.file) if isinstance(data, bytes) else data
    if not isinstance(text, str):
        return ()
    # what its plan shows was judged with the plan
    shown, _ = _of_machine(base, [(plan.file, Piece("shell", 1, text))])
    return static.taken(base, options, [f for f in shown if f.verdict is Verdict.FAIL])


def _scripts(pieces: Iterable[tuple[str, Piece]]) -> list[tuple[str, Piece]]:
    """The commands among some pieces, with the assignments before them, which they may use."""
    apart = [piece for piece in pieces if piece[1].kind in ("shell", "environment")]
    typed = [(name, piece.first_line) for name, piece in apart if piece.kind == "shell"]

    def holds_commands(name: str, piece: Piece) -> bool:
        last = piece.first_line + piece.text.count("\n")
        return any(of == name and piece.first_line <= line <= last for of, line in typed)

    return [(name, piece._replace(kind="shell")) for name, piece in joined(apart) if holds_commands(name, piece)]


def named(base: RuleBase, facts: Mapping[str, tuple[Any, str, int]]) -> Judged:
    """What fails among versions that some inputs name in passing, each with its place. Nothing is said of what they do
    not name."""
    from doctor.probes.pasted_versions import of_facts

    raws = of_facts({key.partition(".")[2]: str(value) for key, (value, _, _) in facts.items()})
    run = checkup.Checkup(MemoryHost(raws, "paste"), base=base)
    for _ in run.steps():
        pass
    findings = []
    for finding in run.findings:
        if finding.verdict is Verdict.FAIL:
            seen = [
                Evidence(source, line, f"{key.partition('.')[2]} {value}")
                for key, (value, source, line) in facts.items()
                if finding.args.get(key.partition(".")[2]) == str(value)
            ]
            findings.append(finding._replace(evidence=tuple(seen)))
    found = tuple(findings)
    return Judged(found, checkup.diagnose(base, found), frozenset(e.source for f in found for e in f.evidence))


FILES = frozenset(("config", "python"))
"""Kinds that are judged as files, not as answers of a machine."""


def _variables(pieces: Iterable[tuple[str, Piece]]) -> Iterator[tuple[str, Piece]]:
    """Environment variables that stand in a section of a configuration, as a piece of their own."""
    from doctor.plan import loose

    for name, piece in pieces:
        if piece.kind in FILES and "env" in piece.text:
            found = loose.environment(name, piece.text)
            if found:
                yield name, Piece("environment", piece.first_line, found)


_KNOWN_VARIABLE = re.compile(r"(?:HCCL|ASCEND|MS|GLOG|CANN|TASK)_\w+|PYTORCH_\w*ALLOC_CONF|LD_LIBRARY_PATH")


def _of_files(
    base: RuleBase, pieces: Sequence[tuple[str, Piece]], facts: Mapping[str, Any]
) -> tuple[tuple[Finding, ...], frozenset[str], dict[str, tuple[str, ...]]]:
    """What the configurations and sources among some inputs show, which inputs those are, and of notes the settings
    that could be judged."""
    found: list[Finding] = []
    names: set[str] = set()
    partly: dict[str, tuple[str, ...]] = {}
    for name, piece in pieces:
        if piece.kind == "shell":
            judged = static.judge_commands(name, piece.text, base, facts)
        elif piece.kind == "python":
            judged = static.judge_source(name, piece.text, base, facts) or None
        else:
            judged = static.judge_text(name, piece.text, base, facts)
            if judged is None:
                noted = static.judge_notes(name, piece.text, base, facts)
                known = [n for n in _variable_names(name, piece) if _KNOWN_VARIABLE.fullmatch(n)]
                if noted or known:
                    judged = list(noted.findings) if noted else []
                    own = (*(noted.settings if noted else ()), *known)
                    partly[name] = tuple(dict.fromkeys((*partly.get(name, ()), *own)))
        if judged is None:
            continue
        names.add(name)
        for finding in judged:
            if finding.verdict in (Verdict.PASS, Verdict.FAIL, Verdict.CRASH):
                moved = (e._replace(line=e.line + piece.first_line - 1) if e.line else e for e in finding.evidence)
                found.append(finding._replace(evidence=tuple(moved)))
    return tuple(found), frozenset(names), partly


def _variable_names(name: str, piece: Piece) -> list[str]:
    """The variables in a section of a configuration."""
    from doctor.plan import loose

    if "env" not in piece.text:
        return []
    return [line.partition("=")[0] for line in loose.environment(name, piece.text).splitlines()]


def _at(evidence: Evidence, origins: dict[str, Origin]) -> Evidence:
    """The evidence where the user can see it: in his file, at its line."""
    origin = origins.get(evidence.source)
    if origin is None:
        return evidence
    line = origin.line + evidence.line - 1 if evidence.line else 0
    return evidence._replace(source=origin.name, line=line)


_VARIABLE = re.compile(r"([A-Za-z_]\w{2,80})=")


def _of_variable(evidence: Evidence, pieces: Sequence[tuple[str, Piece]]) -> Evidence:
    """Evidence that is a variable, at the line where the user wrote it."""
    found = _VARIABLE.match(evidence.text) if not evidence.line else None
    if found is None:
        return evidence
    written = re.compile(rf"(?m)^.*\b{found[1]}\b[\"']?\s{{0,4}}[=:].*$")
    for name, piece in pieces:
        line = written.search(piece.text)
        if line:
            number = piece.first_line + piece.text.count("\n", 0, line.start())
            return evidence._replace(source=name, line=number, text=line[0][:500])
    return evidence


def merged(logs: Sequence[Diagnosis], judged: Judged, offset: int) -> tuple[Diagnosis, ...]:
    """Diagnoses of logs and of states in one order. ``offset``: where the findings of the states begin.

    No topic is told twice: of one input a check knows more than a log rule, of different ones the log tells what
    happened, as does one that says to which rank of a run it happened, or what followed from it. A state that is wrong
    comes before a log that only guesses, and after one that names its cause.
    """
    better = {d.topic for d in judged.diagnoses}
    kept = [
        d
        for d in logs
        if d.topic not in better
        or d.place.rank is not None
        or d.consequences
        or not (d.evidence and {e.source for e in d.evidence} <= judged.sources)
    ]
    told = {d.topic for d in kept}
    moved = [
        d._replace(finding=d.finding + offset, consequences=tuple(n + offset for n in d.consequences))
        for d in judged.diagnoses
        if d.topic not in told
    ]

    def key(diagnosis: Diagnosis) -> tuple[int, int]:
        severity = SEVERITIES.index(diagnosis.severity)
        guess = diagnosis.confidence == "guess" and diagnosis in kept
        return severity, 2 if guess else int(diagnosis not in kept)

    return tuple(sorted((*kept, *moved), key=key))
