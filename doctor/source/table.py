"""What a release of MindSpore or MindFormers offers: names, parameters, deprecations, context keys.

The tables are made by scripts/api_table.py from the wheels and lie in rules/api_tables, one xz file a release: the
newest whole, each older one as the difference from the next newer one. They are read when the first name is asked.

A table holds
    modules   module → {home: names}: names that a module has, grouped by the module that defines them
              (``name`` or ``name=its name there``); home ``:`` are modules, ``?`` is opaque, ``open`` says that
              the module makes more names at run time
    defs      ``module:name`` → ["f", parameters, deprecation] or ["c", parameters of the constructor, deprecation,
              bases, members, open]; parameters ``x,y=,*,z=,**kw`` (an equals sign is any default), None if unknown
    hidden    module → public-looking names that its ``__all__`` leaves out
    tensor    methods of Tensor that live in C++;  context, parallel: keys of set_context and
              set_auto_parallel_context, ``old|use this`` where they are on their way out, ``gone|since|use this``
"""

from __future__ import annotations

import json
import lzma
import os
from functools import lru_cache
from typing import Any, NamedTuple

from doctor.rulebase import data_folder

UNLISTED = frozenset({
    "assign_value_cpp", "convert_bytes_to_tensor", "data_sync", "device", "dim", "from_dlpack",
    "getitem_index_info", "hooks", "init_finished", "init_flag", "is_complex", "is_init", "is_meta", "is_pinned",
    "is_shared", "is_signed", "offload", "offload_file_path", "param_info", "pin_memory", "remove_hook",
    "requires_grad_", "set_", "set_cast_dtype", "set_device_address", "set_dtype", "set_init_flag",
    "set_param_info", "setitem_index_info", "storage", "symbolic_shape", "to_dlpack", "untyped_storage",
    "virtual_flag", "wait_pipeline",
})  # fmt: skip
"""Methods of Tensor that are made in C++ and named in no Python file (dir(Tensor) of 2.10.0)."""


class Found(NamedTuple):
    """What a qualified name is. ``state``: module · function · class · member · opaque · absent.

    ``where`` is the definition (``module:name``) or module; for absent names ``part`` is the word that is missing
    and ``where`` what lacks it, ``inside`` whether that is a module or a class, ``at`` how many words of the name lead
    up to and include the missing one.
    """

    state: str
    where: str
    part: str = ""
    inside: str = "module"
    member: str = ""
    at: int = 0


