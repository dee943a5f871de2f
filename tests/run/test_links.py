"""Broken transfers, dead links and nodes that went away: whose failure it is, and whose it is not."""

import pytest

from doctor import engine

DAY = "2026-03-12"
PID = 5000


def ms(rank, at, text, level="ERROR", mod="DISTRIBUTED"):
    return f"[{level}] {mod}({PID + rank},7f00,python):{DAY}-10:{at}.000.000 [a/b.cc:1] F] {text}"


def steps(rank, count=6, timed=True):
    start = [ms(rank, "00:01", f"This node {rank} rank id: {rank}", "WARNING")]
    if not timed:
        return start + [f"epoch: 1 step: {n}, loss is 9.{n}" for n in range(1, count + 1)]
    return start + [
        f"{DAY} 10:10:{2 * n:02d},000 - mindformers[a/callback.py:1] - INFO - {{ Epoch:[  1/  2], step:[{n:5d}/ 9000], "
        f"loss: 9.1, per_step_time: 2000ms, lr: 1e-05, overflow cond: False, loss_scale: 1.0"
        for n in range(1, count + 1)
    ]


def waited(rank, peer, at="40:30"):
    return [
        f"[ERROR] RUNTIME({PID + rank},python):{DAY}-10:{at}.000.000 [stream.cc:921] [1]GetError:Notify wait execute "
        "failed, EI0002 The wait execution of the Notify register times out. Reason: The Notify register has not "
        f"received the Notify record from remote rank [{peer}]."
    ]


def broken(rank, peer, at="10:20", far="remoteIP"):
    ends = [f"{{server[10.0.0.{n // 8}],deviceId[{n % 8}],deviceIp[29.0.{n // 8}.{n % 8}]}}" for n in (rank, peer)]
    return [
        f"[ERROR] HCCL({PID + rank},python):{DAY}-10:{at}.000.000 [heartbeat.cc:1229] [7][TaskExecStage]"
        f"[HeartbeatAbnormal][ROCE CQE ERROR]cqe error status[12], time:[x],localInfo{ends[0]}, {far}{ends[1]}"
    ]


def unanswered(rank, at):
    return [
        f"[ERROR] HCCL({PID + rank},python):{DAY}-10:{at}.000.000 [transport_roce.cc:1834] [7][hccl_transport]"
        "error cqe status[12], dst ip 192.0.2.77, qp 77, retry exceeded."
    ]


@pytest.fixture
def run(tmp_path):
    """Diagnose ranks by what follows their steps; ``more`` are further files."""

    def made(logs, timed=True, **more):
        for rank, lines in logs.items():
            (tmp_path / f"worker_{rank}.log").write_text("\n".join(steps(rank, timed=timed) + lines) + "\n")
        for name, lines in more.items():
            (tmp_path / name.replace("__", "/").replace("_", ".")).write_text("\n".join(lines) + "\n")
        return engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses

    return made


def test_the_end_whose_transfers_to_several_ranks_broke_is_the_faulty_one(run):
    logs = {rank: broken(rank, 2, f"10:{20 + rank}") + waited(rank, 2) for rank in (0, 1, 3)}
    logs[2] = broken(2, 0, "10:24") + broken(2, 3, "10:25")
    first = run(logs)[0]
    assert (first.place.rank, first.topic) == (2, "hccl.network")


def test_a_transfer_to_a_rank_that_fell_silent_is_no_failure_of_its_own(run):
    first = run({0: broken(0, 2, "11:40") + waited(0, 2), 1: broken(1, 2, "11:41"), 2: [], 3: broken(3, 2, "11:43")})[0]
    assert (first.place.rank, first.rule) == (2, "RUN170")


def test_a_transfer_that_broke_after_the_others_gave_up_leaves_the_blame_where_they_waited(run):
    logs = {rank: waited(rank, 2) for rank in (0, 1, 3)}
    first = run({**logs, 2: ["shard loaded", *unanswered(2, "43:00")]})[0]
    assert (first.place.rank, first.topic) == (2, "hccl.timeout.exec")


def test_another_cause_comes_before_a_broken_transfer(run):
    error = ms(2, "10:30", "RuntimeError: UCEError error occurs when execute, error_code=507053", "ERROR", "DEVICE")
    first = run({0: unanswered(0, "10:20"), 1: waited(1, 0), 2: [error], 3: waited(3, 0)})[0]
    assert (first.place.rank, first.topic) == (2, "device.unhealthy")


def linked(rank, *peers):
    return [
        f"[ERROR] HCCL({PID + rank},python):{DAY}-10:40:{30 + rank}.000.000 [hccl_socket_manager.cc:583] [7]   |  "
        f"29.0.0.{peer}({peer})   |  16666  |   29.0.0.{rank}({rank})   |  323  |  client  | time out | LinkInfo"
        for peer in peers
    ] + [ms(rank, f"40:{31 + rank}", "EI0006: Getting socket times out. Reason: Remote Rank did not send the data")]


