"""Which part of a line a rule matched, to mark it for the eye. Findings do not depend on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from doctor.rulebase import RuleBase
from doctor.tui.document import matches

LONGEST = 1 << 13
"""Characters of a line that are looked at."""


def matches_of(base: RuleBase, rule: str, text: str) -> list[tuple[int, int]]:
    """The spans, in characters: of the expression if it stands in this line, else of its telling text, else of the
    error code; empty if none of them does."""
    text = text[:LONGEST]
    if rule.startswith("CODE:"):
        at = text.find(rule[5:])
        return [(at, at + len(rule) - 5)] if at >= 0 else []
    if rule not in base:
        return []
    log = base.whole(rule).get("match", {}).get("log") or {}
    for one in _alternatives(log):
        for pattern in _listed(one.get("regex")):
            if found := _matched(str(pattern), text):
                return found
    for one in _alternatives(log):
        for literal in _listed(one.get("literal")):
            at = text.find(str(literal))
            if at >= 0:
                return [(at, at + len(str(literal)))]
    return []


def _alternatives(log: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield log
    for key in ("any", "all"):
        yield from (one for one in log.get(key) or () if isinstance(one, dict))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _matched(pattern: str, text: str) -> list[tuple[int, int]]:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = 8 << 20
    try:
        return matches(re2.compile(pattern.encode(), options), text)[:1]
    except re2.error:
        return []
