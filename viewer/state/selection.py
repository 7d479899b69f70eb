"""Words for what is selected: a query, an allocation, a position."""

from __future__ import annotations

from ..analysis.place import place_of, super_block_text
from ..look import words
from ..look.units import bytes_text, count_text, difference_text, exact_bytes_text, seconds_text
from ..model.query import ACTIVATIONS, AllocationQuery
from ..model.run import Run
from ..model.step_positions import step_positions
from .run_tables import born_text, freed_text, module_text, moment_text, what_text
from .view_state import RunView
from .within import WITHIN, within_of


def describe(run: Run, query: AllocationQuery | None) -> str:
    """`activations, layers.3`; empty where the query restricts nothing."""
    if query is None:
        return ""
    parts = []
    if query.categories is not None:
        kept = query.categories == ACTIVATIONS
        parts.append("activations" if kept else ", ".join(words.category_text(c) for c in sorted(query.categories)))
    if query.category is not None:
        parts.append(words.category_text(query.category))
    if query.layer is not None:
        parts.append(run.layers.labels[query.layer] if query.layer >= 0 else words.OUTSIDE_LAYERS)
    if query.super_block is not None:
        parts.append(super_block_text(run, query.super_block) if query.super_block >= 0 else words.OUTSIDE_LAYERS)
    if query.phase is not None:
        parts.append(f"born in {words.phase_text(query.phase)}")
    if query.before is not None:
        parts.append("older than the recording" if query.before else "made in the recording")
    if query.group is not None:
        parts.append(run.grouping(query.group[0]).names[query.group[1]])
    if query.groups is not None:
        parts.append(count_text(len(query.groups[1]), "other group"))
    if query.born is not None:
        parts.append(f"made by events {count_text(query.born[0])} to {count_text(query.born[1])}")
    return ", ".join(parts)


def shown_text(run: Run, view: RunView) -> tuple[str, str]:
    """What the tables show: ` of activations matching "mlp"` to follow an amount, and `alive at the cursor`."""
    what = describe(run, view.query)
    matching = f' matching "{view.filter}"' if view.filter else ""
    of = f" of {what}" if what else ""
    when = WITHIN[within_of(view)] if "timeline" in run.capabilities else "alive when the file was written"
    return of + matching, when


def between(run: Run, view: RunView) -> str:
    """`Mark to cursor: +12.0 MiB in 34.5 ms, 210 events`; empty without a mark."""
    if view.mark is None:
        return ""
    difference = int(run.curve[view.cursor]) - int(run.curve[view.mark])
    time = ""
    if run.has_times:
        time = f" in {seconds_text(abs(run.time_of(view.cursor) - run.time_of(view.mark)))}"
    return f"Mark to cursor: {difference_text(difference)}{time}, {count_text(abs(view.cursor - view.mark), 'event')}"


def moment(run: Run, position: int) -> str:
    """`751 MiB at 0.412 s, event 987 of 6,228, backward of super-block 2`."""
    where = place_of(run, position).text
    time = f" at {moment_text(run, position)}" if run.has_times else ""
    event = f", event {count_text(position - 1)} of {count_text(run.n_events)}" if position else ", at the start"
    return (
        f"{bytes_text(int(run.curve[position]))}{time}{event}{step_text(run, position)}{', ' + where if where else ''}"
    )


def step_text(run: Run, position: int) -> str:
    """`, step 2 of 3 (inferred)`; empty outside steps, and where there are not several."""
    steps = run.once(step_positions)
    inside = [number for number, (first, last) in enumerate(steps, 1) if first < position <= last]
    if len(steps) < 2 or not inside:
        return ""
    return f", step {inside[0]} of {len(steps)}{' (inferred)' if run.inferred is not None else ''}"


def allocation_lines(run: Run, row: int) -> tuple[str, str]:
    """What an allocation is, and where and when it lives."""
    size = int(run.allocations.bytes[row])
    how = " (inferred)" if run.attribution.inferred[row] else ""
    category = words.category_text(int(run.attribution.category[row])) + how
    what = what_text(run, row)
    first = f"{bytes_text(size)} ({exact_bytes_text(size)}), {category}{': ' + what if what else ''}"
    module = module_text(run, int(run.attribution.module[row]))
    second = f"{module + '; ' if module else ''}allocated {born_text(run, row)}, freed {freed_text(run, row)}"
    if "timeline" in run.capabilities:
        second += " (the bar at the foot of the bands)"
    return first, second
