"""What the run before already said of the plan that the run after was made with: the planner's prediction from the
first, held against the measurement of the second."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.schema import I64, Fate, StorageKind

from ..look.units import bytes_text, exact_bytes_text, percent_text
from ..model.run import Run
from .planner import Outcome, Planner
from .predicted_curve import at_every_position
from .shape import plan_in_force
from .step_facts import why_not


@dataclass(frozen=True, eq=False)
class PlannedBefore:
    """`outcome` is predicted from run a for the plan in force in run b; nothing of b but its plan is in it."""

    a: Run
    b: Run
    outcome: Outcome

    @property
    def curve(self) -> I64:
        """Bytes at each position of a, the highest moment where a segment runs again."""
        return at_every_position(*self.outcome.line(), self.a.n_events)

    @property
    def peak_error(self) -> float:
        """Predicted / measured - 1, of the whole step."""
        return self.outcome.peak_bytes / max(self.b.peak_bytes, 1) - 1

    @property
    def activation_bytes(self) -> int:
        """The most bytes of activations that were measured."""
        return int(self.b.activation_curve.max())

    @property
    def activation_error(self) -> float:
        """Predicted / measured - 1, of activations."""
        return self.outcome.activation_peak_bytes / max(self.activation_bytes, 1) - 1

    @property
    def text(self) -> str:
        """`Planned from before.mstrata: peak 358 MiB, measured 358 MiB (+0.0%)...`"""
        return (
            f"Planned from {self.a.name}: peak {bytes_text(self.outcome.peak_bytes)}, measured"
            f" {bytes_text(self.b.peak_bytes)} ({_signed(self.peak_error)}); activations"
            f" {bytes_text(self.outcome.activation_peak_bytes)}, measured {bytes_text(self.activation_bytes)}"
            f" ({_signed(self.activation_error)})"
        )

    @property
    def exact_text(self) -> str:
        """The same to the byte."""
        return (
            f"planned peak {exact_bytes_text(self.outcome.peak_bytes)}, measured {exact_bytes_text(self.b.peak_bytes)};"
            f" planned activations {exact_bytes_text(self.outcome.activation_peak_bytes)},"
            f" measured {exact_bytes_text(self.activation_bytes)}"
        )


def _signed(share: float) -> str:
    return f"{'-' if share < 0 else '+'}{percent_text(abs(share))}"


def planned_before(a: Run, b: Run) -> PlannedBefore | None:
    """The prediction; None unless a ran without checkpoints, b under whole segments of a's layers, and both the same
    layers. What b keeps of single operators (selective checkpoints) is not told by its plan, so then None too."""
    plan = plan_in_force(b)
    if not plan.segments or a.layers.kinds != b.layers.kinds or why_not(a) or _is_selective(b):
        return None
    planner = Planner(a)
    try:
        return PlannedBefore(a, b, planner.outcome(planner.ranges_of(plan)))
    except ValueError:  # its segments are no runs of whole layers
        return None


def _is_selective(run: Run) -> bool:
    kinds = run.recording.known_storages.kind
    return bool((kinds == StorageKind.selective_cache).any()) or run.saved_bytes_by_fate()[Fate.offloaded] > 0
