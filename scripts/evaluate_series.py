"""Measure the judgement of losses on labelled series and print the misses.

usage: python scripts/evaluate_series.py CASES_DIR

CASES_DIR holds one folder a series: ``log.txt`` and ``label.yaml`` with ``label``, ``acceptable`` and ``event_step``.
Right: the label of the loss is one of the acceptable ones; where a step is given and the label is no healthy one, an
event of that label stands within two steps of it.
"""

from __future__ import annotations

import glob
import os
import sys

import yaml

from doctor import engine

REACH = 2


def main() -> int:
    folder = sys.argv[1]
    right = steps = stepped = 0
    cases = sorted(glob.glob(os.path.join(folder, "*", "label.yaml")))
    for path in cases:
        with open(path, encoding="utf-8") as file:
            label = yaml.safe_load(file)
        report = engine.diagnose([os.path.join(os.path.dirname(path), "log.txt")])
        losses = [s for s in report.series if s["name"] == "loss"]
        said = losses[0]["label"] if losses else "nothing"
        events = losses[0]["events"] if losses else []
        accepted = label.get("acceptable") or [label["label"]]
        ok = said in accepted
        right += ok
        near = True
        if label.get("event_step") is not None and said not in ("healthy", "unknown", "nothing"):
            stepped += 1
            near = any(
                e["kind"] == said and e["step"] is not None and abs(e["step"] - label["event_step"]) <= REACH
                for e in events[:3]
            )
            steps += near
        if not ok or not near:
            shown = [(e["kind"], e["step"], e["value"], e["usual"]) for e in events[:3]]
            name, step = os.path.basename(os.path.dirname(path)), label.get("event_step")
            print(f"{name}: {said}, accepted {accepted}, step {step}: {shown}")
    print(f"labels right: {right} of {len(cases)}; steps right: {steps} of {stepped}")
    return 0 if right == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
