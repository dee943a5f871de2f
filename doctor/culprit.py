"""Groups of a run of many ranks → the place that failed first, and what the report tells of the run."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from doctor.groups import (
    EXCEPTION,
    EXITS,
    GOES_ON,
    KERNEL_KILL,
    STRONG,
    Group,
    Place,
    begun_again,
    others_stepped,
    place_of,
    rank_of_pid,
    steps_in_files,
    survives,
    topic_of,
)
from doctor.rulebase import RuleBase
from doctor.run import blame, lanes, story, waits
from doctor.run.places import Source, is_plog
from doctor.scan.lazy import lazy
from doctor.scan.scanner import Occurrence

GONE = {
    "silent": "RUN170",
    "missing": "RUN171",
    "empty": "RUN172",
    "killed": "RUN173",
    "late": "RUN174",
    "absent": "RUN176",
}
"""The rules about ranks that stopped without a word."""
CYCLE = "RUN175"
CLOSING = "closing signal"
"""What torchrun writes of a process that it ends itself, as another one had failed."""
KINDS_OF_ENDS = ("own", "weak", "stopped", "wait")
TEXT = 200


class Case(NamedTuple):
    """What is known of a run before its findings are made. ``unknown``: the line of a failure that no rule knows,
    if that failed first; ``gone``: the rule and the arguments if a rank stopped without a word."""

    run: lanes.Run
    blame: blame.Blame
    place: Place | None
    unknown: tuple[Source, Occurrence] | None
    gone: str
    args: dict[str, str]
    waits: waits.Waits
    chains: list[tuple[tuple[int, ...], bool]]
    groups: list[Group]
    """those given; of a cascade after which the run went on, none is recovered"""


def examine(
    base: RuleBase,
    run: lanes.Run,
    sources: Sequence[Source],
    groups: Sequence[Group],
    tables: Sequence[Mapping[str, Any]],
) -> Case:
    """Find the rank that failed first."""
    world = run.world or 0
    waiting = [
        (s, o.rank if o.rank is not None else s.rank, o)
        for s in sources
        for o in s.scan.occurrences
        if o.rule in base and topic_of(base, o.rule).startswith(("hccl.", "launch.heartbeat")) and not _over(s, o)
    ]
    edges = waits.waits_of(waiting, waits.addresses(sources, tables), world, run.hosts)
    told = [
        (s, o)
        for s in sources
        if s.rank is None
        for o in s.scan.occurrences
        if o.rule in base and topic_of(base, o.rule) in EXITS and not begun_again(s, o) and CLOSING not in o.text
    ]
    exits = waits.exits_of(told, rank_of_pid(sources, run.hosts))
    # several nodes have launchers of their own: the first end is that by the common clock, and a launcher has the
    # clock of the processes that it started
    exits.sort(key=lambda e: run.fixed(e.source, e.rank, e.seen.seconds) or float("inf"))
    groups = _odd_one(base, _linked(base, groups, run, edges))
    tardy = _tardy(groups, run, edges)
    edges = edges._replace(edges={rank: peers for rank, peers in edges.edges.items() if rank != tardy})
    late = {
        g.rank: g.moment
        for g in sorted(groups, key=lambda g: -(g.moment or 0.0))
        if g.kind == "wait" and not g.recovered and g.rank is not None and g.rank != tardy
    }
    groups = _last_words(base, _only_warned(groups, sources))
    if not any(_counts(g) or (g.kind == "stopped" and not g.recovered) for g in groups) and _went_on(groups, run):
        named, _ = waits.ends_of(edges)
        groups = [
            g._replace(recovered=False) if g.kind == "wait" or (g.kind == "own" and g.rank in named) else g
            for g in groups
        ]
    groups = _placed(_ended(base, groups, run), run, edges)
    common = _common(groups, run)
    waits_from = _first_waits(groups)
    troubles = [
        _trouble(base, g, late)
        for g in groups
        if _counts(g) and g.rule not in common and not _after_waiting(g, waits_from)
    ]
    own = {t.rank for t in troubles if t.rank is not None}
    unknown = _unknown(run, sources, own, set(late))
    echoes = [trouble for trouble, _, error in unknown if _ECHO.match(error.text)]
    troubles += [trouble for trouble, _, _ in unknown if trouble not in echoes]
    failed = {t.rank for t in troubles if t.rank is not None and not t.stays}
    newest: dict[int, float] = {}
    for group in groups:
        if group.rank is not None and group.moment is not None and group.kind in KINDS_OF_ENDS:
            newest[group.rank] = max(newest.get(group.rank, group.moment), group.moment)
    echoes += [_trouble(base, g, late) for g in groups if g.kind == "stopped" and not g.recovered]
    run = lanes.with_states(run, failed, {*late, *(t.rank for t in echoes if t.rank is not None)}, newest)
    votes, chains = waits.ends_of(edges, failed)
    first = blame.first_failure(run, troubles, set(late), votes, edges, exits, _joining(base, groups, run), tardy)
    if first.trouble is None and not first.gone and not votes:
        # nobody failed and nobody is missed: what else would be an echo is all that there is
        first = blame.first_failure(run, echoes, (), {}, edges, ())
    place, seen, gone, args = _named(first, unknown)
    if place is None and votes:
        # all waited: the one that the others waited for leads the list
        most = max(votes, key=lambda rank: votes[rank])
        place = (most, -1) if most in late else None
    if gone and first.ranks:
        args = _arguments(run, first, set(late), votes)
    elif not gone and first.trouble is None and place is None and any(cycle for _, cycle in chains):
        ring = [str(rank) for rank in next(path for path, cycle in chains if cycle)]
        gone, args = CYCLE, {"ranks": " → ".join(ring if len(ring) <= LINKS else [*ring[: LINKS // 2], "…", ring[-1]])}
    return Case(run, first, place, seen, gone, args, edges, chains, list(groups))


def _joining(base: RuleBase, groups: Sequence[Group], run: lanes.Run) -> bool:
    """Whether the ranks that waited did so for the cluster to be built, and no rank ever trained."""
    waits_for = {topic_of(base, g.rule) for g in groups if g.kind == "wait" and not g.recovered}
    return waits_for == {"launch.rank_config"} and all(lane.step is None for lane in run.lanes.values())


def _linked(base: RuleBase, groups: Sequence[Group], run: lanes.Run, edges: waits.Waits) -> Sequence[Group]:
    """What a broken transfer says of the rank that reports it: the failure of its own link, or only that the other end
    is gone. The end whose transfers to several ranks broke is the faulty one. It is none of the two where the other
    end says nothing any more, where there is another cause, or a crash before, and where the others had given up."""
    told = [(g.rank, g) for g in groups if not g.recovered and g.rank is not None]
    links = [(rank, g) for rank, g in told if g.kind == "link"]
    spoke = {rank for rank, g in told if g.kind in ("own", "weak", "link", "wait")}
    quiet = {rank for rank, lane in run.lanes.items() if rank not in spoke and lane.state != "ended"}
    first = float("inf")
    of_hosts = [(-1, g) for g in groups if not g.recovered and g.rank is None and g.rule == KERNEL_KILL]
    for _, group in (*told, *of_hosts):
        if group.kind == "own" and group.moment is None:
            # a failure with a cause of its own, before or after: a broken transfer is what it looks like from afar
            first = -float("inf")
        elif group.moment is not None and group.kind == "own":
            # it takes a minute until a dead end is noticed, and clocks may be wrong by more than they say
            first = min(first, group.moment - blame.AFTERWARDS)
        elif group.moment is not None and group.kind == "weak" and topic_of(base, group.rule) == "process.killed":
            first = min(first, group.moment)
    waited = _waited_from(groups)
    votes, _ = waits.ends_of(edges)
    dead = sum(n for rank, n in votes.items() if rank in quiet)
    pointed = dead > 1 and dead * 2 >= sum(votes.values())

    def echo(rank: int, moment: float | None) -> bool:
        partners = edges.broken.get(rank, ())
        if all(peer in quiet for peer in partners) and (partners or pointed):
            return True
        if moment is None:
            return first < float("inf")
        return moment > min(first + run.clocks.doubt, _gave_up(run, waited, rank))

    faulty = {rank for rank, group in links if not echo(rank, group.moment)}
    ends: dict[int, set[int]] = {}
    for rank in faulty:
        for peer in edges.broken.get(rank, ()):
            ends.setdefault(peer, set()).add(rank)
            ends.setdefault(rank, set()).add(peer)
    order = sorted(ends, key=lambda rank: (-len(ends[rank]), rank))
    if order and len(ends[order[0]]) > max(1, *(len(ends[rank]) for rank in order[1:2])):
        faulty &= {order[0]}
    echoes = {rank for rank, _ in links} - faulty

    def kind(group: Group) -> str:
        if group.kind == "link":
            return "wait" if group.rank in echoes else "own"
        suspects = group.kind == "weak" and group.rank in echoes and topic_of(base, group.rule) == "hccl.network"
        return "wait" if suspects else group.kind

    return [g._replace(kind=kind(g)) for g in groups]


def _odd_one(base: RuleBase, groups: Sequence[Group]) -> Sequence[Group]:
    """Where ranks compare notes and one says another thing than all others, it is the one that differs."""
    said: dict[int, str] = {}
    for group in groups:
        value = group.first.args.get("got", "")
        differs = group.kind == "own" and topic_of(base, group.rule) == "hccl.config_mismatch"
        if differs and value and group.rank is not None and not group.recovered:
            # a tag begins with its collective, and goes on with addresses
            said.setdefault(group.rank, value.partition("_")[0])
    values = sorted(said.values())
    odd = [rank for rank, value in said.items() if values.count(value) == 1]
    if len(odd) != 1 or len(said) < 3 or len(set(values)) != 2:
        return groups
    return [
        g._replace(kind="wait")
        if g.rank in said and g.rank not in odd and topic_of(base, g.rule) == "hccl.config_mismatch"
        else g
        for g in groups
    ]


TARDY = 30.0
"""Seconds behind the time-outs of the others in which a rank would have waited with them."""


def _tardy(groups: Sequence[Group], run: lanes.Run, edges: waits.Waits) -> int | None:
    """The rank that most others waited for and that came when they had given up: that it found nobody then, and says
    so, is no waiting of its own."""
    waited = _waited_from(groups)
    last = [rank for rank, moment in waited.items() if moment > _gave_up(run, waited, rank) + TARDY]
    said = {g.rank for g in groups if g.kind == "wait" and not g.recovered and g.seconds is not None}
    untold = [rank for rank in waited if rank not in said]
    # when a rank gave up is not known if no time stands in its lines
    for rank in [*last, *(untold if len(untold) == 1 else [])]:
        # what it says itself, that it found nobody, leads nowhere
        others = edges._replace(edges={other: peers for other, peers in edges.edges.items() if other != rank})
        votes, _ = waits.ends_of(others)
        count = max(others.named().get(rank, 0), votes.get(rank, 0))
        if 1 < len(others.edges) <= 2 * count:
            return rank
    if len(last) == 1 and not edges.edges and not any(_counts(group) for group in groups):
        # nobody is named: the one rank that gave up when nearly all others had, all of these together
        return last[0] if len(waited) > 2 and len(waited) * 10 >= 9 * len(run.lanes) else None
    return None


def _gave_up(run: lanes.Run, waited: Mapping[int, float], rank: int | None) -> float:
    """When half of the others had waited in vain, at the latest; by the clock of the rank's own host if some of them
    are there."""
    own = run.lanes.get(rank) if rank is not None else None
    beside = [
        moment
        for other, moment in waited.items()
        if own and own.host and other != rank and other in run.lanes and run.lanes[other].host == own.host
    ]
    moments = sorted(moment for other, moment in waited.items() if other != rank)
    if len(beside) > 1:
        return sorted(beside)[len(beside) // 2]
    return moments[len(moments) // 2] + run.clocks.doubt if len(moments) > 1 else float("inf")


LINKS = 12
"""Ranks of a cycle that are named."""


def _over(source: Source, occurrence: Occurrence) -> bool:
    return begun_again(source, occurrence) or source.scan.steps - occurrence.steps >= GOES_ON


def _went_on(groups: Sequence[Group], run: lanes.Run) -> bool:
    """Whether most ranks that waited in vain trained on afterwards, as after a restart: that the one they waited for
    did so too does not clear it."""
    last: dict[int, float] = {}
    for group in groups:
        if group.kind == "wait" and group.rank is not None and group.moment is not None:
            last[group.rank] = max(last.get(group.rank, group.moment), group.moment)
    on = [r for r, moment in last.items() if r in run.lanes and (run.lanes[r].step_at or 0.0) > moment]
    return len(on) * 2 > len(last)


def _refused(base: RuleBase, rule: str) -> bool:
    """Whether a rule speaks of a setting with which no rank can begin."""
    return topic_of(base, rule).startswith("config.")


def _ended(base: RuleBase, groups: Sequence[Group], run: lanes.Run) -> Sequence[Group]:
    """A NaN that a run could live with is the end of a rank that stopped there, as few others did; a setting that is
    refused may be the end of all."""
    ranks: dict[str, set[int | None]] = {}
    stopped = []
    for n, group in enumerate(groups):
        if group.kind == "maybe" and group.rank is not None and not _over(group.source, group.first):
            stopped.append(n)
            ranks.setdefault(group.rule, set()).add(group.rank)
    ends = {
        n
        for n in stopped
        if (len(ranks[groups[n].rule]) * 2 < len(run.lanes) or _refused(base, groups[n].rule)) and _raised(groups[n])
    }
    return [g._replace(kind="own") if n in ends else g for n, g in enumerate(groups)]


def _raised(group: Group) -> bool:
    """Whether a line of the rule, or a neighbour of the first, is an exception that ended the training."""
    texts = [*group.first.before, group.first.text, *group.first.after]
    texts += [o.text for o in group.source.scan.occurrences if o.rule == group.rule and not _over(group.source, o)]
    return any(EXCEPTION.match(text) for text in texts)


def _only_warned(groups: Sequence[Group], sources: Sequence[Source]) -> Sequence[Group]:
    """A warning behind which its rank reports no error of its own, as of memory that was tried for once more, is no
    end."""
    failed = {g.rank for g in groups if g.kind in ("own", "weak", "link") and g.first.level != "WARNING"}
    for source in sources:
        for error in source.scan.errors:
            if EXCEPTION.match(error.text):
                failed.add(error.rank if error.rank is not None else source.rank)
    return [
        g._replace(kind="maybe")
        if g.kind == "own" and g.rank is not None and g.first.level == "WARNING" and g.rank not in failed
        else g
        for g in groups
    ]


def _placed(groups: Sequence[Group], run: lanes.Run, edges: waits.Waits) -> Sequence[Group]:
    """A plog whose worker log is not there tells no rank. If it is the only one with a failure, and the others waited
    for a rank without a log, it is that rank's."""
    loose = {
        g.source.order
        for g in groups
        if g.rank is None and g.kind in ("own", "weak") and not g.recovered and is_plog(g.source.scan.name)
    }
    votes, _ = waits.ends_of(edges)
    named = max(votes, key=lambda rank: votes[rank], default=-1)
    killed = [g for g in groups if g.rank is None and g.rule == KERNEL_KILL and not g.recovered]
    if len(killed) == 1 and named in run.lanes and _only_of(killed[0].source.host, run.lanes[named].host):
        # the kernel names a process that no log knows: it is the one of its host that the others waited for
        return [g._replace(rank=named) if g is killed[0] else g for g in groups]
    if len(loose) != 1 or named not in run.missing or votes[named] * 2 < sum(votes.values()):
        return groups
    return [g._replace(rank=named) if g.rank is None and g.source.order in loose else g for g in groups]


