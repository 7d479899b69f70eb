"""Groupings by a frame that stands for each stack, in order of the bytes at the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.schema import I32, I64, NONE, Phase

from . import stacks
from .frame_names import frame_name
from .grouping_labels import ColourRule, Grouping
from .inference_sites import module_frames, operator_frames

if TYPE_CHECKING:
    from .run import Run


def by_first_user_frame(run: Run) -> Grouping:
    """By the innermost frame of the user's own code, in order of the bytes at the peak."""
    return _by_frame(run, "frame", "first user frame", stacks.first_user_frames(run.recording))


def by_stack_root(run: Run) -> Grouping:
    """By the outermost frame of the user's own code: the line of the program that all of it came from."""
    return _by_frame(run, "root", "stack root", stacks.last_user_frames(run.recording))


def by_operator(run: Run) -> Grouping:
    """By the operator that allocated, as the stack of a recording names it."""
    return _by_frame(run, "op", "operator", operator_frames(run.recording), _NO_OPERATOR)


def by_inferred_operator(run: Run) -> Grouping:
    """By the operator that allocated, as the stack of a plain snapshot names it."""
    return _by_frame(run, "operator", "operator (inferred)", operator_frames(run.recording), _NO_OPERATOR)


def by_user_module(run: Run) -> Grouping:
    """By the innermost `forward` of the user's code; a stack knows its line, not the path of the module."""
    return _by_frame(run, "user_module", "module (inferred)", module_frames(run.recording), "no forward on the stack")


_NO_OPERATOR = "no operator on the stack"
_UNNAMED = 1 << 40
"""Stands for a stack without a frame of the kind asked for."""


def _by_frame(run: Run, key: str, title: str, frames: I32, unnamed: str = "") -> Grouping:
    """By the frame that stands for each stack, in order of the bytes at the peak; -1 is `unnamed`."""
    named: I64 = np.where(frames == NONE, _UNNAMED, frames.astype(np.int64))
    unique, labels = _numbered(run, named)
    names = [unnamed if number == _UNNAMED else _name(run, number) for number in unique.tolist()]
    at_peak = np.zeros(len(unique), np.int64)
    alive = run.allocations.alive(run.peak_position)
    np.add.at(at_peak, labels[alive], run.allocations.bytes[alive])
    order = np.argsort(-at_peak, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    neutral = frozenset(int(rank[i]) for i, number in enumerate(unique.tolist()) if number < 0 or number == _UNNAMED)
    sorted_names = tuple(names[i] for i in order.tolist())
    return Grouping(key, title, rank[labels], sorted_names, ColourRule.DISTINCT, neutral)


def _name(run: Run, number: int) -> str:
    return frame_name(run.recording, number) if number >= 0 else _no_stack_name(run, -1 - number)


def _numbered(run: Run, of_stack: I64) -> tuple[I64, I32]:
    """The different numbers of the stacks that were used, after those (negative) that stand for no stack, rising; and
    for each allocation which of them is its own. There are far fewer stacks than allocations."""
    stack = run.allocations.stack
    used = np.zeros(len(of_stack) + 1, np.bool_)
    used[stack] = True
    found, place = np.unique(of_stack[used[:-1]], return_inverse=True)
    without = np.flatnonzero(stack < 0)
    others, other = np.unique(-1 - _no_stack(run, without), return_inverse=True)
    of_used = np.zeros(len(used), np.int32)
    of_used[:-1][used[:-1]] = place + len(others)
    labels = of_used[stack]
    labels[without] = other
    return np.concatenate([others, found]), labels


def _no_stack(run: Run, rows: I64) -> I64:
    """A number for why, and as closely as known where, each of these allocations without a stack was made."""
    if not len(rows):
        return rows
    n_layers = len(run.layers) + 1
    where = run.attribution.phase[rows].astype(np.int64) * n_layers + run.attribution.layer[rows] + 1
    return np.where(run.allocations.before[rows], 0, 1 + where)


def _no_stack_name(run: Run, number: int) -> str:
    if number == 0:
        return "no stack (older than the recording)"
    phase, layer = divmod(number - 1, len(run.layers) + 1)
    if len(run.spans):
        place = f" of {run.layers.labels[layer - 1]}" if layer else ""
        return f"no stack ({Phase(phase).name}{place})"
    if "stacks" not in run.capabilities:
        return "no stack (stacks were not recorded)"
    if Phase(phase) != Phase.other:
        return f"no stack ({Phase(phase).name}, inferred: its threads have no Python frames)"
    return "no stack (made outside Python, as the backward pass is)"
