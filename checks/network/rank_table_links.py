"""Rank tables: addresses, ports and superpods (HCCL512 to 515, 518 to 521). See ``rank_table``."""

from collections import Counter
from typing import Any

from doctor.checks.network.chips import address
from doctor.checks.network.rank_table import (
    Maybe,
    at,
    chip_of,
    here_in,
    listed,
    name_of,
    of_server,
    one_card_many_ports,
)
from doctor.model import Answer, Evidence, Fact, Verdict, fail, not_applicable, passed, unknown


def _variable(hccl: Maybe, name: str) -> str:
    """The value of an HCCL variable, "" where it is not set or not known."""
    return str(hccl.value["set"][name].value).strip() if isinstance(hccl, Fact) and name in hccl.value["set"] else ""


def _needs_addresses(value: Any, kind: str | None, hccl: Maybe) -> bool:
    """Must every device have an address? Over RoCE and on 910 and 310P always, inside one A2 server or superpod not."""
    if kind in ("910A", "310P") or _variable(hccl, "HCCL_INTER_HCCS_DISABLE").upper() == "TRUE":
        return True
    if value.form == "1.2":
        return len(value.pods) > 1
    return len(value.servers) > 1 and kind != "A3"


def addresses_usable(table: Fact, chips: Maybe, pci: Maybe, hccl: Maybe) -> Answer:
    """R12: ``device_ip`` is an address, no other device has it, it is neither loopback nor 0.0.0.0 nor "-1".

    "-1" is what the device plugin of mind-cluster writes when it could not read the address.
    """
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    times = Counter(d.device_ip for d in value.devices)
    shared = one_card_many_ports(value)
    needed = _needs_addresses(value, chip_of(value, chips, pci), hccl)
    bad: list[Any] = []
    why: list[str] = []
    for device in value.devices:
        text = device.device_ip
        parsed = address(text) if text else None
        if not text:
            if not needed:
                continue
            reason = "✗"
        elif parsed is None or parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast:
            reason = text[:60]
        elif times[text] > 1 and (device.server, device.device_id) not in shared:
            reason = f"{text} ×{times[text]}"
        else:
            continue
        bad.append(device)
        shown = device.rank_id if device.rank_id is not None else f"{name_of(value, device.server)}/{device.device_id}"
        why.append(f"{reason} (rank {shown})")
    if not bad:
        return passed({"devices": len(value.devices)})
    args = {"what": listed(why), "count": len(bad), "ip": bad[0].device_ip or "-"}
    return fail(args, *(at(value, d, "device_ip", d.device_ip) for d in bad[:3]))


def addresses_sound(table: Fact) -> bool:
    """Are the addresses of the table right by themselves?"""
    return addresses_usable(table, None, None, None).verdict is not Verdict.FAIL


def addresses_as_configured(table: Fact, conf: Maybe, live: Maybe, net: Maybe) -> Answer:
    """R13: on this host ``device_ip`` of device i is ``address_i`` of hccn.conf and of ``hccn_tool -i i -ip -g``."""
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    configured: dict[int, tuple[str, Evidence | None]] = {}
    if isinstance(conf, Fact):
        for number, members in conf.value.devices.items():
            if members.get("address"):
                line = conf.value.lines.get(f"address_{number}", 0)
                text = f"address_{number}={members['address']}"
                configured[int(number)] = (members["address"], Evidence("/etc/hccn.conf", line, text))
    if isinstance(live, Fact):
        for number, ip in live.value.items():
            if getattr(ip, "address", ""):
                configured[int(number)] = (ip.address, getattr(ip, "seen", None))
    if not configured:
        return unknown("no_device_addresses", "read_hccn_conf")
    here = here_in(value, net)
    known = {ip for ip, _ in configured.values()}
    groups = of_server(value)
    if here is None:
        here = next((i for i, g in enumerate(groups) if sum(d.device_ip in known for d in g) * 2 > len(g)), None)
    if here is None:
        return unknown("host_not_in_table", "check_server_id")
    # what is no address is the business of R12
    compared = [d for d in groups[here] if address(d.device_ip) is not None and d.device_id in configured]
    wrong = [d for d in compared if configured[d.device_id][0] != d.device_ip]
    if not wrong:
        return passed({"server": name_of(value, here), "devices": len(groups[here])})
    first = wrong[0]
    real, seen = configured[first.device_id]
    args = {"device": first.device_id, "ip": first.device_ip, "real": real, "count": len(wrong)}
    return fail(args, at(value, first, "device_ip", first.device_ip), seen)


