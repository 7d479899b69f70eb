"""The views of a comparison that are docks, and how each is made for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtWidgets import QWidget

from ..analysis.common_axes import common_axes
from ..model.run import Run
from .compare_cut import CutPanel
from .compare_stacks import StackDiffView
from .compare_tables import ChangesTable, RunsTable, SlotTable
from .saving import SavingPanel

if TYPE_CHECKING:
    from .compare_page import ComparePage

Pair = tuple[Run, Run]


@dataclass(frozen=True)
class CompareView:
    """A registered view of a comparison. `make(page)` gives its widget, `fits(pair)` says whether there is any."""

    key: str
    title: str
    make: Callable[[ComparePage], QWidget]
    fits: Callable[[Pair], bool] = lambda pair: True
    area: str = "bottom"
    beside: str = ""
    """Key of the view at whose side it stands at first; without one it is a tab among the tables."""


def _has_curves(pair: Pair) -> bool:
    return bool(common_axes(*pair))


COMPARE_VIEWS = (
    CompareView("saving", "Savings", lambda page: SavingPanel(page.matching, page), _has_curves, "right"),
    CompareView("cut", "Waterfall", lambda page: CutPanel(page.matching, page)),
    CompareView("differences", "Differences", lambda page: page.cut.table, beside="cut"),
    CompareView("changes", "Appeared, gone, grown", lambda page: ChangesTable(page.matching, page)),
    CompareView(
        "by_stack", "By stack", lambda page: StackDiffView(page.matching, page),
        lambda pair: any("stacks" in run.capabilities for run in pair),
    ),
    CompareView(
        "slots", "By phase and super-block", lambda page: SlotTable(page.matching, page),
        lambda pair: all("spans" in run.capabilities for run in pair)
    ),
    CompareView("runs", "All open runs", lambda page: RunsTable(page.session.state.runs, page.pair, page)),
)  # fmt: skip
