"""What the pages of the model screen share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rich.cells import cell_len
from rich.text import Text
from textual.containers import Vertical

from doctor import crash
from doctor.i18n import pick, tr
from doctor.tui import configs
from doctor.tui.base import ascii_only, outside, wrap

if TYPE_CHECKING:
    from doctor.tui.app import DoctorApp


class Page(Vertical):
    """A page of the screen."""

    @property
    def doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def tr(self, key: str, **values: Any) -> str:
        """A text of this package; ``key`` without its prefix."""
        return tr(self.doctor.lang, "tui." + key, **values)

    def no_plan(self, seen: configs.Seen | None) -> str:
        """Why a file has nothing to show here."""
        if seen is not None and seen.why:
            return outside(f"{seen.path}: {pick(seen.why, self.doctor.lang)}")
        return self.tr("model.no_plan")


def crashed(error: Exception) -> str:
    """The failure of a worker, recorded, in a line."""
    crash.save(error, "tui")
    return f"{type(error).__name__}: {error}"


def more() -> str:
    """What stands for the rest of a text."""
    return "..." if ascii_only() else "…"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:59] + more()


def change(old: str, new: str) -> str:
    """Old and new value of a key."""
    return f"{_short(old) or '-'} {'->' if ascii_only() else '→'} {_short(new) or '-'}"


def hanging(head: str, words: str, columns: int, style: str = "") -> Text:
    """Words behind a head, wrapped below themselves."""
    indent = cell_len(head)
    rows = wrap(words, max(16, columns - indent)) or [""]
    text = Text(head, no_wrap=True)
    text.append(("\n" + " " * indent).join(rows), style)
    return text
