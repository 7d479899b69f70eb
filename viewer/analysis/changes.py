"""What appeared, disappeared, grew or shrank between two runs: the allocations alive at their peaks, matched.

An allocation has no name that lasts from run to run. Two are taken for the same thing where category, layer, module
inside the layer, and what they are agree: the name of a known storage, the operator that autograd saved, and only
where nothing names them the operator and the user's line on their stack. Lines move when code is edited: what is made
at a line that only one run has is matched with what the other makes at another line, if it is as much of the same
sizes. What is the same thing in several layers, and fared the same in all of them, is one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from memstrata.capture.format.schema import I64, NONE, Category

from ..model.query import AllocationQuery
from ..model.run import Run
from .at_peaks import alive_at_peak

NO_STACK = "no stack"
_ATEN = "aten::"
_ASKING = frozenset(
    {"empty", "empty_like", "empty_strided", "resize_", "clone", "contiguous", "copy_", "to", "_to_copy",
     "reshape"}
)  # fmt: skip
"""Operators that allocate for another one."""
_VIEWS = frozenset(
    {"View", "UnsafeView", "ReshapeAlias", "Expand", "T", "Transpose", "Permute", "Slice", "Select", "Squeeze",
     "Unsqueeze", "Alias", "Split", "AsStrided", "Clone", "ToCopy"}
)  # fmt: skip
"""What autograd calls a tensor that another operator filled."""


class Fared(Enum):
    """What became of a thing from a to b."""

    APPEARED = "appeared"
    DISAPPEARED = "disappeared"
    GREW = "grew"
    SHRANK = "shrank"
    MOVED = "moved"
    """As much of the same sizes, but made at another line."""
    SAME = "same"


class Thing(NamedTuple):
    """What makes allocations of two runs the same thing, the layer apart."""

    category: Category
    module: str
    """Path of the module inside its layer; empty for the layer itself and where none is known."""
    what: str
    """The name of a known storage, or an operator; empty where neither is known."""
    line: str = ""
    """Where it was made; empty for what has a name."""

    @property
    def text(self) -> str:
        """`exp_avg of fc.weight`, `Silu`, `mm at train.py:12 step`."""
        return " at ".join(filter(None, (self.what, self.line)))


@dataclass(frozen=True)
class Change:
    """A thing at both peaks. Rows are rows of each run's allocations."""

    fared: Fared
    thing: Thing
    layers: tuple[str, ...]
    """In these layers alike; () outside layers."""
    a_rows: tuple[int, ...]
    b_rows: tuple[int, ...]
    a_bytes: int
    b_bytes: int
    same_size: int
    """How many allocations have a partner of exactly their size in the other run."""

    @property
    def difference_bytes(self) -> int:
        """What b has more."""
        return self.b_bytes - self.a_bytes

    @property
    def text(self) -> str:
        """`Silu in mlp of 12 layers`, `exp_avg of fc.weight of layers.3`."""
        if self.thing.what == NO_STACK and self.thing.category != Category.unattributed:
            return f"{self.thing.category.label}, {NO_STACK}"
        module = self.thing.module
        inside = f" in {'module ' * module[:1].isdigit()}{module}" if module and module not in self.thing.what else ""
        of = f" of {self.layers[0]}" if len(self.layers) == 1 else f" of {len(self.layers)} layers" * bool(self.layers)
        return f"{self.thing.text}{inside}{of}"

    @property
    def queries(self) -> tuple[AllocationQuery, AllocationQuery]:
        """The allocations in each run."""
        return AllocationQuery(rows=self.a_rows), AllocationQuery(rows=self.b_rows)


Places = dict[tuple[str, Thing], list[int]]
"""Rows by layer (empty outside) and thing."""

Member = tuple[str, list[int], list[int]]
"""A layer, and the rows of each run in it."""


def changes(a: Run, b: Run, filter: str = "") -> tuple[Change, ...]:
    """Every thing alive at either peak that matches the words of a filter, the largest difference first. Without words
    all differences sum to that of the peaks."""
    one, two = _by_place(a, filter), _by_place(b, filter)
    found: dict[tuple[Fared, Thing, bool], list[Member]] = {}
    for layer, thing, a_rows, b_rows in _moved(a, b, one, two):
        found.setdefault((Fared.MOVED, thing, bool(layer)), []).append((layer, a_rows, b_rows))
    for layer, thing in dict.fromkeys([*one, *two]):
        a_rows, b_rows = one.get((layer, thing), []), two.get((layer, thing), [])
        fared = _fared(_bytes(a, a_rows), _bytes(b, b_rows), bool(a_rows), bool(b_rows))
        found.setdefault((fared, thing, bool(layer)), []).append((layer, a_rows, b_rows))
    made = [_change(a, b, fared, thing, members) for (fared, thing, _), members in found.items()]
    return tuple(sorted(made, key=lambda c: (-abs(c.difference_bytes), -c.a_bytes - c.b_bytes, c.thing.text)))


def _change(a: Run, b: Run, fared: Fared, thing: Thing, members: list[Member]) -> Change:
    a_rows = tuple(row for _, rows, _ in members for row in rows)
    b_rows = tuple(row for _, _, rows in members for row in rows)
    same = sum((_sizes(a, one) & _sizes(b, two)).total() for _, one, two in members)
    layers = tuple(layer for layer, _, _ in members if layer)
    return Change(fared, thing, layers, a_rows, b_rows, _bytes(a, a_rows), _bytes(b, b_rows), same)


