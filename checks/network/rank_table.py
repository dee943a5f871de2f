"""Rank tables: the file, its frame, ranks and devices (HCCL501 to 511, 516, 517, 522 to 526).

Source of the rules: hicann/hccl docs/zh/user_guide/cluster_info_config (rank_table_config_910, _a2, _a3, _300i_duo)
and fault_diagnosis; mindspore-ai/docs tutorials/parallel/rank_table; Ascend/mind-cluster hccl.json description.
Every function takes the normal form of ``doctor.probes.rank_table``. Where the chip is not known, the laxest reading
of a rule counts.
"""

import re
from collections import Counter
from itertools import pairwise
from typing import Any

from doctor.checks.network.chips import device_nodes, family, family_of_type, own_addresses
from doctor.model import Answer, Evidence, Fact, Unknown, Verdict, fail, not_applicable, passed, unknown

SHOWN = 8
"""How many ids a finding lists."""

Maybe = Fact | Unknown | None


def at(table: Any, thing: Any, key: str = "", value: Any = None) -> Evidence:
    """The member ``key`` of a device, server or the table as evidence, or the object as a whole where it is absent."""
    line = thing.lines.get(key, 0)
    if not line:
        return Evidence(table.source, getattr(thing, "line", 0), f'(no "{key}")' if key else "")
    shown = value if isinstance(value, int) and key in getattr(thing, "numeric", ()) else f'"{value}"'
    return Evidence(table.source, line, f'"{key}"{table.gap}{shown}')


def listed(items: Any) -> str:
    """The first ids of a longer list and how many more there are: ``3, 7, 9 +5``."""
    items = list(items)
    more = len(items) - SHOWN
    return ", ".join(str(item) for item in items[:SHOWN]) + (f" +{more}" if more > 0 else "")


def chip_of(value: Any, chips: Maybe, pci: Maybe) -> str | None:
    """The family the table is for: what it says itself, else the chips of this host."""
    for server in value.servers:
        if server.hardware_type and (kind := family_of_type(server.hardware_type)):
            return kind
    return family(chips, pci)


def of_server(value: Any) -> list[list[Any]]:
    """The devices of each server, in the table's order."""
    groups: list[list[Any]] = [[] for _ in value.servers]
    for device in value.devices:
        groups[device.server].append(device)
    return groups


def name_of(value: Any, server: int) -> str:
    """A server's id, else its place in the list."""
    return value.servers[server].server_id or f"#{server}"


def one_card_many_ports(value: Any) -> set[tuple[int, int | None]]:
    """(server, device_id) of the cards that several ranks share, told apart by their ports."""
    groups: dict[tuple[int, int | None], list[Any]] = {}
    for device in value.devices:
        groups.setdefault((device.server, device.device_id), []).append(device.device_port)
    return {card for card, ports in groups.items() if len(ports) > 1 and len(set(ports) - {None}) == len(ports)}


def strict_json(file: Fact) -> Answer:
    """R01: strict JSON, UTF-8, an object. HCCL reads with a strict reader; what it refuses is named with its line."""
    found = file.value
    if found.state != "ok":
        return not_applicable("no_file", path=found.path, what=found.path)
    if not found.flaws:
        return passed({"path": found.path}, file.evidence)
    first = next((f for f in found.flaws if f.kind in ("not_json", "not_object")), found.flaws[0])
    seen = [Evidence(found.path, flaw.line, flaw.text) for flaw in found.flaws[:4]]
    mild = all(flaw.kind == "duplicate_key" for flaw in found.flaws)
    return fail(
        {
            "path": found.path,
            "line": first.line,
            "kind": first.kind,
            "found": first.text[:60],
            "count": len(found.flaws),
        },
        *seen,
        severity="warning" if mild else None,
    )


def file_readable(file: Fact) -> Answer:
    """R02: the path exists and the user can read it (EI0004 "is not a valid real path" otherwise)."""
    found = file.value
    args = {"path": found.path, "by": found.asked_by, "state": found.state, "error": found.error}
    return passed(args, file.evidence) if found.state == "ok" else fail(args, file.evidence)


