"""The bytes of a source at hand: the newest chunks, addressed by offset."""

JOINED = 16 << 10
"""Pieces up to this size are joined: a log that is followed grows by a line or two at a time."""


class Window:
    """The bytes of the chunks at hand, addressed by offset in the source."""

    __slots__ = ("base", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.base = 0

    def push(self, chunk: bytes, keep: int) -> None:
        """Take the next bytes; at least ``keep`` of the newest stay at hand."""
        if self.parts and len(self.parts[-1]) + len(chunk) <= JOINED:
            self.parts[-1] += chunk
        else:
            self.parts.append(chunk)
        self.drop(keep)

    def drop(self, keep: int) -> None:
        """Let go of the oldest bytes; at least ``keep`` of the newest stay at hand."""
        held = sum(map(len, self.parts))
        while held - len(self.parts[0]) >= keep:
            held -= len(self.parts[0])
            self.base += len(self.parts.pop(0))

    @property
    def end(self) -> int:
        return self.base + sum(map(len, self.parts))

    def part(self, pos: int) -> tuple[int, bytes]:
        """(offset, bytes) of the chunk that holds an offset, the last one if it lies behind them all."""
        at, part = self.base, b""
        for part in self.parts:
            if pos < at + len(part):
                return at, part
            at += len(part)
        return at - len(part), part

    def slice(self, start: int, stop: int) -> bytes:
        """Bytes from ``start`` to ``stop``, as far as they are at hand."""
        out = []
        at = self.base
        for part in self.parts:
            if at < stop and start < at + len(part):
                out.append(part[max(0, start - at) : stop - at])
            at += len(part)
        return out[0] if len(out) == 1 else b"".join(out)

    def find(self, needle: bytes, start: int, stop: int) -> int:
        """Offset of ``needle`` between two offsets, -1 if it is not there; one split over two chunks is missed."""
        at = self.base
        for part in self.parts:
            if at < stop and start < at + len(part):
                found = part.find(needle, max(0, start - at), stop - at)
                if found >= 0:
                    return at + found
            at += len(part)
        return -1

    def rfind(self, needle: bytes, start: int, stop: int) -> int:
        """As ``find``, the last one."""
        at = self.end
        for part in reversed(self.parts):
            at -= len(part)
            if at < stop and start < at + len(part):
                found = part.rfind(needle, max(0, start - at), stop - at)
                if found >= 0:
                    return at + found
        return -1

    def line_start(self, pos: int) -> int:
        """Offset behind the last newline before ``pos``, or of the oldest byte at hand."""
        at = self.end
        for part in reversed(self.parts):
            at -= len(part)
            if at < pos:
                found = part.rfind(b"\n", 0, pos - at)
                if found >= 0:
                    return at + found + 1
        return self.base

    def line_end(self, pos: int) -> int:
        """Offset of the first newline at or behind ``pos``, or of the end of what is at hand."""
        at = self.base
        for part in self.parts:
            if pos < at + len(part):
                found = part.find(b"\n", max(0, pos - at))
                if found >= 0:
                    return at + found
            at += len(part)
        return at


def newlines(data: bytes) -> int:
    """Number of newlines. Twice as fast as ``bytes.count`` on large chunks (measured, docs/engines.md)."""
    return len(data) - len(data.replace(b"\n", b"")) if len(data) > 512 else data.count(b"\n")
