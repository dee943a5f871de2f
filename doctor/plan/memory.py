"""What a run needs on each device: an estimate with its arithmetic shown.

Counting of parameters is exact for the families it knows (checked against the published sizes, tests/plan). Bytes of
weights, gradients and optimizer states follow from dtypes and from who cuts what (ZeRO, arXiv 1910.02054; MindSpore
``optimizer_level``). Activations are counted tensor by tensor; with 16-bit values, dropout and a plain feed-forward
layer the count is that of Korthikanti et al. (arXiv 2205.05198): ``s*b*h*(34 + 5*a*s/h)`` per layer. No published
peak of an Ascend run confirms the activation part: it is labelled a guess.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from doctor.plan.fill import WIDTH
from doctor.plan.schema import Plan, Value

GIB = 1 << 30
BUFFER_MIB = 200
"""``HCCL_BUFFSIZE`` by default, in MB, twice for each communicator (in and out)."""
MOST = 20_000
"""Layers and parallel sizes above this are no model; nothing is counted in loops of such a length."""
RUNTIME_GIB = 1.0
"""Context of the runtime and operator workspaces; a guess."""


class Shape(NamedTuple):
    """The numbers that the parameters of a decoder depend on."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    positions: int
    gated: bool
    layer_norm: bool
    qkv_bias: bool
    linear_bias: bool
    qk_norm: bool
    tied: bool
    embedding_norm: bool
    experts: int
    experts_per_token: int
    expert_ffn: int
    shared_ffn: int
    dense_layers: int
    mtp: int
    router_bias: bool
    mla: bool
    q_rank: int
    kv_rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int


def shape_of(plan: Plan) -> Shape | None:
    """The shape of a plan that is complete, None otherwise."""
    get = plan.get
    if not get("model.plain"):
        return None
    hidden, layers, heads, vocab = (get("model." + n) for n in ("hidden_size", "num_layers", "num_heads", "vocab_size"))
    mla = bool(get("model.mla"))
    if not (hidden and layers and heads and vocab) or min(hidden, layers, heads, vocab) < 1 or layers > MOST:
        return None
    ffn = get("model.ffn_size") or 0
    head_dim = get("model.head_dim") or 0
    if not mla and not head_dim:
        return None
    experts = get("model.experts") or 0
    experts = experts if experts > 1 else 0
    expert_ffn = get("model.expert_ffn") or ffn
    if not ffn and not (experts and expert_ffn):
        return None
    shared = get("model.shared_ffn") or (get("model.shared_experts") or 0) * expert_ffn
    if mla and not all(get("model." + n) for n in ("kv_lora_rank", "rope_head_dim", "nope_head_dim", "v_head_dim")):
        return None
    return Shape(
        hidden, layers, heads, get("model.kv_heads") or heads, head_dim, ffn, vocab,
        (get("model.max_positions") or get("model.seq_length") or 0) if get("model.position") == "learned" else 0,
        bool(get("model.gated")), get("model.norm") == "layer", bool(get("model.qkv_bias")),
        bool(get("model.linear_bias")),
        bool(get("model.qk_norm")), bool(get("model.tied")), bool(get("model.embedding_norm")), experts,
        get("model.experts_per_token") or 0, expert_ffn, shared if experts else 0,
        min(layers, get("model.dense_layers") or 0) if experts else layers, get("model.mtp_layers") or 0,
        bool(get("model.router_bias")), mla, get("model.q_lora_rank") or 0, get("model.kv_lora_rank") or 0,
        get("model.rope_head_dim") or 0, get("model.nope_head_dim") or 0, get("model.v_head_dim") or 0,
    )  # fmt: skip


class Count(NamedTuple):
    """Numbers of parameters. ``attention``, ``dense`` and ``expert`` are of one layer; norms are in ``attention``."""

    embedding: int
    positions: int
    attention: int
    dense: int
    routed: int
    shared: int
    head: int
    final: int
    mtp: int
    total: int


