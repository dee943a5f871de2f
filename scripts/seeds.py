"""Widespread claims about MindSpore on Ascend, and where the doctor speaks of each.

usage: python scripts/seeds.py [--check] [--rules DIR] [--page FILE]

``rules/seed_claims.yaml`` says of every claim what it is, whether it holds, why, and what answers it: rules, a note, or
a part of the doctor that is still to come. A rule names the claims it answers in its ``seeds:``. Without ``--check``
both are made to agree (what one side names is added to the other) and ``docs/seeds.md`` is written. With it nothing is
written: exit 1 and a line for everything that does not agree, exit 2 when the map cannot be read.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

SERIES = {"S0": 97, "S2": 52, "S3": 65, "S4": 120}
"""Collections of claims, and how many each has; X- are facts that were found while they were looked at."""
KINDS = {
    "env_check": "Environment and versions", "hccl": "Collective communication", "static_config": "Configuration",
    "static_code": "Model and training code", "log_signature": "Texts of errors", "fix": "Remedies",
    "smoke": "Trying it out", "loss_analysis": "Loss", "memory": "Memory", "perf_advice": "Speed",
    "doc": "How it works",
}  # fmt: skip
VERDICTS = {"holds": "holds", "partly": "in part", "refuted": "refuted", "unproven": "not shown"}
CODE, HEALTH = "code checks", "training health"
PENDING = {"static_code": (CODE,), "fix": (CODE,), "loss_analysis": (HEALTH,), "perf_advice": (HEALTH,),
           "doc": (CODE,), "memory": (HEALTH,)}  # fmt: skip
"""What a claim of a kind may still wait for; the other kinds are answered."""
FIELDS = ("id", "kind", "verdict", "says", "why", "rules", "note", "pending")
MARK = "<!-- Written by scripts/seeds.py from rules/seed_claims.yaml; change that, not this page. -->\n"

_SEEDS = re.compile(r"^seeds:(?P<inline>[ \t]*\[[^\]]*\])?[ \t]*\n(?P<rows>(?:[ \t]*- .*\n)*)", re.M)
_ID = re.compile(r"^id: *'?\"?([A-Z]+\d{3})", re.M)
_STATUS = re.compile(r"^status: *(\w+)", re.M)
_CLAIM = re.compile(r"[SX]\d?-\d{3}")


def rule_files(folder: str) -> dict[str, tuple[str, str]]:
    """Path and text of every rule by id."""
    found = {}
    for family in sorted(os.listdir(folder)):
        inner = os.path.join(folder, family)
        if not os.path.isdir(inner):
            continue
        for name in sorted(os.listdir(inner)):
            if name.endswith(".yaml"):
                path = os.path.join(inner, name)
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                rule = _ID.search(text)
                if rule:
                    found[rule[1]] = (path, text)
    return found


def seeds_of(text: str) -> list[str]:
    """The claims that the text of a rule names."""
    block = _SEEDS.search(text)
    return _CLAIM.findall(block[0]) if block else []


def with_seeds(text: str, seeds: Sequence[str]) -> str:
    """The text of a rule that names these claims; nothing else changes."""
    block = _SEEDS.search(text)
    made = f"seeds: [{', '.join(sorted(set(seeds)))}]\n" if seeds else ""
    if block:
        return text[: block.start()] + made + text[block.end() :]
    at = re.search(r"^tests:", text, re.M)
    return text if at is None else text[: at.start()] + made + text[at.start() :]


def load(path: str) -> list[dict[str, Any]]:
    """The entries of the map. Raises OSError, yaml.YAMLError, or ValueError for another form."""
    with open(path, encoding="utf-8") as file:
        value = yaml.safe_load(file)
    if not isinstance(value, dict) or not isinstance(value.get("claims"), list):
        raise ValueError("no list of claims")
    if not all(isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in value["claims"]):
        raise ValueError("an entry without an id")
    return list(value["claims"])


def troubles(claims: Sequence[dict[str, Any]], rules: dict[str, tuple[str, str]]) -> list[str]:
    """Everything that is wrong in the map, or does not agree with the rules."""
    out = []
    wanted = [f"{series}-{n:03}" for series, most in SERIES.items() for n in range(1, most + 1)]
    ids = [entry["id"] for entry in claims]
    out += [f"{name}: missing" for name in wanted if name not in ids]
    out += [f"{name}: stands twice" for name in sorted({n for n in ids if ids.count(n) > 1})]
    out += [f"{name}: no such claim" for name in ids if name not in wanted]
    by_rule = {rule: seeds_of(text) for rule, (_, text) in rules.items()}
    for entry in claims:
        name, kind = entry["id"], entry.get("kind")
        answers, pending = entry.get("rules", []), entry.get("pending", "")
        out += [f"{name}: unknown field {key}" for key in entry if key not in FIELDS]
        out += [f"{name}: {key} is missing" for key in ("says", "why") if not entry.get(key)]
        if kind not in KINDS:
            out.append(f"{name}: unknown kind {kind}")
        if entry.get("verdict") not in VERDICTS:
            out.append(f"{name}: unknown verdict {entry.get('verdict')}")
        if pending and pending not in PENDING.get(str(kind), ()):
            out.append(f"{name}: a claim of kind {kind} is not pending: {pending}")
        if not (answers or pending or entry.get("note")):
            out.append(f"{name}: neither rules nor a note nor pending")
        for rule in answers:
            if rule not in rules:
                out.append(f"{name}: no rule {rule}")
                continue
            status = _STATUS.search(rules[rule][1])
            if status and status[1] in ("draft", "deprecated"):
                out.append(f"{name}: {rule} is {status[1]}")
            if name not in by_rule[rule]:
                out.append(f"{rule}: does not name {name} in its seeds")
    known = {entry["id"]: entry for entry in claims}
    for rule, seeds in by_rule.items():
        for seed in seeds:
            if seed.startswith("X-"):
                continue
            claim = known.get(seed)
            if claim is None:
                out.append(f"{rule}: no claim {seed}")
            elif rule not in claim.get("rules", []) and claim.get("pending") != CODE:
                out.append(f"{seed}: does not name {rule}, which names it")
    return out


def agree(claims: list[dict[str, Any]], rules: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Add to each side what the other names, in place; returns the new text of rules that change, by path. What waited
    for code checks and is answered by a rule over code does not wait any more."""
    known = {entry["id"]: entry for entry in claims}
    for rule, (_, text) in rules.items():
        for seed in seeds_of(text):
            entry = known.get(seed)
            if entry is not None and rule not in entry.get("rules", []):
                entry["rules"] = sorted([*entry.get("rules", []), rule])
    for entry in claims:
        over_code = [r for r in entry.get("rules", []) if r in rules and re.search(r"^ +code:", rules[r][1], re.M)]
        if entry.get("pending") == CODE and over_code:
            del entry["pending"]
    changed = {}
    for rule, (path, text) in rules.items():
        has = seeds_of(text)
        more = [entry["id"] for entry in claims if rule in entry.get("rules", []) and entry["id"] not in has]
        if more:
            changed[path] = with_seeds(text, [*has, *more])
    return changed


