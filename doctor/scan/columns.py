"""Tables of training values: the first line names the columns, the other lines are numbers.

Loggers write them (``metrics.csv``, exports of dashboards), and so do scripts that print ``step loss lr`` once and then
only numbers. Without any names the first column must count and the second one be the loss: that is inferred.
"""

import re
from itertools import pairwise
from typing import NamedTuple

from doctor.scan.lazy import lazy_bytes

HEAD = 1 << 16
"""Bytes in which the names and the first rows are looked for."""
FIRST = 40
"""Lines among which the names must stand."""
WIDEST = 64
"""Columns of a table, at most."""
ROWS = 3
"""Rows of numbers that must follow the names."""
NAMELESS_ROWS = 20
"""… and rows of a table without names."""

_KNOWN = (
    ("eval", rb"(?:val(?:id(?:ation)?)?|eval|test|dev)(?:[_ ./-].*)?loss"),
    ("loss", rb"(?:train(?:ing)?[_ ./-])?(?:.{0,40}/)?(?:(?:train(?:ing)?|lm|total|avg|mean|running)[_ ]?)?loss"
             rb"(?:[_ ](?:step|epoch|train))?"),
    ("loss_scale", rb"(?:.{0,40}/)?(?:loss|grad)[_ ]?scal(?:e|ing)"),
    ("lr", rb"(?:.{0,40}/)?(?:lr(?:-.{0,30})?|learning[_ ]?rate)"),
    ("grad_norm", rb"(?:.{0,40}/)?(?:global|grad(?:ient)?|total)[_ ]?norm"),
    ("overflow", rb"(?:is_)?overflow(?: cond)?|found_inf"),
    ("step_ms", rb"(?:.{0,40}/)?(?:(?:per_)?step[_ ]?time|iter(?:ation)?[_ ]?time)(?:[_ ]?\(?ms\)?)"),
    ("step_s", rb"(?:.{0,40}/)?(?:(?:per_)?step[_ ]?time|iter(?:ation)?[_ ]?time)(?:[_ ]?\(?s(?:ec)?\)?)?"),
    ("step", rb"(?:.{0,40}/)?_?(?:global[_ ]?)?(?:steps?|iter(?:ation)?s?)"),
    ("epoch", rb"(?:.{0,40}/)?epochs?"),
)  # fmt: skip
_WORD = rb"(?:nan|NaN|NAN|inf|Inf|INF)(?:inity)?|True|False|true|false"
_VALUE = rb"[ \t]*\"?([-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|\.\d+|" + _WORD + rb")|)\"?[ \t]*"
_LOCAL = rb"[ \t]*\"?([-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|" + _WORD + rb")|)\"?[ \t]*"
_NUMBERS = lazy_bytes(rb"[-+]?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|\.\d+|(?i:nan|inf(?:inity)?))")
_LEAD = b"# \t\xef\xbb\xbf"


class Table(NamedTuple):
    """Rows of one make: an expression with one group for each column that is read, and what the columns are."""

    pattern: re.Pattern[bytes]
    columns: tuple[str, ...]
    factors: tuple[float, ...]
    kind: str
    """train · eval"""
    inferred: bool
    """whether nothing named the columns"""
    local: bool
    """whether numbers may be written with a comma in them"""


def table_of(head: bytes) -> Table | None:
    """The table that a text begins with, None if it is none. ``head``: its first bytes."""
    lines = head[:HEAD].split(b"\n", FIRST + NAMELESS_ROWS + 1)
    if len(head) <= HEAD:
        lines.append(b"")
    for n, line in enumerate(lines[:FIRST]):
        if b"oss" not in line and b"OSS" not in line:
            continue
        found = _named(line, [one for one in lines[n + 1 : n + 1 + 4 * ROWS] if one.strip()])
        if found is not None:
            return found
    return _nameless(lines[:-1])


def _fields(line: bytes, separator: bytes) -> list[bytes]:
    if separator == b"|":
        line = line.strip(b" \t\r|")
    text = line.strip(b"\r" + _LEAD if separator != b"\t" else b"\r# ")
    parts = text.split(separator) if separator.strip() or separator == b"\t" else text.split()
    return [part.strip().strip(b'"').strip() for part in parts]


def _separator(line: bytes) -> bytes:
    """What stands between the columns: bars where a line is framed by them, else the mark that occurs most often, else
    blanks."""
    framed = line.strip()
    if framed[:1] == b"|" == framed[-1:]:
        return b"|"
    return max((b",", b";", b"\t"), key=line.count) if any(mark in line for mark in (b",", b";", b"\t")) else b" "


