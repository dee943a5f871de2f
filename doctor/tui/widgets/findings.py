"""Files as a tree, the findings of each below it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual.widgets.tree import TreeNode

from doctor.i18n import pick, tr
from doctor.model import Evidence, Finding
from doctor.render.text import STYLES, mark
from doctor.tui.base import ascii_only, outside
from doctor.tui.configs import Seen
from doctor.tui.widgets.foldtree import FoldTree


class Place(NamedTuple):
    """What a node stands for; ``finding`` is None for the file itself."""

    path: str
    finding: Finding | None = None
    evidence: Evidence | None = None
    tail: str = ""


class FindingTree(FoldTree[Place]):
    """Moving the cursor tells the screen which file, finding and line to show."""

    def fill(self, files: Sequence[Seen], target: str, lang: str, unknown: bool, kept: tuple[str, str]) -> None:
        """Show files; the cursor goes to ``kept``, a path and a rule, as far as they are still there."""
        path, rule = kept
        self.clear()
        self.cursor_line = -1
        nodes: list[TreeNode[Place]] = []
        for n, seen in enumerate(files):
            node = self._file(seen, target, lang, unknown, open_=n == 0 or len(files) <= 12 or seen.path == path)
            nodes += [*node.children, node]
        own = [node for node in nodes if node.data is not None and node.data.path == path]
        same = [node for node in own if node.data is not None and node.data.finding is not None
                and node.data.finding.id == rule]  # fmt: skip
        _ = self.last_line  # lines are counted when they are asked for
        for node in (*same[:1], *own[:1], *nodes[:1]):
            self.move_cursor(node)
            break

    def _file(self, seen: Seen, target: str, lang: str, unknown: bool, open_: bool) -> TreeNode[Place]:
        wrong, blank = seen.failed(), seen.unknown()
        counts = [
            f"{n} {mark(severity, ascii_only())}"
            for severity in ("error", "warning", "advice")
            if (n := sum(f.severity == severity for f in wrong))
        ]
        worst = wrong[0].severity if wrong else "unknown" if seen.why else "healthy"
        if unknown and blank:
            counts.append(f"{len(blank)} {mark('unknown', ascii_only())}")
        name = seen.path
        if not seen.why:
            name = os.path.relpath(name, target) if os.path.isdir(target) else os.path.basename(name)
        label = _label(worst, outside(name), "bold")
        rows = [*wrong, *(blank if unknown else ())]
        data = Place(seen.path, None, Evidence(seen.path, 0, ""), "  ".join(counts))
        if not rows and not seen.why:
            return self.root.add_leaf(label, data)
        node = self.root.add(label, data, expand=open_)
        if seen.why:
            node.add_leaf(Text(outside(pick(seen.why, lang))), Place(seen.path))
        for finding in rows:
            first = finding.evidence[0] if finding.evidence else None
            sign = finding.severity if finding in wrong else "unknown"
            title = outside(pick(finding.title, lang))
            tail = tr(lang, "tui.model.line", line=first.line) if first is not None and first.line else ""
            node.add_leaf(_label(sign, f"{finding.id}  {title}"), Place(seen.path, finding, first, tail))
        return node

    def select(self, path: str) -> None:
        """Move the cursor to a file."""
        for node in self.root.children:
            if node.data is not None and node.data.path == path:
                node.expand()
                _ = self.last_line
                self.move_cursor(node.children[0] if node.children else node)

    def render_label(self, node: TreeNode[Place], base_style: Style, style: Style) -> Text:
        """A label cut to the width, so that its tail can always be seen."""
        label = super().render_label(node, base_style, style)
        if node.data is None or self.scrollable_content_region.width <= 0:
            return label
        tail = f"  {node.data.tail}" if node.data.tail else ""
        if cell_len(tail) > self.room(node) // 2:
            tail = ""
        return self.tailed(node, label, tail, style)


def _label(severity: str, text: str, style: str = "") -> Text:
    return Text.assemble((f"{mark(severity, ascii_only())} ", STYLES[severity]), (text, style))
