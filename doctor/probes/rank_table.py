"""The rank table: found, read, and brought from its six forms into one.

Forms: ``server_list`` tables of version 1.0 (HCCL, hccl_tools, mind-cluster, the one with ``server_ip``), of version
1.2 with ``super_pod_list`` (A3), the old ``group_list`` template, and ``rank_list`` of version 2.0 (950).

Source: hicann/hccl docs/zh/user_guide/cluster_info_config; mindspore-ai/models utils/hccl_tools; Ascend/mind-cluster
docs/en/scheduling/api/hccl.json_file_description.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from doctor.model import Evidence, Fact, Unknown
from doctor.probes.base import Probe
from doctor.probes.jsonlines import Flaw, Node, read

if TYPE_CHECKING:
    from doctor.hosts.base import Host

LIMIT = 4 << 20
"""bytes; a table of 4,096 ranks in its longest form has about 2 MB"""

MIND_CLUSTER = "/user/serverid/devindex/config/hccl.json"
VARIABLES = ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH")
_NUMBER = re.compile(r"\d{1,12}", re.ASCII)


class RankDevice(NamedTuple):
    """One rank's device. ``server`` indexes ``RankTable.servers``; "" and None: the member is absent or no number."""

    server: int
    device_id: int | None
    rank_id: int | None
    device_ip: str
    line: int
    lines: dict[str, int]
    super_device_id: str = ""
    device_port: int | None = None
    backup_device_ip: str = ""
    backup_device_port: int | None = None
    odd: dict[str, str] = {}
    """members that should be whole numbers and are not, as written"""
    numeric: tuple[str, ...] = ()
    """members written as JSON numbers where the form asks for strings"""


class RankServer(NamedTuple):
    """One server of the table; ``devices`` is how many ranks it has."""

    server_id: str
    devices: int
    line: int
    lines: dict[str, int]
    host_ip: str = ""
    host_port: int | None = None
    pod_ip: str = ""
    container_ip: str = ""
    hardware_type: str = ""
    odd: dict[str, str] = {}
    numeric: tuple[str, ...] = ()


class RankPod(NamedTuple):
    """One superpod and the ids of its servers."""

    super_pod_id: str
    servers: tuple[str, ...]
    line: int
    lines: dict[str, int]
    server_lines: tuple[int, ...] = ()


class RankTable(NamedTuple):
    """A rank table in its normal form. ``lines``: of the members at the top; ``gap`` stands between key and value."""

    source: str
    form: str
    """1.0 · 1.2 · template2 · 2.0"""
    version: str
    status: str
    counted: str
    """server_count, group_count or rank_count as written"""
    servers: tuple[RankServer, ...]
    devices: tuple[RankDevice, ...]
    pods: tuple[RankPod, ...]
    lines: dict[str, int]
    gap: str
    digest: str
    has_ranks: bool
    """False: the form has no rank_id, ranks follow the order"""
    broken: tuple[Flaw, ...] = ()
    """members of the wrong kind: kind is the path of the member"""


class RankFile(NamedTuple):
    """The file itself: where it was named, whether it could be read, what is wrong with its text."""

    path: str
    asked_by: str
    state: str
    """ok · missing · denied · failed"""
    flaws: tuple[Flaw, ...] = ()
    readable: bool = True
    """could the text be read as JSON, tolerantly"""
    error: str = ""
    others: tuple[tuple[str, str, str], ...] = ()
    """other tables that are named: (path, who names it, hash)"""


# --- text → normal form -----------------------------------------------------------------------------------------------


class _Members:
    """The scalar members of one object, with lines and oddities collected on the way."""

    def __init__(self, node: Node) -> None:
        self.members: dict[str, Node] = node.value if isinstance(node.value, dict) else {}
        self.line = node.line
        self.lines = {key: item.line for key, item in list(self.members.items())[:64]}
        self.odd: dict[str, str] = {}
        self.numeric: list[str] = []

    def text(self, key: str) -> str:
        value = self.members[key].value if key in self.members else None
        if isinstance(value, bool) or value is None or isinstance(value, (dict, list)):
            return ""
        if isinstance(value, (int, float)):
            self.numeric.append(key)
            return _digits(value)
        return str(value)[:256]

    def number(self, key: str) -> int | None:
        if key not in self.members:
            return None
        text = self.text(key).strip()
        if _NUMBER.fullmatch(text):
            return int(text)
        value = self.members[key].value
        self.odd[key] = text or ("null" if value is None else f"({type(value).__name__})" if value != "" else '""')
        return None


