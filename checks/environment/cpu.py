"""ENV509, ENV510, ENV511, ENV521: processors, their clock, huge pages, core binding."""

from __future__ import annotations

from doctor.checks.environment.common import field, npu_here
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

PER_RANK = 5
"""CPUs per rank that vllm-ascend's binding guide asks for: interrupts, main, ACL, release, one to spare."""


def cpus_per_rank(cpu: Fact, nodes: Fact | Unknown, pci: Fact | Unknown, launch: Fact | Unknown) -> Answer:
    """Processors this process may use, divided by the ranks of this machine (the devices, if no launch tells)."""
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    usable = len(cpu.value["allowed"] or []) or cpu.value["count"]
    if not usable:
        return unknown("not_understood")
    if cpu.value["quota"] is not None:
        usable = min(usable, cpu.value["quota"])
    local = field(launch, "local_worker_num")
    ranks = local if isinstance(local, int) and local > 0 else len(field(nodes, "devices") or []) or field(pci, "count")
    if not ranks:
        return unknown("not_recorded")
    args = {"cpus": f"{usable:g}", "ranks": ranks, "each": f"{usable / ranks:.1f}"}
    return fail(args, cpu.evidence) if usable / ranks < PER_RANK else passed(args, cpu.evidence)


def governor(cpu: Fact, pci: Fact | Unknown, nodes: Fact | Unknown) -> Answer:
    """Frequency governors: powersave slows the launching of operators. Not visible in most virtual machines and
    containers."""
    here = npu_here(pci, nodes)
    if here is False:
        return not_applicable("no_npu")
    governors = cpu.value["governors"]
    if not governors:
        return unknown("not_visible")
    if here is None:
        return unknown("not_recorded")
    text = ", ".join(f"{name} × {count}" for name, count in sorted(governors.items()))
    seen = Evidence("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", 0, text)
    slow = governors.get("powersave", 0)
    args = {"slow": slow, "count": sum(governors.values()), "governors": text}
    return fail(args, seen) if slow else passed(args, seen)


def huge_pages(thp: Fact, pci: Fact | Unknown, nodes: Fact | Unknown) -> Answer:
    """Transparent huge pages: the driver's start script sets madvise; "always" means something set it back."""
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    args = {"enabled": thp.value["enabled"]}
    return fail(args, thp.evidence) if thp.value["enabled"] == "always" else passed(args, thp.evidence)


def binding_tools(tools: Fact, pci: Fact | Unknown, nodes: Fact | Unknown) -> Answer:
    """Tools that msrun --bind_core calls: lspci and lscpu; npu-smi, which it needs too, has its own rule."""
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    missing = sorted(name for name, state in tools.value.items() if state == "missing")
    if missing:
        return fail({"missing": missing}, *(Evidence(f"command -v {name}", 0, "not found") for name in missing))
    return passed({}, tools.evidence)
