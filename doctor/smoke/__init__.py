"""The smoke test: a small GPT is really trained in the interpreter under test, and what comes out is measured.

>>> from doctor import smoke
>>> report = smoke.run(python="/opt/venv/bin/python", steps=40)   # doctest: +SKIP
>>> report.verdict                                                 # doctest: +SKIP
'healthy'

The doctor imports neither MindSpore nor numpy: ``worker.py`` is run by its path and imports them there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from doctor.smoke.settings import Settings, SettingsError, checked, from_mapping

if TYPE_CHECKING:
    from doctor.model import Report

__all__ = ["Settings", "SettingsError", "run"]


def run(
    settings: Settings | None = None,
    *,
    python: str = "",
    workdir: str = "",
    baseline: str = "",
    compare: tuple[str, ...] = (),
    rules: str | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    listen: Callable[[dict[str, Any]], None] = lambda row: None,
    **knobs: Any,
) -> Report:
    """Train, judge, report.

    ``python``: the interpreter under test (default: ``python`` of the PATH). ``workdir``: keeps everything that is
    written; without it a temporary folder is used and removed. ``baseline``: a file to compare times and memory with,
    written when it has nothing for this host and these settings. ``compare``: settings to vary, of
    ``doctor.smoke.settings.COMPARED``. ``listen`` gets each event as it comes, ``cancelled`` is asked ten times a
    second; both in this thread. Other names are fields of ``Settings``.

    Raises SettingsError for settings that cannot work and for a ``python`` that is none, BaselineError and OSError for
    a baseline file. Whatever goes wrong afterwards is a finding of the report.
    """
    from doctor.smoke.session import Session

    given = from_mapping(((settings or Settings())._asdict()) | knobs)
    return Session(checked(given), python, workdir, baseline, compare, rules, cancelled, listen).report()
