"""Uses against the tables: what is gone is found in every spelling, what is there is left alone."""

import itertools

import pytest

from doctor.source import api, table, tree
from doctor.source.api import Known, Target


def troubles(text, target=Target("2.10.0"), patched=()):  # noqa: B008 - a frozen tuple
    module = tree.read("a.py", text.encode())
    return api.judge(module, Known(target), frozenset(patched))


def spellings(module, name):
    """Sources that use ``module.name``: by alias, from-import, whole chain, from the parent, chain by chain."""
    parent, _, last = module.rpartition(".")
    top, _, rest = module.partition(".")
    yield f"import {module} as zz\nx = zz.{name}\n"
    yield f"from {module} import {name} as yy\nprint(yy)\n"
    yield f"import {module}\nx = {module}.{name}(1)\n"
    if parent:
        yield f"from {parent} import {last}\nclass A:\n    def f(self):\n        return {last}.{name}()\n"
    yield f"import {top} as ms\ndef f():\n    q = ms{'.' + rest if rest else ''}\n    return q.{name}\n"


def removed(package, old, new):
    """(module, name) of public modules that only the table ``old`` has."""
    before, after = table.load(package, old), table.load(package, new)
    for module in before.data["modules"]:
        if before.is_open(module) or any(part.startswith("_") for part in module.split(".")):
            continue
        for name in before.public(module):
            if name not in after.space(module) and before.space(module)[name] != "?":
                yield module, name


