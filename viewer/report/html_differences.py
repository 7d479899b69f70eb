"""What two runs differ in, as sections of a page: figures, the steps between peaks, tables of groups, what changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memstrata.capture.format.schema import Category

from ..analysis.all_runs import RunFigures, figures_of
from ..analysis.changes import Change, Fared
from ..analysis.comparison import is_saving, when_text
from ..analysis.diff import Diff, DiffRow, SlotRow
from ..analysis.grouped import CHANGE, first_grouping, rows_by, shared_groupings
from ..analysis.stack_diff import TOP, StackDiff
from ..analysis.waterfall import waterfall
from ..look.units import count_text, difference_text, percent_text, seconds_text
from ..look.words import category_of
from .html_page import (
    bars_html,
    category_html,
    difference_html,
    frames_html,
    section_html,
    size_html,
    table_html,
)
from .layout import markup
from .steps_text import rate_text

CHANGES = 60
"""Changes that get a row of their own; the others are summed up."""
ROWS = 40
"""Groups of a table that get a row of their own."""
LEAST_SHARE = 0.005
"""Of the higher peak, what a node of the tree of stacks must hold or differ by to be listed."""
DEEPEST = 60
CUTS = ("category", "super_block", "layer", "frame", "op")
"""Groupings that have a table, where both runs have them. What things are is in the table of changes."""


@dataclass(frozen=True)
class Names:
    """What two runs are called: `letters` in sentences, `a` and `b` in heads of columns."""

    a: str
    b: str
    letters: tuple[str, str] = ("A", "B")

    @property
    def heads(self) -> tuple[str, str, str]:
        """Of the columns of both, and of what b has more."""
        return self.a, self.b, " - ".join(reversed(self.letters))


def figures_html(diff: Diff, names: Names, level: int) -> list[str]:
    """The figures of both runs side by side, with what b has more."""
    one, two = figures_of(diff.a), figures_of(diff.b)
    rows: list[tuple[str, ...]] = []
    for title, field in (
        (_peak_word(diff), "peak_bytes"),
        ("activations at most", "activation_bytes"), ("communication at most", "communication_bytes"),
        ("reserved at most", "reserved_bytes"), ("reserved and unused at the end", "unused_bytes"),
    ):  # fmt: skip
        a, b = getattr(one, field), getattr(two, field)
        if a is not None or b is not None:
            change = None if a is None or b is None else b - a
            share = f"{(b / a - 1) * 100:+.1f}%" if a and b is not None else ""
            rows.append((title, size_html(a, "unknown"), size_html(b, "unknown"), difference_html(change), share))
    rows += _speed(one, two)
    head = ("", *names.heads, "")
    return section_html("Both runs", table_html(head, rows), level=level)


def _peak_word(diff: Diff) -> str:
    words = {"at the peaks": "peak", "at the end": "active at the end"}
    return words.get(when_text(diff), "peak, or active at the end")


def _speed(one: RunFigures, two: RunFigures) -> list[tuple[str, ...]]:
    rows = []
    for title, a, b, text in (
        ("unrecorded step, median", one.step_seconds, two.step_seconds, seconds_text),
        ("throughput, unrecorded", one.tokens_per_second, two.tokens_per_second, rate_text),
    ):
        if a or b:
            said = ("unknown" if value is None else text(value) for value in (a, b))
            change = "" if not (a and b) else f"+{text(b - a)}" if b > a else text(b - a)
            rows.append((title, *said, change, f"{(b / a - 1) * 100:+.1f}%" if a and b else ""))
    return rows


def waterfall_html(diff: Diff, names: Names, level: int) -> list[str]:
    """What leads from the peak of a to that of b: each step begins where the one before ended."""
    key = first_grouping(diff)
    rows = rows_by(diff, key)
    fall = waterfall(rows)
    if not fall.steps:
        return []
    top = fall.highest or 1
    cells = [(markup(names.a), bars_html([("r0", 0, fall.a_bytes, names.a)], 0, top), "", size_html(fall.a_bytes))]
    for step in fall.steps:
        number = None if step.row is None else _category(diff, key, rows, step.row)
        kind = "rest" if number is None else f"c{number}"
        tip = f"{step.label} {difference_text(step.difference_bytes)}"
        bar = bars_html([(kind, step.start_bytes, step.end_bytes, tip)], 0, top)
        name = f'<i class="{kind}"></i>{markup(step.label)}'
        cells.append((name, bar, difference_html(step.difference_bytes), size_html(step.end_bytes)))
    cells.append((markup(names.b), bars_html([("r1", 0, fall.b_bytes, names.b)], 0, top), "", size_html(fall.b_bytes)))
    title = f"From {' to '.join(names.letters)}, {when_text(diff)}"
    return section_html(title, table_html(("", "", names.heads[2], "then"), cells, bar=1), level=level)


def _category(diff: Diff, key: str, rows: Sequence[DiffRow], row: int) -> int:
    """The category of a row where groups are categories or things."""
    if key == CHANGE:
        return int(diff.changes[row].thing.category)
    return int(category_of(rows[row].category or rows[row].label))


def groups_html(diff: Diff, names: Names, level: int) -> list[str]:
    """A table for each way to cut both peaks, the largest difference first."""
    titles = shared_groupings(diff)
    out = []
    for key in CUTS:
        if key in titles and (rows := rows_by(diff, key)):
            when = "each at its own peak" if when_text(diff) == "at the peaks" else when_text(diff)
            body = difference_table(titles[key], rows, names, key == "category")
            out += section_html(f"By {titles[key]}, {when}", body, level=level)
    return out


def difference_table(title: str, rows: Sequence[DiffRow], names: Names, of_categories: bool = False) -> str:
    """The rows with bars, and their sum, which is the difference of the peaks."""
    shown = sorted(rows, key=lambda row: (-abs(row.difference_bytes), -row.a_bytes))
    most = max((abs(row.difference_bytes) for row in rows), default=0) or 1
    cells = []
    for row in shown[:ROWS]:
        name = category_html(category_of(row.category), row.label) if of_categories and row.category else None
        cells.append((name or markup(row.label), *_three(row.a_bytes, row.b_bytes), _bar(row.difference_bytes, most)))
    rest = shown[ROWS:]
    if rest:
        sums = sum(row.a_bytes for row in rest), sum(row.b_bytes for row in rest)
        cells.append((f"other ({count_text(len(rest))})", *_three(*sums), _bar(sums[1] - sums[0], most)))
    cells.append(("all active", *_three(sum(row.a_bytes for row in rows), sum(row.b_bytes for row in rows)), ""))
    return table_html((title, *names.heads, ""), cells, sums=1, bar=4)


def _three(a: int, b: int) -> tuple[str, str, str]:
    return size_html(a), size_html(b), difference_html(b - a)


def _bar(difference: int, most: int) -> str:
    """To the left for less, to the right for more."""
    said = f"{difference_text(difference)}"
    return bars_html([("less" if difference < 0 else "more", 0, difference, said)] if difference else [], -most, most)


def changes_html(diff: Diff, names: Names, level: int) -> list[str]:
    """What appeared, disappeared, grew, shrank or moved, closing exactly."""
    found = [change for change in diff.changes if change.fared is not Fared.SAME]
    rows = [
        (_what(c), c.fared.value, f"{len(c.a_rows):,} → {len(c.b_rows):,}", *_three(c.a_bytes, c.b_bytes))
        for c in found[:CHANGES]
    ]
    if rest := found[CHANGES:]:
        sums = sum(c.a_bytes for c in rest), sum(c.b_bytes for c in rest)
        rows.append((f"other ({count_text(len(rest))})", "", "", *_three(*sums)))
    same = [change for change in diff.changes if change.fared is Fared.SAME]
    if rows and same:
        sums = sum(c.a_bytes for c in same), sum(c.b_bytes for c in same)
        rows.append((f"the same in both ({count_text(len(same))})", "same", "", *_three(*sums)))
    if rows:
        sums = sum(c.a_bytes for c in diff.changes), sum(c.b_bytes for c in diff.changes)
        rows.append(("all active", "", "", *_three(*sums)))
    table = table_html(("what", "", "allocations", *names.heads), rows, left=(1,), sums=1)
    return section_html(f"What appeared, disappeared, grew or shrank {when_text(diff)}", table, level=level)


def _what(change: Change) -> str:
    """The thing, in the colour of its category; the layers it is in unfold where there are several."""
    category = change.thing.category
    said = change.text if category == Category.unattributed else f"{change.text} ({category.label})"
    name = category_html(category, said)
    if len(change.layers) < 2:
        return name
    return f"<details><summary>{name}</summary>{markup(', '.join(change.layers))}</details>"


def savings_html(diff: Diff, names: Names, level: int) -> list[str]:
    """What b needs less than a, as shapes said and as was measured; nothing where activations are not known."""
    achieved, predicted = diff.achieved_saving_bytes, diff.predicted_saving_bytes
    if achieved is None:
        return []
    a, b = names.letters
    rows = [(f"achieved: activation peak of {a} minus that of {b}", size_html(achieved))]
    if predicted is not None:
        rows.insert(0, ("predicted by shapes under the plans in force", size_html(predicted)))
        rows.append(("achieved minus predicted", difference_html(achieved - predicted)))
        rows += [(f"&emsp;{markup(label)}", difference_html(size)) for label, size in diff.saving_beyond_prediction]
    rows.append((f"whole-step peak of {a} minus that of {b}", size_html(diff.achieved_peak_drop_bytes)))
    if diff.counted_twice_bytes:
        rows.append(
            (f"the running segment's input of {b}, which shapes count twice", size_html(diff.counted_twice_bytes))
        )
    planned = ""
    if diff.planned is not None:
        planned = f'<p title="{markup(diff.planned.exact_text)}">{markup(diff.planned.text)}.</p>'
    title = "Saving" if is_saving(diff) else f"Saving, {a} minus {b}"
    return section_html(title, table_html(("", "bytes"), rows), planned, level=level)


def stacks_html(diff: Diff, names: Names, level: int) -> list[str]:
    """Who called what is alive at the peaks, in both runs: unfolded along what bears most of the difference."""
    if not any("stacks" in run.capabilities for run in (diff.a, diff.b)):
        return []
    tree = StackDiff(diff.a, diff.b, diff.filter)
    least = LEAST_SHARE * max(tree.nodes[TOP].bytes)
    path = set(tree.telling_path())
    nodes = "".join(_node(tree, child, least, path) for child in tree.nodes[TOP].children)
    note = (
        f"{names.heads[2]}, then {names.a} and {names.b}. Outermost of the user's frames first; what holds and differs"
        f" by less than {percent_text(LEAST_SHARE)} of the higher peak is left out."
    )
    body = (f'<p class="dim">{markup(note)}</p>', f'<div class="tree">{nodes}</div>') if nodes else ("",)
    return section_html(f"By stack, {when_text(diff)}", *body, level=level)


def _node(tree: StackDiff, number: int, least: float, path: set[int], depth: int = 0) -> str:
    """A node and what is below it; a row of frames that share all their bytes is one."""
    node, names = tree.nodes[number], [tree.nodes[number].name]
    if max(node.bytes) < least and abs(node.difference_bytes) < least:
        return ""
    while len(node.children) == 1 and tree.nodes[node.children[0]].bytes == node.bytes:
        number = node.children[0]
        node = tree.nodes[number]
        names.append(node.name)
    a, b = node.bytes
    sizes = f"<b>{difference_html(b - a)}</b> ({size_html(a)} → {size_html(b)})"
    below = [_node(tree, child, least, path, depth + 1) for child in node.children] if depth < DEEPEST else []
    frames = frames_html(names)
    if not any(below):
        return f"<div>{sizes}{frames}</div>"
    unfolded = " open" if number in path else ""
    return f"<details{unfolded}><summary>{sizes}{frames}</summary>{''.join(below)}</details>"


def slots_html(diff: Diff, names: Names, level: int) -> list[str]:
    """The most bytes alive while each super-block, and while each layer, ran in each phase."""
    by_block = _slot_table(diff.by_super_block_slot, names)
    by_layer = _slot_table(diff.by_layer_slot, names)
    if by_layer:
        by_layer = f"<details><summary>By phase and layer</summary>{by_layer}</details>"
    return section_html("By phase and super-block: most bytes alive meanwhile", by_block, by_layer, level=level)


def _slot_table(rows: Sequence[SlotRow], names: Names) -> str:
    most = max((abs(row.difference_bytes or 0) for row in rows), default=0) or 1
    cells = [
        (markup(row.slot.label), size_html(row.a.bytes if row.a else None), size_html(row.b.bytes if row.b else None),
         difference_html(row.difference_bytes), _bar(row.difference_bytes or 0, most))
        for row in rows
    ]  # fmt: skip
    return table_html(("", *names.heads, ""), cells, bar=4)