def test_the_rank_all_of_whose_links_time_out_is_named_though_it_waited_for_others_too(run):
    logs = {rank: linked(rank, 5) for rank in (0, 1, 2, 3, 4, 6)}
    first = run({**logs, 5: linked(5, 0, 3, 6), 7: linked(7, 1)})[0]
    assert (first.place.rank, first.topic) == (5, "hccl.timeout.connect")


def test_the_rank_that_differs_from_all_others_is_named(run):
    def compared(rank, local, remote):
        text = f"tag [x], parameter [tag], local [{local}_10.0.0.1], remote [{remote}_10.0.0.1]"
        return [
            ms(
                rank,
                "10:14",
                f"EI0005: The arguments for collective communication are inconsistent between ranks: {text}",
            )
        ]

    logs = {rank: compared(rank, "AllReduce", "AllGather") for rank in (0, 1, 3)}
    first = run({**logs, 2: compared(2, "AllGather", "AllReduce")})[0]
    assert (first.place.rank, first.topic) == (2, "hccl.config_mismatch")


@pytest.mark.parametrize("timed", [True, False])
def test_ranks_that_fell_silent_together_are_named_together(run, timed):
    logs = {rank: waited(rank, 4 + rank) for rank in range(4)}
    first = run({**logs, **{rank: [] for rank in range(4, 8)}}, timed=timed)[0]
    assert (first.rule, first.ranks) == ("RUN170", (4, 5, 6, 7))


def test_a_crash_behind_a_time_out_that_has_no_time_of_its_own_blames_nobody(run):
    logs = {rank: waited(rank, 4 + rank) for rank in range(4)}
    logs[1].append("Aborted (core dumped)")
    first = run({**logs, **{rank: [] for rank in range(4, 8)}})[0]
    assert first.rule == "RUN170"


def test_a_nan_that_ended_a_rank_comes_before_the_data_that_could_not_be_pushed_any_more(run):
    text = "TDT Push data into device Failed, check the first error or TraceBack first"
    tail = ["Traceback (most recent call last):", '  File "a.py", line 9, in <module>']
    tail += ["FloatingPointError: loss became NaN at step 7", ms(2, "10:15", text, mod="MD")]
    first = run({2: tail, **{rank: waited(rank, 2) for rank in (0, 1, 3)}})[0]
    assert (first.place.rank, first.topic) == (2, "numerics.nan.overflow")


def test_a_log_of_errors_alone_repeats_what_its_rank_got_over(tmp_path):
    error = "OSError: [Errno 5] Input/output error: '/mnt/part-00017.mindrecord'"
    for rank in range(4):
        lines = steps(rank, timed=False) + (waited(rank, 2) if rank != 2 else [])
        if rank == 3:
            lines[3:3] = ["Traceback (most recent call last):", '  File "a.py", line 1, in f', error]
        (tmp_path / f"worker_{rank}.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "rank_3").mkdir()
    head = f"[ERROR] {DAY} 10:10:05,000 [a/monitor.py:43] wrapper: Traceback (most recent call last):"
    (tmp_path / "rank_3" / "error.log").write_text(f"{head}\n{error}\n")
    first = engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]
    assert (first.place.rank, first.rule) == (2, "RUN170")


def test_a_launcher_has_the_clock_of_the_processes_that_it_started(tmp_path):
    for rank in range(4):
        lines = steps(rank)
        if rank > 1:  # the second host's clock is 5 minutes ahead
            lines = [line.replace(" 10:10:", " 10:15:").replace("-10:00:", "-10:05:") for line in lines]
        (tmp_path / f"node{rank // 2}").mkdir(exist_ok=True)
        (tmp_path / f"node{rank // 2}" / f"worker_{rank}.log").write_text("\n".join(lines) + "\n")
    for node, rank, at, code in ((0, 0, "11:30", -9), (1, 3, "15:14", -11)):
        said = f"Worker process {PID + rank} exit with exception. Error code: {code}."
        text = f"[ERROR] ME({PID - 9 + node}:1,MainProcess):{DAY}-10:{at}.000.000 [a/_api.py:365] {said}"
        (tmp_path / f"launch_of_{node}.log").write_text(text + "\n")
    first = engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]
    assert (first.place.rank, first.topic) == (3, "process.killed")


def test_a_rank_whose_log_breaks_off_is_not_what_the_building_of_the_cluster_waited_for(tmp_path):
    error = ms(0, "10:00", "Building networking for MS_WORKER failed.")
    for rank in range(4):
        head = ms(rank, "00:01", "Topology build timed out., retry(1/120).", "WARNING")
        (tmp_path / f"worker_{rank}.log").write_text("\n".join([head] + [error] * (rank != 1)) + "\n")
    first = engine.diagnose([str(tmp_path)], engine.Options(jobs=1)).diagnoses[0]
    assert (first.rule, first.topic) == ("RUN103", "launch.rank_config")