def _last_words(base: RuleBase, groups: Sequence[Group]) -> Sequence[Group]:
    """An exception behind which a rank's log goes on no more ended the rank, though its rule only warns."""

    def ended(group: Group) -> bool:
        return (
            group.kind == ""
            and group.rank is not None
            and not group.recovered
            and group.rule in base
            and base[group.rule].severity == "warning"
            and base[group.rule].role in ("root", "either")
            and not survives(base[group.rule].topic)
            and EXCEPTION.match(group.first.text) is not None
            and not _over(group.source, group.first)
        )

    return [g._replace(kind="own") if ended(g) else g for g in groups]


def _only_of(host: str | None, other: str) -> bool:
    """Whether two names are of one host, as far as the second one is known, which may have an address."""
    return bool(host) and other.partition(" ")[0] in (host, "")


def _counts(group: Group) -> bool:
    return group.kind in ("own", "weak") and not group.recovered


def _waited_from(groups: Sequence[Group]) -> dict[int, float]:
    """rank → the moment of its first waiting in vain."""
    return {rank: moment for rank, (moment, _) in _first_waits(groups).items()}


def _first_waits(groups: Sequence[Group]) -> dict[int, tuple[float, tuple[int, int]]]:
    """rank → the moment and the place of its first waiting in vain."""
    out: dict[int, tuple[float, tuple[int, int]]] = {}
    for group in groups:
        if group.kind == "wait" and not group.recovered and group.rank is not None and group.moment is not None:
            own = (group.moment, group.order)
            out[group.rank] = min(out.get(group.rank, own), own)
    return out


