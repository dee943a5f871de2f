"""Write runs of many ranks that fail in known ways, and measure whether the doctor names the rank and the cause.

usage: python scripts/cascades.py [--runs N] [--seed S] [--kinds oom,killed] [--keep DIR] [--misses] [--ranks MAX]
                                  [--one-file] [--marks rank,srun]

Each run has 8 to ``--ranks`` ranks on hosts whose clocks are up to five minutes apart, recovered errors hours before,
worker logs, plogs, a launcher and a scheduler log as they come, and logs that nobody collected. A run is right when the
first diagnosis is of the rank that failed first and of one of the topics that its kind may be called. With
``--one-file`` all ranks are in one log, marked in one of many ways, with lines that are glued, cut off or written twice.
"""

# ruff: noqa: E501 - log lines are as long as they are

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

T0 = 1_773_820_800
"""2026-03-18 08:00:00"""


def _clock(seconds: float, form: str) -> str:
    whole = int(seconds)
    day, rest = divmod(whole - T0 + 8 * 3600, 86400)
    milli = int((seconds - whole) * 1000)
    date = f"2026-03-{18 + day:02d}"
    hms = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    if form == "glog":
        return f"{date}-{hms}.{milli:03d}.{whole * 7919 % 1000:03d}"
    return f"{date} {hms},{milli:03d}"


class Rank:
    """The logs of one rank while they are written; times are true ones, printed by the host's wrong clock."""

    def __init__(self, number: int, host: int, device: int, skew: float, rng: random.Random, style: Style) -> None:
        self.number, self.host, self.device, self.skew, self.rng, self.style = number, host, device, skew, rng, style
        self.pid = 20000 + host * 1000 + device * 7 if style.pids_repeat else 20000 + number * 17
        self.ip = f"192.0.2.{host + 10}"
        self.worker: list[str] = []
        self.plog: list[str] = []
        self.dead = False

    def _glog(self, at: float, level: str, module: str, text: str) -> str:
        stamp = _clock(at + self.skew, "glog")
        return f"[{level}] {module}({self.pid},ffff8a1c{self.pid:04x},python):{stamp} {text}"

    def say(self, at: float, level: str, module: str, text: str) -> None:
        """A line of MindSpore."""
        self.worker.append(self._glog(at, level, module, text))

    def cann(self, at: float, level: str, module: str, text: str) -> None:
        """A line of CANN, in the plog."""
        self.plog.append(f"[{level}] {module}({self.pid},python):{_clock(at + self.skew, 'glog')} {text}")

    def bare(self, *lines: str) -> None:
        """Lines without a head."""
        self.worker += lines

    def step(self, at: float, n: int, total: int) -> None:
        """A training line."""
        if self.style.last_stage_only and self.number != self.style.world - 1:
            return
        at += self.rng.random() * self.style.jitter
        self.worker.append(
            f"{_clock(at + self.skew, 'py')} - mindformers[mindformers/core/callback/callback.py:529] - INFO - "
            f"{{ Epoch:[  1/  1], step:[{n:5d}/{total}], loss: {9.5 - min(n, 4000) * 0.001:.3f}, per_step_time: "
            f"{int(self.style.step * 1000)}ms, lr: 1e-05, overflow cond: False, loss_scale: 65536.0, "
            f"global_norm: [1.{self.rng.randrange(9)}]"
        )


class Style(NamedTuple):
    """How a run is logged."""

    world: int
    step: float
    jitter: float
    pids_repeat: bool
    last_stage_only: bool
    naming: str
    """root: each that waits names the culprit · ring: its neighbour · none"""
    wait: float


