"""Trying a rule: what it captures, or why it is quiet; on texts, logs, configurations and source."""

import io
import json

import pytest

from doctor import ruletest, ruletry
from doctor.rulebase import load
from doctor.rulecli import trial_lines

HEAD = "DEVICE(7,7f00,python):2026-03-18-09:01:02.100.200 [a.cc:3] Run]"


@pytest.fixture
def ready(rules, make_rule):
    """Makes a rule ready: ready(any=[…], level=[…]) or ready("literal")."""

    def build(literal="zebra-lost", tests=None, **log):
        rule = make_rule("RUN901", literal)
        if log:
            rule["match"]["log"] = log
        if tests:
            rule["tests"] = tests
        rules.put(rule)
        return ruletry.of_base("RUN901", load(str(rules.folder)))

    return build


def states(trial):
    return [one.state for _, one in trial.quiet]


def test_every_example_is_answered_as_a_diagnosis_would(base):
    for rule_id in [rule.id for rule in base if rule.kind == "log"][::12]:
        prepared = ruletry.of_base(rule_id, base)
        assert prepared.problems == (), rule_id
        tests = base.whole(rule_id)["tests"]
        for example in tests["hit"]:
            trial = ruletry.try_text(prepared, example["log"])
            assert trial.verdict == "fires", (rule_id, example["log"])
            for name, value in example["expect"].items():
                assert trial.hits[0].args.get(name) == value, rule_id
        for example in tests["miss"]:
            trial = ruletry.try_text(prepared, example["log"])
            assert trial.verdict == "quiet" and (trial.quiet or trial.anchors), rule_id
            # a line that fires is never among those that do not
            assert "same" not in states(trial), (rule_id, example["log"])


def test_captures_and_lines_are_told(ready):
    prepared = ready(any=[{"literal": "zebra-lost", "regex": r"zebra-lost on rank (?P<rank>\d+)"}])
    trial = ruletry.try_text(prepared, f"fine\n[ERROR] {HEAD} zebra-lost on rank 3\n")
    assert (trial.verdict, trial.times, trial.lines) == ("fires", 1, 2)
    assert (trial.hits[0].line, trial.hits[0].args) == (2, {"rank": "3"})
    assert ("cyan", "      rank = 3") in trial_lines(trial, "en")


@pytest.mark.parametrize(
    ("log", "text", "state", "detail"),
    [
        ({"any": [{"literal": "zebra-lost"}]}, f"[INFO] {HEAD} zebra-lost", "level", "INFO"),
        ({"any": [{"literal": "zebra-lost", "regex": r"zebra-lost \d+"}]}, "zebra-lost x", "regex", r"zebra-lost \d+"),
        ({"any": [{"literal": "zebra-lost"}], "all": [{"literal": "lion"}]}, "zebra-lost", "all", "lion"),
        ({"any": [{"literal": "zebra-lost"}], "not": [{"literal": "found again"}]}, "zebra-lost, found again", "not",
         "found again"),
        ({"any": [{"literal": "zebra-lost", "regex": r"zebra-lost (?P<n>\d+)"}], "calc": "n > 5"}, "zebra-lost 3",
         "calc", "n > 5"),
    ],
)  # fmt: skip
def test_the_part_that_does_not_hold_is_named(ready, log, text, state, detail):
    trial = ruletry.try_text(ready(**log), "before\n" + text)
    assert trial.verdict == "quiet" and len(trial.quiet) == 1
    assert (trial.quiet[0][1].state, trial.quiet[0][1].detail, trial.quiet[0][1].line) == (state, detail, 2)
    for lang in ("zh", "en"):
        assert any(detail in line for _, line in trial_lines(trial, lang))


def test_a_block_fires_once_and_says_so_of_its_other_lines(ready):
    prepared = ready(any=[{"literal": "zebra-striped", "regex": "lost zebra-striped"}], unit="message")
    trial = ruletry.try_text(prepared, f"[ERROR] {HEAD} lost zebra-striped\n  zebra-striped again\n")
    assert trial.verdict == "fires" and len(trial.hits) == 1 and states(trial) == ["same"]


def test_what_comes_near_an_anchor_is_told(ready):
    prepared = ready(any=[{"literal": "zebra-lost", "regex": r"(?i)zebra.lost"}])
    trial = ruletry.try_text(prepared, "one\nZEBRA-lost\nzebra lost\n")
    assert trial.anchors == ("zebra-lost",)
    assert [(line, how) for line, _, how in trial.near] == [(2, "case"), (3, "literal")]
    text = "\n".join(line for _, line in trial_lines(trial, "en"))
    assert "upper or lower case" in text and "the literal is not there" in text


