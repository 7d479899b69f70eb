"""Runs a pickle of plain values: nothing in a file is imported, called or constructed.

A stretch of entries that the vectorised reader took over stands on the stack as one `Run`; everything else is built
here, exactly as Python's unpickler would. What each instruction does, apart from the most frequent ones, is in
`pickle_instructions`, with the limits on marks, texts and keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from memstrata.capture.format.plain_values import Run

from . import pickle_errors as errors
from .pickle_instructions import DICT, LIST, OTHERS, TUPLE
from .pickle_stream import PAD, PickleStream

BUILT_PER_BYTE = 24
"""Bytes of what is built for each byte of the file, at most, beyond `BUILT_FREE`; an event takes about 6."""
BUILT_FREE = 64 << 20
VAIN_FREE = 1 << 16
VAIN_PER_BYTE = 1 / 16
"""Instructions for each byte of the file, beyond `VAIN_FREE`, that leave nothing behind: all writers have is an empty
list that is filled with nothing. Without a limit they are the slowest way through a file."""
_LATE = 16
"""Instructions that a frame counts as that was announced too late."""
_STRIDE = 1 << 18
"""Bytes between two looks at how much was built."""
_SIZES = ((b"}", DICT), (b"]", LIST))
"""Not counted one by one, as all others are: a text that has such letters makes the count larger, which is no harm."""

_RUNS = re.compile(rb"(?:h.)++|(?:j.{4})++", re.DOTALL).findall
_WIDE = np.dtype([("instruction", "u1"), ("number", "<u4")])
_REFERENCES = re.compile(rb"(?:h.|j.{4})++", re.DOTALL)
_MISSING = object()
_DAMAGE = (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


class Reader(Protocol):
    """What reads stretches of entries faster than this machine, and puts `Run`s on its stack."""

    keys: frozenset[str]
    """Names of which one is in every entry that it may be able to read."""

    def take(self, machine: Machine, at: int, may_learn: bool) -> int:
        """Take over the entries that begin at byte `at` of the buffer; returns where in the buffer it stopped."""

    def fetch(self, machine: Machine, number: int) -> None:
        """Put what a stretch put into the memo under this number into the machine's own; raises KeyError."""

    def holds(self, number: int) -> bool:
        """Whether a stretch put something into the memo under this number."""

    def settle(self, machine: Machine) -> None:
        """Look up now what the entries taken so far refer to."""

    def finish(self, machine: Machine) -> None:
        """The pickle has ended."""


