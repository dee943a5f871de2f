"""VER504, 505, 508–511, 518–524, 526, 528, 534: the links of the version chain.

Source: what the machine says (MindSpore's accepted list, requirements and version map of mindformers, the firmware
range of the driver), then rules/versions.yaml; every link names which.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.model import Answer, Evidence, Fact, Unknown, Verdict, fail, not_applicable, passed, unknown
from doctor.version import AscendVersion

SOFT, UNSURE, WARN, ERROR = 2, 3, 4, 5
"""Levels of ``doctor.chain``."""

_SEVERITY = {SOFT: "advice", UNSURE: "advice", WARN: "warning", ERROR: "error"}
_CONFIDENCE = {"official": "likely", "derived": "likely", "unverified": "guess", "": "guess"}


_NPU_PARTS = frozenset(("driver", "firmware", "chip"))
"""Parts that a machine without an NPU has not."""


def links(chain: Fact, *ids: str) -> list[Mapping[str, Any]]:
    """The links of these ids that the chain has."""
    return [link for link in chain.value["links"] if link["id"] in ids]


def evidence(chain: Fact, *parts: str) -> list[Evidence]:
    """Where the versions of some parts were seen."""
    return [Evidence(*chain.value["seen"][part]) for part in parts if part in chain.value.get("seen", {})]


def plan(chain: Fact) -> dict[str, str]:
    """The proposals for texts: ``plan``, ``other1``, ``other2`` in one line each, ``step1`` … of the first.

    Each is a value of its own, for texts cut long values.
    """
    proposals = chain.value.get("proposals") or ()
    lines = [", ".join(map(_change, proposal["changes"])) for proposal in proposals]
    out = {"plan": lines[0]} if lines else {}
    out.update((f"other{n}", line) for n, line in enumerate(lines[1:], 1))
    steps = proposals[0]["commands"] if proposals else ()
    out.update((f"step{n}", step if n == len(steps) else f"{step};") for n, step in enumerate(steps, 1))
    return out


_CALLED = {"cann": "CANN", "mindspore": "MindSpore", "driver": "HDK", "python": "Python"}
"""Names in proposals that are the same in every language: driver and firmware of one release are an HDK."""


def _change(change: Mapping[str, Any]) -> str:
    name = _CALLED.get(change["what"], change["what"])
    return f"{name} {change['from']} -> {change['to']}" if change["from"] else f"{name} {change['to']}"


def told(chain: Fact, link: Mapping[str, Any]) -> dict[str, Any]:
    """What texts need of a link: both versions by name, what fits, whose word that is, and the plan."""
    (a, b), (left, right) = link["ends"], link["have"]
    wanted = [w.replace(",", ", ") if w[:1] in "<>=~!" else w for w in link["want"]]
    return {a: left, b: right, "want": wanted or "-", "source": link["source"] or "-", **plan(chain)}


def shown(chain: Fact, link: Mapping[str, Any]) -> list[Evidence]:
    """The evidence of a link: its two ends, and the line that holds the list."""
    own = ("accepted",) if link["authority"] == "machine" and link["line"] else ()
    return evidence(chain, *link["ends"], *own)


def absent(chain: Fact, *parts: str) -> Answer:
    """The answer where a link is missing: a part is not here, or not known."""
    have = chain.value["have"]
    gone = next((p for p in parts if have.get(p) == ""), None)
    if gone:
        return not_applicable("part_absent", what=gone)
    dark = next((p for p in parts if not have.get(p)), None)
    if dark in _NPU_PARTS and chain.value["npu"] is False and not any(have.get(p) for p in parts if p in _NPU_PARTS):
        return not_applicable("no_npu")
    if dark:
        return unknown("part_unknown", what=dark)
    return unknown("table_silent", what=" - ".join(f"{p} {have[p]}" for p in parts))


def _one(chain: Fact, name: str, parts: tuple[str, ...], *answers: str, confidence: str | None = None) -> Answer:
    """Judge one link: fail when it is broken or merely advised against (and, if given, for one of these answers)."""
    found = links(chain, name)
    if not found:
        return absent(chain, *parts)
    link = found[0]
    if link["level"] is None:
        have = dict(zip(link["ends"], link["have"], strict=True))
        npu_parts = _NPU_PARTS.intersection(have)
        if chain.value["npu"] is False and npu_parts and not any(have[part] for part in npu_parts):
            return not_applicable("no_npu")
        dark = next((p for p in link["ends"] if not have[p]), None)
        pair = " - ".join(f"{p} {v}" for p, v in have.items())
        return unknown("part_unknown", what=dark) if dark else unknown("table_silent", what=pair)
    if link["level"] >= SOFT and (not answers or link["answer"] in answers):
        sure = confidence or _CONFIDENCE[link["confidence"]]
        if link["level"] == UNSURE:
            sure = "guess"
        return fail(told(chain, link), *shown(chain, link), severity=_SEVERITY[link["level"]], confidence=sure)
    return passed(told(chain, link), *shown(chain, link))


def cann_outside_list(chain: Fact) -> Answer:
    """VER504: CANN is not in the list of the installed MindSpore, its own list first."""
    found = links(chain, "cann-mindspore")
    if found and found[0]["answer"] == "layout":
        return fail(told(chain, found[0]), *shown(chain, found[0])) if _unlisted(found[0]) else passed()
    return _one(chain, "cann-mindspore", ("cann", "mindspore"))


def _unlisted(link: Mapping[str, Any]) -> bool:
    cann = AscendVersion(link["have"][0])
    series = [w for w in link["want"] if AscendVersion(w).key[0][:2] == cann.key[0][:2]]
    return bool(link["want"]) and not series


def cann_too_new_layout(mindspore: Fact, cann: Fact, chain: Fact) -> Answer:
    """VER505: MindSpore 2.7.0 and 2.7.1 stop where there is no folder opp_kernel beside opp."""
    table = any(link["answer"] == "layout" for link in links(chain, "cann-mindspore"))
    if not mindspore.value["needs_opp_kernel"] and not table:
        return not_applicable("does_not_ask", what=f"mindspore {mindspore.value['version']}")
    use = in_use(cann)
    if use is None:
        return not_applicable("no_cann")
    args = {"mindspore": mindspore.value["version"], "cann": use["version"], "root": use["root"], **plan(chain)}
    if use["opp_kernel"] is None and not table:
        return unknown("not_recorded")
    seen = (mindspore.evidence, _file(use))
    return passed(args, *seen) if use["opp_kernel"] else fail(args, *seen)


def in_use(cann: Fact) -> Mapping[str, Any] | None:
    """The CANN the shell uses, else the only one that is installed, else the newest."""
    installs = [i for i in cann.value["installs"] if i["kind"] == "toolkit"]
    chosen = next((i for i in installs if i["sourced"]), None)
    if chosen is None and installs:
        chosen = max(installs, key=lambda i: _order(i["version"]))
    return chosen


def _order(text: str) -> AscendVersion:
    try:
        return AscendVersion(text)
    except ValueError:
        return AscendVersion("0")


def _file(install: Mapping[str, Any]) -> Evidence | None:
    return Evidence(*install["file"]) if install["file"] else None


def driver_too_old(chain: Fact) -> Answer:
    """VER508: the driver is below the floor of the CANN release, or older than everything its lists name."""
    return _one(chain, "driver-cann", ("driver", "cann"), "below_floor", "unlisted")


def driver_newer(chain: Fact) -> Answer:
    """VER509: the driver is newer than every one the CANN release was listed with."""
    found = links(chain, "driver-cann")
    if found and found[0]["answer"] == "newer":
        return fail(told(chain, found[0]), *shown(chain, found[0]))
    return _one(chain, "driver-cann", ("driver", "cann"), "newer")


def driver_unknown(driver: Fact | Unknown, chain: Fact | Unknown, container: Fact | Unknown) -> Answer:
    """VER510: there is an NPU, and neither the driver's file nor npu-smi says which driver."""
    if isinstance(driver, Fact):
        return passed({"driver": driver.value["version"]}, driver.evidence)
    npu = chain.value["npu"] if isinstance(chain, Fact) else None
    if npu is False or not driver.applies:
        return not_applicable("no_npu")
    if driver.why in ("not_recorded", "denied", "timeout", "crashed"):
        return unknown(driver.why, driver.how, **driver.args)
    if npu is None:
        return unknown("npu_unknown")
    inside = bool(isinstance(container, Fact) and container.value.get("inside"))
    path = driver.args.get("path") or "/usr/local/Ascend/driver/version.info"
    return fail({"path": path}, Evidence(path, 0, "no such file"), severity="warning" if inside else "error")


