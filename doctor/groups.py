"""Occurrences of all sources → groups by rule and place: which rules apply here, and what a rank got over."""

from bisect import bisect_right
from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from doctor.rulebase import Rule, RuleBase
from doctor.run import lanes, waits
from doctor.run.places import Source
from doctor.scan.lazy import lazy
from doctor.scan.scanner import Occurrence, Scanned
from doctor.version import in_range

GOES_ON = 3
"""Steps printed after a trouble that make it a recovered one; one or two may still have been in flight."""

SURVIVES = ("numerics.", "perf.", "config.", "train.", "data.padding", "memory.headroom", "env.log_level", "healthy")
"""Topics that do not stop a run: going on is no recovery from them."""

STRONG = lazy(
    r"Traceback \(most recent call last\)|^\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b:? "
    r"|^\s*(?:\w+\.)*\w+(?:Error|Exception):?$"  # an assert without words
    r"|[Ss]egmentation fault|Aborted \(core dumped\)|^Killed|Bus error|\[(?:ERROR|CRITICAL)\]|^FATAL|^ERROR\b"
)
EXCEPTION = lazy(r"^\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::|$)")


Place = tuple[int | None, int]
"""A rank, or a source of none: (rank, -1) or (None, order of the source)."""

CLASS = {"root": 0, "either": 0, "symptom": 1, "pointer": 2, "wrapper": 3, "detail": 4, "noise": 9}


class Group(NamedTuple):
    """All occurrences of one rule on one rank (or in one source whose rank is not known)."""

    rule: str
    rank: int | None
    source: Source
    first: Occurrence
    times: int
    recovered: bool
    seconds: float | None
    order: tuple[int, int]
    moment: float | None = None
    """in a run of many ranks: when it happened on the common clock, from its neighbours if the line has no time"""
    kind: str = ""
    """own (a cause) · maybe (what a run can live with, unless its rank ended there) · weak (a failure of this rank
    without its cause) · link (a transfer to another rank broke: this end failed, or the other) · stopped (it was asked
    to end) · exit (a launcher's word) · wait (it waited for others) · "" (none)"""


def place_of(group: Group) -> Place:
    """Where a group was seen."""
    return (group.rank, -1) if group.rank is not None else (None, group.source.order)


def survives(topic: str) -> bool:
    return topic.startswith(SURVIVES)


LIVED_ON = 120.0
"""Seconds of steps after a trouble that make it a recovered one where steps cannot be counted."""

DEVICE = ("aicore.", "aicpu.", "device.", "hccl.", "runtime.")
"""Topics of failures that CANN writes down in a plog too."""


def _recovered(
    topic: str,
    source: Source,
    occurrence: Occurrence,
    last_step: Mapping[int, float],
    run: lanes.Run | None,
    struck: Container[int],
    steps_of: Mapping[int, Sequence[int]],
) -> bool:
    """``struck``: ranks whose log of steps ended with a failure of the device; ``steps_of``: as ``steps_in_files``
    gives them."""
    if begun_again(source, occurrence):
        return True
    if survives(topic):
        return False
    if source.scan.steps - occurrence.steps >= GOES_ON:
        return True
    if others_stepped(source, occurrence, steps_of):
        return True
    rank = occurrence.rank if occurrence.rank is not None else source.rank
    if source.scan.steps or rank is None or not occurrence.seconds:
        return False
    # a plog has no steps; its rank's worker log has, and counts if that rank did not fail afterwards
    if rank in struck and _last_word(source, occurrence):
        # such a failure leaves words in the plog: these are they, whatever the clocks say
        return False
    stepped = last_step.get(rank)
    if stepped is not None and stepped > occurrence.seconds + LIVED_ON:
        return True
    return run is not None and _run_went_on(run, source, rank, occurrence.seconds)


def begun_again(source: Source, occurrence: Occurrence) -> bool:
    """Whether the process that wrote a line was started again afterwards."""
    return source.past or occurrence.line < source.scan.told.again[0]


def steps_in_files(sources: Sequence[Source]) -> dict[int, Sequence[int]]:
    """File that holds the lines of several ranks → the lines of the steps, where one rank prints them for all."""
    out: dict[int, Sequence[int]] = {}
    trained: dict[int, int] = {}
    for source in sources:
        if source.scan.split == "rank" and not source.past:
            trained[source.file] = trained.get(source.file, 0) + (1 if source.scan.steps else 0)
            for track in source.scan.tracks:
                if track.kind == "train" and len(track.lines) > len(out.get(source.file, ())):
                    out[source.file] = track.lines
    return {file: lines for file, lines in out.items() if trained[file] == 1}


