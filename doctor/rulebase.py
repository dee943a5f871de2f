"""The compiled rules base: what the engine needs of every rule at hand, everything else on demand.

Reading and checking 400 YAML files takes a second; the compiled form is one JSON file in the private cache whose
first line is the matching index and whose further lines are the whole rules, read only for the few that fired.
``doctor.ruleschema`` builds it.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from doctor import __version__, cache

FORMAT = 25
"""Raise when the compiled form changes."""


class Clause(NamedTuple):
    """A text to look for: where ``literal`` is, ``regex`` must match too; either may be missing."""

    literal: str | None
    regex: str | None


class LogSpec(NamedTuple):
    """How a rule reads logs. ``lines`` and ``seconds`` bound the members of ``every``."""

    any: tuple[Clause, ...]
    every: tuple[Clause, ...]
    never: tuple[Clause, ...]
    unit: str
    level: tuple[str, ...]
    lines: int
    seconds: int
    scope: str
    after: int
    calc: str
    derive: tuple[tuple[str, str], ...]


class Explains(NamedTuple):
    """``target`` is a rule id or a topic (``group.*`` allowed); ``within`` in seconds, 0 is unlimited."""

    target: str
    within: float
    scope: str


class Rule(NamedTuple):
    """The part of a rule that matching and ranking need."""

    id: str
    topic: str
    severity: str
    confidence: str
    status: str
    role: str
    priority: int
    kind: str
    log: LogSpec | None
    applies_to: dict[str, Any]
    explains: tuple[Explains, ...]


class Problem(NamedTuple):
    """A rule file that could not be used."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class RuleBase:
    """All loaded rules. ``key`` names the exact content, for caches built upon it.

    The compiled form is one header line of JSON (ids, spans, anchor tables) and sections that are read on demand:
    a warm start touches the header, and of the hundreds of rules only those that fired.
    """

    def __init__(self, folder: str, key: str, blob: bytes) -> None:
        self.folder, self.key = folder, key
        self._blob = blob
        self._read_header(4 if blob[:1] != b"{" else 0)

    def _read_header(self, start: int) -> None:
        blob = self._blob
        end = blob.find(b"\n", start)
        head = json.loads(blob[start:end])
        self._base = end + 1
        if len(blob) - self._base < head["size"]:
            raise ValueError("the compiled rules are cut off")
        self.problems = tuple(Problem(*p) for p in head["problems"])
        self.ids: tuple[str, ...] = tuple(head["ids"])
        self.aliases: dict[str, str] = head["aliases"]
        self.anchor_targets: list[int | list[int]] = head["anchor_targets"]
        """rules and clauses that each anchor stands for, as a list where they are several; see doctor.scan.anchors"""
        self.prose_targets: list[int | list[int]] = head["prose_targets"]
        """the same for the expressions that are only looked for in pastes and small files"""
        self.anchor_info: list[int] = head["anchor_info"]
        """anchors that also matter on INFO lines; those of the prose behind those of ``anchor_targets``"""
        self.series: list[int] = head["series"]
        """positions of the rules that judge training lines"""
        self.position = {rule_id: n for n, rule_id in enumerate(self.ids)}
        self._rows: list[list[int]] = head["rows"]
        self._wholes: list[list[int]] = head["wholes"]
        self._sections: dict[str, list[int]] = head["sections"]
        self._rules: dict[int, Rule] = {}
        self._loaded: dict[str, Any] = {}
        self._code_blob: bytes = b""
        self._code_base = 0

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Rule]:
        return (self.rule_at(n) for n in range(len(self.ids)))

    def __contains__(self, rule_id: object) -> bool:
        return rule_id in self.position

    def __getitem__(self, rule_id: str) -> Rule:
        return self.rule_at(self.position[rule_id])

    def rule_at(self, position: int) -> Rule:
        """The rule at a position of ``ids``."""
        found = self._rules.get(position)
        if found is None:
            found = self._rules[position] = as_rule(self._piece(self._rows[position]))
        return found

    def whole(self, rule_id: str) -> dict[str, Any]:
        """The whole rule as written, with ``file``; for texts, fixes, sources and examples."""
        found: dict[str, Any] = self._piece(self._wholes[self.position[rule_id]])
        return found

    def _piece(self, span: list[int]) -> Any:
        try:
            return json.loads(self._blob[self._base + span[0] : self._base + span[1]])
        except ValueError:
            # a cached file that is damaged behind its header: made again, once, in memory
            from doctor import ruleschema

            self._blob = ruleschema.compile_folder(self.folder)
            self._read_header(0)
            return json.loads(self._blob[self._base + span[0] : self._base + span[1]])

    def _section(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._piece(self._sections[name])
        return self._loaded[name]

    @property
    def anchors(self) -> list[tuple[str, int]]:
        """(pattern as Latin-1 text of its bytes, kind) of every anchor; needed to build an engine, not to load one."""
        found: list[tuple[str, int]] = self._section("anchors")
        return found

    @property
    def stems(self) -> list[str]:
        """The stems of the anchors as Latin-1 text, see doctor.scan.stems; needed to build an engine."""
        found: list[str] = self._section("stems")
        return found

    def stem_holders(self, number: int) -> list[tuple[int, str, int, bool]]:
        """(bytes up to the stem's end, text as Latin-1, anchor id, whether case does not matter) of the anchors that
        hold a stem."""
        spans: list[list[int]] = self._section("stem_spans")
        found: list[tuple[int, str, int, bool]] = self._piece(spans[number])
        return found

    @property
    def prose(self) -> list[str]:
        """The expressions that ``prose_targets`` speaks of."""
        found: list[str] = self._section("prose")
        return found

    @property
    def when(self) -> dict[str, Any]:
        """The compiled conditions over a training plan, by rule; see doctor.plan.judge."""
        found: dict[str, Any] = self._section("when")
        return found

    @property
    def profile(self) -> dict[str, Any]:
        """The compiled conditions over a profile, by rule; see doctor.profile."""
        found: dict[str, Any] = self._section("profile")
        return found

    @property
    def topics(self) -> dict[str, dict[str, str]]:
        """The labels of topics.yaml with their texts."""
        found: dict[str, dict[str, str]] = self._section("topics")
        return found

    def _codes(self) -> dict[str, Any]:
        """Header of the compiled catalogue; loaded when a log holds the first code."""
        if "catalogue" not in self._loaded:
            name = f"codes-{self.key}.json"
            blob = cache.open_checked(name)
            if blob is not None and not self._take_codes(blob, 4):
                blob = None
            if blob is None:
                from doctor import ruleschema

                made = ruleschema.compile_codes(self.folder)[0]
                cache.write_checked(name, made)
                self._take_codes(made, 0)
        found: dict[str, Any] = self._loaded["catalogue"]
        return found

    def _take_codes(self, blob: bytes, start: int) -> bool:
        """Use a compiled catalogue; False if it is cut off."""
        end = blob.find(b"\n", start)
        head = json.loads(blob[start:end])
        if len(blob) - end - 1 < head["size"]:
            return False
        self._code_blob, self._code_base, self._loaded["catalogue"] = blob, end + 1, head
        self.problems += tuple(Problem(*p) for p in head["problems"])
        return True

    @property
    def code_spans(self) -> dict[str, list[int]]:
        """Where each code of the catalogue stands."""
        found: dict[str, list[int]] = self._codes()["spans"]
        return found

    def code(self, name: str) -> dict[str, Any] | None:
        """An error code of the catalogue as a plain dict, None if it is not in it."""
        span = self.code_spans.get(name)
        if span is None:
            return None
        found: dict[str, Any] = json.loads(self._code_blob[self._code_base + span[0] : self._code_base + span[1]])
        return found

    @property
    def code_names(self) -> dict[str, str]:
        """Macro name → code, for names that only one code has."""
        found: dict[str, str] = self._codes()["names"]
        return found

    @property
    def codes(self) -> dict[str, Any]:
        """The whole catalogue of error codes."""
        return {name: self.code(name) for name in self.code_spans}


def pack(
    header: dict[str, Any], rows: list[Any], wholes: list[bytes], sections: dict[str, Any], stems: list[Any]
) -> bytes:
    """The compiled form that ``RuleBase`` reads. ``rows`` and ``wholes`` (JSON already) are in the order of
    ``header['ids']``, ``stems`` (the anchors that hold each) in that of ``sections['stems']``."""
    parts = _Parts()
    header = dict(header)
    header["rows"] = [parts.add(row) for row in rows]
    header["wholes"] = [parts.add(whole) for whole in wholes]
    sections = sections | {"stem_spans": [parts.add(held) for held in stems]}
    header["sections"] = {name: parts.add(value) for name, value in sections.items()}
    return parts.behind(header)


def pack_codes(codes: dict[str, Any], names: dict[str, str], problems: list[Problem]) -> bytes:
    """The compiled catalogue of error codes."""
    parts = _Parts()
    spans = {name: parts.add(code) for name, code in codes.items()}
    return parts.behind({"spans": spans, "names": names, "problems": [list(p) for p in problems]})


class _Parts:
    """JSON texts one behind the other, found again by their spans."""

    def __init__(self) -> None:
        self._bodies: list[bytes] = []
        self._size = 0

    def add(self, value: Any) -> list[int]:
        """Keep a value, or the JSON of one; returns its (start, end) behind the header."""
        data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False, default=str,
                                                                 separators=(",", ":")).encode()  # fmt: skip
        self._bodies.append(data)
        start = self._size
        self._size += len(data) + 1
        return [start, start + len(data)]

    def behind(self, header: dict[str, Any]) -> bytes:
        """The header line and all parts."""
        size = max(0, self._size - 1)
        line = json.dumps(header | {"size": size}, ensure_ascii=False, separators=(",", ":"))
        return line.encode() + b"\n" + b"\n".join(self._bodies)


