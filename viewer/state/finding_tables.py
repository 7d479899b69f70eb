"""The columns of findings, and of what shapes say against what was measured: layers, and items of the residual."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from memstrata.capture.format.schema import I64, NONE, Fate, Phase

from ..analysis.finding import Finding
from ..analysis.places import Places
from ..analysis.residual import ResidualItem
from ..analysis.shape import shape_of
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text, seconds_text
from ..look.words import OUTSIDE_LAYERS
from ..model.run import Run
from ..report.residual_text import facts_text, parts_text
from .array_table import Column


def finding_columns(found: Sequence[Finding], peak_bytes: int) -> list[Column]:
    """Bytes at stake, what is so, and what would change it."""
    size = np.array([finding.bytes for finding in found], np.int64)
    order = np.arange(len(found))
    return [
        Column(
            "bytes", size, lambda i: bytes_text(int(size[i])), lambda i: exact_bytes_text(int(size[i])), True,
            np.minimum(size / max(peak_bytes, 1), 1.0), meaning="bytes at stake; the bar is their share of the peak",
        ),
        Column("what is so", order, lambda i: found[i].text, lambda i: f"{found[i].text}\n{found[i].exact}"),
        Column("what would change it", order, lambda i: found[i].suggestion),
    ]  # fmt: skip


def layer_columns(run: Run) -> list[Column]:
    """A row for each layer and one for what is outside them: measured bytes saved for backward (kept, or made again
    for it) beside what shapes say, and device time where it was measured."""
    layers, shape = run.layers, shape_of(run)
    saved = run.saved_bytes_by_layer(Fate.kept, Fate.rematerialized)
    rows = [*range(len(layers)), NONE]
    measured = np.array([saved.get(row, 0) for row in rows], np.int64)
    within = f"; in {run.passes.text}" if run.passes.text else ""
    names = [*layers.labels, OUTSIDE_LAYERS]
    blocks = [*layers.super_block_of_layer.tolist(), NONE]
    columns = [
        Column("layer", np.arange(len(rows)), lambda i: names[i]),
        _bytes("measured", measured, f"saved for backward: kept from forward, or made again by a checkpoint{within}"),
    ]
    if shape is not None and len(shape.layers) == len(layers):
        said = np.array([*(layer.bytes(shape.tokens) for layer in shape.layers), shape.outside_bytes], np.int64)
        columns.append(_bytes("shapes say", said, "what the layer keeps by its widths"))
        columns.append(_difference("difference", measured - said))
    columns.append(_kinds(run))
    columns.append(Column("super-block", np.array(blocks), lambda i: _block(blocks[i]), right=True))
    time = device_times(run)
    if time is not None:
        nanoseconds = np.array([*time, 0], np.int64)
        columns.append(
            Column(
                "device time", nanoseconds,
                lambda i: seconds_text(int(nanoseconds[i]) / 1e9) if i < len(layers) else "-",
                right=True, meaning="how long the device itself worked on the layer, forward and backward together",
                seconds=lambda i: int(nanoseconds[i]) / 1e9 if i < len(layers) else None,
            )
        )  # fmt: skip
    return columns


def device_times(run: Run) -> I64 | None:
    """Nanoseconds that the device worked on each layer in the step with the peak, all phases together; None where none
    was measured."""
    spans = run.recording.spans
    time = spans.device_time[run.spans.row]
    own = np.append(run.layers.modules, np.int32(-2))
    rows = (run.spans.layer >= 0) & (run.spans.module == own[run.spans.layer]) & (time >= 0)
    rows &= run.passes.in_peak_step(run.spans.start_time)
    if not rows.any():
        return None
    out = np.zeros(len(run.layers), np.int64)
    np.add.at(out, run.spans.layer[rows], time[rows])
    return out


def phase_device_times(run: Run) -> dict[Phase, int]:
    """Nanoseconds that the device worked on each phase of the step with the peak; empty where none was measured."""
    spans = run.recording.spans
    found: dict[Phase, int] = {}
    of_step = run.passes.in_peak_step(spans.start_time)
    for row in np.flatnonzero((spans.module == NONE) & (spans.device_time >= 0) & of_step).tolist():
        phase = Phase(int(spans.phase[row]))
        found[phase] = found.get(phase, 0) + int(spans.device_time[row])
    return found


def item_columns(items: Sequence[ResidualItem]) -> list[Column]:
    """The items of a residual: what, how many, and how much it adds to the difference."""
    size = np.array([item.bytes for item in items], np.int64)
    most = max(int(np.abs(size).max(initial=0)), 1)
    counts = np.array([item.count for item in items], np.int64)
    return [
        Column(
            "item of the difference", np.arange(len(items)), lambda i: items[i].label, lambda i: _hint(items[i]),
            meaning="what was measured beyond shapes, or predicted and not found",
        ),
        Column(
            "bytes", size, lambda i: difference_text(int(size[i])), lambda i: exact_bytes_text(int(size[i])), True,
            size / most, meaning="measured minus predicted; the items sum to the difference",
        ),
        Column("count", counts, lambda i: count_text(items[i].count), right=True, meaning="how many tensors"),
    ]  # fmt: skip


def _hint(item: ResidualItem) -> str:
    return whole_text(item)


def whole_text(item: ResidualItem) -> str:
    """The sentence of an item, op and dtype, and its share in each kind of layer."""
    return "\n".join(text for text in (item.text or item.label, facts_text(item), parts_text(item)) if text)


def _kinds(run: Run) -> Column:
    short = [*Places(run).kind_names, ""]
    whole = [*run.layers.kinds, ""]
    keys = np.unique(np.array(short, object), return_inverse=True)[1].astype(np.int64)
    return Column("kind", keys, lambda i: short[i], lambda i: whole[i])


def _block(block: int) -> str:
    return count_text(block) if block >= 0 else "-"


def _bytes(title: str, size: I64, meaning: str) -> Column:
    most = max(int(size.max(initial=0)), 1)
    return Column(
        title, size, lambda i: bytes_text(int(size[i])), lambda i: exact_bytes_text(int(size[i])), True, size / most,
        meaning=meaning,
    )  # fmt: skip


def _difference(title: str, size: I64) -> Column:
    return Column(
        title, size, lambda i: difference_text(int(size[i])), lambda i: exact_bytes_text(int(size[i])), True,
        meaning="measured minus what shapes say",
    )  # fmt: skip
