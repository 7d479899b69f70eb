"""What a point of a lane says on hover."""

from __future__ import annotations

from ..look.units import bytes_text, exact_bytes_text
from ..look.words import PREDICTION, WHAT_IF, category_text
from ..model.curves import at_position
from .lanes import Lane, Lanes
from .run_tables import moment_text
from .view_state import Segments


def lane_text(lanes: Lanes, lane: Lane, position: int, plan: Segments | None = None) -> str:
    """The lane, when, its bytes by category, what of them is shown, and what shapes say, all to the byte."""
    shown = lanes.shown(lane)
    sums = at_position(shown.rows, shown.labels, len(lane.categories), position)
    lines = [f"{lane.name}, {moment_text(lanes.run, position)}"]
    for category, size in zip(lane.categories, sums.tolist()):
        if size:
            lines.append(f"{category_text(category)}: {_both(size)}")
    whole = lane.total_at(position)
    if shown is not lane:
        lines.append(f"{_both(shown.total_at(position))} of {_both(whole)} in colour")
    elif len(lines) != 2:
        lines.append(f"together: {_both(whole)}")
    for title, curve in ((PREDICTION, lanes.predicted(lane)), (WHAT_IF, lanes.tried(lane, plan))):
        if curve is not None:
            lines.append(f"{title}: {_both(curve.at(position))}")
    return "\n".join(lines)


def _both(size: int) -> str:
    return f"{bytes_text(size)} ({exact_bytes_text(size)})"
