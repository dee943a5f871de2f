"""Write doctor/plan/keys.json: the configuration keys that MindSpore Transformers reads, by section.

    python scripts/plan_keys.py FOLDER…

Each FOLDER is an unpacked mindformers wheel. Sources: parameters of configuration classes and dataclass fields (read
as syntax trees, nothing is imported), sources of the conversion tables, keys of the template classes, and the keys of
the configurations in the wheels themselves. ``closed`` sections are those whose reader refuses unknown names.
"""

import ast
import json
import sys
from pathlib import Path

import yaml

OUT = Path(__file__).parent.parent / "doctor" / "plan" / "keys.json"
TEMPLATE = {
    "GeneralConfig": "",
    "ParallelConfig": "parallel_config",
    "RecomputeConfig": "recompute_config",
    "SwapConfig": "swap_config",
    "MoEConfig": "moe_config",
    "RunnerConfig": "runner_config",
    "MsParallelConfig": "parallel",
    "ContextConfig": "context",
    "MonitorConfig": "monitor_config",
}
CLOSED = ("parallel_config", "recompute_config", "swap_config", "moe_config", "runner_config", "monitor_config")
PYNATIVE = {
    "CheckpointConfig": "checkpoint",
    "TrainingConfig": "training",
    "ParallelismConfig": "parallelism",
    "TrainConfig": "",
    "OptimizerConfig": "optimizer",
    "LrSchedulerConfig": "lr_scheduler",
    "ContextConfig": "context",
    "RecomputeConfig": "recompute",
    "RecomputeCommConfig": "recompute_comm",
    "SwapConfig": "swap",
    "ProfilerConfig": "profiler",
    "LoraConfig": "lora_config",
    "MonitorConfig": "monitor",
}
TYPES = ("models", "config", "optimizer", "lr", "trainer", "callback", "wrapper", "dataset_loader", "dataset",
         "scale")  # fmt: skip
SECTION_TYPES = {
    "optimizer": "optimizer",
    "lr_schedule": "lr",
    "lr_scheduler": "lr",
    "runner_wrapper": "wrapper",
    "trainer": "trainer",
}
INNER_TYPES = {
    ("train_dataset", "data_loader"): "dataset_loader",
    ("eval_dataset", "data_loader"): "dataset_loader",
    ("train_dataset", "dataloader"): "dataset_loader",
    ("train_dataset_task",): "dataset",
    ("eval_dataset_task",): "dataset",
    ("runner_wrapper", "scale_sense"): "scale",
}
MINDSPORE = {
    "optimizer": {
        "Adam",
        "AdamWeightDecay",
        "AdamOffload",
        "Adagrad",
        "ASGD",
        "FTRL",
        "Lamb",
        "LARS",
        "LazyAdam",
        "Momentum",
        "ProximalAdagrad",
        "RMSProp",
        "Rprop",
        "SGD",
        "Adafactor",
        "CAME",
    },
    "callback": {
        "BackupAndRestore",
        "EarlyStopping",
        "FlopsUtilizationCollector",
        "Goodput",
        "LambdaCallback",
        "LearningRateScheduler",
        "LossMonitor",
        "ModelCheckpoint",
        "OnRequestExit",
        "ReduceLROnPlateau",
        "SummaryCollector",
        "TimeMonitor",
        "TrainFaultTolerance",
    },
    "wrapper": {"TrainOneStepCell", "TrainOneStepWithLossScaleCell"},
    "dataset_loader": {"MindDataset", "GeneratorDataset", "TFRecordDataset", "TextFileDataset"},
    "scale": {"DynamicLossScaleUpdateCell", "FixedLossScaleUpdateCell"},
}
"""Classes of MindSpore that MindFormers registers in a loop."""
OPEN_DEEP = (
    "optimizer",
    "lr_schedule",
    "lr_scheduler",
    "runner_wrapper",
    "context",
    "parallel",
    "train_dataset",
    "eval_dataset",
)


