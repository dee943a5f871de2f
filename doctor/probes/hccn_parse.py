"""What hccn_tool and /etc/hccn.conf say, line by line.

Every parser takes the text of one answer for one device and the name it is cited by. It gives None for a text it does
not know, never raises, and is linear in the text: the tool's output is short, and what is longer is cut.

Layouts: hicann/driver src/custom/network/hccn (A2, A3), its Ascend_950_HCCN_Tool pages, Ascend/mind-cluster test data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import NamedTuple

from doctor.model import Evidence

LINES = 20_000
"""Lines read of one text; the longest real answer, the counters, has 60."""
WIDTH = 1_000
"""Characters read of one line."""


class Trouble(NamedTuple):
    """An error text of the tool. ``code``: see ``TROUBLES``."""

    code: str
    seen: Evidence


class Ip(NamedTuple):
    """RoCE address of a device as the device has it now."""

    address: str
    netmask: str
    seen: Evidence


class Link(NamedTuple):
    """State of the RoCE port: UP or DOWN; ``ports`` of a 950 are (die, port, state)."""

    status: str
    seen: Evidence
    ports: tuple[tuple[int, int, str], ...] = ()


class Health(NamedTuple):
    """Answer of the last detection packets. ``state`` is one of ``HEALTH_STATES``, or ``unknown``."""

    state: str
    said: str
    seen: Evidence


class Gateway(NamedTuple):
    address: str
    interface: str
    seen: Evidence


class Certificate(NamedTuple):
    """``status``: 0 normal, 1 near expiration, 2 expired; ``end`` as printed."""

    name: str
    end: str
    status: int
    seen: Evidence


class Tls(NamedTuple):
    """TLS switch of a device (1 on); ``preset`` None in older tools; ``alarm_days`` before the end of a certificate."""

    switch: int
    preset: int | None
    alarm_days: int | None
    certificates: tuple[Certificate, ...]
    seen: Evidence


class Number(NamedTuple):
    """A number with its evidence: MTU in bytes, speed in Mb/s (None: the tool says Unknown)."""

    value: int | None
    seen: Evidence


class Word(NamedTuple):
    """A word with its evidence: the FEC mode, the detection address."""

    value: str
    seen: Evidence


class Reading(NamedTuple):
    """A measured value of an optical module: power in mW, temperature in °C, voltage in mV."""

    value: float
    seen: Evidence


class Optical(NamedTuple):
    """An optical module. ``present`` is what the tool says; some releases say no and print values all the same.

    ``tx`` and ``rx`` are powers per lane in mW; ``limits`` are the module's own thresholds by name (``rx_low`` mW,
    ``tx_high`` mW, ``temp_high`` °C, …); ``flags`` are the loss flags that are set, with their value.
    """

    present: bool
    tx: tuple[Reading, ...]
    rx: tuple[Reading, ...]
    temperature: Reading | None
    voltage: Reading | None
    limits: dict[str, float]
    flags: dict[str, int]
    seen: Evidence
    flags_seen: Evidence | None = None


class Change(NamedTuple):
    """One record of the link's history. ``at`` is in seconds of the device's own clock, None if it cannot be read."""

    status: str
    at: float | None
    seen: Evidence


class LinkHistory(NamedTuple):
    """Ups and downs since the device started, ``records`` newest first; counts are None where they are not printed."""

    now: float | None
    ups: int | None
    downs: int | None
    records: tuple[Change, ...]
    seen: Evidence


class Counters(NamedTuple):
    """Packet counters since the device started; a key that the tool does not print is absent, not zero."""

    values: dict[str, int]
    lines: dict[str, int]
    seen: Evidence


class Neighbour(NamedTuple):
    """The switch port at the other end of the cable, as the switch announces it; what is not announced is empty."""

    chassis: str
    port: str
    system: str
    address: str
    frame: int | None
    seen: Evidence


class Vnic(NamedTuple):
    status: str
    address: str
    netmask: str
    seen: Evidence


class Ping(NamedTuple):
    """Packets sent and received; ``said`` is the first line that names a loss."""

    device: int | None
    address: str
    sent: int
    received: int
    said: str
    seen: Evidence


class Route(NamedTuple):
    destination: str
    gateway: str
    netmask: str
    interface: str


class Port(NamedTuple):
    """A port of a 950; ``speed`` in Gb/s."""

    die: int
    port: int
    speed: int | None
    kind: str
    status: str
    media: str
    seen: Evidence


class Conf(NamedTuple):
    """/etc/hccn.conf: settings per device; ``odd`` are lines that are no setting."""

    devices: dict[int, dict[str, str]]
    lines: dict[str, int]
    odd: tuple[tuple[int, str], ...]


# ------------------------------------------------------------------ common


def rows(text: str) -> Iterator[tuple[int, str]]:
    """(number from 1, stripped line) of the lines that hold something."""
    for number, line in enumerate(text[: LINES * WIDTH].split("\n", LINES)[:LINES], 1):
        bare = line[:WIDTH].strip().strip("\x00")
        if bare:
            yield number, bare


TROUBLES = (
    ("hccn_tool is busy", "busy"),
    ("permission denied", "denied"),
    ("operation not permitted", "denied"),
    ("the device is not exist", "no_device"),
    ("get invalid device id", "no_device"),
    ("the vm does not support", "unsupported"),
    ("not supported on this product", "unsupported"),
    ("does not support this function", "unsupported"),
    ("link status is down", "link_down"),
    ("control link unreachable", "unreachable"),
    ("cmd line execute timeout", "timeout"),
    ("hccn.conf can't access", "conf"),
    ("was preset there", "not_set"),
    ("certificate has expired", "expired"),
    ("ip address configured is conflicted", "conflict"),
    ("segment of configured gateway doesn't match", "segment"),
    ("command execute failed", "failed"),
    ("execute failed", "failed"),
)
"""Part of an error text in lower case, and the code it is given here; the first that is there counts."""


def trouble(text: str, source: str = "") -> Trouble | None:
    """The first error text of the tool in an answer, None if there is none."""
    for number, line in rows(text):
        low = line.lower()
        for words, code in TROUBLES:
            if words in low:
                return Trouble(code, Evidence(source, number, line))
    return None


_PREFIX = re.compile(r"\[devi(?:d|ce) ?(\d{1,5})\] ?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(r"[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})")


def moment(text: str) -> float | None:
    """Seconds since the epoch of an ``asctime`` text, taken as UTC; None if it is none.

    >>> moment("Thu Jan  1 00:01:00 1970")
    60.0
    """
    found = _TIME.search(text)
    if found is None or found[1] not in _MONTHS:
        return None
    day, hour, minute, second, year = (int(found[n]) for n in range(2, 7))
    try:
        return datetime(year, _MONTHS.index(found[1]) + 1, day, hour, minute, second, tzinfo=timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def _pairs(text: str) -> Iterator[tuple[int, str, str, str]]:
    """(line, key in lower case, value, whole line) of ``key : value`` lines, the ``[devid N]`` in front taken off."""
    for number, line in rows(text):
        found = _PREFIX.match(line)
        key, colon, value = (line[found.end() :] if found else line).partition(":")
        if colon:
            yield number, key.strip().lower(), value.strip(), line


def _whole(text: str, most: int = 20) -> int | None:
    """A whole number that stands alone, None if it is none or longer than any counter."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most else None


