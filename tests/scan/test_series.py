"""Training lines become columns, whatever framework printed them, in whatever chunks they come."""

import math
from itertools import pairwise
from random import Random

import pytest

from doctor.rulebase import load
from doctor.scan import series
from doctor.scan.lazy import load_numpy
from doctor.scan.scanner import Matcher, Scanner, scan_text

LINES = [
    ("epoch: 1 step: 4, loss is 0.5289374589920044", {"epoch": 1, "step": 4, "loss": 0.5289374589920044}),
    (
        "Epoch:[  1/  2], step:[   10/  100], loss:[9.123/9.456], time:1234.567 ms, lr:1e-05, overflow cond: False, "
        "loss_scale: 65536.0",
        {"step": 10, "loss": 9.123, "step_time": 1234.567, "lr": 1e-05, "overflow": 0, "loss_scale": 65536},
    ),
    (
        "2025-04-07 15:34:27,308 - [mindformers/core/callback/callback.py:529] - INFO - { Epoch:[  1/  2], "
        "step:[    3/   19], loss: 9.673, per_step_time: 1754ms, lr: 9.981987e-06, overflow cond: True, loss_scale: "
        "1.0, global_norm: [10.579812], train_throughput_per_npu: 170.523T",
        {"step": 3, "loss": 9.673, "step_time": 1754, "grad_norm": 10.579812, "throughput": 170.523, "overflow": 1},
    ),
    (
        "{ Epoch:[  1/  2], step:[    1/   19], loss: 10.649123, lm_loss: 10.5, load_balancing_loss: 0.02, "
        "per_step_time: 1033ms, lr: 0.0, overflow cond: False, loss_scale: 1.0, global_norm: [1.3]",
        {"loss": 10.649123, "grad_norm": 1.3},
    ),
    (
        " iteration       10/    5000 | consumed samples:  640 | elapsed time per iteration (ms): 1932.5 | learning "
        "rate: 2.500000E-07 | global batch size:    64 | lm loss: 1.053084E+01 | loss scale: 1.0 | grad norm: 56.739 "
        "| num zeros: 0 | number of skipped iterations:   0 | number of nan iterations:   3 |",
        {"step": 10, "loss": 10.53084, "lr": 2.5e-07, "grad_norm": 56.739, "step_time": 1932.5, "nan_steps": 3},
    ),
    (
        "[default7]: iteration    31214/  115311 | elapsed time per iteration (s): 106.46 | lm loss: 2.198845E+00 | "
        "grad norm: 0.242 | TFLOPs: 147.29 |",
        {"step": 31214, "step_time": 106460, "throughput": 147.29},
    ),
    ("{'loss': 2.1, 'grad_norm': 'nan', 'learning_rate': 5e-05, 'epoch': 0.01}", {"loss": 2.1, "epoch": 0.01}),
    ("iter 10: loss 3.2101, time 123.45ms, mfu 12.34%", {"step": 10, "loss": 3.2101, "step_time": 123.45}),
    ("Epoch 38/300, Step 4/4, loss: 0.2778", {"epoch": 38, "step": 4, "loss": 0.2778}),
    ("Training:  20%|##        | 20/100 [00:02<00:08,  9.9it/s, loss=4.500]", {"step": 20, "loss": 4.5}),
    (" 12/100 [====>.........] - ETA: 0s - loss: 0.4567 - accuracy: 0.8", {"step": 12, "loss": 0.4567}),
    ("loss: 468775552.0000  [ 10/190]", {"loss": 468775552, "step": 10}),
    (
        "[2024-03-02 11:26:12] mindocr.utils.callbacks INFO - epoch: [10/20] step: [100/4468], loss: 12.484948, lr: "
        "0.000883, per step time: 224.442 ms, fps per card: 4.46 img/s",
        {"epoch": 10, "step": 100, "lr": 0.000883, "step_time": 224.442, "throughput": 4.46},
    ),
    ("2026-01-05 00:46:13,777 DEBUG TRAIN Batch 7/100 loss 1.5 lr 0.00055784 grad_norm 2.5 rank 2", {"grad_norm": 2.5}),
    ("训练 步: 7, 损失: 2.5", {"step": 7, "loss": 2.5}),
    ("第 3 轮 第 70 步，损失：2.5，学习率：1e-4", {"epoch": 3, "step": 70, "loss": 2.5, "lr": 1e-4}),
    ("2026-03-02 09:15:00 第70步 loss=2.5 耗时=123ms", {"step": 70, "loss": 2.5, "step_time": 123}),
    (
        "03/02 09:15:00 - mmengine - INFO - Epoch(train)   [1][   20/233]  lr: 2.0e-02  eta: 1:02:33  time: 0.45  "
        "data_time: 0.0041  memory: 10311  loss: 3.2  loss_cls: 0.1",
        {"epoch": 1, "step": 20, "loss": 3.2, "step_time": 450},
    ),
    (
        "03/02 09:15:00 - mmengine - INFO - Iter(train) [    50/40000]  lr: 2.0e-04  time: 0.45  loss: 3.2",
        {"step": 50, "loss": 3.2},
    ),
    ("2026-03-02 - mmdet - INFO - Epoch [1][50/462]\tlr: 2.0e-02, loss: 3.2", {"epoch": 1, "step": 50, "loss": 3.2}),
    ("[09:15:00] [50/462] loss=3.2 lr=1e-4", {"step": 50, "loss": 3.2, "lr": 1e-4}),
    ("2026-03-02 | INFO | trainer:train_step:88 - Epoch 0, Step 50, Loss: 3.2", {"epoch": 0, "step": 50}),
    ("step:50 - train/loss:3.2 - train/lr(1e-3):0.01 - train/grad_norm:1.5", {"step": 50, "grad_norm": 1.5}),
    ("step: 50, loss: Tensor(shape=[], dtype=Float32, value= 3.2)", {"step": 50, "loss": 3.2}),
    ("step 50 loss: Tensor(shape=[1], dtype=Float16, value= [ 3.2e+00])", {"step": 50, "loss": 3.2}),
    (
        "{'loss': 3.2, 'grad_norm': 1.5, 'train_speed(iter/s)': 0.5, 'epoch': 0.1, 'global_step/max_steps': '5/100'}",
        {"step": 5, "epoch": 0.1, "loss": 3.2},
    ),
    ('{"epoch": 1, "update": 0.1, "loss": "3.2", "num_updates": "50", "gnorm": "1.5"}', {"step": 50, "loss": 3.2}),
]


