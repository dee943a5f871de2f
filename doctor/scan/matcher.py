"""Three engines that find anchors: Hyperscan streaming, RE2 sets on 64 KiB chunks, pure Python.

Every literal and every stand-alone regex of the rules is an anchor; a hit says only "look at this line". What the line
means is decided afterwards by ``re`` for the one rule, so all engines give the same findings; a test proves it.

Measured (docs/engines.md): Hyperscan scans about twice as fast as RE2 sets and hundreds of times faster than a loop
over rules. Traps kept in mind here, each with a test: a block scan over 4 GiB stops silently (so: streams); the
callback must outlive the stream; ``loadb`` wants a Scratch; every end of a match is reported; a damaged blob raises.
"""

import _thread
import os
import re
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Protocol

from doctor import cache
from doctor.rulebase import RuleBase
from doctor.scan.anchors import FOLDED, KEPT, LITERAL, LONGEST, ODD, REGEX, SPECIALS, STEPS, WIDTH, special_rows
from doctor.scan.records import decode

Hit = tuple[int, int]
"""(offset just behind the match, anchor id)"""

_Holder = tuple[int, bytes, int, bool]
_Holders = tuple[dict[bytes, list[_Holder]], dict[bytes, list[_Holder]], list[_Holder]]


class Anchors:
    """Patterns to look for, numbered by anchor id: those of the rules, those of the scanner itself, the prose.

    ``targets(aid)`` are the rules and clauses it stands for, ``special[aid]`` names one of the scanner's own. The
    patterns themselves are only needed to build an engine.
    """

    def __init__(self, base: RuleBase) -> None:
        self._base = base
        count = len(base.anchor_targets)
        self.first_prose = count + len(SPECIALS)
        self.loss = self.first_prose - 1
        """its hits say that the value of a loss begins there"""
        self.first_step = self.first_prose - STEPS
        """hits from here on say that a training line is there"""
        self.first_odd = self.first_prose - ODD
        """hits from here to the steps say that a value is odd, if a training line is there"""
        self.first_kept = self.first_prose - KEPT
        """hits from here on say that a line holds numbers, and nothing of failures"""
        self._targets: list[int | list[int]] = [*base.anchor_targets, *([] for _ in SPECIALS), *base.prose_targets]
        self.special: dict[int, str] = {count + n: special.name for n, special in enumerate(SPECIALS)}
        # the ids of the prose come behind those of the scanner's own anchors
        self.info = frozenset(n if n < count else n + len(SPECIALS) for n in base.anchor_info)
        self.key = base.key

    def __len__(self) -> int:
        return len(self._targets)

    def targets(self, aid: int) -> list[int]:
        found = self._targets[aid]
        return [found] if isinstance(found, int) else found

    def rows(self) -> list[tuple[bytes, int]]:
        """(pattern, kind) of every anchor but the prose."""
        return [*((text.encode("latin-1"), kind) for text, kind in self._base.anchors), *special_rows()]

    def stem_rows(self) -> list[tuple[bytes, int, int]]:
        """(pattern, kind, id) of every stem, and of the anchors that have none; the ids of stems begin at
        ``first_prose``."""
        base = self._base
        stems = [(text.encode("latin-1"), FOLDED, self.first_prose + n) for n, text in enumerate(base.stems)]
        held = {row[2] for n in range(len(stems)) for row in base.stem_holders(n)}
        return [*((*row, n) for n, row in enumerate(self.rows()) if n not in held), *stems]

    def holders(self, aid: int) -> list[_Holder]:
        """(bytes up to the stem's end, text, id, whether case does not matter) of the anchors that hold a stem."""
        rows = self._base.stem_holders(aid - self.first_prose)
        return [(before, text.encode("latin-1"), held, fold) for before, text, held, fold in rows]


