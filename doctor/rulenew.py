"""A rule file made of one log line: masked, cut into what stays and what varies, with examples to check."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from doctor.render.safe import printable
from doctor.rulebase import RuleBase
from doctor.rulesearch import Index, tokens

LONGEST_LITERAL = 60
"""Characters of a literal: a longer one only finds fewer of the same lines."""

LONGEST_REGEX = 400
LONGEST_LINE = 2000

TEMPLATE = """\
id: {id}
name: {name}
topic: {topic}{topic_note}
title:
  zh: 待填写：出了什么问题（不是怎么修）
  en: "TODO: what is wrong (not how to mend it)"
severity: error            # error | warning | advice
confidence: likely         # certain | likely | guess
status: draft              # draft is not loaded; then preview, stable
role: root                 # root | either | symptom | pointer | wrapper | detail | noise
priority: 50
since: {version}
match:
  log:
    any:
      - literal: {literal}
        regex: {regex}
{level}cause:
  zh: 待填写：为什么会这样
  en: "TODO: why this happens"
next:
  zh: 待填写：下一步做什么
  en: "TODO: what to do next"
provenance:
  - {{kind: issue, ref: "TODO: where the text was seen", says: "TODO"}}
tests:
  hit:
    - log: {line}
  miss:                    # suggestions: the healthy variant, and another failure in similar words
    - log: {healthy}
    - log: {other}
