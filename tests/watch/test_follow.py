"""Files that grow, shrink, are renamed, come late and vanish; only what came is read."""

import os

from doctor.watch.follow import PIECE, Follower, lines_before


def changes(follower):
    return [(change.kind, change.file.name.rpartition("/")[2]) for change in follower.look()]


def read_all(follower):
    """{name: what came since the last time}."""
    out = {}
    for file in follower.files:
        while file.behind:
            data = follower.read(file)
            if data is not None:
                out[file.name.rpartition("/")[2]] = out.get(file.name.rpartition("/")[2], b"") + data
    return out


def test_only_what_grew_is_read(tmp_path):
    for n in range(3):
        (tmp_path / f"worker_{n}.log").write_text("one\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    assert read_all(follower) == {f"worker_{n}.log": b"one\n" for n in range(3)}
    with open(tmp_path / "worker_1.log", "a") as file:
        file.write("two\n")
    assert changes(follower) == []
    assert read_all(follower) == {"worker_1.log": b"two\n"}
    assert read_all(follower) == {}


def test_files_and_folders_that_come_late_are_followed_in_natural_order(tmp_path):
    follower = Follower([str(tmp_path)])
    assert follower.look() == []
    (tmp_path / "worker_10.log").write_text("a")
    (tmp_path / "worker_2.log").write_text("b")
    (tmp_path / "rank_0").mkdir()
    (tmp_path / "rank_0" / "x.log").write_text("c")
    (tmp_path / ".hidden.log").write_text("d")
    assert sorted(changes(follower)) == [("new", "worker_10.log"), ("new", "worker_2.log"), ("new", "x.log")]
    assert [f.name.rpartition("/")[2] for f in follower.files] == ["worker_2.log", "worker_10.log", "x.log"]


def test_a_glob_may_match_nothing_at_first(tmp_path):
    follower = Follower([str(tmp_path / "*.log")])
    assert follower.look() == []
    (tmp_path / "a.log").write_text("a")
    (tmp_path / "a.cfg").write_text("a")
    assert changes(follower) == [("new", "a.log")]


def test_a_truncated_file_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("a long first life\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    read_all(follower)
    path.write_text("short\n")
    assert changes(follower) == [("cut", "a.log")]
    assert read_all(follower) == {"a.log": b"short\n"}


def test_a_file_written_anew_to_more_than_its_old_size_is_noticed(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("first life\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    read_all(follower)
    with open(path, "r+") as file:  # the same inode, as copytruncate leaves it
        file.truncate()
        file.write("a second life that is longer\n")
    follower.look()
    assert follower.read(follower.files[0]) is None
    assert read_all(follower) == {"a.log": b"a second life that is longer\n"}


def test_a_rotated_file_is_followed_under_its_new_name_and_its_successor_is_new(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    read_all(follower)
    with open(path, "a") as writer:
        path.rename(tmp_path / "a.log.1")
        path.write_text("successor\n")
        writer.write("last words\n")
    assert sorted(changes(follower)) == [("moved", "a.log.1"), ("new", "a.log")]
    assert read_all(follower) == {"a.log.1": b"last words\n", "a.log": b"successor\n"}


def test_a_file_that_took_a_name_since_the_last_look_is_not_taken_for_the_old_one(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("one\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    file = follower.files[0]
    path.rename(tmp_path / "b.log")
    path.write_text("another file\n")
    assert follower.read(file) == b"" and "another" in file.trouble


def test_a_file_that_vanishes_is_told_once(tmp_path):
    (tmp_path / "a.log").write_text("one\n")
    follower = Follower([str(tmp_path)])
    follower.look()
    (tmp_path / "a.log").unlink()
    assert changes(follower) == [("gone", "a.log")]
    assert follower.look() == [] and follower.files == []


def test_new_begins_at_the_line_that_is_being_written(tmp_path):
    (tmp_path / "a.log").write_text("old\nhalf")
    (tmp_path / "b.log").write_text("old\n")
    follower = Follower([str(tmp_path)], new=True)
    follower.look()
    for name in "ab":
        with open(tmp_path / f"{name}.log", "a") as file:
            file.write(" more\n")
    (tmp_path / "c.log").write_text("from the start\n")
    follower.look()
    assert read_all(follower) == {"a.log": b"half more\n", "b.log": b" more\n", "c.log": b"from the start\n"}
    assert lines_before(follower.files[0], follower.files[0].start, lambda: False) == 1


def test_packed_and_binary_files_are_left_to_the_report(tmp_path):
    (tmp_path / "a.log.gz").write_bytes(b"\x1f\x8b\x08" + bytes(30))
    (tmp_path / "core").write_bytes(b"\x7fELF" + bytes(30))
    follower = Follower([str(tmp_path)])
    follower.look()
    assert [follower.read(file) for file in follower.files] == [b"", b""]
    assert {file.packed for file in follower.files} == {"gz", "binary"}
    assert not any(file.behind for file in follower.files)


def test_links_fifos_and_unreadable_files_stop_nothing(tmp_path):
    (tmp_path / "a.log").write_text("one\n")
    os.symlink(tmp_path / "a.log", tmp_path / "again.log")
    os.symlink(tmp_path / "nowhere", tmp_path / "broken.log")
    os.symlink(tmp_path, tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo.log")
    follower = Follower([str(tmp_path)])
    assert changes(follower) == [("new", "a.log")]


def test_no_more_than_a_piece_is_read_at_a_time_and_no_file_stays_open(tmp_path):
    (tmp_path / "a.log").write_bytes(b"x" * (2 * PIECE))
    follower = Follower([str(tmp_path)])
    follower.look()
    before = len(os.listdir("/proc/self/fd"))
    assert len(follower.read(follower.files[0])) == PIECE
    assert len(os.listdir("/proc/self/fd")) == before
