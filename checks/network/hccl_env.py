"""Variables of HCCL: ranges, pairs, addresses of this host, ports, the whitelist (HCCL551 to 564).

A value is judged by the row of the table that comes with it; what the row allows is never reported. Source:
hicann/hccl docs/zh/user_guide/hccl_env, one page per variable.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from doctor.checks.network.chips import address, family, no_npu, own_addresses
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

Maybe = Fact | Unknown | None

_INT = re.compile(r"\d{1,12}", re.ASCII)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?", re.ASCII)
_PORT = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)
_PREFIX = re.compile(r"\^?=?")
_OPS = frozenset(("allgather", "reducescatter", "allreduce", "broadcast", "reduce", "scatter", "alltoall"))
_ALGOS = {
    "level0": frozenset(("na",)),
    "level1": frozenset(("na", "ring", "h-d_r", "nhr", "nhr_v1", "nb", "ahc", "pipeline", "pairwise")),
    "level2": frozenset(("na", "ring", "h-d_r", "nhr", "nhr_v1", "nb", "ahc", "pipeline")),
}
_PARAMS = {"maxcnt": (1, 10), "holdtime": (0, 60000), "intervaltime": (0, 60000)}
_SWITCHES = {
    "cluster_heartbeat": ("on", "off"),
    "stuck_detection": ("on", "off"),
    "task_exception": ("on", "off"),
    "inconsistent_check": ("on", "first", "off"),
}


def seen(variable: Any) -> Evidence:
    """A variable as evidence: the line of the launch text, or of the environment."""
    return Evidence(variable.source, variable.line, variable.text)


def of(env: Maybe, name: str) -> str:
    """The value of a variable, "" where it is not set."""
    return str(env.value["set"][name].value).strip() if isinstance(env, Fact) and name in env.value["set"] else ""


# --- is a value valid? ------------------------------------------------------------------------------------------------


def _int(spec: dict[str, Any], value: str) -> bool:
    if not _INT.fullmatch(value):
        return False
    number = int(value)
    return bool(spec.get("min", 0) <= number <= spec.get("max", number)) and number % spec.get("multiple", 1) == 0


def _number(spec: dict[str, Any], value: str) -> bool:
    return bool(_NUMBER.fullmatch(value)) and spec.get("min", 0) <= float(value) <= spec.get("max", float("inf"))


def _choice(spec: dict[str, Any], value: str) -> bool:
    values = [str(one) for one in spec["values"]]
    return value.lower() in [one.lower() for one in values] if spec.get("nocase") else value in values


def _ports(spec: dict[str, Any], value: str) -> bool:
    if value == "auto":
        return True
    spans = []
    for part in value.split(","):
        match = _PORT.fullmatch(part.strip())
        if match is None:
            return False
        low = int(match[1])
        high = int(match[2] or low)
        if not 1 <= low <= high <= 65535:
            return False
        spans.append((low, high))
    spans.sort()
    return all(before[1] < after[0] for before, after in pairwise(spans))


def _ifname(spec: dict[str, Any], value: str) -> bool:
    names = value[len(_PREFIX.match(value).group()) :].split(",")  # type: ignore[union-attr]
    return all(name and not re.search(r"[\s;/]", name) for name in names)


def _levels_of_algo(text: str) -> bool:
    levels = [part for part in text.split(";") if part]
    for part in levels:
        level, colon, algo = part.partition(":")
        if not colon or algo.strip().lower() not in _ALGOS.get(level.strip().lower(), ()):
            return False
    return bool(levels)


def _algo(spec: dict[str, Any], value: str) -> bool:
    if "=" not in value:
        return _levels_of_algo(value)
    for part in value.split("/"):
        op, equals, levels = part.partition("=")
        if not equals or op.strip().lower() not in _OPS or not _levels_of_algo(levels):
            return False
    return True


def _pairs(value: str) -> list[tuple[str, str]] | None:
    pairs = []
    for part in value.split(","):
        name, colon, text = part.partition(":")
        if not colon:
            return None
        pairs.append((name.strip().lower(), text.strip()))
    return pairs


def _levels(spec: dict[str, Any], value: str) -> bool:
    pairs = _pairs(value)
    return bool(pairs) and all(name in ("l0", "l1", "l2") and text in ("0", "1") for name, text in pairs or ())


def _params(spec: dict[str, Any], value: str) -> bool:
    for name, text in _pairs(value) or [("", "")]:
        low, high = _PARAMS.get(name, (1, 0))
        if not _INT.fullmatch(text) or not low <= int(text) <= high:
            return False
    return True


def _dfs(spec: dict[str, Any], value: str) -> bool:
    for name, text in _pairs(value) or [("", "")]:
        if name in _SWITCHES:
            if text.lower() not in _SWITCHES[name]:
                return False
            continue
        if not _INT.fullmatch(text):
            return False
        number = int(text)
        fault_time = name == "connection_fault_detection_time" and (number == 0 or 20 <= number <= 7200)
        if not fault_time and not (name == "task_monitor_interval" and number <= 7_200_000):
            return False
    return True


def _modules(spec: dict[str, Any], value: str) -> bool:
    names = value.removeprefix("^").split(",")
    return all(name.lower() in ("alg", "task", "resource") for name in names)


_KINDS: dict[str, Callable[[dict[str, Any], str], bool]] = {
    "int": _int,
    "number": _number,
    "flag": lambda spec, value: value in ("0", "1"),
    "choice": _choice,
    "ip": lambda spec, value: address(value) is not None,
    "ifname": _ifname,
    "ports": _ports,
    "algo": _algo,
    "levels": _levels,
    "params": _params,
    "modules": _modules,
    "dfs": _dfs,
    "text": lambda spec, value: len(value) <= spec.get("max", len(value)),
    "path": lambda spec, value: True,
    "any": lambda spec, value: True,
}


def spec_for(spec: dict[str, Any], chip: str | None) -> dict[str, Any]:
    """The row with the limits of one chip; without a chip the widest reading."""
    other = (spec.get("by_chip") or {}).get(chip)
    return {**spec, **other} if other else spec


def valid(spec: dict[str, Any], value: str, chip: str | None = None) -> bool:
    """May the variable have this value? Blanks at the ends are not the value's."""
    row = spec_for(spec, chip)
    return _KINDS[row["kind"]](row, value if row["kind"] == "modules" else value.strip())


