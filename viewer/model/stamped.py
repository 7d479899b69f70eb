"""What ran when an event happened: as the recorder stamped it on the event, else by the spans.

A stamp is written by the allocating thread itself. Spans are compared by time: the clock of a CUDA history may be some
microseconds off, and a span of one thread holds the events of all. So a stamp is believed before a span.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from memstrata.capture.format import stamps
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import I32, I64, NONE, U8, Phase

from .events import DeviceEvents
from .layers import LayerTree
from .spans import SpanTable


@dataclass(frozen=True, eq=False)
class Running:
    """One value for each event of a device."""

    module: I32
    """Row of modules, -1 none."""
    layer: I32
    """-1 outside layers."""
    phase: U8


def running(recording: Recording, events: DeviceEvents, layers: LayerTree, spans: SpanTable) -> Running:
    """The module, layer and phase in which each event happened."""
    if not len(spans) and (recording.events.metadata == NONE).all():
        return _nothing(len(events))
    module, phase = _stamped(recording, events.index)
    by_time = np.append(spans.module, np.int32(NONE))[spans.innermost()]
    return Running(
        module=np.where(module != NONE, module, by_time).astype(np.int32),
        layer=np.where(module != NONE, layers.layer_of(module), spans.innermost_layer()).astype(np.int32),
        phase=np.where(phase != NONE, phase, spans.phase_of_events()).astype(np.uint8),
    )


def _nothing(n_events: int) -> Running:
    """Nobody recorded what ran; takes no room."""
    none, other = np.int32(NONE), np.uint8(Phase.other)
    return Running(np.broadcast_to(none, n_events), np.broadcast_to(none, n_events), np.broadcast_to(other, n_events))


def _stamped(recording: Recording, index: I64) -> tuple[I32, I32]:
    """(module, phase) stamped on these rows of the events, -1 where no stamp says it."""
    texts, inverse = np.unique(recording.events.metadata[index], return_inverse=True)
    rows = _rows_of_paths(recording) if (texts != NONE).any() else {}
    module, phase = np.full(len(texts), NONE, np.int32), np.full(len(texts), NONE, np.int32)
    for number, text in enumerate(texts.tolist()):
        stamp = stamps.parse(recording.strings[text])
        if stamp.phase is not None:
            phase[number] = stamp.phase
            module[number] = rows.get(stamp.place, NONE)
    return module[inverse], phase[inverse]


def _rows_of_paths(recording: Recording) -> dict[str, int]:
    """Module rows by path; the model itself is called `.`."""
    paths = [recording.strings[int(path)] or "." for path in recording.modules.path]
    return {path: row for row, path in reversed(list(enumerate(paths)))}
