"""API501-API509: what the API tables say of a file. The comparison itself is ``doctor.source.api``."""

from __future__ import annotations

import re
from typing import Any

from doctor.checks.code.common import at
from doctor.model import Answer
from doctor.source.tree import Module, Trouble

DOCS = "https://www.mindspore.cn/docs/{lang}/r{version}/api_python/mindspore.html"


def absent(module: Module) -> list[Answer]:
    """Names that a module or package of the target does not have."""
    return _answers(module, "absent")


def absent_module(module: Module) -> list[Answer]:
    """Imports of modules that the target does not have."""
    return _answers(module, "module")


def absent_member(module: Module) -> list[Answer]:
    """Methods that a class of the target does not have."""
    return _answers(module, "member")


def keyword(module: Module) -> list[Answer]:
    """Keyword arguments that a callable of the target does not take."""
    return _answers(module, "keyword")


def positional(module: Module) -> list[Answer]:
    """More positional arguments than a callable takes, or one argument given twice."""
    return _answers(module, "positional", "twice")


def deprecated(module: Module) -> list[Answer]:
    """Names that are announced to go; one answer for a name."""
    return _answers(module, "deprecated")


def context_key(module: Module) -> list[Answer]:
    """Keys that set_context or set_auto_parallel_context refuses."""
    return _answers(module, "context", "context_gone")


def context_old(module: Module) -> list[Answer]:
    """Keys of set_context that have a successor; one answer for a key."""
    seen: set[str] = set()
    out = []
    for trouble in module.api:
        if trouble.kind == "context_old" and trouble.what not in seen:
            seen.add(trouble.what)
            out.append(_answer(module, trouble))
    return out


def _answers(module: Module, *kinds: str) -> list[Answer]:
    return [_answer(module, t) for t in module.api if t.kind in kinds]


def _answer(module: Module, trouble: Trouble) -> Answer:
    how: dict[str, Any] = {}
    if not trouble.exact and trouble.kind not in ("deprecated", "context_old"):
        if trouble.given:
            how = {"severity": "advice", "confidence": "likely"}  # the versions on both sides lack it
        elif trouble.elsewhere:
            how = {"severity": "warning", "confidence": "guess"}  # the version is not known and some have it
        else:
            how = {"confidence": "likely"}
    package = "MindSpore" if trouble.package == "mindspore" else "MindFormers"
    short = ".".join(trouble.version.split(".")[:2])
    since, use = _since_and_use(trouble)
    zh, en = (DOCS.format(lang=lang, version=_docs(short)) for lang in ("zh-CN", "en"))
    args = {
        "name": trouble.name, "what": trouble.what, "package": package, "version": trouble.version or "?",
        "versions": ", ".join(trouble.elsewhere) or "-", "parameters": trouble.more.replace(",", ", "),
        "use_zh": trouble.use.get("zh") or use or f"没有已知的替代，见 {zh}",
        "use_en": trouble.use.get("en") or use or f"none is known, see {en}",
        "since": since or "-",
    }  # fmt: skip
    return at(module, trouble.line, args, **how)


def _since_and_use(trouble: Trouble) -> tuple[str, str]:
    """(release that announced it, what to use) of a name or key that is on its way out."""
    if trouble.kind == "context_old":
        return "", trouble.more
    if trouble.kind not in ("deprecated", "context_gone"):
        return "", ""
    since, _, use = trouble.more.partition("|")
    if use.startswith("|"):  # words of the documentation
        version = re.search(r"version (\d+\.\d+(?:\.\d+)?)", use)
        named = re.search(r"use (?:the )?:?\w*:?`+~?([\w.]+)`", use)
        return version[1] if version else "", named[1] if named else ""
    return since, use


def _docs(short: str) -> str:
    """Branch of the documentation: r2.7.0 of 2.7; those before 2.3 have no third number."""
    major, _, minor = short.partition(".")
    return f"{short}.0" if minor.isdigit() and (int(major), int(minor)) >= (2, 3) else short
