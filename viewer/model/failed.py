"""Allocations that were asked for and not given."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import Action

from .run import Run


def failed_allocations(run: Run) -> list[tuple[int, int]]:
    """(position, bytes asked for) of each out-of-memory event of the device."""
    rows = np.flatnonzero(run.events.action == Action.oom)
    return list(zip((rows + 1).tolist(), run.events.bytes[rows].tolist()))


def largest_failed(run: Run) -> tuple[int, int] | None:
    """(position, bytes asked for) of the largest of them; None where all was given."""
    return max(failed_allocations(run), key=lambda failed: failed[1], default=None)
