"""The course of a smoke run in the interpreter under test: stage after stage, measuring, judging nothing.

A verdict is made by the doctor from what is measured here (``doctor.smoke.verdicts``). With ``settings.inject`` one
thing is done wrong on purpose, at the place where a person would; ``doctor.smoke.faults`` names them.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from . import compat, curve, hf, twin
from .settings import Settings

OVERFLOW_STEPS = (5, 6)
RESUMED = 3
"""Steps that are run again after loading."""
ROUNDING = {"float32": 6e-8, "float16": 5e-4, "bfloat16": 4e-3}
"""Half the distance of two neighbouring numbers, relative."""
LOWERED = 256.0
"""How much smaller a loss scale is tried where the first one overflows."""
CURVE_SECONDS = 120.0
"""The training in numpy ends then, and what it has is compared."""


class Course:
    """One rank's run."""

    def __init__(self, job: Any, events: Any) -> None:
        began = time.perf_counter()
        import mindspore

        from . import layer

        self.ms, self.layer, self.events, self.job = mindspore, layer, events, job
        self.settings = Settings(**job["settings"])
        self.inject, self.work = self.settings.inject, job["work"]
        self.size = 1
        self.gather: Any = None
        self.reduce: Any = None
        events.measure("versions", mindspore=mindspore.__version__, numpy=np.__version__, python=sys.version.split()[0],
                       seconds=round(time.perf_counter() - began, 2))  # fmt: skip

    def has(self, part: Any) -> Any:
        """Whether a part of the course is asked for; what is the same on every rank is measured on the first one."""
        return part in self.job["parts"] and (part == "checkpoint" or not self.events.rank)

    def run(self) -> None:
        """All stages."""
        stages = [self.context]
        if self.settings.ranks > 1:
            stages.append(self.collective)
        stages += [self.build, self.compile, self.forward, self.backward, self.update, self.train]
        if self.has("checkpoint"):
            stages += [self.save, self.load]
        stages.append(self.evaluate)
        if self.has("decode"):
            stages.append(self.decode)
        if self.has("weights"):
            stages.append(self.weights)
        if self.settings.curve and not self.events.rank:
            stages.append(self.curve)
        if self.settings.profile:
            stages.append(self.profile)
        for stage in stages:
            self.events.enter(stage.__name__)
            stage()
        self.events.enter("end")
        self.events.measure("memory", **self.memory())

    # ------------------------------------------------------------------ context

    def context(self) -> None:
        """Device, mode, seed, and with several ranks the communication."""
        ms, settings = self.ms, self.settings
        device, why = choose_device(settings.device)
        self.set_mode(settings.mode != "graph")
        compat.set_device(ms, device)
        self.device = device
        if settings.ranks > 1:
            self.join()
        ms.set_seed(settings.seed)
        self.dtype, self.attention = settings.dtype, settings.attention
        if self.attention == "auto":
            self.attention = "both" if device == "Ascend" and self.dtype != "float32" else "plain"
        replaced = self.dtype == "bfloat16" and device == "CPU"
        if replaced:
            self.dtype = "float32"
        # the first operator: where numpy 2, a missing CANN or a broken device show themselves
        first = float((ms.Tensor(np.ones((2, 2), np.float32)) + 1).asnumpy().sum())
        self.events.measure("device", device=device, why=why, dtype=self.dtype, dtype_replaced=replaced, first=first,
                            attention=self.attention, mode=settings.mode, ranks=settings.ranks)  # fmt: skip

    def set_mode(self, pynative: Any) -> None:
        """The mode of the context; ``jit`` compiles functions in PyNative mode."""
        self.ms.set_context(mode=self.ms.PYNATIVE_MODE if pynative else self.ms.GRAPH_MODE)

    def compiled(self, function: Any) -> Any:
        """A function as the mode under test runs it."""
        return function if self.settings.mode == "pynative" else self.ms.jit(function)

    def tensor(self, values: Any) -> Any:
        return self.ms.Tensor(values)

    # ------------------------------------------------------------------ collectives

    def join(self) -> None:
        """Meet the other ranks; before anything runs on the device."""
        from mindspore import communication

        began = time.perf_counter()
        self.events.enter("collective")
        communication.init()
        self.size = communication.get_group_size()
        self.events.measure("communication", size=self.size, number=communication.get_rank(),
                            seconds=round(time.perf_counter() - began, 2))  # fmt: skip
        self.events.enter("context")

    def collective(self) -> None:
        """Each collective alone, its result compared with what it must be."""
        from mindspore import ops

        rank, size = self.events.rank, self.size
        mine = np.arange(2 * size, dtype=np.float32).reshape(2 * size, 1) + 100 * rank
        everyone: list[Any] = [
            np.arange(2 * size, dtype=np.float32).reshape(2 * size, 1) + 100 * n for n in range(size)
        ]
        total = np.sum(everyone, axis=0)
        # every rank sends piece k of its rows to rank k
        exchanged = np.concatenate([rows[2 * rank : 2 * rank + 2] for rows in everyone])
        table = (
            ("AllReduce", ops.AllReduce(), total),
            ("AllGather", ops.AllGather(), np.concatenate(everyone)),
            ("Broadcast", lambda x: ops.Broadcast(0)((x,))[0], everyone[0]),
            ("ReduceScatter", ops.ReduceScatter(), total[2 * rank : 2 * rank + 2]),
            ("AllToAll", ops.AlltoAll(size, 0, 0), exchanged),
        )
        for name, call, wanted in table:
            began = time.perf_counter()
            try:
                found = call(self.tensor(mine)).asnumpy()
                state, text = ("right" if np.array_equal(found, wanted) else "wrong"), ""
            except Exception as error:
                state, text = "failed", next((s for s in str(error).splitlines() if s.strip(" -")), "")[:300]
                text = f"{type(error).__name__}: {text}"
            self.events.measure("collective." + name, kind=name, state=state, text=text, device=self.device,
                                seconds=round(time.perf_counter() - began, 4))  # fmt: skip
        self.gather = ops.AllGather()
        self.reduce = ops.AllReduce()

    # ------------------------------------------------------------------ build

    def shape(self, **other: Any) -> Any:
        """The model of the settings."""
        s = self.settings
        attention = "flash" if self.attention == "flash" else "plain"
        weights = "float16" if self.inject == "fp16-params" else "float32"
        dtype = weights if self.inject == "fp16-params" else self.dtype
        # one more place than the sequence needs nothing; a longer table is for the cache
        shape = self.layer.Shape(s.vocab, s.hidden, s.layers, s.heads, s.seq, s.positions, s.gelu, attention, s.dropout,
                                 dtype, s.epsilon, s.recompute, weights, s.key_heads, s.size, s.inner, s.gated, s.norm,
                                 s.activation, not s.untied)  # fmt: skip
        return shape._replace(**other)

    def model_of(self, shape: Any, values: Any) -> Any:
        """A model with given weights."""
        model = self.layer.GPT(shape)
        if self.inject == "bad-mask":
            for block in model.h:
                block.attn.hide = self.tensor(np.tril(np.ones((shape.length, shape.length), np.bool_), -1))
        self.put(model, values)
        model.set_train(True)
        return model

    def named(self, model: Any) -> Any:
        """Parameters of a model by the names that the twin uses."""
        out = {"wte": compat.table_of(model.wte)}
        if hasattr(model, "head"):
            out["head"] = compat.table_of(model.head)
        if hasattr(model, "wpe"):
            out["wpe"] = compat.table_of(model.wpe)
        norms = [("ln_f", model.ln_f)]
        for n, block in enumerate(model.h):
            norms += [(f"h.{n}.ln_1", block.ln_1), (f"h.{n}.ln_2", block.ln_2)]
            dense = (("qkv", block.attn.qkv), ("proj", block.attn.proj), ("fc", block.fc), ("fc_out", block.fc_out))
            for name, cell in dense:
                out[f"h.{n}.{name}.weight"], out[f"h.{n}.{name}.bias"] = cell.weight, cell.bias
        for name, cell in norms:
            scale, shift = compat.layer_norm_names(cell)
            out[f"{name}.scale"] = getattr(cell, scale)
            if hasattr(cell, shift):
                out[f"{name}.shift"] = getattr(cell, shift)
        return out

    def put(self, model: Any, values: Any) -> None:
        """Set the weights of a model; every one must be given and fit."""
        own = self.named(model)
        if set(own) != set(values):
            raise ValueError(f"weights and model differ in {sorted(set(own) ^ set(values))[:4]}")
        for name, parameter in own.items():
            if tuple(parameter.shape) != tuple(values[name].shape):
                raise ValueError(f"{name} has shape {values[name].shape}, {tuple(parameter.shape)} is needed")
            parameter.set_data(self.ms.Tensor(values[name].astype(np.float32)).astype(parameter.dtype))

    def build(self) -> None:
        """Model, loss, optimizer, and the first batch."""
        s = self.settings
        self.plan = self.shape()
        self.start = twin.random_weights(self.plan, s.seed)
        self.assemble()
        self.data, self.drawn = self.stream(), 0
        self.taken_rows: list[Any] = []
        self.batch = self.draw()
        kinds = sorted({str(p.dtype).rsplit(".", maxsplit=1)[-1].lower() for p in self.parameters})
        self.events.measure("model", parameters=int(sum(p.size for p in self.parameters)), dtypes=kinds,
                            tensors=len(self.parameters), optimizer=type(self.optimizer).__name__,
                            tokens=s.batch * s.seq * self.size, amp=s.amp, scaled=self.scaler is not None)  # fmt: skip

    def assemble(self) -> None:
        """A model at its start weights with its loss, optimizer and functions.

        A function compiled by ``ms.jit`` keeps the weights that it saw first: what ``set_data`` or a loaded checkpoint
        changes afterwards it does not see (measured, 2.10.0). So whoever changes weights by hand assembles anew.
        """
        ms, s = self.ms, self.settings
        from mindspore import nn, ops

        self.model = self.model_of(self.plan, self.start)
        # amp may put wrappers around the layers, behind which the names are not found any more
        self.own = self.named(self.model)
        self.mixed = self.model
        if s.amp != "off":
            self.mixed = self.half(self.model)
            self.mixed.set_train(True)
        net = self.layer.LanguageLoss(self.mixed)
        if self.inject == "no-model-in-loss":
            net = LossAlone(nn, ops, self.model, s.vocab)
        elif self.inject == "dtype-mismatch":
            self.model.h[0].ln_2 = HalfOut(nn, ms, self.model.h[0].ln_2)
        elif self.inject == "argument-count":
            net = ExtraArgument(nn, net)
        net.set_train(True)
        self.net = net
        weights = list(net.trainable_params())
        if self.inject == "update-x1024":
            # a scaled loss whose gradients nobody divides by the scale again
            self.optimizer = nn.SGD(weights, learning_rate=s.rate)
        else:
            flat = ("bias", "beta", "gamma")
            groups = [
                {"params": [p for p in weights if not p.name.endswith(flat)], "weight_decay": s.decay},
                {"params": [p for p in weights if p.name.endswith(flat)], "weight_decay": 0.0},
            ]
            if s.optimizer == "sgd":
                self.optimizer = compat.sgd(nn, groups, s.rate)
            elif s.optimizer == "adam":
                self.optimizer = compat.adam(nn, groups, s.rate, s.adam_epsilon, s.beta1, s.beta2)
            else:
                self.optimizer = compat.adamw(ms, nn, ops, groups, s.rate, s.adam_epsilon, s.beta1, s.beta2)
        # the optimizer's own order, which is that of its groups
        self.parameters = list(self.optimizer.parameters)
        half = self.computing() == "float16" and self.inject != "fp16-params"
        wanted = s.loss_scale == "dynamic" or (s.loss_scale == "auto" and half) or self.inject == "overflow"
        self.scaler = ms.amp.DynamicLossScaler(2**15, 2, 10) if wanted else None
        self.scale = 2.0**15 if wanted else 1.0
        self.make_functions()

    def half(self, model: Any) -> Any:
        """The model under the amp level.

        O2 knows nn.LayerNorm and no other norm: in PyNative mode it would put even the float32 inside an RMSNorm into
        float16, whose gradient is then infinite (measured, 2.10.0).
        """
        amp, level = self.ms.amp, self.settings.amp
        if level == "O2" and self.settings.norm == "rms":
            return amp.custom_mixed_precision(model, black_list=[*amp.get_black_list(), self.layer.RMSNorm])
        return amp.auto_mixed_precision(model, level)

    def stream(self, windows: Any = 0) -> Any:
        """This rank's data."""
        s = self.settings
        rank = self.events.rank
        for ids, labels in twin.batches(s.vocab, s.batch, s.seq, s.seed, 1000 * windows + rank):
            yield ids, (ids.copy() if self.inject == "unshifted" else labels)

    def draw(self) -> Any:
        """The next batch; how many were drawn is counted for the twin."""
        self.drawn += 1
        return next(self.data)

    def make_functions(self) -> Any:
        """Forward, gradients and update, each a compiled function of its own, so that a failure has its stage."""
        ms, s, net, scaler = self.ms, self.settings, self.net, self.scaler
        from mindspore import ops

        clip = compat.clip_by_global_norm(ms, ops)
        limit, pieces, size = s.clip, s.accumulation, self.size
        rows = s.batch // pieces
        raw, optimizer, reduce = self.inject == "update-x1024", self.optimizer, self.reduce

        def objective(ids: Any, labels: Any, factor: Any) -> Any:
            found = net(ids, labels) * factor
            return scaler.scale(found) if scaler is not None else found

        self.objective = objective
        plain_gradient = ms.value_and_grad(objective, None, self.parameters)

        def gradient(ids: Any, labels: Any, factor: Any) -> Any:
            if pieces == 1:
                return plain_gradient(ids, labels, factor)
            total, sums = plain_gradient(ids[:rows], labels[:rows], factor)
            for n in range(1, pieces):
                more, parts = plain_gradient(ids[n * rows : (n + 1) * rows], labels[n * rows : (n + 1) * rows], factor)
                total, sums = total + more, add(ops, sums, parts)
            return total / pieces, divide(ops, sums, pieces)

        def update(*gradients: Any) -> Any:
            if reduce is not None:
                gradients = divide(ops, share(ops, reduce, gradients), size)
            if scaler is None:
                optimizer(gradients if raw else (clip(gradients, limit) if limit else gradients))
                return ops.ones((), ms.bool_)
            finite = ms.amp.all_finite(gradients)
            if finite:
                whole = scaler.unscale(gradients)
                optimizer(clip(whole, limit) if limit else whole)
            scaler.adjust(finite)
            return finite

        self.raw_gradient = gradient
        self.gradient, self.apply = self.compiled(gradient), self.compiled(update)
        self.logits = self.compiled(of_one(self.mixed))

    # ------------------------------------------------------------------ forward and backward

    def factor(self, step: Any) -> Any:
        """What the loss is multiplied with: 1, but for the faults."""
        if self.inject == "overflow" and step in OVERFLOW_STEPS:
            return np.float32(np.inf)
        return np.float32(1024.0 if self.inject == "update-x1024" else 1.0)

    def compile(self) -> None:
        """The first call of the forward pass."""
        began = time.perf_counter()
        ids, labels = self.batch
        if self.inject in ("no-model-in-loss", "argument-count", "dtype-mismatch"):
            self.compiled(of_two(self.net))(self.tensor(ids), self.tensor(labels)).asnumpy()
        else:
            self.logits(self.tensor(ids)).asnumpy()
        self.events.measure("compile", seconds=round(time.perf_counter() - began, 2))

    def forward(self) -> None:
        """Logits against the twin, with weights whose biases and scales are not the trivial ones."""
        if not self.has("parity"):
            return
        ids, _ = self.batch
        tried = twin.random_weights(self.plan, self.settings.seed + 1, std=0.05, offset=0.05)
        found, took = self.logits_of(self.plan, tried, ids)
        wanted, _ = twin.logits(ids, exact(tried), self.plan)
        self.events.measure("parity", distance=twin.distance(found, wanted), dtype=self.computing(),
                            size=float(np.abs(wanted).max()), seconds=round(took, 4))  # fmt: skip
        if self.attention in ("both", "flash"):
            other = "flash" if self.attention == "both" else "plain"
            again, _ = self.logits_of(self.plan._replace(attention=other), tried, ids)
            self.events.measure("flash", distance=twin.distance(again, found), dtype=self.computing())

    def logits_of(self, shape: Any, values: Any, ids: Any) -> Any:
        """(logits float32, seconds) of a model of its own with given weights, amp as set."""
        began = time.perf_counter()
        model = self.model_of(shape, values)
        if self.settings.amp != "off":
            model = self.half(model)
        model.set_train(False)
        found = self.compiled(of_one(model))(self.tensor(ids)).astype(self.ms.float32).asnumpy()
        return found, time.perf_counter() - began

    def computing(self) -> Any:
        """The dtype that the dense layers compute in."""
        return "float16" if self.settings.amp != "off" or self.inject == "fp16-params" else self.dtype

    def backward(self) -> None:
        """Loss and gradients against the twin, the other mode, and recomputation."""
        ids, labels = map(self.tensor, self.batch)
        one = self.tensor(self.factor(0))
        began = time.perf_counter()
        loss, gradients = self.gradient(ids, labels, one)
        value = float(loss.asnumpy())
        self.events.measure("gradient_compile", seconds=round(time.perf_counter() - began, 2))
        if not self.has("parity") or self.inject in ("no-model-in-loss", "update-x1024"):
            return
        scale = float(self.scaler.scale_value.asnumpy()) if self.scaler is not None else 1.0
        found = [g.astype(self.ms.float32).asnumpy().astype(np.float64) / scale for g in gradients]
        if self.inject != "unshifted" and self.settings.dropout == 0:
            self.slopes(value / scale, found)
        if self.settings.dropout == 0:
            self.other_mode(ids, labels, one, value, found, scale)
            self.recomputed(ids, labels, value, found, scale)

    def slopes(self, value: Any, found: Any) -> None:
        """The gradient of every kind of weight, by the slope of the twin's loss along it."""
        ids, labels = self.batch
        weights = exact(self.start)
        names = {id(p): name for name, p in self.own.items()}
        by_name = {names[id(p)]: g for p, g in zip(self.parameters, found)}
        kinds: dict[str, list[str]] = {}
        for name in by_name:
            kinds.setdefault(name.split(".", 2)[-1] if name.startswith("h.") else name, []).append(name)
        if len(weights) and sum(v.size for v in weights.values()) * ids.size > 3e9:
            kinds = {"all": list(by_name)}
        worst, at = 0.0, ""
        for kind, members in kinds.items():
            norm = math.sqrt(sum(float((by_name[m] ** 2).sum()) for m in members))
            if norm == 0.0 or not math.isfinite(norm):
                worst, at = math.inf, kind
                break
            direction = {n: (by_name[n] / norm if n in members else 0.0) for n in weights}
            slope = twin.slope(ids, labels, weights, self.plan, direction)
            error = abs(slope - norm) / max(abs(slope), 1e-4)
            if error > worst:
                worst, at = error, kind
        self.events.measure("gradient", error=worst, kind=at, dtype=self.computing(), loss=value,
                            loss_twin=twin.loss(ids, labels, weights, self.plan))  # fmt: skip

    def other_mode(self, ids: Any, labels: Any, one: Any, value: Any, found: Any, scale: Any) -> None:
        """The same gradients without compilation, or in PyNative mode with it."""
        graph = self.settings.mode == "graph"
        if graph:
            self.set_mode(True)
        function = self.ms.jit(self.raw_gradient) if self.settings.mode == "pynative" else self.raw_gradient
        began = time.perf_counter()
        loss, gradients = function(ids, labels, one)
        other = [g.astype(self.ms.float32).asnumpy().astype(np.float64) / scale for g in gradients]
        if self.scaler is not None and not all(np.isfinite(g).all() for g in other):
            # the first loss scale is too large for the other mode, which training would find out: a smaller one
            _, gradients = function(ids, labels, self.tensor(np.float32(1.0 / LOWERED)))
            other = [g.astype(self.ms.float32).asnumpy().astype(np.float64) * LOWERED / scale for g in gradients]
        self.events.measure("modes", loss=abs(float(loss.asnumpy()) - value) / scale, gradient=apart(other, found),
                            seconds=round(time.perf_counter() - began, 2), dtype=self.computing())  # fmt: skip
        if graph:
            self.set_mode(False)

    def recomputed(self, ids: Any, labels: Any, value: Any, found: Any, scale: Any) -> None:
        """The same gradients with recomputation turned over."""
        if self.settings.amp != "off" or self.inject:
            return
        function = self.honest(self.plan._replace(recompute=not self.plan.recompute))
        loss, gradients = self.compiled(function)(ids, labels)
        other = [g.astype(self.ms.float32).asnumpy().astype(np.float64) for g in gradients]
        self.events.measure("recompute", loss=abs(float(loss.asnumpy()) - value / scale), gradient=apart(other, found),
                            dtype=self.computing())  # fmt: skip

    # ------------------------------------------------------------------ training

    def step(self, number: Any, ids: Any, labels: Any) -> Any:
        """One training step, measured; returns the loss."""
        began = time.perf_counter()
        loss, gradients = self.gradient(self.tensor(ids), self.tensor(labels), self.tensor(self.factor(number)))
        finite = self.apply(*gradients)
        value = float(loss.asnumpy()) / self.scale
        if self.inject == "update-x1024":
            value /= 1024.0
        values = {"n": number, "loss": value, "seconds": round(time.perf_counter() - began, 4), "length": ids.shape[1]}
        if self.scaler is not None:
            self.scale = float(self.scaler.scale_value.asnumpy())
            values.update(scale=self.scale, finite=bool(finite.asnumpy()))
        return values

    def update(self) -> None:
        """The first step: which weights move, and how far."""
        own = self.own
        before = {name: p.astype(self.ms.float32).asnumpy().copy() for name, p in own.items()}
        values = self.step(1, *self.batch)
        while values.get("finite") is False and self.inject != "overflow" and values["n"] < 6:
            # the loss scale is still being found
            self.told(values)
            values = self.step(values["n"] + 1, *self.batch)
        after = {name: p.astype(self.ms.float32).asnumpy() for name, p in own.items()}
        moved = {name: np.abs(after[name] - before[name]).max() for name in own}
        still = sorted(name for name, far in moved.items() if not far > 0)
        rate = self.settings.rate
        largest = max(float(np.abs(v).max()) for v in before.values())
        if type(self.optimizer).__name__ == "SGD":
            _, gradients = self.compiled(self.honest(self.plan))(*map(self.tensor, self.batch))
            bound = rate * (max(float(np.abs(g.asnumpy()).max()) for g in gradients) + self.settings.decay * largest)
        elif self.settings.optimizer == "adam":
            # with bias correction the first step is rate for every weight, whatever its gradient
            bound = rate
        else:
            # Adam without bias correction: the first step is at most rate × (1 - β1) / sqrt(1 - β2), plus decay
            ratio = (1.0 - self.settings.beta1) / math.sqrt(1.0 - self.settings.beta2)
            bound = rate * (ratio + self.settings.decay * largest)
        self.events.measure("changed", still=still[:8], still_count=len(still), tensors=len(own),
                            moved=float(max(moved.values())), bound=bound,
                            optimizer=type(self.optimizer).__name__)  # fmt: skip
        self.told(values)
        self.taken = values["n"]

    def told(self, values: Any) -> None:
        """Say a step, and keep which batch it took for the twin."""
        self.events.say("step", **values, **self.memory())
        self.taken_rows.append((values, self.drawn - 1))

    def honest(self, shape: Any) -> Any:
        """A function (ids, labels) → (loss, gradients in the order of the parameters) of a new model at its start."""
        net = self.layer.LanguageLoss(self.model_of(shape, self.start))
        net.set_train(True)
        own = {p.name: p for p in net.trainable_params()}
        return of_two(self.ms.value_and_grad(net, None, [own[p.name] for p in self.parameters]))

    def train(self) -> None:
        """The other steps; towards the end a checkpoint is due."""
        steps = self.settings.training_steps
        for number in range(self.taken + 1, steps + 1):
            ids, labels = self.draw()
            if self.inject == "recompilation":
                length = max(4, self.settings.seq - (number - 2) % 6)
                ids, labels = ids[:, :length].copy(), labels[:, :length].copy()
            if self.has("checkpoint") and number == steps - RESUMED + 1:
                break
            self.told(self.step(number, ids, labels))
        # said now for a run that fails later, and again at the end
        self.events.measure("memory", **self.memory())
        if self.has("checkpoint"):
            # said before each of these steps is taken: its batch is counted then
            self.tail = [(steps - RESUMED + 1, ids, labels)]
            self.drawn -= 1
            for number in range(steps - RESUMED + 2, steps + 1):
                self.tail.append((number, *next(self.data)))

    def state(self) -> Any:
        """Everything that a checkpoint holds, by name."""
        return {p.name: p for p in (*self.parameters, *self.optimizer.get_parameters())}

    def save(self) -> None:
        """A checkpoint of weights and optimizer, then the last steps."""
        ms = self.ms
        from mindspore import train

        self.path = os.path.join(self.work, f"smoke_{self.events.rank}.ckpt")
        words = {}
        if self.inject == "short-enc-key":
            config = train.CheckpointConfig(enc_key=b"fifteen bytes !", enc_mode="AES-GCM")
            words = {"enc_key": config.enc_key, "enc_mode": config.enc_mode}
        began = time.perf_counter()
        ms.save_checkpoint([{"name": n, "data": p} for n, p in self.state().items()], self.path, **words)
        self.kept = {name: p.astype(ms.float32).asnumpy().copy() for name, p in self.state().items()}
        self.kept_scale = self.scale
        self.events.measure("saved", bytes=os.path.getsize(self.path), seconds=round(time.perf_counter() - began, 3))
        self.losses = []
        for row in self.tail:
            values = self.step(*row)
            self.losses.append(values["loss"])
            self.drawn += 1
            self.told(values)

    def load(self) -> None:
        """A new model and optimizer take up the checkpoint and run the last steps again."""
        ms = self.ms
        if self.inject == "checkpoint-corrupt":
            os.truncate(self.path, os.path.getsize(self.path) // 2)
        if self.inject == "checkpoint-shape":
            ms.save_checkpoint(self.layer.LanguageLoss(self.layer.GPT(self.plan._replace(hidden=2 * self.plan.hidden))),
                               self.path)  # fmt: skip
        trained = self.logits
        self.assemble()
        began = time.perf_counter()
        loaded = ms.load_checkpoint(self.path)
        missing = list(ms.load_param_into_net(self.net, loaded)[0])
        missing += [name for name in ms.load_param_into_net(self.optimizer, loaded)[0] if name not in loaded]
        far = max(float(np.abs(p.astype(ms.float32).asnumpy() - self.kept[n]).max()) for n, p in self.state().items())
        if self.scaler is not None:
            self.scaler.scale_value.set_data(ms.Tensor(self.kept_scale, ms.float32))
            self.scale = self.kept_scale
        took = time.perf_counter() - began
        again = [self.step(*row)["loss"] for row in self.tail]
        self.events.measure("resumed", distance=max(abs(a - b) for a, b in zip(again, self.losses)),
                            weights=far, missing=missing[:8], losses=again, seconds=round(took, 3),
                            dtype=self.computing())  # fmt: skip
        self.events.measure("seen_later", seen=self.seen_later(), mode=self.settings.mode)
        self.logits = trained if self.settings.mode != "pynative" else self.logits

    def seen_later(self) -> Any:
        """Whether a compiled function sees weights that are set after its first call."""
        from mindspore import nn

        ms = self.ms
        cell = compat.dense(nn, 1, 1)
        call, one = self.compiled(of_one(cell)), self.tensor(np.ones((1, 1), np.float32))
        before = float(call(one).asnumpy().sum())
        cell.weight.set_data(ms.Tensor(cell.weight.asnumpy() + 4))
        return abs(float(call(one).asnumpy().sum()) - before - 4) < 0.5

    # ------------------------------------------------------------------ after training

    def evaluate(self) -> None:
        """Loss of the next token on freshly drawn data, and whether the ranks hold the same weights."""
        ms = self.ms
        self.model.set_train(False)
        total = []
        fresh = twin.batches(self.settings.vocab, self.settings.batch, self.settings.seq, self.settings.seed,
                             777000 + self.events.rank)  # fmt: skip
        for _ in range(2):
            ids, labels = next(fresh)
            found = self.logits(self.tensor(ids)).astype(ms.float32).asnumpy().astype(np.float64)
            found -= found.max(-1, keepdims=True)
            chosen = np.take_along_axis(found, labels[..., None].astype(np.int64), -1)[..., 0]
            total.append(float((np.log(np.exp(found).sum(-1)) - chosen).mean()))
        self.events.measure("fresh", loss=float(np.mean(total)), limit=math.log(self.settings.vocab))
        if self.gather is not None:
            sums = [float(np.abs(p.astype(ms.float32).asnumpy().astype(np.float64)).sum()) for p in self.parameters]
            everyone = self.gather(self.tensor(np.array([sums], np.float32))).asnumpy()
            spread = float(np.abs(everyone - everyone[:1]).max())
            self.events.measure("ranks", spread=spread, size=self.size, tensors=len(sums))

    def decode(self) -> None:
        """A static cache, token by token, against the whole sequence at once."""
        s, ms = self.settings, self.ms
        shape = self.plan._replace(recompute=False, dropout=0.0)
        tried = twin.random_weights(shape, s.seed + 2, std=0.1, offset=0.05)
        model = self.model_of(shape, tried)
        model.set_train(False)
        if self.inject == "padded-keys":
            for block in model.h:
                block.attn.cache_mask = False
        tokens = min(8, s.seq)
        ids = np.random.default_rng(s.seed).integers(0, s.vocab, (1, tokens)).astype(np.int32)
        wanted, wasted = twin.logits(ids, exact(tried), shape, s.seq - tokens)
        function = self.compiled(model.decode)
        size = (s.layers, 1, s.key_heads, s.seq, s.size)
        kind = self.layer.dtype_of(shape.dtype)
        keys = values = ms.Tensor(np.zeros(size, np.float32)).astype(kind)
        worst, times = 0.0, []
        for n in range(tokens):
            began = time.perf_counter()
            place = ms.Tensor(np.array([n], np.int32))
            found, keys, values = function(self.tensor(ids[:, n : n + 1].copy()), place, keys, values)
            worst = max(worst, twin.distance(found.astype(ms.float32).asnumpy()[:, 0], wanted[:, n]))
            times.append(round(time.perf_counter() - began, 4))
        self.events.measure("cache", distance=worst, wasted=wasted, tokens=tokens, slots=s.seq, dtype=self.computing(),
                            first_seconds=times[0], seconds=max(times[1:], default=0.0))  # fmt: skip

    def weights(self) -> None:
        """GPT-2 weights in the layout of Hugging Face: the user's, or random ones."""
        s = self.settings
        path = s.weights
        if path:
            state = hf.plain_names(hf.read_safetensors(path))
            vocab, hidden, layers, positions = hf.shape_of(state)
            layers = min(layers, s.layers)
            heads = hidden // 64 if hidden % 64 == 0 else s.heads
        else:
            if not s.like_gpt2:
                return
            vocab, hidden, layers, positions, heads = s.vocab, s.hidden, s.layers, s.seq, s.heads
            state = hf.random_state(vocab, hidden, layers, positions, s.seed)
        values, left = hf.mapped(state, layers)
        if self.inject == "weights-untransposed":
            values["h.0.proj.weight"] = state["h.0.attn.c_proj.weight"]
        length = min(positions, s.seq)
        ids = np.random.default_rng(s.seed).integers(0, vocab, (1, length)).astype(np.int32)
        shape = self.plan._replace(vocab=vocab, hidden=hidden, layers=layers, heads=heads, length=positions,
                                   positions="learned", gelu="tanh", kv_heads=heads, size=hidden // heads,
                                   inner=4 * hidden, gated=False, norm="layer", activation="gelu", tied=True,
                                   epsilon=1e-5)  # fmt: skip
        found, _ = self.logits_of(shape, values, ids)
        wanted = hf.logits(ids, state, layers, heads)
        self.events.measure("mapping", distance=twin.distance(found, wanted),
                            left=left[:8], left_count=len(left), file=os.path.basename(path), layers=layers,
                            dtype=self.computing())  # fmt: skip

    def curve(self) -> None:
        """The same training in numpy: what the losses must be. Skipped updates are skipped there too.

        Training magnifies rounding: with the default settings a relative change of the start weights of 1e-6 moves the
        loss by 0.08 after 33 steps. So it is done twice, the second time from weights that are off by the rounding of
        the dtype, and how far the two are apart is told with it.
        """
        s = self.settings
        began = time.perf_counter()
        ranks = [twin.batches(s.vocab, s.batch, s.seq, s.seed, rank) for rank in range(self.size)]
        drawn: list[Any] = []
        trained = curve.Training(self.start, self.plan, s)
        rng, eps = np.random.default_rng(s.seed + 3), ROUNDING[self.computing()]
        moved = {name: v * (1.0 + eps * rng.standard_normal(v.shape)) for name, v in exact(self.start).items()}
        beside = curve.Training(moved, self.plan, s)
        rows = []
        for values, index in self.taken_rows:
            while len(drawn) <= index:
                drawn.append([next(rank) for rank in ranks])
            size, finite = values["length"], values.get("finite", True)
            batches = [(ids[:, :size], labels[:, :size]) for ids, labels in drawn[index]]
            wanted = trained.step(batches, finite)
            spread = abs(beside.step(batches, finite) - wanted)
            if finite:
                rows.append((values["n"], values["loss"], wanted, spread))
            if time.perf_counter() - began > CURVE_SECONDS:
                break
        fresh = twin.batches(s.vocab, s.batch, s.seq, s.seed, 777000)
        pairs = [next(fresh) for _ in range(2)]
        loss = float(np.mean([twin.loss(ids, labels, trained.weights, self.plan) for ids, labels in pairs]))
        steps, losses, wanted, spread = ([row[n] for row in rows] for n in range(4))
        took = round(time.perf_counter() - began, 2)
        self.events.measure("curve", steps=steps, losses=losses, twin=wanted, spread=spread, fresh=loss, seconds=took,
                            whole=took <= CURVE_SECONDS, dtype=self.computing(), dropout=s.dropout)  # fmt: skip

    def profile(self) -> None:
        """A few steps under MindSpore's profiler, its result in the work folder."""
        folder = os.path.join(self.work, "profile")
        profiler = self.ms.Profiler(output_path=folder, start_profile=True)
        ids, labels = self.batch
        for number in range(3):
            self.step(10_000 + number, ids, labels)
        profiler.analyse()
        files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
        self.events.measure("profile", files=len(files), bytes=sum(os.path.getsize(f) for f in files))

    def memory(self) -> Any:
        """Peak memory in MiB, of the process and where known of the device."""
        out = {"host_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}
        if self.device == "Ascend":
            try:
                out["device_mib"] = round(self.ms.runtime.max_memory_allocated() / (1 << 20), 1)
            except (AttributeError, RuntimeError):
                pass
        return out


def exact(weights: Any) -> Any:
    """Weights in float64."""
    return {name: value.astype(np.float64) for name, value in weights.items()}


# graph mode reads the source of what it compiles, and a lambda inside a call is more than it can read


def of_one(function: Any) -> Any:
    """A function of one argument that graph mode can compile."""

    def call(x: Any) -> Any:
        return function(x)

    return call


def of_two(function: Any) -> Any:
    """A function of two arguments that graph mode can compile."""

    def call(x: Any, y: Any) -> Any:
        return function(x, y)

    return call


def LossAlone(nn: Any, ops: Any, model: Any, vocab: Any) -> Any:
    """A loss over logits of its own: the model is registered, and takes no part in it."""

    class Cell(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.model, self.entropy = model, nn.CrossEntropyLoss()

        def construct(self, ids: Any, labels: Any) -> Any:
            logits = ops.zeros((ids.shape[0] * ids.shape[1], vocab))
            return self.entropy(logits, labels.reshape(-1))

    return Cell()


def HalfOut(nn: Any, ms: Any, inner: Any) -> Any:
    """A LayerNorm whose result is cast to float16 while the next layer is float32."""

    class Cell(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def construct(self, x: Any) -> Any:
            return self.inner(x).astype(ms.float16)

    return Cell()


def ExtraArgument(nn: Any, net: Any) -> Any:
    """A loss that hands a mask to a cell that takes two inputs."""

    class Cell(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def construct(self, ids: Any, labels: Any) -> Any:
            return self.net(ids, labels, labels)

    return Cell()


def add(ops: Any, left: Any, right: Any) -> Any:
    return ops.HyperMap()(ops.add, left, right)


def divide(ops: Any, gradients: Any, number: Any) -> Any:
    out = ()
    for gradient in gradients:
        out = (*out, gradient / number)
    return out


def share(ops: Any, reduce: Any, gradients: Any) -> Any:
    out = ()
    for gradient in gradients:
        out = (*out, reduce(gradient))
    return out


def apart(left: Any, right: Any) -> Any:
    """Greatest difference of two lists of gradients, relative to the greatest gradient."""
    size = max(float(np.abs(b).max()) for b in right) or 1.0
    return max(float(np.abs(a - b).max()) for a, b in zip(left, right)) / size


def choose_device(wanted: Any) -> Any:
    """("CPU" or "Ascend", why): ``auto`` takes Ascend when a device is there and MindSpore can use it."""
    if wanted != "auto":
        return ("Ascend" if wanted == "ascend" else "CPU"), "asked"
    if not any(os.path.exists(f"/dev/davinci{n}") for n in range(64)):
        return "CPU", "no_device_file"
    # tried in a process of its own: after a failed attempt this one could not use the CPU any more
    code = (
        "import mindspore as ms, numpy as np\n"
        "ms.set_device('Ascend') if hasattr(ms, 'set_device') else ms.set_context(device_target='Ascend')\n"
        "print('USABLE', float((ms.Tensor(np.ones(2, np.float32)) + 1).asnumpy().sum()))\n"
    )
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return "CPU", "ascend_failed"
    if "USABLE 4.0" in done.stdout:
        return "Ascend", "found"
    sys.stderr.write(done.stderr[-8000:])
    return "CPU", "ascend_failed"
