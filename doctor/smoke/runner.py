"""The parent of a smoke run: prepares, starts the worker in the interpreter under test, listens, ends it.

Everything the child writes goes below the work folder. The child has a process group of its own and a mark in its
environment; both are looked for at the end, because msrun gives its workers groups of their own.
"""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from doctor.smoke.settings import Settings, SettingsError
from doctor.smoke.verdicts import PARTS, Event, Run

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
FALLBACK = b"DOCTOR-SMOKE-EVENT "
MARK = "DOCTOR_SMOKE_RUN"
KEPT_LOG = 4 << 20
"""Bytes of the child's output kept in memory, for when it cannot be written."""
SPARE = 48 << 20
"""Bytes beside the checkpoints that a run needs: logs, the graphs that MindSpore dumps when a compilation fails."""
QUIET_EXIT = 60.0
"""Seconds that the child may take to end after its last event."""

_PROBE = """
import json, sys
try:
    from importlib.metadata import version, PackageNotFoundError
except ImportError:
    print(json.dumps({"python": sys.version.split()[0]})); raise SystemExit
out = {"python": sys.version.split()[0], "executable": sys.executable}
for name in ("mindspore", "numpy"):
    try:
        out[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(out))
"""


class Target(NamedTuple):
    """The interpreter under test."""

    python: str
    versions: dict[str, str]


class Outputs(NamedTuple):
    """What a run leaves for the log rules: files, and the end of the output as it was read."""

    files: tuple[str, ...]
    tail: bytes


Listener = Callable[[dict[str, Any]], None]


def examine(python: str) -> Target:
    """Ask an interpreter for its versions, without importing MindSpore. Raises SettingsError if it is none."""
    # absolute, for the child has another working folder; not resolved, or a virtual environment would lose its packages
    path = os.path.abspath(shutil.which(os.path.expanduser(python)) or python)
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user names
            [path, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False
        )
        versions = json.loads(done.stdout.strip().splitlines()[-1])
        if not isinstance(versions, dict):
            raise ValueError
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "no answer"
        raise SettingsError(f"{python} 不是可用的 Python 解释器（{why}）",
                            f"{python} is no usable Python interpreter ({why})") from None  # fmt: skip
    return Target(path, {str(k): str(v) for k, v in versions.items()})


def refused(target: Target, work: str) -> tuple[str, dict[str, str]]:
    """(problem, its args) that makes starting pointless, or ("", …)."""
    versions = target.versions
    args = {"python": target.python, "python_version": versions.get("python", ""), "path": work}
    if "mindspore" not in versions:
        return "mindspore_absent", args
    args.update(version=versions["mindspore"], numpy=versions.get("numpy", ""))
    if _number(versions.get("numpy", "")) >= 2 and _numpy_bound(versions["mindspore"]):
        return "numpy_too_new", args
    return "", args


def _number(version: str) -> int:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else 0


def _numpy_bound(version: str) -> bool:
    """Whether a MindSpore is known to need numpy below 2: up to 2.10."""
    parts = [int(n) for n in re.findall(r"\d+", version)[:2]]
    return tuple(parts) <= (2, 10)


def prepare(settings: Settings, work: str) -> tuple[str, dict[str, str]]:
    """Make the work folder and try to write into it; (problem, args) if that fails."""
    args = {"path": work}
    need = 2 * settings.ranks * 12 * _weights(settings) + SPARE
    probe = os.path.join(work, f".probe-{os.getpid()}")
    try:
        os.makedirs(work, exist_ok=True)
        free = shutil.disk_usage(work).free
        if free < need:
            return "disk_full", {**args, "stage": "prepare", "size": f"{need >> 20} MiB", "got": f"{free >> 20} MiB"}
        with open(probe, "wb") as file:
            file.write(b"\0" * (1 << 20))
            file.flush()
            os.fsync(file.fileno())
        os.unlink(probe)
    except OSError as error:
        try:
            os.unlink(probe)
        except OSError:
            pass
        problem = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "work_folder"
        return problem, {**args, "stage": "prepare", "why": error.strerror or type(error).__name__}
    return "", args


def _weights(settings: Settings) -> int:
    """Number of weights of the model."""
    s = settings
    return (s.vocab + s.seq) * s.hidden + s.layers * (12 * s.hidden**2 + 13 * s.hidden) + 2 * s.hidden


def execute(
    settings: Settings,
    target: Target,
    work: str,
    *,
    parts: tuple[str, ...] = PARTS,
    cancelled: Callable[[], bool] = lambda: False,
    listen: Listener = lambda row: None,
) -> tuple[Run, Outputs]:
    """Run the course in the interpreter under test. The work folder must exist and be writable."""
    return _Child(settings, target, work, parts, cancelled, listen).run()


