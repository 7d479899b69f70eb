"""The steps of a run as rows: which were recorded, how long each took, what it was given and what it lost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch
from torch import nn

from .format import schema
from .format.schema import NONE
from .layers import batch_and_sequence
from .step_log import Input

GivenInput = tuple[int, str, tuple[int, ...], bool]
"""(id of the outermost module, argument's name, sizes, whether it holds indices)"""


@dataclass
class StepRow:
    """One step. Times in Unix ns; `end` is -1 while it runs, and stays so where it was cut off."""

    index: int
    start: int
    end: int = NONE
    recorded: bool = False
    tokens: int = NONE
    loss: torch.Tensor | float | None = None
    """A GPU's stays a tensor until the file is written: reading it would wait for the device."""
    given: list[GivenInput] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """How long it took, None for one that was cut off."""
        return None if self.end == NONE else (self.end - self.start) / 1e9


def unrecorded_seconds(rows: Iterable[StepRow]) -> float | None:
    """Median of at least two unrecorded steps; the first of a run, slowed by lazy initialisation, only if it must."""
    timed = [row for row in rows if not row.recorded and row.seconds is not None]
    if len(timed) > 2:
        timed = [row for row in timed if row.index != 0]
    seconds = [row.seconds for row in timed if row.seconds is not None]
    return median(seconds) if len(seconds) >= 2 else None


def table(rows: Iterable[StepRow], model: nn.Module | None = None) -> schema.Steps:
    """The table `steps`, in order of time."""
    return schema.from_rows(schema.Steps, [_columns(row, model) for row in sorted(rows, key=lambda row: row.start)])


def _columns(row: StepRow, model: nn.Module | None) -> tuple[Any, ...]:
    loss = loss_value(row.loss)
    tokens = tokens_of(row.given, model) if row.tokens == NONE and row.given else row.tokens
    return row.index, row.start, row.end, row.recorded, tokens, math.nan if loss is None else loss


def loss_value(loss: torch.Tensor | float | None) -> float | None:
    """A loss as a number; None where there is none, it is not finite, or the device failed and cannot be read."""
    try:
        value = None if loss is None else float(loss)
    except RuntimeError:
        return None
    return value if value is not None and math.isfinite(value) else None


def given_inputs(inputs: Iterable[Input]) -> list[GivenInput]:
    """The inputs of a step without the modules they were given to."""
    return [(id(i.module), i.name, i.sizes, i.is_index) for i in inputs if i.sizes]


def tokens_of(given: list[GivenInput], model: nn.Module | None) -> int:
    """batch x sequence length over all calls of the model (several where gradients accumulate), -1 unknown. Where only
    parts of the model were called, it is what the first of them was given."""
    if model is None:
        return NONE
    inside = {id(module) for module in model.modules()}
    own = [i for i in given if i[0] == id(model)] or [i for i in given if i[0] in inside]
    first = [i for i in own if i[:2] == own[0][:2]]  # each call's first input, once per call
    counts = [tokens_in(sizes, is_index) for _, _, sizes, is_index in first]
    return sum(counts) if counts and NONE not in counts else NONE


def tokens_in(sizes: tuple[int, ...], is_index: bool) -> int:
    """batch x sequence length of one input, -1 where it does not say."""
    batch, sequence = batch_and_sequence(sizes, is_index)
    return NONE if batch is None or sequence is None else batch * sequence
