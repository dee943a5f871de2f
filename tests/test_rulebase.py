"""doctor.rulebase and doctor.ruleschema: a bad file costs itself, a good cache costs nothing."""

import os
import stat
import subprocess
import sys
import time

import pytest
import yaml

from doctor import cache, rulebase, ruleschema
from doctor.rulebase import load
from doctor.ruleschema import RuleError, read_rule, regex_problem
from doctor.scan.scanner import Matcher, scan_text

FINE = {"hit": [{"log": "x"}], "miss": [{"log": "a"}, {"log": "b"}]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """A cache of this test alone."""
    monkeypatch.setenv("DOCTOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def problems_of(folder):
    """(file name, line, text) of what the whole linter says about a folder."""
    _, _, found = ruleschema.read_folder(str(folder))
    return [(os.path.basename(p.file), p.line, p.text) for p in found]


def line_with(path, text):
    """The number of the first line that holds a text."""
    return next(n for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line)


# ------------------------------------------------------------------ bad files


TEXT_EDITS = {
    "YAML that does not parse": ("status: stable", "status: [stable", "not valid YAML", None),
    "a tab for indentation": ("  log:", "\tlog:", "not valid YAML", None),
    "an unknown field": ("status: stable", "status: stable\nflavour: sweet", "flavour", "flavour"),
    "an unknown field of the match": ("  log:", "  logs: {}\n  log:", "logs", "logs"),
    "a key twice": ("status: stable", "status: stable\nstatus: draft", "twice", "status: draft"),
    "a merged mapping": ("status: stable", "status: stable\n<<: {priority: 7}", "<<", "<<"),
    "a wrong severity": ("severity: error", "severity: fatal", "fatal", "severity"),
    "a wrong role": ("role: root", "role: boss", "boss", "role"),
    "a wrong type": ("priority: 50", "priority: high", "int", "priority"),
    "a priority out of range": ("priority: 50", "priority: 100", "1 to 99", "priority"),
    "a missing language": ("  en: title", "  # en: title", "en", "title:"),
    "an empty text": ("  en: title", "  en: ' '", "empty", "en: ' '"),
    "no Chinese": ("  zh: 标题", "  zh: title", "no Chinese", "zh: title"),
    "an unknown topic": ("topic: own.a", "topic: own.zzz", "own.zzz", "topic"),
    "an id of no family": ("id: RUN901", "id: FOO901", "FOO901", "id"),
    "an id that is not the file's name": ("id: RUN901", "id: RUN902", "RUN902", "id"),
    "a regex that does not compile": (
        "regex: zebra (?P<n>\\d+)",
        "regex: 'zebra (?P<n>\\d+'",
        "regular expression",
        "regex",
    ),
    "a regex with look-ahead": ("regex: zebra (?P<n>\\d+)", "regex: 'zebra(?= (?P<n>\\d+))'", "RE2", "regex"),
    "a regex with a back-reference": ("regex: zebra (?P<n>\\d+)", "regex: '(?P<n>z)ebra(?P=n)'", "RE2", "regex"),
    "a regex that matches nothing": ("regex: zebra (?P<n>\\d+)", "regex: '(?P<n>z)*'", "empty", "regex"),
    "a repeat too large": (
        "regex: zebra (?P<n>\\d+)",
        "regex: 'zebra (?P<n>\\d{99999999999})'",
        "regular expression",
        "regex",
    ),
    "a regex too deep": (
        "regex: zebra (?P<n>\\d+)",
        "regex: '" + "(" * 3000 + "(?P<n>z)" + ")" * 3000 + "'",
        "",
        "regex",
    ),
    "a literal too short": ("literal: zebra", "literal: ze", "3 characters", "literal"),
    "a clause of nothing": ("    calc: n > 3", "    - {}\n    calc: n > 3", "literal or a regex", "- {}"),
    "a placeholder that nothing fills": ("  en: cause {n}", "  en: cause {m}", "{m}", "en: cause {m}"),
    "no source": ("provenance:\n- {kind: measured, ref: here}", "provenance: []", "source", "provenance"),
    "a seed alone for a stable rule": ("kind: measured", "kind: seed", "seed", "provenance"),
    "a preview that is an error": ("status: stable", "status: preview", "preview", "severity"),
    "one miss": ("  - {log: b}\n", "", "two miss", "tests"),
    "no hit": ("  hit:\n  - log: zebra 7\n", "  hit: []\n", "one hit", "tests"),
    "an expectation of no capture": ("  - log: zebra 7\n", "  - log: zebra 7\n    expect: {q: '7'}\n", "'q'", "hit"),
    "a time that is none": ("explains: []", "explains:\n- {topic: own.b, within: soon}", "soon", "within: soon"),
    "an explanation of two": ("explains: []", "explains:\n- {topic: own.b, id: RUN903}", "not both", "topic: own.b"),
    "an explanation of an unknown topic": ("explains: []", "explains:\n- {topic: own.zzz}", "own.zzz", "own.zzz"),
    "a calc over nothing": ("    calc: n > 3", "    calc: m > 3", "m", "calc"),
    "a calc that is no expression": ("    calc: n > 3", "    calc: n >", "calc", "calc"),
    "a calc that calls": ("    calc: n > 3", "    calc: open(n)", "calc", "calc"),
    "a date that does not exist": ("ref: here}", "ref: here, read: 2026-02-30}", "", "read:"),
    "a key that is a list": ("status: stable", "status: stable\n? [a, b]\n: c", "", "? [a, b]"),
    "a list for a rule": ("id: RUN901", "- id: RUN901", "", None),
}

GOOD = """\
id: RUN901
name: zebra
topic: own.a
title:
  zh: 标题
  en: title
severity: error
confidence: likely
status: stable
role: root
priority: 50
since: 0.1.0
match:
  log:
    any:
    - literal: zebra
      regex: zebra (?P<n>\\d+)
    calc: n > 3
cause:
  zh: 原因 {n}
  en: cause {n}
next:
  zh: 下一步
  en: next
explains: []
provenance:
- {kind: measured, ref: here}
tests:
  hit:
  - log: zebra 7
  miss:
  - {log: a}
  - {log: b}
"""


def test_the_good_file_of_these_tests_is_good(rules):
    rules.raw("own/RUN901.yaml", GOOD)
    assert problems_of(rules.folder) == []


@pytest.mark.parametrize("name", TEXT_EDITS)
def test_a_bad_file_is_named_with_its_line_and_nothing_else_is_lost(rules, make_rule, name):
    old, new, word, at = TEXT_EDITS[name]
    assert GOOD.count(old) == 1, old
    rules.put(make_rule("RUN903", "yak-shaved"))
    path = rules.raw("own/RUN901.yaml", GOOD.replace(old, new))
    found = problems_of(rules.folder)
    assert len(found) == 1, found
    file, line, text = found[0]
    assert file == "RUN901.yaml" and word in text
    if at is not None:
        assert line == line_with(path, at)
    kept, _, _ = ruleschema.read_folder(str(rules.folder))
    assert [rule.id for _, rule in kept] == ["RUN903"]


@pytest.mark.parametrize("name", [n for n, e in TEXT_EDITS.items() if "regex" not in n and "repeat" not in n])
def test_a_bad_file_does_not_keep_the_other_rules_from_working(rules, make_rule, name):
    old, new, _, _ = TEXT_EDITS[name]
    rules.raw("own/RUN901.yaml", GOOD.replace(old, new))
    base = rules.base(make_rule("RUN903", "yak-shaved"))
    assert base.ids == ("RUN903",)
    assert len(base.problems) == 1 and str(base.problems[0]).startswith(str(rules.folder / "own" / "RUN901.yaml") + ":")


@pytest.mark.parametrize(
    "regex",
    [
        r"(?=\d{2})z\d",
        r"(z)\1\d",
        r"z\d{1,100000}",
        "z{99999999999}",
        r"[z\d",
        r"z(?P<n>\d)(?P<n>\d)",
        "z\u4e00[\u4e00-\u9fff]{2}",
    ],
)
@pytest.mark.parametrize("engine", ["hyperscan", "re2", "python", ""])
def test_a_bad_pattern_does_not_keep_the_other_rules_from_working(rules, make_rule, regex, engine):
    pytest.importorskip(engine) if engine in ("hyperscan", "re2") else None
    rules.put(make_rule("RUN903", "yak-shaved"), make_rule("RUN901", {"any": [{"regex": regex}]}, tests=FINE))
    matcher = Matcher(load(str(rules.folder)), engine)
    assert [o.rule for o in scan_text(matcher, "z12\nyak-shaved\n").occurrences if o.rule == "RUN903"] == ["RUN903"]


def test_two_rules_with_one_id_are_one_problem_and_the_first_stays(rules, make_rule):
    rules.put(make_rule("RUN901", "zebra-lost"))
    rules.raw("second/RUN901.yaml", yaml.safe_dump(make_rule("RUN901", "other-text"), allow_unicode=True))
    base = load(str(rules.folder))
    [problem] = base.problems
    assert "second" in problem.file and "RUN901" in problem.text and "own" in problem.text
    assert base["RUN901"].log.any[0].literal == "zebra-lost"


def test_a_circle_of_explanations_is_one_problem(rules, make_rule):
    rules.put(
        make_rule("RUN901", "text-one", explains=[{"id": "RUN902"}]),
        make_rule("RUN902", "text-two", explains=[{"id": "RUN903"}]),
        make_rule("RUN903", "text-three", explains=[{"id": "RUN901"}]),
        make_rule("RUN904", "text-four", explains=[{"id": "RUN901"}]),
    )
    found = problems_of(rules.folder)
    assert len(found) == 1 and "circle" in found[0][2]
    assert len(load(str(rules.folder))) == 4


def test_a_rule_that_explains_itself_is_a_circle(rules, make_rule):
    rules.put(make_rule("RUN901", "text-one", explains=[{"id": "RUN901"}]))
    assert [text for _, _, text in problems_of(rules.folder) if "circle" in text]


def test_an_explanation_of_no_rule_is_a_problem(rules, make_rule):
    rules.put(make_rule("RUN901", "text-one", explains=[{"id": "RUN999"}]))
    [(file, _, text)] = problems_of(rules.folder)
    assert file == "RUN901.yaml" and "RUN999" in text


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"", b"\0", "id: RUN901".encode("utf-16"), b"a: &a [*a]", b"!!python/object:os.system x"]
)
def test_bytes_that_are_no_rule_are_a_problem(rules, make_rule, data):
    rules.raw("own/RUN901.yaml", data)
    base = rules.base(make_rule("RUN903", "yak-shaved"))
    assert base.ids == ("RUN903",) and len(base.problems) == 1


