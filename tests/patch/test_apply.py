"""Writing a patch: what a file is afterwards, what is refused, what a kill leaves, and the way back."""

import os
import signal
import stat
import time

import pytest

from doctor.model import Edit
from doctor.patch import apply, diff, journal, plan
from doctor.patch.spans import Refused


@pytest.fixture
def book(tmp_path):
    """A journal of its own."""
    return journal.Journal(str(tmp_path / "journal"))


@pytest.fixture
def config(tmp_path):
    """A small file."""
    path = tmp_path / "work" / "c.yaml"
    path.parent.mkdir()
    path.write_bytes(b"a: 1\r\nb: 2\r\n")
    return path


def patch_of(path, key="a", new="7"):
    """A patch of one key."""
    return plan.plan([Edit(str(path), key, "", new)], ["CFG999"])


def code(call, *args):
    """The code of the refusal of a call."""
    with pytest.raises(Refused) as caught:
        call(*args)
    return caught.value.code


def test_a_patch_is_written_and_put_back_to_the_byte(config, book):
    entry = apply.apply(patch_of(config), book)
    assert config.read_bytes() == b"a: 7\r\nb: 2\r\n"
    (seen,) = book.entries()
    assert (seen.id, seen.state, seen.rules, seen.files[0].edits) == (entry, "done", ("CFG999",), (("a", "1", "7"),))
    assert apply.undo(book, entry[:13]).id == entry
    assert config.read_bytes() == b"a: 1\r\nb: 2\r\n"
    assert book.entries()[0].state == "undone"
    assert code(apply.undo, book, entry) == "undone"
    assert code(apply.undo, book, "") == "no_entries"
    assert code(apply.undo, book, "nothing") == "no_entry"


def test_mode_and_links_stay(config, book, tmp_path):
    config.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(config)
    apply.apply(patch_of(link), book)
    assert link.is_symlink() and config.read_bytes() == b"a: 7\r\nb: 2\r\n"
    assert stat.S_IMODE(config.stat().st_mode) == 0o640
    assert os.listdir(config.parent) == ["c.yaml"]
    apply.undo(book)
    assert link.is_symlink() and config.read_bytes() == b"a: 1\r\nb: 2\r\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(config, book):
    os.chown(config, 12345, 12346)
    apply.apply(patch_of(config), book)
    assert (config.stat().st_uid, config.stat().st_gid) == (12345, 12346)


def test_a_file_changed_in_between_is_left_alone(config, book):
    made = patch_of(config)
    config.write_bytes(b"a: 1\r\nb: 3\r\n")
    assert code(apply.apply, made, book) == "changed_since"
    assert config.read_bytes() == b"a: 1\r\nb: 3\r\n" and not book.entries()


def test_a_file_changed_after_the_patch_is_not_put_back(config, book):
    apply.apply(patch_of(config), book)
    config.write_bytes(b"mine: 1\n")
    assert code(apply.undo, book) == "changed_since_patch"
    assert config.read_bytes() == b"mine: 1\n"


def test_read_only_files_and_several_names_are_refused(config, book):
    made = patch_of(config)
    config.chmod(0o444)
    assert code(apply.apply, made, book) == "read_only"
    config.chmod(0o644)
    os.link(config, config.parent / "other")
    assert code(apply.apply, made, book) == "hard_links"
    assert config.read_bytes() == b"a: 1\r\nb: 2\r\n"


def test_what_is_no_file_is_refused(tmp_path):
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert code(plan.snapshot, str(loop)) == "loop"
    dangling = tmp_path / "d.yaml"
    dangling.symlink_to(tmp_path / "no")
    assert code(plan.snapshot, str(dangling)) == "dangling"
    assert code(plan.snapshot, str(tmp_path / "none.yaml")) == "no_file"
    folder = tmp_path / "f.yaml"
    folder.mkdir()
    assert code(plan.snapshot, str(folder)) == "not_a_file"
    fifo = tmp_path / "p.yaml"
    os.mkfifo(fifo)
    assert code(plan.snapshot, str(fifo)) == "not_a_file"
    large = tmp_path / "l.yaml"
    with open(large, "wb") as file:
        file.truncate(100 << 20)
    assert code(plan.snapshot, str(large)) == "too_large"
    other = tmp_path / "x.bin"
    other.write_bytes(b"1")
    assert code(plan.snapshot, str(other)) == "no_reader"


