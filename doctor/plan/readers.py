"""Whose settings a table of notes holds, and what follows from them for that reader.

The same words mean different things to different readers: Megatron pads the vocabulary and wants layers that the
stages divide, vLLM copies key and value heads, DeepSpeed multiplies batches. A reader is told by keys that only it
has, or by its name in a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from doctor.plan import families, fill, limits
from doctor.plan.schema import Plan, Value
from doctor.plan.yamltree import Node

if TYPE_CHECKING:
    from doctor.plan.loose import Row


ENVIRONMENT = frozenset(("env", "environment", "envs", "environment_variables"))
"""Sections whose keys are variables."""

_READERS = """
vllm         tensor_parallel_size max_model_len gpu_memory_utilization max_num_seqs max_num_batched_tokens
vllm         enforce_eager enable_expert_parallel served_model_name kv_cache_dtype enable_chunked_prefill
vllm         enable_prefix_caching compilation_config additional_config
megatron     tensor_model_parallel_size pipeline_model_parallel_size expert_model_parallel_size num_query_groups
megatron     moe_router_topk moe_grouped_gemm num_layers_per_virtual_pipeline_stage expert_tensor_parallel_size
deepspeed    train_micro_batch_size_per_gpu zero_optimization zero_allow_untested_optimizer ds_config
deepspeed    micro_batch_per_gpu micro_train_batch_size
llamafactory finetuning_type cutoff_len lora_target flash_attn preprocessing_num_workers
llamafactory export_quantization_bit export_dir quantization_bit
swift        train_type tuner_type attn_impl split_dataset_ratio
trainer      per_device_train_batch_size load_best_model_at_end evaluation_strategy eval_strategy attn_implementation
trainer      save_strategy predict_with_generate
accelerate   compute_environment distributed_type fsdp_config
mindyolo     per_batch_size strict_load overflow_still_update sync_bn ms_loss_scaler nc
mindocr      character_dict_path pred_seq_len drop_overflow_update max_text_len
sglang       mem_fraction_static chunked_prefill_size attention_backend disable_radix_cache disable_cuda_graph
mindie       maxseqlen maxinputtokenlen npudeviceids npumemsize
verl         ppo_mini_batch_size ppo_micro_batch_size_per_gpu actor_rollout_ref ppo_max_token_len_per_gpu
trainer      num_generations
mindspore    amp_level max_device_memory device_target jit_level
"""
_NAMED = (
    ("vllm", r"\bvllm\b"), ("megatron", r"megatron|mindspeed"), ("deepspeed", r"deepspeed"),
    ("llamafactory", r"llama-?factory"), ("swift", r"\bms-?swift\b"), ("torchtitan", r"torchtitan"),
    ("colossalai", r"colossal"), ("mindyolo", r"mindyolo|\byolo"), ("mindocr", r"mindocr"), ("mindie", r"\bmindie\b"),
)  # fmt: skip
_NAMING = fill.words("""
engine framework image backend infer_backend launcher library software trainer recipe
""")
_VERSIONS = {
    "vllm_ascend": "vllm_ascend", "transformers": "transformers", "llamafactory": "llamafactory",
    "llama_factory": "llamafactory", "torch_npu": "torch_npu", "megatron_core": "megatron", "mindyolo": "mindyolo",
}  # fmt: skip
_DEVICE = fill.words("""
device chip npu npu_type soc hardware machine card accelerator
""")
_MODEL = ("model", "model_name_or_path", "model_name", "model_path", "base_model", "model_id", "load")
_CHIP = re.compile(
    r"(?i)(?<![a-z0-9])(?:ascend[\s_-]?)?(910(?:pro|premium)?[abc]\d?(?:-\d)?|910[\s_]c|310p\d?|310b\d?|910_93\d\d)(?!\w)"
)
_CARD = re.compile(r"(?i)\batlas\s?(?:\d{3}[a-z]?\s?)?(a[235])\b")
_ASCEND = re.compile(r"(?i)ascend|\bnpu\b|昇腾|\batlas\b|\b910[abc]|\b310p")
_GIB = re.compile(r"(?i)(?<![\d.])(\d{2,3})\s?g(?:i?b)?\b")
_MEMORY_KEYS = fill.words("""
device_memory_gib device_memory_gb hbm_gib hbm_gb memory_gb
""")
_HBM = {"910A": 32, "910B1": 64, "910B2": 64, "910B3": 64, "910B4": 32, "910B4-1": 64}
"""GiB of one device, by the name that npu-smi prints."""


def variables(tree: Node) -> list[tuple[str, str, int]]:
    """(name, value, line) of the variables in sections of the environment."""
    found = []
    for written, node in tree.data.items():
        if str(written).strip().lower() in ENVIRONMENT and node.kind == "map":
            for name, value in node.data.items():
                if value.kind not in ("map", "list") and re.fullmatch(r"[A-Za-z_]\w{0,80}", str(name)):
                    shown = "" if value.data is None else str(value.text or value.data)
                    found.append((str(name), shown.replace("\n", " "), node.line_of(name)))
    return found


class Table:
    """What a table of notes says beside its sizes."""

    def __init__(self, path: str, rows: Sequence[Row], env: Sequence[tuple[str, str, int]]) -> None:
        self.path, self.rows, self.env = path, rows, env
        self.keys = {row.key for row in rows} | {section for row in rows for section in row.sections}
        self.texts = {row.key: str(row.node.data) for row in rows if isinstance(row.node.data, str)}
        named = (
            " ".join(text.lower() for key, text in self.texts.items() if key in _NAMING)
            + " "
            + " ".join(
                key.replace("_", " ")
                for key in self.keys
                if key in _VERSIONS or key in ("vllm", "mindspeed", "megatron")
            )
        )
        speaks = {who for who, pattern in _NAMED if re.search(pattern, named)}
        for line in _READERS.strip().splitlines():
            who, *keys = line.split()
            if self.keys.intersection(keys):
                speaks.add(who)
        if {"fp16", "bf16"} <= self.keys and not speaks:
            speaks.add("trainer")
        if any(re.search(r"yolo.*\.ckpt$", text.lower()) for text in self.texts.values()):
            speaks.add("mindyolo")
        if "megatron" in speaks and not {"max_model_len", "gpu_memory_utilization"} & self.keys:
            speaks.discard("vllm")
        if "torchtitan" in speaks or "colossalai" in speaks:
            speaks -= {"vllm", "megatron"}
        self.speaks = sorted(speaks)
        self.chip, self.chip_row, self.facts = self._chip()
        self.npu = bool(
            self.chip
            or {"torch_npu", "cann", "npus", "npu_type", "vllm_ascend", "npu_per_node"} & self.keys
            or any(_ASCEND.search(text) for key, text in self.texts.items() if key in _DEVICE | _NAMING)
        )

    def _chip(self) -> tuple[str, Row | None, dict[str, Any]]:
        """(its name, the setting that names it, what else is known)"""
        chip, named = "", None
        facts: dict[str, Any] = {}
        for row in self.rows:
            text = str(row.node.data)
            if row.key in _DEVICE:
                found = _CHIP.search(text)
                card = _CARD.search(text)
                if found and not chip:
                    chip = found[1].upper().replace(" ", "").replace("_C", "C")
                elif card and not chip:
                    chip = f"ATLAS {card[1].upper()}"
                if chip and named is None:
                    named = row
                size = _GIB.search(text)
                if size:
                    facts["npu.hbm_gib"] = float(size[1])
            elif row.key in _MEMORY_KEYS and type(row.node.data) in (int, float):
                facts["npu.hbm_gib"] = float(row.node.data)
        # what people call 910B is any of 910B1 to 910B4; npu-smi calls a chip of the first generation so
        if chip and chip != "910B":
            facts["npu.soc"] = chip
        if chip in _HBM:
            facts.setdefault("npu.hbm_gib", float(_HBM[chip]))
        return chip, named, facts

    def row(self, *keys: str) -> Row | None:
        """The first setting of one of some names."""
        return next((row for key in keys for row in self.rows if row.key == key), None)

    def put(self, plan: Plan, name: str, value: Any, row: Row) -> None:
        """Set what a setting says."""
        if name not in plan.values:
            plan.put(name, Value(value, "set", self.path, row.line, row.key, row.shown))


def complete(plan: Plan, table: Table) -> Plan:
    """The plan with what its readers make of it."""
    plan.derive("notes.speaks", list(table.speaks), "the keys")
    plan.derive("notes.npu", table.npu, "device and software")
    if table.chip_row is not None:
        table.put(plan, "notes.chip", table.chip, table.chip_row)
    _versions(plan, table)
    _switches(plan, table)
    _bnb(plan, table)
    _words_for_numbers(plan, table)
    _positions(plan, table)
    _model(plan, table)
    _environment(plan, table)
    if "vllm" in table.speaks:
        _engine(plan, table)
    if "megatron" in table.speaks:
        _megatron(plan, table)
    if "deepspeed" in table.speaks or table.row("deepspeed"):
        _deepspeed(plan, table)
    if "mindyolo" in table.speaks:
        _detector(plan, table)
    _training(plan, table)
    return plan


def _versions(plan: Plan, table: Table) -> None:
    for row in table.rows:
        if row.key in _VERSIONS and row.node.kind == "scalar":
            found = re.search(r"\d+(?:\.\w+)+", str(row.node.text or row.node.data))
            if found:
                table.put(plan, f"notes.version_{_VERSIONS[row.key]}", found[0], row)
        elif row.key in _NAMING and isinstance(row.node.data, str):
            table.put(plan, "notes.engine", row.node.data.strip().lower(), row)
            found = re.search(r"vllm-ascend[:\s@]v?(\d+(?:\.\w+)+)", row.node.data)
            if found:
                table.put(plan, "notes.version_vllm_ascend", found[1], row)


def _switches(plan: Plan, table: Table) -> None:
    """Mixed precision, as a switch or a section with ``enabled``."""
    texts: list[tuple[Row, str]] = []
    for row in table.rows:
        last = row.sections[-1] if row.sections else ""
        if row.key == "enabled" and isinstance(row.node.data, str) and row.node.data.lower() in ("true", "false"):
            texts.append((row, f"{last}.enabled" if last else row.key))
        name = last if row.key == "enabled" else row.key
        short = {"bfloat16": "bf16", "fp16": "fp16", "bf16": "bf16"}.get(name)
        if short and type(row.node.data) is bool and (row.key != name or name != "bfloat16"):
            table.put(plan, f"notes.{short}", row.node.data, row)
            if row.node.data:
                table.put(plan, "precision.compute", "bfloat16" if short == "bf16" else "float16", row)
    if texts:
        spots = tuple((row.line, row.shown) for row, _ in texts)
        first = texts[0][0]
        value = [word for _, word in texts]
        plan.put("notes.text_switches", Value(value, "set", table.path, first.line, "enabled", first.shown, "", spots))


def _bnb(plan: Plan, table: Table) -> None:
    """Whether the weights are quantized by bitsandbytes while they are loaded: LLaMA-Factory does so unless told."""
    row = table.row("load_in_4bit", "load_in_8bit")
    if row is not None and row.node.data is True:
        table.put(plan, "notes.bnb", True, row)
    row = table.row("quantization_bit", "quant_bits")
    method = table.row("quantization_method", "quant_method")
    word = str(method.node.data).lower() if method is not None else "bnb" if "llamafactory" in table.speaks else ""
    if row is not None and row.node.data in (4, 8) and word in ("bnb", "bitsandbytes"):
        table.put(plan, "notes.bnb", True, row)


_COUNTS = fill.words("""
num_processes num_machines world_size tensor_parallel_size pipeline_parallel_size data_parallel_size
tensor_model_parallel_size pipeline_model_parallel_size per_device_train_batch_size per_device_eval_batch_size
gradient_accumulation_steps max_num_seqs num_layers num_attention_heads hidden_size
""")


def _words_for_numbers(plan: Plan, table: Table) -> None:
    """Counts that are written as a word which stands for no choice of the reader."""
    found = [
        row
        for row in table.rows
        if row.key in _COUNTS
        and isinstance(row.node.data, str)
        and row.node.data.isalpha()
        and row.node.data.lower() not in ("auto", "none", "null", "default", "todo", "xxx")
    ]
    if found:
        spots = tuple((row.line, row.shown) for row in found)
        words = [f"{row.key}: {row.node.data}" for row in found]
        plan.put(
            "notes.wrong_words", Value(words, "set", table.path, spots[0][0], found[0].key, spots[0][1], "", spots)
        )
    share = table.row("warmup_steps")
    if share is not None and isinstance(share.node.data, float) and 0 < share.node.data < 1:
        table.put(plan, "notes.warmup_share", share.node.data, share)


_ROPE_KINDS = ("llama3", "yarn", "linear", "dynamic", "longrope")
"""Kinds of ``rope_scaling`` that engines read as transformers does."""


def _positions(plan: Plan, table: Table) -> None:
    own = [row for row in table.rows if row.sections[-1:] == ("rope_scaling",)]
    kind = next((row for row in own if row.key in ("rope_type", "type")), None)
    if kind is None or not isinstance(kind.node.data, str):
        return
    table.put(plan, "notes.rope_type", kind.node.data.lower(), kind)
    needs = limits.ROPE_KEYS[kind.node.data.lower()] if kind.node.data.lower() in _ROPE_KINDS else ()
    table.put(plan, "notes.rope_lacks", [name for name in needs if name not in {row.key for row in own}], kind)


def _model(plan: Plan, table: Table) -> None:
    """What the name of a model tells, where the notes say no sizes themselves."""
    words = [r for r in table.rows if isinstance(r.node.data, str)]
    row = next((r for key in _MODEL for r in words if r.key == key), None)
    row = row or next((r for r in words if r.key in ("name", "path") and r.sections[-1:] == ("model",)), None)
    if row is None:
        return
    name = row.node.data.strip().rstrip("/").replace("\\", "/").rsplit("/", 1)[-1].lower()
    table.put(plan, "notes.model", name, row)
    if re.search(r"(?:^|[-_])(?:awq|gptq|int4|int8|fp8|w8a8|w4a8|w4a16)(?:[-_]|$)", name) or table.row("quant_method"):
        table.put(plan, "notes.prequantized", True, row)
    if name.endswith("-fp8") and "notes.quantization" not in plan.values:
        table.put(plan, "notes.quantization", "fp8", row)
    _adapters(plan, table, name)
    sizes = families.sizes_of(name)
    if sizes and plan.whole:
        whose = f"config.json of {name}"
        given = plan.get("model.num_heads")
        if given in (None, sizes[0]):
            plan.derive("model.num_heads", sizes[0], whose)
            plan.derive("model.kv_heads", sizes[1], whose)
            plan.derive("model.num_layers", sizes[2], whose)
            if sizes[3]:
                plan.derive("model.experts", sizes[3], whose)
    billions = families.billions(name)
    weights = table.row("model_weights_gb", "model_weights_gib", "weights_gb", "weights_gib")
    if weights and type(weights.node.data) in (int, float):
        table.put(plan, "notes.weights_gib", float(weights.node.data), weights)
    elif billions and not plan.get("notes.prequantized") and plan.get("notes.quantization") is None:
        width = 4 if plan.get("precision.compute") == "float32" else 2
        plan.derive("notes.weights_gib", billions * 1e9 * width / 2**30, f"{billions:g} · 10^9 parameters")


def _adapters(plan: Plan, table: Table, model: str) -> None:
    """The layers that adapters are meant for and that a model of this family does not have."""
    modules = families.modules_of(model)
    targets = table.row("lora_target", "target_modules", "lora_target_modules")
    if not modules or not targets:
        return
    data = targets.node.data
    words = [str(item.data) for item in data] if isinstance(data, list) else re.split(r"[,\s]+", str(data))
    if any(word.lower().startswith("all") or re.search(r"[*|(\\^]", word) for word in words):
        return
    absent = [w for w in words if w and w.lower().rsplit(".", 1)[-1] not in modules and w.lower() not in modules]
    table.put(plan, "notes.lora_absent", absent, targets)
    plan.derive("notes.lora_names", ", ".join(modules[:5]), f"family of {model}")


def _environment(plan: Plan, table: Table) -> None:
    for name, value, line in table.env:
        written = Value("", "set", table.path, line, name, f"{name}: {value}"[:300])
        if name in ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            plan.put("notes.alloc_conf", written._replace(value=re.sub(r"[\s'\"]", "", value).lower()))
        elif name == "TASK_QUEUE_ENABLE" and value.strip() in ("0", "1", "2"):
            plan.put("notes.task_queue", written._replace(value=int(value)))
        elif name == "ASCEND_RT_VISIBLE_DEVICES" and re.fullmatch(r"\d{1,3}(,\d{1,3})*", re.sub(r"\s", "", value)):
            plan.put("notes.visible", written._replace(value=value.count(",") + 1))


def _engine(plan: Plan, table: Table) -> None:
    """What vLLM makes of its arguments."""
    scaling = {"rope_scaling", "hf_overrides"} & table.keys
    longer = any(name == "VLLM_ALLOW_LONG_MAX_MODEL_LEN" and value not in ("0", "") for name, value, _ in table.env)
    plan.derive("notes.rope_scaling", bool(scaling) or longer, "rope_scaling")
    limit = table.row("derived_max_model_len", "model_max_length", "max_sequence_length", "seq_length", "n_positions")
    if limit is not None and type(limit.node.data) is int:
        table.put(plan, "model.max_positions", limit.node.data, limit)
    for name, value, line in table.env:
        if name == "VLLM_ASCEND_ENABLE_FLASHCOMM1" and value == "1":
            shown = f"{name}: {value}"
            plan.values.setdefault("notes.sequence_cut", Value(True, "set", table.path, line, name, shown))
    _blocks(plan, table)
    chunked = table.row("enable_chunked_prefill")
    own = next((r for r in table.rows if r.key == "enabled" and "ascend_scheduler_config" in r.sections), None)
    if chunked is not None and chunked.node.data is True:
        return
    if chunked is not None and chunked.node.data is False:
        table.put(plan, "notes.whole_prefill", True, chunked)
    elif own is not None and own.node.data is True:
        table.put(plan, "notes.whole_prefill", True, own)


def _blocks(plan: Plan, table: Table) -> None:
    """How weights are quantized in blocks or groups, and the width that tensor parallelism cuts."""
    block = table.row("weight_block_size", "group_size", "q_group_size")
    if block is None:
        return
    data = block.node.data
    size = data[0].data if isinstance(data, list) and data else data
    grouped = re.search(r"awq|gptq", str(plan.get("notes.quantization", "")) + str(plan.get("notes.model", "")))
    if type(size) is not int or size < 1 or (block.key != "weight_block_size" and not grouped):
        return
    table.put(plan, "notes.weight_block", size, block)
    experts = table.row("enable_expert_parallel")
    for name in ("model.expert_ffn", "model.ffn_size"):
        if name in plan.values and not (experts and experts.node.data is True):
            plan.values.setdefault("notes.cut_width", plan.values[name])


_UNEVEN = fill.words("""
decoder_first_pipeline_num_layers decoder_last_pipeline_num_layers account_for_embedding_in_pipeline_split
account_for_loss_in_pipeline_split pipeline_model_parallel_layout num_layer_list noop_layers encoder_num_layers
decoder_num_layers standalone_embedding_stage pipeline_model_parallel_split_rank custom_pipeline_layers
num_layers_in_first_pipeline_stage num_layers_in_last_pipeline_stage
""")


def _megatron(plan: Plan, table: Table) -> None:
    plan.values["file.kind"] = Value("megatron", "derived", whose="the keys")
    uneven = any(row.key in _UNEVEN and row.node.data not in (None, False) for row in table.rows)
    plan.derive("parallel.uneven", uneven, "options for uneven stages")
    sizes = [plan.get("parallel." + name, 1) for name in ("mp", "pp", "cp")]
    per, world = sizes[0] * sizes[1] * sizes[2], plan.get("parallel.devices")
    if world and per > 0 and world % per == 0:
        plan.derive("parallel.dp", world // per, "devices / (tp · pp · cp)")


def _deepspeed(plan: Plan, table: Table) -> None:
    named = table.row("deepspeed", "deepspeed_config", "ds_config")
    if named is not None and isinstance(named.node.data, str):
        stage = re.search(r"(?:z|zero|stage)[-_]?([0-3])(?!\d)", named.node.data.lower())
        if stage:
            table.put(plan, "notes.zero_stage", int(stage[1]), named)
    for row in table.rows:
        if (row.key == "device" and row.sections[-1:] == ("offload_param",)) or row.key == "offload_param_device":
            table.put(plan, "notes.offload_params", row.node.data not in (None, "none"), row)
    host = next((r for r in table.rows if r.key == "device" and r.sections[-1:] == ("offload_optimizer",)), None)
    host = host or table.row("offload_optimizer_device")
    kind = plan.get("optimizer.type", "")
    unforced = table.row("zero_force_ds_cpu_optimizer")
    # AdamW of torch is exchanged by Accelerate (map_pytorch_optim_to_deepspeed)
    own = "fused" in kind.lower() and "torch" not in kind.lower()
    if host is not None and host.node.data == "cpu" and own and not (unforced and unforced.node.data is False):
        table.put(plan, "notes.fused_on_host", True, host)
    autos = [row for row in table.rows if row.node.data == "auto" and not row.key.startswith(("flash", "attn"))]
    if autos and {"ds_config", "zero_optimization", "gradient_clipping", "fp16", "bf16"} & table.keys:
        spots = tuple((row.line, row.shown) for row in autos)
        first = autos[0]
        value = Value([row.key for row in autos], "set", table.path, first.line, first.key, first.shown, "", spots)
        plan.values.setdefault("notes.auto_values", value)
    call = next((row for row in table.rows if "deepspeed.initialize" in str(row.node.data)), None)
    if call is not None and not re.search(r"(?i)transformers|hf[ _]|accelerate", str(call.node.data)):
        table.put(plan, "notes.own_loop", True, call)


_OF_YOLO = re.compile(r"yolo(v\d{1,2}|x)[-_]?(tiny|nano|[nsmlxtceb]6?)(?![a-z0-9])")


def _detector(plan: Plan, table: Table) -> None:
    names = table.row("names")
    if names is not None and isinstance(names.node.data, list):
        table.put(plan, "notes.class_names", len(names.node.data), names)
    weight = table.row("weight", "weights", "pretrained", "ckpt")
    if weight is None or not isinstance(weight.node.data, str):
        return
    file = weight.node.data.rsplit("/", 1)[-1].lower()
    if re.search(r"_\d{2,4}e_map|_coco\b|coco[._]", file):
        table.put(plan, "notes.coco_weights", True, weight)
    config = table.row("config", "config_path", "network", "model_name")
    if config is not None and isinstance(config.node.data, str):
        asked = _OF_YOLO.search(config.node.data.rsplit("/", 1)[-1].lower())
        given = _OF_YOLO.search(file)
        if asked and given and asked.groups() != given.groups():
            table.put(plan, "notes.weights_size", given[0], weight)


_ADAPTER = re.compile(r"lora|adapter|peft|prefix|prompt_tuning|p_?tuning|target_modules|freeze|qlora|controlnet")
_LARGE = 3
"""From so many 10^9 parameters on published learning rates with Adam stay well below 1e-3."""


def _whole_model(plan: Plan, table: Table) -> None:
    row = next((r for key in _MODEL for r in table.rows if r.key == key and isinstance(r.node.data, str)), None)
    size = families.billions(str(plan.get("notes.model", "")))
    if row is not None and size is not None and size >= _LARGE and not _ADAPTER.search(_said(table)):
        table.put(plan, "notes.whole_model", True, row)


def _said(table: Table) -> str:
    return " ".join((*table.keys, *(text.lower() for text in table.texts.values())))


_SPARING = re.compile(
    r"offload|fsdp|galore|lomo|badam|apollo|8bit|adafactor|\bsgd\b|lion|muon|quantiz|hsdp|megatron|distributed_optim"
)


def _states(plan: Plan, table: Table) -> None:
    """GiB of weights, gradients and Adam's states on each device, where nothing is said that spares memory."""
    row, size = table.row(*_MODEL), families.billions(str(plan.get("notes.model", "")))
    said = _said(table)
    if row is None or size is None or plan.get("notes.tuning") != "full" or _SPARING.search(said):
        return
    if _ADAPTER.search(said) or any(plan.get("parallel." + name, 1) > 1 for name in ("mp", "pp")):
        return
    named, stage = table.row("deepspeed", "deepspeed_config", "ds_config"), plan.get("notes.zero_stage")
    devices = plan.get("parallel.devices") or 0
    # a launcher may cut the states though the notes are silent about it: that nothing is cut must be written
    if stage is None and devices != 1 and (named is None or named.node.data not in (None, False)):
        return
    if stage and (devices < 1 or {"nodes", "nnodes", "num_machines"} & table.keys):
        return
    whole, mixed = 0.0, 16.0
    if not stage:
        # transformers keeps what was loaded in half precision so, LLaMA-Factory trains in float32
        whole, mixed, devices = (16.0 if "llamafactory" in table.speaks else 8.0), 0.0, 1
        if plan.get("notes.pure_bf16"):
            whole = 8.0
    elif stage in (1, 2):
        whole = 4.0 if stage == 1 else 2.0
        mixed -= whole
    table.put(plan, "notes.states_gib", size * 1e9 * (whole + mixed / devices) / 2**30, row)


