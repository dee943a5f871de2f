"""VER516, 517, 527, 529, 530, 533: the wheels in the Python that trains.

Source: wheels on PyPI (plug-ins, ELF machine, file tags), their metadata, the pairs of Ascend Extension for PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from doctor.checks.environment.versions import plan
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

_OWNERS = ("mindspore", "mindspore-ascend", "mindspore-gpu", "mindspore-cpu", "mindspore-dev")


def _packages(python: Fact) -> Mapping[str, Mapping[str, Any]]:
    found = python.value.get("packages")
    return found if isinstance(found, Mapping) else {}


def _said(python: Fact, name: str) -> Evidence:
    package = _packages(python).get(name, {})
    where = package.get("where", "")
    return Evidence("doctor:python", 0, f"{name} {package.get('version', '')}" + (f" ({where})" if where else ""))


def cpu_wheel_only(mindspore: Fact, chain: Fact | Unknown) -> Answer:
    """VER516: this MindSpore has no Ascend plug-in, and there is an NPU."""
    value = mindspore.value
    if not value["seen"]:
        return unknown("not_recorded")
    args = {"package": value["package"], "version": value["version"], "path": value["dir"]}
    if value["ascend"]:
        return passed({**args, "plugin": value["ascend"][0]}, mindspore.evidence)
    npu = chain.value["npu"] if isinstance(chain, Fact) else None
    if npu is None:
        return unknown("npu_unknown")
    return fail(args, mindspore.evidence) if npu else not_applicable("no_npu")


def wrong_arch(wheel: Fact) -> Answer:
    """VER517: the compiled core is for another machine or system than this one."""
    value = wheel.value
    if not value["machine"] or not value["host"]:
        return unknown("part_unknown", what="ELF")
    args = {"file": value["file"], "machine": value["machine"], "host": value["host"], "system": value["system"]}
    same = value["machine"] == value["host"].replace("arm64", "aarch64").replace("AMD64", "x86_64")
    if value["system"].startswith("linux"):
        return passed(args, wheel.evidence) if same else fail(args, wheel.evidence)
    linux = value["file"].endswith(".so") and value["machine"] != "not ELF"
    return fail(args, wheel.evidence) if linux else passed(args, wheel.evidence)


def mindformers_incomplete(mindformers: Fact, python: Fact) -> Answer:
    """VER527: mindformers needs hyper-parallel, which is not on PyPI and not installed."""
    needs = [*mindformers.value["requires"], *mindformers.value["missing"]]
    wants = next((r for r in needs if re.match(r"(?i)hyper[-_]parallel", r)), "")
    args = {"version": mindformers.value["version"], "package": wants or "-"}
    if not wants:
        return passed(args, mindformers.evidence)
    if "hyper-parallel" in _packages(python):
        return passed(args, _said(python, "hyper-parallel"))
    return fail(args, mindformers.evidence)


def torch_npu_pair(python: Fact) -> Answer:
    """VER529: torch_npu is built for exactly one torch release; its number begins with that one's."""
    packages = _packages(python)
    if "torch" not in packages or "torch-npu" not in packages:
        return not_applicable("part_absent", what="torch" if "torch" not in packages else "torch_npu")
    torch, npu = (re.match(r"\d+\.\d+\.\d+", str(packages[n].get("version", ""))) for n in ("torch", "torch-npu"))
    if not torch or not npu:
        return unknown("part_unknown", what="torch_npu")
    args = {"torch": packages["torch"]["version"], "torch_npu": packages["torch-npu"]["version"]}
    seen = (_said(python, "torch"), _said(python, "torch-npu"))
    return passed(args, *seen) if torch.group(0) == npu.group(0) else fail(args, *seen)


def mindspore_absent(python: Fact, chain: Fact | Unknown) -> Answer:
    """VER530: there is no MindSpore in the Python that was asked."""
    args = {"python": python.value.get("executable", ""), "version": python.value.get("version", "")}
    found = next((n for n in _OWNERS if n in _packages(python)), None)
    if found or (python.value.get("mindspore") or {}).get("version"):
        return passed({**args, "package": found or "mindspore"}, python.evidence)
    if python.value.get("pasted"):
        return unknown("not_recorded")
    npu = chain.value["npu"] if isinstance(chain, Fact) else False
    proposed = plan(chain) if isinstance(chain, Fact) else {}
    return fail({**args, **proposed}, python.evidence, severity=None if npu else "advice")


def package_twice(python: Fact) -> Answer:
    """VER533: two distributions that bring the same folder mindspore, or what an interrupted pip left of one."""
    owners = [n for n in _OWNERS if n in _packages(python)]
    if not owners:
        return not_applicable("no_mindspore")
    again = [f"{name} {version} ({where})" for name, version, where in python.value.get("again", ())
             if name in (*_OWNERS, "mindformers")]  # fmt: skip
    left = [path for path in python.value.get("leftovers", ()) if "indspore" in path]
    found = (owners if len(owners) > 1 else []) + again + left
    args = {"list": found or owners, "python": python.value.get("executable", "")}
    return fail(args, *(Evidence("doctor:python", 0, one) for one in found)) if found else passed(args, python.evidence)
