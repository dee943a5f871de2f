"""Words shared by the code checks."""

from __future__ import annotations

import ast
from typing import Any

from doctor.model import Answer, Evidence, fail
from doctor.source.tree import Module


def at(module: Module, node: ast.AST | int, args: dict[str, Any] | None = None, *more: ast.AST, **how: Any) -> Answer:
    """A failing answer with its file and line; ``more`` are further places to look at."""
    line = node if isinstance(node, int) else getattr(node, "lineno", 0)
    lines = [line, *(getattr(n, "lineno", 0) for n in more)]
    evidence = [Evidence(module.name, n, module.line(n)) for n in dict.fromkeys(lines)]
    return fail({"file": module.name, "line": line, **(args or {})}, *evidence, **how)


def text(node: ast.AST | None, most: int = 80) -> str:
    """Source of an expression, shortened."""
    return "" if node is None else ast.unparse(node)[:most]
