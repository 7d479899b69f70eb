"""Findings about the step as a whole: the head, caches, gradients, optimizer state, the allocator."""

from __future__ import annotations

import numpy as np

from memstrata.capture.format.schema import NONE, Category, Phase

from ..look.units import bytes_text, percent_text
from ..model.failed import failed_allocations, largest_failed
from ..model.query import AllocationQuery
from ..model.run import Run
from ..model.stacks import mentions
from .finding import Finding, bytes_of, highest, of_rows
from .place import TRANSIENT, outside_text, place_of, set_outside_layers

FRAGMENTED = 0.10
"""Share of reserved memory that is cached when most is reserved, above which it is worth a line."""

_OF_THE_LOSS = (Phase.forward, Phase.recompute, Phase.backward)
"""Where there can be logits: an optimizer's own memory is outside layers, too."""


def outside_layers_dominate(run: Run) -> Finding | None:
    """Logits and loss, say, are most of what comes and goes at the peak."""
    position = run.peak_position
    if "spans" not in run.capabilities or not set_outside_layers(run, position):
        return None
    place = place_of(run, position)
    if place.layer != NONE or place.phase not in _OF_THE_LOSS:  # hidden states between small layers are no logits
        return None
    rows = AllocationQuery(position=position, categories=TRANSIENT).select(run)
    rows = rows[run.attribution.layer[rows] < 0]
    size = bytes_of(run, rows)
    return Finding(
        "logits_dominate", size,
        f"{bytes_text(size)} of the peak is {outside_text(run, position)}, more than what all layers hold then.",
        "Compute head and loss in chunks of the sequence, so that the logits are never there as a whole; more"
        " checkpointing of layers will not lower this peak.",
        of_rows(rows, position),
    )  # fmt: skip


def autocast_cache(run: Run) -> Finding | None:
    """Cast copies of weights, which live until autocast exits."""
    rows = np.flatnonzero(run.attribution.category == Category.autocast_cache)
    position, size = highest(run, rows)
    if not size:
        return None
    how = " (inferred)" if run.attribution.inferred[rows].any() else ""
    return Finding(
        "autocast_cache", size,
        f"autocast holds up to {bytes_text(size)} of weights cast to another dtype{how}.",
        "torch.autocast(..., cache_enabled=False) frees each copy after its use and casts it again; inside checkpoint"
        " segments the cache saves nothing anyway.",
        of_rows(rows, position),
    )  # fmt: skip


def gradients_alive_in_forward(run: Run) -> Finding | None:
    """Gradients of the step before, which forward has no use for."""
    forward = np.flatnonzero(run.spans.phase == Phase.forward)
    backward = np.flatnonzero(run.spans.phase == Phase.backward)
    if not len(forward) or not len(backward):
        return None
    begin = int(run.spans.start_position[backward].min())  # forward is over, and holds the most it ever does
    gradients = run.attribution.category == Category.gradient
    made = run.allocations.start <= int(run.spans.start_position[forward].min())
    rows = np.flatnonzero(gradients & made & (run.allocations.end > begin))
    size = bytes_of(run, rows)
    if not size:
        return None
    return Finding(
        "gradients_in_forward", size,
        f"{bytes_text(size)} of gradients from the step before are alive through forward.",
        "Call zero_grad(set_to_none=True) before forward, unless gradients are being accumulated.",
        of_rows(rows, begin),
    )  # fmt: skip


def optimizer_state_made_at_the_peak(run: Run) -> Finding | None:
    """The first step makes the optimizer's state, after backward: a peak that no later step has."""
    position = run.peak_position
    state = (run.attribution.category == Category.optimizer_state) & ~run.attribution.inferred
    alive = (run.allocations.start <= position) & (position < run.allocations.end)
    rows = np.flatnonzero(state & alive & ~run.allocations.before)
    size = bytes_of(run, rows)
    if not size:
        return None
    return Finding(
        "optimizer_state_at_peak", size,
        f"{bytes_text(size)} of optimizer state is first allocated in this step, at its peak.",
        "Record a later step: it has the state from its beginning, and another peak.",
        of_rows(rows, position),
    )  # fmt: skip


_BY_ALL = (
    "foreach=False updates one parameter after the other, which takes more calls, and holds those of one only;"
    " fused=True, where the optimizer has it, holds none, and its results can differ in the last digits"
)
_BY_ONE = "fused=True, where the optimizer has it, holds none of them, and its results can differ in the last digits"
_WAYS = {"_multi_tensor_": _BY_ALL, "_single_tensor_": _BY_ONE}
"""How torch names the functions of `torch.optim` that update all parameters at once, and one by one."""


def optimizer_temporaries(run: Run) -> Finding | None:
    """What the optimizer computes with while it updates, where that sets the peak."""
    position = run.peak_position
    if place_of(run, position).phase != Phase.optimizer:
        return None
    rows = AllocationQuery(position=position, category=Category.temporary, phase=Phase.optimizer).select(run)
    for function, way in _WAYS.items():
        inside = np.append(mentions(run.recording, f"^{function}"), False)  # the last is for no stack
        if size := bytes_of(run, own := rows[inside[run.allocations.stack[rows]]]):
            return Finding(
                "optimizer_temporaries", size,
                f"{bytes_text(size)} of the peak is what the optimizer computes with while it updates parameters.",
                f"{way}; more checkpointing of layers will not lower this peak.",
                of_rows(own, position),
            )  # fmt: skip
    return None


def fragmentation(run: Run) -> Finding | None:
    """Reserved memory that no tensor uses when most is active."""
    if run.reserved is None or not len(run.reserved):
        return None
    position = run.peak_position
    reserved = int(run.reserved[position])
    cached = reserved - int(run.curve[position])
    if not reserved or cached <= FRAGMENTED * reserved:
        return None
    return Finding(
        "fragmentation", cached,
        f"{percent_text(cached / reserved)} of the memory reserved at the peak is not in use: {bytes_text(cached)} of"
        f" {bytes_text(reserved)} is rounding and blocks that fitted no request.",
        "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and see `memstrata allocator` for what it would do.",
        AllocationQuery(position=position), (reserved,),
    )  # fmt: skip


def out_of_memory(run: Run) -> Finding | None:
    """The largest request that was not met, and what there was instead."""
    failed = largest_failed(run)
    if failed is None:
        return None
    (position, size), times = failed, len(failed_allocations(run))
    where = place_of(run, position).text
    asked = f"{bytes_text(size)} more was asked for{' in ' * bool(where)}{where} and not to be had"
    which = f" (the largest of {times} such requests)" if times > 1 else ""
    alive, free = int(run.curve[position]), ""
    sizes = [alive]
    if run.reserved is not None:
        reserved = int(run.reserved[position])
        sizes += [reserved - alive, reserved]
        free = f", {bytes_text(reserved - alive)} of the {bytes_text(reserved)} reserved was not in use"
    return Finding(
        "out_of_memory", size,
        f"{asked}{which}: {bytes_text(alive)} was alive then{free}.",
        "What was alive then has to become less: look at its largest allocations first, and at the allocator for how"
        " far what was free was in one piece.",
        AllocationQuery(position=position), tuple(sizes),
    )  # fmt: skip