def one_address_family(table: Fact) -> Answer:
    """R14: device addresses are all IPv4 or all IPv6 (EI0001 otherwise)."""
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    first: dict[int, tuple[Any, str, str]] = {}
    for device in value.devices:
        for key in ("device_ip", "backup_device_ip"):
            text = getattr(device, key)
            parsed = address(text) if text else None
            if parsed is not None:
                first.setdefault(parsed.version, (device, key, text))
    if len(first) < 2:
        return passed({}) if first else not_applicable("not_set", name="device_ip", what="device_ip")
    return fail({"four": first[4][2], "six": first[6][2]}, *(at(value, *first[v]) for v in (4, 6)))


def ports_valid(table: Fact) -> Answer:
    """R15: ports lie in 1 … 65535, better not below 1024, and two servers of one host do not share ``host_port``."""
    value = table.value
    bad: list[tuple[Any, str, Any]] = []
    low: list[tuple[Any, str, Any]] = []
    any_port = False
    for thing in (*value.devices, *value.servers):
        for key in ("device_port", "backup_device_port", "host_port"):
            if key not in thing.lines:
                continue
            any_port = True
            number = getattr(thing, key, None)
            if number is None or not 1 <= number <= 65535:
                bad.append((thing, key, thing.odd.get(key, number)))
            elif number <= 1023:
                low.append((thing, key, number))
    doubles = Counter((s.host_ip, s.host_port) for s in value.servers if s.host_ip and s.host_port)
    twice = [(s, "host_port", s.host_port) for s in value.servers if doubles[(s.host_ip, s.host_port)] > 1]
    found = bad or twice or low
    if not found:
        return passed({}) if any_port else not_applicable("not_set", name="device_port", what="device_port")
    thing, key, number = found[0]
    args = {"key": key, "port": number, "count": len(found), "twice": "×2" if found is twice else ""}
    seen = [at(value, t, k, n) for t, k, n in found[:3]]
    return fail(args, *seen, severity="warning" if found is low else None)


def _not_superpod(value: Any) -> Answer | None:
    return None if value.form == "1.2" else not_applicable("rank_table_form", form=value.form)


def _pod_of(value: Any) -> dict[str, str]:
    return {server: pod.super_pod_id for pod in value.pods for server in pod.servers}


def super_device_ids(table: Fact, spod: Maybe, net: Maybe) -> Answer:
    """R18: ``super_device_id`` is there, once per superpod, and on this host equals the SDID of npu-smi."""
    value = table.value
    if (other := _not_superpod(value)) is not None:
        return other
    pods = _pod_of(value)
    key_of = {id(d): (pods.get(value.servers[d.server].server_id), d.super_device_id) for d in value.devices}
    times = Counter(key_of[id(d)] for d in value.devices)
    bad = [d for d in value.devices if not d.super_device_id or times[key_of[id(d)]] > 1]
    if bad:
        shown = [f"{d.super_device_id or '✗'} (rank {d.rank_id})" for d in bad]
        return fail({"what": listed(shown), "count": len(bad)},
                    *(at(value, d, "super_device_id", d.super_device_id) for d in bad[:3]))  # fmt: skip
    here = here_in(value, net)
    rows = spod.value if isinstance(spod, Fact) and isinstance(spod.value, list) else []
    real = {str(row["sdid"]): row for row in rows if isinstance(row, dict) and row.get("sdid") is not None}
    if here is not None and real:
        wrong = [d for d in of_server(value)[here] if d.super_device_id not in real]
        if wrong:
            seen = next(iter(real.values())).get("seen")
            shown = [f"{d.super_device_id} ✗ (rank {d.rank_id})" for d in wrong]
            return fail({"what": listed(shown), "count": len(wrong)},
                        at(value, wrong[0], "super_device_id", wrong[0].super_device_id),
                        seen if isinstance(seen, Evidence) else None)  # fmt: skip
    return passed({"devices": len(value.devices)})


