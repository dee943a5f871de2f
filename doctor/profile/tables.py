"""Tables that profilers write, read as a stream: which one it is, and its rows summed up.

Column names differ between versions and tools (``Task Duration(us)`` of msprof is ``Duration(us)`` of the frameworks),
so they are looked up by their meaning; the unit is the one in the header. Memory does not grow with the file.

Names and units: MindSpore 2.10 ``mindspore/profiler`` (``OpSummaryHeaders``, ``StepTraceTimeHeaders``, the minddata
viewers), torch_npu ``_csv_headers.py``, and the reference of msprof for CANN 6.0 to 9.0 (op_summary, op_statistic,
step_trace, aicpu, task_time); for MindSpore up to 2.2 ``mindspore/profiler/parser/integrator.py`` and MindInsight.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

LINE = 1 << 20
"""Bytes of a line; a longer one is no row of a table."""
TYPES = 2000
"""Types of operators that are told apart."""
STEPS = 10_000
"""Steps whose numbers are kept."""
GAP = 10_000.0
"""ms between two operators from which on it is no gap inside a step."""
TEXT = 240
"""Characters of a row kept as evidence."""
FACTOR = {"ns": 1e-6, "us": 1e-3, "μs": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3}
"""Of a time to ms."""

CLASSES = ("matmul", "attention", "vector", "copy", "aicpu", "communication", "memcpy", "other")


class Table(NamedTuple):
    """One table of one profile. Plain data: it crosses process borders.

    ``kind``: operators · statistic · step_time · step_trace · data_ops · data · aicpu · communication · matrix · info
    (what names the rank), or timeline and unknown, which are not judged. ``used``, ``unused`` and ``missing`` are
    columns; ``bad`` counts rows that could not be read; ``cut`` says that the file ended in the middle or that reading
    was stopped. ``data`` is by kind.
    """

    kind: str
    source: str
    rows: int
    bad: int
    used: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    data: dict[str, Any]
    cut: bool = False


JUDGED = ("operators", "statistic", "step_time", "step_trace", "data_ops", "data", "aicpu", "communication", "matrix",
          "info")  # fmt: skip

_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "step_time": {
        "step": ("step",), "computing": ("computing",), "exposed": ("communication(not overlapped)",),
        "overlapped": ("overlapped",), "communication": ("communication",), "free": ("free",), "stage": ("stage",),
        "bubble": ("bubble",), "preparing": ("preparing",), "device": ("device id",), "type": ("type",),
        "index": ("index",), "exclude": ("communication(not overlapped and exclude receive)",),
    },
    "step_trace": {
        "step": ("iteration id",), "time": ("iteration time",), "compute": ("fp to bp time", "fp bp time"),
        "refresh": ("iteration refresh",), "gap": ("data aug bound",), "device": ("device id",),
    },
    "operators": {
        "name": ("op name", "name", "kernel name"), "type": ("op type", "type"),
        "core": ("task type", "accelerator core", "kernel type"), "step": ("step id",), "device": ("device id",),
        "duration": ("task duration", "duration", "task time"), "wait": ("task wait time", "wait time"),
        "state": ("op state",), "mac": ("aic mac ratio", "mac ratio"), "cube": ("cube utilization",),
    },
    "statistic": {
        "type": ("op type", "kernel type"), "core": ("core type",), "count": ("count", "execution frequency"),
        "total": ("total time", "execution time"), "device": ("device id",),
    },
    "data_ops": {
        "op": ("op id",), "type": ("op type",), "usage": ("output queue usage rate",), "workers": ("num workers",),
        "size": ("output queue size",), "parent": ("parent id",),
    },
    "aicpu": {
        "node": ("node", "op name", "name", "op type", "kernel type"), "total": ("total time",),
        "compute": ("compute time", "execution time"),
    },
}  # fmt: skip
_NEEDED = {
    "step_time": ("computing", "free"), "step_trace": ("time", "gap"), "data_ops": ("op", "usage"),
    "aicpu": ("node", "compute", "total"), "statistic": ("type", "count", "total"), "operators": ("duration", "core"),
}  # fmt: skip
"""Columns that make a table, in the order in which the kinds are tried."""

_UNIT = re.compile(r"\((ns|us|μs|µs|ms|s|%|mb|gb/s)\)$")
_SUMMARY = ("pipeline_ops", "per_batch_time", "queue_average_size", "op_names")
"""Keys of the summary that MindSpore writes of a data pipeline, one a row."""


def column(name: str) -> tuple[str, str]:
    """(plain name, unit) of a header.

    >>> column("Task Duration(us)"), column("aic_mac_ratio"), column("Communication(Not Overlapped)")
    (('task duration', 'us'), ('aic mac ratio', ''), ('communication(not overlapped)', ''))
    """
    plain = " ".join(name.replace("_", " ").replace("\ufeff", "").lower().split())
    unit = _UNIT.search(plain)
    return (plain[: unit.start()].strip(), unit[1]) if unit else (plain, "")


def fields(line: str, delimiter: str) -> list[str]:
    """The cells of a row. Each line stands alone, so that a quote that nobody closes costs one row."""
    if '"' not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter))
    except (csv.Error, StopIteration):
        return []


def number(cell: str, decimal: str = ".") -> float | None:
    """A finite number, None for ``N/A``, blanks and anything else. msprof puts a tab behind long numbers."""
    text = cell.strip().strip("'\"").rstrip("%").strip()
    if not text:
        return None
    if decimal == ",":
        text = text.replace(".", "").replace(",", ".")
    elif "," in text:
        text = text.replace(",", "")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    """(number, text) of the lines; UTF-8 with or without its mark, else GB 18030. A line beyond ``LINE`` is empty."""
    rest = b""
    at = 0
    long = False
    for chunk in chunks:
        pieces = (rest + chunk).split(b"\n")
        rest = pieces.pop()
        for piece in pieces:
            at += 1
            yield at, "" if long or len(piece) > LINE else _decoded(piece)
            long = False
        if len(rest) > LINE:
            rest, long = b"", True
    if rest and not long:
        yield at + 1, _decoded(rest)


def _decoded(line: bytes) -> str:
    line = line.rstrip(b"\r").removeprefix(b"\xef\xbb\xbf")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("gb18030", "replace")


class Header(NamedTuple):
    """What a first line says: the kind, where each wanted column stands and its factor to ms, and the rest."""

    kind: str
    at: dict[str, int]
    factor: dict[str, float]
    delimiter: str
    used: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]


def header(line: str) -> Header | None:
    """The header of a known table, None for anything else."""
    delimiter = max(",;\t", key=line.count)
    if not line.count(delimiter):
        return None
    names = [cell.strip() for cell in fields(line, delimiter)][:400]
    plain = [column(name) for name in names]
    order = {base: n for n, (base, _) in reversed(list(enumerate(plain)))}
    for kind, needed in _NEEDED.items():
        wanted = _COLUMNS[kind]
        at = {key: next((order[b] for b in bases if b in order), -1) for key, bases in wanted.items()}
        if any(at[key] < 0 for key in needed):
            continue
        found = {key: n for key, n in at.items() if n >= 0}
        places = set(found.values())
        # MindSpore up to 2.2 wrote ms without saying so; all others mean microseconds
        usual = "ms" if "execution frequency" in order or "serial number" in order else "us"
        return Header(
            kind, found, {key: FACTOR.get(plain[n][1] or usual, 1e-3) for key, n in found.items()}, delimiter,
            tuple(names[n] for n in sorted(places)), tuple(n for k, n in enumerate(names) if k not in places and n),
            tuple(bases[0] for key, bases in wanted.items() if at[key] < 0),
        )  # fmt: skip
    return None


def read(source: str, chunks: Iterable[bytes], stop: Callable[[], bool] = lambda: False) -> Table:
    """Read one CSV. Never raises for what is in it."""
    numbered = lines(chunks)
    first = ""
    for _, line in numbered:
        if line.strip():
            first = line
            break
    if first.split(",", 1)[0].strip("\"' ") in (*_SUMMARY, "op_ids"):
        return _data_summary(source, first, numbered)
    head = header(first)
    if head is None:
        names = tuple(cell.strip() for cell in fields(first, max(",;\t", key=first.count)))[:60]
        return Table("unknown", source, 0, 0, (), names, (), {})
    rows = bad = 0
    cut = False
    taker: Any = _TAKERS[head.kind](head)
    width = max(head.at.values())
    decimal = "," if head.delimiter == ";" else "."
    for at, line in numbered:
        if not line.strip():
            continue
        cells = fields(line, head.delimiter)
        if len(cells) <= width or not taker.take(at, cells, line, decimal):
            bad += 1
        else:
            rows += 1
        if not at % 4096 and stop():
            cut = True
            break
    return Table(head.kind, source, rows, bad, head.used, head.unused, head.missing, taker.data(), cut)


# ------------------------------------------------------------------ operators

_MATMUL = re.compile(r"(?i)matmul|gemm|^conv|conv[23]d|groupedmm|^linear$|^dense$|^mm$|^bmm$")
_ATTENTION = re.compile(r"(?i)attention|flashscore")
_COPY = re.compile(
    r"(?i)^(?:cast|transdata|transpose\w{0,8}|tensormove|viewcopy|asstrided|identity\w{0,4}|memcpy\w{0,20}|contiguous"
    r"|transdatarnn|formattransfer|d2d\w{0,12})$"
)


def op_class(kind: str, core: str, name: str) -> str:
    """One of ``CLASSES`` of an operator by its type, the core that ran it, and its name."""
    core = core.strip().upper().replace(" ", "_")
    if core in ("HCCL", "COMMUNICATION", "LCCL") or kind.lower().startswith("hcom") or name.startswith("hcom_"):
        return "communication"
    if "AI_CPU" in core or "AICPU" in core:
        return "aicpu"
    if "MEMCPY" in core or "SDMA" in core:
        return "memcpy"
    word = kind if kind and kind != "N/A" else name.rsplit("/", 1)[-1]
    if _ATTENTION.search(word):
        return "attention"
    if _MATMUL.search(word):
        return "matmul"
    if _COPY.match(word):
        return "copy"
    return "vector" if any(part in core for part in ("CORE", "AIC", "AIV", "VECTOR", "CUBE")) else "other"


class _Operators:
    """Time by class and type, for each device."""

    def __init__(self, head: Header) -> None:
        self.at, self.factor = head.at, head.factor
        self.devices: dict[str, dict[str, Any]] = {}
        self.known: dict[tuple[str, str], str] = {}

    def of(self, cells: list[str]) -> dict[str, Any]:
        """The sums of a row's device."""
        place = self.at.get("device")
        key = cells[place].strip() if place is not None else ""
        found = self.devices.get(key)
        if found is None:
            if len(self.devices) >= 64:
                key = "…"
            found = self.devices.setdefault(key, {
                "classes": dict.fromkeys(CLASSES, 0.0), "types": {}, "total": 0.0, "count": 0,
                "mac": [0.0, 0.0], "cube": [0.0, 0.0], "dynamic": [0.0, 0.0], "steps": {}, "worst": {},
                "wait": 0.0,
            })  # fmt: skip
        return found

    def take(self, at: int, cells: list[str], line: str, decimal: str) -> bool:
        place = self.at
        time = number(cells[place["duration"]], decimal)
        if time is None or time < 0:
            return False
        time *= self.factor["duration"]
        name = cells[place["name"]].strip() if "name" in place else ""
        kind = cells[place["type"]].strip() if "type" in place else ""
        core = cells[place["core"]].strip()
        sums = self.of(cells)
        self.add(sums, at, line, kind, core, name, time, 1)
        for key, scale in (("mac", 1.0), ("cube", 0.01)):
            if key in place:
                ratio = number(cells[place[key]], decimal)
                # of the operators that use the cube at all
                if ratio is not None and ratio > 0:
                    sums[key][0] += time * ratio * scale
                    sums[key][1] += time
        if "wait" in place:
            wait = number(cells[place["wait"]], decimal)
            # of a gap of many seconds the profiler was off, or the run began
            if wait is not None and 0 < wait * self.factor["wait"] < GAP:
                sums["wait"] += wait * self.factor["wait"]
        if "state" in place:
            state = cells[place["state"]].strip().lower()
            if state in ("dynamic", "static"):
                sums["dynamic"][0] += time if state == "dynamic" else 0.0
                sums["dynamic"][1] += time
        if "step" in place and len(sums["steps"]) < STEPS:
            step = cells[place["step"]].strip()
            sums["steps"][step] = sums["steps"].get(step, 0.0) + time
        return True

    def add(
        self, sums: dict[str, Any], at: int, line: str, kind: str, core: str, name: str, time: float, count: float
    ) -> None:
        """Count one row; of each class the longest row is kept as evidence."""
        key = (kind or name, core)
        part = self.known.get(key)
        if part is None:
            part = op_class(kind, core, name)
            if len(self.known) < 8 * TYPES:
                self.known[key] = part
        sums["classes"][part] += time
        sums["total"] += time
        sums["count"] += count
        label = kind if kind and kind != "N/A" else name
        types = sums["types"]
        if label not in types and len(types) >= TYPES:
            label = "…"
        entry = types.setdefault(label, [0, 0.0, part])
        entry[0] += count
        entry[1] += time
        worst = sums["worst"].get(part)
        if worst is None or time > worst[0]:
            sums["worst"][part] = (time, at, line[:TEXT])

    def data(self) -> dict[str, Any]:
        for sums in self.devices.values():
            sums["steps"] = len([s for s in sums["steps"] if s])
        return {"devices": self.devices}


