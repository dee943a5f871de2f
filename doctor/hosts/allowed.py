"""The only commands the doctor ever starts: read-only ones, each with the forms it may take.

Everything else is refused before it is looked for. ``npu-smi set``, ``hccn_tool … -s`` and their like change the
machine and are only ever printed as advice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"\d{1,5}")
_BUS = re.compile(r"[0-9a-fA-F:.]{1,16}")
_ADDRESS = re.compile(r"[0-9a-fA-F:.]{2,45}")

NPU_SMI_TYPES = frozenset((
    "board", "common", "current-fault-event", "ecc", "hccs", "hccs-bw", "health", "memory", "pcie-err", "phyid-remap",
    "power", "proc-mem", "product", "spod-info", "temp", "topo", "usages",
))  # fmt: skip
HCCN_READS = frozenset((
    "bandwidth", "cfg", "dev_info", "duplex", "fec", "gateway", "hw_stats", "ip", "link", "link_stat", "lldp", "mtu",
    "net_health", "netdetect", "optical", "process", "route", "speed", "stat", "status", "tls", "vnic",
))  # fmt: skip


def _npu_smi(args: Sequence[str]) -> bool:
    if list(args) in (["-v"], ["info"], ["info", "-l"], ["info", "-m"]):
        return True
    if list(args[:2]) != ["info", "-t"] or len(args) < 3 or args[2] not in NPU_SMI_TYPES:
        return False
    rest = list(args[3:])
    return len(rest) % 2 == 0 and all(
        option in ("-i", "-c", "-p") and _NUMBER.fullmatch(value)
        for option, value in zip(rest[::2], rest[1::2], strict=True)
    )


def _hccn_tool(args: Sequence[str]) -> bool:
    words = list(args)
    if len(words) >= 4 and words[0] == "-i" and _NUMBER.fullmatch(words[1]) and words[3] == "-g":
        what = words[2].removeprefix("-")
        if what in ("ping", "hccs_ping"):
            return len(words) == 6 and words[4] == "address" and bool(_ADDRESS.fullmatch(words[5]))
        return words[2].startswith("-") and what in HCCN_READS and len(words) == 4
    # the form of the 950: -g -<what> -i N [-u udie -p port]
    if len(words) >= 4 and words[0] == "-g" and words[1].removeprefix("-") in HCCN_READS and words[2] == "-i":
        rest = words[4:]
        return bool(_NUMBER.fullmatch(words[3])) and len(rest) % 2 == 0 and all(
            option in ("-u", "-p") and _NUMBER.fullmatch(value)
            for option, value in zip(rest[::2], rest[1::2], strict=True)
        )  # fmt: skip
    return False


def _exactly(*forms: str) -> Callable[[Sequence[str]], bool]:
    allowed = [form.split() for form in forms]
    return lambda args: list(args) in allowed


def _lspci(args: Sequence[str]) -> bool:
    words = list(args)
    if words[:1] == ["-s"]:
        return len(words) == 3 and bool(_BUS.fullmatch(words[1])) and words[2] == "-vvv"
    return words in (["-D", "-n", "-d", "19e5:"], ["-d", "19e5:"], [], ["-n"])


class Tool(NamedTuple):
    """``places``: where to look besides PATH; ``takes``: whether it may be called with these arguments."""

    takes: Callable[[Sequence[str]], bool]
    places: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    """variables that the tool must not see"""


_DRIVER = "/usr/local/Ascend/driver/tools"

TOOLS: dict[str, Tool] = {
    "npu-smi": Tool(_npu_smi, ("/usr/local/sbin/npu-smi", "/usr/local/bin/npu-smi")),
    # the tool counts physical ids and must not see a selection (hiascend, envref_07_0028)
    "hccn_tool": Tool(_hccn_tool, (f"{_DRIVER}/hccn_tool",), ("ASCEND_RT_VISIBLE_DEVICES",)),
    "lspci": Tool(_lspci, ("/usr/bin/lspci", "/usr/sbin/lspci", "/sbin/lspci")),
    "lsmod": Tool(_exactly(""), ("/usr/sbin/lsmod", "/sbin/lsmod")),
    "dmesg": Tool(
        _exactly("", "-T", "--time-format iso", "-T --level=emerg,alert,crit,err,warn,notice"),
        ("/usr/bin/dmesg", "/bin/dmesg"),
    ),
    "timedatectl": Tool(_exactly("show", "status", "")),
    "chronyc": Tool(_exactly("tracking", "-n tracking")),
    "ntpq": Tool(_exactly("-pn")),
    "lscpu": Tool(_exactly("", "-J")),
    "gcc": Tool(_exactly("-dumpfullversion", "-dumpversion", "--version")),
    "ldconfig": Tool(_exactly("-p"), ("/usr/sbin/ldconfig", "/sbin/ldconfig")),
}


def allowed(argv: Sequence[str]) -> bool:
    """Whether a command is one of the read-only ones, in one of its read-only forms."""
    return bool(argv) and argv[0] in TOOLS and TOOLS[argv[0]].takes(argv[1:])
