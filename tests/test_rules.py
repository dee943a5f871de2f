"""The shipped rules: their examples, both languages, and the laws of rules/README.md."""

import collections
import glob
import itertools
import os
import re

import pytest

from doctor import engine, ranking, ruleschema, ruletest
from doctor.i18n import LANGUAGES
from doctor.model import Report
from doctor.render.text import layout, plain
from doctor.rulebase import rules_folder
from doctor.scan.scanner import scan_text

FOLDER = rules_folder()
HEALTHY = os.path.join(os.path.dirname(FOLDER), "fixtures", "healthy")


@pytest.fixture(scope="module")
def written():
    """(path, rule) of every usable file."""
    rules, _, _ = ruleschema.read_folder(FOLDER, full=False)
    return rules


def test_the_linter_has_nothing_to_say():
    _, _, problems = ruleschema.read_folder(FOLDER)
    assert [str(p) for p in problems] == []


@pytest.fixture(scope="module")
def examples():
    """All examples run once: what ``ruletest.run`` answers, and the texts and values of every finding of a hit."""
    pytest.importorskip("hyperscan")
    shown = []
    judged = ruletest._unfilled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ruletest, "_unfilled", lambda *given: (shown.append(given[:2]), judged(*given)))
        return ruletest.run(engine="hyperscan"), shown


def test_every_example_does_what_its_rule_says(examples):
    (ran, failed, problems), _ = examples
    assert problems == []
    assert [str(f) for f in failed] == []
    assert ran > 1000


def test_no_text_of_an_example_shows_that_a_value_is_absent(examples):
    _, shown = examples
    assert len(shown) > 1500
    wrong = []
    for whole, args in shown:
        values = {name: "VALUE" for name, value in args.items() if value}
        for field, lang in itertools.product(("title", "cause", "next"), LANGUAGES):
            template = whole[field][lang]
            text = ranking.fill(template, values)
            odd = re.findall(r"\{[a-z_]\w*\??\}|\[\[|\]\]|…|\0|\S  +\S|''|\"\"|[(（] ?[)）]", text)
            odd += re.findall(r"[(（] ?[,，;；]|[,，:：=] ?[)）]|=[,，]|[:：] ?[,，。]", text)
            wrong += [(whole["id"], field, lang, hole, text) for hole in odd if hole not in template]
    assert wrong == []


@pytest.mark.parametrize(
    ("template", "args", "found"),
    [
        ("card {device?} ({why?}) of main() failed", {}, []),
        ("limits ({soft?}, {hard?})", {"hard": "4"}, []),
        ("link cut (return {code}, device {device})", {"code": "-67"}, []),
        ("settings (swap={swap?}, numa={numa?})", {"numa": "1"}, ["=,"]),
        ("after {seconds} s", {}, ["…"]),
        ("reason: {reason?}. Next.", {}, [":."]),
    ],
)
def test_a_hole_in_a_text_is_found(template, args, found):
    assert ruletest.holes(template, args) == found


def test_every_file_of_a_rule_is_loaded(written):
    files = {
        os.path.relpath(path, FOLDER)
        for path in glob.glob(os.path.join(FOLDER, "**", "*.yaml"), recursive=True)
        if os.path.basename(path) not in ruleschema.NOT_RULES and os.sep + "codes" + os.sep not in path
    }
    assert files == {os.path.relpath(path, FOLDER) for path, _ in written}


def test_ids_families_folders_and_names_agree(written):
    for path, rule in written:
        family = rule.id[:-3]
        assert os.path.basename(os.path.dirname(path)) == family.lower(), path
        assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", rule.name), (rule.id, rule.name)
    names = collections.Counter(rule.name for _, rule in written)
    assert [name for name, n in names.items() if n > 1] == []


def test_an_alias_is_no_id_and_leads_to_one_rule_only(written):
    ids = {rule.id for _, rule in written}
    aliases = collections.Counter(alias for _, rule in written for alias in rule.aliases)
    assert [a for a, n in aliases.items() if n > 1 or a in ids] == []


