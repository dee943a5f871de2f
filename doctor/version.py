"""Versions as the Ascend software writes them, in our own order: alpha < beta < rc < release.

Market numbers (``8.3.RC1.alpha003``, ``24.1.rc2.b030``, ``2.3.0rc2``) are not PEP 440; ``packaging`` refuses half of
them, so the order is written here.
"""

from __future__ import annotations

import re
from functools import total_ordering

_ALPHA, _BETA, _RC, _END, _NUMBER, _POST = range(6)
_STAGES = {"alpha": _ALPHA, "a": _ALPHA, "t": _ALPHA, "beta": _BETA, "b": _BETA, "rc": _RC, "post": _POST, "spc": _POST}
# texts, which ``re`` compiles when they are first used: a start that compares no versions does without
_COMMUNITY = r"(\d+\.\d+\.\d+)\.beta\d+"
_PART = r"(\d+)|([A-Za-z]+)"
_RANGE = r"\s*(>=|<=|==|!=|>|<)\s*([0-9][\w.]*)\s*"


@total_ordering
class AscendVersion:
    """A version that can be ordered.

    >>> AscendVersion("8.0.RC1") < AscendVersion("8.0.RC1.1") < AscendVersion("8.0.0")
    True
    >>> AscendVersion("8.3.RC1.alpha003") < AscendVersion("8.3.RC1")
    True

    Raises ValueError if the text does not begin with a number.
    """

    __slots__ = ("key", "text")

    def __init__(self, text: str) -> None:
        self.text = text.strip().lstrip("vV")
        if not self.text[:1].isdigit():
            raise ValueError(f"not a version: {text!r}")
        self.key = _key(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AscendVersion) and self.key == other.key

    def __lt__(self, other: AscendVersion) -> bool:
        return self.key < other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"AscendVersion({self.text!r})"


Key = tuple[tuple[int, ...], tuple[tuple[int, int], ...]]


def _key(text: str) -> Key:
    """(release numbers without trailing zeros, what follows them): the end of a release sorts after its alpha, beta
    and rc and before any further number; ``b030`` behind an rc is a build of it, elsewhere a beta."""
    release: list[int] = []
    rest: list[tuple[int, int]] = []
    stage: int | None = None
    whole = re.fullmatch(_COMMUNITY, text)
    if whole:
        # CANN's community editions: 8.0.0.beta1 is the content of 8.0.0
        text = whole[1]
    for number, word in re.findall(_PART, text.split("+", maxsplit=1)[0]):
        if word:
            if stage is not None:
                rest.append((stage, 0))
            stage = _STAGES.get(word.lower(), _POST)
            if stage == _BETA and rest:
                stage = _POST
        elif stage is not None:
            rest.append((stage, int(number)))
            stage = None
        elif rest:
            rest.append((_NUMBER, int(number)))
        else:
            release.append(int(number))
    if stage is not None:
        rest.append((stage, 0))
    while release and release[-1] == 0:
        release.pop()
    return tuple(release), (*rest, (_END, 0))


def in_range(version: str, ranges: str) -> bool:
    """Whether ``version`` lies in all comma-separated ``ranges`` such as ``>=2.3,<2.8``.

    A two-part bound also bounds its patch releases: ``<2.8`` excludes 2.8.0, ``==2.3`` takes 2.3.1.

    Raises ValueError for a malformed version or range.
    """
    have = AscendVersion(version)
    for piece in ranges.split(","):
        found = re.fullmatch(_RANGE, piece)
        if not found:
            raise ValueError(f"not a version range: {piece!r}")
        sign, bound_text = found.groups()
        bound = AscendVersion(bound_text)
        same = have == bound or (
            sign in ("==", "!=") and (have.text + ".").lower().startswith(bound.text.lower() + ".")
        )
        ok = {
            ">=": have >= bound,
            ">": have > bound,
            "<=": have <= bound,
            "<": have < bound,
            "==": same,
            "!=": not same,
        }[sign]
        if not ok:
            return False
    return True