def test_a_file_with_a_byte_order_mark_is_read(rules):
    rules.raw("own/RUN901.yaml", b"\xef\xbb\xbf" + GOOD.encode())
    assert load(str(rules.folder)).ids == ("RUN901",)


def test_values_are_read_as_yaml_means_them(tmp_path):
    text = (
        "a: 12\nb: '12'\nc: 1.5e+3\nd: yes\ne: ~\nf: 2026-03-01\ng: 0x1F\nh: [x, .inf, 中文]\ni: &one {k: 1}\nj: *one\n"
        "k: |\n  true\nl: !!str 7\n8: eight\nm:\n"
    )
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    assert ruleschema.read_yaml(str(path))[0] == yaml.safe_load(text)


def test_aliases_that_multiply_do_not_blow_up(tmp_path):
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    began = time.process_time()
    assert len(ruleschema.read_yaml(str(path))[0]) == 30
    assert time.process_time() - began < 1


def test_a_dangling_link_is_left_out(rules, make_rule):
    (rules.folder / "own" / "RUN901.yaml").symlink_to("/nonexistent.yaml")
    assert rules.base(make_rule("RUN903", "yak-shaved")).ids == ("RUN903",)


def test_a_link_to_the_folder_above_does_no_harm(rules, make_rule):
    (rules.folder / "own" / "up").symlink_to("..")
    assert "RUN903" in rules.base(make_rule("RUN903", "yak-shaved"))


