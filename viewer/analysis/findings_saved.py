"""Findings about what autograd holds: kept twice, kept too long, kept for nothing, made again in vain."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memstrata.capture.format.schema import B1, I64, NONE, Category, Fate, Phase

from ..look.units import bytes_text, count_text
from ..model.cut_off import cut_off_position
from ..model.matching import Matcher
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from .finding import Finding, bytes_of, highest, of_rows
from .shape import plan_in_force

OVERLAP = 0.10
"""Share of a segment's bytes still there when the next one is made again, above which two are called alive at once."""
SMALL_VIEW = 0.5
"""Share of a storage that its saved tensors show, below which most of it is kept for nothing."""
NO_HELP = 0.9
"""Share of what forward would have kept without checkpoints, from which on the recomputation reaches as high."""


@dataclass(frozen=True, eq=False)
class _Saved:
    """The saved tensors that are no known storage and were found among the allocations; `row` is the allocation."""

    index: I64
    row: I64

    def rows(self, chosen: B1) -> I64:
        """The distinct allocations of the chosen ones."""
        return np.unique(self.row[chosen])


def _saved(run: Run) -> _Saved:
    table = run.recording.saved_tensors
    index = np.flatnonzero((table.address != 0) & (table.known == NONE) & (table.storage != NONE))
    row = Matcher(run.events, run.allocations).alive(table.address[index], table.time[index])
    return _Saved(index[row >= 0], row[row >= 0])


def _of_segments(run: Run, saved: _Saved) -> B1:
    """Whether each is of a storage that a checkpointed segment saved too: what the segment starts from."""
    table = run.recording.saved_tensors
    inside: B1 = np.isin(table.storage[saved.index], table.storage[table.checkpoint != NONE])
    return inside


def _backward_end(run: Run) -> int | None:
    rows = np.flatnonzero((run.spans.phase == Phase.backward) & (run.spans.module == NONE))
    return int(run.spans.end_position[rows].max()) if len(rows) else None


def _of_whole_steps(run: Run, rows: I64) -> I64:
    """Those of these allocations that were not made in a step that an error cut off: its backward did not get so far
    as to use them, and whatever holds them goes with the step."""
    cut = cut_off_position(run.recording, run.events)
    return rows if cut is None else rows[run.allocations.start[rows] <= cut]


def kept_beside_boundaries(run: Run) -> Finding | None:
    """Work between the segments saves the hidden state once more than the boundary does."""
    table, plan = run.recording.saved_tensors, plan_in_force(run)
    if len(plan.segments) < 2:
        return None
    saved = _saved(run)
    kept = (table.fate[saved.index] == Fate.kept) & (table.phase[saved.index] == Phase.forward)
    boundary = kept & _of_segments(run, saved)
    if not boundary.any():
        return None
    boundaries = saved.rows(boundary)
    between = _between_segments(run, boundaries)
    sizes = np.unique(run.allocations.bytes[boundaries])
    rows = np.setdiff1d(saved.rows(kept & ~boundary), boundaries)
    rows = rows[np.isin(run.allocations.bytes[rows], sizes) & between[rows]]
    if 2 * len(rows) < len(boundaries):
        return None
    size = bytes_of(run, rows)
    return Finding(
        "boundary_kept_twice", size,
        f"{count_text(len(rows), 'hidden state')} of {bytes_text(size)} together are kept beside the"
        f" {count_text(len(boundaries), 'segment input')}: something between the segments saves them.",
        "Move what runs between the segments (a norm, a residual connection) into them.",
        of_rows(rows),
    )  # fmt: skip


def _between_segments(run: Run, boundaries: I64) -> B1:
    """Whether each allocation was made after the first boundary and no later than the last one."""
    start = run.allocations.start
    between: B1 = (start > start[boundaries].min()) & (start <= start[boundaries].max())
    return between


def segment_never_freed(run: Run) -> Finding | None:
    """Something still holds what a checkpoint made again when backward is over."""
    end = _backward_end(run)
    if end is None:
        return None
    again = run.attribution.category == Category.rematerialized
    rows = np.flatnonzero(again & (run.allocations.end > end) & (run.allocations.start <= end))
    rows = _of_whole_steps(run, rows)
    size = bytes_of(run, rows)
    if not size:
        return None
    return Finding(
        "segment_never_freed", size,
        f"{bytes_text(size)} that checkpoints made again in backward is still alive when backward is over.",
        "Look for what holds on to tensors of a forward: a hook or attribute that keeps outputs, or an output of the"
        " segment that is stored but not part of the loss.",
        of_rows(rows, end),
    )  # fmt: skip


