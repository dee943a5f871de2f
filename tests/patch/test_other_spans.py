"""Edits of JSON, shell and Python files."""

import json
import random
import subprocess

import pytest

from doctor.model import Edit
from doctor.patch import jsonspans, plan, shellspans
from doctor.patch.spans import Refused


def change(tmp_path, name, text, *edits):
    """The text of a file after some (key, new)."""
    path = tmp_path / name
    path.write_bytes(text.encode())
    made = plan.plan([Edit(str(path), key, "", new) for key, new in edits])
    return made.files[0].after.decode()


def refusal(tmp_path, name, text, *edits):
    """The code of the refusal."""
    with pytest.raises(Refused) as caught:
        change(tmp_path, name, text, *edits)
    return caught.value.code


JSON = '{\n  "a": 1,\n  "b": {"c": "x\\n\\u4e2d", "d": [1, {"e": null}]},\n  "f": -1.5e-3\n}\n'


@pytest.mark.parametrize(
    ("key", "new", "old", "text"),
    [
        ("a", "2", '"a": 1', '"a": 2'),
        ("b.c", '"y"', '"x\\n\\u4e2d"', '"y"'),
        ("b.d[1].e", "true", "null", "true"),
        ("b.d[0]", "[]", "[1,", "[[],"),
        ("f", "1e-3", "-1.5e-3", "1e-3"),
        ("g", "3", '  "f"', '  "g": 3,\n  "f"'),
        ("b.g", "3", '"d"', '"g": 3, "d"'),
        ("h.i", "3", '  "f"', '  "h": {"i": 3},\n  "f"'),
        ("b.d[2]", "3", "null}]", "null}, 3]"),
        ("a", "", '"a": 1,\n  ', ""),
        ("f", "", ',\n  "f": -1.5e-3', ""),
    ],
)
def test_json_values_are_changed_where_they_stand(tmp_path, key, new, old, text):
    assert change(tmp_path, "c.json", JSON, (key, new)) == JSON.replace(old, text, 1)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1,}', "json_syntax"),
        ('{"a": 1} x', "json_syntax"),
        ("{'a': 1}", "json_syntax"),
        ('{"a": 1, "a": 2}', "double_key"),
        ("[1]", "not_a_mapping"),
        ('{"a": ' + "[" * 99 + "]" * 99 + "}", "json_too_deep"),
        ("", "json_syntax"),
        ('{"a": tru}', "json_syntax"),
    ],
)
def test_bad_json_is_refused(tmp_path, text, code):
    assert refusal(tmp_path, "c.json", text, ("a", "9")) == code


def test_the_json_scanner_reads_what_the_library_reads():
    random.seed(3)

    def value(depth):
        kind = random.randrange(7 if depth < 4 else 5)
        if kind == 5:
            return {random.choice('abc中"\\é'): value(depth + 1) for _ in range(random.randrange(4))}
        if kind == 6:
            return [value(depth + 1) for _ in range(random.randrange(4))]
        return [
            None,
            True,
            random.randrange(-99, 99),
            random.random() * 10 ** random.randrange(-20, 20),
            "x\n\t\u2028😀",
        ][kind]

    for _ in range(200):
        made = {"k": value(0), "l": value(0)}
        text = json.dumps(made, indent=random.choice([None, 2]), ensure_ascii=random.random() < 0.5)
        root = jsonspans.read(text)
        for name, start, node in root.pairs:
            assert json.loads(text[node.start : node.end]) == made[name]
            assert text[start:].startswith(json.dumps(name))


SHELL = """#!/bin/bash
# X=comment
set -e
export HCCL_CONNECT_TIMEOUT=120   # seconds
export A="old value" B=2
GLOG_v=3 python train.py --config "$1" Y=5
if [ -n "$C" ]; then
  export C=1
fi
cat <<EOF
export D=in document
EOF
E=$(date +%s; echo "x y") \\
  python x.py
"""


