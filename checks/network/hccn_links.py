"""HCCL533 to 549, the physical side of the RoCE ports: links, optics, counters, switch ports.

Levels by number of servers as in ``hccn``. Sources: hicann/driver hccn_tool, Ascend/mind-cluster ascend-faultdiag.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.checks.network.hccn import SHOWN, alone, groups_of, level, named, place, span, values
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

DAY = 24 * 3600.0
FLAPS = 3
"""Downs within a day from which a link is called flapping."""
NEAR = 0.2
"""Share of a power threshold within which a value is near it."""

ERRORS = (
    "mac_rx_fcs_err_pkt_num", "mac_rx_bad_pkt_num", "mac_tx_bad_pkt_num", "roce_rx_err_pkt_num", "roce_tx_err_pkt_num",
    "roce_verification_err_num", "roce_new_pkt_rty_num", "roce_out_of_order_num", "roce_unexpected_ack_num",
    "roce_qp_status_err_num",
)  # fmt: skip
"""Counters that stay at 0 on a sound link; pause and congestion counters rise on sound links too."""


def link_up(link: Fact, settings: Fact | Unknown, tool: Fact | Unknown) -> Answer:
    """HCCL533: the RoCE port of every device is up."""
    if alone(settings):
        return not_applicable("single_node")
    every = values(link)
    down = [device for device, one in every.items() if one.status == "DOWN"]
    if not down:
        return passed({"count": len(every)}, link.evidence)
    # a 950 has many ports and not all of them are cabled
    severity = "advice" if any(one.ports for one in every.values()) else level(settings, tool=tool)
    args = {**named(down), "count": len(down), "of": len(every)}
    return fail(args, *(every[d].seen for d in down[:SHOWN]), place=place(down), severity=severity)


# ------------------------------------------------------------------ optics


def optics(optical: Fact, settings: Fact | Unknown, tool: Fact | Unknown) -> Answer | list[Answer]:
    """HCCL538: powers, temperature and voltage of the optical modules are inside the module's own thresholds."""
    if alone(settings):
        return not_applicable("single_node")
    every = values(optical)
    bad: dict[int, list[tuple[str, Evidence]]] = {}
    near: dict[int, list[tuple[str, Evidence]]] = {}
    measured = 0
    for device, one in every.items():
        measured += bool(one.tx or one.rx or one.temperature)
        outside, close = _judge_module(one)
        if outside:
            bad[device] = outside
        elif close:
            near[device] = close
    answers = []
    for found, state in ((bad, "outside"), (near, "near")):
        if not found:
            continue
        devices = sorted(found)
        whats = [what for device in devices for what, _ in found[device]]
        lines = [seen for device in devices for _, seen in found[device]]
        args = {**named(devices), "state": state, "what": "; ".join(whats[:SHOWN])}
        # light on one lane and none on another: this port is cabled, and something on it is broken
        worse = state == "outside"
        otherwise = "warning" if worse and any(_half_lit(every[device]) for device in devices) else "advice"
        severity = level(settings, "error" if worse else "warning", otherwise, tool if worse else None)
        answers.append(fail(args, *lines[:SHOWN], place=place(devices), severity=severity))
    if answers:
        return answers
    return passed({"count": measured}, optical.evidence) if measured else not_applicable("hccn_no_module")


def _half_lit(one: Any) -> bool:
    """Whether a module receives enough light on one lane and too little on another."""
    low = one.limits.get("rx_low")
    enough = {reading.value >= low for reading in one.rx} if low is not None else set()
    return len(enough) == 2


def _judge_module(one: Any) -> tuple[list[tuple[str, Evidence]], list[tuple[str, Evidence]]]:
    """(outside, near) of a module: what it is and the line that shows it."""
    outside: list[tuple[str, Evidence]] = []
    close: list[tuple[str, Evidence]] = []
    for name, readings in (("rx", one.rx), ("tx", one.tx)):
        low, high = one.limits.get(f"{name}_low"), one.limits.get(f"{name}_high")
        for lane, reading in enumerate(readings):
            where = f"{name.capitalize()} Power{lane} {reading.value:g} mW"
            if low is not None and reading.value < low:
                outside.append((f"{where} < {low:g}", reading.seen))
            elif high is not None and reading.value > high:
                outside.append((f"{where} > {high:g}", reading.seen))
            elif low is not None and reading.value < low * (1 + NEAR):
                close.append((f"{where} ~ {low:g}", reading.seen))
            elif high is not None and reading.value > high * (1 - NEAR):
                close.append((f"{where} ~ {high:g}", reading.seen))
    for reading, name, unit in ((one.temperature, "temp", "C"), (one.voltage, "vcc", "mV")):
        low, high = one.limits.get(f"{name}_low"), one.limits.get(f"{name}_high")
        if reading is None or not one.present:
            continue
        if (low is not None and reading.value < low) or (high is not None and reading.value > high):
            limit = low if low is not None and reading.value < low else high
            outside.append((f"{name} {reading.value:g} {unit} | {limit:g}", reading.seen))
    if one.flags_seen is not None:
        outside.append((", ".join(f"{flag} {bits:#x}" for flag, bits in one.flags.items()), one.flags_seen))
    return outside, close


# ------------------------------------------------------------------ history and counters