class Stream(Protocol):
    """One pass over one source."""

    losses: list[int]
    """Ends of the hits of ``Anchors.loss``, which are by far the most in a log of a training: they are added here, in
    order, and are not among the others. Whoever reads them takes them out."""

    def scan(self, chunk: bytes) -> list[Hit]:
        """Hits whose end lies in what was given so far, in order of end; offsets count from the stream's start."""
        ...

    def drain(self) -> list[Hit]:
        """Hits in the whole lines given so far that ``scan`` has not told yet; the stream goes on."""
        ...

    def close(self) -> list[Hit]:
        """Hits that only the end of the source settles."""
        ...


class Engine(Protocol):
    """A compiled set of anchors."""

    name: str

    def stream(self) -> Stream: ...


def _expression(pattern: bytes, kind: int) -> bytes:
    """An anchor as a regular expression."""
    return pattern if kind == REGEX else re.escape(pattern)


class HyperscanEngine:
    """The main engine. Raises ImportError where there is no wheel, ValueError if an anchor does not compile.

    It looks for the stems of the anchors (``doctor.scan.stems``), and for the anchors themselves in logs that are so
    full of stems that comparing costs more than it saves.
    """

    name = "hyperscan"

    def __init__(self, anchors: Anchors) -> None:
        import hyperscan as hs

        self.hs: Any = hs
        self.anchors = anchors
        self.known: dict[int, _Holders] = {}
        """the stems met so far"""
        self.stemmed = True
        """whether new streams look for stems"""
        self.met = 0
        """stems met"""
        self.seen = 0
        """bytes read"""
        self._whole: Any = None
        self.database = self._made("hs", anchors.stem_rows)

    def whole(self) -> Any:
        """The database of the anchors themselves."""
        if self._whole is None:
            self._whole = self._made("hswhole", lambda: [(*row, n) for n, row in enumerate(self.anchors.rows())])
        return self._whole

    def _made(self, kind: str, rows: Callable[[], list[tuple[bytes, int, int]]]) -> Any:
        """A database of (pattern, kind, id), from the cache if it is there."""
        hs = self.hs
        name = f"{kind}-{self.anchors.key}-{hs.__version__}-{os.uname().machine}.bin"
        blob = cache.read(name)
        if blob is not None:
            try:
                database = hs.loadb(blob, hs.HS_MODE_STREAM)
                database.scratch = hs.Scratch(database)
                return database
            except Exception:  # noqa: S110 - a damaged one is built again
                pass
        database = hs.Database(mode=hs.HS_MODE_STREAM)
        wanted = rows()
        try:
            database.compile(
                expressions=[_expression(pattern, kind) for pattern, kind, _ in wanted],
                ids=[aid for _, _, aid in wanted],
                elements=len(wanted),
                flags=[(0, hs.HS_FLAG_CASELESS, hs.HS_FLAG_MULTILINE)[kind] for _, kind, _ in wanted],
            )
        except hs.error as error:
            raise ValueError(f"Hyperscan does not take the rules: {error}") from None
        try:
            cache.write(name, hs.dumpb(database))
        except Exception:  # noqa: S110 - without a cache the next start is slower, nothing else
            pass
        return database

    def learn(self, aid: int) -> _Holders:
        """Look up the anchors that hold a stem: by the two bytes behind it; by the two before it, those that end with
        it where they are many; the rest, which is in every list of the first."""
        by_next: dict[bytes, list[_Holder]] = {}
        by_last: dict[bytes, list[_Holder]] = {}
        rest: list[_Holder] = []
        holders = self.anchors.holders(aid)
        many = sum(before + 2 > len(text) for before, text, _, _ in holders) > FEW
        for holder in holders:
            before, text, _, _ = holder
            if before + 2 <= len(text):
                _file(by_next, text[before : before + 2], holder)
            elif many and before >= WIDTH + 2:
                _file(by_last, text[before - WIDTH - 2 : before - WIDTH], holder)
            else:
                rest.append(holder)
        for those in by_next.values():
            those += rest
        found = self.known[aid] = (by_next, by_last, rest)
        return found

    def stream(self) -> Stream:
        return _HyperscanStream(self)


