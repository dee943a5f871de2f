"""Rewrites of Python source: the finding is gone, nothing else differs, and undo brings the bytes back."""

import ast
import importlib.util
import random
import re
from pathlib import Path

import pytest

from doctor import source
from doctor.model import Edit
from doctor.patch import apply, journal, plan, propose, verify
from doctor.patch.propose import Options
from doctor.patch.rewrites import REWRITES
from doctor.patch.spans import Refused
from doctor.rulebase import load

BASE = load()
MENDING = {
    r.id: BASE.whole(r.id) for r in BASE if r.kind == "code" and any(f["rewrite"] for f in BASE.whole(r.id)["fix"])
}
EXAMPLES = [(rule, n) for rule, whole in MENDING.items() for n in range(len(whole["tests"]["hit"]))]
NO_WAY = {
    ("API501", 0), ("API501", 1), ("API501", 3),  # the counterpart is described, not named
    ("API504", 0), ("API504", 1), ("API506", 1),
    ("API507", 0), ("API507", 1), ("API507", 2), ("API507", 3),
    ("CODE535", 1),  # ops.Dropout gives a pair; nn.Dropout does not
    ("CODE568", 1),  # by position
}  # fmt: skip
"""Examples for which nothing exact can be written."""

VARIANTS = {
    "plain": lambda text: text,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "bom": lambda text: "\ufeff" + text,
    "chinese": lambda text: f'"""说明：训练脚本"""  # 注释\n{text}# 结尾',
    "tabs": lambda text: re.sub(r"(?m)^((?: {4})+)", lambda found: "\t" * (len(found[1]) // 4), text),
}


def write(path, text):
    path.write_bytes(text.encode())
    return str(path)


def patched(path, rule, version="", choose=""):
    """(patch, decisions) of the findings of one rule over a file."""
    options = Options((rule,), unsafe=True, mindspore=version, choose={rule: choose} if choose else {})
    return propose.decide(propose.of_found(propose.find([path], options), options, BASE), options)


def fails(path, version=""):
    """Rules that fire on a file, each as often as it does."""
    target = source.Target(version, "", bool(version))
    return sorted(f.id for f in source.check([path], target, BASE) if f.verdict.value == "fail")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("rule", "number"), EXAMPLES)
def test_the_example_of_a_rule_is_mended_and_brought_back(rule, number, variant, tmp_path):
    example = MENDING[rule]["tests"]["hit"][number]
    version = example["versions"].get("mindspore", "") if example.get("versions") else ""
    path = write(tmp_path / "model.py", VARIANTS[variant](example["code"]))
    before, old = fails(path, version), Path(path).read_bytes()
    patch, decisions = patched(path, rule, version)
    if decisions and decisions[0].state == "needs_choice":
        patch, decisions = patched(path, rule, version, "1")
    if (rule, number) in NO_WAY:
        assert patch is None
        return
    assert patch is not None, [(d.state, d.why) for d in decisions]
    book = journal.Journal(str(tmp_path / "journal"))
    entry = apply.apply(patch, book, propose.passing(decisions))
    after = fails(path, version)
    assert after.count(rule) < before.count(rule)
    assert not [one for one in set(after) if after.count(one) > before.count(one)]
    new = Path(path).read_bytes()
    assert (b"\r\n" in new) == (b"\r\n" in old) and new.count(b"\r\n") in (0, new.count(b"\n"))
    ast.parse(new.decode().removeprefix("\ufeff"))
    apply.undo(book, entry)
    assert Path(path).read_bytes() == old


def test_every_rewrite_is_named_by_a_rule():
    assert {f["rewrite"] for whole in MENDING.values() for f in whole["fix"]} == set(REWRITES)


def test_what_changes_results_waits_for_the_word(tmp_path):
    path = write(tmp_path / "m.py", "from mindspore import nn\na = nn.Dropout(0.9)\nb = nn.GELU('tanh')\n")
    made = propose.gather([path], Options(), None, BASE)
    assert {(p.finding.id, p.fix.applicability) for p in made} == {("CODE536", "safe"), ("CODE531", "safe")}
    path = write(tmp_path / "n.py", "import mindspore as ms\nnet = f()\nms.amp.auto_mixed_precision(net, 'O2')\n")
    (one,) = propose.decide(propose.gather([path], Options(), None, BASE), Options())[1]
    assert (one.proposal.finding.id, one.state) == ("CODE513", "needs_unsafe")


def test_a_dropout_that_keeps_little_offers_both_readings(tmp_path):
    path = write(tmp_path / "m.py", "from mindspore import nn\na = nn.Dropout(0.1)\n")
    (one,) = propose.gather([path], Options(("CODE536",)), None, BASE)
    assert one.fix.choices == ("p=0.1", "p=0.9") and not one.fix.edits
    assert "drop" in one.choices[0].text["en"]
    for word, new in (("1", b"nn.Dropout(p=0.1)"), ("p=0.9", b"nn.Dropout(p=0.9)")):
        patch, _ = patched(path, "CODE536", choose=word)
        assert new in patch.files[0].after


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("import mindspore as ms\nm = ms.nn.ModuleList([])\n", "m = ms.nn.CellList([])"),
        ("from mindspore.nn import ModuleList as L\nm = L([])\n", "from mindspore.nn import CellList as L"),
        ("from mindspore.nn import Dense, ModuleList\nm = ModuleList([])\n", "import Dense, CellList as ModuleList"),
        ("import mindspore.nn as N\nclass A(N.Module):\n    pass\n", "class A(N.Cell):"),
        ("from mindspore.nn import *\nm = ModuleList([])\n", None),
        ("from mindspore import nn\ns = f'{nn.ModuleList}'\n", None),
    ],
)
def test_names_are_replaced_as_they_were_imported(text, after, tmp_path):
    patch, _ = patched(write(tmp_path / "m.py", text), "API501", "2.10.0")
    assert (patch is None) if after is None else after.encode() in patch.files[0].after


