"""Rank tables: found, read with lines, brought into one form; junk is said in one word."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import folder
from doctor.model import Fact, Raw, Unknown
from doctor.probes.jsonlines import read
from doctor.probes.rank_table import LIMIT, MIND_CLUSTER, parse, read_rank_table

SAMPLES = f"{folder()}/samples"


def sample(name: str) -> str:
    with open(f"{SAMPLES}/{name}", encoding="utf-8", newline="") as file:
        return file.read()


def facts_of(text: str | Raw, path: str = "/t.json"):
    raw = text if isinstance(text, Raw) else Raw(f"file {path}", "ok", text)
    host = MemoryHost({f"file {path}": raw, "ask rank_table_path": json.dumps(path)}, absent=True)
    return read_rank_table(host, {})


@pytest.mark.parametrize(
    ("name", "form", "servers", "ranks", "pods"),
    [
        ("ranktable_v1.0__1server-8p__mindspore-hccl_tools.json", "1.0", 1, 8, 0),
        ("ranktable_v1.0__2server-16p__merged.json", "1.0", 2, 16, 0),
        ("ranktable_v1.0__2server-16p__with-pod_ip.json", "1.0", 2, 16, 0),
        ("ranktable_v1.0__1server__device_port-subset.json", "1.0", 1, 2, 0),
        ("ranktable_v1.0__mindcluster-hccl.json", "1.0", 1, 8, 0),
        ("ranktable_v1.0__mindcluster-initializing.json", "1.0", 0, 0, 0),
        ("ranktable_template2__group_list-8p.json", "template2", 1, 8, 0),
        ("ranktable_v1.2__A3-1superpod-1server-16p.json", "1.2", 1, 16, 1),
        ("ranktable_v1.2__A3-2superpods-32p.json", "1.2", 2, 32, 2),
        ("ranktable_v2.0__950__operator.json", "2.0", 1, 2, 0),
    ],
)
def test_six_forms_become_one(name, form, servers, ranks, pods):
    table, flaws = parse(sample(name), name)
    assert not flaws and not table.broken
    assert (table.form, len(table.servers), len(table.devices), len(table.pods)) == (form, servers, ranks, pods)


def test_the_form_of_several_clusters_is_read():
    text = json.dumps(
        {
            "version": "1.0",
            "server_count": "1",
            "status": "completed",
            "cluster_list": [],
            "server_list": [
                {
                    "server_ip": "192.0.2.1",
                    "dpu_ip": "x",
                    "device": [{"device_id": "0", "rank_id": "0", "numa_id": "1"}],
                }
            ],
        }
    )
    table, _ = parse(text)
    assert table.servers[0].server_id == "192.0.2.1" and table.devices[0].rank_id == 0


def test_every_member_knows_its_line():
    text = sample("ranktable_v1.0__2server-16p__merged.json")
    table, _ = parse(text)
    lines = text.splitlines()
    for device in table.devices:
        for key in ("device_id", "device_ip", "rank_id"):
            line = lines[device.lines[key] - 1]
            assert f'"{key}"{table.gap}"{getattr(device, key)}"' in line


@pytest.mark.parametrize(
    ("name", "kinds", "ranks"),
    [
        ("ranktable_bad__comments-in-json.json", ["comment", "comment"], 1),
        ("ranktable_bad__trailing-comma.json", ["trailing_comma"], 1),
        ("ranktable_bad__utf8-bom.json", ["bom"], 8),
    ],
)
def test_what_strict_readers_refuse_is_named_and_read_over(name, kinds, ranks):
    file, table = facts_of(sample(name))
    assert [flaw.kind for flaw in file.value.flaws] == kinds
    assert len(table.value.devices) == ranks


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("", "not_json", 1),
        ('{\n"a": 1\n', "not_json", 3),
        ("{'a': 1}", "not_json", 1),
        ('{"a": 1,,}', "not_json", 1),
        ('{"a" 1}', "not_json", 1),
        ('{"a": [1}', "not_json", 1),
        ('{"a": 1} {', "not_json", 1),
        ("[" * 100_000, "not_json", 1),
        ("[1]", "not_object", 1),
        ('{"a": "\ufffd"}', "not_utf8", 1),
        ('{"a": 1,\n"a": 2}', "duplicate_key", 2),
    ],
)
def test_faults_of_json_have_a_kind_and_a_line(text, kind, line):
    assert (kind, line) in [(flaw.kind, flaw.line) for flaw in read(text).flaws]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_good_json_is_read_as_the_standard_library_reads_it(value):
    def plain(node):
        inner = node.value
        if isinstance(inner, dict):
            return {key: plain(one) for key, one in inner.items()}
        return [plain(one) for one in inner] if isinstance(inner, list) else inner

    text = json.dumps({"a": value}, ensure_ascii=False)
    document = read(text)
    assert not [flaw for flaw in document.flaws if flaw.kind != "not_utf8"]
    assert plain(document.root) == json.loads(text)


@given(st.text(alphabet='{}[]",:#/*\\\n 0a-', max_size=200) | st.text(max_size=200))
def test_junk_is_never_raised(text):
    document = read(text)
    file, table = facts_of(text)
    assert isinstance(file, Fact)
    try:
        json.loads(text)
    except ValueError:
        assert document.flaws
    if document.root is None:
        assert isinstance(table, Unknown) and table.why == "not_json"


_ID = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2) | st.booleans()
_DEVICE = st.dictionaries(st.sampled_from(["device_id", "rank_id", "device_ip", "super_device_id", "device_port"]), _ID)
_SERVER = st.dictionaries(st.sampled_from(["server_id", "host_ip", "host_port"]), _ID).flatmap(
    lambda s: st.lists(_DEVICE | _ID, max_size=3).map(lambda d: {**s, "device": d})
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "version": st.sampled_from(["1.0", "1.2", 1.0, None]),
            "status": _ID,
            "server_count": _ID,
            "server_list": st.lists(_SERVER | _ID, max_size=3) | _ID,
            "group_list": st.lists(_ID, max_size=2),
            "rank_list": st.lists(_DEVICE, max_size=2),
            "super_pod_list": st.lists(
                st.fixed_dictionaries({"server_list": st.lists(_SERVER | _ID, max_size=2)}), max_size=2
            ),
        },
    )
)
def test_members_of_the_wrong_kind_are_noted(value):
    _, table = facts_of(json.dumps(value))
    assert isinstance(table, Fact)


def _large(ranks: int) -> str:
    servers = [
        {
            "server_id": f"10.0.{n // 250}.{n % 250}",
            "host_ip": f"10.0.{n // 250}.{n % 250}",
            "device": [
                {
                    "device_id": str(i),
                    "device_ip": f"10.1.{(n * 16 + i) // 250}.{(n * 16 + i) % 250}",
                    "rank_id": str(n * 16 + i),
                    "super_device_id": str(n * 16 + i),
                    "device_port": "16666",
                }
                for i in range(16)
            ],
        }
        for n in range(ranks // 16)
    ]
    return json.dumps(
        {"version": "1.0", "status": "completed", "server_count": str(len(servers)), "server_list": servers}, indent=4
    )


def test_4096_ranks_take_less_than_a_second():
    text = _large(4096)
    began = time.process_time()
    _, table = facts_of(text)
    assert len(table.value.devices) == 4096
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize("unit", ['{"server_list": [', "\x00\xff junk\n", '"', "/*", "# x\n", '{"a":1},'])
def test_50_mb_of_junk_are_one_clear_unknown(unit):
    text = unit * (50_000_000 // len(unit))
    began = time.process_time()
    file, table = facts_of(text)
    assert (file.why, table.why) == ("too_large", "too_large")
    assert time.process_time() - began < 2.0
    cut = text[: LIMIT - 1]
    began = time.process_time()
    facts_of(cut)
    assert time.process_time() - began < 3.0


@pytest.mark.parametrize(
    ("raws", "by"),
    [
        ({"ask env": {"RANK_TABLE_FILE": "/t.json"}}, "RANK_TABLE_FILE"),
        ({"ask env": {"MINDSPORE_HCCL_CONFIG_PATH": "/t.json"}}, "MINDSPORE_HCCL_CONFIG_PATH"),
        ({"ask launch_text": "msrun --rank_table_file=/t.json train.py"}, "--rank_table_file"),
        ({"ask launch_text": "export RANK_TABLE_FILE=/t.json\nbash run.sh"}, "RANK_TABLE_FILE"),
        ({"ask rank_table_path": "/t.json", "ask env": {"RANK_TABLE_FILE": "/other.json"}}, "given"),
    ],
)
def test_a_table_is_found_where_it_is_named(raws, by):
    from doctor.hosts.compose import host_of
    from doctor.probes import base

    host = host_of({**raws, "file /t.json": sample("ranktable_v1.0__2server-16p__merged.json")}, "/", "x")
    facts = {}
    for done in base.run(host, base.wanted(base.all_probes(), ["hccl.rank_table"])):
        facts.update(done.facts)
    assert facts["hccl.rank_table_file"].value.asked_by == by
    assert facts["hccl.rank_table"].value.source == "/t.json"


def test_the_file_of_mind_cluster_is_found_by_itself():
    host = MemoryHost({f"file {MIND_CLUSTER}": sample("ranktable_v1.0__mindcluster-hccl.json")}, absent=True)
    file, table = read_rank_table(host, {})
    assert file.value.asked_by == "mind-cluster" and len(table.value.devices) == 8


@pytest.mark.parametrize(
    ("state", "kind"),
    [("missing", Fact), ("denied", Fact), ("failed", Fact), ("not_recorded", Unknown), ("timeout", Unknown)],
)
def test_a_table_that_cannot_be_read_is_a_state_of_the_file_or_unknown(state, kind):
    file, table = facts_of(Raw("file /t.json", state))
    assert isinstance(file, kind) and isinstance(table, Unknown) and table.applies


def test_no_table_is_no_gap():
    file, table = read_rank_table(MemoryHost({}, absent=True), {})
    assert (file.why, table.why, file.applies, table.applies) == ("no_rank_table", "no_rank_table", False, False)
