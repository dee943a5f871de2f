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
OPENING_LINES = 12
"""Lines at the beginning of a source among which two are taken by which a new start is known."""
OPENING_REACH = 4096
"""Bytes within which the second of them follows the first."""
STARTS = 16
"""Times that a process is started again at most: words that stand there more often are those of everyday lines."""
_WORDS_OF = lazy_bytes(rb"[^\d\x00-\x1f]{24,160}")
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
    again: tuple[int, float | None] = (0, None)
    """line and time of the newest place where the source begins once more, as one does to which a process writes that
    was started again; (0, None) without one"""


class Opening:
    """The words of two of the first lines of a source, looked for in all that follows."""

    def __init__(self) -> None:
        self._words: tuple[bytes, bytes] | None = None
        self._met = 0
        self.again: tuple[int, float | None] = (0, None)

    def take(self, chunk: bytes, lines: int, *, first: bool) -> None:
        """``lines``: those before the chunk; ``first``: the source begins with it."""
        start = 0
        if first:
            self._words = _opening(chunk)
            if self._words:
                start = chunk.find(self._words[1], chunk.find(self._words[0])) + 1
        if self._words is None or chunk.find(self._words[0], start) < 0:
            return
        one, other = self._words
        self._met += chunk.count(one, start)
        if self._met > STARTS:
            self._words, self.again = None, (0, None)
            return
        at = len(chunk)
        for _ in range(OPENING_LINES):
            at = chunk.rfind(one, start, at)
            if at < 0:
                return
            if chunk.find(other, at, at + OPENING_REACH) > 0 or chunk.count(b"\n", at) < 3:
                break  # of a log that ends there only the first line may be left
        else:
            return
        begin = chunk.rfind(b"\n", 0, at) + 1
        seconds = None
        for raw in chunk[begin : begin + OPENING_REACH].split(b"\n")[:-1]:
            record = records.head_of(records.read_line(raw).text)
            if record is not None and record.seconds is not None:
                seconds = record.seconds
                break
        self.again = (lines + chunk.count(b"\n", 0, begin) + 1, seconds)


def _opening(head: bytes) -> tuple[bytes, bytes] | None:
    """The words of two different first lines, without numbers, that tell of no step and no failure."""
    words: list[bytes] = []
    for raw in head[: OPENING_REACH * 4].split(b"\n")[:OPENING_LINES]:
        text = records.visible(raw)
        if records.is_step(text) or records.is_traceback(text) or b"rror" in raw or b"ERROR" in raw:
            continue
        found = max(_WORDS_OF.findall(raw), key=len, default=b"")
        if found and found not in words:
            words.append(found)
    return (words[0], words[1]) if len(words) > 1 else None


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
        if record is None or record.seconds is None or record.level in ("ERROR", "CRITICAL"):
            # a process that prints no times meets its first one when it fails, each at its own moment
            continue
        words = text.encode("utf-8", "replace")[:200].translate(None, b"0123456789abcdef")
        beats.setdefault(f"m{zlib.crc32(words):08x}", record.seconds)
    if b"HcclCommInit" in head:
        for found in _INIT.finditer(head):
            start = head.rfind(b"\n", 0, found.start()) + 1
            record = records.head_of(records.read_line(head[start : found.end()]).text)
            if record is not None and record.seconds is not None:
                beats.setdefault(f"i{int(found[1])}", record.seconds)
