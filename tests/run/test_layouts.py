"""Logs as launchers lay them out: whose lines they are, and which of several attempts counts."""

import pytest

from doctor import engine
from doctor.run.places import place_sources
from doctor.scan.scanner import Scanned
from doctor.scan.told import Told

DAY = "2026-03-12"
START = [
    "[W compiler_depend.ts:623] Warning: expandable_segments is off",
    "WARNING: Logging library not available, using default",
]
OOM = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>',
       "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60.97 GiB total; 58.92 GiB already "
       "allocated; 1.66 GiB free)"]  # fmt: skip
GONE = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>',
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/pile.idx'"]  # fmt: skip


def waited(at, peer="4294967295"):
    return [
        f"EI0002: [PID: 77] {DAY}-{at}.000.000 The wait execution of the Notify register times out. Reason: The Notify "
        f"register has not received the Notify record from remote rank [{peer}]."
    ]


def step(n, at):
    return (
        f" [{DAY} {at}] iteration {n:8d}/ 500 | consumed samples: 100 | elapsed time per iteration (ms): 1000.0 | "
        "learning rate: 1.25E-05 | global batch size: 64 | lm loss: 5.1E+00 | loss scale: 1.0 | grad norm: 1.0 |"
    )


@pytest.fixture
def first(tmp_path):
    def made(files):
        for name, lines in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines) + "\n")
        return engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]

    return made


def scan(name, rank=None, split="", **more):
    made = Scanned(name, 1, 9, (), {}, (), 0, 0, (0, None), rank, (), (None, None), (), b"")
    return made._replace(split=split, **more)


def test_torchrun_numbers_its_processes_on_each_host_and_the_last_attempt_counts(first):
    files = {}
    for node in (0, 1):
        for local in (0, 1, 2):
            here = f"node{node}/logs/none_ab12/attempt_"
            files[f"{here}0/{local}/stderr.log"] = START + (OOM if (node, local) == (0, 1) else waited("09:40:00"))
            files[f"{here}1/{local}/stderr.log"] = START + (GONE if (node, local) == (1, 2) else waited("11:40:00"))
    found = first(files)
    assert (found.place.rank, found.topic, found.ranks) == (5, "data.file_missing", (5,))


def test_files_of_hosts_with_local_numbers_follow_each_other(first):
    files = {
        f"train_node{node}.log": [
            f"[default{local}]:{line}"
            for local in range(4)
            for line in START + (OOM if (node, local) == (2, 3) else waited("11:40:00"))
        ]
        for node in range(3)
    }
    found = first(files)
    assert (found.place.rank, found.topic) == (11, "memory.device.exhausted")


def test_a_global_number_in_a_log_tells_which_host_comes_first():
    seen = engine_occurrence(rank=0)
    scans = [scan(f"train_node{n}.log", local, "rank") for n in (1, 2) for local in (0, 1)]
    scans[2] = scans[2]._replace(errors=(seen,))
    scans[1] = scans[1]._replace(errors=(engine_occurrence(rank=3),))
    assert [source.rank for source in place_sources(scans)] == [2, 3, 0, 1]


def engine_occurrence(rank):
    from doctor.scan.scanner import Occurrence

    return Occurrence("", 1, "x", {}, "ERROR", None, None, rank, None, 0)


def test_global_numbers_in_the_files_of_pods_stay_as_they_are():
    scans = [scan(f"job-worker-{n}.log", 2 * n + local, "rank") for n in (0, 1) for local in (0, 1)]
    placed = place_sources(scans)
    assert [source.rank for source in placed] == [0, 1, 2, 3]
    assert placed[0].host == placed[1].host != placed[2].host


def test_logs_that_are_not_named_after_hosts_are_no_hosts():
    scans = [scan(name, local, "rank") for name in ("train.out", "train.err") for local in (0, 1)]
    assert [source.rank for source in place_sources(scans)] == [0, 1, 0, 1]


def test_a_worker_of_modelarts_is_a_host():
    names = ["modelarts-job-a7-worker-1.log", "modelarts-job-a7-proc-rank-9-device-1.txt"]
    assert [source.rank for source in place_sources([scan(name) for name in names])] == [None, 9]


