"""What every screen shares: texts in the language of the moment, translated key labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import ActiveBinding
from textual.color import Color
from textual.filter import LineFilter
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widget import Widget

from doctor.i18n import texts, tr
from doctor.render import text as layout
from doctor.render.safe import UNSAFE, redact, safe

if TYPE_CHECKING:
    from textual.message_pump import MessagePump
    from textual.widgets import Tree

    from doctor.tui.app import DoctorApp

NARROW_BELOW = 100
"""Columns from which panes stand side by side."""

LOW_BELOW = 36
"""Rows from which there is room for more than what is needed."""


_ascii: bool | None = None


def use_ascii(said: bool | None) -> None:
    """Marks and frames in ASCII or not; None: as DOCTOR_ASCII says."""
    global _ascii  # noqa: PLW0603 - one screen, one terminal
    _ascii = said


def ascii_only() -> bool:
    """Whether marks and frames must do without Unicode."""
    return bool(os.environ.get("DOCTOR_ASCII")) if _ascii is None else _ascii


def tree_marks(tree: Tree[Any]) -> None:
    """The marks of a tree for a terminal with or without Unicode."""
    if ascii_only():
        tree.ICON_NODE, tree.ICON_NODE_EXPANDED = "+ ", "- "
    else:
        tree.ICON_NODE, tree.ICON_NODE_EXPANDED = "▸ ", "▾ "
    tree.show_guides = not ascii_only()


def outside(text: str) -> str:
    """Text from a log or a file name for one line of the screen: harmless, secrets masked."""
    return redact(safe(text))


def wrap(text: str, columns: int) -> list[str]:
    """Lines of at most ``columns`` cells; words that are longer, paths and operator names, are cut."""
    out: list[str] = []
    for line in layout.wrap(text, columns):
        out += [line] if cell_len(line) <= columns else chop_cells(line, columns)
    return out


def tail(text: str, columns: int, plain: bool) -> str:
    """The end of a text that is too long for a line.

    >>> tail("run/worker_12.log", 14, True), tail("a.log", 14, True)
    ('..orker_12.log', 'a.log')
    """
    if cell_len(text) <= columns:
        return text
    sign = ".." if plain else "…"
    while text and cell_len(text) > columns - cell_len(sign):
        text = text[1:]
    return sign + text


def styled(lines: Sequence[layout.Line], *, fold: bool = False) -> Text:
    """Lines as one text; ``fold``: what is too long, such as a command, goes on in the next line."""
    text = Text(no_wrap=not fold, overflow="fold" if fold else None)
    for line in lines:
        for style, piece in line:
            text.append(piece, style)
        text.append("\n")
    return text


class Harmless(LineFilter):
    """The last look before the terminal: no control, direction or zero-width character gets there.

    Whatever is shown was made harmless where it came from, visibly; this is for what was overlooked, such as a name in
    an input line. These characters take no cell, so none is missing when they are left out.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(s.text.isprintable() for s in segments):
            return segments
        return [s if s.control else Segment(UNSAFE.sub("", s.text).replace("\n", ""), s.style) for s in segments]


def _plain_marks() -> dict[int, str]:
    """What draws lines and edges, as ASCII of the same width."""
    out = dict.fromkeys(map(chr, range(0x2500, 0x2580)), "+") | dict.fromkeys(map(chr, range(0x2580, 0x25A0)), " ")
    out |= dict.fromkeys("─━┄┅┈┉╌╍═╴╶╸╺╼╾▔", "-") | dict.fromkeys("│┃┆┇┊┋╎╏║╵╷╹╻╽╿▏▕", "|")
    out |= {"█": "#", "░": ".", "▒": ":", "…": "~", "·": "-", "•": "*", "▲": "^", "▼": "v", "▶": ">", "▸": ">",
            "▾": "v", "✔": "+", "✖": "x", "⊘": "/", "×": "x", "→": ">", "–": "-", "—": "-", "🔎": "> "}  # fmt: skip
    return str.maketrans(out)


class Plain(LineFilter):
    """For terminals without Unicode: what Textual draws itself, such as scroll bars, and what was overlooked. Texts in
    other scripts stay; a part of a cell, as at the end of a scroll bar, is a blank."""

    _MARKS = _plain_marks()

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(s.text.isascii() for s in segments):
            return segments
        return [s if s.control else Segment(s.text.translate(self._MARKS), s.style) for s in segments]


