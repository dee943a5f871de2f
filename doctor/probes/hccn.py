"""The RoCE network inside the NPUs: what hccn_tool answers, one call after another, and /etc/hccn.conf.

The tool refuses to run twice at a time and may need root, so the calls are few, in the order of their worth, and end
early. Only reading options are used. Source: hicann/driver src/custom/network/hccn/ascend910B.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from doctor.hosts.base import Host, data_of, title
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes import hccn_parse as parse
from doctor.probes.base import Facts, Probe

CALL_SECONDS = 10.0
"""A call takes 0.1 to 1 s."""
ALL_SECONDS = 120.0
"""Of all calls together; what was not asked by then is unknown."""
RETRIES = 3
"""Calls again after "busy"."""
PAUSE = 0.7
"""Seconds before a busy tool is asked again."""
BUSY = 3
"""Calls that stayed busy after which the tool is left to whoever has it."""
HANGS = 2
"""Calls without an answer after which the tool is left alone."""
DEVICES = 64
"""Most devices asked; the largest server has 16."""
CONF = "/etc/hccn.conf"


class Kind(NamedTuple):
    """One reading option. ``alone``: worth asking on one server too; ``absent``: "not preset" is an answer."""

    fact: str
    option: str
    read: Callable[[str, str], Any]
    alone: bool = False
    absent: bool = False


def _tls(text: str, source: str) -> parse.Tls | None:
    return next(iter(parse.parse_tls(text, source).values()), None)


def _ports(text: str, source: str) -> parse.Link | None:
    """The ports of a 950 as one link: up when none that has a cable kind is down."""
    ports = parse.parse_dev_info(text, source)
    if not ports:
        return None
    worst = next((port for port in ports if port.status == "DOWN"), ports[0])
    return parse.Link(worst.status, worst.seen, tuple((p.die, p.port, p.status) for p in ports))


KINDS = (
    Kind("hccn.tls", "tls", _tls, alone=True),
    Kind("hccn.ip", "ip", parse.parse_ip, alone=True, absent=True),
    Kind("hccn.link", "link", parse.parse_link, alone=True),
    Kind("hccn.process", "process", parse.parse_process, alone=True),
    Kind("hccn.health", "net_health", parse.parse_health),
    Kind("hccn.netdetect", "netdetect", parse.parse_netdetect, absent=True),
    Kind("hccn.gateway", "gateway", parse.parse_gateway, absent=True),
    Kind("hccn.mtu", "mtu", parse.parse_mtu),
    Kind("hccn.link_stat", "link_stat", parse.parse_link_stat),
    Kind("hccn.optical", "optical", parse.parse_optical),
    Kind("hccn.stat", "stat", parse.parse_stat),
    Kind("hccn.speed", "speed", parse.parse_speed),
    Kind("hccn.fec", "fec", parse.parse_fec),
    Kind("hccn.lldp", "lldp", parse.parse_lldp),
    Kind("hccn.vnic", "vnic", parse.parse_vnic),
)
"""In the order they are asked, the ones that decide most first."""

KINDS_950 = (
    Kind("hccn.tls", "tls", _tls, alone=True),
    Kind("hccn.link", "dev_info", _ports, alone=True),
    Kind("hccn.link_stat", "link_stat", parse.parse_link_stat),
    Kind("hccn.vnic", "vnic", parse.parse_vnic),
)


class Trouble(NamedTuple):
    """A call that gave no value. ``device`` is the physical id."""

    device: int
    what: str
    code: str
    seen: Evidence


class Tool(NamedTuple):
    """How hccn_tool behaved. ``state``: ok · missing · denied · hangs · busy · failed · unsupported · none (nothing was
    asked of it). ``seconds`` is the time of all calls; ``cut`` tells that the time ended before the questions did.
    ``shown`` tells that somebody chose the answers (a paste) rather than the doctor."""

    state: str
    devices: tuple[int, ...]
    calls: int
    answered: int
    seconds: float
    cut: bool
    troubles: tuple[Trouble, ...]
    shown: bool = False


class _Asked(NamedTuple):
    value: Any
    trouble: Trouble | None


class _Session:
    """The calls of one reading, in sequence: counts them, their seconds, and what to leave alone from now on."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.calls = self.answered = self.hangs = self.denied = self.busy = 0
        self.seconds = 0.0
        self.stopped = ""
        self.troubles: list[Trouble] = []

    def call(self, argv: Sequence[str]) -> Raw:
        raw = Raw("", "missing")
        for turn in range(RETRIES + 1):
            if turn:
                time.sleep(PAUSE)
                self.seconds += PAUSE
            self.calls += 1
            raw = self.host.run(*argv, limit=CALL_SECONDS)
            self.seconds += raw.seconds
            if self.seconds > ALL_SECONDS:
                self.stopped = self.stopped or "deadline"
            # a recording answers the same for ever
            if not self.host.live or "hccn_tool is busy" not in raw.text or self.stopped:
                break
        return raw

    def ask(self, kind: Kind, device: int, argv: Sequence[str]) -> _Asked:
        raw = self.call(argv)
        source = title(raw.key)
        trouble: Trouble | None = None
        if raw.state in ("ok", "failed", "killed") and raw.text.strip():
            # the text counts, not the exit code: a link that is down exits with 0, errors use either stream
            found = kind.read(raw.out, source)
            if found is None and raw.err.strip():
                found = kind.read(raw.text, source)
            if found is not None:
                self.answered += 1
                return _Asked(found, None)
            said = parse.trouble(raw.text, source)
            code = said.code if said else "not_understood"
            if said and code == "not_set" and kind.absent:
                self.answered += 1
                return _Asked(None, None)
            first = next(parse.rows(raw.text), (0, ""))
            trouble = Trouble(device, kind.option, code, said.seen if said else Evidence(source, first[0], first[1]))
        else:
            code = "not_understood" if raw.state == "ok" else raw.state
            trouble = Trouble(device, kind.option, code, Evidence(source, 0, raw.err.strip()[:200]))
        self._note(trouble)
        return _Asked(None, trouble)

    def _note(self, trouble: Trouble) -> None:
        self.troubles.append(trouble)
        code = trouble.code
        if code == "timeout":
            self.hangs += 1
            if self.hangs >= HANGS:
                self.stopped = "timeout"
        elif code == "busy" and self.host.live:
            self.busy += 1
            if self.busy >= BUSY:
                self.stopped = "busy"
        elif code == "missing" and self.host.live:
            self.stopped = "missing"
        elif code == "denied" and not self.answered:
            self.denied += 1
            # some options answer anybody, so two different ones are tried
            if self.denied >= 2:
                self.stopped = "denied"


