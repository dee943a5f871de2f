"""Which driver, firmware, CANN, MindSpore, MindSpore Transformers and Python are here, and which of them are in use.

Files come first; npu-smi answers where a container does not have them. Nothing of the user's is imported.

Facts (values are plain data):

``ver.driver``    {version, inner, family, families, firmware: [[low, high]], path, origin: file · npu-smi}
``ver.firmware``  {version, package, drivers: [prefix], path, origin}
``ver.cann``      {installs: [install], sourced, home, env: {variable: root}, mixed: [root], legacy: [mark], nnal}
                  install: {root, names, version, internal, inner, families, arch, layout: closed · open, toolkit,
                  ops: [{package, version}] or None, opp_kernel, kind: toolkit · nnae · nnrt, set_env, sourced, file}
``ver.python``    what ``ask_python`` answers
``ver.mindspore`` {version, package, dir, accepted, accepted_source, accepted_line, needs_opp_kernel, ascend,
                  built_with, requires, requires_python}
``ver.mindformers`` {version, requires, pin, map, map_source, missing}
``ver.wheel``     {file, machine, tag, host, python_tag, system}
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from doctor.hosts.base import Host, data_of, title
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes.base import Facts, Probe
from doctor.versions import minor

ASCEND = "/usr/local/Ascend"
MAX_ROOTS = 16
_LINE = re.compile(r"([\w.-]{1,80})\s*=\s*(.{0,2000}?)\s*")
_BRACKETS = re.compile(r"\[([^\[\]]{1,200})\]")
_MARKET = re.compile(r"(?:^|/)(?:cann-)?(\d{1,2}\.\d{1,2}(?:\.\w{1,12}){1,4}?)/?$")
_CANN_ENTRY = re.compile(r"(.{1,300}?/(?:ascend-toolkit|nnae|nnrt)/[^/:]{1,60}|.{1,300}?/cann(?:-[^/:]{1,60})?)(?=/|$)")
ROOT_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_AICPU_PATH")


# ------------------------------------------------------------------ texts


def _at(what: str, where: Any) -> str:
    """A version, with its place where that is known."""
    return f"{what} ({where})" if where else what


def parse_info(text: str) -> dict[str, tuple[str, int]]:
    """``key=value`` lines of version.info and install.info files: key → (value without quotes, line from 1).

    The first of equal keys wins, as for MindSpore's own reader. Junk gives an empty dict.
    """
    found: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text[: 1 << 20].splitlines()[:5000], 1):
        hit = _LINE.fullmatch(line.strip()[:2100])
        if hit and hit[1] not in found:
            found[hit[1]] = (hit[2].strip("\"'"), number)
    return found


def parse_version_cfg(text: str) -> dict[str, list[tuple[str, str]]]:
    """version.cfg: ``<component>_{running,installed,upgrade}_version`` → [(internal, market)]."""
    found: dict[str, list[tuple[str, str]]] = {}
    for key, (value, _) in parse_info(text).items():
        if key.endswith("_version"):
            pairs = [part.partition(":") for part in _BRACKETS.findall(value)]
            found[key] = [(internal, market) for internal, _, market in pairs if market]
    return found


def parse_nnal(text: str) -> dict[str, str]:
    """nnal's ``Name : value`` lines, names in lower case."""
    found: dict[str, str] = {}
    for line in text[: 1 << 16].splitlines()[:200]:
        name, colon, value = line.partition(":")
        if colon and len(name) < 80:
            found.setdefault(name.strip().lower(), value.strip()[:200])
    return found


def families(text: str) -> list[str]:
    """The families V100R001C<NN> that a compatible_version line or an inner version names: [C19, C21]."""
    return list(dict.fromkeys(re.findall(r"V100R001(C\d{2})", text[:4000])))


def _ranges(text: str) -> list[list[str]]:
    pairs = [part.split(",") for part in _BRACKETS.findall(text[:4000])]
    return [[low.strip(), high.strip()] for low, high in (p for p in pairs if len(p) == 2)]


