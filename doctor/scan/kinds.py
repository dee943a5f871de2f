"""What kind of input is this? Splits a log, a paste or a file into segments by its content.

The work is done in three passes over the lines: ``_labeller`` gives each line a label from its own text, ``_blocks``
joins labels that mean little alone (table rows, JSON, YAML, Python) into blocks, ``_fill`` hands the lines that say
nothing to their neighbours and ``_smooth`` removes splits that would only fragment one log. Regular expressions are
compiled on first use, so that importing this module costs nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from doctor.scan.lazy import lazy

KINDS: tuple[str, ...] = (
    "ms_log",
    "scheduler_log",
    "launcher_log",
    "plog",
    "device_log",
    "traceback",
    "training",
    "npu_smi",
    "hccn_tool",
    "versions",
    "rank_table",
    "config",
    "python",
    "shell",
    "environment",
    "profile_csv",
    "profile_json",
    "dmesg",
    "python_log",
    "text",
    "document",
    "empty",
    "binary",
)
LOG_KINDS: frozenset[str] = frozenset(KINDS) - {
    "rank_table", "config", "python", "profile_csv", "profile_json", "document", "empty", "binary",
}  # fmt: skip

_MAX_LINE = 2048  # characters of one line that are looked at; prefixes and markers stand at its start or its end
_PYTEST_FRAME = r"[\w./+-]{1,300}\.py:\d{1,7}: in [\w<>.]{1,80}$"
_MS_FAMILY = frozenset({"ms_log", "scheduler_log", "launcher_log"})
_TOOLS = ("npu_smi", "hccn_tool")
# Kinds whose lines come out of one running program: they may be interleaved on one stream.
_STREAM = _MS_FAMILY | {"plog", "device_log", "traceback", "training", "python_log", "text"}


class Segment(NamedTuple):
    """A run of lines of one kind."""

    kind: str  # one of KINDS
    first_line: int  # 1-based, inclusive
    last_line: int  # inclusive
    start: int  # byte offset of the first line
    end: int  # byte offset after the last line, its line end included


class _Run(NamedTuple):
    kind: str
    first: int  # 0-based, inclusive
    last: int  # inclusive


def segments(name: str, data: bytes, *, complete: bool) -> tuple[Segment, ...]:
    """Split ``data`` into segments that cover every line once and in order; neighbours differ in kind.

    ``data`` is a whole small input, or the first bytes (at most 64 KiB are meant) of a large one with
    ``complete=False``. ``name`` is the file name or "" and only decides where the content leaves it open.
    Offsets count bytes of ``data`` as given. Never raises, whatever the bytes; time is linear in ``len(data)``.
    """
    if not data:
        return (Segment("empty", 1, 1, 0, 0),)
    if _is_binary(data):
        return (Segment("binary", 1, 1, 0, len(data)),)
    if not complete:
        quick = _bulk_log(data)
        if quick:
            return (Segment(quick, 1, data.count(b"\n") + 1, 0, len(data)),)
    lines, ends = split_lines(data)
    texts = [clean(line) if line else line for line in lines]
    if not any(text.strip() for text in texts):
        # A log that was rotated by copy and truncate starts with a hole of NULs: its text may follow later.
        return (Segment("empty" if complete else "text", 1, len(lines), 0, len(data)),)
    base = name.replace("\\", "/").rpartition("/")[2].lower()
    if _is_document(base, texts):
        return (Segment("document", 1, len(lines), 0, len(data)),)
    labels = _label_lines(texts)
    _inside_tracebacks(texts, labels)
    kinds = _blocks(base, texts, labels)
    runs = _smooth(base, texts, labels, _fill(base, texts, labels, kinds))
    return tuple(
        Segment(run.kind, run.first + 1, run.last + 1, ends[run.first - 1] if run.first else 0, ends[run.last])
        for run in runs
    )


_PAGE = lazy(
    r"(?:readme|change_?log|changes|contributing|code_of_conduct|security|authors|faqs?|release[_-]?notes?|roadmap|skill)"
    r"(?:[._-][a-z0-9_-]{1,20})?(?:\.(?:md|mdx|markdown|rst|txt))?$"
)
_HEADING = lazy(r" {0,3}#{1,6} +\S|(?:={4,}|-{4,}|~{4,})$")
_REPORT = lazy(
    r"(?i)#.{0,60}(?:\bbugs?\b|\bissue|\berror|\bfail|\bcrash|traceback|environment|reproduc|expected|actual|incident|post-?mortem"
    r"|\blogs?\b|报错|问题|现象|故障|日志|环境|复现|症状|现场|复盘|异常|失败)"
)


def _is_document(base: str, texts: Sequence[str]) -> bool:
    """Whether a file is a page of documentation: it tells of failures that may happen to others. Of such a name and
    with a heading; or Markdown with three headings, none of which is that of a report of a failure."""
    page = _PAGE.match(base)
    if not page and not base.endswith((".md", ".mdx", ".markdown", ".rst")):
        return False
    headings = sum(1 for text in texts if _HEADING.match(text))
    if page:
        return headings > 0
    return headings > 2 and not any(_REPORT.match(text) for text in texts)


_RECORDS = (b"[INFO] ", b"[WARNING] ", b"[ERROR] ", b"[DEBUG] ", b"[EVENT] ", b"[CRITICAL] ")


def _bulk_log(data: bytes) -> str:
    """The kind of a large file whose head is mostly glog records, "" if it is not; the parentheses tell MindSpore from
    CANN. Of a large file only the kind matters, and this needs no regular expression."""
    lines = data.split(b"\n", 200)[:200]
    heads = [line[:160] for line in lines if line.startswith(_RECORDS) and b"):2" in line[:160]]
    if len(heads) * 3 < len(lines) or b"meta_server_node" in data or b"process_entity" in data:
        return ""
    fields = [head[head.find(b"(") + 1 : head.find(b"):2")] for head in heads]
    own = sum(field.count(b",") > 1 or b":" in field for field in fields)
    if own == len(fields):
        return "ms_log"
    return "plog" if not own and all(f.count(b",") == 1 and f[:1].isdigit() for f in fields) else ""


_DIGITS = bytes.maketrans(b"123456789", b"000000000")


def _label_lines(texts: Sequence[str]) -> list[str]:
    """Label each line. Log lines repeat with other numbers, and no label depends on which digit it is."""
    label = _labeller()
    known: dict[str, str] = {"": "blank"}
    labels: list[str] = []
    shapes: Sequence[str] = texts
    if len(texts) > 64:
        # as bytes: str.translate costs ten times as much
        joined = "\n".join(texts).encode("utf-8", "surrogatepass").translate(_DIGITS)
        shapes = joined.decode("utf-8", "surrogatepass").split("\n")
    if len(shapes) != len(texts):  # a decoder made a line end out of junk
        shapes = texts
    for text, shape in zip(texts, shapes, strict=True):
        found = known.get(shape)
        if found is None:
            found = known[shape] = label(text)
        labels.append(found)
    return labels


# --- bytes to lines ---------------------------------------------------------------------------------------------------

_MAGIC = (
    b"\x7fELF", b"\x89PNG", b"\x89HDF", b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd",
    b"\x93NUMPY", b"\xff\xd8\xff", b"GIF8", b"%PDF", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05",
    b"SQLite format", b"\xca\xfe\xba\xbe", b"MZ\x90",
)  # fmt: skip
_CONTROL = bytes(c for c in range(1, 32) if c not in b"\t\n\r\x0b\x0c\x08\x07\x1b") + b"\x7f"


def _is_binary(data: bytes) -> bool:
    """Known magic, or far more control bytes or scattered NULs than any log has. A UTF-16 text is not binary."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return False
    if data.startswith(_MAGIC):
        return True
    if len(data) > 9 and data[8:9] == b"{" and data[5:8] == b"\0\0\0":  # safetensors: 8-byte length, then JSON
        return True
    sample = data[:65536]
    visible = len(sample) - sample.count(0)
    if not visible:
        return False  # only NULs: a hole, see segments()
    control = len(sample) - len(sample.translate(None, _CONTROL))
    if control * 20 > visible and control > 2:
        return True
    if visible < len(sample):
        # NULs in a log come in a few long holes; in a binary they are scattered everywhere.
        holes = len(re.findall(rb"\0+", sample))
        return holes > 8 and holes * 32 > visible
    return False