def _digits(value: int | float) -> str:
    """A number as text; a number of thousands of digits stays what it is: no id."""
    return str(value) if isinstance(value, float) or abs(value) < 10**20 else "(number)"


def _items(node: Node | None, path: str, broken: list[Flaw], needed: bool = True) -> list[Node]:
    """The objects of a list member; what is no list or no object is put down in ``broken``."""
    if node is None or not isinstance(node.value, list):
        if needed or node is not None:
            broken.append(Flaw(path, node.line if node else 0, "" if node is None else type(node.value).__name__))
        return []
    good = []
    for item in node.value:
        if isinstance(item.value, dict):
            good.append(item)
        elif len(broken) < 20:
            broken.append(Flaw(path, item.line, type(item.value).__name__))
    return good


def _device(node: Node, server: int) -> RankDevice:
    members = _Members(node)
    device_id, rank_id = members.number("device_id"), members.number("rank_id")
    return RankDevice(
        server,
        device_id,
        rank_id,
        members.text("device_ip").strip(),
        node.line,
        members.lines,
        members.text("super_device_id").strip(),
        members.number("device_port"),
        members.text("backup_device_ip").strip(),
        members.number("backup_device_port"),
        members.odd,
        tuple(members.numeric),
    )


def _server(node: Node, devices: int) -> RankServer:
    members = _Members(node)
    name = members.text("server_id") or members.text("server_ip")
    return RankServer(
        name,
        devices,
        node.line,
        members.lines,
        members.text("host_ip").strip(),
        members.number("host_port"),
        members.text("pod_ip").strip(),
        members.text("container_ip").strip(),
        members.text("hardware_type")[:64],
        members.odd,
        tuple(members.numeric),
    )


def _pods(node: Node | None, broken: list[Flaw]) -> tuple[RankPod, ...]:
    pods = []
    for item in _items(node, "super_pod_list", broken, needed=False):
        members = _Members(item)
        listed = [_Members(one) for one in _items(item.value.get("server_list"), "server_list", broken)]
        names = tuple(one.text("server_id") for one in listed)
        lines = tuple(one.lines.get("server_id", one.line) for one in listed)
        pods.append(RankPod(members.text("super_pod_id"), names, item.line, members.lines, lines))
    return tuple(pods)


def normal_form(root: Node, source: str = "", gap: str = ": ", digest: str = "") -> RankTable:
    """Bring the object of any form into one shape; members of the wrong kind are listed in ``broken``, never raised."""
    top = _Members(root)
    broken: list[Flaw] = []
    servers: list[RankServer] = []
    devices: list[RankDevice] = []
    pods: tuple[RankPod, ...] = ()
    version = top.text("version").strip()
    has_ranks = True
    if "rank_list" in top.members and "server_list" not in top.members:
        form, count = "2.0", top.text("rank_count")
        for item in _items(top.members["rank_list"], "rank_list", broken):
            devices.append(_device(item, 0))
        servers.append(RankServer("", len(devices), root.line, {}))
    elif "group_list" in top.members and "server_list" not in top.members:
        form, count, has_ranks = "template2", top.text("group_count"), False
        for group in _items(top.members["group_list"], "group_list", broken):
            for instance in _items(group.value.get("instance_list"), "instance_list", broken):
                found = _items(instance.value.get("devices"), "devices", broken)
                devices += [_device(item, len(servers)) for item in found]
                servers.append(_server(instance, len(found)))
    else:
        listed = _items(top.members.get("server_list"), "server_list", broken)
        pods = _pods(top.members.get("super_pod_list"), broken)
        form, count = "1.2" if version == "1.2" else "1.0", top.text("server_count")
        for item in listed:
            found = _items(item.value.get("device"), "device", broken)
            devices += [_device(one, len(servers)) for one in found]
            servers.append(_server(item, len(found)))
    return RankTable(
        source,
        form,
        version,
        top.text("status").strip(),
        count.strip(),
        tuple(servers),
        tuple(devices),
        pods,
        top.lines,
        gap,
        digest,
        has_ranks,
        tuple(broken[:20]),
    )


