"""Recordings that are cut, newer, lying or hostile: one clear line, never a traceback, and the other checks go on."""

import io
import json
import os
import random
import resource
import tarfile
import time

import pytest
from fakes import HOSTS, load, text_of

from doctor import checkup
from doctor.hosts.base import MemoryHost
from doctor.model import Raw, Verdict

SMALL = (2 << 30, 2 << 30)
"""Address space of a process that reads a bomb: enough for the doctor, not for the bomb."""


def manifest(*items, schema="doctor.recording/1", **more):
    return json.dumps({"schema": schema, "host": "x", "items": list(items), **more})


def item(key, **more):
    return {"key": key, "state": "ok", **more}


def archive(path, members):
    """A .tar.gz; a member is (name, bytes) or a TarInfo."""
    with tarfile.open(path, "w:gz") as tar:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                tar.addfile(member)
                continue
            name, data = member
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def folder(path, text, **answers):
    """A recording as a folder."""
    (path / "answers").mkdir(parents=True)
    (path / "manifest.json").write_text(text)
    for name, content in answers.items():
        (path / "answers" / name).write_text(content)
    return path


def refused(cli, path):
    """One line on stderr, nothing on stdout, exit code 2."""
    ran = cli("check", "--from", path)
    assert ran.code == 2 and not ran.out and ran.err.strip() and len(ran.err.strip().splitlines()) == 1, ran
    assert str(path)[-40:] in ran.err.replace("\n", "") or "…" in ran.err
    return ran.err


# ------------------------------------------------------------------ what is no recording


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "7", '"x"', "{}", manifest(schema="other/1"), manifest()[:-20],
        manifest(schema="doctor.recording/2"), manifest(schema="doctor.recording/1.5"),
        '{"schema": "doctor.recording/1"}', '{"schema": "doctor.recording/1", "items": {}}', manifest(7), manifest({}),
        manifest({"key": 3, "state": "ok"}), manifest({"key": "run x", "state": "fine"}),
        manifest(item("run x", out=7)), manifest(item("run x", out="gone.txt")),
        manifest(item("run x", out="/etc/passwd")),
        manifest(item("run x", out="../outside.txt")), "[" * 100_000,
        manifest(item("run x", out="answers")), "\x00\x01\x02", manifest() + "x",
    ],
    ids=lambda text: repr(text[:40]),
)  # fmt: skip
def test_a_folder_that_is_no_recording_is_refused_in_one_line(cli, tmp_path, text):
    (tmp_path / "outside.txt").write_text("THE-SECRET")
    assert "THE-SECRET" not in refused(cli, folder(tmp_path / "rec", text))


def test_a_newer_recording_is_named_as_such(cli, tmp_path):
    newer = refused(cli, folder(tmp_path / "rec", manifest(schema="doctor.recording/2")))
    junk = refused(cli, folder(tmp_path / "junk", "{}"))
    assert newer.replace("rec", "") != junk.replace("junk", "")


