"""The script that asks the training Python: every old interpreter, junk of every kind, in a fraction of a second."""

import json
import os
import subprocess
import sys
import time

import pytest

from doctor.hosts import ask_python

SCRIPT = os.path.abspath(ask_python.__file__)
CHECKER = '''
class GPUEnvChecker(EnvChecker):
    def __init__(self, library_path):
        self.version = ["10.1", "11.1"]


class AscendEnvChecker(EnvChecker):
    """ascend environment check"""

    def __init__(self, library_path):
        self.library_path = library_path
        self.version = ["8.2", "8.3"]
        if not os.path.exists("opp_kernel"):
            raise Exception("Ascend opp_kernel is not installed")
        self.path = os.getenv("ASCEND_OPP_PATH")


def check_version_and_env_config():
    version = ["1.0"]
'''


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def elf(machine):
    return b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0" + machine.to_bytes(2, "little") + b"\0" * 40


@pytest.fixture
def site(tmp_path):
    """A folder of installed packages: MindSpore, mindformers, numpy and damage."""
    package = tmp_path / "mindspore"
    write(package / "__init__.py", "raise SystemExit('must not be imported')")
    write(package / "version.py", "__version__ = '2.7.0'\n")
    write(package / ".commit_id", "__commit_id__ = '[sha1]:1a2b3c4d,[branch]:(HEAD,origin/r2.7)'")
    write(package / "run_check/_check_version.py", CHECKER)
    write(package / "_c_expression.cpython-311-aarch64-linux-gnu.so", elf(183))
    write(package / "lib/plugin/libmindspore_ascend.so.2", elf(183))
    write(
        package / "lib/plugin/ascend/custom_ascendc_910b/version.info", "custom_opp_compiler_version=8.2.T11.0.B070\n"
    )
    write(
        tmp_path / "mindspore-2.7.0.dist-info/METADATA",
        "Name: mindspore\nVersion: 2.7.0\nRequires-Python: >=3.9\nRequires-Dist: numpy<2.0.0,>=1.20.0\n"
        "Requires-Dist: pillow\n\nVersion: 9.9\n",
    )
    write(tmp_path / "mindspore-2.7.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: cp311-none-any\n")
    write(tmp_path / "mindformers/__init__.py", "")
    write(tmp_path / "mindformers/VERSION_MAP.json", '{"mf": {"1.6.0": {"prefer": "2.7.0", "support": ["2.7.0"]}}}')
    write(tmp_path / "mindformers-1.6.0.dist-info/METADATA", "Name: mindformers\nVersion: 1.6.0\n")
    write(tmp_path / "numpy-2.1.0.dist-info/METADATA", b"\xff\xfe\0Name: numpy")
    write(tmp_path / "te-0.4.0.egg-info", "Name: te\nVersion: 0.4.0\n")
    write(tmp_path / "te/__init__.py", "")
    write(tmp_path / "te/version.py", 'version = "7.6.0.1.220"\n')
    write(tmp_path / "json.py", "raise SystemExit('must not be imported')")
    (tmp_path / "~indspore").mkdir()
    return tmp_path


def ask(site=None, python=sys.executable, **env):
    done = subprocess.run(
        [python, SCRIPT],
        check=False,
        capture_output=True,
        timeout=20,
        env={"PATH": "/usr/bin:/bin", **({"PYTHONPATH": str(site)} if site else {}), **env},
    )
    assert done.returncode == 0 and done.stderr == b""
    return json.loads(done.stdout)


def test_packages_are_read_without_importing_them(site):
    seen = ask(site)
    assert seen["errors"] == []
    assert seen["packages"]["mindspore"] == {
        "version": "2.7.0",
        "where": str(site),
        "tags": ["cp311-none-any"],
        "requires": ["numpy<2.0.0,>=1.20.0"],
        "requires_python": ">=3.9",
    }
    assert seen["packages"]["numpy"]["version"] == "2.1.0"  # of the folder's name, the file is junk
    assert seen["packages"]["te"]["version"] == "0.4.0"
    assert seen["leftovers"] == [str(site / "~indspore")]
    assert seen["imports"]["te"] == str(site / "te") and seen["te"]["version"] == "7.6.0.1.220"
    assert seen["imports"]["numpy"] is None or "numpy" in seen["imports"]["numpy"]


