"""What the logs of a part of a run hold, as a file: nodes are read apart and judged together.

A partial holds what was read of each source, not what was made of it, so that merging is a union: in any order and
grouping, and with the same source twice, the report is the same. Its first line names the format, the doctor that wrote
it and a check sum; then follows one JSON text. All texts in it are masked as in a report, and its size is bounded as
the memory of a scan is.
"""

import binascii
import json
import zlib
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor import __version__
from doctor.render.safe import printable, redact
from doctor.scan.kinds import KINDS
from doctor.scan.read import Piece
from doctor.scan.scanner import Occurrence, Scanned
from doctor.scan.series import Track, thinned
from doctor.scan.told import Told

if TYPE_CHECKING:
    from doctor.profile.tables import Table

FORMAT = 1
MAGIC = b"doctor.partial/"
ROWS = 1 << 10
"""Training lines kept of a track, about: thinned as the curves of a long run are, with those that stick out."""
TEXTS = 1 << 19
"""Characters of training lines kept word for word of a track."""
PIECE = 4 << 20
"""Characters of a rank table or another state of a machine."""
STATES = ("read", "not_judged", "partial", "unreadable", "empty")
LARGEST = 1 << 30
"""Bytes of a partial that are read."""


class Kept(NamedTuple):
    """One source as it was read: what ``doctor.engine`` knows of it before it judges."""

    scan: Scanned
    kinds: tuple[str, ...]
    judged: bool
    state: str
    why: dict[str, str]
    suspicious: int
    pieces: tuple[Piece, ...]
    facts: dict[str, tuple[Any, int]]
    tables: "tuple[Table, ...]" = ()
    """what it holds of a profiler's output"""
    ranks: tuple[Scanned, ...] = ()
    """the scans of the ranks of a source that holds several"""
    several: frozenset[str] = frozenset()
    """facts of which it names more than one value"""

    @property
    def scans(self) -> tuple[Scanned, ...]:
        """All scans of the source."""
        return (self.scan, *self.ranks)


