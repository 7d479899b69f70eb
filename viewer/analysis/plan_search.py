"""The best plan for a memory budget, by dynamic programming over where segments are cut.

While a segment (or a layer without one) runs, forward or backward, what is alive is what was measured, less what the
segments before it dropped, changed by the segment itself. So a walk over the layers needs to know two numbers: the
bytes dropped so far (more is better) and the time paid for it (less is better). Pairs that are worse in both are
forgotten. Exact as long as no more than `LABELS` pairs are worth keeping; beyond that the fastest of each of so many
steps of bytes stays.

The walk is over the layers of one pass, the one with the peak. What a plan makes of the others is looked at
afterwards, as it is with effects that reach beyond their segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from memstrata.capture.format.plan import Ranges
from memstrata.capture.format.schema import F64, I64

from .planner import Outcome, Planner
from .segment_effect import SegmentEffect

TWICE = "Some layers ran more than once in one forward, so the best plans cannot be found: choose a segment length."
LABELS = 512
FRONTIER = 16
"""Budgets tried between the lowest peak and the measured one."""


@dataclass(frozen=True)
class _Item:
    """Runs first .. last - 1 as one segment, or one run without."""

    first: int
    segment: bool
    highest: int
    """Most bytes alive while it runs, if nothing before it was dropped."""
    dropped: int
    """Bytes it frees for everything that runs between its forward and its backward."""
    cost: float
    """Seconds of forward run again; layers run again where nothing was timed."""


class Search:
    """Looks for plans of one planner. ValueError with one sentence where the layers' order does not allow it."""

    def __init__(self, planner: Planner, said: Callable[[float], None] = lambda _: None) -> None:
        """`said(fraction done)` may raise to stop it."""
        self.planner = planner
        facts = planner.facts
        chosen = np.flatnonzero(facts.in_pass)
        self._layer = facts.runs.layer[chosen].tolist()
        if len(set(self._layer)) < len(self._layer):
            raise ValueError(TWICE)
        self._start, self._stop = facts.runs.start[chosen], facts.runs.stop[chosen]
        begin, end = planner.run.passes.window
        self._begin, self._end = begin, planner.run.n_events if end is None else end
        self._asked = _first_asked(planner)[chosen]
        if (np.diff(self._asked[self._asked >= 0]) >= 0).any():
            raise ValueError("Backward did not go through the layers in reverse: choose a segment length.")
        self._items: list[list[_Item]] = []
        for last in range(1, len(chosen) + 1):
            said((last / len(chosen)) ** 2)
            self._items.append(self._ending_at(last))
        self._middle, self._rest = self._outside()

    def best(self, budget: int) -> Outcome | None:
        """The plan with the least recomputation whose peak is at most `budget` bytes; None where no plan is."""
        limit = budget
        for _ in range(8):  # effects that reach a little beyond their segment: ask for less until it holds
            ranges = self._solve(limit, _add_time)
            if ranges is None:
                lowest = self.lowest()
                return lowest if lowest.peak_bytes <= budget else None
            outcome = self.planner.outcome(ranges)
            if outcome.peak_bytes <= budget:
                return outcome
            limit -= outcome.peak_bytes - budget
        return None

    def lowest(self) -> Outcome:
        """The plan with the lowest peak, and of those the fastest."""
        ranges = self._solve(None, _highest_peak)
        assert ranges is not None
        slow = self.planner.outcome(ranges)
        fast = self._solve(slow.peak_bytes, _add_time)
        quicker = self.planner.outcome(fast) if fast is not None else slow
        return quicker if quicker.peak_bytes <= slow.peak_bytes else slow

    def frontier(self, count: int = FRONTIER) -> tuple[Outcome, ...]:
        """Plans of which none is both lower and faster than another, from no plan down to the lowest peak; the best
        ones for `count` budgets between."""
        none, lowest = self.planner.outcome(()), self.lowest()
        budgets = np.linspace(none.peak_bytes, lowest.peak_bytes, count + 2)[1:-1].astype(int).tolist()
        found = [none, *(self.best(budget) for budget in budgets), lowest]
        out: list[Outcome] = []
        for each in sorted((o for o in found if o), key=lambda o: (self._cost(o), o.peak_bytes)):
            if not out or each.peak_bytes < out[-1].peak_bytes:
                out.append(each)
        return tuple(out)

    def _cost(self, outcome: Outcome) -> float:
        return float(outcome.layers_again) if outcome.extra_seconds is None else outcome.extra_seconds

    def _ending_at(self, last: int) -> list[_Item]:
        """Every item that ends before run `last`: one run alone, and all segments of one layer list."""
        items = [self._item(last - 1, last, segment=False)]
        begin = next(a for a, b in self.planner.lists if a <= self._layer[last - 1] < b)
        first = last - 1
        while first >= 0 and self._layer[first] == self._layer[last - 1] - (last - 1 - first) >= begin:
            items.append(self._item(first, last, segment=True))
            first -= 1
        return items

    def _item(self, first: int, last: int, segment: bool) -> _Item:
        ranges = [(self._layer[first], self._layer[last - 1] + 1)] if segment else []
        effects = [self.planner.effect(*each) for each in ranges]
        windows = self._windows(first, last)
        highest, middle = self._most(windows, effects), self._middle_position()
        dropped = -sum(int(e.deltas[e.positions <= middle].sum()) for e in effects)
        seconds = self.planner.seconds(effects)
        cost = float(sum(e.layers_again for e in effects)) if seconds is None else seconds
        return _Item(first, segment, highest, dropped, cost)

    def _windows(self, first: int, last: int) -> list[tuple[int, int]]:
        """Positions (both included) that belong to runs first .. last - 1: their forward, and their backward."""
        stop = int(self._start[last]) - 1 if last < len(self._start) else int(self._stop[-1])
        windows = [(int(self._start[first]), stop)]
        begins = self._asked[first:last]
        begins = begins[begins >= 0]
        if len(begins):
            before = self._asked[:first]
            before = before[before >= 0]
            end = int(before.min()) - 1 if len(before) else self._end
            windows.append((int(begins.min()), end))
        return windows

    def _most(self, windows: list[tuple[int, int]], effects: list[SegmentEffect]) -> int:
        curve = self.planner.run.curve
        high = 0
        for begin, end in windows:
            part = curve[begin : end + 1].astype(np.int64)
            for effect in effects:
                delta = np.zeros(len(part) + 1, np.int64)
                place = np.clip(effect.positions - begin, 0, len(part))
                np.add.at(delta, place, effect.deltas)
                part = part + delta.cumsum()[:-1]
                for position, growth, made in effect.recomputed:
                    if begin <= position <= end:
                        high = max(high, int(part[position - begin]) - made + growth)
            high = max(high, int(part.max(initial=0)))
        return high

    def _middle_position(self) -> int:
        asked = self._asked[self._asked >= 0]
        return max(int(self._stop[-1]), int(asked.min(initial=self._end)) - 1)

    def _outside(self) -> tuple[int, int]:
        """The highest moment between the last forward and the first backward of layers, and that before all of it."""
        curve = self.planner.run.curve
        middle = int(curve[int(self._stop[-1]) : self._middle_position() + 1].max(initial=0))
        return middle, int(curve[self._begin : int(self._start[0])].max(initial=0))

    def _solve(self, budget: int | None, cost: Callable[..., F64]) -> Ranges | None:
        """The cheapest walk over all runs that stays within the budget; None where none does."""
        if budget is not None and self._rest > budget:
            return None
        walk = [_Labels.start()]
        for items in self._items:
            walk.append(_Labels.merged([self._step(walk[item.first], item, budget, cost) for item in items], items))
        last = walk[-1]
        peaks = self._middle - last.dropped
        final = last.cost if budget is not None else np.maximum(last.cost, peaks)
        fits = np.flatnonzero(peaks <= budget) if budget is not None else np.arange(len(peaks))
        if not len(fits):
            return None
        return self._ranges(walk, int(fits[final[fits].argmin()]))

    def _step(self, labels: _Labels, item: _Item, budget: int | None, cost: Callable[..., F64]) -> tuple[I64, F64, I64]:
        peak = item.highest - labels.dropped
        keep = np.flatnonzero(peak <= budget) if budget is not None else np.arange(len(peak))
        return labels.dropped[keep] + item.dropped, cost(labels.cost[keep], item, peak[keep]), keep

    def _ranges(self, walk: list[_Labels], label: int) -> Ranges:
        found, last = [], len(walk) - 1
        while last:
            item = walk[last].items[int(walk[last].item[label])]
            label = int(walk[last].parent[label])
            if item.segment:
                found.append((self._layer[item.first], self._layer[last - 1] + 1))
            last = item.first
        return tuple(sorted(found))


