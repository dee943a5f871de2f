"""doctor.checks.network.hccn and hccn_links: each check passes, fails and cannot tell; levels by number of servers."""

import pytest

from doctor.checks.network import hccn, hccn_links
from doctor.model import Evidence, Fact, Unknown
from doctor.probes import hccn_parse as parse
from doctor.probes.hccn import Tool, Trouble

SEEN = Evidence("hccn_tool", 1, "line")
NOT_KNOWN = Unknown("launch.settings", "not_asked")
ALONE = Fact("launch.settings", {"nodes": 1})
SEVERAL = Fact("launch.settings", {"nodes": 4})


def fact(values, name="hccn.x"):
    return Fact(name, values, SEEN)


def links(*states):
    return fact({n: parse.Link(state, SEEN) for n, state in enumerate(states)})


def ips(*addresses):
    return fact({n: parse.Ip(a, "255.255.255.0", SEEN) if a else None for n, a in enumerate(addresses)})


def conf(text):
    return fact(parse.parse_conf(text))


def said(answer):
    """(verdict, severity) of one or several answers."""
    answers = answer if isinstance(answer, list) else [answer]
    return [(a.verdict.value, a.severity) for a in answers]


def tool(state, *codes, cut=False):
    troubles = tuple(Trouble(0, "link", code, Evidence("hccn_tool -i 0 -link -g", 1, "text")) for code in codes)
    return fact(Tool(state, (0, 1), 3, 1 if state == "ok" else 0, 2.0, cut, troubles))


TOOL = tool("ok")

# ------------------------------------------------------------------ one, several and an unknown number of servers


@pytest.mark.parametrize(
    ("states", "settings", "expected"),
    [
        (("UP", "UP"), SEVERAL, [("pass", None)]),
        (("UP", "DOWN"), SEVERAL, [("fail", "error")]),
        (("UP", "DOWN"), NOT_KNOWN, [("fail", "advice")]),
        (("DOWN", "DOWN"), NOT_KNOWN, [("fail", "advice")]),
        (("DOWN", "DOWN"), SEVERAL, [("fail", "error")]),
        (("DOWN", "DOWN"), ALONE, [("not_applicable", None)]),
    ],
)
def test_a_link_that_is_down_weighs_what_the_run_makes_of_it(states, settings, expected):
    assert said(hccn_links.link_up(links(*states), settings, TOOL)) == expected


def test_the_only_odd_device_is_the_place_of_the_finding():
    answer = hccn_links.link_up(links("UP", "DOWN", "UP"), SEVERAL, TOOL)
    assert (answer.place.device, answer.args["device"], answer.args["of"]) == (1, "1", 3)
    both = hccn_links.link_up(links("DOWN", "DOWN", "UP", "DOWN"), SEVERAL, TOOL)
    assert (both.place.device, both.args["device"]) == (None, "0-1,3")


@pytest.mark.parametrize("value", [{"nodes": 2}, type("S", (), {"nodes": 2})()])
def test_the_number_of_servers_is_read_from_either_form(value):
    assert hccn.nodes_of(Fact("launch.settings", value)) == 2


@pytest.mark.parametrize("value", [{"nodes": None}, {"nodes": True}, {"nodes": 0}, {}, None])
def test_a_number_of_servers_that_is_none_is_unknown(value):
    assert hccn.nodes_of(Fact("launch.settings", value)) is None


# ------------------------------------------------------------------ the tool


