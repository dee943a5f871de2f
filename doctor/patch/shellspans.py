"""Spans of assignments in shell scripts: ``export X=…``, ``X=…``, ``X=… command``, ``env X=… command``.

A key is the name of the variable, or an option with its dashes, ``--num-layers``, whose value follows it wherever it
stands: Megatron scripts keep options in quoted variables. The scanner knows quotes, substitutions, comments,
here-documents and continued lines as far as needed to tell where a word begins and ends; it runs nothing.
"""

from __future__ import annotations

import re
import shlex
from typing import Any, NamedTuple

from doctor.patch.spans import REMOVED, Refused, Source, Span, inserted_line, line_break, line_end, line_start

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEREDOC = re.compile(r"<<-?[ \t]*(?:'([^'\n]{1,80})'|\"([^\"\n]{1,80})\"|\\?([\w.\-]{1,80}))")
_SEPARATORS = ";&|()"
_DECLARING = frozenset(("export", "declare", "typeset", "local", "readonly", "env"))
_KEYWORDS = frozenset(
    ("then", "do", "else", "{", "}", "!", "time", "nohup", "exec", "if", "elif", "while", "until", "sudo")
)
_OPENING = frozenset(("if", "while", "until", "for", "case", "select", "{"))
_CLOSING = frozenset(("fi", "done", "esac", "}"))
MAX_WORDS = 200_000


class Word(NamedTuple):
    """A word with its span. ``first``: the command's position of it; ``depth``: how many compound commands and
    functions are open around it."""

    start: int
    end: int
    text: str
    first: int
    command: int
    depth: int


class Assignment(NamedTuple):
    """``NAME=value``: spans of the word and of the value. ``kind``: export · plain (of the whole script) · prefix (of
    one command)."""

    name: str
    start: int
    value: int
    end: int
    kind: str
    depth: int
    command: int


def words(text: str) -> list[Word]:
    """The words of a script, in order. Raises Refused where a quote is never closed."""
    found: list[Word] = []
    at = 1 if text.startswith("\ufeff") else 0
    command = first = depth = 0
    waiting: list[str] = []
    size = len(text)
    while at < size:
        char = text[at]
        if char == "\n":
            at += 1
            command, first = command + 1, 0
            for name in waiting:
                at = _behind_document(text, at, name)
            waiting = []
        elif char in " \t\r":
            at += 1
        elif char == "\\" and text[at + 1 : at + 3] == "\r\n":
            at += 3
        elif char == "\\" and text[at + 1 : at + 2] == "\n":
            at += 2
        elif char == "#":
            at = line_end(text, at) - len(_ending(text, at))
        elif char in _SEPARATORS:
            at += 1
            command, first = command + 1, 0
        elif text.startswith("<<", at) and not text.startswith("<<<", at):
            here = _HEREDOC.match(text, at)
            if here is not None:
                waiting.append(here[1] or here[2] or here[3])
                at = here.end()
            else:
                at += 2
        elif char in "<>":
            at += 1
        else:
            end = _word_end(text, at)
            word = text[at:end]
            if first == 0 and word in _CLOSING:
                depth = max(0, depth - 1)
            found.append(Word(at, end, word, first, command, depth))
            if len(found) > MAX_WORDS:
                raise Refused("shell_too_large", limit=MAX_WORDS)
            if first == 0 and word in _OPENING:
                depth += 1
            # behind "then", "do" and the like a command begins
            first = 0 if first == 0 and word in _KEYWORDS else first + 1
            at = end
    return found


def _ending(text: str, at: int) -> str:
    end = line_end(text, at)
    return text[end - 1 : end] if text[end - 1 : end] in ("\n", "\r") else ""


def _behind_document(text: str, at: int, name: str) -> int:
    while at < len(text):
        end = line_end(text, at)
        line = text[at:end].strip()
        at = end
        if line == name:
            break
    return at