"""

_HEAD = re.compile(r"^\[[A-Z]+\] ?\S+\([^)]*\):\S+ ?(?:\[[^\]]*\] ?)?(?:\w+\] ?)?")
_LEVEL_HEAD = re.compile(r"^.{0,120}?\b(?:ERROR|WARNING|CRITICAL|FATAL|INFO|DEBUG)\b[\]:\s|-]{1,8}")
_VARIES = re.compile(
    r"(?P<quoted>'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`)"
    r"|(?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3})(?::(?P<port>\d{1,5}))?"
    r"|(?P<hex>\b0x[0-9a-fA-F]+)"
    r"|(?P<path>(?<![\w.])/[\w.+@-]+(?:/[\w.+@-]+)+/?)"
    r"|(?P<number>(?<![A-Za-z0-9_.])-?\d+(?:\.\d+)*(?:[eE][+-]?\d+)?(?=(?:[a-zA-Z%]{1,3})?(?![\w.]*\w)|\.(?:\s|$)))"
    r"|(?P<counter>(?<=[a-z]-op)\d+|(?<=\w_)\d+(?!\w))"
)
_HCCL = re.compile(r"^.{0,40}\b(?:HCCL|HCCP)\(")
_FALLBACK = "healthy"
"""The topic of a line that is like nothing known."""

_NAMES = (
    (re.compile(r"(?i)(?:remote|dst|dest|peer|target)[ _]?rank(?:[ _]?id)?\W{0,4}$"), "remote_rank"),
    (re.compile(r"(?i)rank(?:[ _]?id)?\W{0,4}$"), "rank"),
    (re.compile(r"(?i)(?:device|dev)(?:[ _]?id)?\W{0,4}$"), "device"),
    (re.compile(r"(?i)(?:err(?:or)?|ret(?:urn)?)?[ _]?(?:code|errno|ret)(?: is)?\W{0,4}$"), "code"),
    (re.compile(r"(?i)port\W{0,4}$"), "port"),
    (re.compile(r"(?i)(?:step|iter(?:ation)?)\W{0,4}$"), "step"),
    (re.compile(r"(?i)\bloss\W{0,4}$"), "loss"),
    (re.compile(r"(?i)\bline\W{0,4}$"), "line"),
    (re.compile(r"(?i)(?:size|bytes|memory)(?: is| of)?\W{0,4}$"), "size"),
    (re.compile(r"(?i)expect(?:ed|s)?(?: is| but)?\W{0,4}$"), "expected"),
    (re.compile(r"(?i)(?:got|but|actual(?:ly)?)(?: is)?\W{0,4}$"), "got"),
    (re.compile(r"(?i)version\W{0,4}$"), "version"),
    (re.compile(r"(?i)(?:op|operator|kernel|node|primitive)(?:[ _]?name)?\W{0,4}$"), "op"),
    (re.compile(r"(?i)(?:librar(?:y|ies)|\.so)\W{0,4}$"), "library"),
)
_HEALTHY = tuple(
    (re.compile(rf"\b{bad}\b"), good)
    for bad, good in (
        ("failed", "succeeded"), ("Failed", "Succeeded"), ("failure", "success"), ("Failure", "Success"),
        ("timed out", "was done in time"), ("timeout", "done"), ("Timeout", "Done"), ("unable to", "able to"),
        ("cannot", "can"), ("Cannot", "Can"), ("can't", "can"), ("not enough", "enough"), ("isn't", "is"),
        ("is not", "is"), ("did not", "did"), ("invalid", "valid"), ("Invalid", "Valid"), ("refused", "accepted"),
        ("is gone", "is up"), ("lost", "found"), ("out of memory", "within memory"),
    )
)  # fmt: skip
"""Words of failures and what a healthy program prints in their place; a suggestion, not a translation."""


class Draft(NamedTuple):
    """A rule file to start from. ``known``: ids of loaded rules that fire on the line already; ``alike``: ids of rules
    about similar lines, the most similar first."""

    id: str
    text: str
    line: str
    literal: str
    regex: str
    topic: str
    known: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()


def packaged(path: str) -> bool:
    """Whether a path lies inside the installed package."""
    import doctor

    package = os.path.realpath(os.path.dirname(os.path.abspath(doctor.__file__)))
    return (os.path.realpath(path) + os.sep).startswith(package + os.sep)


def own_names() -> tuple[list[str], list[str]]:
    """(hosts, users) of this machine that an example must not name."""
    import getpass
    import socket

    host = socket.gethostname()
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = ""
    return [name for name in dict.fromkeys((host, host.partition(".")[0])) if name], [user] if user else []


def write(path: str, text: str) -> None:
    """Write a new rule file. Raises OSError: FileExistsError for a file that is there, PermissionError for one inside
    the installed package."""
    if packaged(path):
        raise PermissionError(errno.EACCES, "belongs to the installed package", path)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)


def rewrite(path: str, text: str) -> None:
    """Replace a rule file at once, its mode kept. Raises OSError."""
    import tempfile

    handle, temp = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)), prefix=".rule-")
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temp, os.stat(path).st_mode & 0o777)
        os.replace(temp, path)
    except OSError:
        os.unlink(temp)
        raise


def free_id(family: str, taken: Iterable[str], folder: str = "") -> str:
    """The next free id of a family; ``taken`` are ids and aliases, ``folder`` may hold drafts that are not loaded."""
    used = set(taken)
    if folder and os.path.isdir(folder):
        used |= {name.removesuffix(".yaml") for name in os.listdir(folder)}
    return next(i for i in (f"{family}{n:03d}" for n in range(1, 1000)) if i not in used)


def message_of(line: str) -> str:
    """A record without its head, as far as one is recognised."""
    rest = _HEAD.sub("", line, count=1)
    if rest == line:
        rest = _LEVEL_HEAD.sub("", line, count=1)
    return rest.strip() or line


def split(message: str) -> list[tuple[str, str]]:
    """A message cut up: (text, kind), kind "" for what stays; the rest is what varies, named by what it is."""
    parts: list[tuple[str, str]] = []
    at = 0
    for found in _VARIES.finditer(message):
        if found.start() > at:
            parts.append((message[at : found.start()], ""))
        kind = found.lastgroup or ""
        if kind == "port":
            parts += [(found["address"], "address"), (":", ""), (found["port"], "number")]
        else:
            parts.append((found[0], kind))
        at = found.end()
    if at < len(message):
        parts.append((message[at:], ""))
    return parts


def literal_of(parts: list[tuple[str, str]]) -> str:
    """The most telling text that stays."""
    from doctor.scan.anchors import telling

    words = [text.strip(" :,.;'\"()[]{}=<>|-") for text, kind in parts if not kind]
    words = [_shortened(word) for word in words if word]
    return max(words, key=lambda word: (telling(word), len(word)), default="")


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_LITERAL:
        return text
    cut = text[: LONGEST_LITERAL + 1].rpartition(" ")[0]
    return cut if len(cut) >= 20 else text[:LONGEST_LITERAL]


def regex_of(parts: list[tuple[str, str]], literal: str) -> str:
    """An expression around the literal, with what varies beside it as named groups."""
    home = next((n for n, (text, kind) in enumerate(parts) if not kind and literal in text), 0)
    low = high = home
    size = len(parts[home][0])
    # whole parts, nearest first: an expression over a long record would only be slow and brittle
    while size < LONGEST_REGEX and (low > 0 or high < len(parts) - 1):
        if high < len(parts) - 1 and (high - home <= home - low or low == 0):
            high += 1
            size += len(parts[high][0]) + 20
        else:
            low -= 1
            size += len(parts[low][0]) + 20
    used: dict[str, int] = {}
    out = []
    for n in range(low, high + 1):
        text, kind = parts[n]
        if not kind:
            if len(text) > LONGEST_REGEX:
                text = literal
            out.append(_escaped(text))
            continue
        before = "".join(part for part, _ in parts[max(0, n - 3) : n])
        after = parts[n + 1][0] if n + 1 < len(parts) else ""
        name = _name(kind, before, after)
        used[name] = used.get(name, 0) + 1
        name += str(used[name]) if used[name] > 1 else ""
        if kind == "quoted":
            mark = text[0]
            out.append(rf"{mark}(?P<{name}>[^{mark}]+){mark}")
        elif kind == "counter":
            out.append(r"\d+")
        else:
            shape = {"hex": "0x[0-9a-fA-F]+", "path": r"/[\w.+@/-]+", "address": r"[\d.]+"}.get(kind)
            if shape is None:
                shape = r"\d+" if text.isdigit() else r"-?[\d.eE+-]+"
            out.append(f"(?P<{name}>{shape})")
    return "".join(out).strip()


def _name(kind: str, before: str, after: str) -> str:
    if kind == "address":
        return "host"
    if kind == "path":
        return "path"
    for pattern, name in _NAMES:
        if pattern.search(before):
            return name
    unit = re.match(r" {0,2}([A-Za-z%]{1,7})\b", after)
    if unit and unit[1].lower() in ("s", "sec", "secs", "second", "seconds"):
        return "seconds"
    if unit and unit[1].lower() in ("b", "kb", "mb", "gb", "kib", "mib", "gib", "bytes"):
        return "size"
    return {"quoted": "name", "hex": "code"}.get(kind, "value")


def _escaped(text: str) -> str:
    text = re.sub(r"([.^$*+?{}\[\]|()\\])", r"\\\1", text)
    return re.sub(r"\s{2,}|\t", lambda _: r"\s+", text)


def draft(
    base: RuleBase, family: str, line: str, *, rule_id: str = "", level: str = "", folder: str = "",
    index: Index | None = None, hosts: Iterable[str] = (), users: Iterable[str] = (),
) -> Draft:  # fmt: skip
    """A rule file for a line. ``family`` "" is guessed; ``rule_id`` is used as it stands; ``level`` is that of the
    record to which the line belongs, where it does not say so itself."""
    from doctor import __version__
    from doctor.hosts.redact import example_line

    index = index or Index(base)
    line = printable(example_line(line.strip()[:LONGEST_LINE], hosts, users))
    alike = [(score, row) for score, row in index.alike(message_of(line)) if score >= 0.3] if line else []
    topic = next((row.topic for _, row in alike if not family or row.family == family), "")
    if not topic:
        topic = next((row.topic for _, row in alike), "") or _FALLBACK
    if not rule_id:
        family = family or ("HCCL" if _HCCL.search(line) else alike[0][1].family if alike else "RUN")
        rule_id = free_id(family, (*base.ids, *base.aliases), folder)
    parts = split(message_of(line)) if line else []
    literal = literal_of(parts) or line[:40]
    regex = regex_of(parts, literal) if parts else ""
    if not literal:
        line = literal = regex = "TODO: a real line that the rule shall match"
    if not regex or not re.compile(regex).search(line) or re.compile(regex).match(""):
        regex = _escaped(literal)
    healthy, other = _misses(base, index, line, regex, [row.id for _, row in alike])
    quiet = _level_of(line) or level
    quiet = quiet if quiet in ("INFO", "DEBUG", "EVENT") else ""
    words = [word for word in re.findall(r"[a-z][a-z0-9]*", literal.lower()) if len(word) > 1][:5]
    quoted = {
        name: json.dumps(value, ensure_ascii=False)
        for name, value in (("literal", literal), ("regex", regex), ("line", line), ("healthy", healthy),
                            ("other", other))
    }  # fmt: skip
    text = TEMPLATE.format(
        id=rule_id, name="-".join(words) or "todo-name", topic=topic, version=__version__,
        topic_note=f"   # guessed; like {' '.join(row.id for _, row in alike[:3])}" if alike else "   # to choose",
        level=f"    level: [{quiet}]          # a quiet record: without this line it is passed over\n" if quiet else "",
        **quoted,
    )  # fmt: skip
    return Draft(rule_id, text, line, literal, regex, topic, _known(base, line), tuple(row.id for _, row in alike))


def _level_of(line: str) -> str:
    from doctor.scan import records

    stripped = records.read_line(line.encode("utf-8", "replace"))
    return records.level_of(stripped, records.head_of(stripped.text))


def _known(base: RuleBase, line: str) -> tuple[str, ...]:
    """Rules that fire on the line already."""
    from doctor.scan.scanner import Matcher, scan_text

    scan = scan_text(Matcher(base), line)
    return tuple(dict.fromkeys(o.rule for o in scan.occurrences if not o.rule.startswith("CODE:")))


def _misses(base: RuleBase, index: Index, line: str, regex: str, alike: list[str]) -> tuple[str, str]:
    """The healthy variant of a line, and a failure in similar words, neither of which the expression matches."""
    pattern = re.compile(regex)
    message = message_of(line)
    healthy = message
    for bad, good in _HEALTHY:
        healthy = bad.sub(good, healthy)
    healthy = line.replace(message, healthy)
    if pattern.search(healthy):
        healthy = re.sub(r"\b(?:ERROR|WARNING|CRITICAL|FATAL)\b", "INFO", line, count=1)
    if pattern.search(healthy) and _level_of(healthy) not in ("INFO", "DEBUG", "EVENT"):
        healthy = "TODO: the line that a healthy run prints in its place"
    wanted = set(tokens(message))
    for rule_id in alike:
        for example in base.whole(rule_id)["tests"]["hit"]:
            rows = [row.strip() for row in example["log"].split("\n")]
            best = max(rows, key=lambda row: len(wanted & set(tokens(row))))
            if len(wanted & set(tokens(best))) >= 2 and not pattern.search(best):
                return healthy, best
    return healthy, "TODO: a line about another failure in similar words"