def _named(line: bytes, rows: list[bytes]) -> Table | None:
    """The table whose columns a line names, if rows of as many numbers follow."""
    separator = _separator(line)
    if b": " in line or b"=" in line:
        return None  # names with their values: a line of a log
    names = [name.lower() for name in _fields(line, separator)]
    if not 2 <= len(names) <= WIDEST or any(_NUMBERS.fullmatch(name) for name in names) or len(rows) < 1:
        return None
    columns: dict[str, int] = {}
    for n, name in enumerate(names):
        known = _column(name)
        if known:
            columns.setdefault(known, n)
    if separator == b"|" and not {"step", "epoch"} & set(columns):
        return None  # results of models, not of steps
    kind = "train"
    if "loss" not in columns:
        if "eval" not in columns:
            return None
        columns["loss"], kind = columns["eval"], "eval"
    columns.pop("eval", None)
    if "step_ms" in columns:
        columns.pop("step_s", None)
    chosen = {n: name for name, n in columns.items()}
    pattern = _pattern(separator, [chosen.get(n, "") for n in range(len(names))])
    good = [row for row in rows[: 4 * ROWS] if pattern.fullmatch(row)]
    if len(good) < min(ROWS, len(rows)) or not any(_value(pattern, row, chosen) for row in good):
        return None
    read = [chosen[n] for n in sorted(chosen)]
    factors = tuple(1000.0 if name == "step_s" else 1.0 for name in read)
    found = tuple("step_time" if name.startswith("step_") else name for name in read)
    return Table(pattern, found, factors, kind, inferred=False, local=separator == b";")


def _column(name: bytes) -> str:
    """The column that a name means; empty for one that is not read, as the least and the greatest of a mean."""
    if name.endswith((b"__min", b"__max", b"__step")) and name != b"_step":
        return ""
    short = name.rpartition(b" - ")[2]  # the name of a run in front, as dashboards export it
    return next((known for known, regex in _KNOWN if re.fullmatch(regex, short)), "")


def _value(pattern: re.Pattern[bytes], row: bytes, chosen: dict[int, str]) -> bool:
    """Whether a row has a loss."""
    found = pattern.fullmatch(row)
    return found is not None and bool(found[1 + sorted(chosen).index(next(n for n in chosen if chosen[n] == "loss"))])


def _pattern(separator: bytes, columns: list[str]) -> re.Pattern[bytes]:
    """The expression of a row. Cells that are not read may hold anything but the separator."""
    blank = separator == b" "
    between = rb"[ \t]+" if blank else re.escape(separator)
    value = _LOCAL if separator == b";" else _VALUE.replace(rb"[ \t]*", b"") if blank else _VALUE
    if separator == b"\t":
        value = value.replace(rb"[ \t]*", b" *")
    other = rb"[^ \t]+" if blank else rb"[^" + re.escape(separator) + rb"\n]*"
    parts = [value if column else other for column in columns]
    if separator == b"|":
        return re.compile(rb"[ \t]*\|" + between.join(parts) + rb"\|[ \t\r]*")
    return re.compile((rb"[ \t]*" if blank else b"") + between.join(parts) + rb"[ \t\r]*")


def _nameless(lines: list[bytes]) -> Table | None:
    """A table of nothing but numbers: the first column counts, the second one has decimals and does not."""
    rows = [line for line in lines if line.strip()][:NAMELESS_ROWS]
    if len(rows) < NAMELESS_ROWS or not rows[0].strip()[:1].isdigit():
        return None
    separator = _separator(rows[0])
    if separator == b";":
        return None
    cells = [_fields(row, separator) for row in rows]
    width = len(cells[0])
    if not 2 <= width <= 6 or any(len(row) != width or not all(map(_NUMBERS.fullmatch, row)) for row in cells):
        return None
    counts = [row[0] for row in cells]
    if not all(count.isdigit() and len(count) < 13 for count in counts):
        return None
    steps = [int(count) for count in counts]
    if any(b <= a for a, b in pairwise(steps)):
        return None
    losses = [row[1] for row in cells]
    if sum(b"." in loss for loss in losses) < NAMELESS_ROWS - 1 or len(set(losses)) < NAMELESS_ROWS // 2:
        return None
    values = [float(loss) for loss in losses if loss.replace(b".", b"", 1).isdigit()]
    if len(values) < len(losses) // 2 or all(b >= a for a, b in pairwise(values)):
        return None  # a clock, or a sum
    pattern = _pattern(separator, ["step", "loss", *[""] * (width - 2)])
    return Table(pattern, ("step", "loss"), (1.0, 1.0), "train", inferred=True, local=False)