def status_completed(table: Fact) -> Answer:
    """R03: ``status`` is ``completed``; ``initializing`` means that the operator is still writing: wait."""
    value = table.value
    if value.status == "completed":
        return passed({"status": value.status}, at(value, value, "status", value.status))
    waiting = value.status == "initializing"
    return fail(
        {"status": value.status or "-", "path": value.source},
        at(value, value, "status", value.status),
        severity="warning" if waiting else None,
    )


def unwritten(value: Any) -> bool:
    """Whether the operator of a cluster has not written the table yet: so says its status, and it has no server."""
    return value.status == "initializing" and not value.servers


def version_fits_chip(table: Fact, chips: Maybe, pci: Maybe) -> Answer:
    """R04: version 1.0 for 910, A2 and 310P, 1.2 for A3 in a superpod; superpod members stand in 1.2 only."""
    value = table.value
    if unwritten(value):
        return not_applicable("rank_table_unwritten")
    if value.form in ("template2", "2.0"):
        return not_applicable("rank_table_form", form=value.form)
    kind = chip_of(value, chips, pci)
    pod_member = next((d for d in value.devices if d.super_device_id), None)
    args = {"version": value.version or "-", "chip": kind or "?", "wanted": ""}
    seen = at(value, value, "version", value.version)
    if value.version == "1.2":
        return fail({**args, "wanted": "1.0"}, seen) if kind in ("910A", "A2", "310P") else passed(args, seen)
    if value.version != "1.0":
        return fail({**args, "wanted": "1.2" if kind == "A3" or pod_member or value.pods else "1.0"}, seen)
    if pod_member is not None or value.pods:
        extra = at(value, pod_member, "super_device_id", pod_member.super_device_id) if pod_member else None
        return fail({**args, "wanted": "1.2"}, seen, extra or at(value, value, "super_pod_list", "…"))
    return fail({**args, "wanted": "1.2"}, seen) if kind == "A3" else passed(args, seen)


def count_matches(table: Fact) -> Answer:
    """R05: ``server_count`` is the length of the list; needed in 1.0, may be left out in 1.2."""
    value = table.value
    if unwritten(value):
        return not_applicable("rank_table_unwritten")
    key = {"template2": "group_count", "2.0": "rank_count"}.get(value.form, "server_count")
    if value.form in ("template2", "2.0") or (not value.counted and value.form == "1.2"):
        return not_applicable("rank_table_form", form=value.form)
    there = len(value.servers)
    args = {"key": key, "count": value.counted or "-", "there": there}
    seen = at(value, value, key, value.counted)
    good = (
        value.counted.isascii() and value.counted.isdigit() and len(value.counted) < 9 and int(value.counted) == there
    )
    return passed(args, seen) if good else fail(args, seen)


def server_ids_unique(table: Fact) -> Answer:
    """R06: every server has an id of at most 64 characters that no other server has."""
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    times = Counter(server.server_id for server in value.servers)
    bad = [s for s in value.servers if not s.server_id or len(s.server_id) > 64 or times[s.server_id] > 1]
    if not bad:
        return passed({"servers": len(value.servers)})
    ids = dict.fromkeys(
        f"{s.server_id[:80] or '-'}{f' ×{times[s.server_id]}' if times[s.server_id] > 1 else ''}" for s in bad
    )
    return fail({"ids": listed(ids)}, *(at(value, s, "server_id", s.server_id) for s in bad[:3]))


def here_in(value: Any, net: Maybe) -> int | None:
    """Index of the server of the table that is this host, by address."""
    own = own_addresses(net)
    for i, server in enumerate(value.servers):
        if own & {server.server_id, server.host_ip, server.pod_ip, server.container_ip}:
            return i
    return None


