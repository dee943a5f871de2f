"""Communication is summed from a stream of JSON that may end anywhere."""

import json

import pytest

from doctor import profile
from doctor.profile import jsons


def pairs(data, size=3):
    data = data.encode()
    return list(jsons.scalars(data[n : n + size] for n in range(0, len(data), size)))


def flat(value, path=()):
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in flat(v, (*path, k))]
    if isinstance(value, list):
        return [p for v in value for p in flat(v, (*path, "[]"))]
    return [(path, float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value)]


@pytest.mark.parametrize(
    "value",
    [{"a": {"b": 1, "c": [1, 2, {"d": "x"}]}, "e": -1.5e3}, {}, [], {"a": [], "b": {}}, {"q\"uote": "b\\s", "é": "中"},
     [[1, [2]], {"a": None}]],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("indent", [None, 2])
def test_values_have_the_paths_that_json_gives(value, size, indent):
    assert pairs(json.dumps(value, indent=indent), size) == flat(value)


def test_a_text_that_ends_in_the_middle_says_so_after_what_is_before():
    text = json.dumps({"a": 1, "b": {"c": 2, "d": 3}})
    for end in range(8, len(text) - 1):
        found = pairs(text[:end])
        assert found[0] == (("a",), 1.0)
        assert found[-1] == ((), "cut"), text[:end]


@pytest.mark.parametrize("text", ["}", "{]" * 50, "[" * 100, '{"a": "' + "x" * 70_000, "\x00", "nonsense", '{"a" 1 2}'])
def test_what_is_no_json_ends_quietly(text):
    assert len(pairs(text, 1000)) < 60


def time(elapse, transit, wait):
    return {"Elapse Time(ms)": elapse, "Transit Time(ms)": transit, "Wait Time(ms)": wait}


def link(size, ms, large):
    return {
        "Transit Time(ms)": ms,
        "Transit Size(MB)": size,
        "Large Packet Ratio": large,
        "Size Distribution": {"1": [2, 3]},
    }


OPS = {
    "hcom_allReduce__1_1@9": {
        "Communication Time Info": time(10, 6, 3),
        "Communication Bandwidth Info": {"RDMA": link(120, 6, 0.5), "HCCS": link(0, 0, 0)},
    },
    "hcom_allReduce__1_2@9": {
        "Communication Time Info": time(8, 4, 3), "Communication Bandwidth Info": {"RDMA": link(80, 4, 1.0)},
    },
    "Total Op Info": {
        "Communication Time Info": time(999, 999, 999), "Communication Bandwidth Info": {"RDMA": link(9, 9, 0)},
    },
}  # fmt: skip


@pytest.mark.parametrize("whole", [OPS, {"step1": {"p2p": {}, "collective": OPS}}])
def test_times_and_links_are_summed_without_the_sums_of_the_writer(whole):
    data = json.dumps(whole).encode()
    assert profile.kind_of(data) == "communication"
    table = profile.read("c.json", "communication", [data])
    assert table.data["kinds"] == {"allreduce": {"count": 2, "elapse": 18, "transit": 10, "wait": 6}}
    assert table.data["links"]["RDMA"] == {"time": 10, "size": 200, "packets": 2, "large": 1.5}
    assert (table.rows, table.cut, table.data["worst"][0]) == (2, False, 10)


def test_a_file_that_is_cut_keeps_what_was_read():
    data = json.dumps(OPS).encode()
    table = profile.read("c.json", "communication", [data[: data.index(b"__1_2") + 60]])
    assert table.cut
    assert table.data["kinds"]["allreduce"]["transit"] >= 6


def test_links_between_ranks_count_once():
    one = {"0-1": {"Transport Type": "HCCS", "Transit Size(MB)": 200, "Transit Time(ms)": 10, "Bandwidth(GB/s)": 20}}
    whole = {
        "step1": {"p2p": {}, "collective": {"allreduce-top1@9": one, "allreduce-total@9": one, "Total Op Info": one}}
    }
    table = profile.read("m.json", "matrix", [json.dumps(whole).encode()])
    assert table.data["links"] == {"0-1": {"size": 200, "time": 10, "type": "HCCS"}}


def test_a_timeline_is_named_and_not_read():
    data = b'[{"name": "MatMul", "pid": 1, "ph": "X", "ts": "17", "dur": 3}]'
    assert profile.kind_of(data) == "timeline"
    assert "MindStudio" in profile.unread(profile.read("trace_view.json", "timeline", [data]))["en"]


@pytest.mark.parametrize("data", [b'{"model_type": "llama"}', b"", b"{", b"plain text", b'{"server_list": []}'])
def test_other_json_is_no_profile(data):
    assert profile.kind_of(data) == ""
