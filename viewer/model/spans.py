"""Spans as positions of one device's events: which module ran, in which phase."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, NONE, U8, Phase

from .events import DeviceEvents
from .layers import LayerTree


@dataclass(frozen=True, eq=False)
class SpanTable:
    """The recording's spans in order of start; those that are nested come after the ones around them.

    A span holds the events start_position .. end_position - 1, so it leads from position `start_position` to position
    `end_position`.
    """

    row: I64
    """Row in the recording's spans."""
    module: I32
    """-1 for a phase of the step."""
    phase: U8
    call: I32
    layer: I32
    super_block: I32
    start_time: I64
    end_time: I64
    start_position: I64
    end_position: I64
    n_events: int

    def __len__(self) -> int:
        return len(self.row)

    def innermost(self) -> I32:
        """The innermost span of each event, -1 outside all spans."""
        return self._painted(np.arange(len(self), dtype=np.int32))

    def innermost_layer(self) -> I32:
        """The layer of the innermost span in a layer, for each event; -1 outside layers."""
        return self._painted(self.layer)

    def _painted(self, labels: I32) -> I32:
        """Spans painted over the events, outer ones first; a span with label -1 leaves what is below."""
        out = np.full(self.n_events, NONE, np.int32)
        for label, start, end in zip(labels.tolist(), self.start_position.tolist(), self.end_position.tolist()):
            if label != NONE:
                out[start:end] = label
        return out

    def phase_of_events(self) -> U8:
        """The phase of each event; `other` outside all spans."""
        inner = self.innermost()
        if len(self) == 0:
            return np.full(self.n_events, Phase.other, np.uint8)
        return np.where(inner >= 0, self.phase[inner], Phase.other).astype(np.uint8)

    def phases(self) -> list[tuple[Phase, int, int]]:
        """(phase, first position, last position) in order, without gaps, over the whole recording; [] without spans."""
        if len(self) == 0 or self.n_events == 0:
            return []
        phase = self.phase_of_events()
        edges = [0, *(np.flatnonzero(np.diff(phase)) + 1).tolist(), self.n_events]
        return [(Phase(int(phase[a])), a, b) for a, b in pairwise(edges)]

    def at(self, position: int) -> I64:
        """Rows of this table that hold the event which led to this position, outermost first."""
        return np.flatnonzero((self.start_position < position) & (position <= self.end_position))

    def step(self) -> tuple[int, int]:
        """Positions between which the recorded step ran: its phases, or its modules, or (0, 0) without spans."""
        rows = np.flatnonzero(self.module == NONE)
        rows = rows if len(rows) else np.arange(len(self))
        if len(rows) == 0:
            return 0, 0
        return int(self.start_position[rows].min()), int(self.end_position[rows].max())


def span_table(recording: Recording, events: DeviceEvents, layers: LayerTree) -> SpanTable:
    """The spans among the events of one device."""
    spans = recording.spans
    order = np.lexsort((-spans.end_time, spans.start_time))
    layer = layers.layer_of(spans.module[order])
    return SpanTable(
        row=order.astype(np.int64),
        module=spans.module[order],
        phase=spans.phase[order],
        call=spans.call[order],
        layer=layer,
        super_block=layers.super_block_of(layer),
        start_time=spans.start_time[order],
        end_time=spans.end_time[order],
        start_position=events.before_tick(spans.start_time[order]),
        end_position=events.started(spans.end_time[order]),
        n_events=len(events),
    )
