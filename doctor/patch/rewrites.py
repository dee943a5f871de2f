"""Rewrites of Python source: what a code rule's ``fix: rewrite:`` makes of a finding.

Each function of ``REWRITES`` gets the file and the finding, and answers with the ways to mend it: exact replacements of
characters. Nothing is formatted anew. What is not certain is not offered: an empty answer.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from doctor.model import Edit, Finding
from doctor.patch.pyspans import Places, add_keyword, drop_keyword
from doctor.patch.spans import Refused, Span, inserted_line, line_break, line_end, line_start
from doctor.source import api
from doctor.source import table as tables
from doctor.source.api import Known
from doctor.source.match import argument, literal
from doctor.source.tree import Call, Module, Scope, Trouble, Use


class Way(NamedTuple):
    """One way to mend a finding. ``safe``: nothing that ran before runs differently. ``zh`` and ``en`` tell a choice
    apart from the others."""

    edits: tuple[Edit, ...]
    safe: bool = False
    zh: str = ""
    en: str = ""


class Impossible(Exception):
    """A place cannot be rewritten exactly."""


class Work:
    """A file under change: its tree, and positions of characters and bytes in its text."""

    def __init__(self, path: str, text: str, module: Module, known: Known) -> None:
        self.path, self.text, self.module, self.known = path, text, module, known
        self.places = Places(text)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end of a node. Raises Impossible inside an f-string, where positions are not exact."""
        if any(isinstance(a, ast.JoinedStr) for a in self.module.ancestors(node)):
            raise Impossible
        return self.places.span(node)  # type: ignore[arg-type]

    def source(self, node: ast.AST) -> str:
        """The text of a node as written."""
        start, end = self.span(node)
        return self.text[start:end]

    def edit(self, start: int, end: int, new: str, key: str) -> Edit:
        """A replacement of characters; ``key`` says what it is about."""
        line = self.text.count("\n", 0, start) + 1
        at, old = len(self.text[:start].encode()), self.text[start:end]
        return Edit(self.path, f"{line}:{key}", old, new, at, at + len(old.encode()))

    def of(self, span: Span, key: str) -> Edit:
        return self.edit(span.start, span.end, span.new, key)

    def replace(self, node: ast.AST, new: str, key: str = "") -> Edit:
        """A node becomes another text."""
        start, end = self.span(node)
        return self.edit(start, end, new, key or self.text[start:end].split("\n", 1)[0][:60])

    def keyword(self, call: ast.Call, name: str, value: str) -> Edit:
        """A further keyword of a call."""
        self.span(call)
        return self.of(add_keyword(self.text, self.places, call, name, value), f"{_tip(call)}({name})")

    def drop(self, call: ast.Call, keyword: ast.keyword) -> Edit:
        """A keyword less."""
        self.span(call)
        return self.of(drop_keyword(self.text, self.places, call, keyword), f"{_tip(call)}({keyword.arg})")

    def named(self, name: str, scope: Scope, line: int) -> tuple[str, tuple[Edit, ...]]:
        """How a qualified name is written at a place, with the import it needs. Raises Impossible."""
        known = self.known.find(name)
        if known is None or known[0].state in ("absent", "opaque"):
            raise Impossible
        best = ""
        for alias, value in self._imported(line, scope):
            if name == value or name.startswith(value + "."):
                text = alias + name[len(value) :]
                best = min(filter(None, (best, text)), key=len)
        if best:
            return best, ()
        root = name.split(".", 1)[0]
        if scope.find(root) is not None:
            raise Impossible
        return name, (self.import_line(f"import {root}", line),)

    def _imported(self, line: int, scope: Scope) -> Iterator[tuple[str, str]]:
        """(name, what it means) of the imports at the top of the module that are in force at a place."""
        top = self.module.top
        for node in self.module.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and (node.lineno < line or scope.function is not None):
                for item in node.names:
                    alias = item.asname or item.name.split(".", 1)[0]
                    found = scope.find(alias)
                    bound = top.bound.get(alias, [])
                    same = found is not None and found[0] is top and len({(b.kind, b.value) for b in bound}) == 1
                    if same and bound[0].kind == "import" and not bound[0].guarded:
                        yield alias, bound[0].value

    def import_line(self, text: str, line: int) -> Edit:
        """A further import behind those at the top. Raises Impossible if ``line`` stands above them."""
        body = self.module.tree.body
        last: ast.stmt | None = None
        for n, node in enumerate(body):
            doc = n == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if not doc and not isinstance(node, (ast.Import, ast.ImportFrom)):
                break
            last = node
        if last is None or (last.end_lineno or 0) >= line:
            raise Impossible
        start, end = self.span(last)
        if self.text[end : line_end(self.text, end)].split("#")[0].strip() or self.text[
            line_start(self.text, start) : start
        ].strip("\ufeff"):
            raise Impossible
        at, made = inserted_line(self.text, end, text)
        return self.edit(at, at, made, text)

    def alone(self, node: ast.stmt) -> str:
        """The indentation of a statement that has its lines to itself. Raises Impossible."""
        start, end = self.span(node)
        lead = self.text[line_start(self.text, start) : start]
        if lead.strip("\ufeff \t") or self.text[end : line_end(self.text, end)].split("#", 1)[0].strip():
            raise Impossible
        return lead.removeprefix("\ufeff")

    def calls(self, line: int) -> list[Call]:
        """The calls that begin on a line and whose place is exact."""
        return [c for c in self.module.calls if c.node.lineno == line]