def dump(claims: Sequence[dict[str, Any]]) -> str:
    """The map as text, one entry a paragraph."""
    lines = [
        "# Widespread claims about training with MindSpore on Ascend, collected from public posts, and their answers.",
        "# verdict: holds · partly · refuted (by a run, source or arithmetic) · unproven (nothing here can show it).",
        "# rules: those that speak of it; of a refuted claim they warn of following it, or know what is the case.",
        "# note: what else is to be said. pending: a part of the doctor that will speak of it and is not there yet.",
        "# Written by hand; scripts/seeds.py makes it and the seeds of the rules agree and writes docs/seeds.md.",
        "claims:",
    ]
    for entry in sorted(claims, key=lambda e: e["id"]):
        kept = {key: entry[key] for key in FIELDS if entry.get(key)}
        for n, (key, value) in enumerate(kept.items()):
            text = f"[{', '.join(value)}]" if isinstance(value, list) else _scalar(str(value))
            lines.append(f"{'- ' if n == 0 else '  '}{key}: {text}")
    return "\n".join(lines) + "\n"


def _scalar(text: str) -> str:
    if re.fullmatch(r"[A-Za-z][\w .,;/()=<>%*^+'-]*", text) and text.lower() not in ("yes", "no", "true", "false"):
        return text
    return "'" + text.replace("'", "''") + "'"