class _Child:
    """One child from its start to the end of the last process that came of it."""

    def __init__(
        self, settings: Settings, target: Target, work: str, parts: tuple[str, ...],
        cancelled: Callable[[], bool], listen: Listener,
    ) -> None:  # fmt: skip
        self.settings, self.target, self.work = settings, target, os.path.abspath(work)
        self.parts, self.cancelled, self.listen = parts, cancelled, listen
        self.mark = uuid.uuid4().hex
        self.single = settings.ranks == 1
        self.measures: dict[int, dict[str, Event]] = {}
        self.steps: dict[int, list[Event]] = {}
        self.errors: list[Event] = []
        self.last: dict[int, Event] = {}
        self.marks: dict[int, list[tuple[str, float]]] = {}
        self.started: list[int] = []
        self.done: list[int] = []
        self.lines: dict[str, int] = {}
        self.pending: dict[str, bytes] = {}
        self.tail = bytearray()
        self.lock = threading.Lock()

    def run(self) -> tuple[Run, Outputs]:
        began = time.monotonic()
        reader, writer = os.pipe()
        job = os.path.join(self.work, "job.json")
        log = os.path.join(self.work, "worker_0.log" if self.single else "msrun.log")
        state = "ended"
        try:
            with open(job, "w", encoding="utf-8") as file:
                json.dump(self._job(f"fd:{writer}"), file)
            process = subprocess.Popen(  # noqa: S603 - the interpreter that the user names
                [self.target.python, WORKER, job, "rank" if self.single else "launch"], cwd=self.work,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self._environment(),
                pass_fds=(writer,), start_new_session=True,
            )  # fmt: skip
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        assert process.stdout is not None
        copier = threading.Thread(target=self._copy, args=(process.stdout, log), daemon=True)
        copier.start()
        try:
            state = self._watch(process, reader, began)
        finally:
            self._end(process)
            copier.join(10)
            self._read_pipe(reader, 0.0)
            os.close(reader)
            self._read_files()
            self._read_fallback()
        run = Run(
            self.settings, state, "", {"path": self.work, "python": self.target.python}, process.returncode,
            self.measures, self.steps, tuple(self.errors), self.last, tuple(sorted(set(self.started))),
            tuple(sorted(set(self.done))),
            round(time.monotonic() - began, 2), self.marks, parts=self.parts,
        )  # fmt: skip
        return run, Outputs(self._logs(log), bytes(self.tail))

    # ------------------------------------------------------------------ starting

    def _job(self, events: str) -> dict[str, Any]:
        s = self.settings
        job: dict[str, Any] = {"settings": s._asdict(), "work": self.work, "events": events, "parts": list(self.parts)}
        if not self.single:
            # several processes: a file for each, because msrun hands no descriptors on
            job["events"] = os.path.join(self.work, "events_{rank}.jsonl")
            missing = s.inject == "worker-missing"
            job["argv"] = [
                self.target.python, "-m", "mindspore.parallel.cluster.run", f"--worker_num={s.ranks + missing}",
                f"--local_worker_num={s.ranks}", "--master_addr=127.0.0.1", f"--master_port={_free_port()}",
                f"--log_dir={os.path.join(self.work, 'msrun')}", "--join=True",
                f"--cluster_time_out={15 if missing else max(30, int(s.limit / 2))}",
                WORKER, os.path.join(self.work, "job.json"), "rank",
            ]  # fmt: skip
        return job

    def _environment(self) -> dict[str, str]:
        env = dict(os.environ)
        # a launcher's variables of the shell would make a single process wait for others
        for name in list(env):
            if (name.startswith("MS_") and name not in _KEPT) or name in ("RANK_ID", "RANK_SIZE", "RANK_TABLE_FILE"):
                del env[name]
        scratch = os.path.join(self.work, "tmp")
        os.makedirs(scratch, exist_ok=True)
        folder = os.path.dirname(self.target.python)
        # msrun starts the "python" that it finds first
        if not os.path.exists(os.path.join(folder, "python")) and not self.single:
            folder = os.path.join(self.work, "bin")
            os.makedirs(folder, exist_ok=True)
            path = os.path.join(folder, "python")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nexec "{self.target.python}" "$@"\n')
            os.chmod(path, 0o700)
        env.update({
            MARK: self.mark, "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
            "PATH": os.path.abspath(folder) + os.pathsep + env.get("PATH", ""),
            "ASCEND_PROCESS_LOG_PATH": os.path.join(self.work, "plog"),
        })  # fmt: skip
        return env

    # ------------------------------------------------------------------ listening

    def _watch(self, process: subprocess.Popen[bytes], reader: int, began: float) -> str:
        """Read events until the child ends; how it ended."""
        deadline = began + self.settings.limit
        quiet = 0.0
        while process.poll() is None:
            self._read_pipe(reader, 0.1)
            self._read_files()
            now = time.monotonic()
            if self.cancelled():
                return "cancelled"
            if now > deadline:
                return "limit"
            if len(set(self.done)) == self.settings.ranks:
                quiet = quiet or now
                if now - quiet > QUIET_EXIT:
                    return "ended"
        return "ended"

    def _read_pipe(self, reader: int, wait: float) -> None:
        """Take what is in the pipe, waiting a little for the first of it."""
        while select.select([reader], [], [], wait)[0]:
            try:
                data = os.read(reader, 1 << 16)
            except OSError:
                return
            if not data:
                # the far end is closed: the child is about to be gone
                time.sleep(wait)
                return
            self._take("events_0.jsonl", data)
            wait = 0.0

    def _read_files(self) -> None:
        if self.single:
            return
        for rank in range(self.settings.ranks + 1):
            name = f"events_{rank}.jsonl"
            try:
                with open(os.path.join(self.work, name), "rb") as file:
                    file.seek(self.lines.get("bytes " + name, 0))
                    data = file.read(1 << 20)
            except OSError:
                continue
            self.lines["bytes " + name] = self.lines.get("bytes " + name, 0) + len(data)
            if data:
                self._take(name, data)

    def _read_fallback(self) -> None:
        """Events that went out on stderr because their own channel was full."""
        with self.lock:
            text = bytes(self.tail)
        for line in text.split(b"\n"):
            if line.startswith(FALLBACK):
                self._take("stderr", line[len(FALLBACK) :] + b"\n")

    def _take(self, name: str, data: bytes) -> None:
        data = self.pending.pop(name, b"") + data
        *whole, rest = data.split(b"\n")
        if rest:
            self.pending[name] = rest
        for line in whole:
            self.lines[name] = self.lines.get(name, 0) + 1
            text = line.decode("utf-8", "replace")
            try:
                row = json.loads(text)
                event = Event(row, name, self.lines[name], text[:2000])
                self._note(event, int(row["rank"]))
            except (ValueError, KeyError, TypeError):
                continue
        if self.single and name != "stderr":
            try:
                with open(os.path.join(self.work, name), "ab") as file:
                    file.write(b"".join(line + b"\n" for line in whole))
            except OSError:
                pass  # a full disk: the events are in memory

    def _note(self, event: Event, rank: int) -> None:
        kind = event.row["event"]
        self.last[rank] = event
        if kind == "measure":
            self.measures.setdefault(rank, {})[event.row["name"]] = event
        elif kind == "step":
            self.steps.setdefault(rank, []).append(event)
        elif kind == "stage":
            self.marks.setdefault(rank, []).append((str(event.row["stage"]), float(event.row["t"])))
        elif kind == "error":
            self.errors.append(event)
        elif kind == "started":
            self.started.append(rank)
        elif kind == "done":
            self.done.append(rank)
        self.listen(event.row)

    def _copy(self, stream: Any, path: str) -> None:
        """The child's output into a log and into memory; a log that cannot be written does not stop it."""
        file = None
        try:
            file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed below
        except OSError:
            pass
        while data := os.read(stream.fileno(), 1 << 16):
            with self.lock:
                self.tail += data
                del self.tail[:-KEPT_LOG]
            if file is not None:
                try:
                    file.write(data)
                except OSError:
                    file.close()
                    file = None
        if file is not None:
            file.close()

    # ------------------------------------------------------------------ ending

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group and everything that carries the mark, and wait for the child."""
        if process.poll() is None:
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                pass
        _signal_group(process.pid, signal.SIGKILL)
        for _ in range(50):
            left = marked(self.mark)
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.05)
        process.wait()

    def _logs(self, log: str) -> tuple[str, ...]:
        """Log files that exist and hold something."""
        found = [log]
        for folder in ("msrun", "plog"):
            for at, _, names in os.walk(os.path.join(self.work, folder)):
                found += [os.path.join(at, name) for name in sorted(names) if name.endswith(".log")]
        return tuple(path for path in found if os.path.isfile(path) and os.path.getsize(path))


_KEPT = ("MS_ENABLE_LCCL", "MS_ALLOC_CONF", "MS_DEV_RUNTIME_CONF", "MS_COMPILER_CACHE_PATH")
"""Variables of MindSpore that are no launcher's."""


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass


