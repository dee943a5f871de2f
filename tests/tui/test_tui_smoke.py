"""The smoke screen: a run that is told event by event, its report, cancelling, a refusal; both languages."""

import threading

import pytest
from screen_helpers import text_of

from doctor import smoke
from doctor.smoke import judge
from doctor.smoke.compose import example
from doctor.tui.screens.smoke import SmokeScreen, chart


class Runner:
    """Stands for ``doctor.smoke.run``: tells a recorded run, and waits where the test says."""

    def __init__(self, base, changes=None):
        self.report = judge.report_of(base, example(changes or {}), (), b"", "/work")
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.calls = []

    def __call__(self, *, python, cancelled, listen):
        self.calls.append(python)
        listen({"event": "stage", "rank": 0, "stage": "import", "t": 0.0})
        listen({"event": "stage", "rank": 0, "stage": "train", "t": 2.5})
        listen({"event": "stage", "rank": 1, "stage": "elsewhere", "t": 2.5})
        for n, loss in enumerate((6.2, 3.1, "nan"), 1):
            listen({"event": "step", "rank": 0, "stage": "train", "n": n, "loss": loss, "t": 3.0})
        self.reached.set()
        while not self.go.wait(0.01):
            if cancelled():
                break
        if python == "/bin/false":
            raise smoke.SettingsError("不是解释器", "no interpreter")
        return self.report


async def settled(pilot):
    """Wait for the run and what its messages change."""
    if running := [w for w in pilot.app.workers if w.group == "smoke"]:
        await pilot.app.workers.wait_for_complete(running)
    for _ in range(4):
        await pilot.pause()


async def opened(app, base, lang="en", changes=None, size=(120, 40)):
    the = app(lang)
    runner = Runner(base, changes)
    return the, runner, the.run_test(size=size)


@pytest.mark.parametrize(
    ("lang", "start", "done"), [("en", "r starts", "confirmed on the CPU"), ("zh", "r 开始", "已在 CPU 上确认")]
)
async def test_a_run_is_told_live_and_its_verdicts_stand_at_the_end(app, base, lang, start, done):
    the, runner, screen = await opened(app, base, lang)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner))
        await pilot.pause()
        assert start in text_of(the)
        runner.go.clear()
        await pilot.press("r")
        runner.reached.wait(10)
        for _ in range(4):
            await pilot.pause()
        shown = text_of(the)
        assert "import" in shown and "2.5 s" in shown and "> train" in shown and "elsewhere" not in shown
        assert "loss nan" in shown and "█" in shown and "x" in shown
        runner.go.set()
        await settled(pilot)
        shown = text_of(the)
        assert done in shown and "NUM607" in shown
        await pilot.press("l")
        await pilot.pause()
        assert ("已在 CPU 上确认" if lang == "en" else "confirmed on the CPU") in text_of(the)


async def test_escape_ends_the_run_and_then_leaves(app, base):
    the, runner, screen = await opened(app, base, changes={"state": "cancelled", "until": "train"})
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner))
        await pilot.pause()
        runner.go.clear()
        await pilot.press("r", "r")
        runner.reached.wait(10)
        await pilot.press("escape")
        await settled(pilot)
        assert len(runner.calls) == 1
        assert "cancelled in stage train" in text_of(the)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(the.screen, SmokeScreen)


async def test_a_named_interpreter_is_used_and_a_wrong_one_told(app, base):
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner))
        await pilot.pause()
        await pilot.press("i", *"/bin/false", "enter")
        await settled(pilot)
        assert runner.calls == ["/bin/false"]
        assert "no interpreter" in text_of(the)


async def test_a_failure_shows_its_cause_and_can_be_saved(app, base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    the, runner, screen = await opened(app, base, changes={"measure": {"parity.distance": 0.5}})
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner))
        await pilot.pause()
        await pilot.press("r")
        await settled(pilot)
        assert "failure found" in text_of(the)
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        (saved,) = (
            tmp_path.iterdir() if len(list(tmp_path.iterdir())) == 1 else [p for p in tmp_path.iterdir() if p.is_file()]
        )
        assert "NUM607" in saved.read_text()


async def test_the_screen_is_reached_by_its_button(app):
    the = app("en")
    async with the.run_test(size=(80, 24)) as pilot:
        await pilot.click("#smoke")
        for _ in range(4):
            await pilot.pause()
        assert isinstance(the.screen, SmokeScreen)


async def test_the_screen_is_reached_by_key_and_holds_on_narrow_and_plain_terminals(app, monkeypatch):
    monkeypatch.setenv("DOCTOR_ASCII", "1")
    the = app("en")
    async with the.run_test(size=(60, 20)) as pilot:
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(the.screen, SmokeScreen)
        assert "r starts" in text_of(the)


def test_the_chart_shows_the_newest_and_what_is_not_finite():
    assert chart([3.0, 2.0, 1.0], 8, plain=True) == "@+_"
    assert chart([float("nan"), 1.0], 8, plain=True) == "x_"
    assert chart([float("nan")] * 3, 2) == "xx"
    assert chart([9.0, 2.0, 1.0], 2, plain=True) == "@_"
    assert chart([1.0], 0) == ""
