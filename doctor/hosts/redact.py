"""A recording that may leave the machine: secrets gone, names and addresses replaced consistently.

Consistently means that the same name gives the same stand-in everywhere, and that two addresses of one network stay in
one network: whether a gateway lies inside its subnet, whether two devices share an address, whether the scheduler is
this host can all still be judged.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from doctor.hosts.base import data_of
from doctor.model import Raw
from doctor.render.safe import redact as without_secrets

_IP4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)")
_IP6 = re.compile(
    r"(?<![\w:.])(?:[0-9a-fA-F]{1,4}:){2,7}(?::?[0-9a-fA-F]{1,4}){1,7}(?![\w:])|(?<![\w:.])[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,5}::(?:[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{1,4}){0,5})?(?![\w:])"
)
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![\w:-])")
_SERIAL = re.compile(
    r"(?im)^(\s*(?:product )?serial (?:number|no\.?)\s*:\s*|\s*(?:vendor |optical )?(?:sn|serialnumber)\s*:\s*)"
    r"(\S[^\r\n]{0,80})"
)
_DIE = re.compile(r"(?im)^(\s*(?:ndie|vdie|die) id\s*:\s*)(\S[^\r\n]{0,120})")
_HOME = re.compile(r"/home/([\w.-]{1,64})")
_VERSION_LINE = re.compile(r"(?i)version|firmware|package|release")
_KEPT_USERS = frozenset(
    (
        "root",
        "HwHiAiUser",
        "HwDmUser",
        "HwBaseUser",
        "nobody",
        "daemon",
        "bin",
        "sys",
        "user",
        "users",
        "admin",
        "ubuntu",
        "python",
        "mindspore",
        "ascend",
    )
)
"""Accounts of the system and of the driver: they identify nobody, and rules look for them."""


_PATH_WORDS = frozenset((
    "bin", "boot", "cann", "data", "dev", "driver", "etc", "hccl", "home", "host", "info", "kernel", "lib", "lib64",
    "local", "log", "media", "mnt", "model", "models", "node", "npu", "opt", "proc", "run", "sbin", "share", "srv",
    "sys", "test", "tmp", "tools", "train", "usr", "var", "work", "workspace",
))  # fmt: skip
"""Words of paths and outputs. An account or a host of such a name is replaced only where it can be nothing else: below
/home and as a whole JSON value."""


class Names:
    """The stand-ins of one recording."""

    def __init__(self, hosts: Iterable[str], users: Iterable[str], addresses: Iterable[str]) -> None:
        self.words: dict[str, str] = {}
        for n, host in enumerate(dict.fromkeys(hosts), 1):
            self.words.setdefault(host, f"host{n}")
        kept = {k.lower() for k in _KEPT_USERS}
        for n, user in enumerate((u for u in dict.fromkeys(users) if u.lower() not in kept and len(u) > 1), 1):
            self.words.setdefault(user, f"user{n}")
        self.addresses = _stand_ins(addresses)
        long_first = sorted(self.words, key=len, reverse=True)
        anywhere = [re.escape(word) for word in long_first if word.lower() not in _PATH_WORDS]
        here = [re.escape(word) for word in long_first if word.lower() in _PATH_WORDS]
        forms = [r"(?<![\w])(?:" + "|".join(anywhere) + r")(?![\w])"] if anywhere else []
        if here:
            either = "|".join(here)
            forms += [rf"(?<=/home/)(?:{either})(?![\w.-])", rf'(?<=")(?:{either})(?=")']
        self._pattern = re.compile("|".join(forms)) if forms else None
        self._macs: dict[str, str] = {}
        self._six: dict[str, str] = {}

    def clean(self, text: str) -> str:
        """A text with stand-ins for names and addresses, and without secrets and serial numbers."""
        text = without_secrets(text)
        text = _SERIAL.sub(lambda m: m[1] + "***", text)
        text = _DIE.sub(lambda m: m[1] + "***", text)
        text = _MAC.sub(self._mac, text)
        text = "\n".join(line if _is_version(line) else self._line(line) for line in text.split("\n"))
        return self._pattern.sub(lambda m: self.words[m[0]], text) if self._pattern else text

    def _line(self, line: str) -> str:
        if "." in line:
            line = _IP4.sub(lambda m: self.addresses.get(m[0], m[0]), line)
        return _IP6.sub(self._six_of, line) if line.count(":") > 1 else line

    def _mac(self, found: re.Match[str]) -> str:
        n = len(self._macs) + 1
        return self._macs.setdefault(found[0].lower(), f"02:00:00:00:{n >> 8 & 255:02x}:{n & 255:02x}")

    def _six_of(self, found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv6Address(found[0])
        except ValueError:
            return found[0]  # a time or a PCI address
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return found[0]
        return self._six.setdefault(str(address), f"fd00::{len(self._six) + 1:x}")


def _is_version(line: str) -> bool:
    """Whether numbers with three points are versions here: firmware has such ones."""
    return bool(_VERSION_LINE.search(line))


def _stand_ins(addresses: Iterable[str]) -> dict[str, str]:
    """IPv4 addresses moved into 10.0.0.0/8. The last part is kept, the network before it numbered in its order, so that
    networks of /16, /24 and smaller keep their members. Masks, loopback and unset addresses stay."""
    real = []
    for text in dict.fromkeys(addresses):
        try:
            address = ipaddress.IPv4Address(text)
        except ValueError:
            continue
        number = int(address)
        mask = (~number & 0xFFFFFFFF) & ((~number & 0xFFFFFFFF) + 1) == 0
        if not (address.is_loopback or address.is_unspecified or address.is_multicast or (mask and number >> 31)):
            real.append((number, text))
    real.sort()
    wide: dict[int, int] = {}
    narrow: dict[int, dict[int, int]] = {}
    out = {}
    for number, text in real:
        a = wide.setdefault(number >> 16, len(wide))
        inside = narrow.setdefault(number >> 16, {})
        b = inside.setdefault(number >> 8, len(inside))
        out[text] = f"10.{a & 255}.{b & 255}.{number & 255}"
    return out


def recording(raws: Mapping[str, Raw], name: str) -> tuple[dict[str, Raw], str]:
    """The answers of a host made fit to leave it, and the stand-in of its name."""
    system = _dict(raws, "system")
    hosts = [h for h in (name, str(system.get("hostname") or "")) if h and not _IP4.fullmatch(h)]
    hosts += [h.partition(".")[0] for h in list(hosts) if "." in h]
    env = _dict(raws, "env")
    scheduler = str(env.get("MS_SCHED_HOST") or "")
    if scheduler and not _IP4.fullmatch(scheduler) and scheduler != "localhost":
        hosts.append(scheduler)
    user = _dict(raws, "user")
    users = [str(user.get("user") or ""), str(system.get("user") or ""), str(env.get("USER") or "")]
    addresses: list[str] = []
    for raw in raws.values():
        users += _HOME.findall(raw.text)
        for line in raw.text.split("\n"):
            if "." in line and not _is_version(line):
                addresses += _IP4.findall(line)
    names = Names([h for h in hosts if h != "localhost"], [u for u in users if u], addresses)
    out = {}
    for key, raw in raws.items():
        clean_key = names.clean(key)
        out[clean_key] = raw._replace(key=clean_key, out=names.clean(raw.out), err=names.clean(raw.err))
    return out, names.words.get(name, "host")


def _dict(raws: Mapping[str, Raw], what: str) -> dict[str, Any]:
    raw = raws.get(f"ask {what}")
    found = data_of(raw) if raw is not None else None
    return found if isinstance(found, dict) else {}


__all__ = ["Names", "recording"]
