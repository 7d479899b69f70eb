"""`Session`: holds the one `ViewState`, says when it changed, and remembers the way back."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from PySide6.QtCore import QObject, Signal

from .view_state import RunView, ViewState, looking, looks_alike

_MERGE_SECONDS = 0.7
_LONGEST = 200


class Drag:
    """One press of a button until it is let go, however long it takes: equal to no other."""


Gesture = Drag | tuple[object, ...]
"""What somebody does over a while: a drag, or what is named by the tuple as long as it goes on without a rest."""


class Session(QObject):
    """The only mutable thing in the viewer. `set` is the only way to change it, `changed` the only signal of it.

    Changes of one gesture (a drag, a key that is held, turns of the wheel) are one step of undo; each change of none is
    a step of its own. A step that leads nowhere is none: what a gesture takes back itself is as if it had not been.
    Of the runs that were closed only the latest can come back: the way back would keep the memory of all others.
    """

    changed = Signal(object, object)
    """(old, new), both `ViewState`; never emitted for equal states."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._state = ViewState()
        self._undo: list[ViewState] = []
        self._redo: list[ViewState] = []
        self._last: tuple[Gesture | None, float] = (None, 0.0)

    @property
    def state(self) -> ViewState:
        """What is looked at now."""
        return self._state

    def set(self, state: ViewState, gesture: Gesture | None = None) -> None:
        """Make this the state; `gesture` is what the change is a part of."""
        if looks_alike(state, self._state):
            return
        now = time.monotonic()
        if not (self._goes_on(gesture, now) and self._undo):
            self._undo = [*self._undo[-_LONGEST:], self._state]
        self._last, self._redo = (gesture, now), []
        if looks_alike(state, self._undo[-1]):
            state, self._last = self._undo.pop(), (None, 0.0)
        self._let_go(state)
        self._move(state)

    def _goes_on(self, gesture: Gesture | None, now: float) -> bool:
        last, when = self._last
        return gesture is not None and gesture == last and (isinstance(gesture, Drag) or now - when < _MERGE_SECONDS)

    def look(self, index: int, gesture: Gesture | None = None, **changes: Any) -> None:
        """Shorthand: `set` with these changes to the view of one run; a gesture is always one in one run."""
        own = (index, *gesture) if isinstance(gesture, tuple) else gesture
        self.set(looking(self._state, index, **changes), own)

    def view(self, index: int) -> RunView:
        """What is looked at in one run."""
        return self._state.views[index]

    @property
    def can_undo(self) -> bool:
        """Whether there is a state to go back to."""
        return bool(self._undo)

    @property
    def can_redo(self) -> bool:
        """Whether a step back can be taken again."""
        return bool(self._redo)

    def undo(self) -> None:
        """Go back one step; nothing happens at the first."""
        if self._undo:
            self._redo.append(self._state)
            self._last = (None, 0.0)
            self._move(self._undo.pop())

    def redo(self) -> None:
        """Take the last step back again."""
        if self._redo:
            self._undo.append(self._state)
            self._last = (None, 0.0)
            self._move(self._redo.pop())

    def _let_go(self, state: ViewState) -> None:
        """Forget the states with runs that are neither open in the new one nor the latest that was closed."""
        gone = [run for run in self._state.runs if run not in state.runs]
        if gone:
            kept = {*state.runs, gone[-1]}
            path = [*(old for old in self._undo if kept.issuperset(old.runs)), state]
            self._undo = [old for old, after in pairwise(path) if old != after]

    def _move(self, state: ViewState) -> None:
        old, self._state = self._state, state
        self.changed.emit(old, state)
