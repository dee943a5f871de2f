"""Expressions: the grammar of CEL, three values, and a linter that knows the declared names."""

import itertools

import pytest

from doctor.plan import cel

VALUES = {"plan.a.x": 7, "plan.a.y": 2, "plan.a.s": "abc", "plan.a.l": [1, 2, 3], "plan.a.f": 1.5, "plan.a.b": True}
TYPES = {
    "plan.a.x": "int",
    "plan.a.y": "int",
    "plan.a.s": "string",
    "plan.a.l": "list",
    "plan.a.f": "double",
    "plan.a.b": "bool",
    "plan.a.gone": "int",
    "plan.a.hidden": "int",
}


def look(name):
    if name == "plan.a.hidden":
        return cel.Absent(frozenset(["?" + name]))
    return VALUES[name] if name in VALUES else cel.Absent(frozenset([name]))


def value(text):
    return cel.evaluate(cel.parse(text), look)


AGREED = [
    "1 + 2 * 3 == 7",
    "(1 + 2) * 3 == 9",
    "7 % 3 == 1",
    "-7 % 3 == -1",
    "-7 / 2 == -3",
    "7 / -2 == -3",
    "1.5 * 2.0 == 3.0",
    "1 < 2 && 2 < 3",
    "!(1 == 2)",
    "true || false && false",
    "'a' + 'b' == 'ab'",
    "size('abc') == 3",
    "size([1, 2]) == 2",
    "2 in [1, 2, 3]",
    "!('x' in ['y'])",
    "[1, 2][1] == 2",
    "[1, 2, 3].all(i, i > 0)",
    "[1, 2, 3].exists(i, i == 2)",
    "[1, 2, 3].filter(i, i > 1) == [2, 3]",
    "[1, 2].map(i, i * 2) == [2, 4]",
    "[1, 2, 2].exists_one(i, i == 1)",
    "'abc'.startsWith('ab')",
    "'abc'.endsWith('bc')",
    "'abc'.contains('b')",
    "'abc'.matches('^a.c$')",
    "1 == 1 ? true : false",
    "true ? 1 == 1 : 1 / 0 == 1",
    "double(3) == 3.0",
    "int(3.9) == 3",
    "string(3) == '3'",
    "0x10 == 16",
    "1e3 == 1000.0",
    "true || 1 / 0 == 1",
    "1 / 0 == 1 || true",
    "false && 1 / 0 == 1",
    "1 != 2",
    "'a' < 'b'",
    "[1, 2] == [1, 2]",
    "- 3 == -3",
]


@pytest.mark.parametrize("text", AGREED)
def test_expressions_mean_what_cel_says(text):
    assert value(text) in (True, False)
    cel.check(cel.parse(text), TYPES)


def test_the_reference_implementation_agrees():
    celpy = pytest.importorskip("celpy")
    environment = celpy.Environment()
    for text in AGREED:
        theirs = environment.program(environment.compile(text)).evaluate({})
        assert bool(theirs) is value(text), text


@pytest.mark.parametrize(
    "text",
    [
        "plan.a.gone > 0",
        "plan.a.gone > 0 && true",
        "false || plan.a.gone > 0",
        "!(plan.a.gone > 0)",
        "plan.a.gone > 0 ? true : false",
        "[plan.a.gone] == [1]",
        "plan.a.l.all(i, i < plan.a.gone)",
        "size([plan.a.gone]) == 1",
        "plan.a.gone in [1]",
    ],
)
def test_what_depends_on_an_absent_value_is_unknown(text):
    found = value(text)
    assert isinstance(found, cel.Absent)
    assert found.names == {"plan.a.gone"}
    with pytest.raises(TypeError):
        bool(found)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("plan.a.gone > 0 && false", False),
        ("true || plan.a.gone > 0", True),
        ("plan.a.gone > 0 || plan.a.b", True),
        ("has(plan.a.gone)", False),
        ("has(plan.a.x) && plan.a.x == 7", True),
        ("has(plan.a.gone) ? plan.a.gone == 1 : true", True),
        ("plan.a.l.exists(i, i == 1 || i == plan.a.gone)", True),
    ],
)
def test_what_is_decided_without_it_is_known(text, result):
    assert value(text) is result


def test_unknown_and_connectives_follow_the_table_of_three_values():
    words = {"true": True, "false": False, "plan.a.gone == 1": None}

    def known(text):
        found = value(text)
        return None if isinstance(found, cel.Absent) else found

    for (one, a), (two, b) in itertools.product(words.items(), repeat=2):
        both = False if a is False or b is False else None if a is None or b is None else True
        either = True if a is True or b is True else None if a is None or b is None else False
        assert known(f"({one}) && ({two})") is both
        assert known(f"({one}) || ({two})") is either


def test_has_of_a_value_that_cannot_be_known_is_unknown():
    assert isinstance(value("has(plan.a.hidden)"), cel.Absent)


@pytest.mark.parametrize("text", ["1 / 0 == 1", "1 % 0 == 1", "[1][5] == 1", "'a' < 1", "int('x') == 1", "true && 1"])
def test_other_failures_are_errors(text):
    with pytest.raises(cel.CelError):
        value(text)


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "a.", "1 2", "$x", "f(", "[1,", "in", "'open", "a ? b", "((((" * 500, "!" * 5000]
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(cel.CelError):
        cel.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("plan.a.hiden > 1", "not declared"),
        ("plan.a.x + plan.a.f > 1.0", "one type"),
        ("plan.a.s > 1", "compares"),
        ("plan.a.x", ""),
        ("plan.a.x && true", "bool"),
        ("nosuch(1)", "no function"),
        ("size(1)", "takes"),
        ("plan.a.x % 1.5 == 0.0", "%"),
        ("plan.a.s.matches('(a+)+')", "nested"),
        ("plan.a.s.matches('(')", "regular"),
        ("has(1)", "one name"),
        ("plan.a.x in plan.a.y", "in"),
        ("plan.a.l < plan.a.l", "lists"),
        ("true ? 1 : 'a'", "gives"),
    ],
)
def test_the_linter_names_the_mistake(text, why):
    if not why:
        assert cel.check(cel.parse(text), TYPES) == "int"
        return
    with pytest.raises(cel.CelError, match=why):
        cel.check(cel.parse(text), TYPES)


def test_numbers_of_both_kinds_compare():
    assert value("plan.a.x > 1.5") is True
    assert cel.check(cel.parse("plan.a.x > 1.5"), TYPES) == "bool"


def test_names_are_found_in_order_and_variables_are_not_names():
    ast = cel.parse("plan.a.x > 1 && plan.a.l.all(i, i < plan.a.y) && plan.a.x < 9")
    assert cel.names(ast) == ["plan.a.x", "plan.a.l", "plan.a.y"]


def test_versions_compare_only_by_their_functions():
    assert value("versionBelow('2.3.0rc2', '2.3.0')") is True
    assert value("versionAtLeast('2.10.0', '2.9')") is True


def test_a_tree_is_plain_json():
    import json

    ast = cel.parse("plan.a.x % 2 == 1 && has(plan.a.s) ? plan.a.l[0] in [1, 2.5] : !plan.a.b")
    assert json.loads(json.dumps(ast)) == ast
