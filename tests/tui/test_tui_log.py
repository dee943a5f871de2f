"""The log view and the line index beneath it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from screen_helpers import HEAD, diagnose, settle, text_of

from doctor.model import Evidence
from doctor.tui import document
from doctor.tui.document import FileDocument, Needle, SnippetDocument, clean, shown, spans
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView

FAILED = f"[ERROR] {HEAD.format(pid=8, time='02:00', line=9)} POOL EMPTY for MatMul-op1, size 4096"


@given(st.lists(st.text("ab é你\n", max_size=20), max_size=30), st.booleans())
def test_lines_are_those_of_a_plain_split(tmp_path_factory, parts, end):
    path = tmp_path_factory.mktemp("doc") / "x.log"
    text = "\n".join(parts) + ("\n" if end else "")
    path.write_bytes(text.encode())
    want = text.encode().split(b"\n")
    want = want[:-1] if want[-1] == b"" else want
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "BLOCK", 16)
        doc = FileDocument(str(path))
        while not doc.extend(1):
            pass
        assert doc.count == len(want)
        assert [doc.line(n).text for n in range(doc.count)] == [w.decode() for w in want]
        for n, line in enumerate(want):
            start = doc.start_of(n)
            assert doc.row_of(start) == n and doc.row_of(start + max(0, len(line) - 1)) == n
        assert doc.line(len(want)).text == ""
        doc.close()


@given(st.lists(st.text("abA你", max_size=12), min_size=1, max_size=40), st.text("abA你", min_size=1, max_size=3))
def test_search_finds_what_a_plain_search_finds(tmp_path_factory, lines, needle):
    path = tmp_path_factory.mktemp("doc") / "x.log"
    path.write_bytes(("\n".join(lines) + "\n").encode())
    hits = [n for n, line in enumerate(lines) if spans(line, Needle(needle))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "BLOCK", 16)
        patch.setattr(document, "LINE_MAX", 24)
        doc = FileDocument(str(path))
        while not doc.extend(1):
            pass
        for row in range(len(lines) + 1):
            assert doc.find(Needle(needle), row, True) == next((n for n in hits if n >= row), None)
            assert doc.find(Needle(needle), row, False) == next((n for n in reversed(hits) if n < row), None)
        doc.close()


@given(st.text("ab 你好é\u0301", max_size=40), st.integers(0, 60), st.integers(0, 30))
def test_a_cropped_line_fits_and_is_a_part_of_the_line(text, start, width):
    line = shown(text)
    cropped, first = line.crop(start, width)
    assert cell_len(cropped) <= width
    assert cropped.lstrip(" ") in text and first >= 0


def test_a_wide_character_cut_in_half_is_a_blank():
    assert shown("你好吗").crop(1, 4) == (" 好", 0)
    assert shown("x" * 2000 + "你好").crop(2000, 2)[0] == "你"


def test_text_is_cleaned():
    assert clean("时间 ".encode("gbk") + b"x\r\n") == "时间 x"
    assert clean(b" 10%|#  |\r 20%|## |\r\n") == "␍ 20%|## |"
    assert clean(b"\x1b[1;31mred\x1b[0m\x1b[2J") == "red␛[2J"
    assert clean("中".encode() * 5 + "中".encode()[:2], more=9) == "中" * 5 + "… (+9 B)"
    assert "hunter2" not in clean(b"password=hunter2secret")


def test_a_snippet_counts_from_its_first_line_and_can_be_searched():
    doc = SnippetDocument(Evidence("x", 10, "hit", ("before 1", "before 2"), ("after",)))
    assert (doc.first, doc.count, doc.line(2).text, doc.line(9).text) == (8, 4, "hit", "")
    assert doc.find(Needle("before"), 1, True) == 1 and doc.find(Needle("before"), 1, False) == 0
    assert doc.find(Needle("zzz"), 0, True) is None


async def test_keys_and_search(app, run, tmp_path):
    lines = [f"line {n} {'Needle ' if n % 1000 == 7 else ''}\n" for n in range(5000)]
    (tmp_path / "long.log").write_text("".join(lines) + FAILED + "\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "long.log")
        view = the.screen.query_one(LogView)
        assert view.marked == 5000
        view.focus()
        await pilot.press("g")
        assert view.scroll_offset.y == 0
        await pilot.press("G")
        assert view.scroll_offset.y == view.max_scroll_y > 4900
        await pilot.press("g", "slash", *"needle", "enter")
        await settle(pilot)
        assert view.marked == 7
        for key, row in (("n", 1007), ("n", 2007), ("N", 1007), ("N", 7), ("N", 4007), ("n", 7)):
            await pilot.press(key)
            await settle(pilot)
            assert view.marked == row
        assert "went round" in text_of(the)
        await pilot.press("slash")
        the.screen.query_one("#search").value = "needLe"
        await pilot.press("enter")
        await settle(pilot)
        assert view.marked == 7 and "no hit for needLe" in text_of(the)
        await pilot.press("slash", "escape")
        assert the.screen.focused is view and not the.screen.query_one("#search-line").display


async def test_a_smaller_terminal_keeps_the_marked_line_in_view_if_it_was(app, run, tmp_path):
    (tmp_path / "long.log").write_text("a line\n" * 500 + FAILED + "\n" + "a line\n" * 20, encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 60)) as pilot:
        await diagnose(pilot, "long.log")
        view = the.screen.query_one(LogView)
        assert "POOL EMPTY" in text_of(the) and view.marked == 500
        await pilot.resize_terminal(120, 24)
        await settle(pilot)
        assert ">501" in text_of(the)
        view.focus()
        await pilot.press("g")
        await pilot.resize_terminal(120, 20)
        await settle(pilot)
        assert view.scroll_offset.y == 0


async def test_long_lines_scroll_sideways_to_their_end(app, run, tmp_path):
    wide = "头" + "x" * (1 << 20) + "END"
    (tmp_path / "wide.log").write_text(f"short\n{FAILED}\n{wide}\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "wide.log")
        view = the.screen.query_one(LogView)
        view.focus()
        await settle(pilot)
        assert "头xxx" in text_of(the)
        await pilot.press("dollar_sign")
        await pilot.pause()
        # a megabyte is shown of a line, and how much more there is
        assert "xxx… (+6 B)" in text_of(the)
        await pilot.press("left", "0")
        await pilot.pause()
        assert view.scroll_offset.x == 0


async def test_large_files_are_counted_in_a_thread_and_jumped_into(app, run, tmp_path, monkeypatch):
    monkeypatch.setattr("doctor.tui.widgets.logpane.AT_ONCE", 1)
    monkeypatch.setattr(document, "BLOCK", 1 << 10)
    (tmp_path / "big.log").write_text("a line of a log\n" * 20000 + FAILED + "\nthe end\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "big.log")
        view = the.screen.query_one(LogView)
        assert view.marked == 20000 and FAILED[:30] in text_of(the)
        assert "20,002 lines" in text_of(the)


async def test_a_file_that_vanished_or_shrank_is_no_crash(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        (run / "worker_1.log").write_text("", encoding="utf-8")
        (run / "worker_0.log").unlink()
        view = the.screen.query_one(LogView)
        view.document._lines.clear()
        view.document._ends.clear()
        view.refresh()
        await pilot.press("down", "down", "down")
        await settle(pilot)
        assert the.screen.query_one(LogPane).view.document.count >= 1
        assert the._exception is None


async def test_gbk_lines_and_chinese_columns(app, run, tmp_path):
    (tmp_path / "gbk.log").write_bytes("训练开始\n".encode("gbk") + FAILED.encode() + "\n训练失败\n".encode("gbk"))
    the = app("zh")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "gbk.log")
        assert "训练开始" in text_of(the) and "训练失败" in text_of(the)
        view = the.screen.query_one(LogView)
        view.focus()
        await pilot.press("slash")
        the.screen.query_one("#search").value = "失败"
        await pilot.press("enter")
        await settle(pilot)
        assert view.marked == 2
