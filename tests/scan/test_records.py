"""doctor.scan.records: what a line says of itself before its message."""

import calendar
import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.scan import records
from doctor.scan.records import cann_head, cann_seconds, decode, head_of, is_traceback, seconds_of, strip, visible


def utc(year, month, day, hour, minute, second, ms=0):
    """Seconds since the epoch by the standard library, to the millisecond."""
    return calendar.timegm((year, month, day, hour, minute, second)) + ms / 1000


# (line, level, pid, time or None, rank, device): one of each dialect, as its own software prints it
HEADS = {
    "MindSpore C++": (
        "[WARNING] COMMON(6137,7fa0c6eca2c0,python):2026-11-29-11:26:42.736.904 [mindspore/comm_manager.cc:82] "
        "GetInstance] CommManager instance for CPU not found",
        "WARNING",
        6137,
        utc(2026, 11, 29, 11, 26, 42, 736),
        None,
        None,
    ),
    "MindSpore C++, no blank": (
        "[CRITICAL]ANALYZER(7,7f,python):2026-01-02-03:04:05.000.001 [a.cc:1] F] text",
        "CRITICAL",
        7,
        utc(2026, 1, 2, 3, 4, 5),
        None,
        None,
    ),
    "MindSpore Python": (
        "[ERROR] ME(11955:139919087743680,MainProcess):2026-11-29-11:31:43.150.000 [mindspore/_api.py:365] "
        "Worker process 12133 exit with exception. Error code: 1.",
        "ERROR",
        11955,
        utc(2026, 11, 29, 11, 31, 43, 150),
        None,
        None,
    ),
    "MindSpore Python, fractions not padded": (
        "[ERROR] ME(14915:140478077956800,MainProcess):2026-11-29-11:33:58.400.00 [mindspore/_api.py:365] Worker",
        "ERROR",
        14915,
        utc(2026, 11, 29, 11, 33, 58, 400),
        None,
        None,
    ),
    "MindSpore Python, one digit": (
        "[WARNING] ME(1:2,SpawnProcess-1):2026-11-29-11:33:58.800.0 [a.py:1] text",
        "WARNING",
        1,
        utc(2026, 11, 29, 11, 33, 58, 800),
        None,
        None,
    ),
    "MindSpore VLOG": (
        "[V20000] RUNTIME_FRAMEWORK(2570,7f58a9c56b80,python):2026-11-29-10:52:43.010.063 [x.cc:82] Func] text",
        "INFO",
        2570,
        utc(2026, 11, 29, 10, 52, 43, 10),
        None,
        None,
    ),
    "CANN plog": (
        "[ERROR] HCCL(17528,python3):2026-03-18-10:33:52.113.403 [hccl_socket_manager.cc:797] [18744][Wait]"
        "[LinkEstablish]wait socket establish timeout, role[1] rank[1] timeout[120 s]",
        "ERROR",
        17528,
        utc(2026, 3, 18, 10, 33, 52, 113),
        None,
        None,
    ),
    "CANN plog event": (
        "[EVENT] DRV(1,python):2024-01-01-10:00:00.000.000 [x.c:1][devmm] DEV_MEM dev2 mem stats(Bytes): a=APP",
        "EVENT",
        1,
        utc(2024, 1, 1, 10, 0, 0),
        None,
        None,
    ),
    "CANN plog without a pid": (
        "[INFO] TDT(-1,null):2024-02-29-23:59:59.999.999 [x.cpp:1]text",
        "INFO",
        -1,
        utc(2024, 2, 29, 23, 59, 59, 999),
        None,
        None,
    ),
    "torch_npu": (
        "[ERROR] 2025-04-08-18:07:20 (PID:1292363, Device:1, RankID:3) ERR01100 OPS call acl api failed",
        "ERROR",
        1292363,
        utc(2025, 4, 8, 18, 7, 20),
        3,
        1,
    ),
    "torch_npu without a rank": (
        "[W] 2025-04-08-18:07:20 (PID:9, Device:-1, RankID:-1) ERR99999 text",
        "WARNING",
        9,
        utc(2025, 4, 8, 18, 7, 20),
        None,
        None,
    ),
    "mindformers on the screen": (
        "2025-04-07 15:34:27,308 - [mindformers/core/callback/callback.py:529] - INFO - { Epoch:[  1/  2]",
        "INFO",
        None,
        utc(2025, 4, 7, 15, 34, 27, 308),
        None,
        None,
    ),
    "mindformers with a name": (
        "2024-05-08 10:00:00,123 - mindformers[mindformers/core/callback/callback.py:333] - ERROR - text",
        "ERROR",
        None,
        utc(2024, 5, 8, 10, 0, 0, 123),
        None,
        None,
    ),
    "mindformers in a file": (
        "[WARNING] 2025-04-07 15:34:27,308 [mindformers/core/callback/callback.py:529] print_output_info: text",
        "WARNING",
        None,
        utc(2025, 4, 7, 15, 34, 27, 308),
        None,
        None,
    ),
    "PaddleNLP and mindnlp": (
        "[2022-11-23 09:46:28,799] [    INFO] - global step 2000, loss: 8.075826",
        "INFO",
        None,
        utc(2022, 11, 23, 9, 46, 28, 799),
        None,
        None,
    ),
    "DeepSpeed": (
        "[2024-05-30 13:24:58,287] [WARNING] [real_accelerator.py:191:get_accelerator] text",
        "WARNING",
        None,
        utc(2024, 5, 30, 13, 24, 58, 287),
        None,
        None,
    ),
    "transformers": (
        "[INFO|trainer.py:2100] 2024-05-30 13:24:58,287 >> ***** Running training *****",
        "INFO",
        None,
        utc(2024, 5, 30, 13, 24, 58, 287),
        None,
        None,
    ),
    "torch glog": (
        "W0520 09:20:36.761000 281473 torch/distributed/run.py:779] text",
        "WARNING",
        None,
        None,
        None,
        None,
    ),
    "torch glog in brackets": ("[E ProcessGroupHCCL.cpp:828] text", "ERROR", None, None, None, None),
    "Python logging": ("ERROR:root:it broke", "ERROR", None, None, None, None),
    "loguru": (
        "2024-05-30 13:24:58.287 | ERROR    | a.b:main:12 - text",
        "ERROR",
        None,
        utc(2024, 5, 30, 13, 24, 58, 287),
        None,
        None,
    ),
    "a time and nothing else": (
        "[2025-06-22 14:47:00] iteration       10/    5000 | consumed samples: 640 |",
        "",
        None,
        utc(2025, 6, 22, 14, 47, 0),
        None,
        None,
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_level_pid_time_rank_and_device_of_each_dialect_are_read(name):
    line, level, pid, seconds, rank, device = HEADS[name]
    head = head_of(line)
    assert head is not None
    assert (head.level, head.pid, head.rank, head.device) == (level, pid, rank, device)
    assert head.seconds == (pytest.approx(seconds, abs=1e-6) if seconds is not None else None)


@pytest.mark.parametrize(
    "line",
    [
        "",
        " indented",
        "\tindented",
        "Traceback (most recent call last):",
        "RuntimeError: x",
        "plain words",
        "{'loss': 1.6693, 'learning_rate': 0.0001977758764447498, 'epoch': 0.23}",
        "iter 10: loss 3.2101",
        "[1, 2, 3]",
        "- C++ Call Stack: (For framework developers)",
        "# 0 In file /home/a/b.py:10, 34~58",
        "[ERROR] text without a head",
    ],
)
def test_a_line_without_a_head_continues_a_record(line):
    assert head_of(line) is None


def test_a_vllm_head_gives_its_level_and_is_taken_off():
    line = "(Worker_TP0 pid=1070) ERROR 04-30 23:38:48 [multiproc_executor.py:932]         The argument is invalid."
    stripped = strip(line)
    assert (stripped.level, stripped.pid) == ("ERROR", 1070)
    assert stripped.text.strip() == "The argument is invalid."


@pytest.mark.parametrize(
    ("line", "text", "rank", "pid", "file"),
    [
        ("[rank1]: Traceback (most recent call last):", "Traceback (most recent call last):", 1, None, None),
        ("[rank 12]:   File x", "  File x", 12, None, None),
        ("(WorkerDict pid=1234) RuntimeError: x", "RuntimeError: x", None, 1234, None),
        ("(Actor pid=1234, ip=192.0.2.1) RuntimeError: x", "RuntimeError: x", None, 1234, None),
        ("msrun_log/worker_3.log:118:RuntimeError: x", "RuntimeError: x", None, None, "msrun_log/worker_3.log"),
        ("msrun_log/worker_3.log-117-Traceback", "Traceback", None, None, "msrun_log/worker_3.log"),
        ("worker_3.log:[ERROR] ME(1:2,M):x", "[ERROR] ME(1:2,M):x", None, None, "worker_3.log"),
        ("118:[ERROR] ME(1:2,M):x", "[ERROR] ME(1:2,M):x", None, None, None),
        ("node0: [ERROR] HCCL(1,python):x", "[ERROR] HCCL(1,python):x", None, None, None),
        ("2026-11-29T10:52:43.010063Z stdout F [WARNING] ME(1:2,M):x", "[WARNING] ME(1:2,M):x", None, None, None),
        ("2026-11-29T10:52:43+08:00 RuntimeError: x", "RuntimeError: x", None, None, None),
        ("> > RuntimeError: x", "RuntimeError: x", None, None, None),
        ("[3]: RuntimeError: x", "RuntimeError: x", None, None, None),
        ("(W pid=7) [rank3]: a.log:5:RuntimeError: x", "RuntimeError: x", 3, 7, "a.log"),
        ("RuntimeError: x", "RuntimeError: x", None, None, None),
    ],
)
def test_prefixes_of_launchers_grep_and_containers_are_taken_off(line, text, rank, pid, file):
    assert strip(line)[:4] == (text, rank, pid, file)


@pytest.mark.parametrize(
    "line",
    ["[1, 2, 3]", "key: value", "C:\\path\\a.log", "http://a/b.log is here", "1: one", "2026-11-29T10:52:43Z"],
)
def test_what_only_looks_like_a_prefix_stays(line):
    assert strip(line).text == line


@pytest.mark.parametrize(
    ("stamp", "expected"),
    [
        ("2026-11-29-11:31:43.150.000", utc(2026, 11, 29, 11, 31, 43, 150)),
        ("2026-11-29-11:31:43.400.00", utc(2026, 11, 29, 11, 31, 43, 400)),
        ("2026-11-29-11:31:43.800.0", utc(2026, 11, 29, 11, 31, 43, 800)),
        ("2026-11-29-11:31:43.007.900", utc(2026, 11, 29, 11, 31, 43, 7)),
        ("2026-11-29 11:31:43,308", utc(2026, 11, 29, 11, 31, 43, 308)),
        ("2026-11-29 11:31:43.5", utc(2026, 11, 29, 11, 31, 43, 500)),
        ("2026-11-29T11:31:43.123456", utc(2026, 11, 29, 11, 31, 43, 123)),
        ("2026-11-29-11:31:43", utc(2026, 11, 29, 11, 31, 43)),
        ("2000-02-29 00:00:00", utc(2000, 2, 29, 0, 0, 0)),
        ("1970-01-01 00:00:00", 0),
    ],
)
def test_time_stamps_are_exact_to_the_millisecond(stamp, expected):
    assert seconds_of(stamp) == pytest.approx(expected, abs=0.0006)


@pytest.mark.parametrize(
    "stamp",
    ["", "11:31:43", "2026-13-01 00:00:00", "2026-01-32 00:00:00", "2026-01-01 24:00:00", "2026-00-01 00:00:00"],
)
def test_an_impossible_time_is_no_time(stamp):
    assert seconds_of(stamp) is None


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2199, 12, 31)))
def test_times_agree_with_the_calendar(moment):
    expected = calendar.timegm(moment.timetuple())
    assert seconds_of(moment.strftime("%Y-%m-%d-%H:%M:%S")) == expected
    assert seconds_of(f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}") == pytest.approx(
        expected + moment.microsecond // 1000 / 1000, abs=1e-3
    )


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("EI0006: [PID: 123] 2026-03-18-10:33:52.113.403 Getting socket times out.", True),
        ("EI0002: The wait execution of the Notify register times out.", True),
        ("[PID: 1] 2025-11-29-10:00:00.000.000 Communication_Error(EI0011): text", True),
        ("EZ9999[PID: 9] 2025-11-29-10:00:00.000.000 (EZ9999): inner error", True),
        ("        E19999: Inner Error!", True),
        ("        Possible Cause: the peer", False),
        ("        TraceBack (most recent call last):", False),
        ("The code EI0006 is explained in the manual", False),
    ],
)
def test_the_head_of_a_cann_block_is_known(line, begins):
    assert cann_head(line) is begins


