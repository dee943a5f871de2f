"""Rules by words, by a log line, by likeness; what explains them."""

import json

import pytest

from doctor.rulecli import explained_by
from doctor.rulesearch import Index


@pytest.fixture(scope="module")
def index(base):
    return Index(base)


def test_an_id_comes_first_in_either_case(index):
    assert index.search("hccl010")[0].id == "HCCL010"
    assert index.search("")[0].id == index.base.ids[0] and len(index.search("  ")) == len(index.base)


def test_every_word_must_be_there_wherever_it_stands(index):
    one, two = {r.id for r in index.search("hccl")}, {r.id for r in index.search("hccl timeout")}
    assert two and two < one
    assert index.search("hccl zzzzqqq") == []


@pytest.mark.parametrize("field", ["title", "cause"])
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_titles_and_causes_are_found_in_both_languages(index, field, lang):
    for rule_id in index.base.ids[::150]:
        words = " ".join(index.base.whole(rule_id)[field][lang].split()[:6])
        assert rule_id in [row.id for row in index.search(words)], (rule_id, words)


def test_a_literal_is_found_and_so_is_the_line_that_holds_it(index):
    rules = [r for r in index.base if r.log and any(len(c.literal or "") > 12 for c in r.log.any)][::40]
    for rule in rules:
        literal = next(c.literal for c in rule.log.any if len(c.literal or "") > 12)
        assert rule.id in [row.id for row in index.search(literal)]
        line = f"[ERROR] nothing else is known of qqxxqq {literal} zzyyzz"
        assert rule.id in [row.id for row in index.search(line)]


def test_the_tree_holds_every_rule_once(index):
    tree = index.tree()
    ids = [row.id for topics in tree.values() for rows in topics.values() for row in rows]
    assert sorted(ids) == sorted(index.base.ids)
    assert all(row.family == family for family, topics in tree.items() for rows in topics.values() for row in rows)


def test_a_known_line_is_most_like_its_own_rule(index):
    tried = found = 0
    for rule in [r for r in index.base if r.log][::25]:
        line = index.base.whole(rule.id)["tests"]["hit"][0]["log"]
        tried += 1
        found += rule.id in [row.id for _, row in index.alike(line, 5)]
    assert tried > 20 and found >= tried * 0.9, (tried, found)


def test_nothing_is_like_a_line_of_unknown_words(index):
    assert index.alike("qqxx zzyy") == [] and index.alike("") == []


def test_what_explains_a_rule_is_the_other_side_of_explains(base):
    cause = next(rule for rule in base if any(e.target in base for e in rule.explains))
    target = next(e.target for e in cause.explains if e.target in base)
    assert cause.id in explained_by(base, target)


def test_the_command_prints_rows_or_says_there_are_none(cli, base):
    ran = cli("rules", "search", "hccl", "timeout", "--format", "json")
    assert ran.code == 0 and {"id", "topic", "title", "severity"} <= json.loads(ran.out)[0].keys()
    ran = cli("rules", "search", "EI0002", "--lang", "zh")
    assert ran.code == 0 and "HCCL010" in ran.out
    ran = cli("rules", "search", "zzzzqqq")
    assert ran.code == 1 and not ran.out and "no rule" in ran.err
