"""How much of a plain snapshot each kind of inference covers; of a recording nothing is inferred."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.schema import B1, I32, NONE, Category, Phase

from .inference_sites import module_frames, operator_frames
from .run import Run


@dataclass(frozen=True)
class InferredCoverage:
    """Shares from 0 to 1: of the bytes alive at one position, and of the events of the whole trace."""

    category: float
    """Bytes whose category is inferred."""
    phase: float
    """Bytes whose phase of birth is."""
    operator: float
    """Bytes whose operator is."""
    module: float
    """Bytes whose user module is."""
    events_in_phases: float
    """Events whose phase is inferred."""
    evident: float
    """Events whose own stack, or an annotation around them, names it; of the others it follows from what lies around
    them."""
    steps: int
    """Training steps that the trace shows to their end."""
    events_in_steps: float


def inferred_coverage(run: Run, position: int) -> InferredCoverage | None:
    """The shares at a position; None for a recording, and where nothing is alive then."""
    if run.inferred is None or not run.curve[position]:
        return None
    alive = run.allocations.alive(position)
    sizes, stack = run.allocations.bytes[alive], run.allocations.stack[alive]
    born = (run.attribution.phase[alive] != Phase.other) & ~run.allocations.before[alive]

    def share(of: B1) -> float:
        return int(sizes[of].sum()) / int(run.curve[position])

    def named(frames: I32) -> float:
        return share(np.append(frames, np.int32(NONE))[stack] != NONE)

    phases, events = run.inferred.phases, max(run.n_events, 1)
    known = phases.phase != Phase.other
    return InferredCoverage(
        category=share(run.attribution.inferred[alive] & (run.attribution.category[alive] != Category.unattributed)),
        phase=share(born),
        operator=named(operator_frames(run.recording)),
        module=named(module_frames(run.recording)),
        events_in_phases=int(known.sum()) / events,
        evident=int((known & phases.evident).sum()) / events,
        steps=len(run.inferred.steps),
        events_in_steps=sum(last - first for first, last in run.inferred.steps) / events,
    )
