"""The devices of a file, and the same view of another one."""

from __future__ import annotations

from dataclasses import replace

from ..look.units import bytes_text
from ..model.run import Run
from .view_state import ViewState, first_view


def device_texts(run: Run) -> list[str]:
    """`cuda:1, peak 11.6 GiB` for each device of the file."""
    devices = run.recording.meta.devices
    return [f"{device.name}, peak {bytes_text(run.on(row).peak_bytes)}" for row, device in enumerate(devices)]


def on_device(state: ViewState, run: Run, row: int, grouping: str) -> ViewState:
    """The state with another device of the same file in place of this run, in the comparison too; the filter stays."""
    index, other = state.runs.index(run), run.on(row)
    runs, views = list(state.runs), list(state.views)
    runs[index], views[index] = other, replace(first_view(other, grouping), filter=state.views[index].filter)
    pair = state.pair
    if pair is not None:
        pair = (other if pair[0] is run else pair[0], other if pair[1] is run else pair[1])
    return replace(state, runs=tuple(runs), views=tuple(views), pair=pair, slot=None, common_visible=None)