def in_range(env: Fact, chips: Maybe, pci: Maybe) -> Answer | list[Answer]:
    """Every variable of the table has a valid value; one that is set to nothing counts as not set."""
    chip = family(chips, pci)
    judged = [v for v in env.value["set"].values() if v.spec is not None and v.value.strip()]
    bad = []
    for variable in judged:
        if not valid(variable.spec, variable.value, chip):
            row = spec_for(variable.spec, chip)
            args = {
                "name": variable.name,
                "value": variable.value[:80],
                "valid": row["valid"],
                "default": row["default"],
            }
            severity = row.get("severity")
            bad.append(fail(args, seen(variable), severity=severity))
    return bad or passed({"count": len(judged)})


def known_names(env: Fact) -> Answer | list[Answer]:
    """Every HCCL_* name exists. New ones appear with new versions, so this is a question, not a verdict."""
    import difflib

    names = env.value["names"]
    strange = [v for v in env.value["set"].values() if v.spec is None and v.name not in names]
    if not strange:
        return passed({"count": len(env.value["set"])})
    found = []
    for variable in strange[:20]:
        near = difflib.get_close_matches(variable.name[:128], names, n=1, cutoff=0.75)
        found.append(fail({"name": variable.name, "near": near[0] if near else "-", "value": variable.value[:80]},
                          seen(variable), confidence="likely" if near else "guess"))  # fmt: skip
    return found


# --- the whitelist ----------------------------------------------------------------------------------------------------


