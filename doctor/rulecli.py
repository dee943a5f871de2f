"""``doctor rules list|test|new`` and ``doctor explain``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import sys
from typing import Any

from doctor.i18n import pick, tr
from doctor.render.safe import printable, width
from doctor.render.text import steps
from doctor.rulebase import RuleBase, load

LABELS = {"zh": 12, "en": 22}
"""Columns of the labels of a page; in English the longest is "Strength of evidence"."""


def rows(base: RuleBase) -> list[dict[str, Any]]:
    """Every rule as ``doctor rules list --format json`` prints it."""
    out = []
    for rule in base:
        whole = base.whole(rule.id)
        out.append({
            "id": rule.id, "name": whole["name"], "topic": rule.topic, "severity": rule.severity,
            "confidence": rule.confidence, "status": rule.status, "role": rule.role, "seeds": whole["seeds"],
            "provenance": whole["provenance"], "kind": rule.kind, "title": whole["title"], "covers": whole["covers"],
        })  # fmt: skip
    return out


def listing(args: argparse.Namespace) -> int:
    """Print all rules, or those whose id, topic or family matches one of ``--only``."""
    base = load(args.rules)
    wanted = args.only
    shown = [
        row
        for row in rows(base)
        if not wanted
        or any(fnmatch.fnmatch(row[k], w) for w in wanted for k in ("id", "topic"))
        or any(row["id"].startswith(w) for w in wanted if w.isalpha())
    ]
    if args.format == "json":
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=1) + "\n")
    else:
        room = max((len(row["topic"]) for row in shown), default=0)
        for row in shown:
            sys.stdout.write(
                f"{row['id']:8} {row['severity']:8} {row['confidence']:8} {row['topic']:{room}}  "
                f"{pick(row['title'], args.lang)}\n"
            )
    for problem in base.problems:
        print(f"doctor: {problem}", file=sys.stderr)
    return 1 if base.problems else 0


def test(args: argparse.Namespace) -> int:
    """Run the examples of rule files."""
    from doctor import ruletest

    ran, failed, problems = ruletest.run(args.paths, args.rules, args.engine)
    for line in [*problems, *map(str, failed)]:
        sys.stdout.write(printable(line) + "\n")
    bad = [f for f in failed if not f.todo]
    key = "rules_bad" if bad or problems else "rules_ok"
    sys.stdout.write(tr(args.lang, key, ran=ran, failed=len(bad), problems=len(problems)) + "\n")
    return 1 if bad or problems else 0


TEMPLATE = """\
id: {id}
name: {name}
topic: {topic}
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
cause:
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
  miss:
    - log: "TODO: a line that looks alike and must not fire"
    - log: "TODO: another one"
