"""This machine, asked now. Read-only commands of the allow-list, bounded answers, a time limit on every child."""

from __future__ import annotations

import atexit
import contextlib
import glob
import json
import os
import selectors
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from doctor.hosts.allowed import TOOLS, allowed
from doctor.hosts.base import TEXT_LIMIT, run_key
from doctor.model import Raw

MANY = 4096
"""Files a glob may name; /dev of the largest host has a tenth of that."""


class LiveHost:
    """The machine the doctor runs on.

    ``given`` are answers of the caller to ``ask`` questions (the path of a rank table, the number of nodes), which come
    before the sensors'. ``python`` is the interpreter that trains.
    """

    live = True

    def __init__(self, name: str = "", given: Mapping[str, Any] | None = None, python: str = "") -> None:
        self.name = name or os.uname().nodename
        self.given, self.python = dict(given or {}), python

    def run(self, *argv: str, limit: float = 10.0) -> Raw:
        key = run_key(argv)
        if not allowed(argv):
            return Raw(key, "refused")
        tool = TOOLS[argv[0]]
        path = shutil.which(argv[0]) or next((p for p in tool.places if os.access(p, os.X_OK)), None)
        if path is None:
            # docker makes a folder of a mount whose source is missing: the name is there and cannot be started
            odd = next((p for p in (*_on_path(argv[0]), *tool.places) if os.path.lexists(p)), None)
            if odd is None:
                return Raw(key, "missing", err=f"{argv[0]}: command not found", code=127)
            why = "Is a directory" if os.path.isdir(odd) else "Permission denied"
            return Raw(key, "denied" if why[0] == "P" else "failed", err=f"{odd}: {why}", code=126)
        env = {k: v for k, v in os.environ.items() if k not in tool.drop}
        env["LC_ALL"] = "C"
        return run_child(key, [path, *argv[1:]], limit, env)

    def read(self, path: str, size: int = TEXT_LIMIT) -> Raw:
        key, began = f"file {path}", time.monotonic()
        try:
            # never wait for the writer of a pipe, never become the terminal's owner
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            return Raw(key, _state(error), err=error.strerror or "")
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return Raw(key, "failed", err="not a regular file")
            parts, left = [], size + 1
            while left > 0 and (part := os.read(handle, min(left, 1 << 16))):
                parts.append(part)
                left -= len(part)
        except OSError as error:
            return Raw(key, _state(error), err=error.strerror or "")
        finally:
            os.close(handle)
        data = b"".join(parts)
        return Raw(
            key, "ok", _text(data[:size]), "", None, round(time.monotonic() - began, 3), len(data) > size
        )  # fmt: skip

    def look(self, pattern: str) -> Raw:
        key, began = f"look {pattern}", time.monotonic()
        rows = []
        try:
            for n, path in enumerate(glob.iglob(pattern)):
                if n >= MANY:
                    break
                rows.append(_row(path))
        except OSError as error:
            return Raw(key, _state(error), err=error.strerror or "")
        found = sorted((row for row in rows if row), key=lambda row: str(row["path"]))
        return Raw(key, "ok", json.dumps(found), "", None, round(time.monotonic() - began, 3), len(rows) >= MANY)

    def ask(self, what: str) -> Raw:
        key, began = f"ask {what}", time.monotonic()
        if what in self.given:
            return Raw(key, "ok", json.dumps(self.given[what]))
        from doctor.hosts import sensors

        sensor = sensors.SENSORS.get(what)
        if sensor is None:
            return Raw(key, "missing")
        try:
            value = sensor(self.python) if what == "python" else sensor()
            return Raw(key, "ok", json.dumps(value, default=str), "", None, round(time.monotonic() - began, 3))
        except OSError as error:
            return Raw(key, _state(error), err=str(error)[:500])
        except Exception as error:  # a sensor of the doctor's own must not end the other checks
            return Raw(key, "failed", err=f"{type(error).__name__}: {error}"[:500])


def _on_path(name: str) -> list[str]:
    return [os.path.join(folder, name) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]


