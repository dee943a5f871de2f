"""What stands in a shell script before the training begins: exported variables, the options of the launcher, and marks
of a word processor where the shell wants its own.

Nothing is run. Only what is written as a literal, or comes from a literal of the same script, is judged. What msrun
itself refuses is told by the checks of the launch (``checks/network/launch.py``); here are the rest and torchrun.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from doctor.plan import fill, megatron
from doctor.plan.spelling import distance, letters

_NAME = re.compile(r"[A-Za-z_]\w*")
_SET = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_INT = re.compile(r"[+-]?\d{1,12}", re.ASCII)
_IP = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_](?:[\w.-]{0,250}[A-Za-z0-9_])?", re.ASCII)
_CARDS = re.compile(r"\d{1,4}(?:-\d{1,4})?(?:,\d{1,4}(?:-\d{1,4})?)*,?", re.ASCII)

NUMBERS = {
    "TASK_QUEUE_ENABLE": (0, 2), "CUDA_DEVICE_MAX_CONNECTIONS": (1, 32), "OMP_NUM_THREADS": (1, 4096),
    "MS_SCHED_PORT": (1, 65535), "MASTER_PORT": (1, 65535), "MS_WORKER_NUM": (1, 10**7), "GLOG_v": (0, 4),
    "ASCEND_GLOBAL_LOG_LEVEL": (0, 4), "ASCEND_LAUNCH_BLOCKING": (0, 1), "COMBINED_ENABLE": (0, 1),
    "ASCEND_SLOG_PRINT_TO_STDOUT": (0, 2), "MS_NODE_ID": (0, 10**7), "RANK_SIZE": (1, 10**7), "NNODES": (1, 10**6),
    "NPUS_PER_NODE": (1, 64), "GPUS_PER_NODE": (1, 64),
}  # fmt: skip
"""Variables that are whole numbers, with their range (hiascend environment variables of torch_npu and CANN; MindSpore
``docs/api/env_var_list``; torchrun)."""
WORDS = {
    "MS_ROLE": ("MS_SCHED", "MS_WORKER", "MS_PSERVER"),
}
PAIRS = {
    "PYTORCH_NPU_ALLOC_CONF": ("max_split_size_mb", "garbage_collection_threshold", "expandable_segments",
                               "base_addr_aligned_kb", "page_size", "multi_stream_lazy_reclaim",
                               "segment_size_mb", "roundup_power2_divisions"),
    "MS_ALLOC_CONF": ("enable_vmm", "vmm_align_size", "memory_tracker", "memory_tracker_path", "simple_tracker",
                      "acl_allocator", "somas_whole_block", "enable_dump_memory", "memory_recycle", "memory_replay"),
}  # fmt: skip
"""Variables made of ``key:value`` parts, with the keys their reader knows; another key is only told when it is one or
two letters away from one of these."""
INTERFACES = ("HCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
HOSTS = ("MASTER_ADDR", "MS_SCHED_HOST")
KNOWN = (*NUMBERS, *WORDS, *PAIRS, *INTERFACES, *HOSTS, "ASCEND_RT_VISIBLE_DEVICES", "HCCL_CONNECT_TIMEOUT",
         "HCCL_EXEC_TIMEOUT", "HCCL_BUFFSIZE", "HCCL_IF_IP", "HCCL_IF_BASE_PORT", "HCCL_DETERMINISTIC",
         "HCCL_WHITELIST_DISABLE", "HCCL_ALGO", "HCCL_OP_EXPANSION_MODE", "RANK_TABLE_FILE", "MS_NODE_TIMEOUT",
         "MS_ENABLE_LCCL", "MS_DEV_RUNTIME_CONF", "MS_COMPILER_CACHE_ENABLE", "ASCEND_PROCESS_LOG_PATH",
         "LD_LIBRARY_PATH", "CPU_AFFINITY_CONF", "DEVICE_ID", "RANK_ID", "WORLD_SIZE")  # fmt: skip
"""Variables that training on Ascend reads; one of them written almost right is read by nobody."""
LEAST = 10
"""Length from which a name two letters away from a known one is a slip."""

TORCHRUN = fill.words("""
nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone max-restarts monitor-interval start-method
role module no-python run-path log-dir redirects tee local-ranks-filter node-rank master-addr master-port local-addr
logs-specs event-log-handler numa-binding signals-to-handle virtual-local-rank use-env
""")
"""Options of torchrun (torch/distributed/run.py) and torch.distributed.launch."""
SWITCH_OPTIONS = fill.words("standalone module no-python run-path use-env virtual-local-rank")
RUN_MODES = ("train", "finetune", "eval", "predict", "export", "train_with_eval")
RUN_OPTIONS = fill.words("""
config run-mode task mode do-eval train-dataset-dir eval-dataset-dir dataset-dir predict-data modal-type adapter-id
predict-length predict-batch do-sample load-checkpoint src-strategy-path-or-dir auto-trans-ckpt transform-process-num
only-save-strategy strategy-load-checkpoint remote-save-url use-parallel resume-training profile options output-dir
epochs batch-size gradient-accumulation-steps sink-mode num-samples device-id device-target vocab-file merges-file
register-path tokenizer-dir trust-remote-code data-parallel model-parallel pipeline-stage micro-batch-num
use-past paged-attention batch top-k top-p temperature optimizer-state-checkpoint
pretrained-model-dir use-legacy-format mindie-config seed save-file hf-config-path infer-data
checkpoint expert-parallel
""")
"""Options of run_mindformer.py of 1.0 to 2.1, and words of its ``--options``."""
SWITCHES = ("use-parallel", "auto-trans-ckpt", "resume-training", "do-eval", "profile", "only-save-strategy",
            "sink-mode", "do-sample", "trust-remote-code")  # fmt: skip
YES_NO = ("true", "false", "1", "0", "yes", "no", "y", "n", "t", "f")

_MARKS = (
    re.compile(r"(?:^|\s)[\u2010-\u2015\u2212\uff0d]{1,2}[A-Za-z][\w-]{1,60}"),
    re.compile(r"(?:^|\s)[A-Za-z_]\w{0,60}=[\u201c\u201d\u2018\u2019]"),
    re.compile(r"(?:^|\s)--?[A-Za-z][\w-]{1,60}[ =]?[\u201c\u201d\u2018\u2019]"),
    re.compile(r"(?:^|\s)(?:--[A-Za-z][\w-]{1,60}|export|[A-Za-z_]\w{0,60}=\S{0,80})[\u3000\u00a0]"),
    re.compile(r"(?:^|\s)--[A-Za-z][\w-]{1,60}[ =][\w./-]{1,80}[\uff0c\uff1b\uff1a]"),
    re.compile(r"(?:^|\s)[A-Za-z_]\w{0,60}\uff1d\S"),
)
_REMARK = re.compile(r"(?:^|\s)#.*$")
_HAN = re.compile(r"[\u3400-\u9fff]")
_FIRST_MARK = re.compile(
    r"^\s*(?:export\s+)?(?:[A-Za-z_]\w{0,60}=|--[A-Za-z][\w-]{1,60}[ =])[\u201c\u201d\u2018\u2019]"
)
_PLAIN = {
    "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u3000": " ", "\u00a0": " ", "\uff0c": ",",
    "\uff1b": ";", "\uff1a": ":", "\uff1d": "=",
}  # fmt: skip
_SAYS = re.compile(r"\s*(?:#|echo\b|printf\b|:\s)")


class Setting(NamedTuple):
    """A variable: its value, "" with ``open`` where only the running shell knows it, and its line; ``changed`` where
    the script sets it to several values, of which a command may see any."""

    value: str
    line: int
    open: bool = False
    changed: bool = False


def check(text: str, notes: fill.Notes) -> None:
    """Note what is wrong with the exports, the launcher and the marks of a script."""
    marks(text, notes)
    given = _exports(text, notes)
    _variables(given, text, notes)
    for words in megatron.commands(text):
        _command(
            [(megatron.unmarked(w.text), (w.line, megatron.assigned(w.text) or w.line)) for w in words], given, notes
        )
    _loop(text, given, notes)


def marks(text: str, notes: fill.Notes) -> None:
    """Curly quotes, long dashes, wide blanks and commas where the shell wants plain ones."""
    if text.isascii():
        return
    for number, line in enumerate(megatron.without_documents(text).split("\n"), 1):
        if line.isascii() or _SAYS.match(line) or len(line) > 20_000:
            continue
        line = _REMARK.sub("", line)
        # a sentence in Chinese is a message, unless the mark opens the value of an option or a variable
        patterns = (_FIRST_MARK,) if _HAN.search(line) else _MARKS
        for pattern in patterns:
            found = pattern.search(line)
            if not found:
                continue
            word = found[0].strip()
            odd = next((char for char in word if not char.isascii()), found[0][-1])
            notes.add("file.foreign_marks", f"{odd!r} U+{ord(odd):04X}", number)
            right = re.sub(r"^[\u2010-\u2015\u2212\uff0d]{1,2}", "--", word)
            right = "".join(_PLAIN.get(char, char) for char in right)
            notes.slips.append((number, word, right))
            break


def _exports(text: str, notes: fill.Notes) -> dict[str, Setting]:
    """Every variable that is set to a literal, the last value; what ``export`` cannot take is noted."""
    shell = megatron.Shell()
    found: dict[str, Setting] = {}
    for statement in megatron.words_of(text):
        words = list(statement)
        exported = False
        while words and words[0].text in ("export", "declare", "-x", "env", "do", "then", "else"):
            exported = exported or words[0].text == "export"
            words.pop(0)
        if exported and words:
            _export(words, text, notes)
        elif len(words) == 2 and distance(words[0].text[:20], "export") == 1 and _SET.fullmatch(words[1].text):
            notes.add("file.bad_exports", f"{words[0].text} (export)", words[0].line)
        elif len(words) == 2 and words[0].text in ("set", "setenv") and _SET.fullmatch(words[1].text):
            notes.add("file.bad_exports", f"{words[0].text} {words[1].text} (export)"[:80], words[0].line)
        elif len(words) > 1 and words[1].text == "=" and re.fullmatch(r"[A-Z][A-Z0-9_]{1,60}", words[0].text):
            notes.add("file.bad_exports", f"{words[0].text} =", words[0].line)
        for word in words:
            made = _SET.fullmatch(word.text) if word.array is None else None
            if made is None:
                break
            shell.assign(word)
            value = megatron.unmarked(" ".join(w.text for w in shell.values.get(made[1], ())))
            setting = Setting(value.strip(), word.line, "$" in value or "`" in value)
            _variable(made[1], setting, notes)
            before = found.get(made[1])
            changed = before is not None and (before.changed or before.value != setting.value)
            found[made[1]] = setting._replace(changed=changed)
    return found


def _indirect(name: str, text: str) -> bool:
    """Whether a script gives a variable a value that may be the name of another one."""
    return bool(
        re.search(
            rf"(?<![$\w{{]){name}\+?=|\bfor[ \t]+{name}\b|\b(?:read|local|declare|mapfile)\b[^\n]{{0,300}}\b{name}\b",
            text,
        )
    )


def _export(words: list[megatron.Word], text: str, notes: fill.Notes) -> None:
    first = words[0].text
    if first.startswith("$") and "=" in first:
        made = re.match(r"\$\{?([A-Za-z_]\w{0,60})\}?=", first)
        # export $(…) and export $key=value of a loop name what they set
        if made and not _indirect(made[1], text):
            notes.add("file.bad_exports", first.partition("=")[0], words[0].line)
        return
    for n, word in enumerate(words):
        if word.text == "=" or (n and word.text.startswith("=")):
            notes.add("file.bad_exports", f"{words[n - 1].text} =" if n else "=", word.line)
            return
        if word.text in ("1", "2") and re.search(r"[ \t][12]>", notes.text(word.line)):
            continue
        if n and re.fullmatch(r"\d[\w.]*", word.text):
            notes.add("file.bad_exports", f"{words[n - 1].text} {word.text}"[:80], word.line)
            return
        if n and words[n - 1].text.endswith("=") and not _NAME.match(word.text) and "$" not in word.text:
            notes.add("file.bad_exports", f"{words[n - 1].text} {word.text}"[:80], word.line)
            return


def host_fault(text: str) -> bool:
    """Whether a text can be no address of a host: an IP with a wrong part, a port or a scheme in it, odd characters."""
    if text.startswith("[") or text.count(":") > 1:
        return not re.fullmatch(r"\[?[0-9A-Fa-f:.%\w]{2,60}\]?", text)
    if _IP.fullmatch(text):
        return any(int(part) > 255 for part in text.split("."))
    return not _HOST.fullmatch(text) or ".." in text or re.fullmatch(r"[\d.]+", text) is not None


def _variable(name: str, setting: Setting, notes: fill.Notes) -> None:
    """One assignment of a known variable."""
    value, line = setting.value, setting.line
    if not value or setting.open:
        return
    if value[0] == "#":
        notes.add("file.bad_exports", f"{name}={fill.shown(value)}", line)
    if name in NUMBERS:
        low, high = NUMBERS[name]
        if not _INT.fullmatch(value) or not low <= int(value) <= high:
            notes.add("file.bad_exports", f"{name}={fill.shown(value)} ({low}-{high})", line)
    elif name in WORDS and value not in WORDS[name]:
        notes.add("file.bad_exports", f"{name}={fill.shown(value)} ({', '.join(WORDS[name])})", line)
    elif name in PAIRS and (fault := _pairs(value, PAIRS[name])):
        notes.add("file.bad_exports", f"{name}={fill.shown(value)} ({fault})", line)
    elif name in INTERFACES and (_IP.fullmatch(value) or re.search(r"[;\s/]", value)):
        notes.add("file.bad_exports", f"{name}={fill.shown(value)} (eth0)", line)
    elif name in HOSTS and host_fault(value):
        notes.add("file.bad_launch", f"{name}={fill.shown(value)}", line)
    elif name == "ASCEND_RT_VISIBLE_DEVICES" and not _CARDS.fullmatch(value):
        notes.add("file.bad_exports", f"{name}={fill.shown(value)} (0,1,2,3)", line)


def _variables(given: dict[str, Setting], text: str, notes: fill.Notes) -> None:
    """Names that nobody reads on Ascend."""
    for name, setting in given.items():
        value, line = setting.value, setting.line
        if not value or setting.open:
            continue
        if name == "CUDA_VISIBLE_DEVICES" and _ascend(given, text):
            # a branch may be for GPUs
            if notes.text(line)[:1].isspace():
                continue
            notes.add("file.bad_exports", "CUDA_VISIBLE_DEVICES (ASCEND_RT_VISIBLE_DEVICES)", line)
        elif name not in KNOWN:
            meant = _meant(name)
            # one that the script itself uses is a name of its own
            own = re.search(rf"\$\{{?!?{name}\b", text)
            if meant and meant not in given and not own:
                notes.add("file.bad_exports", f"{name} ({meant})", line)


_GPU = re.compile(r"nvidia|device_target[ =]+[\"']?GPU|\bNCCL_[A-Z]")


def _ascend(given: dict[str, Setting], text: str) -> bool:
    """Whether a script is for Ascend alone, and does not choose its devices as Ascend does."""
    if "ASCEND_RT_VISIBLE_DEVICES" in given or _GPU.search(text):
        return False
    return any(name.startswith(("HCCL_", "ASCEND_", "PYTORCH_NPU_", "NPU_")) for name in given)


def _pairs(value: str, known: tuple[str, ...]) -> str:
    for part in value.split(","):
        key, colon, rest = part.strip().partition(":")
        if not colon or not rest:
            return "key:value"
        near = [k for k in known if k != key and distance(key[:60], k) <= 2]
        if key not in known and near:
            return near[0]
    return ""


def _meant(name: str) -> str:
    """The known variable that a name most likely means: the same letters, or two letters off."""
    if name.islower() and name.upper() in KNOWN:
        return name.upper() if name.startswith(("hccl_", "ascend_", "ms_", "task_", "pytorch_npu")) else ""
    if not name.startswith(("HCCL_", "ASCEND_", "MS_", "PYTORCH_NPU", "GLOO_", "TASK_", "CUDA_DEVICE", "MASTER_")):
        return ""
    for known in KNOWN:
        if letters(known) == letters(name) or (
            len(name) >= LEAST and abs(len(name) - len(known)) <= 3 and distance(name[:60], known) <= 2
        ):
            return known
    return ""


def _command(words: list[tuple[str, tuple[int, int]]], given: dict[str, Setting], notes: fill.Notes) -> None:
    """One command: the options of its launcher, and those of run_mindformer.py."""
    at = next((n for n, (text, _) in enumerate(words) if os.path.basename(text) in _LAUNCHERS), -1)
    module = [n for n, (text, _) in enumerate(words) if text in ("torch.distributed.launch", "torch.distributed.run")]
    if at < 0 and module:
        at = module[0]
    if at >= 0:
        name = os.path.basename(words[at][0])
        if name == "msrun_launcher.sh":
            _launcher(words[at + 1 :], notes)
        else:
            _options(name, words[at + 1 :], given, notes)
    script = next((n for n, (text, _) in enumerate(words) if os.path.basename(text) == "run_mindformer.py"), -1)
    if script >= 0:
        _run_options(words[script + 1 :], notes)
    elif at >= 0 and len(words) > at + 1 and "run_mindformer.py" in words[at + 1][0]:
        line = words[at + 1][1][0]
        inner = [(text, (line, line)) for text in words[at + 1][0].split()]
        _run_options(inner[1:], notes)


_LAUNCHERS = ("msrun", "torchrun", "msrun_launcher.sh")


def _options(name: str, words: list[tuple[str, tuple[int, int]]], given: dict[str, Setting], notes: fill.Notes) -> None:
    """Numbers and addresses of msrun and torchrun, and options that torchrun does not have."""
    found: dict[str, tuple[str, int]] = {}
    n, hidden = 0, False
    while n < len(words):
        text, (line, source) = words[n]
        n += 1
        if not text.startswith("-"):
            hidden = hidden or "$" in text
            if "$" in text:
                continue
            before = words[n - 2][0] if n > 1 else ""
            if text.isdigit() or (before.isdigit() and re.fullmatch(r"cards?|npus?|gpus?|nodes?|workers?", text)):
                notes.add("file.bad_launch", text[:40], line)
            break
        key, equals, value = text.lstrip("-").partition("=")
        key = key.replace("_", "-")
        if not text.startswith("--") and name != "msrun" and len(key) > 2 and key in TORCHRUN:
            notes.add("file.unknown_options", f"{text.partition('=')[0]} (--{key})", line)
        if not equals and key not in SWITCH_OPTIONS and n < len(words):
            value, (_, source) = words[n]
            n += 1
        if name != "msrun" and text.startswith("--") and not any(known.startswith(key) for known in TORCHRUN):
            near = min(TORCHRUN, key=lambda known: distance(key[:40], known))
            if distance(key[:40], near) <= 2:
                notes.add("file.unknown_options", f"{text.partition('=')[0]} (--{near})", line)
                notes.slips.append((line, text.lstrip("-").partition("=")[0], near))
            continue
        if value and "$" not in value and "`" not in value:
            found[key] = (value.strip("'\""), source)
    _numbers(name, found, given, notes, hidden=hidden)


def _numbers(
    name: str, found: dict[str, tuple[str, int]], given: dict[str, Setting], notes: fill.Notes, *, hidden: bool
) -> None:
    def number(*keys: str) -> tuple[int, int] | None:
        text, line = next((found[key] for key in keys if key in found), ("", 0))
        return (int(text), line) if _INT.fullmatch(text) else None

    if "master-addr" in found and host_fault(found["master-addr"][0]):
        notes.add("file.bad_launch", f"--master_addr {fill.shown(found['master-addr'][0])}", found["master-addr"][1])
    for key, words in (("nproc-per-node", ("auto", "gpu", "cpu", "npu")), ("node-rank", ()), ("nnodes", ())):
        text, line = found.get(key, ("", 0))
        if name != "msrun" and text and text not in words and not re.fullmatch(r"\d{1,9}(?::\d{1,9})?", text):
            notes.add("file.bad_launch", f"--{key.replace('-', '_')} {fill.shown(text)}", line)
    port = number("master-port")
    if name != "msrun" and "master-port" in found and (port is None or not 1 <= port[0] <= 65535):
        notes.add("file.bad_launch", f"--master_port {fill.shown(found['master-port'][0])}", found["master-port"][1])
    rank = number("node-rank")
    workers, local = number("worker-num"), number("local-worker-num")
    nodes = number("nnodes")
    if name == "msrun" and local is not None and local[0] < 1:
        notes.add("file.bad_launch", f"--local_worker_num {local[0]}", local[1])
    elif workers and local and local[0] > 0 and workers[0] > local[0]:
        if workers[0] % local[0] and not hidden:
            notes.add("file.bad_launch", f"--worker_num {workers[0]}, --local_worker_num {local[0]}", local[1])
        nodes = (-(-workers[0] // local[0]), workers[1])
    elif name == "msrun" and workers and local and workers[0] == local[0]:
        nodes = (1, workers[1])
    if rank and nodes and nodes[0] > 0 and rank[0] >= nodes[0]:
        notes.add("file.bad_launch", f"--node_rank {rank[0]} ({nodes[0]})", rank[1])
    face = given.get("HCCL_SOCKET_IFNAME")
    if face and not face.changed and face.value == "lo" and nodes and nodes[0] > 1:
        notes.add("file.bad_launch", f"HCCL_SOCKET_IFNAME=lo ({nodes[0]})", face.line)
    timeout = number("cluster-time-out")
    if timeout and timeout[0] < 1:
        notes.add("file.bad_launch", f"--cluster_time_out {timeout[0]}", timeout[1])
    each, cards = number("nproc-per-node"), given.get("ASCEND_RT_VISIBLE_DEVICES")
    if each and cards and not cards.changed and _CARDS.fullmatch(cards.value) and "-" not in cards.value:
        shown = len({part for part in cards.value.split(",") if part})
        if each[0] > shown:
            notes.add("file.bad_launch", f"--nproc_per_node {each[0]} (ASCEND_RT_VISIBLE_DEVICES={cards.value})",
                      cards.line)  # fmt: skip


NINE = 9
"""Arguments of the long form: command, workers, local workers, address, port, rank of the node, folder, join, time."""


def _launcher(words: list[tuple[str, tuple[int, int]]], notes: fill.Notes) -> None:
    """Arguments of msrun_launcher.sh in its long form; the command is one quoted word, which the shell's expansion has
    split here, so they are counted from the end."""
    tail = [(text, source) for text, (_, source) in words]
    while tail and (tail[-1][0].startswith((">", "2>", "|", "&")) or tail[-1][0] == "1"):
        tail.pop()
    if len(tail) < NINE:
        return
    workers, local, address, port, rank, _, join, timeout = tail[-8:]
    if join[0] not in ("True", "False", "true", "false") or not _INT.fullmatch(timeout[0]):
        return
    values = [text for text, _ in (workers, local, rank)]
    if any("$" in text for text, _ in tail[-8:]) or not all(_INT.fullmatch(text) for text in values):
        return
    total, each, node = (int(text) for text in values)
    if host_fault(address[0]) or not _INT.fullmatch(port[0]):
        notes.add("file.bad_launch", f"{address[0]} {port[0]}"[:80], address[1])
    elif each < 1 or total < each or total % each:
        notes.add("file.bad_launch", f"{total} {each}", workers[1])
    elif node >= total // each:
        notes.add("file.bad_launch", f"node_rank {node} ({total // each})", rank[1])


def _run_options(words: list[tuple[str, tuple[int, int]]], notes: fill.Notes) -> None:
    """Words of run_mindformer.py: its switches, run modes, and options one letter away from one it has."""
    for n, (text, (line, _)) in enumerate(words):
        if not text.startswith("--"):
            continue
        name, equals, value = text[2:].partition("=")
        name = name.replace("_", "-")
        if not equals and n + 1 < len(words):
            value, (line, _) = words[n + 1]
        if not value or "$" in value:
            value = ""
        if name not in RUN_OPTIONS:
            near = [known for known in RUN_OPTIONS if distance(name[:60], known) == 1]
            if near and not any(known.startswith(name) for known in RUN_OPTIONS):
                right = near[0].replace("-", "_")
                notes.add("file.unknown_options", f"{text.partition('=')[0]} (--{right})", line)
        elif name == "run-mode" and value and value not in RUN_MODES:
            notes.add("file.unknown_words", f"--run_mode {fill.shown(value)}", line)
        elif name in SWITCHES and value and not value.startswith("-") and value.lower() not in YES_NO:
            notes.add("file.wrong_types", text.partition("=")[0], line)


_FOR = re.compile(r"for\s*\(\(\s*(\w+)\s*=\s*0\s*;\s*\1\s*<\s*(\d{1,6})\s*;")
_SEQ = re.compile(r"for\s+(\w+)\s+in\s+(?:\$\(seq 0 (\d{1,6})\)|\{0\.\.(\d{1,6})\})")


def _loop(text: str, given: dict[str, Setting], notes: fill.Notes) -> None:
    """A loop that starts another number of workers than MS_WORKER_NUM, or all of them on one device."""
    workers = given.get("MS_WORKER_NUM")
    if workers is None or not _INT.fullmatch(workers.value) or "MS_WORKER" not in text:
        return
    found = _FOR.search(text)
    sequence = _SEQ.search(text) if not found else None
    if not found and not sequence:
        return
    start = (found or sequence).start()  # type: ignore[union-attr]
    count = int(found[2]) if found else int(sequence[2] or sequence[3]) + 1  # type: ignore[index]
    name = found[1] if found else sequence[1]  # type: ignore[index]
    line = text.count("\n", 0, start) + 1
    body = text[start : text.find("\ndone", start) if "\ndone" in text[start:] else len(text)]
    if "MS_WORKER" not in body or "MS_SCHED_HOST" not in text:
        return
    if count > int(workers.value) or (count < int(workers.value) and "127.0.0.1" in text):
        notes.add("file.bad_launch", f"MS_WORKER_NUM={workers.value}, {count}", line)
    device = re.search(r"DEVICE_ID=(\d+)", body)
    if device and count > 1 and f"${name}" in body:
        notes.add("file.bad_launch", f"DEVICE_ID={device[1]}", line + body.count("\n", 0, device.start()))
