"""From rules to anchors: the constant texts that say "look at this line".

Matching speed depends on the anchors far more than on the engine: a thousand long literals scan at twice the speed of
four hundred regexes, and one literal that stands on every line costs more than all others together. So of every clause
the most telling constant text is taken, from its literal or out of its regex; a regex stays an anchor only where
every match of it need not hold any telling text.
"""

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from doctor.rulebase import Clause, LogSpec
from doctor.scan.lazy import lazy

ENOUGH = 8
"""A literal of this length is kept without looking into the regex for a longer one."""

MANY = 24
"""An alternation is spelled out into at most so many literals."""

WIDTH = 6
"""Bytes of a stem. Shorter ones stand in healthy lines more often, of longer ones more are needed (measured: 1,150 of
six bytes, 1,470 of eight)."""

LONGEST = 128
"""Bytes of an anchor that has a stem, at most: so far around a stem is looked."""

COMMON = frozenset(
    """
    hccl rank return device error failed failure warning info kernel memory stream context graph shape dtype tensor
    value name type file line module python mindspore ascend cann npu version size number input output param
    parameter operator node group server world model train loss step epoch time timeout init load save data dataset
    run task code reason message invalid expected support supported cannot must should the and for not with from
    runtime plog worker scheduler address port host socket link ret= retcode errno status device_id deviceid
    stream_id task_id rank_id op_name torch_npu aclnn acl transformers traceback exception launch import attribute
    object argument keyword exceed required between different function class method 'nonetype' log_info log_error
    warn
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is no easier to read
)
"""Words that stand on healthy lines all the time; alone they are no anchor."""


class Special(NamedTuple):
    """An anchor of the scanner's own."""

    pattern: bytes
    name: str
    regex: bool = False


SPECIALS = (
    # what a failure looks like when no rule knows it
    Special(b"[ERROR]", "error"),
    Special(b"[CRITICAL]", "error"),
    Special(b"Traceback (most recent call last)", "error"),
    Special(b"Error:", "error"),
    Special(b"Exception:", "error"),
    Special(b"ERROR:", "error"),
    Special(b" ERROR ", "error"),
    Special(b"AssertionError", "error"),
    Special(b"KeyboardInterrupt", "error"),
    Special(b"egmentation fault", "error"),
    Special(b"core dumped", "error"),
    Special(b"Bus error", "error"),
    Special(b"FATAL", "error"),
    Special(b"Killed", "error"),
    Special(b"Command failed", "error"),
    Special(b"[FUNC:Report", "error"),
    Special(b"[E:onnxruntime", "error"),
    Special(b" failure ", "error"),
    Special(b" timed out ", "error"),
    Special(b"Exception raised from", "error"),
    Special(b"_FAILED", "error"),
    Special(b" init failed", "error"),
    Special(rb"\b(ACL_ERROR|DRV_ERROR|HCCL_E|RT_ERROR)_[A-Z]", "code", True),
    # an error code of the catalogue may stand here; a bare six-digit number is a step or a pid
    Special(rb"\b[EW][A-Z0-9]\d{4}(:|\[PID|\):)", "code", True),
    Special(
        rb"(?i)(ret|code|error|failure|errno|\b(runtime|ge) result)( is)?[ =:\[(]{1,3}(0x[0-9a-f]{6,8}|[1-5]\d{5})\b",
        "code",
        True,
    ),
    Special(b"rank id:", "meta"),
    # numbers of memory, see doctor.scan.memory
    Special(b"The dynamic memory pool", "memory"),
    Special(b"TotalUsedMemStatistics", "memory"),
    Special(b"emory isn't enough and alloc failed", "memory"),
    Special(b"Out of Memory!!!", "memory"),
    Special(b"Device HBM memory size", "memory"),
    Special(b"MindSpore Used memory size", "memory"),
    Special(b"Total Static Memory size", "memory"),
    Special(b"Dynamic memory size of this graph", "memory"),
    Special(b"peak memory usage (with", "memory"),
    Special(b"Malloc device memory failed", "memory"),
    Special(b"ree memory size is less than half", "memory"),
    Special(b"Allocate memory failed for size", "memory"),
    Special(b"Idle mem_buf info", "memory"),
    Special(b"total allocated memory[", "memory"),
    Special(b"halMemAlloc failed", "memory"),
    Special(b"anon-rss:", "memory"),
    Special(b"memory: usage ", "memory"),
    Special(b" memory (MB) | allocated: ", "memory"),
    Special(b"No available memory for the cache blocks", "memory"),
    Special(b"oading model weights took", "memory"),
    Special(b"odel loading took", "memory"),
    Special(b"vailable KV cache memory: ", "memory"),
    Special(b", total memory: ", "memory"),
    # a value of a training step that is odd whatever the one before was; alone it says nothing
    Special(rb"([=:\[('\"] {0,12}|norm )[-+]?(nan|NaN|inf|Inf)(inity)?\b", "odd", True),
    Special(rb"[=:] {0,12}(True|true)\b", "odd", True),
    Special(rb"(nan|skipped) iterations: {0,12}[1-9]", "odd", True),
    # where the values of a training step may stand; these come last, that of a loss at the very end
    Special(b"elapsed time per iteration", "step"),
    Special(b"] global_norm: ", "step"),
    Special(rb"(?i)loss['\"]?[ \t]{0,4}([:=]|is |[-+]?\d|[-+]?nan|[-+]?inf)", "step", True),
)

STEPS = sum(special.name == "step" for special in SPECIALS)
"""How many of the last anchors look for training steps."""

ODD = sum(special.name in ("step", "odd") for special in SPECIALS)
"""How many of the last anchors look for training steps or for odd values."""

KEPT = sum(special.name in ("step", "odd", "memory") for special in SPECIALS)
"""How many of the last anchors only say which lines hold numbers."""


LITERAL, FOLDED, REGEX, PROSE = range(4)
"""Kinds of anchor: exact text, text whose case does not matter, a short word with its end, and a whole regular
expression in which nothing is telling. The last kind describes troubles in a person's words ("the loss does not go
down"); it is looked for in pastes and small files only, because a hundred such expressions would halve the speed of
reading a run's logs."""


def special_rows() -> list[tuple[bytes, int]]:
    """(pattern, kind) of the scanner's own anchors, whose ids come behind those of the rules."""
    return [(s.pattern, REGEX if s.regex else LITERAL) for s in SPECIALS]


CLAUSE_BITS = 6
"""A rule and its clause are one number: position << CLAUSE_BITS | clause."""


class Anchor(NamedTuple):
    """A pattern of bytes with what it stands for: (position of the rule << CLAUSE_BITS | number of the clause)."""

    pattern: bytes
    kind: int
    targets: tuple[int, ...]


_typical: list[str] = []


def typical() -> str:
    """Healthy lines in lower case. A text that stands in one of them is no anchor: it would be hit on every step of
    every rank."""
    if not _typical:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "typical.txt"), encoding="utf-8") as file:
            _typical.append(file.read().lower())
    return _typical[0]


