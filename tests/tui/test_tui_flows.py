"""What a user does: paste, open, jump, cancel, copy, save; and what must not hurt."""

import gzip
import json
import random
import tarfile
import threading

from screen_helpers import HEAD, diagnose, eventually, paste, settle, shows, text_of
from textual.widgets import Input

from doctor import engine
from doctor.tui.app import Job
from doctor.tui.screens.home import HomeScreen
from doctor.tui.screens.open import FileTree, OpenScreen
from doctor.tui.screens.result import ResultScreen
from doctor.tui.screens.save import SaveScreen
from doctor.tui.widgets.causes import CauseTree
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView

WIDE = (120, 40)
FAILED = f"[ERROR] {HEAD.format(pid=8, time='02:00', line=9)} POOL EMPTY for MatMul-op1, size 4096"


def marked(app):
    """The number of the marked line and its text."""
    view = app.screen.query_one(LogView)
    return view.document.first + view.marked, view.document.line(view.marked).text


async def test_a_paste_is_spooled_diagnosed_and_jumped_into(app, run, tmp_path):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await paste(pilot, "\r".join(["nothing here"] * 4810 + [FAILED, "the end"]))
        assert isinstance(the.screen, ResultScreen)
        assert "4,812 lines" in text_of(the)
        assert marked(the) == (4811, FAILED)
        spool = next(tmp_path.glob("doctor-paste-*"))
        assert spool.stat().st_mode & 0o077 == 0 and len(list(spool.iterdir())) == 1
        assert not the.screen.query("TextArea")
    assert not spool.exists()


async def test_a_pasted_path_is_opened(app, run):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await paste(pilot, "'run/worker_1.log'\n")
        assert the.screen.report.inputs[0].name == "run/worker_1.log"


async def test_a_paste_into_the_path_line_is_a_log_if_it_has_lines(app, run):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        the.screen.query_one("#home-path").focus()
        await paste(pilot, "run")
        assert the.screen.query_one("#home-path", Input).value == "run"
        await paste(pilot, f"first\n{FAILED}\n")
        assert the.screen.report.inputs[0].name == "<paste>"


async def test_moving_in_the_tree_moves_the_other_panes(app, run):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await diagnose(pilot, "run")
        assert [d.rule for d in the.screen.report.diagnoses] == ["MEM901", "HCCL902"]
        assert marked(the)[0] == 32
        seen = []
        for _ in range(4):
            await pilot.press("down")
            await settle(pilot)
            view = the.screen.query_one(LogView)
            seen.append((the.screen.query_one(LogPane)._evidence.source, view.document.first + view.marked))
        assert seen == [("run/worker_1.log", 32)] * 2 + [("run/worker_0.log", 31), ("run/worker_1.log", 21)]
        assert "The bandwidth is below" in text_of(the)
        await pilot.press("up", "enter")
        assert the.screen.focused is the.screen.query_one(LogView)


async def test_a_file_and_a_folder_can_be_chosen_in_a_dialog(app, run, tmp_path):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await pilot.press("o")
        await pilot.pause()
        tree = the.screen.query_one(FileTree)
        await tree.reload()
        await pilot.pause()
        await pilot.press("down", "f")
        await settle(pilot)
        assert len(the.screen.report.inputs) == 2
        await pilot.press("o")
        await pilot.pause()
        line = the.screen.query_one("#open-path", Input)
        line.focus()
        line.value = str(tmp_path / "run")
        await pilot.press("enter")
        assert isinstance(the.screen, OpenScreen)
        await the.screen.query_one(FileTree).reload()
        await pilot.pause()
        await pilot.press("down", "down", "enter")
        await settle(pilot)
        assert [i.name.rsplit("/", 1)[-1] for i in the.screen.report.inputs] == ["worker_1.log"]


async def test_escape_leaves_the_dialogs(app, run):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        for key in ("o", "k", "question_mark"):
            await pilot.press(key)
            await settle(pilot)
            assert not isinstance(the.screen, HomeScreen)
            await pilot.press("escape")
            await pilot.pause()
            assert isinstance(the.screen, HomeScreen)


async def test_what_cannot_be_read_is_said_in_the_language_of_the_moment(app, run):
    the = app("en")
    async with the.run_test(size=WIDE) as pilot:
        await diagnose(pilot, "no/such[bold]file.log")
        assert isinstance(the.screen, HomeScreen)
        assert "no/such[bold]file.log: no such file or folder" in text_of(the)
        await pilot.press("l")
        await pilot.pause()
        assert "没有这个文件或文件夹" in text_of(the)


async def test_an_unreadable_input_among_others_stands_in_the_tree(app, run):
    (run / "core.1").write_bytes(b"\x7fELF" + bytes(4000))
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        the._start(Job(["run", "gone.log"]))
        await settle(pilot)
        assert "gone.log could not be read" in str([n.label for n in _nodes(the)])