def _word_end(text: str, at: int) -> int:
    """Position behind a word: quotes and substitutions in it are jumped over."""
    size = len(text)
    begin = at
    while at < size:
        char = text[at]
        if char in " \t\r\n" or char in ";&|()<>":
            break
        if char == "\\":
            at += 2
        elif char == "'":
            at = _closing(text, at + 1, "'", begin)
        elif char == '"':
            at = _double(text, at + 1, begin)
        elif char == "`":
            at = _closing(text, at + 1, "`", begin)
        elif text.startswith("$((", at) or text.startswith("$(", at) or text.startswith("${", at):
            at = _substitution(text, at + 1, begin)
        elif char == "(":
            break
        else:
            at += 1
    return min(at, size)


def _closing(text: str, at: int, quote: str, begin: int) -> int:
    end = text.find(quote, at)
    if end < 0:
        raise Refused("shell_quote", line=text.count("\n", 0, begin) + 1)
    return end + 1


def _double(text: str, at: int, begin: int) -> int:
    size = len(text)
    while at < size:
        char = text[at]
        if char == '"':
            return at + 1
        if char == "\\":
            at += 2
        elif text.startswith("$(", at) or text.startswith("${", at):
            at = _substitution(text, at + 1, begin)
        else:
            at += 1
    raise Refused("shell_quote", line=text.count("\n", 0, begin) + 1)


def _substitution(text: str, at: int, begin: int) -> int:
    """Position behind ``(…)`` or ``{…}`` that begins at ``at``; nesting counted, quotes inside jumped over."""
    pairs = {"(": ")", "{": "}"}
    stack = [pairs[text[at]]]
    at += 1
    size = len(text)
    while at < size:
        char = text[at]
        if char == stack[-1]:
            stack.pop()
            at += 1
            if not stack:
                return at
        elif char == "\\":
            at += 2
        elif char == "'" and stack[0] == ")":
            at = _closing(text, at + 1, "'", begin)
        elif char == '"':
            end = text.find('"', at + 1)
            at = end + 1 if end >= 0 else size
        elif char in pairs and (char == "(" or text[at - 1] == "$") and len(stack) < 60:
            stack.append(pairs[char])
            at += 1
        else:
            at += 1
    raise Refused("shell_quote", line=text.count("\n", 0, begin) + 1)


def assignments(text: str) -> list[Assignment]:
    """Every ``NAME=value`` of a script, in order."""
    found: list[Assignment] = []
    by_command: dict[int, list[Word]] = {}
    for word in words(text):
        by_command.setdefault(word.command, []).append(word)
    for number, group in by_command.items():
        rest = list(group)
        while rest and rest[0].text in _KEYWORDS:
            rest = rest[1:]
        declared = bool(rest) and rest[0].text in _DECLARING
        exported = declared and rest[0].text in ("export", "env")
        if declared:
            rest = rest[1:]
            while rest and rest[0].text.startswith("-"):
                exported = exported or "x" in rest[0].text
                rest = rest[1:]
        own: list[Assignment] = []
        for n, word in enumerate(rest):
            name = _NAME.match(word.text)
            if name is None or word.text[name.end() : name.end() + 1] != "=":
                if declared and group[0].text != "env" and _NAME.fullmatch(word.text):
                    continue
                # what follows is a command: the assignments before are its own
                own = [a._replace(kind="prefix") for a in own] if n else own
                break
            own.append(Assignment(name[0], word.start, word.start + name.end() + 1, word.end,
                                  "export" if exported else "plain", word.depth, number))  # fmt: skip
        found += own
    return found


def spell(value: Any, like: str = "") -> str:
    """A value as one shell word, in the quotes of ``like``.

    >>> spell("a b"), spell(4, '"8"')
    ("'a b'", '"4"')
    """
    if isinstance(value, Source):
        return str(value)
    text = ("1" if value else "0") if isinstance(value, bool) else str(value)
    if any(not c.isprintable() for c in text):
        raise Refused("bad_value", value=text[:80])
    if like[:1] == '"' and not set(text) & set('"\\$`!'):
        return f'"{text}"'
    if like[:1] == "'" and "'" not in text:
        return f"'{text}'"
    return shlex.quote(text)


def value_of(new: Any) -> Any:
    """The word the shell makes of a value to be written. Raises Refused for source text that is not one word."""
    if new is REMOVED:
        return REMOVED
    written = spell(new)
    found = words(f"X={written}\n")
    if len(found) != 1 or found[0].end != len(written) + 2 or "\n" in written:
        raise Refused("bad_value", value=written[:80])
    return plain(written)


