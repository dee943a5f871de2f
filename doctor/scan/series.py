"""Training lines → columns: step, epoch, loss, rate, norms, scale, times, for each rank a track.

Every framework prints the same few values behind names that hardly differ, so there is no parser for each of them: the
names are looked up (``_KEYS``) once, the line becomes a *layout* (an expression that takes the values out of every line
of the same make), and from then on a line costs one match. A line of another make is looked up again. The hits that
say "look here" come from the scan of the source, so that lines without values cost nothing.

Rows are bounded: a track that grows too long keeps every second row, and all rows that stick out.
"""

import math
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

from doctor.scan.columns import table_of
from doctor.scan.lazy import lazy_bytes, load_numpy, numpy_at_hand

if TYPE_CHECKING:
    Floats = array[float]
    Ints = array[int]
else:
    # evaluated at every start; as texts they would be compiled then
    Floats = Ints = array

COLUMNS = ("step", "epoch", "loss", "lr", "grad_norm", "loss_scale", "overflow", "skipped", "nan_steps",
           "step_time", "throughput", "data_time")  # fmt: skip
"""``step_time`` and ``data_time`` in ms; ``throughput`` in the unit of the log, see ``Track.units``; ``overflow`` is 0
or 1; ``skipped`` and ``nan_steps`` count the steps since the line before. An evaluation has its loss in ``loss`` too,
in a track of its own."""

MISSING = -1e308
"""Stands for a value that a line does not give; NaN is a value."""

ROWS = 1 << 19
"""Rows kept of a track in a run of one file."""
ROWS_LEAST = 1 << 12
"""Rows kept of a track however many files there are."""
TRACKS = 64
LAYOUTS = 24
LOOKED_UP = 20_000
"""Lines of a source that are looked up name by name; a text whose layout changes on every line is thinned then."""
LINE = 4096
BATCH = 2048
DENSE = 1 << 14
"""Lines of a track that are all read, or half of the rows that it may keep if that is less; then one of 4 lines, from
three times as many on one of 16, and besides every line that tells something new: see ``_Rows.leaps``."""
PART = 64
"""Lines whose losses say what is usual for the next ones."""
MARK = 1 << 16
"""Bytes between two places whose line number is remembered, at least."""
TEXTS = 1 << 20
"""Bytes of lines kept word for word."""


class Track(NamedTuple):
    """The training lines of one rank in one source. Plain data: it crosses process borders.

    ``columns`` are as long as ``steps``; ``lines`` are line numbers, or byte offsets where ``marks`` is not empty
    (``marks``: pairs of offset and newlines before it). ``every``: one row of so many was kept.
    """

    source: str
    rank: int | None
    kind: str
    """train · eval"""
    made: str
    """how the lines were understood: named (every column by its name) · inferred"""
    columns: dict[str, Floats]
    lines: Ints
    marks: Ints
    units: dict[str, str]
    total: int
    """steps that the run shall have as the lines say, 0 if they do not"""
    every: int
    unread: int
    """lines that look like training lines and could not be understood"""
    texts: dict[int, str] = {}  # noqa: RUF012 - never changed
    """rows whose line is at hand"""
    number: int = 0
    """training lines met, read or not"""

    def __len__(self) -> int:
        return len(self.lines)


# ------------------------------------------------------------------ names

