"""The rules by which a plain snapshot is inferred, each on a trace written down event by event."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

from memstrata.capture.format.schema import Category, Phase
from memstrata.viewer.model.inference import Why
from memstrata.viewer.model.run import Run
from memstrata.viewer.sources import open_file

MODULE = ("_call_impl", "/env/torch/nn/modules/module.py")
LOOP = ("train", "/home/user/train.py")
ENGINE = ("torch::autograd::Engine::evaluate_function(std::shared_ptr<x>&)", "??")
STEP = [("step", "/env/torch/optim/adamw.py"), ("wrapper", "/env/torch/optim/optimizer.py"), LOOP]
ZERO = [("zero_grad", "/env/torch/optim/optimizer.py"), LOOP]
LIGHTNING = [("closure", "/env/lightning/loops/optimization.py"), *STEP]


def made_of(tmp_path: Path, events: list[tuple[str, int, list[tuple[str, str]]]], **more: Any) -> Run:
    """A trace of (`+` or `-`, address, frames); every allocation has 1,000 bytes."""
    actions = {"+": "alloc", "-": "free_completed"}
    trace = [
        {"action": actions[sign], "addr": 4096 * at, "size": 1000, "stream": 0, "time_us": 1000 + i,
         "frames": [{"name": n, "filename": f, "line": 1} for n, f in frames]}
        for i, (sign, at, frames) in enumerate(events)
    ]  # fmt: skip
    path = tmp_path / "made.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace], **more}))
    return Run(open_file(path))


def phases(run: Run) -> list[Phase]:
    assert run.inferred is not None
    return [Phase(p) for p in run.inferred.phases.phase.tolist()]


def category_at(run: Run, address: int) -> list[Category]:
    rows = np.flatnonzero(run.allocations.address == 4096 * address).tolist()
    return [Category(int(run.attribution.category[row])) for row in rows]


def test_each_rule_by_hand(tmp_path: Path) -> None:
    forward = [MODULE, LOOP]
    run = made_of(
        tmp_path,
        [
            ("+", 1, forward), ("+", 2, forward), ("-", 2, forward), ("+", 3, forward), ("+", 9, [LOOP]),
            ("+", 4, [ENGINE]), ("+", 5, [ENGINE]), ("-", 1, [ENGINE]), ("-", 5, [ENGINE]),
            ("+", 6, STEP), ("+", 7, STEP), ("-", 7, STEP), ("-", 4, ZERO), ("+", 8, [LOOP]),
        ],
    )  # fmt: skip
    assert category_at(run, 1) == [Category.activation]
    assert category_at(run, 2) == [Category.temporary]
    assert category_at(run, 3) == [Category.unattributed]  # held by the program
    assert category_at(run, 4) == [Category.gradient]
    assert category_at(run, 5) == [Category.temporary]  # a gradient of an activation
    assert category_at(run, 6) == [Category.optimizer_state]
    assert category_at(run, 7) == [Category.temporary]
    assert category_at(run, 8) == category_at(run, 9) == [Category.unattributed]
    assert phases(run)[4] == Phase.forward  # the loss: between forward and backward
    assert run.inferred is not None and not run.inferred.phases.evident[4]
    assert run.inferred.steps == ((0, 12),)


def test_two_optimizers_make_one_step(tmp_path: Path) -> None:
    step = [("+", 1, [MODULE]), ("+", 2, [ENGINE]), ("-", 1, [ENGINE]), ("+", 3, STEP), ("-", 2, ZERO), ("+", 4, STEP)]
    run = made_of(tmp_path, [*step, ("+", 5, [MODULE]), ("+", 6, [ENGINE]), ("-", 5, [ENGINE]), ("-", 3, STEP)])
    assert run.inferred is not None and run.inferred.steps == ((0, 6),)


def test_a_pass_that_the_trace_cuts_says_nothing_of_what_it_leaves(tmp_path: Path) -> None:
    run = made_of(tmp_path, [("+", 1, [MODULE]), ("-", 1, [ENGINE]), ("+", 2, [ENGINE])])
    assert category_at(run, 1) == [Category.activation]
    assert category_at(run, 2) == [Category.unattributed]
    assert dict(run.not_inferred_at(3)) == {Why.cut: 1000}


def test_a_closure_inside_the_optimizer_step_is_forward_and_backward(tmp_path: Path) -> None:
    backward = [("backward", "/env/torch/_tensor.py"), *LIGHTNING]
    run = made_of(
        tmp_path,
        [("+", 1, [MODULE, *LIGHTNING]), ("+", 2, LIGHTNING), ("+", 3, backward), ("-", 1, [ENGINE]), ("+", 4, STEP)],
    )
    assert phases(run) == [Phase.forward, Phase.forward, Phase.backward, Phase.backward, Phase.optimizer]


def test_a_reentrant_checkpoint_recomputes_and_then_runs_backward(tmp_path: Path) -> None:
    outer = [("backward", "/env/torch/utils/checkpoint.py"), ("apply", "/env/torch/autograd/function.py")]
    inner = [("_engine_run_backward", "/env/torch/autograd/graph.py"), ("backward", "/env/torch/autograd/__init__.py")]
    run = made_of(
        tmp_path, [("+", 1, [MODULE, LOOP]), ("+", 2, [MODULE, *outer, ENGINE]), ("+", 3, [*inner, *outer, ENGINE]),
                   ("-", 2, [*inner, *outer, ENGINE]), ("-", 1, [ENGINE])],
    )  # fmt: skip
    assert phases(run) == [Phase.forward, Phase.recompute, Phase.backward, Phase.backward, Phase.backward]
    assert category_at(run, 2) == [Category.rematerialized]


def test_annotations_name_phases_and_steps_where_stacks_do_not(tmp_path: Path) -> None:
    told = [
        (0, "ProfilerStep#7", 6),
        (0, "## forward ##", 2),
        (2, "## backward ##", 4),
        (4, "Optimizer.step#SGD.step", 6),
    ]
    notes = [
        {"stage": stage, "name": name, "device": 0, "time_us": 1000 + at}
        for first, name, last in told
        for stage, at in (("START", first), ("END", last))
    ]
    events = [("+", 1), ("+", 2), ("-", 2), ("-", 1), ("+", 3), ("-", 3), ("+", 4)]
    run = made_of(tmp_path, [(sign, at, [LOOP]) for sign, at in events], external_annotations=notes)
    assert phases(run)[:6] == 2 * [Phase.forward] + 2 * [Phase.backward] + 2 * [Phase.optimizer]
    assert category_at(run, 1) == [Category.activation]
    assert category_at(run, 3) == [Category.temporary]
    assert run.inferred is not None and run.inferred.steps == ((0, 6),)


def test_frees_without_stacks_are_not_taken_for_the_engine(tmp_path: Path) -> None:
    """Where only allocations were recorded with stacks, a free without one says nothing of its thread."""
    backward = [("backward", "/env/torch/_tensor.py"), LOOP]
    run = made_of(tmp_path, [("+", 1, [MODULE]), ("+", 2, backward), ("-", 2, []), ("+", 3, STEP)])
    assert phases(run)[2] == Phase.other
