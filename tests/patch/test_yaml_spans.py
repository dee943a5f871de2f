"""Edits of YAML files: the bytes that change, the keys that change, and what is refused."""

import random
from pathlib import Path

import pytest
import yaml

from doctor.model import Edit
from doctor.patch import plan, verify, yamlspans
from doctor.patch.spans import Refused, format_key, parse_key

ROOT = Path(__file__).resolve().parents[2]

TEXT = """# head
a: &x 1  # one
b: {k: v, e: , f: "x"}
c: |
  line
  two

# about d
d:
- 1
-
- p: 中文😀 后
  q: 'it''s'
e:   # nothing
f: !!str 12
g: &m
  h: 1
  i:
    j: 2
k: *x
l: plain
  more
m: [1, 2]
n: >-
   folded

   more
o:
  <<: *m
  z: 1
"""


def change(tmp_path, text, key, new, **options):
    """The text after an edit."""
    path = tmp_path / "c.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    made = plan.plan([Edit(str(path), key, "", new)], **options)
    return made.files[0].after.decode()


def refusal(tmp_path, text, key, new, **options):
    """The code of the refusal of an edit."""
    with pytest.raises(Refused) as caught:
        change(tmp_path, text, key, new, **options)
    return caught.value.code


@pytest.mark.parametrize(
    ("key", "new", "old_line", "new_line"),
    [
        ("b.k", "w", 'b: {k: v, e: , f: "x"}', 'b: {k: w, e: , f: "x"}'),
        ("b.e", "7", 'b: {k: v, e: , f: "x"}', 'b: {k: v, e: 7, f: "x"}'),
        ("b.f", '"y"', 'b: {k: v, e: , f: "x"}', 'b: {k: v, e: , f: "y"}'),
        ("d[0]", "5", "- 1", "- 5"),
        ("d[1]", "5", "-\n", "- 5\n"),
        ("d[2].p", "x", "- p: 中文😀 后", "- p: x"),
        ("d[2].q", "'n'", "q: 'it''s'", "q: 'n'"),
        ("e", "1", "e:   # nothing", "e: 1   # nothing"),
        ("f", "13", "f: !!str 12", "f: !!str 13"),
        ("k", "4", "k: *x", "k: 4"),
        ("l", "short", "l: plain\n  more", "l: short"),
        ("m", "[3]", "m: [1, 2]", "m: [3]"),
        ("m[1]", "9", "m: [1, 2]", "m: [1, 9]"),
        ("n", "text", "n: >-\n   folded\n\n   more", "n: text"),
        ("c", "text", "c: |\n  line\n  two\n", "c: text\n"),
    ],
)
def test_a_value_is_replaced_and_nothing_else(tmp_path, key, new, old_line, new_line):
    if key == "f":
        # the tag makes a text of it
        assert refusal(tmp_path, TEXT, key, new) == "not_as_wanted"
        return
    assert change(tmp_path, TEXT, key, new) == TEXT.replace(old_line, new_line, 1)


def test_a_new_key_stands_behind_its_neighbours_with_their_indentation(tmp_path):
    assert change(tmp_path, TEXT, "g.i.new", "1", aliases=True) == TEXT.replace("    j: 2\n", "    j: 2\n    new: 1\n")
    assert change(tmp_path, TEXT, "d[2].new", "1") == TEXT.replace("  q: 'it''s'\n", "  q: 'it''s'\n  new: 1\n")
    assert change(tmp_path, TEXT, "top.of.all", "1") == TEXT + "top:\n  of:\n    all: 1\n"
    assert change(tmp_path, TEXT, "e.below", "1") == TEXT.replace("e:   # nothing\n", "e:   # nothing\n  below: 1\n")
    assert change(tmp_path, TEXT, "b.new", "1") == TEXT.replace('f: "x"', 'new: 1, f: "x"')


def test_an_item_is_appended_to_a_list(tmp_path):
    assert change(tmp_path, TEXT, "d[3]", "x") == TEXT.replace("q: 'it''s'\n", "q: 'it''s'\n- x\n")
    assert change(tmp_path, TEXT, "m[2]", "3") == TEXT.replace("[1, 2]", "[1, 2, 3]")


def test_a_key_is_taken_away_with_its_lines(tmp_path):
    assert change(tmp_path, TEXT, "c", "") == TEXT.replace("c: |\n  line\n  two\n", "")
    assert change(tmp_path, TEXT, "b.e", "") == TEXT.replace("e: , ", "")
    assert refusal(tmp_path, "a:\n  b: 1\n", "a.b", "") == "last_key"