_NUMBER = rb"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|(?:nan|NaN|NAN|inf|Inf|INF)(?:inity)?|True|False|true|false)"
_KEYS = (
    ("eval", rb"(?:val(?:id(?:ation)?)?|eval|test|dev)[_ ]{0,2}loss|tel"),
    ("summary", rb"train_runtime"),
    ("loss_scale", rb"(?:cur_|attempted )?loss[_ ]?scal(?:e|ing)(?: value)?|grad_scale|scaling_sens"),
    ("loss", rb"(?:train(?:ing)?|lm|total|avg|mean|running|reduced|step|ce|nll|mse)?[_ ]?loss|trl|nll|cost"
             rb"|objective|mse|\xe6\x8d\x9f\xe5\xa4\xb1(?:\xe5\x80\xbc)?"),
    ("lr", rb"(?:cur[_ ]?|base_)?lr|learning[_ ]?rate|\xe5\xad\xa6\xe4\xb9\xa0\xe7\x8e\x87"),
    ("local_norm", rb"local[_ ]norm"),
    ("grad_norm", rb"(?:global|grad(?:ient)?|total)[_ ]?(?:grad[_ ]?)?norm|gnorm|norm"),
    ("overflow", rb"overflow(?: cond)?|is_overflow|found_inf"),
    ("skipped", rb"number of skipped iterations|skipped"),
    ("nan_steps", rb"number of nan iterations"),
    ("data_time", rb"data[_ ]time|(?:avg_)?reader_cost|data_load_time"),
    ("epoch_time", rb"epoch[_ ]time|train[_ ]time|eta|total[_ ]time"),
    ("step_time", rb"elapsed time per iteration|per[_ ]step[_ ]time|(?:avg_)?step[_ ]time|step_avg"
                  rb"|time(?:[ /]it| cost)?|(?:avg_)?batch_cost|iter_time|\xe8\x80\x97\xe6\x97\xb6"),
    ("throughput", rb"train_throughput_per_npu|throughput(?: per (?:GPU|NPU))?|(?:samples|tokens) per second"
                   rb"|tokens?[_ ]per[_ ]sec(?:ond)?|tokens/s(?:ec)?|samples/s(?:ec)?|fps(?: per card)?|ips|tgs"
                   rb"|TFLOPs|tflops|speed"),
    ("epoch", rb"epoch|\xe8\xbd\xae\xe6\xac\xa1"),
    ("rank", rb"rank(?: ?id)?"),
    ("step", rb"global_step/max_steps|num_updates"
             rb"|(?:opt_)?(?:global|train|current)[_ ]?steps?|steps?|iterations?|iters?|batch(?:es)?|it|s(?=:)"
             rb"|\xe6\xad\xa5(?:\xe6\x95\xb0)?"),
)  # fmt: skip
_PAIR = lazy_bytes(
    rb"(?i:(?<![A-Za-z_\d/])(?:train(?:ing)?/)?(?:"
    + b"|".join(b"(?P<%s>%s)" % (n.encode(), p) for n, p in _KEYS)
    + rb"))"
    rb"(?: ?\((?:(?P<unit>ms|s)|train)\))?['\"]?[ \t]{0,3}(?:(?::|=|\xef\xbc\x9a| is\b|is\b)[ \t]{0,12}|[ \t]{1,12})"
    rb"(?P<open>[\[('\"]{0,2}[ \t]{0,12}"
    rb"(?:tensor\(|array\(|Tensor\(shape=\[[\d, ]{0,20}\], dtype=\w{1,20}, value= ?\[?[ ]{0,4})?)"
    rb"(?P<value>" + _NUMBER + rb")(?![A-Za-z_]*_)(?:(?P<of>[ \t]{0,6}/[ \t]{0,12}(?P<total>\d[\d.]*))?"
    rb"(?P<behind>[ \t]?(?:ms|us|sec|s|T|[A-Za-z]{1,8}/s(?:/p)?)\b)?)"
)
_TQDM = lazy_bytes(
    rb"(?P<n>\d{1,12})/(?P<total>\d{1,12}) \[[\d:]{1,20}<[\d:?]{1,20}, {0,4}(?:[\d.]{1,20}|\?) ?"
    rb"(?:[A-Za-z]{1,20}/s|s/[A-Za-z]{1,20})"
)
_COUNTED = lazy_bytes(rb"(?i:loss)[^\n]{1,40}?\[[ ]{0,8}(?P<n>\d+)/[ ]{0,8}(?P<total>\d+)\]")
_KERAS = lazy_bytes(
    rb"[ \t\x08]{0,8}(?P<n>\d+)/(?P<total>\d+) \[[=>. -]{1,80}\]|[ \t\x08]{0,8}(?P<n2>\d+)/(?P<total2>\d+) \S* ?- "
)
_ORDINAL = lazy_bytes(
    rb"\xe7\xac\xac[ ]{0,2}(?:(?P<epoch>\d{1,9})[ ]{0,2}(?:\xe4\xb8\xaa[ ]?)?(?:\xe8\xbd\xae|epoch)"
    rb"|(?P<step>\d{1,12})[ ]{0,2}(?:\xe4\xb8\xaa[ ]?)?"
    rb"(?:\xe6\xad\xa5|\xe6\xac\xa1\xe8\xbf\xad\xe4\xbb\xa3|step|iter|batch))"
)
"""Chinese counters: the number stands before the name of what it counts"""
_BRACKETS = lazy_bytes(rb"\[[ ]{0,8}(?P<n>\d{1,12})/[ ]{0,8}(?P<total>\d{1,12})\]")
_LISTED_NUMBER = rb"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|(?:nan|NaN|inf|Inf)(?:inity)?)"
_LISTED = lazy_bytes(
    rb"(?i:(?<![A-Za-z\d])(?P<name>(?:[a-z]{1,10}[_ ]?)?loss))['\"]?[ \t]{0,3}[:=][ \t]{0,3}\[[ \t]{0,3}"
    rb"(?P<values>" + _LISTED_NUMBER + rb"(?:(?:[ \t]{0,3},[ \t]{0,3}|[ \t]{1,3})" + _LISTED_NUMBER + rb"){2,2047})"
    rb"[ \t]{0,3}(?P<end>\]|,?[ \t]{0,3}\r?$)"
)
_COUNTS = lazy_bytes(rb"(?i)(?:step|epoch|iter)\w{0,8}['\"]?[ \t]{0,3}[:=]?[ \t]{0,3}\[?\d")
_RANK = lazy_bytes(rb"^\[(?:rank|default|Rank|RANK)[ _:]?(\d{1,6})\]|^\(\w{1,40} (?:rank|RANK)[=_ ]?(\d{1,6})")
_TOKEN = lazy_bytes(
    rb"(?P<bar>%\|[^|\n]{0,400}\|)|(?P<num>"
    + _NUMBER
    + rb"(?![A-Za-z_]))|(?P<digits>\d[\d.]*(?:[eE][-+]?\d+)?)|(?P<blank>[ \t]+)"
)
_LOCAL_NUMBER = rb"[-+]?\d(?:[\d.]|(?:,|\xef\xbc\x8c)(?=\d))*"
_LAYOUT_NUMBER = rb"[-+]?(?:\d[\d.]*(?:[eE][-+]?\d+)?|[A-Za-z]+)"
_MILLI = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3}
_TRUTH = {b"true": 1.0, b"false": 0.0}
_UNITS = {"train_throughput_per_npu": "TFLOP/s per NPU", "tflops": "TFLOP/s", "samples per second": "samples/s",
          "samples/s": "samples/s", "samples/sec": "samples/s", "tokens per second": "tokens/s",
          "tokens/s": "tokens/s", "tokens/sec": "tokens/s", "tokens_per_sec": "tokens/s"}  # fmt: skip


class _Value(NamedTuple):
    """A value in a line: its column, its span, the factor to the column's unit."""

    column: str
    start: int
    stop: int
    factor: float = 1.0
    unit: str = ""
    local: bool = False
    """written with a comma in it: 1.234,56 or 1,234.56"""


class _Layout(NamedTuple):
    """Lines of one make: the expression with one group a value, and what the values are."""

    find: Callable[[bytes, int, int], re.Match[bytes] | None]
    columns: tuple[str, ...]
    factors: tuple[float, ...]
    kind: str
    counter: str
    """tells counters apart that run beside each other in one source: the total of a progress bar"""
    units: dict[str, str]
    total: int
    inferred: bool
    local: bool = False
    """whether some value is written with a comma in it"""
    table: bool = False
    """whether it is the row of a table, in which a cell may be empty"""


