"""Every view of a run, in the order of the window. What a run shows follows from what it has."""

from __future__ import annotations

from ..state.views import ViewSpec
from .alive import AlivePanel
from .allocation_view import AllocationPanel
from .allocator_panel import AllocatorPanel
from .chart_panel import ChartPanel
from .coverage_view import ProblemsPanel
from .findings_view import FindingsPanel
from .lane_panel import LanePanel
from .legend import LegendPanel
from .prediction_view import PredictionPanel
from .saved_view import SavedPanel
from .stack import StackPanel
from .stack_tree_view import StackTreePanel
from .what_else_view import WhatElsePanel
from .what_if_view import WhatIfPanel

VIEWS: tuple[ViewSpec, ...] = (
    ViewSpec("legend", "Groups", frozenset({"timeline"}), LegendPanel, "legend"),
    ViewSpec("timeline", "Timeline", frozenset({"timeline"}), ChartPanel, "chart"),
    ViewSpec("lanes", "Lanes", frozenset({"timeline", "layers"}), LanePanel, "lanes"),
    ViewSpec("alive", "Alive here", frozenset(), AlivePanel, "below"),
    ViewSpec("findings", "Findings", frozenset({"timeline"}), FindingsPanel, "below"),
    ViewSpec("what_if", "What if", frozenset({"timeline", "layers", "saved_tensors"}), WhatIfPanel, "below"),
    ViewSpec("what_else", "What else", frozenset({"timeline", "layers"}), WhatElsePanel, "below"),
    ViewSpec("prediction", "Prediction", frozenset({"timeline", "layers"}), PredictionPanel, "below"),
    ViewSpec("saved", "Saved tensors", frozenset({"saved_tensors"}), SavedPanel, "below"),
    ViewSpec("stacks", "Stacks", frozenset({"stacks"}), StackTreePanel, "below"),
    ViewSpec("allocations", "Allocations", frozenset({"timeline"}), AllocationPanel, "below"),
    ViewSpec("allocator", "Allocator", frozenset(), AllocatorPanel, "below"),
    ViewSpec("problems", "Problems", frozenset(), ProblemsPanel, "below"),
    ViewSpec("stack", "Stack of the selection", frozenset({"stacks"}), StackPanel, "side"),
)
