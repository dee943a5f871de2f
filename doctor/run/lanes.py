"""The ranks of a run, each with its sources, its clock and what became of it."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from doctor.run import clock
from doctor.run.places import Source, is_plog
from doctor.scan.lazy import lazy

SILENT = 60.0
"""Seconds without a line, at least, while others wrote, that make a rank silent."""
SILENT_LINES = 5
"""Training lines that would have been printed in that time, at least, where their pace is known."""
ONE_FOLDER = 16
"""Cards of the largest server: so many worker logs in one folder are taken for those of one host."""

_ENDED = lazy(
    r"(?i)\btrain(?:ing)? (?:is )?(?:end(?:ed|s)?|finish(?:ed)?|over|done|complete[ds]?|success\w*)\b"
    r"|\bend of training\b|\bfinished training\b|训练(?:结束|完成)|exit(?:ed)? (?:normally|with code 0)\b"
)


class Lane(NamedTuple):
    """One rank of the run; times on the common clock.

    ``state``: failed · waited · silent · ended · running · missing · empty.
    """

    rank: int
    sources: tuple[Source, ...]
    host: str
    state: str = "running"
    start: float | None = None
    last: float | None = None
    step: int | None = None
    """the last training step it printed"""
    step_at: float | None = None

    @property
    def source(self) -> str:
        """Its most telling log: that of the worker, not CANN's."""
        return self.sources[0].scan.name if self.sources else ""


