"""The catalogue of error codes and the topics: complete, bilingual, and found the way people type codes."""

from __future__ import annotations

import collections
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from doctor import codes
from doctor.model import ROLES, SEVERITIES

RULES = pathlib.Path(__file__).resolve().parent.parent / "rules"
CHINESE = re.compile("[\u4e00-\u9fff]")
LETTERED = re.compile(r"[EW][A-Z0-9][0-9]{4}")

# Counted in the sources themselves: error_code.json and the guides of CANN for the lettered codes (E8 holds one, EF
# one, EG two and EI two that only logs and forums name), headers and documents for the numbers.
PER_LETTERS = {
    "E1": 119, "E2": 9, "E3": 18, "E4": 8, "E5": 39, "E6": 172, "E7": 19, "E8": 5, "E9": 4, "EA": 1, "EB": 6,
    "EE": 28, "EF": 9, "EG": 2, "EH": 15, "EI": 20, "EJ": 4, "EK": 12, "EL": 22, "EM": 2, "EO": 5, "EP": 9, "EZ": 15,
    "W1": 3, "W4": 3, "WE": 1,
}  # fmt: skip
NUMBERS_PER_GROUP = {
    "acl": 69, "aclnn": 26, "aicore": 15, "dcmi": 20, "driver": 45, "ge": 38, "hardware": 70, "hccl": 25,
    "hccn_tool": 4, "runtime": 176, "torch_npu": 6,
}  # fmt: skip


@pytest.fixture(scope="module")
def known() -> dict[str, codes.Code]:
    return codes.load(str(RULES / "codes"))


@pytest.fixture(scope="module")
def topics() -> dict[str, dict[str, str]]:
    loaded: dict[str, dict[str, str]] = yaml.safe_load((RULES / "topics.yaml").read_text(encoding="utf-8"))
    return loaded


def found(known: dict[str, codes.Code], text: str) -> list[str]:
    return [code.code for code in codes.lookup(known, text)]


def test_every_code_of_the_sources_is_there(known: dict[str, codes.Code]) -> None:
    assert collections.Counter(key[:2] for key in known if LETTERED.fullmatch(key)) == PER_LETTERS
    numbers = collections.Counter(code.group for key, code in known.items() if not LETTERED.fullmatch(key))
    assert numbers == NUMBERS_PER_GROUP


def test_a_code_is_filed_under_its_own_key_with_words_of_the_house(known: dict[str, codes.Code]) -> None:
    for key, code in known.items():
        assert code.code == key
        assert code.role in ROLES
        assert code.severity in SEVERITIES
        assert code.source


def test_every_topic_is_declared(known: dict[str, codes.Code], topics: dict[str, dict[str, str]]) -> None:
    assert {code.topic for code in known.values()} <= set(topics)


def test_every_text_exists_in_both_languages(known: dict[str, codes.Code]) -> None:
    for code in known.values():
        for text in (code.meaning, code.next):
            if text is None:
                continue
            assert set(text) == {"zh", "en"}, code.code
            assert CHINESE.search(text["zh"]), code.code
            assert text["en"].strip(), code.code
            assert not CHINESE.search(text["en"]), code.code
            assert "%s" not in text["zh"] + text["en"], code.code


def test_every_file_says_what_its_family_is() -> None:
    for path in (RULES / "codes").glob("*.yaml"):
        whole = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        assert whole["group"] == path.stem
        assert CHINESE.search(whole["header"]["zh"])
        assert whole["header"]["en"]


def test_topics_name_their_group_and_both_languages(topics: dict[str, dict[str, str]]) -> None:
    assert len(topics) >= 140
    for label, topic in topics.items():
        assert set(topic) == {"group", "zh", "en"}, label
        assert topic["group"] == label.split(".")[0]
        assert CHINESE.search(topic["zh"]), label
        assert topic["en"] and not CHINESE.search(topic["en"]), label


@pytest.mark.parametrize(
    ("key", "name", "topic"),
    [
        ("EI0006", "Communication_Error_Get_Socket", "hccl.timeout.connect"),
        ("EE9999", "", "runtime.failed"),
        ("107002", "ACL_ERROR_RT_CONTEXT_NULL", "context.invalid"),
        ("207001", "ACL_ERROR_RT_MEMORY_ALLOCATION", "memory.device.exhausted"),
        ("507033", "ACL_ERROR_RT_DEV_SETUP_ERROR", "runtime.device_start"),
        ("561112", "ACLNN_ERR_INNER_OPP_KERNEL_PKG_NOT_FOUND", "version.cann_kernels"),
        ("driver:6", "DRV_ERROR_OUT_OF_MEMORY", "memory.device.exhausted"),
        ("hccl:6", "HCCL_E_NOT_FOUND", "hccl.timeout.connect"),
        ("-8020", "DCMI_ERR_CODE_RESOURCE_OCCUPIED", "device.busy_other_container"),
        ("0x80E18402", "", "device.unhealthy"),
    ],
)
def test_well_known_codes_say_what_they_mean(known: dict[str, codes.Code], key: str, name: str, topic: str) -> None:
    assert (known[key].name, known[key].topic) == (name, topic)


