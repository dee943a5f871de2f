"""Kernel lines of every stamp form; counted all, kept the last; junk costs nothing."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.model import Raw, Unknown
from doctor.probes.kernel_log import KEPT, PROBES, parse_kernel_log, read_kernel_log


@pytest.mark.parametrize(
    ("line", "kind", "when", "args"),
    [
        ("[123456.789012] Out of memory: Killed process 8123 (python)", "oom", "[123456.789012]",
         {"pid": "8123", "name": "python"}),
        ("[Sat Nov 29 10:52:43 2026] Memory cgroup out of memory: Killed process 8123 (python) total-vm:1kB", "oom",
         "Sat Nov 29 10:52:43 2026", {"pid": "8123", "name": "python"}),
        ("[Sat Nov  9 10:52:43 2026] Out of memory: Kill process 8123 (a b)", "oom", "Sat Nov  9 10:52:43 2026",
         {"pid": "8123", "name": "a b"}),
        ("Nov 29 10:52:43 node0 kernel: [drv_soft_fault] Heartbeat lost", "npu_lost", "Nov 29 10:52:43", {}),
        ("2026-11-29T10:52:43,123456+08:00 pcieport 0000:80:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=x",
         "aer_fatal", "2026-11-29T10:52:43", {"bus": "0000:80:02.0"}),
        ("[   12.5] pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0", "aer", "[12.5]",
         {"bus": "0000:00:1c.0"}),
        ("[ 9.1] pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer", "aer", "[9.1]",
         {"bus": "0000:00:1c.0"}),
        ("[1.0] [ascend] [ERROR] [devdrv] [devdrv_probe 12] Probe failed. (ret=-22)", "npu_error", "[1.0]", {}),
        ("[1.0] [ascend] [devdrv] [ERROR] [devdrv_probe 12] Probe failed.", "npu_error", "[1.0]", {}),
        ("[1.0] device(3) is not working", "npu_lost", "[1.0]", {"device": "3"}),
        ("[1.0] INFO: task python:8123 blocked for more than 120 seconds.", "hung", "[1.0]",
         {"name": "python", "pid": "8123"}),
        ("[1.0] EXT4-fs error (device sda1): ext4_find_entry:1455", "filesystem", "[1.0]", {}),
        ("[1.0] EDAC MC0: 1 UE memory read error on CPU_SrcID#0", "memory_error", "[1.0]", {}),
        ("Out of memory: Killed process 1 (x)", "oom", "", {"pid": "1", "name": "x"}),
        ("[1.0] pcieport 0000:00:1c.0: AER: enabled with IRQ 24", None, "", {}),
        ("[1.0] [ascend] [devdrv] [devdrv_probe 12] probe success", None, "", {}),
        ("[1.0] [ascend] [ERROR] [devmm] [devmm_svm_device_fault 438] <x> Vm fault failed. (ret=64)", None, "", {}),
        ("[1.0] EDAC MC0: Giving out device to module skx_edac", None, "", {}),
        ("[1.0] RAS: Correctable Errors collector initialized.", None, "", {}),
    ],
)  # fmt: skip
def test_lines(line, kind, when, args):
    found = parse_kernel_log(line)
    assert found["counts"] == ({kind: 1} if kind else {})
    if kind:
        event = found["events"][0]
        assert (event.kind, event.when, event.args, event.line) == (kind, when, args, 1)


def test_all_are_counted_and_the_last_are_kept():
    text = "\n".join(f"[{n}.0] Out of memory: Killed process {n} (python)" for n in range(100))
    found = parse_kernel_log(text)
    assert found["counts"] == {"oom": 100}
    assert [event.args["pid"] for event in found["events"]] == [str(n) for n in range(100 - KEPT, 100)]


@given(st.text())
def test_junk_never_raises(text):
    parse_kernel_log(text)


@pytest.mark.parametrize("piece", ["x", "AER: ", "[ascend] ", "0000:00:1c.0 Uncorrect", "\n", "task :", "XFS (a): "])
def test_five_megabytes_of_junk_are_read_in_linear_time(piece):
    text = piece * (5_000_000 // len(piece))
    began = time.process_time()
    parse_kernel_log(text)
    assert time.process_time() - began < 5


def fact(raws, absent=True):
    return read_kernel_log(MemoryHost(raws, absent=absent), {})[0]


def test_dmesg_then_its_plain_form_then_the_log_file():
    line = "[1.0] Out of memory: Killed process 1 (python)"
    assert fact({"run dmesg -T": line}).value["source"] == "dmesg -T"
    old = Raw("run dmesg -T", "ok", "", "dmesg: invalid option -- 'T'", 1)
    assert fact({"run dmesg -T": old, "run dmesg": line}).value["source"] == "dmesg"
    refused = Raw("run dmesg", "ok", "", "dmesg: read kernel buffer failed: Operation not permitted", 1)
    log = json.dumps({"file": "/var/log/kern.log", "state": "ok", "text": line})
    found = fact({"run dmesg -T": refused, "run dmesg": refused, "ask kernel_log": log})
    assert (found.value["source"], found.evidence.line) == ("/var/log/kern.log", 1)


def test_of_a_log_that_is_too_long_the_weighty_lines_are_read():
    line = "[1.0] Out of memory: Killed process 1 (python)"
    brief = "run dmesg -T --level=emerg,alert,crit,err,warn,notice"
    long = Raw("run dmesg -T", "killed", "[0.1] x", "", -9, 0.0, True)
    assert fact({"run dmesg -T": long, brief: line}).value["counts"] == {"oom": 1}
    assert fact({"run dmesg -T": long}).value["cut"] is True


def test_a_refused_log_names_root_and_a_missing_tool_the_tool():
    refused = Raw("run dmesg", "ok", "", "dmesg: read kernel buffer failed: Operation not permitted", 1)
    found = fact({"run dmesg -T": refused, "run dmesg": refused})
    assert isinstance(found, Unknown) and (found.why, found.how) == ("needs_root", "as_root")
    assert fact({}).why == "no_tool"
    assert fact({}, absent=False).why == "not_recorded"
    assert PROBES[0].gives == ("host.kernel_log",)
