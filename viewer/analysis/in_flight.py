"""Microbatches whose activations a pipeline stage holds at once, in a schedule of one forward and one backward each."""

from __future__ import annotations

from .parallel import Parallel


def in_flight(parallel: Parallel) -> list[int]:
    """For each pipeline stage, first to last: a stage runs ahead by as many forwards as there are stages from it to
    the end, and never by more than there are microbatches (1F1B)."""
    return [min(parallel.pipeline - stage, parallel.microbatches) for stage in range(parallel.pipeline)]