def driver_of(text: str) -> dict[str, Any] | None:
    """A driver's version.info as the value of ``ver.driver``; None if it names no version."""
    info = parse_info(text)
    if "Version" not in info or not minor(info["Version"][0]):
        return None
    inner = info.get("Innerversion", ("", 0))[0]
    return {
        "version": info["Version"][0], "inner": inner, "family": (families(inner) or [""])[0],
        "families": families(info.get("compatible_version", ("", 0))[0]),
        "firmware": _ranges(info.get("compatible_version_fw", ("", 0))[0]), "line": info["Version"][1],
    }  # fmt: skip


def firmware_of(text: str) -> dict[str, Any] | None:
    """A firmware's version.info as the value of ``ver.firmware``; None if it names no version."""
    info = parse_info(text)
    if "Version" not in info or not minor(info["Version"][0]):
        return None
    drivers = _ranges(info.get("compatible_version_drv", ("", 0))[0])
    return {
        "version": info["Version"][0], "package": info.get("package_version", ("", 0))[0],
        "drivers": [low for low, _ in drivers], "line": info["Version"][1],
    }  # fmt: skip


# ------------------------------------------------------------------ driver and firmware


def present(facts: Facts) -> bool | None:
    """Whether there is an NPU here: True, False (looked and found none), None (nobody could look)."""
    seen: bool | None = None
    for name, count in (("npu.table", len), ("npu.pci", lambda v: v.get("count")), ("npu.nodes", len)):
        fact = facts.get(name)
        if isinstance(fact, Fact):
            try:
                number = count(fact.value)
            except (TypeError, AttributeError):
                continue
            if name == "npu.nodes" and isinstance(fact.value, Mapping):
                number = len(fact.value.get("devices", fact.value.get("nodes", ())) or ())
            if number:
                return True
            seen = False
        elif isinstance(fact, Unknown) and not fact.applies and fact.why == "no_npu":
            seen = False
    return seen


def read_driver(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """``ver.driver`` and ``ver.firmware``."""
    base = ASCEND
    registry = host.read("/etc/ascend_install.info", 1 << 16)
    if registry.state == "ok":
        named = parse_info(registry.out).get("Driver_Install_Path_Param", ("", 0))[0]
        if named.startswith("/") and ".." not in named:
            base = named.rstrip("/")
    found: list[Fact | Unknown] = []
    board = _board(facts)
    for name, part, parse in (("ver.driver", "driver", driver_of), ("ver.firmware", "firmware", firmware_of)):
        fact = _from_file(host, name, dict.fromkeys((base, ASCEND)), part, parse)
        if isinstance(fact, Fact):
            found.append(fact)
            continue
        version, seen = _smi_driver(facts) if part == "driver" else ("", None)
        if not version and board:
            version, seen = str(board[0].get(part, "")), board[0].get("seen")
        if version and minor(version):
            value = {"version": version, "origin": "npu-smi"} | (
                {"inner": "", "family": "", "families": [], "firmware": []}
                if part == "driver"
                else {"package": "", "drivers": []}
            )
            found.append(Fact(name, value, Evidence(*seen[:3]) if seen else Evidence("npu-smi info", 0, version)))
        elif present(facts) is False:
            found.append(Unknown(name, "no_npu", applies=False))
        else:
            found.append(fact)
    return found


def _from_file(host: Host, name: str, bases: Iterable[str], part: str, parse: Any) -> Fact | Unknown:
    worst = Unknown(name, "no_file", "mount", {"path": f"{ASCEND}/{part}/version.info"})
    for base in bases:
        path = f"{base}/{part}/version.info"
        raw = host.read(path, 1 << 16)
        if raw.state == "ok":
            value = parse(raw.out)
            if value is not None:
                line = value.pop("line")
                return Fact(name, value | {"path": path, "origin": "file"}, _line_of(raw, line))
            worst = Unknown(name, "not_understood", "", {"path": path})
        elif raw.state == "denied":
            worst = Unknown(name, "denied", "as_root", {"what": path, "path": path})
        elif raw.state == "not_recorded" and worst.why == "no_file":
            worst = Unknown(name, "not_recorded", "", {"path": path})
    return worst


def _line_of(raw: Raw, line: int) -> Evidence:
    lines = raw.out.splitlines()
    return Evidence(title(raw.key), line, lines[line - 1].strip()[:300] if 0 < line <= len(lines) else "")


def _smi_driver(facts: Facts) -> tuple[str, Any]:
    fact = facts.get("npu.smi")
    value = fact.value if isinstance(fact, Fact) and isinstance(fact.value, Mapping) else {}
    return str(value.get("driver_version") or value.get("driver") or ""), value.get("seen")


def _board(facts: Facts) -> list[Mapping[str, Any]]:
    fact = facts.get("npu.board")
    rows = fact.value if isinstance(fact, Fact) else ()
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, (list, tuple)) else []