class _Statistic(_Operators):
    """The same of a table that has summed the operators up by type. Without a column for the core it is that of the AI
    Core of MindSpore up to 2.2, or that of communication alone."""

    def __init__(self, head: Header) -> None:
        super().__init__(head)
        older = any(column(name)[0] == "execution frequency" for name in head.used)
        self.core = "AI_CORE" if older else "COMMUNICATION"

    def take(self, at: int, cells: list[str], line: str, decimal: str) -> bool:
        place = self.at
        total, count = number(cells[place["total"]], decimal), number(cells[place["count"]], decimal)
        if total is None or count is None or total < 0 or count < 0:
            return False
        kind = cells[place["type"]].strip()
        core = cells[place["core"]].strip() if "core" in place else self.core
        self.add(self.of(cells), at, line, kind, core, kind, total * self.factor["total"], count)
        return True


# ------------------------------------------------------------------ steps


class _Rows:
    """The numbers of each row in ms, as they are."""

    PLAIN: tuple[str, ...] = ("step", "device", "type", "index")

    def __init__(self, head: Header) -> None:
        self.at, self.factor = head.at, head.factor
        self.rows: list[dict[str, Any]] = []

    def take(self, at: int, cells: list[str], line: str, decimal: str) -> bool:
        if len(self.rows) >= STEPS:
            return True
        row: dict[str, Any] = {"line": at, "text": line[:TEXT] if len(self.rows) < 256 else ""}
        for key, place in self.at.items():
            if key in self.PLAIN:
                row[key] = cells[place].strip()
                continue
            value = number(cells[place], decimal)
            if value is not None:
                row[key] = value * self.factor[key]
        if not any(key in row for key in self.at if key not in self.PLAIN):
            return False
        self.rows.append(row)
        return True

    def data(self) -> dict[str, Any]:
        return {"rows": self.rows}


