"""The version chain as a picture in text: from the firmware up to mindformers, each link marked, and what to change.

``draw`` takes the value of the fact ``ver.chain`` (see ``doctor.chain.judge``), also as it stands in a JSON report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from doctor.i18n import texts
from doctor.render.safe import safe, width
from doctor.render.text import wrap
from doctor.render.topology import clip

SPINE = ("firmware", "driver", "cann", "mindspore", "mindformers")
BESIDE = ("python", "numpy", "protobuf", "glibc", "glibcxx", "chip")
WARN = 4
"""Level from which a link is broken, as in ``doctor.chain``."""
LINES = 60
COMMAND = "     $ "

Link = Mapping[str, Any]
Chain = Mapping[str, Any]


def draw(chain: Chain, columns: int = 80, *, ascii_only: bool = False, lang: str = "en") -> list[str]:
    """Lines of at most ``columns`` cells; none if nothing of the chain is known.

    Only a command may be longer: one that is cut or broken cannot be copied.
    """
    say = texts(lang)
    have = chain.get("have")
    have = have if isinstance(have, Mapping) else {}
    links = [link for link in chain.get("links") or () if isinstance(link, Mapping)]
    if not any(have.get(part) for part in SPINE):
        return []
    head = {True: "chain.whole", False: "chain.broken"}.get(chain.get("whole"), "chain.open")  # type: ignore[arg-type]
    out = [say["chain.head"].replace("{title}", say["chain.title"]).replace("{state}", say[head])]
    out += _spine(have, links, chain.get("missing") or (), say, ascii_only, columns)
    beside = _beside(have, links, say, ascii_only)
    if beside:
        out += _hanging(f"  {_pad(say['chain.beside'], 14)}", "  ".join(beside), columns)
    for link in links:
        if _broken(link) and not _on_spine(link):
            out += _hanging(f"    {_sign(link, ascii_only)} ", _says(link, say), columns)
    out += _plans(chain, say, ascii_only, columns)
    return [
        line.rstrip() if line.startswith(COMMAND) else clip(line.rstrip(), max(columns, 20), ascii_only)
        for line in out[:LINES]
    ]


def brief(chain: Chain, columns: int = 80, *, ascii_only: bool = False, lang: str = "en") -> list[str]:
    """A chain of which nothing is broken, on a line or two: its parts in their order."""
    say = texts(lang)
    have = chain.get("have")
    have = have if isinstance(have, Mapping) else {}
    if not any(have.get(part) for part in SPINE):
        return []
    head = "chain.whole" if chain.get("whole") else "chain.open"
    parts = [f"{say[f'chain.part.{part}']} {safe(str(have[part]))}" for part in (*SPINE, *BESIDE) if have.get(part)]
    title = say["chain.head"].replace("{title}", say["chain.title"]).replace("{state}", say[head])
    return [title, *(f"  {row}" for row in wrap((" - " if ascii_only else " · ").join(parts), columns - 2))]


def inline(chain: Chain, columns: int = 80, *, ascii_only: bool = False, lang: str = "en") -> list[str]:
    """The chain on a line or two, the sign of each link between the parts it joins; what hangs on the side behind."""
    say = texts(lang)
    have = chain.get("have")
    have = have if isinstance(have, Mapping) else {}
    links = [link for link in chain.get("links") or () if isinstance(link, Mapping)]
    shown = [part for part in SPINE if have.get(part) or part in (chain.get("missing") or ())]
    dash = "--" if ascii_only else "─"
    words: list[str] = []
    for n, part in enumerate(shown):
        link = next((one for one in links if set(one.get("ends") or ()) == {shown[n - 1], part}), None) if n else None
        joint = f"{dash}{_sign(link, ascii_only)}{dash} " if n else ""
        words.append(f"{joint}{say[f'chain.part.{part}']} {safe(str(have.get(part) or say['chain.absent']))}")
    known = (say["chain.part.python"], say["chain.part.chip"])
    words += [one for one in _beside(have, links, say, ascii_only) if one.startswith(known)]
    out: list[str] = []
    for word in words:
        if out and width(out[-1]) + 1 + width(word) <= columns:
            out[-1] += " " + word
        else:
            out.append(word)
    return [clip(row, max(columns, 20), ascii_only) for row in out]


def _hanging(head: str, text: str, columns: int) -> list[str]:
    """``text`` behind ``head``, its further lines below its beginning."""
    rows = wrap(text, max(columns - width(head), 20)) or [""]
    return [(head if n == 0 else " " * width(head)) + row for n, row in enumerate(rows)]


def _level(link: Link) -> int:
    level = link.get("level")
    return level if isinstance(level, int) else -1


def _broken(link: Link) -> bool:
    return _level(link) >= WARN


def _sign(link: Link | None, ascii_only: bool) -> str:
    """ok, remark, broken or not known, readable without colour."""
    level = link.get("level") if link is not None else None
    if not isinstance(level, int):
        return "?"
    kind = 2 if level >= WARN else 1 if level >= 2 else 0
    return (("ok", "i", "XX") if ascii_only else ("✓", "i", "✗"))[kind]


def _spine(
    have: Mapping[str, Any], links: Sequence[Link], missing: Sequence[str], say: Mapping[str, str], ascii_only: bool,
    columns: int,
) -> list[str]:  # fmt: skip
    """The parts one below the other, the link between two of them in a line of its own."""
    out: list[str] = []
    shown = [part for part in SPINE if have.get(part) or part in missing]
    for n, part in enumerate(shown):
        if n:
            pair = {shown[n - 1], part}
            link = next((one for one in links if set(one.get("ends") or ()) == pair), None)
            bar = "|" if ascii_only else "│"
            if link is not None and _broken(link):
                bar = "X" if ascii_only else "╳"
            words = _says(link, say) if link is not None else ""
            out += _hanging(f"    {bar} {_sign(link, ascii_only)} ", words, columns)
        version = str(have.get(part) or "") or say["chain.absent"]
        out.append(f"  {_pad(say[f'chain.part.{part}'], 14)}{safe(version)}")
    return out


def _on_spine(link: Link) -> bool:
    return set(link.get("ends") or ()) <= set(SPINE)


def _says(link: Link, say: Mapping[str, str]) -> str:
    """The answer of a link in words: who wants what, and whose word that is."""
    answer = str(link.get("answer") or "unknown")
    text = say.get(f"chain.answer.{answer}", answer)
    if isinstance(link.get("level"), int) and link["level"] >= 2:
        ends, both, want = link.get("ends") or ("", ""), link.get("have") or ("", ""), link.get("want") or ()
        wanted = ", ".join(str(w) for w in want[:6]) or "-"
        pair = " - ".join(f"{say.get(f'chain.part.{end}', end)} {have}" for end, have in zip(ends, both, strict=False))
        where = say.get(f"chain.authority.{link.get('authority') or 'table'}", "")
        text = say["chain.says"].replace("{pair}", pair).replace("{answer}", text)
        text = text.replace("{where}", where).replace("{wanted}", wanted)
    return safe(text)


def _beside(have: Mapping[str, Any], links: Sequence[Link], say: Mapping[str, str], ascii_only: bool) -> list[str]:
    """What hangs on the side: Python, numpy, protobuf, the system's libraries, the chip; each with its worst link."""
    out = []
    for part in BESIDE:
        mine = [link for link in links if part in (link.get("ends") or ())]
        version = have.get(part) or next(
            (b for link in mine for end, b in zip(link["ends"], link["have"], strict=False) if end == part), ""
        )
        if version:
            worst = max(mine, key=_level, default=None)
            out.append(f"{say[f'chain.part.{part}']} {safe(str(version))} {_sign(worst, ascii_only)}")
    return out