def test_mindspores_own_list_is_that_of_ascend(site):
    seen = ask(site)["mindspore"]
    assert seen["accepted"]["versions"] == ["8.2", "8.3"]
    line = (site / "mindspore/run_check/_check_version.py").read_text().splitlines()[seen["accepted"]["line"] - 1]
    assert 'self.version = ["8.2", "8.3"]' in line
    assert seen["needs_opp_kernel"] is True and seen["version_from"] == "ASCEND_OPP_PATH"
    assert seen["elf"] == {"file": "_c_expression.cpython-311-aarch64-linux-gnu.so", "machine": "aarch64"}
    assert seen["ascend"] == ["libmindspore_ascend.so.2"]
    assert seen["built_with"] == {"custom_ascendc_910b": "8.2.T11.0.B070"}
    assert seen["commit"] == ["1a2b3c4d", "(HEAD,origin/r2.7)"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "class AscendEnvChecker:",
        "class AscendEnvChecker:\n  def f(self):\n    self.version = [",
        "class AscendEnvChecker:\n  def f(self):\n    self.version = read()\n",
        "class AscendEnvChecker:\n" + "  self.version = [" * 5000,
        "\0" * 1000,
        "class AscendEnvChecker:\n  x = " + "(" * 5000,
    ],
)
def test_a_list_that_cannot_be_read_is_none(text):
    assert ask_python.accepted_list(text) is None


def test_a_list_that_no_parser_reads_is_still_found():
    text = 'class AscendEnvChecker:\n    def __init__(self):\n        self.version = ["8.5"]\n        print "old"\n'
    assert ask_python.accepted_list(text) == (["8.5"], 3)


def test_nothing_installed_is_an_answer(tmp_path):
    seen = ask(tmp_path, PYTHONNOUSERSITE="1")
    assert seen["errors"] == []
    assert seen.get("mindspore") is None or "mindspore" in seen["packages"]


def test_folders_of_junk_do_not_stop_it(site, tmp_path):
    bad = tmp_path / "bad"
    for name in ("mindspore", "mindspore-.dist-info", "-.dist-info", "numpy.dist-info", "torch-1.dist-info"):
        (bad / name).mkdir(parents=True)
    os.mkfifo(bad / "torch-1.dist-info/METADATA")
    os.symlink("loop", bad / "loop")
    write(bad / "mindformers/__init__.py", "")
    write(bad / "mindformers/VERSION_MAP.json", "[" * 100_000)
    seen = ask(f"{bad}:/nowhere:{bad}/loop:{site}", LD_LIBRARY_PATH=f"{bad}:/nowhere")
    assert seen["errors"] == []
    assert seen["packages"]["torch"]["version"] == "1"
    assert seen["mindspore"]["version"] == "2.7.0", "a folder without __init__.py does not hide the package"


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9", "3.12", "3.13"])
def test_old_and_new_interpreters(version, site):
    home = os.path.expanduser("~/.pyenv/versions")
    found = [n for n in (os.listdir(home) if os.path.isdir(home) else []) if n.startswith(version + ".")]
    if not found:
        pytest.skip(f"no Python {version} here")
    seen = ask(site, os.path.join(home, found[0], "bin", "python"))
    assert seen["version"].startswith(version) and seen["errors"] == []
    assert seen["mindspore"]["accepted"]["versions"] == ["8.2", "8.3"]
    assert seen["tag"] == "cp" + version.replace(".", "")


def test_it_is_quick(site):
    best = 9.0
    for _ in range(5):
        began = time.perf_counter()
        ask(site)
        best = min(best, time.perf_counter() - began)
    assert best < 0.15


def test_the_libstdcxx_of_ld_library_path_comes_first(tmp_path):
    write(tmp_path / "libstdc++.so.6", elf_of_this_machine() + b"\0GLIBCXX_3.4.9\0GLIBCXX_3.4.22\0GLIBCXX_3.4\0")
    seen = ask(LD_LIBRARY_PATH=str(tmp_path))["libstdcxx"]
    assert seen == {"path": str(tmp_path / "libstdc++.so.6"), "glibcxx": "3.4.22", "how": "LD_LIBRARY_PATH"}


def elf_of_this_machine():
    with open(os.path.realpath(sys.executable), "rb") as file:
        return file.read(64)
