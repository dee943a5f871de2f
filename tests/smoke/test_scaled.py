"""A configuration becomes settings of the smoke test: ratios stay, and what is left out is said."""

import json

import pytest

from doctor import smoke
from doctor.cli import run
from doctor.i18n import LANGUAGES, texts
from doctor.plan import detect
from doctor.smoke import scaled
from doctor.smoke.settings import Settings, SettingsError, checked

LLAMA = """\
run_mode: train
context: {mode: 0}
model:
  model_config:
    type: LlamaConfig
    hidden_size: 8192
    num_layers: 80
    num_heads: 64
    n_kv_heads: 8
    intermediate_size: 28672
    vocab_size: 32000
    seq_length: 4096
    rms_norm_eps: 1.0e-6
    compute_dtype: bfloat16
    param_init_type: float16
parallel_config: {data_parallel: 4, model_parallel: 8, pipeline_stage: 8, micro_batch_num: 16}
runner_config: {batch_size: 1}
optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1}
lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 3.e-4, warmup_steps: 100}
"""
GPT2 = json.dumps({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
                   "vocab_size": 50257, "activation_function": "gelu_new", "resid_pdrop": 0.1})  # fmt: skip
QWEN3 = json.dumps({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
                    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072, "vocab_size": 151936,
                    "rms_norm_eps": 1e-6, "tie_word_embeddings": True})  # fmt: skip


def made(text, name="config.yaml"):
    plan = detect.read(name, text)
    assert plan is not None
    return scaled.from_plan(plan)


def test_ratios_are_kept():
    found = made(LLAMA)
    s = found.settings
    assert s.heads // s.key_heads == 64 // 8
    assert s.inner / s.hidden == 28672 / 8192
    assert s.hidden == s.heads * s.size and s.size % 16 == 0
    assert (s.layers, s.seq, s.vocab, s.batch) == (2, 128, 512, 1)
    assert (s.norm, s.epsilon, s.activation, s.gated, s.positions, s.untied) == (
        "rms",
        1e-6,
        "silu",
        True,
        "rope",
        True,
    )
    assert (s.dtype, s.mode, s.rate, s.beta2, s.decay) == ("bfloat16", "graph", 3e-4, 0.95, 0.1)
    assert s.curve and checked(s) == s
    assert found.ranks == 4


def test_what_is_not_carried_over_is_said():
    left = dict(made(LLAMA).left)
    assert left["params"] == "float16"
    assert left["parallel"] == "mp 8, pp 8"
    assert left["schedule"] == "0.0003"
    assert left["optimizer"] == "AdamW"
    assert "bias" in left


def test_gpt2_stays_gpt2_and_its_places_are_told():
    found = made(GPT2, "config.json")
    assert found.settings.like_gpt2
    assert (found.settings.heads, found.settings.hidden, found.settings.dropout) == (4, 256, 0.1)
    assert ("rate", "0.001") in found.left
    where = {row.name: row.place for row in found.carried}
    assert where["hidden"] == "config.json:1"


def test_a_head_wider_than_its_share_of_the_hidden_size_stays_so():
    s = made(QWEN3, "config.json").settings
    assert s.heads * s.size / s.hidden == 16 * 128 / 1024
    assert not s.untied
    assert "qk_norm" in dict(made(QWEN3, "config.json").left)


@pytest.mark.parametrize(
    ("old", "new", "setting", "value"),
    [
        ("seq_length: 4096", "seq_length: 2049", "seq", 129),
        ("seq_length: 4096", "seq_length: 64", "seq", 64),
        ("n_kv_heads: 8", "n_kv_heads: 1", "kv_heads", 1),
        ("n_kv_heads: 8", "n_kv_heads: 64", "kv_heads", 0),
        ("type: AdamW,", "type: Adam,", "optimizer", "adam"),
        ("type: AdamW,", "type: SGD,", "optimizer", "sgd"),
        ("compute_dtype: bfloat16", "compute_dtype: float16", "dtype", "float16"),
        ("context: {mode: 0}", "context: {mode: 1}", "mode", "pynative"),
        ("batch_size: 1", "batch_size: 64", "batch", 4),
        ("batch_size: 1", "batch_size: 1, gradient_accumulation_steps: 8", "accumulation", 2),
        ("vocab_size: 32000", "vocab_size: 3", "vocab", 33),
        ("rms_norm_eps: 1.0e-6", "rms_norm_eps: 3.0", "epsilon", 1e-5),
        ("learning_rate: 3.e-4", "learning_rate: 0.0", "rate", 1e-3),
    ],
)
def test_each_value(old, new, setting, value):
    assert old in LLAMA
    assert getattr(made(LLAMA.replace(old, new)).settings, setting) == value