def as_rule(row: list[Any]) -> Rule:
    """A rule from its row in the index."""
    log = row[8]
    if log is not None:
        clauses = (tuple(Clause(*c) for c in part) for part in log[:3])
        derive = tuple((name, source) for name, source in log[10])
        log = LogSpec._make((*clauses, log[3], tuple(log[4]), *log[5:10], derive))
    return Rule._make((*row[:8], log, row[9], tuple(Explains(*e) for e in row[10])))


def rules_folder() -> str:
    """The rules shipped with the package, or beside it in a checkout."""
    return data_folder("rules")


def own_folder() -> str:
    """Where rules of one's own are kept, which are loaded with the shipped ones: never the installed package."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.environ.get("DOCTOR_OWN_RULES") or os.path.join(base, "mindspore-doctor", "rules")


def data_folder(name: str) -> str:
    """A data folder of the package (``rules``, ``fixtures/demo``), or beside it in a checkout."""
    here = os.path.dirname(os.path.abspath(__file__))
    packed = os.path.join(here, "_data", name)
    return packed if os.path.isdir(packed) else os.path.join(os.path.dirname(here), name)


def rule_files(folder: str) -> list[tuple[str, int, int]]:
    """(path, mtime in ns, size) of every YAML file below ``folder``, in order of path."""
    found = []
    pending = [folder]
    while pending:
        path = pending.pop()
        try:
            # by its descriptor: a name in an open folder is found sooner than a path, which counts with 1,200 files
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    name = entry.name
                    try:
                        if name.endswith(".yaml") and not entry.is_dir(follow_symlinks=False):
                            stat = entry.stat()
                            found.append((f"{path}/{name}", stat.st_mtime_ns, stat.st_size))
                        elif entry.is_dir(follow_symlinks=False):
                            pending.append(f"{path}/{name}")
                    except OSError:
                        continue  # a dangling link is no rule
        except OSError:
            continue
        finally:
            os.close(fd)
    return sorted(found)


def _code_stamps() -> list[str]:
    """Times of the modules that decide the compiled form."""
    here = os.path.dirname(os.path.abspath(__file__))
    names = (
        "rulebase.py",
        "ruleschema.py",
        "codes.py",
        "scan/anchors.py",
        "scan/matcher.py",
        "scan/stems.py",
        "plan/cel.py",
        "plan/schema.py",
        "profile/facts.py",
    )
    return [str(os.stat(f"{here}/{name}").st_mtime_ns) for name in names if os.path.exists(f"{here}/{name}")]


def _digest(data: bytes) -> str:
    """24 hex digits that name some bytes. hashlib loads OpenSSL, which costs more than all that is hashed here."""
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    return blake2b(data, digest_size=12).hexdigest()


def load(folder: str | None = None) -> RuleBase:
    """The rules base of ``folder`` (default: the shipped one, with the rules of one's own), from the cache when nothing
    changed.

    A file that cannot be used is left out and named in ``problems``.
    """
    folder = folder or rules_folder()
    own = own_folder() if folder == rules_folder() else ""
    files = rule_files(folder) + (rule_files(own) if own else [])
    parts = [__version__, str(FORMAT), *_code_stamps(), *(f"{path}\0{mtime}\0{size}" for path, mtime, size in files)]
    key = _digest("\n".join(parts).encode("utf-8", "surrogateescape"))
    name = f"rules-{key}.json"
    blob = cache.open_checked(name)
    if blob is not None:
        try:
            return RuleBase(folder, key, blob)
        except (ValueError, KeyError, TypeError, IndexError):
            pass
    import gc

    from doctor import ruleschema

    collects = gc.isenabled()
    gc.disable()  # some million objects and hardly a cycle: looking for garbage takes a tenth of the time
    try:
        blob = ruleschema.compile_folder(folder, own=own)
    finally:
        if collects:
            gc.enable()
    cache.write_checked(name, blob)
    return RuleBase(folder, key, blob)


def tool_info(base: RuleBase, engine: str) -> dict[str, Any]:
    """Name and version of what made a report."""
    return {"name": "mindspore-doctor", "version": __version__, "python": sys.version.split()[0], "engine": engine,
            "rules": len(base)}  # fmt: skip
