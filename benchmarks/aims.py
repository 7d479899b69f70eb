"""What is aimed at, beside each figure that has an aim: whether it holds in this run, and all of them at its end.

Aims that are ratios mean the same on every machine, as both sides were measured in this run. Those in milliseconds and
seconds are CPU time of the machine at hand: on one that does other things too they may fail for that alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

HOLDS, FAILS = "holds", "DOES NOT HOLD"


@dataclass(frozen=True)
class Aim:
    """`most` is the largest figure that holds."""

    name: str
    most: float
    unit: str = "x"

    def told(self, figure: float) -> str:
        """The end of the figure's row; noted for `Aims.summary`."""
        _SEEN.setdefault(self, []).append(figure)
        return f"   [aim: {self.most:g} {self.unit} or less, {self.verdict(figure)}]"

    def verdict(self, figure: float) -> str:
        """Whether it holds."""
        return HOLDS if figure <= self.most else FAILS


_SEEN: dict[Aim, list[float]] = {}

LOAD = Aim("load of 1,000,000 events, against pickle with gc off", 0.65)
LOAD_AS_CALLED = Aim("load of 1,000,000 events, against pickle as people call it", 0.25)
LOAD_MEMORY = Aim("peak memory of that load, against pickle", 0.2)
WAIT = Aim("longest wait of another thread meanwhile", 50, "ms")
FIRST_FRAME = Aim("1,000,000 events from the file to the first painted frame", 1.0, "s of CPU")
LINEAR = Aim("the same for more events, against what linear would be", 1.1)
STANDSTILL = Aim("longest stretch of work in the window until its page is painted", 50, "ms")
FRAME = Aim("a frame with 1,000,000 allocations one by one, 95 of 100", 16, "ms")
BANDS = Aim("64 bands of 2,000 columns, 95 of 100 frames", 16, "ms")
HOVER = Aim("hover to one of 1,000,000 allocations, 95 of 100", 1, "ms")
LIVE_SET = Aim("which of 1,000,000 allocations are alive at an instant, 95 of 100", 5, "ms")
TABLE = Aim("a table of 1,000,000 allocations sorted or filtered", 100, "ms")
SMALL = Aim("10,000 generated events, against a refusing Unpickler and the same recording", 1.0)
SMALL_ALL = Aim("the same for all small files together", 1.0)


def summary() -> Iterator[str]:
    """All aims of which there was a figure, with the worst one."""
    if _SEEN:
        yield "aims, and the worst figure of each in this run"
    for aim, figures in _SEEN.items():
        held = sum(figure <= aim.most for figure in figures)
        count = "" if len(figures) == 1 else f", {held} of {len(figures)} hold"
        figure = f"{max(figures):.3g} {aim.unit}"
        yield f"  {aim.verdict(max(figures)):13} {figure:>14}   aim {aim.most:g}   {aim.name}{count}"
