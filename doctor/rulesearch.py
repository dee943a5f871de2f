"""Rules found by words, and rules that speak of lines like a given one."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from doctor.rulebase import RuleBase

WEIGHTS = (100, 30, 20, 12, 5, 2)
"""What a word counts in an id or alias; name, topic or signature; title; literal or expression; cause; next."""

LITERAL = 8
"""Characters from which a literal found inside the query itself counts: the query is a log line then."""

_TOKEN = re.compile(r"[a-z_][a-z_]{2,40}|[\u4e00-\u9fff]{2}")


class Row(NamedTuple):
    """What a list shows of a rule."""

    id: str
    family: str
    topic: str
    severity: str
    confidence: str
    status: str
    role: str
    kind: str
    title: dict[str, str]


class Index:
    """All rules of a base. Making it reads every rule once (some 0.1 s for 1,250); a search takes milliseconds."""

    def __init__(self, base: RuleBase) -> None:
        self.base = base
        self.rows: dict[str, Row] = {}
        self._fields: dict[str, tuple[str, ...]] = {}
        self._literals: dict[str, tuple[str, ...]] = {}
        self._tokens: dict[str, frozenset[str]] = {}
        self._weights: dict[str, float] = {}
        aliases: dict[str, list[str]] = {}
        for alias, rule_id in base.aliases.items():
            aliases.setdefault(rule_id, []).append(alias)
        for rule in base:
            whole = base.whole(rule.id)
            clauses = [*rule.log.any, *rule.log.every] if rule.log else []
            literals = tuple(c.literal for c in clauses if c.literal)
            self.rows[rule.id] = Row(
                rule.id, rule.id.rstrip("0123456789"), rule.topic, rule.severity, rule.confidence, rule.status,
                rule.role, rule.kind, whole["title"],
            )  # fmt: skip
            self._literals[rule.id] = literals
            self._fields[rule.id] = tuple(text.lower() for text in (
                " ".join((rule.id, *aliases.get(rule.id, ()))),
                " ".join((whole["name"], rule.topic, *whole["covers"], *whole["seeds"])),
                " ".join(whole["title"].values()),
                " ".join((*literals, *(c.regex for c in clauses if c.regex), *_names(whole))),
                " ".join(whole["cause"].values()), " ".join(whole["next"].values()),
            ))  # fmt: skip

    def search(self, text: str) -> list[Row]:
        """The rules that hold every word, the most telling place first; all of them for no word. A log line finds the
        rules whose literal stands in it."""
        words = text.lower().split()
        if not words:
            return list(self.rows.values())
        scored: list[tuple[int, str]] = []
        for rule_id, fields in self._fields.items():
            score = 0
            for word in words:
                at = next((n for n, field in enumerate(fields) if word in field), -1)
                if at < 0:
                    score = 0
                    break
                score += WEIGHTS[at]
            longest = max(
                (len(one) for one in self._literals[rule_id] if len(one) >= LITERAL and one in text), default=0
            )
            if longest:
                score += 50 + longest
            if score:
                scored.append((-score, rule_id))
        return [self.rows[rule_id] for _, rule_id in sorted(scored)]

    def tree(self) -> dict[str, dict[str, list[Row]]]:
        """Rules by family and topic."""
        out: dict[str, dict[str, list[Row]]] = {}
        for row in self.rows.values():
            out.setdefault(row.family, {}).setdefault(row.topic, []).append(row)
        return {family: dict(sorted(topics.items())) for family, topics in sorted(out.items())}

    def alike(self, line: str, count: int = 5) -> list[tuple[float, Row]]:
        """(share of the line's telling words, rule) of the log rules whose literals and examples are most like it."""
        if not self._tokens:
            for rule_id in self.rows:
                whole = self.base.whole(rule_id)
                logs = [example["log"] for example in whole["tests"]["hit"]]
                self._tokens[rule_id] = frozenset(tokens(" ".join((*self._literals[rule_id], *logs))))
            total = len(self._tokens)
            seen: dict[str, int] = {}
            for held in self._tokens.values():
                for token in held:
                    seen[token] = seen.get(token, 0) + 1
            self._weights = {token: math.log(total / n) for token, n in seen.items()}
        wanted = set(tokens(line))
        # a word that no rule knows tells nothing of where the line belongs, but makes every likeness smaller
        most = sum(self._weights.get(token, 3.0) for token in wanted)
        scored = [
            (sum(self._weights[token] for token in wanted & held) / most, rule_id)
            for rule_id, held in self._tokens.items()
            if wanted & held
        ]
        scored.sort(key=lambda one: (-one[0], one[1]))
        return [(score, self.rows[rule_id]) for score, rule_id in scored[:count]]


def tokens(text: str) -> list[str]:
    """The words of a text that may tell what it is about; numbers and paths are none."""
    return _TOKEN.findall(re.sub(r"/\S+|0x[0-9a-f]+", " ", text.lower()))


def _names(whole: dict[str, Any]) -> list[str]:
    """What a rule that reads no logs looks at."""
    match = whole["match"]
    out: list[str] = []
    for kind in ("check", "smoke", "series"):
        if match.get(kind):
            out.append(match[kind]["call"])
    if match.get("code"):
        out += [*match["code"]["call"], *match["code"]["method"], match["code"]["check"]]
    for kind in ("when", "profile"):
        if match.get(kind):
            out.append(match[kind] if isinstance(match[kind], str) else match[kind]["if"])
    return out
