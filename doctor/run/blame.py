"""Which rank failed first.

A failure of a rank's own beats any number of time-outs, whatever the clocks say. Of several such failures the earliest
counts, and where clocks are not known well enough to tell, the one at which the others' waiting ends. A rank that says
nothing (killed, hung, its log missing) is to blame when the others waited for it and none failed by itself before.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from doctor.run.lanes import Lane, Run
from doctor.run.waits import Exit, Waits

AFTERWARDS = 60.0
"""Seconds after which a failure, or a time-out, is a later one and no part of the same event."""


class Trouble(NamedTuple):
    """A failure of a place. ``kind``: own (a rule that names a cause), weak (a rule of the rank's own failure that
    names none), unknown (no rule knows it), exit (a launcher says that the process was killed). ``key``: the place.
    ``moment``: on the common clock. ``stays``: the rank waited for others long after it, so it lived on."""

    kind: str
    key: tuple[int | None, int]
    rank: int | None
    moment: float | None
    stays: bool = False
    order: tuple[int, int] = (0, 0)


class Blame(NamedTuple):
    """``trouble``: what failed first; or ``gone``: silent · missing · absent (it never joined) · empty · killed · late
    with ``ranks``, the ranks that may be meant; ``sure``: whether the logs name that rank."""

    trouble: Trouble | None = None
    gone: str = ""
    ranks: tuple[int, ...] = ()
    sure: bool = False
    exit: Exit | None = None


def first_failure(
    run: Run,
    troubles: Sequence[Trouble],
    waited: Collection[int],
    votes: Mapping[int, int],
    waits: Waits,
    exits: Sequence[Exit],
    joining: bool = False,
    tardy: int | None = None,
) -> Blame:
    """The failure that the others follow from; an empty answer if nothing tells. ``joining``: the ranks that waited
    did so for the cluster to be built; ``tardy``: the rank that came when the others had given up."""
    own = _earliest([t for t in troubles if t.kind == "own"], run, votes)
    other = _earliest([t for t in troubles if t.kind != "own"], run, votes)
    best = own or other
    if own and other and not _well_before(own, other, run):
        # along a chain of neighbours the waiting may end at any that failed; who is named by many is meant
        named = waits.named()
        mine, theirs = _votes(named, own), _votes(named, other)
        meant = theirs > 1 + mine and 2 * theirs > sum(named.values())
        if meant or (_well_before(other, own, run) and _votes(votes, other) >= _votes(votes, own)):
            best = other
    gone = _gone(run, waited, votes, waits, exits, joining)
    if gone is not None and tardy is not None and tardy in gone.ranks and not gone.sure:
        # of several that nobody names it is the one that is known to have come late
        gone = gone._replace(ranks=(tardy,))
    if gone is None:
        return Blame(best)
    if best is None:
        return gone
    if gone.sure and not _votes(votes, best) and _late(best, run, waited):
        return gone
    return Blame(best)


def _votes(votes: Mapping[int, int], trouble: Trouble) -> int:
    return votes.get(trouble.rank, 0) if trouble.rank is not None else 0


def _earliest(troubles: Sequence[Trouble], run: Run, votes: Mapping[int, int]) -> Trouble | None:
    """The first of some troubles; among those that the clocks cannot tell apart the one that most waited for."""
    if not troubles:
        return None
    ended = [t for t in troubles if not t.stays] or list(troubles)
    timed = [t for t in ended if t.moment is not None]
    if not timed:
        return min(ended, key=lambda t: (-_votes(votes, t), t.order))
    first = min(timed, key=lambda t: (t.moment, t.order))
    assert first.moment is not None
    near = [
        t
        for t in ended
        if t.moment is None or t.key == first.key or t.moment - first.moment <= _doubt(run, first.rank, t.rank)
    ]
    far = float("inf")
    return min(near, key=lambda t: (-_votes(votes, t), far if t.moment is None else t.moment, t.order))


def _doubt(run: Run, one: int | None, other: int | None) -> float:
    """Seconds by which the times of two ranks may be wrong against each other."""
    if one is None or other is None or one == other:
        return 0.0
    a, b = run.lanes.get(one), run.lanes.get(other)
    clocks = run.clocks.ranks
    if a and b and a.host and a.host == b.host and clocks.get(one) == clocks.get(other):
        return 0.0
    return run.clocks.doubt


def _well_before(one: Trouble, other: Trouble, run: Run) -> bool:
    if one.moment is None or other.moment is None:
        return False
    return one.moment + AFTERWARDS + _doubt(run, one.rank, other.rank) < other.moment


def _stuck(run: Run, waited: Collection[int]) -> float | None:
    """When the ranks that waited printed their last step: from then on they stood still."""
    steps = sorted(lane.step_at for rank, lane in run.lanes.items() if rank in waited and lane.step_at is not None)
    return steps[len(steps) // 2] if steps else None


def _late(trouble: Trouble, run: Run, waited: Collection[int]) -> bool:
    """Whether a failure came long after the ranks had come to a stand."""
    stuck = _stuck(run, waited)
    if stuck is None or trouble.moment is None:
        return False
    return trouble.moment > stuck + AFTERWARDS + run.clocks.doubt + 3 * run.pace


def _gone(
    run: Run,
    waited: Collection[int],
    votes: Mapping[int, int],
    waits: Waits,
    exits: Sequence[Exit],
    joining: bool,
) -> Blame | None:
    """The rank that stopped without a word, if the others' waiting or a launcher points at one."""
    quiet = {rank for rank, lane in run.lanes.items() if lane.state not in ("failed", "waited") and not _cut(lane, run)}
    killed = next((e for e in exits if e.rank in quiet and e.code is not None and e.code < 0), None)
    told = {rank: n for rank, n in votes.items() if rank in quiet}
    total = sum(votes.values())
    named = waits.named()
    links = [r for r in told if run.lanes[r].state == "missing" and named.get(r, 0) * 2 < len(waits.edges)]
    if len(links) < len(told):
        # a rank without a log in the middle of a chain of neighbours may have waited as well
        told = {rank: n for rank, n in told.items() if rank not in links}
        total = sum(told.values()) if links else total
    if told:
        most = max(told.values())
        first = max(told, key=lambda rank: (told[rank], -rank))
        # along a chain of neighbours all waiting ends at one of them, though hardly any rank names that one
        apart = most * 2 < total or named.get(first, 0) * 2 < len(waits.edges)
        node = _together(run, told, total, quiet) if apart and killed is None else ()
        if node:
            return Blame(None, "silent", node, True)
        top = [rank for rank, n in told.items() if n == most]
        loud = max((n for rank, n in votes.items() if rank not in quiet), default=0)
        if most * 2 >= total or (len(top) == 1 and most * 2 > loud):
            rank = min(top, key=lambda r: _stopped(run, r))
            if killed is not None and killed.rank is not None and (killed.rank in top or not waits.edges):
                # the scheduler names several, also those that their launcher ended afterwards
                rank = killed.rank
            own = next((e for e in exits if e.rank == rank), None)
            kind = "killed" if own and own == killed else _kind(run, rank, joining)
            return Blame(None, kind, (rank,), most * 2 >= total, own)
    if killed is not None and killed.rank is not None:
        return Blame(None, "killed", (killed.rank,), True, killed)
    if not waited or (votes and sum(votes.values()) * 4 >= len(waited)):
        # the waiting ends at a rank that waited as well
        return None
    # nobody is named: the rank without a time-out among many that have one
    over = [rank for rank in quiet if run.lanes[rank].state == "ended"]
    candidates = sorted(rank for rank in quiet if rank not in over) or (over if len(over) == 1 else [])
    exited = next((e for e in exits if e.rank in candidates), None)
    if exited is not None and exited.rank is not None:
        return Blame(None, _kind(run, exited.rank, joining), (exited.rank,), False, exited)
    # a log without a time-out says more than one that nobody collected; but where no cluster was built a rank that is
    # not there never came, and one that is silent was ended by its launcher before its own time was over
    absent = [rank for rank in candidates if run.lanes[rank].state == "missing"]
    candidates = absent if joining else [rank for rank in candidates if rank not in absent] or candidates
    if not candidates or len(candidates) * 2 > len(run.lanes):
        return _behind(run, candidates)
    if len(candidates) == 1:
        return Blame(None, _kind(run, candidates[0], joining), (candidates[0],), len(waited) > 2)
    return _behind(run, candidates) or Blame(None, _kind(run, candidates[0], joining), tuple(candidates))


