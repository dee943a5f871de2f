"""The rules room: browsing, searching, reading, trying, writing; both languages, narrow and wide, hostile texts."""

import os
import stat

import pytest
from screen_helpers import HERE, diagnose, paste, same_screen, settle, shows, text_of
from textual.widgets import Input, TextArea

from doctor import rulenew
from doctor.rulebase import load
from doctor.rulesearch import Index
from doctor.tui.app import DoctorApp
from doctor.tui.screens.checks import ChecksScreen
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.home import HomeScreen
from doctor.tui.screens.rules.browse import RulePage, RuleTree
from doctor.tui.screens.rules.trial import LARGE
from doctor.tui.widgets.logview import LogView

LINE = "[ERROR] DEVICE(8,7f00,python):2026-03-18-09:02:00.100.200 [a.cc:9] Run] zebra of rank 3 at 10.1.2.3 is lost"
SIZES = [(80, 24), (120, 40), (200, 60)]


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """A folder for rules of one's own, and a machine of no name."""
    folder = tmp_path / "own"
    monkeypatch.setenv("DOCTOR_OWN_RULES", str(folder))
    monkeypatch.setattr("doctor.rulenew.own_names", lambda: ([], []))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    return folder


async def press(pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


async def write(pilot, text, widget="#try-text"):
    """Text into a text area, and what it starts after its pause."""
    pilot.app.screen.query_one(widget, TextArea).text = text
    await settle(pilot)


def notices(app):
    return [notice.message for notice in app._notifications]


# ---------------------------------------------------------------------- what it looks like


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_pages(app, lang, size, monkeypatch):
    monkeypatch.setenv("DOCTOR_OWN_RULES", "/home/user/rules")
    the = app(lang)
    async with the.run_test(size=size) as pilot:
        await press(pilot, "k", "enter", "down", "enter", "down")
        await same_screen(f"rules-{lang}-{size[0]}", the)
        await press(pilot, "t")
        await write(
            pilot, f"fine\n{LINE}\nLINK IS SLOW on device 3\n[INFO] x(1,2,3):2026-03-18-09:02:00 WAITED IN VAIN"
        )
        await same_screen(f"rules-try-{lang}-{size[0]}", the)
        await press(pilot, "escape", "escape")
        the.action_new_rule(LINE)
        await settle(pilot)
        await same_screen(f"rules-new-{lang}-{size[0]}", the)
        await press(pilot, "escape", "4")
        assert {"zh": "日志规则", "en": "Log rules"}[lang] in text_of(the)


async def test_marks_are_ascii_on_request(app, monkeypatch):
    monkeypatch.setenv("DOCTOR_ASCII", "1")
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "enter", "down", "enter", "down")
        tree = [the.screen.query_one(RuleTree).render_line(y).text for y in range(6)]
        assert all(line.isascii() for line in tree) and any("x HCCL901" in line for line in tree)


# ---------------------------------------------------------------------- browsing and reading


