"""Which addresses the allocator had reserved when: the end state taken back event by event."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, I64, Action

from .run import Run

LAST = 2**63 - 1
_MADE = (Action.segment_alloc, Action.segment_map)
_GONE = (Action.segment_free, Action.segment_unmap)
_MOVES = (*_MADE, *_GONE)


@dataclass(frozen=True, eq=False)
class ReservedRanges:
    """One row for each range and the positions through which it was reserved, start <= p < end."""

    address: I64
    bytes: I64
    start: I64
    end: I64
    private: B1
    """Whether it belongs to a private pool, as far as the end state tells."""

    def __len__(self) -> int:
        return len(self.address)


def reserved_ranges(run: Run) -> ReservedRanges:
    """The allocator segments of the device; none where no allocator reports them. Map and unmap ranges need not match
    earlier ones: what is not reserved after an event that reserved it was reserved from there on."""
    events = run.events
    held, rows = _Held(), list[tuple[int, int, int, int, bool]]()
    if run.recording.meta.has_reserved:
        _end_state(run, held)
    moves = np.flatnonzero(np.isin(events.action, _MOVES))[::-1] if held else np.empty(0, np.int64)
    for event, address, size, action in zip(
        moves.tolist(), events.address[moves].tolist(), events.bytes[moves].tolist(), events.action[moves].tolist()
    ):
        stop = min(address + size, LAST)
        cut = held.cut(address, stop)
        if action in _MADE:
            rows += [(a, b - a, event + 1, end, private) for a, b, end, private in cut]
        else:
            held.add(address, stop, event + 1, any(private for _, _, _, private in cut))
    rows += [(a, b - a, 0, end, private) for a, b, end, private in held.all]
    table = np.array(sorted(rows), np.int64).reshape(-1, 5).T
    return ReservedRanges(table[0], table[1], table[2], table[3], table[4].astype(np.bool_))


def _end_state(run: Run, held: _Held) -> None:
    segments = run.recording.allocator_segments
    mine = np.flatnonzero((segments.device == run.device_row) & (segments.bytes > 0))
    private = (segments.pool_owner != 0) | (segments.pool_id != 0)
    for row in mine[np.argsort(segments.address[mine], kind="stable")].tolist():
        start = int(segments.address[row])
        stop = min(start + int(segments.bytes[row]), LAST)
        held.cut(start, stop)
        held.add(start, stop, run.n_events + 1, bool(private[row]))


Piece = tuple[int, int, int, bool]


class _Held:
    """Ranges that do not overlap, in order of address: (first address, last + 1, position of its end, private)."""

    def __init__(self) -> None:
        self.all: list[Piece] = []
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __bool__(self) -> bool:
        return bool(self.all)

    def add(self, start: int, stop: int, end: int, private: bool) -> None:
        """A range where nothing is."""
        if start < stop:
            self._put(bisect_left(self._starts, start), 0, [(start, stop, end, private)])

    def cut(self, start: int, stop: int) -> list[Piece]:
        """Take out what lies in a range; returns it."""
        first, last = bisect_right(self._stops, start), bisect_left(self._starts, stop)
        found = self.all[first:last]
        if not found:
            return []
        rest = [(found[0][0], start, *found[0][2:])] if found[0][0] < start else []
        rest += [(stop, found[-1][1], *found[-1][2:])] if found[-1][1] > stop else []
        self._put(first, last - first, rest)
        return [(max(a, start), min(b, stop), end, private) for a, b, end, private in found]

    def _put(self, at: int, count: int, pieces: list[Piece]) -> None:
        self.all[at : at + count] = pieces
        self._starts[at : at + count] = [piece[0] for piece in pieces]
        self._stops[at : at + count] = [piece[1] for piece in pieces]