class Run:
    """A run with its ranks and what is true of it."""

    def __init__(self, rng: random.Random, most: int) -> None:
        self.rng = rng
        per_host = rng.choice((2, 4, 8, 8, 16))
        hosts = rng.choice([n for n in (1, 2, 3, 4, 8, 16, 32) if 8 <= n * per_host <= most] or [1])
        world = max(8, hosts * per_host)
        step = rng.choice((0.4, 1.7, 4.2, 12.0, 31.0))
        self.style = Style(
            world, step, min(0.2, step / 10), rng.random() < 0.3, rng.random() < 0.08,
            rng.choice(("root", "root", "root", "ring", "none")), rng.choice((121.0, 600.0, 1836.0)),
        )  # fmt: skip
        per_rank = rng.random() < 0.15
        skews = [rng.choice((0.0, rng.uniform(-300, 300), rng.uniform(-5, 5))) for _ in range(hosts)]
        self.ranks = []
        for number in range(world):
            host = min(number // per_host, hosts - 1)
            skew = rng.uniform(-300, 300) if per_rank else skews[host]
            self.ranks.append(Rank(number, host, number % per_host, skew, rng, self.style))
        self.hosts = hosts
        self.world = world
        self.root = self.ranks[rng.randrange(world)]
        self.steps = rng.choice((12, 60, 400))
        self.started = T0 + rng.random() * 3600
        self.warm = self.started + 40 + step
        self.failed = self.warm + self.steps * step + 0.3 * step
        self.launcher: list[str] = []
        self.scheduler: list[str] = []
        self.topics: tuple[str, ...] = ()
        self.lost: set[int] = set()
        self.keep_root_log = True
        self.truncated: dict[int, int] = {}

    # ------------------------------------------------------------- the course

    def begin(self, *, train: bool = True) -> None:
        """Start, communicators and steps of all ranks."""
        for rank in self.ranks:
            at = self.started + self.rng.random() * 3
            rank.say(at, "WARNING", "DISTRIBUTED", "[mindspore/ccsrc/distributed/cluster/topology/compute_graph_node.cc:173]"
                     f" Register] Failed to connect to the meta server node url: {self.ranks[0].ip}:8118")  # fmt: skip
            rank.say(at + 4, "WARNING", "DISTRIBUTED", "[mindspore/ccsrc/distributed/collective/collective_manager.cc:286] "
                     f"Initialize] This node {rank.number} rank id: {rank.number}")  # fmt: skip
            rank.cann(at + 5, "EVENT", "HCCL", f"[op_base.cc:1203] {rank.pid} Entry-HcclCommInitRootInfoConfig:ranks"
                      f"[{self.world}], rank[{rank.number}], deviceLogicId[{rank.device}], identifier[hccl_world_group]")  # fmt: skip
            if train:
                rank.cann(self.started + 20 + self.rng.random(), "EVENT", "HCCL", f"[op_base.cc:1288] {rank.pid} "
                          "HcclCommInitRootInfoConfig success, take time [7183200]us, "
                          f"rankNum[{self.world}], rank[{rank.number}]")  # fmt: skip
            self.scheduler.append(
                f"[WARNING] DISTRIBUTED(19999,ffff8a1c1111,python):{_clock(at + 4 + self.ranks[0].skew, 'glog')} "
                "[mindspore/ccsrc/distributed/cluster/topology/meta_server_node.cc:254] ProcessRegister] The new node: "
                f"{rank.number}(role: MS_WORKER), rank id: {rank.number}, device id: {rank.device}, hostname: "
                f"node-{rank.host}, ip: {rank.ip} is registered successfully. Currently registered node number: "
                f"{rank.number + 1}, expected node number: {self.world}"
            )
        if train:
            for n in range(1, self.steps + 1):
                for rank in self.ranks:
                    rank.step(self.warm + n * self.style.step, n, 9999)
                    if n % 7 == 0:
                        rank.cann(self.warm + n * self.style.step, "EVENT", "RUNTIME",
                                  f"[stream.cc:1877] {rank.pid} GetStatistics: stream_id=2, pending tasks 0")  # fmt: skip

    def recovered(self) -> None:
        """Errors in the middle of the run that ranks got over."""
        for rank in self.rng.sample(self.ranks, min(3, self.world)):
            steps = [n for n, line in enumerate(rank.worker) if "per_step_time" in line]
            if len(steps) < 12:
                continue
            middle = steps[len(steps) // 2]
            kind = self.rng.randrange(3)
            if kind == 0:
                block = traceback(
                    "RuntimeError: Launch kernel failed, kernel full name: Default/Cast-op3, but it was retried"
                )
            elif kind == 1:
                block = traceback("ValueError: cannot decode sample 17, skipped")
            else:
                block = traceback(f"RuntimeError: Device(id:{rank.device}) memory isn't enough and alloc failed, "
                                  "kernel name: Default/MatMul-op9, alloc size: 2147483648B.")  # fmt: skip
            rank.worker[middle:middle] = block

    def waiters(self, after: float, *, but: tuple[Rank, ...] = ()) -> None:
        """All ranks but the culprits wait until their time is over; the launcher may be quicker on some hosts."""
        spared = {rank.number for rank in but}
        # a chain of neighbours in which some print nothing could end at any of them
        cut = self.style.naming != "ring" and self.rng.random() < 0.3
        printed = self.rng.random()
        for rank in self.ranks:
            if rank.number in spared or rank.dead:
                continue
            if cut and self.rng.random() < 0.4:
                continue  # stopped by the launcher before it printed
            at = after + self.style.wait + self.rng.random() * 4
            peer = {"root": self.root.number, "ring": (rank.number + 1) % self.world, "none": -1}[self.style.naming]
            self.notify(rank, at, peer, plog=printed > 0.2, worker=printed < 0.8)

    def notify(self, rank: Rank, at: float, peer: int, *, plog: bool, worker: bool) -> None:
        """What a rank prints whose notify never came."""
        if plog:
            rank.cann(at, "ERROR", "HCCL", f"[task_exception_handler.cc:812] [{rank.pid}][TaskExecStage][Timeout][HOST]"
                      "Task from HCCL run failed.")  # fmt: skip
            named = f", remote rank:[{peer}]" if peer >= 0 else ""
            rank.cann(at, "ERROR", "HCCL", f"[task_exception_handler.cc:601] [{rank.pid}][TaskExecStage][Timeout]FFTS+ run "
                      f"failed, para information is notify id:[0x17], stage:[ffffffff]{named}.")  # fmt: skip
            rank.cann(at, "ERROR", "HCCL", f"[task_exception_handler.cc:612] [{rank.pid}][TaskExecStage][Timeout]"
                      f"groupRankContent is rank[{rank.number}] of ranks[{self.world}], group[hccl_world_group].")  # fmt: skip
        if worker or not plog:
            rank.bare(*traceback(f"RuntimeError: Sync stream failed:Ascend_{rank.device}"),
                      "----------------------------------------------------", "- Ascend Error Message:",
                      "----------------------------------------------------")  # fmt: skip
            named = f" from remote rank [{peer}]" if peer >= 0 else ""
            rank.bare(f"EI0002: [PID: {rank.pid}] {_clock(at + rank.skew, 'glog')} The wait execution of the Notify register "
                      f"times out. Reason: The Notify register has not received the Notify record{named}.",
                      "        TraceBack (most recent call last):",
                      "        rtStreamSynchronize execute failed, reason=[stream sync timeout]")  # fmt: skip

    def exit(self, rank: Rank, at: float, code: int) -> None:
        """The launcher sees a process end."""
        skew = self.ranks[0].skew if self.hosts == 1 else rank.skew
        self.launcher.append(f"[ERROR] ME(19000:281472830996496,MainProcess):{_clock(at + skew, 'glog')} "
                             "[mindspore/parallel/cluster/process_entity/_api.py:365] "
                             f"Worker process {rank.pid} exit with exception. Error code: {code}.")  # fmt: skip

    def lose(self, share: float) -> None:
        """Logs that nobody collected; never that of the culprit."""
        for rank in self.ranks:
            if rank is not self.root and self.rng.random() < share:
                self.lost.add(rank.number)

    # ---------------------------------------------------------------- writing

    def write(self, folder: str) -> None:
        """The files of the run."""
        rng = self.rng
        layout = rng.choice(("flat", "flat", "hosts", "nested"))
        for rank in self.ranks:
            if rank.number in self.lost or (rank is self.root and not self.keep_root_log):
                continue
            base = {
                "flat": folder, "hosts": f"{folder}/node-{rank.host}", "nested": f"{folder}/logs/{rank.ip}/job",
            }[layout]  # fmt: skip
            _put(f"{base}/msrun_log/worker_{rank.number}.log", rank.worker)
            if rank.plog:
                _put(f"{base}/ascend/log/debug/plog/plog-{rank.pid}_20260318080000{rank.number:03d}.log", rank.plog)
        base = {"flat": folder, "hosts": f"{folder}/node-0", "nested": f"{folder}/logs/{self.ranks[0].ip}/job"}[layout]
        if self.launcher:
            _put(f"{base}/launcher.log", self.launcher)
        if rng.random() < 0.6:
            _put(f"{base}/msrun_log/scheduler.log", self.scheduler)

    def write_one(self, folder: str, mark: str, spoiled: float) -> None:
        """All ranks in one file, each line behind its rank's mark; ``spoiled``: the share of lines that are glued to the
        next one, cut off or written twice."""
        rng = self.rng
        put = MARKS[mark]
        timed: list[tuple[float, int, str]] = []
        kept = [r for r in self.ranks if r.number not in self.lost and (r is not self.root or self.keep_root_log)]
        apart: list[str] = []
        for rank in kept:
            apart.append(f"==> msrun_log/worker_{rank.number}.log <==")
            for lines in (rank.worker, rank.plog):
                at, block = self.started, []
                for line in lines:
                    own = _printed(line)
                    if own is not None:
                        at = max(at, own - rank.skew) if lines is rank.worker else own - rank.skew
                    block.append((at, len(timed) + len(block), put(rank.number, line)))
                    apart.append(line)
                timed += block
            apart.append("")
        if mark == "tail":
            if self.scheduler:
                apart += ["==> msrun_log/scheduler.log <==", *self.scheduler]
            _put(f"{folder}/all.log", apart)
            return
        # the launcher and the scheduler write there too, without a mark
        for line in (*self.launcher, *self.scheduler):
            timed.append((_printed(line) or self.failed, len(timed), line))
        out: list[str] = []
        for _, _, line in sorted(timed):
            out.append(line)
            if rng.random() < spoiled:
                kind = rng.randrange(3)
                if kind == 0 and len(out) > 1 and MARKS[mark](0, "")[:1] in ("[", "("):
                    out[-2:] = [out[-2] + out[-1]]
                elif kind == 1 and "loss" in line:
                    out[-1] = line[: rng.randrange(len(line))]
                else:
                    out.append(line)
        _put(f"{folder}/all.log", out)


MARKS: dict[str, Callable[[int, str], str]] = {
    "rank": lambda n, line: f"[rank{n}]: {line}",
    "default": lambda n, line: f"[default{n}]:{line}",
    "srun": lambda n, line: f"{n:3d}: {line}",
    "mpi": lambda n, line: f"[1,{n}]<stdout>: {line}",
    "hydra": lambda n, line: f"[{n}] {line}",
    "paren": lambda n, line: f"(worker rank={n}) {line}",
    "actor": lambda n, line: f"(TrainWorker rank={n} pid={4000 + n}) {line}",
    "pod": lambda n, line: f"[pod/llm-worker-{n}/main] {line}",
    "stern": lambda n, line: f"llm-worker-{n} main {line}",
    "compose": lambda n, line: f"worker-{n}  | {line}",
    "time": lambda n, line: f"2026-03-18T08:00:00.123456789Z [rank{n}]: {line}",
    "grep": lambda n, line: f"msrun_log/worker_{n}.log:{line}",
    "word": lambda n, line: f"rank {n}: {line}",
    "tail": lambda n, line: line,
}
"""How the rank stands before a line: as torchrun, srun -l, mpirun, kubectl, grep … write it."""


def _printed(line: str) -> float | None:
    """The time that a line shows."""
    found = re.search(r"2026-03-(\d\d)[- ](\d\d):(\d\d):(\d\d)[.,](\d{3})", line)
    if not found:
        return None
    day, hour, minute, second, milli = map(int, found.groups())
    return T0 - 8 * 3600 + (day - 18) * 86400 + hour * 3600 + minute * 60 + second + milli / 1000


def _put(path: str, lines: list[str]) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))


