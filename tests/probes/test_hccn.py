"""doctor.probes.hccn: every sample of hccn_tool and hccn.conf, the order of calls, pastes, junk."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost, run_key
from doctor.model import Fact, Raw, Unknown
from doctor.probes import hccn
from doctor.probes import hccn_parse as parse
from doctor.probes.pasted_hccn import from_text

SAMPLES = Path(__file__).resolve().parents[2] / "fixtures" / "hosts" / "samples"


def sample(name):
    return (SAMPLES / name).read_text(encoding="utf-8")


def said(name):
    return sample(f"hccn_tool_{name}.txt")


def link_of(text):
    history = parse.parse_link_stat(text)
    return [r.status for r in history.records][:2], history.ups, history.downs


# what a correct reader gets of each sample
VALUES = {
    "-dev_info__950__doc-example": lambda t: [(p.die, p.port, p.speed, p.status) for p in parse.parse_dev_info(t)],
    "-fec-g__910A__none": lambda t: parse.parse_fec(t).value,
    "-fec-g__A2__rs": lambda t: parse.parse_fec(t).value,
    "-gateway-g__A2__not-set": lambda t: (parse.parse_gateway(t), parse.trouble(t).code),
    "-hccs_ping-g__A3__ok": lambda t: parse.parse_ping(t)[:4],
    "-hccs_ping-g__A3__send-fail": lambda t: parse.parse_ping(t)[:5],
    "-hw_stats-g__A2": lambda t: (len(parse.parse_hw_stats(t).values), parse.parse_hw_stats(t).values["qp_active"]),
    "-ip-g__A2__not-set": lambda t: (parse.parse_ip(t), parse.trouble(t).code),
    "-link-g__A2__down": lambda t: parse.parse_link(t).status,
    "-link-g__A2__up": lambda t: parse.parse_link(t).status,
    "-link_stat-g__910A__device-prefix-variant": link_of,
    "-link_stat-g__910A__last-state-down": link_of,
    "-link_stat-g__910A__ok": link_of,
    "-link_stat-g__A2__flapping": link_of,
    "-link_stat-g__A2__no-records": link_of,
    "-link_stat__950__doc-example": link_of,
    "-lldp-g__A2__ok": lambda t: parse.parse_lldp(t)[:5],
    "-mtu-g__A2__ok": lambda t: parse.parse_mtu(t).value,
    "-net_health-g__910A__socket-failed-variant": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__fault": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__init": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__receive-timeout": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__socket-fail": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__success": lambda t: parse.parse_health(t).state,
    "-net_health-g__A2__unreachable": lambda t: parse.parse_health(t).state,
    "-netdetect-g__A2__older-wording": lambda t: parse.parse_netdetect(t).value,
    "-netdetect-g__A2__source-wording": lambda t: parse.parse_netdetect(t).value,
    "-optical-g__910A__rx-los-lane1-low": lambda t: (
        parse.parse_optical(t).present,
        parse.parse_optical(t).rx[1].value,
        parse.parse_optical(t).limits["rx_low"],
        parse.parse_optical(t).flags,
    ),
    "-optical-g__A2__no-module": lambda t: (parse.parse_optical(t).present, parse.parse_optical(t).rx),
    "-optical-g__A2__ok": lambda t: (
        len(parse.parse_optical(t).tx),
        parse.parse_optical(t).temperature.value,
        parse.parse_optical(t).limits,
        parse.parse_optical(t).flags,
    ),
    "-optical-g__A2__single-lane-labels": lambda t: [r.value for r in parse.parse_optical(t).tx],
    "-ping-g__A2__ok": lambda t: parse.parse_ping(t)[:5],
    "-ping-g__A2__partial-loss": lambda t: parse.parse_ping(t)[:5],
    "-ping-g__A2__timeout": lambda t: parse.parse_ping(t)[:5],
    "-route-g__A2": lambda t: [(r.destination, r.gateway, r.interface) for r in parse.parse_route(t)][:2],
    "-set__any__ok": parse.parse_set,
    "-speed-g__A2__ok": lambda t: parse.parse_speed(t).value,
    "-speed-g__A2__unknown": lambda t: parse.parse_speed(t).value,
    "-stat-g__910A__cut-down": lambda t: parse.parse_stat(t).values,
    "-stat-g__A2__healthy": lambda t: [len(parse.parse_stat(t).values), parse.parse_stat(t).values["roce_cqe_num"]],
    "-stat-g__A2__retransmissions": lambda t: [
        parse.parse_stat(t).values[k]
        for k in ("mac_rx_fcs_err_pkt_num", "roce_out_of_order_num", "roce_new_pkt_rty_num")
    ],
    "-tls-g__950__with-certificates": lambda t: [
        (dev, one.switch, [(c.name, c.status) for c in one.certificates]) for dev, one in parse.parse_tls(t).items()
    ],
    "-tls-g__A2__older-without-preconfigured": lambda t: parse.parse_tls(t)[0][:3],
    "-tls-g__A2__switch-lines-all-off": lambda t: [(d, x.switch) for d, x in parse.parse_tls(t).items()],
    "-tls-g__A2__switch-mismatch": lambda t: [d for d, x in parse.parse_tls(t).items() if x.switch],
    "-vnic-g__A3__ok": lambda t: parse.parse_vnic(t)[:3],
    "error__any__busy": lambda t: parse.trouble(t).code,
    "error__any__device-not-exist": lambda t: parse.trouble(t).code,
    "error__any__failed": lambda t: parse.trouble(t).code,
    "error__any__link-down": lambda t: parse.trouble(t).code,
    "error__any__not-supported": lambda t: parse.trouble(t).code,
    "error__any__permission-denied": lambda t: parse.trouble(t).code,
}
EXPECTED = {
    "-dev_info__950__doc-example": [(0, 4, 400, "UP"), (0, 5, 400, "UP"), (0, 6, 400, "DOWN")],
    "-fec-g__910A__none": "no",
    "-fec-g__A2__rs": "rs",
    "-gateway-g__A2__not-set": (None, "not_set"),
    "-hccs_ping-g__A3__ok": (0, "192.0.2.40", 3, 3),
    "-hccs_ping-g__A3__send-fail": (0, "192.0.2.40", 3, 0, "This pkt send fail!"),
    "-hw_stats-g__A2": (14, 1),
    "-ip-g__A2__not-set": (None, "not_set"),
    "-link-g__A2__down": "DOWN",
    "-link-g__A2__up": "UP",
    "-link_stat-g__910A__device-prefix-variant": (["UP", "DOWN"], 2, None),
    "-link_stat-g__910A__last-state-down": (["DOWN", "UP"], 2, None),
    "-link_stat-g__910A__ok": (["UP", "DOWN"], 2, None),
    "-link_stat-g__A2__flapping": (["UP", "DOWN"], 41, 40),
    "-link_stat-g__A2__no-records": ([], 0, 0),
    "-link_stat__950__doc-example": (["UP", "DOWN"], 2, 2),
    "-lldp-g__A2__ok": ("00:00:5e:00:53:01", "400GE1/1/20:2", "LEAF-01", "203.0.113.5", 9216),
    "-mtu-g__A2__ok": 4200,
    "-net_health-g__910A__socket-failed-variant": "socket_fail",
    "-net_health-g__A2__fault": "fault",
    "-net_health-g__A2__init": "init",
    "-net_health-g__A2__receive-timeout": "receive_timeout",
    "-net_health-g__A2__socket-fail": "socket_fail",
    "-net_health-g__A2__success": "success",
    "-net_health-g__A2__unreachable": "unreachable",
    "-netdetect-g__A2__older-wording": "192.0.2.1",
    "-netdetect-g__A2__source-wording": "192.0.2.1",
    "-optical-g__910A__rx-los-lane1-low": (False, 0.0054, 0.1445, {"rx los": 255, "rx lol": 255}),
    "-optical-g__A2__no-module": (False, ()),
    "-optical-g__A2__ok": (
        4,
        47.0,
        {
            "vcc_high": 3465.0, "vcc_low": 3135.0, "temp_high": 70.0, "temp_low": 0.0, "tx_high": 3.5481,
            "tx_low": 0.2818, "rx_high": 3.5481, "rx_low": 0.1445,
        },
        {},
    ),
    "-optical-g__A2__single-lane-labels": [1.4035],
    "-ping-g__A2__ok": (0, "192.0.2.20", 3, 3, ""),
    "-ping-g__A2__partial-loss": (2, "192.0.2.21", 3, 2, "recv time out seq=1"),
    "-ping-g__A2__timeout": (0, "192.0.2.20", 3, 0, "recv time out seq=0"),
    "-route-g__A2": [("default", "192.0.2.1", "eth3"), ("192.0.2.0", "", "eth3")],
    "-set__any__ok": True,
    "-speed-g__A2__ok": 200000,
    "-speed-g__A2__unknown": None,
    "-stat-g__910A__cut-down": {"roce_rx_err_pkt_num": 0, "roce_tx_err_pkt_num": 0},
    "-stat-g__A2__healthy": [48, 22004],
    "-stat-g__A2__retransmissions": [412, 1873, 96],
    "-tls-g__950__with-certificates": [(0, 0, [("pub cert", 0), ("ca1 cert", 0)])],
    "-tls-g__A2__older-without-preconfigured": (0, None, 60),
    "-tls-g__A2__switch-lines-all-off": [(n, 0) for n in range(8)],
    "-tls-g__A2__switch-mismatch": [5],
    "-vnic-g__A3__ok": ("UP", "192.168.1.199", "255.255.255.0"),
    "error__any__busy": "busy",
    "error__any__device-not-exist": "no_device",
    "error__any__failed": "failed",
    "error__any__link-down": "link_down",
    "error__any__not-supported": "unsupported",
    "error__any__permission-denied": "denied",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(VALUES))
def test_a_sample_is_read_as_its_index_says(name):
    assert VALUES[name](said(name)) == EXPECTED[name]


LOOPS = {
    "-ip-g__A2__ok-8cards-loop": ("ip", lambda t: parse.parse_ip(t).address, [f"192.0.2.{n}" for n in range(10, 18)]),
    "-gateway-g__A2__ok-8cards-loop": (
        "gateway",
        lambda t: parse.parse_gateway(t)[:2],
        [("192.0.2.1", f"eth{n}") for n in range(8)],
    ),
    "-lldp-g__A2__ifname-loop": (
        "lldp",
        lambda t: parse.parse_lldp(t).port,
        [f"400GE1/{slot}/5:{half}" for slot in (1, 2, 3, 4) for half in (1, 2)],
    ),
    "-tls-g__A2__switch-mismatch": (
        "tls",
        lambda t: next(iter(parse.parse_tls(t).values())).switch,
        [0, 0, 0, 0, 0, 1, 0, 0],
    ),
}


@pytest.mark.parametrize("name", sorted(LOOPS))
def test_a_pasted_loop_is_one_answer_per_device_in_order(name):
    option, read, expected = LOOPS[name]
    keys = from_text(said(name))
    assert [read(keys[f"run hccn_tool -i {n} -{option} -g"]) for n in range(8)] == expected
    assert json.loads(keys["ask hccn"])["devices"] == list(range(8))


def test_every_sample_of_the_folder_has_a_case():
    names = {path.stem.removeprefix("hccn_tool_") for path in SAMPLES.glob("hccn_tool_*.txt")}
    assert names == set(VALUES) | set(LOOPS)


@pytest.mark.parametrize(
    ("name", "count", "odd"),
    [
        ("ok-8cards", 8, 0), ("duplicate-ip", 8, 0), ("empty", 0, 0), ("gateway-outside-subnet", 8, 0),
        ("missing-device3", 7, 0),
    ],
)  # fmt: skip
def test_hccn_conf_is_settings_by_device(name, count, odd):
    conf = parse.parse_conf(sample(f"etc_hccn.conf__A2__{name}.conf"))
    assert (len(conf.devices), len(conf.odd)) == (count, odd)
    assert all(
        set(s) == {"address", "netmask", "netdetect", "gateway", "send_arp_status"} for s in conf.devices.values()
    )


def test_lines_of_hccn_conf_are_counted_and_odd_ones_kept():
    conf = parse.parse_conf("# made by hand\n\naddress_1=192.0.2.11\r\nIPv6address_1=fd00::11\naddress 2 = x\n")
    assert conf.devices == {1: {"address": "192.0.2.11", "IPv6address": "fd00::11"}}
    assert conf.lines["address_1"] == 3
    assert conf.odd == ((5, "address 2 = x"),)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Mon Mar  4 10:02:00 2024", 1709546520.0),
        ("Mon Foo  4 10:02:00 2024", None),
        ("Mon Feb 31 10:02:00 2024", None),
    ],
)
def test_a_moment_is_seconds_or_nothing(text, seconds):
    assert parse.moment(text) == seconds


# ------------------------------------------------------------------ the probe

NODES = json.dumps(
    [{"path": f"/dev/davinci{n}", "kind": "char"} for n in range(2)] + [{"path": "/dev/davinci_manager"}]
)


class Fake:
    """A machine with a scripted hccn_tool; counts what was called."""

    name, live = "fake", True

    def __init__(self, answer, nodes=NODES, conf=None):
        self.answer, self.nodes, self.conf, self.calls = answer, nodes, conf, []

    def run(self, *argv, limit=10.0):
        self.calls.append(argv)
        got = self.answer(argv)
        return got._replace(key=run_key(argv)) if isinstance(got, Raw) else Raw(run_key(argv), "ok", got, code=0)

    def read(self, path, size=0):
        return Raw(f"file {path}", "missing") if self.conf is None else Raw(f"file {path}", "ok", self.conf)

    def look(self, pattern):
        return Raw(f"look {pattern}", "ok", self.nodes)

    def ask(self, what):
        return Raw(f"ask {what}", "missing")


def read(host, facts=None):
    found = {fact.name: fact for fact in hccn.read_hccn(host, facts or {})}
    assert set(found) == set(hccn.GIVES)
    return found


def healthy(argv):
    texts = {
        "-tls": "dev_id:0, tls switch[0](0:disable, 1:enable), tls alarm time threshold[60]days",
        "-ip": "ipaddr:192.0.2.10\nnetmask:255.255.255.0", "-link": "link status: UP",
        "-net_health": "net health status: Success", "-netdetect": "netdetect addr: 192.0.2.1",
        "-gateway": "default gateway:192.0.2.1, Iface:eth0", "-mtu": "mtu:4200", "-speed": "Speed: 200000 Mb/s",
        "-fec": "fec mode: rs FEC mode", "-process": "device hccp process: not exist",
        "-optical": said("-optical-g__A2__ok"), "-stat": said("-stat-g__A2__healthy"),
        "-link_stat": said("-link_stat-g__910A__ok"), "-lldp": said("-lldp-g__A2__ok"),
        "-vnic": said("-vnic-g__A3__ok"),
    }  # fmt: skip
    return texts[argv[3]]


def test_a_healthy_server_answers_everything_once_per_device():
    host = Fake(healthy)
    found = read(host)
    values = {name: fact.value for name, fact in found.items() if isinstance(fact, Fact)}
    assert set(values) == set(hccn.GIVES) - {"hccn.conf", "hccn.ping"}
    assert all(set(v) == {0, 1} for name, v in values.items() if name != "hccn.tool")
    assert values["hccn.tool"].state == "ok" and values["hccn.tool"].calls == len(hccn.KINDS) * 2 == len(host.calls)
    assert values["hccn.link"][1].seen == ("hccn_tool -i 1 -link -g", 1, "link status: UP", (), ())


def test_only_reading_forms_that_the_list_of_commands_allows_are_asked():
    from doctor.hosts.allowed import allowed

    host, new = Fake(healthy), Fake(lambda argv: "")
    read(host)
    read(new, {"npu.pci": Fact("npu.pci", {"count": 1, "devices": [{"family": "950"}]})})
    assert host.calls and new.calls
    assert all(allowed(argv) and "-g" in argv for argv in host.calls + new.calls)
    assert new.calls[0] == ("hccn_tool", "-g", "-tls", "-i", "0")


def test_a_missing_tool_is_asked_once():
    host = Fake(lambda argv: Raw("", "missing", err="not found", code=127))
    found = read(host)
    assert len(host.calls) == 1
    assert found["hccn.tool"].value.state == "missing"
    assert found["hccn.ip"].why == "no_tool"


def test_without_root_two_questions_are_enough():
    host = Fake(lambda argv: Raw("", "ok", err=said("error__any__permission-denied"), code=12))
    found = read(host)
    assert len(host.calls) == 2
    assert found["hccn.tool"].value.state == "denied"
    assert (found["hccn.link"].why, found["hccn.link"].how) == ("needs_root", "hccn_root")


def test_a_tool_that_hangs_is_left_alone():
    host = Fake(lambda argv: Raw("", "timeout", seconds=10.0))
    found = read(host)
    assert len(host.calls) == hccn.HANGS
    assert found["hccn.tool"].value.state == "hangs"
    assert found["hccn.stat"].why == "timeout"


def test_a_busy_tool_is_asked_again_and_only_on_a_live_host(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    turns = iter([said("error__any__busy")] * 2)
    host = Fake(lambda argv: next(turns, None) or healthy(argv))
    assert isinstance(read(host)["hccn.tls"], Fact)
    assert [argv[3] for argv in host.calls[:3]] == ["-tls"] * 3
    always = Fake(lambda argv: said("error__any__busy"))
    assert read(always)["hccn.tls"].why == "hccn_busy"
    assert len(always.calls) == hccn.BUSY * (hccn.RETRIES + 1)


def test_slow_answers_end_with_what_was_asked_by_then():
    host = Fake(lambda argv: Raw("", "ok", healthy(argv), code=0, seconds=9.0))
    found = read(host)
    assert len(host.calls) == 14
    assert found["hccn.tool"].value.cut and isinstance(found["hccn.link"], Fact)
    assert found["hccn.vnic"].why == "hccn_deadline"


def test_what_the_product_does_not_know_is_asked_of_one_device():
    host = Fake(lambda argv: said("error__any__not-supported") if argv[3] == "-lldp" else healthy(argv))
    found = read(host)
    assert [argv[3] for argv in host.calls].count("-lldp") == 1
    assert (found["hccn.lldp"].why, found["hccn.lldp"].applies) == ("not_supported", False)


def test_not_preset_is_an_answer_and_an_error_of_one_device_is_a_gap_of_that_device():
    def answer(argv):
        if argv[3] == "-ip":
            return Raw("", "ok", err=said("-ip-g__A2__not-set"), code=13)
        if argv[3] == "-link" and argv[2] == "1":
            return said("error__any__device-not-exist")
        return healthy(argv)

    found = read(Fake(answer))
    assert found["hccn.ip"].value == {0: None, 1: None}
    assert set(found["hccn.link"].value) == {0}
    assert [(t.device, t.what, t.code) for t in found["hccn.tool"].value.troubles] == [(1, "link", "no_device")]


def test_one_server_is_asked_for_little():
    host = Fake(healthy)
    found = read(host, {"launch.settings": Fact("launch.settings", {"nodes": 1})})
    assert {argv[3] for argv in host.calls} == {"-tls", "-ip", "-link", "-process"}
    assert (found["hccn.optical"].why, found["hccn.optical"].applies) == ("single_node", False)


def test_a_recording_of_one_server_says_what_the_live_host_said():
    facts = {"launch.settings": Fact("launch.settings", {"nodes": 1})}
    live = Fake(healthy)
    before = read(live, facts)
    raws = {run_key(argv): Raw(run_key(argv), "ok", healthy(argv), code=0) for argv in live.calls}
    raws["look /dev/davinci*"] = Raw("", "ok", NODES)
    after = read(MemoryHost(raws), facts)
    assert (after["hccn.stat"].why, after["hccn.stat"].applies) == ("single_node", False)
    assert after["hccn.link"] == before["hccn.link"]
    assert after["hccn.tool"].value.state == before["hccn.tool"].value.state


def test_a_host_without_npu_is_a_state():
    host = Fake(healthy, nodes="[]", conf="address_0=192.0.2.10\n")
    found = read(host)
    assert host.calls == []
    assert all(isinstance(f, Unknown) and f.why == "no_npu" and not f.applies for f in found.values())


def test_an_empty_recording_and_an_empty_host_give_reasons():
    for absent in (True, False):
        found = read(MemoryHost({}, absent=absent))
        assert all(isinstance(f, Unknown) for f in found.values())


def test_a_recording_answers_as_the_live_host_did():
    live = Fake(healthy, conf=sample("etc_hccn.conf__A2__ok-8cards.conf"))
    before = read(live)
    raws = {run_key(argv): Raw(run_key(argv), "ok", healthy(argv), code=0) for argv in live.calls}
    raws["look /dev/davinci*"] = Raw("", "ok", NODES)
    raws["file /etc/hccn.conf"] = Raw("", "ok", live.conf)
    after = read(MemoryHost(raws))
    assert all(after[name] == fact for name, fact in before.items() if isinstance(fact, Fact))


def test_pings_are_sent_only_when_they_are_named():
    key = "run hccn_tool -i 0 -ping -g address 192.0.2.20"
    texts = {key: said("-ping-g__A2__timeout"), "look /dev/davinci*": NODES}
    assert not read(MemoryHost(texts))["hccn.ping"].applies
    texts["ask hccn"] = json.dumps({"devices": [0], "pings": [[0, "ping", "192.0.2.20"], [0, "rm", "x"], 3]})
    assert [p.received for p in read(MemoryHost(texts))["hccn.ping"].value] == [0]


def test_the_topology_holds_devices_with_address_link_and_switch_port():
    host = Fake(healthy)
    found = read(host)
    links = {"NPU0": {"NPU0": "X", "NPU1": "HCCS"}, "NPU1": {"NPU0": "HCCS"}}
    found["npu.topo"] = Fact("npu.topo", {"names": ["NPU0", "NPU1"], "links": links})
    found["host.system"] = Fact("host.system", {"hostname": "node-1"})
    (topology,) = hccn.read_topology(host, found)
    server = topology.value["servers"][0]
    assert server["id"] == "node-1"
    assert server["devices"][1] == {"id": 1, "ip": "192.0.2.10", "link": "UP", "switch": "LEAF-01 400GE1/1/20:2"}
    assert topology.value["links"] == {"labels": ["NPU0", "NPU1"], "rows": [["X", "HCCS"], ["HCCS", "X"]]}


def test_without_anything_the_topology_says_why():
    (gone,) = hccn.read_topology(MemoryHost({}), {})
    assert isinstance(gone, Unknown) and not gone.applies


# ------------------------------------------------------------------ pastes


def test_a_pasted_terminal_names_devices_by_its_command_lines():
    text = f"""[root@node-1 ~]# hccn_tool -i 3 -link -g
