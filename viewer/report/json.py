"""The objects that `--json` prints: exact integers, words as in the format."""

from __future__ import annotations

from typing import Any

import numpy as np

from memstrata.capture.format.problems import Problem, merge
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Action, Fate

from ..analysis.diff import Diff, DiffRow, SlotRow
from ..analysis.structure import Measured
from ..look.words import OUTSIDE_LAYERS, fate_text
from ..model.outside import outside_allocator
from ..model.run import Run


def runs_of(recording: Recording, name: str) -> list[Run]:
    """One run for each device of a file."""
    return [Run(recording, row, name) for row in range(len(recording.meta.devices))]


def report_json(recording: Recording, name: str) -> dict[str, Any]:
    """The object for one file."""
    main = Run(recording, name=name)
    runs = [main if run.device_row == main.device_row else run for run in runs_of(recording, name)]
    out: dict[str, Any] = {
        "file": name,
        "kind": recording.meta.kind,
        "devices": [device_json(run) for run in runs],
    }
    if recording.meta.kind == "recording":
        out |= _layers_json(main)
        out["saved_tensors"] = {fate_text(fate): size for fate, size in main.saved_bytes_by_fate().items()}
    out["problems"] = [p.as_json() for p in merge(unique_problems(runs or [main]))]
    return out


def unique_problems(runs: list[Run]) -> list[Problem]:
    """The problems of all devices; those of the file, which every device repeats, once."""
    return list(dict.fromkeys(problem for run in runs for problem in run.problems))


def device_json(run: Run) -> dict[str, Any]:
    """The figures of one device, in requested bytes; reserved ones are null where no allocator reports them."""
    reserved = run.reserved
    position = run.peak_position
    outside = outside_allocator(run)
    return {
        "device": run.device.ordinal,
        "name": run.device.name,
        "baseline_bytes": run.baseline_bytes,
        "peak_bytes": run.peak_bytes,
        "peak_event": position - 1,
        "end_bytes": run.end_bytes,
        "reserved_peak_bytes": None if reserved is None else int(reserved.max()),
        "reserved_end_bytes": None if reserved is None else int(reserved[-1]),
        "outside_allocator_peak_bytes": None if outside is None else int(outside.bytes.max()),
        "events": events_by_action(run),
        "categories_at_peak": {c.label: size for c, size in run.categories_at(position).items()},
        "coverage_at_peak": run.coverage_at(position),
    }


def events_by_action(run: Run) -> dict[str, int]:
    """Events of the device by action; actions that do not occur are left out."""
    counts = np.bincount(run.events.action, minlength=len(Action)).tolist()
    return {action.name: counts[action] for action in Action if counts[action]}


def _layers_json(run: Run) -> dict[str, Any]:
    tree = run.layers
    kept = run.saved_bytes_by_layer(Fate.kept)
    again = run.saved_bytes_by_layer(Fate.rematerialized)
    at_peak = _bytes_at_peak(run, "layer")
    layers: list[dict[str, Any]] = [
        {
            "name": name,
            "kind": tree.kinds[i],
            "super_block": int(tree.super_block_of_layer[i]),
            "saved_bytes": kept.get(i, 0),
            "rematerialized_bytes": again.get(i, 0),
            "bytes_at_peak": at_peak[i],
        }
        for i, name in enumerate(tree.names)
    ]
    blocks = [
        {
            "name": block.name,
            "layers": list(tree.names[block.start : block.stop]),
            "saved_bytes": sum(layer["saved_bytes"] for layer in layers[block.start : block.stop]),
            "rematerialized_bytes": sum(layer["rematerialized_bytes"] for layer in layers[block.start : block.stop]),
            "bytes_at_peak": sum(layer["bytes_at_peak"] for layer in layers[block.start : block.stop]),
        }
        for block in tree.super_blocks
    ]
    rest = {
        "saved_bytes": kept.get(NONE, 0),
        "rematerialized_bytes": again.get(NONE, 0),
        "bytes_at_peak": at_peak[-1],
    }
    return {"layers": layers, "super_blocks": blocks, OUTSIDE_LAYERS.replace(" ", "_"): rest}


def _bytes_at_peak(run: Run, key: str) -> list[int]:
    sizes: list[int] = run.groups_at(key, [run.peak_position])[:, 0].tolist()
    return sizes


def diff_json(diff: Diff) -> dict[str, Any]:
    """The object for a comparison: differences are b minus a, savings a minus b."""
    return {
        "a": _side_json(diff.a),
        "b": _side_json(diff.b),
        "peak_difference_bytes": diff.peak_difference_bytes,
        "by_category": [{"category": row.label, **_row_json(row)} for row in diff.by_category],
        "by_super_block": [{"super_block": row.label, **_row_json(row)} for row in diff.by_super_block],
        "by_phase_and_layer": [_slot_json(row) for row in diff.by_layer_slot],
        "predicted_saving_bytes": diff.predicted_saving_bytes,
        "predicted_counted_twice_bytes": diff.counted_twice_bytes,
        "achieved_saving_bytes": diff.achieved_saving_bytes,
        "achieved_peak_drop_bytes": diff.achieved_peak_drop_bytes,
        "warnings": [warning.as_json() for warning in diff.warnings],
    }


def _side_json(run: Run) -> dict[str, Any]:
    meta = run.recording.meta
    known = "saved_tensors" in run.capabilities
    return {
        "file": run.name,
        "kind": meta.kind,
        "device": run.device.ordinal,
        "peak_bytes": run.peak_bytes,
        "peak_event": run.peak_position - 1,
        "activation_peak_bytes": int(run.activation_curve.max()) if known else None,
        "coverage_at_peak": run.coverage_at(run.peak_position),
        "loss": meta.loss,
        "step_seconds": meta.step_seconds_unrecorded,
    }


def _row_json(row: DiffRow) -> dict[str, int]:
    return {"a_bytes": row.a_bytes, "b_bytes": row.b_bytes, "difference_bytes": row.difference_bytes}


def _slot_json(row: SlotRow) -> dict[str, Any]:
    def size(measured: Measured | None) -> int | None:
        return measured.bytes if measured else None

    return {
        "phase": row.slot.phase.name,
        "layer": row.slot.unit if row.slot.unit != NONE else None,
        "label": row.slot.label,
        "a_bytes": size(row.a),
        "b_bytes": size(row.b),
        "difference_bytes": row.difference_bytes,
    }
