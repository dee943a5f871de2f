"""What the screen costs: time to the first picture, answer to a key while a large log is read, memory.

    python scripts/bench_tui.py [--size MB] [--file LOG] [--smoke PYTHON]

The doctor runs as a user sees it, in a terminal of its own (a pty); times are taken outside of it, from the key that is
sent to the bytes that come back. Nothing else should run meanwhile: wall time is what a user waits for. With
``--smoke`` a smoke test trains in that interpreter, over and over, while the log is read.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARKS = b"@&"
"""Characters that are typed in turn: no text of the screen and no escape sequence holds them."""

START = """
import sys, time
import textual.app
sys.stderr = sys.__stderr__
open({mark!r}, "w").write(repr((time.monotonic(), time.process_time())))
sys.argv[1:] = ["tui"]
from doctor.__main__ import main
main()
"""


class Terminal:
    """A doctor in a pty; everything it wrote is in ``seen``."""

    def __init__(self, columns: int = 120, rows: int = 40) -> None:
        handle, self._mark = tempfile.mkstemp()
        os.close(handle)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", DOCTOR_LANG="en", DOCTOR_STATE="off",
                              PYTHONPATH=ROOT)  # fmt: skip
            os.execv(sys.executable, [sys.executable, "-c", START.format(mark=self._mark)])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.seen = bytearray()
        self.most = 0

    def since_import(self) -> tuple[float, float]:
        """Seconds since textual was imported: wall, and CPU of the process."""
        now = time.monotonic()
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
            ticks = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
        with open(self._mark, encoding="utf-8") as file:
            wall, cpu = eval(file.read())
        return now - wall, ticks / os.sysconf("SC_CLK_TCK") - cpu

    def send(self, keys: bytes) -> None:
        """Type."""
        os.write(self.fd, keys)

    def wait(self, wanted: Sequence[bytes], limit: float, start: int = 0) -> float:
        """Seconds until one of the texts came, counted from now; raises TimeoutError."""
        began = time.monotonic()
        while True:
            if any(self.seen.find(one, start) >= 0 for one in wanted):
                return time.monotonic() - began
            left = began + limit - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{wanted!r} did not come; the end of the output: {bytes(self.seen[-300:])!r}")
            self.drain(min(left, 1.0), once=True)

    def drain(self, seconds: float, *, once: bool = False) -> None:
        """Read what comes for so long, or until something came."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                try:
                    self.seen += os.read(self.fd, 1 << 16)
                except OSError:
                    return
                if once:
                    return

    def private(self) -> int:
        """Anonymous memory of the process and its children, bytes (RssAnon: mapped files are not counted)."""
        total = 0
        for pid in [self.pid, *_children(self.pid)]:
            try:
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    total += next(int(row.split()[1]) << 10 for row in file if row.startswith("RssAnon"))
            except (OSError, StopIteration):
                continue
        return total

    def end(self) -> None:
        """Leave."""
        try:
            self.send(b"\x11")
            self.drain(1.5)
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        os.unlink(self._mark)


def _children(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) == pid:
                        found.append(int(name))
            except (OSError, ValueError):
                continue
    return found + [one for child in found for one in _children(child)]


def first_picture() -> tuple[float, float]:
    """Seconds, wall and CPU, from the import of textual to the first bytes that hold the home screen."""
    term = Terminal()
    try:
        term.wait([b"MindSpore Doctor"], 30)
        return term.since_import()
    finally:
        term.end()


def typed(term: Terminal, count: int, pause: float, running: bytes = b"") -> list[float]:
    """Seconds from each typed character to its echo, until ``count`` or until ``running`` stands in the output."""
    times = []
    for n in range(count):
        mark = MARKS[n % 2 : n % 2 + 1]
        start = len(term.seen)
        term.send(mark)
        seconds = term.wait([mark, running] if running else [mark], 20, start)
        if running and running in term.seen[start:]:
            break
        times.append(seconds)
        term.drain(pause)
        if n % 30 == 29:
            term.send(b"\x7f" * 30)
            term.drain(0.3)
            term.most = max(term.most, term.private())
    return times


def said(name: str, times: Sequence[float]) -> str:
    """One line of figures, milliseconds."""
    rows = sorted(times)
    late = sum(one > 0.05 for one in rows)
    return (
        f"{name}: median {statistics.median(rows) * 1e3:.1f} ms, "
        f"95 % below {rows[int(len(rows) * 0.95) - 1] * 1e3:.1f} ms, "
        f"longest {rows[-1] * 1e3:.1f} ms, {late} of {len(rows)} over 50 ms"
    )


