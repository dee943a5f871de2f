"""The command line: stdout is the result, stderr the narration, the exit code the contract; nobody sees a traceback."""

import contextlib
import ctypes
import fcntl
import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import termios
import time
import zipfile
from pathlib import Path

import psutil
import pytest
from timing import busy

ROOT = Path(__file__).resolve().parent.parent
HEALTHY = ROOT / "fixtures" / "healthy"
DEMO = ROOT / "fixtures" / "demo"
BAD = "EI0002: The wait execution of the Notify register times out."
UNKNOWN = 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\nRuntimeError: an odd thing 7\n'


@pytest.fixture
def bad(tmp_path):
    """A log with a failure that rules know."""
    path = tmp_path / "bad.log"
    path.write_text(f"start\n{BAD}\nend\n")
    return path


@pytest.fixture
def fine(tmp_path):
    """A log of healthy training."""
    return Path(shutil.copy(HEALTHY / "mindformers_train.log", tmp_path / "fine.log"))


def in_shell(arguments):
    """The doctor started by a shell, which can close a stream that ``subprocess`` cannot."""
    command = f'exec "{sys.executable}" -m doctor {arguments}'
    return subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)


def report(out):
    """The one JSON report on stdout."""
    found = json.loads(out)
    assert found["schema"] == "doctor.report/1"
    return found


# ------------------------------------------------------------------ exit codes


def test_nothing_wrong_is_0(cli, fine):
    ran = cli("diagnose", fine)
    assert ran.code == 0 and ran.out and not ran.err


def test_a_finding_is_1(cli, bad):
    assert cli("diagnose", bad).code == 1


def test_an_unknown_failure_is_1(cli, tmp_path):
    (tmp_path / "a.log").write_text(UNKNOWN)
    ran = cli("diagnose", tmp_path / "a.log", "--format", "json")
    assert ran.code == 1
    first = report(ran.out)["diagnoses"][0]
    assert (first["rule"], first["severity"], first["confidence"]) == ("RUN000", "error", "guess")
    assert first["evidence"][0]["line"] == 3


@pytest.mark.parametrize(
    "argv",
    [
        ["nonsense"],
        ["diagnose", "--nonsense"],
        ["diagnose", "x", "--format", "xml"],
        ["rules"],
        ["explain"],
        ["diagnose", "x", "--max-seconds", "soon"],
        ["diagnose", "x", "--fail-on", "never"],
    ],
)
def test_a_usage_error_is_2_in_one_line(cli, argv):
    ran = cli(*argv)
    assert ran.code == 2 and not ran.out
    assert ran.err.startswith("doctor: ") and len(ran.err.splitlines()) <= 2


@pytest.mark.parametrize("argv", [["--help"], ["diagnose", "--help"], ["rules", "new", "--help"], ["--version"]])
def test_help_and_version_are_results(cli, argv):
    ran = cli(*argv)
    assert ran.code == 0 and ran.out and not ran.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_failure_of_its_own_is_3_with_a_saved_report(cli, bad, monkeypatch, tmp_path, form):
    import tempfile

    from doctor import engine

    def broken(*args, **kwargs):
        raise RuntimeError("password=hunter2222 \x1b[31m boom")

    monkeypatch.setattr(engine, "diagnose", broken)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ran = cli("diagnose", bad, "--format", form, "--lang", "en")
    assert ran.code == 3 and "\x1b" not in ran.err and "boom" in ran.err
    [saved] = tmp_path.glob("doctor-crash-*")
    text = saved.read_text(encoding="utf-8")
    assert str(saved) in ran.err and "Traceback" in text and "hunter2222" not in text + ran.err


