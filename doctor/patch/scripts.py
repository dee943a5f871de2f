"""Launch scripts as a provider of fixes: variables they export with values the checks of a host refuse."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from doctor import ranking
from doctor.model import Edit, Evidence, Finding, Verdict
from doctor.patch import configs, shellspans
from doctor.patch import plan as planning
from doctor.patch.propose import Found, Options
from doctor.patch.spans import Refused
from doctor.rulebase import RuleBase, load

FAMILIES = ("HCCL",)
"""Rules about the value of a variable; what a shell has left over is no matter of a script."""
PREFIXES = ("HCCL_", "ASCEND_", "CM_")


def find(paths: Sequence[str], options: Options) -> Iterable[Found]:
    """Failed checks of variables that scripts assign, with the edits their rules' ``env`` asks for."""
    base: RuleBase | None = None
    for path in configs.files(paths):
        try:
            shot = planning.snapshot(path)
            if shot.format != "shell":
                continue
            text = planning.decode(shot.data, shot.format)
            every = shellspans.assignments(text)
        except Refused:
            continue
        places = {a.name: text.count("\n", 0, a.start) + 1 for a in every if a.name.startswith(PREFIXES)}
        if not places:
            continue
        base = base or load(options.rules)
        for finding in failing(text, base):
            fixes = [f for f in base.whole(finding.id)["fix"] if f.get("env")]
            for fix in fixes:
                wanted = {ranking.fill(str(n), finding.args): v for n, v in fix["env"].items()}
                mine = {name: value for name, value in wanted.items() if name in places}
                if not mine:
                    continue
                edits = tuple(
                    Edit(path, name, "", "" if v is None else shellspans.spell(ranking.fill(str(v), finding.args)))
                    for name, v in mine.items()
                )
                lines = text.splitlines()
                seen = tuple(Evidence(path, places[n], lines[places[n] - 1] if places[n] <= len(lines) else "")
                             for n in mine)  # fmt: skip
                yield Found(finding._replace(evidence=seen), edits={0: edits}, fixes=(fix,),
                            passes=_Passes(path, base, finding))  # fmt: skip


def failing(text: str, base: RuleBase) -> list[Finding]:
    """What the checks say of a host whose environment is what a script assigns."""
    from doctor import checkup
    from doctor.hosts.base import MemoryHost

    env: dict[str, str] = {}
    for found in shellspans.assignments(text):
        value = shellspans.plain(text[found.value : found.end])
        if not set(value) & set("$`"):
            env[found.name] = value
    run = checkup.Checkup(MemoryHost({"ask env": json.dumps(env)}, "script"), checkup.Options(only=FAMILIES), base)
    for _ in run.steps():
        pass
    return [f for f in run.findings if f.verdict is Verdict.FAIL]


class _Passes:
    """Is the finding gone over other contents, and is there no other one?"""

    def __init__(self, path: str, base: RuleBase, finding: Finding) -> None:
        self.path, self.base, self.finding = path, base, finding

    def __call__(self, contents: Mapping[str, bytes]) -> bool | None:
        data = contents.get(self.path)
        if data is None:
            return None
        after = failing(planning.decode(data, "shell"), self.base)
        return _name(self.finding) not in {_name(f) for f in after}


def _name(finding: Finding) -> tuple[str, Any]:
    return finding.id, finding.args.get("name")