@pytest.mark.parametrize(
    ("fact", "settings", "expected"),
    [
        (tool("ok"), NOT_KNOWN, [("pass", None)]),
        (tool("missing", "missing"), SEVERAL, [("fail", "error")]),
        (tool("missing", "missing"), NOT_KNOWN, [("fail", "advice")]),
        (tool("missing", "missing"), ALONE, [("not_applicable", None)]),
        (tool("failed", "failed"), SEVERAL, [("fail", "error")]),
        (tool("denied", "denied"), SEVERAL, [("unknown", None)]),
        (tool("hangs", "timeout"), SEVERAL, [("unknown", None)]),
        (tool("unsupported", "unsupported"), SEVERAL, [("not_applicable", None)]),
    ],
)
def test_the_tool_is_there_missing_or_withheld(fact, settings, expected):
    assert said(hccn.tool_answers(fact, settings)) == expected


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        (tool("ok"), [("pass", None)]),
        (tool("hangs", "timeout", "timeout"), [("fail", None)]),
        (tool("ok", cut=True), [("fail", None)]),
        (tool("ok", "busy"), [("fail", "advice")]),
        (tool("missing", "missing"), [("not_applicable", None)]),
    ],
)
def test_the_tool_answers_in_time(fact, expected):
    assert said(hccn.tool_keeps_up(fact)) == expected


# ------------------------------------------------------------------ addresses


def test_a_trouble_that_somebody_shows_is_a_warning_on_an_unknown_number_of_servers():
    shown = fact(TOOL.value._replace(shown=True))
    assert said(hccn_links.link_up(links("DOWN"), NOT_KNOWN, shown)) == [("fail", "warning")]
    assert said(hccn.detection(health("fault", "init"), NO_TARGET, NOT_KNOWN, shown)) == [
        ("fail", "warning"),
        ("fail", "advice"),
    ]


PCI = Unknown("npu.pci", "not_asked")
A3 = Fact("npu.pci", {"devices": [{"family": "A3"}]})
NO_IP = Unknown("hccn.ip", "needs_root")
NO_CONF = Unknown("hccn.conf", "no_file")


@pytest.mark.parametrize(
    ("ip", "written", "settings", "pci", "expected"),
    [
        (ips("192.0.2.1", "192.0.2.2"), NO_CONF, SEVERAL, PCI, [("pass", None)]),
        (ips("192.0.2.1", ""), NO_CONF, SEVERAL, PCI, [("fail", "error")]),
        (ips("192.0.2.1", ""), NO_CONF, NOT_KNOWN, PCI, [("fail", "advice")]),
        (ips("", ""), NO_CONF, NOT_KNOWN, PCI, [("fail", "advice")]),
        (ips("", ""), NO_CONF, SEVERAL, A3, [("fail", "advice")]),
        (ips("", ""), NO_CONF, ALONE, PCI, [("not_applicable", None)]),
        (NO_IP, conf("address_0=192.0.2.1\naddress_1=192.0.2.2\n"), SEVERAL, PCI, [("pass", None)]),
        (NO_IP, conf("address_0=192.0.2.1\n"), SEVERAL, PCI, [("fail", "error")]),
        (NO_IP, NO_CONF, SEVERAL, PCI, [("unknown", None)]),
        (Unknown("hccn.ip", "no_npu", applies=False), NO_CONF, SEVERAL, PCI, [("not_applicable", None)]),
    ],
)
def test_devices_have_an_address_where_it_is_needed(ip, written, settings, pci, expected):
    assert said(hccn.addresses(ip, written, TOOL, settings, pci)) == expected


def test_addresses_are_unique_on_the_devices_else_in_the_file():
    assert said(hccn.unique_addresses(ips("192.0.2.1", "192.0.2.2"), NO_CONF, SEVERAL)) == [("pass", None)]
    twice = hccn.unique_addresses(ips("192.0.2.1", "192.0.2.1", "192.0.2.3"), NO_CONF, SEVERAL)
    assert said(twice) == [("fail", "error")] and twice[0].args["device"] == "0-1"
    written = conf("address_0=192.0.2.1\naddress_1=192.0.2.1\n")
    (answer,) = hccn.unique_addresses(NO_IP, written, NOT_KNOWN)
    assert (answer.severity, answer.evidence[1]) == ("warning", ("/etc/hccn.conf", 2, "address_1=192.0.2.1", (), ()))
    assert said(hccn.unique_addresses(NO_IP, NO_CONF, SEVERAL)) == [("not_applicable", None)]


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("address_0=192.0.2.1\nnetmask_0=255.255.255.0\n", None),
        ("address_0=192.0.2.9\nnetmask_0=255.255.255.0\n", "0"),
        ("address_0=192.0.2.1\nnetmask_0=255.255.0.0\n", "0"),
        ("", "0"),
    ],
)
def test_the_file_is_what_the_device_has(text, odd):
    answer = hccn.conf_as_live(conf(text), ips("192.0.2.1"), SEVERAL)
    assert answer.args.get("device") == odd


