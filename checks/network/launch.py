"""How the job is started: worker numbers, the scheduler's address and port, the way of starting (RUN501 to 510).

Source: msrun of MindSpore 2.10.0 (mindspore/parallel/cluster/run.py), measured on CPU; mindspore-ai/docs
tutorials/parallel (msrun_launcher, dynamic_cluster, rank_table); mindformers scripts/msrun_launcher.sh.
"""

import re
from typing import Any

from doctor.checks.network.chips import address, chip_count, device_nodes, own_addresses
from doctor.checks.network.devices import visible
from doctor.checks.network.rank_table import all_have_pod_ip, sound
from doctor.checks.network.rank_table_links import addresses_sound
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown
from doctor.version import AscendVersion

Maybe = Fact | Unknown | None

MSRUN = {
    "worker_num": "8",
    "local_worker_num": "8",
    "master_addr": "127.0.0.1",
    "master_port": "8118",
    "node_rank": "-1",
}
"""Defaults of msrun."""
_WHOLE = re.compile(r"[+-]?\d{1,9}", re.ASCII)


def seen(setting: Any) -> Evidence:
    """A setting, or a start command, as evidence."""
    return Evidence(setting.source, setting.line, setting.text)


def _msruns(launch: Fact) -> list[Any]:
    return [start for start in launch.value["starts"] if start.kind in ("msrun", "msrun_launcher")]


def _option(start: Any, name: str) -> str | None:
    """An option of msrun or its default, None where only the running shell knows it."""
    if start.kind == "msrun_launcher" and start.arguments not in (1, 2, 6, 9):
        return None
    if name not in start.options and start.open:
        return None
    text = str(start.options[name].value) if name in start.options else MSRUN[name]
    return None if "$" in text or "`" in text else text


def _number(start: Any, name: str) -> int | None:
    text = _option(start, name)
    return int(text) if text is not None and _WHOLE.fullmatch(text.strip()) else None


