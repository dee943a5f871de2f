"""Colours: dark, light, high contrast. A test measures them cell by cell on the screens themselves.

Text has a contrast of 4.5:1 or more against what it stands on, 7:1 in the theme of high contrast (WCAG 2.2, 1.4.3 and
1.4.6). The named colours that reports use (red, yellow, cyan …) and dimmed text are part of a theme.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme


class Colours(NamedTuple):
    """A theme of Textual, the colours that stand for a terminal's own, and that of dimmed text."""

    theme: Theme
    ansi: TerminalTheme
    dim: str


def _rgb(text: str) -> tuple[int, int, int]:
    return (int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16))


def _ansi(background: str, foreground: str, colours: str, dim: str) -> TerminalTheme:
    """``colours``: red, green, yellow, blue, magenta, cyan; the bright ones are the same."""
    six = [_rgb(one) for one in colours.split()]
    return TerminalTheme(
        _rgb(background), _rgb(foreground),
        [_rgb(background), *six, _rgb(foreground)], [_rgb(dim), *six, _rgb(foreground)],
    )  # fmt: skip


DARK = Colours(
    Theme(
        name="doctor-dark",
        primary="#6cb6ff", secondary="#3d5a7a", accent="#f2b35e", warning="#e3b341", error="#ff7b72", success="#57cc6d",
        foreground="#e6edf3", background="#11161c", surface="#151b23", panel="#1f2833", boost="#1b232d", dark=True,
        variables={
            "text": "#e6edf3", "text-muted": "#a5b1bd", "text-disabled": "#8b98a5", "text-error": "#ff8f87",
            "text-success": "#6fd884", "text-warning": "#e9c15c", "text-primary": "#8cc6ff", "text-accent": "#f5c27c",
            "text-secondary": "#a9c4df",
            "block-cursor-background": "#2f6cb0", "block-cursor-foreground": "#ffffff",
            "block-cursor-blurred-background": "#26384d", "block-cursor-blurred-foreground": "#e6edf3",
            "footer-background": "#1f2833", "footer-foreground": "#e6edf3", "footer-key-foreground": "#8cc6ff",
            "footer-description-foreground": "#c3ccd5", "border": "#6cb6ff", "border-blurred": "#3d5a7a",
            "button-color-foreground": "#0b1015",
            "button-foreground": "#e6edf3", "input-selection-background": "#2f6cb0",
            "scrollbar": "#3d5a7a", "scrollbar-hover": "#5b82ab", "scrollbar-active": "#6cb6ff",
            "scrollbar-background": "#1b232d", "scrollbar-background-hover": "#1b232d",
            "scrollbar-background-active": "#1b232d", "scrollbar-corner-color": "#151b23",
        },
    ),
    _ansi("#11161c", "#e6edf3", "#ff7b72 #57cc6d #e3b341 #6cb6ff #d2a8ff #56d4dd", "#a5b1bd"),
    "#a5b1bd",
)  # fmt: skip

LIGHT = Colours(
    Theme(
        name="doctor-light",
        primary="#0a55a8", secondary="#8fa9c4", accent="#8a4b00", warning="#7a4f00", error="#b3201b", success="#12672e",
        foreground="#1a2027", background="#eef1f4", surface="#f7f8fa", panel="#dfe5eb", boost="#e8edf2", dark=False,
        variables={
            "text": "#1a2027", "text-muted": "#4a5561", "text-disabled": "#56616c", "text-error": "#a11b17",
            "text-success": "#0f5a28", "text-warning": "#6d4600", "text-primary": "#0a4c96", "text-accent": "#7a4200",
            "text-secondary": "#2f4a66",
            "block-cursor-background": "#0a55a8", "block-cursor-foreground": "#ffffff",
            "block-cursor-blurred-background": "#c5d6e8", "block-cursor-blurred-foreground": "#1a2027",
            "footer-background": "#dfe5eb", "footer-foreground": "#1a2027", "footer-key-foreground": "#0a4c96",
            "footer-description-foreground": "#333d47", "border": "#0a55a8", "border-blurred": "#8fa9c4",
            "button-color-foreground": "#ffffff",
            "button-foreground": "#1a2027", "input-selection-background": "#a9c9ec",
        },
    ),
    _ansi("#f7f8fa", "#1a2027", "#b3201b #12672e #7a4f00 #0a55a8 #7a2f9c #00626e", "#4a5561"),
    "#4a5561",
)  # fmt: skip

CONTRAST = Colours(
    Theme(
        name="doctor-contrast",
        primary="#7fd4ff", secondary="#ffffff", accent="#ffd75f", warning="#ffe34d", error="#ff9d96", success="#7dff8a",
        foreground="#ffffff", background="#000000", surface="#000000", panel="#000000", boost="#101010", dark=True,
        variables={
            "text": "#ffffff", "text-muted": "#e0e0e0", "text-disabled": "#c8c8c8", "text-error": "#ffb0aa",
            "text-success": "#8bff97", "text-warning": "#ffe86b", "text-primary": "#a6e2ff", "text-accent": "#ffe08a",
            "text-secondary": "#ffffff",
            "block-cursor-background": "#ffe34d", "block-cursor-foreground": "#000000",
            "block-cursor-blurred-background": "#333300", "block-cursor-blurred-foreground": "#ffffff",
            "footer-background": "#000000", "footer-foreground": "#ffffff", "footer-key-foreground": "#ffe34d",
            "footer-description-foreground": "#ffffff", "border": "#ffe34d", "border-blurred": "#ffffff",
            "button-color-foreground": "#000000",
            "button-foreground": "#ffffff", "input-selection-background": "#00407a",
            "scrollbar": "#a6a6a6", "scrollbar-hover": "#ffffff", "scrollbar-active": "#ffe34d",
            "scrollbar-background": "#262626", "scrollbar-background-hover": "#262626",
            "scrollbar-background-active": "#262626", "scrollbar-corner-color": "#000000",
        },
    ),
    _ansi("#000000", "#ffffff", "#ff9d96 #7dff8a #ffe34d #8cc8ff #f0b8ff #6ff3ff", "#e0e0e0"),
    "#e0e0e0",
)  # fmt: skip

THEMES = {one.theme.name: one for one in (DARK, LIGHT, CONTRAST)}
"""In the order in which the key goes through them."""

DEFAULT = DARK.theme.name


class Dim(LineFilter):
    """Dimmed text in a colour of the theme: fainter by half, as terminals do it, cannot be read by everybody.

    Stands before the filter that gives named colours their values; what had one of these is just dim.
    """

    def __init__(self, colour: str) -> None:
        super().__init__()
        self._style = Style(color=RichColor.parse(colour), dim=False)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(s.text, s.style + self._style, s.control) if s.style is not None and s.style.dim else s
            for s in segments
        ]
