"""The twin against an independent GPT-2, derivatives and counts; the reader of weights against broken files."""

import json
import math

import pytest

numpy = pytest.importorskip("numpy")

from doctor.smoke import hf, twin  # noqa: E402


class Shape:
    vocab, hidden, layers, heads, length = 37, 24, 2, 3, 12
    positions, gelu, epsilon = "learned", "tanh", 1e-5
    kv_heads, size, inner, gated, norm, activation, tied = 3, 8, 96, False, "layer", "gelu", True


class Rotary(Shape):
    positions, gelu = "rope", "erf"


def exact(weights):
    return {name: value.astype(numpy.float64) for name, value in weights.items()}


def ids_of(shape, seed=0):
    return numpy.random.default_rng(seed).integers(0, shape.vocab, (2, shape.length))


def save(path, tensors):
    """A safetensors file, written here by hand."""
    head, body = {}, b""
    for name, value in tensors.items():
        data = value.astype(numpy.float32).tobytes()
        head[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def test_the_twin_equals_a_gpt2_written_from_the_layout_of_the_file():
    state = hf.random_state(Shape.vocab, Shape.hidden, Shape.layers, Shape.length, 3)
    weights, left = hf.mapped(state, Shape.layers)
    found, _ = twin.logits(ids_of(Shape), exact(weights), Shape)
    wanted = hf.logits(ids_of(Shape), state, Shape.layers, Shape.heads)
    assert left == []
    assert twin.distance(found, wanted) < 1e-12


@pytest.mark.parametrize("name", ["c_attn", "c_fc"])
def test_a_missing_transpose_that_changes_the_shape_is_refused(name):
    state = hf.random_state(Shape.vocab, Shape.hidden, Shape.layers, Shape.length, 3)
    key = next(k for k in state if k.endswith(f"{name}.weight"))
    state[key] = state[key].T
    with pytest.raises(ValueError, match="has shape"):
        hf.mapped(state, Shape.layers)


def test_the_square_projection_is_told_by_numbers_only():
    state = hf.random_state(Shape.vocab, Shape.hidden, Shape.layers, Shape.length, 3)
    weights, _ = hf.mapped(state, Shape.layers)
    weights["h.0.proj.weight"] = state["h.0.attn.c_proj.weight"]
    found, _ = twin.logits(ids_of(Shape), exact(weights), Shape)
    assert twin.distance(found, hf.logits(ids_of(Shape), state, Shape.layers, Shape.heads)) > 1e-3


def test_a_missing_or_left_over_name_is_said():
    state = hf.random_state(Shape.vocab, Shape.hidden, Shape.layers, Shape.length, 3)
    state["h.0.something"] = numpy.zeros(3)
    assert hf.mapped(state, Shape.layers)[1] == ["h.0.something"]
    del state["h.1.mlp.c_fc.bias"]
    with pytest.raises(ValueError, match=r"h\.1\.mlp\.c_fc\.bias is missing"):
        hf.mapped(state, Shape.layers)


@pytest.mark.parametrize("shape", [Shape, Rotary])
def test_no_token_sees_a_later_one(shape):
    weights = exact(twin.random_weights(shape, 1, std=0.3, offset=0.1))
    ids = ids_of(shape)
    before, _ = twin.logits(ids, weights, shape)
    ids[:, -1] = (ids[:, -1] + 1) % shape.vocab
    after, _ = twin.logits(ids, weights, shape)
    assert numpy.array_equal(before[:, :-1], after[:, :-1])
    assert not numpy.array_equal(before[:, -1], after[:, -1])


def test_rotary_positions_keep_lengths_and_depend_on_distance_only():
    rng = numpy.random.default_rng(0)
    q, k = rng.standard_normal((2, 1, 1, 1, 8))
    turned_q, turned_k = (twin.turn(numpy.repeat(x, 6, axis=2)) for x in (q, k))
    assert numpy.allclose(numpy.linalg.norm(turned_q, axis=-1), numpy.linalg.norm(q))
    score = turned_q[0, 0] @ turned_k[0, 0].T
    assert numpy.allclose(numpy.diag(score, 2), score[0, 2])


def test_the_two_forms_of_gelu_differ_and_have_known_values():
    at = numpy.array([0.0, 1.0, -1.0])
    assert numpy.allclose(twin.gelu(at, False), [0.0, 0.8413447460685429, -0.15865525393145707])
    assert 1e-5 < numpy.abs(twin.gelu(at, True) - twin.gelu(at, False)).max() < 1e-3


def test_the_loss_of_equal_logits_is_that_of_guessing():
    weights = exact(twin.random_weights(Shape, 1))
    weights["ln_f.scale"] *= 0
    assert math.isclose(twin.loss(ids_of(Shape), ids_of(Shape, 1), weights, Shape), math.log(Shape.vocab))


def test_the_slope_is_the_derivative_along_one_weight():
    weights = exact(twin.random_weights(Shape, 1, std=0.2, offset=0.1))
    ids, labels = ids_of(Shape), ids_of(Shape, 1)
    direction = {name: numpy.zeros_like(value) for name, value in weights.items()}
    direction["h.1.fc.bias"][5] = 1.0
    slope = twin.slope(ids, labels, weights, Shape, direction)
    far = {**weights, "h.1.fc.bias": weights["h.1.fc.bias"] + 1e-6 * direction["h.1.fc.bias"]}
    assert abs(slope - (twin.loss(ids, labels, far, Shape) - twin.loss(ids, labels, weights, Shape)) / 1e-6) < 1e-5


def test_attention_to_empty_slots_grows_with_their_number():
    weights = exact(twin.random_weights(Shape, 1))
    shares = [twin.logits(ids_of(Shape), weights, Shape, empty)[1] for empty in (0, 12, 120)]
    assert shares[0] == 0.0 and 0.4 < shares[1] < 0.6 < shares[2] < 1.0


def test_the_distance_is_relative_above_one_and_infinite_for_nan():
    assert twin.distance([200.0], [100.0]) == 1.0
    assert twin.distance([0.3], [0.1]) == pytest.approx(0.2)
    assert twin.distance([float("nan")], [0.0]) == math.inf


def test_labels_are_the_ids_one_later_and_other_windows_are_of_the_same_text():
    one = twin.batches(64, 4, 40, seed=7, windows=0)
    ids, labels = next(one)
    assert ids.dtype == labels.dtype == numpy.int32
    assert numpy.array_equal(ids[:, 1:], labels[:, :-1])
    assert numpy.array_equal(ids[:, 0], ids[:, 32])
    other, _ = next(twin.batches(64, 4, 40, seed=7, windows=5))
    assert set(other.ravel()) == set(ids.ravel()) and not numpy.array_equal(other, ids)


def test_weights_are_read_as_they_were_written(tmp_path):
    state = hf.random_state(Shape.vocab, Shape.hidden, Shape.layers, Shape.length, 3)
    save(tmp_path / "a.safetensors", {"transformer." + name: value for name, value in state.items()})
    found = hf.plain_names(hf.read_safetensors(tmp_path / "a.safetensors"))
    assert set(found) == set(state)
    assert all(numpy.array_equal(found[name], state[name]) for name in state)
    assert hf.shape_of(found) == (Shape.vocab, Shape.hidden, Shape.layers, Shape.length)


def test_bfloat16_is_read(tmp_path):
    text = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "m": {
        "dtype": "BOOL", "shape": [1], "data_offsets": [4, 5]}}).encode()  # fmt: skip
    path = tmp_path / "b.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"\x80\x3f\x00\xc0\x01")
    found = hf.read_safetensors(path)
    assert found["a"].tolist() == [1.0, -2.0] and "m" not in found


@pytest.mark.parametrize("keep", [0, 5, 100, -3])
def test_a_file_that_is_cut_off_is_refused(tmp_path, keep):
    save(tmp_path / "c.safetensors", {"a": numpy.ones((40, 40))})
    data = (tmp_path / "c.safetensors").read_bytes()
    (tmp_path / "c.safetensors").write_bytes(data[:keep])
    with pytest.raises(ValueError, match=r"cut off|no safetensors"):
        hf.read_safetensors(tmp_path / "c.safetensors")


def test_other_weights_are_no_gpt2():
    with pytest.raises(ValueError, match=r"wpe\.weight"):
        hf.shape_of({"wte.weight": numpy.zeros((3, 4))})
