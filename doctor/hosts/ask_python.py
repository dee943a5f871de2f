"""What the Python that trains has: versions, packages, MindSpore's own version lists. Run by that Python, not by ours.

``python ask_python.py`` prints one JSON object and ends with 0, whatever is broken there. Standard library only, for
Python 3.7 and later; nothing that belongs to the user is imported, files are read as text and bounded. Some 60 ms.

Keys of the answer (a part that could not be read is missing, and named in ``errors``):

``executable prefix base_prefix version tag implementation platform machine libc path``
    the interpreter; ``tag`` as in wheel names (cp311), ``machine`` of the kernel, ``libc`` as ["glibc", "2.31"]
``conda venv``
    folder of the conda environment or None; whether it is a virtual environment
``packages``
    normalised name -> {version, where, tags, requires, requires_python}; the first on the path, as import finds it
``again leftovers``
    [name, version, where] of a package that stands there twice; folders that an interrupted pip left behind (~name)
``imports``
    name -> the file or folder that ``import name`` would take, None if there is none
``mindspore mindformers te``
    what their own files say, see ``_mindspore``, ``_mindformers``, ``_te``
``libstdcxx gcc``
    {path, glibcxx, how} of the libstdc++ a process would load; {path, version} of gcc
"""

from __future__ import annotations

import sys

_OWN = sys.path[0] if sys.path else ""
_USER_PATH = list(sys.path)
_STDLIB = [p for p in sys.path if p and "-packages" not in p and p.startswith((sys.prefix, sys.base_prefix))]
# A file such as json.py in a folder of PYTHONPATH must not be run by us.
if __name__ == "__main__":
    sys.path[:] = _STDLIB or sys.path

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402

WANTED = {
    "attrs", "cloudpickle", "datasets", "decorator", "hccl", "hccl-parser", "hyper-parallel", "ml-dtypes",
    "mindformers", "mindnlp", "mindone", "mindpet", "mindspeed", "mindyolo", "msadapter", "msprobe", "numpy",
    "op-compile-tool", "protobuf", "psutil", "safetensors", "scipy", "sympy", "te", "tokenizers", "topi", "torch",
    "torch-npu", "torchvision", "transformers", "triton-ascend", "vllm", "vllm-ascend",
}  # fmt: skip
PREFIXES = ("mindspore", "ascend-", "cann-", "ascend_", "mindspeed")
IMPORTS = ("mindspore", "mindformers", "numpy", "te", "tbe", "topi", "hccl", "acl", "torch", "torch_npu", "google")
MACHINES = {62: "x86_64", 183: "aarch64", 3: "i386", 40: "arm", 243: "riscv64", 258: "loongarch64"}
MAX_TEXT = 1 << 20
MAX_ENTRIES = 50_000
MAX_PATH = 256


def _text(path: str, size: int = MAX_TEXT) -> str:
    """The first ``size`` bytes of a regular file as text, empty if it cannot be read."""
    try:
        if not os.path.isfile(path):
            return ""
        with open(path, "rb") as file:
            return file.read(size).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _names(folder: str) -> list[str]:
    """The entries of a folder, sorted; at most MAX_ENTRIES."""
    found = []
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) >= MAX_ENTRIES:
                    break
    except (OSError, ValueError):
        pass
    return sorted(found)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def elf_machine(path: str) -> str | None:
    """The machine an ELF file is for (x86_64, aarch64, …), "not ELF", or None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(20)
    except (OSError, ValueError):
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return "not ELF"
    code = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return MACHINES.get(code, f"ELF machine {code}")


def _interpreter() -> dict[str, object]:
    uname = os.uname() if hasattr(os, "uname") else None
    libc: list[str] = []
    try:
        libc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[:2]
    except (AttributeError, ValueError, OSError):
        pass
    conda = next((p for p in (sys.prefix, sys.base_prefix) if os.path.isdir(os.path.join(p, "conda-meta"))), None)
    name = sys.implementation.name
    number = f"{sys.version_info[0]}{sys.version_info[1]}"
    return {
        "executable": sys.executable,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "version": ".".join(map(str, sys.version_info[:3])),
        "tag": ("cp" if name == "cpython" else name) + number,
        "implementation": name,
        "platform": sys.platform,
        "machine": uname.machine if uname else None,
        "bits": 64 if sys.maxsize > 1 << 32 else 32,
        "libc": libc,
        "conda": conda,
        "venv": sys.prefix != sys.base_prefix,
    }


def _path() -> list[str]:
    """The user's module search path without the folder of this script."""
    seen: list[str] = []
    for entry in _USER_PATH[:MAX_PATH]:
        if entry != _OWN and entry not in seen and not entry.endswith(".zip"):
            seen.append(entry)
    return seen


