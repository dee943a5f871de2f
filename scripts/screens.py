"""Make the pictures of docs/screens anew, from the shipped samples: python scripts/screens.py

Each is the screen itself, exported as SVG: nothing is drawn by hand.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "docs", "screens")
SIZE, HOME_SIZE = (110, 34), (110, 40)
HOST = os.path.join(ROOT, "fixtures", "hosts", "ver-cann-8.5-with-mindspore-2.7.0.yaml")
CONFIG = """\
runner_config:
  epochs: 1
  batch_size: 4
model:
  model_config:
    type: LlamaConfig
    num_layers: 32
    hidden_size: 4096
    num_heads: 32
    vocab_size: 32000
    seq_length: 4096
    intermediate_size: 11008
    compute_dtype: "bfloat16"
optimizer:
  type: AdamW
  learning_rate: 1e-5
parallel_config:
  data_parallel: 2
  model_parallel: 3
  pipeline_stage: 1
use_parallel: True
"""


async def pictures() -> dict[str, str]:
    """Name → SVG."""
    sys.path[:0] = [ROOT, os.path.join(ROOT, "tests", "tui")]
    from screen_helpers import settle

    from doctor.hosts.recording import load
    from doctor.tui.app import DoctorApp

    out = {}
    app = DoctorApp(lang="en", host=lambda: load(HOST), glance=True, ascii_only=False)
    async with app.run_test(size=HOME_SIZE) as pilot:
        await settle(pilot)
        out["home"] = app.export_screenshot(title="doctor")
        await pilot.resize_terminal(*SIZE)
        await pilot.press("d")
        await settle(pilot)
        out["diagnosis"] = app.export_screenshot(title="doctor")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open("finetune_llama2_7b.yaml", "w", encoding="utf-8") as file:
            file.write(CONFIG)
        app = DoctorApp(lang="en", host=lambda: load(HOST), ascii_only=False)
        app.model_path = "finetune_llama2_7b.yaml"
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press("m")
            await settle(pilot)
            out["configuration"] = app.export_screenshot(title="doctor")
        os.chdir(ROOT)
    return out


def main() -> int:
    """Write the files."""
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(ROOT)
    for name, svg in asyncio.run(pictures()).items():
        # no font of another server, and a name for the styles that is the same each time
        svg = re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)
        svg = re.sub(r"terminal-\d+", f"doctor-{name}", svg)
        svg = svg.replace("Fira Code, monospace", "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace")
        rows = [row.strip() for row in svg.splitlines() if row.strip()]
        with open(os.path.join(FOLDER, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
