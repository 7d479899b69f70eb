"""The commands that answer what would be: shapes alone, other sizes, plans, other changes, the allocator."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from .saying import UserError, name_of, print_json, print_text, say

_T = TypeVar("_T")


def predict(options: argparse.Namespace) -> int:
    """Bytes from shapes alone."""
    from .analysis.kernels import parse_kernels
    from .analysis.model_facts import facts_of_file, facts_of_preset
    from .analysis.parallel import parse_parallel
    from .analysis.shape_config import shape_of_file
    from .analysis.shape_presets import preset
    from .report.predict_text import Asked, predict_json, predict_text

    name = options.preset if options.config is None else name_of(options.config)
    shape = preset(options.preset) if options.config is None else shape_of_file(options.config)
    if options.tokens is not None:
        shape = _named("--tokens", shape.with_tokens, options.tokens)
    length = options.segment_layers
    plan = shape.per_super_block() if length is None else _named("--segment-layers", shape.every, length)
    facts = facts_of_preset(name, shape) if options.config is None else facts_of_file(options.config, shape)
    asked = Asked(parse_kernels(options.kernels), parse_parallel(options.parallel), facts)
    return say(options, lambda: predict_json(shape, plan, asked), lambda: predict_text(name, shape, plan, asked))


def _named(option: str, made: Callable[[int], _T], value: int) -> _T:
    """What that makes of the value; where it cannot, the sentence begins with the option."""
    try:
        return made(value)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from error


def scale(options: argparse.Namespace) -> int:
    """How a step grows with batch and sequence, from recordings of two sizes or more."""
    from .analysis.opened import runs_of_files
    from .analysis.scaling import scaling
    from .look.units import parse_bytes
    from .report.scaling_text import AskedSize, scaling_json, scaling_text

    budget = None if options.budget is None else parse_bytes(options.budget)
    asked = AskedSize(budget, options.batch, options.to)
    found = scaling(runs_of_files(options.files))
    return say(options, lambda: scaling_json(found, asked), lambda: scaling_text(found, asked))


def plan(options: argparse.Namespace) -> int:
    """Peaks of checkpoint plans, and the code of the best."""
    from .analysis.opened import run_of_file
    from .look.units import parse_bytes
    from .report.plan_text import Asked, plan_json, plan_text, plans

    budget = None if options.budget is None else parse_bytes(options.budget)
    found = plans(run_of_file(options.file), Asked(budget, options.segment_layers, options.keep))
    return say(options, lambda: plan_json(found), lambda: plan_text(found))


def what_else(options: argparse.Namespace) -> int:
    """Other changes than checkpoints."""
    from .analysis.opened import run_of_file
    from .analysis.parallel import parse_parallel
    from .report.what_else_text import AskedElse, what_else, what_else_json, what_else_text

    asked = AskedElse(options.segment_layers, parse_parallel(options.parallel))
    found = what_else(run_of_file(options.file), asked)
    return say(options, lambda: what_else_json(found), lambda: what_else_text(found))


def allocator(options: argparse.Namespace) -> int:
    """The caching allocator's side of a file, as it was and under other settings or a plan."""
    from .analysis.allocator.answer import Question
    from .look.units import parse_bytes
    from .report.allocator_json import allocator_json
    from .report.allocator_text import allocator_text
    from .sources import open_file

    capacity = None if options.capacity is None else parse_bytes(options.capacity)
    if options.segment_layers is not None:
        return _planned(options, capacity)
    question = Question(options.conf, capacity, tuple(options.empty_cache_at))
    recording, name = open_file(options.file), name_of(options.file)
    if options.json:
        print_json(allocator_json(recording, name, question))
    else:
        print_text(allocator_text(recording, name, question))
    return 0


def _planned(options: argparse.Namespace, capacity: int | None) -> int:
    from .analysis.opened import run_of_file
    from .report.planned_text import planned, planned_json, planned_text

    if options.empty_cache_at:
        raise UserError(
            "--empty-cache-at counts events of the recorded step, which --segment-layers puts in a new order"
        )
    run = run_of_file(options.file)
    said = planned(run, options.segment_layers, options.conf, capacity)
    return say(options, lambda: planned_json(run, said), lambda: planned_text(run, said))