def parse(text: str, source: str = "") -> tuple[RankTable | None, tuple[Flaw, ...]]:
    """The table of a text, None where even a tolerant reading fails, and what a strict reader refuses."""
    document = read(text)
    if document.root is None or not isinstance(document.root.value, dict):
        return None, document.flaws
    return normal_form(document.root, source, document.gap, digest_of(text)), document.flaws


def digest_of(text: str) -> str:
    """The first 16 digits of what ``sha256sum`` prints for a file of this text."""
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# --- where it is ------------------------------------------------------------------------------------------------------


def _asked(host: Host) -> str:
    import json

    raw = host.ask("rank_table_path")
    if raw.state != "ok":
        return ""
    try:
        value = json.loads(raw.out)
    except (ValueError, RecursionError):
        value = raw.out.strip()
    if isinstance(value, dict):
        value = value.get("path")
    return value if isinstance(value, str) else ""


def find(host: Host, facts: Mapping[str, Fact | Unknown]) -> list[tuple[str, str]]:
    """(path, who names it) of every table, the one to judge first: an explicit path, the launch command, variables."""
    found = [(_asked(host), "given")]
    launch = facts.get("launch.settings")
    if isinstance(launch, Fact):
        options, environment = launch.value["options"], launch.value["env"]
        if "rank_table_file" in options:
            found.append((options["rank_table_file"].value, "--rank_table_file"))
        found += [(environment[name].value.strip(), name) for name in VARIABLES if name in environment]
    first: dict[str, str] = {}
    for path, by in found:
        if path and path not in first:
            first[path] = by
    return list(first.items())


_REASONS = {"not_recorded": "not_recorded", "timeout": "timeout", "killed": "crashed", "refused": "denied"}


def read_rank_table(host: Host, facts: Mapping[str, Fact | Unknown]) -> list[Fact | Unknown]:
    """Facts ``hccl.rank_table_file`` (the file) and ``hccl.rank_table`` (its content in the normal form)."""
    file, table = "hccl.rank_table_file", "hccl.rank_table"
    named = find(host, facts)
    if not named:
        raw = host.read(MIND_CLUSTER, LIMIT)
        if raw.state != "ok":
            none: Fact | Unknown = Unknown(file, "no_rank_table", "name_rank_table", applies=False)
            return [none, Unknown(table, "no_rank_table", "name_rank_table", applies=False)]
        path, by = MIND_CLUSTER, "mind-cluster"
    else:
        path, by = named[0]
        raw = host.read(path, LIMIT)
    if raw.state in _REASONS:
        why = _REASONS[raw.state]
        return [Unknown(name, why, args={"path": path, "what": path}) for name in (file, table)]
    if raw.state != "ok":
        state = raw.state if raw.state in ("missing", "denied") else "failed"
        seen = Evidence(by, 0, f"{by}={path}" if by != "given" else path)
        return [
            Fact(file, RankFile(path, by, state, (), False, raw.err.strip()[:200]), seen),
            Unknown(table, "no_file" if state == "missing" else "denied", args={"path": path, "what": path}),
        ]
    if raw.cut or len(raw.out) > LIMIT:
        return [Unknown(name, "too_large", args={"path": path, "limit": LIMIT >> 20}) for name in (file, table)]
    found, flaws = parse(raw.out, path)
    whole = Evidence(path, 0, path)
    others = tuple((p, who, digest_of(r.out)) for p, who in named[1:4] if (r := host.read(p, LIMIT)).state == "ok")
    seen_file = RankFile(path, by, "ok", flaws, found is not None, "", others)
    facts_out: list[Fact | Unknown] = [Fact(file, seen_file, whole)]
    if found is None:
        facts_out.append(Unknown(table, "not_json", "repair_json", args={"path": path, "what": path}))
    else:
        facts_out.append(Fact(table, found, whole))
    return facts_out


PROBES = (
    Probe(
        "hccl.rank_table",
        "hccl",
        read_rank_table,
        gives=("hccl.rank_table_file", "hccl.rank_table"),
        needs=("launch.settings",),
    ),
)
