"""Commands of a shell script that old advice recommends and that fail, do nothing or do harm.

Nothing is run. A script is looked at only when it names a tool, variable or package of this field at all; a line that
prints or searches (``echo``, ``grep``) is no command.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from doctor.plan import fill, megatron
from doctor.plan.schema import Plan, Value

NAMES = ("reset", "opened", "smi_words", "modules", "old_paths", "whitelist", "verbose", "absent_pins", "table_start",
         "launch_module", "launch_options", "table_options", "msprof_options", "docker_lacks", "docker_driver",
         "docker_all")  # fmt: skip
"""What is looked for; ``shell.<name>`` is the list of what stands there."""

MOST = 20
"""Places that are kept of one kind."""

SMI_WORDS = frozenset(("info", "set", "upgrade", "clear", "-h", "-v", "--help", "--version"))
"""First words that npu-smi knows (its help text)."""
TABLE_OPTIONS = frozenset(("device-num", "visible-devices", "server-ip", "device-num-per-node", "help"))
"""Options of hccl_tools.py in mindspore-ai/models and mindformers 1.x."""
MSPROF_OLD = frozenset(("subgraph", "data-process", "training-trace", "hccl-trace"))
LAUNCH_OLD = frozenset(("distribute", "log-level"))

_MARK = re.compile(
    r"msrun|npu-smi|hccl_tools|msprof|mindformer|HCCL_|ASCEND_|davinci|hisi_hdc|devmm_svm|mindspore|RANK_TABLE|"
    r"fwkacllib|himix|GLOG_v|--tensor-model-parallel-size|torchrun|torch.distributed|MS_WORKERS?_NUM|MS_ROLE|MS_SCHED|PYTORCH_NPU|MS_ALLOC"
)
_SET = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PIN = re.compile(r"mindspore==2\.[1-6](?:\.\d+)*(?:rc\d+)?")
_DEVICE = re.compile(r"/dev/(?:davinci|hisi_hdc|devmm_svm)[^\s]{0,60}")
_OPEN = re.compile(r"0?[0-7]?[67][67][67]|(?:a|ugo|go|o|ug?o)?\+[rwx]{2,3}|a=rwx?")
_CARD = re.compile(r"/dev/davinci\d{1,3}(?::.*)?")
_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
"""Device nodes that every container with an NPU needs beside those of its cards (installation guides of CANN)."""
_HIDDEN = re.compile(r"\$[{(]?\w*(?i:dev|opt|arg|param|mount|npu|vol|flag)")
"""A variable that may hold more options of the container."""
_QUIET = frozenset(("echo", "printf", "grep", "cat", "sed", "awk", "find", "rg", "egrep", "read", "usage"))
_BEFORE = frozenset(("export", "env", "sudo", "then", "do", "else", "if", "elif", "while", "nohup", "exec", "time",
                     "declare", "-x", "-E"))  # fmt: skip


class Notes(NamedTuple):
    """What was found: kind to (what, line)."""

    found: dict[str, list[tuple[str, int]]]

    def add(self, name: str, what: str, line: int) -> None:
        """One place, bounded."""
        rows = self.found.setdefault(name, [])
        if len(rows) < MOST and (what, line) not in rows:
            rows.append((what, line))


def read(path: str, text: str) -> Plan | None:
    """A plan that holds nothing but ``shell.*``, None for a script that has nothing to do with this field."""
    if not _MARK.search(text):
        return None
    plan = Plan("shell", path)
    plan.put("file.problem", Value("", "derived", whose="the file was read"))
    into(plan, path, text)
    return plan


def starts_container(text: str) -> bool:
    """Whether a container is started anywhere in a text."""
    return bool(re.search(r"\b(?:docker|podman|nerdctl)\s+(?:container\s+)?run\b", text))


def into(plan: Plan, path: str, text: str) -> None:
    """Put what stands in a script into ``shell.*`` of its plan; a list without entries is empty."""
    lines = text.splitlines()
    line = megatron.open_quote(text) if "<<" not in text and "case " not in text else 0
    opened = Value([], "derived", whose="the whole file")
    if line:
        shown = lines[line - 1].strip()[:300] if line <= len(lines) else ""
        opened = Value([shown or '"'], "set", path, line, "", shown)
    plan.put("file.open_quotes", opened)
    _launch(plan, text)
    found = scan(text).found
    for name in NAMES:
        rows = found.get(name, [])
        value = Value([], "derived", whose="the whole file")
        if rows:
            spots = tuple((line, lines[line - 1].strip()[:300] if 0 < line <= len(lines) else "") for _, line in rows)
            seen = list(dict.fromkeys(what for what, _ in rows))
            value = Value(seen, "set", path, rows[0][1], seen[0], spots[0][1], "", spots)
        plan.put("shell." + name, value)


LAUNCH = ("foreign_marks", "bad_exports", "bad_launch", "unknown_options", "unknown_words", "wrong_types")
"""Lists of ``file.*`` that the launch of a script adds to."""


def _launch(plan: Plan, text: str) -> None:
    """Put what is wrong with the exports and the launcher beside what the reader of the training command noted."""
    from doctor.plan import launching

    notes = fill.Notes(text.splitlines())
    for name in LAUNCH:
        before = plan.values.get("file." + name)
        for key, (line, _) in zip(before.value, before.spots, strict=False) if before is not None else ():
            notes.add("file." + name, key, line)
    launching.check(text, notes)
    made = Plan(str(plan.get("file.kind")), plan.file)
    notes.into(made)
    for name in LAUNCH:
        plan.put("file." + name, made.values["file." + name])
    plan.slips = [*plan.slips, *notes.slips]


def scan(text: str) -> Notes:
    """What stands in the text of a script."""
    notes = Notes({})
    variables: dict[str, tuple[str, int]] = {}
    for statement in megatron.words_of(text):
        for word in statement:
            if word.text in _BEFORE:
                continue
            given = _SET.fullmatch(word.text) if word.array is None else None
            if given is None:
                break
            variables[given[1]] = (given[2], word.line)
    _variables(notes, variables)
    launched = False
    for words in megatron.commands(text):
        plain = [(megatron.unmarked(word.text), word.line) for word in words]
        while plain and (plain[0][0] in _BEFORE or _SET.fullmatch(plain[0][0])):
            plain.pop(0)
        if plain and any(text == "himix_dcg" for text, _ in plain[1:]):
            # lsmod | grep MODULE
            notes.add("modules", "himix_dcg", plain[0][1])
        if not plain or plain[0][0] in _QUIET:
            continue
        launched = launched or any(os.path.basename(w) in ("msrun", "msrun_launcher.sh") for w, _ in plain)
        _command(notes, plain, words)
    if launched:
        notes.found.pop("table_start", None)
    return notes


def _container(notes: Notes, texts: list[str], line: int) -> None:
    """What a command that starts a container hands in of the NPUs. One that leaves it to a runtime is not judged."""

    def given(*options: str) -> list[str]:
        found = []
        for n, text in enumerate(texts):
            name, equals, value = text.partition("=")
            if name in options:
                found.append(value if equals else texts[n + 1] if n + 1 < len(texts) else "")
        return found

    devices = given("--device")
    cards = [text for text in devices if _CARD.fullmatch(text)]
    whole = not {"--privileged", "--privileged=true"}.isdisjoint(texts)
    runtime = given("--runtime") or any("ASCEND_VISIBLE_DEVICES" in text for text in texts)
    if not cards or runtime or any(_HIDDEN.match(text) for text in texts):
        return
    if whole:
        notes.add("docker_all", cards[0].split(":")[0], line)
    else:
        for node in _NODES:
            if not any(text.split(":")[0] == node for text in devices):
                notes.add("docker_lacks", node, line)
    mounts = given("-v", "--volume", "--mount")
    if mounts and not any(re.search(r"/Ascend(?:/driver)?(?:[/:,]|$)|/usr/local(?:[:,]|$)", text) for text in mounts):
        notes.add("docker_driver", "/usr/local/Ascend/driver", line)


def _variables(notes: Notes, variables: dict[str, tuple[str, int]]) -> None:
    def of(name: str) -> tuple[str, int]:
        return variables.get(name, ("", 0))

    value, line = of("HCCL_WHITELIST_DISABLE")
    if value == "0" and not of("HCCL_WHITELIST_FILE")[0]:
        notes.add("whitelist", "HCCL_WHITELIST_DISABLE=0", line)
    for name in ("ASCEND_GLOBAL_LOG_LEVEL", "GLOG_v"):
        value, line = of(name)
        if value in ("0", "1"):
            notes.add("verbose", f"{name}={value}", line)
    for name in ("RANK_TABLE_FILE", "HCCL_CONFIG_PATH", "MINDSPORE_HCCL_CONFIG_PATH"):
        value, line = of(name)
        if value:
            notes.add("table_start", name, line)
    for name, (value, line) in variables.items():
        if "fwkacllib" in value:
            notes.add("old_paths", name, line)


def _command(notes: Notes, plain: list[tuple[str, int]], words: list[megatron.Word]) -> None:
    first = os.path.basename(plain[0][0])
    line = plain[0][1]
    texts = [text for text, _ in plain]
    given = {name: option.line for name, option in megatron.options(words).items()}
    if first == "npu-smi" and len(texts) > 1:
        if texts[1] == "set" and "reset" in texts:
            notes.add("reset", "npu-smi set -t reset", line)
        elif texts[1] not in SMI_WORDS and "$" not in texts[1]:
            notes.add("smi_words", f"npu-smi {texts[1]}", line)
    elif first == "chmod":
        devices = [match[0] for text in texts if (match := _DEVICE.match(text))]
        if devices and any(_OPEN.fullmatch(text) for text in texts[1:]):
            notes.add("opened", devices[0], line)
    elif first == "msprof":
        for name in MSPROF_OLD & set(given):
            notes.add("msprof_options", "--" + name.replace("-", "_"), given[name])
    if "install" in texts and any(text in ("pip", "pip3") or text.endswith("/pip") for text in texts):
        elsewhere = any(text.startswith(("-i", "--index", "--extra-index", "-f", "--find-links")) for text in texts)
        for text, at in plain:
            if _PIN.fullmatch(text) and not elsewhere:
                notes.add("absent_pins", text, at)
    elif first in ("docker", "podman", "nerdctl") and "run" in texts[1:3]:
        _container(notes, texts, line)
    for n, (text, at) in enumerate(plain):
        name = os.path.basename(text)
        if text == "mindformers.launch" and n and plain[n - 1][0] == "-m":
            notes.add("launch_module", text, at)
        elif name == "run_mindformer.py":
            for option in LAUNCH_OLD & set(given):
                notes.add("launch_options", "--" + option.replace("-", "_"), given[option])
            mode = megatron.options(words).get("mode")
            if mode and mode.values and mode.values[0].isalpha():
                notes.add("launch_options", f"--mode {mode.values[0]}", mode.line)
        elif name == "hccl_tools.py" or text == "hccl_tools":
            for option in set(given) - TABLE_OPTIONS:
                notes.add("table_options", "--" + option.replace("-", "_"), given[option])