@pytest.mark.parametrize(
    ("gateway", "expected"),
    [("192.0.2.254", [("pass", None)]), ("203.0.113.1", [("fail", "error")]), ("junk", [("not_applicable", None)])],
)
def test_a_gateway_lies_in_the_subnet(gateway, expected):
    gateways = fact({0: parse.Gateway(gateway, "eth0", SEEN), 1: None})
    assert said(hccn.gateway_reachable(gateways, ips("192.0.2.1", ""), NO_CONF, SEVERAL)) == expected


# ------------------------------------------------------------------ equal settings


def tls(*switches, status=None):
    certificates = () if status is None else (parse.Certificate("pub cert", "2026", status, SEEN),)
    return fact({n: parse.Tls(switch, None, 60, certificates, SEEN) for n, switch in enumerate(switches)})


def test_a_mixed_tls_switch_names_the_few():
    assert said(hccn.tls_equal(tls(0, 0))) == [("pass", None)]
    answer = hccn.tls_equal(tls(0, 0, 1))
    assert said(answer) == [("fail", None)]
    assert (answer.args["device"], answer.args["switch"], answer.args["rest"]) == ("2", 1, "0-1")


@pytest.mark.parametrize(
    ("switch", "status", "expected"),
    [
        (1, 0, [("pass", None)]), (1, 1, [("fail", "warning")]), (1, 2, [("fail", "error")]),
        (0, 2, [("fail", "advice")]), (0, None, [("not_applicable", None)]),
    ],
)  # fmt: skip
def test_the_end_of_a_certificate_counts_where_tls_is_on(switch, status, expected):
    assert said(hccn.certificates(tls(switch, status=status))) == expected


def test_mtu_speed_and_fec_are_equal():
    same, mixed = (fact({0: parse.Number(4200, SEEN), 1: parse.Number(n, SEEN)}) for n in (4200, 1500))
    assert said(hccn.mtu_equal(same, SEVERAL)) == [("pass", None)]
    assert said(hccn.mtu_equal(mixed, SEVERAL)) == [("fail", "warning")]
    assert said(hccn.mtu_equal(mixed, NOT_KNOWN)) == [("fail", "advice")]
    assert said(hccn.mtu_equal(mixed, ALONE)) == [("not_applicable", None)]
    gone = Unknown("hccn.fec", "needs_root")
    assert said(hccn_links.alike(same, gone, SEVERAL)) == [("pass", None)]
    assert said(hccn_links.alike(mixed, gone, SEVERAL)) == [("fail", None)]
    assert said(hccn_links.alike(gone, gone, SEVERAL)) == [("unknown", None)]


# ------------------------------------------------------------------ health, processes, pings


def health(*states):
    return fact({n: parse.Health(state, state.title(), SEEN) for n, state in enumerate(states)})


NO_TARGET = fact({0: None, 1: None})


@pytest.mark.parametrize(
    ("states", "settings", "expected"),
    [
        (("success", "success"), SEVERAL, [("pass", None)]),
        (("success", "fault"), SEVERAL, [("fail", "error")]),
        (("success", "fault"), NOT_KNOWN, [("fail", "advice")]),
        (("fault", "fault"), NOT_KNOWN, [("fail", "advice")]),
        (("success", "init"), SEVERAL, [("fail", "advice")]),
        (("fault", "init"), SEVERAL, [("fail", "error"), ("fail", "advice")]),
        (("fault", "fault"), ALONE, [("not_applicable", None)]),
    ],
)
def test_detection_weighs_what_the_run_makes_of_it(states, settings, expected):
    assert said(hccn.detection(health(*states), NO_TARGET, settings, TOOL)) == expected


