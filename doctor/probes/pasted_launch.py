"""Pasted environment dumps, launch scripts and rank tables as the raw answers a host would have given."""

from __future__ import annotations

import json
import re

from doctor.model import Raw
from doctor.probes.launch import settings
from doctor.probes.shell import environment, is_open

_TABLE = re.compile(r'"(?:server_list|group_list|rank_list)"\s*:|"status"\s*:\s*"initializing"')
_START = re.compile(r"\b(?:msrun|msrun_launcher\.sh|mpirun|torchrun|run_distribute\w{0,40}\.sh)(?![\w-])")
_EVERYWHERE = frozenset(("PATH", "HOME", "LANG", "LANGUAGE", "HOSTTYPE", "CONDA_PREFIX"))
NAME = "rank_table.json"
"""What a pasted rank table is called."""


_CLUSTER = ("MS_ROLE", "MS_WORKER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT")


def is_rank_table(text: str) -> bool:
    """Does the text hold a rank table? A broken one counts: it is recognised by its lists, not by being JSON."""
    return text.lstrip("\ufeff \t\r\n")[:1] == "{" and _TABLE.search(text[: 1 << 20]) is not None


def from_text(text: str) -> dict[str, Raw]:
    """The raw answers in a text: {} where it is none of the three.

    An environment answers ``ask env`` with the variables that matter to a training run, a script or command
    ``ask launch_text``, a rank table ``file rank_table.json`` and ``ask rank_table_path``.
    """
    if is_rank_table(text):
        key = f"file {NAME}"
        return {key: Raw(key, "ok", text), "ask rank_table_path": _ask("rank_table_path", NAME)}
    head = text[: 1 << 20]
    if _START.search(head) and settings({}, [("", head)])["starts"]:
        return {"ask launch_text": _ask("launch_text", text)}
    variables = environment(head)
    # what only a shell can fill in says nothing, but a path may be extended by it
    known = {name: value for name, value in variables.items() if name.endswith("PATH") or not is_open(value)}
    if any(is_open(variables.get(name, "")) for name in _CLUSTER):
        # a part of a cluster that the shell fills in: the rest alone would look incomplete
        known = {name: value for name, value in known.items() if name not in _CLUSTER}
    mattering = {name: value for name, value in known.items() if _relevant(name)}
    telling = [name for name in mattering if name not in _EVERYWHERE]
    if telling and (len(mattering) > 2 or len(known) == len(mattering)):
        return {"ask env": _ask("env", mattering)}
    return {}


def _relevant(name: str) -> bool:
    from doctor.hosts.sensors import ENV_NAMES, ENV_PREFIXES

    return name in ENV_NAMES or name.startswith(ENV_PREFIXES)


def _ask(what: str, value: object) -> Raw:
    return Raw(f"ask {what}", "ok", json.dumps(value, ensure_ascii=False))
