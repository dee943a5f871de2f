"""The sub-commands of ``npu-smi info`` and the texts of its failures. Pure: text in, plain data out, nothing raises.

Most sub-commands print ``key : value`` lines; a block without ``-c`` **ends** with the id of its chip, one with ``-c``
starts with it, and a block of the board's controller (mcu) may follow that repeats key names. Source: printf formats in
hicann/driver ``npucli/src`` and pasted output of real machines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict

from doctor.probes.npu_table import Seen

_LINE = 2000
_LINES = 4000
_RET = re.compile(r"\bret is (-?\d{1,6})\b")
_LIBRARY = re.compile(r"shared libraries: ([\w.+/-]{1,200})")
_NAMED = re.compile(r"Failed to query [\"“]?([^\"”.:\n]{1,80})")
_SPACES = re.compile(r"\s{2,}|\t")


class Failure(NamedTuple):
    """Why npu-smi did not answer. ``kind`` is one of the names in ``FAILURES``; ``ret`` is the code of DCMI."""

    kind: str
    line: int
    text: str
    ret: int | None = None
    what: str = ""


FAILURES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("in_use", ("because the device is used",)),
    ("init", ("dcmi module initialize failed", "dcmi model initialized failed")),
    ("board", ("npu get board type failed",)),
    ("library", ("error while loading shared libraries",)),
    ("directory", ("npu-smi: Is a directory", "npu-smi: 是一个目录", "npu-smi: 是目录")),
    ("permission", ("npu-smi: Permission denied", "npu-smi: 权限不够")),
    ("not_found", ("npu-smi: command not found", "npu-smi: not found", "npu-smi: 未找到命令", "npu-smi：未找到命令",
                   "command not found: npu-smi")),
    ("no_file", ("npu-smi: No such file or directory", "npu-smi: 没有那个文件或目录", "npu-smi: cannot execute")),
    ("root_only", ("can be executed only by the root user",)),
    ("not_here", ("cannot be executed on a VM",)),
    ("no_card", ("There is no NPU card on this server", "Failed to get card number")),
    ("not_supported", ("This device does not support querying",)),
    ("bad_id", ("Invalid card id",)),
    ("no_id", ("This command must input card id",)),
    ("unknown_command", ("Command or option is not found",)),
    ("failed", ("Failed to execute npu-smi info",)),
    ("query", ("Failed to query",)),
)  # fmt: skip
"""Kind and its texts, the telling ones first; all but ``query`` mean that nothing was answered."""


def failure(text: str) -> Failure | None:
    """The failure that an output tells of, None if it tells of none.

    >>> failure("dcmi module initialize failed. ret is -8005")
    Failure(kind='init', line=1, text='dcmi module initialize failed. ret is -8005', ret=-8005, what='')
    """
    lines = [line[:_LINE] for line in text.splitlines()[:_LINES]]
    for kind, texts in FAILURES:
        for number, line in enumerate(lines, 1):
            if not any(t in line for t in texts) or line.lstrip().startswith("|"):
                continue
            ret = _RET.search(line)
            code = int(ret[1]) if ret else None
            named = _LIBRARY.search(line) or _NAMED.search(line)
            name = named[1].strip() if named else ""
            return Failure("in_use" if code == -8020 else kind, number, line.strip()[:400], code, name)
    return None


class Block(TypedDict):
    """The values of one chip (or of a card, ``chip`` None) as printed, each with its line."""

    npu: int | None
    chip: int | None
    values: dict[str, str]
    lines: dict[str, int]


def _pairs(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.splitlines()[:_LINES], 1):
        line = line[:_LINE]
        key, colon, value = line.partition(":")
        if colon and (not key.strip() or line.lstrip()[:1] not in "|+[-$#"):
            yield number, " ".join(key.split())[:80], value.strip()


def parse_blocks(text: str) -> list[Block]:
    """The ``key : value`` blocks of a sub-command. The controller's block is left out, a repeated key keeps its first
    value, and a line without a key goes on with the value above it (parted by a newline)."""
    blocks: list[Block] = []
    npu: int | None = None
    chip: int | None = None
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    last, mcu = "", False

    def close(known: int | None) -> None:
        nonlocal values, lines
        if values:
            blocks.append(Block(npu=npu, chip=known, values=values, lines=lines))
        values, lines = {}, {}

    for number, key, value in _pairs(text):
        if key == "NPU ID":
            close(chip)
            npu, chip, mcu, last = whole(value), None, False, ""
        elif key == "Chip ID":
            mcu, last = False, ""
            if values and chip is None:
                close(whole(value))
            else:
                close(chip)
                chip = whole(value)
        elif key == "Chip Name" and value.casefold() == "mcu":
            mcu = True
        elif mcu or key == "Chip Count":
            continue
        elif not key:
            if last:
                values[last] += f"\n{value}"
        elif key not in values:
            values[key], lines[key], last = value, number, key
        elif key == next(iter(values)):
            # the same output once more, for a chip that is not named
            close(chip)
            values[key], lines[key], last = value, number, key
    close(chip)
    return blocks


def whole(text: str) -> int | None:
    """A number of an output, None for NA, - and anything else.

    >>> whole("-1"), whole("NA"), whole("12 ")
    (-1, None, 12)
    """
    text = text.strip()
    return int(text) if re.fullmatch(r"-?\d{1,19}", text) else None


def decimal(text: str) -> float | None:
    """A number with or without a fraction, None for anything else."""
    text = text.strip()
    return float(text) if re.fullmatch(r"-?\d{1,15}(?:\.\d{1,9})?", text) else None


# ------------------------------------------------------------------ lists


def parse_version(text: str) -> str:
    """``npu-smi -v``: the version of the tool, "" if it does not say."""
    found = re.search(r"npu-smi version: *(\S{1,64})", text[:_LINE])
    return found[1] if found else ""


def parse_list(text: str) -> dict[str, Any] | None:
    """``info -l``: {count, npus: [{npu, chips, product}]}; chips is None where it is not printed (950)."""
    count: int | None = None
    npus: list[dict[str, Any]] = []
    for _, key, value in _pairs(text):
        if key in ("Total Count", "Card Count"):
            count = whole(value)
        elif key == "NPU ID":
            npus.append({"npu": whole(value), "chips": None, "product": ""})
        elif npus and key == "Chip Count":
            npus[-1]["chips"] = whole(value)
        elif npus and key == "Product Name":
            npus[-1]["product"] = value
    return None if count is None and not npus else {"count": count, "npus": npus}


_MAP_KEYS = {"NPU ID": "npu", "Chip ID": "chip", "Chip Logic ID": "logic", "Chip Phy-ID": "phy", "Chip Name": "name",
             "Slot ID": "slot"}  # fmt: skip


def parse_map(text: str, source: str = "npu-smi info -m") -> list[dict[str, Any]] | None:
    """``info -m``: [{npu, chip, logic, phy, name, seen}] without controllers; None if there is no header.

    ``logic`` or ``phy`` is None where the column is not printed.
    """
    columns: list[str] = []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines()[:_LINES], 1):
        words = _SPACES.split(line[:_LINE].strip())
        if "NPU ID" in words and "Chip ID" in words:
            columns = words
        elif columns and len(words) == len(columns):
            row: dict[str, Any] = {"npu": None, "chip": None, "logic": None, "phy": None, "name": ""}
            for column, word in zip(columns, words, strict=True):
                key = _MAP_KEYS.get(column)
                if key:
                    row[key] = word if key == "name" else whole(word)
            if row["npu"] is not None and row["npu"] >= 0 and row["name"].casefold() != "mcu":
                rows.append(row | {"seen": (source, number, line.strip()[:240])})
    return rows if columns else None


# ------------------------------------------------------------------ health and identity

_CODE = re.compile(r"(?:0x)?([0-9A-Fa-f]{8})")
_EVENT = re.compile(r"event id=0x([0-9A-Fa-f]{8})(?:, severity=(\d{1,3}))?")


def _seen(block: Block, source: str, *keys: str) -> Seen:
    """The line of the first of ``keys`` that the block has, else of its first line."""
    key = next((k for k in keys if k in block["lines"]), next(iter(block["lines"]), ""))
    if not key:
        return source, 0, ""
    return source, block["lines"][key], f"{key} : {block['values'][key].split(chr(10))[0]}"[:400]


def parse_health(text: str, source: str, npu: int | None = None, chip: int | None = None) -> list[dict[str, Any]]:
    """``-t health``: [{npu, chip, health, codes: [{code, text}], seen, seen_codes}], codes upper case without 0x."""
    rows = []
    for block in parse_blocks(text):
        values = block["values"]
        word = values.get("Health Status", values.get("Health"))
        if word is None:
            continue
        codes = _CODE.findall(values.get("Error Code", ""))
        texts = [t.strip() for t in values.get("Error Information", "").split("\n") if t.strip()]
        known = [{"code": code.upper(), "text": texts[n] if n < len(texts) else ""} for n, code in enumerate(codes)]
        rows.append({"npu": _known(block["npu"], npu), "chip": _known(block["chip"], chip), "health": word.strip(),
                     "codes": known, "seen": _seen(block, source, "Health Status", "Health"),
                     "seen_codes": _seen(block, source, "Error Code")})  # fmt: skip
    return rows


def _known(printed: int | None, asked: int | None) -> int | None:
    """The id that an output prints, else the one that was asked for."""
    return asked if printed is None else printed


def parse_faults(text: str, source: str, npu: int | None = None, chip: int | None = None) -> list[dict[str, Any]]:
    """``-t current-fault-event`` (950): [{npu, chip, code, severity, text, seen}]."""
    rows = []
    for block in parse_blocks(text):
        for found in _EVENT.finditer(block["values"].get("Fault Event Information", "")):
            rows.append({"npu": _known(block["npu"], npu), "chip": _known(block["chip"], chip),
                         "code": found[1].upper(), "severity": whole(found[2] or ""), "text": found[0],
                         "seen": _seen(block, source, "Fault Event Information")})  # fmt: skip
    return rows


def parse_board(text: str, source: str, npu: int | None = None) -> list[dict[str, Any]]:
    """``-t board``: [{npu, chip, driver, firmware, compatibility, bus, product, chip_name, values, seen}].

    ``compatibility``: OK · NOK · UNKNOWN · NOT SUPPORT (asked without root), "" if not printed (with ``-c``).
    """
    rows = []
    for block in parse_blocks(text):
        values = block["values"]
        if not {"Software Version", "Firmware Version", "PCIe Bus Info"} & values.keys():
            continue
        rows.append({
            "npu": _known(block["npu"], npu), "chip": block["chip"], "driver": values.get("Software Version", ""),
            "firmware": values.get("Firmware Version", ""), "compatibility": values.get("Compatibility", ""),
            "bus": values.get("PCIe Bus Info", ""), "product": values.get("Product Name", ""),
            "chip_name": values.get("Chip Name", ""), "values": values,
            "seen": _seen(block, source, "Compatibility", "Firmware Version"),
        })  # fmt: skip
    return rows


# ------------------------------------------------------------------ figures

_ECC = {"single": "Single Bit Error Count", "double": "Double Bit Error Count",
        "single_total": "Single Bit Aggregate Total Err Cnt", "double_total": "Double Bit Aggregate Total Err Cnt",
        "isolated": "Double Bit Isolated Pages Count", "pending": "Double Bit Next-Isolated Pages Count"}  # fmt: skip


def parse_ecc(text: str, source: str, npu: int | None = None) -> list[dict[str, Any]]:
    """``-t ecc``: [{npu, chip, memory: "HBM" or "DDR", single, double, …, isolated, pending, seen}], counts or None.

    ``pending`` are pages that the next reset isolates (Next-Isolated).
    """
    rows = []
    for block in parse_blocks(text):
        for memory in ("HBM", "DDR"):
            counts = {name: whole(block["values"].get(f"{memory} {key}", "")) for name, key in _ECC.items()}
            if any(count is not None for count in counts.values()):
                worst = next((k for n, k in _ECC.items() if n in ("double", "pending", "isolated") and counts[n]), "")
                rows.append({"npu": _known(block["npu"], npu), "chip": block["chip"], "memory": memory, **counts,
                             "seen": _seen(block, source, f"{memory} {worst}",
                                           f"{memory} {_ECC['double']}")})  # fmt: skip
    return rows


_COMMON = {"memory": "Memory Usage Rate(%)", "hbm": "HBM Usage Rate(%)", "aicore": "Aicore Usage Rate(%)",
           "frequency": "Aicore Freq(MHZ)", "current": "Aicore curFreq(MHZ)", "cores": "Aicore Count",
           "temperature": "Temperature(C)"}  # fmt: skip


def parse_common(text: str, source: str, npu: int | None = None) -> list[dict[str, Any]]:
    """``-t common``: [{npu, chip, memory, hbm, aicore (%), frequency, current (MHz), cores, temperature, power,
    seen}]."""
    rows = []
    for block in parse_blocks(text):
        values = {name: whole(block["values"].get(key, "")) for name, key in _COMMON.items()}
        if all(value is None for value in values.values()):
            continue
        rows.append({"npu": _known(block["npu"], npu), "chip": block["chip"], **values,
                     "power": decimal(block["values"].get("NPU Real-time Power(W)", "")),
                     "seen": _seen(block, source, "Aicore curFreq(MHZ)")})  # fmt: skip
    return rows


def parse_figures(text: str, npu: int | None = None) -> list[dict[str, Any]]:
    """``-t usages``, ``memory``, ``temp``, ``power``: [{npu, chip, values: {key: number}}]; keys without blanks before
    the unit, so that ``NPU Temperature (C)`` and ``Temperature(C)`` differ in the word alone."""
    rows = []
    for block in parse_blocks(text):
        values = {key.replace(" (", "("): decimal(value) for key, value in block["values"].items()}
        numbers = {key: value for key, value in values.items() if value is not None}
        if numbers:
            rows.append({"npu": _known(block["npu"], npu), "chip": block["chip"], "values": numbers})
    return rows


_PROCESS = re.compile(r"Process id:(\d{1,10}) +Process name:(.{0,200}?) +Process memory\(MB\):(\d{1,10})")


def parse_proc_mem(text: str) -> list[dict[str, Any]] | None:
    """``-t proc-mem``: [{pid, name, memory}] (MB), [] for no process, None if the text is something else."""
    found = [{"pid": int(m[1]), "name": m[2].strip(), "memory": int(m[3])}
             for line in text.splitlines()[:_LINES] if (m := _PROCESS.search(line[:400]))]  # fmt: skip
    return found if found or "No process in device" in text else None


def parse_phyid_remap(text: str) -> dict[str, int | None] | None:
    """``-t phyid-remap``: {phy, logic, npu, chip}, None if the text is something else."""
    found = {key: whole(value) for _, key, value in _pairs(text)}
    if "Chip Physical ID" not in found:
        return None
    return {"phy": found["Chip Physical ID"], "logic": found.get("Chip Logic ID"), "npu": found.get("NPU ID"),
            "chip": found.get("Chip ID")}  # fmt: skip


# ------------------------------------------------------------------ links


def _numbers(value: str) -> list[int | None]:
    return [whole(word) for word in value.strip("[] ").split()[:64]]


def parse_hccs(text: str, source: str, npu: int | None = None, chip: int | None = None) -> list[dict[str, Any]]:
    """``-t hccs``: [{npu, chip, health, lanes, speed, retries, errors: one per link, first_error_lane, seen}]."""
    rows = []
    for block in parse_blocks(text):
        values = block["values"]
        if "hccs health status" not in values:
            continue
        rows.append({
            "npu": _known(block["npu"], npu), "chip": _known(block["chip"], chip),
            "health": values["hccs health status"], "lanes": _numbers(values.get("hccs lane mode", "")),
            "lane_list": values.get("hccs link lane list", "").strip("[] ").split(),
            "speed": _numbers(values.get("hccs link speed", "")),
            "retries": _numbers(values.get("hccs retry count", "")),
            "errors": _numbers(values.get("hccs error count", "")),
            "first_error_lane": whole(values.get("hccs first error lane", "")),
            "seen": _seen(block, source, "hccs health status"),
            "seen_errors": _seen(block, source, "hccs error count"),
        })  # fmt: skip
    return rows


def parse_hccs_bandwidth(text: str) -> dict[str, tuple[float, float]] | None:
    """``-t hccs-bw``: {link: (sent, received)} in GB/s with ``total``; None without its header."""
    rows: dict[str, tuple[float, float]] = {}
    header = False
    for line in text.splitlines()[:_LINES]:
        words = line[:_LINE].split()
        if "tx_bandwidth(GB/S)" in words:
            header = True
        elif header and len(words) == 3:
            sent, received = decimal(words[1]), decimal(words[2])
            if sent is not None and received is not None:
                rows[words[0]] = (sent, received)
    return rows if header else None


PCIE = ("TX Error Count", "RX Error Count", "Lcrc Error Count", "Ecrc Error Count", "Retry Count")


def parse_pcie_errors(text: str, source: str, npu: int | None = None, chip: int | None = None) -> list[dict[str, Any]]:
    """``-t pcie-err``: [{npu, chip, counts: {name: count}, seen}]; names as printed, they differ between builds."""
    rows = []
    for block in parse_blocks(text):
        counts = {key: whole(value) for key, value in block["values"].items() if "Count" in key}
        known = {key: count for key, count in counts.items() if count is not None}
        if known and any(key in PCIE or key.startswith(("Pcs ", "Phy ")) for key in known):
            worst = next((key for key, count in known.items() if count), next(iter(known)))
            rows.append({"npu": _known(block["npu"], npu), "chip": _known(block["chip"], chip), "counts": known,
                         "seen": _seen(block, source, worst)})  # fmt: skip
    return rows


def parse_spod(text: str, source: str, npu: int | None = None, chip: int | None = None) -> list[dict[str, Any]]:
    """``-t spod-info`` (A3): [{npu, chip, sdid, size, pod, server, seen}]."""
    rows = []
    for block in parse_blocks(text):
        values = block["values"]
        if "SDID" in values:
            rows.append({"npu": _known(block["npu"], npu), "chip": _known(block["chip"], chip),
                         "sdid": whole(values["SDID"]), "size": whole(values.get("Super Pod Size", "")),
                         "pod": whole(values.get("Super Pod ID", "")), "server": whole(values.get("Server Index", "")),
                         "seen": _seen(block, source, "Super Pod ID", "SDID")})  # fmt: skip
    return rows


RELATIONS = frozenset(("X", "HCCS", "HCCS_SW", "SIO", "UB", "PIX", "PXB", "PHB", "SYS", "NA"))
_DEVICE = re.compile(r"(?:NPU|Phy-ID)(\d{1,5})")


def parse_topo(text: str, source: str = "npu-smi info -t topo") -> dict[str, Any] | None:
    """``-t topo``: {names, ids, by: "npu" or "phy", links: {name: {name: word}}, affinity: {name: CPUs}, lines: {name:
    Seen}}; None without a header. Rows and columns of network cards are left out."""
    columns: list[str] = []
    links: dict[str, dict[str, str]] = {}
    affinity: dict[str, str] = {}
    lines: dict[str, Seen] = {}
    for number, line in enumerate(text.splitlines()[:_LINES], 1):
        words = line[:_LINE].split()[:200]
        if words[:1] == ["Legend:"]:
            break
        if not columns:
            if words and all(_DEVICE.fullmatch(w) for w in words[:1]) and "X" not in words:
                columns = [w for w in words if w not in ("CPU", "Affinity")]
        elif words and _DEVICE.fullmatch(words[0]) and len(words) > len(columns):
            cells = dict(zip(columns, words[1:], strict=False))
            if all(word in RELATIONS for name, word in cells.items() if _DEVICE.fullmatch(name)):
                links[words[0]] = {name: word for name, word in cells.items() if _DEVICE.fullmatch(name)}
                lines[words[0]] = (source, number, " ".join(words)[:400])
                if len(words) > len(columns) + 1:
                    affinity[words[0]] = words[len(columns) + 1]
    names = [name for name in columns if name in links]
    if not names:
        return None
    ids = [int(found[1]) for name in names if (found := _DEVICE.fullmatch(name))]
    return {"names": names, "ids": ids, "by": "phy" if names[0].startswith("Phy") else "npu", "links": links,
            "affinity": affinity, "lines": lines}  # fmt: skip