def _moved(a: Run, b: Run, one: Places, two: Places) -> list[tuple[str, Thing, list[int], list[int]]]:
    """Takes out of both what is made at a line that only one of them has, where the other has its like."""
    waiting: dict[object, list[tuple[str, Thing]]] = {}
    for key in [key for key in one if key not in two and key[1].line]:
        waiting.setdefault(_likeness(a, key, one[key]), []).append(key)
    out = []
    for key in [key for key in two if key not in one and key[1].line]:
        alike = waiting.get(_likeness(b, key, two[key]))
        if alike:
            layer, thing = alike.pop(0)
            moved = thing._replace(line=f"{thing.line} → {key[1].line}")
            out.append((layer, moved, one.pop((layer, thing)), two.pop(key)))
    return out


def _likeness(run: Run, key: tuple[str, Thing], rows: list[int]) -> object:
    layer, thing = key
    return layer, thing._replace(line=""), tuple(sorted(run.allocations.bytes[rows].tolist()))


def _fared(a_bytes: int, b_bytes: int, in_a: bool, in_b: bool) -> Fared:
    if not (in_a and in_b):
        return Fared.DISAPPEARED if in_a else Fared.APPEARED
    if a_bytes == b_bytes:
        return Fared.SAME
    return Fared.GREW if b_bytes > a_bytes else Fared.SHRANK


def _sizes(run: Run, rows: list[int]) -> Counter[int]:
    return Counter(run.allocations.bytes[rows].tolist()) if rows else Counter()


def _bytes(run: Run, rows: list[int] | tuple[int, ...]) -> int:
    return int(run.allocations.bytes[list(rows)].sum()) if rows else 0


def _by_place(run: Run, filter: str) -> Places:
    """Rows alive at the peak by layer (empty outside) and thing."""
    out: Places = {}
    for rows in _alike(run, filter):
        layer = int(run.attribution.layer[rows[0]])
        name = run.layers.labels[layer] if layer != NONE else ""
        out.setdefault((name, _thing(run, int(rows[0]), name)), []).extend(rows.tolist())
    return out


def _alike(run: Run, filter: str) -> Iterator[I64]:
    """The rows alive at the peak, cut into parts that are the same thing, so that words are made once for each."""
    alive, of = alive_at_peak(run, filter), run.attribution
    if not len(alive):
        return
    part = np.zeros(len(alive), np.int64)
    stack = run.allocations.stack[alive]
    for column in (
        of.category[alive],
        of.layer[alive],
        of.module[alive],
        of.known[alive],
        _saved_op(run, alive),
        stack,
    ):
        values = column.astype(np.int64) - NONE  # from 0 on
        part = np.unique(part * (int(values.max()) + 1) + values, return_inverse=True)[1]
    order = np.argsort(part, kind="stable")
    yield from np.split(alive[order], np.flatnonzero(np.diff(part[order])) + 1)


def _saved_op(run: Run, rows: I64) -> I64:
    op = np.append(run.recording.saved_tensors.op, NONE)
    return op[run.attribution.saved[rows]].astype(np.int64)


def _thing(run: Run, row: int, layer: str) -> Thing:
    recording, of = run.recording, run.attribution
    module = int(of.module[row])
    path = recording.strings[int(recording.modules.path[module])] if module != NONE else ""
    inside = path.removeprefix(layer).lstrip(".") if layer else path
    what = _what(run, row, layer)
    made = ("", "") if what else _made(run, row)
    return Thing(Category(int(of.category[row])), inside, what or made[0], made[1])


def _what(run: Run, row: int, layer: str) -> str:
    """What names it; empty where nothing does."""
    recording, strings = run.recording, run.recording.strings
    known, saved = int(run.attribution.known[row]), int(run.attribution.saved[row])
    if known != NONE:
        name = strings[int(recording.known_storages.name[known])]
        return name.replace(f"{layer}.", "", 1) if layer else name
    if saved == NONE:
        return ""
    name = strings[int(recording.saved_tensors.op[saved])].removesuffix("Backward0")
    return (name in _VIEWS and _operator(run, row)) or name


def _made(run: Run, row: int) -> tuple[str, str]:
    """The operator, where the stack names one, and the user's line."""
    stack = int(run.allocations.stack[row])
    if stack == NONE:
        return NO_STACK, ""
    frames = run.grouping("frame")
    line = frames.names[int(frames.labels[row])]
    return _operator(run, row), line


def _operator(run: Run, row: int) -> str:
    """The innermost operator on the stack that does more than to ask for memory; empty where none is recorded."""
    stacks, frames, strings = run.recording.stacks, run.recording.frames, run.recording.strings
    at, first = int(run.allocations.stack[row]), ""
    while at != NONE and (name := strings[int(frames.name[stacks.frame[at]])]).startswith(_ATEN):
        first = first or name
        if name.removeprefix(_ATEN) not in _ASKING:
            return name.removeprefix(_ATEN)
        at = int(stacks.parent[at])
    return first.removeprefix(_ATEN)