@pytest.mark.parametrize(
    ("word", "processes", "expected"),
    [
        ("not exist", Unknown("npu.processes", "no_tool"), [("pass", None)]),
        ("exist", Unknown("npu.processes", "no_tool"), [("fail", "advice")]),
        ("exist", Fact("npu.processes", []), [("fail", "warning")]),
        ("exist", Fact("npu.processes", [{"pid": 1}]), [("pass", None)]),
    ],
)
def test_an_hccp_process_without_a_job_is_left_over(word, processes, expected):
    assert said(hccn.no_left_over(fact({0: parse.Word(word, SEEN)}), processes)) == expected


@pytest.mark.parametrize(
    ("received", "expected"), [(3, [("pass", None)]), (2, [("fail", "warning")]), (0, [("fail", "error")])]
)
def test_a_ping_that_loses_packets_fails(received, expected):
    assert said(hccn.pings(fact([parse.Ping(0, "192.0.2.9", 3, received, "", SEEN)]))) == expected


# ------------------------------------------------------------------ optics, history, counters, switch ports


def module(rx=1.0, tx=1.0, temp=47.0, flags=None, limits=True, present=True):
    read = lambda value: parse.Reading(value, SEEN)  # noqa: E731
    bounds = {
        "rx_low": 0.1445,
        "rx_high": 3.5481,
        "tx_low": 0.2818,
        "tx_high": 3.5481,
        "temp_high": 70.0,
        "temp_low": 0.0,
    }
    return parse.Optical(
        present, (read(tx),), (read(rx),), read(temp), None, bounds if limits else {}, flags or {}, SEEN,
        SEEN if flags else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "settings", "expected"),
    [
        (module(), SEVERAL, [("pass", None)]),
        (module(rx=0.0054), SEVERAL, [("fail", "error")]),
        (module(rx=0.0054), NOT_KNOWN, [("fail", "advice")]),
        (module(rx=0.15), SEVERAL, [("fail", "warning")]),
        (module(rx=0.15), NOT_KNOWN, [("fail", "advice")]),
        (module(tx=3.6), SEVERAL, [("fail", "error")]),
        (module(temp=71.0), SEVERAL, [("fail", "error")]),
        (module(flags={"rx los": 1}), SEVERAL, [("fail", "error")]),
        (module(rx=0.0054, limits=False), SEVERAL, [("pass", None)]),
        (module(rx=0.0054), ALONE, [("not_applicable", None)]),
        (parse.Optical(False, (), (), None, None, {}, {}, SEEN), SEVERAL, [("not_applicable", None)]),
    ],
)
def test_an_optical_module_is_judged_by_its_own_thresholds(one, settings, expected):
    assert said(hccn_links.optics(fact({0: one}), settings, TOOL)) == expected


def history(*records, now=90_000.0, ups=1):
    changes = tuple(parse.Change(status, at, SEEN) for status, at in records)
    return parse.LinkHistory(now, ups, None, changes, SEEN)


@pytest.mark.parametrize(
    ("one", "link", "expected"),
    [
        (history(("UP", 80_000.0)), links("UP"), [("pass", None)]),
        (history(("DOWN", 80_000.0), ("UP", 70_000.0)), links("DOWN"), [("fail", "error")]),
        (history(("DOWN", 80_000.0), ("UP", 70_000.0)), links("UP"), [("pass", None)]),
        (history(("UP", 89_000.0), *(("DOWN", 80_000.0 + n) for n in range(3))), links("UP"), [("fail", "warning")]),
        (history(("UP", 89_000.0), *(("DOWN", 1_000.0 + n) for n in range(3))), links("UP"), [("pass", None)]),
        (history(ups=0), links("DOWN"), [("fail", "warning")]),
        (history(ups=0), links("UP"), [("pass", None)]),
        (history(("DOWN", None), ("DOWN", None), ("DOWN", None), now=None), links("UP"), [("pass", None)]),
    ],
)
def test_a_link_is_steady_or_not(one, link, expected):
    assert said(hccn_links.steady(fact({0: one}), link, SEVERAL, TOOL)) == expected