def telling(literal: str) -> bool:
    """Whether a literal is worth looking for on its own."""
    word = literal.strip(" :=,.;'\"[](){}<>-_/\\").lower()
    if word.isdigit() and len(word) < 5:
        return False
    if len(literal.encode()) < 4 or len(word) < 3 or word in COMMON:
        return False
    return literal.strip().lower() not in typical()


@lru_cache(maxsize=8192)
def clause_anchors(clause: Clause) -> list[tuple[str, int]]:
    """(text, kind) of the anchors of one clause: any match holds at least one of them."""
    literal = clause.literal
    if literal is not None and (clause.regex is None or (len(literal.encode()) >= ENOUGH and telling(literal))):
        return [(literal, LITERAL)]
    assert clause.regex is not None or literal is not None
    best: tuple[str, ...] = ()
    fold = False
    if clause.regex is not None:
        best, fold = required_literals(clause.regex)
    floor = len(literal) if literal is not None and telling(literal) else 0
    if best and min(map(len, best)) > floor:
        return [(text, FOLDED if fold else LITERAL) for text in best]
    if literal is not None and (telling(literal) or clause.regex is None):
        return [(literal, LITERAL)]
    assert clause.regex is not None
    words = closed_words(clause.regex)
    if words:
        # a short word with its end is a far cheaper regex than the whole one
        return [(f"(?i){word}\\b" if fold else f"{word}\\b", REGEX) for word, fold in words]
    return [(clause.regex, PROSE)]


