"""JSON of profilers, read as a stream of (path, value): communication times, bandwidths and links.

A token at a time, so that memory does not grow with the file and a file that ends in the middle still tells what is
before. Layout: MindSpore 2.10 ``AscendCommunicationViewer`` and msprof's ``analyze`` (CANN 7.0 to 9.0).
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from doctor.profile.tables import Table

DEPTH = 24
STRING = 1 << 16
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([-+\w.]+))')
_KIND = re.compile(
    r"(?i)allreduce|allgather|reducescatter|alltoall|broadcast|barrier|scatter|gather|reduce|send|receive|recv"
)

_PAIR = re.compile(r"(?i)send|receive|recv")
"""Point to point is waiting by its nature: a stage waits for the one before."""

TIMES = {
    "Elapse Time(ms)": "elapse", "Transit Time(ms)": "transit", "Wait Time(ms)": "wait",
    "Synchronization Time(ms)": "sync", "Idle Time(ms)": "idle",
}  # fmt: skip


def scalars(chunks: Iterable[bytes], stop: Callable[[], bool] = lambda: False) -> Iterator[tuple[tuple[str, ...], Any]]:
    """(keys from the root, value) of every number, string and word. Items of lists have the key ``[]``.

    Ends quietly where the text is no JSON any more; then the last pair is ``((), "cut")``.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    path: list[str] = []
    kinds: list[str] = []
    buffer = ""
    key: str | None = None
    pending: str | None = None
    for chunk in chunks:
        if stop():
            break
        buffer += decoder.decode(chunk)
        at = 0
        # a token may go on in the next chunk
        safe = len(buffer) - 1
        while at < safe:
            found = _TOKEN.match(buffer, at)
            if found is None:
                if len(buffer) - at > STRING:
                    yield (), "cut"
                    return
                break
            if found.end() >= len(buffer):
                break
            text, mark, word = found[1], found[2], found[3]
            at = found.end()
            if mark:
                if mark in "{[":
                    if len(kinds) >= DEPTH:
                        yield (), "cut"
                        return
                    kinds.append(mark)
                    path.append(key if key is not None else "[]")
                    key = None
                elif mark in "}]":
                    if not kinds:
                        yield (), "cut"
                        return
                    kinds.pop()
                    path.pop()
                    key = None
                elif mark == ":":
                    key, pending = pending, None
                elif mark == ",":
                    key = None
                continue
            if text and kinds and kinds[-1] == "{" and key is None:
                pending = _string(text)
                continue
            value: Any = _string(text) if text else _word(word)
            yield (*path[1:], key if key is not None else "[]"), value
        buffer = buffer[at:]
    if kinds and not (len(kinds) == 1 and buffer.strip() in ("}", "]")):
        yield (), "cut"


def _string(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]


def _word(word: str) -> float | str | None:
    try:
        value = float(word)
    except ValueError:
        return None if word == "null" else word
    return value if math.isfinite(value) else None


def read(source: str, chunks: Iterable[bytes], kind: str, stop: Callable[[], bool] = lambda: False) -> Table:
    """Read a JSON file whose kind is known from its head (``kind_of``)."""
    return _READERS[kind](source, scalars(chunks, stop))


