"""Headers of weight files: read without the data, lying ones refused, compared with the model."""

import json
import struct

import pytest

from doctor import cli
from doctor.plan import hf, memory, weights
from doctor.plan.schema import Plan, Trouble

CONFIG = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 8, "vocab_size": 20}


def safetensors(path, tensors, *, length=None, extra=b"", header=None):
    """A file of float32 tensors; the data is a hole."""
    table, end = {}, 0
    for name, shape in tensors.items():
        size = 4
        for side in shape:
            size *= side
        table[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    raw = json.dumps(table).encode() if header is None else header
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(raw) if length is None else length) + raw)
        file.truncate(8 + len(raw) + end)
        file.seek(0, 2)
        file.write(extra)
    return str(path)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def ckpt_entry(tag, dtype, dims, content):
    tensor = b"".join(b"\x08" + varint(d) for d in dims) + b"\x12" + varint(len(dtype)) + dtype.encode()
    tensor += b"\x1a" + varint(len(content)) + content
    value = b"\x0a" + varint(len(tag)) + tag.encode() + b"\x12" + varint(len(tensor)) + tensor
    return b"\x0a" + varint(len(value)) + value


def expected_shapes(prefix=""):
    plan = hf.read("config.json", json.dumps(CONFIG))
    shape = memory.shape_of(plan)
    return plan, shape, {prefix + row.hf: row.shape for row in weights.expected(shape, "gpt2")}


def test_a_header_is_read_and_the_data_is_not(tmp_path):
    path = safetensors(tmp_path / "m.safetensors", {"a": (1 << 20, 1 << 12), "b": (3,)})
    header = weights.read(path)
    assert [t.name for t in header.tensors] == ["a", "b"]
    assert header.tensors[0] == weights.Tensor("a", "F32", (1 << 20, 1 << 12))
    assert header.parameters == (1 << 32) + 3
    assert header.size > 1 << 34, "a file of 16 GiB, of which only the header was read"


@pytest.mark.parametrize(
    "change",
    [
        {"length": 1 << 62},
        {"length": 1 << 30},
        {"length": 3},
        {"extra": b"more"},
        {"header": b"{}   ", "length": 1 << 20},
        {"header": b"[]"},
        {"header": b"{broken"},
        {"header": b'{"a": 1}'},
        {"header": b"{" + b'"a":{' * 3000},
        {"header": b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}'},
        {"header": b'{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, -4]}}'},
        {"header": b'{"a": {"dtype": "F32", "shape": [99999999999999999999], "data_offsets": [0, 8]}}'},
        {"header": b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [16, 32]}}'},
        {"header": b'{"a": {"shape": [1]}}'},
    ],
)
def test_a_lying_header_is_refused(tmp_path, change):
    found = weights.read(safetensors(tmp_path / "m.safetensors", {"a": (4,)}, **change))
    assert isinstance(found, Trouble)
    assert found.code == "bad_header" and found.args["why"]


def test_short_and_missing_files(tmp_path):
    (tmp_path / "s.safetensors").write_bytes(b"abc")
    assert weights.read(str(tmp_path / "s.safetensors")).code == "bad_header"
    assert weights.read(str(tmp_path / "none.safetensors")).code == "no_file"
    assert weights.read(str(tmp_path)).code == "not_a_file"
    (tmp_path / "t.ckpt").write_bytes(b"PK\x03\x04" + bytes(100))
    assert weights.read(str(tmp_path / "t.ckpt")).code == "torch_weights"


def test_a_mindspore_checkpoint_is_read_entry_by_entry(tmp_path):
    path = tmp_path / "m.ckpt"
    path.write_bytes(
        ckpt_entry("w", "Float32", [2, 3], bytes(24))
        + ckpt_entry("big", "Float16", [4, 2], bytes(8))
        + ckpt_entry("big", "Float16", [4, 2], bytes(8))
        + ckpt_entry("step_num", "Int32", [0], bytes(4))
    )
    header = weights.read(str(path))
    assert header.tensors == (
        weights.Tensor("w", "Float32", (2, 3)),
        weights.Tensor("big", "Float16", (4, 2)),
        weights.Tensor("step_num", "Int32", ()),
    )


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\xff" * 40, b"\x0a\xff\xff\xff\xff\xff\x7f", b"hello world, no checkpoint"]
)
def test_a_checkpoint_that_is_none_is_refused(tmp_path, data):
    (tmp_path / "m.ckpt").write_bytes(data)
    assert weights.read(str(tmp_path / "m.ckpt")).code == "bad_header"


def test_a_checkpoint_that_is_cut_off_is_refused(tmp_path):
    whole = ckpt_entry("w", "Float32", [2, 3], bytes(24))
    for cut in range(1, len(whole)):
        (tmp_path / "m.ckpt").write_bytes(whole[:cut])
        assert isinstance(weights.read(str(tmp_path / "m.ckpt")), Trouble), cut


