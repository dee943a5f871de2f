"""Choosing what to diagnose: sizes and times, marks, a filter, what was opened before, patterns and dropped files."""

import asyncio
import os

import pytest
from screen_helpers import paste, same_screen, settle, text_of
from textual.widgets import Input, OptionList

from doctor.tui.screens.open import COUNTED, FileTree, OpenScreen, facts_of, fits
from doctor.tui.screens.result import ResultScreen

WHEN = 1773824400


@pytest.fixture
def here(run, tmp_path, monkeypatch):
    """The failing run among other files, all of one time, in UTC."""
    monkeypatch.setenv("TZ", "UTC")
    __import__("time").tzset()
    place = tmp_path / "place"
    place.mkdir()
    os.rename(run, place / "run")
    (place / "notes.txt").write_text("x" * 2048, encoding="utf-8")
    (place / "[red]bad\u202e.log").write_text("x", encoding="utf-8")
    for folder, _, files in os.walk(place):
        for name in (*files, "."):
            os.utime(os.path.join(folder, name), (WHEN, WHEN))
    monkeypatch.chdir(place)
    return place


async def loaded(pilot):
    """Wait until the tree has read its folders."""
    await pilot.app.screen.query_one(FileTree).reload()
    await settle(pilot)


async def opened(pilot):
    await pilot.press("o")
    await settle(pilot)
    await loaded(pilot)
    return pilot.app.screen


@pytest.mark.parametrize(("lang", "size"), [("zh", (80, 24)), ("en", (120, 40))])
async def test_the_dialog_looks_as_it_should(app, here, lang, size, tmp_path):
    the = app(lang)
    the.state.recent = ["/gone/[red]run_2", "/usr/lib", "/etc"]
    async with the.run_test(size=size) as pilot:
        screen = await opened(pilot)
        screen.query_one("#open-path", Input).value = "/data"
        await pilot.press("down", "enter")
        await settle(pilot)
        await pilot.press("down", "space")
        await settle(pilot)
        screen.query_one(FileTree).root.set_label("place")
        await settle(pilot)
        await same_screen(f"open-{lang}-{size[0]}", the)


async def test_several_marked_files_are_one_run(app, here):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.press("down", "space", "enter")
        assert not screen.query_one(FileTree).marked  # a folder is not marked
        await settle(pilot)
        await pilot.press("down", "space", "space", "up", "up", "space")
        assert [path.name for path in screen.query_one(FileTree).marked] == ["worker_1.log"]
        await pilot.press("up", "space")
        await settle(pilot)
        marked = [path.name for path in screen.query_one(FileTree).marked]
        assert "2 marked" in text_of(the) and marked == ["worker_1.log", "worker_0.log"]
        await pilot.press("a")
        await settle(pilot)
        assert isinstance(the.screen, ResultScreen)
        assert [os.path.basename(i.name) for i in the.screen.report.inputs] == marked


async def test_the_filter_hides_files_and_escape_shows_them_again(app, here):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        assert "notes.txt" in text_of(the)
        await pilot.press("slash", *"*.log", "enter")
        await loaded(pilot)
        seen = text_of(the)
        assert "notes.txt" not in seen and "[red]bad" in seen and "run" in seen and "Only names that fit *.log" in seen
        assert screen.focused is screen.query_one(FileTree)
        await pilot.press("slash", "escape")
        await loaded(pilot)
        assert "notes.txt" in text_of(the) and the.screen is screen
        await pilot.press("escape")
        assert the.screen is not screen


async def test_what_was_opened_before_is_offered(app, here):
    the = app()
    the.state.recent = [str(here / "run")]
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        screen.query_one("#open-recent", OptionList).focus()
        await pilot.press("down", "enter")
        await settle(pilot)
        assert len(the.screen.report.inputs) == 2


@pytest.mark.parametrize(("typed", "count"), [
    ("run/*.log", 2), ("'{here}/run/worker_0.log' {here}/run/worker_1.log", 2),
    ("file://{here}/run/worker_1.log", 1),
])  # fmt: skip
async def test_the_path_line_takes_patterns_and_what_a_terminal_drops(app, here, typed, count):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        line = screen.query_one("#open-path", Input)
        line.focus()
        line.value = typed.replace("{here}", str(here))
        await pilot.press("enter")
        await settle(pilot)
        assert len(the.screen.report.inputs) == count


async def test_a_paste_over_the_dialog_is_diagnosed(app, here):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await paste(pilot, "one\nPOOL EMPTY for X, size 1\n")
        assert isinstance(the.screen, ResultScreen) and the.screen.report.inputs[0].name == "<paste>"


async def test_a_screen_that_takes_one_file_offers_no_marks(app, here):
    the = app()
    the.state.recent = [str(here)]
    async with the.run_test(size=(120, 40)) as pilot:
        taken = []
        the.push_screen(OpenScreen(str(here)), taken.append)
        await settle(pilot)
        await loaded(pilot)
        await pilot.press("end", "space", "a")
        await settle(pilot)
        assert not the.screen.query_one(FileTree).marked and not the.screen.query_one("#open-recent").display
        await pilot.press("enter")
        await settle(pilot)
        assert [os.path.basename(path) for path in taken] == ["notes.txt"]


def test_facts_are_size_time_and_a_bounded_count(tmp_path):
    (tmp_path / "a").write_text("abc", encoding="utf-8")
    assert facts_of(tmp_path / "a")[::2] == (3, False)
    for n in range(COUNTED + 5):
        os.link(tmp_path / "a", tmp_path / f"b{n}")
    assert facts_of(tmp_path)[::2] == (COUNTED, True)
    os.symlink("gone", tmp_path / "dangling")
    assert facts_of(tmp_path / "dangling") is None


@pytest.mark.parametrize(("name", "wanted", "so"), [
    ("worker_0.log", "", True), ("worker_0.log", "ker_0", True), ("worker_0.log", "*_0.*", True),
    ("worker_0.log", "worker", True), ("worker_0.log", "*.txt", False), ("a[1].log", "[1]", False),
])  # fmt: skip
def test_a_filter_is_a_part_of_the_name_or_a_pattern(name, wanted, so):
    assert fits(name, wanted) is so


async def test_a_path_that_is_typed_over_the_tree_is_a_path(app, here):
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await pilot.press("slash", *"usr/l")
        await settle(pilot)
        assert the.focused is screen.query_one("#open-path", Input) and the.focused.value == "/usr/l"
        assert screen.query_one(FileTree).wanted == "" and not screen.query_one("#open-filter").display


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("how", ["removed", "left"])
async def test_a_dialog_that_is_closed_while_it_opens_ends_nothing(app, tmp_path, turns, how):
    the = app(lang="en")
    async with the.run_test(size=(100, 30)):
        screen = OpenScreen(str(tmp_path))
        the.push_screen(screen)
        for _ in range(turns):
            await asyncio.sleep(0)
        screen.remove() if how == "removed" else the.exit()
