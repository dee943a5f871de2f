"""Which rank and which host a source belongs to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from doctor.scan.inputs import natural_key
from doctor.scan.lazy import lazy
from doctor.scan.records import rank_in_name
from doctor.scan.scanner import Scanned

_PLOG_PID = lazy(r"(?:plog|device)-(\d+)_\d+")
_SEVERAL = lazy(
    r"(?i)(?:^|/)(?:scheduler|launcher|msrun|launch|torchrun|controller|master|nohup|modelarts-job-[^/]*-worker-)[^/]*"
    r"\.(?:log|out|txt)$"
)
_ATTEMPT = lazy(r"^(?P<job>(?:.*/)?)(?P<run>[^/]+)/attempt_(?P<n>\d{1,4})/(?P<local>\d{1,4})/(?:stdout|stderr)\.log")
"""Where torchrun puts what its processes print: each host numbers them from 0."""
_ON_HOST = lazy(
    r"(?i)^(?P<before>.*(?:node|host|server|machine|worker|pod|master|npu|rank|bms)[-_.]?)(?P<n>\d{1,4})"
    r"(?P<after>\D*)$"
)
"""The name of a file, or of its folder, that holds the lines of one host's processes"""
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
    past: bool = False
    """of an attempt after which the launcher started the processes again"""

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
    past = _local_ranks(scans, ranks, hosts)
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
        out.append(Source(scan, order, rank, host, file, order in past))
    started = {
        source.rank: source.scan.told.again[1]
        for source in out
        if source.rank is not None and source.scan.told.again[1] is not None
    }
    # CANN begins a file for each process
    return [
        source._replace(past=True)
        if source.rank in started and is_plog(source.scan.name) and _ended_before(source, started[source.rank])
        else source
        for source in out
    ]


def _ended_before(source: Source, seconds: float | None) -> bool:
    last = source.scan.seconds[1]
    return last is not None and seconds is not None and last < seconds


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


def _local_ranks(scans: Sequence[Scanned], ranks: list[int | None], hosts: list[str | None]) -> set[int]:
    """Set the ranks of processes that each host numbers from 0: in torchrun's folders, and in files with the lines of
    all processes of a host (``[default3]:``). A global number in a log (``RankID:11``) tells which host is which;
    else hosts of equal size follow each other in the order of their names. Answers with the sources of attempts
    after which the launcher started the processes again."""
    processes: dict[str, dict[int, int]] = {}
    attempts: dict[str, dict[int, int]] = {}
    for order, scan in enumerate(scans):
        if found := _ATTEMPT.match(scan.name):
            processes.setdefault(found["job"], {})[order] = int(found["local"])
            attempts.setdefault(found["job"], {})[order] = int(found["n"])
    past: set[int] = set()
    for own in attempts.values():
        newest = max(own.values())
        past.update(order for order, n in own.items() if n < newest)
    processes = processes or _files_of_hosts(scans)
    local = attempts or len({frozenset(own.values()) for own in processes.values()}) == 1
    first = _first_ranks(scans, processes) if local else {}
    for host, own in processes.items():
        for order, number in own.items():
            if local:
                ranks[order] = first[host] + number if host in first else None
            if hosts[order] is None and len(processes) > 1:
                hosts[order] = host.rstrip("/").rpartition("/")[2]
    for order, scan in enumerate(scans):
        # what the launcher writes into the file of its processes
        if scan.split == "rest" and scan.name in processes and hosts[order] is None:
            hosts[order] = scan.name.rpartition("/")[2]
    return past


def _files_of_hosts(scans: Sequence[Scanned]) -> dict[str, dict[int, int]]:
    """file → order → number of the process, of files named after hosts that hold the same numbers; none if there are
    no two."""
    named: dict[str, dict[int, int]] = {}
    for order, scan in enumerate(scans):
        if scan.split == "rank" and scan.rank is not None:
            named.setdefault(scan.name, {})[order] = scan.rank
    stems = set()
    for name in named:
        parts = [part for part in name.rsplit("/", 2) if _ON_HOST.match(part)]
        found = _ON_HOST.match(parts[-1]) if parts else None
        if found is None:
            return {}
        stems.add(name.replace(parts[-1], found["before"] + found["after"]))
    return named if len(named) > 1 and len(stems) == 1 else {}


def _first_ranks(scans: Sequence[Scanned], processes: Mapping[str, Mapping[int, int]]) -> dict[str, int]:
    """host → rank of its process 0, as far as it can be told."""
    said: dict[str, int] = {}
    for host, own in processes.items():
        shifts: dict[int, int] = {}
        for order, local in own.items():
            for seen in (*scans[order].occurrences, *scans[order].errors):
                if seen.rank is not None and seen.rank >= local:
                    shifts[seen.rank - local] = shifts.get(seen.rank - local, 0) + 1
        if shifts:
            said[host] = max(shifts, key=lambda shift: shifts[shift])
    sizes = {max(own.values()) + 1 for own in processes.values()}
    counted = {host: n * max(sizes) for n, host in enumerate(sorted(processes, key=natural_key))}
    if len(sizes) == 1 and all(counted[host] == first for host, first in said.items()):
        return counted
    return said if len(set(said.values())) == len(said) else {}


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
