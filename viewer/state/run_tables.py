"""The columns of a run's tables: groups, allocations, frames of a stack, problems."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.schema import I64, NONE, Category, Fate, Severity

from ..look import words
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text, exact_lines, seconds_text
from ..model import stacks
from ..model.bands import Bands
from ..model.query import AllocationQuery
from ..model.run import Run
from .array_table import Column


def group_columns(
    bands: Bands, cursor: int, mark: int | None = None, filter: str = "", span: AllocationQuery | None = None
) -> tuple[list[Column], I64]:
    """The legend: each group with its bytes at the cursor and at the peak or, with a mark, what it gained from there
    to the cursor; of a range, which `span` asks for, what lies in it. Only what matches the filter counts; groups that
    never show are left out."""
    run, names = bands.run, bands.grouping.names
    here, peak = (bands.matching_at(place, filter) for place in (cursor, run.peak_position))
    most = max(int(peak.max(initial=0)), int(here.max(initial=0)), 1)
    columns = [
        Column(bands.grouping.title, _ranks(names), lambda i: names[i], swatch=True),
        _bytes_column("at cursor", here, "alive at the cursor", here / most),
        _bytes_column("at peak", peak, "alive at the peak of the whole step", peak / most),
    ]
    if mark is not None:
        columns[-1] = _gained_column(here - bands.matching_at(mark, filter))
    if span is not None:
        inside = bands.bytes_of(span)
        columns[1] = _bytes_column("in range", inside, "what the tables show", inside / max(int(inside.max()), 1))
    rows = np.flatnonzero(bands.highest > 0)
    return columns, rows[np.argsort(-peak[rows], kind="stable")]


def allocation_columns(bands: Bands) -> list[Column]:
    """Every allocation: bytes, its band, what it is, where it belongs, which frame made it, when it lives. Columns
    that the run cannot fill are left out."""
    run, grouping = bands.run, bands.grouping
    allocations, attribution = run.allocations, run.attribution
    full = run.grouping(grouping.key)
    largest = max(int(allocations.bytes.max(initial=0)), 1)
    columns = [
        _bytes_column("bytes", allocations.bytes, "requested bytes", allocations.bytes / largest),
        Column(full.title, _ranks(full.names)[full.labels], lambda i: full.names[full.labels[i]], swatch=True),
    ]
    recorded = run.capabilities & {"known_storages", "saved_tensors"}
    if recorded or attribution.inferred.any():
        if grouping.key != "category":
            columns.append(Column("category", _category_ranks()[attribution.category], lambda i: _category(run, i)))
    if recorded:
        columns.append(Column("what", _what_keys(run), lambda i: what_text(run, i)))
    if "layers" in run.capabilities:
        columns.append(Column("module", attribution.module, lambda i: module_text(run, int(attribution.module[i]))))
    if "stacks" in run.capabilities and grouping.key != "frame":
        frames = run.grouping("frame")
        columns.append(Column("made in", _ranks(frames.names)[frames.labels], lambda i: frames.names[frames.labels[i]]))
    if "timeline" in run.capabilities:
        born = _seconds(run, allocations.start, ~allocations.before)
        freed = _seconds(run, allocations.end, allocations.end <= run.n_events)
        columns += [
            Column("allocated", allocations.start, lambda i: born_text(run, i), right=True, seconds=born),
            Column("freed", allocations.end, lambda i: freed_text(run, i), right=True, seconds=freed),
        ]
    return columns


def stack_columns(run: Run, stack: int) -> list[Column]:
    """The frames of one stack, innermost first; frames of libraries and C++ are quiet."""
    rows = _frame_rows(run, stack)
    frames = run.recording.stack_frames(stack)
    quiet = stacks.frame_ranks(run.recording)[rows] < stacks.RELATIVE if len(rows) else np.zeros(0, np.bool_)
    order = np.arange(len(frames))
    return [
        Column("function, innermost first", order, lambda i: frames[i][0], faint=quiet),
        Column("file", order, lambda i: _place(frames[i]), faint=quiet),
    ]


def problem_columns(run: Run) -> list[Column]:
    """What the recording, or the reading of it, could not see."""
    found = run.problems
    return [
        Column("severity", np.array([p.severity for p in found], np.int64), lambda i: Severity(found[i].severity).name),
        Column("count", np.array([p.count for p in found], np.int64), lambda i: count_text(found[i].count), right=True),
        Column(
            "what",
            np.arange(len(found)),
            lambda i: found[i].text,
            lambda i: "\n".join([found[i].text, *exact_lines(found[i].sizes)]),
        ),
    ]


_PLAIN = (Fate.kept, Fate.rematerialized)  # the category says these already


def what_text(run: Run, row: int) -> str:
    """The name of the known storage or saved tensor that an allocation is; empty where nothing names it."""
    strings, recording = run.recording.strings, run.recording
    known, saved = int(run.attribution.known[row]), int(run.attribution.saved[row])
    if known != NONE:
        return strings[int(recording.known_storages.name[known])]
    if saved == NONE:
        return ""
    table = recording.saved_tensors
    op = strings[int(table.op[saved])].removesuffix("Backward0")
    fate = "" if table.fate[saved] in _PLAIN else f", {words.fate_text(int(table.fate[saved]))}"
    return f"{op} [{strings[int(table.shape[saved])].replace(',', ' x ')}]{fate}"


def module_text(run: Run, module: int) -> str:
    """The path of a module; empty for none."""
    return run.recording.strings[int(run.recording.modules.path[module])] if module >= 0 else ""


def moment_text(run: Run, position: int) -> str:
    """`412 ms` after the first event, or the number of the event where there is no time."""
    return seconds_text(run.time_of(position)) if run.has_times else f"event {count_text(position - 1)}"


def born_text(run: Run, row: int) -> str:
    """When an allocation was made."""
    return "before" if run.allocations.before[row] else moment_text(run, int(run.allocations.start[row]))


def freed_text(run: Run, row: int) -> str:
    """When an allocation was freed."""
    end = int(run.allocations.end[row])
    return "never" if end > run.n_events else moment_text(run, end)


def _seconds(run: Run, positions: I64, known: NDArray[np.bool_]) -> Callable[[int], float | None] | None:
    """Seconds from the first event to the position of each row, where it is in the file; None without times."""
    return (lambda i: run.time_of(int(positions[i])) if known[i] else None) if run.has_times else None


def _category(run: Run, row: int) -> str:
    how = " (inferred)" if run.attribution.inferred[row] else ""
    return words.category_text(int(run.attribution.category[row])) + how


def _bytes_column(title: str, sizes: I64, meaning: str, share: object = None) -> Column:
    shares = None if share is None else np.asarray(share, np.float64)
    return Column(
        title, sizes, lambda i: bytes_text(int(sizes[i])), lambda i: exact_bytes_text(int(sizes[i])), True, shares,
        meaning=meaning,
    )  # fmt: skip


def _gained_column(gained: I64) -> Column:
    return Column(
        "since mark", gained, lambda i: difference_text(int(gained[i])),
        lambda i: exact_bytes_text(int(gained[i])), True,
        meaning="bytes at the cursor minus bytes at the mark",
    )  # fmt: skip


def _ranks(names: tuple[str, ...]) -> I64:
    """For each name its place in alphabetical order, equal names alike."""
    return np.unique(np.array(names, object), return_inverse=True)[1].astype(np.int64)


def _category_ranks() -> I64:
    return _ranks(tuple(category.label for category in Category))


def _what_keys(run: Run) -> I64:
    """Named storages first, in the order of their table, then saved tensors in theirs, then the rest."""
    known, saved = run.attribution.known, run.attribution.saved
    named, kept = len(run.recording.known_storages), len(run.recording.saved_tensors)
    keys: I64 = np.where(known >= 0, known, np.where(saved >= 0, named + saved, named + kept)).astype(np.int64)
    return keys


def _frame_rows(run: Run, stack: int) -> list[int]:
    rows, table = [], run.recording.stacks
    while stack >= 0:
        rows.append(int(table.frame[stack]))
        stack = int(table.parent[stack])
    return rows


def _place(frame: tuple[str, str, int]) -> str:
    return f"{frame[1]}:{frame[2]}" if frame[2] > 0 else frame[1]
