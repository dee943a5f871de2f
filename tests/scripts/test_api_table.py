"""The maker of the API tables, on a small package."""

import importlib.util
import json
import lzma
import os
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FILES = {
    "pkg/__init__.py": "from pkg.core import *\nfrom . import sub\n"
    "from pkg.core import hidden as shown\n__all__ = ['run']\n"
    "__all__.extend(core.__all__)\nimport pkg.core as core\nimport numpy as np\n",
    "pkg/core.py": "from other import thing\n__all__ = ['run', 'Base', 'Child']\n"
    "def run(a, /, b=1, *rest, key, opt=None, **kw):\n    pass\ndef hidden():\n    pass\n"
    "class Base:\n    def __init__(self, size, name=''):\n        self.size = size\n"
    "    def go(self, x):\n        pass\n"
    "class Child(Base):\n    '''Old.\n\n"
    "    This interface is deprecated and will be removed after version 2.\n    '''\n"
    "    flag = 1\n    @property\n    def width(self):\n        return 1\n",
    "pkg/sub/__init__.py": "from ..core import run as go\nalias = go\n",
    "pkg/made.py": "for n in ('a', 'b'):\n    globals()[n] = 1\n",
    "pkg/broken.py": "def f(:\n",
    "pkg/old.py": "from ._mark import mark_deprecated\nmark_deprecated(__name__, 'pkg.core')\n",
}


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("api_table", os.path.join(ROOT, "scripts", "api_table.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def made(maker, tmp_path):
    wheel = tmp_path / "pkg.whl"
    with zipfile.ZipFile(wheel, "w") as out:
        for name, text in FILES.items():
            out.writestr(name, text)
        out.writestr("pkg/fast.cpython-311-x86_64-linux-gnu.so", b"\x7fELF")
    return maker.table("pkg", "1.0", maker.sources(str(wheel), "pkg"))


def test_names_are_followed_to_where_they_are_defined(made):
    from doctor.source.table import Table

    table = Table(made)
    assert table.space("pkg")["run"] == "pkg.core:run"
    assert table.space("pkg")["shown"] == "pkg.core:hidden"
    assert table.space("pkg.sub")["alias"] == "pkg.core:run"
    assert table.space("pkg.old")["hidden"] == "pkg.core:hidden"
    assert table.space("pkg")["np"] == "?"
    assert "hidden" not in table.space("pkg")
    assert table.public("pkg") == {"run", "Base", "Child"}


def test_signatures_members_and_deprecations_are_kept(made):
    from doctor.source.table import Table

    table = Table(made)
    assert table.parameters(table.find("pkg.run")) == "a,/,b=,*rest,key,opt=,**kw"
    assert table.parameters(table.find("pkg.Child")) == "size,name="
    assert table.members("pkg.core:Child")[0] == {"size": "", "go": "(x", "flag": "", "width": ""}
    assert table.deprecated(table.find("pkg.Child")).startswith("||This interface is deprecated")
    assert table.deprecated(table.find("pkg.run")) == ""
    assert table.descends("pkg.core:Child", "pkg.core:Base")


def test_what_cannot_be_followed_is_open_and_never_absent(made):
    from doctor.source.table import Table

    table = Table(made)
    assert table.find("pkg.made.zzz").state == "opaque"
    assert table.find("pkg.broken.f").state == "opaque"
    assert table.find("pkg.fast.anything").state == "opaque"
    assert table.find("pkg.core.zzz").state == "absent"


def test_packed_differences_give_the_whole_tables_back(maker, made, tmp_path, monkeypatch):
    older = json.loads(json.dumps(made))
    older["version"] = "0.9"
    del older["defs"]["pkg.core:Child"]
    older["modules"]["pkg.core"] = {"pkg.core": "run"}
    older["hidden"].pop("pkg", None)
    work = tmp_path / "work"
    work.mkdir()
    for whole in (made, older):
        (work / f"pkg-{whole['version']}.json").write_text(json.dumps(whole))
    monkeypatch.setattr(maker, "ROOT", str(tmp_path / "out"))
    maker.pack("pkg", str(work))
    from doctor.source import table

    monkeypatch.setattr(table, "folder", lambda: str(tmp_path / "out"))
    table.index.cache_clear()
    table.load.cache_clear()
    try:
        assert list(table.index("pkg")) == ["1.0", "0.9"]
        for whole in (made, older):
            data = table.load("pkg", whole["version"]).data
            for section in ("modules", "defs", "hidden"):
                assert data[section] == whole[section], (whole["version"], section)
        raw = lzma.decompress((tmp_path / "out" / "pkg-0.9.json.xz").read_bytes())
        assert len(raw) < len(json.dumps(older))
    finally:
        table.index.cache_clear()
        table.load.cache_clear()
