"""doctor.scan.inputs: what the user names becomes streams of bytes, whatever it is."""

import bz2
import gzip
import io
import lzma
import os
import pickle
import random
import socket
import struct
import subprocess
import sys
import tarfile
import time
import tracemalloc
import zipfile
import zlib

import pytest

from doctor.scan import streams
from doctor.scan.inputs import BrokenStream, Limits, Problem, Source, expand, natural_key, problem

LOG = b"".join(
    b"[ERROR] ME(%d:140,MainProcess):2025-01-01-00:00:00 step %d failed\n" % (i, i * 7919) for i in range(3000)
)


def found(*names, limits=None):
    """Everything that expand yields, each source read before the next is drawn: ({name: bytes}, [problems])."""
    read, problems = {}, []
    for item in expand([str(name) for name in names], limits or Limits()):
        if isinstance(item, Problem):
            problems.append(item)
            continue
        assert item.name not in read
        data, error = drained(item)
        read[item.name] = data
        if error is not None:
            problems.append(problem(item.name, error))
    return read, problems


def drained(source, size=100_000):
    """(all bytes that could be read, the error that ended it or None)."""
    parts = []
    try:
        with source.open() as stream:
            while part := stream.read(size):
                parts.append(part)
    except OSError as error:
        return b"".join(parts), error
    return b"".join(parts), None


def swallowed(source):
    """(how many bytes came, the code of what ended them or None); keeps nothing."""
    size = 0
    try:
        with source.open() as stream:
            while part := stream.read(1 << 20):
                size += len(part)
    except BrokenStream as error:
        return size, error.code
    return size, None


def codes(problems):
    return [item.code for item in problems]