def _file(into: dict[bytes, list[_Holder]], pair: bytes, holder: _Holder) -> None:
    """Put an anchor under a pair of bytes in whatever case."""
    low, high = pair.lower(), pair.upper()
    for key in {low, high, low[:1] + high[1:], high[:1] + low[1:]}:
        into.setdefault(key, []).append(holder)


_closing = _thread.allocate_lock()

FEW = 8
"""Anchors of a stem that are simply compared."""

MET = 1 << 14
"""Stems met before it is asked whether they pay."""
PAYS = 4096
"""Bytes of log over which looking for stems saves what one that is met costs, about (measured: 0.45 ns and 1.8 µs)."""


class _HyperscanStream:
    def __init__(self, engine: HyperscanEngine) -> None:
        self._engine = engine
        self._hits: list[Hit] = []
        self.losses: list[int] = []
        self._first_stem = engine.anchors.first_prose  # ids from here on are those of stems
        self._late: list[Hit] = []  # hits so near the end of the data that an anchor may reach beyond
        self._tail = b""  # the newest data, as much as an anchor may reach back
        self._seen = 0
        self._border = 1 << 62  # where the looking for stems ends
        self._open(engine.database if engine.stemmed else engine.whole(), 0)
        self._stemmed = engine.stemmed

    def _open(self, database: Any, base: int) -> None:
        """Begin to look for the patterns of a database, from an offset in the source on."""
        add, add_loss, loss = self._hits.append, self.losses.append, self._engine.anchors.loss

        def on_match(aid: int, start: int, end: int, flags: int, context: Any) -> None:
            if aid == loss:
                add_loss(end + base)
            else:
                add((end + base, aid))

        # kept as an attribute: the binding does not hold the callback, a collected one is a use after free
        self._on_match: Callable[..., None] = on_match
        # a Scratch of its own: one Scratch in two threads raises ScratchInUseError
        self._scratch = self._engine.hs.Scratch(database)
        self._stream = database.stream(match_event_handler=self._on_match)
        self._inner = self._stream.__enter__()
        self._is_open = True

    def _shut(self) -> None:
        """Closing reports the matches that end with the data (``$``). It uses the database's own Scratch, so one
        thread at a time; Stream.close() with a Scratch argument crashes in 0.9.1."""
        self._is_open = False
        with _closing:
            self._stream.__exit__(None, None, None)

    def scan(self, chunk: bytes) -> list[Hit]:
        self._inner.scan(chunk, scratch=self._scratch)
        self._seen += len(chunk)
        found: list[Hit] = []
        if self._hits or self._late:
            found = self._anchors(chunk, self._seen - LONGEST)
        self._tail = chunk[-2 * LONGEST :] if len(chunk) >= 2 * LONGEST else (self._tail + chunk)[-2 * LONGEST :]
        if self._stemmed:
            engine = self._engine
            engine.seen += len(chunk)
            if not engine.stemmed or (engine.met > MET and engine.met * PAYS > engine.seen):
                self._change(chunk)
        return found

    def _anchors(self, chunk: bytes, limit: int) -> list[Hit]:
        """The hits up to an offset, with the anchors that were found in place of their stems. The others wait: all in
        one order. ``chunk`` is the newest data, ``self._tail`` what was before it."""
        first, border = self._first_stem, self._border
        known, learn = self._engine.known, self._engine.learn
        found = self._late + self._hits
        self._hits.clear()
        base = self._seen - len(chunk)
        near = base + LONGEST
        joined = b""
        exact: list[Hit] = []
        late: list[Hit] = []
        met = 0
        for hit in found:
            end, aid = hit
            if aid < first:
                exact.append(hit)
                continue
            if end > limit:
                late.append(hit)
                continue
            data, at = chunk, end - base
            if end < near:
                joined = joined or self._tail + chunk[: 2 * LONGEST]
                data, at = joined, at + len(self._tail)
            by_next, by_last, rest = known.get(aid) or learn(aid)
            holders = by_next.get(data[at : at + 2], rest)
            if by_last:
                holders = holders + by_last.get(data[at - WIDTH - 2 : at - WIDTH], [])
            met += 1
            for before, text, held, fold in holders:
                start, stop = at - before, end - before + len(text)
                if start < 0 or stop > border:
                    continue
                if data[start : start + len(text)].lower() == text if fold else data.startswith(text, start):
                    exact.append((stop, held))
        self._engine.met += met
        exact.sort()
        ready = bisect_right(exact, (limit, 1 << 62))
        self._late = exact[ready:] + late
        return exact[:ready]

    def _change(self, chunk: bytes) -> None:
        """Look for the anchors themselves from now on. What lies over the border is met by reading the newest data
        again."""
        self._engine.stemmed = self._stemmed = False
        self._border = self._seen
        self._shut()
        again = chunk if len(chunk) > len(self._tail) else self._tail
        count = len(self.losses)
        self._open(self._engine.whole(), self._seen - len(again))
        self._inner.scan(again, scratch=self._scratch)
        self._hits.clear()
        del self.losses[count:]

    def drain(self) -> list[Hit]:
        # what ends in the data is told at once, but for anchors that may go on
        whole = self._seen - len(self._tail) + self._tail.rfind(b"\n") + 1
        return self._anchors(b"", whole) if self._late and whole > self._late[0][0] - 1 else []

    def close(self) -> list[Hit]:
        if self._is_open:
            self._shut()
        return self._anchors(b"", self._seen)


