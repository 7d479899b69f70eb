"""The columns of what else would help: changes, stages of a pipeline, how the parts of a step grow, and its curve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..analysis.scaling import Scaling
from ..analysis.what_else import Stage, Without
from ..look.units import bytes_text, difference_text, exact_bytes_text
from ..report.scaling_text import growth_row, lengths
from ..report.what_else_text import stage_row
from .array_table import Column


def change_columns(found: Sequence[Without]) -> list[Column]:
    """Each change by itself: the peak that is left, and how."""
    peaks = np.array([change.peak_bytes for change in found], np.int64)
    gains = np.array([change.saved_bytes for change in found], np.int64)
    order = np.arange(len(found))
    return [
        Column("change", order, lambda i: found[i].name),
        _bytes("peak", peaks, "peak of the step with this change alone: an estimate"),
        Column(
            "gain", gains, lambda i: difference_text(-int(gains[i])), lambda i: exact_bytes_text(int(gains[i])), True
        ),
        Column("how", order, lambda i: found[i].text),
    ]


def stage_columns(found: Sequence[Stage]) -> list[Column]:
    """Each stage of a pipeline, first to last."""
    rows = [stage_row(number, stage) for number, stage in enumerate(found)]
    order = np.arange(len(found))
    flight = np.array([stage.in_flight for stage in found], np.int64)
    kept = np.array([stage.kept_bytes for stage in found], np.int64)
    whole = np.array([stage.peak_bytes for stage in found], np.int64)
    return [
        Column("stage", order, lambda i: rows[i][0], right=True),
        Column("layers", order, lambda i: rows[i][1]),
        Column("in flight", flight, lambda i: rows[i][2], right=True, meaning="microbatches it holds at once"),
        _bytes("kept by one", kept, "what one microbatch keeps until its backward"),
        _bytes("activations", whole, "all that wait, and the one that runs at its highest: an estimate"),
    ]


def growth_columns(found: Scaling) -> list[Column]:
    """How each part of the peak grows."""
    rows = [growth_row(part) for part in found.parts]
    values = [np.array([getattr(part, name) for part in found.parts]) for name in ("constant", "linear", "quadratic")]
    return [
        Column("part", np.arange(len(rows)), lambda i: rows[i][0]),
        Column("stays", values[0], lambda i: rows[i][1], right=True),
        Column("per token", values[1], lambda i: rows[i][2], right=True),
        Column("per batch x sequence^2", values[2], lambda i: rows[i][3], right=True),
    ]


def curve_columns(found: Scaling, batch: int) -> list[Column]:
    """The peak by sequence length with this batch, doubling from the longest measured one."""
    tokens = np.array(lengths(found), np.int64)
    peaks = np.array([found.bytes(batch, int(n)) for n in tokens], np.int64)
    return [
        Column("tokens", tokens, lambda i: f"{tokens[i]:,}", right=True),
        _bytes("peak", peaks, f"estimated, batch {batch}"),
    ]


def _bytes(title: str, sizes: np.ndarray[tuple[int], np.dtype[np.int64]], meaning: str) -> Column:
    return Column(
        title, sizes, lambda i: bytes_text(int(sizes[i])), lambda i: exact_bytes_text(int(sizes[i])), True,
        meaning=meaning,
    )  # fmt: skip