@pytest.mark.parametrize("package", ["mindspore", "mindformers"])
def test_what_a_release_lacks_is_found_in_every_spelling(package):
    versions = list(table.index(package))
    found = planted = 0
    for newer, older in itertools.pairwise(versions):
        for old, new in ((older, newer), (newer, older)):
            known = Known(Target(**{package: new}))
            names = sorted(removed(package, old, new))
            for module, name in names[:: max(1, len(names) // 60)]:
                for text in spellings(module, name):
                    planted += 1
                    kinds = {t.kind for t in api.judge(tree.read("a.py", text.encode()), known)}
                    found += bool(kinds & {"absent", "module", "member"})
    assert planted > 1000
    assert found / planted >= 0.98


@pytest.mark.parametrize("version", list(table.index("mindspore")))
def test_what_a_release_has_is_left_alone(version):
    whole = table.load("mindspore", version)
    known = Known(Target(version))
    wrong = []
    for module in (
        "mindspore",
        "mindspore.nn",
        "mindspore.ops",
        "mindspore.dataset",
        "mindspore.train",
        "mindspore.mint",
    ):
        if module not in whole.data["modules"]:
            continue
        text = f"import {module} as m\n" + "".join(f"m.{name}\n" for name in sorted(whole.public(module)))
        found = api.judge(tree.read("a.py", text.encode()), known)
        wrong += [t for t in found if t.kind not in ("deprecated", "context_old")]
    assert wrong == []


@pytest.mark.parametrize(
    ("call", "parameters", "wanted"),
    [
        ("f(1, 2)", "a,b", []),
        ("f(1, 2, 3)", "a,b", [("positional", "3")]),
        ("f(1, c=2)", "a,b=", [("keyword", "c")]),
        ("f(1, a=2)", "a,b=", [("twice", "a")]),
        ("f(*x, c=2)", "a,b", [("keyword", "c")]),
        ("f(*x)", "a", []),
        ("f(**x)", "a", []),
        ("f(1, 2, 3, z=1)", "a,*rest,z=", []),
        ("f(1, 2)", "a,*,b=", [("positional", "2")]),
        ("f(a=1)", "a,/,b=", [("keyword", "a")]),
        ("f(1, anything=2)", "a,**kw", []),
        ("f(x=1)", "", [("keyword", "x")]),
    ],
)
def test_arguments_that_a_signature_does_not_take(call, parameters, wanted):
    import ast

    assert api.mismatch(ast.parse(call).body[0].value, parameters) == wanted


def test_a_version_between_two_tables_only_names_what_both_lack():
    target = Target("2.3.1")
    text = "from mindspore import ops, nn\nops.FlashAttention\nops.flash_attention_score\nnn.Dense(1, 2, zzz=3)\n"
    found = troubles(text, target)
    assert [(t.what, t.exact, t.given) for t in found] == [("FlashAttention", False, True)]


def test_an_unknown_version_is_judged_by_the_newest_table():
    found = troubles("from mindspore import ops\nops.FlashAttention\n", Target("", "", False))
    assert [(t.version, t.exact, t.given) for t in found] == [("2.10.0", False, False)]
    assert troubles("from mindspore import ops\nops.FlashAttention\n", Target("master")) == []


def test_names_that_the_code_itself_gives_are_left_alone():
    text = "import mindspore as ms\nms.ops.mine = 1\nms.ops.mine\nsetattr(ms.Tensor, 'cuda', f)\n"
    module = tree.read("a.py", text.encode())
    given = api.patches(module)
    assert given == {"mindspore.ops.mine", "mindspore.Tensor.cuda"}
    assert troubles(text, patched=given) == []
    assert troubles("import mindspore as ms\nx = ms.Tensor(1)\nx.cuda()\n", patched=given) == []


def test_each_missing_thing_is_said_once_where_it_first_stands():
    found = troubles("from mindspore import FlashX\na = FlashX\nb = FlashX.y.z\n")
    assert [(t.name, t.line) for t in found] == [("mindspore.FlashX", 1)]


def test_the_replacement_comes_from_the_table_or_another_module():
    found = troubles("from mindspore import ops\nops.FlashAttention\n")
    assert "flash_attention_score" in found[0].use["en"]
    found = troubles("from mindspore import ops\nops.CrossEntropyLoss\n")
    assert found[0].use["zh"] == "mindspore.nn.CrossEntropyLoss"
    found = troubles("from mindspore import nn\nnn.LayerNorm((4,), eps=1e-5)\n")
    assert found[0].use["en"] == "epsilon="


def test_star_imports_bring_public_names():
    text = "from mindspore.nn import *\nd = Dense(1, 2, zzz=3)\n"
    assert [t.what for t in troubles(text)] == ["zzz"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('import mindspore.ops as A\nx = getattr(A, "{name}")\n', 2),
        ("from mindspore.ops import *\nx = {name}(1)\n", 2),
        ('import importlib\nA = importlib.import_module("mindspore.ops")\nx = A.{name}\n', 3),
        ("import mindspore.ops as A\n@A.{name}\ndef f(x):\n    return x\n", 2),
        ("from functools import partial\nimport mindspore.ops as A\nf = partial(A.{name}, 1)\n", 3),
        ('import mindspore.ops as A\nx = getattr(A, "{name}", None)\n', 0),
        ("try:\n    from mindspore.ops import {name}\nexcept ImportError:\n    {name} = None\n", 0),
        ("from mindspore.ops import *\nfrom mine import *\nx = {name}(1)\n", 0),
        ("from mindspore.ops import *\ndef {name}(x):\n    return x\ny = {name}(1)\n", 0),
    ],
)
def test_a_name_asked_for_in_a_roundabout_way_is_found_unless_its_absence_is_provided_for(text, line):
    here, other = table.load("mindspore", "2.0.0"), table.load("mindspore", "2.7.0")
    name = next(n for n in sorted(other.public("mindspore.ops")) if other.find(f"mindspore.ops.{n}").state == "function"
                and here.find(f"mindspore.ops.{n}").state == "absent" and len(n) > 4)  # fmt: skip
    found = troubles(text.replace("{name}", name), Target("2.0.0", "", True))
    assert [t.line for t in found if t.kind == "absent"] == ([line] if line else [])


def test_methods_that_a_release_lost_are_found_also_on_classes_with_attributes_of_their_own():
    lost = []
    old, new = table.load("mindspore", "2.0.0"), table.load("mindspore", "2.7.0")
    for name in sorted(old.public("mindspore.nn")):
        found = old.find(f"mindspore.nn.{name}")
        if found.state != "class" or new.find(f"mindspore.nn.{name}").state != "class":
            continue
        here = new.members(new.find(f"mindspore.nn.{name}").where)[0]
        lost += [(name, m) for m, how in old.members(found.where)[0].items()
                 if how.startswith("(") and not m.startswith("_") and m not in here]  # fmt: skip
    assert len(lost) > 100
    known = Known(Target("2.7.0"))
    found = 0
    for name, method in lost[::10]:
        text = f"from mindspore import nn\nnn.{name}.{method}\n"
        found += any(t.kind == "member" for t in api.judge(tree.read("a.py", text.encode()), known))
    assert found / len(lost[::10]) >= 0.98


def test_every_replacement_that_is_a_plain_name_exists():
    import re

    newest = table.load("mindspore", next(iter(table.index("mindspore"))))
    for name, texts in api.renames().items():
        assert re.search(r"\S", texts["zh"]) and re.search(r"\S", texts["en"]), name
        for word in re.findall(r"\bmindspore(?:\.\w+)+", texts["en"]):
            assert newest.find(word).state != "absent", (name, word)
