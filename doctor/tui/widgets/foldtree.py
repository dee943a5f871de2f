"""What the trees of the screen share: marks, guides, and labels that leave room for their tail."""

from __future__ import annotations

from typing import TypeVar

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from doctor.tui.base import ascii_only, tree_marks

Data = TypeVar("Data")


class FoldTree(Tree[Data]):
    """A tree without a visible root; its own rows are folded and unfolded by hand."""

    ALLOW_MAXIMIZE = True

    def __init__(self, id: str | None = None) -> None:
        super().__init__(Text(" "), id=id)
        self.show_root = False
        self.guide_depth = 2
        self.auto_expand = False
        tree_marks(self)

    def room(self, node: TreeNode[Data]) -> int:
        """Cells of a row of this node; 0 or less before the tree has a width."""
        depth, parent = 0, node.parent
        while parent is not None and not parent.is_root:
            depth, parent = depth + 1, parent.parent
        return self.scrollable_content_region.width - depth * self.guide_depth

    def faint(self, node: TreeNode[Data], style: Style) -> Style:
        """The style of what stands behind a label: under the cursor a faint text could not be read."""
        return style if node is self.cursor_node else style + Style(dim=True)

    def tailed(self, node: TreeNode[Data], label: Text, tail: str, style: Style) -> Text:
        """A label cut so that its tail can always be seen."""
        left = max(4, self.room(node) - cell_len(tail))
        label.truncate(left, overflow="crop" if ascii_only() else "ellipsis")
        if tail:
            # the row under the cursor is one bar, also between label and tail
            label.append(" " * (left - label.cell_len), style)
        return label.append(tail, self.faint(node, style))
