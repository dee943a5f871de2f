"""The variables of HCCL and of CANN's log: what is set, next to the table of what may be set; and the whitelist file.

The table is ``rules/hccl_env.yaml``. Source: hicann/hccl docs/zh/user_guide/hccl_env.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.model import Evidence, Fact, Unknown
from doctor.probes.base import Probe
from doctor.probes.jsonlines import Flaw, Node, read
from doctor.probes.launch import ENVIRONMENT, environment_of
from doctor.probes.shell import is_open

if TYPE_CHECKING:
    from doctor.hosts.base import Host

PREFIX = "HCCL_"


class Variable(NamedTuple):
    """A variable that is set: by the environment (line 0) or by a line of a launch text.

    ``spec`` is its row of the table, None for a name that the table does not have.
    """

    name: str
    value: str
    source: str
    line: int
    text: str
    spec: dict[str, Any] | None


class Whitelist(NamedTuple):
    """The whitelist file. ``state``: ok · missing · denied · failed; lines of its members by key."""

    path: str
    state: str
    flaws: tuple[Flaw, ...] = ()
    keys: tuple[str, ...] = ()
    host_ip: tuple[str, ...] | None = None
    device_ip: tuple[str, ...] = ()
    lines: dict[str, int] = {}


@lru_cache(maxsize=1)
def table() -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """(row by name, every name that exists). A damaged table is a mistake of the project and raises."""
    import yaml

    from doctor.rulebase import rules_folder

    with open(os.path.join(rules_folder(), "hccl_env.yaml"), encoding="utf-8") as file:
        document = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one
    rows = {row["name"]: row for row in document["variables"]}
    return rows, (*rows, *document["known"])


def collect(environment: Mapping[str, str], assigned: list[tuple[str, Any]]) -> dict[str, Any]:
    """{"set": {name: Variable}, "names": [every name that exists]}.

    ``assigned`` are the assignments of a launch text in order; the last one that can be told counts.
    """
    rows, names = table()
    found: dict[str, Variable] = {}
    for name, value in environment.items():
        if name in rows or name.startswith(PREFIX):
            found[name] = Variable(name, value[:4096], ENVIRONMENT, 0, f"{name}={value}"[:400], rows.get(name))
    for name, setting in assigned:
        if (name in rows or name.startswith(PREFIX)) and not is_open(setting.value):
            value = setting.value[:4096]
            found[name] = Variable(name, value, setting.source, setting.line, setting.text, rows.get(name))
    return {
        "set": found,
        "names": list(names),
        "defaults": {n: str(row.get("default", "-")) for n, row in rows.items()},
    }


def read_hccl_env(host: Host, facts: Mapping[str, Fact | Unknown]) -> list[Fact | Unknown]:
    """Facts ``hccl.env`` (see :func:`collect`) and ``hccl.whitelist``."""
    launch = facts.get("launch.settings")
    assigned = launch.value["assigned"] if isinstance(launch, Fact) else []
    environment = environment_of(host, facts)
    if isinstance(environment, Unknown):
        if not assigned:
            why, args = environment.why, environment.args
            return [Unknown(name, why, "give_launch", args) for name in ("hccl.env", "hccl.whitelist")]
        environment = {}
    value = collect(environment, assigned)
    return [Fact("hccl.env", value), _whitelist(host, value["set"].get("HCCL_WHITELIST_FILE"))]


def _whitelist(host: Host, named: Variable | None) -> Fact | Unknown:
    name = "hccl.whitelist"
    if named is None or not named.value.strip():
        return Unknown(
            name, "not_set", args={"name": "HCCL_WHITELIST_FILE", "what": "HCCL_WHITELIST_FILE"}, applies=False
        )
    path = named.value.strip()
    raw = host.read(path)
    if raw.state in ("not_recorded", "timeout"):
        return Unknown(name, raw.state, args={"path": path, "what": path})
    if raw.state != "ok":
        state = raw.state if raw.state in ("missing", "denied") else "failed"
        return Fact(name, Whitelist(path, state), Evidence(named.source, named.line, named.text))
    return Fact(name, parse_whitelist(raw.out, path), Evidence(path, 0, path))


def parse_whitelist(text: str, path: str = "") -> Whitelist:
    """The whitelist of a text; ``host_ip`` is None where the file has no such list."""
    document = read(text)
    root = document.root.value if document.root is not None else None
    if not isinstance(root, dict):
        return Whitelist(path, "ok", document.flaws)
    lines = {key: node.line for key, node in root.items()}

    def addresses(key: str) -> tuple[str, ...] | None:
        node: Node | None = root.get(key)
        if node is None or not isinstance(node.value, list):
            return None
        return tuple(str(item.value)[:64] for item in node.value[:4096] if not isinstance(item.value, (dict, list)))

    keys = tuple(list(root)[:32])
    return Whitelist(path, "ok", document.flaws, keys, addresses("host_ip"), addresses("device_ip") or (), lines)


PROBES = (
    Probe(
        "hccl.env", "hccl", read_hccl_env, gives=("hccl.env", "hccl.whitelist"), needs=("host.env", "launch.settings")
    ),
)