def _nodes(start: Any) -> int | None:
    workers, local = _number(start, "worker_num"), _number(start, "local_worker_num")
    return -(-workers // local) if workers and local and workers > 0 and local > 0 else None


def worker_numbers(launch: Fact, table: Maybe, nodes: Maybe) -> Answer | list[Answer]:
    """local_worker_num is at most worker_num (msrun ends with a ValueError else), and at most the visible devices."""
    starts = _msruns(launch)
    if not starts:
        return not_applicable("no_msrun")
    devices = device_nodes(nodes)
    present = chip_count(table) or len(devices) or None
    chosen = launch.value["env"].get("ASCEND_RT_VISIBLE_DEVICES")
    limit, why = present, None
    if chosen is not None:
        shown, _ = visible(chosen.value, present)
        limit, why = len(shown), chosen
    found = []
    for start in starts:
        workers, local = _number(start, "worker_num"), _number(start, "local_worker_num")
        args = {"workers": workers, "local": local, "visible": limit if limit is not None else "-"}
        if local is None:
            continue
        dry = "sim_level" in start.options or "MS_SIMULATION_LEVEL" in launch.value["env"]
        if workers is not None and local > workers:
            found.append(fail({**args, "limit": f"worker_num {workers}"}, seen(start)))
        elif limit and local > limit and not dry:
            sign = f"ASCEND_RT_VISIBLE_DEVICES={chosen.value}" if why else f"{limit} NPU"
            found.append(fail({**args, "limit": sign}, seen(start), seen(why) if why else None))
    return found or passed({"count": len(starts)})


def processes_visible(launch: Fact) -> Answer | list[Answer]:
    """torchrun and mpirun start no more processes on a host than ASCEND_RT_VISIBLE_DEVICES leaves visible."""
    starts = [start for start in launch.value["starts"] if "processes" in start.options]
    chosen = launch.value["env"].get("ASCEND_RT_VISIBLE_DEVICES")
    if not starts or chosen is None:
        return not_applicable("not_set", name="ASCEND_RT_VISIBLE_DEVICES")
    shown, rest = visible(chosen.value, None)
    if rest or not shown:  # what is wrong with the variable itself is told by the check of the variables
        return not_applicable("not_set", name="ASCEND_RT_VISIBLE_DEVICES")
    # a script of several commands may give each its own devices
    several = {s.value for name, s in launch.value.get("assigned", ()) if name == "ASCEND_RT_VISIBLE_DEVICES"}
    if len(several) > 1 and len(launch.value["starts"]) > 1:
        return not_applicable("not_set", name="ASCEND_RT_VISIBLE_DEVICES")
    found = []
    for start in starts:
        text = str(start.options["processes"].value).strip()
        if _WHOLE.fullmatch(text) and int(text) > len(shown):
            args = {"processes": int(text), "visible": len(shown), "devices": chosen.value[:60]}
            found.append(fail(args, seen(start), seen(chosen)))
    return found or passed({"count": len(starts)})


def mpirun_binding(launch: Fact) -> Answer | list[Answer]:
    """Open MPI binds by core where there are at most two processes: each has one core for all of its threads."""
    starts = [start for start in launch.value["starts"] if start.kind == "mpirun" and "processes" in start.options]
    if not starts:
        return not_applicable("no_launch")
    found = [
        fail({"processes": 2}, seen(start))
        for start in starts
        if "bind" not in start.options and str(start.options["processes"].value).strip() == "2"
    ]
    return found or passed({"count": len(starts)})


def _loopback(text: str) -> bool:
    parsed = address(text)
    return text in ("localhost", "localhost.localdomain") or (parsed is not None and parsed.is_loopback)


def master_reachable(launch: Fact, net: Maybe) -> Answer | list[Answer]:
    """With several nodes the master address is no loopback address, and where it is a name, the name resolves."""
    resolves = (net.value.get("resolves") or {}) if isinstance(net, Fact) else {}
    unresolved = (net.value.get("unresolved") or {}) if isinstance(net, Fact) else {}
    asked: list[tuple[str, int | None, Any]] = []
    for start in _msruns(launch):
        text = _option(start, "master_addr")
        if text:
            asked.append((text.strip(), _nodes(start), start))
    sched = launch.value["env"].get("MS_SCHED_HOST")
    if sched is not None and sched.value.strip() and not _msruns(launch):
        asked.append((sched.value.strip(), launch.value["nodes"], sched))
    if not asked:
        return not_applicable("no_launch")
    found = []
    for text, nodes, where in asked:
        several = nodes is not None and nodes > 1
        args = {"address": text, "nodes": nodes if nodes is not None else "?", "resolved": "-"}
        if several and (_loopback(text) or any(_loopback(str(a)) for a in resolves.get(text, ()))):
            args["resolved"] = ", ".join(map(str, resolves.get(text, ()))) or text
            found.append(fail(args, seen(where)))
        elif address(text) is None and text in unresolved and not _loopback(text):
            found.append(fail({**args, "resolved": "✗"}, seen(where), severity="error" if several else "warning"))
    return found or passed({"address": asked[0][0]})


def master_port(launch: Fact, ports: Maybe, net: Maybe) -> Answer | list[Answer]:
    """The scheduler's port lies in 1024 … 65535 and nobody listens on it, where this host is the master."""
    own = {"127.0.0.1", "localhost", "::1"}
    if isinstance(net, Fact):
        own |= {str(a) for addresses in (net.value.get("interfaces") or {}).values() for a in addresses}
        own.add(str(net.value.get("hostname", "")))
    listening = ports.value.get("listening") or () if isinstance(ports, Fact) else ()
    asked: list[tuple[str, str, Any]] = []
    for start in _msruns(launch):
        text = _option(start, "master_port")
        if text is not None:
            asked.append((text.strip(), _option(start, "master_addr") or "", start))
    env = launch.value["env"]
    if "MS_SCHED_PORT" in env and not _msruns(launch):
        host = env["MS_SCHED_HOST"].value.strip() if "MS_SCHED_HOST" in env else ""
        if env.get("MS_ROLE") is None or env["MS_ROLE"].value != "MS_WORKER":
            asked.append((env["MS_SCHED_PORT"].value.strip(), host, env["MS_SCHED_PORT"]))
    if not asked:
        return not_applicable("no_launch")
    found = []
    for text, master, where in asked:
        port = int(text) if _WHOLE.fullmatch(text) else -1
        if not 1 <= port <= 65535:
            found.append(fail({"port": text[:40], "state": "1024-65535"}, seen(where)))
        elif port < 1024:
            found.append(fail({"port": text, "state": "< 1024"}, seen(where), severity="warning"))
        elif port in listening and master in own:
            found.append(
                fail({"port": text, "state": "LISTEN"}, seen(where), Evidence("doctor:ports", 0, f"LISTEN {port}"))
            )
    return found or passed({"port": asked[0][0]})


_CLUSTER = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")


def _fits(name: str, text: str) -> bool:
    if name == "MS_ROLE":
        return text in ("MS_SCHED", "MS_WORKER", "MS_PSERVER")
    return bool(_WHOLE.fullmatch(text)) and int(text) > 0


def cluster_variables(launch: Fact) -> Answer | list[Answer]:
    """A dynamic cluster without msrun has all four variables, each valid and the same in the whole script."""
    env = launch.value["env"]
    given = [name for name in _CLUSTER if name in env]
    if _msruns(launch):
        return not_applicable("msrun_sets_them")
    if not given:
        return not_applicable("not_set", name="MS_ROLE")
    found = []
    # a value that only the running shell knows is a value
    assigned = {name for name, _ in launch.value["assigned"]}
    missing = [name for name in _CLUSTER if name not in env and (name == "MS_ROLE" or name not in assigned)]
    # a shell that starts roles itself has the role in front of each command only
    roles = [s.value for n, s in launch.value["assigned"] if n == "MS_ROLE"]
    if missing and not (missing == ["MS_ROLE"] and roles):
        args = {"name": ", ".join(missing), "value": "✗"}
        # without a role nothing starts a cluster: variables left over in the shell
        left_over = "MS_ROLE" in missing and not launch.value["assigned"]
        severity = "warning" if left_over else None
        found.append(fail(args, *(seen(env[name]) for name in given[:2]), severity=severity))
    for name in ("MS_ROLE", "MS_WORKER_NUM"):
        text = env[name].value.strip() if name in env else None
        if text is not None and not _fits(name, text):
            found.append(fail({"name": name, "value": text[:60] or '""'}, seen(env[name])))
    for name in _CLUSTER[1:]:
        settings = [s for n, s in launch.value["assigned"] if n == name and "$" not in s.value]
        values = list(dict.fromkeys(s.value for s in settings))
        if len(values) > 1 and len({s.source for s in settings}) == 1:
            first = [next(s for s in settings if s.value == v) for v in values[:2]]
            found.append(fail({"name": name, "value": " ≠ ".join(values[:4])}, *(seen(s) for s in first)))
    return found or passed({"name": ", ".join(given)})


def rank_table_start(launch: Fact, mindspore: Maybe, table: Maybe, file: Maybe) -> Answer:
    """A rank table beside msrun only orders ranks, and only if every server has ``pod_ip``; without msrun it is the way
    of starting that MindSpore gave up."""
    env, options = launch.value["env"], launch.value["options"]
    name = next((n for n in ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH") if n in env and env[n].value.strip()), "")
    given = [seen(env[name])] if name else []
    option = options.get("rank_table_file")
    if option is not None and option.value:
        name, given = "--rank_table_file", [seen(option), *given]
    if not given:
        return not_applicable("no_rank_table")
    styles = launch.value["styles"]
    args = {"name": name, "style": "msrun"}
    if "mpirun" in styles:
        other = next(s for s in launch.value["starts"] if s.kind == "mpirun")
        return fail({**args, "style": "mpirun"}, *given, seen(other), severity="warning")
    if "msrun" in styles:
        if not isinstance(table, Fact) or not isinstance(file, Fact):
            return unknown("table_unread", "repair_json", path=name)
        if not sound(table, file) or not addresses_sound(table):
            return not_applicable("table_wrong")
        if all_have_pod_ip(table.value):
            return passed(args)
        return fail(args, *given)
    if "dynamic" in styles:
        return fail({**args, "style": "MS_ROLE"}, *given)
    return fail({**args, "style": "rank table"}, *given, severity="warning" if _gave_up(mindspore) else None)


def _gave_up(mindspore: Maybe) -> bool:
    """Is it a MindSpore whose Ascend plugin holds "does not support ranktable startup"?"""
    value = mindspore.value if isinstance(mindspore, Fact) else None
    version = value.get("version") if isinstance(value, dict) else getattr(value, "version", None)
    if not version:
        return False
    try:
        return AscendVersion(str(version)) >= AscendVersion("2.10.0")
    except ValueError:
        return False


_STALE = (
    "RANK_ID",
    "RANK_SIZE",
    "DEVICE_ID",
    "MS_ROLE",
    "MS_WORKER_NUM",
    "MS_SCHED_HOST",
    "MS_SCHED_PORT",
    "MS_NODE_ID",
)


def stale_exports(launch: Fact) -> Answer:
    """The shell carries no rank variables of an earlier start; msrun overwrites them, other starts read them."""
    shell = launch.value["shell"]
    stale = [name for name in _STALE if name in shell and shell[name].value.strip()]
    if not stale:
        return passed({})
    worker = {"MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT"} <= set(stale)
    table = "RANK_TABLE_FILE" in shell and {"RANK_ID", "RANK_SIZE"} <= set(stale)
    if worker or table:
        return not_applicable("inside_a_job")
    text = ", ".join(f"{name}={shell[name].value[:40]}" for name in stale)
    return fail({"names": text}, *(seen(shell[name]) for name in stale[:4]))


def launcher_arguments(launch: Fact) -> Answer | list[Answer]:
    """msrun_launcher.sh of mindformers takes 1, 2, 6 or 9 arguments; with others it prints its usage and ends."""
    starts = [s for s in launch.value["starts"] if s.kind == "msrun_launcher"]
    if not starts:
        return not_applicable("no_launcher")
    wrong = [s for s in starts if s.arguments not in (1, 2, 6, 9) and "$@" not in s.text and "$*" not in s.text]
    return [fail({"count": s.arguments}, seen(s)) for s in wrong] or passed({"count": starts[0].arguments})


def node_rank_given(launch: Fact) -> Answer | list[Answer]:
    """On several nodes each msrun has its own node_rank; with -1 the order of arrival decides about the ranks."""
    starts = [s for s in _msruns(launch) if (_nodes(s) or 1) > 1]
    if not starts:
        return not_applicable("single_node")
    wrong = [s for s in starts if _number(s, "node_rank") == -1]
    high = [s for s in starts if (rank := _number(s, "node_rank")) is not None and rank >= (_nodes(s) or 1)]
    found = [fail({"rank": "-1", "nodes": _nodes(s)}, seen(s)) for s in wrong]
    found += [fail({"rank": _number(s, "node_rank"), "nodes": _nodes(s)}, seen(s), severity="warning") for s in high]
    return found or passed({"nodes": _nodes(starts[0])})


def options_accepted(launch: Fact) -> Answer | list[Answer]:
    """msrun knows every option in front of the script and takes its value; else it prints its usage and ends."""
    starts = [s for s in launch.value["starts"] if s.kind == "msrun"]
    if not starts:
        return not_applicable("no_msrun")
    found = [fail({"word": ", ".join(s.refused)}, seen(s)) for s in starts if s.refused]
    return found or passed({"count": len(starts)})


def master_is_here(launch: Fact, net: Maybe) -> Answer | list[Answer]:
    """Where node_rank is 0 the master address is one of this host: msrun starts the scheduler only where it is.

    Source: mindspore/parallel/cluster/process_entity/_api.py (is_master = _is_local_ip(master_addr)).
    """
    starts = [s for s in _msruns(launch) if (_nodes(s) or 1) > 1 and s.options.get("node_rank")]
    first = [s for s in starts if _number(s, "node_rank") == 0]
    if not first:
        return not_applicable("single_node" if not starts else "not_first_node")
    own = own_addresses(net)
    if not own:
        return unknown("no_addresses", "read_addresses")
    resolves = (net.value.get("resolves") or {}) if isinstance(net, Fact) else {}
    found = []
    for start in first:
        text = (_option(start, "master_addr") or "").strip()
        known = {text} if address(text) is not None else set(map(str, resolves.get(text, ())))
        if known and not known & own and not any(_loopback(one) for one in known):
            args = {"address": text, "own": ", ".join(sorted(own)[:4])}
            found.append(fail(args, seen(start), Evidence("doctor:net", 0, args["own"])))
    return found or passed({"address": _option(first[0], "master_addr") or "-"})


def node_timeout(launch: Fact) -> Answer:
    """Above 128 ranks MS_NODE_TIMEOUT is longer than its default of 30 s (900 to 1800 s are advised)."""
    workers = launch.value["workers"]
    if workers is None:
        return not_applicable("no_launch")
    if workers <= 128:
        return not_applicable("few_ranks", count=workers)
    setting = launch.value["env"].get("MS_NODE_TIMEOUT")
    text = setting.value.strip() if setting is not None else "30"
    if not _WHOLE.fullmatch(text):
        return unknown("value_invalid")
    if int(text) >= 300:
        return passed({"seconds": text, "workers": workers})
    where = [setting] if setting is not None else launch.value["starts"][:1]
    sized = [launch.value["env"][name] for name in ("MS_WORKER_NUM", "RANK_SIZE") if name in launch.value["env"]]
    return fail({"seconds": text, "workers": workers}, *map(seen, (where or sized)[:1]))
