"""Uses of MindSpore and MindFormers against their API tables: names, keywords, number of arguments, deprecations."""

from __future__ import annotations

import ast
import builtins
import difflib
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from doctor.rulebase import data_folder
from doctor.source import table as tables
from doctor.source.table import Found, Table
from doctor.source.tree import Call, Module, Scope, Trouble, Use

PUBLIC = (
    "mindspore", "mindspore.nn", "mindspore.ops", "mindspore.mint", "mindspore.mint.nn",
    "mindspore.mint.nn.functional", "mindspore.train", "mindspore.amp", "mindspore.communication",
    "mindspore.dataset", "mindspore.parallel", "mindspore.common.initializer", "mindspore.runtime",
)  # fmt: skip
NO_PACKAGES = ("ms_transformers", "mindspore_transformers", "mindspore_gpt")
"""Packages that examples on the web import and that exist nowhere."""

PACKAGES = ("mindspore", "mindformers")
ADAPTERS = ("mindnlp", "mindtorch", "msadapter", "mindone")
"""Packages that give Tensor and Cell further methods when they are imported."""

RETURNS_DATASET = {
    "batch", "map", "shuffle", "repeat", "take", "skip", "project", "rename", "filter", "padded_batch", "flat_map",
    "zip", "concat", "apply", "device_que", "sync_wait", "bucket_batch_by_length",
}  # fmt: skip
MAKES_TENSOR = {
    "zeros", "ones", "full", "arange", "zeros_like", "ones_like", "randn", "rand", "matmul", "softmax", "concat",
    "stack", "cat", "bmm", "transpose", "tril", "triu", "gelu", "relu", "exp", "log", "linspace",
}  # fmt: skip


class Target(NamedTuple):
    """The versions that code is written for; empty: not known. ``sure`` is False when nobody said so."""

    mindspore: str = ""
    mindformers: str = ""
    sure: bool = True


class Known:
    """The tables that answer for one target, as ``doctor.source.tree.Names``."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.tables: dict[str, list[Table]] = {}
        self.exact: dict[str, bool] = {}
        self.problems: list[str] = []
        self._keys: dict[str, str | None] = {}
        for package in PACKAGES:
            version = getattr(target, package)
            names, exact = tables.choose(package, version)
            found = []
            for name in names:
                try:
                    found.append(tables.load(package, name))
                except (OSError, ValueError, KeyError, TypeError) as error:
                    self.problems.append(str(error))
            self.tables[package] = found
            self.exact[package] = exact and bool(version)

    def version(self, package: str) -> str:
        """The version that is spoken of: what was asked for, else the newest table."""
        asked: str = getattr(self.target, package)
        return asked or (self.tables[package][0].version if self.tables[package] else "")

    def whole(self, package: str) -> bool:
        """Whether the table may be taken for the target's own: not for a version between or beyond the tables."""
        return self.exact[package] or not getattr(self.target, package)

    def _of(self, name: str) -> list[Table]:
        return self.tables.get(name.split(".", 1)[0], [])

    def has(self, module: str, name: str) -> bool:
        return any(name in t.public(module) for t in self._of(module))

    def is_cell(self, name: str) -> bool:
        for one in self._of(name):
            found = one.find(name)
            if found.state == "class" and one.descends(found.where, "mindspore.nn.cell:Cell"):
                return True
        return False

    def key(self, name: str) -> str | None:
        if name not in self._keys:
            answer = None
            for one in self._of(name):
                found = one.find(name)
                if found.state in ("function", "class", "member"):
                    answer = found.where + "." + found.member
                    break
            self._keys[name] = answer
        return self._keys[name]

    def find(self, name: str) -> tuple[Found, Table] | None:
        """What a name is in the target: the first table that has it; absent only if all that are asked lack it."""
        answers = [(one.find(name), one) for one in self._of(name)]
        return next((a for a in answers if a[0].state != "absent"), answers[0] if answers else None)


def elsewhere(package: str, name: str, besides: str) -> tuple[str, ...]:
    """Versions with a table that have a name, oldest first."""
    out = []
    for version in reversed(list(tables.index(package))):
        if version != besides:
            try:
                state = tables.load(package, version).find(name).state
            except (OSError, ValueError, KeyError, TypeError):
                continue
            if state not in ("absent", "opaque"):
                out.append(version)
    return tuple(out)


