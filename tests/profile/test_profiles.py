"""Profiles of ranks become values, findings and a table; what was not read is said."""

import json
import random
import shutil
from pathlib import Path

import pytest

from doctor import engine, profile, rulebase
from doctor.profile import facts, judge
from doctor.render import text

ROOT = Path(__file__).resolve().parents[2]
SLOW = ROOT / "fixtures" / "profiles" / "slow"
FIRST = SLOW / "node0_4710_20260301081502123_ascend_ms" / "ASCEND_PROFILER_OUTPUT"
HEALTHY = ROOT / "fixtures" / "healthy" / "profile"


def diagnosed(*paths):
    return engine.diagnose([str(p) for p in paths], engine.Options(jobs=1))


def values(report):
    return {p["rank"]: p["values"] for p in report.facts["profile"]["value"]["profiles"]}


def fired(report):
    return {f.id for f in report.findings if f.id.startswith("PERF7") and f.verdict.value == "fail"}


@pytest.fixture(scope="module")
def slow():
    return diagnosed(SLOW)


def test_shares_are_those_of_the_rows():
    found = values(diagnosed(HEALTHY))
    # computing 352110 + exposed 21000 + idle 14000 us, of 81000 us of communication 60000 are hidden
    assert found[0]["step_ms"] == pytest.approx(387.12)
    assert found[0]["computing"] == pytest.approx(100 * 352.12 / 387.12, abs=0.05)
    assert found[0]["overlapped"] == pytest.approx(100 * 60 / 81, abs=0.05)
    assert found[0]["mac"] == pytest.approx(77.0, abs=1)
    assert set(found) == {0, 1}, "ranks are named by profiler_info_N.json"


def test_a_healthy_profile_raises_nothing():
    report = diagnosed(HEALTHY)
    assert (fired(report), report.verdict) == (set(), "healthy")


def test_the_slow_rank_is_named_and_explains_the_others(slow):
    first = slow.diagnoses[0]
    assert (first.rule, first.place.rank, first.place.host) == ("PERF727", 2, None)
    assert {slow.findings[n].id for n in first.consequences} == {"PERF720", "PERF728"}
    assert fired(slow) == {"PERF720", "PERF722", "PERF723", "PERF725", "PERF727", "PERF728", "PERF729"}


def test_evidence_points_at_the_longest_row(slow):
    (aicpu,) = [f for f in slow.findings if f.id == "PERF722" and f.place.rank == 0]
    path = aicpu.evidence[0]
    assert "AI_CPU" in Path(path.source).read_text().splitlines()[path.line - 1]


def test_a_configuration_in_the_same_call_gives_the_bubble_its_measure(tmp_path):
    config = tmp_path / "train.yaml"
    config.write_text(
        "run_mode: train\nuse_parallel: True\nrunner_config:\n  batch_size: 1\nmodel:\n  model_config:\n"
        "    type: LlamaConfig\n    hidden_size: 768\n    num_layers: 12\n    num_heads: 12\n    seq_length: 1024\n"
        "parallel_config:\n  data_parallel: 1\n  model_parallel: 1\n  pipeline_stage: 4\n  micro_batch_num: 16\n"
    )
    report = diagnosed(SLOW, config)
    assert values(report)[0]["planned_bubble"] == pytest.approx(100 * 3 / 19, abs=0.05)
    assert "PERF726" in fired(report)
    assert "PERF725" not in fired(report)


def test_the_report_shows_where_the_time_goes(slow):
    for lang, word in (("en", "Where the time goes"), ("zh", "时间花在哪里")):
        plain = text.plain(text.layout(slow, lang))
        assert word in plain
        assert "MatMulV3 55.4 %" in plain
        assert "RandomChoiceWithMask" in plain


def test_the_tables_of_msprof_say_the_same_kind_of_things():
    report = diagnosed(ROOT / "fixtures" / "profiles" / "msprof")
    (found,) = values(report).values()
    assert found["iteration_ms"] == pytest.approx(0.938)
    assert found["memcpy"] == pytest.approx(100 * 90 / 2190, abs=0.05)
    assert found["matmul"] == pytest.approx(100 * 11.6 / 16.0, abs=0.05), "of op_summary, not of op_statistic too"
    assert (found["data_op"], found["queue_empty"]) == ("Map(id=2)", 97.1)


def test_an_archive_is_read_like_a_folder(tmp_path, slow):
    made = shutil.make_archive(str(tmp_path / "run"), "gztar", SLOW.parent, "slow")
    report = diagnosed(made)
    assert values(report) == values(slow)
    assert fired(report) == fired(slow)


def test_a_table_of_a_cluster_holds_all_ranks(tmp_path):
    path = tmp_path / "cluster_step_trace_time.csv"
    rows = [f"1,rank,{r},{300 if r == 3 else 240},20,30,50,10,0,0" for r in range(8)] + [
        "1,stage,(0),300,20,30,50,10,0,0"
    ]
    path.write_text(
        "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble\n"
        + "\n".join(rows)
    )
    report = diagnosed(path)
    assert set(values(report)) == set(range(8))
    (found,) = [d for d in report.diagnoses if d.rule == "PERF728"]
    assert found.place.rank == 3


