"""MEM520: options of the device memory allocator that exclude each other."""

from __future__ import annotations

from doctor.model import Answer, Evidence, Fact, fail, not_applicable, passed

VARIABLES = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
EXCLUDED = ("max_split_size_mb", "garbage_collection_threshold")


def exclusive_options(env: Fact) -> Answer | list[Answer]:
    """Expandable segments go with neither a split limit nor a collection threshold.

    Source: hiascend, environment variables, PYTORCH_NPU_ALLOC_CONF.
    """
    found = []
    seen = False
    for name in VARIABLES:
        value = env.value.get(name)
        if not isinstance(value, str):
            continue
        seen = True
        options = dict(part.strip().partition(":")[::2] for part in value.split(",") if part.strip())
        both = [option for option in EXCLUDED if option in options]
        if both and options.get("expandable_segments", "").strip().lower() == "true":
            line = env.evidence or Evidence("env", 0, f"{name}={value}")
            found.append(fail({"name": name, "value": value, "options": both}, line._replace(text=f"{name}={value}")))
    return found or (passed() if seen else not_applicable("not_set", name=VARIABLES[0]))