def _nodes(app):
    found, pending = [], [app.screen.query_one(CauseTree).root]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += node.children
    return found


async def test_escape_cancels_and_shows_what_was_found(app, run, monkeypatch):
    started, real = threading.Event(), engine.diagnose

    def slow(inputs, options, *, paste=None):
        started.set()
        while not options.cancelled():
            threading.Event().wait(0.005)
        return real([], engine.Options(rules=options.rules, cancelled=options.cancelled), paste=paste)

    monkeypatch.setattr(engine, "diagnose", slow)
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        the.diagnose_path("run")
        await pilot.pause()
        assert await eventually(pilot, started.is_set)
        assert "Diagnosing run" in text_of(the)
        await pilot.press("escape")
        await settle(pilot)
        assert the.job is None and "Cancelled" in text_of(the)


async def test_progress_is_shown_from_the_first_second_on(app, run, monkeypatch):
    read, done = threading.Event(), threading.Event()

    def slow(inputs, options, *, paste=None):
        options.progress(50 << 20, 200 << 20, "run/worker_0.log")
        read.set()
        done.wait(60)
        return engine_report

    engine_report = engine.diagnose(["run"])
    monkeypatch.setattr(engine, "diagnose", slow)
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        the.diagnose_path("run")
        assert await eventually(pilot, read.is_set)
        monkeypatch.setattr(the.job, "seconds", lambda: 0.9)
        the.screen.refresh_status()
        await pilot.pause()
        assert "25 %" not in text_of(the)
        monkeypatch.setattr(the.job, "seconds", lambda: 1.0)
        the.screen.refresh_status()
        await pilot.pause()
        assert "25 % read" in text_of(the) and "run/worker_0.log" in text_of(the)
        done.set()
        await settle(pilot)


async def test_a_newer_diagnosis_replaces_the_running_one(app, run, monkeypatch):
    real, calls = engine.diagnose, []

    def slow(inputs, options, *, paste=None):
        calls.append(inputs)
        if len(calls) == 1:
            while not options.cancelled():
                threading.Event().wait(0.005)
        return real(inputs, engine.Options(rules=options.rules), paste=paste)

    monkeypatch.setattr(engine, "diagnose", slow)
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        the.diagnose_path("run/worker_0.log")
        await pilot.pause()
        await diagnose(pilot, "run/worker_1.log")
        assert [i.name for i in the.screen.report.inputs] == ["run/worker_1.log"]
        assert sum(isinstance(s, ResultScreen) for s in the.screen_stack) == 1


async def test_a_crash_of_the_worker_is_a_notice_and_a_saved_record(app, run, monkeypatch, tmp_path):
    def broken(*args, **more):
        raise RuntimeError("out of [bold red]order[/] password=hunter2secret")

    monkeypatch.setattr(engine, "diagnose", broken)
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await diagnose(pilot, "run")
        assert isinstance(the.screen, HomeScreen)
        assert "out of [bold red]order[/]" in the.trouble_text() and "order[/]" in text_of(the)
        record = next(tmp_path.glob("doctor-crash-*.txt")).read_text(encoding="utf-8")
        assert "RuntimeError: out of" in record and "hunter2secret" not in record
        monkeypatch.undo()
        await pilot.press("escape")


async def test_a_crash_of_the_screen_itself_prints_no_traceback(app, run, capsys):
    the = app()
    the._exception = ValueError("broken")
    the._fatal_error()
    assert the.return_code == 3
    assert len(the._exit_renderables) == 1 and "ValueError: broken" in str(the._exit_renderables[0])


async def test_copy_takes_the_whole_report(app, run):
    the = app("zh")
    async with the.run_test(size=WIDE) as pilot:
        await diagnose(pilot, "run")
        await pilot.press("c")
        await pilot.pause()
        assert "MEM901" in the.clipboard and "HCCL902" in the.clipboard and "run/worker_1.log" in the.clipboard


async def test_save_writes_text_or_json_and_never_over_a_file_unasked(app, run, tmp_path):
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        await diagnose(pilot, "run")

        async def save(name):
            await pilot.press("s")
            await pilot.pause()
            the.screen.query_one(Input).value = name
            await pilot.press("enter")
            await pilot.pause()

        await save("report.txt")
        assert isinstance(the.screen, ResultScreen)
        assert "MEM901" in (tmp_path / "report.txt").read_text(encoding="utf-8")
        await save("report.json")
        assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["schema"] == "doctor.report/1"
        (tmp_path / "mine").write_text("kept", encoding="utf-8")
        await save("mine")
        assert isinstance(the.screen, SaveScreen) and (tmp_path / "mine").read_text(encoding="utf-8") == "kept"
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(the.screen, ResultScreen) and "MEM901" in (tmp_path / "mine").read_text(encoding="utf-8")
        await save("no/such/folder/x")
        assert isinstance(the.screen, SaveScreen) and "Cannot be written" in text_of(the)


