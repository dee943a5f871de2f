"""doctor.render.topology: the picture of one server, of a cluster, of links; never wider or longer than asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.render.safe import width
from doctor.render.topology import draw


def server(n=0, count=8, down=None, **more):
    devices = [{"id": d, "ip": f"192.0.2.{10 + d}", "link": "DOWN" if d == down else "UP"} for d in range(count)]
    return {"id": f"198.51.100.{n}", "devices": devices, **more}


def cluster(servers, odd=()):
    out = []
    for n in range(servers):
        devices = [{"id": d, "rank": n * 8 + d, "ip": f"192.0.2.{d}"} for d in range(7 if n in odd else 8)]
        out.append({"id": f"198.51.{n // 256}.{n % 256}", "devices": devices})
    return {"servers": out, "links": None}


def test_one_server_shows_every_device_with_its_port():
    lines = draw({"servers": [server(count=2, down=1)], "links": None})
    assert lines == [
        "198.51.100.0: 2 devices",
        "├─ 0  192.0.2.10  ─────  UP",
        "└─ 1  192.0.2.11  ──✖──  DOWN",
    ]


def test_the_plain_form_is_ascii_and_chinese_columns_line_up():
    devices = [
        {"id": 0, "ip": "", "link": "UP", "switch": "LEAF-01 1/1"},
        {"id": 1, "ip": "192.0.2.11", "link": "DOWN"},
    ]
    lines = draw({"servers": [{"id": "node", "devices": devices}]}, ascii_only=True)
    assert all(line.isascii() for line in lines)
    lines = draw({"servers": [{"id": "node", "devices": devices}]}, ascii_only=True, lang="zh")
    assert lines[0] == "node：2 个设备"
    assert width(lines[1][: lines[1].index("-----")]) == width(lines[2][: lines[2].index("--x--")])


def test_4096_ranks_fold_and_the_odd_server_is_shown():
    lines = draw(cluster(512, odd=(77,)))
    assert len(lines) <= 12
    assert lines[0] == "512 servers, 4095 devices"
    assert any("▲ 198.51.0.77" in line and "rank 616-622" in line for line in lines)
    assert "rank 4088-4095" in lines[-1]
    assert any("more servers like these" in line for line in lines)


def test_many_odd_servers_do_not_make_it_longer():
    assert len(draw(cluster(512, odd=range(0, 512, 2)), most=20)) <= 2 * 20


def test_servers_are_told_by_their_superpod_and_only_the_bad_one_is_marked():
    lines = draw({"servers": [*(server(n, pod="0") for n in range(4)), server(4, down=3, pod="1")]})
    assert [line for line in lines if line.startswith("superpod")] == ["superpod 0", "superpod 1"]
    assert [line for line in lines if "▲" in line] == [lines[-1]]
    assert lines[-1].endswith("DOWN: 3")


def test_two_servers_show_every_device():
    lines = draw({"servers": [server(0, pod="0"), server(1)]})
    assert len(lines) == 2 * 9
    assert lines[0] == "superpod 0  198.51.100.0: 8 devices"


FULL = [["X" if a == b else "HCCS" for b in range(8)] for a in range(8)]
SPLIT = [["X" if a == b else "HCCS" if a // 4 == b // 4 else "SYS" for b in range(8)] for a in range(8)]
LABELS = [f"NPU{n}" for n in range(8)]


def test_equal_links_are_one_line_and_unequal_ones_a_matrix_or_groups():
    assert draw({"links": {"labels": LABELS, "rows": FULL}}) == ["HCCS between all 8 devices"]
    wide = draw({"links": {"labels": LABELS, "rows": SPLIT}})
    assert wide[1] == "NPU0 X    HCCS HCCS HCCS SYS  SYS  SYS  SYS" and len(wide) == 9
    narrow = draw({"links": {"labels": LABELS, "rows": SPLIT}}, 30)
    assert narrow == ["SYS: 16 pairs", "HCCS: 0 1 2 3 | 4 5 6 7"]


@pytest.mark.parametrize(
    "topology", [{}, {"servers": []}, {"servers": None, "links": None}, {"links": {"labels": ["a"], "rows": []}}]
)
def test_nothing_draws_nothing(topology):
    assert draw(topology) == []


def test_a_name_from_outside_steers_no_terminal():
    assert "\x1b" not in "".join(draw({"servers": [{"id": "a\x1b[31m", "devices": []}]}))


NUMBER = st.one_of(st.none(), st.integers(0, 5000))
DEVICE = st.fixed_dictionaries(
    {},
    optional={
        "id": NUMBER, "rank": NUMBER, "ip": st.text(max_size=30), "link": st.sampled_from(["UP", "DOWN", ""]),
        "switch": st.text(max_size=20),
    },
)  # fmt: skip
SERVER = st.fixed_dictionaries({}, optional={"id": st.text(max_size=20), "devices": st.lists(DEVICE, max_size=5)})


@given(st.lists(SERVER, max_size=60), st.integers(0, 120), st.booleans(), st.sampled_from(["zh", "en"]))
def test_any_topology_stays_inside_the_screen(servers, columns, ascii_only, lang):
    lines = draw({"servers": servers}, columns, ascii_only=ascii_only, lang=lang)
    assert all(width(line) <= max(columns, 20) for line in lines)
    assert all("\n" not in line for line in lines)
