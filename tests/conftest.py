"""What all tests share: a private cache, no language of the machine, small rule folders, the command line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ("DOCTOR_LANG", "LC_ALL", "LC_MESSAGES", "LANG", "LANGUAGE", "DOCTOR_ASCII", "NO_COLOR", "PYTHONIOENCODING")

try:
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "doctor",
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )
    settings.load_profile("doctor")
except ImportError:
    pass


def pytest_configure(config):
    """One warm cache for the whole run and no language of the machine, before any module is imported."""
    import tempfile

    config.doctor_cache = tempfile.TemporaryDirectory(prefix="doctor-tests-")
    for name in LOCALE:
        os.environ.pop(name, None)
    os.environ["LANG"] = "C.UTF-8"
    os.environ["DOCTOR_CACHE"] = os.path.join(config.doctor_cache.name, "cache")
    os.environ["DOCTOR_STATE"] = "off"
    os.environ["DOCTOR_OWN_RULES"] = os.path.join(config.doctor_cache.name, "no-rules")


def pytest_unconfigure(config):
    config.doctor_cache.cleanup()


@pytest.fixture(scope="session")
def base():
    """The shipped rules."""
    from doctor.rulebase import load

    return load()


@pytest.fixture(scope="session")
def matchers(base):
    """The shipped rules with each engine that can be had here: {"hyperscan": …, "re2": …, "python": …}."""
    from doctor.scan.scanner import Matcher

    found = {}
    for name in ("hyperscan", "re2", "python"):
        try:
            found[name] = Matcher(base, name)
        except ImportError:
            continue
    return found


@pytest.fixture(scope="session")
def matcher(matchers):
    """The shipped rules with the fastest engine."""
    return next(iter(matchers.values()))


def rule(rule_id, log, **fields):
    """A whole rule with everything a rule must have; ``log`` is its ``match: log:`` or a literal."""
    spec = {"any": [{"literal": log}]} if isinstance(log, str) else log
    first = next(iter(spec.get("any") or spec["all"]))
    text = {"zh": f"{rule_id} 的说明", "en": f"text of {rule_id}"}
    whole = {
        "id": rule_id,
        "name": rule_id.lower(),
        "topic": "own.a",
        "title": text,
        "severity": "error",
        "confidence": "likely",
        "status": "stable",
        "since": "0.1.0",
        "match": {"log": spec},
        "cause": text,
        "next": text,
        "provenance": [{"kind": "measured", "ref": "made up for this test"}],
        "tests": {"hit": [{"log": first.get("literal", "x")}], "miss": [{"log": "a"}, {"log": "b"}]},
    }
    return {**whole, **fields}


class Rules(NamedTuple):
    """A folder of rules of one's own."""

    folder: Path

    def put(self, *rules):
        """Write rules; returns the folder."""
        for one in rules:
            path = self.folder / "own" / f"{one['id']}.yaml"
            path.write_text(yaml.safe_dump(one, allow_unicode=True, sort_keys=False), encoding="utf-8")
        return self.folder

    def raw(self, name, text):
        """Write a file as it is; returns its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def base(self, *rules):
        """The rules base of the folder."""
        from doctor.rulebase import load

        return load(str(self.put(*rules)))

    def matcher(self, *rules, engine="python"):
        """A matcher of the folder."""
        from doctor.scan.scanner import Matcher

        return Matcher(self.base(*rules), engine)


@pytest.fixture(scope="session")
def rules_in():
    """Make an empty rules folder with topics own.a … own.d, other.a and the shipped error codes: rules_in(path)."""

    def make(path):
        folder = path / "rules"
        (folder / "own").mkdir(parents=True)
        names = [f"{group}.{n}" for group, all_ in (("own", "abcd"), ("other", "ab"), ("numerics", "a")) for n in all_]
        topics = {name: {"zh": "题", "en": "topic"} for name in names}
        (folder / "topics.yaml").write_text(yaml.safe_dump({"topics": topics}, allow_unicode=True), encoding="utf-8")
        (folder / "codes").symlink_to(ROOT / "rules" / "codes")
        return Rules(folder)

    return make


@pytest.fixture
def rules(tmp_path, rules_in):
    """An empty rules folder of this test."""
    return rules_in(tmp_path)


@pytest.fixture(scope="session")
def make_rule():
    """The builder of a whole rule."""
    return rule


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run a command line in this process: cli("diagnose", path, …)."""
    from doctor.cli import run

    def call(*argv):
        capsys.readouterr()
        code = run([str(a) for a in argv])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Ran(code, out, err)

    return call


@pytest.fixture
def process():
    """Run the doctor in a process of its own: process("diagnose", path, stdin=b"…", env={…})."""

    def call(*argv, stdin=b"", env=None, cwd=None, timeout=60, **options):
        done = subprocess.run(
            [sys.executable, "-m", "doctor", *map(str, argv)],
            input=stdin,
            capture_output=True,
            cwd=cwd or ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
            timeout=timeout,
            check=False,
            **options,
        )
        err = done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in err
        return Ran(done.returncode, done.stdout.decode("utf-8", "replace"), err)

    return call