def kind_of(head: bytes) -> str:
    """communication · matrix · data · info · timeline, or nothing, of the first bytes of a file."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return ""
    if b'"Communication Time Info"' in head or b'"Communication Bandwidth Info"' in head:
        return "communication"
    if b'"Transport Type"' in head and b'"Transit Size(MB)"' in head:
        return "matrix"
    if b'"pipeline_ops"' in head or (b'"per_batch_time"' in head and b'"op_names"' in head):
        return "data"
    if b'"ms_profiler_info"' in head or b'"cann_profiler_info"' in head:
        return "info"
    if b'"ph"' in head and b'"ts"' in head and b'"name"' in head:
        return "timeline"
    return ""


def _communication(source: str, pairs: Iterator[tuple[tuple[str, ...], Any]]) -> Table:
    """Sums over the operators; what the writer has summed up himself (``Total Op Info``) is left out."""
    kinds: dict[str, dict[str, float]] = {}
    links: dict[str, dict[str, float]] = {}
    ops: set[str] = set()
    steps: set[str] = set()
    worst: tuple[float, str] = (0.0, "")
    sent: tuple[str, ...] = ()
    rows = bad = 0
    cut = False
    for path, value in pairs:
        if not path:
            cut = True
            break
        if len(path) < 3 or not isinstance(value, float):
            bad += len(path) >= 2 and path[-1] in TIMES
            continue
        if path[-2] == "Communication Time Info":
            op = path[-3]
            if op.startswith("Total"):
                continue
            name = TIMES.get(path[-1])
            if name is None:
                continue
            if path[0].startswith("step") and len(steps) < 10_000:
                steps.add(path[0])
            if op not in ops and len(ops) < 200_000:
                ops.add(op)
                rows += 1
            found = _KIND.search(op)
            entry = kinds.setdefault(found[0].lower() if found else "other", {"count": 0.0})
            entry["count"] += name == "elapse"
            entry[name] = entry.get(name, 0.0) + value
            if name == "elapse" and value > worst[0] and not _PAIR.search(op):
                worst = value, op[:120]
        elif len(path) > 3 and path[-3] == "Communication Bandwidth Info" and not path[-4].startswith("Total"):
            link = links.setdefault(path[-2][:20], {"time": 0.0, "size": 0.0})
            if path[-1] == "Transit Time(ms)":
                link["time"] += value
            elif path[-1] == "Transit Size(MB)":
                link["size"] += value
                sent = path[:-1] if value > 0 else ()
            elif path[-1] == "Large Packet Ratio" and value >= 0 and path[:-1] == sent:
                link["packets"] = link.get("packets", 0.0) + 1
                link["large"] = link.get("large", 0.0) + value
    data = {"kinds": kinds, "links": links, "steps": len(steps), "worst": worst}
    return Table("communication", source, rows, bad, tuple(TIMES), (), (), data, cut)


def _matrix(source: str, pairs: Iterator[tuple[tuple[str, ...], Any]]) -> Table:
    """Size, time and kind of each link between two ranks, over all operators."""
    links: dict[str, dict[str, Any]] = {}
    one: dict[str, Any] = {}
    place: tuple[str, ...] = ()
    rows = 0
    cut = False

    def keep() -> None:
        if len(place) >= 2 and re.fullmatch(r"\d{1,6}-\d{1,6}", place[-1]) and not _part(place[-2]) and one:
            entry = links.setdefault(place[-1], {"size": 0.0, "time": 0.0, "type": ""})
            entry["size"] += one.get("size", 0.0)
            entry["time"] += one.get("time", 0.0)
            entry["type"] = one.get("type", "") or entry["type"]

    for path, value in pairs:
        if not path:
            cut = True
            break
        if path[:-1] != place:
            keep()
            rows += bool(one)
            one, place = {}, path[:-1]
            if len(links) > 100_000:
                cut = True
                break
        if path[-1] == "Transport Type" and isinstance(value, str):
            one["type"] = value[:20]
        elif path[-1] == "Transit Size(MB)" and isinstance(value, float):
            one["size"] = value
        elif path[-1] == "Transit Time(ms)" and isinstance(value, float):
            one["time"] = value
    keep()
    data = {"links": links}
    used = ("Transport Type", "Transit Size(MB)", "Transit Time(ms)")
    return Table("matrix", source, rows, 0, used, (), (), data, cut)


def _part(op: str) -> bool:
    """Whether an entry repeats what another one has: the writer names the fastest, the middle and the slowest
    operators of a kind beside their total."""
    name = op.split("@", 1)[0]
    return op.startswith("Total") or name.endswith(("-top1", "-middle", "-bottom1", "-bottom2", "-bottom3"))


def _data(source: str, pairs: Iterator[tuple[tuple[str, ...], Any]]) -> Table:
    """The summary of a data pipeline, in the form of its CSV."""
    data: dict[str, Any] = {}
    cut = False
    for path, value in pairs:
        if not path:
            cut = True
            break
        entry = data.setdefault(path[0][:60], {"line": 0, "values": [], "text": path[0][:60]})
        if len(entry["values"]) < 64 and len(data) < 400:
            entry["values"].append(str(value)[:240])
    return Table("data", source, len(data), 0, tuple(data), (), (), data, cut)


def _timeline(source: str, pairs: Iterator[tuple[tuple[str, ...], Any]]) -> Table:
    """A trace for a viewer: the tables beside it hold the same in sums."""
    return Table("timeline", source, 0, 0, (), (), (), {})


def _info(source: str, pairs: Iterator[tuple[tuple[str, ...], Any]]) -> Table:
    """How the profiler was set; its name tells the rank."""
    return Table("info", source, 1, 0, (), (), (), {})


_READERS: dict[str, Callable[[str, Iterator[tuple[tuple[str, ...], Any]]], Table]] = {
    "communication": _communication, "matrix": _matrix, "data": _data, "timeline": _timeline,
    "info": _info,
}  # fmt: skip