def test_a_failure_of_its_own_without_any_room_for_a_report_is_still_3(cli, bad, monkeypatch):
    import tempfile

    from doctor import engine

    def broken(*args, **kwargs):
        raise RuntimeError("boom")

    def no_room(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(engine, "diagnose", broken)
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", no_room)
    monkeypatch.setattr(tempfile, "mkstemp", no_room)
    ran = cli("diagnose", bad)
    assert ran.code == 3 and "boom" in ran.err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("missing.log", None),
        ("empty/", None),
        ("binary.bin", bytes(range(256)) * 40),
        ("broken.log.gz", b"\x1f\x8b\x08\x00garbage" * 9),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_that_could_be_read_is_2(cli, tmp_path, name, content, form):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif name.endswith("/"):
        path.mkdir()
    ran = cli("diagnose", path, "--format", form)
    assert ran.code == 2 and ran.out
    if form == "json":
        found = report(ran.out)
        assert found["verdict"] == "unknown" and found["diagnoses"] == []
        [finding] = [f for f in found["findings"] if f["id"] == "INPUT"]
        assert finding["severity"] == "error" and finding["why"]["zh"] and finding["why"]["en"]
    else:
        assert os.path.basename(name.rstrip("/")) in ran.out


def test_one_unread_input_among_others_is_a_warning_finding(cli, fine, tmp_path):
    argv = ["diagnose", fine, tmp_path / "missing.log", "--format", "json"]
    ran = cli(*argv)
    assert ran.code == 0
    assert [f["severity"] for f in report(ran.out)["findings"] if f["id"] == "INPUT"] == ["warning"]
    assert cli(*argv, "--fail-on", "warning").code == 1


def test_a_file_that_may_not_be_read_is_named(cli, bad, monkeypatch):
    from doctor.scan import streams

    def denied(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(streams, "open_regular", denied)
    ran = cli("diagnose", bad, "--lang", "en")
    assert ran.code == 2 and "permission" in ran.out.lower() and "bad.log" in ran.out


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_any_right_is_named(cli, bad):
    bad.chmod(0)
    assert cli("diagnose", bad, "--lang", "en").code == 2


@pytest.mark.parametrize(("limit", "codes"), [("error", (1, 0, 0)), ("warning", (1, 1, 0)), ("advice", (1, 1, 1))])
def test_fail_on_sets_from_where_on_it_is_1(cli, rules, make_rule, tmp_path, limit, codes):
    rules.put(*(make_rule(f"RUN90{n}", f"sign-{s}", severity=s) for n, s in enumerate(("error", "warning", "advice"))))
    for severity, code in zip(("error", "warning", "advice"), codes, strict=True):
        path = tmp_path / f"{severity}.log"
        path.write_text(f"hello\nsign-{severity}\n")
        assert cli("diagnose", path, "--rules", rules.folder, "--fail-on", limit).code == code, severity


# ------------------------------------------------------------------ stdin


@pytest.mark.parametrize("argv", [[], ["-"]])
def test_a_paste_on_stdin_is_diagnosed(process, argv):
    ran = process("diagnose", *argv, "--format", "json", stdin=f"> {BAD}\r\n".encode())
    assert ran.code == 1
    found = report(ran.out)
    assert found["diagnoses"] and found["inputs"][0]["name"] == "<stdin>"
    assert not ran.err


def test_an_empty_stdin_is_no_failure_and_not_healthy(process):
    ran = process("diagnose", "-", "--format", "json")
    assert ran.code in (0, 2) and report(ran.out)["verdict"] == "unknown"


def test_bytes_of_any_kind_on_stdin_are_no_failure_of_the_doctors(process):
    for data in (
        b"\0" * 5000,
        os.urandom(5000),
        b"\xff\xfe" + "x\n".encode("utf-16-le") * 50,
        b"\x1b]0;x\x07" * 99,
        b"\r" * 999,
    ):
        ran = process("diagnose", "-", "--format", "json", stdin=data)
        assert ran.code in (0, 1, 2), ran.err
        report(ran.out)


def test_without_a_stdin_nothing_could_be_read(process):
    done = in_shell("diagnose <&-")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_stdout_nothing_is_said_of_ourselves(process, bad):
    done = in_shell(f'diagnose "{bad}" >&-')
    assert done.returncode in (1, 2, 3) and "Traceback" not in done.stderr and "AttributeError" not in done.stderr


def test_a_slow_pipe_gives_the_same_findings(bad):
    log = "\n".join(
        [f"line {n}" for n in range(30)]
        + ["[ERROR] ME(7:140,M):2026-03-01-08:15:02.000.000 [a.py:1] text", BAD, "  more", "end\n"]
    )
    with open_doctor("diagnose", "-", "--format", "json") as child:
        for line in log.splitlines(keepends=True):
            child.stdin.write(line.encode())
            child.stdin.flush()
            time.sleep(0.003)
        out, err = child.communicate(timeout=30)
    slow = report(out)["diagnoses"][0]
    bad.write_text(log)
    with open_doctor("diagnose", str(bad), "--format", "json") as child:
        out, err = child.communicate(timeout=30)
    fast = report(out)["diagnoses"][0]
    assert not err
    assert slow["rule"] == fast["rule"]
    for piece in ("line", "text", "before", "after"):
        assert slow["evidence"][0][piece] == fast["evidence"][0][piece]


def open_doctor(*argv, **options):
    """The doctor as a child whose stdin stays open."""
    return subprocess.Popen(
        [sys.executable, "-m", "doctor", *argv],
        cwd=ROOT,
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def until_read(child, path):
    """Wait until the doctor, or a child of its own, has a file open: before that a signal meets the start."""
    for _ in range(3000):
        with contextlib.suppress(psutil.Error):
            own = psutil.Process(child.pid)
            if any(path == Path(file.path) for one in (own, *own.children()) for file in one.open_files()):
                break
        if child.poll() is not None:
            pytest.skip("the machine is too fast for this test")
        time.sleep(0.01)
    time.sleep(0.1)


def test_an_endless_stdin_ends_at_the_time_limit(process):
    with subprocess.Popen(["yes", BAD], stdout=subprocess.PIPE) as source:
        began = time.monotonic()
        with open_doctor("diagnose", "-", "--max-seconds", "1", "--format", "json", stdin=source.stdout) as child:
            source.stdout.close()
            out, err = child.communicate(timeout=60)
        took = time.monotonic() - began
        source.kill()
    found = report(out)
    assert took < 30 and not err, (took, err)
    assert found["partial"], (found["timings"], str(found["inputs"])[-200:])
    assert found["partial"]["en"] and child.returncode == 1
    assert found["diagnoses"]


def test_a_silent_stdin_ends_at_the_time_limit():
    began = time.monotonic()
    with open_doctor("diagnose", "-", "--max-seconds", "1", "--format", "json") as child:
        child.stdin.write(f"{BAD}\n".encode())
        child.stdin.flush()
        try:
            child.wait(timeout=30)
        except subprocess.TimeoutExpired:
            child.kill()
            pytest.fail("the doctor waits for ever for a stdin that says nothing")
        out = child.stdout.read()
    assert time.monotonic() - began < 30
    assert report(out)["diagnoses"]


# ------------------------------------------------------------------ forms of output


def argvs_of_all_paths(tmp_path, bad, fine):
    return {
        "found": [bad],
        "fine": [fine],
        "missing": [tmp_path / "missing.log"],
        "mixed": [bad, tmp_path / "missing.log"],
    }


@pytest.mark.parametrize("path", ["found", "fine", "missing", "mixed"])
def test_json_is_printed_whatever_the_exit_code_and_fits_its_schema(cli, tmp_path, bad, fine, path):
    jsonschema = pytest.importorskip("jsonschema")
    ran = cli("diagnose", *argvs_of_all_paths(tmp_path, bad, fine)[path], "--format", "json")
    schema = json.loads(cli("schema").out)
    jsonschema.Draft202012Validator(schema).validate(report(ran.out))
    assert not ran.err


def test_the_result_can_go_to_a_file(cli, bad, tmp_path):
    for form in ("text", "json"):
        ran = cli("diagnose", bad, "--format", form, "--output", tmp_path / "out")
        assert ran.code == 1 and not ran.out
        written = (tmp_path / "out").read_text(encoding="utf-8")
        assert report(written)["diagnoses"] if form == "json" else "bad.log" in written


def test_a_file_that_cannot_be_written_is_2(cli, bad, tmp_path):
    ran = cli("diagnose", bad, "--output", tmp_path / "no" / "out")
    assert ran.code == 2 and "No such file" in ran.err


def test_the_language_can_be_chosen(cli, bad):
    zh, en = cli("diagnose", bad, "--lang", "zh").out, cli("diagnose", bad, "--lang", "en").out
    assert zh != en and any("\u4e00" <= c <= "\u9fff" for c in zh)
    assert not any("\u4e00" <= c <= "\u9fff" for c in en)
    assert cli("--lang", "zh", "diagnose", bad).out == zh


@pytest.mark.parametrize(
    ("env", "chinese"),
    [
        ({"LANG": "zh_CN.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "C"}, False),
        ({"DOCTOR_LANG": "zh", "LANG": "C"}, True),
        ({"LC_ALL": "zh_TW.UTF-8", "LANG": "C"}, True),
    ],
)
def test_the_language_follows_the_locale(cli, bad, monkeypatch, env, chinese):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert any("\u4e00" <= c <= "\u9fff" for c in cli("diagnose", bad).out) is chinese


@pytest.mark.parametrize("encoding", ["ascii", "gbk", "latin-1", "utf-8"])
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_a_terminal_of_another_encoding_is_no_failure(process, tmp_path, encoding, lang):
    log = tmp_path / "日志.log"
    log.write_text(f"100%|██████████| 5/5 ✖ é 集合通信 \U0001f600\n{BAD}\n进度 ▏ \u2603\n", encoding="utf-8")
    ran = process("diagnose", log, "--lang", lang, env={"PYTHONIOENCODING": encoding})
    assert ran.code == 1 and ran.out, ran.err


def test_a_name_that_is_no_text_is_no_failure(process, tmp_path):
    name = os.fsencode(tmp_path) + b"/\xff\xfe.log"
    with open(name, "wb") as file:
        file.write(BAD.encode() + b"\n")
    for form in ("text", "json"):
        ran = process("diagnose", os.fsdecode(name), "--format", form)
        assert ran.code == 1, ran.err
        ran = process("diagnose", tmp_path, "--format", form, "--output", tmp_path / "out")
        assert ran.code == 1, ran.err


def test_nothing_of_a_log_steers_the_terminal_or_gives_secrets_away(cli, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(
        b"\x1b]0;owned\x07 password=hunter2222\n"
        + BAD.encode()
        + b" token hf_0123456789abcdefghijkl \xe2\x80\xae\x9b31m\n\x1b[2J\n"
    )
    for form in ("text", "json"):
        out = cli("diagnose", path, "--format", form, "--all").out
        assert not [c for c in out if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c == "\u202e"]
        assert "hunter2222" not in out and "hf_0123456789" not in out


def test_a_pipe_gets_no_colours(process, bad):
    assert "\x1b" not in process("diagnose", bad, env={"TERM": "xterm-256color", "COLORTERM": "truecolor"}).out


def test_a_reader_that_has_gone_is_no_trouble(process, tmp_path):
    path = tmp_path / "many.log"
    path.write_text("\n".join([BAD, UNKNOWN] * 50))
    for argv in (
        ["diagnose", str(path), "--all"],
        ["rules", "list"],
        ["diagnose", str(path), "--format", "json"],
        ["explain", "EI0002"],
    ):
        read, write = os.pipe()
        os.close(read)
        with open_doctor(*argv, stdin=subprocess.DEVNULL, stdout=write) as child:
            os.close(write)
            err = child.communicate(timeout=60)[1].decode()
        assert "Traceback" not in err and "BrokenPipe" not in err and "Exception ignored" not in err, (argv, err)
        assert child.returncode in (0, 1, 141)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_said_in_a_line(bad):
    with open("/dev/full", "wb") as full, open_doctor("diagnose", str(bad), stdout=full) as child:
        err = child.communicate(timeout=60)[1].decode()
    assert child.returncode in (2, 3)
    assert (
        "No space left" in err
        and "Traceback" not in err
        and "Exception ignored" not in err
        and len(err.splitlines()) <= 2
    )


# ------------------------------------------------------------------ inputs of every kind


def test_a_folder_with_logs_is_one_run(cli):
    ran = cli("diagnose", DEMO, "--format", "json")
    found = report(ran.out)
    assert ran.code == 1 and len(found["inputs"]) >= 6
    assert found["diagnoses"][0]["place"]["rank"] == 2


def test_a_folder_without_logs_could_not_be_read(cli, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))
    assert cli("diagnose", tmp_path).code == 2


def test_a_cut_off_gzip_is_diagnosed_as_far_as_it_goes(cli, tmp_path):
    data = gzip.compress((BAD + "\n" + "".join(f"{os.urandom(8).hex()}\n" for _ in range(20_000))).encode())
    (tmp_path / "a.log.gz").write_bytes(data[: len(data) - 2000])
    ran = cli("diagnose", tmp_path / "a.log.gz", "--format", "json")
    found = report(ran.out)
    assert ran.code == 1 and found["diagnoses"]
    assert found["inputs"][0]["state"] == "partial"


def test_a_zip_bomb_is_not_unpacked(cli, tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("a.log", "w", force_zip64=True) as member:
            for _ in range(600):
                member.write(bytes(1 << 20))
        archive.writestr("b.log", BAD)
    (tmp_path / "bomb.zip").write_bytes(packed.getvalue())
    began = time.monotonic()
    ran = cli("diagnose", tmp_path / "bomb.zip", "--format", "json")
    found = report(ran.out)
    assert time.monotonic() - began < 20
    assert found["verdict"] != "healthy"
    assert any("bomb" in str(f["why"].get("en")) for f in found["findings"] if f["id"] == "INPUT")


def test_a_rule_file_with_an_error_is_named_and_the_rest_works(cli, rules, make_rule, tmp_path):
    rules.raw("own/RUN901.yaml", "id: RUN901\nname: [")
    rules.put(make_rule("RUN902", "yak-shaved"))
    (tmp_path / "a.log").write_text("yak-shaved\n")
    ran = cli("diagnose", tmp_path / "a.log", "--rules", rules.folder, "--format", "json")
    found = report(ran.out)
    assert ran.code == 1 and [d["rule"] for d in found["diagnoses"]] == ["RUN902"]
    [finding] = [f for f in found["findings"] if f["id"] == "RULES"]
    assert (
        finding["verdict"] == "crash"
        and finding["evidence"][0]["source"].endswith("RUN901.yaml")
        and finding["evidence"][0]["line"] >= 2
    )
    text = cli("diagnose", tmp_path / "a.log", "--rules", rules.folder).out
    assert "RUN901.yaml:" in text


@pytest.mark.parametrize("engine", ["hyperscan", "re2", "python"])
def test_each_engine_gives_the_same_report(cli, engine):
    pytest.importorskip(engine) if engine != "python" else None
    found = report(cli("diagnose", DEMO, "--engine", engine, "--format", "json").out)
    plain = report(cli("diagnose", DEMO, "--format", "json").out)
    for name in ("tool", "timings"):
        found.pop(name), plain.pop(name)
    assert found == plain


def test_the_same_input_gives_the_same_report(cli):
    first, second = (report(cli("diagnose", DEMO, "--format", "json").out) for _ in range(2))
    first.pop("timings"), second.pop("timings")
    assert first == second


# ------------------------------------------------------------------ interruption


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """300 MB of a log whose first line is a failure."""
    path = tmp_path_factory.mktemp("large") / "large.log"
    line = b"2026-03-01 08:15:02,123 - mf[a.py:529] - INFO - all is well and nothing happens here at all, x=%06d\n"
    block = b"".join(line % n for n in range(10_000))
    with open(path, "wb") as file:
        file.write(BAD.encode() + b"\n")
        for _ in range((300 << 20) // len(block)):
            file.write(block)
    yield path
    path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["python", ""])
def test_ctrl_c_answers_within_a_second_with_what_was_found(large, engine):
    argv = ["diagnose", str(large), "--format", "json", *(["--engine", engine] if engine else [])]
    with open_doctor(*argv, stdin=subprocess.DEVNULL) as child:
        until_read(child, large)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
        took = time.monotonic() - began
    if child.returncode == 1:
        pytest.skip("the scan had ended before the signal came")
    assert child.returncode == 130 and took < 1.0 * busy(), (child.returncode, took)
    assert b"Traceback" not in err
    found = report(out)
    assert "interrupted" in found["partial"]["en"] and found["diagnoses"]
    assert found["inputs"][0]["state"] == "partial"


@pytest.mark.slow
def test_ctrl_c_on_two_large_files_ends_the_children_too(large, tmp_path):
    other = tmp_path / "other.log"
    os.link(large, other) if os.stat(large).st_dev == os.stat(tmp_path).st_dev else shutil.copy(large, other)
    with open_doctor(
        "diagnose",
        str(large),
        str(other),
        "--jobs",
        "2",
        "--engine",
        "python",
        "--format",
        "json",
        stdin=subprocess.DEVNULL,
    ) as child:
        until_read(child, large)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 130 and time.monotonic() - began < 2.0 * busy()
    assert b"Traceback" not in err and report(out)["partial"]["en"]


def test_ctrl_c_on_a_silent_stdin_gives_what_came(bad):
    with open_doctor("diagnose", "-", "--format", "json") as child:
        child.stdin.write(f"{BAD}\nmore\n".encode())
        child.stdin.flush()
        left = ctypes.c_int(1)
        for _ in range(3000):  # until nothing is left in the pipe
            fcntl.ioctl(child.stdin.fileno(), termios.FIONREAD, left)
            if not left.value:
                break
            time.sleep(0.01)
        time.sleep(0.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    assert child.returncode == 130 and b"Traceback" not in err
    found = report(out)
    assert found["partial"]["en"] and found["diagnoses"]


# ------------------------------------------------------------------ rules, explain, schema, demo


def test_the_rules_are_listed(cli, base):
    rows = json.loads(cli("rules", "list", "--format", "json").out)
    assert [row["id"] for row in rows] == list(base.ids)
    assert {"id", "name", "topic", "severity", "confidence", "status", "role", "seeds", "provenance", "kind"} <= rows[
        0
    ].keys()
    text = cli("rules", "list").out
    assert len(text.splitlines()) == len(rows)


@pytest.mark.parametrize("only", ["HCCL", "HCCL0*", "hccl.*"])
def test_a_part_of_the_rules_is_listed(cli, base, only):
    rows = json.loads(cli("rules", "list", "--only", only, "--format", "json").out)
    assert 0 < len(rows) < len(base)
    assert all(row["id"].startswith("HCCL") or row["topic"].startswith("hccl.") for row in rows)


def test_one_rule_is_tested(cli, rules, make_rule):
    rules.put(make_rule("RUN901", "zebra-lost"))
    ran = cli("rules", "test", rules.folder / "own" / "RUN901.yaml", "--rules", rules.folder)
    assert ran.code == 0 and "3" in ran.out


@pytest.mark.parametrize("change", [{"hit": [{"log": "nothing"}]}, {"miss": [{"log": "zebra-lost"}, {"log": "b"}]}])
def test_an_example_that_does_not_hold_is_named(cli, rules, make_rule, change):
    tests = {"hit": [{"log": "zebra-lost"}], "miss": [{"log": "a"}, {"log": "b"}], **change}
    rules.put(make_rule("RUN901", "zebra-lost", tests=tests))
    ran = cli("rules", "test", "--rules", rules.folder)
    assert ran.code == 1 and "RUN901" in ran.out


def test_a_file_that_is_no_rule_is_named_with_its_line(cli, rules):
    path = rules.raw("own/RUN901.yaml", "id: RUN901\nflavour: sweet\n")
    ran = cli("rules", "test", path, "--rules", rules.folder)
    assert ran.code == 1 and f"{path}:" in ran.out


def test_a_new_rule_is_written_and_passes_its_own_linter_once_filled(cli, rules):
    line = (
        "[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113.403 [a.cc:797] zebra wait timeout, role[1] timeout[120 s]"
    )
    ran = cli("rules", "new", "RUN", "--from", line, "--dir", rules.folder / "own", "--rules", rules.folder)
    assert ran.code == 0
    path = rules.folder / "own" / "RUN001.yaml"
    text = path.read_text(encoding="utf-8")
    again = cli("rules", "new", "RUN001", "--from", line, "--dir", rules.folder / "own", "--rules", rules.folder)
    assert again.code == 2 and path.read_text(encoding="utf-8") == text
    path.write_text(
        text.replace("status: draft", "status: stable").replace("topic: healthy", "topic: own.a"), encoding="utf-8"
    )
    ran = cli("rules", "test", path, "--rules", rules.folder)
    assert ran.code == 0, ran.out


@pytest.mark.parametrize(
    "line",
    [
        "",
        "x",
        "12345",
        "[ERROR]",
        'it\'s "quoted" \\d+ (a|b) [c] {d} $e ^f',
        "错误 7",
        "\x1b[31mred",
        "a" * 5000,
        "tab\there",
    ],
)
def test_a_new_rule_from_any_line_is_a_file_that_can_be_read(cli, rules, line):
    from doctor.ruleschema import read_rule

    assert cli("rules", "new", "RUN901", "--from", line, "--dir", rules.folder, "--rules", rules.folder).code == 0
    rule, _ = read_rule(str(rules.folder / "RUN901.yaml"))
    assert rule.status == "draft" and rule.id == "RUN901"


@pytest.mark.parametrize("rule_id", ["FOO1", "RUN1", "RUN0001", "", "../RUN001", "run"])
def test_a_bad_id_for_a_new_rule_is_2(cli, rules, rule_id):
    ran = cli("rules", "new", rule_id, "--dir", rules.folder, "--rules", rules.folder)
    assert ran.code == (0 if rule_id == "run" else 2)


def test_a_rule_is_explained(cli, base):
    from doctor.rulecli import named

    rule = base.ids[0]
    for lang in ("zh", "en"):
        ran = cli("explain", rule.lower(), "--lang", lang)
        assert ran.code == 0 and ran.out.splitlines()[0] == f"{rule}  {named(base.whole(rule)['title'][lang])}"
    assert json.loads(cli("explain", rule, "--format", "json").out)["id"] == rule


def test_every_rule_can_be_explained(cli, base):
    from doctor.rulecli import rule_text

    for rule_id in base.ids:
        for lang in ("zh", "en"):
            assert rule_id in rule_text(base, base.whole(rule_id), lang)


def test_an_alias_is_explained(cli, rules, make_rule):
    rules.put(make_rule("RUN901", "zebra-lost", aliases=["RUN801"]))
    ran = cli("explain", "RUN801", "--rules", rules.folder)
    assert ran.code == 0 and ran.out.startswith("RUN901")


@pytest.mark.parametrize("code", ["EI0002", "ei0002", "507015", "CODE:EI0002"])
def test_an_error_code_is_explained(cli, code):
    ran = cli("explain", code)
    assert ran.code == 0 and code.upper().removeprefix("CODE:") in ran.out
    assert json.loads(cli("explain", code, "--format", "json").out)


@pytest.mark.parametrize("word", ["nonsense", "XX9999", "\x1b[31m", "a" * 10_000, ""])
def test_what_nobody_knows_is_2(cli, word):
    ran = cli("explain", word)
    assert ran.code == 2 and not ran.out and "\x1b" not in ran.err and len(ran.err) < 400


def test_the_demo_runs_from_anywhere(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = cli("demo", "--lang", "en")
    assert ran.code == 1 and "rank 2" in ran.out and os.getcwd() == str(tmp_path)


def test_no_terminal_means_help_and_no_screen(process):
    ran = process()
    assert ran.code == 0 and "diagnose" in ran.out


# ------------------------------------------------------------------ start-up


HEAVY = ("mindspore", "numpy", "textual", "rich", "yaml", "msgspec")


@pytest.mark.parametrize(
    "argv",
    [
        ["--version"],
        ["diagnose", "LOG"],
        ["diagnose", "LOG", "--format", "json"],
        ["explain", "EI0002"],
        ["rules", "list"],
        ["diagnose", str(DEMO), "--lang", "zh"],
    ],
)
def test_a_warm_start_imports_nothing_heavy(process, bad, argv):
    argv = [str(bad) if word == "LOG" else word for word in argv]
    process(*argv)
    code = (
        "import sys; from doctor.__main__ import main\n"
        f"sys.argv[1:] = {argv!r}\n"
        "code = main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr.strip().startswith("[] "), done.stderr


def test_the_version_is_answered_without_argparse():
    code = (
        "import sys; sys.argv[1:] = ['--version']\n"
        "from doctor.__main__ import main; main(); print('argparse' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("doctor ") and done.stdout.splitlines()[1] == "False"


def test_a_read_only_home_costs_time_only(process, bad, tmp_path):
    (tmp_path / "file").write_text("")
    ran = process("diagnose", bad, env={"DOCTOR_CACHE": str(tmp_path / "file" / "x"), "HOME": "/nonexistent"})
    assert ran.code == 1 and not ran.err