def test_a_cann_head_tells_the_time():
    assert cann_seconds("EI0006: [PID: 1] 2026-03-18-10:33:52.113.403 text") == utc(2026, 3, 18, 10, 33, 52, 113)
    assert cann_seconds("EI0006: text") is None


@pytest.mark.parametrize(
    ("line", "begins"),
    [
        ("Traceback (most recent call last):", True),
        ("  Traceback (most recent call last):", True),
        ("TraceBack (most recent call last):", False),
        ("see the Traceback (most recent call last):", False),
    ],
)
def test_pythons_traceback_is_not_canns(line, begins):
    assert is_traceback(line) is begins


def test_each_line_is_decoded_on_its_own():
    assert decode("集合通信超时".encode()) == "集合通信超时"
    assert decode("集合通信超时".encode("gbk")) == "集合通信超时"
    assert decode(b"a\xff\xfeb\xff").startswith("a")


def test_only_the_part_after_the_last_return_is_visible():
    assert visible(b"  5%|#  | 5/100\r  6%|#  | 6/100\n") == "  6%|#  | 6/100"
    assert visible(b"text\r\n") == "text"
    assert visible(b"text\r\r\n") == "text"


def test_colours_and_links_are_taken_off():
    assert visible(b"\x1b[1;31m[ERROR]\x1b[0m a\x1b[K") == "[ERROR] a"
    assert visible(b"\x1b]8;;file:///a\x1b\\a.py\x1b]8;;\x1b\\:3") == "a.py:3"


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("encoding", ["utf-8", "gbk"])
def test_a_long_chinese_line_is_not_garbled_by_the_cut(shift, encoding):
    text = "a" * shift + "内存不足" * 3000
    seen = visible(text.encode(encoding))
    assert len(seen) >= 1000
    assert text.startswith(seen.rstrip("\ufffd"))


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reading_of_a_line(raw):
    text = visible(raw)
    stripped = strip(text)
    head_of(stripped.text), cann_head(stripped.text), cann_seconds(stripped.text)
    assert "\n" not in text or b"\n" in raw


@pytest.mark.parametrize(
    "line",
    [
        "[" * 4096,
        "2026-11-29 11:31:43 " + "- [" * 1360,
        "a.log:" * 680,
        "> " * 2048,
        "(a pid=1) " * 409,
        "\x1b]" + "x" * 4000,
        "[INFO|" + "x" * 4000,
        "[ERROR] M(1," + "x" * 4000,
        "EI0006" * 600,
        "A" + "." * 4000 + ": [",
        "1" * 4000 + ":[",
        " " * 4096,
    ],
)
def test_hostile_lines_are_read_in_linear_time(line):
    began = time.process_time()
    for _ in range(50):
        stripped = strip(visible(line.encode()))
        head_of(stripped.text), cann_head(stripped.text)
    assert time.process_time() - began < 1.0


def test_the_cap_of_a_line_is_in_bytes():
    assert len(visible(b"x" * 100_000)) == records.MAX_LINE
