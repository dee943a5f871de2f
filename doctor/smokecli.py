"""``doctor smoke``: arguments in, a run, a report out."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from doctor.i18n import tr
from doctor.interrupt import Interrupt
from doctor.render.safe import printable
from doctor.smoke.faults import NAMES
from doctor.smoke.settings import CHOICES, COMPARED, RANGES, Settings, SettingsError
from doctor.statusline import StatusLine

USAGE = 2

HELP = {
    "device": "auto takes an NPU that MindSpore can use, else the CPU, and says which",
    "mode": "ms.jit in PyNative mode, graph mode, or PyNative without compilation",
    "dtype": "what is computed in; weights stay float32. bfloat16 on the CPU runs in float32 and says so",
    "amp": "amp.auto_mixed_precision; O1 is left out: it rewrites source and fails on cells that use ops.concat",
    "attention": "auto: plain, on an NPU in 16 bits both (compared with each other)",
    "positions": "learned as in GPT-2, or rotary",
    "gelu": "the tanh form of GPT-2 or the exact one",
    "loss_scale": "auto: dynamic for float16",
    "layers": "", "hidden": "", "heads": "", "seq": "length of the sequences", "batch": "", "vocab": "",
    "steps": "0: 40, in PyNative mode 20",
    "accumulation": "micro-batches of a step", "dropout": "", "clip": "limit of the gradient norm, 0: none",
    "rate": "learning rate", "ranks": "processes, started by msrun", "seed": "",
    "limit": "seconds; the process group is ended then",
    "norm": "LayerNorm or RMSNorm", "activation": "of the feed-forward part", "optimizer": "",
    "kv_heads": "heads of keys and values, 0: as many as heads", "head_dim": "width of a head, 0: hidden / heads",
    "ffn": "width of the feed-forward part, 0: 4 x hidden", "epsilon": "of the norms",
    "beta1": "", "beta2": "", "adam_epsilon": "", "decay": "weight decay, on matrices only",
}  # fmt: skip

FLAGS = {
    "recompute": "recompute activations in the backward pass",
    "gated": "a feed-forward part with a gate (SwiGLU with --activation silu)",
    "untied": "an output layer of its own",
    "curve": "train the same in numpy and compare the losses (--from-config always does)",
    "profile": "three steps under the profiler, kept in --workdir",
}


def add(commands: Any, common: Any) -> None:
    """The arguments of ``doctor smoke``."""
    smoke = commands.add_parser("smoke", help="train a small GPT for real and compare it with numpy",
                                description="Trains a small GPT in the interpreter that trains, and measures more "
                                "than a falling loss.")  # fmt: skip
    smoke.add_argument("--python", default="", metavar="PATH", help="the interpreter under test (default: python)")
    smoke.add_argument("--workdir", default="", metavar="DIR",
                       help="keep what is written there (default: a temporary folder, removed)")  # fmt: skip
    smoke.add_argument("--baseline", default="", metavar="FILE",
                       help="compare times and memory with this file; written when it lacks this host")  # fmt: skip
    smoke.add_argument("--compare", default="", metavar="WHAT",
                       help=f"train with each value of {', '.join(COMPARED)} (commas) and print a table")  # fmt: skip
    smoke.add_argument("--inject", default="", choices=NAMES, metavar="NAME",
                       help=f"do one thing wrong on purpose: {', '.join(NAMES)}")  # fmt: skip
    smoke.add_argument("--weights", default="", metavar="FILE", help="GPT-2 weights (safetensors) to map and compare")
    smoke.add_argument("--from-config", default="", metavar="FILE",
                       help="shapes and settings of this configuration or launch script, scaled down with ratios kept; "
                       "options given besides win")  # fmt: skip
    for name, about in FLAGS.items():
        smoke.add_argument(f"--{name}", action="store_true", default=None, help=about)
    defaults = Settings()
    for name, words in CHOICES.items():
        smoke.add_argument(f"--{name.replace('_', '-')}", choices=words, default=None,
                           help=f"{HELP[name]} (default: {words[0]})")  # fmt: skip
    for name in RANGES:
        value = getattr(defaults, name)
        about = f"{HELP[name]} (default: {value:g})".strip()
        smoke.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=None, metavar="N", help=about)
    smoke.add_argument("--all", action="store_true", help="also what does not apply here")
    smoke.add_argument("--strict", action="store_true", help="what could not be told counts as a finding")
    common(smoke)


def given(args: argparse.Namespace) -> dict[str, Any]:
    """What was asked for in the call itself."""
    values = {name: getattr(args, name) for name in Settings._fields}
    return {name: value for name, value in values.items() if value not in (None, "")}


class _Live(StatusLine):
    """Stage and loss on a terminal's stderr, in one line."""

    def __init__(self, lang: str) -> None:
        super().__init__()
        self.lang, self.last = lang, 0.0

    def __call__(self, row: dict[str, Any]) -> None:
        now = time.monotonic()
        if row["event"] not in ("stage", "step") or (row["event"] == "step" and now - self.last < 0.2):
            return
        text = tr(self.lang, "smoke.stage", stage=row["stage"])
        if row["event"] == "step":
            loss = row["loss"]
            text = tr(self.lang, "smoke.step", step=row["n"], loss=f"{loss:.4g}" if isinstance(loss, float) else loss)
        self.last = now
        self.show(printable(text))


def run(args: argparse.Namespace) -> int:
    """Run the smoke test; returns the exit code."""
    from doctor import checkup, smoke
    from doctor.cli import write_document, write_result
    from doctor.smoke.baseline import BaselineError

    live = _Live(args.lang)
    words = tuple(word.strip() for word in args.compare.split(",") if word.strip())
    try:
        with Interrupt() as interrupted:
            report = smoke.run(
                from_config=args.from_config, python=args.python, workdir=args.workdir, baseline=args.baseline,
                compare=words, rules=args.rules, cancelled=interrupted,
                listen=live if sys.stderr.isatty() else lambda row: None,
                **given(args),
            )  # fmt: skip
    except SettingsError as error:
        print(f"doctor: {error.zh if args.lang == 'zh' else error.en}", file=sys.stderr)
        return USAGE
    except BaselineError as error:
        print("doctor: " + tr(args.lang, "smoke.baseline_bad", path=printable(str(error))), file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"doctor: {error.filename or args.from_config or args.baseline}: {error.strerror}", file=sys.stderr)
        return USAGE
    finally:
        live.close()
    written = write_document(args, report)
    if written is not None:
        ok = written
    else:
        from doctor.render import text
        from doctor.smoke import show

        columns = 100 if args.output else text.terminal_columns(sys.stdout)
        ascii_only = not args.output and not text.can_encode(sys.stdout)
        lines = show.layout(report, args.lang, columns=columns, every=args.all, ascii_only=ascii_only)
        if args.output:
            ok = write_result(args, text.plain(lines))
        else:
            text.write(lines, sys.stdout, colour=text.wants_colour(sys.stdout, args.no_color))
            ok = True
    code = checkup.exit_code(report, args.fail_on, strict=args.strict)
    return code if ok else max(code, USAGE)