def test_every_published_shape_gives_settings_that_work():
    for heads, keys, hidden, inner in ((71, 1, 4544, 18176), (40, 40, 5120, 13696), (28, 4, 3584, 18944),
                                       (96, 8, 12288, 49152), (14, 2, 896, 4864), (1, 1, 64, 64)):  # fmt: skip
        text = json.dumps({"model_type": "qwen2", "hidden_size": hidden, "num_attention_heads": heads,
                           "num_key_value_heads": keys, "intermediate_size": inner, "num_hidden_layers": 4,
                           "vocab_size": 1000})  # fmt: skip
        s = made(text, "config.json").settings
        assert checked(s) == s
        assert s.hidden <= 1200 and s.heads % s.key_heads == 0


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_code_has_a_text(lang):
    with open(scaled.__file__, encoding="utf-8") as file:
        source = file.read()
    codes = [line.split('"')[1] for line in source.splitlines() if "self.leave(" in line and '"' in line]
    codes += ["mla", "qk_norm", "lora", "embedding_norm", "mtp_layers", "optimizer"]
    assert len(set(codes)) > 15
    assert not [code for code in codes if "smoke.left." + code not in texts(lang)]


@pytest.mark.parametrize(
    ("text", "word"),
    [("a: 1\n", "no training configuration"), ("model:\n\tx: 1\n", "no training configuration"),
     ("run_mode: train\nmodel: {model_config: {type: LlamaConfig, hidden_size: 0}}\n", "shape"),
     (LLAMA.replace("hidden_size: 8192", "hidden_size: 8190"), "divisible")],
)  # fmt: skip
def test_files_without_a_shape_are_refused(tmp_path, text, word):
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=word):
        scaled.read(str(path))


def test_the_command_takes_it_and_options_win(fake, tmp_path, capsys):
    path = tmp_path / "llama.yaml"
    path.write_text(LLAMA)
    code = run(
        ["--lang", "en", "smoke", "--from-config", str(path), "--seq", "64", "--python", "x", "--format", "json"]
    )
    assert code == 0
    report = json.loads(capsys.readouterr().out)
    knobs = report["facts"]["smoke.settings"]["value"]
    assert (knobs["seq"], knobs["rate"], knobs["heads"]) == (64, 3e-4, 8)
    config = report["facts"]["smoke.config"]["value"]
    assert {"name": "hidden", "was": "8192", "now": "256", "place": f"{path}:6"} in config["carried"]
    assert config["ranks"] == 4


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_report_shows_what_was_carried_and_what_was_not(fake, tmp_path, capsys, lang):
    path = tmp_path / "llama.yaml"
    path.write_text(LLAMA)
    run(["--lang", lang, "smoke", "--from-config", str(path), "--python", "x"])
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "hidden 256 (8192)" in shown
    assert texts(lang)["smoke.left.bias"][:12] in shown
    assert "--ranks 4" in shown


def test_a_missing_file_and_one_of_another_kind_end_with_2(tmp_path, capsys):
    assert run(["smoke", "--from-config", str(tmp_path / "none.yaml"), "--python", "x"]) == 2
    assert "none.yaml" in capsys.readouterr().err
    (tmp_path / "b.yaml").write_text("a: 1\n")
    assert run(["smoke", "--from-config", str(tmp_path / "b.yaml"), "--python", "x"]) == 2


def test_without_a_configuration_nothing_changes(fake):
    report = smoke.run(python="x")
    assert "smoke.config" not in report.facts
    assert report.facts["smoke.settings"]["value"] == Settings()._asdict()