def test_a_rule_known_only_from_a_seed_is_preview_guess_and_advice(written):
    for _, rule in written:
        if all(source.kind == "seed" for source in rule.provenance):
            assert (rule.status, rule.confidence, rule.severity) == ("preview", "guess", "advice"), rule.id


def test_every_source_can_be_looked_up(written):
    for _, rule in written:
        for source in rule.provenance:
            assert source.ref.strip() and "TODO" not in source.ref, rule.id
            assert not re.search(r"/tmp/|/work/|shared/", source.ref), (rule.id, source.ref)


def test_no_text_is_left_to_write(written):
    for _, rule in written:
        for text in (rule.title, rule.cause, rule.next):
            assert "TODO" not in text.zh + text.en and "待填写" not in text.zh, rule.id
            assert not re.search(r"[\u4e00-\u9fff]", text.en), (rule.id, text.en)


def test_a_title_is_one_line_and_no_cure(written):
    for _, rule in written:
        for lang in LANGUAGES:
            title = getattr(rule.title, lang).strip()
            assert "\n" not in title and len(title) <= 120, (rule.id, title)
            assert not title.endswith((".", "。")), (rule.id, title)


def test_both_languages_name_the_same_captures(written):
    for _, rule in written:
        for text in (rule.title, rule.cause, rule.next):
            # {use_zh} and {use_en} are one capture in two languages
            zh, en = (
                {name.removesuffix("_" + lang) for name in re.findall(r"\{([a-z_0-9]+)\??\}", words)}
                for lang, words in (("zh", text.zh), ("en", text.en))
            )
            assert zh == en, (rule.id, zh ^ en)


def test_a_noise_rule_is_advice_at_most(written):
    assert [r.id for _, r in written if r.role == "noise" and r.severity == "error"] == []


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_rule_renders_in_a_report(base, matcher, lang):
    for rule in base:
        if rule.log is None:
            continue
        scan = scan_text(matcher, base.whole(rule.id)["tests"]["hit"][0]["log"])
        findings, diagnoses = ranking.rank(base, [scan], {})
        assert rule.id in {f.id for f in findings}, rule.id
        text = plain(layout(Report({}, "error", diagnoses, findings), lang, every=True))
        own = next(f for f in findings if f.id == rule.id)
        assert own.title[lang].strip()
        for diagnosis in diagnoses:
            assert diagnosis.cause[lang].strip() and diagnosis.next[lang].strip()
        assert not re.search(
            r"\{[a-z_0-9]+\??\}", " ".join(d.title[lang] + d.cause[lang] + d.next[lang] for d in diagnoses)
        ), rule.id
        assert text.strip()


def healthy_logs():
    return sorted(p for p in glob.glob(os.path.join(HEALTHY, "**", "*"), recursive=True) if os.path.isfile(p))


@pytest.mark.parametrize("path", healthy_logs(), ids=lambda p: os.path.relpath(p, HEALTHY))
def test_no_rule_fires_as_error_or_warning_on_a_healthy_log(path):
    report = engine.diagnose([path], engine.Options(jobs=1))
    findings = [f for f in report.findings if f.id not in ("RULES", "INPUT") and f.role != "noise"]
    assert [(f.id, f.severity, f.evidence) for f in findings if f.severity in ("error", "warning")] == []
    assert report.verdict in ("healthy", "advice", "unknown")
    assert engine.exit_code(report) == 0


def test_the_healthy_logs_together_are_healthy():
    report = engine.diagnose([HEALTHY], engine.Options(jobs=1))
    assert [(d.rule, d.severity) for d in report.diagnoses if d.severity != "advice"] == []
    assert len(report.inputs) >= 15


def test_every_topic_has_both_languages(base):
    for label, texts in base.topics.items():
        assert re.fullmatch(r"[a-z_]+(?:\.[a-z0-9_]+)*", label), label
        assert texts["zh"].strip() and texts["en"].strip(), label