def _together(run: Run, told: Mapping[int, int], total: int, quiet: Collection[int]) -> tuple[int, ...]:
    """The neighbouring ranks, of one host where hosts are known, that fell silent at one moment and at which most of
    the waiting ends, none of them more than the others: a node that went away."""
    first = max(told, key=lambda rank: (told[rank], -rank))
    lane = run.lanes[first]
    host = tuple(rank for rank, one in run.lanes.items() if lane.host and one.host == lane.host)
    if len(host) > 1 and lane.last is None and all(rank in quiet for rank in host):
        # their logs have no times, and none of them says a word of what happened
        return host if 2 * sum(told.get(rank, 0) for rank in host) >= total and len(host) < len(run.lanes) else ()
    if lane.state != "silent" or lane.last is None:
        return ()
    reach = max(2 * run.pace, run.clocks.doubt, 5.0)
    gone: list[int] = []
    for step in (1, -1):
        rank = first if step == 1 else first - 1
        while rank in quiet and run.lanes[rank].state == "silent" and run.lanes[rank].host == lane.host:
            last = run.lanes[rank].last
            # where the lines of steps have no time, the last line with one says little
            if last is None or (abs(last - lane.last) > reach and lane.step_at is not None):
                break
            gone.append(rank)
            rank += step
    votes = sum(told.get(rank, 0) for rank in gone)
    return tuple(sorted(gone)) if len(gone) > 1 and votes * 2 >= total else ()


