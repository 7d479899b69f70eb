"""Where in the step a position is: phase, super-block, layer or module, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass

from memstrata.capture.format.schema import NONE, Category, Phase

from ..look import words
from ..model.query import AllocationQuery
from ..model.run import Run

TRANSIENT = frozenset((Category.activation, Category.rematerialized, Category.temporary))


@dataclass(frozen=True)
class Place:
    """-1 and the empty string where something is unknown or does not apply."""

    phase: Phase | None
    layer: int
    super_block: int
    module: str
    text: str
    """`backward of super-block 2 (layers 8-11)`; empty where the file knows no phases."""


def place_of(run: Run, position: int) -> Place:
    """The innermost span around the event that led to this position."""
    rows = run.spans.at(position)
    if not len(rows):
        return _inferred(run, position)
    phase = Phase(int(run.spans.phase[rows[-1]]))
    inside = [row for row in rows.tolist() if run.spans.layer[row] != NONE]
    layer = int(run.spans.layer[inside[-1]]) if inside else NONE
    block = int(run.spans.super_block[inside[-1]]) if inside else NONE
    modules = [int(run.spans.module[row]) for row in rows.tolist() if run.spans.module[row] > 0]
    module = run.recording.strings[int(run.recording.modules.path[modules[-1]])] if modules else ""
    return Place(phase, layer, block, module, _text(run, phase, layer, block, module))


def _inferred(run: Run, position: int) -> Place:
    """The phase as a plain snapshot tells it; nothing where it does not."""
    found = run.inferred.phases.phase if run.inferred is not None else ()
    phase = Phase(int(found[position - 1])) if 0 < position <= len(found) else Phase.other
    if phase == Phase.other:
        return Place(None, NONE, NONE, "", "")
    word = "the optimizer step" if phase == Phase.optimizer else words.phase_text(phase)
    return Place(phase, NONE, NONE, "", f"{word} (inferred)")


def _text(run: Run, phase: Phase, layer: int, block: int, module: str) -> str:
    if block != NONE:
        return f"{words.phase_text(phase)} of {super_block_text(run, block)}"
    if phase == Phase.optimizer:
        return "the optimizer step"
    if phase == Phase.other:
        return "outside forward, backward and optimizer"
    if module:
        return f"{words.phase_text(phase)} of {module}"
    return f"{words.phase_text(phase)}, {words.OUTSIDE_LAYERS}"


def set_outside_layers(run: Run, position: int, layer_activations: int | None = None) -> bool:
    """Whether what comes and goes in a step is here mostly outside layers, as where a head's logits set the peak.
    `layer_activations` replaces the bytes measured as activations of layers, for an estimate."""
    if not len(run.layers):
        return False
    query = AllocationQuery(position=position, categories=TRANSIENT)
    rows = query.select(run)
    outside = run.attribution.layer[rows] < 0
    total = int(run.allocations.bytes[rows].sum())
    beyond = int(run.allocations.bytes[rows[outside]].sum())
    inside = total - beyond if layer_activations is None else layer_activations
    return beyond > inside


def outside_text(run: Run, position: int) -> str:
    """`outside layers in backward of head`, for a position where that is what counts."""
    where = place_of(run, position).text.removesuffix(f", {words.OUTSIDE_LAYERS}")
    return f"{words.OUTSIDE_LAYERS} in {where}" if where else words.OUTSIDE_LAYERS


def super_block_text(run: Run, block: int) -> str:
    """The super-block's name, which is the layer's own where it holds just one."""
    return run.layers.super_blocks[block].name