# ------------------------------------------------------------------ CANN


class _Finder:
    """Looks for CANN roots on a host and remembers what was seen and where names lead."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.rows: dict[str, dict[str, Any]] = {}
        self.lists: dict[str, list[str]] = {}
        self.real: dict[str, str | None] = {}
        self.asked = False
        """whether any glob could be answered"""

    def look(self, pattern: str) -> list[str]:
        """Paths that a glob gives, their rows kept in ``rows``."""
        if pattern not in self.lists:
            raw = self.host.look(pattern)
            rows = data_of(raw)
            self.asked = self.asked or raw.state == "ok"
            rows = rows if isinstance(rows, list) else []
            found = [r for r in rows if isinstance(r, dict) and isinstance(r.get("path"), str)]
            self.rows.update((r["path"], r) for r in found)
            self.lists[pattern] = [r["path"] for r in found]
        return self.lists[pattern]

    def row(self, path: str) -> dict[str, Any] | None:
        """What a path is, None if there is nothing."""
        if path not in self.rows:
            self.look(path)
        return self.rows.get(path)

    def inside(self, *folders: str) -> set[str]:
        """Names in folders that are one and the same."""
        return {posixpath.basename(p) for folder in folders for p in self.look(f"{folder}/*")}

    def target(self, path: str) -> str:
        """Where a link leads; live answers name the end of the chain, texts may name the next step."""
        aim = str(self.rows[path].get("target") or "")
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), aim)) if aim else path

    def root(self, path: str) -> str | None:
        """The real root behind a name such as ascend-toolkit/latest, None if there is nothing.

        Up to 8.3 ``latest`` is a folder of links into the real one; from 8.5 on ``cann`` is a link.
        """
        path = posixpath.normpath(path)
        if path in self.real:
            return self.real[path]
        self.real[path] = None  # a loop of links ends here
        row = self.row(path)
        answer: str | None = None
        if row is not None and row.get("kind") == "link":
            target = self.target(path)
            answer = self.root(target) if target != path else None
        elif row is not None and row.get("kind") == "dir":
            answer = path
            names = self.inside(path)
            for part in ("compiler", "runtime", "opp"):
                if part in names:
                    if self.rows[f"{path}/{part}"].get("kind") == "link":
                        answer = re.sub(rf"(?:/\w+-linux)?/{part}$", "", self.target(f"{path}/{part}"))
                    break
        self.real[path] = answer
        return answer


def _names(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Variable → the CANN roots that its value names, in order."""
    found: dict[str, list[str]] = {}
    for name in ROOT_VARIABLES:
        if env.get(name, "").startswith("/"):
            found[name] = [env[name].rstrip("/")]
    opp = env.get("ASCEND_OPP_PATH", "").rstrip("/")
    if opp.startswith("/"):
        found["ASCEND_OPP_PATH"] = [posixpath.dirname(opp) if opp.endswith("/opp") else opp]
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        roots = []
        for entry in env.get(name, "").split(":")[:300]:
            hit = _CANN_ENTRY.match(entry) if entry.startswith("/") else None
            if hit and "/driver/" not in entry and "/nnal/" not in entry:
                roots.append(hit[1])
        if roots:
            found[name] = list(dict.fromkeys(roots))
    return found


