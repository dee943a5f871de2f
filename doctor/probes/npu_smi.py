"""npu-smi: what the driver's tool says about every chip.

``npu-smi info`` first, then the sub-commands one after another: calls that run side by side wait for the same lock of
the driver. Asking ends with the first call that hangs or that the driver refuses, after ``CALLS`` calls, or when
``DEADLINE`` seconds went by in them; what was not asked is unknown.

Facts, all plain data. ``seen`` is (source, line, text), ``label`` what people call a chip (``3``, ``3/1``), ``device``
its physical id where that is known, else the NPU id:

- ``npu.smi`` {state: ok · layout · missing · timeout · failed · queries, tool, driver, layout, problem: {kind, ret,
  what, text}, warning: seen, unreadable: [seen], idle: [npu], shows_processes, refused: [{type, npu, label, device,
  kind, what, ret, seen}], skipped: [type]}; state queries: only sub-commands are known
- ``npu.table`` [Chip], ``npu.processes`` [Process]: see ``npu_table``
- ``npu.map`` [{npu, chip, logic, phy, name, seen}], ``npu.topo`` {names, ids, by, links, affinity, lines}
- ``npu.health`` ``npu.board`` ``npu.ecc`` ``npu.common`` ``npu.hccs`` ``npu.pcie_err`` ``npu.spod``: rows of
  ``npu_queries``, each with label and device
- ``npu.expected`` {count, by, table, unreadable, inside, counts: {pci, nodes, list, map, said}, missing: [label],
  missing_bus: [bus]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from doctor.hosts.base import Host, data_of, title
from doctor.model import Evidence, Fact, Raw, Unknown
from doctor.probes import npu_queries as queries
from doctor.probes.base import Facts, Probe
from doctor.probes.npu_table import Chip, Seen, Table, has_title, is_table, label, parse_info

CALLS = 48
"""Calls on one machine: four for the whole, five for each of eight NPUs, some to spare for chips that are ill."""
DEADLINE = 60.0
"""Seconds spent in npu-smi before the rest is left unasked."""
TABLE_LIMIT, QUERY_LIMIT = 30.0, 10.0
"""Seconds one call may take: the table of 16 busy chips needs several, one query a fraction of one."""
SWEEP = 16
"""NPU ids looked for in texts that come without a table."""

Rows = list[dict[str, Any]]


class Query(NamedTuple):
    """A sub-command, asked ``per`` chip or npu; ``parse`` (text, source, npu, chip) gives rows; ``only`` of layouts."""

    fact: str
    type: str
    per: str
    parse: Callable[[str, str, int | None, int | None], Rows]
    only: tuple[str, ...] = ()


QUERIES = (
    Query("npu.health", "health", "chip", queries.parse_health),
    Query("npu.spod", "spod-info", "chip", queries.parse_spod, ("A3",)),
    Query("npu.ecc", "ecc", "npu", lambda text, source, npu, _: queries.parse_ecc(text, source, npu)),
    Query("npu.board", "board", "npu", lambda text, source, npu, _: queries.parse_board(text, source, npu)),
    Query("npu.hccs", "hccs", "chip", queries.parse_hccs, ("910", "A3")),
    Query("npu.pcie_err", "pcie-err", "chip", queries.parse_pcie_errors),
    Query("npu.common", "common", "npu", lambda text, source, npu, _: queries.parse_common(text, source, npu)),
)
"""In order of worth: what a deadline cuts off is the least telling."""

WHOLE = ("npu.table", "npu.processes", "npu.map", "npu.topo", "npu.expected")
GIVES = ("npu.smi", *WHOLE, *(query.fact for query in QUERIES))

WHY = {
    "root_only": ("needs_root", "as_root"),
    "not_here": ("in_container", "on_host"),
    "not_supported": ("not_supported", ""),
    "timeout": ("timeout", ""),
}


class _Tool:
    """npu-smi of one host: counts calls and seconds, and stops when it makes no sense to go on."""

    def __init__(self, host: Host) -> None:
        self.host, self.calls, self.seconds, self.stopped = host, 0, 0.0, ""
        self.refused: list[dict[str, Any]] = []
        self.skipped: list[str] = []

    def ask(self, *args: str, limit: float = QUERY_LIMIT) -> Raw | None:
        """The answer to ``npu-smi ARGS``, None if nothing is asked any more."""
        if self.stopped:
            return None
        if self.host.live and (self.calls >= CALLS or self.seconds >= DEADLINE):
            self.stopped = "not_asked"
            return None
        raw = self.host.run("npu-smi", *args, limit=limit)
        self.calls += 1
        self.seconds += raw.seconds
        if raw.state == "timeout":
            self.stopped = "timeout"
        return raw


def read_smi(host: Host, facts: Facts) -> list[Fact | Unknown]:
    """Everything that npu-smi says; never raises, each fact is there or says why not."""
    tool = _Tool(host)
    raw = tool.ask("info", limit=TABLE_LIMIT)
    assert raw is not None  # the first call is always made
    state = _first(raw, _present(facts, host.live))
    found: dict[str, Fact | Unknown] = {}
    if isinstance(state, Unknown):
        if host.live or not state.applies:
            return [Unknown(name, state.why, state.how, state.args, applies=state.applies) for name in GIVES]
        # texts without the table: whatever else is there is read
        found["npu.smi"] = state
        table: Table | None = None
    else:
        value, table = state
        if host.live and value["state"] in ("missing", "timeout", "failed"):
            tool.stopped = "npu_smi_failed"
        found["npu.smi"] = Fact("npu.smi", value, _evidence(value["seen"]))
    _whole_facts(tool, table, found, facts, _said(host))
    _rows_facts(tool, table, found)
    smi = found["npu.smi"]
    if isinstance(smi, Fact):
        smi.value.update(refused=tool.refused, skipped=tool.skipped)
    elif tool.refused:
        # a sub-command's refusal is all there is
        seen = tool.refused[0]["seen"]
        value = _smi_value("queries", ("", 0, ""), None) | {"refused": tool.refused, "skipped": tool.skipped}
        found["npu.smi"] = Fact("npu.smi", value, _evidence(seen))
    blank = _why(found["npu.smi"], tool)
    return [found[name] if name in found else Unknown(name, *blank) for name in GIVES]


def _evidence(seen: Seen | None) -> Evidence | None:
    return Evidence(*seen) if seen and seen[0] else None


def _why(smi: Fact | Unknown, tool: _Tool) -> tuple[str, str, dict[str, Any]]:
    """Why a fact is not there when nothing more exact is known."""
    if isinstance(smi, Unknown):
        return smi.why, smi.how, smi.args
    if smi.value["state"] == "layout":
        return "not_understood", "", {}
    if smi.value["problem"]:
        return "npu_smi_failed", "", {"text": smi.value["problem"]["text"][:120]}
    return (tool.stopped, "", {"seconds": f"{QUERY_LIMIT:g}"}) if tool.stopped else ("not_recorded", "", {})


# ------------------------------------------------------------------ the first call


def _present(facts: Facts, live: bool) -> bool | None:
    """Whether the machine shows an NPU by other signs than npu-smi; None is not known.

    Texts at hand may leave device files out: without the bus, only a live host without any has no NPU.
    """
    bus, nodes = _pci(facts), _nodes(facts)
    if bus or nodes:
        return True
    return False if bus is not None or (live and nodes is not None) else None


def _pci(facts: Facts) -> int | None:
    fact = facts.get("npu.pci")
    if isinstance(fact, Fact) and isinstance(fact.value, Mapping):
        count = fact.value.get("count")
        return count if isinstance(count, int) else None
    return None


def _nodes(facts: Facts) -> list[int] | None:
    """N of every /dev/davinciN, None if not known."""
    fact = facts.get("npu.nodes")
    if not isinstance(fact, Fact):
        return None
    rows = fact.value
    if isinstance(rows, Mapping):
        rows = rows.get("devices", rows.get("nodes", rows.get("files")))
    if not isinstance(rows, (list, tuple)):
        return None
    ids = []
    for row in rows:
        path = row.get("path", row.get("name", "")) if isinstance(row, Mapping) else row
        number = str(path).rpartition("davinci")[2]
        if number.isdecimal() and len(number) < 6:
            ids.append(int(number))
    return sorted(set(ids))


def _first(raw: Raw, present: bool | None) -> tuple[dict[str, Any], Table | None] | Unknown:
    """What the first call tells: the value of ``npu.smi`` and the table, or why nothing is known."""
    source = title(raw.key)
    text = raw.text
    table = parse_info(raw.out, source) or (parse_info(text, source) if raw.err else None)
    if table is not None and raw.state in ("ok", "timeout", "killed"):
        if raw.state == "ok":
            return _smi_value("ok", table["seen"], None, table), table
        problem = _problem("timeout" if raw.state == "timeout" else "crashed", text, source, raw)
        return _smi_value("timeout" if raw.state == "timeout" else "failed", table["seen"], problem, table), table
    if raw.state == "timeout":
        return _smi_value("timeout", (source, 0, ""), _problem("timeout", text, source, raw)), None
    if raw.state in ("not_recorded", "refused"):
        return Unknown("npu.smi", "not_recorded" if raw.state == "not_recorded" else "not_asked")
    if raw.state == "missing":
        if present is False:
            return Unknown("npu.smi", "no_npu", applies=False)
        if present is None:
            return Unknown("npu.smi", "no_tool", "", {"tool": "npu-smi"})
        return _smi_value(
            "missing", (source, 0, raw.err.strip()[:200]), _problem("not_found", raw.err, source, raw)
        ), None
    if raw.state == "killed":
        return _smi_value("failed", (source, 0, ""), _problem("crashed", text, source, raw)), None
    found = queries.failure(text)
    if found is None and raw.state == "denied":
        return _smi_value("failed", (source, 0, raw.err.strip()[:200]), _problem("permission", text, source, raw)), None
    if found is not None and found.kind != "query":
        problem = {"kind": found.kind, "ret": found.ret, "what": found.what, "text": found.text}
        if found.kind == "no_card" and present is False:
            return Unknown("npu.smi", "no_npu", applies=False)
        return _smi_value("failed", (source, found.line, found.text), problem), None
    if is_table(text):
        number, line = next((n, x) for n, x in enumerate(text.splitlines(), 1) if "npu-smi" in x)
        return _smi_value("layout", (source, number, line.strip()[:240]), None), None
    if has_title(text) and not raw.code:
        return Unknown("npu.smi", "not_understood")  # a paste that ends in the header
    return _smi_value("failed", (source, 1 if text.strip() else 0, text.strip()[:200]),
                      _problem("text" if text.strip() else "silent", text, source, raw)), None  # fmt: skip


def _problem(kind: str, text: str, source: str, raw: Raw) -> dict[str, Any]:
    # the frame and the rows of a table that breaks off say nothing of why
    line = next((x.strip()[:200] for x in text.splitlines() if x.strip() and not x.lstrip().startswith(("+", "|"))), "")
    what = {"timeout": f"{raw.seconds or TABLE_LIMIT:.0f}", "crashed": str(-raw.code) if raw.code else ""}.get(kind, "")
    return {"kind": kind, "ret": raw.code if kind in ("text", "silent") else None, "what": what, "text": line}


def _smi_value(state: str, seen: Seen, problem: dict[str, Any] | None, table: Table | None = None) -> dict[str, Any]:
    return {
        "state": state, "tool": table["tool"] if table else "", "driver": table["driver"] if table else "",
        "layout": table["layout"] if table else "", "problem": problem, "seen": seen,
        "warning": table["warning"] if table else None, "unreadable": table["unreadable"] if table else [],
        "idle": table["idle"] if table else [], "shows_processes": table["shows_processes"] if table else False,
        "refused": [], "skipped": [],
    }  # fmt: skip


# ------------------------------------------------------------------ the rest


def _whole_facts(
    tool: _Tool, table: Table | None, found: dict[str, Fact | Unknown], facts: Facts, said: int | None
) -> None:
    """Facts of the machine as a whole: table, processes, map, topology, the number of chips that should be there."""
    if table is not None:
        seen = _evidence(table["seen"])
        found["npu.table"] = Fact("npu.table", table["chips"], seen)
        if table["shows_processes"]:
            found["npu.processes"] = Fact("npu.processes", table["processes"], seen)
        else:
            found["npu.processes"] = Unknown("npu.processes", "not_shown")
    text, source = _answer(tool, "map", None, None, "info", "-m")
    rows = queries.parse_map(text, source) if text else None
    if rows:
        found["npu.map"] = Fact("npu.map", rows, _evidence(rows[0]["seen"]))
    text, _ = _answer(tool, "list", None, None, "info", "-l")
    listed = queries.parse_list(text) if text else None
    text, source = _answer(tool, "topo", None, None, "info", "-t", "topo")
    topo = queries.parse_topo(text, source) if text else None
    if topo:
        found["npu.topo"] = Fact("npu.topo", topo, _evidence(topo["lines"][topo["names"][0]]))
    else:
        _note(tool, "topo", "npu.topo", found)
    expected = _expected(table, rows, listed, facts, said)
    if expected:
        found["npu.expected"] = Fact("npu.expected", expected, _evidence(table["seen"]) if table else None)


def _answer(tool: _Tool, kind: str, npu: int | None, chip: int | None, *args: str) -> tuple[str, str]:
    """(text, source) of a sub-command, ("", source) if it did not answer; failures are kept in ``tool.refused``."""
    raw = tool.ask(*args)
    if raw is None:
        if kind not in tool.skipped:
            tool.skipped.append(kind)
        return "", ""
    source = title(raw.key)
    if raw.state in ("missing", "not_recorded", "refused"):
        return "", source
    found = queries.failure(raw.text)
    if raw.state != "ok" and found is None:
        kind_of = {"timeout": "timeout", "killed": "crashed", "denied": "permission"}.get(raw.state, "text")
        found = queries.Failure(kind_of, 0, f"{raw.state} {raw.err.strip()[:200]}".strip())
    if found is None:
        return raw.text, source
    tool.refused.append({"type": kind, "npu": npu, "label": label(npu, chip or None), "device": npu, "kind": found.kind,
                         "what": found.what, "ret": found.ret,
                         "seen": (source, found.line, found.text)})  # fmt: skip
    if found.kind in ("init", "in_use") and tool.host.live:
        tool.stopped = "npu_smi_failed"
    return (raw.text, source) if found.kind == "query" else ("", source)


def _note(tool: _Tool, kind: str, fact: str, found: dict[str, Fact | Unknown]) -> None:
    """The reason why a fact has no value, from what its calls answered."""
    kinds = [one["kind"] for one in tool.refused if one["type"] == kind]
    for name, (why, how) in WHY.items():
        if name in kinds:
            found[fact] = Unknown(fact, why, how, {"seconds": f"{QUERY_LIMIT:g}"}, applies=name != "not_supported")
            return
    if kind in tool.skipped:
        why = "timeout" if tool.stopped == "timeout" else "not_asked"
        if tool.stopped != "npu_smi_failed":
            found[fact] = Unknown(fact, why, "", {"seconds": f"{QUERY_LIMIT:g}"})


def _rows_facts(tool: _Tool, table: Table | None, found: dict[str, Fact | Unknown]) -> None:
    """The sub-commands of every chip or NPU: those of the table, or of the map where the table cannot be read."""
    mapped = found.get("npu.map")
    chips: Iterable[Mapping[str, Any]] = table["chips"] if table else mapped.value if isinstance(mapped, Fact) else ()
    several = any(chip["chip"] for chip in chips)
    phy = {(chip["npu"], chip["chip"] or 0): chip["phy"] for chip in chips}
    for query in QUERIES:
        if table is not None and query.only and table["layout"] not in query.only:
            found[query.fact] = Unknown(query.fact, "not_supported", applies=False)
            continue
        targets = list(_targets(query, chips, tool.host.live))
        rows: Rows = []
        for npu, chip in targets:
            args = ("-i", str(npu), *(("-c", str(chip)) if query.per == "chip" else ())) if npu is not None else ()
            text, source = _answer(tool, query.type, npu, chip, "info", "-t", query.type, *args)
            rows += query.parse(text, source, npu, chip) if text else []
            last = tool.refused[-1]["kind"] if tool.refused and tool.refused[-1]["type"] == query.type else ""
            if not text and last in ("not_supported", "root_only", "not_here", "unknown_command"):
                break  # the next chip will say the same
        if query.type == "health":
            _add_faults(tool, table, targets, rows)
        for row in rows:
            row["label"] = label(row["npu"], row["chip"] if several or row["chip"] else None)
            physical = phy.get((row["npu"], row["chip"] or 0))
            row["device"] = row["npu"] if physical is None else physical
        if rows or (query.type == "health" and not targets and chips and not tool.stopped):
            seen = rows[0]["seen"] if rows else table["seen"] if table else None
            found[query.fact] = Fact(query.fact, rows, _evidence(seen))
        else:
            _note(tool, query.type, query.fact, found)


def _targets(query: Query, chips: Iterable[Mapping[str, Any]], live: bool) -> Iterable[tuple[int | None, int | None]]:
    """(npu, chip) to ask for. On a live host the codes of healthy chips are not asked for: they have none."""
    if not live:
        yield None, None
    if not chips and not live:
        for npu in range(SWEEP):
            yield from ((npu, chip) for chip in ((0, 1) if query.per == "chip" else (0,)))
        return
    asked = set()
    for chip in chips:
        key = (chip["npu"], (chip["chip"] or 0) if query.per == "chip" else 0)
        if key in asked or (live and query.type == "health" and chip.get("health") == "OK"):
            continue
        asked.add(key)
        yield key


def _add_faults(tool: _Tool, table: Table | None, targets: list[tuple[int | None, int | None]], rows: Rows) -> None:
    """950: events of ``-t current-fault-event``, as codes of the chip's health."""
    if table is not None and table["layout"] != "950":
        return
    for npu, chip in targets:
        args = ("-i", str(npu)) if npu is not None else ()
        if chip:
            continue
        text, source = _answer(tool, "current-fault-event", npu, None, "info", "-t", "current-fault-event", *args)
        for event in queries.parse_faults(text, source, npu) if text else []:
            row = next((r for r in rows if r["npu"] == event["npu"]), None)
            if row is None:
                row = {"npu": event["npu"], "chip": None, "health": "", "codes": [], "seen": event["seen"],
                       "seen_codes": event["seen"]}  # fmt: skip
                rows.append(row)
            if all(code["code"] != event["code"] for code in row["codes"]):
                row["codes"].append({"code": event["code"], "text": event["text"]})


