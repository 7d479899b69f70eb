"""The headlines of runs, worked out once for each, and forgotten with it."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from ..analysis.headline import Line, headline
from ..model.run import Run

Answer = tuple[Line, ...]
_ANSWERS: WeakKeyDictionary[Run, Answer] = WeakKeyDictionary()


def answer_of(run: Run) -> Answer:
    """The headline lines of a run. Any thread may ask first."""
    found = _ANSWERS.get(run)
    if found is None:
        found = _ANSWERS[run] = headline(run)
    return found
