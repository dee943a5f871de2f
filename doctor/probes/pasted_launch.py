"""Pasted environment dumps, launch scripts and rank tables as the raw answers a host would have given."""

from __future__ import annotations

import json
import os
import re

from doctor.model import Raw
from doctor.probes import jsonlines
from doctor.probes.shell import commands, environment

_TABLE = re.compile(r'"(?:server_list|group_list|rank_list)"\s*:')
_WHITELIST = re.compile(r'"(?:host_ip|device_id)"\s*:\s*\[')
_LAUNCH = re.compile(r"\b(?:msrun|msrun_launcher\.sh|mpirun|torchrun|run_distribute\w*\.sh)\b")
_SHELL_LINE = re.compile(r"(?m)^\s*(?:export|declare -\w+|set -x|unset)\s+\w")


def is_rank_table(text: str) -> bool:
    """Does the text hold a rank table? A broken one counts: it is recognised by its lists, not by being JSON."""
    return text.lstrip("\ufeff \t\r\n")[:1] == "{" and _TABLE.search(text[: 1 << 20]) is not None


def from_text(text: str, name: str = "", kind: str = "") -> dict[str, Raw]:
    """The raw answers in a text: {} where it is none of the three.

    ``name`` is the name of the file, ``kind`` what the text was taken for (environment, shell, config …), both may be
    empty. An environment answers ``ask env``, a script or command ``ask launch_text``, a rank table ``file PATH`` and
    ``ask rank_table_path``.
    """
    if is_rank_table(text):
        path = name or "rank_table.json"
        return {
            f"file {path}": Raw(f"file {path}", "ok", text),
            "ask rank_table_path": _ask("rank_table_path", {"path": path}),
        }
    if name and os.path.basename(name).startswith(("hccl_whitelist", "whitelist")) and _WHITELIST.search(text[:4096]):
        document = jsonlines.read(text)
        if document.root is not None:
            environment_of = {"HCCL_WHITELIST_FILE": name}
            return {f"file {name}": Raw(f"file {name}", "ok", text), "ask env": _ask("env", environment_of)}
    found: dict[str, Raw] = {}
    variables = environment(text)
    if kind != "environment" and (_LAUNCH.search(text) or kind == "shell" or text.startswith("#!")):
        started = [c for c in commands(text) if c.words or c.assigned]
        if started:
            found["ask launch_text"] = _ask("launch_text", [{"name": name or "launch", "text": text}])
    elif variables and (kind == "environment" or len(variables) > 2 or _SHELL_LINE.search(text)):
        found["ask env"] = _ask("env", variables)
    return found


def _ask(what: str, value: object) -> Raw:
    return Raw(f"ask {what}", "ok", json.dumps(value, ensure_ascii=False))
