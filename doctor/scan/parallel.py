"""Several files at once, in several processes. Loaded only when the amount of data pays for it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from doctor.scan.lazy import load_numpy
from doctor.scan.read import Read, read_path, with_facts
from doctor.scan.scanner import Matcher

NUMPY_FROM = 512 << 20
"""Bytes for which numpy is loaded once for all processes: the training lines of a large run are likely to take it."""

_worker: dict[str, Any] = {}


def _start(folder: str, engine: str, stopped: Any, done: Any) -> None:
    """In the child: Ctrl-C is the parent's business, which then sets the flag."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker["stopped"], _worker["done"] = stopped, done
    if "matcher" not in _worker:
        from doctor.rulebase import load

        _worker["matcher"] = Matcher(load(folder), engine)


def _one(job: tuple[int, str, str]) -> tuple[int, Read]:
    number, name, path = job
    done = _worker["done"]

    def add(count: int) -> None:
        with done.get_lock():
            done.value += count

    read = read_path(_worker["matcher"], name, path, lambda: bool(_worker["stopped"].value), add)
    # here, where there are several to do it; the head itself stays here too
    read = with_facts(read)
    return number, read._replace(scan=read.scan._replace(head=b""))


def read_files(
    matcher: Matcher,
    files: list[tuple[str, str]],
    workers: int,
    stop: Callable[[], bool],
    progress: Callable[[int], None] | None,
) -> Iterator[tuple[int, Read]]:
    """(number, what it holds) of ``files`` = [(name, path)], as they are done, largest first.

    Processes are forked from a single-threaded parent and spawned from a threaded one (the TUI). When ``stop`` turns
    true, or at Ctrl-C, the children end at their next chunk and what they found comes back all the same.
    """
    import multiprocessing
    import threading

    method = "fork" if threading.active_count() == 1 and sys.platform == "linux" else "spawn"
    context = multiprocessing.get_context(method)
    stopped, done = context.Value("b", 0, lock=False), context.Value("q", 0)
    if method == "fork":
        _worker["matcher"] = matcher
    else:
        _worker.pop("matcher", None)
    jobs = [(n, name, path) for n, (name, path) in enumerate(files)]
    jobs.sort(key=lambda job: -_size(job[2]))
    if method == "fork" and sum(_size(path) for _, _, path in jobs) >= NUMPY_FROM:
        load_numpy()
    told = 0
    pool = context.Pool(workers, _start, (matcher.base.folder, matcher.engine.name, stopped, done))
    interrupted = False
    try:
        results = pool.imap_unordered(_one, jobs)
        left = len(jobs)
        while left:
            try:
                result = results.next(timeout=0.1)
            except multiprocessing.TimeoutError:
                result = None
            except KeyboardInterrupt:
                interrupted = True
                stopped.value = 1
                continue
            if progress and done.value > told:
                progress(done.value - told)
                told = done.value
            if stop():
                stopped.value = 1
            if result is not None:
                left -= 1
                yield result
    finally:
        pool.terminate()
        pool.join()
        _worker.pop("matcher", None)
    if interrupted:
        raise KeyboardInterrupt


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
