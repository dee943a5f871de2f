"""One rule tried on a text or a log: where it fires and what it captures, or why it does not.

The judges are those of a diagnosis; only the answers are kept that it throws away.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from doctor.model import Evidence, Text, Verdict
from doctor.rulebase import Rule, RuleBase
from doctor.scan.trace import Quiet

KINDS = ("log", "series", "when", "code")
"""Kinds of rule that a text can be tried on; checks ask a machine, verdicts a run."""

HINT_BYTES = 1 << 20
"""Of a text in which no anchor stands, so much is searched for what comes near."""


class Hit(NamedTuple):
    """A place where the rule fires."""

    source: str
    line: int
    text: str
    args: dict[str, str]


class Trial(NamedTuple):
    """``verdict``: fires · quiet · unknown · not_applicable · impossible (no text can be judged) · broken (the file of
    the rule cannot be used, ``problems`` say why). ``times`` counts hits beyond those kept. ``near``: (line, text, how)
    where an anchor nearly stands."""

    rule: str
    kind: str
    verdict: str
    hits: tuple[Hit, ...] = ()
    quiet: tuple[tuple[str, Quiet], ...] = ()
    times: int = 0
    lines: int = 0
    anchors: tuple[str, ...] = ()
    near: tuple[tuple[int, str, str], ...] = ()
    why: Text = {}  # noqa: RUF012 - never changed
    problems: tuple[str, ...] = ()
    cancelled: bool = False

    def to_json(self) -> dict[str, Any]:
        """As ``doctor rules try --format json`` prints it."""
        row = self._asdict()
        row["hits"] = [hit._asdict() for hit in self.hits]
        row["quiet"] = [{"source": source, **quiet._asdict()} for source, quiet in self.quiet]
        row["near"] = [{"line": line, "text": text, "how": how} for line, text, how in self.near]
        return row


class Prepared(NamedTuple):
    """A rule ready to be tried: a base that holds it alone, and what is wrong with its file."""

    base: RuleBase
    whole: dict[str, Any]
    problems: tuple[str, ...] = ()

    @property
    def rule(self) -> Rule:
        return self.base.rule_at(0)


def of_file(path: str, base: RuleBase) -> Prepared:
    """A rule file, wherever it lies and also as a draft."""
    from doctor import ruleschema

    blob, problems = ruleschema.compile_one(path, base.folder, set(base.topics))
    alone = RuleBase(base.folder, "try", blob)
    return Prepared(alone, alone.whole(alone.ids[0]) if alone.ids else {}, tuple(map(str, problems)))


def of_base(rule_id: str, base: RuleBase) -> Prepared:
    """A loaded rule, by its id."""
    return of_file(os.path.join(os.path.dirname(os.path.abspath(base.folder)), base.whole(rule_id)["file"]), base)


def try_text(ready: Prepared, text: str, name: str = "") -> Trial:
    """Try a rule on a text at hand. ``name`` tells what a configuration is called (``config.yaml``, ``train.sh``)."""
    if ready.problems or not ready.base.ids:
        return Trial("", "", "broken", problems=ready.problems)
    rule = ready.rule
    if rule.kind not in KINDS:
        return Trial(rule.id, rule.kind, "impossible")
    if rule.kind in ("when", "code"):
        return _judged(ready, text, name)
    data = text.encode("utf-8", "surrogatepass")
    return try_chunks(ready, name or "<text>", [data])


def try_chunks(
    ready: Prepared, name: str, chunks: Sequence[bytes] | Any, cancelled: Callable[[], bool] = lambda: False
) -> Trial:
    """Try a log or series rule on the bytes of a source. Raises OSError where a piece cannot be read."""
    from doctor.scan.scanner import CHUNK, Matcher, Scanner
    from doctor.scan.trace import Tracer

    rule = ready.rule
    matcher = Matcher(ready.base, "re2")
    scanner = Tracer(matcher, name) if rule.log is not None else Scanner(matcher, name)
    first = bytearray()
    stopped, whole = False, True
    held: list[bytes] = []
    for chunk in chunks:
        if len(first) < HINT_BYTES:
            first += chunk[: HINT_BYTES - len(first)]
        if whole and sum(map(len, held)) + len(chunk) <= CHUNK:
            held.append(chunk)
        else:
            for piece in held:
                scanner.feed(piece)
            held, whole = [], False
            for at in range(0, len(chunk), CHUNK):
                scanner.feed(chunk[at : at + CHUNK])
        if cancelled():
            stopped = True
            break
    if whole:
        # only a small input is searched for the words of people
        scanner.feed_whole(b"".join(held))
    scan = scanner.finish(cancelled=stopped)
    if rule.kind == "series":
        from doctor import training

        scan = training.judge(ready.base, [scan], {}, {name: bytes(first)} if whole else {}).scans[0]
    hits = tuple(Hit(name, o.line, o.text, o.args) for o in scan.occurrences if o.rule == rule.id)
    times = max(scan.counts.get(rule.id, 0), len(hits))
    quiet: tuple[tuple[str, Quiet], ...] = ()
    near: tuple[tuple[int, str, str], ...] = ()
    anchors: tuple[str, ...] = ()
    if isinstance(scanner, Tracer):
        quiet = tuple((name, one) for one in scanner.quiet)
        anchors = anchors_of(rule)
        if not hits and not scanner.anchored:
            near = _near(rule, bytes(first), whole)
    return Trial(rule.id, rule.kind, "fires" if hits else "quiet", hits, quiet, times, scan.lines, anchors, near,
                 cancelled=stopped)  # fmt: skip


def try_inputs(
    ready: Prepared, inputs: Sequence[str], cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[int, str], None] = lambda done, name: None,
) -> tuple[list[Trial], list[tuple[str, str]]]:  # fmt: skip
    """Try a rule on files, folders, archives or ``-``: an answer for each source, and (name, why) of what is unread."""
    from doctor.scan.inputs import Problem, expand
    from doctor.scan.scanner import plain_chunks

    trials: list[Trial] = []
    troubles: list[tuple[str, str]] = []
    done = 0
    for item in expand(list(inputs)):
        if cancelled():
            break
        if isinstance(item, Problem):
            troubles.append((item.name, item.code))
            continue
        try:
            with item.open() as stream:
                if ready.rule.kind in ("when", "code"):
                    text = stream.read(8 << 20).decode("utf-8", "replace")
                    trials.append(_judged(ready, text, item.name))
                    continue

                def told(stream: Any = stream, name: str = item.name) -> Any:
                    nonlocal done
                    for chunk in plain_chunks(stream):
                        done += len(chunk)
                        progress(done, name)
                        yield chunk

                trials.append(try_chunks(ready, item.name, told(), cancelled))
        except OSError as error:
            troubles.append((item.name, error.strerror or "unreadable"))
    return trials, troubles


def _judged(ready: Prepared, text: str, name: str) -> Trial:
    """A condition over a configuration, or a rule about Python source."""
    rule = ready.rule
    try:
        if rule.kind == "when":
            from doctor.plan import detect
            from doctor.plan.judge import judge_rule

            plan = detect.read(name or "config.yaml", text)
            if plan is None:
                return Trial(rule.id, rule.kind, "impossible")
            found = [judge_rule(rule, ready.whole, ready.base.when[rule.id], plan, {})]
        else:
            from doctor import source

            found = source.example(source.spec_of(rule, ready.whole), text, source.Target())
    except (OSError, ValueError) as error:
        return Trial(rule.id, rule.kind, "unknown", why={"zh": str(error), "en": str(error)})
    lines = text.count("\n") + 1
    failed = [f for f in found if f.verdict is Verdict.FAIL]
    if failed:
        hits = []
        for finding in failed:
            at = finding.evidence[0] if finding.evidence else Evidence(name, 0, "")
            hits.append(Hit(name or at.source, at.line, at.text, {k: str(v) for k, v in finding.args.items()}))
        return Trial(rule.id, rule.kind, "fires", tuple(hits), times=len(hits), lines=lines)
    answers = {Verdict.UNKNOWN: "unknown", Verdict.NOT_APPLICABLE: "not_applicable"}
    verdicts = {answers.get(f.verdict, "quiet") for f in found} or {"quiet"}
    verdict = next((v for v in ("unknown", "quiet", "not_applicable") if v in verdicts), "quiet")
    why = next((f.why for f in found if f.why and answers.get(f.verdict, "quiet") == verdict), {})
    return Trial(rule.id, rule.kind, verdict, lines=lines, why=why)


def anchors_of(rule: Rule) -> tuple[str, ...]:
    """The texts of which one must stand on a line before a log rule looks at it."""
    from doctor.scan.anchors import anchor_clauses, clause_anchors

    if rule.log is None:
        return ()
    return tuple(dict.fromkeys(text for clause in anchor_clauses(rule.log) for text, _ in clause_anchors(clause)))


def _near(rule: Rule, data: bytes, whole: bool) -> tuple[tuple[int, str, str], ...]:
    """(line, text, how) of lines on which an anchor stands in other letters (``case``) or only the regular expression
    matches (``literal``); ("prose") where a rule is only looked for in small inputs."""
    from doctor.scan import records
    from doctor.scan.anchors import PROSE, anchor_clauses, clause_anchors
    from doctor.scan.scanner import Patterns

    assert rule.log is not None
    clauses = list(anchor_clauses(rule.log))
    patterns = Patterns()
    found: list[tuple[int, str, str]] = []
    if not whole and any(kind == PROSE for clause in clauses for _, kind in clause_anchors(clause)):
        found.append((0, "", "prose"))
    words = [(c.literal.lower(), c.regex) for c in clauses if c.literal]
    for number, raw in enumerate(data.split(b"\n"), 1):
        text = records.read_line(raw[: records.MAX_LINE]).text
        low = text.lower()
        for literal, regex in words:
            if literal in low:
                found.append((number, text[:300], "case"))
            elif regex and patterns.get(regex).search(text):
                found.append((number, text[:300], "literal"))
        if len(found) >= 3:
            break
    return tuple(found[:3])