def traceback(last: str) -> list[str]:
    """A Python traceback."""
    return [
        "Traceback (most recent call last):", '  File "run_mindformer.py", line 329, in <module>', "    main(config_)",
        '  File "mindspore/train/model.py", line 1272, in train', "    self._train(epoch, train_dataset)", last,
    ]  # fmt: skip


# -------------------------------------------------------------------- kinds


def oom(run: Run) -> None:
    """A rank runs out of device memory; the others wait for it."""
    run.begin()
    root = run.root
    root.say(
        run.failed, "ERROR", "DEVICE", "[mindspore/ccsrc/runtime/device/memory_manager.cc:112] Allocate memory failed"
    )
    root.bare(*traceback(f"RuntimeError: Device(id:{root.device}) memory isn't enough and alloc failed, kernel name: "
                         "Default/network/MatMul-op4127, alloc size: 6442450944B."))  # fmt: skip
    run.waiters(run.failed, but=(root,))
    run.topics = ("memory.device.exhausted", "memory.device.fragmented")


def aicore(run: Run) -> None:
    """A kernel faults on one card."""
    run.begin()
    root = run.root
    root.cann(run.failed, "ERROR", "RUNTIME", f"[device_error_proc.cc:652] {root.pid} ProcessCoreErrorInfo:The error from "
              f"device({root.device}), serial number is 1, there is an aivec error, core id is 0, error code = 0x800000")  # fmt: skip
    root.bare(*traceback("RuntimeError: Call rt api rtStreamSynchronize failed, ret: 507015. aicore exception"))
    run.waiters(run.failed, but=(root,))
    run.topics = ("aicore.exception",)