def count(shape: Shape) -> Count:
    """Parameters of a decoder.

    >>> gpt2 = Shape(768, 12, 12, 12, 64, 3072, 50257, 1024, False, True, True, True, False, True, False,
    ...              0, 0, 0, 0, 12, 0, False, False, 0, 0, 0, 0, 0)
    >>> count(gpt2).total
    124439808
    """
    s = shape
    h, norm = s.hidden, s.hidden * (2 if s.layer_norm else 1)
    if s.mla:
        width = s.nope_dim + s.rope_dim
        query = h * s.q_rank + s.q_rank + s.q_rank * s.heads * width if s.q_rank else h * s.heads * width
        keys = h * (s.kv_rank + s.rope_dim) + s.kv_rank + s.kv_rank * s.heads * (s.nope_dim + s.v_dim)
        attention = query + keys + s.heads * s.v_dim * h
    else:
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        attention = h * q + 2 * h * kv + q * h
        attention += (
            (q + 2 * kv if s.qkv_bias else 0) + (h if s.linear_bias else 0) + (2 * s.head_dim if s.qk_norm else 0)
        )
    attention += 2 * norm

    def feed(width: int) -> int:
        matrices = (3 if s.gated else 2) * h * width
        return matrices + ((width * (2 if s.gated else 1) + h) if s.linear_bias else 0)

    dense = feed(s.ffn) if s.ffn else 0
    routed = s.experts * 3 * h * s.expert_ffn + s.experts * h + (s.experts if s.router_bias else 0) if s.experts else 0
    shared = 3 * h * s.shared_ffn if s.shared_ffn else 0
    embedding, positions = s.vocab * h, s.positions * h
    final = norm + (2 * h if s.embedding_norm else 0)
    head = 0 if s.tied else s.vocab * h
    moe_layers = s.layers - s.dense_layers
    one = attention + (routed + shared if s.experts else dense)
    # a layer of multi-token prediction: two norms, the joining projection, a layer, a norm (DeepSeek-V3, section 2.2)
    mtp = s.mtp * (2 * h * h + 3 * h + one)
    total = embedding + positions + s.layers * attention + s.dense_layers * dense + moe_layers * (routed + shared)
    total += final + head + mtp
    return Count(embedding, positions, attention, dense, routed, shared, head, final, mtp, total)


class Row(NamedTuple):
    """One line of the table: bytes of a device of one stage, and how they come about. ``how`` names a text
    ``memory.how.<how>`` of the interface, which ``args`` fill; ``sure`` is certain, likely or guess."""

    name: str
    size: float
    how: str
    args: dict[str, Any]
    sure: str


class Settings(NamedTuple):
    """What of a plan decides over memory besides the shape."""

    dp: int = 1
    mp: int = 1
    cp: int = 1
    pp: int = 1
    ep: int = 1
    batch: int = 1
    micro: int = 1
    seq: int = 1024
    sequence: bool = False
    flash: bool = False
    full: bool = False
    selective: bool = False
    shard: bool = False
    level: str = "level1"
    param: int = 4
    grad: int = 4
    state: int = 8
    master: int = 0
    compute: int = 2
    attention_dropout: bool = False
    hidden_dropout: bool = False
    vocab_cut: bool = True
    virtual: int = 1
    accumulation: int = 1


class Estimate(NamedTuple):
    """Tables of all stages; ``worst`` is the index of the fullest, ``parameters`` of the whole model."""

    settings: Settings
    parameters: int
    stages: tuple[tuple[Row, ...], ...]
    worst: int
    layers: tuple[int, ...]

    def total(self, stage: int | None = None) -> float:
        """Bytes of one stage, of the fullest if none is named."""
        return sum(row.size for row in self.stages[self.worst if stage is None else stage])

    def static(self) -> float:
        """Bytes of weights, gradients and optimizer states of the fullest stage."""
        return sum(row.size for row in self.stages[self.worst] if row.name in ("weights", "gradients", "optimizer"))


