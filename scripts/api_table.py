"""Make rules/api_tables/: what a release of a Python package offers, read from its wheel without importing it.

    python scripts/api_table.py mindspore 2.10.0 path/to/mindspore-2.10.0-*.whl      (or a folder with its sources)
    python scripts/api_table.py --pack mindspore

The first form writes ``<package>-<version>.json`` to the folder ``--work``; the second packs all of a package into
``rules/api_tables/<package>.json.xz``: the newest release whole, every other one as the difference from the next
newer one. ``doctor.source.table`` reads the packed form and describes its fields.

Everything is found by following ``import``, ``__all__`` and assignments at the top of each module; what cannot be
followed (names of the C++ part, attributes made at run time) is kept as "exists, contents not known", never guessed.
"""

from __future__ import annotations

import argparse
import ast
import json
import lzma
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from typing import Any

ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "rules", "api_tables")
WORK = os.path.join(tempfile.gettempdir(), "api_tables")
OPAQUE = ("mindspore._akg", "mindspore.ops._op_impl", "mindspore.ops_generate", "mindspore.lib")
"""Parts that nobody calls: named, not described. Modules made by protobuf have no names in their text."""

BREAKS = {
    "overload",
    "register",
    "op_info_register",
    "property",
    "cached_property",
    "setter",
    "singledispatch",
    "script",
}
"""Decorators after which the written parameters are not those that a caller gives."""

ENUMS = {"Enum", "IntEnum", "Flag", "IntFlag", "NamedTuple", "TypedDict", "Protocol"}
HARMLESS_BASES = {
    "object",
    "ABC",
    "Generic",
    "Exception",
    "ValueError",
    "RuntimeError",
    "Callable",
    "Iterator",
    "Iterable",
}
NOTE = re.compile(
    r"(?:this (?:interface|api|class|function|method|operator|primitive) (?:is|has been|will be) (?:deprecated|removed)"
    r"|^\s*`{0,2}[\w.]+`{0,2} is deprecated"
    r"|^\s*\.\. deprecated::"
    r"|the .{1,60} interface is deprecated)[^\n]*(?:\n(?!\s*\n)[^\n]*){0,2}",
    re.IGNORECASE | re.MULTILINE,
)
PLATFORM = re.compile(r"Supported Platforms:\s*\n\s*Deprecated")


