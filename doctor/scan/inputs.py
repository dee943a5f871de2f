"""From what the user names (files, folders, globs, archives, ``-``) to streams of bytes.

:func:`expand` yields a :class:`Source` for everything that may be text and a :class:`Problem` for everything the user
should hear about; it never raises for what it finds on disk.

Order: inputs as given; inside a folder its files, then its sub-folders, each in natural order (``worker_2`` before
``worker_10``), symbolic links last, so that a file reached twice keeps its real name; zip members in natural order; tar
members as stored, because a compressed tar can only be read forwards.
"""

import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from doctor.scan.filetype import (
    HEAD,
    is_binary,
    kind_of,
    named_like_binary,
    named_like_log,
    natural_key,
    printable,
    shown_name,
    what_is,
)
from doctor.scan.lazy import lazy
from doctor.scan.streams import (
    DEFAULT_LIMITS,
    KEEP,
    BrokenStream,
    FileChunks,
    FileOrigin,
    Limits,
    Once,
    Pipe,
    Problem,
    Source,
    arriving,
    open_regular,
    problem,
    spooled,
)

__all__ = [
    "BrokenStream", "Limits", "Problem", "Source", "expand", "natural_key", "plain_files", "problem", "shown_name",
    "what_is",
]  # fmt: skip

STDIN_NAME = "<stdin>"

_LOOK_FACTOR = 10  # files looked at (binaries too) per file that may be yielded
_SKIP_DIRS = frozenset(("__pycache__", "node_modules", "CVS", "__MACOSX", "lost+found", "site-packages"))
_CACHE_DIRS = ("kernel_meta", "graph_cache", "som_meta")  # compiler caches: thousands of files, but logs too
_SYSTEM_DIRS = frozenset(("/proc", "/sys", "/dev"))  # reading there may block or act on the machine
_OWN_PIPE = lazy(r"^/(?:dev|proc/self)/fd/[0-9]+$")  # the shell's <(command)


def expand(inputs: Sequence[str], limits: Limits = DEFAULT_LIMITS) -> Iterator[Source | Problem]:
    """Yield what there is to read under ``inputs``: files, folders, globs, archives, or ``-`` for standard input.

    A source that came from an archive must be read before the next item is drawn. A file reached twice (named twice,
    hard link, symbolic link) is yielded once. In folders, globs and archives hidden files, version control and cache
    folders and files that are plainly binary are passed over in silence; a file the user named is always answered, and
    a ``.log`` is never passed over. Empty files are sources of size 0.

    Never raises for what is found; stops with a ``too_many`` problem at ``limits.max_files`` sources.
    """
    run = _Run(limits)
    for given in inputs:
        for found in run.given(given):
            if isinstance(found, Source):
                if run.left <= 0:
                    yield run.too_many(given)
                    return
                run.left -= 1
            yield found
            if run.stopped:
                return


def plain_files(inputs: Sequence[str], most: int) -> Iterator[tuple[str, os.stat_result]]:
    """(path, status) of the regular files that :func:`expand` would meet, each once, without opening any and in no
    certain order: for a folder that is looked at again and again. Names that are not there give nothing."""
    seen: set[tuple[int, int]] = set()
    left = most

    def is_new(status: os.stat_result) -> bool:
        key = (status.st_dev, status.st_ino)
        fresh = not status.st_ino or key not in seen
        seen.add(key)
        return fresh

    ahead: list[tuple[str, bool]] = []
    for given in inputs:
        name = os.path.expanduser(given) if given.startswith("~") and not os.path.lexists(given) else given
        if re.search(r"[*?\[]", name) and not os.path.lexists(name):
            import glob

            ahead += ((path, False) for path in glob.glob(name, recursive=True))
        else:
            ahead.append((name, False))
    links: list[tuple[str, bool]] = []
    while left > 0 and (ahead or links):
        if not ahead:
            ahead, links = links, []  # so that a file reached twice keeps its real name
        path, in_cache = ahead.pop()
        try:
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode):
                if is_new(status):
                    left -= 1
                    yield path, status
                continue
            if not stat.S_ISDIR(status.st_mode) or not is_new(status):
                continue
            in_cache = in_cache or os.path.basename(path).startswith(_CACHE_DIRS)
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        if not _passed_over(entry.name, in_cache) and os.path.realpath(entry.path) not in _SYSTEM_DIRS:
                            links.append((entry.path, in_cache))
                    elif entry.is_dir():
                        if not _passed_over(entry.name, False) and os.path.abspath(entry.path) not in _SYSTEM_DIRS:
                            ahead.append((entry.path, in_cache))
                    elif not _passed_over(entry.name, in_cache) and entry.is_file():
                        status = entry.stat()
                        if is_new(status):
                            left -= 1
                            yield entry.path, status
                            if left <= 0:
                                return
        except (OSError, ValueError):
            continue  # gone or closed meanwhile; the report at the end says what could not be read


def _passed_over(name: str, in_cache: bool) -> bool:
    """Whether a walk leaves out a file or folder of this name: hidden, or not a log inside a compiler's cache."""
    return name.startswith(".") or name in _SKIP_DIRS or (in_cache and not named_like_log(name))