def values_of(line: bytes) -> tuple[list[_Value], str, int, bool]:
    """(values, train or eval, total number of steps, whether a name was guessed) of a line by the names in it; no
    values if it is no training line.

    >>> [v.column for v in values_of(b"iter 10: loss 3.21, time 123.45ms, mfu 12.34%")[0]]
    ['step', 'loss', 'step_time']
    """
    found: dict[str, _Value] = {}
    total = 0
    evaluation: _Value | None = None
    inferred = False
    body, start = line, 0
    if b"'loss'" in line or b"'eval_loss'" in line or b'"loss"' in line:
        # a dict of the trainer; it may stand between two updates of a progress bar
        start = max(0, line.find(b"{"))
        stop = line.find(b"}", start)
        body = line[: stop + 1] if stop > 0 else line
    for m in _PAIR.finditer(body, start):
        column = m.lastgroup and next((n for n, _ in _KEYS if m[n] is not None), "")
        if not column or column == "summary":
            if column:
                return [], "", 0, False
            continue
        word = m[column].decode("utf-8", "replace").lower()
        behind = (m["behind"] or b"").strip().decode()
        value, factor, unit = m["value"], 1.0, ""
        if column in ("epoch_time", "rank", "local_norm"):
            continue
        if column in ("step_time", "data_time"):
            unit = (m["unit"] or b"").decode() or (behind if behind in _MILLI else "")
            if not unit:
                unit = "s" if "cost" in word or word == "time" else "ms"
            factor, unit = _MILLI[unit], "ms"
        elif column == "throughput":
            unit = _UNITS.get(word, behind if "/" in behind else word)
            if unit in ("steps/s", "it/s", "step/s"):
                continue
        elif value.lower() in _TRUTH and column != "overflow":
            continue
        if column in ("step", "epoch") and not value.replace(b".", b"", 1).isdigit():
            continue
        if column == "step" and line[m.start() - 1 : m.start()] in (b":", b".") and line[m.start("value") - 1] == 58:
            continue  # module:train_step:88, where a line was written
        if column == "step" and m["total"]:
            total = _count(m["total"])
        stop, local = _local(line, m, column)
        spot = _Value(column, m.start("value"), stop, factor, unit, local)
        if column == "eval":
            evaluation = evaluation or spot._replace(column="loss")
        elif column == "step" and column in found and word in ("batch", "batches"):
            continue  # a batch size, or the batch of an evaluation
        elif column == "step" and column in found and word.startswith(("global", "opt_global")):
            found[column] = spot
        else:
            inferred = inferred or word in ("trl", "nll", "cost", "objective", "mse", "s", "norm")
            if word == "tel":
                inferred = True
            found.setdefault(column, spot)
    if evaluation is not None and b"tel:" in line:
        inferred = True
    kind = "train"
    if evaluation is not None:
        kind = "eval"
        found["loss"] = evaluation
    elif "loss" in found and _VALIDATES.search(line, 0, found["loss"].start):
        kind = "eval"
    for m in _ORDINAL.finditer(line) if b"\xe7\xac\xac" in line else ():
        column = str(m.lastgroup)
        found.setdefault(column, _Value(column, *m.span(column)))
    if "step" not in found and "loss" in found:
        for m in _BRACKETS.finditer(line, 0, found["loss"].start):
            if "epoch" not in found or not m.start("n") <= found["epoch"].start < m.end():
                found["step"], total = _Value("step", *m.span("n")), _count(m["total"])
    if "step" not in found or b"it/s" in line or b"s/it" in line:
        other = _TQDM.search(line) if start == 0 and body is line else None
        other = other or (_COUNTED.search(line) if "step" not in found else None)
        if other is not None:
            found["step"] = _Value("step", other.start("n"), other.end("n"))
            total = _count(other["total"])
        elif "step" not in found:
            other = _KERAS.match(line)
            if other is not None:
                group = "n" if other["n"] else "n2"
                found["step"] = _Value("step", other.start(group), other.end(group))
                total = _count(other["total"] or other["total2"])
    megatron = "nan_steps" in found and "step" in found
    if "loss" not in found and not megatron and not ("step" in found and {"grad_norm", "loss_scale"} & set(found)):
        return [], "", 0, False
    return sorted(found.values(), key=lambda v: v.start), kind, total, inferred


_COMMA = lazy_bytes(
    rb"[-+]?(?:\d{1,3}(?:(?:,|\xef\xbc\x8c)\d{3})+(?:\.\d+)?|(?P<decimal>\d{1,3}(?:\.\d{3})+,\d+|\d+,\d+))"
    rb"(?![\w.]|,\d)"
)


def _local(line: bytes, found: re.Match[bytes], column: str) -> tuple[int, bool]:
    """(end, whether it has a comma) of the number that a value is: a list is none, and no counter has decimals."""
    start, stop = found.span("value")
    if line[stop : stop + 1] not in (b",", b"\xef") or found["open"]:
        return stop, False
    whole = _COMMA.match(line, start)
    if whole is None or (whole["decimal"] and column in ("step", "epoch")):
        return stop, False
    return whole.end(), True


def _delocalised(column: str, texts: Sequence[bytes]) -> list[bytes]:
    """Numbers with commas as Python writes them. Whether a comma is that of decimals or of thousands is told by the
    other numbers of the column; where nothing tells, they stay as they are, and are not read."""
    plain = [text.replace(b"\xef\xbc\x8c", b"") for text in texts]
    commas = [text for text in plain if b"," in text]
    ends = [text.rpartition(b",")[2] for text in commas]
    if any(text.lstrip(b"-+").startswith(b"0,") for text in commas) or any(
        b"." not in end and (len(end) != 3 or b"." in text) for text, end in zip(commas, ends, strict=True)
    ):
        return [text.replace(b".", b"").replace(b",", b".") if b"," in text else text for text in plain]
    if column == "step" or any(b"." in end or text.count(b",") > 1 for text, end in zip(commas, ends, strict=True)):
        return [text.replace(b",", b"") for text in plain]
    return plain


def _count(text: bytes) -> int:
    """A number of steps; 0 if it is none."""
    try:
        return min(int(float(text)), 10**12)
    except (ValueError, OverflowError):
        return 0


_RECORDS = (b"[INFO]", b"[DEBUG", b"[EVENT", b"[WARN", b"[ERROR", b"[CRIT", b"[V")
_VALIDATES = lazy_bytes(rb"(?i)\b(?:valid(?:ation)?|eval(?:uation)?|test)\b[^\n]{0,40}$|\b(?:valid|eval) step")