def marked(mark: str) -> list[int]:
    """Processes of this user that carry the mark of a run in their environment."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    for name in names:
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                data = file.read()
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if wanted in data.split(b"\0") and state != b"Z":
            found.append(int(name))
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def default_python() -> str:
    """The interpreter that is tried when none is named: the ``python`` of the shell, else the doctor's own."""
    for name in ("python", "python3"):
        path = shutil.which(name)
        if path:
            return path
    return sys.executable


def other_pythons() -> list[str]:
    """Interpreters that could be named instead: those of the PATH and of the usual folders of environments. Only looked
    for, none is run."""
    home = os.path.expanduser("~")
    found = [shutil.which(name) for name in ("python", "python3", *(f"python3.{n}" for n in range(14, 7, -1)))]
    for folder in ("miniconda3/envs", "anaconda3/envs", ".conda/envs", "miniforge3/envs", ".virtualenvs"):
        place = os.path.join(home, folder)
        try:
            names = sorted(os.listdir(place))[:20]
        except OSError:
            continue
        found += [os.path.join(place, name, "bin", "python") for name in names]
    return list(dict.fromkeys(path for path in found if path and os.access(path, os.X_OK)))


def scratch_folder() -> str:
    """A new folder for one run. Raises OSError."""
    return tempfile.mkdtemp(prefix="doctor-smoke-")