def judge(module: Module, known: Known, patched: frozenset[str] = frozenset()) -> list[Trouble]:
    """Everything in a file that the target does not have or does not take. ``patched`` are names that the code under
    judgement gives to MindSpore itself."""
    module.understand(known)
    out: list[Trouble] = []
    said: set[tuple[str, int]] = set()
    for use in (*module.uses, *_of_stars(module, known)):
        _use(module, use, known, patched, out, said)
    adapted = any(u.name.startswith(ADAPTERS) for u in module.uses)
    for call in module.calls:
        if call.name.startswith(PACKAGES):
            _call(call, known, out)
        elif isinstance(call.node.func, ast.Attribute) and not adapted:
            _method(module, call, known, patched, out)
    out.sort(key=lambda t: (t.line, getattr(t.node, "col_offset", 0)))
    given = {package: bool(getattr(known.target, package)) for package in PACKAGES}
    return [t._replace(use=replacement(t, known), given=given[t.package]) for t in out]


def _of_stars(module: Module, known: Known) -> list[Use]:
    """Names that nothing binds, in a file whose star imports are all of MindSpore's, and that the starred module has in
    another release: they come from the star and are gone."""
    if not module.stars or any(star.split(".", 1)[0] not in PACKAGES for star in module.stars):
        return []
    found = []
    for name, node, guarded in module.loose:
        if guarded or hasattr(builtins, name) or any(known.has(star, name) for star in module.stars):
            continue
        for star in module.stars:
            package = star.split(".", 1)[0]
            answer = known.find(star)
            if answer is None or answer[1].is_open(star) or not known.whole(package):
                continue
            if elsewhere(package, f"{star}.{name}", answer[1].version):
                line = getattr(node, "lineno", 0)
                found.append(Use(f"{star}.{name}", node, line, False, module.top))
                break
    return found


@lru_cache(maxsize=1)
def renames() -> dict[str, dict[str, str]]:
    """The maintained table rules/api_renames.yaml: qualified name → {zh, en}. Only read when something is missing."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with open(os.path.join(data_folder("rules"), "api_renames.yaml"), encoding="utf-8") as file:
            rows = yaml.load(file, loader)["renames"]  # noqa: S506 - a safe loader
    except (OSError, yaml.YAMLError, KeyError, TypeError):
        return {}
    return {str(k): {"zh": v.get("zh") or v["use"], "en": v.get("en") or v["use"]} for k, v in rows.items()}


def replacement(trouble: Trouble, known: Known) -> dict[str, str]:
    """What to write instead, in both languages; empty if nobody knows."""
    if trouble.kind in ("absent", "module", "member", "deprecated"):
        name = trouble.name
        while name:
            row = renames().get(name)
            if row is not None:
                return row
            name = name.rpartition(".")[0] if trouble.kind == "module" else ""
    if trouble.kind in ("keyword", "twice", "positional"):
        row = renames().get(f"{trouble.name}({trouble.what}=)")
        if row is not None:
            return row
        words = [w.rstrip("=") for w in trouble.more.split(",") if w not in ("*", "/")]
        other = other_keyword(trouble.name, trouble.what, words)[0]
        text = (other + "=; " if other else "") + f"({trouble.more.replace(',', ', ')})"
        return {"zh": text, "en": text}
    if trouble.kind in ("context", "context_gone"):
        row = renames().get(f"mindspore.set_context({trouble.what}=)")
        if row is not None:
            return row
        table = known.tables["mindspore"][0]
        keys = table.parallel if "parallel" in trouble.name.rsplit(".", 1)[-1] else set(table.context)
        near = difflib.get_close_matches(trouble.what, keys, 1, 0.8)
        return {"zh": near[0], "en": near[0]} if near and not trouble.more else {}
    if trouble.kind == "absent" and known.tables[trouble.package]:
        return _near(trouble, known.tables[trouble.package][0])
    return {}


SYNONYMS: tuple[tuple[str, ...], ...] = (
    ("axis", "dim"), ("epsilon", "eps"), ("keep_dims", "keepdims", "keepdim"), ("has_bias", "bias"),
    ("learning_rate", "lr"),
)  # fmt: skip
"""Keywords by which MindSpore's packages and others call the same thing."""


def other_keyword(name: str, what: str, words: Sequence[str]) -> tuple[str, bool]:
    """(keyword, whether it is surely meant) of ``words`` that a callable takes for a keyword it does not take."""
    row = renames().get(f"{name}({what}=)")
    if row is not None:
        use = row["en"].removesuffix("=")
        return (use, True) if use.isidentifier() and use in words else ("", False)
    for same in SYNONYMS:
        if what in same:
            found = [word for word in same if word in words]
            if len(found) == 1:
                return found[0], True
    near = difflib.get_close_matches(what, words, 1, 0.75)
    return (near[0], False) if near else ("", False)


