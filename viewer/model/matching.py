"""From an address and a time to the allocation that lived there then."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import B1, I64, NONE

from .allocations import Allocations
from .events import DeviceEvents


class Matcher:
    """Looks up allocations of one device by (address, time). Times are Unix ns."""

    def __init__(self, events: DeviceEvents, allocations: Allocations) -> None:
        self._events = events
        self._stride = len(events) + 2  # more than any start, so that group * stride + start sorts by both
        addresses, group = np.unique(allocations.address, return_inverse=True)
        key = group * self._stride + allocations.start
        order = np.argsort(key, kind="stable")
        # One entry more than there are rows, which no query matches, spares every look-up the check for the end.
        self._addresses = np.append(addresses, -1)
        self._key = key[order]
        self._rows = np.append(order, NONE)
        self._group = np.append(group[order], NONE)
        self._start = np.append(allocations.start[order], 0)
        self._end = np.append(allocations.end[order], 0)

    def alive(self, address: I64, time: I64) -> I64:
        """Row of the allocation alive at each address at each time; -1 if there was none.

        Event times may be coarser than the times asked for, so an allocation counts as alive until it is certain
        that it was freed; of two within one tick the later one is taken.
        """
        place = self._begun(address, time) - 1
        found = self._at_address(place, address) & (self._end[place] > self._events.surely_over(time))
        return np.where(found, self._rows[place], NONE)

    def overlapping(self, address: I64, start: I64, end: I64) -> I64:
        """Row of the first allocation at each address that lived within start .. end (-1 for an open end)."""
        following = self._begun(address, start)
        latest = np.where(end == NONE, self._stride, self._events.started(end))
        later = self._at_address(following, address) & (self._start[following] <= latest)
        alive = self.alive(address, start)
        return np.where(alive != NONE, alive, np.where(later, self._rows[following], NONE))

    def _begun(self, address: I64, time: I64) -> I64:
        """Place after the last allocation of each address that had begun at each time."""
        group = np.searchsorted(self._addresses[:-1], address)
        key = group * self._stride + self._events.started(time)
        return np.searchsorted(self._key, key, side="right").astype(np.int64)

    def _at_address(self, place: I64, address: I64) -> B1:
        """Whether these places hold allocations of these addresses."""
        held: B1 = (self._addresses[self._group[place]] == address) & (self._rows[place] != NONE) & (address != 0)
        return held