def _layout(line: bytes) -> _Layout | None:
    """The layout of a line, None if it is no training line."""
    values, kind, total, inferred = values_of(line)
    if not values:
        return None
    parts: list[bytes] = []
    at = values[0].start
    key = max(line.rfind(b" ", 0, max(0, at - 1)), line.rfind(b"[", 0, at), line.rfind(b"{", 0, at), -1)
    # from the name of the first value on; what stands before it (times, hosts, pids) changes
    first = max(0, min(key + 1, at))
    lead = line[first:at]
    bar = _TQDM.search(line)
    if bar:
        first = 0  # what a bar describes is a part of it
    elif not re.search(rb"[A-Za-z\x80-\xff]", lead):
        found = re.search(rb"[A-Za-z\x80-\xff]+[^A-Za-z\x80-\xff]*$", line[max(0, at - 40) : at])
        # a bracket is no part of a number
        first = max(0, at - 40) + found.start() if found else at - (line[at - 1 : at] in (b"[", b"("))
    parts.append(_skeleton(line[first:at]))
    for n, value in enumerate(values):
        parts.append(b"(" + (_LOCAL_NUMBER if value.local else _taken(line[value.stop : value.stop + 1])) + b")")
        stop = values[n + 1].start if n + 1 < len(values) else value.stop
        parts.append(_skeleton(line[value.stop : stop]))
    tail = line[values[-1].stop : values[-1].stop + 2]
    if tail[:1].isalpha():
        parts.append(re.escape(tail[:1]))
    rest = line[values[-1].stop :].strip()
    if not rest:
        parts.append(rb"[ \t\r]*$")
    try:
        pattern = re.compile(b"".join(parts))
    except (re.error, RecursionError, OverflowError):
        return None
    counter = f"bar {total}" if bar and kind == "train" and total else ""
    units = {v.column: v.unit for v in values if v.unit}
    columns, factors = tuple(v.column for v in values), tuple(v.factor for v in values)
    find = pattern.match if bar else pattern.search
    local = any(v.local for v in values)
    return _Layout(find, columns, factors, kind, counter, units, total, inferred, local)


def _listed(line: bytes) -> tuple[str, list[bytes]] | None:
    """(train or eval, the values) of a line that holds a course of losses as one list, and no step; no values of a list
    whose end is not there.

    >>> _listed(b'{"loss": [2.5, 2.4, nan]}')
    ('train', [b'2.5', b'2.4', b'nan'])
    """
    found = _LISTED.search(line) if b"[" in line else None
    if found is None or _COUNTS.search(line):
        return None
    evaluated = found["name"].lower().startswith((b"val", b"eval", b"test", b"dev"))
    return "eval" if evaluated else "train", re.split(rb"[ \t,]+", found["values"]) if found["end"] == b"]" else []


def _nothing(data: bytes, start: int, stop: int) -> None:
    """The values of a list are no line of a make."""


class Steps:
    """Step and epoch of training lines; what lines of one make are is looked up once."""

    def __init__(self) -> None:
        self._layouts: list[_Layout] = []

    def of(self, line: bytes) -> dict[str, bytes]:
        """The texts of ``step`` and ``epoch`` in a line of a training, empty if it is none."""
        for layout in self._layouts:
            found = layout.find(line, 0, len(line))
            if found is not None:
                break
        else:
            made = _layout(line)
            found = made.find(line, 0, len(line)) if made is not None else None
            if made is None or found is None:
                return {}
            layout = made
            self._layouts.insert(0, layout)
            del self._layouts[LAYOUTS:]
        if layout.kind != "train":
            return {}
        values = zip(layout.columns, found.groups(), strict=True)
        return {column: text for column, text in values if column in ("step", "epoch")}


def _taken(behind: bytes) -> bytes:
    """The expression of a number before a certain byte: up to a mark it is everything, which is fast; where letters
    follow (``1754ms``) or nothing, it is what a number can be."""
    return rb"[^,;\]|}/ \t)'\"\r\n]+" if behind in b",;]|}/ \t)'\"" and behind else _LAYOUT_NUMBER


def _skeleton(gap: bytes) -> bytes:
    """What stands between two values, as an expression: numbers and blanks may differ, everything else may not."""
    out: list[bytes] = []
    at = 0
    for token in _TOKEN.finditer(gap):
        out.append(re.escape(gap[at : token.start()]))
        at = token.end()
        if token["bar"]:
            out.append(rb"%\|[^|\n]*\|")
        elif token["blank"]:
            inside = (
                token["blank"] == b" "
                and gap[at : at + 1].isalpha()
                and gap[: token.start()].rstrip()[-1:] not in b"[({"
            )
            out.append(rb"[ \t]*" if b"\t" in token["blank"] else b" " if inside else b" *")
        elif token["num"]:
            out.append(_taken(gap[at : at + 1]))
        else:
            out.append(rb"\d[\d.]*(?:[eE][-+]?\d+)?")
    out.append(re.escape(gap[at:]))
    return b"".join(out)


# ------------------------------------------------------------------ rows