def test_gpt2_weights_fit_their_model_and_say_which_matrices_turn(tmp_path):
    _, shape, names = expected_shapes("transformer.")
    header = weights.read(safetensors(tmp_path / "m.safetensors", names | {"transformer.h.0.attn.bias": (1, 1, 8, 8)}))
    found = weights.compare(header, shape, "gpt2")
    assert found.layout == "huggingface"
    assert not found.of("missing") and not found.of("shape") and not found.extra
    turned = [row.name for row in found.of("turn")]
    assert "transformer.h.0.attn.c_proj.weight" in turned, "square: loading it untransposed raises nothing"
    assert len(turned) == 8
    target = {row.name: row.target for row in found.rows}
    assert target["transformer.ln_f.bias"] == "backbone.layernorm.beta"


def test_missing_extra_and_wrong_shapes_are_named(tmp_path):
    plan, shape, names = expected_shapes()
    del names["h.1.mlp.c_fc.bias"]
    names["wte.weight"] = (21, 16)
    names["h.0.mlp.c_fc.weight"] = names["h.0.mlp.c_fc.weight"][::-1]
    names["my.own"] = (2,)
    header = weights.read(safetensors(tmp_path / "m.safetensors", names))
    found = weights.into(plan, header, "gpt2", shape)
    assert [row.name for row in found.of("missing")] == ["h.1.mlp.c_fc.bias"]
    assert [row.name for row in found.of("shape")] == ["wte.weight"]
    assert [row.name for row in found.of("transposed")] == ["h.0.mlp.c_fc.weight"]
    assert plan.get("weights.extra") == ["my.own"]
    assert plan.get("weights.missing") == ["h.1.mlp.c_fc.bias"]


def test_llama_weights_of_both_layouts(tmp_path):
    plan = hf.read(
        "config.json",
        json.dumps(
            {
                "model_type": "llama",
                "hidden_size": 16,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "intermediate_size": 32,
                "vocab_size": 20,
            }
        ),
    )
    shape = memory.shape_of(plan)
    rows = weights.expected(shape, "llama")
    theirs = weights.Header("a", "safetensors", tuple(weights.Tensor(r.hf, "F32", r.shape) for r in rows), 1)
    ours = weights.Header(
        "b",
        "ckpt",
        (
            *tuple(weights.Tensor(r.mindformers, "Float32", r.shape) for r in rows),
            weights.Tensor("adam_m.x", "Float32", (1,)),
            weights.Tensor("global_step", "Int32", ()),
        ),
        1,
    )
    assert weights.compare(theirs, shape, "llama").layout == "huggingface"
    found = weights.compare(ours, shape, "llama")
    assert (found.layout, found.states, found.extra) == ("mindformers", 1, ())
    assert all(row.verdict == "ok" for row in found.rows)
    assert theirs.parameters == memory.count(shape).total


def test_an_index_takes_its_shapes_from_the_shards(tmp_path):
    safetensors(tmp_path / "model-00001-of-00002.safetensors", {"a": (2,)})
    safetensors(tmp_path / "model-00002-of-00002.safetensors", {"b": (3, 4)})
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    )
    header = weights.read(str(index))
    assert header.whole and {t.name: t.shape for t in header.tensors} == {"a": (2,), "b": (3, 4)}
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    assert not weights.read(str(index)).whole
    index.write_text("{}")
    assert weights.read(str(index)).code == "bad_header"


def test_a_refused_file_is_a_fact_of_the_plan():
    plan = Plan("huggingface", "config.json")
    weights.into(plan, Trouble("bad_header", "m.safetensors", 0, {"why": "short"}), "gpt2", None)
    assert plan.get("weights.problem") == "bad_header"


@pytest.mark.parametrize("named", [False, True])
def test_a_check_shows_the_weights_beside_the_model(named, tmp_path, capsys):
    _, _, shapes = expected_shapes()
    shapes["h.0.mlp.c_fc.weight"] = shapes["h.0.mlp.c_fc.weight"][::-1]
    del shapes["ln_f.bias"]
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    path = safetensors(tmp_path / ("other.safetensors" if named else "model.safetensors"), {**shapes, "own": (3,)})
    paths = [str(tmp_path / "config.json"), *([path] if named else [])]
    cli.run(["check", *paths, "--only", "CFG", "--format", "json"])
    (table,) = json.loads(capsys.readouterr().out)["facts"]["plan.weights"]["value"]
    verdicts = {row["name"]: row["verdict"] for row in table["rows"]}
    assert verdicts["h.0.mlp.c_fc.weight"] == "transposed" and verdicts["ln_f.bias"] == "missing"
    assert verdicts["own"] == "extra" and verdicts["wte.weight"] == "ok" and table["weights"] == path
    cli.run(["check", *paths, "--only", "CFG", "--lang", "en", "--no-color"])
    text = capsys.readouterr().out
    assert "missing 1" in text and "not in the model" in text and "tied to the embedding" in text