class _DataOps(_Rows):
    """The operators of a data pipeline: counts and shares, no times."""

    PLAIN = ("op", "type", "parent")

    def __init__(self, head: Header) -> None:
        super().__init__(head)
        self.factor = dict.fromkeys(head.factor, 1.0)


class _AiCpu:
    """Time of the AI CPU by node."""

    def __init__(self, head: Header) -> None:
        self.at, self.factor = head.at, head.factor
        self.nodes: dict[str, list[float]] = {}
        self.worst: tuple[float, int, str] = (0.0, 0, "")

    def take(self, at: int, cells: list[str], line: str, decimal: str) -> bool:
        total = number(cells[self.at["total"]], decimal)
        if total is None or total < 0:
            return False
        node = cells[self.at["node"]].strip()
        if node not in self.nodes and len(self.nodes) >= TYPES:
            node = "…"
        entry = self.nodes.setdefault(node, [0, 0.0])
        entry[0] += 1
        entry[1] += total * self.factor["total"]
        if total > self.worst[0]:
            self.worst = (total, at, line[:TEXT])
        return True

    def data(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "worst": self.worst}


_TAKERS: dict[str, Callable[[Header], Any]] = {
    "operators": _Operators, "statistic": _Statistic, "step_time": _Rows, "step_trace": _Rows, "data_ops": _DataOps,
    "aicpu": _AiCpu,
}  # fmt: skip


def _data_summary(source: str, first: str, numbered: Iterator[tuple[int, str]]) -> Table:
    """The summary of a data pipeline: one key a row, then its values."""
    data: dict[str, Any] = {}
    rows = 0
    for at, line in [(1, first), *((at, line) for at, line in numbered if at < 400)]:
        cells = [cell.strip() for cell in fields(line, ",")]
        if cells and cells[0]:
            rows += 1
            data[cells[0][:60]] = {"line": at, "values": [cell[:TEXT] for cell in cells[1:65]], "text": line[:TEXT]}
    return Table("data", source, rows, 0, tuple(data), (), (), data)