def _near(trouble: Trouble, table: Table) -> dict[str, str]:
    """The same word in a public module of the target, else one spelt much like it."""
    tip = trouble.what
    for module in PUBLIC:
        if tip in table.public(module):
            return {"zh": f"{module}.{tip}", "en": f"{module}.{tip}"}
    owner = trouble.name.rpartition(".")[0]
    near = difflib.get_close_matches(tip, sorted(table.public(owner)), 1, 0.84)
    return {"zh": f"{owner}.{near[0]}？", "en": f"{owner}.{near[0]}?"} if near else {}


def patches(module: Module) -> set[str]:
    """Names that a file assigns to MindSpore's modules and classes, setattr included."""
    out = {u.name for u in module.uses if u.stored and u.name.startswith(PACKAGES)}
    for call in module.calls:
        if isinstance(call.node.func, ast.Name) and call.node.func.id == "setattr" and len(call.node.args) > 1:
            owner = module.qualified(call.node.args[0], call.scope)
            what = call.node.args[1]
            if owner and owner.startswith(PACKAGES):
                out.add(f"{owner}.{what.value!s}" if isinstance(what, ast.Constant) else owner + ".*")
    return out


def _use(
    module: Module, use: Use, known: Known, patched: frozenset[str], out: list[Trouble], said: set[tuple[str, int]]
) -> None:
    name = use.name.rstrip(":")
    package = name.split(".", 1)[0]
    if package in NO_PACKAGES and use.imported and not use.guarded and (package, 0) not in said:
        said.add((package, 0))
        out.append(Trouble("module", package, package, use.node, use.line, "-", "mindformers", True))
        return
    if package not in PACKAGES or use.guarded or use.stored or name.endswith(".*"):
        return
    answer = known.find(name)
    if answer is None:
        return
    found, table = answer
    version = known.version(package)
    exact = known.exact[package]
    if found.state == "opaque" and found.inside == "class" and found.part and exact:
        found = _lost(name, found, table)
    if found.state == "absent":
        missing = ".".join(name.split(".")[: found.at])
        owner = missing.rsplit(".", 1)[0]
        if missing in patched or owner + ".*" in patched or (missing, use.line) in said:
            return
        said.add((missing, use.line))
        if not use.imported and any(t.name == missing and t.kind in ("absent", "module") for t in out):
            first = next(t for t in out if t.name == missing)
            if isinstance(first.node, (ast.alias, ast.ImportFrom)):
                return  # said where it was imported
        kind = "member" if found.inside == "class" else "module" if use.name.endswith(":") else "absent"
        out.append(Trouble(kind, missing, found.part, use.node, use.line, version, package, exact,
                           elsewhere=elsewhere(package, missing, table.version)))  # fmt: skip
        return
    why = table.deprecated(found)
    if why and known.whole(package) and (name, -1) not in said and not use.imported:
        said.add((name, -1))
        out.append(
            Trouble("deprecated", name, name.rsplit(".", 1)[-1], use.node, use.line, version, package, exact, why)
        )


def _lost(name: str, found: Found, table: Table) -> Found:
    """A class that makes attributes at run time may have any, but a method that other releases define and this one
    does not is gone: absent then, else as it was."""
    method = ".".join(name.split(".")[: found.at])
    have = elsewhere(table.package, method, table.version)
    return found._replace(state="absent") if have and not found.part.startswith("_") else found


def _call(call: Call, known: Known, out: list[Trouble]) -> None:
    package = call.name.split(".", 1)[0]
    if package not in PACKAGES or call.guarded:
        return
    answer = known.find(call.name)
    if answer is None or not known.whole(package):
        return
    found, table = answer
    exact = known.exact[package]
    if call.name.rsplit(".", 1)[-1] in ("set_context", "set_auto_parallel_context") and package == "mindspore":
        _context(call, table, known.version(package), exact, out)
        return
    parameters = table.parameters(found)
    if parameters is not None:
        for kind, what in mismatch(call.node, parameters):
            out.append(Trouble(kind, call.name, what, call.node, _line_of(call.node, what), known.version(package),
                               package, exact, parameters))  # fmt: skip


def _line_of(node: ast.Call, keyword: str) -> int:
    return next((k.value.lineno for k in node.keywords if k.arg == keyword), node.lineno)


def mismatch(call: ast.Call, parameters: str) -> list[tuple[str, str]]:
    """(kind, word) of each argument that ``parameters`` do not take."""
    words = parameters.split(",") if parameters else []
    positional: list[str] = []
    keywords: set[str] = set()
    rest = many = False
    for word in words:
        plain = word.rstrip("=")
        if word == "/":
            keywords -= set(positional)
        elif word == "*":
            rest = True
        elif word.startswith("**"):
            return []
        elif word.startswith("*"):
            rest = many = True
        else:
            keywords.add(plain)
            if not rest:
                positional.append(plain)
    starred = any(isinstance(a, ast.Starred) for a in call.args)
    out: list[tuple[str, str]] = []
    count = len(call.args)
    if not starred and not many and count > len(positional):
        out.append(("positional", str(count)))
    for keyword in call.keywords:
        if keyword.arg is None:
            continue
        if keyword.arg not in keywords:
            out.append(("keyword", keyword.arg))
        elif not starred and keyword.arg in positional[:count]:
            out.append(("twice", keyword.arg))
    return out