class Module:
    """One source file: what its top level binds."""

    def __init__(self, name: str, tree: ast.Module, package: bool) -> None:
        self.name, self.package = name, package
        self.bound: dict[str, tuple[Any, ...]] = {}
        self.stars: list[tuple[str, bool]] = []
        self.all: list[tuple[str, ast.AST]] = []
        self.lists: dict[str, ast.AST] = {}
        self.open = False
        self._walk(tree.body)

    def _walk(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if node.name == "__getattr__":
                    self.open = True
                if any(tail(d) == "overload" for d in node.decorator_list):
                    self.bound.setdefault(node.name, ("def", node))
                else:
                    self.bound[node.name] = ("def", node)
            elif isinstance(node, ast.ClassDef):
                self.bound[node.name] = ("class", node)
            elif isinstance(node, ast.Import):
                for item in node.names:
                    top = item.name if item.asname else item.name.split(".")[0]
                    self.bound[item.asname or top] = ("module", top)
            elif isinstance(node, ast.ImportFrom):
                self._from(node)
            elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
                self._assign(node)
            elif isinstance(node, ast.Delete):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.bound.pop(target.id, None)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                self._call(node.value)
            for part in ("body", "orelse", "finalbody"):
                if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
                    self._walk(getattr(node, part, []))
            if isinstance(node, ast.Try):
                for handler in node.handlers:
                    before = dict(self.bound)
                    self._walk(handler.body)
                    self.bound.update(before)  # what was found first is what the release means
            if isinstance(node, ast.For):
                self._targets(node.target)
                if "globals" in ast.dump(node) or "setattr" in ast.dump(node):
                    self.open = True

    def _from(self, node: ast.ImportFrom) -> None:
        source = self.absolute(node.module, node.level)
        for item in node.names:
            if item.name == "*":
                self.stars.append((source, False))
            else:
                self.bound[item.asname or item.name] = ("from", source, item.name)

    def absolute(self, name: str | None, level: int) -> str:
        """The module that a (relative) import names."""
        if not level:
            return name or ""
        parts = self.name.split(".")
        keep = parts[: len(parts) - level + (1 if self.package else 0)]
        return ".".join(keep + ([name] if name else []))

    def _targets(self, target: ast.expr, value: tuple[Any, ...] = ("value",)) -> None:
        if isinstance(target, ast.Name):
            self.bound[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for one in target.elts:
                self._targets(one)
        elif isinstance(target, ast.Starred):
            self._targets(target.value)

    def _assign(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            if node.value is not None:
                if isinstance(node, ast.Assign):
                    self.all = []
                self.all.append(("add", node.value))
            return
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Tuple, ast.ListComp)):
            self.lists.update({t.id: node.value for t in targets if isinstance(t, ast.Name)})
        path = dotted(node.value) if node.value is not None else None
        for target in targets:
            self._targets(target, ("alias", path) if path else ("value",))
            if isinstance(target, ast.Subscript) and "globals" in ast.dump(target):
                self.open = True

    def _call(self, call: ast.Call) -> None:
        path = dotted(call.func) or ""
        if path in ("__all__.extend", "__all__.append", "__all__.remove"):
            value = call.args[0] if call.args else None
            if value is not None and path.endswith("append"):
                self.all.append(("add", ast.List([value], ast.Load())))
            elif value is not None and path.endswith("remove"):
                self.all.append(("drop", ast.List([value], ast.Load())))
            elif value is not None:
                self.all.append(("add", value))
        elif path.endswith("mark_deprecated") and len(call.args) > 1 and isinstance(call.args[1], ast.Constant):
            self.stars.append((str(call.args[1].value), True))
        elif path.startswith(("globals", "exec")) or (path == "setattr" and "modules" in ast.dump(call)):
            self.open = True


def dotted(node: ast.AST | None) -> str | None:
    """``a.b.c`` of such an expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def tail(node: ast.AST) -> str:
    """The last word of a decorator or base."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Subscript):
        node = node.value
    return (dotted(node) or "").rsplit(".", 1)[-1]


class Package:
    """All modules of a package, and what their names mean."""

    def __init__(self, name: str, modules: dict[str, Module], dark: set[str]) -> None:
        self.name, self.modules, self.dark = name, modules, dark
        self._spaces: dict[str, dict[str, str]] = {}
        self._busy: set[str] = set()
        self.children: dict[str, set[str]] = {}
        for full in (*modules, *dark):
            parent, _, child = full.rpartition(".")
            while child:
                self.children.setdefault(parent, set()).add(child)
                parent, _, child = parent.rpartition(".")

    def known(self, module: str) -> bool:
        return module in self.modules or module in self.dark or module in self.children

    def space(self, module: str) -> dict[str, str]:
        """name → meaning: ``module:name`` of a definition, ``module`` ending in a colon, ``?`` for what is opaque."""
        if module in self._spaces:
            return self._spaces[module]
        if module not in self.modules or module in self._busy:
            return {child: f"{module}.{child}:" for child in self.children.get(module, ())}
        self._busy.add(module)
        source = self.modules[module]
        out = {child: f"{module}.{child}:" for child in self.children.get(module, ())}
        for star, everything in source.stars:
            if not self.known(star):
                source.open = True
                continue
            public = None if everything else self.public(star)
            for name, meaning in self.space(star).items():
                if (public is None and (everything or not name.startswith("_"))) or (public and name in public):
                    out[name] = meaning
            if star in self.modules and self.modules[star].open:
                source.open = True
        for name in source.bound:
            out[name] = self.meaning(module, name)
        self._busy.discard(module)
        if not self._busy:
            self._spaces[module] = out
        return out

    def meaning(self, module: str, name: str, depth: int = 0) -> str:
        """What a name of a module stands for."""
        if depth > 30:
            return "?"
        source = self.modules.get(module)
        if source is None:
            return f"{module}.{name}:" if name in self.children.get(module, ()) else "?"
        bound = source.bound.get(name)
        if bound is None:
            if name in self.children.get(module, ()):
                return f"{module}.{name}:"
            return self.space(module).get(name, "?")
        if bound[0] in ("def", "class"):
            return f"{module}:{name}"
        if bound[0] == "module":
            return f"{bound[1]}:" if self.known(bound[1]) else "?"
        if bound[0] == "from":
            if not self.known(bound[1]):
                return "?"
            if bound[1] == module and name == bound[2]:
                return f"{module}.{name}:" if name in self.children.get(module, ()) else "?"
            return self.meaning(bound[1], bound[2], depth + 1)
        if bound[0] == "alias":
            first, _, rest = bound[1].partition(".")
            if first == name:
                return "?"
            found = self.meaning(module, first, depth + 1)
            for part in rest.split(".") if rest else ():
                if not found.endswith(":"):
                    return "?"
                found = self.meaning(found[:-1], part, depth + 1)
            return found
        return "?"

    def public(self, module: str) -> set[str] | None:
        """Names of ``__all__``; None if there is none or it cannot be read."""
        source = self.modules.get(module)
        if source is None or not source.all:
            return None
        out: set[str] = set()
        for what, value in source.all:
            names = self._strings(module, value)
            if names is None:
                return None
            out = out | names if what == "add" else out - names
        return out

    def _strings(self, module: str, node: ast.AST) -> set[str] | None:
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            if all(isinstance(e, ast.Constant) for e in node.elts):
                return {str(e.value) for e in node.elts if isinstance(e, ast.Constant)}
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self._strings(module, node.left), self._strings(module, node.right)
            return None if left is None or right is None else left | right
        path = dotted(node) or ""
        if path.endswith(".__all__"):
            found = ""
            for n, part in enumerate(path.split(".")[:-1]):
                found = self.meaning(found[:-1], part) if n else self.meaning(module, part)
                if found == "?" or not found.endswith(":"):
                    # import a.b, then a.b.__all__
                    found = f"{path.rsplit('.', 1)[0]}:" if self.known(path.rsplit(".", 1)[0]) else ""
                    break
            return self.public(found[:-1]) if found else None
        if path == "__version__":
            return set()
        if isinstance(node, ast.ListComp) and tail(node.generators[0].iter) in ("dir", "globals", "vars", "locals"):
            return {name for name in self.space(module) if not name.startswith("_")}
        if isinstance(node, (ast.Name, ast.Call)):
            inner = node.args[0] if isinstance(node, ast.Call) and node.args else None
            if isinstance(node, ast.Name):
                listed = self.modules[module].lists.get(node.id)
                return None if listed is None or listed is node else self._strings(module, listed)
            return (
                self._strings(module, inner) if inner is not None and tail(node) in ("list", "set", "sorted") else None
            )
        return None


# ------------------------------------------------------------------ definitions


def signature(args: ast.arguments, *, skip: int = 0) -> str:
    """``x,/,y=,*args,k,**kw``: an equals sign stands for any default."""
    both = [*args.posonlyargs, *args.args]
    first_default = len(both) - len(args.defaults)
    out = []
    for n, arg in enumerate(both):
        if n >= skip:
            out.append(arg.arg + ("=" if n >= first_default else ""))
        if args.posonlyargs and n == len(args.posonlyargs) - 1 and n >= skip:
            out.append("/")
    if args.vararg:
        out.append("*" + args.vararg.arg)
    elif args.kwonlyargs:
        out.append("*")
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        out.append(arg.arg + ("=" if default is not None else ""))
    if args.kwarg:
        out.append("**" + args.kwarg.arg)
    return ",".join(out)


def deprecation(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
    """Why a definition is on its way out: ``since|use instead`` of the decorator, or the words of its docstring."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and tail(decorator) == "deprecated":
            words = [
                str(a.value) if isinstance(a, ast.Constant) and a.value is not None else "" for a in decorator.args
            ]
            return "|".join([*words, "", ""][:2])
    text = ast.get_docstring(node, clean=True) or ""
    head = text.split("\nExamples:")[0]
    if PLATFORM.search(head):
        return "|"
    for part in ("Args:", "Inputs:", "Returns:", "Raises:", "Outputs:", "Keyword Args:", "Parameters:"):
        head = head.split("\n" + part)[0]
    found = NOTE.search(head)
    if not found:
        return ""
    words = " ".join(found[0].split())
    words = words.split(". ")[0] if ".. deprecated" not in words else words
    return "||" + words[:160]


def broken(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(tail(d) in BREAKS for d in node.decorator_list)


def class_entry(package: Package, module: str, node: ast.ClassDef) -> list[Any]:
    """["c", init parameters or None, deprecation, bases, members, open]."""
    bases, is_open, init, members, new = [], False, None, {}, None
    for base in node.bases:
        path = dotted(base)
        if path is None:
            is_open = is_open or tail(base) not in HARMLESS_BASES
            continue
        first, _, rest = path.partition(".")
        meaning = package.meaning(module, first)
        for part in rest.split(".") if rest else ():
            meaning = package.meaning(meaning[:-1], part) if meaning.endswith(":") else "?"
        if meaning not in ("?",) and not meaning.endswith(":"):
            bases.append(meaning)
        elif tail(base) not in HARMLESS_BASES:
            is_open = True
    odd = any(tail(b) in ENUMS for b in node.bases) or any(tail(d) == "dataclass" for d in node.decorator_list)
    deprecated = deprecation(node)
    for item in node.body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
            static = any(tail(d) == "staticmethod" for d in item.decorator_list)
            if item.name == "__init__":
                init = None if broken(item) else signature(item.args, skip=1)
                deprecated = deprecated or deprecation(item)
            elif item.name == "__new__":
                new = signature(item.args, skip=1)
            elif item.name in ("__getattr__", "__getattribute__"):
                is_open = True
            if not item.name.startswith("__") or item.name in ("__call__",):
                if broken(item):
                    members[item.name] = "?"
                else:
                    members[item.name] = "(" + signature(item.args, skip=0 if static else 1)
            for inner in ast.walk(item):
                if (
                    isinstance(inner, ast.Attribute)
                    and isinstance(inner.ctx, ast.Store)
                    and tail(inner.value) == "self"
                ):
                    members.setdefault(inner.attr, "?")
                elif isinstance(inner, ast.Call) and tail(inner.func) == "setattr" and len(inner.args) > 1:
                    own = tail(inner.args[0]) in ("self", "cls")
                    is_open = is_open or (own and not isinstance(inner.args[1], ast.Constant))
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    members[target.id] = "?"
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            members[item.target.id] = "?"
        elif isinstance(item, ast.ClassDef):
            members[item.name] = "?"
        elif isinstance(item, (ast.If, ast.Try, ast.For)):
            is_open = True
    if init is None and new is not None and "*" not in new:
        init = new
    if odd or node.keywords:
        init = "?"
    packed = " ".join(f"{n}{v if v != '?' else ''}" for n, v in sorted(members.items()))
    return ["c", init, deprecated, " ".join(bases), packed, int(is_open)]


def table(name: str, version: str, sources: Iterator[tuple[str, str | None]]) -> dict[str, Any]:
    """The table of a release: see ``doctor.source.table``."""
    modules, dark = {}, set()
    extra: dict[str, str] = {}
    for path, text in sources:
        parts = path.removesuffix(".py").split("/")
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        if text is None:
            dark.add(re.sub(r"\.[a-z]+(-.*)?$|\.cpython.*$", "", path).replace("/", "."))
            continue
        if module.startswith(OPAQUE) or module.endswith("_pb2"):
            dark.add(module)
            continue
        extra[module] = text if module.endswith(("context", "_tensor_docs", "_tensor_cpp_method")) else ""
        try:
            modules[module] = Module(module, ast.parse(text), is_package)
        except (SyntaxError, ValueError):
            dark.add(module)
    dark |= (
        {f"{name}.{part}" for part in ("_c_expression", "_c_dataengine", "_c_mindrecord")}
        if name == "mindspore"
        else set()
    )
    package = Package(name, modules, dark)
    spaces, defs, everything = {}, {}, {}
    for module in sorted(modules):
        groups: dict[str, list[str]] = {}
        for bound, meaning in sorted(package.space(module).items()):
            home, _, own = meaning.rpartition(":")
            if meaning == "?":
                groups.setdefault("?", []).append(bound)
            elif not own:
                groups.setdefault(":", []).append(bound if home == f"{module}.{bound}" else f"{bound}={home}")
            else:
                groups.setdefault(home, []).append(bound if bound == own else f"{bound}={own}")
        spaces[module] = {home: " ".join(names) for home, names in groups.items()}
        public = package.public(module)
        if public is not None:
            here = package.space(module)
            hidden = sorted(n for n in here if not n.startswith("_") and n not in public)
            everything[module] = " ".join(hidden)
        if modules[module].open:
            spaces[module]["open"] = "1"
        for bound, value in modules[module].bound.items():
            if value[0] == "def":
                node = value[1]
                defs[f"{module}:{bound}"] = ["f", None if broken(node) else signature(node.args), deprecation(node)]
            elif value[0] == "class":
                defs[f"{module}:{bound}"] = class_entry(package, module, value[1])
    for module in sorted((dark | set(package.children)) - set(modules)):
        spaces[module] = (
            {"open": "1"} if module in dark else {":": " ".join(sorted(package.children[module])), "open": "1"}
        )
    out = {"package": name, "version": version, "modules": spaces, "defs": defs, "hidden": everything}
    if name == "mindspore":
        out["tensor"] = " ".join(tensor_members(extra))
        out["context"] = context_keys(extra.get("mindspore.context", ""))
        parallel = extra.get("mindspore.parallel._auto_parallel_context", "")
        out["parallel"] = " ".join(sorted(
            set(keywords_of(extra.get("mindspore.context", ""), "set_auto_parallel_context"))
            | set(keys_of(parallel, "_set_auto_parallel_context_func_map"))
            | set(compared_keys(parallel, "_set_auto_parallel_context"))
        ))  # fmt: skip
    return out


def tensor_members(texts: dict[str, str]) -> list[str]:
    """Methods of Tensor that live in C++: those that are documented or listed."""
    found = set(re.findall(r'^attach_docstr\("(\w+)"', texts.get("mindspore.common._tensor_docs", ""), re.M))
    listed = re.search(r"tensor_cpp_methods = (\[.*?\])", texts.get("mindspore.common._tensor_cpp_method", ""), re.S)
    if listed:
        found |= set(ast.literal_eval(listed[1]))
    return sorted(found)


def keywords_of(text: str, function: str) -> list[str]:
    """Keywords that ``args_type_check`` above a function knows."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return [k.arg for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords if k.arg]
    return []


def keys_of(text: str, name: str) -> list[str]:
    """String keys of a dict assigned to a name."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and tail(node.targets[0]) == name and isinstance(node.value, ast.Dict):
            return [str(k.value) for k in node.value.keys if isinstance(k, ast.Constant)]
    return []


def compared_keys(text: str, function: str) -> list[str]:
    """Texts that ``key`` is compared with inside a function."""
    out = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Compare) and tail(inner.left) == "key":
                    out += [str(c.value) for c in ast.walk(inner) if isinstance(c, ast.Constant)]
    return out


def context_keys(text: str) -> dict[str, str]:
    """key → ``""``, ``old|what to use`` (still taken, with a warning) or ``gone|…`` (refused)."""
    tree = ast.parse(text)
    out = dict.fromkeys((*keywords_of(text, "set_context"), *compared_keys(text, "set_context")), "")
    for key in re.findall(r"ms_ctx_param\.(\w+)", text):
        if not key.startswith("_"):
            out.setdefault(key, "")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == "_Context":
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and any(tail(d) == "setter" for d in item.decorator_list):
                    out.setdefault(item.name, "")
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            name = tail(node.targets[0])
            if name == "setters":
                for key in node.value.keys:
                    if isinstance(key, ast.Constant):
                        out.setdefault(str(key.value), "")
            if name in ("deprecated_context_dict", "invalid_context_dict"):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if not isinstance(key, ast.Constant):
                        continue
                    words = [str(c.value) for c in ast.walk(value) if isinstance(c, ast.Constant)]
                    if name.startswith("dep"):
                        use = " ".join(" ".join(words).split()).removeprefix("api ")
                        out[str(key.value)] = "old|" + use
                    elif str(key.value) in out or "set_context" in text:
                        version = next((w for w in words if re.fullmatch(r"\d+\.\d+", w)), "")
                        out[str(key.value)] = f"gone|{version}|{words[-1] if words else ''}"
    return {key: how for key, how in sorted(out.items()) if re.fullmatch(r"[a-z]\w+", key)}


# ------------------------------------------------------------------ files


COMPILED = (".so", ".pyx", ".cpp", ".pyd")


def sources(path: str, package: str) -> Iterator[tuple[str, str | None]]:
    """(path inside the package, text) of every Python file of a wheel or folder; no text for compiled modules."""
    if os.path.isdir(path):
        for folder, _, names in sorted(os.walk(os.path.join(path, package))):
            for name in sorted(names):
                if name.endswith(".py"):
                    full = os.path.join(folder, name)
                    with open(full, encoding="utf-8", errors="replace") as file:
                        yield os.path.relpath(full, path), file.read()
                elif name.endswith(COMPILED):
                    yield os.path.relpath(os.path.join(folder, name), path), None
        return
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist()):
            if name.endswith(".py") and name.startswith(package + "/"):
                yield name, wheel.read(name).decode("utf-8", "replace")
            elif name.endswith(COMPILED) and name.startswith(package + "/") and "/lib/" not in name:
                yield name, None


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """What makes ``new`` of ``old``: per section {set: …, gone: […]}; modules differ group by group."""
    out: dict[str, Any] = {"package": new["package"], "version": new["version"]}
    for section in ("modules", "defs", "hidden", "context"):
        before, after = old.get(section, {}), new.get(section, {})
        changed = {k: v for k, v in after.items() if before.get(k) != v}
        out[section] = {"set": changed, "gone": [k for k in before if k not in after]}
    for section in ("tensor", "parallel"):
        if section in new:
            out[section] = new[section]
    return out


def pack(package: str, folder: str) -> None:
    """Write the packed table of a package from the whole tables in ``folder``."""
    os.makedirs(ROOT, exist_ok=True)
    names = [n for n in os.listdir(folder) if n.startswith(package + "-")]
    names.sort(key=lambda n: [int(p) for p in re.findall(r"\d+", n)], reverse=True)
    tables = []
    for name in names:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            tables.append(json.load(file))
    newer = None
    for whole in tables:
        text = json.dumps(whole if newer is None else difference(newer, whole), separators=(",", ":"), sort_keys=True)
        newer_version = newer["version"] if newer is not None else ""
        path = os.path.join(ROOT, f"{package}-{whole['version']}.json.xz")
        with open(path, "wb") as out:
            out.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
        print(path, os.path.getsize(path), "from", newer_version or "nothing")
        newer = whole
    index = {t["version"]: (tables[n - 1]["version"] if n else "") for n, t in enumerate(tables)}
    with open(os.path.join(ROOT, f"{package}.json"), "w", encoding="utf-8") as out:
        json.dump(index, out, indent=1)
        out.write("\n")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("version", nargs="?")
    parser.add_argument("path", nargs="?")
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--work", default=WORK, help="folder of the whole tables")
    given = parser.parse_args(argv)
    if given.pack:
        pack(given.package, given.work)
        return 0
    made = table(given.package, given.version, sources(given.path, given.package))
    os.makedirs(given.work, exist_ok=True)
    path = os.path.join(given.work, f"{given.package}-{given.version}.json")
    with open(path, "w", encoding="utf-8") as out:
        json.dump(made, out, separators=(",", ":"), sort_keys=True)
    print(path, os.path.getsize(path), len(made["modules"]), "modules", len(made["defs"]), "definitions")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
