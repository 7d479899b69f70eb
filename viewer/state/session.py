"""`Session`: holds the one `ViewState`, says when it changed, and remembers the way back."""

from __future__ import annotations

import time
from typing import Any

from PySide6.QtCore import QObject, Signal

from .view_state import RunView, ViewState, looking

_MERGE_SECONDS = 0.7
_LONGEST = 200
_WHOLE = ("runs", "page", "slot", "pair", "common_axis", "cut")
"""Fields of the state that are not those of one run."""


class Session(QObject):
    """The only mutable thing in the viewer. `set` is the only way to change it, `changed` the only signal of it.

    Changes of the same kind in quick succession (a drag of the cursor, turns of the wheel) are one step of undo.
    """

    changed = Signal(object, object)
    """(old, new), both `ViewState`; never emitted for equal states."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._state = ViewState()
        self._undo: list[ViewState] = []
        self._redo: list[ViewState] = []
        self._last: tuple[frozenset[str], float] = (frozenset(), 0.0)

    @property
    def state(self) -> ViewState:
        """What is looked at now."""
        return self._state

    def set(self, state: ViewState) -> None:
        """Make this the state."""
        if state == self._state:
            return
        kind, now = _difference(self._state, state), time.monotonic()
        last, when = self._last
        if not (kind == last and now - when < _MERGE_SECONDS and self._undo):
            self._undo = [*self._undo[-_LONGEST:], self._state]
        self._last, self._redo = (kind, now), []
        self._move(state)

    def look(self, index: int, **changes: Any) -> None:
        """Shorthand: `set` with these changes to the view of one run."""
        self.set(looking(self._state, index, **changes))

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
            self._last = (frozenset(), 0.0)
            self._move(self._undo.pop())

    def redo(self) -> None:
        """Take the last step back again."""
        if self._redo:
            self._undo.append(self._state)
            self._last = (frozenset(), 0.0)
            self._move(self._redo.pop())

    def forget(self) -> None:
        """Forget the way back, and with it the runs that are no longer open."""
        self._undo, self._redo = [], []

    def _move(self, state: ViewState) -> None:
        old, self._state = self._state, state
        self.changed.emit(old, state)


def _difference(old: ViewState, new: ViewState) -> frozenset[str]:
    """Which fields differ, those of the views by name; decides what is one step of undo."""
    fields = {name for name in _WHOLE if getattr(old, name) != getattr(new, name)}
    for a, b in zip(old.views, new.views):
        fields |= {name for name in vars(a) if getattr(a, name) != getattr(b, name)}
    return frozenset(fields)