def test_an_anchored_value_takes_its_aliases_with_it_only_when_agreed(tmp_path):
    assert refusal(tmp_path, TEXT, "a", "2") == "changes_more"
    assert change(tmp_path, TEXT, "a", "2", aliases=True) == TEXT.replace("&x 1", "&x 2")
    path = tmp_path / "c.yaml"
    made = plan.plan([Edit(str(path), "g.h", "", "5")], aliases=True)
    assert made.files[0].also == ("o.h",)
    # both keys wanted: agreed by that
    assert plan.plan([Edit(str(path), "a", "", "2"), Edit(str(path), "g.h", "", "5"), Edit(str(path), "o.h", "", "5")],
                     aliases=True).files[0].also == ("k",)  # fmt: skip


def test_a_merged_key_is_overridden_where_it_is_merged(tmp_path):
    assert change(tmp_path, TEXT, "o.h", "9") == TEXT + "  h: 9\n"


def test_what_is_behind_an_alias_is_not_changed(tmp_path):
    assert refusal(tmp_path, "a: &x {b: 1}\nc: *x\n", "c.b", "2") == "through_alias"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_stay(tmp_path, end, bom):
    data = bom + "a: 1\nb:\n  c: 2  # 注\n".replace("\n", end).encode()
    path = tmp_path / "c.yaml"
    path.write_bytes(data)
    made = plan.plan([Edit(str(path), "b.c", "", "3"), Edit(str(path), "b.d", "", "4"), Edit(str(path), "e", "", "5")])
    want = "a: 1\nb:\n  c: 3  # 注\n  d: 4\ne: 5\n".replace("\n", end).encode()
    assert made.files[0].after == bom + want


