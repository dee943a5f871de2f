"""The child of a smoke run: executed by its path in the interpreter under test, ``python worker.py JOB [launch|rank]``.

JOB is a JSON file {"settings": {…}, "work": folder, "events": "fd:N" or a path with {rank}, "parts": […], "argv": […]};
``launch`` becomes ``argv`` (msrun), ``rank`` runs the course. Events go out as one JSON object a line; everything that
MindSpore prints stays on stdout and stderr. Standard library only up to the stage ``import``.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
import types
from typing import Any

STARTED = time.time()
FALLBACK = "DOCTOR-SMOKE-EVENT "
"""Begins an event on stderr when its own channel cannot be written (a full disk)."""


class Events:
    """The way out. Every event carries its rank, its stage and the seconds since the start."""

    def __init__(self, target: Any, rank: Any = 0) -> None:
        self.rank, self.stage, self._began = rank, "start", STARTED
        self._descriptor: int | None = None
        self._target = target

    def _open(self) -> Any:
        if self._descriptor is None:
            if self._target.startswith("fd:"):
                self._descriptor = int(self._target[3:])
            else:
                path = self._target.replace("{rank}", str(self.rank))
                self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return self._descriptor

    def say(self, event: Any, **values: Any) -> None:
        """Send one event. Numbers that JSON lacks become texts: "nan", "inf"."""
        row = {
            "event": event,
            "rank": self.rank,
            "stage": self.stage,
            "t": round(time.time() - self._began, 3),
            **values,
        }
        line = json.dumps(plain(row)) + "\n"
        try:
            data = line.encode()
            while data:
                data = data[os.write(self._open(), data) :]
        except OSError:
            sys.stderr.write("\n" + FALLBACK + line)
            sys.stderr.flush()

    def enter(self, stage: Any) -> None:
        """The next stage begins."""
        self.stage = stage
        self.say("stage")

    def measure(self, name: Any, **values: Any) -> None:
        """Something that a verdict is made of."""
        self.say("measure", name=name, **values)


def plain(value: Any) -> Any:
    """A value of plain JSON types."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def die_with_parent() -> None:
    """Ask Linux to kill this process when its parent ends, so that a killed doctor leaves nothing behind."""
    try:
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (OSError, AttributeError, ImportError):
        pass


def as_package() -> Any:
    """This folder as a package of its own, so that its modules shadow nobody's and need no doctor."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]
    package = types.ModuleType("doctor_smoke")
    package.__path__ = [here]
    sys.modules["doctor_smoke"] = package
    return package


def schedule(job: Any) -> Any:
    """msrun starts its scheduler with the same script: it only brings the ranks together."""
    import mindspore
    from doctor_smoke import compat
    from mindspore import communication

    compat.set_device(mindspore, "Ascend" if job["settings"]["device"] == "ascend" else "CPU")
    communication.init()
    return 0


def main(path: Any, part: Any) -> Any:
    """Run a job; the exit code is 0 when the course came to its end."""
    die_with_parent()
    with open(path, encoding="utf-8") as file:
        job = json.load(file)
    if part == "launch":
        os.execv(job["argv"][0], job["argv"])  # noqa: S606 - msrun of the interpreter under test
    sys.dont_write_bytecode = True
    as_package()
    if os.environ.get("MS_ROLE") == "MS_SCHED":
        return schedule(job)
    rank = int(os.environ.get("RANK_ID") or os.environ.get("RANK") or 0)
    events = Events(job["events"], rank)
    events.say("started", pid=os.getpid(), python=sys.version.split()[0], executable=sys.executable)
    try:
        events.enter("import")
        from doctor_smoke.course import Course

        Course(job, events).run()
    except BaseException as error:
        lines = [line for line in str(error).splitlines() if line.strip(" -")]
        events.say("error", type=type(error).__name__, message="\n".join(lines)[:2000])
        traceback.print_exc()
        sys.stderr.flush()
        # MindSpore's own clean-up after a failure can hang or print another failure
        os._exit(1)
    events.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
