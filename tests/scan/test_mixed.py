"""One text with the lines of many ranks: marks, headings, line numbers, and what is no mark."""

import pytest

from doctor import engine
from doctor.rulebase import load
from doctor.scan import mixed
from doctor.scan.read import read_path
from doctor.scan.scanner import Matcher

MARKS = {
    "torch": "[rank{n}]: ",
    "torchrun": "[default{n}]:",
    "srun": "{n:2d}: ",
    "mpirun": "[1,{n}]<stdout>: ",
    "hydra": "[{n}] ",
    "logger": "(worker rank={n}) ",
    "actor": "(TrainWorker rank={n} pid=70{n}) ",
    "kubectl": "[pod/llm-worker-{n}/main] ",
    "stern": "llm-worker-{n} main ",
    "compose": "worker-{n}  | ",
    "container": "2026-03-18T08:00:00.123456789Z [rank{n}]: ",
    "grep": "msrun_log/worker_{n}.log:",
    "word": "rank {n}: ",
}
STEP = "2026-03-18 08:{m:02d}:0{n},100 - mindformers[callback.py:529] - INFO - {{ Epoch:[  1/  1], step:[{s:5d}/ 9999], loss: 9.{s:03d}, per_step_time: 1000ms, lr: 1e-05 }}"  # noqa: E501
OOM = (
    "Traceback (most recent call last):",
    '  File "run_mindformer.py", line 329, in <module>',
    "    main(config_)",
    "RuntimeError: Device(id:2) memory isn't enough and alloc failed, kernel name: MatMul, alloc size: 6442450944B.",
)


def text(mark, ranks=4, steps=6, root=2, after=8):
    """Ranks that step in turn; the root stops with a traceback of which each line stands between steps of others."""
    lines = []
    for s in range(1, steps + 1):
        lines += [mark.format(n=n) + STEP.format(m=s, n=n, s=s) for n in range(ranks)]
    for k in range(after):
        if k < len(OOM):
            lines.append(mark.format(n=root) + OOM[k])
        lines += [
            mark.format(n=n) + STEP.format(m=steps + 1 + k, n=n, s=steps + 1 + k) for n in range(ranks) if n != root
        ]
    return lines


def diagnose(tmp_path, lines, name="all.log"):
    file = tmp_path / name
    file.write_text("\n".join(lines) + "\n")
    return engine.diagnose([str(file)], engine.Options(jobs=1))


@pytest.mark.parametrize("mark", MARKS.values(), ids=MARKS)
def test_each_rank_of_one_file_has_steps_and_a_state_of_its_own(mark, tmp_path):
    lines = text(mark)
    report = diagnose(tmp_path, lines)
    [first, *_] = report.diagnoses
    assert (first.place.rank, first.topic.rpartition(".")[0]) == (2, "memory.device")
    assert report.run["world_size"] == 4
    assert [lane["state"] for lane in report.run["lanes"]] == ["running", "running", "failed", "running"]
    assert [lane["last_step"] for lane in report.run["lanes"]] == [14, 14, 6, 14]
    evidence = report.findings[first.finding].evidence[0]
    assert OOM[-1] in lines[evidence.line - 1]


def test_steps_of_other_ranks_are_no_recovery(tmp_path):
    [first, *_] = diagnose(tmp_path, text("[rank{n}]: ", after=200)).diagnoses
    assert first.place.rank == 2 and first.severity == "error"


def test_a_rank_that_steps_on_has_recovered(tmp_path):
    lines = text("[rank{n}]: ")
    lines += ["[rank2]: " + STEP.format(m=20 + s, n=2, s=s) for s in range(7, 14)]
    report = diagnose(tmp_path, lines)
    assert all(d.severity != "error" for d in report.diagnoses)


def test_lines_glued_cut_and_doubled_keep_their_ranks(tmp_path):
    lines = text("[rank{n}]: ")
    lines[5:7] = [lines[5] + lines[6]]
    lines[9] = lines[9][:40]
    lines.insert(12, lines[12])
    report = diagnose(tmp_path, lines)
    assert report.diagnoses[0].place.rank == 2
    assert [lane["last_step"] for lane in report.run["lanes"]] == [14, 14, 6, 14]


def test_a_record_written_twice_is_one(tmp_path):
    twice = [line for line in text("[rank{n}]: ") for _ in range(2)]
    way = mixed.way_of("all.log", "\n".join(twice).encode())
    parts, _, lines = mixed.split(way, "\n".join(twice).encode())
    assert lines == len(twice)
    assert parts[0].count(b"step:[") == 14


def test_logs_pasted_one_behind_the_other_under_their_names(tmp_path):
    lines = []
    for n in range(3):
        lines += [f"==> msrun_log/worker_{n}.log <==", *(STEP.format(m=s, n=n, s=s) for s in range(1, 6))]
        lines += OOM if n == 1 else ()
    lines += ["==> msrun_log/scheduler.log <==", "[INFO] the scheduler waits"]
    report = diagnose(tmp_path, lines, "paste.txt")
    assert report.diagnoses[0].place.rank == 1
    assert [lane["last_step"] for lane in report.run["lanes"]] == [5, 5, 5]


