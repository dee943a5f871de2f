"""The version chain: which links hold and by whose word, and the least to change, compared with brute force."""

import itertools
import json
import random
import time

import pytest

from doctor import chain, versions
from doctor.chain import COST, PARTS, Have, Judge
from doctor.model import Evidence, Fact, Unknown
from doctor.render.chain import draw
from doctor.render.safe import width

TABLE = versions.load()
GOOD = {"driver": "25.2.0", "cann": "8.2.RC1", "mindspore": "2.7.0", "mindformers": "1.6.0", "python": "3.11.4",
        "numpy": "1.26.4", "protobuf": "3.20.3"}  # fmt: skip


def have(npu=True, **changes):
    own = {k: changes.pop(k) for k in list(changes) if k not in GOOD}
    own = {"chip": "910B3", "arch": "aarch64", **own}
    return Have({**GOOD, **changes}, npu, **own)


def link(name, **changes):
    found = [one for one in Judge(TABLE, have(**changes)).links({**GOOD, **changes_of(changes)}) if one.id == name]
    return found[0] if found else None


def changes_of(changes):
    return {k: v for k, v in changes.items() if k in GOOD}


# ------------------------------------------------------------------ links


@pytest.mark.parametrize(
    ("name", "changes", "answer", "level"),
    [
        ("driver-cann", {}, "recommended", chain.RECOMMENDED),
        ("driver-cann", {"driver": "25.0.rc1.1"}, "accepted", chain.ACCEPTED),
        ("driver-cann", {"driver": "25.3.rc1"}, "newer", chain.ACCEPTED),
        ("driver-cann", {"driver": "23.0.7"}, "unlisted", chain.WARN),
        ("driver-cann", {"cann": "8.5.0", "driver": "24.1.0"}, "below_floor", chain.ERROR),
        ("driver-cann", {"cann": "8.5.0", "driver": "25.0.rc1"}, "accepted", chain.ACCEPTED),
        ("driver-cann", {"cann": "9.0.0", "driver": "25.2.0"}, "unlisted", chain.WARN),
        ("driver-cann", {"cann": "9.0.0", "driver": "25.5.1"}, "accepted", chain.ACCEPTED),
        ("driver-cann", {"cann": "9.1.0", "driver": "25.0.rc1"}, "below_floor", chain.ERROR),
        ("driver-cann", {"cann": "8.3.RC1", "driver": "24.1.0"}, "unlisted", chain.UNSURE),
        ("driver-cann", {"cann": "10.0.0"}, "unknown", None),
        ("driver-cann", {"driver": "what"}, "unknown", None),
        ("cann-mindspore", {}, "recommended", chain.RECOMMENDED),
        ("cann-mindspore", {"cann": "8.1.RC1"}, "accepted", chain.ACCEPTED),
        ("cann-mindspore", {"cann": "8.3.RC1"}, "outside", chain.WARN),
        ("cann-mindspore", {"cann": "8.5.0"}, "layout", chain.ERROR),
        ("cann-mindspore", {"mindspore": "2.7.2"}, "outside", chain.WARN),
        ("cann-mindspore", {"mindspore": "2.4.0", "cann": "8.0.0"}, "outside", chain.UNSURE),
        ("cann-mindspore", {"mindspore": "2.0.0", "cann": "5.0.4"}, "outside", chain.WARN),
        ("cann-mindspore", {"mindspore": "2.2.14", "cann": "7.0.0"}, "recommended", chain.RECOMMENDED),
        ("cann-mindspore", {"mindspore": "9.9.9"}, "unknown", None),
        ("mindspore-mindformers", {}, "recommended", chain.RECOMMENDED),
        ("mindspore-mindformers", {"mindspore": "2.7.1"}, "unlisted", chain.WARN),
        ("mindspore-mindformers", {"mindspore": "2.9.0"}, "outside", chain.ERROR),
        ("mindspore-mindformers", {"mindspore": "2.7.1.post1", "mindformers": "1.7.0"}, "recommended", 0),
        ("mindspore-mindformers", {"mindspore": "2.2.12", "mindformers": "1.0.2"}, "accepted", chain.ACCEPTED),
        ("mindspore-mindformers", {"mindspore": "2.7.0", "mindformers": "1.3.2"}, "unlisted", chain.WARN),
        ("mindspore-mindformers", {"mindformers": "7.0.0"}, "unknown", None),
        ("mindspore-python", {"python": "3.12.1"}, "outside", chain.ERROR),
        ("mindspore-python", {"python": "3.9.2"}, "recommended", chain.RECOMMENDED),
        ("mindspore-python", {"python": "3.11.4", "wheel_tag": "cp39"}, "outside", chain.ERROR),
        ("mindspore-python", {"mindspore": "2.99.0", "wheel_tag": "cp311"}, "accepted", chain.ACCEPTED),
        ("mindspore-numpy", {"numpy": "2.1.0"}, "outside", chain.WARN),
        ("mindspore-numpy", {"numpy": "2.1.0", "mindspore": "2.10.0"}, "outside", chain.WARN),
        ("mindspore-numpy", {"numpy": "1.26.4", "mindspore": "2.10.0"}, "accepted", chain.ACCEPTED),
        ("mindspore-numpy", {"numpy": "1.24.0", "mindspore": "2.10.0"}, "outside", chain.WARN),
        ("cann-numpy", {"numpy": "1.26.4"}, "outside", chain.SOFT),
        ("cann-numpy", {"numpy": "2.1.0", "cann": "8.5.0"}, "outside", chain.WARN),
        ("cann-numpy", {"numpy": "2.2.0", "cann": "8.5.0", "python": "3.13.0"}, "accepted", chain.ACCEPTED),
        ("mindspore-protobuf", {"mindspore": "2.10.0"}, "outside", chain.WARN),
        ("cann-protobuf", {"cann": "9.0.0", "protobuf": "7.34.1"}, "outside", chain.SOFT),
        ("mindformers-python", {"python": "3.10.1"}, "unlisted", chain.SOFT),
        ("mindspore-glibcxx", {"glibcxx": "3.4.21"}, "outside", chain.ERROR),
        ("mindspore-glibcxx", {"glibcxx": "3.4.22"}, "accepted", chain.ACCEPTED),
        ("mindspore-glibc", {"glibc": "2.12"}, "outside", chain.ERROR),
        ("mindspore-chip", {"chip": "910ProB"}, "unlisted", chain.WARN),
        ("mindspore-chip", {"chip": "Ascend910_93"}, "accepted", chain.ACCEPTED),
    ],
)
def test_a_link_is_judged_by_the_table(name, changes, answer, level):
    found = link(name, **changes)
    assert (found.answer, found.level) == (answer, level)
    if level is not None:
        assert found.authority and found.confidence
        assert found.source or found.authority == "machine"