def _tip(call: ast.Call) -> str:
    return ast.unparse(call.func)[-40:]


def _line(finding: Finding) -> int:
    text = finding.args.get("line", "")
    return int(text) if text.isdigit() else 0


def _one(calls: Sequence[Call]) -> Call:
    if len(calls) != 1:
        raise Impossible
    return calls[0]


def _literal_node(node: ast.expr | None) -> ast.Constant:
    if not isinstance(node, ast.Constant):
        raise Impossible
    return node


# ------------------------------------------------------------------ names, keywords and keys of the API tables


def _troubles(work: Work, finding: Finding, *kinds: str) -> list[Trouble]:
    line, name, what = _line(finding), finding.args.get("name"), finding.args.get("what")
    return [t for t in work.module.api if t.kind in kinds and t.line == line and t.name == name and t.what == what]


_NAME = re.compile(r"(?:mindspore|mindformers)(?:\.[A-Za-z_]\w*)+")


def renamed(work: Work, finding: Finding) -> list[Way]:
    """A name that is absent or announced to go is replaced by the one that the tables or the list of renames give."""
    every = _troubles(work, finding, "absent", "deprecated")
    if not every:
        return []
    trouble = every[0]
    use = trouble.use.get("en") or ("" if trouble.kind == "absent" else _use_instead(finding))
    if not _NAME.fullmatch(use):
        return []
    mine = [u for u in work.module.uses if not u.stored and not u.guarded and _begins(u.name.rstrip(":"), trouble.name)]
    if trouble.kind == "absent":
        bound = [u for u in mine if u.imported]
        mine = bound if bound and isinstance(trouble.node, (ast.alias, ast.ImportFrom)) else [
            u for u in mine if u.line == trouble.line]  # fmt: skip
    edits: dict[Edit, None] = {}
    for one in mine:
        for edit in _rename(work, one, trouble.name, use):
            edits[edit] = None
    return [Way(tuple(edits), _same_thing(work.known, trouble, use))] if edits else []


def _use_instead(finding: Finding) -> str:
    return str(finding.args.get("use_en", "")).removesuffix("()")


def _begins(name: str, start: str) -> bool:
    return name == start or name.startswith(start + ".")


def _same_thing(known: Known, trouble: Trouble, use: str) -> bool:
    """Whether the tables show that nothing changes: no version ever had the old name, or one had it with the definition
    or the parameters that the new one has."""
    if trouble.kind == "absent" and not trouble.elsewhere:
        return use in {row["en"] for row in api.renames().values()}
    if not trouble.given:
        return False
    new = known.find(use)
    if new is None:
        return False
    versions = trouble.elsewhere if trouble.kind == "absent" else (new[1].version,)
    for version in versions[-1:]:
        table = tables.load(trouble.package, version)
        old = table.find(trouble.name)
        if old.state != new[0].state:
            return False
        if old.where == new[0].where:
            return True
        if trouble.kind == "deprecated":
            return False  # it runs today, and another definition may answer otherwise
        before, now = table.parameters(old), new[1].parameters(new[0])
        return before is not None and before == now and trouble.name.rsplit(".", 1)[-1] == use.rsplit(".", 1)[-1]
    return False


