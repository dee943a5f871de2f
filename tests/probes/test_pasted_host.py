"""Outputs of ordinary tools, pasted, answer the questions of the host."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.hosts.base import MemoryHost
from doctor.model import Unknown
from doctor.probes import devices, system
from doctor.probes.base import run
from doctor.probes.pasted_host import from_text

SAMPLES = Path(__file__).parents[2] / "fixtures/hosts/samples"
G = 1 << 30

DF = """\
$ df -h
Filesystem      Size  Used Avail Use% Mounted on
devtmpfs        378G     0  378G   0% /dev
tmpfs            64M   60M  4.0M  94% /dev/shm
/dev/loop3       56M   56M     0 100% /snap/core18/2812
/dev/sda2       876G  876G   20M 100% /
/dev/sda1      1022M  6.3M 1016M   1% /boot/efi
nfs:/data       1.5P  1.0P  512T  67% /data
$ df -i
Filesystem       Inodes  IUsed    IFree IUse% Mounted on
/dev/sda2      58343424 58343000     424  100% /
btrfs                 0        0        0     - /vol
$ echo done
"""


def test_df_in_all_its_units():
    found = from_text(DF)
    rows = {row["path"]: row for row in json.loads(found["ask disks"])}
    assert set(rows) == {"/", "/data", "/vol"}
    assert (rows["/"]["available"], rows["/"]["inodes_free"]) == (20 << 20, 424)
    assert rows["/data"]["available"] == 512 << 40
    assert rows["/vol"]["inodes"] is None
    assert json.loads(found["ask shm"]) == {"exists": True, "size": 64 << 20, "available": 4 << 20}
    plain = "Filesystem     1K-blocks      Used Available Use% Mounted on\n/dev/vda   1000  900 100  90% /\n"
    assert json.loads(from_text(plain)["ask disks"])[0]["size"] == 1000 << 10
    zh = "文件系统        容量  已用  可用 已用% 挂载点\n/dev/vda2        50G   49G  1.0G   98% /\n"
    assert json.loads(from_text(zh)["ask disks"])[0]["available"] == G


@pytest.mark.parametrize(
    ("text", "total", "available"),
    [
        ("              total        used        free      shared  buff/cache   available\n"
         "Mem:          755Gi        12Gi       700Gi       2.0Gi        42Gi       738Gi\n", 755 * G, 738 * G),
        ("              total        used        free      shared  buff/cache   available\n"
         "Mem:      791687168    12000000   700000000      100000    79687168   770000000\n",
         791687168 << 10, 770000000 << 10),
        ("$ free -m\n              total        used        free      shared  buff/cache   available\n"
         "Mem:         773132       12000      700000         100       61132      750000\n",
         773132 << 20, 750000 << 20),
        ("             total       used       free     shared    buffers     cached\n"
         "Mem:           755        750          5          0          1        700\n"
         "-/+ buffers/cache:         49        706\nSwap:            0          0          0\n", 755 * G, 706 * G),
    ],
)  # fmt: skip
def test_free_of_old_and_new_tools(text, total, available):
    value = json.loads(from_text(text)["ask memory"])
    assert (value["total"], value["available"]) == (total, available)


def test_ulimit_tells_soft_limits_only():
    text = """\
real-time non-blocking time  (microseconds, -R) unlimited
core file size              (blocks, -c) 0
open files                          (-n) 1024
max locked memory       (kbytes, -l) 65536
max user processes                  (-u) unlimited
stack size              (kbytes, -s) 8192
"""
    assert json.loads(from_text(text)["ask limits"]) == {
        "core": [0, None], "nofile": [1024, None], "memlock": [64 << 20, None], "nproc": [-1, None],
        "stack": [8 << 20, None],
    }  # fmt: skip


def facts(text):
    out = {}
    for done in run(MemoryHost(from_text(text)), [*devices.PROBES, *system.PROBES]):
        out.update(done.facts)
    return out


def test_device_listings_answer_what_was_listed():
    text = "$ lspci | grep -i proc\n" + (SAMPLES / "lspci__910B__8cards.txt").read_text()
    assert facts(text)["npu.pci"].value["count"] == 8
    listing = (SAMPLES / "ls-l_dev__A2__host-8cards.txt").read_text()
    only = "".join(line for line in listing.splitlines(True) if "davinci" in line)
    found = facts("# ls -l /dev/davinci*\n" + only)["npu.nodes"].value
    assert len(found["devices"]) == 8
    assert found["unasked"] == ["svm", "hdc"]
    assert facts("ls: cannot access '/dev/davinci*': No such file or directory\n")["npu.nodes"].value["devices"] == []
    assert facts((SAMPLES / "lsmod__A2__loaded.txt").read_text())["npu.modules"].value["count"] == 17


def test_kernel_lines_answer_only_when_they_tell_of_something():
    line = "[Sat Nov 29 10:52:43 2026] Out of memory: Killed process 8123 (python)"
    assert from_text(f"$ dmesg -T | tail\n{line}\n")["run dmesg -T"].startswith("[Sat Nov")
    assert from_text("[Sat Nov 29 10:52:43 2026] eth0: link up\n") == {}
    assert from_text("[ERROR] x: Out of memory: Killed process 8123 (python)\n") == {}


@pytest.mark.parametrize(
    "text",
    ["", "loss: 1.0 [12/100] 5%\n" * 100, "Traceback (most recent call last):\n  File \"a.py\", line 1\n",
     "| NPU | OK |\n",
     "args: (-n) free 100%\n", "Filesystem is 90% full, Mounted on\n"],
)  # fmt: skip
def test_other_texts_answer_nothing(text):
    assert from_text(text) == {}


@given(st.text())
def test_junk_never_raises(text):
    for extra in ("", "Filesystem Size Used Avail Use% Mounted on\n", "   total   used   free\nMem: "):
        from_text(extra + text)


@pytest.mark.parametrize(
    "piece", ["(-n) ", "% Filesystem ", "free total used ", "Huawei 19e5:", "/dev/davinci0 ", "[1.0] kernel: "]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_five_megabytes_of_junk_are_read_in_linear_time(piece, end):
    text = (piece * 20 + end) * (5_000_000 // (20 * len(piece)))
    began = time.process_time()
    from_text(text)
    assert time.process_time() - began < 8


def test_nothing_pasted_leaves_everything_unknown():
    assert all(isinstance(fact, Unknown) for fact in facts("hello").values())
    assert os.path.isdir(SAMPLES)
