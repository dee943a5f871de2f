"""A plan, its memory table and the mapping of its weights as plain text lines, in both languages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from doctor.i18n import LANGUAGES, tr
from doctor.plan import cel, memory
from doctor.plan.schema import FIELDS, Plan, Value
from doctor.plan.weights import Comparison
from doctor.render.safe import printable, width

SHOWN_ROWS = 200


def place(value: Value, lang: str) -> str:
    """Where a value comes from: ``file:line``, whose default, or how it follows."""
    if value.origin == "set":
        return f"{value.file}:{value.line}" if value.line else value.file
    return tr(lang, "plan." + value.origin, whose=value.whose)


def values(plan: Plan, lang: str) -> list[str]:
    """Every value of a plan with its place; what cannot be known at the end."""
    rows = [
        (name, cel.text_of(value.value) + _unit(name), place(value, lang))
        for name, value in plan.rows()
        if not name.startswith("file.") or (value.value and value.origin == "set")
    ]
    lines = _columns(rows)
    lines += [tr(lang, "plan.blocked", name=name, why=printable(why)) for name, why in sorted(plan.blocked.items())]
    return lines


def _unit(name: str) -> str:
    unit = FIELDS["plan." + name].unit
    return f" {unit}" if unit else ""


def gib(size: float) -> str:
    """Bytes as GiB with two digits.

    >>> gib(3 << 29)
    '1.50 GiB'
    """
    return f"{size / memory.GIB:.2f} GiB"


def memory_table(plan: Plan, lang: str) -> list[str]:
    """The estimate of the fullest stage with its arithmetic, the other stages in one line each, and, where the limit is
    exceeded, the nearest setting that fits. One line that says why where there is no estimate."""
    shape, settings = memory.shape_of(plan), memory.settings_of(plan)
    if shape is None or settings is None:
        return [tr(lang, "memory.no_estimate")]
    made = memory.estimate(shape, settings)
    lines = [
        tr(
            lang,
            "memory.title",
            parameters=f"{made.parameters / 1e9:,.2f}",
            stage=made.worst,
            layers=made.layers[made.worst],
        )
    ]
    rows = [
        (
            tr(lang, "memory." + row.name),
            gib(row.size),
            tr(lang, "memory.how." + row.how, **row.args),
            tr(lang, "confidence." + row.sure),
        )
        for row in made.stages[made.worst]
    ]
    rows.append((tr(lang, "memory.total"), gib(made.total()), "", tr(lang, "confidence.guess")))
    lines += _columns(rows)
    if len(made.stages) > 1:
        lines.append(tr(lang, "memory.stages", sizes=", ".join(gib(made.total(n)) for n in range(len(made.stages)))))
    return lines + fit_lines(plan, shape, made, lang)


def fit_lines(plan: Plan, shape: memory.Shape, made: memory.Estimate, lang: str) -> list[str]:
    """Whether an estimate stays below the limit of the plan, and the nearest setting that does."""
    limit = plan.get("context.memory_gib")
    if limit is None:
        return [tr(lang, "memory.no_limit")]
    if made.total() <= limit * memory.GIB:
        return [tr(lang, "memory.fits", limit=cel.text_of(limit))]
    lines = [tr(lang, "memory.exceeds", limit=cel.text_of(limit))]
    change = memory.nearest_fit(shape, made.settings, limit * memory.GIB)
    if change is None:
        return [*lines, tr(lang, "memory.nothing_fits")]
    settings_text = ", ".join(f"{name} = {cel.text_of(value)}" for name, value in change.changes)
    return [*lines, tr(lang, "memory.nearest", settings=settings_text, size=gib(change.total))]


VERDICTS = ("ok", "turn", "transposed", "shape", "missing")


def weight_rows(found: Comparison) -> list[dict[str, Any]]:
    """The mapping table: parameters that differ only in the number of their layer and agree in everything else are one
    row, ``h.{0-11}.ln_1.weight``. Verdicts: see ``doctor.plan.weights.Match``; ``extra`` is what the model lacks."""
    rows = [(row.name, row.target, row.have, row.want, row.verdict) for row in found.rows]
    rows += [(name, "", (), (), "extra") for name in found.extra]
    groups: dict[tuple[Any, ...], list[tuple[str, str, str]]] = {}
    for name, target, have, want, verdict in rows:
        number = _LAYER.search(name)
        key = (_LAYER.sub(".{}.", name, count=1) if number else name, have, want, verdict)
        groups.setdefault(key, []).append((number[1] if number else "", name, target))
    out = []
    for (pattern, have, want, verdict), members in groups.items():
        layers = ranges([int(layer) for layer, *_ in members if layer])
        name, target = members[0][1:]
        if len(members) > 1:
            name = pattern.replace("{}", f"{{{layers}}}", 1)
            target = _LAYER.sub(f".{{{layers}}}.", target, count=1)
        out.append({"name": name, "target": target, "have": list(have), "want": list(want), "verdict": verdict,
                    "count": len(members)})  # fmt: skip
    return out


_LAYER = re.compile(r"\.(\d{1,5})\.")


def ranges(numbers: Sequence[int]) -> str:
    """Whole numbers in short.

    >>> ranges([0, 1, 2, 5])
    '0-2,5'
    """
    parts: list[list[int]] = []
    for n in sorted(set(numbers)):
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def weight_table(found: Comparison, lang: str, *, every: bool = True) -> list[str]:
    """What a weight file holds against what the model expects; bounded. Not ``every``: what fits is only counted."""
    rows = weight_rows(found)
    counts = Counter[str]()
    for row in rows:
        counts[row["verdict"]] += row["count"]
    parts = [f"{tr(lang, 'weights.' + name)} {counts[name]}" for name in (*VERDICTS, "extra") if counts[name]]
    head = "tied" if found.tied else "own"
    lines = [tr(lang, "weights.title", file=printable(found.file), layout=tr(lang, "weights.layout." + found.layout),
                counts=("，" if lang == "zh" else ", ").join(parts)),
             tr(lang, f"weights.head.{head}.{'in' if found.head else 'out'}")]  # fmt: skip
    shown = [row for row in rows if every or row["verdict"] != "ok"]
    table = []
    for row in shown[:SHOWN_ROWS]:
        have, want = (str(row[side]) if row[side] else "-" for side in ("have", "want"))
        verdict = tr(lang, "weights." + row["verdict"])
        table.append((printable(row["name"]), have, want, printable(row["target"]) or "-", verdict))
    if table:
        heads = tuple(tr(lang, "weights.column." + name) for name in ("name", "have", "want", "target", "verdict"))
        lines += _columns([heads, *table])
    if len(shown) > SHOWN_ROWS:
        lines.append(tr(lang, "more", n=len(shown) - SHOWN_ROWS))
    return lines


def weight_facts(plans: Sequence[Plan]) -> list[dict[str, Any]]:
    """The mapping tables of all plans that have a weight file, for a report."""
    return [
        {"file": plan.file, "weights": plan.weights.file, "layout": plan.weights.layout, "tied": plan.weights.tied,
         "head": plan.weights.head, "states": plan.weights.states, "rows": weight_rows(plan.weights)[:SHOWN_ROWS],
         **{lang: weight_table(plan.weights, lang, every=False) for lang in LANGUAGES},
         "all": {lang: weight_table(plan.weights, lang) for lang in LANGUAGES}}
        for plan in plans if plan.weights is not None
    ]  # fmt: skip


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with aligned columns; Chinese characters count two."""
    if not rows:
        return []
    rooms = [max(width(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(row, rooms, strict=True)).rstrip()
        for row in rows
    ]
