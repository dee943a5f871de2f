"""What several checks of the machine ask of the facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from doctor.model import Fact, Unknown

MIB, GIB = 1 << 20, 1 << 30


def known(fact: Fact | Unknown | None) -> Any:
    """The value of a fact, None of an unknown one."""
    return fact.value if isinstance(fact, Fact) else None


def field(fact: Fact | Unknown | None, name: str) -> Any:
    """One field of a fact that is a table or a named tuple, None where it or the fact is not known."""
    value = known(fact)
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def npu_here(pci: Fact | Unknown | None, nodes: Fact | Unknown | None) -> bool | None:
    """Whether this machine has an NPU: on the PCI bus or as a device file. None when neither could be looked at."""
    if field(pci, "count") or field(nodes, "devices"):
        return True
    return False if isinstance(pci, Fact) else None


def inside_container(container: Fact | Unknown | None) -> bool | None:
    inside = field(container, "inside")
    return inside if isinstance(inside, bool) else None


def servers(launch: Fact | Unknown | None) -> int | None:
    """Servers of the run, None while nothing tells it."""
    nodes = field(launch, "nodes")
    return nodes if isinstance(nodes, int) and not isinstance(nodes, bool) and nodes > 0 else None


def size(number: float | None) -> str:
    """Bytes as people write them.

    >>> size(64 * MIB), size(1.5 * GIB), size(None)
    ('64 MiB', '1.5 GiB', '?')
    """
    if number is None:
        return "?"
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"