def _after_waiting(group: Group, waits_from: Mapping[int, tuple[float, tuple[int, int]]]) -> bool:
    """Whether a failure that names no cause came when its rank had already waited in vain, as a crash in the
    tidying up does."""
    if group.kind != "weak" or group.rank is None or group.moment is None:
        return False
    moment, (file, line) = waits_from.get(group.rank, (float("inf"), (-1, -1)))
    # a line without a time has that of a line before it
    return group.moment > moment or (group.moment == moment and group.order > (file, line) and group.order[0] == file)


def _common(groups: Sequence[Group], run: lanes.Run) -> set[str]:
    """Rules of no cause that fire on most ranks: what happens to all is no failure of one."""
    ranks: dict[str, set[int]] = {}
    for group in groups:
        if group.kind == "weak" and not group.recovered and group.rank is not None:
            ranks.setdefault(group.rule, set()).add(group.rank)
    return {rule for rule, seen in ranks.items() if len(seen) > 2 and len(seen) * 2 > len(run.lanes)}


def _trouble(base: RuleBase, group: Group, late: Mapping[int, float | None]) -> blame.Trouble:
    waited = late.get(group.rank) if group.rank is not None else None
    stays = (
        not topic_of(base, group.rule).startswith(("hccl.", "device."))
        and waited is not None
        and group.moment is not None
        and waited > group.moment + blame.AFTERWARDS
    )
    return blame.Trouble(group.kind, place_of(group), group.rank, group.moment, stays, group.order)


