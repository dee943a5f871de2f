"""Checks of the host: what passes, what fails and how badly, what cannot be told and why.

Each row is a small host made of texts; the rule's own check judges it through the probes it needs.
"""

import json
from functools import lru_cache
from pathlib import Path

import pytest

from doctor import checkup
from doctor.checks.environment import kernel_log, network
from doctor.hosts.base import MemoryHost
from doctor.model import Fact, Raw, Unknown, Verdict
from doctor.probes.kernel_log import parse_kernel_log
from doctor.rulebase import load as load_rules

SAMPLES = Path(__file__).parents[3] / "fixtures/hosts/samples"
G, M = 1 << 30, 1 << 20

A2 = {
    "run lspci -d 19e5:": (SAMPLES / "lspci__910B__8cards.txt").read_text(),
    "look /dev/davinci*": (SAMPLES / "ls-l_dev__A2__host-8cards.txt").read_text(),
}
FOLDER = [{"path": "x", "kind": "dir"}]
NO_NPU = {"ask pci": {"total": 40, "devices": []}}
CONTAINER = {"look /.dockerenv": [{"path": "/.dockerenv"}]}


@lru_cache(maxsize=1)
def base():
    return load_rules()


def judged(rule, raws, absent=True):
    """(verdict, severity if it fails, reason) of the worst finding of one rule."""
    texts = {key: value if isinstance(value, (str, Raw)) else json.dumps(value) for key, value in raws.items()}
    spec = next(spec for spec in checkup.specs(base()) if spec.rule.id == rule)
    findings = checkup.judge_alone(spec, MemoryHost(texts, absent=absent))
    worst = min(findings, key=lambda f: ("error", "warning", "advice").index(f.severity))
    return worst.verdict.value, worst.severity if worst.verdict is Verdict.FAIL else "", worst


def memory(**more):
    return {"ask memory": {"total": 755 * G, "available": 700 * G, "swap_total": 0, "swap_free": 0, **more}}


def pci(device, width):
    row = {"bus": "0000:01:00.0", "device": device, "speed": 16.0, "width": width}
    return {"ask pci": {"total": 9, "devices": [row]}}


def disk(**more):
    row = {"use": "cwd", "path": "/data", "real": "/data", "state": "ok", "size": 900 * G, "available": 200 * G,
           "device": 1, "inodes": 10**6, "inodes_free": 9 * 10**5, "writable": True, "read_only": False}  # fmt: skip
    return {"ask disks": [{**row, **more}]}


def shm(size, available):
    return {"ask shm": {"exists": True, "size": size, "available": available}}


def log(*lines):
    return {"run dmesg -T": "\n".join(lines) + "\n"}


REFUSED = Raw("run dmesg", "ok", "", "dmesg: read kernel buffer failed: Operation not permitted", 1)
NO_DRIVER = {"file /proc/modules": "ext4 1 0 -\n"}
NINTH = A2["run lspci -d 19e5:"] + "da:00.0 Processing accelerators: Huawei Device d802"
OOM = "[Sat Nov 28 10:52:43 2026] Out of memory: Killed process 8123 (python)"
NOW = {"ask time": {"synchronised": True, "now": 1795860000.0, "offset": 0, "uptime": 864000.0}}
LATER = {"ask time": {"synchronised": True, "now": 1795860000.0 + 30 * 86400, "offset": 0, "uptime": 4e6}}

