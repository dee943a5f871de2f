"""NPU512, 518, 519, 522: how the chips of a machine reach each other and the host.

Source: hicann/driver ``npu_info_print_ext.c`` and ``npu_info.c`` (words and healthy pictures of ``-t topo``).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

from doctor.checks.environment.npu import place, seen, who
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

LOCAL = frozenset(("PIX", "PXB", "PHB", "SYS"))
"""Relations over PCIe and between CPUs."""


def _groups(size: int, inside: str, outside: frozenset[str]) -> Callable[[int, int, str], bool]:
    """Pairs of one group of ``size`` neighbours are linked by ``inside``, all others by one of ``outside``."""
    return lambda a, b, word: word == inside if a // size == b // size else word in outside


PICTURES: tuple[tuple[str, int, Callable[[int, int, str], bool]], ...] = (
    ("HCCS", 2, lambda a, b, word: word == "HCCS"),
    ("HCCS", 8, _groups(4, "HCCS", LOCAL)),
    ("HCCS", 16, _groups(8, "HCCS", LOCAL)),
    ("SIO + HCCS_SW", 2, _groups(2, "SIO", frozenset(("HCCS_SW", "HCCS")))),
    ("UB", 4, _groups(2, "UB", LOCAL)),
    ("UB", 8, _groups(4, "UB", LOCAL)),
    ("PCIe", 1, lambda a, b, word: word in LOCAL),
)
"""Healthy machines: name, chips from which it counts, whether two ids may be related by a word. Ids, not positions: a
container shows some of the chips."""
ODD = 0.25
"""Part of the pairs that may differ for a picture still to be meant."""


def topology(topo: Fact) -> Answer:
    """NPU512: a pair of chips linked in another way than the rest of the machine.

    The picture with the fewest odd pairs is taken for the machine's own; where none comes near, nothing is claimed.
    """
    value = topo.value
    names, links = value["names"], value["links"]
    ids = dict(zip(names, value["ids"], strict=True))
    pairs = list(combinations(names, 2))
    if not pairs:
        return passed({"picture": "1"}, topo.evidence)
    best: tuple[int, str, list[tuple[str, str]]] | None = None
    for name, least, fits in PICTURES:
        if len(names) < least:
            continue
        odd = [
            (a, b) for a, b in pairs
            if not fits(ids[a], ids[b], links[a].get(b, "")) or links[a].get(b) != links[b].get(a)
        ]  # fmt: skip
        if best is None or len(odd) < best[0]:
            best = (len(odd), name, odd)
    assert best is not None  # the first and the last picture always count
    number, name, odd = best
    if not number:
        return passed({"picture": name, "count": len(names)}, topo.evidence)
    if number > ODD * len(pairs):
        return unknown("not_understood", "", topo.evidence)
    told = [f"{a}–{b} {links[a].get(b, '?')}" for a, b in odd]
    evidence = [Evidence(*value["lines"][a]) for a in dict.fromkeys(a for a, _ in odd)]
    return fail({"pairs": ", ".join(told[:8]), "number": number, "usual": name}, *evidence[:4])


def hccs(rows: Fact) -> Answer | list[Answer]:
    """NPU518: HCCS of a chip is not OK, or counts errors on a link (index from 0)."""
    found = []
    for row in rows.value:
        bad = [str(n) for n, count in enumerate(row["errors"]) if count]
        if row["health"].upper() == "OK" and not bad:
            continue
        if row["health"].upper() not in ("OK", "NOK") and not bad:
            found.append(unknown("not_understood", "", seen(row)))
            continue
        links = {"links": ", ".join(bad)} if bad else {}
        found.append(fail({"health": row["health"], **links, **who(row)}, seen(row),
                          seen(row, "seen_errors") if bad else None, place=place(row),
                          severity=None if row["health"].upper() == "NOK" else "warning"))  # fmt: skip
    return found or passed({"count": len(rows.value)}, rows.evidence)


def pcie(rows: Fact) -> Answer | list[Answer]:
    """NPU519: PCIe errors of a chip since its start. Retries alone are corrected and no fault."""
    found = []
    for row in rows.value:
        bad = {key: count for key, count in row["counts"].items() if count and "Retry" not in key}
        if bad:
            counts = ", ".join(f"{key.removesuffix(' Count')} {count}" for key, count in list(bad.items())[:6])
            found.append(fail({"counts": counts, **who(row)}, seen(row), place=place(row)))
    return found or passed({"count": len(rows.value)}, rows.evidence)


def super_pod(rows: Fact | Unknown) -> Answer | list[Answer]:
    """NPU522: dies of one server must agree on the super pod, its size and the server's index, and differ in SDID."""
    if isinstance(rows, Unknown):
        return unknown(rows.why, rows.how, **rows.args) if rows.applies else not_applicable(rows.why, **rows.args)
    found = []
    for key in ("pod", "size", "server"):
        values: dict[Any, Any] = {}
        for row in rows.value:
            values.setdefault(row[key], row)
        if len(values) > 1:
            told = ", ".join("-" if value is None else str(value) for value in list(values)[:6])
            found.append(fail({"what": key, "values": told}, *(seen(row) for row in list(values.values())[:3])))
    owners: dict[Any, Any] = {}
    for row in rows.value:
        first = owners.setdefault(row["sdid"], row)
        if first is not row and row["sdid"] is not None:
            told = f"{row['sdid']} ({first['label']}, {row['label']})"
            found.append(fail({"what": "SDID", "values": told}, seen(first), seen(row), place=place(row)))
    return found or passed({"count": len(rows.value)}, rows.evidence)