def test_a_long_log_is_read_in_pieces_and_can_be_stopped(ready):
    prepared = ready()
    log = b"nothing to see here\n" * 40_000
    asked = []

    def stop():
        asked.append(1)
        return len(asked) > 1

    chunks = (log[at : at + 100_000] for at in range(0, len(log), 100_000))
    trial = ruletry.try_chunks(prepared, "x", chunks, stop)
    assert trial.cancelled and trial.lines < 40_000 and "stopped" in trial_lines(trial, "en")[0][1]
    trial = ruletry.try_chunks(prepared, "x", [log, b"zebra-lost\n"])
    assert trial.verdict == "fires" and trial.hits[0].line == 40_001 and not trial.cancelled


def test_a_line_of_a_megabyte_and_hostile_text_are_harmless(ready):
    trial = ruletry.try_text(ready(), "x" * (1 << 20) + " zebra-lost \x1b]52;c;AAAA\x07 [bold]\u202e")
    assert trial.verdict == "fires"
    text = "".join(line for _, line in trial_lines(trial, "en"))
    assert "\x1b" not in text and "\u202e" not in text and "[bold]" in text


def test_other_kinds_are_tried_or_say_what_they_take(base):
    by_kind = {}
    for rule in base:
        if any(base.whole(rule.id)["tests"]["hit"]):
            by_kind.setdefault(rule.kind, rule.id)
    condition = ruletry.of_base(by_kind["when"], base)
    example = condition.whole["tests"]["hit"][0]
    trial = ruletry.try_text(condition, example["config"], example["name"])
    assert trial.verdict in ("fires", "unknown") and trial.kind == "when"
    assert ruletry.try_text(condition, "no plan at all", "config.yaml").verdict == "impossible"
    code = ruletry.of_base(by_kind["code"], base)
    assert ruletry.try_text(code, "x = 1\n").verdict in ("quiet", "not_applicable")
    series = ruletry.of_base(by_kind["series"], base)
    assert ruletry.try_text(series, series.whole["tests"]["hit"][0]["log"]).verdict == "fires"
    for kind in ("check", "smoke"):
        trial = ruletry.try_text(ruletry.of_base(by_kind[kind], base), "anything")
        assert trial.verdict == "impossible"
        assert all(trial_lines(trial, lang)[0][1] for lang in ("zh", "en"))


def test_a_file_that_cannot_be_used_says_why(tmp_path, base):
    path = tmp_path / "RUN901.yaml"
    path.write_text("id: RUN901\nflavour: sweet\n")
    trial = ruletry.try_text(ruletry.of_file(str(path), base), "x")
    assert trial.verdict == "broken" and "RUN901.yaml:2" in trial.problems[0]


# ---------------------------------------------------------------------- the command line


def test_the_command_tells_by_its_exit_code(cli, rules, make_rule, tmp_path, monkeypatch):
    rules.put(make_rule("RUN901", "zebra-lost", aliases=["RUN801"]))
    log = tmp_path / "a.log"
    log.write_text("fine\nzebra-lost\n")
    ran = cli("rules", "try", "RUN901", log, "--rules", rules.folder)
    assert ran.code == 0 and f"{log}:2  zebra-lost" in ran.out
    assert cli("rules", "try", "run801", "--text", "fine", "--rules", rules.folder).code == 1
    assert cli("rules", "try", "RUN999", "--text", "fine", "--rules", rules.folder).code == 2
    ran = cli("rules", "try", "RUN901", tmp_path / "none.log", "--rules", rules.folder)
    assert ran.code == 2 and "none.log" in ran.err and not ran.out
    rows = json.loads(cli("rules", "try", "RUN901", log, "--format", "json", "--rules", rules.folder).out)
    assert rows[0]["verdict"] == "fires" and rows[0]["hits"][0]["line"] == 2
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"zebra-lost\n")))
    assert cli("rules", "try", "RUN901", "-", "--rules", rules.folder).code == 0


def test_a_draft_outside_the_folder_is_tried_and_tested(cli, rules, make_rule, tmp_path):
    import yaml

    path = tmp_path / "RUN901.yaml"
    rule = make_rule("RUN901", "zebra-lost", status="draft")
    path.write_text(yaml.safe_dump(rule))
    assert cli("rules", "try", path, "--text", "zebra-lost", "--rules", rules.folder).code == 0
    ran = cli("rules", "test", path, "--rules", rules.folder)
    assert ran.code == 0 and ran.out.startswith("3 examples")
    rule["tests"]["miss"][0]["log"] = "zebra-lost"
    path.write_text(yaml.safe_dump(rule))
    ran = cli("rules", "test", path, "--rules", rules.folder)
    assert ran.code == 1 and "miss 1 fires" in ran.out
    assert ruletest.alone(str(path), load(str(rules.folder)))[0] == 3


def test_the_source_of_a_rule_is_printed_as_it_was_written(cli, base):
    from doctor.rulecli import source_path

    rule_id = base.ids[0]
    with open(source_path(base, base.whole(rule_id)), encoding="utf-8") as file:
        assert cli("explain", rule_id, "--source").out == file.read()
