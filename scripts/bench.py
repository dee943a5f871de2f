"""Measure the scanner against wc, bare Hyperscan and ripgrep on generated logs, and print the ratios.

usage: python scripts/bench.py GENLOGS.py [--work DIR] [--mb 1024] [--big-mb 4096] [--only NAME,…]

GENLOGS.py is the log generator with known truth; its arguments fix every byte. All figures are CPU seconds
(user + system) of child processes unless "wall" is said; each is the best of several runs, warm, in one session.
ripgrep comes from the PyPI package ``ripgrep`` or the PATH. Ratios count, not the absolute numbers.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, ROOT)

CHILD = """
import sys
sys.path.insert(0, {root!r})
from doctor.rulebase import load
from doctor.scan.matcher import Anchors, HyperscanEngine
engine = HyperscanEngine(Anchors(load({folder!r})))
hs, db = engine.hs, engine.whole()
count = 0
def on_match(*args):
    pass
stream = db.stream(match_event_handler=on_match)
inner = stream.__enter__()
with open(sys.argv[1], "rb", buffering=0) as file:
    while True:
        chunk = file.read(262144)
        if not chunk:
            break
        inner.scan(chunk)
stream.__exit__(None, None, None)
"""

LOOP = """
import re, sys, time
sys.path.insert(0, {root!r})
from doctor.rulebase import load
patterns = []
for rule in load():
    if rule.log:
        for c in (*rule.log.any, *rule.log.every):
            patterns.append(re.compile(c.regex or re.escape(c.literal), re.MULTILINE))
data = open(sys.argv[1], "rb").read(int(sys.argv[2])).decode("utf-8", "replace")
began = time.process_time()
hits = sum(1 for p in patterns for _ in p.finditer(data))
print(time.process_time() - began, len(patterns))
"""

SCAN = """
import sys
sys.path.insert(0, {root!r})
from doctor.rulebase import load
from doctor.scan.matcher import Anchors, {engine}
from doctor.scan.scanner import Matcher, scan_stream
base = load({folder!r})
matcher = Matcher(base, {engine}(Anchors(base)))
with open(sys.argv[1], "rb", buffering=0) as file:
    scan_stream(matcher, "x", file)
