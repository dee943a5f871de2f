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
    from_config: str = "",
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

    ``from_config``: a configuration or launch script whose training plan gives shapes and settings
    (``doctor.smoke.scaled``); ``knobs`` win over it, ``settings`` is not used then. ``python``: the interpreter under
    test (default: ``python`` of the PATH). ``workdir``: keeps everything that is written; without it a temporary folder
    is used and removed. ``baseline``: a file to compare times and memory with, written when it has nothing for this
    host and these settings. ``compare``: settings to vary, of ``doctor.smoke.settings.COMPARED``. ``listen`` gets each
    event as it comes, ``cancelled`` is asked ten times a second; both in this thread. Other names are fields of
    ``Settings``.

    Raises SettingsError for settings that cannot work, a ``python`` that is none and a configuration that tells no
    shape, BaselineError and OSError for a baseline file, OSError for a configuration. Whatever goes wrong afterwards is
    a finding of the report.
    """
    from doctor.smoke.session import Session

    config = None
    if from_config:
        from doctor.smoke import scaled

        config = scaled.read(from_config)
        settings = config.settings
    given = from_mapping(((settings or Settings())._asdict()) | knobs)
    report = Session(checked(given), python, workdir, baseline, compare, rules, cancelled, listen).report()
    if config is not None:
        report.facts["smoke.config"] = {"value": config.to_json(), "source": from_config, "line": 0}
    return report