def split_lines(data: bytes) -> tuple[list[str], list[int]]:
    """Decode ``data`` and split it at "\\n": the lines without it, and the byte offset after each line.

    UTF-16 with a byte order mark, UTF-8, else GB18030; when neither fits the whole, each line by itself, because one
    log can hold several encodings.
    """
    wide = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(data[:2])
    if wide:
        newline = "\n".encode(wide)
        raw = _split_wide(data, newline)
        ends = _ends(raw, len(newline), len(data))
        raw[0] = raw[0][2:]
        lines = [part.decode(wide, "replace") for part in raw]
    else:
        raw = data.split(b"\n")
        ends = _ends(raw, 1, len(data))
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            lines = [_decode(part) for part in raw]
        if lines[0].startswith("\ufeff"):
            lines[0] = lines[0][1:]
    if len(lines) > 1 and not raw[-1]:
        lines.pop()
        ends.pop()
    return lines, ends


def _split_wide(data: bytes, newline: bytes) -> list[bytes]:
    parts: list[bytes] = []
    start = at = 0
    while (at := data.find(newline, at)) >= 0:
        if at % 2:
            at += 1
            continue
        parts.append(data[start:at])
        start = at = at + 2
    parts.append(data[start:])
    return parts


def _ends(raw: Sequence[bytes], newline: int, size: int) -> list[int]:
    ends: list[int] = []
    at = 0
    for part in raw:
        at += len(part) + newline
        ends.append(at)
    ends[-1] = size
    return ends


def _decode(raw: bytes) -> str:
    if raw.isascii():
        return raw.decode("ascii")
    for encoding in ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")


@lru_cache(maxsize=1)
def _cleaner() -> tuple[Callable[..., str], Callable[[str], "re.Match[str] | None"]]:
    ansi = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}\x07?|[@-Z\\^_])")
    prefix = re.compile(
        r"\[(?:rank|default) ?\d+\]:? ?"  # torchrun
        r"|\[\d{1,5},\d{1,5}\]<std(?:out|err)>: ?"  # mpirun --tag-output
        r"|\[\d{1,5}\]: ?"
        r"|\((?:\w+ )?[\w.-]+ pid=\d+(?:, ip=[^)]{1,64})?\) ?"  # Ray, vLLM
        r"|[^\s:\[\"'(]{1,200}\.(?:log|txt|out|err)(?:\.\d+)?(?:[:-]\d+[:-]|:) ?"  # grep, also its context lines
        r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"  # container runtime
        r"|(?:[A-Za-z][\w.-]{0,63}: |\d{1,9}[:-])\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|EVENT)\]"  # pdsh, grep -n
    )
    return ansi.sub, prefix.match


_PREFIX_START = frozenset("[(0123456789")
_PREFIX_FILES = (".log", ".txt", ".out", ".err")


def clean(line: str) -> str:
    """The line as its program printed it: without colours, quote marks, rank, grep and container prefixes.

    Of a progress line ("\\r") the last visible state remains. At most ``_MAX_LINE`` characters are returned.
    """
    if "\r" in line:
        line = line.rstrip("\r\n \0")
        line = line[line.rfind("\r") + 1 :]
    if len(line) > _MAX_LINE:
        line = line[:_MAX_LINE]
    if "\x1b" in line:
        line = _cleaner()[0]("", line)
    if "\0" in line:
        line = line.replace("\0", "")
    while line[:1] == ">" and not line.startswith(">>>"):
        line = line[1:].removeprefix(" ")
    if line[:1] not in _PREFIX_START and ": [" not in line and not any(end in line for end in _PREFIX_FILES):
        return line
    prefix = _cleaner()[1]
    for _ in range(4):
        found = prefix(line)
        if not found:
            break
        cut = found.end()
        if line[cut - 1] == "]" and line[0] != "[":  # the level in brackets belongs to the line itself
            cut = line.index("[")
        line = line[cut:]
    return line


# --- a label for each line --------------------------------------------------------------------------------------------
# A label that is a kind decides alone. The others are raw material for _blocks and _fill: blank, fence (```), mark (a
# header that names a file), head (a heading or prose that ends a log), comment ("# ..."), prompt, command (without a
# prompt), cann (part of a CANN error block), levelled ("[ERROR] text"), table, json, yaml, item, py, ini,
# assign (A=B), pin (a package and its version), csv, csv_train, row, and "" for a line that says nothing.

_LEVEL = r"(?:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_COMMANDS = (
    r"(?:sudo |nohup |time |env )?(?:(?:docker|podman|nerdctl|kubectl|helm|msrun|mpirun|torchrun|deepspeed"
    r"|accelerate|vllm"
    r"|npu-smi|hccn_tool|conda|mamba|pip3?|uv|apt|apt-get|yum|dnf|git|wget|curl|srun|sbatch|ascend-dmi|msnpureport"
    r"|llamafactory-cli|uname|lspci|lsmod|dmesg|ulimit|chmod|chown|mkdir|systemctl|python[\d.]*|bash|sh)"
    r"(?: [-./~$\"'\w]|$)|(?:cat|source|cd|ls|tail|head|grep|rm|cp|mv|\.) [^ ]*[-./~$*]|echo [$\"']"
    r"|\./[\w./-]+\.(?:sh|run|py)|for \w+ in .*; ?do)"
)
_FRAMEWORK_LINES = frozenset(
    {"ms_log", "scheduler_log", "launcher_log", "plog", "device_log", "python_log", "training"}
)


