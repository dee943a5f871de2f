"""YAML is read as the consumer reads it, with lines, and bounded."""

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.plan import detect, mindformers
from doctor.plan.schema import Trouble
from doctor.plan.yamltree import MAX_BYTES, Node, decode, nesting, read_bytes, read_tree


def tree(text: str) -> Node:
    found = read_tree(text, "c.yaml")
    assert isinstance(found, Node), found
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a: 1e-5\nb: 1.e-5\nc: 0x10\nd: 010\ne: yes\nf: ~\ng: 2026-01-02\nh: '1'\ni: 1_000\n",
        "base: &b {x: 1, y: 2}\nother: {<<: *b, y: 3}\nlist: [*b, [1, 2]]\n",
        "a:\n- 1\n- {b: c}\n# comment\nd: |\n  text\n  more\n",
        "<<: {a: 1}\nb: 2\n",
        "a: {}\nb: []\nc:\n",
    ],
)
def test_values_are_those_of_safe_load(text):
    assert tree(text).plain() == yaml.safe_load(text)


_SCALAR = st.one_of(
    st.integers(),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", categories=["L", "N"]), max_size=8),
)


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        _SCALAR,
        lambda kids: (
            st.lists(kids, max_size=4) | st.dictionaries(st.text("abcd", min_size=1, max_size=3), kids, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_whatever_is_dumped_is_read_back(value):
    text = yaml.safe_dump({"top": value}, allow_unicode=True)
    assert tree(text).plain() == yaml.safe_load(text)


def test_a_line_is_that_of_the_key():
    root = tree("a: 1\nb:\n  c:\n    - 1\n    - {d: 2}\n")
    assert root.line_of("b") == 2
    assert root.data["b"].line_of("c") == 3
    assert root.data["b"].data["c"].data[1].line_of("d") == 5


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a:\n\tb: 1\n", "tab", 2),
        ("a: 1\n---\nb: 2\n", "several_documents", 2),
        ("a: *nowhere\n", "no_anchor", 1),
        ("a: [1, 2\nb: 3\n", "syntax", 1),
        ("a: 'text\nb: 1\nc: it's\n", "syntax", 1),
        ("a\nb: 1\n", "syntax", 1),
        ("? [1, 2]\n: 3\n", "odd_key", 1),
        ("a: &x [*x]\n", "alias_loop", 1),
        ("a: " + "[" * 100 + "]" * 100, "too_deep", 1),
        ("", "empty", 0),
        ("a: \x01\n", "syntax", 1),
        ("a: 2026-02-30\n", "syntax", 1),
    ],
)
def test_what_cannot_be_read_is_one_problem_with_a_line(text, code, line):
    found = read_tree(text, "c.yaml")
    assert isinstance(found, Trouble)
    assert (found.code, found.line) == (code, line)


def test_a_bomb_is_refused_before_it_grows():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, 12)]
    began = time.process_time()
    found = read_tree("\n".join(lines), "bomb.yaml")
    assert isinstance(found, Trouble) and found.code == "bomb"
    assert time.process_time() - began < 1.0


def test_a_key_that_stands_twice_is_noted_and_the_last_one_counts():
    root = tree("a: 1\nb: 2\na: 3\n")
    assert root.data["a"].data == 3
    assert root.doubles == [("a", 3)]


def test_marks_and_line_ends_do_not_matter():
    text = decode(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: 2\r\n", "c.yaml")
    assert isinstance(text, str)
    assert tree(text).plain() == {"a": 1, "b": {"c": 2}}
    assert tree(text).data["b"].line_of("c") == 3


def test_large_binary_and_other_files_are_one_problem(tmp_path):
    large = tmp_path / "large.yaml"
    with large.open("wb") as file:
        file.truncate(100 << 20)
    assert large.stat().st_size > MAX_BYTES
    assert read_bytes(str(large)).code == "too_large"
    assert decode(b"a: \0", "c.yaml").code == "binary"
    assert decode("训练".encode("gbk"), "c.yaml").code == "not_utf8"
    assert read_bytes(str(tmp_path)).code == "not_a_file"
    assert read_bytes(str(tmp_path / "none.yaml")).code == "no_file"
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert read_bytes(str(loop)).code in ("not_a_file", "unreadable")
    assert detect.read(str(large)).get("file.problem") == "too_large"


@pytest.mark.parametrize("depth", [3, 10, 11])
def test_nesting_is_counted_as_mindformers_counts(depth):
    text = "a: " + "{a: " * (depth - 1) + "1" + "}" * (depth - 1)
    assert nesting(tree(text)) == depth


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_junk_never_raises(data):
    text = decode(data, "c.yaml")
    if isinstance(text, str):
        read_tree(text, "c.yaml")
        plan = mindformers.read("c.yaml", text)
        assert isinstance(plan.get("file.problem"), str)
