"""What makes a comparison of two runs doubtful. Each check answers with one sentence or nothing."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from memstrata.capture.format.plan import Plan
from memstrata.capture.format.problems import Problem
from memstrata.capture.format.schema import TABLES, Category, Fate, Phase, Severity

from ..look.units import bytes_text
from ..look.words import sentence_list
from .place import outside_text, set_outside_layers
from .prediction import predict
from .shape import is_compiled, plan_in_force, shape_of

if TYPE_CHECKING:
    from ..model.run import Run

LOSS_TOLERANCE = 1e-5
"""Relative; below it a difference is rounding in another order, above it other random numbers or another state."""
SMALL = 0.05
"""Share of the predicted peak below which what a segment buys is not worth its recomputation."""


def warnings_of(a: Run, b: Run) -> tuple[Problem, ...]:
    """The warnings for run b (after) against run a (before), the gravest first."""
    checks = RANK_CHECKS if ranks_of_one_run(a, b) else CHECKS
    found = [problem for check in checks if (problem := check(a, b)) is not None]
    return tuple(sorted(found, key=lambda problem: -problem.severity))


def compared_with_itself(a: Run, b: Run) -> Problem | None:
    """Two names for one step."""
    if not same_recording(a, b):
        return None
    text = f"{_name(a)} and {_name(b)} are the same recording: nothing can differ."
    if a.called.is_same(b.called):
        text = f"{_name(a)} is compared with itself: nothing can differ."
    return Problem("same_recording", Severity.info, text)


def same_recording(a: Run, b: Run) -> bool:
    """Whether both show the same device of the same step, be it from two copies of the file."""
    if a.device_row != b.device_row or a.recording.meta != b.recording.meta:
        return False
    return a.recording is b.recording or all(
        np.array_equal(x := getattr(getattr(a.recording, name), f.name), getattr(getattr(b.recording, name), f.name),
                       equal_nan=x.dtype.kind == "f")
        for name, table in TABLES.items()
        for f in dataclasses.fields(table)
    )  # fmt: skip


def ranks_of_one_run(a: Run, b: Run) -> bool:
    """Two ranks train on different data under one plan: neither is before or after the other."""
    one, two = a.recording.meta, b.recording.meta
    return one.world_size == two.world_size > 1 and one.rank != two.rank and one.run_id == two.run_id


def _recomputed(run: Run) -> bool:
    fates = run.saved_bytes_by_fate()
    return bool((run.spans.phase == Phase.recompute).any()) or bool(fates[Fate.dropped] or fates[Fate.rematerialized])


def snapshot_in_one(a: Run, b: Run) -> Problem | None:
    """A snapshot knows no categories, so their differences compare what is not alike."""
    kinds = [run.recording.meta.kind for run in (a, b)]
    if kinds[0] == kinds[1]:
        return None
    snapshot = (a, b)[kinds.index("snapshot")]
    at = snapshot.peak_position
    few = snapshot.coverage_at(at) + snapshot.inferred_coverage_at(at) < 0.5
    has = "hardly anything has a category" if few else "categories are inferred"
    text = f"{_name(snapshot)} is a plain snapshot, in which {has}: totals and the lines that allocated are compared."
    return Problem("snapshot_in_one", Severity.warning, text)


def incomplete(a: Run, b: Run) -> Problem | None:
    """A step that raised, or one that ran no backward where the other did."""
    raised = [_name(run) for run in (a, b) if any(problem.code == "step_raised" for problem in run.problems)]
    if raised:
        text = f"The step of {sentence_list(raised)} raised an exception, so only a part of it was recorded."
        return Problem("incomplete", Severity.warning, text, len(raised))
    if not all("spans" in run.capabilities for run in (a, b)):
        return None
    ran = [bool((run.spans.phase == Phase.backward).any()) for run in (a, b)]
    if ran[0] == ran[1]:
        return None
    return Problem("incomplete", Severity.warning, f"{_name((a, b)[ran.index(False)])} ran no backward.")


def never_checkpointed(a: Run, b: Run) -> Problem | None:
    """The after run recomputed nothing: evaluation mode, no input that requires grad, or a flag ignored."""
    if "spans" not in b.capabilities or _recomputed(b) or same_recording(a, b):
        return None
    if plan_in_force(b).segments:
        text = f"{_name(b)} has a checkpoint plan, but nothing was recomputed in it: its checkpoints had no effect."
    else:
        text = f"{_name(b)} never checkpointed: no checkpoint ran in it, and nothing was recomputed."
    return Problem("never_checkpointed", Severity.warning, text)


def loss_differs(a: Run, b: Run) -> Problem | None:
    """Recomputation must draw the same random numbers; other losses mean that the runs did not do the same."""
    one, two = _loss(a), _loss(b)
    if one is None or two is None or math.isclose(one, two, rel_tol=LOSS_TOLERANCE):
        return None
    text = f"The losses differ, {one:.6g} and {two:.6g}: the runs did not compute the same step."
    return Problem("loss_differs", Severity.warning, text)


def _loss(run: Run) -> float | None:
    """The loss without the factor of a gradient scaler, which changes in the course of training."""
    meta = run.recording.meta
    return meta.loss if meta.loss is None else meta.loss / (meta.loss_scale or 1.0)


def optimizer_state_in_one(a: Run, b: Run) -> Problem | None:
    """Optimizer state is made lazily, in the first step."""
    has = [bool(run.categories_at(0).get(Category.optimizer_state)) for run in (a, b)]
    if has[0] == has[1] or "snapshot" in (a.recording.meta.kind, b.recording.meta.kind):
        return None
    with_state, without = (a, b) if has[0] else (b, a)
    unseen = any(problem.code == "optimizer_unseen" for problem in without.problems)
    why = (
        "shows none, since no optimizer was seen" if unseen else "was recorded before the first optimizer step made it"
    )
    text = f"Only {_name(with_state)} holds optimizer state when its step begins: {_name(without)} {why}."
    return Problem("optimizer_state_in_one_run", Severity.warning, text)


def batch_norm_in_segment(a: Run, b: Run) -> Problem | None:
    """Batch statistics are updated by forward and again by the recomputation."""
    plan, strings, modules = plan_in_force(b), b.recording.strings, b.recording.modules
    rows = [row for row, cls in enumerate(modules.cls.tolist()) if "BatchNorm" in strings[cls]]
    inside = [path for row in rows if plan.segment_of(path := strings[int(modules.path[row])]) >= 0]
    if not inside:
        return None
    text = (
        f"BatchNorm inside a checkpoint segment of {_name(b)} updates its statistics twice in a step"
        f" (first {inside[0]})."
    )
    return Problem("batch_norm_in_segment", Severity.warning, text, len(inside))


def different_circumstances(a: Run, b: Run) -> Problem | None:
    """Versions, shapes and the like that differ."""
    one, two = a.recording.meta, b.recording.meta
    if one.kind != two.kind:
        return None
    compared: list[tuple[str, object, object]] = [
        ("torch version", one.torch_version, two.torch_version),
        ("source", one.source, two.source),
        ("model", one.model, two.model),
        ("optimizer", one.optimizer, two.optimizer),
        ("dtype", one.dtype, two.dtype),
        ("batch", one.batch, two.batch),
        ("sequence length", one.sequence, two.sequence),
        ("input shapes", one.shapes, two.shapes),
    ]
    if one.kind == two.kind == "recording":
        compared.append(("layers", a.layers.names, b.layers.names))
    other = [word for word, x, y in compared if x != y and x and y]
    if not other:
        return None
    text = f"The runs differ in {sentence_list(other)}, so not only checkpointing separates them."
    if ranks_of_one_run(a, b):
        text = f"The ranks differ in {sentence_list(other)}."
    return Problem("different_circumstances", Severity.warning, text, len(other))


def compiled(a: Run, b: Run) -> Problem | None:
    """A compiler moves what a segment even is."""
    names = [_name(run) for run in (a, b) if is_compiled(run)]
    if not names:
        return None
    text = (
        f"The prediction does not apply: the model of {sentence_list(names)} is compiled, and shapes count what eager"
        " mode keeps."
    )
    return Problem("compiled", Severity.warning, text)


def gains_nothing(a: Run, b: Run) -> Problem | None:
    """A plan that makes again at once what it drops."""
    shape, plan = shape_of(b), plan_in_force(b)
    if shape is None or not plan.segments or predict(shape, plan).gains:
        return None
    text = f"By shapes the plan of {_name(b)} gains nothing: what it drops is made again all at once."
    return Problem("plan_gains_nothing", Severity.warning, text)


def last_segment_is_waste(a: Run, b: Run) -> Problem | None:
    """The last segment's backward comes first: nothing else was freed before it is needed again."""
    shape, plan = shape_of(b), plan_in_force(b)
    if shape is None or len(plan.segments) < 2:
        return None
    whole, without = predict(shape, plan), predict(shape, Plan(plan.segments[:-1]))
    if not whole.gains:  # then none of the segments is worth it
        return None
    bought = without.timeline_peak_bytes - whole.timeline_peak_bytes  # the loss is done before it is made again
    if without.layers_peak_bytes > whole.layers_peak_bytes or bought > SMALL * whole.timeline_peak_bytes:
        return None
    sizes = (bought,) if bought > 0 else ()
    how_much = f"only {bytes_text(bought)}" if sizes else "no memory"
    text = f"By shapes recomputing the last segment of {_name(b)} buys {how_much}: its backward comes first."
    return Problem("last_segment_recomputed", Severity.info, text, sizes=sizes)


def peak_outside_layers(a: Run, b: Run) -> Problem | None:
    """A head's logits, say, set the peak: checkpointing layers cannot lower it further."""
    if not set_outside_layers(b, b.peak_position):
        return None
    where = outside_text(b, b.peak_position)
    text = f"The peak of {_name(b)} is set {where}: more checkpointing will not lower it."
    return Problem("peak_outside_layers", Severity.info, text)


def _name(run: Run) -> str:
    return run.name or "the run"


CHECKS: tuple[Callable[[Run, Run], Problem | None], ...] = (
    compared_with_itself,
    snapshot_in_one,
    incomplete,
    never_checkpointed,
    compiled,
    gains_nothing,
    loss_differs,
    optimizer_state_in_one,
    batch_norm_in_segment,
    different_circumstances,
    peak_outside_layers,
    last_segment_is_waste,
)

RANK_CHECKS = (incomplete, compiled, optimizer_state_in_one, different_circumstances)
"""What matters between ranks of one run."""
