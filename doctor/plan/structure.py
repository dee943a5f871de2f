"""Faults in the structure of a MindSpore Transformers file: values that were deleted, sections without what they need,
keys and sections that slipped one level in or out, files and patterns that their reader cannot use."""

from __future__ import annotations

import re
from typing import Any

from doctor.plan import fill
from doctor.plan.yamltree import Node

NEEDED = {
    "": ("run_mode",),
    "context": ("mode", "device_target"),
    "parallel": ("parallel_mode",),
    "parallel_config": ("data_parallel", "model_parallel", "pipeline_stage", "micro_batch_num", "context_parallel"),
    "runner_config": ("batch_size", "epochs"),
    "lr_schedule": ("learning_rate", "type"),
    "lr_scheduler": ("learning_rate", "type"),
    "optimizer": ("type", "weight_decay", "eps"),
    "training": ("steps", "local_batch_size", "global_batch_size"),
    "parallelism": ("tensor_parallel", "pipeline_parallel", "context_parallel"),
    "model": ("hidden_size", "num_layers", "num_hidden_layers", "num_heads", "num_attention_heads", "seq_length",
              "vocab_size", "compute_dtype", "param_init_type", "params_dtype", "layernorm_compute_type",
              "softmax_compute_type", "layernorm_compute_dtype", "softmax_compute_dtype"),
}  # fmt: skip
"""Keys that none of the wheels' configurations leaves empty: null is handed on, it is no default
(``tools/register/template.py`` replaces a default by whatever the file holds)."""

TYPED = ("optimizer", "lr_schedule", "runner_wrapper", "data_loader", "train_dataset_task", "eval_dataset_task")
"""Sections from which an object is built: without ``type`` the registry refuses them (``tools/register/register.py``,
``get_instance_from_cfg``)."""
LISTS = ("callbacks", "eval_callbacks")

HOMES = frozenset(("parallel_config", "recompute_config", "runner_config", "runner_wrapper", "optimizer", "lr_schedule",
                   "moe_config", "train_dataset", "callbacks", "context", "parallel", "parallelism", "training",
                   "lr_scheduler"))  # fmt: skip
"""Sections that are read at the top of a file and nowhere else."""
TOP = ("use_parallel", "run_mode", "load_checkpoint", "auto_trans_ckpt", "resume_training", "only_save_strategy",
       "load_ckpt_format", "micro_batch_interleave_num")  # fmt: skip
"""Settings that are read at the top of a file and nowhere else."""
OTHER_NAMES = {
    "learning_rate": ("lr", "max_lr", "base_lr", "init_lr", "peak_lr", "initial_lr"),
    "warmup_steps": ("num_warmup_steps", "warmup_iters", "lr_warmup_iters", "lr_warmup_steps"),
    "weight_decay": ("wd", "decay", "l2"),
    "batch_size": ("micro_batch_size", "per_device_train_batch_size", "train_batch_size"),
    "seq_length": ("max_seq_len", "max_seq_length", "seq_len"),
}
"""What other libraries call a setting."""

PROFILES = ("learning_rate", "weight_decay", "warmup_steps")
MINDRECORD_NOT = (".json", ".jsonl", ".txt", ".csv", ".tsv", ".parquet", ".arrow", ".bin", ".idx", ".zip", ".tar.gz")
COLUMN_LISTS = ("input_columns", "output_columns", "column_order", "column_names", "betas", "construct_args_key")
MAX_PATTERN = 2000
WHOLE = 5
"""Keys at the top from which a file is a whole configuration, and no piece of one that leaves things out."""
MAX_NODES = 50_000


def check(
    tree: Node, notes: fill.Notes, table: dict[str, Any], model: Node | None, *, based: bool, pynative: bool
) -> None:
    """Note what is wrong with the structure of a file. ``based``: sections may be completed by a base file."""
    _empty(tree, notes, model)
    _needs(tree, notes, based, pynative)
    _strayed(tree, notes, table, pynative)
    _values(tree, notes)
    for name in table["pynative"] if pynative else ():
        node = tree.data.get(name)
        if name and node is not None and node.kind != "map" and node.data not in (None, ""):
            notes.add("file.wrong_types", name, tree.line_of(name))
    for name in LISTS:
        node = tree.data.get(name)
        if node is not None and node.kind == "map":
            notes.add("file.wrong_types", name, tree.line_of(name))


