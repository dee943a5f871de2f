"""The table of versions agrees with itself, and is read as its authors meant it."""

import json
import os

import pytest

from doctor import versions, versionschema
from doctor.ruleschema import RuleError
from doctor.version import AscendVersion

PATH = versions.path()
TABLE = versions.load()


def changed(**parts):
    data = json.loads(json.dumps(versionschema.read(PATH)))
    for name, (number, field, value) in parts.items():
        row = data[name][number]
        *heads, last = field.split(".")
        for head in heads:
            row = row[head]
        row[last] = value
    return data


def test_the_table_agrees_with_itself():
    assert versionschema.lint(versionschema.read(PATH)) == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"cann": (0, "release", "six")}, "is no version"),
        ({"cann": (0, "release", "9.9.9")}, "do not ascend"),
        ({"cann": (11, "hdk.floor", "25.3")}, "below the floor"),
        ({"cann": (11, "hdk.source", ["NOBODY"])}, "not listed"),
        ({"cann": (11, "internal", "8.4")}, "differs"),
        ({"mindspore": (-1, "cann.accepted", ["8.5"])}, "does not accept it"),
        ({"mindspore": (-1, "cann.recommended", ["12.0.0"])}, "does not have"),
        ({"mindspore": (-1, "cann.accepted", ["9.1", "9.7"])}, "no CANN has it"),
        ({"mindspore": (-1, "numpy", "about 1.2")}, "is no range"),
        ({"mindspore": (-1, "python", ["3.99"])}, "is not listed"),
        ({"mindformers": (-3, "mindspore", ["2.77.0"])}, "not in the table"),
        ({"mindformers": (-3, "pin", "~=2.7.2")}, "outside its own pin"),
        ({"mindformers": (-3, "cann", "8.2.RC1")}, "names CANN"),
        ({"mindformers": (-3, "source", [])}, "names no source"),
    ],
)
def test_a_contradiction_is_found(parts, said):
    assert any(said in line for line in versionschema.lint(changed(**parts)))


def test_a_table_of_another_form_names_its_file(tmp_path):
    place = tmp_path / "versions.yaml"
    place.write_text("schema: 1\ncann: 7\n")
    with pytest.raises(RuleError, match=r"versions\.yaml"):
        versions.load(str(tmp_path))


def test_a_damaged_cache_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCTOR_CACHE", str(tmp_path / "cache"))
    versions.load.cache_clear()
    first = versions.load()
    (kept,) = [n for n in os.listdir(tmp_path / "cache") if n.startswith("versions-")]
    (tmp_path / "cache" / kept).write_bytes(b"\0\0\0\0{}")
    versions.load.cache_clear()
    assert versions.load().data == first.data
    versions.load.cache_clear()


@pytest.mark.parametrize(
    ("asked", "row", "internal"),
    [
        ("8.0.RC2.beta1", "8.0.RC2", "7.3"),
        ("8.0.0", "8.0.0", "7.6"),
        ("8.0.RC2.2", "8.0.RC2", "7.3"),
        ("8.2.RC2", "8.2.RC1", "8.2"),
        ("8.3.RC1.alpha003", "8.3.RC1", "8.3"),
        ("8.5.1", "8.5.0", "8.5"),
        ("8.5.2", "8.5.2", "8.5"),
        ("9.0.0-beta.1", "9.0.0", "9.0"),
        ("9.9.0", None, "9.9"),
        ("7.9.0", None, ""),
        ("junk", None, ""),
        ("", None, ""),
        (None, None, ""),
    ],
)
def test_a_cann_number_finds_its_row(asked, row, internal):
    found = TABLE.cann_row(asked)
    assert (found and found["release"]) == row
    assert TABLE.internal(asked) == internal


def test_the_internal_number_names_the_market_ones():
    assert TABLE.market("7.6.0.1.220") == ["8.0.0"]
    assert TABLE.market("8.5") == ["8.5.0", "8.5.2"]
    assert TABLE.market("6.11") == [] == TABLE.market("")


@pytest.mark.parametrize(
    ("asked", "row"), [("2.7.1.post1", "2.7.1"), ("2.7.0", "2.7.0"), ("2.6.0.dev20250323", "2.6.0"),
                   ("2.3.0rc2", "2.3.0rc2"),
                   ("2.10.0", "2.10.0"), ("2.99.0", None), ("x", None), (None, None)]
)  # fmt: skip
def test_a_mindspore_number_finds_its_row(asked, row):
    found = TABLE.mindspore_row(asked)
    assert (found and found["release"]) == row


@pytest.mark.parametrize(
    ("name", "chip"),
    [("910B3", "910b"), ("Ascend910B4-1", "910b"), ("910ProB", "910"), ("910A", "910"), ("Ascend910_9391", "a3"),
     ("310P3", "310p"), ("950PR_9599", "950"), ("910", None), ("910B9", None), ("", None), (None, None)],
)  # fmt: skip
def test_a_chip_finds_its_family(name, chip):
    found = TABLE.chip(name)
    assert (found and found["cann_chip"]) == chip


@pytest.mark.parametrize(
    ("version", "spec", "ok"),
    [
        ("2.7.2", "~=2.7.2", True),
        ("2.7.3", "~=2.7.2", True),
        ("2.8.0", "~=2.7.2", False),
        ("2.7.1.post1", "~=2.7.1", True),
        ("2.7.0", "~=2.7.0rc1", True),
        ("2.7.2", "~=2.7.0rc1", True),
        ("2.6.0", "~=2.6.0rc1", True),
        ("1.26.4", "<2.0.0,>=1.20.0", True),
        ("2.0.0", "<2.0.0,>=1.20.0", False),
        ("2.4.6", "<2", False),
        ("1.24.4", "<1.25", True),
        ("7.34.1", ">=7.34.1", True),
        ("3.20.3", "==3.20.*", True),
        ("3.21.0", "==3.20.*", False),
        ("3.21.0", "!=3.20.*", True),
        ("1.0", "", True),
        ("1.0", "what", None),
        ("what", ">=1", None),
        ("4.51.3", "===4.51.3", True),
    ],
)
def test_a_requirement_is_read_as_pip_reads_it(version, spec, ok):
    assert versions.satisfies(version, spec) is ok


@pytest.mark.parametrize(
    ("driver", "pattern", "ok"),
    [
        ("25.2.0", "25.2.X", True),
        ("25.2.rc1", "25.2.X", True),
        ("25.0.rc1.1", "25.0.RC1", True),
        ("24.1.rc2.b030", "24.1.RC2", True),
        ("24.1.rc3", "24.1.0", False),
        ("25.2.3", "25.2.0", True),
        ("25.3.rc1", "25.2.0", False),
        ("junk", "25.2.0", False),
        ("", "25.2.X", False),
    ],
)
def test_a_driver_fits_the_pattern_of_its_series(driver, pattern, ok):
    assert versions.hdk_fits(driver, pattern) is ok


def test_every_recommended_pair_is_accepted_by_its_driver_row():
    for row in TABLE.mindspore:
        for release in row["cann"]["recommended"]:
            cann = TABLE.cann_row(release)
            assert cann and cann["hdk"]["recommended"], release
    assert [AscendVersion(r["release"]) for r in TABLE.cann] == sorted(AscendVersion(r["release"]) for r in TABLE.cann)
