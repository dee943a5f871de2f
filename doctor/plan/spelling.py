"""Which known word a misspelt one most likely is; for the keys, options and class names of all formats."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SHORT = 0.7
"""How alike a word and one of a few accepted ones must be; keys, of which there are hundreds, must be more so."""


def nearest(word: str, known: Iterable[str], edits: int, alike: float = 0.84) -> str | None:
    """The known key that a word is most likely a misspelling of: at most ``edits`` letters away, and no other name
    for the same thing (a plural, ``num_`` for ``n_``, another number)."""
    if len(word) < 4:
        return None
    known = sorted(known)
    same = [candidate for candidate in known if candidate != word and letters(candidate) == letters(word)]
    if len(same) == 1:
        return same[0]
    for candidate in get_close_matches(word, known, 3, alike):
        if distance(word, candidate) <= (1 if len(word) < 8 else edits) and not _other_name(word, candidate):
            return candidate
    return None


def nearest_type(word: str, known: list[str]) -> str | None:
    """The registered class that a name is most likely a misspelling of."""
    for candidate in known:
        if candidate.lower() == word.lower():
            return candidate
    for candidate in get_close_matches(word, known, 3, 0.75):
        if distance(word, candidate) <= (1 if len(word) < 8 else 2) and not _other_name(word, candidate):
            return candidate
    return None


def letters(word: str) -> str:
    """A word without what styles of writing differ in: ``weightDecay`` and ``weight-decay`` are ``weightdecay``."""
    return word.replace("_", "").replace("-", "").lower()


def slip(word: str, meant: str) -> bool:
    """Whether a name is written as only a slip of the pen writes it: neighbours swapped, a letter inside left out or
    doubled, another separator. Names of other things in the same family differ otherwise: by a number, a letter put
    in front, at the end or in place of another (``deepseek_v4``, ``mllama``, ``gemma3n``, ``pixtral``)."""
    bare = str.maketrans("", "", "-_. ")
    if word.translate(bare) == meant.translate(bare):
        return True
    if not word or word[0] != meant[0] or word[-1] != meant[-1]:
        return False
    if len(word) == len(meant):
        return sorted(word) == sorted(meant)
    if len(word) < len(meant):
        return True
    return any(word[:i] + word[i + 1 :] == meant and word[i] == word[i - 1] for i in range(1, len(word)))


def own_word(word: str, known: Iterable[str]) -> bool:
    """Whether all parts of a key are parts of known keys: meant as it is (``compute_type``), unlike a slip, which
    leaves a part that no key has (``compute_dtpye``)."""
    parts = {part for key in known for part in key.split("_")}
    return all(part in parts for part in word.split("_"))


def _other_name(one: str, other: str) -> bool:
    """Names that differ in digits, in a plural, in a last capital or in the way a number is called are different
    names."""
    if one[:-1] == other and one[-1:].isupper():
        return True
    if one + "s" == other or other + "s" == one:
        return True
    strip = str.maketrans("", "", "0123456789")
    return one.translate(strip) == other.translate(strip) or one.replace("num_", "n_") == other.replace("num_", "n_")


def distance(one: str, other: str) -> int:
    """Edits (insert, delete, replace, swap of neighbours) between two short words."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