def _state(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "denied"
    return "missing" if isinstance(error, (FileNotFoundError, NotADirectoryError)) else "failed"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_KINDS = (
    (stat.S_ISLNK, "link"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "dir"), (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"), (stat.S_ISFIFO, "fifo"), (stat.S_ISSOCK, "socket"),
)  # fmt: skip


def _row(path: str) -> dict[str, Any] | None:
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    import grp
    import pwd

    def name(table: Any, number: int) -> str:
        try:
            return str(table(number)[0])
        except KeyError:
            return str(number)

    kind = next((word for test, word in _KINDS if test(seen.st_mode)), "other")
    return {
        "path": path,
        "kind": kind,
        "mode": f"{stat.S_IMODE(seen.st_mode):o}",
        "user": name(pwd.getpwuid, seen.st_uid),
        "group": name(grp.getgrgid, seen.st_gid),
        "size": seen.st_size,
        "target": os.path.realpath(path) if kind == "link" else "",
        "r": os.access(path, os.R_OK),
        "w": os.access(path, os.W_OK),
    }


_running: set[subprocess.Popen[bytes]] = set()
_ending: list[bool] = []


def _end_running() -> None:
    """No tool outlives the doctor: a run that is interrupted, or goes on without a tool that hangs, leaves its thread
    waiting."""
    _ending.append(True)
    for child in list(_running):
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)


atexit.register(_end_running)


def run_child(key: str, command: list[str], limit: float, env: Mapping[str, str] | None = None) -> Raw:
    """Start a command in a process group of its own, read at most ``TEXT_LIMIT`` bytes of each stream, and end the
    group after ``limit`` seconds. Never raises for what the command does."""
    began = time.monotonic()
    if _ending:
        return Raw(key, "killed")
    try:
        child = subprocess.Popen(  # noqa: S603 - the callers' commands are those of the allow-list
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
    except PermissionError as error:
        return Raw(key, "denied", err=f"{command[0]}: {error.strerror}", code=126)
    except FileNotFoundError as error:
        return Raw(key, "missing", err=f"{command[0]}: {error.strerror}", code=127)
    except OSError as error:
        return Raw(key, "failed", err=f"{command[0]}: {error.strerror}", code=126)
    assert child.stdout is not None and child.stderr is not None
    _running.add(child)
    with child.stdout, child.stderr:
        out, err, state, cut = _collect(child, began + limit)
        # before the streams close: a child that prints on would end of that, as if by itself
        _kill(child)
    _running.discard(child)
    code = child.returncode
    if state == "ok" and code is not None and code < 0:
        state = "killed"
    return Raw(key, state, _text(out), _text(err), code, round(time.monotonic() - began, 3), cut)


def _collect(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bytes, str, bool]:
    """(stdout, stderr, state, whether something was cut) of a child until both streams end, it ends, or time is up."""
    assert child.stdout is not None and child.stderr is not None
    parts: dict[int, list[bytes]] = {child.stdout.fileno(): [], child.stderr.fileno(): []}
    sizes = dict.fromkeys(parts, 0)
    state, cut = "ok", False
    with selectors.DefaultSelector() as selector:
        for stream in (child.stdout, child.stderr):
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        ended_at = 0.0
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                state = "timeout"
                break
            # a grandchild may hold the streams open after the child has ended
            if not ended_at and _has_ended(child):
                ended_at = time.monotonic()
            if ended_at and time.monotonic() - ended_at > 1.0:
                break
            for event, _ in selector.select(min(left, 0.2)):
                try:
                    data = os.read(event.fd, 1 << 16)
                except BlockingIOError:
                    continue
                if not data:
                    selector.unregister(event.fileobj)
                    continue
                room = TEXT_LIMIT - sizes[event.fd]
                parts[event.fd].append(data[:room])
                sizes[event.fd] += len(data[:room])
                if len(data) > room:
                    cut = True
            if cut:
                # nothing more is wanted of a command that never stops printing
                break
        if state == "ok" and not cut:
            while not _has_ended(child):
                if time.monotonic() > deadline:
                    state = "timeout"
                    break
                time.sleep(0.005)
        out, err = (b"".join(found) for found in parts.values())
    return out, err, state, cut


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether a child has ended. It stays a zombie: its number, which is its group's, belongs to nobody else."""
    try:
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a child and all of its group: one that has ended itself may have left children behind."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
    try:
        # a child in an uninterruptible sleep (a driver that hangs) cannot be waited for
        child.wait(2.0)
    except subprocess.TimeoutExpired:
        pass