def tar_of(members, mode="w", **options):
    """Bytes of a tar with ``members`` (name, data)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **options) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zip_of(members, method=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def quick_xz(data):
    return lzma.compress(data, preset=0)


def zeros(gibibytes=1):
    """A gzip file of that many GiB of zeros: one fully flushed piece of 16 MiB, repeated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(16 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return gzip.compress(b"")[:10] + piece * (64 * gibibytes) + packer.flush() + bytes(8)


@pytest.fixture(params=["isal", "zlib"])
def engine(request, monkeypatch):
    """Both gzip decoders."""
    if request.param == "isal":
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal", None)
    return request.param


# --- files and folders


def test_a_file_is_delivered_unchanged_and_keeps_its_path(tmp_path):
    path = tmp_path / "worker_0.log"
    path.write_bytes(b"a\r\n\xff\xfejunk\xb4\xed\n" + LOG)
    (source,) = expand([str(path)])
    assert (source.name, source.path, source.size) == (str(path), str(path), path.stat().st_size)
    assert source.mtime == path.stat().st_mtime
    assert drained(source) == drained(source) == (path.read_bytes(), None)
    with source.open() as stream:
        assert stream.readline() == b"a\r\n"


def test_a_folder_is_walked_in_natural_order_files_before_folders(tmp_path):
    for name in ("worker_10.log", "worker_2.log", "rank_10/info.log", "rank_9/info.log", "run.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = [source.name[len(str(tmp_path)) + 1 :] for source in expand([str(tmp_path) + "/"])]
    assert names == ["run.yaml", "worker_2.log", "worker_10.log", "rank_9/info.log", "rank_10/info.log"]


def test_names_inside_the_current_folder_have_no_dot_in_front(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "worker_0.log").write_bytes(LOG)
    assert list(found(".")[0]) == ["worker_0.log"]
    assert list(found("./worker_0.log")[0]) == ["worker_0.log"]


@pytest.mark.parametrize(
    ("mixed", "in_order"),
    [
        (["w10", "w2", "w1"], ["w1", "w2", "w10"]),
        (["a/2", "a b/1", "a/10"], ["a/2", "a/10", "a b/1"]),
        (["x.log.10", "x.log", "x.log.9"], ["x.log", "x.log.9", "x.log.10"]),
        (["1" * 5000, "2", "a", ""], ["", "2", "1" * 5000, "a"]),
        (["w01", "w1", "w00"], ["w00", "w01", "w1"]),
    ],
)
def test_natural_order(mixed, in_order):
    assert sorted(mixed, key=natural_key) == in_order


def test_hidden_version_control_and_cache_folders_are_passed_over(tmp_path):
    for name in (
        ".git/x.log",
        ".hidden.log",
        "__pycache__/x.log",
        "kernel_meta/op.json",
        "kernel_meta/op.log",
        "a.log",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    assert {name.removeprefix(f"{tmp_path}/") for name in found(tmp_path)[0]} == {"a.log", "kernel_meta/op.log"}
    assert list(found(tmp_path / ".hidden.log")[0]) == [str(tmp_path / ".hidden.log")], "but not when named"


def test_binaries_in_a_folder_are_told_by_content_and_a_log_is_never_passed_over(tmp_path):
    noise = random.Random(1).randbytes(4000)
    for name, data in {
        "weights.ckpt": b"\n\x1a\n\x05bias\x12\x11\x08\x80\x08" + bytes(4000),
        "model.safetensors": struct.pack("<Q", 40) + b'{"a":{"dtype":"F32"}}',
        "lib.so": b"\x7fELF\x02\x01" + noise,
        "m.pyc": b"\xa7\r\r\n" + noise,
        "a.npy": b"\x93NUMPY\x01\0v\0{'descr'",
        "a.png": b"\x89PNG\r\n\x1a\n" + noise,
        "unnamed": noise,
    }.items():
        (tmp_path / name).write_bytes(data)
    assert found(tmp_path) == ({}, [Problem(str(tmp_path), "no_logs", "7 files, none of them readable text")])
    assert codes(found(tmp_path / "unnamed", tmp_path / "weights.ckpt")[1]) == ["binary", "binary"]
    rotated = bytes(9000) + b"[ERROR] after copytruncate\n"
    for name, data in {"junk.log": noise, "w.log.1": rotated, "text.ckpt": b"step 1\n", "elf.log": b"\x7fELF"}.items():
        (tmp_path / name).write_bytes(data)
    read, problems = found(tmp_path)
    assert [os.path.basename(name) for name in read] == ["junk.log", "text.ckpt", "w.log.1"]
    assert read[str(tmp_path / "w.log.1")] == rotated
    assert problems == [Problem(str(tmp_path / "elf.log"), "binary", "not text")]


def test_an_empty_file_is_a_source_of_size_zero(tmp_path):
    (tmp_path / "worker_3.log").touch()
    (source,) = expand([str(tmp_path)])
    assert (source.size, drained(source)) == (0, (b"", None))


def test_an_empty_folder_has_no_logs(tmp_path):
    assert codes(found(tmp_path)[1]) == ["no_logs"]


@pytest.mark.parametrize("name", ["nowhere.log", "nul\0.log", "worker_*.log", "a" * 5000])
def test_what_does_not_exist_is_missing_or_unreadable(tmp_path, name):
    read, (only,) = found(f"{tmp_path}/{name}")
    assert read == {} and only.code == ("unreadable" if len(name) > 255 else "missing")


def test_a_glob_is_expanded_unless_a_file_has_that_very_name(tmp_path):
    for name in ("w_10.log", "w_9.log", "w_[1].log", "x.ckpt"):
        (tmp_path / name).write_bytes(b"\0\1\2\3" if name == "x.ckpt" else b"text")
    read, problems = found(tmp_path / "w_*.log")
    assert [os.path.basename(name) for name in read] == ["w_9.log", "w_10.log", "w_[1].log"] and not problems
    assert list(found(tmp_path / "w_[1].log")[0]) == [str(tmp_path / "w_[1].log")]
    assert len(found(tmp_path / "*")[0]) == 3
    assert codes(found(tmp_path / "*.ckpt")[1]) == ["no_logs"]
    assert len(found(f"{tmp_path.parent}/**/w_9.log")[0]) == 1


def test_a_file_named_twice_or_linked_is_read_once_under_its_real_name(tmp_path):
    (tmp_path / "worker_0.log").write_bytes(LOG)
    os.symlink("worker_0.log", tmp_path / "latest.log")
    os.link(tmp_path / "worker_0.log", tmp_path / "zz.log")
    assert list(found(tmp_path, tmp_path / "latest.log", tmp_path)[0]) == [str(tmp_path / "worker_0.log")]
    assert found(tmp_path, tmp_path / "latest.log", tmp_path)[1] == []


def test_symlink_loops_end_and_broken_links_are_told(tmp_path):
    (tmp_path / "a").mkdir()
    os.symlink("..", tmp_path / "a" / "up")
    os.symlink("self", tmp_path / "self")
    os.symlink("gone", tmp_path / "dangling.log")
    (tmp_path / "a" / "w.log").write_text("x")
    read, problems = found(tmp_path)
    assert list(read) == [str(tmp_path / "a" / "w.log")]
    assert problems == [
        Problem(str(tmp_path / "dangling.log"), "missing", "broken symbolic link"),
        Problem(str(tmp_path / "self"), "unreadable", "broken symbolic link"),
    ]


def test_fifos_and_sockets_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "sock"))
    server.close()
    (tmp_path / "w.log").write_text("x")
    assert codes(found(tmp_path)[1]) == ["not_regular", "not_regular"]
    assert codes(found(tmp_path / "fifo", "/dev/null")[1]) == ["not_regular", "not_regular"]


def test_a_file_that_became_a_fifo_does_not_hang(tmp_path):
    (tmp_path / "w.log").write_text("x")
    (source,) = expand([str(tmp_path / "w.log")])
    os.remove(tmp_path / "w.log")
    os.mkfifo(tmp_path / "w.log")
    assert drained(source)[1].code == "not_regular"


def test_a_denied_file_or_folder_is_a_problem_and_the_rest_is_read(tmp_path, monkeypatch):
    (tmp_path / "shut").mkdir()
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_text(name)
    real_open, real_scan = os.open, os.scandir

    def guard(real, word):
        def call(path, *args, **options):
            if str(path).endswith(word):
                raise PermissionError(13, "Permission denied", path)
            return real(path, *args, **options)

        return call

    monkeypatch.setattr(os, "open", guard(real_open, "b.log"))
    monkeypatch.setattr(os, "scandir", guard(real_scan, "shut"))
    read, problems = found(tmp_path)
    assert [os.path.basename(name) for name in read] == ["a.log", "c.log"]
    assert problems == [
        Problem(str(tmp_path / "b.log"), "denied", "Permission denied"),
        Problem(str(tmp_path / "shut"), "denied", "Permission denied"),
    ]


def test_a_file_that_vanishes_raises_an_os_error_that_becomes_missing(tmp_path):
    for name, data in {"a.log": LOG, "b.log": gzip.compress(LOG)}.items():
        (tmp_path / name).write_bytes(data)
        (source,) = expand([str(tmp_path / name)])
        os.remove(tmp_path / name)
        assert problem(source.name, drained(source)[1]).code == "missing"


def test_five_thousand_files_are_found_in_a_second(tmp_path):
    for i in range(5000):
        (tmp_path / f"worker_{i}.log").write_bytes(b"[INFO] ok\n")
    began = time.perf_counter()
    assert sum(isinstance(item, Source) for item in expand([str(tmp_path)])) == 5000
    assert time.perf_counter() - began < 1


def test_limits_on_the_number_of_files(tmp_path):
    for i in range(9):
        (tmp_path / f"{i}.log").write_text("x")
        (tmp_path / f"{i}.bin").write_bytes(b"\x7fELF")
    read, problems = found(tmp_path, tmp_path / "0.log", limits=Limits(max_files=5))
    assert len(read) == 5 and codes(problems) == ["too_many"]
    assert len(found(tmp_path, limits=Limits(max_files=9))[0]) == 9
    assert codes(found(tmp_path, limits=Limits(max_files=1))[1]) == ["too_many"]
    (tmp_path / "many.tar").write_bytes(tar_of((f"{i}.bin", b"\x7fELF") for i in range(30)))
    assert codes(found(tmp_path / "many.tar", limits=Limits(max_files=2))[1]) == ["too_many"]


def test_a_source_of_a_file_can_be_sent_to_another_process(tmp_path):
    (tmp_path / "a.log").write_bytes(LOG)
    (tmp_path / "b.log").write_bytes(gzip.compress(LOG))
    for source in expand([str(tmp_path)]):
        assert drained(pickle.loads(pickle.dumps(source))) == (LOG, None)
    error = pickle.loads(pickle.dumps(BrokenStream("bomb", "big")))
    assert (error.code, error.detail) == ("bomb", "big")


def test_terminal_controls_in_names_are_not_shown(tmp_path):
    (tmp_path / "a\x1b[31m\n\u202eb.log").write_text("x")
    with open(os.fsencode(tmp_path) + b"/\xb4.log", "wb") as file:
        file.write(b"y")
    assert found(tmp_path)[0] == {f"{tmp_path}/a[31mb.log": b"x", f"{tmp_path}/\ufffd.log": b"y"}


# --- compressed files


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["worker_0.log.1", "x.gz", "worker.log.xz"])
def test_compression_is_told_by_content_not_by_name(tmp_path, pack, name, engine):
    path = tmp_path / name
    path.write_bytes(pack(LOG) + pack(b"") + pack(b"second stream\n"))
    (source,) = expand([str(path)])
    assert (source.name, source.path, source.size) == (str(path), None, None)
    for size in (1, 1000, 1 << 20, -1):
        if size == 1:
            with source.open() as stream:
                assert b"".join(stream.read(1) for _ in range(100)) == LOG[:100]
        else:
            assert drained(source, size) == (LOG + b"second stream\n", None)
    with source.open() as stream:
        assert list(stream) == (LOG + b"second stream\n").splitlines(keepends=True)


