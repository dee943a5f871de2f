"""The compiled rules base: what the engine needs of every rule at hand, everything else on demand.

Reading and checking 400 YAML files takes a second; the compiled form is one JSON file in the private cache whose
first line is the matching index and whose further lines are the whole rules, read only for the few that fired.
``doctor.ruleschema`` builds it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from doctor import __version__, cache

FORMAT = 7
"""Raise when the compiled form changes."""


class Clause(NamedTuple):
    """A text to look for: where ``literal`` is, ``regex`` must match too; either may be missing."""

    literal: str | None
    regex: str | None


class LogSpec(NamedTuple):
    """How a rule reads logs. ``lines`` and ``seconds`` bound the members of ``every``."""

    any: tuple[Clause, ...]
    every: tuple[Clause, ...]
    never: tuple[Clause, ...]
    unit: str
    level: tuple[str, ...]
    lines: int
    seconds: int
    scope: str
    after: int
    calc: str


class Explains(NamedTuple):
    """``target`` is a rule id or a topic (``group.*`` allowed); ``within`` in seconds, 0 is unlimited."""

    target: str
    within: float
    scope: str


class Rule(NamedTuple):
    """The part of a rule that matching and ranking need."""

    id: str
    topic: str
    severity: str
    confidence: str
    status: str
    role: str
    priority: int
    kind: str
    log: LogSpec | None
    applies_to: dict[str, Any]
    explains: tuple[Explains, ...]
    conditions: bool
    """whether the rule has confirm or contradict"""


class Problem(NamedTuple):
    """A rule file that could not be used."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class RuleBase:
    """All loaded rules. ``key`` names the exact content, for caches built upon it."""

    def __init__(self, folder: str, key: str, blob: bytes) -> None:
        self.folder, self.key = folder, key
        self._blob = blob
        end = blob.index(b"\n")
        head = json.loads(blob[:end])
        self._base = end + 1
        self.problems = tuple(Problem(*p) for p in head["problems"])
        self.anchors: list[tuple[str, bool, bool, list[int]]] = head["anchors"]
        """(text, is regex, is caseless, positions of rules), see doctor.scan.anchors"""
        self._spans: list[list[int]] = head["spans"]
        self._codes_span: list[int] = head["codes"]
        self.topics: dict[str, dict[str, str]] = head["topics"]
        self.aliases: dict[str, str] = head["aliases"]
        self.rules: tuple[Rule, ...] = tuple(as_rule(row) for row in head["rules"])
        self.position = {rule.id: n for n, rule in enumerate(self.rules)}
        self._codes: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __contains__(self, rule_id: object) -> bool:
        return rule_id in self.position

    def __getitem__(self, rule_id: str) -> Rule:
        return self.rules[self.position[rule_id]]

    def whole(self, rule_id: str) -> dict[str, Any]:
        """The whole rule as written, with ``file``; for texts, fixes, sources and examples."""
        found: dict[str, Any] = self._piece(self._spans[self.position[rule_id]])
        return found

    def _piece(self, span: list[int]) -> Any:
        return json.loads(self._blob[self._base + span[0] : self._base + span[1]])

    @property
    def codes(self) -> dict[str, Any]:
        """The catalogue of error codes as plain dicts, keyed by code."""
        if self._codes is None:
            self._codes = self._piece(self._codes_span)
        return self._codes


def as_rule(row: list[Any]) -> Rule:
    """A rule from its row in the index."""
    log = row[8]
    if log is not None:
        log = LogSpec(
            tuple(Clause(*c) for c in log[0]),
            tuple(Clause(*c) for c in log[1]),
            tuple(Clause(*c) for c in log[2]),
            log[3],
            tuple(log[4]),
            *log[5:],
        )
    return Rule._make((*row[:8], log, row[9], tuple(Explains(*e) for e in row[10]), row[11]))


def rules_folder() -> str:
    """The rules shipped with the package, or beside it in a checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    packed = os.path.join(here, "_data", "rules")
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(here), "rules")


def data_folder(name: str) -> str:
    """A data folder of the package (``fixtures/demo``), or beside it in a checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    packed = os.path.join(here, "_data", name)
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(here), name)


def rule_files(folder: str) -> list[tuple[str, int, int]]:
    """(path, mtime in ns, size) of every YAML file below ``folder``, in order of path."""
    found = []
    pending = [folder]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir():
                pending.append(entry.path)
            elif entry.name.endswith(".yaml"):
                stat = entry.stat()
                found.append((entry.path, stat.st_mtime_ns, stat.st_size))
    return sorted(found)


def _code_stamps() -> list[str]:
    """Times of the modules that decide the compiled form."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = ("rulebase.py", "ruleschema.py", "codes.py", os.path.join("scan", "anchors.py"), os.path.join("scan", "matcher.py"))
    return [str(os.stat(os.path.join(here, name)).st_mtime_ns) for name in names if os.path.exists(os.path.join(here, name))]


def load(folder: str | None = None) -> RuleBase:
    """The rules base of ``folder`` (default: the shipped one), from the cache when nothing changed.

    A file that cannot be used is left out and named in ``problems``.
    """
    import hashlib

    folder = folder or rules_folder()
    files = rule_files(folder)
    parts = [__version__, str(FORMAT), *_code_stamps(), *(f"{path}\0{mtime}\0{size}" for path, mtime, size in files)]
    key = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    name = f"rules-{key}.json"
    blob = cache.read(name)
    if blob is not None:
        try:
            return RuleBase(folder, key, blob)
        except (ValueError, KeyError, TypeError, IndexError):
            pass
    from doctor import ruleschema

    blob = ruleschema.compile_folder(folder)
    cache.write(name, blob)
    return RuleBase(folder, key, blob)
