"""Training lines in the report: labels, events, text, export."""

import csv
import io
import json
import subprocess
import sys

import jsonschema
import pytest

from doctor import engine
from doctor.render.json import schema


def report(cli, path):
    ran = cli("diagnose", path, "--format", "json", "--lang", "en")
    found = json.loads(ran.out)
    jsonschema.validate(found, schema())
    return found


def write(tmp_path, text, name="train.log"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


NAN = "".join(f"epoch: 1 step: {n}, loss is {'nan' if n > 30 else 5 - n * 0.05}\n" for n in range(1, 40))


def test_a_series_has_its_label_and_event(cli, tmp_path):
    found = report(cli, write(tmp_path, "start\n" + NAN))
    (series,) = found["series"]
    assert (series["name"], series["label"], series["count"]) == ("loss", "nan", 39)
    assert series["events"][0] == {"kind": "nan", "step": 31, "value": "nan", "usual": 3.5, "line": 32}
    first = found["diagnoses"][0]
    assert first["rule"] == "NUM703" and first["evidence"][0]["line"] == 32
    # the rule of the single line is told under it
    assert [found["findings"][n]["id"] for n in first["consequences"]] == ["NUM001"]


def test_the_line_of_a_large_file_is_found_again(cli, tmp_path):
    losses = [f"{5 - n * 1e-4:.4f}" if n <= 19_000 else "nan" for n in range(1, 20_000)]
    text = "".join(f"filler {n}\nstep {n}: loss {loss}\n" for n, loss in enumerate(losses, 1))
    found = report(cli, write(tmp_path, text))
    (series,) = found["series"]
    assert series["events"][0]["step"] == 19_001 and series["events"][0]["line"] == 2 * 19_001
    assert found["diagnoses"][0]["evidence"][0]["text"] == "step 19001: loss nan"


def test_a_plot_is_drawn_for_what_is_not_healthy(cli, tmp_path):
    text = cli("diagnose", write(tmp_path, NAN), "--lang", "en").out
    assert "Loss: NaN" in text and "x" in text and "█" in text
    calm = "".join(f"step {n} loss {5 - n * 0.05:.3f}\n" for n in range(1, 40))
    text = cli("diagnose", write(tmp_path, calm, "calm.log"), "--lang", "en").out
    assert "Training: loss 4.95 to 3.05 in 39 points" in text and "█" not in text
    assert "█" in cli("diagnose", tmp_path / "calm.log", "--all", "--lang", "en").out


def test_the_values_can_be_exported(cli, tmp_path):
    rows = list(csv.DictReader(io.StringIO(cli("diagnose", write(tmp_path, NAN), "--series", "csv").out)))
    assert len(rows) == 39
    assert (rows[0]["step"], rows[0]["loss"], rows[0]["line"], rows[0]["lr"]) == ("1", "4.95", "1", "")
    assert rows[-1]["loss"] == "nan"


def test_parquet_holds_the_same_values_as_csv(cli, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    other = "".join(f"[rank3]: step {n} loss {5 - n * 0.05:.3f} lr 1e-05\n" for n in range(1, 9))
    write(tmp_path, NAN)
    write(tmp_path, other, "worker_3.log")
    out = tmp_path / "out.parquet"
    assert cli("diagnose", tmp_path / "worker_3.log", tmp_path, "--series", "parquet", "--output", out).code in (0, 1)
    table = parquet.read_table(out)
    rows = list(csv.DictReader(io.StringIO(cli("diagnose", tmp_path, "--series", "csv").out)))
    assert table.column_names == list(rows[0]) and table.num_rows == len(rows) == 39 + 8

    found = [{**row, "rank": "" if row["rank"] is None else row["rank"]} for row in table.to_pylist()]
    order = sorted(found, key=lambda row: (row["source"], row["line"]))
    wanted = sorted(rows, key=lambda row: (row["source"], int(row["line"])))
    for one, two in zip(order, wanted, strict=True):
        assert (one["source"], str(one["line"]), str(one["rank"])) == (two["source"], two["line"], two["rank"])
        assert repr(one["loss"]) == repr(float(two["loss"])) and (one["lr"] is None) == (two["lr"] == "")
        assert one["grad_norm"] is None and two["grad_norm"] == ""


def test_parquet_without_its_library_is_said_before_anything_is_read(cli, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = cli("diagnose", write(tmp_path, NAN), "--series", "parquet", "--lang", "en")
    assert ran.code == 2 and "mindspore-doctor[parquet]" in ran.err and ran.out == ""


def test_a_library_that_does_not_go_with_numpy_is_said_in_a_line(cli, tmp_path, monkeypatch):
    def refused(scans, file):
        raise ImportError("pyarrow requires NumPy 2.0 or newer, found 1.26.4")

    monkeypatch.setattr("doctor.export.can", lambda form: True)
    monkeypatch.setattr("doctor.export.write_parquet", refused)
    ran = cli("diagnose", write(tmp_path, NAN), "--series", "parquet", "--output", tmp_path / "x.parquet")
    assert ran.code == 2 and ran.err.strip() == "doctor: pyarrow requires NumPy 2.0 or newer, found 1.26.4"


@pytest.mark.parametrize(("text", "loaded"), [("no training here\n[ERROR] x\n", False), (NAN, True)])
def test_numpy_is_loaded_for_series_only(tmp_path, text, loaded):
    code = (
        "import sys; from doctor import engine\n"
        f"engine.diagnose([{str(write(tmp_path, text))!r}])\n"
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loaded)


def test_out_of_memory_is_summed_up(cli, tmp_path):
    text = (
        "[ERROR] RUNTIME(1,7f,python):2026-01-07-10:11:12.000.000 [x.cc:1] Dump] The dynamic memory pool total "
        "allocated mem:59392M, peak used mem:41000M, in used mem:41000M, total used by event mem:0M, "
        "total idle mem:18392M.\n"
        "RuntimeError: Device(id:0) memory isn't enough and alloc failed, kernel name: Default/MatMul-op9, "
        "alloc size: 2147483648B.\n"
    )
    found = report(cli, write(tmp_path, text))
    first = found["diagnoses"][0]
    assert first["rule"] == "MEM704" and first["topic"] == "memory.device.fragmented"
    assert "17.96 GiB" in first["title"]["en"] and "2.00 GiB" in first["title"]["zh"]


@pytest.mark.parametrize(
    ("allocated", "free", "reserved", "tried", "rule"),
    [
        ("10.24 GiB", "19.52 MiB", "10.65 GiB", "22.00 MiB", "MEM003"),
        ("0 bytes", "48.36 MiB", "0 bytes", "20.00 MiB", "MEM003"),
        ("56.05 GiB", "5.04 MiB", "58.39 GiB", "72.00 MiB", "MEM002"),
        ("49.47 GiB", "1.32 GiB", "57.55 GiB", "5.03 GiB", "MEM002"),
        ("60.34 GiB", "14.24 MiB", "60.60 GiB", "30.00 MiB", "MEM001"),
        ("58.92 GiB", "1.66 GiB", "58.95 GiB", "3.47 GiB", "MEM001"),
        ("25.00 GiB", "34.40 GiB", "25.90 GiB", "36.00 GiB", "MEM600"),
        ("20.00 GiB", "12.00 GiB", "20.10 GiB", "2.00 GiB", "MEM602"),
    ],
)
def test_the_sum_of_a_pytorch_message_has_one_answer(cli, tmp_path, allocated, free, reserved, tried, rule):
    text = (
        f"RuntimeError: NPU out of memory. Tried to allocate {tried} (NPU 0; 60.97 GiB total capacity; {allocated} "
        f"already allocated; {allocated} current active; {free} free; {reserved} reserved in total by PyTorch) If "
        "reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\n"
    )
    assert [one["rule"] for one in report(cli, write(tmp_path, text))["diagnoses"]] == [rule]


def test_mixed_and_broken_lines_do_no_harm(cli, tmp_path):
    text = (
        NAN.replace("\n", "\r\n")
        + "step: x, loss: y\nloss: 1e999\nepoch: -1 step: 99999999999999999999, loss is 1\n" * 3
    )
    assert report(cli, write(tmp_path, text))["series"][0]["label"] == "nan"


def test_a_check_that_fails_spoils_nothing_else(cli, tmp_path, monkeypatch):
    from doctor.checks.training import loss

    monkeypatch.setattr(loss, "diverged", lambda curves: 1 / 0)
    found = report(cli, write(tmp_path, NAN))
    assert found["diagnoses"][0]["rule"] == "NUM703"
    (crash,) = [f for f in found["findings"] if f["verdict"] == "crash"]
    assert crash["id"] == "NUM707" and "ZeroDivisionError" in crash["args"]["what"]


def test_training_lines_that_cannot_be_read_are_counted_in_the_report(tmp_path):
    lines = [f"step: {n}, loss: 2,{100 + n}, lr: 1e-5" for n in range(1, 9)]
    lines += [f"step: {n}, loss: {3 - n * 0.05:.2f}, lr: 1e-5" for n in range(9, 49)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    [loss] = [one for one in engine.diagnose([str(tmp_path / "train.log")]).series if one["name"] == "loss"]
    assert (loss["count"], loss["unread"]) == (40, 8)
    command = [sys.executable, "-m", "doctor", "diagnose", str(tmp_path / "train.log"), "--lang", "en", "--all"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "(8 training lines could not be read)" in out.stdout


def test_training_lines_of_which_nothing_can_be_read_are_not_called_healthy(cli, tmp_path):
    found = report(cli, write(tmp_path, "step,loss,lr\n1,high,low\n2,low,low\n3,none,x\n", "metrics.csv"))
    assert found["verdict"] == "unknown" and found["inputs"][0]["state"] == "not_judged"
    assert "none could be read" in found["inputs"][0]["why"]["en"]


def test_a_table_of_training_values_is_judged_like_a_log(cli, tmp_path):
    rows = "".join(f"{n},{'nan' if n > 30 else 5 - n * 0.05}\n" for n in range(1, 40))
    (series,) = report(cli, write(tmp_path, "step,loss\n" + rows, "metrics.csv"))["series"]
    assert series["label"] == "nan" and series["events"][0]["line"] == 32
    (series,) = report(cli, write(tmp_path, "step loss\n" + rows.replace(",", " ")))["series"]
    assert series["label"] == "nan" and series["events"][0]["step"] == 31


def test_a_graph_that_is_compiled_at_every_step_is_told_though_the_pace_is_even(cli, tmp_path):
    said = "[WARNING] ME(1:2,MainProcess):2026-01-05-11:00:00.000.000 [mindspore/common/api.py:1] Start compiling "
    said += "'Net.construct' and it will take a while. Please wait...\n"
    steps = [f"epoch: 1 step: {n}, loss is {6 - 0.05 * n:.4f}\n" for n in range(1, 21)]
    each = report(cli, write(tmp_path, "".join(said + step for step in steps)))
    assert each["diagnoses"][0]["rule"] == "PERF605" and "20" in each["diagnoses"][0]["title"]["en"]
    at_first = report(cli, write(tmp_path, said * 20 + "".join(steps)))
    assert "PERF605" not in {one["rule"] for one in at_first["diagnoses"]}


def test_reports_of_one_rank_that_only_rise_are_a_leak(cli, tmp_path):
    line = "[Rank {rank}] (after {n} iterations) memory (MB) | allocated: {used}.25 | max allocated: 45034.10\n"
    rising = "".join(line.format(rank=r, n=10 * n, used=21000 + 180 * n) for n in range(40) for r in (3, 4))
    assert report(cli, write(tmp_path, rising))["diagnoses"][0]["rule"] == "MEM707"
    level = "".join(line.format(rank=3, n=10 * n, used=21000 + 90 * (n % 3)) for n in range(40))
    assert not report(cli, write(tmp_path, level))["diagnoses"]
