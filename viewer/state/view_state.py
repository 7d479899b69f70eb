"""What is looked at: one frozen value for the whole window. Pure functions make the next one out of the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..model.axes import usual_axis
from ..model.query import AllocationQuery
from ..model.run import Run

Segments = tuple[tuple[str, ...], ...]
"""The segments of a checkpoint plan, each the paths of its layers."""

COMPARE = -1
"""The page that compares two runs."""


@dataclass(frozen=True)
class RunView:
    """What is looked at in one run."""

    cursor: int
    """Position, from 0 to the run's number of events."""
    grouping: str
    """Key of the grouping that cuts the bands."""
    axis: str
    """Key of the x axis."""
    visible: tuple[float, float] | None = None
    """First and last position on screen, fractions allowed; None for all of them."""
    query: AllocationQuery | None = None
    """Restricts tables and lifts bands; its position is never set, the cursor is the position."""
    allocation: int | None = None
    """Row of the selected allocation."""
    lanes: str = "activations"
    """Key of what the lanes show."""
    mark: int | None = None
    """Position of the second cursor, None where none is set."""
    within: str = "cursor"
    """Key of what the tables show while there is a mark, see `within.WITHIN`."""
    filter: str = ""
    """Words of the filter box; always ones that make sense."""
    plan: Segments | None = None
    """The plan tried on this run, None for none."""
    keep: str = ""
    """Operators whose outputs the checkpoints of that plan keep, as `matmul,attention`."""


@dataclass(frozen=True)
class ViewState:
    """The whole window: the open runs, what is looked at in each, and which page is in front."""

    runs: tuple[Run, ...] = ()
    views: tuple[RunView, ...] = ()
    page: int = 0
    """Number of the run in front, or `COMPARE`."""
    slot: int | None = None
    """Selected place on the structure axis of the comparison."""
    pair: tuple[Run, Run] | None = None
    """The runs to compare, where they are not the two opened last: the first two of more that were opened together, of
    several ranks the middle one and the outlier, else what the user chose."""
    common_axis: str = ""
    """Key of the x axis of the comparison; empty for the one that suits the runs."""
    common_visible: tuple[float, float] | None = None
    """First and last x of that axis on screen; None for all of it."""
    cut: str = ""
    """Key of the grouping that cuts the comparison's differences; empty for the one that suits the runs."""

    @property
    def run(self) -> Run | None:
        """The run in front, None where nothing is open or the comparison is in front."""
        return self.runs[self.page] if 0 <= self.page < len(self.runs) else None

    @property
    def compared(self) -> tuple[Run, Run] | None:
        """The two runs that a comparison shows, None with fewer than two open."""
        if self.pair is not None:
            return self.pair
        return (self.runs[-2], self.runs[-1]) if len(self.runs) >= 2 else None


_UNSEEN = 1e-6
"""Share of what is on screen that is far less than a pixel."""

_NOWHERE: dict[str, Any] = {"slot": None, "common_visible": None}
"""No place on the axis of a comparison, as where it is one of other runs."""


def looks_alike(one: ViewState, other: ViewState) -> bool:
    """Whether nobody can tell two states apart: they are equal, but for what rounding did to the visible ranges."""
    if one == other:
        return True
    if one.runs != other.runs or not _same_range(one.common_visible, other.common_visible):
        return False
    ranges = [(a.visible, b.visible) for a, b in zip(one.views, other.views)]
    views = tuple(replace(view, visible=a) for view, (a, _) in zip(other.views, ranges))
    same = all(_same_range(a, b) for a, b in ranges)
    return same and one == replace(other, views=views, common_visible=one.common_visible)


def _same_range(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    if one is None or other is None:
        return one is other
    least = (one[1] - one[0]) * _UNSEEN
    return abs(one[0] - other[0]) <= least and abs(one[1] - other[1]) <= least


def first_view(run: Run, grouping: str) -> RunView:
    """The view a file opens with: the cursor on the peak, the largest
    allocation that has a stack selected, the whole step, time where there is one."""
    rows = AllocationQuery(position=run.peak_position).select(run)
    told = rows[run.allocations.stack[rows] >= 0]
    largest = (told if len(told) else rows)[:1].tolist()
    return RunView(run.peak_position, grouping, usual_axis(run).key, allocation=largest[0] if largest else None)


def opened(state: ViewState, run: Run, grouping: str) -> ViewState:
    """The state with one more run; the second run brings the comparison to the front."""
    runs, views = (*state.runs, run), (*state.views, first_view(run, grouping))
    return replace(state, runs=runs, views=views, page=COMPARE if len(runs) >= 2 else 0, pair=None, **_NOWHERE)


def compared(state: ViewState, pair: tuple[Run, Run] | None) -> ViewState:
    """The state with this comparison in front, or, where nothing stands out, with the run opened first."""
    return replace(state, pair=pair, page=0 if pair is None else COMPARE, **_NOWHERE)


def closed(state: ViewState, index: int) -> ViewState:
    """The state without this run; the page in front stays in front where it still exists."""
    runs = state.runs[:index] + state.runs[index + 1 :]
    views = state.views[:index] + state.views[index + 1 :]
    page = state.page - 1 if state.page > index else state.page
    if page == COMPARE and len(runs) < 2:
        page = 0
    pair = state.pair if state.pair is not None and set(state.pair) <= set(runs) else None
    page = max(COMPARE, min(page, max(len(runs) - 1, 0)))
    return replace(state, runs=runs, views=views, page=page, pair=pair, **_NOWHERE)


def looking(state: ViewState, index: int, **changes: Any) -> ViewState:
    """The state with these changes to the view of one run."""
    views = list(state.views)
    views[index] = replace(views[index], **changes)
    return replace(state, views=tuple(views))
