"""A diagnosis in a process of its own: reading a large log takes Python's lock for long, and keys would wait for it.

The parent writes one line of JSON, the child answers with a line of JSON for its progress and, at the end, with the
report. A byte (or the end) of its input asks the child to end with what it has found. What kills the child, such as
lack of memory, is no end of the screen.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

from doctor import crash, engine
from doctor.model import Report
from doctor.render.safe import printable

GRACE = 20.0
"""Seconds that the child has to end with what it found; then it is killed."""

_START = "import sys; sys.path[:] = sys.argv[1:]; from doctor.tui.apart import main; main()"
"""The parent's path and no other: a folder with logs in it may hold modules of any name."""


class Failed(Exception):
    """The doctor itself failed in the child; ``path`` is the record, empty if there is none."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.path = path


def diagnose(
    inputs: Sequence[str], paste: str, rules: str | None, cancelled: Callable[[], bool],
    progress: Callable[[int, int, str], None],
) -> Report:  # fmt: skip
    """As ``engine.diagnose``; ``paste`` is the file that holds a paste, or empty. Raises Failed, OSError."""
    import pickle
    import subprocess

    child = subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", _START, *sys.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    try:
        request = {"inputs": list(inputs), "paste": paste, "rules": os.path.abspath(rules) if rules else None}
        child.stdin.write(json.dumps(request).encode() + b"\n")
        child.stdin.flush()
        for told in _answers(child.stdout, child.stdin, cancelled):
            if isinstance(told, bytes):
                # from the doctor's own code in the doctor's own child
                report: Report = pickle.loads(told)  # noqa: S301
                return report
            if "error" in told:
                raise Failed(str(told["error"]), str(told["path"]))
            progress(told["done"], told["total"], told["name"])
    except BrokenPipeError:
        pass
    finally:
        _end(child)
    raise Failed(f"the process that read ended early ({child.returncode})")


def _answers(out: IO[bytes], into: IO[bytes], cancelled: Callable[[], bool]) -> Any:
    """The messages of the child: dicts, and the report as bytes."""
    held, asked = b"", 0.0
    while True:
        if cancelled() and not asked:
            asked = time.monotonic()
            into.write(b"c")
            into.flush()
        if asked and time.monotonic() - asked > GRACE:
            return
        if not select.select([out], [], [], 0.1)[0]:
            continue
        data = os.read(out.fileno(), 1 << 20)
        if not data:
            return
        held += data
        while b"\n" in held:
            line, _, held = held.partition(b"\n")
            told = json.loads(line)
            if "bytes" not in told:
                yield told
                continue
            while len(held) < told["bytes"]:
                data = os.read(out.fileno(), 1 << 20)
                if not data:
                    return
                held += data
            yield held
            return


def _end(child: Any) -> None:
    """The child and what it started."""
    import signal

    for stream in (child.stdin, child.stdout):
        try:
            stream.close()
        except OSError:
            pass
    try:
        child.wait(1.0)
    except Exception:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass
        child.wait()


def main() -> None:
    """The child."""
    import pickle

    out, cancel = sys.stdout.buffer, threading.Event()
    request = json.loads(sys.stdin.buffer.readline())

    def listen() -> None:
        os.read(0, 1)
        cancel.set()

    threading.Thread(target=listen, daemon=True).start()
    last = 0.0

    def say(told: dict[str, Any], more: bytes = b"") -> None:
        try:
            out.write(json.dumps(told).encode() + b"\n" + more)
            out.flush()
        except OSError:  # nobody listens any more
            cancel.set()

    def progress(done: int, total: int, name: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            say({"done": done, "total": total, "name": name})

    try:
        paste = None
        if request["paste"]:
            with open(request["paste"], "rb") as file:
                paste = file.read()
        options = engine.Options(rules=request["rules"], cancelled=cancel.is_set, progress=progress)
        data = pickle.dumps(engine.diagnose(request["inputs"], options, paste=paste))
        say({"bytes": len(data)}, data)
    except Exception as error:
        text = printable(f"{type(error).__name__}: {error}")[:200]
        say({"error": text, "path": crash.save(error, "tui")})
    sys.stdout.flush()
    os._exit(0)