"""


def cpu(command: list[str], runs: int = 3, **more: object) -> float:
    """Best CPU seconds of a command over some runs."""
    best = float("inf")
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **more)  # type: ignore[call-overload]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def wall(command: list[str], runs: int = 2) -> float:
    """Best wall seconds of a command over some runs."""
    best = float("inf")
    for _ in range(runs):
        began = time.perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        best = min(best, time.perf_counter() - began)
    return best


def doctor(*args: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {ROOT!r}); from doctor.__main__ import main; "
            "sys.exit(main())", *args]  # fmt: skip


def say(name: str, value: float, unit: str = "x", goal: str = "") -> None:
    print(f"{name:58} {value:10.3f} {unit:6} {goal}", flush=True)


class Bench:
    def __init__(self, generator: str, work: str, mb: int, big_mb: int) -> None:
        self.generator, self.work, self.mb, self.big_mb = generator, work, mb, big_mb
        os.makedirs(work, exist_ok=True)
        self.one = os.path.join(work, "one.log")
        self.dense = os.path.join(work, "dense.log")
        from doctor.rulebase import load
        from doctor.scan.matcher import Anchors

        self.base = load()
        self.rows = Anchors(self.base).rows()
        self.patterns = os.path.join(work, "patterns.txt")
        with open(self.patterns, "wb") as file:
            for pattern, kind in self.rows:
                if b"\n" in pattern:
                    continue
                if kind == 2:  # Rust's dialect: no needless escapes, a group name only once
                    pattern = re.sub(rb"\(\?P<\w+>", b"(?:", pattern.replace(b"\\'", b"'").replace(b'\\"', b'"'))
                text = (b"(?i)" if kind == 1 else b"") + (pattern if kind == 2 else _rust_escape(pattern))
                file.write(b"".join(bytes([c]) if c < 128 else b"\\x%02X" % c for c in text) + b"\n")
        self.rg = shutil.which("rg") or os.path.join(os.path.dirname(sys.executable), "rg")
        print(f"{len(self.base)} rules, {len(self.rows)} anchors, of them {sum(k == 2 for _, k in self.rows)} regexes")

    def generate(self, name: str, ranks: int, mb: int, scenario: str) -> str:
        out = os.path.join(self.work, name)
        if not os.path.exists(os.path.join(out, "truth.json")):
            subprocess.run([sys.executable, self.generator, out, "--ranks", str(ranks), "--mb", str(mb), "--seed", "7",
                            "--scenario", scenario], check=True)  # fmt: skip
        return out

    def files(self) -> None:
        """One sparse file, and the same with a failure line on every 50th line."""
        run = self.generate("run", 16, self.mb, "cascade")
        logs = sorted(os.path.join(d, f) for d, _, fs in os.walk(run) for f in fs if f.endswith(".log"))
        if not os.path.exists(self.one):
            with open(self.one, "wb") as out:
                for log in logs:
                    with open(log, "rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
        if not os.path.exists(self.dense):
            lines = [
                e["log"].splitlines()[0] for r in self.base if r.log for e in self.base.whole(r.id)["tests"]["hit"][:1]
            ]
            with open(self.one, "rb") as file, open(self.dense, "wb") as out:
                for n, line in enumerate(file):
                    out.write(line)
                    if n % 50 == 49:
                        out.write(lines[n // 50 % len(lines)].encode() + b"\n")
        for path in (self.one, self.dense):
            subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)

    def scan(self) -> None:
        size = os.path.getsize(self.one) / 1e6
        child = [sys.executable, "-c", CHILD.format(root=ROOT, folder=None)]
        wc, bare = cpu(["wc", "-l", self.one], 5), cpu([*child, self.one])
        own = cpu(doctor("diagnose", self.one, "--jobs", "1"))
        say("wc -l", size / wc, "MB/s")
        say("bare Hyperscan stream, same database", size / bare, "MB/s")
        say("doctor diagnose", size / own, "MB/s")
        say("doctor / bare Hyperscan", own / bare, goal="<= 1.35")
        say("doctor / wc -l", own / wc, goal="<= 12, aim 6")
        if os.path.exists(self.rg):
            command = [self.rg, "-j1", "-c", "--no-unicode", "-f", self.patterns, self.one]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            rg = cpu(command, 1)
            say("rg -c --no-unicode, same patterns / doctor", rg / own, goal=">= 1.5, aim 2.5")
        dense_bare, dense_own = cpu([*child, self.dense], 2), cpu(doctor("diagnose", self.dense, "--jobs", "1"), 2)
        say("dense: doctor / bare Hyperscan", dense_own / dense_bare)
        say("dense ratio / sparse ratio", (dense_own / dense_bare) / (own / bare), goal="<= 2")
        loop = subprocess.run([sys.executable, "-c", LOOP.format(root=ROOT), self.one, str(2 << 20)],
                              capture_output=True, text=True, check=True)  # fmt: skip
        seconds, patterns = loop.stdout.split()
        say(
            f"re loop over {patterns} patterns / doctor",
            float(seconds) / (2 << 20) / (own / (size * 1e6)),
            goal=">= 100",
        )
        self._fallbacks(size)
        self._thousand(child, own)

    def _fallbacks(self, size: float) -> None:
        main = cpu([sys.executable, "-c", SCAN.format(root=ROOT, folder=None, engine="HyperscanEngine"), self.one], 2)
        re2 = cpu([sys.executable, "-c", SCAN.format(root=ROOT, folder=None, engine="Re2Engine"), self.one], 1)
        say("re2 engine, of the main engine's rate", main / re2, goal=">= 0.4")
        packed = os.path.join(self.work, "part.log.gz")
        plain = os.path.join(self.work, "part.log")
        if not os.path.exists(packed):
            with open(self.one, "rb") as file, open(plain, "wb") as out, gzip.open(packed, "wb", 6) as gz:
                for _ in range(256):
                    data = file.read(1 << 20)
                    out.write(data)
                    gz.write(data)
        flat = cpu(doctor("diagnose", plain, "--jobs", "1"), 2)
        isal = cpu(doctor("diagnose", packed), 2)
        block = tempfile.mkdtemp()
        with open(os.path.join(block, "isal.py"), "w", encoding="utf-8") as file_:
            file_.write("raise ImportError('blocked for the measurement')\n")
        without = cpu(doctor("diagnose", packed), 2, env={**os.environ, "PYTHONPATH": block})
        say("gz with isal, of the plain rate", flat / isal, goal=">= 0.4")
        say("gz without isal, of the plain rate", flat / without, goal=">= 0.2")

    def _thousand(self, child: list[str], own: float) -> None:
        """The same scan with the base filled up to 1,000 rules."""
        folder = os.path.join(self.work, "rules1000")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.base.folder, folder)
        tool = os.path.join(os.path.dirname(self.generator), "genrules.py")
        listing = subprocess.run([sys.executable, tool, "3000"], capture_output=True, text=True, check=True).stdout
        have = len(self.base)
        os.makedirs(os.path.join(folder, "run"), exist_ok=True)
        added = 0
        for line in listing.splitlines()[64:]:
            kind, pattern = line.split("\t", 1)
            number = 400 + added
            if have + added >= 1000:
                break
            clause = {"literal": pattern} if kind == "F" else {"regex": pattern}
            if kind == "F" and len(pattern) < 6:
                continue
            family = ("RUN", "OPS", "NUM")[number // 500 % 3]
            rule_id = f"{family}{400 + number % 500:03d}"
            path = os.path.join(folder, family.lower(), f"{rule_id}.yaml")
            if os.path.exists(path):
                continue
            rule = {
                "id": rule_id, "name": f"filler-{number}", "topic": "healthy", "since": "0.1.0", "severity": "advice",
                "confidence": "guess", "status": "stable", "role": "noise", "title": {"zh": "填充", "en": "filler"},
                "cause": {"zh": "填充", "en": "filler"}, "next": {"zh": "填充", "en": "filler"},
                "match": {"log": {"any": [clause]}}, "provenance": [{"kind": "measured", "ref": "bench"}],
                "tests": {"hit": [{"log": "x"}], "miss": [{"log": "y"}, {"log": "z"}]},
            }  # fmt: skip
            with open(path, "w", encoding="utf-8") as file:
                json.dump(rule, file, ensure_ascii=False)
            added += 1
        from doctor.rulebase import load

        count = len(load(folder))
        more = cpu(doctor("diagnose", "--jobs", "1", "--rules", folder, self.one), 2)
        say(f"{count} rules / {have} rules", more / own, goal="<= 1.4")

    def beyond(self) -> None:
        """A needle behind the 4 GiB mark of a sparse file."""
        path = os.path.join(self.work, "sparse.log")
        with open(path, "wb") as file:
            file.write(b"start\n")
            file.seek((4 << 30) + 12345)
            file.write(b"\n[ERROR] RuntimeError: Device(id:0) memory isn't enough and alloc failed, alloc size: 9B.\n")
        done = subprocess.run(doctor("diagnose", path, "--format", "json"), capture_output=True, check=False)
        report = json.loads(done.stdout)
        found = [d["rule"] for d in report["diagnoses"]]
        say("hits behind 4 GiB found", float(bool(found)), "", f"{found}")
        os.unlink(path)

    def many(self) -> None:
        """Some GB in 128 files with two processes."""
        run = self.generate("many", 64, self.big_mb, "cascade")
        logs = sorted(os.path.join(d, f) for d, _, fs in os.walk(run) for f in fs if f.endswith(".log"))
        size = sum(os.path.getsize(p) for p in logs) / 1e6
        wc = wall(["wc", "-l", *logs], 3)
        own = wall(doctor("diagnose", run, "--jobs", "2"))
        say(f"{len(logs)} files, {size:.0f} MB, 2 processes: wall / wc -l wall", own / wc, goal="<= 5, aim 3")
        if os.path.exists(self.rg):
            rg = wall([self.rg, "-j2", "-c", "--no-unicode", "-f", self.patterns, *logs], 1)
            say("rg -j2 wall / doctor wall", rg / own, goal=">= 2.5")
        say("private memory of the largest process", self._memory(run), "MB", "<= 100")
        done = subprocess.run(doctor("diagnose", run, "--format", "json"), capture_output=True, check=False)
        report = json.loads(done.stdout)
        with open(os.path.join(run, "truth.json"), encoding="utf-8") as file:
            truth = json.load(file)
        rank = report["diagnoses"][0]["place"]["rank"] if report["diagnoses"] else None
        say("root rank right", float(rank == truth["root_rank"]), "", f"said {rank}, truth {truth['root_rank']}")

    def _memory(self, run: str) -> float:
        child = subprocess.Popen(
            doctor("diagnose", run, "--jobs", "2"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        worst = 0.0
        while child.poll() is None:
            for pid in [child.pid, *_children(child.pid)]:
                worst = max(worst, _private_mb(pid))
            time.sleep(0.05)
        return worst

    def start(self) -> None:
        small = os.path.join(self.work, "small.log")
        with open(self.one, "rb") as file, open(small, "wb") as out:
            out.write(file.read(1_000_000))
        hundred = os.path.join(self.work, "hundred.log")
        with open(small, "rb") as file, open(hundred, "wb") as out:
            out.writelines(file.readlines()[:100])
        plain = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        base = cpu([sys.executable, "-c", "pass"], 21, env=plain)
        say("python -c pass", base * 1000, "ms")
        say("doctor --version / python -c pass", cpu(doctor("--version"), 21, env=plain) / base, goal="<= 1.3")
        cpu(doctor("diagnose", small), 2, env=plain)
        say("1 MB log, warm / python -c pass", cpu(doctor("diagnose", small), 21, env=plain) / base, goal="<= 5")
        began = time.perf_counter()
        subprocess.run(doctor("diagnose", hundred), env={**plain, "DOCTOR_CACHE": tempfile.mkdtemp()},
                       stdout=subprocess.DEVNULL, check=False)  # fmt: skip
        say("100-line log, no cache, wall", time.perf_counter() - began, "s", "< 1")


def _rust_escape(pattern: bytes) -> bytes:
    special = b"\\.+*?()|[]{}^$"
    return b"".join(b"\\" + bytes([c]) if c in special else bytes([c]) for c in pattern)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _private_mb(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("Private")) / 1024
    except (OSError, ValueError):
        return 0.0


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("generator")
    ap.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "doctor-bench"))
    ap.add_argument("--mb", type=int, default=1024)
    ap.add_argument("--big-mb", type=int, default=4096)
    ap.add_argument("--only", default="", help="scan, beyond, many, start")
    args = ap.parse_args()
    bench = Bench(args.generator, args.work, args.mb, args.big_mb)
    parts: dict[str, Callable[[], None]] = {
        "scan": bench.scan, "beyond": bench.beyond, "many": bench.many, "start": bench.start,
    }  # fmt: skip
    bench.files()
    for name, part in parts.items():
        if not args.only or name in args.only.split(","):
            part()
    return 0


if __name__ == "__main__":
    sys.exit(main())