def fields(node: ast.ClassDef) -> set[str]:
    """Names a configuration class takes: dataclass fields, class attributes, parameters of ``__init__``."""
    found = set()
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            found.add(item.target.id)
        elif isinstance(item, ast.Assign):
            found |= {t.id for t in item.targets if isinstance(t, ast.Name)}
        elif isinstance(item, ast.FunctionDef) and item.name == "__init__":
            found |= {a.arg for a in item.args.args + item.args.kwonlyargs} - {"self"}
    return {name for name in found if not name.startswith("_") and name != "allow_extra"}


def mapping_sources(tree: ast.Module) -> set[str]:
    """Keys of every ``…CONFIG_MAPPING`` table."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
            names = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(t, ast.Name) and t.id.endswith("CONFIG_MAPPING") for t in names):
                for key in node.value.keys:
                    parts = key.elts if isinstance(key, ast.Tuple) else [key]
                    found |= {p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)}
    return found


def arch_of(model: dict) -> set[str]:
    """Model classes that a configuration of the wheel names."""
    arch = model.get("arch") if isinstance(model.get("arch"), dict) else {}
    inner = model.get("model_config") if isinstance(model.get("model_config"), dict) else model
    named = inner.get("architectures") or []
    return {n for n in ([arch.get("type")] + (named if isinstance(named, list) else [named])) if isinstance(n, str)}


def registered(node: ast.ClassDef | ast.FunctionDef) -> tuple[str, set[str]]:
    """(kind, names) under which a class or function is registered, ("", {}) if it is not."""
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("MindFormerRegister.register") and mark.args:
            kind = ast.unparse(mark.args[0]).rsplit(".")[-1].lower()
            names = {node.name}
            for word in mark.keywords:
                if word.arg == "alias" and isinstance(word.value, ast.Constant):
                    names.add(str(word.value.value))
            return kind, names
    return "", set()


def kinds_of(value: object, path: tuple[str, ...], found: dict[str, dict[str, int]]) -> None:
    """Count the types of the values of every key, by its first section."""
    if isinstance(value, dict):
        for key, below in value.items():
            kinds_of(below, (*path, str(key)), found)
    elif isinstance(value, list):
        for below in value:
            if isinstance(below, dict):
                kinds_of(below, path, found)
    elif value is not None and value != "":
        kind = "bool" if isinstance(value, bool) else "number" if isinstance(value, (int, float)) else "text"
        name = path[-1] if len(path) == 1 else f"{path[0]}.{path[-1]}"
        counts = found.setdefault(name, {})
        counts[kind] = counts.get(kind, 0) + 1


EITHER = {"resume_training", "model.offset", "runner_wrapper.scale_sense", "model.scaling_factor", "parallel.offset"}
"""Keys that take a text as well (a file name, ``auto``, a class name)."""
LEAST = 8
"""Configurations that must write a key, all of them as the same type, before that is its type."""


def main(folders: list[str]) -> None:
    kinds: dict[str, dict[str, int]] = {}
    maps: dict[str, dict[str, int]] = {}
    sections: dict[str, set[str]] = {"model": set()}
    pynative: dict[str, set[str]] = {}
    types: dict[str, set[str]] = {kind: set(names) for kind, names in MINDSPORE.items()}

    def add(name: str, keys: set[str]) -> None:
        sections.setdefault(name, set()).update(keys)

    for folder in map(Path, folders):
        for path in folder.glob("mindformers/**/*.py"):
            text = path.read_text(encoding="utf-8", errors="replace")
            if "onfig" not in text and "MindFormerRegister" not in text:
                continue
            tree = ast.parse(text)
            where = path.relative_to(folder / "mindformers").as_posix()
            if where.startswith(("models/", "parallel_core/", "pynative/base_models")):
                add("model", mapping_sources(tree))
            for node in ast.walk(tree):
                if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                    kind, names = registered(node)
                    if kind:
                        types.setdefault(kind, set()).update(names)
            for node in tree.body:
                if not isinstance(node, ast.ClassDef) or not node.name.endswith("Config"):
                    continue
                if where == "tools/register/template.py" and node.name in TEMPLATE:
                    add(TEMPLATE[node.name], fields(node))
                    if node.name == "ConfigTemplate":
                        continue
                elif where == "pynative/config/config.py":
                    if node.name in PYNATIVE:
                        pynative.setdefault(PYNATIVE[node.name], set()).update(fields(node))
                elif where.startswith(("models/", "parallel_core/")):
                    add("model", fields(node))
                elif where == "modules/transformer/transformer.py" or where == "modules/transformer/moe.py":
                    name = {
                        "TransformerOpParallelConfig": "parallel_config",
                        "TransformerRecomputeConfig": "recompute_config",
                        "MoEConfig": "moe_config",
                        "TransformerSwapConfig": "swap_config",
                    }.get(node.name)
                    if name:
                        add(name, fields(node))
                elif where == "core/config_args.py" or where == "core/parallel_config.py":
                    name = {
                        "ContextConfig": "context",
                        "ParallelContextConfig": "parallel",
                        "RunnerConfig": "runner_config",
                    }.get(node.name)
                    if name:
                        add(name, fields(node))
        for path in folder.glob("configs/**/*.yaml"):
            data = yaml.safe_load(path.read_text(encoding="utf-8"))
            if not isinstance(data, dict):
                continue
            if "model" not in data and "parallel_config" not in data and "parallelism" not in data:
                continue
            kinds_of(data, (), kinds)
            for name, value in data.items():
                counts = maps.setdefault(str(name), {})
                kind = type(value).__name__ if value not in (None, "") else "none"
                counts[kind] = counts.get(kind, 0) + 1
            new = "parallelism" in data
            table = pynative if new else sections
            table.setdefault("", set()).update(map(str, data))
            model = data.get("model") or {}
            sections["model"] |= set(map(str, (model if new else model.get("model_config") or {})))
            for name in (*CLOSED, *OPEN_DEEP, *(PYNATIVE.values() if new else ())):
                value = data.get(name)
                if name and isinstance(value, dict) and not (new and name == "model"):
                    table.setdefault(name, set()).update(map(str, value))
            types.setdefault("models", set()).update(arch_of(model))
            for section, kind in SECTION_TYPES.items():
                value = data.get(section)
                if isinstance(value, dict) and isinstance(value.get("type"), str):
                    types.setdefault(kind, set()).add(value["type"])
            for path, kind in INNER_TYPES.items():
                owner = data
                for name in path:
                    owner = owner.get(name) if isinstance(owner, dict) else None
                if isinstance(owner, dict):
                    if isinstance(owner.get("type"), str):
                        types.setdefault(kind, set()).add(owner["type"])
                    if kind == "scale":
                        table.setdefault(kind, set()).update(map(str, owner))
            for callback in data.get("callbacks") or []:
                if isinstance(callback, dict):
                    table.setdefault("callbacks", set()).update(map(str, callback))
    sections["model"] -= {"self", "kwargs"}
    whole = {
        "closed": list(CLOSED),
        "sections": {name: sorted(keys) for name, keys in sorted(sections.items())},
        "pynative_closed": sorted(set(PYNATIVE.values()) - {"", "optimizer", "lr_scheduler"}),
        "types": {name: sorted(names) for name, names in sorted(types.items()) if name in TYPES},
        "pynative": {name: sorted(keys) for name, keys in sorted(pynative.items())},
        "kinds": {
            name: next(iter(counts))
            for name, counts in sorted(kinds.items())
            if len(counts) == 1 and sum(counts.values()) >= LEAST and "text" not in counts and name not in EITHER
        },
        "maps": sorted(n for n, c in maps.items() if not c.keys() - {"dict", "none"} and c.get("dict", 0) >= LEAST),
    }
    OUT.write_text(json.dumps(whole, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    print(
        {name: len(keys) for name, keys in whole["sections"].items()}, {n: len(k) for n, k in whole["pynative"].items()}
    )


if __name__ == "__main__":
    main(sys.argv[1:])