@pytest.mark.parametrize(("line", "wanted"), LINES, ids=[line[:40] for line, _ in LINES])
def test_a_line_of_every_make_gives_its_values(line, wanted):
    collector = series.Collector("x", exact=True, limit=1000)
    data = (line + "\n").encode()
    collector.take(data, 0, [1], 0)
    (track,) = collector.finish("x")
    assert {name: track.columns[name][0] for name in wanted} == wanted
    assert track.lines[0] == 1


@pytest.mark.parametrize(
    "line",
    ["", "# step 1 loss 2", "loss_scale: 1.0", "the loss is high", "step 7 of 9 done",
     "{'train_runtime': 3.0, 'loss': 1.0}",
     "[INFO] MD(1,7f,python):2026-03-01-10:00:00.000.000 [x.cc:1] f] step 1 loss: 2.0"],
)  # fmt: skip
def test_other_lines_give_nothing(line):
    collector = series.Collector("x", exact=True, limit=1000)
    collector.take((line + "\n").encode(), 0, [1], 0)
    assert collector.finish("x") == ()


def text(count):
    return "".join(
        f"noise {n}\nstep: {n}, loss: {10 - n * 0.001:.4f}, grad_norm: {'nan' if n == 50 else 1.5}\n"
        for n in range(1, count)
    )


@pytest.mark.parametrize("size", [70_000, 99_991, 262_144])
@pytest.mark.parametrize("exact", [True, False])
def test_chunks_do_not_matter(matcher, size, exact):
    data = text(9000).encode()
    scanner = Scanner(matcher, "x", exact=exact)
    for at in range(0, len(data), size):
        scanner.feed(data[at : at + size])
    (track,) = scanner.finish().tracks
    assert list(track.columns["step"]) == list(range(1, 9000))
    assert math.isnan(track.columns["grad_norm"][49])
    if exact:
        assert list(track.lines) == [2 * n for n in range(1, 9000)]
    else:
        assert all(data[at:].startswith(b"step: ") for at in list(track.lines)[::500])