def test_a_folder_that_is_not_there_is_a_problem(tmp_path):
    base = load(str(tmp_path / "nowhere"))
    assert len(base) == 0 and base.problems


def test_a_bad_topics_file_is_a_problem_and_the_rules_stay(rules, make_rule):
    rules.raw("topics.yaml", "topics: [")
    base = rules.base(make_rule("RUN903", "yak-shaved"))
    assert base.ids == ("RUN903",)
    assert [os.path.basename(p.file) for p in base.problems] == ["topics.yaml"]


@pytest.mark.parametrize("text", ["", "just text", "- a\n- b", "topics: 7", "topics: {own.a: 3}"])
def test_a_topics_file_of_another_shape_does_not_stop_the_doctor(rules, make_rule, text):
    rules.raw("topics.yaml", text)
    load(str(rules.put(make_rule("RUN903", "yak-shaved"))))


def test_a_bad_file_of_codes_is_a_problem_and_the_rules_stay(rules, make_rule):
    (rules.folder / "codes").unlink()
    rules.raw("codes/a.yaml", "group: [")
    base = rules.base(make_rule("RUN903", "yak-shaved"))
    assert base.ids == ("RUN903",)
    assert base.codes == {}
    assert len(base.problems) == 1  # known once the catalogue was asked for