async def test_rules_are_found_by_id_topic_titles_literal_and_log_line(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k")
        tree = the.screen.query_one(RuleTree)
        assert [node.data.tail for node in tree.root.children] == ["2", "1"]

        async def shown(words):
            the.screen.query_one("#filter", Input).value = words
            await settle(pilot)
            return [node.data.name for node in tree.root.children if node.data]

        assert await shown("mem9") == ["MEM901"]
        assert "Out of device memory" in text_of(the) and "made up for the screen tests" in text_of(the)
        assert await shown("hccl.timeout") == ["HCCL901", "HCCL902"]
        assert await shown("hccl slow") == ["HCCL902"]
        assert await shown("链路") == ["HCCL902"]
        assert await shown("WAITED IN VAIN") == ["HCCL901"]
        assert await shown("[ERROR] 09:01 POOL EMPTY for x, LINK IS SLOW on y") == ["HCCL902", "MEM901"]
        assert await shown("[bold]") == [] and "No rule fits" in text_of(the)
        assert await shown("") == ["HCCL", "MEM"]


async def test_the_file_of_a_rule_is_shown_as_written(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "slash", *"mem901", "enter", "y")
        assert "# rules/mem/MEM901.yaml" in text_of(the) and "provenance:" in text_of(the)
        await press(pilot, "y")
        assert "Strength of evidence" in text_of(the) and "provenance:" not in text_of(the)
        await press(pilot, "enter")
        assert isinstance(the.focused, RulePage)
        await press(pilot, "z")
        assert the.screen.maximized is not None
        await press(pilot, "escape")
        assert the.screen.maximized is None and isinstance(the.screen, ChecksScreen)


async def test_a_family_and_a_topic_tell_what_they_hold_and_the_language_keeps_the_place(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k")
        assert "Collectives" in text_of(the) and "log lines 2" in text_of(the)
        await press(pilot, "enter", "down", "enter", "down", "l")
        assert the.screen.query_one(RuleTree).cursor_node.data.name == "HCCL901"
        assert "集合通信" in text_of(the) and "证据强度" in text_of(the)


async def test_all_shipped_rules_are_there_and_a_search_is_quick():
    import time

    the = DoctorApp(lang="zh")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k")
        screen = the.screen
        began = time.process_time()
        screen.query_one("#filter", Input).value = "hccl"
        await settle(pilot)
        assert time.process_time() - began < 2.0
        assert len(screen.query_one(RuleTree).root.children) > 100
        screen.query_one("#filter", Input).value = ""
        await settle(pilot)
        assert sum(int(node.data.tail) for node in screen.query_one(RuleTree).root.children) == len(the.rulebase())


# ---------------------------------------------------------------------- trying


async def test_a_rule_is_tried_on_pasted_text_and_tells_why_it_is_quiet(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "2")
        assert "No rule is chosen" in text_of(the)
        await press(pilot, "escape", "escape", "slash", *"mem901", "enter", "t")
        await paste(pilot, "fine\nPOOL EMPTY for MatMul-op1, size 4096\n")
        assert await shows(pilot, "MEM901  fires 1 time(s)")
        assert "op = MatMul-op1" in text_of(the)
        assert isinstance(the.screen, ChecksScreen)
        await write(pilot, "[INFO] a(1,2,p):2026-03-18-09:02:00.1.2 [a.cc:9] R] POOL EMPTY for x, size 1")
        assert "quiet: the record is INFO" in text_of(the)
        await write(pilot, "nothing")
        assert "No line holds" in text_of(the)
        await press(pilot, "escape", "l")
        assert await shows(pilot, "未触发")


async def test_a_large_paste_is_kept_as_a_file(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "slash", *"mem901", "enter", "t")
        await paste(pilot, "nothing to see\n" * (LARGE // 14) + "POOL EMPTY for MatMul-op1, size 4096\n")
        assert await shows(pilot, "MEM901  fires 1 time(s)")
        assert the.screen.query_one("#try-text", TextArea).text == ""


async def test_a_rule_is_tried_on_the_log_that_is_open_and_on_a_file(app, run):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "slash", *"mem901", "enter", "t", "f5")
        assert any("No log is open" in text for text in notices(the))
        await diagnose(pilot, "run")
        await press(pilot, "k", "slash", *"mem901", "enter", "t", "f5")
        assert await shows(pilot, "MEM901  fires 1 time(s)")
        assert "worker_1.log" in text_of(the)
        await press(pilot, "f3")
        the.screen.query_one("#open-path", Input).value = str(run / "worker_0.log")
        the.screen.query_one("#open-path", Input).focus()
        await press(pilot, "enter")
        assert await shows(pilot, "MEM901  is quiet")


async def test_hostile_text_is_harmless(app):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "slash", *"mem901", "enter", "t")
        hostile = "POOL EMPTY for [/bold]\x1b]52;c;AAAA\x07\u202e, size 1 [link=x]"
        await paste(pilot, hostile)
        assert await shows(pilot, "fires 1 time(s)")
        assert "\x1b" not in text_of(the) and "\u202e" not in text_of(the) and "[link=x]" in text_of(the)
        await press(pilot, "escape", "escape", "n")
        await paste(pilot, hostile)
        await press(pilot, "enter")
        assert await shows(pilot, "3 examples")
        assert "\x1b" not in text_of(the) and "\u202e" not in text_of(the)


# ---------------------------------------------------------------------- writing


async def test_a_line_becomes_a_rule_that_is_judged_edited_and_saved(app, own):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "k", "n")
        assert "A log line becomes a rule file" in text_of(the)
        await paste(pilot, LINE)
        await press(pilot, "enter")
        assert await shows(pilot, "3 examples, all as their rules say")
        seen = text_of(the)
        assert "rank = 3" in seen and "host = 192.0.2.1" in seen and "still to be written" in seen
        path = the.screen.query_one("#new-path", Input).value
        assert os.path.dirname(path) == str(own) and not own.exists()
        area = the.screen.query_one("#new-text", TextArea)
        good = area.text
        await write(pilot, good.replace("severity: error", "severity: dreadful"), "#new-text")
        assert await shows(pilot, "1 problem(s)")
        await write(pilot, good.replace("is lost", "is found", 1), "#new-text")
        assert await shows(pilot, "not as their rules say")
        await write(pilot, good, "#new-text")
        await press(pilot, "ctrl+s")
        assert any("Saved" in text for text in notices(the))
        with open(path, encoding="utf-8") as file:
            assert file.read() == good
        # what this page wrote it may write again, and nothing else
        await write(pilot, good + "# more\n", "#new-text")
        await press(pilot, "ctrl+s")
        with open(path, encoding="utf-8") as file:
            assert file.read().endswith("# more\n")
        with open(path, "a", encoding="utf-8") as file:
            file.write("# somebody else\n")
        await write(pilot, good, "#new-text")
        await press(pilot, "ctrl+s")
        assert any("exists already" in text for text in notices(the))
        with open(path, encoding="utf-8") as file:
            assert file.read().endswith("# somebody else\n")


async def test_leaving_with_an_unsaved_rule_is_asked(app):
    the = app("en")
    async with the.run_test(size=(80, 24)) as pilot:
        the.action_new_rule(LINE)
        await settle(pilot)
        assert await shows(pilot, "3 examples")
        await press(pilot, "escape", "escape", "escape")
        assert isinstance(the.screen, ConfirmScreen)
        await press(pilot, "n")
        assert isinstance(the.screen, ChecksScreen)
        await press(pilot, "escape", "y")
        assert isinstance(the.screen, HomeScreen)


async def test_a_rule_is_made_of_the_marked_line_of_the_log(app, run):
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "run")
        the.screen.query_one(LogView).focus()
        await press(pilot, "R")
        assert isinstance(the.screen, ChecksScreen)
        assert await shows(pilot, "These rules fire") or "these rules fire" in text_of(the)
        assert "POOL EMPTY" in the.screen.query_one("#new-text", TextArea).text