def _header(text: str, name: str) -> list[str]:
    return [line[len(name) + 2 :].strip() for line in text.splitlines() if line.startswith(name + ": ")]


def _package(folder: str, entry: str) -> dict[str, object] | None:
    """Version, tags and requirements from a .dist-info or .egg-info."""
    base = os.path.join(folder, entry)
    text = _text(os.path.join(base, "METADATA"), 1 << 18) or _text(os.path.join(base, "PKG-INFO"), 1 << 18)
    if not text and os.path.isfile(base):
        text = _text(base, 1 << 18)
    head = text.replace("\r\n", "\n").split("\n\n", 1)[0]
    version = (_header(head, "Version") or [""])[0]
    if not version:
        stem = re.sub(r"\.(dist|egg)-info$", "", entry).split("-")
        version = stem[1] if len(stem) > 1 else ""
    needs = [r for r in _header(head, "Requires-Dist") if "extra ==" not in r]
    needs = [r for r in needs if _wanted(_normal(re.split(r"[ (<>=!~;\[]", r, maxsplit=1)[0]))]
    return {
        "version": version,
        "where": folder,
        "tags": _header(_text(os.path.join(base, "WHEEL"), 1 << 14), "Tag")[:16],
        "requires": needs[:40],
        "requires_python": (_header(head, "Requires-Python") or [""])[0],
    }


def _wanted(name: str) -> bool:
    return name in WANTED or name.startswith(PREFIXES)


def _packages(path: list[str], listing: dict[str, list[str]]) -> dict[str, object]:
    found: dict[str, object] = {}
    again: list[list[object]] = []
    leftovers: list[str] = []
    for folder in path:
        for entry in listing[folder]:
            if entry.startswith("~") and len(leftovers) < 20:
                leftovers.append(os.path.join(folder, entry))
            if not entry.endswith((".dist-info", ".egg-info")):
                continue
            name = _normal(re.sub(r"\.(dist|egg)-info$", "", entry).split("-", 1)[0])
            if not _wanted(name):
                continue
            package = _package(folder, entry)
            if package is None:
                continue
            if name in found:
                again.append([name, package["version"], folder])
            else:
                found[name] = package
    return {"packages": found, "again": again[:40], "leftovers": leftovers}


def _imports(path: list[str], listing: dict[str, list[str]]) -> dict[str, str | None]:
    """Where ``import name`` would look first: a package folder, a module or an extension."""
    found: dict[str, str | None] = dict.fromkeys(IMPORTS)
    space: dict[str, str] = {}
    for folder in path:
        names = set(listing[folder])
        for name in IMPORTS:
            if found[name] is not None:
                continue
            where = os.path.join(folder, name)
            if name in names and os.path.isfile(os.path.join(where, "__init__.py")):
                found[name] = where
            elif name + ".py" in names:
                found[name] = where + ".py"
            elif name in names and os.path.isdir(where):
                space.setdefault(name, where)
            else:
                exact = [n for n in names if n.startswith(name + ".") and n.endswith(".so")]
                if exact:
                    found[name] = os.path.join(folder, min(exact))
    for name, where in space.items():
        found[name] = found[name] or where
    return found