def _cut(lane: Lane, run: Run) -> bool:
    """Whether a log breaks off before its rank did: the others went on for steps that they cannot do without it."""
    if lane.state != "silent" or lane.step is None or lane.last is None or run.stepped is None or not run.pace:
        return False
    reached = sorted(one.step for one in run.lanes.values() if one.step is not None)
    ahead = reached[len(reached) // 2] - lane.step
    return ahead > 3 and run.stepped > lane.last + 3 * run.pace + run.clocks.doubt


def _kind(run: Run, rank: int, joining: bool = False) -> str:
    state = run.lanes[rank].state
    if joining and state == "missing":
        return "absent"
    return "late" if state in ("running", "ended") else state


def _stopped(run: Run, rank: int) -> tuple[float, float]:
    """Orders ranks by what they reached: the one that stopped first comes first."""
    lane = run.lanes[rank]
    return (float(lane.step) if lane.step is not None else -1.0, lane.last if lane.last is not None else -1.0)


def _behind(run: Run, candidates: Sequence[int]) -> Blame | None:
    """Of several silent ranks the one that stopped a step, or plainly earlier, than all others."""
    alive = [rank for rank in candidates if run.lanes[rank].last is not None]
    if len(alive) < 2 or len(alive) < len(candidates):
        return None
    first, second, *_ = sorted(alive, key=lambda rank: _stopped(run, rank))
    a, b = run.lanes[first], run.lanes[second]
    fewer = a.step is not None and b.step is not None and a.step < b.step
    earlier = (
        a.last is not None
        and b.last is not None
        and a.step == b.step
        and a.last + max(2 * run.pace, run.clocks.doubt, 5.0) < b.last
    )
    return Blame(None, _kind(run, first), (first,)) if fewer or earlier else None
