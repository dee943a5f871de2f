"""ENV501, ENV502, ENV517, ENV518: memory of the host, shared memory, limits of the cgroup."""

from __future__ import annotations

from doctor.checks.environment.common import GIB, MIB, field, inside_container, npu_here, size
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed, unknown

IMPORT = GIB
"""Below this not even one process starts: importing MindSpore takes 0.5 GB (measured, 2.10.0 on CPU)."""
SHARE, ENOUGH = 0.1, 16 * GIB
DOCKER_SHM = 64 * MIB
SMALL_SHM = GIB


def free_memory(memory: Fact, pci: Fact | Unknown) -> Answer:
    """Memory that a new process may take: what the kernel calls available, or less where the cgroup has a limit.

    Warning below 1 GiB, or where not the rank of every NPU could import MindSpore. Advice below a tenth of all and
    16 GiB, for which there is no source but experience.
    """
    available, total = memory.value["available"], memory.value["total"]
    limit, used = memory.value["cgroup_limit"], memory.value["cgroup_used"]
    if available is None or not total:
        return unknown("not_understood")
    if limit is not None and used is not None and limit - used < available:
        available, total = max(0, limit - used), limit
    swap = (memory.value["swap_total"] or 0) - (memory.value["swap_free"] or 0)
    args = {"available": size(available), "total": size(total), "swap": size(swap)}
    ranks = pci.value["count"] if isinstance(pci, Fact) else 0
    if available < max(IMPORT, ranks * IMPORT // 2):
        return fail(args, memory.evidence)
    if available < SHARE * total and available < ENOUGH:
        return fail(args, memory.evidence, severity="advice")
    return passed(args, memory.evidence)


def shared_memory(shm: Fact, container: Fact | Unknown) -> Answer:
    """Room of /dev/shm, through which worker processes of the data pipeline hand over their samples.

    A warning where it is docker's default of 64 MiB, or nearly full; below 1 GiB in a container an advice. On a host
    the size is half of the memory and no concern.
    """
    total, free = shm.value["size"], shm.value["available"]
    if not shm.value["exists"] or total is None or free is None:
        return unknown("no_file", path="/dev/shm")  # noqa: S108 - a name, nothing is written
    args = {"size": size(total), "available": size(free)}
    inside = inside_container(container)
    if total > DOCKER_SHM and free < DOCKER_SHM:
        return fail(args, shm.evidence)
    # a paste does not say where it was taken, and no host has so little
    if total <= DOCKER_SHM and (inside or isinstance(container, Unknown)):
        return fail(args, shm.evidence)
    if inside and total < SMALL_SHM:
        return fail(args, shm.evidence, severity="advice")
    return passed(args, shm.evidence)


def kernel_memory_settings(memory: Fact, cpu: Fact | Unknown, pci: Fact | Unknown, nodes: Fact | Unknown) -> Answer:
    """NUMA balancing on a machine with several nodes, and swapping that begins early while there is swap.

    Only information: both are advised for machines that train (vllm-ascend tuning guide 4.2 and 4.3).
    """
    here = npu_here(pci, nodes)
    if not here:
        return not_applicable("no_npu") if here is False else unknown("not_recorded")
    balancing, swappiness = memory.value["numa_balancing"], memory.value["swappiness"]
    if balancing is None and swappiness is None:
        return unknown("not_visible")
    args = {"balancing": balancing, "swappiness": swappiness}
    seen = [
        Evidence(f"sysctl {name}", 0, f"{name} = {value}")
        for name, value in (("kernel.numa_balancing", balancing), ("vm.swappiness", swappiness))
        if value is not None
    ]
    moves = bool(balancing) and len(field(cpu, "numa") or {}) > 1
    swaps = swappiness is not None and swappiness > 10 and bool(memory.value["swap_total"])
    return fail(args, *seen) if moves or swaps else passed(args, *seen)


def cgroup_limits(memory: Fact, cpu: Fact | Unknown) -> list[Answer] | Answer:
    """Limits that a container, a job or a systemd slice sets on memory and processors.

    Memory used to more than nine tenths of its limit is a warning: the next allocation is killed, not refused. A quota
    of less than half of the processors seen is an advice, since thread pools are sized by what is seen.
    """
    limit, used = memory.value["cgroup_limit"], memory.value["cgroup_used"]
    total = memory.value["total"]
    found = []
    if limit is not None and used is not None and total and limit < total and used > 0.9 * limit:
        seen = Evidence("/sys/fs/cgroup", 0, f"memory limit {size(limit)}, used {size(used)}")
        args = {"what": "memory", "limit": size(limit), "used": size(used), "held": size(used)}
        found.append(fail(args, seen))
    quota, allowed = field(cpu, "quota"), len(field(cpu, "allowed") or []) or field(cpu, "count")
    if quota is not None and allowed and quota < allowed / 2:
        seen = Evidence("/sys/fs/cgroup", 0, f"CPU quota {quota:g}, {allowed} CPUs seen")
        args = {"what": "CPU", "limit": f"{quota:g}", "used": str(allowed), "seen": str(allowed)}
        found.append(fail(args, seen, severity="advice"))
    args = {"limit": size(limit) if limit is not None else "-", "quota": f"{quota:g}" if quota is not None else "-"}
    return found or passed(args, memory.evidence)