@lru_cache(maxsize=1)
def _labeller() -> Callable[[str], str]:
    """Compile the line patterns once; the closure answers the label of one cleaned line."""
    glog = lazy(
        r"\[(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|EVENT|TRACE|V\d{1,6})\] ?"
        r"([A-Z][A-Z0-9_]{0,40})\((-?\d{1,12})([,:])([^,)]{0,64})(,?)"
    )
    bracket_python = lazy(
        r"\[[WEIF](?:\d{3,4} [\d:.]+)? [\w./-]+\.(?:ts|cpp|cc|h|hpp|py):\d+\]"  # c10 of torch
        r"|\[" + _LEVEL + r"\|[\w.]+:\d+\]"  # transformers
        r"|\[" + _LEVEL + r"\] ?\d{4}-\d\d-\d\d"  # torch_npu, and others with the level first
        r"|\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.\d]*\] ?\[ *" + _LEVEL + r" *\]"  # DeepSpeed, PaddleNLP
        r"|\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.\d]*\] ?[\w.\[\]:/ -]{0,80}?\b" + _LEVEL + r"\b"
        r"|\[ASSERT\]|\[[\w.]+\.py:\d+:\w+\]"
    )
    levelled = lazy(r"\[" + _LEVEL + r"\]|" + _LEVEL + r"(?::| +\|)")
    kernel = lazy(
        r"(?:<\d+>)?\[ *\d{1,9}\.\d{6}\] |\[\w{3} \w{3} +\d+ \d\d:\d\d:\d\d \d{4}\] "
        r"|\w{3} +\d{1,2} \d\d:\d\d:\d\d [\w.-]+ (?:kernel|[\w-]+\[\d+\]):"
    )
    python_log = lazy(
        _LEVEL + r" \d\d-\d\d \d\d:\d\d:\d\d"  # vLLM
        r"|[WEIF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ "  # glog, torch elastic
        r"|\d{4}[-/]\d\d[-/]\d\d[ T-]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:[ :|,-]|\[)"
        r"|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d"
        r"|(?:INFO|WARNING|ERROR|DEBUG|CRITICAL)(?: +\| |: {2,}|:[\w.]+:)"  # loguru, uvicorn, logging.basicConfig
        r"|[<>\w./+-]{1,200}:\d+: \w{0,40}Warning: "
    )
    pytest_frame = lazy(_PYTEST_FRAME)
    own_framework = lazy(r"mind(?:formers|spore|nlp|yolo|ocr|cv|one|pet|rlhf)\b")
    exception = lazy(
        r"(?:[A-Za-z_]\w*\.){0,8}[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|StopIteration)(?:: |:?$)"
        r"|Exception: |\[Error\]: |terminate called after throwing|Fatal Python error"
        r"|(?:Current )?[Tt]hread 0x[0-9a-f]+"
        r"|(?:Aborted|Segmentation fault|Bus error|Killed|Floating point exception)(?: \(core dumped\))?$"
    )
    frame = lazy(
        r"File \"[^\"]{1,400}\", line \d+|# \d+ In file [^:]+:\d+|The above exception was the direct cause"
        r"|During handling of the above"
    )
    cann = lazy(
        r"E[A-Z]?\d{4,5}[A-Z]?(?:: |\[PID| {2}\[)|W\d{5}: |TraceBack \(most|Possible Cause: |Solution: |Reason: "
        r"|- (?:C\+\+ Call Stack|The Traceback of Net|The Function Call Stack|Ascend (?:Error|Warning) Message"
        r"|Framework Error Message|Kernel select failed|Memory not enough|Device load error|Dataset Pipeline Error"
        r"|Python Call Stack)|Load dynamic library: |mindspore/(?:ccsrc|core|ops)/[\w/.]+:\d+ "
        r"|\w+\(E[A-Z0-9]\d{4}\): |-{52,66}$"
    )
    tqdm = lazy(r"(.{0,200}?)\d{1,3}%\|[^|]{0,200}\| *[\d.]+[kMG]?/")
    train = lazy(
        r"(?i)(?:epochs?|steps?|iter(?:ation)?s?|batch|\bs)[\s:=,\[]{0,8}\d.{0,240}?(?:loss|\btrl"
        r"|\btel)[\w ]{0,12}['\"]?"
        r"\s{0,4}(?:is|[:=/])?\s{0,8}[\[(:]?\s{0,4}(?:-?(?:\d|nan|inf)|tensor\()"
        r"|(?:^|['\"{ ])(?:(?:train|val|valid|eval|avg|lm|total|mean)[ _])?loss['\"]?\s{0,4}(?:is\b"
        r"|[:=])\s{0,8}['\"]?\[?-?(?:\d|nan|inf)"
        r"|\bloss[ _]scale\b.{0,60}\d|overflow cond"
    )
    train_other = lazy(
        r"Train epoch time: *[\d.]+ ms|iteration +\d+/ *\d+ \||opt_global_step: *\d+|OVERFLOW! |Epoch:\[ *\d+/ *\d+\]"
        r"|samples/s/p|per step time: *[\d.]+ ?ms"
    )
    npu = lazy(
        r"\|? ?npu-smi (?:version|\d)|npu-smi: |.{0,80}npu-smi: (?:command not found|Permission denied"
        r"|Is a directory|No such file)"
        r"|dcmi mod(?:el|ule) initialize|DrvMngGetConsoleLogLevel|There is no NPU card|Usage: npu-smi"
        r"|Error parameter of -"
        r"|Invalid card id|This (?:command can(?:not)? be executed|device does not support querying)"
        r"|Command or option is not"
        r"|(?:NPU ID|Chip ID|Total Count|Product Name|Chip Count|Chip Physical ID|Chip Logic ID|Health(?: Status)?"
        r"|Error (?:Code|Information)|(?:Software|Firmware) Version|Compatibility|Board ID|PCB ID|BOM ID|Serial Number"
        r"|Chip (?:Type|Name|Version)|Fault Event \w+|(?:DDR|HBM|Memory|Aicore|Aicpu|Ctrlcpu) [\w ()%/-]{3,40}"
        r"|NPU (?:Real-time|Temperature|Util)[\w ()-]*|(?:TX|RX|Lcrc|Ecrc) Error Count|SDID|Super Pod (?:Size|ID)"
        r"|hccs [a-z ]{4,24}) *:"
        r"|(?:(?:NPU|Phy-ID)\d+\s+)+(?:CPU Affinity|X|HCCS|SYS|SIO|PIX|PXB|PHB|UB|(?:NPU|Phy-ID)\d+$)|NPU ID {4,}"
        r"|hccs link +tx_"
        r"|Process id: ?\d+ +Process name|No process in device|Resetting the standard PCIe card|: node type="
        r"|total +[\d.]+ +[\d.]+$|Are you sure you want to continue resetting|Legend:$|(?:X|SYS|SIO|UB|PHB|PIX|PXB"
        r"|HCCS\w*|NA) +=  ?\w"
    )
    hccn = lazy(
        r"\[devi(?:d|ce) \d+\] *\S|link (?:status|up count|down count|change records) ?:|net health status ?:"
        r"|fec mode: "
        r"|default gateway: ?\d|ipaddr: ?\d|netmask: ?\d|netdetect (?:addr|address) ?:|Get (?:gateway|ipconf"
        r"|netdetect\w*) failed"
        r"|vnic (?:link status|ipaddr|netmask):|mtu: ?\d+$|[Ss]peed: (?:\d+ Mb/s|Unknown)|packet statistics:"
        r"|(?:mac|roce)_[rt]x_\w+ ?:|(?:device|devid) \d+ PING |recv (?:seq|time ?out seq)[ =]"
        r"|This pkt (?:ping success|send fail)|\d+ packets transmitted, \d+ received|optical info:"
        r"|Optical module is not"
        r"|(?:Tx|Rx) (?:Power|Bias|LoS|LoL|Lo)\w* ?\w* *:|(?:Vcc|Temp|Tx|Rx)\w* (?:High|Low) \w+ *:|dev_id:\d+, "
        r"|Routing table:"
        r"|Destination +Gateway +Genmask|hccn_tool is busy|The device is not exist|Command execute failed"
        r"|Execute failed: Link|The command is not supported on this product|permission denied: pls check"
        r"|Cmd executed successfully|(?:Chassis ID|Port ID|Time to Live|System Name|System Description"
        r"|Port Description) TLV"
        r"|Ifname: |[\w ]{1,40} TLV$|(?:max|min|average|TP\d\d) time \d|[\w.]+ +[\d.*]+ +\d+\.\d+\.\d+\.\d+ +U\w* "
        r"|(?:present|temperature|high power enable reg|vendor (?:name|part number|serial number)) +: "
    )
    table = lazy(r"[+|][-=+]{8,}|\|.{0,400}\||\| ?\d+ +\w")
    mark = lazy(r"==> \S.{0,200} <==$|=====? ?(?:FILE )?\S{1,200}\.\w{1,5} ?=====?$")
    launch = lazy(
        r"Start (?:scheduler|worker) process(?: with rank id:\d+)?, ?log file:|(?:Worker"
        r"|Scheduler) process \d+ exit with"
        r"|RuntimeError: Distributed job exited"
    )
    ms_plain = lazy(r"\[(?:MS_\w+|PROF|mindspore|DATASET)\]|\[mindspore/")
    name = (
        r"(?:mind(?:spore|formers|nlp|yolo|ocr|cv|one|speed(?:-llm)?)|(?:ascend[ -])?cann(?:[ -]?(?:toolkit|nnae"
        r"|nnrt|kernels))?"
        r"|ascend[ -]?toolkit|(?:npu )?(?:driver|firmware)|npu(?: type)?|device|chip|python|numpy"
        r"|(?:py)?torch(?:[_-]npu)?"
        r"|transformers|peft|deepspeed|vllm(?:[_-]ascend)?|llamafactory|os|platform|operating system|architecture"
        r"|gcc(?:/compiler)?"
        r"|glibc|libc|cuda|accelerate|datasets|(?:hard|soft)ware)"
    )
    hccn_conf = lazy(r"(?:address|netmask|netdetect|gateway|send_arp_status|arp_\w+|IPv6\w+)_\d{1,2}=")
    version = lazy(
        r"(?i)\W{0,6}(?:host |container |docker |my |current )?" + name +
        r"\s{0,3}(?:version|ver|type|platform|compiler version|版本号?|environment)?\s{0,3}(?:[(（][^)）]{0,60}[)）])?"
        r"[*`'\" ]{0,4}[:：=]\s*\S"
        r"|\W{0,6}(?:MindSpore|CANN|Ascend|昇腾|驱动|固件|Python|操作系统|硬件|芯片|设备|系统|环境)[\w\s]{0,12}(?:版本号?|型号|环境|平台)"
        r"[^:：]{0,30}[:：]\s*\S"
        r"|(?:MindSpore|CANN|torch|Python|driver) v?\d+\.\d[\w.]*(?:$|[,;，、/ ](?:[^.]{0,60}\d[\w.]*)?$)"
        r"|The result of multiplication calculation is correct|Collecting environment information"
        r"|(?:package_name|innerversion|compatible_version\w*|ascendhal_version|package_version|firmware_version"
        r"|aicpu_version"
        r"|\w+_running_version|UserName|UserGroup|Driver_Install_\w+|Firmware_Install_\w+|Aicpu_Kernels_Install_\w+"
        r"|(?:inner)?version|arch|(?:tdt|log|prof|dvppkernels|tsfw)_version)="
    )  # fmt: skip
    pin_known = lazy(
        r"(?i)(?:\[(?:pip3?|conda)\] )?(?:mind(?:spore|formers|nlp|pet)(?:[_-]\w+)?|numpy|torch(?:[_-]?(?:npu"
        r"|vision|audio))?|scipy"
        r"|transformers|tokenizers|te|hccl|hccl[_-]parser|protobuf|sympy|decorator|attrs|pandas|pip|setuptools"
        r"|wheel|deepspeed"
        r"|accelerate|peft|datasets|vllm(?:[_-]ascend)?|safetensors|sentencepiece|astunparse|psutil|python"
        r"|ascend-cann-\w+)"
        r"(?:={1,2}| {2,}|\t)v?\d[\w.+!-]*(?:\s|$)"
    )
    pin = lazy(
        r"(?:\[(?:pip3?|conda)\] )?[A-Za-z_][\w.-]{0,60}(?:==\d[\w.+!-]*(?:;.*)?$| {2,}\d[\w.+!-]*(?: +\S.*)?$"
        r"| @ file:|=\d+(?:\.\w+)+$)"
        r"|Package +Version|-{3,} -{3,}"
    )
    export = lazy(r"(?:export|declare -x|setenv|unset) [A-Za-z_]\w*(?:[= ]|$)")
    assign = lazy(r"[A-Z_][A-Z0-9_]{1,60}=|[a-z]{2,6}_proxy=|_=")
    prompt = lazy(
        r"(?:\([\w.:-]{1,40}\) ?){0,3}(?:[\w.-]{1,40}@[\w.-]{1,80}(?::| )[^$#%]{0,120}[$#%](?: |$)"
        r"|\[[\w.-]{1,40}(?:@[\w.-]{1,80})? [^\]]{0,120}\] ?[$#%]|[$%] [\w./~\"]|(?:ba|z|k)?sh-\d[\d.]*[$#]"
        r"|(?:~|/[\w./-]{0,80}) ?[$#] |PS [A-Z]:\\[^>]{0,120}>|[A-Z]:\\[^>]{0,120}>|➜ )"
        r"|>>> ?|\.\.\. |In \[\d+\]: |# " + _COMMANDS + r"|\([\w.:-]{1,40}\) [^$#]{0,80}[$#] "
    )
    command = lazy(_COMMANDS)
    listing = lazy(
        r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d |[cdlbsp-][rwxsStT-]{9}[.+]? |Module +Size +Used by"
        r"|\w+ +\d+ +\d+(?: [\w,]+)?$"
        r"|#!/(?:usr/)?bin/(?:env )?(?:ba|z|da)?sh|Filesystem +Size|Linux \S+ \d+\.\d+|if \[|(?:then|fi|done|esac|do)$"
        r"|Requirement already satisfied|Successfully installed|Installing collected|Looking in indexes"
        r"|ERROR: (?:Could not|No matching|Failed building|pip)"
    )
    profile_columns = (
        "(us)", "(ms)", "op name", "op_name", "op type", "op_type", "kernel name", "kernel_name", "task id", "task_id",
        "duration", "device_id", "device id", "computing", "communication", "bubble", "aicore",
    )  # fmt: skip
    csv_train = lazy(r"(?i)(?:[^,]{0,80},){0,12}\s*\"?(?:train[_ ]|val[_ ])?loss\"?\s*(?:,|$)")
    csv_row = lazy(r"[^,]{0,200}(?:,[^,]{0,200})+$")
    csv_numbers = lazy(r"[\w.\"-]*(?:, ?[\w.+\"/-]*)+$")
    json_line = lazy(r"[\[{]\s*(?:$|[\"\[{}\]]|//|#)|\"[^\"]{0,200}\"\s*:|[\]}][\]}, ]*$")
    inner = lazy(r"\"(?:log|message|msg)\"\s*:\s*\"((?:[^\"\\]|\\.){0,900})")
    value = r"[\w(\[{\"'-]"
    py_line = lazy(
        r"import [\w.]+(?: as \w+)?(?:, [\w., ]+)?(?:\s*#.*)?$|from [\w.]+ import [\w(*]|(?:async )?def \w+\("
        r"|class \w+(?:\([^)]*\))?:"
        r"|@\w[\w.]*(?:\(.*)?$|if __name__ ==|(?:if|elif|while|for|with|try|except|else|finally)\b.*:(?:\s*#.*)?$"
        r"|return\b(?: " + value + r".*)?$|raise \w+|assert |yield\b|(?:pass|break|continue)$|(?:try|else"
        r"|finally): |for \w+(?:, \w+)* in .*:"
        r"|(?:self|super\(\)|ms|mindspore|np|nn|ops|mint|context|torch|model|net|optimizer)\.\w[\w.]*(?:\("
        r"| ?[-+*/]?= )|print\(.*\)"
        r"|(?:await )?[A-Za-z_][\w.]*\([^:]*\)?,?$"
        r"|[A-Za-z_][\w.]*(?:\[[^\]]{1,80}\])?(?:, ?[A-Za-z_][\w.]*){0,6}(?:: ?\w[\w.\[\], ]*)? ?[-+*/]?= ?" + value +
        r"|[rf]?\"\"\"|'{3}|[)\]}]+,?$"
    )  # fmt: skip
    yaml_line = lazy(r"(?:- )?[A-Za-z_][\w.\-/]{0,60} ?:(?:\s+[^\s].*)?$|-{3}$")
    yaml_not = lazy(r"(?i)(?:warn|note|info|reason|solution|https?|file|version|\w*error|\w*exception|\w*warning)\s?:")
    ini = lazy(r"[a-z][\w.\-]{0,60} ?= ?[^=\s].{0,200}$|\[[A-Za-z][\w.: -]{0,40}\]$")
    heading = lazy(
        r"#{2,6} \S|#{1,6} [^\x00-\x7f]|\*\*[^*]{1,80}\*\*[:：]?$|</?details>|<summary>|- \[[ xX]\] "
        r"|(?:[A-Z][\w']+|I) (?:[a-z']+[, ]){5,}"
    )
    cjk = lazy("[\u4e00-\u9fff]")
    loading = ("load", "map", "download", "token", "fetch", "shard", "captur", "convert")

    def has_profile_column(text: str) -> bool:
        return any(column in text for column in profile_columns)

    def training(text: str) -> bool:
        if "%|" in text:
            found = tqdm.match(text)
            if found and ("loss" in text or not any(word in found[1].lower() for word in loading)):
                return True
        if (
            "oss" in text or "OSS" in text or "overflow cond" in text or "trl:" in text or "tel:" in text
        ) and train.search(text):
            return True
        if " ms" in text or "iteration" in text or "step" in text or "samples" in text or "OVERFLOW" in text:
            return bool(train_other.search(text))
        return False

    def framework(text: str) -> str:
        """A line with a logger's prefix: training values, our own framework, or another one."""
        if training(text):
            return "training"
        return "ms_log" if own_framework.search(text) else "python_log"

    def label(text: str) -> str:
        line = text.strip()
        if not line:
            return "blank"
        first = line[0]
        if first == "[" or "):2" in line:
            found = glog.match(line) or (glog.search(line) if "):2" in line else None)
            if found:
                module, pid, separator, second, third = found.groups()
                if separator == ":" or third:
                    if "process_entity/_api.py" in line:
                        return "launcher_log"
                    return "scheduler_log" if "meta_server_node.cc" in line or "MS_SCHED f" in line else "ms_log"
                device = (
                    pid[0] == "-"
                    or second == "null"
                    or module in ("TSCH", "TS", "LPM", "HWTS", "CCECPU", "AICPU_SCHEDULE")
                )
                return "device_log" if device else "plog"
            if ms_plain.match(line):
                return (
                    "launcher_log" if "process_entity/_api.py" in line else "training" if training(line) else "ms_log"
                )
            if bracket_python.match(line):
                return framework(line)
            if kernel.match(line):
                return "dmesg"
            if hccn.match(line):
                return "hccn_tool"
        if first == "`" and line.startswith("```"):
            return "fence"
        if first in "+|" and table.match(line):
            return "table"
        if "Traceback (most recent call last)" in line or (first in "F#TD" and frame.match(line)):
            return "traceback"
        if ".py:" in line and pytest_frame.match(line):
            return "traceback"
        if first == "{" and line[-1] == "}":
            said = inner.search(line)
            if said:
                kind = label(clean(said[1].replace('\\"', '"').removesuffix("\\n")))
                return kind if kind in LOG_KINDS else "python_log"
        if (
            first in "[ASBKFTCt" or "rror" in line or "xception" in line or "Interrupt" in line or "Exit" in line
        ) and exception.match(line):
            return "launcher_log" if launch.match(line) else "traceback"
        if ((first in "EWTPSRLm-" or "(E" in line) and cann.match(line)) or "[FUNC:" in line:
            return "cann"
        if training(line):
            return "training"
        if first in "SWR" and launch.match(line):
            return "launcher_log"
        if "[mindspore/" in line:
            return "ms_log"
        if (first in "0123456789IWEFDC" or "Warning: " in line) and python_log.match(line):
            return framework(line)
        if (first == "<" or line[3:4] == " ") and kernel.match(line):
            return "dmesg"
        if first == "=" and mark.match(line):
            return "mark"
        if (first in "([$%>~/.➜#PIC" or "@" in line[:48] or "sh-" in line[:6]) and prompt.match(line):
            return "prompt"
        if first in "edsu" and export.match(line):
            return "environment"
        pair = "=" in line
        colon = ":" in line or "：" in line
        if pair and hccn_conf.match(line):
            return "hccn_tool"
        if npu.match(line) or (text[0] == "\t" and "  :" in line):
            return "npu_smi"
        if hccn.match(line):
            return "hccn_tool"
        if first in "[DIWECF" and levelled.match(line):
            return "levelled"
        if (colon or pair or first in "MCTPtmd") and version.match(line):
            return "versions"
        if (pair or "  " in line or "\t" in line) and pin_known.match(line):
            return "versions"
        if heading.match(line):
            return "head"
        if listing.match(line):
            return "shell"
        if (pair or "  " in line or " @ " in line or first == "-") and pin.match(line):
            return "pin"
        if text[0] == first and command.match(line):
            return "command"
        if first in '[{"]}' and json_line.match(line):
            return "json"
        if pair and assign.match(line):
            return "assign"
        if first == "#":
            return "comment"
        if "," in line and csv_row.match(line):
            if line.count(",") > 1 and ": " not in line and line[-1] != "." and has_profile_column(line.lower()):
                return "csv"
            if csv_train.match(line):
                return "csv_train"
            if csv_numbers.match(line):
                return "row"
        if (colon or first == "-") and yaml_line.match(line) and not yaml_not.match(line):
            return "yaml"
        if py_line.match(line):
            return "py"
        if (pair or first == "[") and ini.match(line):
            return "ini"
        if line.startswith("- "):
            return "item"
        if not line.isascii() and len(cjk.findall(line)) >= 6:
            return "head"
        return ""

    return label