def test_the_machines_own_word_comes_first():
    own = have(mindspore="2.7.2", accepted=("8.2",), accepted_source="_check_version.py", accepted_line=7)
    found = {one.id: one for one in Judge(TABLE, own).links(own.values)}
    assert found["cann-mindspore"].answer == "accepted"
    assert (found["cann-mindspore"].authority, found["cann-mindspore"].line) == ("machine", 7)
    pinned = have(mindspore="2.8.0", pin="~=2.8.0", version_map={"mf": {"1.6.0": {"prefer": "2.8.0", "support": []}}})
    found = {one.id: one for one in Judge(TABLE, pinned).links(pinned.values)}
    assert found["mindspore-mindformers"].answer == "recommended"
    assert found["mindspore-mindformers"].authority == "machine"
    needs = have(numpy="1.18.0", mindspore_requires=("numpy>=1.17", "protobuf>=3.13.0"))
    found = {one.id: one for one in Judge(TABLE, needs).links(needs.values)}
    assert (found["mindspore-numpy"].answer, found["mindspore-numpy"].authority) == ("accepted", "machine")


@pytest.mark.parametrize(
    "damage", [{"mf": 3}, {"mf": {"1.6.0": 7}}, {"mf": {"1.6.0": {"prefer": [], "support": 1}}}, {}]
)
def test_a_damaged_version_map_leaves_the_table(damage):
    own = have(version_map=damage)
    found = {one.id: one for one in Judge(TABLE, own).links(own.values)}
    assert (
        found["mindspore-mindformers"].answer == "recommended" and found["mindspore-mindformers"].authority == "table"
    )


