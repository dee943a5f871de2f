"""Lines and records: cleaning, prefixes, log heads (level, pid, time), and what belongs together.

The formats are those of MindSpore, CANN, mindformers, torch_npu and the common Python loggers; three bracket dialects
look alike and are told apart by their parentheses. All expressions are linear and run on at most 4 KiB of a line.
"""

from typing import NamedTuple

from doctor.scan.lazy import lazy

MAX_LINE = 4096
"""Bytes of a line that are looked at; longer lines exist (progress bars, dumped graphs)."""

_ANSI = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\-_])")
_LEVEL_WORDS = "DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|EVENT|TRACE"
_LEVELS = {
    "WARN": "WARNING", "FATAL": "CRITICAL", "TRACE": "DEBUG",
    "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "I": "INFO", "D": "DEBUG",
}  # fmt: skip

# rank, grep and container prefixes; taken off one after the other
_PREFIXES = (
    lazy(r"\[rank ?(?P<rank>\d{1,6})\]:\s?"),
    lazy(r"(?P<file>[^\s:]{1,300}\.(?:log|txt|out|err)(?:\.\d+)?)(?::\d+:|-\d+-|:)\s?"),
    lazy(r"\((?P<actor>[A-Za-z_]\w{0,60}) pid=(?P<pid>\d+)(?:, ip=[^)]{1,60})?\)\s?"),
    lazy(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)\s(?:(?:stdout|stderr) [FP] )?"),
    lazy(r"(?:> ?){1,4}"),
    lazy(r"\[\d{1,5}\]:\s"),
    lazy(r"(?P<n>\d{1,6})[:-](?=\[)"),
    lazy(r"[A-Za-z][\w.-]{0,60}: (?=\[(?:ERROR|WARNING|INFO|CRITICAL|EVENT)\])"),
)

_DATE = r"(?P<ts>\d{4}-\d\d-\d\d[- T]\d\d:\d\d:\d\d(?:[.,]\d{1,6}){0,2})"
_HEADS = (
    # with a bracket
    # MindSpore C++ (three fields), MindSpore Python (colon), CANN plog (two fields)
    lazy(rf"\[(?P<level>{_LEVEL_WORDS}|V\d+)\] ?(?P<mod>[A-Za-z0-9_]+)\((?P<pid>-?\d+)[:,][^)]{{0,200}}\):{_DATE}"),
    # torch_npu
    lazy(
        rf"\[(?P<level>ERROR|W|E|I|F|D)\] ?{_DATE} \(PID:(?P<pid>\d+), Device:(?P<device>-?\d+), "
        r"RankID:(?P<rank>-?\d+)\)"
    ),
    # mindformers to a file, deepspeed, mindnlp: [LEVEL] date / [date] [LEVEL]
    lazy(rf"\[ {{0,8}}(?P<level>{_LEVEL_WORDS}) {{0,8}}\] ?\[?{_DATE}"),
    lazy(rf"\[{_DATE}\] ?\[ {{0,8}}(?P<level>{_LEVEL_WORDS}) {{0,8}}\]"),
    lazy(rf"\[(?P<level>{_LEVEL_WORDS})\|[^\]]{{1,120}}\] {_DATE}"),
    # vLLM: LEVEL mm-dd hh:mm:ss [file:line]
    lazy(rf"(?P<level>{_LEVEL_WORDS}) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \["),
    # glog as torch prints it: W0520 09:20:36.761000 pid file], [W611 13:31:09.5 file], [E ProcessGroup.cpp:1]
    lazy(r"\[?(?P<level>[WEFI])\d{3,4} \d\d:\d\d:\d\d\.\d+ "),
    lazy(r"\[(?P<level>[WEFI]) [\w./-]{1,80}:\d+\]"),
    # the common Python shapes: date - name - LEVEL -, date | LEVEL |, date,ms [LEVEL], mm/dd/yyyy ... - LEVEL -
    lazy(rf"\[?{_DATE}\]?[^\n]{{0,120}}?(?:\[| - |\| | )(?P<level>{_LEVEL_WORDS})(?: {{0,8}}[\]|:-]| - | )"),
    lazy(rf"\d\d/\d\d/\d{{4}} \d\d:\d\d:\d\d - (?P<level>{_LEVEL_WORDS}) - "),
    lazy(r"(?P<level>INFO|WARNING|ERROR|CRITICAL):(?:\s{2,}|[\w.]+:)"),
    # an unlabelled time stamp in front of everything: a record, level unknown
    lazy(rf"\[?{_DATE}\]? "),
)
_BRACKET_HEADS, _LEVEL_HEADS, _DATE_HEADS = (0, 1, 2, 3, 4, 6, 7, 8, 11), (5, 6, 10), (8, 9, 11)
"""Which heads a line can have, by its first character"""

