"""Times and memory of earlier runs on this host, in a file that the user names."""

from __future__ import annotations

import json
import os
from typing import Any

from doctor.smoke.verdicts import Run, figures

FORMAT = "doctor.smoke.baseline/1"
IRRELEVANT = ("limit", "inject", "seed", "weights", "profile")
"""Settings that change neither times nor memory of the training steps."""


class BaselineError(ValueError):
    """A file that holds no baseline."""


def key_of(run: Run) -> str:
    """What must be equal for times to be comparable: host, device, MindSpore and settings."""
    device, versions = run.measure("device"), run.measure("versions")
    parts = [
        os.uname().nodename,
        str(device.row["device"]) if device else "",
        str(versions.row["mindspore"]) if versions else "",
        *(f"{name}={value}" for name, value in run.settings._asdict().items() if name not in IRRELEVANT),
    ]
    return " ".join(parts)


def read(path: str) -> dict[str, dict[str, float]]:
    """The entries of a file; none if there is no file. Raises BaselineError and OSError."""
    try:
        with open(path, encoding="utf-8") as file:
            held: Any = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError:
        raise BaselineError(path) from None
    if not isinstance(held, dict) or held.get("format") != FORMAT or not isinstance(held.get("runs"), dict):
        raise BaselineError(path)
    return {
        str(key): {str(k): float(v) for k, v in row.items() if isinstance(v, (int, float))}
        for key, row in held["runs"].items()
        if isinstance(row, dict)
    }


def keep(path: str, run: Run) -> bool:
    """Write the figures of a run that came to its end, if the file has none for its like; True if written.

    Raises BaselineError and OSError.
    """
    entries = read(path)
    key = key_of(run)
    if run.failed or key in entries:
        return False
    entries[key] = figures(run)
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, "runs": entries}, file, indent=1)
        file.write("\n")
    os.replace(scratch, path)
    return True
