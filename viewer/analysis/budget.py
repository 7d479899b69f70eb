"""The budget of a step, kept as separate lines. Checkpointing moves the activations line only."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction

PARAMETER_BYTES = 2
GRADIENT_BYTES = 2
OPTIMIZER_BYTES = 12
"""Mixed precision with Adam: bfloat16 weight and gradient; float32 master weight, first and second moment."""


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
    if ranks < 1:
        raise ValueError(f"there is at least one rank, not {ranks}")
    each = Fraction(parameters, ranks)
    return Budget(
        parameters=-int(-each * PARAMETER_BYTES // 1),
        gradients=-int(-each * GRADIENT_BYTES // 1),
        optimizer_state=-int(-each * OPTIMIZER_BYTES // 1),
        activations=activations,
    )
