"""VER501–503, 506, 507, 512–515, 531, 532: is CANN here, in use by this shell, whole, and only one.

Source: what set_env.sh writes, what MindSpore's own check reads, CANN's install guides (folders, packages).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from doctor.checks.environment.versions import in_use
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown
from doctor.version import AscendVersion


def _npu(chain: Fact | Unknown) -> bool | None:
    """Whether there is an NPU here; None is not known."""
    if isinstance(chain, Fact):
        npu: bool | None = chain.value["npu"]
        return npu
    return None if chain.applies else False


def _minor(text: str) -> str:
    hit = re.match(r"\d+\.\d+", text)
    return hit.group(0) if hit else ""


def _older(version: str, than: str) -> bool:
    try:
        return AscendVersion(version) < AscendVersion(than)
    except ValueError:
        return False


def _file(install: Mapping[str, Any]) -> Evidence | None:
    return Evidence(*install["file"]) if install["file"] else None


def _variable(cann: Fact) -> Evidence | None:
    name, value = cann.value["home_variable"], cann.value["home"]
    return Evidence("doctor:env", 0, f"{name}={value}") if name else None


def not_sourced(cann: Fact, chain: Fact | Unknown, mindspore: Fact | Unknown) -> Answer:
    """VER501: a CANN is installed and no variable of this shell names it.

    Without an NPU this is only advice; MindSpore before 2.4 found the default place by itself (RPATH).
    """
    value = cann.value
    use = in_use(cann)
    if use is None:
        return not_applicable("no_cann")
    if not value["env_known"]:
        return unknown("not_recorded")
    args = {
        "root": use["root"],
        "cann": use["version"] or "?",
        "set_env": use["set_env"] or f"{use['root']}/set_env.sh",
    }
    if value["home"] or value["env"]:
        return passed(args, cann.evidence)
    mild = _npu(chain) is False
    mild = mild or (isinstance(mindspore, Fact) and _older(mindspore.value["version"], "2.4.0"))
    return fail(args, _file(use), severity="advice" if mild else None)


def absent(cann: Fact, chain: Fact | Unknown) -> Answer:
    """VER502: there is an NPU and no CANN at all."""
    value = cann.value
    if value["installs"] or value["home"]:
        found = [i["version"] or i["root"] for i in value["installs"]]
        return passed({"cann": found or value["home"]}, cann.evidence)
    npu = _npu(chain)
    if npu is None:
        return unknown("npu_unknown")
    if npu and not value["env_known"]:
        return unknown("not_recorded")
    seen = chain.value["seen"].get("chip") if isinstance(chain, Fact) else None
    looked = Evidence("/usr/local/Ascend", 0, "no ascend-toolkit, no cann")
    return fail({}, looked, Evidence(*seen) if seen else None) if npu else not_applicable("no_npu")


def env_stale(cann: Fact, chain: Fact | Unknown) -> Answer:
    """VER503: the variable is set and there is no compiler/version.info below it."""
    value = cann.value
    if not value["env_known"]:
        return unknown("not_recorded")
    if not value["home"]:
        return not_applicable("not_set", name="ASCEND_HOME_PATH")
    args = {"variable": value["home_variable"], "path": value["home"]}
    if not value.get("home_read", True):
        return unknown("not_recorded")
    use = next((i for i in value["installs"] if i["sourced"]), None)
    mild = "advice" if _npu(chain) is False else None
    first = next(iter(value["env"].get(value["home_variable"], ())), "")
    if use is not None and use["root"] == first:
        return passed(args, _variable(cann)) if use["compiler"] else fail(args, _variable(cann), severity=mild)
    others = [i["version"] for i in value["installs"] if i["version"]]
    return fail({**args, "others": others or "-"}, _variable(cann), severity=mild)


def ops_missing(cann: Fact, chain: Fact | Unknown) -> Answer:
    """VER506: the kernels (up to 8.3) or ops (8.5 on) package is missing, or of another version than the toolkit."""
    use = in_use(cann)
    if use is None:
        return not_applicable("no_cann")
    package = "ops" if use["layout"] == "open" else "kernels"
    chip = chain.value["have"].get("chip") if isinstance(chain, Fact) else None
    args = {"cann": use["version"], "root": use["root"], "package": package, "chip": chip or "<chip>"}
    if use["ops"] is None:
        return unknown("not_recorded")
    mild = "advice" if _npu(chain) is False else None
    if not use["ops"]:
        return fail({**args, "found": "-"}, _file(use), severity=mild)
    for one in use["ops"]:
        if not _same(one["version"], use):
            return fail({**args, "found": f"{one['package']} {one['version']}"}, _file(use), severity=mild)
    return passed({**args, "found": f"{use['ops'][0]['package']} {use['ops'][0]['version']}"}, _file(use))


def _same(version: str, install: Mapping[str, Any]) -> bool:
    """Whether a version is that of a toolkit, in market or internal numbers; an unreadable one passes."""
    try:
        known = [AscendVersion(v) for v in (install["version"], install["internal"]) if v]
        return not known or AscendVersion(version) in known or _minor(version) == _minor(install["internal"]) != ""
    except ValueError:
        return True


def custom_op_mismatch(mindspore: Fact, cann: Fact, chain: Fact | Unknown) -> Answer:
    """VER507: the bundled operators were built with another CANN than the one in use, though the pair is accepted."""
    use = in_use(cann)
    if isinstance(chain, Fact) and any(
        k["id"] == "cann-mindspore" and (k["level"] or 0) > 1 for k in chain.value["links"]
    ):
        return not_applicable("said_by", id="VER504")
    if use is None:
        return not_applicable("no_cann")
    built = next(iter(mindspore.value["built_with"].values()), "")
    have = _minor(use["internal"]) or _minor(use["version"])
    if not built or not have:
        return unknown("part_unknown", what="custom_opp_compiler_version" if not built else "cann")
    args = {"built": built, "cann": use["version"], "mindspore": mindspore.value["version"]}
    return passed(args, mindspore.evidence) if _minor(built) == have else fail(args, mindspore.evidence, _file(use))


def te_missing(python: Fact, cann: Fact, mindspore: Fact, chain: Fact | Unknown) -> Answer:
    """VER512: CANN is in use and ``import te`` finds nothing."""
    if _npu(chain) is False:
        return not_applicable("no_npu")
    use = next((i for i in cann.value["installs"] if i["sourced"]), None)
    if use is None:
        return not_applicable("cann_not_in_use")
    where = (python.value.get("imports") or {}).get("te")
    args = {"cann": use["version"], "root": use["root"], "python": python.value.get("executable", "")}
    return passed({**args, "path": where}, python.evidence) if where else fail(args, python.evidence)


def te_stale(python: Fact, cann: Fact) -> Answer:
    """VER513: te comes from another CANN than the one in use, or from wheels an old one left in the environment."""
    te = python.value.get("te")
    if not isinstance(te, Mapping):
        return not_applicable("part_absent", what="te")
    use = next((i for i in cann.value["installs"] if i["sourced"]), None)
    if use is None:
        return not_applicable("cann_not_in_use")
    real = str(te.get("real") or te.get("dir") or "")
    version = str(te.get("version") or "")
    args = {"path": te.get("dir") or real, "cann": use["version"], "version": version}
    seen = Evidence("doctor:python", 0, f"te: {args['path']}")
    if any(real.startswith(root + "/") for root in cann.value["mixed"] if root != use["root"]):
        return not_applicable("said_by", id="VER515")
    own = tuple(f"{root}/" for root in (use["root"], *use["names"]))
    if real.startswith(own) or str(te.get("dir", "")).startswith(own):
        return passed(args, seen)
    others = [
        i
        for i in cann.value["installs"]
        if i["root"] != use["root"] and real.startswith(tuple(f"{n}/" for n in (i["root"], *i["names"])))
    ]
    if others:
        return fail({**args, "version": others[0]["version"]}, seen, _file(use))
    if version and use["internal"]:
        same = _minor(version) in (_minor(use["internal"]), _minor(use["version"]))
        return passed(args, seen) if same else fail(args, seen, _file(use))
    # up to CANN 8.1 the manual itself installs the wheels; without a version there is nothing to hold against them
    return fail(args, seen, severity="advice", confidence="guess")


def several(cann: Fact) -> Answer:
    """VER514: more than one CANN toolkit on this machine."""
    installs = [i for i in cann.value["installs"] if i["kind"] == "toolkit"]
    if not installs:
        return not_applicable("no_cann")
    use = next((i for i in installs if i["sourced"]), None)
    named = [f"{i['version'] or '?'} ({i['root']})" for i in installs]
    args = {"list": named, "cann": use["version"] if use else "-", "count": len(installs)}
    return fail(args, *(_file(i) for i in installs)) if len(installs) > 1 else passed(args, _file(installs[0]))


def mixed(cann: Fact, mindspore: Fact | Unknown) -> Answer:
    """VER515: the variables of one shell lead into different CANN roots; or nnae stands beside the toolkit for a
    MindSpore that prefers it (before 2.4)."""
    value = cann.value
    if not value["env_known"]:
        return unknown("not_recorded")
    roots = {i["root"]: i["version"] or "?" for i in value["installs"]}
    if value["mixed"]:
        seen = []
        for name, paths in value["env"].items():
            odd = [p for p in paths if p in value["mixed"]]
            if odd:
                seen.append(Evidence("doctor:env", 0, f"{name}: {', '.join(odd)}"))
        return fail({"list": [f"{roots.get(r, '?')} ({r})" for r in value["mixed"]]}, *seen)
    kinds = {i["kind"] for i in value["installs"]}
    if "nnae" in kinds and "toolkit" in kinds and isinstance(mindspore, Fact):
        nnae = next(i for i in value["installs"] if i["kind"] == "nnae")
        if _older(mindspore.value["version"], "2.4.0") and not value["home"]:
            return fail(
                {"list": [f"nnae {nnae['version']} ({nnae['root']})", "toolkit"]}, _file(nnae), severity="warning"
            )
    if not value["env"]:
        return not_applicable("cann_not_in_use")
    return passed({"list": [roots.get(value["sourced"], value["sourced"] or "-")]}, cann.evidence)


def legacy(cann: Fact) -> Answer:
    """VER531: settings of old manuals that nothing reads any more."""
    if not cann.value["env_known"]:
        return unknown("not_recorded")
    found = cann.value["legacy"]
    if not found:
        return passed({})
    names = [name for name, _ in found]
    return fail({"list": names}, *(Evidence("doctor:env", 0, f"{name}={value}"[:300]) for name, value in found))


def nnal_mismatch(cann: Fact) -> Answer:
    """VER532: NNAL (ATB) of another CANN series than the toolkit."""
    use = in_use(cann)
    found = cann.value["nnal"]
    if use is None or not found:
        return not_applicable("part_absent", what="nnal")
    if not use["version"]:
        return unknown("part_unknown", what="cann")
    args = {"cann": use["version"], "nnal": [f"{n['package']} {n['version']}" for n in found]}
    bad = [n for n in found if _minor(n["version"]) != _minor(use["version"])]
    return fail(args, _file(use)) if bad else passed(args, _file(use))
