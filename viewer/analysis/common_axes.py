"""The x axes that two runs can share: phase and layer, time, the order of events, the share of each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..model.axes import XAxis, by_event, by_time
from ..model.run import Run
from .aligned import Structure, axis_in, structure_of

ALIKE = 8.0
"""Up to this ratio of their lengths two runs can both be read on one axis of seconds."""


@dataclass(frozen=True)
class CommonAxis:
    """A registered axis: its title in menus, what both runs need for it, and how it is made."""

    title: str
    needs: frozenset[str]
    make: Callable[[Run, Run], Structure]


def _by_time(a: Run, b: Run) -> Structure:
    return Structure((), a.once(by_time), b.once(by_time))


def _by_event(a: Run, b: Run) -> Structure:
    return Structure((), a.once(by_event), b.once(by_event))


def _by_share(a: Run, b: Run) -> Structure:
    return Structure((), a.once(_share), b.once(_share))


def _share(run: Run) -> XAxis:
    """Every event as wide as any other of its run, and every run as wide as the other."""
    edges = np.linspace(0.0, 100.0, run.n_events + 2)
    return XAxis("share", "share of each run's events", "%", edges)


COMMON_AXES: dict[str, CommonAxis] = {
    "structure": CommonAxis("phase and layer", frozenset({"spans"}), structure_of),
    "time": CommonAxis("time", frozenset({"time", "timeline"}), _by_time),
    "events": CommonAxis("event order", frozenset({"timeline"}), _by_event),
    "share": CommonAxis("share of each run", frozenset(), _by_share),
}


def common_axes(a: Run, b: Run) -> dict[str, CommonAxis]:
    """The axes that these two runs can share; none where neither has a history."""
    if "timeline" not in a.capabilities | b.capabilities:
        return {}
    both = a.capabilities & b.capabilities
    return {key: axis for key, axis in COMMON_AXES.items() if axis.needs <= both}


def axis_beside(key: str, structure: Structure, pair: tuple[Run, Run], run: Run) -> XAxis | None:
    """The axis of a further run in the comparison of these two along this axis; None where it lacks what it takes."""
    axis = COMMON_AXES[key]
    if not axis.needs <= run.capabilities or "timeline" not in run.capabilities:
        return None
    return axis_in(structure, run) if structure.cells else axis.make(pair[0], run).b


def first_axis(a: Run, b: Run) -> str:
    """Phase and layer; else seconds, where the runs are about as long; else the share of each."""
    offered = common_axes(a, b)
    if "structure" in offered:
        return "structure"
    if "time" in offered:
        short, long = sorted(run.time_of(run.n_events) for run in (a, b))
        if 0 < long <= short * ALIKE:
            return "time"
    return "share"
