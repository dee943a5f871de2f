"""Regular expressions that are compiled when first used.

A start of the doctor knows some hundred patterns and uses a dozen; compiling them all costs more than reading a log.
"""

from __future__ import annotations

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