def _rename(work: Work, use: Use, old: str, new: str) -> tuple[Edit, ...]:
    """The edits that make one use of ``old`` a use of ``new``. Raises Impossible."""
    node = use.node
    if isinstance(node, ast.alias):
        return (_rename_alias(work, node, old, new),)
    if use.imported:
        raise Impossible
    for _ in range(use.name.count(".") - old.count(".")):
        if not isinstance(node, ast.Attribute):
            raise Impossible
        node = node.value
    if isinstance(node, ast.Name) and use.scope.find(node.id) is not None:
        return ()  # what the import brings is renamed there
    text, more = work.named(new, use.scope, use.line)
    return (work.replace(node, text), *more)


def _rename_alias(work: Work, node: ast.alias, old: str, new: str) -> Edit:
    parent = work.module.parents.get(node)
    around = parent if isinstance(parent, ast.ImportFrom) else next(
        (n for n in work.module.every(ast.ImportFrom) if node in n.names), None)  # fmt: skip
    owner, _, tip = new.rpartition(".")
    if around is None or around.level or f"{around.module}.{node.name}" != old:
        raise Impossible
    local = node.asname or node.name
    wanted = tip if tip == local else f"{tip} as {local}"
    if around.module == owner:
        return work.replace(node, wanted, node.name)
    lead = work.alone(around)
    start, end = work.span(around)
    if "\n" in work.text[start:end] or "#" in work.text[start:end]:
        raise Impossible
    made = f"from {owner} import {wanted}"
    rest = [work.source(item) for item in around.names if item is not node]
    if rest:
        made = f"from {around.module} import {', '.join(rest)}{line_break(work.text)}{lead}{made}"
    return work.edit(start, end, made, f"import {node.name}")


SLIP = 0.88
"""Likeness from which a word is taken for a misspelling; two keywords that share a long word are below it."""


def keyword(work: Work, finding: Finding) -> list[Way]:
    """A keyword that the callable does not take gets the name that it has there."""
    ways = []
    for trouble in _troubles(work, finding, "keyword")[:1]:
        call = trouble.node
        assert isinstance(call, ast.Call)
        words = [w.rstrip("=") for w in trouble.more.split(",") if w not in ("*", "/")]
        new, sure = api.other_keyword(trouble.name, trouble.what, words)
        given = next((k for k in call.keywords if k.arg == trouble.what), None)
        slip = sure or difflib.SequenceMatcher(None, trouble.what, new).ratio() >= SLIP
        if new and slip and given is not None and all(k.arg != new for k in call.keywords):
            start, _ = work.span(given)
            edit = work.edit(start, start + len(trouble.what), new, f"{_tip(call)}({trouble.what})")
            ways.append(Way((edit,), sure and not trouble.elsewhere))
    return ways


def context_key(work: Work, finding: Finding) -> list[Way]:
    """A misspelt key of set_context; a key that is gone, by the call that took its place."""
    for trouble in _troubles(work, finding, "context", "context_gone")[:1]:
        near = trouble.use.get("en", "")
        given = trouble.node
        if trouble.kind == "context" and near.isidentifier() and isinstance(given, ast.keyword):
            start, _ = work.span(given)
            return [Way((work.edit(start, start + len(trouble.what), near, f"set_context({trouble.what})"),))]
        if trouble.kind == "context_gone":
            return _successors(work, given)
    return []


def context_old(work: Work, finding: Finding) -> list[Way]:
    """Keys of set_context become calls of the interfaces that succeed them."""
    found = _troubles(work, finding, "context_old")
    return _successors(work, found[0].node) if found else []


def _plain(name: str, value: str, _: ast.expr) -> str:
    return f"{name}({value})"


def _switch(name: str, value: str, node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or node.value not in ("ON", "OFF"):
        raise Impossible
    return f"{name}({node.value == 'ON'})"


def _only_true(name: str, value: str, node: ast.expr) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, bool):
        raise Impossible
    return f"{name}()" if node.value else ""