def whitelist_usable(env: Fact, whitelist: Maybe) -> Answer:
    """The whitelist is off (the default), or it is on and names a file that can be read and lists host addresses."""
    if of(env, "HCCL_WHITELIST_DISABLE") != "0":
        return passed({"value": of(env, "HCCL_WHITELIST_DISABLE") or "1"})
    switch = seen(env.value["set"]["HCCL_WHITELIST_DISABLE"])
    if not of(env, "HCCL_WHITELIST_FILE"):
        return fail({"path": "-", "state": "unset"}, switch)
    if not isinstance(whitelist, Fact):
        return unknown("not_recorded", "record_whitelist", what=of(env, "HCCL_WHITELIST_FILE"))
    found = whitelist.value
    args = {"path": found.path, "state": found.state}
    if found.state != "ok":
        return fail(args, switch, whitelist.evidence)
    if found.flaws:
        flaw = found.flaws[0]
        return fail({**args, "state": f"JSON: {flaw.text[:40]}"}, switch, Evidence(found.path, flaw.line, flaw.text))
    if _device_key(found):
        return not_applicable("whitelist_devices")
    if not found.host_ip:
        return fail({**args, "state": '"host_ip" ✗'}, switch, Evidence(found.path, 0, ", ".join(found.keys[:8])))
    wrong = [ip for ip in found.host_ip if address(ip) is None]
    if wrong:
        return fail({**args, "state": f'"host_ip": {wrong[0]}'}, switch,
                    Evidence(found.path, found.lines.get("host_ip", 0), f'"host_ip": {wrong[0]}'))  # fmt: skip
    return passed({**args, "count": len(found.host_ip)}, switch)


def _device_key(whitelist: Any) -> str:
    """The member of a whitelist that holds device ids, "" if none does."""
    if any(_INT.fullmatch(ip) for ip in whitelist.host_ip or ()):
        return "host_ip"
    return next((k for k in whitelist.keys if k.lower() in ("device_id", "device_ids", "devices", "device")), "")


def whitelist_names_hosts(whitelist: Fact, env: Maybe) -> Answer:
    """The whitelist lists host addresses, not device ids; with the whitelist on every address is refused."""
    found = whitelist.value
    if found.state != "ok":
        return not_applicable("no_file", path=found.path, what=found.path)
    key = _device_key(found)
    if not key:
        return passed({"path": found.path})
    text = f'"{key}"' + (f": {', '.join(found.host_ip[:4])}" if key == "host_ip" else "")
    seen_at = Evidence(found.path, found.lines.get(key, 0), text)
    on = of(env, "HCCL_WHITELIST_DISABLE") == "0"
    return fail({"path": found.path, "key": key}, seen_at, severity=None if on else "warning")


def whitelist_has_this_host(env: Fact, whitelist: Maybe, net: Maybe) -> Answer:
    """With the whitelist on, this host's address is in it: the address HCCL uses, where that is set."""
    if of(env, "HCCL_WHITELIST_DISABLE") != "0":
        return not_applicable("whitelist_off")
    if not isinstance(whitelist, Fact) or not whitelist.value.host_ip:
        return not_applicable("no_file", what="HCCL_WHITELIST_FILE", path="HCCL_WHITELIST_FILE")
    used, own = of(env, "HCCL_IF_IP"), own_addresses(net)
    if not used and not own:
        return unknown("no_addresses", "read_addresses")
    listed = set(whitelist.value.host_ip)
    if (used and used in listed) or (not used and own & listed):
        return passed({"path": whitelist.value.path})
    line = whitelist.value.lines.get("host_ip", 0)
    shown = used or ", ".join(sorted(own)[:4])
    text = '"host_ip": ' + ", ".join(whitelist.value.host_ip[:8])
    return fail({"path": whitelist.value.path, "ip": shown}, Evidence(whitelist.value.path, line, text))


# --- time-outs --------------------------------------------------------------------------------------------------------

MINDSPORE_CONNECT = 600
"""Seconds that importing mindspore sets when HCCL_CONNECT_TIMEOUT is not set."""
EXEC_DEFAULT = 1836


def connect_below_exec(env: Fact) -> Answer:
    """HCCL_CONNECT_TIMEOUT is shorter than HCCL_EXEC_TIMEOUT, so that the first error is the true one."""
    given = {n: of(env, n) for n in ("HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT")}
    if not any(given.values()):
        return passed({"connect": MINDSPORE_CONNECT, "exec": EXEC_DEFAULT})
    connect_text, exec_text = given.values()
    if (connect_text and not _INT.fullmatch(connect_text)) or (exec_text and not _NUMBER.fullmatch(exec_text)):
        return not_applicable("value_invalid")
    if of(env, "HCCL_OP_EXPANSION_MODE") == "AIV":
        return not_applicable("aiv_mode")
    connect = int(connect_text) if connect_text else MINDSPORE_CONNECT
    wait = float(exec_text) if exec_text else EXEC_DEFAULT
    args = {"connect": connect, "exec": f"{wait:g}"}
    if wait == 0 or connect < wait:
        return passed(args)
    both = [seen(env.value["set"][n]) for n, text in given.items() if text]
    return fail(args, *both, severity=None if len(both) == 2 else "advice")


