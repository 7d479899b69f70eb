"""Where the entries that were taken out of a pickle lie in the file and in its memo, in 9 bytes each."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import I32, I64, NONE

from . import pickle_errors as errors
from .pickle_layouts import MEMO_LENGTHS, skim
from .pickle_machine import Machine
from .pickle_stream import PickleStream
from .pickle_window import Window

_NO_LIST = 255


class Past:
    """The entries taken from one window, in order. `rows` are their rows in the window."""

    def __init__(self, window: Window) -> None:
        spans = [(row, stop) for _, row, stop, _ in window.taken]
        self.rows: Any = _joined(spans)
        base = [number + (window.before[row:stop] - window.before[row]) for _, row, stop, number in window.taken]
        self.base: I64 | None = np.concatenate(base)
        """The first number of the memo of each; only until the window is settled."""
        self.count = len(self.base)
        self.first = int(self.base[0])
        self.last = int(self.base[-1] + window.memos[window.taken[-1][2] - 1])
        self._from = (self.base - self.first).astype(np.uint32)
        self._used = window.memos[self.rows].astype(np.uint16)
        self._offset = window.list_offset[self.rows].astype(np.uint8)  # -1 becomes _NO_LIST
        self._position = window.base
        self._starts = window.starts[self.rows].astype(np.uint32)
        self._end = window.end
        self.lists: I32 = np.empty(0, np.int32)
        """Numbers of their lists of frames."""

    def check(self, references: NDArray[Any], used: NDArray[Any]) -> None:
        """Nothing refers to what comes later, after `used` numbers of its entry; raises KeyError."""
        assert self.base is not None
        if not len(references) or int(references.max()) < self.first:
            return  # all of it was there before the first of these entries
        if (references >= self.base + used[self.rows]).any():
            raise KeyError("it refers to an entry that comes later")

    def holds(self, number: int) -> bool:
        """Whether one of the entries put something into the memo under this number."""
        if not self.first <= number < self.last:
            return False
        row = self._row(number)
        return number - self.first < int(self._from[row]) + int(self._used[row])

    def _row(self, number: int) -> int:
        return int(self._from.searchsorted(number - self.first, "right")) - 1

    def lists_at(self, numbers: I64) -> I32:
        """Numbers of the lists of frames under these numbers of the memo; -1 where there is something else."""
        relative = np.maximum(numbers - self.first, 0)
        rows = self._from.searchsorted(relative.astype(np.uint32), "right") - 1
        offset = self._offset[rows]
        is_list = (
            (relative - self._from[rows] == offset)
            & (offset != _NO_LIST)
            & (numbers < self.last)
            & (numbers >= self.first)
        )
        return np.where(is_list, self.lists[rows], NONE).astype(np.int32)

    def rebuild(self, machine: Machine, number: int) -> dict[int, Any]:
        """What the entry that put something under this number put into the memo, built once more from the file."""
        row = self._row(number)
        start = int(self._starts[row])
        end = int(self._starts[row + 1]) if row + 1 < self.count else self._end
        data = machine.stream.read_at(self._position + start, end - start)
        found = skim(data, 0, len(data))
        if found is None:
            raise errors.damaged(
                machine.stream.file_offset(self._position + start), "an entry changed while it was read"
            )
        after = found[1] + MEMO_LENGTHS.get(data[found[1]], 0)
        return run_alone(machine, data[:after], self.first + int(self._from[row]))


class _Outer:
    """Lets a machine that runs one entry see the memo of the one that runs the whole."""

    keys = frozenset[str]()

    def __init__(self, machine: Machine, number: int) -> None:
        self._machine, self._number = machine, number

    def take(self, machine: Machine, at: int, may_learn: bool) -> int:
        return at

    def fetch(self, machine: Machine, number: int) -> None:
        if number >= self._number:
            raise KeyError("it refers to an entry that comes later")
        machine.memo[number] = self._machine.get(number)
        machine.hidden -= 1

    def holds(self, number: int) -> bool:
        return False

    def settle(self, machine: Machine) -> None:
        return

    def finish(self, machine: Machine) -> None:
        return


def run_alone(machine: Machine, entry: bytes, number: int) -> dict[int, Any]:
    """Run the instructions of one entry. Returns what it puts into the memo, whose first number is given."""
    alone = Machine(PickleStream.of(entry + b"."), machine.size, _Outer(machine, number))
    alone.hidden = number
    alone.run()
    return {entry: value for entry, value in alone.memo.items() if entry >= number}


def _joined(spans: list[tuple[int, int]]) -> Any:
    """Rows of all spans; a slice if they follow each other."""
    if all(a[1] == b[0] for a, b in pairwise(spans)):
        return slice(spans[0][0], spans[-1][1])
    return np.concatenate([np.arange(row, stop) for row, stop in spans])
