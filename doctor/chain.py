"""The version chain as data: its links, which of them hold, and the least to change so that all hold.

What the machine itself says comes first (the list inside the installed MindSpore, the requirements and the version map
of the installed mindformers, the driver's own firmware range), then the table. A link has three kinds of good answer,
*recommended*, *accepted* and *newer*, and none where nothing is known: silence never fails anybody.

The search is exact: sets of parts are tried by rising cost (pip packages are cheap, a new Python dearer, CANN dearer
still, driver and firmware dearest, for they need root and a reboot), within a set every combination that the table
has. A set whose subset already makes the chain whole is not offered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, NamedTuple

from doctor import versions
from doctor.model import Fact, Unknown
from doctor.version import AscendVersion
from doctor.versions import Table, hdk_fits, minor, ordered, satisfies

RECOMMENDED, ACCEPTED, SOFT, UNSURE, WARN, ERROR = range(6)
"""Levels of a link. SOFT: outside what a manual was written for, proposals may use it; UNSURE: nothing confirms the
pair, proposals avoid it; from WARN on the chain is not whole."""

PARTS = ("driver", "cann", "mindspore", "mindformers", "python", "numpy", "protobuf")
"""What can be changed; the firmware goes with the driver."""

COST = {"numpy": 1, "protobuf": 1, "mindformers": 2, "mindspore": 3, "python": 8, "cann": 20, "driver": 100}

Values = Mapping[str, str | None]
"""Part → version; None is not known, "" is known not to be here."""


class Have(NamedTuple):
    """What is here. ``values`` by part, and what the machine says about itself."""

    values: dict[str, str | None]
    npu: bool | None = None
    """whether there is an NPU: then CANN and MindSpore must be there"""
    internal: str = ""
    layout: str = ""
    opp_kernel: bool | None = None
    accepted: tuple[str, ...] = ()
    accepted_source: str = ""
    accepted_line: int = 0
    needs_opp_kernel: bool = False
    mindspore_requires: tuple[str, ...] = ()
    pin: str = ""
    mindformers_requires: tuple[str, ...] = ()
    version_map: Mapping[str, Any] = MappingProxyType({})
    version_map_source: str = ""
    wheel_tag: str = ""
    firmware: str | None = None
    compatibility: str = ""
    """the driver's own verdict on its firmware: OK · NOK · "" """
    driver_firmware: tuple[tuple[str, str], ...] = ()
    firmware_drivers: tuple[str, ...] = ()
    driver_origin: str = ""
    chip: str | None = None
    arch: str = ""
    glibc: str | None = None
    glibcxx: str | None = None
    executable: str = ""
    container: bool | None = None

    def anything(self) -> bool:
        """Whether any part that a chain is made of is known to be here."""
        return any(self.values.get(p) for p in ("driver", "cann", "mindspore")) or bool(self.npu)


class Link(NamedTuple):
    """Two parts and whether they go together.

    ``answer``: recommended · accepted · newer · unlisted · outside · layout · below_floor · absent · unknown.
    ``want``: what would fit, in the words of the authority. ``authority``: machine · table · "".
    """

    id: str
    ends: tuple[str, str]
    have: tuple[str, str]
    answer: str
    level: int | None
    want: tuple[str, ...] = ()
    authority: str = ""
    source: str = ""
    line: int = 0
    confidence: str = ""

    @property
    def broken(self) -> bool:
        return self.level is not None and self.level >= WARN


HARD = ("driver-cann", "cann-mindspore", "mindspore-mindformers", "mindspore-python", "mindspore-glibcxx")
"""Links on which a proposal must have the table's word."""


SCORED = (*HARD, "mindformers-python", "mindspore-chip")
"""Links that make one proposal better than another; what CANN's manual says of numpy and protobuf does not."""

PAIRS = (
    ("driver", "cann"), ("cann", "mindspore"), ("mindspore", "mindformers"), ("mindspore", "python"),
    ("cann", "python"), ("mindformers", "python"), ("mindspore", "numpy"), ("mindformers", "numpy"),
    ("mindspore", "protobuf"), ("cann", "protobuf"),
)  # fmt: skip
"""Parts that have a link of two; each is judged by the method of ``Judge`` named after both."""


def _fits(link: Link) -> bool:
    """Whether a proposal may hold this link."""
    return link.id not in HARD if link.level is None else link.level <= SOFT