@pytest.mark.parametrize(
    ("changes", "answer", "level"),
    [
        ({"firmware": "7.7.0.6.236", "compatibility": "OK"}, "accepted", chain.ACCEPTED),
        ({"firmware": "7.7.0.6.236", "compatibility": "NOK"}, "outside", chain.ERROR),
        ({"firmware": "7.7.0.6.236", "driver_firmware": (("7.0.0", "7.9.99"),)}, "accepted", chain.ACCEPTED),
        ({"firmware": "6.4.0.1", "driver_firmware": (("7.0.0", "7.9.99"),)}, "outside", chain.ERROR),
        ({"firmware": "6.4.0.1", "firmware_drivers": ("24.1",)}, "outside", chain.UNSURE),
        ({"firmware": "6.4.0.1", "firmware_drivers": ("25.2.",)}, "accepted", chain.ACCEPTED),
        ({"firmware": "6.4.0.1"}, "unknown", None),
        ({"firmware": None}, "unknown", None),
    ],
)
def test_firmware_is_judged_by_the_driver(changes, answer, level):
    found = Judge(TABLE, have(**changes)).driver_firmware()
    assert (found.answer, found.level) == (answer, level)
    assert Judge(TABLE, have(driver=None)).driver_firmware() is None


# ------------------------------------------------------------------ proposals


def plans(**changes):
    return chain.judge(have(**changes), TABLE)["plan"]


def test_keep_the_driver_and_change_mindspore_or_cann():
    assert plans(mindspore="2.7.2", mindformers="") == ["mindspore 2.7.2 -> 2.7.0", "cann 8.2.RC1 -> 8.5.0"]
    assert plans(mindspore="2.7.2", mindformers="1.8.0") == [
        "mindspore 2.7.2 -> 2.7.0, mindformers 1.8.0 -> 1.6.0",
        "cann 8.2.RC1 -> 8.5.0",
    ]


@pytest.mark.parametrize(
    ("changes", "best"),
    [
        ({}, None),
        ({"cann": "8.5.0", "mindformers": ""}, "mindspore 2.7.0 -> 2.7.2"),
        ({"mindspore": "2.9.0", "mindformers": "1.9.0", "cann": "9.0.0", "numpy": "2.2.6", "driver": "26.0.rc1"},
         "numpy 2.2.6 -> 1.26.4"),
        ({"mindspore": "2.10.0", "mindformers": "", "cann": "9.1.0", "driver": "26.1.0", "protobuf": "3.20.3"},
         "protobuf 3.20.3 -> 7.34.1"),
        ({"python": "3.12.1", "mindformers": ""}, "mindspore 2.7.0 -> 2.8.0"),
        ({"python": "3.13.1", "mindformers": ""}, "python 3.13.1 -> 3.11"),
        ({"mindspore": "", "mindformers": ""}, "mindspore - -> 2.7.0"),
        ({"cann": "", "mindformers": ""}, "cann - -> 8.2.RC1"),
        ({"cann": "9.1.0", "mindspore": "2.10.0", "mindformers": "", "driver": "25.0.rc1", "protobuf": "7.34.1"},
         "cann 9.1.0 -> 8.5.2"),
    ],
)  # fmt: skip
def test_the_least_change_is_found(changes, best):
    found = plans(**changes)
    assert (found[0] if found else None) == best