def _empty(tree: Node, notes: fill.Notes, model: Node | None) -> None:
    for section, names in NEEDED.items():
        node = tree if not section else model if section == "model" else tree.data.get(section)
        if node is None or node.kind != "map":
            continue
        for key in names:
            child = node.data.get(key)
            if child is not None and child.kind == "scalar" and child.data is None:
                notes.add("file.empty_keys", f"{section}.{key}" if section else key, node.line_of(key))


def _needs(tree: Node, notes: fill.Notes, based: bool, pynative: bool) -> None:
    """Sections without the type of what is built from them."""
    if based or pynative or len(tree.data) < WHOLE:
        return
    for name in TYPED:
        owner = tree.data.get("train_dataset") if name == "data_loader" else tree
        node = owner.data.get(name) if owner is not None and owner.kind == "map" else None
        if node is None or node.kind != "map" or not node.data or "type" in node.data or "default" in node.data:
            continue
        notes.add("file.lacking_keys", f"{name}.type", owner.line_of(name) if owner is not None else 0)
    _rate(tree, notes)


def _rate(tree: Node, notes: fill.Notes) -> None:
    """A schedule without the rate, which all classes of it ask for (``core/lr/lr_schedule.py``)."""
    node, optimizer = tree.data.get("lr_schedule"), tree.data.get("optimizer")
    kind = node.at("type") if node is not None and node.kind == "map" else None
    if node is None or kind is None or not str(kind.data).endswith("LR"):
        return
    elsewhere = optimizer is not None and optimizer.kind == "map" and "learning_rate" in optimizer.data
    others = any(word in node.data for word in (*OTHER_NAMES["learning_rate"], "learning_rate", "default", "groups"))
    if not elsewhere and not others:
        notes.add("file.lacking_keys", "lr_schedule.learning_rate", tree.line_of("lr_schedule"))


def _strayed(tree: Node, notes: fill.Notes, table: dict[str, Any], pynative: bool) -> None:
    """Sections and settings of the top that stand deeper, and settings of a section that stand at the top or in
    another section. Only what its own place lacks is told: the same word may mean something else elsewhere."""
    told = notes.lines_of("file.misplaced_keys", "file.unknown_keys", "file.unread_keys")
    pending: list[tuple[str, Node]] = [(str(key), node) for key, node in tree.data.items()]
    seen = 0
    while pending and seen < MAX_NODES:
        path, node = pending.pop()
        seen += 1
        if node.kind == "list":
            pending += [(path, item) for item in node.data]
            continue
        if node.kind != "map":
            continue
        for raw, child in node.data.items():
            key, line = str(raw), node.line_of(raw)
            pending.append((f"{path}.{key}", child))
            strayed = (key in HOMES and child.kind == "map") or (key in TOP and child.kind == "scalar")
            inner = path.partition(".")[0] in ("model", "monitor_config", "train_dataset", "eval_dataset")
            if strayed and key not in tree.data and line not in told and not (inner and key not in TOP):
                notes.add("file.misplaced_keys", f"{path}.{key}", line)
                told.add(line)
    _renamed(tree, notes, table, pynative)
    homes = _homes(tree, table, pynative)
    sections = table["pynative"] if pynative else table["sections"]
    for name, node in [("", tree), *tree.data.items()]:
        if name not in ("", "context", "optimizer", "lr_schedule", "lr_scheduler", "parallel", "runner_wrapper"):
            continue
        if node.kind != "map":
            continue
        for raw, child in node.data.items():
            key, line = str(raw), node.line_of(raw)
            home = homes.get(key, "")
            if child.kind != "scalar" or key in sections.get(name, ()) or line in told or not home or home == name:
                continue
            notes.add("file.misplaced_keys", f"{name}.{key} ({home})" if name else f"{key} ({home})", line)
        _other_names(name, node, notes, told)


SHARE = 0.7
"""Share of the keys of an unknown section that a known one must read for it to be that one under another name."""


