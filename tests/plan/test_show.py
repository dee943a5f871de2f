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
    missing = next(line for line in lines if "wte.weight" in line)
    assert "backbone.embedding.word_embedding.embedding_table" in missing and "[20, 16]" in missing
    assert lines[-1].startswith("own") and "[" not in lines[-1]
    short = show.weight_table(weights.compare(header, shape, "gpt2"), lang, every=False)
    assert any("wte.weight" in line for line in short) and not any("ln_1" in line for line in short)


def test_layers_that_fit_alike_are_one_row():
    text = '{"model_type": "gpt2", "n_embd": 16, "n_layer": 12, "n_head": 2, "n_positions": 8, "vocab_size": 20}'
    shape = memory.shape_of(detect.read("config.json", text))
    tensors = [weights.Tensor(r.hf, "F32", r.shape) for r in weights.expected(shape, "gpt2")]
    wrong = [t._replace(shape=(1,)) if t.name == "h.5.ln_1.weight" else t for t in tensors]
    rows = show.weight_rows(weights.compare(weights.Header("m", "safetensors", tuple(wrong), 1), shape, "gpt2"))
    rows = {row["name"]: row for row in rows}
    assert rows["h.{0-4,6-11}.ln_1.weight"]["count"] == 11 and rows["h.5.ln_1.weight"]["verdict"] == "shape"
    assert rows["h.{0-11}.mlp.c_fc.weight"]["target"] == "backbone.blocks.{0-11}.output.mapping.weight"
    assert sum(row["count"] for row in rows.values()) == len(tensors)
