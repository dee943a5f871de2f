"""From findings to one patch: what is taken, what needs a word, what is refused."""

import yaml

from doctor.model import Edit, Evidence, Finding, Verdict
from doctor.patch import propose
from doctor.patch.propose import Found, Options


def found(path, fix, *, rule="CFG999", severity="error", passes=None, args=None, **more):
    """A failed finding with one fix."""
    return Found(
        Finding(rule, Verdict.FAIL, args or {}, (Evidence(str(path), 1, ""),), severity=severity),
        place=lambda name: None if name == "nowhere" else (str(path), name),
        value=lambda text, names: eval(text, {}, {**names, "n": 4}),
        passes=passes or (lambda contents: None),
        fixes=(fix,) if isinstance(fix, dict) else tuple(fix),
        **more,
    )


def fix(applicability="safe", **more):
    """A fix of a rule."""
    return {"applicability": applicability, "zh": "改 {key?}", "en": "change {key?}", **more}


def run(options, *every, base):
    """(patch, states) of some findings."""
    patch, decisions = propose.decide(propose.of_found(every, options, base), options)
    return patch, [d.state if d.why is None else d.why.code for d in decisions]


def test_safe_fixes_of_several_findings_make_one_patch(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\nb: {c: 2}\n")
    patch, states = run(Options(), found(path, fix(set={"a": 5})), found(path, fix(set={"b.c": "n * 2"})), base=base)
    assert states == ["planned", "planned"]
    assert patch.files[0].after == b"a: 5\nb: {c: 8}\n" and patch.rules == ("CFG999",)


def test_unsafe_fixes_need_the_word_and_display_only_tells(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    unsafe, shown = found(path, fix("unsafe", set={"a": 5})), found(path, fix("display"))
    assert run(Options(), unsafe, shown, base=base) == (None, ["needs_unsafe", "display"])
    patch, states = run(Options(unsafe=True), unsafe, shown, base=base)
    assert states == ["planned", "display"] and patch.files[0].after == b"a: 5\n"


def test_a_choice_offers_only_what_passes_and_waits_for_it(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("dp: 4\nmp: 4\n")

    def passes(contents):
        tree = yaml.safe_load(contents[str(path)])
        return tree["dp"] * tree["mp"] == 8

    one = found(path, fix("unsafe", choices=[{"dp": 2}, {"mp": 2, "en": "fewer cuts"}, {"dp": 3}, {"nowhere": 1}]),
                passes=passes)  # fmt: skip
    (proposal,) = propose.of_found([one], Options(), base)
    assert [c.label for c in proposal.choices] == ["dp = 2", "mp = 2"]
    assert proposal.choices[1].text == {"en": "fewer cuts"}
    assert run(Options(), one, base=base) == (None, ["needs_choice"])
    for word in ("2", "mp = 2", "mp=2"):
        patch, states = run(Options(choose={"CFG999-1": word}), one, base=base)
        assert states == ["planned"] and patch.files[0].after == b"dp: 4\nmp: 2\n"
    assert run(Options(choose={"CFG999": "7"}), one, base=base)[1] == ["bad_choice"]


def test_values_of_a_choice_are_filled_in(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    one = found(path, fix("unsafe", set={"a": "choice"}, choices=[1, 2, {"each": "[n, n + 1]"}]),
                passes=lambda contents: b"5" not in contents[str(path)])  # fmt: skip
    (proposal,) = propose.of_found([one], Options(), base)
    # 1 is there already, 5 does not pass
    assert [c.label for c in proposal.choices] == ["a = 2", "a = 4"]


def test_a_check_that_still_fails_refuses_its_fix_alone(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\nb: 1\n")
    bad = found(path, fix(set={"a": 5}), passes=lambda contents: False)
    patch, states = run(Options(), bad, found(path, fix(set={"b": 2}), rule="CFG998"), base=base)
    assert states == ["still_fails", "planned"] and patch.files[0].after == b"a: 1\nb: 2\n"


def test_fixes_that_contradict_each_other_wait_for_another_run(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    patch, states = run(Options(), found(path, fix(set={"a": 5})), found(path, fix(set={"a": 6})), base=base)
    assert states == ["planned", "conflict"] and patch.files[0].after == b"a: 5\n"


def test_of_two_fixes_of_a_finding_one_is_taken(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\nb: 1\n")
    patch, states = run(Options(), found(path, [fix(set={"a": 5}), fix(set={"b": 6})]), base=base)
    assert states == ["planned", "other_fix"] and patch.files[0].after == b"a: 5\nb: 1\n"


def test_what_has_no_place_or_no_value_says_so(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    assert run(Options(), found(path, fix(set={"nowhere": 5})), base=base)[1] == ["no_place_for"]

    def no_value(text, names):
        raise ValueError("why not")

    one = found(path, fix(set={"a": "n"}))._replace(value=no_value)
    assert run(Options(), one, base=base)[1] == ["no_value"]


def test_ready_made_edits_are_taken_as_they_are(tmp_path, base):
    path = tmp_path / "m.py"
    path.write_text("x = f(1)\n")
    one = found(path, fix(rewrite="g(1)"), edits={0: (Edit(str(path), "CODE", "f(1)", "g(1)", 4, 8),)})
    patch, states = run(Options(), one, base=base)
    assert states == ["planned"] and patch.files[0].after == b"x = g(1)\n"


def test_only_the_rules_asked_for_are_proposed_and_the_worst_come_first(tmp_path):
    path = tmp_path / "c.yaml"
    every = [found(path, fix(), rule="CFG001", severity="advice"), found(path, fix(), rule="PAR001"),
             found(path, fix(), rule="CFG002")]  # fmt: skip
    ids = lambda only: [f.finding.id for f in propose.find([], Options(only), [lambda p, o: every])]  # noqa: E731
    assert ids(()) == ["PAR001", "CFG002", "CFG001"]
    assert ids(("CFG",)) == ["CFG002", "CFG001"] and ids(("cfg00[12]", "x")) == ["CFG002", "CFG001"]


def test_fixes_are_listed_with_their_edits(tmp_path, base):
    path = tmp_path / "c.yaml"
    path.write_text("a: 1\n")
    (made,) = propose.proposals([], Options(), [lambda p, o: [found(path, fix(set={"a": 5}), args={"key": "a"})]], base)
    assert made.id == "CFG999-1" and made.text["en"] == "change a" and made.edits == (Edit(str(path), "a", "", "5"),)
