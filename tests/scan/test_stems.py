"""doctor.scan.stems: few texts that stand for many."""

import pytest

from doctor.rulebase import load
from doctor.scan.anchors import FOLDED, LITERAL, LONGEST, REGEX, WIDTH, typical
from doctor.scan.matcher import Anchors
from doctor.scan.stems import PLAIN, choose


@pytest.fixture(scope="module")
def rows():
    return Anchors(load()).rows()


def test_every_literal_that_has_a_stem_holds_it_where_it_is_said_to(rows):
    stems = choose(rows)
    held = [(stem.text, one) for stem in stems for one in stem.anchors]
    assert len({one.aid for _, one in held}) == len(held) > 4000
    for stem, one in held:
        pattern, kind = rows[one.aid]
        assert one.fold == (kind == FOLDED)
        assert one.text == (pattern.lower() if one.fold else pattern)
        assert one.text[one.before - WIDTH : one.before].lower() == stem


def test_what_has_no_stem_is_short_or_long_an_expression_or_plain(rows):
    held = {one.aid for stem in choose(rows) for one in stem.anchors}
    avoided = PLAIN + typical().encode()
    for aid, (pattern, kind) in enumerate(rows):
        if aid not in held and kind != REGEX and WIDTH <= len(pattern) <= LONGEST:
            text = pattern.lower()
            assert all(text[n : n + WIDTH] in avoided for n in range(len(text) - WIDTH + 1)), pattern


def test_there_are_far_fewer_stems_than_anchors_and_none_stands_in_a_healthy_line(rows):
    stems = choose(rows)
    assert len(stems) < len(rows) / 3
    assert not any(stem.text in typical().encode() for stem in stems)


def test_texts_across_lines_and_expressions_have_no_stem():
    assert choose([(b"first line\nsecond", LITERAL), (b"brok(en|e)", REGEX), (b"quark", LITERAL)]) == []
