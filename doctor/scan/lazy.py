"""Regular expressions that are compiled when first used, and numpy, loaded when first needed.

A start of the doctor knows some hundred patterns and uses a dozen; compiling them all costs more than reading a log.
"""

from __future__ import annotations

import os
import re
from typing import Any


class Lazy:
    """Stands for a compiled pattern; the first use compiles it and puts its methods in place."""

    def __init__(self, pattern: Any, flags: int = 0) -> None:
        self._pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._pattern, self._flags)
        for method in ("match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"):
            setattr(self, method, getattr(compiled, method))
        self.pattern, self.groupindex = compiled.pattern, compiled.groupindex
        return getattr(compiled, name)


def lazy(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A text pattern, compiled at its first use."""
    return Lazy(pattern, flags)  # type: ignore[return-value]


def lazy_bytes(pattern: bytes, flags: int = 0) -> re.Pattern[bytes]:
    """A bytes pattern, compiled at its first use."""
    return Lazy(pattern, flags)  # type: ignore[return-value]


_loaded: list[Any] = []


def numpy_at_hand() -> Any:
    """numpy if ``load_numpy`` has loaded it, else None: it is not worth its import everywhere."""
    return _loaded[0] if _loaded else None


def load_numpy() -> None:
    """Import numpy without the threads of its linear algebra: nothing here multiplies large matrices, and their start
    takes as much time as the rest of the import (measured: 100 ms of CPU against 50 on two cores, more on many)."""
    if _loaded:
        return
    name = "OPENBLAS_NUM_THREADS"
    before = os.environ.get(name)
    os.environ[name] = before or "1"
    try:
        import numpy

        _loaded.append(numpy)
    finally:
        # what is started later shall have the user's own setting
        if before is None:
            del os.environ[name]
