"""Steps that run unrecorded, and are timed."""

from __future__ import annotations

from typing import Protocol

from torch import nn

from .discovery import Discovery, Found
from .format.schema import NONE
from .step_rows import StepRow
from .tokens import TokenCount

MOST = 64
"""Rows kept, where steps are only timed until something happens."""


class Finder(Protocol):
    """Knows the model and the optimizers, as far as they are known."""

    def use(self, found: Found) -> None:
        """What a look at a step found; anything given by the user stays."""

    def model(self) -> nn.Module | None:
        """The model."""


class TimedSteps:
    """Steps that are only timed. In the first of them model and optimizers are looked for."""

    def __init__(self, finder: Finder) -> None:
        self.rows: list[StepRow] = []
        self._finder = finder
        self._discovery: Discovery | None = None
        self._tokens: TokenCount | None = None
        self._counted_from_the_start = True
        self._fresh = False
        """Whether the count was begun since the last step began."""

    def look(self) -> None:
        """Look for model and optimizers in the step that comes. Not while an optimizer steps."""
        self._discovery = Discovery()
        self._discovery.__enter__()

    def begin(self, index: int, at: int, inside: bool = False) -> None:
        """A step begins (Unix ns); `inside` its first forward, which a count that begins now does not see."""
        counted = self._tokens is not None and not self._fresh
        self._count()
        self.rows.append(StepRow(index, at))
        del self.rows[:-MOST]
        self._counted_from_the_start, self._fresh = counted or not inside, False
        if self._tokens is not None:
            self._tokens.begin()

    def end(self, at: int, completed: bool = True) -> None:
        """It ends, or was cut off. The tokens of the step in which the model was looked for are not known."""
        row = self.rows[-1]
        row.end = at if completed else NONE
        if self._tokens is not None and self._counted_from_the_start:
            row.tokens = self._tokens.taken()
        self.found()

    def found(self) -> None:
        """Stop looking for the model, and count its tokens from now on."""
        if self._discovery is not None:
            self._discovery.__exit__()
            self._finder.use(self._discovery.found())
            self._discovery = None
        self._count()

    def saw_model(self) -> bool:
        """Whether a module has run, as far as it was looked for."""
        return self._finder.model() is not None or (self._discovery is not None and self._discovery.saw_module)

    def _count(self) -> None:
        model = self._finder.model()
        if self._tokens is None and model is not None:
            self._tokens, self._fresh = TokenCount(model), True

    def drop_running(self) -> None:
        """The step that began last turns out to be none."""
        if self.rows and self.rows[-1].end == NONE:
            self.rows.pop()

    def stop(self) -> None:
        """Leave nothing installed."""
        if self._discovery is not None:
            self._discovery.__exit__()
            self._discovery = None
        if self._tokens is not None:
            self._tokens.remove()
            self._tokens = None