async def test_the_editor_of_the_user_is_asked_for_and_nothing_goes_into_the_package(app, own, monkeypatch):
    import doctor

    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        the.action_new_rule(LINE)
        await settle(pilot)
        assert await shows(pilot, "id: ")
        await press(pilot, "f4")
        assert any("No editor" in text for text in notices(the)) and not own.exists()
        monkeypatch.setenv("EDITOR", "true")
        await press(pilot, "f4")
        # a test has no terminal to hand over; the file is saved all the same
        assert any("cannot be handed over" in text for text in notices(the)) and len(list(own.iterdir())) == 1
        inside = os.path.join(os.path.dirname(doctor.__file__), "RUN999.yaml")
        the.screen.query_one("#new-path", Input).value = inside
        await press(pilot, "ctrl+s")
        assert any("installed package" in text for text in notices(the)) and not os.path.exists(inside)


async def test_what_the_editor_leaves_is_taken_over(app, own, tmp_path, monkeypatch):
    import contextlib

    script = tmp_path / "edit.sh"
    script.write_text('#!/bin/sh\necho "# edited" >> "$2"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"{script} -w")
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        monkeypatch.setattr(the, "suspend", contextlib.nullcontext)
        the.action_new_rule(LINE)
        await settle(pilot)
        assert await shows(pilot, "id: ")
        await press(pilot, "f4")
        assert the.screen.query_one("#new-text", TextArea).text.endswith("# edited\n")
        await press(pilot, "escape", "escape", "escape")
        assert isinstance(the.screen, HomeScreen)


async def test_every_action_of_the_room_is_in_the_palette_and_in_the_help(app):
    the = app("en")
    async with the.run_test(size=(120, 60)) as pilot:
        await press(pilot, "k")
        names = {command.title for command in the.get_system_commands(the.screen)}
        assert {"Search", "Rule file", "Try", "Try on a file", "Try on the open log", "New rule", "Save rule", "Editor",
                "Browse rules", "What is judged"} <= names  # fmt: skip
        await press(pilot, "question_mark")
        assert "Try on a file, on the log that is open" in text_of(the)


def test_a_draft_of_the_screen_is_the_draft_of_the_command_line(cli, tmp_path):
    base = load(str(HERE / "rules"))
    made = rulenew.draft(base, "", LINE, index=Index(base), folder=str(tmp_path))
    assert cli("rules", "new", "--from", LINE, "--dir", tmp_path, "--rules", HERE / "rules").code == 0
    assert (tmp_path / f"{made.id}.yaml").read_text(encoding="utf-8") == made.text