def _context(call: Call, table: Table, version: str, exact: bool, out: list[Trouble]) -> None:
    parallel = call.name.endswith("parallel_context")
    if (parallel and not table.parallel) or (not parallel and not table.context):
        return
    for keyword in call.node.keywords:
        key = keyword.arg
        if key is None:
            continue
        line = keyword.value.lineno
        how = "" if parallel else table.context.get(key, "?")
        if parallel and key not in table.parallel:
            how = "?"
        kind = {"?": "context", "gone": "context_gone", "old": "context_old"}.get(how.split("|", 1)[0])
        if kind is not None and (kind != "context_old" or exact):
            more = how.partition("|")[2]
            where = elsewhere_key(key, table.version, parallel) if kind == "context" else ()
            out.append(Trouble(kind, call.name, key, keyword, line, version, "mindspore", exact, more, where))


def elsewhere_key(key: str, besides: str, parallel: bool) -> tuple[str, ...]:
    """Versions whose context takes a key, oldest first."""
    out = []
    for version in reversed(list(tables.index("mindspore"))):
        if version != besides:
            one = tables.load("mindspore", version)
            if key in (one.parallel if parallel else one.context):
                out.append(version)
    return tuple(out)


def instance(module: Module, node: ast.AST | None, scope: Scope, known: Known, depth: int = 0) -> str:
    """Definition of the class that a value is surely an instance of, empty if not known."""
    node, scope = module.value(node, scope)
    if not isinstance(node, ast.Call) or depth > 12:
        return ""
    name = module.call_name(node, scope)
    if name is not None and name.startswith("mindspore."):
        answer = known.find(name)
        if answer is None:
            return ""
        if answer[0].state == "class":
            return answer[0].where
        tip = name.rsplit(".", 1)[-1]
        if name.startswith(("mindspore.ops.", "mindspore.mint.")) and tip in MAKES_TENSOR and name.count(".") == 2:
            return "mindspore.common.tensor:Tensor"
        return ""
    if name is None and isinstance(node.func, ast.Attribute) and node.func.attr in RETURNS_DATASET:
        inner = instance(module, node.func.value, scope, known, depth + 1)
        for table in known.tables["mindspore"]:
            if inner and table.descends(inner, "mindspore.dataset.engine.datasets:Dataset"):
                return "mindspore.dataset.engine.datasets:Dataset"
    return ""


@lru_cache(maxsize=4096)
def _versions_with(definition: str, method: str, besides: str) -> tuple[str, ...]:
    """Versions, oldest first, in which a class has a method."""
    out = []
    for version in reversed(list(tables.index("mindspore"))):
        if version != besides and tables.load("mindspore", version).members(definition)[0].get(method, "?") != "?":
            out.append(version)
    return tuple(out)


def _method(module: Module, call: Call, known: Known, patched: frozenset[str], out: list[Trouble]) -> None:
    """A method of an instance whose class is known and closed."""
    func = call.node.func
    if (
        not isinstance(func, ast.Attribute)
        or call.guarded
        or not known.tables["mindspore"]
        or not known.whole("mindspore")
    ):
        return
    if not isinstance(func.value, (ast.Name, ast.Call, ast.Attribute)):
        return
    where = instance(module, func.value, call.scope, known)
    if not where:
        return
    table = known.tables["mindspore"][0]
    members, more = table.members(where)
    kind = where.rpartition(":")[2]
    if not members or any(p.endswith((f"{kind}.{func.attr}", f"{kind}.*")) for p in patched):
        return
    exact = known.exact["mindspore"]
    version = known.version("mindspore")
    parameters = members.get(func.attr)
    shown = f"{kind}.{func.attr}"
    if parameters is None:
        if func.attr.startswith("_"):
            return
        have = _versions_with(where, func.attr, table.version)
        if more and not (have and exact):
            return
        out.append(Trouble("member", shown, func.attr, call.node, call.node.lineno, version, "mindspore", exact,
                           elsewhere=have))  # fmt: skip
    elif parameters:
        for what, word in mismatch(call.node, parameters[1:]):
            out.append(Trouble(what, shown, word, call.node, _line_of(call.node, word), version, "mindspore", exact,
                               parameters[1:]))  # fmt: skip