_ECHO = lazy(
    r"\s*(?:\w+\.)*(?:BrokenPipe|ConnectionReset|ConnectionAborted|ConnectionRefused|EOF)Error\b"
    r"|.{0,80}\bForceStopError\b"
)
"""Exceptions of a process whose partner went away, or that was stopped: where others failed they tell no cause"""


def _unknown(
    run: lanes.Run, sources: Sequence[Source], own: set[int], late: set[int]
) -> list[tuple[blame.Trouble, Source, Occurrence]]:
    """Ranks that neither failed in a known way nor waited, but whose log ends in an exception that no rule knows."""
    out = []
    steps_of = steps_in_files(sources)
    for source in sources:
        for error in reversed(source.scan.errors):
            rank = error.rank if error.rank is not None else source.rank
            if rank is None or rank in own or rank in late or _over(source, error):
                continue
            if others_stepped(source, error, steps_of):
                continue
            if not EXCEPTION.match(error.text) and not (STRONG.search(error.text) and error.level == "CRITICAL"):
                continue
            seconds = error.seconds if error.seconds is not None else error.about
            moment = run.fixed(source, rank, seconds)
            trouble = blame.Trouble("unknown", (rank, -1), rank, moment, False, (source.file, error.line))
            out.append((trouble, source, error))
            break
    return out