def killed(run: Run) -> None:
    """A process is killed and says nothing; the launcher may say so, the heartbeat too."""
    run.begin()
    root = run.root
    root.dead = True
    told = run.rng.random() < 0.6
    if told:
        run.exit(root, run.failed + 5, -9)
    for rank in run.ranks:
        if rank is not root and run.rng.random() < 0.7:
            at = run.failed + 30 + run.rng.random()
            rank.cann(at, "ERROR", "HCCL", f"[heartbeat.cc:722] [{rank.pid}][TaskExecStage][HeartbeatAbnormal]Cluster Exception "
                      f"Location[IP/ID]:[{root.ip}/{root.device}], Arrival Time:[Wed Mar 18 11:56:34 2026], Discoverer:"
                      f"[{rank.ip}/{rank.device}], ExceptionType:[Heartbeat Lost Occurred], Possible Reason:1. Process has "
                      "exited, 2. Network Disconnected")  # fmt: skip
    run.waiters(run.failed, but=(root,))
    if run.style.naming == "none" and not told:
        run.style = run.style._replace(naming="root")
    run.topics = ("process.killed", "hccl.timeout.peer_died")


def hung(run: Run) -> None:
    """A rank hangs without a word."""
    run.begin()
    root = run.root
    root.dead = True
    if run.rng.random() < 0.5:
        for n in range(20):
            root.say(run.failed + 10 + n * 60, "WARNING", "MD", "[mindspore/ccsrc/minddata/dataset/util/queue.h:90] the queue "
                     "of the data is not full yet")  # fmt: skip
    run.style = run.style._replace(naming=run.rng.choice(("root", "ring")))
    run.waiters(run.failed, but=(root,))
    run.topics = ("hccl.timeout.peer_died", "hccl.timeout.exec", "process.killed", "data.timeout")


