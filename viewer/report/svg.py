"""The timeline as SVG: stacked bands by group, the ribbon of phases above, the peak marked. Colours are CSS variables,
so that one picture serves a light and a dark page.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from memstrata.capture.format.schema import F64, I64, Phase

from ..look import palette, ticks
from ..look.units import bytes_text
from ..look.words import phase_text
from ..model.axes import AXES, XAxis, available_axes
from ..model.bands import Bands, bands_of
from ..model.curves import columns
from ..model.paints import group_paints, phase_paint
from ..model.run import Run
from .layout import markup, shortened

COLUMNS = 700
LEFT, RIGHT, TOP, BOTTOM = 78, 16, 44, 40
RIBBON = 18
LEGEND = 26
_BACK = '<rect class="back" width="100%" height="100%"/>'
PICTURE_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1c1d20; --dim: #5d6169; --line: #d9dbdf; }
@media (prefers-color-scheme: dark) { :root { --back: #1e1f22; --text: #e6e7e9; --dim: #a0a4ac; --line: #3a3c42; } }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); } svg .back { fill: var(--back); }
svg .grid { stroke: var(--line); } svg .reserved { fill: none; stroke: var(--text); stroke-dasharray: 2 2; }
svg .peak { stroke: var(--text); stroke-width: 1.5; } svg .peaktext { fill: var(--text); font-weight: 600; }
"""
"""Serves a light and a dark page alike."""


@dataclass(frozen=True)
class _Frame:
    """Where things lie: pixels of x values and bytes."""

    width: int
    height: int
    axis: XAxis
    top_bytes: float

    def x(self, position: ArrayLike) -> F64:
        low, high = self.axis.edges[0], self.axis.edges[-1]
        inside = self.width - LEFT - RIGHT
        return LEFT + (self.axis.x_of(position) - low) / (high - low or 1.0) * inside

    def y(self, size: ArrayLike) -> F64:
        floor = self.height - BOTTOM
        return floor - np.asarray(size, np.float64) / (self.top_bytes or 1.0) * (floor - TOP)


def colour_rules(bands: Bands) -> str:
    """Rules for the fills of groups and phases, light and dark."""
    return _rules(bands, False) + "@media (prefers-color-scheme: dark) {\n" + _rules(bands, True) + "}\n"


def _rules(bands: Bands, dark: bool) -> str:
    rules = []
    for number, paint in enumerate(group_paints(bands.grouping, dark)):
        rules.append(f".g{number} {{ fill: {paint.fill}; background: {paint.fill}; }}")
    for phase in Phase:
        fill = phase_paint(phase, dark).fill
        rules.append(f".p{int(phase)} {{ fill: {fill}; }} svg .t{int(phase)} {{ fill: {palette.text_on(fill)}; }}")
    return "\n".join(rules) + "\n"


def timeline_svg(
    run: Run,
    key: str,
    width: int = 1080,
    height: int = 380,
    standalone: bool = False,
    least: int = 0,
    legend: bool = False,
) -> str:
    """The whole picture, `standalone` with its own style; an empty string where the file has no timeline.

    The axis has room for `least` bytes, so that several pictures can share one scale. A standalone picture always has
    the `legend`.
    """
    if "timeline" not in run.capabilities:
        return ""
    axis = AXES["time" if "time" in available_axes(run) else "events"].make(run)
    bands = bands_of(run, key)
    highest = run.peak_bytes if run.reserved is None else max(run.peak_bytes, int(run.reserved.max()))
    frame = _Frame(width, height, axis, max(highest, least) * 1.06)
    body = [*_grid(frame), *_bands(run, bands, frame), *_reserved(run, frame), *_ribbon(run, frame), *_peak(run, frame)]
    if standalone or legend:
        body += _legend(run, bands, frame)
        height += LEGEND
    label = markup(f"Active bytes of {run.name} by {bands.grouping.title} over {axis.title}")
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg">'
    style = [f"<style>{PICTURE_STYLE}{colour_rules(bands)}</style>", _BACK] if standalone else []
    return "\n".join([head, *style, *body, "</svg>"])


def _positions(run: Run) -> I64:
    return np.unique(np.append(columns(run.curve, 0, run.n_events, COLUMNS).position, run.peak_position))