# ------------------------------------------------------------------ how many chips there should be


def _expected(
    table: Table | None, rows: Rows | None, listed: Mapping[str, Any] | None, facts: Facts, said: int | None
) -> dict[str, Any] | None:
    """The number of chips that the machine has by its other signs, and which of them the table does not show."""
    counts = {"pci": _pci(facts), "nodes": None, "list": None, "map": len(rows) if rows else None}
    nodes = _nodes(facts)
    counts["nodes"] = len(nodes) if nodes is not None else None
    if listed is not None:
        counts["list"] = sum(one["chips"] or 1 for one in listed["npus"]) or listed["count"]
    container = facts.get("host.container")
    inside = (
        isinstance(container, Fact) and isinstance(container.value, Mapping) and bool(container.value.get("inside"))
    )
    if inside:
        counts["pci"] = None  # sysfs and lspci show the cards of the host, whichever are passed in
    counts["said"] = said
    known = {by: count for by, count in counts.items() if count}
    if not known or table is None:
        return None
    by = max(known, key=lambda name: known[name])
    chips = table["chips"]
    return {"count": known[by], "by": by, "table": len(chips), "unreadable": len(table["unreadable"]),
            "inside": inside, "counts": counts, "missing": _missing(chips, rows, listed, nodes),
            "missing_bus": [] if inside else _missing_bus(chips, facts)}  # fmt: skip