_NODE = re.compile(r"/dev/davinci(\d{1,3})$")


NODES = "/dev/davinci*"


def devices_of(nodes: Raw, given: Mapping[str, Any], conf: parse.Conf | None) -> list[int]:
    """Physical ids: those the caller names, else N of the device files ``nodes``, else those of hccn.conf on a host
    whose /dev was not recorded."""
    named = given.get("devices")
    if isinstance(named, list):
        ids = {n for n in named if isinstance(n, int) and 0 <= n < 10_000}
        return sorted(ids)[:DEVICES]
    rows = data_of(nodes)
    ids = set()
    for row in rows if isinstance(rows, list) else ():
        found = _NODE.match(str(row.get("path", ""))) if isinstance(row, dict) else None
        if found:
            ids.add(int(found[1]))
    if not ids and nodes.state == "not_recorded" and conf is not None:
        ids = set(conf.devices)
    return sorted(ids)[:DEVICES]


_WHY = {
    "missing": ("no_tool", "hccn_tool"),
    "denied": ("needs_root", "hccn_root"),
    "timeout": ("timeout", "hccn_alone"),
    "deadline": ("hccn_deadline", "hccn_alone"),
    "busy": ("hccn_busy", "hccn_alone"),
    "not_recorded": ("not_recorded", "hccn_recorded"),
    "unsupported": ("not_supported", ""),
    "link_down": ("hccn_link_down", ""),
    "not_understood": ("not_understood", ""),
    "single_node": ("single_node", ""),
    "not_asked": ("not_asked", ""),
}


