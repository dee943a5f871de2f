"""The values of training lines as a table: CSV, or Parquet where pyarrow is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from typing import IO, Any

from doctor.run.places import place_sources
from doctor.scan.scanner import Scanned
from doctor.scan.series import MISSING, Track

COLUMNS = ("step", "epoch", "loss", "lr", "grad_norm", "loss_scale", "overflow", "skipped", "nan_steps", "step_time",
           "throughput", "data_time")  # fmt: skip
_HEADS = {"step_time": "step_time_ms", "data_time": "data_time_ms"}
HEADS = ("source", "rank", "kind", *(_HEADS.get(name, name) for name in COLUMNS), "throughput_unit", "line")
"""Columns of the table. Times are in ms, throughput is in the log's own unit; ``line`` is empty for what was read from
a stream with returns, where lines have no number."""


def can(form: str) -> bool:
    """Whether this form can be written here."""
    return form != "parquet" or importlib.util.find_spec("pyarrow") is not None


def _tracks(scans: Sequence[Scanned]) -> Iterator[tuple[Track, int | None]]:
    """(track, rank)"""
    ranks = [source.rank for source in place_sources(scans)]
    for scan, rank in zip(scans, ranks, strict=True):
        for track in scan.tracks:
            yield track, track.rank if track.rank is not None else rank


def csv_text(scans: Sequence[Scanned]) -> str:
    """All training lines as CSV, one row each; an empty cell is a value that the line does not give."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADS)
    for track, rank in _tracks(scans):
        columns = [track.columns.get(name) for name in COLUMNS]
        unit = track.units.get("throughput", "")
        for row in range(len(track)):
            cells = [_cell(values[row]) if values is not None else "" for values in columns]
            line = track.lines[row] if not track.marks else ""
            writer.writerow([track.source, "" if rank is None else rank, track.kind, *cells, unit, line])
    return out.getvalue()


def _cell(value: float) -> str:
    if value == MISSING:
        return ""
    return str(int(value)) if math.isfinite(value) and value.is_integer() and abs(value) < 1e15 else repr(value)


def write_parquet(scans: Sequence[Scanned], file: IO[bytes]) -> None:
    """All training lines as Parquet, a row group for each track: null is a value that the line does not give, NaN one
    that it gives. Raises ImportError without pyarrow."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    texts = pa.dictionary(pa.int32(), pa.string())
    types = [texts, pa.int32(), texts, *[pa.float64()] * len(COLUMNS), texts, pa.int64()]
    schema = pa.schema(list(zip(HEADS, types, strict=True)))
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for track, rank in _tracks(scans):
            rows = len(track)
            if not rows:
                continue

            def same(value: str, rows: int = rows) -> Any:
                return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array([value]))

            def numbers(name: str, track: Track = track, rows: int = rows) -> Any:
                values = track.columns.get(name)
                if values is None:
                    return pa.nulls(rows, pa.float64())
                column = np.frombuffer(values, np.float64)
                return pa.array(column, mask=column == MISSING)

            lines = pa.nulls(rows, pa.int64()) if track.marks else pa.array(np.frombuffer(track.lines, np.int64))
            ranks = pa.nulls(rows, pa.int32()) if rank is None else pa.array(np.full(rows, rank, np.int32))
            unit = track.units.get("throughput", "")
            parts = [same(track.source), ranks, same(track.kind), *map(numbers, COLUMNS), same(unit), lines]
            writer.write_table(pa.Table.from_arrays(parts, schema=schema))
