"""What other checkpoint plans would make of a run: prepared in a job, then answered at once while a slider moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QObject, Signal

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.schema import I64

from ..analysis.operators import kinds_that_ran, operators, parse_keep
from ..analysis.plan_search import Search
from ..analysis.planner import Outcome, Planner
from ..analysis.predicted_curve import at_every_position
from ..analysis.shape import is_compiled, shape_of
from ..analysis.step_facts import step_facts, why_not
from ..model.run import Run
from .jobs import Job, Jobs
from .view_state import Segments

Found = Callable[[Outcome, bool], None]
"""(plan, whether it fits the budget); the lowest plan there is where none fits."""


@dataclass
class _Known:
    """What is known by now of plans that keep the same operators."""

    planner: Planner | None = None
    search: Search | None = None
    frontier: tuple[Outcome, ...] = ()
    trouble: str = ""
    started: bool = False
    search_wanted: bool = False
    search_started: bool = False


class WhatIf(QObject):
    """The plans of one run. Nothing is worked out before it is asked for."""

    changed = Signal()
    """More can be answered than before, or other operators are kept."""
    progressed = Signal(float, str)
    """(fraction from 0 to 1, stage) of what is being worked out."""

    def __init__(self, run: Run, keep: str = "", parent: QObject | None = None) -> None:
        """`keep` names the operators that checkpoints keep, as `parse_keep` reads them."""
        super().__init__(parent)
        self.run, self.keep = run, keep
        self.keepings: tuple[str, ...] = ("",)
        """What `keep` can be, known once the planner is there."""
        self._by_keep: dict[str, _Known] = {}
        self._last: tuple[Planner, Segments, Outcome] | None = None
        self._waiting: tuple[int, Found] | None = None
        jobs = self.jobs = Jobs()
        jobs.progressed.connect(self._progress)
        jobs.end_with(self)

    def _progress(self, _number: int, fraction: float, stage: str) -> None:
        self.progressed.emit(fraction, stage)

    @property
    def _now(self) -> _Known:
        return self._by_keep.setdefault(self.keep, _Known())

    @property
    def planner(self) -> Planner | None:
        """None until it is prepared."""
        return self._now.planner

    @property
    def search(self) -> Search | None:
        """None until it is there, and where only segment lengths can be chosen."""
        return self._now.search

    @property
    def frontier(self) -> tuple[Outcome, ...]:
        """The best plans; () until they are known."""
        return self._now.frontier

    @property
    def trouble(self) -> str:
        """One sentence where only segment lengths can be chosen, or where something went wrong."""
        return self._now.trouble

    @property
    def why_not(self) -> str:
        """One sentence where no plan can be predicted from this run."""
        return self.run.once(why_not)

    @property
    def is_busy(self) -> bool:
        """Whether something is being worked out."""
        return bool(self.jobs.running)

    def use(self, keep: str) -> None:
        """Answer from now on for checkpoints that keep these operators."""
        if keep == self.keep:
            return
        wanted = self._now.search_wanted
        self.keep, self._waiting = keep, None
        if wanted:
            self.prepare_search()
        self.changed.emit()

    def prepare(self) -> None:
        """Look at every equal cut, in a job; `changed` says when it is done."""
        known = self._now
        if known.started or self.why_not:
            return
        known.started = True
        base, keep = self._by_keep.setdefault("", _Known()).planner, self.keep
        self.jobs.start(
            "Looking at segments",
            lambda job: _prepared(base or Planner(self.run), keep, job),
            lambda planner: self._planner_ready(known, planner),
            lambda sentence: self._failed(known, sentence),
        )

    def _planner_ready(self, known: _Known, planner: Planner) -> None:
        known.planner = planner
        self.keepings = planner.run.once(_keepings)
        self.changed.emit()
        if known.search_wanted:
            self.prepare_search()

    def prepare_search(self) -> None:
        """Find the best plans of all, in a job."""
        known = self._now
        known.search_wanted = True
        self.prepare()
        planner = known.planner
        if planner is None or known.search_started:
            return
        known.search_started = True
        self.jobs.start(
            "Looking for the best plans",
            lambda job: _searched(planner, job),
            lambda answer: self._searched(known, answer),
            lambda sentence: self._failed(known, sentence),
        )

    def _searched(self, known: _Known, answer: tuple[Search | None, tuple[Outcome, ...], str]) -> None:
        known.search, known.frontier, known.trouble = answer
        waiting, self._waiting = self._waiting, None
        self.changed.emit()
        if waiting is not None and self.search is not None:
            self.best(*waiting)

    def _failed(self, known: _Known, sentence: str) -> None:
        known.trouble, self._waiting = sentence, None
        self.changed.emit()

    def outcome(self, segments: Segments | None) -> Outcome | None:
        """What these segments would do; None for None, and until `changed` says that it is known."""
        if segments is None:
            return None
        planner = self.planner
        if planner is None:
            self.prepare()
            return None
        if self._last is None or self._last[0] is not planner or self._last[1] != segments:
            self._last = (planner, segments, planner.outcome(Plan(segments)))
        return self._last[2]

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
        known = self._now
        self.jobs.start(
            "Looking for a plan",
            lambda job: _best(search, budget),
            self._found,
            lambda sentence: self._failed(known, sentence),
        )

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


def _prepared(base: Planner, keep: str, job: Job) -> Planner:
    planner = base.keeping(parse_keep(keep, base.operators)) if keep else base
    planner.run.once(_keepings)
    planner.prepare(lambda done: job.progress(done, "Looking at segments"))
    return planner


def _keepings(run: Run) -> tuple[str, ...]:
    """What checkpoints of this run can keep; nothing else than nothing where it does not say."""
    try:
        return kinds_that_ran(operators(step_facts(run)))
    except ValueError:
        return ("",)


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
