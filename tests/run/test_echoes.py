"""What ranks print because another one failed blames none of them: stopped, cut off, tidying up."""

import pytest

from doctor import engine

DAY = "2026-03-12"
PID = 5000
NOTIFY = (
    "[ERROR] RUNTIME({pid},python):{day}-10:{at}.000.000 [stream.cc:921] [1]GetError:Notify wait execute failed, "
    "EI0002 The wait execution of the Notify register times out. Reason: The Notify register has not received the "
    "Notify record from remote rank [{peer}]."
)


def ms(rank, at, text, level="WARNING", mod="DISTRIBUTED"):
    return f"[{level}] {mod}({PID + rank},7f00,python):{DAY}-10:{at}.000.000 [a/b.cc:1] F] {text}"


def steps(rank, count=4):
    start = [ms(rank, "00:01", f"This node {rank} rank id: {rank}")]
    return start + [
        f"{DAY} 10:10:{2 * n:02d},000 - mindformers[a/callback.py:1] - INFO - {{ Epoch:[  1/  2], step:[{n:5d}/ 9000], "
        f"loss: 9.1, per_step_time: 2000ms, lr: 1e-05, overflow cond: False, loss_scale: 1.0"
        for n in range(1, count + 1)
    ]


def waited(rank, peer, at="40:30"):
    return [NOTIFY.format(pid=PID + rank, day=DAY, at=at, peer=peer)]


@pytest.fixture
def run(tmp_path):
    """Diagnose four ranks of which rank 2 is the one that failed; ``more`` are further files."""

    def made(logs, **more):
        for rank, lines in logs.items():
            (tmp_path / f"worker_{rank}.log").write_text("\n".join(steps(rank) + lines) + "\n")
        for name, lines in more.items():
            (tmp_path / name.replace("_", ".")).write_text("\n".join(lines) + "\n")
        return engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses

    return made


def others():
    return {rank: waited(rank, 2) for rank in (0, 1, 3)}


def test_a_launcher_that_numbers_its_workers_is_none_of_them(run):
    starts = [
        f"Start worker process with rank id:{rank}, log file:msrun_log/worker_{rank}.log. Execute command: python a.py"
        for rank in range(4)
    ]
    ended = (
        f"[ERROR] ME({PID - 9}:1,MainProcess):{DAY}-10:10:13.000.000 [a/_api.py:365] Worker process {PID + 2} exit "
        "with exception. Error code: -11."
    )
    first = run({2: [], **others()}, msrun_log=[*starts, ended])[0]
    assert (first.place.rank, first.topic) == (2, "process.killed")


@pytest.mark.parametrize(
    "echo",
    [
        "Terminated",
        ms(1, "10:14", "Dataset worker process 77 was killed by signal: Terminated. Main process", "ERROR", "MD"),
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nBrokenPipeError: [Errno 32] Broken pipe',
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nRuntimeError: ForceStopError error occurs',
    ],
)
def test_a_rank_that_was_stopped_or_cut_off_is_not_to_blame(run, echo):
    first = run({0: waited(0, 2), 1: [echo], 2: [], 3: waited(3, 2)})[0]
    assert (first.place.rank, first.rule) == (2, "RUN170")


def test_a_silent_rank_is_to_blame_though_others_stumble_in_tidying_up(run):
    tidying = {1: [ms(1, "40:33", "Call aclrtDestroyStream failed, ret: 107003", "ERROR", "DEVICE")]}
    unnamed = {rank: [lines[0].partition(" Reason:")[0]] for rank, lines in others().items()}
    first = run({2: [], **{rank: lines + tidying.get(rank, []) for rank, lines in unnamed.items()}})[0]
    assert (first.place.rank, first.rule) == (2, "RUN170")


def test_a_run_that_was_only_asked_to_end_says_so(run):
    first = run({rank: ["Terminated"] for rank in range(4)})[0]
    assert (first.rule, first.severity) == ("RUN301", "error")


def test_the_rank_that_the_kernel_killed_is_named_with_the_kernels_line(run):
    kernel = [
        "[Thu Mar 12 10:10:12 2026] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        f"[Thu Mar 12 10:10:12 2026] Out of memory: Killed process {PID + 2} (python) total-vm:912340000kB, "
        "anon-rss:712340000kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1502kB oom_score_adj:0",
    ]
    first = run({2: [], **others()}, dmesg_txt=kernel)[0]
    assert (first.place.rank, first.topic, first.severity) == (2, "memory.host", "error")


def test_a_loss_of_nan_that_ended_its_rank_is_the_cause(run):
    stop = ["epoch: 1 step: 9, loss is nan", "Traceback (most recent call last):"]
    stop += [f'  File "a.py", line {n}, in f\n    g()' for n in range(6)] + ["ValueError: Loss is nan, stop"]
    first = run({2: stop, **others()})[0]
    assert first.place.rank == 2
    assert first.topic.startswith("numerics.")


def test_a_plog_beside_one_file_of_all_ranks_has_the_rank_that_hccl_wrote_into_it(tmp_path):
    lines = [f"[rank{rank}]: {line}" for rank in range(4) for line in steps(rank)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    head = f"({PID + 2},python):{DAY}-10:"
    plog = [
        f"[EVENT] HCCL{head}00:02.000.000 [op_base.cc:512] [1]Entry-HcclCommInitRootInfo:ranks[4], rank[2], root",
        f"[ERROR] RUNTIME{head}10:12.000.000 [device_error_proc.cc:461] [1]ProcessCoreErrorInfo:The error from "
        "device(chipId:2, dieId:0), serial number is 12, there is an aivec error exception, core id is 5, "
        "error code = 0x800000, fault kernel_name=MatMulV3",
    ]
    (tmp_path / f"plog-{PID + 2}_20260312100000.log").write_text("\n".join(plog) + "\n")
    first = engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]
    assert (first.place.rank, first.topic) == (2, "aicore.exception")


UNBUILT = (
    "RuntimeError: Failed to initialize distributed job cluster because some processes in the cluster are not "
    "successfully spawned. You can run command: 'grep -rn -E 'ERROR|CRITICAL' -C 10' in your log directory."
)


def test_where_no_cluster_was_built_the_rank_that_never_came_is_missed_and_not_the_one_its_launcher_ended(tmp_path):
    name = "MS_WORKER_NUM"
    for rank, lines in {0: [], 1: ["Traceback (most recent call last):", UNBUILT], 3: [UNBUILT]}.items():
        first = ms(rank, "00:01", f"This node {rank} rank id: {rank}, {name}: 4")
        (tmp_path / f"worker_{rank}.log").write_text("\n".join([first, *lines]) + "\n")
    (tmp_path / "scheduler.log").write_text(UNBUILT + "\n")
    first = engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]
    assert (first.rule, first.ranks) == ("RUN176", (2,))
