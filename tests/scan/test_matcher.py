"""doctor.scan.matcher: three engines, one answer; and the traps of Hyperscan, each met once."""

import gc
import glob
import os
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor import cache
from doctor.rulebase import load
from doctor.scan import matcher as matcher_module
from doctor.scan.anchors import CLAUSE_BITS
from doctor.scan.matcher import Anchors, HyperscanEngine, engine_for
from doctor.scan.scanner import Matcher, Scanner, scan_stream, scan_text

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENGINES = ("hyperscan", "re2", "python")


def need(engine):
    """Skip the test where this engine cannot be had."""
    pytest.importorskip(engine) if engine != "python" else None


def examples():
    base = load()
    return [e["log"] for r in base if r.log for e in base.whole(r.id)["tests"]["hit"]]


def healthy_lines():
    lines = []
    for path in sorted(glob.glob(os.path.join(ROOT, "fixtures", "healthy", "**", "*.log"), recursive=True)):
        with open(path, "rb") as file:
            lines += file.read().split(b"\n")[:60]
    return lines


EXAMPLES = examples()
HEALTHY = healthy_lines()
PIECE = st.one_of(
    st.sampled_from(EXAMPLES).map(str.encode),
    st.sampled_from(EXAMPLES).map(lambda t: t.encode("gb18030", "replace")),
    st.sampled_from(HEALTHY),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"\0\0\0\0",
            b"\x1b[31m",
            b"  6%|#  | 6/100 [00:02<00:08]\r",
            b"\xff\xfe",
            "集合通信".encode(),
            b"[ERROR] ",
        ]
    ),
)
JOINT = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\r", b" ", b"\n\n"])
LOG = st.lists(st.tuples(PIECE, JOINT), min_size=1, max_size=14).map(lambda parts: b"".join(a + b for a, b in parts))


def scanned(matcher, data, sizes=()):
    """The scan of ``data`` fed in pieces of ``sizes``, the rest at once; without what depends on the feeding."""
    scanner = Scanner(matcher, "x")
    at = 0
    for size in sizes:
        if at < len(data):
            scanner.feed(data[at : at + size])
            at += size
    if at < len(data):
        scanner.feed(data[at:])
    return scanner.finish()


@settings(max_examples=60)
@given(LOG)
def test_the_three_engines_find_the_same(matchers, data):
    results = {name: scanned(m, data) for name, m in matchers.items()}
    first = next(iter(results.values()))
    for name, result in results.items():
        assert repr(result) == repr(first), name


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=40)
@given(data=LOG, sizes=st.lists(st.integers(1, 700), max_size=12))
def test_the_size_of_the_chunks_does_not_change_the_findings(matchers, engine, data, sizes):
    need(engine)
    # as text: a loss of NaN does not equal itself
    assert repr(scanned(matchers[engine], data, sizes)) == repr(scanned(matchers[engine], data))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_that_arrives_line_by_line_gives_the_same_findings(matchers, engine):
    need(engine)
    data = b"\n".join(HEALTHY[:40]) + b"\n" + "\n".join(EXAMPLES[:60]).encode() + b"\n" + b"\n".join(HEALTHY[40:80])
    pieces = [len(line) for line in data.splitlines(keepends=True)]
    assert scanned(matchers[engine], data, pieces) == scanned(matchers[engine], data)


