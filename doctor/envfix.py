"""``--fix-env``: the environment settings that findings propose, as a shell script to read and then to source.

Nothing here is executed. Every value is quoted, every line says in words why it stands there.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from doctor import ranking
from doctor.i18n import LANGUAGES
from doctor.model import Finding, Report, Verdict
from doctor.rulebase import RuleBase
from doctor.rulebase import load as load_rules

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEAD = {
    "zh": ("doctor check 建议的环境设置。请先阅读，再执行 source。", "没有需要设置或取消的环境变量。"),
    "en": (
        "Environment settings proposed by doctor check. Read them, then source this file.",
        "There is nothing to set.",
    ),
}
_PATHS = frozenset(("PATH", "LD_LIBRARY_PATH", "PYTHONPATH"))


class _Line:
    """One setting and the findings that ask for it."""

    def __init__(self, name: str, value: str | None, source: str = "") -> None:
        self.name, self.value, self.source, self.why = name, value, source, list[str]()

    def text(self) -> str:
        if self.source:
            # an absent file is said, and ends no shell that runs with set -e
            path = shlex.quote(self.source)
            return f"if [ -f {path} ]; then . {path}; else echo {shlex.quote(self.source + ': not found')} >&2; fi"
        if self.value is None:
            return f"unset {self.name}"
        if self.name in _PATHS:
            # a list of folders is put in front of what the shell has
            return f'export {self.name}={shlex.quote(self.value)}"${{{self.name}:+:${self.name}}}"'
        return f"export {self.name}={shlex.quote(self.value)}"


def may_write(path: str) -> bool:
    """Whether a script may be written there: nothing, a device or an earlier script of this kind stands there. Raises
    OSError for a file that cannot be read."""
    if not os.path.isfile(path):
        return True
    with open(path, encoding="utf-8", errors="replace") as file:
        start = file.read(400)
    return not start.strip() or any(start.startswith(f"#!/bin/sh\n# {head}") for head, _ in _HEAD.values())


def _settings(finding: Finding, fixes: list[dict[str, Any]]) -> Iterator[tuple[str, str | None, dict[str, str]]]:
    """(name, value or None for unset, words) of every fix of a rule that sets variables, its fields filled."""
    for fix in fixes:
        for name, value in (fix.get("env") or {}).items():
            name = ranking.fill(str(name), finding.args)
            words = {lang: ranking.fill(str(fix.get(lang, "")), finding.args) for lang in LANGUAGES}
            filled = None if value is None else ranking.fill(str(value), finding.args)
            if (name == "source" or _NAME.fullmatch(name)) and (filled is None or "…" not in filled):
                yield name, filled, words


def script(report: Report, lang: str, base: RuleBase | None = None) -> str:
    """The script for what failed in a report, worst first; a variable named twice keeps its first value.

    ``fix.env`` of a rule maps names to values: null takes a variable away, the name ``source`` names a file to source.
    """
    rules = base if base is not None else load_rules()
    lines: dict[str, _Line] = {}
    for finding in _failed(report):
        if finding.id not in rules:
            continue
        for name, value, words in _settings(finding, rules.whole(finding.id)["fix"]):
            if name == "source" and value:
                line = lines.setdefault(f"source {value}", _Line(name, None, value))
            else:
                line = lines.setdefault(name, _Line(name, value))
            note = f"{finding.id} {finding.title.get(lang, '')}{'。' if lang == 'zh' else '. '}{words[lang]}"
            if (line.value == value or line.source) and note not in line.why:
                line.why.append(note)
    head, nothing = _HEAD[lang]
    out = ["#!/bin/sh", f"# {head}"]
    # a file to source comes first: what is set afterwards counts
    for line in sorted(lines.values(), key=lambda line: not line.source):
        out += ["", *(f"# {_one_line(why)}" for why in line.why), line.text()]
    if not lines:
        out += ["", f"# {nothing}"]
    return "\n".join(out) + "\n"


def proposes(text: str) -> bool:
    """Whether a script sets anything."""
    return not any(f"# {nothing}" in text.splitlines() for _, nothing in _HEAD.values())


def _failed(report: Report) -> list[Finding]:
    """Failed findings in the order of the report's diagnoses: each with what it explains."""
    order = [n for diagnosis in report.diagnoses for n in (diagnosis.finding, *diagnosis.consequences)]
    rest = [n for n, f in enumerate(report.findings) if f.verdict is Verdict.FAIL and n not in order]
    return [report.findings[n] for n in dict.fromkeys([*order, *rest])]


def _one_line(text: str) -> str:
    """A comment that cannot end early: one line, without control characters."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))[:500]
