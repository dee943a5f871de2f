"""Text from outside made harmless: no terminal escapes, no invisible direction changes, no secrets."""

from __future__ import annotations

import re
import unicodedata

from doctor.scan.lazy import lazy

# C0 and C1 controls, bidi overrides and isolates, zero-width characters, line separators, tags
UNSAFE = lazy(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)

_SECRETS = (
    # scheme://user:password@host
    lazy(r"(?P<keep>\b[a-zA-Z][a-zA-Z0-9+.-]{1,20}://[^\s/:@]{0,80}:)[^\s/@]{1,200}(?=@)"),
    # tokens with a telling shape
    lazy(
        r"\b(?:hf_[A-Za-z0-9]{20,200}|gh[pousr]_[A-Za-z0-9]{20,200}|github_pat_\w{20,200}|sk-[A-Za-z0-9_-]{16,200}"
        r"|AKIA[0-9A-Z]{16}|glpat-[\w-]{16,100}|xox[abpr]-[\w-]{10,200})"
    ),
    lazy(r"\beyJ[\w-]{10,2000}\.[\w-]{10,2000}(?:\.[\w-]{5,2000})?"),
    lazy(
        r"(?P<keep>(?i:\bauthorization\b[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?:bearer|basic|token)\s{1,4}))[\w.+/=-]{6,2000}"
    ),
    # NAME=value and "name": "value" of names that hold secrets
    # …_TOKEN=…, --token …, ?token=…: a value of eight or more with a digit in it; max_tokens=5 and tokenizer stay
    lazy(
        r"(?P<keep>(?i:(?:\b[\w.-]{0,40}[_-]|\b|--|[?&])token[\"']?(?:\s{0,4}[:=]\s{0,4}|\s{1,4})[\"']?))"
        r"[\w.+/=-]{0,200}\d[\w.+/=-]{7,200}|(?P<keep2>(?i:[?&]token=))[\w.+/=-]{6,400}"
    ),
    lazy(
        r"(?P<keep>(?i:\b[\w.-]{0,40}(?:password|passwd|secret|api[_-]?key|access[_-]?key|secret[_-]?key|auth[_-]?token"
        r"|access[_-]?token|private[_-]?key|enc[_-]?key|credential)[\w.-]{0,20})[\"']?\s{0,4}[:=]\s{0,4}[\"']?)(?!None\b|null\b|True\b|False\b)[^\s\"',;]{4,400}"
    ),
    # ["--token", "value"] of a command line in JSON, and the log-in of a registry in docker's settings
    lazy(
        r"(?P<keep>(?i:\"--[\w-]{0,40}(?:token|password|passwd|secret|api[_-]?key|access[_-]?key)[\w-]{0,20}\"\s{0,4},\s{0,4}\"))"
        r"[^\"]{4,400}|(?P<keep2>\"auth\"\s{0,4}:\s{0,4}\")[A-Za-z0-9+/=]{8,400}(?=\")"
    ),
)


_HINTS = (
    "://", "hf_", "gh", "github_pat", "sk-", "akia", "glpat", "xox", "eyj", "auth", "pass", "secret", "key", "token",
    "credential",
)  # fmt: skip
"""A text without any of these holds no secret that the patterns know."""


def printable(text: str) -> str:
    """``text`` with every character that could steer a terminal or hide text shown as a visible mark.

    >>> printable("a\\x1b[31mb\\u202ec")
    'a␛[31mb\u27e8U+202E\u27e9c'
    """
    return UNSAFE.sub(_mark, text)


def _mark(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if char == "\x0d":
        return "␍"
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return f"\u27e8U+{code:04X}\u27e9"


def redact(text: str) -> str:
    """``text`` without passwords, tokens and keys; what was there is shown as ``***``."""
    low = text.lower()
    if not any(word in low for word in _HINTS):
        return text
    for pattern in _SECRETS:
        if "keep" in pattern.groupindex:
            text = pattern.sub(lambda m: (m["keep"] or m.groupdict().get("keep2") or "") + "***", text)
        else:
            text = pattern.sub("***", text)
    return text


def safe(text: str) -> str:
    """One line of outside text, ready for a screen."""
    return printable(text.replace("\t", "    ").replace("\n", " "))


def width(text: str) -> int:
    """Columns of a text on a terminal; Chinese characters are two wide."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