def test_a_wheel_of_another_python_is_installed_again():
    value = chain.judge(have(wheel_tag="cp39"), TABLE)
    assert value["plan"] == ["mindspore 2.7.0 -> 2.7.0"] and value["whole"] is False
    assert value["proposals"][0]["commands"] == ["python3 -m pip install --force-reinstall --no-deps mindspore==2.7.0"]
    both = chain.judge(have(wheel_tag="cp39", cann="8.5.0", mindformers=""), TABLE)
    assert both["plan"][0] == "mindspore 2.7.0 -> 2.7.2"


def test_a_cpu_machine_is_asked_for_nothing():
    value = chain.judge(have(npu=False, driver=None, cann="", mindformers=""), TABLE)
    assert value["whole"] is True and value["proposals"] == [] and value["missing"] == []


def test_the_driver_is_changed_only_when_nothing_cheaper_does():
    value = chain.judge(have(cann="9.0.0", mindspore="2.9.0", mindformers="", driver="24.1.0"), TABLE)
    first, last = value["proposals"][0], value["proposals"][-1]
    assert first["changes"][0]["what"] == "cann" and "driver" in first["keeps"]
    assert [c["what"] for c in last["changes"]] == ["driver"] and last["reboot"] and last["root"]


def test_commands_name_packages_that_exist():
    value = chain.judge(have(cann="9.0.0", mindspore="2.9.0", mindformers="", driver="24.1.0"), TABLE)
    assert value["proposals"][0]["commands"] == [
        "./Ascend-cann-toolkit_8.2.RC1_linux-aarch64.run --install",
        "./Ascend-cann-kernels-910b_8.2.RC1_linux-aarch64.run --install",
        "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    ]
    driver = value["proposals"][-1]["commands"]
    assert driver[0].startswith("sudo ./Ascend-hdk-910b-npu-firmware_*.run"), (
        "over another one the firmware comes first"
    )
    assert driver[1:] == ["sudo ./Ascend-hdk-910b-npu-driver_26.0.RC1_linux-aarch64.run --upgrade", "sudo reboot"]
    a3 = chain.commands(TABLE, have(chip="Ascend910_93", arch="x86_64"), {**GOOD, "cann": "8.5.0"}, ["cann"])
    assert a3[1] == "./Ascend-cann-A3-ops_8.5.0_linux-x86_64.run --install"
    assert a3[2] == "source /usr/local/Ascend/cann/set_env.sh"
    pip = chain.commands(TABLE, have(executable="/opt/ms/bin/python"), {**GOOD, "mindspore": "2.6.0"}, ["mindspore"])
    assert pip == [
        "/opt/ms/bin/python -m pip install https://ms-release.obs.cn-north-4.myhuaweicloud.com/2.6.0/MindSpore/unified/"
        "aarch64/mindspore-2.6.0-cp311-cp311-linux_aarch64.whl"
    ]
    new = chain.commands(TABLE, have(), {**GOOD, "python": "3.9", "numpy": None, "protobuf": None}, ["python"])
    assert new == [
        "python3.9 -m venv ~/ms-py3.9",
        ". ~/ms-py3.9/bin/activate",
        "python -m pip install mindspore==2.7.0 mindformers==1.6.0 'numpy<2'",
    ]


# ------------------------------------------------------------------ the search against brute force


def small_table():
    """A tenth of the table, so that every combination can be tried."""
    data = json.loads(json.dumps(TABLE.data))
    keep = {
        "cann": {"8.0.0", "8.2.RC1", "8.5.0", "9.0.0"},
        "mindspore": {"2.5.0", "2.7.0", "2.7.2", "2.9.0", "2.10.0"},
        "mindformers": {"1.6.0", "1.8.0", "1.9.0"},
    }
    for name, releases in keep.items():
        data[name] = [row for row in data[name] if row["release"] in releases]
    data["python"] = ["3.9", "3.11", "3.12"]
    return versions.Table(data)


SMALL = small_table()


def solvable(judge, chosen):
    """Whether any assignment to ``chosen`` makes the chain whole, by trying all of them."""
    start = judge.start(chosen)
    pools = [[v for v in judge.candidates(p, judge.have.values["python"]) if v != judge.have.values[p]] for p in chosen]
    return any(
        judge.whole({**start, **dict(zip(chosen, pick, strict=True))}, chosen) for pick in itertools.product(*pools)
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_cheaper_set_of_changes_does(seed):
    pick = random.Random(seed)
    values = {
        "driver": pick.choice(["24.1.0", "25.0.rc1", "25.2.0", "25.5.0", "26.0.rc1"]),
        "cann": pick.choice(["8.0.0", "8.2.RC1", "8.5.0", "9.0.0", ""]),
        "mindspore": pick.choice(["2.5.0", "2.7.0", "2.7.2", "2.9.0", "2.10.0", ""]),
        "mindformers": pick.choice(["1.6.0", "1.8.0", "1.9.0", ""]),
        "python": pick.choice(["3.9.2", "3.11.4", "3.12.0"]),
        "numpy": pick.choice(["1.26.4", "2.1.0"]),
        "protobuf": pick.choice(["3.20.3", "7.34.1"]),
    }
    judge = Judge(SMALL, Have(values, True, chip="910B3", arch="aarch64"))
    solutions = list(judge.solutions())
    if judge.whole(values):
        assert judge.propose() == []
        return
    for chosen, after in solutions:
        assert judge.whole(after, chosen), "a proposal makes the chain whole"
        for size in range(1, len(chosen)):
            assert not any(solvable(judge, part) for part in itertools.combinations(chosen, size)), "nothing less does"
    cheapest = min((sum(COST[p] for p in chosen) for chosen, _ in solutions), default=10**6)
    must = set(judge.missing(values))
    free = [p for p in PARTS if values[p] or p in must]
    for size in range(1, len(free) + 1):
        for chosen in itertools.combinations(free, size):
            cost = sum(COST[p] for p in chosen)
            if must <= set(chosen) and cost < cheapest and not ("driver" in chosen and size > 4):
                assert not solvable(judge, chosen), f"{chosen} is cheaper than what was proposed"
    offered = judge.propose()
    assert bool(offered) == bool(solutions)
    if offered:
        assert offered[0]["cost"] == cheapest and len(offered) <= 3


def test_the_search_is_quick():
    pick = random.Random(7)
    slowest = 0.0
    for _ in range(40):
        changes = {
            "driver": pick.choice(["23.0.0", "24.1.0", "25.2.0", "26.2.rc1"]),
            "cann": pick.choice([r["release"] for r in TABLE.cann]),
            "mindspore": pick.choice([r["release"] for r in TABLE.mindspore]),
            "mindformers": pick.choice([r["release"] for r in TABLE.mindformers]),
            "python": pick.choice(["3.7", "3.9", "3.11", "3.13"]),
            "numpy": pick.choice(["1.20.0", "2.4.6"]),
        }
        began = time.perf_counter()
        chain.judge(have(**changes), TABLE)
        slowest = max(slowest, time.perf_counter() - began)
    assert slowest < 1.0


# ------------------------------------------------------------------ facts and drawing


def test_facts_become_a_chain():
    seen = Evidence("x", 1, "y")
    install = {"root": "/r", "version": "8.2.RC1", "internal": "8.2.0.0.201", "kind": "toolkit", "sourced": True}
    cann = {"installs": [{**install, "layout": "closed", "opp_kernel": True}]}
    driver = {"version": "25.2.0", "firmware": [["7.0.0", "7.9.99"]], "origin": "file"}
    python = {"version": "3.11.4", "machine": "aarch64", "libc": ["glibc", "2.34"], "libstdcxx": {"glibcxx": "3.4.30"}}
    facts = {
        "ver.driver": Fact("ver.driver", driver, seen),
        "ver.firmware": Fact("ver.firmware", {"version": "7.7.0.6.236", "drivers": ["25.2"]}, seen),
        "ver.cann": Fact("ver.cann", cann, seen),
        "ver.python": Fact("ver.python", {**python, "packages": {"numpy": {"version": "1.26.4"}}}),
        "ver.mindspore": Fact("ver.mindspore", {"version": "2.7.0"}, seen),
        "ver.mindformers": Unknown("ver.mindformers", "no_mindformers", applies=False),
        "npu.table": Fact("npu.table", [{"name": "910B3"}]),
    }  # fmt: skip
    one = chain.have_of(facts, True)
    assert one.values == {**GOOD, "mindformers": "", "protobuf": ""}
    assert (one.firmware, one.chip, one.glibc, one.glibcxx, one.internal) == (
        "7.7.0.6.236", "910B3", "2.34", "3.4.30", "8.2.0.0.201",
    )  # fmt: skip
    value = chain.judge(one, TABLE)
    assert value["whole"] is True
    json.dumps(value)


@pytest.mark.parametrize(
    "junk", [None, 3, [], {"installs": 5}, {"installs": [7, {"kind": "toolkit"}]}, {"version": {}}]
)
def test_facts_of_another_form_do_not_end_it(junk):
    names = (
        "ver.driver",
        "ver.firmware",
        "ver.cann",
        "ver.python",
        "ver.wheel",
        "npu.table",
        "npu.board",
        "host.system",
    )
    one = chain.have_of({name: Fact(name, junk) for name in names}, None)
    chain.judge(one, TABLE)


def test_nothing_known_is_no_chain():
    assert not chain.have_of({}, None).anything()
    assert draw({}) == [] == draw({"have": {}, "links": [], "whole": None})


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_drawing_fits(lang, ascii_only, columns):
    value = chain.judge(have(mindspore="2.5.0", numpy="2.1.0", driver="24.1.0", cann="9.0.0", glibcxx="3.4.9"), TABLE)
    rows = draw(json.loads(json.dumps(value)), columns, lang=lang, ascii_only=ascii_only)
    assert all(width(row) <= columns or row.startswith("     $ ") for row in rows)
    assert sum(("XX" if ascii_only else "✗") in row for row in rows) >= 3
    if ascii_only and lang == "en":
        assert all(row.isascii() for row in rows)


def test_the_drawing_reads_well():
    value = chain.judge(have(mindspore="2.7.2", mindformers="1.8.0", firmware="7.7.0.6.236", compatibility="OK"), TABLE)
    assert draw(value, 80, lang="en") == [
        "Version chain: a link is broken",
        "  firmware      7.7.0.6.236",
        "    │ ✓ accepted",
        "  driver        25.2.0",
        "    │ ✓ recommended",
        "  CANN          8.2.RC1",
        "    ╳ ✗ CANN 8.2.RC1 - MindSpore 2.7.2: outside the range; what fits: 8.5.0,",
        "        8.5.2 (by the table)",
        "  MindSpore     2.7.2",
        "    │ ✓ recommended",
        "  mindformers   1.8.0",
        "  also          Python 3.11.4 ✓  numpy 1.26.4 i  protobuf 3.20.3 ✓  chip 910B3 ✓",
        "",
        "  The smallest change that makes all parts fit (shown only, never run):",
        "  1) MindSpore 2.7.2 → 2.7.0, mindformers 1.8.0 → 1.6.0 (keeps driver, CANN)",
        "     $ python3 -m pip install mindspore==2.7.0 mindformers==1.6.0",
        "  2) CANN 8.2.RC1 → 8.5.0 (keeps driver, MindSpore, mindformers; may need root)",
    ]