class TranslatedScreen(Screen[ScreenResultType]):
    """A screen whose key labels are keys of the text tables; :meth:`retranslate` sets the rest."""

    PALETTE: ClassVar[tuple[str, ...]] = ()
    """Actions that the command palette offers here: ``copy`` is ``action_copy`` with the texts ``tui.key.copy`` and
    ``tui.about.copy``."""
    KEY_SECTION: ClassVar[tuple[str, tuple[tuple[str, str], ...]]] = ("", ())
    """The heading of this screen in the help (a text key) and its rows: (keys, text key)."""

    @classmethod
    def opened(cls, app: DoctorApp) -> TranslatedScreen[ScreenResultType]:
        """A new one, as its key opens it."""
        return cls()

    def commands(self) -> list[tuple[str, Callable[[], Any]]]:
        """(name, what to call) of the actions that the palette offers here."""
        return [(name, getattr(self, f"action_{name}")) for name in self.PALETTE]

    @property
    def doctor(self) -> DoctorApp:
        return cast("DoctorApp", self.app)

    def tr(self, key: str, **values: Any) -> str:
        """A text of this package; ``key`` without its prefix."""
        return tr(self.doctor.lang, "tui." + key, **values)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        """The bindings of the moment with their labels in the language of the moment."""
        from dataclasses import replace

        words = texts(self.doctor.lang)
        out = {}
        for key, active in super().active_bindings.items():
            # the palette's own key is the one binding that Textual names itself
            name = "tui.key.palette" if active.binding.action == "command_palette" else active.binding.description
            name = self.label(name)
            if name in words:
                binding = replace(active.binding, description=words[name], tooltip="")
                active = active._replace(binding=binding, tooltip="")
            out[key] = active
        return out

    def label(self, name: str) -> str:
        """The text that a key has at the moment; ``name`` is that of its binding."""
        return name

    def machine_changed(self) -> None:
        """There is news in ``doctor.checking``."""

    def zoom(self, kinds: tuple[type[Widget], ...]) -> None:
        """The pane of one of these kinds that has the focus alone, or all of them again."""
        if self.maximized:
            self.minimize()
            return
        inside = self.focused.ancestors_with_self if self.focused is not None else ()
        pane = next((one for one in inside if isinstance(one, kinds)), None)
        if pane is not None:
            self.maximize(pane, container=False)

    def retranslate(self) -> None:
        """Set every text anew; called once at the start and after each change of language."""

    ready = False
    """Whether its widgets are there: what happens before and after is none of its business"""

    async def on_event(self, event: events.Event) -> None:
        # a screen that is closed while it opens never gets its widgets: there is nothing to set up
        if isinstance(event, events.Mount) and (not self.children or self._pruning or self._closing):
            return
        await super().on_event(event)

    def _invoke_later(self, callback: Callable[[], Any], sender: MessagePump) -> None:
        # what was to be done once the screen is drawn is not done by a widget that has gone by then: its children are
        # no longer there, and its error would end the app
        def while_there() -> Any:
            of = getattr(getattr(callback, "func", callback), "__self__", None)
            gone = isinstance(of, Widget) and (of._closing or of._pruning or not of.is_attached)
            return None if gone else callback()

        super()._invoke_later(while_there, sender)

    def _reset_focus(self, widget: Widget, avoiding: list[Widget] | None = None) -> None:
        # a widget may hear that it was hidden when it is shown again and has got the focus: it would give it away
        shown = widget.is_attached and all(one.display for one in widget.ancestors_with_self if one is not self.app)
        if avoiding is None and shown and widget.focusable:
            return
        super()._reset_focus(widget, avoiding)

    def on_mount(self) -> None:
        self.ready = True
        self.set_class(ascii_only(), "-ascii")
        self.retranslate()

    def on_unmount(self) -> None:
        self.ready = False


class TranslatedModal(TranslatedScreen[ScreenResultType], ModalScreen[ScreenResultType]):
    """A dialog."""

    PASTES: ClassVar[bool] = False
    """Whether a paste over the dialog goes where every paste goes."""