class Judge:
    """Judges assignments of versions: those that are here by the machine's own word, others by the table's."""

    def __init__(self, table: Table, have: Have) -> None:
        self.table, self.have = table, have
        self._memo: dict[tuple[str, str, str, str], Link] = {}
        self._pools: dict[tuple[str, str | None], list[str]] = {}

    # -------------------------------------------------------------- the links

    def links(self, values: Values) -> list[Link]:
        """Every link between parts that are there."""
        return list(self._each(values))

    def pair(self, a: str, b: str, left: str, right: str) -> Link:
        """The link of two parts that have one of their own, see ``PAIRS``."""
        key = (a, b, left, right)
        found = self._memo.get(key)
        if found is None:
            judge: Callable[[str, str], Link] = getattr(self, f"{a}_{b}")
            found = self._memo[key] = judge(left, right)
        return found

    def _each(self, v: Values) -> Iterator[Link]:
        for a, b in PAIRS:
            left, right = v.get(a), v.get(b)
            if left and right:
                yield self.pair(a, b, left, right)
        cann, numpy, python = v.get("cann"), v.get("numpy"), v.get("python")
        if cann and numpy and python:
            yield self.cann_numpy(cann, numpy, python)
        if v.get("mindspore"):
            yield from self._of_mindspore(str(v["mindspore"]))

    def _of_mindspore(self, mindspore: str) -> Iterator[Link]:
        row = self.table.mindspore_row(mindspore)
        if not row:
            return
        for name, have in (("glibcxx", self.have.glibcxx), ("glibc", self.have.glibc)):
            if have and row[name]:
                ends, both = ("mindspore", name), (mindspore, have)
                low = _below(have, row[name])
                answer, level = ("outside", ERROR) if low else ("accepted", ACCEPTED)
                yield Link(f"mindspore-{name}", ends, both, answer, level, (f">={row[name]}",), "table",
                           _source(self.table, ["WHL"]), 0, "official")  # fmt: skip
        chip = self.table.chip(self.have.chip)
        if chip and row["chips"]:
            ok = chip["cann_chip"] in row["chips"]
            families = tuple(c["family"] for c in self.table.chips if c["cann_chip"] in row["chips"])
            yield Link("mindspore-chip", ("mindspore", "chip"), (mindspore, str(self.have.chip)),
                       "accepted" if ok else "unlisted", ACCEPTED if ok else WARN, families, "table",
                       _source(self.table, ["MF_README"]), 0, "derived")  # fmt: skip

    def driver_firmware(self) -> Link | None:
        """Driver and firmware of this machine; None without a driver."""
        driver, firmware = self.have.values.get("driver"), self.have.firmware
        if not driver:
            return None
        ends, both = ("driver", "firmware"), (driver, firmware or "")
        say = self.have.compatibility.upper()
        ranges = tuple(f"{low} - {high}" for low, high in self.have.driver_firmware)
        if say in ("OK", "NOK"):
            answer, level = ("accepted", ACCEPTED) if say == "OK" else ("outside", ERROR)
            return Link("driver-firmware", ends, both, answer, level, ranges, "machine",
                        "npu-smi info -t board", 0, "official")  # fmt: skip
        if not firmware:
            return Link("driver-firmware", ends, both, "unknown", None)
        inside = [_between(firmware, low, high) for low, high in self.have.driver_firmware]
        known = [one for one in inside if one is not None]
        listed = [driver.lower().startswith(p.lower().rstrip(".")) for p in self.have.firmware_drivers]
        if any(known) or any(listed):
            return Link(
                "driver-firmware", ends, both, "accepted", ACCEPTED, ranges, "machine", "version.info", 0, "derived"
            )
        if not known and not listed:
            return Link("driver-firmware", ends, both, "unknown", None)
        # the driver's own range speaks; the list of the firmware alone skips releases that belong to it
        level = ERROR if known else UNSURE
        return Link("driver-firmware", ends, both, "outside", level, ranges or self.have.firmware_drivers, "machine",
                    "version.info", 0, "derived")  # fmt: skip

    def driver_cann(self, driver: str, cann: str) -> Link:
        """The driver (HDK) against the row of the CANN release."""
        ends, both = ("driver", "cann"), (driver, cann)
        row = self.table.cann_row(cann)
        have = ordered(driver)
        if row is None or have is None:
            return Link("driver-cann", ends, both, "unknown", None)
        hdk = row["hdk"]
        want = (*hdk["recommended"], *hdk["accepted"])
        source = _source(self.table, hdk["source"])

        def link(answer: str, level: int) -> Link:
            return Link("driver-cann", ends, both, answer, level, want, "table", source, 0, hdk["confidence"])

        if any(hdk_fits(driver, p) for p in hdk["recommended"]):
            return link("recommended", RECOMMENDED)
        if hdk["floor"] and have < AscendVersion(hdk["floor"]) and minor(driver) != hdk["floor"]:
            return link("below_floor", ERROR)
        tested = hdk["tested_from"]
        if any(hdk_fits(driver, p) for p in hdk["accepted"]):
            if tested and have < AscendVersion(tested):
                want = tuple(p for p in want if not _below(re.sub(r"(?i)\.X$", "", p), tested))
                return link("unlisted", WARN)
            return link("accepted", ACCEPTED)
        if all(_above(driver, p) for p in want):
            return link("newer", ACCEPTED)
        if tested and have < AscendVersion(tested):
            return link("unlisted", WARN)
        return link("unlisted", UNSURE)

    def cann_mindspore(self, cann: str, mindspore: str) -> Link:
        """MindSpore's list of CANN releases: its own if this MindSpore is the installed one, else the table's."""
        ends, both = ("cann", "mindspore"), (cann, mindspore)
        row = self.table.mindspore_row(mindspore)
        here = mindspore == self.have.values.get("mindspore")
        same_cann = cann == self.have.values.get("cann")
        accepted: Sequence[str] = self.have.accepted if here else ()
        authority, source, line, confidence = "machine", self.have.accepted_source, self.have.accepted_line, "official"
        if not accepted and row:
            accepted, authority, line = row["cann"]["accepted"], "table", 0
            source, confidence = _source(self.table, row["cann"]["source"]), row["cann"]["accepted_confidence"]
        cann_row = self.table.cann_row(cann)
        named = [self.table.cann_row(c) for c in row["cann"]["recommended"]] if row else []
        internal = minor(self.have.internal) if same_cann and self.have.internal else self.table.internal(cann)
        want = tuple(row["cann"]["recommended"][-1:]) if row else ()
        want += tuple(m for i in accepted for m in self.table.market(i) if m not in want)

        def link(answer: str, level: int | None) -> Link:
            return Link("cann-mindspore", ends, both, answer, level, want, authority, source, line, confidence)

        needs = self.have.needs_opp_kernel if here and self.have.accepted else bool(row and row["opp_kernel"])
        layout = (self.have.layout if same_cann else "") or (cann_row["layout"] if cann_row else "")
        if needs and layout == "open" and not (same_cann and self.have.opp_kernel):
            return link("layout", ERROR)
        # the last of a row's recommendations is the commercial release; a row of its own series counts as it
        fits = cann_row is not None and any(r is not None and r["release"] == cann_row["release"] for r in named)
        fits = fits or (
            cann_row is not None and any(r is not None and r["internal"] == cann_row["internal"] for r in named)
        )
        if accepted and internal:
            if internal in accepted:
                # a recommendation that was only concluded counts as accepted
                sure = fits and row is not None and row["cann"]["confidence"] == "official"
                return link("recommended", RECOMMENDED) if sure else link("accepted", ACCEPTED)
            return link("outside", WARN if confidence != "unverified" else UNSURE)
        if row and want and self.table.before(cann):
            return link("outside", WARN)
        if fits:
            return link("recommended", RECOMMENDED)
        return link("unknown", None)

    def mindspore_mindformers(self, mindspore: str, mindformers: str) -> Link:
        """mindformers against MindSpore: its pin, its version map, then the table."""
        ends, both = ("mindspore", "mindformers"), (mindspore, mindformers)
        here = mindformers == self.have.values.get("mindformers")
        row = self.table.mindformers_row(mindformers)
        stem = re.sub(r"\.?post\d+$", "", mindspore)
        pin = (self.have.pin if here else "") or (row["pin"] if row else "")
        authority = "machine" if here and self.have.pin else "table"
        source, confidence = (_source(self.table, row["source"]), row["confidence"]) if row else ("", "")
        prefer, support = _mapped(self.have.version_map, "mf", mindformers) if here else ([], [])
        if prefer or support:
            authority, source, confidence = "machine", self.have.version_map_source, "official"
        elif authority == "machine":
            source, confidence = f"Requires-Dist: mindspore{pin}", "official"
        named = prefer or (row["mindspore"] if row else [])
        also = support or (row["accepted"] if row else [])
        want = tuple(dict.fromkeys([*named, *also])) or ((f"mindspore{pin}",) if pin else ())

        def link(answer: str, level: int | None) -> Link:
            return Link("mindspore-mindformers", ends, both, answer, level, want, authority, source, 0, confidence)

        inside = satisfies(stem, pin) if pin else None
        if _among(stem, named):
            return link("recommended", RECOMMENDED)
        if _among(stem, also) and inside is not False:
            return link("accepted", ACCEPTED)
        if inside is False:
            return link("outside", ERROR)
        if not want:
            return link("unknown", None)
        return link("unlisted", WARN)

    def mindspore_python(self, mindspore: str, python: str) -> Link:
        """Whether there is a wheel of this MindSpore for this Python."""
        ends, both = ("mindspore", "python"), (mindspore, python)
        row = self.table.mindspore_row(mindspore)
        here = mindspore == self.have.values.get("mindspore") and python == self.have.values.get("python")
        listed = tuple(row["python"]) if row else ()
        source = _source(self.table, ["PYPI", "REL"])
        if here and self.have.wheel_tag:
            ok = self.have.wheel_tag == "cp" + minor(python).replace(".", "")
            if not ok:
                want = listed or (_python_of(self.have.wheel_tag),)
                return Link("mindspore-python", ends, both, "outside", ERROR, want, "machine",
                            f"_c_expression for {self.have.wheel_tag}", 0, "official")  # fmt: skip
            if listed and minor(python) not in listed:
                # a wheel of somebody's own, or one that was moved here
                return Link("mindspore-python", ends, both, "outside", ERROR, listed, "table", source, 0, "unverified")
            if not listed:
                return Link("mindspore-python", ends, both, "accepted", ACCEPTED, (), "machine", "", 0, "official")
        if not listed:
            return Link("mindspore-python", ends, both, "unknown", None)
        ok = minor(python) in listed
        return Link("mindspore-python", ends, both, "recommended" if ok else "outside", RECOMMENDED if ok else ERROR,
                    listed, "table", source, 0, "official")  # fmt: skip

    def cann_python(self, cann: str, python: str) -> Link:
        """The Python range of CANN's manual: not more than advice, MindSpore brings what it uses."""
        row = self.table.cann_row(cann)
        spec, source = (row["python"], row["source"]) if row else ("", [])
        return self._range("cann-python", ("cann", "python"), (cann, python), python, spec, SOFT, source, "derived")

    def mindformers_python(self, mindformers: str, python: str) -> Link:
        """The Python that mindformers was tested with."""
        ends, both = ("mindformers", "python"), (mindformers, python)
        row = self.table.mindformers_row(mindformers)
        if not row or not row["python"]:
            return Link("mindformers-python", ends, both, "unknown", None)
        ok = minor(python) in row["python"]
        return Link("mindformers-python", ends, both, "recommended" if ok else "unlisted", RECOMMENDED if ok else SOFT,
                    tuple(row["python"]), "table", _source(self.table, ["MF_README"]), 0, "official")  # fmt: skip

    def mindspore_numpy(self, mindspore: str, numpy: str) -> Link:
        """MindSpore's own requirement, and what was seen to work where that is narrower."""
        ends, both = ("mindspore", "numpy"), (mindspore, numpy)
        row = self.table.mindspore_row(mindspore)
        own = self._required("mindspore", mindspore, self.have.mindspore_requires, "numpy")
        works = row["numpy_works"] if row else ""
        if works and satisfies(numpy, works) is False:
            source = _source(self.table, row["numpy_source"] if row else [])
            return Link("mindspore-numpy", ends, both, "outside", WARN, (works,), "table", source, 0, "derived")
        if own:
            return self._range("mindspore-numpy", ends, both, numpy, own, WARN, [], "official", machine=True)
        return self._range("mindspore-numpy", ends, both, numpy, row["numpy"] if row else "", WARN, ["WHL"], "official")

    def mindformers_numpy(self, mindformers: str, numpy: str) -> Link:
        """mindformers' requirement."""
        ends, both = ("mindformers", "numpy"), (mindformers, numpy)
        own = self._required("mindformers", mindformers, self.have.mindformers_requires, "numpy")
        if own:
            return self._range("mindformers-numpy", ends, both, numpy, own, WARN, [], "official", machine=True)
        row = self.table.mindformers_row(mindformers)
        return self._range(
            "mindformers-numpy", ends, both, numpy, row["numpy"] if row else "", WARN, ["MF_META"], "official"
        )

    def cann_numpy(self, cann: str, numpy: str, python: str) -> Link:
        """The numpy range of CANN's manual; up to 8.3 it asks for one so old that it is only mentioned."""
        ends, both = ("cann", "numpy"), (cann, numpy)
        row = self.table.cann_row(cann)
        fitting = [n for n in (row["numpy"] if row else ()) if not n["python"] or satisfies(minor(python), n["python"])]
        if not row or not fitting:
            return Link("cann-numpy", ends, both, "unknown", None)
        level = WARN if row["layout"] == "open" and row["numpy_confidence"] == "official" else SOFT
        return self._range("cann-numpy", ends, both, numpy, fitting[0]["range"], level, row["numpy_source"],
                           row["numpy_confidence"])  # fmt: skip

    def mindspore_protobuf(self, mindspore: str, protobuf: str) -> Link:
        """MindSpore's requirement."""
        ends, both = ("mindspore", "protobuf"), (mindspore, protobuf)
        own = self._required("mindspore", mindspore, self.have.mindspore_requires, "protobuf")
        if own:
            return self._range("mindspore-protobuf", ends, both, protobuf, own, WARN, [], "official", machine=True)
        row = self.table.mindspore_row(mindspore)
        return self._range(
            "mindspore-protobuf", ends, both, protobuf, row["protobuf"] if row else "", WARN, ["WHL"], "official"
        )

    def cann_protobuf(self, cann: str, protobuf: str) -> Link:
        """The protobuf of CANN's manual: a conflict on paper, not seen on an NPU."""
        row = self.table.cann_row(cann)
        spec, source = (row["protobuf"], row["source"]) if row else ("", [])
        ends, both = ("cann", "protobuf"), (cann, protobuf)
        return self._range("cann-protobuf", ends, both, protobuf, spec, SOFT, source, "unverified")

    def _required(self, part: str, version: str, requires: Iterable[str], name: str) -> str:
        if version != self.have.values.get(part):
            return ""
        for line in requires:
            hit = re.match(rf"(?i){name}\s*\(?([~=<>!][^;)]{{1,80}})", line)
            if hit:
                return hit[1].strip()
        return ""

    def _range(
        self, name: str, ends: tuple[str, str], both: tuple[str, str], version: str, spec: str, level: int,
        source: Sequence[str], confidence: str, *, machine: bool = False,
    ) -> Link:  # fmt: skip
        ok = satisfies(version, spec) if spec else None
        if ok is None:
            return Link(name, ends, both, "unknown", None)
        said = f"Requires-Dist of {ends[0]}" if machine else _source(self.table, source)
        return Link(name, ends, both, "accepted" if ok else "outside", ACCEPTED if ok else level, (spec,),
                    "machine" if machine else "table", said, 0, confidence)  # fmt: skip

    # -------------------------------------------------------------- whole or not

    def missing(self, values: Values) -> list[str]:
        """Parts that an NPU host must have and does not."""
        if not self.have.npu and not values.get("cann"):
            return []
        needed = ("driver", "cann", "mindspore") if self.have.npu else ("mindspore",)
        return [p for p in needed if values.get(p) == ""]

    def whole(self, values: Values, changed: Iterable[str] = ()) -> bool:
        """Whether every link holds and nothing is missing. Links that touch a changed part must hold by the table's
        word; the others may be what they were."""
        touched = set(changed)
        if self.missing(values):
            return False
        for link in self.links(values):
            if not touched.intersection(link.ends):
                if link.broken:
                    return False
            elif not _fits(link):
                return False
        return True

    # -------------------------------------------------------------- proposals

    def candidates(self, part: str, python: str | None = None) -> list[str]:
        """Versions of a part that a proposal may name, oldest first; those of numpy that exist for a Python."""
        key = (part, python if part == "numpy" else None)
        if key not in self._pools:
            self._pools[key] = self._candidates(part, python)
        return self._pools[key]

    def _candidates(self, part: str, python: str | None) -> list[str]:
        table = self.table
        if part == "cann":
            return [r["release"] for r in table.cann]
        if part == "mindspore":
            return [r["release"] for r in table.mindspore if "rc" not in r["release"]]
        if part == "mindformers":
            return [r["release"] for r in table.mindformers if r["pypi"] and not r["missing"]]
        if part == "driver":
            found = {
                p for r in table.cann for p in r["hdk"]["recommended"] + r["hdk"]["accepted"] if not p.endswith("X")
            }
            found |= {r["hdk"] for r in table.mindformers if r["hdk"]}
            return sorted(found, key=AscendVersion)
        if part == "numpy":
            rows = table.data["numpy"]
            return [r["release"] for r in rows if not python or satisfies(minor(python), r["python"]) is not False]
        listed: list[str] = table.data[part]
        return listed

    def propose(self, most: int = 3) -> list[dict[str, Any]]:
        """The cheapest set of changes that makes the chain whole, then others; empty if it is whole or none does.

        No alternative goes back to an old CANN with an old MindSpore, or asks for another Python, unless the best does.
        """
        if self.whole(self.have.values):
            return []
        found: list[tuple[tuple[str, ...], dict[str, str | None]]] = []
        odd: set[str] = set()
        for chosen, values in self.solutions():
            oddities = self._oddities(chosen, values)
            if not found:
                odd = oddities
            elif not oddities <= odd:
                continue
            found.append((chosen, values))
            if len(found) >= most:
                break
        return [self._proposal(chosen, values) for chosen, values in found]

    def solutions(self) -> Iterator[tuple[tuple[str, ...], dict[str, str | None]]]:
        """(parts to change, all versions then) by rising cost; no set contains one that came before."""
        have = self.have.values
        must = set(self.missing(have))
        free = [p for p in PARTS if have.get(p) or p in must]
        sets = [s for n in range(1, len(free) + 1) for s in combinations(free, n) if must <= set(s)]
        sets.sort(key=lambda s: (sum(COST[p] for p in s), [PARTS.index(p) for p in s]))
        solved: list[set[str]] = []
        for chosen in sets:
            if not any(one <= set(chosen) for one in solved):
                best = self._best(chosen)
                if best is not None:
                    solved.append(set(chosen))
                    yield chosen, best

    def _oddities(self, chosen: Sequence[str], values: Values) -> set[str]:
        lowered = {
            p for p in ("cann", "mindspore") if p in chosen and _below(str(values[p]), self.have.values.get(p) or "")
        }
        return ({"python"} & set(chosen)) | ({"old"} if len(lowered) == 2 else set())

    def start(self, chosen: Sequence[str]) -> dict[str, str | None]:
        """What stays while ``chosen`` changes. What pip brings along is left to pip: protobuf with another MindSpore,
        protobuf and numpy with another Python."""
        left = {"protobuf"} if "mindspore" in chosen else set()
        left |= {"protobuf", "numpy"} if "python" in chosen else set()
        return {p: (None if p in left else v) for p, v in self.have.values.items() if p not in chosen}

    def _best(self, chosen: Sequence[str]) -> dict[str, str | None] | None:
        """The best assignment of new versions to ``chosen``; None if there is none."""
        fixed = self.start(chosen)
        order = [p for p in PARTS if p in chosen]
        pools: dict[str, list[str]] = {}
        for part in order:
            pools[part] = [
                v for v in self.candidates(part, self.have.values.get("python"))
                if v != self.have.values.get(part) and self._goes_with(part, v, fixed)
            ]  # fmt: skip
            if not pools[part]:
                return None
        best: tuple[tuple[int, ...], dict[str, str | None]] | None = None
        values = dict(fixed)

        def go(at: int) -> None:
            nonlocal best
            if at == len(order):
                if self.whole(values, chosen):
                    score = self._score(values, order)
                    if best is None or score < best[0]:
                        best = (score, dict(values))
                return
            part, decided = order[at], {p: values[p] for p in order[:at]}
            for version in pools[part]:
                if self._goes_with(part, version, decided):
                    values[part] = version
                    go(at + 1)
                    del values[part]

        go(0)
        return best[1] if best else None

    def _goes_with(self, part: str, version: str, others: Values) -> bool:
        """Whether a version's links of two to some other parts may stand in a proposal."""
        for a, b in PAIRS:
            if part == a and others.get(b):
                link = self.pair(a, b, version, str(others[b]))
            elif part == b and others.get(a):
                link = self.pair(a, b, str(others[a]), version)
            else:
                continue
            if not _fits(link):
                return False
        return True

    def _score(self, values: Values, changed: Sequence[str]) -> tuple[int, ...]:
        """Less is better: links that only hold loosely, wheels that pip cannot find, the way to go, going backwards."""
        # a recommended link is worth having, one more that is merely accepted is not worse than none
        touched = set(changed)
        levels = sum(
            link.level - ACCEPTED
            for link in self.links(values)
            if link.level is not None and link.id in SCORED and touched.intersection(link.ends)
        )
        row = self.table.mindspore_row(values.get("mindspore")) if "mindspore" in changed else None
        off = int(row is not None and not row["pypi"])
        way = back = 0
        for part in changed:
            known = self.candidates(part)
            old, new = ordered(self.have.values.get(part)), ordered(values[part])
            if old is None or new is None:
                way += len(known) - known.index(str(values[part]))  # nothing here yet: the newest that fits
                continue
            low, high = min(old, new), max(old, new)
            way += sum(low < (ordered(k) or low) <= high for k in known)
            back += int(new < old)
        return (levels, off, way, back)

    def _proposal(self, chosen: Sequence[str], values: Values) -> dict[str, Any]:
        changes = [{"what": p, "from": self.have.values.get(p) or "", "to": values[p]} for p in PARTS if p in chosen]
        return {
            "changes": changes,
            "cost": sum(COST[p] for p in chosen),
            "keeps": [p for p in PARTS if self.have.values.get(p) and p not in chosen],
            "root": "driver" in chosen or "cann" in chosen,
            "reboot": "driver" in chosen,
            "commands": commands(self.table, self.have, values, [p for p in PARTS if p in chosen]),
        }