def test_a_rule_error_reads_as_file_line_text(rules):
    path = rules.raw("own/RUN901.yaml", "a: [")
    with pytest.raises(RuleError) as caught:
        read_rule(str(path))
    assert str(caught.value).startswith(f"{path}:1: ") or str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    ("regex", "anchor", "fine"),
    [
        (r"zebra \d+", True, True),
        (r".*zebra", True, False),
        (r".*zebra", False, True),
        (r"zebra\nyak", True, False),
        (r"zebra\nyak", False, True),
        (r"zebra[^\n]{0,40}yak", True, True),
        (r"(?i)zebra", True, True),
        ("zebra[超时]", False, False),
        (r"x*", False, False),
        (r"zebra(?!yak)", False, False),
        (r"(?<!a)zebra", False, False),
        (r"zebra (?:[^\n]*\n?){1,40}yak", False, False),
        (r"zebra(?:(?P<word>\w+)|\d)*yak", False, False),
        (r"zebra(?: (?:a|\w+ ?){2,9})?yak", False, False),
        (r"zebra (?:[^\n]*\n){1,40}yak", False, True),
        (r"zebra(?:, \w+){0,40}yak", False, True),
        (r"zebra(?:\d+\.?){1,3}yak", False, True),
    ],
)
def test_patterns_must_suit_all_three_engines(regex, anchor, fine):
    assert (regex_problem(regex, anchor=anchor) is None) is fine


# ------------------------------------------------------------------ status and aliases


@pytest.mark.parametrize(
    ("status", "loaded"), [("stable", True), ("preview", True), ("draft", False), ("deprecated", False)]
)
def test_only_stable_and_preview_rules_are_loaded(rules, make_rule, status, loaded):
    base = rules.base(make_rule("RUN901", "zebra-lost", status=status, severity="warning"))
    assert ("RUN901" in base) is loaded and not base.problems


def test_an_alias_leads_to_its_rule(rules, make_rule):
    base = rules.base(make_rule("RUN901", "zebra-lost", aliases=["RUN801", "OLD-1"]))
    assert base.aliases == {"RUN801": "RUN901", "OLD-1": "RUN901"}


def test_the_whole_rule_comes_back_as_written(rules, make_rule):
    written = make_rule("RUN901", "zebra-lost", explains=[{"topic": "own.b", "within": "30m"}], note="备注")
    base = rules.base(written)
    whole = base.whole("RUN901")
    for key, value in written.items():
        if key not in ("match", "explains", "provenance", "tests"):
            assert whole[key] == value
    assert whole["file"] == os.path.join("rules", "own", "RUN901.yaml")
    assert base["RUN901"].explains[0][:2] == ("own.b", 1800.0)
    assert base.topics["own.a"]["zh"] == "题"
    assert base.code("EI0002")["code"] == "EI0002" and base.code("XX9999") is None


def test_every_shipped_rule_is_loaded_without_a_problem():
    base = load()
    assert base.problems == ()
    assert len(base) > 300
    assert [r.id for r in base] == sorted(base.ids)


# ------------------------------------------------------------------ the cache


@pytest.fixture
def compiles(monkeypatch):
    """Counts how often rules are compiled."""
    done = []
    real = ruleschema.compile_folder
    monkeypatch.setattr(ruleschema, "compile_folder", lambda *a, **k: (done.append(1), real(*a, **k))[1])
    return done