class _Rows:
    """A track while it grows."""

    def __init__(self, rank: int | None, kind: str, counter: str, limit: int) -> None:
        self.rank, self.kind, self.counter, self.limit = rank, kind, counter, limit
        self.columns: dict[str, array[float]] = {}
        self.lines: array[int] = array("q")
        self.units: dict[str, str] = {}
        self.total = 0
        self.every = 1
        self.inferred = False
        self.bad = 0
        self.number = 0  # lines in all, read or not
        self.layout: _Layout | None = None
        """the layout of the lines at hand, whose values are ``raw`` and whose places are ``where``"""
        self.raw: list[tuple[bytes, ...]] = []
        self.where: list[int] = []
        self.texts: dict[int, bytes] = {}
        self._dense = min(DENSE, limit // 2)
        self.sifted = 0  # lines seen since not all are read
        self._band = (1.0, -1.0)  # usual losses
        self._part: list[float] = []  # those that will say what is usual
        self._frame = (0, 0, b"")  # where the text of a loss stands, see losses()

    @property
    def stride(self) -> int:
        """One of so many lines is read whatever it holds."""
        return 1 if self.number < self._dense else 4 if self.number < 3 * self._dense else 16

    def losses(self, chunk: bytes, base: int, ends: Sequence[int]) -> list[float]:
        """The values behind the hits of losses; inf for what is no plain number."""
        skip, width, closing = self._frame
        found: list[Any]
        values: list[float] = []
        if width:
            # most programs print a loss with so many digits: then its end is known, and needs only to be checked
            left = base + 1 - skip
            right = left - width
            found = [chunk[end - left : end - right] for end in ends]
            joined = b"".join(found)
            if len(joined) == width * len(ends) and joined[width - 1 :: width] == closing * len(ends):
                values = _floats(found if closing.isspace() else joined[:-1].split(closing))
        if len(values) != len(ends):
            joined = b"\0".join([chunk[end - base - 1 : end - base + 31] for end in ends]) + b"\0"
            found = _LOSSES.findall(joined)
            values = _floats(found) if len(found) == len(ends) else []
            if not values:
                behind = [_LOSS_BEHIND.match(chunk, end - base - 1) for end in ends]
                values = [_floats([one[1]])[0] if one and _floats([one[1]]) else math.inf for one in behind]
            self._frame = _frame(chunk[ends[-1] - base - 1 :][:40])
        if not math.isfinite(sum(values)):
            values = [value if math.isfinite(value) else math.inf for value in values]
        return values

    def leaps(self, values: Sequence[float]) -> list[int]:
        """Which of the next losses are not usual: 10 % off the level of the 64 lines before, or where their noise is
        wider than that, six times the usual change from one to the next."""
        out: list[int] = []
        at = 0
        while at < len(values):
            part = values[at : at + PART - len(self._part)]
            low, high = self._band
            if not (low <= min(part) and max(part) <= high):
                out += [at + n for n, value in enumerate(part) if not low <= value <= high]
            at += len(part)
            self._part += part
            if len(self._part) == PART:
                self._settle()
        return out

    def _settle(self) -> None:
        """What is usual after the newest lines."""
        part = [value for value in self._part if value < math.inf]
        self._part = []
        if len(part) < PART // 4:
            return
        level = sorted(part[::2])[len(part) // 4]
        off = 0.1 * abs(level)
        if max(part) - level > off or level - min(part) > off:
            changes = sorted(map(abs, map(sub, part[1:], part)))
            off = max(off, 6 * changes[len(changes) // 2])
        self._band = (level - off, level + off)

    def add(self, layout: _Layout, values: tuple[bytes, ...], where: int) -> None:
        """Take the values of one line."""
        if layout is not self.layout or len(self.raw) >= BATCH:
            self.flush()
            self.layout = layout
        self.raw.append(values)
        self.where.append(where)

    def flush(self) -> None:
        """Numbers of the texts at hand."""
        layout, raw, where = self.layout, self.raw, self.where
        if not raw or layout is None:
            return
        self.raw, self.where = [], []
        if layout.table:
            loss = layout.columns.index("loss")
            full = [n for n, row in enumerate(raw) if row[loss]]
            raw, where = [tuple(cell or _EMPTY for cell in raw[n]) for n in full], [where[n] for n in full]
            if not raw:
                return
        if layout.local:
            commas = [_delocalised(c, t) for c, t in zip(layout.columns, zip(*raw, strict=True), strict=True)]
            raw = list(zip(*commas, strict=True))
        try:
            columns = [
                _numbers(c, texts, f)
                for c, f, texts in zip(layout.columns, layout.factors, zip(*raw, strict=True), strict=True)
            ]
        except ValueError:
            # some value is no number: line by line, without the ones that are none
            kept = []
            for n, row in enumerate(raw):
                try:
                    kept.append(
                        (
                            n,
                            [
                                _numbers(c, (t,), f)[0]
                                for c, f, t in zip(layout.columns, layout.factors, row, strict=True)
                            ],
                        )
                    )
                except ValueError:
                    self.bad += 1
            if not kept:
                return
            columns = [array("d", texts) for texts in zip(*(row for _, row in kept), strict=True)]
            where = [where[n] for n, _ in kept]
        before, count = len(self.lines), len(where)
        self.lines.extend(where)
        self.number += count
        for name, numbers in zip(layout.columns, columns, strict=True):
            have = self.columns.get(name)
            if have is None:
                have = self.columns[name] = array("d", [MISSING]) * before
            elif len(have) < before:
                have.extend(array("d", [MISSING]) * (before - len(have)))
            have.extend(numbers)
        self.units.update(layout.units)
        self.total = max(self.total, layout.total)
        self.inferred = self.inferred or layout.inferred
        if len(self.lines) > self.limit:
            self.thin()

    def level(self) -> None:
        """All columns to one length."""
        count = len(self.lines)
        for have in self.columns.values():
            if len(have) < count:
                have.extend(array("d", [MISSING]) * (count - len(have)))

    def thin(self) -> None:
        """Keep every second row, and those that stick out of their neighbourhood."""
        load_numpy()
        import numpy as np

        self.level()
        count = len(self.lines)
        keep: Any = np.zeros(count, bool)
        keep[::2] = True
        keep[-1] = True
        for name in ("loss", "grad_norm"):
            if name in self.columns:
                keep |= _loud(np.frombuffer(self.columns[name], dtype=np.float64), count // 16)
        for name in ("overflow", "nan_steps"):
            if name in self.columns:
                flags = np.frombuffer(self.columns[name], dtype=np.float64) > 0
                keep |= flags & (np.cumsum(flags) < count // 16)
        if "loss_scale" in self.columns:
            scale = np.frombuffer(self.columns["loss_scale"], dtype=np.float64)
            keep[1:] |= (scale[1:] != scale[:-1]) & (np.cumsum(scale[1:] != scale[:-1]) < count // 16)
        for name, have in self.columns.items():
            self.columns[name] = array("d", np.frombuffer(have, dtype=np.float64)[keep].tobytes())
        self.lines = array("q", np.frombuffer(self.lines, dtype=np.int64)[keep].tobytes())
        self.every *= 2


def _loud(values: Any, most: int) -> Any:
    """Which values stick out of their block of 64 by eight times its usual spread, with two neighbours on each side;
    at most about ``most`` of them."""
    import numpy as np

    data = np.where(np.asarray(values) == MISSING, np.nan, np.asarray(values))
    out: Any = np.zeros(len(data), bool)
    whole = len(data) // 64 * 64
    if whole:
        blocks = data[:whole].reshape(-1, 64)
        with np.errstate(all="ignore"):
            mid = np.median(np.where(np.isfinite(blocks), blocks, 0), axis=1, keepdims=True)
            spread = np.median(np.abs(np.where(np.isfinite(blocks), blocks, 0) - mid), axis=1, keepdims=True)
            high = np.abs(blocks - mid) > np.maximum(8 * 1.4826 * spread, 0.02 * np.abs(mid))
        flags = (high | ~np.isfinite(blocks)).reshape(-1)
        flags &= np.cumsum(flags) <= most
        out[:whole] = flags
    wide = out.copy()
    for shift in (1, 2):
        wide[shift:] |= out[:-shift]
        wide[:-shift] |= out[shift:]
    return wide


_EMPTY = b"-1e308"
"""What an empty cell is read as: ``MISSING``."""
_STEADY = frozenset(("epoch", "loss_scale", "overflow", "skipped", "nan_steps"))


def _numbers(column: str, texts: Sequence[bytes], factor: float) -> Floats:
    if column in _STEADY:
        # the same text nearly always: each is read once
        known = {t: _TRUTH[t.lower()] if t.lower() in _TRUTH else float(t) for t in set(texts)}
        if len(known) == 1:
            return array("d", (next(iter(known.values())),)) * len(texts)
        return array("d", [known[t] for t in texts])
    numbers = _at_once(texts)
    if numbers is None:
        numbers = array("d", map(float, texts))
    if factor == 1.0:
        return numbers
    return array("d", [number * factor if number != MISSING else MISSING for number in numbers])


def _at_once(texts: Sequence[bytes]) -> Floats | None:
    """Numbers that are all of as many digits, with a point at one place: a tenth of the time of one after the other.
    None if they are not, or numpy is not at hand."""
    np = numpy_at_hand()
    if np is None or len(texts) < 64 or len(texts[0]) > 15 or len(set(map(len, texts))) > 1:
        return None
    digits = np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1) - np.uint8(48)
    point = texts[0].find(b".")
    if point >= 0:
        if not (digits[:, point] == 254).all():
            return None
        digits = np.delete(digits, point, 1)
    count = digits.shape[1]
    if not count or int(digits.max()) > 9:
        return None
    # whole numbers below 2^53 and a power of ten are exact, so that their quotient is what float() gives
    whole = digits @ np.power(10.0, np.arange(count - 1, -1, -1))
    return array("d", (whole / 10.0 ** (len(texts[0]) - 1 - point) if point >= 0 else whole).tobytes())


_LOSS_BEHIND = lazy_bytes(rb"[:= ]? *\[?([-+\d.eE]+)")
_LOSSES = lazy_bytes(rb"(?:[:= ]? *\[?([-+\d.eE]+)(?=[^-+\d.eE\0]))?[^\0]*\0")
"""The same for many pieces, each with a zero byte behind it; nothing for a number that reaches the end of its piece."""


def _floats(texts: Sequence[bytes]) -> list[float]:
    """Numbers of texts, none if one of them is no number."""
    try:
        return list(map(float, texts))
    except ValueError:
        return []


def _frame(text: bytes) -> tuple[int, int, bytes]:
    """(bytes between a hit's last one and the text of the loss, length of that text with what closes it, what closes
    it) as one line has them; a length of 0 if they cannot be told. Blanks before the number belong to the text: a
    longer number would take their place."""
    found = _LOSS_BEHIND.match(text)
    if found is None:
        return 0, 0, b""
    skip = 0 if text[:1].isdigit() else 1
    if b"[" in text[: found.start(1)]:
        skip = found.start(1)
    closing = text[found.end(1) : found.end(1) + 1]
    return (skip, found.end(1) + 1 - skip, closing) if closing and closing not in b"-+.eE0123456789" else (0, 0, b"")


class Collector:
    """Takes training lines out of the chunks of one source.

    ``exact``: line numbers are counted at once; else offsets are kept, and ``Track.marks`` helps to count later.
    """

    def __init__(self, source: str, *, exact: bool, limit: int, texts: int = TEXTS) -> None:
        self.source, self.exact, self.limit = source, exact, limit
        self.tracks: dict[tuple[int | None, str, str], _Rows] = {}
        self._layouts: list[_Layout] = []
        self._carry = b""  # the beginning of a line whose end is still to come
        self._carried = 0  # its offset
        self._carried_at = 0  # where the wanted line is: its number, or its offset
        self._wanted = False  # whether it was hit already
        self._looked_up = 0
        self._unread = 0
        self._skip = 0
        self._ranked = False
        self._marks: array[int] = array("q")
        self._room = min(texts, 64 * limit)
        self._rows_now: _Rows | None = None  # the track and layout of the line before
        self._long: _Rows | None = None  # the newest track of which not every line is read
        self._all = False  # whether every line is looked at: no word says where the values stand
        self._list: tuple[bytes, int] | None = None  # the only line with a list of losses, and where it is
        self._lists = 0  # such lines met

    def take(
        self, chunk: bytes, base: int, hits: Sequence[int], before: int, others: Sequence[int] = (),
        odd: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """The next chunk: its offset, the offsets just behind its hits of losses, the newlines before it, the offsets
        of hits of other values of a training line, and of values that are odd (nan, inf, True) on whatever line."""
        if base == 0:
            self._all = self._unnamed(chunk, hits)
        if self._all:
            hits, others = self._starts(chunk, base), ()
        whole = chunk
        if b"\r" in chunk:
            # a progress bar that wrote over itself: each of its states is a line
            chunk = chunk.replace(b"\r", b"\n")
        done = 0  # offset in the chunk behind the last line looked at
        if self._wanted:
            stop = chunk.find(b"\n")
            if stop < 0 and len(self._carry) + len(chunk) < 4 * LINE:
                self._carry += chunk
                return
            done = stop = stop if stop >= 0 else len(chunk)
            self._line(self._carry + chunk[: min(stop, LINE)], self._carried_at)
            self._wanted = False
        if self._long is not None and hits and not self._ranked and not self._all:
            hits = self._sifted(self._long, chunk, base, hits, others, odd)
        elif others:
            hits = sorted([*hits, *others])
        if hits:
            self._hits(chunk, whole, base, hits, before, done)
            if self._wanted:
                return
        last = chunk.rfind(b"\n")
        if last >= 0:
            self._carry = chunk[last + 1 :][:LINE]
            self._carried = base + last + 1
        elif len(self._carry) < LINE:
            if not self._carry:
                self._carried = base
            self._carry += chunk[:LINE]

    def _unnamed(self, head: bytes, hits: Sequence[int]) -> bool:
        """Whether a source is a table, or its lines are values behind names among which none says ``loss``."""
        table = table_of(head)
        if table is not None:
            layout = _Layout(table.pattern.fullmatch, table.columns, table.factors, table.kind, "", {}, 0,
                             table.inferred, table.local, table=True)  # fmt: skip
            if "step_time" in table.columns:
                layout.units["step_time"] = "ms"
            self._layouts.append(layout)
            return True
        return not hits and _abbreviated(head)

    def _starts(self, chunk: bytes, base: int) -> list[int]:
        """The offsets behind the first byte of each line that begins in a chunk."""
        found = [] if self._carry or self._wanted else [base + 1]
        at = chunk.find(b"\n")
        while at >= 0:
            found.append(base + at + 2)
            at = chunk.find(b"\n", at + 1)
        return found[:-1] if chunk.endswith(b"\n") else found

    def _sifted(
        self, rows: _Rows, chunk: bytes, base: int, losses: Sequence[int], others: Sequence[int], odd: Sequence[int]
    ) -> list[int]:
        """The hits whose lines are read, of a chunk of a long log: one of so many, and those that tell something new.
        Of the other lines only the loss is looked at, of all lines at once."""
        find, rfind, count = chunk.find, chunk.rfind, len(losses)
        stride = rows.stride
        rows.every = max(rows.every, stride)
        chosen = set(range(-rows.sifted % stride, count, stride))
        rows.sifted += count
        chosen.update(rows.leaps(rows.losses(chunk, base, losses)))
        # lines that reach over the borders of the chunk are put together elsewhere
        if rfind(b"\n", 0, losses[0] - base) < 0:
            chosen.add(0)
        if find(b"\n", losses[-1] - base - 1) < 0:
            chosen.add(count - 1)
        for end in odd:
            start, stop = rfind(b"\n", 0, end - base - 1) + 1, find(b"\n", end - base - 1)
            n = bisect_right(losses, base + start)
            if n < count and (stop < 0 or losses[n] <= base + stop):
                chosen.add(n)
        rows.number += count - len(chosen)
        kept = [losses[n] for n in chosen]
        for end in others:
            n = bisect_right(losses, end)
            same = n < count and find(b"\n", end - base, losses[n] - base) < 0
            if not same and (n == 0 or find(b"\n", losses[n - 1] - base, end - base) >= 0):
                kept.append(end)
        kept.sort()
        return kept

    def _hits(
        self, chunk: bytes, whole: bytes, base: int, hits: Sequence[int], before: int, done: int
    ) -> None:  # fmt: skip
        """The training lines of a chunk; ``whole`` is the chunk before its returns were taken for ends of lines. The
        loop runs once a line of the log, so what is rare is done elsewhere."""
        find, rfind, count = chunk.find, chunk.rfind, whole.count
        plain = not self._ranked
        exact = self.exact
        counted, lines = 0, before
        if not exact and (not self._marks or base - self._marks[-2] >= MARK):
            self._marks.extend((base, before))
        layout: _Layout | None = None
        rows = self._rows_now
        for end in hits:
            at = end - base - 1
            if at < done:
                continue
            start = rfind(b"\n", 0, max(at, 0)) + 1
            stop = find(b"\n", at)
            if stop < 0 or (not start and (base or self._carry)) or stop - start > LINE:
                if exact:
                    lines += count(b"\n", counted, start)
                    counted = start
                if not self._odd(chunk, start, stop, at, lines + 1 if exact else base + start, base, before):
                    break
                rows, layout = self._rows_now, None
                done = stop if stop >= 0 else len(chunk)
                continue
            if exact:
                lines += count(b"\n", counted, start)
                counted = start
                where = lines + 1
            else:
                where = base + start
            if plain and rows is not None and not exact:
                if layout is not rows.layout:
                    layout = rows.layout
                    assert layout is not None
                    search, raw, places = layout.find, rows.raw, rows.where
                found = search(chunk, start, stop)
                if found is not None:
                    raw.append(found.groups())
                    places.append(where)
                    done = stop
                    continue
            self._match(chunk, start, stop, where)
            rows, layout, done = self._rows_now, None, stop
            plain = plain and not self._ranked
        if rows is not None:
            if len(rows.raw) >= min(BATCH, self.limit // 64):
                rows.flush()
            if rows.stride > 1 and rows.layout is not None and "loss" in rows.layout.columns:
                self._long = rows
                load_numpy()  # so many lines will be judged, which takes it anyway

    def _odd(self, chunk: bytes, start: int, stop: int, at: int, where: int, base: int, before: int) -> bool:
        """A line that reaches over the chunk's beginning or end, or that is very long. False: wait for its end."""
        at = max(at, 0)
        if stop < 0 and len(chunk) - start < 4 * LINE:
            if start == 0 and self._carry:
                self._carry += chunk
            else:
                self._carry, self._carried = chunk[start:], base + start
            self._wanted = True
            self._carried_at = where if self.exact else self._carried
            return False
        stop = stop if stop >= 0 else len(chunk)
        if start == 0 and self._carry and stop <= LINE:
            self._line(self._carry + chunk[:stop], before + 1 if self.exact else self._carried)
            return True
        left, right = max(start, at - LINE // 2), min(stop, at + LINE // 2)
        self._match(chunk[left:right], 0, right - left, where)
        return True

    def _line(self, line: bytes, where: int) -> None:
        self._match(line, 0, len(line), where)

    def _match(self, data: bytes, start: int, stop: int, where: int) -> None:
        for n, layout in enumerate(self._layouts):
            found = layout.find(data, start, stop)
            if found is not None:
                self._add(layout, found.groups(), data, start, stop, where)
                if n > 2:
                    self._layouts.insert(0, self._layouts.pop(n))
                return
        if self._skip:
            self._skip -= 1
            self._unread += 1
            return
        line = data[start:stop][:LINE]
        if b"[" in line and _listed(line) is not None:
            self._lists += 1
            if self._lists == 1:
                self._list = line, where
                return  # see _course()
            if self._list is not None:
                # one list a line: the parts of a loss, or of a step; the first value stands for the line
                (first, at), self._list = self._list, None
                self._look_up(first, first, 0, len(first), at)
        self._look_up(line, data, start, stop, where)

    def _look_up(self, line: bytes, data: bytes, start: int, stop: int, where: int) -> None:
        """The values of a line of a make that was not met yet."""
        if line.lstrip()[:1] in (b"#", b'"') or (line.startswith(_RECORDS) and b"):2" in line[:120]):
            return  # a comment, or a record of MindSpore or CANN: no training line
        self._looked_up += 1
        if self._looked_up > LOOKED_UP:
            self._skip = self._looked_up // 200
        made = _layout(line)
        if made is None:
            return
        if not self._ranked and _RANK.match(line):
            self._ranked = True
        found = made.find(line, 0, len(line))
        if found is None:
            self._unread += 1
            return
        self._layouts.insert(0, made)
        del self._layouts[LAYOUTS:]
        self._add(made, found.groups(), data, start, stop, where)

    def _add(self, layout: _Layout, values: tuple[bytes, ...], data: bytes, start: int, stop: int, where: int) -> None:
        rank: int | None = None
        if self._ranked:
            named = _RANK.match(data[start : start + 64])
            rank = int(named[1] or named[2]) if named else None
        key = (rank, layout.kind, layout.counter)
        rows = self.tracks.get(key)
        if rows is None:
            if len(self.tracks) >= TRACKS:
                self._unread += 1
                return
            rows = self.tracks[key] = _Rows(rank, layout.kind, layout.counter, self.limit)
        rows.add(layout, values, where)
        self._rows_now = rows
        if self._room > 0 and self.exact:
            self._room -= stop - start
            rows.texts[where] = data[start:stop][:600]

    def finish(self, name: str) -> tuple[Track, ...]:
        """The tracks of the source."""
        if self._wanted:
            self._line(self._carry, self._carried_at)
            self._wanted = False
        return self.so_far(name)

    def _course(self) -> list[_Rows]:
        """The course of losses that a single line of the source lists, if its lines hold no other."""
        found = _listed(self._list[0]) if self._list is not None else None
        if self._list is None or found is None or any(rows.kind == found[0] for rows in self.tracks.values()):
            return []
        rows = _Rows(None, found[0], "", self.limit)
        layout = _Layout(_nothing, ("loss",), (1.0,), found[0], "", {}, 0, inferred=False)
        for value in found[1]:
            rows.add(layout, (value,), self._list[1])
        return [rows]

    def so_far(self, name: str, *, texts: bool = True) -> tuple[Track, ...]:
        """The tracks up to the last whole line, with or without its texts. They share their columns with the collector:
        use them before the next chunk is taken."""
        out = []
        for rows in [*self.tracks.values(), *self._course()]:
            rows.flush()
            rows.level()
            if not rows.lines:
                continue
            words = (
                {n: rows.texts[w].decode("utf-8", "replace") for n, w in enumerate(rows.lines) if w in rows.texts}
                if texts and rows.texts
                else {}
            )
            out.append(
                Track(name, rows.rank, rows.kind, "inferred" if rows.inferred else "named", rows.columns, rows.lines,
                      self._marks, rows.units, rows.total, rows.every, self._unread + rows.bad, words, rows.number)
            )  # fmt: skip
        return tuple(out)


SAMPLED = 40
"""Lines of a text without the usual words that are tried."""
ABBREVIATED = 1 << 16
"""… of its first bytes."""


def _abbreviated(head: bytes) -> bool:
    """Whether the lines of a text in which nothing says ``loss`` are values behind names all the same."""
    starts = [0]
    at = head.find(b"\n", 0, ABBREVIATED)
    while at >= 0:
        starts.append(at + 1)
        at = head.find(b"\n", at + 1, ABBREVIATED)
    tried = starts[:: max(1, len(starts) // SAMPLED)]
    return sum(_numeric(head, start) for start in tried) >= max(3, len(tried) // 2)


def _numeric(data: bytes, start: int) -> bool:
    """Whether a line holds values of training behind names."""
    stop = data.find(b"\n", start, start + LINE)
    line = data[start : stop if stop >= 0 else start + LINE]
    return len(line) < 400 and any(48 <= c < 58 for c in line[:64]) and bool(values_of(line)[0])


def thinned(track: Track, limit: int) -> Track:
    """A track of about ``limit`` rows, thinned as one that grows too long; its lines are numbers, 0 where they were
    offsets."""
    rows = _Rows(track.rank, track.kind, "", limit)
    rows.columns, rows.every = dict(track.columns), track.every
    row_of = array("q", range(len(track)))
    rows.lines = row_of
    while len(rows.lines) > limit:
        before = len(rows.lines)
        rows.thin()
        if len(rows.lines) == before:
            break
    kept = rows.lines
    lines = array("q", bytes(8 * len(kept))) if track.marks else array("q", (track.lines[n] for n in kept))
    texts = {n: track.texts[row] for n, row in enumerate(kept) if row in track.texts} if track.texts else {}
    return Track(track.source, track.rank, track.kind, track.made, rows.columns, lines, array("q"), track.units,
                 track.total, rows.every, track.unread, texts)  # fmt: skip
