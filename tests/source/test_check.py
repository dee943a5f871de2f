"""Files and folders through all code rules."""

import os
import time

import pytest

from doctor import source
from doctor.model import Evidence, Fact, Unknown, Verdict
from doctor.rulebase import load

BAD = (
    "import mindspore as ms\nfrom mindspore import nn\n\n"
    "net = nn.Sequential(nn.Dense(4, 4))\nms.set_context(auto_tune=True)\n"
)


@pytest.fixture(scope="module")
def base():
    return load()


def failed(findings):
    return [(f.id, f.evidence[0].line) for f in findings if f.verdict is Verdict.FAIL and f.severity == "error"]


def test_a_finding_has_its_file_and_line(tmp_path, base):
    path = tmp_path / "net.py"
    path.write_text(BAD)
    findings = source.check([str(path)], source.Target("2.10.0"), base)
    assert failed(findings) == [("API501", 4), ("API507", 5)]
    lead = next(f for f in findings if f.id == "API501")
    assert lead.evidence[0] == Evidence(str(path), 4, "net = nn.Sequential(nn.Dense(4, 4))")
    assert lead.title["zh"] and lead.title["en"]


def test_a_rule_that_found_nothing_passes_once(tmp_path, base):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import mindspore as ms\nx = ms.Tensor(1)\n")
    findings = source.check([str(tmp_path)], source.Target("2.10.0"), base)
    assert {f.verdict for f in findings} == {Verdict.PASS}
    assert len(findings) == len({f.id for f in findings}) == len(source.specs(base))


def test_nothing_is_said_of_files_without_mindspore(tmp_path, base):
    (tmp_path / "a.py").write_text("import math\nmath.zzz\nundefined_name\n")
    assert source.check([str(tmp_path)], source.Target("2.10.0"), base) == []


def test_a_version_without_a_table_is_unknown_for_the_rules_that_ask_it(tmp_path, base):
    (tmp_path / "a.py").write_text("from mindspore import ops\nops.flash_attention_score\n")
    findings = source.check([str(tmp_path)], source.Target("2.4.0"), base)
    said = {f.id: f.verdict for f in findings}
    assert said["API501"] is said["API507"] is Verdict.UNKNOWN
    assert said["CODE522"] is Verdict.PASS
    assert "2.4.0" in next(f for f in findings if f.id == "API501").why["en"]
    (tmp_path / "a.py").write_text("from mindspore import ops\nops.FlashAttention\n")
    lead = next(f for f in source.check([str(tmp_path)], source.Target("2.4.0"), base) if f.id == "API501")
    assert (lead.verdict, lead.severity) == (Verdict.FAIL, "advice")


def test_a_name_that_some_release_has_is_a_warning_when_the_version_is_not_known(tmp_path, base):
    (tmp_path / "a.py").write_text("import mindspore as ms\nms.ms_function\nms.never_there\n")
    findings = source.check([str(tmp_path)], source.Target("", "", False), base)
    said = {f.args["name"]: (f.severity, f.confidence) for f in findings if f.id == "API501"}
    assert said == {"mindspore.ms_function": ("warning", "guess"), "mindspore.never_there": ("error", "likely")}


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"import mindspore\nprint 'x'\n", "Python 2"),
        (b"import mindspore\ndef f(:\n", "syntax"),
        (b"\0" * 50, "binary"),
    ],
)
def test_a_file_that_is_no_python_3_is_one_finding(tmp_path, base, data, word):
    path = tmp_path / "old.py"
    path.write_bytes(data)
    findings = source.check([str(path)], source.Target("2.10.0"), base)
    assert [f.id for f in findings] == ["CODE500"]
    assert word in findings[0].args["why_en"]


def test_missing_and_large_files_are_one_finding_each(tmp_path, base):
    large = tmp_path / "large.py"
    large.write_bytes(b"x = 1\n" * 1_000_000)
    began = time.process_time()
    findings = source.check([str(large), str(tmp_path / "none.py")], source.Target("2.10.0"), base)
    assert [f.args["why"] for f in findings] == ["too_large", "no_file"]
    assert time.process_time() - began < 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path, base):
    path = tmp_path / "a.py"
    path.write_text("import mindspore\n")
    path.chmod(0)
    assert [f.args["why"] for f in source.check([str(path)], source.Target(), base)] == ["denied"]


