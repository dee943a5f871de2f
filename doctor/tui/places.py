"""The screens that a key opens, in the order of the palette. To add one: a row here, an action in the app, three texts.

A screen is imported when it is opened first: what is not shown at the start must not slow it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from doctor.tui.base import TranslatedScreen


class Place(NamedTuple):
    """``name`` is the action and, in the texts, ``tui.key.NAME``, ``tui.about.NAME`` and, on its button,
    ``tui.home.NAME``; ``screen`` is module:class below ``doctor.tui.screens``. ``footer``: the key is shown on every
    screen."""

    name: str
    key: str
    screen: str
    footer: bool = False

    def load(self) -> type[TranslatedScreen[Any]]:
        """The class of the screen."""
        module, _, name = self.screen.partition(":")
        screen: type[TranslatedScreen[Any]] = getattr(import_module(f"doctor.tui.screens.{module}"), name)
        return screen


PLACES = (
    Place("machine", "e", "machine:MachineScreen", footer=True),
    Place("model", "m", "model:ModelScreen"),
    Place("smoke", "t", "smoke:SmokeScreen"),
    Place("watch", "w", "watch:WatchScreen"),
    Place("checks", "k", "checks:ChecksScreen", footer=True),
)

RESULT = Place("result", "", "result:ResultScreen")
"""Opened by a diagnosis that has ended."""
