"""Measure the doctor on labelled cases and print the figures by kind.

usage: python scripts/evaluate.py CASES_DIR [--misses] [--kinds log,env] [--jobs N]

CASES_DIR holds one folder a case: ``input.*`` (or several files) and ``label.yaml`` with ``topic``, ``accept``,
``secondary`` and ``kind``. Top-1: the first diagnosis has the label's topic or one of ``accept``; top-3: one of the
first three has one of these or of ``secondary``; a ``healthy`` case is right when the verdict is neither error nor
warning. Every case must answer with JSON within 60 s.

A folder of real MindSpore outputs (``output.txt``) with expectations in a signature list is measured with
``--expect SIGNATURES.yaml``: top-1 is right when the first diagnosis covers the first expected signature, or, where
none is expected, when nothing is reported as error.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

LIMIT = 60


def diagnose(paths: list[str]) -> tuple[dict[str, Any] | None, float]:
    """The doctor's report of some files and how long it took; None when there was no JSON in time."""
    began = time.monotonic()
    command = [sys.executable, "-m", "doctor", "diagnose", *paths, "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL, check=False)
        return json.loads(done.stdout), time.monotonic() - began
    except (subprocess.TimeoutExpired, ValueError):
        return None, time.monotonic() - began


def case_inputs(folder: str) -> list[str]:
    """Everything in a case's folder but its label."""
    return sorted(p for p in glob.glob(os.path.join(folder, "*")) if os.path.basename(p) != "label.yaml")


def judge(label: dict[str, Any], report: dict[str, Any] | None) -> tuple[bool, bool, str]:
    """(top-1 right, top-3 right, what was said)."""
    if report is None:
        return False, False, "no JSON in time"
    topics = [d["topic"] for d in report["diagnoses"]]
    said = f"{report['verdict']}: " + ", ".join(f"{d['rule']} {d['topic']}" for d in report["diagnoses"][:3])
    if label["topic"] == "healthy":
        right = report["verdict"] not in ("error", "warning")
        return right, right, said
    first = {label["topic"], *(label.get("accept") or [])}
    some = first | set(label.get("secondary") or [])
    return bool(topics[:1] and topics[0] in first), any(t in some for t in topics[:3]), said


def cases(folder: str, kinds: set[str], misses: bool, jobs: int) -> int:
    """Run all cases below a folder; returns the number that were not right at top-1."""
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, "*", "label.yaml"))):
        with open(path, encoding="utf-8") as file:
            label = yaml.safe_load(file)
        if not kinds or label.get("kind") in kinds:
            rows.append((os.path.dirname(path), label))
    with ThreadPoolExecutor(jobs) as pool:
        answers = list(pool.map(lambda row: diagnose(case_inputs(row[0])), rows))
    table: dict[str, list[tuple[bool, bool]]] = defaultdict(list)
    flagged, wrong, slowest = 0, 0, 0.0
    for (path, label), (report, seconds) in zip(rows, answers, strict=True):
        one, three, said = judge(label, report)
        slowest = max(slowest, seconds)
        table["healthy" if label["topic"] == "healthy" else label.get("kind", "?")].append((one, three))
        flagged += label["topic"] == "healthy" and not one
        wrong += not one
        if misses and not (one and three):
            print(f"{'1' if one else '-'}{'3' if three else '-'} {os.path.basename(path)}: {label['topic']} <- {said}")
    print(f"{'kind':14} {'cases':>5} {'top-1':>12} {'top-3':>12}")
    for kind, marks in sorted(table.items()):
        one, three = sum(m[0] for m in marks), sum(m[1] for m in marks)
        n = len(marks)
        print(f"{kind:14} {n:5} {one:4} {one / n:6.1%} {three:4} {three / n:6.1%}")
    measured = [m for kind in ("log", "env") for m in table.get(kind, [])]
    if measured:
        n = len(measured)
        print(
            f"log+env: top-1 {sum(m[0] for m in measured) / n:.1%}, top-3 {sum(m[1] for m in measured) / n:.1%} of {n}"
        )
    print(f"healthy flagged: {flagged}; slowest case {slowest:.2f} s")
    return wrong


def real(folder: str, signatures: str, misses: bool, jobs: int) -> int:
    """Real outputs against the expectations of a signature list; returns the number that were wrong."""
    with open(signatures, encoding="utf-8") as file:
        expectations: dict[str, list[str]] = yaml.safe_load(file)["real_case_expectations"]
    listing = subprocess.run([sys.executable, "-m", "doctor", "rules", "list", "--format", "json"],
                             capture_output=True, check=False)  # fmt: skip
    covers = {r["id"]: set(r["covers"]) for r in json.loads(listing.stdout)}
    names = [n for n in sorted(expectations) if os.path.exists(os.path.join(folder, n, "output.txt"))]
    with ThreadPoolExecutor(jobs) as pool:
        answers = list(pool.map(lambda n: diagnose([os.path.join(folder, n, "output.txt")]), names))
    right = first_right = 0
    for name, (report, _) in zip(names, answers, strict=True):
        expected = [e for e in expectations[name] if not e.startswith("NOISE-")]
        rules = [d["rule"] for d in report["diagnoses"]] if report else []
        top = covers.get(rules[0], set()) if rules else set()
        if expected:
            ok = bool(top & set(expected))
            exact = bool(top & set(expected[:1]))
        else:
            ok = exact = bool(report) and report["verdict"] != "error" if report else False
        right += ok
        first_right += exact
        if misses and not ok:
            said = ", ".join(f"{r}({'/'.join(sorted(covers.get(r, ())))})" for r in rules[:3])
            print(f"- {name}: expected {expected} got {report['verdict'] if report else 'nothing'}: {said}")
    print(f"real outputs: top-1 among the expected {right}/{len(names)} = {right / len(names):.1%}; "
          f"the first expected {first_right}/{len(names)} = {first_right / len(names):.1%}")  # fmt: skip
    return len(names) - right


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("folder")
    ap.add_argument("--kinds", default="")
    ap.add_argument("--misses", action="store_true")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--expect", metavar="SIGNATURES.yaml")
    args = ap.parse_args()
    if args.expect:
        return 1 if real(args.folder, args.expect, args.misses, args.jobs) else 0
    return 1 if cases(args.folder, set(filter(None, args.kinds.split(","))), args.misses, args.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
