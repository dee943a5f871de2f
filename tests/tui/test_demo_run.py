"""The shipped sample run, with the shipped rules: what ``doctor demo`` promises."""

from doctor.engine import Options, diagnose
from doctor.rulebase import data_folder


def test_the_rank_that_ran_out_of_memory_comes_first_and_the_others_are_its_consequences():
    report = diagnose([data_folder("fixtures/demo")], Options(jobs=1))
    first = report.diagnoses[0]
    assert first.topic.startswith("memory.device") and first.place.rank == 2
    assert first.evidence[0].source.endswith("msrun_log/worker_2.log")
    below = [report.findings[n] for n in first.consequences]
    assert {f.place.rank for f in below if f.topic.startswith("hccl.timeout")} == {0, 1, 3}
    assert any(f.topic.startswith("launch.") for f in below)
    # the traceback that rank 1 recovered from, and nothing else, may stand beside it
    others = [d for d in report.diagnoses[1:] if d.severity != "advice"]
    assert all(d.place.rank == 1 and d.note for d in others)
