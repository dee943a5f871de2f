"""What the tables of a profile say, as named values with units: of one rank, and of all ranks together.

A share is a percentage. Every value knows the file, the line and the row that tells most of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from doctor.model import Evidence
from doctor.plan.schema import Field, Plan
from doctor.profile.tables import CLASSES, Table, number

_TABLE = """
profile.rank           int     -    rank, where a name or a column tells it
profile.steps          int     -    steps that the tables cover
profile.step_ms        double  ms   usual length of a step: computing, communication that nothing hides, and idle
profile.computing      double  %    of a step: computing
profile.exposed        double  %    of a step: communication that no computing hides
profile.exchange       double  %    of a step: the same without sending to and receiving from other stages
profile.overlapped     double  %    of the communication: hidden behind computing
profile.communication  double  %    of a step: communication, hidden or not
profile.free           double  %    of a step: the device idles
profile.preparing      double  %    of a step: before the first task of the device
profile.bubble         double  %    of stage and bubble: sending to and receiving from other stages
profile.planned_bubble double  %    the bubble of the plan: (pp - 1) / (v m + pp - 1)
profile.iteration_ms   double  ms   usual length of an iteration of a graph
profile.data_gap       double  %    of an iteration: from the end of the one before to the start of the forward pass
profile.op_ms          double  ms   operators in all, without communication
profile.matmul         double  %    of the operators: matrix products and convolutions
profile.attention      double  %    of the operators: fused attention
profile.vector         double  %    of the operators: others on the AI Core
profile.copy           double  %    of the operators: casts, transposes, changes of format
profile.aicpu          double  %    of the operators: on the AI CPU
profile.aicpu_ms       double  ms   all operators on the AI CPU
profile.memcpy         double  %    of the operators: copies between host and device or on the device
profile.aicpu_top      string  -    what takes most of the time on the AI CPU
profile.copy_top       string  -    what takes most of the copies
profile.vector_top     string  -    what takes most of the other operators
profile.top            string  -    what takes most of the time
profile.gaps           double  %    of operators and gaps before them: gaps, where no table tells the idle time
profile.mac            double  %    cycles of the matrix unit in the operators that use it, weighted by their time
profile.cube           double  %    cube utilisation as the profiler gives it, weighted by time
profile.dynamic        double  %    of the operators with a state: compiled for shapes that change
profile.wait_ms        double  ms   communication: waiting for other ranks
profile.transit_ms     double  ms   communication: sending
profile.wait_ratio     double  %    of waiting and sending: waiting
profile.rdma_gbs       double  GB/s between hosts
profile.hccs_gbs       double  GB/s between devices of a host
profile.large_packets  double  %    of the packets between hosts: large ones
profile.data_op        string  -    the operator of the data pipeline that the profiler names as its bottleneck
profile.data_warning   string  -    what it says of that operator
profile.queue_empty    double  %    of the time: the queue that feeds the device is empty
profile.batch_ms       double  ms   data pipeline: from batch to batch
profile.pipeline_ms    double  ms   data pipeline: making a batch
profile.push_ms        double  ms   data pipeline: giving it to the device
"""
_RUN = """
profile.ranks          int     -    ranks with tables
profile.computing_lead double  %    how much longer the slowest rank computes than the usual one
profile.slow_rank      int     -    the rank that computes longest
profile.wait_spread    double  %    the greatest wait ratio of a rank less the least one
profile.least_wait     int     -    the rank that waits least for others
profile.link           string  -    the slowest link of its kind, from-to
profile.link_gbs       double  GB/s its bandwidth
profile.usual_gbs      double  GB/s that of the usual link of its kind
"""


def _fields(table: str) -> dict[str, Field]:
    rows = [line.split(None, 3) for line in table.strip().splitlines()]
    return {name: Field(kind, "" if unit == "-" else unit, says) for name, kind, unit, says in rows}


OF_RANK, OF_RUN = _fields(_TABLE), _fields(_RUN)
FIELDS = OF_RANK | OF_RUN


def median(values: Iterable[float]) -> float:
    """The value in the middle, of two their mean."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Profile(NamedTuple):
    """The values of one rank, or of the run (``tables`` empty): by name without ``profile.``, with their evidence."""

    name: str
    rank: int | None
    values: dict[str, Any]
    where: dict[str, Evidence]
    tables: tuple[Table, ...] = ()
    top: tuple[tuple[str, str, float, float], ...] = ()
    """(type, class, share in %, count) of the operators that take most"""