CASES = [
    # rule, host, verdict, severity or reason
    ("ENV501", memory(), "pass", ""),
    ("ENV501", memory(available=G // 2), "fail", "warning"),
    ("ENV501", memory(available=10 * G), "fail", "advice"),
    ("ENV501", memory(total=16 * G, available=3 * G), "pass", ""),
    ("ENV501", memory(cgroup_limit=64 * G, cgroup_used=64 * G - M), "fail", "warning"),
    ("ENV501", {"ask memory": {"total": "junk"}}, "unknown", "not_understood"),
    ("ENV501", {}, "unknown", "not_recorded"),
    ("ENV502", {**CONTAINER, **shm(64 * M, 64 * M)}, "fail", "warning"),
    ("ENV502", {**CONTAINER, **shm(512 * M, 500 * M)}, "fail", "advice"),
    ("ENV502", {**CONTAINER, **shm(32 * G, 32 * G)}, "pass", ""),
    ("ENV502", shm(64 * M, 64 * M), "pass", ""),
    ("ENV502", shm(32 * G, M), "fail", "warning"),
    ("ENV502", {"ask shm": {"exists": False}}, "unknown", "no_file"),
    ("ENV503", {**A2, "ask limits": {"nofile": [1024, 4096]}}, "fail", "warning"),
    ("ENV503", {**NO_NPU, "ask limits": {"nofile": [1024, 4096]}}, "fail", "advice"),
    ("ENV503", {**A2, "ask limits": {"nofile": [4096, 4096]}}, "pass", ""),
    ("ENV503", {**A2, "ask limits": {"nofile": [-1, -1]}}, "pass", ""),
    ("ENV503", {**A2, "ask limits": {}}, "unknown", "not_understood"),
    ("ENV504", {"ask limits": {"nproc": [4095, -1]}}, "fail", "advice"),
    ("ENV504", {"ask limits": {"nproc": [-1, -1], "pids_limit": 20000, "pids_used": 19999}}, "fail", "warning"),
    ("ENV504", {"ask limits": {"nproc": [-1, -1], "pids_limit": 20000, "pids_used": 9}}, "pass", ""),
    ("ENV504", {"ask limits": {}}, "unknown", "not_understood"),
    ("ENV505", {"ask limits": {"memlock": [0, 0]}}, "fail", "advice"),
    ("ENV505", {"ask limits": {"memlock": [65536, 65536]}}, "pass", ""),
    ("ENV505", {"ask limits": {}}, "unknown", "not_understood"),
    ("ENV506", {"ask limits": {"core": [-1, -1]}, **disk(available=20 * G), **memory()}, "fail", "advice"),
    ("ENV506", {"ask limits": {"core": [-1, -1]}}, "pass", ""),
    ("ENV506", {"ask limits": {}}, "unknown", "not_understood"),
    ("ENV507", disk(), "pass", ""),
    ("ENV507", disk(available=0), "fail", "error"),
    ("ENV507", disk(available=500 * M), "fail", "warning"),
    ("ENV507", disk(available=5 * G), "fail", "advice"),
    ("ENV507", disk(available=500 * M, size=900 * M), "pass", ""),
    ("ENV507", disk(available=50 * M, size=900 * M), "fail", "error"),
    ("ENV507", disk(available=0, read_only=True), "unknown", "not_visible"),
    ("ENV507", disk(state="timeout"), "unknown", "not_visible"),
    ("ENV508", disk(inodes_free=0), "fail", "error"),
    ("ENV508", disk(inodes_free=9999), "fail", "warning"),
    ("ENV508", disk(inodes=10**8, inodes_free=10**5), "fail", "advice"),
    ("ENV508", disk(), "pass", ""),
    ("ENV508", disk(inodes=None, inodes_free=None), "unknown", "not_visible"),
    ("ENV509", {**A2, "ask cpu": {"count": 39}}, "fail", "advice"),
    ("ENV509", {**A2, "ask cpu": {"count": 40}}, "pass", ""),
    ("ENV509", {**A2, "ask cpu": {"count": 192, "quota": 16.0}}, "fail", "advice"),
    ("ENV509", {**NO_NPU, "ask cpu": {"count": 1}}, "not_applicable", "no_npu"),
    ("ENV509", {"ask cpu": {"count": 1}}, "unknown", "not_recorded"),
    ("ENV510", {**A2, "ask cpu": {"governors": {"powersave": 3, "performance": 1}}}, "fail", "warning"),
    ("ENV510", {**A2, "ask cpu": {"governors": {"performance": 4}}}, "pass", ""),
    ("ENV510", {**A2, "ask cpu": {}}, "unknown", "not_visible"),
    ("ENV510", {**NO_NPU, "ask cpu": {"governors": {"powersave": 3}}}, "not_applicable", "no_npu"),
    ("ENV511", {**NO_NPU, "file /sys/kernel/mm/transparent_hugepage/enabled": "[always]"}, "not_applicable", "no_npu"),
    ("ENV511", A2, "unknown", "no_file"),
    ("ENV512", {"ask time": {"synchronised": True}}, "pass", ""),
    ("ENV512", {"ask time": {"synchronised": False}}, "fail", "advice"),
    ("ENV512", {}, "unknown", "not_recorded"),
    ("ENV513", {"ask env": {"LC_ALL": "zh_CN.GB18030"}}, "fail", "advice"),
    ("ENV513", {"ask env": {"LANG": "C.UTF-8"}}, "pass", ""),
    ("ENV513", {}, "unknown", "not_recorded"),
    ("ENV514", {**log(OOM), **NOW}, "fail", "warning"),
    ("ENV514", {**log(OOM), **LATER}, "fail", "advice"),
    ("ENV514", log(OOM.replace("python", "java")), "fail", "advice"),
    ("ENV514", memory(oom_kills=2), "fail", "warning"),
    ("ENV514", {**log("[1.0] Linux"), **memory(oom_kills=0)}, "pass", ""),
    ("ENV514", memory(oom_kills=0), "unknown", "no_tool"),
    ("ENV514", {"run dmesg": REFUSED}, "unknown", "needs_root"),
    ("ENV515", log(*["[9.1] pcieport 0000:00:1c.0: AER: Corrected error received"] * 10), "fail", "advice"),
    ("ENV515", log(*["[9.1] pcieport 0000:00:1c.0: AER: Corrected error received"] * 9), "pass", ""),
    ("ENV515", log("[9.1] pcieport 0000:80:02.0: PCIe Bus Error: severity=Uncorrected (Fatal)"), "fail", "warning"),
    ("ENV515", {}, "unknown", "no_tool"),
    ("ENV516", {**A2, **log("[9.1] Heartbeat lost (device=1)")}, "fail", "warning"),
    ("ENV516", {**A2, **log("[9.1] [ascend] [ERROR] [devdrv] [f 1] x")}, "fail", "advice"),
    ("ENV516", {**A2, **log("[9.1] ok")}, "pass", ""),
    ("ENV516", {**NO_NPU, **log("[9.1] ok")}, "not_applicable", "no_npu"),
    ("ENV517", {**A2, **memory(swappiness=60, swap_total=G)}, "fail", "advice"),
    ("ENV517", {**A2, **memory(swappiness=60)}, "pass", ""),
    ("ENV517", {**A2, **memory()}, "unknown", "not_visible"),
    ("ENV518", memory(cgroup_limit=10 * G, cgroup_used=9.5 * G), "pass", ""),  # a fraction is no number of bytes
    ("ENV518", memory(cgroup_limit=10 * G, cgroup_used=10 * G - 1), "fail", "warning"),
    ("ENV518", {**memory(), "ask cpu": {"count": 8, "quota": 2.0}}, "fail", "advice"),
    ("ENV518", memory(), "pass", ""),
    ("ENV519", {**A2, "ask net": {"hostname": "n", "resolves": {"n": ["127.0.0.1", "::1"]}}}, "fail", "advice"),
    ("ENV519", {**NO_NPU, "ask net": {"hostname": "n", "resolves": {"n": ["127.0.1.1"]}}}, "pass", ""),
    ("ENV519", {"ask net": {"hostname": "n", "unresolved": {"n": "timeout"}}}, "fail", "advice"),
    ("ENV519", {"ask net": {"hostname": "n", "resolves": {"n": ["198.51.100.1"]}}}, "pass", ""),
    ("ENV519", {"ask net": {"hostname": "n"}}, "unknown", "not_recorded"),
    ("ENV520", {**NO_NPU, "ask system": {"kernel": "5.10"}}, "not_applicable", "no_npu"),
    ("ENV520", {**A2, **NO_DRIVER, "ask system": {"kernel": "5.10"}}, "unknown", "no_file"),
    ("ENV520", {**CONTAINER, **A2, **NO_DRIVER, "ask system": {}}, "not_applicable", "in_container"),
    ("ENV521", {**A2, "run lscpu": "x"}, "pass", ""),
    ("ENV521", A2, "fail", "advice"),
    ("ENV521", {**NO_NPU}, "not_applicable", "no_npu"),
    ("ENV522", disk(state="timeout"), "fail", "warning"),
    ("ENV522", disk(), "pass", ""),
    ("ENV522", {}, "unknown", "not_recorded"),
    ("ENV523", pci("d802", 4), "fail", "advice"),
    ("ENV523", pci("d500", 4), "fail", "warning"),
    ("ENV523", pci("d500", 8), "pass", ""),
    ("ENV523", A2, "unknown", "not_visible"),
    ("ENV523", NO_NPU, "not_applicable", "no_npu"),
    ("ENV524", log("[1.0] Buffer I/O error on dev sda1"), "fail", "warning"),
    ("ENV524", log("[1.0] ok"), "pass", ""),
    ("ENV525", log("[1.0] INFO: task a:1 blocked for more than 120 seconds."), "fail", "warning"),
    ("ENV526", log("[1.0] EDAC MC0: 1 UE x"), "fail", "warning"),
    ("ENV527", {**A2, **disk(writable=False)}, "fail", "warning"),
    ("ENV527", {**NO_NPU, **disk(writable=False)}, "fail", "advice"),
    ("ENV527", disk(), "pass", ""),
    ("ENV527", disk(writable=None), "unknown", "not_visible"),
    ("NPU502", A2, "pass", ""),
    ("NPU502", {"run lspci": A2["run lspci -d 19e5:"]}, "fail", "error"),
    ("NPU502", {**A2, "run lspci -d 19e5:": NINTH}, "fail", "warning"),
    ("NPU502", NO_NPU, "not_applicable", "no_npu"),
    ("NPU502", {}, "unknown", "not_recorded"),
    ("NPU503", {**A2, "ask user": {"user": "a", "uid": 9, "groups": []}, "ask system": {}}, "fail", "error"),
    ("NPU503", {**A2, "ask user": {"user": "a", "uid": 0, "root": True}, "ask system": {}}, "pass", ""),
    ("NPU503", A2, "unknown", "not_recorded"),
    ("NPU503", {}, "not_applicable", "no_npu"),
    ("NPU504", {"run lspci": A2["run lspci -d 19e5:"]}, "fail", "error"),
    ("NPU504", {**A2, "file /etc/ascend_install.info": "Driver_Install_Mode=normal\n"}, "fail", "warning"),
    ("NPU504", {**A2, "file /etc/ascend_install.info": "Driver_Install_Status=complete\n"}, "pass", ""),
    ("NPU504", {**A2, "file /etc/ascend_install.info": Raw("", "denied")}, "unknown", "denied"),
    ("NPU504", A2, "unknown", "no_file"),
    ("NPU504", CONTAINER, "not_applicable", "in_container"),
    ("NPU514", A2, "not_applicable", "not_container"),
    ("NPU514", {**CONTAINER, **A2}, "fail", "error"),
    ("NPU514", {**CONTAINER, **NO_NPU}, "not_applicable", "no_npu"),
    ("NPU514", CONTAINER, "unknown", "not_recorded"),
    ("NPU514", {**CONTAINER, "run lspci": A2["run lspci -d 19e5:"]}, "fail", "error"),
    ("NPU514", {**CONTAINER, **A2, "look /usr/local/Ascend/driver/lib64": FOLDER}, "fail", "warning"),
    ("NPU520", {**A2, "file /proc/modules": "ext4 1 0 -\n"}, "pass", ""),
    ("NPU520", {"run lspci": A2["run lspci -d 19e5:"], "file /proc/modules": "ext4 1 0 -\n"}, "fail", "error"),
    ("NPU520", {"run lspci": A2["run lspci -d 19e5:"]}, "unknown", "no_tool"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "raws", "verdict", "word"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_case(rule, raws, verdict, word):
    got, severity, finding = judged(rule, raws)
    assert got == verdict, (finding.args, finding.why)
    if verdict == "fail":
        assert severity == word
        assert finding.evidence
    elif word:
        from doctor.i18n import texts

        assert finding.why["en"].startswith(texts("en")[f"why.{word}"].partition("{")[0])


def test_every_rule_of_the_host_has_passing_failing_and_other_cases():
    seen = {}
    for rule, _, verdict, _ in CASES:
        seen.setdefault(rule, set()).add(verdict)
    short = {"ENV520", "ENV511", "ENV524", "ENV525", "ENV526", "NPU514"}  # the rest stands in their rules' examples
    assert {rule for rule, verdicts in seen.items() if not {"pass", "fail"} <= verdicts} <= short
    assert {rule for rule, v in seen.items() if not v & {"unknown", "not_applicable"}} <= {*short, "ENV518"}


def test_an_ordinary_machine_gives_no_error_and_no_warning():
    """A laptop: 1024 open files, powersave, loopback name, unsynchronised clock, no NPU, an old java OOM kill."""
    raws = {
        **NO_NPU, **memory(total=16 * G, available=6 * G, swappiness=60, swap_total=G, numa_balancing=1), **disk(),
        **shm(8 * G, 8 * G), "ask limits": {"nofile": [1024, 1048576], "nproc": [60000, 60000], "core": [0, -1],
                                            "memlock": [65536, 65536]},
        "ask cpu": {"count": 8, "allowed": list(range(8)), "governors": {"powersave": 8}},
        "ask net": {"hostname": "laptop", "resolves": {"laptop": ["127.0.1.1"]}}, "ask time": {"synchronised": False},
        "ask env": {"LANG": "de_DE.UTF-8"}, **log("[1.0] x", OOM.replace("python", "java")),
        "file /sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never",
    }  # fmt: skip
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in raws.items()}
    report = checkup.check(MemoryHost(texts, absent=True), checkup.Options(only=("env", "npu")), base())
    assert [(f.id, f.severity) for f in report.findings if f.verdict is Verdict.FAIL and f.severity != "advice"] == []
    assert [f.id for f in report.findings if f.verdict is Verdict.CRASH] == []


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[Sat Nov 28 10:00:00 2026] Heartbeat lost", 3600.0),
        ("2026-11-28T10:00:00,1+00:00 Heartbeat lost", 3600.0),
        ("[100.0] Heartbeat lost", 900.0),
        ("Nov 28 10:00:00 node0 kernel: Heartbeat lost", None),
        ("Heartbeat lost", None),
    ],
)
def test_how_long_ago_a_kernel_line_was(line, seconds):
    event = parse_kernel_log(line)["events"][0]
    now = Fact("host.time", {"now": 1795863600.0, "offset": 0, "uptime": 1000.0})
    assert kernel_log.age(event, now) == seconds
    assert kernel_log.age(event, Unknown("host.time", "not_recorded")) is None


def test_several_servers_make_a_loopback_name_a_warning():
    net = Fact("host.net", {"hostname": "n", "resolves": {"n": ["127.0.1.1"]}, "unresolved": {}})
    gone = Unknown("npu.pci", "not_recorded")
    assert network.host_name(net, Fact("launch.settings", {"nodes": 2}), gone, gone).severity == "warning"
    one = network.host_name(net, Fact("launch.settings", {"nodes": 1}), gone, gone)
    assert one.verdict is Verdict.NOT_APPLICABLE
