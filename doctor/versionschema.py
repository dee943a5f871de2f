"""What ``rules/versions.yaml`` must look like, and whether it agrees with itself. Loaded only when it changed."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from doctor.ruleschema import RuleError, read_yaml
from doctor.version import AscendVersion, in_range
from doctor.versions import Table, minor, satisfies

Confidence = Literal["official", "derived", "unverified"]


class Hdk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recommended: list[str]
    confidence: Confidence
    source: list[str]
    accepted: list[str] = []
    floor: str = ""
    tested_from: str = ""


class NumpyS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    range: str
    python: str = ""


class CannS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: str
    internal: str
    hdk: Hdk
    confidence: Confidence
    source: list[str]
    python: str = ""
    numpy: list[NumpyS] = []
    numpy_confidence: Confidence = "unverified"
    numpy_source: list[str] = []
    protobuf: str = ""
    gcc: str = ""
    layout: Literal["closed", "open"] = "closed"
    chips: list[str] = []


class MsCann(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    recommended: list[str]
    source: list[str]
    confidence: Confidence
    accepted: list[str] = []
    accepted_confidence: Confidence = "unverified"
    only: bool = False
    built_with: str = ""


class MindsporeS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: str
    cann: MsCann
    python: list[str]
    pypi: bool
    opp_kernel: bool = False
    version_from: str = ""
    glibc: str = ""
    glibcxx: str = ""
    numpy: str = ""
    numpy_works: str = ""
    numpy_source: list[str] = msgspec.field(default_factory=lambda: ["NUMPY1"])
    protobuf: str = ""
    chips: list[str] = []
    chips_confidence: Confidence = "unverified"


class MindformersS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: str
    mindspore: list[str]
    python: list[str]
    pypi: bool
    source: list[str]
    confidence: Confidence
    accepted: list[str] = []
    pin: str = ""
    cann: str = ""
    hdk: str = ""
    numpy: str = ""
    transformers: str = ""
    tokenizers: str = ""
    datasets: str = ""
    requires_python: str = ""
    missing: list[str] = []


class ChipS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    family: str
    cann_chip: str
    mindspore_name: str
    soc: list[str]
    source: list[str]
    confidence: Confidence


class Layout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    toolkit: str
    ops: dict[str, str]
    root: str
    set_env: str
    source: list[str]


class Packages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    closed: Layout
    open: Layout
    driver: str
    firmware: str
    mindspore_bucket: str


class Wheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    release: str
    python: str


class TableS(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    collected: str
    cann: list[CannS]
    mindspore: list[MindsporeS]
    mindformers: list[MindformersS]
    chips: list[ChipS]
    packages: Packages
    python: list[str]
    numpy: list[Wheel]
    protobuf: list[str]
    families: dict[str, str]
    families_cann: dict[str, str]
    documented_os: list[str]
    ecosystem: dict[str, list[dict[str, Any]]]
    sources: dict[str, str]


def read(path: str) -> dict[str, Any]:
    """The table as plain data with its defaults filled in. Raises ValueError (RuleError) with file and line."""
    value, _ = read_yaml(path)
    try:
        table = msgspec.convert(value, TableS)
    except msgspec.ValidationError as error:
        raise RuleError(path, 1, str(error)) from None
    data: dict[str, Any] = msgspec.to_builtins(table)
    return data


def lint(data: dict[str, Any]) -> list[str]:
    """Everything in the table that contradicts itself, one line each; empty if nothing does."""
    table = Table(data)
    found: list[str] = []

    def version(where: str, text: str) -> None:
        try:
            AscendVersion(re.sub(r"\.X$", ".0", text))
        except ValueError:
            found.append(f"{where}: {text!r} is no version")

    def spec(where: str, text: str) -> None:
        if text and satisfies("1.0.0", text) is None:
            found.append(f"{where}: {text!r} is no range")

    def sources(where: str, keys: list[str]) -> None:
        if not keys:
            found.append(f"{where}: names no source")
        found.extend(f"{where}: source {key!r} is not listed" for key in keys if key not in data["sources"])

    for name in ("cann", "mindspore", "mindformers"):
        releases = [row["release"] for row in data[name]]
        for release in releases:
            version(name, release)
        if found:
            return found
        if sorted(releases, key=AscendVersion) != releases or len(set(releases)) != len(releases):
            found.append(f"{name}: releases do not ascend")
    for row in table.cann:
        where = f"cann {row['release']}"
        hdk = row["hdk"]
        for text in (*hdk["recommended"], *hdk["accepted"], *filter(None, (hdk["floor"], hdk["tested_from"]))):
            version(where, text)
        if hdk["floor"]:
            for text in hdk["recommended"] + hdk["accepted"]:
                if (
                    AscendVersion(re.sub(r"\.X$", ".0", text)) < AscendVersion(hdk["floor"])
                    and minor(text) != hdk["floor"]
                ):
                    found.append(f"{where}: driver {text} is below the floor {hdk['floor']}")
        for text in [row["python"], row["protobuf"], *(n["range"] for n in row["numpy"])]:
            spec(where, text)
        sources(where, row["source"] + hdk["source"])
        if AscendVersion(row["release"]) >= AscendVersion("8.2.RC1") and row["internal"] != minor(row["release"]):
            found.append(f"{where}: internal number {row['internal']} differs, which it does not from 8.2 on")
    internals = {row["internal"] for row in table.cann} | {
        "6.11",
        "7.8",
    }  # pre-releases, seen in MindSpore's lists only
    for row in table.mindspore:
        where = f"mindspore {row['release']}"
        cann = row["cann"]
        for text in cann["recommended"]:
            known = table.cann_row(text)
            if known is None:
                found.append(f"{where}: recommends CANN {text}, which the table does not have")
            elif cann["accepted"] and known["internal"] not in cann["accepted"]:
                found.append(f"{where}: recommends CANN {text} ({known['internal']}) but does not accept it")
        found.extend(f"{where}: accepts {text}, no CANN has it" for text in cann["accepted"] if text not in internals)
        found.extend(f"{where}: Python {p} is not listed" for p in row["python"] if p not in data["python"])
        for text in (row["numpy"], row["numpy_works"], row["protobuf"]):
            spec(where, text)
        sources(where, cann["source"] + row["numpy_source"])
        chips = {chip["cann_chip"] for chip in table.chips}
        found.extend(f"{where}: chip {c} is not listed" for c in row["chips"] if c not in chips)
    for row in table.mindformers:
        where = f"mindformers {row['release']}"
        for text in row["mindspore"] + row["accepted"]:
            known = table.mindspore_row(text)
            if known is None and not row["missing"]:
                found.append(f"{where}: MindSpore {text} is not in the table")
            if row["pin"] and not satisfies(text, row["pin"]):
                found.append(f"{where}: MindSpore {text} is outside its own pin {row['pin']}")
            if (
                known is not None
                and row["cann"]
                and table.cann_row(row["cann"]) is not None
                and text in row["mindspore"]
            ):
                named = {table.cann_row(c)["release"] for c in known["cann"]["recommended"] if table.cann_row(c)}  # type: ignore[index]
                if table.cann_row(row["cann"])["release"] not in named:  # type: ignore[index]
                    found.append(f"{where}: names CANN {row['cann']}, its MindSpore {text} {sorted(named)}")
        for text in (row["pin"], row["numpy"], row["transformers"], row["tokenizers"], row["datasets"]):
            spec(where, text)
        for text in (row["cann"], row["hdk"]):
            if text:
                version(where, text)
        if row["cann"] and table.cann_row(row["cann"]) is None:
            found.append(f"{where}: CANN {row['cann']} is not in the table")
        found.extend(f"{where}: Python {p} is not listed" for p in row["python"] if p not in data["python"])
        sources(where, row["source"])
    for chip in table.chips:
        sources(f"chip {chip['family']}", chip["source"])
    for text in [row["release"] for row in data["numpy"]] + data["protobuf"]:
        version("numpy or protobuf", text)
    for row in data["numpy"]:
        spec(f"numpy {row['release']}", row["python"])
    for name, rows in data["ecosystem"].items():
        for row in rows:
            try:
                if any(sign in row["mindspore"] for sign in "<>="):
                    in_range("2.7.0", row["mindspore"])
            except ValueError:
                found.append(f"{name} {row['release']}: {row['mindspore']!r} is no range")
    return found