def missing(run: Run) -> None:
    """The log of the culprit was not collected."""
    run.begin()
    run.root.dead = True
    run.keep_root_log = False
    run.style = run.style._replace(naming=run.rng.choice(("root", "ring")))
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("hccl.timeout.peer_died", "hccl.timeout.exec", "launch.worker_exit", "process.killed")


def empty(run: Run) -> None:
    """The culprit's log is there and empty; the others never got a connection."""
    run.begin(train=False)
    run.root.worker, run.root.plog = [], []
    for rank in run.ranks:
        if rank is run.root:
            continue
        at = run.started + 600 + run.rng.random() * 3
        rank.cann(at, "ERROR", "HCCL", f"[hccl_socket_manager.cc:797] [{rank.pid}][Wait][LinkEstablish]wait socket establish "
                  f"timeout, role[1] rank[{run.root.number}] timeout[600 s]")  # fmt: skip
        rank.bare(*traceback("RuntimeError: Ascend collective communication initialization failed."),
                  f"EI0006: [PID: {rank.pid}] {_clock(at + rank.skew, 'glog')} Getting socket times out. Reason: Remote Rank did "
                  "not send the data in time.")  # fmt: skip
    run.topics = ("hccl.timeout.peer_died", "hccl.timeout.connect", "launch.worker_exit", "process.killed")


def unknown(run: Run) -> None:
    """A Python exception of the user's own."""
    run.begin()
    run.root.bare(*traceback(f"CurriculumError: bucket {run.rng.randrange(99)} has no plan for phase 3"))
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("run.failed_unrecognised",)


