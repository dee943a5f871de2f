"""The Common Expression Language, as far as rules need it: parsed, type-checked and judged with three values.

An expression reads names such as ``plan.parallel.mp``. A name that is absent or cannot be known makes what depends on
it unknown; ``false && unknown`` is false and ``true || unknown`` is true. Any other error (a division by zero, a
missing list element) is an error of the rule. ``check`` finds names that are not declared and types that do not fit
before a rule is ever run.

Grammar and meaning follow the CEL specification (cel-spec, doc/langdef.md); left out are messages, maps, bytes,
timestamps and unsigned numbers. ``tests/plan/test_cel.py`` compares with cel-python. Why not cel-python itself: see
docs/config-rules.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Ast = list[Any]
"""``[kind, …]``: plain lists, so that a compiled rule is JSON."""

MAX_LENGTH = 4000
MAX_DEPTH = 60

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|0x[0-9a-fA-F]+|\d+)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:()\[\],.]))""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
MACROS = ("all", "exists", "exists_one", "filter", "map")


class CelError(ValueError):
    """An expression that cannot be read, does not fit its types, or fails on real values."""


class Absent:
    """The value of what is not there or not known. ``names`` are the names it comes from."""

    __slots__ = ("names",)

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def __bool__(self) -> bool:
        raise TypeError("unknown is neither true nor false")


# --- reading


def parse(text: str) -> Ast:
    """The syntax tree of an expression. Raises CelError."""
    if len(text) > MAX_LENGTH:
        raise CelError(f"longer than {MAX_LENGTH} characters")
    parser = _Parser(text)
    ast = parser.expression(0)
    if parser.kind:
        raise CelError(f"unexpected {parser.text!r}")
    return ast


class _Parser:
    def __init__(self, text: str) -> None:
        self.source, self.position = text, 0
        self.kind = self.text = ""
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        found = _TOKEN.match(self.source, self.position)
        if found is None:
            rest = self.source[self.position :].strip()
            if rest:
                raise CelError(f"cannot read {rest[:20]!r}")
            self.kind = self.text = ""
            return
        self.position = found.end()
        self.kind = found.lastgroup or ""
        self.text = found[self.kind]

    def accept(self, *texts: str) -> str:
        if self.kind in ("op", "name") and self.text in texts:
            text = self.text
            self.advance()
            return text
        return ""

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise CelError(f"expected {text!r}, found {self.text or 'the end'!r}")

    def expression(self, level: int) -> Ast:
        self.depth += 1
        if self.depth > MAX_DEPTH * len(_LEVELS):
            raise CelError("nested too deeply")
        try:
            if level == len(_LEVELS):
                return self.unary()
            left = self.expression(level + 1)
            while True:
                operator = self.accept(*_LEVELS[level])
                if not operator:
                    break
                left = ["op", operator, left, self.expression(level + 1)]
            if level == 0 and self.accept("?"):
                yes = self.expression(0)
                self.expect(":")
                left = ["if", left, yes, self.expression(0)]
            return left
        finally:
            self.depth -= 1

    def unary(self) -> Ast:
        operator = self.accept("!", "-")
        if operator:
            if operator == "-" and self.kind == "number":
                value = self.member()
                if value[0] == "value":
                    return ["value", -value[1]]
                return ["neg", value]
            self.depth += len(_LEVELS)
            if self.depth > MAX_DEPTH * len(_LEVELS):
                raise CelError("nested too deeply")
            inner = self.unary()
            self.depth -= len(_LEVELS)
            return ["not" if operator == "!" else "neg", inner]
        return self.member()

    def member(self) -> Ast:
        ast = self.primary()
        while True:
            if self.accept("."):
                if self.kind != "name":
                    raise CelError(f"expected a name after '.', found {self.text!r}")
                name = self.text
                self.advance()
                if self.accept("("):
                    ast = self.macro(name, ast) if name in MACROS else ["call", name, ast, *self.arguments()]
                elif ast[0] == "name":
                    ast = ["name", f"{ast[1]}.{name}"]
                else:
                    raise CelError(f"nothing has a field {name!r}")
            elif self.accept("["):
                ast = ["at", ast, self.expression(0)]
                self.expect("]")
            else:
                return ast

    def macro(self, name: str, owner: Ast) -> Ast:
        if self.kind != "name":
            raise CelError(f"{name} needs a variable")
        variable = self.text
        self.advance()
        self.expect(",")
        body = self.expression(0)
        self.expect(")")
        return ["macro", name, owner, variable, body]

    def arguments(self) -> list[Ast]:
        found: list[Ast] = []
        if self.accept(")"):
            return found
        while True:
            found.append(self.expression(0))
            if self.accept(")"):
                return found
            self.expect(",")

    def primary(self) -> Ast:
        kind, text = self.kind, self.text
        if kind == "number":
            self.advance()
            if text.startswith("0x"):
                return ["value", int(text, 16)]
            return ["value", int(text) if text.isdigit() else float(text)]
        if kind == "string":
            self.advance()
            return ["value", _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), text[1:-1])]
        if self.accept("("):
            inner = self.expression(0)
            self.expect(")")
            return inner
        if self.accept("["):
            items: list[Ast] = []
            if not self.accept("]"):
                while True:
                    items.append(self.expression(0))
                    if self.accept("]"):
                        break
                    self.expect(",")
            return ["list", *items]
        if kind == "name":
            self.advance()
            if text in ("true", "false"):
                return ["value", text == "true"]
            if text == "in":
                raise CelError("unexpected 'in'")
            if self.accept("("):
                return ["call", text, *self.arguments()]
            return ["name", text]
        raise CelError(f"unexpected {text or 'the end'!r}")


def names(ast: Ast, bound: frozenset[str] = frozenset()) -> list[str]:
    """Names an expression reads, in order, without the variables of its macros."""
    found: list[str] = []
    pending: list[tuple[Ast, frozenset[str]]] = [(ast, bound)]
    while pending:
        node, known = pending.pop()
        if node[0] == "name":
            if node[1] not in known and node[1] not in found:
                found.append(node[1])
        elif node[0] == "macro":
            pending += [(node[4], known | {node[3]}), (node[2], known)]
        elif node[0] != "value":
            pending += [(part, known) for part in reversed(node[1:]) if isinstance(part, list)]
    return found


# --- types


def check(ast: Ast, declared: Mapping[str, str]) -> str:
    """The type of an expression: bool, int, double, string, list. Raises CelError for a name that is not declared and
    for types that do not fit, as a strict CEL would."""
    return _type(ast, dict(declared))


_NUMBERS = ("int", "double")
_CALLS: dict[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    "size": ((("string", "list"),), "int"),
    "int": (((*_NUMBERS, "string"),), "int"),
    "double": (((*_NUMBERS, "string"),), "double"),
    "string": (((*_NUMBERS, "string", "bool"),), "string"),
    "startsWith": ((("string",), ("string",)), "bool"),
    "endsWith": ((("string",), ("string",)), "bool"),
    "contains": ((("string",), ("string",)), "bool"),
    "matches": ((("string",), ("string",)), "bool"),
    "lowerAscii": ((("string",),), "string"),
    "versionBelow": ((("string",), ("string",)), "bool"),
    "versionAtLeast": ((("string",), ("string",)), "bool"),
    "powerOfTwo": (((*_NUMBERS,),), "bool"),
    "text": (((*_NUMBERS, "string", "bool", "list"),), "string"),
}
"""Function: types of each argument (the owner of a method first), type of the result. ``lowerAscii`` is of the strings
extension of CEL; ``versionBelow``, ``versionAtLeast``, ``powerOfTwo`` and ``text`` are of the doctor."""


def _type(ast: Ast, declared: dict[str, str]) -> str:
    kind = ast[0]
    if kind == "value":
        return {bool: "bool", int: "int", float: "double", str: "string"}[type(ast[1])]
    if kind == "list":
        for item in ast[1:]:
            _type(item, declared)
        return "list"
    if kind == "name":
        if ast[1] not in declared:
            raise CelError(f"{ast[1]} is not declared")
        return declared[ast[1]]
    if kind in ("not", "neg"):
        found = _type(ast[1], declared)
        wanted = ("bool",) if kind == "not" else _NUMBERS
        return _need(found, wanted, "!" if kind == "not" else "-")
    if kind == "if":
        _need(_type(ast[1], declared), ("bool",), "?")
        yes, no = _type(ast[2], declared), _type(ast[3], declared)
        if yes != no and "any" not in (yes, no):
            raise CelError(f"? : gives {yes} or {no}")
        return no if yes == "any" else yes
    if kind == "at":
        _need(_type(ast[1], declared), ("list",), "[]")
        _need(_type(ast[2], declared), ("int",), "[]")
        return "any"
    if kind == "macro":
        _need(_type(ast[2], declared), ("list",), ast[1])
        body = _type(ast[4], {**declared, ast[3]: "any"})
        if ast[1] != "map":
            _need(body, ("bool",), ast[1])
        return "list" if ast[1] in ("map", "filter") else "bool"
    if kind == "call":
        return _type_of_call(ast, declared)
    return _type_of_operator(ast[1], _type(ast[2], declared), _type(ast[3], declared))


def _type_of_call(ast: Ast, declared: dict[str, str]) -> str:
    name = ast[1]
    if name == "has":
        if len(ast) != 3 or ast[2][0] != "name":
            raise CelError("has needs one name")
        _type(ast[2], declared)
        return "bool"
    if name not in _CALLS:
        raise CelError(f"no function {name}")
    wanted, result = _CALLS[name]
    if len(ast) - 2 != len(wanted):
        raise CelError(f"{name} takes {len(wanted)} values, got {len(ast) - 2}")
    for part, types in zip(ast[2:], wanted, strict=True):
        _need(_type(part, declared), types, name)
    if name == "matches" and ast[3][0] == "value":
        _linear(ast[3][1])
    return result


def _need(found: str, wanted: tuple[str, ...], where: str) -> str:
    if found != "any" and found not in wanted:
        raise CelError(f"{where} takes {' or '.join(wanted)}, not {found}")
    return found


def _type_of_operator(operator: str, left: str, right: str) -> str:
    if operator in ("&&", "||"):
        _need(left, ("bool",), operator)
        _need(right, ("bool",), operator)
        return "bool"
    if operator == "in":
        _need(right, ("list",), operator)
        return "bool"
    both_numbers = left in (*_NUMBERS, "any") and right in (*_NUMBERS, "any")
    if operator in ("==", "!=", "<", "<=", ">", ">="):
        # numbers of both kinds compare with each other, nothing else crosses types
        if left != right and not both_numbers and "any" not in (left, right):
            raise CelError(f"{operator} compares {left} with {right}")
        if operator not in ("==", "!=") and "list" in (left, right):
            raise CelError(f"{operator} does not order lists")
        return "bool"
    allowed = (*_NUMBERS, "string", "list") if operator == "+" else ("int",) if operator == "%" else _NUMBERS
    _need(left, allowed, operator)
    _need(right, allowed, operator)
    if left != right and "any" not in (left, right):
        raise CelError(f"{operator} takes two numbers of one type, not {left} and {right}: write double(…)")
    return right if left == "any" else left


# --- judging


def evaluate(ast: Ast, lookup: Callable[[str], Any]) -> Any:
    """The value of an expression; an Absent if it depends on what is not known.

    ``lookup`` gives the value of a name, an Absent where there is none. Raises CelError for any other failure.
    """
    try:
        return _value(ast, lookup)
    except (ArithmeticError, TypeError, IndexError, ValueError, RecursionError) as error:
        if isinstance(error, CelError):
            raise
        raise CelError(f"{type(error).__name__}: {error}") from None


def _value(ast: Ast, lookup: Callable[[str], Any]) -> Any:
    kind = ast[0]
    if kind == "value":
        return ast[1]
    if kind == "name":
        return lookup(ast[1])
    if kind == "op":
        if ast[1] in ("&&", "||"):
            return _logic(ast[1] == "||", ast[2], ast[3], lookup)
        left, right = _value(ast[2], lookup), _value(ast[3], lookup)
        gap = _gap(left, right)
        return gap if gap is not None else _operate(ast[1], left, right)
    if kind in {"not", "neg"}:
        inner = _value(ast[1], lookup)
        if isinstance(inner, Absent):
            return inner
        return not _bool(inner) if kind == "not" else -inner
    if kind == "if":
        condition = _value(ast[1], lookup)
        if isinstance(condition, Absent):
            return condition
        return _value(ast[2] if _bool(condition) else ast[3], lookup)
    if kind == "list":
        items = [_value(item, lookup) for item in ast[1:]]
        gap = _gap(*items)
        return gap if gap is not None else items
    if kind == "at":
        owner, index = _value(ast[1], lookup), _value(ast[2], lookup)
        gap = _gap(owner, index)
        if gap is not None:
            return gap
        if index < 0:
            raise CelError("negative index")
        return owner[index]
    if kind == "macro":
        return _macro(ast, lookup)
    return _call(ast, lookup)


def _gap(*values: Any) -> Absent | None:
    found = [v for v in values if isinstance(v, Absent)]
    return Absent(frozenset().union(*(v.names for v in found))) if found else None


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(f"{type(value).__name__} where true or false is needed")
    return value


def _logic(wanted: bool, left: Ast, right: Ast, lookup: Callable[[str], Any]) -> Any:
    """``||`` (wanted true) and ``&&`` (wanted false): the wanted value on either side decides, whatever is on the
    other, even an error."""
    errors: list[CelError] = []
    gaps: list[Any] = []
    for side in (left, right):
        try:
            value = evaluate(side, lookup)
        except CelError as error:
            errors.append(error)
            continue
        if isinstance(value, Absent):
            gaps.append(value)
        elif _bool(value) is wanted:
            return wanted
    if errors:
        raise errors[0]
    gap = _gap(*gaps)
    return gap if gap is not None else not wanted


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _operate(operator: str, left: Any, right: Any) -> Any:
    if operator == "in":
        return any(_equal(left, item) for item in right)
    if operator == "==":
        return _equal(left, right)
    if operator == "!=":
        return not _equal(left, right)
    if operator in ("<", "<=", ">", ">="):
        if not (_is_number(left) and _is_number(right)) and (type(left) is not type(right) or isinstance(left, list)):
            raise CelError(f"no order between {type(left).__name__} and {type(right).__name__}")
        result: bool = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
        return result
    if type(left) is not type(right) or isinstance(left, bool):
        raise CelError(f"{operator} on {type(left).__name__} and {type(right).__name__}")
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if isinstance(left, float):
        return left / right
    # whole numbers: towards zero, the rest has the sign of the left side
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator == "/" else left - quotient * right


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    return bool(left == right)


def _macro(ast: Ast, lookup: Callable[[str], Any]) -> Any:
    _, name, owner, variable, body = ast
    items = _value(owner, lookup)
    if isinstance(items, Absent):
        return items
    kept = []
    for item in items:
        value = _value(body, lambda n, item=item: item if n == variable else lookup(n))  # type: ignore[misc]
        kept.append((item, value))
    if name == "map":
        gap = _gap(*(v for _, v in kept))
        return gap if gap is not None else [v for _, v in kept]
    known = [v for _, v in kept if not isinstance(v, Absent)]
    gap = _gap(*(v for _, v in kept))
    if name == "all":
        return False if any(not _bool(v) for v in known) else gap if gap is not None else True
    if name == "exists":
        return True if any(_bool(v) for v in known) else gap if gap is not None else False
    if gap is not None:
        return gap
    if name == "exists_one":
        return sum(_bool(v) for v in known) == 1
    return [item for item, v in kept if _bool(v)]


def _call(ast: Ast, lookup: Callable[[str], Any]) -> Any:
    name = ast[1]
    if name == "has":
        value = lookup(ast[2][1])
        if not isinstance(value, Absent):
            return True
        # a value that exists and cannot be known: neither there nor missing
        return value if any(n.startswith("?") for n in value.names) else False
    values = [_value(part, lookup) for part in ast[2:]]
    gap = _gap(*values)
    if gap is not None:
        return gap
    if name == "size":
        return len(values[0])
    if name == "int":
        return int(values[0])
    if name == "double":
        return float(values[0])
    if name in ("string", "text"):
        return text_of(values[0])
    if name == "lowerAscii":
        return values[0].lower()
    if name == "powerOfTwo":
        return values[0] > 0 and values[0] == 2.0 ** round(_log2(values[0]))
    if name in ("versionBelow", "versionAtLeast"):
        from doctor.version import AscendVersion

        below = AscendVersion(values[0]) < AscendVersion(values[1])
        return below if name == "versionBelow" else not below
    left, right = values
    if name == "startsWith":
        return left.startswith(right)
    if name == "endsWith":
        return left.endswith(right)
    if name == "contains":
        return right in left
    if name == "matches":
        return re.search(_linear(right), left) is not None
    raise CelError(f"no function {name}")


def _log2(value: float) -> float:
    import math

    return math.log2(value)


def text_of(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(text_of(v) for v in value)
    return str(value)


def _linear(pattern: str) -> str:
    """Patterns of rules are short and without nested repeats, so that they take linear time."""
    if len(pattern) > 200 or re.search(r"[*+}]\)?[*+{]", pattern):
        raise CelError("a pattern with nested repeats")
    try:
        re.compile(pattern)
    except re.error as error:
        raise CelError(f"not a regular expression: {error}") from None
    return pattern