def test_keys_of_set_context_become_calls_and_the_rest_stays(tmp_path):
    text = ("import mindspore as ms\nif 1:\n\tms.set_context(mode=0, device_target='CPU', device_id=3, "
            "deterministic='ON')\n")  # fmt: skip
    patch, decisions = patched(write(tmp_path / "m.py", text), "API508", "2.10.0")
    assert decisions[0].proposal.fix.applicability == "unsafe"
    assert patch.files[0].after.decode() == (
        "import mindspore as ms\nif 1:\n\tms.set_context(mode=0)\n\tms.set_device('CPU', 3)\n"
        "\tms.set_deterministic(True)\n"
    )


def test_fixes_of_several_lines_make_one_patch(tmp_path):
    text = ("from mindspore import nn, ops\n\nclass A(nn.Cell):\n    def __init__(self):\n        "
            "super().__init__()\n        self.layers = [nn.LayerNorm(8, eps=1e-6), nn.Dense(8, 8, bias=False)]\n"
            "        self.act = math.pi\n    def forward(self, x):\n"
            "        return ops.softmax(x, dim=-1)\n")  # fmt: skip
    path = write(tmp_path / "m.py", text)
    options = Options(unsafe=True)
    patch, decisions = propose.decide(propose.gather([path], options, None, BASE), options)
    assert {d.state for d in decisions} == {"planned"}
    assert patch.files[0].after.decode() == (
        "from mindspore import nn, ops\nimport math\n\nclass A(nn.Cell):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layers = nn.CellList([nn.LayerNorm((8,), epsilon=1e-6), nn.Dense(8, 8, has_bias=False)])\n"
        "        self.act = math.pi\n    def construct(self, x):\n        return ops.softmax(x, axis=-1)\n"
    )


def test_an_edit_beyond_its_place_is_refused():
    before = "a = f(1)\nb = g(2)\n"
    verify.python_spans(before, "a = h(1)\nb = g(2)\n", [(4, 5, 1)])
    with pytest.raises(Refused, match="changes_more"):
        verify.python_spans(before, "a = f(1) + 1\nb = g(2)\n", [(8, 8, 4)])
    with pytest.raises(Refused, match="changes_more"):
        verify.python_spans(before, "a = f(2)\nc = 1\nb = g(2)\n", [(6, 7, 8)])
    with pytest.raises(Refused, match="python_syntax"):
        verify.python_spans(before, "a = f(1\nb = g(2)\n", [(7, 8, 0)])