SUCCESSORS: Mapping[str, tuple[str, Callable[[str, str, ast.expr], str]]] = {
    "deterministic": ("mindspore.set_deterministic", _switch),
    "max_device_memory": ("mindspore.runtime.set_memory", lambda name, value, _: f"{name}(max_size={value})"),
    "pynative_synchronize": ("mindspore.runtime.launch_blocking", _only_true),
    "max_call_depth": ("mindspore.set_recursion_limit", _plain),
    "op_timeout": ("mindspore.device_context.ascend.op_debug.execute_timeout", _plain),
    "inter_op_parallel_num": ("mindspore.runtime.dispatch_threads_num", _plain),
    "runtime_num_threads": ("mindspore.device_context.cpu.op_tuning.threads_num", _plain),
}
"""Keys of set_context that one call replaces. Source: the ``deprecated`` marks of context.py, wheel 2.10.0; set_device
takes device_target and device_id together."""


def _successors(work: Work, key: ast.AST) -> list[Way]:
    """Every key of a call of set_context that has a successor, as statements behind what is left of the call."""
    call = work.module.parents.get(key)
    statement = work.module.parents.get(call) if call is not None else None
    if not isinstance(call, ast.Call) or not isinstance(statement, ast.Expr):
        return []
    lead = work.alone(statement)
    scope = next((c.scope for c in work.module.calls if c.node is call), work.module.top)
    given = {k.arg: k for k in call.keywords if k.arg}
    made: list[str] = []
    more: list[Edit] = []
    gone: list[ast.keyword] = []

    def name_of(qualified: str) -> str:
        text, edits = work.named(qualified, scope, call.lineno)
        more.extend(edits)
        return text

    if "device_target" in given:
        own = [given[k] for k in ("device_target", "device_id") if k in given]
        made.append(f"{name_of('mindspore.set_device')}({', '.join(work.source(k.value) for k in own)})")
        gone += own
    for word, (name, write) in SUCCESSORS.items():
        if word in given:
            try:
                text = write(name_of(name), work.source(given[word].value), given[word].value)
            except Impossible:
                continue
            made += [text] if text else []
            gone.append(given[word])
    if key not in gone:
        return []
    start, end = work.span(statement)
    if "#" in work.text[start:end]:
        return []
    kept = [work.source(node) for node in (*call.args, *call.keywords) if node not in gone]
    if kept:
        made.insert(0, f"{work.source(call.func)}({', '.join(kept)})")
    if not made:
        return []
    new = (line_break(work.text) + lead).join(made)
    return [Way((work.edit(start, end, new, "set_context"), *dict.fromkeys(more)))]


# ------------------------------------------------------------------ code rules


def shape_tuple(work: Work, finding: Finding) -> list[Way]:
    """nn.LayerNorm(n) → nn.LayerNorm((n,))"""
    edits = []
    for call in work.calls(_line(finding)):
        node = argument(call.node, "normalized_shape/0")
        if node is None or not work.module.is_a(call.name, "mindspore.nn.LayerNorm"):
            continue
        if isinstance(literal(work.module, node, call.scope), int):
            edits.append(work.replace(node, f"({work.source(node)},)"))
    return [Way(tuple(edits), safe=True)] if edits else []


def mask_by_name(work: Work, finding: Finding) -> list[Way]:
    """The fifth positional argument of flash_attention_score is given as attn_mask."""
    call = _one(
        [c for c in work.calls(_line(finding)) if work.module.is_a(c.name, "mindspore.ops.flash_attention_score")]
    )
    if len(call.node.args) != 5 or any(k.arg == "attn_mask" for k in call.node.keywords):
        return []
    start, end = work.span(call.node.args[4])
    return [Way((work.edit(start, end, f"attn_mask={work.text[start:end]}", "flash_attention_score(4)"),))]


def amp_result(work: Work, finding: Finding) -> list[Way]:
    """auto_mixed_precision(net, …) → net = auto_mixed_precision(net, …)"""
    call = _one([c for c in work.calls(_line(finding)) if c.name.endswith(".auto_mixed_precision")])
    statement = work.module.parents.get(call.node)
    node = argument(call.node, "network/0")
    target = node
    while isinstance(target, ast.Attribute):
        target = target.value
    if not isinstance(statement, ast.Expr) or node is None or not isinstance(target, ast.Name):
        return []
    work.alone(statement)
    start, end = work.span(statement)
    new = f"{work.source(node)} = {work.text[start:end]}"
    return [Way((work.edit(start, end, new, "auto_mixed_precision"),))]


