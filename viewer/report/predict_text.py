"""The arithmetic of a shape in 80 columns: the plain count, what kernels change, and the budget it is one line of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from memstrata.capture.format.plan import LayerShape, ModelShape, Plan

from ..analysis.budget import Budget, activations, budget, peak_in_flight
from ..analysis.in_flight import in_flight
from ..analysis.kernels import Kernels, ModelFacts, changes, outside, with_kernels
from ..analysis.parallel import Parallel
from ..analysis.prediction import predict
from ..analysis.shape import not_counted
from ..analysis.what_else import Alternative, alternatives
from ..look.units import bytes_text, count_text, difference_text, ratio_text
from .layout import joined, section, table, wrapped
from .text import prediction_rows

ESTIMATE = "estimate: not measured"


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
    if any(text.startswith("estimate") for text in shape.assumptions):
        answer += " (estimate)"
    if left_out := not_counted(shape):
        answer = f"At least {answer}; what {left_out} keep is unknown"
    lines = [*wrapped(f"{name}: {layers}, hidden {shape.hidden}, {tokens}"), *wrapped(answer)]
    lines += section("Activations", table(("", "bytes"), prediction_rows(prediction, len(plan.segments))))
    for layer, count in _kinds(shape):
        title = "One layer, values per token" if len(_kinds(shape)) == 1 else f"{layer.kind}, {count} layers"
        lines += section(title, _terms(shape, layer))
    lines += _kernels(shape, plan, asked) + _budget(shape, plan, asked) + _stages(shape, plan, asked)
    lines += _alternatives(shape, plan, asked)
    for assumption in shape.assumptions:
        lines += wrapped(f"assumed: {assumption}", indent="  ")
    return joined(lines)


def _kinds(shape: ModelShape) -> list[tuple[LayerShape, int]]:
    """The first layer of each kind, and how many there are."""
    found: dict[tuple[str, int], list[LayerShape]] = {}
    for layer in shape.layers:
        found.setdefault((layer.kind, layer.width), []).append(layer)
    return [(layers[0], len(layers)) for layers in found.values()]


def _terms(shape: ModelShape, layer: LayerShape) -> list[str]:
    rows = [(term.name, count_text(term.width), bytes_text(term.bytes(shape.tokens))) for term in layer.terms]
    if not rows:
        return wrapped(f"{layer.kind}: unknown, not counted", indent="  ")
    rows.append(("layer", count_text(layer.width), bytes_text(layer.bytes(shape.tokens))))
    rows.append(("times the residual stream", ratio_text(layer.width / shape.hidden), ""))
    return table((layer.kind, "values", "bytes"), rows)


def _kernels(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    """From the plain count to what these kernels keep."""
    found = changes(shape, asked.kernels, asked.facts)
    if not found:
        return []
    full = with_kernels(shape, asked.kernels, asked.facts)
    before, after = predict(shape), predict(full, plan)
    rows = [("by widths, all layers", bytes_text(before.total_bytes))]
    rows += [(f"{each.name} ({each.layers})", difference_text(each.bytes)) for each in found]
    rows += [("with kernels, all layers", bytes_text(after.total_bytes))]
    rows += [("with kernels, checkpointed peak", bytes_text(after.checkpointed_peak_bytes))]
    behind = outside(shape, asked.kernels, asked.facts)
    rows += [(f"outside layers: {term.name}", bytes_text(term.bytes(shape.tokens))) for term in behind]
    mark = "" if asked.kernels.measured else f" ({ESTIMATE})"
    return section(f"What kernels keep{mark}: {asked.kernels}", table(("", "bytes"), rows))


def _budget(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    full = with_kernels(shape, asked.kernels, asked.facts)
    plain = budget(shape, plan, asked.parallel)
    kernels = replace(plain, activations=activations(full, plan, asked.parallel))
    rows = [(*row, "" if row[0] != "activations" else bytes_text(kernels.activations or 0))
            for row in budget_rows(plain)]  # fmt: skip
    parameters = count_text(shape.parameters)
    title = f"Budget of one rank of {asked.parallel.ranks} ({_degrees(asked.parallel)}): {parameters} parameters,"
    head = ("", "by widths", "with kernels (estimate)")
    return section(f"{title} 16 bytes of state each", table(head, rows))


def _degrees(parallel: Parallel) -> str:
    said = [f"ZeRO stage {parallel.zero}"]
    for name in ("data", "tensor", "sequence", "pipeline", "microbatches"):
        if getattr(parallel, name) > 1:
            said.append(f"{name} {getattr(parallel, name)}")
    return ", ".join(said)


def _stages(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    if asked.parallel.pipeline == 1:
        return []
    own, cut = asked.parallel.stage(shape, plan)
    said = predict(own, cut)
    rows = [
        (f"stage {stage}", str(count), bytes_text(peak_in_flight(said, count)))
        for stage, count in enumerate(in_flight(asked.parallel))
    ]
    head = ("one forward, one backward each", "microbatches in flight", "activations")
    return section("Pipeline, by widths, as if every stage were as large as the first", table(head, rows))


def _alternatives(shape: ModelShape, plan: Plan, asked: Asked) -> list[str]:
    found = alternatives(shape, plan, asked.parallel, asked.kernels, asked.facts)
    rows = [(each.name, difference_text(-each.saved_bytes)) for each in found]
    lines = table(("by shapes, one rank (estimates)", "bytes"), rows)
    return section("What else would help", [*lines, *(t for each in found for t in wrapped(each.text, indent="  "))])


def budget_rows(budget: Budget) -> list[tuple[str, str]]:
    """The lines of a budget; what shapes do not say is left open."""
    out = []
    for name, size in budget.lines():
        mark = " (estimate)" if name == "communication" and size is not None else ""
        out.append((name + mark, "not from shapes" if size is None else bytes_text(size)))
    return out


def predict_json(shape: ModelShape, plan: Plan, asked: Asked) -> dict[str, Any]:
    """The object that `memstrata predict --json` prints, exact integers; `estimate` marks what was not measured."""
    full = with_kernels(shape, asked.kernels, asked.facts)
    after = predict(full, plan)
    lines = budget(shape, plan, asked.parallel)
    return predict(shape, plan).as_json() | {
        "assumptions": list(shape.assumptions),
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
            "outside_layers": {
                term.name: term.bytes(shape.tokens) for term in outside(shape, asked.kernels, asked.facts)
            },
        },
        "budget": {
            "ranks": asked.parallel.ranks,
            **{f"{name.replace(' ', '_')}_bytes": size for name, size in lines.lines()},
            "communication_is_estimate": lines.communication is not None,
        },
        "microbatches_in_flight": in_flight(asked.parallel),
        "alternatives": [_alternative(each) for each in
                         alternatives(shape, plan, asked.parallel, asked.kernels, asked.facts)],
    }  # fmt: skip


def _alternative(each: Alternative) -> dict[str, Any]:
    return {"name": each.name, "saved_bytes": each.saved_bytes, "estimate": True, "text": each.text}
