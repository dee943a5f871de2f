"""What a terminal sends: pastes of any size, dropped files; and that none of it holds up the screen."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from screen_helpers import HEAD, paste, settle, text_of
from textual import events
from textual._xterm_parser import XTermParser
from textual.widgets import Input

from doctor.tui import files
from doctor.tui.app import DoctorApp
from doctor.tui.driver import PasteParser, TerminalDriver
from doctor.tui.files import Spool, dropped_paths
from doctor.tui.screens.result import ResultScreen

START, END = "\x1b[200~", "\x1b[201~"
FAILED = f"[ERROR] {HEAD.format(pid=8, time='02:00', line=9)} POOL EMPTY for MatMul-op1, size 4096"


def fed(parser, data, sizes):
    out, at = [], 0
    for n in range(10**9):
        if at >= len(data):
            return out
        size = sizes[n % len(sizes)]
        out += parser.feed(data[at : at + size])
        at += size


@given(st.text("ab\x1b[201~\r\0q", max_size=60), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_a_paste_is_one_event_however_it_is_cut_into_reads(text, sizes):
    parser = PasteParser()
    whole = list(parser.feed(START))
    whole += fed(parser, text.replace(END, "") + END, sizes)
    want = text.replace(END, "").replace("\0", "")
    if END not in want:
        assert [e.text for e in whole if isinstance(e, events.Paste)] == ([want] if want else [])
        assert len(whole) == bool(want)


@given(st.text("ab\x1b[Oq\r\t", min_size=1, max_size=30))
def test_what_is_typed_is_read_as_before(text):
    def seen(parser):
        return [(type(e), getattr(e, "key", None)) for e in [*parser.feed(text), *parser.feed("")]]

    assert seen(PasteParser()) == seen(XTermParser())


def test_keys_follow_a_paste_and_a_paste_follows_keys():
    seen = list(PasteParser().feed(f"x{START}one\x1bq{END}y{START}two{END}"))
    assert [getattr(e, "key", None) or e.text for e in seen] == ["x", "one\x1bq", "y", "two"]


def test_fifty_megabytes_are_parsed_in_less_than_two_seconds():
    line = "2026-03-18 step 1, loss 2.0 and so on\r"
    data = START + line * (50_000_000 // len(line)) + END
    began = time.process_time()
    (event,) = fed(PasteParser(), data, [4096])
    assert time.process_time() - began < 2
    assert len(event.text) == len(data) - len(START) - len(END)


def test_a_terminal_gets_the_driver_with_this_parser(monkeypatch):
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    assert DoctorApp("en").driver_class is TerminalDriver


@given(st.text("a\r\n你", max_size=40), st.integers(1, 7))
def test_line_ends_are_the_same_however_the_paste_is_cut(tmp_path_factory, text, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "PIECE", piece)
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("spool")))
        spool = Spool()
        path, data = spool.write(text)
        with open(path, "rb") as file:
            assert file.read() == data == text.replace("\r\n", "\n").replace("\r", "\n").encode()
        spool.clear()


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with awkward names; it is the working directory."""
    for name in ("a.log", "b c.log", "日志.log", "it's.log"):
        (tmp_path / name).write_text("x\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.log", ["a.log"]),
        (" a.log \n", ["a.log"]),
        ("'{here}/b c.log'", ["b c.log"]),
        ("{here}/b c.log", ["b c.log"]),
        ("{here}/b\\ c.log {here}/a.log ", ["b c.log", "a.log"]),
        ("'{here}/a.log' '{here}/it'\\''s.log'", ["a.log", "it's.log"]),
        ("{here}/a.log\n{here}/b c.log\n", ["a.log", "b c.log"]),
        ("file://{here}/b%20c.log", ["b c.log"]),
        ("file://{here}/%E6%97%A5%E5%BF%97.log\r\nfile://{here}/a.log\r\n", ["日志.log", "a.log"]),
        ('"{here}/b c.log"', ["b c.log"]),
        ("a.log gone.log", []),
        ("it's a log that failed", []),
        ("", []),
        ("  \n", []),
        ("a.log\0", []),
        ("file://[", []),
    ],
)
def test_dropped_files_are_paths_only_if_all_of_them_exist(here, text, names):
    found = dropped_paths(text.replace("{here}", here))
    assert [os.path.basename(path) for path in found] == names


async def test_several_dropped_files_are_one_run(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await paste(pilot, f"{run}/worker_0.log '{run}/worker_1.log' ")
        assert [i.name.rsplit("/", 1)[-1] for i in the.screen.report.inputs] == ["worker_0.log", "worker_1.log"]


async def test_a_large_paste_does_not_hold_up_the_screen_and_passes_by_the_input_line(app, run):
    the = app()
    line = "2026-03-18 09:00:00 step 1, loss 2.0 and so on and so forth\r"
    text = line * (20_000_000 // len(line)) + FAILED + "\r" + "y" * (1 << 20)
    async with the.run_test(size=(120, 40)) as pilot:
        the.screen.query_one("#home-path").focus()
        began = time.thread_time()
        await the.on_event(events.Paste(text))
        assert time.thread_time() - began < 0.1
        await settle(pilot)
        assert isinstance(the.screen, ResultScreen)
        assert f"{text.count(chr(13)) + 1:,} lines" in text_of(the)
        assert not the.screen_stack[1].query_one("#home-path", Input).value


async def test_a_paste_that_cannot_be_kept_is_said(app, run, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "write", full)
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await paste(pilot, "one\ntwo\n")
        assert "No space left on device" in text_of(the)
        assert the.job is None
