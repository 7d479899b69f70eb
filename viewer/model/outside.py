"""Memory of the device outside torch's allocator: the CUDA context, NCCL, libraries, other processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import I64, NONE, MarkKind

if TYPE_CHECKING:
    from .run import Run


@dataclass(frozen=True, eq=False)
class Outside:
    """At each moment at which the device was asked: the position, and bytes taken minus bytes reserved by torch."""

    position: I64
    device_bytes: I64
    """Bytes of the device that are taken, by whomever."""
    bytes: I64


def outside_allocator(run: Run) -> Outside | None:
    """None where the file has no marks of this device's memory, or no allocator that reports what it reserved."""
    marks, strings = run.recording.marks, run.recording.strings
    rows = [
        row
        for row in np.flatnonzero((marks.kind == MarkKind.device_memory) & (marks.time != NONE)).tolist()
        if strings[int(marks.text[row])] == run.device.name and np.isfinite(marks.value[row])
    ]
    if not rows or run.reserved is None or run.events.time is None:
        return None
    position = run.events.started(marks.time[rows])
    used = marks.value[rows].astype(np.int64)
    return Outside(position, used, used - run.reserved[position])
