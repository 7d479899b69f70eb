"""From an address and a time to the allocation that lived there then."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from memstrata.capture.format.schema import B1, I64, NONE

from .allocations import Allocations
from .events import DeviceEvents
from .ordering import ascending


class Matcher:
    """Looks up allocations of one device by (address, time). Times are Unix ns. The first look-up sorts them all."""

    def __init__(self, events: DeviceEvents, allocations: Allocations) -> None:
        self._events, self._allocations = events, allocations
        self._stride = len(events) + 2  # more than any start, so that group * stride + start sorts by both

    @cached_property
    def _sorted(self) -> _ByAddress:
        return _by_address(self._allocations, self._stride)

    def alive(self, address: I64, time: I64) -> I64:
        """Row of the allocation alive at each address at each time; -1 if there was none.

        Event times may be coarser than the times asked for, so an allocation counts as alive until it is certain
        that it was freed; of two within one tick the later one is taken.
        """
        if not len(address):
            return np.empty(0, np.int64)
        place = self._begun(address, time) - 1
        found = self._at_address(place, address) & (self._sorted.end[place] > self._events.surely_over(time))
        return np.where(found, self._sorted.rows[place], NONE)

    def overlapping(self, address: I64, start: I64, end: I64) -> I64:
        """Row of the first allocation at each address that lived within start .. end (-1 for an open end)."""
        if not len(address):
            return np.empty(0, np.int64)
        following = self._begun(address, start)
        latest = np.where(end == NONE, self._stride, self._events.started(end))
        later = self._at_address(following, address) & (self._sorted.start[following] <= latest)
        alive = self.alive(address, start)
        return np.where(alive != NONE, alive, np.where(later, self._sorted.rows[following], NONE))

    def _begun(self, address: I64, time: I64) -> I64:
        """Place after the last allocation of each address that had begun at each time."""
        group = np.searchsorted(self._sorted.addresses[:-1], address)
        key = group * self._stride + self._events.started(time)
        return np.searchsorted(self._sorted.key, key, side="right").astype(np.int64)

    def _at_address(self, place: I64, address: I64) -> B1:
        """Whether these places hold allocations of these addresses."""
        own = self._sorted
        held: B1 = (own.addresses[own.group[place]] == address) & (own.rows[place] != NONE) & (address != 0)
        return held


@dataclass(frozen=True, eq=False)
class _ByAddress:
    """The allocations by address, then by start. All but `key` have one entry more than there are rows (or distinct
    addresses), which no query matches: it spares every look-up the check for the end."""

    addresses: I64
    """The distinct ones."""
    key: I64
    rows: I64
    group: I64
    """Which of `addresses`."""
    start: I64
    end: I64


def _by_address(allocations: Allocations, stride: int) -> _ByAddress:
    order = ascending(allocations.address)  # of one address they are in order of their start already
    address = allocations.address[order]
    is_first = np.diff(address, prepend=address[:1] - 1) != 0
    group = np.cumsum(is_first) - 1
    start = allocations.start[order]
    return _ByAddress(
        addresses=np.append(address[is_first], -1), key=group * stride + start, rows=np.append(order, NONE),
        group=np.append(group, NONE), start=np.append(start, 0), end=np.append(allocations.end[order], 0),
    )  # fmt: skip
