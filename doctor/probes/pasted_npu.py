"""Which questions a pasted text answers: npu-smi output with or without the command line above it, several in a row.

The keys are those that ``npu_smi`` asks, so that a paste is judged by the same checks as a host. An output that does
not say whose it is, and has no command above it, gets a key without ids.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from doctor.hosts.allowed import NPU_SMI_TYPES
from doctor.hosts.base import TEXT_LIMIT, run_key
from doctor.probes import npu_queries as queries
from doctor.probes.npu_table import has_title

_WIDTH = 400
_LINES = 200_000
_COMMAND = re.compile(
    r"(?:[^\n|]{0,120}?[#$>%] ?)? {0,4}(?:sudo )?(?:/[\w./-]{1,80}/)?"
    r"npu-smi +(info\b[^\n|;&]{0,120}|-v)(?:[|;&].{0,200})?"
)
_PROMPT = re.compile(r"(?:[\w.-]{1,64}@[^\n#$]{1,120}[#$]|[\[(][^\n\])]{1,80}[\])] ?[#$]?|[#$]) ?[a-z./~]")
_TITLE = re.compile(r"\s*>?\s*\| *npu-smi +\S+ +Version:")

PER_CHIP = frozenset(("health", "hccs", "pcie-err", "spod-info"))
BARE = frozenset(("topo", "phyid-remap", "hccs-bw"))
"""Types that are asked for once, without ids."""

MARKS = (
    ("health", ("Health Status", "Health")),
    ("board", ("Software Version", "Compatibility", "PCIe Bus Info")),
    ("common", ("Aicore curFreq(MHZ)", "Aicore Freq(MHZ)")),
    ("hccs", ("hccs health status",)),
    ("pcie-err", ("TX Error Count", "Lcrc Error Count")),
    ("spod-info", ("SDID",)),
    ("current-fault-event", ("Fault Event Count",)),
    ("usages", ("Aicpu Usage Rate(%)", "Ctrlcpu Usage Rate(%)")),
    ("memory", ("HBM Clock Speed(MHz)", "DDR Clock Speed(MHz)")),
    ("phyid-remap", ("Chip Physical ID",)),
)
"""Keys that tell which sub-command printed a block."""

WHOLE = ("in_use", "init", "board", "library", "directory", "permission", "not_found", "no_file", "no_card", "failed",
         "root_only", "not_here")  # fmt: skip
"""Failures that any npu-smi command ends with."""


TABLE = "run npu-smi info"


class Part(NamedTuple):
    """A piece of a paste: the question it answers, its first line in the paste, its text."""

    key: str
    line: int
    text: str


def from_text(text: str) -> dict[str, str]:
    """The answers that a pasted text holds, by key; {} if there is none.

    >>> from_text("# npu-smi info -t topo\\nThis device does not support querying topo.")
    {'run npu-smi info -t topo': 'This device does not support querying topo.'}
    """
    found: dict[str, str] = {}
    for part in parts(text):
        if part.key not in found:
            found[part.key] = part.text
        elif part.key != TABLE and len(found[part.key]) < TEXT_LIMIT:
            found[part.key] += "\n" + part.text
    return found


def parts(text: str) -> list[Part]:
    """The pieces of a paste in their order, each with the question it answers. Linear in the text."""
    found: list[Part] = []
    asked = ""
    free: list[tuple[int, str]] = []

    def flush() -> None:
        nonlocal free
        if free:
            found.extend(_answered(asked, free) if asked else _guessed(free))
        free = []

    # web pages turn blanks into no-break spaces
    for number, line in enumerate(text.replace("\u00a0", " ").splitlines()[:_LINES], 1):
        head = line[:_WIDTH]
        if "npu-smi" in head and (command := _COMMAND.fullmatch(head.strip())):
            key = key_of(command[1])
            if key:
                flush()
                asked = key
                continue
        elif asked and _PROMPT.match(head.strip()) and not head.lstrip().startswith(("|", "+", "[WARNING]")):
            flush()
            asked = ""
            continue
        if asked and free and _TITLE.match(head) and asked != TABLE:
            flush()
            asked = ""
        free.append((number, line))
    flush()
    return found


def key_of(words: str) -> str:
    """The key of an npu-smi command line (what follows ``npu-smi``), "" if it is none that the doctor asks.

    >>> key_of("info -t health -i 3"), key_of("info -c 0 -i 1 -t ecc"), key_of("info watch")
    ('run npu-smi info -t health -i 3 -c 0', 'run npu-smi info -t ecc -i 1', '')
    """
    args = words.split()
    if args == ["-v"] or args in (["info"], ["info", "-m"], ["info", "-l"]):
        return run_key(("npu-smi", *args))
    options = dict(zip(args[1::2], args[2::2], strict=False))
    kind = options.get("-t", "")
    plain = all(value.isdecimal() and len(value) < 6 for name, value in options.items() if name != "-t")
    if args[:1] != ["info"] or len(args) % 2 == 0 or kind not in NPU_SMI_TYPES or not plain:
        return ""
    if not options.keys() <= {"-t", "-i", "-c", "-p"}:
        return ""
    return _key(kind, options.get("-i"), options.get("-c"))


def _key(kind: str, npu: str | None, chip: str | None) -> str:
    args = ["npu-smi", "info", "-t", kind]
    if npu is not None and kind not in BARE:
        args += ["-i", npu]
        if kind in PER_CHIP:
            args += ["-c", chip or "0"]
    return run_key(tuple(args))


def _answered(key: str, lines: list[tuple[int, str]]) -> list[Part]:
    """What stands under a command line."""
    while lines and not lines[0][1].strip():
        lines = lines[1:]
    text = "\n".join(line for _, line in lines).rstrip()[:TEXT_LIMIT]
    if key == TABLE and not has_title(text) and queries.failure(text) is None:
        return []  # what a pipe left of it, or the output of something else
    return [Part(key, lines[0][0], text)] if text else []


def _guessed(lines: list[tuple[int, str]]) -> list[Part]:
    """Outputs without their commands, told by what they say."""
    found: list[Part] = []
    at = 0
    while at < len(lines):
        for read in (_table, _topo, _map, _block):
            end, key = read(lines, at)
            if key:
                text = "\n".join(line for _, line in lines[at:end]).rstrip()
                found.append(Part(key, lines[at][0], text[:TEXT_LIMIT]))
            if end > at:
                at = end
                break
        else:
            found += _told(lines[at])
            at += 1
    if any(part.key == TABLE and "|" in part.text for part in found):
        # a table tells more than a line about the tool
        return [part for part in found if part.key != TABLE or "|" in part.text]
    return found


def _table(lines: list[tuple[int, str]], at: int) -> tuple[int, str]:
    start = at + 1 if lines[at][1].lstrip(" >").startswith("+") else at
    if start >= len(lines) or not _TITLE.match(lines[start][1][:_WIDTH]):
        return at, ""
    end = start + 1
    while (
        end < len(lines)
        and lines[end][1].lstrip(" >")[:1] in ("|", "+", "[")
        and not (_TITLE.match(lines[end][1][:_WIDTH]))
    ):
        end += 1
    return end, TABLE


_TOPO_HEAD = re.compile(r"\s*(?:NPU|Phy-ID)\d{1,5}(?:\s+(?:NPU|Phy-ID)\d{1,5}){0,64}(?:\s+CPU Affinity)?\s*")


def _topo(lines: list[tuple[int, str]], at: int) -> tuple[int, str]:
    if not _TOPO_HEAD.fullmatch(lines[at][1][:2000]):
        return at, ""
    end = at + 1
    while end < len(lines) and lines[end][1].lstrip().startswith(("NPU", "Phy-ID")):
        end += 1
    return (end, "run npu-smi info -t topo") if end > at + 1 else (at, "")


def _map(lines: list[tuple[int, str]], at: int) -> tuple[int, str]:
    words = lines[at][1][:_WIDTH]
    if "tx_bandwidth(GB/S)" in words:
        key, width = "run npu-smi info -t hccs-bw", 3
    elif "NPU ID" in words and "Chip ID" in words and "Chip Name" in words:
        key, width = "run npu-smi info -m", 4
    else:
        return at, ""
    end = at + 1
    while end < len(lines) and len(lines[end][1][:_WIDTH].split()) >= width and ":" not in lines[end][1][:_WIDTH]:
        end += 1
    return end, key


_PAIR = re.compile(r"\s*([A-Za-z][\w ()%/.-]{1,60}?)? *: ?.{0,300}")


def _block(lines: list[tuple[int, str]], at: int) -> tuple[int, str]:
    """A run of ``key : value`` lines up to the next one that begins anew."""
    if not _keyed(lines[at][1]):
        return at, ""
    end, keys = at, list[str]()
    values: dict[str, str] = {}
    while end < len(lines):
        line = lines[end][1][:_WIDTH]
        key = " ".join(line.partition(":")[0].split())
        if not line.strip() or line.strip().startswith("No process in device"):
            end += 1
            continue
        if not _PAIR.fullmatch(line) or (key and values and _anew(key, keys[0])):
            break
        if key:
            keys.append(key)
            values.setdefault(key, line.partition(":")[2].strip())
        end += 1
    npu, chip = values.get("NPU ID"), values.get("Chip ID")
    npu = npu if npu is not None and npu.isdecimal() else None
    chip = chip if chip is not None and chip.isdecimal() else None
    if keys[0] in ("Total Count", "Card Count"):
        return end, "run npu-smi info -l"
    kind = next((name for name, marks in MARKS if any(mark in values for mark in marks)), "")
    if not kind and any("Bit Error Count" in key for key in keys):
        kind = "ecc"
    if not kind and "Process id" in values:
        kind = "proc-mem"
    if not kind and any("Temperature" in key for key in keys):
        kind = "temp"
    if not kind and "NPU Real-time Power(W)" in values:
        kind = "power"
    return end, _key(kind, npu, chip) if kind else ""


def _anew(key: str, first: str) -> bool:
    """Whether a key begins the next block: the first one again, or an NPU where the block is no list of them."""
    return key == first or (key == "NPU ID" and first not in ("Total Count", "Card Count", "Chip Physical ID"))


_FIRST = frozenset(("NPU ID", "Total Count", "Card Count", "Memory Usage Rate(%)", "HBM Usage Rate(%)",
                    *(mark for _, marks in MARKS for mark in marks)))  # fmt: skip


def _keyed(line: str) -> bool:
    key = " ".join(line[:_WIDTH].partition(":")[0].split())
    return ":" in line[:_WIDTH] and (key in _FIRST or "Bit Error Count" in key)


_WHAT = re.compile(r"does not support querying ([a-z-]{2,24})\.")


def _told(line: tuple[int, str]) -> list[Part]:
    """A single line that tells of a failure."""
    number, text = line
    if text.startswith("npu-smi version:"):
        return [Part("run npu-smi -v", number, text.strip()[:_WIDTH])]
    found = queries.failure(text[:_WIDTH])
    if found is None:
        return []
    if found.kind in WHOLE:
        return [Part(TABLE, number, text.strip()[:_WIDTH])]
    if found.kind == "bad_id":
        return [Part("run npu-smi info -t health", number, text.strip()[:_WIDTH])]
    what = _WHAT.search(text[:_WIDTH])
    if found.kind == "not_supported" and what and what[1] in NPU_SMI_TYPES:
        return [Part(_key(what[1], None, None), number, text.strip()[:_WIDTH])]
    return []
