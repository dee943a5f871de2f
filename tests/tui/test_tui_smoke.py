"""The smoke screen: a run that is told event by event, its report, cancelling, a refusal; both languages."""

import threading

import pytest
from screen_helpers import HERE, eventually, same_screen, settle, shows, text_of
from textual.widgets import Checkbox, Input, Select

from doctor import smoke
from doctor.smoke import judge, scaled
from doctor.smoke.compose import example
from doctor.smoke.faults import NAMES
from doctor.smoke.runner import Target
from doctor.tui.app import DoctorApp
from doctor.tui.screens.smoke import SmokeScreen, chart, plot
from doctor.tui.widgets.smokeform import GROUPS


class Runner:
    """Stands for ``doctor.smoke.run``: tells a recorded run, and waits where the test says."""

    def __init__(self, base, changes=None):
        self.report = judge.report_of(base, example(changes or {}), (), b"", "/work")
        self.reached, self.go = threading.Event(), threading.Event()
        self.go.set()
        self.calls = []

    def __call__(self, *, python, cancelled, listen, **knobs):
        self.calls.append(python)
        self.knobs = knobs
        listen({"event": "stage", "rank": 0, "stage": "import", "t": 0.0})
        listen({"event": "stage", "rank": 0, "stage": "train", "t": 2.5})
        listen({"event": "stage", "rank": 1, "stage": "elsewhere", "t": 2.5})
        for n, loss in enumerate((6.2, 3.1, "nan"), 1):
            listen({"event": "step", "rank": 0, "stage": "train", "n": n, "loss": loss, "t": 3.0,
                    "seconds": 0.25, "host_mib": 812.5})  # fmt: skip
        self.reached.set()
        while not self.go.wait(0.01):
            if cancelled():
                break
        if python == "/bin/false":
            raise smoke.SettingsError("不是解释器", "no interpreter")
        return self.report


def known(python):
    """Stands for ``doctor.smoke.runner.examine``."""
    if python == "/bin/false":
        raise smoke.SettingsError("不是解释器", "no interpreter")
    versions = {"python": "3.11.9"} | ({} if python == "/opt/bare/python" else {"mindspore": "2.10.0"})
    return Target(python, versions)


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
        the.push_screen(SmokeScreen(runner, known))
        await pilot.pause()
        assert start in text_of(the)
        runner.go.clear()
        await pilot.press("r")
        assert await eventually(pilot, runner.reached.is_set)
        await pilot.pause()
        shown = text_of(the)
        assert "import" in shown and "2.5 s" in shown and "> train" in shown and "elsewhere" not in shown
        assert "loss nan" in shown and "█" in shown and "x" in shown
        assert "0.25 s" in shown and "812.5 MiB" in shown
        runner.go.set()
        await settle(pilot)
        shown = text_of(the)
        assert done in shown and "ENV603" in shown
        await pilot.press("l")
        await pilot.pause()
        assert ("已在 CPU 上确认" if lang == "en" else "confirmed on the CPU") in text_of(the)


async def test_escape_ends_the_run_and_then_leaves(app, base):
    the, runner, screen = await opened(app, base, changes={"state": "cancelled", "until": "train"})
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await pilot.pause()
        runner.go.clear()
        await pilot.press("r", "r")
        assert await eventually(pilot, runner.reached.is_set)
        assert "esc Stop" in text_of(the) and "Back" not in text_of(the)
        await pilot.press("escape")
        await settle(pilot)
        assert "esc Back" in text_of(the)
        assert len(runner.calls) == 1
        assert "cancelled in stage train" in text_of(the)
        assert "cancelled in stage train" in text_of(the).splitlines()[0]
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(the.screen, SmokeScreen)


