"""Ctrl-C and its kin for commands that show what they have when they are ended."""

from __future__ import annotations

import signal
from typing import Any


class Interrupt:
    """The first signal asks the work to end and to show what was found; the second one ends everything. A time limit
    and a closed terminal count as Ctrl-C does: no child is left behind. A signal that is ignored stays so."""

    def __init__(self) -> None:
        self.pressed = False

    def __enter__(self) -> Interrupt:
        wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        self._before = {n: signal.getsignal(n) for n in wanted if signal.getsignal(n) not in (signal.SIG_IGN, None)}
        for number in self._before:
            signal.signal(number, self._on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _on(self, number: int, frame: Any) -> None:
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True

    def __call__(self) -> bool:
        return self.pressed