# ------------------------------------------------------------------ commands


def commands(table: Table, have: Have, values: Values, changed: Sequence[str]) -> list[str]:
    """What one would type to make the changes, as text; nobody runs it."""
    out: list[str] = []
    chip = table.chip(have.chip)
    short = str(chip["cann_chip"]) if chip else "<chip>"
    arch = have.arch or "<arch>"
    if "driver" in changed:
        flag = "--upgrade" if have.values.get("driver") else "--full"
        driver = _fill(table.packages["driver"], values["driver"], arch, short)
        firmware = _fill(table.packages["firmware"], values["driver"], arch, short).replace("<firmware>", "*")
        both = [f"sudo ./{driver} {flag}", f"sudo ./{firmware} {flag}"]
        # a first installation begins with the driver, one over another with the firmware
        out += (both[::-1] if have.values.get("driver") else both) + ["sudo reboot"]
    if "cann" in changed:
        row = table.cann_row(values["cann"])
        layout = table.packages[row["layout"] if row else "open"]
        ops = layout["ops"].get(short) or layout["ops"]["default"]
        out += [f"./{_fill(name, values['cann'], arch, short)} --install" for name in (layout["toolkit"], ops)]
        out.append(f"source {layout['set_env']}")
    python = have.executable or "python3"
    if "python" in changed:
        out += [
            f"python{values['python']} -m venv ~/ms-py{values['python']}",
            f". ~/ms-py{values['python']}/bin/activate",
        ]
        python = "python"
    new = "python" in changed
    pip = [p for p in ("mindspore", "mindformers", "numpy", "protobuf") if (p in changed or new) and values.get(p)]
    if pip:
        words = ["'numpy<2'"] if new and not values.get("numpy") else []
        for part in pip:
            row = table.mindspore_row(values[part]) if part == "mindspore" else None
            if row is not None and not row["pypi"]:
                words.append(_bucket(table, str(values[part]), str(values.get("python") or ""), arch))
            else:
                words.append(f"{part}=={values[part]}")
        words.sort(key=lambda word: word.startswith("'"))
        out.append(f"{python} -m pip install " + " ".join(words))
    return out


