"""The budget of a step, kept as separate lines. Checkpointing moves the activations line only.

Total = parameters + gradients + optimizer state + activations + temporaries + communication buffers + allocator
overhead. Sharding stage (ZeRO): 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too, over the data
ranks. Tensor parallelism divides the weights of a layer and what lies between its projections; sequence parallelism
divides the hidden states; a pipeline stage holds its share of the layers and the activations of every microbatch in
flight.

Temporaries are those of the loss where backward begins, per token (V vocabulary, b bytes of a value): the logits that
the step itself holds, V x b, and in float32 the gradients of log-probabilities and of logits, 2 x V x 4. Measured on
the CPU for float32 and bfloat16; those inside layers do not follow from shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

from memstrata.capture.format.plan import ModelShape, Plan, Term

from .in_flight import in_flight
from .kernels import Kernels
from .outside_layers import LOG_PROBABILITIES, LOSS
from .parallel import Parallel
from .prediction import Prediction, predict

PARAMETER_BYTES = 2
GRADIENT_BYTES = 2
OPTIMIZER_BYTES = 12
"""Mixed precision with Adam: bfloat16 weight and gradient; float32 master weight, first and second moment."""
GATHERED = 2
"""Layers whose parameters a fully sharded step holds gathered at once: the one that runs and the one fetched ahead."""


CHUNKS = 16
"""Parts into which the tokens are cut for a cross-entropy in chunks."""


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


def budget(shape: ModelShape, plan: Plan, parallel: Parallel, kernels: Kernels | None = None) -> Budget:
    """The budget of a rank, each line of the pipeline stage where it is highest, at its own highest moment.

    The communication line is an estimate: two gathered layers where parameters are sharded, else a bucket of gradients
    where there is more than one data rank. Allocator overhead does not follow from shapes, nor do temporaries where
    the model has no head.
    """
    held = temporaries(shape, parallel, kernels or Kernels())
    return Budget(
        *state(shape.parameters, parallel),
        activations(shape, plan, parallel),
        sum(term.bytes(shape.tokens // parallel.sequence) for term in held) if held else None,
        communication(shape, parallel),
    )


def activations(shape: ModelShape, plan: Plan, parallel: Parallel) -> int:
    """Bytes of activations on the stage with the most: what all microbatches in flight keep, and what one makes
    again."""
    return max(stage_activations(shape, plan, parallel))


def stage_activations(shape: ModelShape, plan: Plan, parallel: Parallel) -> list[int]:
    """Bytes of activations on each pipeline stage, first to last."""
    stages = [parallel.stage(shape, plan, number) for number in range(parallel.pipeline)]
    counts = in_flight(parallel)
    return [peak_in_flight(predict(own, cut), count) for (own, cut), count in zip(stages, counts, strict=True)]


def temporaries(shape: ModelShape, parallel: Parallel, kernels: Kernels) -> tuple[Term, ...]:
    """What a loss over logits holds for a moment where backward begins, per token of a rank; empty without a head. In
    chunks it holds as much of one chunk, and its log-probabilities."""
    whole = next((term.width for term in shape.behind if term.name == LOG_PROBABILITIES), 0)
    width = -(-whole // (parallel.tensor * (CHUNKS if kernels.loss == "chunked" else 1)))
    if not whole:
        return ()
    formula = "vocabulary" if width == whole else f"vocabulary / {whole / width:.0f}"
    names = ["gradient of log-probabilities", "gradient of float32 logits"]
    if kernels.loss == "chunked":
        names.append(f"{LOG_PROBABILITIES} of a chunk")
    wide = (Term(name, width, 4, formula, LOSS, "float32") for name in names)
    return (Term("logits", width, shape.itemsize, formula, LOSS), *wide)


def peak_in_flight(said: Prediction, microbatches: int) -> int:
    """The peak with so many microbatches waiting for their backward: each keeps its boundaries, what no segment
    covers and what lies outside the layers, and the one that runs has its segment besides."""
    waiting = said.boundary_bytes + said.kept_bytes + said.outside_bytes
    return (microbatches - 1) * waiting + said.timeline_peak_bytes


def communication(shape: ModelShape, parallel: Parallel) -> int | None:
    """Buffers of collectives on one rank, an estimate; None where nothing is exchanged."""
    if parallel.zero >= 3 and parallel.data > 1:
        layer = Fraction(shape.parameters, len(shape.layers) * parallel.tensor)
        return int(GATHERED * layer * PARAMETER_BYTES)
    return BUCKET_BYTES if parallel.data > 1 else None


BUCKET_BYTES = 25 * 2**20
"""torch's default bucket of gradients in DistributedDataParallel."""
