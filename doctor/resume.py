"""``doctor resume``: the newest checkpoints of a run that all ranks have whole, and the settings to go on from them.

Only headers are read, never the weights. Nothing is deleted and nothing is loaded. What MindFormers does with the
settings is taken from its sources (``SOURCES``); what cannot be told from the files is said to be unknown.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from doctor import runsteps
from doctor.i18n import texts
from doctor.model import Edit
from doctor.patch import diff, yamlspans
from doctor.patch import plan as planning
from doctor.patch.plan import Patch
from doctor.patch.spans import Refused
from doctor.plan import weights
from doctor.plan.schema import Trouble
from doctor.render.safe import printable
from doctor.render.text import STYLES, Line, mark, ranks_text, size_text

SOURCES = (
    "mindformers 1.9.0, tools/resume_ckpt.py: get_info_from_meta, get_resume_ckpt_list",
    "mindformers 1.9.0, core/callback/callback.py: CheckpointMonitor.save_checkpoint",
    "mindformers 1.9.0, trainer/utils.py: load_resume_context_from_checkpoint, convert_checkpoint_config",
    "mindformers 1.9.0, trainer/base_trainer.py: training_process; checkpoint/utils.py: verify_ckpt_valid",
)
MAX_FILES = 100_000
MAX_SETS = 64
"""Sets looked into, from the newest on, until a whole one is found."""
MAX_JSON = 64 << 20

_NAME = re.compile(r"(?P<prefix>.{0,200}?)(?:_rank_(?P<rank>\d{1,6}))?(?P<more>_\d{1,4})?-(?P<epoch>\d{1,9})_"
                   r"(?P<step>\d{1,9})\.(?P<ext>ckpt|safetensors)")  # fmt: skip
_RANK = re.compile(r"(?:rank_|ckpt_)(\d{1,6})")
_ITERATION = re.compile(r"iteration_(\d{1,12})")
_SHARD = re.compile(r"(?:.{1,200}-)?(model|opt)-(\d{7})-(\d{7})\.safetensors")


class File(NamedTuple):
    """A checkpoint file. ``state``: ok · missing · damaged · smaller (fewer tensors than the rank's other ones)."""

    rank: int
    path: str
    state: str = "ok"
    why: str = ""
    size: int = 0
    tensors: int = 0


class Set(NamedTuple):
    """The files of all ranks of one moment.

    ``step`` counts over all epochs and comes from ``told``: checkpoint (written in it) · common.json · name · log; None
    if nothing tells. ``state``: whole · incomplete · unhealthy (as the run itself noted) · late (saved after the losses
    stopped being numbers) ·
    unknown (of which step it is is not known, and losses stopped being numbers).
    """

    name: str
    layout: str
    folder: str
    epoch: int
    in_epoch: int
    files: tuple[File, ...]
    step: int | None = None
    told: str = ""
    state: str = "unknown"
    notes: dict[str, float] = {}  # noqa: RUF012 - never changed

    @property
    def bad(self) -> tuple[File, ...]:
        """Files that cannot be loaded."""
        return tuple(f for f in self.files if f.state != "ok")


class Result(NamedTuple):
    """What was found. ``settings`` are (key, value, whether the config says so already)."""

    run: str
    steps: runsteps.Steps
    sets: tuple[Set, ...]
    chosen: Set | None
    ranks: int
    config: str
    settings: tuple[tuple[str, Any], ...]
    patch: Patch | None
    unknown: tuple[tuple[str, dict[str, Any]], ...]
    next_step: int | None
    next_rate: float | None
    rate_from: str
    automatic: str
    """the set MindFormers would take by itself with resume_training: True, by name; empty if that is not known"""


def inspect(
    run: str,
    *,
    checkpoints: str | None = None,
    logs: Sequence[str] = (),
    config: str | None = None,
    ranks: int | None = None,
) -> Result:
    """Look at the output folder of a run. Raises Refused for a config that cannot be read or patched."""
    unknown: list[tuple[str, dict[str, Any]]] = []
    steps = runsteps.read(list(logs) or _log_paths(run))
    if steps.last is None:
        unknown.append(("no_steps", {"count": steps.read}))
    found = sets_below(checkpoints or run)
    count = ranks or max((f.rank for s in found for f in s.files), default=-1) + 1
    health = _health(run, checkpoints)
    looked: list[Set] = []
    chosen: Set | None = None
    for one in found[:MAX_SETS]:
        checked = _judge(_check(one, count, found), steps, health)
        looked.append(checked)
        if checked.state == "whole":
            chosen = checked
            break
    if not found:
        unknown.append(("no_checkpoints", {}))
    settings: tuple[tuple[str, Any], ...] = ()
    patch: Patch | None = None
    name = ""
    automatic = ""
    if chosen is not None:
        automatic = _automatic(found, count, chosen)
        name = config or _config_of(run, unknown)
        settings, patch = _settings(chosen, found, name, unknown, automatic)
    next_step, rate, source = _outlook(chosen, steps, unknown)
    return Result(run, steps, tuple(looked), chosen, count, name, settings, patch, tuple(unknown), next_step, rate,
                  source, automatic)  # fmt: skip


def _log_paths(run: str) -> list[str]:
    """Where logs may be: everything of the run but its checkpoints, which may be terabytes."""
    out: list[str] = []
    for folder, below, names in os.walk(run):
        inside = "checkpoint" in os.path.relpath(folder, run)
        below[:] = sorted(b for b in below if not (inside and _RANK.fullmatch(b)) and not _ITERATION.fullmatch(b) and
                          b not in ("checkpoint_network", "strategy", ".git"))  # fmt: skip
        for name in sorted(names):
            low = name.lower()
            if low.endswith((".log", ".txt", ".out", ".log.gz", ".err")) or ".log." in low:
                out.append(os.path.join(folder, name))
        if len(out) > runsteps.MAX_SOURCES:
            break
    return out


# --- what is there


def sets_below(top: str) -> list[Set]:
    """All checkpoints below a folder, grouped to sets, the newest first; nothing is opened.

    Layouts: ``rank`` (``rank_N/PREFIX_rank_N-EPOCH_STEP.ckpt``, MindFormers), ``iteration`` (``iteration_NNN`` with
    ``common.json``, MindFormers from 1.8 on), ``flat`` (``PREFIX-EPOCH_STEP.ckpt`` of one rank, ModelCheckpoint).
    """
    groups: dict[tuple[str, str, str, int, int], dict[int, str]] = {}
    iterations: list[Set] = []
    seen = 0
    for folder, below, names in os.walk(top):
        below[:] = sorted(b for b in below if b not in ("checkpoint_network", "checkpoint_trainable", ".git"))
        for name in [b for b in below if _ITERATION.fullmatch(b)]:
            below.remove(name)
            made = _iteration_set(os.path.join(folder, name))
            if made is not None:
                iterations.append(made)
        own = _RANK.fullmatch(os.path.basename(folder))
        for name in names:
            seen += 1
            found = _NAME.fullmatch(name) if seen <= MAX_FILES else None
            if found is None:
                continue
            rank = int(found["rank"]) if found["rank"] else int(own[1]) if own else 0
            in_rank = own is not None
            parent = os.path.dirname(folder) if in_rank else folder
            layout = "rank" if in_rank else "flat"
            key = (parent, layout, f"{found['prefix']}{found['more'] or ''}.{found['ext']}", int(found["epoch"]),
                   int(found["step"]))  # fmt: skip
            groups.setdefault(key, {})[rank] = os.path.join(folder, name)
    out = iterations
    for (parent, layout, _, epoch, step), files in groups.items():
        first = files[min(files)]
        ordered = tuple(File(rank, files[rank]) for rank in sorted(files))
        out.append(Set(os.path.basename(first), layout, parent, epoch, step, ordered))
    # of the newest first; a name orders as MindFormers orders it, by epoch and step in it
    return sorted(out, key=lambda s: (s.epoch, s.in_epoch, s.layout == "iteration"), reverse=True)


def _iteration_set(folder: str) -> Set | None:
    found = _ITERATION.fullmatch(os.path.basename(folder))
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    files: dict[int, str] = {}
    whole: dict[str, int] = {}
    rows: list[File] = []
    for name in sorted(names):
        shard = _SHARD.fullmatch(name)
        if shard is not None:
            files[int(shard[2])] = name
            whole[shard[1]] = int(shard[3])
            rows.append(File(int(shard[2]), os.path.join(folder, name)))
    data = _json(os.path.join(folder, "metadata.json"))
    table = data.get("storage_data") if isinstance(data, dict) else None
    wanted: set[str] = set()
    if isinstance(table, dict):
        for entries in table.values():
            for entry in entries if isinstance(entries, list) else ():
                named = entry.get("file_name") if isinstance(entry, dict) else None
                if isinstance(named, str):
                    wanted.add(os.path.basename(named if named.endswith(".safetensors") else named + ".safetensors"))
    else:
        for kind, total in whole.items():
            wanted |= {f"{kind}-{n:07d}-{total:07d}.safetensors" for n in range(min(total, 100_000))
                       if not any(r.rank == n and f"{kind}-{n:07d}" in r.path for r in rows)}  # fmt: skip
    for name in sorted(wanted - {os.path.basename(r.path) for r in rows}):
        shard = _SHARD.fullmatch(name)
        rows.append(File(int(shard[2]) if shard else 0, os.path.join(folder, name), "missing"))
    if found is None or not rows:
        return None
    return Set(os.path.basename(folder), "iteration", os.path.dirname(folder), 0, int(found[1]), tuple(rows))


def _json(path: str) -> Any:
    """A JSON file, None if it is absent, too large or none."""
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_JSON:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return json.load(file)
    except (OSError, ValueError, RecursionError):
        return None


def _health(run: str, checkpoints: str | None) -> frozenset[str]:
    """Names the run noted as unhealthy (``health_ckpts.json`` of the health monitor)."""
    bad = set()
    for folder in dict.fromkeys((run, os.path.join(run, "output"), checkpoints or run)):
        data = _json(os.path.join(folder, "health_ckpts.json"))
        for item in data if isinstance(data, list) else ():
            if isinstance(item, dict) and item.get("is_health", 0) != 0:
                bad.add(_unranked(str(item.get("ckpt_name", ""))))
    return frozenset(bad)


def _unranked(name: str) -> str:
    return re.sub(r"_rank_\d{1,6}", "", name)


# --- is it whole


def _check(one: Set, ranks: int, every: Sequence[Set]) -> Set:
    """Read the headers of a set and what it says of its step."""
    files = []
    have = {f.rank: f for f in one.files}
    for file in one.files:
        files.append(file if file.state != "ok" else _whole(file))
    if one.layout == "rank":
        gone = [n for n in range(ranks) if n not in have]
        sample = os.path.basename(one.files[0].path)
        for n in gone:
            name = re.sub(r"_rank_\d{1,6}", f"_rank_{n}", sample)
            files.append(File(n, os.path.join(one.folder, f"rank_{n}", name), "missing"))
        files = [_against(f, one, every) for f in files]
    notes: dict[str, float] = {}
    told = ""
    if one.layout == "iteration":
        data = _json(os.path.join(one.folder, one.name, "common.json"))
        if isinstance(data, dict):
            notes = {k: float(v) for k, v in data.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
            told = "common.json"
        else:
            files.append(File(0, os.path.join(one.folder, one.name, "common.json"), "missing"))
    else:
        readable = [f for f in files if f.state == "ok"]
        if readable:
            notes = scalars(readable[0].path)
            told = "checkpoint"
    step: int | None = None
    for name in ("global_step", "step_num") if one.layout == "iteration" else ("step_num", "global_step"):
        if name in notes and notes[name] >= 0:
            step = int(notes[name])
            break
    if step is None:
        told = ""
        if one.layout == "iteration":
            step, told = one.in_epoch, "name"
    return one._replace(files=tuple(sorted(files, key=lambda f: (f.rank, f.path))), step=step, told=told, notes=notes)


def _whole(file: File) -> File:
    made = weights.read(file.path)
    try:
        size = os.path.getsize(file.path)
    except OSError:
        size = 0
    if isinstance(made, Trouble):
        if made.code == "no_file":
            return file._replace(state="missing")
        return file._replace(state="damaged", why=str(made.args.get("why", made.code)), size=size)
    return file._replace(size=size, tensors=len(made.tensors))


def _against(file: File, one: Set, every: Sequence[Set]) -> File:
    """A file cut off between two tensors looks whole: the same rank's file of another step tells how many it has."""
    if file.state != "ok":
        return file
    kind = os.path.splitext(one.name)[1]
    for other in every:
        if other is one or other.layout != one.layout or other.folder != one.folder or not other.name.endswith(kind):
            continue
        twin = next((f for f in other.files if f.rank == file.rank), None)
        if twin is None or _unnumbered(twin.path) != _unnumbered(file.path):
            continue
        made = weights.read(twin.path)
        if isinstance(made, Trouble):
            continue
        if len(made.tensors) > file.tensors:
            return file._replace(state="smaller", why=f"{file.tensors} < {len(made.tensors)}")
        return file
    return file


def _unnumbered(path: str) -> str:
    return re.sub(r"-\d{1,9}_\d{1,9}\.", ".", os.path.basename(path))


def _judge(one: Set, steps: runsteps.Steps, health: frozenset[str]) -> Set:
    if one.step is None:
        number = _from_log(one, steps)
        if number is not None:
            one = one._replace(step=number, told="log")
    state = "whole"
    if one.bad or not one.files:
        state = "incomplete"
    elif _unranked(one.name) in health or one.notes.get("ckpt_status", 0) not in (0, 0.0):
        state = "unhealthy"
    elif steps.bad_from is not None and one.step is None:
        state = "unknown"
    elif steps.bad_from is not None and one.step is not None and one.step + 1 >= (steps.bad_from.number or 0):
        # the loss of step n is that of the weights before its update: only a number printed for n + 1 clears them
        state = "late"
    return one._replace(state=state)


def _from_log(one: Set, steps: runsteps.Steps) -> int | None:
    """The step of a name ``-EPOCH_STEP`` where the logs tell how many steps an epoch has.

    In data sink mode an epoch of the name is one sink; a name whose step exceeds that is not read so.
    """
    per = steps.per_epoch
    if per is None or one.in_epoch > per:
        return None
    number = (one.epoch - 1) * per + one.in_epoch
    last = steps.last.number if steps.last is not None else None
    return number if last is None or number <= last + 1 else None


_WIDTHS = {"Int64": "<q", "Int32": "<i", "Float32": "<f", "Float64": "<d", "UInt64": "<Q", "Int16": "<h",
           "UInt32": "<I",
           "I64": "<q", "I32": "<i", "F32": "<f", "F64": "<d", "U64": "<Q", "I16": "<h", "U32": "<I"}  # fmt: skip
NOTES = frozenset(("epoch_num", "step_num", "global_step", "loss_scale", "global_batch_size"))


def scalars(path: str) -> dict[str, float]:
    """The single numbers a training checkpoint carries beside its weights, by name; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _safetensors_scalars(file) if path.endswith(".safetensors") else _ckpt_scalars(file)
    except (OSError, ValueError, KeyError, TypeError, struct.error, RecursionError):
        return {}


def _safetensors_scalars(file: Any) -> dict[str, float]:
    length = int.from_bytes(file.read(8), "little")
    if length > weights.MAX_HEADER:
        return {}
    head = json.loads(file.read(length))
    out = {}
    for name in NOTES & set(head):
        start, end = head[name]["data_offsets"]
        form = _WIDTHS.get(head[name]["dtype"])
        if form and end - start == struct.calcsize(form) and 0 <= start < 1 << 48:
            file.seek(8 + length + start)
            out[name] = float(struct.unpack(form, file.read(end - start))[0])
    return out


def _ckpt_scalars(file: Any) -> dict[str, float]:
    out: dict[str, float] = {}
    size = file.seek(0, os.SEEK_END)
    at = 0
    for _ in range(weights.MAX_TENSORS):
        file.seek(at)
        head = file.read(1024)
        if at >= size or not head:
            break
        key, n = _varint(head, 0)
        length, n = _varint(head, n)
        if key & 7 != 2:
            break
        if key >> 3 == 1 and n + length <= len(head):
            made = _ckpt_scalar(head[n : n + length])
            if made is not None and made[0] in NOTES:
                out[made[0]] = made[1]
        at += n + length
    return out


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("no number")
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result, at
        shift += 7


def _parts(data: bytes) -> list[tuple[int, int, bytes]]:
    """(number, value, bytes) of the fields of a small protobuf message."""
    out = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
            out.append((key >> 3, value, b""))
        elif key & 7 == 2:
            length, at = _varint(data, at)
            out.append((key >> 3, length, data[at : at + length]))
            at += length
        else:
            raise ValueError("a field of another kind")
    return out


def _ckpt_scalar(message: bytes) -> tuple[str, float] | None:
    """(name, number) of an entry ``{tag, tensor {dims, tensor_type, tensor_content}}`` that holds one number."""
    tag, tensor = "", b""
    for number, _, data in _parts(message):
        if number == 1:
            tag = data.decode("utf-8", "replace")
        elif number == 2:
            tensor = data
    form, content = None, b""
    for number, _, data in _parts(tensor):
        if number == 2:
            form = _WIDTHS.get(data.decode("utf-8", "replace"))
        elif number == 3:
            content = data
    if form is None or len(content) != struct.calcsize(form):
        return None
    return tag, float(struct.unpack(form, content)[0])


# --- what to do


def _automatic(every: Sequence[Set], ranks: int, chosen: Set) -> str:
    """The name of the set that ``resume_training: True`` takes: the newest one by name that every rank has, not newer
    than the least advanced ``meta.json``; nothing where there is no such file."""
    if chosen.layout != "rank":
        return ""
    least: tuple[int, int] | None = None
    for n in range(ranks):
        data = _json(os.path.join(chosen.folder, f"rank_{n}", "meta.json"))
        if isinstance(data, dict) and type(data.get("last_epoch")) is int and type(data.get("last_step")) is int:
            seen = (data["last_epoch"], data["last_step"])
            least = seen if least is None or seen < least else least
    if least is None:
        return ""
    kind = os.path.splitext(chosen.name)[1]
    for one in every:
        if one.folder == chosen.folder and one.name.endswith(kind) and (one.epoch, one.in_epoch) <= least and \
                {f.rank for f in one.files} >= set(range(ranks)):  # fmt: skip
            return one.name
    return ""


def _config_of(run: str, unknown: list[tuple[str, dict[str, Any]]]) -> str:
    """The one MindFormers configuration in the folder of a run, or nothing."""
    from doctor.plan import detect

    found: list[str] = []
    for folder, below, names in os.walk(run):
        below[:] = [b for b in sorted(below) if not b.startswith(("rank_", "iteration_", "checkpoint", "."))]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith((".yaml", ".yml")) and len(found) < 8:
                plan = detect.read(path)
                if plan is not None and plan.kind == "mindformers":
                    found.append(path)
    if len(found) != 1:
        unknown.append(("several_configs" if found else "no_config", {"files": ", ".join(found[:4])}))
        return ""
    return found[0]


def _settings(
    chosen: Set, every: Sequence[Set], config: str, unknown: list[tuple[str, dict[str, Any]]], automatic: str
) -> tuple[tuple[tuple[str, Any], ...], Patch | None]:
    """What the configuration must say, and the patch for it. Raises Refused for a configuration that cannot be read."""
    text = ""
    tree: Any = None
    if config:
        shot = planning.snapshot(config)
        text = planning.decode(shot.data, shot.format)
        tree = yamlspans.check(text, config).plain()
        if not isinstance(tree, dict):
            raise Refused("not_a_mapping", key=config)
    section = isinstance(tree, dict) and isinstance(tree.get("checkpoint"), dict)
    kind = "safetensors" if chosen.files[0].path.endswith(".safetensors") else "ckpt"
    wanted: list[tuple[str, Any]] = []
    where = os.path.abspath(chosen.folder)
    if chosen.layout == "iteration":
        where = os.path.join(where, chosen.name)
        if section or tree is None:
            wanted = [("checkpoint.load_path", where), ("checkpoint.no_load_optim", False)]
        else:
            wanted = [("load_checkpoint", where), ("resume_training", True), ("use_legacy_format", False)]
    elif section:
        unknown.append(("other_layout", {}))
        return (), None
    elif chosen.layout == "rank":
        # by itself the newest set of all names is taken, whether it can be read or not
        by_name = automatic != chosen.name
        wanted = [("load_checkpoint", where), ("load_ckpt_format", kind),
                  ("resume_training", chosen.name if by_name else True)]  # fmt: skip
        if by_name:
            unknown.append(("by_name", {"name": automatic or "-"}))
    else:
        wanted = [("load_checkpoint", os.path.join(where, chosen.name)), ("load_ckpt_format", kind),
                  ("resume_training", True)]  # fmt: skip
    if not config:
        return tuple(wanted), None
    edits = [Edit(config, key, "", yamlspans.spell(value)) for key, value in wanted if _at(tree, key) != value]
    if not edits:
        return tuple(wanted), None
    batch = _at(tree, "runner_config.batch_size")
    if "global_batch_size" in chosen.notes and batch is not None:
        unknown.append(("batch", {"size": int(chosen.notes["global_batch_size"])}))
    return tuple(wanted), planning.plan(edits, ("resume",))


def _at(tree: Any, key: str) -> Any:
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


def _outlook(
    chosen: Set | None, steps: runsteps.Steps, unknown: list[tuple[str, dict[str, Any]]]
) -> tuple[int | None, float | None, str]:
    """(number of the first step after the start, its learning rate, where that was read)."""
    if chosen is None:
        return None, None, ""
    if chosen.step is None:
        unknown.append(("no_step", {"name": chosen.name}))
        return None, None, ""
    after = steps.by_number.get(chosen.step + 1)
    at = steps.by_number.get(chosen.step)
    if after is not None and after.rate is not None:
        return chosen.step + 1, after.rate, f"{after.source}:{after.line}"
    if at is not None and at.rate is not None:
        unknown.append(("rate_before", {"step": chosen.step, "rate": f"{at.rate:g}"}))
    else:
        unknown.append(("no_rate", {}))
    return chosen.step + 1, None, ""


# --- shown


def lines(result: Result, lang: str) -> list[Line]:
    """The answer for people."""
    table = texts(lang)

    def say(key: str, **values: Any) -> str:
        text = table[f"resume.{key}"]
        for name, value in values.items():
            text = text.replace("{" + name + "}", printable(str(value)))
        return text

    out: list[Line] = []
    steps = result.steps
    if steps.last is not None:
        out.append([("", say("last", step=steps.last.number, loss=f"{steps.last.loss:g}",
                             source=f"{steps.last.source}:{steps.last.line}"))])  # fmt: skip
    if steps.bad_from is not None:
        good = steps.last_good
        out.append([(STYLES["error"], f"{mark('error')} "),
                    ("", say("bad", step=steps.bad_from.number, good=good.number if good else "-",
                             source=f"{steps.bad_from.source}:{steps.bad_from.line}"))])  # fmt: skip
    for one in result.sets:
        style = "healthy" if one.state == "whole" else "warning"
        text = say(f"set.{one.state}", name=one.name, ranks=len({f.rank for f in one.files}),
                   size=size_text(sum(f.size for f in one.files)))  # fmt: skip
        if one.step is not None:
            text += "  " + say("at", step=one.step, told=table[f"resume.told.{one.told}"])
        out.append([(STYLES[style], f"{mark(style)} "), ("", text)])
        by_state: dict[tuple[str, str], list[File]] = {}
        for file in one.bad:
            by_state.setdefault((file.state, file.why), []).append(file)
        for (state, why), files in list(by_state.items())[:8]:
            out.append([("", "    " + say(f"file.{state}", ranks=ranks_text([f.rank for f in files]), why=why,
                                          path=files[0].path))])  # fmt: skip
    out.append([("", "")])
    if result.chosen is None:
        out.append([("bold red", say("none"))])
    else:
        out.append([("bold", say("chosen", name=result.chosen.name, folder=result.chosen.folder))])
        if result.next_step is not None:
            out.append([("", say("step", step=result.next_step))])
        if result.next_rate is not None:
            out.append([("", say("rate", rate=f"{result.next_rate:g}", source=result.rate_from))])
        scale = result.chosen.notes.get("loss_scale")
        if scale is not None:
            out.append([("", say("scale", scale=f"{scale:g}"))])
        if result.settings:
            out.append([("", say("settings"))])
            out += [[("cyan", printable(f"    {key}: {yamlspans.spell(value)}"))] for key, value in result.settings]
        if result.config and result.patch is None and result.settings:
            out.append([("green", say("already", path=result.config))])
    for code, args in result.unknown:
        out.append([(STYLES["advice"], f"{mark('advice')} "), ("", say(f"unknown.{code}", **args))])
    if result.patch is not None:
        out.append([("", "")])
        out += diff.layout(result.patch)
    if result.chosen is not None:
        out.append([("dim", say("sources", list="; ".join(SOURCES)))])
    return out


def as_json(result: Result, applied: str = "") -> dict[str, Any]:
    """``doctor.resume/1``."""
    steps, chosen = result.steps, result.chosen

    def step_of(step: runsteps.Step | None) -> dict[str, Any] | None:
        if step is None:
            return None
        return {"step": step.number, "epoch": step.epoch, "loss": repr(step.loss), "lr": step.rate,
                "source": step.source, "line": step.line}  # fmt: skip

    return {
        "schema": "doctor.resume/1", "run": result.run, "ranks": result.ranks,
        "last_step": step_of(steps.last), "last_good_step": step_of(steps.last_good),
        "bad_from": step_of(steps.bad_from),
        "sets": [
            {"name": s.name, "layout": s.layout, "folder": s.folder, "state": s.state, "step": s.step,
             "told": s.told or None, "notes": s.notes,
             "files": [f._asdict() for f in s.files]} for s in result.sets
        ],
        "chosen": chosen.name if chosen is not None else None, "next_step": result.next_step,
        "next_lr": result.next_rate, "lr_from": result.rate_from or None,
        "settings": dict(result.settings), "config": result.config or None,
        "diff": [line for f in result.patch.files for line in diff.unified(f)] if result.patch is not None else [],
        "unknown": [{"code": code, **args} for code, args in result.unknown], "sources": list(SOURCES),
        "applied": applied or None,
    }  # fmt: skip