def test_the_compiled_rules_are_used_again(rules, make_rule, compiles):
    first = rules.base(make_rule("RUN901", "zebra-lost"))
    again = load(str(rules.folder))
    assert len(compiles) == 1
    assert again.key == first.key and list(again) == list(first) and again.whole("RUN901") == first.whole("RUN901")


@pytest.mark.parametrize("change", ["edited", "added", "removed", "renamed", "touched"])
def test_a_change_of_a_file_compiles_again(rules, make_rule, compiles, change):
    old = rules.base(make_rule("RUN901", "zebra-lost"), make_rule("RUN902", "yak-shaved"))
    path = rules.folder / "own" / "RUN901.yaml"
    if change == "edited":
        time.sleep(0.01)
        path.write_text(path.read_text(encoding="utf-8").replace("zebra-lost", "zebra-gone"), encoding="utf-8")
    elif change == "added":
        rules.put(make_rule("RUN903", "llama-slow"))
    elif change == "removed":
        path.unlink()
    elif change == "renamed":
        path.rename(path.with_name("RUN905.yaml"))
    else:
        os.utime(path, ns=(1, 1))
    new = load(str(rules.folder))
    assert len(compiles) == 2 and new.key != old.key
    if change == "edited":
        assert new["RUN901"].log.any[0].literal == "zebra-gone"


def test_two_folders_do_not_share_what_is_compiled(tmp_path, rules_in, make_rule):
    for name, literal in (("one", "zebra-lost"), ("two", "yak-shaved")):
        (tmp_path / name).mkdir()
        rules_in(tmp_path / name).put(make_rule("RUN901", literal))
    found = [load(str(tmp_path / name / "rules"))["RUN901"].log.any[0].literal for name in ("one", "two")]
    assert found == ["zebra-lost", "yak-shaved"]


@pytest.mark.parametrize(
    "damage", ["cut", "flipped", "empty", "garbage", "valid sum, other content", "valid sum, other JSON"]
)
def test_a_damaged_cache_is_compiled_again(rules, make_rule, compiles, own_cache, damage):
    rules.base(make_rule("RUN901", "zebra-lost"))
    [path] = own_cache.glob("rules-*")
    data = path.read_bytes()
    if damage.startswith("valid"):
        cache.write(path.name, b"not json\n" if "content" in damage else b'{"ids": ["RUN901"]}\n')
    else:
        path.write_bytes(
            {
                "cut": data[: len(data) // 2],
                "flipped": data[:90] + b"\x01" + data[91:],
                "empty": b"",
                "garbage": os.urandom(500),
            }[damage]
        )
    assert load(str(rules.folder)).ids == ("RUN901",)
    assert len(compiles) == 2


def test_the_cache_is_private_and_holds_data_only(rules, make_rule, own_cache):
    Matcher(rules.base(make_rule("RUN901", "zebra-lost")))
    assert stat.S_IMODE(own_cache.stat().st_mode) == 0o700
    names = sorted(p.name for p in own_cache.iterdir())
    assert names and not [n for n in names if n.endswith((".py", ".pyc", ".so", ".pkl"))]
    assert all(stat.S_IMODE((own_cache / n).stat().st_mode) == 0o600 for n in names)


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_cache_folder_that_others_may_write_is_not_used(rules, make_rule, own_cache, compiles, mode):
    own_cache.mkdir()
    own_cache.chmod(mode)
    rules.base(make_rule("RUN901", "zebra-lost"))
    assert load(str(rules.folder)).ids == ("RUN901",)
    assert len(compiles) == 2 and list(own_cache.iterdir()) == []


def test_a_cache_folder_that_is_a_link_or_a_file_is_not_used(rules, make_rule, tmp_path, monkeypatch):
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "file").write_text("")
    for name in ("link", "file", "file/below"):
        monkeypatch.setenv("DOCTOR_CACHE", str(tmp_path / name))
        assert cache.folder() is None
        assert rules.base(make_rule("RUN901", "zebra-lost")).ids == ("RUN901",)
    assert list((tmp_path / "target").iterdir()) == []


