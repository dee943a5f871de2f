"""One call of the smoke test: the folder, the run, comparisons, the report; and nothing left behind."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.model import Report
from doctor.rulebase import load
from doctor.smoke import baseline as baselines
from doctor.smoke import judge, runner
from doctor.smoke.faults import NAMES, armed
from doctor.smoke.settings import COMPARED, Settings, SettingsError
from doctor.smoke.verdicts import PARTS, Run, figures, losses

COMPARED_STEPS = 12
"""Steps of each run of a comparison, unless steps were asked for."""

VARIANTS: dict[str, tuple[Any, ...]] = {
    "recompute": (False, True),
    "amp": ("off", "O2", "auto"),
    "mode": ("jit", "graph", "pynative"),
    "attention": ("plain", "flash"),
}


class Session(NamedTuple):
    """The arguments of ``doctor.smoke.run``."""

    settings: Settings
    python: str
    workdir: str
    baseline: str
    compare: tuple[str, ...]
    rules: str | None
    cancelled: Callable[[], bool]
    listen: Callable[[dict[str, Any]], None]

    def report(self) -> Report:
        """Run everything."""
        settings = self.settings
        if settings.inject and settings.inject not in NAMES:
            listed = ", ".join(NAMES)
            raise SettingsError(f"没有名为 {settings.inject} 的故障（可选 {listed}）",
                                f"no fault is named {settings.inject} (there are {listed})")  # fmt: skip
        unknown = [name for name in self.compare if name not in COMPARED]
        if unknown:
            listed = ", ".join(COMPARED)
            raise SettingsError(f"compare 只能取 {listed}", f"compare takes {listed}")
        settings = armed(settings)
        if settings.weights:
            path = os.path.abspath(os.path.expanduser(settings.weights))
            if not os.path.isfile(path):
                raise SettingsError(f"没有权重文件 {settings.weights}", f"there is no weight file {settings.weights}")
            settings = settings._replace(weights=path)
        held = baselines.read(self.baseline) if self.baseline else {}
        target = runner.examine(self.python or runner.default_python())
        base = load(self.rules)
        work, made, trouble = self._folder()
        try:
            problem, args = runner.refused(target, work)
            if not problem:
                problem, more = ("work_folder", trouble) if trouble else runner.prepare(settings, work)
                args = {**args, **more}
            if problem:
                run = Run(settings, "refused", problem, args, None)
                return judge.report_of(base, run, (), b"", work)
            parts = PARTS if not self.compare else ()
            one = settings._replace(steps=settings.steps or COMPARED_STEPS) if self.compare else settings
            run, outputs = self._execute(one, target, work, parts)
            run = run._replace(args={**args, **run.args}, baseline=held.get(baselines.key_of(run), {}))
            report = judge.report_of(base, run, outputs.files, outputs.tail, work)
            if self.baseline:
                wrote = baselines.keep(self.baseline, run)
                report.facts["smoke.baseline_written"] = {"value": wrote, "source": self.baseline, "line": 0}
            if self.compare:
                rows = self._compared(one, target, work, run)
                report.facts["smoke.compare"] = {"value": rows, "source": "", "line": 0}
            return report
        finally:
            if made:
                shutil.rmtree(made, ignore_errors=True)

    def _folder(self) -> tuple[str, str, dict[str, str]]:
        """(work folder, the same if it is to be removed, what is wrong with it)."""
        if self.workdir:
            return os.path.abspath(self.workdir), "", {}
        try:
            made = runner.scratch_folder()
            return made, made, {}
        except OSError as error:
            return error.filename or "", "", {"path": str(error.filename or "TMPDIR"), "stage": "prepare",
                                              "why": error.strerror or ""}  # fmt: skip

    def _execute(
        self, settings: Settings, target: runner.Target, work: str, parts: tuple[str, ...]
    ) -> tuple[Run, runner.Outputs]:
        return runner.execute(settings, target, work, parts=parts, cancelled=self.cancelled, listen=self.listen)

    def _compared(self, settings: Settings, target: runner.Target, work: str, first: Run) -> list[dict[str, Any]]:
        """A row for each setting: step time, memory and loss, each run in a process of its own."""
        rows = [_row("", "", first)]
        device = first.measure("device")
        for name in self.compare:
            for value in VARIANTS[name]:
                if self.cancelled():
                    return rows
                if value == getattr(settings, name) or (name == "attention" and value == "plain"):
                    continue
                if value == "flash" and (device is None or device.row["device"] == "CPU"):
                    rows.append({"name": name, "value": value, "state": "not_here"})
                    continue
                folder = os.path.join(work, f"compare-{name}-{value}")
                os.makedirs(folder, exist_ok=True)
                run, _ = self._execute(settings._replace(**{name: value}), target, folder, ())
                rows.append(_row(name, str(value), run))
        return rows


def _row(name: str, value: str, run: Run) -> dict[str, Any]:
    """What a comparison tells of one run."""
    found = losses(run, min(run.steps, default=0))
    row: dict[str, Any] = {"name": name, "value": value, "state": "failed" if run.failed else "ended", **figures(run)}
    if run.failed:
        row["stage"] = run.stage
        row["text"] = str(run.errors[0].row["message"]).split("\n")[0][:120] if run.errors else run.state
    if found:
        row.update(first_loss=found[0], loss=found[-1], steps=len(found))
    return row
