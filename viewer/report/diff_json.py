"""The object that `memstrata diff --json` prints: exact integers; differences are b minus a, savings a minus b."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memstrata.capture.format.schema import NONE

from ..analysis.all_runs import figures_of
from ..analysis.changes import Change
from ..analysis.diff import Diff, DiffRow, SlotRow
from ..analysis.grouped import first_grouping, rows_by, shared_groupings
from ..analysis.structure import Measured
from ..analysis.waterfall import waterfall
from ..model.run import Run
from .plan_text import outcome_json


def diffs_json(diffs: Sequence[Diff]) -> dict[str, Any]:
    """The object for one run against one or several others: the first comparison, and `others` like it."""
    runs = [diffs[0].a, *(diff.b for diff in diffs)]
    out = diff_json(diffs[0])
    return out | {"runs": [_side_json(run) for run in runs], "others": [diff_json(diff) for diff in diffs[1:]]}


def diff_json(diff: Diff) -> dict[str, Any]:
    """The object for one comparison."""
    return {
        "a": _side_json(diff.a),
        "b": _side_json(diff.b),
        "peak_difference_bytes": diff.peak_difference_bytes,
        "by_category": _rows_json(diff, "category", "category"),
        "by_super_block": _rows_json(diff, "super_block", "super_block"),
        "by_layer": _rows_json(diff, "layer", "layer"),
        "by_first_user_frame": _rows_json(diff, "frame", "frame"),
        "by_phase_and_layer": [_slot_json(row) for row in diff.by_layer_slot],
        "waterfall": _waterfall_json(diff),
        "changes": [_change_json(change) for change in diff.changes],
        "predicted_saving_bytes": diff.predicted_saving_bytes,
        "predicted_counted_twice_bytes": diff.counted_twice_bytes,
        "achieved_saving_bytes": diff.achieved_saving_bytes,
        "achieved_peak_drop_bytes": diff.achieved_peak_drop_bytes,
        "planned_from_a": None if diff.planned is None else outcome_json(diff.planned.outcome),
        "warnings": [warning.as_json() for warning in diff.warnings],
    }


def _side_json(run: Run) -> dict[str, Any]:
    meta, figures = run.recording.meta, figures_of(run)
    return {
        "file": run.name,
        "kind": meta.kind,
        "rank": figures.rank,
        "device": run.device.ordinal,
        "peak_bytes": run.peak_bytes,
        "peak_event": run.peak_position - 1,
        "has_history": "timeline" in run.capabilities,
        "activation_peak_bytes": figures.activation_bytes,
        "reserved_peak_bytes": figures.reserved_bytes,
        "reserved_unused_end_bytes": figures.unused_bytes,
        "coverage_at_peak": run.coverage_at(run.peak_position),
        "loss": meta.loss,
        "step_seconds": meta.step_seconds_unrecorded,
        "tokens_per_second": figures.tokens_per_second,
    }


def _rows_json(diff: Diff, key: str, name: str) -> list[dict[str, Any]]:
    """Empty unless both runs can be cut so."""
    if key not in shared_groupings(diff):
        return []
    return [{name: row.category or row.label, **_row_json(row)} for row in rows_by(diff, key)]


def _row_json(row: DiffRow) -> dict[str, Any]:
    out: dict[str, Any] = {"a_bytes": row.a_bytes, "b_bytes": row.b_bytes, "difference_bytes": row.difference_bytes}
    return out | ({"inferred_in_a": row.inferred[0], "inferred_in_b": row.inferred[1]} if row.category else {})


def _waterfall_json(diff: Diff) -> dict[str, Any]:
    """Steps from the peak of a to that of b, each from where the one before ended."""
    key = first_grouping(diff)
    bars = waterfall(rows_by(diff, key))
    steps = [
        {
            "label": step.label,
            "start_bytes": step.start_bytes,
            "end_bytes": step.end_bytes,
            "difference_bytes": step.difference_bytes,
        }
        for step in bars.steps
    ]
    return {"by": key, "a_bytes": bars.a_bytes, "b_bytes": bars.b_bytes, "steps": steps}


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "change": change.fared.value,
        "category": change.thing.category.label,
        "what": change.thing.what,
        "made_at": change.thing.line or None,
        "module": change.thing.module or None,
        "layers": list(change.layers),
        "a_count": len(change.a_rows),
        "b_count": len(change.b_rows),
        "same_size_count": change.same_size,
        "a_bytes": change.a_bytes,
        "b_bytes": change.b_bytes,
        "difference_bytes": change.difference_bytes,
    }


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