def test_wrappers_are_marked_as_such(known: dict[str, codes.Code]) -> None:
    for key in ("E19999", "EE8888", "EE9999", "EH9999", "EI9999", "EZ9999", "500002", "507011", "ERR00100"):
        assert known[key].role == "wrapper", key


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("EI0006", ["EI0006"]),
        (" ei0006\n", ["EI0006"]),
        ("CODE:EI0006", ["EI0006"]),
        ("507015", ["507015"]),
        ("runtime:507015", ["507015"]),
        ("hccl:507015", []),
        ("0x7020009", ["0x7020009"]),
        ("0x07020016", ["0x7020016"]),
        ("driver:7", ["driver:7"]),
        ("HCCL:7", ["hccl:7"]),
        ("CODE:hccl:7", ["hccl:7"]),
        ("hccl:07", ["hccl:7"]),
        ("-8005", ["-8005"]),
        ("dcmi:8005", ["-8005"]),
        ("dcmi:-8005", ["-8005"]),
        ("8005", []),
        ("80e01801", ["0x80E01801"]),
        ("0X80E01801", ["0x80E01801"]),
        ("81078603", ["0x81078603"]),
        ("aicore:0x800000", ["aicore:0x800000"]),
        ("0x800000", ["aicore:0x800000"]),
        ("0x0000000005010009", ["hccl:9"]),
        ("ACL_ERROR_RT_CONTEXT_NULL", ["107002"]),
        ("err00100", ["ERR00100"]),
    ],
)
def test_a_code_is_found_as_people_write_it(known: dict[str, codes.Code], text: str, keys: list[str]) -> None:
    assert found(known, text) == keys


@pytest.mark.parametrize("text", ["7", "0", "-1", "999", "0x91", "EZ3999", "EI", "nosuch:7", ":", "", "Not_Supported"])
def test_small_numbers_and_unlisted_codes_are_nobodys(known: dict[str, codes.Code], text: str) -> None:
    assert found(known, text) == []


@pytest.mark.parametrize("text", ["9" * 5000, "0x" + "F" * 5000, "\u0667" * 7, "A" * 10**6, "\x00", "CODE:" * 30])
def test_hostile_text_is_answered_with_nothing(known: dict[str, codes.Code], text: str) -> None:
    assert found(known, text) == []


GOOD = """\
group: hccl
header: {zh: 一句话, en: a sentence}
topic: hccl.init
codes:
  - code: EI7777
    role: root
    severity: error
    meaning: {zh: 含义, en: meaning}
    source: a document
"""


def write(folder: pathlib.Path, text: str, name: str = "hccl.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


def test_what_a_file_leaves_out_comes_from_its_group(tmp_path: pathlib.Path) -> None:
    code = codes.load(write(tmp_path, GOOD))["EI7777"]
    assert (code.name, code.topic, code.group, code.next) == ("", "hccl.init", "hccl", None)


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("role: root", "role: rot", 6, "role 'rot'"),
        ("severity: error", "severity: fatal", 7, "severity 'fatal'"),
        ("en: meaning", "de: Sinn", 8, "'de'"),
        (", en: meaning", "", 8, "en is missing"),
        ("en: meaning", "en: ' '", 8, "a text"),
        ("    source: a document\n", "", 5, "source is missing"),
        ("source: a document", "sauce: a document", 9, "'sauce'"),
        ("    severity: error\n", "    severity: error\n    severity: error\n", 8, "twice"),
        ("EI7777", "7", 5, "hccl:7"),
        ("EI7777", "'driver:7'", 5, "another family"),
        ("topic: hccl.init\n", "", 1, "topic is missing"),
        ("codes:", "codes: [", 5, ""),
        ("role: root", "[role]: root", 6, "not expected"),
        ("group: hccl", "- group", 2, ""),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path: pathlib.Path, old: str, new: str, line: int, says: str) -> None:
    folder = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ValueError, match=rf"hccl\.yaml:{line}: .*{re.escape(says)}"):
        codes.load(folder)


@pytest.mark.parametrize("text", ["", "just text", "[1, 2]", "a: &x [*x]", "\x00", "codes: 3"])
def test_what_is_no_catalogue_is_refused(tmp_path: pathlib.Path, text: str) -> None:
    folder = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"hccl\.yaml:\d+: "):
        codes.load(folder)


def test_bytes_that_are_no_text_are_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "hccl.yaml").write_bytes(b"group: \xff\xfe")
    with pytest.raises(ValueError, match=r"hccl\.yaml:1: "):
        codes.load(str(tmp_path))


def test_the_same_code_twice_is_refused_also_across_files(tmp_path: pathlib.Path) -> None:
    write(tmp_path, GOOD)
    folder = write(tmp_path, GOOD.replace("group: hccl", "group: other"), "other.yaml")
    with pytest.raises(ValueError, match=r"other\.yaml:5: EI7777 is listed in hccl already"):
        codes.load(folder)


def test_importing_the_module_loads_nothing_heavy() -> None:
    heavy = "{'yaml', 'dataclasses', 'pathlib', 'subprocess', 'tempfile', 'msgspec', 'rich', 'textual', 'numpy'}"
    seen = subprocess.run(
        [sys.executable, "-c", f"import sys; import doctor.codes; print(sorted({heavy} & set(sys.modules)))"],
        capture_output=True, text=True, check=True, cwd=RULES.parent,
    )  # fmt: skip
    assert seen.stdout.strip() == "[]"
