"""Settings that somebody wrote down are taken for what they mean in the field."""

import pytest

from doctor.engine import diagnose
from doctor.plan import loose


@pytest.fixture
def given(tmp_path):
    """The report of a text in a file."""

    def report(text):
        path = tmp_path / "notes.yaml"
        path.write_text(text)
        return diagnose([str(path)])

    return report


@pytest.fixture
def rules(given):
    return lambda text: [d.rule for d in given(text).diagnoses if d.severity in ("error", "warning")]


def test_names_mean_the_same_wherever_they_stand():
    plans, facts = loose.read(
        "x.yaml", "mindspore: 2.2.10\ndevice: Ascend910B3\nserve:\n  tensor-parallel-size: 4\nmodel:\n  n_head: 32\n"
    )
    assert len(plans) == 1
    assert (plans[0].get("parallel.mp"), plans[0].get("model.num_heads")) == (4, 32)
    assert facts == {"version.mindspore": "2.2.10", "npu.soc": "910B3", "npu.hbm_gib": 64.0}
    assert plans[0].values["parallel.mp"].line == 4


def test_a_vision_tower_is_judged_by_itself(rules, given):
    text = "text_config:\n  num_heads: 32\nvision_config:\n  num_heads: 16\ntensor_parallel_size: {}\n"
    assert rules(text.format(8)) == []
    report = given(text.format(32))
    assert [d.rule for d in report.diagnoses] == ["PAR510"] and "16" in report.diagnoses[0].title["en"]


def test_each_of_several_head_widths_counts(rules):
    assert "CFG522" in rules("use_flash_attention: true\nhead_dims: [64, 72]\n")
    assert rules("use_flash_attention: true\nhead_dims: [64, 128]\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "replicas: 3\nimage: x\nports: [80]\n",
        "tp: 4\n",
        "num_heads: eight\ntp: 3\n",
        "name: x\nlr: 0.1\nepochs: 3\n",
        "- num_heads: 3\n- tp: 2\n",
        "a: &x {b: *x}\n",
        "",
    ],
)
def test_other_tables_and_junk_are_nobodys_plan(text, rules):
    assert loose.read("x.yaml", text)[0] == [] or rules(text) == []


def test_variables_of_a_section_are_an_environment_with_their_line(given):
    report = given(
        "model: x\nenv:\n  HOME: /root\n  PYTORCH_NPU_ALLOC_CONF: 'max_split_size_mb:64,expandable_segments:True'\n"
    )
    assert [d.rule for d in report.diagnoses] == ["MEM520"]
    assert report.diagnoses[0].evidence[0].line == 4


def test_an_exported_variable_has_its_line():
    report = diagnose([], paste=b"export HCCL_BUFFSIZE=200\nexport HCCL_RDMA_SL=99\n")
    found = next(d for d in report.diagnoses if d.rule == "HCCL551")
    assert found.evidence[0].line == 2