def test_a_keyword_is_never_given_twice(tmp_path):
    before = "f(a=1, b=2)\n"
    with pytest.raises(Refused, match="not_as_wanted"):
        verify.python_spans(before, "f(b=1, b=2)\n", [(2, 3, 1)])
    path = write(tmp_path / "m.py", "from mindspore import nn\na = nn.LayerNorm((8,), eps=1e-6, epsilon=1e-5)\n")
    assert patched(path, "API504", "2.10.0")[0] is None


def test_a_name_that_runs_today_is_only_replaced_on_demand(tmp_path):
    text = "from mindspore.communication.comm_func import all_reduce\nx = all_reduce(y)[0]\n"
    found = propose.find([write(tmp_path / "m.py", text)], Options(("API506",), mindspore="2.10.0"))
    assert [one.fixes[0]["applicability"] for one in found] == ["unsafe"]


def test_a_rewrite_that_mends_nothing_is_not_made(tmp_path):
    path = write(tmp_path / "m.py", "from mindspore import nn\na = nn.GELU('tanh')\nb = nn.GELU('tanh')\n")
    found = propose.find([path], Options(("CODE531",)))
    assert len(found) == 2
    wrong = found[0]._replace(edits={0: (Edit(path, "x", "b", "c", 45, 46),)})
    assert Path(path).read_bytes()[45:46] == b"b"
    assert [d.state for d in propose.decide(propose.of_found([wrong], Options(), BASE), Options())[1]] == ["refused"]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ("# -*- coding: gbk -*-\nimport mindspore  # 中\n".encode("gbk"), "other_encoding"),
        ("import mindspore  # 中\n".encode("gbk"), "not_utf8"),
        (b"import mindspore\nprint 'a'\n", "python_syntax"),
        (b"import mindspore\0\n", "binary"),
    ],
)
def test_a_file_that_cannot_be_rewritten_says_why(data, code, tmp_path):
    path = tmp_path / "m.py"
    path.write_bytes(data)
    with pytest.raises(Refused, match=code):
        plan.plan([Edit(str(path), "1:f(x)", "", "1")])
    assert propose.find([str(path)], Options()) == []


PLANTED = {
    "CODE538": (r"def construct\(", "def forward("), "CODE552": (r"def construct\(self, ", "def construct("),
    "API501": (r"\(nn\.Cell\)", "(nn.Module)"), "API504": (r"\baxis=", "dim="),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="no MindSpore whose files could be copied")
def test_faults_planted_in_real_files_are_mended_to_the_byte(tmp_path):
    (folder,) = importlib.util.find_spec("mindspore").submodule_search_locations
    files = sorted(p for p in Path(folder).rglob("*.py") if 800 < p.stat().st_size < 60_000)
    rng = random.Random(7)
    rng.shuffle(files)
    mended = refused = 0
    for file in files[:600]:
        text = file.read_bytes().decode("utf-8", "replace")
        for rule, (pattern, new) in PLANTED.items():
            places = list(re.finditer(pattern, text))
            if not places:
                continue
            place = rng.choice(places)
            path = write(tmp_path / "copy.py", text[: place.start()] + new + text[place.end() :])
            if fails(path, "2.10.0").count(rule) <= fails(write(tmp_path / "first.py", text), "2.10.0").count(rule):
                continue
            patch, _ = patched(path, rule, "2.10.0")
            mended += patch is not None and patch.files[0].after.decode() == text
            refused += patch is None
    assert mended > 20 and refused <= mended // 20


def test_a_construct_that_calls_the_cell_by_another_name_is_not_given_a_second_one(tmp_path):
    text = (
        "import mindspore as ms\nfrom mindspore import nn\n\n\nclass A(nn.Cell):\n    def __init__(s):\n"
        "        super().__init__()\n        s.d = nn.Dense(2, 2)\n\n    def construct(s, x):\n        return s.d(x)\n"
    )
    path = write(tmp_path / "a.py", text)
    assert "CODE552" in fails(path, "2.10.0")
    assert patched(path, "CODE552", "2.10.0")[0] is None
