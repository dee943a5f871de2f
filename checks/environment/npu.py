"""NPU501, 505–509, 513, 521, 523, 524, 530–537: does npu-smi answer, are all chips there and well.

Source: hicann/driver ``npucli/src`` (texts, health words), DCMI return codes, Huawei's fault classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.checks.environment.npu_codes import CLASS_OF, SEVERITY
from doctor.model import NOWHERE, Answer, Evidence, Fact, Place, Unknown, fail, not_applicable, passed, unknown

HEALTH = {"OK": "", "Warning": "warning", "Alarm": "error", "Critical": "error", "UNKNOWN": "error"}
"""Severity of a health word. Only OK is well; there is no word Normal."""


def seen(item: Mapping[str, Any], key: str = "seen") -> Evidence | None:
    """The evidence that a part of a fact carries as (source, line, text)."""
    found = item.get(key)
    return Evidence(*found) if found else None


def place(item: Mapping[str, Any]) -> Place:
    """The device that a row speaks of: its physical id, else the id of its NPU."""
    device = next((item[key] for key in ("device", "phy", "npu") if item.get(key) is not None), None)
    return Place(device=device) if isinstance(device, int) else NOWHERE


def who(item: Mapping[str, Any]) -> dict[str, Any]:
    """The name of the chip for texts, nothing where an output does not say whose it is."""
    name = item.get("label")
    npu, chip = item.get("npu"), item.get("chip")
    # what a command takes after -i and -c; the placeholder of the manual where it is not known
    ids = {"npu": "<NPU ID>" if npu is None else npu, "chip": 0 if chip is None and npu is not None else chip}
    ids["chip"] = "<Chip ID>" if ids["chip"] is None else ids["chip"]
    return {"device": name, **ids} if name and name != "?" else ids


def without(fact: Unknown) -> Answer:
    """The answer where a fact is missing: unknown, or not applicable if the question does not arise."""
    return unknown(fact.why, fact.how, **fact.args) if fact.applies else not_applicable(fact.why, **fact.args)


# ------------------------------------------------------------------ the tool


def _failed(smi: Fact, *kinds: str) -> Answer:
    """Fail if npu-smi as a whole, or one of its sub-commands, ended with a failure of these kinds."""
    value = smi.value
    problem = value["problem"]
    if problem is not None:
        if problem["kind"] in kinds:
            known = {name: text for name, text in problem.items() if text not in ("", None) and name != "kind"}
            return fail(known, smi.evidence)
        return not_applicable("npu_smi_failed", text=problem["text"])
    for one in value["refused"]:
        if one["kind"] in kinds:
            known = {name: one[name] for name in ("ret", "what") if one[name] not in ("", None)}
            return fail({"text": one["seen"][2], **known, **who(one)}, seen(one), place=place(one))
    if value["state"] == "queries":
        return unknown("not_recorded")
    return passed({"tool": value["tool"]}, smi.evidence)


def tool_answers(smi: Fact) -> Answer:
    """NPU505: npu-smi ends with a failure that no narrower rule knows."""
    problem = smi.value["problem"]
    if problem is not None and problem["kind"] == "root_only":
        return unknown("needs_root", "as_root", smi.evidence)
    if problem is not None and problem["kind"] == "not_here":
        return unknown("in_container", "on_host", smi.evidence)
    if problem is not None and problem["kind"] == "init" and problem["ret"] not in (None, -8005):
        return _failed(smi, "init")
    return _failed(smi, "board", "failed", "crashed", "text", "silent")


def driver_reachable(smi: Fact) -> Answer:
    """NPU530: DCMI cannot start (-8005)."""
    problem = smi.value["problem"]
    if problem is not None and problem["kind"] == "init" and problem["ret"] not in (None, -8005):
        return not_applicable("npu_smi_failed", text=problem["text"])
    return _failed(smi, "init")


def held_elsewhere(smi: Fact) -> Answer:
    """NPU531: another container or process holds the device (-8020)."""
    return _failed(smi, "in_use")


def driver_libraries(smi: Fact) -> Answer:
    """NPU532: the loader finds no library of the driver."""
    return _failed(smi, "library")


def tool_is_file(smi: Fact) -> Answer:
    """NPU533: the path of npu-smi is a folder or leads nowhere."""
    return _failed(smi, "directory", "no_file")


def tool_allowed(smi: Fact) -> Answer:
    """NPU534: the user may not run npu-smi."""
    return _failed(smi, "permission")


def tool_found(smi: Fact) -> Answer:
    """NPU535: no npu-smi although there are NPUs, or as a pasted text says."""
    return _failed(smi, "not_found")


def tool_in_time(smi: Fact) -> Answer:
    """NPU521: npu-smi does not come back. ``seconds`` is the limit it was given."""
    problem = smi.value["problem"]
    if problem is not None and problem["kind"] == "timeout":
        return fail({"seconds": problem["what"]}, smi.evidence)
    for one in smi.value["refused"]:
        if one["kind"] == "timeout":
            return fail({"seconds": "10", "command": one["seen"][0], **who(one)}, seen(one), place=place(one))
    return _failed(smi)


def queries_answered(smi: Fact) -> Answer | list[Answer]:
    """NPU536: single queries of a chip fail although the tool answers. One chip that answers nothing is one finding."""
    if smi.value["problem"] is not None:
        return _failed(smi)
    found: dict[Any, Answer] = {}
    for one in smi.value["refused"]:
        if one["kind"] in ("query", "failed", "crashed", "text"):
            args = {"text": one["seen"][2], **({"what": one["what"]} if one["what"] else {}), **who(one)}
            found.setdefault(one["npu"], fail(args, seen(one), place=place(one)))
    return list(found.values()) or _failed(smi)


def card_known(smi: Fact) -> Answer:
    """NPU537: npu-smi knows no card of the id asked for."""
    problem = smi.value["problem"]
    if problem is not None and problem["kind"] == "bad_id":
        return fail({"text": problem["text"]}, smi.evidence)
    return _failed(smi, "bad_id")


def layout_known(smi: Fact) -> Answer:
    """NPU509: a table without the columns of any known release."""
    if smi.value["state"] == "layout":
        return fail({"text": smi.value["seen"][2]}, smi.evidence)
    return _failed(smi)


def driver_complete(smi: Fact) -> Answer:
    """NPU524: npu-smi warns that the driver package is not completely installed."""
    warning = smi.value["warning"]
    if warning:
        return fail({"text": warning[2]}, Evidence(*warning))
    return _failed(smi)


# ------------------------------------------------------------------ are they there


def present(pci: Fact, files: Fact | Unknown, smi: Fact | Unknown, container: Fact | Unknown) -> Answer:
    """NPU501: a driver is installed and not one accelerator is on the bus.

    Not in a container, where the driver's files may be part of the image.
    """
    count = pci.value["count"]
    if count:
        return passed({"count": count}, pci.evidence)
    if isinstance(container, Fact) and container.value.get("inside"):
        return not_applicable("no_npu")
    tool = isinstance(smi, Fact) and smi.value["problem"] is not None and smi.value["problem"]["kind"] == "no_card"
    if isinstance(smi, Fact) and tool:
        return fail({}, smi.evidence, pci.evidence)
    if isinstance(files, Fact) and (files.value.get("info") or (files.value.get("files") or {}).get("version")):
        return fail({}, files.evidence, pci.evidence)
    return not_applicable("no_npu")


def count(
    table: Fact | Unknown, expected: Fact | Unknown, smi: Fact | Unknown, pci: Fact | Unknown, container: Fact | Unknown
) -> Answer:
    """NPU506: npu-smi shows fewer chips than the machine has by its other signs.

    Chips whose row is printed but cannot be read are NPU523. Without another list, one gap in an otherwise full row of
    ids is a guess: ids may have gaps, and a container shows only the devices passed in.
    """
    if isinstance(smi, Fact) and smi.value["problem"] is not None and smi.value["problem"]["kind"] == "no_card":
        number = pci.value["count"] if isinstance(pci, Fact) else None
        if number == 0:
            return not_applicable("no_npu")
        more = {"expected": number, "by": "PCI"} if number else {}
        return fail({"shown": 0, **more}, smi.evidence, confidence="certain" if number else "likely")
    if isinstance(table, Unknown):
        return without(table)
    if isinstance(smi, Fact) and smi.value["state"] != "ok":
        return unknown("npu_smi_failed", "", table.evidence, text=smi.value["problem"]["text"] or smi.value["state"])
    chips = table.value
    if isinstance(expected, Fact):
        value = expected.value
        shown = value["table"] + value["unreadable"]
        if shown < value["count"]:
            gone = value["missing"] or value["missing_bus"] or _gaps(chips)
            more = {"missing": ", ".join(gone)} if gone else {}
            return fail({"shown": shown, "expected": value["count"], "by": value["by"], **more}, table.evidence,
                        confidence="certain" if value["by"] in ("pci", "nodes", "said") else "likely")  # fmt: skip
    inside = isinstance(container, Fact) and container.value.get("inside")
    gaps = [] if inside or (isinstance(smi, Fact) and smi.value["unreadable"]) else _gaps(chips)
    if gaps:
        # a paste may end before the last rows, and who was given six cards sees 0 to 5
        at_the_end = all(g.isdigit() and int(g) > max(chip["npu"] for chip in chips) for g in gaps)
        return fail({"shown": len(chips), "missing": ", ".join(gaps)}, table.evidence,
                    severity="advice" if at_the_end else "warning", confidence="guess")  # fmt: skip
    return passed({"shown": len(chips)}, table.evidence)


def _gaps(chips: list[dict[str, Any]]) -> list[str]:
    """NPU ids missing from an otherwise full row of eight, and dies missing from NPUs that have two."""
    ids = {chip["npu"] for chip in chips}
    whole = set(range(8))
    gone = [str(i) for i in sorted(whole - ids)] if ids < whole and len(ids) >= 6 else []
    dies: dict[int, int] = {}
    for chip in chips:
        dies[chip["npu"]] = dies.get(chip["npu"], 0) + 1
    if max(dies.values(), default=0) == 2 and len(dies) >= 4:
        single = [npu for npu, number in dies.items() if number == 1]
        gone += [f"{npu}/?" for npu in single] if len(single) <= 2 else []
    return gone


def readable(smi: Fact, expected: Fact | Unknown) -> Answer | list[Answer]:
    """NPU523: a second row that no first row precedes: the driver gave a health that npu-smi cannot print."""
    rows = smi.value["unreadable"]
    missing = expected.value["missing"] if isinstance(expected, Fact) else []
    name = {"device": missing[0]} if len(rows) == 1 and len(missing) == 1 else {}
    found = []
    for row in rows:
        cells = [cell.strip() for cell in str(row[2]).split("|")]
        bus = next((cell for cell in cells if cell.count(":") == 2), "")
        found.append(fail({**name, **({"bus": bus} if bus else {})}, Evidence(*row)))
    return found or _failed(smi)


# ------------------------------------------------------------------ are they well


def health(table: Fact | Unknown, codes: Fact | Unknown) -> Answer | list[Answer]:
    """NPU507: a chip whose health word is not OK; the word is that of the table, else of ``-t health``."""
    rows = list(table.value) if isinstance(table, Fact) else []
    asked = list(codes.value) if isinstance(codes, Fact) else []
    if not rows and not asked:
        return without(table) if isinstance(table, Unknown) else without(codes) if isinstance(codes, Unknown) else (
            unknown("not_understood"))  # fmt: skip
    of = {(row["npu"], row["chip"] or 0): row for row in asked}
    named = {(row["npu"], row["chip"] or 0) for row in rows}
    rows += [row for row in asked if (row["npu"], row["chip"] or 0) not in named]
    found, odd = [], []
    for row in rows:
        word = row["health"]
        severity = HEALTH.get(word)
        if severity is None:
            odd += [row] if word else []
            continue
        if not severity:
            continue
        also = of.get((row["npu"], row["chip"] or 0))
        numbers = " ".join(code["code"] for code in also["codes"]) if also else ""
        found.append(fail(
            {"health": word, **who(row), **({"codes": numbers} if numbers else {})}, seen(row),
            seen(also) if also and also is not row else None,
            place=place(row), severity=severity,
        ))  # fmt: skip
    if found:
        return found
    if odd:
        return unknown("not_understood", "", seen(odd[0]))
    return passed({"count": len(rows)}, seen(rows[0]))


def fault_codes(codes: Fact) -> Answer | list[Answer]:
    """NPU508: fault codes of a chip; the severity is that of the code's class, an unlisted code is a warning."""
    found = []
    for row in codes.value:
        for code in row["codes"]:
            kind = CLASS_OF.get(code["code"], "")
            found.append(fail(
                {"code": code["code"], **who(row), "class": kind or "unlisted",
                 **({"text": code["text"]} if code["text"] else {})},
                seen(row, "seen_codes"), seen(row), place=place(row), severity=SEVERITY[kind],
                confidence="certain" if kind else "likely",
            ))  # fmt: skip
    return found or passed({}, codes.evidence)


