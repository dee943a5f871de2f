"""Launch scripts in the manner of Megatron-LM and MindSpeed, and scripts that start MindFormers with a YAML file.

The shell is not run: assignments, arrays, ``${NAME:-default}`` and whole-number arithmetic are followed, everything
else (command substitution, variables of the caller) makes the values that depend on it not known. Defaults are those
of ``megatron/training/arguments.py``.
"""

from __future__ import annotations

import os
import re
import warnings
from typing import NamedTuple

from doctor.plan import fill, limits
from doctor.plan.schema import FIELDS, INT, Plan, Value
from doctor.scan.lazy import lazy

MAX_WORDS = 20_000
MAX_EXPANSION = 64
MAX_NAMES = 200
"""Variables of a script that are compared with each other."""

OPTIONS = {
    "num-layers": "model.num_layers", "hidden-size": "model.hidden_size", "num-attention-heads": "model.num_heads",
    "ffn-hidden-size": "model.ffn_size", "kv-channels": "model.head_dim", "num-query-groups": "model.kv_heads",
    "seq-length": "model.seq_length", "max-position-embeddings": "model.max_positions",
    "vocab-size": "model.vocab_size", "padded-vocab-size": "model.vocab_size",
    "norm-epsilon": "model.norm_eps", "layernorm-epsilon": "model.norm_eps",
    "hidden-dropout": "model.hidden_dropout", "attention-dropout": "model.attention_dropout",
    "num-experts": "model.experts", "moe-router-topk": "model.experts_per_token",
    "moe-ffn-hidden-size": "model.expert_ffn", "q-lora-rank": "model.q_lora_rank",
    "kv-lora-rank": "model.kv_lora_rank",
    "qk-rope-head-dim": "model.rope_head_dim", "qk-nope-head-dim": "model.nope_head_dim",
    "v-head-dim": "model.v_head_dim", "n-shared-experts": "model.shared_experts",
    "first-k-dense-replace": "model.dense_layers", "mtp-num-layers": "model.mtp_layers",
    "moe-intermediate-size": "model.expert_ffn",
    "n-group": "model.expert_groups", "moe-router-num-groups": "model.expert_groups",
    "topk-group": "model.expert_group_topk", "moe-router-group-topk": "model.expert_group_topk",
    "nnodes": "run.nodes", "node-rank": "run.node_rank",
    "tensor-model-parallel-size": "parallel.mp", "pipeline-model-parallel-size": "parallel.pp",
    "context-parallel-size": "parallel.cp", "expert-model-parallel-size": "parallel.ep",
    "micro-batch-size": "batch.size", "global-batch-size": "batch.written_global",
    "lr": "schedule.lr", "min-lr": "schedule.lr_end", "lr-decay-style": "schedule.type",
    "lr-warmup-iters": "schedule.warmup_steps", "lr-warmup-fraction": "schedule.warmup_ratio",
    "train-iters": "schedule.total_steps", "weight-decay": "optimizer.weight_decay", "clip-grad": "optimizer.clip_norm",
    "adam-beta1": "optimizer.beta1", "adam-beta2": "optimizer.beta2", "adam-eps": "optimizer.eps",
    "optimizer": "optimizer.type", "seed": "run.seed", "num-workers": "data.workers",
    "initial-loss-scale": "precision.loss_scale", "loss-scale-window": "precision.loss_scale_window",
    "save-interval": "checkpoint.interval", "master-port": "run.port",
    "load": "checkpoint.load", "recompute-num-layers": "recompute.layers",
}  # fmt: skip
FLAGS: dict[str, tuple[str, bool]] = {
    "use-flash-attn": ("model.flash_attention", True), "swiglu": ("model.gated", True),
    "disable-bias-linear": ("model.linear_bias", False), "add-qkv-bias": ("model.qkv_bias", True),
    "untie-embeddings-and-output-weights": ("model.tied", False), "qk-layernorm": ("model.qk_norm", True),
    "sequence-parallel": ("parallel.sequence", True), "use-distributed-optimizer": ("parallel.optimizer", True),
    "multi-latent-attention": ("model.mla", True), "multi-head-latent-attention": ("model.mla", True),
}  # fmt: skip


OTHERS = fill.words("""
accumulate-allreduce-grads-in-fp32 attention-softmax-in-fp32 bias-gelu-fusion bias-swiglu-fusion ckpt-format
context-parallel-algo cp-comm-type data-cache-path data-path dataloader-type decoder-first-pipeline-num-layers
decoder-last-pipeline-num-layers deterministic-mode disable-bias-linear distributed-backend
distributed-timeout-minutes encoder-num-layers decoder-num-layers end-weight-decay eod-mask-loss eval-interval
eval-iters exit-duration-in-mins exit-interval expert-tensor-parallel-size finetune fp16-lm-cross-entropy
gradient-accumulation-fusion group-query-attention hysteresis init-method-std load-path lr-decay-iters
lr-decay-samples lr-warmup-init lr-warmup-samples log-interval log-throughput loss-scale
make-vocab-size-divisible-by manual-gc master-addr master-port merge-file min-loss-scale moe-aux-loss-coeff
moe-expert-capacity-factor moe-grouped-gemm moe-layer-freq moe-permute-fusion moe-router-dtype
moe-router-enable-expert-bias moe-router-load-balancing-type moe-router-score-function moe-token-dispatcher-type
moe-z-loss-coeff nccl-communicator-config-path no-bias-dropout-fusion no-bias-swiglu-fusion
no-gradient-accumulation-fusion no-load-optim no-load-rng no-masked-softmax-fusion no-rope-fusion no-save-optim
no-save-rng nnodes node-rank normalization nproc-per-node num-layers-per-virtual-pipeline-stage
num-virtual-stages-per-pipeline-rank overlap-grad-reduce overlap-param-gather override-opt-param-scheduler
pipeline-model-parallel-layout position-embedding-type profile recompute-activations recompute-granularity
recompute-method reset-attention-mask reset-position-ids rotary-base rotary-percent rotary-seq-len-interpolation-factor
save save-interval sliding-window split squared-relu start-weight-decay standalone-embedding-stage
test-data-path timing-log-level tokenizer-model tokenizer-name-or-path tokenizer-type train-data-path train-samples
transformer-impl use-checkpoint-args use-checkpoint-opt_param-scheduler use-cp-send-recv-overlap use-fused-rmsnorm
use-fused-rotary-pos-emb use-fused-swiglu use-mcore-models use-legacy-models use-rotary-position-embeddings
valid-data-path vocab-file weight-decay-incr-style worker-num local-worker-num bf16 fp16
""")
"""Options that are read for nothing but their spelling (arguments.py of Megatron-LM and MindSpeed, torchrun, msrun)."""
CHOICES = {
    "lr-decay-style": ("constant", "linear", "cosine", "inverse-square-root", "WSD"),
    "normalization": ("LayerNorm", "RMSNorm"),
    "recompute-granularity": ("full", "selective"), "recompute-method": ("uniform", "block"),
    "position-embedding-type": ("learned_absolute", "rope", "mrope", "relative", "none", "alibi", "yarn"),
    "weight-decay-incr-style": ("constant", "linear", "cosine"),
    "moe-token-dispatcher-type": ("allgather", "alltoall", "flex", "alltoall_seq"),
    "moe-router-load-balancing-type": (
        "aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none", "group_limited_greedy", "softmax_topk",
        "noaux_tc", "pai_megatron_aux_loss", "sparsemixer_topk", "quantile",
    ),
    "distributed-backend": ("nccl", "gloo", "hccl", "mpi", "lccl", "xccl"),
    "context-parallel-algo": (
        "megatron_cp_algo", "ulysses_cp_algo", "hybrid_cp_algo", "adaptive_cp_algo", "hybrid_adaptive_cp_algo",
        "kvallgather_cp_algo", "mamba_cp_algo",
    ),
    "rope-scaling-type": ("llama3", "yarn", "longrope", "plm", "linear", "dynamic"),
}  # fmt: skip
"""Words that an option takes, those of MindSpeed included; argparse refuses any other."""
CONFLICTS = (
    ("lr-warmup-fraction", "lr-warmup-iters"), ("lr-warmup-fraction", "lr-warmup-samples"),
    ("train-iters", "train-samples"), ("swiglu", "squared-relu"), ("train-iters", "lr-decay-samples"),
    ("train-iters", "lr-warmup-samples"), ("train-samples", "lr-decay-iters"), ("train-samples", "lr-warmup-iters"),
    ("use-ascend-mc2", "use-ascend-coc"),
)  # fmt: skip
"""Pairs that validate_args refuses together (the last one that of MindSpeed, ``mindspeed/arguments.py``)."""
UNEVEN = fill.words("""
decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers account-for-embedding-in-pipeline-split
account-for-loss-in-pipeline-split pipeline-model-parallel-layout num-layer-list noop-layers encoder-num-layers
decoder-num-layers standalone-embedding-stage pipeline-model-parallel-split-rank custom-pipeline-layers
num-layers-in-first-pipeline-stage num-layers-in-last-pipeline-stage
""")
"""Options with which the stages of a pipeline may hold different numbers of layers."""
WHOSE = "Megatron-LM arguments.py"
DEFAULTS: dict[str, object] = {
    "parallel.mp": 1, "parallel.pp": 1, "parallel.cp": 1, "parallel.ep": 1, "parallel.sequence": False,
    "parallel.optimizer": False, "parallel.virtual_stages": 1, "model.gated": False, "model.linear_bias": True,
    "model.tied": True, "model.qk_norm": False, "model.flash_attention": False, "model.hidden_dropout": 0.1,
    "model.attention_dropout": 0.1, "model.norm_eps": 1e-5, "optimizer.type": "adam", "optimizer.beta1": 0.9,
    "optimizer.beta2": 0.999, "optimizer.eps": 1e-8, "optimizer.weight_decay": 0.01, "optimizer.clip_norm": 1.0,
    "data.workers": 2, "run.seed": 1234, "recompute.full": False, "recompute.selective": False,
    "parallel.vocab_by_data": False,
}  # fmt: skip

