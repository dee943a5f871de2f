"""What a file is and which reader takes it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from doctor.plan.schema import Plan, Trouble
from doctor.plan.yamltree import Node, decode, read_bytes, read_tree

YAML = (".yaml", ".yml")
SHELL = (".sh", ".bash")
WEIGHTS = (".safetensors", ".ckpt")


def read(path: str, text: str | None = None) -> Plan | None:
    """The plan of a file with its memory estimated, None for a file that describes no training run.

    ``text`` is taken instead of the content of the file. A file that is meant to be one (by its name) and cannot be
    read gives a plan with ``file.problem``.
    """
    plan = _read(path, text)
    if plan is not None and not plan.get("file.problem"):
        from doctor.plan import known, memory

        known.into(plan)
        memory.into(plan)
        if text is None:
            from doctor.plan import weights

            found = weights.beside(plan)
            if found is not None:
                weights.into(plan, weights.read(found), weights.family_of(plan), memory.shape_of(plan))
    return plan


def only(texts: Iterable[tuple[str, str]]) -> Plan | None:
    """The training plan among some (name, text), None if there is none or more than one: nobody knows which one ran."""
    found = []
    for name, text in texts:
        known = name.lower().endswith((*YAML, ".json"))
        plan = read(name if known else f"{name}.yaml", text)
        if plan is not None and not plan.get("file.problem") and len(plan.values) > 3:
            found.append(plan)
    return found[0] if len(found) == 1 else None


def _read(path: str, text: str | None) -> Plan | None:
    ending = os.path.splitext(path)[1].lower()
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
