"""Runs made of a recorded one and of what differs: for the examples in the rules and for tests."""

from __future__ import annotations

import json
import os
from typing import Any

from doctor.rulebase import data_folder
from doctor.smoke.settings import Settings
from doctor.smoke.verdicts import Event, Run

KEYS = (
    "base",
    "settings",
    "state",
    "problem",
    "args",
    "code",
    "error",
    "until",
    "measure",
    "losses",
    "steps",
    "baseline",
)


def recorded(name: str, settings: dict[str, Any]) -> Run:
    """A run whose events are kept in ``fixtures/smoke/<name>.jsonl``, all ranks in one file. Raises OSError."""
    path = os.path.join(data_folder(os.path.join("fixtures", "smoke")), f"{name}.jsonl")
    measures: dict[int, dict[str, Event]] = {}
    steps: dict[int, list[Event]] = {}
    marks: dict[int, list[tuple[str, float]]] = {}
    last: dict[int, Event] = {}
    started, done = [], []
    with open(path, encoding="utf-8") as file:
        for line, text in enumerate(file, 1):
            row = json.loads(text)
            rank, kind = int(row["rank"]), row["event"]
            event = last[rank] = Event(row, f"events_{rank}.jsonl", line, text.strip())
            if kind == "measure":
                measures.setdefault(rank, {})[row["name"]] = event
            elif kind == "step":
                steps.setdefault(rank, []).append(event)
            elif kind == "stage":
                marks.setdefault(rank, []).append((row["stage"], row["t"]))
            elif kind == "started":
                started.append(rank)
            elif kind == "done":
                done.append(rank)
    size = max(started, default=0) + 1
    return Run(Settings(**{"ranks": size, **settings}), measures=measures, steps=steps, last=last, marks=marks,
               started=tuple(started), done=tuple(done), seconds=max(e.row["t"] for e in last.values()))  # fmt: skip


def example(changes: dict[str, Any]) -> Run:
    """A healthy run on the CPU with changes.

    ``base`` names another recording. ``measure`` {"parity.distance": 0.5} replaces a value, ``losses`` the losses of
    the first rank, ``steps`` {"5": {"finite": false}} values of single steps. ``until`` ends the run in a stage: what
    comes later was never measured. ``error`` {"type", "message"} is raised there. Raises ValueError for another key.
    """
    unknown = set(changes) - set(KEYS)
    if unknown:
        raise ValueError(f"no such change: {', '.join(sorted(unknown))}")
    run = recorded(changes.get("base", "cpu"), changes.get("settings", {}))
    measures = {rank: dict(rows) for rank, rows in run.measures.items()}
    for path, value in changes.get("measure", {}).items():
        name, _, field = path.rpartition(".")
        if name not in measures[0]:
            measures[0][name] = Event({"name": name, "rank": 0, "dtype": "float32"}, "events_0.jsonl", 1, name)
        old = measures[0][name]
        row = {**old.row, field: value}
        measures[0][name] = old._replace(row=row, raw=json.dumps(row))
    steps = {rank: list(rows) for rank, rows in run.steps.items()}
    for n, loss in enumerate(changes.get("losses", ())):
        steps[0][n] = _with(steps[0][n], loss=loss)
    if "losses" in changes:
        del steps[0][len(changes["losses"]) :]
    for n, values in changes.get("steps", {}).items():
        steps[0] = [_with(e, **values) if e.row["n"] == int(n) else e for e in steps[0]]
    run = run._replace(measures=measures, steps=steps, state=changes.get("state", run.state),
                       problem=changes.get("problem", ""), args=changes.get("args", {}),
                       code=changes.get("code", run.code), baseline=changes.get("baseline", {}))  # fmt: skip
    if run.problem:
        return run._replace(state="refused", measures={}, steps={}, last={}, marks={}, started=(), done=(), code=None)
    return _cut(run, changes["until"], changes.get("error")) if "until" in changes else run


def _with(event: Event, **values: Any) -> Event:
    row = {**event.row, **values}
    return event._replace(row=row, raw=json.dumps(row))


def _cut(run: Run, stage: str, error: dict[str, str] | None) -> Run:
    """The run ended in a stage."""
    began = next((t for name, t in run.marks.get(0, []) if name == stage), None)
    if began is None:
        raise ValueError(f"the recorded run has no stage {stage}")
    keep = {rank: {name: e for name, e in rows.items() if e.row["t"] < began} for rank, rows in run.measures.items()}
    steps = {rank: [e for e in rows if e.row["t"] < began] for rank, rows in run.steps.items()}
    row = {"event": "error" if error else "stage", "rank": 0, "stage": stage, "t": began, **(error or {})}
    last = Event(row, "events_0.jsonl", 1, json.dumps(row))
    return run._replace(measures=keep, steps={r: rows for r, rows in steps.items() if rows}, last={0: last}, done=(),
                        errors=(last,) if error else (),
                        marks={0: [m for m in run.marks[0] if m[1] <= began]})  # fmt: skip
