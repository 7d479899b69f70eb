"""From a live recording to a file: what is known of the run is put together, and known again later is amended."""

from __future__ import annotations

import os
import weakref
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from torch import nn

from .allocation_sources import Source
from .assemble import assemble
from .discovery import Found
from .distributed import meta_of
from .format.recording import Recording
from .format.schema import Severity
from .live_recording import LiveRecording
from .messages import say, sentence
from .phases import note_parameters
from .step_log import StepLog
from .step_rows import StepRow, table, unrecorded_seconds
from .targets import Target


class Maker:
    """Makes the recordings of one recorder; see `step_sequence.Writer`."""

    def __init__(self, path: str | os.PathLike[str], found: Found, super_block: int | None,
                 source: str | Source | None) -> None:  # fmt: skip
        self.target = Target(path)
        self.written = False
        self.last: LiveRecording | None = None
        self._found = found
        self._super_block = super_block
        self._source = source
        self._recorded: list[StepRow] = []

    def begin(self) -> None:
        """Training begins."""
        self.written = False
        self.target.look_around()

    def use(self, found: Found) -> None:
        """What a look at a step found; anything given by the user stays."""
        self._found = self._found.or_else(found)

    def model(self) -> nn.Module | None:
        """The model, as far as it is known."""
        return self._found.model()

    def live(self, several: bool, endless: bool = False) -> LiveRecording:
        """A live recording that is not switched on yet."""
        self.last = LiveRecording(lambda: self._found, self._source, several, endless)
        return self.last

    def write(self, live: LiveRecording, others: list[StepRow], error: BaseException | None = None,
              trigger: str | None = None, why: str = "") -> bool:  # fmt: skip
        """Write the steps kept in it, with the rows of others. Says what went wrong, `why` it is written otherwise, and
        returns whether it was."""
        try:
            with live.settled():
                return self._write(live, others, error, trigger, why)
        except Exception as failure:  # the step is over; a recorder's failure is said, never raised into training
            say(f"the step was not recorded: {sentence(failure)}")
            return False

    def _write(self, live: LiveRecording, others: list[StepRow], error: BaseException | None, trigger: str | None,
               why: str) -> bool:  # fmt: skip
        model = live.model()
        if model is None:
            say("the step was not recorded: it ran no torch.nn.Module.")
            return False
        self.use(Found(weakref.ref(model)))
        problems = len(live.log.problems)
        if error is not None or not live.log.optimizers:  # what backward and the optimizer use, they did not tell
            live.note_unused(model)
        _note(live.log, model, error)
        rows = [*others, *(step.row for step in live.kept)]
        try:
            self.target.write(self._recording(live, model, rows, trigger), why)
        finally:
            del live.log.problems[problems:]
        self.written = True
        self._recorded = _described([step.row for step in live.kept], model)
        return True

    def _recording(self, live: LiveRecording, model: nn.Module, rows: list[StepRow], trigger: str | None) -> Recording:
        assert live.source is not None
        note_parameters(live.log, model)
        allocations = live.allocations()
        recorded = [step.row for step in live.kept]
        seconds = [row.seconds for row in recorded if row.seconds is not None]
        meta: dict[str, Any] = {
            "source": live.source.name,
            "memstrata_version": _version(),
            "super_block_override": self._super_block,
            "step_index": (recorded[0] if trigger is None else recorded[-1]).index,
            "step_seconds_recorded": median(seconds or [(live.log.end_time - live.log.start_time) / 1e9]),
            "step_seconds_unrecorded": unrecorded_seconds(rows),
            "trigger": trigger,
            **meta_of(self.target.place, model),
            **allocations.meta,
        }
        return assemble(live.log, model, allocations, live.strings, live.stacks, meta, rows)

    def amend(self, others: list[StepRow]) -> None:
        """Put the rows of steps that were timed since into the file. Never raises."""
        rows = [*others, *self._recorded]
        try:
            self.target.amend(table(rows), step_seconds_unrecorded=unrecorded_seconds(rows))
        except Exception as failure:
            say(f"{self.target.file.name} does not say how long later steps took: {sentence(failure)}")


def _note(log: StepLog, model: nn.Module, error: BaseException | None) -> None:
    if error is not None:
        text = f"The step raised {type(error).__name__}: {sentence(error)}"
        log.problem("step_raised", Severity.error, text[:500])
        if not log.optimizers and any(p.requires_grad for p in model.parameters()):
            text = "The step was cut off before an optimizer was seen: the state that one may hold is not shown."
            log.problem("optimizer_unseen", Severity.warning, text)
    if not any(True for _ in model.parameters()):
        log.problem("no_parameters", Severity.info, "The recorded model has no parameters.")


def _described(rows: list[StepRow], model: nn.Module) -> list[StepRow]:
    """The rows with what the table says of them, and nothing of the program's."""
    columns = table(rows, model)
    return [
        StepRow(row.index, row.start, row.end, True, int(tokens), float(loss))
        for row, tokens, loss in zip(sorted(rows, key=lambda r: r.start), columns.tokens, columns.loss, strict=True)
    ]


def _version() -> str | None:
    try:
        return version("memstrata")
    except PackageNotFoundError:
        return None