def figures_there(table: Fact) -> Answer | list[Answer]:
    """NPU539: a chip that is OK and all of whose figures are 0: one of its queries failed unseen."""
    found = []
    for chip in table.value:
        zero = not chip["power"] and chip["power"] is not None and chip["temperature"] == 0
        if zero and chip["health"] == "OK" and chip["memory"] == (0, 0):
            found.append(fail(who(chip), seen(chip), place=place(chip)))
    return found or passed({"count": len(table.value)}, table.evidence)


def alike(table: Fact, board: Fact | Unknown) -> Answer | list[Answer]:
    """NPU513: chips of one machine that differ in name, driver or firmware."""
    found = []
    rows: list[tuple[str, list[Any], str]] = [("name", table.value, "name")]
    if isinstance(board, Fact):
        rows += [(key, board.value, key) for key in ("driver", "firmware")]
    for what, items, key in rows:
        values: dict[str, Any] = {}
        for item in items:
            if item[key]:
                values.setdefault(item[key], item)
        if len(values) > 1:
            evidence = [seen(item) for item in list(values.values())[:4]]
            found.append(fail({"what": what, "values": ", ".join(list(values)[:4])}, *evidence))
    return found or passed({"count": len(table.value)}, table.evidence)


HOT = 85
"""Degrees Celsius. No document names a limit, alarms are the chip's own; above this a look at the fans pays."""


def temperature(table: Fact) -> Answer | list[Answer]:
    """NPU516: a chip above HOT °C."""
    found = [
        fail({"temperature": chip["temperature"], "limit": HOT, **who(chip)}, seen(chip),
             place=place(chip))
        for chip in table.value if (chip["temperature"] or 0) > HOT
    ]  # fmt: skip
    known = [chip["temperature"] for chip in table.value if chip["temperature"] is not None]
    return found or (passed({"temperature": max(known)}, table.evidence) if known else unknown("not_understood"))


BUSY, SLOW = 50, 0.8
"""Percent of load from which a lowered clock counts (idle chips lower it), and the part of the rated clock."""


def frequency(common: Fact) -> Answer | list[Answer]:
    """NPU517: AI cores at work below their rated clock (MHz)."""
    found = [
        fail({"current": row["current"], "rated": row["frequency"], "load": row["aicore"], **who(row)}, seen(row),
             place=place(row))
        for row in common.value
        if row["current"] and row["frequency"] and (row["aicore"] or 0) >= BUSY
        and row["current"] < SLOW * row["frequency"]
    ]  # fmt: skip
    return found or passed({}, common.evidence)
