"""The run of many ranks as text: who failed, who waited, whose log is missing, the clocks and the decisive minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from doctor.i18n import tr
from doctor.render.safe import redact, safe, width
from doctor.run.story import ranks_text

if TYPE_CHECKING:
    from doctor.render.text import Line

ORDER = ("failed", "silent", "empty", "missing", "running", "ended", "waited")
"""States, the most telling first."""
EVENTS = 8
"""Lines of the timeline unless all are asked for."""
CLOCKS = 4
"""Clocks unless all are asked for."""
LINKS = 8
"""Ranks of a chain that are written out."""
PLACE = 24
"""Columns of the ranks of an event."""
_STYLES = {"cause": "bold red", "failure": "bold yellow", "silent": "bold magenta"}
_WEIGHT = {"cause": 0, "silent": 1, "failure": 2, "waiting": 3, "step": 4, "recovered": 5}


def lines(
    run: dict[str, Any], lang: str, *, said: Sequence[str] = (), every: bool, columns: int, ascii_only: bool
) -> list[Line]:
    """The block below the diagnoses. ``said``: rule and title of each finding of the report, for the timeline."""
    dot, arrow = (" | ", " -> ") if ascii_only else (" · ", " → ")
    labels = [tr(lang, f"ranks.{name}") for name in ("title", "clock", "chain", "timeline")]
    wide = max(map(width, labels))
    seen, world = run["ranks_seen"], run["world_size"] or run["ranks_seen"]
    count = tr(lang, "ranks.seen" if seen < world else "ranks.seen_all", seen=seen, world=world)
    out: list[Line] = [[], [("bold", _padded(labels[0], wide)), ("", f"  {count}{dot}{_states(run, lang, dot)}")]]
    if run["clock"]["corrected"]:
        out.append([("bold", _padded(labels[1], wide)), ("", f"  {_clocks(run['clock'], lang, dot, every)}")])
    chains = run["chains"] if every else [c for c in run["chains"] if c["cycle"] or len(c["ranks"]) > 2][:1]
    for n, chain in enumerate(chains):
        text = _chain(chain["ranks"], arrow) + (f" ({tr(lang, 'ranks.cycle')})" if chain["cycle"] else "")
        out.append([("bold", _padded(labels[2] if n == 0 else "", wide)), ("", f"  {text}")])
    if every or any(event["what"] == "cause" for event in run["timeline"]):
        events = run["timeline"] if every else _telling(run["timeline"])
        texts = [_said(event, said) for event in events]
        out.append([("bold", labels[3])])
        out += _timeline(events, texts, lang, columns, "..." if ascii_only else "…")
    return out


def _states(run: dict[str, Any], lang: str, dot: str) -> str:
    """How many ranks, and which, in each state."""
    parts = []
    for state in ORDER:
        ranks = [lane["rank"] for lane in run["lanes"] if lane["state"] == state]
        if ranks:
            parts.append(f"{tr(lang, f'ranks.state.{state}')} {_cut(ranks_text(ranks), 40)}")
    return dot.join(parts)


def _clocks(clock: dict[str, Any], lang: str, dot: str, every: bool) -> str:
    apart = sorted((h for h in clock["hosts"] if h["offset"]), key=lambda h: -abs(h["offset"]))
    shown = apart if every else apart[:CLOCKS]
    parts = []
    for host in shown:
        offset = f"{host['offset']:+.1f}"
        key = "ranks.clock_host" if host["host"] else "ranks.clock_ranks"
        parts.append(safe(tr(lang, key, host=host["host"], ranks=_cut(host["ranks"], 20), offset=offset)))
    if len(apart) > len(shown):
        parts.append(tr(lang, "ranks.more", n=len(apart) - len(shown)))
    return dot.join([*parts, tr(lang, "ranks.clock_doubt", doubt=f"{clock['doubt']:.1f}")])


def _chain(ranks: list[int], arrow: str) -> str:
    if len(ranks) <= LINKS:
        return arrow.join(map(str, ranks))
    return arrow.join([*map(str, ranks[: LINKS // 2]), "…", *map(str, ranks[-LINKS // 2 :])])


def _telling(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of many events the most telling ones, in their order."""
    kept = sorted(range(len(events)), key=lambda n: (_WEIGHT[events[n]["what"]], events[n]["seconds"]))[:EVENTS]
    return [events[n] for n in sorted(kept)]


def _said(event: dict[str, Any], said: Sequence[str]) -> str:
    """What the rule says of an event: of its line a row would show little but its head. Where no rule speaks, the
    line."""
    at = event["finding"]
    return said[at] if at is not None and at < len(said) else str(event["text"])


def _timeline(
    events: Sequence[dict[str, Any]], texts: Sequence[str], lang: str, columns: int, ellipsis: str
) -> list[Line]:
    """The events in their order."""
    out: list[Line] = []
    places = [tr(lang, "rank", ranks=_cut(e["ranks"], PLACE)) if e["ranks"] else "" for e in events]
    words = [tr(lang, f"ranks.what.{e['what']}") for e in events]
    wide, tall = max(map(width, places), default=0), max(map(width, words), default=0)
    for event, said, place, word in zip(events, texts, places, words, strict=True):
        lead = f"   {moment_text(event['seconds'])}  {_padded(place, wide)}  "
        text = redact(safe(said))
        room = max(30, columns - width(lead) - tall - 2)
        if width(text) > room:
            text = text[: max(1, len(text) * (room - len(ellipsis)) // width(text))] + ellipsis
        out.append([("", lead), (_STYLES.get(event["what"], "dim"), _padded(word, tall)), ("", f"  {text}")])
    return out


def moment_text(seconds: float) -> str:
    """A moment of the common clock without its day.

    >>> moment_text(1773826615.25)
    '09:36:55.250'
    """
    rest = seconds % 86400
    whole = int(rest)
    milli = int((rest - whole) * 1000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{milli:03d}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(",-") + "…"


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
