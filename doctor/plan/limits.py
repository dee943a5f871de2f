"""Ranges and words of settings that have no condition of their own: what no run can mean, whoever reads it.

A range is wide on purpose: it holds every published configuration with room to spare. Numbers of layers, experts and
the like that a rule compares with others are not here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from doctor.plan import fill
from doctor.plan.spelling import SHORT, nearest


class Limit(NamedTuple):
    """A number from ``low`` to ``high``, whole or not."""

    whole: bool
    low: float
    high: float


def _read(table: str) -> dict[str, Limit]:
    found = {}
    for line in table.strip().splitlines():
        names, kind, low, high = line.split()
        for name in names.split(","):
            found[name] = Limit(kind == "int", float(low), float(high))
    return found


HUGGINGFACE = _read("""
rope_theta,rope_local_base_freq,rotary_emb_base        double 2 1e15
initializer_range,init_std                             double 1e-12 1
max_position_embeddings                                int -1e9 1e8
sliding_window,sliding_window_size                     int -1 1e9
max_window_layers,num_nextn_predict_layers             int 0 1e4
pretraining_tp,moe_layer_freq,decoder_sparse_step      int 1 1e4
partial_rotary_factor,rotary_pct                       double 1e-6 1
router_aux_loss_coef,aux_loss_alpha                    double 0 1
routed_scaling_factor,logits_scaling                   double 1e-9 1e6
moe_intermediate_size,shared_expert_intermediate_size  int 1 1e7
n_shared_experts                                       int 0 1e4
kv_lora_rank,q_lora_rank,v_head_dim                    int 1 1e6
qk_nope_head_dim                                       int 0 1e6
n_group,topk_group                                     int 1 1e4
layernorm_epsilon,layer_norm_eps,layer_norm_epsilon    double 0 1e9
attn_logit_softcapping,final_logit_softcapping         double 1e-9 1e6
""")
"""Keys of config.json (configuration classes of transformers)."""
SWITCHES = fill.words("""
use_cache tie_word_embeddings attention_bias mlp_bias norm_topk_prob output_router_logits use_sliding_window seq_aux
add_qkv_bias add_bias_linear multi_query_attention post_layer_norm rmsnorm parallel_attn new_decoder_architecture alibi
do_layer_norm_before apply_residual_connection_post_layernorm is_decoder is_encoder_decoder lm_head_bias
""")
"""Keys of config.json that are true or false."""

MINDFORMERS = _read("""
model.theta,model.rope_theta,model.rotary_base         double 2 1e15
model.init_method_std,model.initializer_range          double 1e-12 1
model.multiple_of                                      int 1 1e6
model.ffn_dim_multiplier                               double 0.01 1000
model.num_experts_per_tok,model.moe_router_topk        int 1 1e4
moe_config.num_experts_chosen                          int 1 1e4
moe_config.expert_num                                  int 1 1e5
model.router_aux_loss_coef,model.moe_aux_loss_coeff    double 0 1
moe_config.aux_loss_factor                             double 0 1
model.moe_intermediate_size,moe_config.moe_intermediate_size int 1 1e7
model.kv_lora_rank,model.v_head_dim                    int 1 1e6
model.q_lora_rank,model.qk_nope_head_dim               int 0 1e6
model.pp_interleave_num                                int 1 1e4
parallelism.pipeline_parallel_interleave_num           int 1 1e4
parallel_config.gradient_aggregation_group             int 1 1e6
parallel_config.seq_split_num                          int 1 1e6
parallel.device_num                                    int 1 1e7
train_dataset.repeat,eval_dataset.repeat               int 1 1e9
context.device_id                                      int 0 4096
lr_schedule.lr_end,lr_scheduler.lr_end                 double 0 1e3
runner_config.epochs                                   int -1e9 1e5
profile_start_step,profile_stop_step                   int 0 1e12
train_dataset.num_parallel_workers                     int -1e9 2000
model.lora_rank,lora_config.lora_rank                  int 1 1e5
model.lora_alpha,lora_config.lora_alpha                double 1e-9 1e6
model.lora_dropout,lora_config.lora_dropout            double 0 0.999
model.top_p,generation_config.top_p                    double 0 1
model.repetition_penalty,generation_config.repetition_penalty double 1e-6 1e3
model.temperature,generation_config.temperature        double 0 1e3
""")
"""Section and key of MindSpore Transformers; ``model`` is the model's section in every layout."""

WHOLE = frozenset(
    f"{section}.{key}"
    for section, keys in {
        "runner_config": "batch_size epochs sink_size gradient_accumulation_steps",
        "train_dataset": "batch_size num_parallel_workers prefetch_size repeat seq_length",
        "callbacks": "save_checkpoint_steps keep_checkpoint_max",
        "parallel_config": "data_parallel model_parallel context_parallel pipeline_stage expert_parallel "
        "micro_batch_num",
        "model": "seq_length hidden_size num_layers num_hidden_layers num_heads num_attention_heads n_kv_heads "
        "num_key_value_heads vocab_size intermediate_size max_position_embeddings",
    }.items()
    for key in keys.split()
)
"""Counts that are no floating-point numbers, not even round ones (``2.0``): they become ranges and shapes."""

