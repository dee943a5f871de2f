"""Variables that choose devices (NPU515): ASCEND_RT_VISIBLE_DEVICES, ASCEND_VISIBLE_DEVICES, DEVICE_ID.

Source: hiascend CANN environment variables envref_07_0028; mind-cluster docs 02_usage_on_the_docker_client.md.
"""

import re
from typing import Any

from doctor.checks.network.chips import chip_count, device_nodes
from doctor.model import Answer, Evidence, Fact, Unknown, fail, not_applicable, passed

Maybe = Fact | Unknown | None

_ID = re.compile(r"\d{1,3}", re.ASCII)
_CONTAINER = re.compile(
    r"void|\d{1,3}(?:-\d{1,3})?(?:,\d{1,3}(?:-\d{1,3})?){0,63}"
    r"|npu-\d{1,3}(?:,npu-\d{1,3}){0,63}"
    # names of the device plugin, which pods hand on
    r"|Ascend[\w-]{1,40}(?:,Ascend[\w-]{1,40}){0,63}",
    re.ASCII,
)
_NEAR = re.compile(r"ASCEND_(?:RT_)?VISIBLE_DEVICE|ASCEND_RT_VISIBLE_DEVICES?_?IDS?|ASCEND_RT_DEVICES")


def visible(value: str, present: int | None) -> tuple[list[int], str]:
    """(ids the CANN runtime takes, the text at which it stops reading).

    Reading stops at the first character or id it does not accept: a blank, an id beyond the devices, one seen before.

    >>> visible("1, 2,3", 8)
    ([1], ' 2,3')
    >>> visible("1,3,8", 8)
    ([1, 3], '8')
    """
    taken: list[int] = []
    rest = value
    while rest:
        head, comma, tail = rest.partition(",")
        match = _ID.match(head)
        if match is None:
            break
        number = int(match.group())
        if (present is not None and number >= present) or number in taken:
            break
        taken.append(number)
        if match.group() != head or not comma:
            rest = head[match.end() :] + comma + tail if match.group() != head else ""
            break
        rest = tail
    return taken, rest


def _better(value: str, present: int | None) -> str:
    """The ids that were most likely meant, ascending; an example where that cannot be told.

    >>> _better("3, 1,2", 8)
    '1,2,3'
    """
    parts = [part.strip() for part in value.split(",")]
    ids = sorted({int(part) for part in parts if _ID.fullmatch(part)})
    sound = ids and len(ids) == len(parts) and (present is None or ids[-1] < present)
    return ",".join(map(str, ids)) if sound else ",".join(map(str, range(min(present or 8, 16))))


def device_variables(launch: Fact, table: Maybe, nodes: Maybe) -> Answer | list[Answer]:
    """The variables are written as their readers take them, and the ids exist on this host."""
    env = launch.value["env"]
    present = chip_count(table) or len(device_nodes(nodes)) or None
    better = _better(env["ASCEND_RT_VISIBLE_DEVICES"].value if "ASCEND_RT_VISIBLE_DEVICES" in env else "", present)
    found: list[Answer] = []

    def say(setting: Any, name: str, problem: str, severity: str | None = None) -> None:
        args = {"name": name, "value": setting.value[:80] or '""', "problem": problem, "better": better}
        found.append(fail(args, Evidence(setting.source, setting.line, setting.text), severity=severity))

    for name, setting in env.items():
        if _NEAR.fullmatch(name):
            say(setting, name, "→ ASCEND_RT_VISIBLE_DEVICES")
    shown: list[int] | None = None
    setting = env.get("ASCEND_RT_VISIBLE_DEVICES")
    if setting is not None and setting.value:
        shown, rest = visible(setting.value, present)
        if rest:
            say(setting, "ASCEND_RT_VISIBLE_DEVICES", f"{','.join(map(str, shown)) or '-'} | {rest[:40]}")
        elif shown != sorted(shown):
            say(setting, "ASCEND_RT_VISIBLE_DEVICES", " > ".join(map(str, shown[:8])), "warning")
    setting = env.get("ASCEND_VISIBLE_DEVICES")
    if setting is not None and setting.value.strip() and not _CONTAINER.fullmatch(setting.value.strip()):
        say(setting, "ASCEND_VISIBLE_DEVICES", "0,1 · 0-3 · npu-0,npu-1 · void", "warning")
    limit = len(shown) if shown is not None else present
    for name in ("DEVICE_ID", "ASCEND_DEVICE_ID"):
        setting = env.get(name)
        if setting is None or not setting.value.strip() or "$" in setting.value or "`" in setting.value:
            # what a loop or the caller gives is known to the running shell only
            continue
        text = setting.value.strip()
        if not _ID.fullmatch(text):
            say(setting, name, "0 … 15")
        elif limit is not None and int(text) >= limit:
            say(setting, name, f"{text} > {limit - 1}")
    if found:
        return found
    names = [
        n for n in ("ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "DEVICE_ID", "ASCEND_DEVICE_ID") if n in env
    ]
    if not names:
        return not_applicable("not_set", name="ASCEND_RT_VISIBLE_DEVICES")
    return passed({"names": ", ".join(f"{n}={env[n].value[:40]}" for n in names)})