_FOLDERS = re.compile(r"^(.*?[^/!]*_ascend_(?:ms|pt))(?=[/!]|$)")
_PARTS = re.compile(r"^(.*?)/?(?:ASCEND_PROFILER_OUTPUT|mindstudio_profiler_output|PROF_[^/]*)(?=[/!]|$)")
_RANK_INFO = re.compile(r"profiler_info_(\d{1,6})\.json$")
_DATA_RANK = re.compile(r"minddata_pipeline_(?:raw|summary)_(\d{1,6})\.(?:csv|json)$")


def folder(name: str) -> str:
    """What the tables of one rank have in common in their names."""
    found = _FOLDERS.match(name) or _PARTS.match(name)
    if found:
        return found[1]
    return name.rsplit("/", 1)[0] if "/" in name else ""


def profiles(
    tables: Sequence[Table], names: Iterable[str] = (), plan: Plan | None = None, ranks: Mapping[str, int] | None = None
) -> list[Profile]:
    """The profiles in some tables. ``names`` are all inputs: beside the tables stands a file that names the rank;
    ``ranks`` are ranks of sources that are known otherwise."""
    told = {folder(name): int(found[1]) for name in names if (found := _RANK_INFO.search(name))}
    groups: dict[str, list[Table]] = {}
    for table in tables:
        groups.setdefault(folder(table.source), []).append(table)
    made: list[Profile] = []
    for key, group in groups.items():
        rank = told.get(key)
        if rank is None:
            rank = next((int(m[1]) for t in group if (m := _DATA_RANK.search(t.source))), None)
        if rank is None and ranks:
            rank = next((ranks[t.source] for t in group if t.source in ranks), None)
        made += _split(key, rank, group)
    for profile in made:
        _bubble(profile, plan)
        profile.values.update({"rank": profile.rank} if profile.rank is not None else {})
    return [p for p in made if p.values or p.tables]


def _split(key: str, rank: int | None, group: Sequence[Table]) -> list[Profile]:
    """One profile of a folder; one for each rank or device where a table holds several."""
    devices: dict[str, list[Table]] = {}
    for table in group:
        for device, part in _by_device(table):
            devices.setdefault(device, []).append(part)
    shared = devices.pop("", [])
    if len(devices) <= 1:
        (device, own) = next(iter(devices.items()), ("", []))
        number = int(device) if device.isdigit() and rank is None and len(device) < 7 else rank
        return [_profile(key, number, [*shared, *own])]
    found = [_profile(f"{key} {device}".strip(), int(device) if device.isdigit() else None, own)
             for device, own in devices.items()]  # fmt: skip
    return found + ([_profile(key, rank, shared)] if shared else [])


def _by_device(table: Table) -> list[tuple[str, Table]]:
    """A table cut by rank (``Type`` and ``Index`` of a cluster's table) or by device."""
    if table.kind in ("operators", "statistic"):
        return [
            (device if device not in ("", "N/A", "…") else "", table._replace(data=sums))
            for device, sums in table.data["devices"].items()
        ]
    if table.kind in ("step_time", "step_trace"):
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in table.data["rows"]:
            if row.get("type", "rank").lower() != "rank":
                continue  # a row of a whole stage
            parts.setdefault(row.get("index") or row.get("device") or "", []).append(row)
        return [
            (device if device != "N/A" else "", table._replace(data={"rows": rows})) for device, rows in parts.items()
        ]
    return [("", table)]


