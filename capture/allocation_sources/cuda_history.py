"""torch's memory history and the other things the recorder asks of `torch.cuda`: the one place that does.

Read in torch's source (`c10/cuda/CUDACachingAllocator.cpp`, `torch/csrc/cuda/memory_snapshot.cpp`), 2.4 to 2.13; what
came or went in between is found by asking for it, never by a version number.

- The history is one ring per device, for all devices at once. Switching it off empties it; switching it on again with
  other settings keeps what is in it. Only some versions say how large it is, and whether it overflowed.
- `_cuda_isHistoryEnabled`, the statistics and the stamps index an allocator that exists only once CUDA is initialised.
- An event's time is the processor's time stamp counter, turned into Unix time when the snapshot is taken: by one
  straight line from the start of the process to that moment, rounded down to a microsecond. It is exact at the
  snapshot and may be off by some microseconds for each second before it, where the system's clock was adjusted.
- The allocator counts its allocations in the same call that writes the event: the counts say where the step began, and
  whether an event is missing.
- `cudaMemGetInfo` waits for no stream, but takes the driver's lock: ask it at phases, not at layers.
- Synchronising, or asking for its memory, makes a context on a device that has none: only used devices are asked.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import CaptureError

RING = 4_000_000
"""Entries of the history for each device: a step has thousands, and a runaway one must not eat the host's memory."""

STACKS = ("python", "all")
"""With C++ frames (`all`) a snapshot can take minutes."""


@dataclass(frozen=True)
class Moment:
    """A point in the history: Unix ns, and how many allocations each device had made by then (torch's ordinals)."""

    time: int
    made: dict[int, int]


def check() -> None:
    """Initialise CUDA; raises CaptureError where its memory keeps no history."""
    if not torch.cuda.is_available():
        raise CaptureError("CUDA memory cannot be recorded: torch sees no CUDA device.")
    torch.cuda.init()
    backend = torch.cuda.get_allocator_backend()
    if backend != "native":
        raise CaptureError(
            f"CUDA memory cannot be recorded with the allocator {backend!r}: only torch's native one keeps a history."
        )
    if os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1":
        raise CaptureError("CUDA memory cannot be recorded while PYTORCH_NO_CUDA_MEMORY_CACHING is set.")
    if torch.cuda.is_current_stream_capturing():
        raise CaptureError("A step cannot be recorded from inside the capture of a CUDA graph.")


def is_on() -> bool:
    """Whether somebody records the history now."""
    return bool(torch._C._cuda_isHistoryEnabled())


def switch_on(ring: int, stacks: str) -> None:
    """Record all allocations and frees with their stacks."""
    record = torch.cuda.memory._record_memory_history
    record("all", **accepted(record, context="all", stacks=stacks, max_entries=ring))


def switch_off() -> None:
    """Stop, and forget what was recorded."""
    torch.cuda.memory._record_memory_history(None)


def snapshot() -> Any:
    """The history and the allocator's state."""
    return torch.cuda.memory._snapshot()


def accepted(function: Callable[..., Any], **wanted: Any) -> dict[str, Any]:
    """Those of the wanted arguments that a function takes."""
    parameters = inspect.signature(function).parameters
    takes_all = any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    return {name: value for name, value in wanted.items() if takes_all or name in parameters}


def used_devices() -> list[int]:
    """The devices on which this process holds or held memory of the allocator."""
    return [ordinal for ordinal in range(torch.cuda.device_count()) if _is_used(_stats(ordinal))]


def moment() -> Moment:
    """Now. Asks the allocator's counters and waits for nothing."""
    return Moment(time.time_ns(), made())


def made() -> dict[int, int]:
    """How many allocations each device had made, ever or since its statistics were reset."""
    found = {ordinal: _stats(ordinal) for ordinal in range(torch.cuda.device_count())}
    return {ordinal: _count(stats, "allocation", "allocated") for ordinal, stats in found.items()}


def synchronize(devices: Iterable[int]) -> None:
    """Wait for all kernels on these devices; raises what a failed one raises."""
    for ordinal in devices:
        torch.cuda.synchronize(ordinal)


def used_bytes(device: int) -> int:
    """Bytes of a device that are taken, by whomever; raises RuntimeError if it cannot be asked any more."""
    free, total = torch.cuda.mem_get_info(device)
    return int(total) - int(free)


def capacity(device: int) -> int | None:
    """Bytes of memory that a device has, None where it cannot be asked."""
    try:
        return int(torch.cuda.get_device_properties(device).total_memory)
    except (RuntimeError, AssertionError):  # a device that torch does not see, or one that failed
        return None


def stamping() -> tuple[Callable[[str], None], Callable[[], str]] | None:
    """(set, get) of the text torch stamps on the calling thread's events; None where it cannot (before 2.10)."""
    give, ask = (getattr(torch._C, f"_cuda_{verb}MemoryMetadata", None) for verb in ("set", "get"))
    return None if give is None or ask is None else (give, ask)


def _stats(ordinal: int) -> dict[str, Any]:
    stats: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(ordinal)
    return stats


def _is_used(stats: dict[str, Any]) -> bool:
    return _count(stats, "allocation", "allocated") > 0 or _count(stats, "reserved_bytes", "current") > 0


def _count(stats: dict[str, Any], name: str, which: str) -> int:
    return int(stats.get(name, {}).get("all", {}).get(which, 0))
