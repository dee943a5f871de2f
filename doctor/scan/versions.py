"""Which versions and which chip does a text name? Facts for rules that apply to some versions only.

A text may quote a requirement, an example or another machine, so a number is taken only where its line says what is
there, and never from a line that says what is wanted or what is not.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from doctor.scan.kinds import clean, split_lines
from doctor.scan.lazy import lazy

KEYS: tuple[str, ...] = (
    "version.mindspore",
    "version.mindformers",
    "version.cann",
    "version.driver",
    "version.firmware",
    "version.python",
    "version.numpy",
    "version.torch",
    "version.torch_npu",
    "version.mindnlp",
    "device.chip",
    "platform.arch",
)

_WORDS = (
    "mindspore", "mindformers", "mindnlp", "cann", "ascend", "driver", "firmware", "python", "numpy", "torch", "910",
    "310", "950", "aarch64", "x86_64", "arm64", "amd64", "npu", "version=", "software version", "-cp3", "__version__",
    "驱动", "固件",
)  # fmt: skip


_IN_RECORDS = ("version", "soc", "-packages", "/ascend", "/lib/python3", "requires", "cann", "but you have")


class _Patterns(NamedTuple):
    example: re.Pattern[str]
    sure: tuple[tuple[str, str, re.Pattern[str]], ...]  # key, a word without which the pattern cannot match, pattern
    stated: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]
    wanted: re.Pattern[str]
    conflict: re.Pattern[str]
    arch: re.Pattern[str]


@lru_cache(maxsize=1)
def _patterns() -> _Patterns:
    number = (
        r"(\d{1,4}(?:\.\d{1,8}){1,5}(?:\.?(?:rc|alpha|beta|dev|post|spc|t|b|a)\d{0,8}(?:\.[a-z]{0,5}\d{1,8}){0,2})?)"
    )

    def named(name: str) -> re.Pattern[str]:
        # NAME [version] [(…)] then "==", "=", ":" or blanks, then the number; what stands before must end a word
        return lazy(
            r"(?i)(?:^|[^\w./-])(?:"
            + name
            + r")(?:[ _-]{0,2}(?:version|ver|toolkit|版本号?|的版本))?(?: ?\([^)]{0,60}\))?"
            r"(?: {0,4}={1,2} {0,2}| {0,8}: {0,8}| {1,60}| is |-)[\"'\[(]?v?" + number + r"(?:$|[^\w.]|\.(?:$|[^\w]))"
        )

    return _Patterns(
        example=lazy(r"(?i)\((?:e\.?g\.?|eg|for example|例如|比如|如)[^)]{0,120}\)"),
        # Forms that a tool prints about what it found; they hold even where the line goes on about requirements.
        sure=(
            ("version.cann", "cann_version", lazy(r"(?i)\[CANN_VERSION ?: ?" + number + r"\]")),
            ("version.cann", "/ascend-toolkit/", lazy(r"(?i)/ascend-toolkit/" + number + r"(?:/|$)")),
            ("version.cann", "_running_version", lazy(r"(?i)_running_version=\[[\w.]{1,40}:" + number + r"\]")),
            (
                "version.cann",
                "ascend-cann-",
                lazy(r"(?i)Ascend-cann-(?:toolkit|nnae|nnrt|kernels\w*)[_-]" + number + r"_linux"),
            ),
            (
                "version.cann",
                "/ascend/",
                lazy(r"(?i)/Ascend/(?:cann-)?" + number + r"/(?:opp|toolkit|compiler|runtime|fwkacllib|\w+-linux)"),
            ),
            ("version.python", "-packages", lazy(r"/python(3\.\d{1,2})/(?:site|dist)-packages")),
            ("version.python", "/lib/python3", lazy(r"python(3\.\d{1,2}(?:\.\d{1,2})?)/lib/python3")),
            ("version.driver", "npu-driver_", lazy(r"(?i)npu-driver_" + number + r"_linux")),
            ("version.firmware", "npu-firmware_", lazy(r"(?i)npu-firmware_" + number + r"\.run")),
            (
                "version.mindspore",
                "mindspore version",
                lazy(r"(?i)MindSpore version " + number + r" and .{0,120}(?:does not match|version)"),
            ),
            ("version.mindspore", "requires", lazy(r"^(?:ERROR: )?mindspore " + number + r" requires ")),
            ("version.numpy", "but you have", lazy(r"but you have numpy " + number + r" which")),
            ("version.torch", "but you have", lazy(r"but you have torch " + number + r" which")),
            (
                "device.chip",
                "current",
                lazy(r"(?i)current (?:device )?soc[ _]?versi\w{1,3} (?:is )?Ascend ?((?:910|310|950)\w{0,8})"),
            ),
        ),
        stated=(
            ("version.mindspore", ("mindspore",), named(r"mindspore(?:[_-](?:ascend|gpu|cpu|dev))?")),
            ("version.mindformers", ("mindformers",), named("mindformers")),
            ("version.mindnlp", ("mindnlp",), named("mindnlp")),
            (
                "version.cann",
                ("cann",),
                named(r"(?:ascend[ -])?cann(?:[ -](?:toolkit|nnae|nnrt|kernels\w{0,20}))?|ascend-cann-\w{1,20}"),
            ),
            ("version.torch_npu", ("torch",), named("torch[_-]npu")),
            ("version.torch", ("torch",), named("(?:py)?torch")),
            ("version.numpy", ("numpy",), named("numpy")),
            ("version.python", ("python",), named("python3?|cpython")),
            ("version.python", ("python3.",), lazy(r"(?:^|[^\w./])python(3\.\d{1,2})(?:$|[^\w.])")),
            (
                "version.driver",
                ("driver", "驱动"),
                named(r"(?:ascend |npu |host |hdk )?driver|驱动|(?:npu|昇腾) ?驱动"),
            ),
            ("version.firmware", ("firmware", "固件"), named(r"(?:ascend |npu )?firmware|固件|(?:npu|昇腾) ?固件")),
            (
                "device.chip",
                ("910", "310", "950"),
                lazy(
                    r"(?i)(?:ascend[ _-]?|atlas ?(?:a2|a3)? ?|npu(?: type)? ?[:=]? ?|chip(?: name"
                    r"| type)? {0,40}[:=]? ?|device ?[:=] ?|\b)"
                    r"(910(?:pro[ab]|b[1-4](?:-\d)?|[abc]|_93\d\d)|310(?:p[1-7]?|b[1-4]?)|950(?:pr|dt))(?:$|[^\w-])"
                ),
            ),
            ("device.chip", ("910", "310", "950"), lazy(r"(?i)ascend[ _-]?(910|310|950)(?:$|[^\w-])")),
        ),
        wanted=lazy(
            r"(?i)\brequire|\bneed|\bat least\b|\bor (?:later|above|higher|newer|greater)|\bexpect|\bshould\b"
            r"|\brecommend|\bplease (?:install|up|use)"
            r"|\bdepend|\bcompatib|\bsupport|\bmatching distribution|satisf|\bnot\b|n't\b|\bupgrade to\b"
            r"|\bminimum\b|\bmust\b|\binstead\b|[<>~!]="
            r"|需要|要求|至少|以上|及更高|建议|推荐|升级|不是|不支持|不匹配"
            r"|适配|配套|请安装|pip3? install |conda install "
        ),
        conflict=lazy(r"(?i)nvidia|cuda|\bgpu driver|chromedriver|webdriver"),
        arch=lazy(r"(?:^|[^a-zA-Z0-9])(aarch64|x86_64|arm64|amd64)(?:$|[^a-zA-Z0-9])"),
    )


def facts(data: bytes, several: set[str] | None = None) -> dict[str, tuple[str, int]]:
    """Version facts in ``data``: key of ``KEYS`` → (value as written, 1-based line). Never raises.

    The first mention wins; a later one replaces it only when it says the same more exactly ("2.3" then "2.3.0").
    Requirements ("requires mindspore>=2.3"), install commands and negations are not mentions. Of one line only its
    first 2 048 characters are read. ``several`` gets the keys of which different values are named: of two machines, or
    of before and after.
    """
    found: dict[str, tuple[str, int]] = {}
    lines, _ = split_lines(data)
    for number, key, value in _mentions(lines):
        known = found.get(key)
        if known is None or _refines(known[0], value):
            found[key] = (value, number)
        elif several is not None and known[0].lower() != value.lower() and not _refines(value, known[0]):
            several.add(key)
    return found


def _refines(old: str, new: str) -> bool:
    return len(new) > len(old) and new.startswith(old) and not new[len(old)].isdigit()


def _words_in(lines: list[str]) -> tuple[list[str], list[str]]:
    """The words of which every mention holds one, and those of mentions in records, as far as they stand in a text at
    all: few of them."""
    whole = "\n".join(lines).lower()
    return [word for word in _WORDS if word in whole], [word for word in _IN_RECORDS if word in whole]


def _mentions(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    patterns = _patterns()
    words, in_records = _words_in(lines)
    pending = ""
    for at, raw in enumerate(lines):
        if not raw:
            continue
        low = raw[:4096].lower()
        if not pending:
            # what most lines are comes first
            if "step:[" in low or "samples/s/p" in low:
                continue  # a training line
            if low[:1] == "[" and "):2" in low[:120] and not any(word in low for word in in_records):
                continue  # a log record names its source file and process, which are no versions
            if not any(word in low for word in words):
                continue
        line = clean(raw).strip()
        low = line.lower()
        if pending:
            bare = re.match(r"'?(\d+\.\d+[\w.]*)'?$", line)
            if bare:
                yield at + 1, pending, bare[1]
            pending = ""
        for key, value in _of_line(patterns, lines, at, line, low):
            yield at + 1, key, value
        if "__version__" in low:
            asked = re.search(r"(mindspore|mindformers|mindnlp|numpy|torch_npu|torch|\bms|\bnp)\.__version__", low)
            if asked:
                pending = "version." + {"ms": "mindspore", "np": "numpy"}.get(asked[1], asked[1])


def _of_line(patterns: _Patterns, lines: list[str], at: int, line: str, low: str) -> Iterator[tuple[str, str]]:
    for key, word, sure in patterns.sure:
        hit = sure.search(line) if word in low else None
        if hit:
            yield key, hit[1]
    hit = patterns.arch.search(line) if "64" in low else None
    if hit:
        yield "platform.arch", {"arm64": "aarch64", "amd64": "x86_64"}.get(hit[1], hit[1])
    if "version=" in low and "==" not in low:
        yield from _info_file(lines, at, line)
    if "npu-smi" in low and "version:" in low:
        hit = re.search(r"npu-smi \S+ {1,60}Version: {0,4}([\w.]+)", line)
        if hit:
            yield "version.driver", hit[1]
        return
    if "version" in low and ("software version" in low or "firmware version" in low):
        hit = re.match(r"(Software|Firmware) Version {0,60}: {0,4}(\d[\w.]+)", line)
        if hit:
            yield "version.driver" if hit[1] == "Software" else "version.firmware", hit[2]
            return
    if line[:1] == "|":
        hit = re.match(r"\| {0,4}\d{1,5} {1,12}(?:Ascend ?)?((?:910|310|950)[\w-]*) {0,30}\|", line)
        if hit:
            yield "device.chip", hit[1]
            return
    if "chip" in low or low[:1].isdigit():
        hit = re.match(
            r"(?:Chip Name {0,60}: {0,4}(?:Ascend ?)?|\d+ +\d+ +\d+ +(?:\d+ +)?Ascend ?)((?:910|310|950)[\w-]*)$", line
        )
        if hit:
            yield "device.chip", hit[1]
            return
    if ".whl" in low or low.startswith("successfully installed"):
        yield from _installed(line)
        return
    if "):2" in low and "version" not in low and "soc" not in low:
        return  # the name in a MindSpore or CANN log line is that of the source file or process
    text = line.translate(_PUNCTUATION) if not line.isascii() or any(mark in line for mark in "*`|\t") else line
    if "(" in text:
        text = patterns.example.sub("", text)
    stated: list[tuple[str, str]] = []
    for key, words, pattern in patterns.stated:
        if any(word in low for word in words):
            hit = pattern.search(text)
            if hit:
                stated.append((key, hit[1]))
    if stated and not patterns.wanted.search(line) and not patterns.conflict.search(line):
        yield from stated


# Full-width punctuation and Markdown around names and values.
_PUNCTUATION = str.maketrans(
    {"：": ":", "（": "(", "）": ")", "，": ",", "；": ";", "＝": "=", "*": "", "`": "", "|": " ", "\t": " "}
)


_KEY_VALUE = lazy(r"[A-Za-z_][\w.-]{0,60}=")


def _info_file(lines: list[str], at: int, line: str) -> Iterator[tuple[str, str]]:
    """version.info and install.info files say in their neighbouring lines what they are about."""
    hit = re.match(r"(?i)version=(\d[\w.]*)$", line)
    if not hit:
        return
    first = last = at
    while first > max(0, at - 8) and _KEY_VALUE.match(lines[first - 1]):
        first -= 1
    while last < min(len(lines) - 1, at + 8) and _KEY_VALUE.match(lines[last + 1]):
        last += 1
    own = "\n".join(part[:200] for part in lines[first : last + 1]).lower()
    around = "\n".join(part[:200] for part in lines[max(0, at - 3) : at + 4]).lower()
    if "ascendhal_version=" in own or "compatible_version_fw" in own:
        yield "version.driver", hit[1]
    elif "firmware_version=" in own or "compatible_version_drv" in own:
        yield "version.firmware", hit[1]
    elif "ascend-cann" in around or "ascend-toolkit" in around:
        yield "version.cann", hit[1]


def _installed(line: str) -> Iterator[tuple[str, str]]:
    """Names of wheels and pip's closing line: NAME-NUMBER."""
    for name, value in re.findall(
        r"(?:^|[ /])(mindspore|mindformers|mindnlp|numpy|torch_npu|torch-npu|torch)-(\d[\w.]*)", line
    ):
        yield "version." + name.replace("-", "_"), value.removesuffix(".whl")
    hit = re.search(r"-cp3(\d{1,2})-", line)
    if hit:
        yield "version.python", "3." + hit[1]
