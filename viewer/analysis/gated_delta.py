"""What the reference kernel of gated-delta attention keeps beyond the widths, as measured.

Transformers' kernel in Python cuts the sequence into chunks of 64 and keeps, for each token (n value heads, k width of
a key, v of a value, b bytes of a value of the model):

    n x k x (8 x b + 4 x 4)     queries and keys, repeated for every value head, normalised, scaled by their decay
    n x v x 6 x 4               values scaled by beta and by decay, in float32
    n x (5 x 64 + 9) x 4        matrices within a chunk, and decays, in float32
    n x k x v / 64 x 4          the state after each chunk, in float32

Measured on the CPU with transformers 5.24 (Qwen3.5's layer, whose torch path Qwen3-Next shares): nine sizes each in
bfloat16 and float32 fitted by least squares, every coefficient within 2% of these, all sizes within 0.5%; a dry run of
the hybrid preset (48 heads x 128 x 128, bfloat16) keeps 456,299 bytes per token beyond the widths, this says 456,384.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memstrata.capture.format.plan import Term

REFERENCE = "reference"
"""Begins what the names of its terms say, behind that of the half."""
CHUNK = 64
PER_VALUE = 74
"""Bytes for each value of the value projection where its heads are not known: those of the hybrid preset."""


@dataclass(frozen=True)
class DeltaHeads:
    """Heads of gated-delta attention: how many value heads, width of a key; 0 unknown."""

    heads: int = 0
    key_dim: int = 0


def reference_terms(name: str, module: str, values: int, itemsize: int, delta: DeltaHeads) -> Iterator[Term]:
    """What it keeps in a layer whose value projection has so many `values` (n x v) per token."""
    n, keys, prefix = delta.heads, delta.heads * delta.key_dim, f"{name} {REFERENCE}".strip()

    def term(what: str, width: int, formula: str, dtype: str = "float32", size: int = 4) -> Term:
        return Term(f"{prefix}, {what}", width, size, formula, module, dtype)

    if not keys:
        yield term("all of it", PER_VALUE * values, f"{PER_VALUE} bytes x values", "mixed", 1)
        return
    yield term("queries and keys", 8 * keys, "8 x heads x key width", "", itemsize)
    yield term("queries and keys in float32", 4 * keys, "4 x heads x key width")
    yield term("values", 6 * values, "6 x heads x value width")
    yield term("chunks", n * (5 * CHUNK + 9), f"heads x (5 x {CHUNK} + 9)")
    yield term("states", -(-keys * values // (n * CHUNK)), f"heads x key width x value width / {CHUNK}")
