"""Takes stretches of equal entries out of a pickle while the machine runs it, and turns them into columns.

The machine asks at the end of each entry whether more follow. A window of the file is read at once, all its entries
together; which of them follow each other is then a matter of looking it up. When the machine leaves the window, what
was taken from it becomes tables.
"""

from __future__ import annotations

import bisect
import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memstrata.capture.format.plain_values import Columns, Fields, Shared
from memstrata.capture.format.schema import I32, I64, NONE

from .pickle_bodies import Bodies
from .pickle_columns import Texts
from .pickle_layouts import MEMO_LENGTHS, Layout, learn
from .pickle_machine import Machine
from .pickle_past import Past, run_alone
from .pickle_window import Scratch, Window

_MAX_LAYOUTS = 12
_EMPTY_DICT = 0x7D
_MAX_LESSONS = 32
"""How many entries of one window, that begin like a known layout and that do not, are looked at to learn a new one."""


class RecordReader:
    """Reads entries of the `kinds` given; `shared` has what the columns refer to."""

    def __init__(self, kinds: tuple[Fields, ...]) -> None:
        self._kinds = kinds
        self.keys = frozenset(kind.key for kind in kinds)
        self._layouts: list[Layout] = []
        self._bodies, self._texts, self._scratch = Bodies(), Texts(), Scratch()
        self.shared = Shared(self._texts.by_number, [])
        self._window: Window | None = None
        self._past: list[Past] = []
        self._lists: dict[int, int] = {}
        self._body_lists: I32 = np.empty(0, np.int32)
        self._highest: I64 = np.empty(0, np.int64)
        self._shown: list[tuple[Any, list[Any]]] = []
        """Lists and dicts of entries taken that the machine could change since, and what was in each."""

    def take(self, machine: Machine, at: int, may_learn: bool) -> int:
        """Take over the entries that begin at byte `at` of the buffer; returns where it stopped."""
        at = _noted(machine, at)
        window = self._window
        if window is None or window.data is not machine.stream.buffer:
            if machine.stream.is_hasty:
                return at
            window = self._open(machine, at)
        while True:  # where a stretch ends the next entry is a lesson too: two kinds may take turns
            row = window.row(at)
            if row < 0 and may_learn and self._lesson(machine, window, at):
                window = self._open(machine, at)
                row = window.row(at)
            if row < 0 or not machine.ordered:
                return at
            begin, at = at, window.take(machine, row)
            if at == begin:  # nothing was taken after all
                return at

    def _open(self, machine: Machine, at: int) -> Window:
        self.settle(machine)
        self._window = Window(machine.stream, at, self._layouts, self._bodies, self._texts, self._scratch)
        return self._window

    def _lesson(self, machine: Machine, window: Window, at: int) -> bool:
        """Whether the entry at this byte taught a new layout."""
        new = not window.seen(at)
        if window.lessons[new] == _MAX_LESSONS or len(self._layouts) == _MAX_LAYOUTS:
            return False
        if machine.stream.buffer[at] != _EMPTY_DICT or (not new and window.has_dicts(at)):
            return False
        window.lessons[new] += 1
        layout = learn(machine.stream.buffer, at, machine.stream.end, self._kinds, machine.memo.__getitem__)
        if layout is None or layout in self._layouts:
            return False
        self._layouts.append(layout)
        return True

    def settle(self, machine: Machine) -> None:
        """Turn what was taken from the window into tables."""
        window, self._window = self._window, None
        if window is None or not window.taken:
            return
        past = Past(window)
        self._past.append(past)
        past.lists = self._frames(machine, window, past)
        texts = {
            name: self._text_column(machine, window, past, name)
            for name in window.references
            if name not in ("", "frames")
        }
        if "" in window.references:
            past.check(window.references[""][past.rows], window.used[""])
        layouts = window.layout[past.rows]
        numbers = {n: self._layouts[n].shape for n in np.flatnonzero(np.bincount(layouts)).tolist()}
        tables = {}
        for shape in set(numbers.values()):
            own = [n for n, other in numbers.items() if other == shape]
            here = slice(None) if len(own) == len(numbers) else np.flatnonzero(np.isin(layouts, own))
            tables[shape] = self._table(window, past, self._layouts[own[0]], here, texts)
        done = dict.fromkeys(tables, 0)
        for run, row, _stop, _number in window.taken:
            shape = self._layouts[window.layout[row]].shape
            run.columns, run.first = tables[shape], done[shape]
            done[shape] += run.count
        past.base = None

    def _table(self, window: Window, past: Past, layout: Layout, some: Any, texts: dict[str, I32]) -> Columns:
        """The table of those taken rows that have one shape."""
        frames = past.lists[some]
        table = Columns(len(frames), self.shared)
        for field in layout.fields:
            if field.kind == "integer":
                table.integers[field.name] = _packed(window.columns[field.name][past.rows][some])
        for name, column in texts.items():
            if name in layout.kind.texts:
                table.texts[name] = _packed(column[some])
        table.frames = frames
        return table

    def _frames(self, machine: Machine, window: Window, past: Past) -> I32:
        """Numbers of the lists of frames of all taken rows, -1 where there is none."""
        if "frames" not in window.columns:
            return np.full(past.count, NONE, np.int32)
        bodies, references = window.columns["frames"][past.rows], window.references["frames"][past.rows]
        self._resolve(machine, past, bodies, window.used["frames"])
        lists = np.append(self._body_lists, np.int32(NONE))[bodies]
        refer = np.flatnonzero(references >= 0)
        if len(refer):
            past.check(references, window.used["frames"])
            past.lists = lists
            lists[refer] = self._referred(machine, references[refer])
        return lists

    def _resolve(self, machine: Machine, past: Past, bodies: NDArray[Any], used: NDArray[Any]) -> None:
        """Make lists of the bodies that occur here for the first time, and check that none refers forward."""
        known = len(self._bodies.references)
        if known > len(self._body_lists):
            more = known - len(self._body_lists)
            self._body_lists = np.append(self._body_lists, np.full(more, NONE, np.int32))
            highest = [max(row, default=NONE) for row in self._bodies.references[-more:]]
            self._highest = np.append(self._highest, np.array(highest, np.int64))
        seen = np.zeros(known, np.bool_)
        seen[bodies[bodies >= 0]] = True
        if int(self._highest[seen].max(initial=NONE)) >= past.first:
            past.check(np.append(self._highest, NONE)[bodies], used)
        for body in np.flatnonzero(seen & (self._body_lists == NONE)).tolist():
            self._body_lists[body] = self._list(machine.values(self._bodies.references[body]))

    def _list(self, value: Any) -> int:
        """The number of a list of frames in the shared ones."""
        number = self._lists.get(id(value))
        if number is None:
            number = self._lists[id(value)] = len(self.shared.lists)
            self.shared.lists.append(value)
        return number

    def _referred(self, machine: Machine, references: I64) -> I32:
        """Numbers of the lists under these numbers of the memo."""
        out = self._past[-1].lists_at(references)  # most are close by
        far = np.flatnonzero(out == NONE)
        which = np.searchsorted([past.first for past in self._past], references[far], "right") - 1
        for number in np.flatnonzero(np.bincount(which + 1)).tolist():
            rows = far[which == number - 1]
            if number > 0:
                out[rows] = self._past[number - 1].lists_at(references[rows])
        missing = np.flatnonzero(out == NONE)
        distinct, inverse = np.unique(references[missing], return_inverse=True)
        out[missing] = np.array([self._list(machine.get(n)) for n in distinct.tolist()], np.int32)[inverse]
        return out

    def _text_column(self, machine: Machine, window: Window, past: Past, name: str) -> I32:
        """Numbers of the texts of all taken rows, -1 where there is none."""
        numbers, references = window.columns[name][past.rows], window.references[name][past.rows]
        refer = references >= 0
        if not refer.any():
            return numbers
        past.check(references, window.used[name])
        highest = int(references.max())
        if highest < 1 << 16:
            seen = np.zeros(highest + 1, np.bool_)
            seen[references[refer]] = True
            found = np.full(highest + 1, NONE, np.int32)
            for number in np.flatnonzero(seen).tolist():
                found[number] = self._text(machine.get(number))
            return found[references] if refer.all() else np.where(refer, found[references], numbers).astype(np.int32)
        distinct, inverse = np.unique(references[refer], return_inverse=True)
        out = numbers.copy()
        out[refer] = np.array([self._text(machine.get(n)) for n in distinct.tolist()], np.int32)[inverse]
        return out

    def _text(self, value: Any) -> int:
        return self._texts[value.encode("utf-8", "surrogatepass")] if type(value) is str else NONE

    def fetch(self, machine: Machine, number: int) -> None:
        """Put what a stretch put into the memo under this number into the machine's own; raises KeyError.

        The window stays open: reading the rest of it again each time would take the square of its length.
        """
        made = self._rebuilt(machine, number)
        if made is None:
            raise KeyError(f"it refers to entry {number:,}, which there is not")
        if machine.reused:  # an entry built once more would hold what came later
            raise ValueError("it numbers two entries alike, and refers to one before them")
        self._shown += ((value, _inside(value)) for value in made.values() if type(value) in (dict, list))
        for entry, value in made.items():
            if entry not in machine.memo:
                machine.memo[entry] = value
                machine.hidden -= 1

    def _rebuilt(self, machine: Machine, number: int) -> dict[int, Any] | None:
        """What the entry that put something into the memo under this number put there, built once more."""
        taken = None if self._window is None else self._window.entry(number)
        if taken is not None:
            return run_alone(machine, *taken)
        past = self._holding(number)
        return None if past is None else past.rebuild(machine, number)

    def holds(self, number: int) -> bool:
        """Whether a stretch put something into the memo under this number."""
        return self._holding(number) is not None

    def _holding(self, number: int) -> Past | None:
        at = bisect.bisect_right(self._past, number, key=lambda past: past.first) - 1
        return self._past[at] if at >= 0 and self._past[at].holds(number) else None

    def finish(self, machine: Machine) -> None:
        """The pickle has ended. Raises ValueError if it changed an entry that had become part of a table."""
        self.settle(machine)
        if not all(_are_same(_inside(value), before) for value, before in self._shown):
            raise ValueError("it changes an entry that was complete")
        self._past.clear()


def _inside(value: Any) -> list[Any]:
    return list(value.values() if type(value) is dict else value)


def _are_same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _packed(column: NDArray[Any]) -> NDArray[Any]:
    """The same column, with one value in memory if it holds no other; never a view of a larger array."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[:1].copy(), len(column))
    base = column.base
    return column.copy() if isinstance(base, np.ndarray) and base.nbytes > column.nbytes * 5 // 4 else column


def _noted(machine: Machine, at: int) -> int:
    """Behind an entry, torch's own writer notes it in the memo."""
    stream = machine.stream
    b, end = stream.buffer, stream.end
    length = MEMO_LENGTHS.get(b[at]) if at + 5 <= end else None
    if length is None or length == 1 or (stream.cuts and stream.cuts[0] == stream.base + at):
        return at
    machine.put(int.from_bytes(b[at + 1 : at + length], "little"))
    return at + length
