"""The table of saved tensors: its columns, and which rows the selection, the filter and the range leave."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from memstrata.capture.format.schema import F64, I64, NONE, Phase

from ..look import words
from ..look.units import bytes_text, count_text, exact_bytes_text, seconds_text
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.saved_lives import saved_lives
from .array_table import Column
from .run_tables import module_text
from .selection import shown_text
from .view_state import RunView
from .within import CURSOR, shown_query, within_of


def saved_columns(run: Run) -> list[Column]:
    """What autograd packed for backward, one row for each time."""
    table, strings = run.recording.saved_tensors, run.recording.strings
    phases = [words.phase_text(phase) for phase in Phase]
    kept = run.once(saved_lives).kept
    return [
        Column(
            "storage", table.storage_bytes, lambda i: bytes_text(int(table.storage_bytes[i])),
            lambda i: exact_bytes_text(int(table.storage_bytes[i])), True,
            meaning="bytes of the whole storage that the tensor keeps alive",
        ),
        Column("fate", table.fate, lambda i: words.fate_text(int(table.fate[i]))),
        Column("module", table.module, lambda i: module_text(run, int(table.module[i]))),
        Column("made by", table.op, lambda i: strings[int(table.op[i])].removesuffix("Backward0")),
        Column("shape", table.tensor_bytes, lambda i: strings[int(table.shape[i])].replace(",", " x ")),
        Column("dtype", table.dtype, lambda i: strings[int(table.dtype[i])]),
        Column("packed in", table.phase, lambda i: phases[int(table.phase[i])]),
        Column(
            "kept for", np.nan_to_num(kept, nan=-1.0, posinf=np.inf), lambda i: kept_text(run, kept, i), right=True,
            meaning="from packing until its storage was freed",
            seconds=(lambda i: float(kept[i]) if np.isfinite(kept[i]) else None) if run.has_times else None,
        ),
    ]  # fmt: skip


def kept_text(run: Run, kept: F64, row: int) -> str:
    """`412 ms`, `31 events` where there are no times, `to the end`, or `unknown`."""
    if np.isnan(kept[row]):
        return "unknown"
    if np.isinf(kept[row]):
        return "to the end"
    return seconds_text(float(kept[row])) if run.has_times else count_text(int(kept[row]), "event")


def restriction(view: RunView) -> AllocationQuery | None:
    """What the table is cut to; None where it lists the whole step. The cursor alone cuts nothing: most of what was
    saved is gone wherever it stands."""
    query = shown_query(view)
    if within_of(view) == CURSOR:
        query = replace(query, position=None)
    return None if query == AllocationQuery() else query


def saved_shown(run: Run, view: RunView) -> I64 | None:
    """Rows of saved_tensors whose storage is among the allocations shown; None for all."""
    query = restriction(view)
    if query is None:
        return None
    allocation = run.once(saved_lives).allocation
    mask = np.append(query.mask(run), False)  # an unknown allocation, -1, is none of them
    return np.flatnonzero(mask[allocation])


def saved_text(run: Run, view: RunView) -> tuple[str, int]:
    """`1,204 saved tensors in 640 storages, 633 MiB together`, and the bytes: each storage counts once."""
    table, rows = run.recording.saved_tensors, saved_shown(run, view)
    chosen = np.arange(len(table)) if rows is None else rows
    known = chosen[table.storage[chosen] != NONE]
    storages, first = np.unique(table.storage[known], return_index=True)
    total = int(table.storage_bytes[known][first].sum())
    amount = count_text(len(chosen), "saved tensor")
    if rows is None:
        return f"{amount} in {count_text(len(storages), 'storage')}, {bytes_text(total)} together", total
    of, when = shown_text(run, view)
    when = "" if within_of(view) == CURSOR else f", {when}"
    return f"{amount} of {count_text(len(table))}{of}{when}; their storages: {bytes_text(total)}", total