def _is_frame(text: str) -> bool:
    """A traceback line under which the program's own source line stands."""
    line = text.lstrip()
    return line.startswith('File "') or (line.startswith("# ") and " In file " in line) or _is_pytest_frame(text)


def _is_pytest_frame(text: str) -> bool:
    return ".py:" in text and re.match(_PYTEST_FRAME, text) is not None


def _inside_tracebacks(texts: Sequence[str], labels: list[str]) -> None:
    """A source line shown under a frame says nothing about the kind of input."""
    for i in range(1, len(labels)):
        if labels[i] not in ("traceback", "blank") and texts[i][:1] in " \t" and _is_frame(texts[i - 1]):
            labels[i] = ""


# --- blocks: labels that count only together --------------------------------------------------------------------------

_KIND_SET = frozenset(KINDS)
_RANK_KEYS = ('"server_list"', '"rank_list"', '"group_list"', '"rank_id"', '"server_count"', '"super_device_id"')
_UNFINISHED = '"status":"initializing"'
"""All that a rank table holds until the operator of a cluster has written it."""
_NPU_WORDS = (
    "npu-smi",
    "Health",
    "Bus-Id",
    "HBM-Usage",
    "AICore",
    "Process memory",
    "Process id",
    "No running processes",
)
_NPU_HEALTH = ("| OK ", "| Warning ", "| Alarm ", "| Critical ", "| UNKNOWN ", "| 0000:")
_HCCN_WORDS = ("UDie", "Link_Status", "LINK_UP", "Port ID")
# Keys of MindFormers YAML files, of Hugging Face config.json, of launch and deployment files.
_CONFIG_KEYS = frozenset({
    "apiVersion", "architectures", "batch_size", "bf16", "callbacks", "context", "data_parallel", "env", "fp16",
    "hidden_dropout_prob", "hidden_size", "image", "kind", "learning_rate", "load_checkpoint", "lr", "lr_schedule",
    "max_position_embeddings", "metadata", "micro_batch_num", "model", "model_name", "model_parallel", "model_type",
    "num_attention_heads", "num_heads", "num_hidden_layers", "num_layers", "optimizer", "output_dir", "parallel",
    "parallel_config", "parallel_mode", "pipeline_stage", "processor", "run_mode", "runner_config", "seed",
    "seq_length", "services", "spec", "tensor_parallel_size", "train_dataset", "trainer", "use_parallel",
    "vision_config", "vocab_size",
})  # fmt: skip
_CONFIG_ENDS = (".yaml", ".yml", ".json", ".ini", ".cfg", ".conf", ".toml")