_VLLM = lazy(rf"(?P<level>{_LEVEL_WORDS}) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[^\]]{{1,120}}\]\s?")
_CANN_HEAD = lazy(r"\s*(?:\[PID: ?(?P<pid>\d+)\] ?)?(?:[EW][A-Z0-9]\d{4}(?::|\[PID)|.{0,80}\([EW][A-Z0-9]\d{4}\):)")
_CANN_TIME = lazy(r"\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{1,3}\.\d{1,3}")
_TRACEBACK = lazy(r"\s{0,8}Traceback \(most recent call last\):")
_EXCEPTION = lazy(r"[A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt|Exit)(?::|$)")
_TIME = lazy(r"(\d{4})-(\d\d)-(\d\d)[- T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?(?:\.(\d{1,3}))?")


_LOG_NAME = lazy(r"\.(?:log|txt|out|err)")
_LEVEL_FIRST = frozenset("DIWECFT")


_RANK_IN_NAME = (
    lazy(r"worker[_-](\d{1,6})\.log"),
    lazy(r"(?:^|[/_.-])rank[_-]?(\d{1,6})(?=[/_.-]|$)"),
)
_BARE_LEVEL = lazy(rf"\[(?P<level>{_LEVEL_WORDS})\]")


class Head(NamedTuple):
    """What stands before the message of a log record; ``seconds`` since the epoch as printed, no time zone."""

    level: str
    pid: int | None
    seconds: float | None
    rank: int | None
    device: int | None


