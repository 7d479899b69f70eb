"""The budget of a step, kept as separate lines. Checkpointing moves the activations line only.

Total = parameters + gradients + optimizer state + activations + temporaries + communication buffers + allocator
overhead. Sharding stage (ZeRO): 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too, over the data
ranks. Tensor parallelism divides the weights of a layer and what lies between its projections; sequence parallelism
divides the hidden states; a pipeline stage holds its share of the layers and the activations of every microbatch in
flight.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from memstrata.capture.format.plan import ModelShape, Plan

from .in_flight import in_flight
from .parallel import Parallel
from .prediction import Prediction, predict

PARAMETER_BYTES = 2
GRADIENT_BYTES = 2
OPTIMIZER_BYTES = 12
"""Mixed precision with Adam: bfloat16 weight and gradient; float32 master weight, first and second moment."""
GATHERED = 2
"""Layers whose parameters a fully sharded step holds gathered at once: the one that runs and the one fetched ahead."""


@dataclass(frozen=True)
class Budget:
    """Bytes per rank; None where nothing measured or predicted a line."""

    parameters: int | None
    gradients: int | None
    optimizer_state: int | None
    activations: int | None
    temporaries: int | None = None
    communication: int | None = None
    allocator_overhead: int | None = None

    def lines(self) -> list[tuple[str, int | None]]:
        """(word, bytes) of each line, in order."""
        return [(f.name.replace("_", " "), getattr(self, f.name)) for f in fields(self)]

    @property
    def persistent_bytes(self) -> int:
        """Parameters, gradients and optimizer state."""
        return sum(x or 0 for x in (self.parameters, self.gradients, self.optimizer_state))

    @property
    def known_bytes(self) -> int:
        """The sum of the lines that are known."""
        return sum(value or 0 for _, value in self.lines())


def sharded_state(parameters: int, ranks: int, activations: int | None = None) -> Budget:
    """Persistent state of one rank when parameters, gradients and optimizer state are all sharded (ZeRO-3): 16 bytes
    per parameter over the ranks, rounded up to whole bytes. ValueError if there are no ranks."""
    return Budget(*state(parameters, Parallel(zero=3, data=ranks)), activations)


def state(parameters: int, parallel: Parallel) -> tuple[int, int, int]:
    """(parameters, gradients, optimizer state) in bytes of one rank, each rounded up to whole bytes."""
    own = Fraction(parameters, parallel.tensor * parallel.pipeline)
    shards = [parallel.data if parallel.zero >= stage else 1 for stage in (3, 2, 1)]
    sizes = (PARAMETER_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES)
    first, second, third = (-int(-own * size / over // 1) for size, over in zip(sizes, shards, strict=True))
    return first, second, third


def budget(shape: ModelShape, plan: Plan, parallel: Parallel) -> Budget:
    """The budget of the rank with the most: the first pipeline stage, which has most microbatches in flight.

    The communication line is an estimate: two gathered layers where parameters are sharded, else a bucket of gradients
    where there is more than one data rank. Temporaries and allocator overhead do not follow from shapes.
    """
    return Budget(*state(shape.parameters, parallel), activations(shape, plan, parallel), None,
                  communication(shape, parallel))  # fmt: skip


def activations(shape: ModelShape, plan: Plan, parallel: Parallel) -> int:
    """Bytes of activations on the first stage: what all microbatches in flight keep, and what one makes again."""
    own, cut = parallel.stage(shape, plan)
    said = predict(own, cut)
    return peak_in_flight(said, in_flight(parallel)[0])


def peak_in_flight(said: Prediction, microbatches: int) -> int:
    """The peak with so many microbatches waiting for their backward: each keeps its boundaries and what no segment
    covers, and the one that runs has its segment besides."""
    waiting = said.boundary_bytes + said.kept_bytes
    return (microbatches - 1) * waiting + said.timeline_peak_bytes


def communication(shape: ModelShape, parallel: Parallel) -> int | None:
    """Buffers of collectives on one rank, an estimate; None where nothing is exchanged."""
    if parallel.zero >= 3 and parallel.data > 1:
        layer = Fraction(shape.parameters, len(shape.layers) * parallel.tensor)
        return int(GATHERED * layer * PARAMETER_BYTES)
    return BUCKET_BYTES if parallel.data > 1 else None


BUCKET_BYTES = 25 * 2**20
"""torch's default bucket of gradients in DistributedDataParallel."""