def test_what_is_not_there_and_what_is_no_archive_is_refused(cli, tmp_path):
    refused(cli, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    refused(cli, tmp_path / "empty")
    for name, data in {
        "a.tar.gz": b"",
        "b.tar.gz": b"\x1f\x8b",
        "c.tar.gz": os.urandom(4096),
        "d.txt": b"hello",
    }.items():
        (tmp_path / name).write_bytes(data)
        refused(cli, tmp_path / name)


def test_a_cut_archive_is_refused(cli, tmp_path):
    text = manifest(item("run x", out="answers/1")).encode()
    members = [("recording/manifest.json", text), ("recording/answers/1", os.urandom(20_000))]
    whole = archive(tmp_path / "a.tar.gz", members)
    data = whole.read_bytes()
    for size in (3, 20, len(data) // 3, len(data) // 2):
        whole.write_bytes(data[:size])
        refused(cli, whole)


def test_an_archive_cannot_reach_outside_itself(cli, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("THE-SECRET")
    for n, name in enumerate(("../secret", "recording/../../secret", str(secret), "recording/answers/link")):
        link = tarfile.TarInfo("recording/answers/link")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        hard = tarfile.TarInfo("recording/answers/hard")
        hard.type, hard.linkname = tarfile.LNKTYPE, "../../secret"
        text = manifest(item("run npu-smi info", out=name.removeprefix("recording/")))
        path = archive(tmp_path / f"{n}.tar.gz", [("recording/manifest.json", text.encode()), (name, b"x"), link, hard])
        ran = cli("check", "--from", path, "--format", "json")
        assert "THE-SECRET" not in ran.out + ran.err and ran.code in (0, 1, 2)
    assert secret.read_text() == "THE-SECRET" and not (tmp_path.parent / "secret").exists()


def test_odd_members_of_an_archive_do_not_hang(cli, tmp_path):
    members = [("recording/manifest.json", manifest(item("run x", out="answers/p")).encode())]
    for n, kind in enumerate((tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE)):
        odd = tarfile.TarInfo("recording/answers/p")
        odd.type = kind
        odd.linkname = "p"
        refused(cli, archive(tmp_path / f"{n}.tar.gz", [*members, odd]))


def test_an_archive_of_zeros_does_not_fill_the_memory(process, tmp_path):
    info = tarfile.TarInfo("recording/answers/1")
    info.size = 600 << 20

    class Zeros(io.RawIOBase):
        def read(self, size=-1):
            return b"\0" * size

    path = tmp_path / "bomb.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        text = manifest(item("run x", out="answers/1")).encode()
        head = tarfile.TarInfo("recording/manifest.json")
        head.size = len(text)
        tar.addfile(head, io.BytesIO(text))
        tar.addfile(info, Zeros())
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, SMALL)}
    ran = process("check", "--from", path, timeout=30, **limit)
    assert ran.code == 2 and not ran.out and len(ran.err.strip().splitlines()) == 1


def test_a_pipe_as_a_recording_does_not_hang(process, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    ran = process("check", "--from", tmp_path / "pipe", timeout=20)
    assert ran.code == 2 and not ran.out


# ------------------------------------------------------------------ composed hosts


@pytest.mark.parametrize(
    "text",
    [
        "", "items: {}", "[1, 2]", "schema: doctor.host/2\nitems: {}", "schema: doctor.host/1\nitems: [1]", "a: b: c",
        "schema: doctor.host/1\nbase: ../../../etc/passwd\n", "schema: doctor.host/1\nbase: self\n",
        "schema: doctor.host/1\nbase: 7\n", "schema: doctor.host/1\nbase: nothing\n", "!!python/object:os.system x",
        "schema: doctor.host/1\nitems: {run x: 'sample:../../etc/passwd'}",
        "schema: doctor.host/1\nitems: {run x: 'sample:no'}", "schema: doctor.host/1\nitems: {7: x}", "\x00",
        "schema: doctor.host/1\nitems: {run x: {state: 7, seconds: abc}}",
    ],
    ids=lambda text: repr(text[-40:]),
)  # fmt: skip
def test_a_composed_host_that_is_damaged_is_refused_in_one_line(cli, tmp_path, text):
    (tmp_path / "self.yaml").write_text(text)
    ran = cli("check", "--from", tmp_path / "self.yaml")
    assert "root:" not in ran.out and len(ran.err.strip().splitlines()) <= 1
    assert ran.code == 2 or (ran.code in (0, 1) and ran.out)


def test_aliases_that_multiply_do_not_fill_the_memory(process, tmp_path):
    lines = ["schema: doctor.host/1", "items:", "  ask a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"  ask a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join(lines))
    ran = process("check", "--from", path, timeout=30, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, SMALL))
    assert ran.code in (0, 1, 2) and ran.code != 3


# ------------------------------------------------------------------ answers that lie


def answers(name):
    """Every answer of a recorded host as text."""
    return {key: text_of(value) for key, value in load(name)["items"].items()}


def shuffled(texts, rng):
    keys = list(texts)
    values = list(texts.values())
    rng.shuffle(values)
    return dict(zip(keys, values, strict=True))


LIES = {
    "nothing": lambda key, text, rng: "",
    "half": lambda key, text, rng: text[: len(text) // 2],
    "junk": lambda key, text, rng: "".join(chr(rng.randrange(1, 0x2FFF)) for _ in range(300)),
    "pipes": lambda key, text, rng: "|" * 5000 + "\n" + "[" * 5000,
    "colons": lambda key, text, rng: ": : :\n" * 2000,
    "numbers": lambda key, text, rng: "9" * 5000,
    "null": lambda key, text, rng: "null",
    "list": lambda key, text, rng: "[null, 1, [], {}, \"x\", -1e999]",
    "object": lambda key, text, rng: '{"devices": 7, "packages": [], "interfaces": "x", "count": {}, "total": -1}',
    "nested": lambda key, text, rng: "[" * 3000 + "]" * 3000,
    "doubled": lambda key, text, rng: text + text,
    "reversed": lambda key, text, rng: "\n".join(reversed(text.splitlines())),
    "words": lambda key, text, rng: " ".join(rng.sample(text.split(), len(text.split()))),
    "nul": lambda key, text, rng: text.replace(" ", "\x00"),
    "digits": lambda key, text, rng: "".join("7" if c.isdigit() else c for c in text),
    "negative": lambda key, text, rng: text.replace(" 0", " -1").replace(":0", ":-1"),
    "wide": lambda key, text, rng: text.translate({ord(str(n)): chr(0xFF10 + n) for n in range(10)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a2-8p", "a3-16d", "a2-two-node"])
@pytest.mark.parametrize("lie", [*LIES, "swapped"])
def test_answers_that_lie_crash_no_check(base, name, lie):
    rng = random.Random(7)
    texts = answers(name)
    told = shuffled(texts, rng) if lie == "swapped" else {k: LIES[lie](k, v, rng) for k, v in texts.items()}
    began = time.monotonic()
    report = checkup.check(MemoryHost(told, absent=True), base=base)
    crashed = [f"{f.id}: {f.args.get('what')}" for f in report.findings if f.verdict is Verdict.CRASH]
    broken = [name for name, fact in report.facts.items() if "crashed" in str(fact)[:300]]
    assert (crashed, broken) == ([], []) and time.monotonic() - began < 20


@pytest.mark.parametrize("seed", range(12))
def test_one_answer_that_lies_crashes_no_check(base, seed):
    rng = random.Random(seed)
    texts = answers(rng.choice(["a2-8p", "a3-16d", "a2-two-node", "a2-container", "cpu"]))
    for key in rng.sample(sorted(texts), len(texts) // 6):
        texts[key] = LIES[rng.choice(sorted(LIES))](key, texts[key], rng)
    report = checkup.check(MemoryHost(texts, absent=True), base=base)
    assert [f"{f.id}: {f.args.get('what')}" for f in report.findings if f.verdict is Verdict.CRASH] == []
    assert [name for name, fact in report.facts.items() if "crashed" in str(fact)[:300]] == []


@pytest.mark.parametrize("state", ["missing", "denied", "timeout", "failed", "killed", "refused", "not_recorded"])
def test_a_host_that_answers_nothing_fails_in_nothing_but_that(base, state):
    raws = {key: Raw(key, state, err="no") for key in answers("a2-8p")}
    report = checkup.check(MemoryHost(raws), base=base)
    verdicts = {f.verdict for f in report.findings}
    assert Verdict.CRASH not in verdicts and Verdict.PASS not in {
        f.verdict for f in report.findings if f.id.startswith(("NPU", "HCCL5", "VER"))
    }


# ------------------------------------------------------------------ large rank tables


def with_table(text, path="/data/train/hccl_2s_16p.json"):
    texts = answers("a2-two-node")
    texts[f"file {path}"] = text
    return MemoryHost(texts, absent=True)


def ranks(servers, each=8):
    """A sound rank table."""
    listed = []
    for s in range(servers):
        devices = [
            {"device_id": str(d), "device_ip": f"10.{s // 250}.{s % 250}.{d + 1}", "rank_id": str(s * each + d)}
            for d in range(each)
        ]
        listed.append({"server_id": f"10.200.{s // 250}.{s % 250}", "device": devices})
    return json.dumps({"version": "1.0", "server_count": str(servers), "server_list": listed, "status": "completed"})


def only_tables(base, host):
    """The findings of the rank table rules and the seconds they took; skips while there are none."""
    began = time.process_time()
    report = checkup.check(host, checkup.Options(only=tuple(f"HCCL5{n:02d}" for n in range(1, 26))), base)
    if not report.findings:
        pytest.skip("no rank table checks yet")
    return {f.id: f for f in report.findings if f.verdict is Verdict.FAIL}, report, time.process_time() - began


def test_a_table_of_4096_ranks_is_judged_quickly(base):
    failed, report, seconds = only_tables(base, with_table(ranks(512)))
    assert seconds < 4 and not {i for i, f in failed.items() if f.severity == "error"} - {"HCCL513", "HCCL523"}
    assert Verdict.PASS in {f.verdict for f in report.findings}


def test_one_wrong_rank_among_4096_is_found(base):
    failed, _, seconds = only_tables(base, with_table(ranks(512).replace('"rank_id": "4000"', '"rank_id": "3999"')))
    assert "HCCL508" in failed and seconds < 4


@pytest.mark.parametrize("junk", ["x", "[", '{"a":', "\x00", '{"server_list":[],'], ids=repr)
def test_50_mb_of_junk_as_a_rank_table_is_one_clear_finding(base, junk):
    failed, report, seconds = only_tables(base, with_table(junk * (50_000_000 // len(junk))))
    assert seconds < 15 and Verdict.CRASH not in {f.verdict for f in report.findings}
    assert set(failed) <= {"HCCL501", "HCCL502"}


def test_the_hosts_folder_is_where_the_tests_think_it_is():
    assert (HOSTS / "a2-8p.yaml").is_file()
