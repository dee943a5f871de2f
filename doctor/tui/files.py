"""What the screen leaves on disk: pasted text, saved reports."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence

from doctor.model import Report

DROPPED = 1 << 16
"""Characters of a paste up to which it may be a list of paths."""

PIECE = 1 << 20
"""Characters of a paste that are worked on at once."""


class Spool:
    """A private folder for pasted text, made when first needed, removed at the end."""

    def __init__(self) -> None:
        self._folder = ""
        self._count = 0

    def write(self, text: str) -> tuple[str, bytes]:
        """Keep a paste; returns its path and its bytes. Raises OSError, for example when the disk is full."""
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="doctor-paste-")
        self._count += 1
        path = os.path.join(self._folder, f"paste-{self._count}.log")
        # in pieces: other threads, the screen's among them, wait while a string is worked on
        data = b"".join(_pieces(text))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        return path, data

    def clear(self) -> None:
        """Remove everything pasted."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def _pieces(text: str) -> Iterator[bytes]:
    """UTF-8 with line feeds: terminals send a return for every line end."""
    start = 0
    while start < len(text):
        end = start + PIECE
        if text[end - 1 : end + 1] == "\r\n":
            end += 1
        yield text[start:end].replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
        start = end


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Each name from the last folder on that all of them share: what tells them apart is what is looked for.

    >>> short_names(["/data/run/w/0.log", "/data/run/w/1.log", "<paste>"])
    {'/data/run/w/0.log': 'w/0.log', '/data/run/w/1.log': 'w/1.log', '<paste>': '<paste>'}
    """
    folders = [name.split("/")[:-1] for name in names if os.path.dirname(name)]
    shared = 0
    while folders and all(shared < len(f) and f[shared] == folders[0][shared] for f in folders):
        shared += 1
    return {name: "/".join(name.split("/")[max(0, shared - 1) :]) if os.path.dirname(name) else name for name in names}


def dropped_paths(text: str) -> list[str]:
    """The paths that a paste names, as terminals paste what is dropped on them: quoted, with escaped blanks, as
    ``file://`` addresses, several on a line or on lines of their own. Empty unless each of them exists."""
    if len(text) > DROPPED or "\0" in text or not text.strip():
        return []
    lines = [line for line in (part.strip() for part in text.splitlines()) if line]
    whole = [_path(line.strip("'\"")) for line in lines]
    if all(map(os.path.exists, whole)):
        return whole
    import shlex

    try:
        words = [_path(word) for line in lines for word in shlex.split(line)]
    except ValueError:
        return []
    return words if words and all(map(os.path.exists, words)) else []


def _path(word: str) -> str:
    if word.lower().startswith("file://"):
        from urllib.parse import unquote, urlsplit

        try:
            return unquote(urlsplit(word).path)
        except ValueError:
            return word
    return os.path.expanduser(word)


def report_text(report: Report, lang: str, ascii_only: bool) -> str:
    """The whole report as plain text."""
    from doctor.render import checks, text
    from doctor.smoke import show

    layout = {"host": checks.layout, "smoke": show.layout}.get(report.target.get("kind", ""), text.layout)
    return text.plain(layout(report, lang, every=True, ascii_only=ascii_only))


def save_report(report: Report, path: str, lang: str, ascii_only: bool) -> None:
    """Write a report, as JSON or as a page if the name ends so, else as text. Raises OSError."""
    if path.lower().endswith(".json"):
        from doctor.render.json import render

        content = render(report, indent=2) + "\n"
    elif path.lower().endswith((".html", ".htm")):
        from doctor.render.html import page

        content = page(report, lang)
    else:
        content = report_text(report, lang, ascii_only)
    save_text(content, path)


def save_text(content: str, path: str) -> None:
    """Write a text. Raises OSError."""
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(content)
