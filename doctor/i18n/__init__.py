"""Texts of the interface in zh and en; the texts of rules live in the rules.

JSON and not YAML: reading YAML costs more than a whole warm diagnosis.
"""

from __future__ import annotations

import json
import os
from typing import Any

LANGUAGES = ("zh", "en")
_loaded: dict[str, dict[str, str]] = {}


def texts(lang: str) -> dict[str, str]:
    """All texts of a language."""
    if lang not in _loaded:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{lang}.json")
        with open(path, encoding="utf-8") as file:
            _loaded[lang] = json.load(file)
    return _loaded[lang]


def tr(lang: str, key: str, **values: Any) -> str:
    """A text, its ``{name}`` fields filled. Raises KeyError for a key no language has."""
    text = texts(lang)[key]
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def pick(both: dict[str, str], lang: str) -> str:
    """The text of a language, else of the other one, else nothing."""
    return both.get(lang) or both.get("en") or both.get("zh") or ""


def default_language() -> str:
    """zh or en from DOCTOR_LANG, else from the locale."""
    for name in ("DOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        value = os.environ.get(name, "").lower()
        if value:
            return "zh" if value.startswith("zh") else "en"
    return "en"
