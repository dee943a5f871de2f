"""Facts of the host: values of the wrong kind become None, answers of the wrong form Unknown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.model import Fact, Raw, Unknown
from doctor.probes.base import run
from doctor.probes.system import PROBES, locale_of, parse_clock, read_thp, read_time, shaped, size

ASKED = ["memory", "shm", "limits", "cpu", "net", "ports", "disks", "processes", "env", "system"]


def facts(raws, absent=True):
    return {name: fact for done in run(MemoryHost(raws, absent=absent), PROBES) for name, fact in done.facts.items()}


@pytest.mark.parametrize("what", ASKED)
@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (None, "not_recorded"),
        (Raw("ask x", "ok", "no json"), "not_understood"),
        (Raw("ask x", "ok", '"text"'), "not_understood"),
        (Raw("ask x", "timeout", seconds=5.0), "timeout"),
        (Raw("ask x", "denied"), "denied"),
        (Raw("ask x", "failed", err="ValueError: x"), "crashed"),
    ],
)
def test_an_answer_that_is_not_there_is_unknown_with_its_reason(what, raw, why):
    found = facts({f"ask {what}": raw} if raw else {})[f"host.{what}"]
    assert isinstance(found, Unknown)
    assert found.why == why


def test_values_of_another_kind_are_none():
    found = facts({"ask memory": '{"total": "12", "available": 5, "swap_total": true, "free": 1e999}'})["host.memory"]
    assert (found.value["total"], found.value["available"]) == (None, 5)
    assert (found.value["swap_total"], found.value["free"]) == (None, None)
    found = facts({"ask limits": '{"nofile": [1024], "nproc": [1, -1], "core": ["x", 0]}'})["host.limits"].value
    assert (found["nofile"], found["nproc"], found["core"]) == (None, [1, -1], None)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12))  # fmt: skip
def test_any_json_is_read_without_an_exception(value):
    text = json.dumps(value)
    found = facts({f"ask {what}": text for what in [*ASKED, "user", "time"]})
    assert all(isinstance(fact, Fact) or fact.why != "crashed" for fact in found.values())


def test_system_joins_the_user_and_the_compiler():
    raws = {"ask system": '{"kernel": "5.10"}', "ask user": '{"uid": 0, "root": true, "groups": ["a"]}',
            "run gcc -dumpfullversion": "10.3.1\n"}  # fmt: skip
    found = facts(raws)["host.system"].value
    assert (found["kernel"], found["root"], found["groups"], found["gcc"]) == ("5.10", True, ["a"], "10.3.1")
    assert facts({"ask system": "{}"})["host.system"].value["gcc"] is None


@pytest.mark.parametrize(
    ("env", "charset", "utf8"),
    [
        ({}, "", True),
        ({"LANG": "C"}, "", True),
        ({"LANG": "POSIX"}, "", True),
        ({"LANG": "en_US.UTF-8"}, "UTF-8", True),
        ({"LANG": "zh_CN.utf8"}, "utf8", True),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "zh_CN.GBK"}, "GBK", False),
        ({"LANG": "zh_CN"}, "GB2312", False),
        ({"LANG": "en_US"}, "ISO-8859-1", False),
        ({"LANG": "de_DE@euro"}, "ISO-8859-1", False),
        ({"LANG": "zh_CN.GBK", "PYTHONUTF8": "1"}, "GBK", True),
        ({"LANG": "zh_CN.GBK", "PYTHONIOENCODING": "utf-8:replace"}, "GBK", True),
        ({"LANG": "C", "LC_ALL": ""}, "", True),
    ],
)
def test_the_character_set_of_the_shell(env, charset, utf8):
    value = locale_of(env).value
    assert (value["charset"], value["utf8"]) == (charset, utf8)


@pytest.mark.parametrize(
    ("text", "synchronised"),
    [
        ("               Local time: x\nSystem clock synchronized: yes\n              NTP service: active\n", True),
        ("System clock synchronized: no\n", False),
        ("NTP synchronized: yes\n", True),
        ("Timezone=UTC\nNTPSynchronized=no\n", False),
        ("Reference ID    : C0000201\nLeap status     : Normal\n", True),
        ("Leap status     : Not synchronised\n", False),
    ],
)
def test_clock_tools(text, synchronised):
    assert parse_clock(text)[2] is synchronised
    assert parse_clock("junk") is None


def test_the_clock_is_asked_of_the_kernel_then_of_the_tools():
    kernel = read_time(MemoryHost({"ask time": '{"synchronised": true, "max_error": 0.01}'}), {})[0]
    assert kernel.value["synchronised"] is True
    tool = read_time(MemoryHost({"run timedatectl": "System clock synchronized: no\n"}), {})[0]
    assert (tool.value["synchronised"], tool.evidence.source) == (False, "timedatectl")
    assert isinstance(read_time(MemoryHost({}), {})[0], Unknown)


def test_huge_pages_of_the_kernel():
    key = "file /sys/kernel/mm/transparent_hugepage/enabled"
    assert read_thp(MemoryHost({key: "always [madvise] never\n"}), {})[0].value == {"enabled": "madvise", "shmem": None}
    assert read_thp(MemoryHost({}, absent=True), {})[0].why == "no_file"
    assert isinstance(read_thp(MemoryHost({key: "\x00"}), {})[0], Unknown)


def test_bytes_as_people_write_them():
    assert [size(n) for n in (0, 1023, 65536, 3 << 30, 3 << 39, None)] == [
        "0 B",
        "1023 B",
        "64 KiB",
        "3 GiB",
        "1.5 TiB",
        "?",
    ]
    assert shaped([1], {}) is None
