"""The adapter finds its names by signature: on modules as they are and as they are announced to become."""

import types

import pytest

from doctor.smoke import compat


def calls(**functions):
    """A module whose classes return how they were called."""

    def made(words, defaults):
        arguments = ", ".join(f"{word}={defaults[word]!r}" if word in defaults else word for word in words)
        space = {}
        exec(f"def kind({arguments}):\n    return dict(locals())", space)
        return space["kind"]

    return types.SimpleNamespace(**{name: made(*value) for name, value in functions.items()})


NOW = calls(
    Dense=(("in_channels", "out_channels", "has_bias", "dtype"), {"has_bias": True, "dtype": None}),
    LayerNorm=(("normalized_shape", "epsilon", "dtype"), {"epsilon": 1e-7, "dtype": None}),
    GELU=(("approximate",), {"approximate": True}),
    Dropout=(("keep_prob", "p"), {"keep_prob": 0.5, "p": None}),
    Embedding=(("vocab_size", "embedding_size"), {}),
    AdamWeightDecay=(("params", "learning_rate", "beta1", "beta2", "eps"), {}),
)
LATER = calls(
    Linear=(("in_features", "out_features", "bias", "dtype"), {"bias": True, "dtype": None}),
    LayerNorm=(
        ("normalized_shape", "eps", "elementwise_affine", "bias"),
        {"eps": 1e-5, "elementwise_affine": True, "bias": True},
    ),
    GELU=(("approximate",), {"approximate": "none"}),
    Dropout=(("p", "inplace"), {"p": 0.5, "inplace": False}),
    Embedding=(("num_embeddings", "embedding_dim", "padding_idx"), {"padding_idx": None}),
)


def test_dense_has_a_bias_under_both_names():
    assert compat.dense(NOW, 3, 4)["has_bias"] is True
    found = compat.dense(LATER, 3, 4)
    assert (found["in_features"], found["out_features"], found["bias"]) == (3, 4, True)


def test_dense_takes_a_dtype_where_there_is_one():
    assert compat.dense(NOW, 3, 4, "half")["dtype"] == "half"


def test_layer_norm_gets_its_epsilon_and_a_shape_that_is_a_tuple():
    assert compat.layer_norm(NOW, 8, 1e-5) == {"normalized_shape": (8,), "epsilon": 1e-5, "dtype": None}
    assert compat.layer_norm(LATER, 8, 1e-5)["eps"] == 1e-5


@pytest.mark.parametrize(("tanh", "now", "later"), [(True, True, "tanh"), (False, False, "none")])
def test_gelu_is_a_flag_today_and_a_word_tomorrow(tanh, now, later):
    assert compat.gelu(NOW, tanh)["approximate"] == now
    assert compat.gelu(LATER, tanh)["approximate"] == later


def test_dropout_drops_and_does_not_keep():
    assert compat.dropout(NOW, 0.1) == {"keep_prob": 0.5, "p": 0.1}
    assert compat.dropout(LATER, 0.1)["p"] == 0.1


def test_embedding_under_both_names():
    assert compat.embedding(NOW, 10, 4) == {"vocab_size": 10, "embedding_size": 4}
    assert compat.embedding(LATER, 10, 4)["num_embeddings"] == 10


def test_the_table_and_the_scales_are_found_under_both_names():
    assert compat.table_of(types.SimpleNamespace(embedding_table=1)) == 1
    assert compat.table_of(types.SimpleNamespace(weight=2)) == 2
    assert compat.layer_norm_names(types.SimpleNamespace(gamma=1, beta=2)) == ("gamma", "beta")
    assert compat.layer_norm_names(types.SimpleNamespace(weight=1, bias=2)) == ("weight", "bias")


def test_softmax_is_over_the_last_axis_under_both_names():
    assert compat.softmax_last(calls(softmax=(("x", "axis"), {"axis": 0})))(5) == {"x": 5, "axis": -1}
    assert compat.softmax_last(calls(softmax=(("x", "dim"), {"dim": None})))(5) == {"x": 5, "dim": -1}


def test_the_device_is_set_with_what_there_is():
    said = []
    new = types.SimpleNamespace(set_device=lambda name: said.append(("new", name)))
    old = types.SimpleNamespace(set_context=lambda device_target: said.append(("old", device_target)))
    compat.set_device(new, "CPU")
    compat.set_device(old, "CPU")
    assert said == [("new", "CPU"), ("old", "CPU")]


def test_clipping_and_adam_are_those_of_mindspore_where_it_has_them():
    ops = types.SimpleNamespace(clip_by_global_norm="its own")
    assert compat.clip_by_global_norm(None, ops) == "its own"
    assert compat.adamw(None, NOW, None, "groups", 0.1)["params"] == "groups"


def test_own_clipping_scales_all_by_the_common_norm():
    numpy = pytest.importorskip("numpy")

    class Ops:
        square, sqrt, minimum = numpy.square, numpy.sqrt, numpy.minimum

    ms = types.SimpleNamespace(float32=numpy.float32, Tensor=numpy.asarray)
    clip = compat.clip_by_global_norm(ms, Ops)
    out = clip((numpy.array([3.0], numpy.float32), numpy.array([4.0], numpy.float32)), 1.0)
    assert numpy.allclose([out[0][0], out[1][0]], [0.6, 0.8], atol=1e-5)
    small = clip((numpy.array([0.3], numpy.float32),), 1.0)
    assert numpy.allclose(small[0], 0.3)


def test_a_signature_that_cannot_be_read_has_no_names():
    assert compat.parameters(5) == ()
