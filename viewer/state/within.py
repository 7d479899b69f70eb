"""Which allocations the tables show: those alive at the cursor, or what happened between the mark and the cursor."""

from __future__ import annotations

from dataclasses import replace

from ..model.query import AllocationQuery
from .view_state import RunView

CURSOR = "cursor"
WITHIN: dict[str, str] = {
    CURSOR: "alive at the cursor",
    "alive": "alive anywhere from mark to cursor",
    "made": "made from mark to cursor",
    "survived": "made from mark to cursor and still alive at its end",
}
"""By key, as it is said. All but the first need a mark."""


def span_of(view: RunView) -> tuple[int, int] | None:
    """The positions from mark to cursor in order; None without a mark."""
    if view.mark is None:
        return None
    return min(view.mark, view.cursor), max(view.mark, view.cursor)


def within_of(view: RunView) -> str:
    """The key in force: without a mark only the cursor counts."""
    return CURSOR if view.mark is None else view.within


def shown_query(view: RunView) -> AllocationQuery:
    """The allocations that tables and trees show: the selection, the filter, and the cursor or the span."""
    query = replace(view.query or AllocationQuery(), filter=view.filter)
    span = span_of(view)
    if span is None or view.within == CURSOR:
        return replace(query, position=view.cursor)
    if view.within == "alive":
        return replace(query, alive_in=span)
    return replace(query, born=span, position=span[1] if view.within == "survived" else None)


def picture_query(view: RunView) -> AllocationQuery | None:
    """What a picture of all allocations, not only of those alive at the cursor, shows in colour: what the selection,
    the filter and the range leave. None where nothing is restricted."""
    if within_of(view) != CURSOR:
        return shown_query(view)
    if view.query is None and not view.filter:
        return None
    return replace(view.query or AllocationQuery(), filter=view.filter)


def limit_query(view: RunView) -> AllocationQuery | None:
    """The same whatever is selected: what the filter and the range leave."""
    return picture_query(replace(view, query=None))


def limit_text(view: RunView) -> str:
    """`matching "mlp", alive anywhere from mark to cursor`; empty where neither restricts anything."""
    ranged = WITHIN[view.within] if within_of(view) != CURSOR else ""
    matching = f'matching "{view.filter}"' if view.filter else ""
    return ", ".join(filter(None, (matching, ranged)))


def not_applied_text(view: RunView, of: str = "the whole step") -> str:
    """What a view says that no filter and no range restricts, while there are any; else nothing."""
    words = [f'the filter "{view.filter}"'] if view.filter else []
    words += ["the range from mark to cursor"] if within_of(view) != CURSOR else []
    if not words:
        return ""
    return f"For {of}: {' and '.join(words)} {'does' if len(words) == 1 else 'do'} not apply here."
