"""What can be shown of a run before its allocations are paired: the bytes of all of them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import I64

from .axes import XAxis, usual_axis
from .curves import unpaired
from .run import Run


@dataclass(frozen=True, eq=False)
class Preview:
    """`curve` has the active bytes at each position by what the events say of themselves. Pairing may yet correct it
    where the file contradicts itself."""

    name: str
    curve: I64
    axis: XAxis
    peak_position: int

    @property
    def n_events(self) -> int:
        """How many events there are."""
        return len(self.curve) - 1

    @property
    def peak_bytes(self) -> int:
        """The most bytes at any position."""
        return int(self.curve[self.peak_position])


def preview(run: Run) -> Preview:
    """The preview of a run of which nothing was asked yet."""
    curve = unpaired(run.recording, run.device_row)
    return Preview(run.name, curve, usual_axis(run), int(np.argmax(curve)))
