"""Every grouping there is: one function each, and what a run must have for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .grouping_facts import by_category, by_inferred_phase, by_layer, by_phase, by_pool, by_stream, by_super_block
from .grouping_frames import by_first_user_frame, by_inferred_operator, by_operator, by_stack_root, by_user_module
from .grouping_labels import ColourRule, Grouping

if TYPE_CHECKING:
    from .run import Run

__all__ = ["GROUPINGS", "ColourRule", "Grouping", "GroupingSpec", "available", "preferred"]


@dataclass(frozen=True)
class GroupingSpec:
    """A grouping on offer: `needs` are capabilities a run must have."""

    title: str
    needs: frozenset[str]
    make: Callable[[Run], Grouping]


GROUPINGS: dict[str, GroupingSpec] = {
    "category": GroupingSpec("category", frozenset(), by_category),
    "super_block": GroupingSpec("super-block", frozenset({"layers"}), by_super_block),
    "layer": GroupingSpec("layer", frozenset({"layers"}), by_layer),
    "phase": GroupingSpec("phase of birth", frozenset({"spans"}), by_phase),
    "inferred_phase": GroupingSpec("phase of birth (inferred)", frozenset({"inferred_phases"}), by_inferred_phase),
    "frame": GroupingSpec("first user frame", frozenset({"stacks"}), by_first_user_frame),
    "root": GroupingSpec("stack root", frozenset({"stacks"}), by_stack_root),
    "op": GroupingSpec("operator", frozenset({"operators"}), by_operator),
    "operator": GroupingSpec("operator (inferred)", frozenset({"inferred_operators"}), by_inferred_operator),
    "user_module": GroupingSpec("module (inferred)", frozenset({"inferred_modules"}), by_user_module),
    "stream": GroupingSpec("stream", frozenset(), by_stream),
    "pool": GroupingSpec("pool", frozenset({"pools"}), by_pool),
}
"""Every grouping there is, by key, in the order of menus."""


def available(run: Run) -> list[str]:
    """Keys of the groupings that this run can have."""
    return [key for key, spec in GROUPINGS.items() if spec.needs <= run.capabilities]


def preferred(run: Run) -> str:
    """The grouping to open with: categories where the recorder named some, else the first user frame."""
    if run.capabilities & {"saved_tensors", "known_storages"} or "stacks" not in run.capabilities:
        return "category"
    return "frame"