def test_all_engines_find_the_same(matchers):
    found = [scan_text(m, text(3000)).tracks for m in matchers.values()]
    assert all(str(one) == str(found[0]) for one in found)
    assert len(found[0][0]) == 2999


def test_what_a_line_lacks_is_missing_and_not_nan(matcher):
    scan = scan_text(matcher, "step 1 loss 2.0\nstep 2 loss 1.9 lr 0.1\nstep 3 loss nan\n")
    (track,) = scan.tracks
    assert list(track.columns["lr"]) == [series.MISSING, 0.1, series.MISSING]
    assert math.isnan(track.columns["loss"][2])


def test_ranks_and_evaluations_are_apart(matcher):
    lines = "".join(f"[rank{r}]: step {n} loss {3 - n * 0.1:.2f}\n" for n in range(1, 6) for r in (0, 1))
    lines += "[rank0]: step 5 val_loss: 2.0\n"
    tracks = scan_text(matcher, lines).tracks
    assert {(t.rank, t.kind, len(t)) for t in tracks} == {(0, "train", 5), (1, "train", 5), (0, "eval", 1)}


def test_a_bar_that_writes_over_itself_gives_every_stretch(matcher):
    bar = "\r".join(
        f"Epoch 1: {n}%|##  | {n}/100 [00:0{n}<00:10, 9.9it/s, loss={5 - n * 0.1:.2f}]" for n in range(1, 8)
    )
    (track,) = scan_text(matcher, bar + "\n").tracks
    assert list(track.columns["step"]) == list(range(1, 8))


def test_a_long_track_keeps_what_sticks_out(matcher):
    count = 60_000
    lines = []
    for n in range(count):
        loss = 9.9 if n in (40_001, 40_002, 40_003, 55_555) else 3 - n * 1e-5
        lines.append(f"step: {n}, loss: {loss:.4f}, grad_norm: {'inf' if n == 50_001 else 1.0}\n")
    scanner = Scanner(matcher, "x", exact=False)
    data = "".join(lines).encode()
    for at in range(0, len(data), 200_000):
        scanner.feed(data[at : at + 200_000])
    (track,) = scanner.finish().tracks
    steps = set(track.columns["step"])
    assert {40_001, 40_002, 40_003, 55_555, 50_001} <= steps
    assert len(track) < count * 0.6 and track.every > 1


def track_of(matcher, data, size=200_000, exact=False):
    scanner = Scanner(matcher, "x", exact=exact)
    for at in range(0, len(data), size):
        scanner.feed(data[at : at + size])
    (track,) = scanner.finish().tracks
    return track


MAKES = [
    lambda n, loss: f"step: {n}, loss: {loss:.4f}, grad_norm: 1.5, lr: 0.001",
    lambda n, loss: f"iter {n}: loss {loss:.{3 + n % 3}f} lr 0.001 tok/s 20",
    lambda n, loss: f"step = {n} loss = {loss:7.3f}",
    lambda n, loss: f"{{'loss': {loss!r}, 'grad_norm': 1.5, 'step': {n}}}",
    lambda n, loss: f"step:[{n}/900000], loss:[{loss:.3f}/{loss:.3f}], overflow cond: False, lr: 1e-5",
    lambda n, loss: f"noise\nstep {n} loss is {loss:.6e}",
    lambda n, loss: (
        f"iteration {n}/ 90000 | elapsed time per iteration (ms): 1932.5 | lm loss: {loss:.6E} | grad norm: 1.5 |"
    ),
]