_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3}")


def _address(text: str) -> str:
    found = _ADDRESS.match(text.strip())
    return found[0] if found else ""


# ------------------------------------------------------------------ address, link, health


def parse_ip(text: str, source: str = "") -> Ip | None:
    """``-ip -g``: ``ipaddr:A`` and ``netmask:M``."""
    address, mask, seen = "", "", None
    for number, key, value, line in _pairs(text):
        if key == "ipaddr" and not address:
            address, seen = _address(value), Evidence(source, number, line)
        elif key == "netmask" and not mask:
            mask = _address(value)
    return Ip(address, mask, seen) if address and seen else None


def parse_link(text: str, source: str = "") -> Link | None:
    """``-link -g``: ``link status: UP``. The tool exits with 0 also when the link is down."""
    for number, key, value, line in _pairs(text):
        if key == "link status" and value.upper() in ("UP", "DOWN"):
            return Link(value.upper(), Evidence(source, number, line))
    return None


HEALTH_STATES = (
    ("success", "success"),
    ("init", "init"),
    ("socket fail", "socket_fail"),
    ("receive timeout", "receive_timeout"),
    ("unreachable", "unreachable"),
    ("time exceeded", "time_exceeded"),
    ("fault", "fault"),
    ("thread error", "thread_error"),
    ("detect ip set", "detect_ip_set"),
)
"""Beginning of what ``-net_health -g`` prints in lower case (releases differ after it), and the state it means."""