def test_a_large_table_is_read_to_its_end(tmp_path):
    path = tmp_path / "kernel_details.csv"
    head = "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us)\n"
    path.write_text(head + "1,net/MatMul,MatMulV3,AI_CORE,1.5,10.0,0.0\n" * 20_000 + "1,x,TopK,AI_CPU,1.5,90000,0.0\n")
    report = diagnosed(path)
    (found,) = values(report).values()
    assert found["aicpu"] == pytest.approx(100 * 90 / 290, abs=0.05)
    (seen,) = report.inputs
    assert (seen.state, seen.size) == ("read", path.stat().st_size)


def test_what_cannot_be_judged_is_said_and_is_no_health(tmp_path):
    (tmp_path / "api_statistic.csv").write_text(
        "Device_id,Level,API Name,Time(us),Count\n0,acl,launch,30.5,2\n0,acl,free,3.5,2\n"
    )
    (tmp_path / "trace_view.json").write_text('[{"name": "a", "ph": "X", "ts": "1", "dur": 2}]')
    report = diagnosed(tmp_path)
    why = {Path(s.name).name: s.why["en"] for s in report.inputs}
    assert "API Name" in why["api_statistic.csv"]
    assert "timeline" in why["trace_view.json"]
    assert report.verdict == "unknown"


def test_a_file_that_ends_in_the_middle_is_partial(tmp_path):
    whole = (FIRST / "communication.json").read_text()
    path = tmp_path / "communication.json"
    path.write_text(whole[: len(whole) // 2])
    report = diagnosed(path)
    assert [s.state for s in report.inputs] == ["partial"]
    assert report.verdict == "unknown"


def test_a_paste_may_hold_a_table_among_words():
    table = (FIRST / "step_trace_time.csv").read_text()
    report = engine.diagnose([], paste=("Why is it so slow?\n\n" + table).encode())
    assert "PERF725" in fired(report)
    (found,) = [d for d in report.diagnoses if d.rule == "PERF725"]
    assert found.evidence[0].line == 5, "of the whole paste"


def test_logs_and_configurations_are_no_tables():
    for path in sorted((ROOT / "fixtures" / "healthy").glob("*.log")):
        assert profile.kind_of(path.read_bytes()) == "", path.name
    for path in sorted((ROOT / "fixtures" / "configs").rglob("*.json")):
        assert profile.kind_of(path.read_bytes()) == "", path.name


def test_values_are_those_that_are_declared(slow):
    for found in values(slow).values():
        assert {f"profile.{name}" for name in found} <= set(facts.OF_RANK)
    assert {f"profile.{name}" for name in slow.facts["profile"]["value"]["run"]} <= set(facts.OF_RUN)
    json.dumps(slow.facts)


def test_the_table_can_be_shown_in_ascii(slow):
    table = text.plain(text.layout(slow, "en", ascii_only=True)).split("Where the time goes", 1)[1].split("Read:", 1)[0]
    assert table.isascii()


def test_a_table_of_the_ai_cpu_alone_is_summed(tmp_path):
    path = tmp_path / "aicpu_0_1.csv"
    path.write_text(
        "Timestamp(us),Node,Compute_time(us),Memcpy_time(us),Task_time(us),Dispatch_time(us),Total_time(us)\n"
        "1.5,TopK,80,1,90,2,1000\n2.5,Assert,3,1,9,2,500\n"
    )
    report = diagnosed(path)
    assert values(report)[None]["aicpu_ms"] == pytest.approx(1.5)
    assert "TopK 66.7 %" in text.plain(text.layout(report, "zh"))


def test_broken_tables_never_end_in_a_crash():
    files = [p for p in sorted(SLOW.parent.rglob("*")) if p.suffix in (".csv", ".json")][:12]
    base = rulebase.load()
    rng = random.Random(5)
    for _ in range(40):
        found = []
        for path in rng.sample(files, 4):
            data = bytearray(path.read_bytes())
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(data) + 1)
                data[at : at + rng.choice((0, 1, 30))] = rng.choice(
                    (b"", b'"', b",", b"\n", b"\0", b"1e999", b"{", b"\xff", b"N/A")
                )
            kind = profile.kind_of(bytes(data))
            if kind:
                found.append(profile.read(str(path), kind, [bytes(data)]))
        judged = judge.judge(base, found)
        assert judged.crashed == {}
        json.dumps(judged.shown, allow_nan=False)


def test_all_tells_which_columns_were_read_and_which_were_not(slow):
    plain = text.plain(text.layout(slow, "en", every=True))
    (line,) = [row for row in plain.splitlines() if "kernel_details.csv (×4)" in row and "columns read" in row]
    assert "Accelerator Core" in line and "68 rows" in line
    assert "not used: Model ID" in plain


def test_the_folder_of_a_rank_names_it(tmp_path):
    for rank in (5, 6):
        folder = tmp_path / f"rank_{rank}" / "ASCEND_PROFILER_OUTPUT"
        shutil.copytree(FIRST, folder)
    assert set(values(diagnosed(tmp_path))) == {5, 6}
