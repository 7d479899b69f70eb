"""The tables of a snapshot's dicts, entry by entry, as one would write it down: what the reader is measured against.

Frames and lists of frames are looked up by identity, as any program that reads snapshots does: without that, all takes
several times as long. Checks nothing, and knows the usual kinds of files only.
"""

from __future__ import annotations

from typing import Any

from memstrata.capture.format import schema
from memstrata.capture.format.interning import StackTable, StringTable
from memstrata.capture.format.paths import short_path
from memstrata.capture.format.torch_records import ACTIONS, BLOCK_STATES

Row = dict[str, Any]


class Plain:
    """Events, allocator segments, blocks, frames and stacks of one snapshot; each a table of the recording."""

    def __init__(self, snapshot: Any) -> None:
        self.strings = StringTable()
        self.stacks = StackTable(self.strings)
        self._frames: dict[int, int] = {}
        self._lists: dict[int, int] = {}
        self._chains: dict[tuple[int, ...], int] = {}
        whole = snapshot if isinstance(snapshot, dict) else {"segments": snapshot}
        traces = whole.get("device_traces", [])
        events = [self._event(number, event) for number, trace in enumerate(traces) for event in trace]
        if sum(map(bool, traces)) > 1:
            events.sort(key=lambda event: event[4])
        segments = [self._segment(segment) for segment in whole["segments"]]
        blocks = [self._block(i, b) for i, segment in enumerate(whole["segments"]) for b in segment["blocks"]]
        self.events = schema.from_rows(schema.Events, events)
        self.segments = schema.from_rows(schema.AllocatorSegments, segments)
        self.blocks = schema.from_rows(schema.Blocks, blocks)
        self.frames, self.tree = self.stacks.freeze()
        self.texts = self.strings.freeze()

    def _event(self, device: int, event: Row) -> tuple[Any, ...]:
        time = event.get("time_us", -1)
        return (
            ACTIONS.get(event["action"], schema.Action.unknown), device, event.get("addr", 0), event.get("size", 0),
            time * 1000 if time >= 0 else -1, self._stack(event.get("frames")), event.get("stream", 0), -1,
            self._text(event.get("user_metadata", "")), self._text(event.get("compile_context", "N/A")),
        )  # fmt: skip

    def _segment(self, segment: Row) -> tuple[Any, ...]:
        states = [(block["state"], block["size"]) for block in segment["blocks"]]
        return (
            segment["device"], segment["address"], segment["total_size"],
            sum(size for state, size in states if state == "active_allocated"),
            sum(size for state, size in states if state != "inactive"), segment["stream"],
            *segment.get("segment_pool_id", (0, 0)), segment["segment_type"] == "small",
            segment.get("is_expandable", False), self._stack(segment.get("frames")),
        )  # fmt: skip

    def _block(self, segment: int, block: Row) -> tuple[Any, ...]:
        frames = block.get("frames") or next((past["frames"] for past in block.get("history", [])), None)
        size = block["size"]
        state = BLOCK_STATES.get(block["state"], schema.BlockState.unknown)
        return segment, block.get("address", 0), size, block.get("requested_size", size), state, self._stack(frames)

    def _text(self, text: str) -> int:
        return -1 if text in ("", "N/A") else self.strings.intern(text)

    def _stack(self, frames: Any) -> int:
        if not frames:
            return -1
        row = self._lists.get(id(frames))
        if row is None:
            chain = tuple(map(id, frames))
            row = self._chains.get(chain)
            if row is None:
                row = self._chains[chain] = self.stacks.stack([self._frame(frame) for frame in reversed(frames)])
            self._lists[id(frames)] = row
        return row

    def _frame(self, frame: Row) -> int:
        row = self._frames.get(id(frame))
        if row is None:
            row = self.stacks.frame(frame["name"], short_path(frame["filename"], "\0"), frame["line"])
            self._frames[id(frame)] = row
        return row