def _blocks(base: str, texts: Sequence[str], labels: Sequence[str]) -> list[str]:
    """The kind of each line where it is known: "" elsewhere. Blocks are judged as a whole."""
    kinds = [label if label in _KIND_SET else "" for label in labels]
    count = len(labels)
    finders: dict[str, Callable[[str, Sequence[str], Sequence[str], int], tuple[str, int]]] = {
        "table": _table_block,
        "json": _json_block,
        "csv": _csv_block,
        "csv_train": _csv_block,
        "py": _python_block,
        "comment": _python_block,
    }
    at = 0
    while at < count:
        finder = finders.get(labels[at])
        kind, end = finder(base, texts, labels, at) if finder else ("", at)
        if not kind and end == at and labels[at] in _PAIR_LABELS:
            end = _pair_blocks(base, texts, labels, at, kinds)
            at = max(end, at + 1)
            continue
        if kind:
            kinds[at:end] = [kind if label != "blank" else "" for label in labels[at:end]]
        at = max(end, at + 1)
    return kinds


def _table_block(base: str, texts: Sequence[str], labels: Sequence[str], at: int) -> tuple[str, int]:
    end = at
    while end < len(labels) and labels[end] == "table":
        end += 1
    rows = [texts[i] for i in range(at, min(end, at + 40))]
    if any(word in row for row in rows for word in _HCCN_WORDS):
        return "hccn_tool", end
    if any(word in row for row in rows for word in _NPU_WORDS) or any(
        word in row for row in rows for word in _NPU_HEALTH
    ):
        return "npu_smi", end
    if end - at < 40 and any(word in row.lower() for row in rows for word in ("version", "mindspore", "cann")):
        return "versions", end
    return "", end


