"""What every picture of bytes is drawn in: where things lie, the grid with its units, words and stairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memstrata.capture.format.schema import F64, Phase

from ..look import ticks
from ..look.name_cut import cut_apart
from ..look.units import bytes_text, exact_bytes_text
from .layout import markup

LEFT, RIGHT, TOP, BOTTOM = 78, 16, 44, 40
RIBBON = 18
LEGEND = 20
"""Height of a row of names."""


@dataclass(frozen=True)
class Frame:
    """Pixels of bytes and of what runs along the x axis, from `low` to `high`."""

    width: int
    height: int
    low: float
    high: float
    top_bytes: float

    @property
    def floor(self) -> int:
        """Height of 0 bytes."""
        return self.height - BOTTOM

    @property
    def middle(self) -> float:
        """Of the plot, from left to right."""
        return (LEFT + self.width - RIGHT) / 2

    def x(self, value: ArrayLike) -> F64:
        inside = self.width - LEFT - RIGHT
        return LEFT + (np.asarray(value, np.float64) - self.low) / (self.high - self.low or 1.0) * inside

    def y(self, size: ArrayLike) -> F64:
        return self.floor - np.asarray(size, np.float64) / (self.top_bytes or 1.0) * (self.floor - TOP)


def byte_grid(frame: Frame) -> list[str]:
    """Lines across, each with its bytes."""
    step = ticks.byte_step(frame.top_bytes, 6)
    out = []
    for value in ticks.multiples(0, frame.top_bytes, step):
        y = float(frame.y(value))
        out.append(f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(words(LEFT - 8, y + 4, ticks.byte_text(value, step), "end"))
    return out


def x_axis(frame: Frame, title: str, unit: str) -> list[str]:
    """Ticks below the plot: seconds, percent, or numbers of events."""
    step = ticks.round_step(frame.high - frame.low, 8)
    said = {"s": ticks.seconds_text, "%": lambda value, _step: f"{value:.0f}%"}.get(unit, ticks.event_text)
    out = []
    for value in ticks.multiples(frame.low, frame.high, step):
        out.append(words(float(frame.x(value)), frame.floor + 16, said(value, step), "middle"))
    return [*out, words(frame.middle, frame.height - 6, title, "middle")]


def words(x: float, y: float, text: str, anchor: str = "start", kind: str = "tick", tip: str = "") -> str:
    """A line of text, with what stands on hover."""
    more = f"<title>{markup(tip)}</title>" if tip else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{more}{markup(text)}</text>'


def peak_words(frame: Frame, x: float, y: float, text: str, size: int) -> str:
    """A name and the bytes of a peak, beside the place where it is; exact on hover."""
    right = x > frame.width / 2
    said = f"{text} {bytes_text(size)}"
    return words(x + (-6 if right else 6), y, said, "end" if right else "start", "peaktext", exact_bytes_text(size))


def phase_bar(phase: Phase, left: float, right: float, word: str) -> list[str]:
    """A part of the ribbon over the plot, with its name where there is room."""
    bar = (
        f'<rect class="p{int(phase)}" x="{left:.1f}" y="{TOP - RIBBON - 6}" width="{max(right - left, 0.4):.1f}" '
        f'height="{RIBBON}"><title>{word}</title></rect>'
    )
    fits = right - left > 8 * len(word) and phase != Phase.other
    return [bar, *([words((left + right) / 2, TOP - 11, word, "middle", f"t{int(phase)}")] if fits else [])]


def legend_rows(names: Sequence[tuple[str, str]], frame: Frame) -> int:
    """How many rows the names of these (class, name) take."""
    return max((row for _, row, _, _ in _placed(names, frame)), default=-1) + 1


def legend_lines(names: Sequence[tuple[str, str]], frame: Frame) -> list[str]:
    """A swatch of each class with its name, in rows below the picture."""
    out = []
    for x, row, kind, name in _placed(names, frame):
        y = frame.height + 4 + row * LEGEND
        swatch = f'x="{x:.0f}" y="{y}" width="11" height="11"'
        if kind.startswith("line"):
            swatch = f'x="{x:.0f}" y="{y + 4}" width="11" height="3"'
        out += [f'<rect class="{kind}" {swatch}/>', words(x + 15, y + 10, name)]
    return out


def _placed(names: Sequence[tuple[str, str]], frame: Frame) -> Iterator[tuple[float, int, str, str]]:
    x, row = float(LEFT), 0
    for (kind, _), shown in zip(names, cut_apart([name for _, name in names], 44), strict=True):
        wide = 30 + 6.6 * len(shown)
        if x > LEFT and x + wide > frame.width:
            x, row = float(LEFT), row + 1
        yield x, row, kind, shown
        x += wide


def area(x: F64, top: F64, bottom: F64) -> str:
    """The path of a shape, level from each x (there is one more) to the next, above and below."""
    back = stairs(x[::-1], bottom[::-1])
    return f"{stairs(x, top)}L{back[1:]}Z"


def stairs(x: F64, y: F64) -> str:
    """The path of a line that is level from each x (there is one more) to the next."""
    out = [f"M{x[0]:.1f},{y[0]:.1f}"]
    for right, here, after in zip(x[1:], y, [*y[1:], y[-1]], strict=True):
        out.append(f"H{right:.1f}" + (f"V{after:.1f}" if f"{after:.1f}" != f"{here:.1f}" else ""))
    return "".join(out)
