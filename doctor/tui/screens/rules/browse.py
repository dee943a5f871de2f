"""Rules by family and topic, or by words; beside it the rule that is under the cursor, or its file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.widgets import Input, Static, Tree
from textual.widgets.tree import TreeNode

from doctor.i18n import pick, tr
from doctor.render.text import STYLES, mark
from doctor.rulecli import LABELS, named, rule_text, source_text
from doctor.rulesearch import Index, Row
from doctor.tui.base import ascii_only, outside, wrap
from doctor.tui.screens.rules.page import Page, SafeInput
from doctor.tui.widgets.foldtree import FoldTree

MOST = 300
"""Rules that a search lists."""

_KEY = re.compile(r"^(\s*(?:- )?)([\w.]+)(:)(?=\s|$)")


class Leaf(NamedTuple):
    """What a node stands for: a family, a topic of a family, or a rule."""

    kind: str
    family: str
    name: str
    tail: str = ""


class RuleTree(FoldTree[Leaf]):
    """Filled as far as it is unfolded: 1,250 rules at once would take a moment."""

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id)
        self._index: Index | None = None
        self._lang = "en"

    def fill(self, index: Index | None, found: Sequence[Row] | None, lang: str) -> None:
        """All rules by family, or those that a search found, the best first."""
        at = self.cursor_node.data if self.cursor_node is not None else None
        unfolded = {node.data for node in self._walk(self.root) if node.data and node.is_expanded and not found}
        self._index, self._lang = index, lang
        self.clear()
        self.cursor_line = -1
        if index is None:
            return
        if found is not None:
            for row in found[:MOST]:
                self._leaf(self.root, row)
            if len(found) > MOST:
                self.root.add_leaf(Text(tr(lang, "more", n=len(found) - MOST), "dim"))
        else:
            for family, topics in index.tree().items():
                count = sum(map(len, topics.values()))
                label = Text.assemble((f"{family:<5}", "bold"), tr(lang, f"tui.rules.family.{family}"))
                node = self.root.add(label, Leaf("family", family, family, str(count)))
                if any(data and data.family == family for data in unfolded):
                    node.expand()
                    self.unfold(node)
                    for child in node.children:
                        if child.data in unfolded:
                            child.expand()
                            self.unfold(child)
        _ = self.last_line  # lines are counted when they are asked for
        nodes = [node for node in self._walk(self.root) if node is not self.root]
        same = [node for node in nodes if at is not None and node.data is not None and node.data[:3] == at[:3]]
        for node in (*same[:1], *nodes[:1]):
            self.move_cursor(node)
            break

    def _walk(self, node: TreeNode[Leaf]) -> list[TreeNode[Leaf]]:
        return [node, *(found for child in node.children for found in self._walk(child))]

    def unfold(self, node: TreeNode[Leaf]) -> None:
        """Put in what a family or topic holds, once."""
        leaf = node.data
        if node.children or leaf is None or self._index is None:
            return
        topics = self._index.tree()[leaf.family]
        if leaf.kind == "topic":
            for row in topics[leaf.name]:
                self._leaf(node, row)
            return
        for topic, rows in topics.items():
            words = pick(self._index.base.topics.get(topic, {}), self._lang) or topic
            node.add(Text(words), Leaf("topic", leaf.family, topic, str(len(rows))))

    def _leaf(self, node: TreeNode[Leaf], row: Row) -> None:
        label = Text.assemble(
            (f"{mark(row.severity, ascii_only())} ", STYLES[row.severity]), (f"{row.id} ", "bold"),
            outside(named(pick(row.title, self._lang))),
        )  # fmt: skip
        node.add_leaf(label, Leaf("rule", row.family, row.id))

    def find(self, rule_id: str) -> bool:
        """Move the cursor to a rule, unfolding what it stands in; whether it is there."""
        if self._index is None or rule_id not in self._index.rows:
            return False
        row = self._index.rows[rule_id]
        for wanted in (row.family, row.topic, row.id):
            for node in self._walk(self.root):
                if node.data is not None and node.data.name == wanted and node.data.family == row.family:
                    if node.data.kind == "rule":
                        _ = self.last_line
                        self.move_cursor(node)
                        return True
                    self.unfold(node)
                    node.expand()
                    break
        return False

    def render_label(self, node: TreeNode[Leaf], base_style: Style, style: Style) -> Text:
        """A label cut to the width; the number of rules behind it."""
        label = super().render_label(node, base_style, style)
        if node.data is None or self.scrollable_content_region.width <= 0:
            return label
        return self.tailed(node, label, f"  {node.data.tail}" if node.data.tail else "", style)


class RulePage(VerticalScroll):
    """The page of a rule, or its file; laid out anew when the width changes."""

    ALLOW_MAXIMIZE = True

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._text, self._lang, self._source = "", "en", False

    def compose(self) -> ComposeResult:
        yield Static(id="rule-text", markup=False)

    def show(self, text: str, lang: str, source: bool = False) -> None:
        """Another page; ``source``: it is the file of a rule."""
        self._text, self._lang, self._source = text, lang, source
        self._lay_out()
        self.scroll_home(animate=False)

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        columns = self.scrollable_content_region.width - 1
        text = yaml_text(self._text, columns) if self._source else _headed(hanging(self._text, columns, self._lang))
        self.query_one("#rule-text", Static).update(text)


class BrowsePage(Page):
    """Moving in the tree is enough: the page follows."""

    source = False
    """whether the file is shown instead of the page"""

    def compose(self) -> ComposeResult:
        yield SafeInput(id="filter", compact=True)
        with Container(id="rule-panes"):
            yield RuleTree(id="rule-tree")
            yield RulePage(id="rule-page")

    def retranslate(self) -> None:
        self.query_one("#filter", Input).placeholder = self.tr("checks.filter")
        self._fill()

    def take_focus(self) -> None:
        self.screen.set_focus(self.query_one(RuleTree))

    @property
    def rule_id(self) -> str:
        """The rule under the cursor, empty without one."""
        node = self.query_one(RuleTree).cursor_node
        return node.data.name if node is not None and node.data is not None and node.data.kind == "rule" else ""

    def _fill(self) -> None:
        words = self.query_one("#filter", Input).value.strip()
        index = self.room.rules if self.room else None
        found = index.search(words) if index is not None and words else None
        self.query_one(RuleTree).fill(index, found, self.doctor.lang)
        if index is not None and found == []:
            self.query_one(RulePage).show(self.tr("checks.no_rule"), self.doctor.lang)

    def show_rule(self, rule_id: str) -> None:
        """Put the cursor on a rule."""
        if not self.query_one(RuleTree).find(rule_id):
            self.query_one("#filter", Input).value = rule_id

    def read(self) -> None:
        """Show what is under the cursor."""
        node, lang = self.query_one(RuleTree).cursor_node, self.doctor.lang
        if self.room is None or node is None or node.data is None:
            return
        base, leaf, page = self.room.base, node.data, self.query_one(RulePage)
        if leaf.kind != "rule":
            page.show(self._about(leaf), lang)
            return
        whole = base.whole(leaf.name)
        if not self.source:
            page.show(rule_text(base, whole, lang), lang)
            return
        try:
            page.show(f"# {whole['file']}\n" + source_text(base, whole), lang, source=True)
        except OSError as error:
            page.show(outside(f"{whole['file']}: {error.strerror}"), lang)

    def _about(self, leaf: Leaf) -> str:
        """A family or topic in some lines."""
        assert self.room is not None
        topics = self.room.rules.tree()[leaf.family]
        rows = [row for topic, rows in topics.items() if leaf.kind == "family" or topic == leaf.name for row in rows]
        text = self.tr(f"rules.family.{leaf.family}")
        if leaf.kind == "topic":
            text = pick(self.room.base.topics.get(leaf.name, {}), self.doctor.lang)
        out = [f"{leaf.name}  {text}", ""]
        for name in ("severity", "confidence"):
            words = [getattr(row, name) for row in rows]
            counts = {word: words.count(word) for word in dict.fromkeys(sorted(words))}
            out.append("  ".join(f"{tr(self.doctor.lang, f'{name}.{word}')} {n}" for word, n in counts.items()))
        kinds = [row.kind for row in rows]
        out.append("  ".join(f"{self.tr(f'rules.kind.{kind}')} {kinds.count(kind)}" for kind in dict.fromkeys(kinds)))
        return "\n".join(out)

    @on(Tree.NodeHighlighted)
    def _follow(self) -> None:
        self.read()

    @on(Tree.NodeExpanded)
    def _expanded(self, event: Tree.NodeExpanded[Leaf]) -> None:
        self.query_one(RuleTree).unfold(event.node)

    @on(Tree.NodeSelected)
    def _enter(self, event: Tree.NodeSelected[Leaf]) -> None:
        """Enter folds and unfolds, and goes to the page of a rule."""
        if event.node.allow_expand:
            self.query_one(RuleTree).unfold(event.node)
            event.node.toggle()
        else:
            self.screen.set_focus(self.query_one(RulePage))

    @on(Input.Changed, "#filter")
    def _filtered(self) -> None:
        self._fill()

    @on(Input.Submitted, "#filter")
    def _to_tree(self) -> None:
        self.take_focus()


def hanging(text: str, columns: int, lang: str) -> str:
    """A page of labels and texts, wrapped so that the texts stay in their column."""
    labels = [tr(lang, key) for key in PAGE]
    if columns < 20:
        return text
    out = []
    for line in text.split("\n"):
        label = next((one for one in labels if line.startswith(one + " ")), "")
        if not label and not line.startswith(" "):
            out += wrap(line, columns)
            continue
        beside = columns >= 50 and cell_len(label) < LABELS[lang]
        indent = " " * (LABELS[lang] if beside or columns >= 50 else 2)
        rows = wrap(line[len(label) :].strip(), columns - len(indent))
        if label and not beside:
            out += [label, *(indent + row for row in rows)]
        else:
            head = label + " " * (len(indent) - cell_len(label))
            out += [(head if n == 0 else indent) + row for n, row in enumerate(rows)]
    return "\n".join(out)


def _headed(page: str) -> Text:
    """A page with its first line and its labels set off."""
    text = Text(page, no_wrap=True)
    for found in re.finditer(r"(?m)^(?! )\S+(?: \S+)*(?=\s{2,}|$)", page):
        text.stylize("bold" if found.start() == 0 else "cyan", *found.span())
    return text


def yaml_text(source: str, columns: int) -> Text:
    """A rule file, its keys set off; harmless whatever it holds."""
    text = Text(no_wrap=True)
    for line in source.split("\n"):
        line = outside(line)
        indent = len(line) - len(line.lstrip(" "))
        rows = wrap(line.strip(), max(16, columns - indent - 2)) or [""]
        whole = " " * indent + ("\n" + " " * (indent + 2)).join(rows) + "\n"
        key = _KEY.match(whole)
        style = "dim" if line.lstrip().startswith("#") else ""
        if key:
            text.append(key[1] + key[2] + key[3], "cyan")
            whole = whole[key.end() :]
        text.append(whole, style)
    return text


PAGE = (
    "topic", "strength", "applies_to", "condition", "cause", "next", "fix", "explains", "explained_by", "sources",
    "seeds", "fires_on", "quiet_on",
)  # fmt: skip
"""The labels of the page of a rule."""
