"""Who waited for whom, as the logs say, and where the waiting ends.

HCCL names the rank that did not answer by its number in the group, by its address and card, or in a table of links; the
root of a communicator lists who never came; the scheduler names nodes whose heartbeat stopped.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from doctor.run.places import Source
from doctor.scan.lazy import lazy
from doctor.scan.scanner import Occurrence

NO_RANK = 1 << 20
"""Numbers from here on stand for "unknown" (4294967295)."""
LOOKED_AT = 12
"""Occurrences of waiting looked at in a source."""

_PEER = lazy(
    r"(?i)\bremote[ _]?rank(?: ?id)?s?\b:? {0,2}\[?(\d{1,7})\b|\bdst_?rank ?\[(\d{1,7})\]"
    r"|\bpeer[ _]?rank(?: ?id)?:? ?\[?(\d{1,7})\b|\b(?:wait(?:ing|ed)?|timed out) for (?:the )?ranks? ?\[?(\d{1,7})\b"
    r"|wait socket establish timeout, role\[\d+\] rank\[(\d{1,7})\]|\bfrom rank ?\[?(\d{1,7})\b"
    r"|\brank ?\[?(\d{1,7})\]? (?:did not|has not|is not) (?:respond|join|answer|reached?|send)"
)
_RANK = lazy(r"[Rr]ank")
_LISTED = lazy(
    r"Failed to connect agent ?\[([\d, ]{1,4000})\]|[Rr]anks? ([\d, ]{1,400}) failed to pass monitoredBarrier"
)
_NODES = lazy(r"Timed out node list is: ?(?:\[const vector\])?\{([^}]{0,4000})\}")
_NODE = lazy(r"The node: (\d{1,7}) is timed out")
_ABNORMAL = lazy(
    r"Cluster Exception Location\[IP/ID\]:\[([\w.:]{3,60})/(\d{1,4})\]"
    r"|serverId\[([\w.:]{3,60})\], ?deviceId\[(\d{1,4})\]"
    r"|: ?rank \[([^/\]]{1,60})/(\d{1,4})\] status\[(?:LOST|STUCK|[A-Z_]*CQE[A-Z_]*)\]"
)
_OWN = lazy(r"Discoverer:? ?\[([\w.:]{3,60})/(\d{1,4})\]")
_LINK = lazy(r"\|\s{0,8}([\d.]{7,15})\((\d{1,7})\)\s{0,8}\|\s{0,8}\d+\s{0,8}\|\s{0,8}([\d.]{7,15})\((\d{1,7})\)")
_ANSWERS = lazy(r"dst[_ ]?ip:? ?\[?((?:\d{1,3}\.){3}\d{1,3})")
_TRANSFER = lazy(
    r"localInfo\{server\[([^\]]{1,60})\], ?deviceId\[([^\]]{1,60})\], ?deviceIp\[([^\]]{1,60})\]\}"
    r", ?remote\w{2,8}\{server\[([^\]]{1,60})\], ?deviceId\[([^\]]{1,60})\], ?deviceIp\[([^\]]{1,60})\]\}"
    r"|Local information: server ([^\s,]{1,60}), device ID (\d{1,4}), device IP ([\d.]{7,15})\. "
    r"Peer information: server ([^\s,]{1,60}), device ID (\d{1,4}), device IP ([\d.]{7,15})"
)
"""Both ends of a transfer that broke (hicann/hccl heartbeat.cc and EI0013)"""
_GROUP = lazy(r"\branks\[(\d{1,7})\], ?group\[([^\]]{1,120})\]|\bgroup(?: ?name)?\[?:? ?\[?([\w.-]{1,120})\]?")
_WORLD_GROUPS = ("hccl_world_group", "nccl_world_group", "mccl_world_group", "world")
_EXIT = lazy(
    r"(?i)\b(?:worker|rank|trainer|process)[ _-]?#?(\d{1,6})\b[^\n]{0,40}?"
    r"\b(?:exit(?:ed|s)?|died|killed|terminated|crashed|failed)\b[^\n]{0,40}"
)
_CODE = lazy(r"(?i)(?:code|status|signal|with)[ :=]{0,3}(-?\d{1,3})\b|\bSIG(KILL|SEGV|ABRT|BUS|TERM)\b")


_CHILD = lazy(r"\blocal_rank: (\d{1,4}) \(pid: (\d{1,9})\)")
"""torchrun's word of a process that failed, numbered on its host"""


class Exit(NamedTuple):
    """A launcher's word that a process ended: its rank if that is known, and the code, None without one."""

    rank: int | None
    code: int | None
    source: Source
    seen: Occurrence