@pytest.mark.parametrize("size", [1, 7, 64, 4096, 65536, 256 << 10])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_needle_over_a_chunk_border_is_found_once(new_matcher, engine, size):
    need(engine)
    matcher = new_matcher(engine)
    line = b"[ERROR] ME(1:2,M):2026-01-01-00:00:00.000.000 [a.py:1] ZEBRA-CROSSING 7\n"
    filler = b"healthy line\n" * (max(0, size - 40) // 13 + 1)
    for shift in range(0, 75, 9):
        data = filler[: max(0, size - shift)] + line + b"tail\n"
        result = scanned(matcher, data, [size] * (len(data) // size + 1))
        assert result.counts == {"RUN901": 1}
        assert result.occurrences[0].line == data[: data.index(b"ZEBRA")].count(b"\n") + 1


@pytest.fixture(scope="module")
def new_matcher(tmp_path_factory, rules_in, make_rule):
    """Matchers of a few rules that show the traps, by engine."""
    folder = rules_in(tmp_path_factory.mktemp("traps"))
    folder.put(
        make_rule("RUN901", "ZEBRA-CROSSING"),
        make_rule(
            "RUN902",
            {"any": [{"regex": r"\b(?:qx|qy)\d{2}-\d{3}$"}]},
            tests={"hit": [{"log": "qx12-345"}], "miss": [{"log": "a"}, {"log": "b"}]},
        ),
        make_rule("RUN903", {"any": [{"literal": "斑马线失败"}]}),
        make_rule(
            "RUN904",
            {"any": [{"regex": r"\b(?:qa|qb)size (?P<n>\d+)"}]},
            tests={"hit": [{"log": "qasize 1"}], "miss": [{"log": "a"}, {"log": "b"}]},
        ),
        make_rule(
            "RUN905",
            {"any": [{"regex": r"(?i)yak-shaving of (?P<who>\w+)"}]},
            tests={"hit": [{"log": "YAK-Shaving of me"}], "miss": [{"log": "a"}, {"log": "b"}]},
        ),
    )
    base = load(str(folder.folder))
    assert not base.problems and len(base) == 5
    made = {}

    def get(engine):
        if engine not in made:
            made[engine] = Matcher(base, engine)
        return made[engine]

    return get


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_end_of_a_line_is_found_whatever_ends_the_line(new_matcher, engine, end):
    need(engine)
    scanner = Scanner(new_matcher(engine), "x")
    scanner.feed_whole(b"before" + (end or b"\n") + b"link qx12-345" + end)
    assert scanner.finish().counts == {"RUN902": 1}


def test_an_expression_without_a_telling_text_is_looked_for_in_small_inputs_only(new_matcher):
    data = b"link qx12-345\n"
    matcher = new_matcher("python")
    assert scanned(matcher, data).counts == {}
    scanner = Scanner(matcher, "x")
    scanner.feed_whole(data)
    assert scanner.finish().counts == {"RUN902": 1}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "gb18030"])
def test_a_chinese_literal_is_found_in_both_encodings(new_matcher, engine, encoding):
    need(engine)
    result = scanned(new_matcher(engine), "启动\n进程 3 斑马线失败，请检查\n".encode(encoding))
    assert [(o.rule, o.line, o.text) for o in result.occurrences] == [("RUN903", 2, "进程 3 斑马线失败，请检查")]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_ends_of_one_match_are_one_finding(new_matcher, engine):
    need(engine)
    result = scanned(new_matcher(engine), b"a qasize 123456 b\n")
    assert result.counts == {"RUN904": 1}
    assert result.occurrences[0].args == {"n": "123456"}


@pytest.mark.parametrize("engine", ENGINES)
def test_case_is_open_where_the_pattern_says_so(new_matcher, engine):
    need(engine)
    result = scanned(new_matcher(engine), b"YAK-shaving of Me\nzebra-crossing\n")
    assert result.counts == {"RUN905": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_nul_bytes_and_junk_hide_nothing(new_matcher, engine):
    need(engine)
    result = scanned(new_matcher(engine), b"\0" * 5000 + b"\n\xff\xfe\x80 ZEBRA-CROSSING\0\n")
    assert [(o.rule, o.line) for o in result.occurrences] == [("RUN901", 2)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("filler", [b"x", b"1 ", b"\r 5%|#   | 5/100"], ids=["letters", "numbers", "bar"])
def test_a_hit_at_the_end_of_a_line_of_a_megabyte_is_found(new_matcher, engine, filler):
    need(engine)
    line = (filler * (1 << 20))[: 1 << 20] + b" ZEBRA-CROSSING now"
    result = scan_text(new_matcher(engine), "first\n" + line.decode() + "\nlast\n")
    assert result.counts == {"RUN901": 1}
    assert result.occurrences[0].line == 2
    assert result.lines == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_the_evidence_of_a_long_line_shows_what_was_found(new_matcher, engine):
    need(engine)
    result = scan_text(new_matcher(engine), "x" * 9000 + " ZEBRA-CROSSING now\n")
    assert "ZEBRA-CROSSING" in result.occurrences[0].text


@pytest.mark.parametrize("engine", ENGINES)
def test_two_hits_far_apart_on_one_long_line_are_both_found(new_matcher, engine):
    need(engine)
    line = "ZEBRA-CROSSING " + "x" * 100_000 + " yak-shaving of me"
    assert set(scan_text(new_matcher(engine), line + "\n").counts) == {"RUN901", "RUN905"}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_hit_between_two_returns_is_found(new_matcher, engine):
    need(engine)
    result = scanned(new_matcher(engine), b"  5%|#   | 5/100\rZEBRA-CROSSING now\r  6%|#   | 6/100\n")
    assert result.counts == {"RUN901": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_with_returns_for_line_ends_is_read(new_matcher, engine):
    need(engine)
    result = scanned(new_matcher(engine), b"start\rZEBRA-CROSSING now\ryak-shaving of me\rend\r")
    assert set(result.counts) == {"RUN901", "RUN905"}


@pytest.mark.parametrize("engine", ENGINES)
def test_colours_inside_a_literal_hide_nothing(new_matcher, engine, tmp_path):
    need(engine)
    path = tmp_path / "a.log"
    path.write_bytes(b"\x1b[31mZEBRA\x1b[0m-\x1b[1;33mCROSSING\x1b[0m\n")
    with open(path, "rb") as file:
        assert scan_stream(new_matcher(engine), "a", file).counts == {"RUN901": 1}


def test_the_callback_outlives_the_collection_of_garbage(new_matcher):
    need("hyperscan")
    engine = new_matcher("hyperscan").engine
    streams = [engine.stream() for _ in range(50)]
    gc.collect()
    junk = [object() for _ in range(10_000)]
    for stream in streams:
        assert stream.scan(b"..ZEBRA-CROSS") == []
    del junk
    gc.collect()
    for stream in streams:
        hits = stream.scan(b"ING..") + stream.close()
        assert [end for end, _ in hits] == [16]


def hits_of(stream, data, sizes):
    """(hits, losses) of a stream that is given data in pieces of some sizes, over and over."""
    found = []
    at = n = 0
    while at < len(data):
        size = sizes[n % len(sizes)]
        found += stream.scan(data[at : at + size])
        if n % 7 == 6:
            found += stream.drain()
        at, n = at + size, n + 1
    return found + stream.close(), stream.losses


def whole_engine(matcher):
    """An engine that looks for the anchors themselves."""
    engine = HyperscanEngine(matcher.anchors)
    engine.stemmed = False
    return engine


@settings(max_examples=60)
@given(data=LOG, sizes=st.lists(st.sampled_from([1, 3, 60, 127, 128, 129, 255, 256, 300, 5000]), min_size=1))
def test_stems_lead_to_the_same_hits_as_the_anchors_themselves(matchers, data, sizes):
    need("hyperscan")
    wanted, losses = hits_of(whole_engine(matchers["hyperscan"]).stream(), data, [len(data)])
    found, found_losses = hits_of(matchers["hyperscan"].engine.stream(), data, sizes)
    assert found == sorted(wanted)
    assert found_losses == losses


@settings(max_examples=30)
@given(data=LOG, sizes=st.lists(st.integers(1, 400), min_size=1))
def test_a_log_full_of_stems_is_read_by_the_anchors_themselves_from_there_on(matchers, data, sizes):
    need("hyperscan")
    data = data * 3
    wanted, losses = hits_of(whole_engine(matchers["hyperscan"]).stream(), data, [len(data)])
    engine = HyperscanEngine(matchers["hyperscan"].anchors)
    engine.met = matcher_module.MET + (1 << 30)
    found, found_losses = hits_of(engine.stream(), data, sizes)
    assert not engine.stemmed
    assert found == sorted(wanted)
    assert found_losses == losses


def test_stems_that_are_met_all_the_time_are_given_up(matchers, monkeypatch):
    need("hyperscan")
    monkeypatch.setattr(matcher_module, "MET", 100)
    engine = HyperscanEngine(matchers["hyperscan"].anchors)
    stem = next(s for s in engine.anchors.stem_rows() if s[2] >= engine.anchors.first_prose and s[0].isalpha())[0]
    quiet, busy = engine.stream(), engine.stream()
    quiet.scan(b"nothing here\n" * 10_000)
    assert engine.stemmed
    busy.scan((b"..." + stem + b"...\n") * 200)
    assert not engine.stemmed


def test_a_stream_that_is_never_closed_does_no_harm(new_matcher):
    need("hyperscan")
    for _ in range(100):
        new_matcher("hyperscan").engine.stream().scan(b"ZEBRA-CROSSING")
    gc.collect()
    assert scanned(new_matcher("hyperscan"), b"ZEBRA-CROSSING\n").counts == {"RUN901": 1}


@pytest.mark.parametrize("damage", ["cut", "garbage", "zeroes", "empty", "flipped", "other file"])
def test_a_damaged_database_in_the_cache_is_built_again(rules, make_rule, damage, tmp_path, monkeypatch):
    need("hyperscan")
    monkeypatch.setenv("DOCTOR_CACHE", str(tmp_path / "cache"))
    base = rules.base(make_rule("RUN901", "ZEBRA-CROSSING"))
    Matcher(base, "hyperscan")
    [name] = [n for n in os.listdir(cache.folder()) if n.startswith("hs-")]
    good = cache.read(name)
    bad = {
        "cut": good[: len(good) // 2],
        "garbage": os.urandom(len(good)),
        "zeroes": bytes(len(good)),
        "empty": b"",
        "flipped": good[:200] + bytes([good[200] ^ 0xFF]) + good[201:],
        "other file": b'{"a": 1}\n',
    }[damage]
    if damage == "flipped":
        with open(os.path.join(cache.folder(), name), "rb+") as file:
            file.seek(204)
            file.write(bad[200:201])
        assert cache.read(name) is None
    else:
        cache.write(name, bad)
    assert scanned(Matcher(base, "hyperscan"), b"ZEBRA-CROSSING\n").counts == {"RUN901": 1}
    assert cache.read(name) == good


def test_two_threads_scan_with_one_engine_at_once(new_matcher):
    need("hyperscan")
    matcher = new_matcher("hyperscan")
    data = (b"healthy line\n" * 2000 + b"ZEBRA-CROSSING\n") * 20
    found, errors = [], []

    def work():
        try:
            for _ in range(3):
                found.append(scanned(matcher, data, [50_000] * 20).counts["RUN901"])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert found == [20] * 12


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_needle_behind_four_gib_is_found(new_matcher, tmp_path):
    need("hyperscan")
    path = tmp_path / "big.log"
    size = (4 << 30) + (64 << 20)
    with open(path, "wb") as file:
        file.write(b"ZEBRA-CROSSING\n")
        file.seek(size)
        file.write(b"\nyak-shaving of me\nqx12-345")
    with open(path, "rb", buffering=0) as file:
        result = scan_stream(new_matcher("hyperscan"), "big", file)
    assert [(o.rule, o.line) for o in result.occurrences] == [("RUN901", 1), ("RUN905", 3)]
    assert result.size == size + len(b"\nyak-shaving of me\nqx12-345")


def test_the_fastest_engine_is_taken_and_each_can_be_asked_for(base):
    need("hyperscan")
    assert engine_for(base).name == "hyperscan"
    assert engine_for(base, "re2").name == "re2"
    assert engine_for(base, "python").name == "python"


def test_without_hyperscan_and_re2_pure_python_does_it(base, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "hyperscan", None)
    monkeypatch.setitem(sys.modules, "re2", None)
    assert engine_for(base).name == "python"


def test_every_anchor_has_rules_or_a_name_of_its_own(base):
    anchors = Anchors(base)
    assert len(anchors) == len(anchors.rows()) + len(base.prose)
    for aid in range(len(anchors)):
        targets = anchors.targets(aid)
        assert bool(targets) != bool(anchors.special.get(aid))
        assert all(base.rule_at(target >> CLAUSE_BITS).log is not None for target in targets)
