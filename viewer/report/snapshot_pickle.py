"""A plain torch memory snapshot of a recording, for pytorch.org/memory_viz and other tools that read those.

Only lists, dicts, text and integers are written, so that opening it runs nothing. What a snapshot cannot hold, the
category and the layer, goes into the `user_metadata` of each allocation.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Action, BlockState, MarkKind, Phase

from ..look.words import category_text
from ..model.run import Run
from ..model.said import Said, quiet
from .one_heap import BASE, lay_out

Frame = dict[str, Any]
_CHUNK = 10_000
"""Events between two looks at whether the snapshot is still wanted."""


def snapshot_bytes(recording: Recording, said: Said = quiet) -> bytes:
    """The pickle, protocol 2 as torch's own writer. `said(part)` is told how far it is, and calls it off by raising."""
    return pickle.dumps(snapshot(recording, said), protocol=2)


def snapshot(recording: Recording, said: Said = quiet) -> dict[str, Any]:
    """The dict that `torch.cuda.memory._snapshot` would give; where no allocator reported segments, with one heap."""
    value = as_recorded(recording, said)
    if not recording.meta.has_reserved:
        for segment in value["segments"]:
            trace = value["device_traces"][segment["device"]]
            segment["blocks"], segment["total_size"] = lay_out(trace, segment["blocks"])
            segment["address"] = BASE
    return value


def as_recorded(recording: Recording, said: Said = quiet) -> dict[str, Any]:
    """The same with every address as it was, which only where there are segments all readers understand."""
    frames = _Frames(recording)
    runs = [Run(recording, row) for row in range(len(recording.meta.devices))]
    last = max((run.device.ordinal for run in runs), default=-1)
    traces: list[list[dict[str, Any]]] = [[] for _ in range(last + 1)]
    for run in runs:
        traces[run.device.ordinal] = _trace(run, frames, said)
    return {
        "segments": _segments(recording, frames),
        "device_traces": traces,
        "allocator_settings": dict(recording.meta.allocator_settings),
        "external_annotations": _annotations(recording),
    }


class _Frames:
    """Stacks as lists of frames, innermost first; equal stacks are one object, and so are equal frames."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._stacks: dict[int, list[Frame]] = {NONE: []}
        self._frames: dict[tuple[str, str, int], Frame] = {}

    def stack(self, row: int) -> list[Frame]:
        if row not in self._stacks:
            self._stacks[row] = [self._frame(found) for found in self._recording.stack_frames(row)]
        return self._stacks[row]

    def _frame(self, found: tuple[str, str, int]) -> Frame:
        name, file, line = found
        return self._frames.setdefault(found, {"name": name, "filename": file, "line": line})


def _trace(run: Run, frames: _Frames, said: Said) -> list[dict[str, Any]]:
    events = run.recording.events
    rows = np.flatnonzero(events.device == run.device_row).tolist()
    noted = _metadata(run)
    out = []
    for index, row in enumerate(rows):
        if not index % _CHUNK:
            said(index / len(rows))
        action = Action(int(events.action[row]))
        if action == Action.unknown:
            continue
        event: dict[str, Any] = {"action": action.name}
        event |= {"size": int(events.bytes[row]), "stream": int(events.stream[row])}
        event |= {"device_free": 0} if action == Action.oom else {"addr": int(events.address[row])}
        if events.time[row] != NONE:
            event["time_us"] = int(events.time[row]) // 1000
        event["frames"] = frames.stack(int(events.stack[row]))
        if index in noted:
            event["user_metadata"] = noted[index]
        out.append(event)
    return out


def _metadata(run: Run) -> dict[int, str]:
    """Category and layer of the allocation that each alloc event made, by event index."""
    if run.recording.meta.kind != "recording":
        return {}
    category, layer = run.attribution.category.tolist(), run.attribution.layer.tolist()
    made = np.flatnonzero(~run.allocations.before & (run.allocations.start > 0)).tolist()
    names = run.layers.names
    return {
        int(run.allocations.start[i]) - 1: category_text(category[i])
        + (f", {names[layer[i]]}" if layer[i] >= 0 else "")
        for i in made
    }


def _segments(recording: Recording, frames: _Frames) -> list[dict[str, Any]]:
    segments, blocks = recording.allocator_segments, recording.blocks
    order = np.argsort(blocks.segment, kind="stable")
    first = np.searchsorted(blocks.segment[order], np.arange(len(segments) + 1)).tolist()
    requested = np.where(blocks.state == BlockState.inactive, 0, blocks.requested_bytes)
    out = []
    for row in range(len(segments)):
        mine = order[first[row] : first[row + 1]].tolist()
        out.append({
            "device": recording.meta.devices[int(segments.device[row])].ordinal,
            "address": int(segments.address[row]),
            "total_size": int(segments.bytes[row]),
            "allocated_size": int(segments.allocated_bytes[row]),
            "active_size": int(segments.active_bytes[row]),
            "requested_size": int(requested[mine].sum()),
            "stream": int(segments.stream[row]),
            "segment_type": "small" if segments.is_small[row] else "large",
            "segment_pool_id": (int(segments.pool_owner[row]), int(segments.pool_id[row])),
            "is_expandable": bool(segments.is_expandable[row]),
            "frames": frames.stack(int(segments.stack[row])),
            "blocks": [_block(recording, block, frames) for block in mine],
        })  # fmt: skip
    return out


def _block(recording: Recording, row: int, frames: _Frames) -> dict[str, Any]:
    blocks = recording.blocks
    state = BlockState(int(blocks.state[row]))
    return {
        "address": int(blocks.address[row]),
        "size": int(blocks.bytes[row]),
        "requested_size": int(blocks.requested_bytes[row]),
        "state": {BlockState.active_pending_free: "active_pending_free", BlockState.inactive: "inactive"}.get(
            state, "active_allocated"
        ),
        "frames": frames.stack(int(blocks.stack[row])),
    }


def _annotations(recording: Recording) -> list[dict[str, Any]]:
    """Phases of the step and the program's own annotations, which memory_viz draws over the timeline."""
    marks, spans = recording.marks, recording.spans
    out = []
    for row in np.flatnonzero((marks.kind == MarkKind.annotation) & (marks.time != NONE)).tolist():
        name, _, stage = recording.strings[int(marks.text[row])].rpartition(" ")
        out.append(_annotation("END" if stage == "ends" else "START", name, int(marks.time[row])))
    for row in np.flatnonzero(spans.module == NONE).tolist():
        name = f"## {Phase(int(spans.phase[row])).name} ##"
        out += [_annotation("START", name, int(spans.start_time[row]))]
        out += [_annotation("END", name, int(spans.end_time[row]))]
    return out


def _annotation(stage: str, name: str, time: int) -> dict[str, Any]:
    return {"stage": stage, "name": name, "device": 0, "time_us": time // 1000}