def accepted_list(text: str) -> tuple[list[str], int] | None:
    """(``self.version = [...]`` of class AscendEnvChecker, line) in the text of _check_version.py; never run."""
    start = re.search(r"^class AscendEnvChecker\b.*$", text, re.M)
    if not start:
        return None
    end = re.compile(r"^(?:class|def|@)", re.M).search(text, start.end())
    body = text[start.start() : end.start() if end else len(text)]
    before = text.count("\n", 0, start.start())
    try:
        import ast

        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "version":
                value = ast.literal_eval(node.value)
                if isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
                    return list(value), before + node.lineno
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    found = re.search(r"self\.version ?= ?\[([^\]]{0,400})\]", body)
    if found:
        return re.findall(r"[\"']([\d.]{1,20})[\"']", found.group(1)), before + body.count("\n", 0, found.start()) + 1
    return None


def _mindspore(folder: str) -> dict[str, object]:
    """MindSpore's own files.

    version (version.py), commit, accepted {versions, source, line}, needs_opp_kernel (its check asks for that folder),
    version_from (variable by which it finds CANN's version), ascend (names of the Ascend plug-ins),
    elf {file, machine}, built_with {operator folder: CANN it was built with}.
    """
    found: dict[str, object] = {"dir": folder}
    version = re.search(r"__version__ ?= ?[\"']([^\"']{1,60})", _text(os.path.join(folder, "version.py"), 1 << 16))
    found["version"] = version.group(1) if version else ""
    commit = re.search(r"\[sha1\]:(\w{6,40}),\[branch\]:([^']{1,100})", _text(os.path.join(folder, ".commit_id"), 4096))
    found["commit"] = [commit.group(1), commit.group(2)] if commit else []
    checker = os.path.join(folder, "run_check", "_check_version.py")
    text = _text(checker)
    listed = accepted_list(text)
    if listed:
        found["accepted"] = {"versions": listed[0][:64], "source": checker, "line": listed[1]}
    at = text.find("class AscendEnvChecker")
    ascend = text[at:] if at >= 0 else ""
    found["needs_opp_kernel"] = "opp_kernel is not installed" in ascend
    home, opp = "ASCEND_HOME_PATH" in ascend, "ASCEND_OPP_PATH" in ascend
    found["version_from"] = "ASCEND_HOME_PATH" if home else "ASCEND_OPP_PATH" if opp else ""
    plugin = os.path.join(folder, "lib", "plugin")
    found["ascend"] = [n for n in _names(plugin) if n.startswith("libmindspore_ascend.so")]
    core = [n for n in _names(folder) if n.startswith("_c_expression") and n.endswith((".so", ".pyd"))]
    found["elf"] = {"file": core[0], "machine": elf_machine(os.path.join(folder, core[0]))} if core else None
    built: dict[str, str] = {}
    for base in (os.path.join(plugin, "ascend"), os.path.join(folder, "lib", "plugin")):
        for name in _names(base)[:200]:
            if name.startswith("custom_ascendc"):
                info = _text(os.path.join(base, name, "version.info"), 4096)
                hit = re.search(r"custom_opp_compiler_version=(\S{1,40})", info)
                if hit:
                    built[name] = hit.group(1)
    found["built_with"] = built
    return found


def _mindformers(folder: str) -> dict[str, object]:
    """Version map shipped inside mindformers, as it stands: {"mf": …, "ms": …, "cann": …}."""
    path = os.path.join(folder, "VERSION_MAP.json")
    text = _text(path, 1 << 18)
    found: dict[str, object] = {"dir": folder}
    if text:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found["version_map"] = value
            found["source"] = path
    return found


def _te(folder: str) -> dict[str, object]:
    base = folder if os.path.isdir(folder) else os.path.dirname(folder)
    hit = re.search(r"^version ?= ?[\"']([^\"']{1,40})", _text(os.path.join(base, "version.py"), 1 << 14), re.M)
    return {"dir": folder, "real": os.path.realpath(folder), "version": hit.group(1) if hit else ""}


