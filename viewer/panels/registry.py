"""Every view of a run, in the order of the window. What a run shows follows from what it has."""

from __future__ import annotations

from ..state.views import ViewSpec
from .alive import AlivePanel
from .allocator_panel import AllocatorPanel
from .chart_panel import ChartPanel
from .lane_panel import LanePanel
from .legend import LegendPanel
from .simple import ProblemsPanel, SavedPanel
from .stack import StackPanel
from .stack_tree_view import StackTreePanel

VIEWS: tuple[ViewSpec, ...] = (
    ViewSpec("legend", "Groups", frozenset({"timeline"}), LegendPanel, "legend"),
    ViewSpec("timeline", "Timeline", frozenset({"timeline"}), ChartPanel, "chart"),
    ViewSpec("lanes", "Lanes", frozenset({"timeline", "layers"}), LanePanel, "lanes"),
    ViewSpec("alive", "Alive here", frozenset(), AlivePanel, "below"),
    ViewSpec("saved", "Saved tensors", frozenset({"saved_tensors"}), SavedPanel, "below"),
    ViewSpec("stacks", "Stacks", frozenset({"stacks"}), StackTreePanel, "below"),
    ViewSpec("allocator", "Allocator", frozenset(), AllocatorPanel, "below"),
    ViewSpec("problems", "Problems", frozenset(), ProblemsPanel, "below"),
    ViewSpec("stack", "Stack", frozenset({"stacks"}), StackPanel, "side"),
)
