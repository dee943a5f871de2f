"""Every screen as plain text, in both languages, from 80x24 to 200x60."""

import os
import subprocess
import sys

import pytest
from rich.cells import cell_len
from screen_helpers import diagnose, same_screen, settle, text_of

from doctor.i18n import texts
from doctor.tui.widgets.causes import CauseTree

SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", SIZES)
async def test_home(app, lang, size):
    the = app(lang)
    async with the.run_test(size=size) as pilot:
        await settle(pilot)
        await same_screen(f"home-{lang}-{size[0]}", the)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", SIZES)
async def test_result(app, run, lang, size):
    the = app(lang)
    async with the.run_test(size=size) as pilot:
        await diagnose(pilot, "run")
        await same_screen(f"result-{lang}-{size[0]}", the)


@pytest.mark.parametrize("lang", ["zh", "en"])
async def test_help_and_save(app, run, lang):
    the = app(lang)
    async with the.run_test(size=(80, 30)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        await same_screen(f"help-{lang}", the)
        await pilot.press("escape")
        await diagnose(pilot, "run")
        await pilot.press("s")
        await pilot.pause()
        await same_screen(f"save-{lang}", the)


async def test_no_line_is_wider_than_the_screen(app, run):
    the = app("zh")
    async with the.run_test(size=(100, 30)) as pilot:
        await diagnose(pilot, "run")
        for key in ("k", "2", "4"):
            rows = [strip.text for strip in the.screen._compositor.render_strips()]
            assert {cell_len(row) for row in rows} == {100}
            await pilot.press(key)
            await settle(pilot)


async def test_marks_and_frames_are_ascii_on_request(app, run, monkeypatch):
    monkeypatch.setenv("DOCTOR_ASCII", "1")
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        tree = [str(the.screen.query_one(CauseTree).render_line(y).text) for y in range(6)]
        assert all(line.isascii() for line in tree)
        assert any("x Out of device memory" in line for line in tree)


async def test_the_language_changes_on_every_screen_at_once(app, run):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        await pilot.press("down", "down", "down")
        await pilot.press("k")
        await settle(pilot)
        await pilot.press("4")
        await settle(pilot)
        assert "Log rules" in text_of(the) and "New rule" in text_of(the)
        await pilot.press("f2")
        await pilot.pause()
        await pilot.pause()
        assert "日志规则" in text_of(the) and "新规则" in text_of(the) and "Log rules" not in text_of(the)
        await pilot.press("escape")
        await settle(pilot)
        assert "显存不足" in text_of(the) and "返回" in text_of(the)
        assert the.screen.query_one(CauseTree).cursor_line == 3
        await pilot.press("l")
        await pilot.pause()
        await pilot.pause()
        assert "Out of device memory" in text_of(the) and "Back" in text_of(the)


async def test_the_palette_holds_every_action_in_both_languages(app, run):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        english = {c.title for c in the.get_system_commands(the.screen)}
        await pilot.press("l")
        chinese = {c.title for c in the.get_system_commands(the.screen)}
        assert {"Copy", "Save", "Search", "Zoom", "Open", "Rules", "Help", "Quit"} <= english
        assert {"复制", "保存", "搜索", "放大", "打开", "规则", "帮助", "退出"} <= chinese
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert type(the.screen).__name__ == "CommandPalette"


def test_every_label_of_a_key_is_a_text_in_both_languages():
    from textual.binding import Binding

    from doctor.tui import app, screens, widgets
    from doctor.tui.screens import checks, confirm, copy, help, home, model, open, result, save, smoke
    from doctor.tui.widgets import causes, detail, diffview, findings, logpane, logview, plots, timeline

    seen = 0
    modules = [app, screens, widgets, checks, confirm, copy, help, home, model, open, result, save, smoke]
    for module in (*modules, causes, detail, diffview, findings, logpane, logview, plots, timeline):
        for thing in vars(module).values():
            for binding in vars(thing).get("BINDINGS", ()) if isinstance(thing, type) else ():
                if isinstance(binding, Binding) and binding.description.startswith("tui."):
                    seen += 1
                    assert binding.description in texts("zh") and binding.description in texts("en")
    assert seen > 20
    assert set(texts("zh")) == set(texts("en"))


def test_nothing_but_the_screen_loads_textual():
    code = (
        "import sys, doctor.cli, doctor.engine, doctor.render.text, doctor.render.json, doctor.rulecli;"
        "doctor.cli.run(['rules', 'list', '--only', 'MEM*']);"
        "print([m for m in sys.modules if m.split('.')[0] == 'textual'], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.stderr.strip().splitlines()[-1] == "[]"
