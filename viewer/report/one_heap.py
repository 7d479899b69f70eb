"""Addresses of one heap, where no allocator reports segments: the CPU and dry runs.

Readers of snapshots lay the blocks of a segment one behind the other from its address on, and look for every event's
address in a segment. The heap of a process has no such segments, a dry run not even addresses. So all storages are laid
out anew in one heap: each in the smallest gap that holds it (best fit), else at the end. Sizes and order stay as they
are, and at every moment no two storages overlap.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any

from memstrata.capture.format.schema import NONE

Block = dict[str, Any]

BASE = 1 << 32
"""Address of the heap: no reader takes it for a missing one."""


class Heap:
    """Best fit in one range from `BASE` on that grows at its end; bytes."""

    def __init__(self) -> None:
        self.end = BASE
        self._size: dict[int, int] = {}
        """Bytes of what lies at an address."""
        self._gaps: list[tuple[int, int]] = []
        """(bytes, address) of each gap, the smallest first."""
        self._begins: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        """Bytes of the gap that begins, or ends, at an address."""

    def take(self, size: int) -> int:
        """An address for so many bytes."""
        place = bisect_left(self._gaps, (size, 0))
        if place < len(self._gaps):
            room, address = self._gaps[place]
            self._fill(room, address)
            if room > size:
                self._open(room - size, address + size)
        else:
            address, self.end = self.end, self.end + size
        self._size[address] = size
        return address

    def give_back(self, address: int) -> None:
        """What lies there is gone; a gap joins those beside it."""
        size = self._size.pop(address)
        before, behind = self._ends.get(address, 0), self._begins.get(address + size, 0)
        if before:
            self._fill(before, address - before)
        if behind:
            self._fill(behind, address + size)
        self._open(before + size + behind, address - before)

    def _open(self, size: int, address: int) -> None:
        if size:
            insort(self._gaps, (size, address))
            self._begins[address] = self._ends[address + size] = size

    def _fill(self, size: int, address: int) -> None:
        del self._gaps[bisect_left(self._gaps, (size, address))]
        del self._begins[address], self._ends[address + size]

    def tiled(self, blocks: dict[int, Block]) -> list[Block]:
        """These blocks by address and what lies between them, one behind the other up to the end."""
        gaps = [(address, _gap(address, size)) for size, address in self._gaps]
        return [block for _, block in sorted([*blocks.items(), *gaps], key=lambda pair: pair[0])]


def lay_out(events: list[dict[str, Any]], blocks: list[Block]) -> tuple[list[Block], int]:
    """Give the events of one device and its blocks at the end addresses in one heap, in place.

    Returns (blocks that fill the heap, its bytes). An address that is freed but was never allocated in the trace is a
    storage that was there before.
    """
    heap, place = Heap(), dict[int, int]()
    for address, size in _there_before(events, blocks):
        place[address] = heap.take(size)
    for event in events:
        old = event.get("addr", NONE)
        if event["action"] == "alloc":
            place[old] = event["addr"] = heap.take(event["size"])
        elif event["action"] == "free_requested" and old in place:
            event["addr"] = place[old]
        elif event["action"] == "free_completed" and old in place:
            event["addr"] = place.pop(old)
            heap.give_back(event["addr"])
    at = {place[block["address"]]: block for block in blocks}
    for address, block in at.items():
        block["address"] = address
    return heap.tiled(at), heap.end - BASE


def _there_before(events: Iterable[dict[str, Any]], blocks: Iterable[Block]) -> list[tuple[int, int]]:
    """(address, bytes) of every storage older than the trace."""
    alive: set[int] = set()
    before: dict[int, int] = {}
    for event in events:
        if event["action"] == "alloc":
            alive.add(event["addr"])
        elif event["action"] == "free_completed":
            if event["addr"] in alive:
                alive.remove(event["addr"])
            else:
                before.setdefault(event["addr"], event["size"])
    before.update({block["address"]: block["size"] for block in blocks if block["address"] not in alive})
    return list(before.items())


def _gap(address: int, size: int) -> Block:
    return {"address": address, "size": size, "requested_size": size, "state": "inactive", "frames": []}
