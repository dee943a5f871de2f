"""Profiles of a run: the tables that msprof and the profiler of MindSpore write, and what the rules say of them.

``read`` takes one file as a stream; ``judge`` makes values of all tables (``facts``) and asks the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from doctor.i18n import LANGUAGES, tr
from doctor.model import Text
from doctor.profile import jsons, tables
from doctor.profile.tables import JUDGED, Table

HEAD = 1 << 16
"""Bytes that tell a table."""


def kind_of(head: bytes) -> str:
    """csv, the kind of a JSON file, or nothing if a file is no table of a profiler. By its first bytes."""
    found = jsons.kind_of(head)
    if found:
        return found
    for _, line in tables.lines([head[:HEAD]]):
        if line.strip():
            first = line.split(",", 1)[0].strip("'\" ")
            known = tables.header(line) is not None or (first in ("op_ids", "pipeline_ops") and line.count(",") > 0)
            return "csv" if known else ""
    return ""


def read(name: str, kind: str, chunks: Iterable[bytes], stop: Callable[[], bool] = lambda: False) -> Table:
    """The table in a file of a kind that ``kind_of`` told."""
    if kind == "csv":
        return tables.read(name, chunks, stop)
    return jsons.read(name, chunks, kind, stop)


def unread(table: Table) -> Text:
    """Why a table is not judged, empty if it is."""
    if table.kind == "timeline":
        return {lang: tr(lang, "profile.timeline") for lang in LANGUAGES}
    if table.kind not in JUDGED:
        columns = ", ".join(table.unused[:8])
        return {lang: tr(lang, "profile.unknown_columns", columns=columns) for lang in LANGUAGES}
    if not table.rows:
        return {lang: tr(lang, "profile.no_rows") for lang in LANGUAGES}
    return {}