def test_a_file_without_a_last_line_break_only_gains_lines(tmp_path):
    assert change(tmp_path, "a: 1\nb: 2", "c", "3") == "a: 1\nc: 3\nb: 2"
    assert change(tmp_path, "a: 1", "c", "3") == "a: 1\nc: 3"
    assert change(tmp_path, "", "c", "3") == "c: 3\n"
    assert change(tmp_path, "# only words\n", "c", "3") == "# only words\nc: 3\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\n\tb: 2\n", "yaml_tab"),
        ("a: 1\n---\na: 2\n", "yaml_several_documents"),
        ("a: [1, 2\n", "yaml_syntax"),
        ("a: *x\n", "yaml_no_anchor"),
        ("a: 1\nb: 2\na: 3\n", "double_key"),
        ("- 1\n- 2\n", "not_a_mapping"),
        ("a: {b: 1}\n", None),
        ("x0: &x0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
            f"x{n}: &x{n} [{','.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 9)) + "a: 1\n", "yaml_bomb"),
        ("a: " + "[" * 200 + "]" * 200 + "\n", "yaml_too_deep"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_one_reason(tmp_path, text, code):
    if code is None:
        assert refusal(tmp_path, text, "a.b.c", "1") == "not_a_mapping"
    else:
        assert refusal(tmp_path, text, "a", "9") == code


def test_bytes_that_are_no_text_are_refused(tmp_path):
    assert refusal(tmp_path, b"a: \xff\n", "a", "1") == "not_utf8"
    assert refusal(tmp_path, b"a: 1\0\n", "a", "1") == "binary"


@pytest.mark.parametrize("new", ["1\nb: 2", "{", "a: b: c", "'x"])
def test_source_text_that_is_not_one_value_is_refused(tmp_path, new):
    assert refusal(tmp_path, "a: 1\n", "a", new) == "bad_value"


def test_what_cannot_stand_in_brackets_is_refused_there(tmp_path):
    assert refusal(tmp_path, "a: {b: 1, c: 2}\n", "a.b", "x, y") == "bad_value"


@pytest.mark.parametrize(
    "value",
    [1e-5, 3e-4, 1e16, 2.5, 0.0, -1e-30, float("inf"), 7, -1, True, False, None, "", "1e-5", "yes", "null", "a: b",
     "#x", " x", "x ", "it's", '"', "中文", "a\nb", "\t", "~", "=", "<<", "0x10", "1_000", "2026-01-01", "12:30", "-",
     "- a", "[", "{a}", "*a", "&a", "!t", "%", "@", "`", "a #b", "a, b", [1, "x, y", None], {"a": 1, "b c": [True]}],
)  # fmt: skip
def test_a_spelled_value_is_read_back_as_itself(value):
    for text in (yamlspans.spell(value), yamlspans.spell(value, '"'), yamlspans.spell(value, "'")):
        found = yaml.safe_load(f"k: {text}")["k"]
        assert found == value and type(found) is type(value)
    found = yaml.safe_load("[" + yamlspans.spell(value, flow=True) + ", 1]")
    assert found == [value, 1]


@pytest.mark.parametrize("key", ["a", "a.b", "a[0]", 'a."b.c"[2].d', '"x[y]"'])
def test_a_key_is_written_as_it_was_read(key):
    assert format_key(parse_key(key)) == key


@pytest.mark.parametrize("key", ["", ".", "a.", "a..b", "a[x]", "a]b"])
def test_a_malformed_key_is_refused(key):
    with pytest.raises(Refused):
        parse_key(key)


def test_edits_that_contradict_each_other_are_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a:\n  b: 1\n  c: {d: 1}\n")

    def code(*edits):
        with pytest.raises(Refused) as caught:
            plan.plan([Edit(str(path), key, "", new) for key, new in edits])
        return caught.value.code

    assert code(("a.b", "2"), ("a.b", "3")) == "conflict"
    assert code(("a.c", "2"), ("a.c.d", "3")) == "conflict"
    assert code(("a.b", "1")) == "nothing"
    made = plan.plan([Edit(str(path), "a.b", "", "2"), Edit(str(path), "a.b", "", "2")])
    assert made.files[0].after == b"a:\n  b: 2\n  c: {d: 1}\n"


def test_ready_made_spans_are_checked_against_the_file(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\nb: 2\n")
    made = plan.plan([Edit(str(path), "b", "2", "33", 8, 9), Edit(str(path), "a", "1", "44", 3, 4)])
    assert made.files[0].after == b"a: 44\nb: 33\n"
    assert [(e.key, e.start) for e in made.files[0].changes] == [("a", 3), ("b", 8)]
    for edits, code in (
        ([Edit(str(path), "a", "5", "44", 3, 4)], "changed"),
        ([Edit(str(path), "a", "1\nb", "4", 3, 6), Edit(str(path), "b", "b", "c", 5, 6)], "overlap"),
        ([Edit(str(path), "a", "1", "4\nc: 5", 3, 4)], "bad_value"),
        ([Edit(str(path), "a", "2", "4", 8, 9)], "changes_more"),
    ):
        with pytest.raises(Refused) as caught:
            plan.plan(edits)
        assert caught.value.code == code


def leaves(node, path=()):
    """(path, node) of every scalar, and of every mapping."""
    if node.kind in ("scalar", "map"):
        yield path, node
    for key, _, _, child in node.pairs:
        yield from leaves(child, (*path, key))
    for n, child in enumerate(node.items):
        yield from leaves(child, (*path, n))


def test_three_hundred_edits_of_real_looking_configs_change_what_they_say_and_nothing_else(tmp_path):
    """A scalar replaced is one line out and one in, an insertion only adds lines, all else is byte-identical."""
    random.seed(20)
    configs = sorted((ROOT / "fixtures" / "configs").glob("*.yaml"))
    done = 0
    for n in range(320):
        source = configs[n % len(configs)]
        data = source.read_bytes()
        text = data.decode()
        nodes = list(leaves(yamlspans.read(text)))
        insert = n % 3 == 0
        path, node = random.choice([x for x in nodes if (x[1].kind == "map") == insert and "<<" not in x[0]])
        if insert:
            path, new = (*path, "zz_new"), "42"
        else:
            new = random.choice(["7", "1.0e-5", "True", "'x y'", "[1, 2]", "abc", '"q"'])
        target = tmp_path / "c.yaml"
        target.write_bytes(data)
        if text[node.start : node.end] == new:
            continue
        made = plan.plan([Edit(str(target), format_key(path), "", new)], aliases=True).files[0]
        done += 1
        (edit,) = made.changes
        assert made.after == data[: edit.start] + edit.new.encode() + data[edit.end :]
        old, after = data.splitlines(keepends=True), made.after.splitlines(keepends=True)
        if insert and not node.flow:
            kept = iter(after)
            assert len(after) == len(old) + 1 and all(line in kept for line in old)
        elif "\n" not in text[node.start : node.end]:
            assert len(after) == len(old) and sum(a != b for a, b in zip(old, after, strict=True)) == 1
        before, now = verify.flatten(yaml.safe_load(data)), verify.flatten(yaml.safe_load(made.after))
        differ = {key for key in {**before, **now} if before.get(key) != now.get(key)}
        own = [path, *map(parse_key, made.also)]
        assert all(any(key[: len(aim)] == tuple(aim) or key == tuple(aim)[: len(key)] for aim in own) for key in differ)
    assert done >= 300