OVERRIDES = {
    "use-parallel": "run.parallel", "run-mode": "run.mode", "load-checkpoint": "checkpoint.load",
    "auto-trans-ckpt": "checkpoint.transform", "resume-training": "checkpoint.resume",
}  # fmt: skip
"""Options of run_mindformer.py that win over its YAML file."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_NUMBER = re.compile(r"[-+]?\d+(?:_\d+)*")
"""What ``int`` takes: Python allows underscores between digits."""
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_MARK = re.compile(r"\x01(\d+)\x02")
_VALUE = re.compile(r"[\w.+/-]{1,200}")
_PROGRAM = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|msrun|deepspeed|mpirun)")
_MARKS = ("num-layers", "hidden-size", "tensor-model-parallel-size", "micro-batch-size")


class Word(NamedTuple):
    """A word of the shell. ``quoted`` in single quotes: nothing in it is expanded. ``split`` where blanks end it after
    expansion."""

    text: str
    line: int
    raw: bool = False
    array: tuple[Word, ...] | None = None


_DOCUMENT = re.compile(r"(?<![<(])<<-?[ \t]*(['\"\\]?)([A-Za-z_]\w{0,60})")
_SCRIPT = re.compile(r"\b(?:bash|sh|sbatch|ssh|srun)\b|\.sh\b|\.bashrc\b")


def without_documents(text: str) -> str:
    """A script without the lines of its here-documents, which are text for another program; those that are handed to
    a shell or written to a script stay. Empty lines stand in their place."""
    if "<<" not in text:
        return text
    lines = text.split("\n")
    last = {line.strip(): n for n, line in enumerate(lines)}
    n = 0
    while n < len(lines):
        line = lines[n]
        n += 1
        found = _DOCUMENT.search(line)
        if not found or line.lstrip().startswith("#") or last.get(found[2], -1) < n:
            continue
        kept = _SCRIPT.search(line) is not None
        while n < len(lines) and lines[n].strip() != found[2]:
            if not kept:
                lines[n] = ""
            n += 1
    return "\n".join(lines)


def words_of(text: str) -> list[list[Word]]:
    """Statements of a script as lists of words; comments are left out, ``\\`` at the end of a line joins lines.

    Newlines inside quotes stay in the word, so that the line of every part can be counted.
    """
    text = without_documents(text)
    statements: list[list[Word]] = [[]]
    position, line, total = 0, 1, 0
    size = len(text)
    arrays: list[tuple[str, int, list[Word]]] = []

    def end() -> None:
        if arrays:
            return
        if statements[-1]:
            statements.append([])

    while position < size:
        char = text[position]
        if char == "\n":
            line += 1
            position += 1
            end()
        elif char in " \t\r":
            position += 1
        elif text.startswith(("\\\n", "\\\r\n"), position):
            position += 2 if text[position + 1] == "\n" else 3
            line += 1
        elif char == "#":
            position = text.find("\n", position)
            if position < 0:
                break
        elif char == ")" and arrays:
            name, at, inside = arrays.pop()
            (arrays[-1][2] if arrays else statements[-1]).append(Word(name, at, False, tuple(inside)))
            position += 1
        elif char in ";|&()<>{}" and not (char == "{" and text[position - 1 : position] == "$"):
            if char in ";|&":
                end()
            position += 1
        else:
            start = line
            pieces: list[str] = []
            raw = False
            opened = ""
            while position < size:
                char = text[position]
                if char == "'":
                    close = text.find("'", position + 1)
                    close = size if close < 0 else close
                    piece = text[position + 1 : close]
                    pieces.append(piece)
                    raw = raw or not pieces[:-1]
                    line += piece.count("\n")
                    position = close + 1
                elif char == '"':
                    position += 1
                    while position < size and text[position] != '"':
                        if text[position] == "\\" and position + 1 < size:
                            following = text[position + 1]
                            # a joined line keeps its newline: it is white space wherever these words are split
                            pieces.append(
                                "\n" if following == "\n" else following if following in '"\\$`' else "\\" + following
                            )
                            line += following == "\n"
                            position += 2
                            continue
                        line += text[position] == "\n"
                        pieces.append(text[position])
                        position += 1
                    position += 1
                elif char == "\\":
                    if text.startswith(("\\\n", "\\\r\n"), position):
                        break
                    pieces.append(text[position + 1 : position + 2])
                    position += 2
                elif char == "$" and text[position + 1 : position + 2] in ("{", "("):
                    close = _close(text, position + 1)
                    piece = text[position:close]
                    pieces.append(piece)
                    line += piece.count("\n")
                    position = close
                elif char == "(" and pieces and pieces[-1] == "=" and _ASSIGN.fullmatch("".join(pieces)):
                    opened = "".join(pieces)
                    position += 1
                    break
                elif char in " \t\r\n;|&()<>":
                    break
                else:
                    pieces.append(char)
                    position += 1
            total += 1
            if total > MAX_WORDS:
                break
            if opened:
                arrays.append((opened, start, []))
            else:
                (arrays[-1][2] if arrays else statements[-1]).append(Word("".join(pieces), start, raw))
    return [s for s in statements if s]


_STARTS = re.compile(r"\n[ \t]*(?:export[ \t]+)?[A-Za-z_]\w*=$")


def open_quote(text: str) -> int:
    """Line of the quote that is never closed, 0 if all are.

    A lost quote turns all that follow round: the first one that closes right behind ``NAME=`` at the beginning of a
    line was meant to open, so the one before it is the one that lacks its end.
    """
    position, size, suspect = 0, len(text), -1
    blank = True
    while position < size:
        char = text[position]
        if char == "#" and blank:
            position = text.find("\n", position)
            if position < 0:
                break
        elif char == "\\":
            position += 1
        elif char in "'\"":
            start = position
            position += 1
            while position < size and text[position] != char:
                position += 2 if char == '"' and text[position] == "\\" else 1
            if suspect < 0 and (position >= size or _STARTS.search(text[start:position])):
                suspect = start
            if position >= size:
                return text.count("\n", 0, suspect) + 1
        blank = text[position : position + 1] in (" ", "\t", "\n", ";")
        position += 1
    return 0


def _close(text: str, position: int) -> int:
    """End of ``{…}`` or ``(…)`` that opens at ``position``."""
    depth = 0
    for n in range(position, min(len(text), position + 2000)):
        if text[n] in "{(":
            depth += 1
        elif text[n] in "})":
            depth -= 1
            if depth == 0:
                return n + 1
    return min(len(text), position + 2000)


class Shell:
    """Variables of a script, as far as they can be followed without running it."""

    def __init__(self) -> None:
        self.values: dict[str, list[Word]] = {}

    def assign(self, word: Word) -> bool:
        """Take ``NAME=value``; False if the word is something else."""
        found = _ASSIGN.match(word.text)
        if not found:
            return False
        name, more = found.groups()
        value = list(word.array) if word.array is not None else [Word(word.text[found.end() :], word.line, word.raw)]
        made = [part for item in value for part in self.expand(item, 0)]
        self.values[name] = (self.values.get(name, []) + made) if more else made
        return True

    def expand(self, word: Word, depth: int = 0) -> list[Word]:
        """A word with its variables filled in; parts that cannot be known keep their ``$``. Lists of variables become
        several words."""
        if word.raw or "$" not in word.text or depth > MAX_EXPANSION:
            return [word]
        whole = re.fullmatch(r"\$(?:\{([A-Za-z_]\w*)(?:\[[@*]\])?\}|([A-Za-z_]\w*))", word.text)
        if whole:
            name = whole[1] or whole[2]
            return self.values.get(name, [word])
        text, position = "", 0
        source = word.text
        while position < len(source):
            char = source[position]
            if char != "$":
                text += char
                position += 1
                continue
            if source.startswith("$((", position):
                close = _close(source, position + 1)
                inner = self._flat(source[position + 3 : close - 2], depth)
                text += _arithmetic(inner, self.values)
                position = close
            elif source.startswith("${", position):
                close = _close(source, position + 1)
                text += self._parameter(source[position + 2 : close - 1], depth)
                position = close
            else:
                name = _NAME.match(source, position + 1)
                if name is None:
                    text += char
                    position += 1
                    continue
                found = self.values.get(name[0])
                text += _marked(found) if found is not None else "$" + name[0]
                position = name.end()
            if len(text) > 100_000:
                break
        return [Word(text, word.line)]

    def _flat(self, text: str, depth: int) -> str:
        return unmarked(" ".join(w.text for w in self.expand(Word(text, 0), depth + 1)))

    def _parameter(self, inner: str, depth: int) -> str:
        name = _NAME.match(inner)
        if name is None:
            return "${" + inner + "}"
        rest = inner[name.end() :]
        found = self.values.get(name[0])
        known = _marked(found) if found is not None else None
        if rest in ("", "[@]", "[*]"):
            return known if known is not None else "${" + inner + "}"
        if rest[:2] in (":-", ":=") or rest[:1] in ("-", "="):
            fallback = rest[2:] if rest[0] == ":" else rest[1:]
            if len(fallback) > 1 and fallback[0] == fallback[-1] and fallback[0] in "'\"":
                # ${PORT:-"6000"}: the quotes are those of the shell
                fallback = fallback[1:-1]
            return known if known else self._flat(fallback, depth)
        return "${" + inner + "}"


def _marked(words: list[Word]) -> str:
    """The text of a variable; behind a single word the line of its assignment, for whoever reads the value."""
    if len(words) == 1 and words[0].line and _VALUE.fullmatch(words[0].text):
        return f"{words[0].text}\x01{words[0].line}\x02"
    # inside another value the lines of this one count for nothing
    return " ".join(w.text for w in words).replace("\n", " ")


def _arithmetic(text: str, values: dict[str, list[Word]]) -> str:
    """Whole-number arithmetic of ``$((…))``; the text itself with a ``$`` where it cannot be done."""
    import ast

    def replace(found: re.Match[str]) -> str:
        known = values.get(found[0])
        value = unmarked(known[0].text) if known else ""
        return value if _NUMBER.fullmatch(value) else found[0]

    filled = _NAME.sub(replace, text.replace("$", ""))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(filled.strip(), mode="eval")
        result = _whole(tree.body, 0)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        # one word, as for the shell
        return "$((" + "".join(text.split()) + "))"
    return str(result)


def _whole(node: object, depth: int) -> int:
    import ast

    if depth > 50:
        raise ValueError("nested too deeply")
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp):
        left, right = _whole(node.left, depth + 1), _whole(node.right, depth + 1)
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.Div):
            return int(left / right)
        if isinstance(node.op, ast.Mod):
            return left % right
    raise ValueError("not arithmetic of whole numbers")


class Option(NamedTuple):
    """One ``--name`` of a command with its values. ``source`` is the line where the first value was assigned to a
    variable, 0 where it stands at the option."""

    name: str
    values: tuple[str, ...]
    line: int
    source: int = 0


def commands(text: str) -> list[list[Word]]:
    """Every command of a script with its variables filled in, one word each."""
    shell = Shell()
    found = []
    for statement in words_of(text):
        rest = list(statement)
        while rest and rest[0].text in (
            "export",
            "declare",
            "local",
            "readonly",
            "then",
            "do",
            "else",
            "nohup",
            "exec",
            "-r",
            "-x",
            "-a",
            "-i",
        ):
            rest.pop(0)
        while rest and shell.assign(rest[0]):
            rest.pop(0)
        if not rest:
            continue
        words: list[Word] = []
        for word in rest:
            for made in shell.expand(word):
                line = made.line
                # where a value holds blanks the shell splits it; newlines in it tell the line of each part
                for piece in re.split(r"([ \t\r\n]+)", made.text):
                    if piece.strip():
                        words.append(Word(piece, line))
                    line += piece.count("\n")
            if len(words) > MAX_WORDS:
                break
        found.append(words)
    return found


def unmarked(text: str) -> str:
    """A word without the marks that tell the lines of the assignments it comes from."""
    return _MARK.sub("", text)


def assigned(text: str) -> int:
    """The line of the assignment that the text of a word comes from, 0 where it stands itself."""
    mark = _MARK.search(text)
    return int(mark[1]) if mark else 0


def options(words: list[Word]) -> dict[str, Option]:
    """Options of a command by name without dashes, underscores as dashes; the last one counts."""
    found: dict[str, Option] = {}
    n = 0
    while n < len(words):
        word = words[n]
        n += 1
        if not word.text.startswith("--") or len(word.text) < 3:
            continue
        name, equals, value = word.text[2:].partition("=")
        values = [value] if equals else []
        lines: list[int] = []
        while not equals and n < len(words) and not words[n].text.startswith("--"):
            values.append(words[n].text)
            lines.append(words[n].line)
            n += 1
        name = name.replace("_", "-")
        source = assigned(values[0]) if values else 0
        if not source and lines and lines[0] != word.line:
            source = lines[0]
        found[name] = Option(name, tuple(map(unmarked, values)), word.line, source)
    return found


def read(path: str, text: str) -> Plan | None:
    """The plan of a launch script, None if it starts no training that is known. Never raises."""
    best: dict[str, Option] = {}
    launcher: list[Word] = []
    for words in commands(text):
        given = options(words)
        if sum(mark in given for mark in _MARKS) >= 2 and len(given) > len(best) and not _own(words):
            best, launcher = given, words
        elif not best and any("run_mindformer" in w.text for w in words):
            return _mindformers(path, text, words, given)
    if not best:
        return None
    plan = Plan("megatron", path)
    notes = fill.Notes(text.splitlines())
    maybe = _optional(notes.lines)
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    if any(_SERVING.search(word.text) for word in launcher):
        plan.put("run.mode", Value("predict", "derived", whose="the name of the script"))
    else:
        plan.put("run.mode", Value("train", "derived", whose="a training command"))
    for option, name in OPTIONS.items():
        if option in best:
            _put(plan, notes, name, best[option], option)
    for option, (name, value) in FLAGS.items():
        if option in best:
            plan.put(name, Value(value, "set", path, best[option].line, option, notes.text(best[option].line)))
    _special(plan, notes, best, maybe)
    _spelling(notes, best)
    _ranges(notes, best)
    _together(notes, best, maybe)
    _broken(notes, best, launcher)
    _style(notes, best, launcher, maybe)
    _needed(notes, best, launcher)
    _layers(plan, notes, best)
    _lost(plan, notes, text, best)
    _unset(plan, notes, text, best)
    _cut_lines(notes, text, launcher)
    _devices(plan, notes, launcher, best)
    for name, standard in DEFAULTS.items():
        plan.default(name, standard, WHOSE)
    _derive(plan, best)
    notes.into(plan)
    plan.slips = notes.slips
    fill.derive(plan)
    return plan


def _own(words: list[Word]) -> bool:
    """Whether a program writes most options of two words with underscores: it is not Megatron-LM, its options are its
    own."""
    script = next((n for n, word in enumerate(words) if unmarked(word.text).endswith(".py")), 0)
    known = OPTIONS.keys() | FLAGS.keys() | OTHERS
    names = [unmarked(word.text)[2:].partition("=")[0] for word in words[script:] if word.text.startswith("--")]
    names = [name for name in names if name.replace("_", "-") in known]
    return sum("_" in name for name in names) > sum("-" in name for name in names)


def _certain(best: dict[str, Option], texts: list[str]) -> bool:
    """Whether a command is one of Megatron-LM beyond doubt: other programs have layers and a hidden size too."""
    return len(SIGNS & best.keys()) > 1 or any(_ENTRY.search(text) for text in texts)


def _spelling(notes: fill.Notes, best: dict[str, Option]) -> None:
    """Options and words one letter away from one that exists. An option may be cut short as long as it is clear
    (argparse), and extensions have options of their own: only near misses are noted."""
    from doctor.plan.spelling import SHORT, nearest

    known = OTHERS | UNEVEN | OPTIONS.keys() | FLAGS.keys() | OVERRIDES.keys()
    for name, option in best.items():
        if name not in known and len(name) >= 5 and not any(other.startswith(name) for other in known):
            meant = nearest(name, known - best.keys(), 1)
            if meant and notes.text(option.line).count(name) == 1:
                notes.add("file.unknown_options", f"--{name} (--{meant})", option.line)
                notes.slips.append((option.line, name, meant))
    for name, words in CHOICES.items():
        word = best[name].values[0] if name in best and best[name].values else ""
        line = best[name].source or best[name].line if word else 0
        if not word or word in words or "$" in word:
            continue
        meant = nearest(word, words, 2, SHORT)
        if meant:
            notes.add("file.near_values", f"--{name} {word} ({meant})", line)
        else:
            notes.add("file.unknown_words", f"--{name} {word}", line)


SWITCHES = FLAGS.keys() | fill.words("""
bf16 fp16 group-query-attention no-masked-softmax-fusion attention-softmax-in-fp32 use-fused-rmsnorm use-fused-swiglu
use-fused-rotary-pos-emb use-rotary-position-embeddings use-mcore-models overlap-grad-reduce overlap-param-gather
no-load-optim no-load-rng no-save-optim no-save-rng no-gradient-accumulation-fusion finetune norm-topk-prob
moe-grouped-gemm recompute-activations squared-relu no-bias-swiglu-fusion no-bias-dropout-fusion log-throughput
manual-gc eod-mask-loss reset-position-ids reset-attention-mask
""")
"""Options that take no value (``store_true`` in arguments.py)."""
SIGNS = fill.words("""
tensor-model-parallel-size pipeline-model-parallel-size max-position-embeddings num-attention-heads lr-decay-style
distributed-backend transformer-impl use-mcore-models make-vocab-size-divisible-by no-load-optim no-load-rng
untie-embeddings-and-output-weights tokenizer-type lr-warmup-fraction no-masked-softmax-fusion disable-bias-linear
global-batch-size
""")
"""Options that mark a command as one of Megatron-LM."""
_CORE = fill.words("""
use-mcore-models use-legacy-models context-parallel-size attention-backend ckpt-format moe-ffn-hidden-size
multi-latent-attention expert-tensor-parallel-size mock-data
""")
"""Options that Megatron-LM has since its core holds the model."""
_ENTRY = re.compile(r"(?:^|/)(?:pre|post)train_\w+\.py$")
TOKENIZERS = (
    "BertWordPieceLowerCase", "BertWordPieceCase", "GPT2BPETokenizer", "SentencePieceTokenizer",
    "GPTSentencePieceTokenizer", "HuggingFaceTokenizer", "Llama2Tokenizer", "Llama3Tokenizer", "MistralTokenizer",
    "TikTokenizer", "MultimodalTokenizer", "NullTokenizer", "NullMultimodalTokenizer", "SFTTokenizer",
    "PretrainedFromHF", "MagistralTokenizer",
)  # fmt: skip
"""Words of ``--tokenizer-type`` (Megatron-LM and MindSpeed-LLM); only near misses of them are told."""
OTHER_NAMES = {
    "num-hidden-layers": "num-layers", "n-layers": "num-layers", "n-layer": "num-layers", "layers": "num-layers",
    "hidden-dim": "hidden-size", "d-model": "hidden-size", "n-embd": "hidden-size", "embed-dim": "hidden-size",
    "n-heads": "num-attention-heads", "num-heads": "num-attention-heads", "n-head": "num-attention-heads",
    "num-key-value-heads": "num-query-groups", "num-kv-heads": "num-query-groups",
    "intermediate-size": "ffn-hidden-size", "max-seq-length": "seq-length", "max-seq-len": "seq-length",
    "seq-len": "seq-length", "sequence-length": "seq-length", "context-length": "seq-length",
    "per-device-train-batch-size": "micro-batch-size", "train-batch-size": "micro-batch-size",
    "learning-rate": "lr", "min-learning-rate": "min-lr", "max-steps": "train-iters", "train-steps": "train-iters",
    "warmup-steps": "lr-warmup-iters", "num-warmup-steps": "lr-warmup-iters", "warmup-ratio": "lr-warmup-fraction",
    "lr-scheduler-type": "lr-decay-style", "max-grad-norm": "clip-grad", "grad-clip": "clip-grad",
    "adam-epsilon": "adam-eps", "rms-norm-eps": "norm-epsilon", "rope-theta": "rotary-base",
    "tensor-parallel-size": "tensor-model-parallel-size", "pipeline-parallel-size": "pipeline-model-parallel-size",
    "expert-parallel-size": "expert-model-parallel-size", "num-experts-per-tok": "moe-router-topk",
    "num-local-experts": "num-experts", "sequence-parallelism": "sequence-parallel",
    "use-flash-attention": "use-flash-attn", "bfloat16": "bf16", "float16": "fp16",
}  # fmt: skip
"""What other libraries call an option, with the name it has here."""
REQUIRED = ("num-layers", "hidden-size", "num-attention-heads", "max-position-embeddings", "micro-batch-size")
"""``required_args`` of validate_args, and ``micro_batch_size``, which it asserts."""
_TRAINING = lazy(r"(?i)^[^\s=]{0,200}(?:train|tune|sft|dpo)[^\s=/]{0,40}\.py$")
_SERVING = lazy(r"(?i)^[^\s=]{0,200}(?:infer|eval|generat|server|predict|chat)[^\s=/]{0,40}\.py$")
"""The script of a training, and of a model in use, which reads the same options and needs fewer of them."""
NAMES_OF_SIZES = {
    "TP": "tensor-model-parallel-size", "PP": "pipeline-model-parallel-size", "CP": "context-parallel-size",
    "EP": "expert-model-parallel-size", "MBS": "micro-batch-size", "GBS": "global-batch-size",
}  # fmt: skip
"""Variables that scripts use for one size, with its option."""
UNDERSCORED = frozenset(("use-checkpoint-opt-param-scheduler",))
"""Options that are written with an underscore."""
DATA = ("data-path", "train-data-path", "data-args-path", "per-split-data-args-path", "mock-data", "valid-data-path",
        "test-data-path", "mm-data")  # fmt: skip
NO_PREFIX = (".bin", ".idx", ".json", ".jsonl", ".txt", ".parquet", ".csv")
"""Ends of files that are no prefix of an indexed data set (``PREFIX.bin`` and ``PREFIX.idx``)."""


def _style(notes: fill.Notes, best: dict[str, Option], words: list[Word], maybe: set[str]) -> None:
    """Options written as another library writes them, and words behind a switch, which argparse refuses."""
    from doctor.plan.spelling import nearest

    known = OTHERS | UNEVEN | OPTIONS.keys() | FLAGS.keys() | limits.MEGATRON.keys() | CHOICES.keys() | SWITCHES
    texts = [unmarked(word.text) for word in words]
    script = next((n for n, text in enumerate(texts) if text.endswith(".py")), len(words))
    certain = _certain(best, texts)
    for n, word in enumerate(words):
        text = texts[n]
        if not certain or n < script or not text.startswith("--"):
            continue
        bare = text[2:].partition("=")[0]
        name = bare.replace("_", "-")
        meant = ""
        plural = name[:-1] if name.endswith("s") else name + "s"
        if name in known and "_" in bare and name not in UNDERSCORED:
            meant = name
        elif name not in known and name.lower() in known:
            meant = name.lower()
        elif name not in known and plural in known and len(name) >= LONG:
            meant = plural
        elif name not in known and OTHER_NAMES.get(name, "") not in ("", *best):
            meant = OTHER_NAMES[name]
        if meant:
            notes.add("file.unknown_options", f"--{bare} (--{meant})", word.line)
            notes.slips.append((word.line, bare, meant))
        after = texts[n + 1] if n + 1 < len(words) else "--"
        single = name in OPTIONS or name in limits.MEGATRON or name in CHOICES
        third = texts[n + 2] if n + 3 < len(words) else "--"
        if single and "=" not in text and _FLOAT.fullmatch(after) and _FLOAT.fullmatch(third):
            notes.add("file.stray_words", f"--{bare} {after} {third}"[:80], word.line)
        slash = next((t for t in texts[n + 1 : n + 4] if t == "/" or t.startswith("--")), "")
        if slash == "/":
            notes.add("file.stray_words", f"--{bare} … /", word.line)
        if name in SWITCHES and "=" not in text and re.fullmatch(r"(?i)true|false|1|0|yes|no|on|off", after):
            notes.add("file.stray_words", f"--{bare} {after}", word.line)
    kind = best["tokenizer-type"].values[:1] if "tokenizer-type" in best else ()
    if kind and "$" not in kind[0] and kind[0] not in TOKENIZERS:
        same = [word for word in TOKENIZERS if word.lower() == kind[0].lower()]
        digits = str.maketrans("", "", "0123456789")
        same = same or [word for word in TOKENIZERS if word.translate(digits) == kind[0].translate(digits)]
        near = same[0] if same else nearest(kind[0], TOKENIZERS, 2)
        if near:
            line = best["tokenizer-type"].source or best["tokenizer-type"].line
            notes.add("file.near_values", f"--tokenizer-type {kind[0]} ({near})", line)
    # fine-tuning, multimodal entries and loaders of their own take files of other kinds
    plain = any(text.endswith(("pretrain_gpt.py", "pretrain_bert.py", "pretrain_t5.py")) for text in texts)
    plain = plain and not {"sft", "dataset-provider", "dataloader-type", "tokenizer-prompt-format"} & best.keys()
    for name in ("data-path", "train-data-path"):
        values = best[name].values if name in best else ()
        for value in values[:50]:
            if value.lower().endswith(NO_PREFIX if plain else NO_PREFIX[:2]) and "$" not in value:
                notes.add("file.wrong_files", f"--{name} {value[-60:]}", best[name].source or best[name].line)
    _twice(notes, words, script, maybe)


_OPENS = re.compile(r"(?:^|;|\b(?:then|else|do))[ \t]*(if|case)\b")
_LONG = re.compile(r"--([A-Za-z][\w-]{0,80})")
_CLOSES = re.compile(r"(?:^|;)[ \t]*(?:fi|esac)\b")


def _optional(lines: list[str]) -> set[str]:
    """Options that a script adds in a branch only: which of them a run has is not known."""
    found: set[str] = set()
    depth = 0
    for line in lines:
        bare = line.strip()
        depth += len(_OPENS.findall(bare))
        if depth:
            found.update(name.replace("_", "-") for name in _LONG.findall(bare))
        depth = max(0, depth - len(_CLOSES.findall(bare)))
    return found


def _twice(notes: fill.Notes, words: list[Word], script: int, maybe: set[str]) -> None:
    """Options that stand twice with different values: argparse takes the last one and says nothing."""
    seen: dict[str, tuple[str, int]] = {}
    for n, word in enumerate(words[:-1]):
        text, after = unmarked(word.text), unmarked(words[n + 1].text)
        if n < script or not text.startswith("--") or after.startswith("--") or "=" in text:
            continue
        name = text[2:].replace("_", "-")
        if name in seen and seen[name][0] != after and name in OPTIONS and name not in maybe:
            for line in (seen[name][1], word.line):
                notes.add("file.duplicate_keys", text, line)
        seen[name] = after, word.line


def _needed(notes: fill.Notes, best: dict[str, Option], words: list[Word]) -> None:
    """Options without which the training does not start, and those that need another one."""
    last = max(word.line for word in words)
    # a list of options that comes from elsewhere may hold any of them
    hidden = any(word.text.startswith(("$", "`")) and _alone(words, n) for n, word in enumerate(words))
    exempt = {
        "use-checkpoint-args",
        "yaml-cfg",
        "encoder-num-layers",
        "model-config",
        "mm-model",
        "use-mp-args-from-checkpoint-args",
        "advantage-estimator",
    }
    # trainers of reinforcement learning count rollouts
    exempt |= {name for name in best if name.startswith("rollout-")}
    if not hidden and not exempt & best.keys() and "tensor-model-parallel-size" in best:
        for name in REQUIRED:
            # argparse takes the beginning of a name for the name
            if not any(name.startswith(given) for given in best):
                notes.add("file.lacking_keys", f"--{name}", last)
        trains = any(_TRAINING.search(word.text) for word in words) and "skip-train" not in best
        if trains and not {"train-iters", "train-samples", "train-epochs", "epochs"} & best.keys():
            notes.add("file.lacking_keys", "--train-iters", last)
        about_data = {"split", "tokenizer-type", "tokenizer-model", "tokenizer-name-or-path", "vocab-file"}
        if trains and not set(DATA) & best.keys() and about_data & best.keys():
            notes.add("file.made_up_data", "--data-path", last)
    if "overlap-param-gather" in best and not {"use-megatron-fsdp", "use-torch-fsdp2"} & best.keys():
        for name in ("use-distributed-optimizer", "overlap-grad-reduce"):
            if name not in best:
                notes.add("file.lacking_keys", f"--overlap-param-gather (--{name})", best["overlap-param-gather"].line)
    ep = best.get("expert-model-parallel-size")
    if ep and ep.values and ep.values[0].isdigit() and int(ep.values[0]) > 1 and "num-experts" not in best:
        notes.add("file.lacking_keys", "--expert-model-parallel-size (--num-experts)", ep.source or ep.line)
    kind = best.get("position-embedding-type")
    if "use-rotary-position-embeddings" in best and kind and kind.values and kind.values[0] in ("alibi", "relative"):
        notes.add("file.conflicts", "--position-embedding-type", kind.line)
        notes.add("file.conflicts", "--use-rotary-position-embeddings", best["use-rotary-position-embeddings"].line)


def _alone(words: list[Word], n: int) -> bool:
    """Whether a word is no value of an option before it."""
    return n == 0 or not words[n - 1].text.startswith("--")


def _layers(plan: Plan, notes: fill.Notes, best: dict[str, Option]) -> None:
    """``--num-layer-list``: as many numbers as stages, and together the layers (MindSpeed ``noop_layers``)."""
    option = best.get("num-layer-list")
    if option is None or not option.values or not re.fullmatch(r"\d+(,\d+)*", option.values[0]):
        return
    parts = [int(part) for part in option.values[0].split(",")[:1000]]
    layers, stages = plan.get("model.num_layers"), plan.get("parallel.pp")
    if stages and len(parts) != stages:
        notes.add("file.bad_launch", f"--num-layer-list {option.values[0]} ({stages})", option.source or option.line)
    elif layers and sum(parts) != layers:
        notes.add("file.bad_launch", f"--num-layer-list {option.values[0]} ({layers})", option.source or option.line)


def _lost(plan: Plan, notes: fill.Notes, text: str, best: dict[str, Option]) -> None:
    """A variable for one size that nothing uses, while the option takes the variable of another size."""
    used = set(_USED.findall(text)) | set(re.findall(r"(?m)\bfor[ \t]+([A-Za-z_]\w*)", text))
    for name, option in NAMES_OF_SIZES.items():
        given = re.search(rf"(?m)^[ \t]*(?:export[ \t]+)?{name}=\S", text)
        if not given or name in used or option not in best:
            continue
        line = notes.text(best[option].line)
        taken = re.search(rf"--{option}[ \t=]+['\"]?\$\{{?([A-Za-z_]\w*)", line)
        other = taken[1] if taken and taken[1] in NAMES_OF_SIZES and taken[1] != name else ""
        if other:
            notes.add("file.lost_variables", f"{name} (--{option} ${other})", best[option].line)
            notes.add("file.lost_variables", name, text.count("\n", 0, given.end()) + 1)


LONG = 10
"""Length of an option from which a lost or added ``s`` is a slip and not another option."""
SPLITS = 3
"""Training, validation and test."""


def _ranges(notes: fill.Notes, best: dict[str, Option]) -> None:
    """Numbers that are none, or out of range, of options that have no condition of their own; ``--split``."""
    for name, limit in limits.MEGATRON.items():
        option = best.get(name)
        if option is None or not option.values:
            continue
        text = option.values[0]
        if name == "nproc-per-node" and text in ("auto", "gpu", "cpu", "npu"):
            continue
        if name == "nnodes" and ":" in text:
            # the least and the most of an elastic run
            text = text.partition(":")[0]
        number: object = int(text) if _NUMBER.fullmatch(text) else float(text) if _FLOAT.fullmatch(text) else text
        # what the plan holds was noted under its bare name
        key = name if name in OPTIONS else "--" + name
        limits.check(notes, key, number, option.source or option.line, limit)
    split = best.get("split")
    if split is not None and split.values and "$" not in split.values[0]:
        text = split.values[0]
        # any separator will do (parse_and_normalize_split); a lost part is nothing
        parts = re.findall(r"[.0-9]+", text)
        if not parts or not all(_FLOAT.fullmatch(part) for part in parts):
            notes.add("file.wrong_types", "--split", split.source or split.line)
        elif len(parts) > SPLITS or "-" in text or not sum(map(float, parts)):
            notes.add("file.out_of_range", f"--split {text}", split.source or split.line)


def _together(notes: fill.Notes, best: dict[str, Option], maybe: set[str]) -> None:
    """Options that exclude, need or silence each other (arguments.py, transformer_config.py)."""

    def word(name: str) -> str:
        return best[name].values[0] if name in best and best[name].values else ""

    for one, other in CONFLICTS:
        if one in best and other in best and "0" not in (word(one), word(other)) and not {one, other} & maybe:
            for name in (one, other):
                notes.add("file.conflicts", f"--{name}", best[name].line)
    kind = word("recompute-granularity")
    if kind == "full" and "recompute-activations" not in best:
        for name in ("recompute-method", "recompute-num-layers"):
            # the number was 1 by default before Megatron core
            if name not in best and (name == "recompute-method" or _CORE & best.keys()):
                notes.add("file.lacking_options", f"--recompute-granularity full (--{name})",
                          best["recompute-granularity"].line)  # fmt: skip
    pieces = "num-layers-per-virtual-pipeline-stage"
    if pieces in best and (word("pipeline-model-parallel-size") or "1") == "1":
        notes.add("file.lacking_options", f"--{pieces} (--pipeline-model-parallel-size)", best[pieces].line)
    selective = kind != "full" and (kind == "selective" or "recompute-activations" in best)
    if selective and "recompute-num-layers" in best:
        notes.add("file.conflicts", "--recompute-num-layers", best["recompute-num-layers"].line)
    if kind == "full" and "recompute-activations" in best:
        notes.add("file.idle_options", "--recompute-granularity full (--recompute-activations)",
                  best["recompute-granularity"].line)  # fmt: skip
    groups = word("num-query-groups")
    if groups and "group-query-attention" not in best and groups not in ("1", word("num-attention-heads")):
        notes.add("file.idle_options", f"--num-query-groups {unmarked(groups)} (--group-query-attention)",
                  best["num-query-groups"].line)  # fmt: skip


def _broken(notes: fill.Notes, best: dict[str, Option], words: list[Word]) -> None:
    """Options with one dash, with a blank behind the dashes, or without the value they need."""
    known = OTHERS | UNEVEN | OPTIONS.keys() | FLAGS.keys() | limits.MEGATRON.keys()
    begun = False
    for n, word in enumerate(words):
        text = unmarked(word.text)
        name = text.lstrip("-").replace("_", "-")
        begun = begun or text.startswith("--")
        if begun and text == "--" and n + 1 < len(words):
            after = unmarked(words[n + 1].text).replace("_", "-")
            if after in known:
                notes.add("file.broken_options", f"-- {after} (--{after})", word.line)
        elif begun and re.fullmatch(r"__[A-Za-z][\w-]+", text) and name.lstrip("-") in known:
            notes.add("file.broken_options", f"{text} (--{name.lstrip('-')})", word.line)
        elif begun and re.fullmatch(r"-[A-Za-z][\w-]+", text) and name in known:
            notes.add("file.broken_options", f"{text} (--{name})", word.line)
    numbers = (OPTIONS.keys() | limits.MEGATRON.keys() | CHOICES.keys()) - FLAGS.keys()
    for name in numbers & best.keys():
        # "" is a value too, though it leaves no word here
        quoted = re.search(rf"--{name}[ \t=]+['\"]", notes.text(best[name].line).replace("_", "-"))
        if not best[name].values and not quoted:
            notes.add("file.broken_options", f"--{name}", best[name].line)


_SPACED = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w{0,60})[ \t]+=[ \t]*\S")
_USED = re.compile(r"\$\{?([A-Za-z_]\w*)")
_SETS = re.compile(
    r"(?m)(?:^|[\s;(])([A-Za-z_]\w*)\+?=|\bfor[ \t]+([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*):?[=?-]|"
    r"-v[ \t]+([A-Za-z_]\w*)|\blet[ \t]+['\"]?([A-Za-z_]\w*)"
)
_READS = re.compile(r"(?m)\b(?:read|readarray|mapfile|getopts|local|declare)\b([^\n;|<]{0,300})")
_CONNECTIONS = re.compile(r"(?m)^[ \t]*(?:export[ \t]+)?CUDA_DEVICE_MAX_CONNECTIONS=['\"]?(\w+)")


def _unset(plan: Plan, notes: fill.Notes, text: str, best: dict[str, Option]) -> None:
    """Variables that options use and nothing sets: written with blanks around ``=``, or under a name one letter off;
    and the connections the script asks for."""
    from doctor.plan.spelling import distance

    text = without_documents(text)
    given = {name for names in _SETS.findall(text) for name in names if name}
    for names in _READS.findall(text):
        given |= set(re.findall(r"[A-Za-z_]\w*", names))
    used = {name for option in best.values() for value in option.values for name in _USED.findall(value)}
    spaced = {match[1]: match.start(1) for match in _SPACED.finditer(text)}
    everywhere = set(_USED.findall(text))
    unused = sorted(given - everywhere)[:MAX_NAMES]
    for name in sorted(used - given)[:MAX_NAMES]:
        if name in spaced:
            notes.add("file.unset_names", f"{name} =", text.count("\n", 0, spaced[name]) + 1)
            continue
        near = [o for o in unused if len(o) < MAX_EXPANSION and abs(len(o) - len(name)) < 2 and distance(name, o) == 1]
        if len(near) == 1:
            at = re.search(rf"(?m)(?:^|[\s;]){near[0]}\+?=", text)
            line = text.count("\n", 0, at.end()) + 1 if at else 0
            notes.add("file.unset_names", f"{name} ({near[0]})", line)
    found = _CONNECTIONS.search(text)
    if found:
        line = text.count("\n", 0, found.end()) + 1
        spot = ("set", plan.file, line, "CUDA_DEVICE_MAX_CONNECTIONS", notes.text(line))
        plan.put("run.max_connections", Value(found[1], *spot))


def _cut_lines(notes: fill.Notes, text: str, words: list[Word]) -> None:
    """Places where the command ends too early: an option at the beginning of the line behind a command of options, and
    a backslash with something behind it, which continues nothing."""
    known = OTHERS | UNEVEN | OPTIONS.keys() | FLAGS.keys()
    last, started = 0, False
    for statement in words_of(text):
        first, end = statement[0], max(word.line for word in statement)
        if first.text.startswith("--"):
            # usage texts and branches of ``case`` begin with options too, but behind no command
            started = started and first.line == last + 1
            if started and first.text[2:].replace("_", "-").partition("=")[0] in known:
                notes.add("file.cut_lines", first.text, first.line)
        else:
            started = any(_PROGRAM.fullmatch(word.text) for word in statement)
        last = end
    for word in words:
        if word.text == "\\":
            notes.add("file.cut_lines", "\\", word.line)


def _put(plan: Plan, notes: fill.Notes, name: str, option: Option, key: str) -> None:
    if not option.values:
        return
    text = option.values[0]
    if key == "nnodes" and ":" in text:
        return
    if "$" in text or "`" in text:
        plan.block(name, f"--{key} {text}")
        return
    value: object = text
    if _NUMBER.fullmatch(text):
        value = int(text)
    elif _FLOAT.fullmatch(text):
        value = float(text)
    if isinstance(value, float) and FIELDS["plan." + name].type == INT:
        # argparse takes type=int: 32.0 is none
        notes.add("file.wrong_types", key, option.source or option.line)
    if fill.put(plan, notes, name, value, option.line, key, plan.file) and option.source:
        spots = ((option.line, notes.text(option.line)), (option.source, notes.text(option.source)))
        plan.values[name] = plan.values[name]._replace(spots=spots)


def _special(plan: Plan, notes: fill.Notes, best: dict[str, Option], maybe: set[str]) -> None:
    """Options whose value is not the value of the plan."""

    def put(name: str, value: object, option: str) -> None:
        plan.put(name, Value(value, "set", plan.file, best[option].line, option, notes.text(best[option].line)))

    for option, dtype in (("bf16", "bfloat16"), ("fp16", "float16")):
        if option in best:
            put("precision.compute", dtype, option)
            put("precision.params", dtype, option)
    if "bf16" in best and "fp16" in best and not {"bf16", "fp16"} & maybe:
        spots = tuple((best[n].line, notes.text(best[n].line)) for n in ("bf16", "fp16"))
        plan.put("precision.both", Value(True, "set", plan.file, spots[0][0], "bf16", spots[0][1], "", spots))
    plan.default("precision.compute", "float32", WHOSE)
    plan.default("precision.params", "float32", WHOSE)
    if "num-layers-per-virtual-pipeline-stage" in best:
        _put(plan, notes, "parallel.virtual_layers", best["num-layers-per-virtual-pipeline-stage"],
             "num-layers-per-virtual-pipeline-stage")  # fmt: skip
    plan.derive("parallel.uneven", bool(UNEVEN & best.keys()), "options for uneven stages")
    if "loss-scale" in best:
        _put(plan, notes, "precision.loss_scale", best["loss-scale"], "loss-scale")
        put("precision.loss_scale_dynamic", False, "loss-scale")
    elif "fp16" in best:
        plan.default("precision.loss_scale_dynamic", True, WHOSE)
        plan.default("precision.loss_scale", 2.0**32, WHOSE)
        plan.default("precision.loss_scale_factor", 2.0, WHOSE)
    if "normalization" in best and best["normalization"].values:
        put("model.norm", "rms" if best["normalization"].values[0] == "RMSNorm" else "layer", "normalization")
    plan.default("model.norm", "layer", WHOSE)
    if "use-rotary-position-embeddings" in best:
        put("model.position", "rope", "use-rotary-position-embeddings")
    elif "position-embedding-type" in best and best["position-embedding-type"].values:
        kind = best["position-embedding-type"].values[0]
        put("model.position", "learned" if kind == "learned_absolute" else kind, "position-embedding-type")
    plan.default("model.position", "learned", WHOSE)
    if "recompute-activations" in best:
        put("recompute.selective", True, "recompute-activations")
    if "recompute-granularity" in best and best["recompute-granularity"].values:
        kind = best["recompute-granularity"].values[0]
        put("recompute.full", kind == "full", "recompute-granularity")
        put("recompute.selective", kind == "selective", "recompute-granularity")
    if "num-query-groups" in best and "group-query-attention" not in best:
        # without the switch the number is not used (arguments.py)
        plan.values.pop("model.kv_heads", None)


def _devices(plan: Plan, notes: fill.Notes, words: list[Word], best: dict[str, Option]) -> None:
    """Devices that the launcher starts: torchrun processes times nodes, or workers of msrun."""
    each, nodes, workers = (best.get(n) for n in ("nproc-per-node", "nnodes", "worker-num"))
    source = workers or each
    if source is None or not source.values:
        return
    number = source.values[0]
    times = nodes.values[0] if nodes and nodes.values and not workers else "1"
    times = times.rpartition(":")[2]
    if number.isdigit() and times.isdigit():
        used = [option for option in (source, None if workers else nodes) if option is not None]
        lines = sorted({line for option in used for line in (option.line, option.source) if line})
        spots = tuple((line, notes.text(line)) for line in lines)
        spot = ("set", plan.file, source.line, source.name, notes.text(source.line), "", spots)
        plan.put("parallel.devices", Value(int(number) * int(times), *spot))
    else:
        plan.block("parallel.devices", f"{number} × {times}")


def _derive(plan: Plan, best: dict[str, Option]) -> None:
    get = plan.get
    hidden, heads = get("model.hidden_size"), get("model.num_heads")
    if hidden and not get("model.ffn_size"):
        inner = int((4 * hidden * 2 / 3) / 64) * 64 if get("model.gated") else 4 * hidden
        plan.derive("model.ffn_size", inner, "8/3 hidden size to 64" if get("model.gated") else "4 * hidden size")
    if heads:
        plan.derive("model.qkv_bias", bool(get("model.linear_bias")), "like the other linear layers")
    sizes = [get("parallel." + n) for n in ("mp", "pp", "cp")]
    devices = get("parallel.devices")
    if devices and all(sizes) and min(sizes) > 0:
        inner = sizes[0] * sizes[1] * sizes[2]
        if devices % inner == 0:
            plan.values["parallel.dp"] = plan.values["parallel.devices"]._replace(value=devices // inner)
        plan.derive("run.parallel", devices > 1, "devices of the launcher")
    else:
        plan.block("parallel.dp", "the number of devices is not known")
    dp, size, whole = get("parallel.dp"), get("batch.size"), get("batch.written_global")
    if dp and size and dp * size > 0:
        plan.default("batch.written_global", dp * size, WHOSE)
        if whole and whole % (dp * size) == 0:
            steps = whole // (dp * size)
            plan.derive("parallel.micro_batches", steps, f"{whole} / ({dp} * {size})")
            plan.derive("batch.accumulation", steps if get("parallel.pp") == 1 else 1, f"{whole} / ({dp} * {size})")
    layers, per = get("model.num_layers"), best.get("num-layers-per-virtual-pipeline-stage")
    if layers and per and per.values and per.values[0].isdigit() and int(per.values[0]) > 0 and get("parallel.pp"):
        plan.values["parallel.virtual_stages"] = Value(
            max(1, layers // get("parallel.pp") // int(per.values[0])), "set", plan.file, per.line, per.name
        )
    vocab = get("model.vocab_size")
    if vocab and "padded-vocab-size" not in best:
        by = best.get("make-vocab-size-divisible-by")
        multiple = int(by.values[0]) if by and by.values and by.values[0].isdigit() and int(by.values[0]) > 0 else 128
        multiple *= max(1, get("parallel.mp") or 1)
        old = plan.values["model.vocab_size"]
        plan.values["model.vocab_size"] = old._replace(value=-(-vocab // multiple) * multiple)
    if get("model.experts"):
        plan.derive("model.dense_layers", 0, "experts in every layer")
        if get("model.ffn_size"):
            plan.derive("model.expert_ffn", get("model.ffn_size"), "like a dense layer")
    plan.derive("checkpoint.save", "save" in best, "--save")
    complete = all(get("model." + n) for n in ("hidden_size", "num_layers", "num_heads", "vocab_size", "ffn_size"))
    plan.derive("model.plain", bool(complete and not get("model.mla")), "its shape is complete")


def _mindformers(path: str, text: str, words: list[Word], given: dict[str, Option]) -> Plan | None:
    """The plan of the YAML file that a script hands to run_mindformer.py, with the script's devices and overrides."""
    from doctor.plan import mindformers

    config = given.get("config")
    if config is None or not config.values or "$" in config.values[0]:
        return None
    here = os.path.dirname(path)
    candidates = [os.path.join(here, config.values[0]), os.path.join(here, "..", config.values[0]), config.values[0]]
    found = next((c for c in candidates if os.path.isfile(c)), None)
    if found is None:
        return None
    plan = mindformers.read(found)
    notes = fill.Notes(text.splitlines())
    plan.files.append(path)
    for option, name in OVERRIDES.items():
        if option in given and given[option].values:
            word = given[option].values[0]
            value: object = (
                word.lower() == "true"
                if name in ("run.parallel", "checkpoint.transform", "checkpoint.resume")
                else word
            )
            fill.put(plan, notes, name, value, given[option].line, option, path)
    # msrun_launcher.sh "command" WORKERS [LOCAL …]
    counts = [w for n, w in enumerate(words) if unmarked(w.text).isdigit() and not words[n - 1].text.startswith("--")]
    workers = given.get("worker-num")
    if workers and workers.values and workers.values[0].isdigit():
        fill.put(plan, notes, "parallel.devices", int(workers.values[0]), workers.line, "worker_num", path)
    elif counts and any("launcher" in w.text for w in words):
        fill.put(
            plan, notes, "parallel.devices", int(_MARK.sub("", counts[0].text)), counts[0].line, "worker_num", path
        )
    return plan