def plain(word: str) -> str:
    """A word without its quotes; as written where only the shell can tell."""
    try:
        parts = shlex.split(word)
    except ValueError:
        return word
    return parts[0] if len(parts) == 1 else "" if not parts else word


_OPTION = re.compile(r"--[A-Za-z0-9][\w-]{0,80}")
_BARE = re.compile(r"[\w.,:+/@%-]{1,400}")


def option_values(text: str, key: str) -> list[tuple[int, int]]:
    """Spans of the values an option is followed by, outside of comments."""
    pattern = re.compile(
        rf"(?<![\w-]){re.escape(key)}(?:=|[ \t]+|[ \t]*\\\r?\n[ \t]*)(?!-[-a-zA-Z])({_BARE.pattern})(?![$\w])"
    )
    found = []
    for match in pattern.finditer(text):
        before = text[line_start(text, match.start()) : match.start()]
        if not before.lstrip().startswith("#"):
            found.append(match.span(1))
    return found


def _option(text: str, key: str, new: Any) -> Span:
    places = option_values(text, key)
    if new is REMOVED:
        raise Refused("cannot_remove", key=key)
    if len(places) != 1:
        lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in places[:8])
        raise Refused("several_places" if places else "no_key", key=key, lines=lines)
    written = spell(new)
    if not _BARE.fullmatch(written):
        raise Refused("bad_value", value=written[:80])
    return Span(*places[0], written, "set", (key,), written)


def resolve(text: str, key: str, new: Any) -> Span:
    """See ``doctor.patch.spans.resolve``."""
    if _OPTION.fullmatch(key):
        return _option(text, key, new)
    if not _NAME.fullmatch(key):
        raise Refused("bad_key", key=key)
    value = value_of(new)
    every = assignments(text)
    own = [a for a in every if a.name == key]
    if len(own) > 1:
        lines = ", ".join(str(text.count("\n", 0, a.start) + 1) for a in own[:8])
        raise Refused("several_places", key=key, lines=lines)
    if own:
        found = own[0]
        if text[found.end : found.end + 1] == "(":
            raise Refused("shell_array", key=key)
        if new is REMOVED:
            return _remove(text, found)
        old = text[found.value : found.end]
        return Span(found.value, found.end, spell(new, old), "set", (key,), value)
    if new is REMOVED:
        raise Refused("no_key", key=key)
    return _insert(text, key, spell(new), value, every)


def _remove(text: str, found: Assignment) -> Span:
    start, end = line_start(text, found.start), line_end(text, found.end)
    head, tail = text[start : found.start].strip(), text[found.end : end].split("#", 1)[0].strip()
    # inside "if" or a function the line may be the only one, and the script broken without it
    if head in ("", "export") and not tail and not found.depth and not text[:start].rstrip("\r\n").endswith("\\"):
        return Span(start, end, "", "remove", (found.name,), REMOVED)
    if found.kind == "prefix":
        gap = len(text[found.end :]) - len(text[found.end :].lstrip(" \t"))
        return Span(found.start, found.end + gap, "", "remove", (found.name,), REMOVED)
    raise Refused("cannot_remove", key=found.name)


def _insert(text: str, key: str, written: str, value: Any, every: list[Assignment]) -> Span:
    """A new ``export`` line: behind the last one of the script itself, else behind its head."""
    line = f"export {key}={written}"
    exports = [a for a in every if a.kind == "export" and a.depth == 0]
    anchored = [a for a in exports if _alone(text, a)]
    if anchored:
        at, made = inserted_line(text, anchored[-1].end, line)
        return Span(at, at, made, "insert", (key,), value)
    at = 1 if text.startswith("\ufeff") else 0
    while at < len(text):
        end = line_end(text, at)
        head = text[at:end].strip()
        if head.startswith("#") or head.startswith("set -"):
            at = end
        else:
            break
    if at and text[at - 1] not in "\r\n\ufeff":
        line = line_break(text) + line
    return Span(at, at, line + line_break(text), "insert", (key,), value)


def _alone(text: str, found: Assignment) -> bool:
    """Is the assignment the last thing of its line, so that a line can follow it?"""
    rest = text[found.end : line_end(text, found.end)].strip()
    return not rest or rest.startswith("#")