def counters(**values):
    return parse.Counters(values, dict.fromkeys(values, 1), SEEN)


def test_counters_are_named_and_a_missing_one_is_not_zero():
    assert said(hccn_links.clean_counters(fact({0: counters(roce_tx_err_pkt_num=0)}), SEVERAL)) == [("pass", None)]
    odd = hccn_links.clean_counters(fact({0: counters(roce_new_pkt_rty_num=96)}), SEVERAL)
    assert said(odd) == [("fail", None)] and odd.args["counters"] == "roce_new_pkt_rty_num=96"
    assert said(hccn_links.clean_counters(fact({0: counters(nic_x=1)}), SEVERAL)) == [("unknown", None)]


def test_two_readings_show_what_rose():
    before = {
        0: counters(roce_new_pkt_rty_num=90, mac_rx_fcs_err_pkt_num=5),
        1: counters(roce_new_pkt_rty_num=7),
        2: None,
    }
    after = {
        0: counters(roce_new_pkt_rty_num=96, mac_rx_fcs_err_pkt_num=5, roce_out_of_order_num=9),
        1: counters(roce_new_pkt_rty_num=1), 2: counters(roce_new_pkt_rty_num=3), 3: counters(roce_new_pkt_rty_num=3),
    }  # fmt: skip
    assert hccn_links.risen(before, after) == {0: {"roce_new_pkt_rty_num": 6}}


def neighbour(port, chassis="00:00"):
    return parse.Neighbour(chassis, port, "", "", None, SEEN)


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([neighbour("1/1"), neighbour("1/2")], [("pass", None)]),
        ([neighbour("1/1"), neighbour("1/1")], [("fail", "warning")]),
        ([neighbour("1/1"), neighbour("1/1", "00:01")], [("pass", None)]),
        ([neighbour("1/1", ""), neighbour("1/1", "")], [("fail", "advice")]),
        ([neighbour("", "")], [("unknown", None)]),
    ],
)
def test_each_device_has_a_switch_port_of_its_own(ports, expected):
    assert said(hccn_links.one_port_each(fact(dict(enumerate(ports))), SEVERAL)) == expected


def test_a_virtual_port_that_is_down_fails():
    up, down = (parse.Vnic(state, "192.168.1.199", "255.255.255.0", SEEN) for state in ("UP", "DOWN"))
    assert said(hccn_links.vnic_up(fact({0: up}))) == [("pass", None)]
    assert said(hccn_links.vnic_up(fact({0: up, 1: down}))) == [("fail", None)]


def table(*peers):
    devices = [type("D", (), {"server": n, "device_id": 0, "device_ip": ip}) for n, ip in enumerate(peers)]
    return Fact("hccl.rank_table", type("T", (), {"devices": devices}), SEEN)


@pytest.mark.parametrize(
    ("peer", "gateway", "written", "expected"),
    [
        ("192.0.2.2", None, "", [("pass", None)]),
        ("203.0.113.2", None, "", [("fail", None)]),
        ("203.0.113.2", parse.Gateway("192.0.2.254", "eth0", SEEN), "", [("pass", None)]),
        ("203.0.113.2", None, "gateway_0=192.0.2.254", [("pass", None)]),
        ("203.0.113.2", None, "route_0=203.0.113.0", [("pass", None)]),
        ("junk", None, "", [("not_applicable", None)]),
    ],
)
def test_a_peer_in_another_subnet_needs_a_gateway(peer, gateway, written, expected):
    answer = hccn.way_to_peers(table("192.0.2.1", peer), fact({0: gateway}), ips("192.0.2.1"), conf(written))
    assert said(answer) == expected


def test_a_rank_table_of_other_servers_says_nothing_of_the_way_from_here():
    answer = hccn.way_to_peers(table("203.0.113.1", "203.0.113.2"), fact({0: None}), ips("192.0.2.1"), NO_CONF)
    assert said(answer) == [("not_applicable", None)]