"""


def skeleton(rule_id: str, line: str, version: str) -> str:
    """A rule file for a log line: its longest constant part as literal, its numbers as captures."""
    line = line.strip() or "TODO: a real line that the rule shall match"
    message = re.sub(r"^\[[A-Z]+\] ?\S+\([^)]*\):\S+ ?(?:\[[^\]]*\] ?)?(?:\w+\] ?)?", "", line) or line
    parts = [
        p.strip(" :,.;'\"()[]") for p in re.split(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)*|/\S+|'[^']*'|\"[^\"]*\"", message)
    ]
    literal = max(parts, key=len) or message[:40]
    pieces = []
    for n, token in enumerate(re.split(r"(0x[0-9a-fA-F]+|\d+(?:\.\d+)*)", message[:200])):
        pieces.append(rf"(?P<value{n}>[0-9a-fA-Fx.]+)" if n % 2 else re.sub(r"\\([ ])", r"\1", re.escape(token)))
    quoted = {
        k: json.dumps(v, ensure_ascii=False)
        for k, v in (("literal", literal), ("regex", "".join(pieces)), ("line", line))
    }
    return TEMPLATE.format(id=rule_id, name="todo-name", topic="healthy", version=version, **quoted)


def new(args: argparse.Namespace) -> int:
    """Write a rule file to start from; never over an existing one."""
    from doctor import __version__
    from doctor.ruleschema import FAMILIES

    base = load(args.rules)
    rule_id = args.id.upper()
    if rule_id in FAMILIES:
        taken = {int(r.id[-3:]) for r in base if r.id.startswith(rule_id)}
        rule_id = f"{rule_id}{next(n for n in range(1, 1000) if n not in taken):03d}"
    if not re.fullmatch(rf"(?:{'|'.join(FAMILIES)})\d{{3}}", rule_id):
        print(tr(args.lang, "bad_id", id=args.id, families=" ".join(FAMILIES)), file=sys.stderr)
        return 2
    path = os.path.join(args.dir, f"{rule_id}.yaml")
    if rule_id in base or os.path.exists(path):
        print(tr(args.lang, "exists", path=rule_id if rule_id in base else path), file=sys.stderr)
        return 2
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(skeleton(rule_id, args.line, __version__))
    except OSError as error:
        print(f"doctor: {path}: {error.strerror}", file=sys.stderr)
        return 2
    sys.stdout.write(tr(args.lang, "new_rule", path=path) + "\n")
    return 0


def _code_lookup(base: RuleBase, text: str) -> list[dict[str, Any]]:
    from doctor import codes

    table = {key: codes.Code(**value) for key, value in base.codes.items()}
    return [found._asdict() for found in codes.lookup(table, text)]


def explain(args: argparse.Namespace) -> int:
    """Everything known of a rule id, an alias, or an error code; offline."""
    base = load(args.rules)
    wanted = args.id.strip()
    rule_id = wanted.upper().removeprefix("CODE:")
    rule_id = base.aliases.get(rule_id, rule_id)
    if rule_id in base:
        whole = base.whole(rule_id)
        if args.format == "json":
            sys.stdout.write(json.dumps(whole, ensure_ascii=False, indent=1) + "\n")
        else:
            sys.stdout.write(rule_text(base, whole, args.lang))
        return 0
    found = _code_lookup(base, wanted.removeprefix("CODE:").removeprefix("code:"))
    if not found:
        print(tr(args.lang, "unknown_id", id=printable(wanted)[:60]), file=sys.stderr)
        return 2
    if args.format == "json":
        sys.stdout.write(json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(code_text(base, code, args.lang) for code in found))
    return 0


def _row(lang: str, label: str, text: str) -> str:
    columns = LABELS[lang]
    pad = " " * max(1, columns - width(label))
    indent = " " * columns
    return f"{label}{pad}{printable(text.strip()).replace(chr(0x240A), chr(10) + indent)}\n"


def rule_text(base: RuleBase, whole: dict[str, Any], lang: str) -> str:
    """The page of a rule for people."""
    out = [f"{whole['id']}  {named(pick(whole['title'], lang))}\n"]
    topic = base.topics.get(whole["topic"], {})
    out.append(_row(lang, tr(lang, "topic"), f"{whole['topic']}  {pick(topic, lang)}"))
    out.append(_row(lang, tr(lang, "strength"), "  ".join([
        tr(lang, f"confidence.{whole['confidence']}"), tr(lang, f"severity.{whole['severity']}"),
        whole["role"], whole["status"],
    ])))  # fmt: skip
    if whole["applies_to"]:
        out.append(_row(lang, tr(lang, "applies_to"), ", ".join(f"{k} {v}" for k, v in whole["applies_to"].items())))
    condition = whole["match"]["when"]
    if condition:
        text = condition if isinstance(condition, str) else condition["if"]
        out.append(_row(lang, tr(lang, "condition"), text))
    out.append(_row(lang, tr(lang, "cause"), _lines(named(pick(whole["cause"], lang)))))
    out.append(_row(lang, tr(lang, "next"), _lines("\n".join(steps(named(pick(whole["next"], lang)))))))
    for fix in whole["fix"]:
        out.append(_row(lang, tr(lang, "fix"), f"[{fix['applicability']}] {named(fix[lang])}"))
    for entry in whole["explains"]:
        out.append(_row(lang, tr(lang, "explains"), f"{entry['id'] or entry['topic']}"))
    for source in whole["provenance"]:
        kind = tr(lang, f"kind_of_source.{source['kind']}")
        says = f" ({source['says']})" if source["says"] else ""
        out.append(_row(lang, tr(lang, "sources"), f"{kind}: {source['ref']}{says}"))
    if whole["seeds"]:
        out.append(_row(lang, tr(lang, "seeds"), ", ".join(whole["seeds"])))
    for kind, label in (("hit", "fires_on"), ("miss", "quiet_on")):
        for example in whole["tests"][kind][:2]:
            text = example["log"] or example["config"]
            if text:
                out.append(_row(lang, tr(lang, label), _lines(text)))
    return "".join(out)


def named(text: str) -> str:
    """A text of a rule as it stands, a placeholder as ‹name›: what a finding fills in."""
    return re.sub(r"\{([a-z_][a-z0-9_]*)\??\}", r"‹\1›", text.replace("[[", "").replace("]]", ""))


def _lines(text: str) -> str:
    return text.strip().replace("\n", chr(0x240A))


def code_text(base: RuleBase, code: dict[str, Any], lang: str) -> str:
    """The page of an error code for people."""
    out = [f"{code['code']}  {code['name']}\n", _row(lang, tr(lang, "group"), code["group"])]
    topic = base.topics.get(code["topic"], {})
    out.append(_row(lang, tr(lang, "topic"), f"{code['topic']}  {pick(topic, lang)}"))
    out.append(_row(lang, tr(lang, "meaning"), pick(code["meaning"], lang)))
    out.append(_row(lang, tr(lang, "next"), pick(code["next"], lang) if code["next"] else tr(lang, "no_remedy")))
    out.append(_row(lang, tr(lang, "sources"), code["source"]))
    word = str(code["code"])
    known = [
        rule.id
        for rule in base
        if rule.log
        and any(word in (c.literal or "") or word in (c.regex or "") for c in (*rule.log.any, *rule.log.every))
    ]
    if known:
        out.append(_row(lang, tr(lang, "rules_for_code"), " ".join(known)))
    return "".join(out)
