"""What the rules of inference must not say: each on a trace beside one of which they do say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.model.inference import Why

from .test_inference_rules import ENGINE, LOOP, MODULE, STEP, ZERO, category_at, made_of, phases

FORWARD = [MODULE, LOOP]
UNKNOWN = [Category.unattributed]


def alive(*addresses: int, frames: list[tuple[str, str]] | None = None) -> list[dict[str, Any]]:
    """Segments of one block of 1,000 bytes each, that no event made."""
    stack = [{"name": name, "filename": file, "line": 1} for name, file in frames or []]
    return [
        {"address": 4096 * at, "total_size": 4096, "device": 0, "stream": 0, "segment_type": "small", "blocks": [
            {"address": 4096 * at, "size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": stack}]}
        for at in addresses
    ]  # fmt: skip


def test_what_is_older_than_the_trace_is_an_activation_only_of_a_step_that_it_cuts(tmp_path: Path) -> None:
    step = [("+", 1, FORWARD), ("-", 50, [ENGINE]), ("-", 1, [ENGINE]), ("+", 3, STEP)]
    again = [("+", 2, FORWARD), ("-", 51, [ENGINE]), ("-", 2, [ENGINE]), ("+", 4, STEP)]
    begun = made_of(tmp_path, step + again)
    assert category_at(begun, 50) == [Category.activation]
    assert category_at(begun, 51) == UNKNOWN  # it outlived the step that the trace begins in
    assert category_at(made_of(tmp_path, [("+", 9, [LOOP]), *step]), 50) == UNKNOWN
    assert category_at(made_of(tmp_path, [("-", 60, STEP), *step]), 50) == UNKNOWN


def test_an_older_block_that_an_optimizer_made_is_its_state_unless_the_trace_begins_in_that_step(
    tmp_path: Path,
) -> None:
    step = [("+", 1, FORWARD), ("-", 1, [ENGINE]), ("+", 3, STEP), ("-", 3, STEP)]
    held = alive(70, frames=STEP)
    assert category_at(made_of(tmp_path, step, segments=held), 70) == [Category.optimizer_state]
    assert category_at(made_of(tmp_path, [("-", 60, STEP), *step], segments=held), 70) == UNKNOWN


def test_what_an_optimizer_made_and_forward_freed_is_no_state(tmp_path: Path) -> None:
    step = [("+", 1, FORWARD), ("-", 1, [ENGINE]), ("+", 5, STEP), ("+", 6, STEP)]
    run = made_of(tmp_path, [*step, ("+", 2, FORWARD), ("-", 5, FORWARD), ("-", 2, [ENGINE]), ("+", 7, STEP)])
    assert category_at(run, 5) == UNKNOWN
    assert category_at(run, 6) == [Category.optimizer_state]


def test_as_many_as_gradients_are_parameters_and_more_are_not(tmp_path: Path) -> None:
    step = [("+", 1, FORWARD), ("+", 4, [ENGINE]), ("-", 1, [ENGINE]), ("+", 5, STEP), ("-", 4, ZERO)]
    one = made_of(tmp_path, step, segments=alive(80))
    assert category_at(one, 80) == [Category.parameter]
    assert (category_at(one, 4), category_at(one, 5)) == ([Category.gradient], [Category.optimizer_state])
    two = made_of(tmp_path, step, segments=alive(80, 81))
    assert category_at(two, 80) == category_at(two, 81) == UNKNOWN
    twice = [(sign, at + 10 if at > 1 else at, frames) for sign, at, frames in step]
    steps = made_of(tmp_path, step + twice, segments=alive(80, 81))  # two gradients, but one at a time
    assert category_at(steps, 80) == category_at(steps, 81) == UNKNOWN
    none = made_of(tmp_path, step)  # what the optimizer left may be the parameter itself
    assert category_at(none, 5) == UNKNOWN
    assert dict(none.not_inferred_at(none.n_events)) == {Why.replaced: 1000}


def test_what_zero_grad_frees_is_a_gradient_unless_forward_made_it(tmp_path: Path) -> None:
    run = made_of(
        tmp_path,
        [("+", 1, FORWARD), ("+", 2, FORWARD), ("+", 4, [ENGINE]), ("-", 1, [ENGINE]), ("+", 3, STEP), ("-", 2, ZERO),
         ("-", 4, ZERO), ("-", 90, ZERO)],
    )  # fmt: skip
    assert category_at(run, 2) == UNKNOWN
    assert category_at(run, 4) == category_at(run, 90) == [Category.gradient]


def test_what_a_recomputation_makes_and_frees_at_once_is_temporary(tmp_path: Path) -> None:
    again = [MODULE, ("recompute_fn", "/env/torch/utils/checkpoint.py"), ENGINE]
    run = made_of(
        tmp_path,
        [("+", 1, FORWARD), ("+", 2, again), ("+", 3, again), ("-", 2, again), ("-", 3, [ENGINE]), ("-", 1, [ENGINE])],
    )
    assert category_at(run, 2) == [Category.temporary]
    assert category_at(run, 3) == [Category.rematerialized]


def test_a_backward_pass_of_which_no_stack_tells_lies_between_forward_and_optimizer(tmp_path: Path) -> None:
    other = [("+", 9, [LOOP]), ("-", 9, [LOOP])]  # both kinds of events were recorded with stacks
    run = made_of(tmp_path, [*other, ("+", 1, FORWARD), ("-", 1, []), ("+", 2, []), ("+", 3, STEP)])
    assert phases(run)[2:] == [Phase.forward, Phase.backward, Phase.backward, Phase.optimizer]
    assert category_at(run, 1) == [Category.activation]
    assert not run.inferred.phases.evident[3:5].any()


@pytest.mark.parametrize("inner", [True, False])
def test_a_module_called_by_an_optimizer_is_forward_and_an_optimizer_called_by_a_module_is_not(
    tmp_path: Path, inner: bool
) -> None:
    frames = [MODULE, *STEP] if inner else [*STEP, MODULE]
    run = made_of(tmp_path, [("+", 1, FORWARD), ("-", 1, [ENGINE]), ("+", 2, frames)])
    assert phases(run)[2] == (Phase.forward if inner else Phase.optimizer)


def test_a_schedule_of_learning_rates_and_a_new_optimizer_are_no_step(tmp_path: Path) -> None:
    schedule = [("step", "/env/torch/optim/lr_scheduler.py"), LOOP]
    made = [("__init__", "/env/torch/optim/adamw.py"), LOOP]
    run = made_of(tmp_path, [("+", 1, FORWARD), ("-", 1, [ENGINE]), ("+", 2, STEP), ("+", 3, schedule), ("+", 4, made)])
    assert phases(run)[2:] == [Phase.optimizer, Phase.other, Phase.other]
    assert category_at(run, 3) == category_at(run, 4) == UNKNOWN


CALL = [("_engine_run_backward", "/env/torch/autograd/graph.py"), ("backward", "/env/torch/_tensor.py"), LOOP]


@pytest.mark.parametrize(
    ("rest", "whole"),
    [
        ([("+", 6, CALL), ("+", 2, [ENGINE]), ("-", 6, CALL)], True),  # the call of backward returned
        ([("+", 2, [ENGINE]), ("-", 6, [ENGINE])], False),
        ([("+", 2, [ENGINE]), ("+", 6, CALL)], False),  # it only begins
        ([("+", 2, CALL), ("-", 6, CALL)], False),  # nothing of the engine was seen yet
        ([("+", 2, [ENGINE]), ("-", 6, [*CALL, ENGINE])], False),  # a call inside the engine is not the program's
        ([("+", 2, [ENGINE]), ("+", 7, [LOOP])], True),  # something else came
    ],
)
def test_what_backward_leaves_is_a_gradient_once_its_end_is_seen(tmp_path: Path, rest: Any, whole: bool) -> None:
    run = made_of(tmp_path, [("+", 1, FORWARD), *rest])
    assert category_at(run, 2) == [Category.gradient if whole else Category.unattributed]


def test_what_lies_between_a_recomputation_and_backward_is_backward(tmp_path: Path) -> None:
    again = [MODULE, ("recompute_fn", "/env/torch/utils/checkpoint.py"), ENGINE]
    run = made_of(tmp_path, [("+", 1, FORWARD), ("+", 2, again), ("+", 8, [LOOP]), ("-", 1, [ENGINE])])
    assert phases(run) == [Phase.forward, Phase.recompute, Phase.backward, Phase.backward]
    assert run.inferred.phases.evident.tolist() == [True, True, False, True]


def test_a_function_whose_stack_begins_with_its_apply_runs_on_a_thread_of_the_engine(tmp_path: Path) -> None:
    own, apply = ("backward", "/home/user/function.py"), ("apply", "/env/torch/autograd/function.py")
    run = made_of(
        tmp_path, [("+", 1, FORWARD), ("+", 2, [own, apply]), ("-", 1, [ENGINE]), ("+", 3, [own, apply, LOOP])]
    )
    assert phases(run) == [Phase.forward, Phase.backward, Phase.backward, Phase.other]