def servers_in_one_superpod(table: Fact) -> Answer:
    """R19: every server is in exactly one superpod, no superpod names another one, its servers' ranks form a block."""
    value = table.value
    if (other := _not_superpod(value)) is not None:
        return other
    names = {server.server_id for server in value.servers}
    times = Counter(server for pod in value.pods for server in pod.servers)
    strange = [
        (pod, s, line)
        for pod in value.pods
        for s, line in zip(pod.servers, pod.server_lines, strict=True)
        if s not in names
    ]
    outside = [s for s in value.servers if times[s.server_id] != 1]
    if strange or (outside and not strange):
        shown = [f"{s or '-'} (super_pod {pod.super_pod_id or '-'})" for pod, s, _ in strange]
        shown += [f"{s.server_id or '-'} ×{times[s.server_id]}" for s in outside]
        seen = [Evidence(value.source, line, f'"server_id"{value.gap}"{s}"') for _, s, line in strange[:2]]
        return fail({"what": listed(shown)}, *seen, *(at(value, s, "server_id", s.server_id) for s in outside[:2]))
    pods = _pod_of(value)
    finished: set[str] = set()
    previous: str | None = None
    for device in sorted((d for d in value.devices if d.rank_id is not None), key=lambda d: d.rank_id):
        pod = pods[value.servers[device.server].server_id]
        if pod != previous:
            if pod in finished:
                return fail(
                    {"what": f"super_pod {pod} (rank {device.rank_id})"}, at(value, device, "rank_id", device.rank_id)
                )
            if previous is not None:
                finished.add(previous)
            previous = pod
    return passed({"pods": len(value.pods)})


def superpods_are_physical(table: Fact, spod: Maybe) -> Answer:
    """R20: cards of different physical superpods never share a ``super_pod_id``. One node sees only its own."""
    value = table.value
    if (other := _not_superpod(value)) is not None:
        return other
    if all(len(pod.servers) < 2 for pod in value.pods):
        return passed({"pods": len(value.pods)})
    rows = spod.value if isinstance(spod, Fact) and isinstance(spod.value, list) else []
    sizes = [(row["size"], row.get("seen")) for row in rows if isinstance(row, dict) and row.get("size")]
    if sizes:
        # more devices than a physical superpod of this kind has
        size, seen = max(sizes, key=lambda pair: pair[0])
        counts = {server.server_id: server.devices for server in value.servers}
        for pod in value.pods:
            devices = sum(counts.get(server, 0) for server in pod.servers)
            if devices > size:
                return fail({"pod": pod.super_pod_id, "devices": devices, "size": size},
                            at(value, pod, "super_pod_id", pod.super_pod_id),
                            seen if isinstance(seen, Evidence) else None)  # fmt: skip
    return unknown("one_node_only", "compare_spod", path=value.source, hash=value.digest)


def backup_addresses(table: Fact, hccl: Maybe) -> Answer:
    """R21: ``backup_device_ip`` is the address of the other die of the same NPU; level L2 of op retry needs it."""
    value = table.value
    if (other := _not_superpod(value)) is not None:
        return other
    wanted = "L2:1" in _variable(hccl, "HCCL_OP_RETRY_ENABLE").replace(" ", "")
    having = [d for d in value.devices if d.backup_device_ip]
    if not having and not wanted:
        return not_applicable("not_set", name="backup_device_ip", what="backup_device_ip")
    by_place = {(d.server, d.device_id): d for d in value.devices}
    bad: list[tuple[Any, str]] = []
    for device in value.devices:
        if device.device_id is None:
            continue
        twin = by_place.get((device.server, device.device_id ^ 1))
        if not device.backup_device_ip:
            if wanted:
                bad.append((device, "✗"))
        elif twin is not None and twin.device_ip and device.backup_device_ip != twin.device_ip:
            bad.append((device, f"{device.backup_device_ip} ≠ {twin.device_ip}"))
    if not bad:
        return passed({"devices": len(having)})
    shown = [f"{text} (rank {d.rank_id})" for d, text in bad]
    return fail({"what": listed(shown), "count": len(bad)},
                *(at(value, d, "backup_device_ip", d.backup_device_ip) for d, _ in bad[:3]))  # fmt: skip