async def test_a_named_interpreter_is_used_and_a_wrong_one_told(app, base):
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await pilot.pause()
        await pilot.press("i", *"/bin/false", "enter")
        await settle(pilot)
        assert "no interpreter" in text_of(the)
        await pilot.press("escape", "r")
        await settle(pilot)
        assert runner.calls == ["/bin/false"] and "no interpreter" in text_of(the)


async def test_a_failure_shows_its_cause_and_can_be_saved(app, base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    the, runner, screen = await opened(app, base, changes={"measure": {"parity.distance": 0.5}})
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await pilot.pause()
        await pilot.press("r")
        await settle(pilot)
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
        await settle(pilot)
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


def test_a_plot_of_several_rows_keeps_the_shape():
    assert plot([4.0, 2.0, 1.0, float("nan")], 8, 2, plain=True) == ["#   ", "###x"]
    assert plot([1.0, 3.0, 2.0], 8, 2) == [" █▁", "▁██"]
    assert plot([], 8, 2) == [] and plot([1.0], 8, 0) == [] and plot([float("inf")], 8, 3) == []


# ---------------------------------------------------------------------- knobs


def test_the_form_holds_every_option_of_the_command_line_that_is_about_the_run():
    import argparse

    from doctor import smokecli

    commands = argparse.ArgumentParser().add_subparsers()
    smokecli.add(commands, lambda parser: None)
    options = {action.dest for action in commands.choices["smoke"]._actions} - {"help", "all", "strict"}
    named = [name for _, names in GROUPS for name in names]
    assert set(named) == options and len(named) == len(set(named))


async def test_knobs_reach_the_run_as_the_command_line_would_give_them(app, base):
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        await pilot.press("2")
        form = the.screen
        form.query_one("#smoke-layers", Input).value = "3"
        form.query_one("#smoke-rate", Input).value = "3e-4"
        form.query_one("#smoke-compare", Input).value = "amp, mode"
        form.query_one("#smoke-baseline", Input).value = "/tmp/base.json"
        form.query_one("#smoke-dtype", Select).value = "float16"
        form.query_one("#smoke-inject", Select).value = NAMES[0]
        form.query_one("#smoke-recompute", Checkbox).value = True
        await settle(pilot)
        await pilot.press("escape", "r")
        await settle(pilot)
        assert runner.knobs == {"layers": 3, "rate": 3e-4, "compare": ("amp", "mode"), "baseline": "/tmp/base.json",
                                "dtype": "float16", "inject": NAMES[0], "recompute": True}  # fmt: skip
        assert runner.calls == [""]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("heads", "3", "not divisible"),
        ("layers", "0", "between"),
        ("steps", "two", "no number"),
        ("steps", "5", "at least 8"),
    ],
)
async def test_knobs_that_cannot_work_are_refused_before_a_run(app, base, name, value, says):
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        the.screen.query_one(f"#smoke-{name}", Input).value = value
        await settle(pilot)
        assert says in text_of(the)
        await pilot.press("r")
        await settle(pilot)
        assert runner.calls == [] and says in text_of(the)
        the.screen.query_one(f"#smoke-{name}", Input).value = ""
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot)
        assert runner.calls == [""]


async def test_a_configuration_gives_the_shapes(app, base, tmp_path):
    config = tmp_path / "a.yaml"
    config.write_text(
        "model: {model_config: {type: LlamaConfig, hidden_size: 5120, num_heads: 40, num_layers: 40, vocab_size: 32000,"
        " seq_length: 4096}}\n"
    )
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        field = the.screen.query_one("#smoke-from_config", Input)
        await pilot.press("2")
        field.focus()
        field.value = str(config)
        await pilot.press("enter")
        await settle(pilot)
        wanted = scaled.read(str(config)).settings
        assert the.screen.query_one("#smoke-hidden", Input).placeholder == f"{wanted.hidden}"
        field.value = str(tmp_path / "none.yaml")
        field.focus()
        await pilot.press("enter")
        await settle(pilot)
        assert "No such file" in text_of(the)


