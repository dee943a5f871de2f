"""The resume assistant: which checkpoints are whole, which one is taken, and what the configuration must say."""

import json
import shutil
import struct

import pytest
import yaml

from doctor import resume, runsteps
from doctor.cli import run as cli
from doctor.patch import apply, journal

LINE = ("2026-04-09 20:01:{s:02d},750 - [mindformers/core/callback/callback.py:529] - INFO - {{ Epoch:[  {e}/  2], "
        "step:[{n:5d}/  100], loss: {loss}, per_step_time: 1234ms, lr: {lr}, overflow cond: False, loss_scale: 1.0, "
        "global_norm: [1.0], train_throughput_per_npu: 169.600T\n")  # fmt: skip
CONFIG = """seed: 0
run_mode: 'train'
load_checkpoint: ''  # where from
resume_training: False
use_parallel: True
trainer: {type: CausalLanguageModelingTrainer}
runner_config:
  epochs: 2
  batch_size: 1
parallel_config: {data_parallel: 2}
model:
  model_config: {type: LlamaConfig}
"""


def varint(n):
    """A protobuf number."""
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    """A protobuf field of bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def ckpt(path, tensors, **notes):
    """A MindSpore checkpoint with float32 tensors and single numbers."""
    out = b""
    for name, count in tensors.items():
        body = b"\x08" + varint(count) + field(2, b"Float32") + field(3, b"\0" * 4 * count)
        out += field(1, field(1, name.encode()) + field(2, body))
    for name, value in notes.items():
        real = isinstance(value, float)
        kind, data = (b"Float32", struct.pack("<f", value)) if real else (b"Int64", struct.pack("<q", value))
        out += field(1, field(1, name.encode()) + field(2, b"\x08\x00" + field(2, kind) + field(3, data)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out)


def safetensors(path, tensors, **notes):
    """A safetensors file of float32 tensors and int64 numbers."""
    head, data = {}, b""
    for name, count in tensors.items():
        head[name] = {"dtype": "F32", "shape": [count], "data_offsets": [len(data), len(data) + 4 * count]}
        data += b"\0" * 4 * count
    for name, value in notes.items():
        head[name] = {"dtype": "I64", "shape": [], "data_offsets": [len(data), len(data) + 8]}
        data += struct.pack("<q", value)
    raw = json.dumps(head).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


TENSORS = {"model.w": 500, "model.b": 10, "adam_m.w": 500}


@pytest.fixture
def folder(tmp_path):
    """A run of two ranks, 140 steps of 100 an epoch, saved every 20."""
    top = tmp_path / "output"
    for rank in (0, 1):
        for step in (80, 100, 120, 140):
            epoch, inside = (step - 1) // 100 + 1, (step - 1) % 100 + 1
            ckpt(top / f"checkpoint/rank_{rank}/llama_rank_{rank}-{epoch}_{inside}.ckpt", TENSORS, epoch_num=epoch,
                 step_num=step, global_step=step, loss_scale=64.0, global_batch_size=2)  # fmt: skip
        meta = {"last_epoch": 2, "last_step": 40, "last_ckpt_file": f"llama_rank_{rank}-2_40.ckpt"}
        (top / f"checkpoint/rank_{rank}/meta.json").write_text(json.dumps(meta))
        log(top / f"log/rank_{rank}/info.log", 143)
    (top / "run.yaml").write_text(CONFIG)
    return top


def log(path, until, bad=10**9):
    """A log of steps; from ``bad`` on the loss is nan."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        for step in range(1, until + 1):
            loss = "nan" if step >= bad else f"{12 - step / 50:.3f}"
            file.write(LINE.format(s=step % 60, e=(step - 1) // 100 + 1, n=(step - 1) % 100 + 1, loss=loss,
                                   lr=f"{step * 1e-6:.6e}"))  # fmt: skip


def states(result):
    """(name, state) of what was looked at."""
    return [(one.name.replace("llama_rank_0-", ""), one.state) for one in result.sets]


def test_the_newest_whole_set_is_taken(folder):
    result = resume.inspect(str(folder))
    assert states(result) == [("2_40.ckpt", "whole")] and result.ranks == 2
    assert result.chosen.step == 140 and result.chosen.told == "checkpoint" and result.chosen.notes["loss_scale"] == 64
    assert (result.next_step, result.next_rate) == (141, pytest.approx(141e-6))
    assert result.steps.last.number == 143
    (file,) = result.patch.files
    after = yaml.safe_load(file.after)
    assert after["load_checkpoint"] == str(folder / "checkpoint") and after["resume_training"] is True
    assert after["load_ckpt_format"] == "ckpt" and b"# where from" in file.after
    assert "batch" in [code for code, _ in result.unknown]