@pytest.mark.parametrize(
    ("key", "new", "old", "text"),
    [
        ("HCCL_CONNECT_TIMEOUT", "600", "TIMEOUT=120", "TIMEOUT=600"),
        ("A", "'new'", '"old value"', "'new'"),
        ("B", "3", "B=2", "B=3"),
        ("GLOG_v", "1", "GLOG_v=3", "GLOG_v=1"),
        ("C", "2", "export C=1", "export C=2"),
        ("E", "5", '$(date +%s; echo "x y")', "5"),
        ("NEW", "1", "B=2\n", "B=2\nexport NEW=1\n"),
        ("D", "1", "B=2\n", "B=2\nexport D=1\n"),
        ("X", "1", "B=2\n", "B=2\nexport X=1\n"),
        ("GLOG_v", "", "GLOG_v=3 ", ""),
        ("HCCL_CONNECT_TIMEOUT", "", "export HCCL_CONNECT_TIMEOUT=120   # seconds\n", ""),
    ],
)
def test_shell_assignments_are_changed_where_they_stand(tmp_path, key, new, old, text):
    after = change(tmp_path, "run.sh", SHELL, (key, new))
    assert after == SHELL.replace(old, text, 1)
    assert subprocess.run(["bash", "-n"], input=after.encode(), check=False).returncode == 0


MEGATRON = """TP=4
# --num-layers 12 was too few
ARGS="
    --num-layers 24 \\
    --tensor-model-parallel-size ${TP} \\
    --swiglu --lr 3e-4
"
python train.py $ARGS --seq-length=4096 --swiglu-x
"""


@pytest.mark.parametrize(
    ("key", "new", "old", "text"),
    [
        ("--num-layers", "32", "--num-layers 24", "--num-layers 32"),
        ("--lr", "1e-5", "3e-4", "1e-5"),
        ("--seq-length", "8192", "4096", "8192"),
        ("TP", "8", "TP=4", "TP=8"),
    ],
)
def test_options_are_changed_wherever_they_stand(tmp_path, key, new, old, text):
    assert change(tmp_path, "run.sh", MEGATRON, (key, new)) == MEGATRON.replace(old, text, 1)


def test_options_without_a_value_of_their_own_are_left_alone(tmp_path):
    for key in ("--swiglu", "--tensor-model-parallel-size", "--none"):
        assert refusal(tmp_path, "run.sh", MEGATRON, (key, "1")) == "no_key"
    assert refusal(tmp_path, "run.sh", MEGATRON + "x --lr 1\n", ("--lr", "1")) == "several_places"
    assert refusal(tmp_path, "run.sh", MEGATRON, ("--lr", "'a b'")) == "bad_value"
    assert refusal(tmp_path, "run.sh", MEGATRON, ("--lr", "")) == "cannot_remove"


def test_a_script_without_exports_gets_one_behind_its_head(tmp_path):
    assert change(tmp_path, "run.sh", "#!/bin/sh\n# words\n\npython x.py\n", ("A", "1")) == (
        "#!/bin/sh\n# words\nexport A=1\n\npython x.py\n"
    )


@pytest.mark.parametrize(
    ("text", "key", "new", "code"),
    [
        ("A=1\nA=2\n", "A", "3", "several_places"),
        ("A='x\n", "A", "3", "shell_quote"),
        ("A=1\n", "A", "3; rm x", "bad_value"),
        ("A=1\n", "A", "a b", "bad_value"),
        ("A=1\n", "A-B", "3", "bad_key"),
        ("A=1\n", "B", "", "no_key"),
        ("A=(1 2)\n", "A", "3", "shell_array"),
        ("if true; then\n  export A=1\nfi\n", "A", "", "cannot_remove"),
    ],
)
def test_unclear_scripts_are_refused(tmp_path, text, key, new, code):
    assert refusal(tmp_path, "run.sh", text, (key, new)) == code


@pytest.mark.parametrize("value", ["", "a b", "it's", "$HOME", '"', "中", "*", "#x", "a;b", "x=y", "-n"])
def test_a_spelled_word_is_one_word_for_the_shell(value):
    for like in ("", '"', "'"):
        word = shellspans.spell(value, like)
        out = subprocess.run(["sh", "-c", f'X={word}; printf %s "$X"'], capture_output=True, check=True).stdout
        assert out.decode() == value


def test_scripts_of_any_encoding_stay_as_they_are(tmp_path):
    path = tmp_path / "run.sh"
    path.write_bytes("# 训练\nexport A=1\n".encode("gbk"))
    made = plan.plan([Edit(str(path), "A", "", "2")])
    assert made.files[0].after == "# 训练\nexport A=2\n".encode("gbk")