def _json_block(base: str, texts: Sequence[str], labels: Sequence[str], at: int) -> tuple[str, int]:
    inside = ("json", "comment", "blank", "row", "", "yaml", "py", "csv", "versions", "pin", "item")
    end = last = at
    while end < len(labels) and labels[end] in inside:
        line = texts[end]
        if labels[end] == "json" or line[:1] in " \t" or line[:1] == '"' or line[:2] == "//":
            if labels[end] != "blank":
                last = end
        elif labels[end] not in ("blank", "comment"):
            break
        end += 1
    lines = texts[at : last + 1]
    if any(key in line for line in lines for key in _RANK_KEYS) or any(
        _UNFINISHED in "".join(w.split()) for w in lines
    ):
        return "rank_table", last + 1
    keys = sum(1 for i in range(at, last + 1) if labels[i] == "json" and '":' in texts[i].replace('" :', '":'))
    alone = last == at and at > 0 and labels[at - 1] in _FRAMEWORK_LINES
    if not keys or alone:
        return "", at if labels[at] != "json" else at + 1
    return "config", last + 1


def _csv_block(base: str, texts: Sequence[str], labels: Sequence[str], at: int) -> tuple[str, int]:
    commas = texts[at].count(",")
    end = at + 1
    while end < len(labels) and labels[end] != "blank" and texts[end].count(",") >= min(commas, 2):
        end += 1
    if end == at + 1 and not base.endswith(".csv"):
        return "", end
    return ("profile_csv" if labels[at] == "csv" else "training"), end


