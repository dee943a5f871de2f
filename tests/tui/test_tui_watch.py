"""The screen for a live run: a folder grows while it is watched; alarms, plots, pause, diagnosis; both languages."""

import asyncio
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from screen_helpers import eventually, same_screen, settle, shows, text_of
from textual.widgets import OptionList

from doctor.tui.screens.open import OpenScreen
from doctor.tui.screens.result import ResultScreen
from doctor.tui.screens.watch import WatchScreen

sys.path.insert(0, str(Path(__file__).parents[1] / "watch"))
from run_helpers import OOM, Clock, Run, steps
from timing import busy

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Two ranks that train, in ``run`` below the working directory; the time of alarms stands still."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.setattr("doctor.watch.alarms.time", SimpleNamespace(time=lambda: 45_296.0))
    monkeypatch.setattr("doctor.watch.show.duration", lambda seconds: "9 s")
    run = Run(tmp_path / "run")
    for rank in (0, 1):
        run.log(rank, steps(1, 60, total=200))
    yield run
    monkeypatch.undo()
    time.tzset()


async def opened(app, lang, size, clock):
    the = app(lang)
    the._rules = None
    the.watching = WatchScreen("run", interval=0.02, clock=clock)
    return the, the.run_test(size=size)


async def grown(pilot, clock, text):
    """Whether something comes into view after a while."""

    def seen():
        clock.now += 1.0
        return text in text_of(pilot.app)

    return await eventually(pilot, seen)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", SIZES)
async def test_a_run_that_fails_while_it_is_watched(app, logs, lang, size):
    clock = Clock()
    the, screen = await opened(app, lang, size, clock)
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "60/200")
        logs.log(0, steps(61, 90, total=200))
        logs.log(1, steps(61, 80, total=200) + steps(81, 90, loss="nan", total=200))
        assert await grown(pilot, clock, "NUM")
        logs.log(1, OOM)
        assert await grown(pilot, clock, "MEM009")
        await settle(pilot)
        the.watching.action_pause()
        assert await shows(pilot, "Paused" if lang == "en" else "已暂停")
        await settle(pilot)
        await same_screen(f"watch-{lang}-{size[0]}", the)


async def test_enter_opens_the_diagnosis_at_its_evidence_and_escape_comes_back(app, logs):
    clock = Clock()
    the, screen = await opened(app, "en", (120, 40), clock)
    logs.log(1, OOM)
    logs.log(0, steps(61, 80, loss="nan", total=200))
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "MEM009") and await shows(pilot, "NUM")
        rules = list(the.watching._shown)
        the.watching.query_one(OptionList).highlighted = rules.index(next(r for r in rules if r.startswith("NUM")))
        await pilot.press("enter")
        await settle(pilot)
        assert isinstance(the.screen, ResultScreen)
        assert "run/worker_0.log:61" in text_of(the) and "loss: nan" in text_of(the)
        await pilot.press("escape")
        await settle(pilot)
        assert the.screen is the.watching and the.watching.running


async def test_escape_ends_the_watch_and_then_leaves(app, logs):
    the, screen = await opened(app, "en", (100, 30), Clock())
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "60/200")
        await pilot.press("escape")
        assert await shows(pilot, "Watch ended")
        assert not the.watching.running and the.screen is the.watching
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(the.screen, WatchScreen)


async def test_a_pause_reads_nothing_and_goes_on_where_it_was(app, logs):
    clock = Clock()
    the, screen = await opened(app, "en", (100, 30), clock)
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "60/200")
        await pilot.press("p")
        assert await shows(pilot, "Paused")
        await pilot.pause(0.1)
        logs.log(0, steps(61, 70, total=200))
        await pilot.pause(0.2)
        assert "70/200" not in text_of(the)
        await pilot.press("p")
        assert await shows(pilot, "70/200")


async def test_d_diagnoses_all_that_is_there_and_the_watch_goes_on(app, logs):
    the, screen = await opened(app, "en", (100, 30), Clock())
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "60/200")
        logs.log(1, OOM)
        await pilot.press("d")
        assert await eventually(pilot, lambda: isinstance(the.screen, ResultScreen))
        await settle(pilot)
        assert isinstance(the.screen, ResultScreen) and "Not enough device" in text_of(the)
        assert the.watching.running


async def test_the_report_so_far_is_copied_and_saved(app, logs, tmp_path):
    the, screen = await opened(app, "en", (120, 40), Clock())
    logs.log(1, OOM)
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "MEM009")
        await pilot.press("c")
        await pilot.pause()
        assert "worker_1.log:61" in the.clipboard
        await pilot.press("s")
        await pilot.pause()
        the.screen.query_one("#save-path").value = str(tmp_path / "live.txt")
        await pilot.press("enter")
        await pilot.pause()
        assert "worker_1.log:61" in (tmp_path / "live.txt").read_text()


async def test_w_asks_for_the_folder_and_follows_it(app, logs):
    the = app("en")
    async with the.run_test(size=(100, 30)) as pilot:
        await pilot.press("w")
        await pilot.pause()
        assert isinstance(the.screen, OpenScreen)
        the.screen.dismiss("run")
        assert await shows(pilot, "60/200")
        assert isinstance(the.screen, WatchScreen) and the.screen.path == "run"


async def test_hostile_lines_are_shown_harmless_and_secrets_are_masked(app, logs):
    the, screen = await opened(app, "en", (120, 40), Clock())
    logs.log(1, "\x1b]0;owned\x07\nRuntimeError: [red]x[/red] \u202e password=hunter2222 \x9b31m " + "y" * 9000 + "\n")
    async with screen as pilot:
        the.push_screen(the.watching)
        assert await shows(pilot, "RUN000")
        seen = text_of(the)
        assert "hunter2222" not in seen and "[red]x[/red]" in seen
        assert not set(seen) & set("\x1b\x07\u202e\x9b")


async def test_keys_are_answered_while_a_long_log_is_read(app, logs):
    logs.log(0, "a line of no interest at all, again and again\n" * 1_500_000)
    the, screen = await opened(app, "en", (100, 30), time.monotonic)
    async with screen as pilot:
        the.push_screen(the.watching)
        await pilot.pause()
        late = []
        for _ in range(100):
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            late.append(time.perf_counter() - began - 0.01)
        assert sorted(late)[50] < 0.05 * busy()  # the median: other tests run beside this one
        await pilot.press("escape")
        assert await shows(pilot, "Watch ended")