class Waits(NamedTuple):
    """``edges``: rank → the ranks it waited for, the most named first. ``blamed``: rank → how many sources that speak
    for no rank (scheduler, launcher) name it."""

    edges: dict[int, tuple[int, ...]]
    blamed: dict[int, int]
    words: dict[int, tuple[Source, Occurrence]]
    """rank → the first line that names it"""
    broken: dict[int, tuple[int, ...]]
    """rank → the ranks to which its transfers broke"""

    def named(self) -> dict[int, int]:
        """rank → how many ranks say that they waited for it."""
        out: dict[int, int] = {}
        for peers in self.edges.values():
            for peer in peers:
                out[peer] = out.get(peer, 0) + 1
        return out


def addresses(sources: Iterable[Source], tables: Iterable[Mapping[str, object]]) -> dict[tuple[str, int], int]:
    """(address or host, device) → rank, from registrations with the scheduler, rank tables and link tables; device -1
    stands for the address of a card's own port."""
    out: dict[tuple[str, int], int] = {}
    for source in sources:
        for rank, device, host, address in source.scan.told.members:
            out[host, device] = out[address, device] = rank
    for table in tables:
        servers = table.get("server_list")
        for server in servers if isinstance(servers, list) else ():
            devices = server.get("device") if isinstance(server, dict) else None
            for device in devices if isinstance(devices, list) else ():
                try:
                    rank, number = int(device["rank_id"]), int(device["device_id"])
                except (KeyError, TypeError, ValueError):
                    continue
                for name in (server.get("server_id"), server.get("host_ip"), server.get("pod_ip")):
                    if isinstance(name, str) and name:
                        out[name, number] = rank
                if isinstance(device.get("device_ip"), str):
                    out[device["device_ip"], -1] = rank
    return out


def waits_of(
    waiting: Sequence[tuple[Source, int | None, Occurrence]],
    where: Mapping[tuple[str, int], int],
    world: int,
    hosts: Sequence[tuple[str, tuple[int, ...]]] = (),
) -> Waits:
    """The edges that occurrences of waiting name. ``waiting``: (source, rank that waits, what was seen); ``hosts``:
    the ranks of each host, as far as they are known."""
    where = dict(where)
    counts: dict[int | None, dict[int, int]] = {}
    words: dict[int, tuple[Source, Occurrence]] = {}
    links: list[tuple[int | None, tuple[tuple[str, int], ...], bool, Source, Occurrence]] = []
    looked: dict[int, int] = {}
    for source, rank, seen in waiting:
        number = looked[source.order] = looked.get(source.order, 0) + 1
        if number > LOOKED_AT:
            continue
        own: dict[int, int] = {}
        text = "\n".join((seen.text, *seen.after))
        foreign = _foreign_group("\n".join((*seen.before, text)), world)
        if not foreign:
            for named in _peers(text):
                _count(own, named)
            for name in ("remote_rank", "missing"):
                for piece in seen.args.get(name, "").replace(" ", "").split(","):
                    _count(own, piece)
        for found in _LISTED.finditer(text):
            for piece in (found[1] or found[2]).replace(" ", "").split(","):
                _count(own, piece)
        for found in _LINK.finditer(text):
            where[found[1], -1] = int(found[2])
            where[found[3], -1] = int(found[4])
        for found in _ABNORMAL.finditer(text):
            groups = [g for g in found.groups() if g]
            links.append((rank, ((groups[0], int(groups[1])),), False, source, seen))
        for found in _OWN.finditer(text):
            if rank is not None:
                where.setdefault((found[1], int(found[2])), rank)
        for found in _ANSWERS.finditer(text):
            links.append((rank, ((found[1], -1),), "cqe" in text, source, seen))
        for found in _TRANSFER.finditer(text):
            said = [value for value in found.groups() if value]
            if rank is not None:
                for place in _end(*said[:3]):
                    where.setdefault(place, rank)
            links.append((rank, _end(*said[3:]), True, source, seen))
        if source.several or rank is None:
            rank = None
            for found in _NODES.finditer(text):
                for piece in found[1].replace(" ", "").split(","):
                    _count(own, piece)
            for found in _NODE.finditer(text):
                _count(own, found[1])
        mine = counts.setdefault(rank, {})
        for peer in own:
            mine[peer] = mine.get(peer, 0) + 1
            words.setdefault(peer, (source, seen))
    broken: dict[int, list[int]] = {}
    where.update(_left_over({place for _, places, *_ in links for place in places}, where, world, hosts))
    for rank, places, transfer, source, seen in links:
        peer_ = next((where[place] for place in places if place in where), None)
        if peer_ is None:
            peer_ = next((near for place in places if (near := _beside(place, where)) is not None), None)
        if peer_ is not None:
            if transfer and rank is not None and peer_ != rank and peer_ not in broken.setdefault(rank, []):
                broken[rank].append(peer_)
            mine = counts.setdefault(rank, {})
            # the heartbeat of HCCL watches all ranks and names the first; a notify names a neighbour
            mine[peer_] = mine.get(peer_, 0) + 3
            words.setdefault(peer_, (source, seen))
    limit = world or NO_RANK
    edges = {}
    for rank, mine in counts.items():
        peers = [p for p in sorted(mine, key=lambda p: (-mine[p], p)) if p != rank and p < limit]
        if rank is not None and peers:
            edges[rank] = tuple(peers)
    blamed = {p: n for p, n in counts.get(None, {}).items() if p < limit}
    return Waits(edges, blamed, words, {rank: tuple(peers) for rank, peers in broken.items()})