def _add_time(cost: F64, item: _Item, peak: I64) -> F64:
    return cost + item.cost


def _highest_peak(cost: F64, item: _Item, peak: I64) -> F64:
    return np.maximum(cost, peak)


@dataclass(frozen=True, eq=False)
class _Labels:
    """Pairs of which none is worse in both, with the way they came: most bytes dropped first."""

    dropped: I64
    cost: F64
    parent: I64
    item: I64
    items: list[_Item]

    @staticmethod
    def start() -> _Labels:
        zero = np.zeros(1, np.int64)
        return _Labels(zero, np.zeros(1), zero, zero, [])

    @staticmethod
    def merged(parts: list[tuple[I64, F64, I64]], items: list[_Item]) -> _Labels:
        dropped, cost, parent = (np.concatenate([part[i] for part in parts]) for i in range(3))
        item = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
        order = np.lexsort((cost, -dropped))
        best = np.minimum.accumulate(np.append(np.inf, cost[order]))[:-1]
        order = order[cost[order] < best]
        if len(order) > LABELS:
            order = _thinned(order, dropped[order])
        return _Labels(dropped[order], cost[order], parent[order], item[order].astype(np.int64), items)


def _thinned(order: I64, dropped: I64) -> I64:
    """The cheapest of each of `LABELS` steps of bytes, and the one that drops most."""
    step = (dropped - dropped[-1]) * (LABELS - 1) // max(int(dropped[0] - dropped[-1]), 1)
    last_of_step = np.append(np.flatnonzero(np.diff(step)), len(step) - 1)
    kept: I64 = order[np.unique(np.append(last_of_step, 0))]
    return kept


def _first_asked(planner: Planner) -> I64:
    """Position at which backward first asks for something of each run; -1 never."""
    packs = planner.facts.packs
    out = np.full(len(planner.facts.runs), np.iinfo(np.int64).max)
    asked = packs.asked >= 0
    np.minimum.at(out, packs.run[asked], packs.asked[asked])
    return np.where(out == np.iinfo(np.int64).max, -1, out).astype(np.int64)