def data(run: Run) -> None:
    """The user's data code raises on one rank."""
    run.begin()
    run.root.bare(
        *traceback("RuntimeError: Exception thrown from user defined Python function in dataset."),
        "----------------------------------------------------", "- Dataset Pipeline Error Message: ",
        "----------------------------------------------------",
        "[ERROR] Execute user Python code failed, check 'Python Call Stack' above.",
    )  # fmt: skip
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("data.worker_exception",)


def port_down(run: Run) -> None:
    """The port of one NPU goes down: only its plog says so, the worker just exits."""
    run.begin()
    root = run.root
    root.cann(
        run.failed,
        "ERROR",
        "HCCP",
        f"[ra_hdc.c:512] [{root.pid}]EJ0002: The network port is down. phy_id({root.device})",
    )
    root.say(run.failed + 2, "WARNING", "DISTRIBUTED", "[collective_manager.cc:620] Finalize] Begin finalizing")
    run.exit(root, run.failed + 5, 1)
    run.waiters(run.failed, but=(root,))
    run.topics = ("hccl.network", "device.link")


def disk(run: Run) -> None:
    """A rank cannot save its checkpoint."""
    run.begin()
    run.root.bare(*traceback("OSError: [Errno 28] No space left on device: '/data/ckpt/rank_3/gpt.ckpt'"))
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("env.disk_full", "checkpoint.write_failed")


def two(run: Run) -> None:
    """Two ranks fail minutes apart, by causes of their own."""
    run.begin()
    root = run.root
    other = run.rng.choice([rank for rank in run.ranks if rank is not root])
    root.bare(*traceback("OSError: [Errno 28] No space left on device: '/data/ckpt/gpt.ckpt'"))
    root.say(run.failed + 1, "WARNING", "DISTRIBUTED", "[collective_manager.cc:620] Finalize] Begin finalizing")
    gap = run.rng.uniform(100, 400)
    other.say(run.failed + gap, "ERROR", "DEVICE", "[memory_manager.cc:112] Allocate memory failed")
    other.bare(*traceback(f"RuntimeError: Device(id:{other.device}) memory isn't enough and alloc failed, kernel name: "
                          "Default/MatMul-op1, alloc size: 6442450944B."))  # fmt: skip
    other.say(run.failed + gap + 1, "WARNING", "DISTRIBUTED", "[collective_manager.cc:620] Finalize] Begin finalizing")
    run.waiters(run.failed, but=(root, other))
    run.topics = ("env.disk_full", "checkpoint.write_failed")


def first_to_die(run: Run) -> None:
    """Out of memory on one rank seconds before the scheduler loses it; msrun stops the others, who say nothing."""
    run.begin()
    root = run.root
    root.say(run.failed, "ERROR", "DEVICE", "[memory_manager.cc:112] Allocate memory failed")
    root.bare(*traceback(f"RuntimeError: Device(id:{root.device}) memory isn't enough and alloc failed, kernel name: "
                         "Default/MatMul-op1, alloc size: 6442450944B."))  # fmt: skip
    run.exit(root, run.failed + 5, 1)
    for rank in run.rng.sample(run.ranks, min(6, run.world)):
        if rank is not root:
            run.exit(rank, run.failed + 8, -9)
    stamp = _clock(run.failed + 35 + run.ranks[0].skew, "glog")
    run.scheduler.append(f"[ERROR] DISTRIBUTED(19999,ffff8a1c1111,python):{stamp} [meta_server_node.cc:548] UpdateTopoState] "
                         f"The node: {root.number} is timed out. It may exit with exception, please check this node's log.")  # fmt: skip
    run.topics = ("memory.device.exhausted", "memory.device.fragmented")


def told_by_scheduler(run: Run) -> None:
    """The launcher's plain words name the worker that ended by a signal; nobody else says anything."""
    run.begin()
    stamp = _clock(run.failed + 3 + run.ranks[0].skew, "py")
    run.launcher.append(f"{stamp} - launcher - ERROR - worker {run.root.number} exited with code 9")
    run.topics = ("process.killed", "launch.worker_exit")


