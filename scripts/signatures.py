"""Write rules/signatures.yaml: what became of every id of the signature list.

usage: python scripts/signatures.py SIGNATURES.yaml [--check]

Rules name the ids they answer in ``covers``; the ids that no log line can answer stand in
rules/signatures.yaml itself with their reason and are kept. ``--check`` writes nothing and exits 1 if an id is
missing, unknown, or the file is stale.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from typing import Any

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
FILE = os.path.join(os.path.dirname(HERE), "rules", "signatures.yaml")
sys.path.insert(0, os.path.dirname(HERE))

HEADER = """\
# What became of each id of the signature list: rule (answered by the rules named), detector (a series, cross-rank or
# static check that no single log text can answer; later work) or left_out with the reason. Written by
# scripts/signatures.py; only detector and left_out entries are edited by hand.
"""


def build(ids: list[str]) -> tuple[dict[str, Any], list[str]]:
    """(entries, complaints) for the ids, from the rules' ``covers`` and the reasons already written."""
    from doctor.rulebase import load

    base = load()
    answered: dict[str, list[str]] = {}
    for rule in base:
        for signature in base.whole(rule.id)["covers"]:
            answered.setdefault(signature, []).append(rule.id)
    kept: dict[str, Any] = {}
    if os.path.exists(FILE):
        with open(FILE, encoding="utf-8") as file:
            kept = yaml.safe_load(file) or {}
    entries: dict[str, Any] = {}
    wrong = [f"{s} is covered by {', '.join(r)} but is no id of the list" for s, r in answered.items() if s not in ids]
    for signature in sorted(ids):
        if signature in answered:
            entries[signature] = {"status": "rule", "by": answered[signature]}
        elif kept.get(signature, {}).get("why"):
            entries[signature] = {"status": kept[signature]["status"], "why": kept[signature]["why"]}
        else:
            wrong.append(f"{signature}: no rule covers it and no reason is given")
    return entries, wrong


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("signatures")
    ap.add_argument("--check", action="store_true")
    args = ap.parse_args()
    with open(args.signatures, encoding="utf-8") as file:
        ids = [s["id"] for s in yaml.safe_load(file)["signatures"]]
    entries, wrong = build(ids)
    text = HEADER + yaml.safe_dump(entries, allow_unicode=True, width=120, sort_keys=True, default_flow_style=None)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(ids)} ids: {dict(Counter(e['status'] for e in entries.values()))}")
    if args.check:
        with open(FILE, encoding="utf-8") as file:
            stale = file.read() != text
        return 1 if wrong or stale else 0
    with open(FILE, "w", encoding="utf-8") as file:
        file.write(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
