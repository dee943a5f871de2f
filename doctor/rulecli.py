"""``doctor rules list|search|try|test|new`` and ``doctor explain``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from doctor.i18n import pick, tr
from doctor.render.safe import printable, redact, safe, width
from doctor.render.text import steps
from doctor.rulebase import RuleBase, load

if TYPE_CHECKING:
    from doctor import ruletry

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


def search(args: argparse.Namespace) -> int:
    """Print the rules that hold all words, the most telling first; 1 if there are none."""
    from doctor.rulesearch import Index

    base = load(args.rules)
    found = Index(base).search(" ".join(args.words))
    if args.format == "json":
        sys.stdout.write(json.dumps([row._asdict() for row in found], ensure_ascii=False, indent=1) + "\n")
    else:
        room = max((len(row.topic) for row in found), default=0)
        for row in found:
            sys.stdout.write(f"{row.id:8} {row.severity:8} {row.topic:{room}}  {named(pick(row.title, args.lang))}\n")
        if not found:
            print(tr(args.lang, "rules_none"), file=sys.stderr)
    return 0 if found else 1


def attempt(args: argparse.Namespace) -> int:
    """Try one rule on a text or on logs: 0 if it fires, 1 if it is quiet, 2 if there is nothing to try."""
    from doctor import ruletry

    base = load(args.rules)
    wanted = args.rule.strip()
    rule_id = base.aliases.get(wanted.upper(), wanted.upper())
    if rule_id in base:
        ready = ruletry.of_base(rule_id, base)
    elif os.path.isfile(wanted):
        ready = ruletry.of_file(wanted, base)
    else:
        print(tr(args.lang, "unknown_id", id=printable(wanted)[:60]), file=sys.stderr)
        return 2
    troubles: list[tuple[str, str]] = []
    if ready.problems or not ready.base.ids or ready.rule.kind not in ruletry.KINDS:
        trials = [ruletry.try_text(ready, "")]
    elif args.text is not None:
        trials = [ruletry.try_text(ready, args.text)]
    else:
        inputs = args.inputs or ["-"]
        if inputs == ["-"] and sys.stdin is not None and sys.stdin.isatty():
            print(tr(args.lang, "paste_hint"), file=sys.stderr)
        trials, troubles = ruletry.try_inputs(ready, inputs)
    if args.format == "json":
        sys.stdout.write(json.dumps([trial.to_json() for trial in trials], ensure_ascii=False, indent=1) + "\n")
    else:
        for trial in trials:
            for _, text in trial_lines(trial, args.lang):
                sys.stdout.write(text + "\n")
    for name, why in troubles:
        print(f"doctor: {printable(name)}: {printable(why)}", file=sys.stderr)
    if any(trial.verdict == "fires" for trial in trials):
        return 0
    return 1 if trials and all(t.verdict not in ("broken", "impossible") for t in trials) else 2


def trial_lines(trial: ruletry.Trial, lang: str, most: int = 12) -> list[tuple[str, str]]:
    """The answer of a trial as (style, line); styles are those of rich. Lines are harmless and as long as they are."""
    out: list[tuple[str, str]] = []

    def line(text: str, style: str = "") -> None:
        out.append((style, redact(safe(text))))

    if trial.verdict == "broken":
        line(tr(lang, "try.broken"), "bold red")
        for problem in trial.problems or (tr(lang, "try.nothing"),):
            line("  " + problem)
        return out
    if trial.verdict == "impossible":
        key = "try.no_plan" if trial.kind == "when" else f"try.impossible.{trial.kind}"
        line(f"{trial.rule}  " + tr(lang, key), "bold yellow")
        return out
    style = {"fires": "bold red", "quiet": "bold green"}.get(trial.verdict, "bold yellow")
    head = tr(lang, f"try.{trial.verdict}", times=trial.times, lines=f"{trial.lines:,}")
    line(f"{trial.rule}  {head}" + (f"  ({tr(lang, 'try.cancelled')})" if trial.cancelled else ""), style)
    if trial.why:
        line("  " + pick(trial.why, lang))
    for hit in trial.hits[:most]:
        place = f"{hit.source}:{hit.line}" if hit.source and hit.source != "<text>" else str(hit.line)
        line(f"  {place}  {hit.text}")
        for name, value in hit.args.items():
            line(f"      {name} = {value}", "cyan")
    if trial.times > len(trial.hits[:most]):
        line("  " + tr(lang, "more", n=trial.times - len(trial.hits[:most])), "dim")
    if trial.verdict == "fires" and not trial.quiet:
        return out
    if trial.kind == "log" and trial.verdict == "quiet" and not trial.quiet:
        line("  " + tr(lang, "try.no_anchor"))
        for anchor in trial.anchors[:most]:
            line(f"      {anchor}", "cyan")
        for number, text, how in trial.near:
            line("  " + tr(lang, f"try.near.{how}", line=number))
            if text:
                line(f"      {text}", "dim")
    for source, quiet in trial.quiet[:most]:
        place = f"{source}:{quiet.line}" if source and source != "<text>" else str(quiet.line)
        line(f"  {place}  {quiet.text}", "dim")
        line("      " + tr(lang, f"try.why.{quiet.state}", detail=quiet.detail), "yellow")
    return out


def new(args: argparse.Namespace) -> int:
    """Write a rule file to start from; never over an existing one."""
    from doctor import rulenew
    from doctor.ruleschema import FAMILIES

    base = load(args.rules)
    rule_id = args.id.upper()
    family = rule_id if rule_id in FAMILIES or not rule_id else ""
    if rule_id and not family and not re.fullmatch(rf"(?:{'|'.join(FAMILIES)})\d{{3}}", rule_id):
        print(tr(args.lang, "bad_id", id=args.id, families=" ".join(FAMILIES)), file=sys.stderr)
        return 2
    if not rule_id and not args.line.strip():
        print(tr(args.lang, "new_needs"), file=sys.stderr)
        return 2
    made = rulenew.draft(base, family, args.line, rule_id="" if family or not rule_id else rule_id, level=args.level,
                         folder=args.dir, hosts=rulenew.own_names()[0], users=rulenew.own_names()[1])  # fmt: skip
    path = os.path.join(args.dir, f"{made.id}.yaml")
    if made.id in base or os.path.exists(path):
        print(tr(args.lang, "exists", path=made.id if made.id in base else path), file=sys.stderr)
        return 2
    try:
        rulenew.write(path, made.text)
    except OSError as error:
        print(f"doctor: {path}: {error.strerror}", file=sys.stderr)
        return 2
    if made.known:
        print(tr(args.lang, "new_known", ids=" ".join(made.known)), file=sys.stderr)
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
        if args.source:
            sys.stdout.write(source_text(base, whole))
        elif args.format == "json":
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


def source_path(base: RuleBase, whole: dict[str, Any]) -> str:
    """The file of a rule."""
    return os.path.join(os.path.dirname(os.path.abspath(base.folder)), whole["file"])


def source_text(base: RuleBase, whole: dict[str, Any]) -> str:
    """The file of a rule as it was written. Raises OSError."""
    with open(source_path(base, whole), encoding="utf-8") as file:
        return file.read()


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
    condition = whole["match"]["when"] or whole["match"]["profile"]
    if condition:
        text = condition if isinstance(condition, str) else condition["if"]
        out.append(_row(lang, tr(lang, "condition"), text))
    out.append(_row(lang, tr(lang, "cause"), _lines(named(pick(whole["cause"], lang)))))
    out.append(_row(lang, tr(lang, "next"), _lines("\n".join(steps(named(pick(whole["next"], lang)))))))
    for fix in whole["fix"]:
        out.append(_row(lang, tr(lang, "fix"), f"[{fix['applicability']}] {named(fix[lang])}"))
    for entry in whole["explains"]:
        out.append(_row(lang, tr(lang, "explains"), f"{entry['id'] or entry['topic']}"))
    causes = explained_by(base, whole["id"])
    if causes:
        out.append(_row(lang, tr(lang, "explained_by"), " ".join(causes)))
    for source in whole["provenance"]:
        kind = tr(lang, f"kind_of_source.{source['kind']}")
        says = f" ({source['says']})" if source["says"] else ""
        out.append(_row(lang, tr(lang, "sources"), f"{kind}: {source['ref']}{says}"))
    if whole["seeds"]:
        out.append(_row(lang, tr(lang, "seeds"), ", ".join(whole["seeds"])))
    for kind, label in (("hit", "fires_on"), ("miss", "quiet_on")):
        for example in whole["tests"][kind][:2]:
            files = [f"{name}:\n{text.rstrip()}" for name, text in example["profile"].items()]
            text = "\n".join(files) or example["log"] or example["config"]
            if text:
                out.append(_row(lang, tr(lang, label), _lines(_some(text))))
    return "".join(out)


def _some(text: str, most: int = 24) -> str:
    """The first lines of an example; a curve has hundreds that look alike."""
    lines = text.split("\n")
    return text if len(lines) <= most else "\n".join([*lines[: most - 1], f"… ({len(lines)})"])


def explained_by(base: RuleBase, rule_id: str) -> list[str]:
    """Ids of the rules that name this one, or its topic, as their consequence."""
    topic = base[rule_id].topic
    parts = topic.split(".")
    names = {rule_id, topic, *(".".join(parts[:n]) + ".*" for n in range(1, len(parts)))}
    return sorted(rule.id for rule in base if rule.id != rule_id and any(e.target in names for e in rule.explains))


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