class _LineChunks:
    """Cuts a stream into pieces that end at a line end, for engines that cannot carry state."""

    LIMIT = 1 << 20

    def __init__(self, size: int, find: Callable[[bytes, int], list[Hit]], loss: int) -> None:
        self._size, self._hits_of, self._loss = size, find, loss
        self.losses: list[int] = []
        self._kept = b""
        self._base = 0

    def scan(self, chunk: bytes) -> list[Hit]:
        data = self._kept + chunk if self._kept else chunk
        hits: list[Hit] = []
        start = 0
        while len(data) - start >= self._size:
            end = data.rfind(b"\n", start, start + self._size) + 1
            if not end:
                end = data.find(b"\n", start + self._size) + 1
                if not end:
                    break
            hits += self._find(data[start:end], self._base + start)
            start = end
        if len(data) - start > self.LIMIT:
            hits += self._find(data[start:], self._base + start)
            start = len(data)
        self._kept = data[start:]
        self._base += start
        return hits

    def _find(self, data: bytes, base: int) -> list[Hit]:
        hits = self._hits_of(data, base)
        self.losses += [end for end, aid in hits if aid == self._loss]
        return [hit for hit in hits if hit[1] != self._loss]

    def drain(self) -> list[Hit]:
        end = self._kept.rfind(b"\n") + 1
        hits = self._find(self._kept[:end], self._base) if end else []
        self._kept = self._kept[end:]
        self._base += end
        return hits

    def close(self) -> list[Hit]:
        hits = self._find(self._kept, self._base) if self._kept else []
        self._kept = b""
        return hits


def _literal_ends(data: bytes, literal: bytes, base: int, aid: int, out: list[Hit]) -> None:
    at = data.find(literal)
    while at >= 0:
        out.append((base + at + len(literal), aid))
        at = data.find(literal, at + 1)


class Re2Engine:
    """The second engine: one RE2 set per 64 KiB chunk, positions only for the anchors that are in it."""

    name = "re2"

    def __init__(self, anchors: Anchors) -> None:
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.max_mem = 512 << 20
        self._loss = anchors.loss
        self._set = re2.Set.SearchSet(options)
        self._find: list[Any] = []
        for pattern, kind in anchors.rows():
            source = (
                (b"(?m)" + pattern) if kind == REGEX else (b"(?i)" if kind == FOLDED else b"") + re2.escape(pattern)
            )
            self._set.Add(source)
            self._find.append(pattern if kind == LITERAL else re2.compile(source, options))
        self._set.Compile()

    def stream(self) -> Stream:
        return _LineChunks(1 << 16, self._chunk, self._loss)

    def _chunk(self, data: bytes, base: int) -> list[Hit]:
        hits: list[Hit] = []
        for aid in self._set.Match(data) or ():
            find = self._find[aid]
            if isinstance(find, bytes):
                _literal_ends(data, find, base, aid, hits)
            else:
                hits += [(base + m.end(), aid) for m in find.finditer(data)]
        hits.sort()
        return hits