def _libstdcxx() -> dict[str, object] | None:
    """The libstdc++.so.6 the loader would take: of conda (its python has an RPATH), LD_LIBRARY_PATH, the loader's
    cache, the usual folders; and the newest GLIBCXX symbol version in it."""
    name = "libstdc++.so.6"
    mine = elf_machine(sys.executable)
    places: list[tuple[str, str]] = []
    for prefix in (sys.prefix, sys.base_prefix):
        if os.path.isdir(os.path.join(prefix, "conda-meta")):
            places.append((os.path.join(prefix, "lib", name), "conda"))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")[:200]:
        if folder:
            places.append((os.path.join(folder, name), "LD_LIBRARY_PATH"))
    try:
        with open("/etc/ld.so.cache", "rb") as file:
            cached = file.read(1 << 22)
        for hit in re.findall(rb"(/[^\0]{1,300}/libstdc\+\+\.so\.6)\0", cached):
            places.append((hit.decode("utf-8", "replace"), "ld.so.cache"))
    except OSError:
        pass
    for folder in ("/lib64", "/usr/lib64", f"/usr/lib/{mine}-linux-gnu", "/usr/lib", "/usr/local/lib64"):
        places.append((os.path.join(folder, name), "default"))
    for path, how in places:
        if not os.path.isfile(path) or elf_machine(path) != mine:
            continue
        with open(path, "rb") as file:
            data = file.read(1 << 23)
        versions = [
            tuple(map(int, v.split(b"."))) for v in set(re.findall(rb"GLIBCXX_(\d{1,2}(?:\.\d{1,3}){1,3})", data))
        ]
        if versions:
            return {"path": path, "glibcxx": ".".join(map(str, max(versions))), "how": how}
    return None


def _gcc() -> dict[str, object] | None:
    """gcc by its folders, without starting it."""
    for folder in os.environ.get("PATH", "").split(":")[:100]:
        path = os.path.join(folder, "gcc")
        if not folder or not os.access(path, os.X_OK) or os.path.isdir(path):
            continue
        real = os.path.realpath(path)
        major = re.search(r"gcc-(\d{1,2})(?:\.\d+)*$", real)
        seen: list[str] = []
        top = os.path.dirname(os.path.dirname(real))
        for base in (
            os.path.join(top, "lib", "gcc"),
            os.path.join(top, "lib64", "gcc"),
            os.path.join(top, "libexec", "gcc"),
        ):
            for triple in _names(base)[:20]:
                for version in _names(os.path.join(base, triple))[:50]:
                    inside = os.path.join(base, triple, version)
                    if version[:1].isdigit() and any(
                        os.path.exists(os.path.join(inside, f)) for f in ("cc1", "crtbegin.o", "lto-wrapper")
                    ):
                        seen.append(version)
        fitting = [v for v in seen if not major or v.split(".")[0] == major.group(1)]
        best = max(
            fitting, key=lambda v: [int(n) for n in re.findall(r"\d+", v)], default=major.group(1) if major else ""
        )
        return {"path": path, "version": best}
    return None


def answer() -> dict[str, object]:
    """Everything, each part on its own: what fails is named in ``errors``."""
    found: dict[str, object] = {"schema": 1}
    errors: list[str] = []

    def part(name: str, make, *args) -> object:  # type: ignore[no-untyped-def]
        try:
            return make(*args)
        except Exception as error:
            errors.append(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            return None

    path = _path()
    listing = {folder: _names(folder) for folder in path}
    found.update(part("interpreter", _interpreter) or {})  # type: ignore[call-overload]
    found["path"] = path
    found.update(part("packages", _packages, path, listing) or {})  # type: ignore[call-overload]
    imports = part("imports", _imports, path, listing) or {}
    found["imports"] = imports
    for name, make in (("mindspore", _mindspore), ("mindformers", _mindformers), ("te", _te)):
        where = imports.get(name)  # type: ignore[attr-defined]
        if where:
            found[name] = part(name, make, where)
    found["libstdcxx"] = part("libstdcxx", _libstdcxx)
    found["gcc"] = part("gcc", _gcc)
    found["errors"] = errors
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(json.dumps(answer(), default=str).encode("ascii", "replace") + b"\n")
