"""Conditions over captured numbers: ``reserved - allocated > 0.1 * total and reserved > tried``.

Regexes cannot compare; an out-of-memory line is exhaustion or fragmentation by its numbers alone. The language is
arithmetic, comparison, and/or/not over the named captures, read with Python's own parser and nothing else of Python.
What a text shall say beyond the captures is derived from them in the same language.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from doctor.scan.lazy import lazy

_UNITS = {
    "": 1, "B": 1, "BYTE": 1, "BYTES": 1, "K": 1 << 10, "KB": 1 << 10, "KI": 1 << 10, "KIB": 1 << 10,
    "M": 1 << 20, "MB": 1 << 20, "MI": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GB": 1 << 30, "GI": 1 << 30,
    "GIB": 1 << 30, "T": 1 << 40, "TB": 1 << 40, "TI": 1 << 40, "TIB": 1 << 40,
}  # fmt: skip
_SIZED = lazy(r"\s*size\((.*)\)\s*")
_SIZE = lazy(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z]*)\s*")


def number(text: str) -> float | None:
    """Bytes of ``22.00 MiB``, the plain number of ``42`` or ``4e-5``, None of anything else.

    >>> number("1.5 GiB"), number("4e-5"), number("none")
    (1610612736.0, 4e-05, None)
    """
    found = _SIZE.fullmatch(text) if len(text) <= 64 else None
    if not found or found[2].upper() not in _UNITS:
        return None
    return float(found[1].replace("_", "")) * _UNITS[found[2].upper()]


@lru_cache(maxsize=256)
def _tree(source: str) -> Any:
    import ast

    if len(source) > 400:
        raise ValueError("calc is too long")
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"calc is no expression: {error}") from None
    allowed = (
        ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div,
        ast.Compare, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Name, ast.Load, ast.Constant,
    )  # fmt: skip
    for node in ast.walk(tree):
        if not isinstance(node, allowed) or (
            isinstance(node, ast.Constant) and (isinstance(node.value, bool) or not isinstance(node.value, int | float))
        ):
            raise ValueError(f"calc may not hold {type(node).__name__}")
    return tree


def names_in(source: str) -> set[str]:
    """The captures an expression uses. Raises ValueError if it is none."""
    import ast

    return {node.id for node in ast.walk(_tree(source)) if isinstance(node, ast.Name)}


def derived(source: str, args: dict[str, str]) -> str:
    """What an expression over the captures comes to, for people: ``size(reserved - allocated)`` in powers of 1024,
    anything else as a number with two decimals at most. Empty if a capture it needs is absent or no number, or it
    divides by zero.

    >>> derived("size(a - b)", {"a": "58.39 GiB", "b": "56.05 GiB"}), derived("100 * a / b", {"a": "1", "b": "8"})
    ('2.34 GiB', '12.5')
    """
    inner = _SIZED.fullmatch(source)
    try:
        value = float(_value(_tree(inner[1] if inner else source), args))
    except (KeyError, ZeroDivisionError, OverflowError):
        return ""
    if not inner:
        return f"{value:.2f}".rstrip("0").rstrip(".") if abs(value) < 1e15 else ""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if abs(value) >= unit:
            return f"{value / unit:.{2 if unit > 1 << 20 else 0}f} {name}"
    return f"{value:.0f} B"


def names_of(source: str) -> set[str]:
    """The captures that a derived value uses. Raises ValueError if it is no expression."""
    inner = _SIZED.fullmatch(source)
    return names_in(inner[1] if inner else source)


def holds(source: str, args: dict[str, str]) -> bool | None:
    """The truth of an expression; None if a capture it needs is absent or no number, or it divides by zero."""
    try:
        return bool(_value(_tree(source), args))
    except (KeyError, ZeroDivisionError, OverflowError):
        return None


def _value(node: Any, args: dict[str, str]) -> Any:
    import ast
    import operator as op

    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        found = number(args[node.id]) if args.get(node.id) else None
        if found is None:
            raise KeyError(node.id)
        return found
    if isinstance(node, ast.BoolOp):
        values = (_value(v, args) for v in node.values)
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, args)
        return (not inner) if isinstance(node.op, ast.Not) else -inner
    table: dict[type, Any] = {
        ast.Add: op.add, ast.Sub: op.sub, ast.Mult: op.mul, ast.Div: op.truediv, ast.Lt: op.lt, ast.LtE: op.le,
        ast.Gt: op.gt, ast.GtE: op.ge, ast.Eq: op.eq, ast.NotEq: op.ne,
    }  # fmt: skip
    if isinstance(node, ast.BinOp):
        return table[type(node.op)](_value(node.left, args), _value(node.right, args))
    left = _value(node.left, args)
    for sign, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, args)
        if not table[type(sign)](left, right):
            return False
        left = right
    return True