def amp_level(work: Work, finding: Finding) -> list[Way]:
    """Another level of mixed precision."""
    value = finding.args.get("value")
    found = [
        k.value for c in work.module.calls for k in c.node.keywords
        if k.arg in ("amp_level", "level") and isinstance(k.value, ast.Constant) and k.value.value == value
        and k.value.lineno == _line(finding)
    ] + [
        a for c in work.calls(_line(finding)) if c.name.endswith((".auto_mixed_precision", ".build_train_network"))
        for a in c.node.args if isinstance(a, ast.Constant) and a.value == value
    ]  # fmt: skip
    if len(found) != 1:
        return []
    quote = work.source(found[0])[:1]
    words = {"O2": ("权重之外用 float16，归一化层保持 float32", "float16 but for normalisation"),
             "auto": ("按算子名单选择精度", "by lists of operators")}  # fmt: skip
    return [Way((work.replace(found[0], f"{quote}{level}{quote}", "amp_level"),), False, *words[level])
            for level in ("auto", "O2") if quote in "'\""]  # fmt: skip


def special_token(work: Work, finding: Finding) -> list[Way]:
    """|endoftext| → <|endoftext|>"""
    found = [n for n in work.module.every(ast.Constant) if n.value == "|endoftext|" and n.lineno == _line(finding)]
    edits = [work.replace(n, work.source(n).replace("|endoftext|", "<|endoftext|>")) for n in found]
    return [Way(tuple(edits))] if edits else []


def drop_remainder(work: Work, finding: Finding) -> list[Way]:
    """.batch(n) → .batch(n, drop_remainder=True)"""
    call = _one([c for c in work.calls(_line(finding)) if _method(c) == "batch"
                 and argument(c.node, "drop_remainder/1") is None])  # fmt: skip
    return [Way((work.keyword(call.node, "drop_remainder", "True"),))]


def _method(call: Call) -> str:
    return call.node.func.attr if isinstance(call.node.func, ast.Attribute) else ""


def set_train(work: Work, finding: Finding) -> list[Way]:
    """net.train() → net.set_train(), net.eval() → net.set_train(False)"""
    name = finding.args.get("name", "")
    call = _one(
        [c for c in work.calls(_line(finding)) if ast.unparse(c.node.func)[:80] == name and not c.node.keywords]
    )
    assert isinstance(call.node.func, ast.Attribute)
    inside = ", ".join(work.source(a) for a in call.node.args) if call.node.func.attr == "train" else "False"
    if call.node.args and call.node.func.attr == "eval":
        return []
    start, end = work.span(call.node)
    owner = work.source(call.node.func.value)
    return [Way((work.edit(start, end, f"{owner}.set_train({inside})", name),), safe=True)]


def embedding_normal(work: Work, finding: Finding) -> list[Way]:
    """nn.Embedding(…) → nn.Embedding(…, embedding_table=Normal(0.02))"""
    call = _one([c for c in work.calls(_line(finding)) if c.name == "mindspore.nn.Embedding"])
    text, more = work.named("mindspore.common.initializer.Normal", call.scope, call.node.lineno)
    return [Way((work.keyword(call.node, "embedding_table", f"{text}(0.02)"), *more))]


def gelu_flag(work: Work, finding: Finding) -> list[Way]:
    """nn.GELU("tanh") → nn.GELU(True)"""
    call = _one([c for c in work.calls(_line(finding)) if work.module.is_a(c.name, "mindspore.nn.GELU")])
    node = _literal_node(argument(call.node, "approximate/0"))
    flag = {"tanh": "True", "none": "False"}.get(str(node.value))
    return [Way((work.replace(node, flag, "GELU(approximate)"),), safe=True)] if flag else []