@pytest.mark.parametrize("how", ["cut", "half", "empty", "gone", "between"])
def test_a_damaged_or_missing_file_of_one_rank_leaves_the_set_aside(folder, how):
    path = folder / "checkpoint/rank_1/llama_rank_1-2_40.ckpt"
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "between":
        ckpt(path, {"model.w": 500})
    else:
        path.write_bytes(data[: {"cut": len(data) - 1, "half": len(data) // 2, "empty": 0}[how]])
    result = resume.inspect(str(folder))
    assert states(result) == [("2_40.ckpt", "incomplete"), ("2_20.ckpt", "whole")]
    (bad,) = result.sets[0].bad
    assert (bad.rank, bad.state) == (1, {"gone": "missing", "between": "smaller"}.get(how, "damaged"))
    after = yaml.safe_load(result.patch.files[0].after)
    # where the file is there by name, MindFormers would take it: the set is named
    assert after["resume_training"] == (True if how == "gone" else "llama_rank_0-2_20.ckpt")
    assert (result.next_step, result.next_rate) == (121, pytest.approx(121e-6))


def test_checkpoints_from_after_the_losses_went_bad_are_not_taken(folder):
    log(folder / "log/rank_1/info.log", 143, bad=121)
    result = resume.inspect(str(folder))
    assert states(result) == [("2_40.ckpt", "late"), ("2_20.ckpt", "late"), ("1_100.ckpt", "whole")]
    assert result.steps.bad_from.number == 121 and result.steps.last_good.number == 120
    assert result.next_step == 101


def test_a_checkpoint_of_an_unknown_step_is_not_taken_when_losses_went_bad(tmp_path):
    for step in (5, 300):
        ckpt(tmp_path / f"CKP-{step}_1.ckpt", TENSORS)
    log(tmp_path / "a.log", 143, bad=100)
    result = resume.inspect(str(tmp_path))
    assert [(s.name, s.state) for s in result.sets] == [("CKP-300_1.ckpt", "unknown"), ("CKP-5_1.ckpt", "unknown")]
    assert result.chosen is None


def test_a_loss_that_recovers_spoils_nothing(folder):
    text = (folder / "log/rank_0/info.log").read_text()
    (folder / "log/rank_0/info.log").write_text(text.replace("loss: 10.000", "loss: nan"))
    result = resume.inspect(str(folder))
    assert result.steps.bad_from is None and result.chosen.step == 140


def test_a_set_the_run_noted_as_unhealthy_is_not_taken(folder):
    (folder / "health_ckpts.json").write_text(json.dumps([{"is_health": 1, "ckpt_name": "llama_rank_0-2_40.ckpt"}]))
    assert states(resume.inspect(str(folder)))[0] == ("2_40.ckpt", "unhealthy")


def test_more_ranks_than_folders_make_every_set_incomplete(folder):
    result = resume.inspect(str(folder), ranks=4)
    assert result.chosen is None and {state for _, state in states(result)} == {"incomplete"}
    assert result.patch is None and cli(["resume", str(folder), "--ranks", "4"]) == 1


def test_the_layout_of_one_folder_per_step(tmp_path):
    top = tmp_path / "out/checkpoint"
    for step in (10, 20, 30):
        where = top / f"iteration_{step:08d}"
        for rank in (0, 1):
            for kind in ("model", "opt"):
                safetensors(where / f"{kind}-{rank:07d}-0000002.safetensors", TENSORS)
        storage = {"w": [{"file_name": f"model-{n:07d}-0000002.safetensors"} for n in (0, 1)]}
        (where / "metadata.json").write_text(json.dumps({"state_dict_metadata": {}, "storage_data": storage}))
        common = {"epoch_num": 1, "step_num": step, "global_step": step, "loss_scale": None, "global_batch_size": 2}
        (where / "common.json").write_text(json.dumps(common))
    (top / "iteration_00000030/model-0000001-0000002.safetensors").unlink()
    (top / "iteration_00000020/common.json").unlink()
    config = tmp_path / "c.yaml"
    config.write_text(CONFIG + 'checkpoint:\n  load_path: ""\n  no_load_optim: True\n')
    result = resume.inspect(str(tmp_path / "out"), config=str(config))
    assert [(s.name[-2:], s.state) for s in result.sets] == [
        ("30", "incomplete"),
        ("20", "incomplete"),
        ("10", "whole"),
    ]
    after = yaml.safe_load(result.patch.files[0].after)
    assert after["checkpoint"] == {"load_path": str(top / "iteration_00000010"), "no_load_optim": False}
    assert result.next_step == 11 and result.next_rate is None
    assert {"no_steps", "no_rate"} <= {code for code, _ in result.unknown}


def test_one_rank_without_a_folder_of_its_own(tmp_path):
    for step in (1, 2):
        ckpt(tmp_path / f"CKP-{step}_10.ckpt", TENSORS)
    (tmp_path / "train.log").write_text("".join(
        f"epoch: {e} step: {s}, loss is {3 - e / 10}\n" for e in (1, 2) for s in range(1, 11)))  # fmt: skip
    result = resume.inspect(str(tmp_path))
    assert result.chosen.name == "CKP-2_10.ckpt" and (result.chosen.step, result.chosen.told) == (20, "log")
    assert dict(result.settings)["load_checkpoint"] == str(tmp_path / "CKP-2_10.ckpt")
    assert result.patch is None and "no_config" in [code for code, _ in result.unknown]


def test_nothing_to_continue_from_is_said(tmp_path, capsys):
    assert cli(["resume", str(tmp_path), "--lang", "en"]) == 1
    assert "no checkpoint to continue from" in capsys.readouterr().out
    assert cli(["resume", str(tmp_path / "none"), "--lang", "en"]) == 2


def test_junk_is_survived(tmp_path):
    where = tmp_path / "checkpoint/rank_0"
    where.mkdir(parents=True)
    for n, data in enumerate(
        (b"", b"\xff" * 4096, b"\n\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"PK\3\4", b"\x0a\x00" * 99)
    ):
        (where / f"x_rank_0-1_{n + 1}.ckpt").write_bytes(data)
        (where / f"y_rank_0-1_{n + 1}.safetensors").write_bytes(data)
    (where / "meta.json").write_text("[")
    (tmp_path / "log.log").write_bytes(b"loss" * 100_000 + b"\n{ Epoch:[ 1/ 1], step:[ 1/ 2], loss: x\n\xff\xfe")
    (tmp_path / "c.yaml").write_text("a: [")
    result = resume.inspect(str(tmp_path))
    assert result.chosen is None and all(one.state == "incomplete" for one in result.sets)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_it_is_shown_applied_and_put_back(folder, tmp_path, capsys, lang):
    before = (folder / "run.yaml").read_bytes()
    where = str(tmp_path / "journal")
    assert cli(["resume", str(folder), "--lang", lang, "--apply", "--yes", "--journal", where]) == 0
    shown = capsys.readouterr().out
    assert "llama_rank_0-2_40.ckpt" in shown and "+resume_training: True" in shown and "{" not in shown.split("@@")[0]
    assert b"resume_training: True" in (folder / "run.yaml").read_bytes()
    # the second time there is nothing to write
    assert cli(["resume", str(folder), "--lang", lang]) == 0
    apply.undo(journal.Journal(where))
    assert (folder / "run.yaml").read_bytes() == before


def test_the_json_is_whole(folder, capsys):
    assert cli(["resume", str(folder), "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (
        data["schema"] == "doctor.resume/1" and data["chosen"] == "llama_rank_0-2_40.ckpt" and data["next_step"] == 141
    )
    assert data["settings"]["resume_training"] is True and data["diff"] and data["last_good_step"]["step"] == 143


def test_steps_of_other_trainers(tmp_path):
    line = (
        "[2026-06-22 14:47:00] iteration      300/   1000 | consumed samples: 100 | elapsed time per iteration (ms): 1 "
        "| learning rate: 1.000E-04 | global batch size: 8 | lm loss: 2.5E+00 | loss scale: 1.0 |\n"
    )
    (tmp_path / "m.log").write_text(line)
    last = runsteps.read([str(tmp_path / "m.log")]).last
    assert (last.number, last.loss, last.rate) == (300, 2.5, 1e-4)


def test_the_loss_of_the_last_stage_counts_not_the_zero_of_the_others(tmp_path):
    (tmp_path / "worker_0.log").write_text(LINE.format(s=1, e=1, n=1, loss="0.000", lr="1e-6"))
    (tmp_path / "worker_7.log").write_text(LINE.format(s=1, e=1, n=1, loss="9.5", lr="1e-6"))
    assert runsteps.read([str(tmp_path)]).last.loss == 9.5


def test_a_later_attempt_counts(tmp_path):
    log(tmp_path / "a/worker_0.log", 10, bad=8)
    first = runsteps.read([str(tmp_path)])
    assert first.bad_from.number == 8 and first.last_good.number == 7
    with open(tmp_path / "a/worker_0.log", "a") as file:
        for step in range(5, 13):
            file.write(LINE.format(s=1, e=1, n=step, loss="5.0", lr="1e-6"))
    again = runsteps.read([str(tmp_path)])
    assert again.bad_from is None and again.last_good.number == 12
    shutil.rmtree(tmp_path / "a")
