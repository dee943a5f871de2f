"""Faults that a smoke run can be given on purpose, and what must be named.

Each gives a real failure of a real MindSpore. The doctor is told nothing of the fault; what it finds is compared with
``named`` by ``caught``. They are also the end-to-end test of the rules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from doctor.model import Text
from doctor.smoke.settings import Settings


class Fault(NamedTuple):
    """``named``: rules of which one must head the report; ``settings``: what the fault needs to show itself."""

    name: str
    named: tuple[str, ...]
    about: Text
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


FAULTS: tuple[Fault, ...] = (
    Fault("fp16-params", ("NUM602",),
          {"zh": "参数为 float16，配 AdamWeightDecay：loss 变成 NaN",
           "en": "float16 parameters with AdamWeightDecay: the loss becomes NaN"}),
    Fault("no-model-in-loss", ("CODE601",),
          {"zh": "loss 里没有模型：不报错，权重不变", "en": "a loss without the model: no error, the weights stay"}),
    Fault("unshifted", ("NUM606",),
          {"zh": "标签没有错位：训练 loss 归零，但什么也没学到",
           "en": "labels not shifted: the training loss goes to 0 and nothing is learnt"}),
    Fault("overflow", ("NUM604",),
          {"zh": "两步梯度溢出：loss scale 减半两次，更新被跳过",
           "en": "gradients overflow at two steps: the loss scale halves twice, the updates are skipped"}),
    Fault("update-x1024", ("NUM603",),
          {"zh": "loss 放大 1024 倍而梯度未还原：权重移动 1024 倍",
           "en": "the loss is scaled by 1024 and never unscaled: weights move 1024 times as far"}),
    Fault("dtype-mismatch", ("OPS070",),
          {"zh": "float16 输入进入 float32 的 Dense", "en": "float16 goes into a float32 Dense"}),
    Fault("argument-count", ("CODE007",),
          {"zh": "给只有两个输入的 Cell 传了三个参数", "en": "three arguments for a cell that takes two"}),
    Fault("checkpoint-shape", ("CKPT001",),
          {"zh": "加载另一种 hidden 大小的 checkpoint", "en": "a checkpoint of another hidden size is loaded"}),
    Fault("checkpoint-corrupt", ("CKPT006",),
          {"zh": "checkpoint 文件被截断", "en": "the checkpoint file is cut off"}),
    Fault("short-enc-key", ("CKPT440",),
          {"zh": "15 字节的 enc_key：配置时接受，保存时失败",
           "en": "an enc_key of 15 bytes: accepted by the configuration, fails at the first save"}),
    Fault("worker-missing", ("RUN103", "RUN176"),
          {"zh": "启动的进程少于 worker_num：集群组不起来", "en": "fewer processes than worker_num: no cluster"},
          {"ranks": 2}),
    Fault("recompilation", ("PERF601",),
          {"zh": "序列长度逐步变化：反复编译", "en": "the sequence length keeps changing: compiled again and again"}),
    Fault("padded-keys", ("NUM612",),
          {"zh": "KV cache 的空槽没有掩码：大部分注意力落在填充上",
           "en": "empty slots of the KV cache are not masked: most attention goes to padding"}),
    # beyond the thirteen
    Fault("bad-mask", ("NUM607",),
          {"zh": "因果掩码取反", "en": "the causal mask is turned over"}),
    Fault("weights-untransposed", ("CKPT602",),
          {"zh": "GPT-2 的方阵 c_proj 没有转置：不报错",
           "en": "the square c_proj of GPT-2 is not transposed: no error"}),
)  # fmt: skip

NAMES = tuple(fault.name for fault in FAULTS)


def fault_of(name: str) -> Fault:
    """The fault of a name. Raises KeyError."""
    return {fault.name: fault for fault in FAULTS}[name]


def armed(settings: Settings) -> Settings:
    """The settings with what their fault needs."""
    return settings._replace(**fault_of(settings.inject).settings) if settings.inject else settings


def caught(settings: Settings, heads: list[str]) -> bool | None:
    """Whether the first of the rules that head a report is the one that the fault asks for; None without a fault."""
    if not settings.inject:
        return None
    return bool(heads) and heads[0] in fault_of(settings.inject).named