class Damaged(ValueError):
    """A partial that cannot be used; ``code``: damaged · version · rules."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def is_partial(head: bytes) -> bool:
    """Whether a file that begins so is a partial."""
    return head.startswith(MAGIC)


# ------------------------------------------------------------------ writing


def dump(sources: Iterable[Kept], problems: Iterable[tuple[str, str, str]]) -> bytes:
    """The file. ``problems``: (name, code, detail) of inputs that could not be read."""
    body = {"sources": [_kept(one) for one in sources], "problems": [list(map(_clean, one)) for one in problems]}
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return MAGIC + f"{FORMAT} {__version__} {zlib.crc32(data):08x} {len(data)}\n".encode() + data + b"\n"


def _clean(text: str) -> str:
    return redact(printable(text))


def _kept(one: Kept) -> dict[str, Any]:
    return {
        **_scan(one.scan),
        "kinds": one.kinds,
        "judged": one.judged,
        "state": one.state,
        "why": one.why,
        "suspicious": one.suspicious,
        "pieces": [[p.kind, p.first_line, redact(p.text)] for p in one.pieces if len(p.text) <= PIECE],
        "facts": one.facts,
        "tables": [table._asdict() for table in one.tables],
        "ranks": [_scan(scan) for scan in one.ranks],
    }


def _scan(scan: Scanned) -> dict[str, Any]:
    return {
        "name": _clean(scan.name),
        "size": scan.size,
        "lines": scan.lines,
        "occurrences": [_occurrence(o) for o in scan.occurrences],
        "counts": scan.counts,
        "errors": [_occurrence(o) for o in scan.errors],
        "error_count": scan.error_count,
        "steps": scan.steps,
        "last_step": scan.last_step,
        "rank": scan.rank,
        "pids": scan.pids,
        "seconds": scan.seconds,
        "tail": [_clean(line) for line in scan.tail],
        "problem": scan.problem,
        "cancelled": scan.cancelled,
        "tracks": [_track(track) for track in scan.tracks],
        "memory": [[number, _clean(text)] for number, text in scan.memory],
        "told": scan.told,
        "split": scan.split,
    }


def _occurrence(o: Occurrence) -> list[Any]:
    return [
        o.rule, o.line, _clean(o.text), {k: _clean(v) for k, v in o.args.items()}, o.level, o.seconds, o.pid, o.rank,
        o.device, o.steps, [_clean(t) for t in o.before], [_clean(t) for t in o.after], o.about,
    ]  # fmt: skip


def _packed(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _track(track: Track) -> dict[str, Any]:
    track = thinned(track, ROWS)
    texts: dict[int, str] = {}
    room = TEXTS
    for row, text in sorted(track.texts.items()):
        room -= len(text)
        if room < 0:
            break
        texts[row] = _clean(text)
    return {
        "rank": track.rank,
        "kind": track.kind,
        "made": track.made,
        "columns": {name: _packed(values.tobytes()) for name, values in track.columns.items()},
        "lines": _packed(track.lines.tobytes()),
        "units": track.units,
        "total": track.total,
        "every": track.every,
        "unread": track.unread,
        "texts": _packed(zlib.compress(json.dumps(texts).encode())) if texts else "",
    }


# ------------------------------------------------------------------ reading


class Loaded(NamedTuple):
    """What a partial holds. ``problems``: (name, code, detail)."""

    sources: tuple[Kept, ...]
    problems: tuple[tuple[str, str, str], ...]


def union(sources: Sequence[Kept], key: Callable[[str], tuple[object, ...]]) -> list[Kept]:
    """Sources in the order of their names, each once."""

    def place(one: Kept) -> tuple[object, ...]:
        return (
            key(one.scan.name),
            one.scan.size,
            one.scan.lines,
            one.scan.seconds[0] or 0.0,
            one.scan.seconds[1] or 0.0,
        )

    out: list[Kept] = []
    for one in sorted(sources, key=place):
        last = out[-1] if out else None
        if last and place(last) == place(one) and [s.counts for s in last.scans] == [s.counts for s in one.scans]:
            continue
        out.append(one)
    return out


def load(data: bytes, rules: Collection[str] | None = None) -> Loaded:
    """Read a partial. Raises :class:`Damaged` for one that is cut off or changed, of another format, or that speaks of
    rules that are not among ``rules``."""
    line, _, body = data.partition(b"\n")
    words = line[len(MAGIC) :].decode("ascii", "replace").split()
    if not is_partial(line) or not words or not words[0].isdigit():
        raise Damaged("damaged")
    if int(words[0]) != FORMAT:
        raise Damaged("version", f"{words[0]}, doctor {' '.join(words[1:2])}; this one reads {FORMAT}")
    if len(words) != 4 or not words[3].isdigit():
        raise Damaged("damaged")
    body = body[: int(words[3])]
    if len(body) != int(words[3]) or f"{zlib.crc32(body):08x}" != words[2]:
        raise Damaged("damaged")
    try:
        parsed = json.loads(body)
        sources = tuple(_source(one) for one in parsed["sources"])
        problems = tuple((str(n), str(c), str(d)) for n, c, d in parsed["problems"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Damaged("damaged", type(error).__name__) from error
    if rules is not None:
        named = {o.rule for s in sources for t in s.scans for o in t.occurrences if not o.rule.startswith("CODE:")}
        unknown = named.difference(rules)
        if unknown:
            raise Damaged("rules", f"doctor {words[1]}: {', '.join(sorted(unknown)[:5])}")
    return Loaded(sources, problems)


def _scanned(one: dict[str, Any]) -> Scanned:
    name = str(one["name"])
    if one["split"] not in ("", "rank", "rest"):
        raise ValueError("no such part")
    return Scanned(
        name, int(one["size"]), int(one["lines"]), tuple(_seen(o) for o in one["occurrences"]),
        {str(k): int(v) for k, v in one["counts"].items()}, tuple(_seen(o) for o in one["errors"]),
        int(one["error_count"]), int(one["steps"]), (int(one["last_step"][0]), _number(one["last_step"][1])),
        _whole(one["rank"]), tuple(map(int, one["pids"])), (_number(one["seconds"][0]), _number(one["seconds"][1])),
        tuple(map(str, one["tail"])), b"", (str(one["problem"][0]), str(one["problem"][1])) if one["problem"] else None,
        bool(one["cancelled"]), tuple(_lines(name, track) for track in one["tracks"]),
        tuple((int(n), str(text)) for n, text in one["memory"]), _told(one["told"]), str(one["split"]),
    )  # fmt: skip


def _source(one: dict[str, Any]) -> Kept:
    if one["state"] not in STATES or not {*KINDS, "empty", "binary"}.issuperset(one["kinds"]):
        raise ValueError("no such kind or state")
    return Kept(
        _scanned(one), tuple(map(str, one["kinds"])), bool(one["judged"]), str(one["state"]),
        {str(k): str(v) for k, v in one["why"].items()}, int(one["suspicious"]),
        tuple(Piece(str(kind), int(line), str(text)) for kind, line, text in one["pieces"]),
        {str(k): (value, int(line)) for k, (value, line) in one["facts"].items()},
        tuple(map(_table, one["tables"])), tuple(map(_scanned, one["ranks"])),
    )  # fmt: skip


def _table(one: dict[str, Any]) -> "Table":
    from doctor.profile.tables import Table

    return Table(
        str(one["kind"]), str(one["source"]), int(one["rows"]), int(one["bad"]), tuple(map(str, one["used"])),
        tuple(map(str, one["unused"])), tuple(map(str, one["missing"])), dict(one["data"]), bool(one["cut"]),
    )  # fmt: skip


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _seen(o: list[Any]) -> Occurrence:
    rule, line, text, args, level, seconds, pid, rank, device, steps, before, after, about = o
    return Occurrence(
        str(rule), int(line), str(text), {str(k): str(v) for k, v in args.items()}, str(level), _number(seconds),
        _whole(pid), _whole(rank), _whole(device), int(steps), tuple(map(str, before)), tuple(map(str, after)),
        _number(about),
    )  # fmt: skip


def _told(value: list[Any]) -> Told:
    world, rank, members, address, beats, *more = value
    line, seconds = more[0] if more else (0, None)
    return Told(
        int(world), _whole(rank), tuple((int(r), int(d), str(h), str(a)) for r, d, h, a in members), str(address),
        tuple((str(key), float(at)) for key, at in beats if key), (int(line), _number(seconds)),
    )  # fmt: skip


class _Texts(dict[int, str]):
    """Training lines word for word, unpacked when the first is asked for: hardly any is."""

    def __init__(self, packed: str) -> None:
        super().__init__()
        self._packed = packed

    def _read(self) -> None:
        packed, self._packed = self._packed, ""
        if packed:
            # bounded: what is written is never longer
            try:
                data = zlib.decompressobj().decompress(binascii.a2b_base64(packed), 8 * TEXTS)
                self.update({int(row): str(text) for row, text in json.loads(data).items()})
            except (ValueError, AttributeError, RecursionError, zlib.error):
                return  # the lines are shown by their values

    def get(self, row: int, default: Any = None) -> Any:
        self._read()
        return super().get(row, default)

    def __contains__(self, row: object) -> bool:
        self._read()
        return super().__contains__(row)

    def __bool__(self) -> bool:
        return bool(self._packed) or len(self) > 0


def _unpacked(text: str, kind: str) -> "array[Any]":
    values: array[Any] = array(kind)
    values.frombytes(binascii.a2b_base64(text))
    return values


def _lines(source: str, one: dict[str, Any]) -> Track:
    lines = _unpacked(one["lines"], "q")
    columns = {str(name): _unpacked(text, "d") for name, text in one["columns"].items()}
    if any(len(values) != len(lines) for values in columns.values()):
        raise ValueError("columns of different lengths")
    return Track(
        source, _whole(one["rank"]), str(one["kind"]), str(one["made"]), columns, lines, array("q"),
        {str(k): str(v) for k, v in one["units"].items()}, int(one["total"]), int(one["every"]), int(one["unread"]),
        _Texts(str(one["texts"])),
    )  # fmt: skip
