"""The arithmetic of a preset in 80 columns."""

from __future__ import annotations

from memstrata.capture.format.plan import ModelShape, Plan

from ..analysis.budget import Budget, sharded_state
from ..analysis.prediction import predict
from ..analysis.shape import not_counted
from ..look.units import bytes_text, count_text, ratio_text
from .layout import joined, section, table, wrapped
from .text import prediction_rows

RANKS = 64


def predict_text(preset: str, shape: ModelShape, plan: Plan) -> str:
    """What the shapes of a preset say under a plan: answer, arithmetic, and the budget it is one line of."""
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
    model = f"{preset}: {layers}, hidden {shape.hidden}, {tokens}"
    lines = [*wrapped(model), *wrapped(answer)]
    lines += section("Activations", table(("", "bytes"), prediction_rows(prediction, len(plan.segments))))
    lines += section("One layer, values per token", _terms(shape))
    budget = sharded_state(shape.parameters, RANKS, prediction.checkpointed_peak_bytes)
    title = f"Budget of one rank of {RANKS}: {count_text(shape.parameters)} parameters, 16 bytes of state each, sharded"
    lines += section(title, table(("", "bytes"), budget_rows(budget)))
    for assumption in shape.assumptions:
        lines += wrapped(f"assumed: {assumption}", indent="  ")
    return joined(lines)


def _terms(shape: ModelShape) -> list[str]:
    layer = next((layer for layer in shape.layers if layer.terms), shape.layers[0])
    rows = [(term.name, count_text(term.width), bytes_text(term.bytes(shape.tokens))) for term in layer.terms]
    if not rows:
        return ["  no layer is of a kind that is known"]
    rows.append(("layer", count_text(layer.width), bytes_text(layer.bytes(shape.tokens))))
    rows.append(("times the residual stream", ratio_text(layer.width / shape.hidden), ""))
    return table((layer.kind, "values", "bytes"), rows)


def budget_rows(budget: Budget) -> list[tuple[str, str]]:
    """The lines of a budget; what shapes do not say is left open."""
    return [(name, "not from shapes" if size is None else bytes_text(size)) for name, size in budget.lines()]