def _gap(name: str, code: str, said: str = "") -> Unknown:
    why, how = _WHY.get(code, ("hccn_failed", ""))
    args = {"name": "hccn_tool", "what": "hccn_tool", "tool": "hccn_tool", "said": said, "seconds": f"{CALL_SECONDS:g}"}
    return Unknown(name, why, how, args, applies=code not in ("unsupported", "single_node"))


GIVES = (
    "hccn.tool", "hccn.conf", *dict.fromkeys(kind.fact for kind in (*KINDS, *KINDS_950)), "hccn.ping",
)  # fmt: skip


def read_hccn(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """All facts of the device network. The value of each is a dict from the physical id to what was read; None in it
    means that the tool answered and nothing is set. A device that gave no answer is not in the dict."""
    conf_raw = host.read(CONF)
    conf = parse.parse_conf(conf_raw.out) if conf_raw.state == "ok" else None
    given = data_of(host.ask("hccn"))
    given = given if isinstance(given, dict) else {}
    nodes = host.look(NODES)
    devices = devices_of(nodes, given, conf)
    if not devices and nodes.state != "ok":
        # no device was seen, and none was looked for: that is no host without an NPU
        why = nodes.state if nodes.state in ("denied", "not_recorded") else "not_understood"
        return [Unknown(name, why, args={"what": NODES}) for name in GIVES]
    conf_fact = _conf_fact(conf_raw, conf if devices else None, bool(devices))
    if not devices:
        pci = facts.get("npu.pci")
        there = isinstance(pci, Fact) and bool(pci.value.get("count"))
        why = "npu_without_files" if there else "no_npu"
        return [conf_fact, *(Unknown(name, why, applies=False) for name in GIVES if name != "hccn.conf")]
    new = given.get("form") == "950" or (not given and _is_950(facts))
    session = _Session(host)
    found: list[Fact | Unknown] = [conf_fact]
    alone = nodes_of(facts.get("launch.settings")) == 1
    for kind in KINDS_950 if new else KINDS:
        fact: Fact | Unknown | None = None
        if not alone or kind.alone or not host.live:
            fact = _read_kind(session, kind, devices, new)
        # what was not asked live is not in the recording either, for the same reason
        if fact is None or (isinstance(fact, Unknown) and alone and not kind.alone):
            fact = _gap(kind.fact, "single_node")
        found.append(fact)
    found.append(_pings(session, given))
    if new:
        asked = {kind.fact for kind in KINDS_950}
        found += [_gap(kind.fact, "unsupported") for kind in KINDS if kind.fact not in asked]
    found.append(_tool_fact(session, devices, "devices" in given))
    return found


def nodes_of(settings: Fact | Unknown | None) -> int | None:
    """Number of servers of the run, None while nothing tells it."""
    if not isinstance(settings, Fact):
        return None
    value = settings.value
    nodes = value.get("nodes") if isinstance(value, Mapping) else getattr(value, "nodes", None)
    return nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0 else None


def _is_950(facts: Facts) -> bool:
    pci = facts.get("npu.pci")
    if not isinstance(pci, Fact):
        return False
    found = pci.value.get("devices") if isinstance(pci.value, Mapping) else getattr(pci.value, "devices", ())
    return any("950" in str(row) or "d806" in str(row) for row in (found if isinstance(found, (list, tuple)) else ()))


def _read_kind(session: _Session, kind: Kind, devices: Sequence[int], new: bool) -> Fact | Unknown:
    values: dict[int, Any] = {}
    troubles: list[Trouble] = []
    for device in devices:
        if session.stopped:
            break
        argv = (
            ("hccn_tool", "-g", f"-{kind.option}", "-i", str(device))
            if new
            else ("hccn_tool", "-i", str(device), f"-{kind.option}", "-g")
        )
        value, trouble = session.ask(kind, device, argv)
        if trouble is None:
            values[device] = value
            continue
        troubles.append(trouble)
        # what one device of the product does not know, or does not tell this user, the others will not either
        if trouble.code in ("unsupported", "denied") and not values:
            break
    if values:
        first = next((value.seen for value in values.values() if value is not None), None)
        return Fact(kind.fact, values, first)
    if troubles:
        code = Counter(trouble.code for trouble in troubles).most_common(1)[0][0]
        said = next((trouble.seen.text for trouble in troubles if trouble.code == code), "")
        return _gap(kind.fact, code, said)
    return _gap(kind.fact, session.stopped or "not_asked")


def _pings(session: _Session, given: Mapping[str, Any]) -> Fact | Unknown:
    """Pings are sent only when the caller names them: [[device, "ping" or "hccs_ping", address], …]."""
    asked = given.get("pings")
    results: list[parse.Ping] = []
    kinds = {name: Kind("hccn.ping", name, parse.parse_ping) for name in ("ping", "hccs_ping")}
    for row in asked[:256] if isinstance(asked, list) else ():
        if session.stopped or not (isinstance(row, list) and len(row) == 3 and row[1] in kinds):
            continue
        device, what, address = row
        argv = ("hccn_tool", "-i", str(device), f"-{what}", "-g", "address", str(address))
        value, _ = session.ask(kinds[what], device if isinstance(device, int) else -1, argv)
        if value is not None:
            results.append(value if value.device is not None else value._replace(device=device, address=str(address)))
    if results:
        return Fact("hccn.ping", results, results[0].seen)
    if not asked:
        return Unknown("hccn.ping", "not_asked", applies=False)
    return _gap("hccn.ping", session.stopped or "not_understood")


def _conf_fact(raw: Raw, conf: parse.Conf | None, npu: bool) -> Fact | Unknown:
    if not npu:
        return Unknown("hccn.conf", "no_npu", applies=False)
    if conf is None:
        why = raw.state if raw.state in ("denied", "not_recorded") else "no_file"
        return Unknown("hccn.conf", why, "hccn_conf", {"path": CONF, "what": CONF, "name": CONF})
    return Fact("hccn.conf", conf, Evidence(CONF, 0, ""))


def _tool_fact(session: _Session, devices: Sequence[int], shown: bool) -> Fact | Unknown:
    codes = Counter(trouble.code for trouble in session.troubles)
    # a tool that said anything is there, whatever else was not asked of it
    told = Counter({code: n for code, n in codes.items() if code not in ("missing", "not_recorded")})
    common = next((code for code, _ in (told or codes).most_common(1)), "")
    if session.answered:
        state = "ok"
    elif common == "not_recorded":
        return _gap("hccn.tool", "not_recorded")
    else:
        states = {"missing": "missing", "denied": "denied", "timeout": "hangs", "busy": "busy",
                  "unsupported": "unsupported", "": "none"}  # fmt: skip
        state = states.get(common, "failed")
    kept = [trouble for trouble in session.troubles if trouble.code not in ("missing", "not_recorded")][:50]
    if not kept and session.troubles and state == "missing":
        kept = session.troubles[:1]
    tool = Tool(
        state, tuple(devices), session.calls, session.answered, round(session.seconds, 3),
        session.stopped == "deadline", tuple(kept), shown,
    )  # fmt: skip
    return Fact("hccn.tool", tool, kept[0].seen if kept else None)


# ------------------------------------------------------------------ the picture


def read_topology(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """What is known of servers, devices and links, for ``doctor.render.topology``: the servers of the rank table if
    there is one, else this one. What the devices of this host say is put to those with the same address."""
    here = _own_devices(facts)
    table = facts.get("hccl.rank_table")
    servers = _table_servers(table.value, here) if isinstance(table, Fact) else []
    matrix = matrix_of(facts.get("npu.topo"))
    if not servers and not here and matrix is None:
        gone = facts.get("hccn.tool")
        if isinstance(gone, Unknown):
            return [Unknown("net.topology", gone.why, gone.how, gone.args, applies=gone.applies)]
        return [Unknown("net.topology", "no_npu", applies=False)]
    if not servers:
        system = facts.get("host.system")
        value = system.value if isinstance(system, Fact) else None
        name = value.get("hostname", "") if isinstance(value, Mapping) else getattr(value, "hostname", "")
        shown = _passed_in(facts)
        servers = [{"id": str(name or host.name or ""), "devices": [here[n] for n in sorted(here) if n in shown]}]
    return [Fact("net.topology", {"servers": servers, "links": matrix}, None)]


def _passed_in(facts: Facts) -> Container[int]:
    """The devices to show: in a container those that were passed in, for the bus and hccn.conf are the host's."""
    container, nodes = facts.get("host.container"), facts.get("npu.nodes")
    if isinstance(container, Fact) and container.value.get("inside") and isinstance(nodes, Fact):
        paths = [str(row.get("path", "")) for row in nodes.value.get("devices") or ()]
        numbers = {int(digits) for path in paths if (digits := path.rpartition("davinci")[2]).isdecimal()}
        return numbers or range(1 << 16)
    return range(1 << 16)


def _own_devices(facts: Facts) -> dict[int, dict[str, Any]]:
    """The devices of this host: id, ip, link, switch."""
    devices: dict[int, dict[str, Any]] = {}
    tool, conf = facts.get("hccn.tool"), facts.get("hccn.conf")
    for device in tool.value.devices if isinstance(tool, Fact) else ():
        devices[device] = {"id": device}
    for device, settings in conf.value.devices.items() if isinstance(conf, Fact) else ():
        if settings.get("address"):
            devices.setdefault(device, {"id": device})["ip"] = settings["address"]
    kinds: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
        ("hccn.ip", "ip", lambda one: one.address),
        ("hccn.link", "link", lambda one: one.status),
        ("hccn.lldp", "switch", lambda one: f"{one.system or one.chassis} {one.port}".strip()),
    )
    for name, key, text in kinds:
        fact = facts.get(name)
        for device, one in fact.value.items() if isinstance(fact, Fact) else ():
            devices.setdefault(device, {"id": device})[key] = "" if one is None else text(one)
    return devices


def _table_servers(table: Any, here: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Servers of a rank table in its normal form (``doctor.probes.rank_table``), in the table's order."""
    own = {str(row["ip"]): row for row in here.values() if row.get("ip")}
    pods = {server: pod.super_pod_id for pod in getattr(table, "pods", ()) for server in pod.servers}
    servers: list[dict[str, Any]] = []
    for one in getattr(table, "servers", ()):
        servers.append({"id": one.server_id, "pod": pods.get(one.server_id, ""), "devices": []})
    for device in getattr(table, "devices", ()):
        if 0 <= device.server < len(servers):
            row = {"id": device.device_id, "rank": device.rank_id, "ip": device.device_ip}
            seen = own.get(device.device_ip, {})
            row.update((key, seen[key]) for key in ("link", "switch") if seen.get(key))
            servers[device.server]["devices"].append(row)
    return servers


def matrix_of(topo: Fact | Unknown | None) -> dict[str, Any] | None:
    """{labels, rows} of ``npu-smi info -t topo`` as ``doctor.probes.npu_smi`` gives it, None if it was not read."""
    if not isinstance(topo, Fact) or not isinstance(topo.value, Mapping):
        return None
    names, links = topo.value.get("names"), topo.value.get("links")
    if not isinstance(names, (list, tuple)) or not isinstance(links, Mapping):
        return None
    rows = [["X" if a == b else str(links.get(a, {}).get(b, "")) for b in names] for a in names]
    return {"labels": [str(name) for name in names], "rows": rows}


PROBES = (
    Probe("hccn", "hccl", read_hccn, gives=GIVES, needs=("npu.pci", "launch.settings"), limit=ALL_SECONDS + 30),
    Probe(
        "net.topology", "hccl", read_topology, gives=("net.topology",),
        needs=(
            "hccn.tool", "hccn.conf", "hccn.ip", "hccn.link", "hccn.lldp", "npu.topo", "host.system", "hccl.rank_table",
            "host.container", "npu.nodes",
        ),
    ),
)  # fmt: skip