_PY_STOP = _MS_FAMILY | {"plog", "device_log", "python_log", "dmesg", "prompt", "fence", "mark", "table", "cann"}
_PY_ODD = ("", "head", "versions", "npu_smi", "hccn_tool", "item", "environment", "command")
_PY_HARD = ("import ", "from ", "def ", "class ", "async def ", "@", "if __name__")


def _python_block(base: str, texts: Sequence[str], labels: Sequence[str], at: int) -> tuple[str, int]:
    """Source code by the density of statements; a docstring may say anything."""
    if at and _is_frame(texts[at - 1]):
        return "", at
    end = last = at
    statements = hard = filled = kept = odd = 0
    quote = ""
    named = base.endswith(".py")
    while end < len(labels):
        text, label = texts[end], labels[end]
        line = text.strip()
        if not quote:
            indented = text[:1] in " \t"
            if (label in _PY_STOP and not (indented and statements > 4)) or (
                label == "traceback" and (not indented or _is_frame(text) or "Traceback" in text)
            ):
                break
            if label == "py" or indented:
                odd = 0
            elif label in _PY_ODD:
                odd += 1
                if odd > 2 and not named:
                    break
        for mark in ('"""', "'''"):
            if (not quote or quote == mark) and line.count(mark) % 2:
                quote = "" if quote else mark
        if label != "blank":
            filled += 1
            if label == "py" or (label == "training" and "=" in text):
                statements += 1
                hard += line.startswith(_PY_HARD)
            last, kept = end, filled
        end += 1
    dense = statements * 20 >= kept * 9
    if (statements >= 3 and dense and (hard or statements >= 6)) or (named and statements and (dense or hard)):
        return "python", end if named and end == len(labels) else last + 1
    return "", at


_PAIR_LABELS = frozenset({"yaml", "ini", "assign", "pin", "versions", "item", "comment"})


def _is_setting(text: str) -> bool:
    """A plain assignment: also a Python statement, but between the lines of an ini file one of its settings."""
    return "=" in text and "(" not in text and "==" not in text and text[:1].isalpha()


def _after_log(labels: Sequence[str], at: int) -> bool:
    """Is there log text shortly before? Then lone pairs are more likely part of a message than a file."""
    for i in range(at - 1, max(-1, at - 30), -1):
        if labels[i] in ("fence", "prompt", "mark", "head"):
            return False
        if labels[i] in _LOG_LABELS:
            return True
    return False


_LOG_LABELS = _FRAMEWORK_LINES | {"traceback", "cann", "levelled", *_TOOLS}


def _pair_blocks(base: str, texts: Sequence[str], labels: Sequence[str], at: int, kinds: list[str]) -> int:
    """Judge key and value lines from ``at`` on, chunk by chunk between blank lines; answers where they end."""
    end = at
    nested = False
    while end < len(labels):
        label = labels[end]
        if label in _PAIR_LABELS or label == "blank" or (label == "py" and end > at and _is_setting(texts[end])):
            nested = nested or (label == "yaml" and texts[end][:1] == " ")
        elif not (texts[end][:1] in " \t" and label in ("", "py", "json", "row", "csv", "training") and nested):
            break
        end += 1
    chunks: list[tuple[int, int]] = []
    start = -1
    for i in range(at, end + 1):
        if i == end or labels[i] == "blank":
            if start >= 0:
                chunks.append((start, i))
            start = -1
        elif start < 0:
            start = i
    near = _after_log(labels, at)
    touching = at > 0 and labels[at - 1] in _LOG_LABELS
    named = base.endswith(_CONFIG_ENDS)
    judged = [_pairs(texts[a:b], labels[a:b], named=named, near=near, touching=touching and a == at) for a, b in chunks]
    whole_config = "config" in judged and sum(kind == "versions" for kind in judged) <= 1
    for (first, stop), kind in zip(chunks, judged, strict=True):
        if (
            whole_config
            and kind != "config"
            and any(labels[i] in ("yaml", "ini", "comment") for i in range(first, stop))
        ):
            kind = "config"
        if kind or touching:
            kinds[first:stop] = [kind] * (stop - first)
    return end


def _pairs(texts: Sequence[str], labels: Sequence[str], *, named: bool, near: bool, touching: bool) -> str:
    """The kind of one chunk, "" when it may just as well be part of the log or prose around it."""
    yaml, pins, versions = sum(map(labels.count, ("yaml", "ini", "py"))), labels.count("pin"), labels.count("versions")
    assigned = labels.count("assign")
    filled = len(labels) - labels.count("comment")
    if assigned > 1 and assigned >= yaml + pins + versions:
        return "environment"
    if touching and filled < 5:
        return ""
    pinned = pins >= 3 or (pins == filled and not touching)
    if (versions or pinned) and versions + pins >= yaml and not (named and yaml):
        return "versions"
    if not yaml:
        return ""
    lines = [text for text, label in zip(texts, labels, strict=True) if label in ("yaml", "ini", "py")]
    keys = [line.strip().removeprefix("- ").replace("=", ":").split(":", 1)[0].strip() for line in lines]
    known = any(key in _CONFIG_KEYS or key.startswith(("address_", "netmask_")) for key in keys)
    nested = any(line[:1] == " " for line in lines) and any(line.rstrip().endswith(":") for line in lines)
    if near and not known and not named:
        return ""
    return "config" if named or nested or (known and yaml >= 2) or (yaml >= 3 and yaml * 10 >= filled * 7) else ""


# --- lines that say nothing go to their neighbours --------------------------------------------------------------------

_HINTS = (
    ("npu-smi", "npu_smi"),
    ("hccn_tool", "hccn_tool"),
    ("pip list", "versions"),
    ("pip3 list", "versions"),
    ("pip freeze", "versions"),
    ("pip show", "versions"),
    ("conda list", "versions"),
    ("version.info", "versions"),
    ("version.cfg", "versions"),
    ("install.info", "versions"),
    ("printenv", "environment"),
    ("dmesg", "dmesg"),
)


def _hint(command: str) -> str:
    """What the output of a command will be, where its lines do not say it."""
    if re.search(r"[$#>%] ?env(?: |$)", command):
        return "environment"
    return next((kind for word, kind in _HINTS if word in command), "")


