"""One line on a terminal's stderr that is written over, and gone when the result comes."""

from __future__ import annotations

import sys


class StatusLine:
    """Leaves nothing behind once ``close`` was called."""

    def __init__(self) -> None:
        self.shown = False

    def show(self, text: str) -> None:
        """Write over what stood there."""
        self.shown = True
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    def close(self) -> None:
        """Clear the line if there is one."""
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