def parse_health(text: str, source: str = "") -> Health | None:
    """``-net_health -g``: ``net health status: Success``."""
    for number, key, value, line in _pairs(text):
        if key == "net health status" and value:
            low = value.lower()
            state = next((state for start, state in HEALTH_STATES if low.startswith(start)), "unknown")
            return Health(state, value, Evidence(source, number, line))
    return None


def parse_netdetect(text: str, source: str = "") -> Word | None:
    """``-netdetect -g``: ``netdetect addr: A`` or, older, ``netdetect address: A``."""
    for number, key, value, line in _pairs(text):
        if key in ("netdetect addr", "netdetect address") and _address(value):
            return Word(_address(value), Evidence(source, number, line))
    return None


_IFACE = re.compile(r"Iface: ?([\w.-]{1,40})")


def parse_gateway(text: str, source: str = "") -> Gateway | None:
    """``-gateway -g``: ``default gateway:A, Iface:eth0``."""
    for number, key, value, line in _pairs(text):
        if key == "default gateway" and _address(value):
            interface = _IFACE.search(value)
            return Gateway(_address(value), interface[1] if interface else "", Evidence(source, number, line))
    return None


def parse_mtu(text: str, source: str = "") -> Number | None:
    """``-mtu -g``: ``mtu:4200``, bytes."""
    for number, key, value, line in _pairs(text):
        if key == "mtu" and (size := _whole(value, 6)) is not None:
            return Number(size, Evidence(source, number, line))
    return None


_SPEED = re.compile(r"(\d{1,9}) ?Mb/s")


def parse_speed(text: str, source: str = "") -> Number | None:
    """``-speed -g``: ``Speed: 200000 Mb/s``, or ``Unknown!`` while the link is down."""
    for number, key, value, line in _pairs(text):
        if key == "speed":
            found = _SPEED.match(value)
            if found or value.lower().startswith("unknown"):
                return Number(int(found[1]) if found else None, Evidence(source, number, line))
    return None


def parse_fec(text: str, source: str = "") -> Word | None:
    """``-fec -g``: ``fec mode: rs FEC mode`` is ``rs``, ``no FEC mode`` is ``no``."""
    for number, key, value, line in _pairs(text):
        if key == "fec mode" and value:
            return Word(value.split()[0].lower(), Evidence(source, number, line))
    return None


def parse_duplex(text: str, source: str = "") -> Word | None:
    """``-duplex -g``: ``Duplex: Full``."""
    for number, key, value, line in _pairs(text):
        if key == "duplex" and value:
            return Word(value.lower(), Evidence(source, number, line))
    return None


def parse_process(text: str, source: str = "") -> Word | None:
    """``-process -g``: ``device hccp process: exist`` or ``not exist``."""
    for number, key, value, line in _pairs(text):
        if key == "device hccp process" and value.lower() in ("exist", "not exist"):
            return Word(value.lower(), Evidence(source, number, line))
    return None


