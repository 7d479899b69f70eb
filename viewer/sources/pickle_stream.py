"""The bytes of a pickle in windows, without the headers of its frames.

Protocol 4 cuts a pickle into frames of 64 KiB, anywhere between two instructions. Their headers are taken out while
reading, so that equal events stay equal bytes; where one was, and where a frame ends with none behind it, the machine
checks that an instruction ends there.
Windows are read, not mapped: a file that is cut short while it is mapped kills the process.
"""

from __future__ import annotations

import bisect
import io
from collections import deque
from typing import BinaryIO

from . import pickle_errors as errors
from .progress import Progress

WINDOW = 3 << 20
"""Bytes read at a time: what is made of them at once stays in the processor's cache."""
PAD = 32
"""So many bytes behind it, a byte can be looked at as an instruction with its number."""
SLACK = 1 << 14
"""Zeros behind the window, so that an entry that is cut short can be read without asking at each byte."""
_FIRST = 1 << 12
"""Bytes looked at behind a frame that was announced too late: another one may be, and all behind it is read again."""
_SETTLED = 1 << 16
_UNFRAMED = 1 << 62
_FRAME, _PROTO = 0x95, b"\x80"


class PickleStream:
    """A window of the stream (the file without frame headers): `buffer`, whose first byte is number `base` of it."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress, window: int = WINDOW) -> None:
        self._file, self._size, self._progress, self._window = file, size, progress, window
        self._pending: deque[memoryview] = deque()
        self._step = window
        self._raw = 0
        """How many bytes of the file went into the stream, headers included."""
        self._left = 0
        """How many more bytes the present frame has."""
        self._bare_from = _UNFRAMED
        """From which byte of the stream on there is no frame; `_UNFRAMED` while there is one."""
        self._starts, self._offsets = [0], [0]
        """From which number of the stream on, and at which offset of the file, bytes follow each other."""
        self.buffer, self.base, self.end = b"", 0, 0
        """`end` is how many bytes of the buffer are the file's; zeros may follow."""
        self.at_end = False
        self.cuts: deque[int] = deque()
        """Numbers of the bytes in front of which a frame begins or ends, until they were checked."""

    @classmethod
    def of(cls, data: bytes) -> PickleStream:
        """All of a stream that is in memory already."""
        stream = cls(io.BytesIO(), len(data), Progress())
        stream.buffer, stream.end, stream.at_end = data + bytes(SLACK), len(data), True
        return stream

    def fill(self, keep: int, need: int = 0) -> None:
        """Drop the bytes before `keep`; read on until there are more than before, and at least `need`."""
        parts: list[bytes | memoryview] = [self.buffer[keep : self.end]]
        held = before = len(parts[0])
        self.base += keep
        while not self.at_end and (held == before or held < need):
            held += self._read(parts, self.base + held)
        self._progress("Reading", self._raw / max(self._size, 1))
        parts.append(bytes(SLACK))
        self.buffer, self.end = b"".join(parts), held

    def restart(self, at: int, length: int) -> int:
        """A frame of this length begins at byte `at` of the buffer. Returns where in the buffer to go on."""
        if self._raw - (self.end - at) + length > self._size:
            raise errors.cut_short()
        if self.base + at - 9 < self._bare_from:  # Python's own two unpicklers do not agree on these
            raise errors.damaged(self.file_offset(self.base + at - 9), "a frame begins inside a frame")
        if at < self.end:
            self._pending.appendleft(memoryview(self.buffer)[at : self.end])
        self._raw -= self.end - at
        self._step = min(self._window, _FIRST)
        self._left, self._bare_from, self.at_end = length, _UNFRAMED, False
        self.end = at
        self.fill(at)
        return 0

    @property
    def is_hasty(self) -> bool:
        """Whether this buffer is small, and may soon be another one, as a frame was announced too late."""
        return self._step < min(self._window, _SETTLED)

    def file_offset(self, position: int) -> int:
        """Where this byte of the stream lies in the file."""
        i = bisect.bisect_right(self._starts, position) - 1
        return self._offsets[i] + position - self._starts[i]

    def read_at(self, position: int, length: int) -> bytes:
        """Bytes of the stream that were read before, and zeros behind them."""
        i = bisect.bisect_right(self._starts, position) - 1
        parts, back = [], self._file.tell()
        while length > 0:
            until = self._starts[i + 1] if i + 1 < len(self._starts) else position + length
            self._file.seek(self._offsets[i] + position - self._starts[i])
            part = self._file.read(min(length, until - position))
            if not part and until > position:
                break
            parts.append(part)
            position, length = position + len(part), length - len(part)
            i += position >= until
        self._file.seek(back)
        return b"".join(parts) + bytes(SLACK)

    def _read(self, parts: list[bytes | memoryview], position: int) -> int:
        """Append the next window, whose first byte has this number. Returns its length."""
        raw = self._take(self._step)
        if self._raw == len(raw) and raw[:1] == _PROTO:
            self._left = 2  # the first frame is behind it
        self._step, self.at_end = min(2 * self._step, self._window), not len(raw)
        at, out = 0, position
        while at < len(raw):
            if self._left:
                step = min(self._left, len(raw) - at)
                parts.append(raw[at : at + step])
                at, out, self._left = at + step, out + step, self._left - step
            elif raw[at] == _FRAME:
                while len(raw) - at < 9 and (more := self._take(9 - (len(raw) - at))):
                    raw, at = memoryview(bytes(raw[at:]) + more), 0
                if len(raw) - at < 9:
                    raise errors.cut_short()
                self._left, at = int.from_bytes(raw[at + 1 : at + 9], "little"), at + 9
                self._note(out, self._raw - (len(raw) - at))
            else:
                self._left, self._bare_from = _UNFRAMED, out
                self.cuts.append(out)
        return out - position

    def _note(self, position: int, offset: int) -> None:
        if offset + self._left > self._size:
            raise errors.cut_short()
        self.cuts.append(position)
        self._starts.append(position)
        self._offsets.append(offset)

    def _take(self, n: int) -> memoryview:
        """The next bytes of the file, `n` at most; none only at its end."""
        if self._pending:
            first = self._pending.popleft()
            raw = first[:n]
            if len(first) > n:
                self._pending.appendleft(first[n:])
        else:
            raw = memoryview(self._file.read(min(n, max(self._size - self._raw, 0) + 1)))
        self._raw += len(raw)
        return raw