def flat_padding(work: Work, finding: Finding) -> list[Way]:
    """ops.pad(x, ((0, 0), (0, n))) → ops.pad(x, (0, n, 0, 0)): pairs from the last axis on."""
    names = ("mindspore.ops.pad", "mindspore.mint.nn.functional.pad")
    call = _one([c for c in work.calls(_line(finding)) if work.module.is_a(c.name, *names)])
    node = argument(call.node, "padding/pad/1")
    if not isinstance(node, (ast.Tuple, ast.List)) or "#" in work.source(node):
        return []
    flat: list[str] = []
    for pair in reversed(node.elts):
        if not isinstance(pair, (ast.Tuple, ast.List)) or len(pair.elts) != 2:
            return []
        if any(isinstance(e, ast.Starred) for e in pair.elts):
            return []
        flat += [work.source(e) for e in pair.elts]
    return [Way((work.replace(node, f"({', '.join(flat)})", "pad(padding)"),), safe=True)]


def training_flag(work: Work, finding: Finding) -> list[Way]:
    """ops.dropout(x, p) in a Cell → ops.dropout(x, p, training=self.training)"""
    names = ("mindspore.ops.dropout", "mindspore.mint.nn.functional.dropout")
    call = _one([c for c in work.calls(_line(finding)) if c.name in names])
    function = call.scope.function
    if function is None or not function.args.args or function.args.args[0].arg != "self":
        return []
    given = argument(call.node, "training/2")
    edit = (work.keyword(call.node, "training", "self.training") if given is None
            else work.replace(given, "self.training", "dropout(training)"))  # fmt: skip
    return [Way((edit,))]


def keep_prob(work: Work, finding: Finding) -> list[Way]:
    """nn.Dropout(0.9) → nn.Dropout(p=0.1), which drops as much; where less than half is kept, the other reading too."""
    calls = [c for c in work.calls(_line(finding)) if work.module.is_a(c.name, "mindspore.nn.Dropout")]
    calls = [c for c in calls if argument(c.node, "p") is None and argument(c.node, "keep_prob/0") is not None]
    if not calls:
        return []
    same, other, values = [], [], set()
    for call in calls:
        node = argument(call.node, "keep_prob/0")
        value = literal(work.module, node, call.scope)
        if node is None or isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
            return []
        parent = next((k for k in call.node.keywords if k.value is node), node)
        written = work.source(node)
        dropped = repr(float(f"{1 - value:.12g}"))
        if not isinstance(node, ast.Constant):
            dropped = f"1 - {_bracketed(node, written)}"
        same.append(work.replace(parent, f"p={dropped}", "Dropout(p)"))
        other.append(work.replace(parent, f"p={written}", "Dropout(p)"))
        values.add(value)
    keeps = Way(tuple(same), True, "与现在相同", "as it is now")
    if min(values) >= 0.5:
        return [keeps]
    return [Way(tuple(other), False, "当作丢弃概率", "taken for the probability to drop"), keeps._replace(safe=False)]


def _bracketed(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Constant, ast.Call, ast.Subscript)) else f"({text})"


def cell_list(work: Work, finding: Finding) -> list[Way]:
    """self.layers = [Block(), …] → self.layers = nn.CellList([Block(), …])"""
    line, name, owner = _line(finding), finding.args.get("name", ""), finding.args.get("class")
    found = [
        (value, scope) for info in work.module.classes if info.name == owner
        for value, scope in info.attributes.get(name.removeprefix("self."), ()) if value.lineno == line
    ]  # fmt: skip
    if len(found) != 1:
        return []
    value, scope = found[0]
    text, more = work.named("mindspore.nn.CellList", scope, line)
    if isinstance(value, ast.Tuple):
        start, end = work.span(value)
        if work.text[start] != "(" or len(value.elts) < 2:
            return []
        # CellList takes a list, not a tuple
        edits = [work.edit(start, start + 1, f"{text}([", name), work.edit(end - 1, end, "])", name)]
        return [Way((*edits, *more))]
    if not isinstance(value, (ast.List, ast.ListComp, ast.Name)):
        return []
    start, end = work.span(value)
    return [Way((work.edit(start, start, f"{text}(", name), work.edit(end, end, ")", name), *more))]


def construct_name(work: Work, finding: Finding) -> list[Way]:
    """def forward of a Cell → def construct"""
    info = next((c for c in work.module.classes if c.name == finding.args.get("class")
                 and "forward" in c.methods and c.methods["forward"].lineno == _line(finding)), None)  # fmt: skip
    if info is None or re.search(r"\.forward\b|['\"]forward['\"]", work.text):
        return []
    node = info.methods["forward"]
    start, _ = work.span(node)
    found = re.compile(r"(?:async\s+)?def\s+(forward)\b").match(work.text, start)
    return [Way((work.edit(*found.span(1), "construct", f"{info.name}.forward"),), safe=True)] if found else []


