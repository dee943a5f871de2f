"""Random keys and pastes end nothing; text from outside steers nothing; no worker's failure is the end."""

import random

import pytest
from screen_helpers import HERE, paste, settle, shows, text_of
from textual import events
from textual.screen import ModalScreen

from doctor.hosts.base import MemoryHost
from doctor.tui.app import DoctorApp
from doctor.tui.places import PLACES

KEYS = (
    "up", "down", "left", "right", "pageup", "pagedown", "home", "end", "tab", "shift+tab", "enter", "escape", "space",
    "backspace", "delete", "slash", "question_mark", "f1", "f2", "ctrl+p", "ctrl+a", "ctrl+w", "dollar_sign", "N", "G",
    *"0123456789abcdefghijklmnoprstuvwxyz",
)  # fmt: skip
"""Everything but the keys that leave."""

EVIL = (
    "[ERROR] [/bold] [@click=app.quit]x[/] [link=file:///etc]y[/] ${HOME} {name} %s\n"
    "\x1b[2J\x1b[31mred\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x9b5n\x08\x08\x00\n"
    "\u202eright to left\u2066 \u200bzero\u200d width\ufeff \u2028 line\n"
    'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nRuntimeError: [red]no[/red]\n'
)
FORBIDDEN = set("\x1b\x07\x08\x00\x9b\u202e\u2066\u200b\u200d\ufeff\u2028")

PASTES = (
    EVIL, "", " ", "\r\r\r", "run", "x" * 100_000, "/nowhere/at/all", "~", "'", "\0", "1e-5", "- [", "{" * 2000,
    "[WARNING] DEVICE(7,7f00,python):2026-03-18-09:01:40.100.200 [a.cc:8] Run] LINK IS SLOW on device 1\n" * 50,
)  # fmt: skip


async def fuzz(the, seed, count):
    """Press keys and paste, ``count`` times; the application must be there afterwards, and harmless all the way."""
    dice = random.Random(seed)
    async with the.run_test(size=(100, 30)) as pilot:
        for n in range(count):
            if dice.random() < 0.05:
                the.post_message(events.Paste(dice.choice(PASTES)))
            elif dice.random() < 0.02:
                await pilot.resize_terminal(*dice.choice([(80, 24), (120, 40), (200, 60), (40, 10)]))
            else:
                await pilot.press(dice.choice(KEYS))
            if n % 20 == 0:
                await pilot.pause()
                assert not FORBIDDEN & set(text_of(the))
            assert the._exception is None and the.is_running
        await settle(pilot)
        assert not FORBIDDEN & set(text_of(the))
    assert the.return_code in (None, 0)


@pytest.fixture
def careful(tmp_path, monkeypatch, run):
    """An application that finds nothing to harm: a folder of its own, a host made of texts, no real training."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def no_training(**more):
        raise RuntimeError("no training here")

    monkeypatch.setattr("doctor.smoke.run", no_training)
    monkeypatch.setattr("doctor.tui.screens.smoke.SmokeScreen.__init__.__defaults__", (no_training,), raising=False)
    return DoctorApp(
        lang="en", rules=str(HERE / "rules"), glance=True,
        host=lambda: MemoryHost({"run npu-smi info": EVIL, "ask env": EVIL}, "\x1b]0;evil\x07"),
    )  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_keys_and_pastes_end_nothing(careful, seed):
    await fuzz(careful, seed, 60)


@pytest.mark.slow
@pytest.mark.timeout(1500)
async def test_two_thousand_random_keys_and_pastes_end_nothing(careful):
    await fuzz(careful, 20260401, 2000)


@pytest.mark.parametrize("place", [place.name for place in PLACES])
async def test_hostile_text_pasted_on_any_screen_is_diagnosed_and_shown_harmless(careful, place):
    async with careful.run_test(size=(120, 40)) as pilot:
        careful.show(place)
        await settle(pilot)
        if isinstance(careful.screen, ModalScreen):  # it asks for a file first
            await pilot.press("escape")
            await settle(pilot)
        assert not FORBIDDEN & set(text_of(careful))
        await paste(pilot, EVIL + "y" * (1 << 20) + "\n")
        assert type(careful.screen).__name__ == "ResultScreen"
        assert "RuntimeError" in text_of(careful) or "[red]no[/red]" in text_of(careful)
        for key in ("down", "tab", "end", "right", "z", "z"):
            await pilot.press(key)
            await pilot.pause()
            assert not FORBIDDEN & set(text_of(careful))


# ---------------------------------------------------------------------- failures of workers


class Broken(Exception):
    """A failure of our own, with markup in its words."""


def broken(*args, **more):
    raise Broken("[/bold] out of order")


FAULTS = {
    "machine": ("doctor.checkup.Checkup.steps", "e"),
    "report": ("doctor.checkup.Checkup.report", "e"),
    "rules": ("doctor.rulesearch.Index", "k"),
    "model": ("doctor.tui.configs.look", "m"),
    "smoke": ("doctor.smoke.run", "t r"),
    "loading": ("doctor.tui.places.Place.load", "e"),
}
"""What breaks, and the keys that lead there."""


@pytest.mark.parametrize("what", FAULTS)
async def test_a_failing_worker_is_said_and_saved_and_the_screen_goes_on(what, monkeypatch, tmp_path, run):
    where, keys = FAULTS[what]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(where, broken)
    the = DoctorApp(lang="en", host=lambda: MemoryHost({}), rules=str(HERE / "rules"))
    the.model_path = "run"
    if what == "smoke":
        from doctor.tui.screens import smoke

        usual = smoke.SmokeScreen.__init__.__defaults__
        monkeypatch.setattr(smoke.SmokeScreen.__init__, "__defaults__", (broken, *usual[1:]))
    async with the.run_test(size=(120, 40)) as pilot:
        for key in keys.split():
            await pilot.press(key)
            await settle(pilot)
        notices = " ".join(notice.message for notice in the._notifications)
        assert "out of order" in notices or await shows(pilot, "out of order")
        assert list(tmp_path.glob("doctor-crash-*.txt"))
        monkeypatch.undo()
        await pilot.press("escape", "escape")
        await settle(pilot)
        assert the._exception is None and the.is_running
    assert the.return_code in (None, 0)


async def test_a_paste_into_an_input_line_is_marked_and_a_log_keeps_its_bytes(careful):
    async with careful.run_test(size=(120, 40)) as pilot:
        line = careful.screen.query_one("#home-path")
        line.focus()
        await pilot.pause()
        careful.post_message(events.Paste("a\x1b[31mb\u202ec"))
        await settle(pilot)
        assert line.value == "a␛[31mb⟨U+202E⟩c" and "a␛[31mb⟨U+202E⟩c" in text_of(careful)
        line.value = "raw\x1b[31m\u202e\u200bname"
        await settle(pilot)
        assert "raw[31mname" in text_of(careful) and not FORBIDDEN & set(text_of(careful))
        line.focus()
        await paste(pilot, "one\x1b[31m\ntwo\n")
        [path] = careful.screen._real_paths.values() if hasattr(careful.screen, "_real_paths") else [""]
        assert not path or open(path, "rb").read() == b"one\x1b[31m\ntwo\n"  # noqa: SIM115
