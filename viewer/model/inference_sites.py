"""Which frame of a stack stands for the operator, and which for the user's module, that allocated."""

from __future__ import annotations

import re

import numpy as np

from memstrata.capture.format.recording import Recording
from memstrata.capture.format.schema import B1, I32, I64, NONE

from . import stacks

_OPERATOR = re.compile(r"^(?:at::_ops::(\w+)::|aten::(\w+)$)")
_BARE = re.compile(r"^(?:new_)?empty|^resize_$")
_PLUMBING = re.compile(
    r"^(?:new_)?(?:empty|zeros|ones|full)(?:_like|_strided|_memory_format)?$|^resize_$|^(?:_to_copy|clone|contiguous)$|"
    r"^to(?:_\w+)?$|^copy_$"
)
"""Operators that make memory for others."""


def operator_frames(recording: Recording) -> I32:
    """Frame row of the operator that each stack allocates for, -1 where its stack names none: the innermost one that
    computes, else the innermost."""
    names = {n: _operator(recording.strings[n]) for n in np.unique(recording.frames.name).tolist()}
    found = _innermost(recording, {*filter(names.get, names)})
    for plumbing in (_BARE, _PLUMBING):
        better = _innermost(recording, {n for n, name in names.items() if name and not plumbing.match(name)})
        found = np.where(better != NONE, better, found)
    frames = _frames(recording, found)
    return np.append(_one_for_each(recording, names), np.int32(NONE))[frames]


def _one_for_each(recording: Recording, names: dict[int, str]) -> I32:
    """The first row of frames of the same operator: its call and its redispatches are different functions."""
    first: dict[str, int] = {}
    named = ((row, names[name]) for row, name in enumerate(recording.frames.name.tolist()))
    return np.array([first.setdefault(name, row) if name else row for row, name in named], np.int32)


def module_frames(recording: Recording) -> I32:
    """Frame row of the innermost `forward` of the user's own code for each stack, -1 where there is none."""
    own = stacks.own_frames(recording)
    forward = {n for n in np.unique(recording.frames.name).tolist() if recording.strings[n] == "forward"}
    return _frames(recording, _innermost(recording, forward, own))


def _operator(name: str) -> str:
    found = _OPERATOR.match(name)
    return (found[1] or found[2]) if found else ""


def _innermost(recording: Recording, names: set[int], among: B1 | None = None) -> I64:
    """For each stack the row of its innermost frame with one of these names, -1 for none."""
    hit = np.isin(recording.frames.name, sorted(names))
    mask: B1 = hit if among is None else hit & among
    return stacks.nearest(recording.stacks.parent, mask[recording.stacks.frame])


def _frames(recording: Recording, rows: I64) -> I32:
    """The frames of these rows of stacks; -1 stays -1."""
    return np.append(recording.stacks.frame, np.int32(NONE))[rows]
