"""Composed hosts: a YAML file that says what a machine answers, for examples in rules, tests and demonstrations.

::

    schema: doctor.host/1
    base: a2-8p                 # another file of the same folder, whose answers come first
    absent: true                # what is not listed is not there (default)
    items:
      run npu-smi info: sample:npu-smi_info__910B3__24.1.0__alarm-npu3.txt     # a file of the folder samples/
      file /etc/hccn.conf: "address_0=192.0.2.10"
      look /dev/davinci*: [{path: /dev/davinci0, kind: char, mode: "660", user: HwHiAiUser, group: HwHiAiUser}]
      run hccn_tool -i 0 -link -g: {out: "link status: DOWN", code: 0}
      file /etc/ascend_install.info: null                                      # the base has it, this host has not
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from doctor.hosts.base import TEXT_LIMIT, MemoryHost
from doctor.hosts.recording import RecordingError
from doctor.model import Raw

SCHEMA = "doctor.host/1"
_NAME = re.compile(r"[\w.+-]{1,200}")
_DEPTH = 5
PARTS = 200_000
"""Values one answer may be made of: a folder of 4096 files has 40,000."""


def folder() -> str:
    """The composed hosts of the project."""
    from doctor.rulebase import data_folder

    return data_folder(os.path.join("fixtures", "hosts"))


def load(path: str) -> MemoryHost:
    """A composed host. Raises RecordingError, FileNotFoundError and PermissionError."""
    document = _document(path)
    items = _with_base(document, path, 0)
    return host_of(items, os.path.dirname(os.path.abspath(path)), os.path.basename(path).rsplit(".", 1)[0],
                   absent=bool(document.get("absent", True)))  # fmt: skip


def example(items: Mapping[str, Any]) -> MemoryHost:
    """The host of an example in a rule: ``base`` names a composed host of the project."""
    place = folder()
    whole: dict[str, Any] = {}
    base = items.get("base")
    if base is not None:
        path = os.path.join(place, f"{base}.yaml")
        whole = dict(_with_base(_document(path), path, 1))
    whole.update((key, value) for key, value in items.items() if key != "base")
    return host_of(whole, place, "example")


def host_of(items: Mapping[str, Any], place: str, name: str, *, absent: bool = True) -> MemoryHost:
    """A host from the values of ``items``; samples are looked for in ``place/samples``."""
    raws = {}
    for key, value in items.items():
        if value is not None:
            raws[key] = raw_of(key, value, place)
    return MemoryHost(raws, name, absent=absent)


def raw_of(key: str, value: Any, place: str) -> Raw:
    """One answer from its value in the file."""
    if isinstance(value, str):
        return Raw(key, "ok", _text(value, place), code=0)
    if isinstance(value, Mapping) and key.startswith(("run ", "file ")):
        out, err = (_text(str(value.get(stream) or ""), place) for stream in ("out", "err"))
        code = value.get("code", 0 if value.get("state", "ok") == "ok" else None)
        return Raw(key, str(value.get("state", "ok")), out, err, code, float(value.get("seconds", 0.0)))
    if isinstance(value, Mapping) and set(value) == {"state"}:
        return Raw(key, str(value["state"]))
    if _parts(value, PARTS) <= 0:
        raise RecordingError("too_large", place, key[:80])
    return Raw(key, "ok", json.dumps(value, ensure_ascii=False, default=str))


def _parts(value: Any, left: int) -> int:
    """What is left of ``left`` after counting the parts of a value; aliases of YAML can make few lines billions."""
    left -= 1
    if isinstance(value, (Mapping, list)) and left > 0:
        for part in value.values() if isinstance(value, Mapping) else value:
            left = _parts(part, left)
            if left <= 0:
                break
    return left


def _text(value: str, place: str) -> str:
    if not value.startswith("sample:"):
        return value
    name = value.removeprefix("sample:")
    if not _NAME.fullmatch(name):
        raise RecordingError("damaged", place, f"{name!r} is no name of a sample")
    return _sample(os.path.join(place, "samples", name))


@lru_cache(maxsize=256)
def _sample(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read(4 * TEXT_LIMIT)


def _with_base(document: Mapping[str, Any], path: str, depth: int) -> dict[str, Any]:
    items: dict[str, Any] = {}
    base = document.get("base")
    if base is not None:
        if depth >= _DEPTH or not _NAME.fullmatch(str(base)):
            raise RecordingError("damaged", path, f"base {base!r}")
        below = os.path.join(os.path.dirname(os.path.abspath(path)), f"{base}.yaml")
        items = dict(_with_base(_document(below), below, depth + 1))
    items.update(document.get("items") or {})
    return items


@lru_cache(maxsize=64)
def _document(path: str) -> Mapping[str, Any]:
    import yaml

    if os.path.getsize(path) > 8 << 20:
        raise RecordingError("too_large", path)
    with open(path, encoding="utf-8", errors="replace") as file:
        try:
            document = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise RecordingError("damaged", path, " ".join(str(error).split())[:200]) from None
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("doctor.host/"):
        raise RecordingError("not_one", path)
    if document["schema"] != SCHEMA:
        raise RecordingError("newer", path, str(document["schema"])[:40])
    if not isinstance(document.get("items") or {}, dict):
        raise RecordingError("damaged", path, "items is no table")
    return document
