"""`Scope`: the session as the views of one run see it; it follows the run when others are closed before it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from PySide6.QtCore import QObject, Signal

from memstrata.capture.format.schema import I64

from ..model.axes import AXES, XAxis
from ..model.bands import Bands, bands_of
from ..model.query import AllocationQuery
from ..model.run import Run
from .ahead import AHEAD, MANY, afterwards, step_peaks
from .jobs import Jobs
from .plan_jobs import WhatIf
from .pointed import NOTHING, Pointed
from .session import Gesture, Session
from .view_state import RunView, ViewState
from .within import shown_query


class Scope(QObject):
    """Reads and changes what is looked at in one run, and nothing else."""

    changed = Signal(object, object)
    """(old, new), both `RunView` of this run; not emitted while the run is closed."""

    pointed = Signal(object)
    """What is under the pointer in some view of the run, a `Pointed`; only where it is another thing than before."""

    def __init__(self, session: Session, run: Run, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.session = session
        self.run = run
        self.under_pointer: Pointed = NOTHING
        jobs = self.ahead = Jobs()
        jobs.end_with(self)
        session.changed.connect(self._session_changed)

    @property
    def is_open(self) -> bool:
        """Whether the run is still open; what was put off until later has nothing to do when it is not."""
        return self.run in self.session.state.runs

    @property
    def view(self) -> RunView:
        """What is looked at now."""
        return self.session.view(self.session.state.runs.index(self.run))

    def look(self, gesture: Gesture | None = None, **changes: Any) -> None:
        """Change what is looked at; positions and rows outside the run are brought inside. Changes of one gesture are
        one step of undo."""
        for place in ("cursor", "mark"):
            if changes.get(place) is not None:
                changes[place] = min(max(int(changes[place]), 0), self.run.n_events)
        self.session.look(self.session.state.runs.index(self.run), gesture, **changes)

    def point(self, at: Pointed = NOTHING) -> None:
        """The pointer rests on this; on what is of a run just closed it rests no more."""
        if at != self.under_pointer and self.is_open:
            self.under_pointer = at
            self.pointed.emit(at)

    @property
    def bands(self) -> Bands:
        """The bands of the grouping in force."""
        return bands_of(self.run, self.view.grouping)

    @property
    def axis(self) -> XAxis:
        """The x axis in force."""
        return self.run.once(AXES[self.view.axis].make)

    @property
    def local_peaks(self) -> I64:
        """Positions of the peaks of all bytes that stand out."""
        return self.run.once(step_peaks)

    @cached_property
    def what_if(self) -> WhatIf:
        """What checkpoint plans would make of the run."""
        return WhatIf(self.run, self.view.keep, self)

    @property
    def visible(self) -> tuple[float, float]:
        """First and last x on screen."""
        axis, visible = self.axis, self.view.visible
        if visible is None:
            return float(axis.edges[0]), float(axis.edges[-1])
        return float(axis.x_of(visible[0])), float(axis.x_of(visible[1]))

    def shown_query(self) -> AllocationQuery:
        """What tables and trees show now."""
        return shown_query(self.view)

    def work_ahead(self) -> None:
        """Work out in a job what is likely to be asked for; of few allocations it is worked out when it is."""
        run = self.run
        if len(run.allocations) > MANY:
            self.ahead.start(AHEAD, lambda job: afterwards(run, job), lambda _: None, lambda _: None)

    def release(self) -> None:
        """Hear nothing of the session any more, and work nothing out."""
        self.ahead.shutdown()
        self.session.changed.disconnect(self._session_changed)

    def _session_changed(self, old: ViewState, new: ViewState) -> None:
        if self.run not in old.runs or self.run not in new.runs:
            return
        before, after = old.views[old.runs.index(self.run)], new.views[new.runs.index(self.run)]
        if before.keep != after.keep and "what_if" in vars(self):
            self.what_if.use(after.keep)
        if before.grouping != after.grouping:
            self.point()  # bands are counted by the grouping
        if before != after:
            self.changed.emit(before, after)