def page(claims: Sequence[dict[str, Any]]) -> str:
    """docs/seeds.md."""
    count = {v: sum(e["verdict"] == v for e in claims) for v in VERDICTS}
    waiting = [e for e in claims if e.get("pending")]
    lines = [
        MARK,
        "# Widespread claims",
        "",
        f"Public posts about training GPT models with MindSpore on Ascend repeat each other. {len(claims)} of their "
        "claims were collected and each was tried on a CPU, looked up in the source and the official documents, or "
        f"worked out: {count['holds']} hold, {count['partly']} hold in part, {count['refuted']} are refuted, and of "
        f"{count['unproven']} nothing here can show whether they hold.",
        "",
        "The doctor states nothing of what is refuted or not shown as a fact. Where a claim is refuted, its rules warn "
        "of following it or know what is really the case. `doctor explain ID` tells more of every rule.",
        "",
        "| Subject | Claims | Hold | In part | Refuted | Not shown | With rules | Note only | Pending |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for kind, name in KINDS.items():
        own = [e for e in claims if e["kind"] == kind]
        cells = [len(own), *(sum(e["verdict"] == v for e in own) for v in VERDICTS),
                 sum(bool(e.get("rules")) for e in own),
                 sum(not e.get("rules") and not e.get("pending") for e in own),
                 sum(bool(e.get("pending")) for e in own)]  # fmt: skip
        lines.append(f"| [{name}](#{name.lower().replace(' ', '-')}) | " + " | ".join(map(str, cells)) + " |")
    if waiting:
        kinds = sorted({entry["pending"] for entry in waiting})
        numbers = ", ".join(f"{what}: {sum(e['pending'] == what for e in waiting)}" for what in kinds)
        lines += ["", f"*Pending*: a part of the doctor will speak of it and is not there yet ({numbers})."]
    for kind, name in KINDS.items():
        lines += ["", f"## {name}", "", "| Id | Claim | Verdict | What was found | Where the doctor speaks |",
                  "| --- | --- | --- | --- | --- |"]  # fmt: skip
        for entry in claims:
            if entry["kind"] == kind:
                where = [_link(rule) for rule in entry.get("rules", [])]
                where = [", ".join(where)] if where else []
                where += [_md(entry["note"])] if entry.get("note") else []
                where += [f"*pending: {entry['pending']}*"] if entry.get("pending") else []
                cells = [
                    entry["id"],
                    _md(entry["says"]),
                    VERDICTS[entry["verdict"]],
                    _md(entry["why"]),
                    "; ".join(where),
                ]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _link(rule: str) -> str:
    family = rule.rstrip("0123456789")
    return f"[{rule}](rules/{family}.md#{rule.lower()})"


def _md(text: str) -> str:
    return re.sub(r"([\\`*\[\]<>|~_])", r"\\\1", text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="claims and rules")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rules", default=os.path.join(ROOT, "rules"))
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "seeds.md"))
    args = parser.parse_args(argv)
    path = os.path.join(args.rules, "seed_claims.yaml")
    try:
        claims = load(path)
    except (OSError, ValueError, yaml.YAMLError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    rules = rule_files(args.rules)
    if not args.check:
        for name, text in {**agree(claims, rules), path: dump(claims)}.items():
            with open(name, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        rules = rule_files(args.rules)
    wrong = troubles(claims, rules)
    if not wrong:
        text = page(claims)
        if args.check:
            try:
                with open(args.page, encoding="utf-8") as file:
                    wrong = [] if file.read() == text else [f"{args.page}: not what the map says"]
            except OSError as error:
                wrong = [f"{args.page}: {error.strerror}"]
        else:
            with open(args.page, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
