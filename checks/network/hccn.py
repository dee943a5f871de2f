"""HCCL531 to 549, addresses and settings of the RoCE ports inside the NPUs.

Training on one server needs none of this: what only several servers feel is not applicable there, advice while the
number of servers is unknown (a warning where settings contradict each other), and an error when there are several.
Values are dicts from the physical id of a device to what hccn_tool said; None in them means that nothing is set.
Sources: hicann/driver hccn_tool and the HCCL user guide.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from doctor.model import NOWHERE, Answer, Evidence, Fact, Place, Unknown, fail, not_applicable, passed, unknown

SHOWN = 4
"""Lines of evidence of one finding."""


UNSET = ("0.0.0.0", "::")  # noqa: S104 - what an address that is not set looks like


# ------------------------------------------------------------------ shared with hccn_links


def span(devices: Iterable[int]) -> str:
    """Ids for people.

    >>> span([0, 1, 2, 5])
    '0-2,5'
    """
    parts: list[list[int]] = []
    for device in sorted(set(devices)):
        if parts and device == parts[-1][1] + 1:
            parts[-1][1] = device
        else:
            parts.append([device, device])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def named(devices: Iterable[int]) -> dict[str, str]:
    """The devices for texts: all of them, and ``n``, the first, to be asked by a command.

    >>> named([4, 5])
    {'device': '4-5', 'n': '4'}
    """
    found = sorted(devices)
    return {"device": span(found), "n": str(found[0]) if found else "N"}


def place(devices: Iterable[int]) -> Place:
    """The device if it is one."""
    found = list(devices)
    return Place(device=found[0]) if len(found) == 1 else NOWHERE


def nodes_of(settings: Fact | Unknown) -> int | None:
    """Number of servers of the run, None while nothing tells it."""
    if not isinstance(settings, Fact):
        return None
    value = settings.value
    nodes = value.get("nodes") if isinstance(value, Mapping) else getattr(value, "nodes", None)
    return nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0 else None


def alone(settings: Fact | Unknown) -> bool:
    """Whether the run is known to stay on one server."""
    return nodes_of(settings) == 1


def level(
    settings: Fact | Unknown, several: str = "error", otherwise: str = "advice", tool: Fact | Unknown | None = None
) -> str:
    """Severity of a trouble between servers: ``several`` when the run has several of them. While their number is
    unknown the run is taken to stay on this one, and the trouble is told as advice; a warning where somebody shows
    just these answers of ``tool``, for then the network is what he asks about."""
    nodes = nodes_of(settings)
    if nodes is not None and nodes > 1:
        return several
    return "warning" if isinstance(tool, Fact) and tool.value.shown else otherwise


def values(fact: Fact | Unknown) -> dict[int, Any]:
    """Readings per device, none of a fact that is not known."""
    if not isinstance(fact, Fact) or not isinstance(fact.value, Mapping):
        return {}
    return {device: one for device, one in fact.value.items() if isinstance(device, int)}


# ------------------------------------------------------------------ the tool


def tool_answers(tool: Fact, settings: Fact | Unknown) -> Answer:
    """HCCL531: hccn_tool is there and answers."""
    state, troubles = tool.value.state, tool.value.troubles
    if state == "ok":
        return passed({"devices": span(tool.value.devices), "calls": tool.value.calls})
    if state == "denied":
        return unknown("needs_root", "hccn_root", tool.evidence)
    if state in ("hangs", "busy"):
        return unknown("hccn_busy" if state == "busy" else "timeout", "hccn_alone", tool.evidence, seconds=10)
    if state == "unsupported":
        return not_applicable("not_supported")
    if state == "none":
        return unknown("not_asked")
    if alone(settings):
        return not_applicable("single_node")
    said = troubles[0].seen.text if troubles and troubles[0].seen.text else "hccn_tool: command not found"
    return fail({"said": said}, tool.evidence, severity=level(settings))


def tool_keeps_up(tool: Fact) -> Answer:
    """HCCL544: hccn_tool answers in time and is not held by somebody else."""
    hung = [t for t in tool.value.troubles if t.code == "timeout"]
    busy = [t for t in tool.value.troubles if t.code == "busy"]
    seconds = f"{tool.value.seconds:.0f}"
    if hung or tool.value.cut:
        return fail({"state": "hangs", "count": len(hung), "seconds": seconds}, *(t.seen for t in hung[:SHOWN]))
    if busy:
        args = {"state": "busy", "count": len(busy), "seconds": seconds}
        return fail(args, *(t.seen for t in busy[:SHOWN]), severity="advice")
    if tool.value.state == "ok":
        return passed({"calls": tool.value.calls, "seconds": seconds})
    return not_applicable("no_tool", tool="hccn_tool") if tool.value.state == "missing" else unknown("not_asked")


# ------------------------------------------------------------------ addresses


def configured(conf: Fact | Unknown, key: str) -> dict[int, str]:
    """Values of one setting of hccn.conf per device; an empty value is none."""
    if not isinstance(conf, Fact):
        return {}
    return {device: settings[key] for device, settings in conf.value.devices.items() if settings.get(key)}


def _line(conf: Fact | Unknown, key: str, device: int) -> Evidence | None:
    if not isinstance(conf, Fact):
        return None
    number = conf.value.lines.get(f"{key}_{device}", 0)
    return Evidence("/etc/hccn.conf", number, f"{key}_{device}={conf.value.devices[device][key]}") if number else None


def _superpod(pci: Fact | Unknown) -> bool:
    """Whether the chips are those of a superpod (A3), where HCCS joins the servers."""
    return isinstance(pci, Fact) and any(word in str(pci.value) for word in ("A3", "d803"))


def addresses(
    ip: Fact | Unknown, conf: Fact | Unknown, tool: Fact | Unknown, settings: Fact | Unknown, pci: Fact | Unknown
) -> Answer:
    """HCCL532: every device has a RoCE address, as the device says or, where it could not be asked, by hccn.conf."""
    if alone(settings):
        return not_applicable("single_node")
    live = values(ip)
    if live:
        have, none = [d for d, one in live.items() if one], [d for d, one in live.items() if not one]
        source = "hccn_tool"
    elif isinstance(conf, Fact):
        have = list(configured(conf, "address"))
        # without the devices themselves, a gap in the numbers is all that shows a missing one
        known = set(tool.value.devices) if isinstance(tool, Fact) else set()
        none = sorted((known | set(range(max(have, default=0) + 1))) - set(have))
        source = "/etc/hccn.conf"
    else:
        gone = ip if isinstance(ip, Unknown) else conf
        if isinstance(gone, Unknown) and not gone.applies:
            return not_applicable(gone.why, **gone.args)
        return unknown(gone.why, gone.how, **gone.args) if isinstance(gone, Unknown) else unknown("not_asked")
    if not none:
        return passed({"count": len(have)}, ip.evidence if isinstance(ip, Fact) else None)
    severity = "advice" if _superpod(pci) else level(settings, tool=tool)
    args = {**named(none), "count": len(none), "have": len(have), "source": source}
    sources = Evidence(source, 0, "") if source.startswith("/") else Evidence(f"hccn_tool -i {none[0]} -ip -g", 0, "")
    return fail(args, sources, place=place(none), severity=severity)


def unique_addresses(ip: Fact | Unknown, conf: Fact | Unknown, settings: Fact | Unknown) -> Answer | list[Answer]:
    """HCCL541: no two devices of this server share an address."""
    if alone(settings):
        return not_applicable("single_node")
    live = {device: one for device, one in values(ip).items() if one}
    found: dict[str, list[int]] = {}
    for device, address in ({d: one.address for d, one in live.items()} or configured(conf, "address")).items():
        found.setdefault(address, []).append(device)
    if not found:
        return not_applicable("not_set", name="device IP")
    answers = []
    for address, devices in found.items():
        if len(devices) > 1:
            seen = [live[d].seen if d in live else _line(conf, "address", d) for d in devices[:SHOWN]]
            args = {**named(devices), "address": address}
            answers.append(fail(args, *seen, severity=level(settings, otherwise="warning")))
    return answers or passed({"count": len(found)})


def conf_as_live(conf: Fact, ip: Fact, settings: Fact | Unknown) -> Answer:
    """HCCL542: what hccn.conf restores at the next start is what the devices have now."""
    if alone(settings):
        return not_applicable("single_node")
    written, live = configured(conf, "address"), values(ip)
    masks = configured(conf, "netmask")
    odd = []
    for device, one in live.items():
        now = one.address if one else ""
        other_mask = one and one.netmask and device in masks and masks[device] != one.netmask
        if now != written.get(device, "") or other_mask:
            odd.append(device)
    if not odd:
        return passed({"count": len(live)})
    first = odd[0]
    one = live[first]
    args = {
        **named(odd),
        "live": f"{one.address}/{one.netmask}" if one else "-",
        "written": f"{written.get(first, '-')}/{masks.get(first, '-')}" if first in written else "-",
    }
    lines = (one.seen if one else None, _line(conf, "address", first))
    return fail(args, *lines, place=place(odd), severity=level(settings, "warning"))


def gateway_reachable(
    gateway: Fact | Unknown, ip: Fact | Unknown, conf: Fact | Unknown, settings: Fact | Unknown
) -> Answer:
    """HCCL535: a gateway lies in the subnet of its device; hccn_tool refuses another one, a file edited by hand does
    not."""
    if alone(settings):
        return not_applicable("single_node")
    live_gateways, live = values(gateway), values(ip)
    gateways = {d: (one.address, one.seen) for d, one in live_gateways.items() if one}
    for device, address in configured(conf, "gateway").items():
        gateways.setdefault(device, (address, _line(conf, "gateway", device)))
    nets = {d: (one.address, one.netmask) for d, one in live.items() if one}
    masks = configured(conf, "netmask")
    for device, address in configured(conf, "address").items():
        nets.setdefault(device, (address, masks.get(device, "")))
    odd, judged = [], 0
    for device, (address, _) in sorted(gateways.items()):
        inside = _inside(address, *nets.get(device, ("", "")))
        judged += inside is not None
        if inside is False:
            odd.append(device)
    if odd:
        first = odd[0]
        args = {
            **named(odd),
            "gateway": gateways[first][0],
            "address": nets[first][0],
            "netmask": nets[first][1],
        }
        seen = [gateways[d][1] for d in odd[:SHOWN]]
        return fail(args, *seen, place=place(odd), severity=level(settings, otherwise="warning"))
    if judged:
        return passed({"count": judged})
    return not_applicable("not_set", name="gateway")


def way_to_peers(table: Fact, gateway: Fact | Unknown, ip: Fact | Unknown, conf: Fact | Unknown) -> Answer:
    """HCCL550: a device without a gateway has its peers, the devices of the same id on the other servers of the rank
    table, in its own subnet. Which server of the table this is, its addresses tell. Static routes are not judged."""
    nets = {d: (one.address, one.netmask) for d, one in values(ip).items() if one}
    masks = configured(conf, "netmask")
    for device, address in configured(conf, "address").items():
        nets.setdefault(device, (address, masks.get(device, "")))
    own = {address for address, _ in nets.values()}
    here = {row.server for row in table.value.devices if row.device_ip in own}
    if len(here) != 1:
        return not_applicable("not_set", name="rank table")
    routed = set(configured(conf, "gateway")) | set(configured(conf, "ip_route")) | set(configured(conf, "route"))
    has_gateway = {d for d, one in values(gateway).items() if one} | routed
    asked = set(values(gateway)) | (set(conf.value.devices) if isinstance(conf, Fact) else set())
    odd: dict[int, str] = {}
    judged = 0
    for row in table.value.devices:
        device = row.device_id
        if row.server in here or device not in nets or device in odd or device not in asked:
            continue
        inside = _inside(row.device_ip, *nets[device])
        judged += inside is not None
        if inside is False and device not in has_gateway:
            odd[device] = row.device_ip
    if odd:
        first = min(odd)
        args = {**named(odd), "address": "/".join(nets[first]), "peer": odd[first]}
        seen = Evidence(f"hccn_tool -i {first} -gateway -g", 0, "")
        return fail(args, _line(conf, "address", first) or seen, table.evidence, place=place(odd))
    return passed({"count": judged}) if judged else not_applicable("single_node")


def _inside(gateway: str, address: str, mask: str) -> bool | None:
    """Whether a gateway is in the subnet of an address, None if one of them is no address."""
    try:
        return ipaddress.ip_address(gateway) in ipaddress.ip_network(f"{address}/{mask}", strict=False)
    except ValueError:
        return None


# ------------------------------------------------------------------ settings that must be equal


def groups_of(readings: Mapping[int, Any]) -> list[tuple[Any, list[int]]]:
    """(value, devices) of readings, the value of most devices first."""
    found: dict[Any, list[int]] = {}
    for device, value in sorted(readings.items()):
        found.setdefault(value, []).append(device)
    return sorted(found.items(), key=lambda pair: (-len(pair[1]), pair[1]))


def tls_equal(tls: Fact) -> Answer:
    """HCCL536: the TLS switch is the same on every device; HCCL refuses or times out otherwise (EI0016)."""
    found = groups_of({device: one.switch for device, one in values(tls).items()})
    if len(found) < 2:
        return passed({"switch": found[0][0], "count": len(found[0][1])} if found else {}, tls.evidence)
    odd = found[-1][1]
    every = values(tls)
    args = {**named(odd), "switch": found[-1][0], "rest": span(found[0][1]), "rest_switch": found[0][0]}
    return fail(args, *(every[d].seen for d in (odd[0], found[0][1][0])), place=place(odd))


def certificates(tls: Fact) -> Answer | list[Answer]:
    """HCCL548: no TLS certificate is near its end or over. It counts only where TLS is switched on."""
    answers, seen = [], 0
    for status, word in ((2, "expired"), (1, "near")):
        late = [
            (device, one, certificate)
            for device, one in values(tls).items()
            for certificate in one.certificates
            if certificate.status == status
        ]
        seen += sum(len(one.certificates) for one in values(tls).values())
        if late:
            on = any(one.switch for _, one, _ in late)
            devices = sorted({device for device, _, _ in late})
            severity = ("error" if status == 2 else "warning") if on else "advice"
            args = {**named(devices), "state": word, "name": late[0][2].name, "end": late[0][2].end}
            lines = [certificate.seen for _, _, certificate in late[:SHOWN]]
            answers.append(fail(args, *lines, place=place(devices), severity=severity))
    if answers:
        return answers
    return passed() if seen else not_applicable("not_set", name="TLS certificate")


def mtu_equal(mtu: Fact, settings: Fact | Unknown) -> Answer:
    """HCCL537: one MTU on all devices."""
    if alone(settings):
        return not_applicable("single_node")
    every = values(mtu)
    found = groups_of({device: one.value for device, one in every.items()})
    if len(found) < 2:
        return passed({"mtu": found[0][0]} if found else {}, mtu.evidence)
    odd = found[-1][1]
    args = {**named(odd), "mtu": found[-1][0], "rest": span(found[0][1]), "rest_mtu": found[0][0]}
    lines = (every[d].seen for d in (odd[0], found[0][1][0]))
    return fail(args, *lines, place=place(odd), severity=level(settings, "warning"))


# ------------------------------------------------------------------ reachability and left-overs


def detection(
    health: Fact, netdetect: Fact | Unknown, settings: Fact | Unknown, tool: Fact | Unknown
) -> Answer | list[Answer]:
    """HCCL534: the detection packets of each device are answered.

    ``Init`` is no failure: detection has not finished, or no address to detect is set; one reading cannot tell.
    """
    if alone(settings):
        return not_applicable("single_node")
    every = values(health)
    targets = values(netdetect)
    well = [device for device, one in every.items() if one.state == "success"]
    answers = []
    for state, devices in groups_of({d: one.state for d, one in every.items() if one.state not in ("success", "")}):
        quiet = state in ("init", "detect_ip_set", "unknown")
        target = next((targets[d].value for d in devices if targets.get(d) and targets[d].value not in UNSET), "")
        args = {**named(devices), "state": every[devices[0]].said, "address": target or "-"}
        seen = [every[d].seen for d in devices[:SHOWN]]
        severity = "advice" if quiet else level(settings, tool=tool)
        answers.append(fail(args, *seen, place=place(devices), severity=severity))
    return answers or passed({"count": len(well)}, health.evidence)


def no_left_over(process: Fact, processes: Fact | Unknown) -> Answer:
    """HCCL545: no hccp process holds a device's port while no job runs.

    npu-smi numbers cards and chips, not physical ids, so any process in its table is taken for the job.
    """
    every = values(process)
    held = [device for device, one in every.items() if one.value == "exist"]
    job = _job_runs(processes)
    if not held or job:
        return passed({"count": len(every)}, process.evidence)
    severity = "advice" if job is None else "warning"
    return fail({**named(held)}, *(every[d].seen for d in held[:SHOWN]), place=place(held), severity=severity)


def _job_runs(processes: Fact | Unknown) -> bool | None:
    """Whether npu-smi lists a process, None if its table is not known."""
    if not isinstance(processes, Fact):
        return None
    listed = processes.value
    return any(listed.values()) if isinstance(listed, Mapping) else bool(listed)


def pings(ping: Fact) -> Answer | list[Answer]:
    """HCCL546: every packet of a ping that was asked for came back."""
    answers = []
    for one in ping.value:
        if one.received < one.sent or not one.sent:
            loss = 100.0 * (one.sent - one.received) / one.sent if one.sent else 100.0
            args = {
                "device": one.device if one.device is not None else "?",
                "n": one.device if one.device is not None else "N",
                "address": one.address,
                "loss": f"{loss:.0f}",
                "said": one.said or "-",
            }
            severity = "error" if one.received == 0 else "warning"
            seen = Place(device=one.device) if isinstance(one.device, int) else NOWHERE
            answers.append(fail(args, one.seen, place=seen, severity=severity))
    return answers or passed({"count": len(ping.value)}, ping.evidence)