def test_links_in_circles_are_walked_once(tmp_path, base):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_text(BAD)
    (tmp_path / "sub" / "back").symlink_to(tmp_path)
    (tmp_path / "b.py").symlink_to(tmp_path / "sub" / "a.py")
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    findings = source.check([str(tmp_path)], source.Target("2.10.0"), base)
    assert [f for f in failed(findings) if f[0] == "API501"] == [("API501", 4)]


def test_a_rule_that_breaks_is_a_crash_and_the_others_go_on(tmp_path, base, monkeypatch):
    (tmp_path / "a.py").write_text(BAD)

    def broken(module):
        raise RuntimeError("no")

    monkeypatch.setattr("doctor.checks.code.cells.plain_list", broken)
    findings = source.check([str(tmp_path)], source.Target("2.10.0"), base)
    assert next(f for f in findings if f.id == "CODE537").verdict is Verdict.CRASH
    assert ("API501", 4) in failed(findings)


def test_the_target_is_what_was_named_else_what_is_installed():
    facts = {
        "ver.mindspore": Fact("ver.mindspore", {"version": "2.7.1"}),
        "ver.mindformers": Unknown("ver.mindformers", "x"),
    }
    assert source.target_of(facts, "2.9") == source.Target("2.9", "", True)
    assert source.target_of(facts) == source.Target("2.7.1", "", True)
    assert source.target_of({}) == source.Target("", "", False)


def test_ten_thousand_lines_take_under_two_seconds(tmp_path, base):
    block = (
        "class Layer{n}(nn.Cell):\n    def __init__(self, hidden):\n        super().__init__()\n"
        "        self.fc = nn.Dense(hidden, hidden)\n        self.norm = nn.LayerNorm((hidden,), epsilon=1e-5)\n\n"
        "    def construct(self, x, mask=None):\n        y = self.norm(x)\n        if mask is not None:\n"
        "            y = ops.masked_fill(y, mask, -1e4)\n        scores = ops.matmul(y, y.swapaxes(1, 2))\n"
        "        return x + self.fc(ops.softmax(scores, -1))\n\n\n"
    )
    for n in range(10):
        text = "import mindspore as ms\nfrom mindspore import nn, ops\n\n\n"
        text += "".join(block.replace("{n}", str(i)) for i in range(72))
        (tmp_path / f"m{n}.py").write_text(text)
    lines = sum(p.read_text().count("\n") for p in tmp_path.iterdir())
    assert lines > 10_000
    began = time.process_time()
    findings = source.check([str(tmp_path)], source.Target("2.10.0"), base)
    assert time.process_time() - began < 2
    assert failed(findings) == []


GRAPH = "ms.set_context(mode=ms.GRAPH_MODE)\n"
CLOCK = "class A(nn.Cell):\n    def construct(self, x):\n        return x + time.time()\n"
CACHE = "class A(nn.Cell):\n    def construct(self, k, past_key):\n        return ops.cat((past_key, k), axis=2)\n"
OTHER_NAME = (
    "class A(nn.Cell):\n    def __init__(s):\n        super().__init__()\n        s.d = nn.Dense(2, 2)\n"
    "    def construct(s, x):\n        return s.d(x)\n"
)


@pytest.mark.parametrize(
    ("text", "rule", "severity"),
    [
        (CLOCK, "CODE503", "advice"), (GRAPH + CLOCK, "CODE503", "warning"),
        ("@ms.jit\ndef step(x):\n    return x * time.time()\n", "CODE503", "warning"),
        (CACHE, "CODE507", "advice"), (GRAPH + CACHE, "CODE507", "warning"),
        (OTHER_NAME, "CODE552", "advice"), (GRAPH + OTHER_NAME, "CODE552", "error"),
    ],
)  # fmt: skip
def test_what_fails_in_a_graph_only_is_advice_where_nothing_asks_for_one(tmp_path, base, text, rule, severity):
    (tmp_path / "a.py").write_text("import time\nimport mindspore as ms\nfrom mindspore import nn, ops\n" + text)
    found = source.check([str(tmp_path)], source.Target("2.10.0"), base)
    assert {f.severity for f in found if f.id == rule and f.verdict is Verdict.FAIL} == {severity}