def _end(server: str, device: str, address: str) -> tuple[tuple[str, int], ...]:
    """The names of one end of a transfer: the address of its port, and its card."""
    return ((address, -1), (server, int(device))) if device.isdigit() else ((address, -1),)


def _beside(place: tuple[str, int], where: Mapping[tuple[str, int], int]) -> int | None:
    """The rank of a card that nobody names, by the other cards of its host: ranks of a host follow its cards."""
    if place[1] < 0:
        return None
    shifts = {rank - device for (host, device), rank in where.items() if host == place[0] and device >= 0}
    return next(iter(shifts)) + place[1] if len(shifts) == 1 else None


def _left_over(
    named: Iterable[tuple[str, int]],
    where: Mapping[tuple[str, int], int],
    world: int,
    hosts: Sequence[tuple[str, tuple[int, ...]]],
) -> dict[tuple[str, int], int]:
    """The places on the one host of which no rank speaks. Where hosts are not known its ranks are those that are left
    when each other host has as many, one behind the other."""
    first: dict[str, set[int]] = {}
    cards = 0
    for (host, device), rank in where.items():
        if device >= 0:
            first.setdefault(host, set()).add(rank - device)
            cards = max(cards, device + 1)
    unknown = sorted({(host, device) for host, device in named if device >= 0 and host not in first})
    spoken = set(where.values())
    silent = [ranks for host, ranks in hosts if host and spoken.isdisjoint(ranks)]
    if len({host for host, _ in unknown}) == 1 and len(silent) == 1:
        ranks = sorted(silent[0])
        return {(host, device): ranks[device] for host, device in unknown if device < len(ranks)}
    if len({host for host, _ in unknown}) != 1:
        return {}
    starts = {next(iter(shifts)) for shifts in first.values() if len(shifts) == 1}
    # not all cards are named; servers have eight or sixteen
    for size in sorted(size for size in {cards, 8, 16} if cards <= size and starts):
        left = [start for start in range(0, world, size or 1) if start not in starts]
        if size and world % size == 0 and len(left) == 1 and all(start % size == 0 for start in starts):
            return {(host, device): left[0] + device for host, device in unknown if device < size}
    return {}


def _peers(text: str) -> list[str]:
    """The ranks that a text says were waited for. Only what stands around the word is looked at: messages are long."""
    out: dict[int, str] = {}
    for word in _RANK.finditer(text):
        start = max(0, word.start() - 48)
        for found in _PEER.finditer(text, start, word.end() + 32):
            out[found.start()] = next(g for g in found.groups() if g)
    return list(out.values())


def _count(own: dict[int, int], number: str) -> None:
    if number.isdigit() and int(number) < NO_RANK:
        own[int(number)] = own.get(int(number), 0) + 1


def _foreign_group(text: str, world: int) -> bool:
    """Whether a text speaks of another group than the whole run: its rank numbers are its own then."""
    for found in _GROUP.finditer(text):
        name = found[2] or found[3] or ""
        if found[1] and world and int(found[1]) == world:
            return False
        if name in _WORLD_GROUPS:
            return False
        if found[2]:
            return True
    return False


_SIGNALS = {"KILL": -9, "SEGV": -11, "ABRT": -6, "BUS": -7, "TERM": -15}


def exit_of(occurrence: Occurrence, by_pid: Mapping[int, int]) -> tuple[int | None, int | None]:
    """(rank, code) of a launcher's word that a process ended: by its pid, or by its number; a shell's 137 is -9."""
    text, pid = occurrence.text, occurrence.args.get("pid", "")
    child = _CHILD.search(text)
    if child:
        pid = child[2]
    rank = by_pid.get(int(pid)) if pid.isdigit() else None
    found = None if child else _EXIT.search(text)
    if rank is None and found and not (pid and found[1] == pid):
        rank = int(found[1])
    code = _CODE.search(text)
    if code is None:
        return rank, None
    number = int(code[1]) if code[1] else _SIGNALS[code[2]]
    return rank, 128 - number if number > 128 else -9 if number == 9 else number