PYTHON = '''"""词"""
import mindspore.nn as nn
BATCH = 8  # 批
net = nn.Dropout(keep_prob=0.9)
x = foo(nn.Dense(1, 2), nn.Dense(3, 4,), 中=nn.ReLU())
y = call(
    a,
    b=2,  # two
)
z = g()
w = h((1), *args, **kw)
'''


@pytest.mark.parametrize(
    ("edits", "old", "text"),
    [
        ([("BATCH", "16")], "BATCH = 8", "BATCH = 16"),
        ([("4:nn.Dropout(keep_prob)", "0.5")], "0.9", "0.5"),
        ([("4:nn.Dropout(p)", "0.1")], "keep_prob=0.9", "keep_prob=0.9, p=0.1"),
        ([("4:nn.Dropout(keep_prob)", ""), ("4:nn.Dropout(p)", "0.1")], "keep_prob=0.9", "p=0.1"),
        ([("4:nn.Dropout", "ops.Dropout")], "nn.Dropout", "ops.Dropout"),
        ([("5:nn.ReLU(x)", "1")], "nn.ReLU()", "nn.ReLU(x=1)"),
        ([("5:foo(k)", "1")], "中=nn.ReLU()", "中=nn.ReLU(), k=1"),
        ([("6:call(c)", "3")], "    b=2,  # two\n", "    b=2,  # two\n    c=3,\n"),
        ([("6:call(0)", "aa")], "    a,", "    aa,"),
        ([("10:g(k)", "[1]")], "g()", "g(k=[1])"),
        ([("11:h(k)", "1")], "**kw)", "**kw, k=1)"),
        ([("6:call(c)", "3"), ("10:g(k)", "1")], "", ""),
    ],
)  # fmt: skip
def test_python_arguments_are_changed_where_they_stand(tmp_path, edits, old, text):
    after = change(tmp_path, "m.py", PYTHON, *edits)
    if not old:
        assert "    c=3,\n" in after and "z = g(k=1)" in after
    else:
        assert after == PYTHON.replace(old, text, 1)
    compile(after, "m.py", "exec")


def test_a_fresh_call_without_arguments_left_is_not_made_by_taking_and_adding_in_any_order(tmp_path):
    for edits in ([("1:f(p)", "1"), ("1:f(q)", "")], [("1:f(q)", ""), ("1:f(p)", "1")]):
        assert change(tmp_path, "m.py", "f(q=2)\n", *edits) == "f(p=1)\n"


@pytest.mark.parametrize(
    ("text", "key", "new", "code"),
    [
        ("print 'x'\n", "A", "1", "python_syntax"),
        ("f(1)\n", "1:f(3)", "1", "no_item"),
        ("f(1); f(2)\n", "1:f(k)", "1", "several_places"),
        ("f(1)\n", "2:f(k)", "1", "no_key"),
        ("A = 1\nA = 2\n", "A", "3", "several_places"),
        ("f(1)\n", "1:f(0)", "1, 2", "changes_more"),
        ("f(1)\n", "1:f(0)", ")", "bad_value"),
        ("f(1)\n", "1:f", "x y", "bad_value"),
    ],
)
def test_unclear_sources_are_refused(tmp_path, text, key, new, code):
    assert refusal(tmp_path, "m.py", text, (key, new)) == code


def test_a_ready_made_rewrite_stays_inside_what_it_replaces(tmp_path):
    path = tmp_path / "m.py"
    text = "import a\nx = nn.Old(1, 2)\ny = 3\n"
    path.write_text(text)
    start = text.index("nn.Old")
    made = plan.plan([Edit(str(path), "API001", "nn.Old(1, 2)", "nn.New(2, 1)", start, start + 12)])
    assert made.files[0].after.decode() == text.replace("nn.Old(1, 2)", "nn.New(2, 1)")
    with pytest.raises(Refused) as caught:
        plan.plan([Edit(str(path), "API001", "nn.Old(1, 2)", "nn.New()\nz = 1", start, start + 12)])
    assert caught.value.code == "changes_more"
    with pytest.raises(Refused) as caught:
        plan.plan([Edit(str(path), "API001", "nn.Old(1, 2)", "nn.New(", start, start + 12)])
    assert caught.value.code == "python_syntax"