def test_a_logger_that_writes_the_rank_once_keeps_its_traceback(tmp_path):
    lines = []
    for s in range(1, 8):
        lines += [STEP.format(m=s, n=n, s=s).replace(" - INFO", f" [rank {n}] - INFO") for n in range(4)]
    lines += ["2026-03-18 08:09:00,000 - train [rank 3] - ERROR - failed", *OOM]
    report = diagnose(tmp_path, lines)
    assert report.diagnoses[0].place.rank == 3
    assert report.diagnoses[0].topic.startswith("memory.device")


def test_the_master_of_a_job_is_rank_0_and_the_workers_follow():
    lines = [f"[pod/llm-{who}/main] {STEP.format(m=s, n=1, s=s)}" for s in range(1, 5)
             for who in ("master-0", "worker-0", "worker-1")]  # fmt: skip
    way = mixed.way_of("all.log", "\n".join(lines).encode())
    parts, _, _ = mixed.split(way, "\n".join(lines).encode())
    assert sorted(rank for rank in parts if rank is not None) == [0, 1, 2]


@pytest.mark.parametrize(
    "lines",
    [
        [STEP.format(m=s, n=1, s=s) for s in range(1, 9)],
        [f"{n}: {STEP.format(m=n, n=1, s=n)}" for n in range(1, 9)],
        [f"[epoch {n}] loss: 1.{n}" for n in range(1, 9)],
        [f"[{4711 + n % 2}] message {n}" for n in range(8)],
        [f"[rank0]: {STEP.format(m=s, n=1, s=s)}" for s in range(1, 9)],
        [STEP.format(m=s, n=1, s=s) for s in range(1, 40)] + [f"[rank{n}]: RuntimeError: x" for n in range(16)],
    ],
    ids=["plain", "numbered lines", "epochs", "processes", "one rank", "training lines without ranks"],
)
def test_what_is_no_rank_splits_nothing(lines):
    assert mixed.way_of("train.log", "\n".join(lines).encode()) is None


def test_a_run_of_hundreds_of_ranks_is_told_from_the_numbers_before_its_records():
    lines = "\n".join(text("{n:3d}: ", ranks=900, root=-1))
    assert mixed.way_of("slurm.out", lines.encode()) is not None


def test_a_file_that_is_named_after_a_rank_is_that_ranks():
    assert mixed.way_of("msrun_log/worker_3.log", "\n".join(text("[rank{n}]: ")).encode()) is None


def test_numbers_of_a_long_text_are_found_again():
    numbers = mixed.Numbers()
    for n in range(3, 600_000, 3):
        numbers.add(n)
    for line in (1, 65_536, 65_537, 131_072, 199_999):
        assert numbers.of(line) == 3 * line
    assert numbers.of(200_005) == 3 * 199_999


def test_a_large_file_is_read_in_pieces_with_the_lines_of_the_whole(tmp_path):
    lines = text("[rank{n}]: ", steps=900)
    file = tmp_path / "all.log"
    file.write_text("\n".join(lines) + "\n")
    assert file.stat().st_size > 512 << 10
    read = read_path(Matcher(load()), "all.log", str(file), lambda: False)
    assert [scan.rank for scan in read.ranks] == [0, 1, 2, 3]
    assert read.scan.lines == len(lines) and read.scan.size == file.stat().st_size
    [track] = read.ranks[1].tracks
    assert len(track) == 908 and all(f"step:[{s:5d}/" in lines[track.lines[s - 1] - 1] for s in (1, 450, 908))
    [hit] = [o for o in read.ranks[2].occurrences if o.rule.startswith("MEM")][:1]
    assert OOM[-1] in lines[hit.line - 1]
    report = engine.diagnose([str(file)], engine.Options(jobs=1))
    assert report.diagnoses[0].place.rank == 2


def test_parts_of_a_run_in_one_file_each_are_merged_as_read_directly(tmp_path):
    from doctor.run import partial

    (tmp_path / "all.log").write_text("\n".join(text("[rank{n}]: ")) + "\n")
    part = tmp_path / "a.part"

    def kept(sources, problems):
        part.write_bytes(partial.dump(sources, [(p.name, p.code, p.detail) for p in problems]))

    direct = engine.diagnose([str(tmp_path / "all.log")], engine.Options(jobs=1, kept=kept))
    merged = engine.diagnose([str(part)], engine.Options(jobs=1))
    assert merged.run == direct.run
    assert merged.diagnoses == direct.diagnoses


def test_the_times_of_containers_may_have_twelve_digits():
    lines = [f"2026-06-03T10:28:{n:02d}.477885007858Z [rank{n % 4}]: words of rank {n % 4}" for n in range(20)]
    assert mixed.way_of("pod.log", "\n".join(lines).encode()) is not None


def test_a_pod_of_several_ranks_is_not_the_rank_of_its_number():
    lines = [f"[rank{16 + n % 4}]: words of the rank" for n in range(40)]
    assert mixed.way_of("logs/job-worker-2.log", "\n".join(lines).encode()) is not None
    assert mixed.way_of("logs/job-worker-2.log", b"\n".join([b"words"] * 40)) is None