MEGATRON = _read("""
rotary-base                                            double 2 1e15
rotary-percent                                         double 1e-6 1
init-method-std                                        double 1e-12 1
log-interval,eval-interval,lr-decay-iters,train-samples int 1 1e12
train-iters,global-batch-size                          int 1 1e12
min-lr                                                 double 0 1e3
eval-iters,save-interval,mtp-num-layers,n-shared-experts int 0 1e12
lr-warmup-samples,manual-gc-interval                   int 0 1e12
moe-router-topk,n-group,topk-group                     int 1 1e4
moe-router-num-groups,moe-router-group-topk            int 1 1e4
moe-intermediate-size,moe-ffn-hidden-size              int 1 1e7
moe-aux-loss-coeff,moe-z-loss-coeff                    double 0 1
recompute-num-layers,make-vocab-size-divisible-by      int 1 1e6
kv-lora-rank,q-lora-rank,v-head-dim,qk-nope-head-dim   int 1 1e6
rope-scaling-factor                                    double 1 1e6
rope-scaling-original-max-position-embeddings          int 1 1e9
lora-r,lora-alpha                                      int 1 1e6
nnodes,worker-num,local-worker-num                     int 1 1e7
nproc-per-node                                         int 1 4096
node-rank                                              int 0 1e7
num-virtual-stages-per-pipeline-rank                   int 1 1e4
num-layers-per-virtual-pipeline-stage                  int 1 1e4
expert-tensor-parallel-size                            int 1 1e5
distributed-timeout-minutes                            int 1 1e6
hysteresis                                             int 1 1e6
""")
"""Options of Megatron-LM, MindSpeed, torchrun and msrun, with the type argparse gives them."""


def loose(limit: Limit) -> Limit:
    """The limit for a model of which little is known: 0 may stand for none, and a size may be any."""
    return Limit(False, min(limit.low, 0.0), max(limit.high, 1e15))


def check(notes: fill.Notes, key: str, value: Any, line: int, limit: Limit) -> None:
    """Note a value that is text, of the wrong type or out of range; null stands for the default."""
    if value is None:
        return
    if isinstance(value, str):
        if not value or "$" in value or "{" in value:
            return
        notes.add("file.text_numbers" if fill.is_number_text(value) else "file.wrong_types", key, line)
    elif isinstance(value, bool) or not isinstance(value, (int, float)) or (limit.whole and value != value // 1):
        notes.add("file.wrong_types", key, line)
    elif not limit.low <= value <= limit.high:
        notes.add("file.out_of_range", f"{key} {fill.shown(value)}", line)


ROPE_KEYS: dict[str, tuple[str, ...]] = {
    "default": (), "mrope": ("mrope_section",), "linear": ("factor",), "dynamic": ("factor",), "yarn": ("factor",),
    "proportional": (), "ntk": (), "ntk_alpha": (), "axial": (), "xdrope": (), "fope": (), "deepseek_yarn": (),
    "mllama4": (), "openpangu": (), "deepseek_llama_scaling": (),
    "longrope": ("short_factor", "long_factor"), "su": ("short_factor", "long_factor"),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}  # fmt: skip
"""Kind of rope scaling to the keys it cannot do without (transformers ``modeling_rope_utils.py``, and kinds of single
models of transformers 5.23.0 and of vLLM ``rotary_embedding``, which are not judged)."""
_POSITIVE = ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow")


def rope_faults(scaling: Any, rotary: int, own_code: bool) -> list[tuple[str, str]]:
    """(key, what is wrong) of a ``rope_scaling``. ``rotary`` is the width of the rotary part of a head, 0 if it is
    not known; a model with code of its own may have kinds of its own."""
    if scaling is None:
        return []
    if not isinstance(scaling, dict):
        return [("rope_scaling", "is no mapping")]
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind is None:
        return [("rope_scaling", "has no rope_type")]
    found = []
    if kind not in ROPE_KEYS:
        near = isinstance(kind, str) and nearest(kind, ROPE_KEYS, 1, SHORT)
        known = own_code and not near
        return [] if known else [("rope_type" if "rope_type" in scaling else "type", f"{fill.shown(kind)} unknown")]
    found += [("rope_scaling", f"{key} missing for {kind}") for key in ROPE_KEYS[kind] if scaling.get(key) is None]
    for key in ("factor", *_POSITIVE):
        value = scaling.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            found.append((key, f"{fill.shown(value)} is no number"))
        elif value <= 0 or (key == "factor" and value < 1):
            found.append((key, f"{fill.shown(value)} out of range"))
    if not found:
        for low, high in (("low_freq_factor", "high_freq_factor"), ("beta_slow", "beta_fast")):
            if low in scaling and high in scaling and scaling[low] > scaling[high]:
                found.append((low, f"above {high}"))
    for key in ("short_factor", "long_factor"):
        value = scaling.get(key)
        if isinstance(value, list) and kind in ("longrope", "su") and rotary and len(value) != rotary // 2:
            found.append((key, f"{len(value)} entries for {rotary // 2} frequencies"))
    return found
