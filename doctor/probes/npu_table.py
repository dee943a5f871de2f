"""``npu-smi info``: the table of chips and processes, in every layout that driver releases have printed.

Cells are split at ``|``: column widths differ between releases and some tables are printed askew. A chip takes two
rows; the first one names it and its health, the second one its bus and its load. Source of layouts and meanings: printf
formats in hicann/driver ``npucli/src/npu_info_print.c`` and tables pasted from real machines.
"""

from __future__ import annotations

import re
from typing import TypedDict

HEALTH = ("OK", "Warning", "Alarm", "Critical", "UNKNOWN")
"""Health words of a chip: no alarm, minor, major, critical, not there or not started."""

_CELL = 240
"""Characters of a cell that are looked at; the widest real one has 70."""
_TITLE = re.compile(r"npu-smi +(\S+) +Version: *(\S+)")
_FIRST = re.compile(r"(-?\d{1,6}) +(\S{1,64})")
_SECOND = re.compile(r"(\d{1,4})(?: +(\d{1,6}))?")
_BUS = re.compile(r"NA|[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_PAIR = re.compile(r"(\d{1,10}|NA) {0,8}/ {0,8}(\d{1,10})")
_HEALTH_WORD = re.compile(r"[A-Za-z]{2,12}")
_IDLE = re.compile(r"No running processes found in NPU (\d{1,6})")
_OWNER = re.compile(r"(\d{1,6})(?: +(\d{1,4}))?")
_WARNING = re.compile(r"\s*\[WARNING\]")

Seen = tuple[str, int, str]
"""Source, line from 1, text: the fields of an Evidence."""


class Chip(TypedDict):
    """One chip. MB are MiB as npu-smi prints them; None is not printed or not readable, never a guess."""

    npu: int
    chip: int | None
    phy: int | None
    logic: int | None
    name: str
    health: str
    power: float | None
    temperature: int | None
    hugepages: tuple[int, int] | None
    bus: str | None
    aicore: int | None
    ddr: tuple[int, int] | None
    hbm: tuple[int, int] | None
    memory: tuple[int, int] | None
    """(used, total) MB of the memory that models use: HBM, or DDR where there is no HBM"""
    label: str
    seen: Seen


class Process(TypedDict):
    """A process on a chip; ``pid`` is the host's, ``name`` is "" in containers, ``memory`` in MB."""

    npu: int
    chip: int | None
    pid: int
    name: str
    memory: int | None
    inner_pid: int | None
    seen: Seen


class Table(TypedDict):
    """A whole table. ``unreadable``: second rows that no first row precedes; their chip could not be read."""

    tool: str
    driver: str
    layout: str
    chips: list[Chip]
    unreadable: list[Seen]
    processes: list[Process]
    idle: list[int]
    shows_processes: bool
    warning: Seen | None
    seen: Seen


def is_table(text: str) -> bool:
    """Whether a text looks like an output of ``npu-smi info``, of a known layout or not: a title and a whole header."""
    lines = text.splitlines()
    title = _title(lines)
    return title is not None and sum(len(cells_of(line)) > 1 for line in lines[title[0] : title[0] + 12]) > 1


def has_title(text: str) -> bool:
    """Whether the title row of ``npu-smi info`` is there, whatever follows."""
    return _title(text.splitlines()) is not None


def _title(lines: list[str]) -> tuple[int, str, str] | None:
    for number, line in enumerate(lines, 1):
        if "npu-smi" in line[:_CELL] and "|" in line[:8]:
            found = _TITLE.search(line[:_CELL])
            if found:
                return number, found[1], found[2].rstrip("|")
    return None


def parse_info(text: str, source: str = "npu-smi info") -> Table | None:
    """The table in ``text``, None if there is none of a known layout (no ``Bus-Id`` in the header).

    >>> parse_info("| npu-smi 1.0   Version: 1.0 |\\n| NPU | Utilization |") is None
    True
    """
    lines = text.splitlines()
    title = _title(lines)
    if title is None:
        return None
    first, tool, driver = title
    title_seen = (source, first, lines[first - 1][:_CELL].strip())
    table = Table(tool=tool, driver=driver, layout="", chips=[], unreadable=[], processes=[], idle=[],
                  shows_processes=False, warning=None, seen=title_seen)  # fmt: skip
    header: list[str] = []
    open_chip: Chip | None = None
    for number, line in enumerate(lines[first:], first + 1):
        if _WARNING.match(line[:_CELL]):
            if table["layout"]:
                table["warning"] = (source, number, line.strip()[:_CELL])
            continue
        cells = cells_of(line)
        if not cells:
            continue
        seen = (source, number, line.strip()[:_CELL])
        if len(cells) == 1:
            if _TITLE.search(cells[0]):
                break  # the next table of a paste
            idle = _IDLE.match(cells[0])
            if idle:
                table["idle"].append(int(idle[1]))
            continue
        if "Process id" in cells:
            table["shows_processes"] = True
            open_chip = None
        elif table["shows_processes"]:
            process = _process(cells, seen)
            if process is not None:
                table["processes"].append(process)
        elif not table["layout"]:
            if "Bus-Id" in cells:
                table["layout"] = _layout(header, cells)
            header = cells
        else:
            open_chip = _row(table, cells, seen, open_chip)
    if not table["layout"]:
        return None
    _labels(table["chips"])
    return table


def cells_of(line: str) -> list[str]:
    """The cells of one table row, [] for borders and other text.

    >>> cells_of("| 0     910A | OK | 72.0")
    ['0     910A', 'OK', '72.0']
    """
    line = line[: 8 * _CELL].strip().lstrip("> ")
    if not line.startswith("|"):
        return []
    parts = line[1:].split("|")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    return [part.strip()[:_CELL] for part in parts] if len(parts) <= 8 else []


def _layout(first: list[str], second: list[str]) -> str:
    """950 · A3 · 310 · 310P · 910 (also A2, whose names tell it apart) · 910-old (no huge pages)."""
    if len(second) == 4:
        return "950"
    words = " ".join(second)
    hugepages = any("Hugepages" in cell for cell in first)
    if "Phy-ID" in words:
        return "A3"
    if "HBM" in words:
        return "910" if hugepages else "910-old"
    return "310P" if hugepages else "310"


def _row(table: Table, cells: list[str], seen: Seen, chip: Chip | None) -> Chip | None:
    """Read one row of the chip part; returns the chip whose second row is still to come."""
    if table["layout"] == "950" and len(cells) == 4:
        cells = [f"{cells[0]} {cells[1]}".strip(), *cells[2:]]
    if len(cells) < 2:
        return chip
    figures = cells[2] if len(cells) > 2 else ""
    first = _FIRST.fullmatch(cells[0])
    if first and _HEALTH_WORD.fullmatch(cells[1]) and not _BUS.fullmatch(cells[1]):
        words = figures.split()
        found = Chip(
            npu=int(first[1]), chip=None, phy=None, logic=None, name=first[2], health=cells[1],
            power=_decimal(words[0]) if words else None, temperature=_whole(words[1]) if len(words) > 1 else None,
            hugepages=_pair(figures, -1), bus=None, aicore=None, ddr=None, hbm=None, memory=None, label=first[1],
            seen=seen,
        )  # fmt: skip
        table["chips"].append(found)
        return found
    second = _SECOND.fullmatch(cells[0])
    if not _BUS.fullmatch(cells[1]) or not (second or (table["layout"] == "950" and not cells[0])):
        return chip
    if chip is None:
        table["unreadable"].append(seen)
        return None
    chip["chip"] = int(second[1]) if second else 0
    if second and second[2]:
        chip["phy" if table["layout"] == "A3" else "logic"] = int(second[2])
    chip["bus"] = None if cells[1] == "NA" else cells[1].upper()
    load, _, rest = figures.partition(" ")
    chip["aicore"] = _whole(load)
    if table["layout"] in ("310", "310P"):
        chip["ddr"] = chip["memory"] = _pair(rest, 0)
    else:
        chip["ddr"], chip["hbm"] = _pair(rest, 0), _pair(rest, 1)
        chip["memory"] = chip["hbm"]
    return None


def _process(cells: list[str], seen: Seen) -> Process | None:
    owner = _OWNER.fullmatch(cells[0])
    pid = _whole(cells[1])
    if owner is None or pid is None or len(cells) < 4:
        return None
    chip = int(owner[2]) if owner[2] else None
    inner = _whole(cells[4]) if len(cells) > 4 else None
    return Process(npu=int(owner[1]), chip=chip, pid=pid, name=cells[2], memory=_whole(cells[3]), inner_pid=inner,
                   seen=seen)  # fmt: skip


def _labels(chips: list[Chip]) -> None:
    """How a chip is called: the NPU id, with the chip id where NPUs of the table have several chips."""
    if any(chip["chip"] for chip in chips):
        for chip in chips:
            chip["label"] = label(chip["npu"], chip["chip"])


def label(npu: int | None, chip: int | None) -> str:
    """``3``, or ``3/1`` for chip 1 of NPU 3.

    >>> label(3, 1), label(3, None)
    ('3/1', '3')
    """
    if npu is None:
        return "?"
    return str(npu) if chip is None else f"{npu}/{chip}"


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,10}", text) else None


def _decimal(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text) else None


def _pair(text: str, which: int) -> tuple[int, int] | None:
    found = _PAIR.findall(text[:_CELL])
    if not -len(found) <= which < len(found) or found[which][0] == "NA":
        return None
    return int(found[which][0]), int(found[which][1])