def firmware_mismatch(chain: Fact) -> Answer:
    """VER511: the driver's own verdict on its firmware, else the range in the driver's version.info."""
    return _one(chain, "driver-firmware", ("driver", "firmware"))


def python_unsupported(chain: Fact) -> Answer:
    """VER518: no wheel of this MindSpore for this Python."""
    return _one(chain, "mindspore-python", ("mindspore", "python"))


def python_not_advised(chain: Fact) -> Answer | list[Answer]:
    """VER519: MindSpore runs there, but mindformers or CANN were tested with other Pythons."""
    return _several(chain, ("mindformers-python", "cann-python"), ("python",))


def numpy_too_new(chain: Fact) -> Answer | list[Answer]:
    """VER520: numpy is outside the range of MindSpore, mindformers or CANN."""
    return _several(chain, ("mindspore-numpy", "mindformers-numpy", "cann-numpy"), ("numpy",))


def _several(chain: Fact, ids: tuple[str, ...], parts: tuple[str, ...]) -> Answer | list[Answer]:
    found = links(chain, *ids)
    known = [link for link in found if link["level"] is not None]
    if not known:
        return absent(chain, *parts) if not found else unknown("table_silent", what=parts[0])
    bad = [link for link in known if link["level"] >= SOFT]
    if not bad:
        have = chain.value["have"]
        return passed({part: have.get(part) for part in parts}, *evidence(chain, *parts))
    worst = max(link["level"] for link in bad)
    # what merely some manual says is not worth a line beside a real conflict
    return [
        fail({**told(chain, link), "who": f"{link['ends'][0]} {link['have'][0]}"}, *shown(chain, link),
             severity=_SEVERITY[link["level"]], confidence=_CONFIDENCE[link["confidence"]])
        for link in bad if link["level"] == worst or link["level"] >= WARN
    ]  # fmt: skip


