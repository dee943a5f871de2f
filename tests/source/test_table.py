"""The API tables: that they are there, small, and say what the wheels say."""

import glob
import os
import time

import pytest

from doctor.source import table

VERSIONS = ["2.10.0", "2.9.0", "2.8.0", "2.7.1", "2.7.0", "2.0.0"]


def test_every_promised_version_has_a_table_and_all_are_small():
    assert list(table.index("mindspore")) == VERSIONS
    assert table.index("mindformers")
    assert sum(os.path.getsize(p) for p in glob.glob(os.path.join(table.folder(), "*"))) < 2 << 20


@pytest.mark.parametrize(
    ("version", "name", "state"),
    [
        ("2.10.0", "mindspore.nn.Dense", "class"),
        ("2.10.0", "mindspore.ops.flash_attention_score", "function"),
        ("2.0.0", "mindspore.ops.flash_attention_score", "absent"),
        ("2.10.0", "mindspore.ops.FlashAttention", "absent"),
        ("2.10.0", "mindspore.mint.nn.functional", "module"),
        ("2.10.0", "mindspore.float16", "opaque"),
        ("2.10.0", "mindspore.Tensor.asnumpy", "member"),
        ("2.10.0", "mindspore.Tensor.cuda", "absent"),
        ("2.7.0", "mindspore.dataset.vision.Resize", "class"),
        ("2.7.0", "mindspore.common.initializer.Normal", "class"),
        ("2.8.0", "mindspore.communication.get_rank", "function"),
        ("2.9.0", "mindspore.nn.Cell.shard", "opaque"),
        ("2.10.0", "mindspore._c_expression.anything", "opaque"),
        ("2.10.0", "numpy.abs", "opaque"),
    ],
)
def test_a_name_is_found_as_it_is(version, name, state):
    found = table.load("mindspore", version).find(name)
    assert found.state == state or (state == "opaque" and found.state == "member")


def test_parameters_are_those_of_the_signature():
    new, old = table.load("mindspore", "2.10.0"), table.load("mindspore", "2.0.0")
    assert new.parameters(new.find("mindspore.nn.Dropout")) == "keep_prob=,p=,dtype="
    words = new.parameters(new.find("mindspore.ops.flash_attention_score")).split(",")
    assert words[:5] == ["query", "key", "value", "head_num", "real_shift="]
    assert "epsilon=" in old.parameters(old.find("mindspore.nn.LayerNorm"))
    assert new.parameters(new.find("mindspore.nn.TrainOneStepCell")).startswith("network,optimizer,sens=")


def test_context_keys_and_what_replaces_them():
    new = table.load("mindspore", "2.10.0")
    assert "print_config" not in new.context and "auto_tune" not in new.context
    assert new.context["mode"] == ""
    assert new.context["device_target"].startswith("old|mindspore.set_device")
    assert new.context["exception_dump"].startswith("gone|")
    assert {"parallel_mode", "full_batch", "pipeline_config"} <= new.parallel


@pytest.mark.parametrize(
    ("asked", "tables", "exact"),
    [
        ("2.10.0", ["2.10.0"], True),
        ("2.10", ["2.10.0"], True),
        ("2.7", ["2.7.1"], True),
        ("2.7.0", ["2.7.0"], True),
        ("2.7.2", ["2.7.1"], True),
        ("2.10.0rc1", ["2.10.0"], True),
        ("2.3.1", ["2.7.0", "2.0.0"], False),
        ("2.11.0", ["2.10.0"], False),
        ("1.9", ["2.0.0"], False),
        ("", ["2.10.0"], False),
        ("master", [], False),
    ],
)
def test_which_tables_answer_for_a_version(asked, tables, exact):
    assert table.choose("mindspore", asked) == (tables, exact)


def test_a_package_without_tables_has_no_answer():
    assert table.choose("numpy", "1.26") == ([], False)


def test_a_table_is_read_fast():
    table.load.cache_clear()
    began = time.process_time()
    table.load("mindspore", "2.10.0")
    assert time.process_time() - began < 0.6


def test_a_damaged_table_is_an_error_that_is_said(tmp_path, monkeypatch):
    (tmp_path / "mindspore.json").write_text('{"2.10.0": ""}')
    (tmp_path / "mindspore-2.10.0.json.xz").write_bytes(b"no xz")
    monkeypatch.setattr(table, "folder", lambda: str(tmp_path))
    table.index.cache_clear()
    table.load.cache_clear()
    try:
        from doctor.source.api import Known, Target

        known = Known(Target("2.10.0"))
        assert known.problems and known.tables["mindspore"] == []
    finally:
        table.index.cache_clear()
        table.load.cache_clear()