@pytest.mark.parametrize("make", MAKES, ids=[make(1, 2.5) for make in MAKES])
@pytest.mark.parametrize("size", [65_536, 262_144])
def test_single_points_that_leap_are_kept_of_a_long_log(matcher, make, size, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    leaps = dict(zip(range(4100, 20_000, 613), [4.1, 9.99, 10.5, 123.4, 2e6, 1.1, 0.034] * 4, strict=False))
    lines = [make(n, leaps.get(n, 2.5 + n % 7 * 0.01)) + "\n" for n in range(20_000)]
    track = track_of(matcher, "".join(lines).encode(), size)
    got = dict(zip(track.columns["step"], track.columns["loss"], strict=True))
    assert {n: got.get(n) for n in leaps} == pytest.approx(leaps, rel=0.01, abs=0.001)
    assert track.every == 16 and len(track) < 12_000


@pytest.mark.parametrize("size", [65_536, 262_144])
def test_odd_values_are_kept_of_a_long_log_wherever_they_stand_in_the_line(matcher, size, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    odd = {4101: ("nan", "1.0", "False"), 5003: ("2.5", "nan", "False"), 7777: ("2.5", "inf", "True"),
           9011: ("2.5", "1.0", "True"), 9012: ("-inf", "1.0", "False")}  # fmt: skip
    lines = []
    for n in range(20_000):
        loss, norm, overflow = odd.get(n, ("2.5", "1.0", "False"))
        lines.append(f"Enable is True\noverflow: {overflow}, step: {n}, loss: {loss}, global_norm: [{norm}]\n")
    track = track_of(matcher, "".join(lines).encode(), size)
    rows = {int(step): row for row, step in enumerate(track.columns["step"])}
    assert rows.keys() >= odd.keys() and len(track) < 8_000
    assert math.isnan(track.columns["loss"][rows[4101]]) and track.columns["loss"][rows[9012]] == -math.inf
    assert math.isnan(track.columns["grad_norm"][rows[5003]]) and track.columns["overflow"][rows[9011]] == 1


def test_a_step_without_a_loss_is_kept_of_a_long_log(matcher, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    lines = [
        f" iteration {n}/ 20000 | elapsed time per iteration (ms): 1932.5 | "
        + (f"lm loss: 2.5{n % 9}E+00 | " if n != 8191 else "")
        + f"loss scale: 1.0 | number of nan iterations:   {int(n == 8191)} |\n"
        for n in range(20_000)
    ]
    track = track_of(matcher, "".join(lines).encode())
    row = list(track.columns["step"]).index(8191)
    assert track.columns["nan_steps"][row] == 1 and track.columns["loss"][row] == series.MISSING
    assert len(track) < 8_000


def test_a_noisy_loss_is_thinned_and_its_spikes_stay(matcher, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    noise = [math.sin(n * 12.9898) * 43758.5453 % 1 - 0.5 for n in range(40_000)]
    data = "".join(f"step {n} loss {4 + noise[n] * 2 + 20 * (n == 33_333):.4f}\n" for n in range(40_000))
    track = track_of(matcher, data.encode())
    assert 33_333 in track.columns["step"] and len(track) < 15_000


def test_a_log_whose_make_changes_in_the_middle_goes_on(matcher, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    makes = [MAKES[0], MAKES[1]]
    lines = [makes[n // 10_000 % 2](n, 2.5) + "\n" for n in range(40_000)]
    mixed = [makes[n % 2](n, 2.5 + 5 * (n in (7011, 7012))) + "\n" for n in range(9_000)]
    track = track_of(matcher, "".join(lines).encode())
    steps = list(track.columns["step"])
    assert steps == sorted(steps) and max(b - a for a, b in pairwise(steps)) <= 32
    assert {7011, 7012} <= set(track_of(matcher, "".join(mixed).encode()).columns["step"])


def test_lines_of_a_long_log_are_numbered_right(matcher, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    data = "".join(f"step {n} loss {2.5 + 3 * (n == 7777):.4f}\n" for n in range(1, 20_001)).encode()
    track = track_of(matcher, data, 99_991, exact=True)
    assert list(track.lines) == list(track.columns["step"]) and 7777 in track.lines


def test_ranks_that_share_one_long_file_lose_no_line(matcher, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    lines = "".join(f"[rank{n % 2}]: step {n // 2} loss {3 + 4 * (n == 8001):.2f}\n" for n in range(10_000))
    scanner = Scanner(matcher, "x", exact=False)
    scanner.feed(lines.encode())
    tracks = {t.rank: t for t in scanner.finish().tracks}
    assert len(tracks[0]) == len(tracks[1]) == 5000 and max(tracks[1].columns["loss"]) == 7


def test_engines_thin_alike(matchers, monkeypatch):
    monkeypatch.setattr(series, "DENSE", 1000)
    data = "".join(f"step: {n}, loss: {2.5 + (n == 6001):.4f}, grad_norm: 1.0\n" for n in range(9_000)).encode()
    found = [str(track_of(m, data)) for m in matchers.values()]
    assert all(one == found[0] for one in found)


def test_the_limit_of_rows_holds(matcher, monkeypatch):
    monkeypatch.setattr(matcher, "rows", 1000)
    (track,) = scan_text(
        matcher, "".join(f"step {n} loss {3 + n % 7 * 0.5:.2f} lr 0.{n % 9 + 1}\n" for n in range(30_000)), "x"
    ).tracks
    assert len(track) <= 4096 and track.every >= 8


def test_values_that_are_no_numbers_cost_their_line_only(matcher):
    scan = scan_text(matcher, "step: 1, loss: 2.0\nstep: 2, loss: 1.2.3\nstep: 3, loss: 1.8\n")
    (track,) = scan.tracks
    assert list(track.columns["step"]) == [1, 3] and track.unread == 1


def test_a_text_without_the_word_loss_is_inferred(matcher):
    text = "".join(f"s:{n} trl:{10.9 - n * 0.0001:.4f} lr:0.001\n" for n in range(20_000))
    (track,) = scan_text(matcher, text).tracks
    assert track.made == "inferred" and len(track) == 20_000 and track.lines[-1] == 20_000
    assert scan_text(matcher, "hello world\n" * 50).tracks == ()


# ------------------------------------------------------------------ tables


def _rows(head, form, count=60, end="\n"):
    return head + end + "".join(form.format(n=n, loss=9 - n / 10, lr=1e-4) + end for n in range(count))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (_rows("step,loss,lr,grad_norm", "{n},{loss:.4f},{lr:g},1.5"), {"step", "loss", "lr", "grad_norm"}),
        (_rows("step loss lr", "{n} {loss:.4f} {lr:g}"), {"step", "loss", "lr"}),
        (_rows("# step\tloss\tlr", "{n}\t{loss:.4f}\t{lr:g}", end="\r\n"), {"step", "loss", "lr"}),
        (_rows("epoch  |x", "y", 5) + _rows("epoch   train_loss  time", "{n}   {loss:.4f}  01:02"), {"epoch", "loss"}),
        (_rows('"Step","run 7 - train/loss","run 7 - train/loss__MIN"', '"{n}","{loss:.4f}","1.0"'), {"step", "loss"}),
        (_rows("Step;Loss", "{n};8,25"), {"step", "loss"}),
        (_rows("| Step | Training Loss | Note |\n|---|---|---|", "| {n} | {loss:.4f} | as said |"), {"step", "loss"}),
        (_rows("note,step,step_time,loss", "as said,{n},1.25,{loss:.4f}"), {"step", "step_time", "loss"}),
    ],
)
def test_the_first_line_of_a_table_names_its_columns(matcher, text, columns):
    (track,) = scan_text(matcher, text).tracks
    assert set(track.columns) == columns and len(track) == 60 and track.made == "named"
    assert track.columns["loss"][0] == (8.25 if ";" in text else 9.0)
    if "step_time" in columns:
        assert track.columns["step_time"][0] == 1250


def test_a_truth_is_the_value_of_a_cell(matcher):
    text = "step,loss,overflow\n" + "".join(f"{n},{5 - n / 100},{n == 7}\n" for n in range(20))
    (track,) = scan_text(matcher, text).tracks
    assert [n for n, value in enumerate(track.columns["overflow"]) if value] == [7]
    assert len(track) == 20


def test_an_empty_cell_of_a_table_is_no_value_and_a_row_without_a_loss_no_row(matcher):
    text = "epoch,step,val_loss,train_loss\n" + "".join(
        f"{n // 9},{n},,{5 - n / 50}\n{n // 9},{n},4.5,\n" for n in range(40)
    )
    (track,) = scan_text(matcher, text).tracks
    assert len(track) == 40 and track.kind == "train" and track.columns["loss"][1] == 4.98
    text = "step,lr,loss,step_time\n" + "".join(f"{n},,{5 - n / 50},\n" for n in range(40))
    (track,) = scan_text(matcher, text).tracks
    assert set(track.columns["lr"]) == set(track.columns["step_time"]) == {series.MISSING}


def test_a_table_with_evaluations_only_is_one_of_evaluations(matcher):
    (track,) = scan_text(matcher, _rows("step,val/loss", "{n},{loss:.4f}")).tracks
    assert track.kind == "eval"


def test_a_table_of_numbers_alone_is_inferred(matcher):
    text = _rows("0 9.1 1e-4", "{n} {loss:.4f} 1e-4").split("\n", 1)[1]
    (track,) = scan_text(matcher, text).tracks
    assert track.made == "inferred" and set(track.columns) == {"step", "loss"} and len(track) == 60


@pytest.mark.parametrize(
    "text",
    [
        _rows("step loss", "no number {n}"),
        _rows("", "{n} {n}.5 7"),
        _rows("", "{n} {n} 7"),
        _rows("", "7 {loss} 7"),
        _rows("| Model | Loss |", "| small-{n} | {loss:.4f} |"),
        "the loss is high\n" * 50,
        "loss,of,packets\n" + "a,b,c\n" * 50,
    ],
)
def test_what_is_no_table_of_losses_is_not_read_as_one(matcher, text):
    assert scan_text(matcher, text).tracks == ()


def test_a_progress_bar_that_wrote_over_itself_is_read_state_by_state(matcher):
    text = "".join(
        f"\rTraining: {n}%|##   | {n}/3000 [00:01<00:09, 9.9it/s, loss={9 - n / 1000:.3f}]" for n in range(3000)
    )
    for data in (text, text + "\n"):
        (track,) = scan_text(matcher, data).tracks
        assert len(track) == 3000 and set(track.lines) == {1}


# ------------------------------------------------------------------ odd numbers


def _columns(lines):
    [track] = scan_text(Matcher(load()), "\n".join(lines) + "\n").tracks
    return {name: list(values) for name, values in track.columns.items()}, track


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (lambda v: f"{v:.4f}".replace(".", ","), lambda v: round(v, 4)),
        (lambda v: f"{1000 + v:,.2f}", lambda v: round(1000 + v, 2)),
        (lambda v: f"{1000 + v:,.2f}".translate({44: ".", 46: ","}), lambda v: round(1000 + v, 2)),
        (lambda v: f"{1000 + v:,.2f}".replace(",", "，"), lambda v: round(1000 + v, 2)),
    ],
    ids=["8,9900", "1,008.99", "1.008,99", "1，008.99"],
)
def test_numbers_as_countries_write_them(write, value):
    values = [9 - n * 0.01 for n in range(1, 40)]
    columns, track = _columns(f"step: {n}, loss: {write(v)}, lr: 1e-5" for n, v in enumerate(values, 1))
    assert columns["loss"] == [value(v) for v in values]
    assert columns["step"] == list(range(1, 40)) and set(columns["lr"]) == {1e-5}
    assert track.unread == 0


def test_steps_with_commas_of_thousands():
    columns, _ = _columns(f"step: {n:,}, loss: {9 - n * 1e-4:.4f}" for n in range(1001, 1040))
    assert columns["step"] == list(range(1001, 1040))


def test_a_comma_that_may_mean_either_is_not_read_and_counted():
    lines = [f"step: {n}, loss: 2,{100 + n}, lr: 1e-5" for n in range(1, 9)]
    assert scan_text(Matcher(load()), "\n".join([*lines, "step: 9, loss: 2.5, lr: 1e-5"]) + "\n").tracks[0].unread == 8


def test_commas_between_values_without_blanks_are_none_of_a_number():
    columns, _ = _columns(f"epoch:1,step:{n},loss:{9 - n},lr:1e-5" for n in range(1, 9))
    assert columns["loss"] == [9 - n for n in range(1, 9)] and columns["step"] == list(range(1, 9))


def test_formats_in_turn_cut_doubled_and_swapped_lines_are_one_track():
    lines = []
    for n in (1, 3, 2, 4, 5, 6, 6, 7, 8):
        lines.append(f"step: {n}, loss: {9 - n}.5, lr: 1e-5" if n % 2 else f"{{'loss': {9 - n}.5, 'step': {n}}}")
    lines.insert(4, "step: 4, lo")
    columns, _ = _columns(lines)
    assert columns["step"] == [1, 3, 2, 4, 5, 6, 6, 7, 8]
    assert columns["loss"] == [9.5 - n for n in columns["step"]]


def test_negative_and_huge_values_are_read_as_they_are():
    columns, _ = _columns(
        [f"step: {n}, loss: -{n}.25, lr: 1e-5" for n in range(1, 5)] + ["step: 5, loss: 1e300, lr: 1"]
    )
    assert columns["loss"] == [-1.25, -2.25, -3.25, -4.25, 1e300]


@pytest.mark.parametrize(
    ("digits", "decimals", "all_at_once"),
    [(5, 4, True), (1, 2, True), (3, 0, True), (9, 5, True), (1, 13, True), (0, 3, True), (9, 9, False)],
)
def test_numbers_of_equal_make_read_at_once_are_what_float_gives(digits, decimals, all_at_once):
    load_numpy()
    random = Random(digits)
    texts = [
        (b"%0*d" % (digits, random.randrange(10**digits)) if digits else b"")
        + (b".%0*d" % (decimals, random.randrange(10**decimals)) if decimals else b"")
        for _ in range(2000)
    ]
    found = series._at_once(texts)
    assert (found is not None) == all_at_once
    assert found is None or list(found) == [float(text) for text in texts]


@pytest.mark.parametrize("odd", [b"1e05", b"-1.5", b"+1.5", b"1.2.", b" 1.5", b"nan.", b"12.3", b"1.5"])
def test_one_number_of_another_make_leaves_all_to_float(odd):
    load_numpy()
    assert series._at_once([b"1.25"] * 100) is not None
    assert series._at_once([b"1.25"] * 100 + [odd]) is None


@pytest.mark.parametrize(
    ("line", "kind", "values"),
    [
        ("loss: [2.5, 2.25, 900.0, nan]", "train", [2.5, 2.25, 900.0, math.nan]),
        ('  "train_loss": [2.5,2.25, 2e0],', "train", [2.5, 2.25, 2.0]),
        ("eval_loss = [2.5 2.25 inf]", "eval", [2.5, 2.25, math.inf]),
        ("{'acc': [0.1, 0.2], 'loss': [3.0, 2.0, 1.5], 'val_loss': [3.5, 2.5, 2.0]}", "train", [3.0, 2.0, 1.5]),
    ],
)
@pytest.mark.parametrize("before", ["", "learning_rate: 1e-4\nbatch: 4\n"])
def test_a_list_of_losses_is_a_course(matcher, line, kind, values, before):
    (track,) = scan_text(matcher, f"{before}{line}\n").tracks
    assert track.kind == kind
    assert str(list(track.columns["loss"])) == str(values)
    assert set(track.lines) == {before.count("\n") + 1}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"loss: [{n}.5, 0.25, 0.125]\n" for n in range(9, 0, -1)),  # the parts of a loss, line by line
        "".join(f"epoch: 1, step: {10 - n}, loss: [{n}.5, 0.25, 0.125]\n" for n in range(9, 0, -1)),
    ],
)
def test_lists_on_many_lines_stand_for_a_step_each(matcher, text):
    (track,) = scan_text(matcher, text).tracks
    assert list(track.columns["loss"]) == [n + 0.5 for n in range(9, 0, -1)]
    assert list(track.lines) == list(range(1, 10))


def test_a_list_without_its_end_gives_no_course(matcher):
    assert not scan_text(matcher, "loss: [2.5, 2.25, 2.0,\n 1.5]\n").tracks
    assert not scan_text(matcher, "loss: [" + "2.5, " * 4000 + "1.5]\n").tracks
