"""Frees on threads that torch.profiler does not see: those that communicate let go of what they held last."""

from __future__ import annotations

from typing import Any

from torch._C._profiler import _EventType

from ..format.schema import NONE
from ..own_frames import is_own
from ..storages import Known

Event = tuple[int, int, int, int]
"""(time in ns, address, signed bytes, stack)"""

_NEAR = 4
"""An operator allocates through others: `c10d::_reduce_scatter_base_`, `aten::clone`, `aten::empty_strided`."""

_CALLERS = ("torch/distributed/distributed_c10d.py", "torch/distributed/c10d_logger.py", "torch/_ops.py")
"""The functions that start a collective, and wait for it unless they are asked not to."""


class Collectives:
    """When the collectives inside which memory was allocated had returned, by time and address of the allocation."""

    def __init__(self) -> None:
        self.ends: dict[tuple[int, int], int] = {}

    def note(self, time: int, address: int, signed: int, chain: Any) -> None:
        """Look at one allocation and the chain of links [event, caller's link, ...] it happened in."""
        if signed > 0:
            end = _collective_end(chain)
            if end is not None:
                self.ends[time, address] = end


def _collective_end(chain: Any) -> int | None:
    link, near = chain, 0
    while link is not None and near < _NEAR and not _is_collective(link[0]):
        link, near = link[1], near + 1
    if link is None or near == _NEAR:
        return None
    while link[1] is not None and _belongs(link[1][0]):
        link = link[1]
    return int(link[0].end_time_ns)


def _belongs(event: Any) -> bool:
    """Whether a caller is still part of the collective: torch's own way into it, or ours."""
    if event.tag == _EventType.PyCall:
        file = event.extra_fields.callsite.file_name.replace("\\", "/")
        return file.endswith(_CALLERS) or is_own(file)
    return event.tag == _EventType.PyCCall or _is_collective(event)


def _is_collective(event: Any) -> bool:
    return event.tag == _EventType.TorchOp and event.name.startswith("c10d::")


def freed_elsewhere(measured: list[Event], known: list[Known], collectives: Collectives) -> list[Event]:
    """The frees that no event tells of. `measured` is in order.

    A known storage was freed when its weak reference said so. What a collective allocated inside was freed at the
    earliest when it had returned, and that is what is taken.
    """
    open_since: dict[int, tuple[int, int]] = {}
    unfreed: dict[int, list[tuple[int, int, int]]] = {}
    for time, address, signed, _ in measured:
        born = open_since.pop(address, None)
        if signed > 0:
            open_since[address] = time, signed
            if born is not None:
                unfreed.setdefault(address, []).append((*born, time))
    for address, born in open_since.items():
        unfreed.setdefault(address, []).append((*born, 1 << 63))
    frees = [(row.end_time, row.address, row.start_time) for row in known
             if row.end_time != NONE and row.device.type == "cpu"]  # fmt: skip
    frees += [(end, address, time) for (time, address), end in collectives.ends.items()]
    return [
        (end, address, -size, NONE)
        for end, address, alive in frees
        for born, size, gone in unfreed.get(address, ())
        if born <= alive < gone and alive < end < gone
    ]
