"""Choose files or a folder: a tree with sizes and times, what was opened before, a filter."""

from __future__ import annotations

import fnmatch
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rich.style import Style
from rich.text import Text, TextType
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import DirectoryTree, Input, OptionList, Static
from textual.widgets.directory_tree import DirEntry
from textual.widgets.option_list import Option
from textual.widgets.tree import TreeNode
from textual.worker import Worker

from doctor.i18n import tr
from doctor.render.text import size_text
from doctor.tui.base import TranslatedModal, ascii_only, outside, tree_marks
from doctor.tui.files import dropped_paths
from doctor.tui.widgets.choices import Choices

COUNTED = 1000
"""Entries of a folder that are counted."""

RECENT = 5
"""Paths opened before that are offered."""

WITH_FACTS_FROM = 48
"""Cells from which size and time stand beside a name."""


class Facts(NamedTuple):
    """Bytes of a file or entries of a folder, and when it was last changed (seconds since the epoch)."""

    size: int
    changed: float
    folder: bool


class FileTree(DirectoryTree):
    """File names are text from outside. Sizes are asked for in the thread that lists a folder."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "screen.mark", "tui.key.mark", show=False)]

    def __init__(self, path: str, id: str | None = None) -> None:
        super().__init__(path, id=id)
        self.facts: dict[Path, Facts] = {}
        self.marked: dict[Path, int] = {}
        """the files that are taken together, with their sizes"""
        self.wanted = ""
        self.lang = "en"
        self.guide_depth = 2
        tree_marks(self)
        self.ICON_FILE = "  "

    def process_label(self, label: TextType) -> Text:
        return Text(outside(str(label)) or " ")

    def _directory_content(self, location: Path, worker: Worker[Any]) -> Iterator[Path]:
        for path in super()._directory_content(location, worker):
            found = facts_of(path)
            if found is not None:
                self.facts[path] = found
            yield path

    def filter_paths(self, paths: Iterable[Path]) -> Iterable[Path]:
        wanted = self.wanted.lower()
        for path in paths:
            known = self.facts.get(path)
            if (known is not None and known.folder) or fits(path.name.lower(), wanted):
                yield path

    def render_label(self, node: TreeNode[DirEntry], base_style: Style, style: Style) -> Text:
        """The name, and at the right edge its size and time."""
        label = super().render_label(node, base_style, style)
        width = self.scrollable_content_region.width
        if node.data is None or width < WITH_FACTS_FROM:
            return label
        path = node.data.path
        if path in self.marked:
            label = Text.assemble(("x " if ascii_only() else "✔ ", "bold green"), label[len(self.ICON_FILE) :])
        known = self.facts.get(path)
        tail = ""
        if known is not None:
            size = size_text(known.size)
            if known.folder:
                more = "+" if known.size >= COUNTED else ""
                size = tr(
                    self.lang, "tui.open.entry" if known.size == 1 else "tui.open.entries", n=f"{known.size}{more}"
                )
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(known.changed))
            tail = f"  {size:>12}  {when}"
        depth, parent = 0, node.parent
        while parent is not None:
            depth, parent = depth + 1, parent.parent
        room = width - depth * self.guide_depth - Text(tail).cell_len
        label.truncate(max(8, room), overflow="crop" if ascii_only() else "ellipsis", pad=bool(tail))
        return label.append(tail, style + Style(dim=True))


def fits(name: str, wanted: str) -> bool:
    """Whether a name, in small letters, holds a text or is of a pattern.

    >>> fits("worker_0.log", "work"), fits("worker_0.log", "*.log"), fits("worker_0.log", "*.txt")
    (True, True, False)
    """
    return fnmatch.fnmatchcase(name, wanted) if set("*?[") & set(wanted) else wanted in name


def facts_of(path: Path) -> Facts | None:
    """What is shown beside a name, None if it cannot be read."""
    try:
        seen = os.stat(path)
        if not os.path.isdir(path):
            return Facts(seen.st_size, seen.st_mtime, False)
        count = 0
        with os.scandir(path) as entries:
            for _ in entries:
                count += 1
                if count >= COUNTED:
                    break
        return Facts(count, seen.st_mtime, True)
    except OSError:
        return Facts(0, 0.0, True) if os.path.isdir(path) else None


class FilterInput(Input):
    """Escape takes the filter away."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "tui.key.back", show=False)]

    class Closed(Message):
        """The filter was left."""

    def action_close(self) -> None:
        self.value = ""
        self.post_message(self.Closed())


