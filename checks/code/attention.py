"""Attention in source: masks, padding, projections, positions."""

from __future__ import annotations

import ast

from doctor.checks.code.common import at, graph_functions, made, text
from doctor.model import Answer
from doctor.source.match import argument
from doctor.source.tree import Call, ClassInfo, Module, Scope

FLASH = ("mindspore.ops.flash_attention_score", "mindspore.ops.speed_fusion_attention")


def _masks(module: Module) -> list[tuple[Call, ast.expr, ast.AST, Scope]]:
    """(call, mask as given, mask as made, scope) of every flash attention that is given a mask."""
    out = []
    for call in module.calls_to(*FLASH):
        given = argument(call.node, "attn_mask")
        if given is not None:
            value, scope = module.value(given, call.scope)
            out.append((call, given, value if value is not None else given, scope))
    for call in module.calls:  # an object made of a FlashAttention class, called with (q, k, v, mask)
        made_by = module.made_by(call.node.func, call.scope) or ""
        if made_by.rsplit(".", 1)[-1] == "FlashAttention":
            given = argument(call.node, "attn_mask/attention_mask/3")
            if given is not None:
                value, scope = module.value(given, call.scope)
                out.append((call, given, value if value is not None else given, scope))
    return out


def mask_polarity(module: Module) -> list[Answer]:
    """tril(ones) as the mask of flash attention: 1 means hide, so the past is hidden and the future shown.

    Source: documentation of flash_attention_score: 1 (True) discards.
    """
    out = []
    for call, given, value, scope in _masks(module):
        if _is_tril(module, value, scope):
            out.append(at(module, call.node, {"name": text(given)}, value))
    keeps = "scaled_dot_product_attention" in module.text  # there 1 means keep
    if not out and not keeps and "flash" in module.text.lower() and not _inverts(module):
        for node in module.every(ast.Assign):
            name = text(node.targets[0])
            if "mask" in name.lower() and _is_tril(module, node.value, _scope_of(module, node)):
                sure = any(word in name.lower() for word in ("causal", "att"))
                how = {"severity": "warning" if sure else "advice", "confidence": "guess"}
                out.append(at(module, node, {"name": name}, **how))
                break
    return out


def _inverts(module: Module) -> bool:
    """Whether a file turns masks round, fills by them or adds them."""
    words = {n.attr for n in module.every(ast.Attribute)} | {n.id for n in module.every(ast.Name)}
    if words & {"logical_not", "triu", "masked_fill", "Triu", "where", "select", "bitwise_not"}:
        return True
    return any(isinstance(n.op, ast.Sub) and "mask" in text(n).lower() for n in module.every(ast.BinOp)) or any(
        isinstance(n.op, (ast.Invert, ast.Not)) and "mask" in text(n).lower() for n in module.every(ast.UnaryOp)
    )


def _scope_of(module: Module, node: ast.AST) -> Scope:
    return next((module.scopes[a] for a in module.ancestors(node) if a in module.scopes), module.top)


def _is_tril(module: Module, node: ast.AST | None, scope: Scope, depth: int = 0) -> bool:
    """Whether a value is tril(…), cast or wrapped, and not inverted."""
    node, scope = module.value(node, scope)
    if not isinstance(node, ast.Call) or depth > 6:
        return False
    name = module.call_name(node, scope) or ""
    if name:
        tip = name.rsplit(".", 1)[-1]
        if tip == "tril" and name.startswith(("mindspore.", "numpy.")):
            return (bool(node.args) and "ones" in text(node.args[0])) or _is_ones(module, node, scope)
        if tip in ("Tensor", "cast", "expand_dims", "broadcast_to", "unsqueeze", "reshape") and node.args:
            return _is_tril(module, node.args[0], scope, depth + 1)
        return False
    if isinstance(node.func, ast.Attribute):
        if node.func.attr == "tril" and "ones" in text(node.func.value):
            return True
        if node.func.attr in ("astype", "to", "bool", "view", "reshape", "expand_dims", "unsqueeze", "broadcast_to"):
            return _is_tril(module, node.func.value, scope, depth + 1)
    made_by = module.made_by(node.func, scope) or ""
    return made_by.rsplit(".", 1)[-1] == "Tril" and bool(node.args) and "ones" in text(node.args[0])


def _is_ones(module: Module, node: ast.Call, scope: Scope) -> bool:
    value, _ = module.value(node.args[0], scope) if node.args else (None, scope)
    return isinstance(value, ast.Call) and "ones" in text(value.func)


def mask_dtype(module: Module) -> list[Answer]:
    """The mask of flash attention cast to a float: it wants bool or uint8.

    Source: documentation of flash_attention_score 2.5 to 2.10: TypeError otherwise.
    """
    out = []
    for call, given, value, scope in _masks(module):
        node: ast.AST = value
        if not isinstance(node, ast.Call):
            continue
        wanted: ast.expr | None = None
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("astype", "to") and node.args:
            wanted = node.args[0]
        elif (module.call_name(node, scope) or "").endswith((".cast", ".Cast")) and len(node.args) > 1:
            wanted = node.args[1]
        elif (module.call_name(node, scope) or "").endswith((".ones", ".zeros", ".Tensor")):
            wanted = argument(node, "dtype/1")
        dtype = module.qualified(wanted, scope) or ""
        if dtype.rsplit(".", 1)[-1] in ("float16", "float32", "bfloat16", "float64"):
            out.append(at(module, call.node, {"name": text(given), "what": dtype.rsplit(".", 1)[-1]}, node))
    return out