def exec_has_an_end(env: Fact) -> Answer:
    """HCCL_EXEC_TIMEOUT is not 0, which would wait for ever; in AIV mode 0 means 1091 s."""
    text = of(env, "HCCL_EXEC_TIMEOUT")
    if not _NUMBER.fullmatch(text) or float(text) != 0 or of(env, "HCCL_OP_EXPANSION_MODE") == "AIV":
        return passed({"exec": text or EXEC_DEFAULT})
    return fail({"exec": text}, seen(env.value["set"]["HCCL_EXEC_TIMEOUT"]))


# --- interfaces and ports ---------------------------------------------------------------------------------------------


def _up(net: Fact) -> list[str]:
    """Interfaces that are up and have an address, without loopback and the bridges of containers."""
    up, interfaces = net.value.get("up") or [], net.value.get("interfaces") or {}
    virtual = ("lo", "docker", "veth", "br-", "virbr", "cni", "cali", "flannel", "tunl", "kube")
    return [name for name in sorted(up) if interfaces.get(name) and not name.startswith(virtual)]


def interface_chosen(env: Fact, launch: Maybe, net: Maybe) -> Answer:
    """On several nodes with several interfaces the one for HCCL is named; by default the first by name is taken."""
    nodes = launch.value.get("nodes") if isinstance(launch, Fact) else None
    if nodes == 1:
        return not_applicable("single_node")
    if of(env, "HCCL_IF_IP") or of(env, "HCCL_SOCKET_IFNAME"):
        return passed({"names": of(env, "HCCL_SOCKET_IFNAME") or of(env, "HCCL_IF_IP"), "count": 1})
    if nodes is None:
        return not_applicable("no_launch")
    if not isinstance(net, Fact) or not net.value.get("interfaces"):
        return unknown("no_addresses", "read_addresses")
    names = _up(net)
    args = {"names": ", ".join(names[:8]), "count": len(names), "nodes": nodes, "first": names[0] if names else "-"}
    if len(names) < 2:
        return passed(args)
    shown = "; ".join(f"{n} {net.value['interfaces'][n][0]}" for n in names[:8])
    return fail(args, Evidence("doctor:net", 0, shown))


def _matches(rule: str, names: list[str]) -> list[str]:
    head = _PREFIX.match(rule).group()  # type: ignore[union-attr]
    wanted = [part for part in rule[len(head) :].split(",") if part]

    def hit(name: str) -> bool:
        return name in wanted if "=" in head else name.startswith(tuple(wanted))

    return [name for name in names if hit(name) != head.startswith("^")]


def interface_is_here(env: Fact, net: Maybe) -> Answer | list[Answer]:
    """HCCL_IF_IP is an address of this host, and HCCL_SOCKET_IFNAME matches one of its interfaces."""
    ip, rule = of(env, "HCCL_IF_IP"), of(env, "HCCL_SOCKET_IFNAME")
    if not ip and not rule:
        return not_applicable("not_set", name="HCCL_IF_IP, HCCL_SOCKET_IFNAME", what="HCCL_IF_IP, HCCL_SOCKET_IFNAME")
    if not isinstance(net, Fact) or not net.value.get("interfaces"):
        return unknown("no_addresses", "read_addresses")
    interfaces = net.value["interfaces"]
    found = []
    for name, value, good in (
        ("HCCL_IF_IP", ip, address(ip) is None or ip in {a for all_ in interfaces.values() for a in all_}),
        # HCCL_IF_IP wins over the name, which is then not read
        ("HCCL_SOCKET_IFNAME", "" if ip else rule, bool(_matches(rule, list(interfaces)))),
    ):
        if value and not good:
            variable = env.value["set"][name]
            here = ", ".join(f"{n} {a[0]}" if a else n for n, a in sorted(interfaces.items())[:8])
            # a script may be meant for another node
            found.append(fail({"name": name, "value": value[:80], "here": here}, seen(variable),
                              severity=None if variable.line == 0 else "warning"))  # fmt: skip
    return found or passed({"value": ip or rule})