class Machine:
    """Runs one pickle to its end. `size` is the number of bytes that may be behind it."""

    def __init__(self, stream: PickleStream, size: int, reader: Reader | None = None) -> None:
        self.stream, self.size, self.reader = stream, size, reader
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.hidden = 0
        """How many numbers of the memo are in stretches that were taken over, and not in `memo`."""
        self.ordered = True
        """No number of the memo was left out or used twice, as every writer does it."""
        self.reused = False
        """A number of the memo stands for something else than before."""
        self.stop = 0
        """The byte of the buffer in front of which `look_up` must be called."""
        self.done = False
        self._known: dict[bytes, list[Any]] = {}
        self.long_texts: dict[str, str] = {}
        """Those of more than `LONG_TEXT` characters, each once."""
        self.built = 0
        """Bytes of the dicts, lists and tuples made so far."""
        self._counted = 0
        self._vain = 0
        self._unchanged: Callable[[], bool] | None = None

    def run(self, ahead: Callable[[Machine], int] | None = None) -> Any:
        """The value of the pickle. Raises PickleProblem.

        `ahead` may run the beginning of it, once there is a window to run; it returns where in that it stopped.
        """
        p = 0
        try:
            if not self.stream.at_end:
                self.stream.fill(0)
            if ahead is not None:
                self.look_up(p)
                p = ahead(self)
            while not self.done:
                p = self._run(self.look_up(p))
            if self.reader is not None:
                self.reader.finish(self)
            if self._unchanged is not None and not self._unchanged():
                raise ValueError("it changes a list that was complete")
        except _DAMAGE as error:
            raise errors.damaged(self.stream.file_offset(self.stream.base + p), errors.cause(error)) from error
        return self.stack.pop()

    def _run(self, p: int) -> int:
        """Go on at byte p of the buffer. Returns where it stopped."""
        stream, stack, memo = self.stream, self.stack, self.memo
        b, stop, hidden, ordered = stream.buffer, self.stop, self.hidden, self.ordered
        try:
            while p < stop:
                op = b[p]
                if op == 0x68:  # BINGET
                    value = memo.get(b[p + 1], _MISSING)
                    if value is _MISSING:
                        value, hidden = self.get(b[p + 1]), self.hidden
                    stack.append(value)
                    p += 2
                elif op == 0x4B:  # BININT1
                    stack.append(b[p + 1])
                    p += 2
                elif op == 0x94 and ordered:  # MEMOIZE
                    memo[len(memo) + hidden] = stack[-1]
                    p += 1
                elif op == 0x4A:  # BININT
                    stack.append(int.from_bytes(b[p + 1 : p + 5], "little", signed=True))
                    p += 5
                elif op == 0x8A and b[p + 1] <= 8:  # LONG1
                    stack.append(int.from_bytes(b[p + 2 : p + 2 + b[p + 1]], "little", signed=True))
                    p += 2 + b[p + 1]
                elif op == 0x7D:  # EMPTY_DICT
                    stack.append({})
                    p += 1
                elif op == 0x5D:  # EMPTY_LIST
                    stack.append([])
                    p += 1
                else:
                    p = OTHERS[op](self, p)
                    b, stop, hidden, ordered = stream.buffer, self.stop, self.hidden, self.ordered
        except _DAMAGE as error:
            raise errors.damaged(stream.file_offset(stream.base + p), errors.cause(error)) from error
        return p

    def look_up(self, p: int) -> int:
        """See to it that there are bytes to run behind byte p of the buffer. Returns where p is now."""
        stream = self.stream
        self._count(p)
        if not stream.at_end and stream.end - p <= PAD:
            stream.fill(p)
            p = self._counted = 0
        if p >= stream.end and stream.at_end:
            raise errors.cut_short()
        while stream.cuts and stream.cuts[0] <= stream.base + p:
            if stream.cuts.popleft() != stream.base + p:
                raise errors.damaged(stream.file_offset(stream.base + p), "a frame ends inside an entry")
        cut = stream.cuts[0] - stream.base if stream.cuts else stream.end
        self.stop = min(cut, stream.end - (0 if stream.at_end else PAD), p + _STRIDE)
        return p

    def need(self, p: int, length: int) -> int:
        """See to it that so many bytes are behind byte p of the buffer. Returns where p is now."""
        stream = self.stream
        if p + length > stream.end:
            if not stream.at_end:
                self._count(p)
                stream.fill(p, length)
                p = self._counted = 0
            if p + length > stream.end:
                raise errors.cut_short()
            self.stop = 0  # the next thing is to look up
        return p

    def skip(self, p: int, end: int) -> None:
        """What lies between these bytes of the buffer was not built here."""
        self._count(p)
        self._counted = end

    def has_run(
        self, p: int, stack: list[Any], marks: list[int], memo: dict[int, Any], unchanged: Callable[[], bool]
    ) -> None:
        """All before byte p of the first window was run elsewhere; `stack` and the others are what it left, which the
        rest may not have changed in the end."""
        self.stack, self.marks, self.memo, self._unchanged = stack, marks, memo, unchanged
        self.built += self.stream.buffer.count(b"\x86", 0, p) * (TUPLE + 16)
        self._count(p)
        while self.stream.cuts and self.stream.cuts[0] < self.stream.base + p:
            self.stream.cuts.popleft()

    def restart(self, p: int, length: int) -> int:
        """A frame of this length begins at byte p of the buffer. Returns where p is now."""
        self.in_vain(_LATE)
        self._count(p)
        self._counted = self.stop = 0
        return self.stream.restart(p, length)

    def in_vain(self, times: int = 1) -> None:
        """An instruction left nothing behind."""
        self._vain += times
        if self._vain > VAIN_FREE + VAIN_PER_BYTE * self.size:
            raise errors.beyond("it does things and undoes them over and over")

    def get(self, number: int) -> Any:
        """The value under a number of the memo; raises KeyError."""
        if number not in self.memo:
            if self.reader is None:
                raise KeyError(f"it refers to entry {number:,}, which there is not")
            self.reader.fetch(self, number)
        return self.memo[number]

    def values(self, numbers: list[int]) -> list[Any]:
        """`get` of each of these."""
        try:
            return list(map(self.memo.__getitem__, numbers))
        except KeyError:
            return list(map(self.get, numbers))

    def put(self, number: int) -> None:
        """Note the value on top of the stack under a number of the memo."""
        if self.marks and self.marks[-1] == len(self.stack):
            raise ValueError("a value is missing")
        if type(self.stack[-1]) is Run:
            raise TypeError("an event is not where one can be")
        if number > self.size:
            raise ValueError("it numbers more entries than it has bytes")
        next_number = len(self.memo) + self.hidden
        if number != next_number or number in self.memo:
            if self.ordered and self.reader is not None:
                self.reader.settle(self)  # what was taken refers to the memo as it is before this
            self.ordered = False
            self._known.clear()
        if number in self.memo:
            self.in_vain()
        if not self.ordered and self.reader is not None:
            hidden = number not in self.memo and self.reader.holds(number)
            self.hidden -= hidden
            self.reused |= hidden or number in self.memo
        self.memo[number] = self.stack[-1]

    def references(self, p: int) -> int:
        """Push what a row of references, as in the list of a stack, refers to. Returns where it ends."""
        matched = _REFERENCES.match(self.stream.buffer, p, self.stop)
        if matched is None:
            return p
        row = matched.group()
        values = self._known.get(row)
        if values is None:
            values = self.values(reference_numbers(row))
            if self.ordered:
                self._known[row] = values
        self.stack.extend(values)
        return matched.end()

    def _count(self, p: int) -> None:
        b = self.stream.buffer
        self.built += sum(size * b.count(byte, self._counted, p) for byte, size in _SIZES)
        self._counted = p
        if self.built + 100 * len(self.memo) + 8 * len(self.stack) > BUILT_FREE + BUILT_PER_BYTE * self.size:
            raise errors.beyond("it builds many times its own size")


def reference_numbers(row: bytes) -> list[int]:
    """The numbers in a row of BINGET and LONG_BINGET instructions."""
    out: list[int] = []
    for run in _RUNS(row):
        out += np.frombuffer(run, _WIDE)["number"].tolist() if run[0] == 0x6A else run[1::2]
    return out