def parse_cfg(text: str, source: str = "") -> Word | None:
    """``-cfg -g``: ``config status:SUCCESS``."""
    for number, key, value, line in _pairs(text):
        if key == "config status" and value:
            return Word(value.upper(), Evidence(source, number, line))
    return None


def parse_vnic(text: str, source: str = "") -> Vnic | None:
    """``-vnic -g``: the device's port of the network inside the superpod."""
    status, address, mask, seen = "", "", "", None
    for number, key, value, line in _pairs(text):
        if key == "vnic link status" and not status:
            status, seen = value.upper(), Evidence(source, number, line)
        elif key == "vnic ipaddr" and not address:
            address = _address(value)
        elif key == "vnic netmask" and not mask:
            mask = _address(value)
    return Vnic(status, address, mask, seen) if status in ("UP", "DOWN") and seen else None


def parse_set(text: str) -> bool:
    """Whether a text is the answer of a set command that succeeded."""
    return any(line == "Cmd executed successfully!" for _, line in rows(text))


# ------------------------------------------------------------------ TLS

_TLS = re.compile(r"dev_id: ?(\d{1,5}), ?tls switch\[(\d)\]")
_PRESET = re.compile(r"tls preconfigured\[(\d)\]")
_ALARM = re.compile(r"alarm time threshold\[(\d{1,6})\]")
_CERT = re.compile(r"dev_id: ?(\d{1,5}), ?\[([^\]]{1,40})\] info")
_END = re.compile(r"end_time\[([^\]]{1,80})\]")
_EXPIRATION = re.compile(r"tls expiration status\[(\d)\]")


def parse_tls(text: str, source: str = "") -> dict[int, Tls]:
    """``-tls -g``: one entry per ``dev_id`` of the answer, none if there is no switch line in it."""
    found: dict[int, Tls] = {}
    certificates: dict[int, list[Certificate]] = {}
    owner, name, end = -1, "", ""
    for number, line in rows(text):
        if switch := _TLS.match(line):
            preset, alarm = _PRESET.search(line), _ALARM.search(line)
            found[int(switch[1])] = Tls(
                int(switch[2]),
                int(preset[1]) if preset else None,
                int(alarm[1]) if alarm else None,
                (),
                Evidence(source, number, line),
            )
        elif head := _CERT.match(line):
            owner, name, end = int(head[1]), head[2], ""
        elif date := _END.match(line):
            end = date[1]
        elif name and (state := _EXPIRATION.match(line)):
            entry = Certificate(name, end, int(state[1]), Evidence(source, number, line))
            certificates.setdefault(owner, []).append(entry)
            name = ""
    return {dev: tls._replace(certificates=tuple(certificates.get(dev, ()))) for dev, tls in found.items()}


# ------------------------------------------------------------------ optics, counters, history

_POWER = re.compile(r"([tr])x ?power ?(\d{0,2})$")
_LIMIT = re.compile(r"(vcc|temp|[tr]xpower) (high|low) thres$")
_FLAG = re.compile(r"([tr]x lo[sl]) flag$")
_FLOAT = re.compile(r"-?\d{1,12}(?:\.\d{1,12})?\b")
_HEX = re.compile(r"0x([0-9a-fA-F]{1,8})")
_LIMIT_NAMES = {"txpower": "tx", "rxpower": "rx", "temp": "temp", "vcc": "vcc"}


