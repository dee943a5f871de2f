"""A plan, its memory table and the mapping of its weights as plain text lines, in both languages."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.i18n import tr
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


def weight_table(found: Comparison, lang: str) -> list[str]:
    """What a weight file holds against what the model expects; bounded."""
    rows = []
    for row in found.rows[:SHOWN_ROWS]:
        have = str(list(row.have)) if row.have else "-"
        verdict = tr(lang, "weights." + row.verdict)
        rows.append((printable(row.name), have, str(list(row.want)), printable(row.target) or "-", verdict))
    lines = _columns(rows)
    if len(found.rows) > SHOWN_ROWS:
        lines.append(tr(lang, "more", n=len(found.rows) - SHOWN_ROWS))
    lines += [tr(lang, "weights.extra", name=printable(name)) for name in found.extra[:20]]
    return lines


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows with aligned columns; Chinese characters count two."""
    if not rows:
        return []
    rooms = [max(width(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(row, rooms, strict=True)).rstrip()
        for row in rows
    ]
