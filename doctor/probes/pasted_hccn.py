"""Pasted hccn_tool output: which questions it answers.

People paste one answer, a loop over all devices, or a whole terminal. Lines are told apart by their first words; a
command line above them, the device id in them, or their order in a loop tells the device.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from doctor.hosts.base import run_key
from doctor.probes import hccn_parse as parse

ANSWERS = 1_000
"""Answers taken from one paste; sixteen devices with every option give 250."""
CONF_KEY = "file /etc/hccn.conf"
GIVEN_KEY = "ask hccn"

_STARTS: tuple[tuple[str, str], ...] = (
    ("ip", r"ipaddr ?:"),
    ("ip", r"Get ipconf failed"),
    ("link", r"link status ?:"),
    ("net_health", r"net health status ?:"),
    ("netdetect", r"netdetect addr(?:ess)? ?:|Get netdetect\w* failed"),
    ("gateway", r"default gateway ?:|Get gateway failed"),
    ("mtu", r"mtu ?:"),
    ("speed", r"[Ss]peed ?: ?(?:\d|[Uu]nknown)"),
    ("fec", r"fec mode ?:"),
    ("process", r"device hccp process ?:"),
    ("tls", r"dev_id: ?\d{1,5}, ?tls switch"),
    ("optical", r"optical info ?:|Optical module is not present"),
    ("stat", r"packet statistics ?:"),
    ("link_stat", r"(?:\[devi(?:d|ce) ?\d{1,5}\] ?)current time ?:"),
    ("lldp", r"Chassis ID TLV"),
    ("vnic", r"vnic link status ?:"),
    ("ping", r"(?:device|devid) \d{1,5} PING "),
)
"""Option and the beginning of the first line of its answer."""

_LATER: tuple[tuple[str, str], ...] = (
    ("ip", r"netmask ?:"),
    ("vnic", r"vnic (?:ipaddr|netmask) ?:"),
    ("link_stat", r"(?:\[devi(?:d|ce) ?\d{1,5}\] ?)?link (?:up count|down count|change records)"),
    ("link_stat", r"\[devi(?:d|ce) ?\d{1,5}\][ \t]{0,20}[A-Z][a-z]{2} "),
    ("tls", r"dev_id: ?\d{1,5}, ?\[|(?:subject|issuer|start_time|end_time|tls expiration status)\["),
    ("stat", r"(?:mac|roce|nic)_[a-z0-9_]{3,60} ?: ?\d"),
    (
        "optical",
        r"(?:present|temperature|Vcc|[TR]x|Temp|[TR]xPower|vendor|xsfp|manufact|high power|(?:Host|Media) SNR)\b"
        r".{0,40}:",
    ),
    ("ping", r"recv (?:seq|time ?out)|This pkt |\d{1,9} packets transmitted|(?:max|min|average|TP\d\d) time"),
    ("lldp", r".{1,40} TLV$|End of LLDPDU"),
)  # fmt: skip
"""Lines that only go on with an answer of their kind, or begin one whose first line was not pasted."""

_FIRST = re.compile("|".join(f"(?P<s{n}>{pattern})" for n, (_, pattern) in enumerate(_STARTS)))
_GOES_ON = re.compile("|".join(f"(?P<l{n}>{pattern})" for n, (_, pattern) in enumerate(_LATER)))
_IFNAME = re.compile(r"Ifname: ?\S")
_COMMAND = re.compile(r"hccn_tool\b([^;|\n]{0,200})")
_ID = re.compile(r"\s-i\s+(\d{1,4})\b")
_OPTION = re.compile(r"\s-(ip|link|net_health|netdetect|gateway|mtu|speed|fec|process|tls|optical|stat|link_stat|lldp"
                     r"|vnic|ping|hccs_ping|dev_info)\b")  # fmt: skip
_DEVICE = re.compile(r"(?:\[devi(?:d|ce) ?|dev_id: ?|devi(?:d|ce) )(\d{1,5})\b")
_CONF = re.compile(
    r"(?:address|netmask|netdetect|gateway|send_arp_status|arp|ip_rule|ip_route|route|IPv6\w{1,20})_\d{1,3}="
)
_TABLE = re.compile(r"[|+]")


class _Answer:
    """Lines of one answer, and the device if it is known."""

    def __init__(self, option: str, device: int | None, form: str = "") -> None:
        self.option, self.device, self.form = option, device, form
        self.lines: list[str] = []


def _kind(line: str) -> tuple[str, bool]:
    """(option, whether the line is the first of an answer), ("", False) for other lines."""
    found = _FIRST.match(line)
    if found and found.lastgroup:
        return _STARTS[int(found.lastgroup[1:])][0], True
    found = _GOES_ON.match(line)
    if found and found.lastgroup:
        return _LATER[int(found.lastgroup[1:])][0], False
    return "", False


def from_text(text: str) -> dict[str, str]:
    """Raw keys and their texts that a paste holds, none if it holds no answer of hccn_tool and no hccn.conf.

    ``ask hccn`` among them names the devices and pings that the answers are about, so that the probe asks for these.
    """
    answers: list[_Answer] = []
    conf: list[str] = []
    asked: tuple[str, int | None] = ("", None)
    now: _Answer | None = None
    for _, line in parse.rows(text):
        if len(answers) > ANSWERS:
            break
        bare = line.lstrip("> ")
        command = _COMMAND.search(line)
        if command and "busy" not in line:
            option, device = _OPTION.search(command[1] + " "), _ID.search(command[1])
            asked = (option[1] if option else "", int(device[1]) if device else None)
            now = None
            continue
        if _CONF.match(bare):
            conf.append(bare)
            now = None
            continue
        now = _take(bare, now, asked, answers)
    return _keys(answers, conf)


def _take(line: str, now: _Answer | None, asked: tuple[str, int | None], answers: list[_Answer]) -> _Answer | None:
    """Put a line where it belongs; the answer that the next line may go on with."""
    option, first = _kind(line)
    named = _DEVICE.match(line)
    device = int(named[1]) if named else None
    if _IFNAME.match(line):
        # filtered to one line per device, or the second part of a whole announcement
        option, first = "lldp", not (now and now.option == "lldp" and not any("Ifname" in old for old in now.lines))
    if option:
        same = now is not None and now.option in (option, "hccs_ping" if option == "ping" else option)
        other = same and device is not None and now is not None and now.device not in (None, device)
        if now is None or first or not same or other:
            now = _open(option, device, asked, answers)
        elif device is not None and now.device is None:
            now.device = device
        now.lines.append(line)
        return now
    if parse.trouble(line) is not None:
        now = _open(asked[0] or (now.option if now else "link"), None, asked, answers)
        now.lines.append(line)
        return now
    if _TABLE.match(line):
        what = "link_stat" if "Link_Status" in line else "dev_info" if "UDie ID" in line else ""
        if what and (now is None or now.option != what or any("UDie" in old for old in now.lines)):
            now = _open(what, None, asked, answers)
        if now is not None and (what or now.form):
            now.form = "950"
            now.lines.append(line)
        return now
    if now is not None:
        # texts of an announcement and blank parts of a certificate belong to the answer they stand in
        now.lines.append(line)
    return now


def _open(option: str, device: int | None, asked: tuple[str, int | None], answers: list[_Answer]) -> _Answer:
    if option == "ping" and asked[0] == "hccs_ping":
        option = "hccs_ping"
    known = device if device is not None else asked[1] if asked[0] in ("", option) else None
    # the id of a command line counts for one answer; the next of the same kind is the next device of a loop
    if device is None and known is not None and any(a.option == option and a.device == known for a in answers):
        known = None
    answer = _Answer(option, known)
    answers.append(answer)
    return answer


def _keys(answers: Sequence[_Answer], conf: Sequence[str]) -> dict[str, str]:
    keys: dict[str, str] = {}
    devices: set[int] = set()
    pings: list[list[int | str]] = []
    taken: dict[str, set[int]] = {}
    form = "950" if any(answer.form == "950" for answer in answers) else ""
    for answer in answers:
        used = taken.setdefault(answer.option, set())
        device = answer.device
        if device is None:
            device = next(n for n in range(len(used) + 1) if n not in used)
        used.add(device)
        devices.add(device)
        body = "\n".join(answer.lines) + "\n"
        if answer.option in ("ping", "hccs_ping"):
            result = parse.parse_ping(body)
            if result is None or not result.address:
                continue
            option = "hccs_ping" if "packets loss" in body else answer.option
            pings.append([device, option, result.address])
            keys[run_key(("hccn_tool", "-i", str(device), f"-{option}", "-g", "address", result.address))] = body
        elif form:
            keys[run_key(("hccn_tool", "-g", f"-{answer.option}", "-i", str(device)))] = body
        else:
            keys[run_key(("hccn_tool", "-i", str(device), f"-{answer.option}", "-g"))] = body
    if conf:
        keys[CONF_KEY] = "\n".join(conf) + "\n"
    if devices:
        keys[GIVEN_KEY] = json.dumps({"devices": sorted(devices), "pings": pings, "form": form})
    return keys