def decode(raw: bytes) -> str:
    """Text of one line: UTF-8, else GB18030, else with replacement. One file can hold both encodings."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        try:
            return raw.decode("gb18030")
        except UnicodeDecodeError as error:
            if error.start and error.start >= len(raw) - 3:
                return raw[: error.start].decode("gb18030")  # cut within a character
            return raw.decode("utf-8", "replace")


def visible(raw: bytes) -> str:
    """A line as a person sees it: decoded, capped, without colour codes, only the part after the last return."""
    text = decode(whole_characters(raw[:MAX_LINE]) if len(raw) > MAX_LINE else raw).rstrip("\r\n")
    if "\r" in text:
        text = text[text.rindex("\r") + 1 :]
    return _ANSI.sub("", text) if "\x1b" in text else text


class Stripped(NamedTuple):
    """A line without its prefixes, and what the prefixes said."""

    text: str
    rank: int | None = None
    pid: int | None = None
    file: str | None = None
    level: str = ""


_BY_FIRST = {"[": (0, 5), "(": (2,), ">": (4,)}


def _prefixes_for(text: str) -> tuple[int, ...]:
    """The prefixes that a line can begin with, by its first character: most lines have none."""
    first = text[:1]
    found = _BY_FIRST.get(first, ())
    if first == "[" and text[1:2] not in "rR0123456789":
        found = ()
    if "0" <= first <= "9":
        found = (3, 6)
    elif first.isalpha() and ": [" in text[:64]:
        found = (7,)
    if first not in "[(>" and _LOG_NAME.search(text, 0, 320):
        found = (1, *found)
    return found


def strip(text: str) -> Stripped:
    """Take rank, grep, container, quote and vLLM prefixes off a visible line."""
    rank = pid = None
    file = None
    level = ""
    for _ in range(6):
        for number in _prefixes_for(text):
            found = _PREFIXES[number].match(text)
            if found:
                groups = found.groupdict()
                rank = int(groups["rank"]) if groups.get("rank") else rank
                pid = int(groups["pid"]) if groups.get("pid") else pid
                file = groups.get("file") or file
                text = text[found.end() :]
                break
        else:
            found = _VLLM.match(text) if text[:1] in _LEVEL_FIRST else None
            if not found:
                break
            level = _level(found["level"])
            text = text[found.end() :]
    return Stripped(text, rank, pid, file, level)


def _level(word: str) -> str:
    return _LEVELS.get(word, "INFO" if word.startswith("V") else word)


def seconds_of(stamp: str) -> float | None:
    """Seconds of a printed time stamp. Fractions are not always zero padded (``.400.00``): the first group is
    milliseconds by value, so order is exact to the millisecond at best.

    >>> seconds_of("2026-11-29-11:31:43.150.000") - seconds_of("2026-11-29 11:31:43,050")
    0.1
    """
    found = _TIME.search(stamp)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(g) for g in found.groups()[:6])
    fraction, micro = found[7], found[8]
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 62):
        return None
    part = 0.0
    if fraction:
        part = int(fraction) / 1000 if micro is not None else int(fraction) / 10 ** len(fraction)
    # days from the civil date (Howard Hinnant's formula); calendar and datetime cost 2 ms of import
    early = month <= 2
    years = year - early
    days = (
        years * 365 + years // 4 - years // 100 + years // 400 + (153 * (month + (9 if early else -3)) + 2) // 5 + day
    )
    return round((days - 719469) * 86400 + hour * 3600 + minute * 60 + second + part, 3)


def head_of(text: str) -> Head | None:
    """The head of a stripped line if a log record begins here."""
    if text.startswith(" [2"):
        # Megatron-LM puts a blank before the time of its training lines
        text = text[1:]
    if text[:1] in ("", " ", "\t"):
        return None
    first = text[0]
    if first == "[":
        numbers: tuple[int, ...] = _BRACKET_HEADS
    elif "0" <= first <= "9":
        numbers = _DATE_HEADS
    elif first in _LEVEL_FIRST:
        numbers = _LEVEL_HEADS
    else:
        return None
    for number in numbers:
        found = _HEADS[number].match(text)
        if found:
            groups = found.groupdict()
            rank = int(groups["rank"]) if groups.get("rank") else None
            device = int(groups["device"]) if groups.get("device") else None
            return Head(
                _level(groups["level"]) if groups.get("level") else "",
                int(groups["pid"]) if groups.get("pid") else None,
                seconds_of(groups["ts"]) if groups.get("ts") else None,
                rank if rank is not None and rank >= 0 else None,
                device if device is not None and device >= 0 else None,
            )
    return None


def read_line(raw: bytes) -> Stripped:
    """A line as it stands in a log: as a person sees it, without its prefixes."""
    return strip(visible(raw))


def level_of(line: Stripped, head: Head | None) -> str:
    """The level a line itself names: by its head, its prefix, or ``[ERROR]`` alone; "" without one."""
    return (head.level if head else "") or line.level or bare_level(line.text)


def is_traceback(text: str) -> bool:
    """Whether a Python traceback begins here (CANN's own says "TraceBack")."""
    return bool(_TRACEBACK.match(text))


def is_exception(text: str) -> bool:
    """Whether this is the last line of a traceback, with the exception's class at its beginning."""
    return bool(_EXCEPTION.match(text))


def cann_head(text: str) -> bool:
    """Whether a CANN error block begins here."""
    return bool(_CANN_HEAD.match(text))


def cann_seconds(text: str) -> float | None:
    """The time inside a CANN header line."""
    found = _CANN_TIME.search(text[:200])
    return seconds_of(found[0]) if found else None


def bare_level(text: str) -> str:
    """The level of a line that begins with ``[ERROR]`` and has no other head; "" without one. No record begins there:
    MindSpore prints such lines inside the sections of an exception."""
    found = _BARE_LEVEL.match(text)
    return _level(found["level"]) if found else ""


def rank_in_name(name: str) -> int | None:
    """The rank a file name or folder speaks of: worker_3.log, rank_3/…, plog of a pid does not.

    >>> rank_in_name("msrun_log/worker_12.log"), rank_in_name("output/log/rank_3/info.log"), rank_in_name("a.log")
    (12, 3, None)
    """
    for pattern in _RANK_IN_NAME if "rank" in name or "worker" in name else ():
        # of a ModelArts job "worker" numbers the hosts, and "proc-rank" the processes
        found = pattern.findall(name) if "modelarts-job-" not in name or pattern is _RANK_IN_NAME[1] else ()
        if found:
            return int(found[-1])
    return None


def whole_characters(piece: bytes, *, front: bool = False) -> bytes:
    """A piece cut out of a longer line, without the halves of UTF-8 characters at its end (and at its ``front``); a
    piece in another encoding is left as it is."""
    first = 0
    while front and first < min(3, len(piece)) and piece[first] & 0xC0 == 0x80:
        first += 1
    try:
        piece[first:].decode()
    except UnicodeDecodeError as error:
        if first + error.start < len(piece) - 3 or error.reason != "unexpected end of data":
            return piece
        return piece[first : first + error.start]
    return piece[first:]


_STEP = lazy(
    r"step:? ?\[|'loss': |elapsed time per iteration"
    r"|(?i:\b(?:global[_ ])?(?:step|iter(?:ation)?|batch)s?\b[:\s=]{0,3}\[?\s{0,8}\d+.{0,120}?\bloss\b(?: is|[:=\s]))"
    r"|(?i:\bepoch\b[:\s]{0,3}\[?\s{0,8}\d+.{0,120}?\bloss\b(?: is|[:=\s]))"
)


def is_step(text: str) -> bool:
    """Whether a line reports a training step, in any of the known forms."""
    return _STEP.search(text) is not None