def encodings(text: str) -> tuple[bytes, ...]:
    """A pattern as the bytes it has in a log: UTF-8, and GB18030 if that differs."""
    utf8 = text.encode()
    return (utf8,) if text.isascii() else tuple(dict.fromkeys((utf8, text.encode("gb18030", "ignore"))))


def anchor_table(specs: Sequence[LogSpec | None]) -> list[Anchor]:
    """The anchors of all rules, equal ones merged, those of kind PROSE last; positions in ``specs`` name the rules."""
    table: dict[tuple[bytes, int], dict[int, None]] = {}
    for position, spec in enumerate(specs):
        if spec is None:
            continue
        for number, clause in enumerate(anchor_clauses(spec)):
            for text, kind in clause_anchors(clause):
                for data in (text.encode(),) if kind == PROSE else encodings(text):
                    table.setdefault((data, kind), {})[position << CLAUSE_BITS | number] = None
    found = [Anchor(data, kind, tuple(targets)) for (data, kind), targets in table.items()]
    return sorted(found, key=lambda anchor: anchor.kind == PROSE)


def anchor_clauses(spec: LogSpec) -> Iterable[Clause]:
    """The clauses that anchor a rule: all of ``any``, else the one of ``all`` with the longest literal."""
    if spec.any:
        return spec.any
    return [max(spec.every, key=lambda c: len(c.literal or ""))]


@lru_cache(maxsize=8192)
def parse(pattern: str) -> Any:
    """The parsed form of a pattern. Raises re.error."""
    return sre()[0].parse(pattern, re.MULTILINE)


def sre() -> tuple[Any, Any]:
    """Python's own parser of patterns and its constants; they moved in 3.11."""
    try:
        from re import _constants, _parser  # type: ignore[attr-defined]
    except ImportError:
        import sre_constants as _constants
        import sre_parse as _parser
    return _parser, _constants


_SHORT = lazy(r"[A-Za-z]{3,9}")
_NUMBERS = frozenset(("nan", "inf", "infinity"))


def closed_words(pattern: str) -> tuple[tuple[str, bool], ...]:
    """(word, caseless) of short words closed by ``\\b`` of which every match holds one: ``nan``, ``inf``.

    >>> closed_words(r"(?i)loss:? {0,4}\\[?(?P<loss>nan)\\b")
    (('nan', True),)
    """
    c = sre()[1]
    tree = parse(pattern)
    fold = bool(tree.state.flags & re.IGNORECASE)
    items = list(tree)
    for n, (op, arg) in enumerate(items):
        if not (op is c.AT and arg is c.AT_BOUNDARY and n):
            continue
        texts = _tail(items[:n])
        if texts and all(_worth_a_regex(t) for t in texts):
            return tuple((re.escape(t), fold) for t in texts)
    return ()


def _worth_a_regex(word: str) -> bool:
    low = word.lower()
    return low in _NUMBERS or bool(_SHORT.fullmatch(word) and low not in COMMON and low not in typical())


def _tail(items: list[Any]) -> list[str] | None:
    """What the end of a piece of a pattern can be, as fixed texts of letters."""
    c = sre()[1]
    if not items:
        return None
    op, arg = items[-1]
    if op is c.SUBPATTERN and not arg[1] and not arg[2]:
        return _tail(list(arg[3]))
    if op is c.BRANCH:
        parts = [_tail(list(branch)) for branch in arg[1]]
        return [t for part in parts for t in part or ()] if all(parts) else None
    if op in (c.MAX_REPEAT, c.MIN_REPEAT) and arg[1] == 1 and arg[0] == 0:
        # inf(?:inity)?: with and without
        inner, short = _constant(list(arg[2])), _tail(items[:-1])
        return [*short, *(s + i for s in short for i in inner)] if inner and short else None
    run = ""
    for op, arg in reversed(items):
        if op is not c.LITERAL or not chr(arg).isalpha():
            break
        run = chr(arg) + run
    return [run] if run else None


