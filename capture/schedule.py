"""Times some steps, records the next ones, and times a few more."""

from __future__ import annotations

from .format.schema import Severity
from .step_sequence import StepSequence, Writer

AFTER = 3
"""Steps timed after the recorded ones."""


class Schedule(StepSequence):
    """Times `warmup` steps, records the next `steps`, writes the file at once, and times up to `after` more for it.

    In a `loop` nobody says where steps begin and end: it is known a little later from the optimizers.
    """

    def __init__(self, writer: Writer, warmup: int = 0, steps: int = 1, after: int = AFTER, loop: bool = False,
                 index: int | None = None) -> None:  # fmt: skip
        super().__init__(writer, warmup)
        self.several = steps > 1 or loop
        self.written = False
        self._steps = steps
        self._after = after
        self._loop = loop
        self._given_index = index
        self._times_left = after

    def _index(self) -> int:
        return self.number if self._given_index is None else self._given_index

    def _is_due(self, ahead: int = 0) -> bool:
        return not (self.done or self._on or self.written) and self.number + ahead >= self.warmup

    def _recorded(self, error: BaseException | None) -> None:
        assert self._live is not None
        if error is not None or len(self._live.kept) == self._steps:
            self._write(error)

    def _write(self, error: BaseException | None) -> None:
        assert self._live is not None
        self._live.end()
        self.written = self._writer.write(self._live, self._timed.rows, error)
        self._switch_off()
        if not self.written or not self._after or error is not None:
            self._finish()

    def _timed_one(self) -> None:
        if self.written:
            self._times_left -= 1
            if not self._times_left:
                self._amend()
                self._finish()

    def _amend(self) -> None:
        if self._times_left < self._after:
            self._writer.amend(self._timed.rows)

    def _close(self, error: BaseException | None) -> None:
        self._timed.drop_running()
        self.unreached = not self.written
        if self.written:
            self._amend()
        elif self._on and self._live is not None:
            if not self._is_step(error):
                self._live.drop_running()
            if self._live.kept:
                self.unreached = False
                if error is None and self._live.runs:
                    self._live.end_step(self._live.bound())
                self._write(error)

    def _is_step(self, error: BaseException | None) -> bool:
        """Whether what ran since the last optimizer step is a step: in a loop only if no optimizer ever stepped, or if
        an error ended it, unless no model ran in all that was recorded."""
        assert self._live is not None
        ended = error is not None and (self.cut_off or len(self._live.kept) > 1)
        return not self._loop or self.number == 0 or ended

    def _frees_missed(self) -> None:
        assert self._live is not None
        text = "A model ran between the recorded steps: what was freed meanwhile was not seen, and may look alive."
        self._live.log.problem("frees_missed", Severity.warning, text)