def _bucket(table: Table, version: str, python: str, arch: str) -> str:
    tag = "cp" + minor(python).replace(".", "") if python else "<cp>"
    abi = tag + "m" if tag == "cp37" else tag
    return _fill(table.packages["mindspore_bucket"], version, arch, "").replace("<tag>", tag).replace("<abi>", abi)


def _fill(text: str, version: str | None, arch: str, chip: str) -> str:
    return text.replace("<ver>", version or "").replace("<arch>", arch).replace("<chip>", chip)


def plan_text(proposal: Mapping[str, Any]) -> str:
    """A proposal on one line: ``mindspore 2.7.2 -> 2.7.0, numpy 2.1.0 -> 1.26.4``."""
    return ", ".join(f"{c['what']} {c['from'] or '-'} -> {c['to']}" for c in proposal["changes"])


# ------------------------------------------------------------------ the fact


def judge(have: Have, table: Table | None = None) -> dict[str, Any]:
    """The value of ``ver.chain``: {have, npu, links, whole, proposals}; plain data."""
    one = Judge(table or versions.load(), have)
    links = one.links(have.values)
    firmware = one.driver_firmware()
    if firmware is not None:
        links.insert(0, firmware)
    known = [link for link in links if link.level is not None]
    broken = [link for link in links if link.broken]
    missing = one.missing(have.values)
    proposals = _proposals(one, [link.id for link in broken], missing) if broken or missing else []
    return {
        "have": {**have.values, "firmware": have.firmware, "chip": have.chip, "arch": have.arch},
        "npu": have.npu,
        "links": [link._asdict() for link in links],
        "missing": missing,
        "whole": None if not known else not broken and not missing,
        "proposals": proposals,
        "plan": [plan_text(p) for p in proposals],
    }


