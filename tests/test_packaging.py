"""What is shipped is what is in the tree, once; and it runs on its own."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from doctor import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:  # hatchling brings it on 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
MODULES = {"google-re2": "re2", "pyyaml": "yaml", "textual-serve": "textual_serve"}
"""Distributions whose module has another name."""
PLACES = (
    ("doctor/", "doctor/"),
    ("checks/", "doctor/checks/"),
    ("rules/", "doctor/_data/rules/"),
    ("fixtures/healthy/", "doctor/_data/fixtures/healthy/"),
    ("fixtures/demo/", "doctor/_data/fixtures/demo/"),
    ("fixtures/hosts/", "doctor/_data/fixtures/hosts/"),
    ("fixtures/smoke/", "doctor/_data/fixtures/smoke/"),
)
"""(where in the tree, where in the wheel)"""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def tree() -> list[str]:
    """Every file that git knows or would take, without what was deleted."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no git checkout")
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = sorted(set(filter(None, done.stdout.decode().split("\0"))))
    return [name for name in names if os.path.lexists(ROOT / name)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree as a clone would have it, with the litter that working in it leaves."""
    where = tmp_path_factory.mktemp("copy")
    for name in tree():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, where / name, follow_symlinks=False)
    for folder in ("checks", "doctor", "rules"):
        (where / folder / "__pycache__").mkdir()
        (where / folder / "__pycache__" / "litter.cpython-311.pyc").write_bytes(b"litter")
    return where


def build(source: Path, out: Path, *what: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *what, "-o", str(out), str(source)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel, the sdist, and the wheel built from that."""
    both, alone = tmp_path_factory.mktemp("both"), tmp_path_factory.mktemp("alone")
    build(copy, both)
    build(copy, alone, "--wheel")
    return {
        "wheel": next(alone.glob("*.whl")),
        "wheel from the sdist": next(both.glob("*.whl")),
        "sdist": next(both.glob("*.tar.gz")),
    }


def expected() -> dict[str, str]:
    """Name in the wheel → name in the tree."""
    out = {}
    for name in tree():
        for prefix, place in PLACES:
            if name.startswith(prefix) and name != "doctor/checks":
                out[place + name.removeprefix(prefix)] = name
    return out


@pytest.mark.slow
@pytest.mark.parametrize("which", ["wheel", "wheel from the sdist"])
def test_wheel_lists_each_file_once_and_the_same_as_the_tree(which: str, built: dict[str, Path], copy: Path) -> None:
    with zipfile.ZipFile(built[which]) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
        assert len(names) == len(set(names))
        want = expected()
        assert set(names) == set(want)
        for name in names:
            assert wheel.read(name) == (copy / want[name]).read_bytes(), name


@pytest.mark.slow
def test_both_wheels_hold_the_licence_and_the_command(built: dict[str, Path]) -> None:
    for which in ("wheel", "wheel from the sdist"):
        with zipfile.ZipFile(built[which]) as wheel:
            info = f"mindspore_doctor-{__version__}.dist-info"
            assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
            assert f"{info}/licenses/THIRD_PARTY.md" in wheel.namelist()
            assert b"doctor = doctor.__main__:main" in wheel.read(f"{info}/entry_points.txt")
            assert f"Version: {__version__}\n".encode() in wheel.read(f"{info}/METADATA")


@pytest.mark.slow
def test_sdist_lists_each_file_once_and_holds_the_tree(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as tar:
        names = [member.name.split("/", 1)[1] for member in tar.getmembers() if not member.isdir()]
    assert len(names) == len(set(names))
    assert set(names) - {"PKG-INFO"} == {n for n in tree() if n != "doctor/checks" and not n.startswith(".ci/")}


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are those of this environment, so no network is needed."""
    where = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(where, with_pip=False, symlinks=True)
    python = where / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet",
         str(built["wheel from the sdist"])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    site = next((where / "lib").glob("python*")) / "site-packages"
    # behind the wheel in the search order, and only afterwards, or pip would find this environment's own doctor
    paths = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in paths))
    return where


def call(installed: Path, *args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    clean |= {"DOCTOR_CACHE": str(cwd / "cache"), "LANG": "C.UTF-8", **env}
    return subprocess.run(
        [str(installed / "bin" / args[0]), *args[1:]], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_installed_wheel_answers_version_demo_and_explain(installed: Path, tmp_path: Path) -> None:
    version = call(installed, "doctor", "--version", cwd=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"doctor {__version__}\n")
    demo = call(installed, "doctor", "demo", "--lang", "en", cwd=tmp_path)
    assert demo.returncode == 1, demo.stderr
    assert "demo/msrun_log/worker_2.log" in demo.stdout
    explain = call(installed, "doctor", "explain", "EI0006", "--lang", "en", cwd=tmp_path)
    assert explain.returncode == 0, explain.stderr
    assert explain.stdout.startswith("EI0006")


LOADED = """
import importlib, json, pkgutil, sys
import doctor, doctor.checks
for info in pkgutil.walk_packages(doctor.__path__, "doctor."):
    if info.name not in ("doctor.__main__", *(f"doctor.smoke.{name}" for name in ("layer", "course", "twin", "hf"))):
        importlib.import_module(info.name)
print(json.dumps({name: getattr(module, "__file__", None) for name, module in sys.modules.items()
                  if name.split(".")[0] in ("doctor", "checks", "rules")}))
"""


@pytest.mark.slow
def test_checks_are_imported_once_also_beside_folders_of_the_same_names(installed: Path, tmp_path: Path) -> None:
    import json

    wrong = "raise ImportError('the wrong copy')\n"
    for name in ("checks", "rules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(wrong)
    # a folder of notes: a package of this name would hide any other, whoever wrote it
    (tmp_path / "doctor" / "checks").mkdir(parents=True)
    (tmp_path / "doctor" / "cli.py").write_text(wrong)
    (tmp_path / "doctor" / "checks" / "other.py").write_text(wrong)
    done = call(installed, "python", "-c", LOADED, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    package = str(next((installed / "lib").glob("python*")) / "site-packages" / "doctor") + os.sep
    assert "doctor.checks" in loaded
    assert not [name for name in loaded if name.split(".")[0] in ("checks", "rules")]
    assert all(os.path.realpath(file).startswith(os.path.realpath(package)) for file in loaded.values())
    demo = call(installed, "doctor", "demo", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert demo.returncode == 1, demo.stderr


def test_checks_of_the_checkout_are_reached_by_a_relative_link() -> None:
    link = ROOT / "doctor" / "checks"
    assert link.is_symlink()
    assert os.readlink(link) == os.path.join("..", "checks")
    from doctor import checks

    assert os.path.realpath(str(checks.__file__)) == str(ROOT / "checks" / "__init__.py")


def test_dependencies_are_those_that_the_package_imports() -> None:
    """No one is asked to install what is not used, and nothing is used that is not asked for."""
    used = set()
    for folder in ("doctor", "checks"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    used |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    used.add(node.module.split(".")[0])
    # doctor_smoke: the folder doctor/smoke as the interpreter under test sees it
    used -= set(sys.stdlib_module_names) | {"doctor", "doctor_smoke"}

    def modules(requirements: list[str]) -> set[str]:
        names = (re.split(r"[^\w.-]", requirement)[0] for requirement in requirements)
        return {MODULES.get(name, name) for name in names}

    core, extras = modules(project()["dependencies"]), project()["optional-dependencies"]
    optional = {m for name, wanted in extras.items() if name != "test" for m in modules(wanted)}
    assert core | optional == used


def test_version_stands_in_the_changelog() -> None:
    assert re.search(rf"^## \[{re.escape(__version__)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)


def test_ci_script_can_be_run() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=True)
