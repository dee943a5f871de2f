"""Ranks of one run against each other."""

from collections.abc import Sequence

import numpy as np

from doctor.checks.training.curve import column, number
from doctor.checks.training.loss import _first_bad, _where
from doctor.model import Curves, Seen


def nan_on_one(runs: Sequence[Curves]) -> list[Seen]:
    """One rank alone has a NaN loss while the others step on over the same steps with finite ones."""
    with_loss = [(n, c) for n, c in enumerate(runs) if len(column(c, "loss")[1]) >= 3 and c.rank is not None]
    if len({c.rank for _, c in with_loss}) < 2:
        return []
    bad = [(n, c, found) for n, c in with_loss if (found := _first_bad(c)) is not None]
    if len({c.rank for _, c, _ in bad}) != 1:
        return []
    n, c, (row, _) = bad[0]
    step = float(c.at[row])
    others = [o for _, o in with_loss if o.rank != c.rank and float(o.at.max()) > step + 3]
    if not others:
        return []
    return [
        Seen(row, {**_where(c, row), "rank": str(c.rank), "others": str(len(others))}, value=float("nan"), curves=n)
    ]


def stands_apart(runs: Sequence[Curves]) -> list[Seen]:
    """The loss of one rank lies far off those of the others over the same steps."""
    tables: list[tuple[int, Curves, dict[float, float]]] = []
    for n, c in enumerate(runs):
        rows, values = column(c, "loss")
        good = np.isfinite(values) & (values != 0)
        if c.rank is not None and good.sum() >= 10:
            tables.append((n, c, dict(zip(c.at[rows[good]].tolist(), values[good].tolist(), strict=True))))
    if len({c.rank for _, c, _ in tables}) < 4 or len(tables) > 4096:
        return []
    steps = sorted(set.intersection(*(set(t) for _, _, t in tables)))
    if len(steps) < 10:
        return []
    steps = steps[-512:]
    matrix = np.array([[t[s] for s in steps] for _, _, t in tables])
    mid = np.median(matrix, axis=0)
    off = np.median(matrix / mid - 1, axis=1)
    spread = 1.4826 * float(np.median(np.abs(off - np.median(off))))
    worst = int(np.argmax(np.abs(off)))
    if abs(off[worst]) < 0.2 or abs(off[worst]) < 10 * spread:
        return []
    n, c, _ = tables[worst]
    row = int(np.flatnonzero(c.at == steps[0])[0])
    args = {**_where(c, row), "rank": str(c.rank), "percent": number(round(100 * float(off[worst]))),
            "value": number(float(np.median(matrix[worst]))), "usual": number(float(np.median(mid)))}  # fmt: skip
    return [Seen(row, args, value=float(np.median(matrix[worst])), usual=float(np.median(mid)), curves=n)]
