"""Every sample of a rank table breaks exactly the rule it was made for, and no other one; healthy ones break none."""

import json
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.network import rank_table, rank_table_links
from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import folder
from doctor.model import Answer, Fact, Unknown, Verdict
from doctor.probes.rank_table import read_rank_table

SAMPLES = os.path.join(folder(), "samples")
NOT_KNOWN = Unknown("x", "not_recorded")


def chips(name: str | None) -> Fact | Unknown:
    return Fact("npu.table", [{"name": name}] * 8) if name else NOT_KNOWN


def answers(text: str, chip: str | None = None) -> dict[str, Answer]:
    """What every rule says of a table; R13, R23 and R24 need the host and are asked elsewhere."""
    host = MemoryHost({"file t.json": text, "ask rank_table_path": '"t.json"'}, absent=True)
    file, table = read_rank_table(host, {})
    seen = chips(chip)
    t, k = rank_table, rank_table_links
    found = {"R01": t.strict_json(file), "R02": t.file_readable(file)}
    if isinstance(table, Unknown):
        return found
    return found | {
        "R03": t.status_completed(table),
        "R04": t.version_fits_chip(table, seen, NOT_KNOWN),
        "R05": t.count_matches(table),
        "R06": t.server_ids_unique(table),
        "R07": t.device_ids_valid(table, seen, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN),
        "R08": t.ranks_complete(table),
        "R09": t.ranks_in_blocks(table, seen, NOT_KNOWN),
        "R10": t.servers_in_order(table),
        "R11": t.ranks_follow_devices(table),
        "R12": k.addresses_usable(table, seen, NOT_KNOWN, NOT_KNOWN),
        "R13": k.addresses_as_configured(table, NOT_KNOWN, NOT_KNOWN, NOT_KNOWN),
        "R14": k.one_address_family(table),
        "R15": k.ports_valid(table),
        "R16": t.card_numbers_allowed(table, seen, NOT_KNOWN),
        "R17": t.equal_card_numbers(table, seen, NOT_KNOWN),
        "R18": k.super_device_ids(table, NOT_KNOWN, NOT_KNOWN),
        "R19": k.servers_in_one_superpod(table),
        "R20": k.superpods_are_physical(table, NOT_KNOWN),
        "R21": k.backup_addresses(table, NOT_KNOWN),
        "R22": t.ids_are_strings(table),
        "R23": t.size_matches_job(table, NOT_KNOWN),
        "R25": t.same_everywhere(table, file),
        "shape": t.shape(table),
    }


def broken(text: str, chip: str | None = None) -> dict[str, str | None]:
    found = answers(text, chip)
    return {rule: answer.severity for rule, answer in found.items() if answer.verdict is Verdict.FAIL}


def sample(name: str) -> str:
    with open(os.path.join(SAMPLES, name), encoding="utf-8", newline="") as file:
        return file.read()


BAD = {
    "910A-cross-group-3cards": ("R16", "910A"),
    "comments-in-json": ("R01", None),
    "device_id-out-of-range": ("R07", None),
    "device_ip-minus-one": ("R12", None),
    "duplicate-device_id": ("R07", None),
    "duplicate-device_ip": ("R12", None),
    "duplicate-rank_id": ("R08", None),
    "duplicate-server_id": ("R06", None),
    "interleaved-ranks": ("R09", None),
    "invalid-ip": ("R12", None),
    "loopback-device_ip": ("R12", None),
    "missing-device_ip-multi-server": ("R12", None),
    "missing-rank_id": ("R08", None),
    "rank_id-as-number": ("R22", None),
    "rank_id-gap": ("R08", None),
    "server_count-mismatch": ("R05", None),
    "status-initializing": ("R03", None),
    "trailing-comma": ("R01", None),
    "utf8-bom": ("R01", None),
    "v1.0-with-superpod-fields": ("R04", None),
    "v1.2-duplicate-super_device_id": ("R18", None),
    "v1.2-empty-super_device_id": ("R18", None),
    "v1.2-superpod-unknown-server": ("R19", None),
}


def test_every_broken_sample_is_here():
    names = {
        n.removeprefix("ranktable_bad__").removesuffix(".json") for n in os.listdir(SAMPLES) if "ranktable_bad" in n
    }
    assert names == set(BAD)


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("also", [None, "A2"])
def test_a_broken_sample_breaks_its_rule_and_no_other(name, also):
    rule, chip = BAD[name]
    if also and (chip or name.startswith("v1.")):
        pytest.skip("made for another chip")
    text = sample(f"ranktable_bad__{name}.json")
    assert set(broken(text, chip or ("910B3" if also else None))) == {rule}


@pytest.mark.parametrize(
    "name", sorted(n for n in os.listdir(SAMPLES) if n.startswith("ranktable_v") or "template2" in n)
)
def test_a_healthy_sample_breaks_nothing(name):
    expected = {"R03": "warning"} if "initializing" in name else {}
    assert broken(sample(name)) == expected


@pytest.mark.parametrize(
    ("chip", "severity"), [("910A", None), ("910B3", None), ("Ascend910", "warning"), (None, "warning")]
)
def test_interleaved_ranks_are_an_error_where_they_are_refused(chip, severity):
    found = answers(sample("ranktable_bad__interleaved-ranks.json"), chip)["R09"]
    assert (found.verdict, found.severity) == (Verdict.FAIL, severity)


@pytest.mark.parametrize(
    ("chip", "verdict"),
    [("910A", Verdict.FAIL), ("910B3", Verdict.NOT_APPLICABLE), ("910B", Verdict.FAIL), (None, Verdict.UNKNOWN)],
)
def test_card_numbers_matter_on_910_only(chip, verdict):
    assert answers(sample("ranktable_bad__910A-cross-group-3cards.json"), chip)["R16"].verdict is verdict