def device_ids_valid(table: Fact, chips: Maybe, pci: Maybe, nodes: Maybe, net: Maybe) -> Answer:
    """R07: ``device_id`` is a whole number, once per server, below the number of devices of the product.

    A server has 8 devices, 16 where it is a Box16 or an A3. With at most 8 ranks it may be either; then ids beyond 7
    must fit a Box16, whose halves are used in pairs (hccl_env/HCCL_INTRA_ROCE_ENABLE.md). Where the server is this
    host, ``/dev/davinci<id>`` must exist.
    """
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    kind = chip_of(value, chips, pci)
    here = here_in(value, net)
    present, shared = device_nodes(nodes), one_card_many_ports(value)
    bad: list[Any] = []
    why: list[str] = []
    for index, devices in enumerate(of_server(value)):
        times = Counter(d.device_id for d in devices)
        ids = sorted({d.device_id for d in devices if d.device_id is not None})
        top = 8 if kind in ("910A", "310P") else 16
        if (
            top == 16
            and kind in (None, "A2")
            and value.form != "1.2"
            and len(ids) <= 8
            and ids
            and ids[0] < 8 <= ids[-1]
        ):
            # on a Box16 cards of both halves come in pairs (0 with 8) or, over RoCE, as a run
            pairs = [i for i in ids if i < 8] == [i - 8 for i in ids if i >= 8]
            top = 16 if pairs or ids == list(range(ids[0], ids[-1] + 1)) else 8
        for device in devices:
            number = device.device_id
            if number is None:
                reason = f"device_id {device.odd.get('device_id', '-')}"
            elif times[number] > 1 and (index, number) not in shared:
                reason = f"device_id {number} ×{times[number]}"
            elif number >= top:
                reason = f"device_id {number} > {top - 1}"
            elif index == here and present and number not in present:
                reason = f"device_id {number}: /dev/davinci{number} ✗"
            else:
                continue
            bad.append(device)
            why.append(f"{name_of(value, index)}: {reason}")
    if not bad:
        return passed({"devices": len(value.devices)})
    seen = [at(value, d, "device_id", d.odd.get("device_id", d.device_id)) for d in bad[:3]]
    return fail({"what": listed(dict.fromkeys(why)), "count": len(bad)}, *seen)


def ranks_complete(table: Fact) -> Answer:
    """R08: every device has a ``rank_id`` and together they are exactly 0 … N-1."""
    value = table.value
    if value.form == "2.0" or not value.has_ranks:
        return not_applicable("rank_table_form", form=value.form)
    total = len(value.devices)
    without = [d for d in value.devices if d.rank_id is None]
    times = Counter(d.rank_id for d in value.devices if d.rank_id is not None)
    double = [d for d in value.devices if d.rank_id is not None and times[d.rank_id] > 1]
    beyond = [d for d in value.devices if d.rank_id is not None and d.rank_id >= total]
    missing = [n for n in range(total) if n not in times]
    bad = without[:2] + double[:2] + beyond[:2]
    if not bad and not missing:
        return passed({"ranks": total})
    args = {
        "ranks": total,
        "last": total - 1,
        "without": len(without),
        "double": listed(sorted({d.rank_id for d in double})) or "-",
        "missing": listed(missing) or "-",
        "beyond": listed(sorted({d.rank_id for d in beyond})) or "-",
    }
    return fail(args, *(at(value, d, "rank_id", d.odd.get("rank_id", d.rank_id)) for d in bad[:4]))


def ranks_in_blocks(table: Fact, chips: Maybe, pci: Maybe) -> Answer:
    """R09: the ranks of one server form one block. Refused on A2 and 910; for A3 and unknown chips a warning."""
    value = table.value
    if value.form == "2.0" or not value.has_ranks or len(value.servers) < 2:
        return not_applicable("single_node" if len(value.servers) < 2 else "rank_table_form", form=value.form)
    ranked = sorted((d for d in value.devices if d.rank_id is not None), key=lambda d: d.rank_id)
    finished: set[int] = set()
    previous = None
    for before, device in zip([None, *ranked], ranked, strict=False):
        if device.server != previous:
            if device.server in finished:
                kind = chip_of(value, chips, pci)
                args = {"server": name_of(value, device.server), "rank": device.rank_id,
                        "other": name_of(value, before.server), "before": before.rank_id}  # fmt: skip
                seen = [at(value, d, "rank_id", d.rank_id) for d in (before, device)]
                return fail(args, *seen, severity=None if kind in ("A2", "910A") else "warning")
            if previous is not None:
                finished.add(previous)
            previous = device.server
    return passed({"servers": len(value.servers)})


