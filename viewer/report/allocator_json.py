"""What `memstrata allocator --json` prints: exact integers; null where a figure does not exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from memstrata.capture.format.recording import Recording

from ..analysis.allocator.answer import Answer, Question
from ..analysis.allocator.fragmentation import Fragmentation
from ..analysis.allocator.oom import Oom
from ..analysis.allocator.verified import EVIDENCE
from ..model.curves import columns
from .json import runs_of

POINTS = 256
PINNED = 50


def allocator_json(recording: Recording, name: str, question: Question) -> dict[str, Any]:
    """The object for one file, every device of it."""
    return {
        "file": name,
        "kind": recording.meta.kind,
        "kernels": recording.meta.kernels or ("cpu" if recording.meta.source in ("cpu", "dry run") else None),
        "conf": question.conf,
        "capacity_bytes": question.capacity,
        "empty_cache_at": list(question.empty_cache_at),
        "devices": [device_json(Answer(run, question)) for run in runs_of(recording, name)],
        "verified": [{"rule": line.rule, "snapshots": list(line.snapshots)} for line in EVIDENCE],
    }


def device_json(answer: Answer) -> dict[str, Any]:
    """One device; `reserved_peak_bytes_replayed` and `oom` are those of the what-if where one was asked."""
    run = answer.run
    recorded = None if run.reserved is None else int(run.reserved.max())
    out: dict[str, Any] = {
        "device": run.device.ordinal,
        "name": run.device.name,
        "refused": answer.refusal,
        "allocations": int((run.allocations.start > 0).sum()),
        "exact_matches": None,
        "first_mismatch": None,
        "reserved_peak_bytes_recorded": recorded,
        "reserved_peak_bytes_replayed": None,
        "oom": None,
    }
    return out if answer.refusal else out | _replayed(answer)


def _replayed(answer: Answer) -> dict[str, Any]:
    checked, emptied = answer.verification, answer.retries
    ooms = [_oom_json(answer, oom) for oom in answer.ooms]
    own = answer.has_allocator
    config = answer.played.config
    return {
        "exact_matches": checked.exact_matches if own else None,
        "first_mismatch": checked.first_mismatch if own else None,
        "segment_events": checked.segment_events if own else None,
        "segment_matches": checked.segment_matches if own else None,
        "from_start": checked.recorded.from_start if own else None,
        "cache_emptied": emptied[0],
        "cache_emptied_after_failed_malloc": emptied[1],
        "reserved_peak_bytes_replayed": answer.reserved_peak_bytes,
        "config": config.text,
        "started_afresh": answer.what_if.fresh if answer.what_if else False,
        "estimate": bool(answer.estimates),
        "estimates": list(answer.estimates),
        "unverified": list(answer.unverified),
        "fragmentation": {"event": answer.peak_event, **_fragmentation_json(answer, answer.fragmentation)},
        "curve": _curve_json(answer),
        "oom": ooms[0] if ooms else None,
        "ooms": ooms,
    }


def _fragmentation_json(answer: Answer, parts: Fragmentation) -> dict[str, Any]:
    return {
        "reserved_bytes": parts.reserved_bytes,
        "allocated_bytes": parts.allocated_bytes,
        "returnable_bytes": parts.returnable_bytes,
        "private_bytes": parts.private_bytes,
        "pinned_bytes": parts.pinned_bytes,
        "largest_free_bytes": parts.largest_free_bytes,
        "free_share": parts.share,
        "mostly_free": [
            {
                "address": part.address,
                "bytes": part.bytes,
                "free_bytes": part.free_bytes,
                "returned_bytes": part.returned_bytes,
                "page": part.is_page,
                "pins": [_pin_json(answer, number) for number in part.pins[:8]],
                "pin_count": len(part.pins),
            }
            for part in parts.pinned[:PINNED]
        ],
        "mostly_free_count": len(parts.pinned),
        "sole_pins": [
            {**_pin_json(answer, number), "ranges": ranges, "returned_bytes": size}
            for number, ranges, size in parts.by_pin()[:PINNED]
        ],
    }


def _pin_json(answer: Answer, number: int) -> dict[str, Any]:
    a = answer.run.allocations
    if number >= len(a):  # a failed allocation of the recording that passes in the what-if
        return {"allocation": None, "bytes": None, "event": None, "layer": None, "frame": None}
    layer = int(answer.run.attribution.layer[number])
    return {
        "allocation": number,
        "bytes": int(a.bytes[number]),
        "event": int(a.start[number]) - 1,
        "layer": answer.run.layers.names[layer] if layer >= 0 else None,
        "frame": answer.stack_text(int(a.stack[number])),
    }


def _curve_json(answer: Answer) -> dict[str, Any]:
    """At most `POINTS` positions, where the replayed reserved bytes are highest in each stretch of the trace."""
    run, n = answer.run, answer.run.n_events
    replay = answer.played
    reserved = replay.reserved[replay.at_position(np.arange(n + 1))]
    at = columns(reserved, 0, n, POINTS).position
    return {
        "event": (at - 1).tolist(),
        "reserved_recorded": None if run.reserved is None else run.reserved[at].tolist(),
        "reserved_replayed": reserved[at].tolist(),
        "allocated_replayed": replay.allocated[replay.at_position(at)].tolist(),
        "free_share": replay.fragmentation[replay.at_position(at)].tolist(),
    }


def _oom_json(answer: Answer, oom: Oom) -> dict[str, Any]:
    frames = answer.run.recording.stack_frames(oom.stack)
    return {
        "event": oom.event,
        "where": answer.place_text(oom.event) or None,
        "frame": answer.stack_text(oom.stack),
        "stack": [f"{name} ({file}:{line})" for name, file, line in frames],
        "requested_bytes": oom.requested_bytes,
        "asked_bytes": oom.asked_bytes,
        "reserved_bytes": oom.reserved_bytes,
        "capacity_bytes": oom.capacity_bytes,
        "device_free_bytes": oom.device_free_bytes,
        "free_bytes": oom.free_bytes,
        "usable_free_bytes": oom.usable_free_bytes,
        "largest_free_bytes": oom.largest_free_bytes,
        "returnable_bytes": oom.memory.returnable_bytes,
        "pinned_bytes": oom.memory.pinned_bytes,
        "reserved_by": [{"category": name, "bytes": size} for name, size in oom.alive],
        "begins_with_bytes": oom.begins_with_bytes,
        "needed_bytes": oom.needed_bytes,
        "changes": [
            {
                "change": change.what,
                "passes": change.passes,
                "runs_out_at_event": change.runs_out_at,
                "more_bytes": change.more_bytes,
                "peak_reserved_bytes": change.peak_reserved_bytes,
                "unverified": list(change.unverified),
            }
            for change in oom.changes
        ],
    }
