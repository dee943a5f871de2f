"""What the screen leaves on disk: pasted text, saved reports."""

from __future__ import annotations

import os
import shutil
import tempfile

from doctor.model import Report


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
        # terminals send a return for every line end
        data = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        return path, data

    def clear(self) -> None:
        """Remove everything pasted."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


def report_text(report: Report, lang: str, ascii_only: bool) -> str:
    """The whole report as plain text."""
    from doctor.render import checks, text
    from doctor.smoke import show

    layout = {"host": checks.layout, "smoke": show.layout}.get(report.target.get("kind", ""), text.layout)
    return text.plain(layout(report, lang, every=True, ascii_only=ascii_only))


def save_report(report: Report, path: str, lang: str, ascii_only: bool) -> None:
    """Write a report, as JSON if the name ends so, else as text. Raises OSError."""
    if path.lower().endswith(".json"):
        from doctor.render.json import render

        content = render(report, indent=2) + "\n"
    else:
        content = report_text(report, lang, ascii_only)
    with open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(content)