class Table:
    """One release."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.package: str = data["package"]
        self.version: str = data["version"]
        self._spaces: dict[str, dict[str, str]] = {}
        self._members: dict[str, tuple[dict[str, str], bool]] = {}
        self._found: dict[str, Found] = {}
        self.tensor = set(data.get("tensor", "").split())
        self.context: dict[str, str] = data.get("context", {})
        self.parallel = set(data.get("parallel", "").split())

    def space(self, module: str) -> dict[str, str]:
        """name → ``module:name`` of its definition, ``module:`` or ``?``."""
        out = self._spaces.get(module)
        if out is None:
            out = self._spaces[module] = {}
            for home, names in self.data["modules"].get(module, {}).items():
                if home == "open":
                    continue
                for word in names.split():
                    name, _, own = word.partition("=")
                    if home == "?":
                        out[name] = "?"
                    elif home == ":":
                        out[name] = (own or f"{module}.{name}") + ":"
                    else:
                        out[name] = f"{home}:{own or name}"
        return out

    def is_open(self, module: str) -> bool:
        """Whether a module may have names that the table does not know."""
        found = self.data["modules"].get(module)
        return found is None or "open" in found

    def public(self, module: str) -> set[str]:
        """Names that ``from module import *`` and readers of the documentation see."""
        hidden = set(self.data["hidden"].get(module, "").split())
        return {n for n in self.space(module) if not n.startswith("_") and n not in hidden}

    def find(self, name: str) -> Found:
        """What ``mindspore.nn.Dense`` is in this release."""
        out = self._found.get(name)
        if out is None:
            out = self._found[name] = self._find(name)
        return out

    def _find(self, name: str) -> Found:
        parts = name.split(".")
        if parts[0] != self.package:
            return Found("opaque", "")
        return self._walk(parts[0], parts, 1)

    def _walk(self, module: str, parts: list[str], n: int) -> Found:
        """What ``parts[n:]`` are inside a module."""
        if n == len(parts):
            return Found("module", module)
        part = parts[n]
        meaning = self.space(module).get(part)
        path = f"{module}.{part}"
        if meaning is None:
            if self.is_open(module) or part.startswith("__"):
                return Found("opaque", module)
            return Found("absent", module, part, at=n + 1)
        if meaning == "?":
            found = Found("opaque", module)
        elif meaning.endswith(":"):
            other = meaning[:-1]
            found = self._walk(other, parts, n + 1) if other.split(".")[0] == self.package else Found("opaque", other)
        else:
            found = self._inside(meaning, parts[n + 1 :], n + 2)
        hidden = meaning != path + ":" and path in self.data["modules"] and n + 1 < len(parts)
        if hidden and found.state in ("absent", "opaque"):
            return self._walk(path, parts, n + 1)  # import statements go by path, also where a name hides the module
        return found

    def _inside(self, definition: str, rest: list[str], at: int) -> Found:
        entry = self.data["defs"].get(definition)
        if entry is None:
            return Found("opaque", definition)
        if entry[0] == "f":
            return Found("function", definition) if not rest else Found("opaque", definition)
        if not rest:
            return Found("class", definition)
        members, more = self.members(definition)
        if rest[0] in members:
            return Found("member", definition, member=rest[0]) if len(rest) == 1 else Found("opaque", definition)
        if rest[0].startswith("__") or (rest[0].startswith("_") and definition.endswith(":Tensor")):
            return Found("opaque", definition)  # private methods of Tensor live in C++ and are listed nowhere
        if more:
            return Found("opaque", definition, rest[0], "class", at=at)
        return Found("absent", definition, rest[0], "class", at=at)

    def members(self, definition: str, depth: int = 0) -> tuple[dict[str, str], bool]:
        """(name → ``(parameters`` or empty, whether there may be more) of a class, bases included."""
        known = self._members.get(definition)
        if known is not None:
            return known
        entry = self.data["defs"].get(definition)
        if entry is None or entry[0] != "c" or depth > 20:
            return {}, True
        out: dict[str, str] = {}
        more = bool(entry[5])
        for base in reversed(entry[3].split()):
            inherited, open_base = self.members(base, depth + 1)
            out.update(inherited)
            more = more or open_base
        for word in entry[4].split():
            name, mark, parameters = word.partition("(")
            out[name] = mark + parameters
        if definition.endswith(":Tensor"):
            out.update((name, "") for name in (*self.tensor, *UNLISTED) if name not in out)
            more = False
        self._members[definition] = out, more
        return out, more

    def parameters(self, found: Found) -> str | None:
        """Parameters that a call of it takes, None if not known."""
        entry = self.data["defs"].get(found.where)
        if entry is None or found.state not in ("function", "class"):
            return None
        if entry[0] == "f":
            return None if entry[1] is None else str(entry[1])
        return self._constructor(found.where)

    def _constructor(self, definition: str, depth: int = 0) -> str | None:
        entry = self.data["defs"].get(definition)
        if entry is None or entry[0] != "c" or depth > 12 or entry[1] == "?":
            return None
        if entry[1] is not None:
            return str(entry[1])
        bases = entry[3].split()
        return self._constructor(bases[0], depth + 1) if len(bases) == 1 and not entry[5] else None

    def deprecated(self, found: Found) -> str:
        """``since|use instead`` or ``||words of its documentation``; empty if it is not on its way out."""
        entry = self.data["defs"].get(found.where)
        return str(entry[2]) if entry is not None and found.state in ("function", "class") else ""

    def descends(self, definition: str, base: str, depth: int = 0) -> bool:
        """Whether a class is, or derives from, the definition ``base``."""
        if definition == base:
            return True
        entry = self.data["defs"].get(definition)
        if entry is None or entry[0] != "c" or depth > 20:
            return False
        return any(self.descends(one, base, depth + 1) for one in entry[3].split())


def folder() -> str:
    return os.path.join(data_folder("rules"), "api_tables")


@lru_cache(maxsize=8)
def index(package: str) -> dict[str, str]:
    """version → the newer version that its file is the difference from; newest first. Empty without tables."""
    try:
        with open(os.path.join(folder(), f"{package}.json"), encoding="utf-8") as file:
            found: dict[str, str] = json.load(file)
            return found
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=16)
def load(package: str, version: str) -> Table:
    """The table of a version that ``index`` lists. Raises OSError or ValueError if its file is damaged."""
    newer = index(package)[version]
    with open(os.path.join(folder(), f"{package}-{version}.json.xz"), "rb") as file:
        try:
            data = json.loads(lzma.decompress(file.read()))
        except (lzma.LZMAError, EOFError) as error:
            raise ValueError(f"{file.name}: {error}") from None
    if newer:
        data = _patched(load(package, newer).data, data)
    return Table(data)


def _patched(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    out = {"package": change["package"], "version": change["version"]}
    for section in ("modules", "defs", "hidden", "context"):
        gone = set(change[section]["gone"])
        out[section] = {k: v for k, v in base.get(section, {}).items() if k not in gone} | change[section]["set"]
    for section in ("tensor", "parallel"):
        if section in change:
            out[section] = change[section]
    return out


def numbers(version: str) -> tuple[int, ...]:
    """(2, 7, 1) of ``2.7.1rc1``."""
    out = []
    for part in version.split("."):
        digits = ""
        for letter in part:
            if not letter.isdigit():
                break
            digits += letter
        if not digits:
            break
        out.append(int(digits))
    return tuple(out)


def choose(package: str, version: str) -> tuple[list[str], bool]:
    """(tables to ask, whether they are exactly of this version).

    2.7 and 2.7.3 both mean the newest table of 2.7 that is not newer than what was asked. A version without a table
    gets its neighbours: names that neither has are most probably missing in it too.
    """
    known = list(index(package))
    if not known:
        return [], False
    if not version:
        return known[:1], False
    wanted = numbers(version)
    if not wanted:
        return [], False
    if version in known:
        return [version], True
    same = [v for v in known if numbers(v)[:2] == wanted[:2]]
    if same:
        lower = [v for v in same if numbers(v) <= wanted] if len(wanted) > 2 else same
        return (lower or same[-1:])[:1], True
    newer = [v for v in known if numbers(v) > wanted]
    older = [v for v in known if numbers(v) < wanted]
    return newer[-1:] + older[:1], False
