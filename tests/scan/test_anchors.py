"""doctor.scan.anchors: whatever a rule can match holds one of its anchors, so that no hit is ever overlooked."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from doctor.rulebase import Clause, LogSpec, load
from doctor.scan.anchors import (
    CLAUSE_BITS,
    COMMON,
    FOLDED,
    LITERAL,
    PROSE,
    REGEX,
    SPECIALS,
    anchor_clauses,
    anchor_table,
    clause_anchors,
    closed_words,
    encodings,
    required_literals,
    telling,
)


def holds_one(text, anchors):
    """Whether one of the (text, kind) anchors is in a text."""
    for anchor, kind in anchors:
        if kind in (REGEX, PROSE):
            if re.search(anchor, text, re.MULTILINE):
                return True
        elif (anchor.lower() in text.lower()) if kind == FOLDED else (anchor in text):
            return True
    return False


def clauses():
    """(rule, clause) of all clauses that anchor a rule."""
    return [(r.id, c) for r in load() if r.log for c in anchor_clauses(r.log)]


REGEXES = sorted({c.regex for _, c in clauses() if c.regex})


def of_regex(pattern):
    """Texts that hold a match of a pattern, of ASCII and the characters it names."""
    chars = "".join(sorted({c for c in pattern if ord(c) > 126}))
    alphabet = st.characters(min_codepoint=10, max_codepoint=126, include_characters=chars, exclude_categories=())
    return st.from_regex(re.compile(pattern, re.MULTILINE), alphabet=alphabet)


@settings(max_examples=120)
@given(st.sampled_from(REGEXES).flatmap(lambda p: st.tuples(st.just(p), of_regex(p))))
def test_every_match_of_a_shipped_pattern_holds_one_of_its_anchors(case):
    pattern, text = case
    assume(re.search(pattern, text, re.MULTILINE))
    assert holds_one(text, clause_anchors(Clause(None, pattern)))


def test_every_match_in_the_examples_of_the_rules_holds_an_anchor(base):
    checked = 0
    for rule in base:
        if rule.log is None:
            continue
        for example in base.whole(rule.id)["tests"]["hit"]:
            for clause in anchor_clauses(rule.log):
                text = example["log"]
                found = re.search(clause.regex, text, re.MULTILINE) if clause.regex else None
                if (clause.literal is None or clause.literal in text) and (found or clause.regex is None):
                    checked += 1
                    assert holds_one(text, clause_anchors(clause)), (rule.id, clause)
    assert checked > len(base) / 2


def test_no_anchor_of_the_shipped_rules_is_a_word_of_healthy_lines(base):
    dull = [text for text, kind in base.anchors if kind in (LITERAL, FOLDED) and text.strip().lower() in COMMON]
    assert not dull


WORD = st.text("abcdefgxyz ", min_size=1, max_size=9)
ATOM = st.one_of(
    WORD.map(re.escape),
    st.sampled_from(
        [r"\d+", r"\w{1,5}", ".{0,9}", "[^,]{1,9}", r"\s", "[ab]", "[a-c]", "x?", r"\b", "^", "$", ".", r"\d{2}"]
    ),
)


def grown(inner):
    many = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        many.map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        inner.map(lambda p: f"(?:{p})?"),
        inner.map(lambda p: f"({p})+"),
        inner.map(lambda p: f"(?P<a{abs(hash(p)) % 10**6}>{p})"),
        inner.map(lambda p: f"(?:{p}){{2,3}}"),
        inner.map(lambda p: f"(?:{p}|)"),
    )


@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.recursive(ATOM, grown, max_leaves=8), st.booleans(), st.data())
def test_every_match_of_any_pattern_holds_one_of_its_anchors(pattern, fold, data):
    pattern = ("(?i)" if fold else "") + pattern
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error:
        assume(False)
    assume(not compiled.match(""))
    text = data.draw(of_regex(pattern))
    assume(compiled.search(text))
    literals, caseless = required_literals(pattern)
    if literals:
        assert holds_one(compiled.search(text)[0], [(t, FOLDED if caseless else LITERAL) for t in literals])
    words = closed_words(pattern)
    if words:
        assert holds_one(text, [(f"(?i){w}\\b" if f else f"{w}\\b", REGEX) for w, f in words])
    assert holds_one(text, clause_anchors(Clause(None, pattern)))


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"cannot (open|load) \w+ library", {"cannot open ", "cannot load "}),
        (r"Notify wait execute failed(?:, device_id=(?P<device>\d+))?", {"Notify wait execute failed"}),
        (r"a\d+heartbeat_lost\d+b", {"heartbeat_lost"}),
        (r"(?:zebra-crossing|yak-shaving)\d", {"zebra-crossing", "yak-shaving"}),
        (r"(?:zebra-crossing|\d+)", set()),
        (r"(?:zebra-crossing)?\d", set()),
        (r"\d+", set()),
        (r"[Zz]ebra-crossing", {"Zebra-crossing", "zebra-crossing"}),
        (r"zebra\ncrossing-the-road", {"crossing-the-road"}),
    ],
)
def test_the_most_telling_constant_text_is_taken(pattern, literals):
    assert set(required_literals(pattern)[0]) == literals


def test_a_caseless_pattern_gives_caseless_anchors():
    assert required_literals("(?i)zebra-crossing") == (("zebra-crossing",), True)


@pytest.mark.parametrize("word", ["rank", "device", " error: ", "1234", "abc", "per_step_time", "loss_scale: "])
def test_a_text_of_every_healthy_line_is_not_telling(word):
    assert not telling(word)


@pytest.mark.parametrize("word", ["EI0006", "Heartbeat Lost Occurred", "507011", "内存不足"])
def test_a_text_of_failures_is_telling(word):
    assert telling(word)


def spec(any_=(), every=()):
    return LogSpec(tuple(any_), tuple(every), (), "line", ("ERROR",), 0, 0, "rank", 2, "", ())


def test_equal_anchors_of_two_rules_are_looked_for_once():
    one, two = Clause("zebra-crossing", None), Clause("zebra-crossing", r"zebra-crossing \d+")
    anchors = anchor_table([spec([one]), None, spec([two])])
    [anchor] = anchors
    assert (anchor.pattern, anchor.kind) == (b"zebra-crossing", LITERAL)
    assert [target >> CLAUSE_BITS for target in anchor.targets] == [0, 2]


def test_a_rule_without_any_is_anchored_by_its_longest_literal():
    anchors = anchor_table([spec(every=[Clause("yak", None), Clause("zebra-crossing", None)])])
    assert [a.pattern for a in anchors] == [b"zebra-crossing"]


def test_a_chinese_anchor_is_looked_for_in_utf8_and_gb18030():
    assert encodings("abc") == (b"abc",)
    assert encodings("超时") == ("超时".encode(), "超时".encode("gbk"))
    anchors = anchor_table([spec([Clause("内存不足", None)])])
    assert [a.pattern for a in anchors] == ["内存不足".encode(), "内存不足".encode("gbk")]


def test_the_scanners_own_anchors_compile_and_have_names():
    for special in SPECIALS:
        assert special.name in ("step", "odd", "memory", "weak", "error", "code", "meta")
        if special.regex:
            re.compile(special.pattern)


def test_patterns_are_read_on_the_oldest_supported_python():
    # Python 3.10 has sre_parse and sre_constants where 3.11 has re._parser and re._constants
    places = [shutil.which("python3.10"), *map(str, Path.home().glob(".pyenv/versions/3.10.*/bin/python"))]
    works = [p for p in places if p and subprocess.run([p, "-c", ""], capture_output=True, check=False).returncode == 0]
    if not works:
        pytest.skip("no Python 3.10 here")
    code = "import doctor.scan.anchors as a; a.required_literals('(?i)zebra (a|b)'); a.closed_words(r'(nan)\\b')"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([works[0], "-c", code], capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr.splitlines()[-1]
