"""What is alive at the peak of a run, all of it or what the words of a filter match: what comparisons are made of."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import I64

from ..model.run import Run


def alive_at_peak(run: Run, filter: str = "") -> I64:
    """Rows of the allocations alive at the peak of the whole step that match these words, see `model.filters`."""
    alive = run.allocations.alive(run.peak_position)
    return alive[run.filtered(filter)[alive]] if filter else alive


def groups_at_peak(run: Run, key: str, filter: str = "") -> I64:
    """Their bytes in each group of a grouping."""
    if not filter:
        return run.groups_at(key, [run.peak_position])[:, 0]
    grouping, rows = run.grouping(key), alive_at_peak(run, filter)
    rows = rows[grouping.labels[rows] >= 0]
    out = np.zeros(len(grouping), np.int64)
    np.add.at(out, grouping.labels[rows], run.allocations.bytes[rows])
    return out
