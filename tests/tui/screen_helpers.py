"""Small runs to diagnose, waiting for threads, screens as plain text."""

import asyncio
import difflib
import os
import re
import time
from pathlib import Path

import pytest
from textual import events
from textual.worker import WorkerCancelled

from doctor import __version__

HERE = Path(__file__).parent
GROUPS = ("diagnose", "count", "search", "checks", "machine", "model", "offer", "patch", "write", "history",
          "trial", "draft", "lint", "smoke", "examine", "watch-diagnose")  # fmt: skip

HEAD = "DEVICE({pid},7f00,python):2026-03-18-09:{time}.100.200 [mindspore/ccsrc/a.cc:{line}] Run]"


def step(number, second):
    return f"[INFO] {HEAD.format(pid=7, time=f'01:{second:02d}', line=3)} step {number}, loss 2.{number:03d}"


def failing_run(folder):
    """Two ranks: rank 1 runs out of memory, rank 0 waits for it in vain; rank 1 also speaks of a slow link."""
    folder.mkdir()
    zero = [step(n, n) for n in range(1, 31)]
    zero.append(f"[ERROR] {HEAD.format(pid=7, time='07:10', line=44)} WAITED IN VAIN for rank 1")
    one = [step(n, n) for n in range(1, 21)]
    one.append(f"[WARNING] {HEAD.format(pid=8, time='01:40', line=8)} LINK IS SLOW on device 1")
    one += [step(n, n) for n in range(21, 31)]
    one.append(f"[ERROR] {HEAD.format(pid=8, time='02:00', line=9)} POOL EMPTY for MatMul-op1, size 4096")
    one += ["Traceback (most recent call last):", '  File "train.py", line 7, in <module>', "RuntimeError: pool"]
    (folder / "worker_0.log").write_text("\n".join(zero) + "\n", encoding="utf-8")
    (folder / "worker_1.log").write_text("\n".join(one) + "\n", encoding="utf-8")
    return folder


PATIENCE = 60.0
"""Seconds that something may take which takes one on an idle machine."""

SOON = 1.0
"""Seconds: a timer of less is waited for, such as the pause after typing; a notice stays longer."""


def _pumps(app):
    """All that takes messages."""
    return [app, *(node for screen in app.screen_stack for node in screen.walk_children(with_self=True))]


def _busy(app):
    """Whether a message waits to be handled, or something to be drawn."""
    screen, moving = app.screen, app.animator._animations or app.animator._scheduled
    drawing = screen._callbacks or screen._layout_required or screen._repaint_required or screen._dirty_widgets
    return bool(drawing or moving) or any(one.message_queue_size or one._next_callbacks for one in _pumps(app))


def _ticking(app):
    """Whether a timer will soon start something."""
    timers = [timer for one in _pumps(app) for timer in list(one._timers)]
    return any(t._repeat is not None and t._interval < SOON and t._task and not t._task.done() for t in timers)


async def still(pilot):
    """Wait until every message is handled and everything is drawn. Textual's own pause takes a process that gets no
    time of a busy machine for an idle one."""
    calm = 0
    for _ in range(200):  # what goes on forever, such as a run that is watched, is not waited for
        if not pilot.app.is_running or pilot.app._exit:
            return
        await pilot._wait_for_screen()
        await asyncio.sleep(0.005 if pilot.app.animator._animations else 0)
        pilot.app.screen._on_timer_update()
        calm = calm + 1 if not _busy(pilot.app) else 0
        if calm == 2:
            return


async def settle(pilot):
    """Wait for threads, for short timers, and for what they start; a directory tree's own worker never ends."""
    for _ in range(50):
        try:
            if running := [w for w in pilot.app.workers if w.group in GROUPS and not w.is_finished]:
                await pilot.app.workers.wait_for_complete(running)
        except WorkerCancelled:
            pass
        await still(pilot)
        ticking = _ticking(pilot.app)
        if not ticking and all(w.is_finished for w in pilot.app.workers if w.group in GROUPS):
            return
        await asyncio.sleep(0.02 * ticking)


async def eventually(pilot, true):
    """Whether something comes true, however busy the machine is."""
    until = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > until:
            return False
        await pilot.pause(0.01)
    return True


async def shows(pilot, text):
    """Whether a text comes into view."""
    return await eventually(pilot, lambda: text in text_of(pilot.app))


async def paste(pilot, text):
    """As the terminal's driver does it."""
    pilot.app.post_message(events.Paste(text))
    await pilot.pause()
    await settle(pilot)


async def diagnose(pilot, path):
    """Diagnose a path and wait for the report."""
    pilot.app.diagnose_path(str(path))
    await settle(pilot)


def text_of(app):
    """What is on the screen, without trailing blanks."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips()) + "\n"


async def same_screen(name, app):
    """Compare with ``screens/<name>.txt`` until it is so, or half a minute long; UPDATE_SCREENS=1 writes it anew."""
    path = HERE / "screens" / f"{name}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.write_text(_as_saved(app), encoding="utf-8")
    wanted = path.read_text(encoding="utf-8").splitlines()
    for _ in range(1500):
        if _as_saved(app).splitlines() == wanted:
            return
        await asyncio.sleep(0.02)
    pytest.fail("\n".join(["the picture is another:", *difflib.ndiff(wanted, _as_saved(app).splitlines())]))


def _as_saved(app):
    seen = re.sub(r"(hyperscan|re2|python)\n", "ENGINE\n", text_of(app).replace(__version__, "V.V.V"))
    # the number of checks grows with every rule
    return re.sub(r"\d+ checks: .*|检查 \d+ 项，.*", "N checks", seen)
