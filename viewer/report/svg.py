"""The timeline as SVG: stacked bands by group, the ribbon of phases above, the peak marked. Colours are CSS variables,
so that one picture serves a light and a dark page.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memstrata.capture.format.schema import I64, Category, Phase

from ..look import palette
from ..look.words import RESERVED, phase_text
from ..model.axes import AXES, XAxis, available_axes
from ..model.bands import Bands, bands_of
from ..model.curves import columns
from ..model.paints import category_paint, group_paints, phase_paint
from ..model.run import Run
from .layout import markup
from .svg_frame import (
    LEGEND,
    Frame,
    area,
    byte_grid,
    legend_lines,
    legend_rows,
    peak_words,
    phase_bar,
    stairs,
    x_axis,
)

COLUMNS = 700
_BACK = '<rect class="back" width="100%" height="100%"/>'
PICTURE_STYLE = """
:root { color-scheme: light dark; --back: #ffffff; --text: #1c1d20; --dim: #5d6169; --line: #d9dbdf; }
@media (prefers-color-scheme: dark) { :root { --back: #1e1f22; --text: #e6e7e9; --dim: #a0a4ac; --line: #3a3c42; } }
svg text { font: 12px system-ui, sans-serif; fill: var(--dim); } svg .back { fill: var(--back); }
svg .grid { stroke: var(--line); } svg .reserved { fill: none; stroke: var(--text); stroke-dasharray: 2 2; }
svg .line { fill: var(--text); }
svg .peak { stroke: var(--text); stroke-width: 1.5; } svg .peaktext { fill: var(--text); font-weight: 600;
  paint-order: stroke; stroke: var(--back); stroke-width: 3px; stroke-linejoin: round; }
"""
"""Serves a light and a dark page alike."""


def colour_rules(bands: Bands) -> str:
    """Rules for the fills of groups and phases, light and dark."""
    return for_both(lambda dark: _group_rules(bands, dark) + _phase_rules(dark))


def category_rules() -> str:
    """Rules for the fills of all categories, `.c0` for the first, and of phases."""
    return for_both(lambda dark: "".join(_fill(f"c{c}", category_paint(c, dark).fill) for c in Category)) + for_both(
        _phase_rules
    )


def for_both(rules: Callable[[bool], str]) -> str:
    """These rules, and those for readers who prefer it dark."""
    return rules(False) + "@media (prefers-color-scheme: dark) {\n" + rules(True) + "}\n"


def _group_rules(bands: Bands, dark: bool) -> str:
    return "".join(_fill(f"g{n}", paint.fill) for n, paint in enumerate(group_paints(bands.grouping, dark)))


def _fill(name: str, fill: str) -> str:
    return f".{name} {{ fill: {fill}; background: {fill}; }}\n"


def _phase_rules(dark: bool) -> str:
    fills = [(int(phase), phase_paint(phase, dark).fill) for phase in Phase]
    return "".join(f".p{n} {{ fill: {fill}; }} svg .t{n} {{ fill: {palette.text_on(fill)}; }}\n" for n, fill in fills)


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
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    frame = Frame(width, height, low, high, max(highest, least) * 1.06)
    body = [*byte_grid(frame), *x_axis(frame, axis.title, axis.unit), *_bands(run, bands, axis, frame)]
    body += [*_reserved(run, axis, frame), *_ribbon(run, axis, frame), *_peak(run, axis, frame)]
    if standalone or legend:
        names = _legend(bands, run.reserved is not None)
        body += legend_lines(names, frame)
        height += LEGEND * legend_rows(names, frame)
    label = markup(f"Active bytes of {run.name} by {bands.grouping.title} over {axis.title}")
    head = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg">'
    style = [f"<style>{PICTURE_STYLE}{colour_rules(bands)}</style>", _BACK] if standalone else []
    return "\n".join([head, *style, *body, "</svg>"])


def _positions(run: Run) -> I64:
    return np.unique(np.append(columns(run.curve, 0, run.n_events, COLUMNS).position, run.peak_position))


def _bands(run: Run, bands: Bands, axis: XAxis, frame: Frame) -> list[str]:
    positions = _positions(run)
    tops = np.cumsum(bands.bytes_at(positions), axis=0)
    x = frame.x(axis.x_of(np.append(positions, run.n_events + 1)))
    out = []
    below = np.zeros(len(positions), np.int64)
    for group, top in enumerate(tops):
        if (top > below).any():
            shape, name = area(x, frame.y(top), frame.y(below)), markup(bands.grouping.names[group])
            out.append(f'<path class="g{group}" d="{shape}"><title>{name}</title></path>')
        below = top
    return out


def _legend(bands: Bands, has_reserved: bool) -> list[tuple[str, str]]:
    """(class, name) of what is seen."""
    shown = [(f"g{group}", bands.grouping.names[group]) for group in np.flatnonzero(bands.highest).tolist()]
    return [*shown, *([("line", f"{RESERVED} (dotted)")] if has_reserved else [])]


def _reserved(run: Run, axis: XAxis, frame: Frame) -> list[str]:
    if run.reserved is None:
        return []
    found = columns(run.reserved, 0, run.n_events, COLUMNS)
    x = frame.x(axis.x_of(np.append(found.position, run.n_events + 1)))
    return [f'<path class="reserved" d="{stairs(x, frame.y(found.max))}"><title>reserved</title></path>']


def _ribbon(run: Run, axis: XAxis, frame: Frame) -> list[str]:
    out = []
    for phase, first, last in run.phases:
        a, b = frame.x(axis.x_of([first, last])).tolist()
        word = phase_text(phase) + (" (inferred)" if run.phases_inferred and phase != Phase.other else "")
        out += phase_bar(phase, a, b, word)
    return out


def _peak(run: Run, axis: XAxis, frame: Frame) -> list[str]:
    x, y = float(frame.x(axis.x_of(run.peak_position))), float(frame.y(run.peak_bytes))
    line = f'<line class="peak" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{frame.floor}"/>'
    return [line, peak_words(frame, x, max(y - 4, 10), "peak", run.peak_bytes)]