def pid_of(text: str) -> int:
    """The number of a process that its launcher says has failed, -1 if it says none."""
    child = _CHILD.search(text)
    return int(child[2]) if child else -1


def children_of(text: str, ranks: Sequence[int]) -> tuple[int, int] | None:
    """(pid, rank) of a process that its launcher numbers among those of its host, whose ``ranks`` are given."""
    child = _CHILD.search(text)
    return (int(child[2]), sorted(ranks)[int(child[1])]) if child and int(child[1]) < len(ranks) else None


def exits_of(seen: Iterable[tuple[Source, Occurrence]], by_pid: Mapping[int, int]) -> list[Exit]:
    """What launchers and schedulers say of processes that ended, in their order."""
    found = [(exit_of(occurrence, by_pid), source, occurrence) for source, occurrence in seen]
    return [Exit(rank, code, source, o) for (rank, code), source, o in found if rank is not None]


def ends_of(waits: Waits, stop: Iterable[int] = ()) -> tuple[dict[int, int], list[tuple[tuple[int, ...], bool]]]:
    """(rank → number of ranks whose waiting ends at it, chains with whether each is a cycle). A chain goes on from a
    rank to the one it waited for; it ends at a rank of ``stop``, which failed by itself, or one that names nobody.
    Where it ends nowhere, it ends at the rank that most of the others named, although that one named others as well."""
    stops = set(stop)
    votes, chains = _ends_of(waits, stops)
    hub = _hub(waits, votes) if any(cycle for _, cycle in chains) or stops.isdisjoint(votes) else None
    return (votes, chains) if hub is None else _ends_of(waits, {*stops, hub})


def _hub(waits: Waits, votes: Mapping[int, int]) -> int | None:
    """The rank that waited as well, but that most of the others named: where the chains end nowhere, or where it and
    several of them waited for each other, as when all links of one rank are bad."""
    named = waits.named()
    most = max(named, key=lambda rank: (named[rank], -rank), default=-1)
    others = sum(1 for rank in waits.edges if rank != most)
    second = max((n for rank, n in named.items() if rank != most), default=0)
    if most not in waits.edges or others < 4 or named[most] * 2 <= others or named[most] < 2 * second:
        return None
    peers = waits.edges[most]
    mutual = sum(1 for peer in peers if most in waits.edges.get(peer, ()))
    return most if mutual > 1 or (mutual and len(peers) > 2) or sum(votes.values()) * 2 <= others else None


def _ends_of(waits: Waits, stops: set[int]) -> tuple[dict[int, int], list[tuple[tuple[int, ...], bool]]]:
    def ahead(rank: int) -> int | None:
        if rank in stops or rank not in waits.edges:
            return None
        peers = waits.edges[rank]
        # a rank that failed, or that waits for nobody, tells more than one that waits as well
        return next((p for p in peers if p in stops), next((p for p in peers if p not in waits.edges), peers[0]))

    next_of = {rank: ahead(rank) for rank in waits.edges}
    end_of: dict[int, int | None] = {}
    cycles: set[tuple[int, ...]] = set()
    for rank in sorted(next_of):
        path: list[int] = []
        on_path: set[int] = set()
        at: int | None = rank
        end: int | None = None
        while at is not None:
            if at in end_of:
                end = end_of[at]
                break
            if at in on_path:
                ring = path[path.index(at) :]
                turn = ring.index(min(ring))
                cycles.add((*ring[turn:], *ring[:turn], min(ring)))
                break
            path.append(at)
            on_path.add(at)
            end, at = at, next_of.get(at)
        else:
            end_of.update(dict.fromkeys(path, end))
            continue
        end_of.update(dict.fromkeys(path, end if end is not None and end not in on_path else None))
    votes: dict[int, int] = {}
    for rank in next_of:
        last = end_of.get(rank)
        if last is not None and last != rank:
            votes[last] = votes.get(last, 0) + 1
    for rank, count in waits.blamed.items():
        votes[rank] = votes.get(rank, 0) + min(count, 1)
    waited_for = {peer for peer in next_of.values() if peer is not None}
    chains: list[tuple[tuple[int, ...], bool]] = [(ring, True) for ring in sorted(cycles)]
    in_cycles = {rank for ring in cycles for rank in ring}
    for rank in sorted(set(next_of) - waited_for):
        path = [rank]
        while (following := next_of.get(path[-1])) is not None and following not in in_cycles:
            path.append(following)
        if len(path) > 1:
            chains.append((tuple(path), False))
    return votes, sorted(chains, key=lambda one: (not one[1], -len(one[0]), one[0]))