_TIMES = re.compile(r"(?<![\d.])(\d{1,4})\s?[x×*]\s?[A-Za-z]|(?<=[\w)])\s?[x×*]\s?(\d{1,4})\b")


def _training(plan: Plan, table: Table) -> None:
    many = next((r for r in table.rows if r.key in (*_DEVICE, "gpus", "npus") and isinstance(r.node.data, str)), None)
    counted = _TIMES.search(many.node.data) if many is not None else None
    if many is not None and counted:
        table.put(plan, "parallel.devices", int(counted[1] or counted[2]), many)
    each, nodes = table.row("n_gpus_per_node"), table.row("nnodes")
    counts = [row.node.data for row in (each, nodes) if row is not None and type(row.node.data) is int]
    if each is not None and len(counts) == 2 and plan.get("parallel.devices") is None:
        table.put(plan, "parallel.devices", counts[0] * counts[1], each)
    kind = plan.get("optimizer.type")
    if kind is not None:
        plan.derive("optimizer.adam", "adam" in kind.lower(), f"class {kind}")
    if plan.get("optimizer.lr") is not None and not {"vllm", "mindie"}.intersection(table.speaks):
        plan.derive("run.training", True, "a learning rate")
        _whole_model(plan, table)
    _states(plan, table)
    memory = plan.get("context.memory")
    if memory is not None and fill.memory_gib(memory) is not None:
        plan.derive("context.memory_gib", fill.memory_gib(memory), memory)
    fixed = next(
        (r for r in table.rows if r.key in ("class_path", "type") and "FixedLossScale" in str(r.node.data)), None
    )
    if fixed is not None:
        table.put(plan, "precision.loss_scale_dynamic", False, fixed)
