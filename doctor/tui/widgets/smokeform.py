"""The knobs of the smoke test: what is left empty stays as it is by default, or as the configuration says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Checkbox, Input, Label, Select

from doctor.i18n import tr
from doctor.smoke.faults import NAMES
from doctor.smoke.settings import CHOICES, COMPARED, RANGES, Settings
from doctor.tui.base import outside

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp

FLAGS = tuple(name for name, value in Settings()._asdict().items() if isinstance(value, bool))
"""Knobs that are on or off."""

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("run", ("python", "from_config", "device", "mode", "dtype", "steps", "ranks", "inject")),
    ("shape", ("layers", "hidden", "heads", "seq", "batch", "vocab")),
    ("more", ("baseline", "compare", "workdir", "weights", "curve", "profile", "limit", "seed")),
    ("model", ("attention", "kv_heads", "head_dim", "ffn", "gated", "norm", "epsilon", "activation", "gelu",
               "positions", "untied", "dropout")),
    ("training", ("amp", "loss_scale", "recompute", "accumulation", "optimizer", "rate", "clip", "beta1", "beta2",
                  "adam_epsilon", "decay")),
)  # fmt: skip
"""Every option of ``doctor smoke`` that is about the run, the usual ones first."""


def _meant(settings: Settings, name: str) -> object:
    """What is taken for a knob; where 0 leaves it to the others, what follows from them."""
    follows = {"steps": settings.training_steps, "kv_heads": settings.key_heads, "head_dim": settings.size,
               "ffn": settings.inner}  # fmt: skip
    return follows.get(name, getattr(settings, name, ""))


class Tick(Checkbox):
    """Its mark is there only when it is on: by its colour alone nobody could tell."""

    def __init__(self, id: str) -> None:
        super().__init__("", id=id, compact=True)
        self.BUTTON_INNER = " "

    def watch_value(self) -> None:
        self.BUTTON_INNER = "X" if self.value else " "
        super().watch_value()


class SmokeForm(VerticalScroll):
    """``given`` is what was chosen, as ``doctor smoke`` would get it."""

    class Changed(Message):
        """Some knob was turned."""

    def compose(self) -> ComposeResult:
        for group, names in GROUPS:
            yield Label(" ", id=f"smoke-group-{group}", classes="form-group")
            for name in names:
                with Horizontal(classes="form-row"):
                    yield Label(name.replace("_", "-"), classes="form-name")
                    yield self._field(name)

    def _field(self, name: str) -> Input | Select[str] | Checkbox:
        id_ = f"smoke-{name}"
        if name in CHOICES or name == "inject":
            words = CHOICES.get(name, NAMES)
            return Select([(word, word) for word in words], id=id_, compact=True, prompt=" ")
        if name in FLAGS:
            return Tick(id_)
        return Input(id=id_, compact=True, select_on_focus=False)

    def on_mount(self) -> None:
        self.retranslate(Settings())

    def retranslate(self, settings: Settings) -> None:
        """Headings, and what is taken where nothing is given: ``settings``."""
        lang = cast("DoctorApp", self.app).lang
        for group, names in GROUPS:
            self.query_one(f"#smoke-group-{group}", Label).update(tr(lang, f"tui.smoke.group.{group}"))
            for name in names:
                field = self.query_one(f"#smoke-{name}")
                if isinstance(field, Select):
                    field.prompt = str(getattr(settings, name)) or "-"
                elif isinstance(field, Input):
                    value = _meant(settings, name) if name in RANGES else ""
                    hint = f"{value:g}" if isinstance(value, int | float) else ""
                    if name in ("python", "from_config"):
                        hint = tr(lang, f"tui.smoke.hint.{name}")
                    elif name == "compare":
                        hint = ", ".join(COMPARED)
                    field.placeholder = hint

    def given(self) -> dict[str, Any]:
        """What was chosen; raises ValueError with the name of a field whose number cannot be read."""
        out: dict[str, Any] = {}
        defaults = Settings()
        for _, names in GROUPS:
            for name in names:
                field = self.query_one(f"#smoke-{name}")
                if isinstance(field, Checkbox):
                    if field.value:
                        out[name] = True
                elif isinstance(field, Select):
                    if isinstance(field.value, str):
                        out[name] = field.value
                elif isinstance(field, Input) and field.value.strip():
                    word = field.value.strip()
                    if name == "compare":
                        out[name] = tuple(part.strip() for part in word.split(",") if part.strip())
                    elif name in RANGES:
                        try:
                            out[name] = type(getattr(defaults, name))(word)
                        except ValueError:
                            raise ValueError(f"{name.replace('_', '-')}: {outside(word)}") from None
                    else:
                        out[name] = word
        return out

    @on(Input.Changed)
    @on(Select.Changed)
    @on(Checkbox.Changed)
    def _turned(self, event: Message) -> None:
        event.stop()
        self.post_message(self.Changed())