def two_segments_alive(run: Run) -> Finding | None:
    """When a segment is made again, a good part of the one before it is still there."""
    table, saved = run.recording.saved_tensors, _saved(run)
    again = table.fate[saved.index] == Fate.rematerialized
    number = table.checkpoint[saved.index]
    rows_of = {n: saved.rows(again & (number == n)) for n in np.unique(number[again & (number != NONE)]).tolist()}
    rows_of = {n: rows[run.attribution.category[rows] == Category.rematerialized] for n, rows in rows_of.items()}
    order = sorted((n for n in rows_of if len(rows_of[n])), key=lambda n: int(run.allocations.start[rows_of[n]].min()))
    held: list[int] = []
    worst = (0, 0)
    for one, two in pairwise(order):
        position = int(run.allocations.start[rows_of[two]].min())
        if int(run.allocations.start[rows_of[one]].max()) > position:
            continue  # a checkpoint inside a checkpoint
        left = rows_of[one][run.allocations.end[rows_of[one]] > position]
        size = bytes_of(run, left)
        if size > OVERLAP * bytes_of(run, rows_of[one]):
            held += left.tolist()
            worst = max(worst, (size, position))
    if not held:
        return None
    return Finding(
        "two_segments_alive", worst[0],
        f"Up to {bytes_text(worst[0])} of one segment is still alive when the next one is being made again.",
        "Look for what keeps tensors of the last segment that ran: a hook or attribute that is overwritten by the"
        " next one.",
        of_rows(sorted(set(held)), worst[1]),
    )  # fmt: skip


def view_keeps_large_storage(run: Run) -> Finding | None:
    """A small saved tensor is a view of a large storage, which lives as long as it."""
    table, saved = run.recording.saved_tensors, _saved(run)
    held = np.isin(table.fate[saved.index], (Fate.kept, Fate.rematerialized))
    rows, where = np.unique(saved.row[held], return_inverse=True)
    seen = np.zeros(len(rows), np.int64)
    np.add.at(seen, where, table.tensor_bytes[saved.index[held]])
    size = run.allocations.bytes[rows]
    wasted = np.where(seen < SMALL_VIEW * size, size - seen, 0)
    if not wasted.any():
        return None
    rows, wasted = rows[wasted > 0], wasted[wasted > 0]
    position, _ = highest(run, rows)
    alive = (run.allocations.start[rows] <= position) & (position < run.allocations.end[rows])
    total = int(wasted[alive].sum())
    return Finding(
        "view_keeps_storage", total,
        f"{bytes_text(total)} is kept only because saved views show a part of it"
        f" ({count_text(int(alive.sum()), 'storage')}).",
        "Copy the part that is needed (.clone() or .contiguous() of the slice) before it is used.",
        of_rows(rows, position),
    )  # fmt: skip


def saved_never_used(run: Run) -> Finding | None:
    """Kept for backward, and backward never asked for it."""
    if _backward_end(run) is None:
        return None
    table, saved = run.recording.saved_tensors, _saved(run)
    kept = (table.fate[saved.index] == Fate.kept) & (table.phase[saved.index] == Phase.forward)
    asked = table.unpack_time[saved.index] != NONE
    rows = _of_whole_steps(run, np.setdiff1d(saved.rows(kept & ~_of_segments(run, saved)), saved.rows(asked)))
    position, size = highest(run, rows)
    if not size:
        return None
    return Finding(
        "saved_never_used", size,
        f"{bytes_text(size)} was kept for a backward that never asked for it.",
        "Run what is not part of the loss under torch.no_grad(), or detach its input.",
        of_rows(rows, position),
    )  # fmt: skip


def recompute_above_forward(run: Run) -> Finding | None:
    """With checkpoints the activations climb in backward to what forward would have kept without them."""
    fates = run.saved_bytes_by_fate()
    unchecked = fates[Fate.kept] + fates[Fate.dropped]
    position = int(run.activation_curve.argmax())
    highest_bytes = int(run.activation_curve[position])
    if not fates[Fate.dropped] or highest_bytes < NO_HELP * unchecked:
        return None
    rows = AllocationQuery(position=position, category=Category.rematerialized).select(run)
    size = bytes_of(run, rows)
    segments = len(plan_in_force(run).segments)
    why = "one segment holds nearly all of the model" if segments < 2 else "the largest segment and the boundaries"
    why += "" if segments < 2 else " together hold as much as the model does without them"
    return Finding(
        "checkpoints_do_not_help", size,
        f"Checkpoints do not lower the activation peak: {bytes_text(highest_bytes)} in backward"
        f" against {bytes_text(unchecked)} that forward would keep, because {why}.",
        "Cut the model into several segments of whole layers; `memstrata plan` on a recording without checkpoints"
        " finds the cuts.",
        of_rows(rows, position), (highest_bytes, unchecked),
    )  # fmt: skip


def alive_after_step(run: Run) -> Finding | None:
    """Saved tensors that outlive backward and the step: something holds the graph."""
    end = run.spans.step()[1] if len(run.spans) else 0
    if _backward_end(run) is None:
        return None
    saved = np.isin(run.attribution.category, sorted(ACTIVATIONS))
    rows = _of_whole_steps(run, np.flatnonzero(saved & ~run.allocations.before & (run.allocations.end > end)))
    size = bytes_of(run, rows)
    if not size:
        return None
    return Finding(
        "alive_after_step", size,
        f"{bytes_text(size)} saved for backward is still alive when the step is over.",
        "Keep loss.detach() or loss.item() instead of the loss, and do not pass retain_graph=True to the last"
        " backward: whoever holds the graph holds these tensors.",
        of_rows(rows, end),
    )  # fmt: skip
