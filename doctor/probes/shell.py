"""Reading shell text: assignments and commands of a launch script, as far as they can be told without running it."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

LINES, WIDTH = 5_000, 16_384
"""Lines of a script and characters of a joined line that are looked at; launch scripts have a few hundred."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w{0,127})|\{([A-Za-z_]\w{0,127})(?::?[-=]([^{}$]{0,256}))?\})")
_INTEREST = re.compile(r"=|export|unset|msrun|mpirun|python|launch|run_distribute|source|docker|torchrun")
_BREAKS = frozenset((";", "&&", "||", "|", "&", "(", ")", ";;", "\n"))
_KEYWORDS = frozenset(("then", "do", "else", "{", "}", "!", "time", "nohup", "exec", "if", "elif", "while"))


class Command(NamedTuple):
    """One simple command: its words with known variables filled in, and the assignments in front of it.

    ``open`` tells that a word still holds something only the shell knows (``$1``, a command substitution).
    """

    line: int
    text: str
    words: tuple[str, ...]
    assigned: tuple[tuple[str, str], ...] = ()
    exported: bool = False


def fill(word: str, known: Mapping[str, str]) -> str:
    """Replace ``$NAME``, ``${NAME}`` and ``${NAME:-default}`` by what is known; the rest stays as written."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(2)
        value = known.get(name)
        if value:
            return value
        return match.group(3) if match.group(3) is not None else match.group(0)

    return _VARIABLE.sub(one, word) if "$" in word else word


def is_open(value: str) -> bool:
    """Does the value depend on something that only the running shell knows?"""
    return "$" in value or "`" in value


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    lines = text.splitlines()[:LINES]
    at = 0
    while at < len(lines):
        first, line = at + 1, lines[at]
        at += 1
        while line.endswith("\\") and at < len(lines) and len(line) < WIDTH:
            line = line[:-1] + " " + lines[at].strip()
            at += 1
        yield first, line


def commands(text: str, known: Mapping[str, str] | None = None) -> list[Command]:
    """The simple commands of a script or of one command line, in order; what cannot be split is left out.

    >>> commands("N=4\\nmsrun --worker_num=$N train.py")[1].words
    ('msrun', '--worker_num=4', 'train.py')
    """
    found: list[Command] = []
    values = dict(known or {})
    lines = list(_logical_lines(text))
    at = 0
    while at < len(lines):
        number, line = lines[at]
        at += 1
        stripped = line.strip()
        if stripped.startswith("#"):
            continue
        stripped = stripped.removeprefix("$ ").removeprefix("> ")
        if len(stripped) > WIDTH or not _INTEREST.search(stripped):
            continue
        words = _words(stripped)
        taken = at
        while words is None and taken < len(lines) and taken - at < 40 and len(stripped) < WIDTH:
            stripped += "\n" + lines[taken][1]
            taken += 1
            words = _words(stripped)
        if words is None:
            continue
        at = taken
        found += _simple(number, line.strip(), words, values)
    return found


def _words(line: str) -> list[str] | None:
    """The words of a line, None while a quote is open."""
    if line.count('"') % 2 == 0 and line.count("'") % 2 == 0 and not set(line) & set("\"'\\;&|()#<>"):
        return line.split()
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return None


def _simple(line: int, text: str, words: list[str], values: dict[str, str]) -> list[Command]:
    found: list[Command] = []
    part: list[str] = []
    for word in [*words, ";"]:
        if word in _BREAKS:
            if part:
                command = _command(line, text, part, values)
                if command is not None:
                    found.append(command)
            part = []
        else:
            part.append(word)
    return found


def _command(line: int, text: str, words: list[str], values: dict[str, str]) -> Command | None:
    while words and words[0] in _KEYWORDS:
        words = words[1:]
    assigned: list[tuple[str, str]] = []
    exported = False
    if words and words[0] in ("export", "declare", "typeset", "local", "readonly", "env"):
        exported = words[0] in ("export", "env") or "-x" in words[1:2]
        words = [word for word in words[1:] if not (word.startswith("-") and len(word) < 4)]
    while words:
        match = _ASSIGN.fullmatch(words[0])
        if match is None:
            break
        name, value = match.group(1), fill(match.group(2), values)
        assigned.append((name, value))
        words = words[1:]
    words = [fill(word, values) for word in words]
    if not words:
        for name, value in assigned:
            if is_open(value):
                values.pop(name, None)
            else:
                values[name] = value
    if exported and words and all(_NAME.fullmatch(word) for word in words):
        words = []
    if words and words[0] in ("cd", "echo", "printf", "mkdir", "rm", "cp", "test", "["):
        return None
    if not words and not assigned:
        return None
    return Command(line, text[:400], tuple(words[:256]), tuple(assigned[:64]), exported or bool(words))


# --- dumps of an environment ------------------------------------------------------------------------------------------

_DUMP = re.compile(r"(?:export |declare -[a-z]{0,6}x[a-z]{0,6} |set -x |setenv )?([A-Za-z_][A-Za-z0-9_]{0,127})=(.*)")


def environment(text: str) -> dict[str, str]:
    """The variables of a dump by ``env``, ``printenv``, ``export -p``, ``declare -x`` or lines ``export NAME=value``.

    Values in quotes lose them as the shell would; lines that are no variable are left out.

    >>> environment('declare -x A="1 2"\\nB=3\\nexport C=x')
    {'A': '1 2', 'B': '3', 'C': 'x'}
    """
    found: dict[str, str] = {}
    for line in text.splitlines()[: 4 * LINES]:
        match = _DUMP.fullmatch(line.strip()[:WIDTH])
        if match is not None:
            value = match.group(2).strip()
            if line.lstrip().startswith("export ") and value[:1] not in ("'", '"', "$", "`"):
                # a line of a script: what follows is a comment or another command
                value = re.split(r"\s+#|;|\s*&&", value, maxsplit=1)[0].rstrip()
            found[match.group(1)] = _plain(value)
    return found


def _plain(value: str) -> str:
    if value[:1] in "\"'" or value.startswith("$'"):
        try:
            words = shlex.split(value.removeprefix("$"), comments=True)
        except ValueError:
            return value
        return words[0] if len(words) == 1 else " ".join(words)
    return value
