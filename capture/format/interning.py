"""Strings stored once, and stacks as a parent-linked tree: the builders, and the read side of the strings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np

from .schema import I64, NONE, U8, Frames, Stacks, empty, from_columns

Chain = tuple[int, ...]
PART = 12
"""Frames of a chain that are looked up at once."""


@dataclass(frozen=True, eq=False)
class Strings:
    """Interned strings as one UTF-8 blob with `len + 1` offsets (numpy `U` columns explode and drop NULs)."""

    blob: U8
    offsets: I64

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> str:
        """The string with this number; -1 reads as the empty string."""
        if index == NONE:
            return ""
        begin, end = int(self.offsets[index]), int(self.offsets[index + 1])
        return self.blob[begin:end].tobytes().decode("utf-8", "replace")

    def all(self) -> list[str]:
        """Every string, by number."""
        return [self[i] for i in range(len(self))]


class StringTable:
    """Builds `Strings`; equal texts get equal numbers."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Of each text so far."""

    def intern(self, text: str) -> int:
        """The number of this text."""
        return self.numbers.setdefault(text, len(self.numbers))

    def freeze(self) -> Strings:
        """The finished strings. Lone surrogates (odd file names) are written as `?`."""
        whole = "".join(self.numbers)
        blob = whole.encode("utf-8", "replace")
        lengths: Iterable[int] = map(len, self.numbers)
        if len(blob) > len(whole):
            lengths = (len(text.encode("utf-8", "replace")) for text in self.numbers)
        return Strings(np.frombuffer(blob, np.uint8), np.array([0, *accumulate(lengths)], np.int64))


class StackTable:
    """Builds `Frames` and `Stacks`; a stack is one integer, the row of its innermost frame."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._frames: dict[tuple[int, int, int], int] = {}
        self._stacks: dict[tuple[int, int], int] = {}
        self._parts: dict[tuple[int, Chain], int] = {}

    def __len__(self) -> int:
        """How many stacks there are."""
        return len(self._stacks)

    def frame(self, name: str, file: str, line: int) -> int:
        """The row of this frame."""
        return self.frame_of(name, self._strings.intern(file), line)

    def frame_of(self, name: str, file: int, line: int) -> int:
        """The row of this frame, whose file is the string with this number."""
        key = (self._strings.intern(name), file, line)
        return self._frames.setdefault(key, len(self._frames))

    def frames_of(self, frames: Iterable[tuple[str, int, int]]) -> list[int]:
        """The row of each of these frames: function, file as `frame_of` has it, line."""
        numbers, rows = self._strings.numbers, self._frames
        out = []
        for name, file, line in frames:
            key = numbers.setdefault(name, len(numbers)), file, line
            out.append(rows.setdefault(key, len(rows)))
        return out

    def file(self, path: str) -> int:
        """The number of this string, for `frame_of`."""
        return self._strings.intern(path)

    def push(self, parent: int, frame: int) -> int:
        """The stack that calls `frame` from `parent` (-1 for none)."""
        return self._stacks.setdefault((parent, frame), len(self._stacks))

    def stack(self, frames_outermost_first: Iterable[int]) -> int:
        """The stack made of these frames; -1 if there are none."""
        row, stacks = NONE, self._stacks
        new = len(stacks)
        for frame in frames_outermost_first:
            row = stacks.setdefault((row, frame), new)
            if row == new:
                new += 1
        return row

    def stacks(self, chains: Iterable[Chain], rows: Mapping[int, int], most: float) -> list[int] | None:
        """The stack of each chain of frames, innermost first, whose rows are in `rows`; None if they are too many.

        Long ones mostly have callers in common, so those are looked up some at a time.
        """
        out = []
        known, push, row_of = self._parts, self._stacks.setdefault, rows.__getitem__
        new = len(self._stacks)
        for frames in chains:
            row, end = NONE, len(frames)
            while end:
                part = row, frames[end - PART if end > PART else 0 : end]
                found = known.get(part) if end > PART else None
                if found is None:
                    for frame in map(row_of, reversed(part[1])):
                        row = push((row, frame), new)
                        if row == new:
                            new += 1
                    if end > PART:
                        known[part] = row
                else:
                    row = found
                end -= len(part[1])
            if new > most:
                return None
            out.append(row)
        return out

    def freeze(self) -> tuple[Frames, Stacks]:
        """The finished tables."""
        frames = np.fromiter(chain.from_iterable(self._frames), np.int32, 3 * len(self._frames)).reshape(-1, 3)
        stacks = np.fromiter(chain.from_iterable(self._stacks), np.int32, 2 * len(self._stacks)).reshape(-1, 2)
        name, file, line = frames.T
        parent, frame = stacks.T
        return (
            from_columns(Frames, name=name, file=file, line=line) if self._frames else empty(Frames),
            from_columns(Stacks, parent=parent, frame=frame) if self._stacks else empty(Stacks),
        )
