"""Expressions that take for ever on a line that nearly matches.

RE2 and Hyperscan are linear whatever they are given; Python's ``re``, which judges the lines they find, is not.
"""

from __future__ import annotations

from typing import Any

from doctor.scan.anchors import parse, sre

FEW = 3
"""Repeats up to this many times are harmless, whatever they hold."""


def repeat_in_repeat(pattern: str) -> bool:
    """Whether a repeat holds a repeat with nothing fixed beside it, so that one text can be shared out between the two
    in exponentially many ways. Raises re.error.

    >>> repeat_in_repeat(r"(?:[^x]*x?){1,40}y"), repeat_in_repeat(r"(?:[^x]*x){1,40}y")
    (True, False)
    """
    return _any(parse(pattern))


def _any(items: Any) -> bool:
    c = sre()[1]
    for op, arg in items:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT) and arg[1] > FEW and any(_loose(one) for one in _alternatives(arg[2])):
            return True
        if any(_any(inner) for inner in _inside(op, arg)):
            return True
    return False


def _inside(op: Any, arg: Any) -> list[Any]:
    """The sequences within an item."""
    c = sre()[1]
    if op in (c.MAX_REPEAT, c.MIN_REPEAT):
        return [arg[2]]
    if op is c.SUBPATTERN:
        return [arg[3]]
    if op is c.BRANCH:
        return list(arg[1])
    return [arg[1]] if op in (c.ASSERT, c.ASSERT_NOT) else []


def _alternatives(items: Any) -> list[list[Any]]:
    """What a sequence can be, where it is nothing but a group or a choice."""
    c = sre()[1]
    found = list(items)
    if len(found) == 1 and found[0][0] is c.SUBPATTERN:
        return _alternatives(found[0][1][3])
    if len(found) == 1 and found[0][0] is c.BRANCH:
        return [one for way in found[0][1][1] for one in _alternatives(way)]
    return [found]


def _loose(items: list[Any]) -> bool:
    """Whether a sequence is one repeat of any length, and all that stands beside it may be absent."""
    c = sre()[1]
    repeats = 0
    for op, arg in items:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT) and arg[1] > FEW and arg[0] < arg[1]:
            repeats += 1
        elif op is not c.AT and (op not in (c.MAX_REPEAT, c.MIN_REPEAT) or arg[0]):
            return False
    return repeats > 0
