"""The catalogue of error codes: what a code means, in both languages, where no rule knows it.

``rules/codes/*.yaml`` holds one file per family. A key is the code as logs print it (``EI0006``, ``507015``,
``0x7020016``, ``-8005``, ``0x80E01801``); numbers that say nothing without their family carry it (``driver:7``,
``hccl:9``, ``aicore:0x800000``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from doctor.model import ROLES, SEVERITIES

if TYPE_CHECKING:
    from yaml.nodes import MappingNode, Node, SequenceNode

LANGUAGES = ("zh", "en")
FIELDS = frozenset({"code", "name", "topic", "role", "severity", "meaning", "next", "source"})
SMALL = 1000
"""Plain numbers below this are step numbers and counts far more often than codes."""
LONGEST = 80
"""No code or macro name is longer (characters); longer text is not looked at."""

MACRO = re.compile(r"(?:ACL|ACLNN|HCCL|DRV|DCMI|RT)_[A-Z0-9_]+")
EVENT = re.compile(r"[0-9A-F]{8}")
NUMBER = re.compile(r"-?(?:0X[0-9A-F]{1,16}|[0-9]{1,20})")
HCCL_ERRNO = 0x05
"""Third byte from the right of plog's errNo[0x0000000005…]; the low 16 bits are HCCL's return code."""


class Code(NamedTuple):
    """One error code. ``name`` is the official title or macro, "" where there is none; ``next`` is None when
    nothing better is known than to read the message."""

    code: str
    name: str
    group: str
    topic: str
    role: str
    severity: str
    meaning: dict[str, str]
    next: dict[str, str] | None
    source: str


def load(folder: str) -> dict[str, Code]:
    """Every code of the ``*.yaml`` files in ``folder``, by key, file by file in order of name.

    Raises ValueError, with file:line in front, for what is not a catalogue or names a code twice; OSError when the
    folder cannot be read.
    """
    found: dict[str, Code] = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".yaml"):
            _read(os.path.join(folder, name), found)
    return found


def lookup(codes: Mapping[str, Code], text: str) -> tuple[Code, ...]:
    """The codes that ``text`` can stand for, in any case, with or without ``CODE:`` or a family in front.

    Numbers count by value, decimal or hexadecimal; without a family a small one is nobody's code. Eight hexadecimal
    digits are a health event as npu-smi prints it, an errNo of HCCL leads to its return code, and the name of a macro
    (``ACL_ERROR_RT_CONTEXT_NULL``) to its number. A code that is not listed gives (), also in a known family.
    """
    if len(text) > LONGEST:
        return ()
    family, colon, asked = text.strip().upper().removeprefix("CODE:").rpartition(":")
    number = _number(asked)
    if not colon and number is not None and abs(number) < SMALL:
        return ()
    errno = number & 0xFFFF if number is not None and "X" in asked and number >> 24 == HCCL_ERRNO else None
    event, macro = EVENT.fullmatch(asked), MACRO.fullmatch(asked)
    found = []
    for code in codes.values():
        if colon and code.group.upper() != family:
            continue
        own = code.code.rpartition(":")[2].upper()
        value = _number(own)
        if (
            own == asked
            or (event and own == "0X" + asked)
            or (macro and code.name == asked)
            or (value is not None and value == number)
            # npu-smi prints the sign, people drop it
            or (family == "DCMI" and value is not None and number is not None and abs(value) == abs(number))
            or (errno is not None and code.group == "hccl" and value == errno)
        ):
            found.append(code)
    return tuple(found)


def _number(text: str) -> int | None:
    """``text``, in upper case, as a whole number, or None."""
    if not NUMBER.fullmatch(text):
        return None
    return int(text, 16 if "X" in text else 10)


def _read(path: str, found: dict[str, Code]) -> None:
    """Add the codes of one file to ``found``."""
    import yaml

    def wrong(node: Node | None, text: str) -> NoReturn:
        line = node.start_mark.line + 1 if node is not None else 1
        raise ValueError(f"{path}:{line}: {text}")

    def mapping(node: Node | None, allowed: Container[str], needed: tuple[str, ...]) -> dict[str, Node]:
        """The entries of a mapping by key; no key twice, none unknown, none of ``needed`` missing."""
        if not isinstance(node, yaml.MappingNode):
            wrong(node, "a mapping is expected here")
        entries: dict[str, Node] = {}
        whole: MappingNode = node
        for key, value in whole.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in entries or key.value not in allowed:
                wrong(key, f"{key.value!r} is not expected here, or stands here twice")
            entries[key.value] = value
        for name in needed:
            if name not in entries:
                wrong(node, f"{name} is missing")
        return entries

    def text(node: Node) -> str:
        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            wrong(node, "a text is expected here")
        return str(node.value)

    def both(node: Node) -> dict[str, str]:
        return {language: text(value) for language, value in mapping(node, LANGUAGES, LANGUAGES).items()}

    try:
        # utf-8-sig: an editor's byte order mark is no reason to refuse a file
        with open(path, encoding="utf-8-sig") as file:
            root = yaml.compose(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ValueError(f"{path}:{mark.line + 1 if mark else 1}: {error.problem}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}:1: {error}") from None

    needed = ("group", "header", "topic", "codes")
    top = mapping(root, needed, needed)
    both(top["header"])
    group, topic = text(top["group"]), text(top["topic"])
    if not isinstance(top["codes"], yaml.SequenceNode):
        wrong(top["codes"], "a list of codes is expected here")
    entries: SequenceNode = top["codes"]
    for node in entries.value:
        entry = mapping(node, FIELDS, ("code", "role", "severity", "meaning", "source"))
        code, role, severity = text(entry["code"]), text(entry["role"]), text(entry["severity"])
        if role not in ROLES:
            wrong(entry["role"], f"role {role!r} is none of {', '.join(ROLES)}")
        if severity not in SEVERITIES:
            wrong(entry["severity"], f"severity {severity!r} is none of {', '.join(SEVERITIES)}")
        family, _, rest = code.rpartition(":")
        if family not in ("", group):
            wrong(entry["code"], f"{code} names another family than {group}")
        plain = _number(rest.upper())
        if not family and plain is not None and abs(plain) < SMALL:
            wrong(entry["code"], f"{code} is a small number and needs its family: {group}:{code}")
        if code in found:
            wrong(entry["code"], f"{code} is listed in {found[code].group} already")
        found[code] = Code(
            code=code,
            name=text(entry["name"]) if "name" in entry else "",
            group=group,
            topic=text(entry["topic"]) if "topic" in entry else topic,
            role=role,
            severity=severity,
            meaning=both(entry["meaning"]),
            next=both(entry["next"]) if "next" in entry else None,
            source=text(entry["source"]),
        )
