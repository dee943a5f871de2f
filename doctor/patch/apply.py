"""Write a patch: each file is the old or the new one at every moment, never half of either.

The new content goes into a file of its own in the same folder, with mode, owner and extended attributes of the old
one, reaches the disk, and takes its name in one step. Between reading and that step the old content is compared once
more; whoever saved in between keeps what they saved.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable

from doctor.patch import journal
from doctor.patch.plan import FilePatch, Patch, digest
from doctor.patch.spans import Refused

TEMP = ".doctor-{}.tmp"


def ready(file: FilePatch) -> None:
    """Raises Refused if a file cannot be replaced: changed, read-only, somebody else's, with several names."""
    writable(file.path, file.real)
    if current(file.path, file.real) != digest(file.before):
        raise Refused("changed_since", path=file.path)


def current(path: str, real: str) -> str:
    """The digest of a file as it is now. Raises Refused."""
    try:
        if os.path.realpath(path) != real:
            raise Refused("changed_since", path=path)
        with open(real, "rb") as file:
            return digest(file.read())
    except OSError as error:
        raise Refused("unreadable", path=path, why=error.strerror or type(error).__name__) from None


def writable(path: str, real: str) -> None:
    """Raises Refused if a file must not or cannot be replaced. Root may write everything; a file that nobody may
    write is still left alone."""
    try:
        seen = os.stat(real)
    except OSError as error:
        raise Refused("unreadable", path=path, why=error.strerror or type(error).__name__) from None
    if not stat.S_ISREG(seen.st_mode):
        raise Refused("not_a_file", path=path)
    if not seen.st_mode & 0o222 or not os.access(real, os.W_OK):
        raise Refused("read_only", path=path)
    if not os.access(os.path.dirname(real) or ".", os.W_OK | os.X_OK):
        raise Refused("folder_read_only", path=os.path.dirname(real))
    if seen.st_nlink > 1:
        raise Refused("hard_links", path=path, count=seen.st_nlink)
    if seen.st_uid != os.geteuid() and os.geteuid() != 0:
        raise Refused("other_owner", path=path)


def temp_name(real: str) -> str:
    """A free name in the folder of a file."""
    return os.path.join(os.path.dirname(real), TEMP.format(secrets.token_hex(8)))


def replace(path: str, real: str, data: bytes, expected: str, temp: str) -> None:
    """Put ``data`` in the place of a file whose content has the digest ``expected``. Raises Refused; the file is then
    as it was."""
    try:
        seen = os.stat(real)
        fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError as error:
        raise Refused("cannot_write", path=path, why=error.strerror or type(error).__name__) from None
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            made = os.fstat(fd)
            if (made.st_uid, made.st_gid) != (seen.st_uid, seen.st_gid):
                os.fchown(fd, seen.st_uid, seen.st_gid)
            os.fchmod(fd, stat.S_IMODE(seen.st_mode))
            _attributes(real, fd)
            os.fsync(fd)
        if current(path, real) != expected:
            raise Refused("changed_since", path=path)
        os.replace(temp, real)
    except OSError as error:
        raise Refused("cannot_write", path=path, why=error.strerror or type(error).__name__) from None
    finally:
        _gone(temp)
    _sync_folder(os.path.dirname(real) or ".")


def _gone(temp: str) -> None:
    try:
        os.unlink(temp)
    except OSError:
        pass


def _attributes(real: str, fd: int) -> None:
    """Extended attributes and access lists, as far as they may be copied."""
    if not hasattr(os, "listxattr"):
        return
    try:
        names = os.listxattr(real)
    except OSError:
        return
    for name in names:
        try:
            os.setxattr(fd, name, os.getxattr(real, name))
        except OSError:
            if name.startswith("system.posix_acl"):
                raise
            continue  # a label the system sets by itself


def _sync_folder(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError:
        pass
    finally:
        os.close(fd)


def apply(patch: Patch, book: journal.Journal, passes: Callable[[Patch], bool | None] | None = None) -> str:
    """Write a patch; returns its id in the journal. Raises Refused, and then nothing is changed.

    ``passes`` asks the checks that wanted the patch over what the files will hold; False refuses it.
    """
    if passes is not None and passes(patch) is False:
        raise Refused("still_fails", rules=", ".join(patch.rules))
    for file in patch.files:
        ready(file)
    temps = [temp_name(file.real) for file in patch.files]
    entry = book.begin(patch, temps)
    done: list[FilePatch] = []
    try:
        for file, temp in zip(patch.files, temps, strict=True):
            replace(file.path, file.real, file.after, digest(file.before), temp)
            done.append(file)
    except Refused:
        for file in reversed(done):
            try:
                replace(file.path, file.real, file.before, digest(file.after), temp_name(file.real))
            except Refused:
                continue  # changed once more by somebody: theirs now
        book.finish(entry, "refused")
        raise
    book.finish(entry, "done")
    return entry


def undo(book: journal.Journal, entry_id: str = "") -> journal.Entry:
    """Put back what a patch replaced, the newest one by default. Raises Refused if a file was changed since."""
    entry = book.find(entry_id)
    todo = []
    for file in entry.files:
        now = current(file.path, file.real)
        if now == file.before:
            continue  # the way it was: killed before this file, or put back by hand
        if now != file.after:
            raise Refused("changed_since_patch", path=file.path)
        writable(file.path, file.real)
        todo.append((file, book.content(entry, file)))
    for file, data in todo:
        replace(file.path, file.real, data, file.after, temp_name(file.real))
    book.finish(entry.id, "undone")
    return entry