class _Run:
    """What one call of :func:`expand` has seen and used up."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.left = limits.max_files
        self.looked = 0  # files and members whose content was judged
        self.repeats = 0  # files met again
        self.stopped = False
        self.seen: set[tuple[int, int]] = set()
        self.stdin_taken = False

    def too_many(self, name: str) -> Problem:
        self.stopped = True
        return Problem(printable(name), "too_many", f"stopped; at most {self.limits.max_files} files are read")

    def _may_look(self) -> bool:
        self.looked += 1
        return self.looked <= _LOOK_FACTOR * self.limits.max_files

    def _is_new(self, status: os.stat_result) -> bool:
        """Whether this file or folder was not met before; where the system has no inode numbers all are new."""
        key = (status.st_dev, status.st_ino)
        if status.st_ino and key in self.seen:
            return False
        self.seen.add(key)
        return True

    def given(self, given: str) -> Iterator[Source | Problem]:
        """Answer one input of the user, with ``no_logs`` if there is nothing else to say."""
        looked, repeats, nothing = self.looked, self.repeats, True
        try:
            for found in self._named(given):
                nothing = False
                yield found
        except ValueError as error:  # a name the system cannot express, a closed stdin
            yield Problem(printable(given), "unreadable", str(error))
        except OSError as error:
            yield problem(printable(given), error)
        else:
            if nothing and self.repeats == repeats:
                judged = self.looked - looked
                yield Problem(
                    printable(given), "no_logs", f"{judged} files, none of them readable text" if judged else ""
                )

    def _named(self, given: str) -> Iterator[Source | Problem]:
        path = given
        if "\0" in given:
            raise FileNotFoundError(2, "no file name holds a NUL")
        if given in ("-", "/dev/stdin"):
            yield from self._stdin()
            return
        if path.startswith("~") and not os.path.lexists(path):
            path = os.path.expanduser(path)
        if any(mark in path for mark in "*?[") and not os.path.lexists(path):
            yield from self._glob(path)
            return
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            yield from self._folder(path)
        elif stat.S_ISFIFO(status.st_mode) and _OWN_PIPE.match(path):
            with open(path, "rb", buffering=0) as stream:
                yield from self._stream(given, stream)
        else:
            yield from self._file(path, status, explicit=True)

    def _stdin(self) -> Iterator[Source | Problem]:
        if self.stdin_taken:
            self.repeats += 1
            return
        self.stdin_taken = True
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            yield Problem(STDIN_NAME, "missing", "there is no standard input")
        elif stream.isatty():  # nothing to judge before the user has pasted
            once = Once(Pipe(arriving(stream), eager=True), 0)
            yield Source(STDIN_NAME, None, None, None, origin=once, limits=self.limits)
        else:
            yield from self._stream(STDIN_NAME, stream)

    def _stream(self, name: str, stream: IO[bytes]) -> Iterator[Source | Problem]:
        """Answer a stream that can only be read forwards; its first bytes are awaited here."""
        once = Once(Pipe(arriving(stream), eager=True), 8)
        yield from self._judged(printable(name), Pipe(once(), eager=True), once, None, None, explicit=True)

    def _glob(self, pattern: str) -> Iterator[Source | Problem]:
        import glob
        from itertools import islice

        found = islice(glob.iglob(pattern, recursive=True), _LOOK_FACTOR * self.limits.max_files + 1)
        paths = sorted(found, key=natural_key)
        if not paths:
            yield Problem(printable(pattern), "missing", "nothing matches this pattern")
        for path in paths:
            if os.path.isdir(path):
                yield from self._folder(path)
            else:
                yield from self._met(path)

    def _folder(self, top: str) -> Iterator[Source | Problem]:
        """Walk a folder; not recursively in Python, so that depth does not matter."""
        ahead = [(top, False)]
        while ahead:
            folder, in_cache = ahead.pop()
            files: list[tuple[bool, tuple[object, ...], str]] = []
            folders: list[tuple[bool, tuple[object, ...], str]] = []
            try:
                if not self._is_new(os.stat(folder)):
                    self.repeats += folder == top
                    continue
                in_cache = in_cache or os.path.basename(folder).startswith(_CACHE_DIRS)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        link = entry.is_symlink()
                        try:
                            is_folder = entry.is_dir()
                        except OSError:  # a link to itself, for one: answered as a file
                            is_folder = False
                        if is_folder:
                            real = os.path.realpath(entry.path) if link else os.path.abspath(entry.path)
                            if not _passed_over(entry.name, False) and real not in _SYSTEM_DIRS:
                                folders.append((link, natural_key(entry.name), entry.path))
                        elif not _passed_over(entry.name, in_cache):
                            files.append((link, natural_key(entry.name), entry.path))
                        if len(files) + len(folders) > _LOOK_FACTOR * self.limits.max_files:
                            break  # more than will be looked at: the files below end the walk
            except OSError as error:
                yield problem(printable(folder), error)
            for _, _, path in sorted(files):
                yield from self._met(path)
                if self.stopped:
                    return
            ahead += ((path, in_cache) for _, _, path in sorted(folders, reverse=True))

    def _met(self, path: str) -> Iterator[Source | Problem]:
        """Answer a file met on a walk."""
        try:
            status = os.stat(path)
        except OSError as error:
            detail = "broken symbolic link" if os.path.islink(path) else error.strerror
            yield problem(printable(path), error)._replace(detail=detail or "")
        else:
            yield from self._file(path, status, explicit=False)

    def _file(self, path: str, status: os.stat_result, explicit: bool) -> Iterator[Source | Problem]:
        name = shown_name(path)
        if not stat.S_ISREG(status.st_mode):
            yield Problem(name, "not_regular", "a fifo, socket or device, not a file")
            return
        if not self._is_new(status):
            self.repeats += 1
            return
        if not self._may_look():
            yield self.too_many(name)
            return
        try:
            base = FileChunks(path)
        except OSError as error:
            yield problem(name, error)
            return
        with Pipe(base, base) as pipe:
            yield from self._judged(
                name, pipe, FileOrigin(path), status.st_size, status.st_mtime, explicit=explicit, path=path
            )

    def _judged(
        self,
        name: str,
        pipe: Pipe,
        origin: Callable[[], Iterator[bytes]],
        size: int | None,
        mtime: float | None,
        *,
        explicit: bool,
        path: str | None = None,
        depth: int = 0,
    ) -> Iterator[Source | Problem]:
        """Tell what ``pipe`` holds and answer with a source, a problem, what is inside, or nothing.

        ``origin`` opens the same bytes again; ``path`` is the file they come from, if they come from one directly;
        ``depth`` is the number of containers around it; ``explicit``: the user named it, so it must be answered.
        """
        layers: tuple[str, ...] = ()
        want = 8 if pipe.eager else HEAD
        bare = name
        while (kind := kind_of(head := pipe.peek(want))) in ("gz", "xz", "bz2"):
            depth += 1
            if depth > self.limits.max_depth:
                yield self._too_deep(name)
                return
            layers += (kind,)
            bare = bare[: -len(kind) - 1] if bare.lower().endswith("." + kind) else bare
            pipe = pipe.through(kind, self.limits)
        if pipe.error is not None and not head:
            yield problem(name, pipe.error)
            return
        if kind in ("tar", "zip"):
            depth += not layers
            if not explicit and named_like_binary(name):  # weights, wheels and documents are zip files too
                return
            if depth > self.limits.max_depth:
                yield self._too_deep(name)
                return
            yield from self._members(name, kind, pipe, None if layers else path, depth)
            return
        if kind.startswith("utf-16"):
            layers += (kind,)
            pipe = pipe.through(kind, self.limits)
            head = pipe.peek(want)
        elif kind:
            yield Problem(name, "unreadable", f"{kind} data is not supported; unpack it first")
            return
        if is_binary(bare, head):
            if explicit or named_like_log(bare):
                yield Problem(name, "binary", "not text")
            return
        if layers:
            size = None if head else 0
            if isinstance(origin, Once):  # looking inside may have used up more than the head that is kept
                origin, layers = Once(pipe, want if pipe.eager else KEEP), ()
        elif not head:
            size = size or 0
        elif not size:  # files of /proc say 0
            size = path = None
        path = None if layers else path
        yield Source(name, path, size, mtime, origin=origin, layers=layers, limits=self.limits)

    def _too_deep(self, name: str) -> Problem:
        return Problem(name, "bomb", f"packed more than {self.limits.max_depth} times over; unpack the outer archive")

    def _members(self, name: str, kind: str, pipe: Pipe, path: str | None, depth: int) -> Iterator[Source | Problem]:
        """Answer what is in an archive; ``path`` is set if the archive is a file of its own."""
        from doctor.scan.archives import tar_members, zip_members

        file: IO[bytes] | None = None
        try:
            if kind == "zip":
                file = spooled(pipe) if path is None else os.fdopen(open_regular(path), "rb")
            for member in tar_members(pipe) if file is None else zip_members(file, self.limits):
                parts = [part for part in member.name[-4096:].split("/") if part not in ("", ".")]
                shown = name + "!" + printable("/".join(parts)) if parts else name
                if isinstance(member, Problem):
                    yield member._replace(name=shown)
                    continue
                if not self._may_look():
                    yield self.too_many(name)
                    return
                in_cache = any(part.startswith(_CACHE_DIRS) for part in parts[:-1])
                folders_out = any(part != ".." and _passed_over(part, False) for part in parts[:-1])
                if not parts or folders_out or _passed_over(parts[-1], in_cache):
                    continue
                yield from self._judged(
                    shown,
                    Pipe(member.origin()),
                    member.origin,
                    member.size,
                    member.mtime,
                    explicit=False,
                    depth=depth,
                )
                if self.stopped:
                    return
        except OSError as error:
            yield problem(name, error)
        finally:
            if file is not None:
                file.close()
