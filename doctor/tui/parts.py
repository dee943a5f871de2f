"""The pieces of a diagnosis that are worth copying one by one: cause, evidence, steps, commands. Knows no screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from doctor.i18n import pick, tr
from doctor.model import Diagnosis, Evidence, Finding, Text
from doctor.render.safe import redact, safe
from doctor.render.text import at_text, steps

_TOOLS = (
    "npu-smi|hccn_tool|dmesg|lspci|lsmod|grep|ls|cat|df|du|free|ps|pip|pip3|python|python3|export|unset|source|ulimit"
    "|ping|ip|ss|netstat|nslookup|ibv_devinfo|env|echo|find|head|tail|fuser|lsof|journalctl|sysctl|nproc|numactl|top"
    "|msrun|mpirun|bash|doctor|uname|ldd|chmod|ssh|docker|msprof"
)
_COMMAND = re.compile(
    # Chinese characters and marks end a command; a placeholder in angle brackets may hold some
    rf"(?:^|(?<=[\s（(：，、；。`]))(?:[A-Z_]{{2,40}}=\S{{1,80}} )?(?:{_TOOLS})"
    r"(?= [^\s\u2e80-\uffef]|$|\s*[\u2e80-\uffef])"
    r"(?:<[^<>\n]{1,20}>|[^\u2e80-\uffef\n`])*"
)
_QUOTED = re.compile(r"`([^`\n]{2,300})`")


class Part(NamedTuple):
    """What is offered, and the text that is taken. ``brief``: what a list shows of it in place of its first line."""

    name: str
    text: str
    brief: str = ""


def commands(text: Text) -> list[str]:
    """The commands of what to do next. They are read from the Chinese text: its characters show where one ends."""
    out: list[str] = []
    for step in steps(pick(text, "zh")):
        step = re.sub(r"^[1-9][.)] ?", "", step)
        quoted = [c for c in _QUOTED.findall(step) if re.match(rf"(?:[A-Z_]+=\S+ )?(?:{_TOOLS})\b", c)]
        for found in quoted or _COMMAND.findall(step):
            for one in re.split(r";\s+(?=(?:" + _TOOLS + r")\b)", found):
                command = one.strip().strip(".;,:()").strip()
                whole = command.count("(") == command.count(")")  # else a piece of a loop
                if whole and command not in out and (" " in command or command in ("dmesg", "lspci", "env", "nproc")):
                    out.append(command)
    return out


def evidence_text(evidence: Sequence[Evidence], lang: str) -> str:
    """``source:line: text`` of each."""
    return "\n".join(f"{at_text(e, lang)}: {redact(safe(e.text))}".rstrip(": ") for e in evidence)


def parts_of(
    diagnosis: Diagnosis | None, finding: Finding | None, about: dict[str, Text], place: str, lang: str
) -> list[Part]:
    """What can be taken of a diagnosis, or of a finding with the texts of its rule."""
    thing = diagnosis or finding
    if thing is None:
        return []
    rule = diagnosis.rule if diagnosis is not None else finding.id if finding is not None else ""
    cause = diagnosis.cause if diagnosis is not None else about.get("cause", {})
    todo = diagnosis.next if diagnosis is not None else about.get("next", {})
    fixes = [fix.text for fix in diagnosis.fixes] if diagnosis is not None else [about.get("fix", {})]

    def clean(text: str) -> str:
        return redact("\n".join(safe(line) for line in text.split("\n")))

    title = clean(pick(thing.title, lang))
    words = [f"{title} ({', '.join(w for w in (rule, place) if w)})", clean(pick(cause, lang))]
    out = [Part(tr(lang, "cause"), "\n".join(w for w in words if w.strip()))]
    if thing.evidence:
        first = thing.evidence[0]
        near = evidence_text([first._replace(source=first.source.rpartition("/")[2])], lang)
        out.append(Part(tr(lang, "evidence"), evidence_text(thing.evidence, lang), near))
    if pick(todo, lang).strip():
        out.append(Part(tr(lang, "next"), "\n".join(steps(clean(pick(todo, lang))))))
    out += [Part(tr(lang, "fix"), clean(pick(text, lang))) for text in fixes if pick(text, lang).strip()]
    out += [Part(tr(lang, "tui.part.command"), clean(command)) for command in commands(todo)]
    return out