def no_projection(module: Module) -> list[Answer]:
    """The result of flash attention is added to the residual as it is, without an output projection."""
    out = []
    objects = [c for c in module.calls if (module.made_by(c.node.func, c.scope) or "").endswith(".FlashAttention")]
    for call in (*module.calls_to(*FLASH), *objects):
        info = call.scope.owner
        parent = module.parents.get(call.node)
        if info is None or not isinstance(parent, ast.Assign):
            continue
        target = parent.targets[0]
        names = [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]
        if not names or call.scope.function is None:
            continue
        for node in ast.walk(call.scope.function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                sides = [s.id for s in (node.left, node.right) if isinstance(s, ast.Name)]
                if len(sides) == 2 and names[0] in sides and _bindings(call.scope, names[0]) == 1:
                    out.append(at(module, node, {"name": names[0], "class": info.name}, call.node))
                    break
    return out


def _bindings(scope: Scope, name: str) -> int:
    found = scope.find(name)
    return len(found[1]) if found else 0


def padded_keys(module: Module) -> list[Answer]:
    """Keys are padded, multiplied and put through softmax without a mask: the padding takes part.

    Source: run: keys padded from 5 to 128 without a mask give the padding 81 % of the softmax.
    """
    out = []
    for function, scope in graph_functions(module):
        source = ast.dump(function).lower()
        if "softmax" not in source or "mask" in source:
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and node.args and (module.call_name(node, scope) or "").endswith(".pad"):
                name = text(node.args[0])
                if name.lower() in ("k", "keys") or "key" in name.lower() or name.lower().startswith("k_"):
                    out.append(at(module, node, {"name": name}))
                    break
    return out


def two_positions(module: Module) -> list[Answer]:
    """A learned position table and rotary embedding in one class, or in the classes of one file."""
    learned: list[tuple[ClassInfo, ast.AST]] = []
    rotary: list[tuple[ClassInfo, ast.AST]] = []
    for info in module.classes:
        if module.is_cell(info):
            table = _attribute(
                module, info, ("wpe", "position_embedding", "position_embeddings", "pos_embedding"), True
            )
            turned = _attribute(
                module, info, ("rotary", "rope", "rotary_emb", "rotary_embedding", "rotary_embed"), False
            )
            learned += [(info, table)] if table is not None else []
            rotary += [(info, turned)] if turned is not None else []
    if not learned or not rotary:
        return []
    same = [(i, t, r) for i, t in learned for j, r in rotary if i is j]
    if same:
        return [at(module, r, {"name": i.name}, t) for i, t, r in same]
    used = {text(c.node.func) for c in module.calls}
    if len(module.classes) <= 6 and rotary[0][0].name in used:
        return [at(module, rotary[0][1], {"name": learned[0][0].name}, learned[0][1], severity="advice")]
    return []


def _attribute(module: Module, info: ClassInfo, names: tuple[str, ...], embedding: bool) -> ast.AST | None:
    for name, given in info.attributes.items():
        if name.lower() in names:
            for value, scope in given:
                if not isinstance(value, ast.Call) or any(isinstance(a, ast.If) for a in module.ancestors(value)):
                    continue  # one of several, chosen by a setting
                made_by = text(value.func).rsplit(".", maxsplit=1)[-1]
                if (not embedding and made_by[:1].isupper()) or made(
                    module, value, scope, frozenset({"Embedding", "Parameter"})
                ):
                    return value
    return None


def mixed_gelu(module: Module) -> list[Answer]:
    """Both forms of GELU in one file without a word: nn.GELU() is the tanh form, ops.gelu the erf form.

    Source: run on 2.7.0 and 2.10.0: the two differ by 4.7e-4, 2e-3 after 12 random blocks.
    """
    tanh = [
        c
        for c in module.calls
        if c.name in ("mindspore.nn.GELU", "mindspore.ops.GeLU") and not c.node.args and not c.node.keywords
    ]
    erf = [c for c in module.calls if c.name == "mindspore.ops.gelu" and len(c.node.args) < 2 and not c.node.keywords]
    return [at(module, tanh[0].node, {"name": text(tanh[0].node)}, erf[0].node)] if tanh and erf else []


def embedding_init(module: Module) -> list[Answer]:
    """nn.Embedding with its default initial values in a GPT that starts from scratch."""
    out = []
    for call in module.calls:
        owner = call.scope.owner
        if call.name == "mindspore.nn.Embedding" and owner is not None and "gpt" in owner.name.lower():
            keys = {k.arg for k in call.node.keywords}
            if not keys & {"embedding_table", None} and len(call.node.args) < 4:
                loads = "load_checkpoint" in module.text or "from_pretrained" in module.text
                if not loads and "Normal" not in module.text:
                    out.append(at(module, call.node, {"name": owner.name}))
    return out[:1]
