"""How far the clocks of the ranks are apart.

All ranks of a synchronous run end the same training step within about a step, make the same communicator together and
print the same first records when they start. The differences of these times between ranks, of which the median is
taken, are the differences of their clocks.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ROUNDED = 1.0
"""Seconds: of stamps without fractions the time is not known better."""
MADE_TOGETHER = 10.0
"""Seconds that ranks may be apart when they make a communicator."""
STARTED_TOGETHER = 60.0
"""Seconds that ranks may be apart when they start, as launchers do."""
UNKNOWN = 300.0
"""Seconds that clocks of hosts may be apart of which nothing is known."""
JUMPED = 30.0
"""Seconds by which the differences of two ranks vary at most while they train together."""
SAME_HOST = 2.0
"""Seconds within which ranks of one host agree, or the host is none."""


class Clock(NamedTuple):
    """``offset``: what the rank's clock is ahead of the others', in seconds; ``how``: steps · init · none."""

    offset: float
    how: str


class Clocks(NamedTuple):
    """The clocks of the ranks; ``doubt``: seconds by which corrected times may be wrong between ranks."""

    ranks: dict[int, Clock]
    doubt: float

    def fixed(self, rank: int | None, seconds: float) -> float:
        """A time of a rank's log on the common clock."""
        own = self.ranks.get(rank) if rank is not None else None
        return seconds - own.offset if own else seconds


def estimate(beats: Mapping[int, Mapping[str, float]], hosts: Mapping[int, str]) -> Clocks:
    """The clocks of ranks from the times at which they passed common events. ``hosts``: rank → host, where known."""
    steps, spread = _aligned({r: _only(b, "s") for r, b in beats.items()})
    found = {rank: Clock(offset, "steps") for rank, offset in steps.items()}
    doubt = spread
    rest = [rank for rank in beats if rank not in found]
    if rest:
        for kind, apart in (("i", MADE_TOGETHER), ("m", STARTED_TOGETHER)):
            events = {r: _only(b, kind) for r, b in beats.items()}
            other, _ = _aligned(_of_most(events) if kind == "m" else events)
            known = [other[r] - found[r].offset for r in other if r in found]
            shift = _median(known) if known else _median(list(other.values())) if other else 0.0
            added = {r: other[r] - shift for r in other if r not in found}
            if any(abs(offset) > apart for offset in added.values()):
                doubt = max(doubt, apart)
            found.update({r: Clock(o if abs(o) > apart else 0.0, "init") for r, o in added.items()})
    found = _by_host(found, hosts, doubt)
    centre = _median([clock.offset for clock in found.values()]) if found else 0.0
    found = {rank: clock._replace(offset=round(clock.offset - centre, 3)) for rank, clock in found.items()}
    unknown = [rank for rank in beats if rank not in found]
    if unknown and len({hosts.get(rank, str(rank)) for rank in beats}) > 1:
        doubt = UNKNOWN
    found.update({rank: Clock(0.0, "none") for rank in unknown})
    return Clocks(found, round(doubt, 3))


def _only(beats: Mapping[str, float], kind: str) -> dict[str, float]:
    return {key: seconds for key, seconds in beats.items() if key[0] == kind}


def _of_most(events: Mapping[int, Mapping[str, float]]) -> dict[int, dict[str, float]]:
    """The records that half of the ranks begin with, or more: what few print early others print much later."""
    counts: dict[str, int] = {}
    for own in events.values():
        for key in own:
            counts[key] = counts.get(key, 0) + 1
    return {r: {key: at for key, at in own.items() if 2 * counts[key] >= len(events)} for r, own in events.items()}


def _median(values: Sequence[float]) -> float:
    """The lower middle one: a value that was measured, and the majority's where most agree."""
    return sorted(values)[(len(values) - 1) // 2]


def _aligned(beats: Mapping[int, Mapping[str, float]]) -> tuple[dict[int, float], float]:
    """(rank → offset, spread that is left) of ranks that share events, or whose steps overlap. The rank with most
    events is the first reference; others join it one after the other, so that a rank may share no event with it."""
    with_beats = {rank: own for rank, own in beats.items() if own}
    if len(with_beats) < 2:
        return {}, 0.0
    shared: dict[str, int] = {}
    for own in with_beats.values():
        for key in own:
            shared[key] = shared.get(key, 0) + 1
    order = sorted(with_beats, key=lambda rank: (-sum(shared[key] for key in with_beats[rank]), rank))
    offsets = {order[0]: 0.0}
    times = dict(with_beats[order[0]])
    left: list[float] = []
    waiting = order[1:]
    while waiting:
        later = []
        for rank in waiting:
            own = with_beats[rank]
            timed = sorted((times[key], own[key] - times[key]) for key in own if key in times)
            differences = [value for _, value in timed] or _between(own, times)
            if not differences:
                later.append(rank)
                continue
            if max(differences) - min(differences) > JUMPED:
                # one of them stood still, or was started again, and then they were no longer together
                differences = differences[: (len(differences) + 1) // 2]
            apart = sorted(differences)
            offset = offsets[rank] = apart[(len(apart) - 1) // 2]
            left += [abs(value - offset) for value in apart]
            for key, seconds in own.items():
                times.setdefault(key, seconds - offset)
        if len(later) == len(waiting):
            break
        waiting = later
    if len(offsets) < 2:
        return {}, 0.0
    whole = all(seconds == int(seconds) for own in with_beats.values() for seconds in own.values())
    left.sort()
    return offsets, max(ROUNDED if whole else 0.0, 2 * left[len(left) * 9 // 10] if left else ROUNDED)


def _between(own: Mapping[str, float], times: Mapping[str, float]) -> list[float]:
    """Differences at steps that the reference did not print but that lie between, or near, steps that it did."""
    points = sorted((number, times[key]) for key, number in numbers(times).items())
    if len(points) < 2:
        return []
    out = []
    for key, number in numbers(own).items():
        after = next((n for n, (step, _) in enumerate(points) if step >= number), len(points) - 1)
        (low, from_), (high, to) = points[max(0, after - 1)], points[max(1, after)]
        reach = 0.1 * (points[-1][0] - points[0][0])
        if high == low or number < points[0][0] - reach or number > points[-1][0] + reach:
            continue
        out.append(own[key] - (from_ + (to - from_) * (number - low) / (high - low)))
    return sorted(out)


def numbers(beats: Mapping[str, float]) -> dict[str, float]:
    """Key → step number of training steps of the newest epoch."""
    split = {key: key[1:].split("/", 1) for key in beats if key[0] == "s"}
    epochs = {epoch for epoch, _ in split.values()}
    if len(epochs) != 1:
        return {}
    out = {}
    for key, (_, step) in split.items():
        try:
            out[key] = float(step)
        except ValueError:
            continue
    return out


def _by_host(found: dict[int, Clock], hosts: Mapping[int, str], doubt: float) -> dict[int, Clock]:
    """The ranks of one host have one clock, unless they plainly do not."""
    groups: dict[str, list[int]] = {}
    for rank, host in hosts.items():
        groups.setdefault(host, []).append(rank)
    for host, ranks in groups.items():
        known = [found[rank] for rank in ranks if rank in found]
        best = [c for c in known if c.how == "steps"] or known
        if not best:
            continue
        values = sorted(clock.offset for clock in best)
        if values[-1] - values[0] > max(SAME_HOST, 3 * doubt) and (best[0].how == "steps" or not host):
            continue
        common = Clock(_median(values), best[0].how)
        found.update(dict.fromkeys(ranks, common))
    return found
