"""The objects that `--json` prints: exact integers, words as in the format."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from memstrata.capture.format.problems import Problem, merge
from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import NONE, Action, Fate

from ..analysis.findings import findings
from ..analysis.steps import throughput
from ..analysis.trust import trust_of
from ..look.words import OUTSIDE_LAYERS, fate_text
from ..model.inferred_coverage import inferred_coverage
from ..model.outside import outside_allocator
from ..model.run import Run
from .residual_text import prediction_json
from .steps_json import steps_json


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
        "source": recording.meta.source,
        "kernels": recording.meta.kernels,
        "estimates": list(recording.meta.estimates),
        "devices": [device_json(run) for run in runs],
    }
    trust = trust_of(main)
    if trust is not None:
        lost = [problem.code for problem in trust.lost]
        out["trust"] = {"lost": lost, "results_affected": trust.results_affected, "results": trust.results}
    if recording.meta.kind == "recording":
        out |= _layers_json(main)
        out["prediction"] = prediction_json(main)
        out["saved_tensors"] = {fate_text(fate): size for fate, size in main.saved_bytes_by_fate().items()}
        out["saved_in"] = _saved_in_json(main)
    out["steps"] = steps_json(main)
    out["tokens_per_second"] = throughput(recording)
    out["findings"] = [finding.as_json() for finding in findings(main)]
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
        "inferred": run.inferred is not None,
        "inferred_categories_at_peak": {c.label: size for c, size in run.inferred_categories_at(position).items()},
        "inferred_coverage_at_peak": run.inferred_coverage_at(position),
        "inferred_shares": _shares_json(run, position),
        "unattributed_at_peak": {why.name: size for why, size in run.not_inferred_at(position)},
        "inferred_steps": [list(step) for step in run.inferred.steps] if run.inferred is not None else [],
        "inferred_phases": _phases_json(run) if run.phases_inferred else [],
    }


def _shares_json(run: Run, position: int) -> dict[str, Any]:
    """How much each kind of inference covers: of the bytes at the position, and of the events."""
    found = inferred_coverage(run, position)
    return {} if found is None else asdict(found)


def _phases_json(run: Run) -> list[dict[str, Any]]:
    return [{"phase": phase.name, "first_event": a, "last_event": b - 1} for phase, a, b in run.phases]


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


def _saved_in_json(run: Run) -> dict[str, int]:
    """The pass, and its step, that `saved_bytes`, `rematerialized_bytes` and `saved_tensors` are those of; counted from
    0 among the recorded ones."""
    passes, rows = run.passes, run.passes.of_peak_step.tolist()
    return {
        "recorded_step": int(passes.step[passes.peak]),
        "recorded_steps": int(passes.step[-1]) + 1,
        "pass": rows.index(passes.peak),
        "passes": len(rows),
    }


def _bytes_at_peak(run: Run, key: str) -> list[int]:
    sizes: list[int] = run.groups_at(key, [run.peak_position])[:, 0].tolist()
    return sizes
