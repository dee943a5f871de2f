"""One rule over one source, with an answer for every line that holds its anchor: also why it does not fire there."""

from typing import NamedTuple

from doctor.rulebase import LogSpec, Rule
from doctor.scan import records
from doctor.scan.calc import holds
from doctor.scan.scanner import CLAUSE_MASK, READ_UNITS, TEXT_MAX, Matcher, Scanner, _Line, _pieces

KEPT = 40
"""Lines of a source whose answer is kept."""


class Quiet(NamedTuple):
    """A line that holds an anchor and on which the rule is quiet.

    ``state``: level (``detail`` is the level of the record) · regex · all (``detail`` is what is missing in the unit) ·
    not (what vetoes) · calc · same (the block above has fired) · bound (too many units were read).
    """

    line: int
    text: str
    state: str
    detail: str = ""


class Tracer(Scanner):
    """A scanner for a base of one log rule; ``quiet`` are the first lines that hold an anchor and do not fire."""

    def __init__(self, matcher: Matcher, name: str) -> None:
        super().__init__(matcher, name)
        self.rule: Rule = matcher.base.rule_at(0)
        self.quiet: list[Quiet] = []
        self.anchored = 0
        """lines that hold an anchor of the rule"""

    def _line(self, start: int, stop: int, anchors: dict[int, int], raw: bytes | None) -> None:
        own = {aid: end for aid, end in anchors.items() if self.matcher.anchors.targets(aid)}
        before = self._counts.get(self.rule.id, 0)
        super()._line(start, stop, anchors, raw)
        if not own:
            return
        self.anchored += 1
        if self._counts.get(self.rule.id, 0) == before and len(self.quiet) < KEPT:
            self.quiet.append(self._why(start, stop, own))

    def _why(self, start: int, stop: int, anchors: dict[int, int]) -> Quiet:
        raw = self._window.slice(start, stop)
        if len(raw) > records.MAX_LINE or b"\r" in raw.rstrip(b"\r"):
            raw, anchors = next(_pieces(raw, start, anchors))
        stripped = records.read_line(raw)
        head = records.head_of(stripped.text)
        level = records.level_of(stripped, head)
        if head is None and not level:
            head = self._record_head(start, raw)
            level = head.level if head else ""
        log = self.rule.log
        assert log is not None
        number, text = self._line_of(start), stripped.text[:TEXT_MAX]
        if level and level not in log.level and not (level == "EVENT" and "INFO" in log.level):
            return Quiet(number, text, "level", level)
        if self._units_read.get(self.rule.id, 0) > READ_UNITS:
            return Quiet(number, text, "bound")
        unit = self._unit(log, _Line(start, stop, stripped.text, level, head, stripped), {})
        clauses = [target & CLAUSE_MASK for aid in anchors for target in self.matcher.anchors.targets(aid)]
        within = bool(log.lines or log.seconds)
        words = unit.text if unit and not (within and log.any) else stripped.text
        return Quiet(number, text, *self._missing(log, sorted(set(clauses)), words, unit.text if unit else words))

    def _missing(self, log: LogSpec, numbers: list[int], own: str, text: str) -> tuple[str, str]:
        """(state, detail) of the first part of a rule that does not hold; the order is that of ``Scanner._confirm``."""
        clause = self.matcher.patterns.clause
        args: dict[str, str] = {}
        if log.any:
            found = [f for f in (clause(log.any[n], own) for n in numbers) if f is not None]
            if not found:
                return "regex", log.any[numbers[0]].regex or log.any[numbers[0]].literal or ""
            args = next((f[0] for f in found if log.calc and holds(log.calc, f[0])), found[0][0])
        for one in log.every:
            hit = clause(one, text)
            if hit is None:
                return "all", one.regex or one.literal or ""
            args = {**hit[0], **args}
        for one in log.never:
            if clause(one, text) is not None:
                return "not", one.regex or one.literal or ""
        if log.calc and not holds(log.calc, args):
            return "calc", log.calc
        return "same", ""