class Run(NamedTuple):
    """All ranks with their clocks; ``world``: number of ranks, None if nothing tells."""

    lanes: dict[int, Lane]
    world: int | None
    missing: tuple[int, ...]
    clocks: clock.Clocks
    hosts: tuple[tuple[str, tuple[int, ...]], ...]
    pace: float
    """seconds between two training lines"""

    @property
    def stepped(self) -> float | None:
        """When half of the ranks that print steps had printed their last one."""
        steps = sorted(lane.step_at for lane in self.lanes.values() if lane.step_at is not None)
        return steps[len(steps) // 2] if steps else None

    def fixed(self, source: Source, rank: int | None, seconds: float | None) -> float | None:
        """A time printed in a source on the common clock; a source without a rank has that of its host's ranks, or
        of rank 0, beside which a scheduler runs."""
        if seconds is None:
            return None
        own = source.rank if source.rank is not None else rank
        if own is None or own not in self.clocks.ranks:
            own = next((ranks[0] for host, ranks in self.hosts if host and host == source.host), 0)
        return self.clocks.fixed(own, seconds)


def assemble(sources: Sequence[Source]) -> Run | None:
    """The run that some sources show; None if they are of fewer than two ranks."""
    by_rank: dict[int, list[Source]] = {}
    for source in sources:
        if source.rank is not None and not source.several:
            by_rank.setdefault(source.rank, []).append(source)
    for rank in {o.rank for s in sources for o in s.scan.occurrences if o.rank is not None}:
        by_rank.setdefault(rank, [])
    world = world_of(sources, by_rank)
    if len(by_rank) < 2 and not (by_rank and world and world > 1):
        return None
    # a file of several ranks has no lane of its own for each, but its ranks are not missing
    mixed = any(o.rank is not None and o.rank != s.rank for s in sources for o in s.scan.occurrences)
    for own in by_rank.values():
        own.sort(key=lambda s: (is_plog(s.scan.name), not s.scan.told.beats, s.order))
    hosts = _hosts(by_rank, sources)
    beats = {rank: _beats(own) for rank, own in by_rank.items()}
    clocks = clock.estimate(beats, hosts)
    missing = () if mixed or not world else tuple(rank for rank in range(world) if rank not in by_rank)
    lanes = {}
    for rank, own in sorted(by_rank.items()):
        lanes[rank] = _lane(rank, own, hosts.get(rank, ""), clocks)
    for rank in missing:
        lanes[rank] = Lane(rank, (), hosts.get(rank, ""), "missing")
    named: dict[str, list[int]] = {}
    for rank in sorted(by_rank):
        named.setdefault(hosts.get(rank, ""), []).append(rank)
    order = sorted(named.items(), key=lambda one: one[1])
    return Run(lanes, world, missing, clocks, tuple((h, tuple(r)) for h, r in order), _pace(beats))


def world_of(sources: Sequence[Source], ranks: Iterable[int]) -> int | None:
    """The number of ranks: what most sources say that is not below the ranks seen, else the highest rank and one."""
    top = max(ranks, default=-1) + 1
    counts: dict[int, int] = {}
    for source in sources:
        if source.scan.told.world >= max(top, 2):
            counts[source.scan.told.world] = counts.get(source.scan.told.world, 0) + 1
        if source.scan.told.members:
            top = max(top, max(member[0] for member in source.scan.told.members) + 1)
    counts = {world: n for world, n in counts.items() if world >= top}
    if counts:
        return max(counts, key=lambda world: (counts[world], world))
    return top or None


def _hosts(by_rank: Mapping[int, Sequence[Source]], sources: Sequence[Source]) -> dict[int, str]:
    """rank → host: by the scheduler's list, folders, the address in a log; a single folder of few logs is one host."""
    listed = {member[0]: member[2] for s in sources for member in s.scan.told.members}
    addresses = {member[0]: member[3] for s in sources for member in s.scan.told.members}
    out: dict[int, str] = {}
    for rank, own in by_rank.items():
        host = next((s.host for s in own if s.host), None)
        host = host or listed.get(rank) or next((s.scan.told.address for s in own if s.scan.told.address), None)
        if host:
            out[rank] = host
    for rank, host in listed.items():
        out.setdefault(rank, host)
    if not out and any(s.scan.split for s in sources):
        # one file gathers their lines as they come
        return dict.fromkeys(by_rank, "")
    if not out and len(by_rank) <= ONE_FOLDER:
        folders = {s.scan.name.rpartition("/")[0] for own in by_rank.values() for s in own if not is_plog(s.scan.name)}
        if len(folders) == 1:
            out = dict.fromkeys(by_rank, "")
    if len(set(addresses.values())) > len(set(listed.values())):
        # hosts of one name, as containers have
        out.update({rank: f"{listed[rank]} {address}" for rank, address in addresses.items()})
    return out


def _beats(own: Sequence[Source]) -> dict[str, float]:
    beats: dict[str, float] = {}
    for source in own:
        plog = is_plog(source.scan.name)
        over = _steps_over(source)
        for key, seconds in source.scan.told.beats:
            if over and key[0] == "s":
                continue
            # the first records of a plog are not those of a worker log
            beats.setdefault("mp" + key[1:] if plog and key[0] == "m" else key, seconds)
    return beats


def _pace(beats: Mapping[int, Mapping[str, float]]) -> float:
    """The usual time between two training lines of one rank, 0 if it is not known."""
    apart: list[float] = []
    for own in beats.values():
        times = sorted(seconds for key, seconds in own.items() if key[0] == "s")
        apart += [later - before for before, later in pairwise(times)]
    apart.sort()
    return apart[len(apart) // 2] if apart else 0.0


def _steps_over(source: Source) -> bool:
    """Whether the steps are those of an attempt after which the process was started again: none of this run."""
    return source.scan.last_step[0] < source.scan.told.again[0]


def _lane(rank: int, own: Sequence[Source], host: str, clocks: clock.Clocks) -> Lane:
    def fixed(values: Iterable[float | None]) -> list[float]:
        return [clocks.fixed(rank, value) for value in values if value is not None]

    starts, lasts = fixed(s.scan.seconds[0] for s in own), fixed(s.scan.seconds[1] for s in own)
    steps = [(seconds, key) for s in own if not _steps_over(s) for key, seconds in s.scan.told.beats if key[0] == "s"]
    step = step_at = None
    if steps:
        seconds, key = max(steps)
        text = key.rpartition("/")[2]
        step, step_at = int(text) if text.isdigit() else None, clocks.fixed(rank, seconds)
        lasts.append(step_at)
    state = "running"
    trained = (t.total for s in own for t in s.scan.tracks if t.total and t.kind == "train")
    if own and all(not s.scan.size for s in own):
        state = "empty"
    elif any(_ENDED.search(line) for s in own if not is_plog(s.scan.name) for line in s.scan.tail) or (
        step is not None and any(step >= total for total in trained)
    ):
        state = "ended"
    return Lane(rank, tuple(own), host, state, min(starts, default=None), max(lasts, default=None), step, step_at)


def with_states(run: Run, failed: Iterable[int], waited: Iterable[int], seen: Mapping[int, float]) -> Run:
    """The run with the states that its troubles give: who failed by itself, who only waited, who fell silent.
    ``seen``: rank → the moment of its newest trouble, which may have no time of a record."""
    bad, late = set(failed), set(waited)
    lanes = dict(run.lanes)
    for rank, lane in run.lanes.items():
        if rank in seen:
            lane = lane._replace(last=max(seen[rank], lane.last if lane.last is not None else seen[rank]))
        if rank in bad:
            lanes[rank] = lane._replace(state="failed")
        elif rank in late and lane.state != "missing":
            lanes[rank] = lane._replace(state="waited")
    ends = [lane.last for lane in lanes.values() if lane.last is not None and lane.state in ("failed", "waited")]
    failing = bool(ends)
    if not failing:
        ends = sorted(lane.last for lane in lanes.values() if lane.last is not None)
        ends = ends[len(ends) // 2 :][:1]
    # where others failed, the time they had is enough; a healthy run may print slowly
    gap = max(SILENT, 0.0 if failing else SILENT_LINES * run.pace, 3 * min(run.clocks.doubt, SILENT))
    for rank, lane in lanes.items():
        if lane.state == "running" and lane.last is not None and ends and lane.last < max(ends) - gap:
            lanes[rank] = lane._replace(state="silent")
    return run._replace(lanes=lanes)
