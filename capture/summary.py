"""The recorder's last line on stderr: the file, the peak, and the command that opens it."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np

from .format.recording import Recording
from .format.schema import Action, BlockState
from .format.units import bytes_text


def peak_bytes(recording: Recording) -> int:
    """The highest sum of bytes alive at once, over the devices of a recording."""
    return max((_device_peak(recording, device) for device in range(len(recording.meta.devices))), default=0)


def _device_peak(recording: Recording, device: int) -> int:
    """End state minus the net of the events gives the start; the running sum gives the peak."""
    events, blocks = recording.events, recording.blocks
    here = events.device == device
    action, size = events.action[here], events.bytes[here]
    running = np.cumsum(np.where(action == Action.alloc, size, np.where(action == Action.free_completed, -size, 0)))
    active = (blocks.state == BlockState.active_allocated) | (blocks.state == BlockState.active_pending_free)
    active &= recording.allocator_segments.device[blocks.segment] == device
    net, highest = (int(running[-1]), int(running.max())) if len(running) else (0, 0)
    return max(0, int(blocks.requested_bytes[active].sum()) - net) + max(0, highest)


def peak_line(recording: Recording, path: Path) -> str:
    """`recorded before.mstrata: peak 9.81 GiB; open it with: memstrata view before.mstrata`."""
    name = shlex.quote(str(path))
    return f"recorded {path}: peak {bytes_text(peak_bytes(recording))}; open it with: memstrata view {name}"
