"""What torch's memory snapshots mean: actions, block states and version quirks, for recorder and viewer alike.

A snapshot is the dict of `torch.cuda.memory._snapshot()` (or, in old files, the bare list of its segments). Across
torch 2.0 to 2.12: events have `time_us` from 2.2; `frames` may be absent or empty; `oom` has `device_free` and no
`addr`; blocks of 2.0 have `history` and no `address`; a pending free is called `active_pending_free` or
`active_awaiting_free`; every entry not read here may come and go.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from . import plain_values as plain
from . import schema
from .interning import StackTable, StringTable
from .plain_values import Row, Run
from .problems import Problem
from .recording import Device
from .schema import Severity
from .torch_blocks import BLOCK_FIELDS, BLOCK_STATES, BlockReader
from .torch_events import ACTIONS, EVENT_FIELDS, EventReader
from .torch_stacks import StackReader

__all__ = ["ACTIONS", "BLOCK_STATES", "ENTRY_FIELDS", "TorchRecords", "is_snapshot", "read_snapshot"]

ENTRY_FIELDS = (EVENT_FIELDS, BLOCK_FIELDS)
"""The kinds of entries of which a snapshot has very many."""
_MAX_ORDINAL = 1 << 20


@dataclass
class TorchRecords:
    """The rows of a snapshot. `tables` holds events, allocator_segments, blocks and marks."""

    devices: tuple[Device, ...]
    tables: dict[str, schema.Table]
    settings: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    has_time: bool = True


def is_snapshot(value: Any) -> bool:
    """Whether an object looks like a torch memory snapshot at all."""
    if type(value) is list:
        return all(type(entry) is dict and "blocks" in entry for entry in value)
    return type(value) is dict and ("segments" in value or "device_traces" in value)


def read_snapshot(
    snapshot: dict[str, Any] | list[Any],
    strings: StringTable,
    stacks: StackTable,
    project: str | None = None,
    limit: int | None = None,
) -> TorchRecords:
    """The rows of a snapshot; stacks and strings are interned into the tables given.

    Stretches of events and of blocks may be `plain_values.Run`s in place of dicts.

    With `project`, files below that folder are stored relative to it. `limit` bounds the number of events and of
    blocks: an honest file spends more than a byte on each, a made-up one can repeat one entry without end. Raises
    ValueError with the cause, as half a sentence, if an entry has a wrong type or an impossible value.
    """
    whole = snapshot if isinstance(snapshot, dict) else {"segments": snapshot}
    bound = math.inf if limit is None else limit
    frames = StackReader(stacks, project, bound)
    block_reader, event_reader = BlockReader(frames, bound), EventReader(strings, frames, bound)
    segments = plain.dicts(whole.get("segments", []), "the list of segments")
    traces = event_reader.traces(whole.get("device_traces", []))
    ordinals = _ordinals(segments, traces)
    rows = {ordinal: row for row, ordinal in enumerate(ordinals)}
    segment_table, block_table = block_reader.tables(segments, rows)
    events = event_reader.events(traces, rows)
    marks = event_reader.marks(events, whole.get("external_annotations"))
    settings, has_time = plain.settings(whole.get("allocator_settings")), bool((events.time >= 0).all())
    kind = "npu" if frames.saw_npu else "cuda"
    return TorchRecords(
        devices=tuple(Device(f"{kind}:{ordinal}", ordinal) for ordinal in ordinals),
        tables={"allocator_segments": segment_table, "blocks": block_table, "events": events, "marks": marks},
        settings=settings,
        problems=[
            *_overflow(settings, whole),
            *_unknown("unknown_action", "Events with an action", event_reader.unknown_actions),
            *_unknown("unknown_block_state", "Blocks with a state", block_reader.unknown_states),
            *([] if has_time else [_NO_TIME]),
        ],
        has_time=has_time,
    )


def _ordinals(segments: list[Row], traces: list[list[Row | Run]]) -> list[int]:
    """torch's numbers of the devices that have a segment or an event."""
    used = set(plain.sizes(segments, "device", 0, "a segment").tolist())
    used |= {number for number, trace in enumerate(traces) if trace}
    if used and max(used) > _MAX_ORDINAL:
        raise ValueError("a segment has an impossible device number")
    return sorted(used)


_NO_TIME = Problem("no_time", Severity.info, "The events carry no times: only their order is shown.")


def _overflow(settings: dict[str, Any], whole: dict[str, Any]) -> list[Problem]:
    if settings.get("trace_alloc_overflowed") is not True and whole.get("trace_alloc_overflowed") is not True:
        return []
    text = "The ring buffer of the memory history overflowed: the oldest events are lost."
    return [Problem("trace_overflowed", Severity.warning, text)]


def _unknown(code: str, what: str, seen: Counter[str]) -> list[Problem]:
    if not seen:
        return []
    names = [name if len(name) <= 40 else name[:37] + "..." for name, _ in seen.most_common(3)]
    listed = ", ".join(names) + (", ..." if len(seen) > 3 else "")
    text = f"{what} this version does not know were left out: {listed}."
    return [Problem(code, Severity.warning, text, seen.total())]
