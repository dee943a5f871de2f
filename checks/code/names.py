"""Names that are used and never bound, and texts that are almost right."""

from __future__ import annotations

import ast
import builtins
import difflib
import sys
import typing

from doctor.checks.code.common import at
from doctor.model import Answer
from doctor.source.tree import Module

KNOWN = {
    *dir(builtins), "__file__", "__name__", "__doc__", "__builtins__", "__class__", "__path__", "__spec__",
    "__package__", "__loader__", "__annotations__", "reveal_type", "get_ipython", "display", "WindowsError",
}  # fmt: skip
"""Names that need no binding."""

MOST_NAMES = 6
"""More undefined names than this are no slip but a piece of something."""


def undefined(module: Module) -> list[Answer]:
    """Names that nothing in the file binds; one answer for a name. Silent where ``from … import *`` may bring them."""
    if module.stars or "globals()" in module.text or "exec(" in module.text:
        return []
    out: list[tuple[str, ast.AST]] = []
    seen: set[str] = set()
    packages: set[str] = set()
    if module.name.endswith("__init__.py"):  # importing from a sub-module binds its name in the package
        packages = {part for n in module.every(ast.ImportFrom) for part in (n.module or "").split(".")}
    for name, node, guarded in module.loose:
        if name in KNOWN or name in seen or guarded:
            continue
        if name in packages or _anywhere(module, name) or _annotation(module, node) or _caught(module, node):
            continue
        seen.add(name)
        out.append((name, node))
    if not out:
        return []
    # a piece of a larger text uses names of its surroundings; what can be imported is missing all the same
    piece = len(out) > MOST_NAMES or not any((*module.every(ast.Import), *module.every(ast.ImportFrom)))
    short = module.text.count("\n") < SHORT
    guess = {"severity": "advice", "confidence": "guess"}
    bound = {name for scope in module.scopes.values() for name in scope.bound}
    return [
        at(module, node, {"name": name}, **(guess if piece or (short and not _slip(name, bound)) else {}))
        for name, node in out[:8]
    ]


SHORT = 40
"""A text of fewer lines may be an example whose data, network and optimizer are made elsewhere."""
IMPORTED = {
    *sys.stdlib_module_names, *typing.__all__, "np", "nn", "ops", "ms", "mint", "Tensor", "Parameter", "partial",
    "deepcopy", "dataclass", "Path", "tqdm", "pd", "plt", "mindspore", "mindformers", "numpy", "context", "dtype",
    "mstype", "msnp", "F", "P", "C", "Model", "ParameterTuple", "initializer", "set_seed", "load_checkpoint",
    "load_param_into_net", "save_checkpoint",
}  # fmt: skip
"""Names that programs import rather than make."""


def _slip(name: str, bound: set[str]) -> bool:
    """Whether a name is a forgotten import or a misspelt name of the file, and none that an example leaves out."""
    return name in IMPORTED or (name not in bound and bool(difflib.get_close_matches(name, bound, 1, 0.85)))


def _anywhere(module: Module, name: str) -> bool:
    """Whether some scope declares the name global, or binds it at class level for use below."""
    return any(name in scope.outer for scope in module.scopes.values())


def _annotation(module: Module, node: ast.AST) -> bool:
    """Annotations need not exist when they are never evaluated."""
    previous: ast.AST = node
    for around in module.ancestors(node):
        if isinstance(around, ast.arg):
            return "annotations" in module.text
        if isinstance(around, ast.AnnAssign) and around.annotation is previous:
            scope = next((module.scopes[a] for a in module.ancestors(around) if a in module.scopes), module.top)
            return scope.kind == "function" or "annotations" in module.text
        previous = around
    return False


def _caught(module: Module, node: ast.AST) -> bool:
    for around in module.ancestors(node):
        if isinstance(around, ast.Try):
            for handler in around.handlers:
                if handler.type is None or "NameError" in ast.dump(handler.type):
                    return True
    return False


def special_token(module: Module) -> list[Answer]:
    """|endoftext| without its angle brackets."""
    return [at(module, node, {"value": node.value}) for node in module.every(ast.Constant)
            if node.value == "|endoftext|"]  # fmt: skip