def parse_optical(text: str, source: str = "") -> Optical | None:
    """``-optical -g``. Values that the module does not give (``NA``, ``not supported``, ``get failed``) are absent."""
    present: bool | None = None
    seen, flags_seen = None, None
    powers: dict[str, list[Reading]] = {"t": [], "r": []}
    limits: dict[str, float] = {}
    flags: dict[str, int] = {}
    temperature, voltage = None, None
    for number, line in rows(text):
        if line.lower().startswith("optical module is not present"):
            present, seen = False, seen or Evidence(source, number, line)
    for number, key, value, line in _pairs(text):
        if key == "present":
            present, seen = value.lower() == "present", Evidence(source, number, line)
            continue
        if flag := _FLAG.match(key):
            bits = _HEX.match(value)
            if bits and int(bits[1], 16):
                flags[flag[1]] = int(bits[1], 16)
                flags_seen = flags_seen or Evidence(source, number, line)
            continue
        measured = _FLOAT.match(value)
        if measured is None:
            continue
        reading = Reading(float(measured[0]), Evidence(source, number, line))
        if power := _POWER.match(key):
            powers[power[1]].append(reading)
        elif limit := _LIMIT.match(key):
            limits[f"{_LIMIT_NAMES[limit[1]]}_{limit[2]}"] = reading.value
        elif key == "temperature":
            temperature = reading
        elif key == "vcc":
            voltage = reading
    if present is None or seen is None:
        return None
    return Optical(
        present, tuple(powers["t"]), tuple(powers["r"]), temperature, voltage, limits, flags, seen, flags_seen
    )


_COUNTER = re.compile(r"([a-z][a-z0-9_]{2,60}) ?: ?(\d{1,20})$")


def parse_stat(text: str, source: str = "") -> Counters | None:
    """``-stat -g``: ``packet statistics:`` and one ``key:value`` per line."""
    values: dict[str, int] = {}
    lines: dict[str, int] = {}
    seen = None
    for number, line in rows(text):
        if line.lower().startswith("packet statistics"):
            seen = Evidence(source, number, line)
        elif (found := _COUNTER.match(line)) and found[1] not in values:
            values[found[1]], lines[found[1]] = int(found[2]), number
            if seen is None and found[1].startswith(("roce_", "mac_", "nic_")):
                seen = Evidence(source, number, line)
    return Counters(values, lines, seen) if seen and values else None


_HW = re.compile(r"\[devi(?:d|ce) ?\d{1,5}\] ?([a-z][a-z0-9_]{1,40}) ?: ?(\d{1,20})$")


def parse_hw_stats(text: str, source: str = "") -> Counters | None:
    """``-hw_stats -g``: counts of RDMA objects."""
    values: dict[str, int] = {}
    lines: dict[str, int] = {}
    first = None
    for number, line in rows(text):
        if found := _HW.match(line):
            values[found[1]], lines[found[1]] = int(found[2]), number
            first = first or Evidence(source, number, line)
    return Counters(values, lines, first) if first else None


_RECORD = re.compile(r"LINK[ _](UP|DOWN)\b")


def parse_link_stat(text: str, source: str = "") -> LinkHistory | None:
    """``-link_stat -g``: counts and records newest first; also the table of the 950."""
    now, ups, downs, first = None, None, None, None
    records: list[Change] = []
    for number, line in rows(text):
        if record := _RECORD.search(line):
            records.append(Change(record[1], moment(line), Evidence(source, number, line)))
            continue
        found = _PREFIX.match(line)
        key, colon, value = (line[found.end() :] if found else line).partition(":")
        if not colon:
            continue
        key, value = key.strip().lower(), value.strip()
        if key == "current time":
            now = moment(value)
        elif key == "link up count":
            ups = _whole(value)
        elif key == "link down count":
            downs = _whole(value)
        elif key != "link change records":
            continue
        first = first or Evidence(source, number, line)
    first = first or (records[0].seen if records else None)
    return LinkHistory(now, ups, downs, tuple(records), first) if first else None


# ------------------------------------------------------------------ the switch, pings, routes

_LLDP_HEADS = {
    "chassis id tlv": "chassis",
    "port id tlv": "port",
    "system name tlv": "system",
    "management address tlv": "address",
    "maximum frame size tlv": "frame",
}


