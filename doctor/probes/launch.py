"""How the job is started: the settings of msrun, of a dynamic cluster and of the old rank-table start in one form.

They come from the environment and from the text of a launch script or command; what the text exports wins over the
environment, as it does in the shell that runs it.

Source: msrun of MindSpore 2.10.0 (mindspore/parallel/cluster/run.py); mindspore-ai/docs tutorials/parallel
(msrun_launcher, dynamic_cluster, rank_table); mindspore-lab/mindformers scripts/msrun_launcher.sh.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.hosts.base import data_of
from doctor.model import Fact, Unknown
from doctor.probes.base import Probe
from doctor.probes.shell import Command, commands, is_open

if TYPE_CHECKING:
    from doctor.hosts.base import Host

ENVIRONMENT = "doctor:env"
"""The source of a setting that was found in the environment and not in a text."""

LAUNCH = "doctor:launch_text"
"""The source of a launch text that has no name of its own."""

MSRUN_DEFAULTS = {
    "worker_num": "8",
    "local_worker_num": "8",
    "master_addr": "127.0.0.1",
    "master_port": "8118",
    "node_rank": "-1",
    "log_dir": "",
    "join": "False",
    "cluster_time_out": "600",
}
_MSRUN_OPTIONS = frozenset((
    *MSRUN_DEFAULTS, "worker_log_name", "tail_worker_log", "bind_core", "bind_numa", "sim_level", "sim_rank_id",
    "rank_table_file", "scale_num",
))  # fmt: skip
_WHOLE_NUMBERS = frozenset((
    "worker_num", "local_worker_num", "master_port", "node_rank", "cluster_time_out", "sim_level", "sim_rank_id",
))  # fmt: skip
_INT = re.compile(r"\s*[+-]?\d(?:_?\d)*\s*", re.ASCII)
LAUNCH_NAMES = re.compile(
    r"MS_(?:ROLE|WORKER_NUM|SCHED_HOST|SCHED_PORT|NODE_ID|NODE_TIMEOUT|TOPO_TIMEOUT|RECEIVE_MSG_TIMEOUT|WORKER_IP"
    r"|SIMULATION_LEVEL|ENABLE_RECOVERY|RECOVERY_PATH|DISABLE_HEARTBEAT|ENABLE_LCCL|ENABLE_NUMA)"
    r"|RANK_ID|RANK_SIZE|RANK_TABLE_FILE|MINDSPORE_HCCL_CONFIG_PATH|DEVICE_ID|DEVICE_NUM|SERVER_ID"
    r"|ASCEND_DEVICE_ID|ASCEND_(?:RT_)?VISIBLE_DEVICES?|CM_\w{1,40}|LOCAL_RANK|WORLD_SIZE"
)
LAUNCHER_ARGUMENTS = (1, 2, 6, 9)
"""How many arguments msrun_launcher.sh of mindformers accepts."""

_LAUNCHER = {
    2: ("worker_num",),
    6: ("worker_num", "master_port", "log_dir", "join", "cluster_time_out"),
    9: ("worker_num", "local_worker_num", "master_addr", "master_port", "node_rank", "log_dir", "join",
        "cluster_time_out"),
}  # fmt: skip


class Setting(NamedTuple):
    """A value and where it was written; ``source`` is the name of the text or ``ENVIRONMENT``, ``text`` the line."""

    value: str
    source: str
    line: int = 0
    text: str = ""


class Start(NamedTuple):
    """One command that starts training. ``kind``: msrun · msrun_launcher · mpirun · torchrun · rank_table.

    ``refused`` are the words for which msrun ends with its usage. ``open``: there are words that only the running shell
    knows, so what is not given may still be there.
    """

    kind: str
    source: str
    line: int
    text: str
    options: dict[str, Setting]
    arguments: int = 0
    """number of arguments of msrun_launcher.sh"""
    refused: tuple[str, ...] = ()
    open: bool = False


def _option_name(word: str) -> str:
    """The option a word means; as for argparse, a beginning that only one option has will do. "" if none or several."""
    if word in _MSRUN_OPTIONS:
        return word
    near = [option for option in _MSRUN_OPTIONS if option.startswith(word)] if word else []
    return near[0] if len(near) == 1 else ""


def _accepts(name: str, value: str) -> bool:
    """Does msrun take this value? Options are parsed by type int, ``--join`` as a Python literal True or False."""
    if is_open(value):
        return True
    if name == "join":
        return value.strip() in ("True", "False", "1", "0")
    if name == "worker_num":
        return bool(_INT.fullmatch(value)) and int(value) > 0
    return name not in _WHOLE_NUMBERS or bool(_INT.fullmatch(value))


def msrun_options(words: Sequence[str], where: Setting) -> tuple[dict[str, Setting], list[str], bool]:
    """(options, words that msrun refuses, whether more may come from the shell) of one msrun command line.

    Every option takes a value. Reading ends at the first word that is the user's program. Measured with the parser of
    MindSpore 2.10.0.
    """
    found: dict[str, Setting] = {}
    refused: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if is_open(word) and not word.startswith("--"):
            return found, refused, True
        if not word.startswith("-"):
            return found, refused, False
        name, equals, value = word.lstrip("-").partition("=")
        option = _option_name(name) if word.startswith("--") else ""
        if not option:
            refused.append(word)
            continue
        if not equals:
            value = words[at] if at < len(words) else ""
            at += 1
        if not _accepts(option, value):
            refused.append(word if equals else f"{word} {value}".strip())
        found[option] = where._replace(value=value)
    return found, refused, False


def _launcher_options(arguments: Sequence[str], where: Setting) -> dict[str, Setting]:
    names = _LAUNCHER.get(len(arguments), ())
    found = {name: where._replace(value=value) for name, value in zip(names, arguments[1:], strict=False)}
    if len(arguments) in (2, 6):
        found["local_worker_num"] = found["worker_num"]
    return found


def _processes(words: Sequence[str], where: Setting) -> dict[str, Setting]:
    """``processes``: how many the launcher starts on this host; ``bind``: CPU binding is chosen.

    mpirun with hosts says only the total, so it is not read then.
    """
    if any(word.startswith(("-H", "--host", "-hostfile", "-machinefile", "--machinefile")) for word in words):
        return {}
    found = {"bind": where._replace(value="yes")} if any(w.startswith(("--bind-to", "--map-by")) for w in words) else {}
    for n, word in enumerate(words[1:], 1):
        name, equals, value = word.partition("=")
        if name.lstrip("-").replace("-", "_") in ("nproc_per_node", "np", "n") and name.startswith("-"):
            value = value if equals else words[n + 1] if n + 1 < len(words) else ""
            return {**found, "processes": where._replace(value=value)}
        if word.endswith(".py"):
            break
    return found


def _start(command: Command, source: str) -> Start | None:
    words = list(command.words)
    while words and os.path.basename(words[0]) in ("nohup", "bash", "sh", "exec", "sudo", "numactl", "time", "stdbuf"):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1:]
    if not words:
        return None
    name = os.path.basename(words[0])
    where = Setting("", source, command.line, command.text)
    if name == "msrun":
        options, refused, hidden = msrun_options(words, where)
        return Start("msrun", source, command.line, command.text, options, 0, tuple(refused[:8]), hidden)
    if name == "msrun_launcher.sh":
        arguments = [word for word in words[1:] if word]
        if ">" in " ".join(arguments[1:]):
            arguments = arguments[: next(i for i, word in enumerate(arguments) if i and ">" in word)]
        options = _launcher_options(arguments, where)
        return Start("msrun_launcher", source, command.line, command.text, options, len(arguments))
    if name in ("mpirun", "mpiexec", "torchrun"):
        kind = "torchrun" if name == "torchrun" else "mpirun"
        return Start(kind, source, command.line, command.text, _processes(words, where))
    if name in ("run_distribute.sh", "run_distribute_train.sh", "run_distribute_train_ascend.sh"):
        return Start("rank_table", source, command.line, command.text, {})
    return None


def _texts(host: Host) -> list[tuple[str, str]]:
    """(name, text) of the launch scripts and commands that the user gave."""
    raw = host.ask("launch_text")
    if raw.state != "ok":
        return []
    try:
        value: Any = json.loads(raw.out)
    except (ValueError, RecursionError):
        value = raw.out
    found = []
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str) and item.strip():
            found.append((LAUNCH, item))
        elif isinstance(item, dict) and isinstance(item.get("text"), str):
            found.append((str(item.get("path") or LAUNCH)[:200], item["text"]))
    return found[:50]


def whole(value: str) -> int | None:
    """A whole number as the launchers read it, else None."""
    text = value.strip()
    return int(text) if re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII) else None


def settings(environment: Mapping[str, str], texts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The launch in one form.

    ``style`` none · msrun · dynamic · rank_table · mpirun · torchrun; ``styles`` all that were seen. ``options`` are
    msrun's, only those that were given. ``env`` holds the launch variables by name, ``shell`` those of the environment
    alone, ``assigned`` what the texts assign to variables of HCCL, CANN and the launch. ``workers``,
    ``local_workers``, ``nodes``, ``master``, ``port`` are None where they cannot be told.
    """
    env = {
        name: Setting(value, ENVIRONMENT, 0, f"{name}={value}"[:400])
        for name, value in environment.items()
        if LAUNCH_NAMES.fullmatch(name)
    }
    shell = dict(env)
    starts: list[Start] = []
    assigned: list[tuple[str, Setting]] = []
    for source, text in texts:
        for command in commands(text[: 1 << 20], environment):
            start = _start(command, source)
            if start is not None and len(starts) < 200:
                starts.append(start)
            for name, value in command.assigned:
                setting = Setting(value, source, command.line, command.text)
                if len(assigned) < 2_000 and name.startswith(("HCCL_", "ASCEND_", "MS_", "CM_", "RANK_")):
                    assigned.append((name, setting))
                if LAUNCH_NAMES.fullmatch(name) and not is_open(value):
                    env[name] = setting
            if command.words[:1] == ("unset",):
                for name in command.words[1:]:
                    env.pop(name, None)
    options: dict[str, Setting] = {}
    for start in starts:
        options.update({name: s for name, s in start.options.items() if not is_open(s.value)})
    styles = list(dict.fromkeys("msrun" if s.kind == "msrun_launcher" else s.kind for s in starts))
    if "msrun" not in styles and any(name in env for name in ("MS_ROLE", "MS_SCHED_HOST", "MS_WORKER_NUM")):
        styles.append("dynamic")
    if "rank_table" not in styles and any(name in env for name in ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH")):
        styles.append("rank_table")
    return {
        "style": styles[0] if styles else "none",
        "styles": styles,
        "starts": starts,
        "options": options,
        "env": env,
        "shell": shell,
        "assigned": assigned,
        **_numbers(styles, starts, options, env),
    }


def _numbers(
    styles: Sequence[str], starts: Sequence[Start], options: Mapping[str, Setting], env: Mapping[str, Setting]
) -> dict[str, Any]:
    workers = local = nodes = port = None
    master: str | None = None
    if "msrun" in styles:
        given = [s for s in starts if s.kind in ("msrun", "msrun_launcher")]
        hidden = {n for s in given for n, o in s.options.items() if is_open(o.value)}
        more = any(s.open for s in given)

        def of(name: str) -> str | None:
            if name in options:
                return options[name].value
            return None if name in hidden or more else MSRUN_DEFAULTS[name]

        workers, local, port = (whole(of(n) or "") for n in ("worker_num", "local_worker_num", "master_port"))
        master = of("master_addr")
        if workers and local and workers > 0 and local > 0:
            nodes = -(-workers // local)
        if any(s.kind == "msrun_launcher" and s.arguments not in LAUNCHER_ARGUMENTS for s in given):
            workers = local = nodes = None
    elif "dynamic" in styles:
        workers = whole(env["MS_WORKER_NUM"].value) if "MS_WORKER_NUM" in env else None
        port = whole(env["MS_SCHED_PORT"].value) if "MS_SCHED_PORT" in env else None
        master = env["MS_SCHED_HOST"].value.strip() if "MS_SCHED_HOST" in env else None
    elif "RANK_SIZE" in env:
        workers = whole(env["RANK_SIZE"].value)
    return {"workers": workers, "local_workers": local, "nodes": nodes, "master": master or None, "port": port}


def environment_of(host: Host, facts: Mapping[str, Fact | Unknown]) -> dict[str, str] | Unknown:
    """The variables of the host: the fact of the probe that reads them, else its answer."""
    env = facts.get("host.env")
    if isinstance(env, Unknown):
        return env
    value = env.value if isinstance(env, Fact) else data_of(host.ask("env"))
    if not isinstance(value, dict):
        return Unknown("host.env", "not_recorded")
    return {str(name): text for name, text in value.items() if isinstance(text, str)}


def read_launch(host: Host, facts: Mapping[str, Fact | Unknown]) -> list[Fact | Unknown]:
    """Fact ``launch.settings``, a dict as :func:`settings` describes it."""
    name = "launch.settings"
    texts = _texts(host)
    found = environment_of(host, facts)
    if isinstance(found, Unknown) and not texts:
        return [Unknown(name, found.why, "give_launch", found.args)]
    value = settings({} if isinstance(found, Unknown) else found, texts)
    expected = data_of(host.ask("expected"))
    nodes = expected.get("nodes") if isinstance(expected, dict) else None
    if isinstance(nodes, int) and nodes > 0:
        value["nodes"] = nodes
    return [Fact(name, value)]


PROBES = (Probe("launch", "hccl", read_launch, gives=("launch.settings",), needs=("host.env",)),)