def _proposals(judge: Judge, broken: Sequence[str], missing: Sequence[str]) -> list[dict[str, Any]]:
    """What to change. A wheel of another Python is put right by installing the same MindSpore again."""
    have = judge.have
    fresh = Judge(judge.table, have._replace(wheel_tag=""))
    if "mindspore-python" in broken and fresh.whole(have.values) and not missing:
        version = have.values["mindspore"]
        install = f"{have.executable or 'python3'} -m pip install --force-reinstall --no-deps mindspore=={version}"
        again = {"what": "mindspore", "from": version, "to": version}
        keeps = [p for p in PARTS if have.values.get(p) and p != "mindspore"]
        return [{"changes": [again], "cost": COST["mindspore"], "keeps": keeps, "root": False, "reboot": False,
                 "commands": [install]}]  # fmt: skip
    return fresh.propose()


def have_of(facts: Mapping[str, Fact | Unknown], npu: bool | None = None) -> Have:
    """What is here, from the facts."""

    def value(name: str) -> Mapping[str, Any]:
        fact = facts.get(name)
        return fact.value if isinstance(fact, Fact) and isinstance(fact.value, Mapping) else {}

    driver, firmware, cann = value("ver.driver"), value("ver.firmware"), value("ver.cann")
    python, mindspore, mindformers = value("ver.python"), value("ver.mindspore"), value("ver.mindformers")
    system = value("host.system")
    use = cann_in_use(cann) or {}
    # a pasted list shows what there is, not what is missing
    none = "" if python and not python.get("pasted") else None
    values: dict[str, str | None] = {
        "driver": driver.get("version")
        or _absence(facts.get("ver.driver"), npu, value("host.container").get("inside"), value("npu.smi").get("state")),
        "cann": str(use.get("version") or "") or ("" if cann and not cann.get("installs") else None),
        "mindspore": mindspore.get("version") or none,
        "mindformers": mindformers.get("version") or none,
        "python": python.get("version") or None,
    }
    packages = python.get("packages")
    for name in ("numpy", "protobuf"):
        found = packages.get(name) if isinstance(packages, Mapping) else None
        values[name] = str(found.get("version") or "") if isinstance(found, Mapping) else none
    board = facts.get("npu.board")
    rows = (
        [r for r in board.value if isinstance(r, Mapping)]
        if isinstance(board, Fact) and isinstance(board.value, (list, tuple))
        else []
    )
    said = {str(r.get("compatibility") or "").upper() for r in rows}
    libc = python.get("libc")
    libstdcxx = python.get("libstdcxx")
    return Have(
        values,
        npu,
        str(use.get("internal") or ""),
        str(use.get("layout") or ""),
        use.get("opp_kernel"),
        tuple(mindspore.get("accepted") or ()),
        str(mindspore.get("accepted_source") or ""),
        int(mindspore.get("accepted_line") or 0),
        bool(mindspore.get("needs_opp_kernel")),
        tuple(map(str, mindspore.get("requires") or ())),
        str(mindformers.get("pin") or ""),
        tuple(map(str, mindformers.get("requires") or ())),
        dict(mindformers.get("map") or {}),
        str(mindformers.get("map_source") or ""),
        str(value("ver.wheel").get("tag") or ""),
        firmware.get("version"),
        "NOK" if "NOK" in said else "OK" if said == {"OK"} else "",
        tuple((str(low), str(high)) for low, high in driver.get("firmware") or ()),
        tuple(map(str, firmware.get("drivers") or ())),
        str(driver.get("origin") or ""),
        chip_of(facts),
        str(python.get("machine") or system.get("arch") or ""),
        str(libc[1]) if isinstance(libc, list) and len(libc) > 1 else system.get("glibc"),
        str(libstdcxx.get("glibcxx") or "") if isinstance(libstdcxx, Mapping) else None,
        str(python.get("executable") or ""),
        value("host.container").get("inside"),
    )