def others_stepped(source: Source, occurrence: Occurrence, steps_of: Mapping[int, Sequence[int]]) -> bool:
    """Whether the other ranks of a file trained on behind a line of a rank that prints no steps: they cannot without
    it."""
    lines = steps_of.get(source.file, ())
    return bool(lines) and not source.scan.steps and len(lines) - bisect_right(lines, occurrence.line) > GOES_ON


def _last_word(source: Source, occurrence: Occurrence) -> bool:
    """Whether no other error follows in a source within two minutes or later."""
    said = [o.seconds for o in (*source.scan.occurrences, *source.scan.errors) if o.level in ("ERROR", "CRITICAL")]
    return occurrence.seconds is not None and all(s is None or s <= occurrence.seconds + LIVED_ON for s in said)


def _run_went_on(run: lanes.Run, source: Source, rank: int, seconds: float) -> bool:
    """Whether a rank whose log has no steps wrote on after a moment while the others stepped on: they cannot without
    it."""
    lane = run.lanes.get(rank)
    at = run.fixed(source, rank, seconds)
    if lane is None or at is None or lane.last is None or lane.last < at + LIVED_ON:
        return False
    if lane.step_at is not None:
        # its own steps tell; they were counted, or went on for hours
        return lane.step_at > at + 5 * LIVED_ON
    return run.stepped is not None and run.stepped > at + LIVED_ON + run.clocks.doubt


def _failed(base: RuleBase, scan: Scanned) -> bool:
    """Whether a log shows a failure after which no steps follow, known to a rule or not."""
    late = _late(scan)
    return any(
        (not o.rule and STRONG.search(o.text)) or (o.rule in base and base[o.rule].severity == "error") for o in late
    )


def _late(scan: Scanned) -> list[Occurrence]:
    """What a log says with no steps behind it."""
    return [o for o in (*scan.occurrences, *scan.errors) if scan.steps - o.steps < GOES_ON]


def applicable(rule: Rule, facts: dict[str, Any]) -> bool | None:
    """Whether the rule speaks of the versions and devices known here; None if it cannot be told."""
    answer: bool | None = True
    for name, ranges in rule.applies_to.items():
        if name == "devices":
            chip = facts.get("device.chip")
            if chip is None:
                answer = None
            elif not any(str(chip).upper().startswith(str(d).upper()) for d in ranges):
                return False
            continue
        have = facts.get(f"version.{name}")
        if have is None:
            answer = None
            continue
        try:
            if not in_range(str(have), str(ranges)):
                return False
        except ValueError:
            answer = None
    return answer


def groups_of(
    base: RuleBase, sources: Sequence[Source], facts: dict[str, Any], run: lanes.Run | None = None
) -> list[Group]:
    """Occurrences by rule and rank; rules for other versions are left out."""
    last_step: dict[int, float] = {}
    for source in sources:
        if source.rank is not None and source.scan.last_step[1] is not None and not _failed(base, source.scan):
            last_step[source.rank] = max(last_step.get(source.rank, 0.0), source.scan.last_step[1])
    struck = {
        source.rank
        for source in sources
        if source.rank is not None and (source.scan.steps or source.scan.last_step[0])
        and any(o.rule in base and base[o.rule].topic.startswith(DEVICE) for o in _late(source.scan))
    }  # fmt: skip
    steps_of = steps_in_files(sources)
    pids = rank_of_pid(sources, run.hosts if run else ())
    kills = {s.order: [o for o in s.scan.occurrences if o.rule == KERNEL_KILL] for s in sources if s.rank is None}
    table: dict[tuple[str, int | None, int], list[tuple[Source, Occurrence]]] = {}
    for source in sources:
        for occurrence in source.scan.occurrences:
            rank = occurrence.rank if occurrence.rank is not None else source.rank
            if run is not None and rank is None and topic_of(base, occurrence.rule) in EXITS:
                # a launcher names the process that ended
                named, _ = waits.exit_of(occurrence, pids)
                rank = named if named in run.lanes else None
            elif run is not None and rank is None and topic_of(base, occurrence.rule) == "memory.host":
                # so does the kernel, some lines after it began to look for a process to kill
                near = (k for k in kills.get(source.order, ()) if 0 <= k.line - occurrence.line <= KILL_REPORT)
                rank = next((pids[pid] for k in near if (pid := int(k.args.get("pid") or -1)) in pids), None)
                rank = pids.get(waits.pid_of(occurrence.text), rank) if rank is None else rank
            # one rank's worker log and plog are one place; sources without a rank stay apart
            key = (occurrence.rule, rank, -1 if rank is not None else source.order)
            table.setdefault(key, []).append((source, occurrence))
    groups = []
    for (rule_id, rank, _), seen in table.items():
        topic = topic_of(base, rule_id)
        if rule_id in base and applicable(base[rule_id], facts) is False:
            continue
        every = seen
        alive = [(s, o) for s, o in seen if not _recovered(topic, s, o, last_step, run, struck, steps_of)]
        if rank is not None and len(alive) < len(seen):
            # a log of errors alone repeats what the log with the steps shows to be over
            living = {id(o) for _, o in alive}
            over = {o.text for _, o in seen if id(o) not in living}
            alive = [(s, o) for s, o in alive if s.scan.steps or o.text not in over]
        moment: float | None = None
        if run is not None:
            seen = sorted(alive or seen, key=partial(_place_in_time, run, rank))
            moment = _moment(run, rank, *seen[0])
        elif alive:
            seen = alive
        source, first = seen[0]
        kind = _kind(base, rule_id)
        if kind in ("weak", "stopped", "exit") and topic in EXITS and (source.rank is None or kind == "exit"):
            # of its own end a process says nothing; a launcher speaks of the one that it names
            kind = "exit"
        count = sum({id(s): s.scan.counts.get(rule_id, 0) for s, _ in every}.values())
        groups.append(
            Group(rule_id, rank, source, first, max(count, len(every) if rank is not None else count),
                  not alive, first.seconds, (source.file, first.line), moment, kind)
        )  # fmt: skip
    return groups


