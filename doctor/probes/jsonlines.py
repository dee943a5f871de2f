"""JSON with the line of every value, read strictly where it can be and tolerantly where people break it.

The standard library's reader says neither where a value stood nor how to go on after a comment copied from a document.
Here a text is read in one pass over its tokens; what strict readers refuse (a byte order mark, comments, a comma before
a closing bracket) is remembered as a :class:`Flaw` and skipped, so that the rest can still be judged. What cannot be
skipped ends the reading.
"""

import re
from typing import Any, NamedTuple

MAX_DEPTH = 64
MAX_FLAWS = 20

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)"
    r'|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<number>-?\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,9})?(?![\w.]))"
    r"|(?P<mark>[{}\[\],:])"
    r"|(?P<word>(?:true|false|null)\b)"
    r"|(?P<comment>(?://|\#)[^\n]*)"
    r"|(?P<block>/\*)"
)
_WORDS = {"true": True, "false": False, "null": None}
_CLOSE = {"{": "}", "[": "]"}


class Flaw(NamedTuple):
    """Something a strict reader refuses.

    ``kind``: bom · not_utf8 · comment · trailing_comma · duplicate_key · not_json (reading ended there) · not_object.
    """

    kind: str
    line: int
    text: str


class Node(NamedTuple):
    """A value and the line it begins on; objects hold nodes by key, lists hold nodes."""

    value: Any
    line: int


class Document(NamedTuple):
    """The value of a text, None where reading had to end before it was whole, and what is wrong with the text."""

    root: Node | None
    flaws: tuple[Flaw, ...]
    gap: str = ": "
    """what the text writes between a key and its value"""


def _unescape(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    import json

    try:
        return str(json.loads(token, strict=False))
    except ValueError:
        return token[1:-1]


class _Reader:
    """A stack machine over the tokens; ``take`` answers False when the text cannot be JSON from there on."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self.stack: list[tuple[str, Any, int]] = []
        self.root: Node | None = None
        self.key: list[str | None] = []
        self.want = "value"
        self.gap = ""

    def flaw(self, kind: str, line: int, text: str) -> None:
        if len(self.flaws) < MAX_FLAWS or kind == "not_json":
            self.flaws.append(Flaw(kind, line, text.strip()[:120]))

    def put(self, value: Any, line: int) -> bool:
        if self.want not in ("value", "value_or_close"):
            return False
        node = Node(value, line)
        if not self.stack:
            self.root, self.want = node, "end"
        else:
            kind, holder, _ = self.stack[-1]
            if kind == "{":
                key = self.key[-1] or ""
                if key in holder:
                    self.flaw("duplicate_key", line, f'"{key}"')
                holder[key] = node
            else:
                holder.append(node)
            self.want = "comma_or_close"
        return True

    def open(self, mark: str, line: int) -> bool:
        holder: Any = {} if mark == "{" else []
        if len(self.stack) >= MAX_DEPTH or not self.put(holder, line):
            return False
        self.stack.append((mark, holder, line))
        self.key.append(None)
        self.want = "key_or_close" if mark == "{" else "value_or_close"
        return True

    def close(self, mark: str, line: int) -> bool:
        if not self.stack or _CLOSE[self.stack[-1][0]] != mark:
            return False
        if self.want in ("key", "value") and self.key[-1] is None and self._filled():
            self.flaw("trailing_comma", line, f", {mark}")
        elif self.want not in ("comma_or_close", "key_or_close", "value_or_close"):
            return False
        self.stack.pop()
        self.key.pop()
        self.want = "comma_or_close" if self.stack else "end"
        return True

    def _filled(self) -> bool:
        return bool(self.stack[-1][1])

    def mark(self, mark: str, line: int) -> bool:
        if mark in "{[":
            return self.open(mark, line)
        if mark in "}]":
            return self.close(mark, line)
        if mark == ":":
            if self.want != "colon":
                return False
            self.want = "value"
            return True
        if self.want != "comma_or_close":
            return False
        self.key[-1] = None
        self.want = "key" if self.stack[-1][0] == "{" else "value"
        return True

    def string(self, token: str, line: int) -> bool:
        if self.want in ("key", "key_or_close"):
            self.key[-1] = _unescape(token)
            self.want = "colon"
            return True
        return self.put(_unescape(token), line)

    def number(self, token: str, line: int) -> bool:
        try:
            return self.put(float(token) if set(token) & set(".eE") else int(token), line)
        except ValueError:
            return False


def read(text: str) -> Document:
    """Read a text; time and memory grow with its length, nothing is raised.

    >>> read('{"a": [1, 2,], # why\\n "b": "c"}').flaws[1]
    Flaw(kind='comment', line=1, text='# why')
    """
    reader = _Reader()
    at, line = 0, 1
    if text.startswith("\ufeff"):
        reader.flaw("bom", 1, "U+FEFF")
        at = 1
    if "\ufffd" in text:
        spot = text.index("\ufffd")
        reader.flaw("not_utf8", text.count("\n", 0, spot) + 1, _line_at(text, spot))
    end = len(text)
    after_key = -1
    match = _TOKEN.match
    while at < end:
        found = match(text, at)
        if found is None:
            reader.flaw("not_json", line, _line_at(text, at))
            return Document(None, tuple(reader.flaws), reader.gap or ": ")
        kind, token = found.lastgroup, found.group()
        good = True
        if kind == "space":
            line += token.count("\n")
        elif kind == "mark":
            good = reader.mark(token, line)
        elif kind == "string":
            if after_key >= 0 and not reader.gap:
                reader.gap = text[after_key:at]
            good = reader.string(token, line)
            after_key = found.end() if reader.want == "colon" else -1
        elif kind == "number":
            good = reader.number(token, line)
        elif kind == "word":
            good = reader.put(_WORDS[token], line)
        elif kind == "comment":
            reader.flaw("comment", line, token)
        else:
            stop = text.find("*/", found.end())
            reader.flaw("comment", line, _line_at(text, at))
            if stop < 0:
                stop = end
            line += text.count("\n", at, stop)
            at = stop + 2
            continue
        if not good:
            reader.flaw("not_json", line, _line_at(text, at))
            return Document(None, tuple(reader.flaws), reader.gap or ": ")
        at = found.end()
    if reader.root is None or reader.stack:
        reader.flaw("not_json", line, "EOF")
        return Document(None, tuple(reader.flaws), reader.gap or ": ")
    if not isinstance(reader.root.value, dict):
        reader.flaw("not_object", reader.root.line, _line_at(text, 0))
    return Document(reader.root, tuple(reader.flaws), reader.gap if len(reader.gap) < 6 and reader.gap else ": ")


def _line_at(text: str, at: int) -> str:
    first = text.rfind("\n", max(0, at - 120), at) + 1 or max(0, at - 120)
    stop = text.find("\n", at, at + 120)
    return text[first : stop if stop >= 0 else at + 120]