def cann_in_use(cann: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The CANN that the shell uses, else the only one there is, else the newest toolkit."""
    listed = cann.get("installs")
    listed = listed if isinstance(listed, (list, tuple)) else ()
    installs = [i for i in listed if isinstance(i, Mapping) and i.get("kind", "toolkit") == "toolkit"]
    sourced = next((i for i in installs if i.get("sourced")), None)
    if sourced is not None or len(installs) < 2:
        return sourced or (installs[0] if installs else None)
    return max(installs, key=lambda i: ordered(str(i.get("version") or "")) or AscendVersion("0"))


def chip_of(facts: Mapping[str, Fact | Unknown]) -> str | None:
    """The chip's name as npu-smi prints it, None if not known; A3 products print a bare Ascend910 in a layout of
    their own."""
    smi = facts.get("npu.smi")
    if isinstance(smi, Fact) and isinstance(smi.value, Mapping) and smi.value.get("layout") == "A3":
        return "Ascend910_93"
    for name, field in (("npu.table", "name"), ("npu.board", "chip_name")):
        fact = facts.get(name)
        if isinstance(fact, Fact) and isinstance(fact.value, (list, tuple)):
            for row in fact.value:
                if isinstance(row, Mapping) and row.get(field):
                    return str(row[field])
    return None


def _absence(fact: Fact | Unknown | None, npu: bool | None, inside: Any, smi: Any) -> str | None:
    """Empty for a driver known not to be here: an NPU, no files, no npu-smi and no container; else None."""
    gone = isinstance(fact, Unknown) and fact.why == "no_file" and smi in (None, "missing")
    return "" if gone and npu and inside is False else None


def _source(table: Table, keys: Sequence[str]) -> str:
    """The first source of a row, short enough for a sentence."""
    told = re.split(r" \(|; |: ", table.says(keys[0]), maxsplit=1)[0] if keys else ""
    return told[:150]


def _below(have: str, low: str) -> bool:
    a, b = ordered(have), ordered(low)
    return a is not None and b is not None and a < b


def _between(version: str, low: str, high: str) -> bool | None:
    have, first, last = ordered(version), ordered(low), ordered(high)
    if have is None or first is None or last is None:
        return None
    return first <= have <= last


def _above(version: str, pattern: str) -> bool:
    have, other = ordered(version), ordered(re.sub(r"(?i)\.X$", "", pattern))
    return have is not None and other is not None and have > other


def _among(version: str, listed: Iterable[str]) -> bool:
    have = ordered(version)
    return have is not None and any(ordered(v) == have for v in listed)


def _python_of(tag: str) -> str:
    hit = re.fullmatch(r"cp(\d)(\d{1,2})", tag)
    return f"{hit[1]}.{hit[2]}" if hit else tag


def _mapped(version_map: Mapping[str, Any], part: str, version: str) -> tuple[list[str], list[str]]:
    """(prefer, support) of a version in mindformers' own map; empty lists if it says nothing."""
    rows = version_map.get(part)
    row = rows.get(version) if isinstance(rows, Mapping) else None
    if not isinstance(row, Mapping):
        return [], []
    prefer, support = row.get("prefer"), row.get("support")
    return (
        [prefer] if isinstance(prefer, str) else [],
        [s for s in support if isinstance(s, str)] if isinstance(support, list) else [],
    )
