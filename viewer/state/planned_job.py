"""What the run before says of the plan of the run after, worked out beside the window."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from ..analysis.diff import Diff
from ..analysis.planned_before import PlannedBefore
from .jobs import Jobs


class PlannedJob(QObject):
    """`ready` comes once, where there is something to say; `found` is None until then."""

    ready = Signal()

    def __init__(self, diff: Diff, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.found: PlannedBefore | None = None
        jobs = self._jobs = Jobs()
        jobs.end_with(self)
        jobs.start("Planning from the run before", lambda job: diff.planned, self._done, lambda _: None)

    def _done(self, found: PlannedBefore | None) -> None:
        self.found = found
        if found is not None:
            self.ready.emit()