def rank_of_pid(sources: Sequence[Source], hosts: Sequence[tuple[str, tuple[int, ...]]] = ()) -> dict[int, int]:
    """pid → rank of the processes whose logs are there, or that the launcher of one of the ``hosts`` numbers; a number
    that two hosts gave out tells nothing."""
    out: dict[int, int] = {}
    twice = set()
    on_host = {host: ranks for host, ranks in hosts if host}
    for source in sources:
        known = [(pid, source.rank) for pid in source.scan.pids[:4]] if source.rank is not None else []
        if source.rank is None and source.host in on_host:
            ranks = on_host[source.host]
            known = [one for o in source.scan.occurrences if (one := waits.children_of(o.text, ranks))]
        for pid, rank in known:
            if out.setdefault(pid, rank) != rank:
                twice.add(pid)
    return {pid: rank for pid, rank in out.items() if pid not in twice}


def _moment(run: lanes.Run, rank: int | None, source: Source, occurrence: Occurrence) -> float | None:
    """When something happened on the common clock. Without a time, or a neighbour with one, a line of the last tenth
    of a source is as old as its end, unless training lines without a time stand between."""
    seconds = occurrence.seconds if occurrence.seconds is not None else occurrence.about
    timed = not source.scan.steps or source.scan.last_step[1] is not None
    if seconds is None and timed and occurrence.line * 10 >= source.scan.lines * 9:
        seconds = source.scan.seconds[1]
    return run.fixed(source, rank, seconds)


def _place_in_time(run: lanes.Run, rank: int | None, seen: tuple[Source, Occurrence]) -> tuple[float, int, int]:
    source, occurrence = seen
    moment = _moment(run, rank, source, occurrence)
    return (float("inf") if moment is None else moment, source.file, occurrence.line)


EXITS = ("launch.worker_exit", "process.killed")
STOPPED = ("RUN301", "DATA041", "RUN480")
"""Rules of a process that was asked to end, as a launcher asks all when one has failed, or whose partner went away."""
KERNEL_KILL = "MEM708"
"""The rule of a kernel log's line about a process that was killed for lack of memory."""
KILL_REPORT = 120
"""Lines of a kernel's report of memory and processes before it names the one that it killed."""
_WAITS = ("hccl.timeout.", "hccl.init", "launch.")


def _kind(base: RuleBase, rule_id: str) -> str:
    """What a rule says of the rank that it fires on."""
    if rule_id not in base or base[rule_id].severity != "error":
        return ""
    rule = base[rule_id]
    if survives(rule.topic):
        return "maybe" if rule.role in ("root", "either") else ""
    if rule_id in STOPPED:
        return "stopped"
    if rule.role == "either" and rule.topic == "hccl.network":
        return "link"
    if rule.role == "root" or (rule.role == "either" and not rule.topic.startswith("hccl.timeout.")):
        return "own"
    if rule.role == "pointer" and rule.topic in EXITS:
        return "exit"
    if rule.role in ("symptom", "either", "pointer") and rule.topic.startswith(_WAITS):
        return "wait"
    return "weak" if rule.role == "symptom" else ""


def code_of(base: RuleBase, rule_id: str) -> dict[str, Any]:
    """The catalogue entry behind a CODE: finding."""
    found = base.code(rule_id[5:])
    assert found is not None
    return found


def topic_of(base: RuleBase, rule_id: str) -> str:
    if rule_id.startswith("CODE:"):
        return str(code_of(base, rule_id)["topic"])
    return base[rule_id].topic if rule_id in base else ""


def role_of(base: RuleBase, rule_id: str) -> str:
    return str(code_of(base, rule_id)["role"]) if rule_id.startswith("CODE:") else base[rule_id].role