def test_a_plog_of_processes_that_were_started_again_is_over():
    worker = scan("worker_3.log", pids=(7, 8), told=Told(again=(5, 1000.0)))
    plogs = [scan(f"plog-{pid}_1.log", seconds=(at, at)) for pid, at in ((7, 900.0), (8, 1100.0))]
    assert [source.past for source in place_sources([worker, *plogs])] == [False, True, False]


def test_what_failed_before_the_processes_were_started_again_is_over(first):
    files = {f"worker_{rank}.log": START + (OOM if rank == 1 else waited("09:40:00")) for rank in range(4)}
    for rank in range(4):
        files[f"worker_{rank}.log"] += START + (GONE if rank == 2 else waited("11:40:00"))
    found = first(files)
    assert (found.place.rank, found.topic, found.ranks) == (2, "data.file_missing", (2,))


def test_a_warning_that_its_rank_says_no_more_about_is_no_failure(first):
    tried = (
        f"[WARNING] DEVICE(5003,7f00,python):{DAY}-10:00:00.000.000 [a/b.cc:1] AllocDeviceMem] Allocate memory failed "
        "for size: 2147483648, free cached memory and try again."
    )
    files = {f"worker_{rank}.log": START + waited("11:40:00", "2") for rank in range(4)}
    files["worker_3.log"] = [*START, tried]
    files["worker_2.log"] = START + GONE
    assert first(files).place.rank == 2


def test_what_the_others_of_one_file_trained_on_after_was_no_failure(first):
    lines = [f"{rank}: {line}" for rank in range(4) for line in START]
    lines += [f"1: {line}" for line in (*GONE[:2], "ConnectionError: upload failed")]
    lines += [f"3: {step(n, f'10:00:{n:02d}')}" for n in range(1, 9)]
    lines += [f"2: {line}" for line in GONE]
    lines += [f"{rank}: {line}" for rank in (0, 3) for line in waited("11:40:00")]
    found = first({"all.log": lines})
    assert (found.place.rank, found.topic) == (2, "data.file_missing")


def test_a_log_that_was_cut_off_does_not_hide_the_rank_that_finished_early(first):
    logs = {}
    for rank in range(6):
        last = 5 if rank == 4 else 40
        logs[f"worker_{rank}.log"] = START + [step(n, f"10:{n:02d}:00") for n in range(1, last + 1)]
        if rank not in (1, 4):
            logs[f"worker_{rank}.log"] += waited("11:40:00")
    logs["worker_1.log"].append("training finished")
    assert first(logs).place.rank == 1


def test_a_setting_that_all_refuse_is_no_rank_that_others_waited_for(first):
    refused = [
        *OOM[:2],
        (
            "AssertionError: global batch size (510) is not divisible by micro batch size (4) times data parallel "
            "size (8)"
        ),
    ]
    found = first({f"worker_{rank}.log": START + refused for rank in range(4)})
    assert (found.topic, found.ranks) == ("config.batch_size", (0, 1, 2, 3))


def test_of_a_host_whose_kernel_killed_a_process_it_is_the_one_waited_for(first):
    killed = (
        "Mar 12 10:00:00 node-1 kernel: [81.1] Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:8kB"
    )
    files = {f"node-{rank // 2}/rank_{rank}.log": START + waited("11:40:00", "3") for rank in range(3)}
    files["node-1/rank_3.log"] = START
    files["node-1/messages"] = [killed]
    found = first(files)
    assert (found.place.rank, found.topic) == (3, "memory.host")


def test_torchrun_names_the_process_that_the_kernel_killed(first):
    files = {f"node-{rank // 2}/rank_{rank}.log": START + waited("11:40:00") for rank in (0, 1)}
    files |= {f"node-1/rank_{rank}.log": START for rank in (2, 3)}
    files["node-1/torchrun.log"] = [
        "E0312 10:00:03.012000 99 torch/distributed/elastic/multiprocessing/api.py:870] failed (exitcode: -9) "
        "local_rank: 1 (pid: 4242) of binary: /usr/bin/python"
    ]
    assert first(files).place.rank == 3