def parse_lldp(text: str, source: str = "") -> Neighbour | None:
    """``-lldp -g``: what the switch announces. A lone ``Ifname:`` line, as people filter it, is a port without name."""
    got: dict[str, str] = {}
    seen, part = None, ""
    for number, line in rows(text):
        low = line.lower()
        if low.endswith(" tlv") or low.startswith("end of lldpdu"):
            part = _LLDP_HEADS.get(low, "-")
            continue
        key, colon, value = line.partition(":")
        value = value.strip() if colon else line
        if low.startswith("ifname:"):
            got.setdefault("port", value[:120])
            seen = seen or Evidence(source, number, line)
        elif part in _LLDP_HEADS.values() and part not in got:
            # "MAC: 00:…" and "IPv4: …" name the kind of the value in front of it
            known = colon and key.strip().lower() in ("mac", "ipv4", "ipv6", "local", "ifalias", "network address")
            got[part] = (value if known else line)[:120]
            seen = seen or Evidence(source, number, line)
    if seen is None:
        return None
    frame = _whole(got.get("frame", ""), 6)
    return Neighbour(
        got.get("chassis", ""), got.get("port", ""), got.get("system", ""), got.get("address", ""), frame, seen
    )


_PING_HEAD = re.compile(r"(?:device|devid) (\d{1,5}) PING ([0-9A-Fa-f:.]{2,45})")
_PING_SUM = re.compile(r"(\d{1,9}) packets transmitted, (\d{1,9}) received")
_PING_BAD = (
    "recv time out", "destination host unreachable", "message too long", "this pkt send fail", "check recv msg fail",
    "ping not start to send",
)  # fmt: skip


def parse_ping(text: str, source: str = "") -> Ping | None:
    """``-ping -g address A`` and ``-hccs_ping``: counts of the closing line, which the two spell differently."""
    device, address, said = None, "", ""
    for number, line in rows(text):
        if head := _PING_HEAD.match(line):
            device, address = int(head[1]), head[2]
        elif total := _PING_SUM.match(line):
            seen = Evidence(source, number, line)
            return Ping(device, address, int(total[1]), min(int(total[1]), int(total[2])), said, seen)
        elif not said and any(words in line.lower() for words in _PING_BAD):
            said = line
    return None


def parse_route(text: str) -> list[Route]:
    """``-route -g``: the device's routing table."""
    found = []
    for _, line in rows(text):
        words = line.split()
        if len(words) == 8 and words[3].startswith("U") and _address(words[2]):
            found.append(Route(words[0], "" if words[1] == "*" else words[1], words[2], words[7]))
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def parse_dev_info(text: str, source: str = "") -> list[Port]:
    """``-g -dev_info -i N`` of the 950: its table of ports."""
    found: list[Port] = []
    columns: list[str] = []
    for number, line in rows(text):
        if not line.startswith("|"):
            continue
        cells = _cells(line)
        if "Port ID" in cells and "Link Status" in cells:
            columns = cells
            continue
        if len(cells) != len(columns):
            continue
        row = dict(zip(columns, cells, strict=True))
        die, port = _whole(row.get("UDie ID", ""), 4), _whole(row.get("Port ID", ""), 4)
        status = row["Link Status"].upper()
        if die is None or port is None or status not in ("UP", "DOWN"):
            continue
        speed = next((_whole(cell, 6) for name, cell in row.items() if name.startswith("Speed")), None)
        kind, media = row.get("Port Type", ""), row.get("Media Type", "")
        found.append(Port(die, port, speed, kind, status, media, Evidence(source, number, line)))
    return found


# ------------------------------------------------------------------ /etc/hccn.conf

_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9_]{1,40})_(\d{1,3}) ?= ?(.{0,200})$")


def parse_conf(text: str) -> Conf:
    """``key_N=value`` lines, N the physical id. Of two equal keys the last counts; comments are passed over."""
    devices: dict[int, dict[str, str]] = {}
    lines: dict[str, int] = {}
    odd: list[tuple[int, str]] = []
    for number, line in rows(text):
        if line.startswith("#"):
            continue
        found = _SETTING.match(line)
        if found is None:
            if len(odd) < 20:
                odd.append((number, line[:120]))
            continue
        devices.setdefault(int(found[2]), {})[found[1]] = found[3].strip()
        lines[f"{found[1]}_{found[2]}"] = number
    return Conf(devices, lines, tuple(odd))