def start_error(run: Run) -> None:
    """A package is missing on one host's environment: its rank dies at the start, all others time out connecting."""
    run.begin(train=False)
    root = run.root
    root.plog = []
    root.worker = root.worker[:1]
    root.bare(*traceback("ModuleNotFoundError: No module named 'sentencepiece'"))
    for rank in run.ranks:
        if rank is not root:
            at = run.started + 600 + run.rng.random() * 3
            rank.cann(at, "ERROR", "HCCL", f"[topoinfo_exchange_agent.cc:314] [{rank.pid}][InitGroupStage][RanktableDetect]topo "
                      "exchange agent get socket timeout! timeout[600 s]")  # fmt: skip
            rank.bare(
                f"EI0015: [PID: {rank.pid}] {_clock(at + rank.skew, 'glog')} The cluster information was not detected."
            )
    run.topics = ("env.python_package",)


def mixed_steps(run: Run) -> None:
    """A cause on a host whose clock is ahead, so that all time-outs look earlier than it."""
    for rank in run.ranks:
        rank.skew = 280.0 if rank.host == run.root.host else -280.0
    run.style = run.style._replace(wait=121.0, naming=run.rng.choice(("root", "none", "ring")))
    oom(run)


def cqe(run: Run) -> None:
    """The network of one card fails: retransmissions are used up; all others wait."""
    run.begin()
    root = run.root
    root.cann(run.failed, "ERROR", "HCCL", f"[transport_roce.cc:1834] [{root.pid}][hccl_transport]error cqe status[12], dst ip "
              "192.0.2.250, qp 77, retry exceeded.")  # fmt: skip
    run.waiters(run.failed, but=(root,))
    run.topics = ("hccl.network",)


def nan(run: Run) -> None:
    """One rank's callback raises because its loss is no number."""
    run.begin()
    run.root.bare(*traceback("ValueError: Loss is nan, stop training: overflow in step 61"))
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("numerics.nan.overflow", "numerics.nan.gradient", "numerics.loss_diverged")


def link_table(run: Run) -> None:
    """A rank is stuck before the communicators are made; the others list the links that they did not get."""
    run.begin(train=False)
    root = run.root
    root.worker, root.plog = root.worker[:2], root.plog[:1]
    for rank in run.ranks:
        if rank is root:
            continue
        at = run.started + 600 + run.rng.random() * 3
        rank.cann(
            at,
            "ERROR",
            "HCCL",
            f"[hccl_socket_manager.cc:583] [{rank.pid}]   _________________________LINK_ERROR_INFO___________________________",
        )
        rank.cann(
            at,
            "ERROR",
            "HCCL",
            f"[hccl_socket_manager.cc:583] [{rank.pid}]   |  {root.ip}({root.number})   |  16666  |   {rank.ip}({rank.number})   |  3234403008  |  client  | time out |   DISABLE  | LinkInfo",
        )
        rank.cann(
            at,
            "ERROR",
            "HCCL",
            f"[hccl_socket_manager.cc:797] [{rank.pid}][Wait][LinkEstablish]wait socket establish timeout, role[1] rank[{root.number}] timeout[600 s]",
        )
        rank.bare(
            f"EI0006: [PID: {rank.pid}] {_clock(at + rank.skew, 'glog')} Getting socket times out. Reason: Remote Rank did not send the data in time."
        )
    run.topics = ("hccl.timeout.peer_died", "hccl.timeout.connect", "hccl.timeout.exec", "process.killed")


def subgroups(run: Run) -> None:
    """Ranks name peers by their numbers in groups of their own; only the world's group tells who is meant."""
    run.begin()
    root = run.root
    root.bare(
        *traceback(
            f"RuntimeError: Device(id:{root.device}) memory isn't enough and alloc failed, kernel name: Default/MatMul-op1, alloc size: 6442450944B."
        )
    )
    for rank in run.ranks:
        if rank is root:
            continue
        at = run.failed + run.style.wait + run.rng.random()
        for text in (
            "[TaskExecStage][Timeout][HOST]Task from HCCL run failed.",
            f"[TaskExecStage][Timeout]FFTS+ run failed, para information is notify id:[0x17], stage:[ffffffff], remote rank:[{run.rng.randrange(4)}].",
            f"[TaskExecStage][Timeout]groupRankContent is rank[{rank.number % 4}] of ranks[4], group[pp-2-6301172352641561019].",
        ):
            rank.cann(at, "ERROR", "HCCL", f"[task_exception_handler.cc:612] [{rank.pid}]{text}")
    run.topics = ("memory.device.exhausted", "memory.device.fragmented")