async def test_members_of_archives_and_packed_files_show_the_lines_kept_with_the_evidence(app, run, tmp_path):
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as tar:
        tar.add("run/worker_1.log")
    packed = tmp_path / "one.log.gz"
    packed.write_bytes(gzip.compress((run / "worker_1.log").read_bytes()))
    the = app()
    async with the.run_test(size=WIDE) as pilot:
        for name in ("logs.tar.gz", "one.log.gz"):
            await diagnose(pilot, name)
            assert marked(the) == (32, FAILED)
            assert "only the lines near the evidence" in text_of(the)


async def test_zoom_shows_one_pane_and_escape_all_again(app, run):
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        await diagnose(pilot, "run")
        the.screen.query_one(LogView).focus()
        await pilot.press("z")
        await pilot.pause()
        assert the.screen.maximized is the.screen.query_one(LogPane)
        await pilot.press("escape")
        await pilot.pause()
        assert the.screen.maximized is None and isinstance(the.screen, ResultScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(the.screen, HomeScreen)


async def test_hostile_text_is_shown_and_does_nothing(app, run, tmp_path):
    link = "\x1b]8;;http://192.0.2.1/\x07link\x1b]8;;\x07"
    bad = f"[bold red]x[/] [@click=app.quit]q[/] \x1b[31mred{link} \u202edrow\u200b \x9b2J"
    name = "[red]worker_1.log"
    line = FAILED.replace("MatMul-op1", "[b]Op[/b]\u202e")
    (tmp_path / name).write_text(f"{bad}\n{line}\n{bad}\n{'y' * (1 << 20)}\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(200, 60)) as pilot:
        await diagnose(pilot, name)
        await pilot.press("down", "enter", "home")
        await settle(pilot)
        seen = text_of(the)
        assert not {c for c in seen if ord(c) < 32 and c != "\n"} and not set("\u202e\u200b\x9b") & set(seen)
        assert "[bold red]x[/] [@click=app.quit]q[/]" in seen and "⟨U+202E⟩" in seen and "␛]8;;http" in seen
        assert "[b]Op[/b]" in seen and "[red]worker_1" in seen
        await pilot.press("c", "k", "escape", "l", "s", "escape")
        await pilot.pause()
        assert the.return_code is None


async def test_two_hundred_random_keys_do_no_harm(app, run):
    chance = random.Random(20260318)
    keys = [
        "up", "down", "left", "right", "enter", "tab", "shift+tab", "escape", "pageup", "pagedown", "home", "end",
        "space", "slash", "n", "N", "g", "G", "c", "s", "z", "k", "l", "o", "d", "f", "1", "2", "question_mark",
        "f1", "f2", "backspace", "a", "x", "ctrl+p", "dollar_sign", "0",
    ]  # fmt: skip
    the = app()
    async with the.run_test(size=(90, 28)) as pilot:
        await diagnose(pilot, "run")
        for n in range(200):
            await pilot.press(chance.choice(keys))
            if n % 20 == 0:
                await settle(pilot)
            if n % 50 == 0:
                await pilot.resize_terminal(chance.choice([80, 120, 200]), chance.choice([24, 40]))
        await settle(pilot)
        assert the._exception is None and the.return_code is None


async def test_a_path_that_is_typed_on_the_home_screen_is_a_path_and_escape_makes_letters_keys_again(app, run):
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        line = the.screen.query_one("#home-path", Input)
        for key, word in (("slash", "/tmp"), ("tilde", "~tmp"), ("full_stop", ".tmp")):
            await pilot.press(key, "t", "m", "p")
            assert the.focused is line and line.value == word
            await pilot.press("escape")
            assert isinstance(the.screen, HomeScreen) and the.focused is not line


async def test_a_diagnosis_that_was_left_is_there_again_without_reading_it_anew(app, run):
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        await pilot.press("b")
        assert isinstance(the.screen, HomeScreen)
        await diagnose(pilot, "run")
        report = the.screen.report
        await pilot.press("escape")
        await settle(pilot)
        assert await shows(pilot, "b  back to the last diagnosis: run")
        await pilot.press("b")
        await settle(pilot)
        assert the.screen.report is report and the.job is None


async def test_a_tiny_terminal_still_shows_the_line_that_is_typed_into(app):
    the = app()
    async with the.run_test(size=(40, 12)) as pilot:
        await pilot.press("slash", "x")
        await settle(pilot)
        assert await shows(pilot, "/x")
