"""X axes of a run: where each position lies, in event order or in time. Pure numpy.

The state at position p is drawn from `edges[p]` to `edges[p + 1]`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memstrata.capture.format.schema import F64, I64

from .run import Run

_AT_ONCE = 1 << 16  # what fits into a cache takes no memory of its own
_APART = 1e-12  # seconds between events that share a tick of the clock, so that the axis can be inverted


@dataclass(frozen=True, eq=False)
class XAxis:
    """One axis: `edges` has n_events + 2 strictly rising values, in the unit (`events` or `s`) of the axis."""

    key: str
    title: str
    unit: str
    edges: F64

    @property
    def last(self) -> int:
        """The last position."""
        return len(self.edges) - 2

    def x_of(self, position: ArrayLike) -> F64:
        """The x of positions, fractions allowed; positions outside are brought inside."""
        at = np.clip(np.asarray(position, np.float64), 0, self.last + 1)
        whole = np.minimum(at.astype(np.int64), self.last)
        low, high = self.edges[whole], self.edges[whole + 1]
        out: F64 = low + (high - low) * (at - whole)
        return out

    def fraction_at(self, x: float) -> float:
        """The position at x, with its fraction."""
        whole = int(self.position_at(x))
        low, high = float(self.edges[whole]), float(self.edges[whole + 1])
        return whole + min(max((x - low) / (high - low), 0.0), 1.0)

    def position_at(self, x: ArrayLike) -> I64:
        """The positions whose state is drawn at x."""
        found = np.searchsorted(self.edges, x, "right") - 1
        return np.clip(found, 0, self.last)


@dataclass(frozen=True)
class AxisSpec:
    """A registered axis: its title in menus, what it needs of a run, and how it is made."""

    title: str
    needs: frozenset[str]
    make: Callable[[Run], XAxis]


def by_event(run: Run) -> XAxis:
    """Every event as wide as any other."""
    return XAxis("events", "event", "events", np.arange(run.n_events + 2, dtype=np.float64))


def by_time(run: Run) -> XAxis:
    """Seconds since the first event; where a GPU runs behind the host this is the time of the host's launch."""
    edges = np.zeros(run.n_events + 2)
    run.put_times(edges[:-1])
    edges[-1] = edges[-2] + max(edges[-2] * 0.01, 1e-6)
    for begin in range(0, len(edges), _AT_ONCE):
        part = edges[begin : begin + _AT_ONCE]
        part += np.arange(begin, begin + len(part)) * _APART
    host = "" if run.recording.meta.source == "cpu" else "host launch "
    return XAxis("time", f"{host}time since the start", "s", edges)


AXES: dict[str, AxisSpec] = {
    "time": AxisSpec("time", frozenset({"time"}), by_time),
    "events": AxisSpec("event order", frozenset(), by_event),
}


def usual_axis(run: Run) -> XAxis:
    """The axis that a run is drawn on at first: time, where there is one."""
    return run.once(AXES["time" if run.has_times else "events"].make)


def available_axes(run: Run) -> dict[str, AxisSpec]:
    """The axes this run can be drawn on."""
    return {key: spec for key, spec in AXES.items() if spec.needs <= run.capabilities}