def intra_pair(env: Fact) -> Answer:
    """The pair HCCL_INTRA_PCIE_ENABLE, HCCL_INTRA_ROCE_ENABLE is one of those supported: not (1,1), (0,-) or (-,0)."""
    names = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
    pcie, roce = (of(env, name) for name in names)
    if not pcie and not roce:
        return not_applicable("not_set", name=", ".join(names), what=", ".join(names))
    args = {"pcie": pcie or "-", "roce": roce or "-"}
    if (pcie, roce) not in (("1", "1"), ("0", ""), ("", "0")):
        return passed(args)
    both = [seen(env.value["set"][name]) for name in names if of(env, name)]
    return fail(args, *both, severity="error" if (pcie, roce) == ("1", "1") else None)


def log_level_quiet(env: Fact) -> Answer:
    """ASCEND_GLOBAL_LOG_LEVEL is not 0 (debug) or 1 (info), which slow training down."""
    level = of(env, "ASCEND_GLOBAL_LOG_LEVEL")
    if level not in ("0", "1"):
        return passed({"level": level or "3"})
    return fail({"level": level}, seen(env.value["set"]["ASCEND_GLOBAL_LOG_LEVEL"]))


PORTS = 32
"""Ports from the base on that HCCL uses on the host."""


def _span(env: Maybe) -> tuple[int, int] | None:
    """First and last host port of HCCL, None where the system chooses."""
    text = of(env, "HCCL_HOST_SOCKET_PORT_RANGE")
    if text == "auto":
        return None
    numbers = [int(n) for n in re.findall(r"\d{1,5}", text)]
    if numbers:
        return min(numbers), max(numbers)
    base = of(env, "HCCL_IF_BASE_PORT")
    first = int(base) if _INT.fullmatch(base) and 1024 <= int(base) <= 65520 else 60000
    return first, min(first + PORTS - 1, 65535)


def _covered(reserved: str, first: int, last: int) -> bool:
    have: set[int] = set()
    for part in reserved.split(","):
        match = _PORT.fullmatch(part.strip())
        if match:
            have.update(range(int(match[1]), min(int(match[2] or match[1]), 65535) + 1))
    return all(port in have for port in range(first, last + 1))


def ports_free(env: Fact, ports: Fact, pci: Maybe, launch: Maybe) -> Answer:
    """HCCL's host ports are not in use (warning) and reserved, so that no outgoing connection takes them (advice)."""
    if no_npu(pci):
        return not_applicable("no_npu")
    span = _span(env)
    if span is None:
        return not_applicable("ports_auto")
    first, last = span
    args: dict[str, Any] = {"ports": f"{first}-{last}", "busy": "-", "range": "-"}
    listening = ports.value.get("listening")
    if listening is None:
        return unknown("ports_unreadable", "read_ports")
    busy = [port for port in listening if first <= port <= last]
    if busy:
        shown = ", ".join(str(port) for port in busy[:8])
        return fail({**args, "busy": shown}, Evidence("doctor:ports", 0, f"LISTEN {shown}"))
    outgoing, reserved = ports.value.get("range"), ports.value.get("reserved")
    open_range = outgoing and outgoing[0] <= last and first <= outgoing[1]
    if open_range and reserved is not None and not _covered(reserved, first, last):
        text = f"ip_local_port_range {outgoing[0]} {outgoing[1]}, ip_local_reserved_ports {reserved or '-'}"
        return fail(
            {**args, "range": f"{outgoing[0]}-{outgoing[1]}"}, Evidence("doctor:ports", 0, text), severity="advice"
        )
    return passed(args)


def read_by_this_chip(env: Fact, chips: Maybe, pci: Maybe) -> Answer | list[Answer]:
    """Variables that this family of chips does not read have no effect."""
    chip = family(chips, pci)
    if chip is None:
        return not_applicable("no_npu") if no_npu(pci) else unknown("chip_unknown", "run_npu_smi")
    idle = [
        v for v in env.value["set"].values() if v.spec and v.value.strip() and chip not in v.spec.get("chips", [chip])
    ]
    found = [
        fail({"name": v.name, "value": v.value[:80], "chip": chip, "chips": ", ".join(v.spec["chips"])}, seen(v))
        for v in idle
    ]
    return found or passed({"chip": chip})