def large_log(path: str, megabytes: int) -> None:
    """A log of one rank: training lines of the shipped sample over and over, its failure at the end."""
    with open(os.path.join(ROOT, "fixtures", "demo", "msrun_log", "worker_2.log"), "rb") as file:
        lines = file.read().splitlines(keepends=True)
    steps = b"".join(line for line in lines if b"[ERROR]" not in line and b"Traceback" not in line)
    block = steps * max(1, (1 << 20) // len(steps))
    with open(path, "wb") as file:
        while file.tell() < megabytes << 20:
            file.write(block)
        file.write(b"".join(lines[-60:]))


class Training:
    """Smoke tests, one after the other, until the end; ``done`` of them ended well."""

    def __init__(self, python: str) -> None:
        self._python, self._stop = python, threading.Event()
        self.done = 0
        self._thread = threading.Thread(target=self._run)
        if python:
            self._thread.start()

    def _run(self) -> None:
        command = [sys.executable, "-m", "doctor", "smoke", "--python", self._python, "--format", "json"]
        while not self._stop.is_set():
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     env={**os.environ, "PYTHONPATH": ROOT})  # fmt: skip
            while child.poll() is None:
                if self._stop.wait(0.1):
                    child.send_signal(signal.SIGINT)
                    child.wait(60)
                    return
            self.done += child.returncode == 0

    def end(self) -> None:
        """Stop."""
        self._stop.set()
        if self._python:
            self._thread.join()


def reading(path: str, python: str) -> None:
    """Print the figures of a screen that reads one large log, then shows it; ``python`` trains meanwhile."""
    term = Terminal()
    training = Training("")
    try:
        term.wait([b"checks"], 30)
        term.drain(4.0)
        term.send(b"\t")
        term.drain(0.5)
        print(said("key to echo, nothing runs", typed(term, 60, 0.03)))
        training = Training(python)
        term.send(b"\x1b[200~" + path.encode() + b"\x1b[201~")
        term.drain(0.5)
        start, began = len(term.seen), time.monotonic()
        term.send(b"\r")
        term.wait([b"Diagnosing"], 20, start)
        times = typed(term, 100_000, 0.02, b"Back")
        training.end()
        beside = f", {training.done} smoke tests done meanwhile and one under way" if python else ""
        print(said(f"key to echo, {os.path.getsize(path) >> 20} MB are read{beside}", times))
        print(f"load of the machine {os.getloadavg()[0]:.1f}")
        print(f"private memory while it is read, all processes: at most {term.most / 1e6:.0f} MB")
        term.drain(3.0)
        print(f"read and shown after {time.monotonic() - began:.1f} s; private memory with the log open: "
              f"{term.private() / 1e6:.0f} MB")  # fmt: skip
        moved = []
        for key in (b"\t", b"G", b"g", b"\x1b[6~", b"\x1b[6~", b"\x1b[5~"):
            start, sent = len(term.seen), time.monotonic()
            term.send(key)
            while len(term.seen) == start and time.monotonic() - sent < 5:
                term.drain(1.0, once=True)
            moved.append(time.monotonic() - sent)
            term.drain(0.4)
        print(said("moving in the log, key to first output", moved))
        print(f"private memory after that: {term.private() / 1e6:.0f} MB")
    finally:
        training.end()
        term.end()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, metavar="MB", help="of the log that is made (default: 1024)")
    parser.add_argument("--file", help="read this log, and make it if it is not there")
    parser.add_argument("--smoke", default="", metavar="PYTHON", help="train in this interpreter meanwhile")
    args = parser.parse_args()
    times = [first_picture() for _ in range(5)]
    wall, cpu = ([one[n] for one in times] for n in (0, 1))
    print(
        f"first picture after the import of textual: median {statistics.median(wall):.3f} s, "
        f"longest {max(wall):.3f} s; "
        f"CPU {statistics.median(cpu):.2f} s; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    path = args.file or os.path.join(tempfile.mkdtemp(prefix="bench-tui-"), "worker_2.log")
    if not os.path.exists(path):
        large_log(path, args.size)
    try:
        reading(path, args.smoke)
    finally:
        if not args.file:
            os.unlink(path)
            os.rmdir(os.path.dirname(path))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