def test_several_files_change_together_or_not_at_all(config, book, monkeypatch):
    other = config.parent / "d.yaml"
    other.write_bytes(b"x: 1\n")
    made = plan.plan([Edit(str(config), "a", "", "7"), Edit(str(other), "x", "", "2")])
    real = apply.replace

    def failing(path, *rest):
        if path == str(other):
            raise Refused("cannot_write", path=path, why="full")
        real(path, *rest)

    monkeypatch.setattr(apply, "replace", failing)
    assert code(apply.apply, made, book) == "cannot_write"
    monkeypatch.undo()
    assert config.read_bytes() == b"a: 1\r\nb: 2\r\n" and other.read_bytes() == b"x: 1\n"
    assert book.entries()[0].state == "refused"
    apply.apply(made, book)
    assert (config.read_bytes(), other.read_bytes()) == (b"a: 7\r\nb: 2\r\n", b"x: 2\n")
    apply.undo(book)
    assert (config.read_bytes(), other.read_bytes()) == (b"a: 1\r\nb: 2\r\n", b"x: 1\n")


def test_checks_that_would_still_fail_refuse_the_patch(config, book):
    assert code(apply.apply, patch_of(config), book, lambda patch: False) == "still_fails"
    apply.apply(patch_of(config), book, lambda patch: None)


def test_an_open_or_damaged_journal_is_not_used(config, book, tmp_path):
    entry = apply.apply(patch_of(config), book)
    (tmp_path / "journal" / entry / "old-0").write_bytes(b"other")
    assert code(apply.undo, book) == "journal_damaged"
    (tmp_path / "journal" / entry / "entry.json").write_text("{")
    assert book.entries() == []
    os.chmod(tmp_path / "journal", 0o777)
    assert code(apply.apply, patch_of(config, "b"), book) == "journal_open"
    assert config.read_bytes() == b"a: 7\r\nb: 2\r\n"


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_file(config, book):
    """A child applies and undoes patches as fast as it can and is killed; what is left is one of the two files."""
    old, new = b"a: 1\r\nb: 2\r\n" + b"# padding\r\n" * 20_000, b""
    config.write_bytes(old)
    new = patch_of(config).files[0].after
    seen = {old: 0, new: 0}
    for round_ in range(60):
        config.write_bytes(old)
        child = os.fork()
        if child == 0:
            try:
                while True:
                    apply.apply(patch_of(config), book)
                    apply.undo(book)
            finally:
                os._exit(1)
        time.sleep(0.002 + 0.0017 * round_)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        data = config.read_bytes()
        assert data in seen
        seen[data] += 1
        # and whatever it was, it can be put back or patched on
        if data == new:
            apply.undo(book)
            assert config.read_bytes() == old
    assert len(book.entries()) <= journal.KEEP + 60


def test_what_a_killed_run_left_is_taken_away(config, book, monkeypatch):
    monkeypatch.setattr(apply, "_gone", lambda temp: None)
    monkeypatch.setattr(
        os, "replace", lambda a, b: (_ for _ in ()).throw(SystemExit) if ".doctor-" in a else os.rename(a, b)
    )
    with pytest.raises(SystemExit):
        apply.apply(patch_of(config), book)
    monkeypatch.undo()
    assert len(os.listdir(config.parent)) == 2
    monkeypatch.setattr(journal, "STALE", -1)
    apply.apply(patch_of(config), book)
    assert os.listdir(config.parent) == ["c.yaml"]


def test_the_diff_shows_both_sides(config):
    made = patch_of(config).files[0]
    lines = diff.unified(made)
    assert [line for line in lines if line[:1] in "+-" and line[:3] not in ("---", "+++")] == ["-a: 1", "+a: 7"]
    assert diff.rows(made) == [
        diff.Row("changed", 1, "a: 1", 1, "a: 7"), diff.Row("same", 2, "b: 2", 2, "b: 2"),
    ]  # fmt: skip


def test_the_diff_masks_secrets_around_and_marks_control_characters(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_bytes('a: 1\npassword: hunter2secret\nb: "\\e[31m\u202e"\n'.encode())
    made = plan.plan([Edit(str(path), "a", "", "2")])
    text = "\n".join("".join(t for _, t in line) for line in diff.layout(made))
    assert "hunter2" not in text and "\u202e" not in text and "+a: 2" in text