def test_a_cache_folder_of_somebody_else_is_not_used(rules, make_rule, own_cache, compiles, monkeypatch):
    own_cache.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    rules.base(make_rule("RUN901", "zebra-lost"))
    assert load(str(rules.folder)).ids == ("RUN901",)
    assert len(compiles) == 2 and list(own_cache.iterdir()) == []


def test_a_full_or_read_only_disk_costs_time_only(rules, make_rule, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "makedirs", refuse)
    assert cache.folder() is None
    assert rules.base(make_rule("RUN901", "zebra-lost")).ids == ("RUN901",)
    monkeypatch.undo()
    monkeypatch.setattr(os, "replace", refuse)
    assert load(str(rules.folder)).ids == ("RUN901",)


def test_a_failed_write_leaves_nothing_behind(own_cache, monkeypatch):
    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    cache.write("x", b"data")
    assert list(own_cache.iterdir()) == []


def test_what_was_written_comes_back(own_cache):
    cache.write("x", b"data")
    assert cache.read("x") == b"data" and cache.read("y") is None
    cache.write("x", b"")
    assert cache.read("x") == b""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_can_work_without_a_home(tmp_path):
    code = "from doctor import cache; from doctor.rulebase import load; print(cache.folder(), len(load()) > 300)"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    probe = (
        subprocess.run([sys.executable, "-c", ""], user=65534, group=65534, cwd="/", env=env, check=False)
        if _reachable()
        else None
    )
    if probe is None or probe.returncode:
        pytest.skip("the interpreter cannot be run by another user here")
    done = subprocess.run(
        [sys.executable, "-c", code],
        user=65534,
        group=65534,
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["None", "True"], done.stderr


def _reachable():
    """Whether others may reach this interpreter."""
    path = os.path.realpath(sys.executable)
    while path != "/":
        if not os.stat(path).st_mode & 0o001:
            return False
        path = os.path.dirname(path)
    return True


def test_a_cached_start_reads_no_yaml(rules, make_rule):
    rules.put(make_rule("RUN901", "zebra-lost"))
    code = (
        f"import sys; from doctor.rulebase import load; load({str(rules.folder)!r})\n"
        "print('yaml' in sys.modules, 'msgspec' in sys.modules)"
    )
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert runs == [["True", "True"], ["False", "False"]]


def test_the_shipped_rules_are_found_beside_the_package():
    assert os.path.isfile(os.path.join(rulebase.rules_folder(), "topics.yaml"))


# ------------------------------------------------------------------ rules of one's own


def test_rules_of_ones_own_are_loaded_with_the_shipped_ones_only(tmp_path, monkeypatch, rules, make_rule):
    own = tmp_path / "mine"
    own.mkdir()
    monkeypatch.setenv("DOCTOR_OWN_RULES", str(own))
    before = load()
    text = yaml.safe_dump(
        make_rule("RUN991", "QUASAR LINK LOST", status="preview", severity="warning", topic="process.killed")
    )
    (own / "RUN991.yaml").write_text(text, encoding="utf-8")
    (own / "broken.yaml").write_text("id: RUN992\nname: [", encoding="utf-8")
    after = load()
    assert "RUN991" not in before and "RUN991" in after and len(after) == len(before) + 1
    assert [os.path.basename(p.file) for p in after.problems] == ["broken.yaml"]
    scan = scan_text(Matcher(after, "python"), "QUASAR LINK LOST")
    assert "RUN991" in {o.rule for o in scan.occurrences}
    assert "RUN991" not in load(str(rules.folder))


def test_a_rule_of_ones_own_does_not_take_the_place_of_a_shipped_one(tmp_path, monkeypatch, make_rule):
    own = tmp_path / "mine"
    own.mkdir()
    monkeypatch.setenv("DOCTOR_OWN_RULES", str(own))
    text = yaml.safe_dump(
        make_rule("HCCL010", "QUASAR LINK LOST", status="preview", severity="warning", topic="process.killed")
    )
    (own / "HCCL010.yaml").write_text(text, encoding="utf-8")
    base = load()
    assert base.whole("HCCL010")["file"] == "rules/hccl/HCCL010.yaml"
    assert any("HCCL010 is taken" in p.text for p in base.problems)
