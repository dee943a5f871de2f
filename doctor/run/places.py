"""Which rank and which host a source belongs to."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from doctor.scan.inputs import natural_key
from doctor.scan.lazy import lazy
from doctor.scan.records import rank_in_name
from doctor.scan.scanner import Scanned

_PLOG_PID = lazy(r"(?:plog|device)-(\d+)_\d+")
_SEVERAL = lazy(
    r"(?i)(?:^|/)(?:scheduler|launcher|msrun|launch|torchrun|controller|master|nohup)[^/]*\.(?:log|out|txt)$"
)
_NO_HOST = lazy(
    r"(?i)^(?:.*[_-]?logs?|msrun.*|output|out|ascend|debug|run|plog|security|device-\d+|rank[_-]?\d+|worker[_-]?\d+"
    r"|info|error|proc(?:ess)?[_-]?\d+|\.{1,2}|~|)$"
)
_HOST = lazy(
    r"(?i)^(?:(?:node|host|server|machine|worker-?node|pod|npu|ascend|compute|cn|gpu|job)[\w.-]*\d[\w.-]*"
    r"|(?:\d{1,3}[._-]){3}\d{1,3})$"
)


class Source(NamedTuple):
    """A scanned source with what its name and its neighbours say of it. ``host``: None if nothing tells."""

    scan: Scanned
    order: int
    rank: int | None
    host: str | None
    file: int = -1
    """the order of the file: lines of all ranks in one file follow each other"""

    @property
    def several(self) -> bool:
        """Whether it speaks of other processes, as a scheduler or launcher does."""
        return self.scan.split != "rank" and speaks_for_several(self.scan.name)


def is_plog(name: str) -> bool:
    """Whether a file is one of CANN's, named after a process."""
    return _PLOG_PID.search(name) is not None


def speaks_for_several(name: str) -> bool:
    """Whether a file is named as that of a scheduler or launcher, which speaks of other processes."""
    return _SEVERAL.search(name) is not None


def place_sources(scans: Sequence[Scanned]) -> list[Source]:
    """Give each source its rank (what it says itself, its name, or the rank of the worker with the same pid) and its
    host (a folder named like one, or the folder in which the sources part)."""
    hosts = _hosts([scan.name for scan in scans])
    ranks: list[int | None] = []
    for scan in scans:
        named = rank_in_name(scan.name)
        rank = scan.rank if scan.rank is not None and (named is None or scan.rank != named) else named
        ranks.append(scan.rank if scan.split else None if _PLOG_PID.search(scan.name) else rank)
    ranks = _numbered_on(scans, ranks, hosts)
    by_pid: dict[int, list[tuple[str, int]]] = {}
    for scan, rank in zip(scans, ranks, strict=True):
        if rank is not None:
            for pid in scan.pids[:4]:
                by_pid.setdefault(pid, []).append((scan.name, rank))
    out: list[Source] = []
    file = 0
    for order, (scan, rank, host) in enumerate(zip(scans, ranks, hosts, strict=True)):
        file = file if scan.split == "rank" and order else order
        if rank is None and not scan.split:
            found = _PLOG_PID.search(scan.name)
            pids: Iterable[int] = [int(found[1])] if found else ([] if "scheduler" in scan.name else scan.pids[:2])
            rank = next((_nearest(scan.name, by_pid[p]) for p in pids if p in by_pid), None)
            if found and rank is None:
                # no worker log beside it: its folder, or what HCCL wrote into it
                rank = rank_in_name(scan.name.rpartition("/")[0] + "/")
                rank = scan.told.rank if rank is None else rank
            elif not found and len(scan.pids) != 1:
                rank = None
        out.append(Source(scan, order, rank, host, file))
    return out


def _numbered_on(scans: Sequence[Scanned], ranks: list[int | None], hosts: Sequence[str | None]) -> list[int | None]:
    """Ranks of logs that each host numbers from 0: hosts of equal size follow each other in the order of their names.
    Only where folders are named like hosts and no log says its own rank."""
    own: dict[str, set[int]] = {}
    for scan, rank, host in zip(scans, ranks, hosts, strict=True):
        if rank is not None:
            if host is None or not _HOST.match(host) or scan.rank is not None:
                return ranks
            own.setdefault(host, set()).add(rank)
    sizes = {len(numbers) for numbers in own.values()}
    if len(own) < 2 or len(sizes) != 1 or any(numbers != set(range(len(numbers))) for numbers in own.values()):
        return ranks
    first = {host: n * max(sizes) for n, host in enumerate(sorted(own, key=natural_key))}
    return [
        None if rank is None or host is None else first[host] + rank for rank, host in zip(ranks, hosts, strict=True)
    ]


def _nearest(name: str, owners: Sequence[tuple[str, int]]) -> int:
    """Of processes with one number on several hosts, the rank of the one whose log lies nearest."""
    if len(owners) == 1:
        return owners[0][1]
    parts = name.split("/")

    def shared(other: str) -> int:
        return next((n for n, (a, b) in enumerate(zip(parts, other.split("/"), strict=False)) if a != b), 0)

    return max(owners, key=lambda owner: shared(owner[0]))[1]


_PROFILE = lazy(r"_\d{1,10}_\d{8,20}_ascend_(?:ms|pt)$")
"""What the profiler puts behind the name of the host: the process and the time."""


def _hosts(names: Sequence[str]) -> list[str | None]:
    """The host that a folder in each name speaks of: one named like a host, else the first in which names differ and
    that is no usual folder of logs."""
    folders = [[_PROFILE.sub("", part) for part in name.replace("!", "/").split("/")[:-1]] for name in names]
    out: list[str | None] = []
    seen: dict[int, set[str]] = {}
    for parts in folders:
        for depth, part in enumerate(parts):
            seen.setdefault(depth, set()).add(part)
    for parts in folders:
        host = next((p for d, p in enumerate(parts) if len(seen[d]) > 1 and _HOST.match(p)), None)
        if host is None:
            host = next((p for d, p in enumerate(parts) if len(seen[d]) > 1 and not _NO_HOST.match(p)), None)
        out.append(host)
    return out