def protobuf_conflict(chain: Fact) -> Answer:
    """VER521: protobuf is outside MindSpore's requirement; or MindSpore's and CANN's cannot both be met."""
    found = links(chain, "mindspore-protobuf", "cann-protobuf")
    own = next((link for link in found if link["id"] == "mindspore-protobuf"), None)
    paper = next((link for link in found if link["id"] == "cann-protobuf"), None)
    if own is None or own["level"] is None:
        return absent(chain, "mindspore", "protobuf")
    if own["level"] >= SOFT:
        args = {**told(chain, own), "who": f"mindspore {own['have'][0]}"}
        return fail(args, *shown(chain, own), severity=_SEVERITY[own["level"]], confidence="likely")
    if paper is not None and paper["level"] == SOFT and not _overlap(own["want"], paper["want"]):
        return fail({**told(chain, paper), "who": f"CANN {paper['have'][0]}"}, *shown(chain, paper),
                    severity="advice", confidence="guess")  # fmt: skip
    return passed(told(chain, own), *shown(chain, own))


def _overlap(mindspore: Any, cann: Any) -> bool:
    """Whether MindSpore's lower bound lies below CANN's upper one."""
    low = next((w.split(">=")[1].split(",")[0] for w in mindspore if ">=" in w), "0")
    high = next((w.split("<")[1].split(",")[0].lstrip("=") for w in cann if "<" in w), "999")
    try:
        return AscendVersion(low) < AscendVersion(high)
    except ValueError:
        return True


def glibcxx_too_old(chain: Fact) -> Answer:
    """VER522: the libstdc++ a process would load lacks the symbols MindSpore needs."""
    return _one(chain, "mindspore-glibcxx", ("mindspore",), confidence="certain")


def glibc_too_old(chain: Fact) -> Answer:
    """VER523: the system's glibc is older than MindSpore's wheels were built for."""
    return _one(chain, "mindspore-glibc", ("mindspore",), confidence="certain")


def gcc_old(python: Fact, cann: Fact) -> Answer:
    """VER524: gcc is older than CANN's manuals ask for (7.3.0) when operators are compiled."""
    if not cann.value["installs"]:
        return not_applicable("no_cann")
    gcc = python.value.get("gcc")
    if not isinstance(gcc, Mapping):
        return not_applicable("part_absent", what="gcc")
    version = str(gcc.get("version") or "")
    if not version[:1].isdigit() or version == "7":
        return unknown("part_unknown", what="gcc")
    args = {"gcc": version, "path": gcc.get("path", "")}
    seen = Evidence(str(gcc.get("path") or "gcc"), 0, f"gcc {version}")
    return fail(args, seen) if AscendVersion(version) < AscendVersion("7.3.0") else passed(args, seen)


def mindformers_pair(chain: Fact) -> Answer:
    """VER526: MindSpore is outside mindformers' pin (error) or not the release it names (warning)."""
    return _one(chain, "mindspore-mindformers", ("mindspore", "mindformers"))


def chip_unsupported(chain: Fact) -> Answer:
    """VER528: the chip is not among those this MindSpore is documented for; its list is that of mindformers, so only
    advice where mindformers is not installed (a machine for inference)."""
    answer = _one(chain, "mindspore-chip", ("mindspore", "chip"))
    if answer.verdict is Verdict.FAIL and chain.value["have"].get("mindformers") == "":
        return answer._replace(severity="advice")
    return answer


def family_mismatch(chain: Fact, driver: Fact, cann: Fact) -> Answer:
    """VER534: driver and toolkit name families (V100R001C<NN>) that neither declares compatible.

    Only asked where the table does not know the CANN release; the lists skip families, so it only advises.
    """
    found = links(chain, "driver-cann")
    if found and found[0]["level"] is not None:
        return not_applicable("table_knows", what=f"cann {found[0]['have'][1]}")
    use = in_use(cann)
    own = use["inner"].removeprefix("V100R001")[:3] if use else ""
    family = driver.value["family"]
    if use is None or not own or not family:
        return unknown("part_unknown", what="V100R001C<NN>")
    args = {"driver": driver.value["version"], "cann": use["version"], "left": family, "right": own}
    if family == own or own in driver.value["families"] or family in use["families"]:
        return passed(args, driver.evidence)
    return fail(args, driver.evidence, _file(use))
