"""What a grouping is: a label for each allocation, the names of the labels, and how to colour them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from memstrata.capture.format.schema import I32, I64


class ColourRule(Enum):
    """How the labels of a grouping get their colours."""

    CATEGORY = "category"
    """Label n is Category(n)."""
    PHASE = "phase"
    """Label n is Phase(n)."""
    RAMP = "ramp"
    """Labels are ordered: one ramp over them."""
    DISTINCT = "distinct"
    """Labels have no order: colours that differ, the largest groups first."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """`labels[i]` is the group of allocation i and indexes `names`; no allocation is left out."""

    key: str
    title: str
    labels: I32
    names: tuple[str, ...]
    colour: ColourRule
    neutral: frozenset[int] = frozenset()
    """Labels that stand for "the rest" and are painted grey."""

    def __len__(self) -> int:
        return len(self.names)

    def largest(self, group_bytes: I64, keep: int) -> Grouping:
        """The same grouping with all but the `keep` largest groups (by these bytes) as one group "other (N)"."""
        if len(self.names) <= keep:
            return self
        order = np.argsort(-group_bytes, kind="stable")
        kept = np.sort(order[:keep])
        mapping = np.full(len(self.names), len(kept), np.int32)
        mapping[kept] = np.arange(len(kept), dtype=np.int32)
        names = tuple(self.names[i] for i in kept.tolist()) + (f"other ({len(self.names) - keep})",)
        neutral = frozenset(int(mapping[n]) for n in self.neutral) | {len(kept)}
        return Grouping(self.key, self.title, mapping[self.labels], names, self.colour, neutral)