def _fill(base: str, texts: Sequence[str], labels: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """One kind for each line."""
    opening = next((i for i, label in enumerate(labels) if label != "blank"), 0)
    script = base.endswith(".sh") or (texts[opening].startswith("#!") and "sh" in texts[opening])
    out: list[str] = []
    current = hint = ""
    gap = True
    session = fenced = wrapped = False
    for i, text in enumerate(texts):
        label, kind = labels[i], kinds[i]
        if label == "blank":
            out.append(current)
            gap = True
            continue
        if label == "fence":
            fenced = not fenced
            out.append("" if fenced else current)
            current, hint, session = "", "", False
            gap = True
            continue
        if label == "mark":
            out.append("")
            current, hint, session, gap = "", "", False, True
            continue
        streaming = current in _STREAM and current != "text"
        if wrapped and label not in _FRAMEWORK_LINES:
            kind = "shell"
        elif label == "prompt":
            kind, hint, session = "shell", _hint(text), True
        elif label == "head":
            kind = kind or ("text" if gap or not streaming else current)
            session = session and kind != "text"
        elif label == "cann":
            kind = current if streaming else "traceback"
        elif label == "levelled":
            kind = current if streaming or (current in _TOOLS and not gap) else "python_log"
        elif label == "command":
            kind = current if streaming and not gap else "shell"
            if kind == "shell" and not streaming:
                hint = _hint(text)
        elif label == "shell" and streaming and not gap:
            kind = current
        elif script and kind in ("", "environment", "python", "config", "versions"):
            kind = "shell"
        elif hint == "environment" and label == "assign":
            kind = "environment"
        if not kind:
            if streaming:
                kind = current
            elif hint:
                kind = hint
            elif session:
                kind = "shell"
            elif current in _TOOLS and not gap and (text[:1] in " \t:0123456789" or ":" in text[:40] or len(text) < 4):
                kind = current
            elif current == "shell" and not gap:
                kind = "shell"
            else:
                kind = "text"
        elif kind == "traceback" and current in ("text", "shell", ""):
            _reach_back(texts, labels, out)
        wrapped = kind == "shell" and text.rstrip().endswith("\\")
        out.append(kind)
        current, gap = kind, False
    # Fences, headers and blank lines before anything is known belong to what follows.
    following = next((kind for kind in reversed(out) if kind), "text")
    for i in range(len(out) - 1, -1, -1):
        if out[i]:
            following = out[i]
        else:
            out[i] = following
    return out


def _reach_back(texts: Sequence[str], labels: Sequence[str], out: list[str]) -> None:
    """Source lines right above a frame or an exception belong to a traceback whose head was cut off."""
    i = len(out) - 1
    while i >= max(0, len(out) - 4) and labels[i] in ("py", "") and (labels[i] == "py" or texts[i][:1] in " \t"):
        out[i] = "traceback"
        i -= 1


# --- one log stays one log --------------------------------------------------------------------------------------------


def _runs(kinds: Sequence[str]) -> Iterator[_Run]:
    first = 0
    for i in range(1, len(kinds) + 1):
        if i == len(kinds) or kinds[i] != kinds[first]:
            yield _Run(kinds[first], first, i - 1)
            first = i


def _smooth(base: str, texts: Sequence[str], labels: Sequence[str], kinds: list[str]) -> list[_Run]:
    """Undo splits inside one stream: rules for launcher, scheduler, worker logs, then lone lines between equals."""
    whole = _whole_file(base, kinds)
    if whole:
        return [_Run(whole, 0, len(kinds) - 1)]
    prompts = {i for i, label in enumerate(labels) if label in ("prompt", "mark", "fence")}
    runs = list(_runs(kinds))
    for at in range(1, len(runs) - 1):
        run, before, after = runs[at], runs[at - 1], runs[at + 1]
        if (
            (run.kind not in _STREAM or after.kind == "python")
            and run.last - run.first < 2
            and before.kind == after.kind
            and (after.kind == "python" or after.kind in _FRAMEWORK_LINES)
            and (after.kind == "python" or not any(i in prompts for i in range(run.first, run.last + 1)))
        ):
            kinds[run.first : run.last + 1] = [before.kind] * (run.last - run.first + 1)
    count = len(kinds)
    start = 0
    while start < count:
        end = start + 1
        if kinds[start] in _STREAM:
            while end < count and kinds[end] in _STREAM and labels[end] != "mark":
                end += 1
            kinds[start:end] = _one_stream(base, texts[start:end], kinds[start:end])
        start = end
    return _sandwiches(list(_runs(kinds)))


def _whole_file(base: str, kinds: Sequence[str]) -> str:
    """A source or configuration file by name that mostly reads like one is one to its last line."""
    if base.endswith(".py") and kinds.count("python") * 2 > len(kinds):
        return "python"
    if base.endswith(_CONFIG_ENDS) and "config" in kinds and not _LOG_LABELS & set(kinds):
        return "config"
    return ""


def _one_stream(base: str, texts: Sequence[str], part: list[str]) -> list[str]:
    """The kinds of lines that came out of one program, or of programs that share a terminal."""
    present = set(part)
    if "launcher_log" in present:
        # msrun prints the workers' and the scheduler's logs again below its own lines.
        first = part.index("launcher_log")
        return part[:first] + [kind if kind == "text" else "launcher_log" for kind in part[first:]]
    if "scheduler_log" in present or ("sched" in base and "ms_log" in present):
        worker = any("compute_graph_node.cc" in text for text in texts)
        into = "scheduler_log" if "sched" in base or not worker else "ms_log"
        part = [into if kind in _MS_FAMILY else kind for kind in part]
        present = set(part)
    if present & _MS_FAMILY and "training" in present:
        into = "scheduler_log" if "scheduler_log" in present else "ms_log"
        part = [into if kind == "training" else kind for kind in part]
    if "device_log" in present or (base.startswith("device-") and "plog" in present):
        device = base.startswith("device-") or part.count("device_log") >= part.count("plog")
        part = [("device_log" if device else "plog") if kind in ("plog", "device_log") else kind for kind in part]
    return part


def _sandwiches(runs: Sequence[_Run]) -> list[_Run]:
    """Join equal neighbours, also across a run between them that belongs to the same stream."""
    done: list[_Run] = []
    for run in runs:
        while done:
            top = done[-1]
            if top.kind == run.kind:
                run = _Run(run.kind, done.pop().first, run.last)
                continue
            if len(done) > 1 and done[-2].kind == run.kind and _absorbs(run.kind, top, done[-2], run):
                done.pop()
                run = _Run(run.kind, done.pop().first, run.last)
                continue
            break
        done.append(run)
    return done


def _absorbs(kind: str, middle: _Run, before: _Run, after: _Run) -> bool:
    if kind in _TOOLS and middle.kind == "text":
        return middle.last - middle.first < 6
    if kind not in _STREAM or kind == "text" or middle.kind not in _STREAM:
        return False
    if middle.kind == "text":
        return True
    if kind == "traceback":
        return False
    size = middle.last - middle.first + 1
    around = before.last - before.first + after.last - after.first + 2
    if middle.kind == "traceback":
        return kind != "training"
    return size < 5 or size * 2 < around
