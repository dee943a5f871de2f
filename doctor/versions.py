"""The built-in table of versions that belong together: reading, checking, looking up.

``rules/versions.yaml`` is written by hand and slow to read, so its checked form is kept as JSON in the private cache.
Everything here answers None where the table is silent; nobody is failed on what it does not say.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from doctor import cache
from doctor.version import AscendVersion, in_range

FORMAT = 1
"""Raise when the compiled form changes."""

Row = dict[str, Any]
_PIECE = re.compile(r"\s*(~=|===?|>=|<=|!=|>|<)\s*([0-9][\w.*+-]{0,40})\s*")
_HEAD = re.compile(r"(\d+)\.(\d+)")


@lru_cache(maxsize=4096)
def ordered(text: str | None) -> AscendVersion | None:
    """The version a text is, None if it is none."""
    try:
        return AscendVersion(text) if text else None
    except ValueError:
        return None


def minor(text: str | None) -> str:
    """major.minor of a version as written, empty if it has none.

    >>> minor("25.2.rc1.b030")
    '25.2'
    """
    found = _HEAD.match(text or "")
    return found.group(0) if found else ""


def satisfies(version: str, spec: str) -> bool | None:
    """Whether a version meets a requirement as pip writes it (``~=2.7.1``, ``>=1.20,<2``), None if unreadable.

    A post release counts as the release it follows. Environment markers behind ``;`` are not looked at.
    """
    spec = spec.split(";", maxsplit=1)[0].strip().strip("()")
    have = re.sub(r"\.?post\d+$", "", version)
    try:
        for part in spec.split(","):
            found = _PIECE.fullmatch(part)
            if not found:
                return None if part.strip() else True
            sign, bound = found.groups()
            bare = bound.removesuffix(".*")
            if sign == "~=":
                prefix = re.sub(r"(?:a|b|rc|\.dev)\d+$", "", bare).rsplit(".", 1)[0]
                ok = in_range(have, f">={bare}") and (have + ".").startswith(prefix + ".")
            elif bound.endswith(".*") and sign in ("==", "!="):
                ok = (have + ".").startswith(bare + ".") == (sign == "==")
            else:
                ok = in_range(have, f"{sign[:2]}{bare}")
            if not ok:
                return False
    except ValueError:
        return None
    return True


def hdk_fits(driver: str, pattern: str) -> bool:
    """Whether a driver is one that ``pattern`` means: 25.2.X is every 25.2; 25.0.RC1 also its patches and what followed
    within 25.0, for the vendor keeps a minor release compatible."""
    if minor(driver) != minor(pattern):
        return False
    if pattern.upper().endswith(".X"):
        return True
    have, want = ordered(driver), ordered(pattern)
    return have is not None and want is not None and have >= want


class Table:
    """Look-ups in the checked table. ``data`` is what versions.yaml holds."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.cann: list[Row] = data["cann"]
        self.mindspore: list[Row] = data["mindspore"]
        self.mindformers: list[Row] = data["mindformers"]
        self.chips: list[Row] = data["chips"]
        self.packages: dict[str, Any] = data["packages"]
        self._rows: dict[tuple[str, str | None], Row | None] = {}

    def cann_row(self, version: str | None) -> Row | None:
        """The row that speaks for a CANN market number: its release, else the last one before it of the same series.

        8.0.RC2.beta1 → 8.0.RC2, 8.5.1 → 8.5.0, 8.3.RC2 → 8.3.RC1, 9.9.0 → None.
        """
        return self._remembered("cann", version, self._find_cann)

    def _remembered(self, kind: str, version: str | None, find: Callable[[str | None], Row | None]) -> Row | None:
        key = (kind, version)
        if key not in self._rows:
            if len(self._rows) > 4096:
                self._rows.clear()
            self._rows[key] = find(version)
        return self._rows[key]

    def _find_cann(self, version: str | None) -> Row | None:
        have = ordered(version)
        if have is None:
            return None
        stem = re.sub(r"(?i)\.?(?:alpha|beta)\.?\d*$", "", have.text)
        exact = [r for r in self.cann if ordered(r["release"]) == ordered(stem)]
        if exact:
            return exact[0]
        same = [r for r in self.cann if minor(r["release"]) == minor(stem)]
        before = [r for r in same if (ordered(r["release"]) or have) <= have]
        return max(before, key=lambda r: AscendVersion(r["release"]), default=same[0] if same else None)

    def internal(self, version: str | None) -> str:
        """major.minor by which MindSpore knows a CANN market number; from 8.2 on the two are the same."""
        row = self.cann_row(version)
        if row:
            return str(row["internal"])
        have = ordered(version)
        return minor(version) if have is not None and have >= AscendVersion("8.2") else ""

    def before(self, version: str | None) -> bool:
        """Whether a CANN is older than every release of the table: none of its MindSpore goes with it."""
        have = ordered(version)
        return have is not None and all(have < AscendVersion(row["release"]) for row in self.cann)

    def market(self, internal: str) -> list[str]:
        """The CANN releases behind an internal number such as 7.6 or 7.6.0.1.220."""
        return [r["release"] for r in self.cann if r["internal"] == minor(internal)]

    def mindspore_row(self, version: str | None) -> Row | None:
        """The row of a MindSpore release; 2.7.1.post1 and 2.6.0.dev20250323 are taken for what they are of."""
        return self._remembered("mindspore", version, lambda v: _release(self.mindspore, v))

    def mindformers_row(self, version: str | None) -> Row | None:
        """The row of a mindformers release."""
        return self._remembered("mindformers", version, lambda v: _release(self.mindformers, v))

    def chip(self, name: str | None) -> Row | None:
        """The family of a chip as npu-smi or CANN call it (910B3, Ascend910_9391, Ascend910ProB), None if not known.

        A bare 910 says nothing: A1, A2 and A3 products print it.
        """
        short = re.sub(r"(?i)^ascend[ _-]?", "", name or "").lower()
        for row in self.chips:
            for soc in row["soc"]:
                known = soc.lower().removeprefix("ascend")
                whole = row["cann_chip"] in ("950", "310p") and short.startswith(known)
                if short == known or whole or (row["cann_chip"] == "a3" and short.startswith("910_93")):
                    return row
        return None

    def says(self, key: str) -> str:
        """What a source key stands for."""
        return str(self.data["sources"].get(key, key))


def _release(rows: list[Row], version: str | None) -> Row | None:
    stem = re.sub(r"(?i)[.-]?(?:post|dev)\d*$", "", (version or "").split("+", maxsplit=1)[0])
    have = ordered(stem)
    return next((r for r in rows if have is not None and ordered(r["release"]) == have), None)


def path(folder: str | None = None) -> str:
    """Where the table stands."""
    from doctor.rulebase import rules_folder

    return os.path.join(folder or rules_folder(), "versions.yaml")


@lru_cache(maxsize=4)
def load(folder: str | None = None) -> Table:
    """The table of a rules folder (default: the shipped one), from the cache when the file is unchanged.

    Raises ValueError naming file and line if it is not what it must be.
    """
    place = path(folder)
    stat, code = os.stat(place), os.stat(__file__)
    name = f"versions-{FORMAT}-{stat.st_mtime_ns:x}-{stat.st_size:x}-{code.st_mtime_ns:x}.json"
    blob = cache.read(name)
    if blob is not None:
        try:
            data = json.loads(blob)
            if data.get("path") == place:
                return Table(data["table"])
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
    from doctor import versionschema

    table = versionschema.read(place)
    cache.write(name, json.dumps({"path": place, "table": table}, separators=(",", ":")).encode())
    return Table(table)
