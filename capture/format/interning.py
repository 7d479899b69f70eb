"""Strings stored once, and stacks as a parent-linked tree: the builders, and the read side of the strings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .schema import I64, NONE, U8, Frames, Stacks, from_rows


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
        self._numbers: dict[str, int] = {}

    def intern(self, text: str) -> int:
        """The number of this text."""
        return self._numbers.setdefault(text, len(self._numbers))

    def freeze(self) -> Strings:
        """The finished strings. Lone surrogates (odd file names) are written as `?`."""
        parts = [text.encode("utf-8", "replace") for text in self._numbers]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(p) for p in parts], out=offsets[1:])
        return Strings(np.frombuffer(b"".join(parts), np.uint8), offsets)


class StackTable:
    """Builds `Frames` and `Stacks`; a stack is one integer, the row of its innermost frame."""

    def __init__(self, strings: StringTable) -> None:
        self._strings = strings
        self._frames: dict[tuple[int, int, int], int] = {}
        self._stacks: dict[tuple[int, int], int] = {}

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

    def freeze(self) -> tuple[Frames, Stacks]:
        """The finished tables."""
        return from_rows(Frames, list(self._frames)), from_rows(Stacks, list(self._stacks))