def shard_from_rank(work: Work, finding: Finding) -> list[Way]:
    """shard_id=<device id> → shard_id=get_rank()"""
    found = [(k, c) for c in work.module.calls for k in c.node.keywords
             if k.arg == "shard_id" and k.value.lineno == _line(finding)]  # fmt: skip
    if len(found) != 1:
        return []
    given, call = found[0]
    text, more = work.named("mindspore.communication.get_rank", call.scope, call.node.lineno)
    return [Way((work.replace(given.value, f"{text}()", "shard_id"), *more))]


def sharded(work: Work, finding: Finding) -> list[Way]:
    """A dataset of which each rank reads its part."""
    call = _one([c for c in work.calls(_line(finding)) if c.name.startswith("mindspore.dataset.")
                 and c.name.endswith("Dataset")])  # fmt: skip
    size, one = work.named("mindspore.communication.get_group_size", call.scope, call.node.lineno)
    rank, two = work.named("mindspore.communication.get_rank", call.scope, call.node.lineno)
    answer = work.known.find(call.name)
    words = (answer[1].parameters(answer[0]) or "") if answer is not None else ""
    if not {"num_shards=", "shard_id="} <= set(words.split(",")):
        return []
    edit = work.keyword(call.node, "num_shards", f"{size}(), shard_id={rank}()")
    return [Way((edit, *dict.fromkeys((*one, *two))))]


def without_argument(name: str, safe: bool) -> Callable[[Work, Finding], list[Way]]:
    """Makes a rewrite that leaves an argument out."""

    def drop(work: Work, finding: Finding) -> list[Way]:
        found = [(k, c) for c in work.calls(_line(finding)) for k in c.node.keywords if k.arg == name]
        if len(found) != 1:
            return []
        given, call = found[0]
        return [Way((work.drop(call.node, given),), safe)]

    return drop


def sampler_or_shuffle(work: Work, finding: Finding) -> list[Way]:
    """sampler= and what excludes it: one of them goes."""
    what = finding.args.get("what", "")
    call = _one([c for c in work.calls(_line(finding)) if {"sampler", what} <= {k.arg for k in c.node.keywords}])
    ways = []
    for name, zh, en in ((what, "保留 sampler", "the sampler stays"), ("sampler", f"保留 {what}", f"{what} stays")):
        given = next(k for k in call.node.keywords if k.arg == name)
        ways.append(Way((work.drop(call.node, given),), False, zh, en))
    return ways


def self_first(work: Work, finding: Finding) -> list[Way]:
    """def construct(x) → def construct(self, x)"""
    info = next((c for c in work.module.classes if c.name == finding.args.get("name")
                 and "construct" in c.methods and c.methods["construct"].lineno == _line(finding)), None)  # fmt: skip
    if info is None or finding.args.get("renamed"):  # the cell is there already, under another name
        return []
    node = info.methods["construct"]
    start, _ = work.span(node)
    found = re.compile(r"def\s+construct\s*\(").match(work.text, start)
    if found is None:
        return []
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    new = "self, " if any(every) else "self"
    return [Way((work.edit(found.end(), found.end(), new, f"{info.name}.construct"),), safe=True)]


def super_init(work: Work, finding: Finding) -> list[Way]:
    """super().__init__() first in __init__."""
    info = next((c for c in work.module.classes if c.name == finding.args.get("name") and "__init__" in c.methods
                 and c.methods["__init__"].lineno < _line(finding) <= (c.node.end_lineno or 0)), None)  # fmt: skip
    if info is None:
        return []
    node = info.methods["__init__"]
    body = node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1:
        body = body[1:]
    lead = work.alone(body[0])
    if not lead:
        return []
    late = [s for s in ast.walk(node) if isinstance(s, ast.Call) and isinstance(s.func, ast.Attribute)
            and s.func.attr == "__init__"]  # fmt: skip
    edits: list[Edit] = []
    text = "super().__init__()"
    if late:
        statement = work.module.parents.get(late[0])
        if len(late) > 1 or not isinstance(statement, ast.Expr) or statement not in node.body:
            return []
        work.alone(statement)
        start, end = work.span(statement)
        text = work.text[start:end]
        if not re.fullmatch(r"super\([^()]*\)\.__init__\([^()\n]*\)", text):
            return []
        edits.append(work.edit(line_start(work.text, start), line_end(work.text, end), "", "super().__init__"))
    at = line_start(work.text, work.span(body[0])[0])
    edits.append(work.edit(at, at, lead + text + line_break(work.text), "super().__init__"))
    return [Way(tuple(edits), safe=True)]


