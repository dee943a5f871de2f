"""What all readers share: setting a declared value from what stands in a file, and deriving what follows."""

from __future__ import annotations

import re
from typing import Any

from doctor.plan.schema import BOOL, FIELDS, FLOAT, INT, TEXT, Plan, Trouble, Value, coerce

DTYPES = {
    "bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "half": "float16", "float16": "float16",
    "fp32": "float32", "float": "float32", "float32": "float32", "float8_e4m3fn": "float8", "int8": "int8",
}  # fmt: skip
WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "float8": 1}
"""Bytes of one element."""

_NUMBER = re.compile(r"[-+]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_MEMORY = re.compile(r"([1-9]\d*\.?\d*|0\.\d*)GB")


def words(text: str) -> frozenset[str]:
    """Names that are written down as a text, as a table of many is."""
    return frozenset(text.split())


LISTS = (
    "duplicate_keys", "unknown_keys", "unread_keys", "misplaced_keys", "text_numbers", "wrong_types", "bad_values",
    "near_types", "foreign_types", "near_values", "unknown_options", "cut_lines", "out_of_range", "unknown_words",
    "rope_faults", "empty_keys", "lacking_keys", "made_up_data", "foreign_marks", "stray_words", "wrong_files",
    "bad_patterns", "bad_exports", "bad_launch", "bad_arguments", "lost_variables", "odd_numbers", "conflicts",
    "lacking_options", "idle_options", "broken_options", "unset_names", "open_quotes",
)  # fmt: skip


class Notes:
    """Keys that are wrong in one way, collected over a file, with their places."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._found: dict[str, list[tuple[str, int]]] = {}
        self.slips: list[tuple[int, str, str]] = []
        """(line, word, what it most likely is) of misspelt keys, switches and class names"""

    def add(self, name: str, key: str, line: int) -> None:
        """Note ``key`` at ``line`` under a plan name such as ``file.text_numbers``; bounded. Raises KeyError for a name
        that is none of ``LISTS``."""
        if name[5:] not in LISTS:
            raise KeyError(name)
        found = self._found.setdefault(name, [])
        if len(found) < 50 and (key, line) not in found:
            found.append((key, line))

    def lines_of(self, *names: str) -> set[int]:
        """The lines of what was noted under some names."""
        return {line for name in names for _, line in self._found.get(name, ())}

    def text(self, line: int) -> str:
        """The text of a line, bounded."""
        return self.lines[line - 1].rstrip("\r\n")[:300] if 0 < line <= len(self.lines) else ""

    def into(self, plan: Plan) -> None:
        """Set the collected lists; a list without entries is empty, not absent."""
        for name in LISTS:
            found = self._found.get("file." + name, [])
            if found:
                spots = tuple((line, self.text(line)) for _, line in found)
                value = Value(
                    [key for key, _ in found], "set", plan.file, found[0][1], found[0][0], spots[0][1], "", spots
                )
            else:
                value = Value([], "derived", whose="the whole file")
            plan.put("file." + name, value)


WHY = {
    "tab": "a tab in the indentation", "several_documents": "a second document begins",
    "no_anchor": "an alias without its anchor", "odd_key": "a key that is no plain word",
    "alias_loop": "an anchor that holds itself", "not_a_mapping": "no mapping at the top", "not_utf8": "not UTF-8",
    "binary": "binary content", "too_large": "too large", "too_deep": "nested too deeply",
    "too_many_values": "too many values", "bomb": "aliases that multiply", "unreadable": "cannot be opened",
    "no_file": "no such file", "not_a_file": "no regular file", "empty": "empty",
}  # fmt: skip
"""What is wrong with a file, where the parser says nothing itself; shown as the parser's own words are."""


def failed(plan: Plan, trouble: Trouble, text: str = "") -> Plan:
    """A plan that holds only why there is none."""
    plan.troubles.append(trouble)
    lines = text.split("\n") if trouble.line else []
    shown = lines[trouble.line - 1].rstrip("\r")[:300] if 0 < trouble.line <= len(lines) else ""
    plan.put("file.problem", Value(trouble.code, "set", trouble.file, trouble.line, "", shown))
    why = str(trouble.args.get("why", "")) or WHY.get(trouble.code, trouble.code)
    plan.put("file.why", Value(why, "derived", whose="the parser"))
    return plan


def is_number_text(value: Any) -> bool:
    """Whether a text looks like a number that the YAML reader did not take for one (``1e-5``)."""
    return isinstance(value, str) and _NUMBER.fullmatch(value.strip()) is not None


def put(plan: Plan, notes: Notes, name: str, value: Any, line: int, key: str, file: str) -> bool:
    """Set a value if it has the declared type; otherwise note why not and block the name, so that rules about it are
    unknown. Returns whether it was set."""
    kind = FIELDS["plan." + name].type
    try:
        coerce(value, kind)
    except OverflowError as error:
        plan.values.pop(name, None)
        plan.block(name, f"{key} at line {line}: {error}")
        notes.add("file.wrong_types", key, line)
        return False
    except TypeError:
        if value is None:
            return False
        if kind in (INT, FLOAT) and is_number_text(value):
            notes.add("file.text_numbers", key, line)
        elif kind in (INT, FLOAT, BOOL, TEXT):
            notes.add("file.wrong_types", key, line)
        plan.block(name, f"{key}: {shown(value)!r} at line {line} is no {kind}")
        return False
    plan.put(name, Value(value, "set", file, line, key, notes.text(line)))
    return True


def shown(value: Any) -> str:
    """A value as text, bounded; Python refuses to write very long numbers."""
    try:
        return str(value)[:60]
    except ValueError:
        return "a very long number"


def memory_gib(text: str) -> float | None:
    """GiB of ``58GB`` as MindSpore reads ``max_device_memory``, None if it refuses the text.

    >>> memory_gib("58GB"), memory_gib("58G")
    (58.0, None)
    """
    found = _MEMORY.fullmatch(text)
    return float(found[1]) if found else None


def derive(plan: Plan) -> None:
    """Everything that follows from the values at hand, in any format."""
    get = plan.get
    mode = get("run.mode")
    if mode is not None:
        plan.derive("run.training", mode in ("train", "finetune"), f"run_mode {mode}")
    hidden, heads = get("model.hidden_size"), get("model.num_heads")
    if heads and "model.kv_heads" not in plan.blocked:
        plan.derive("model.kv_heads", heads, "as many as query heads")
    if get("model.kv_lora_rank"):
        plan.derive("model.mla", True, "kv_lora_rank")
    if hidden and heads and hidden > 0 and heads > 0 and hidden % heads == 0 and not get("model.mla"):
        plan.derive("model.head_dim", hidden // heads, f"hidden_size {hidden} / heads {heads}")
    columns = get("data.columns")
    if columns is not None:
        plan.derive("data.num_columns", len(columns), "length of the list of columns")
    sizes = [get("parallel." + n) for n in ("dp", "mp", "cp", "pp")]
    if None not in sizes:
        product = 1
        for size in sizes:
            product *= size
        plan.derive("parallel.product", product, " * ".join(map(str, sizes)))
    memory = get("context.memory")
    if memory is not None and memory_gib(memory) is not None:
        plan.derive("context.memory_gib", memory_gib(memory), memory)
    kind = get("optimizer.type")
    if kind is not None:
        plan.derive("optimizer.adam", "adam" in kind.lower(), f"class {kind}")
    _global_batch(plan)


def _global_batch(plan: Plan) -> None:
    """samples of one step: size * dp * (micro batches or accumulation) * interleave."""
    get = plan.get
    size, dp, pp = get("batch.size"), get("parallel.dp"), get("parallel.pp")
    if size is None or dp is None or pp is None:
        return
    times = (get("parallel.micro_batches") or 1) if pp > 1 else (get("batch.accumulation") or 1)
    copies = get("parallel.micro_interleave") or 1
    plan.derive("batch.global_size", size * dp * times * copies, f"{size} * {dp} * {times} * {copies}")