def steady(
    history: Fact, link: Fact | Unknown, settings: Fact | Unknown, tool: Fact | Unknown
) -> Answer | list[Answer]:
    """HCCL539: the last thing that happened to a link is that it came up, and it did not go down time and again.

    Times are the device's own clock; only differences between them count.
    """
    if alone(settings):
        return not_applicable("single_node")
    every, now_up = values(history), {d for d, one in values(link).items() if one.status == "UP"}
    found: dict[str, list[int]] = {"down": [], "flapping": [], "never_up": []}
    downs = {device: _recent_downs(one) for device, one in every.items()}
    for device, one in every.items():
        if one.records and one.records[0].status == "DOWN" and device not in now_up:
            found["down"].append(device)
        elif downs[device] >= FLAPS:
            found["flapping"].append(device)
        elif not one.records and one.ups == 0 and device not in now_up:
            found["never_up"].append(device)
    answers = []
    for state, devices in found.items():
        if devices:
            severity = level(settings, "error" if state == "down" else "warning", tool=tool)
            seen = [(every[d].records[0].seen if every[d].records else every[d].seen) for d in devices[:SHOWN]]
            args = {**named(devices), "state": state, "downs": max(downs[d] for d in devices)}
            answers.append(fail(args, *seen, place=place(devices), severity=severity))
    return answers or passed({"count": len(every)}, history.evidence)


def _recent_downs(one: Any) -> int:
    """Downs within a day before the device's clock, or before its newest record where the clock is not printed."""
    times = [record.at for record in one.records if record.at is not None]
    now = one.now if one.now is not None else max(times, default=None)
    if now is None:
        return 0
    return sum(r.status == "DOWN" and r.at is not None and 0 <= now - r.at <= DAY for r in one.records)


def clean_counters(stat: Fact, settings: Fact | Unknown) -> Answer:
    """HCCL540: no error counter has counted. One reading is no trend, so this is never more than advice."""
    if alone(settings):
        return not_applicable("single_node")
    every = values(stat)
    odd: dict[int, dict[str, int]] = {}
    judged = 0
    for device, one in every.items():
        judged += any(key in one.values for key in ERRORS)
        counted = {key: one.values[key] for key in ERRORS if one.values.get(key, 0) > 0}
        if counted:
            odd[device] = counted
    if not odd:
        return passed({"count": judged}, stat.evidence) if judged else unknown("not_understood")
    first = min(odd)
    lines = [
        Evidence(every[d].seen.source, every[d].lines.get(key, 0), f"{key}:{value}")
        for d, counted in sorted(odd.items())
        for key, value in counted.items()
    ]
    args = {**named(odd), "counters": ", ".join(f"{key}={value}" for key, value in odd[first].items())}
    return fail(args, *lines[:SHOWN], place=place(odd))


def risen(before: Mapping[int, Any], after: Mapping[int, Any]) -> dict[int, dict[str, int]]:
    """Error counters of ``after`` minus ``before``, per device, where they rose.

    Both are values of hccn.stat. A counter that one reading lacks is left out, and so is one that fell: the device was
    started in between.
    """
    rose: dict[int, dict[str, int]] = {}
    for device, now in after.items():
        then = before.get(device)
        if then is None or now is None:
            continue
        for key in ERRORS:
            if key in then.values and key in now.values and now.values[key] > then.values[key]:
                rose.setdefault(device, {})[key] = now.values[key] - then.values[key]
    return rose


# ------------------------------------------------------------------ the other end of the cable


def one_port_each(lldp: Fact, settings: Fact | Unknown) -> Answer | list[Answer]:
    """HCCL543: no two devices report the same port of the same switch.

    Where the switch is not named, equal port names may be ports of two switches: a guess and advice.
    """
    if alone(settings):
        return not_applicable("single_node")
    every = values(lldp)
    found: dict[tuple[str, str], list[int]] = {}
    for device, one in every.items():
        if one is not None and one.port:
            found.setdefault((one.chassis or one.system or one.address, one.port), []).append(device)
    answers = []
    for (switch, port), devices in sorted(found.items()):
        if len(devices) > 1:
            args = {**named(devices), "port": port, "switch": switch or "-"}
            seen = [every[d].seen for d in devices[:SHOWN]]
            confidence = None if switch else "guess"
            answers.append(
                fail(args, *seen, severity=level(settings, "warning" if switch else "advice"), confidence=confidence)
            )
    if answers:
        return answers
    return passed({"count": len(found)}, lldp.evidence) if found else unknown("not_understood")


def vnic_up(vnic: Fact) -> Answer:
    """HCCL547: the virtual port inside the superpod is up."""
    every = values(vnic)
    down = [device for device, one in every.items() if one.status == "DOWN"]
    if not down:
        return passed({"count": len(every)}, vnic.evidence)
    return fail({**named(down)}, *(every[d].seen for d in down[:SHOWN]), place=place(down))


def alike(speed: Fact | Unknown, fec: Fact | Unknown, settings: Fact | Unknown) -> Answer | list[Answer]:
    """HCCL549: the ports of a server run at one speed and with one FEC mode. A speed that the tool calls unknown
    belongs to a link that is down."""
    if alone(settings):
        return not_applicable("single_node")
    speeds = {d: one.value for d, one in values(speed).items() if one.value is not None}
    modes = {d: one.value for d, one in values(fec).items()}
    answers = []
    for name, readings, fact in (("speed", speeds, speed), ("FEC", modes, fec)):
        found = groups_of(readings)
        if len(found) > 1:
            odd, rest = found[-1], found[0]
            every = values(fact)
            args = {**named(odd[1]), "name": name, "got": odd[0], "rest": span(rest[1]), "expected": rest[0]}
            answers.append(fail(args, *(every[d].seen for d in (odd[1][0], rest[1][0])), place=place(odd[1])))
    if answers:
        return answers
    if speeds or modes:
        return passed({"count": max(len(speeds), len(modes))})
    gone = speed if isinstance(speed, Unknown) else fec
    if not isinstance(gone, Unknown):
        return unknown("hccn_link_down")
    return unknown(gone.why, gone.how, **gone.args) if gone.applies else not_applicable(gone.why, **gone.args)
