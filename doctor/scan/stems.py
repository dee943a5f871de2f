"""A few short texts instead of thousands of long ones: what Hyperscan looks for in place of the anchors.

Hyperscan is fast while few of its literals nearly match: 5,000 of them let through something at every tenth byte. So
it looks for *stems*, texts of six bytes of which every anchor holds one, and what it finds is compared with the few
anchors of that stem. ``choose`` takes as few stems as it can, none of them of healthy lines.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from doctor.scan.anchors import FOLDED, LONGEST, REGEX, WIDTH, typical

PLAIN = """
 abstract active alive application argument ascend async attribute available backend bandwidth basic batch between
 block branch bucket build building built cache calculation capture check checkpoint class clear cluster collected
 collective command comment commmanager communication compiling component compute computing config configuration
 connect connection connected const construct constructing context continue control convert core correct count create
 created current currently custom data dataset default deprecated destroyed destination detected device different
 directory distribution driver dummy duration enable enabled engine enough environment environmental epoch evaluation
 event examples execute executed execution exit export exported feature fetch file files final finalize find finish
 finished flashattention format formats found framework from function future generate generated generation get global
 graph group handle handler handling hardware hash heartbeat host hostname http identifier import info initialize
 initialized initializing inner input install installed instance instead interface items kernel launch launcher
 learning level library limit link linux list listen load loaded loading local logging main master mask mean memory
 message meta method metrics mindformers mindspore minute mode model module monitor msrun multiple name named native
 network node nodes normal number numpy object offload open operation operator optimizer option optional output
 overlap package packages packet page parallel param parameter parameters pass passed path pipeline platform plugin
 please policy pool port post preparing prepare print process processes profile profiler profiling program prompt
 property protocol pynative pytest python pytorch queue raise random rank read ready receive receive reconnect record
 register registered registering release remote remove removed report request reset resource resources response restore
 result retry return role root route run running runtime save saved saving scheduler script seed send sequence server
 service session set setting setup shape shared side signal site size socket source spawned stable stage start started
 starting state static status step steps stop strategy stream string success successfully such summary support
 supported supports switch synchronize system table take task tasks tensor test this thread time times timestamp token
 tokens tool topology torch total trainer training transformers transformer transport type types unit update usage
 use used user using utilization value vector version visible vocab wait waiting warmup warning warnings weight weights
 when will with worker write
 of the to the in the is the on the for the from the with the and the that the by the at the as the
 it is this is there is that is which is will be to be can be have been has been is set
""".replace("\n", " ").encode()
"""Words that healthy programs print; a stem that stands in one of them would be met all the time. ``COMMON`` is
another thing: words that are no anchor alone, and many of those are met in failures only."""


class Stem(NamedTuple):
    """A text to look for whatever its case, and the anchors that hold it."""

    text: bytes
    anchors: tuple[Held, ...]


class Held(NamedTuple):
    """An anchor that holds a stem: the bytes from its beginning to the stem's end, its text (in lower case where its
    case does not matter), its id."""

    before: int
    text: bytes
    aid: int
    fold: bool


def choose(rows: Sequence[tuple[bytes, int]]) -> list[Stem]:
    """Stems that together cover the literals among some anchors, given as (pattern, kind) in order of id. What is too
    short, an expression, or made of nothing but the words of healthy lines has no stem.

    >>> from doctor.scan.anchors import LITERAL
    >>> found = choose([(b"link is broken", LITERAL), (b"disk broken", LITERAL)])
    >>> [(stem.text, [held.before for held in stem.anchors]) for stem in found]
    [(b' broke', [13, 10])]
    """
    avoided = PLAIN + typical().encode()
    plain = {avoided[n : n + WIDTH] for n in range(len(avoided) - WIDTH + 1)}
    holders: defaultdict[bytes, list[int]] = defaultdict(list)
    folded: dict[int, bytes] = {}
    for aid, (pattern, kind) in enumerate(rows):
        if kind == REGEX or not WIDTH <= len(pattern) <= LONGEST or b"\n" in pattern:
            continue
        text = folded[aid] = pattern.lower()
        for stem in {text[n : n + WIDTH] for n in range(len(text) - WIDTH + 1)} - plain:
            holders[stem].append(aid)
    # the one that covers most of what is left comes next; the numbers in the heap are brought up to date when met
    heap = [(-len(aids), stem) for stem, aids in holders.items() if len(aids) > 1]
    heapq.heapify(heap)
    left = set(folded)
    taken: dict[bytes, list[int]] = {}
    while heap:
        count, stem = heapq.heappop(heap)
        aids = [aid for aid in holders[stem] if aid in left]
        if len(aids) == -count:
            left.difference_update(aids)
            taken[stem] = aids
        elif len(aids) > 1:
            heapq.heappush(heap, (-len(aids), stem))
    for aid in sorted(left):
        # one of its own
        text = folded[aid]
        pieces = (text[n : n + WIDTH] for n in range(len(text) - WIDTH + 1))
        for stem in pieces:
            if stem not in plain:
                taken.setdefault(stem, []).append(aid)
                break
    return [Stem(stem, tuple(_held(stem, aid, rows[aid], folded[aid]) for aid in aids)) for stem, aids in taken.items()]


def _held(stem: bytes, aid: int, row: tuple[bytes, int], text: bytes) -> Held:
    """What an anchor, given with its text in lower case, is for a stem."""
    fold = row[1] == FOLDED
    return Held(text.index(stem) + WIDTH, text if fold else row[0], aid, fold)