LAST = 300.0
"""Seconds before the end of a rank's log in which an error may have to do with it."""


def last_errors(run: lanes.Run, lane: lanes.Lane) -> list[tuple[Source, Occurrence]]:
    """The newest line of an error that no rule knows, shortly before a rank fell silent; none if there is no such."""
    out = []
    for source in lane.sources:
        for error in source.scan.errors:
            moment = run.fixed(source, lane.rank, error.seconds if error.seconds is not None else error.about)
            if moment is not None and lane.last is not None and moment >= lane.last - LAST and not _over(source, error):
                out.append((moment, source, error))
    return [(source, error) for _, source, error in sorted(out, key=lambda one: one[0])[-1:]]


def _named(
    first: blame.Blame, unknown: Sequence[tuple[blame.Trouble, Source, Occurrence]]
) -> tuple[Place | None, tuple[Source, Occurrence] | None, str, dict[str, str]]:
    if first.trouble is not None:
        if first.trouble.kind == "unknown":
            source, error = next((s, o) for t, s, o in unknown if t == first.trouble)
            return first.trouble.key, (source, error), "", {}
        return first.trouble.key, None, "", {}
    if first.gone:
        return (first.ranks[0], -1), None, GONE[first.gone], {}
    return None, None, "", {}


def clock_text(seconds: float) -> str:
    """A moment as logs print it, without the day.

    >>> clock_text(1773826615.25)
    '09:36:55'
    """
    rest = int(seconds) % 86400
    return f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _arguments(run: lanes.Run, first: blame.Blame, waited: set[int], votes: Mapping[int, int]) -> dict[str, str]:
    """What fills the texts of a rule about a rank that is gone; times as its own log prints them."""
    rank = first.ranks[0]
    lane = run.lanes[rank]
    args = {"rank": story.ranks_text(first.ranks), "waited": str(len(waited - {rank}))}
    own = run.clocks.ranks.get(rank)
    if lane.last is not None:
        args["since"] = clock_text(lane.last + (own.offset if own else 0.0))
    if lane.step is not None:
        args["step"] = str(lane.step)
    if count := sum(votes.get(one, 0) for one in first.ranks):
        args["count"] = str(count)
    if lane.host:
        args["host"] = lane.host
    if first.exit is not None and first.exit.code is not None:
        args["code"] = str(first.exit.code)
    return args