def required_literals(pattern: str) -> tuple[tuple[str, ...], bool]:
    """Texts of which every match of ``pattern`` holds at least one, and whether their case is open.

    >>> required_literals(r"cannot (open|load) \\w+ library")
    (('cannot open ', 'cannot load '), False)

    Returns ((), False) where there are none worth looking for.
    """
    tree = parse(pattern)
    fold = bool(tree.state.flags & re.IGNORECASE)
    found = _best(_runs(list(tree), fold))
    return found, fold and bool(found)


Run = tuple[str, ...]
"""Alternatives of one stretch of constant text."""


def _best(runs: Iterable[Run]) -> tuple[str, ...]:
    usable = [run for run in runs if run and all(telling(text) for text in run)]
    return _folded(max(usable, key=lambda run: (min(len(text) for text in run), -len(run)), default=()))


SHARED = 12
"""Alternatives that begin with so many common characters become one anchor: their number costs speed too."""


def _common(a: str, b: str) -> str:
    """The common beginning of two texts."""
    n = 0
    for n, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return a[:n]
    return a[: n + 1]


def _folded(run: Run) -> Run:
    """Alternatives with a telling common beginning replaced by it."""
    out: list[str] = []
    for text in sorted(run):
        if out:
            shared = _common(out[-1], text)
            if len(shared) >= SHARED and telling(shared):
                out[-1] = shared
                continue
        out.append(text)
    return tuple(out)


def _runs(items: list[Any], fold: bool) -> list[Run]:
    """Stretches of constant text in a parsed pattern, each as the set of texts it can be."""
    c = sre()[1]
    runs: list[Run] = []
    current: list[str] = [""]

    def end() -> None:
        nonlocal current
        if any(current):
            runs.append(tuple(dict.fromkeys(current)))
        current = [""]

    def extend(options: Sequence[str]) -> None:
        nonlocal current
        if len(current) * len(options) > MANY:
            end()
        current = [a + b for a in current for b in options]

    for op, arg in items:
        if op is c.LITERAL:
            char = chr(arg)
            if char == "\n":
                end()
            else:
                extend([char])
        elif op is c.AT:
            continue
        elif op is c.IN and 1 <= len(arg) <= 3 and all(o is c.LITERAL for o, _ in arg):
            extend([chr(v) for _, v in arg])
        elif op is c.SUBPATTERN and not arg[1] and not arg[2]:
            whole = _constant(list(arg[3]))
            if whole is not None:
                extend(whole)
            else:
                end()
                runs += _runs(list(arg[3]), fold)
        elif op is c.BRANCH:
            whole = _constant([(op, arg)])
            if whole is not None:
                extend(whole)
                continue
            end()
            parts = [_best(_runs(list(branch), fold)) for branch in arg[1]]
            if all(parts) and sum(map(len, parts)) <= MANY:
                runs.append(tuple(dict.fromkeys(text for part in parts for text in part)))
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT) and arg[0] >= 1:
            whole = _constant(list(arg[2]))
            if whole is not None and arg[0] == arg[1] == 1:
                extend(whole)
            elif whole is not None:
                extend(whole)
                end()
            else:
                end()
                runs += _runs(list(arg[2]), fold)
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT) and arg[1] == 1:
            whole = _constant(list(arg[2]))
            if whole is not None and len(current) * (len(whole) + 1) <= MANY:
                extend(["", *whole])
            else:
                end()
        else:
            end()
    end()
    return runs


def _constant(items: list[Any]) -> list[str] | None:
    """All texts a piece of a pattern can be, None if they are not few and fixed."""
    c = sre()[1]
    texts = [""]
    for op, arg in items:
        if op is c.AT:
            continue
        if op is c.LITERAL and arg != 10:
            options = [chr(arg)]
        elif op is c.IN and len(arg) <= 3 and all(o is c.LITERAL for o, _ in arg):
            options = [chr(v) for _, v in arg]
        elif op is c.SUBPATTERN and not arg[1] and not arg[2]:
            inner = _constant(list(arg[3]))
            if inner is None:
                return None
            options = inner
        elif op is c.BRANCH:
            options = []
            for branch in arg[1]:
                inner = _constant(list(branch))
                if inner is None:
                    return None
                options += inner
        else:
            return None
        texts = [a + b for a in texts for b in options]
        if len(texts) > MANY:
            return None
    return texts
