"""The report of ``doctor check``: what is wrong first, short where all is well, no line wider than the terminal."""

import re
from pathlib import Path

import pytest

from doctor import checkup
from doctor.hosts.compose import load
from doctor.render.checks import counts, layout
from doctor.render.safe import width
from doctor.render.text import plain, step_rows, steps, wrap
from doctor.rulebase import load as load_rules

HOSTS = Path(__file__).resolve().parent.parent.parent / "fixtures" / "hosts"
SOUND = ("a2-8p", "a3-16d", "910a-8p", "a2-container-one-card", "cpu")
BROKEN = (
    "npu-alarm-hbm-ecc", "npu-card-lost", "npu-smi-dies-half-way", "npu-driver-not-complete",
    "container-mounts-missing", "hccl-link-flapping", "hccl-whitelist-without-file", "ver-driver-too-old",
    "ver-cann-not-sourced", "env-disk-full", "env-host-name-unresolvable", "run-port-busy",
)  # fmt: skip
HOLE = re.compile(r".{0,20}[：:] ?(?:。|\. ).{0,20}|.{0,20}(?:（）| \(\)|doctor:\w|：\s*；).{0,20}")
CODE = re.compile(r".{0,20}(?:: flapping|：flapping|（unset|absent|: cwd|：cwd|（LISTEN).{0,20}")
BASE = load_rules()
_reports: dict[str, object] = {}


def report(name):
    if name not in _reports:
        _reports[name] = checkup.check(load(str(HOSTS / f"{name}.yaml")), base=BASE)
    return _reports[name]


def text(name, lang="en", **options):
    return plain(layout(report(name), lang, **options))


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("name", SOUND)
def test_a_sound_host_fits_on_one_screen(name, lang):
    assert len(text(name, lang, columns=80).splitlines()) <= 24


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", [*SOUND, *BROKEN])
def test_only_what_must_be_copied_whole_is_wider_than_the_terminal(name, columns, lang):
    for line in text(name, lang, columns=columns).splitlines():
        longest = max((width(word) for word in line.split()), default=0)
        assert width(line) <= columns or line.lstrip().startswith("$ ") or longest > columns // 3, line


@pytest.mark.parametrize("lang", ["zh", "en"])
@pytest.mark.parametrize("name", BROKEN)
def test_texts_have_no_holes_and_no_codes(name, lang):
    shown = text(name, lang, every=True, columns=120)
    assert "[[" not in shown and "]]" not in shown and not re.search(r"\{\w+\??\}", shown)
    assert not HOLE.findall(shown)
    if lang == "zh":
        assert not CODE.findall(shown)


def test_what_is_wrong_stands_before_the_chain():
    shown = text("ver-driver-too-old")
    assert shown.index("VER508") < shown.index("Version chain")
    assert shown.index("not ready to train") == 2


def test_what_is_well_is_short_and_all_shows_everything():
    short, full = text("a2-8p"), text("a2-8p", every=True)
    assert "The rank table is strict JSON" not in short and "The rank table is strict JSON" in full
    assert "├─ 0" not in short and "├─ 0" in full
    assert all(f.id in full for f in report("a2-8p").findings)


def test_the_devices_are_drawn_where_a_finding_is_about_them():
    shown = text("hccl-link-down")
    assert "──✖──" in shown and "192.0.2.27" not in shown
    assert "NPU2 HCCS" in text("npu-pair-without-hccs")


def test_checks_are_counted_once_and_advice_apart():
    assert re.search(r"\d+ checks: 1 advice, \d+ passed", counts(report("a2-training"), "en"))
    assert "failed" not in counts(report("a2-training"), "en")
    assert "1 failed" in counts(report("npu-left-over-processes"), "en")


def test_a_container_shows_the_devices_it_was_given():
    assert "1 个设备" in text("a2-container-one-card", "zh")


def test_steps_have_lines_of_their_own():
    assert steps("Look: 1) lspci (see 2) and count. 2) dmesg") == ["Look:", "1) lspci (see 2) and count.", "2) dmesg"]
    assert steps("先看：1) 甲。2) 乙。") == ["先看：", "1) 甲。", "2) 乙。"]
    assert steps("no list, version 1) of it") == ["no list, version 1) of it"]
    assert step_rows("1) one two three. 2) four", 12) == ["1) one two", "   three.", "2) four"]


@pytest.mark.parametrize("columns", range(8, 40))
def test_no_line_begins_with_a_closing_mark_or_ends_with_an_opening_one(columns):
    rows = wrap("集合通信会变慢或超时。查地址（-ip -g、-gateway -g）、交换机《手册》，再看“日志”。", columns)
    assert not any(row[0] in "，。；：！？、）》”" or row[-1] in "（《“" for row in rows), rows


def test_a_value_with_words_is_said_in_them():
    whole = {"words": {"near": {"zh": "接近", "en": "close"}}}
    said = checkup.worded({"zh": "{a}；{b}", "en": "{a}; {b}"}, {"a": "near", "b": "far, near"}, whole)
    assert said == {"zh": "接近；far、接近", "en": "close; far, close"}


def test_a_piece_without_its_value_is_left_out():
    whole = {"words": {}}
    both = {"zh": "坏了[[，码 {code?}]]。", "en": "broken[[, code {code?}]]."}
    assert checkup.worded(both, {}, whole) == {"zh": "坏了。", "en": "broken."}
    assert checkup.worded(both, {"code": "7"}, whole)["en"] == "broken, code 7."


def test_an_npu_whose_driver_does_not_run_is_not_said_to_be_absent():
    assert "no NPU here" in text("cpu").splitlines()[1]
    assert "no NPU here" not in text("npu-kernel-upgraded")
