"""The checks of the machine: live, filtered, explained, drawn, in both languages and all sizes."""

from pathlib import Path

import pytest
from screen_helpers import same_screen, settle, text_of
from textual.widgets import DataTable, Input

from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import load
from doctor.tui.app import DoctorApp
from doctor.tui.screens.machine import MachineScreen

HOSTS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "hosts"


def app_for(name, lang="en"):
    return DoctorApp(lang=lang, host=lambda: load(str(HOSTS / f"{name}.yaml")))


async def machine(pilot):
    await pilot.press("e")
    await settle(pilot)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_broken_host(lang, size):
    the = app_for("npu-alarm-hbm-ecc", lang)
    async with the.run_test(size=size) as pilot:
        await machine(pilot)
        same_screen(f"machine-{lang}-{size[0]}", the)


@pytest.mark.parametrize("lang", ["zh", "en"])
async def test_the_chain_and_the_topology(lang):
    the = app_for("ver-cann-8.5-with-mindspore-2.7.0", lang)
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("2")
        await settle(pilot)
        same_screen(f"machine-chain-{lang}", the)


async def test_the_worst_stands_first_and_is_explained():
    the = app_for("npu-alarm-hbm-ecc")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        first = the.screen.query_one(DataTable).get_row_at(0)
        assert str(first[1]).startswith("NPU")
        assert "Cause" in text_of(the) and "Next" in text_of(the)


async def test_filter_and_what_is_shown():
    the = app_for("npu-alarm-hbm-ecc")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        table = the.screen.query_one(DataTable)
        every = table.row_count
        await pilot.press("v")
        await settle(pilot)
        await pilot.press("v")
        await settle(pilot)
        failed = table.row_count
        assert 0 < failed < every
        await pilot.press("v", "slash")
        the.screen.query_one(Input).value = "hccl"
        await settle(pilot)
        assert 0 < table.row_count < every
        assert any("HCCL" in str(table.get_row_at(n)[1]) for n in range(table.row_count))
        assert all("VER504" not in str(table.get_row_at(n)[1]) for n in range(table.row_count))
        await pilot.press("escape")
        assert isinstance(the.screen, MachineScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(the.screen, MachineScreen)


async def test_a_host_without_an_npu_is_a_state():
    the = app_for("cpu")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        the.screen.query_one(Input).value = "no npu here"
        await settle(pilot)
        assert the.screen.query_one(DataTable).row_count > 20
        assert "no NPU here" in text_of(the)


async def test_running_again_and_the_language():
    hosts = ["npu-alarm-hbm-ecc", "cpu"]
    the = DoctorApp(lang="en", host=lambda: load(str(HOSTS / f"{hosts.pop(0)}.yaml")))
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        before = text_of(the)
        await pilot.press("r")
        await settle(pilot)
        assert text_of(the) != before and "no NPU here" in text_of(the)
        await pilot.press("l")
        await settle(pilot)
        assert "本机没有 NPU" in text_of(the)


async def test_a_host_that_fails_is_a_line_and_no_end():
    def broken():
        raise RuntimeError("[red]no[/] host")

    the = DoctorApp(lang="en", host=broken)
    async with the.run_test(size=(80, 24)) as pilot:
        await machine(pilot)
        assert "RuntimeError: [red]no[/] host" in text_of(the)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(the.screen, MachineScreen)


async def test_hostile_answers_are_shown_harmless():
    evil = "\x1b[31m[bold]x[/bold] \u202eabc\n" * 50
    the = DoctorApp(lang="en", host=lambda: MemoryHost({"run npu-smi info": evil, "ask env": evil}, "\x1b]0;evil\x07"))
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        assert not {"\x1b", "\u202e", "\x07"} & set(text_of(the))


async def test_saving_and_copying(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    the = app_for("cpu")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("s")
        await pilot.pause()
        await pilot.press("enter")
        await settle(pilot)
        assert "checks" in (tmp_path / "doctor-report.txt").read_text()
        await pilot.press("c")
        await pilot.pause()
        assert "checks" in the.clipboard
