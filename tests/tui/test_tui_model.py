"""Configurations: findings with their lines, memory, values, patches taken, applied and put back; hostile files."""

import os
import threading

import pytest
from screen_helpers import HERE, eventually, same_screen, settle, shows, text_of
from textual.widgets import DataTable, Input, OptionList, Tree

from doctor.model import Edit
from doctor.patch import diff
from doctor.patch.plan import FilePatch
from doctor.plan import memory
from doctor.render.plot import bar
from doctor.tui import configs
from doctor.tui.app import DoctorApp
from doctor.tui.screens.confirm import ConfirmScreen
from doctor.tui.screens.home import HomeScreen
from doctor.tui.screens.model import ModelScreen
from doctor.tui.screens.model.memory import stacked
from doctor.tui.screens.model.patching import PatchPage
from doctor.tui.screens.open import OpenScreen
from doctor.tui.widgets.diffview import DiffView

SOUND = """\
run_mode: train # eight devices
seed: 42
use_parallel: True
runner_config: {epochs: 2, batch_size: 1}
optimizer: {type: AdamW, eps: 1.e-8}
lr_schedule:
  type: CosineWithWarmUpLR
  learning_rate: 1.e-4
parallel_config:
  data_parallel: 2
  model_parallel: 2
  pipeline_stage: 2
  micro_batch_num: 4
context:
  max_device_memory: "30GB"
model:
  model_config:
    type: LlamaConfig
    seq_length: 2048
    hidden_size: 2560
    num_layers: 20
    num_heads: 20
    vocab_size: 32000
    use_flash_attention: True
"""
BROKEN = (
    SOUND.replace("seed: 42", "seed: 0")
    .replace("1.e-4", "1e-4")
    .replace("model_parallel: 2", "model_parallel: 3")
    .replace("vocab_size: 32000", "vocab_size: 50257")
)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A folder to work in with two configurations, and a journal of this test."""
    monkeypatch.setenv("DOCTOR_JOURNAL", str(tmp_path / "journal"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "broken.yaml").write_text(BROKEN)
    (folder / "sound.yaml").write_text(SOUND)
    (folder / "notes.json").write_text('{"a": 1}')
    monkeypatch.chdir(tmp_path)
    return folder


def app_for(path="conf", lang="en"):
    the = DoctorApp(lang=lang, rules=str(HERE / "model_rules"))
    the.model_path = str(path)
    return the


async def press(pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def notices(app):
    return [notice.message for notice in app._notifications]


# ---------------------------------------------------------------------- what it looks like


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_the_pages(lang, size):
    the = app_for(lang=lang)
    async with the.run_test(size=size) as pilot:
        await press(pilot, "m")
        await same_screen(f"model-{lang}-{size[0]}", the)
        await press(pilot, "2")
        await same_screen(f"model-memory-{lang}-{size[0]}", the)
        await press(pilot, "4", "down", "space", "space", "a")
        if size[0] == 80:
            await same_screen(f"model-ask-{lang}", the)
        await press(pilot, "n")
        await same_screen(f"model-patch-{lang}-{size[0]}", the)


async def test_marks_and_bars_are_ascii_on_request(monkeypatch):
    monkeypatch.setenv("DOCTOR_ASCII", "1")
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        tree = [str(the.screen.query_one(Tree).render_line(y).text) for y in range(6)]
        assert all(line.isascii() for line in tree) and "x PAR901" in tree[1] + tree[2]
        await press(pilot, "2")
        assert "####" in text_of(the) and "█" not in text_of(the) and "OOOOAA" in text_of(the)
        await press(pilot, "4", "down", "space", "space")
        assert not the.screen.query_one(DiffView).beside
        await pilot.resize_terminal(140, 40)
        await settle(pilot)
        rows = [the.screen.query_one(DiffView).render_line(y).text for y in range(10)]
        assert any(" | " in row for row in rows) and all(row.isascii() for row in rows)


def test_the_parts_of_a_stage_fill_its_bar_exactly():
    rows = [
        memory.Row(name, size, "", {}, "") for name, size in (("weights", 1.0), ("logits", 0.001), ("runtime", 3.0))
    ]
    drawn = stacked(rows, 4.0, 9)
    assert "".join(text for text, _ in drawn) == "W█R██████" and len({style for _, style in drawn}) == 2
    assert stacked(rows, 0.0, 9) == [] and stacked(rows, 1.0, 3, plain=True) == [("WWW", drawn[0][1])]


def test_something_is_seen_of_everything_above_nothing():
    assert bar(2.0, 2.0, 4) == "████" and bar(1e-9, 2.0, 4) == "▏" and bar(0.0, 2.0, 4) == ""
    assert bar(3.0, 2.0, 4, plain=True) == "####" and bar(1.0, 0.0, 4) == ""


# ---------------------------------------------------------------------- choosing


async def test_it_asks_for_a_file_and_remembers_it(place):
    the = app_for("")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        assert isinstance(the.screen, OpenScreen) and "Look at a configuration" in text_of(the)
        await press(pilot, "escape")
        assert isinstance(the.screen, ModelScreen) and "o chooses" in text_of(the)
        await press(pilot, "2", "3", "4", "a", "v", "f", "z", "5", "1", "o")
        the.screen.query_one("#open-path", Input).value = str(place / "broken.yaml")
        the.screen.query_one("#open-path", Input).focus()
        await press(pilot, "enter")
        assert "PAR901" in text_of(the)
        await press(pilot, "escape")
        assert isinstance(the.screen, HomeScreen)
        await press(pilot, "k", "m")
        assert "PAR901" in text_of(the)
        await press(pilot, "escape", "escape")
        assert isinstance(the.screen, HomeScreen)


async def test_a_folder_is_taken_with_its_key_and_the_button_opens_the_screen(place):
    the = app_for("")
    async with the.run_test(size=(80, 24)) as pilot:
        await pilot.click("#model")
        await settle(pilot)
        assert isinstance(the.screen, OpenScreen)
        the.screen.query_one("#open-path", Input).value = str(place)
        the.screen.query_one("#open-path", Input).focus()
        await press(pilot, "enter", "f")
        assert "broken.yaml" in text_of(the) and "in 2 of 3 files" in text_of(the)


@pytest.mark.parametrize(("name", "says"), [("nowhere.yaml", "no such file"), ("empty", "None of 0 files"),
                                            ("notes.json", "None of 1 files")])  # fmt: skip
async def test_nothing_to_look_at_is_said(place, name, says):
    (place / "empty").mkdir()
    the = app_for(place / name)
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "2", "3", "4", "space", "a", "5", "1", "r")
        assert says in text_of(the)


# ---------------------------------------------------------------------- findings and values


async def test_the_worst_file_comes_first_and_its_line_is_in_view():
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        seen = text_of(the)
        assert "2 ✖ 1 ▲ 1 •" in seen and "in 2 of 3 files" in seen
        assert seen.index("broken.yaml") < seen.index("sound.yaml")
        assert "> 8    learning_rate: 1e-4" in seen and "Write a decimal point" in seen
        await press(pilot, "down")
        assert ">11    model_parallel: 3" in text_of(the) and "Attention is cut by heads" in text_of(the)
        await press(pilot, "enter")
        assert the.focused is not None and the.focused.id == "logview"
        await press(pilot, "f")
        assert await shows(pilot, "Memory of the fullest stage") and "0 did not" in text_of(the)
        await press(pilot, "slash", *"flash", "enter")
        assert ">24      use_flash_attention" in text_of(the)


async def test_what_could_not_be_told_is_shown_on_request():
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        assert "CFG904" not in text_of(the)
        await press(pilot, "v")
        assert "CFG904" in text_of(the) and "1 ?" in text_of(the)
        await press(pilot, "v")
        assert "CFG904" not in text_of(the)


async def test_python_sources_are_looked_at_too(place):
    (place / "net.py").write_text("import mindspore as ms\nnet = ms.nn.Dense(2, 2)\n")
    (place / "old.py").write_text("print 'x'\n")
    the = app_for(place)
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "f")
        assert "in 4 of 5 files" in text_of(the) and "net.py" in text_of(the) and "old.py" in text_of(the)
        assert "Read as a Python source" in text_of(the) and "ms.nn.Dense(2, 2)" in text_of(the)
        await press(pilot, "2", "3", "4", "1")
        assert "Read as a Python source" in text_of(the)


async def test_the_values_go_to_their_lines():
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "3")
        table = the.screen.query_one("#value-table", DataTable)
        names = [str(table.get_row_at(n)[0]) for n in range(table.row_count)]
        assert {"parallel.mp", "model.hidden_size", "optimizer.lr"} & set(names) >= {"parallel.mp", "model.hidden_size"}
        table.move_cursor(row=names.index("parallel.mp"))
        await press(pilot, "enter")
        assert ">11    model_parallel: 3" in text_of(the)
        await press(pilot, "3")
        table.move_cursor(row=next(n for n in range(table.row_count) if "from" in str(table.get_row_at(n)[2])))
        await press(pilot, "enter")
        assert any("no line" in text for text in notices(the))


async def test_the_language_changes_everywhere():
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4", "l")
        seen = text_of(the)
        assert "处修改" in seen and "可能改变结果" in seen and "may change" not in seen
        await press(pilot, "3")
        assert "出处" in text_of(the)
        await press(pilot, "5")
        assert "没有补丁" in text_of(the)
        await press(pilot, "2")
        assert "显存估算" in text_of(the)
        await press(pilot, "1")
        assert "不能被 mp 3 整除" in text_of(the) and "1 问题" in text_of(the)


async def test_every_action_is_in_the_palette():
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        english = {c.title for c in the.get_system_commands(the.screen)}
        await press(pilot, "l")
        chinese = {c.title for c in the.get_system_commands(the.screen)}
        assert {"Choose", "Findings", "Memory", "Values", "Patch", "History", "Apply", "Undo", "Next file",
                "Agree to aliases", "Show unknown", "Configurations"} <= english  # fmt: skip
        assert {"选择", "问题", "显存", "取值", "补丁", "历史", "应用", "撤销", "下一文件"} <= chinese
        by_name = {c.title: c.callback for c in the.get_system_commands(the.screen)}
        by_name["显存"]()
        await settle(pilot)
        assert "显存估算" in text_of(the)


async def test_saving_and_copying(tmp_path):
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "s", "enter")
        saved = (tmp_path / "doctor-report.txt").read_text()
        assert "PAR901" in saved and "CFG901" in saved and "Memory of stage" in saved
        await press(pilot, "c")
        assert "PAR901" in the.clipboard


# ---------------------------------------------------------------------- patches


async def test_fixes_are_taken_compared_written_and_put_back(place):
    the = app_for()
    path = place / "broken.yaml"
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4")
        seen = text_of(the)
        # what is safe is taken, what may change results is not
        assert "[x] ✖ CFG901-1" in seen and "[ ] ✖ PAR901-1" in seen and "[ ] ▲ CFG902-1" in seen
        assert " -  • CFG903-1" in seen and "1 change(s)" in seen
        assert "8 -   learning_rate: 1e-4" in seen and "8 +   learning_rate: 0.0001" in seen
        await press(pilot, "down", "down", "down", "down", "space")
        seen = text_of(the)
        assert "(*) 3) parallel_config.model_parallel = 4" in seen and "2 change(s)" in seen
        await press(pilot, "up", "space")
        seen = text_of(the)
        assert "(*) 2) parallel_config.model_parallel = 2" in seen and "( ) 3)" in seen and "2 change(s)" in seen
        await press(pilot, "space")
        assert "[ ] ✖ PAR901-1" in text_of(the) and "1 change(s)" in text_of(the)
        # which of several ways is meant has to be said
        await press(pilot, "up", "up", "space")
        assert "[ ] ✖ PAR901-1" in text_of(the) and any("more than one way" in text for text in notices(the))
        rows = the.screen.query_one("#proposals", OptionList)
        assert rows.get_option_at_index(rows.highlighted).id == "1.0"
        await press(pilot, "down")
        await press(pilot, "space", "end")
        await press(pilot, "space")
        assert any("in words only" in text for text in notices(the))
        # it asks, and the first answer is no
        await press(pilot, "a")
        assert isinstance(the.screen, ConfirmScreen) and "May change results: PAR901-1" in text_of(the)
        await press(pilot, "enter")
        assert path.read_text() == BROKEN
        await press(pilot, "a", "l", "y")
        assert path.read_text() == BROKEN.replace("1e-4", "0.0001").replace("model_parallel: 3", "model_parallel: 2")
        assert any("已写入" in text for text in notices(the))
        await press(pilot, "l", "1")
        assert "PAR901" not in text_of(the) and "CFG902" in text_of(the)
        await press(pilot, "5")
        seen = text_of(the)
        assert "written" in seen and "CFG901 PAR901" in seen and "parallel_config.model_parallel: 3 → 2" in seen
        await press(pilot, "u", "right", "enter")
        assert path.read_text() == BROKEN
        assert await shows(pilot, "undone")
        await press(pilot, "u")
        assert any("was put back already" in text for text in notices(the))
        await press(pilot, "1")
        assert "PAR901" in text_of(the)


async def test_undo_takes_the_newest_from_any_page(place):
    the = app_for(place / "broken.yaml")
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m", "u")
        assert any("no patch to put back" in text for text in notices(the))
        await press(pilot, "a", "a", "y")
        assert (place / "broken.yaml").read_text() != BROKEN
        await press(pilot, "1", "u", "escape")
        assert (place / "broken.yaml").read_text() != BROKEN
        await press(pilot, "u", "y")
        assert (place / "broken.yaml").read_text() == BROKEN
        assert "CFG901" in text_of(the)


async def test_only_the_patch_that_was_asked_about_is_written(place):
    the = app_for(place / "broken.yaml")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4", "a")
        model = the.screen_stack[-2]
        assert isinstance(model, ModelScreen)
        model.query_one(PatchPage).compose_patch()
        await press(pilot, "y")
        assert (place / "broken.yaml").read_text() == BROKEN
        assert any("changed meanwhile" in text for text in notices(the))


async def test_aliases_need_a_word(place):
    text = "rate: &r 1e-4\nlr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-4}\n"
    text += "optimizer: {type: AdamW, learning_rate: *r, eps: *r}\nmodel: {model_config: {type: LlamaConfig}}\n"
    (place / "alias.yaml").write_text(text)
    the = app_for(place / "alias.yaml")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4", "x")
        assert any("may change with it" in text for text in notices(the))
        await press(pilot, "x")
        assert any("must not change" in text for text in notices(the))


async def test_old_and_new_stand_beside_each_other_where_there_is_room():
    the = app_for()
    async with the.run_test(size=(140, 40)) as pilot:
        await press(pilot, "m", "4", "tab")
        view = the.screen.query_one(DiffView)
        beside = [view.render_line(y).text for y in range(9)]
        assert any("- " in row and "+ " in row for row in beside)
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        stacked = [view.render_line(y).text for y in range(10)]
        assert not any("1e-4" in row and "0.0001" in row for row in stacked)
        assert any("- " in row for row in stacked) and any("+ " in row for row in stacked)
        await press(pilot, "right", "end", "home", "left")


# ---------------------------------------------------------------------- files that are not what they were


async def test_a_file_changed_meanwhile_is_left_alone(place):
    the = app_for(place / "broken.yaml")
    path = place / "broken.yaml"
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4")
        path.write_text(BROKEN + "# mine\n")
        await press(pilot, "a", "y")
        assert path.read_text() == BROKEN + "# mine\n"
        assert any("was changed after it was read" in text for text in notices(the))
        path.write_text(BROKEN + "# mine too\n")
        await press(pilot, "1", "up", "down")
        assert "was changed since" in text_of(the)
        await press(pilot, "r")
        assert "was changed since" not in text_of(the)
        await press(pilot, "4", "a", "y")
        assert "0.0001" in path.read_text() and path.read_text().endswith("# mine too\n")
        # changed after the patch: it is not put back
        path.write_text("seed: 1\n")
        await press(pilot, "u", "y")
        assert path.read_text() == "seed: 1\n"
        assert any("nothing is put back" in text for text in notices(the))


async def test_a_read_only_file_is_left_alone(place):
    path = place / "broken.yaml"
    path.chmod(0o444)
    the = app_for(path)
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m", "4", "a", "y")
        assert path.read_text() == BROKEN
        assert any("read-only" in text for text in notices(the))


async def test_a_file_that_vanishes_is_a_notice(place):
    path = place / "broken.yaml"
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4")
        path.unlink()
        await press(pilot, "a", "y")
        assert any("cannot be read" in text for text in notices(the))
        await press(pilot, "1", "down", "2", "3", "4", "1")
        assert isinstance(the.screen, ModelScreen)
        await press(pilot, "r")
        assert "broken.yaml" not in text_of(the) and "sound.yaml" in text_of(the)


async def test_a_journal_that_cannot_be_used_is_a_notice(place, tmp_path):
    (tmp_path / "journal").write_text("a file")
    the = app_for(place / "broken.yaml")
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m", "5", "4", "a", "y")
        assert (place / "broken.yaml").read_text() == BROKEN
        assert any("journal" in text for text in notices(the))


# ---------------------------------------------------------------------- threads


async def test_escape_stops_looking_and_keeps_what_was_found(monkeypatch):
    reached, go = threading.Event(), threading.Event()
    real = configs.look

    def slow(paths, base, cancelled):
        for step in real(paths, base, cancelled):
            yield step
            reached.set()
            while not go.wait(0.01) and not cancelled():
                pass

    monkeypatch.setattr(configs, "look", slow)
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await pilot.press("m")
        assert await eventually(pilot, lambda: reached.is_set() and "broken.yaml" in text_of(the))
        assert "Esc stops" in text_of(the)
        await press(pilot, "escape")
        assert isinstance(the.screen, ModelScreen)
        assert "PAR901" in text_of(the) and "sound.yaml" not in text_of(the)
        go.set()
        await press(pilot, "r")
        assert "sound.yaml" in text_of(the)
        await press(pilot, "escape")
        assert isinstance(the.screen, HomeScreen)


async def test_escape_stops_the_search_for_fixes_and_says_so(monkeypatch):
    reached = threading.Event()

    def slow(path, base, options, cancelled):
        reached.set()
        while not cancelled():
            pass
        return configs.Offer(path, configs.stamp(path), options.aliases, ())

    monkeypatch.setattr(configs, "offer", slow)
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m")
        await pilot.press("4")
        assert await eventually(pilot, reached.is_set)
        await pilot.pause()
        assert "Looking for what would mend broken.yaml" in text_of(the)
        await press(pilot, "escape")
        assert "Stopped: not everything" in text_of(the)


async def test_a_pane_alone():
    the = app_for()
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m", "4", "tab", "z")
        assert "0.0001" in text_of(the) and "CFG901-1" not in text_of(the)
        await press(pilot, "escape", "1", "enter", "z")
        assert "use_flash_attention" in text_of(the) and "Attention" not in text_of(the)
        await press(pilot, "2")
        assert "Memory of stage" in text_of(the)


@pytest.mark.parametrize("name", ["look", "offer", "take"])
async def test_the_doctors_own_failure_is_a_line(monkeypatch, name):
    def broken(*_):
        raise RuntimeError("[red]no[/] luck")

    monkeypatch.setattr(configs, name, broken)
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4")
        assert "RuntimeError: [red]no[/] luck" in text_of(the)
        await press(pilot, "escape")
        assert isinstance(the.screen, HomeScreen)


async def test_leaving_while_it_works_ends_the_work(monkeypatch):
    began, ended = threading.Event(), threading.Event()

    def endless(paths, base, cancelled):
        began.set()
        while not cancelled():
            pass
        ended.set()
        yield configs.Step(1, None)

    monkeypatch.setattr(configs, "look", endless)
    the = app_for()
    async with the.run_test(size=(80, 24)) as pilot:
        await pilot.press("m")
        assert await eventually(pilot, began.is_set)
        await pilot.press("escape", "escape")
        assert await eventually(pilot, ended.is_set)


# ---------------------------------------------------------------------- hostile files


EVIL = "[bold]x[/bold] [@click=app.quit]y[/] \u202eabc\u200b"


async def test_nothing_in_a_file_steers_the_screen(place, tmp_path):
    name = "[red]ev\x1b[31mil[bold].yaml"
    text = BROKEN.replace("# eight devices", f"# {EVIL}").replace("LlamaConfig", '"[bold]Llama[/]Config"')
    text = text.replace("seed: 0", "seed: 0 # " + EVIL).replace("num_heads: 20", "num_heads: 20 # " + EVIL)
    (place / name).write_text(text, encoding="utf-8")
    (place / "run.sh").write_bytes(
        b"torchrun pretrain_gpt.py --num-layers 4 --hidden-size 8 \x1b]0;evil\x07[/red] \xff\n"
    )
    (place / "bad.yaml").write_bytes(b"model_config:\n\t- \x1b[2J[/b]\n  parallel_config: {\n")
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "v", *["down"] * 12)
        for _ in range(5):
            await press(pilot, "f", "1", "2", "3", "4", "space", "a", "y", "5", "u", "y", "1")
            assert not {"\x1b", "\u202e", "\x07", "\u200b"} & set(text_of(the))
        await press(pilot, "s", "enter")
        assert isinstance(the.screen, ModelScreen)


ODD = (
    b"",
    b"\xef\xbb\xbf" + BROKEN.encode(),
    BROKEN.replace("\n", "\r\n").encode(),
    b"a: &a [1,2]\nmodel_config: &b [*a,*a,*a]\n" + b"x: [*b,*b]\n" * 30,
    b"---\n" + BROKEN.encode() + b"---\nb: 1\n",
    b"model_config: \x00\x01\n",
    (BROKEN + "seed: 1\nseed: 2\n").encode(),
    b"\xff\xfe" + BROKEN.encode("utf-16-le"),
)


@pytest.mark.parametrize("data", ODD)
async def test_odd_files_are_told_and_never_end_the_screen(place, data):
    (place / "broken.yaml").write_bytes(data)
    the = app_for(place / "broken.yaml")
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m", "v", "down", "2", "3", "4", "space", "a", "n", "1")
        assert isinstance(the.screen, ModelScreen)
        assert ("broken.yaml" in text_of(the)) or "None of 1 files" in text_of(the)


async def test_links_in_a_circle_and_special_files(place):
    os.symlink(place / "loop.yaml", place / "loop.yaml")
    os.mkfifo(place / "pipe.yaml")
    the = app_for()
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "f", "f", "f", "4", "1")
        assert isinstance(the.screen, ModelScreen) and "broken.yaml" in text_of(the)
    the = app_for(place / "pipe.yaml")
    async with the.run_test(size=(120, 40)) as pilot:
        await press(pilot, "m", "4", "1")
        assert isinstance(the.screen, ModelScreen) and "pipe.yaml" in text_of(the)


async def test_hundreds_of_files_are_a_tree(place):
    for n in range(300):
        (place / f"more-{n}.yaml").write_text(SOUND)
    the = app_for()
    async with the.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m")
        assert "in 302 of 303 files" in text_of(the)
        assert "CFG901" in text_of(the)
        await press(pilot, "f", "f")
        assert len(the.screen.query_one(Tree).root.children) == 302


def test_far_changes_in_long_files_are_compared_at_once():
    lines = [b"  - {a: 1}\n" if n % 2 else b"  },\n" for n in range(60_000)]
    changes, after = [], list(lines)
    for n in (10, 59_990):
        start = sum(map(len, lines[:n]))
        changes.append(Edit("f.yaml", "a", lines[n].decode(), "x: 1\n", start, start + len(lines[n])))
        after[n] = b"x: 1\n"
    rows = diff.rows(FilePatch("f.yaml", "f.yaml", "yaml", b"".join(lines), b"".join(after), tuple(changes)))
    assert [row.left_number for row in rows if row.kind == "changed"] == [11, 59_991]
    assert len(rows) == 14


def test_files_are_looked_at_one_by_one_and_the_work_ends_when_asked(place):
    from doctor.rulebase import load

    base = load(str(HERE / "model_rules"))
    steps = list(configs.look([str(place)], base, lambda: False))
    assert [step.looked for step in steps] == [1, 2, 3] and sum(step.seen is not None for step in steps) == 2
    assert list(configs.look([str(place)], base, lambda: True)) == []