def tell(
    case: Case, groups: Sequence[Group], findings: Sequence[int], top: int | None, lead: Group | None
) -> dict[str, Any]:
    """``Report.run``. ``findings``: the index of each group's finding; ``top``: that of the first diagnosis; ``lead``:
    the group that it is about, None where a rank stopped without a word or failed in an unknown way."""
    run = case.run
    events: list[story.Event] = []
    firsts: dict[int, tuple[float | None, int]] = {}
    root: story.Event | None = None
    what = {"own": "failure", "weak": "failure", "stopped": "failure", "exit": "failure", "wait": "waiting"}
    for group, index in zip(groups, findings, strict=True):
        if group.kind not in what:
            continue
        kind = "recovered" if group.recovered else what[group.kind]
        if group.rank is not None and not group.recovered and group.kind != "exit":
            have = firsts.get(group.rank)
            if have is None or (group.moment is not None and (have[0] is None or group.moment < have[0])):
                firsts[group.rank] = (group.moment, index)
        if group.moment is None:
            continue
        event = story.Event(group.moment, group.rank, group.source, group.first.line, group.first.text[:TEXT], kind,
                            index, group.rule)  # fmt: skip
        if group is lead:
            root = event._replace(what="cause")
        else:
            events.append(event)
    if lead is None and case.unknown is not None and top is not None:
        source, error = case.unknown
        seconds = error.seconds if error.seconds is not None else error.about
        moment = run.fixed(source, source.rank, seconds)
        rank = error.rank if error.rank is not None else source.rank
        if rank is not None:
            firsts[rank] = (moment, top)
        if moment is not None:
            root = story.Event(moment, rank, source, error.line, error.text[:TEXT], "cause", top)
    for rank, lane in run.lanes.items():
        if lane.state == "silent" and lane.last is not None and lane.sources:
            source = lane.sources[0]
            text = source.scan.tail[-1][:TEXT] if source.scan.tail else ""
            guilty = rank in case.blame.ranks
            event = story.Event(lane.last, rank, source, source.scan.lines, text, "cause" if guilty else "silent",
                                top if guilty else None, "silent")  # fmt: skip
            if guilty:
                root = event
            else:
                events.append(event)
        if lane.step_at is not None and lane.step is not None:
            events.append(
                story.Event(lane.step_at, rank, lane.sources[0], 0, f"step {lane.step}", "step", None, str(lane.step))
            )
    return story.told(run, events, case.chains, case.waits.edges, firsts, root)
