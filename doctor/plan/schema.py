"""Every value a training plan can hold: its name, type and unit, and where a value comes from.

A name has two parts, ``group.name``; rules write ``plan.group.name``. Only names declared here can be read by a rule
and set by a reader, so that a typo is found before it looks like an absent value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from doctor.model import Evidence

BOOL, INT, FLOAT, TEXT, LIST = "bool", "int", "double", "string", "list"
"""Types of CEL. ``LIST`` is a list of strings or of numbers."""


class Field(NamedTuple):
    """One declared value. ``unit`` is empty for counts and names."""

    type: str
    unit: str
    says: str


class Value(NamedTuple):
    """One value of a plan.

    ``origin``: set (it stands at ``file``:``line``) · default (nobody wrote it; ``whose`` says whose default) ·
    derived (computed from others; ``whose`` says how). ``key`` is the name in the file, ``text`` the line's text.
    ``spots`` are further (line, text) of a list that was collected from several lines.
    """

    value: Any
    origin: str = "set"
    file: str = ""
    line: int = 0
    key: str = ""
    text: str = ""
    whose: str = ""
    spots: tuple[tuple[int, str], ...] = ()

    def evidence(self) -> list[Evidence]:
        """Where it stands; nothing for a default."""
        if self.origin != "set" or not self.file:
            return []
        if self.spots:
            return [Evidence(self.file, line, text) for line, text in self.spots]
        return [Evidence(self.file, self.line, self.text)]


class Trouble(NamedTuple):
    """What keeps a file from being read, or a thing in it that its consumer refuses. ``code`` names a text
    ``plan.<code>`` of the interface, which ``args`` fill."""

    code: str
    file: str
    line: int = 0
    args: dict[str, Any] = {}  # noqa: RUF012 - never changed


_TABLE = """
file.kind            string  -      what the file is: mindformers, huggingface, megatron, script, shell, notes
file.layout          string  -      of MindFormers: legacy (classes of 1.x), mcore (use_legacy False), pynative (2.x)
file.problem         string  -      why the file cannot be read, empty if it can
file.why             string  -      what the parser said, where it said anything
file.duplicate_keys  list    -      keys that stand twice in one mapping; the last one counts
file.unknown_keys    list    -      keys in a section whose reader refuses unknown names
file.unread_keys     list    -      keys nothing reads though their spelling is close to one that is read
file.misplaced_keys  list    -      sections that stand under another one than where they are read
file.text_numbers    list    -      keys whose value is text for the YAML reader although it looks like a number
file.wrong_types     list    -      keys whose value has a type its reader refuses
file.bad_values      list    -      values of a model inside the model (vision, text) that no model can have
file.near_types      list    -      class names that are not registered and close to one that is
file.near_values     list    -      words that are none of those a setting takes and close to one of them
file.unknown_options list    -      options of a launch script that do not exist and are close to one that does
file.out_of_range    list    -      numbers that no run can mean
file.unknown_words   list    -      words that are none of those a setting takes, and close to none of them
file.rope_faults     list    -      what is wrong with the scaling of rotary positions
file.empty_keys      list    -      keys without a value whose reader takes null for no default
file.made_up_data    list    -      options without which a training may take made-up data
file.lacking_keys    list    -      settings that a section, a model or a training command cannot do without
file.foreign_marks   list    -      quotes, dashes, colons and blanks of a word processor or of a Chinese keyboard
file.stray_words     list    -      words behind a switch that takes none
file.wrong_files     list    -      files of a kind that the reader named beside them cannot read
file.bad_patterns    list    -      regular expressions that cannot be compiled
file.bad_exports     list    -      environment variables with a value their reader does not take
file.bad_launch      list    -      addresses, ports, ranks and counts with which no launcher starts
file.bad_arguments   list    -      arguments of MindSpore calls with a type or value that the call refuses
file.odd_numbers     list    -      whole numbers in another base than ten
file.lost_variables  list    -      variables for one size that nothing uses, while another's stands in its place
file.conflicts       list    -      options of a launch script that exclude each other
file.lacking_options list    -      options of a launch script without the one they need
file.idle_options    list    -      options of a launch script that have no effect beside, or without, another one
file.broken_options  list    -      options of a launch script with a wrong dash or without their value
file.unset_names     list    -      variables of a launch script that are never set as they are used
file.open_quotes     list    -      quotes of a script that are never closed
file.cut_lines       list    -      where the command of a launch script ends before its last option
file.foreign_types   list    -      class names that are not registered with the library
file.nesting         int     -      depth of nested mappings
run.mode             string  -      train, finetune, eval, predict
run.training         bool    -      whether the run trains
run.parallel         bool    -      whether more than one device is used
run.seed             int     -      seed of all ranks
run.nodes            int     -      machines of the run, as the launcher is told
run.node_rank        int     -      number of this machine among them, from 0
run.max_connections  string  -      CUDA_DEVICE_MAX_CONNECTIONS that a launch script sets
run.port             int     -      port where the processes meet
model.type           string  -      configuration class or model type
model.arch           string  -      model class
model.arch_family    string  -      family that the model class belongs to, where it is not that of the type
model.largest_token  int     token  largest of the special token numbers (begin, end, padding)
model.layer_kinds    int     -      entries of the list of layer kinds
model.hidden_size    int     -      width of the residual stream
model.num_layers     int     -      transformer layers, without those of multi-token prediction
model.num_heads      int     -      query heads
model.kv_heads       int     -      key and value heads
model.head_dim       int     -      width of one head
model.ffn_size       int     -      inner width of a dense feed-forward layer
model.gated          bool    -      feed-forward layer with a gate (SwiGLU and the like)
model.vocab_size     int     token  rows of the token embedding
model.seq_length     int     token  length of the sequences the model is built for
model.max_positions  int     token  rows of the position table, or the longest sequence of the position encoding
model.position       string  -      kind of position encoding: learned, rope, alibi, none
model.norm           string  -      rms or layer
model.norm_eps       double  -      epsilon of the norms
model.activation     string  -      activation of the feed-forward layer
model.tied           bool    -      output layer shares the token embedding
model.qkv_bias       bool    -      bias on query, key and value
model.linear_bias    bool    -      bias on the other linear layers
model.qk_norm        bool    -      norm on queries and keys
model.hidden_dropout double  -      probability to drop, after attention and feed-forward
model.attention_dropout double -    probability to drop attention weights
model.embedding_dropout double -    probability to drop embeddings
model.flash_attention bool   -      fused attention that does not keep the score matrix
model.ring_attention bool    -      ring attention
model.mask_compression bool  -      compressed attention mask
model.mla            bool    -      multi-head latent attention
model.q_lora_rank    int     -      rank of the query projection of latent attention
model.kv_lora_rank   int     -      rank of the key and value projection of latent attention
model.rope_head_dim  int     -      rotary part of a query and key head of latent attention
model.nope_head_dim  int     -      other part of a query and key head of latent attention
model.v_head_dim     int     -      width of a value head of latent attention
model.experts        int     -      routed experts of a layer
model.experts_per_token int  -      routed experts a token goes to
model.expert_ffn     int     -      inner width of an expert
model.shared_experts int     -      experts every token goes to
model.shared_ffn     int     -      inner width of all shared experts together
model.dense_layers   int     -      first layers without experts
model.expert_groups  int     -      groups of experts
model.expert_group_topk int  -      groups a token may go to
model.router_bias    bool    -      router with a bias per expert
model.embedding_norm bool    -      norm behind the token embedding
model.mtp_layers     int     -      layers of multi-token prediction
model.use_past       bool    -      incremental inference with a key and value cache
model.lora           bool    -      only adapters are trained
model.offset_sum     int     -      sum of the layer offsets of the stages
model.offset_length  int     -      number of stages the offsets are given for; 0 if one number is given
model.fine_grain_interleave int -   parts a layer is cut into to hide communication
model.near_known     string  -      published model from which one size differs
model.near_difference string -      that size and the published one
model.known          bool    -      a text decoder whose sizes relate to each other as usual (Hugging Face)
model.plain          bool    -      a decoder whose parameters can be counted from this plan
precision.compute    string  -      dtype of matrix products
precision.both       bool    -      two dtypes of matrix products are asked for at once
precision.params     string  -      dtype parameters are kept in
precision.embedding  string  -      dtype of the embedding table
precision.norm       string  -      dtype of norms
precision.softmax    string  -      dtype of the attention softmax
precision.rotary     string  -      dtype of the rotary encoding
precision.router     string  -      dtype of the expert router
precision.amp_level  string  -      O0 to O3 or auto
precision.loss_scale double  -      first value of the loss scale
precision.loss_scale_dynamic bool - loss scale that adapts
precision.loss_scale_factor double - factor of the dynamic loss scale
precision.loss_scale_window int step clean steps before the scale rises
data.type            string  -      class of the data loader
data.seq_length      int     token  length of the rows the dataset gives
data.largest_token   int     -      largest special token (eod, pad) that the data set writes
data.batch_size      int     -      batch size written in the dataset section
data.workers         int     -      threads or processes of the data pipeline
data.drop_remainder  bool    -      a last smaller batch is left out
data.columns         list    -      columns handed to the model
data.columns_fault   string  -      what is wrong with the names or the order of the columns
data.num_columns     int     -      number of columns
data.prefetch        int     batch  batches kept ready
data.num_shards      int     -      shards the dataset is cut into by hand
parallel.dp          int     -      data parallel size
parallel.mp          int     -      model (tensor) parallel size
parallel.cp          int     -      context parallel size
parallel.pp          int     -      pipeline stages
parallel.ep          int     -      expert parallel size
parallel.product     int     -      dp * mp * cp * pp
parallel.devices     int     -      devices the run is started on, where the file says so
parallel.sequence    bool    -      activations outside of matrix products are cut along the sequence by mp
parallel.micro_batches int   -      micro batches of a pipeline step
parallel.virtual_layers int  layer  layers of one model piece of a stage
parallel.uneven      bool    -      the stages may hold different numbers of layers
parallel.micro_interleave int -     copies a micro batch is cut into to hide communication
parallel.virtual_stages int  -      model pieces per stage
parallel.vocab_by_data bool  -      the embedding is cut by data and not by vocabulary
parallel.mode        string  -      data, semi_auto, auto, hybrid, stand_alone
parallel.full_batch  bool    -      every rank loads the whole batch
parallel.strategy_rows int   -      rows of the dataset strategy
parallel.strategy_batch int  -      first number of the first row of the dataset strategy
parallel.gradients_mean bool -      gradients are averaged, not summed
parallel.optimizer   bool    -      weights and optimizer states are cut along data parallel
parallel.optimizer_threshold int KB  smallest parameter that is cut along data parallel
parallel.optimizer_level string -   level1 weights and states, level2 also gradients, level3 also weights after use
parallel.optimizer_shard_key string - a key that is meant to cut optimizer states and does nothing
parallel.cp_method   string  -      how attention is cut along the context
parallel.schedule    string  -      pipeline schedule
memory.parameters    double  10^9   parameters of the model
memory.static_gib    double  GiB    weights, gradients and optimizer states of the fullest stage
memory.total_gib     double  GiB    the same with activations, logits and buffers
weights.problem      string  -      why the weight file cannot be read, empty if it can
weights.layout       string  -      huggingface or mindformers: whose names the weight file uses
weights.missing      list    -      parameters of the model that the weight file does not hold
weights.extra        list    -      parameters of the weight file that the model does not have
weights.shapes       list    -      parameters whose shape is not that of the model
weights.turned       list    -      matrices that must be transposed for a Dense layer
weights.has_head     bool    -      the weight file holds an output layer
parallel.stage_layers list   layer  layers of each stage, where the file says so
batch.size           int     -      samples of a micro batch on one data parallel rank
batch.accumulation   int     -      gradient accumulation steps
batch.global_size    int     -      samples of one optimizer step
batch.written_global int     -      samples of one optimizer step as written
batch.epochs         int     -      epochs
batch.sink           bool    -      steps run on the device without coming back to the host
batch.sink_size      int     step   steps between two calls of the callbacks
optimizer.type       string  -      class
optimizer.lr         double  -      learning rate written at the optimizer; a schedule replaces it
optimizer.beta1      double  -      first moment
optimizer.beta2      double  -      second moment
optimizer.eps        double  -      added to the denominator
optimizer.weight_decay double -     weight decay
optimizer.clip_norm  double  -      largest norm of the gradient, 0 without clipping
optimizer.adam       bool    -      an optimizer with two moments per parameter
schedule.type        string  -      class
schedule.lr          double  -      highest learning rate
schedule.lr_end      double  -      last learning rate
schedule.warmup_steps int    step   steps of rising learning rate
schedule.warmup_ratio double -      the same as a share of all steps
schedule.total_steps int     step   length of the schedule
recompute.full       bool    -      activations of layers are computed again in the backward pass
recompute.layers     int     layer  number of layers, where it is a count
recompute.least        int    layer  the least entry of a list of layers to recompute
recompute.selective  bool    -      only a part of each layer is computed again
recompute.entries    int     -      stages the setting is written for, 0 if it is not a list
recompute.optimizer_comm bool -     the gathering of cut weights is done again in the backward pass
profile.on           bool    -      the run is profiled
profile.start        int     step   first profiled step
profile.stop         int     step   last profiled step
script.seeded        bool    -      a plain script sets a seed
script.distributed   bool    -      a plain script sets up communication
shell.reset          list    -      commands that reset NPUs
shell.opened         list    -      device files whose access is opened to everyone
shell.smi_words      list    -      calls of npu-smi with a word it does not know
shell.modules        list    -      driver modules that no driver has
shell.old_paths      list    -      variables that are set to paths of old CANN layouts
shell.whitelist      list    -      the HCCL whitelist switched on without a file
shell.verbose        list    -      log levels that print everything
shell.absent_pins    list    -      versions of MindSpore that PyPI does not have
shell.table_start    list    -      variables of the start by rank table, in a script without msrun
shell.launch_module  list    -      launch modules that do not exist
shell.launch_options list    -      options that run_mindformer.py does not take
shell.table_options  list    -      options that hccl_tools.py does not take
shell.msprof_options list    -      options that msprof is not documented with
shell.docker_lacks   list    -      device nodes that a container with an NPU needs and is not given
shell.docker_driver  list    -      the driver's folder, where a container with an NPU is not given it
shell.docker_all     list    -      cards named for a container that gets all devices anyway
checkpoint.save      bool    -      checkpoints are written
checkpoint.interval  int     step   steps between two checkpoints
checkpoint.keep      int     -      checkpoints kept
checkpoint.async     bool    -      written beside the training
checkpoint.integrated bool   -      slices are gathered before they are written
checkpoint.format    string  -      ckpt or safetensors
checkpoint.enc_key_length int byte  length of the encryption key
checkpoint.load      string  -      what is loaded
checkpoint.load_format string -     ckpt or safetensors
checkpoint.only_strategy bool -     the run ends once the parallel strategy is written
checkpoint.transform bool    -      slices are turned into those of this run while loading
checkpoint.resume    bool    -      training goes on where a run ended
context.call_depth   int     -      deepest nesting of calls while compiling
context.mode         int     -      0 graph, 1 pynative
context.device       string  -      Ascend, CPU, GPU
context.memory       string  -      the device memory the run may take, as written
context.memory_gib   double  GiB    the same as a number
context.jit_level    string  -      O0, O1, O2
context.graph_kernel bool    -      graph kernel fusion
context.memory_level string  -      memory_optimize_level
context.precision_mode string -     precision mode of the compiler
context.save_graphs  bool    -      graphs are written to disk
notes.speaks         list    -      whose settings these are: vllm, megatron, deepspeed and the like
notes.npu            bool    -      the settings are those of an Ascend NPU
notes.chip           string  -      chip or card as written, in upper case
notes.model          string  -      model as written, in lower case and without its folder
notes.version_vllm_ascend string -  version of vllm-ascend
notes.version_transformers string - version of transformers
notes.version_llamafactory string - version of LLaMA-Factory
notes.version_torch_npu string -    version of torch_npu
notes.version_megatron string -     version of Megatron-core
notes.version_mindyolo string -     version or branch of MindYOLO
notes.max_length     int     token  longest sequence a serving engine takes
notes.input_length   int     token  longest prompt a serving engine takes
notes.rope_scaling   bool    -      the position encoding is stretched beyond its length
notes.batched_tokens int     token  tokens of one step of a serving engine
notes.whole_prefill  bool    -      a prompt is computed in one step, not in pieces
notes.memory_share   double  -      part of the device memory a serving engine takes
notes.weights_gib    double  GiB    weights of the whole model
notes.quantization   string  -      how weights are quantized
notes.prequantized   bool    -      the checkpoint itself holds quantized weights
notes.export_bits    int     bit    width the weights are quantized to when they are exported
notes.quantization_bits int  bit    width the weights are quantized to while they are loaded
notes.kv_dtype       string  -      dtype of the key and value cache
notes.weight_block   int     -      rows of a weight that share one scale
notes.cut_width      int     -      inner width that tensor parallelism cuts, of a layer or an expert
notes.draft_tokens   int     token  tokens that speculative decoding proposes in a step
notes.sequence_cut   bool    -      a serving engine cuts activations along the sequence
notes.engine         string  -      program or image as written
notes.wrong_words    list    -      settings whose value is a word where a number belongs
notes.warmup_share   double  -      warm-up steps written as a share
notes.rope_type      string  -      kind of stretched position encoding
notes.rope_lacks     list    -      what that kind needs and is not written
notes.fused_on_host  bool    -      optimizer states on the host with an optimizer that runs on the device only
notes.sleep          bool    -      a serving engine may give its memory back for a while
notes.alloc_conf     string  -      options of the torch memory allocator
notes.visible        int     -      devices that a variable leaves visible
notes.local_devices  int     -      devices or processes of one host
notes.zero_stage     int     -      ZeRO stage of DeepSpeed
notes.offload_params bool    -      parameters are kept on the host
notes.fp16           bool    -      mixed precision in float16 is switched on
notes.bf16           bool    -      mixed precision in bfloat16 is switched on
notes.pure_bf16      bool    -      parameters and optimizer states in bfloat16
notes.text_switches  list    -      switches whose value is a text such as "false"
notes.auto_values    list    -      settings of DeepSpeed that are left to the Trainer of transformers
notes.own_loop       bool    -      DeepSpeed is called by a loop of one's own
notes.train_batch    int     -      samples of one optimizer step as DeepSpeed is told
notes.micro_batch    int     -      samples of one device and pass as DeepSpeed is told
notes.accumulation   int     -      passes of one optimizer step as DeepSpeed is told
notes.trainer_batch  int     -      samples of one device and pass as the Trainer is told
notes.attention      string  -      kind of attention
notes.packing        bool    -      several samples in one row
notes.load_best      bool    -      the best checkpoint is loaded at the end
notes.eval_strategy  string  -      when is evaluated: no, steps, epoch
notes.save_strategy  string  -      when is saved: no, steps, epoch, best
notes.eval_steps     int     step   steps between two evaluations
notes.save_steps     int     step   steps between two checkpoints
notes.generates      bool    -      evaluation generates text
notes.tuning         string  -      full, lora, freeze
notes.lora_absent    list    -      modules for adapters that the model family does not have
notes.lora_names     string  -      modules that it has
notes.classes        int     -      classes of a detector
notes.class_names    int     -      names of classes
notes.strict_load    bool    -      every parameter of a checkpoint must fit
notes.coco_weights   bool    -      the weights are those of a detector trained on the 80 classes of COCO
notes.weights_size   string  -      another size of detector that the weights are named after
notes.label_length   int     -      longest label of text recognition
notes.label_steps    int     -      steps of the prediction that the labels are aligned with
notes.overflow_update bool   -      an overflow does not keep a step from being applied
notes.expert_mp      int     -      tensor parallel size of experts
notes.cp_way         string  -      how sequences are exchanged in context parallelism
notes.world          int     -      processes of the whole job
notes.whole_model    bool    -      all weights of a model of billions of parameters are trained, no adapter
notes.states_gib     double  GiB    weights, gradients and optimizer states of one device when all weights are trained
notes.edge_layers    int     layer  layers of the first or last stage as written
notes.nodes          int     -      servers of the run
notes.executor       string  -      what vLLM starts its workers by: mp, ray
notes.cut_sequence   int     -      devices that share the tokens of a sequence, beside context parallelism
notes.mini_batch     int     -      prompts of one update of PPO
notes.dynamic_batch  bool    -      batches are cut by tokens, not by samples (verl)
notes.lora_rank      int     -      rank of an adapter
notes.max_lora_rank  int     -      highest rank a serving engine takes
notes.unsloth        bool    -      kernels of unsloth are used
notes.task_queue     int     -      TASK_QUEUE_ENABLE of torch_npu
notes.eager          bool    -      a serving engine captures no graphs
notes.symptom        string  -      what was seen, in lower case
notes.generations    int     -      answers to one prompt that are compared in GRPO
notes.ulysses        int     -      ranks that share the heads of one sequence (Ulysses)
notes.decode_cp      int     -      ranks that share the key and value cache of one sequence
notes.page_size      int     token  tokens of one page of the key and value cache
notes.prompt_length  int     token  longest prompt in reinforcement learning
notes.answer_length  int     token  longest answer in reinforcement learning
notes.tokens_per_device int  token  most tokens of one pass of PPO on a device
notes.bnb            bool    -      weights are quantized by bitsandbytes
"""

FACTS = """
fact.version.mindspore   string - version of MindSpore
fact.version.mindformers string - version of MindSpore Transformers
fact.host.cores          int    - CPU cores of this machine
fact.host.devices        int    - NPUs of this machine
fact.host.disk_free_gib  double GiB free space where checkpoints go
fact.npu.hbm_gib         double GiB memory of one NPU
fact.npu.soc             string - name of the chip, such as 910B3
"""


def _read(table: str, prefix: str) -> dict[str, Field]:
    found = {}
    for line in table.strip().splitlines():
        name, kind, unit, says = line.split(None, 3)
        found[prefix + name] = Field(kind, "" if unit == "-" else unit, says)
    return found


FIELDS: dict[str, Field] = _read(_TABLE, "plan.") | _read(FACTS, "")
"""Full name, as rules write it, to what it is."""

GROUPS = sorted({name.split(".")[1] for name in FIELDS if name.startswith("plan.")})


class Plan:
    """What was read of one training run.

    ``values`` maps ``group.name`` to a Value. A name that is not there is absent: nobody wrote it and no default is
    known. ``blocked`` names are there but cannot be known (the value lies in a file that is missing, an environment
    variable, a Python expression): a rule about them is unknown.
    """

    def __init__(self, kind: str, file: str) -> None:
        self.kind, self.file = kind, file
        self.values: dict[str, Value] = {}
        self.blocked: dict[str, str] = {}
        self.troubles: list[Trouble] = []
        self.files: list[str] = [file]
        self.weights: Any = None
        """the weight file that belongs to the plan, compared with it (``doctor.plan.weights.Comparison``)"""
        self.slips: list[tuple[int, str, str]] = []
        """(line, word, what it most likely is) of misspelt keys, switches and class names of the file"""
        self.meant: Plan | None = None
        """the plan with these words spelt right"""
        self.whole = True
        """of notes: whether it speaks of the whole model, not of a part such as a vision tower"""
        self.put("file.kind", Value(kind, "derived", whose="what stands in the file"))

    def put(self, name: str, value: Value) -> None:
        """Set a value; a number out of all range is blocked. Raises KeyError for a name that is not declared, TypeError
        for a value of another type."""
        field = FIELDS["plan." + name]
        try:
            self.values[name] = value._replace(value=coerce(value.value, field.type))
        except OverflowError as error:
            self.values.pop(name, None)
            self.blocked[name] = str(error)
            return
        self.blocked.pop(name, None)

    def default(self, name: str, value: Any, whose: str) -> None:
        """Set what holds when nobody wrote it; leaves a value that is there."""
        if name not in self.values and name not in self.blocked:
            self.put(name, Value(value, "default", whose=whose))

    def derive(self, name: str, value: Any, how: str) -> None:
        """Set what follows from other values; leaves a value that is there."""
        if name not in self.values and name not in self.blocked:
            self.put(name, Value(value, "derived", whose=how))

    def block(self, name: str, why: str) -> None:
        """Note that a value exists and cannot be known."""
        if name not in self.values:
            self.blocked[name] = why

    def get(self, name: str, otherwise: Any = None) -> Any:
        """The bare value, ``otherwise`` if it is absent. Raises KeyError for a name that is not declared."""
        if "plan." + name not in FIELDS:
            raise KeyError(name)
        value = self.values.get(name)
        return otherwise if value is None else value.value

    def rows(self) -> Iterator[tuple[str, Value]]:
        """All values in the order of the table."""
        for name in FIELDS:
            if name.startswith("plan.") and name[5:] in self.values:
                yield name[5:], self.values[name[5:]]

    def to_json(self) -> dict[str, Any]:
        """Plain data for JSON: every value with its place."""
        return {
            "file": self.file,
            "files": self.files,
            "kind": self.kind,
            "values": {
                name: {
                    k: v
                    for k, v in value._asdict().items()
                    if k not in ("text", "spots") and (v not in ("", 0, ()) or k == "value")
                }
                for name, value in self.rows()
            },
            "not_known": dict(self.blocked),
            "troubles": [t._asdict() for t in self.troubles],
        }


def coerce(value: Any, kind: str) -> Any:
    """A value in the declared type. Whole numbers become doubles where doubles are declared, and the other way round
    where nothing is lost; nothing else is converted.

    Raises TypeError, and OverflowError for a number that no setting can be (also an infinity).

    >>> coerce(1, "double"), coerce(4.0, "int")
    (1.0, 4)
    """
    if kind == LIST:
        if isinstance(value, (list, tuple)):
            return list(value)
    elif kind == BOOL:
        if isinstance(value, bool):
            return value
    elif kind == TEXT:
        if isinstance(value, str):
            return value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        if kind == FLOAT and abs(value) < 1e300:
            return float(value)
        if kind == INT and abs(value) < 2**63 and int(value) == value:
            return int(value)
        if not abs(value) < (2**63 if kind == INT else 1e300):
            raise OverflowError("a number out of range")
    raise TypeError(f"{type(value).__name__} is no {kind}")