def _said(host: Host) -> int | None:
    """The number of chips that the user says there are, None if nothing is said."""
    given = data_of(host.ask("expected"))
    number = given.get("devices") if isinstance(given, dict) else None
    return number if isinstance(number, int) and 0 < number < 10_000 else None


def _missing(
    chips: list[Chip], rows: Rows | None, listed: Mapping[str, Any] | None, nodes: list[int] | None
) -> list[str]:
    """Labels of chips that another list has and the table has not."""
    shown = {(chip["npu"], chip["chip"] or 0) for chip in chips}
    several = any(chip for _, chip in shown)
    others: set[tuple[int, int]] = {(row["npu"], row["chip"] or 0) for row in rows or ()}
    for one in listed["npus"] if listed else ():
        others |= {(one["npu"], chip) for chip in range(one["chips"] or 1) if one["npu"] is not None}
    gone = [label(npu, chip if several else None) for npu, chip in sorted(others - shown)]
    if not gone and nodes and not several:
        # /dev/davinciN: N is the physical id, which is the NPU id where NPUs have one chip
        gone = [str(n) for n in nodes if n not in {chip["npu"] for chip in chips}]
    return gone[:32]


def _missing_bus(chips: list[Chip], facts: Facts) -> list[str]:
    fact = facts.get("npu.pci")
    if not isinstance(fact, Fact) or not isinstance(fact.value, Mapping):
        return []
    shown = {_bus(chip["bus"]) for chip in chips if chip["bus"]}
    rows = fact.value.get("devices") or ()
    buses = [str(row.get("bus", "")) for row in rows if isinstance(row, Mapping)]
    return [bus for bus in buses if bus and _bus(bus) not in shown][:32] if shown else []


def _bus(text: str) -> str:
    """A PCI address in one form: with its domain, upper case."""
    text = text.upper()
    return text if text.count(":") == 2 else f"0000:{text}"


PROBES = (Probe("npu.smi", "npu", read_smi, GIVES, ("npu.pci", "npu.nodes", "host.container"), DEADLINE + TABLE_LIMIT),)
