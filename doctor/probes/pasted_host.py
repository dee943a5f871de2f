"""Pasted outputs of df, free, ulimit -a, lspci, ls -l /dev, lsmod and dmesg: which questions they answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from doctor.model import Raw
from doctor.probes import devices, kernel_log

WHOLE = True
"""Neighbouring pieces of an input come as one text."""
LINES = 200_000
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_AMOUNT = re.compile(r"(\d{1,18}(?:\.\d{1,3})?)([BKMGTP]?)(?:i?B?)")
_DF_HEAD = re.compile(r"\s*(?:Filesystem|文件系统)\s+(\S+)\s.*(?:Mounted on|挂载点)\s*$")
_DF_ROW = re.compile(r"(\S{1,200})\s+(\S{1,24})\s+(\S{1,24})\s+(\S{1,24})\s+(?:\d{1,3}%|-)\s+(/\S{0,200})\s*$")
_FREE_HEAD = re.compile(r"\s+total\s+used\s+free\b.*$")
_FREE_ROW = re.compile(r"(Mem|Swap|-/\+ buffers/cache|内存|交换):?\s+(\S.{0,200})$")
_ULIMIT = re.compile(r"[a-z][a-z ]{2,40}\((?:[a-z0-9-]{1,12}[ ,]{1,3}){0,3}-([a-zR])\)\s+(unlimited|\d{1,18})\s*$")
_ULIMIT_NAMES = {
    "n": ("nofile", 1),
    "u": ("nproc", 1),
    "l": ("memlock", 1024),
    "c": ("core", 1024),
    "s": ("stack", 1024),
}
_LSMOD_HEAD = re.compile(r"Module\s+Size\s+Used by\b")
_LSMOD_ROW = re.compile(r"\w{1,64}\s+\d{1,12}\s+-?\d{1,6}(?:\s+\S.{0,2000})?$")
_NO_DEVICE = re.compile(r"ls: (?:cannot access|无法访问)[^/\n]{0,12}/dev/davinci\S{0,20}\s?:")
_DULL = re.compile(r"/(?:boot|snap|run|sys|proc|dev)(?:/|$)")


def from_text(text: str) -> dict[str, str | Raw]:
    """Answers by key. A text that holds none of these outputs gives nothing, whatever else it is."""
    lines = text.splitlines()[:LINES]
    found: dict[str, str | Raw] = {}
    for word, read in _READERS:
        if word in text:
            found.update(read(lines))
    return found


def _bytes(word: str, unit: int = 1) -> int | None:
    """``1.5G``, ``12Gi`` or a plain number of ``unit`` bytes."""
    match = _AMOUNT.fullmatch(word)
    if match is None:
        return None
    factor = _UNITS[match.group(2)] if match.group(2) else unit
    return int(float(match.group(1)) * factor)


def df(lines: list[str]) -> dict[str, str]:
    """Tables of df, df -h and df -i, one after another; the mount point is the use of a row. Kernel file systems, boot
    partitions and packages mounted as a file (full by their nature) are left out."""
    rows: dict[str, dict[str, Any]] = {}
    unit, inodes = 0, False
    for line in lines:
        head = _DF_HEAD.match(line) if len(line) < 300 else None
        if head:
            name = head.group(1)
            inodes = name.lower().startswith("inode")
            blocks = re.match(r"(\d{1,5})([KM]?)-", name)
            unit = int(blocks.group(1)) * _UNITS[blocks.group(2)] if blocks else 1
            continue
        row = _DF_ROW.match(line) if unit and len(line) < 600 else None
        if row is None:
            unit = unit if not line.strip() else 0
            continue
        source, total, _, free, path = row.groups()
        if source.startswith(("/dev/loop", "udev", "devtmpfs", "squashfs")):
            continue
        if _DULL.match(path) and path != "/dev/shm":  # noqa: S108 - a name in a table
            continue
        entry = rows.setdefault(path, {"use": path, "path": path, "real": path, "state": "ok"})
        if inodes:
            entry["inodes"], entry["inodes_free"] = _bytes(total) or None, _bytes(free)
        else:
            entry["size"], entry["available"] = _bytes(total, unit), _bytes(free, unit)
    answers: dict[str, str] = {}
    shm = rows.pop("/dev/shm", None)  # noqa: S108
    if shm and shm.get("size") is not None:
        space = {"exists": True, "size": shm["size"], "available": shm["available"]}
        answers["ask shm"] = json.dumps(space)
    if rows:
        answers["ask disks"] = json.dumps(list(rows.values()))
    return answers


def free(lines: list[str]) -> dict[str, str]:
    """The table of free. Without a suffix the unit is told by the option of the command above it, else by size: no
    machine with an NPU has below 8 GiB, none has above 8 TiB."""
    option = ""
    for number, line in enumerate(lines):
        called = re.search(r"\bfree\s+-{1,2}([bkmgh])", line) if len(line) < 300 else None
        if called:
            option = called.group(1)
        if not (len(line) < 300 and _FREE_HEAD.match(line)):
            continue
        head = line.split()
        table: dict[str, list[str]] = {}
        for below in lines[number + 1 : number + 5]:
            row = _FREE_ROW.match(below.strip())
            if row:
                table[row.group(1)] = row.group(2).split()
        cells = table.get("Mem") or table.get("内存")
        if not cells or len(cells) < 3:
            continue
        unit = _free_unit(cells[0], option)
        named = dict(zip(head, (_bytes(cell, unit) for cell in cells), strict=False))
        old = table.get("-/+ buffers/cache")
        available = named.get("available")
        if available is None:
            spare = _bytes(old[1], unit) if old and len(old) > 1 else named.get("free")
            available = spare
        swap = [_bytes(cell, unit) for cell in (table.get("Swap") or table.get("交换") or [])[:3]]
        value = {"total": named.get("total"), "available": available, "free": named.get("free")}
        if len(swap) == 3:
            value |= {"swap_total": swap[0], "swap_free": swap[2]}
        return {"ask memory": json.dumps(value)}
    return {}


def _free_unit(word: str, option: str) -> int:
    if option in ("b", "k", "m", "g"):
        return _UNITS[option.upper()]
    number = int(word) if word.isdigit() and len(word) < 19 else 0
    if number < 8192:
        return 1 << 30
    return 1 << 20 if number < 1 << 23 else 1 << 10 if number < 1 << 33 else 1


def ulimit(lines: list[str]) -> dict[str, str]:
    """ulimit -a: soft limits; the hard ones are not in it."""
    value: dict[str, list[int | None]] = {}
    for line in lines:
        row = _ULIMIT.match(line.strip()) if len(line) < 200 else None
        if row and row.group(1) in _ULIMIT_NAMES:
            name, unit = _ULIMIT_NAMES[row.group(1)]
            value[name] = [-1 if row.group(2) == "unlimited" else int(row.group(2)) * unit, None]
    return {"ask limits": json.dumps(value)} if value else {}


def _block(lines: list[str], good: Callable[[str], bool]) -> list[str]:
    """From the first good line to the last, with what stands between."""
    numbers = [number for number, line in enumerate(lines) if good(line)]
    return lines[numbers[0] : numbers[-1] + 1] if numbers else []


def lspci(lines: list[str]) -> dict[str, str]:
    block = _block(lines, lambda line: "Huawei" in line and bool(devices.parse_lspci(line)))
    return {"run lspci -d 19e5:": "\n".join(block) + "\n"} if block else {}


def nodes(lines: list[str]) -> dict[str, str]:
    """ls -l of device files. Files that nobody listed are not known to be missing: only what is there is answered."""
    block = _block(lines, lambda line: "/dev/" in line and bool(devices.parse_nodes(line)))
    if block:
        return {"look /dev/davinci*": "\n".join(block) + "\n"}
    return {"look /dev/davinci*": "[]"} if any(_NO_DEVICE.match(line) for line in lines if len(line) < 300) else {}


def lsmod(lines: list[str]) -> dict[str, str]:
    for number, line in enumerate(lines):
        if _LSMOD_HEAD.match(line):
            rows = [line]
            for below in lines[number + 1 :]:
                if not _LSMOD_ROW.match(below[:2200]):
                    break
                rows.append(below)
            return {"run lsmod": "\n".join(rows) + "\n"} if len(rows) > 1 else {}
    return {}


def dmesg(lines: list[str]) -> dict[str, str]:
    """Kernel lines, if any of them tells of an event."""
    block = _block(lines, kernel_log.stamped)
    text = "\n".join(block) + "\n"
    return {"run dmesg -T": text} if block and kernel_log.parse_kernel_log(text)["events"] else {}


_READERS: tuple[tuple[str, Callable[[list[str]], dict[str, str]]], ...] = (
    ("%", df),
    ("free", free),
    ("(-", ulimit),
    (", -", ulimit),
    ("Huawei", lspci),
    ("/dev/davinci", nodes),
    ("Used by", lsmod),
    ("[", dmesg),
    ("kernel:", dmesg),
)
"""A word without which the reader need not look, and the reader."""
