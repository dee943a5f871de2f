"""What a file is and which reader takes it."""

from __future__ import annotations

import os
import re

from doctor.plan.schema import Plan, Trouble
from doctor.plan.yamltree import Node, decode, read_bytes, read_tree

YAML = (".yaml", ".yml")
SHELL = (".sh", ".bash")
WEIGHTS = (".safetensors", ".ckpt")


def read(path: str, text: str | None = None, ending: str = "") -> Plan | None:
    """The plan of a file with its memory estimated, None for a file that describes no training run.

    ``text`` is taken instead of the content of the file, ``ending`` (``.sh``) instead of that of its name. A file that
    is meant to be one (by its name) and cannot be read gives a plan with ``file.problem``.
    """
    plan = _read(path, text, ending)
    if plan is not None and plan.slips:
        plan.meant = _meant(plan, path, text, ending)
    if plan is not None and not plan.get("file.problem"):
        from doctor.plan import known, memory

        known.into(plan)
        memory.into(plan)
        if text is None:
            from doctor.plan import weights

            found = weights.beside(plan)
            if found is not None:
                weigh(plan, found)
    return plan


def weigh(plan: Plan, path: str) -> None:
    """Compare a weight file with a plan: what it says goes into the plan, for rules, and the table of both."""
    from doctor.plan import memory, weights

    if not plan.get("file.problem"):
        weights.into(plan, weights.read(path), weights.family_of(plan), memory.shape_of(plan))


def _meant(plan: Plan, path: str, text: str | None, ending: str) -> Plan | None:
    """The plan of a file with its misspelt words spelt right: what is wrong with it too has another cause."""
    if text is None:
        data = read_bytes(path)
        content = data if isinstance(data, Trouble) else decode(data, path)
        if isinstance(content, Trouble):
            return None
        text = content
    lines = text.split("\n")
    for line, word, right in plan.slips[:20]:
        if 0 < line <= len(lines):
            lines[line - 1] = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", right, lines[line - 1], count=1)
    made = _read(path, "\n".join(lines), ending)
    if made is None or made.get("file.problem"):
        return None
    from doctor.plan import known, memory

    known.into(made)
    memory.into(made)
    return made


def _read(path: str, text: str | None, ending: str) -> Plan | None:
    ending = ending or os.path.splitext(path)[1].lower()
    if ending in WEIGHTS:
        return None
    if text is None:
        data = read_bytes(path)
        content = data if isinstance(data, Trouble) else decode(data, path)
        if isinstance(content, Trouble):
            if ending not in (*YAML, ".json"):
                return None
            from doctor.plan.fill import failed

            return failed(Plan("mindformers" if ending in YAML else "huggingface", path), content)
        text = content
    if ending in YAML:
        return _yaml(path, text)
    if ending == ".json" or text.lstrip()[:1] == "{":
        from doctor.plan import hf

        return hf.read(path, text)
    if ending in SHELL or (text.startswith("#!") and "sh" in text.split("\n", 1)[0]):
        from doctor.plan import megatron, shell

        plan = megatron.read(path, text)
        if plan is None:
            return shell.read(path, text)
        shell.into(plan, path, text)
        return plan
    if ending == ".py":
        from doctor.plan import script

        return script.read(path, text)
    return None


def _yaml(path: str, text: str) -> Plan | None:
    from doctor.plan import fill, mindformers

    plan = Plan("mindformers", path)
    tree = read_tree(text, path)
    if isinstance(tree, Node):
        return mindformers.read_node(plan, tree, text) if mindformers.looks_like(tree) else None
    # a file that cannot be parsed still tells what it is meant to be
    marks = ("model_config", "parallel_config", "runner_config", "train_dataset", "parallelism")
    if tree.code == "empty" or not any(mark + ":" in text for mark in marks):
        return None
    return fill.failed(plan, tree, text)