class OpenScreen(TranslatedModal[str | None]):
    """Returns a path, None if the user thought better of it. Enter takes a file, ``f`` the folder under the cursor.

    ``several`` is called with the files that were marked; without it nothing can be marked and nothing recent is
    offered.
    """

    PASTES: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "tui.key.back"),
        Binding("f", "folder", "tui.key.folder"),
        Binding("backspace", "up", "tui.key.up"),
        Binding("slash", "filter", "tui.key.filter"),
        Binding("tilde", "path('~')", "tui.key.path", show=False),
        Binding("a", "take", "tui.key.take_marked"),
    ]

    def __init__(
        self, start: str, title: str = "open.title", several: Callable[[Sequence[str]], None] | None = None
    ) -> None:
        super().__init__()
        self._start, self._title_key, self._several = start, title, several

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -tall"):
            yield Static(id="open-title", markup=False, classes="dialog-title")
            yield Input(self._start, id="open-path", compact=True, select_on_focus=False)
            yield Choices(id="open-recent", compact=True)
            yield FileTree(self._start, id="open-tree")
            yield FilterInput(id="open-filter", compact=True)
            yield Static(id="open-note", markup=False)

    def on_mount(self) -> None:
        recent = self.doctor.state.recent if self._several is not None else []
        self._recent = [path for path in recent if os.path.exists(path)][:RECENT]
        self.query_one("#open-recent", OptionList).display = bool(self._recent)
        self.query_one("#open-filter").display = False
        super().on_mount()
        self.set_focus(self.query_one(FileTree))

    def retranslate(self) -> None:
        self.query_one("#open-title", Static).update(self.tr(self._title_key))
        self.query_one(FilterInput).placeholder = self.tr("open.filter")
        rows = self.query_one("#open-recent", OptionList)
        rows.clear_options()
        rows.add_options([Option(Text(f"{self.tr('open.recent')} {outside(path)}")) for path in self._recent])
        tree = self.query_one(FileTree)
        tree.lang = self.doctor.lang
        tree.refresh()
        self._note()

    def _note(self) -> None:
        tree = self.query_one(FileTree)
        note = Text(self.tr("open.note" if self._several is None else "open.note_several"))
        if tree.marked:
            size = size_text(sum(tree.marked.values()))
            note = Text(self.tr("open.marked", n=len(tree.marked), size=size), "bold")
        elif tree.wanted:
            note = Text(self.tr("open.filtered", text=outside(tree.wanted)[:40]), "bold")
        self.query_one("#open-note", Static).update(note)

    def on_paste(self, event: events.Paste) -> None:
        """A log, or what was dropped on the terminal: diagnosed as anywhere."""
        event.stop()
        if self._several is not None:
            self.dismiss(None)
            self.doctor.take_paste(event.text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._several is not None if action in ("mark", "take") else True

    @on(DirectoryTree.FileSelected)
    def _file(self, event: DirectoryTree.FileSelected) -> None:
        if self.query_one(FileTree).marked:
            self.action_take()
        else:
            self.dismiss(str(event.path))

    @on(OptionList.OptionSelected, "#open-recent")
    def _again(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._recent[event.option_index])

    @on(Input.Submitted, "#open-path")
    def _path(self, event: Input.Submitted) -> None:
        """A folder is shown, anything else is taken as it is: a file, a pattern, several files."""
        named = dropped_paths(event.value)
        if len(named) > 1 and self._several is not None:
            self.dismiss(None)
            self._several(named)
            return
        path = named[0] if named else os.path.expanduser(event.value.strip())
        if os.path.isdir(path):
            self._show(path)
        elif path:
            self.dismiss(path)

    def _show(self, path: str) -> None:
        tree = self.query_one(FileTree)
        tree.path = path
        self.set_focus(tree)
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

    def action_mark(self) -> None:
        """Mark the file under the cursor, or no longer."""
        tree = self.query_one(FileTree)
        data = tree.cursor_node.data if tree.cursor_node is not None else None
        if data is None or (known := tree.facts.get(data.path)) is None or known.folder:
            return
        if tree.marked.pop(data.path, None) is None:
            tree.marked[data.path] = known.size
        tree.refresh()
        tree.action_cursor_down()
        self._note()

    def action_take(self) -> None:
        """Take the marked files as one run."""
        marked = [str(path) for path in self.query_one(FileTree).marked]
        if marked and self._several is not None:
            self.dismiss(None)
            self._several(marked)

    def action_path(self, begun: str) -> None:
        """Go on with a path that was begun where the tree has the focus."""
        line = self.query_one("#open-path", Input)
        line.value = begun
        line.cursor_position = len(begun)
        self.set_focus(line)

    def action_filter(self) -> None:
        """Show only files whose names fit."""
        line = self.query_one(FilterInput)
        line.display = True
        self.set_focus(line)

    @on(FilterInput.Closed)
    @on(Input.Submitted, "#open-filter")
    def _filtered(self) -> None:
        line = self.query_one(FilterInput)
        line.display = bool(line.value)
        self.set_focus(self.query_one(FileTree))

    @on(Input.Changed, "#open-filter")
    async def _filter(self, event: Input.Changed) -> None:
        line, tree = self.query_one(FilterInput), self.query_one(FileTree)
        if "/" in line.value:
            # no name holds one: what was begun with the key of the filter is a path
            path, line.value, line.display = "/" + line.value.lstrip("/"), "", False
            self.action_path(path)
            return
        tree.wanted = line.value.strip()
        self._note()
        await tree.reload()
