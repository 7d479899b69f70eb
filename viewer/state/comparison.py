"""The comparison's tables: by category, by super-block, by phase and layer, each with its difference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memstrata.capture.format.schema import I64, Category

from ..analysis.diff import Diff, DiffRow
from ..look.units import bytes_text, difference_text, exact_bytes_text
from ..look.words import category_of
from .array_table import Column

TOTAL = "all"


def group_columns(title: str, rows: Sequence[DiffRow], names: tuple[str, str]) -> list[Column]:
    """Bytes of each group at each run's own peak, their difference, and the sum of all as the last row."""
    a = np.array([*(row.a_bytes for row in rows), sum(row.a_bytes for row in rows)], np.int64)
    b = np.array([*(row.b_bytes for row in rows), sum(row.b_bytes for row in rows)], np.int64)
    labels = [*(row.label for row in rows), TOTAL]
    return _columns(title, labels, a, b, names, swatch=True)


def slot_columns(diff: Diff, names: tuple[str, str]) -> list[Column]:
    """The most bytes alive in each phase of each super-block; empty where only one run has it."""
    rows = diff.by_super_block_slot
    a = np.array([row.a.bytes if row.a else -1 for row in rows], np.int64)
    b = np.array([row.b.bytes if row.b else -1 for row in rows], np.int64)
    return _columns("while", [row.slot.label for row in rows], a, b, names)


def category_of_row(rows: Sequence[DiffRow], row: int) -> Category | None:
    """The category of a row of the table by category; None for the sum."""
    return category_of(rows[row].label) if row < len(rows) else None


def _columns(
    title: str, labels: Sequence[str], a: I64, b: I64, names: tuple[str, str], swatch: bool = False
) -> list[Column]:
    both = (a >= 0) & (b >= 0)
    difference = np.where(both, b - a, 0)
    share = difference / max(int(np.abs(difference).max(initial=0)), 1)

    def sized(sizes: I64, name: str) -> Column:
        return Column(
            name, sizes, lambda i: bytes_text(int(sizes[i])) if sizes[i] >= 0 else "",
            lambda i: exact_bytes_text(int(sizes[i])) if sizes[i] >= 0 else "this run has no such place", True,
        )  # fmt: skip

    changed = Column(
        "difference", difference, lambda i: difference_text(int(difference[i])) if both[i] else "",
        lambda i: exact_bytes_text(int(difference[i])), True, share,
    )  # fmt: skip
    return [
        Column(title, np.arange(len(labels)), lambda i: labels[i], swatch=swatch),
        sized(a, names[0]), sized(b, names[1]), changed,
    ]  # fmt: skip