def table(*servers, version="1.0", pods=None, **more) -> str:
    """A table of (server id, [device])."""
    value = {
        "version": version,
        "status": "completed",
        "server_count": str(len(servers)),
        "server_list": [{"server_id": name, "device": devices} for name, devices in servers],
        **more,
    }
    if pods is not None:
        value["super_pod_list"] = [{"super_pod_id": p, "server_list": [{"server_id": s} for s in ss]} for p, ss in pods]
    return json.dumps(value, indent=1)


def dev(device: int, rank: int, **more) -> dict:
    found = {"device_id": str(device), "rank_id": str(rank), "device_ip": f"192.0.2.{10 + rank}", **more}
    return {key: value for key, value in found.items() if value is not None}


@pytest.mark.parametrize(
    ("ids", "chip", "fails"),
    [
        (range(8), None, False),
        (range(16), None, False),
        (range(8, 16), None, False),
        ([0, 1, 8, 9], None, False),
        (range(4, 12), None, False),
        ([0, 1, 2, 8], None, True),
        ([16], None, True),
        ([8], "910A", True),
        ([8], "310P3", True),
        (range(16), "Ascend910", False),
    ],
)
def test_device_ids_are_judged_by_what_the_server_may_be(ids, chip, fails):
    text = table(("a", [dev(device, rank) for rank, device in enumerate(ids)]))
    assert (answers(text, chip)["R07"].verdict is Verdict.FAIL) == fails


@pytest.mark.parametrize(
    ("text", "chip", "fails"),
    [
        (table(("a", [dev(0, 0, device_ip=None)])), None, False),
        (table(("a", [dev(0, 0, device_ip=None)])), "910A", True),
        (table(("a", [dev(0, 0, device_ip=None)])), "310P3", True),
        (table(("a", [dev(0, 0, device_ip=None)]), ("b", [dev(0, 1)])), "910B3", True),
        (table(("a", [dev(0, 0, device_ip=None)]), ("b", [dev(0, 1)])), "Ascend910", False),
        (table(("a", [dev(0, 0, device_ip="0.0.0.0")])), None, True),
        (table(("a", [dev(0, 0, device_ip="::1")])), None, True),
        (table(("a", [dev(0, 0, device_ip="2001:db8::1")])), None, False),
        (table(("a", [dev(0, 0, device_port="1"), dev(0, 1, device_ip="192.0.2.10", device_port="2")])), None, False),
        (table(("a", [dev(0, 0, device_port="2"), dev(0, 1, device_ip="192.0.2.10", device_port="2")])), None, True),
    ],
)
def test_addresses_are_needed_where_roce_is_used(text, chip, fails):
    assert (answers(text, chip)["R12"].verdict is Verdict.FAIL) == fails


@pytest.mark.parametrize(
    ("first", "second", "fails"),
    [
        ("a", "b", False),
        ("b", "a", True),
        ("10.0.0.9", "10.0.0.10", False),
        ("10.0.0.10", "10.0.0.9", False),
        ("10.0.0.3", "10.0.0.2", True),
        ("node-9", "node-10", False),
        ("node-10", "node-9", False),
        ("node-b", "node-a", True),
    ],
)
def test_servers_may_stand_in_either_order_of_addresses(first, second, fails):
    assert (answers(table((first, [dev(0, 0)]), (second, [dev(0, 1)])))["R10"].verdict is Verdict.FAIL) == fails


def test_evidence_points_at_the_line_of_the_member():
    text = sample("ranktable_bad__duplicate-rank_id.json")
    for evidence in answers(text)["R08"].evidence:
        assert evidence.source == "t.json"
        assert evidence.text in text.splitlines()[evidence.line - 1]


def test_4096_ranks_are_judged_in_a_second():
    servers = [(f"s{n:04d}", [dev(i, n * 16 + i, device_ip=f"10.{n}.0.{i}") for i in range(16)]) for n in range(256)]
    text = table(*servers)
    began = time.process_time()
    assert broken(text) == {}
    assert time.process_time() - began < 1.0


def test_4096_equal_ranks_are_judged_in_a_second_too():
    text = table(("a", [dev(0, 0) for _ in range(4096)]))
    began = time.process_time()
    assert {"R07", "R08", "R12"} <= set(broken(text))
    assert time.process_time() - began < 1.5


_VALUE = st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["0", "1", "2", "192.0.2.1", "-1", "::1"])
_MEMBERS = ["device_id", "rank_id", "device_ip", "super_device_id", "device_port", "backup_device_ip"]
_DEVICES = st.lists(st.dictionaries(st.sampled_from(_MEMBERS), _VALUE) | _VALUE, max_size=4)
_SERVERS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={"server_id": _VALUE, "device": _DEVICES, "host_ip": _VALUE, "host_port": _VALUE, "devices": _DEVICES},
    ),
    max_size=3,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.sampled_from(["1.0", "1.2", "9"]),
            "status": _VALUE,
            "server_count": _VALUE,
            "server_list": _SERVERS,
            "super_pod_list": st.lists(
                st.fixed_dictionaries({"super_pod_id": _VALUE, "server_list": _SERVERS}), max_size=2
            ),
            "group_list": st.lists(st.fixed_dictionaries({"instance_list": _SERVERS}), max_size=2),
            "rank_list": _DEVICES,
        },
    ),
    st.sampled_from([None, "910A", "910B3", "Ascend910", "310P3"]),
)
def test_no_rule_raises_on_a_table_of_junk(value, chip):
    answers(json.dumps(value), chip)