@pytest.mark.parametrize(("lang", "says"), [("en", "No MindSpore in"), ("zh", "没有 MindSpore")])
async def test_an_interpreter_without_mindspore_is_a_state_with_what_to_do(app, base, lang, says):
    the, runner, screen = await opened(app, base, lang, size=(80, 24))
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, lambda python: known("/opt/bare/python")))
        await settle(pilot)
        assert says in text_of(the) and "/opt/bare/python" in text_of(the) and "which python" in text_of(the)
        await pilot.press("i")
        await settle(pilot)
        assert the.focused.id == "smoke-python"


async def test_a_verdict_shows_its_cause_and_next_step(base):
    the, runner = DoctorApp(lang="en"), Runner(base, {"measure": {"parity.distance": 0.5}})
    async with the.run_test(size=(120, 40)) as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        await pilot.press("r")
        await settle(pilot)
        assert "Cause" in text_of(the) and "Next" in text_of(the)
        await pilot.press("end")
        await settle(pilot)
        assert not any(line.split("│")[-1].strip() == "Cause" for line in text_of(the).splitlines())


async def test_cancelling_really_ends_the_child_and_all_it_started(app, tmp_path, monkeypatch):
    """The fake worker ignores SIGTERM and starts a process in a session of its own."""
    import os
    import sys
    import time

    from doctor.smoke import runner

    monkeypatch.setenv("SMOKE_FAKE", "hang")
    monkeypatch.setattr(runner, "WORKER", str(HERE.parent / "smoke" / "fake_worker.py"))
    monkeypatch.setattr(runner, "refused", lambda target, work: ("", {}))

    def ours():
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/environ", "rb") as file, open(f"/proc/{name}/stat", "rb") as state:
                    words, alive = file.read(), state.read().rpartition(b")")[2].split()[0] != b"Z"
                    if alive and f"{runner.MARK}=".encode() in words and str(tmp_path).encode() in words:
                        found.append(name)
            except (OSError, IndexError):
                continue
        return found

    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        the.push_screen(
            SmokeScreen(examine=lambda python: Target(sys.executable, {"python": "3", "mindspore": "2.10.0"}))
        )
        await settle(pilot)
        the.screen.query_one("#smoke-python", Input).value = sys.executable
        the.screen.query_one("#smoke-workdir", Input).value = str(tmp_path / "work")
        the.screen.query_one("#smoke-live").focus()
        await pilot.press("r")
        assert await shows(pilot, "> compile")
        assert len(ours()) >= 2
        began = time.monotonic()
        await pilot.press("escape")
        await settle(pilot)
        assert ours() == [] and time.monotonic() - began < 100  # they would sleep for 300
        assert "cancelled in stage compile" in text_of(the)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_pages(app, base, lang, size, monkeypatch):
    monkeypatch.setattr("doctor.tui.screens.smoke.default_python", lambda: "/opt/venv/bin/python")
    the, runner, screen = await opened(app, base, lang, size=size, changes={"measure": {"parity.distance": 0.5}})
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        await same_screen(f"smoke-idle-{lang}-{size[0]}", the)
        await pilot.press("2")
        await settle(pilot)
        await same_screen(f"smoke-settings-{lang}-{size[0]}", the)
        await pilot.press("escape", "r")
        await settle(pilot)
        await same_screen(f"smoke-{lang}-{size[0]}", the)


async def test_a_switch_is_told_by_its_mark_and_not_by_its_colour_alone(app, base):
    the, runner, screen = await opened(app, base)
    async with screen as pilot:
        the.push_screen(SmokeScreen(runner, known))
        await settle(pilot)
        await pilot.press("2")
        switch = the.screen.query_one("#smoke-profile", Checkbox)
        switch.focus()
        await settle(pilot)
        seen = []
        for _ in range(3):
            seen.append("X" in str(switch.render()))
            await pilot.press("space")
            await settle(pilot)
        assert seen == [False, True, False]
