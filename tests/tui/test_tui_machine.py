"""The checks of the machine: live, filtered, explained, drawn, in both languages and all sizes."""

import threading
from pathlib import Path

import pytest
from screen_helpers import diagnose, eventually, same_screen, settle, shows, text_of
from textual.widgets import DataTable, Input

from doctor.hosts.base import MemoryHost
from doctor.hosts.compose import load
from doctor.render.safe import width
from doctor.tui import glance
from doctor.tui.app import DoctorApp
from doctor.tui.checking import Checking
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
        await same_screen(f"machine-{lang}-{size[0]}", the)


@pytest.mark.parametrize("lang", ["zh", "en"])
async def test_the_chain_and_the_topology(lang):
    the = app_for("ver-cann-8.5-with-mindspore-2.7.0", lang)
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("2")
        await settle(pilot)
        await same_screen(f"machine-chain-{lang}", the)


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
        await pilot.press("escape")
        await settle(pilot)
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


async def test_one_check_is_run_anew_and_the_report_takes_its_new_answer():
    hosts = ["npu-alarm-hbm-ecc", "a2-8p", "a2-8p"]
    the = DoctorApp(lang="en", host=lambda: load(str(HOSTS / f"{hosts.pop(0)}.yaml")))
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        table = the.screen.query_one(DataTable)
        assert [str(table.get_row_at(n)[1]) for n in range(2)] == ["NPU508", "NPU507"]
        others = [f for f in the.checking.report.findings if f.id not in ("NPU507", "NPU508")]
        await pilot.press("a")
        await settle(pilot)
        assert [str(table.get_row_at(n)[1]) for n in range(2)] == ["NPU507", "ENV501"]
        assert the.checking.report.verdict == "error"
        table.move_cursor(row=0)
        await pilot.press("a")
        await settle(pilot)
        report = the.checking.report
        assert hosts == [] and not report.diagnoses and report.verdict == "healthy"
        assert [f for f in report.findings if f.id not in ("NPU507", "NPU508")] == others


async def test_escape_ends_a_run_with_what_is_known_and_a_second_one_leaves():
    gate, asked = threading.Event(), threading.Event()

    class Slow:
        name, live = "slow", True

        def __getattr__(self, name):
            def answer(*args, **more):
                asked.set()
                gate.wait(100)
                return getattr(load(str(HOSTS / "cpu.yaml")), name)(*args, **more)

            return answer

    the = DoctorApp(lang="en", host=Slow)
    try:
        async with the.run_test(size=(120, 40)) as pilot:
            await pilot.press("e")
            assert await eventually(pilot, asked.is_set)
            assert await shows(pilot, "Free memory of the host")
            table = the.screen.query_one(DataTable)
            assert await eventually(
                pilot, lambda: {str(table.get_row_at(n)[0])[0] for n in range(table.row_count)} >= {">", "."}
            )
            assert "checks have answered" in text_of(the)
            # what needs no answer of the host is judged; what waits for one that is asked for runs; the rest waits
            assert {row.running for row in the.checking.rows() if row.finding is None} == {True, False}
            await pilot.press("escape")
            assert await shows(pilot, "interrupted")
            assert isinstance(the.screen, MachineScreen) and the.checking.report.interrupted
            assert the.checking.report.verdict == "unknown"
            await pilot.press("escape")
            await pilot.pause()
            assert not isinstance(the.screen, MachineScreen)
    finally:
        gate.set()


async def test_a_recording_is_judged_in_place_of_the_machine_and_one_that_is_none_is_said(tmp_path):
    (tmp_path / "not.yaml").write_text("a: [", encoding="utf-8")
    the = app_for("cpu")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("x")
        await settle(pilot)
        assert "npu-alarm-hbm-ecc" in text_of(the) and "80E18402" in text_of(the)
        the.screen._judge(str(tmp_path / "not.yaml"))
        await settle(pilot)
        assert "not.yaml" in text_of(the) and the.checking.error and not the.checking.report
        assert "Error" not in the.checking.error
        await pilot.press("h")
        await settle(pilot)
        assert the.checking.name == "" and "no NPU here" in text_of(the)


async def test_proposed_settings_are_saved_as_a_script_and_never_over_a_file_of_another_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.sh").write_text("echo mine\n", encoding="utf-8")
    the = app_for("ver-cann-not-sourced")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("f")
        await settle(pilot)
        assert "Nothing is run" in text_of(the)
        the.screen.query_one(Input).value = "mine.sh"
        await pilot.press("enter", "enter")
        await settle(pilot)
        assert "no script of the doctor" in text_of(the)
        assert (tmp_path / "mine.sh").read_text(encoding="utf-8") == "echo mine\n"
        the.screen.query_one(Input).value = "env.sh"
        await pilot.press("enter")
        await settle(pilot)
        assert "set_env.sh" in (tmp_path / "env.sh").read_text(encoding="utf-8")
    the = app_for("cpu")
    async with the.run_test(size=(120, 40)) as pilot:
        await machine(pilot)
        await pilot.press("f")
        await settle(pilot)
        assert isinstance(the.screen, MachineScreen)
        assert any("No finding proposes" in notice.message for notice in the._notifications)


# ---------------------------------------------------------------------- at a glance


def glance_for(name, lang="en"):
    return DoctorApp(lang=lang, host=lambda: load(str(HOSTS / f"{name}.yaml")), glance=True)


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_home_shows_the_machine(lang, size):
    the = glance_for("ver-cann-8.5-with-mindspore-2.7.0", lang)
    async with the.run_test(size=size) as pilot:
        await settle(pilot)
        await same_screen(f"home-glance-{lang}-{size[0]}", the)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_home_without_an_npu_says_what_can_be_done(size):
    the = glance_for("cpu")
    async with the.run_test(size=size) as pilot:
        await settle(pilot)
        seen = " ".join(text_of(the).replace("│", " ").split())
        assert "No NPU here" in seen and "sample run" in seen and "recording" in seen
        await pilot.press("s")
        await pilot.pause()
        assert type(the.screen).__name__ == "SaveScreen"


async def test_many_devices_are_said_in_a_line_and_what_is_not_known_is_left_out():
    def table(count):
        rows = [{"label": str(n), "name": "910B3", "health": "OK", "memory": [n, 65536]} for n in range(count)]
        return [*rows, {"label": "x", "health": "\x1b[31mAlarm", "memory": None}]

    class Stub(Checking):
        def value(self, name):
            return {"npu.table": table(64)}.get(name)

    shown = ["".join(t for _, t in line) for line in glance.lines(Stub(None), "en", 70, 50, False)]
    text = " ".join(shown)
    assert "65 × 910B3, ?" in text and "64 OK" in text and "\x1b" not in text and "°C" not in text
    assert all(width(row) <= 70 for row in shown)


async def test_a_broken_host_is_a_line_on_the_home_screen_and_the_rest_goes_on(run):
    def broken():
        raise RuntimeError("[red]no[/] host")

    the = DoctorApp(lang="en", host=broken, glance=True)
    async with the.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "RuntimeError: [red]no[/] host" in text_of(the)
        await diagnose(pilot, "run")
        assert type(the.screen).__name__ == "ResultScreen"
