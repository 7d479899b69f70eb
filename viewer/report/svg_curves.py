"""Curves of several runs on one axis as SVG: the first two as areas with lines, further ones as lines, each peak named.

Along phase and layer where the runs have them: then a pass of a layer is as wide in every run, however long it took.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from memstrata.capture.format.schema import F64, I64, NONE, Phase

from ..analysis.aligned import Cell, Structure
from ..analysis.common_axes import COMMON_AXES, axis_beside, common_axes, first_axis
from ..look import palette
from ..look.name_cut import cut_apart
from ..look.units import bytes_text
from ..model.axes import XAxis
from ..model.run import Run
from ..model.sampling import peak_columns
from .layout import markup
from .svg import COLUMNS, for_both
from .svg_frame import (
    LEFT,
    RIGHT,
    Frame,
    area,
    byte_grid,
    legend_lines,
    legend_rows,
    peak_words,
    phase_bar,
    stairs,
    words,
    x_axis,
)

MOST_RUNS = 8
"""Curves that can be told apart."""


def curve_rules(further: int) -> str:
    """Rules for the areas and lines of runs: `.r0` before, `.r1` after, then further ones."""

    def rules(dark: bool) -> str:
        fills = (*palette.RUN_FILL[dark], *palette.further_runs(further, dark))
        lines = (*palette.RUN_LINE[dark], *palette.further_runs(further, dark))
        return "".join(
            f".r{n} {{ fill: {fill}; background: {fill}; }} svg .l{n} {{ fill: none; stroke: {ink}; }}\n"
            for n, (fill, ink) in enumerate(zip(fills, lines, strict=True))
        )

    style = "svg .l0, svg .l1 { stroke-width: 1.6; } svg .area { stroke: none; } svg .r0.area { opacity: .4; }\n"
    style += (
        "svg .r1.area { opacity: .55; } svg .planned { fill: none; stroke: var(--text); stroke-dasharray: 1.5 3; }\n"
    )
    return for_both(rules) + style


def curves_svg(runs: Sequence[Run], names: Sequence[str], planned: I64 | None = None) -> str:
    """The picture, `names` for the legend; an empty string where two of the runs share no axis. `planned` is what the
    first run says of the plan of the second, at its own positions."""
    a, b = runs[0], runs[1]
    if not common_axes(a, b):
        return ""
    key = first_axis(a, b)
    structure = COMMON_AXES[key].make(a, b)
    lines: list[tuple[int, Run, XAxis]] = [(0, a, structure.a), (1, b, structure.b)]
    for number, run in enumerate(runs[2:MOST_RUNS], 2):
        axis = axis_beside(key, structure, (a, b), run)
        lines += [(number, run, axis)] if axis is not None else []
    top = max(run.peak_bytes for _, run, _ in lines) * 1.1
    frame = Frame(1080, 380, 0.0, structure.width, top)
    body = [*byte_grid(frame), *_below(structure, runs, frame)]
    body += [text for line in lines[:2] for text in _area(*line, frame)]
    body += [text for line in lines for text in _line(*line, frame)]
    legend = [(f"r{number}", names[number]) for number, _, _ in lines]
    if planned is not None:
        body.append(f'<path class="planned" d="{_stairs(planned, structure.a, frame)}"/>')
        legend.append(("line", "planned from the first run (dotted)"))
    body += [*_peaks(lines, frame), *legend_lines(legend, frame)]
    height = frame.height + 22 * legend_rows(legend, frame)
    label = markup(f"Active bytes of {', '.join(run.name for _, run, _ in lines)} on one axis")
    head = f'<svg viewBox="0 0 {frame.width} {height}" role="img" aria-label="{label}"'
    return "\n".join([f'{head} xmlns="http://www.w3.org/2000/svg">', *body, "</svg>"])


def _below(structure: Structure, runs: Sequence[Run], frame: Frame) -> list[str]:
    """The ribbon of phases and the numbers of layers, or the ticks of the axis."""
    if not structure.cells:
        titles = dict.fromkeys((structure.a.title, structure.b.title))
        return x_axis(frame, " and ".join(titles), structure.a.unit)
    out = []
    for phase, group in groupby(structure.cells, key=lambda cell: cell.phase):
        cells = list(group)
        if phase != Phase.other:
            out += phase_bar(phase, float(frame.x(cells[0].x0)), float(frame.x(cells[-1].x1)), phase.name)
    labels = max((run.layers.labels for run in runs), key=len)
    return [*out, *_layers(structure.cells, labels, frame),
            words(frame.middle, frame.height - 6, "layer, in the order of the step", "middle")]  # fmt: skip


def _layers(cells: Sequence[Cell], labels: Sequence[str], frame: Frame) -> list[str]:
    """The number of each layer that has room for it."""
    out, free = [], float(LEFT)
    for cell in cells:
        name = labels[cell.layer] if NONE < cell.layer < len(labels) else ""
        text, middle = name.rpartition(".")[2][:8], float(frame.x((cell.x0 + cell.x1) / 2))
        half = 3.5 * len(text)
        if text and middle - half >= free and middle + half <= frame.width - RIGHT:
            out.append(words(middle, frame.floor + 16, text, "middle"))
            free = middle + half + 4
    return out


def _columns(curve: I64, axis: XAxis, frame: Frame) -> tuple[F64, F64]:
    """(edges in pixels, height of the most bytes between them): no column loses a peak."""
    found = peak_columns(curve, axis, frame.low, frame.high, COLUMNS)
    return frame.x(found.x), frame.y(curve[found.positions])


def _stairs(curve: I64, axis: XAxis, frame: Frame) -> str:
    return stairs(*_columns(curve, axis, frame))


def _area(number: int, run: Run, axis: XAxis, frame: Frame) -> list[str]:
    x, y = _columns(run.curve, axis, frame)
    return [f'<path class="r{number} area" d="{area(x, y, np.full(len(y), float(frame.floor)))}"/>']


def _line(number: int, run: Run, axis: XAxis, frame: Frame) -> list[str]:
    tip = markup(f"{run.name}: at most {bytes_text(run.peak_bytes)}")
    return [f'<path class="l{number}" d="{_stairs(run.curve, axis, frame)}"><title>{tip}</title></path>']


def _peaks(lines: Sequence[tuple[int, Run, XAxis]], frame: Frame) -> list[str]:
    """A dot on each peak, and its name where no other name lies."""
    out: list[str] = []
    taken: list[tuple[float, float]] = []
    names = cut_apart([run.name for _, run, _ in lines], 30)
    for (number, run, axis), name in zip(lines, names, strict=True):
        x, y = float(frame.x(axis.x_of(run.peak_position))), float(frame.y(run.peak_bytes))
        out.append(f'<circle class="r{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
        at = max(y - 5, 34.0)
        while any(abs(x - left) < 340 and abs(at - other) < 14 for left, other in taken):
            at += 15
        if at < frame.floor - 4:
            taken.append((x, at))
            out.append(peak_words(frame, x, at, name, run.peak_bytes))
    return out
