"""Failed allocations: exhausted, fragmented, held by events, occupied, larger than the card, leaked; with the sum.

The order of the tests is the order of the functions' conditions in ``kind_of``; the first that holds is the answer.
"""

from collections.abc import Sequence
from itertools import pairwise

from doctor.model import Seen, Shortage

MB = 1 << 20
GB = 1 << 30


def size(count: float) -> str:
    """Bytes for people, in powers of 1024.

    >>> size(33100113920), size(536870912), size(4096)
    ('30.83 GiB', '512 MiB', '4096 B')
    """
    if count >= GB:
        return f"{count / GB:.2f} GiB"
    return f"{count / MB:.0f} MiB" if count >= MB else f"{int(count)} B"


def limit_of(s: Shortage) -> int:
    """What the pool may take: as printed; else what it had taken when it got no more."""
    return s.limit or s.allocated


def kind_of(s: Shortage) -> str:
    """exhausted · fragmented · events · occupied · too_large · graph · refused · host · kv, empty if the numbers do not
    tell."""
    if s.host:
        return "host"
    if s.kv:
        return "kv"
    if s.reserve:
        return "" if s.total and s.free >= 0.9 * s.total else "occupied"
    limit = limit_of(s)
    if s.size <= 0:
        return ""
    if s.whole:
        return "graph" if limit and (s.static or s.used) + s.size > limit else ""
    if s.size > max(limit, s.total) > 0:
        return "too_large"
    if not limit:
        return ""
    if not s.used and not s.idle and s.actual and s.peak:
        # only the peaks of the run: what was used at the failure is at most the peak
        return "fragmented" if s.peak + s.size <= limit and s.actual - s.peak >= s.size else ""
    if not s.used and not s.allocated:
        return ""
    if s.used + s.size > limit:
        return "exhausted"
    if s.used + s.event + s.size > limit:
        return "events"
    if s.allocated and s.size <= limit - s.allocated:
        return "refused"
    return "fragmented" if s.allocated or s.idle >= s.size else ""


def _args(s: Shortage) -> dict[str, str]:
    limit = limit_of(s)
    args = {"size": size(s.size), "limit": size(limit)}
    for name in ("used", "event", "idle", "allocated", "largest", "total", "free"):
        value = getattr(s, name)
        if value:
            args[name] = size(value)
    if s.op:
        args["op"] = s.op
    if s.device is not None:
        args["device"] = str(s.device)
    return args


def _answers(found: Sequence[Shortage], kind: str) -> list[tuple[int, Shortage]]:
    """The failures of a kind; only the first failure of a source is a cause, the others follow from it."""
    told = [(n, s) for n, s in enumerate(found) if kind_of(s)]
    return [(n, s) for n, s in told[:1] if kind_of(s) == kind]


def too_large(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """One request is larger than all the pool may ever take."""
    return [Seen(n, {**_args(s), "times": f"{s.size / max(limit_of(s), s.total):.1f}"})
            for n, s in _answers(found, "too_large")]  # fmt: skip


def exhausted(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """What is used and what was asked exceed the limit."""
    out = []
    for n, s in _answers(found, "exhausted"):
        limit = limit_of(s)
        args = _args(s)
        args["missing"] = size(s.used + s.size - limit)
        args["percent"] = f"{100 * (s.used + s.size - limit) / limit:.0f}"
        if s.total > limit + 6 * GB:
            args["room"] = size(s.total - limit)
            args["new"] = f"{(s.total - 6 * GB) // GB}GB"
        out.append(Seen(n, args))
    return out


def graph(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """A graph asked for all its memory at once, beside the weights, and that exceeds the limit."""
    out = []
    for n, s in _answers(found, "graph"):
        limit, beside = limit_of(s), s.static or s.used
        args = {**_args(s), "missing": size(beside + s.size - limit), "all": size(beside + s.size)}
        if beside:
            args["static"] = size(beside)
        out.append(Seen(n, args))
    return out


def no_cache(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """A server has no memory left for its KV cache."""
    out = []
    for n, s in _answers(found, "kv"):
        args = {}
        if s.weights:
            args["weights"] = size(s.weights)
        if s.total:
            args["total"] = size(s.total)
        if s.weights and s.total:
            args["percent"] = f"{100 * s.weights / s.total:.0f}"
        if s.room is not None and s.room < 0:
            args["missing"] = size(-s.room)
        out.append(Seen(n, args))
    return out


def held_by_events(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """Without the memory that waits for other streams the request would have fitted."""
    return [Seen(n, _args(s)) for n, s in _answers(found, "events")]


def fragmented(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """Enough is idle in all, but not in one piece."""
    out = []
    for n, s in _answers(found, "fragmented"):
        args = _args(s)
        used, taken = (s.used, s.allocated) if s.used or s.idle else (s.peak, s.actual)
        idle = s.idle or max(0, taken - used)
        args.update(idle=size(idle), used=size(used))
        if taken:
            args["percent"] = f"{100 * idle / taken:.0f}"
        out.append(Seen(n, args))
    return out


def occupied(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """The pool could not even be reserved: the card's memory is somebody else's."""
    out = []
    for n, s in _answers(found, "occupied"):
        args = _args(s)
        if s.total:
            args["percent"] = f"{100 * s.free / s.total:.0f}"
            args["taken"] = size(s.total - s.free)
        if not s.size:
            del args["size"]
        out.append(Seen(n, args))
    return out


def refused(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """The pool may still grow by its limit, yet the card gives nothing more."""
    out = []
    for n, s in _answers(found, "refused"):
        args = {**_args(s), "left": size(limit_of(s) - s.allocated), "new": f"{s.allocated // GB}GB"}
        out.append(Seen(n, args))
    return out


def leaked(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """The memory in use grows from one statistics line to the next, to the end."""
    used = [value for _, value in history]
    if len(used) < 8:
        return []
    # the first lines are the run's start: weights and first activations are allocated there
    steady = used[len(used) // 4 :]
    rises = sum(b > a for a, b in pairwise(steady))
    first, last, middle = steady[0], steady[-1], steady[len(steady) // 2]
    if rises < 0.8 * (len(steady) - 1) or last - first < max(0.1 * first, 256 * MB):
        return []
    if not 0.25 * (last - first) < last - middle < 0.75 * (last - first):
        return []
    per = (last - first) / (len(steady) - 1)
    args = {"first": size(first), "last": size(last), "count": str(len(steady)), "per": size(per)}
    return [Seen(-1, {**args, "line": str(history[-1][0])})]


def host(found: Sequence[Shortage], history: Sequence[tuple[int, int]]) -> list[Seen]:
    """The kernel killed processes for lack of host memory."""
    killed = [(n, s) for n, s in enumerate(found) if s.host]
    if not killed:
        return []
    n, s = max(killed, key=lambda pair: pair[1].size)
    args = {"name": s.op, "pid": str(s.pid), "size": size(s.size), "count": str(len(killed)),
            "all": size(sum(k.size for _, k in killed))}  # fmt: skip
    if s.cap:
        args["cap"] = size(s.cap)
    return [Seen(n, args)]
