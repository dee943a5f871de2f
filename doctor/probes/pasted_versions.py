"""Pasted version lists as the raw answers a host would have given: pip, conda, ``python -V``, version.info files.

Only forms that say what is installed: a requirements file says what somebody wants.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping

from doctor.hosts.ask_python import WANTED
from doctor.model import Raw
from doctor.probes.versions import ASCEND, parse_info, parse_version_cfg
from doctor.versions import minor

WHOLE = True
"""The command above a list is a piece of its own."""
_HEAD = re.compile(r"(?m)^\s*Package\s+Version\b")
_CONDA = re.compile(r"(?m)^# packages in environment at (\S+):")
_PROMPT = re.compile(r"(?m)^.{0,120}?[$#>]?\s*(?:python3?\S* -m )?pip3? (list|freeze)\b")
_ROW = re.compile(r"([A-Za-z][\w.-]{0,60})\s+(\d[\w.+!-]{0,40})(?:\s+\S+){0,3}")
_PIN = re.compile(r"([A-Za-z][\w.-]{0,60})==(\d[\w.+!-]{0,40})")
_REPORTED = re.compile(r"(?m)^\[(?:pip3?|conda)\] {1,4}\w[\w.-]{0,60}(?:==| {1,40})\d[\w.+!-]{0,40}")
"""A line of the environment report that torch, vLLM and others ask for."""
_PYTHON = re.compile(r"(?m)^(?:Python |python[ ]{2,})(3\.\d{1,2}\.\d{1,2})\b")
_TOOLKIT = "package_name=Ascend-cann-toolkit"
_BARE = 8
"""Pins without any command above them that are taken for the output of pip freeze."""
_KEPT = WANTED | {"mindspore", "mindspore-ascend", "mindspore-gpu", "mindspore-cpu", "mindspore-dev"}


def packages(text: str) -> dict[str, str]:
    """Name → version of what ``pip list``, ``pip freeze`` or ``conda list`` printed; empty for anything else."""
    lines = text[: 1 << 20].splitlines()[:20000]
    if _HEAD.search(text) or _CONDA.search(text):
        row = _ROW
    elif prompt := _PROMPT.search(text):
        # rows cut out by a pipe into grep have no head
        return _named(text[prompt.end() : 1 << 20].splitlines()[:20000], _ROW if prompt[1] == "list" else _PIN)
    elif _REPORTED.search(text):
        bare = [line.partition("] ")[2] for line in lines if line.startswith(("[pip", "[conda] "))]
        return _named(bare, _ROW) | _named(bare, _PIN)
    elif _is_freeze(lines):
        row = _PIN
    else:
        return {}
    return _named(lines, row)


def _named(lines: list[str], row: re.Pattern[str]) -> dict[str, str]:
    """Name → version of the rows of one form; of two the first."""
    found: dict[str, str] = {}
    for line in lines:
        hit = row.fullmatch(line.strip()[:300])
        if hit:
            found.setdefault(re.sub(r"[-_.]+", "-", hit[1]).lower(), hit[2])
    return found


def _is_freeze(lines: list[str]) -> bool:
    """Whether the lines are nothing but exact pins in order, as pip freeze prints them and people rarely write."""
    rows = [line.strip() for line in lines if line.strip()]
    names = [hit[1].lower().replace("_", "-") for hit in map(_PIN.fullmatch, (r[:300] for r in rows)) if hit]
    return len(names) >= _BARE and len(names) == len(rows) and names == sorted(names)


def from_text(text: str) -> dict[str, str | Raw]:
    """Key → answer of every question the text answers; {} for a text that lists no versions."""
    found: dict[str, str | Raw] = {}
    if "==" in text or "ersion" in text or "ython" in text or "pip" in text or "conda" in text:
        python = _python(text)
        if python is not None:
            found["ask python"] = python
    if "ersion=" in text or "_version=" in text:
        found.update(_files(text))
    return found


def of_facts(facts: Mapping[str, str]) -> dict[str, Raw]:
    """Key → answer, from versions that a text names one by one: ``{"cann": "8.0.RC2", "mindspore": "2.6.0"}``."""
    found: dict[str, str | Raw] = {}
    named = {name.replace("_", "-"): version for name, version in facts.items() if name.replace("_", "-") in _KEPT}
    if named:
        found["ask python"] = _answer(named, facts.get("python", ""))
    cann = facts.get("cann", "")
    if minor(cann):
        root = _root(cann)
        found[f"file {root}/aarch64-linux/ascend_toolkit_install.info"] = f"{_TOOLKIT}\nversion={cann}\n"
        _rooted(found, root)
    if minor(facts.get("driver", "")):
        found[f"file {ASCEND}/driver/version.info"] = f"Version={facts['driver']}\n"
    return {key: answer if isinstance(answer, Raw) else Raw(key, "ok", answer, code=0) for key, answer in found.items()}


def _python(text: str) -> Raw | None:
    kept = {name: v for name, v in packages(text).items() if name in _KEPT}
    version = _PYTHON.search(text)
    return _answer(kept, version[1] if version else "") if kept else None


def _answer(kept: Mapping[str, str], version: str) -> Raw:
    value: dict[str, object] = {
        "state": "ok",
        "version": version,
        "packages": {name: {"version": v, "where": ""} for name, v in kept.items()},
        "imports": {},
        "again": [],
        "leftovers": [],
        "pasted": True,
    }
    return Raw("ask python", "ok", json.dumps(value))


def _files(text: str) -> dict[str, str | Raw]:
    """version.info and install.info files by what they say about themselves; several may stand in one text."""
    found: dict[str, str | Raw] = {}
    for block in _blocks(text):
        info = {key: value for key, (value, _) in parse_info(block).items()}
        cfg = parse_version_cfg(block) if "_running_version=" in block else {}
        if "compatible_version_fw" in info or "ascendhal_version" in info:
            found.setdefault(f"file {ASCEND}/driver/version.info", block)
        elif "compatible_version_drv" in info or "firmware_version" in info:
            found.setdefault(f"file {ASCEND}/firmware/version.info", block)
        elif info.get("package_name", "").startswith("Ascend-cann-toolkit") and minor(info.get("version", "")):
            place = info.get("path", "")
            root = posixpath.dirname(place) if place.endswith("-linux") else _root(info["version"])
            arch = info.get("arch", "aarch64")
            found.setdefault(f"file {root}/{arch}-linux/ascend_toolkit_install.info", block)
            _rooted(found, root)
        elif minor(info.get("version_dir", "")) and "Version" in info:
            root = _root(info["version_dir"])
            found.setdefault(f"file {root}/compiler/version.info", block)
            _rooted(found, root)
        elif cfg.get("compiler_running_version"):
            internal, market = cfg["compiler_running_version"][0]
            if minor(market):
                root = _root(market)
                found.setdefault(f"file {root}/compiler/version.info", f"Version={internal}\nversion_dir={market}\n")
                _rooted(found, root)
    return found


def _blocks(text: str) -> list[str]:
    """Runs of key=value lines, each a file of its own if its first key comes again."""
    out: list[str] = []
    lines: list[str] = []
    keys: set[str] = set()
    for line in text[: 1 << 18].splitlines()[:5000]:
        key, equal, _ = line.partition("=")
        key = key.strip()
        plain = bool(equal) and re.fullmatch(r"[\w.-]{1,80}", key) is not None
        if lines and (not plain or key in keys):
            out.append("\n".join(lines) + "\n")
            lines, keys = [], set()
        if plain:
            lines.append(line.strip())
            keys.add(key)
    return [*out, "\n".join(lines) + "\n"] if lines else out


def _root(version: str) -> str:
    """Where a CANN of this version stands by default."""
    open_layout = re.match(r"8\.[5-9]|9\.|\d\d\.", version)
    return f"{ASCEND}/cann-{version}" if open_layout else f"{ASCEND}/ascend-toolkit/{version}"


def _rooted(found: dict[str, str | Raw], root: str) -> None:
    """Make the root visible to the probe that looks for CANN."""
    base = posixpath.dirname(root)
    pattern = f"{base}/cann*" if posixpath.basename(root).startswith("cann") else f"{base}/*"
    row = {
        "path": root,
        "kind": "dir",
        "mode": "755",
        "user": "",
        "group": "",
        "size": 0,
        "target": "",
        "r": True,
        "w": False,
    }
    found.setdefault(f"look {pattern}", Raw(f"look {pattern}", "ok", json.dumps([row])))