link status: DOWN
[root@node-1 ~]# hccn_tool -i 3 -net_health -g
net health status: Fault
[root@node-1 ~]# hccn_tool -i 5 -ip -g
Get ipconf failed, because no ip was preset there!
[root@node-1 ~]# hccn_tool -i 2 -optical -g
{said("-optical-g__910A__rx-los-lane1-low")}
[root@node-1 ~]# cat /etc/hccn.conf
address_0=192.0.2.10
"""
    keys = from_text(text)
    assert parse.parse_link(keys["run hccn_tool -i 3 -link -g"]).status == "DOWN"
    assert parse.parse_health(keys["run hccn_tool -i 3 -net_health -g"]).state == "fault"
    assert parse.trouble(keys["run hccn_tool -i 5 -ip -g"]).code == "not_set"
    assert len(parse.parse_optical(keys["run hccn_tool -i 2 -optical -g"]).rx) == 4
    assert keys["file /etc/hccn.conf"] == "address_0=192.0.2.10\n"
    found = read(MemoryHost(keys))
    assert found["hccn.link"].value[3].status == "DOWN"
    assert found["hccn.ip"].value == {5: None}


def test_a_pasted_loop_with_its_command_line_starts_at_device_0():
    text = "$ for i in {0..7}; do hccn_tool -i $i -link -g; done\n" + "link status: UP\n" * 7 + "link status: DOWN\n"
    found = read(MemoryHost(from_text(text)))
    assert [one.status for one in found["hccn.link"].value.values()] == ["UP"] * 7 + ["DOWN"]


def test_pasted_announcements_of_switches_are_one_each():
    found = read(MemoryHost(from_text(said("-lldp-g__A2__ok") * 2)))
    assert [one.port for one in found["hccn.lldp"].value.values()] == ["400GE1/1/20:2"] * 2


def test_pasted_pings_and_tables_of_the_950_are_read():
    found = read(MemoryHost(from_text(said("-hccs_ping-g__A3__send-fail"))))
    assert [(p.device, p.received) for p in found["hccn.ping"].value] == [(0, 0)]
    found = read(MemoryHost(from_text(said("-dev_info__950__doc-example"))))
    assert found["hccn.link"].value[0].ports == ((0, 4, "UP"), (0, 5, "UP"), (0, 6, "DOWN"))
    found = read(MemoryHost(from_text(said("-link_stat__950__doc-example"))))
    assert found["hccn.link_stat"].value[0].downs == 2


@pytest.mark.parametrize("text", ["", "Epoch 1 loss 0.3\n", "| NPU | Name |\n", "total 0\n"])
def test_other_texts_are_no_paste_of_hccn_tool(text):
    assert from_text(text) == {}


# ------------------------------------------------------------------ junk

PIECES = st.sampled_from([path.read_text(encoding="utf-8") for path in sorted(SAMPLES.glob("hccn_tool_*.txt"))])
READERS = (
    parse.parse_ip, parse.parse_link, parse.parse_health, parse.parse_netdetect, parse.parse_gateway, parse.parse_mtu,
    parse.parse_speed, parse.parse_fec, parse.parse_duplex, parse.parse_process, parse.parse_cfg, parse.parse_vnic,
    parse.parse_set, parse.parse_tls, parse.parse_optical, parse.parse_stat, parse.parse_hw_stats,
    parse.parse_link_stat, parse.parse_lldp, parse.parse_ping, parse.parse_route, parse.parse_dev_info,
    parse.parse_conf, parse.trouble, from_text,
)  # fmt: skip


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(PIECES, st.text(max_size=80), st.text(alphabet="0123456789:.|[]-_= \n", max_size=200)), max_size=6
    ),
    st.integers(0, 2000),
)
def test_no_text_makes_a_reader_raise(pieces, cut):
    text = "".join(pieces)[cut:] if cut % 3 else "\n".join(pieces)[: cut or None]
    for reader in READERS:
        reader(text)
    read(MemoryHost(from_text(text)))
    host = Fake(lambda argv: text)
    host.live = False  # nothing is waited for
    read(host)


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit", ["a", "1", "a_", "dev_id:0, ", "link status: UP\n", "0:", "|", " ", "roce_", "[devid 1]"]
)
def test_megabytes_of_junk_are_read_in_linear_time(unit):
    text = unit * (5_000_000 // len(unit))
    began = time.process_time()
    for reader in READERS:
        reader(text)
    assert time.process_time() - began < 5


# ------------------------------------------------------------------ through diagnose


def judged(text):
    from doctor.engine import diagnose

    report = diagnose((), paste=text.encode())
    return {d.rule: (d.severity, d.place.device) for d in report.diagnoses}


def test_diagnose_names_the_device_of_the_command_line_in_a_pasted_terminal():
    text = f"""[root@node-1 ~]# hccn_tool -i 6 -optical -g
{said("-optical-g__910A__rx-los-lane1-low")}
[root@node-1 ~]# for i in {{0..1}}; do hccn_tool -i $i -link -g; done
link status: UP
link status: UP
"""
    assert judged(text) == {"HCCL538": ("warning", 6)}


def test_a_worse_state_is_not_hidden_by_a_log_rule_of_the_same_topic():
    found = judged("link status: DOWN\n" + said("-tls-g__A2__switch-mismatch"))
    assert found["HCCL536"] == ("error", 5)


def test_diagnose_judges_hccn_conf():
    assert judged(sample("etc_hccn.conf__A2__duplicate-ip.conf")) == {"HCCL541": ("warning", None)}
    assert judged(sample("etc_hccn.conf__A2__ok-8cards.conf")) == {}
