"""From the peak of one run to the peak of another, group by group: bars that begin where the one before ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .diff import DiffRow

MOST = 8
"""Groups that get a bar of their own; the smaller ones share one, so that the bars still close."""
SMALL = 0.002
"""Share of the higher peak below which a group gets no bar of its own."""


@dataclass(frozen=True)
class Step:
    """One bar, from `start_bytes` to `end_bytes`."""

    label: str
    start_bytes: int
    end_bytes: int
    row: int | None = None
    """Which of the rows it stands for; None for the rest."""

    @property
    def difference_bytes(self) -> int:
        """How far it goes up."""
        return self.end_bytes - self.start_bytes


@dataclass(frozen=True)
class Waterfall:
    """`steps` lead from `a_bytes` to `b_bytes` without a gap."""

    a_bytes: int
    b_bytes: int
    steps: tuple[Step, ...]

    @property
    def highest(self) -> int:
        """The top of the picture."""
        return max([self.a_bytes, self.b_bytes, *(step.end_bytes for step in self.steps)])


def waterfall(rows: Sequence[DiffRow], most: int = MOST) -> Waterfall:
    """The bars of these rows: what became less first, each half with the largest in front, then what is too small for
    a bar. Rows without a difference have none."""
    a, b = sum(row.a_bytes for row in rows), sum(row.b_bytes for row in rows)
    least = SMALL * max(a, b)
    changed = [(number, row.difference_bytes) for number, row in enumerate(rows) if row.difference_bytes]
    changed.sort(key=lambda part: -abs(part[1]))
    shown = [part for part in changed[:most] if abs(part[1]) >= least] if len(changed) > 1 else changed
    left = len(changed) - len(shown)
    if left == 1:  # one that is left over takes the bar that the rest would
        shown, left = changed[: len(shown) + 1], 0
    steps, at = [], a
    for number, difference in sorted(shown, key=lambda part: (part[1] > 0, -abs(part[1]))):
        steps.append(Step(rows[number].label, at, at + difference, number))
        at += difference
    if left:
        steps.append(Step(f"other ({left})", at, b))
    return Waterfall(a, b, tuple(steps))