def _renamed(tree: Node, notes: fill.Notes, table: dict[str, Any], pynative: bool) -> None:
    """Sections that nothing reads, with the keys of one that is missing."""
    sections = table["pynative"] if pynative else table["sections"]
    known = {*sections, *table["sections"][""], *table["maps"], *HOMES, *LISTS, "pynative", "model"}
    for raw, node in tree.data.items():
        name = str(raw)
        if name in known or node.kind != "map" or len(node.data) < 2:
            continue
        keys = set(map(str, node.data)) - {"type"}
        for section, names in sections.items():
            if section in HOMES and section not in tree.data and keys and len(keys & set(names)) >= SHARE * len(keys):
                notes.add("file.unread_keys", f"{name} ({section})", tree.line_of(name))
                notes.slips.append((tree.line_of(name), name, section))
                break


def _homes(tree: Node, table: dict[str, Any], pynative: bool) -> dict[str, str]:
    """Key to the one section of this file that reads it and lacks it; keys that several sections read have none."""
    found: dict[str, str] = {}
    sections = table["pynative"] if pynative else table["sections"]
    for section, names in sections.items():
        node = tree.data.get(section)
        if section in ("", "model", "callbacks", "scale", "train_dataset", "eval_dataset") or node is None:
            continue
        for key in names:
            if key == "type":
                continue
            if key in found:
                found[key] = ""
            else:
                found[key] = section if node.kind == "map" and key not in node.data else ""
    return found


def _other_names(name: str, node: Node, notes: fill.Notes, told: set[int]) -> None:
    if name not in ("lr_schedule", "lr_scheduler", "optimizer"):
        return
    for meant in PROFILES:
        for word in OTHER_NAMES[meant]:
            if word in node.data and meant not in node.data and node.line_of(word) not in told:
                notes.add("file.unread_keys", f"{name}.{word} ({meant})", node.line_of(word))


def _values(tree: Node, notes: fill.Notes) -> None:
    """Values of single keys that their reader cannot use, wherever they stand."""
    pending: list[Node] = [tree]
    seen = 0
    while pending and seen < MAX_NODES:
        node = pending.pop()
        seen += 1
        if node.kind == "list":
            pending += node.data
        if node.kind != "map":
            continue
        for raw, child in node.data.items():
            key, line = str(raw), node.line_of(raw)
            if child.kind != "scalar":
                pending.append(child)
                if key == "prefix" and "save_checkpoint_steps" in node.data:
                    notes.add("file.wrong_types", key, line)
                continue
            value = child.data
            if type(value) is int and (written := _odd_number(child.text)):
                notes.add("file.odd_numbers", f"{key} {written} = {fill.shown(value)}", line)
            if not isinstance(value, str) or "$" in value:
                continue
            if key in COLUMN_LISTS and re.fullmatch(r"\(.*\)", value.strip()):
                notes.add("file.wrong_types", key, line)
            elif key == "target_modules" and (fault := pattern_fault(value)):
                notes.add("file.bad_patterns", f"{key}: {fault}", line)
            elif key == "prefix" and "save_checkpoint_steps" in node.data and "/" in value:
                notes.add("file.bad_values", f"{key} {fill.shown(value)}", line)
            elif key == "split" and "data_path" in node.data and _split_fault(value):
                notes.add("file.out_of_range", f"{key} {fill.shown(value)}", line)
            elif key in ("dataset_dir", "dataset_files") and value.lower().endswith(MINDRECORD_NOT):
                kind = node.data.get("type")
                if kind is not None and kind.data == "MindDataset":
                    notes.add("file.wrong_files", f"{key} {fill.shown(value)} (MindDataset: .mindrecord)", line)


def _odd_number(text: str) -> str:
    """A whole number that YAML 1.1 reads in another base than it is meant: ``0x16``, ``010``, ``4:30``."""
    found = re.search(r"(?:^|[\s:])([-+]?(?:0x[\da-fA-F_]+|0[0-7_]+|0b[01_]+|\d+(?::[0-5]?\d)+))\s*(?:#.*)?$", text)
    return found[1] if found else ""


def pattern_fault(value: str) -> str:
    """Why a regular expression cannot be used, empty if it can. It is compiled, never run."""
    if not value.strip():
        return "empty"
    try:
        re.compile(value[:MAX_PATTERN])
    except (re.error, RecursionError, OverflowError) as error:
        return str(error)[:80]
    return ""


def _split_fault(value: str) -> bool:
    parts = re.findall(r"[.0-9]+", value)
    return "-" in value or not any(part.strip("0.") for part in parts)
