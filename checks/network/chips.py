"""Which family of chips a host has, from whatever is known of it; and the addresses that are its own."""

import re
from typing import Any

from doctor.model import Fact, Unknown

_A2 = re.compile(r"910B\d")
_TYPE = re.compile(r"A[23]\b")


def family_of(name: str) -> str | None:
    """The family of a chip name as npu-smi prints it; "910B" alone is of the first generation.

    >>> family_of("910B3"), family_of("910B"), family_of("Ascend910")
    ('A2', '910A', 'A3')

    Source: the chip name table of hicann/driver npu_common.c and its pci ids in specific_func.inc.
    """
    plain = name.strip().removeprefix("Ascend ")
    if _A2.match(plain):
        return "A2"
    if plain.startswith(("910A", "910Pro", "910Premium")) or plain == "910B":
        return "910A"
    if plain.startswith(("Ascend910", "910_93", "Ascend910_93")):
        return "A3"
    if plain.startswith(("310P", "310")):
        return "310P" if plain.startswith("310P") else "310"
    return "950" if "950" in plain else None


def family(table: Fact | Unknown | None = None, pci: Fact | Unknown | None = None) -> str | None:
    """910A · A2 · A3 · 950 · 310P · 310, None where it cannot be told or differs between devices."""
    found: set[str] = set()
    if isinstance(table, Fact):
        found = {kind for chip in table.value if (kind := family_of(str(chip.get("name", ""))))}
    if not found and isinstance(pci, Fact):
        found = {str(device["family"]) for device in pci.value.get("devices", ()) if device.get("family")}
    return found.pop() if len(found) == 1 else None


def family_of_type(text: str) -> str | None:
    """The family in a hardware type as mind-cluster writes it: ``800I-A2-64G``."""
    match = _TYPE.search(text)
    return match.group() if match else None


def chip_count(table: Fact | Unknown | None) -> int | None:
    """How many devices npu-smi lists."""
    return len(table.value) or None if isinstance(table, Fact) else None


def no_npu(pci: Fact | Unknown | None) -> bool:
    """Is it known that this host has no NPU?"""
    if isinstance(pci, Unknown):
        return not pci.applies
    return isinstance(pci, Fact) and pci.value.get("count") == 0


def own_addresses(net: Fact | Unknown | None) -> set[str]:
    """Addresses of this host's interfaces, without loopback."""
    if not isinstance(net, Fact) or not isinstance(net.value, dict):
        return set()
    found = {str(a) for addresses in (net.value.get("interfaces") or {}).values() for a in addresses}
    return {address for address in found if not address.startswith("127.") and address != "::1"}


def device_nodes(nodes: Fact | Unknown | None) -> set[int]:
    """Numbers N of the files /dev/davinciN that exist here."""
    return {int(row["number"]) for row in nodes.value["devices"]} if isinstance(nodes, Fact) else set()


def address(text: str) -> Any:
    """The address object of a text, None if it is no address."""
    import ipaddress

    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