def restarted(run: Run) -> None:
    """The run failed hours ago, was started again in the same logs, and fails for another reason now."""
    run.begin()
    old = run.rng.choice(run.ranks)
    old.bare(*traceback("OSError: [Errno 28] No space left on device: '/data/ckpt/gpt.ckpt'"))
    for rank in run.ranks:
        if rank is not old:
            run.notify(rank, run.failed + run.style.wait, old.number, plog=False, worker=True)
        rank.worker += rank.worker[:1]
    run.warm = run.failed + run.style.wait + 3600
    for n in range(1, run.steps + 1):
        for rank in run.ranks:
            rank.step(run.warm + n * run.style.step, n, 9999)
    run.failed = run.warm + run.steps * run.style.step + 0.3
    run.root.bare(*traceback("RuntimeError: Call rt api rtStreamSynchronize failed, ret: 507015. aicore exception"))
    run.waiters(run.failed, but=(run.root,))
    run.topics = ("aicore.exception",)


KINDS: dict[str, Callable[[Run], None]] = {
    f.__name__: f
    for f in (
        oom, aicore, killed, hung, missing, empty, unknown, data, port_down, disk, two, first_to_die, told_by_scheduler,
        start_error, mixed_steps, cqe, nan, link_table, subgroups, restarted,
    )
}  # fmt: skip


def make(kind: str, seed: int, most: int, folder: str, mark: str = "", spoiled: float = 0.0) -> Run:
    """Write one run into a folder; with a ``mark`` all ranks into one file."""
    run = Run(random.Random(f"{kind} {seed}"), most)
    KINDS[kind](run)
    if run.rng.random() < 0.7:
        run.recovered()
    if run.rng.random() < 0.4 and kind != "missing":
        run.lose(run.rng.choice((0.02, 0.1)))
    if mark:
        run.write_one(folder, mark, spoiled)
    else:
        run.write(folder)
    return run


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--misses", action="store_true")
    parser.add_argument("--one-file", action="store_true")
    parser.add_argument("--marks", default="")
    parser.add_argument("--spoiled", type=float, default=0.005)
    args = parser.parse_args()
    from doctor import engine

    kinds = args.kinds.split(",") if args.kinds else list(KINDS)
    marks = args.marks.split(",") if args.marks else list(MARKS)
    right: collections.Counter[str] = collections.Counter()
    count: collections.Counter[str] = collections.Counter()
    began = time.process_time()
    for number in range(args.runs):
        kind, seed = kinds[number % len(kinds)], args.seed * 100_000 + number
        folder = os.path.join(args.keep, f"{kind}_{seed}") if args.keep else tempfile.mkdtemp(prefix="cascade-")
        try:
            mark = marks[number * 7 % len(marks)] if args.one_file else ""
            run = make(kind, seed, args.ranks, folder, mark, args.spoiled)
            report = engine.diagnose([folder], engine.Options(jobs=1))
        finally:
            if not args.keep:
                shutil.rmtree(folder, ignore_errors=True)
        first = report.diagnoses[0] if report.diagnoses else None
        place = first.place.rank if first else None
        good = first is not None and place == run.root.number and first.topic in run.topics
        right[kind] += good
        count[kind] += 1
        if args.misses and not good:
            said = f"{first.rule} {first.topic} rank {place} of {first.ranks[:6]}" if first else "nothing"
            print(f"-- {kind} {mark} seed {seed}: rank {run.root.number} of {run.world} on {run.hosts} hosts, naming "
                  f"{run.style.naming} <- {said}; clock {report.run.get('clock', {}).get('doubt')}")  # fmt: skip
            sys.stdout.flush()
    for kind in kinds:
        print(f"{kind:18}{right[kind]:5} of {count[kind]}")
    total, all_ = sum(right.values()), sum(count.values())
    print(f"{'all':18}{total:5} of {all_}  {100 * total / max(1, all_):.1f} %  {time.process_time() - began:.0f} s CPU")
    return 0 if total * 100 >= 98 * all_ else 1


if __name__ == "__main__":
    sys.exit(main())
