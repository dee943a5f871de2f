"""The memory estimate: its arithmetic, and a bar for each part and each stage."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from doctor.i18n import tr
from doctor.plan import cel, memory, show
from doctor.plan.schema import Plan
from doctor.render.plot import bar
from doctor.render.text import mark
from doctor.tui.base import ascii_only, outside, wrap


class MemoryPage(VerticalScroll):
    """The estimate of one plan."""

    def compose(self) -> ComposeResult:
        yield Static(id="memory-text", markup=False)

    def show(self, plan: Plan | None, lang: str, why: str) -> None:
        """Another plan; ``why`` is said where there is none."""
        columns = max(40, self.scrollable_content_region.width - 1)
        text = memory_text(plan, lang, columns, ascii_only()) if plan else Text(why)
        self.query_one("#memory-text", Static).update(text)


def memory_text(plan: Plan, lang: str, columns: int, plain: bool = False) -> Text:
    """The estimate of the fullest stage with its arithmetic, a bar for each part, and one for each stage."""
    shape, settings = memory.shape_of(plan), memory.settings_of(plan)
    if shape is None or settings is None:
        return Text(tr(lang, "memory.no_estimate"))
    made = memory.estimate(shape, settings)
    text = Text(no_wrap=True)
    title = tr(lang, "memory.title", parameters=f"{made.parameters / 1e9:,.2f}", stage=made.worst,
               layers=made.layers[made.worst])  # fmt: skip
    text.append("\n".join(wrap(title, columns)) + "\n\n", "bold")
    rows = [
        (*PARTS.get(row.name, ("?", "white")), tr(lang, "memory." + row.name), row.size,
         tr(lang, "memory.how." + row.how, **row.args), tr(lang, "confidence." + row.sure))
        for row in made.stages[made.worst]
    ]  # fmt: skip
    rows.append((" ", "bold", tr(lang, "memory.total"), made.total(), "", tr(lang, "confidence.guess")))
    room = 2 + max(cell_len(row[2]) for row in rows)
    figures = max(len(show.gib(row[3])) for row in rows)
    sure_room = max(cell_len(row[5]) for row in rows)
    length = 20 if columns < 100 else 30
    for letter, colour, name, size, how, sure in rows:
        text.append(letter + " ", colour)
        text.append(name + " " * (room - cell_len(name)) + f"{show.gib(size):>{figures}}  ", "" if how else "bold")
        drawn = bar(size, made.total(), length, plain)
        text.append(drawn, colour)
        text.append(" " * (length - cell_len(drawn) + 2) + sure + " " * (sure_room - cell_len(sure)), "dim")
        beside = room + figures + length + sure_room + 8
        if how and beside + cell_len(how) <= columns:
            text.append(f"  {how}\n", "dim")
        elif how:
            text.append("\n")
            for line in wrap(how, columns - room - 2):
                text.append(" " * (room + 2) + line + "\n", "dim")
        else:
            text.append("\n")
    text.append("\n")
    text.append_text(_stages(plan, made, lang, columns, plain))
    for line in show.fit_lines(plan, shape, made, lang):
        text.append("\n".join(wrap(outside(line), columns)) + "\n")
    return text


MOST_STAGES = 64

PARTS = {
    "weights": ("W", "cyan"), "gradients": ("G", "green"), "optimizer": ("O", "blue"), "activations": ("A", "yellow"),
    "logits": ("L", "magenta"), "communication": ("C", "bright_black"), "runtime": ("R", "white"),
}  # fmt: skip
"""Letter and colour of each part of the memory: a bar is read by its letters where there are no colours."""


def stacked(rows: Sequence[memory.Row], most: float, columns: int, plain: bool = False) -> list[tuple[str, str]]:
    """The parts of a stage as one bar of (text, style); ``most`` bytes are ``columns`` cells.

    >>> rows = [memory.Row("weights", 4.0, "", {}, ""), memory.Row("optimizer", 2.0, "", {}, "")]
    >>> [text for text, _ in stacked(rows, 8.0, 8, plain=True)], [text for text, _ in stacked(rows, 8.0, 8)]
    (['WWWW', 'OO'], ['W███', 'O█'])
    """
    out, total, used = [], 0.0, 0
    for row in rows:
        letter, style = PARTS.get(row.name, ("?", "white"))
        total += row.size
        cells = min(columns, round(total / most * columns)) - used if most > 0 else 0
        if cells > 0:
            out.append((letter * cells if plain else letter + "█" * (cells - 1), style))
            used += cells
    return out


def _stages(plan: Plan, made: memory.Estimate, lang: str, columns: int, plain: bool) -> Text:
    """One bar for each stage, made of its parts, and the limit as a line through them."""
    text = Text(no_wrap=True)
    limit = plan.get("context.memory_gib")
    totals = [made.total(n) for n in range(len(made.stages))]
    most = max([*totals, (limit or 0) * memory.GIB])
    heads = [_head(made, n, lang) for n in range(len(made.layers))]
    room, figures = max(map(cell_len, heads)), max(len(show.gib(size)) for size in totals)
    length = max(10, min(100, columns - room - figures - 8))
    at = min(length - 1, round(limit * memory.GIB / most * length)) if limit else -1
    for n, size in list(enumerate(totals))[:MOST_STAGES]:
        over = limit is not None and size > limit * memory.GIB
        text.append(heads[n] + " " * (room - cell_len(heads[n]) + 2))
        text.append(f"{show.gib(size):>{figures}}  ", "bold red" if over else "")
        drawn = Text()
        for piece, style in stacked(made.stages[n], most, length, plain):
            drawn.append(piece, style)
        drawn.append(" " * (length - len(drawn)))
        if at >= 0:
            drawn = Text.assemble(drawn[:at], ("|", "bold"), drawn[at + 1 :])
        text.append_text(drawn)
        text.append(f" {mark('error', plain)}\n" if over else "\n", "bold red")
    if len(totals) > MOST_STAGES:
        text.append(tr(lang, "more", n=len(totals) - MOST_STAGES) + "\n")
    if limit:
        text.append(" " * (room + figures + 4 + at) + f"^ {cel.text_of(limit)} GB\n", "dim")
    return text


def _head(made: memory.Estimate, stage: int, lang: str) -> str:
    """A stage with its ranks: those of a stage follow each other, and hold the same."""
    s = made.settings
    ranks = s.dp * s.mp * s.cp
    first = stage * ranks
    which = f"{first}" if ranks == 1 else f"{first}-{first + ranks - 1}"
    return tr(lang, "tui.model.stage", stage=stage, layers=made.layers[stage], ranks=which)
