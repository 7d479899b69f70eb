"""Which rules were checked, address by address, against real traces; everything else is `unverified`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .config import Config
from .recorded import Recorded


@dataclass(frozen=True)
class Evidence:
    """A rule and the real snapshots in which every address and every allocator segment event confirmed it."""

    rule: str
    snapshots: tuple[str, ...]


EVIDENCE = (
    Evidence("rounding, pools, best fit, splitting, coalescing (torch 2.1 to 2.11)", (
        "torch26-train-from-start", "torch24-linear-grad", "torch24-linear-nograd", "torch26-attention-small",
        "torch21-train-deep-stacks", "torch23-train", "torch23-notebook", "torch210-compile-train",
        "torch211-train", "torch211-windows-python-frames", "torch26-train-mid-run",
        "torch25-snapshot-event-mid-trace")),
    Evidence("several streams", ("torch21-inference-ten-streams",)),
    Evidence("emptying the cache", (
        "torch21-inference-ten-streams", "torch25-inference-segment-churn", "torch26-compile-forward-annotations")),
    Evidence("expandable_segments", ("torch28-oom-three-gpus-expandable",)),
    Evidence("unmapping after a failed allocation, and the OOM", ("torch28-oom-three-gpus-expandable",)),
)  # fmt: skip
"""tests/analysis/test_allocator_snapshots.py holds each line against the files."""

VERIFIED_KEYS = frozenset({"expandable_segments"})
PRIVATE_POOLS = "private pools"


def unverified(known: Recorded, config: Config) -> tuple[str, ...]:
    """Settings in force, and rules that this recording needs, without a real trace behind them."""
    out = [key for key in config.features if key not in VERIFIED_KEYS]
    if np.any(known.sequence.pool):
        out.append(PRIVATE_POOLS)
    return tuple(out)
