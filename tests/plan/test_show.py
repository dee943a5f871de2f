"""Tables in both languages."""

from pathlib import Path

import pytest

from doctor.plan import detect, memory, show, weights

FOLDER = Path(__file__).parents[2] / "fixtures" / "configs"


def plan_of(name, **changes):
    text = (FOLDER / name).read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    return detect.read(name, text)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_plan_is_shown_with_places(lang):
    lines = show.values(plan_of("llama2_7b_8p.yaml"), lang)
    heads = next(line for line in lines if line.startswith("model.num_heads"))
    assert "32" in heads and "llama2_7b_8p.yaml:94" in heads
    assert any("MindFormers" in line for line in lines)
    assert all(line == line.rstrip() and "\n" not in line for line in lines)


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_memory_table_shows_its_arithmetic(lang):
    lines = show.memory_table(plan_of("llama2_7b_8p.yaml"), lang)
    assert "6.74" in lines[0]
    assert any("4 B" in line and "GiB" in line for line in lines)
    assert "58" in lines[-1]


def test_what_does_not_fit_is_answered_with_the_nearest_setting():
    plan = plan_of(
        "llama2_7b_8p.yaml",
        a=("enable_parallel_optimizer: True", "enable_parallel_optimizer: False"),
        b=('"58GB"', '"48GB"'),
    )
    lines = show.memory_table(plan, "en")
    assert lines[-2].startswith("Does not fit into 48 GB")
    assert "parallel.optimizer = true" in lines[-1]


def test_what_cannot_be_estimated_says_so():
    assert show.memory_table(detect.read("c.yaml", "model: {model_config: {type: BloomConfig}}\n"), "en")[0].startswith(
        "No estimate"
    )


@pytest.mark.parametrize("lang", ["zh", "en"])
def test_the_mapping_of_weights_is_a_table(lang):
    plan = detect.read(
        "config.json",
        '{"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": 20}',
    )
    shape = memory.shape_of(plan)
    tensors = tuple(weights.Tensor(r.hf, "F32", r.shape) for r in weights.expected(shape, "gpt2"))[1:]
    header = weights.Header("m", "safetensors", (*tensors, weights.Tensor("own", "F32", (1,))), 1)
    lines = show.weight_table(weights.compare(header, shape, "gpt2"), lang)
    assert "wte.weight" in lines[0] and "backbone.embedding.word_embedding.embedding_table" in lines[0]
    assert "own" in lines[-1]