def settings_of(plan: Plan) -> Settings | None:
    """The settings of a plan, None if a size is not known or makes no sense, or is searched for (auto parallel)."""
    get = plan.get
    if get("parallel.mode") == "auto":
        return None
    sizes = {n: get("parallel." + n) or 1 for n in ("dp", "mp", "cp", "pp", "ep")}
    if any(n in plan.blocked for n in ("parallel.dp", "parallel.mp", "parallel.pp", "parallel.cp")):
        return None
    seq = get("model.seq_length") or get("data.seq_length") or get("model.max_positions")
    batch = get("batch.size") or 1
    if not seq or min(*sizes.values(), seq, batch) < 1 or max(sizes.values()) > MOST:
        return None
    # a run on one device uses none of the sizes; where nothing says so they count
    if plan.get("run.parallel") is False:
        sizes = dict.fromkeys(sizes, 1)
    param = WIDTH.get(get("precision.params") or "float32", 4)
    adam = get("optimizer.adam")
    kind = get("optimizer.type") or ""
    state = 8 if adam is not False else 4
    if adam and param == 2 and kind in ("AdamWeightDecay", "Adam"):
        state = 4
    master = 4 if plan.kind == "megatron" and param == 2 else 0
    grad = 4 if plan.kind == "megatron" else param
    if plan.kind == "megatron" and master:
        param = 2
    return Settings(
        sizes["dp"], sizes["mp"], sizes["cp"], sizes["pp"], sizes["ep"], batch,
        max(1, get("parallel.micro_batches") or 1) if sizes["pp"] > 1 else 1, seq, bool(get("parallel.sequence")),
        bool(get("model.flash_attention")), bool(get("recompute.full")), bool(get("recompute.selective")),
        bool(get("parallel.optimizer")), get("parallel.optimizer_level") or "level1", param, grad, state, master,
        WIDTH.get(get("precision.compute") or "float16", 2), (get("model.attention_dropout") or 0) > 0,
        (get("model.hidden_dropout") or 0) > 0, not get("parallel.vocab_by_data") or sizes["mp"] == 1,
        max(1, get("parallel.virtual_stages") or 1), max(1, get("batch.accumulation") or 1),
    )  # fmt: skip


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each stage; what does not divide goes to the last stages.

    >>> stage_layers(10, 4)
    (2, 2, 3, 3)
    """
    each, rest = divmod(layers, pp)
    return tuple(each + (1 if stage >= pp - rest else 0) for stage in range(pp))


def layer_activation(shape: Shape, s: Settings, moe: bool = False) -> float:
    """Bytes that one layer keeps of one micro batch for its backward pass, on one device.

    Tensors, in elements: norm inputs 2 sbh, attention input sbh, queries, keys and values, the context, the input of
    the feed-forward layer sbh, its inner tensors (4 of them with a gate, 2 without), and, without flash attention, the
    scores. Masks of dropout take one byte. What lies outside of the matrix products is cut only by sequence
    parallelism (Korthikanti et al., equations 1 to 4).
    """
    tokens = s.seq / s.cp * s.batch
    width = s.compute
    outside = s.mp if s.sequence else 1
    h = shape.hidden
    if shape.mla:
        q = shape.heads * (shape.nope_dim + shape.rope_dim)
        kv = shape.heads * (shape.nope_dim + shape.rope_dim + shape.v_dim) / 2
        context = shape.heads * shape.v_dim
    else:
        q, kv, context = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.heads * shape.head_dim
    whole = width * (2 * h + h + h)  # inputs of two norms, of attention and of the feed-forward layer
    masks = 2 * h if s.hidden_dropout else 0
    inner = shape.ffn
    if moe:
        inner = shape.experts_per_token * shape.expert_ffn + shape.shared_ffn
        whole += width * shape.experts_per_token * h  # tokens as they are handed to the experts
    cut = width * (q + 2 * kv + context) + width * (4 if shape.gated else 2) * inner
    scores = 0.0
    if not s.flash and not s.selective:
        # softmax, its dropout and the mask of it
        per = width * (2 if s.attention_dropout else 1) + (1 if s.attention_dropout else 0)
        scores = shape.heads * s.seq * per
    return tokens * ((whole + masks) / outside + (cut + scores) / s.mp)


def estimate(shape: Shape, s: Settings) -> Estimate:
    """The table of every stage."""
    counted = count(shape)
    split = stage_layers(shape.layers, s.pp)
    stages = []
    start = 0
    for stage, layers in enumerate(split):
        dense = max(0, min(layers, shape.dense_layers - start))
        start += layers
        moe = layers - dense
        cut = layers * counted.attention + dense * counted.dense + moe * counted.shared
        other = 0
        if stage == 0:
            other += counted.embedding + counted.positions
        if stage == s.pp - 1:
            other += (counted.head or (counted.embedding if s.pp > 1 else 0)) + counted.final + counted.mtp
        table = s.mp if s.vocab_cut else 1
        per_device = cut / s.mp + other / table
        routed = moe * counted.routed / (s.ep if shape.experts else 1)
        stages.append(_rows(shape, s, stage, layers, dense, moe, per_device, routed))
    totals = [sum(row.size for row in rows) for rows in stages]
    return Estimate(s, counted.total, tuple(stages), totals.index(max(totals)), split)


def _rows(
    shape: Shape, s: Settings, stage: int, layers: int, dense: int, moe: int, local: float, routed: float
) -> tuple[Row, ...]:
    whole = local + routed
    dp = s.dp * s.cp
    # experts are already spread over ep of the dp*mp devices
    rest = max(1.0, dp * s.mp / s.ep) if shape.experts else 1.0

    def spread(width: float, cut: bool) -> float:
        return width * (local / dp + routed / rest if cut else whole)

    weights_cut = s.shard and s.master == 0
    # each gradient goes to the slice of its weight at once, unless gradients are accumulated before
    grads_cut = s.shard and (s.level in ("level2", "level3") or (s.pp == 1 and s.accumulation == 1))

    def held(name: str, width: int, cut: bool) -> Row:
        args = {"parameters": f"{whole / 1e6:,.0f}", "width": width, "cut": f" ÷ {dp}" if cut else ""}
        return Row(name, spread(width, cut), "states", args, "likely")

    rows = [
        held("weights", s.param, weights_cut),
        held("gradients", s.grad, grads_cut),
        held("optimizer", s.state + s.master, s.shard),
    ]
    flight = min(s.pp - stage, s.micro) if s.pp > 1 else 1
    plain, expert = layer_activation(shape, s), layer_activation(shape, s, True) if shape.experts else 0.0
    kept = s.seq / s.cp * s.batch * shape.hidden * s.compute / (s.mp if s.sequence else 1)
    if s.full:
        size = flight * layers * kept + max(
            plain if dense else 0.0, expert if moe else 0.0, plain if not shape.experts else 0.0
        )
        how, args = "recompute", {"flight": flight, "layers": layers, "each": f"{kept / 2**20:,.0f}"}
    else:
        size = flight * (dense * plain + moe * expert) if shape.experts else flight * layers * plain
        each = size / max(1, flight * layers)
        how, args = "kept", {"flight": flight, "layers": layers, "each": f"{each / 2**20:,.0f}", "more": ""}
        if s.pp > 1 and s.virtual > 1:
            factor = 1 + (s.pp - 1) / (s.pp * s.virtual)
            size *= factor
            args["more"] = f" × {factor:.2f}"
    rows.append(Row("activations", size, how, args, "guess"))
    if stage == s.pp - 1:
        tokens = s.seq / s.cp * s.batch
        columns = shape.vocab / (s.mp if s.vocab_cut else 1)
        args = {"tokens": f"{tokens:,.0f}", "columns": f"{columns:,.0f}", "width": s.compute}
        rows.append(Row("logits", tokens * columns * (s.compute + 8), "logits", args, "guess"))
    groups = sum(size > 1 for size in (s.dp, s.mp, s.cp, s.pp, s.ep)) + (1 if s.dp * s.mp * s.cp * s.pp > 1 else 0)
    if groups:
        args = {"groups": groups, "buffer": BUFFER_MIB}
        rows.append(Row("communication", groups * 2 * BUFFER_MIB * 1e6, "communication", args, "guess"))
    rows.append(Row("runtime", RUNTIME_GIB * GIB, "runtime", {}, "guess"))
    return tuple(rows)


class Change(NamedTuple):
    """A setting that makes the run fit: (plan name, value) pairs and what it would then need, in bytes."""

    changes: tuple[tuple[str, Any], ...]
    total: float


def nearest_fit(shape: Shape, s: Settings, limit: float) -> Change | None:
    """The least intrusive change with which the fullest stage stays below ``limit`` bytes, None if none does.

    Tried in this order, also together: flash attention, cutting optimizer states, level2, selective and full
    recompute, a smaller micro batch, then more model and pipeline parallelism on the same number of devices.
    """
    steps: list[tuple[tuple[tuple[str, Any], ...], Settings]] = []

    def grow(changes: tuple[tuple[str, Any], ...], now: Settings) -> list[tuple[tuple[tuple[str, Any], ...], Settings]]:
        found = [(changes, now)]
        if not now.flash and shape.head_dim % 16 == 0:
            changes, now = (*changes, ("model.flash_attention", True)), now._replace(flash=True)
            found.append((changes, now))
        if not now.shard and now.dp > 1:
            changes, now = (*changes, ("parallel.optimizer", True)), now._replace(shard=True)
            found.append((changes, now))
        if now.shard and now.level == "level1" and now.dp > 1:
            found.append(((*changes, ("parallel.optimizer_level", "level2")), now._replace(level="level2")))
        if not now.full:
            changes, now = (*changes, ("recompute.full", True)), now._replace(full=True)
            found.append((changes, now))
        size = now.batch
        while size > 1:
            size //= 2
            found.append(((*changes, ("batch.size", size)), now._replace(batch=size)))
        return found

    steps += grow((), s)
    devices = s.dp * s.mp * s.pp
    for mp, pp in (
        (s.mp * 2, s.pp),
        (s.mp, s.pp * 2),
        (s.mp * 2, s.pp * 2),
        (s.mp * 4, s.pp),
        (s.mp, s.pp * 4),
        (s.mp * 4, s.pp * 4),
    ):
        if (
            mp > 8
            or pp > shape.layers
            or devices % (mp * pp)
            or shape.heads % mp
            or shape.kv_heads % mp
            or shape.vocab % mp
        ):
            continue
        dp = devices // (mp * pp)
        more = tuple(
            (n, v)
            for n, v, old in (("parallel.mp", mp, s.mp), ("parallel.pp", pp, s.pp), ("parallel.dp", dp, s.dp))
            if v != old
        )
        micro = max(s.micro, pp) if pp > 1 else s.micro
        if micro != s.micro:
            more = (*more, ("parallel.micro_batches", micro))
        moved = s._replace(mp=mp, pp=pp, dp=dp, micro=micro, sequence=s.sequence or s.mp == 1)
        steps += grow(more, moved)
    for changes, settings in steps:
        if changes:
            total = estimate(shape, settings).total()
            if total <= limit:
                return Change(changes, total)
    return None


def into(plan: Plan) -> Estimate | None:
    """Estimate a plan and note the figures in it; None if its shape or settings are not complete."""
    shape = shape_of(plan)
    if shape is None:
        return None
    plan.derive("memory.parameters", count(shape).total / 1e9, "counted from the shape")
    settings = settings_of(plan)
    if settings is None or plan.get("model.lora"):
        return None
    made = estimate(shape, settings)
    if plan.get("run.training"):
        plan.values["memory.static_gib"] = Value(
            made.static() / GIB, "derived", whose="weights, gradients and optimizer states"
        )
        plan.values["memory.total_gib"] = Value(made.total() / GIB, "derived", whose="estimate")
    return made