def read_cann(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """``ver.cann``: every CANN here, and which one the shell has sourced."""
    env_fact = facts.get("host.env")
    values = env_fact.value if isinstance(env_fact, Fact) and isinstance(env_fact.value, Mapping) else {}
    env = {name: value for name, value in values.items() if isinstance(name, str) and isinstance(value, str)}
    finder = _Finder(host)
    bases = [ASCEND]
    if env.get("HOME", "").startswith("/"):
        bases.append(env["HOME"].rstrip("/") + "/Ascend")
    registry = host.read("/etc/Ascend/ascend_cann_install.info", 1 << 16)
    named = parse_info(registry.out) if registry.state == "ok" else {}
    for key, (place, _) in named.items():
        if key.lower().endswith("install_path") and place.startswith("/") and ".." not in place:
            bases.append(place.rstrip("/"))
    candidates: list[str] = []
    for base in dict.fromkeys(bases):
        for pattern in (f"{base}/ascend-toolkit/*", f"{base}/cann*", f"{base}/nnae/*", f"{base}/nnrt/*"):
            for path in finder.look(pattern):
                last = posixpath.basename(path)
                kind = finder.rows[path].get("kind")
                if kind in ("dir", "link") and (last in ("latest", "cann") or _MARKET.search(last)):
                    candidates.append(path)
    from_env = _names(env)
    for paths in from_env.values():
        candidates += paths
    roots: dict[str, list[str]] = {}
    for path in dict.fromkeys(candidates):
        root = finder.root(path)
        if root and (root in roots or len(roots) < MAX_ROOTS):
            roots.setdefault(root, []).append(path)
    if not finder.asked and not isinstance(env_fact, Fact):
        return [Unknown("ver.cann", "not_recorded")]
    in_env = {name: [finder.root(p) for p in paths] for name, paths in from_env.items()}
    used: list[str] = []
    for name in (*ROOT_VARIABLES, "ASCEND_OPP_PATH", "LD_LIBRARY_PATH", "PYTHONPATH"):
        used += [root for root in in_env.get(name, ()) if root and root not in used]
    home = next((env[v] for v in (*ROOT_VARIABLES[:2], "ASCEND_OPP_PATH") if env.get(v)), "")
    installs = [_install(host, finder, root, names) for root, names in sorted(roots.items())]
    sourced = next(
        (root for name in (*ROOT_VARIABLES, "ASCEND_OPP_PATH") for root in in_env.get(name, ()) if root), None
    )
    for install in installs:
        install["sourced"] = install["root"] == sourced
    use = next((i for i in installs if i["sourced"]), None)
    # a folder that merely has such a name is no CANN
    toolkits = {i["root"] for i in installs if i["kind"] == "toolkit" and i["toolkit"]}
    mixed = [root for root in used if root in toolkits]
    value: dict[str, Any] = {
        "installs": [i for i in installs if i["version"] or i["internal"] or i["sourced"]],
        "sourced": sourced,
        "home": home,
        "home_read": _home_read(host, home, use),
        "home_variable": next((v for v in (*ROOT_VARIABLES[:2], "ASCEND_OPP_PATH") if env.get(v)), ""),
        # some export lines of a paste are not the whole of an environment
        "env_known": "PATH" in env,
        "env": {n: [real or name for real, name in zip(in_env[n], ps, strict=True)] for n, ps in from_env.items()},
        "mixed": mixed if len(mixed) > 1 else [],
        "legacy": legacy_marks(env),
        "nnal": _nnal(host, str(use["version"]) if use else ""),
    }  # fmt: skip
    evidence = None
    if sourced and env.get("ASCEND_HOME_PATH"):
        evidence = Evidence("doctor:env", 0, f"ASCEND_HOME_PATH={env['ASCEND_HOME_PATH']}")
    if use and use["file"]:
        evidence = Evidence(*use["file"])
    return [Fact("ver.cann", value, evidence)]


def _home_read(host: Host, home: str, use: Mapping[str, Any] | None) -> bool:
    """Whether it could be read what lies below the variable's folder; a recording of a few answers leaves it open."""
    if not home or (use is not None and use["compiler"]):
        return True
    raw = host.read(f"{home.rstrip('/').removesuffix('/opp')}/compiler/version.info", 1 << 16)
    return raw.state in ("ok", "missing")


def legacy_marks(env: Mapping[str, str]) -> list[list[str]]:
    """Settings of old manuals: [variable, value] of each."""
    found = []
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        entries = [e for e in env.get(name, "").split(":") if "/Ascend/" in e or "ascend" in e.lower()]
        old = [e for e in entries if "fwkacllib" in e]
        if old and all("fwkacllib" in e or "/driver" in e for e in entries):
            found.append([name, old[0]])
    if env.get("ASCEND_HOME") and not env.get("ASCEND_HOME_PATH"):
        found.append(["ASCEND_HOME", env["ASCEND_HOME"]])
    if env.get("MS_DEV_CLOSE_VERSION_CHECK"):
        found.append(["MS_DEV_CLOSE_VERSION_CHECK", env["MS_DEV_CLOSE_VERSION_CHECK"]])
    return found


def _install(host: Host, finder: _Finder, root: str, names: list[str]) -> dict[str, Any]:
    """One CANN root: its versions and what of it is there."""
    value: dict[str, Any] = {
        "root": root, "names": [n for n in names if n != root], "version": "", "internal": "", "inner": "",
        "families": [], "arch": "", "toolkit": False, "layout": "closed", "ops": None, "opp_kernel": None,
        "kind": "toolkit", "set_env": "", "sourced": False, "file": None, "compiler": False, "required": {},
    }  # fmt: skip
    if posixpath.basename(root).startswith("cann"):
        value["layout"] = "open"
    for kind in ("nnae", "nnrt"):
        if f"/{kind}/" in root:
            value["kind"] = kind
    for part in ("compiler", "runtime", "toolkit"):
        raw = host.read(f"{root}/{part}/version.info", 1 << 16)
        info = parse_info(raw.out) if raw.state == "ok" else {}
        if part == "compiler":
            value["compiler"] = raw.state == "ok"
        if "Version" in info:
            value["internal"] = info["Version"][0]
            value["file"] = tuple(_line_of(raw, info["Version"][1]))[:3]
            value["toolkit"] = True
            folder = info.get("version_dir", ("", 0))[0]
            if minor(folder):
                value["version"] = folder
            value["required"] = {k: v[0] for k, v in info.items() if k.startswith("required_package_")}
            break
    for arch in ("aarch64", "x86_64"):
        raw = host.read(f"{root}/{arch}-linux/ascend_{value['kind']}_install.info", 1 << 16)
        info = parse_info(raw.out) if raw.state == "ok" else {}
        if "version" in info and minor(info["version"][0]):
            value["version"] = info["version"][0]
            value["inner"] = info.get("innerversion", ("", 0))[0]
            value["families"] = families(info.get("compatible_version", ("", 0))[0])
            value["arch"] = info.get("arch", (arch, 0))[0].replace("arm64", "aarch64")
            value["toolkit"] = True
            value["file"] = value["file"] or tuple(_line_of(raw, info["version"][1]))[:3]
            break
    if not value["version"]:
        hit = next((h for h in (_MARKET.search(n) for n in (root, *names)) if h), None)
        value["version"] = hit[1] if hit else ""
    if value["layout"] == "closed" and re.match(r"8\.[5-9]|9|[1-9]\d\.", value["version"]):
        value["layout"] = "open"
    inside = finder.inside(root, *value["names"])
    _operators(host, finder, root, value, inside)
    beside = posixpath.dirname(root)
    if "set_env.sh" in inside:
        value["set_env"] = f"{beside}/cann/set_env.sh" if f"{beside}/cann" in value["names"] else f"{root}/set_env.sh"
    elif f"{beside}/set_env.sh" in finder.look(f"{beside}/*"):
        value["set_env"] = f"{beside}/set_env.sh"
    return value


OPS = ("ops_math", "ops_nn", "ops_cv", "ops_transformer")


def _operators(host: Host, finder: _Finder, root: str, value: dict[str, Any], inside: set[str]) -> None:
    """The kernels package (up to 8.3, folder opp_kernel) or the ops packages (8.5 on, share/info) of a root.

    ``opp_kernel`` and ``ops`` stay None if nobody could look.
    """
    found: list[dict[str, str]] = []
    places = [("kernels", f"{root}/opp_kernel")]
    shared = [(posixpath.basename(p), p) for p in finder.look(f"{root}/share/info/*")[:64]]
    places += [(n, p) for n, p in shared if "ops" in n.lower() or "kernel" in n.lower()]
    if value["layout"] == "open" and not shared:
        places += [(n, f"{root}/share/info/{n}") for n in OPS]
    for name, path in places:
        raw = host.read(f"{path}/version.info", 1 << 16)
        info = parse_info(raw.out) if raw.state == "ok" else {}
        version = info.get("version_dir", ("", 0))[0]
        version = version if minor(version) else info.get("Version", ("", 0))[0]
        if version or any(path == p for _, p in shared):
            found.append({"package": name, "version": version})
    kernels = any(f["package"] == "kernels" for f in found)
    value["opp_kernel"] = True if kernels else ("opp_kernel" in inside if inside else None)
    seen = bool(inside)
    if value["layout"] == "open" and not found:
        # only a list of packages tells that one is missing
        seen = bool(shared) or host.read(f"{root}/share/info/runtime/version.info", 1 << 16).state == "ok"
    value["ops"] = found if found or seen else None


def _nnal(host: Host, version: str) -> list[dict[str, str]]:
    """Versions of NNAL's parts: the linked one, else the one of the CANN in use."""
    found = []
    for part in ("atb", "asdsip"):
        values: dict[str, str] = {}
        for name in filter(None, ("latest", version)):
            raw = host.read(f"{ASCEND}/nnal/{part}/{name}/version.info", 1 << 16)
            if raw.state == "ok":
                values = parse_nnal(raw.out)
                break
        version = next((v for k, v in values.items() if k.startswith("ascend-cann-") and not k.endswith("version")), "")
        if version:
            found.append({"package": part, "version": version})
    return found


# ------------------------------------------------------------------ Python and its packages

PYTHON_FACTS = ("ver.python", "ver.mindspore", "ver.mindformers", "ver.wheel")
_MINDSPORES = ("mindspore", "mindspore-ascend", "mindspore-gpu", "mindspore-cpu", "mindspore-dev")


def read_python(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """``ver.python`` and what its packages say of themselves."""
    raw = host.ask("python")
    value = data_of(raw)
    if (
        not isinstance(value, dict)
        or value.get("state", "ok") != "ok"
        or not (value.get("version") or value.get("pasted"))
    ):
        state = value.get("state") if isinstance(value, dict) else raw.state
        why = {"missing": "no_python", "timeout": "timeout", "not_recorded": "not_recorded", "denied": "denied"}.get(
            str(state), "python_failed"
        )
        told = (value.get("error") if isinstance(value, dict) else "") or raw.err
        said = " ".join(str(told).split())[:200]
        args = {"seconds": "5", "what": said or "python", "text": said}
        return [Unknown(name, why, "python_option", args) for name in PYTHON_FACTS]
    source = title(raw.key)
    python = Fact(
        "ver.python", value, Evidence(source, 0, _at(f"Python {value['version']}", value.get("executable", "")))
    )
    return [python, _mindspore(value, source), _mindformers(value, source), _wheel(value, source)]


def package(python: Mapping[str, Any], *names: str) -> Mapping[str, Any] | None:
    """The first of some packages that is installed."""
    packages = python.get("packages")
    for name in names:
        found = packages.get(name) if isinstance(packages, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


def requirement(found: Mapping[str, Any] | None, name: str) -> str:
    """What a package demands of another one, as pip writes it behind the name; empty if nothing."""
    for line in (found or {}).get("requires", ()):
        hit = re.match(rf"(?i){re.escape(name)}\s*\(?((?:[~=<>!]=?|===)[^;)]{{1,80}})", str(line))
        if hit:
            return hit[1].strip()
    return ""


def _mindspore(python: Mapping[str, Any], source: str) -> Fact | Unknown:
    own = python.get("mindspore")
    own = own if isinstance(own, Mapping) else {}
    packages = python.get("packages")
    name = next((n for n in _MINDSPORES if isinstance(packages, Mapping) and n in packages), "")
    found = package(python, name) or {}
    version = str(own.get("version") or found.get("version") or "")
    if not version:
        return Unknown("ver.mindspore", "no_mindspore", "python_option", applies=False)
    accepted = own.get("accepted")
    accepted = accepted if isinstance(accepted, Mapping) else {}
    value = {
        "version": version, "package": name or "mindspore", "dir": own.get("dir", ""), "seen": bool(own.get("dir")),
        "accepted": [str(v) for v in accepted.get("versions", ())], "accepted_source": accepted.get("source", ""),
        "accepted_line": accepted.get("line", 0), "needs_opp_kernel": bool(own.get("needs_opp_kernel")),
        "ascend": list(own.get("ascend") or ()), "built_with": dict(own.get("built_with") or {}),
        "requires": list(found.get("requires", ())), "requires_python": found.get("requires_python", ""),
    }  # fmt: skip
    return Fact("ver.mindspore", value, Evidence(source, 0, _at(f"mindspore {version}", value["dir"])))


def _mindformers(python: Mapping[str, Any], source: str) -> Fact | Unknown:
    found = package(python, "mindformers")
    if found is None or not found.get("version"):
        return Unknown("ver.mindformers", "no_mindformers", applies=False)
    own = python.get("mindformers")
    own = own if isinstance(own, Mapping) else {}
    value = {
        "version": str(found["version"]), "requires": list(found.get("requires", ())),
        "pin": requirement(found, "mindspore"), "map": own.get("version_map") or {},
        "map_source": own.get("source", ""), "missing": _not_on_pypi(str(found["version"])),
    }  # fmt: skip
    return Fact(
        "ver.mindformers", value, Evidence(source, 0, _at(f"mindformers {value['version']}", found.get("where", "")))
    )


def _not_on_pypi(mindformers: str) -> list[str]:
    """What the table says that a mindformers release needs and PyPI does not have."""
    from doctor import versions

    row = versions.load().mindformers_row(mindformers)
    return list(row["missing"]) if row else []


def _wheel(python: Mapping[str, Any], source: str) -> Fact | Unknown:
    own = python.get("mindspore")
    elf = own.get("elf") if isinstance(own, Mapping) else None
    if not isinstance(elf, Mapping):
        return Unknown("ver.wheel", "no_mindspore", applies=False)
    file = str(elf.get("file", ""))
    tag = re.search(r"\.cpython-(\d{2,4})", file)
    value = {
        "file": file, "machine": str(elf.get("machine") or ""), "tag": f"cp{tag[1]}" if tag else "",
        "host": str(python.get("machine") or ""), "python_tag": str(python.get("tag") or ""),
        "system": str(python.get("platform") or ""),
    }  # fmt: skip
    return Fact("ver.wheel", value, Evidence(source, 0, f"{file}: {value['machine']}"))


def read_chain(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """``ver.chain``: do they belong together, and if not, what is the least to change."""
    from doctor import chain

    have = chain.have_of(facts, present(facts))
    if not have.anything():
        return [Unknown("ver.chain", "nothing_to_chain", applies=present(facts) is not False)]
    value = chain.judge(have)
    seen = {part: facts.get(name) for part, name in _SEEN.items()}
    value["seen"] = {
        part: tuple(fact.evidence)[:3] for part, fact in seen.items() if isinstance(fact, Fact) and fact.evidence
    }
    python = facts.get("ver.python")
    for part in ("numpy", "protobuf"):
        found = package(python.value, part) if isinstance(python, Fact) else None
        if found is not None:
            said = _at(f"{part} {found.get('version', '')}", found.get("where", ""))
            value["seen"][part] = ("doctor:python", 0, said)
    own = facts.get("ver.mindspore")
    if isinstance(own, Fact) and own.value["accepted_line"]:
        said = f"self.version = {own.value['accepted']}"
        value["seen"]["accepted"] = (own.value["accepted_source"], own.value["accepted_line"], said[:300])
    return [Fact("ver.chain", value)]


_SEEN = {
    "driver": "ver.driver", "firmware": "ver.firmware", "cann": "ver.cann", "mindspore": "ver.mindspore",
    "mindformers": "ver.mindformers", "python": "ver.python", "wheel": "ver.wheel", "chip": "npu.table",
}  # fmt: skip
_NPU = ("npu.smi", "npu.board", "npu.pci", "npu.nodes", "npu.table")
_ALL = ("ver.driver", "ver.firmware", "ver.cann", *PYTHON_FACTS, *_NPU, "host.env", "host.system", "host.container")
PROBES = (
    Probe("ver.driver", "env", read_driver, ("ver.driver", "ver.firmware"), _NPU),
    Probe("ver.cann", "env", read_cann, ("ver.cann",), ("host.env",)),
    Probe("ver.python", "env", read_python, PYTHON_FACTS),
    Probe("ver.chain", "env", read_chain, ("ver.chain",), _ALL),
)
