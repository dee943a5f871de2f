"""What a log says between its steps decides what a stall belongs to, however the log comes."""

import gzip
import math

import pytest

from doctor import engine
from doctor.scan.read import SMALL

STEP = "epoch: 1 step: {n}, loss is {loss:.4f}, per step time: {time:.1f} ms, data time: {data:.1f} ms{pad}\n"


def log(count=240, period=20, saving=True, pad="", data=2.0, slow=8.0):
    out = []
    for n in range(1, count + 1):
        if n % period == 0 and saving:
            out.append(f"[INFO] Saving checkpoint to ./ckpt/gpt-{n}.ckpt\n")
        time = 400 + n % 5
        out.append(
            STEP.format(n=n, loss=3 + 6 * math.exp(-n / 300), data=data + n % 3 / 10, pad=pad,
                        time=9000 if n == 1 else time * slow if n % period == 0 else time)
        )  # fmt: skip
    return "".join(out)


def fired(*inputs, paste=None):
    report = engine.diagnose([str(p) for p in inputs], engine.Options(jobs=1), paste=paste)
    return {f.id: f for f in report.findings if f.id.startswith("PERF7")}


def test_a_stall_belongs_to_the_checkpoint_that_a_small_file_tells_of(tmp_path):
    (tmp_path / "worker_0.log").write_text(log())
    (found,) = fired(tmp_path / "worker_0.log").values()
    assert (found.id, found.args["period"]) == ("PERF702", "20")


def test_the_lines_of_a_large_file_are_found_by_their_offsets(tmp_path):
    path = tmp_path / "worker_0.log"
    path.write_text(log(2400, 100, pad=" " + "x" * 90))
    assert path.stat().st_size > SMALL
    assert set(fired(path)) == {"PERF702"}


def test_a_paste_has_its_lines_at_hand():
    assert set(fired(paste=log().encode())) == {"PERF702"}


def test_without_the_lines_a_stall_is_only_regular(tmp_path):
    (tmp_path / "a.log").write_text(log(saving=False))
    assert set(fired(tmp_path / "a.log")) == {"PERF704"}
    path = tmp_path / "b.log.gz"
    path.write_bytes(gzip.compress(log().encode()))
    assert set(fired(path)) == {"PERF704"}, "a member of an archive is not read twice"


def test_a_file_that_is_gone_since_makes_no_trouble(tmp_path, monkeypatch):
    from doctor import training

    path = tmp_path / "a.log"
    path.write_text(log())
    before = training.judge

    def gone(*args, **more):
        path.unlink()
        return before(*args, **more)

    monkeypatch.setattr(training, "judge", gone)
    assert set(fired(path)) == {"PERF704"}


def test_the_interval_of_the_configuration_tells_what_a_stall_is(tmp_path):
    (tmp_path / "a.log").write_text(log(saving=False))
    config = tmp_path / "train.yaml"
    config.write_text(
        "run_mode: train\nuse_parallel: False\nrunner_config:\n  batch_size: 1\nmodel:\n  model_config:\n"
        "    type: LlamaConfig\n    hidden_size: 768\n    num_layers: 12\n    num_heads: 12\n    seq_length: 1024\n"
        "callbacks:\n  - type: CheckpointMonitor\n    save_checkpoint_steps: 20\n"
    )
    assert set(fired(tmp_path / "a.log", config)) >= {"PERF702"}


@pytest.mark.parametrize(("waits", "wanted"), [(2.0, set()), (130.0, {"PERF710", "PERF701"})])
def test_the_rank_that_waits_for_data_is_named(tmp_path, waits, wanted):
    for rank in range(4):
        text = log(120, saving=False, slow=1.0, data=waits if rank == 2 else 2.0)
        (tmp_path / f"worker_{rank}.log").write_text(text)
    found = fired(tmp_path)
    assert set(found) == wanted
    assert all(f.place.rank == 2 for f in found.values())


def test_a_steady_run_is_healthy_without_numpy_and_with_it(tmp_path):
    from doctor import training
    from doctor.rulebase import load
    from doctor.scan.scanner import Matcher, scan_text

    text = log(200, saving=False, slow=1.0).replace(", data time: 2", ", datatime: 2")
    scan = scan_text(Matcher(load(), "python"), text)
    assert training.calm(scan.tracks[0])
    slower = "".join(
        line.replace("time: 40", "time: 47") if n > 100 else line for n, line in enumerate(text.splitlines(True))
    )
    assert not training.calm(scan_text(Matcher(load(), "python"), slower).tracks[0])
