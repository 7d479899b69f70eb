"""What other checkpoint plans would make of a run: prepared in a job, then answered at once while a slider moves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PySide6.QtCore import QObject, Signal

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import I64

from ..analysis.plan_search import Search
from ..analysis.planner import Outcome, Planner
from ..analysis.predicted_curve import at_every_position
from ..analysis.shape import is_compiled, shape_of
from ..analysis.step_facts import why_not
from ..model.run import Run
from .jobs import Job, Jobs
from .view_state import Segments

Found = Callable[[Outcome, bool], None]
"""(plan, whether it fits the budget); the lowest plan there is where none fits."""


class WhatIf(QObject):
    """The plans of one run. Nothing is worked out before it is asked for."""

    changed = Signal()
    """More can be answered than before."""
    progressed = Signal(float, str)
    """(fraction from 0 to 1, stage) of what is being worked out."""

    def __init__(self, run: Run, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run = run
        self.planner: Planner | None = None
        self.search: Search | None = None
        self.frontier: tuple[Outcome, ...] = ()
        self.trouble = ""
        """One sentence where only segment lengths can be chosen, or where something went wrong."""
        self._started = self._search_wanted = self._search_started = False
        self._last: tuple[Segments, Outcome] | None = None
        self._waiting: tuple[int, Found] | None = None
        jobs = self.jobs = Jobs()
        jobs.progressed.connect(self._progress)
        self.destroyed.connect(lambda: jobs.shutdown())

    def _progress(self, _number: int, fraction: float, stage: str) -> None:
        self.progressed.emit(fraction, stage)

    @property
    def why_not(self) -> str:
        """One sentence where no plan can be predicted from this run."""
        return self.run.once(why_not)

    @property
    def is_busy(self) -> bool:
        """Whether something is being worked out."""
        return bool(self.jobs.running)

    def prepare(self) -> None:
        """Look at every equal cut, in a job; `changed` says when it is done."""
        if self._started or self.why_not:
            return
        self._started = True
        self.jobs.start("Looking at segments", self._prepared, self._planner_ready, self._failed)

    def _prepared(self, job: Job) -> Planner:
        planner = Planner(self.run)
        planner.prepare(lambda done: job.progress(done, "Looking at segments"))
        return planner

    def _planner_ready(self, planner: Planner) -> None:
        self.planner = planner
        self.changed.emit()
        if self._search_wanted:
            self.prepare_search()

    def prepare_search(self) -> None:
        """Find the best plans of all, in a job."""
        self._search_wanted = True
        self.prepare()
        planner = self.planner
        if planner is None or self._search_started:
            return
        self._search_started = True
        self.jobs.start("Looking for the best plans", lambda job: _searched(planner, job), self._searched, self._failed)

    def _searched(self, answer: tuple[Search | None, tuple[Outcome, ...], str]) -> None:
        self.search, self.frontier, self.trouble = answer
        waiting, self._waiting = self._waiting, None
        self.changed.emit()
        if waiting is not None and self.search is not None:
            self.best(*waiting)

    def _failed(self, sentence: str) -> None:
        self.trouble, self._waiting = sentence, None
        self.changed.emit()

    def outcome(self, segments: Segments | None) -> Outcome | None:
        """What these segments would do; None for None, and until `changed` says that it is known."""
        if segments is None:
            return None
        if self.planner is None:
            self.prepare()
            return None
        if self._last is None or self._last[0] != segments:
            self._last = (segments, self.planner.outcome(Plan(segments)))
        return self._last[1]

    def curve(self, segments: Segments | None) -> I64 | None:
        """Bytes at each position with these segments, the highest moment where one is recomputed."""
        outcome = self.outcome(segments)
        return None if outcome is None else at_every_position(*outcome.line(), self.run.n_events)

    def best(self, budget: int, found: Found) -> None:
        """Look for the plan with the least recomputation whose peak fits the budget; the last one asked for counts."""
        self._waiting = (budget, found)
        search = self.search
        if search is None:
            self.prepare_search()
            return
        self.jobs.start("Looking for a plan", lambda job: _best(search, budget), self._found, self._failed)

    def _found(self, answer: tuple[int, Outcome, bool]) -> None:
        budget, outcome, fits = answer
        if self._waiting is not None and self._waiting[0] == budget:
            found, self._waiting = self._waiting[1], None
            self.changed.emit()
            found(outcome, fits)

    def equal_cut(self, segments: Segments | None) -> int | None:
        """The length whose equal cut this is, 0 for no plan; None for another plan or while not prepared."""
        if segments is None:
            return 0
        if self.planner is None:
            return None
        length = max((len(segment) for segment in segments), default=0)
        return length if length and self.cut(length) == segments else None

    def cut(self, length: int) -> Segments | None:
        """The equal cut into segments of so many layers; None for 0."""
        if not length or self.planner is None:
            return None
        return self.planner.plan_of(self.planner.every(length)).segments

    @property
    def longest(self) -> int:
        """Layers in the longest list of layers."""
        number = self.run.recording.layers.list
        return int(np.bincount(number).max()) if len(number) else 0


def proposed_plan(run: Run) -> Segments | None:
    """One segment for each super-block, as the headline proposes it; None where it proposes none."""
    shape = shape_of(run)
    if shape is None or is_compiled(run) or run.inferred is not None or why_not(run):
        return None
    return shape.per_super_block().segments


def _searched(planner: Planner, job: Job) -> tuple[Search | None, tuple[Outcome, ...], str]:
    try:
        search = Search(planner, lambda done: job.progress(done * 0.8, "Looking for the best plans"))
    except ValueError as error:
        return None, (), str(error)
    job.progress(0.8, "Looking for the best plans")
    return search, search.frontier(), ""


def _best(search: Search, budget: int) -> tuple[int, Outcome, bool]:
    outcome = search.best(budget)
    return (budget, search.lowest(), False) if outcome is None else (budget, outcome, True)
