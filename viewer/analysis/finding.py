"""One finding, and how to say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from memstrata.capture.format.schema import I64

from ..look.units import exact_lines
from ..model.query import AllocationQuery
from ..model.run import Run


@dataclass(frozen=True)
class Finding:
    """`bytes` are at stake; `query` selects the allocations that show it."""

    code: str
    bytes: int
    text: str
    """One sentence: what is so."""
    suggestion: str
    """One sentence: what would change it."""
    query: AllocationQuery
    sizes: tuple[int, ...] = ()
    """The other bytes that the text rounds."""

    @property
    def exact(self) -> str:
        """Every figure of the text to the byte, a line each."""
        return "\n".join(exact_lines(dict.fromkeys((self.bytes, *self.sizes))))

    def as_json(self) -> dict[str, Any]:
        """What `memstrata report --json` prints of it; `allocations` are rows of the allocation table."""
        return {
            "code": self.code,
            "bytes": self.bytes,
            "text": self.text,
            "suggestion": self.suggestion,
            "position": self.query.position,
            "allocations": list(self.query.rows or ()),
        }


def of_rows(rows: Sequence[int] | I64, position: int | None = None) -> AllocationQuery:
    """The query for these allocations."""
    return AllocationQuery(position=position, rows=tuple(np.asarray(rows, np.int64).tolist()))


def bytes_of(run: Run, rows: I64) -> int:
    """Bytes of these allocations together."""
    return int(run.allocations.bytes[rows].sum())


def highest(run: Run, rows: I64) -> tuple[int, int]:
    """(position, bytes) of the moment at which most bytes of these allocations are alive; (0, 0) for none."""
    if not len(rows):
        return 0, 0
    allocations = run.allocations
    delta = np.zeros(run.n_events + 2, np.int64)
    np.add.at(delta, allocations.start[rows], allocations.bytes[rows])
    np.subtract.at(delta, allocations.end[rows], allocations.bytes[rows])
    curve = delta.cumsum()[: run.n_events + 1]
    position = int(curve.argmax())
    return position, int(curve[position])
