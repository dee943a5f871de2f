"""A recording that may leave the machine: secrets gone, names and addresses replaced consistently.

Consistently means that the same name gives the same stand-in everywhere, and that two addresses of one network stay in
one network: whether a gateway lies inside its subnet, whether two devices share an address, whether the scheduler is
this host can all still be judged.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
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
_MAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?!\d{1,3}\.\d)[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,6}")
_LOGIN = re.compile(r"(://)[^/\s:@\"']{1,100}:\*\*\*@|\b((?:user)?name=)[^\s,;\"']{1,100}")
_CERT = re.compile(r"(?m)^(\s*(?:subject|issuer)\[)[^\n]{1,400}?(\]\s*)$")
_SWITCH = re.compile(r"(?m)^(System Name TLV\r?\n\s{0,40})(\S[^\r\n]{0,200})")
_DOMAIN = re.compile(
    r"(?<![\w.@-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}(?:com|net|org|cn|edu|gov|local|internal|lan|corp|intranet)"
    r"(?![\w-]|\.\w)"
)
_PUBLIC = (
    ".huawei.com", ".huaweicloud.com", ".hiascend.com", ".mindspore.cn", ".gitee.com", ".gitcode.com", ".github.com",
    ".pypi.org", ".python.org", ".pythonhosted.org", ".tsinghua.edu.cn", ".aliyun.com", ".kernel.org", ".debian.org",
    ".ubuntu.com", ".docker.com", ".example.com", ".example.org", ".example.net",
)  # fmt: skip
"""Names that everybody knows and that say nothing of this machine."""
_COMMON_NAMES = re.compile(
    r"(?i)localhost.*|ip6-.*|broadcasthost|host\.docker\.internal|kubernetes.*"
    r"|(?:br|bond|davinci|device|docker|en[opsx]|eth|lo|npu|python|rank|veth|worker)[\d.-]*|\d+"
)
"""Names in a hosts file that are no host's own, or that other outputs use for something else."""
_KEPT_GROUPS = frozenset((
    "adm", "audio", "cdrom", "dialout", "dip", "disk", "docker", "games", "input", "kvm", "lxd", "netdev", "plugdev",
    "render", "staff", "sudo", "systemd-journal", "tty", "video", "wheel",
))  # fmt: skip
_ENTRY = re.compile(r'(?<=[,{\[])(?=\s?")|(?<=\\n)')
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

    def __init__(
        self, hosts: Iterable[str], users: Iterable[str], addresses: Iterable[str], groups: Iterable[str] = ()
    ) -> None:
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
        self._groups = {
            name: self.words.get(name, f"group{n}")
            for n, name in enumerate(dict.fromkeys(groups), 1)
            if name.lower() not in kept | _KEPT_GROUPS
        }
        quoted = "|".join(re.escape(name) for name in sorted(self._groups, key=len, reverse=True))
        self._quoted = re.compile(rf'(?<=")(?:{quoted})(?=")') if quoted else None
        self._switches: dict[str, str] = {}
        self._domains: dict[str, str] = {}
        self._macs: dict[str, str] = {}
        self._six: dict[str, str] = {}

    def clean(self, text: str) -> str:
        """A text with stand-ins for names and addresses, and without secrets and serial numbers."""
        text = without_secrets(text)
        text = _SERIAL.sub(lambda m: m[1] + "***", text)
        text = _DIE.sub(lambda m: m[1] + "***", text)
        text = _MAC.sub(self._mac, text)
        text = _LOGIN.sub(lambda m: f"{m[1]}***:***@" if m[1] else m[2] + "***", text)
        if "@" in text:
            text = _MAIL.sub("***@***", text)
        if "[" in text:
            text = _CERT.sub(r"\1***\2", text)
        if "TLV" in text:
            text = _SWITCH.sub(lambda m: m[1] + self._switch(m[2].rstrip()), text)
        text = "".join(part if _is_version(part) else self._line(part) for part in _parts(text))
        if self._pattern:
            text = self._pattern.sub(lambda m: self.words[m[0]], text)
        if self._quoted:
            text = self._quoted.sub(lambda m: self._groups[m[0]], text)
        return _DOMAIN.sub(self._domain, text) if "." in text else text

    def _switch(self, name: str) -> str:
        return self._switches.setdefault(name, f"switch{len(self._switches) + 1}")

    def _domain(self, found: re.Match[str]) -> str:
        low = found[0].lower()
        if f".{low}".endswith(_PUBLIC):
            return found[0]
        return self._domains.setdefault(low, f"name{len(self._domains) + 1}.example.net")

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


def _parts(text: str) -> Iterator[str]:
    """A text in pieces that each are a version or are none: its lines, of JSON its entries and the lines of a text."""
    for line in text.splitlines(keepends=True):
        if line.lstrip()[:1] not in ("{", "[", '"'):
            yield line
            continue
        yield from _ENTRY.split(line)


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


