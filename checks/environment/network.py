"""ENV519: the host's own name."""

from __future__ import annotations

import ipaddress

from doctor.checks.environment.common import npu_here, servers
from doctor.model import Answer, Fact, Unknown, fail, not_applicable, passed, unknown


def _loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def host_name(net: Fact, launch: Fact | Unknown, pci: Fact | Unknown, nodes_here: Fact | Unknown) -> Answer:
    """Whether the own name leads to an address that other servers can reach.

    For one server a loopback address does no harm, nor on a machine without an NPU (Debian writes 127.0.1.1 into
    /etc/hosts). While the number of servers is not known it is an advice.
    """
    nodes = servers(launch)
    if nodes == 1:
        return not_applicable("single_node")
    name = net.value["hostname"]
    if not name:
        return unknown("not_understood")
    found = (net.value["resolves"] or {}).get(name)
    state = (net.value["unresolved"] or {}).get(name)
    severity = "warning" if nodes else "advice"
    if found:
        args = {"name": name, "addresses": found}
        good = any(not _loopback(address) for address in found) or (nodes is None and not npu_here(pci, nodes_here))
        return passed(args, net.evidence) if good else fail(args, net.evidence, severity=severity)
    if state:
        return fail({"name": name, "addresses": state}, net.evidence, severity=severity)
    return unknown("not_recorded")
