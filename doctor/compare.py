"""What differs between two hosts, and matters: node against node, yesterday against today."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from doctor import checkup
from doctor.hosts.base import Host
from doctor.model import Answer, Evidence, Fact, Finding, Report, Unknown, fail, passed, unknown
from doctor.probes import base as probes
from doctor.probes.base import Facts
from doctor.rulebase import RuleBase

PER_NODE = frozenset((
    "HCCL_IF_IP", "HCCL_SOCKET_IFNAME", "MS_NODE_ID", "MS_ROLE", "MS_WORKER_IP", "RANK_ID", "DEVICE_ID", "HOSTNAME",
    "ASCEND_DEVICE_ID", "ASCEND_PROCESS_LOG_PATH", "PWD", "OLDPWD", "SSH_CONNECTION", "SSH_CLIENT", "USER", "HOME",
    "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "SHLVL", "TERM", "_",
))  # fmt: skip
"""Variables that may, or must, differ from node to node (HCCL guide, page of each variable)."""


_STAND_IN = re.compile(r"10\.\d{1,3}\.\d{1,3}\.(\d{1,3})|host\d{1,4}(?:\.[a-z.]{1,40})?")


class Subject(NamedTuple):
    """Facts that must be the same: ``rule`` judges what differs, ``keys`` are paths in the value of ``fact``; ``*``
    stands for every key, an empty path for the value itself."""

    rule: str
    fact: str
    keys: tuple[str, ...]


SUBJECTS = (
    Subject("VER590", "ver.driver", ("version",)),
    Subject("VER590", "ver.firmware", ("version",)),
    Subject("VER590", "ver.cann", ("active.version", "version")),
    Subject("VER590", "ver.mindspore", ("version",)),
    Subject("VER590", "ver.mindformers", ("version",)),
    Subject("VER590", "ver.python", ("version", "packages.*")),
    Subject("HCCL590", "host.env", ("*",)),
    Subject("HCCL591", "hccn.tls", ("*.switch",)),
    Subject("HCCL591", "hccn.mtu", ("*",)),
    # no addresses: recordings replace them, each in its own way
    Subject("HCCL592", "hccl.rank_table", ("version", "status", "counted", "devices.*.rank_id", "devices.*.device_id")),
    Subject("RUN590", "launch.settings", ("style", "workers", "port")),
    Subject("NPU590", "npu.pci", ("count",)),
    Subject("NPU590", "npu.table", ("*.name",)),
    Subject("ENV590", "host.system", ("kernel", "arch", "os", "glibc")),
    Subject("ENV590", "host.limits", ("*",)),
    Subject("ENV590", "host.memory", ("total",)),
    Subject("ENV590", "host.cpu", ("count",)),
)


class Difference(NamedTuple):
    """One value here and there; None is absent."""

    name: str
    here: Any
    there: Any


def _values(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(name, plain value) of everything that ``path`` names in ``value``."""
    value = checkup.plain(value)
    todo: list[tuple[str, Any, list[str]]] = [("", value, path.split(".") if path else [])]
    while todo:
        name, here, rest = todo.pop()
        if not rest:
            yield name, here
            continue
        if isinstance(here, list):
            here = {str(n): one for n, one in enumerate(here)}
        if isinstance(here, Mapping):
            keys = list(here) if rest[0] == "*" else [rest[0]] if rest[0] in here else []
            todo += [(f"{name}.{key}".lstrip("."), here[key], rest[1:]) for key in keys]


def differences(fact: str, keys: tuple[str, ...], here: Fact, there: Fact) -> list[Difference]:
    """What differs between two values of one fact, by name."""
    found = []
    left = {name: value for key in keys for name, value in _values(here.value, key)}
    right = {name: value for key in keys for name, value in _values(there.value, key)}
    for name in sorted(left.keys() | right.keys()):
        if fact == "host.env" and (
            name in PER_NODE or not name.startswith(("HCCL", "MS_", "ASCEND_GLOBAL", "MINDSPORE"))
        ):
            continue
        if fact == "host.env" and _one_stand_in(left.get(name), right.get(name)):
            continue
        if left.get(name) != right.get(name):
            found.append(Difference(f"{fact}.{name}".rstrip("."), left.get(name), right.get(name)))
    return found


def _one_stand_in(here: Any, there: Any) -> bool:
    """Whether two values may be one address or name that two recordings have replaced, each in its own way: of an
    address the last part stays."""
    a, b = (_STAND_IN.fullmatch(str(value or "")) for value in (here, there))
    return bool(a and b and a[1] == b[1])


def _text(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def judge(rule: str, here: Facts, there: Facts) -> Answer:
    """The answer of one comparison over two sets of facts."""
    found: list[Difference] = []
    seen = False
    evidence: list[Evidence | None] = []
    for subject in SUBJECTS:
        if subject.rule != rule:
            continue
        a, b = here.get(subject.fact), there.get(subject.fact)
        if not isinstance(a, Fact) or not isinstance(b, Fact):
            continue
        styles = [value for f in (a, b) for _, value in _values(f.value, "style")]
        if rule == "RUN590" and "none" in styles:
            # nobody said how that host starts the job
            continue
        seen = True
        more = differences(subject.fact, subject.keys, a, b)
        if more:
            evidence.append(a.evidence)
        found += more
    if not seen:
        return unknown("not_recorded")
    if not found:
        return passed()
    listed = "; ".join(f"{d.name}: {_text(d.here)} / {_text(d.there)}" for d in found[:12])
    return fail({"differences": listed, "count": len(found)}, *evidence)


def against(report: Report, here: Facts, other: Host, options: checkup.Options, base: RuleBase) -> Report:
    """The report with what differs from another host, and matters, in it."""
    names = sorted({subject.fact for subject in SUBJECTS})
    everything = probes.all_probes()
    there: dict[str, Fact | Unknown] = {}
    for done in probes.run(other, probes.wanted(everything, names)):
        there.update(done.facts)
    found: list[Finding] = []
    for rule_id in sorted({subject.rule for subject in SUBJECTS}):
        if rule_id not in base or not options.take(base[rule_id]):
            continue
        spec = checkup.Spec(base[rule_id], base.whole(rule_id), "", ())
        answer = judge(rule_id, here, there)
        found.append(checkup.finding_of(spec, answer._replace(args=answer.args | {"other": other.name})))
    findings = (*report.findings, *found)
    changed = report._replace(
        findings=findings, diagnoses=checkup.diagnose(base, findings), target=report.target | {"against": other.name}
    )
    return changed._replace(verdict=checkup.verdict_of(changed))
