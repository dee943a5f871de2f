"""The words everything else is written in: evidence, findings, diagnoses, reports.

Frozen and standard library only. ``NamedTuple`` rather than dataclasses: the import of dataclasses alone costs half
an interpreter start, and these types are on the path of every command.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn

Text = dict[str, str]
"""A text in every language of the interface: {"zh": …, "en": …}."""


class Verdict(str, Enum):
    """What a check says. ``UNKNOWN`` is neither pass nor fail."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"
    CRASH = "crash"


SEVERITIES = ("error", "warning", "advice")
"""Worst first."""

CONFIDENCES = ("certain", "likely", "guess")
"""Surest first."""

ROLES = ("root", "either", "symptom", "pointer", "wrapper", "detail", "noise")
"""What a log text can be in the story of a failure; the first two may head a diagnosis."""


class Evidence(NamedTuple):
    """Where a thing was seen. ``line`` counts from 1; 0 means the source as a whole."""

    source: str
    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class Place(NamedTuple):
    """Which part of the cluster a finding speaks of; None is not known or does not matter."""

    host: str | None = None
    rank: int | None = None
    device: int | None = None


NOWHERE = Place()


class Fact(NamedTuple):
    """A named value with its evidence."""

    name: str
    value: Any
    evidence: Evidence | None = None


class Unknown:
    """A fact that could not be read, and why. Has no truth value: asking for one is a mistake in a check.

    ``why`` and ``how`` (what makes it readable) name texts of the interface, ``why.<code>`` and ``how.<code>``, which
    ``args`` fill. ``applies`` is False where the question itself does not arise: a host without an NPU has no NPU
    health, and that is a state, not a gap.
    """

    __slots__ = ("applies", "args", "how", "name", "why")

    def __init__(
        self, name: str, why: str, how: str = "", args: dict[str, Any] | None = None, *, applies: bool = True
    ) -> None:
        self.name, self.why, self.how, self.args, self.applies = name, why, how, args or {}, applies

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self.name} is unknown ({self.why}); it is neither true nor false")

    def __repr__(self) -> str:
        return f"Unknown({self.name!r}, {self.why!r})"


class Finding(NamedTuple):
    """One answer of one check or rule.

    ``seconds`` is the time of the event in seconds since the epoch as the log prints it (no time zone), None if the
    text carries none. ``times`` is how often the rule matched here.
    """

    id: str
    verdict: Verdict
    args: dict[str, Any] = {}
    evidence: tuple[Evidence, ...] = ()
    place: Place = NOWHERE
    severity: str = "error"
    confidence: str = "likely"
    topic: str = ""
    role: str = "root"
    title: Text = {}
    seconds: float | None = None
    times: int = 1
    recovered: bool = False
    why: Text = {}
    because: str = ""
    """the rule of the same report that explains this finding, known from the inputs and not from the rules"""


class Raw(NamedTuple):
    """What a host answered to one question, before anybody reads it.

    ``key`` is the question: ``run npu-smi info``, ``file /etc/hccn.conf``, ``look /dev/davinci*``, ``ask memory``.
    ``state``: ok (it ran or was read, whatever the exit code) · missing (no such file or command) · denied · timeout ·
    failed · killed (ended by a signal) · refused (not a read-only command) · not_recorded.
    """

    key: str
    state: str
    out: str = ""
    err: str = ""
    code: int | None = None
    seconds: float = 0.0
    cut: bool = False

    @property
    def text(self) -> str:
        """Both streams: tools of the driver write failures to either."""
        return self.out + self.err


class Answer(NamedTuple):
    """What a check says, before its rule gives it an id, a severity and words.

    ``severity`` and ``confidence`` differ from the rule's when they are given; ``why`` and ``how`` name texts of the
    interface for answers other than pass and fail.
    """

    verdict: Verdict
    args: dict[str, Any] = {}
    evidence: tuple[Evidence, ...] = ()
    place: Place = NOWHERE
    severity: str | None = None
    confidence: str | None = None
    why: str = ""
    how: str = ""


def fail(
    args: dict[str, Any] | None = None,
    *evidence: Evidence | None,
    place: Place = NOWHERE,
    severity: str | None = None,
    confidence: str | None = None,
) -> Answer:
    """The check found what its rule warns of."""
    return Answer(Verdict.FAIL, args or {}, _some(evidence), place, severity, confidence)


def passed(args: dict[str, Any] | None = None, *evidence: Evidence | None, place: Place = NOWHERE) -> Answer:
    """The check looked and found nothing wrong."""
    return Answer(Verdict.PASS, args or {}, _some(evidence), place)


def unknown(why: str, how: str = "", *evidence: Evidence | None, place: Place = NOWHERE, **args: Any) -> Answer:
    """The check could not tell, for the reason ``why``; ``how`` makes it possible."""
    return Answer(Verdict.UNKNOWN, args, _some(evidence), place, why=why, how=how)


def not_applicable(why: str, **args: Any) -> Answer:
    """The question does not arise here, for the reason ``why``."""
    return Answer(Verdict.NOT_APPLICABLE, args, why=why)


