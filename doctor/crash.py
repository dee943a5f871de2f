"""Record of a failure of the doctor's own, for whoever is to mend it. Loaded only when there is one."""

from __future__ import annotations

import sys
import tempfile
import traceback

from doctor import __version__
from doctor.render.safe import redact


def save(error: BaseException, where: str) -> str:
    """Write what is needed to mend it, secrets masked; ``where`` names the interface or the call. Returns the path,
    empty if it cannot be written: a full disk may be the very trouble."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="doctor-crash-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(redact(f"doctor {__version__}, Python {sys.version}\n{where}\n{trace}"))
            return file.name
    except OSError:
        return ""
