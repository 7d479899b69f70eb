"""Forgetting: a log that runs for a thousand steps holds the last few of them and nothing of the others.

The lists of a log only grow, so a step's part of each lies between two lengths; what came before the oldest step that
is kept is cut off at their front.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch.optim import Optimizer

from .format.problems import merge
from .format.schema import NONE
from .step_log import StepLog
from .storages import Owners

_NOT_BY_TIME = ("roots", "problems")


@dataclass(frozen=True)
class Bound:
    """The place in a log where a step begins or ends: how long each list was, ever; `mark` is the source's own."""

    time: int
    lengths: dict[str, int]
    checkpoint: int
    mark: Any = None


class Ring:
    """The bounds of steps in one log."""

    def __init__(self, log: StepLog) -> None:
        self._log = log
        self._cut: Counter[str] = Counter()
        self._optimizers: list[tuple[Bound, dict[int, Optimizer]]] = []
        self._lists = [
            f.name
            for f in dataclasses.fields(StepLog)
            if isinstance(getattr(log, f.name), list) and f.name not in _NOT_BY_TIME
        ]

    def here(self, mark: Any = None, at: int | None = None) -> Bound:
        """A bound at this moment."""
        lengths = {name: len(getattr(self._log, name)) + self._cut[name] for name in self._lists}
        checkpoint = max(self._log.checkpoint_modules, default=NONE)
        return Bound(time.time_ns() if at is None else at, lengths, checkpoint, mark)

    def between(self, name: str, start: Bound, end: Bound) -> list[Any]:
        """What a list of the log got between two bounds, as far as it is still there."""
        first = max(0, start.lengths[name] - self._cut[name])
        found: list[Any] = getattr(self._log, name)[first : max(0, end.lengths[name] - self._cut[name])]
        return found

    def step_ended(self, bound: Bound) -> None:
        """Optimizers are remembered with the step in which they ran."""
        self._optimizers.append((bound, dict(self._log.optimizers)))
        self._log.optimizers.clear()

    def remember_optimizers(self) -> None:
        """Put those of all steps that are kept back into the log."""
        for _, optimizers in self._optimizers:
            self._log.optimizers.update(optimizers)

    def forget_before(self, bound: Bound) -> None:
        """Let go of everything that happened before a bound."""
        log = self._log
        for name in self._lists:
            gone = bound.lengths[name] - self._cut[name]
            if gone > 0:
                held = getattr(log, name)
                if name == "saved":  # a graph that outlives its step holds these rows, and they must not hold the model
                    for row in held[:gone]:
                        row.module = None
                del held[:gone]
                self._cut[name] += gone
        for number in [n for n in log.checkpoint_modules if n <= bound.checkpoint]:
            del log.checkpoint_modules[number]
        self._optimizers = [(end, found) for end, found in self._optimizers if end.time > bound.time]
        self._forget_models()
        log.problems[:] = merge(log.problems)
        log.storages.forget_dead(bound.time)

    def _forget_models(self) -> None:
        """A model that ran in none of the steps that are kept may be gone from the program."""
        log = self._log
        running = {id(call.module) for call in log.calls} | {id(m) for s in log.open_modules.values() for m, *_ in s}
        left = [root for root in log.roots if id(root) in running]
        if len(left) < len(log.roots):
            log.roots[:] = left
            log.owners = Owners()
            inside = {id(module) for root in left for module in root.modules()}
            for known in log.storages.known:  # a gradient's row would keep the model that keeps the gradient
                if known.module is not None and id(known.module) not in inside:
                    known.module = None


@contextmanager
def as_it_was(log: StepLog, end: int) -> Iterator[None]:
    """Without what happened after a time: a step ends with its optimizer, but that it was the last one is known only
    when the next forward begins."""
    died = [(known, known.end_time) for known in log.storages.known if known.end_time > end]
    unpacked = [(row, row.unpack_time) for row in log.saved if row.unpack_time > end]
    later = {name: [r for r in getattr(log, name) if getattr(r, moment) > end] for name, moment in _TIMED.items()}
    for known, _ in died:
        known.end_time = NONE
    for row, _ in unpacked:
        row.unpack_time = NONE
    for name, moment in _TIMED.items():
        held = getattr(log, name)
        held[:] = [row for row in held if getattr(row, moment) <= end]
    try:
        yield
    finally:
        for name, rows in later.items():
            getattr(log, name).extend(rows)
        for known, at in died:
            known.end_time = at
        for row, at in unpacked:
            row.unpack_time = at


_TIMED = {"saved": "time", "calls": "start", "intervals": "start", "unpacks": "start"}
