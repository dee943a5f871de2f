"""Choose a file or a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from rich.text import Text, TextType
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import DirectoryTree, Input, Static

from doctor.tui.base import TranslatedModal, ascii_only, outside


class FileTree(DirectoryTree):
    """File names are text from outside."""

    def __init__(self, path: str, id: str | None = None) -> None:
        super().__init__(path, id=id)
        if ascii_only():
            self.ICON_NODE, self.ICON_NODE_EXPANDED, self.ICON_FILE = "+ ", "- ", "  "
            self.show_guides = False
        else:
            self.ICON_NODE, self.ICON_NODE_EXPANDED, self.ICON_FILE = "▸ ", "▾ ", "  "

    def process_label(self, label: TextType) -> Text:
        return Text(outside(str(label)) or " ")


class OpenScreen(TranslatedModal[str | None]):
    """Returns a path, None if the user thought better of it. Enter takes a file, ``f`` the folder under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "tui.key.back"),
        Binding("f", "folder", "tui.key.folder"),
        Binding("backspace", "up", "tui.key.up"),
    ]

    def __init__(self, start: str, title: str = "open.title") -> None:
        super().__init__()
        self._start, self._title_key = start, title

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield Static(id="open-title", markup=False, classes="dialog-title")
            yield Input(self._start, id="open-path", compact=True, select_on_focus=False)
            yield FileTree(self._start, id="open-tree")
            yield Static(id="open-note", markup=False)

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one(FileTree).focus()

    def retranslate(self) -> None:
        self.query_one("#open-title", Static).update(self.tr(self._title_key))
        self.query_one("#open-note", Static).update(self.tr("open.note"))

    @on(DirectoryTree.FileSelected)
    def _file(self, event: DirectoryTree.FileSelected) -> None:
        self.dismiss(str(event.path))

    @on(Input.Submitted)
    def _path(self, event: Input.Submitted) -> None:
        """A folder is shown, anything else is taken as it is."""
        path = os.path.expanduser(event.value.strip())
        if os.path.isdir(path):
            self._show(path)
        elif path:
            self.dismiss(path)

    def _show(self, path: str) -> None:
        tree = self.query_one(FileTree)
        tree.path = path
        tree.focus()
        self.query_one("#open-path", Input).value = path

    def action_up(self) -> None:
        """The folder above."""
        self._show(str(Path(self.query_one(FileTree).path).resolve().parent))

    def action_folder(self) -> None:
        """Take the folder under the cursor, or the one that holds the file there."""
        tree = self.query_one(FileTree)
        node = tree.cursor_node
        path = node.data.path if node is not None and node.data is not None else Path(tree.path)
        self.dismiss(str(path if path.is_dir() else path.parent))