class PythonEngine:
    """The last engine: nothing but the standard library; exact and slow."""

    name = "python"

    def __init__(self, anchors: Anchors) -> None:
        self._loss = anchors.loss
        self._rows: list[tuple[bytes | None, bool, Any]] = []
        for pattern, kind in anchors.rows():
            if kind == LITERAL:
                self._rows.append((pattern, False, None))
            elif kind == FOLDED:
                self._rows.append((pattern.lower(), True, re.compile(re.escape(pattern), re.IGNORECASE)))
            else:
                self._rows.append((None, False, re.compile(pattern, re.MULTILINE)))

    def stream(self) -> Stream:
        return _LineChunks(1 << 16, self._chunk, self._loss)

    def _chunk(self, data: bytes, base: int) -> list[Hit]:
        hits: list[Hit] = []
        lower = data.lower()
        for aid, (needed, fold, regex) in enumerate(self._rows):
            if needed is not None and needed not in (lower if fold else data):
                continue
            if regex is None:
                assert needed is not None
                _literal_ends(data, needed, base, aid, hits)
            else:
                hits += [(base + m.end(), aid) for m in regex.finditer(data)]
        hits.sort()
        return hits


class Prose:
    """The expressions without a telling text, for inputs that are small: a set of RE2 over the decoded text, or one
    after the other with ``re``. The findings are the same either way."""

    def __init__(self, base: RuleBase, anchors: Anchors) -> None:
        self._patterns = base.prose
        self._first = anchors.first_prose
        self._set: Any = None
        self._compiled: dict[int, re.Pattern[str]] = {}
        try:
            import re2

            options = re2.Options()
            options.log_errors = False
            options.max_mem = 256 << 20
            self._set = re2.Set.SearchSet(options)
            for pattern in self._patterns:
                self._set.Add("(?m)" + pattern)
            self._set.Compile()
        except Exception:
            self._set = None

    def hits(self, data: bytes) -> list[Hit]:
        """Hits in a whole small input; each stands at the end of its line."""
        if not self._patterns:
            return []
        lines = data.split(b"\n")
        texts = [decode(line).rstrip("\r") for line in lines]
        found: list[Hit] = []
        whole = "\n".join(texts)
        numbers = range(len(self._patterns)) if self._set is None else self._set.Match(whole) or ()
        ends: list[int] = []
        for number in numbers:
            pattern = self._compiled.get(number)
            if pattern is None:
                pattern = self._compiled[number] = re.compile(self._patterns[number], re.MULTILINE)
            if not ends:
                at = 0
                for line in lines:
                    at += len(line) + 1
                    ends.append(at - 1)
            for n, text in enumerate(texts):
                if text and pattern.search(text):
                    found.append((ends[n], self._first + number))
        found.sort()
        return found


def engine_for(base: RuleBase, prefer: str = "") -> Engine:
    """The fastest engine that can be had here, or the one named (``hyperscan``, ``re2``, ``python``)."""
    anchors = Anchors(base)
    makers: dict[str, Callable[[Anchors], Engine]] = {
        "hyperscan": HyperscanEngine,
        "re2": Re2Engine,
        "python": PythonEngine,
    }
    if prefer:
        return makers[prefer](anchors)
    for name in ("hyperscan", "re2"):
        try:
            return makers[name](anchors)
        except Exception:  # noqa: S112 - whatever an engine dislikes, the next one may take it
            continue
    return PythonEngine(anchors)