def trainable_params(work: Work, finding: Finding) -> list[Way]:
    """nn.Adam(net, …) → nn.Adam(net.trainable_params(), …)"""
    call = _one([c for c in work.calls(_line(finding)) if c.name.rsplit(".", 1)[-1] == finding.args.get("name")
                 and c.node.args and isinstance(c.node.args[0], (ast.Name, ast.Attribute))])  # fmt: skip
    node = call.node.args[0]
    return [Way((work.replace(node, f"{work.source(node)}.trainable_params()"),), safe=True)]


def common_seed(work: Work, finding: Finding) -> list[Way]:
    """mindspore.set_seed(1) behind the start of communication: the same number on every rank."""
    names = ("mindspore.communication.init", "mindspore.communication.management.init",
             "mindspore.mint.distributed.init_process_group")  # fmt: skip
    for call in work.module.calls_to(*names):
        statement = work.module.parents.get(call.node)
        if isinstance(statement, ast.Expr) and call.node.lineno < _line(finding):
            lead = work.alone(statement)
            text, more = work.named("mindspore.set_seed", call.scope, call.node.lineno)
            at, made = inserted_line(work.text, work.span(statement)[1], f"{lead}{text}(1)")
            return [Way((work.edit(at, at, made, "set_seed"), *more))]
    return []


IMPORTS: Mapping[str, str] = {
    **{name: f"import {name}" for name in ("math", "os", "sys", "json", "re", "time", "random", "copy", "argparse")},
    **{name: f"from typing import {name}" for name in ("Optional", "Union", "Any", "Callable", "Tuple", "List")},
    **{name: f"from mindspore import {name}" for name in ("nn", "ops", "mint", "Tensor", "Parameter", "dtype")},
    "np": "import numpy as np", "ms": "import mindspore as ms", "mindspore": "import mindspore",
    "partial": "from functools import partial", "dataclass": "from dataclasses import dataclass",
}  # fmt: skip
"""Names that mean one thing only."""


def missing_import(work: Work, finding: Finding) -> list[Way]:
    """A name of the standard library, numpy or MindSpore that everybody writes alike is imported."""
    text = IMPORTS.get(finding.args.get("name", ""))
    if text is None or finding.severity == "advice":
        return []
    line = max((n.end_lineno or 0 for n in work.module.tree.body), default=0) + 1
    return [Way((work.import_line(text, line),), safe=True)]


REWRITES: Mapping[str, Callable[[Work, Finding], list[Way]]] = {
    "renamed": renamed, "keyword": keyword, "context_key": context_key, "context_old": context_old,
    "shape_tuple": shape_tuple, "mask_by_name": mask_by_name, "amp_result": amp_result, "amp_level": amp_level,
    "special_token": special_token, "drop_remainder": drop_remainder, "set_train": set_train,
    "embedding_normal": embedding_normal, "gelu_flag": gelu_flag, "flat_padding": flat_padding,
    "training_flag": training_flag, "keep_prob": keep_prob, "cell_list": cell_list,
    "construct_name": construct_name, "shard_from_rank": shard_from_rank, "sharded": sharded,
    "sampler_or_shuffle": sampler_or_shuffle, "self_first": self_first, "super_init": super_init,
    "trainable_params": trainable_params, "common_seed": common_seed, "missing_import": missing_import,
    "without_saved_network": without_argument("saved_network", True), "without_dtype": without_argument("dtype", True),
}  # fmt: skip
"""What ``fix: rewrite:`` of a rule may name."""


def make(name: str, work: Work, finding: Finding) -> list[Way]:
    """The ways of a rewrite; none where it cannot be exact."""
    try:
        return REWRITES[name](work, finding)
    except (Impossible, Refused):
        return []