def _plans(chain: Chain, say: Mapping[str, str], ascii_only: bool, columns: int) -> list[str]:
    """The proposals, the first with its commands, the others on one line each."""
    proposals = [p for p in chain.get("proposals") or () if isinstance(p, Mapping)]
    if not proposals:
        return ["", f"  {say['chain.no_plan']}"] if chain.get("whole") is False else []
    out = ["", f"  {say['chain.plan']}"]
    arrow = "->" if ascii_only else "→"
    for n, proposal in enumerate(proposals, 1):
        changes = say["chain.comma"].join(
            f"{say.get('chain.part.' + str(c.get('what')), str(c.get('what')))} "
            f"{c.get('from') or say['chain.absent']} {arrow} {c.get('to')}"
            for c in proposal.get("changes") or ()
        )
        keeps = say["chain.comma"].join(
            say.get(f"chain.part.{k}", k) for k in proposal.get("keeps") or () if k in SPINE
        )
        needs = [say[f"chain.needs.{name}"] for name in ("root", "reboot") if proposal.get(name)]
        notes = [f"{say['chain.keeps']} {keeps}"] if keeps else []
        tail = (
            say["chain.notes"].replace("{notes}", say["chain.semicolon"].join(notes + needs)) if notes + needs else ""
        )
        out += _hanging(f"  {n}) ", safe(changes + tail), columns)
        if n == 1:
            out += [COMMAND + safe(str(command)) for command in proposal.get("commands") or ()]
    return out


def _pad(text: str, cells: int) -> str:
    return text + " " * max(cells - width(text), 1)