def test_plain_text_named_gz_is_plain_text(tmp_path):
    (tmp_path / "x.gz").write_bytes(LOG)
    (source,) = expand([str(tmp_path / "x.gz")])
    assert source.path and drained(source) == (LOG, None)


def test_gzip_headers_with_every_optional_field_and_padding(tmp_path, engine):
    body = gzip.compress(LOG)[10:]
    header = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\0abc" + b"name\0" + b"n" * 100_000 + b"\0" + b"\x12\x34"
    (tmp_path / "x").write_bytes(header + body + bytes(700))
    assert found(tmp_path / "x") == ({str(tmp_path / "x"): LOG}, [])


@pytest.mark.parametrize("pack", [gzip.compress, quick_xz, bz2.compress])
def test_a_truncated_file_delivers_all_that_can_be_decompressed(tmp_path, pack, engine):
    data = random.Random(2).randbytes(1_500_000).hex().encode()  # several bz2 blocks
    whole = pack(data)
    (tmp_path / "x").write_bytes(whole[: len(whole) * 2 // 3])
    (source,) = expand([str(tmp_path / "x")])
    got, error = drained(source, 1 << 20)
    assert isinstance(error, BrokenStream) and error.code == "broken_archive" and "early" in error.detail
    assert data.startswith(got)
    if pack is gzip.compress:
        most = len(zlib.decompressobj(31).decompress(whole[: len(whole) * 2 // 3]))
        assert len(got) >= most - (engine == "isal")  # isal may withhold one byte
    assert len(got) > len(data) // 3


def test_a_gzip_without_its_last_bytes_or_with_a_wrong_sum_keeps_its_last_line(tmp_path, engine):
    whole = gzip.compress(LOG)
    for damaged in (
        whole[:-8],
        whole[:-3],
        whole[:-8] + b"\1\2\3\4" + whole[-4:],
        whole + b"garbage",
        whole + whole[:5],
    ):
        (tmp_path / "x").write_bytes(damaged)
        read, (only,) = found(tmp_path / "x")
        assert read == {str(tmp_path / "x"): LOG} and only.code == "broken_archive"


def test_damage_in_the_middle_keeps_what_comes_before(tmp_path, engine):
    whole = bytearray(gzip.compress(random.Random(3).randbytes(500_000).hex().encode()))
    middle = len(whole) // 2
    whole[middle : middle + 2000] = b"\xff" * 2000
    (tmp_path / "x").write_bytes(whole)
    (source,) = expand([str(tmp_path / "x")])
    got, error = drained(source)
    assert error.code == "broken_archive" and len(got) > 400_000


def test_nothing_but_a_compressed_header_is_a_problem(tmp_path):
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LOG)[:12])
    assert found(tmp_path / "x.log.gz") == (
        {},
        [Problem(str(tmp_path / "x.log.gz"), "broken_archive", "compressed data ends early")],
    )


def test_an_empty_compressed_file_is_an_empty_source(tmp_path):
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(b""))
    (source,) = expand([str(tmp_path)])
    assert (source.size, drained(source)) == (0, (b"", None))


def test_a_bomb_ends_early_in_little_memory(tmp_path, engine):
    (tmp_path / "x.log.gz").write_bytes(zeros())
    assert (tmp_path / "x.log.gz").stat().st_size < 2 << 20
    tracemalloc.start()
    began = time.process_time()
    (source,) = expand([str(tmp_path)])
    size, code = swallowed(source)
    spent, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert code == "bomb"
    assert 256 << 20 <= size < 260 << 20
    assert spent < 4 and peak < 8 << 20


def test_a_bomb_in_a_tar_a_zip_or_bz2_ends_too(tmp_path):
    small = Limits(max_member_bytes=1 << 20)
    bomb = bz2.compress(bytes(64 << 20))
    (tmp_path / "a.bz2").write_bytes(bomb)
    (tmp_path / "b.tar").write_bytes(tar_of([("x.log", bomb), ("y.log", b"fine\n")]))
    (tmp_path / "c.zip").write_bytes(zip_of([("x.log", bytes(64 << 20))], zipfile.ZIP_BZIP2))
    tracemalloc.start()
    for name in ("a.bz2", "b.tar!x.log", "c.zip!x.log"):
        for item in expand([str(tmp_path / name.partition("!")[0])], small):
            if name.endswith("bz2") and isinstance(item, Problem):
                assert item.code == "binary"  # named neither log nor text, and all zeros
            elif item.name == str(tmp_path / name):
                assert swallowed(item) == (1 << 20, "bomb")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20  # bz2 itself needs up to 9 MB


def test_zip_members_that_share_their_bytes_are_a_bomb_together(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "_RATIO_FLOOR", 1 << 20)
    raw = zip_of([(f"{i:04}.log", LOG if i == 0 else b"") for i in range(2000)])
    end = raw.rindex(b"PK\5\6")
    at = directory = int.from_bytes(raw[end + 16 : end + 20], "little")
    entries, first = bytearray(raw), raw[directory + 16 : directory + 28]
    while entries[at : at + 4] == b"PK\1\2":  # let every entry point at the first member
        entries[at + 8 : at + 12] = raw[directory + 8 : directory + 12]
        entries[at + 16 : at + 28] = first
        entries[at + 42 : at + 46] = bytes(4)
        at += 46 + sum(struct.unpack("<3H", entries[at + 28 : at + 34]))
    (tmp_path / "x.zip").write_bytes(entries)
    read, problems = found(tmp_path / "x.zip", limits=Limits(max_ratio=20))
    assert "bomb" in codes(problems)
    assert sum(map(len, read.values())) < 40 * len(raw)


def test_an_xz_that_asks_for_gigabytes_is_refused(tmp_path):
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}])
    raw = bytearray(packer.compress(LOG) + packer.flush())
    at = raw.index(b"\x21\x01", 12)  # filter id, size of properties, then the dictionary's size
    raw[at + 2] = 36  # 1 GiB
    assert filters[0]["dict_size"] == 2 << (36 // 2 + 11)
    size = (raw[12] + 1) * 4
    raw[12 + size - 4 : 12 + size] = zlib.crc32(raw[12 : 12 + size - 4]).to_bytes(4, "little")
    (tmp_path / "x.log.xz").write_bytes(raw)
    assert codes(found(tmp_path)[1]) == ["bomb"]


@pytest.mark.parametrize(("magic", "name"), [(b"\x28\xb5\x2f\xfd", "zstd"), (b"7z\xbc\xaf\x27\x1c", "7z")])
def test_other_archivers_are_named(tmp_path, magic, name):
    (tmp_path / "x").write_bytes(magic + bytes(100))
    assert found(tmp_path)[1] == [
        Problem(str(tmp_path / "x"), "unreadable", f"{name} data is not supported; unpack it first")
    ]


# --- encodings


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_utf16_becomes_utf8(tmp_path, encoding, pack):
    text = "[ERROR] 集合通信超时 \U0001f525\r\n" * 5000
    (tmp_path / "x.log").write_bytes(pack("\ufeff".encode(encoding) + text.encode(encoding)))
    (source,) = expand([str(tmp_path)])
    assert (source.path, source.size) == (None, None)
    assert drained(source, 4097) == (text.encode(), None)


def test_utf16_that_is_cut_in_a_character_is_marked(tmp_path):
    (tmp_path / "x.log").write_bytes(b"\xff\xfea\0b\0c")
    assert found(tmp_path)[0] == {str(tmp_path / "x.log"): "ab\ufffd".encode()}


# --- archives

MEMBERS = [("./msrun_log/worker_10.log", LOG), ("msrun_log/worker_2.log", LOG * 9), ("msrun_log/empty.log", b"")]


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz", "w:bz2"])
@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_tar(tmp_path, mode, layout):
    (tmp_path / "logs.tgz").write_bytes(tar_of([*MEMBERS, ("w.ckpt", b"\0\1\2" * 90)], mode, format=layout))
    read, problems = found(tmp_path / "logs.tgz")
    assert read == {f"{tmp_path}/logs.tgz!{name.removeprefix('./')}": data for name, data in MEMBERS}
    assert problems == []
    sizes = [(item.size, item.path, item.mtime) for item in expand([str(tmp_path)])]
    assert sizes == [(len(data), None, 1_700_000_000) for _, data in MEMBERS]


@pytest.mark.parametrize("layout", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_with_long_chinese_names(tmp_path, layout):
    name = "训练日志/" + "长" * 60 + "/" + "d" * 120 + "/worker_0.log"
    (tmp_path / "x.tar").write_bytes(tar_of([(name, LOG), ("after.log", b"x")], format=layout))
    assert found(tmp_path)[0] == {f"{tmp_path}/x.tar!{name}": LOG, f"{tmp_path}/x.tar!after.log": b"x"}


def test_tar_from_gnu_tar_with_links_folders_and_holes(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.log").write_bytes(LOG)
    os.link(tmp_path / "run" / "a.log", tmp_path / "run" / "b.log")
    os.symlink("a.log", tmp_path / "run" / "c.log")
    with open(tmp_path / "run" / "d.log", "wb") as file:
        for at in range(1, 12):
            file.seek(at << 20)
            file.write(b"part %d\n" % at + b"." * 4088)
    subprocess.run(["tar", "-C", tmp_path, "-S", "-cf", tmp_path / "x.tar", "run"], check=True)
    read, problems = found(tmp_path / "x.tar")
    assert {name.rpartition("/")[2] for name in read} <= {"a.log", "b.log", "d.log"} and len(read) == 2
    assert LOG in read.values() and problems == []
    sparse = read[f"{tmp_path}/x.tar!run/d.log"].replace(b"\0", b"")
    assert [sparse.count(b"part %d\n" % at) for at in range(1, 12)] == [1] * 11


def test_a_truncated_tar_gz_delivers_the_members_it_has(tmp_path, engine):
    text = random.Random(4).randbytes(600_000).hex().encode()
    whole = tar_of([("a.log", LOG), ("b.log", text), ("c.log", LOG)], "w:gz")
    (tmp_path / "x.tgz").write_bytes(whole[: len(whole) // 2])
    read, problems = found(tmp_path / "x.tgz")
    assert read[f"{tmp_path}/x.tgz!a.log"] == LOG
    part = read[f"{tmp_path}/x.tgz!b.log"]
    assert text.startswith(part) and len(part) > 400_000
    assert [(item.name, item.code) for item in problems] == [
        (f"{tmp_path}/x.tgz!b.log", "broken_archive"),
        (f"{tmp_path}/x.tgz", "broken_archive"),
    ]
    names = [item.name for item in expand([str(tmp_path / "x.tgz")])]
    assert names == [f"{tmp_path}/x.tgz!a.log", f"{tmp_path}/x.tgz!b.log", f"{tmp_path}/x.tgz"], "also when not read"


def test_a_tiny_truncated_tar_gz_delivers_the_members_it_has(tmp_path):
    (tmp_path / "x.tgz").write_bytes(tar_of([("a.log", b"one\n"), ("b.log", b"two\n")], "w:gz")[:-9])
    read, problems = found(tmp_path / "x.tgz")
    assert list(read.values()) == [b"one\n", b"two\n"]
    assert set(codes(problems)) <= {"broken_archive"}


@pytest.mark.parametrize("cut", [600, 513 + 300_000, 512 + 700_000])
def test_a_truncated_plain_tar_says_so_read_or_not(tmp_path, cut):
    (tmp_path / "x.tar").write_bytes(tar_of([("a.log", b"y" * 1_000_000), ("b.log", LOG)])[:cut])
    (name,), problems = found(tmp_path / "x.tar")
    assert name.endswith("!a.log") and codes(problems) == ["broken_archive"] * 2
    assert codes([item for item in expand([str(tmp_path)]) if isinstance(item, Problem)]) == ["broken_archive"]


@pytest.mark.parametrize("cut", [1025, 1100, 1140, 1535])
def test_a_tar_cut_within_a_header_says_so(tmp_path, cut):
    (tmp_path / "x.tar").write_bytes(tar_of([("a.log", b"x"), ("b.log", b"y")])[:cut])
    read, problems = found(tmp_path)
    assert list(read.values()) == [b"x"] and codes(problems) == ["broken_archive"]


def test_a_zip_member_without_a_name_is_passed_over(tmp_path):
    (tmp_path / "x.zip").write_bytes(zip_of([("N.log", LOG), ("b.log", b"y")]).replace(b"N.log", b"\0.log"))
    assert list(found(tmp_path)[0].values()) == [b"y"]


def test_a_damaged_tar_header_is_told(tmp_path):
    raw = bytearray(tar_of([("a.log", b"x"), ("b.log", b"y")]))
    raw[1024 + 5] ^= 1
    (tmp_path / "x.tar").write_bytes(raw)
    read, problems = found(tmp_path)
    assert list(read.values()) == [b"x"] and codes(problems) == ["broken_archive"]


@pytest.mark.parametrize("size", [b"\x80" + b"\x7f" * 11, b"\xff" * 12, b"77777777777\0"])
def test_absurd_sizes_in_a_tar_cost_nothing(tmp_path, size):
    for kind in (b"0", b"L", b"x"):
        block = bytearray(tar_of([("a.log", b"")])[:512])
        block[124:136], block[156:157], block[148:156] = size, kind, b" " * 8
        block[148:156] = b"%06o\0 " % sum(block)
        (tmp_path / "x.tar").write_bytes(bytes(block) + bytes(512))
        tracemalloc.start()
        assert "broken_archive" in codes(found(tmp_path / "x.tar")[1])
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


@pytest.mark.parametrize(
    "record", [b"0 path=x\n", b"1 path=x\n", b"99999999 path=x\n", b"path=x\n", b"\xff\xff=", b"=" * 300]
)
def test_malformed_records_of_a_pax_header_end_its_reading(tmp_path, record):
    raw = tar_of([("长" * 60 + ".log", LOG)], format=tarfile.PAX_FORMAT)
    (tmp_path / "x.tar").write_bytes(raw[:512] + record + raw[512 + len(record) :])
    assert list(found(tmp_path)[0].values()) == [LOG]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip_in_natural_order(tmp_path, method, engine):
    (tmp_path / "logs.zip").write_bytes(zip_of([*MEMBERS, ("weights.bin", b"\0\1\2")], method))
    read, problems = found(tmp_path / "logs.zip")
    wanted = [("empty.log", b""), ("worker_2.log", LOG * 9), ("worker_10.log", LOG)]
    # "./" is part of a member's key as stored, so the order is checked on equal prefixes below
    assert read == {f"{tmp_path}/logs.zip!msrun_log/{name}": data for name, data in wanted} and problems == []
    (tmp_path / "logs.zip").write_bytes(zip_of([(f"w_{i}.log", b"x") for i in (10, 9, 1)], method))
    assert [name.rpartition("!")[2] for name in found(tmp_path)[0]] == ["w_1.log", "w_9.log", "w_10.log"]


def test_a_zip_from_a_chinese_windows_shows_its_names(tmp_path):
    raw = zip_of([("AAAAAAAA.log", LOG)]).replace(b"AAAAAAAA", "训练日志".encode("gb18030"))
    (tmp_path / "x.zip").write_bytes(raw)
    assert found(tmp_path)[0] == {f"{tmp_path}/x.zip!训练日志.log": LOG}


def test_a_zip_member_kept_too_long_is_told_not_to_be_read(tmp_path):
    (tmp_path / "x.zip").write_bytes(zip_of([("a.log", LOG)]))
    items = expand([str(tmp_path)])
    source = next(items)
    assert list(items) == []
    assert drained(source)[1].code == "unreadable"


def test_a_broken_an_encrypted_and_an_unsupported_zip(tmp_path):
    whole = zip_of([("a.log", LOG), ("b.log", LOG)])
    (tmp_path / "x.zip").write_bytes(whole[:-30])
    assert codes(found(tmp_path / "x.zip")[1]) == ["broken_archive"]
    locked = bytearray(whole)
    for at in (locked.index(b"PK\1\2"), locked.rindex(b"PK\1\2")):
        locked[at + 8] |= 1
    (tmp_path / "x.zip").write_bytes(locked)
    assert found(tmp_path / "x.zip") == ({}, [Problem(f"{tmp_path}/x.zip", "encrypted", "2 members need a password")])
    (tmp_path / "x.zip").write_bytes(zip_of([("a.log", LOG)], zipfile.ZIP_LZMA))
    assert [(item.name, item.code) for item in found(tmp_path)[1]] == [(f"{tmp_path}/x.zip!a.log", "unreadable")]
    damaged = bytearray(zip_of([("a.log", LOG)], zipfile.ZIP_STORED))
    damaged[500] ^= 1
    (tmp_path / "x.zip").write_bytes(damaged)
    read, problems = found(tmp_path)
    assert [len(data) for data in read.values()] == [len(LOG)] and codes(problems) == ["broken_archive"]


def test_a_zip_with_a_huge_directory_is_not_loaded(tmp_path):
    (tmp_path / "x.zip").write_bytes(zip_of([(f"{i}" * 400 + ".log", b"x") for i in range(200)]))
    monkey = Limits(max_files=2)
    assert codes(found(tmp_path, limits=monkey)[1]) == ["too_many"]


def test_archives_within_archives_down_to_the_limit(tmp_path):
    inner = tar_of([("w.log", LOG)], "w:gz")
    (tmp_path / "a.tar").write_bytes(tar_of([("w.log.gz", gzip.compress(LOG)), ("u.log.bz2", bz2.compress(LOG))]))
    (tmp_path / "b.zip").write_bytes(zip_of([("node1/run.tgz", inner)]))
    (tmp_path / "c.tgz").write_bytes(tar_of([("x.zip", zip_of([("w.log", LOG)])), ("y.log", b"y")], "w:gz"))
    (tmp_path / "d.zip").write_bytes(
        zip_of([("d.tgz", tar_of([("w.log.gz", gzip.compress(LOG)), ("v.log", LOG)], "w:gz"))])
    )
    read, problems = found(tmp_path)
    assert {name.removeprefix(f"{tmp_path}/"): data for name, data in read.items()} == {
        "a.tar!w.log.gz": LOG,
        "a.tar!u.log.bz2": LOG,
        "b.zip!node1/run.tgz!w.log": LOG,
        "c.tgz!x.zip!w.log": LOG,
        "c.tgz!y.log": b"y",
        "d.zip!d.tgz!v.log": LOG,
    }
    assert [(item.name, item.code) for item in problems] == [(f"{tmp_path}/d.zip!d.tgz!w.log.gz", "bomb")]
    assert len(found(tmp_path, limits=Limits(max_depth=3))[0]) == 7
    assert codes(found(tmp_path / "a.tar", limits=Limits(max_depth=0))[1]) == ["bomb"]


def test_a_bz2_member_whose_first_block_is_longer_than_the_head_that_is_kept(tmp_path):
    text = random.Random(5).randbytes(900_000).hex().encode()
    (tmp_path / "x.tar").write_bytes(tar_of([("w.log.bz2", bz2.compress(text)), ("z.log", LOG)]))
    assert list(found(tmp_path)[0].values()) == [text, LOG]


def test_hidden_members_are_passed_over_and_an_archive_without_logs_says_so(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of([(".git/a.log", LOG), ("__MACOSX/b.log", LOG), ("a/.c.log", LOG)]))
    assert codes(found(tmp_path / "x.tar")[1]) == ["no_logs"]
    (tmp_path / "y.tar").write_bytes(tar_of([]))
    (tmp_path / "x.zip").write_bytes(zip_of([]))
    assert codes(found(tmp_path / "x.zip")[1]) == ["no_logs"]
    (tmp_path / "w.npz").write_bytes(zip_of([("a.log", LOG)]))
    assert codes(found(tmp_path)[1]) == ["no_logs"], "weights in a zip are passed over in a folder"


def test_members_cannot_name_a_place_or_a_colour(tmp_path):
    (tmp_path / "x.tar").write_bytes(tar_of([("../../etc/\x1b[2Jpasswd", b"text"), ("/abs\n.log", b"text")]))
    before = sorted(os.listdir(tmp_path.parent))
    assert list(found(tmp_path)[0]) == [f"{tmp_path}/x.tar!../../etc/[2Jpasswd", f"{tmp_path}/x.tar!abs.log"]
    assert sorted(os.listdir(tmp_path.parent)) == before


def test_a_member_can_be_opened_again_while_little_was_read_and_not_after_the_next_was_drawn(tmp_path):
    big = LOG * 20
    (tmp_path / "x.tgz").write_bytes(tar_of([("a.log", big), ("b.log", big)], "w:gz"))
    items = expand([str(tmp_path)])
    source = next(items)
    with source.open() as stream:
        assert stream.read(1000) == big[:1000]
    kept = source.open()
    assert kept.read(1000) == big[:1000]
    assert drained(source) == (big, None)
    assert drained(source)[1].code == "unreadable", "used up"
    second = next(items)
    with pytest.raises(BrokenStream):
        list(kept)
    held = second.open()
    assert held.read(10) == big[:10]
    assert list(items) == []
    with pytest.raises(BrokenStream):
        list(held)


def test_a_thousand_members_of_a_tar_gz_take_linear_time(tmp_path):
    (tmp_path / "x.tgz").write_bytes(
        tar_of([(f"w_{i}.log", LOG[:20_000]) for i in range(1000)], "w:gz", compresslevel=1)
    )
    began = time.perf_counter()
    assert len(found(tmp_path)[0]) == 1000
    assert time.perf_counter() - began < 2


def test_no_hostile_bytes_raise_anything_but_broken_stream(tmp_path):
    rng = random.Random(6)
    seeds = [
        tar_of(MEMBERS[:2]), tar_of(MEMBERS[:2], "w:gz"), zip_of(MEMBERS), zip_of(MEMBERS, zipfile.ZIP_BZIP2),
        gzip.compress(LOG), lzma.compress(LOG), bz2.compress(LOG), "\ufeff集合".encode("utf-16-le") * 99,
    ]  # fmt: skip
    for i in range(400):
        raw = bytearray(seeds[i % len(seeds)])
        for _ in range(rng.randint(1, 8)):
            at = rng.choice(
                [rng.randrange(len(raw)), rng.randrange(min(600, len(raw))), -1 - rng.randrange(min(300, len(raw)))]
            )
            raw[at] = rng.randrange(256)
        path = tmp_path / f"{i}.log"
        path.write_bytes(raw[: rng.randint(1, len(raw))] if i % 3 else raw)
        read, problems = found(path)
        assert read or problems
        path.unlink()


# --- standard input


class Stdin:
    """Stands for sys.stdin: a byte stream that may claim to be a terminal."""

    def __init__(self, data, terminal=False, step=None):
        self.buffer = self
        self.data, self.terminal, self.step = io.BytesIO(data), terminal, step
        self.calls = 0

    def isatty(self):
        return self.terminal

    def read1(self, size=-1):
        self.calls += 1
        return self.data.read(min(size, self.step) if self.step else size)

    def read(self, size=-1):
        raise AssertionError("must not wait for the whole")


def stdin_is(monkeypatch, *args, **options):
    stdin = Stdin(*args, **options)
    monkeypatch.setattr(sys, "stdin", stdin)
    return stdin


def test_stdin_is_delivered_as_it_comes(monkeypatch):
    stdin = stdin_is(monkeypatch, LOG, step=100)
    (source,) = expand(["-", "-"])
    assert (source.name, source.path, source.size) == ("<stdin>", None, None)
    stream = source.open()
    assert stream.read(1 << 20) == LOG[:100] and stdin.calls == 1
    assert stream.read(30) + stream.read(1 << 20) == LOG[100:200] and stdin.calls == 2
    assert stream.read() == LOG[200:] and stream.read(10) == b""
    assert drained(source)[1].code == "unreadable"


def test_nothing_is_read_from_a_terminal_before_it_is_opened(monkeypatch):
    stdin = stdin_is(monkeypatch, b"pasted\n", terminal=True)
    (source,) = expand(["-"])
    assert stdin.calls == 0
    assert drained(source) == (b"pasted\n", None)


@pytest.mark.parametrize("step", [None, 10_000])
def test_compressed_stdin_and_archives_on_it(monkeypatch, step):
    stdin_is(monkeypatch, gzip.compress(LOG), step=step)
    assert found("-")[0] == {"<stdin>": LOG}
    stdin_is(monkeypatch, "\ufeff集合\n".encode("utf-16-le"), step=step)
    assert found("-")[0] == {"<stdin>": "集合\n".encode()}
    for raw in (tar_of(MEMBERS), tar_of(MEMBERS, "w:gz"), zip_of(MEMBERS)):
        stdin_is(monkeypatch, raw, step=step)
        assert set(found("-")[0]) == {f"<stdin>!{name.removeprefix('./')}" for name, _ in MEMBERS}


def test_empty_binary_closed_and_absent_stdin(monkeypatch):
    stdin_is(monkeypatch, b"")
    (source,) = expand(["-"])
    assert (source.size, drained(source)) == (0, (b"", None))
    stdin_is(monkeypatch, b"\x7fELF" + bytes(100))
    assert codes(found("-")[1]) == ["binary"]
    monkeypatch.setattr(sys, "stdin", None)
    assert codes(found("-")[1]) == ["missing"]
    closed = io.TextIOWrapper(io.BytesIO(b"x"))
    monkeypatch.setattr(sys, "stdin", closed)
    closed.buffer.close()
    assert codes(found("-")[1]) in (["missing"], ["unreadable"])


def test_a_pipe_the_shell_made_is_read_like_stdin():
    reader, writer = os.pipe()
    os.write(writer, LOG[:5000])
    os.close(writer)
    assert found(f"/dev/fd/{reader}")[0] == {f"/dev/fd/{reader}": LOG[:5000]}
    os.close(reader)


# --- the price of importing it


def test_importing_it_loads_no_archive_module():
    heavy = "tarfile zipfile gzip lzma bz2 zlib isal glob tempfile pathlib dataclasses subprocess"
    code = (
        f"import sys, doctor.scan.inputs; print([m for m in {heavy.split()!r} if m in sys.modules and m not in before])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; before = set(sys.modules); " + code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