def _some(evidence: tuple[Evidence | None, ...]) -> tuple[Evidence, ...]:
    return tuple(e for e in evidence if e is not None)


class Curves(NamedTuple):
    """The values that one rank printed while it trained, row by row, as numpy arrays (float64) of one length.

    ``columns``: loss, lr, grad_norm, loss_scale, overflow, step_time … as they are in the log; ``have`` says where a
    row gives a value, because NaN is a value. ``at`` grows within each of ``segments`` (from row, to row): the step,
    counted on over epochs; a new segment begins where a run was started again. ``step`` and ``epoch`` are what was
    printed. ``every``: one row of so many was kept, besides those that stick out.
    """

    source: str
    rank: int | None
    kind: str
    columns: dict[str, Any]
    have: dict[str, Any]
    at: Any
    step: Any
    epoch: Any
    segments: tuple[tuple[int, int], ...]
    total: int = 0
    period: int = 0
    """steps of an epoch, 0 if that is not known"""
    every: int = 1
    units: dict[str, str] = {}
    cache: dict[str, Any] = {}
    """what checks have computed of these curves, by name"""
    near: Callable[[int], Sequence[str]] | None = None
    """the lines of the log between a row and the one before it, None where they cannot be had"""
    plan: dict[str, Any] = {}
    """values of the configuration that was given in the same call, by name"""


class Shortage(NamedTuple):
    """An allocation that failed, in bytes; 0 is not known.

    ``size`` was asked for; the pool may take ``limit``, has ``allocated``, of which ``used``, ``event`` (held until a
    stream has passed), ``idle`` (``largest`` in one piece) and ``eager``; the card has ``total`` and ``free``.
    ``peak`` and ``actual``: the run's peak without and with fragments. ``reserve``: not even the pool could be had;
    ``refused``: the driver said no; ``host``: the kernel killed a process of ``size``, in a control group of at most
    ``cap``; ``whole``: a graph asked for all it needs at once; ``kv``: a server found no ``room`` for its cache beside
    ``weights``.
    """

    line: int
    text: str
    size: int = 0
    op: str = ""
    device: int | None = None
    pid: int = 0
    limit: int = 0
    allocated: int = 0
    used: int = 0
    event: int = 0
    idle: int = 0
    largest: int = 0
    total: int = 0
    free: int = 0
    graph: int = 0
    static: int = 0
    peak: int = 0
    actual: int = 0
    reserve: bool = False
    refused: bool = False
    host: bool = False
    cap: int = 0
    whole: bool = False
    kv: bool = False
    weights: int = 0
    room: int | None = None


class Seen(NamedTuple):
    """A check's answer about curves: which row, in which column, and the label that the column earns. ``args`` fill the
    texts of the rule."""

    row: int
    args: dict[str, Any] = {}
    column: str = "loss"
    value: float | None = None
    usual: float | None = None
    curves: int = 0
    """which of several curves, for checks that see all ranks"""


class Edit(NamedTuple):
    """One change of one key of one file; ``start`` to ``end`` is the replaced byte span."""

    file: str
    key: str
    old: str
    new: str
    start: int = -1
    end: int = -1


class Fix(NamedTuple):
    """A proposal. safe: may be applied as shown; unsafe: needs a decision; display: text only."""

    id: str
    applicability: str
    text: Text
    edits: tuple[Edit, ...] = ()
    choices: tuple[str, ...] = ()


class Diagnosis(NamedTuple):
    """A root cause with the findings it explains. Indices point into ``Report.findings``."""

    rule: str
    topic: str
    severity: str
    confidence: str
    title: Text
    cause: Text
    next: Text
    place: Place
    ranks: tuple[int, ...]
    evidence: tuple[Evidence, ...]
    finding: int
    consequences: tuple[int, ...] = ()
    fixes: tuple[Fix, ...] = ()
    times: int = 1
    note: Text = {}


class InputSeen(NamedTuple):
    """One input, what it was taken for, and whether it could be judged."""

    name: str
    kinds: tuple[str, ...]
    size: int
    lines: int
    rank: int | None = None
    state: str = "read"
    """read · not_judged (this kind is not judged yet) · partial · unreadable · empty · skipped"""
    why: Text = {}


class Report(NamedTuple):
    """The result of one call; everything that is printed comes from here."""

    target: dict[str, Any]
    verdict: str
    diagnoses: tuple[Diagnosis, ...]
    findings: tuple[Finding, ...]
    inputs: tuple[InputSeen, ...] = ()
    facts: dict[str, Any] = {}
    series: tuple[dict[str, Any], ...] = ()
    timings: dict[str, float] = {}
    partial: Text = {}
    """why the result is only a part, empty if it is whole"""
    interrupted: bool = False
    tool: dict[str, Any] = {}
    unexplained: int = 0
    """lines that look like a failure and that no rule knows"""
    run: dict[str, Any] = {}
    """the ranks of the run, each with its clock, state and lane, and the decisive minutes; empty of a single source"""


def worst(severities: list[str]) -> str | None:
    """The worst of some severities, None of nothing."""
    return min(severities, key=SEVERITIES.index, default=None)