def _bands(run: Run, bands: Bands, frame: _Frame) -> list[str]:
    positions = _positions(run)
    tops = np.cumsum(bands.bytes_at(positions), axis=0)
    x = np.append(frame.x(positions), frame.x(run.n_events + 1))
    out = []
    below = np.zeros(len(positions), np.int64)
    for group, top in enumerate(tops):
        if (top > below).any():
            shape, name = _step(x, frame.y(top), frame.y(below)), markup(bands.grouping.names[group])
            out.append(f'<path class="g{group}" d="{shape}"><title>{name}</title></path>')
        below = top
    return out


def _legend(run: Run, bands: Bands, frame: _Frame) -> list[str]:
    """The names of the bands that are seen, in one row below."""
    x, y, out = float(LEFT), frame.height + 4, []
    for group in np.flatnonzero(bands.highest).tolist():
        name = shortened(bands.grouping.names[group], 24)
        out += [
            f'<rect class="g{group}" x="{x:.0f}" y="{y}" width="11" height="11"/>',
            _text(x + 15, y + 10, name, "start"),
        ]
        x += 30 + 6.6 * len(name)
        if x > frame.width - RIGHT:  # the row is full: what is left shows its name on hover
            break
    return out


def _step(x: F64, top: F64, bottom: F64) -> str:
    """A stair along the top to the right and along the bottom back."""
    there = [f"{a:.1f},{y:.1f} {b:.1f},{y:.1f}" for a, b, y in zip(x[:-1], x[1:], top, strict=True)]
    back = [f"{b:.1f},{y:.1f} {a:.1f},{y:.1f}" for a, b, y in zip(x[:-1], x[1:], bottom, strict=True)][::-1]
    return f"M{' L'.join([*there, *back])}Z"


def _reserved(run: Run, frame: _Frame) -> list[str]:
    if run.reserved is None:
        return []
    found = columns(run.reserved, 0, run.n_events, COLUMNS)
    x = np.append(frame.x(found.position), frame.x(run.n_events + 1))
    points = [f"{a:.1f},{y:.1f} {b:.1f},{y:.1f}" for a, b, y in zip(x[:-1], x[1:], frame.y(found.max), strict=True)]
    return [f'<polyline class="reserved" points="{" ".join(points)}"><title>reserved</title></polyline>']


def _grid(frame: _Frame) -> list[str]:
    step = ticks.byte_step(frame.top_bytes, 6)
    out = []
    for value in ticks.multiples(0, frame.top_bytes, step):
        y = float(frame.y(value))
        out.append(f'<line class="grid" x1="{LEFT}" x2="{frame.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(_text(LEFT - 8, y + 4, ticks.byte_text(value, step), "end"))
    return out + _x_axis(frame)


def _x_axis(frame: _Frame) -> list[str]:
    low, high = float(frame.axis.edges[0]), float(frame.axis.edges[-1])
    step = ticks.round_step(high - low, 8)
    said = ticks.seconds_text if frame.axis.unit == "s" else ticks.event_text
    floor, inside = frame.height - BOTTOM, frame.width - LEFT - RIGHT
    out = []
    for value in ticks.multiples(low, high, step):
        x = LEFT + (value - low) / (high - low or 1.0) * inside
        out.append(_text(x, floor + 16, said(value, step), "middle"))
    return [*out, _text(LEFT + inside / 2, frame.height - 6, frame.axis.title, "middle")]


def _ribbon(run: Run, frame: _Frame) -> list[str]:
    out = []
    for phase, first, last in run.phases:
        a, b = float(frame.x(first)), float(frame.x(last))
        word = phase_text(phase) + (" (inferred)" if run.phases_inferred and phase != Phase.other else "")
        out.append(
            f'<rect class="p{int(phase)}" x="{a:.1f}" y="{TOP - RIBBON - 6}" width="{max(b - a, 0.4):.1f}" '
            f'height="{RIBBON}"><title>{word}</title></rect>'
        )
        if b - a > 8 * len(word) and phase != Phase.other:
            out.append(_text((a + b) / 2, TOP - 11, word, "middle", f"t{int(phase)}"))
    return out


def _peak(run: Run, frame: _Frame) -> list[str]:
    x, y = float(frame.x(run.peak_position)), float(frame.y(run.peak_bytes))
    right = x > frame.width / 2
    said = f"peak {bytes_text(run.peak_bytes)}"
    line = f'<line class="peak" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{frame.height - BOTTOM}"/>'
    return [line, _text(x + (-6 if right else 6), max(y - 4, 10), said, "end" if right else "start", "peaktext")]


def _text(x: float, y: float, text: str, anchor: str, kind: str = "tick") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{markup(text)}</text>'