class _Filler:
    """Collects values and their evidence."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.where: dict[str, Evidence] = {}
        self.top: tuple[tuple[str, str, float, float], ...] = ()

    def put(self, name: str, value: Any, evidence: Evidence) -> None:
        """Keep a value, rounded to what a reader can use; a percentage to a tenth."""
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return
        if isinstance(value, float):
            value = round(value, 1 if FIELDS["profile." + name].unit in ("%", "GB/s") else 3)
        self.values[name], self.where[name] = value, evidence


def _profile(name: str, rank: int | None, tables: Sequence[Table]) -> Profile:
    out = _Filler()
    for table in tables:
        if table.kind == "step_time":
            _steps(out, table)
        elif table.kind == "step_trace":
            _iterations(out, table)
        elif table.kind in ("data", "data_ops"):
            _pipeline(out, table)
        elif table.kind == "communication":
            _communication(out, table)
        elif table.kind == "aicpu":
            _aicpu(out, table)
    _operators(out, tables)
    return Profile(name, rank, out.values, out.where, tuple(tables), out.top)


def _row(table: Table, row: Mapping[str, Any]) -> Evidence:
    return Evidence(table.source, row["line"], row["text"])


def _share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole > 0 else None


def _steps(out: _Filler, table: Table) -> None:
    """Medians over the steps; a row stands for the one in the middle."""
    rows = [r for r in table.data["rows"] if "computing" in r and "free" in r]
    whole = [r["computing"] + r.get("exposed", 0.0) + r["free"] for r in rows]
    kept = [(w, r) for w, r in zip(whole, rows, strict=True) if w > 0]
    if not kept:
        return
    ordered = sorted(kept, key=lambda pair: pair[0])
    middle = ordered[len(ordered) // 2][1]
    here = _row(table, middle)
    out.put("steps", len(kept), here)
    out.put("step_ms", (median(w for w, _ in kept)), here)
    for name in ("computing", "exposed", "communication", "free", "preparing"):
        shares = [100 * r[name] / w for w, r in kept if name in r]
        if shares:
            out.put(name, (median(shares)), here)
    # below zero the waits for other stages lie beside computing, and the difference says nothing
    alone = [(w, r["exclude"] if r.get("exclude", -1.0) >= 0 else r.get("exposed")) for w, r in kept]
    exchanged = [100 * time / w for w, time in alone if time is not None]
    if exchanged:
        out.put("exchange", (median(exchanged)), here)
    hidden = [
        100 * r["overlapped"] / r["communication"]
        for _, r in kept if r.get("communication", 0) > 0 and "overlapped" in r
    ]  # fmt: skip
    if hidden:
        out.put("overlapped", (median(hidden)), here)
    bubbles = [
        100 * r["bubble"] / (r["stage"] + r["bubble"])
        for _, r in kept if r.get("bubble", 0) > 0 and r.get("stage", 0) > 0
    ]  # fmt: skip
    if bubbles:
        out.put("bubble", (median(bubbles)), here)


def _iterations(out: _Filler, table: Table) -> None:
    rows = [r for r in table.data["rows"] if r.get("time", 0) > 0]
    if not rows:
        return
    ordered = sorted(rows, key=lambda r: float(r["time"]))
    here = _row(table, ordered[len(ordered) // 2])
    out.put("iteration_ms", (median(r["time"] for r in rows)), here)
    if "steps" not in out.values:
        out.put("steps", len(rows), here)
    # the time of an iteration does not hold the gap before it
    gaps = [100 * r["gap"] / (r["time"] + r["gap"]) for r in rows if r.get("gap", -1) >= 0]
    if gaps:
        out.put("data_gap", (median(gaps)), here)


def _operators(out: _Filler, tables: Sequence[Table]) -> None:
    """Shares by class of the best table of operators: the framework's own, msprof's (in one or more slices), the one
    of all tasks, or the sums by type."""
    best: tuple[int, str] = (9, "")
    for table in tables:
        if table.kind in ("operators", "statistic") and table.data["total"] > 0:
            best = min(best, (_rank_of(table), _stem(table.source)))
    chosen = [
        t for t in tables
        if t.kind in ("operators", "statistic") and (_rank_of(t), _stem(t.source)) == best
    ]  # fmt: skip
    if not chosen:
        return
    classes = {name: sum(t.data["classes"][name] for t in chosen) for name in CLASSES}
    total = sum(time for name, time in classes.items() if name != "communication")
    if total <= 0:
        return
    types: dict[str, list[Any]] = {}
    for t in chosen:
        for name, (count, time, part) in t.data["types"].items():
            entry = types.setdefault(name, [0.0, 0.0, part])
            entry[0] += count
            entry[1] += time
    source = chosen[0].source
    out.put("op_ms", total, Evidence(source, 0, ""))
    for name in ("matmul", "attention", "vector", "copy", "aicpu", "memcpy"):
        worst = max(((*t.data["worst"][name], t.source) for t in chosen if name in t.data["worst"]), default=None)
        here = Evidence(worst[3], worst[1], worst[2]) if worst else Evidence(source, 0, "")
        out.put(name, _share(classes[name], total), here)
        if name == "aicpu" and classes[name] > 0:
            out.put("aicpu_ms", classes[name], here)
        own = sorted(((time, n, count) for n, (count, time, part) in types.items() if part == name), reverse=True)[:3]
        if own and name in ("aicpu", "copy", "vector"):
            out.put(f"{name}_top", _list(own, total), here)
    if not classes["memcpy"]:
        _tasks(out, tables)
    ordered = sorted(((time, n, count, part) for n, (count, time, part) in types.items() if part != "communication"),
                     reverse=True)  # fmt: skip
    out.top = tuple((n, part, round(100 * time / total, 1), count) for time, n, count, part in ordered[:10])
    out.put("top", _list([row[:3] for row in ordered[:5]], total), Evidence(source, 0, ""))
    if "free" not in out.values:
        wait = sum(t.data["wait"] for t in chosen if t.kind == "operators")
        work = sum(t.data["total"] for t in chosen if t.kind == "operators")
        if wait > 0 and sum(t.data["count"] for t in chosen) >= 100:
            out.put("gaps", _share(wait, wait + work), Evidence(source, 0, ""))
    for name in ("mac", "cube", "dynamic"):
        part, whole = (sum(t.data[name][n] for t in chosen) for n in (0, 1))
        if whole > 0:
            out.put(name, _share(part, whole), Evidence(source, 0, ""))
    if "steps" not in out.values:
        steps = max(t.data["steps"] if isinstance(t.data["steps"], int) else 0 for t in chosen)
        if steps:
            out.put("steps", steps, Evidence(source, 0, ""))


def _aicpu(out: _Filler, table: Table) -> None:
    """What the AI CPU ran, of its own table; that of all operators says more, where there is one."""
    nodes = table.data["nodes"]
    total = sum(time for _, time in nodes.values())
    if total > 0:
        _, line, text = table.data["worst"]
        here = Evidence(table.source, line, text)
        out.put("aicpu_ms", total, here)
        top = sorted(((time, name, count) for name, (count, time) in nodes.items()), reverse=True)[:3]
        out.put("aicpu_top", _list(top, total), here)


def _tasks(out: _Filler, tables: Sequence[Table]) -> None:
    """The share of copies between host and device, which only the table of all tasks has."""
    tasks = [t for t in tables if t.kind == "operators" and _rank_of(t) == 3]
    total = sum(t.data["total"] - t.data["classes"]["communication"] for t in tasks)
    copies = sum(t.data["classes"]["memcpy"] for t in tasks)
    worst = max(((*t.data["worst"]["memcpy"], t.source) for t in tasks if "memcpy" in t.data["worst"]), default=None)
    if worst:
        out.put("memcpy", _share(copies, total), Evidence(worst[3], worst[1], worst[2]))


def _list(rows: Sequence[tuple[float, str, float]], total: float) -> str:
    return ", ".join(f"{name} {100 * time / total:.1f} % (×{count:.0f})" for time, name, count in rows)


def _rank_of(table: Table) -> int:
    if table.kind == "statistic":
        # a table of communication alone is none of operators
        return 2 if any(time for name, time in table.data["classes"].items() if name != "communication") else 5
    if "Op Name" in table.used or "op_name" in table.used or "OP Type" in table.used:
        return 1
    return 3 if "kernel_name" in table.used or "kernel_type" in table.used else 0


_SLICE = re.compile(r"(?:_slice_\d+|_\d+)*\.csv.*$")


def _stem(source: str) -> str:
    return _SLICE.sub("", source.rsplit("/", 1)[-1])


def _pipeline(out: _Filler, table: Table) -> None:
    """What the summary of the data pipeline says, or its queues."""
    if table.kind == "data_ops":
        return
    data = table.data

    def value(key: str) -> tuple[list[str], Evidence]:
        entry = data.get(key, {"values": [], "line": 0, "text": ""})
        return entry["values"], Evidence(table.source, entry["line"], entry["text"])

    names = {"per_batch_time": "batch_ms", "per_pipeline_time": "pipeline_ms", "per_push_queue_time": "push_ms"}
    for key, name in names.items():
        cells, here = value(key)
        try:
            time = float(cells[0]) if cells else -1.0
        except ValueError:
            time = -1.0
        if time >= 0:
            out.put(name, time, here)
    for key, name in (("bottleneck_warning", "data_op"), ("bottleneck_suggestion", "data_warning")):
        cells, here = value(key)
        text = " ".join(cell for cell in cells if cell).strip()
        if text:
            out.put(name, text[:200], here)

    empty, here = value("queue_empty_freq_pct")
    feeder = _feeder(*(value(key)[0] for key in ("op_names", "parent_id", "queue_average_size")))
    if feeder is not None and feeder < len(empty):
        out.put("queue_empty", number(empty[feeder]), here)


def _feeder(names: Sequence[str], parents: Sequence[str], sizes: Sequence[str]) -> int | None:
    """The operator whose queue the device takes its data from: the first below ``DeviceQueue`` that has a queue."""
    here = next((n for n, name in enumerate(names) if name == "DeviceQueue"), None)
    for _ in range(len(names)):
        below = next((n for n, parent in enumerate(parents) if number(parent) == here), None)
        if here is None or below is None:
            return None
        size = number(sizes[below]) if below < len(sizes) else None
        if size is not None and size >= 0:
            return below
        here = below
    return None


def _communication(out: _Filler, table: Table) -> None:
    kinds, links = table.data["kinds"], table.data["links"]
    longest, op = table.data["worst"]
    here = Evidence(table.source, 0, f"{op}: {longest:.3f} ms" if op else "")
    own = [sums for name, sums in kinds.items() if name not in ("send", "receive", "recv")]  # not point to point
    wait, transit = (sum(sums.get(name, 0.0) for sums in own) for name in ("wait", "transit"))
    if own:
        out.put("wait_ms", wait, here)
        out.put("transit_ms", transit, here)
        out.put("wait_ratio", _share(wait, wait + transit), here)
    for names, name in ((("RDMA",), "rdma_gbs"), (("HCCS", "HCCS_SW", "SIO"), "hccs_gbs")):
        time, size = (sum(links[n][key] for n in names if n in links) for key in ("time", "size"))
        if time > 0 and size > 0:
            out.put(name, size / time, here)  # MB a ms
    rdma = links.get("RDMA", {})
    if rdma.get("packets") and rdma.get("size", 0) > 0:
        out.put("large_packets", 100 * rdma["large"] / rdma["packets"], here)


def _bubble(profile: Profile, plan: Plan | None) -> None:
    """The bubble that the plan has to have: each of pp stages waits for pp - 1 of m micro batches, cut into v pieces
    where stages are interleaved (Narayanan et al., arXiv:2104.04473, section 2.2)."""
    if plan is None or "bubble" not in profile.values:
        return
    stages, batches = plan.get("parallel.pp"), plan.get("parallel.micro_batches")
    pieces = plan.get("parallel.virtual_stages") or 1
    if isinstance(stages, int) and isinstance(batches, int) and isinstance(pieces, int) and stages > 1 and batches > 0:
        share = 100 * (stages - 1) / (pieces * batches + stages - 1)
        profile.values["planned_bubble"] = round(share, 1)
        for name in ("parallel.micro_batches", "parallel.pp"):
            seen = plan.values[name].evidence() if name in plan.values else []
            if seen:
                profile.where["planned_bubble"] = seen[0]


# ------------------------------------------------------------------ all ranks


def run(found: Sequence[Profile], tables: Sequence[Table]) -> Profile:
    """What the ranks say together."""
    out = _Filler()
    ranks = {p.rank for p in found if p.rank is not None}
    if ranks:
        out.put("ranks", len(ranks), Evidence(found[0].tables[0].source if found[0].tables else found[0].name, 0, ""))
    _computing(out, found)
    waits = [(p.values["wait_ratio"], p) for p in found if "wait_ratio" in p.values and p.rank is not None]
    if len(waits) >= 2:
        (least, slow), (most, _) = min(waits, key=lambda w: w[0]), max(waits, key=lambda w: w[0])
        out.put("wait_spread", float(most - least), slow.where["wait_ratio"])
        out.put("least_wait", slow.rank, slow.where["wait_ratio"])
    _links(out, tables)
    return Profile("", None, out.values, out.where)


def _computing(out: _Filler, found: Sequence[Profile]) -> None:
    """Who computes longest, by the time of a step and its share."""
    times = [
        (p.values["step_ms"] * p.values["computing"] / 100, p)
        for p in found if "step_ms" in p.values and "computing" in p.values and p.rank is not None
    ]  # fmt: skip
    if len(times) < 3:
        return
    usual = median(t for t, _ in times)
    most, slow = max(times, key=lambda t: t[0])
    if usual > 0:
        out.put("computing_lead", 100 * (most / usual - 1), slow.where["computing"])
        out.put("slow_rank", slow.rank, slow.where["computing"])


LEAST_MB = 100.0
"""Data over a link below which its bandwidth says nothing: small packets are slow everywhere."""


def _links(out: _Filler, tables: Sequence[Table]) -> None:
    """The link that is slowest against the usual one of its kind."""
    kinds: dict[str, list[tuple[float, str, str]]] = {}
    for table in tables:
        if table.kind != "matrix":
            continue
        for name, link in table.data["links"].items():
            one, other = name.split("-")
            if one != other and link["size"] >= LEAST_MB and link["time"] > 0 and link["type"] not in ("", "LOCAL"):
                kinds.setdefault(link["type"], []).append((link["size"] / link["time"], name, table.source))
    worst: tuple[float, float, str, str, str] | None = None
    for kind, links in kinds.items():
        if len(links) < 4:
            continue
        usual = median(bandwidth for bandwidth, _, _ in links)
        slowest, name, source = min(links)
        if worst is None or slowest / usual < worst[0] / worst[1]:
            worst = slowest, usual, name, kind, source
    if worst is not None:
        slowest, usual, name, kind, source = worst
        here = Evidence(source, 0, f"{name} {kind} {slowest:.2f} GB/s")
        out.put("link", f"{name} ({kind})", here)
        out.put("link_gbs", slowest, here)
        out.put("usual_gbs", usual, here)
