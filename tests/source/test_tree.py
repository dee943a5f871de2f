"""Names of Python sources: what they were imported as, whatever way."""

import ast
import random

import pytest

from doctor.source import tree


def read(text):
    module = tree.read("a.py", text.encode())
    assert isinstance(module, tree.Module), module
    return module


def names(text):
    return {use.name for use in read(text).uses if not use.imported}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import mindspore as ms\nms.nn.Dense(1, 2)", "mindspore.nn.Dense"),
        ("import mindspore\nmindspore.nn.Dense", "mindspore.nn.Dense"),
        ("import mindspore.nn.layer as L\nL.basic.Dense", "mindspore.nn.layer.basic.Dense"),
        ("from mindspore import nn as n\nn.Dense", "mindspore.nn.Dense"),
        ("from mindspore.nn import Dense as D\nD(1)", "mindspore.nn.Dense"),
        ("from mindspore import ops\nF = ops\nG = F\nG.matmul", "mindspore.ops.matmul"),
        ("from mindspore import ops\ngelu = ops.gelu\ndef f(x):\n    return gelu(x)", "mindspore.ops.gelu"),
        (
            "def f():\n    from mindspore import ops\n    def g():\n        return ops.abs\n    return g",
            "mindspore.ops.abs",
        ),
        (
            "import mindspore as ms\nclass A:\n    x = ms.float16\n    def f(self):\n        return ms.int8",
            "mindspore.int8",
        ),
        ("import mindspore as ms\n[ms.Tensor(i) for i in range(3)]", "mindspore.Tensor"),
        ("import mindspore as ms\nlambda x=ms.Tensor: x", "mindspore.Tensor"),
        ("import mindspore as ms\n@ms.jit\ndef f(): pass", "mindspore.jit"),
        (
            "try:\n    from mindspore import jit\nexcept ImportError:\n    from mindspore import jit\njit",
            "mindspore.jit",
        ),
    ],
)
def test_a_name_is_what_it_was_imported_as(text, wanted):
    assert wanted in names(text)


@pytest.mark.parametrize(
    "text",
    [
        "from mindspore import ops\ndef f(ops):\n    return ops.abs",
        "from mindspore import ops\nops = make()\nops.abs",
        "from mindspore import ops\n[ops.abs for ops in x]",
        "try:\n    from mindspore import ops\nexcept ImportError:\n    from other import ops\nops.abs",
        "class A:\n    from mindspore import ops\n    def f(self):\n        return ops.abs",
        "from mindspore import ops\nfor ops in x:\n    ops.abs",
        "import os\nos.path",
    ],
)
def test_a_name_that_may_be_something_else_is_none(text):
    assert not {n for n in names(text) if n.startswith("mindspore.ops.")}


@pytest.mark.parametrize(
    "text",
    [
        "import mindspore as ms\nif hasattr(ms, 'x'):\n    ms.x",
        "import mindspore as ms\nif ms.__version__ > '2.3':\n    ms.x\nelse:\n    ms.y",
        "import mindspore as ms\ntry:\n    ms.x\nexcept AttributeError:\n    pass",
        "import mindspore as ms\ndef f():\n    if version < 2:\n        return 1\n    return ms.x",
        "try:\n    from mindspore import x\nexcept ImportError:\n    x = None\nelse:\n    x()",
    ],
)
def test_a_use_that_is_looked_for_first_is_guarded(text):
    module = read(text)
    assert all(u.guarded for u in module.uses if u.name in ("mindspore.x", "mindspore.y"))


def test_a_value_is_followed_through_names_that_are_bound_once():
    module = read("from mindspore import nn\na = nn.Dense(1, 2)\nb = a\nc = 1\nc = 2\n")
    value, _ = module.value(ast.parse("b").body[0].value, module.top)
    assert isinstance(value, ast.Call)
    assert module.made_by(ast.parse("b").body[0].value, module.top) == "mindspore.nn.Dense"
    node = ast.parse("c").body[0].value
    assert module.value(node, module.top)[0] is node


def test_self_attributes_are_known_in_every_method():
    module = read(
        "from mindspore import nn\nclass A(nn.Cell):\n    def __init__(self):\n        self.d = nn.Dense(1, 2)\n"
        "    def construct(self, x):\n        return self.d(x)\n"
    )
    call = next(c for c in module.calls if ast.unparse(c.node) == "self.d(x)")
    assert module.made_by(call.node.func, call.scope) == "mindspore.nn.Dense"
    assert module.is_cell(module.classes[0])


@pytest.mark.parametrize(
    ("text", "why", "line"),
    [
        (b"x = 1\nprint 'a'\n", "python2", 2),
        (b"try:\n    x = 1\nexcept ValueError, e:\n    pass\n", "python2", 3),
        (b"def f(:\n", "syntax", 1),
        (b"a = '\n", "syntax", 1),
        (b"\0\1\2", "binary", 0),
        (b"(" * 100_000, "not_understood syntax", None),
    ],
)
def test_what_is_no_python_3_has_one_reason(text, why, line):
    problem = tree.read("a.py", text)
    assert isinstance(problem, tree.Problem)
    assert problem.why in why.split()
    assert line is None or problem.line == line


def test_byte_order_marks_line_ends_and_gbk_are_read():
    for data in (b"\xef\xbb\xbfimport mindspore\r\n", "import mindspore  # 中文\n".encode("gb18030"), b"", b"\n\n"):
        assert isinstance(tree.read("a.py", data), tree.Module)


def test_a_piece_of_a_function_is_read_where_it_stands():
    module = tree.read("a.py", b"    import mindspore as ms\n    y = ms.Tensor(1)\n")
    assert isinstance(module, tree.Module)
    assert [(c.name, c.node.lineno) for c in module.calls] == [("mindspore.Tensor", 2)]


def test_junk_never_raises():
    rng = random.Random(7)
    good = (
        b"import mindspore as ms\nclass A(ms.nn.Cell):\n    def construct(self, x):\n        return ms.ops.abs(x)[0]\n"
    )
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert isinstance(tree.read("a.py", bytes(data)), (tree.Module, tree.Problem))
