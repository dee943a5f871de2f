"""What a log tells of its place in a run: how many ranks there are, which host it is on, and when it passed events that
all ranks pass together.

Only the beginning and the end of a source are looked at, so that the cost does not grow with it.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from doctor.scan import records
from doctor.scan.lazy import lazy_bytes
from doctor.scan.series import Steps

STEPS = 24
"""Training lines taken at the beginning of a source, and as many at its end."""
REACH = 192 << 10
"""Bytes of the end in which training lines are looked for."""
MARKS = 40
"""Records at the beginning whose kind and time are kept."""
MEMBERS = 4096

_WORLD = (
    # texts in lower case of which one is there, and the pattern;
    # worded by launchers and the scheduler; then by variables; then by HCCL, whose largest group is the world
    ((b"--worker_num",), lazy_bytes(rb"--worker_num[= ]{1,3}(\d{1,6})\b")),
    ((b"expected node number",), lazy_bytes(rb"expected node number: (\d{1,6})\b")),
    ((b"rank_size", b"ms_worker_num", b"world_size"),
     lazy_bytes(rb"\b(?:RANK_SIZE|MS_WORKER_NUM|WORLD_SIZE)\b['\"\]]?\s{0,3}[=:]\s{0,3}['\"]?(\d{1,6})\b")),
    ((b"rank_size", b"world_size", b"rank size", b"world size"),
     lazy_bytes(rb"(?i)\b(?:world|rank)[_ ]size\b['\"]?\s{0,3}(?:is|=|:)\s{0,3}\[?(\d{1,6})\b")),
)  # fmt: skip
_COMM = lazy_bytes(
    rb"HcclCommInit\w{0,40}[:( ]{0,2}(?:success[^\n]{0,60}?)?[^\n]{0,40}?rank(?:s|Num)\[(\d{1,6})\], ?rank\[(\d{1,6})\]"
)
_MEMBER = lazy_bytes(
    rb"rank id: ?(\d{1,6}), device id: ?(\d{1,4}), hostname: ?([\w.-]{1,100}), ip: ?([\da-fA-F.:]{3,45}) is registered"
)
_OWN = lazy_bytes(rb"Connection \d{1,6} source: ([\d.]{7,15}):\d")
_INIT = lazy_bytes(rb"HcclCommInit\w{0,40} success[^\n]{0,60}?rankNum\[(\d{1,6})\]")


class Told(NamedTuple):
    """``world``: number of ranks, 0 if it is not said. ``members``: (rank, device, host, address) of registered ranks.
    ``address``: that of the own host. ``beats``: (event, seconds) of training steps ``s<epoch>/<step>``, of
    communicators made ``i<ranks>`` and of the first records ``m<kind>``."""

    world: int = 0
    rank: int | None = None
    members: tuple[tuple[int, int, str, str], ...] = ()
    address: str = ""
    beats: tuple[tuple[str, float], ...] = ()


def told(head: bytes, tail: bytes, *, whole: bool) -> Told:
    """What the beginning and the end of a source tell. ``whole``: both are the same bytes."""
    world, rank = _world(head)
    steps = Steps()
    beats: dict[str, float] = {}
    for line in _training(head, forward=True):
        _beat(line, beats, steps)
    ends: dict[str, float] = {}
    for line in () if whole and len(beats) < STEPS else _training(tail, forward=False):
        _beat(line, ends, steps)
    # a run that was started again passes its steps twice: the last time counts
    beats.update(ends)
    _marks(head, beats)
    members = []
    for part in (head,) if whole else (head, tail):
        if b"is registered" in part:
            for found in _MEMBER.finditer(part):
                members.append((int(found[1]), int(found[2]), found[3].decode(), found[4].decode()))
    own = _OWN.search(head) if b" source: " in head else None
    address = own[1].decode() if own and not own[1].startswith((b"127.", b"0.")) else ""
    return Told(world, rank, tuple(dict.fromkeys(members[:MEMBERS])), address, tuple(beats.items()))


def _world(head: bytes) -> tuple[int, int | None]:
    """(number of ranks, own rank) as the source says; HCCL's largest group is the world."""
    largest, rank = 0, None
    if b"HcclCommInit" in head:
        for found in _COMM.finditer(head):
            if int(found[1]) > largest:
                largest, rank = int(found[1]), int(found[2])
    low = head.lower()
    for hints, pattern in _WORLD:
        found_ = pattern.search(head) if any(hint in low for hint in hints) else None
        if found_ and 0 < int(found_[1]) <= 1 << 17:
            return max(int(found_[1]), largest), rank
    return largest, rank


def _training(data: bytes, *, forward: bool) -> Iterator[bytes]:
    """The first or last training lines of some bytes."""
    find: Callable[..., int] = data.find if forward else data.rfind
    at = 0 if forward else len(data)
    floor = max(0, len(data) - REACH)
    for _ in range(4 * STEPS):
        found = find(b"oss", at) if forward else find(b"oss", floor, at)
        if found < 0:
            return
        start = data.rfind(b"\n", 0, found) + 1
        stop = data.find(b"\n", found)
        stop = len(data) if stop < 0 else stop
        line = data[start : min(stop, start + records.MAX_LINE)]
        if records.is_step(records.visible(line)):
            yield line
        at = stop if forward else start


def _beat(line: bytes, beats: dict[str, float], steps: Steps) -> None:
    """The step of a training line and its time, if it has both and speaks for its own rank."""
    if len(beats) >= STEPS:
        return
    stripped = records.read_line(line)
    head = records.head_of(stripped.text)
    if head is None or head.seconds is None or stripped.rank is not None:
        return
    own = steps.of(line)
    if "step" in own:
        # lines come from the end inwards as well: what was seen first is the outermost
        beats.setdefault(f"s{own.get('epoch', b'').decode()}/{own['step'].decode()}", head.seconds)


def _marks(head: bytes, beats: dict[str, float]) -> None:
    """The first records, by their words without numbers, and the communicators made."""
    for raw in head[:16384].split(b"\n")[:MARKS]:
        text = records.read_line(raw).text
        record = records.head_of(text)
        if record is None or record.seconds is None:
            continue
        words = text.encode("utf-8", "replace")[:200].translate(None, b"0123456789abcdef")
        beats.setdefault(f"m{zlib.crc32(words):08x}", record.seconds)
    if b"HcclCommInit" in head:
        for found in _INIT.finditer(head):
            start = head.rfind(b"\n", 0, found.start()) + 1
            record = records.head_of(records.read_line(head[start : found.end()]).text)
            if record is not None and record.seconds is not None:
                beats.setdefault(f"i{int(found[1])}", record.seconds)
