"""The pages of a report: causes, timeline, plots, inputs, the log beside them; and taking pieces of it along."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from screen_helpers import HEAD, HERE, diagnose, eventually, same_screen, settle, text_of
from textual.widgets import DataTable, Input, OptionList

from doctor import engine
from doctor.model import Edit, Evidence, Finding, Fix, InputSeen, Place, Verdict
from doctor.render import lanes, plot
from doctor.tui.parts import commands
from doctor.tui.screens.copy import CopyScreen
from doctor.tui.screens.home import HomeScreen
from doctor.tui.screens.model import ModelScreen
from doctor.tui.screens.result import ResultScreen
from doctor.tui.screens.save import SaveScreen
from doctor.tui.widgets.detail import Detail
from doctor.tui.widgets.logpane import LogPane
from doctor.tui.widgets.logview import LogView
from doctor.tui.widgets.plots import PlotPane
from doctor.tui.widgets.timeline import Timeline

ROOT = Path(__file__).resolve().parents[2]
SIZES = [(80, 24), (120, 40), (200, 60)]
BEGAN = 1773824400.0
"""2026-03-18 09:00:00"""


def lane(rank, state, **more):
    start = {"start": BEGAN + rank, "first_failure": None, "last": BEGAN + 700, "last_step": 30}
    source = {"source": f"run/worker_{rank % 2}.log", "host": f"node-{rank // 8}", "waits_for": [], "finding": None}
    return {"rank": rank, "state": state, **start, **source, **more}


def event(second, rank, what, line, text, ranks=""):
    source = f"run/worker_{(rank or 0) % 2}.log"
    return {"seconds": BEGAN + second, "rank": rank, "source": source, "line": line, "text": text, "what": what,
            "finding": 0 if what == "cause" else None, "ranks": ranks}  # fmt: skip


def made_run(size=64):
    """Rank 1 runs out of memory, 37 goes silent, 12 waits for it, 3 for 12, the others for whom they do not say."""
    fates = {
        1: {"state": "failed", "first_failure": BEGAN + 120, "last": BEGAN + 125},
        37: {"state": "silent", "last": BEGAN + 110, "last_step": 29},
        12: {"state": "waited", "first_failure": BEGAN + 690, "waits_for": [37]},
        3: {"state": "waited", "first_failure": BEGAN + 692, "waits_for": [12]},
    }
    others = {"state": "waited", "first_failure": BEGAN + 680}
    ranks = [rank for rank in range(size) if rank not in (9, 17, 18)]
    return {
        "world_size": size, "missing": "9,17-18", "ranks_seen": len(ranks),
        "clock": {"corrected": True, "doubt": 0.4,
                  "hosts": [{"host": "node-1", "ranks": "8-15", "offset": -63.2, "from": "steps"}]},
        "lanes": [lane(rank, **fates.get(rank, others)) for rank in ranks],
        "timeline": [
            event(40, 5, "recovered", 3, "a connection was retried"),
            event(110, 37, "silent", 30, "step 29 was the last line"),
            event(120, 1, "cause", 32, "POOL EMPTY for MatMul-op1"),
            event(125, 1, "failure", 33, "Traceback (most recent call last):"),
            event(680, 0, "waiting", 31, "WAITED IN VAIN for rank 1", "0,2,4-8,10-11,13-16,19-36,38-63"),
            event(690, 12, "waiting", 31, "WAITED IN VAIN for rank 37"),
        ],
        "chains": [{"ranks": [3, 12, 37], "cycle": False}],
    }  # fmt: skip


def series(name="loss", rank=0, label="healthy", events=(), points=None):
    points = [[n, 3.0 - n * 0.05] for n in range(1, 31)] if points is None else points
    return {"source": f"run/worker_{rank % 2}.log", "rank": rank, "name": name, "kind": "train", "unit": "",
            "points": points, "count": len(points), "every": 1, "understood": "named", "unread": 0, "label": label,
            "events": list(events)}  # fmt: skip


SPIKE = series("loss", 1, "spike_recovered", [{"kind": "spike_recovered", "step": 20, "value": 9.5, "usual": 2.1,
                                               "line": 21}],
               [[n, 9.5 if n == 20 else 3.0 - n * 0.04] for n in range(1, 31)])  # fmt: skip
SHORT = Finding(
    "MEM702", Verdict.FAIL, {"limit": "55.00 GiB", "used": "53.58 GiB", "idle": "1.42 GiB", "size": "6.00 GiB"},
    (Evidence("run/worker_1.log", 32, "POOL EMPTY"),), Place(rank=1), topic="memory.device.exhausted",
    title={"zh": "显存用尽", "en": "Device memory is used up"},
)  # fmt: skip


def made_report(**more):
    report = engine.diagnose(["run"], engine.Options(rules=str(HERE / "rules")))
    drawn = (series(), series("loss", 2), SPIKE, series("lr"), series("grad_norm", 1), series("grad_norm", 2))
    return report._replace(series=drawn, run=made_run(), findings=(*report.findings, SHORT))._replace(**more)


async def shown(pilot, report):
    pilot.app.push_screen(ResultScreen(report, {}))
    await settle(pilot)
    return pilot.app.screen


async def press(pilot, *keys):
    for key in keys:
        await pilot.press(key)
        await settle(pilot)


def log_at(screen):
    """(source, line number that is marked) of the log."""
    view = screen.query_one(LogView)
    line = view.document.first + view.marked if view.marked is not None else None
    return screen.query_one(LogPane)._evidence.source, line


# ---------------------------------------------------------------------- screens


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("size", SIZES)
async def test_the_pages_look_as_they_should(app, run, lang, size):
    the = app(lang)
    async with the.run_test(size=size) as pilot:
        await shown(pilot, made_report())
        for key, name in (("2", "timeline"), ("3", "plots"), ("4", "inputs")):
            await press(pilot, key)
            await same_screen(f"result-{name}-{lang}-{size[0]}", the)


@pytest.mark.parametrize("lang", ["zh", "en"])
async def test_memory_and_the_choice_of_pieces_look_as_they_should(app, run, lang):
    the = app(lang)
    async with the.run_test(size=(100, 30)) as pilot:
        await shown(pilot, made_report())
        await press(pilot, "3", "end")
        await same_screen(f"result-memory-{lang}", the)
        await press(pilot, "1", "y", "down")
        await same_screen(f"result-copy-{lang}", the)


async def test_marks_frames_and_plots_are_ascii_on_request(app, run, monkeypatch):
    monkeypatch.setenv("DOCTOR_ASCII", "1")
    the = app("en")
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report())
        await press(pilot, "2")
        rows = [screen.query_one(Timeline).render_line(y).text for y in range(12)]
        assert all(row.isascii() for row in rows) and any("X" in row for row in rows)
        await press(pilot, "3")
        assert str(screen.query_one(PlotPane).picture(60, 20)).isascii()


# ---------------------------------------------------------------------- pages


async def test_pages_without_anything_to_show_are_not_there(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report(run={}, series=(), findings=(), diagnoses=()))
        assert screen.tabs == ("causes", "inputs")
        await press(pilot, "2", "3")
        assert screen.tab == "causes"
        await press(pilot, "4")
        assert screen.tab == "inputs"
        assert {name for name, _ in screen.commands()} >= {"causes", "inputs", "copy", "take"}
        assert "timeline" not in {name for name, _ in screen.commands()}


async def test_a_narrow_screen_shows_the_page_or_the_log(app, run):
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        screen = await shown(pilot, made_report())
        log = screen.query_one(LogPane)
        assert not log.display or log.size.width == 0
        await press(pilot, "down", "enter")
        assert screen.focused is screen.query_one(LogView) and log.size.width == 80
        assert ">32" in text_of(the)
        await press(pilot, "escape")
        assert screen.focused is screen.query_one("#causes") and log.size.width == 0
        await press(pilot, "tab")
        assert screen.focused is screen.query_one("#detail")
        await press(pilot, "tab")
        assert screen.focused is screen.query_one(LogView) and log.size.width == 80
        await press(pilot, "tab")
        assert screen.focused is screen.query_one("#causes") and log.size.width == 0
        await press(pilot, "slash", *"pool", "enter")
        assert log.size.width == 80
        await press(pilot, "escape", "escape")
        assert isinstance(the.screen, HomeScreen)


async def test_the_inputs_page_says_what_was_not_read_and_shows_what_was(app, run):
    gone = InputSeen("gone.log", (), 0, 0, None, "unreadable", {"zh": "没有这个文件", "en": "no such file"})
    the = app()
    async with the.run_test(size=(160, 40)) as pilot:
        report = made_report()
        await shown(pilot, report._replace(inputs=(*report.inputs, gone)))
        await press(pilot, "4")
        table = the.screen.query_one("#input-table", DataTable)
        rows = [[str(cell) for cell in table.get_row_at(n)] for n in range(table.row_count)]
        assert [row[0] for row in rows] == ["read", "read", "unreadable"] and rows[2][6] == "no such file"
        names = ["".join(row) for row in rows]
        table.move_cursor(row=next(n for n, name in enumerate(names) if "worker_1.log" in name))
        await settle(pilot)
        assert log_at(the.screen) == ("run/worker_1.log", None)
        await press(pilot, "enter")
        assert the.screen.focused is the.screen.query_one(LogView)


async def test_long_names_of_inputs_lose_their_beginning_and_no_column(app, run):
    names = [f"/data/job/ascend/log/debug/plog/a_long_folder/plog-{n}_2026031808000{n}.log" for n in range(3)]
    seen = [InputSeen(name, ("plog",), 9, 9, None, "read", {}) for name in names]
    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        await shown(pilot, made_report(inputs=(*seen, InputSeen("/data/job/x.log", ("plog",), 9, 9, None, "read", {}))))
        await press(pilot, "4")
        rows = [line for line in text_of(the).splitlines() if ".log" in line]
        assert len(rows) == 4 and all("9 B" in row for row in rows) and sum("…" in row for row in rows) == 3
        assert "plog-2_20260318080002.log" in rows[2]
        await pilot.resize_terminal(140, 40)
        await settle(pilot)
        assert "a_long_folder/plog-2_20260318080002.log" in text_of(the)


# ---------------------------------------------------------------------- timeline


async def test_the_cursor_goes_from_event_to_event_and_enter_to_the_line(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report())
        await press(pilot, "2")
        view = screen.query_one(Timeline)
        assert view.events[view.at]["what"] == "cause" and log_at(screen) == ("run/worker_1.log", 32)
        await press(pilot, "right")
        assert log_at(screen) == ("run/worker_1.log", 33)
        await press(pilot, "right")
        assert log_at(screen) == ("run/worker_0.log", 31)
        await press(pilot, "left", "left", "left")
        assert view.events[view.at]["rank"] == 37 and view.rows[view.row].ranks == (37,)
        assert screen.query_one("#events", DataTable).cursor_row == view.at
        await press(pilot, "home")
        assert view.at == 0 and view.window[0] <= view.events[0]["seconds"] <= view.window[1]
        await press(pilot, "end", "enter")
        assert view.at == 5 and screen.focused is screen.query_one(LogView)
        await press(pilot, "2", "tab", "up")
        assert view.at == 4 and log_at(screen)[1] == 31


async def test_lanes_with_the_same_fate_share_a_row_until_unfolded(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report())
        await press(pilot, "2")
        view = screen.query_one(Timeline)
        assert view.folded and [row.label for row in view.rows][1:] == ["1", "3", "9,17-18", "12", "37"]
        assert view.rows[0].label.startswith("0,2,4-8,10-11")
        await press(pilot, "f")
        assert len(view.rows) == 62 and view.rows[view.row].ranks == (1,)
        await press(pilot, *["down"] * 3)
        assert view.rows[view.row].ranks == (4,)
        await press(pilot, "pagedown", "pagedown", "pagedown", "pagedown", "pagedown", "pagedown")
        assert view.rows[view.row].ranks == (63,) and " >63" in text_of(the)
        await press(pilot, "f")
        assert len(view.rows) == 6


async def test_zoom_keeps_the_event_in_view_and_stays_within_the_run(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report())
        await press(pilot, "2")
        view = screen.query_one(Timeline)
        first = view.window
        assert first == (BEGAN + 50, BEGAN + 700)
        await press(pilot, *["plus"] * 4)
        assert view.window[1] - view.window[0] == pytest.approx(650 / 16)
        assert view.window[0] <= view.events[view.at]["seconds"] <= view.window[1]
        await press(pilot, *["minus"] * 9)
        assert view.window == pytest.approx((BEGAN, BEGAN + 700))
        await press(pilot, "w")
        assert view.window == first
        await press(pilot, *["plus"] * 30)
        assert view.window[1] - view.window[0] >= 1


async def test_hostile_text_in_a_run_is_shown_harmless(app, run):
    bad = "[bold red]x[/]\x1b[2J\u202e\u200b" + "y" * 5000
    made = made_run()
    made["timeline"][0].update(text=bad, source=bad)
    made["missing"] = "9,\x1b[2J"
    made["clock"]["hosts"][0]["host"] = bad
    made["lanes"][0].update(source=bad, rank=None)
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await shown(pilot, made_report(run=made, series=(series() | {"source": bad, "unit": bad},)))
        await press(pilot, "2", "home")
        seen = text_of(the)
        assert "[bold red]x[/]" in seen
        await press(pilot, "3", "4", "1")
        for text in (seen, text_of(the)):
            assert not {c for c in text if ord(c) < 32 and c != "\n"} and not set("\u202e\u200b\x9b") & set(text)


@pytest.mark.parametrize("made", [
    {"lanes": [], "timeline": [], "chains": [], "clock": {}, "missing": "", "world_size": None, "ranks_seen": 0},
    {"lanes": [lane(0, "ended", start=None, last=None)], "timeline": [], "chains": [], "clock": {}, "missing": "",
     "world_size": None, "ranks_seen": 1},
    {"lanes": [lane(0, "ended"), lane(1, "empty", start=None, last=None, last_step=None)], "timeline": [],
     "chains": [], "clock": {"corrected": False, "doubt": None, "hosts": []}, "missing": "", "world_size": 2,
     "ranks_seen": 2},
])  # fmt: skip
async def test_runs_without_times_or_events_are_no_crash(app, run, made):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report(run=made))
        await press(pilot, "2", "left", "right", "down", "up", "plus", "f", "w", "enter")
        assert the._exception is None
        assert ("timeline" in screen.tabs) == any(one["last"] for one in made["lanes"])


@given(st.floats(0, 2e9), st.floats(1, 1e6), st.integers(20, 300))
def test_axis_and_lanes_have_the_width_that_was_asked(start, span, columns):
    window = (start, start + span)
    assert [len(line) for line in lanes.axis(window, columns)] == [columns, columns]
    row = lanes.rows_of({"lanes": [lane(0, "silent", start=start - span, last=start + span / 2)]}, False)[0]
    marks = [(start, "cause"), (start + span, "failure"), (start + 9 * span, "waiting")]
    drawn = lanes.draw(row, marks, window, columns, window[1], False)
    text = "".join(piece for _, piece in drawn)
    assert cell_len(text) == columns and text[0] == "✖" and text[-1] == "x" and "w" not in text


@given(st.sets(st.integers(0, 400), max_size=40))
def test_rank_ranges_are_read_as_they_are_written(ranks):
    assert set(lanes.ranks_of(lanes.ranks_text(sorted(ranks)))) == ranks


def test_chains_with_the_same_end_are_one():
    run = {"chains": [{"ranks": [n, 2], "cycle": False} for n in (0, 1, 3)] + [{"ranks": [4, 5, 4], "cycle": True}]}
    assert lanes.chains(run, True) == [(False, "0-1,3 -> 2"), (True, "4 -> 5 -> 4")]


def test_clocks_are_not_spoken_of_where_there_is_one_host():
    one = {"world_size": 2, "ranks_seen": 2, "clock": {"corrected": False, "doubt": 0.0, "hosts": [{"host": "a"}]}}
    assert "".join(text for _, text in lanes.head(one, "en", False)) == "2 of 2 ranks seen"
    one["clock"]["hosts"].append({"host": "b"})
    assert "not compared" in "".join(text for _, text in lanes.head(one, "en", False))


def test_a_hostile_range_of_ranks_is_bounded():
    assert len(lanes.ranks_of("0-99999999999,5-1,x,7-")) <= lanes.MOST_RANKS


# ---------------------------------------------------------------------- plots


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.none() | st.floats(-1e30, 1e30)), max_size=120),
    st.lists(st.integers(0, 10**7), max_size=12), st.integers(24, 200), st.integers(4, 40), st.booleans(),
)  # fmt: skip
def test_a_chart_fits_its_room_whatever_it_shows(points, marks, columns, rows, plain):
    drawn = plot.chart(points, marks, columns=columns, rows=rows, ascii_only=plain)
    assert len(drawn) in (0, rows)
    assert all(cell_len(line) <= columns for line in drawn)
    assert not plain or all(line.isascii() for line in drawn)


def test_a_chart_goes_through_its_points():
    drawn = plot.chart([[0, 0.0], [50, 10.0], [100, 0.0]], [50], columns=60, rows=12, ascii_only=True)
    field = [line.split("|", 1)[1].ljust(54) for line in drawn if "|" in line]
    assert field[0].strip().startswith("*") and 24 <= field[0].index("*") <= 28
    assert field[-1][0] == "*" and field[-1].rstrip()[-1] == "*"
    assert drawn[-2].strip() == "1" and drawn[-1].split() == ["0", "100"]


def test_a_value_that_is_no_number_is_a_cross_and_breaks_the_line():
    drawn = plot.chart([[n, None if n == 5 else 1.0 + n] for n in range(11)], columns=40, rows=8)
    assert "x" in drawn[0]
    assert plot.chart([[1, None], [2, 3.0]], columns=40, rows=8) == []


def test_bars_of_memory_are_in_proportion():
    bars = dict(plot.sizes_of(SHORT.args))
    assert bars == {"limit": 55 * 2**30, "used": 53.58 * 2**30, "idle": 1.42 * 2**30, "size": 6 * 2**30}
    drawn = [text for _, text in plot.memory_bars(SHORT.args, "en", columns=80, ascii_only=True)]
    counts = [line.count("#") for line in drawn]
    assert counts[0] == max(counts) > 40
    assert counts[3] / counts[0] == pytest.approx(6 / 55, abs=0.02)
    assert plot.memory_bars({"size": "6 GiB", "limit": "unknown"}, "en", columns=80, ascii_only=True) == []


async def test_the_worst_series_is_drawn_first_and_its_event_is_in_the_log(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, made_report())
        await press(pilot, "3")
        pane = screen.query_one(PlotPane)
        assert pane.chosen.series is SPIKE and log_at(screen) == ("run/worker_1.log", 21)
        assert "step 20  jumped and came back  value 9.5  usually 2.1" in text_of(the)
        await press(pilot, "right")
        assert (pane.chosen.name, pane.chosen.rank) == ("grad_norm", 1)
        await press(pilot, "right")
        assert (pane.chosen.name, pane.chosen.rank) == ("lr", 0)
        await press(pilot, "left", "left")
        assert pane.chosen.name == "loss"
        await press(pilot, "left")
        assert pane.chosen.finding is SHORT and log_at(screen) == ("run/worker_1.log", 32)
        assert "53.58 GiB" in text_of(the)
        await press(pilot, "enter")
        assert screen.focused is screen.query_one(LogView)


# ---------------------------------------------------------------------- pieces


def test_commands_are_told_from_the_words_around_them():
    text = {
        "zh": "1) npu-smi info -l 查看编号；dmesg | tail -100。"
        "2) 写成 export ASCEND_RT_VISIBLE_DEVICES=0,1（逗号分隔）。"
        "3) `ulimit -n 65535`，再看 /var/log/messages。4) 逐个 npu-smi info -i <卡号> -t health 复核；"
        "for i in $(ls x); do y; done",
        "en": "",
    }
    assert commands(text) == [
        "npu-smi info -l", "dmesg | tail -100", "export ASCEND_RT_VISIBLE_DEVICES=0,1", "ulimit -n 65535",
        "npu-smi info -i <卡号> -t health",
    ]  # fmt: skip
    assert commands({"zh": "减小 batch，或打开重计算。", "en": "Take a smaller batch."}) == []


async def test_one_piece_can_be_copied_or_saved(app, run, tmp_path):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        report = made_report()
        first = report.diagnoses[0]._replace(next={"zh": "npu-smi info -l 查看。", "en": "npu-smi info -l shows them."})
        screen = await shown(pilot, report._replace(diagnoses=(first, *report.diagnoses[1:])))
        await press(pilot, "y")
        assert isinstance(the.screen, CopyScreen)
        names = [str(o.prompt).split("  ")[0] for o in the.screen.query_one(OptionList).options]
        assert names == ["Cause", "Evidence", "Next", "Fix", "Command", "This page (Causes)", "Line of the log"]
        await press(pilot, "enter")
        assert the.clipboard.startswith("Out of device memory") and "MEM901" in the.clipboard
        await press(pilot, "y", *["down"] * 4, "enter")
        assert the.clipboard == "npu-smi info -l"
        await press(pilot, "y", "down", "enter")
        assert the.clipboard.startswith("run/worker_1.log:32: [ERROR]")
        await press(pilot, "2", "y", *["down"] * 5, "s")
        assert isinstance(the.screen, SaveScreen)
        the.screen.query_one(Input).value = "page.txt"
        await press(pilot, "enter")
        assert the.screen is screen
        assert "61 of 64 ranks seen" in (tmp_path / "page.txt").read_text(encoding="utf-8")
        await press(pilot, "y", "escape")
        assert the.screen is screen


async def test_a_fix_with_edits_opens_the_patch_of_its_file(app, run, tmp_path):
    (tmp_path / "run.yaml").write_text("seed: 1\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        report = made_report()
        fix = Fix("F1", "safe", {"zh": "改", "en": "change"}, (Edit("run.yaml", "seed", "1", "2"),))
        first = report.diagnoses[0]._replace(fixes=(fix,))
        screen = await shown(pilot, report._replace(diagnoses=(first, *report.diagnoses[1:])))
        assert "patch" in {name for name, _ in screen.commands()}
        await press(pilot, "p")
        assert isinstance(the.screen, ModelScreen) and the.screen.target == "run.yaml" and the.screen._tab == "patch"
        await press(pilot, "escape")
        assert the.screen is screen
        await press(pilot, "end", "p")
        assert the.screen is screen and "patch" not in {name for name, _ in screen.commands()}


# ---------------------------------------------------------------------- the log


async def test_what_the_rule_matched_and_the_level_are_told_apart(app, run):
    the = app()
    async with the.run_test(size=(200, 60)) as pilot:
        await diagnose(pilot, "run")
        view = the.screen.query_one(LogView)
        match, error = view.get_component_rich_style("log--match"), view.get_component_rich_style("log--error")

        def pieces(row):
            strip = view.render_line(row - view.scroll_offset.y)
            return [(s.text, s.style) for s in strip]

        marked = pieces(view.marked)
        assert [text for text, style in marked if style == match] == ["POOL EMPTY for MatMul-op1"]
        assert [text for text, style in marked if style.color == error.color][:1] == ["[ERROR]"]
        warning = view.get_component_rich_style("log--warning")
        assert [text for text, style in pieces(20) if style.color == warning.color] == ["[WARNING]"]


async def test_an_expression_is_searched_for_in_linear_time_and_a_wrong_one_is_said(app, run, tmp_path):
    lines = [f"step {n}, loss: {'nan' if n in (300, 700) else n}" for n in range(1000)]
    hostile = "a" * 200_000
    failed = f"[ERROR] {HEAD.format(pid=8, time='02:00', line=9)} POOL EMPTY for MatMul-op1, size 4096"
    (tmp_path / "x.log").write_text("\n".join([failed, *lines, hostile]) + "\n", encoding="utf-8")
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        await diagnose(pilot, "x.log")
        view = the.screen.query_one(LogView)
        view.focus()
        await press(pilot, "slash", "ctrl+r")
        line = the.screen.query_one("#search", Input)
        for text in ("loss: (nan", "(a)\\1"):
            line.value = text
            await press(pilot, "enter")
            assert "no expression" in text_of(the) and the.screen.focused is line
        line.value = "LOSS: (nan|inf)$".lower()
        await press(pilot, "enter")
        assert view.marked == 301
        await press(pilot, "n")
        assert view.marked == 701
        await press(pilot, "n")
        assert view.marked == 301 and "went round" in text_of(the)
        await press(pilot, "N", "N")
        assert view.marked == 301
        await press(pilot, "slash")
        line.value = "(a*)*b$"
        await press(pilot, "enter")
        assert "no hit" in text_of(the)


async def test_a_profile_is_a_table_among_the_plots(app, run):
    the = app()
    async with the.run_test(size=(120, 40)) as pilot:
        screen = await shown(pilot, engine.diagnose([str(ROOT / "fixtures" / "profiles" / "slow")]))
        await press(pilot, "3")
        pane = screen.query_one(PlotPane)
        assert [one.name for one in pane.drawn] == ["profile"]
        assert "Where the time goes" in text_of(the)
        assert "71.6 %" in text_of(the) and "MatMulV3 55.4 %" in text_of(the)
        await press(pilot, "left", "right")
        assert pane.chosen.name == "profile"


async def test_what_a_pane_left_to_do_is_not_done_once_it_is_gone(app, run):
    done = []

    class Pane(Detail):
        def on_resize(self):
            done.append(self.is_attached)
            super().on_resize()

    the = app()
    async with the.run_test(size=(80, 24)) as pilot:
        pane, screen = Pane(), the.screen

        async def shown_and_gone():  # the screen, which calls back, is held up until the pane is gone
            pane.show(None, {}, "en", "a note")
            while not screen._callbacks:
                await asyncio.sleep(0)
            pane._width = -1
            await pane.remove()
            over.set()

        over = asyncio.Event()
        await screen.mount(pane)
        await pilot.pause()
        done.clear()
        screen.call_later(shown_and_gone)
        assert await eventually(pilot, over.is_set)
        await pilot.pause()
        assert False not in done