_PATH = re.compile(r"(?<![\w.:/~])/[\w.+@-]{1,255}(?:/[\w.+@-]{1,255}){1,40}/?")
_KNOWN_ROOTS = re.compile(r"/(?:usr|opt|etc|proc|dev|sys|lib\w*|bin|var/log|tmp|home/user)/")
_NAMED_HOST = re.compile(r"(?i)(?P<keep>\b(?:host ?name|host|node ?name|server)\b[\"']?\s{0,2}[:=\[(]\s{0,2}[\"']?)"
                         r"(?P<name>[A-Za-z][\w-]{2,62})")  # fmt: skip


def example_line(line: str, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> str:
    """A log line as it may stand in an example of a rule: addresses of the ranges kept for documentation (RFC 5737, RFC
    3849, RFC 7042), no accounts, hosts or secrets, and of paths outside the system their last part only. Times stay.

    >>> example_line("cannot open /data/lee/run7/train.py on 172.16.8.3")
    'cannot open /path/to/train.py on 192.0.2.1'
    """
    seen: dict[str, str] = {}

    def numbered(prefix: str, text: str) -> str:
        count = sum(stand_in.startswith(prefix) for stand_in in seen.values())
        return seen.setdefault(text, f"{prefix}{count % 254 + 1}")

    def four(found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv4Address(found[0])
        except ValueError:
            return found[0]
        kept = address.is_loopback or address.is_unspecified or found[0].startswith(("255.", "192.0.2."))
        return found[0] if kept else numbered("192.0.2.", found[0])

    def six(found: re.Match[str]) -> str:
        try:
            address = ipaddress.IPv6Address(found[0])
        except ValueError:
            return found[0]  # a time
        # a::b is more often a name in C++ than an address
        return found[0] if found[0].count(":") < 3 or address.is_loopback else numbered("2001:db8::", found[0])

    def path(found: re.Match[str]) -> str:
        if _KNOWN_ROOTS.match(found[0]):
            return found[0]
        return "/path/to/" + found[0].rstrip("/").rpartition("/")[2]

    line = _MAC.sub(lambda m: numbered("00:00:5e:00:53:0", m[0]), without_secrets(line))
    line = _MAIL.sub("user@example.com", _IP4.sub(four, _IP6.sub(six, line)))
    line = _NAMED_HOST.sub(lambda m: m["keep"] + ("host1" if m["name"].lower() != "localhost" else m["name"]), line)
    names = Names(hosts, users, ())
    if names._pattern:
        line = names._pattern.sub(lambda m: names.words[m[0]], line)
    line = _DOMAIN.sub(names._domain, line) if "." in line else line
    return _PATH.sub(path, _HOME.sub("/home/user", line))


def recording(raws: Mapping[str, Raw], name: str) -> tuple[dict[str, Raw], str]:
    """The answers of a host made fit to leave it, and the stand-in of its name."""
    system = _dict(raws, "system")
    hosts = [h for h in (name, str(system.get("hostname") or "")) if h and not _IP4.fullmatch(h)]
    hosts += [h.partition(".")[0] for h in list(hosts) if "." in h]
    env = _dict(raws, "env")
    named = [str(env.get(name) or "") for name in ("MS_SCHED_HOST", "MASTER_ADDR", "CM_CHIEF_IP")]
    named += _others(_dict(raws, "net"))
    hosts += [n for n in named if n and ":" not in n and not _IP4.fullmatch(n) and not _COMMON_NAMES.fullmatch(n)]
    user = _dict(raws, "user")
    users = [str(user.get("user") or ""), str(system.get("user") or ""), str(env.get("USER") or "")]
    addresses: list[str] = []
    for raw in raws.values():
        users += _HOME.findall(raw.text)
        for part in _parts(raw.text):
            if "." in part and not _is_version(part):
                addresses += _IP4.findall(part)
    groups = [str(g) for g in user.get("groups") or () if isinstance(g, str) and len(g) > 1]
    names = Names([h for h in hosts if h != "localhost"], [u for u in users if u], addresses, groups)
    out = {}
    for key, raw in raws.items():
        clean_key = names.clean(key)
        out[clean_key] = raw._replace(key=clean_key, out=names.clean(raw.out), err=names.clean(raw.err))
    return out, names.words.get(name, "host")


def _others(net: Mapping[str, Any]) -> list[str]:
    """Names of other machines: those of the hosts file and those that were looked up. A plain word without a digit, a
    hyphen or a point (``gateway``) may mean anything elsewhere and is left to stand."""
    lines = net.get("hosts") if isinstance(net.get("hosts"), list) else []
    found = [name for line in lines or () for name in str(line).split("#")[0].split()[1:]]
    for key in ("resolves", "unresolved"):
        part = net.get(key)
        found += [str(name) for name in part] if isinstance(part, Mapping) else []
    interfaces = net.get("interfaces")
    own = set(interfaces) if isinstance(interfaces, Mapping) else set()
    return [n for n in found if n not in own and len(n) < 254 and re.search(r"[\d.-]", n)]


def _dict(raws: Mapping[str, Raw], what: str) -> dict[str, Any]:
    raw = raws.get(f"ask {what}")
    found = data_of(raw) if raw is not None else None
    return found if isinstance(found, dict) else {}


__all__ = ["Names", "recording"]