def servers_in_order(table: Fact) -> Answer:
    """R10: servers by rank stand in the dictionary order of their ids; the order of the numbers in them will do."""
    value = table.value
    if value.form == "2.0" or not value.has_ranks or len(value.servers) < 2:
        return not_applicable("single_node" if len(value.servers) < 2 else "rank_table_form", form=value.form)
    first: dict[int, int] = {}
    for device in value.devices:
        if device.rank_id is not None:
            first[device.server] = min(first.get(device.server, device.rank_id), device.rank_id)
    order = [value.servers[i] for i in sorted(first, key=lambda i: (first[i], i))]
    ids = [server.server_id for server in order]
    numbered = [_by_number(one) for one in ids]
    if ids == sorted(ids) or numbered == sorted(numbered):
        return passed({"servers": len(ids)})
    late = next(i for i in range(1, len(ids)) if ids[i] < ids[i - 1])
    seen = [at(value, server, "server_id", server.server_id) for server in order[late - 1 : late + 1]]
    return fail({"first": ids[late - 1], "second": ids[late]}, *seen)


def _by_number(text: str) -> list[tuple[int, str]]:
    """A key that sorts node-9 before node-10, and addresses by their numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d{1,9})", text, flags=re.ASCII)]


def ranks_follow_devices(table: Fact) -> Answer:
    """R11: inside a server the ranks follow the device ids (advised by HCCL)."""
    value = table.value
    if value.form == "2.0" or not value.has_ranks:
        return not_applicable("rank_table_form", form=value.form)
    for index, devices in enumerate(of_server(value)):
        known = [d for d in devices if d.rank_id is not None and d.device_id is not None]
        ordered = sorted(known, key=lambda d: d.rank_id)
        for before, after in pairwise(ordered):
            if after.device_id < before.device_id:
                args = {"server": name_of(value, index), "rank": after.rank_id, "device": after.device_id,
                        "before": before.device_id}  # fmt: skip
                return fail(args, at(value, before, "device_id", before.device_id),
                            at(value, after, "device_id", after.device_id))  # fmt: skip
    return passed({"ranks": len(value.devices)})


def card_numbers_allowed(table: Fact, chips: Maybe, pci: Maybe) -> Answer:
    """R16: a 910 server takes part with 1, 2, 4 or 8 cards; 2 or 4 stay inside 0-3 or 4-7."""
    value = table.value
    kind = chip_of(value, chips, pci)
    if kind is None and value.form != "2.0":
        return unknown("chip_unknown", "run_npu_smi")
    if kind != "910A" or value.form == "2.0":
        return not_applicable("other_chip", chip=kind or value.form)
    for index, devices in enumerate(of_server(value)):
        ids = sorted(d.device_id for d in devices if d.device_id is not None)
        crossing = len(ids) in (2, 4) and len({i // 4 for i in ids}) > 1
        if devices and (len(devices) not in (1, 2, 4, 8) or crossing):
            args = {"server": name_of(value, index), "count": len(devices), "ids": listed(ids)}
            return fail(args, *(at(value, d, "device_id", d.device_id) for d in devices[:4]))
    return passed({"servers": len(value.servers)})


def equal_card_numbers(table: Fact, chips: Maybe, pci: Maybe) -> Answer:
    """R17: every server has as many cards as the others: must on 910, slower otherwise."""
    value = table.value
    if value.form == "2.0" or len(value.servers) < 2:
        return not_applicable("single_node" if value.form != "2.0" else "rank_table_form", form=value.form)
    counts = [server.devices for server in value.servers]
    if len(set(counts)) == 1:
        return passed({"count": counts[0]})
    usual = Counter(counts).most_common(1)[0][0]
    odd = next(i for i, n in enumerate(counts) if n != usual)
    args = {"server": name_of(value, odd), "count": counts[odd], "usual": usual}
    strict = chip_of(value, chips, pci) == "910A"
    return fail(args, at(value, value.servers[odd], "device", "…"), severity="error" if strict else None)


def ids_are_strings(table: Fact) -> Answer:
    """R22: ids are written as strings in version 1.x."""
    value = table.value
    if value.form == "2.0":
        return not_applicable("rank_table_form", form=value.form)
    ids = ("device_id", "rank_id", "super_device_id", "server_id")
    found = [(thing, key) for thing in (*value.devices, *value.servers) for key in thing.numeric if key in ids]
    if not found:
        return passed({})
    thing, key = found[0]
    args = {"key": key, "value": getattr(thing, key), "count": len(found)}
    return fail(args, *(at(value, t, k, getattr(t, k)) for t, k in found[:3]))


def all_have_pod_ip(value: Any) -> bool:
    """Does every server have ``pod_ip``? Without it msrun passes a table over."""
    return all(server.pod_ip for server in value.servers)


def size_matches_job(table: Fact, launch: Maybe) -> Answer:
    """R23: the table has as many ranks as the job: ``RANK_SIZE``, ``--worker_num``, ``MS_WORKER_NUM``."""
    value = table.value
    if not isinstance(launch, Fact) or not launch.value.get("workers"):
        return unknown("no_launch", "give_launch")
    if "msrun" in launch.value["styles"] and not all_have_pod_ip(value):
        return not_applicable("table_ignored")
    workers, ranks = launch.value["workers"], len(value.devices)
    for name in ("worker_num", "RANK_SIZE", "MS_WORKER_NUM"):
        setting = launch.value["options"].get(name) or launch.value["env"].get(name)
        if setting is not None:
            break
    seen = Evidence(setting.source, setting.line, setting.text) if setting else None
    args = {"ranks": ranks, "workers": workers}
    return passed(args) if workers == ranks else fail(args, seen, Evidence(value.source, 0, value.source))


def one_way_of_ranks(launch: Fact) -> Answer:
    """R24: the CM_* variables and a rank table with RANK_ID, RANK_SIZE are two ways; one job uses one of them."""
    env = launch.value["env"]
    chief = [name for name in env if name.startswith("CM_")]
    tables = [n for n in ("RANK_TABLE_FILE", "MINDSPORE_HCCL_CONFIG_PATH", "RANK_ID", "RANK_SIZE") if n in env]
    if not chief:
        return not_applicable("not_set", name="CM_CHIEF_IP", what="CM_CHIEF_IP")
    if not tables:
        return passed({"names": listed(chief)})
    seen = [Evidence(env[n].source, env[n].line, env[n].text) for n in (chief[0], tables[0])]
    return fail({"names": listed(chief), "tables": listed(tables)}, *seen)


def same_everywhere(table: Fact, file: Fact) -> Answer:
    """R25: the job has one table. One node cannot see the others and names the hash to compare; it does see when the
    launch command and the variables name different ones."""
    value = table.value
    for path, by, digest in file.value.others:
        if digest != value.digest:
            seen = [Evidence(b, 0, f"{b} {p}") for p, b in ((file.value.path, file.value.asked_by), (path, by))]
            return fail({"path": file.value.path, "by": file.value.asked_by, "other": path, "other_by": by}, *seen)
    if len(value.servers) < 2:
        return not_applicable("single_node")
    return unknown("one_node_only", "compare_hash", path=value.source, hash=value.digest)


def sound(table: Fact, file: Fact) -> bool:
    """Is the table right by itself, whatever it is used for?"""
    answers = [check(table) for check in (status_completed, count_matches, server_ids_unique, ranks_complete, shape)]
    answers += [strict_json(file), ranks_in_blocks(table, None, None), device_ids_valid(table, None, None, None, None)]
    return all(answer.verdict is not Verdict.FAIL for answer in answers)


def shape(table: Fact) -> Answer:
    """The lists a table is made of are there and hold objects (EI0017 "is missing in the ranktable file")."""
    value = table.value
    if unwritten(value):
        return not_applicable("rank_table_unwritten")
    if value.broken:
        first = value.broken[0]
        seen = [Evidence(value.source, flaw.line, f'"{flaw.kind}": {flaw.text or "✗"}') for flaw in value.broken[:3]]
        return fail({"key": first.kind, "kind": first.text or "-", "count": len(value.broken)}, *seen)
    if not value.devices and value.status != "initializing":
        return fail({"key": "device", "kind": "[]", "count": 0}, Evidence(value.source, 0, value.source))
    return passed({"servers": len(value.servers), "ranks": len(value.devices)})
