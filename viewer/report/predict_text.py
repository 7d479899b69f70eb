"""The arithmetic of a shape in 80 columns: the plain count, what kernels change, and the budget it is one line of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from memstrata.capture.format.plan import ModelShape, Plan

from ..analysis.budget import Budget, activations, budget, stage_activations
from ..analysis.in_flight import in_flight
from ..analysis.kernels import Kernels, ModelFacts, changes, with_kernels
from ..analysis.parallel import Parallel
from ..analysis.prediction import predict
from ..analysis.shape import not_counted
from ..analysis.what_else import Alternative, alternatives
from ..look.units import bytes_text, count_text, difference_text, ratio_text
from .layout import joined, section, table, wrapped
from .terms import terms_json, terms_lines
from .text import OUTSIDE, WITH_OUTSIDE, prediction_rows

ESTIMATE = "estimate: not measured"
ESTIMATED = ("temporaries", "communication")
"""Lines of the budget that no kernel was measured for."""


@dataclass(frozen=True)
class Asked:
    """What the count is for: kernels, how the model is spread, and what widths do not tell."""

    kernels: Kernels = field(default_factory=Kernels)
    parallel: Parallel = field(default_factory=lambda: Parallel(zero=3, data=64))
    facts: ModelFacts = field(default_factory=ModelFacts)


def predict_text(name: str, shape: ModelShape, plan: Plan, asked: Asked | None = None) -> str:
    """What the shapes of a model say under a plan: answer, arithmetic, kernels, budget."""
    asked = asked or Asked()
    prediction = predict(shape, plan)
    length = max(len(segment) for segment in plan.segments)
    each = f"with one for every {count_text(length, 'layer')}" if length > 1 else "with one for each layer"
    answer = (
        f"{bytes_text(prediction.total_bytes)} of activations without checkpoints,"
        f" {bytes_text(prediction.checkpointed_peak_bytes)} {each}:"
        f" {f'{ratio_text(prediction.ratio)} less' if prediction.ratio > 1 else 'no gain'}"
    )
    layers, tokens = count_text(len(shape.layers), "layer"), count_text(shape.tokens, "token")
    if is_estimate(shape):
        answer += " (estimate)"
    if prediction.outside_bytes:
        answer += f". Outside the layers {bytes_text(prediction.outside_bytes)} more when backward begins"
        if prediction.timeline_peak_bytes > prediction.layers_peak_bytes:
            answer += f", which makes the peak {bytes_text(prediction.timeline_peak_bytes)}"
    if left_out := not_counted(shape):
        answer = f"At least {answer}; what {left_out} keep is unknown"
    if is_unknown(shape):
        answer = f"Activations: unknown; what {left_out} keep is not known here"
    lines = [*wrapped(f"{name}: {layers}, hidden {shape.hidden}, {tokens}"), *wrapped(answer)]
    title = f"Activations{f' ({ESTIMATE})' if is_estimate(shape) else ''}"
    if not is_unknown(shape):
        lines += section(title, table(("", "bytes"), prediction_rows(prediction, len(plan.segments))))
    lines += terms_lines(shape)
    for part in (_kernels, _budget, _stages, _alternatives) if not is_unknown(shape) else ():
        lines += part(shape, plan, asked)
    for assumption in shape.assumptions:
        lines += wrapped(f"assumed: {assumption}", indent="  ")
    return joined(lines)


def is_estimate(shape: ModelShape) -> bool:
    """Whether a kind of layer was counted for a kernel that was not measured."""
    return any(layer.estimate for layer in shape.layers)


def is_unknown(shape: ModelShape) -> bool:
    """Whether no layer is of a known kind: then there is no figure, and none is 0."""
    return not any(layer.terms for layer in shape.layers)


def _kernels(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    """From the plain count to what these kernels keep."""
    found = changes(shape, asked.kernels, asked.facts)
    if not found:
        return []
    full = with_kernels(shape, asked.kernels, asked.facts)
    before, after = predict(shape), predict(full, plan)
    rows = [("by widths, all layers", bytes_text(before.total_bytes))]
    rows += [(f"{each.name} ({each.layers}) = {each.formula}", difference_text(each.bytes)) for each in found]
    rows += [("with kernels, all layers", bytes_text(after.total_bytes))]
    rows += [("with kernels, checkpointed peak", bytes_text(after.checkpointed_peak_bytes))]
    if after.outside_bytes:
        rows += [(OUTSIDE, bytes_text(after.outside_bytes)), (WITH_OUTSIDE, bytes_text(after.timeline_peak_bytes))]
    mark = "" if asked.kernels.measured else f" ({ESTIMATE})"
    return section(f"What kernels keep{mark}: {asked.kernels}", table(("", "bytes"), rows))


def _budget(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    full = with_kernels(shape, asked.kernels, asked.facts)
    plain = budget(shape, plan, asked.parallel)
    kernels = budget(shape, plan, asked.parallel, asked.kernels)
    kernels = replace(kernels, activations=activations(full, plan, asked.parallel))
    found = zip(budget_rows(plain), budget_rows(kernels), strict=True)
    rows = [(name, size, other if other != size else "") for (name, size), (_, other) in found]
    rows.insert(3, ("  these three together", bytes_text(plain.persistent_bytes), ""))
    parameters = f"{'at least ' if not_counted(shape) else ''}{count_text(shape.parameters)}"
    title = f"Budget of one rank of {asked.parallel.ranks} ({_degrees(asked.parallel)}): {parameters} parameters,"
    head = ("", _by_widths(shape), "with kernels (estimate)")
    return section(f"{title} 16 bytes of state each", table(head, rows))


def _by_widths(shape: ModelShape) -> str:
    least = ", at least" if not_counted(shape) else ""
    return f"by widths{least}{' (estimate)' if is_estimate(shape) else ''}"


def _degrees(parallel: Parallel) -> str:
    said = [f"ZeRO stage {parallel.zero}"]
    for name in ("data", "tensor", "sequence", "pipeline", "microbatches"):
        if getattr(parallel, name) > 1:
            said.append(f"{name} {getattr(parallel, name)}")
    return ", ".join(said)


def _stages(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    if asked.parallel.pipeline == 1:
        return []
    sizes = stage_activations(shape, plan, asked.parallel)
    rows = [
        (f"stage {stage}", str(count), bytes_text(size))
        for stage, (count, size) in enumerate(zip(in_flight(asked.parallel), sizes, strict=True))
    ]
    head = ("one forward, one backward each", "microbatches in flight", "activations")
    return section(f"Pipeline, {_by_widths(shape)}", table(head, rows))


def _alternatives(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    found = alternatives(shape, plan, asked.parallel, asked.kernels, asked.facts)
    rows = [(each.name, difference_text(-each.saved_bytes)) for each in found]
    lines = table(("by shapes, one rank (estimates)", "bytes"), rows)
    return section("What else would help", [*lines, *(t for each in found for t in wrapped(each.text, indent="  "))])


def budget_rows(budget: Budget) -> list[tuple[str, str]]:
    """The lines of a budget; what shapes do not say is left open."""
    out = []
    for name, size in budget.lines():
        mark = " (estimate)" if name in ESTIMATED and size is not None else ""
        out.append((name + mark, "not from shapes" if size is None else bytes_text(size)))
    return out


def predict_json(shape: ModelShape, plan: Plan, asked: Asked) -> dict[str, Any]:
    """The object that `memstrata predict --json` prints, exact integers; `estimate` marks what was not measured, and
    `not_counted` names the kinds of layers that figures leave out. Where no kind is known they are null."""
    if is_unknown(shape):
        found = dict.fromkeys(predict(shape, plan).as_json())
        return found | _about(shape)
    full = with_kernels(shape, asked.kernels, asked.facts)
    after = predict(full, plan)
    lines = budget(shape, plan, asked.parallel, asked.kernels)
    return predict(shape, plan).as_json() | {
        **_about(shape),
        "with_kernels": {
            "kernels": str(asked.kernels),
            "estimate": not asked.kernels.measured,
            "total_bytes": after.total_bytes,
            "checkpointed_peak_bytes": after.checkpointed_peak_bytes,
            "changes": [
                {"name": each.name, "layers": each.layers, "bytes": each.bytes, "formula": each.formula,
                 "estimate": each.estimate}
                for each in changes(shape, asked.kernels, asked.facts)
            ],
            "outside_layers_bytes": after.outside_bytes,
            "peak_bytes": after.timeline_peak_bytes,
            "terms": terms_json(full),
        },
        "budget": {
            "ranks": asked.parallel.ranks,
            **{f"{name.replace(' ', '_')}_bytes": size for name, size in lines.lines()},
            "persistent_bytes": lines.persistent_bytes,
            "with_kernels_activations_bytes": activations(full, plan, asked.parallel),
            "estimates": [name for name in ESTIMATED if getattr(lines, name) is not None],
        },
        "microbatches_in_flight": in_flight(asked.parallel),
        "activations_by_stage": stage_activations(shape, plan, asked.parallel),
        "alternatives": [_alternative(each) for each in
                         alternatives(shape, plan, asked.parallel, asked.kernels, asked.facts)],
    }  # fmt: skip


def _about(shape: ModelShape) -> dict[str, Any]:
    return {
        "estimate": is_estimate(shape),
        "not_counted": not_counted(shape) or None,
        "assumptions": list(shape.assumptions),
        "terms": terms_json(shape),
    }


def _alternative(each: Alternative) -> dict[str, Any]:
    return {"name": each.name, "saved_bytes": each.saved_bytes, "estimate": True, "text": each.text}
